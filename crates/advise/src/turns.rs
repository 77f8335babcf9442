//! What a change of layout does to transfers at every recorded length of a turn, and whether all lengths agree.
//!
//! How long a CPU goes on before another one comes is a knob of the emulator, and on a machine it is nobody's. A sign
//! that turns with it is none: there is no mean over lengths.

use tussle_contention::replay;
use tussle_evidence::Evidence;

use crate::abi::Shapes;
use crate::advice::Advice;
use crate::elsewhere::{Change, Elsewhere, Moved};

/// Changes below this share of the transfers are none: attribution and the log's limits are not finer.
const SAME_SHARE_MAX: f64 = 0.01;

/// A smaller change has no sign: recordings of one workload (97 to 103 operations of mmap1 on 6.12, turns of 100
/// instructions) gave -3.4% to +2.3% for one change of a layout.
pub const SIGN_SHARE_MIN: f64 = 0.05;

/// Advices replayed of a long list, the best ones first.
const REPLAYED_MAX: usize = 5;

/// One length of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtTurn {
    /// Instructions of a turn; `None` where the recording does not say.
    pub turn_instructions: Option<u64>,
    /// Transfers of what the change reaches, before and after; `None` where this recording's log does not hold it.
    pub reached: Option<[u64; 2]>,
}

impl AtTurn {
    /// Change as a share of what there was.
    pub fn share(&self) -> Option<f64> {
        let [before, after] = self.reached?;
        (before > 0).then(|| (after as f64 - before as f64) / before as f64)
    }

    /// -1 or 1 for a change of more than `least`, as a share of what there was.
    fn sign(&self, least: f64) -> Option<i8> {
        let [before, after] = self.reached?;
        Some(match self.share() {
            None => i8::from(after > before),
            Some(share) if share.abs() < least => 0,
            Some(share) => share.signum() as i8,
        })
    }
}

/// What all lengths say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// Fewer transfers at each.
    Fewer,
    /// Neither fewer nor more at any.
    Same,
    /// More transfers at each.
    More,
    /// It turns, or is there at some only.
    Turns,
    /// The same way at each, but at some by less than [`SIGN_SHARE_MIN`].
    Little,
    /// Only one length was recorded, or some recording does not hold what changes.
    Unknown,
}

impl Sign {
    /// As reports print it.
    pub fn words(self) -> &'static str {
        match self {
            Sign::Fewer => "fewer transfers at every turn length recorded",
            Sign::Same => "the same within 1% at every turn length recorded",
            Sign::More => "more transfers at every turn length recorded",
            Sign::Turns => {
                "none: it turns with how long a CPU goes on before the next one, which no machine tells"
            }
            Sign::Little => {
                "none: less than 5% at some turn length, and two recordings of one workload differ by as much"
            }
            Sign::Unknown => {
                "not decided: one turn length only, and it may turn with that (`record-kernel` without --quantum has \
                 three)"
            }
        }
    }

    /// For programs.
    pub fn key(self) -> &'static str {
        match self {
            Sign::Fewer => "fewer",
            Sign::Same => "same",
            Sign::More => "more",
            Sign::Turns => "turns",
            Sign::Little => "little",
            Sign::Unknown => "unknown",
        }
    }
}

/// A change at every length, shortest turns first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope(pub Vec<AtTurn>);

impl Envelope {
    /// Asks every recording.
    pub fn new(e: &Evidence, mut ask: impl FnMut(&Evidence) -> Option<[u64; 2]>) -> Envelope {
        let at = |e| AtTurn { turn_instructions: Evidence::turn_instructions(e), reached: ask(e) };
        let mut all: Vec<AtTurn> = e.turn_lengths().map(at).collect();
        all.sort_by_key(|t| t.turn_instructions);
        Envelope(all)
    }

    fn signs(&self, least: f64) -> Option<Vec<i8>> {
        self.0.iter().map(|t| t.sign(least)).collect()
    }

