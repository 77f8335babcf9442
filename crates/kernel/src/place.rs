//! From an address to what lies there: variable, per-CPU variable, slab object, `struct page`, page of some use.

mod behind;

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Range};

use tussle_evidence::ObjectKind;

use crate::image::{KernelImage, KernelTypes};
use crate::lives::{Lives, Span};
use crate::memory::Memory;
use crate::slab::{PAGE, SlabObject, Slabs};
use crate::stream::{Hook, HookKind, Stream};
use crate::typed::Pointed;
pub use crate::wish::{OfCache, TypeWish};

/// How far behind the pointer that leads to it boot memory of unknown size may reach.
const BOOT_BLOCK_MAX: u64 = 64 << 20;

/// Largest bucket of a table from the boot allocator (`struct inet_bind_hashbucket`: a lock and a list's head).
const BUCKET_MAX: u64 = 16;

/// What holds a file's bytes, or a file system's own blocks.
pub(crate) const FILE_PAGE: &str = "page of the page cache";
/// What is said of pages that nothing tells the use of.
pub(crate) const OWNERLESS: &str = "page without an owner at the end";
/// And of those that the boot allocator gave to somebody.
const RESERVED: &str = "boot memory";

/// What [`Atlas::place`] calls pages of which their `struct page` tells nothing.
pub(crate) fn is_nobodys(name: &str) -> bool {
    name == OWNERLESS || name == RESERVED
}

/// What is said of a `struct page`.
const PAGE_ARRAY: &str = "the array of all struct page";

/// How an address was explained; counted and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// Variable of the kernel image.
    Variable,
    /// Per-CPU variable or allocation.
    PerCpu,
    /// Object of a cache with one type.
    Slab,
    /// General-purpose object with the function that allocated it.
    AllocationSite,
    /// General-purpose object of which nobody saw the allocation.
    GeneralCache,
    /// `struct page`.
    PageStruct,
    /// Memory behind a global pointer.
    BootMemory,
    /// Page contents: user memory, page cache, page tables.
    Page,
    /// Nothing fits.
    Nothing,
}

impl How {
    /// The address has an owner that a developer can find.
    pub fn is_attributed(self) -> bool {
        !matches!(self, How::Nothing | How::GeneralCache)
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            How::Variable => "global variables",
            How::PerCpu => "per-CPU memory",
            How::Slab => "typed slab objects",
            How::AllocationSite => "kmalloc objects by allocation site",
            How::GeneralCache => "kmalloc objects of unknown origin",
            How::PageStruct => "struct page",
            How::BootMemory => "boot memory behind a global pointer",
            How::Page => "page contents",
            How::Nothing => "unattributed",
        }
    }
}

/// When something is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct When {
    /// Accesses of all vCPUs before the window's start and before its end.
    pub window: (u64, u64),
    /// Number of the slab object's life, as the stream has it.
    pub born: u32,
}

/// Which of the objects that lay at one address, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Life {
    /// Number of the life, 0 for what was there at the start marker.
    pub number: u32,
    /// Accesses of all vCPUs before it began.
    pub from: u64,
    /// And before the next one began.
    pub to: Option<u64>,
    /// vCPU that allocated it, where that was seen.
    pub vcpu: Option<u16>,
}

/// What lies at an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// Kind of memory.
    pub kind: ObjectKind,
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Variable or cache.
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeWish,
    /// Why, for people.
    pub why: String,
    /// Alignment that its allocator guarantees.
    pub align: u64,
    /// Allocation function and return address in its caller.
    pub site: Option<(String, u64)>,
    /// Bytes that were asked for, or that a cache was made for; 0 where unknown.
    pub asked: u32,
    /// Where a free object keeps the free list's pointer, from its first byte; of slab objects.
    pub free_pointer: Option<u64>,
    /// Which life of a slab's slot; elsewhere the whole run.
    pub life: Life,
    /// A struct that a global pointer leads to here; to be confirmed by the accessing code.
    pub pointed: Option<Pointed>,
    /// How it was found.
    pub how: How,
}

