//! `tussle bench`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tussle_bench::design::Order;
use tussle_bench::metric::{Extract, known};
use tussle_bench::sample::{self, Results, Sample};
use tussle_bench::{Criterion, Metric, MetricKind, Outcome, Paired, aa, family, view};
use tussle_host::bench::{self, Command, Plan, Progress, Until};
use tussle_render::{Format, Node, Span, Tone, View};

use crate::global::Global;

/// Run commands in randomly ordered pairs and compare them.
///
/// With --checkout revisions are built and one command runs in each. The first arm is the reference. Exit status 1
/// when another one regressed against it.
#[derive(clap::Args)]
pub struct Args {
    /// Commands, each with an optional name before `=` (for a variable write `env X=1 cmd`)
    #[arg(value_name = "[NAME=]CMD")]
    arms: Vec<String>,
    #[command(flatten)]
    checkouts: super::checkouts::Revisions,
    /// Pairs to run
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: usize,
    /// `decided`: look after every pair and stop when the answer is plain
    #[arg(long, value_name = "decided", value_parser = ["decided"])]
    until: Option<String>,
    /// Most pairs under --until decided
    #[arg(long, value_name = "N", default_value_t = 200)]
    pairs_max: usize,
    /// Rounds thrown away first
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// wall, cpu, last-number, regex:PATTERN, json:POINTER, or a known format: will-it-scale, pft, unixbench, read:NAME
    /// for a result of any tool that `compare` reads
    #[arg(long, default_value = "wall")]
    metric: String,
    /// What a metric out of the output means: lower is better, work per second, work per run
    #[arg(long, value_parser = ["cost", "rate", "total"], default_value = "rate")]
    kind: String,
    /// Relative difference that nobody minds, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    margin: f64,
    /// Longest time of one run
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Pin every run to these CPUs: 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Switch off address randomisation
    #[arg(long)]
    fixed_addresses: bool,
    /// Measure the noise first: the reference against itself
    #[arg(long)]
    aa: bool,
    /// Do not read hardware and kernel counters
    #[arg(long)]
    no_counters: bool,
    /// `blocked` runs all of one arm, then all of the next (to see what that does)
    #[arg(long, value_parser = ["random", "blocked"], default_value = "random")]
    order: String,
    /// Where every sample goes, as JSON Lines
    #[arg(short, long, value_name = "FILE", default_value = "tussle-bench.jsonl")]
    output: PathBuf,
    /// Go on with the same benchmark that was interrupted: its complete rounds are in the file of --output
    #[arg(long)]
    resume: bool,
    /// Also the figures behind the answer: both arms, tests, counters
    #[arg(long, short)]
    verbose: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let question = question(args.margin)?;
    let (arms, commits, _checkouts) = if args.checkouts.given() {
        let mut all = args.checkouts.prepare(&args.arms, args.aa, global)?;
        (std::mem::take(&mut all.arms), std::mem::take(&mut all.commits), Some(all))
    } else {
        (arms(&args.arms, args.aa)?, Vec::new(), None)
    };
    let mut nodes = Vec::new();
    if args.aa {
        nodes.push(section(
            "noise",
            "The command against itself",
            against_itself(args, &arms[0], question, global)?,
        ));
        if arms.len() < 2 {
            global.print(&View { kind: "bench", schema_version: 1, nodes })?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let plan = Plan { commits, ..plan(args, arms, question)? };
    let done = if args.resume { interrupted(&plan, &args.output, global)? } else { Vec::new() };
    let results = resumed(&plan, done, &args.output, global)?;
    let (comparisons, regressed) = comparisons(&results, question, args.verbose, global)?;
    nodes.extend(comparisons);
    let behind = if brief(args.verbose, global) { "; -v shows the figures behind it" } else { "" };
    let text = format!(
        "Every sample is in {}. An interval covers one session; `compare --join` takes several{behind}.",
        args.output.display()
    );
    nodes.push(Node::Text(vec![Span { text, tone: Tone::Dim }]));
    global.print(&View { kind: "bench", schema_version: 1, nodes })?;
    Ok(ExitCode::from(u8::from(regressed)))
}

/// A margin in percent as a question.
pub fn question(margin_percent: f64) -> anyhow::Result<Criterion> {
    if !(0.0..100.0).contains(&margin_percent) {
        bail!("--margin is a percentage from 0 to 100, not {margin_percent}");
    }
    Ok(Criterion { margin: margin_percent / 100.0, ..Criterion::default() })
}

/// On a screen the answer alone, unless more is asked for; documents have it all.
fn brief(verbose: bool, global: &Global) -> bool {
    !verbose && global.format() == Format::Text
}

/// Every candidate against the first arm, and whether one regressed.
pub fn comparisons(
    results: &Results,
    question: Criterion,
    verbose: bool,
    global: &Global,
) -> anyhow::Result<(Vec<Node>, bool)> {
    let all = family::judge(results, question)?;
    let regressed = all.iter().any(|j| j.verdict.outcome == Outcome::Regressed);
    let several = all.len() > 1;
    let nodes = |j: &family::Judged| match brief(verbose, global) {
        true => view::brief(&j.verdict),
        false => view::nodes(&j.paired, &j.verdict, question),
    };
    let items = all.iter().map(|j| {
        let name = &j.paired.names[1];
        section(name, if several { name } else { "" }, nodes(j))
    });
    let list = Node::List { key: "comparisons".into(), items: items.collect() };
    let plot = (global.format() == Format::Html).then(|| Node::Plot(view::samples_plot(results)));
    Ok((view::overview(&all).into_iter().chain([list]).chain(plot).collect(), regressed))
}

/// What an interrupted run of this very plan has measured.
fn interrupted(plan: &Plan, file: &Path, global: &Global) -> anyhow::Result<Vec<Sample>> {
    let name = || format!("--resume: {}", file.display());
    let text = tussle_host::whole::read_to_string(file).with_context(name)?;
    let (old, _) = sample::parse(&text).with_context(name)?;
    let done = bench::resume::rounds(&old, plan).with_context(name)?;
    let rounds = done.len() / plan.arms.len().max(1);
    global.remark(format_args!("{}: going on after {rounds} complete pairs", file.display()));
    Ok(done)
}

/// The noise of one arm, measured with its own samples kept in a file of their own.
fn against_itself(
    args: &Args,
    arm: &Command,
    question: Criterion,
    global: &Global,
) -> anyhow::Result<Vec<Node>> {
    let again = Command { name: format!("{} again", arm.name), ..arm.clone() };
    let plan = Plan { until: Until::Pairs(args.pairs), ..plan(args, vec![arm.clone(), again], question)? };
    noise(&measure(&plan, &args.output.with_extension("aa.jsonl"), global)?)
}

fn section(key: &str, title: &str, nodes: Vec<Node>) -> Node {
    Node::Section { key: key.into(), title: title.into(), nodes }
}

fn noise(results: &Results) -> anyhow::Result<Vec<Node>> {
    let paired = Paired::from_results(results, 0, 1)?;
    let noise = aa::noise(&paired, &mut tussle_stats::Rng::new(1)).context("the noise cannot be judged")?;
    Ok(view::noise_nodes(&noise))
}

/// `NAME=CMD` or `CMD`; unnamed commands are called by their text when it is short.
fn arms(texts: &[String], alone_is_enough: bool) -> anyhow::Result<Vec<Command>> {
    if texts.len() < 2 && !(alone_is_enough && texts.len() == 1) {
        bail!("give two commands or more: tussle bench 'old=./prog.old' 'new=./prog'");
    }
    let named = texts.iter().enumerate().map(|(i, text)| {
        let is_name = |n: &str| !n.is_empty() && n.chars().all(|c| c.is_alphanumeric() || "_.-".contains(c));
        match text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, command)) => Command::shell(name, command),
            None if text.len() <= 24 => Command::shell(text, text),
            None => Command::shell(&char::from(b'A' + (i % 26) as u8).to_string(), text),
        }
    });
    Ok(named.collect())
}

