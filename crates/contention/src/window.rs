//! Expected invalidations of one cache line: the arithmetic, without tables.
//!
//! Each actor's accesses come as pieces that are uniform over `[vt0, vt1)`. At any instant of virtual time, actor `i`
//! writes with density `wᵢ` and accesses with density `nᵢ`; a write invalidates somebody's copy when the access before
//! it was another actor's, which has probability `1 − nᵢ/N`. Hence
//!
//! ```text
//! E = ∫ Σᵢ wᵢ (1 − nᵢ/N) dt        w: stores and RMWs, n: all accesses, N = Σ n over the actors active at t
//! ```
//!
//! Who came first is not looked at: on few CPUs the observed interleaving counts context switches. A *stretch* (pieces
//! of one actor and part that touch each other) shorter than a window is spread over the cells of the window grid that
//! it lies in, so that short visits in the same window meet; longer ones keep their exact extent, so that phases that
//! follow each other (a barrier between them) do not. E does not depend on how a stretch is cut into pieces.

use crate::pairs::Pairs;
use crate::under::{self, Bound, Under};
use std::cell::RefCell;

/// Accesses of one actor to one byte range of the line, uniform over a stretch of virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Actor; any number.
    pub actor: u32,
    /// The caller's name for the byte range (a field); pairs are reported by it. Small numbers: a table is sized by it.
    pub part: u32,
    /// First byte within the line.
    pub first: u32,
    /// Bytes; `first + size` is at most 128.
    pub size: u32,
    /// First access.
    pub vt0: u64,
    /// One past the last; an empty range counts as one instant.
    pub vt1: u64,
    /// Loads.
    pub reads: f64,
    /// Stores.
    pub writes: f64,
    /// Atomic read-modify-writes, not contained in the other two.
    pub rmws: f64,
    /// The lock under which they happened.
    pub under: Under,
}

impl Piece {
    /// All accesses.
    pub fn accesses(&self) -> f64 {
        self.reads + self.writes + self.rmws
    }

    /// Those that need the line exclusively.
    pub fn stores(&self) -> f64 {
        self.writes + self.rmws
    }
}

/// What happens on one line. All `e*` are expected invalidations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineE {
    /// At the observed shares of the actors.
    pub e: f64,
    /// If actors of one role took equal shares: for work queues, where the scheduler decides who does how much.
    pub e_even: f64,
    /// As if all accesses of the run were concurrent; hand-offs make this far larger than `e`.
    pub e_whole_run: f64,
    /// Part of `e` between actors that touch the same bytes, at least one writing: padding cannot help.
    pub e_true: f64,
    /// Part of `e` between actors that share no byte.
    pub e_false: f64,
    /// The rest of `e` between actors that share some bytes: stores to, or losses of, bytes that are not shared or
    /// that both only read.
    pub e_mixed: f64,
    /// Times the line passed from one set of actors to a disjoint one: real, but rare, transfers.
    pub handoffs: u64,
    /// Stretches in which two actors or more used the line, and the windows that these lasted together.
    pub overlaps: u64,
    /// `(part written, part whose user loses the line, e)`; they add up to `e`. Empty when there are too many actors.
    pub pairs: Vec<(u32, u32, f64)>,
    /// The part of `pairs` between accesses under one lock, which ordered them; in order of the two parts.
    pub ordered: Vec<(u32, u32, f64)>,
    /// `(actor, e)`: what it does to others and others do to it, in order of the actors; twice `e` together.
    pub actor_e: Vec<(u32, f64)>,
}

/// Constant densities of one slot over `[t0, t1)`.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    t0: u64,
    t1: u64,
    pub(crate) slot: u32,
    /// Accesses and stores per unit of virtual time.
    n: f64,
    w: f64,
}

/// One actor's use of one part.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// Index into [`Spans::actors`].
    pub(crate) actor: u32,
    pub(crate) part: u32,
    /// The lock under which they happened, see [`Under::lock`].
    pub(crate) lock: u64,
    pub(crate) mask: u128,
    /// Accesses of the run.
    pub(crate) n: f64,
    /// Stores of the run.
    pub(crate) w: f64,
}

/// So many hand-offs are a habit, and so many to a stretch in which actors meet make that the exception. Chosen: a
/// border that the recorder misses once in ten times was the worst that was seen.
const TURNS_MIN: u64 = 16;
const TURNS_PER_OVERLAP: u64 = 8;

