//! Layout rules: the "please be careful" comment as something that fails.
//!
//! A rule file is TOML with `[[rule]]` tables. Every key is known or an error; a type or field that does not exist is
//! an error of its cell (rule and build), never a pass. What a tree violates already can be kept out of the way:
//! waivers in the file, a baseline beside it, or an older build ([`known`]).

mod case;
mod emit;
mod eval;
pub mod known;
mod markers;
mod parse;
mod source;
mod view;

pub use emit::{Language, emit};
pub use eval::{Build, Outcome, Status, Violation, check};
pub use markers::from_markers;
pub use parse::parse;
pub use source::{SourceRules, from_source};
pub use view::{Context, Told, Verdict, told, view};

use serde::{Deserialize, Serialize};
use tussle_model::LineSize;

/// Why a rule file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("rules: {0}{hint}", hint = hint(.0))]
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
}

/// Where a key belongs that stands in the wrong table, or which one was meant.
fn hint(error: &toml::de::Error) -> String {
    let unknown = error.message().strip_prefix("unknown ").unwrap_or_default();
    let quoted: Vec<&str> = unknown.split('`').skip(1).step_by(2).collect();
    match &quoted[..] {
        [key @ ("has" | "arch" | "config"), ..] => format!("`{key}` belongs into when = {{ {key} = .. }}"),
        [key, known @ ..] => match &tussle_model::near::near_paths(known.iter().copied(), key, 3)[..] {
            [] => String::new(),
            close => format!("close: {}", close.join(", ")),
        },
        [] => String::new(),
    }
}

/// A rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// What must hold.
    pub rules: Vec<Rule>,
    /// What is let go for a time.
    pub waivers: Vec<Waiver>,
}

/// Violations that are let go until a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiver {
    /// `id` of the rule.
    pub rule: String,
    /// Only for this type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub ty: Option<String>,
    /// Why.
    pub reason: String,
    /// Last day, `2027-01-31`.
    #[serde(deserialize_with = "parse::day")]
    pub until: String,
}

/// How bad a violation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It fails the check.
    #[default]
    Error,
    /// It is told.
    Warning,
    /// It is told in passing.
    Note,
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

/// Builds that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Architectures as the kernel names them, any of them.
    #[serde(default, deserialize_with = "parse::one_or_many")]
    pub arch: Vec<String>,
    /// Options that must be set (`CONFIG_MMU`), or must not (`!CONFIG_MMU`), or have a value (`CONFIG_NR_CPUS=64`).
    #[serde(default, deserialize_with = "parse::one_or_many")]
    pub config: Vec<String>,
    /// Fields that the type must have (`mmap_lock.count`), or must not (`!mmap_lock.rtmutex`).
    #[serde(default, deserialize_with = "parse::one_or_many")]
    pub has: Vec<String>,
}

/// What a rule demands. Fields are paths, in which `*` stands for any part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No field of one group touches a line of a field of another.
    Separate(Vec<Vec<String>>),
    /// These fields touch no more lines than their bytes need.
    Together(Vec<String>),
    /// Each of these shares its lines with no other field.
    Alone(Vec<String>),
    /// All of these lie in one line.
    SameLine(Vec<String>),
    /// Each of these lies across a line boundary.
    Straddle(Vec<String>),
    /// Nothing but padding lies between each of these and the next.
    NothingBetween(Vec<String>),
    /// These fields touch at most so many lines.
    Within {
        /// The fields.
        fields: Vec<String>,
        /// Most lines.
        lines: u64,
    },
    /// The object touches at most so many lines.
    MaxLines(u64),
    /// The object has at most so many bytes.
    MaxSize(u64),
    /// Each field lies exactly there.
    Offset(Vec<(String, u64)>),
    /// A group has these members and at most that size.
    Group(Group),
    /// No two groups of the type touch a common line.
    GroupsApart,
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
            Demand::NothingBetween(_) => "nothing_between",
            Demand::Within { .. } => "max_lines",
            Demand::MaxLines(_) => "max_lines",
            Demand::MaxSize(_) => "max_size",
            Demand::Offset(_) => "offset",
            Demand::Group(_) => "group",
            Demand::GroupsApart => "groups",
        }
    }

    /// Paths of the fields that it names.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Demand::Separate(groups) => groups.iter().flatten().map(String::as_str).collect(),
            Demand::Together(f) | Demand::Alone(f) | Demand::SameLine(f) | Demand::Straddle(f) => {
                f.iter().map(String::as_str).collect()
            }
            Demand::NothingBetween(f) | Demand::Within { fields: f, .. } => {
                f.iter().map(String::as_str).collect()
            }
            Demand::Offset(list) => list.iter().map(|(f, _)| f.as_str()).collect(),
            Demand::Group(g) => g.members.iter().map(String::as_str).collect(),
            Demand::MaxLines(_) | Demand::MaxSize(_) | Demand::GroupsApart => Vec::new(),
        }
    }

    /// The demand in words: `separate mmap_lock.count, mmap_lock.owner`.
    pub fn words(&self) -> String {
        match self {
            Demand::Separate(groups) => {
                let group = |g: &Vec<String>| match g.as_slice() {
                    [one] => one.clone(),
                    many => format!("[{}]", many.join(", ")),
                };
                format!("separate {}", groups.iter().map(group).collect::<Vec<_>>().join(", "))
            }
            Demand::Within { fields, lines } => format!("max_lines {lines} for {}", fields.join(", ")),
            Demand::MaxLines(n) => format!("max_lines {n}"),
            Demand::MaxSize(n) => format!("max_size {n}"),
            Demand::Offset(list) => {
                let list: Vec<String> = list.iter().map(|(f, at)| format!("{f} at {at}")).collect();
                format!("offset {}", list.join(", "))
            }
            Demand::Group(g) => format!("group {}", g.name),
            Demand::GroupsApart => "groups apart".into(),
            _ => format!("{} {}", self.key(), self.fields().join(", ")),
        }
    }
}

/// One rule, checked for sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// 1-based position in its file.
    pub index: usize,
    /// Its name in findings, waivers and baselines.
    pub id: Option<String>,
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
    /// It is also about every type that holds one of its type.
    pub inherit: bool,
    /// How bad a violation is.
    pub severity: Severity,
    /// What to do about a violation.
    pub help: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Where that was measured.
    pub evidence: Option<String>,
}

impl Rule {
    /// A rule that demands something of a type in every build.
    pub fn new(index: usize, ty: &str, demand: Demand, reason: Option<String>) -> Rule {
        Rule {
            index,
            id: None,
            ty: ty.into(),
            demand,
            line: LineSize::L64,
            phases: None,
            when: When::default(),
            inherit: false,
            severity: Severity::Error,
            help: None,
            reason,
            evidence: None,
        }
    }

    /// Its `id`, or the key of its demand.
    pub fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(self.demand.key())
    }
}
