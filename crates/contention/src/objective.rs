//! What a line costs: stores that find it elsewhere, and copies that readers lose. And what would be left of it if
//! every byte range lay on a line of its own, which is the least that any layout leaves.
//!
//! Reads of one actor with no store of another one in between are one visit: whoever polls loses a copy once per
//! store, however often it looks. Within a stretch of constant densities (see [`crate::window`]), with `wᵢ` stores and
//! `rᵢ` loads of actor `i`,
//!
//! ```text
//! copies lost by i   cᵢ = min(rᵢ, Σ_{j≠i} wⱼ)
//! visits of i        vᵢ = wᵢ + cᵢ
//! stores elsewhere   Σᵢ wᵢ (1 − vᵢ/V),   V = Σ v
//! ```

use crate::under::{self, Nodes};
use crate::window::{Piece, Rate, Sink, Spans, never_meet};
use std::collections::BTreeMap;

/// Pieces that may come of cutting the ones of a line at each other's borders; beyond it a line is taken as one range.
const CUTS_MAX: usize = 400_000;

/// Expected transfers of one line, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfers {
    /// Stores that find the line with another actor.
    pub stores: f64,
    /// Copies that readers lose to them, hence fetch again.
    pub copies: f64,
}

impl Transfers {
    /// Both.
    pub fn total(&self) -> f64 {
        self.stores + self.copies
    }
}

/// What a line, or several, cost, and what the best layout leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineCost {
    /// As it is.
    pub now: Transfers,
    /// With every byte range on a line of its own.
    pub apart: f64,
    /// The part of `apart` for which threads fight at one byte range, or at several one by one.
    pub main: f64,
}

impl LineCost {
    /// Stores elsewhere and copies lost.
    pub fn total(&self) -> f64 {
        self.now.total()
    }

    /// What the best layout removes.
    pub fn removable(&self) -> f64 {
        (self.total() - self.apart).max(0.0)
    }

    /// The same as a share of the whole, 0 to 1.
    pub fn removable_share(&self) -> f64 {
        if self.total() > 0.0 { self.removable() / self.total() } else { 0.0 }
    }

    /// Adds another line's.
    pub fn add(&mut self, other: &LineCost) {
        self.now.stores += other.now.stores;
        self.now.copies += other.now.copies;
        self.apart += other.apart;
        self.main += other.main;
    }
}

/// Expected transfers of one line. Pairs of accesses under one lock cost at most one transfer per turn of its owners.
pub fn transfers(pieces: &[Piece], window_vt: u64) -> Transfers {
    if never_meet(pieces, window_vt) {
        return Transfers::default();
    }
    transfers_of(&Spans::new(pieces, window_vt), pieces, window_vt)
}

fn transfers_of(line: &Spans, pieces: &[Piece], window_vt: u64) -> Transfers {
    let plain = visits(line, false);
    if !line.has_locks() {
        return plain;
    }
    let mut bounded = visits(line, true);
    for turns in under::turns(pieces) {
        let turns = visits(&Spans::new(&turns, window_vt), false);
        bounded.stores += turns.stores;
        bounded.copies += turns.copies;
    }
    Transfers { stores: plain.stores.min(bounded.stores), copies: plain.copies.min(bounded.copies) }
}

/// Sums over virtual time; with `locks` without pairs of accesses under the same lock.
fn visits(line: &Spans, locks: bool) -> Transfers {
    let mut sink = Visits::new(line, locks);
    line.sweep(&mut sink);
    sink.sum
}

/// A line as it is, and with its byte ranges apart.
pub fn line_cost(pieces: &[Piece], window_vt: u64) -> LineCost {
    if never_meet(pieces, window_vt) {
        return LineCost::default();
    }
    line_cost_of(&Spans::new(pieces, window_vt), pieces, window_vt)
}

