//! One owner or many sharers per line, transfers one after the other in order of arrival.

use super::{Engine, Kind, NEVER, NONE, State};
use crate::machine::Distance;
use crate::memory::Cell;
use std::collections::VecDeque;

/// Who asked for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// A task that waits for it.
    Task(u32),
    /// A CPU's store buffer.
    Stores(u32),
    /// The adjacent-line prefetcher of a CPU; nobody waits.
    Prefetch(u32),
    /// A CPU that looks ahead: nobody waits yet.
    Ahead(u32),
}

const TAG_STORES: u32 = 1 << 30;
const TAG_PREFETCH: u32 = 2 << 30;
const TAG_AHEAD: u32 = 3 << 30;

impl Who {
    fn code(self) -> u32 {
        match self {
            Who::Task(t) => t,
            Who::Stores(c) => c | TAG_STORES,
            Who::Prefetch(c) => c | TAG_PREFETCH,
            Who::Ahead(c) => c | TAG_AHEAD,
        }
    }

    fn decode(code: u32) -> Who {
        let n = code & (TAG_STORES - 1);
        match code & (3 << 30) {
            TAG_STORES => Who::Stores(n),
            TAG_PREFETCH => Who::Prefetch(n),
            TAG_AHEAD => Who::Ahead(n),
            _ => Who::Task(n),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    who: Who,
    cpu: u32,
    own: bool,
    cell: Cell,
    at: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    /// CPU that may write, or [`NONE`].
    owner: u32,
    dirty: bool,
    /// An exclusive transfer is on its way.
    busy: bool,
    /// Some field lies here.
    pub(super) used: bool,
    /// Holders lose it at this time; [`NEVER`] when no transfer is planned.
    start_at: u64,
    /// End of the minimum tenure, or of shared transfers in flight, or of accesses that ran ahead.
    held_until: u64,
    /// When the last exclusive transfer ended.
    arrived: u64,
    /// Transfers since the line came to its holder's socket, this one included.
    socket_run: u32,
    queue: VecDeque<Request>,
    current: Option<Request>,
    pub(super) watchers: Vec<u32>,
}

impl Line {
    pub(super) fn new() -> Line {
        Line {
            owner: NONE,
            dirty: false,
            busy: false,
            used: false,
            start_at: NEVER,
            held_until: 0,
            arrived: 0,
            socket_run: 0,
            queue: VecDeque::new(),
            current: None,
            watchers: Vec::new(),
        }
    }

    /// Nobody waits for it and nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.current.is_none() && !self.busy && self.start_at == NEVER
    }
}

impl Engine<'_> {
    fn shares(&self, line: u32, cpu: u32) -> bool {
        self.sharers[line as usize * self.words + cpu as usize / 64] >> (cpu % 64) & 1 == 1
    }