    /// What they agree on.
    pub fn sign(&self) -> Sign {
        let (Some(fine), Some(plain)) = (self.signs(SAME_SHARE_MAX), self.signs(SIGN_SHARE_MIN)) else {
            return Sign::Unknown;
        };
        let all = |signs: &[i8], of: &dyn Fn(i8) -> bool| signs.iter().all(|s| of(*s));
        match fine.as_slice() {
            [] | [_] => Sign::Unknown,
            fine if all(fine, &|s| s == 0) => Sign::Same,
            _ if all(&plain, &|s| s < 0) => Sign::Fewer,
            _ if all(&plain, &|s| s > 0) => Sign::More,
            fine if all(fine, &|s| s < 0) || all(fine, &|s| s > 0) => Sign::Little,
            _ => Sign::Turns,
        }
    }

    /// No length says fewer, and one more.
    fn is_worse(&self) -> bool {
        let signs = self.signs(SAME_SHARE_MAX);
        signs.is_some_and(|all| all.len() > 1 && all.iter().all(|s| *s >= 0) && all.iter().any(|s| *s > 0))
    }

    /// The least that is saved at any length; `None` unless each says so.
    fn saved_min(&self) -> Option<u64> {
        self.0.iter().map(|t| t.reached.map(|[before, after]| before.saturating_sub(after))).min().flatten()
    }