/// The same, where the spans of the pieces are known.
pub(crate) fn line_cost_of(line: &Spans, pieces: &[Piece], window_vt: u64) -> LineCost {
    let now = transfers_of(line, pieces, window_vt);
    let mut cost = LineCost { now, ..LineCost::default() };
    let borders = borders(pieces);
    let each = ranges(pieces, &borders);
    if is_handed_over(&each) {
        // One transfer brings everything that is wanted; apart it would take one for each range.
        return LineCost { apart: now.total(), main: 0.0, ..cost };
    }
    let mut left = match is_alone(pieces, &each) {
        true => Left::default().with(&each[0], now.total()),
        false => Left::of(&each, window_vt),
    };
    // What one instruction accesses at once would move twice if its bytes lay on two lines: it may stay together.
    let outside = between_accesses(pieces, &borders);
    let whole = if outside.len() < borders.len() { ranges(pieces, &outside) } else { Vec::new() };
    if (1..each.len()).contains(&whole.len()) {
        let whole = Left::of(&whole, window_vt);
        if whole.apart < left.apart {
            left = whole;
        }
    }
    // Random order may favour a crowd by a crumb; nobody is better off apart by costing more.
    cost.apart = left.apart.min(now.total());
    cost.main = cost.apart * left.main_share(now.total());
    cost
}

/// One range, of one field: what lies alone on its line is apart already.
fn is_alone(pieces: &[Piece], ranges: &[Vec<Piece>]) -> bool {
    let [all] = ranges else { return false };
    all.len() == pieces.len() && could_move(all) && pieces.iter().all(|p| p.part == pieces[0].part)
}

/// Words apart that cost up to this times what they cost together are fought for one by one: nothing is gained by
/// bringing several at once.
const ONE_BY_ONE_MAX: f64 = 1.5;

/// The transfers of ranges that lie on a line each.
#[derive(Clone, Copy, Default)]
struct Left {
    /// Of all.
    apart: f64,
    /// Of all, if each word that is used at once with others lay by itself; and of the costliest of them.
    words: f64,
    main: f64,
    /// Of the costliest that atomics change: a lock, a count of references.
    meeting: f64,
}

impl Left {
    fn of(ranges: &[Vec<Piece>], window_vt: u64) -> Left {
        let moved = ranges.iter().filter(|r| could_move(r));
        moved.fold(Left::default(), |left, r| left.with(r, transfers(r, window_vt).total()))
    }

    fn with(self, range: &[Piece], alone: f64) -> Left {
        let bytes = range.iter().map(|p| p.size).max().unwrap_or(0);
        let accesses: f64 = range.iter().map(Piece::accesses).sum();
        // A lock is one word, whatever else a library keeps beside it.
        let by_atomics = range.iter().any(|p| p.rmws > 0.0);
        let words = if by_atomics { 1.0 } else { f64::from(bytes / WORD_BYTES).max(1.0) };
        let at_once = (accesses / alone.max(1.0)).clamp(1.0, words);
        Left {
            apart: self.apart + alone,
            words: self.words + alone * at_once,
            main: self.main.max(alone),
            meeting: self.meeting.max(if by_atomics { alone } else { 0.0 }),
        }
    }

    /// Which part of it is fought for at one word, or at several one by one.
    fn main_share(self, together: f64) -> f64 {
        let met = self.meeting >= MEETING_SHARE_MIN * together;
        if met || self.words <= ONE_BY_ONE_MAX * together { 1.0 } else { self.main / self.words }
    }
}

const WORD_BYTES: u32 = 8;

/// A word that atomics change is what threads meet at when it alone costs this share of all: the rest comes with it.
const MEETING_SHARE_MIN: f64 = 0.5;

/// Several actors, and a store: nothing moves otherwise.
fn could_move(pieces: &[Piece]) -> bool {
    pieces.iter().any(|p| p.actor != pieces[0].actor) && pieces.iter().any(|p| p.stores() > 0.0)
}

/// One actor of the line's stores: the rest may be initialisation or the last word.
const PRODUCER_SHARE_MIN: f64 = 0.95;

/// Share of stores, and of others' loads, that must be about bytes that both sides use.
const WANTED_SHARE_MIN: f64 = 0.9;

/// A range is used by both sides when the rarer use is at least this share of the more frequent one, per range.
const COMPARABLE_MIN: f64 = 0.1;

