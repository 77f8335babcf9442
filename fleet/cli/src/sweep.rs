//! `tussle sweep`: the same question at every point of a product of parameters, its answers in a dataset.

mod cpu;
mod job;
mod plan;
mod ray;
mod task;
mod write;

use crate::args::Args;
use crate::dataset::Dataset;
use anyhow::{Context, bail};
use plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use task::{Answered, Worker};
pub(crate) use task::{AnswerRow, CheckRow, PredictionRow, Shared, is_unjudged};
pub(crate) use write::{ANSWERS, CHECKS, PREDICTIONS, read_answers};
use write::{Last, Writer};

/// How often progress is said where nobody watches a terminal.
const QUIET_PROGRESS: Duration = Duration::from_secs(10);
/// Points that one batch or part may have: more would be lost with who is killed.
const BATCH_MAX: u64 = 1_000_000;
/// How long quick answers are collected.
const TOGETHER: Duration = Duration::from_millis(20);

/// Points of less than this are taken so many at a time: asking the clock costs a fiftieth of one.
const QUICK_NS: u64 = 1_000_000;
const CLOCKED: usize = 8;

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.only(&["sweep"])?;
    let [path] = args.words.as_slice() else { bail!("one plan: tussle sweep PLAN.toml --to FOLDER") };
    let mut plan = Plan::open(path)?;
    plan.begin().with_context(|| path.display().to_string())?;
    let jobs = range(args, plan.len())?;
    if args.has("list") {
        let unused = ["to", "threads", "engine", "master", "batch"].into_iter().find(|name| args.has(name));
        return unused.map_or_else(|| list(&plan, jobs), |name| bail!("--{name}: --list answers no point"));
    }
    let dataset = Dataset::open_or_create(args.path("to").context("--to FOLDER: where do the answers go?")?)?;
    match args.text("engine").as_deref() {
        None | Some("threads") if args.has("master") => bail!("--master: of --engine ray only"),
        None | Some("threads") => on_threads(args, &plan, jobs, &dataset),
        Some("ray") => ray::run(args, &plan, path, jobs, &dataset),
        Some(other) => bail!("--engine {other}: threads or ray"),
    }
}

/// `A..B`, B not included, as far as there are jobs; all jobs by default.
fn range(args: &Args, jobs: u64) -> anyhow::Result<Range<u64>> {
    let Some(text) = args.text("jobs") else { return Ok(0..jobs) };
    let ends = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (a, b): (u64, u64) =
        ends.with_context(|| format!("--jobs {text}: A..B is needed, B not included"))?;
    if a > b {
        bail!("--jobs {text}: it begins after its end; A..B is needed, B not included");
    }
    if a >= jobs {
        bail!("--jobs {text}: this plan has {jobs} jobs, 0..{jobs}; an array of parts is too long");
    }
    // The last part of an array of equal parts reaches beyond the end.
    Ok(a..b.min(jobs))
}

fn list(plan: &Plan, jobs: Range<u64>) -> anyhow::Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for job in jobs {
        let job = plan.job(job)?;
        writeln!(out, "{} {} {}", job.number, job.task, job.text)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Jobs whose answer is not there yet. Numbers only: there may be a hundred million.
fn pending(plan: &Plan, jobs: Range<u64>, done: &HashMap<u64, Last>) -> anyhow::Result<Vec<u64>> {
    let mut out = Vec::new();
    for number in jobs {
        // A task takes a tenth of a quick point: only a job that has an answer needs it here.
        let whole = done.get(&number).map(|last| plan.job(number).map(|j| j.task == last.1)).transpose()?;
        if whole != Some(true) {
            out.push(number);
        }
    }
    Ok(out)
}

fn on_threads(args: &Args, plan: &Plan, jobs: Range<u64>, dataset: &Dataset) -> anyhow::Result<ExitCode> {
    let all = jobs.end - jobs.start;
    let done = write::finished(dataset, &plan.key)?;
    let open = pending(plan, jobs, &done)?;
    let threads = args.threads()?.unwrap_or(tussle_host::threads::cpus().into());
    let mut progress = Progress::new(args, open.len(), all);
    let mut writer = Writer::new(dataset, plan, args.count("batch", BATCH_MAX)?);
    let crew = Crew {
        plan,
        open: &open,
        worker: Worker::new(plan),
        next: AtomicUsize::new(0),
        in_points: AtomicU64::new(0),
    };
    let (to, from) = channel();
    let failed = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (to, crew) = (to.clone(), &crew);
            scope.spawn(move || crew.work(Answers::new(to)));
        }
        drop(to);
        // `from` is gone with the first answer that cannot be kept, so that nobody works for nothing.
        let mut failed = 0u64;
        for some in from {
            for answer in some? {
                failed += u64::from(answer.row.error.is_some());
                writer.add(answer)?;
                progress.one();
            }
        }
        writer.flush()?;
        anyhow::Ok(failed)
    })?;
    plan.as_it_began()?;
    let sums = Sums {
        done: progress.done as u64,
        failed,
        cpu_s: cpu::process_ns() as f64 / 1e9,
        points_s: crew.in_points.into_inner() as f64 / 1e9,
    };
    progress.end(&sums.words(all));
    if args.has("sums") {
        println!("{}", serde_json::to_string(&sums)?);
    }
    Ok(ExitCode::from(if failed > 0 { 2 } else { 0 }))
}

