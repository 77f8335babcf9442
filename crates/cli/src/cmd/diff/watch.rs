//! What must not begin to share a line: fields named by the user, by rules, or by what was recorded.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tussle_host::evidence_file;
use tussle_layout::diff::{Options, Recorded, Side, TypeDiff, diff};
use tussle_layout::phases::is_below;
use tussle_layout::rules::{Rule, parse};
use tussle_model::TypeId;
use tussle_report::by_type::{Hot, hot_fields};

/// What is looked for besides the fields of --hot.
pub(super) struct Watch {
    rules: Vec<Rule>,
    /// By type, what an evidence saw.
    recorded: BTreeMap<String, Hot>,
    /// Any two fields.
    any: bool,
}

/// What was found in one type or more.
#[derive(Default)]
pub(super) struct Judged {
    /// Something that fails.
    pub bad: bool,
    /// Pairs that the evidence saw in use.
    pub seen: Vec<Recorded>,
}

impl Judged {
    pub fn add(&mut self, other: Judged) {
        self.bad |= other.bad;
        self.seen.extend(other.seen);
    }
}

type Of<'a> = (Side<'a>, TypeId);

impl Watch {
    /// Every change counts.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Reads rule files and the evidence.
    pub fn new(rules: &[PathBuf], evidence: Option<&Path>, any: bool) -> anyhow::Result<Watch> {
        let mut watch = Watch { rules: Vec::new(), recorded: BTreeMap::new(), any };
        for path in rules {
            let text =
                tussle_host::whole::read_to_string(path).with_context(|| format!("{}", path.display()))?;
            watch.rules.extend(parse(&text).with_context(|| format!("{}", path.display()))?.rules);
        }
        if let Some(path) = evidence {
            watch.recorded = hot_fields(&evidence_file::read(path)?.0);
            if watch.recorded.is_empty() {
                bail!("{}: no type whose fields several threads used", path.display());
            }
        }
        Ok(watch)
    }

    /// What of a type's changes fails.
    pub fn judge(&self, old: Of<'_>, new: Of<'_>, d: &TypeDiff, options: &Options) -> Judged {
        let seen = self.seen(old, new, d, options);
        let any = self.any || !options.hot.is_empty();
        let bad = any && !d.now_share.is_empty() || !seen.is_empty() || self.breaks_rule(old, new, options);
        Judged { bad, seen }
    }

    fn breaks_rule(&self, old: Of<'_>, new: Of<'_>, options: &Options) -> bool {
        let of_type = |rule: &&Rule| new.0.table.find_all(&rule.ty).contains(&new.1);
        let shares = |rule: &Rule| {
            let hot: Vec<String> = rule.demand.fields().into_iter().map(Into::into).collect();
            let options = Options { hot, line: rule.line, ..options.clone() };
            !options.hot.is_empty() && !diff(old.0, old.1, new.0, new.1, &options).now_share.is_empty()
        };
        self.rules.iter().filter(of_type).any(shares)
    }

    /// Pairs that share a line now, that several threads used, one of them stored to.
    fn seen(&self, old: Of<'_>, new: Of<'_>, d: &TypeDiff, options: &Options) -> Vec<Recorded> {
        let Some(hot) = self.recorded.get(&d.name).filter(|h| h.fields.len() > 1) else { return Vec::new() };
        let options = Options { hot: hot.fields.clone(), ..options.clone() };
        let pairs = diff(old.0, old.1, new.0, new.1, &options).now_share;
        // a recording names the fields of its own build: a lock that is one field there may be several here
        let same = |f: &String, path: &str| is_below(path, f) || is_below(f, path);
        let among = |path: &str| hot.fields.iter().any(|f| same(f, path));
        let written = |path: &str| hot.written.iter().any(|f| same(f, path));
        let kept =
            pairs.into_iter().filter(|p| among(&p.a) && among(&p.b) && (written(&p.a) || written(&p.b)));
        kept.map(|pair| Recorded { ty: d.name.clone(), pair, phases: d.phases.len() }).collect()
    }
}
