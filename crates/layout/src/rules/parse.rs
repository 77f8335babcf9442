//! The TOML of a rule file.

use super::{Demand, Error, Group, Rule, RuleSet, Severity, Waiver, When};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tussle_model::LineSize;

/// Line sizes that a rule may ask for, bytes: of x86 and most Arm, of prefetched pairs and Apple, of s390.
const LINES: [u64; 3] = [64, 128, 256];

/// A rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<RawRule>,
    #[serde(default)]
    waiver: Vec<Waiver>,
}

/// One `[[rule]]` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "type")]
    ty: String,
    separate: Option<Vec<OneOrMany>>,
    together: Option<Vec<String>>,
    alone: Option<Vec<String>>,
    same_line: Option<Vec<String>>,
    straddle: Option<Vec<String>>,
    nothing_between: Option<Vec<String>>,
    fields: Option<Vec<String>>,
    max_lines: Option<u64>,
    max_size: Option<u64>,
    offset: Option<BTreeMap<String, u64>>,
    group: Option<Group>,
    groups: Option<String>,
    line: Option<u32>,
    phases: Option<PhaseList>,
    when: Option<When>,
    #[serde(default)]
    inherit: bool,
    id: Option<String>,
    #[serde(default)]
    severity: Severity,
    help: Option<String>,
    reason: Option<String>,
    evidence: Option<String>,
}

/// A field, or a group of fields that may share lines among themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
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

/// A string or a list of them.
pub(super) fn one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(d)? {
        OneOrMany::One(s) => vec![s],
        OneOrMany::Many(v) => v,
    })
}

/// Reads a rule file.
///
/// # Errors
/// [`Error::Syntax`] for unknown keys, [`Error::Rule`] for rules without exactly one demand and for waivers without
/// a date.
pub fn parse(text: &str) -> Result<RuleSet, Error> {
    let file: RuleFile = toml::from_str(text)?;
    let rules = file.rule.into_iter().enumerate().map(|(i, raw)| rule(i + 1, raw));
    let rules = rules.collect::<Result<_, _>>()?;
    let waivers: Vec<Waiver> = file.waiver;
    for (i, w) in waivers.iter().enumerate() {
        if !is_date(&w.until) {
            let what = format!("waiver: until is a date like 2027-01-31, not `{}`", w.until);
            return Err(Error::Rule { index: i + 1, ty: w.ty.clone().unwrap_or_default(), what });
        }
    }
    Ok(RuleSet { rules, waivers })
}

/// A date of TOML's own or one in quotes.
pub(super) fn day<'de, D: serde::Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "until is a date like 2027-01-31")]
    enum Day {
        Text(String),
        Date(toml::value::Datetime),
    }
    Ok(match Day::deserialize(d)? {
        Day::Text(text) => text,
        Day::Date(date) => date.to_string(),
    })
}

/// `2027-01-31`: such dates compare as text.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let numbers: Vec<u32> = parts.iter().filter_map(|p| p.parse().ok()).collect();
    let &[year, month, day] = numbers.as_slice() else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    digits && parts.iter().map(|p| p.len()).eq([4, 2, 2]) && (1..=days).contains(&day)
}

fn rule(index: usize, raw: RawRule) -> Result<Rule, Error> {
    let fail = |what: String| Error::Rule { index, ty: raw.ty.clone(), what };
    let demand = demand(&raw).map_err(&fail)?;
    let line = LineSize::new(raw.line.unwrap_or(64))
        .filter(|l| LINES.contains(&l.bytes()))
        .ok_or_else(|| fail("line is 64, 128 or 256".into()))?;
    let phases = match &raw.phases {
        None => None,
        Some(PhaseList::Word(w)) if w == "all" => None,
        Some(PhaseList::Word(w)) => {
            return Err(fail(format!("phases: \"all\" or a list of bytes, not \"{w}\"")));
        }
        Some(PhaseList::Bytes(list)) if list.is_empty() => {
            return Err(fail("phases: the list is empty".into()));
        }
        Some(PhaseList::Bytes(list)) => {
            if let Some(p) = list.iter().find(|p| **p >= line.bytes()) {
                return Err(fail(format!("phases: {p} lies beyond a line of {} bytes", line.bytes())));
            }
            Some(list.clone())
        }
    };
    Ok(Rule {
        index,
        id: raw.id,
        ty: raw.ty,
        demand,
        line,
        phases,
        when: raw.when.unwrap_or_default(),
        inherit: raw.inherit,
        severity: raw.severity,
        help: raw.help,
        reason: raw.reason,
        evidence: raw.evidence,
    })
}

