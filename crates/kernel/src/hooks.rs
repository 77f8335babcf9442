//! Which kernel functions the plugin watches, found in the symbol table by name.

use crate::image::{ImageError, KernelNames, KernelTypes};
use crate::place::{Allocator, Gives};
use crate::slab::{BASES, Offsets};

/// How the plugin learns the size that an allocator was asked for.
const UNSIZED: char = 'a';
const FIRST: char = 'b';
const THIRD: char = 'c';
const FOURTH: char = 'h';

/// Functions that hand out memory. Linux 6.10 added the suffix `_noprof` to the functions behind its allocation
/// profiling macros; both names are looked for and what a kernel does not have is skipped.
const ALLOCATORS: &[(&str, Gives, char)] = &[
    ("__kmalloc", Gives::Object, FIRST),
    ("__kmalloc_node", Gives::Object, FIRST),
    ("__kmalloc_node_track_caller", Gives::Object, FIRST),
    ("__kmalloc_large", Gives::Object, FIRST),
    ("__kmalloc_large_node", Gives::Object, FIRST),
    ("kmalloc_large", Gives::Object, FIRST),
    ("kmalloc_large_node", Gives::Object, FIRST),
    ("kmalloc_trace", Gives::Object, THIRD),
    ("kmalloc_node_trace", Gives::Object, FOURTH),
    ("__kmalloc_cache", Gives::Object, THIRD),
    ("__kmalloc_cache_node", Gives::Object, FOURTH),
    ("__kmalloc_flags", Gives::Object, FIRST),
    ("__kmalloc_nolock", Gives::Object, FIRST),
    ("kvmalloc_node", Gives::Object, FIRST),
    ("__kvmalloc_node", Gives::Object, FIRST),
    ("__alloc_percpu", Gives::PerCpu, FIRST),
    ("__alloc_percpu_gfp", Gives::PerCpu, FIRST),
    ("pcpu_alloc", Gives::PerCpu, FIRST),
    ("allocate_slab", Gives::Slab, UNSIZED),
];

/// The function that gives the pages of a slab back: (cache, slab).
const SLAB_RELEASE: &str = "__free_slab";

/// Functions that hand out and take back objects of caches, by what the plugin is to do with them.
const OBJECTS: &[(&str, char)] = &[
    ("kmem_cache_alloc", 'n'),
    ("kmem_cache_alloc_lru", 'n'),
    ("kmem_cache_alloc_node", 'n'),
    ("kmem_cache_alloc_bulk", 'N'),
    ("kmem_cache_alloc_from_sheaf", 'n'),
    ("kfree", 'd'),
    ("kfree_nolock", 'd'),
    // Objects that wait for readers in a sheaf of the CPU (since 6.18) come back without another call.
    ("__kfree_rcu_sheaf", 'e'),
    ("kmem_cache_free", 'e'),
    ("kmem_cache_free_bulk", 'D'),
];

/// A function that takes locks, its kind for the plugin, and whether its lock is then shared with others.
type LockFunction = (&'static str, char, bool);

/// Numbered by their place here, below 256.
const LOCKS: &[LockFunction] = &[
    ("mutex_lock", 'l', false),
    ("mutex_lock_interruptible", 'k', false),
    ("mutex_lock_killable", 'k', false),
    ("mutex_trylock", 't', false),
    ("down_read", 'l', true),
    ("down_read_interruptible", 'k', true),
    ("down_read_killable", 'k', true),
    ("down_read_trylock", 't', true),
    ("down_write", 'l', false),
    ("down_write_killable", 'k', false),
    ("down_write_trylock", 't', false),
    ("_raw_spin_lock", 'l', false),
    ("_raw_spin_lock_irq", 'l', false),
    ("_raw_spin_lock_irq_disable", 'l', false),
    ("_raw_spin_lock_irqsave", 'l', false),
    ("_raw_spin_lock_bh", 'l', false),
    ("_raw_spin_trylock", 't', false),
    ("_raw_spin_trylock_bh", 't', false),
    ("_raw_read_lock", 'l', true),
    ("_raw_read_lock_irq", 'l', true),
    ("_raw_read_lock_irqsave", 'l', true),
    ("_raw_read_lock_bh", 'l', true),
    ("_raw_read_trylock", 't', true),
    ("_raw_write_lock", 'l', false),
    ("_raw_write_lock_irq", 'l', false),
    ("_raw_write_lock_irqsave", 'l', false),
    ("_raw_write_lock_bh", 'l', false),
    ("_raw_write_lock_nested", 'l', false),
    ("_raw_write_trylock", 't', false),
];

/// Functions that release them.
const RELEASES: &[&str] = &[
    "mutex_unlock",
    "up_read",
    "up_write",
    "_raw_spin_unlock",
    "_raw_spin_unlock_irq",
    "_raw_spin_unlock_irq_enable",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_bh",
    "_raw_read_unlock",
    "_raw_read_unlock_irq",
    "_raw_read_unlock_irqrestore",
    "_raw_read_unlock_bh",
    "_raw_write_unlock",
    "_raw_write_unlock_irq",
    "_raw_write_unlock_irqrestore",
    "_raw_write_unlock_bh",
];

/// Where compilers end an acquiring or releasing function with a jump: the return lies here.
const TAILS: &[&str] = &[
    "__mutex_lock_slowpath",
    "__mutex_lock_interruptible_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock",
    "__mutex_unlock_slowpath",
    "rwsem_wake",
    "native_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
];

/// Early in the boot, before the kernel replaces them, returns are jumps to here.
const RETURN_THUNK: &str = "__x86_return_thunk";

/// Functions that tell a disk what to do begin so; each writes its registers with its own instructions.
const DRIVER: &str = "nvme_";

/// Interrupts of the timers.
const TICKS: &[&str] = &["sysvec_apic_timer_interrupt", "timer_interrupt"];

/// Entered on the stack of the task that is switched to.
const SWITCH: &str = "__switch_to";

/// What the plugin is told and what its numbers mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// Lines `kind start end number`, in order of address, as the plugin reads them.
    pub text: String,
    /// The allocators among them.
    pub allocators: Vec<Allocator>,
}

