//! Who invalidates whom: the sweep that tells fields and actors apart.

use crate::even::Even;
use crate::under::Bound;
use crate::window::{LineE, Rate, Sink, Slot, Spans};
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
        out.sort_unstable_by_key(|p| (p.0, p.1));
        out
    }
}

/// Up to so many actors of a line are each compared with each; beyond that those that use the same parts are compared
/// as one crowd. Their pairs are all counted, but the share of bytes in common is that of the crowd.
const SINGLE_ACTORS_MAX: usize = 128;

/// Actors that are alike, with their rates together.
struct Crowd {
    /// Parts with the lock under which they are used, in order; every member has one slot for each.
    parts: Vec<(u32, u64)>,
    members: usize,
    live: i32,
    rates: Vec<Rate>,
    /// Sum over members of stores to a part (row) times accesses of a part: what nobody does to itself.
    own: Vec<f64>,
    /// Sum over members of the slots.
    slots: Vec<Slot>,
    /// ∫ dt/N when the crowd changed last.
    k_last: f64,
    changed: bool,
}

impl Crowd {
    fn new(slots: &[Slot]) -> Crowd {
        let blank = |s: &Slot| Slot { mask: 0, n: 0.0, w: 0.0, ..*s };
        Crowd {
            parts: slots.iter().map(|s| (s.part, s.lock)).collect(),
            members: 0,
            live: 0,
            rates: vec![Rate::default(); slots.len()],
            own: vec![0.0; slots.len() * slots.len()],
            slots: slots.iter().map(blank).collect(),
            k_last: 0.0,
            changed: false,
        }
    }

    fn join(&mut self, slots: &[Slot]) {
        self.members += 1;
        for (sum, s) in self.slots.iter_mut().zip(slots) {
            (sum.mask, sum.n, sum.w) = (sum.mask | s.mask, sum.n + s.n, sum.w + s.w);
        }
    }

    /// Adds (1) or takes away (-1) what a member does.
    fn count(&mut self, member: &[Rate], sign: f64) {
        for (sum, r) in self.rates.iter_mut().zip(member) {
            sum.n = (sum.n + sign * r.n).max(0.0);
            sum.w = (sum.w + sign * r.w).max(0.0);
        }
        if self.members > 1 {
            let products = member.iter().flat_map(|g| member.iter().map(move |f| g.w * f.n));
            self.own.iter_mut().zip(products).for_each(|(o, x)| *o = (*o + sign * x).max(0.0));
        }
    }

