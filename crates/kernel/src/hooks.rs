//! Which kernel functions the plugin watches, found in the symbol table by name.

use crate::image::KernelImage;
use crate::place::{Allocator, Gives};

/// Functions that hand out memory. Linux 6.10 added the suffix `_noprof` to the functions behind its allocation
/// profiling macros; both names are looked for and what a kernel does not have is skipped.
const ALLOCATORS: &[(&str, Gives)] = &[
    ("__kmalloc", Gives::Object),
    ("__kmalloc_node", Gives::Object),
    ("__kmalloc_node_track_caller", Gives::Object),
    ("__kmalloc_large", Gives::Object),
    ("__kmalloc_large_node", Gives::Object),
    ("kmalloc_large", Gives::Object),
    ("kmalloc_large_node", Gives::Object),
    ("kmalloc_trace", Gives::Object),
    ("kmalloc_node_trace", Gives::Object),
    ("__kmalloc_cache", Gives::Object),
    ("__kmalloc_cache_node", Gives::Object),
    ("kvmalloc_node", Gives::Object),
    ("__kvmalloc_node", Gives::Object),
    ("__alloc_percpu", Gives::PerCpu),
    ("__alloc_percpu_gfp", Gives::PerCpu),
    ("pcpu_alloc", Gives::PerCpu),
    ("allocate_slab", Gives::Slab),
];

/// The function that gives the pages of a slab back: (cache, slab).
const SLAB_RELEASE: &str = "__free_slab";

/// What the plugin is told and what its numbers mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// Lines `kind start end number`, in order of address, as the plugin reads them.
    pub text: String,
    /// The allocators among them.
    pub allocators: Vec<Allocator>,
}

/// Finds the functions in a kernel.
pub fn hooks(image: &KernelImage) -> Hooks {
    let mut allocators = Vec::new();
    let mut lines: Vec<(u64, char, u64, u32)> = Vec::new();
    for (name, gives) in ALLOCATORS {
        for full in [name.to_string(), format!("{name}_noprof")] {
            let found: Vec<_> = image.functions_named(&full).cloned().collect();
            let number = allocators.len() as u32;
            if !found.is_empty() {
                allocators.push(Allocator {
                    number,
                    name: full.trim_start_matches("__").into(),
                    gives: *gives,
                });
            }
            lines.extend(found.into_iter().map(|f| (f.start, 'a', f.end, number)));
        }
    }
    let release = image.functions_named(SLAB_RELEASE).map(|f| (f.start, 'f', f.end, u32::MAX));
    lines.extend(release);
    lines.sort_unstable();
    lines.dedup_by_key(|l| l.0);
    let line =
        |(start, kind, end, number): &(u64, char, u64, u32)| format!("{kind} {start:x} {end:x} {number}\n");
    Hooks { text: lines.iter().map(line).collect(), allocators }
}