/// One actor fills several ranges and others read all of them, and nothing else: a message. Nobody loses the line for
/// bytes that it does not want.
fn is_handed_over(ranges: &[Vec<Piece>]) -> bool {
    let mut stores: BTreeMap<u32, f64> = BTreeMap::new();
    ranges.iter().flatten().for_each(|p| *stores.entry(p.actor).or_default() += p.stores());
    let all: f64 = stores.values().sum();
    let Some((&producer, &most)) = stores.iter().max_by(|a, b| a.1.total_cmp(b.1)) else { return false };
    if ranges.len() < 2 || all <= 0.0 || most < PRODUCER_SHARE_MIN * all {
        return false;
    }
    let used: Vec<(f64, f64)> = ranges.iter().map(|r| used(r, producer)).collect();
    let (written, read) = used.iter().fold((0.0, 0.0), |sum, u| (sum.0 + u.0, sum.1 + u.1));
    // Looking at one value twice brings nothing more: the length of a message is read at every step.
    let news = |u: &(f64, f64)| u.0.min(u.1);
    let (each_written, each_news) =
        (written / used.len() as f64, used.iter().map(news).sum::<f64>() / used.len() as f64);
    let wanted =
        |u: &&(f64, f64)| u.0 >= COMPARABLE_MIN * each_written && news(u) >= COMPARABLE_MIN * each_news;
    let (both, rest): (Vec<(f64, f64)>, Vec<(f64, f64)>) = used.iter().partition(wanted);
    let along = carried_along(&both, &rest);
    let both = both.iter().fold((0.0, 0.0), |sum, u| (sum.0 + u.0, sum.1 + u.1));
    read > 0.0 && both.0 >= WANTED_SHARE_MIN * (written - along) && both.1 >= WANTED_SHARE_MIN * read
}

/// Stores to ranges that nobody else reads: parts of a message that its receiver skips. They are filled when the others
/// are, no more often, and are no more than these, of which a message has several.
fn carried_along(read: &[(f64, f64)], rest: &[(f64, f64)]) -> f64 {
    const OFTEN_MAX: f64 = 1.5;
    if read.len() < 2 || rest.len() > read.len() {
        return 0.0;
    }
    let often = read.iter().map(|u| u.0).fold(0.0, f64::max);
    rest.iter().filter(|u| u.1 <= 0.0 && u.0 <= OFTEN_MAX * often).map(|u| u.0).sum()
}

/// The producer's stores to a range, and the others' loads from it.
fn used(range: &[Piece], producer: u32) -> (f64, f64) {
    range.iter().fold((0.0, 0.0), |(written, read), p| match p.actor == producer {
        true => (written + p.stores(), read),
        false => (written, read + p.reads),
    })
}

