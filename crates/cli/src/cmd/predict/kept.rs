//! `tussle predict --kept`: what hunts predicted beside what they measured.

use crate::global::Global;
use anyhow::bail;
use serde::Deserialize;
use tussle_render::{Cell, Column, Node, Span, Tone, View};
use tussle_scenarios::view::percent;

/// An effect: after/before - 1 of throughput.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Effect {
    low: Option<f64>,
    median: Option<f64>,
    high: Option<f64>,
}

impl Effect {
    fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    fn cell(&self) -> Cell {
        let Some(median) = self.median else { return Cell::unknown() };
        let ends = self.ends().map(|(low, high)| format!("{} to {}, median ", percent(low), percent(high)));
        let text = format!("{}{}", ends.unwrap_or_default(), percent(median));
        Cell::value(serde_json::json!({"low": self.low, "median": median, "high": self.high}), text)
    }
}

/// One line of the diary.
#[derive(Debug, Deserialize)]
struct Kept {
    command: String,
    predicted: Effect,
    measured: Effect,
}

impl Kept {
    /// The measured median lies in the predicted interval; `None` where either is missing.
    fn hit(&self) -> Option<bool> {
        let ((low, high), median) = self.predicted.ends().zip(self.measured.median)?;
        Some((low..=high).contains(&median))
    }
}

/// Lines that are none of ours are left out.
fn parse(text: &str) -> Vec<Kept> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Prints the diary.
pub fn print(global: &Global) -> anyhow::Result<()> {
    let file = tussle_host::cache::folder().join("predictions.jsonl");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let all = parse(&text);
    if all.is_empty() {
        bail!(
            "{}: no predictions kept yet; every `tussle hunt` that measures its patch keeps one",
            file.display()
        );
    }
    global.print(&view(&all))
}

/// Prints one line of it, of a loop that has just been closed.
pub fn print_line(line: &str, global: &Global) -> anyhow::Result<()> {
    global.print(&view(&parse(line)))
}

fn view(all: &[Kept]) -> View {
    let hits: Vec<bool> = all.iter().filter_map(Kept::hit).collect();
    let inside = hits.iter().filter(|h| **h).count();
    let zero = all.iter().filter(|k| k.predicted.ends().is_some_and(|(l, h)| l <= 0.0 && h >= 0.0)).count();
    let text = format!(
        "{inside} of {} predicted intervals (90%) held what was measured; {zero} of {} held no effect at all, too.",
        hits.len(),
        all.len()
    );
    let row = |k: &Kept| {
        let word = k.hit().map_or("unknown", |h| if h { "inside" } else { "outside" });
        let tone = if k.hit() == Some(false) { Tone::Warn } else { Tone::Plain };
        let cells = [Cell::text(k.command.clone()), k.predicted.cell(), k.measured.cell()];
        cells.into_iter().chain([Cell::value(k.hit(), word).tone(tone)]).collect()
    };
    let columns = vec![
        Column::text("command", "Command"),
        Column::text("predicted", "Predicted before (90%)"),
        Column::text("measured", "Measured then (95%)"),
        Column::text("inside", "Measured median"),
    ];
    let table = Node::Table { key: "predictions".into(), columns, rows: all.iter().map(row).collect() };
    let data = |key: &str, n: usize| Node::Data { key: key.into(), value: n.into() };
    let nodes =
        vec![Node::Text(vec![Span::plain(text)]), data("inside", inside), data("judged", hits.len()), table];
    View { kind: "predictions", schema_version: 1, nodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_judged() {
        let line = |measured: &str| {
            format!(
                "{{\"command\":\"./a\",\"predicted\":{{\"low\":0.1,\"median\":0.2,\"high\":0.3}},\
                 \"measured\":{{\"low\":null,\"median\":{measured},\"high\":null}}}}\n"
            )
        };
        let all = parse(&[line("0.15"), line("0.5"), "rubbish\n".into(), line("null")].concat());
        assert_eq!(all.iter().map(Kept::hit).collect::<Vec<_>>(), [Some(true), Some(false), None]);
        let text =
            tussle_render::render(&view(&all), tussle_render::Format::Text, tussle_render::Style::default());
        assert!(text.starts_with("1 of 2 predicted intervals"), "{text}");
    }
}
