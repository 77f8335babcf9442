//! What holds on machines whose lines have another size: verdicts and proposals, at the recorded accesses.

use std::collections::{HashMap, HashSet};

use tussle_contention::analysis::{Contention, LineContention};
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

/// The cost of each line that held the same objects all the time; `None` of the others.
fn known(seen: &Contention) -> HashMap<(u32, u64), Option<LineCost>> {
    let mut known: HashMap<(u32, u64), Option<LineCost>> = HashMap::new();
    for l in &seen.lines {
        known.entry((l.process, l.address)).and_modify(|cost| *cost = None).or_insert(Some(l.cost));
    }
    known
}

/// Blocks of memory on which there are bytes of some lines.
struct Blocks {
    bytes: u64,
    /// By process, ascending.
    all: Vec<(u32, u64)>,
    /// The block that was asked for last, and whether it is one of these: rows come line by line.
    last: Option<((u32, u64), bool)>,
}

impl Blocks {
    fn of(fights: &[&LineContention], bytes: u64) -> Blocks {
        let each = |l: &&LineContention| {
            let process = l.process;
            met(l.address, l.line.bytes(), bytes).map(move |b| (process, b))
        };
        let mut all: Vec<(u32, u64)> = fights.iter().flat_map(each).collect();
        all.sort_unstable();
        all.dedup();
        Blocks { bytes, all, last: None }
    }

    /// Whether a row has bytes on one of them.
    fn meet(&mut self, e: &Evidence, a: &Access) -> bool {
        let Some(o) = e.objects.get(a.object as usize) else { return false };
        let at = o.base.saturating_add(a.offset);
        met(at, u64::from(a.size), self.bytes).any(|b| {
            let block = (o.process, b);
            let known = self.last.filter(|l| l.0 == block).map(|l| l.1);
            let here = known.unwrap_or_else(|| self.all.binary_search(&block).is_ok());
            self.last = Some((block, here));
            here
        })
    }
}

/// Blocks of so many bytes that hold bytes of a range.
fn met(address: u64, bytes: u64, block: u64) -> std::ops::RangeInclusive<u64> {
    address / block..=address.saturating_add(bytes.max(1) - 1) / block
}

impl ByLine {
    /// Of lines at the recorded addresses, of which `seen` tells some already.
    pub fn new<'a>(
        e: &Evidence,
        seen: &Contention,
        fights: impl Iterator<Item = &'a LineContention>,
    ) -> ByLine {
        let known = known(seen);
        let fights: Vec<&LineContention> = fights.collect();
        let mut wanted = Blocks::of(&fights, BLOCK_BYTES);
        let rows: Vec<&Access> = e.accesses.iter().filter(|a| wanted.meet(e, a)).collect();
        let mut costs: HashMap<(u32, u32, u64), LineCost> = HashMap::new();
        for line in LINES_BYTES.into_iter().filter_map(LineSize::new) {
            // Nobody asks for the other lines of a block.
            let mut on = Blocks::of(&fights, line.bytes());
            if line == seen.question.line {
                on.all.retain(|&(process, block)| {
                    let address = block * line.bytes();
                    let cost = known.get(&(process, address)).copied().flatten();
                    costs.extend(cost.map(|c| ((line.bytes() as u32, process, address), c)));
                    cost.is_none()
                });
            }
            let asked = on.all.clone();
            let rows = rows.iter().copied().filter(|a| on.meet(e, a));
            let fights = map_fights(e, rows, (line, 0.0), &|_, o| Some(o.base), &|l| {
                let own = asked.binary_search(&(l.process, line.index(l.address))).is_ok();
                own.then(|| (l.process, l.address, line_cost(&l.pieces, seen.window_vt)))
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
