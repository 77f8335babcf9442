//! What holds on machines whose lines have another size: verdicts and proposals, at the recorded accesses.

use std::collections::{HashMap, HashSet};

use tussle_contention::analysis::LineContention;
use tussle_contention::group::by_turns;
use tussle_contention::lines::map_fights;
use tussle_contention::objective::{LineCost, line_cost};
use tussle_evidence::{Access, Evidence};
use tussle_model::LineSize;

use crate::abi::Shapes;
use crate::advice::Advice;
use crate::class::{COST_MIN, Class, Verdicts};
use crate::named::type_named;
use crate::relayout::Relayout;
use crate::scene::Scene;
use crate::variables;

/// Lines of most machines; of Apple's and POWER's, and two at once on x86; of s390. Bytes, ascending.
pub const LINES_BYTES: [u32; 3] = [64, 128, 256];

/// A proposal holds where it leaves this share of the cost at most, beside what it leaves on the lines that suit it
/// best.
const LEFT_SHARE_MAX: f64 = 0.05;

/// What a fight is on lines of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Of the line.
    pub line_bytes: u32,
    /// Stores that find the line elsewhere, and copies lost.
    pub transfers: f64,
    /// What it is there.
    pub class: Class,
}

/// Costs of some lines, and of the lines of other sizes on which they would lie.
pub struct ByLine {
    /// By size of the line, process and address.
    costs: HashMap<(u32, u32, u64), LineCost>,
}

/// The widest line: a block of such bytes holds whole lines of all sizes.
const BLOCK_BYTES: u64 = 256;

fn blocks(address: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    address / BLOCK_BYTES..=address.saturating_add(bytes.max(1) - 1) / BLOCK_BYTES
}

impl ByLine {
    /// Of lines at the recorded addresses.
    pub fn new<'a>(e: &Evidence, window_vt: u64, fights: impl Iterator<Item = &'a LineContention>) -> ByLine {
        let wanted: HashSet<(u32, u64)> =
            fights.flat_map(|l| blocks(l.address, l.line.bytes()).map(|b| (l.process, b))).collect();
        let on = |a: &&Access| {
            let Some(o) = e.objects.get(a.object as usize) else { return false };
            let at = o.base.saturating_add(a.offset);
            blocks(at, u64::from(a.size)).any(|b| wanted.contains(&(o.process, b)))
        };
        let rows: Vec<&Access> =
            if wanted.is_empty() { Vec::new() } else { e.accesses.iter().filter(on).collect() };
        let mut costs: HashMap<(u32, u32, u64), LineCost> = HashMap::new();
        for line in LINES_BYTES.into_iter().filter_map(LineSize::new) {
            let rows = rows.iter().copied();
            let fights = map_fights(e, rows, (line, 0.0), &|_, o| Some(o.base), &|l| {
                Some((l.process, l.address, line_cost(&l.pieces, window_vt)))
            });
            for (process, address, cost) in fights.found {
                costs.entry((line.bytes() as u32, process, address)).or_default().add(&cost);
            }
        }
        ByLine { costs }
    }

    /// What a fight is on lines of each size: on all that hold bytes of its own lines.
    pub fn verdicts(&self, fight: &[&LineContention]) -> Vec<Verdict> {
        LINES_BYTES.map(|bytes| self.verdict(fight, bytes)).into()
    }

    fn verdict(&self, fight: &[&LineContention], line_bytes: u32) -> Verdict {
        let size = u64::from(line_bytes);
        let lines: HashSet<(u32, u64)> = fight
            .iter()
            .flat_map(|l| {
                let (first, last) = (l.address / size, (l.address + (l.line.bytes() - 1)) / size);
                (first..=last).map(|n| (l.process, n * size))
            })
            .collect();
        let mut cost = LineCost::default();
        for (process, address) in lines {
            cost.add(&self.costs.get(&(line_bytes, process, address)).copied().unwrap_or_default());
        }
        let class = Class::of(&cost).of_turns(by_turns(fight));
        Verdict { line_bytes, transfers: cost.total(), class }
    }
}

/// What a proposal makes of its struct on lines of one size, as means over the places that they may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// Of the line.
    pub line_bytes: u32,
    /// Transfers without it.
    pub before: f64,
    /// Transfers with it.
    pub after: f64,
    /// Next to nothing is left of what some layout removes.
    pub holds: bool,
}

/// The same proposal on lines of each size; empty where it cannot be laid out.
pub fn left(e: &Evidence, advice: &Advice) -> Vec<Left> {
    let costs: Vec<(u32, f64, f64)> = LINES_BYTES
        .into_iter()
        .filter_map(|bytes| {
            let (before, after) = match advice.variables.is_empty() {
                true => of_struct(e, advice, u64::from(bytes))?,
                false => variables::costs(e, advice, u64::from(bytes))?,
            };
            Some((bytes, before, after))
        })
        .collect();
    let least = costs.iter().map(|c| c.2).fold(f64::INFINITY, f64::min);
    let of = |(line_bytes, before, after): (u32, f64, f64)| {
        let beside = after - least;
        Left { line_bytes, before, after, holds: beside < COST_MIN || beside < LEFT_SHARE_MAX * before }
    };
    costs.into_iter().map(of).collect()
}

/// The sizes of lines on which a layout helps a struct.
pub fn helped(e: &Evidence, name: &str) -> Vec<u32> {
    let Some(target) = type_named(e, name) else { return Vec::new() };
    let helps = |bytes: &u32| {
        let Some(line) = LineSize::new(*bytes) else { return false };
        let scene = Scene::new(e, target, line.bytes());
        let verdicts = Verdicts::new(e, line);
        let holds = |o| scene.holds(o);
        verdicts.of_objects(holds) == Class::LayoutHelps || verdicts.hides(holds)
    };
    LINES_BYTES.into_iter().filter(helps).collect()
}

fn of_struct(e: &Evidence, advice: &Advice, line: u64) -> Option<(f64, f64)> {
    let target = type_named(e, &advice.type_name)?;
    let shapes = Shapes::new(&e.types);
    let scene = Scene::new(e, target, line);
    let cost = |edits| Some(scene.cost(&Relayout::new(&shapes, scene.target, edits).ok()?).ok()?.mean);
    Some((cost(&[])?, cost(&advice.edits)?))
}
