//! Layout rules: the "please be careful" comment as something that fails.
//!
//! A rule file is TOML with `[[rule]]` tables. Every key is known or an error; a type or field that does not exist is
//! an error when the rule is applied, never a pass.

mod emit;
mod eval;
mod source;
mod view;

pub use emit::emit_c;
pub use eval::{Build, Outcome, Status, check};
pub use source::{SourceRules, from_source};
pub use view::view;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tussle_model::LineSize;

/// Why a rule file or a rule cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("rules: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A rule that says nothing, or too much.
    #[error("rule {index} (type {ty}): {what}")]
    Rule {
        /// 1-based position in the file.
        index: usize,
        /// Its type.
        ty: String,
        /// What is wrong.
        what: String,
    },
    /// A rule names a type that a build does not have.
    #[error("{build}: rule {index}: no type named `{ty}`{close}")]
    NoType {
        /// File.
        build: String,
        /// 1-based position of the rule.
        index: usize,
        /// The name.
        ty: String,
        /// `; close: a, b` or nothing.
        close: String,
    },
    /// A rule names a field that the type does not have.
    #[error("{build}: rule {index}: {ty} has no field `{field}`{close}")]
    NoField {
        /// File.
        build: String,
        /// 1-based position of the rule.
        index: usize,
        /// The type.
        ty: String,
        /// The path.
        field: String,
        /// `; close: a, b` or nothing.
        close: String,
    },
}

/// A rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RawRule>,
}

/// One `[[rule]]` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "type")]
    ty: String,
    separate: Option<Vec<String>>,
    together: Option<Vec<String>>,
    alone: Option<Vec<String>>,
    same_line: Option<Vec<String>>,
    straddle: Option<Vec<String>>,
    max_lines: Option<u64>,
    max_size: Option<u64>,
    offset: Option<BTreeMap<String, u64>>,
    group: Option<Group>,
    line: Option<u32>,
    phases: Option<PhaseList>,
    when: Option<When>,
    reason: Option<String>,
    evidence: Option<String>,
}

/// A group between `__cacheline_group_begin` and `__cacheline_group_end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Members that must lie in it.
    #[serde(default)]
    pub members: Vec<String>,
    /// Most bytes that it may span.
    pub max_size: Option<u64>,
}

/// Which phases a rule must hold in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum PhaseList {
    /// `"all"`: every phase that the object can have.
    Word(String),
    /// These, in bytes.
    Bytes(Vec<u64>),
}

/// Builds that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Architecture, or several.
    #[serde(default, deserialize_with = "one_or_many")]
    pub arch: Vec<String>,
    /// Options that must be set (`CONFIG_MMU`), or must not (`!CONFIG_MMU`), or have a value (`CONFIG_NR_CPUS=64`).
    #[serde(default, deserialize_with = "one_or_many")]
    pub config: Vec<String>,
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Either::deserialize(d)? {
        Either::One(s) => vec![s],
        Either::Many(v) => v,
    })
}

/// What a rule demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No two of these fields touch a common line.
    Separate(Vec<String>),
    /// These fields touch no more lines than their bytes need.
    Together(Vec<String>),
    /// Each of these shares its lines with no other field.
    Alone(Vec<String>),
    /// All of these lie in one line.
    SameLine(Vec<String>),
    /// Each of these lies across a line boundary.
    Straddle(Vec<String>),
    /// The object touches at most so many lines.
    MaxLines(u64),
    /// The object has at most so many bytes.
    MaxSize(u64),
    /// Each field lies exactly there.
    Offset(Vec<(String, u64)>),
    /// A group has these members and at most that size.
    Group(Group),
}

impl Demand {
    /// The key that it is written with, also the identifier of its findings.
    pub fn key(&self) -> &'static str {
        match self {
            Demand::Separate(_) => "separate",
            Demand::Together(_) => "together",
            Demand::Alone(_) => "alone",
            Demand::SameLine(_) => "same_line",
            Demand::Straddle(_) => "straddle",
            Demand::MaxLines(_) => "max_lines",
            Demand::MaxSize(_) => "max_size",
            Demand::Offset(_) => "offset",
            Demand::Group(_) => "group",
        }
    }

    /// The demand in words: `separate mmap_lock.count, mmap_lock.owner`.
    pub fn words(&self) -> String {
        match self {
            Demand::Separate(f)
            | Demand::Together(f)
            | Demand::Alone(f)
            | Demand::SameLine(f)
            | Demand::Straddle(f) => {
                format!("{} {}", self.key(), f.join(", "))
            }
            Demand::MaxLines(n) => format!("max_lines {n}"),
            Demand::MaxSize(n) => format!("max_size {n}"),
            Demand::Offset(list) => {
                let list: Vec<String> = list.iter().map(|(f, at)| format!("{f} at {at}")).collect();
                format!("offset {}", list.join(", "))
            }
            Demand::Group(g) => format!("group {}", g.name),
        }
    }
}

