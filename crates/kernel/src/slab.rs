//! The slab allocator's state: caches, and from an address to its cache and object.

use std::collections::{BTreeMap, HashMap};

use crate::image::{ImageError, KernelImage, KernelTypes};
use crate::memory::Memory;
use crate::stream::{HookKind, Stream};

/// A kernel has some hundred caches.
const CACHES_MAX: usize = 4096;
/// Largest slab: 2^8 pages.
const ORDER_MAX: u32 = 8;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Names of structs that [`Slabs::read`] needs.
pub const WALKED: [&str; 3] = ["kmem_cache", "slab", "page"];

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its `struct kmem_cache`.
    pub address: u64,
    /// `vm_area_struct`, `kmalloc-64`.
    pub name: String,
    /// Distance between objects, bytes.
    pub stride: u64,
    /// Bytes of an object that its user may use.
    pub object_size: u64,
    /// Offset of the free-list pointer in a free object.
    pub free_pointer: u64,
    /// Has a constructor.
    pub constructor: bool,
    /// `SLAB_TYPESAFE_BY_RCU`.
    pub typesafe_by_rcu: bool,
}

impl Cache {
    /// One of the general caches, whose objects have any type.
    pub fn is_general(&self) -> bool {
        self.name.starts_with("kmalloc-") || self.name.starts_with("dma-kmalloc-")
    }
}

/// An object of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabObject {
    /// Index into [`Slabs::caches`].
    pub cache: usize,
    /// First byte.
    pub start: u64,
    /// Some time during the run the pages belonged to this cache, but not at its end.
    pub past: bool,
}

/// When the pages of a slab had an owner.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Accesses of all vCPUs before.
    from: u64,
    to: u64,
    cache: Option<usize>,
}

/// Offsets of what is read of each page.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    page_size: u64,
    compound_head: u64,
    slab_cache: u64,
}

/// All caches and who owned which page.
#[derive(Debug)]
pub struct Slabs<'m> {
    /// In the kernel's order.
    pub caches: Vec<Cache>,
    memory: Memory<'m>,
    by_address: HashMap<u64, usize>,
    offsets: Offsets,
    direct_map: u64,
    page_array: u64,
    /// By the first page's address: owners in order of time.
    history: BTreeMap<u64, Vec<Span>>,
}

impl<'m> Slabs<'m> {
    /// Reads the list of caches, and from the stream which slabs came and went.
    ///
    /// # Errors
    /// A member that is needed is not there.
    pub fn read(
        image: &KernelImage,
        types: &KernelTypes,
        memory: Memory<'m>,
        stream: &Stream,
        slab_makers: &[u32],
    ) -> Result<Slabs<'m>, ImageError> {
        let caches = caches(image, types, memory)?;
        let label = |name| image.label(name).ok_or(ImageError::Symbol(name));
        let pointer = |name| label(name).map(|at| memory.u64(at).unwrap_or(0));
        let page = types.named("page").and_then(|t| types.table.size(t));
        let offsets = Offsets {
            page_size: page.filter(|s| *s > 0).ok_or(ImageError::Member("page", "flags"))?,
            compound_head: types.member("page", "compound_head")?.0,
            slab_cache: types.member("slab", "slab_cache")?.0,
        };
        let by_address = caches.iter().enumerate().map(|(i, c)| (c.address, i)).collect();
        let mut slabs = Slabs {
            caches,
            memory,
            by_address,
            offsets,
            direct_map: pointer("page_offset_base")?,
            page_array: pointer("vmemmap_base")?,
            history: BTreeMap::new(),
        };
        slabs.read_history(stream, slab_makers);
        Ok(slabs)
    }

    fn read_history(&mut self, stream: &Stream, slab_makers: &[u32]) {
        for h in &stream.hooks {
            match h.kind {
                HookKind::Alloc if slab_makers.contains(&h.function) => {
                    let Some(first) = self.page_address(h.a) else { continue };
                    let span = Span { from: h.accesses, to: u64::MAX, cache: None };
                    self.history.entry(first).or_default().push(span);
                }
                HookKind::Free => {
                    let cache = self.by_address.get(&h.a).copied();
                    let (Some(first), Some(cache)) = (self.page_address(h.b), cache) else { continue };
                    let spans = self.history.entry(first).or_default();
                    match spans.last_mut().filter(|s| s.to == u64::MAX) {
                        Some(s) => (s.to, s.cache) = (h.accesses, Some(cache)),
                        None => spans.push(Span { from: 0, to: h.accesses, cache: Some(cache) }),
                    }
                }
                _ => {}
            }
        }
    }

    /// Address in the direct map of the page that a `struct page` describes.
    pub fn page_address(&self, page: u64) -> Option<u64> {
        let index = page.checked_sub(self.page_array)? / self.offsets.page_size;
        let bytes = index.checked_mul(PAGE).filter(|b| *b < self.memory.size())?;
        self.direct_map.checked_add(bytes)
    }

    /// The `struct page` of an address in the direct map.
    pub fn page_of(&self, address: u64) -> Option<u64> {
        let bytes = address.checked_sub(self.direct_map).filter(|b| *b < self.memory.size())?;
        Some(self.page_array + bytes / PAGE * self.offsets.page_size)
    }

    /// The `struct page` of a physical address.
    pub fn page_at(&self, physical: u64) -> Option<u64> {
        (physical < self.memory.size()).then(|| self.page_array + physical / PAGE * self.offsets.page_size)
    }

    /// The `struct page` that holds an address in the array of them.
    pub fn page_struct(&self, address: u64) -> Option<(u64, u64)> {
        let offset = address.checked_sub(self.page_array)?;
        let pages = self.memory.size() / PAGE;
        let index = offset / self.offsets.page_size;
        (index < pages).then(|| (self.page_array + index * self.offsets.page_size, self.offsets.page_size))
    }

    /// The first page of the compound page.
    pub fn head_of(&self, page: u64) -> u64 {
        match self.memory.u64(page + self.offsets.compound_head) {
            Some(head) if head & 1 == 1 => head - 1,
            _ => page,
        }
    }

    /// The object at an address during a window, given in accesses of all vCPUs before its start and its end.
    pub fn object(&self, address: u64, window: (u64, u64)) -> Option<SlabObject> {
        let at_end = self.object_at_end(address);
        let Some((first, spans)) = self.spans(address) else { return at_end };
        // A page that changes hands within the window goes to the earlier owner; what ended before the window, or at
        // boot (0), is over.
        let span = spans.iter().find(|s| s.to > window.0 && s.from <= window.1)?;
        match span.cache {
            Some(cache) => self.place(cache, first, address, true),
            None => at_end,
        }
    }

    /// Pages at an address came to or left a cache during the run.
    pub fn changed_hands(&self, address: u64) -> bool {
        self.spans(address).is_some()
    }

    fn spans(&self, address: u64) -> Option<(u64, &Vec<Span>)> {
        self.page_of(address)?;
        (0..ORDER_MAX).find_map(|order| {
            let first = address & !((PAGE << order) - 1);
            self.history.get_key_value(&first).map(|(k, v)| (*k, v))
        })
    }

    fn object_at_end(&self, address: u64) -> Option<SlabObject> {
        let head = self.head_of(self.page_of(address)?);
        let cache = self.memory.u64(head + self.offsets.slab_cache)?;
        let cache = self.by_address.get(&cache).copied()?;
        self.place(cache, self.page_address(head)?, address, false)
    }

    fn place(&self, cache: usize, first: u64, address: u64, past: bool) -> Option<SlabObject> {
        let stride = self.caches.get(cache)?.stride.max(1);
        let start = first + address.checked_sub(first)? / stride * stride;
        Some(SlabObject { cache, start, past })
    }
}

