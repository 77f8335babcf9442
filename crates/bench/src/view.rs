//! A verdict as a view.

use tussle_render::{Axis, Cell, Column, Curve, Dot, Draw, Fact, Node, Plot, Span, Tone};

use crate::paired::Paired;
use crate::sample::Results;
use crate::verdict::{Criterion, Outcome, Ratio, Verdict, odds, percent};

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

/// The tone of an outcome.
pub fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Regressed => Tone::Bad,
        Outcome::Improved => Tone::Good,
        Outcome::Equivalent => Tone::Strong,
        Outcome::Inconclusive => Tone::Warn,
    }
}

fn ratio_value(ratio: &Ratio) -> serde_json::Value {
    serde_json::json!({ "ratio": ratio.ratio, "low": ratio.low, "high": ratio.high })
}

fn ratio_nodes(key: &str, label: &str, ratio: &Ratio) -> Vec<Fact> {
    vec![fact(key, label, Cell::value(ratio_value(ratio), ratio.text()))]
}

/// The nodes of one comparison: sentence, figures, warnings, the rule.
pub fn nodes(paired: &Paired, v: &Verdict, question: Criterion) -> Vec<Node> {
    let sentence = Span { text: v.wording.clone(), tone: tone(v.outcome) };
    let data = |key: &str, value: serde_json::Value| Node::Data { key: key.into(), value };
    let mut nodes = vec![
        Node::Text(vec![sentence]),
        data("wording", v.wording.clone().into()),
        data("metric", paired.metric.name.clone().into()),
        data("higher_is_better", paired.metric.higher_is_better().into()),
    ];
    nodes.push(arms_table(paired));
    let mut facts = vec![fact("verdict", "verdict", Cell::text(v.outcome.name()).tone(tone(v.outcome)))];
    facts.extend(ratio_nodes("ratio", &paired.metric.name, &v.ratio));
    match &v.per_cpu {
        Some(ratio) => facts.extend(ratio_nodes("work_per_cpu_second", "work per CPU second", ratio)),
        None => facts.push(fact("work_per_cpu_second", "work per CPU second", Cell::unknown())),
    }
    let better = v.better_probability;
    let side = if better >= 0.5 { "better" } else { "worse" };
    facts.push(fact(
        "better_probability",
        "odds",
        Cell::number(better, format!("{} that it is {side}", odds(better))),
    ));
    if let Some(p) = v.p_sign_flip {
        facts.push(fact("p_sign_flip", "p (sign flips)", Cell::number(p, p_text(p))));
    }
    if let Some(p) = v.p_holm {
        facts.push(fact("p_holm", "p (Holm)", Cell::number(p, p_text(p) + ", corrected for all candidates")));
    }
    facts.push(fact("p", "p (paired t)", Cell::number(v.p, p_text(v.p))));
    facts.push(fact("e_value", "e-value", Cell::number(v.e_value, format!("{:.3}", v.e_value))));
    facts.push(fact(
        "std_dev_log",
        "noise of a pair",
        Cell::number(v.std_dev, format!("{:.2}%", v.std_dev * 100.0)),
    ));
    if let Some(effect) = v.detectable {
        let text = format!("{} with 80% probability", percent(effect.exp()));
        facts.push(fact("detectable_log", "detectable effect", Cell::number(effect, text)));
    }
    if let Some(more) = v.more_pairs {
        facts.push(fact("more_pairs", "more pairs needed", Cell::count(more as u64)));
    }
    if let Some(why) = &paired.counters_missing {
        let cell = Cell::text(format!("none: {why}")).tone(Tone::Dim);
        facts.push(fact("counters_missing", "hardware counters", cell));
    }
    if let Some(governor) = &paired.governor {
        facts.push(fact("governor", "frequency governor", Cell::text(governor.clone())));
    }
    if let Some(hint) = &v.hint {
        facts.push(fact("hint", "hint", Cell::text(hint.clone()).tone(Tone::Warn)));
    }
    nodes.push(Node::Facts(facts));
    nodes.extend(counters_table(paired, question));
    nodes.push(warning_list(&v.warnings));
    nodes.push(Node::Facts(vec![fact(
        "rule",
        "rule",
        Cell::text(rule(paired, v, question)).tone(Tone::Dim),
    )]));
    nodes
}

