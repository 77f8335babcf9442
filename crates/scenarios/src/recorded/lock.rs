//! Which lock a recorded lock is, by the name of its type, and how it is simulated.

use super::fields::{Fields, element};
use crate::locks::mutex::Mutex;
use crate::locks::rwsem::Rwsem;
use crate::locks::spin::Queued;
use crate::locks::{SleepLock, SleepWords};
use crate::nodes::Nodes;
use tussle_model::{MemberRole, Type, TypeId, TypeTable};
use tussle_sim::{Cell, Env, Pattern, Spin};

/// How a recorded lock behaves when it is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// Queued spinlock, preemption off.
    Spin,
    /// glibc's spinlock: one word, waiters read it with a pause and try again when it is free; nobody is kept from
    /// being preempted.
    TestAndSet,
    /// The kernel's reader-writer spinlock, taken as a queued spinlock: its readers wait for each other.
    SpinRwlock,
    /// The kernel's mutex: optimistic spinning, hand-off.
    Mutex,
    /// The kernel's reader-writer semaphore: optimistic spinning, stealing, hand-off.
    Rwsem,
    /// A mutex whose waiters sleep at once, as glibc's: one word, its waiters in a queue elsewhere.
    SleepingMutex,
    /// A reader-writer lock whose waiters sleep at once.
    SleepingRwlock,
}

/// Locks by the name of their type; the kernel's first.
const TYPES: &[(&str, Model)] = &[
    ("rw_semaphore", Model::Rwsem),
    ("mutex", Model::Mutex),
    ("spinlock", Model::Spin),
    ("spinlock_t", Model::Spin),
    ("raw_spinlock", Model::Spin),
    ("raw_spinlock_t", Model::Spin),
    ("arch_spinlock_t", Model::Spin),
    ("qspinlock", Model::Spin),
    ("seqlock_t", Model::Spin),
    ("rwlock_t", Model::SpinRwlock),
    ("arch_rwlock_t", Model::SpinRwlock),
    ("qrwlock", Model::SpinRwlock),
    ("pthread_spinlock_t", Model::TestAndSet),
    ("pthread_mutex_t", Model::SleepingMutex),
    ("mtx_t", Model::SleepingMutex),
    ("std::mutex", Model::SleepingMutex),
    ("std::recursive_mutex", Model::SleepingMutex),
    ("std::timed_mutex", Model::SleepingMutex),
    ("std::__mutex_base", Model::SleepingMutex),
    ("std::sync::mutex::Mutex", Model::SleepingMutex),
    ("pthread_rwlock_t", Model::SleepingRwlock),
    ("std::shared_mutex", Model::SleepingRwlock),
    ("std::shared_timed_mutex", Model::SleepingRwlock),
];

/// Types looked at on the way to a lock.
const VISITS_MAX: usize = 256;

/// A word of a lock: its paths in the lock's type, and offset and size where the type is not known.
type Word = (&'static [&'static str], u64, u8);

/// In the order of [`SleepWords`]; a word that the lock has not in itself is left out (offset `None` in [`Found`]).
const RWSEM: [Word; 6] = [
    (&["count"], 0, 8),
    (&["owner"], 8, 8),
    (&["osq"], 16, 4),
    (&["wait_lock"], 20, 4),
    (&["wait_list.next", "first_waiter"], 24, 8),
    (&["wait_list.prev", "first_waiter"], 32, 8),
];
const MUTEX: [Word; 6] = [
    (&["owner"], 0, 8),
    (&["owner"], 0, 8),
    (&["osq"], 12, 4),
    (&["wait_lock"], 8, 4),
    (&["wait_list.next", "first_waiter"], 16, 8),
    (&["wait_list.prev", "first_waiter"], 24, 8),
];

