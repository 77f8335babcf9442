//! One edit for all instances of a generic type: what repairs one of them changes the others, too.

use std::collections::BTreeSet;
use tussle_advise::advice::{Advice, Options, evaluate};
use tussle_evidence::Evidence;
use tussle_model::Aggregate;

/// An edit helps an instance when it saves this share of what that costs.
const HELPS_SHARE: f64 = 0.5;

/// The proposals, those last that would leave another proposed instance of their type as it is: that one would need a
/// second edit of the same text.
pub fn together(e: &Evidence, options: &Options<'_>, mut proposed: Vec<Advice>) -> Vec<Advice> {
    let instances: BTreeSet<(String, String)> = proposed.iter().filter_map(instance).collect();
    let of = |a: &Advice| instance(a).map(|(decl, _)| decl);
    let others = |a: &Advice| {
        let decl = of(a);
        let own = a.type_name.clone();
        instances.iter().filter(move |(d, name)| Some(d) == decl.as_ref() && *name != own)
    };
    let helps = |a: &Advice, name: &str| {
        let bill = evaluate(e, name, &a.edits, options);
        bill.is_ok_and(|b| b.gain_observed() >= HELPS_SHARE * b.before.observed)
    };
    proposed.sort_by_cached_key(|a| !others(a).all(|(_, name)| helps(a, name)));
    proposed
}

/// All types that a patch changes: the one that was looked at, and the other instances of it.
pub fn changed(e: &Evidence, a: &Advice) -> Vec<String> {
    let generic = |t: &Aggregate| t.name.as_ref().is_some_and(|n| n.contains('<'));
    let same = |t: &Aggregate| t.decl.is_some() && t.decl == a.decl && generic(t);
    let others = e.types.aggregates().filter(|(_, t)| same(t)).map(|(_, t)| t.display_name());
    a.changed().iter().cloned().chain(others).collect()
}

/// Where a type is defined, and which instance of it is meant.
fn instance(a: &Advice) -> Option<(String, String)> {
    let decl = a.decl.as_ref().filter(|_| a.type_name.contains('<'))?;
    Some((format!("{}:{}", decl.file, decl.line), a.type_name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_advise::advice::best;
    use tussle_evidence::sample::Sample;
    use tussle_model::{SourceLoc, Type};

    /// Of `M<B>` the fields lie so that an alignment of the whole parts them, of `M<A>` they do not.
    fn two_instances() -> Evidence {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let [one, two] = [(); 2].map(|()| s.worker(main, start));
        let long = s.long();
        for (name, at, from) in [("M<A>", 0x1000, 0u64), ("M<B>", 0x2008, 56)] {
            let before = ["c", "d", "e", "f", "g", "h", "i"].into_iter().zip(0u64..).take(from as usize / 8);
            let mut members: Vec<_> = before.map(|(n, i)| (n, long, 8 * i)).collect();
            members.extend([("a", long, from), ("b", long, from + 8)]);
            let ty = s.structure(name, from + 16, &members);
            let o = s.global(name, at, from + 16, Some(ty), 8);
            s.access(o, from, 8, one, (0, 100_000), [0, 50_000 + from, 0]);
            s.access(o, from + 8, 8, two, (0, 100_000), [0, 50_000 + from, 0]);
        }
        let mut e = s.evidence();
        let ids: Vec<_> = e.types.aggregates().map(|(id, _)| id).collect();
        for id in ids {
            let mut a = e.types.aggregate(id).unwrap().clone();
            a.decl = Some(SourceLoc { file: "m.h".into(), line: 3 });
            e.types.set(id, Type::Aggregate(a));
        }
        e
    }

    #[test]
    fn what_helps_all_instances_comes_first() {
        let e = two_instances();
        let proposed = together(&e, &Options::default(), best(&e, &Options::default()));
        let words: Vec<String> =
            proposed.iter().map(|a| format!("{}: {}", a.type_name, super::super::steps::edits(a))).collect();
        let first = proposed.first().unwrap();
        for name in ["M<A>", "M<B>"] {
            let bill = evaluate(&e, name, &first.edits, &Options::default()).unwrap();
            assert!(bill.gain_observed() > 0.5 * bill.before.observed, "{name} of {words:?}");
        }
        let changed = changed(&e, first);
        assert!(changed.iter().any(|n| n.ends_with("M<A>")) && changed.iter().any(|n| n.ends_with("M<B>")));
        let left_alone = |a: &Advice| a.edits.iter().any(|e| e.to_string() == "element=64");
        assert!(proposed.iter().any(left_alone), "nothing was to be put behind: {words:?}");
    }
}
