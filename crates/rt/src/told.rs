//! What was counted of a process's run, and what the program told of itself.

use crate::convert::ProcessReader;
use crate::stretches::{STRETCH_VT, stretch_vt};
use std::collections::BTreeMap;
use tussle_evidence::{Loss, Mark, MarkKind, Stretch};

/// Stretches of a sample that are told apart.
const STRETCHES_MAX: u64 = 1 << 20;

/// Of fewer stretches the shares of accesses in them say little: a short process may lie in one of them altogether.
const STRETCHES_MIN: usize = 6;

/// What one counted access stands for: by what was passed over, or, of few stretches, by design.
fn scale_of(every: u32, stretches: usize, counted: u64, all: u64) -> f64 {
    let every = f64::from(every);
    if stretches < STRETCHES_MIN || counted == 0 {
        return every;
    }
    (all as f64 / counted as f64).clamp(every / 2.0, every * 2.0)
}

impl ProcessReader<'_> {
    /// Accesses of all threads, of which `counted` were counted. Where that is a sample of the run, rows from `first`
    /// on (accesses, operations) are scaled by what each stretch stands for.
    pub fn scale(&mut self, first: (usize, usize), counted: u64) -> u64 {
        let h = self.file.header();
        if h.sample_every == 0 {
            return counted;
        }
        let passed = self.threads.iter().map(|t| self.file.skipped(t)).fold(0, u64::saturating_add);
        let all = counted.saturating_add(passed);
        let factor = scale_of(h.sample_every, self.sampled_stretches(h.sample_every).len(), counted, all);
        let times = |n: &mut u64| *n = (*n as f64 * factor).round() as u64;
        for a in self.ev.accesses.iter_mut().skip(first.0) {
            [&mut a.reads, &mut a.writes, &mut a.rmws].into_iter().for_each(times);
            if let Some((_, _, sections, storing)) = &mut a.held {
                [sections, storing].into_iter().for_each(times);
            }
        }
        for o in self.ev.operations.iter_mut().flatten().skip(first.1) {
            times(&mut o.repeats);
        }
        self.ev.run.sample_every = Some(h.sample_every);
        all
    }

    /// Parts of the run in which accesses were counted, where that was asked.
    pub fn stretches(&mut self) {
        let h = self.file.header();
        if h.told == 0 {
            return;
        }
        let process = Some(self.process);
        let (process_of, starts) = match h.sample_every {
            0 => (process, self.file.stretches()),
            every => (None, self.sampled_stretches(every)),
        };
        let count = starts.len() as u64;
        let ends = |vt0: u64| (h.sample_every > 0).then_some(vt0 + STRETCH_VT);
        self.ev.stretches.get_or_insert_default().extend(starts.into_iter().map(|vt0| Stretch {
            process: process_of,
            vt0,
            vt1: ends(vt0),
        }));
        let (what, note) = match h.sample_every {
            0 => (
                "not counted".into(),
                "stretches of the run that were counted, as was asked: nothing else was".into(),
            ),
            n => {
                let note = format!(
                    "stretches that were counted, about one of {n} parts of the run: counts are scaled, and \
                     are estimates"
                );
                ("sampled".into(), note)
            }
        };
        self.ev.losses.push(Loss { process, what, count, note });
    }

    /// Where the stretches of a sampled run begin, up to the latest clock of all processes so far.
    fn sampled_stretches(&self, every: u32) -> Vec<u64> {
        let known = self.ev.stretches.iter().flatten().map(|s| s.vt0).max();
        let end = self.ev.actors.iter().map(|a| a.vt1).max().unwrap_or(0);
        let starts = (0..STRETCHES_MAX).map(|n| stretch_vt(n, every)).take_while(|vt0| *vt0 < end);
        starts.filter(|vt0| known.is_none_or(|k| *vt0 > k)).collect()
    }

    /// What the program told of itself.
    pub fn marks(&mut self) {
        let h = self.file.header();
        let process = Some(self.process);
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in self.file.marks().into_iter().filter(|m| m.1 > 0) {
            let sum = rows.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        let mut marks: Vec<Mark> = rows
            .into_iter()
            .map(|(name, count)| Mark { process, kind: MarkKind::Operation, name, count })
            .collect();
        if h.regions_begun > 0 {
            let name = h.region.split(|&b| b == 0).next().unwrap_or(&[]);
            let name = String::from_utf8_lossy(name).into_owned();
            marks.push(Mark { process, kind: MarkKind::Region, name, count: h.regions_begun });
        }
        if !marks.is_empty() {
            self.ev.marks.get_or_insert_default().extend(marks);
        }
        if h.regions_marked != 0 {
            let (what, count) = ("outside of regions".into(), h.regions_begun.max(1));
            let note = "the program marks regions (tussle.h): what happened outside of them was not counted";
            self.ev.losses.push(Loss { process, what, count, note: note.into() });
        }
    }
}