fn plan(args: &Args, arms: Vec<Command>, question: Criterion) -> anyhow::Result<Plan> {
    let until = match args.until {
        Some(_) => Until::Decided { question, pairs_max: args.pairs_max },
        None => Until::Pairs(args.pairs),
    };
    let timeout = args.timeout.map(Duration::try_from_secs_f64).transpose().context("--timeout")?;
    Ok(Plan {
        until,
        warmup: args.warmup,
        seed: args.seed,
        metric: metric(&args.metric, &args.kind)?,
        timeout,
        cpus: args.cpus.as_deref().map(cpu_list).transpose()?,
        fixed_addresses: args.fixed_addresses,
        counters: !args.no_counters,
        order: if args.order == "blocked" { Order::Blocked } else { Order::RandomWithinPairs },
        ..Plan::new(arms, args.pairs)
    })
}

/// The metric that `--metric` and `--kind` describe.
pub fn metric(text: &str, kind: &str) -> anyhow::Result<Metric> {
    let kind = match kind {
        "cost" => MetricKind::Cost,
        "total" => MetricKind::Total,
        _ => MetricKind::Rate,
    };
    if let Some(pattern) = text.strip_prefix("regex:") {
        return Ok(Metric::regex(pattern, kind));
    }
    if let Some(pointer) = text.strip_prefix("json:") {
        return Ok(Metric { name: pointer.into(), kind, from: Extract::Json(pointer.into()) });
    }
    if let Some(name) = text.strip_prefix("read:").or_else(|| (text == "read").then_some("")) {
        let shown = if name.is_empty() { "result" } else { name };
        return Ok(Metric { name: shown.into(), kind, from: Extract::Read(name.into()) });
    }
    match text {
        "wall" => Ok(Metric::wall()),
        "cpu" => Ok(Metric::cpu()),
        "last-number" => Ok(Metric { name: text.into(), kind, from: Extract::LastNumber }),
        _ => known(text).with_context(|| {
            format!(
                "--metric {text}: known are wall, cpu, last-number, regex:PATTERN, json:POINTER, \
                 will-it-scale, pft, unixbench, read:NAME"
            )
        }),
    }
}

