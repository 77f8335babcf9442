//! One point answered. The same libraries as the command line, in this process: a check of a snapshot takes less than
//! starting a program would.

use super::job::Job;
use super::plan::{Plan, Seen};
use anyhow::Context;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tussle_calls::predict::{self, Asked};
use tussle_calls::layouts::Paths;
use tussle_calls::source::Source;
use tussle_calls::{Answer, evidence, layouts};
use tussle_layout::rules::Told;
use tussle_render::{Format, Style, render};

const VERSION: Option<&str> = Some(env!("CARGO_PKG_VERSION"));
/// Files that stay open between points at most, and bytes of them.
const SOURCES_MAX: usize = 64;
const BYTES_MAX: usize = 1 << 30;

/// A text that many rows have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(pub(crate) Arc<str>);

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

/// The row of a point.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AnswerRow {
    pub(crate) task: String,
    pub(crate) batch: Shared,
    /// Hash of what the plan asks.
    pub(crate) plan: Shared,
    /// Its file without folder and ending.
    pub(crate) plan_name: Shared,
    pub(crate) job: i64,
    /// When it was answered, seconds since 1970.
    pub(crate) answered_unix_s: Option<f64>,
    pub(crate) verb: Shared,
    pub(crate) parameters: String,
    /// `None`: not known.
    pub(crate) tool_version: Option<&'static str>,
    /// As the command line would exit.
    pub(crate) status: Option<i64>,
    pub(crate) error: Option<String>,
    /// The JSON document of the verb.
    pub(crate) document: Option<String>,
}

/// One rule in one build.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CheckRow {
    pub(crate) task: String,
    pub(crate) batch: Shared,
    pub(crate) subject: String,
    pub(crate) rules: String,
    /// `None`: not known.
    pub(crate) tool_version: Option<&'static str>,
    pub(crate) type_name: Option<String>,
    pub(crate) rule: String,
    pub(crate) status: Cow<'static, str>,
    pub(crate) message: Option<String>,
}

/// One prediction.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PredictionRow {
    pub(crate) task: String,
    pub(crate) batch: Shared,
    pub(crate) subject: String,
    /// `None`: not known.
    pub(crate) tool_version: Option<&'static str>,
    pub(crate) machine: String,
    pub(crate) cpus: Option<i64>,
    pub(crate) seed: Option<i64>,
    pub(crate) draws: Option<i64>,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) low: Option<f64>,
    pub(crate) median: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) verdict: String,
}

/// Everything that one point gives.
pub(crate) struct Answered {
    pub(crate) row: AnswerRow,
    pub(crate) checks: Vec<CheckRow>,
    pub(crate) predictions: Vec<PredictionRow>,
    /// Files that it is an answer of.
    pub(crate) files: Vec<Arc<Seen>>,
}

/// What a point says, before it has its keys.
#[derive(Default)]
struct Said {
    answer: Option<Answer>,
    checks: Vec<CheckRow>,
    predictions: Vec<PredictionRow>,
}

impl Said {
    /// Of a check that ends with status 2, the first that it says of what cannot be judged.
    fn unjudged(&self) -> Option<String> {
        let answer = self.answer.as_ref().filter(|a| a.status == 2)?;
        let first = self.checks.iter().find(|c| is_unjudged(&c.status));
        let why = first.and_then(|c| c.message.clone());
        Some(why.unwrap_or_else(|| format!("{}: something cannot be judged", answer.view.kind)))
    }
}

/// The rule could not be held against the build.
pub(crate) fn is_unjudged(status: &str) -> bool {
    status == "error"
}

/// Answers points, from any thread.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    open: Mutex<Open>,
}