/// Above this many flushed pairs a line is evaluated without pairs: hostile files only.
const PAIR_WORK_MAX: u64 = 400_000_000;

/// Expected invalidations only. Fast; for searches over many placements.
pub fn quick_e(pieces: &[Piece], window_vt: u64) -> f64 {
    let line = Spans::new(pieces, window_vt);
    let mut now = Totals::new(line.actors.len());
    line.sweep(&mut now);
    if !line.has_locks() {
        return now.e;
    }
    let mut bound = Bound::new(&line);
    line.sweep(&mut bound);
    let turns: f64 = under::turns(pieces).iter().map(|lock| quick_e(lock, window_vt)).sum();
    (now.e - bound.e + turns.min(bound.e)).max(0.0)
}

/// Everything about one line. `role` groups actors for the even split (threads with the same start routine).
pub fn line_e(pieces: &[Piece], window_vt: u64, role: &dyn Fn(u32) -> u32) -> LineE {
    line_e_of(&Spans::new(pieces, window_vt), pieces, window_vt, role)
}

/// No window has two actors on the line: then E is 0, and so is that of an even split. Pieces are rounded to whole
/// windows, which is no less than what [`Spans`] makes of them.
pub(crate) fn never_meet(pieces: &[Piece], window_vt: u64) -> bool {
    let window = window_vt.max(1);
    let rounded = |p: &Piece| {
        let end = p.vt1.max(p.vt0.saturating_add(1));
        (p.vt0 / window, end.div_ceil(window), p.actor)
    };
    let mut all: Vec<(u64, u64, u32)> = pieces.iter().map(rounded).collect();
    all.sort_unstable();
    // The latest end so far, whose it is, and the latest of anybody else.
    let (mut last, mut whose, mut others) = (0, u32::MAX, 0);
    for (from, to, actor) in all {
        if from < if actor == whose { others } else { last } {
            return false;
        }
        if actor == whose {
            last = last.max(to);
        } else if to >= last {
            (others, last, whose) = (last, to, actor);
        } else {
            others = others.max(to);
        }
    }
    true
}

/// The same, where the spans of the pieces are known.
pub(crate) fn line_e_of(line: &Spans, pieces: &[Piece], window_vt: u64, role: &dyn Fn(u32) -> u32) -> LineE {
    let whole = whole_run(line);
    let work = (line.spans.len() as u64).saturating_mul(line.slots.len() as u64);
    if work > PAIR_WORK_MAX {
        let mut now = Totals::new(line.actors.len());
        line.sweep(&mut now);
        return LineE { e: now.e, e_even: now.e, e_whole_run: whole, e_mixed: now.e, ..LineE::default() };
    }
    let roles = line.actors.iter().map(|&a| role(a)).collect();
    let mut full = Pairs::new(line, roles);
    line.sweep(&mut full);
    let bounded = full.bounded();
    let overlaps = full.overlaps(window_vt);
    let mut out = LineE { e_whole_run: whole, overlaps, ..full.finish() };
    if bounded > 0.0 {
        let turns: Vec<LineE> =
            under::turns(pieces).iter().map(|lock| line_e(lock, window_vt, role)).collect();
        let all: f64 = turns.iter().map(|t| t.e).sum();
        turns.into_iter().for_each(|t| out.add(t, (bounded / all).min(1.0)));
    }
    out
}

impl LineE {
    /// Share of E that is false or mixed, of what was sorted, 0 to 1.
    pub fn false_share(&self) -> f64 {
        let all = self.e_true + self.e_false + self.e_mixed;
        if all > 0.0 { (self.e_false + self.e_mixed) / all } else { 0.0 }
    }

    /// Adds a share of another's sums, without its pairs.
    pub(crate) fn add_sums(&mut self, other: &LineE, share: f64) {
        self.e += share * other.e;
        self.e_even += share * other.e_even;
        self.e_whole_run += share * other.e_whole_run;
        self.e_true += share * other.e_true;
        self.e_false += share * other.e_false;
        self.e_mixed += share * other.e_mixed;
        self.handoffs += other.handoffs;
        self.overlaps += other.overlaps;
    }

    /// Threads use the line by turns, but for a few stretches: what orders the turns most likely ordered these as well,
    /// and was not seen once. It lies elsewhere: where threads that meet share bytes, these may be what they wait at.
    pub fn by_turns(&self) -> bool {
        let strangers = self.e_true + self.e_mixed <= 0.0;
        strangers && self.handoffs >= TURNS_MIN && self.handoffs >= TURNS_PER_OVERLAP * self.overlaps
    }

