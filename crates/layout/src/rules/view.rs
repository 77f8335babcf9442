//! The outcome of a check as a view: findings first, then the matrix.

use super::known::{Baseline, waiver};
use super::{Build, Outcome, Rule, Severity, Status, Violation, Waiver};
use serde::Serialize;
use serde_json::json;
use tussle_render::{Cell, Column, Fact, Finding, Level, Node, Tone};

/// What a check is held against.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Violations that are no news.
    pub known: Baseline,
    /// From the rule files.
    pub waivers: Vec<Waiver>,
    /// `2027-01-31`.
    pub today: String,
    /// What is not decided fails.
    pub strict: bool,
}

/// What became of the violations of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Cells that could not be judged.
    pub errors: u64,
    /// Violations of severity `error` that nothing excuses, and with `strict` cells that are not decided.
    pub fatal: u64,
    /// Violations that a baseline or an older build has too.
    pub known: u64,
    /// Violations that a waiver lets go.
    pub waived: u64,
}

/// How one rule fared in one build, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The rule's id, or what it demands.
    pub rule: String,
    /// The type that the rule is about.
    #[serde(rename = "type")]
    pub ty: String,
    /// Name of the build.
    pub build: String,
    /// `holds`, `violated`, `not applicable`, `unknown`, `error`.
    pub status: &'static str,
    /// What is wrong or unknown, whatever excuses it.
    pub message: Option<String>,
}

/// All outcomes, one by one.
pub fn told(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome]) -> Vec<Told> {
    let one = |o: &Outcome| {
        let (status, message) = match &o.status {
            Status::Pass => ("holds", None),
            Status::Fail(v) => {
                let all: Vec<&str> = v.iter().map(|v| v.message.as_str()).collect();
                ("violated", Some(all.join("; ")))
            }
            Status::NotForThis => ("not applicable", None),
            Status::Unknown(what) => ("unknown", Some(what.clone())),
            Status::Error(what) => ("error", Some(what.clone())),
        };
        let rule = &rules[o.rule];
        let build = builds[o.build].name.clone();
        Told { rule: rule.name().into(), ty: rule.ty.clone(), build, status, message }
    };
    outcomes.iter().map(one).collect()
}

/// Findings, counts and one row per rule with a column per build.
pub fn view(
    rules: &[Rule],
    builds: &[Build<'_>],
    outcomes: &[Outcome],
    context: &Context,
) -> (Vec<Node>, Verdict) {
    let mut verdict = Verdict::default();
    let mut nodes = Vec::new();
    for o in outcomes {
        nodes.extend(findings(&rules[o.rule], &builds[o.build], o, context, &mut verdict));
    }
    let count = |f: fn(&Status) -> bool| outcomes.iter().filter(|o| f(&o.status)).count() as u64;
    let fact =
        |key: &str, label: &str, n: u64| Fact { key: key.into(), label: label.into(), cell: Cell::count(n) };
    nodes.push(Node::Facts(vec![
        fact("rules", "rules", rules.len() as u64),
        fact("builds", "builds", builds.len() as u64),
        fact("passed", "hold", count(|s| *s == Status::Pass)),
        fact("failed", "violated", count(|s| matches!(s, Status::Fail(_)))),
        fact("excluded", "not applicable", count(|s| *s == Status::NotForThis)),
        fact("unknown", "not decidable", count(|s| matches!(s, Status::Unknown(_)))),
        fact("errors", "errors", verdict.errors),
        fact("known", "violations known before", verdict.known),
        fact("waived", "violations waived", verdict.waived),
    ]));
    nodes.push(undecided(rules, builds, outcomes));
    nodes.push(Node::Data { key: "outcomes".into(), value: json!(told(rules, builds, outcomes)) });
    nodes.push(matrix(rules, builds, outcomes));
    (nodes, verdict)
}

/// For programs what people are told on stderr: which cells are not decided, and why.
fn undecided(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome]) -> Node {
    let one = |o: &Outcome| match &o.status {
        Status::Unknown(why) => {
            let rule = &rules[o.rule];
            Some(json!({"rule": rule.name(), "type": rule.ty, "build": builds[o.build].name, "why": why}))
        }
        _ => None,
    };
    Node::Data { key: "undecided".into(), value: outcomes.iter().filter_map(one).collect() }
}

