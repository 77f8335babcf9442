//! Files of major version 1 stay readable for ever, and say in this version's tables what they said in theirs.
//!
//! `version_1/recorder.jsonl` was recorded by tussle 0.1.0; the other two are the same run with the `samples` that
//! `record-kernel` and `import` wrote at that time.

use tussle_evidence::{Basis, Evidence, OperationKind, Role, TouchKind, Unit, file};
use tussle_render::{Format, Style, render};
use tussle_report::{Options, report};

fn read(text: &str) -> Evidence {
    let (e, problems) = file::read(text.as_bytes()).expect("evidence");
    assert_eq!(problems, []);
    e
}

fn recorder() -> Evidence {
    read(include_str!("version_1/recorder.jsonl"))
}

fn kernel() -> Evidence {
    read(include_str!("version_1/kernel_recorder.jsonl"))
}

fn perf() -> Evidence {
    read(include_str!("version_1/perf.jsonl"))
}

fn shown(e: &Evidence, format: Format) -> String {
    render(&report(e, &[], &Options::default()).view, format, Style::default())
}

#[test]
fn the_report_is_the_same_in_every_form() {
    for e in [recorder(), kernel(), perf()] {
        let (mut packed, mut text) = (Vec::new(), Vec::new());
        file::write(&e, &mut packed).unwrap();
        file::write_jsonl(&e, &mut text).unwrap();
        for bytes in [packed, text] {
            let (back, problems) = file::read(&bytes).expect("evidence");
            assert_eq!(problems, []);
            assert_eq!(format!("{back:?}"), format!("{e:?}"));
            assert_eq!(shown(&back, Format::Json), shown(&e, Format::Json));
        }
    }
}

#[test]
fn recorded_accesses_are_there() {
    let e = recorder();
    assert_eq!((e.accesses.len(), e.objects.len(), e.run.unit), (4, 1, Unit::Accesses));
    assert_eq!(e.objects[0].basis, Some(Basis::Sizeof));
    assert!(e.operations.iter().flatten().all(|o| o.kind == Some(OperationKind::Section)));
    assert!(e.transfers.is_none() && e.samples.is_none());
    assert!(shown(&e, Format::Text).contains("struct stats.hits"));
}

#[test]
fn modelled_transfers_are_no_samples_any_more() {
    let e = kernel();
    assert!(e.samples.is_none());
    let transfers = e.transfers.as_deref().unwrap_or_default();
    let seen: Vec<_> = transfers.iter().map(|t| (t.kind, t.transfers, t.dirty)).collect();
    assert_eq!(seen, [(TouchKind::Write, 70, 50), (TouchKind::Read, 30, 10)]);
    assert_eq!(
        e.touches.last().map(|t| (t.role, t.field.as_deref())),
        Some((Some(Role::FreelistWord), None))
    );
    let text = shown(&e, Format::Text);
    assert!(text.contains("100 transfers") && text.contains("struct stats.misses (freelist word)"), "{text}");
}

#[test]
fn samples_of_a_pmu_stay_samples() {
    let e = perf();
    assert_eq!((e.run.unit, e.samples.as_ref().map(Vec::len)), (Unit::HitmSamples, Some(2)));
    assert!(e.transfers.is_none());
    assert!(shown(&e, Format::Text).contains("53 HITM samples"));
}

/// What nobody sampled is not called by words of those who sample.
#[test]
fn no_word_of_a_pmu_without_samples() {
    for e in [recorder(), kernel()] {
        for format in [Format::Text, Format::Json, Format::Markdown] {
            let text = shown(&e, format);
            for word in ["HITM", "hitm", "PMU", "perf", "peer", "sampled"] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }
}
