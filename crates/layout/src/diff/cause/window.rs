//! What changed between the last member that stayed and the first that moved.

use super::flat::{Flat, element};
use super::replay::{Need, Replay, Row};
use super::{Change, Pair, Step};
use foldhash::{HashMap, HashMapExt};
use tussle_model::Type;

/// The changes, with the members in between as they were and as they are.
pub(super) struct Window<'a> {
    pub steps: Vec<Step<'a>>,
    rows: Vec<Both<'a>>,
    /// The member that stayed.
    from: Option<Flat<'a>>,
}

/// A member of the old build, of the new one or of both, and its change.
struct Both<'a> {
    old: Option<Flat<'a>>,
    new: Option<Flat<'a>>,
    step: Option<usize>,
}

impl<'a> Window<'a> {
    /// In front of member `moved` of the new build, and that one itself; `None`: to the end.
    pub fn over(pair: &Pair<'a>, moved: Option<usize>) -> Window<'a> {
        let place = |name: &str| pair.at.0.get(name).copied();
        let upto = moved.unwrap_or(pair.b.len());
        // What stands in front of the last member that stayed was absorbed by holes.
        let from = (0..upto).rev().find(|&i| pair.stayed(i));
        let old_start = from.and_then(|i| place(pair.b[i].name)).map_or(0, |i| i + 1);
        let old_end = moved.and_then(|i| place(pair.b[i].name)).unwrap_or(pair.a.len());
        let mut window = Window { steps: Vec::new(), rows: Vec::new(), from: from.map(|i| pair.b[i]) };
        let mut displaced = HashMap::new();
        let mut old = old_start;
        for i in (from.map_or(0, |i| i + 1)..upto).filter(|&i| pair.at.1.get(pair.b[i].name) == Some(&i)) {
            let f = pair.b[i];
            match place(f.name) {
                Some(o) if pair.kept.1[i] => {
                    (old..o).for_each(|at| window.gone(pair, at, &mut displaced));
                    old = o + 1;
                    window.changed(pair, pair.a[o], f, false);
                }
                None if pair.hidden(true, &f).is_none() => window.push(None, Some(f), f, Change::Inserted),
                _ => window.came(f, &mut displaced),
            }
        }
        (old..old_end).for_each(|at| window.gone(pair, at, &mut displaced));
        if let Some(i) = moved {
            window.changed(pair, pair.a[old_end], pair.b[i], true);
        }
        window
    }

    fn push(&mut self, old: Option<Flat<'a>>, new: Option<Flat<'a>>, member: Flat<'a>, change: Change) {
        self.rows.push(Both { old, new, step: Some(self.steps.len()) });
        self.steps.push(Step { member, change });
    }

    /// One that stood elsewhere.
    fn came(&mut self, f: Flat<'a>, displaced: &mut HashMap<&'a str, usize>) {
        match displaced.get(f.name) {
            Some(&step) => self.rows.push(Both { old: None, new: Some(f), step: Some(step) }),
            None => {
                displaced.insert(f.name, self.steps.len());
                self.push(None, Some(f), f, Change::Reordered);
            }
        }
    }

    /// One that stands elsewhere, or nowhere.
    fn gone(&mut self, pair: &Pair<'a>, at: usize, displaced: &mut HashMap<&'a str, usize>) {
        let f = pair.a[at];
        if pair.at.0.get(f.name) != Some(&at) {
            return; // a second member of that name
        }
        if let Some(&step) = displaced.get(f.name) {
            return self.rows.push(Both { old: Some(f), new: None, step: Some(step) });
        }
        match pair.in_new(f.name).copied().or_else(|| pair.hidden(false, &f)) {
            None => self.push(Some(f), None, f, Change::Removed),
            Some(there) => {
                displaced.insert(f.name, self.steps.len());
                self.push(Some(f), None, there, Change::Reordered);
            }
        }
    }

    /// One that kept its order. `last`: the first that moved, which its own growth moves only where its alignment grows
    /// with it, as a scalar's does.
    fn changed(&mut self, pair: &Pair<'a>, old: Flat<'a>, new: Flat<'a>, last: bool) {
        let aggregate = |f: &Flat<'_>| pair.new.table.aggregate(element(pair.new.table, f.ty)).is_some();
        let array =
            |f: &Flat<'_>| matches!(pair.new.table.get(pair.new.table.strip(f.ty)), Type::Array { .. });
        let realigned = Need::of(&old, pair.old).is_realigned(&Need::of(&new, pair.new));
        let change = match (old.bits, new.bits) {
            (Some(x), Some(y)) if x != y => Some(Change::Rewidened(x, y)),
            _ if old.size != new.size && !(last && (aggregate(&new) || array(&new))) => {
                Some(Change::Resized(old.size, new.size))
            }
            _ => realigned.then_some(Change::Realigned),
        };
        match change {
            Some(change) => self.push(Some(old), Some(new), new, change),
            None => self.rows.push(Both { old: Some(old), new: Some(new), step: None }),
        }
    }

    /// To be laid out again with some of the changes.
    pub fn replay(&self, pair: &Pair<'a>, first: &Flat<'a>) -> Replay {
        let row = |r: &Both<'a>| Row {
            old: r.old.map(|f| Need::of(&f, pair.old)),
            new: r.new.map(|f| Need::of(&f, pair.new)),
            step: r.step,
        };
        let end =
            |f: Flat<'_>| f.first_bit.saturating_add(f.bits.map_or(f.size.saturating_mul(8), u64::from));
        let old = pair.in_old(first.name).map_or(first.first_bit, |o| o.first_bit);
        Replay {
            start: self.from.map_or(0, end),
            rows: self.rows.iter().map(row).collect(),
            first_bits: (old, first.first_bit),
            steps: self.steps.len(),
        }
    }

    /// These of the changes.
    pub fn take(self, which: &[usize]) -> Vec<Step<'a>> {
        let all = self.steps.into_iter().enumerate();
        all.filter(|(i, _)| which.binary_search(i).is_ok()).map(|(_, s)| s).collect()
    }
}
