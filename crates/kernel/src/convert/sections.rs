//! Sampled critical sections to operations.

use std::collections::HashMap;

use tussle_evidence::{InnerLock, Operation, OperationKind, TouchKind};

use crate::convert::rows::Rows;
use crate::hooks::is_shared;
use crate::stream::{AccessKind, Section, SectionStep, Stream};

/// Visits kept of all operations; sections that do not fit any more are left out.
const VISITS_MAX: usize = 400_000;

/// Object, offset, size, kind, accesses before.
type Visit = (u32, u64, u32, TouchKind, u64);

/// What makes two sections the same operation: vCPU, lock, its mode, visits without the gaps, inner locks.
type OperationKey = (u16, u32, u64, Option<bool>, Vec<(u32, u64, u32, TouchKind)>, Vec<InnerLock>);

/// Sums of sections of one shape, weighted.
#[derive(Default)]
struct Sums {
    gaps: Vec<u64>,
    weight: u64,
    think: (u64, u64),
    instructions: (u64, u64),
}

/// What lies where.
pub(super) trait Ground {
    /// Transfers of a line, given by its number.
    fn moved(&self, line: u64) -> u64;
    /// The window that holds a moment.
    fn window_of(&self, accesses: u64) -> u32;
    /// Object at an address, offset in it, bytes from there to its end.
    fn locate(&mut self, address: u64, window: u32, born: u32) -> (u32, u64, u64);
}

impl Ground for Rows<'_> {
    fn moved(&self, line: u64) -> u64 {
        Rows::moved(self, line)
    }

    fn window_of(&self, accesses: u64) -> u32 {
        Rows::window_of(self, accesses)
    }

    fn locate(&mut self, address: u64, window: u32, born: u32) -> (u32, u64, u64) {
        let object = self.object(address, window, born);
        let (base, size) = self.objects.get(object as usize).map_or((address, 1), |p| (p.base, p.size));
        let offset = address.saturating_sub(base);
        (object, offset, size.saturating_sub(offset))
    }
}

/// One row for each shape, in order of its first section, and how many sections were left out.
pub(super) fn operations(stream: &Stream, ground: &mut dyn Ground) -> (Vec<Operation>, u64) {
    let mut sections: Vec<&Section> = stream.sections.iter().collect();
    sections.sort_by_key(|s| (s.began, s.vcpu));
    let mut out: Vec<Operation> = Vec::new();
    let mut sums: Vec<Sums> = Vec::new();
    let mut by_shape: HashMap<OperationKey, usize> = HashMap::new();
    let (mut visits_all, mut left_out) = (0, 0);
    for s in sections {
        let (visits, inner) = visits(s, ground);
        if visits_all + visits.len() > VISITS_MAX {
            left_out += 1;
            continue;
        }
        visits_all += visits.len();
        let (lock, at, _) = ground.locate(s.lock, ground.window_of(s.began), s.born);
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
                kind: Some(OperationKind::Section),
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
    (out, left_out)
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

/// Visits of lines that ever moved; the others, and those that repeat the one before, count as accesses in between.
fn visits(s: &Section, ground: &mut dyn Ground) -> (Vec<Visit>, Vec<InnerLock>) {
    let window = ground.window_of(s.began);
    let mut out: Vec<Visit> = Vec::new();
    let mut inner: Vec<InnerLock> = Vec::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut gap = 0u64;
    for step in &s.steps {
        match *step {
            SectionStep::Visit { address, born, gap: before, kind, size } => {
                gap += u64::from(before);
                if ground.moved(address >> 6) == 0 {
                    gap += 1;
                    continue;
                }
                let (object, offset, room) = ground.locate(address, window, born);
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
                let (object, at, _) = ground.locate(lock, window, born);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of 4096 bytes, numbered by their page; lines of pages from 16 on never moved.
    struct Pages;

    impl Ground for Pages {
        fn moved(&self, line: u64) -> u64 {
            u64::from(line < 16 * 64)
        }

        fn window_of(&self, _: u64) -> u32 {
            0
        }

        fn locate(&mut self, address: u64, _: u32, _: u32) -> (u32, u64, u64) {
            ((address / 4096) as u32, address % 4096, 4096 - address % 4096)
        }
    }

    fn visit(address: u64, gap: u16, kind: AccessKind) -> SectionStep {
        SectionStep::Visit { address, born: 0, gap, kind, size: 8 }
    }

    fn section(began: u64, think: u64, steps: &[SectionStep]) -> Section {
        let (think, instructions) = (Some(think), Some(50));
        let (lock, ended, function) = (0x1010, began + 10, 4);
        let steps = steps.to_vec();
        Section {
            lock,
            began,
            ended,
            think,
            instructions,
            function,
            stands_for: 2,
            steps,
            ..Section::default()
        }
    }

    #[test]
    fn what_never_moved_is_time_in_between() {
        let steps = [
            visit(0x2000, 3, AccessKind::Read),
            visit(0x2000, 0, AccessKind::Read),
            visit(0x20000, 1, AccessKind::Write),
            visit(0x2000, 2, AccessKind::Write),
        ];
        let (visits, inner) = visits(&section(0, 0, &steps), &mut Pages);
        assert_eq!(visits, [(2, 0, 8, TouchKind::Read, 3), (2, 0, 8, TouchKind::Write, 5)]);
        assert_eq!(inner, []);
    }

    #[test]
    fn inner_locks_hold_their_visits() {
        let acquired = |lock| SectionStep::Acquired { lock, born: 0, function: 11 };
        let steps = [
            visit(0x2000, 0, AccessKind::Read),
            acquired(0x3000),
            visit(0x2008, 0, AccessKind::Write),
            acquired(0x3008),
            SectionStep::Released { lock: 0x3000 },
            visit(0x2010, 0, AccessKind::Rmw),
            SectionStep::Released { lock: 0x9000 },
        ];
        let (visits, inner) = visits(&section(0, 0, &steps), &mut Pages);
        assert_eq!(visits.len(), 3);
        assert_eq!(inner, [(1, 2, 3, 0, Some(false)), (2, 3, 3, 8, Some(false))], "the second stays held");
    }

    #[test]
    fn equal_sections_are_one_row() {
        let read = |gap| [visit(0x2000, gap, AccessKind::Read)];
        let other = [visit(0x2008, 0, AccessKind::Read)];
        let sections = vec![section(30, 300, &read(4)), section(20, 0, &other), section(10, 100, &read(2))];
        let (rows, left_out) = operations(&Stream { sections, ..Stream::default() }, &mut Pages);
        assert_eq!(left_out, 0);
        let seen: Vec<_> = rows
            .iter()
            .map(|o| (o.vt0, o.repeats, o.visits[0].4, o.think_instructions, o.instructions))
            .collect();
        assert_eq!(seen, [(10, 4, 3, Some(200), Some(50)), (20, 2, 0, Some(0), Some(50))]);
        assert_eq!(
            (rows[0].lock_object, rows[0].lock_offset, rows[0].shared),
            (Some(1), Some(16), Some(true))
        );
    }
}