    /// `-12.1% to +8.6%`, or one of them where all are equal; empty where nothing is known.
    pub fn range(&self) -> String {
        let mut shares: Vec<f64> = self.0.iter().filter_map(AtTurn::share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let text = |s: &f64| format!("{:+.1}%", 100.0 * s);
        match (shares.first().map(text), shares.last().map(text)) {
            (Some(a), Some(b)) if a != b => format!("{a} to {b}"),
            (Some(a), _) => a,
            _ => String::new(),
        }
    }
}

/// Transfers of what a change reaches, before and after, by replay of the ordered log; `None` without one.
pub fn reached(e: &Evidence, line_bytes: u64, other: &dyn Elsewhere) -> Option<[u64; 2]> {
    let sum = |address: &dyn Fn(u32, u64) -> Option<u64>| {
        let all = replay::replay(e, line_bytes, address)?;
        let counts = |s: &(u32, u64)| {
            e.objects.get(s.0 as usize).is_some_and(|o| other.reaches(o)) && other.address(s.0, s.1).is_some()
        };
        Some(all.iter().filter(|(s, _)| counts(s)).map(|(_, m)| m.all()).sum())
    };
    let there = |object: u32, offset: u64| other.address(object, offset);
    Some([sum(&replay::recorded(e))?, sum(&there)?])
}

/// Replays a change of one struct at every length.
pub fn replayed(e: &Evidence, line_bytes: u64, change: &Change) -> Envelope {
    Envelope::new(e, |e| {
        let shapes = Shapes::new(&e.types);
        reached(e, line_bytes, &Moved::new(e, &shapes, change).ok()?)
    })
}

/// Replays the first of a list and puts what saves transfers at every length first, that which saves most at the worst
/// of them ahead; then what has no sign, in the order it had; last what changes nothing. What makes more transfers is
/// no proposal, whatever is expected of it: how many there were.
pub(crate) fn rank(e: &Evidence, line_bytes: u64, advices: &mut Vec<Advice>) -> usize {
    if e.order.is_none() {
        return 0;
    }
    for a in advices.iter_mut().take(REPLAYED_MAX) {
        a.replayed = Some(replayed(e, line_bytes, &Change::new(&a.type_name, &a.edits)));
    }
    let before = advices.len();
    advices.retain(|a| !a.replayed.as_ref().is_some_and(Envelope::is_worse));
    sort(advices);
    before - advices.len()
}

/// What is said where [`rank`] left changes out.
pub(crate) fn left_out(changes: usize) -> Option<String> {
    let all = if changes == 1 { "1 change is".into() } else { format!("{changes} changes are") };
    (changes > 0).then(|| {
        format!(
            "{all} left out: expected to gain by shares of accesses, but with the recorded accesses in their order \
             there are more transfers at the recorded lengths of a turn"
        )
    })
}

/// The order of [`rank`] alone.
pub(crate) fn sort(advices: &mut [Advice]) {
    let key = |a: &Advice| match a.replayed.as_ref().map(|r| (r.sign(), r.saved_min())) {
        Some((Sign::Fewer, saved)) => (0, std::cmp::Reverse(saved)),
        Some((Sign::More | Sign::Same, _)) => (2, std::cmp::Reverse(None)),
        _ => (1, std::cmp::Reverse(None)),
    };
    advices.sort_by_key(key);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(all: &[Option<[u64; 2]>]) -> Envelope {
        let at = |(i, reached): (usize, &Option<[u64; 2]>)| AtTurn {
            turn_instructions: Some(100 * i as u64),
            reached: *reached,
        };
        Envelope(all.iter().enumerate().map(at).collect())
    }

    #[test]
    fn a_sign_is_what_all_lengths_agree_on() {
        let check = |all: &[Option<[u64; 2]>], want: Sign, range: &str| {
            let e = envelope(all);
            assert_eq!((e.sign(), e.range().as_str()), (want, range), "{all:?}");
        };
        check(&[Some([1000, 879]), Some([1000, 1086])], Sign::Turns, "-12.1% to +8.6%");
        check(&[Some([1000, 500]), Some([1000, 900])], Sign::Fewer, "-50.0% to -10.0%");
        check(&[Some([1000, 500]), Some([1000, 970])], Sign::Little, "-50.0% to -3.0%");
        check(&[Some([1000, 1018]), Some([1000, 1104])], Sign::Little, "+1.8% to +10.4%");
        check(&[Some([1000, 1500]), Some([10, 11])], Sign::More, "+10.0% to +50.0%");
        check(&[Some([1000, 995]), Some([1000, 1005])], Sign::Same, "-0.5% to +0.5%");
        check(&[Some([1000, 500]), Some([1000, 1000])], Sign::Turns, "-50.0% to +0.0%");
        check(&[Some([1000, 500])], Sign::Unknown, "-50.0%");
        check(&[Some([1000, 500]), None], Sign::Unknown, "-50.0%");
        check(&[Some([0, 0]), Some([0, 3])], Sign::Turns, "");
        check(&[], Sign::Unknown, "");
    }

    #[test]
    fn what_no_length_calls_better_is_worse() {
        let worse = |all: &[Option<[u64; 2]>]| envelope(all).is_worse();
        assert!(worse(&[Some([1000, 1500]), Some([1000, 1100])]));
        assert!(worse(&[Some([1000, 1005]), Some([1000, 1016])]), "the same at one, more at another");
        assert!(!worse(&[Some([1000, 1005]), Some([1000, 1000])]), "the same");
        assert!(!worse(&[Some([1000, 900]), Some([1000, 1500])]), "no sign");
        assert!(!worse(&[Some([1000, 1500])]), "one length may turn");
        assert!(!worse(&[Some([1000, 1500]), None]));
    }

    #[test]
    fn the_worst_length_ranks_and_what_has_no_sign_keeps_its_order() {
        let advice = |name: &str, all: &[Option<[u64; 2]>]| Advice {
            type_name: name.into(),
            replayed: Some(envelope(all)),
            ..Advice::default()
        };
        let mut all = vec![
            advice("more", &[Some([10, 20]), Some([10, 20])]),
            advice("turns", &[Some([1000, 0]), Some([10, 20])]),
            advice("mean is best", &[Some([1000, 0]), Some([1000, 940])]),
            advice("one length", &[Some([1000, 0])]),
            advice("least is best", &[Some([1000, 600]), Some([1000, 500])]),
        ];
        sort(&mut all);
        let names: Vec<&str> = all.iter().map(|a| a.type_name.as_str()).collect();
        assert_eq!(names, ["least is best", "mean is best", "turns", "one length", "more"]);
    }
}
