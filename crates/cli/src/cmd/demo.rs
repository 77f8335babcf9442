//! `tussle demo`.

use crate::global::Global;
use std::process::ExitCode;
use std::time::Duration;
use tussle_host::demo::{DISTANCES_BYTES, Speed, measure};
use tussle_render::{Axis, Cell, Curve, Dot, Draw, Fact, Node, Plot, Scale, Span, Tone, View};

/// Show what false sharing costs here, with two threads and two counters.
///
/// Each thread adds to a counter of its own and never looks at the other's. Only the distance of the two counters
/// changes. It takes about ten seconds and writes nothing.
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each distance.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(3..=1000))]
    rounds: u16,
}

/// What the numbers are.
const MEASURED: &str =
    "Measured here, both threads together: medians, with the slowest and the fastest run of each distance.";

/// How long one run counts.
const RUN: Duration = Duration::from_millis(150);

/// A difference below this is not worth a claim: threads of one core share its caches, and noise does as much.
const RATIO_MIN: f64 = 1.2;

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let total_s = f64::from(args.rounds) * DISTANCES_BYTES.len() as f64 * RUN.as_secs_f64();
    let mut tell = |share: f64| global.draw(format_args!("demo: {:.0} s left", total_s * (1.0 - share)));
    let runs = measure(args.rounds.into(), RUN, &mut tell)?;
    global.erase();
    global.print(&view(&runs))?;
    Ok(ExitCode::SUCCESS)
}

/// Median, least and most of one distance.
struct Seen {
    distance_bytes: usize,
    median: f64,
    least: f64,
    most: f64,
}

fn seen(runs: &[Speed]) -> Vec<Seen> {
    let of = |distance_bytes: usize| {
        let mut rates: Vec<f64> =
            runs.iter().filter(|r| r.distance_bytes == distance_bytes).map(|r| r.additions_per_s).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let at = |i: usize| rates.get(i).copied().unwrap_or(0.0);
        Seen {
            distance_bytes,
            median: at(rates.len() / 2),
            least: at(0),
            most: at(rates.len().saturating_sub(1)),
        }
    };
    DISTANCES_BYTES.map(of).into()
}

fn view(runs: &[Speed]) -> View {
    let all = seen(runs);
    let best = |far: bool| {
        let of = all.iter().filter(|s| (s.distance_bytes >= 128) == far && (far || s.distance_bytes < 64));
        of.map(|s| s.median).fold(0.0, f64::max)
    };
    let (near, far) = (best(false), best(true));
    let ratio = far / near.max(f64::MIN_POSITIVE);
    let text = |s: String| Node::Text(vec![Span { text: s, tone: Tone::Plain }]);
    let verdict = match ratio >= RATIO_MIN {
        true => format!(
            "{ratio:.1} times as fast apart as side by side. Neither thread ever reads or writes the other's counter: \
             they fight for the line of memory that holds both."
        ),
        false => "No difference that could be told from noise. The two CPUs may be one core's, which share its caches; \
                  or the machine is busy."
            .into(),
    };
    let millions = |r: f64| format!("{:.1} million additions/s", r / 1e6);
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let nodes = vec![
        Node::Text(vec![Span { text: verdict, tone: Tone::Strong }]),
        Node::Facts(vec![
            fact("side_by_side_per_s", "in one line", Cell::number(near, millions(near))),
            fact("apart_per_s", "128 bytes apart or more", Cell::number(far, millions(far))),
            fact("ratio", "", Cell::number(ratio, "")),
        ]),
        Node::Plot(plot(&all)),
        text(MEASURED.into()),
        text(
            "`tussle hunt DIR` looks for such counters in a program; `tussle help false-sharing` says more."
                .into(),
        ),
    ];
    View { kind: "demo", schema_version: 1, nodes }
}

fn plot(all: &[Seen]) -> Plot {
    let dot = |s: &Seen| Dot {
        x: s.distance_bytes as f64,
        y: s.median / 1e6,
        interval: Some((s.least / 1e6, s.most / 1e6)),
        label: format!("{} bytes", s.distance_bytes),
    };
    let points = all.iter().map(dot).collect();
    Plot {
        key: "plot".into(),
        title: "million additions/s by the distance of the two counters".into(),
        x: Axis { label: "bytes between the counters".into(), scale: Scale::Log2, ..Axis::default() },
        y: Axis { label: "million additions/s".into(), from_zero: true, ..Axis::default() },
        series: vec![Curve { name: "measured".into(), draw: Draw::Points, points }],
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(near: f64, far: f64) -> String {
        let rate = |d: usize| if d < 64 { near } else { far };
        let one = |d: usize| Speed { distance_bytes: d, additions_per_s: rate(d) };
        let runs: Vec<Speed> = DISTANCES_BYTES.iter().flat_map(|d| [one(*d); 3]).collect();
        tussle_render::render(&view(&runs), tussle_render::Format::Text, tussle_render::Style::default())
    }

    #[test]
    fn a_claim_needs_a_difference() {
        assert!(shown(20e6, 200e6).starts_with("10.0 times as fast apart"));
        assert!(shown(190e6, 200e6).starts_with("No difference"));
        assert!(shown(200e6, 20e6).starts_with("No difference"));
    }
}
