//! What a kernel's second recording says of a patch: which fields still meet on a line, and whether the struct's lines
//! move between CPUs less often at every length of a turn. Two recordings are two runs: their order of accesses
//! differs, so a difference is a sign, never a size.

use std::collections::{BTreeMap, BTreeSet};

use tussle_contention::fields::path_in;
use tussle_evidence::{Evidence, Transfer};
use tussle_model::TypeId;

use crate::holders::places;
use crate::named::type_named;
use crate::scene::holders;
use crate::turns::SIGN_SHARE_MIN;

/// Fields with a smaller share of the struct's transfers are not said to meet.
const SHARE_MIN: f64 = 0.01;

/// A field of the struct before and after the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its path.
    pub path: String,
    /// First byte before and after.
    pub at: [u64; 2],
    /// Bytes.
    pub size: u64,
}

/// Transfers of one length of a turn, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Instructions of a turn.
    pub turn_instructions: Option<u64>,
    /// Of objects of the struct, and of those that hold one.
    pub of_struct: [u64; 2],
    /// Of all of the kernel.
    pub all: [u64; 2],
}

/// Both recordings side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Every length that both have, shortest turns first.
    pub turns: Vec<Counted>,
    /// Pairs of fields that met on a line before and do not any more.
    pub parted: Vec<(String, String)>,
    /// Those that still meet.
    pub remain: Vec<(String, String)>,
    /// Those that meet only now.
    pub new: Vec<(String, String)>,
}

/// What they say of the patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The struct has fewer transfers at every length, by [`SIGN_SHARE_MIN`] at least.
    Fewer,
    /// At none.
    NotFewer,
    /// It turns with the length, which no machine tells; or the struct was not touched.
    Turns,
}

impl Again {
    /// Compares the struct `name` in two recordings; `fields` are its fields before and after the patch.
    pub fn of(before: &Evidence, after: &Evidence, name: &str, fields: &[Moved]) -> Again {
        let all: Vec<&Evidence> = after.turn_lengths().collect();
        let mut turns: Vec<Counted> = before
            .turn_lengths()
            .filter_map(|a| {
                let b = all.iter().find(|b| b.turn_instructions() == a.turn_instructions())?;
                let (x, y) = (counted(a, name), counted(b, name));
                let (of_struct, all) = ([x.0, y.0], [x.1, y.1]);
                Some(Counted { turn_instructions: a.turn_instructions(), of_struct, all })
            })
            .collect();
        turns.sort_by_key(|t| t.turn_instructions);
        let fields = shown(before, name, fields);
        let [old, new] = [(before, 0), (after, 1)].map(|(e, side)| meeting(e, name, &fields, side));
        let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).cloned().collect();
        let (parted, new_pairs) = (only(&old, &new), only(&new, &old));
        Again { turns, parted, remain: old.intersection(&new).cloned().collect(), new: new_pairs }
    }

    /// What all lengths agree on.
    pub fn sign(&self) -> Sign {
        let least = 1.0 - SIGN_SHARE_MIN;
        let is_fewer = |t: &Counted| (t.of_struct[1] as f64) < least * t.of_struct[0] as f64;
        let fewer: Vec<bool> = self.turns.iter().map(is_fewer).collect();
        match (fewer.iter().all(|f| *f), fewer.iter().any(|f| *f)) {
            _ if fewer.is_empty() => Sign::Turns,
            (true, _) => Sign::Fewer,
            (_, false) => Sign::NotFewer,
            _ => Sign::Turns,
        }
    }
}

/// Transfers of the struct's objects, and all.
fn counted(e: &Evidence, name: &str) -> (u64, u64) {
    let held = type_named(e, name).map(|t| holders(&e.types, t)).unwrap_or_default();
    let is_one = |t: &&Transfer| {
        let ty = e.objects.get(t.object as usize).and_then(|o| o.ty);
        ty.is_some_and(|ty| held.contains(&e.types.strip(ty)))
    };
    let sum = |n: u64, t: &Transfer| n + t.transfers;
    (e.transfers.iter().flatten().filter(is_one).fold(0, sum), e.transfers.iter().flatten().fold(0, sum))
}

/// The fields as reports call them (`owner`, not `owner.counter`); members of a union stay what the patch calls them.
fn shown(before: &Evidence, name: &str, fields: &[Moved]) -> Vec<Moved> {
    let target = type_named(before, name);
    let path = |f: &Moved| {
        let path = target.map(|t| path_in(&before.types, t, f.at[0], f.size)).unwrap_or_default();
        if path.is_empty() || path.contains('|') { f.path.clone() } else { path }
    };
    fields.iter().map(|f| Moved { path: path(f), ..f.clone() }).collect()
}

