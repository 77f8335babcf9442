//! `tussle bisect`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tussle_bench::Status;
use tussle_bench::bisect::{Bisection, Costs, Knowledge, Levels};
use tussle_bench::verdict::percent;
use tussle_host::bench::{self, Command, Plan};
use tussle_host::revisions::{self, Builds, Revision};
use tussle_layout::diff::{Options, Side, TypeDiff, changed, diff, type_view};
use tussle_layout::phases::Where;
use tussle_model::{LineSize, TypeTable};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View};

use super::bench::metric;
use super::source::Source;
use crate::global::Global;

/// Find the commit that changed a noisy benchmark, with few builds and runs.
///
/// A merge that it names is searched further, along the branch that it merged. Works on any git repository; it is only
/// read. Exit status 1 when no commit could be named.
#[derive(clap::Args)]
pub struct Args {
    /// The repository
    #[arg(default_value = ".")]
    repository: PathBuf,
    /// A commit before the change
    #[arg(long, value_name = "REV")]
    good: String,
    /// A commit after it
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    bad: String,
    /// Builds a checkout, in its folder
    #[arg(long, value_name = "CMD", default_value = "make")]
    build: String,
    /// Runs the benchmark, in the folder of a checkout
    #[arg(long, value_name = "CMD")]
    run: String,
    /// As in `tussle bench`
    #[arg(long, default_value = "wall")]
    metric: String,
    /// As in `tussle bench`
    #[arg(long, value_parser = ["cost", "rate", "total"], default_value = "rate")]
    kind: String,
    /// Executable whose layouts matter, relative to a checkout [default: the only one that the build makes]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Types whose layouts matter [default: all]
    #[arg(short = 'C', value_name = "NAME,..", value_delimiter = ',')]
    names: Vec<String>,
    /// Stop when a commit has this probability
    #[arg(long, value_name = "SHARE", default_value_t = 0.97)]
    confidence: f64,
    /// Most runs
    #[arg(long, value_name = "N", default_value_t = 400)]
    runs_max: usize,
    /// Longest time of one run
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Keeps builds from one bisection to the next [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

/// Difference of the ends below which nobody should believe a commit, in standard errors.
const SCORE_MIN: f64 = 4.0;

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if !(0.5..1.0).contains(&args.confidence) {
        bail!("--confidence is a share from 0.5 to below 1, not {}", args.confidence);
    }
    let repository = revisions::top(&args.repository)?;
    let mut commits = revisions::range(&repository, &args.good, &args.bad)?;
    let temporary = tempfile::tempdir()?;
    let cache = args.cache.clone().unwrap_or_else(|| temporary.path().to_path_buf());
    std::fs::create_dir_all(&cache)?;
    let cache = cache.canonicalize()?;
    global.remark(format_args!("{} commits; build: {}; run: {}", commits.len() - 1, args.build, args.run));
    let builds = Builds { repository, cache, build: args.build.clone() };
    // The merge that was named before, should nothing be found within its branch.
    let mut merge: Option<Vec<Node>> = None;
    loop {
        let found = search(args, global, &commits, &builds)?;
        let inside =
            found.commit.as_deref().map(|c| revisions::merged(&builds.repository, c)).transpose()?.flatten();
        if let Some(inside) = inside {
            global
                .remark(format_args!("a merge: looking into the {} commits of its branch", inside.len() - 1));
            (commits, merge) = (inside, Some(found.nodes));
            continue;
        }
        let named = found.commit.is_some() || merge.is_some();
        let nodes = if found.commit.is_some() { found.nodes } else { merge.unwrap_or(found.nodes) };
        global.print(&View { kind: "bisect", schema_version: 1, nodes })?;
        return Ok(ExitCode::from(u8::from(!named)));
    }
}

/// What one range gave.
struct Found {
    nodes: Vec<Node>,
    /// Hash of the commit that was named.
    commit: Option<String>,
}

/// Searches a range. An end that cannot be built or run (`exit 125` of git's own bisection says so) moves inwards.
fn search(args: &Args, global: &Global, commits: &[Revision], builds: &Builds) -> anyhow::Result<Found> {
    let (mut first, mut last) = (0, commits.len());
    let mut failures = Vec::new();
    loop {
        let mut search = Search::new(args, global, &commits[first..last], builds.clone())?;
        search.failures = std::mem::take(&mut failures);
        let unusable = search.all()?;
        let Some(end) = unusable else {
            let (nodes, named) = search.report();
            let commit = named.then(|| search.commits[search.bisection.best().0].hash.clone());
            return Ok(Found { nodes, commit });
        };
        failures = std::mem::take(&mut search.failures);
        (first, last) = if end == 0 { (first + 1, last) } else { (first, last - 1) };
        if last - first < 2 {
            let why = failures.last().cloned().unwrap_or_default();
            bail!("no two commits of the range can be measured: {why}");
        }
        global.remark(format_args!(
            "an end of the range cannot be measured: it is now {} .. {}",
            commits[first].short(),
            commits[last - 1].short()
        ));
    }
}

struct Search<'a> {
    args: &'a Args,
    global: &'a Global,
    commits: &'a [Revision],
    builds: Builds,
    bisection: Bisection,
    plan: Plan,
    /// Types of built commits, by index, for the layout prior.
    layouts: Vec<(usize, TypeTable)>,
    failures: Vec<String>,
    build_s: (usize, f64),
    run_s: (usize, f64),
}