impl Model {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Model::Spin => "queued spinlock",
            Model::TestAndSet => "test-and-set spinlock with a pause",
            Model::SpinRwlock => "queued spinlock: its readers are serialised",
            Model::Mutex => "kernel mutex with optimistic spinning",
            Model::Rwsem => "kernel rwsem with optimistic spinning",
            Model::SleepingMutex => "mutex, waiters sleep at once",
            Model::SleepingRwlock => "reader-writer lock, waiters sleep at once",
        }
    }

    /// Waiters spin optimistically before they sleep: what can be taken away from the model.
    pub fn spins(self) -> bool {
        matches!(self, Model::Mutex | Model::Rwsem)
    }

    /// Operations that write nothing take it shared.
    pub fn has_readers(self) -> bool {
        matches!(self, Model::Rwsem | Model::SleepingRwlock)
    }

    /// Bytes that the lock takes where its type is not known.
    fn size(self) -> u64 {
        match self {
            Model::Spin | Model::TestAndSet => 4,
            Model::SpinRwlock => 8,
            Model::Mutex => 32,
            Model::SleepingMutex | Model::Rwsem => 40,
            Model::SleepingRwlock => 56,
        }
    }

    fn words(self) -> &'static [Word] {
        match self {
            Model::Rwsem => &RWSEM,
            Model::Mutex => &MUTEX,
            // Waiters of locks that sleep are queued elsewhere; glibc's lock is changed in its first words only.
            _ => &RWSEM[..1],
        }
    }
}

/// What was found out about a recorded lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// How it is simulated.
    pub model: Model,
    /// Name of its type, where it is known.
    pub ty: Option<String>,
    /// Name of the member that it is, where it is known.
    pub member: Option<String>,
    /// The type is none that we know: the model is an assumption.
    pub assumed: bool,
    /// Where it begins in its object.
    pub start: u64,
    /// Its bytes: accesses to them are the lock's own.
    pub size: u64,
    /// Offset in the object and size of each of its words, in the order of [`SleepWords`].
    pub words: Vec<(u64, u8)>,
}

/// What a program makes of a mutex and conditions is a lock of its own, and has an address of its own: this byte of the
/// mutex (`rt-core/src/monitors.rs`).
const MONITOR_BYTE: u64 = 2;

/// The lock at `offset` of an object of so many elements of a type; `kernel` decides between two defaults for unknown
/// types.
pub fn find(
    table: &TypeTable,
    fields: &mut Fields<'_>,
    (of, count): (Option<TypeId>, u64),
    offset: u64,
    kernel: bool,
) -> Found {
    let known = of.and_then(|ty| lock_type(table, ty, count, offset));
    let known = known.filter(|k| kernel || offset != k.start + MONITOR_BYTE);
    let default = if kernel { Model::Spin } else { Model::SleepingMutex };
    let (ty, assumed) = (known.as_ref().map(|k| k.ty), known.is_none());
    let (model, start, member) =
        known.map_or((default, offset, String::new()), |k| (k.model, k.start, k.path));
    let member = Some(member).filter(|m| !m.is_empty());
    let all = ty.map(|id| fields.of(id)).unwrap_or_default();
    let place = |&(paths, default, size): &Word| {
        let under = |l: &&tussle_model::leaf::Leaf, p: &str| {
            l.path == p || l.path.strip_prefix(p).is_some_and(|r| r.starts_with(['.', '[']))
        };
        let leaf = paths.iter().find_map(|p| all.iter().find(|l| under(l, p)));
        let (at, size) = leaf.map_or((default, size), |l| (l.offset, l.size.clamp(1, 8) as u8));
        (start.saturating_add(at), size)
    };
    let spins = matches!(model, Model::Spin | Model::SpinRwlock | Model::TestAndSet);
    let words = if spins { vec![(start, 4)] } else { model.words().iter().map(place).collect() };
    let size = ty.and_then(|id| table.size(id)).unwrap_or(model.size()).clamp(1, 4_096);
    let name = ty.map(|id| table.name(id).trim_start_matches("struct ").to_string());
    Found { model, ty: name, member, assumed, start, size, words }
}

/// A lock type inside an object's.
struct Known {
    ty: TypeId,
    model: Model,
    start: u64,
    path: String,
}