/// Everything that says what lies where.
pub struct Atlas<'a> {
    image: &'a KernelImage,
    memory: Memory<'a>,
    /// The slab allocator.
    pub slabs: Slabs<'a>,
    lives: Lives,
    per_cpu: Vec<u64>,
    /// Link addresses of per-CPU variables: from 0 on until Linux 6.14, since then amid the image's other data.
    per_cpu_section: Range<u64>,
    /// Pointer values of global variables in ascending order: name of the variable, struct behind it.
    roots: BTreeMap<u64, (String, Option<String>, u64)>,
    /// The same of pointers to structs, also those inside of global structs: where arrays may begin.
    arrays: BTreeMap<u64, (Pointed, u64)>,
    /// Where pointers in global variables lead, until they are followed.
    led: Vec<(u64, Pointed)>,
    /// Allocations by the object's address, in order of time.
    allocations: HashMap<u64, Vec<Hook>>,
    /// The same for per-CPU memory, whose addresses are relative.
    per_cpu_allocations: BTreeMap<u64, Hook>,
    allocators: &'a [Allocator],
    /// Mask of `PG_reserved`.
    reserved: u64,
}

/// A hooked allocation function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Number in hook records.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// What it hands out.
    pub gives: Gives,
}

/// What an allocation function hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Objects of general caches.
    Object,
    /// Per-CPU memory.
    PerCpu,
    /// Slabs.
    Slab,
}

