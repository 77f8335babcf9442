//! Evidence as a profile of the Firefox Profiler: threads with the fields that they access, and a counter track for
//! every contended line.
//!
//! The format is the "processed profile", version 63 (docs-developer/processed-profile-format.md and
//! CHANGELOG-formats.md of the profiler; it upgrades older versions itself). Its milliseconds are virtual time here:
//! one stands for [`VT_PER_MS`] accesses. A thread's call tree is object, then field; weights are accesses.

mod tables;

use crate::names;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tables::Tables;
use tussle_contention::analysis::{Contention, LineContention, Question, contention};
use tussle_contention::fields::Namer;
use tussle_contention::lines::{self, LinePieces};
use tussle_contention::window::{Piece, quick_e};
use tussle_evidence::{Access, Evidence, Object};

/// Units of virtual time that the profiler shows as one millisecond.
pub const VT_PER_MS: f64 = 1000.0;
/// Version of the processed profile format.
const VERSION: u32 = 63;
/// Counter tracks: the worst lines.
const LINES_MAX: usize = 40;
/// Columns of the time axis at most; each is a whole number of windows.
const BUCKETS_MAX: u64 = 512;
/// Samples of all threads; with more the axis gets coarser.
const SAMPLES_MAX: usize = 200_000;

/// The profile; `None` where the source knows no times of accesses.
pub fn profile(e: &Evidence) -> Option<Value> {
    let end =
        e.accesses.iter().map(|a| a.vt1.max(a.vt0.saturating_add(1))).max().filter(|_| e.run.sees.time)?;
    let mut axis = Axis::new(e, end);
    let namer = Namer::new(e);
    let mut tables = Tables::default();
    let stacks = stacks(e, &namer, &mut tables);
    let threads = loop {
        let samples = samples(e, &stacks, &axis);
        let count: usize = samples.iter().map(BTreeMap::len).sum();
        if count <= SAMPLES_MAX || axis.buckets() <= 1 {
            break samples;
        }
        axis.width = axis.width.saturating_mul(2);
    };
    let threads: Vec<Value> =
        threads.iter().enumerate().map(|(i, s)| thread(e, i as u32, s, &axis)).collect();
    let seen = contention(e, &Question::observed());
    Some(json!({
        "meta": meta(e, &axis),
        "libs": [],
        "counters": counters(e, &namer, &seen, &axis),
        "shared": tables.finish(),
        "threads": threads,
    }))
}

/// Virtual time in equal steps.
struct Axis {
    window: u64,
    width: u64,
    end: u64,
}

impl Axis {
    fn new(e: &Evidence, end: u64) -> Axis {
        let window = e.run.window_vt.max(1);
        let windows = end.div_ceil(window).max(1);
        Axis { window, width: window.saturating_mul(windows.div_ceil(BUCKETS_MAX)), end }
    }

    fn buckets(&self) -> u64 {
        self.end.div_ceil(self.width).max(1)
    }

    fn ms(&self, bucket: u64) -> f64 {
        vt_ms(bucket.saturating_mul(self.width))
    }

    /// The steps over which `vt0..vt1` reaches, with the share of it up to the end of each.
    fn shares(&self, vt0: u64, vt1: u64) -> impl Iterator<Item = (u64, f64)> + '_ {
        let vt1 = vt1.max(vt0.saturating_add(1));
        let length = (vt1 - vt0) as f64;
        (vt0 / self.width..=(vt1 - 1) / self.width).map(move |bucket| {
            let up_to = (bucket + 1).saturating_mul(self.width).min(vt1);
            (bucket, (up_to - vt0) as f64 / length)
        })
    }
}

fn vt_ms(vt: u64) -> f64 {
    vt as f64 / VT_PER_MS
}

/// Accesses of one thread by time step and stack.
type Samples = BTreeMap<(u64, usize), u64>;