impl<'a> Search<'a> {
    fn new(
        args: &'a Args,
        global: &'a Global,
        commits: &'a [Revision],
        builds: Builds,
    ) -> anyhow::Result<Self> {
        let costs = Costs { build: 5.0, run: 1.0 };
        let bisection =
            Bisection::new(commits.len(), Knowledge::Unknown, costs).context("too few commits")?;
        let mut plan = Plan::new(vec![Command::shell("run", &args.run)], 1);
        plan.metric = metric(&args.metric, &args.kind)?;
        plan.timeout = args.timeout.map(Duration::try_from_secs_f64).transpose().context("--timeout")?;
        let none = (0, 0.0);
        Ok(Search {
            args,
            global,
            commits,
            builds,
            bisection,
            plan,
            layouts: Vec::new(),
            failures: Vec::new(),
            build_s: none,
            run_s: none,
        })
    }

    /// Runs until it is settled; the index of an end of the range that cannot be measured.
    fn all(&mut self) -> anyhow::Result<Option<usize>> {
        let last = self.commits.len() - 1;
        while self.bisection.total_runs() < self.args.runs_max {
            let step = self.bisection.next();
            let usable = self.step(step.commit, step.runs)?;
            if !usable && (step.commit == 0 || step.commit == last) {
                return Ok(Some(step.commit));
            }
            if self.settled() {
                break;
            }
            if self.failures.len() > self.commits.len() {
                bail!("nothing between the ends can be measured: {}", self.failures.join("; "));
            }
        }
        Ok(None)
    }

    /// Probable enough, and the levels apart far enough that it is not one unlucky run.
    fn settled(&self) -> bool {
        let apart = self.bisection.levels().is_some_and(|l| l.score().abs() >= SCORE_MIN);
        apart && self.bisection.best().1 >= self.args.confidence
    }