impl<'a> Atlas<'a> {
    /// Reads the guest's state; [`Atlas::follow`] comes next.
    pub fn new(
        image: &'a KernelImage,
        types: &KernelTypes,
        memory: Memory<'a>,
        stream: &Stream,
        allocators: &'a [Allocator],
        vcpus: u64,
    ) -> Atlas<'a> {
        let makers: Vec<u32> = numbers(allocators, Gives::Slab);
        let slabs = Slabs::read(image, types, memory, stream, &makers);
        // A kernel for one CPU has no such array, and no per-CPU memory.
        let offsets = image.label("__per_cpu_offset");
        let per_cpu = (0..vcpus).map_while(|cpu| memory.u64(offsets?.checked_add(8 * cpu)?)).collect();
        let mut atlas = Atlas {
            image,
            memory,
            slabs,
            lives: Lives::read(stream),
            per_cpu,
            per_cpu_section: image.label("__per_cpu_start").unwrap_or(0)
                ..image.label("__per_cpu_end").unwrap_or(0),
            roots: BTreeMap::new(),
            arrays: BTreeMap::new(),
            led: Vec::new(),
            allocations: HashMap::new(),
            per_cpu_allocations: BTreeMap::new(),
            allocators,
            reserved: 0,
        };
        atlas.reserved = atlas.reserved_mask();
        atlas.read_allocations(stream);
        atlas
    }

    fn read_allocations(&mut self, stream: &Stream) {
        let per_cpu = numbers(self.allocators, Gives::PerCpu);
        let slabs = numbers(self.allocators, Gives::Slab);
        for h in stream.hooks.iter().filter(|h| h.kind == HookKind::Alloc) {
            if per_cpu.contains(&h.function) {
                self.per_cpu_allocations.insert(h.a, *h);
            } else if !slabs.contains(&h.function) {
                self.allocations.entry(h.a).or_default().push(*h);
            }
        }
    }

    /// What lies at an address at some time.
    pub fn place(&self, address: u64, when: When) -> Owner {
        if address >= 0xffff_ffff_8000_0000 {
            return self.variable(address).unwrap_or_else(|| nothing(address));
        }
        if let Some(place) = self.per_cpu(address) {
            return place;
        }
        if let Some((base, size)) = self.slabs.page_struct(address) {
            return Owner {
                kind: ObjectKind::Mapped,
                base,
                size,
                name: None,
                ty: TypeWish::Named(vec!["page".into()]),
                why: PAGE_ARRAY.into(),
                align: size & size.wrapping_neg(),
                site: None,
                asked: 0,
                free_pointer: None,
                life: Life::default(),
                pointed: None,
                how: How::PageStruct,
            };
        }
        if let Some(place) = self.object_of_life(address, when) {
            return place;
        }
        if let Some(object) = self.slabs.object(address, when.window) {
            let mut place = self.slab(object, self.allocation_in(object.start, when));
            place.life.to = self.lives.first_end(object.start).filter(|_| !object.past);
            return place;
        }
        self.boot_memory(address).or_else(|| self.page(address)).unwrap_or_else(|| nothing(address))
    }

    fn variable(&self, address: u64) -> Option<Owner> {
        let all = self.image.symbols.static_variables();
        let end = all.partition_point(|v| v.svma <= address);
        let (v, size) = all[..end].iter().rev().take(4).find_map(|v| {
            let size = v.size?;
            (address - v.svma < size).then_some((v, size))
        })?;
        Some(self.of_variable(&v.name, v.svma, size, v.ty, ObjectKind::Global, How::Variable))
    }

    fn of_variable(
        &self,
        name: &str,
        base: u64,
        size: u64,
        entry: Option<usize>,
        kind: ObjectKind,
        how: How,
    ) -> Owner {
        Owner {
            kind,
            base,
            size,
            name: Some(name.into()),
            ty: entry.map_or(TypeWish::Unknown, TypeWish::Entry),
            why: match entry {
                Some(_) => "the variable's type in the debug information",
                None => "symbol table only",
            }
            .into(),
            align: (base & base.wrapping_neg()).clamp(1, PAGE),
            site: None,
            asked: 0,
            free_pointer: None,
            life: Life::default(),
            pointed: None,
            how,
        }
    }

    fn per_cpu(&self, address: u64) -> Option<Owner> {
        let all = self.image.symbols.static_variables();
        for &offset in &self.per_cpu {
            let at = address.wrapping_sub(offset);
            if self.per_cpu_section.contains(&at) {
                let end = all.partition_point(|v| v.svma <= at);
                let found =
                    all[..end].iter().rev().take(4).find(|v| v.size.is_some_and(|s| at - v.svma < s))?;
                let (size, base) = (found.size?, offset.wrapping_add(found.svma));
                let (kind, how) = (ObjectKind::PerCpu, How::PerCpu);
                return Some(self.of_variable(&found.name, base, size, found.ty, kind, how));
            }
        }
        self.per_cpu.iter().find_map(|offset| self.per_cpu_allocation(address, *offset))
    }

    fn per_cpu_allocation(&self, address: u64, offset: u64) -> Option<Owner> {
        let at = address.wrapping_sub(offset);
        let (start, size, hook) = around(&self.per_cpu_allocations, at)?;
        let name = self.site_name(hook.b);
        Some(Owner {
            kind: ObjectKind::PerCpu,
            base: offset.wrapping_add(start),
            size,
            name: Some(format!("per-CPU memory of {name}")),
            ty: TypeWish::Unknown,
            why: "the allocation was seen; its size reaches to the next one".into(),
            align: 8,
            site: Some((self.allocator(hook.function), hook.b)),
            asked: 0,
            free_pointer: None,
            life: Life::default(),
            pointed: None,
            how: How::PerCpu,
        })
    }

    /// The slab object whose allocation or release between the markers was seen.
    fn object_of_life(&self, address: u64, when: When) -> Option<Owner> {
        let span = self.lives.get(when.born)?;
        if address.checked_sub(span.object)? >= u64::from(span.bytes) {
            return None;
        }
        let at = span.allocated.unwrap_or(span.from);
        let object = self.slabs.object(span.object, (at, at)).filter(|o| o.start == span.object)?;
        let mut place = self.slab(object, self.allocation_of(span));
        place.life = Life { number: when.born, from: span.from, to: span.to, vcpu: span.vcpu };
        Some(place)
    }

    fn slab(&self, object: SlabObject, allocation: Option<&Hook>) -> Owner {
        let cache = &self.slabs.caches[object.cache];
        let stride = cache.stride.max(1);
        let mut place = Owner {
            kind: ObjectKind::Slab,
            base: object.start,
            size: stride,
            name: None,
            ty: TypeWish::Cache(OfCache::new(&cache.name)),
            why: match object.past {
                false => format!("object of the cache {}", cache.name),
                true => {
                    format!("object of the cache {}, whose pages were given back before the end", cache.name)
                }
            },
            align: (stride & stride.wrapping_neg()).min(PAGE),
            site: None,
            asked: u32::try_from(cache.object_size).unwrap_or(0),
            // The cache of all caches holds the allocator's own fields, touched by the same functions.
            free_pointer: (cache.name != "kmem_cache").then_some(cache.free_pointer),
            life: Life::default(),
            pointed: None,
            how: How::Slab,
        };
        if !cache.is_general() {
            return place;
        }
        (place.ty, place.asked) = (TypeWish::Unknown, 0);
        match allocation {
            Some(h) => {
                place.site = Some((self.allocator(h.function), h.b));
                place.asked = h.bytes;
                place.name = Some(format!("{} in {}", cache.name, self.site_name(h.b)));
                place.how = How::AllocationSite;
            }
            None => {
                place.name = Some(cache.name.clone());
                place.how = How::GeneralCache;
            }
        }
        place
    }

    /// The allocation of a life; of a free slot the latest one before. The outermost allocator speaks last.
    fn allocation_of(&self, span: &Span) -> Option<&Hook> {
        let all = self.allocations.get(&span.object)?;
        // The next life's allocation comes at the earliest with its beginning, in which this one ends.
        let end = all.partition_point(|h| h.accesses <= span.allocated.unwrap_or(span.from));
        all[..end].last().or(all.first())
    }

    /// The allocation of an object that lived at the start marker; on pages that changed hands, the latest before.
    fn allocation_in(&self, start: u64, when: When) -> Option<&Hook> {
        let all = self.allocations.get(&start)?;
        let before = all.partition_point(|h| h.accesses == 0);
        let latest = all.partition_point(|h| h.accesses <= when.window.1);
        all[..before].last().or(all[..latest].last()).or(all.first())
    }

    /// The same lies at an address for the whole run, but for lives of slab objects.
    pub fn is_steady(&self, address: u64) -> bool {
        !self.slabs.changed_hands(address)
    }

    fn allocator(&self, number: u32) -> String {
        self.allocators.iter().find(|a| a.number == number).map(|a| a.name.clone()).unwrap_or_default()
    }

    /// The function that called an allocator, with inlined functions looked through to the innermost.
    fn site_name(&self, address: u64) -> String {
        let frames = self.image.symbols.frames(address.wrapping_sub(1));
        let name = frames.iter().map(|f| f.function.as_str()).find(|f| !is_wrapper(f));
        match (name, self.image.function_at(address)) {
            (Some(n), _) => n.into(),
            (None, Some(f)) => f.name.clone(),
            (None, None) => format!("{address:#x}"),
        }
    }

    fn boot_memory(&self, address: u64) -> Option<Owner> {
        let (start, (name, behind, size)) = self.roots.range(..=address).next_back()?;
        let offset = address - start;
        let in_use = self.slabs.page_of(address).map(|page| self.page_use(page));
        if !in_use.is_some_and(is_nobodys) {
            // Given back after the boot, and user memory or page cache by now.
            return None;
        }
        let known = *size > 0 && offset < *size;
        // Behind one large struct comes the boot allocator's next customer; small ones are buckets of a table.
        let is_table = *size <= BUCKET_MAX;
        if !known && (!is_table || offset >= BOOT_BLOCK_MAX || !self.is_reserved(*start, address)) {
            return None;
        }
        let named = behind.iter().filter(|_| known).cloned().collect::<Vec<_>>();
        Some(Owner {
            kind: ObjectKind::Global,
            base: *start,
            size: if known { *size } else { offset / 64 * 64 + 64 },
            name: Some(format!("*{name}")),
            ty: if named.is_empty() { TypeWish::Unknown } else { TypeWish::Named(named) },
            why: format!("memory behind the global pointer {name}"),
            align: 64,
            site: None,
            asked: 0,
            free_pointer: None,
            life: Life::default(),
            pointed: None,
            how: How::BootMemory,
        })
    }

    /// Both pages were taken by the boot allocator: nobody ever freed them, and no cache owns them.
    fn is_reserved(&self, start: u64, address: u64) -> bool {
        let reserved = |a: u64| {
            let flags = self.slabs.page_of(a).and_then(|p| self.memory.u64(p));
            flags.is_some_and(|f| f & self.reserved != 0)
        };
        reserved(start) && reserved(address)
    }

    /// The mask of `PG_reserved`, whose number changes between versions: the pages of the kernel's own text are
    /// reserved and nothing else, so it is the lowest flag there. 0 when the text cannot be found.
    fn reserved_mask(&self) -> u64 {
        let text = self.image.label("_text").and_then(|at| self.memory.translate(at));
        let flags =
            text.and_then(|at| self.slabs.page_at(at)).and_then(|page| self.memory.u64(page)).unwrap_or(0);
        let low = flags & 0x00ff_ffff;
        low & low.wrapping_neg()
    }

    /// A page that belongs to no cache: its `struct page` tells what it is used for at the end of the run.
    fn page(&self, address: u64) -> Option<Owner> {
        let page = self.slabs.page_of(address)?;
        let base = address / PAGE * PAGE;
        let seen = self.allocations.get(&base).and_then(|all| all.last());
        let what = self.page_use(page);
        let mut place = Owner {
            kind: ObjectKind::Mapped,
            base,
            size: PAGE,
            name: Some(what.into()),
            ty: TypeWish::Unknown,
            why: "no slab at any time of the run; by its struct page at the end".into(),
            align: PAGE,
            site: None,
            asked: 0,
            free_pointer: None,
            life: Life::default(),
            pointed: None,
            how: How::Page,
        };
        if is_nobodys(what) {
            // Nobody's: shown as it is, counted as unknown.
            place.kind = ObjectKind::Unknown;
        }
        if let Some((base, size, pointed)) = self.element(address).filter(|_| seen.is_none()) {
            (place.base, place.size, place.align) = (base, size, size & size.wrapping_neg());
            place.pointed = Some(pointed);
        }
        if let Some(h) = seen {
            place.kind = ObjectKind::Mapped;
            place.name = Some(format!("pages in {}", self.site_name(h.b)));
            place.site = Some((self.allocator(h.function), h.b));
            place.how = How::AllocationSite;
        }
        Some(place)
    }

    fn page_use(&self, page: u64) -> &'static str {
        let flags = self.memory.u64(page).unwrap_or(0);
        let mapping = self.memory.u64(page + 24).unwrap_or(0);
        match mapping & 3 {
            1 => "anonymous user page",
            0 if mapping > 0xffff_8000_0000_0000 => FILE_PAGE,
            _ if flags & self.reserved != 0 => RESERVED,
            _ => OWNERLESS,
        }
    }
}

