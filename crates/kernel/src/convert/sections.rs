//! Sampled critical sections to operations.

use std::collections::HashMap;

use tussle_evidence::{InnerLock, Operation, TouchKind};

use crate::convert::rows::Rows;
use crate::hooks::is_shared;
use crate::stream::{AccessKind, Section, SectionStep, Stream};

/// Visits kept of all operations; sections beyond are left out, the latest first.
const VISITS_MAX: usize = 400_000;

/// Object, offset, size, kind, accesses before.
type Visit = (u32, u64, u32, TouchKind, u64);

/// What makes two sections the same operation: vCPU, lock, its mode, visits without the gaps, inner locks.
type Shape = (u16, u32, u64, Option<bool>, Vec<(u32, u64, u32, TouchKind)>, Vec<InnerLock>);

/// Sums of sections of one shape, weighted.
#[derive(Default)]
struct Sums {
    gaps: Vec<u64>,
    weight: u64,
    think: (u64, u64),
    instructions: (u64, u64),
}

/// One row for each shape, in order of its first section.
pub(super) fn operations(stream: &Stream, rows: &mut Rows) -> Vec<Operation> {
    let mut sections: Vec<&Section> = stream.sections.iter().collect();
    sections.sort_by_key(|s| (s.began, s.vcpu));
    let mut out: Vec<Operation> = Vec::new();
    let mut sums: Vec<Sums> = Vec::new();
    let mut by_shape: HashMap<Shape, usize> = HashMap::new();
    let mut visits_all = 0;
    for s in sections {
        let (visits, inner) = visits(s, rows);
        visits_all += visits.len();
        if visits_all > VISITS_MAX {
            break;
        }
        let (lock, at) = locate(rows, s.lock, rows.window_of(s.began), s.born);
        let shared = is_shared(s.function);
        let bare = visits.iter().map(|v| (v.0, v.1, v.2, v.3)).collect();
        let n = *by_shape.entry((s.vcpu, lock, at, shared, bare, inner.clone())).or_insert(out.len());
        if n == out.len() {
            sums.push(Sums { gaps: vec![0; visits.len()], ..Sums::default() });
            out.push(Operation {
                actor: u32::from(s.vcpu),
                lock_object: Some(lock),
                lock_offset: Some(at),
                vt0: s.began,
                vt1: s.ended,
                shared,
                inner: Some(inner),
                visits: visits.clone(),
                ..Operation::default()
            });
        }
        if let Some(sum) = sums.get_mut(n) {
            sum.add(s, &visits);
        }
    }
    for (o, sum) in out.iter_mut().zip(&sums) {
        sum.finish(o);
    }
    out
}

impl Sums {
    fn add(&mut self, s: &Section, visits: &[Visit]) {
        let weight = u64::from(s.stands_for.max(1));
        self.weight += weight;
        for (sum, v) in self.gaps.iter_mut().zip(visits) {
            *sum += weight * v.4;
        }
        for (sum, known) in [(&mut self.think, s.think), (&mut self.instructions, s.instructions)] {
            if let Some(n) = known {
                sum.0 = sum.0.saturating_add(weight.saturating_mul(n));
                sum.1 += weight;
            }
        }
    }

    fn finish(&self, o: &mut Operation) {
        let mean = |(sum, n): (u64, u64)| (sum + n / 2).checked_div(n);
        o.repeats = self.weight;
        o.think_instructions = mean(self.think);
        o.instructions = mean(self.instructions);
        for (v, sum) in o.visits.iter_mut().zip(&self.gaps) {
            v.4 = mean((*sum, self.weight)).unwrap_or(0);
        }
    }
}

fn locate(rows: &mut Rows, address: u64, window: u32, born: u32) -> (u32, u64) {
    let object = rows.object(address, window, born);
    let base = rows.objects.get(object as usize).map_or(address, |p| p.base);
    (object, address.saturating_sub(base))
}

/// Visits of lines that ever moved; the others, and those that repeat the one before, count as accesses in between.
fn visits(s: &Section, rows: &mut Rows) -> (Vec<Visit>, Vec<InnerLock>) {
    let window = rows.window_of(s.began);
    let mut out: Vec<Visit> = Vec::new();
    let mut inner: Vec<InnerLock> = Vec::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut gap = 0u64;
    for step in &s.steps {
        match *step {
            SectionStep::Visit { address, born, gap: before, kind, size } => {
                gap += u64::from(before);
                if rows.moved(address >> 6) == 0 {
                    gap += 1;
                    continue;
                }
                let (object, offset) = locate(rows, address, window, born);
                let room = rows.objects.get(object as usize).map_or(1, |p| p.size.saturating_sub(offset));
                let size = u32::from(size).min(room.clamp(1, 64) as u32);
                let kind = match kind {
                    AccessKind::Read => TouchKind::Read,
                    AccessKind::Write => TouchKind::Write,
                    AccessKind::Rmw => TouchKind::Rmw,
                };
                let again = |v: &Visit| (v.0, v.1, v.2, v.3) == (object, offset, size, kind);
                if out.last().is_some_and(again) {
                    gap += 1;
                    continue;
                }
                out.push((object, offset, size, kind, gap));
                gap = 0;
            }
            SectionStep::Acquired { lock, born, function } => {
                let (object, at) = locate(rows, lock, window, born);
                open.push((lock, inner.len()));
                let from = out.len() as u32;
                inner.push((from, u32::MAX, object, at, is_shared(function.into())));
            }
            SectionStep::Released { lock } => {
                let Some(at) = open.iter().rposition(|o| o.0 == lock) else { continue };
                let (_, row) = open.remove(at);
                if let Some(l) = inner.get_mut(row) {
                    l.1 = out.len() as u32;
                }
            }
        }
    }
    for l in &mut inner {
        l.1 = l.1.min(out.len() as u32);
    }
    (out, inner)
}