/// Where an access begins or ends, ascending.
fn borders(pieces: &[Piece]) -> Vec<u32> {
    let mut borders: Vec<u32> = pieces.iter().flat_map(|p| [p.first, p.first + p.size]).collect();
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// The same, but for places inside of a word that one instruction accesses.
fn between_accesses(pieces: &[Piece], borders: &[u32]) -> Vec<u32> {
    let inside = |b: &u32| pieces.iter().any(|p| p.first < *b && *b < p.first + p.size && in_one_word(p));
    borders.iter().copied().filter(|b| !inside(b)).collect()
}

/// The pieces by byte range. Ranges that overlap are cut at each other's borders, counts in proportion to bytes, so
/// that one clearing of the whole struct does not make one range of it.
fn ranges(pieces: &[Piece], borders: &[u32]) -> Vec<Vec<Piece>> {
    if pieces.len().saturating_mul(borders.len()) > CUTS_MAX {
        return vec![pieces.to_vec()];
    }
    let cut = |w: &[u32]| -> Vec<Piece> {
        let inside = pieces.iter().filter(|p| p.first < w[1] && w[0] < p.first + p.size);
        inside.map(|p| share(p, w[0], w[1])).collect()
    };
    borders.windows(2).map(cut).filter(|r| !r.is_empty()).collect()
}

/// Bytes of a word: what lies within one is accessed by one instruction, mostly.
const WORD: u32 = 8;

fn in_one_word(p: &Piece) -> bool {
    p.first / WORD == (p.first + p.size.max(1) - 1) / WORD
}

/// The part of a piece that falls on `[from, to)`, which lies inside of it. An access of one word needs all of its
/// bytes: it visits every range that it covers, wherever these lie.
fn share(p: &Piece, from: u32, to: u32) -> Piece {
    let part = if in_one_word(p) { 1.0 } else { f64::from(to - from) / f64::from(p.size.max(1)) };
    let (reads, writes, rmws) = (p.reads * part, p.writes * part, p.rmws * part);
    Piece { part: from, first: from, size: to - from, reads, writes, rmws, ..*p }
}

/// Sums both kinds of transfers over virtual time. A node is an actor outside of locks, or under one.
struct Visits {
    nodes: Nodes,
    rates: Vec<Rate>,
    active: Vec<usize>,
    /// Of each actor and each lock, the stores and the visits of the moment; those of lock 0 stay zero.
    actors: Vec<(f64, f64)>,
    locks: Vec<(f64, f64)>,
    sum: Transfers,
}

impl Visits {
    fn new(line: &Spans, locks: bool) -> Visits {
        let nodes = if locks { Nodes::new(line) } else { Nodes::without_locks(line) };
        Visits {
            rates: vec![Rate::default(); nodes.nodes.len()],
            active: Vec::new(),
            actors: vec![(0.0, 0.0); line.actors.len()],
            locks: vec![(0.0, 0.0); nodes.locks],
            nodes,
            sum: Transfers::default(),
        }
    }

    /// Adds a node's stores and visits to its actor and its lock.
    fn tell(&mut self, node: usize, stores: f64, visits: f64) {
        let (actor, lock) = self.nodes.nodes[node];
        let add = |to: &mut (f64, f64)| *to = (to.0 + stores, to.1 + visits);
        add(&mut self.actors[actor]);
        if lock > 0 {
            add(&mut self.locks[lock]);
        }
    }

    /// What belongs to a node's actor or lock: nothing of it takes the line from the node. `own` is the node's part.
    fn alike(&self, node: usize, own: f64, of: fn(&(f64, f64)) -> f64) -> f64 {
        let (actor, lock) = self.nodes.nodes[node];
        of(&self.actors[actor]) + if lock > 0 { of(&self.locks[lock]) - own } else { 0.0 }
    }
}

impl Sink for Visits {
    fn pass(&mut self, dt: f64) {
        if self.active.len() < 2 {
            return;
        }
        self.actors.fill((0.0, 0.0));
        self.locks.fill((0.0, 0.0));
        let active = std::mem::take(&mut self.active);
        let stores: f64 = active.iter().map(|&i| self.rates[i].w).sum();
        active.iter().for_each(|&i| self.tell(i, self.rates[i].w, 0.0));
        let lost = |v: &Visits, i: usize| {
            let r = &v.rates[i];
            (r.n - r.w).max(0.0).min((stores - v.alike(i, r.w, |a| a.0)).max(0.0))
        };
        let copies: Vec<f64> = active.iter().map(|&i| lost(self, i)).collect();
        for (&i, c) in active.iter().zip(&copies) {
            self.tell(i, 0.0, self.rates[i].w + c);
        }
        let all: f64 = copies.iter().sum();
        let visits = stores + all;
        if visits > 0.0 {
            let one = |(&i, c): (&usize, &f64)| {
                let w = self.rates[i].w;
                w * (1.0 - self.alike(i, w + c, |a| a.1) / visits)
            };
            self.sum.stores += dt * active.iter().zip(&copies).map(one).sum::<f64>().max(0.0);
            self.sum.copies += dt * all;
        }
        self.active = active;
    }

    fn change(&mut self, _actor: usize, slot: usize, n: f64, w: f64, sign: i32) {
        let node = self.nodes.of_slot[slot];
        let was = self.rates[node].live > 0;
        self.rates[node].add(n, w, sign);
        match (was, self.rates[node].live > 0) {
            (false, true) => self.active.push(node),
            (true, false) => self.active.retain(|&a| a != node),
            _ => {}
        }
    }

    fn settle(&mut self) {
        // The order of summing does not depend on the order of events.
        self.active.sort_unstable();
    }
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;
