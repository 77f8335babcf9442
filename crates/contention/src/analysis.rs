//! Which lines are fought over, by whom, and what would happen on other lines.

use crate::lines::{self, LinePieces, Range};
use crate::objective::{self, LineCost};
use crate::under;
use crate::window::{self, LineE, Spans};
use std::collections::{BTreeMap, HashMap};
use tussle_evidence::*;
use tussle_model::{LineSize, Placement};

/// Below this many expected invalidations no line is looked at as a latent case.
pub const LATENT_E_MIN: f64 = 1000.0;

/// What to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Line size.
    pub line: LineSize,
    /// Where objects begin.
    pub bases: Bases,
    /// Window of virtual time; `None` takes the recorder's.
    pub window_vt: Option<u64>,
    /// Shares by which lines are ranked and judged.
    pub split: Split,
}

impl Question {
    /// As it was recorded.
    pub fn observed() -> Question {
        Question { line: LineSize::L64, bases: Bases::Observed, window_vt: None, split: Split::Observed }
    }
}

/// Where objects begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bases {
    /// Where they were.
    Observed,
    /// Each object by itself, its first byte this far past a line boundary: what lay beside it is unknown there.
    Phase(u64),
}

/// Whose shares of the work count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Those recorded.
    Observed,
    /// Equal ones for threads with the same start routine.
    Even,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Contention {
    /// What was asked.
    pub question: Question,
    /// Window used.
    pub window_vt: u64,
    /// Lines with more than one actor, a store and E above 0, most expected invalidations first.
    pub lines: Vec<LineContention>,
    /// Lines that anyone touched.
    pub lines_touched: u64,
    /// Access rows that could not be evaluated.
    pub rows_left_out: u64,
}

/// One contended line.
#[derive(Clone, Debug)]
pub struct LineContention {
    /// Process id (index).
    pub process: u32,
    /// Address of its first byte: observed, or as the question moves it.
    pub address: u64,
    /// Its size.
    pub line: LineSize,
    /// Byte ranges on it that were touched, by object and offset.
    pub parts: Vec<Part>,
    /// Expected invalidations and their shares; `pairs` count in `parts`.
    pub e: LineE,
    /// Stores that find it elsewhere and copies lost, and what of them the best layout leaves.
    pub cost: LineCost,
    /// All accesses of the line.
    pub accesses: f64,
    /// Threads took turns at it, as was seen there, or as one lock demands that does not lie on it: these are
    /// hand-offs.
    pub in_turn: bool,
    /// The split of the question.
    pub split: Split,
}

/// Share of a line's accesses in turns from which on it counts as [`LineContention::in_turn`].
const IN_TURN_MIN: f64 = 0.95;

/// A byte range on a line, and who used it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Where it lies.
    pub range: Range,
    /// Sum over actors.
    pub counts: Counts,
    /// Per actor, in order of actor id.
    pub actors: Vec<(u32, Counts)>,
}

/// Accesses by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Loads.
    pub reads: f64,
    /// Stores.
    pub writes: f64,
    /// Atomic read-modify-writes.
    pub rmws: f64,
}

impl Counts {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.reads + self.writes + self.rmws
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Counts) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.rmws += other.rmws;
    }
}

impl LineContention {
    /// Threads take turns at it: as is known ([`LineContention::in_turn`]), or as the time of their accesses shows
    /// ([`LineE::by_turns`]).
    pub fn by_turns(&self) -> bool {
        self.in_turn || self.e.by_turns()
    }

    /// E at the split of the question.
    pub fn ranked_e(&self) -> f64 {
        match self.split {
            Split::Observed => self.e.e,
            Split::Even => self.e.e_even,
        }
    }

    /// Ids of the objects on it, ascending.
    pub fn objects(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.parts.iter().map(|p| p.range.object).collect();
        ids.dedup();
        ids
    }

