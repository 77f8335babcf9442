//! Doubts as findings.

use super::{Doubt, Found};
use tussle_render::{Cell, Fact, Finding, Level, Node};

/// One finding per doubt, and how many types were looked at.
pub fn view(found: &Found) -> Vec<Node> {
    let mut nodes: Vec<Node> = found.doubts.iter().map(|d| Node::Finding(finding(d))).collect();
    let fact = |key: &str, label: &str, n: usize| Fact {
        key: key.into(),
        label: label.into(),
        cell: Cell::count(n as u64),
    };
    nodes.push(Node::Facts(vec![
        fact("types", "types looked at", found.types as usize),
        fact("doubts", "doubts", found.doubts.len()),
    ]));
    nodes
}

fn finding(doubt: &Doubt) -> Finding {
    Finding {
        rule: doubt.rule.key().into(),
        level: Level::Warning,
        message: format!("{}: {}", doubt.ty, doubt.what),
        file: doubt.at.as_ref().map(|l| l.file.clone()),
        line: doubt.at.as_ref().map(|l| l.line),
        help: Some(doubt.rule.help().into()),
        fingerprint: Some(format!("{}/{}", doubt.rule.key(), doubt.ty)),
    }
}
