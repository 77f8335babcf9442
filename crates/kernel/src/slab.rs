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

/// Offsets of what is read of each page; `None` where this kernel's structs have no member that is known here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(crate) page_size: u64,
    pub(crate) compound_head: Option<u64>,
    pub(crate) slab_cache: Option<u64>,
}

impl Offsets {
    /// Looks members up by all names that they have had; what is missing is told in words.
    pub(crate) fn read(types: &KernelTypes) -> (Offsets, Vec<ImageError>) {
        let mut missing = Vec::new();
        let mut one = |members: &[(&'static str, &'static str)]| {
            let found = members.iter().find_map(|(of, name)| types.member(of, name).ok());
            let first = members.first().map(|m| ImageError::Member(m.0, m.1));
            missing.extend(first.filter(|_| found.is_none()));
            found.map(|m| m.0)
        };
        let compound_head = one(&COMPOUND_HEAD);
        let slab_cache = one(&SLAB_CACHE);
        let page_size = types.named("page").and_then(|t| types.table.size(t)).unwrap_or(0);
        (Offsets { page_size, compound_head, slab_cache }, missing)
    }
}

/// A tail page's word that leads to its head. Renamed in Linux 7.3.
const COMPOUND_HEAD: [(&str, &str); 2] = [("page", "compound_head"), ("page", "compound_info")];

/// The cache of a slab's objects. `struct slab` came with Linux 5.17; before, all was in `struct page`.
const SLAB_CACHE: [(&str, &str); 2] = [("slab", "slab_cache"), ("page", "slab_cache")];

/// The head of a compound page, from a tail's word: its address, or since Linux 7.3 where `struct page` has a power
/// of two bytes, a mask for the tail's own address (`compound_info_has_mask()`). Bit 0 says that there is one. A
/// mask's top bits are all ones, so it lies above every page.
pub(crate) fn head(page: u64, word: u64) -> u64 {
    match (word & 1, word & !1) {
        (0, _) => page,
        (_, at) if at > page => page & at,
        (_, at) => at,
    }
}

/// Where the direct map and the array of page structs begin on x86-64 with four-level tables, unless the kernel moves
/// them (Documentation/arch/x86/x86_64/mm.rst).
pub(crate) const BASES: [(&str, u64); 2] =
    [("page_offset_base", 0xffff_8880_0000_0000), ("vmemmap_base", 0xffff_ea00_0000_0000)];

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
    /// What this kernel's structs lack; owners that hang on it are unknown.
    pub missing: Vec<ImageError>,
}

impl<'m> Slabs<'m> {
    /// Reads the list of caches, and from the stream which slabs came and went. What cannot be read is in `missing`,
    /// and no reason to say nothing of the rest.
    pub fn read(
        image: &KernelImage,
        types: &KernelTypes,
        memory: Memory<'m>,
        stream: &Stream,
        slab_makers: &[u32],
    ) -> Slabs<'m> {
        let (offsets, mut missing) = Offsets::read(types);
        let caches = caches(image, types, memory).unwrap_or_else(|why| {
            missing.push(why);
            Vec::new()
        });
        let [direct_map, page_array] = BASES
            .map(|(name, default)| image.label(name).map_or(default, |at| memory.u64(at).unwrap_or(default)));
        let by_address = caches.iter().enumerate().map(|(i, c)| (c.address, i)).collect();
        let mut slabs = Slabs {
            caches,
            memory,
            by_address,
            offsets,
            direct_map,
            page_array,
            history: BTreeMap::new(),
            missing,
        };
        slabs.read_history(stream, slab_makers);
        slabs
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
        let index = page.checked_sub(self.page_array)?.checked_div(self.offsets.page_size)?;
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
        let index = offset.checked_div(self.offsets.page_size)?;
        (index < pages).then(|| (self.page_array + index * self.offsets.page_size, self.offsets.page_size))
    }

    /// The first page of the compound page.
    pub fn head_of(&self, page: u64) -> u64 {
        let word = self.offsets.compound_head.and_then(|at| self.memory.u64(page.checked_add(at)?));
        head(page, word.unwrap_or(0))
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
        let cache = self.memory.u64(head.checked_add(self.offsets.slab_cache?)?)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    const PAGES: u64 = 0xffff_ea00_0000_0000;

    #[test]
    fn heads_by_address_and_by_mask() {
        let tail = PAGES + 0x40 * 13;
        assert_eq!(head(tail, 0xdead_4ead_0000_0100), tail, "no tail: a list's link");
        assert_eq!(head(tail, PAGES + 0x40 * 8 + 1), PAGES + 0x40 * 8, "until 7.2");
        // Order 3 of 64-byte structs: the head lies at a multiple of 512 bytes.
        assert_eq!(head(tail, !0x1ff | 1), PAGES + 0x40 * 8, "since 7.3");
    }

    /// Types of a kernel whose `struct page` and `struct slab` have these words from byte 8 on.
    fn types(page: &[&str], slab: &[&str]) -> KernelTypes {
        let mut s = Sample::new(1);
        let long = s.long();
        for (name, members) in [("page", page), ("slab", slab)] {
            let members: Vec<_> = members.iter().zip(1..).map(|(m, i)| (*m, long, 8 * i)).collect();
            if !members.is_empty() {
                s.structure(name, 64, &members);
            }
        }
        KernelTypes::of(s.evidence().types, HashMap::new())
    }

    #[test]
    fn an_unknown_layout_is_told_and_refuses_nothing() {
        let check = |page: &[&str], slab: &[&str], want: (Option<u64>, Option<u64>), missing: &[&str]| {
            let (o, said) = Offsets::read(&types(page, slab));
            assert_eq!((o.compound_head, o.slab_cache), want);
            let said: Vec<String> = said.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), missing.len(), "{said:?}");
            assert!(said.iter().zip(missing).all(|(s, m)| s.contains(m)), "{said:?}");
        };
        check(&["compound_head"], &["slab_cache"], (Some(8), Some(8)), &[]);
        check(&["compound_info"], &["slab_cache"], (Some(8), Some(8)), &[]);
        check(&["compound_head", "slab_cache"], &[], (Some(8), Some(16)), &[]);
        check(&["something"], &["slab_cache"], (None, Some(8)), &["struct page has no member compound_head"]);
        let both = ["struct page has no member compound_head", "struct slab has no member slab_cache"];
        check(&["something"], &[], (None, None), &both);
    }
}
