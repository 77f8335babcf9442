//! Two evidences side by side.

use crate::{Options, Outcome, Report, SCHEMA_VERSION, invalidations, names, outcome, wanted};
use std::collections::BTreeMap;
use tussle_advise::class::{self, Class};
use tussle_contention::analysis;
use tussle_contention::fields::Namer;
use tussle_contention::group;
use tussle_evidence::*;
use tussle_render::{Cell, Column, Node, Span, Tone, View, thousands};

/// E of one story in one evidence.
#[derive(Default)]
struct Side {
    e: f64,
    e_even: f64,
    accesses: f64,
    finding: bool,
    /// As the report of this run alone calls it, by its worst group.
    title: String,
    worst: f64,
}

/// Lines of two runs matched by their fields. The outcome is that of the new one. `damage` is what could not be read of
/// either: what is missing there may have been lost with it.
pub fn compare(old: &Evidence, new: &Evidence, damage: [&[Problem]; 2], options: &Options) -> Report {
    let mut report = by_source(old, new, damage.map(<[Problem]>::is_empty), options);
    for (problem, which) in damage.map(<[Problem]>::first).into_iter().zip(["old", "new"]) {
        let Some(problem) = problem else { continue };
        let words =
            format!("The {which} evidence is damaged: {problem}: what is not there may only not be read.");
        report.view.nodes.insert(0, Node::Text(vec![Span { text: words, tone: Tone::Warn }]));
    }
    report.outcome.blind = report.outcome.blind.take().or_else(|| outcome::damaged(damage[1]));
    report
}

