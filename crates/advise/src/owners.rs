//! Members by who writes them. Neighbours of one writer may stay on one line: an alignment where the writer changes
//! parts what fights with the fewest statements.

use std::collections::{BTreeMap, HashMap};

use tussle_model::TypeId;

use crate::moves::member_name;
use crate::scene::Scene;

/// A thread that does less than this share of the stores to a member is not its writer: many are.
const MAIN_SHARE_MIN: f64 = 0.9;
/// Less than this share of a member's reads by others are none.
const OTHERS_SHARE_MAX: f64 = 0.001;

/// Who writes a member of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Nobody,
    One(u32),
    Many,
}

/// Of each object's member its writer, and whether others read it.
type Users = BTreeMap<u32, (Writer, bool)>;

/// Writers of the target's members, object by object.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    of: HashMap<String, Users>,
}

/// Reads and stores of one thread.
type Counts = HashMap<u32, (f64, f64)>;

impl Owners {
    /// As recorded.
    pub(crate) fn of(scene: &Scene<'_>) -> Owners {
        let table = &scene.evidence.types;
        // Many rows are of one byte at other times: each byte is named once.
        let mut sums: BTreeMap<(TypeId, u64), BTreeMap<(u32, u32), (f64, f64)>> = BTreeMap::new();
        for cluster in &scene.clusters {
            for hit in &cluster.hits {
                let id = cluster.objects[hit.slot as usize];
                let Some(ty) = scene.evidence.objects[id as usize].ty else { continue };
                let size = table.size(ty).unwrap_or(0).max(1);
                let (reads, writes) =
                    sums.entry((ty, hit.offset % size)).or_default().entry((id, hit.actor)).or_default();
                (*reads, *writes) = (*reads + hit.reads, *writes + hit.writes + hit.rmws);
            }
        }
        let mut all: HashMap<String, BTreeMap<u32, Counts>> = HashMap::new();
        for ((ty, offset), users) in sums {
            let Some(name) = member_name(table, ty, offset, scene.target) else { continue };
            let objects = all.entry(name).or_default();
            for ((id, actor), (r, w)) in users {
                let (reads, writes) = objects.entry(id).or_default().entry(actor).or_default();
                (*reads, *writes) = (*reads + r, *writes + w);
            }
        }
        let users = |objects: BTreeMap<u32, Counts>| objects.into_iter().map(|(id, c)| (id, judged(&c)));
        Owners { of: all.into_iter().map(|(name, objects)| (name, users(objects).collect())).collect() }
    }

    /// Somebody touches it.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.of.contains_key(name)
    }

    /// In most objects `a` and `b` have different writers; with `readers` it counts, too, that others read only one.
    pub(crate) fn part(&self, a: &str, b: &str, readers: bool) -> bool {
        let (Some(a), Some(b)) = (self.of.get(a), self.of.get(b)) else { return false };
        let both = a.iter().filter_map(|(id, users)| Some((*users, *b.get(id)?)));
        let differ = |((w, read), (v, seen)): &((Writer, bool), (Writer, bool))| {
            w != v || *w == Writer::Many || readers && read != seen
        };
        let (parted, all) =
            both.fold((0usize, 0usize), |(n, all), pair| (n + usize::from(differ(&pair)), all + 1));
        2 * parted > all
    }
}

fn judged(counts: &Counts) -> (Writer, bool) {
    let (reads, writes) = counts.values().fold((0.0, 0.0), |(r, w), c| (r + c.0, w + c.1));
    let most = counts.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(a.0)));
    let Some((&actor, &(own_reads, own))) = most.filter(|m| m.1.1 > 0.0) else {
        return (Writer::Nobody, true);
    };
    // One store before a million reads is how a constant begins.
    if writes < OTHERS_SHARE_MAX * reads && own_reads < (1.0 - OTHERS_SHARE_MAX) * reads {
        return (Writer::Nobody, true);
    }
    let writer = if own >= MAIN_SHARE_MIN * writes { Writer::One(actor) } else { Writer::Many };
    (writer, reads - own_reads > OTHERS_SHARE_MAX * reads)
}

#[cfg(test)]
mod tests {
    use crate::advice::{Options, best};
    use tussle_evidence::sample::Sample;
    use tussle_model::{Language, Type};

    /// Elements of an array that `new` aligned to 16 bytes, in C++14.
    #[test]
    fn what_nobody_aligns_is_padded() {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let long = s.long();
        let ty = s.structure("shard", 24, &[("hits", long, 0), ("misses", long, 8), ("cost", long, 16)]);
        let o = s.heap(0x1010, 96, Some(ty), 4, 16, None);
        for n in 0..4 {
            let thread = s.worker(main, start);
            for field in [0, 8, 16] {
                s.access(o, 24 * n + field, 8, thread, (0, 1_000_000), [0, 500_000, 0]);
            }
        }
        let mut e = s.evidence();
        e.objects.iter_mut().for_each(|o| o.allocator = Some("operator new[]".into()));
        let mut shard = e.types.aggregate(ty).unwrap().clone();
        shard.language = Language::Cpp;
        e.types.set(ty, Type::Aggregate(shard));
        let edits = |unaligned: Vec<String>| {
            let options = Options { unaligned, ..Options::default() };
            best(&e, &options).iter().map(|a| a.edits[0].clone()).collect::<Vec<_>>()
        };
        assert!(edits(Vec::new()).iter().any(|e| e.aligns()));
        let (padded, name) = (edits(vec!["shard".into()]), crate::edit::Edit::Pad { bytes: 128 });
        assert!(padded.contains(&name) && !padded.iter().any(|e| e.aligns()), "{padded:?}");
    }

    /// A ring of one sender and one receiver: what both read, then each one's own, the index that the other one looks
    /// at now and then among it.
    #[test]
    fn a_ring_gets_one_alignment_per_side() {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let (one, two) = (s.worker(main, start), s.worker(main, start));
        let long = s.long();
        let names = ["capacity", "mask", "slot", "w_next", "w_seen", "head", "r_next", "r_seen", "tail"];
        let members: Vec<_> = names.iter().zip(0u64..).map(|(n, i)| (*n, long, 8 * i)).collect();
        let ty = s.structure("ring", 72, &members);
        let o = s.global("ring", 0x1000, 72, Some(ty), 64);
        for at in [0, 8, 16] {
            for thread in [one, two] {
                s.access(o, at, 8, thread, (0, 1_000_000), [1_000_000, 0, 0]);
            }
        }
        for (thread, own, index) in [(one, [24, 32], 40), (two, [48, 56], 64)] {
            for at in own {
                s.access(o, at, 8, thread, (0, 1_000_000), [1_000_000, 500_000, 0]);
            }
            s.access(o, index, 8, thread, (0, 1_000_000), [0, 2_000, 0]);
            let other = if thread == one { two } else { one };
            s.access(o, index, 8, other, (0, 1_000_000), [2_000, 0, 0]);
        }
        let e = s.evidence();
        let first = best(&e, &Options::default()).swap_remove(0);
        let edits: Vec<String> = first.edits.iter().map(|e| e.to_string()).collect();
        assert_eq!(edits, ["align:w_next=64", "align:r_next=64"], "{first:?}");
    }
}
