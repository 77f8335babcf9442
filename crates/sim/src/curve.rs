//! What a processor hides of a line's way behind the work before an access: a table that `tussle calibrate` measures.

use crate::machine::MachineError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lengths of work in a table.
const POINTS_MAX: usize = 64;
/// Longest work in a table, ns.
const WORK_NS_MAX: f64 = 100_000.0;

/// What is done to a line for which two CPUs contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One locked operation.
    Rmw,
    /// Two locked operations on one word.
    TwoRmw,
    /// Locked operation, increment, locked operation: a lock beside its data.
    Mutex,
    /// A store.
    Store,
    /// A load and a store.
    Increment,
    /// A load that nobody waits for.
    Load,
    /// A load that the work after it waits for.
    LoadChain,
    /// The same between locked operations on a line of its own: [`Pattern::Rmw`].
    LockedRmw,
    /// [`Pattern::Mutex`].
    LockedMutex,
    /// [`Pattern::Store`].
    LockedStore,
    /// [`Pattern::Increment`].
    LockedIncrement,
    /// [`Pattern::Load`].
    LockedLoad,
    /// [`Pattern::LoadChain`].
    LockedLoadChain,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 13] = [
        Pattern::Rmw,
        Pattern::TwoRmw,
        Pattern::Mutex,
        Pattern::Store,
        Pattern::Increment,
        Pattern::Load,
        Pattern::LoadChain,
        Pattern::LockedRmw,
        Pattern::LockedMutex,
        Pattern::LockedStore,
        Pattern::LockedIncrement,
        Pattern::LockedLoad,
        Pattern::LockedLoadChain,
    ];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Pattern::Rmw => "locked operation",
            Pattern::TwoRmw => "two locked operations",
            Pattern::Mutex => "lock beside its data",
            Pattern::Store => "store",
            Pattern::Increment => "increment",
            Pattern::Load => "load",
            Pattern::LoadChain => "load into a chain",
            Pattern::LockedRmw => "between locked ones: locked operation",
            Pattern::LockedMutex => "between locked ones: lock beside its data",
            Pattern::LockedStore => "between locked ones: store",
            Pattern::LockedIncrement => "between locked ones: increment",
            Pattern::LockedLoad => "between locked ones: load",
            Pattern::LockedLoadChain => "between locked ones: load into a chain",
        }
    }
}

/// What an operation costs more, in ns, when another CPU does the same (stores, where the operation is a load) at the
/// same pace, by the length and the kind of the work before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Lengths of work, ns, ascending.
    pub work_ns: Vec<f64>,
    /// Behind one chain, every step of which waits for the one before it: by length of work.
    pub dependent: BTreeMap<Pattern, Vec<f64>>,
    /// Behind work that waits for nothing and fills the processor's window.
    pub independent: BTreeMap<Pattern, Vec<f64>>,
}

/// The value at `x` of a line through points; flat outside of them.
fn interpolated(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let after = xs.partition_point(|&a| a < x);
    match (
        after.checked_sub(1).and_then(|i| Some((xs.get(i)?, ys.get(i)?))),
        xs.get(after).zip(ys.get(after)),
    ) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0).max(1e-9),
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => 0.0,
    }
}

/// What is left behind work of `x` ns. What longer work does not hide, shorter work of its kind does not either: where
/// two CPUs take a line for several operations in turn, little work costs little, too, but nothing is hidden.
fn exposed(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let longer = ys.iter().skip(xs.partition_point(|&a| a < x)).copied();
    longer.fold(interpolated(xs, ys, x), f64::max)
}