/// The lock type around byte `offset`: the outermost that begins there, else the innermost that contains it. All
/// members of unions are looked at.
fn lock_type(table: &TypeTable, ty: TypeId, count: u64, offset: u64) -> Option<Known> {
    let first = element(table.size(ty).unwrap_or(0), count, offset);
    let (mut todo, mut inside, mut visits) = (vec![(ty, first, String::new())], None, 0);
    while let Some((id, start, path)) = todo.pop() {
        visits += 1;
        if visits > VISITS_MAX {
            break;
        }
        if let Some(model) = known_name(table, id) {
            let known = Known { ty: id, model, start, path: path.clone() };
            if start == offset {
                return Some(known);
            }
            // A lock does not reach behind its end.
            if table.size(id).is_none_or(|size| offset - start.min(offset) < size) {
                inside = Some(known);
            }
        }
        let Some(at) = offset.checked_sub(start) else { continue };
        match table.get(id) {
            Type::Typedef { to, .. }
            | Type::Const(to)
            | Type::Volatile(to)
            | Type::Restrict(to)
            | Type::Atomic(to) => todo.push((*to, start, path)),
            Type::Array { elem, .. } => {
                let inside = table.size(id).is_none_or(|all| all == 0 || at < all);
                if let Some(size) = table.size(*elem).filter(|s| *s > 0 && inside) {
                    // The element matters as little as in other names of fields.
                    let path = if path.is_empty() { path } else { path + "[]" };
                    todo.push((*elem, start + at / size * size, path));
                }
            }
            Type::Aggregate(a) => {
                let begins = |m: &&tussle_model::Member| m.role != MemberRole::Static && m.offset() <= at;
                let bounded = |m: &&tussle_model::Member| at - m.offset() < table.size(m.ty).unwrap_or(0);
                // A flexible array reaches as far as the memory does.
                let flexible = |m: &&tussle_model::Member| {
                    table.size(m.ty).unwrap_or(0) == 0
                        && matches!(table.get(table.strip(m.ty)), Type::Array { .. })
                };
                let any = a.members.iter().filter(begins).any(|m| bounded(&m));
                let tail = a.members.iter().filter(begins).map(|m| m.offset()).max();
                let holds = |m: &&tussle_model::Member| {
                    begins(m)
                        && if any {
                            bounded(m)
                        } else {
                            // The tail of a struct at the end of this one, too.
                            Some(m.offset()) == tail && (flexible(m) || at >= a.size)
                        }
                };
                let deeper = |m: &tussle_model::Member| match (m.name.as_deref(), path.is_empty()) {
                    (None, _) => path.clone(),
                    (Some(n), true) => n.into(),
                    (Some(n), false) => format!("{path}.{n}"),
                };
                let members = a.members.iter().filter(holds).take(VISITS_MAX);
                let members: Vec<_> = members.map(|m| (m.ty, start + m.offset(), deeper(m))).collect();
                todo.extend(members.into_iter().rev());
            }
            _ => {}
        }
    }
    inside
}

fn known_name(table: &TypeTable, id: TypeId) -> Option<Model> {
    let name = match table.get(id) {
        Type::Typedef { name, .. } => name.as_str(),
        Type::Aggregate(a) => a.name.as_deref()?,
        _ => return None,
    };
    // Rust's names carry their parameter.
    let bare = name.split('<').next().unwrap_or(name);
    TYPES.iter().find(|(n, _)| *n == bare).map(|(_, m)| *m)
}

/// A lock of a replay.
#[derive(Clone, Debug)]
pub enum Lock {
    /// Spins.
    Spin(Queued),
    /// Spins on one word, as programs do.
    TestAndSet(Cell),
    /// Sleeps.
    Sleep(SleepLock),
}

impl Lock {
    /// A lock of this model on these words. `spin` and `steal` false take that away from it.
    pub fn new(model: Model, words: SleepWords, nodes: &Nodes, spin: bool, steal: bool) -> Lock {
        let (spin, nodes) = (spin && model.spins(), nodes.clone());
        match model {
            Model::Spin | Model::SpinRwlock => Lock::Spin(Queued { word: words.count, nodes }),
            Model::TestAndSet => Lock::TestAndSet(words.count),
            Model::Mutex => Lock::Sleep(SleepLock::Mutex(Mutex { words, nodes, spin, handoff: true })),
            Model::SleepingMutex => {
                Lock::Sleep(SleepLock::Mutex(Mutex { words, nodes, spin, handoff: false }))
            }
            Model::Rwsem | Model::SleepingRwlock => {
                Lock::Sleep(SleepLock::Rwsem(Rwsem { words, nodes, spin, steal }))
            }
        }
    }

    /// Takes it, shared where the operation only reads and the lock has readers.
    pub async fn lock<E: Env>(&self, e: &E, shared: bool) {
        match self {
            Lock::Spin(l) => l.lock(e).await,
            Lock::TestAndSet(word) => {
                while e.swap(*word, 1).await != 0 {
                    e.spin(Spin::on(*word, 1)).await;
                }
            }
            Lock::Sleep(l) if shared => l.lock_shared(e).await,
            Lock::Sleep(l) => l.lock(e).await,
        }
    }

