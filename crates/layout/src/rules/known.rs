//! Violations that are known already: a baseline file, an older build, waivers. They are told apart by fingerprint and
//! do not fail a check.

use super::{Outcome, Rule, Status, Violation, Waiver};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of baseline files that is written and read.
const VERSION: u32 = 1;

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No baseline of a known version.
    #[error("baseline: {0}")]
    Format(String),
}

/// What is known, by fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(BTreeMap<String, String>);

#[derive(Serialize, Deserialize)]
struct File {
    tussle_baseline: u32,
    violations: BTreeMap<String, String>,
}

impl Baseline {
    /// All violations of a check.
    pub fn of(rules: &[Rule], outcomes: &[Outcome]) -> Baseline {
        let mut known = BTreeMap::new();
        for o in outcomes {
            let Status::Fail(violations) = &o.status else { continue };
            let rule = &rules[o.rule];
            let text = |v: &Violation| format!("{}: {}: {}", rule.ty, rule.name(), v.message);
            known.extend(violations.iter().map(|v| (v.fingerprint.clone(), text(v))));
        }
        Baseline(known)
    }

    /// Reads a baseline file.
    ///
    /// # Errors
    /// [`Error::Format`] for anything else.
    pub fn read(text: &str) -> Result<Baseline, Error> {
        let file: File = serde_json::from_str(text).map_err(|e| Error::Format(e.to_string()))?;
        match file.tussle_baseline {
            VERSION => Ok(Baseline(file.violations)),
            other => Err(Error::Format(format!("has version {other}, this tussle reads {VERSION}"))),
        }
    }

    /// The file's text: sorted, one violation a line, so that a review sees what came and went.
    pub fn write(&self) -> String {
        let file = File { tussle_baseline: VERSION, violations: self.0.clone() };
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// It is in the file.
    pub fn has(&self, v: &Violation) -> bool {
        self.0.contains_key(&v.fingerprint)
    }

    /// Number of violations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The waiver that lets a rule's violations go on a day (`2027-01-31`).
pub fn waiver<'a>(waivers: &'a [Waiver], rule: &Rule, today: &str) -> Option<&'a Waiver> {
    waivers.iter().filter(|w| fits(w, rule)).find(|w| today <= w.until.as_str())
}

/// Waivers of no rule: of a misspelled one, or of one that is gone.
pub fn idle<'a>(waivers: &'a [Waiver], rules: &[Rule]) -> impl Iterator<Item = &'a Waiver> {
    waivers.iter().filter(|w| !rules.iter().any(|r| fits(w, r)))
}

fn fits(w: &Waiver, rule: &Rule) -> bool {
    rule.id.as_ref() == Some(&w.rule) && w.ty.as_ref().is_none_or(|t| *t == rule.ty)
}

/// Identity of a fault: the rule, its type and the fields at fault, without offsets, phases or builds.
pub(super) fn fingerprint(rule: &Rule, what: &str) -> String {
    let text = format!("{}\n{}\n{}\n{what}", rule.name(), rule.ty, rule.demand.key());
    // FNV-1a, 64 bits: stable over versions and machines
    let hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
