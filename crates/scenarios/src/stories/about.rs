//! The facts about each scenario.

use super::About;

const LOCKS: &[&str] =
    &["mutex", "mutex-3.10", "rwsem", "rwsem-fair", "rwsem-3.10", "rwsem-spin", "rwsem-skip"];

pub(super) const MMAP_LOCK: About = About {
    name: "mmap_lock",
    number: "000",
    origin: "the mmap_lock regression, kernel test robot, May 2021",
    title: "mmap and munmap in one process: writers of mmap_lock",
    before: "regressed",
    after: "fixed",
    variants: &["regressed", "fixed", "ideal"],
    types: &["mm_struct"],
    lock_fields: "",
    machine: "2s-icelake-sp-96",
    cpus: 48,
    run_ns: 1_000_000,
};

pub(super) const I_MMAP: About = About {
    name: "i_mmap",
    number: "001",
    origin: "the patch that parted i_mmap from i_mmap_rwsem, June 2023",
    title: "exec and exit: insert and remove in i_mmap under its rwsem, with sleepers",
    before: "shared",
    after: "exchanged",
    variants: &["shared", "exchanged", "padded", "upstream", "ideal"],
    types: &["address_space"],
    lock_fields: "",
    machine: "2s-sapphirerapids-224",
    cpus: 224,
    run_ns: 2_000_000,
};

pub(super) const VMA_LOCK: About = About {
    name: "vma_lock",
    number: "002",
    origin: "per-VMA locks back inside vm_area_struct, January 2025",
    title: "page faults in one area under its own lock, with an occasional writer",
    before: "rwsem-split",
    after: "refcount",
    variants: &["rwsem-split", "rwsem-merged", "refcount"],
    types: &["vm_area_struct", "mm_struct"],
    lock_fields: "vm_lock or vm_refcnt (kernels since 6.4 with CONFIG_PER_VMA_LOCK)",
    machine: "2s-broadwell-56",
    cpus: 21,
    run_ns: 1_000_000,
};

pub(super) const PCP_LISTS: About = About {
    name: "pcp_lists",
    number: "003",
    origin: "per-CPU page lists under a spinlock, 2022",
    title: "per-CPU page lists over a buddy allocator, drained now and then",
    before: "local",
    after: "spinlock-irq",
    variants: &["local", "spinlock-irq", "spinlock"],
    types: &["per_cpu_pages"],
    lock_fields: "lock",
    machine: "1s-zen4-32",
    cpus: 8,
    run_ns: 4_000_000,
};

pub(super) const ANON_VMA: About = About {
    name: "anon_vma",
    number: "004",
    origin: "anon_vma from mutex to rw-semaphore, mail of 2013",
    title: "fork and exit: insert and remove in anon_vma trees under their lock",
    before: "mutex-3.10",
    after: "rwsem-3.10",
    variants: LOCKS,
    types: &["anon_vma"],
    lock_fields: "rwsem or mutex",
    machine: "4s-westmere-ex-80",
    cpus: 40,
    run_ns: 10_000_000,
};
