//! Who invalidates whom: the sweep that tells fields and actors apart.

use crate::even::Even;
use crate::window::{LineE, Rate, Sink, Spans};
use std::collections::HashMap;

/// Tables of pairs up to this many rows are dense.
const DENSE_MAX: usize = 512;

/// Sums by pair of small numbers.
struct PairSums {
    side: usize,
    dense: Vec<f64>,
    sparse: HashMap<(u32, u32), f64>,
}

impl PairSums {
    fn new(side: usize) -> PairSums {
        let side = if side <= DENSE_MAX { side } else { 0 };
        PairSums { side, dense: vec![0.0; side * side], sparse: HashMap::new() }
    }

    fn add(&mut self, a: u32, b: u32, x: f64) {
        let (i, j) = (a as usize, b as usize);
        match i < self.side && j < self.side {
            true => self.dense[i * self.side + j] += x,
            false => *self.sparse.entry((a, b)).or_default() += x,
        }
    }

    /// Pairs with their sums, in order.
    fn list(&self) -> Vec<(u32, u32, f64)> {
        let mut out: Vec<(u32, u32, f64)> = self.sparse.iter().map(|(&(a, b), &x)| (a, b, x)).collect();
        for (at, &x) in self.dense.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            out.push(((at / self.side) as u32, (at % self.side) as u32, x));
        }
        out.sort_by_key(|p| (p.0, p.1));
        out
    }
}

/// Sweep over one line that keeps apart fields and actors.
pub(crate) struct Pairs<'a> {
    line: &'a Spans,
    slots: Vec<Rate>,
    /// First slot of each actor and one past its last.
    slots_of: Vec<(usize, usize)>,
    actors: Vec<Rate>,
    /// The part of it on bytes that nobody else of the actor's role uses.
    own: Vec<Rate>,
    /// Whether a slot is such.
    is_own: Vec<bool>,
    active: Vec<usize>,
    total: f64,
    e: f64,
    /// ∫ dt/N. What i and j do to each other is settled when either changes: wᵢ nⱼ times the growth since then.
    k: f64,
    k_last: Vec<f64>,
    changed: Vec<usize>,
    part_e: PairSums,
    actor_e: PairSums,
    handoffs: u64,
    /// Actors of the last stretch of time in which there were any, and whether it stored.
    holders: Vec<usize>,
    even: Even,
}

impl<'a> Pairs<'a> {
    /// `roles`: one per actor of the line.
    pub(crate) fn new(line: &'a Spans, roles: Vec<u32>) -> Pairs<'a> {
        let mut slots_of = vec![(usize::MAX, 0); line.actors.len()];
        for (i, s) in line.slots.iter().enumerate() {
            let r = &mut slots_of[s.actor as usize];
            *r = (r.0.min(i), i + 1);
        }
        let mut spans_of = vec![0; line.actors.len()];
        for s in &line.spans {
            spans_of[line.slots[s.slot as usize].actor as usize] += 1;
        }
        let parts = line.slots.iter().map(|s| s.part as usize + 1).max().unwrap_or(0);
        Pairs {
            line,
            slots: vec![Rate::default(); line.slots.len()],
            slots_of,
            actors: vec![Rate::default(); line.actors.len()],
            own: vec![Rate::default(); line.actors.len()],
            is_own: own_slots(line, &roles),
            active: Vec::new(),
            total: 0.0,
            e: 0.0,
            k: 0.0,
            k_last: vec![0.0; line.actors.len()],
            changed: Vec::new(),
            part_e: PairSums::new(parts),
            actor_e: PairSums::new(line.actors.len()),
            handoffs: 0,
            holders: Vec::new(),
            even: Even::new(roles, spans_of),
        }
    }

    /// Settles what `i` and the others did to each other since either changed last.
    fn settle_pairs(&mut self, i: usize) {
        for at in 0..self.active.len() {
            let j = self.active[at];
            let grown = self.k - self.k_last[i].max(self.k_last[j]);
            if j != i && grown > 0.0 {
                self.pair(i, j, grown);
                self.pair(j, i, grown);
            }
        }
        self.k_last[i] = self.k;
    }

    fn pair(&mut self, writer: usize, victim: usize, grown: f64) {
        let w = self.actors[writer].w * grown;
        if w <= 0.0 {
            return;
        }
        self.actor_e.add(writer as u32, victim as u32, w * self.actors[victim].n);
        let (g0, g1) = self.slots_of[writer];
        let (f0, f1) = self.slots_of[victim];
        for g in (g0..g1).filter(|&g| self.slots[g].w > 0.0) {
            for f in (f0..f1).filter(|&f| self.slots[f].n > 0.0) {
                let x = self.slots[g].w * self.slots[f].n * grown;
                self.part_e.add(self.line.slots[g].part, self.line.slots[f].part, x);
            }
        }
    }

    /// Sums up and sorts each pair of actors into true, false and mixed.
    pub(crate) fn finish(self) -> LineE {
        let mut out = LineE {
            e: self.e,
            e_even: self.even.finish(),
            handoffs: self.handoffs,
            pairs: self.part_e.list(),
            ..LineE::default()
        };
        let views: Vec<View> =
            self.slots_of.iter().map(|&(a, b)| View::new(self.line.slots.get(a..b).unwrap_or(&[]))).collect();
        for (i, j, e) in self.actor_e.list() {
            match views[i as usize].common(&views[j as usize]) {
                None => out.e_false += e,
                Some(share) => {
                    out.e_true += e * share;
                    out.e_mixed += e * (1.0 - share);
                }
            }
            out.actor_pairs.push((self.line.actors[i as usize], self.line.actors[j as usize], e));
        }
        out
    }
}

/// For each slot: no other actor of the same role uses that part.
fn own_slots(line: &Spans, roles: &[u32]) -> Vec<bool> {
    let key = |s: &crate::window::Slot| (s.part, roles.get(s.actor as usize).copied().unwrap_or(0));
    let mut users: HashMap<(u32, u32), u32> = HashMap::new();
    line.slots.iter().for_each(|s| *users.entry(key(s)).or_default() += 1);
    line.slots.iter().map(|s| users.get(&key(s)) == Some(&1)).collect()
}

/// What one actor does on the line over the whole run.
struct View<'a> {
    slots: &'a [crate::window::Slot],
    touched: u128,
    stored: u128,
    n: f64,
    w: f64,
}

