//! The even split: what a line would cost if threads of one role shared the work equally.
//!
//! With a work queue the scheduler decides how much each thread does; on one CPU one thread may drain it. The run is
//! cut where an actor uses the line for the first or last time. Inside each segment the actors of one role take equal
//! shares of what the role did. A segment that only one actor reached, next to one where others of its role were busy
//! too, counts as if they had all been there. How concurrent the actors really were (observed E over the E of that
//! segment as one window) is kept, so that hand-offs stay hand-offs.

use crate::window::Rate;

struct RoleSum {
    role: u32,
    members: f64,
    n: f64,
    w: f64,
}

struct Segment {
    roles: Vec<RoleSum>,
    members: usize,
    observed: f64,
    whole: f64,
}

pub(crate) struct Even {
    roles: Vec<u32>,
    /// Spans of each actor that have not ended yet.
    left: Vec<usize>,
    begun: Vec<bool>,
    inside: Vec<usize>,
    /// Accesses and stores of each actor in the segment.
    sums: Vec<(f64, f64)>,
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
            sums: vec![(0.0, 0.0); actors],
            observed: 0.0,
            segments: Vec::new(),
        }
    }

    pub(crate) fn pass(&mut self, dt: f64, active: &[usize], rates: &[Rate], e: f64) {
        for &i in active {
            self.sums[i].0 += rates[i].n * dt;
            self.sums[i].1 += rates[i].w * dt;
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
        let n: f64 = self.inside.iter().map(|&i| self.sums[i].0).sum();
        if n > 0.0 {
            let mut segment = Segment {
                roles: Vec::new(),
                members: self.inside.len(),
                observed: self.observed,
                whole: 0.0,
            };
            for &i in &self.inside {
                let (own, w) = self.sums[i];
                segment.whole += w * (1.0 - own / n);
                let role = self.roles[i];
                match segment.roles.iter_mut().find(|r| r.role == role) {
                    Some(r) => {
                        r.members += 1.0;
                        r.n += own;
                        r.w += w;
                    }
                    None => segment.roles.push(RoleSum { role, members: 1.0, n: own, w }),
                }
            }
            self.segments.push(segment);
        }
        for &i in &self.inside {
            self.sums[i] = (0.0, 0.0);
        }
        self.observed = 0.0;
    }

    pub(crate) fn finish(mut self) -> f64 {
        self.close();
        let many = |s: &&Segment| s.members >= 2;
        let whole: f64 = self.segments.iter().filter(many).map(|s| s.whole).sum();
        let observed: f64 = self.segments.iter().filter(many).map(|s| s.observed).sum();
        if whole <= 0.0 {
            return 0.0;
        }
        let mut even = 0.0;
        for (i, s) in self.segments.iter().enumerate() {
            even += match s.members {
                1 => self.alone(i),
                _ => {
                    let n: f64 = s.roles.iter().map(|r| r.n).sum();
                    s.roles.iter().map(|r| r.w * (1.0 - r.n / (r.members * n))).sum()
                }
            };
        }
        even * observed / whole
    }

    /// A segment of one actor whose role was shared just before or after it.
    fn alone(&self, i: usize) -> f64 {
        let Some(one) = self.segments[i].roles.first() else { return 0.0 };
        let beside = [i.checked_sub(1), i.checked_add(1)];
        let members = beside
            .into_iter()
            .flatten()
            .filter_map(|k| self.segments.get(k))
            .flat_map(|s| &s.roles)
            .filter(|r| r.role == one.role)
            .map(|r| r.members)
            .fold(1.0, f64::max);
        one.w * (1.0 - 1.0 / members)
    }
}