fn findings(
    rule: &Rule,
    build: &Build<'_>,
    outcome: &Outcome,
    context: &Context,
    verdict: &mut Verdict,
) -> Vec<Node> {
    match &outcome.status {
        Status::Fail(violations) => violations
            .iter()
            .filter_map(|v| violation(rule, build, v, context, verdict))
            .map(Node::Finding)
            .collect(),
        Status::Error(what) => {
            verdict.errors += 1;
            vec![Node::Finding(plain(rule, build, Level::Error, format!("cannot be checked: {what}")))]
        }
        Status::Unknown(what) if context.strict => {
            verdict.fatal += 1;
            vec![Node::Finding(plain(rule, build, Level::Error, format!("not decided: {what}")))]
        }
        _ => Vec::new(),
    }
}

/// The build is the place of what has no source line: code hosts refuse findings without a place.
fn plain(rule: &Rule, build: &Build<'_>, level: Level, what: String) -> Finding {
    let message = format!("{}: {}: {what}", build.name, rule.ty);
    let file = Some(build.name.clone());
    Finding { rule: rule.name().into(), level, message, help: rule.help.clone(), file, ..Finding::default() }
}

/// A violation that is no news is counted and not told again.
fn violation(
    rule: &Rule,
    build: &Build<'_>,
    v: &Violation,
    context: &Context,
    verdict: &mut Verdict,
) -> Option<Finding> {
    if context.known.has(v) {
        verdict.known += 1;
        return None;
    }
    let mut finding = plain(rule, build, level(rule.severity), v.message.clone());
    if let Some(w) = waiver(&context.waivers, rule, &context.today) {
        verdict.waived += 1;
        finding.level = Level::Note;
        finding.message.push_str(&format!(" (waived until {}: {})", w.until, w.reason));
    } else {
        verdict.fatal += u64::from(rule.severity == Severity::Error);
        if let Some(reason) = &rule.reason {
            finding.message.push_str(&format!(" ({reason})"));
        }
    }
    // BTF keeps no source lines
    if let Some(at) = &v.at {
        (finding.file, finding.line) = (Some(at.file.clone()), Some(at.line));
    }
    finding.fingerprint = Some(v.fingerprint.clone());
    Some(finding)
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Note => Level::Note,
    }
}

fn matrix(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome]) -> Node {
    let mut columns = vec![Column::text("rule", "rule")];
    let names = short_names(builds);
    columns.extend(names.iter().map(|n| Column::text(n, n)));
    let rows = rules
        .iter()
        .enumerate()
        .map(|(r, rule)| {
            let id = rule.id.as_deref().map(|id| format!("{id}: ")).unwrap_or_default();
            let mut row = vec![Cell::text(format!("{id}{}: {}", rule.ty, rule.demand.words()))];
            row.extend(outcomes.iter().filter(|o| o.rule == r).map(|o| cell(&o.status)));
            row
        })
        .collect();
    Node::Table { key: "matrix".into(), columns, rows }
}

fn cell(status: &Status) -> Cell {
    match status {
        Status::Pass => Cell::value("pass", "holds").tone(Tone::Good),
        Status::Fail(_) => Cell::value("fail", "VIOLATED").tone(Tone::Bad),
        Status::NotForThis => Cell::value("excluded", "not applicable").tone(Tone::Dim),
        Status::Unknown(_) => Cell::value("unknown", "unknown").tone(Tone::Warn),
        Status::Error(_) => Cell::value(json!("error"), "ERROR").tone(Tone::Bad),
    }
}

/// File names without their folders, whole where that would not tell them apart.
fn short_names(builds: &[Build<'_>]) -> Vec<String> {
    let base = |b: &Build<'_>| b.name.rsplit('/').next().unwrap_or(&b.name).to_string();
    let short: Vec<String> = builds.iter().map(base).collect();
    let unique = short.iter().collect::<std::collections::HashSet<_>>().len() == short.len();
    if unique { short } else { builds.iter().map(|b| b.name.clone()).collect() }
}
