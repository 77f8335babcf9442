//! The outcome of a check as a view: findings first, then the matrix.

use super::{Build, Outcome, Rule, Status};
use tussle_render::{Cell, Column, Fact, Finding, Level, Node, Tone};

/// Findings, counts and, with several builds, one row per rule with a column per build.
pub fn view(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome]) -> Vec<Node> {
    let mut nodes: Vec<Node> = outcomes
        .iter()
        .filter_map(|o| finding(&rules[o.rule], &builds[o.build], o))
        .map(Node::Finding)
        .collect();
    let count = |f: fn(&Status) -> bool| outcomes.iter().filter(|o| f(&o.status)).count() as u64;
    let fact =
        |key: &str, label: &str, n: u64| Fact { key: key.into(), label: label.into(), cell: Cell::count(n) };
    nodes.push(Node::Facts(vec![
        fact("rules", "rules", rules.len() as u64),
        fact("builds", "builds", builds.len() as u64),
        fact("passed", "hold", count(|s| *s == Status::Pass)),
        fact("failed", "violated", count(|s| matches!(s, Status::Fail { .. }))),
        fact("excluded", "for other builds", count(|s| *s == Status::NotForThis)),
        fact("unknown", "not decidable", count(|s| matches!(s, Status::Unknown(_)))),
    ]));
    nodes.push(matrix(rules, builds, outcomes));
    nodes
}

fn finding(rule: &Rule, build: &Build<'_>, outcome: &Outcome) -> Option<Finding> {
    let Status::Fail { message, at } = &outcome.status else { return None };
    let mut text = format!("{}: {}: {message}", build.name, rule.ty);
    if let Some(reason) = &rule.reason {
        text.push_str(&format!(" ({reason})"));
    }
    Some(Finding {
        rule: rule.demand.key().into(),
        level: Level::Error,
        message: text,
        file: at.as_ref().map(|l| l.file.clone()),
        line: at.as_ref().map(|l| l.line),
    })
}

fn matrix(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome]) -> Node {
    let mut columns = vec![Column::text("rule", "rule")];
    let names = short_names(builds);
    columns.extend(names.iter().map(|n| Column::text(n, n)));
    let rows = rules
        .iter()
        .enumerate()
        .map(|(r, rule)| {
            let mut row = vec![Cell::text(format!("{}: {}", rule.ty, rule.demand.words()))];
            row.extend(outcomes.iter().filter(|o| o.rule == r).map(|o| cell(&o.status)));
            row
        })
        .collect();
    Node::Table { key: "matrix".into(), columns, rows }
}

fn cell(status: &Status) -> Cell {
    match status {
        Status::Pass => Cell::value("pass", "holds").tone(Tone::Good),
        Status::Fail { .. } => Cell::value("fail", "VIOLATED").tone(Tone::Bad),
        Status::NotForThis => Cell::value("excluded", "-").tone(Tone::Dim),
        Status::Unknown(_) => Cell::value("unknown", "unknown").tone(Tone::Warn),
    }
}

/// File names without their folders, whole where that would not tell them apart.
fn short_names(builds: &[Build<'_>]) -> Vec<String> {
    let base = |b: &Build<'_>| b.name.rsplit('/').next().unwrap_or(&b.name).to_string();
    let short: Vec<String> = builds.iter().map(base).collect();
    let unique = short.iter().collect::<std::collections::HashSet<_>>().len() == short.len();
    if unique { short } else { builds.iter().map(|b| b.name.clone()).collect() }
}
