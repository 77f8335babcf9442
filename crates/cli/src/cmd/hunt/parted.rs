//! What a patch saves where two recordings cannot be compared as wholes: what the fields that it parts cost each other.

use super::gate::{is_one_of, sum};
use std::collections::{BTreeMap, BTreeSet};
use tussle_advise::class;
use tussle_contention::analysis::{Question, contention};
use tussle_contention::fields::Namer;
use tussle_evidence::Evidence;
use tussle_model::LineSize;

/// Two fields by name, the lesser first, and whether they are of different elements of an array.
type Pair = (String, String, bool);

/// What a patch did to pairs of fields.
pub struct Parted {
    /// What those cost before it that no longer share a line, less what pairs cost after it that did not before.
    pub saved: f64,
    /// All that cost each other something before it, as titles of cases: `a ⟷ b`, either way round.
    pub were: BTreeSet<String>,
}

/// Compares pairs before a patch and after it. `names` are what is patched.
pub fn parted(before: &Evidence, after: &Evidence, names: &[String]) -> Parted {
    let (was, now) = (pairs(before, names), pairs(after, names));
    let meet = meeting(after);
    let apart = was.iter().filter(|(pair, _)| !meet.contains(*pair)).map(|(_, cost)| *cost);
    let new = now.iter().filter(|(pair, _)| !was.contains_key(*pair)).map(|(_, cost)| *cost);
    let saved = sum(apart) - sum(new);
    let both = |(a, b, _): Pair| [format!("{a} \u{27f7} {b}"), format!("{b} \u{27f7} {a}")];
    Parted { saved, were: was.into_keys().flat_map(both).collect() }
}

/// What pairs of fields cost each other without touching the same bytes; one of both is of these types.
fn pairs(e: &Evidence, names: &[String]) -> BTreeMap<Pair, f64> {
    let (namer, seen) = (Namer::new(e), contention(e, &Question::observed()));
    let mut out = BTreeMap::new();
    for judged in class::judge(e, &namer, &seen) {
        let g = &judged.group;
        let own: Vec<bool> = g.fields.iter().map(|f| is_one_of(e, f.object, names)).collect();
        let all = sum(g.pairs.iter().map(|p| p.e));
        let of = |p: &&tussle_contention::group::FieldPair| !p.same_bytes && (own[p.stored] || own[p.lost]);
        for p in g.pairs.iter().filter(of) {
            let [a, b] = [p.stored, p.lost].map(|field| g.fields[field].path.clone());
            for (part, across) in [(p.e - p.across_e, false), (p.across_e, true)] {
                if part > 0.0 {
                    let pair = ordered(a.clone(), b.clone(), across);
                    *out.entry(pair).or_default() += g.cost.total() * part / all;
                }
            }
        }
    }
    out
}

fn ordered(a: String, b: String, across: bool) -> Pair {
    if a <= b { (a, b, across) } else { (b, a, across) }
}

/// Pairs of fields on one line, of all that was accessed; elements of an array are fields of their own.
fn meeting(e: &Evidence) -> BTreeSet<Pair> {
    let line = LineSize::new(e.run.line_bytes).unwrap_or(LineSize::L64);
    let namer = Namer::new(e);
    let places: BTreeSet<(u32, u64, u32)> = e.accesses.iter().map(|a| (a.object, a.offset, a.size)).collect();
    let mut on_line: BTreeMap<(u32, u64), BTreeSet<(String, Option<u64>)>> = BTreeMap::new();
    for (object, offset, size) in places {
        let Some(o) = e.objects.get(object as usize) else { continue };
        let name = namer.name(object, offset, u64::from(size));
        let first = o.base.saturating_add(offset);
        let last = first.saturating_add(u64::from(size).saturating_sub(1));
        for at in [line.index(first), line.index(last)] {
            on_line.entry((o.process, at)).or_default().insert((name.path.clone(), name.index));
        }
    }
    let mut out = BTreeSet::new();
    for fields in on_line.into_values() {
        let fields: Vec<_> = fields.into_iter().collect();
        for (i, a) in fields.iter().enumerate() {
            let pair = |b: &(String, Option<u64>)| ordered(a.0.clone(), b.0.clone(), a.1 != b.1);
            out.extend(fields[i + 1..].iter().map(pair));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    /// A counter beside a lock and what it guards; `apart`: the counter on a line of its own, and waiters of the lock
    /// polled ten times as often.
    fn recorded(apart: bool) -> Evidence {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let [one, two, three] = [(); 3].map(|()| s.worker(main, start));
        let long = s.long();
        let lock = if apart { 64 } else { 8 };
        let fields = [("polls", long, 0), ("lock", long, lock), ("audits", long, lock + 8)];
        let stats = s.structure("stats", if apart { 128 } else { 24 }, &fields);
        let o = s.global("g", 0x1000, if apart { 128 } else { 24 }, Some(stats), 64);
        let polls = if apart { 200_000 } else { 20_000 };
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(o, lock, 8, two, (0, 100_000), [0, 0, polls]);
        s.access(o, lock + 8, 8, three, (0, 100_000), [0, 5_000, 0]);
        s.evidence()
    }

    /// However much more what stays together costs after it.
    #[test]
    fn what_a_patch_parts_is_saved() {
        let (before, after) = (recorded(false), recorded(true));
        let name = &["stats".to_string()];
        let of_counter: f64 = sum(pairs(&before, name)
            .iter()
            .filter(|(p, _)| p.0.contains("polls") || p.1.contains("polls"))
            .map(|(_, c)| *c));
        assert!(of_counter > 10_000.0);
        let saved = |a, b| parted(a, b, name).saved;
        assert!((saved(&before, &after) - of_counter).abs() < 1.0);
        assert!(sum(pairs(&after, name).into_values()) > 0.0, "the lock and its data are still together");
        assert_eq!(saved(&before, &before), 0.0, "nothing is parted");
        assert!(saved(&after, &before) < 0.0, "what was apart and meets is new");
        assert!(parted(&before, &after, name).were.iter().any(|t| t.contains("audits")));
    }
}
