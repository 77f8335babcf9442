//! The tables of mmtests' `compare-kernels.sh`, byte for byte, as two eras of it printed them.
//!
//! Two kinds of arithmetic stand behind the same look. In 2022 a row was starred when the pooled t test on the
//! printed mean
//! (harmonic or arithmetic) and the *arithmetic* standard deviation had p < 0.10. The middle period printed the
//! deviation
//! around the harmonic mean and starred differences above 1.96 times the sum of both. Both computed the test in R;
//! without
//! R installed every row was starred.

use std::fmt::Write;

use tussle_stats::summary::{
    best_percent, coeff_var_percent, harmonic_coeff_var_percent, harmonic_mean, harmonic_std_dev, mean,
    std_dev,
};
use tussle_stats::welch;

/// Which arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// `mmtests:2022`.
    Of2022,
    /// `mmtests:mid`.
    Middle,
}

/// A style as named on the command line: `mmtests:2022[:no-r][:significance|:ratio]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Arithmetic.
    pub era: Era,
    /// As a machine without R printed it: every row starred.
    pub without_r: bool,
    /// `Significant` rows at the end.
    pub significance: bool,
    /// The table of ratios instead.
    pub ratio: bool,
}

impl Style {
    /// Reads the part after `mmtests`; empty means 2022.
    pub fn parse(text: &str) -> Option<Style> {
        let mut style = Style { era: Era::Of2022, without_r: false, significance: false, ratio: false };
        for word in text.split(':').filter(|w| !w.is_empty()) {
            match word {
                "2022" => style.era = Era::Of2022,
                "mid" => style.era = Era::Middle,
                "no-r" => style.without_r = true,
                "significance" => style.significance = true,
                "ratio" => style.ratio = true,
                _ => return None,
            }
        }
        Some(style)
    }
}

/// One operation measured several times under both kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// `faults/cpu-1`.
    pub name: String,
    /// Samples of the reference.
    pub old: Vec<f64>,
    /// Samples of the candidate.
    pub new: Vec<f64>,
}

/// What a table shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Two heading lines per column: kernel, name.
    pub titles: [[String; 2]; 2],
    /// Throughput (harmonic means, higher is better) or time (arithmetic means, lower is better).
    pub higher_is_better: bool,
    /// Rows in the order printed.
    pub operations: Vec<Operation>,
}

/// What the rule of an era says about one operation.
struct Judgement {
    /// `Significant` column: the p-value or the effect.
    figure: f64,
    starred: bool,
    /// Difference in units of the era's deviation, for the table of ratios.
    effect: f64,
}

/// The table. `None` when an operation lacks two positive finite values a side.
pub fn table(c: &Comparison, style: Style) -> Option<String> {
    if style.ratio { ratio_table(c, style) } else { main_table(c, style) }
}

fn mean_of(c: &Comparison, xs: &[f64]) -> Option<f64> {
    if c.higher_is_better { harmonic_mean(xs) } else { mean(xs) }
}

fn deviation(c: &Comparison, era: Era, xs: &[f64]) -> Option<f64> {
    if era == Era::Middle && c.higher_is_better { harmonic_std_dev(xs) } else { std_dev(xs) }
}

fn judge(c: &Comparison, style: Style, op: &Operation) -> Option<Judgement> {
    let (old, new) = (mean_of(c, &op.old)?, mean_of(c, &op.new)?);
    let (sd_old, sd_new) = (std_dev(&op.old)?, std_dev(&op.new)?);
    Some(match style.era {
        Era::Of2022 => {
            let (n, m) = (op.old.len(), op.new.len());
            let p = welch::from_summaries((old, sd_old, n), (new, sd_new, m), true)?.p;
            let both = ((sd_old * sd_old + sd_new * sd_new) / 2.0).sqrt();
            let figure = if style.without_r { 0.0 } else { 100.0 * p };
            Judgement { figure, starred: style.without_r || p < 0.10, effect: (new - old) / both }
        }
        Era::Middle => {
            let sum = deviation(c, style.era, &op.old)? + deviation(c, style.era, &op.new)?;
            let width = if style.without_r { 1.0 } else { 1.96 * sum };
            let effect = (new - old) / width;
            Judgement { figure: -effect, starred: effect.abs() > 1.0, effect }
        }
    })
}

/// A figure computed from samples.
type Figure = Box<dyn Fn(&[f64]) -> Option<f64>>;