/// The allocation that an address lies in: start, bytes up to the next one or a page, and what is known of it. Of other
/// CPUs' memory `at` may be any number.
fn around<T>(allocations: &BTreeMap<u64, T>, at: u64) -> Option<(u64, u64, &T)> {
    let (start, of) = allocations.range(..=at).next_back()?;
    let next = allocations.range((Bound::Excluded(at), Bound::Unbounded)).next().map_or(u64::MAX, |n| *n.0);
    let size = (next - start).min(PAGE);
    (at - start < size).then_some((*start, size, of))
}

/// Helpers that allocate for others: not what a developer looks for.
fn is_wrapper(function: &str) -> bool {
    let stem = function.trim_end_matches("_noprof");
    const WRAPPERS: &[&str] = &[
        "kmalloc",
        "kzalloc",
        "kcalloc",
        "kmalloc_array",
        "kmalloc_node",
        "kzalloc_node",
        "kcalloc_node",
        "kmalloc_array_node",
        "kvmalloc",
        "kvzalloc",
        "kvmalloc_node",
        "kvmalloc_array",
        "kvcalloc",
        "kmemdup",
        "kstrdup",
        "kstrdup_const",
        "kvasprintf",
        "kvasprintf_const",
        "kasprintf",
        "kmemdup_nul",
        "percpu_counter_init_many",
        "__percpu_counter_init",
        "__percpu_counter_init_many",
        "kmem_cache_zalloc",
    ];
    WRAPPERS.contains(&stem.trim_start_matches("__")) || WRAPPERS.contains(&stem)
}

fn numbers(allocators: &[Allocator], gives: Gives) -> Vec<u32> {
    allocators.iter().filter(|a| a.gives == gives).map(|a| a.number).collect()
}

fn nothing(address: u64) -> Owner {
    Owner {
        kind: ObjectKind::Unknown,
        base: address / 64 * 64,
        size: 64,
        name: None,
        ty: TypeWish::Unknown,
        why: "no variable, slab or page explains this address".into(),
        align: 64,
        site: None,
        asked: 0,
        free_pointer: None,
        life: Life::default(),
        pointed: None,
        how: How::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_memory_reaches_to_the_next_allocation_or_a_page() {
        let of = BTreeMap::from([(64, 'a'), (96, 'b')]);
        let found = |at| around(&of, at).map(|(start, size, of)| (start, size, *of));
        assert_eq!(found(63), None);
        assert_eq!(found(95), Some((64, 32, 'a')));
        assert_eq!(found(96 + PAGE - 1), Some((96, PAGE, 'b')));
        assert_eq!(found(96 + PAGE), None);
        assert_eq!(found(u64::MAX), None, "another CPU's memory lies below this one's");
    }
}
