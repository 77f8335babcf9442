//! The even split: what a line would cost if threads of one role shared the work equally.
//!
//! With a work queue the scheduler decides how much each thread does; on one CPU one thread may drain it. The run is
//! cut where an actor uses the line for the first or last time. Inside each segment the actors of one role take equal
//! shares of what the role did. Those that ended early got less of the work, so they count as if they had stayed.
//! Bytes that only one of them uses (an element per worker) are shared out only if each of them has such bytes:
//! otherwise that one has a duty of its own. How concurrent the actors really were (observed E over the E of each
//! segment as one window) is kept, so that hand-offs stay hand-offs.

use crate::window::Rate;

/// Accesses and stores.
#[derive(Clone, Copy, Default)]
struct Sum {
    n: f64,
    w: f64,
}

/// What one actor did in a segment: on bytes that others of its role use too, and on its own.
#[derive(Clone, Copy, Default)]
struct Work {
    common: Sum,
    own: Sum,
}

#[derive(Clone, Copy, Default)]
struct RoleSum {
    role: u32,
    members: f64,
    /// Members with bytes of their own.
    owners: f64,
    work: Work,
}

impl RoleSum {
    /// Every member has bytes of its own, so they are all alike.
    fn alike(&self) -> bool {
        self.owners == self.members
    }
}

struct Segment {
    roles: Vec<RoleSum>,
    members: usize,
    observed: f64,
    whole: f64,
    /// Accesses of all.
    n: f64,
    own: Vec<(u32, Sum)>,
}

impl Segment {
    fn role(&self, role: u32) -> Option<&RoleSum> {
        self.roles.iter().find(|r| r.role == role)
    }
}

pub(crate) struct Even {
    roles: Vec<u32>,
    /// Spans of each actor that have not ended yet.
    left: Vec<usize>,
    begun: Vec<bool>,
    inside: Vec<usize>,
    /// What each actor did in the segment.
    sums: Vec<Work>,
    observed: f64,
    segments: Vec<Segment>,
}

impl Even {
    /// `spans_of`: number of spans per actor, so that the last end is recognised.
    pub(crate) fn new(roles: Vec<u32>, spans_of: Vec<usize>) -> Even {
        let actors = roles.len();
        Even {
            roles,
            left: spans_of,
            begun: vec![false; actors],
            inside: Vec::new(),
            sums: vec![Work::default(); actors],
            observed: 0.0,
            segments: Vec::new(),
        }
    }

    /// `own`: the part of each actor's rate on bytes that nobody else of its role uses.
    pub(crate) fn pass(&mut self, dt: f64, active: &[usize], rates: &[Rate], own: &[Rate], e: f64) {
        for &i in active {
            let (all, own, sum) = (rates[i], own[i], &mut self.sums[i]);
            sum.common.n += (all.n - own.n).max(0.0) * dt;
            sum.common.w += (all.w - own.w).max(0.0) * dt;
            sum.own.n += own.n * dt;
            sum.own.w += own.w * dt;
        }
        self.observed += e;
    }

    /// A span of `actor` begins (1) or ends (-1).
    pub(crate) fn change(&mut self, actor: usize, sign: i32) {
        if sign > 0 && !self.begun[actor] {
            self.close();
            self.begun[actor] = true;
            self.inside.push(actor);
        }
        if sign < 0 {
            self.left[actor] = self.left[actor].saturating_sub(1);
            if self.left[actor] == 0 {
                self.close();
                self.inside.retain(|&i| i != actor);
            }
        }
    }

    fn close(&mut self) {
        let n: f64 = self.inside.iter().map(|&i| self.sums[i].common.n + self.sums[i].own.n).sum();
        if n > 0.0 {
            let segment = self.segment(n);
            self.segments.push(segment);
        }
        for &i in &self.inside {
            self.sums[i] = Work::default();
        }
        self.observed = 0.0;
    }

    fn segment(&self, n: f64) -> Segment {
        let mut roles: Vec<RoleSum> = Vec::new();
        let mut whole = 0.0;
        for &i in &self.inside {
            let Work { common, own } = self.sums[i];
            whole += (common.w + own.w) * (1.0 - (common.n + own.n) / n);
            let role = self.roles[i];
            let at = roles.iter().position(|r| r.role == role).unwrap_or(roles.len());
            if at == roles.len() {
                roles.push(RoleSum { role, ..RoleSum::default() });
            }
            let r = &mut roles[at];
            r.members += 1.0;
            r.owners += if own.n > 0.0 { 1.0 } else { 0.0 };
            r.work.common = Sum { n: r.work.common.n + common.n, w: r.work.common.w + common.w };
            r.work.own = Sum { n: r.work.own.n + own.n, w: r.work.own.w + own.w };
        }
        Segment { roles, members: self.inside.len(), observed: self.observed, whole, n, own: self.own_sums() }
    }

    /// What each actor did on bytes of its own, with its role: for roles whose members are not alike.
    fn own_sums(&self) -> Vec<(u32, Sum)> {
        self.inside.iter().map(|&i| (self.roles[i], self.sums[i].own)).collect()
    }

    pub(crate) fn finish(mut self) -> f64 {
        self.close();
        let many = |s: &&Segment| s.members >= 2;
        let whole: f64 = self.segments.iter().filter(many).map(|s| s.whole).sum();
        let observed: f64 = self.segments.iter().filter(many).map(|s| s.observed).sum();
        if whole <= 0.0 {
            return 0.0;
        }
        let even: f64 = (0..self.segments.len()).map(|i| self.even(i)).sum();
        even * observed / whole
    }

    /// E of a segment whose roles do equal shares. Members that are done already (they got less of the work, so their
    /// clocks are behind) count as if they were still there.
    fn even(&self, i: usize) -> f64 {
        let s = &self.segments[i];
        let mut e = 0.0;
        for r in &s.roles {
            let (members, alike) = self.crowd(i, r);
            let Work { common, own } = r.work;
            if alike {
                let (n, w) = ((common.n + own.n) / members, common.w + own.w);
                e += w * (1.0 - n / s.n);
                continue;
            }
            let idle = (members - r.members).max(0.0);
            e += idle * common.w / members * (1.0 - common.n / members / s.n);
            for (_, own) in s.own.iter().filter(|o| o.0 == r.role) {
                let n = common.n / members + own.n;
                e += (common.w / members + own.w) * (1.0 - n / s.n);
            }
        }
        e.max(0.0)
    }

    /// The most members that the role has in the segments around this one without a pause, and whether they are alike
    /// there.
    fn crowd(&self, i: usize, r: &RoleSum) -> (f64, bool) {
        let before = self.segments[..i].iter().rev().map_while(|s| s.role(r.role));
        let after = self.segments[i + 1..].iter().map_while(|s| s.role(r.role));
        let most = before
            .take(CROWD_SEGMENTS_MAX)
            .chain(after.take(CROWD_SEGMENTS_MAX))
            .fold(*r, |most, other| if other.members > most.members { *other } else { most });
        (most.members, most.alike())
    }
}

/// How far to look for the rest of a crowd: keeps thousands of threads on one line from costing their square.
const CROWD_SEGMENTS_MAX: usize = 256;
