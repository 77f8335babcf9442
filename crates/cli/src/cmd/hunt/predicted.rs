//! What a patch is predicted to bring on this machine, said before it is measured.

use super::gate::Repairs;
use crate::cmd::predict::{here, moved};
use crate::global::Global;
use anyhow::bail;
use std::io::Write;
use tussle_bench::Paired;
use tussle_evidence::Evidence;
use tussle_host::bench::Command;
use tussle_render::{Node, Span};
use tussle_scenarios::Side;
use tussle_scenarios::recorded::Recording;
use tussle_scenarios::recorded::measured::Replayed;
use tussle_scenarios::view::percent;

/// Predictions kept.
const BYTES_MAX: u64 = 1 << 20;

/// Replays the recorded operations in the layout of the one patch that was made; `native` is the program as it was.
pub fn predict(
    evidence: &Evidence,
    repairs: &Repairs,
    native: Command,
    global: &Global,
) -> anyhow::Result<Replayed> {
    let [repair] = repairs.list.as_slice() else {
        bail!("what several patches bring together is not predicted")
    };
    let recording = Recording::new(evidence)?;
    let after = moved(&repair.advice.type_name, &repair.advice.edits, &recording, evidence)?;
    let before = Side::Name("recorded".into());
    let question = here::ToReplay { recording: &recording, evidence, sides: (&before, &after), seed: 1 };
    here::replayed(&question, Some(native), global)
}

/// For the screen.
pub fn node(answer: &Replayed) -> Node {
    let (low, median, high) = (percent(answer.low), percent(answer.median), percent(answer.high));
    let text = match answer.void() {
        Some(why) => format!("Cannot say: {why}. Replayed were {low} to {high} of throughput."),
        None => format!(
            "{low} to {high} of throughput (90%), median {median}: the recorded operations, replayed in both layouts \
             before anything was measured. Validated with two threads (docs/validation.md)."
        ),
    };
    Node::Section {
        key: "predicted".into(),
        title: "Predicted for this machine".into(),
        nodes: vec![
            Node::Text(vec![Span::plain(text)]),
            Node::Data {
                key: "effect".into(),
                value: serde_json::json!({"low": answer.low, "median": answer.median, "high": answer.high}),
            },
        ],
    }
}

/// A prediction beside what was measured then, as one line. Effects are after/before - 1 of throughput. What is void
/// is no prediction.
pub fn line(command: &str, answer: &Replayed, measured: &Paired) -> Option<String> {
    let v = tussle_bench::verdict(measured).filter(|_| answer.void().is_none())?;
    let effect = |ratio: Option<f64>| ratio.map(|r| 1.0 / r - 1.0);
    let line = serde_json::json!({
        "command": command,
        "predicted": {"low": answer.low, "median": answer.median, "high": answer.high},
        "measured": {"low": effect(v.ratio.high), "median": effect(Some(v.ratio.ratio)), "high": effect(v.ratio.low)},
    });
    Some(line.to_string())
}

/// Keeps such a line in `predictions.jsonl` of the cache: every hunt is a test of the predictor.
pub fn keep(command: &str, answer: &Replayed, measured: &Paired) {
    let Some(line) = line(command, answer, measured) else { return };
    let folder = tussle_host::cache::folder();
    let file = folder.join("predictions.jsonl");
    if std::fs::metadata(&file).is_ok_and(|m| m.len() > BYTES_MAX) {
        return;
    }
    // A hunt does not fail for want of a diary.
    let _ = std::fs::create_dir_all(&folder);
    let open = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    let _ = open.and_then(|mut f| writeln!(f, "{line}"));
}