impl Curve {
    /// How long before an access of one of these patterns its line is asked for, ns, behind `work_ns` of work.
    /// `chained` from 0 (the work waits for nothing) to 1 (one chain) spans what the table's columns say; several
    /// patterns, of which it is not known which one it is, are spanned, too. Never more than the work.
    pub fn ahead_ns(&self, patterns: &[Pattern], work_ns: f64, chained: f64) -> f64 {
        let columns = |p: &Pattern| [self.independent.get(p), self.dependent.get(p)];
        // What it costs where least is hidden is the line's whole way.
        let whole = |p: &Pattern| columns(p).into_iter().flatten().flatten().copied().fold(0.0, f64::max);
        let hidden = |p: &Pattern| {
            let whole = whole(p);
            let one =
                move |c: &Vec<f64>| (whole - exposed(&self.work_ns, c, work_ns)).clamp(0.0, work_ns.max(0.0));
            columns(p).into_iter().flatten().map(one)
        };
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for ns in patterns.iter().flat_map(hidden) {
            (least, most) = (least.min(ns), most.max(ns));
        }
        if least > most { 0.0 } else { least + (most - least) * chained.clamp(0.0, 1.0) }
    }

    /// Checks every value; `machine` is for the message.
    ///
    /// # Errors
    /// [`MachineError::Range`] for the first one out of range.
    pub fn validate(&self, machine: &str) -> Result<(), MachineError> {
        let error = |key: &str, value: f64, range| {
            Err(MachineError::Range { machine: machine.into(), key: format!("curve.{key}"), value, range })
        };
        let works = &self.work_ns;
        if works.is_empty() || works.len() > POINTS_MAX {
            return error("work_ns", works.len() as f64, "1 to 64 lengths");
        }
        if let Some(&w) = works.iter().find(|w| !(0.0..=WORK_NS_MAX).contains(*w)) {
            return error("work_ns", w, "from 0 to 100,000 ns");
        }
        if let Some(w) = works.windows(2).find(|w| w[0] >= w[1]) {
            return error("work_ns", w[1], "longer than the one before it");
        }
        for column in self.dependent.values().chain(self.independent.values()) {
            if column.len() != works.len() {
                return error(
                    "dependent/independent",
                    column.len() as f64,
                    "as many figures as lengths of work",
                );
            }
            if let Some(&x) = column.iter().find(|x| !(0.0..=WORK_NS_MAX).contains(*x)) {
                return error("dependent/independent", x, "from 0 to 100,000 ns");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let column = |all: &[f64; 3]| BTreeMap::from([(Pattern::Rmw, all.to_vec())]);
        Curve {
            work_ns: vec![0.0, 100.0, 200.0],
            dependent: column(&[40.0, 20.0, 0.0]),
            independent: column(&[80.0, 80.0, 60.0]),
        }
    }

    #[test]
    fn what_is_hidden_lies_between_both_columns() {
        let c = curve();
        let ahead = |work, chained| c.ahead_ns(&[Pattern::Rmw], work, chained);
        assert_eq!([ahead(100.0, 0.0), ahead(100.0, 0.5), ahead(100.0, 1.0)], [0.0, 30.0, 60.0]);
        assert_eq!([ahead(150.0, 0.0), ahead(150.0, 1.0)], [10.0, 70.0], "between two lengths");
        assert_eq!([ahead(30.0, 1.0), ahead(0.0, 1.0)], [30.0, 0.0], "no more than the work");
        assert_eq!([ahead(900.0, 0.0), ahead(900.0, 1.0)], [20.0, 80.0], "flat behind the end");
        let runs = Curve { independent: [(Pattern::Rmw, vec![10.0, 80.0, 80.0])].into(), ..curve() };
        assert_eq!(runs.ahead_ns(&[Pattern::Rmw], 50.0, 0.0), 0.0, "a line that stays hides nothing");
        assert_eq!(c.ahead_ns(&[Pattern::Load], 100.0, 1.0), 0.0, "what was not measured hides nothing");
    }

    #[test]
    fn bad_tables_are_refused() {
        let bad = |change: &dyn Fn(&mut Curve), want: &str| {
            let mut c = curve();
            change(&mut c);
            let error = c.validate("m").unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        curve().validate("m").unwrap();
        bad(&|c| c.work_ns.clear(), "0 is not 1 to 64 lengths");
        bad(&|c| c.work_ns[2] = 100.0, "100 is not longer");
        bad(&|c| c.work_ns[1] = f64::NAN, "NaN is not from 0");
        bad(&|c| c.dependent.values_mut().for_each(|v| v.truncate(2)), "2 is not as many");
        bad(&|c| c.independent.values_mut().for_each(|v| v[0] = -1.0), "-1 is not from 0");
    }
}
