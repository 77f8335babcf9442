//! Fields that many CPUs write by their very kind: locks, reference counts, counters.

use foldhash::HashMap;
use tussle_model::{TypeId, TypeTable, resolve};

/// Type names, with what they are: of the kernel (include/linux), of POSIX threads, of C++ and Rust's standard
/// libraries. Only types that exist to be written by several threads.
const KINDS: [(&str, Kind); 44] = [
    ("spinlock_t", Kind::Lock),
    ("raw_spinlock_t", Kind::Lock),
    ("arch_spinlock_t", Kind::Lock),
    ("struct spinlock", Kind::Lock),
    ("struct raw_spinlock", Kind::Lock),
    ("rwlock_t", Kind::Lock),
    ("struct mutex", Kind::Lock),
    ("struct rw_semaphore", Kind::Lock),
    ("struct semaphore", Kind::Lock),
    ("struct rt_mutex", Kind::Lock),
    ("struct rt_mutex_base", Kind::Lock),
    ("seqlock_t", Kind::Lock),
    ("seqcount_t", Kind::Lock),
    ("struct seqcount", Kind::Lock),
    ("seqcount_spinlock_t", Kind::Lock),
    ("local_lock_t", Kind::Lock),
    ("struct lockref", Kind::Lock),
    ("pthread_mutex_t", Kind::Lock),
    ("pthread_rwlock_t", Kind::Lock),
    ("pthread_spinlock_t", Kind::Lock),
    ("std::mutex", Kind::Lock),
    ("std::shared_mutex", Kind::Lock),
    ("std::recursive_mutex", Kind::Lock),
    ("std::recursive_timed_mutex", Kind::Lock),
    ("std::timed_mutex", Kind::Lock),
    ("mtx_t", Kind::Lock),
    ("GMutex", Kind::Lock),
    ("GRecMutex", Kind::Lock),
    ("GRWLock", Kind::Lock),
    ("sync.Mutex", Kind::Lock),
    ("sync.RWMutex", Kind::Lock),
    ("refcount_t", Kind::Count),
    ("struct refcount_struct", Kind::Count),
    ("struct kref", Kind::Count),
    ("struct percpu_ref", Kind::Count),
    ("atomic_t", Kind::Atomic),
    ("atomic_long_t", Kind::Atomic),
    ("atomic64_t", Kind::Atomic),
    ("local_t", Kind::Atomic),
    ("local64_t", Kind::Atomic),
    ("struct percpu_counter", Kind::Atomic),
    ("core::sync::atomic::AtomicUsize", Kind::Atomic),
    ("core::sync::atomic::AtomicU64", Kind::Atomic),
    ("core::sync::atomic::AtomicU32", Kind::Atomic),
];

/// Atomics that are instances of templates or come in sizes.
const ATOMIC_PREFIXES: [&str; 5] = [
    "std::atomic<",
    "std::__atomic_base<",
    "core::sync::atomic::Atomic",
    "sync/atomic.Int",
    "sync/atomic.Uint",
];

/// What a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Spun on or queued at.
    Lock,
    /// A reference count.
    Count,
    /// An atomic counter or flag.
    Atomic,
}

impl Kind {
    /// `lock`, `reference count`, `atomic`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Lock => "lock",
            Kind::Count => "reference count",
            Kind::Atomic => "atomic",
        }
    }
}

/// Kinds of members of one type by their paths, with those of what they lie in.
pub type Known<'p> = HashMap<&'p str, Option<Kind>>;

/// The kind of a field, by the types on the way to it: `mmap_lock.owner` is part of a lock.
pub fn kind<'p>(table: &TypeTable, id: TypeId, path: &'p str, known: &mut Known<'p>) -> Option<Kind> {
    let ends = path.char_indices().filter(|(i, c)| *i > 0 && matches!(c, '.' | '[')).map(|(i, _)| i);
    ends.chain([path.len()]).find_map(|end| {
        *known.entry(&path[..end]).or_insert_with(|| {
            let spot = resolve(table, id, &path[..end]).into_iter().next()?;
            of_type(table, spot.declared)
        })
    })
}

/// The kind of a type of exactly that name.
pub fn of_name(name: &str) -> Option<Kind> {
    KINDS.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
}

/// The kind of a type by its name, typedefs followed.
pub fn of_type(table: &TypeTable, mut id: TypeId) -> Option<Kind> {
    use tussle_model::Type;
    for _ in 0..16 {
        let name = table.name(id);
        if let Some(kind) = of_name(&name) {
            return Some(kind);
        }
        if ATOMIC_PREFIXES.iter().any(|p| name.starts_with(p)) {
            return Some(Kind::Atomic);
        }
        if name.starts_with("std::sync::mutex::Mutex<")
            || name.starts_with("std::sync::poison::mutex::Mutex<")
        {
            return Some(Kind::Lock);
        }
        id = match table.get(id) {
            Type::Atomic(_) => return Some(Kind::Atomic),
            Type::Typedef { to, .. } | Type::Const(to) | Type::Volatile(to) => *to,
            _ => return None,
        };
    }
    None
}