    /// Adds a share of what happens in turns on the same line.
    fn add(&mut self, turns: LineE, share: f64) {
        self.add_sums(&LineE { e_whole_run: 0.0, handoffs: 0, overlaps: 0, ..turns.clone() }, share);
        let of_turns: Vec<(u32, u32, f64)> =
            turns.pairs.into_iter().map(|(a, b, e)| (a, b, share * e)).collect();
        for pairs in [&mut self.pairs, &mut self.ordered] {
            pairs.extend(&of_turns);
            sum_up(pairs);
        }
        self.actor_e.extend(turns.actor_e.into_iter().map(|(a, e)| (a, share * e)));
        self.actor_e.sort_by_key(|a| a.0);
        self.actor_e.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
    }
}

/// One value for each pair, in order.
fn sum_up(pairs: &mut Vec<(u32, u32, f64)>) {
    pairs.sort_by_key(|p| (p.0, p.1));
    pairs.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if same { next.2 } else { 0.0 };
        same
    });
}

/// Bytes `first..first + size` of a line as bits.
fn mask(first: u32, size: u32) -> u128 {
    let ones = if size >= 128 { u128::MAX } else { (1u128 << size) - 1 };
    ones.checked_shl(first).unwrap_or(0)
}

fn whole_run(line: &Spans) -> f64 {
    let mut per = vec![(0.0, 0.0); line.actors.len()];
    for s in &line.slots {
        let p = &mut per[s.actor as usize];
        *p = (p.0 + s.n, p.1 + s.w);
    }
    let total: f64 = per.iter().map(|p| p.0).sum();
    if total <= 0.0 || per.len() < 2 {
        return 0.0;
    }
    per.iter().map(|(n, w)| w * (1.0 - n / total)).sum()
}

/// The pieces of a line as spans of constant density, with actors and slots numbered from 0.
pub(crate) struct Spans {
    pub(crate) spans: Vec<Span>,
    /// In order of actor.
    pub(crate) slots: Vec<Slot>,
    /// The caller's numbers, ascending.
    pub(crate) actors: Vec<u32>,
}

impl Spans {
    pub(crate) fn new(pieces: &[Piece], window_vt: u64) -> Spans {
        let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
        order.sort_unstable_by_key(|&i| {
            let p = &pieces[i as usize];
            (p.actor, p.part, p.under.lock, p.vt0, p.vt1, i)
        });
        let mut line =
            Spans { spans: Vec::with_capacity(pieces.len()), slots: Vec::new(), actors: Vec::new() };
        let mut at = 0;
        while at < order.len() {
            let first = &pieces[order[at] as usize];
            let slot = line.slot(first.actor, first.part, first.under.lock);
            let (mut end, mut stop) = (first.vt1.max(first.vt0.saturating_add(1)), at + 1);
            while let Some(p) = order.get(stop).map(|&i| &pieces[i as usize]) {
                let key = |p: &Piece| (p.actor, p.part, p.under.lock);
                if key(p) != key(first) || p.vt0 > end {
                    break;
                }
                end = end.max(p.vt1);
                stop += 1;
            }
            line.stretch(pieces, &order[at..stop], (first.vt0, end), slot, window_vt.max(1));
            at = stop;
        }
        line
    }

    /// Whether anything happened under a lock.
    pub(crate) fn has_locks(&self) -> bool {
        self.slots.iter().any(|s| s.lock != 0)
    }

    /// Slots come in order of actor, so the last one is the only candidate.
    fn slot(&mut self, actor: u32, part: u32, lock: u64) -> u32 {
        if self.actors.last() != Some(&actor) {
            self.actors.push(actor);
        }
        let actor = self.actors.len() as u32 - 1;
        if self.slots.last().is_none_or(|s| (s.actor, s.part, s.lock) != (actor, part, lock)) {
            self.slots.push(Slot { actor, part, lock, mask: 0, n: 0.0, w: 0.0 });
        }
        self.slots.len() as u32 - 1
    }