    /// What rounding left where nobody is active.
    fn clear(&mut self) {
        self.rates.fill(Rate::default());
        self.own.fill(0.0);
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
    crowds: Vec<Crowd>,
    crowd_of: Vec<usize>,
    active_crowds: Vec<usize>,
    total: f64,
    e: f64,
    /// ∫ dt/N. What i and j do to each other is settled when either changes: wᵢ nⱼ times the growth since then.
    k: f64,
    changed: Vec<usize>,
    is_changed: Vec<bool>,
    part_e: PairSums,
    crowd_e: PairSums,
    actor_e: Vec<f64>,
    /// Where anything happens under locks: E of pairs under the same one, which is not in `e`.
    locks: Option<Bound>,
    handoffs: u64,
    /// Stretches with two actors or more, and how long they were.
    overlaps: u64,
    overlap_vt: f64,
    /// Actors of the last stretch of time in which there were any, and whether it stored.
    holders: Vec<usize>,
    even: Even,
}

impl<'a> Pairs<'a> {
    /// `roles`: one per actor of the line.
    pub(crate) fn new(line: &'a Spans, roles: Vec<u32>) -> Pairs<'a> {
        let count = line.actors.len();
        let mut slots_of = vec![(usize::MAX, 0); count];
        for (i, s) in line.slots.iter().enumerate() {
            let r = &mut slots_of[s.actor as usize];
            *r = (r.0.min(i), i + 1);
        }
        let mut spans_of = vec![0; count];
        for s in &line.spans {
            spans_of[line.slots[s.slot as usize].actor as usize] += 1;
        }
        let parts = line.slots.iter().map(|s| s.part as usize + 1).max().unwrap_or(0);
        let (crowds, crowd_of) = crowds(line, &slots_of);
        Pairs {
            line,
            slots: vec![Rate::default(); line.slots.len()],
            slots_of,
            actors: vec![Rate::default(); count],
            own: vec![Rate::default(); count],
            is_own: own_slots(line, &roles),
            active: Vec::new(),
            crowd_e: PairSums::new(crowds.len()),
            crowds,
            crowd_of,
            active_crowds: Vec::new(),
            total: 0.0,
            e: 0.0,
            k: 0.0,
            changed: Vec::new(),
            is_changed: vec![false; count],
            part_e: PairSums::new(parts),
            actor_e: vec![0.0; count],
            locks: line.has_locks().then(|| Bound::new(line)),
            handoffs: 0,
            overlaps: 0,
            overlap_vt: 0.0,
            holders: Vec::new(),
            even: Even::new(roles, spans_of),
        }
    }

    /// Settles what the crowd and the others did to each other since either changed last.
    fn settle_pairs(&mut self, i: usize) {
        for at in 0..self.active_crowds.len() {
            let j = self.active_crowds[at];
            let grown = self.k - self.crowds[i].k_last.max(self.crowds[j].k_last);
            if grown > 0.0 && (j != i || self.crowds[i].members > 1) {
                self.pair(i, j, grown);
                if j != i {
                    self.pair(j, i, grown);
                }
            }
        }
        self.crowds[i].k_last = self.k;
    }

    fn pair(&mut self, writer: usize, victim: usize, grown: f64) {
        let (a, b) = (&self.crowds[writer], &self.crowds[victim]);
        let mut sum = 0.0;
        for (g, from) in a.rates.iter().enumerate().filter(|(_, r)| r.w > 0.0) {
            for (f, to) in b.rates.iter().enumerate().filter(|(_, r)| r.n > 0.0) {
                let ((stored, under), (lost, of)) = (a.parts[g], b.parts[f]);
                if under != 0 && under == of {
                    // Nothing falls between two accesses of one holder.
                    continue;
                }
                let own = if writer == victim { a.own[g * a.rates.len() + f] } else { 0.0 };
                let x = (from.w * to.n - own).max(0.0) * grown;
                self.part_e.add(stored, lost, x);
                sum += x;
            }
        }
        self.crowd_e.add(writer as u32, victim as u32, sum);
    }

    /// E of pairs of accesses under one lock, which `finish` leaves out.
    pub(crate) fn bounded(&self) -> f64 {
        self.locks.as_ref().map_or(0.0, |l| l.e)
    }

    /// See [`LineE::overlaps`].
    pub(crate) fn overlaps(&self, window_vt: u64) -> u64 {
        self.overlaps + (self.overlap_vt / window_vt.max(1) as f64) as u64
    }

    /// Sums up and sorts each pair of actors into true, false and mixed.
    pub(crate) fn finish(self) -> LineE {
        let mut out = LineE {
            e: self.e,
            e_even: self.even.finish(),
            handoffs: self.handoffs,
            pairs: self.part_e.list(),
            actor_e: self.line.actors.iter().copied().zip(self.actor_e).filter(|a| a.1 > 0.0).collect(),
            ..LineE::default()
        };
        let views: Vec<View> = self.crowds.iter().map(|c| View::new(&c.slots)).collect();
        for (i, j, e) in self.crowd_e.list() {
            match views[i as usize].common(&views[j as usize]) {
                None => out.e_false += e,
                Some(share) => {
                    out.e_true += e * share;
                    out.e_mixed += e * (1.0 - share);
                }
            }
        }
        out
    }
}

/// The crowds of a line, and each actor's.
fn crowds(line: &Spans, slots_of: &[(usize, usize)]) -> (Vec<Crowd>, Vec<usize>) {
    let mut crowds: Vec<Crowd> = Vec::new();
    let mut known: HashMap<Vec<(u32, u64, u128)>, usize> = HashMap::new();
    let mut crowd_of = Vec::with_capacity(slots_of.len());
    for &(a, b) in slots_of {
        let slots = line.slots.get(a..b).unwrap_or(&[]);
        let at = match slots_of.len() > SINGLE_ACTORS_MAX {
            true => {
                *known.entry(slots.iter().map(|s| (s.part, s.lock, s.mask)).collect()).or_insert(crowds.len())
            }
            false => crowds.len(),
        };
        if at == crowds.len() {
            crowds.push(Crowd::new(slots));
        }
        crowds[at].join(slots);
        crowd_of.push(at);
    }
    (crowds, crowd_of)
}

/// For each slot: no other actor of the same role uses that part.
fn own_slots(line: &Spans, roles: &[u32]) -> Vec<bool> {
    let key = |s: &Slot| (s.part, roles.get(s.actor as usize).copied().unwrap_or(0));
    let mut users: Vec<((u32, u32), u32)> = line.slots.iter().map(|s| (key(s), s.actor)).collect();
    users.sort_unstable();
    users.dedup();
    let alone = |s: &Slot| {
        let from = users.partition_point(|u| u.0 < key(s));
        users[from..].iter().take_while(|u| u.0 == key(s)).nth(1).is_none()
    };
    line.slots.iter().map(alone).collect()
}

/// What one actor does on the line over the whole run.
struct View<'a> {
    slots: &'a [Slot],
    touched: u128,
    stored: u128,
    n: f64,
    w: f64,
}

impl<'a> View<'a> {
    fn new(slots: &'a [Slot]) -> View<'a> {
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
            let stores: f64 = self.active.iter().map(|&i| self.actors[i].w).sum();
            for &i in &self.active {
                let Rate { n, w, .. } = self.actors[i];
                let (writes, loses) = (w * (1.0 - n / self.total), n / self.total * (stores - w).max(0.0));
                now += dt * writes;
                self.actor_e[i] += dt * (writes.max(0.0) + loses);
            }
            if let Some(l) = &mut self.locks {
                now -= l.count(dt, &mut self.actor_e);
            }
            now = now.max(0.0);
            self.e += now;
            self.k += dt / self.total;
            self.overlaps += u64::from(self.holders.len() < 2);
            self.overlap_vt += dt;
        }
        self.even.pass(dt, &self.active, &self.actors, &self.own, now);
        if self.holders != self.active {
            // Both are in order.
            let stayed = |i: &usize| self.holders.binary_search(i).is_ok();
            let strangers = !self.holders.is_empty() && !self.active.iter().any(stayed);
            self.handoffs += u64::from(strangers);
            self.holders.clone_from(&self.active);
        }
    }