    /// The word by which it is taken.
    pub fn word(&self) -> Option<Cell> {
        match self {
            Lock::Spin(l) => Some(l.word),
            Lock::TestAndSet(word) => Some(*word),
            Lock::Sleep(SleepLock::Mutex(l)) => Some(l.words.count),
            Lock::Sleep(SleepLock::Rwsem(l)) => Some(l.words.count),
            Lock::Sleep(SleepLock::Old(_)) => None,
        }
    }

    /// What it is in the table of what a processor hides: whether its data lies beside it is the layout's matter.
    pub fn patterns(&self) -> &'static [Pattern] {
        match self {
            // It is given up by a store.
            Lock::Spin(_) | Lock::TestAndSet(_) => &[Pattern::Rmw, Pattern::Mutex],
            Lock::Sleep(_) => &[Pattern::TwoRmw, Pattern::Mutex],
        }
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E, shared: bool) {
        match self {
            Lock::Spin(l) => l.unlock(e).await,
            Lock::TestAndSet(word) => {
                e.store(*word, 0).await;
            }
            Lock::Sleep(l) if shared => l.unlock_shared(e).await,
            Lock::Sleep(l) => l.unlock(e).await,
        }
    }
}

/// Words of a lock from the cells that lie in it and, for what it keeps elsewhere, the cells of its queue.
pub fn words(own: &[Cell], queue: Cell) -> SleepWords {
    let at = |i: usize| own.get(i).copied().unwrap_or(queue.field(i as u32));
    SleepWords { count: at(0), owner: at(1), osq: at(2), wait_lock: at(3), head: at(4), tail: at(5) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::{Aggregate, AggregateKind, Base, Encoding, Member};

    fn member(name: &str, ty: TypeId, offset: u64) -> Member {
        Member::field(Some(name), ty, offset)
    }

    fn aggregate(t: &mut TypeTable, name: Option<&str>, size: u64, members: Vec<Member>) -> TypeId {
        t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, name, size, members)))
    }

    #[test]
    fn locks_are_known_by_the_type_that_begins_there() {
        let mut t = TypeTable::new(8);
        let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
        let int = t.push(Type::Base(Base { name: "int".into(), size: 4, encoding: Encoding::Signed }));
        let raw = aggregate(&mut t, Some("raw_spinlock"), 4, vec![member("raw_lock", int, 0)]);
        let list = aggregate(&mut t, None, 16, vec![member("next", long, 0), member("prev", long, 8)]);
        let members = [("owner", long, 0), ("wait_lock", raw, 16), ("osq", int, 20), ("wait_list", list, 24)];
        let members = members.map(|(n, ty, at)| member(n, ty, at)).to_vec();
        let mutex = aggregate(&mut t, Some("mutex"), 40, members);
        let futex = aggregate(&mut t, None, 40, vec![member("__lock", int, 0)]);
        let pthread = t.push(Type::Typedef { name: "pthread_mutex_t".into(), to: futex });
        let members = vec![member("x", long, 0), member("m", mutex, 8), member("p", pthread, 64)];
        let s = aggregate(&mut t, Some("s"), 104, members);
        let found = |at: u64| find(&t, &mut Fields::new(&t), (Some(s), 2), at, false);
        assert_eq!(
            (found(8).model, found(8).ty.as_deref(), found(8).start),
            (Model::Mutex, Some("mutex"), 8)
        );
        assert_eq!(found(8).words, [(8, 8), (8, 8), (28, 4), (24, 4), (32, 8), (40, 8)]);
        // The spinlock inside of the mutex, and a word of the mutex that begins no lock.
        assert_eq!((found(24).model, found(24).start), (Model::Spin, 24));
        assert_eq!((found(28).model, found(28).start), (Model::Mutex, 8));
        let p = found(64);
        assert_eq!((p.model, p.ty.as_deref(), p.size), (Model::SleepingMutex, Some("pthread_mutex_t"), 40));
        assert_eq!((p.member.as_deref(), found(8).member.as_deref()), (Some("p"), Some("m")));
        // A monitor made of it by hand is no mutex.
        assert!(found(66).assumed && found(66).start == 66 && !found(64).assumed);
        // The second element of an array of them.
        assert_eq!((found(104 + 64).model, found(104 + 64).start), (Model::SleepingMutex, 168));
        assert!(found(0).assumed && found(0).model == Model::SleepingMutex);
        assert_eq!(find(&t, &mut Fields::new(&t), (None, 1), 16, true).model, Model::Spin);
    }
}