/// What to know in five seconds: the sentence, the hint, what weakens the answer.
pub fn brief(v: &Verdict) -> Vec<Node> {
    let mut nodes = vec![Node::Text(vec![Span { text: v.wording.clone(), tone: tone(v.outcome) }])];
    let mut doubts: Vec<String> = v.hint.iter().cloned().collect();
    doubts.extend(v.warnings.iter().cloned());
    if !doubts.is_empty() {
        nodes.push(warning_list(&doubts));
    }
    nodes
}

/// Every sample in the order of runs, for pages.
pub fn samples_plot(results: &Results) -> Plot {
    let header = &results.header;
    let curve = |(arm, name): (usize, &String)| {
        let runs = results.samples.iter().filter(|s| s.arm == arm && !s.warmup);
        let dot = |s: &crate::Sample| {
            Some(Dot { x: s.position as f64, y: s.value?, interval: None, label: String::new() })
        };
        Curve { name: name.clone(), draw: Draw::Scatter, points: runs.filter_map(dot).collect() }
    };
    let direction = if header.metric.higher_is_better() { "higher is better" } else { "lower is better" };
    Plot {
        key: "samples".into(),
        title: format!("{} of every run ({direction})", header.metric.name),
        x: Axis { label: "run, in order".into(), ..Axis::default() },
        y: Axis { label: header.metric.name.clone(), ..Axis::default() },
        series: header.arms.iter().enumerate().map(curve).collect(),
        marks: Vec::new(),
    }
}

fn warning_list(warnings: &[String]) -> Node {
    let columns = vec![Column::text("warning", "warnings")];
    let rows = warnings.iter().map(|w| vec![Cell::text(w.clone()).tone(Tone::Warn)]).collect();
    Node::Table { key: "warnings".into(), columns, rows }
}

/// Mean, deviation and side figures of both arms.
fn arms_table(paired: &Paired) -> Node {
    let columns = vec![
        Column::text("arm", "arm"),
        Column::number("runs", "runs"),
        Column::number("geometric_mean", &format!("{} (geometric mean)", paired.metric.name)),
        Column::number("coeff_var_percent", "CoeffVar"),
        Column::number("cpu_s", "CPU s"),
        Column::number("foreign_s", "foreign CPU s"),
        Column::number("context_switches", "switches").rank(1),
        Column::number("faults_minor", "minor faults").rank(2),
    ];
    let values = paired.values();
    let rows = (0..2).map(|i| {
        let column = |of: &dyn Fn(&crate::Sample) -> Option<f64>, digits: usize| {
            let all: Option<Vec<f64>> = paired.pairs.iter().map(|p| of(&p[i])).collect();
            let mean = all.and_then(|all| tussle_stats::mean(&all));
            mean.map_or_else(Cell::unknown, |m| Cell::number(m, format!("{m:.digits$}")))
        };
        let number = |x: Option<f64>, text: &dyn Fn(f64) -> String| {
            x.map_or_else(Cell::unknown, |x| Cell::number(x, text(x)))
        };
        let vs = &values[i];
        vec![
            Cell::text(paired.names[i].clone()).tone(Tone::Name),
            Cell::count(vs.len() as u64),
            number(tussle_stats::summary::geometric_mean(vs), &significant),
            number(tussle_stats::summary::coeff_var_percent(vs), &|x| format!("{x:.2}%")),
            column(&|s| s.cpu_s(), 3),
            column(&|s| s.foreign_s, 3),
            column(&|s| s.switches().map(|n| n as f64), 0),
            column(&|s| s.faults_minor.map(|n| n as f64), 0),
        ]
    });
    Node::Table { key: "arms".into(), rows: rows.collect(), columns }
}

/// Counters that every run has, per run, with the change of their ratio where both sides counted something.
fn counters_table(paired: &Paired, question: Criterion) -> Option<Node> {
    let first = &paired.pairs.first()?[0].counters;
    let rows: Vec<Vec<Cell>> =
        first.iter().filter_map(|(name, _)| counter_row(paired, name, question)).collect();
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("counter", "counter (mean of a run)"),
        Column::number("old", &paired.names[0]),
        Column::number("new", &paired.names[1]),
        Column::text("ratio", "change"),
    ];
    Some(Node::Table { key: "counters".into(), columns, rows })
}