    fn change(&mut self, actor: usize, slot: usize, n: f64, w: f64, sign: i32) {
        let crowd = self.crowd_of[actor];
        if !self.crowds[crowd].changed {
            self.settle_pairs(crowd);
            self.crowds[crowd].changed = true;
        }
        let (a, b) = self.slots_of[actor];
        if !self.is_changed[actor] {
            self.is_changed[actor] = true;
            self.changed.push(actor);
            // It is counted again when all of its changes are known.
            self.crowds[crowd].count(&self.slots[a..b], -1.0);
        }
        self.slots[slot].add(n, w, sign);
        if let Some(l) = &mut self.locks {
            l.change(actor, slot, n, w, sign);
        }
        self.even.change(actor, sign);
    }

    fn settle(&mut self) {
        let mut left = false;
        for i in std::mem::take(&mut self.changed) {
            self.is_changed[i] = false;
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
            let crowd = &mut self.crowds[self.crowd_of[i]];
            crowd.changed = false;
            match (was, sum.live > 0) {
                (false, true) => (self.active.push(i), crowd.live += 1).1,
                (true, false) => (left = true, crowd.live -= 1).1,
                _ => {}
            }
            match crowd.live {
                0 => crowd.clear(),
                _ => crowd.count(&self.slots[a..b], 1.0),
            }
        }
        if left {
            self.active.retain(|&i| self.actors[i].live > 0);
        }
        if let Some(l) = &mut self.locks {
            l.settle();
        }
        self.active.sort_unstable();
        self.active_crowds = (0..self.crowds.len()).filter(|&c| self.crowds[c].live > 0).collect();
        self.total = self.active.iter().map(|&i| self.actors[i].n).sum();
    }
}
