//! Rules out of kernel sources: `CACHELINE_ASSERT_*` lines and the tables of `net_cachelines`.

use super::{Demand, Group, Rule};
use std::collections::BTreeMap;

/// What was found in one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRules {
    /// The rules, members of one group collected in one rule.
    pub rules: Vec<Rule>,
    /// Lines that look like rules and could not be read, 1-based.
    pub unread: Vec<(usize, String)>,
}

/// Reads C source (macro lines) or a reStructuredText table, told apart by content.
pub fn from_source(text: &str) -> SourceRules {
    if text.contains("CACHELINE_ASSERT") { macros(text) } else { table(text) }
}

fn rule(ty: &str, demand: Demand, reason: String) -> Rule {
    Rule::new(0, ty, demand, Some(reason))
}

/// `CACHELINE_ASSERT_GROUP_MEMBER(struct tcp_sock, tcp_sock_read_tx, max_window);` and `.._GROUP_SIZE(..)`.
fn macros(text: &str) -> SourceRules {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    let mut order: Vec<(String, String)> = Vec::new();
    let mut out = SourceRules::default();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        let Some((name, rest)) = line.split_once('(') else { continue };
        if !name.starts_with("CACHELINE_ASSERT_GROUP_") {
            continue;
        }
        let args: Vec<&str> = rest.trim_end_matches([')', ';', ' ']).split(',').map(str::trim).collect();
        let [ty, group, last] = args.as_slice() else {
            out.unread.push((n + 1, line.into()));
            continue;
        };
        let key = (ty.trim_start_matches("struct ").to_string(), group.to_string());
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        let entry =
            groups.entry(key).or_insert_with(|| Group { name: group.to_string(), ..Group::default() });
        match (name.trim_end_matches("_MEMBER"), sum(last)) {
            ("CACHELINE_ASSERT_GROUP", _) => entry.members.push(last.to_string()),
            ("CACHELINE_ASSERT_GROUP_SIZE", Some(size)) => entry.max_size = Some(size),
            _ => out.unread.push((n + 1, line.into())),
        }
    }
    out.rules = order
        .into_iter()
        .filter_map(|key| {
            let group = groups.remove(&key)?;
            Some(rule(&key.0, Demand::Group(group), "asserted in the kernel's source".into()))
        })
        .collect();
    number(&mut out.rules);
    out
}

/// `124 + 4`: sizes are written as sums where an architecture adds a field.
fn sum(text: &str) -> Option<u64> {
    text.split('+').try_fold(0u64, |n, part| n.checked_add(part.trim().parse().ok()?))
}

/// A table of `net_cachelines`: `.. struct:: tcp_sock` or a title, then rows of type, name and access in TX and RX.
/// Fields that one path reads and nobody writes there should not share a line with those that a path writes.
fn table(text: &str) -> SourceRules {
    let mut out = SourceRules::default();
    let mut ty = String::new();
    let mut classes: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(title) = structure_name(line) {
            flush(&ty, &mut classes, &mut out.rules);
            ty = title;
        }
        if let Some((name, class)) = hot_row(line) {
            classes.entry(class).or_default().push(name);
        }
    }
    flush(&ty, &mut classes, &mut out.rules);
    number(&mut out.rules);
    out
}

/// `inet_sock struct fast path usage breakdown` names its type.
fn structure_name(line: &str) -> Option<String> {
    let (name, _) = line.trim().split_once(" struct fast path usage")?;
    let name = name.rsplit(' ').next()?;
    Some(name.to_string())
}

/// Name and access class of a field that some fast path touches.
fn hot_row(line: &str) -> Option<(String, &'static str)> {
    let writes = line.contains("read_write") || line.contains("write_mostly") || line.contains("write_often");
    let class = if writes {
        "written"
    } else if line.contains("read_mostly") {
        "read"
    } else {
        return None;
    };
    // Type and name stand in the first columns; the name is the last word in front of the first access column.
    let access = ["read_write", "write_mostly", "write_often", "read_mostly"];
    let head = &line[..access.iter().filter_map(|a| line.find(a)).min()?];
    let name = head
        .split_whitespace()
        .rev()
        .find(|w| w.chars().all(|c| c.is_alphanumeric() || "_.:[]()".contains(c)))?;
    let name = name.split([':', '[', '(']).next()?.to_string();
    (!name.is_empty()).then_some((name, class))
}

fn flush(ty: &str, classes: &mut BTreeMap<&'static str, Vec<String>>, rules: &mut Vec<Rule>) {
    let classes = std::mem::take(classes);
    if ty.is_empty() {
        return;
    }
    let (read, written) = (classes.get("read"), classes.get("written"));
    for a in written.into_iter().flatten() {
        for b in read.into_iter().flatten() {
            let demand = Demand::Separate(vec![vec![a.clone()], vec![b.clone()]]);
            let reason = format!("net_cachelines: {a} is written on the fast path, {b} is only read there");
            rules.push(rule(ty, demand, reason));
        }
    }
}

fn number(rules: &mut [Rule]) {
    for (i, r) in rules.iter_mut().enumerate() {
        r.index = i + 1;
    }
}