/// What threads share that answer points.
struct Crew<'a> {
    plan: &'a Plan,
    /// Numbers of the points that have no answer.
    open: &'a [u64],
    worker: Worker<'a>,
    /// The first that nobody took.
    next: AtomicUsize,
    /// CPU time in the points.
    in_points: AtomicU64,
}

impl Crew<'_> {
    /// Takes points until there are none, or until it is of no use to go on.
    fn work(&self, mut answers: Answers) {
        let mut n = 1;
        loop {
            let at = self.next.fetch_add(n, Relaxed);
            let numbers = match self.open.get(at..self.open.len().min(at + n)) {
                None | Some([]) => break,
                Some(numbers) => numbers,
            };
            let jobs = numbers.iter().map(|&number| self.plan.job(number)).collect::<anyhow::Result<Vec<_>>>();
            let jobs = match jobs {
                Ok(jobs) => jobs,
                Err(e) => return answers.failed(e),
            };
            let start = cpu::thread_ns();
            let some: Vec<Answered> = jobs.into_iter().map(|job| self.worker.answer(job)).collect();
            let spent = cpu::thread_ns().saturating_sub(start);
            self.in_points.fetch_add(spent, Relaxed);
            n = if spent < QUICK_NS * numbers.len() as u64 { CLOCKED } else { 1 };
            if !some.into_iter().all(|answer| answers.add(answer)) {
                return;
            }
        }
        answers.send();
    }
}

/// Answers on their way to the one who writes, or why they are none.
type Sent = anyhow::Result<Vec<Answered>>;

/// Quick answers go together: waking the one who writes costs more than they do.
struct Answers {
    to: Sender<Sent>,
    some: Vec<Answered>,
    since: Instant,
}

impl Answers {
    fn new(to: Sender<Sent>) -> Answers {
        Answers { to, some: Vec::new(), since: Instant::now() }
    }

    /// False: it is of no use to go on.
    fn add(&mut self, answer: Answered) -> bool {
        self.some.push(answer);
        self.since.elapsed() < TOGETHER || self.send()
    }

    fn failed(&self, e: anyhow::Error) {
        let _ = self.to.send(Err(e));
    }

    fn send(&mut self) -> bool {
        self.since = Instant::now();
        self.to.send(Ok(std::mem::take(&mut self.some))).is_ok()
    }
}

/// What is said meanwhile, on stderr.
struct Progress {
    quiet: bool,
    terminal: bool,
    todo: usize,
    done: usize,
    start: Instant,
    said: Instant,
}

impl Progress {
    fn new(args: &Args, todo: usize, all: u64) -> Progress {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let p = Progress { quiet: args.has("quiet"), terminal, todo, done: 0, start: now, said: now };
        if all > todo as u64 && !p.quiet {
            eprintln!("tussle: {} of {all} points are there already", all - todo as u64);
        }
        p
    }

    fn one(&mut self) {
        self.done += 1;
        let wait = if self.terminal { Duration::from_millis(200) } else { QUIET_PROGRESS };
        if self.quiet || self.said.elapsed() < wait {
            return;
        }
        self.said = Instant::now();
        let left = self.start.elapsed().as_secs_f64() / self.done as f64 * (self.todo - self.done) as f64;
        let (start, end) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        eprint!("{start}tussle: {} of {} points, {left:.0} s left{end}", self.done, self.todo);
    }

    fn end(&self, words: &str) {
        if !self.quiet {
            eprintln!("{}tussle: {words}", if self.terminal { "\r\x1b[K" } else { "" });
        }
    }
}

/// What a sweep, or a part of it on another machine, did (`--sums` prints it for who started the part).
#[derive(Debug, Default, Serialize, Deserialize)]
struct Sums {
    done: u64,
    failed: u64,
    /// CPU time of the program, and the part of it in the verb itself: the rest is this engine's.
    cpu_s: f64,
    points_s: f64,
}

impl Sums {
    /// The last line, of a sweep of so many points.
    fn words(&self, all: u64) -> String {
        let errors = match self.failed {
            0 => String::new(),
            n => format!(", {n} with an error (`tussle fleet sweep`)"),
        };
        let Sums { done, cpu_s, points_s, .. } = self;
        format!("{done} of {all} points done now{errors}; {cpu_s:.1} s of CPU, {points_s:.1} s of them in the points")
    }
}