    /// Builds a commit and runs it; false when it cannot be.
    fn step(&mut self, commit: usize, runs: usize) -> anyhow::Result<bool> {
        let revision = &self.commits[commit];
        let fresh = !self.bisection.built(commit);
        let built = match self.builds.ensure(revision) {
            Ok(built) => built,
            Err(e @ revisions::RevisionError::Build { .. }) => {
                self.give_up(commit, e.to_string());
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        if let Some(seconds) = built.seconds {
            self.build_s = (self.build_s.0 + 1, self.build_s.1 + seconds);
        }
        if fresh {
            self.learn_layout(commit, &built.folder);
        }
        self.plan.arms[0].folder = Some(built.folder);
        for _ in 0..runs {
            let (sample, said) = bench::once(&self.plan, self.bisection.total_runs())?;
            let Some(value) = sample.value.filter(|_| sample.status == Status::Ok) else {
                self.give_up(commit, format!("{}: {} {said}", revision.short(), sample.status));
                return Ok(false);
            };
            self.run_s = (self.run_s.0 + 1, self.run_s.1 + sample.wall_s);
            self.bisection.observe(commit, value.ln());
        }
        let mean = |(n, sum): (usize, f64), otherwise: f64| if n > 0 { sum / n as f64 } else { otherwise };
        let run = mean(self.run_s, 1.0);
        self.bisection.set_costs(Costs { build: mean(self.build_s, 5.0 * run), run });
        self.progress(commit);
        Ok(true)
    }

    fn give_up(&mut self, commit: usize, why: String) {
        self.global.remark(&why);
        self.failures.push(why);
        self.bisection.skip(commit);
    }

    /// The posterior as it stands; it is flat while only the ends were measured.
    fn progress(&self, commit: usize) {
        let run = self.bisection.total_runs();
        let here = self.commits[commit].short();
        let likeliest = self.likeliest(3);
        if likeliest.first().is_none_or(|(_, p)| *p < 1.5 / (self.commits.len() - 1) as f64) {
            return self
                .global
                .remark(format_args!("run {run} at {here}: every commit is as likely as any other"));
        }
        let (low, high) = self.bisection.credible(0.9);
        let share = |(c, p): &(usize, f64)| format!("{} {:.0}%", self.commits[*c].short(), 100.0 * p);
        let list: Vec<String> = likeliest.iter().map(share).collect();
        let width = high - low + 1;
        let within = if width == 1 { "one commit".into() } else { format!("{width} commits") };
        self.global.remark(format_args!("run {run} at {here}: {}; 90% within {within}", list.join(", ")));
    }

    /// The commits with most of the posterior, at least 0.1% each.
    fn likeliest(&self, n: usize) -> Vec<(usize, f64)> {
        let posterior = self.bisection.posterior();
        let mut order: Vec<(usize, f64)> = posterior.into_iter().enumerate().skip(1).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        order.into_iter().take(n).filter(|(_, p)| *p >= 0.001).collect()
    }

    /// The layout prior: a commit whose types equal those of a commit built before gets its fingerprint.
    fn learn_layout(&mut self, commit: usize, folder: &Path) {
        let Some(table) = self.table(folder) else { return };
        let same = self.layouts.iter().position(|(_, other)| self.differing(other, &table).is_empty());
        let fingerprint = same.unwrap_or(self.layouts.len());
        self.bisection.set_layout(commit, fingerprint as u64);
        // Positions are fingerprints: a second copy of the same types is not kept.
        if same.is_none() {
            self.layouts.push((commit, table));
        }
    }

    fn table(&self, folder: &Path) -> Option<TypeTable> {
        let file = match &self.args.binary {
            Some(file) => folder.join(file),
            None => match revisions::executables(folder).as_slice() {
                [only] => only.clone(),
                _ => return None,
            },
        };
        Some(Source::open(&file, &self.args.names, self.global).ok()?.table)
    }

    fn differing(&self, old: &TypeTable, new: &TypeTable) -> Vec<TypeDiff> {
        let Some(line) = LineSize::new(64) else { return Vec::new() };
        let options = Options { line, at: Where::Any, hot: Vec::new() };
        let side = |table| Side { table, btf: false };
        let pairs = changed(old, new).changed.into_iter();
        pairs.map(|(a, b)| diff(side(old), a, side(new), b, &options)).filter(|d| !d.is_same()).collect()
    }

    fn report(&mut self) -> (Vec<Node>, bool) {
        let (best, probability) = self.bisection.best();
        let levels = self.bisection.levels();
        let named = self.settled();
        let mut nodes = vec![self.sentence(best, probability, levels, named)];
        nodes.push(Node::Facts(self.facts(best, probability, levels)));
        nodes.push(self.posterior_table());
        if named {
            nodes.extend(self.layout_change(best));
        }
        if !self.failures.is_empty() {
            let rows = self.failures.iter().map(|f| vec![Cell::text(f.clone()).tone(Tone::Warn)]).collect();
            let columns = vec![Column::text("failure", "commits left out")];
            nodes.push(Node::Table { key: "failures".into(), columns, rows });
        }
        (nodes, named)
    }

    fn sentence(&self, best: usize, probability: f64, levels: Option<Levels>, named: bool) -> Node {
        let commit = &self.commits[best];
        let effect = levels.map_or_else(|| "unknown".into(), |l| effect_text(&l));
        let text = if named {
            let (short, subject) = (commit.short(), &commit.subject);
            format!("{short} \"{subject}\" changed {}: {effect}", self.plan.metric.name)
        } else if levels.is_none_or(|l| l.score().abs() < SCORE_MIN) {
            format!(
                "no difference between the ends is to be seen in {} runs ({effect})",
                self.bisection.total_runs()
            )
        } else {
            let (short, percent) = (commit.short(), 100.0 * probability);
            format!(
                "not settled: {short} is the likeliest with {percent:.0}%; more runs (--runs-max) are needed"
            )
        };
        Node::Text(vec![Span { text, tone: if named { Tone::Strong } else { Tone::Warn } }])
    }

    fn facts(&self, best: usize, probability: f64, levels: Option<Levels>) -> Vec<Fact> {
        let fact = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
        let commit = &self.commits[best];
        let built = (0..self.commits.len()).filter(|&c| self.bisection.built(c)).count();
        let effect =
            levels.map_or_else(Cell::unknown, |l| Cell::number((l.new - l.old).exp(), effect_text(&l)));
        vec![
            fact("commit", "commit", Cell::text(commit.hash.clone()).tone(Tone::Name)),
            fact("subject", "subject", Cell::text(commit.subject.clone())),
            fact(
                "probability",
                "probability",
                Cell::number(probability, format!("{:.1}%", 100.0 * probability)),
            ),
            fact("effect", "effect", effect),
            fact("runs", "runs", Cell::count(self.bisection.total_runs() as u64)),
            fact("builds", "builds", Cell::count(built as u64)),
            fact("build_s", "building", Cell::number(self.build_s.1, format!("{:.1} s", self.build_s.1))),
            fact("run_s", "running", Cell::number(self.run_s.1, format!("{:.1} s", self.run_s.1))),
        ]
    }

    fn posterior_table(&self) -> Node {
        let rows = self.likeliest(5).into_iter().map(|(c, p)| {
            vec![
                Cell::text(self.commits[c].short()).tone(Tone::Name),
                Cell::number(p, format!("{:.1}%", 100.0 * p)),
                Cell::text(self.commits[c].subject.clone()),
            ]
        });
        let columns = vec![
            Column::text("commit", "commit"),
            Column::number("probability", "probability"),
            Column::text("subject", "subject"),
        ];
        Node::Table { key: "posterior".into(), columns, rows: rows.collect() }
    }

    /// What the named commit did to layouts: its build against that of its parent.
    fn layout_change(&mut self, best: usize) -> Option<Node> {
        let tables: Vec<TypeTable> = [best - 1, best]
            .iter()
            .filter_map(|&c| self.table(&self.builds.ensure(&self.commits[c]).ok()?.folder))
            .collect();
        let [old, new] = tables.as_slice() else { return None };
        let diffs = self.differing(old, new);
        if diffs.is_empty() {
            let text = "The layouts of this commit and its parent are the same.".to_string();
            return Some(Node::Text(vec![Span::plain(text)]));
        }
        Some(Node::List { key: "layout_changes".into(), items: diffs.iter().map(type_view).collect() })
    }
}

/// `+84.2% (+80.1% .. +88.4%)`.
fn effect_text(l: &Levels) -> String {
    let difference = l.new - l.old;
    let df = (l.runs.0 + l.runs.1).saturating_sub(2).max(1) as f64;
    let half = tussle_stats::dist::t_quantile(0.975, df).unwrap_or(f64::NAN) * l.error;
    let [middle, low, high] = [difference, difference - half, difference + half].map(|x| percent(x.exp()));
    format!("{middle} ({low} .. {high}), {} and {} runs", l.runs.0, l.runs.1)
}
