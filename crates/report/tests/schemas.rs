//! What every source's report says as JSON keeps to the schema of its kind in `docs/schema`.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use tussle_evidence::sample::Sample;
use tussle_evidence::*;
use tussle_render::{Format, Style, View, render, schema};
use tussle_report::{Options, by_type, compare, report};

/// The document of a view, held against the schema that its kind names.
#[track_caller]
fn checked(view: &View, kind: &str) -> Value {
    let document: Value = serde_json::from_str(&render(view, Format::Json, Style::default())).unwrap();
    assert_eq!(document["kind"], kind);
    let path = format!("{}/../../docs/schema/{kind}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}: {document:#}"));
    let rules = serde_json::from_str(&text).unwrap();
    assert_eq!(schema::violations(&rules, &document), Vec::<String>::new(), "{document:#}");
    document
}

/// Alone, beside itself, with a loss and a problem, without what its source may lack, and by type.
fn every_way(e: &Evidence, kind: &str, comparison: &str) -> Value {
    let options = Options::default();
    let mut poor = e.clone();
    (poor.run.duration_s, poor.run.complete, poor.run.flags) = (None, false, None);
    poor.code.iter_mut().for_each(|c| c.frames.clear());
    poor.objects.iter_mut().for_each(|o| (o.ty, o.name) = (None, None));
    poor.losses = vec![Loss { what: "lines".into(), count: 3, process: None, note: "full".into() }];
    let problem = Problem { table: "touches".into(), line: 7, offset: 99, message: "damaged".into() };
    checked(&report(&poor, &[problem], &options).view, kind);
    let mut empty = e.clone();
    (empty.accesses, empty.touches, empty.objects) = Default::default();
    empty.samples.iter_mut().for_each(Vec::clear);
    empty.transfers.iter_mut().for_each(Vec::clear);
    empty.rates.iter_mut().for_each(Vec::clear);
    for other in [e, &poor, &empty] {
        checked(&compare(e, other, [&[], &[]], &options).view, comparison);
        checked(&by_type::by_type(other, &options), "types");
        checked(&report(other, &[], &options).view, kind);
    }
    checked(&report(e, &[], &options).view, kind)
}

fn recorded() -> Evidence {
    Sample::two_counters().evidence()
}

/// A sampled access; `shares` what the processor told, `None` where it told nothing.
fn sampled(offset: u64, actor: u32, told: Option<u64>) -> Sampled {
    Sampled {
        offset,
        size: 8,
        actor: Some(actor),
        code: Some(actor + 1),
        records: 50_000,
        loads: told,
        hitm_local: told,
        hitm_remote: told,
        latency_cycles: told.map(|n| n * 300),
        store_l1_hit: told,
        cpus: told.map(|n| n as u32),
        ..Sampled::default()
    }
}

#[test]
fn recorded_runs() {
    let document = every_way(&recorded(), "report", "report_comparison");
    assert_eq!(document["lines"].as_array().map(Vec::len), Some(1));
}

#[test]
fn kernels_in_an_emulator() {
    let mut e = recorded();
    e.run.source = Source::KernelRecorder;
    let row = |offset, actor, code| Transfer {
        object: 0,
        offset,
        size: 8,
        code,
        actor: Some(actor),
        kind: TouchKind::Write,
        transfers: 900,
        dirty: 400,
        schedule: None,
    };
    e.transfers = Some(vec![row(0, 1, Some(2)), row(8, 2, Some(3)), row(8, 2, None)]);
    let document = every_way(&e, "report_kernel", "kernel_comparison");
    assert_eq!(document["transfers"], 2700);
}

#[test]
fn imported_samples() {
    for (unit, told) in [(Unit::HitmSamples, Some(40)), (Unit::PeerSamples, None)] {
        let mut e = recorded();
        (e.run.source, e.run.unit) = (Source::Perf, unit);
        let peer = |s: Sampled| Sampled { peer: Some(90), ..s };
        e.samples = Some(vec![peer(sampled(0, 1, told)), peer(sampled(8, 2, told))]);
        e.accesses.clear();
        let document = every_way(&e, "report_samples", "samples_comparison");
        assert_eq!(document["sampled_lines"][0]["rows"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn running_programs() {
    for unit in [Unit::ClockSamples, Unit::PreciseSamples] {
        let mut e = recorded();
        (e.run.source, e.run.unit) = (Source::Live, unit);
        e.samples = Some(vec![sampled(0, 1, Some(400)), sampled(8, 2, Some(80))]);
        let rate = |actor, offset, high| Rate {
            object: 0,
            offset,
            size: 8,
            actor: Some(actor),
            of: RateOf::Writes,
            per_s: 1e6,
            low_per_s: Some(9e5),
            high_per_s: high,
            events: 12,
            code: Some(2),
            from_s: 0.0,
            to_s: 1.0,
            first_s: None,
        };
        e.rates = Some(vec![rate(1, 0, Some(2e6)), rate(2, 8, None)]);
        let document = every_way(&e, "live", "live_comparison");
        assert_eq!(document["live_lines"][0]["rates"].as_array().map(Vec::len), Some(2));
    }
}