/// Pairs of fields with transfers on one line, in any object.
fn meeting(e: &Evidence, name: &str, fields: &[Moved], side: usize) -> BTreeSet<(String, String)> {
    let Some(target) = type_named(e, name) else { return BTreeSet::new() };
    let line = u64::from(e.run.line_bytes).max(1);
    let mut known: BTreeMap<TypeId, Vec<u64>> = BTreeMap::new();
    let mut by_line: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut total = 0;
    for t in e.transfers.iter().flatten() {
        let Some((o, ty)) = e.objects.get(t.object as usize).and_then(|o| Some((o, o.ty?))) else { continue };
        let starts = known.entry(ty).or_insert_with(|| places(&e.types, target, ty).unwrap_or_default());
        let in_struct = starts.iter().filter_map(|s| t.offset.checked_sub(*s));
        let field = in_struct
            .filter_map(|at| fields.iter().find(|f| (f.at[side]..f.at[side] + f.size).contains(&at)));
        if let Some(f) = field.min_by_key(|f| f.size) {
            total += t.transfers;
            let address = o.base.saturating_add(t.offset);
            *by_line.entry(address / line).or_default().entry(&f.path).or_default() += t.transfers;
        }
    }
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for on_line in by_line.values() {
        for (i, (a, n)) in on_line.iter().enumerate() {
            for (b, m) in on_line.iter().skip(i + 1) {
                *sums.entry((a, b)).or_default() += n.min(m);
            }
        }
    }
    let counts = |n: u64| n as f64 >= SHARE_MIN * total as f64;
    sums.into_iter().filter(|(_, n)| counts(*n)).map(|((a, b), _)| (a.into(), b.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::TouchKind;
    use tussle_evidence::sample::Sample;

    fn transfer(offset: u64, transfers: u64) -> Transfer {
        let (code, actor, schedule) = (None, None, None);
        let kind = TouchKind::Write;
        Transfer { object: 0, offset, size: 8, code, actor, kind, transfers, dirty: 0, schedule }
    }

    /// A struct `lock` of 128 bytes inside another one, from byte 64 on.
    fn recorded(rows: Vec<Transfer>) -> Evidence {
        let mut s = Sample::new(1000);
        let long = s.long();
        let lock = s.structure("lock", 128, &[("count", long, 0), ("owner", long, 8), ("queue", long, 64)]);
        let holder = s.structure("file", 192, &[("name", long, 0), ("lock", lock, 64)]);
        s.heap(0x1000, 192, Some(holder), 1, 64, None);
        let mut e = s.evidence();
        e.transfers = Some(rows);
        e
    }

    fn moved(path: &str, before: u64, after: u64) -> Moved {
        Moved { path: path.into(), at: [before, after], size: 8 }
    }

    #[test]
    fn fields_that_met_are_apart() {
        let before = recorded(vec![transfer(64, 50), transfer(72, 40), transfer(0, 10)]);
        let after = recorded(vec![transfer(64, 50), transfer(136, 20), transfer(128, 5)]);
        let fields = [moved("count", 0, 0), moved("owner.counter", 8, 72), moved("queue", 64, 64)];
        let again = Again::of(&before, &after, "lock", &fields);
        let pair = |a: &str, b: &str| vec![(a.to_string(), b.to_string())];
        assert_eq!(again.parted, pair("count", "owner"));
        assert_eq!(again.new, pair("owner", "queue"));
        assert_eq!(again.remain, []);
        assert_eq!(again.turns[0].of_struct, [100, 75], "what lies beside it in its holder counts, too");
        assert_eq!(again.sign(), Sign::Fewer);
        assert_eq!(Again::of(&before, &before, "lock", &fields).sign(), Sign::NotFewer);
    }

    #[test]
    fn one_length_that_disagrees_takes_the_sign() {
        let counted = |a, b| Counted { turn_instructions: None, of_struct: [a, b], all: [0, 0] };
        let of = |turns| Again { turns, parted: vec![], remain: vec![], new: vec![] }.sign();
        assert_eq!(of(vec![counted(9, 8), counted(9, 10)]), Sign::Turns);
        assert_eq!(
            of(vec![counted(99, 98), counted(99, 98)]),
            Sign::NotFewer,
            "no more than between two runs"
        );
        assert_eq!(of(vec![counted(9, 9), counted(9, 10)]), Sign::NotFewer);
        assert_eq!(of(vec![]), Sign::Turns);
    }
}