fn caches(image: &KernelImage, types: &KernelTypes, memory: Memory) -> Result<Vec<Cache>, ImageError> {
    let head = image.label("slab_caches").ok_or(ImageError::Symbol("slab_caches"))?;
    let member = |name| types.member("kmem_cache", name);
    let (list, name, size, object_size) =
        (member("list")?.0, member("name")?.0, member("size")?, member("object_size")?);
    let (free, ctor, flags) = (member("offset")?, member("ctor")?.0, member("flags")?);
    let mut out = Vec::new();
    let mut at = memory.u64(head).unwrap_or(head);
    while at != head && at != 0 && out.len() < CACHES_MAX {
        let address = at.wrapping_sub(list);
        let number = |m: (u64, u64)| memory.number(address.wrapping_add(m.0), m.1).unwrap_or(0);
        let text = memory.u64(address.wrapping_add(name)).and_then(|p| memory.text(p, 64));
        out.push(Cache {
            address,
            name: text.unwrap_or_default(),
            stride: number(size),
            object_size: number(object_size),
            free_pointer: number(free),
            constructor: memory.u64(address.wrapping_add(ctor)).unwrap_or(0) != 0,
            // The one flag that matters; its value has been the same since 2.6 (include/linux/slab.h).
            typesafe_by_rcu: number(flags) & 0x0008_0000 != 0,
        });
        match memory.u64(at) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(out)
}

/// Structs that a cache of this name may hold, likeliest first. A kernel names most caches after their struct
/// (`KMEM_CACHE`); the rest of its names are listed here.
pub fn type_names(cache: &str) -> Vec<String> {
    const OTHER: &[(&str, &str)] = &[
        ("filp", "file"),
        ("cred_jar", "cred"),
        ("radix_tree_node", "xa_node"),
        ("shmem_inode_cache", "shmem_inode_info"),
        ("sock_inode_cache", "socket_alloc"),
        ("bdev_cache", "bdev_inode"),
        ("hugetlbfs_inode_cache", "hugetlbfs_inode_info"),
        ("mqueue_inode_cache", "mqueue_inode_info"),
        ("skbuff_head_cache", "sk_buff"),
        ("mnt_cache", "mount"),
        ("numa_policy", "mempolicy"),
        ("shared_policy_node", "sp_node"),
        ("uid_cache", "user_struct"),
        ("eventpoll_epi", "epitem"),
        ("Acpi-Namespace", "acpi_namespace_node"),
        ("Acpi-Operand", "acpi_operand_object"),
        ("TCP", "tcp_sock"),
        ("UDP", "udp_sock"),
        ("UNIX", "unix_sock"),
        ("page->ptl", "spinlock"),
        ("blkdev_ioc", "io_context"),
    ];
    let other = OTHER.iter().filter(|(name, _)| *name == cache).map(|(_, ty)| ty.to_string());
    let stem = cache.strip_suffix("_cache").unwrap_or(cache);
    let usual = [cache.to_string(), stem.into(), format!("{stem}_struct"), format!("{stem}_info")];
    let mut names: Vec<String> = other.chain(usual).collect();
    names.dedup();
    names
}