fn demand(raw: &RawRule) -> Result<Demand, String> {
    let mut found: Vec<Demand> = Vec::new();
    let fields = |list: &Option<Vec<String>>, make: fn(Vec<String>) -> Demand| list.clone().map(make);
    let groups = |list: &Vec<OneOrMany>| {
        let group = |g: &OneOrMany| match g {
            OneOrMany::One(field) => vec![field.clone()],
            OneOrMany::Many(fields) => fields.clone(),
        };
        Demand::Separate(list.iter().map(group).collect())
    };
    found.extend(raw.separate.as_ref().map(groups));
    found.extend(fields(&raw.together, Demand::Together));
    found.extend(fields(&raw.alone, Demand::Alone));
    found.extend(fields(&raw.same_line, Demand::SameLine));
    found.extend(fields(&raw.straddle, Demand::Straddle));
    found.extend(fields(&raw.nothing_between, Demand::NothingBetween));
    found.extend(raw.max_lines.map(|lines| match &raw.fields {
        Some(fields) => Demand::Within { fields: fields.clone(), lines },
        None => Demand::MaxLines(lines),
    }));
    found.extend(raw.max_size.map(Demand::MaxSize));
    found.extend(raw.offset.clone().map(|o| Demand::Offset(o.into_iter().collect())));
    found.extend(raw.group.clone().map(Demand::Group));
    found.extend(raw.groups.clone().map(|_| Demand::GroupsApart));
    if found.len() > 1 {
        let keys: Vec<&str> = found.iter().map(Demand::key).collect();
        return Err(format!("one demand per rule, not {}", keys.join(" and ")));
    }
    let demand = found.pop().ok_or_else(|| {
        String::from(
            "one of separate, together, alone, same_line, straddle, nothing_between, max_lines, max_size, offset, \
             group, groups is needed",
        )
    })?;
    sensible(raw, demand)
}

/// The demand names enough fields, and its companions fit it.
fn sensible(raw: &RawRule, demand: Demand) -> Result<Demand, String> {
    if raw.fields.is_some() && !matches!(demand, Demand::Within { .. }) {
        return Err("fields goes with max_lines".into());
    }
    if raw.groups.as_deref().is_some_and(|word| word != "apart") {
        return Err("groups: only \"apart\" is known".into());
    }
    let mut named = std::collections::HashSet::new();
    if let Some(twice) = demand.fields().into_iter().find(|f| !named.insert(*f)) {
        return Err(format!("{}: names `{twice}` twice", demand.key()));
    }
    // a pattern may stand for several fields
    let two = |fields: &[String]| if fields.iter().any(|f| f.contains('*')) { 1 } else { 2 };
    let least = match &demand {
        Demand::Separate(groups) if groups.iter().any(Vec::is_empty) => Some((0, 1)),
        Demand::Separate(groups) => Some((groups.len(), two(&groups.concat()))),
        Demand::NothingBetween(f) => Some((f.len(), 2)),
        Demand::Together(f) => Some((f.len(), two(f))),
        Demand::Alone(f) | Demand::SameLine(f) | Demand::Straddle(f) | Demand::Within { fields: f, .. } => {
            Some((f.len(), 1))
        }
        Demand::Offset(list) => Some((list.len(), 1)),
        _ => None,
    };
    match least {
        Some((n, least)) if n < least => Err(format!("{}: at least {least} fields are needed", demand.key())),
        _ => Ok(demand),
    }
}