/// The stack of every access; none where its object is not known.
fn stacks(e: &Evidence, namer: &Namer<'_>, tables: &mut Tables) -> Vec<Option<usize>> {
    let stack = |a: &Access| {
        let object = e.objects.get(a.object as usize)?;
        let field = namer.name(a.object, a.offset, u64::from(a.size)).path;
        Some(tables.stack(&namer.root(object), &field))
    };
    e.accesses.iter().map(stack).collect()
}

fn samples(e: &Evidence, stacks: &[Option<usize>], axis: &Axis) -> Vec<Samples> {
    let mut out: Vec<Samples> = vec![Samples::new(); e.actors.len()];
    for (a, stack) in e.accesses.iter().zip(stacks) {
        let (Some(of), Some(stack)) = (out.get_mut(a.actor as usize), *stack) else { continue };
        let mut before = 0;
        for (bucket, share) in axis.shares(a.vt0, a.vt1) {
            // Rounded so that the parts add up to the whole.
            let now = (a.total() as f64 * share).round() as u64;
            if now > before {
                let weight = of.entry((bucket, stack)).or_default();
                *weight = weight.saturating_add(now - before);
            }
            before = now;
        }
    }
    out
}

fn thread(e: &Evidence, id: u32, samples: &Samples, axis: &Axis) -> Value {
    let actor = &e.actors[id as usize];
    let (pid, process) = process(e, actor.process);
    let times: Vec<f64> = samples.keys().map(|(bucket, _)| axis.ms(*bucket)).collect();
    let stacks: Vec<usize> = samples.keys().map(|(_, stack)| *stack).collect();
    let weights: Vec<u64> = samples.values().copied().collect();
    json!({
        "processType": "default", "processName": process, "pid": pid, "tid": actor.number,
        "processStartupTime": 0.0, "processShutdownTime": null,
        "registerTime": vt_ms(actor.vt0), "unregisterTime": vt_ms(actor.vt1.max(actor.vt0)),
        "pausedRanges": [], "name": names::threads(e, &[id]), "isMainThread": is_main(e, id),
        "samples": {
            "stack": stacks, "time": times, "weight": weights, "weightType": "samples", "length": times.len(),
        },
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0,
        },
    })
}

/// Number and name of a process.
fn process(e: &Evidence, index: Option<u32>) -> (String, String) {
    let process = index.and_then(|p| e.processes.get(p as usize));
    let name = |exe: &str| exe.rsplit('/').next().unwrap_or_default().to_string();
    process.map_or(("0".into(), "unknown".into()), |p| (p.pid.to_string(), name(&p.exe)))
}

/// The first actor of its process.
fn is_main(e: &Evidence, id: u32) -> bool {
    let of = |a: u32| e.actors.get(a as usize).map(|a| a.process);
    (0..id).all(|other| of(other) != of(id))
}

/// One track for each of the worst lines: expected invalidations in every time step.
fn counters(e: &Evidence, namer: &Namer<'_>, seen: &Contention, axis: &Axis) -> Vec<Value> {
    let mut worst: Vec<&LineContention> = Vec::new();
    for line in &seen.lines {
        let known = worst.iter().any(|w| (w.process, w.address) == (line.process, line.address));
        if !known && worst.len() < LINES_MAX {
            worst.push(line);
        }
    }
    let place = |l: &LinePieces| worst.iter().position(|w| (w.process, w.address) == (l.process, l.address));
    let mut counts: Vec<Vec<f64>> = vec![vec![0.0; axis.buckets() as usize]; worst.len()];
    let base = |_: u32, o: &Object| Some(o.base);
    let of_worst = |l: LinePieces| Some((place(&l)?, l.pieces));
    let fights = lines::map_fights(e, e.accesses.iter(), (seen.question.line, 0.0), &base, &of_worst);
    for (at, pieces) in fights.found {
        add_e(&mut counts[at], &pieces, axis);
    }
    worst
        .iter()
        .zip(counts)
        .enumerate()
        .map(|(i, (line, count))| counter(e, namer, i, line, &count, axis))
        .collect()
}