/// `whole`: all of the old one, and of the new one, was read.
fn by_source(old: &Evidence, new: &Evidence, whole: [bool; 2], options: &Options) -> Report {
    if old.transfers.is_some() && new.transfers.is_some() {
        return crate::kernel::compare(old, new, options);
    }
    if old.run.unit.by_share() && new.run.unit.by_share() {
        return crate::live::compare(old, new, options);
    }
    if old.samples.is_some() && new.samples.is_some() {
        return crate::pmu::compare(old, new, options);
    }
    let (a, b) = (sides(old, options), sides(new, options));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let most = |n: &String| a.get(n).map_or(0.0, |s| s.e).max(b.get(n).map_or(0.0, |s| s.e));
    names.sort_by(|x, y| most(y).partial_cmp(&most(x)).unwrap_or(std::cmp::Ordering::Equal));
    let row = |n: &&String| row(a.get(*n), b.get(*n), whole);
    let rows = names.iter().map(row).collect();
    let columns = vec![
        Column::number("old_expected_invalidations", "E old"),
        Column::number("new_expected_invalidations", "E new"),
        Column::text("change", "change"),
        Column::number("old_expected_invalidations_even_split", "E even old"),
        Column::number("new_expected_invalidations_even_split", "E even new"),
        Column::text("fields", "fields"),
    ];
    let finding = b.values().any(|s| s.finding);
    let outcome = Outcome { helps: finding, listed: !b.is_empty(), blind: class::blind(new) };
    let mut nodes = vec![Node::Facts(vec![
        crate::fact("finding", "", Cell::value(finding, "")),
        crate::fact("old_command", "old", Cell::text(old.run.command.join(" "))),
        crate::fact("new_command", "new", Cell::text(new.run.command.join(" "))),
    ])];
    nodes.extend(doubts(old, new));
    if names.is_empty() {
        let quiet = Span { text: "No contended line in either run.".into(), tone: Tone::Good };
        nodes.push(Node::Text(vec![quiet]));
    }
    nodes.push(Node::Table { key: "lines".into(), columns, rows });
    Report { view: View { kind: "report_comparison", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

/// All stories with E of at least 1, so that a fixed line shows what is left of it.
fn sides(e: &Evidence, options: &Options) -> BTreeMap<String, Side> {
    let namer = Namer::new(e);
    let seen = analysis::contention(e, &options.question);
    let mut out: BTreeMap<String, Side> = BTreeMap::new();
    for j in class::judge(e, &namer, &seen) {
        let g = j.group;
        if !wanted(e, &namer, &g, &options.names) {
            continue;
        }
        let s = out.entry(fields(&g)).or_default();
        if s.title.is_empty() || g.e.e > s.worst {
            (s.title, s.worst) = (g.title(), g.e.e);
        }
        s.e += g.e.e;
        s.e_even += g.e.e_even;
        s.accesses += g.accesses;
        s.finding |= j.class == Class::LayoutHelps;
    }
    out.retain(|_, s| s.e >= 1.0);
    out
}

/// What two runs are matched by, independent of which pair happens to lead: the two heaviest fields in order of name.
fn fields(g: &group::Group) -> String {
    let mut two: Vec<&str> =
        g.fields.iter().filter(|f| f.weight > 0.0).take(2).map(|f| f.path.as_str()).collect();
    two.sort_unstable();
    two.dedup();
    two.join(" \u{27f7} ")
}

fn row(a: Option<&Side>, b: Option<&Side>, [old_whole, new_whole]: [bool; 2]) -> Vec<Cell> {
    let unknown = || Cell::value("unknown", "unknown").tone(Tone::Warn);
    let e = |s: Option<&Side>| match s {
        Some(s) => invalidations(s.e).tone(if s.finding { Tone::Bad } else { Tone::Plain }),
        None => Cell { text: "none".into(), ..Cell::count(0) }.tone(Tone::Dim),
    };
    let even = |s: Option<&Side>| match s {
        Some(s) => invalidations(s.e_even),
        None => Cell { text: "none".into(), ..Cell::count(0) }.tone(Tone::Dim),
    };
    let change = match (a, b) {
        (None, _) if !old_whole => unknown(),
        (_, None) if !new_whole => unknown(),
        (None, _) => Cell::value("new", "new").tone(Tone::Bad),
        (_, None) => Cell::value("gone", "gone").tone(Tone::Good),
        (Some(a), Some(b)) => {
            let ratio = b.e / a.e;
            let words = match ratio {
                r if (0.99..=1.01).contains(&r) => "same".into(),
                r if r > 1.0 => format!("\u{d7}{r:.2}"),
                r => format!("\u{f7}{}", decimal(1.0 / r)),
            };
            Cell::number(ratio, words)
        }
    };
    let title = b.or(a).map_or("", |s| &s.title);
    vec![e(a), e(b), change, even(a), even(b), Cell::text(title).tone(Tone::Name)]
}

fn decimal(x: f64) -> String {
    if x >= 100.0 { thousands(x.round() as u64) } else { format!("{x:.2}") }
}

/// What forbids comparing the numbers.
fn doubts(old: &Evidence, new: &Evidence) -> Vec<Node> {
    let (a, b) = (&old.run, &new.run);
    let mut out = Vec::new();
    let mut say = |words: String| out.push(Node::Text(vec![Span { text: words, tone: Tone::Warn }]));
    if a.source != b.source || a.unit != b.unit {
        say(format!("The numbers are of different kinds ({} and {}): do not compare them.", a.unit, b.unit));
    }
    if a.window_vt != b.window_vt {
        let (x, y) = (thousands(a.window_vt), thousands(b.window_vt));
        say(format!("The windows differ ({x} and {y} accesses): E depends on them."));
    }
    if a.tool_version != b.tool_version {
        say(format!(
            "Recorded by different versions ({} and {}): absolute E depends on how the recorder merges.",
            a.tool_version, b.tool_version
        ));
    }
    let differ = |x: &Option<String>, y: &Option<String>| x.is_some() && y.is_some() && x != y;
    if differ(&a.input_hash, &b.input_hash) {
        say("The inputs differ (arguments, files that they name, or stdin).".into());
    }
    if let (Some(x), Some(y)) = (&a.compiler, &b.compiler)
        && x != y
    {
        say(format!("Built by different compilers ({x} and {y})."));
    }
    let total = |e: &Evidence| e.accesses.iter().map(|r| (r.reads + r.writes + r.rmws) as f64).sum::<f64>();
    let (x, y) = (total(old), total(new));
    if x > 0.0 && y > 0.0 && !(0.8..=1.25).contains(&(y / x)) {
        let share = names::percent(y / x);
        say(format!(
            "The second run made {share} of the first one's accesses: compare E per access, or repeat."
        ));
    }
    out
}