/// Files that are open, the oldest first.
#[derive(Default)]
struct Open {
    sources: HashMap<String, Arc<Source>>,
    order: VecDeque<String>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Worker<'a> {
        Worker { plan, open: Mutex::default() }
    }

    /// The answer; what fails is an answer, too.
    pub(crate) fn answer(&self, job: Job<'_>) -> Answered {
        let said = catch_unwind(AssertUnwindSafe(|| self.say(&job)));
        let said = said.unwrap_or_else(|_| Err(anyhow::anyhow!("a fault in tussle: the work panicked")));
        let failed = said.as_ref().err().map(tussle_calls::in_full);
        let said = said.unwrap_or_default();
        let error = failed.or_else(|| said.unjudged());
        let document = said.answer.as_ref().map(|a| render(&a.view, Format::Json, Style::default()));
        let row = AnswerRow {
            task: job.task,
            batch: Shared::default(),
            plan: Shared(self.plan.key.clone()),
            plan_name: Shared(self.plan.name.clone()),
            answered_unix_s: None,
            job: i64::try_from(job.number).unwrap_or(i64::MAX),
            verb: Shared(self.plan.verb.clone()),
            parameters: job.text,
            tool_version: VERSION,
            status: Some(said.answer.as_ref().map_or(2, |a| a.status.into())),
            error,
            document,
        };
        Answered { row, checks: said.checks, predictions: said.predictions, files: job.files }
    }

    fn say(&self, job: &Job<'_>) -> anyhow::Result<Said> {
        match &*self.plan.verb {
            "check" => self.check(job),
            "diff" => self.diff(job),
            "predict" => self.predict(job),
            _ => self.advise(job),
        }
    }

    /// A file, opened once for all points that name it.
    fn source(&self, path: &str) -> anyhow::Result<Arc<Source>> {
        if let Some(known) = self.open.lock().unwrap_or_else(|e| e.into_inner()).sources.get(path) {
            return Ok(known.clone());
        }
        let source = Arc::new(Source::open(Path::new(path), None)?);
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        open.order.push_back(path.into());
        open.sources.insert(path.into(), source.clone());
        let bytes = |open: &Open| open.sources.values().map(|s| s.len()).sum::<usize>();
        while open.order.len() > SOURCES_MAX || (open.order.len() > 1 && bytes(&open) > BYTES_MAX) {
            let oldest = open.order.pop_front().unwrap_or_default();
            open.sources.remove(&oldest);
        }
        Ok(source)
    }

    fn check(&self, job: &Job<'_>) -> anyhow::Result<Said> {
        let (build, rules) = (job.need("build")?, job.need("rules")?);
        let text = std::fs::read_to_string(rules).with_context(|| rules.to_string())?;
        let set = layouts::rules(&text).with_context(|| rules.to_string())?;
        let named = vec![(job.name("build").to_string(), self.source(build))];
        let (answer, cells) = layouts::check(&set, named, Paths::AsBuilt)?;
        let row = |c: Told| CheckRow {
            task: job.task.clone(),
            batch: Shared::default(),
            subject: c.build,
            rules: job.name("rules").into(),
            tool_version: VERSION,
            type_name: Some(c.ty),
            rule: c.rule,
            status: c.status.into(),
            message: c.message,
        };
        Ok(Said { answer: Some(answer), checks: cells.into_iter().map(row).collect(), ..Said::default() })
    }

    fn diff(&self, job: &Job<'_>) -> anyhow::Result<Said> {
        let (old, new) = (self.source(job.need("old")?)?, self.source(job.need("new")?)?);
        let line = layouts::line_size(job.whole("line")?.unwrap_or(64))?;
        let options = layouts::diff_options(line, job.whole("phase")?, job.list("hot")?)?;
        let answer = layouts::diffs(&old, &new, &job.list("name")?, &options)?;
        Ok(Said { answer: Some(answer), ..Said::default() })
    }

    fn advise(&self, job: &Job<'_>) -> anyhow::Result<Said> {
        let e = read(job)?;
        let wanted = evidence::Wanted {
            name: job.need("name")?,
            line: job.whole("line")?,
            moves: job.whole("moves")?.unwrap_or(1),
            frozen: job.list("frozen")?,
        };
        Ok(Said { answer: Some(evidence::advised(&e, &wanted, &[], false)?), ..Said::default() })
    }

    fn predict(&self, job: &Job<'_>) -> anyhow::Result<Said> {
        let seed: u64 = job.whole("seed")?.unwrap_or(1);
        let asked = Asked {
            machine: job.text("machine")?.map(str::to_string),
            cpus: job.whole("cpus")?.into_iter().collect(),
            before: job.text("before")?.map(str::to_string),
            after: job.text("after")?.map(str::to_string),
            set: Vec::new(),
            draws: job.whole("draws")?,
            seed,
        };
        let (subject, found) = match job.text("scenario")? {
            Some(name) => (name.to_string(), predict::scenario(name, &asked, 1)?),
            None => (job.name("evidence").to_string(), predict::recorded(&read(job)?, &asked, 1)?),
        };
        let question = &found.question;
        let row = |p: &tussle_scenarios::answer::Point| PredictionRow {
            task: job.task.clone(),
            batch: Shared::default(),
            subject: subject.clone(),
            tool_version: VERSION,
            machine: question.machine.name.clone(),
            cpus: Some(p.cpus.into()),
            seed: i64::try_from(seed).ok(),
            draws: Some(p.draws.into()),
            before: question.before.label().into(),
            after: question.after.label().into(),
            low: Some(p.low),
            median: Some(p.median),
            high: Some(p.high),
            verdict: p.verdict.name().into(),
        };
        let predictions = found.point().map(row).into_iter().collect();
        Ok(Said { answer: Some(predict::answer(&found)), predictions, ..Said::default() })
    }
}

fn read(job: &Job<'_>) -> anyhow::Result<tussle_evidence::Evidence> {
    let path = Path::new(job.need("evidence")?);
    Ok(tussle_host::evidence_file::read(path)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{copy, rename, write};

    #[test]
    fn what_was_changed_meanwhile_is_no_answer() {
        let snapshots = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/layout/tests/data/snapshots");
        let mut known: Vec<_> = std::fs::read_dir(snapshots).unwrap().map(|e| e.unwrap().path()).collect();
        known.sort();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        copy(&known[0], at("a.json")).unwrap();
        let rule = "[[rule]]\nid = \"r\"\ntype = \"mm_struct\"\nseparate = [\"mm_count\", \"pgd\"]\n";
        write(at("r.toml"), rule).unwrap();
        let text = "verb = \"check\"\n[fixed]\nrules = \"r.toml\"\n[over]\nbuild = [\"a.json\"]\n";
        write(at("p.toml"), text).unwrap();
        let said = |change: &dyn Fn()| {
            let plan = Plan::open(&at("p.toml")).unwrap();
            let job = plan.job(0).unwrap();
            change();
            let answered = Worker::new(&plan).answer(job);
            crate::sweep::plan::unchanged(answered.files).map(|()| answered.row.error).map_err(|e| e.to_string())
        };
        assert_eq!(said(&|| {}), Ok(None));
        let replaced = said(&|| {
            copy(&known[1], at("next")).unwrap();
            rename(at("next"), at("a.json")).unwrap();
        });
        assert!(replaced.clone().unwrap_err().contains("a.json: changed while the sweep ran"), "{replaced:?}");
        let rewritten = said(&|| write(at("r.toml"), format!("{rule}\n")).unwrap());
        assert!(rewritten.clone().unwrap_err().contains("r.toml: changed"), "{rewritten:?}");
        assert_eq!(said(&|| {}), Ok(None));
    }
}