/// The numbered acquiring function takes its lock together with others.
pub fn is_shared(function: u32) -> Option<bool> {
    LOCKS.get(function as usize).map(|l| l.2)
}

/// Finds the functions in a kernel, and where it keeps the sizes of slab objects.
///
/// # Errors
/// The file has no debug information that serves.
pub fn hooks(image: &KernelNames, vmlinux: &[u8]) -> Result<Hooks, ImageError> {
    let types = KernelTypes::read(vmlinux, &crate::slab::WALKED.map(String::from), &[])?;
    let mut hooks = functions(image);
    hooks.text.insert_str(0, &geometry(image, &types).unwrap_or_default());
    if let Some(thunk) = image.label(RETURN_THUNK) {
        hooks.text.insert_str(0, &format!("x {thunk:x}\n"));
    }
    Ok(hooks)
}

/// The plugin's line about the slab allocator: addresses of the two bases or, below the kernel's image, the bases
/// themselves; size of a `struct page`; offsets. `None` where the layout is not known: then no object has lives.
fn geometry(image: &KernelNames, types: &KernelTypes) -> Option<String> {
    let (offsets, _) = Offsets::read(types);
    let [direct_map, page_array] = BASES.map(|(name, default)| image.label(name).unwrap_or(default));
    Some(format!(
        "g {direct_map:x} {page_array:x} {:x} {:x} {:x} {:x}\n",
        Some(offsets.page_size).filter(|s| *s > 0)?,
        offsets.compound_head?,
        offsets.slab_cache?,
        types.member("kmem_cache", "size").ok()?.0,
    ))
}

fn functions(image: &KernelNames) -> Hooks {
    let mut allocators = Vec::new();
    let driver = image.functions_beginning(DRIVER).map(|f| (f.start, 'i', f.end, u32::MAX));
    let mut lines: Vec<(u64, char, u64, u32)> = driver.collect();
    let mut add = |name: &str, kind: char, number: u32| {
        let before = lines.len();
        lines.extend(image.functions_named(name).map(|f| (f.start, kind, f.end, number)));
        lines.len() > before
    };
    for (name, gives, kind) in ALLOCATORS {
        for full in [name.to_string(), format!("{name}_noprof")] {
            let number = allocators.len() as u32;
            if add(&full, *kind, number) {
                let name = full.trim_start_matches("__").into();
                allocators.push(Allocator { number, name, gives: *gives });
            }
        }
    }
    add(SLAB_RELEASE, 'f', u32::MAX);
    for (name, kind) in OBJECTS {
        add(name, *kind, u32::MAX);
        add(&format!("{name}_noprof"), *kind, u32::MAX);
    }
    for ((name, kind, _), number) in LOCKS.iter().zip(0..) {
        add(name, *kind, number);
    }
    RELEASES.iter().for_each(|name| _ = add(name, 'u', u32::MAX));
    TAILS.iter().for_each(|name| _ = add(name, 'r', u32::MAX));
    TICKS.iter().for_each(|name| _ = add(name, 'w', u32::MAX));
    add(SWITCH, 's', u32::MAX);
    lines.sort_unstable();
    lines.dedup_by_key(|l| l.0);
    let line =
        |(start, kind, end, number): &(u64, char, u64, u32)| format!("{kind} {start:x} {end:x} {number}\n");
    Hooks { text: lines.iter().map(line).collect(), allocators }
}