    fn set_share(&mut self, line: u32, cpu: u32, on: bool) {
        let word = &mut self.sharers[line as usize * self.words + cpu as usize / 64];
        let bit = 1u64 << (cpu % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// The CPU can access the line at time `t` without a transfer.
    pub(super) fn held(&self, line: u32, cpu: u32, own: bool, t: u64) -> bool {
        let l = &self.lines[line as usize];
        t < l.start_at && (l.owner == cpu || (!own && self.shares(line, cpu)))
    }

    /// Records an access that hit, so that no transfer can start before it.
    pub(super) fn touch(&mut self, line: u32, write: bool, t: u64) {
        let l = &mut self.lines[line as usize];
        l.held_until = l.held_until.max(t);
        l.dirty |= write;
        self.count.accesses += 1;
    }

    /// Asks for a line; the answer comes as an event.
    pub(super) fn request(&mut self, who: Who, cpu: u32, cell: Cell, own: bool, t: u64) {
        let line = self.line_of[cell.0 as usize];
        if self.looks_ahead && self.already_asked(line, who, cpu, own) {
            return;
        }
        self.enqueue(line, Request { who, cpu, own, cell, at: t }, t);
        if self.pairs && !matches!(who, Who::Prefetch(_)) {
            let buddy = line ^ 1;
            let fits = self
                .lines
                .get(buddy as usize)
                .is_some_and(|l| l.used && l.queue.is_empty() && !l.busy && l.start_at == NEVER);
            if fits && !self.held(buddy, cpu, false, t) {
                let req = Request { who: Who::Prefetch(cpu), cpu, own: false, cell: Cell::NULL, at: t };
                self.enqueue(buddy, req, t);
            }
        }
    }

    /// A line that this CPU asked for ahead is on its way, or waited for: whoever needs it now waits for that.
    fn already_asked(&mut self, line: u32, who: Who, cpu: u32, own: bool) -> bool {
        let l = &mut self.lines[line as usize];
        let mut all = l.current.iter_mut().chain(l.queue.iter_mut());
        let mine = all.find(|r| r.who == Who::Ahead(cpu) && (r.own || !own));
        mine.is_some_and(|r| {
            r.who = who;
            true
        })
    }

    fn enqueue(&mut self, line: u32, req: Request, t: u64) {
        self.lines[line as usize].queue.push_back(req);
        self.serve(line, t);
    }

    /// Starts what can be started: any number of shared reads, or one exclusive transfer.
    fn serve(&mut self, line: u32, t: u64) {
        loop {
            let l = &self.lines[line as usize];
            if l.busy || l.start_at != NEVER {
                return;
            }
            if l.queue.len() > 1 {
                self.bring_forward(line);
            }
            let l = &self.lines[line as usize];
            let Some(&req) = l.queue.front() else { return };
            let has = l.owner == req.cpu || (!req.own && self.shares(line, req.cpu));
            if has {
                self.lines[line as usize].queue.pop_front();
                self.push(t, Kind::Shared, line, req.who.code());
                self.lines[line as usize].held_until = self.lines[line as usize].held_until.max(t + 1);
                continue;
            }
            if !req.own && l.owner == NONE {
                self.lines[line as usize].queue.pop_front();
                self.shared_read(line, req, t);
                continue;
            }
            // A request travels to the line's home, from there to the holder, and the line to the requester: three
            // legs of a third each. Whoever holds the line keeps it for the first two; a request that had to queue
            // has its first leg behind it.
            let leg = self.cost(line, req) / 3;
            let stays = if self.siblings(line, req.cpu) { 0 } else { self.costs.tenure };
            let at = l.held_until.max(req.at + 2 * leg).max(l.arrived + leg.max(stays)).max(t);
            self.lines[line as usize].start_at = at;
            if at > t {
                self.push(at, Kind::Start, line, 0);
            } else {
                self.start_at(line, t);
            }
            return;
        }
    }

    /// The first in the queue from the holder's socket comes next, until the line's run there is over; then the first
    /// from elsewhere.
    fn bring_forward(&mut self, line: u32) {
        let l = &self.lines[line as usize];
        if l.owner == NONE {
            return;
        }
        let home = self.near.socket(l.owner);
        let stay = l.socket_run < self.socket_run;
        let next = l.queue.iter().position(|r| (self.near.socket(r.cpu) == home) == stay);
        if let Some(at @ 1..) = next {
            let queue = &mut self.lines[line as usize].queue;
            if let Some(req) = queue.remove(at) {
                queue.push_front(req);
            }
        }
    }

    fn shared_read(&mut self, line: u32, req: Request, t: u64) {
        let nearest = self.extreme(line, req.cpu, false);
        let cost = nearest.map_or(self.costs.memory, |d| self.costs.clean[d]);
        let at = t + self.jittered(cost);
        self.tally(req, false);
        let l = &mut self.lines[line as usize];
        l.held_until = l.held_until.max(at + 1);
        self.push(at, Kind::Shared, line, req.who.code());
    }

    fn tally(&mut self, req: Request, modified: bool) {
        self.count.transfers += 1;
        self.count.hit_modified += u64::from(modified);
        let c = &mut self.by_cell[req.cell.0 as usize];
        *c = (c.0 + 1, c.1 + u64::from(modified));
    }

    pub(super) fn start_transfer(&mut self, line: u32) {
        self.start_at(line, self.now);
    }

    /// The holder shares its core with `cpu`.
    fn siblings(&self, line: u32, cpu: u32) -> bool {
        let owner = self.lines[line as usize].owner;
        owner != NONE && self.near.distance(owner, cpu) <= Distance::Smt as usize
    }

    /// What an exclusive transfer costs from request to arrival, ps.
    fn cost(&self, line: u32, req: Request) -> u64 {
        let owner = self.lines[line as usize].owner;
        if owner != NONE {
            // The home cannot know whether an owner has written the line: it asks in either case.
            return self.costs.latency[self.near.distance(owner, req.cpu)];
        }
        match self.extreme(line, req.cpu, true) {
            Some(d) => self.costs.latency[d],
            None if self.shares(line, req.cpu) => self.costs.clean[3],
            None => self.costs.memory,
        }
    }

    /// The holders lose the line to the first in the queue.
    fn start_at(&mut self, line: u32, t: u64) {
        let l = &mut self.lines[line as usize];
        let Some(req) = l.queue.pop_front() else {
            l.start_at = NEVER;
            return;
        };
        let (owner, dirty) = (l.owner, l.dirty);
        let req = Request { own: req.own || (self.migratory && owner != NONE && dirty), ..req };
        let cost = self.cost(line, req) / 3;
        let stays = owner != NONE && self.near.socket(owner) == self.near.socket(req.cpu);
        let l = &mut self.lines[line as usize];
        l.socket_run = if stays { l.socket_run + 1 } else { 1 };
        (l.owner, l.dirty, l.busy, l.start_at, l.current) = (NONE, false, true, NEVER, Some(req));
        self.tally(req, owner != NONE && dirty);
        if req.own {
            let words = self.words;
            self.sharers[line as usize * words..(line as usize + 1) * words].fill(0);
            self.disturb(line, t);
        } else if owner != NONE {
            self.set_share(line, owner, true);
        }
        let at = t + self.jittered(cost);
        self.push(at, Kind::Done, line, 0);
    }

    /// Spinners whose copy is gone ask for it again when they look next: anywhere within a pause.
    fn disturb(&mut self, line: u32, t: u64) {
        if self.lines[line as usize].watchers.is_empty() {
            return;
        }
        let empty = self.spare.pop().unwrap_or_default();
        let mut watchers = std::mem::replace(&mut self.lines[line as usize].watchers, empty);
        for &task in &watchers {
            self.unwatch(task, t);
            self.tasks[task as usize].state = State::Running;
            let pause = self.rng.below(self.costs.pause as usize) as u64;
            self.push(t.max(self.now) + pause, Kind::Step, task, 0);
        }
        watchers.clear();
        self.spare.push(watchers);
    }

    pub(super) fn transfer_done(&mut self, line: u32) {
        let now = self.now;
        let l = &mut self.lines[line as usize];
        let Some(req) = l.current.take() else { return };
        l.busy = false;
        l.arrived = now;
        l.held_until = now + 1;
        if req.own {
            l.owner = req.cpu;
        } else {
            self.set_share(line, req.cpu, true);
        }
        debug_assert!(self.one_writer_or_many_readers(line));
        // Whoever comes next is planned first, so that the new holder knows how long the line stays.
        self.serve(line, now);
        self.answer(req.who, line);
    }

    pub(super) fn shared_arrived(&mut self, line: u32, code: u32) {
        let who = Who::decode(code);
        let cpu = match who {
            Who::Task(t) => self.tasks[t as usize].cpu,
            Who::Stores(c) | Who::Prefetch(c) | Who::Ahead(c) => c,
        };
        if self.lines[line as usize].owner == NONE && !self.lines[line as usize].busy {
            self.set_share(line, cpu, true);
        }
        debug_assert!(self.one_writer_or_many_readers(line));
        self.answer(who, line);
        self.serve(line, self.now);
    }

    fn answer(&mut self, who: Who, line: u32) {
        match who {
            Who::Task(t) => {
                self.tasks[t as usize].state = State::Running;
                self.step(t);
            }
            Who::Stores(cpu) => {
                self.cpus[cpu as usize].requested.retain(|&l| l != line);
                self.drain(cpu);
            }
            Who::Prefetch(_) | Who::Ahead(_) => {}
        }
    }

    fn one_writer_or_many_readers(&self, line: u32) -> bool {
        let words = &self.sharers[line as usize * self.words..(line as usize + 1) * self.words];
        self.lines[line as usize].owner == NONE || words.iter().all(|w| *w == 0)
    }

    /// Distance to the farthest or nearest other sharer.
    fn extreme(&self, line: u32, cpu: u32, farthest: bool) -> Option<usize> {
        let words = &self.sharers[line as usize * self.words..(line as usize + 1) * self.words];
        self.near.extreme(words, cpu, farthest)
    }

    fn jittered(&mut self, cost: u64) -> u64 {
        if self.jitter_ppm == 0 {
            return cost;
        }
        // At most 100 us (1e8 ps) times 9e5: far from overflowing.
        let span = cost * self.jitter_ppm / 1_000_000;
        cost - span + self.rng.below(2 * span as usize + 1) as u64
    }
}