/// Adds what one line's pieces cost in each step. Steps are whole windows, on whose grid short stretches are spread.
fn add_e(count: &mut [f64], pieces: &[Piece], axis: &Axis) {
    let mut parts: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
    for p in pieces {
        let mut before = 0.0;
        for (bucket, share) in axis.shares(p.vt0, p.vt1) {
            let part = share - before;
            before = share;
            let start = bucket.saturating_mul(axis.width);
            parts.entry(bucket).or_default().push(Piece {
                vt0: p.vt0.max(start),
                vt1: p.vt1.min(start.saturating_add(axis.width)),
                reads: p.reads * part,
                writes: p.writes * part,
                rmws: p.rmws * part,
                ..*p
            });
        }
    }
    for (bucket, pieces) in parts {
        if let Some(sum) = usize::try_from(bucket).ok().and_then(|b| count.get_mut(b)) {
            *sum += quick_e(&pieces, axis.window);
        }
    }
}

fn counter(
    e: &Evidence,
    namer: &Namer<'_>,
    rank: usize,
    line: &LineContention,
    count: &[f64],
    axis: &Axis,
) -> Value {
    let fields = fields(namer, line);
    let first = |a: &tussle_evidence::Actor| a.process == Some(line.process);
    let main = e.actors.iter().position(first).unwrap_or(0);
    let total: f64 = count.iter().sum();
    json!({
        "name": fields,
        "category": "cache line",
        "description": format!(
            "Expected invalidations of the line at {:#x}, {} in all, by virtual time", line.address, total.round()
        ),
        "pid": process(e, Some(line.process)).0,
        "mainThreadIndex": main,
        "samples": {
            "time": (0..count.len() as u64).map(|b| axis.ms(b)).collect::<Vec<_>>(),
            "count": count,
            "length": count.len(),
        },
        "display": {
            "graphType": "line-rate", "unit": "", "color": "red", "markerSchemaLocation": null,
            "sortWeight": 50 + rank, "label": fields,
            "tooltipRows": [
                {"type": "value", "source": "count", "format": {"unit": "number"},
                 "label": "expected invalidations in this step"},
                {"type": "value", "source": "committed-range-total", "format": {"unit": "number"},
                 "label": "expected invalidations in view"},
            ],
        },
    })
}

/// The two fields of a line that are used most.
fn fields(namer: &Namer<'_>, line: &LineContention) -> String {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for p in &line.parts {
        let name = namer.name(p.range.object, p.range.offset, u64::from(p.range.size)).path;
        *sums.entry(name).or_default() += p.counts.total();
    }
    let mut list: Vec<(String, f64)> = sums.into_iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names: Vec<String> = list.into_iter().take(2).map(|(name, _)| name).collect();
    names.join(" \u{27f7} ")
}

fn meta(e: &Evidence, axis: &Axis) -> Value {
    let categories = [("Other", "grey"), ("Fields", "blue")];
    let category =
        |(name, color): (&str, &str)| json!({"name": name, "color": color, "subcategories": ["Other"]});
    let entry = |label: &str, value: String| json!({"label": label, "format": "string", "value": value});
    let time = format!("virtual: 1 ms stands for {VT_PER_MS} accesses");
    json!({
        "interval": vt_ms(axis.width),
        "startTime": e.run.started_unix_s.unwrap_or(0.0) * 1000.0,
        "endTime": vt_ms(axis.end),
        "processType": 0, "product": e.run.command.join(" "), "stackwalk": 1, "debug": false,
        "version": 32, "preprocessedProfileVersion": VERSION,
        "categories": categories.map(category),
        "markerSchema": [], "symbolicated": true, "importedFrom": "tussle",
        "CPUName": e.run.cpu_model, "logicalCPUs": e.run.cpus,
        "usesOnlyOneStackType": true, "sourceCodeIsNotOnSearchfox": true, "keepProfileThreadOrder": true,
        "extra": [{"label": "tussle", "entries": [
            entry("Time", time),
            entry("Weights", "accesses of memory that threads share".into()),
            entry("Numbers", format!("{}, not measured", e.run.source)),
        ]}],
    })
}

#[cfg(test)]
mod tests;