/// Rows of the main table: label, whether higher is better, the statistic.
type Statistic = (&'static str, bool, Figure);

fn statistics(c: &Comparison, era: Era) -> Vec<Statistic> {
    let higher = c.higher_is_better;
    let best = move |percent: usize| -> Figure {
        Box::new(move |xs| {
            let best = best_percent(xs, percent, higher)?;
            if higher { harmonic_mean(&best) } else { mean(&best) }
        })
    };
    let extreme =
        |pick: fn(f64, f64) -> f64| -> Figure { Box::new(move |xs| xs.iter().copied().reduce(pick)) };
    let mut out: Vec<Statistic> = vec![("Min", higher, extreme(f64::min))];
    match (higher, era) {
        (true, Era::Of2022) => {
            out.push(("Hmean", true, Box::new(harmonic_mean)));
            out.push(("Stddev", false, Box::new(std_dev)));
            out.push(("CoeffVar", false, Box::new(coeff_var_percent)));
        }
        (true, Era::Middle) => {
            out.push(("Hmean", true, Box::new(harmonic_mean)));
            out.push(("HStddev", false, Box::new(harmonic_std_dev)));
            out.push(("HCoeffVar", false, Box::new(harmonic_coeff_var_percent)));
        }
        (false, _) => {
            out.push(("Amean", false, Box::new(mean)));
            out.push(("Stddev", false, Box::new(std_dev)));
            out.push(("CoeffVar", false, Box::new(coeff_var_percent)));
        }
    }
    out.push(("Max", higher, extreme(f64::max)));
    let names = if higher {
        ["BHmean-50", "BHmean-95", "BHmean-99"]
    } else {
        ["BAmean-50", "BAmean-95", "BAmean-99"]
    };
    out.extend(names.into_iter().zip([50, 95, 99]).map(|(name, percent)| (name, higher, best(percent))));
    out
}

fn name_width(c: &Comparison) -> usize {
    c.operations.iter().map(|o| o.name.chars().count()).max().unwrap_or(0)
}

/// Two heading lines; the first column ends at `first`, the next 25 further.
fn headings(c: &Comparison, first: usize) -> String {
    let line = |i: usize| format!("{:>first$}{:>25}\n", c.titles[0][i], c.titles[1][i]);
    line(0) + &line(1)
}

fn main_table(c: &Comparison, style: Style) -> Option<String> {
    let width = name_width(c);
    let mut out = headings(c, 10 + width + 25);
    for (label, higher, statistic) in statistics(c, style.era) {
        for op in &c.operations {
            let (old, new) = (statistic(&op.old)?, statistic(&op.new)?);
            let change = 100.0 * if higher { new - old } else { old - new } / old;
            let is_mean = label == "Hmean" || label == "Amean";
            let starred = is_mean && judge(c, style, op)?.starred;
            let (open, close) = if starred { ('*', '*') } else { ('(', ')') };
            let name = &op.name;
            let _ = writeln!(
                out,
                "{label:<9} {name:<width$}{old:14.4} ({:7.2}%){new:14.4} {open}{change:7.2}%{close}",
                0.0
            );
        }
    }
    if style.significance {
        for op in &c.operations {
            let j = judge(c, style, op)?;
            let (name, flag) = (&op.name, f64::from(u8::from(j.starred)));
            let _ = writeln!(
                out,
                "Significant {name:<width$}{:14.4} ({:7.2}%){flag:14.4} ({:7.2}%){:14}",
                0.0,
                0.0,
                // The middle era printed its effect as it was, p-values are percentages already.
                j.figure,
                ""
            );
        }
    }
    Some(out)
}

fn ratio_table(c: &Comparison, style: Style) -> Option<String> {
    let width = name_width(c);
    let mut out = headings(c, 6 + width + 25);
    let (mut effects, mut logs) = (Vec::new(), 0.0);
    for op in &c.operations {
        let effect = judge(c, style, op)?.effect;
        let ratio = mean_of(c, &op.new)? / mean_of(c, &op.old)?;
        let name = &op.name;
        let change = percent_two_digits(ratio);
        let _ = writeln!(
            out,
            "Ratio {name:<width$}{:14.4} (0.00%) (+0.00s){ratio:14.4} ({change}%) ({effect:+.2}s)",
            1.0
        );
        effects.push(effect);
        logs += ratio.ln();
    }
    let side = if c.higher_is_better { "Higher" } else { "Lower" };
    let lowest = effects.iter().copied().reduce(f64::min)?;
    let highest = effects.iter().copied().reduce(f64::max)?;
    let geometric = (logs / effects.len() as f64).exp();
    for (label, old, new) in [
        ("Dmean", 0.0, mean(&effects)?),
        ("Dmin ", 0.0, lowest),
        ("Dmax ", 0.0, highest),
        ("Gmean", 1.0, geometric),
    ] {
        let _ = writeln!(out, "{label} {side:<width$}{old:14.4}{:17}{new:14.4}{:17}", "", "");
    }
    Some(out)
}

/// `-0.08` of a ratio of 0.9992; never `-0.00`.
fn percent_two_digits(ratio: f64) -> String {
    let text = format!("{:.2}", 100.0 * (ratio - 1.0));
    if text == "-0.00" { "0.00".into() } else { text }
}