    fn stretch(&mut self, pieces: &[Piece], order: &[u32], (t0, t1): (u64, u64), slot: u32, window: u64) {
        let short = t1 - t0 < window;
        let (mut n, mut w) = (0.0, 0.0);
        for &i in order {
            let p = &pieces[i as usize];
            let s = &mut self.slots[slot as usize];
            s.mask |= mask(p.first, p.size);
            s.n += p.accesses();
            s.w += p.stores();
            n += p.accesses();
            w += p.stores();
            if !short {
                let end = p.vt1.max(p.vt0.saturating_add(1));
                self.span(p.vt0, end, slot, p.accesses(), p.stores());
            }
        }
        if short {
            let end = t1.div_ceil(window).saturating_mul(window);
            self.span(t0 / window * window, end, slot, n, w);
        }
    }

    fn span(&mut self, t0: u64, t1: u64, slot: u32, n: f64, w: f64) {
        let length = t1.saturating_sub(t0) as f64;
        if length > 0.0 && n > 0.0 {
            self.spans.push(Span { t0, t1, slot, n: n / length, w: w / length });
        }
    }

    /// Walks through time, telling `sink` each stretch of constant densities and each change.
    pub(crate) fn sweep(&self, sink: &mut impl Sink) {
        let mut events = EVENTS.take();
        events.clear();
        for (i, s) in self.spans.iter().enumerate() {
            events.push((s.t0, true, i as u32));
            events.push((s.t1, false, i as u32));
        }
        events.sort_unstable();
        let mut before = events.first().map_or(0, |e| e.0);
        let mut at = 0;
        while at < events.len() {
            let now = events[at].0;
            if now > before {
                sink.pass((now - before) as f64);
            }
            let stop = at + events[at..].iter().take_while(|e| e.0 == now).count();
            for e in &events[at..stop] {
                let s = &self.spans[e.2 as usize];
                let sign = if e.1 { 1 } else { -1 };
                sink.change(self.slots[s.slot as usize].actor as usize, s.slot as usize, s.n, s.w, sign);
            }
            sink.settle();
            before = now;
            at = stop;
        }
        EVENTS.set(events);
    }
}

thread_local! {
    /// Room for what [`Spans::sweep`] sorts: there are millions of sweeps, and a new list for each is dear.
    static EVENTS: RefCell<Vec<(u64, bool, u32)>> = const { RefCell::new(Vec::new()) };
}

/// What a sweep feeds.
pub(crate) trait Sink {
    /// Densities stay as they are for `dt`.
    fn pass(&mut self, dt: f64);
    /// A span of `actor` (an index) in `slot` begins (`sign` 1) or ends (-1).
    fn change(&mut self, actor: usize, slot: usize, n: f64, w: f64, sign: i32);
    /// All changes of this instant are known.
    fn settle(&mut self);
}

/// Density of one actor or slot; exactly zero when nothing is active, whatever rounding left behind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rate {
    pub(crate) n: f64,
    pub(crate) w: f64,
    pub(crate) live: i32,
}

impl Rate {
    pub(crate) fn add(&mut self, n: f64, w: f64, sign: i32) {
        self.live += sign;
        let s = f64::from(sign);
        self.n = (self.n + s * n).max(0.0);
        self.w = (self.w + s * w).max(0.0);
        if self.live == 0 {
            *self = Rate::default();
        }
    }
}

/// Sums over actors, kept up to date change by change.
struct Totals {
    rates: Vec<Rate>,
    active: i32,
    n: f64,
    w: f64,
    /// Σ wᵢ nᵢ
    own: f64,
    e: f64,
}

impl Totals {
    fn new(actors: usize) -> Totals {
        Totals { rates: vec![Rate::default(); actors], active: 0, n: 0.0, w: 0.0, own: 0.0, e: 0.0 }
    }
}

impl Sink for Totals {
    fn pass(&mut self, dt: f64) {
        if self.active >= 2 && self.n > 0.0 {
            self.e += dt * (self.w - self.own / self.n).max(0.0);
        }
    }

    fn change(&mut self, actor: usize, _slot: usize, n: f64, w: f64, sign: i32) {
        let r = &mut self.rates[actor];
        let was = *r;
        r.add(n, w, sign);
        self.active += i32::from(r.live > 0) - i32::from(was.live > 0);
        self.n += r.n - was.n;
        self.w += r.w - was.w;
        self.own += r.n * r.w - was.n * was.w;
    }

    fn settle(&mut self) {
        if self.active == 0 {
            (self.n, self.w, self.own) = (0.0, 0.0, 0.0);
        }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