/// One rule, checked for sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// 1-based position in its file.
    pub index: usize,
    /// The type that it is about.
    pub ty: String,
    /// What it demands.
    pub demand: Demand,
    /// Line size.
    pub line: LineSize,
    /// Phases in bytes; `None` means every phase possible.
    pub phases: Option<Vec<u64>>,
    /// Builds that it is for.
    pub when: When,
    /// Why.
    pub reason: Option<String>,
    /// Where that was measured.
    pub evidence: Option<String>,
}

/// Reads a rule file.
///
/// # Errors
/// [`Error::Syntax`] for unknown keys, [`Error::Rule`] for rules without exactly one demand.
pub fn parse(text: &str) -> Result<Vec<Rule>, Error> {
    let file: RuleFile = toml::from_str(text)?;
    file.rule.into_iter().enumerate().map(|(i, raw)| rule(i + 1, raw)).collect()
}

fn rule(index: usize, raw: RawRule) -> Result<Rule, Error> {
    let fail = |what: String| Error::Rule { index, ty: raw.ty.clone(), what };
    let demand = demand(&raw).map_err(&fail)?;
    let line = LineSize::new(raw.line.unwrap_or(64))
        .filter(|l| [64, 128].contains(&l.bytes()))
        .ok_or_else(|| fail("line is 64 or 128".into()))?;
    let phases = match &raw.phases {
        None => None,
        Some(PhaseList::Word(w)) if w == "all" => None,
        Some(PhaseList::Word(w)) => {
            return Err(fail(format!("phases: \"all\" or a list of bytes, not \"{w}\"")));
        }
        Some(PhaseList::Bytes(list)) if list.is_empty() => {
            return Err(fail("phases: the list is empty".into()));
        }
        Some(PhaseList::Bytes(list)) => Some(list.iter().map(|p| p % line.bytes()).collect()),
    };
    let when = raw.when.clone().unwrap_or_default();
    Ok(Rule { index, ty: raw.ty, demand, line, phases, when, reason: raw.reason, evidence: raw.evidence })
}

fn demand(raw: &RawRule) -> Result<Demand, String> {
    let mut found: Vec<Demand> = Vec::new();
    let fields = |list: &Option<Vec<String>>, make: fn(Vec<String>) -> Demand| list.clone().map(make);
    found.extend(fields(&raw.separate, Demand::Separate));
    found.extend(fields(&raw.together, Demand::Together));
    found.extend(fields(&raw.alone, Demand::Alone));
    found.extend(fields(&raw.same_line, Demand::SameLine));
    found.extend(fields(&raw.straddle, Demand::Straddle));
    found.extend(raw.max_lines.map(Demand::MaxLines));
    found.extend(raw.max_size.map(Demand::MaxSize));
    found.extend(raw.offset.clone().map(|o| Demand::Offset(o.into_iter().collect())));
    found.extend(raw.group.clone().map(Demand::Group));
    if found.len() > 1 {
        let keys: Vec<&str> = found.iter().map(Demand::key).collect();
        return Err(format!("one demand per rule, not {}", keys.join(" and ")));
    }
    let demand = found.pop().ok_or_else(|| {
        String::from(
            "one of separate, together, alone, same_line, straddle, max_lines, max_size, offset, group is needed",
        )
    })?;
    let least = match &demand {
        Demand::Separate(f) | Demand::Together(f) => Some((f.len(), 2)),
        Demand::Alone(f) | Demand::SameLine(f) | Demand::Straddle(f) => Some((f.len(), 1)),
        Demand::Offset(list) => Some((list.len(), 1)),
        _ => None,
    };
    match least {
        Some((n, least)) if n < least => Err(format!("{}: at least {least} fields are needed", demand.key())),
        _ => Ok(demand),
    }
}