/// `0,2-3` as 0, 2, 3.
pub fn cpu_list(text: &str) -> anyhow::Result<Vec<usize>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number =
            |t: &str| t.trim().parse::<usize>().with_context(|| format!("{part} is no CPU or range of CPUs"));
        let (from, to) = (number(from)?, number(to)?);
        if to < from || to > 8191 {
            bail!("{part} is no range of CPUs");
        }
        out.extend(from..=to);
    }
    Ok(out)
}

/// Runs the plan with its samples in a file and progress on a terminal; an older regular file becomes `.old`.
pub(super) fn measure(plan: &Plan, file: &Path, global: &Global) -> anyhow::Result<Results> {
    resumed(plan, Vec::new(), file, global)
}

/// The same after what an earlier start has done.
fn resumed(plan: &Plan, done: Vec<Sample>, file: &Path, global: &Global) -> anyhow::Result<Results> {
    for arm in &plan.arms {
        global.remark(format_args!("{}: {}", arm.name, arm.text()));
    }
    // A device or a pipe is written, never moved away.
    if file.is_file() {
        let mut old = file.as_os_str().to_owned();
        old.push(".old");
        std::fs::rename(file, old).with_context(|| format!("cannot keep the older {}", file.display()))?;
    }
    let mut log = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let mut watch = |p: Progress<'_>| global.draw(progress(&p));
    let run = bench::resume(plan, done, Some(&mut log), &mut watch)?;
    global.erase();
    match run.stopped {
        Some(why) => {
            let more = if file.is_file() { "; --resume goes on with them" } else { "" };
            let kept = format!("samples so far are in {}{more}", file.display());
            Err(anyhow::Error::new(why).context(kept))
        }
        None => Ok(run.results),
    }
}

fn progress(p: &Progress<'_>) -> String {
    let width = 24;
    let full = width * p.done / p.planned.max(1);
    let bar: String = (0..width).map(|i| if i < full { '#' } else { '.' }).collect();
    let left = p.left().as_secs();
    format!("[{bar}] {}/{} runs, {}:{:02} left", p.done, p.planned, left / 60, left % 60)
}