fn counter_row(paired: &Paired, name: &str, question: Criterion) -> Option<Vec<Cell>> {
    let side = |i: usize| -> Option<Vec<f64>> {
        paired.pairs.iter().map(|p| Some(p[i].counter(name)? as f64)).collect()
    };
    let (old, new) = (side(0)?, side(1)?);
    let interval = tussle_stats::log_ratios(&old, &new).and_then(|d| {
        Some((tussle_stats::mean(&d)?, crate::verdict::interval(&d, question.confidence, paired.sequential)))
    });
    let change = interval.map_or_else(Cell::unknown, |(mean, interval)| {
        let ratio = Ratio::of(mean, interval);
        Cell::value(ratio_value(&ratio), ratio.text())
    });
    let count =
        |xs: &[f64]| tussle_stats::mean(xs).map_or_else(Cell::unknown, |m| Cell::number(m, significant(m)));
    Some(vec![Cell::text(name).tone(Tone::Name), count(&old), count(&new), change])
}

/// All candidates in one table, where there is more than one.
pub fn overview(all: &[crate::family::Judged]) -> Option<Node> {
    let unknown = |p: Option<f64>| p.map_or_else(Cell::unknown, |p| Cell::number(p, p_text(p)));
    let row = |j: &crate::family::Judged| {
        let v = &j.verdict;
        vec![
            Cell::text(j.paired.names[1].clone()).tone(Tone::Name),
            Cell::value(ratio_value(&v.ratio), v.ratio.text()),
            unknown(v.p_sign_flip),
            unknown(v.p_holm),
            Cell::number(v.e_value, format!("{:.3}", v.e_value)),
            Cell::text(v.outcome.name()).tone(tone(v.outcome)),
        ]
    };
    let first = all.first().filter(|_| all.len() > 1)?;
    let columns = vec![
        Column::text("arm", "candidate"),
        Column::text("ratio", &format!("{} against {}", first.paired.metric.name, first.paired.names[0])),
        Column::number("p_sign_flip", "p (sign flips)"),
        Column::number("p_holm", "p (Holm)"),
        Column::number("e_value", "e-value"),
        Column::text("verdict", "verdict"),
    ];
    Some(Node::Table { key: "overview".into(), columns, rows: all.iter().map(row).collect() })
}

/// `0.0312`, `< 0.0001`.
pub fn p_text(p: f64) -> String {
    if p < 0.000_05 { "< 0.0001".into() } else { format!("{p:.4}") }
}

/// Six significant digits.
pub fn significant(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let digits = (5 - x.abs().max(1e-12).log10().floor() as i32).clamp(0, 9) as usize;
    format!("{x:.digits$}")
}

fn rule(paired: &Paired, v: &Verdict, question: Criterion) -> String {
    let how = if paired.sequential {
        "confidence sequence of a sign-symmetric betting martingale, valid after every pair"
    } else if v.pairs < tussle_stats::permutation::INTERVAL_PAIRS_MIN {
        "Student's t on log ratios of pairs"
    } else {
        "sign flips of log ratios of pairs"
    };
    let level = question.confidence * 100.0;
    let several = if v.p_holm.is_some() { ", Holm's correction for several candidates" } else { "" };
    let margin = question.margin * 100.0;
    // Sessions of the same binaries may give disjoint intervals.
    format!(
        "{how}, {level:.0}%{several}, margin {margin:.2}%, n = {} pairs of this one session \
         (compare --join takes several)",
        v.pairs
    )
}

/// The nodes of an A/A measurement.
pub fn noise_nodes(noise: &crate::aa::NoiseOfMachine) -> Vec<Node> {
    let share = |x: f64| Cell::number(x, format!("{:.1}%", x * 100.0));
    let mut facts = vec![
        fact("pairs", "pairs of the command with itself", Cell::count(noise.pairs as u64)),
        fact(
            "std_dev_log",
            "noise of a pair",
            Cell::number(noise.std_dev, format!("{:.2}%", noise.std_dev * 100.0)),
        ),
        fact("false_positives", "false positives, random order within pairs", share(noise.false_positives)),
    ];
    let blocked = noise.false_positives_blocked.map_or_else(Cell::unknown, share);
    facts.push(fact("false_positives_blocked", "false positives, blocks (not used)", blocked));
    let correlation =
        noise.autocorrelation.map_or_else(Cell::unknown, |r| Cell::number(r, format!("{r:+.2}")));
    facts.push(fact("autocorrelation", "lag-1 autocorrelation of runs", correlation));
    let effect = noise.detectable.map_or_else(Cell::unknown, |e| {
        Cell::number(e, format!("{} with 80% probability", percent(e.exp())))
    });
    facts.push(fact("detectable_log", "detectable effect", effect));
    if noise.different {
        let text = "this measurement called the command different from itself; 1 in 20 does";
        facts.push(fact("different", "remark", Cell::text(text).tone(Tone::Warn)));
    }
    vec![Node::Facts(facts)]
}