    /// Ids of the actors that used it, ascending.
    pub fn actors(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.parts.iter().flat_map(|p| p.actors.iter().map(|a| a.0)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Evaluates every line. Linear in rows but for sorting.
pub fn contention(e: &Evidence, question: &Question) -> Contention {
    contention_of(e, question, 0.0, &|_, _| true)
}

/// The same of lines with so many stores, no line has a larger E, that `wanted` picks by process and address.
fn contention_of(
    e: &Evidence,
    question: &Question,
    stores_min: f64,
    wanted: &(dyn Fn(u32, u64) -> bool + Sync),
) -> Contention {
    let roles = Roles::new(e);
    let window_vt = question.window_vt.unwrap_or(e.run.window_vt).max(1);
    let base = |id: u32, o: &Object| match question.bases {
        Bases::Observed => Some(o.base),
        Bases::Phase(phase) => Some(apart(id, question.line, phase)),
    };
    let walked = lines::map_fights(e, e.accesses.iter(), (question.line, stores_min), &base, &|l| {
        wanted(l.process, l.address).then(|| evaluate(&l, question, window_vt, &roles))?
    });
    let mut found = walked.found;
    let rank = |l: &LineContention| (-l.ranked_e(), l.process, l.address);
    found.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    let (lines_touched, rows_left_out) = (walked.lines, walked.rows_left_out);
    Contention { question: *question, window_vt, lines: found, lines_touched, rows_left_out }
}

/// A place for each object where no other object's lines reach (objects are below 2^40 bytes, or wrap and are alone
/// anyway): 2^23 objects fit.
fn apart(id: u32, line: LineSize, phase: u64) -> u64 {
    (u64::from(id) << 40).wrapping_add(phase % line.bytes())
}

/// `None` where nobody is in another's way.
pub(crate) fn evaluate(
    l: &LinePieces,
    question: &Question,
    window_vt: u64,
    roles: &Roles,
) -> Option<LineContention> {
    // Most lines of a heap go from one thread to the next.
    if window::never_meet(&l.pieces, window_vt) {
        return None;
    }
    let line = Spans::new(&l.pieces, window_vt);
    let e = window::line_e_of(&line, &l.pieces, window_vt, &|actor| roles.of(actor));
    if e.e <= 0.0 && e.e_even <= 0.0 {
        return None;
    }
    let (parts, accesses) = parts(l);
    // Of each lock, its accesses, and those of them that are visits.
    let mut under: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for p in &l.pieces {
        let sums = under.entry(p.under.lock).or_default();
        sums.0 += p.accesses();
        sums.1 += if p.under.turn { p.accesses() } else { 0.0 };
    }
    let most = |n: f64| n >= IN_TURN_MIN * accesses;
    let bytes = question.line.bytes();
    let elsewhere = |lock| under::place_of(lock).is_some_and(|byte| !l.holds(byte, bytes));
    Some(LineContention {
        process: l.process,
        address: l.address,
        line: question.line,
        parts,
        e,
        cost: objective::line_cost_of(&line, &l.pieces, window_vt),
        accesses,
        in_turn: under.iter().any(|(lock, n)| most(n.1) || most(n.0) && elsewhere(*lock)),
        split: question.split,
    })
}

fn parts(l: &LinePieces) -> (Vec<Part>, f64) {
    let mut per: Vec<HashMap<u32, Counts>> = vec![HashMap::new(); l.ranges.len()];
    let mut accesses = 0.0;
    for p in &l.pieces {
        accesses += p.accesses();
        let counts = Counts { reads: p.reads, writes: p.writes, rmws: p.rmws };
        per[p.part as usize].entry(p.actor).or_default().add(&counts);
    }
    let part = |(range, actors): (&Range, HashMap<u32, Counts>)| {
        let mut actors: Vec<(u32, Counts)> = actors.into_iter().collect();
        actors.sort_unstable_by_key(|a| a.0);
        let mut counts = Counts::default();
        actors.iter().for_each(|a| counts.add(&a.1));
        Part { range: *range, counts, actors }
    };
    (l.ranges.iter().zip(per).map(part).collect(), accesses)
}

/// Which actors do the same kind of work: the same start routine, or else the same creator.
pub(crate) struct Roles(Vec<u32>);

impl Roles {
    fn new(e: &Evidence) -> Roles {
        let mut numbers: HashMap<(u8, u32), u32> = HashMap::new();
        let mut of = Vec::with_capacity(e.actors.len());
        for (i, a) in e.actors.iter().enumerate() {
            let key = match (a.kind, a.start, a.creator) {
                (ActorKind::Cpu, _, _) => (0, 0),
                // Code rows are per address: the same routine has the same row.
                (_, Some(start), _) => (1, start),
                (_, None, Some(creator)) => (2, creator),
                (_, None, None) => (3, i as u32),
            };
            let next = numbers.len() as u32;
            of.push(*numbers.entry(key).or_insert(next));
        }
        Roles(of)
    }

    fn of(&self, actor: u32) -> u32 {
        self.0.get(actor as usize).copied().unwrap_or(u32::MAX)
    }
}

/// A case hidden by the luck of this run's addresses or of this machine's lines.
#[derive(Clone, Debug)]
pub struct Latent {
    /// The worst line, as it would be.
    pub line: LineContention,
    /// Why it did not show.
    pub hidden_by: HiddenBy,
}

/// Why a latent case did not show.
#[derive(Clone, Debug, PartialEq)]
pub enum HiddenBy {
    /// The object began at `observed`; its allocator may put it at any of `phases` (each with the worst line's E),
    /// and at `worst` it fights.
    Phase {
        /// Object id.
        object: u32,
        /// Phase of this run, bytes.
        observed: u64,
        /// Phase at which [`Latent::line`] was evaluated, bytes.
        worst: u64,
        /// E of the worst line per possible phase.
        phases: Vec<(u64, f64)>,
    },
    /// Variables in neighbouring lines whose places the linker chose: in another build (the recorder's differs from the
    /// program's own) they lie further ahead or back, all together, and may share a line.
    Link {
        /// Object id of one of them.
        object: u32,
        /// E of their worst line by how far they are moved, bytes; first where they lie.
        phases: Vec<(u64, f64)>,
    },
    /// Variables of functions in neighbouring lines of the first thread's stack: the system puts it elsewhere in every
    /// run, and they with it.
    Stack {
        /// Object id of one of them.
        object: u32,
        /// E of their worst line by how far they are moved, bytes; first where they lie.
        phases: Vec<(u64, f64)>,
    },
    /// Two 64-byte lines that a machine with 128-byte lines, or one that fetches pairs of lines, moves as one.
    LineSize,
}

impl HiddenBy {
    /// Where else it may lie, bytes, and the E of the worst line there beyond what is seen here.
    pub fn elsewhere(&self) -> Vec<(u64, f64)> {
        match self {
            HiddenBy::Phase { phases, .. } => phases.clone(),
            // What variables fight over where they lie is no matter of their neighbours.
            HiddenBy::Link { phases, .. } | HiddenBy::Stack { phases, .. } => {
                let here = phases.first().map_or(0.0, |p| p.1);
                phases.iter().map(|(by, e)| (*by, (e - here).max(0.0))).collect()
            }
            HiddenBy::LineSize => Vec::new(),
        }
    }
}

/// Which lines are cases; the caller's judgement.
pub type IsCase<'a> = &'a dyn Fn(&LineContention) -> bool;

/// Everything that is no case at the observed bases with 64-byte lines but would be at another phase that the object's
/// alignment allows, or with 128-byte lines. `seen` is the contention at the observed bases.
pub fn latent(e: &Evidence, seen: &Contention, is_case: IsCase<'_>) -> Vec<Latent> {
    let mut out = Vec::new();
    let roles = Roles::new(e);
    let mut open: Vec<bool> = vec![true; e.objects.len()];
    for l in seen.lines.iter().filter(|l| is_case(l)) {
        l.objects().into_iter().for_each(|o| open[o as usize] = false);
    }
    let moved = crate::link::latent(e, seen, &|o| open.get(o as usize) == Some(&true), (&roles, is_case));
    // What lies on the first stack is told by that.
    for l in moved.iter().filter(|l| matches!(l.hidden_by, HiddenBy::Stack { .. })) {
        l.line.objects().into_iter().for_each(|o| open[o as usize] = false);
    }
    let is_open = |a: &&Access| open.get(a.object as usize) == Some(&true);
    let runs = e.accesses.chunk_by(|a, b| a.object == b.object).filter(|run| is_open(&&run[0]));
    let mut runs: Vec<&[Access]> = runs.collect();
    runs.sort_by_key(|run| run[0].object);
    for runs in runs.chunk_by(|a, b| a[0].object == b[0].object) {
        out.extend(latent_phase(e, seen, runs, (&roles, is_case)));
    }
    out.extend(moved);
    out.extend(latent_pairs(e, seen, is_case));
    // Other phases concern every machine, so they come first.
    let rank = |l: &Latent| (l.hidden_by == HiddenBy::LineSize, -l.line.e.e);
    out.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    out
}

fn latent_phase(
    e: &Evidence,
    seen: &Contention,
    runs: &[&[Access]],
    (roles, is_case): (&Roles, IsCase<'_>),
) -> Option<Latent> {
    let rows = || runs.iter().copied().flatten();
    let (object, actor) = rows().next().map(|a| (a.object, a.actor))?;
    let o = e.objects.get(object as usize)?;
    let stores = rows().map(|a| a.writes as f64 + a.rmws as f64).sum::<f64>();
    let several = rows().any(|a| a.actor != actor);
    if stores < LATENT_E_MIN || !several || !e.run.sees.phases {
        return None;
    }
    let line = seen.question.line;
    let rows = hot(&rows, line);
    if rows.is_empty() {
        return None;
    }
    let observed = line.offset(o.base);
    let mut phases = Vec::new();
    let mut worst: Option<(f64, u64)> = None;
    // Below 4 bytes there is no type that anybody shares and only the number of phases grows.
    for phase in Placement::aligned(o.align.max(4)).phases(line) {
        let walked = lines::map_fights(
            e,
            rows.iter().copied(),
            (line, LATENT_E_MIN),
            &|id, _| Some(apart(id, line, phase)),
            &|l| Some(window::quick_e(&l.pieces, seen.window_vt)),
        );
        let most = walked.found.into_iter().fold(0.0, f64::max);
        phases.push((phase, most));
        if phase != observed && worst.is_none_or(|(w, _)| most > w) {
            worst = Some((most, phase));
        }
    }
    let (most, worst) = worst.filter(|(most, _)| *most >= LATENT_E_MIN)?;
    let question = Question { bases: Bases::Phase(worst), ..seen.question };
    let hottest = lines::map_fights(
        e,
        rows.iter().copied(),
        (line, 0.0),
        &|id, _| Some(apart(id, line, worst)),
        &|l| (window::quick_e(&l.pieces, seen.window_vt) >= most * 0.999).then_some(l),
    );
    let line = hottest
        .found
        .iter()
        .filter_map(|l| evaluate(l, &question, seen.window_vt, roles))
        .find(|l| is_case(l))?;
    Some(Latent { line, hidden_by: HiddenBy::Phase { object, observed, worst, phases } })
}

/// Part of [`LATENT_E_MIN`] that is surely more than what rounding takes.
const SURELY: f64 = 0.99;

/// Rows of one object, in their order, that could be on a line with enough stores for a latent case, wherever the
/// object begins: a line's bytes are in two neighbouring blocks of its size.
fn hot<'a, I: Iterator<Item = &'a Access>>(rows: &dyn Fn() -> I, line: LineSize) -> Vec<&'a Access> {
    let blocks = |a: &Access| {
        let last = a.offset.saturating_add(u64::from(a.size.max(1)) - 1);
        line.index(a.offset)
            ..=line.index(last).min(line.index(a.offset).saturating_add(lines::LINES_PER_ROW_MAX))
    };
    let mut sums: Vec<(u64, f64)> = Vec::new();
    for (block, stores) in rows().flat_map(|a| blocks(a).map(|b| (b, a.writes as f64 + a.rmws as f64))) {
        match sums.last_mut().filter(|s| s.0 == block) {
            Some(sum) => sum.1 += stores,
            None => sums.push((block, stores)),
        }
    }
    sums.sort_by_key(|s| s.0);
    sums.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0.0 };
        same
    });
    let enough = |stores: f64| stores >= SURELY * LATENT_E_MIN;
    let alone = sums.iter().filter(|s| enough(s.1)).map(|s| s.0);
    let pairs = sums.windows(2).filter(|w| w[0].0 + 1 == w[1].0 && enough(w[0].1 + w[1].1));
    let mut hot: Vec<u64> = alone.flat_map(|b| [b.saturating_sub(1), b, b.saturating_add(1)]).collect();
    hot.extend(pairs.flat_map(|w| [w[0].0, w[1].0]));
    hot.sort_unstable();
    hot.dedup();
    let is_hot = |a: &&Access| {
        let (first, last) = (*blocks(a).start(), *blocks(a).end());
        let at = hot.partition_point(|b| *b < first);
        hot.get(at).is_some_and(|b| *b <= last)
    };
    rows().filter(is_hot).collect()
}

fn latent_pairs(e: &Evidence, seen: &Contention, is_case: IsCase<'_>) -> Vec<Latent> {
    if seen.question.line != LineSize::L64 {
        return Vec::new();
    }
    let known: std::collections::HashSet<(u32, u64)> =
        seen.lines.iter().filter(|l| is_case(l)).map(|l| (l.process, l.address / 128)).collect();
    // Samples are no counts.
    let stores_min = if e.run.unit.by_share() { 0.0 } else { LATENT_E_MIN };
    let question = Question { line: LineSize::L128, ..seen.question };
    let new = |process, address: u64| !known.contains(&(process, address / 128));
    let wide = contention_of(e, &question, stores_min, &new);
    wide.lines
        .into_iter()
        .filter(is_case)
        .map(|line| Latent { line, hidden_by: HiddenBy::LineSize })
        .collect()
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