impl<'a> View<'a> {
    fn new(slots: &'a [crate::window::Slot]) -> View<'a> {
        let mut v = View { slots, touched: 0, stored: 0, n: 0.0, w: 0.0 };
        for s in slots {
            v.touched |= s.mask;
            v.n += s.n;
            v.w += s.w;
            if s.w > 0.0 {
                v.stored |= s.mask;
            }
        }
        v
    }

    /// Accesses and stores that fall on `bytes`.
    fn on(&self, bytes: u128) -> (f64, f64) {
        let mut sum = (0.0, 0.0);
        for s in self.slots {
            let share = f64::from((s.mask & bytes).count_ones()) / f64::from(s.mask.count_ones().max(1));
            sum = (sum.0 + s.n * share, sum.1 + s.w * share);
        }
        sum
    }

    /// Share of this actor's invalidations of `victim` in which both are about bytes that both touch, at least one of
    /// them storing; `None` when there are no such bytes. Bytes that both only read are not among them: whoever reads
    /// them loses the line for nothing.
    fn common(&self, victim: &View) -> Option<f64> {
        let bytes = (self.stored & victim.touched) | (victim.stored & self.touched);
        if bytes == 0 {
            return None;
        }
        let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 1.0 };
        let stores = share(self.on(bytes).1, self.w);
        let losses = share(victim.on(bytes).0, victim.n);
        Some((stores * losses).clamp(0.0, 1.0))
    }
}

impl Sink for Pairs<'_> {
    fn pass(&mut self, dt: f64) {
        if self.active.is_empty() {
            return;
        }
        let mut now = 0.0;
        if self.active.len() >= 2 && self.total > 0.0 {
            let one = |&i: &usize| self.actors[i].w * (1.0 - self.actors[i].n / self.total);
            now = dt * self.active.iter().map(one).sum::<f64>().max(0.0);
            self.e += now;
            self.k += dt / self.total;
        }
        self.even.pass(dt, &self.active, &self.actors, &self.own, now);
        if self.holders != self.active {
            let strangers = !self.holders.is_empty() && self.active.iter().all(|i| !self.holders.contains(i));
            self.handoffs += u64::from(strangers);
            self.holders.clone_from(&self.active);
        }
    }

    fn change(&mut self, actor: usize, slot: usize, n: f64, w: f64, sign: i32) {
        if !self.changed.contains(&actor) {
            self.settle_pairs(actor);
            self.changed.push(actor);
        }
        self.slots[slot].add(n, w, sign);
        self.even.change(actor, sign);
    }

    fn settle(&mut self) {
        for i in std::mem::take(&mut self.changed) {
            let (a, b) = self.slots_of[i];
            let (mut sum, mut own) = (Rate::default(), Rate::default());
            for (r, is_own) in self.slots[a..b].iter().zip(&self.is_own[a..b]) {
                sum.n += r.n;
                sum.w += r.w;
                sum.live += r.live;
                if *is_own {
                    own.n += r.n;
                    own.w += r.w;
                }
            }
            self.own[i] = own;
            let was = self.actors[i].live > 0;
            self.actors[i] = sum;
            match (was, sum.live > 0) {
                (false, true) => self.active.push(i),
                (true, false) => self.active.retain(|&a| a != i),
                _ => {}
            }
        }
        self.active.sort_unstable();
        self.total = self.active.iter().map(|&i| self.actors[i].n).sum();
    }
}
