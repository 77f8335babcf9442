//! `tussle live`.

use super::ending;
use super::service::duration;
use crate::global::Global;
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tussle_evidence::Evidence;
use tussle_host::evidence_file;
use tussle_host::images::HostImages;
use tussle_host::live::{LiveImages, Options, RATE_HZ_MAX, RATE_HZ_MIN, Sampling, Watching, Way, Who};

/// Watch running programs: no rebuild, no PMU, any language; x86-64 Linux.
///
/// Samples where threads stand with a software clock, works out from their registers which memory they touch, and
/// confirms contended words with debug registers. Nothing is written to the program and it is never stopped. It needs
/// the right to use perf events on that process; docs/live.md says what to change where that is refused.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub whom: Whom,
    /// How long to watch (`10s`, `500ms`, `2m`); a command that ends earlier ends it.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    duration: Duration,
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
}

/// Whom to watch and how hard.
#[derive(clap::Args)]
pub struct Whom {
    /// Processes by number, separated by commas.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// All processes of a user, by name or number.
    #[arg(short, long, value_name = "USER", conflicts_with = "pid")]
    user: Option<String>,
    /// All processes of a control group, and of those in it: its folder, or its path as in /proc/PID/cgroup.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "user", "kernel"])]
    cgroup: Option<PathBuf>,
    /// The kernel itself, on all CPUs; as root.
    #[arg(short, long, conflicts_with_all = ["pid", "user"])]
    kernel: bool,
    /// The running kernel's file with debug information: names of fields and types.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    vmlinux: Option<PathBuf>,
    /// What to sample: a `software` clock, or the `pmu`'s precise loads and stores [default: the PMU where it opens]
    #[arg(long, value_name = "WHICH", value_enum)]
    clock: Option<Clock>,
    /// Samples per second of a running thread, 50 to 10000 [default: 4000, less where the budget has no room]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(RATE_HZ_MIN..=RATE_HZ_MAX))]
    rate: Option<u64>,
    /// Share of the program's CPU time that watching may take, 0.01% to 50%.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = percent)]
    overhead: f64,
    /// Do not use debug registers: samples only.
    #[arg(long)]
    no_confirm: bool,
    /// A command to run and watch.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD",
        conflicts_with_all = ["pid", "user", "cgroup", "kernel"]
    )]
    command: Vec<OsString>,
}

/// What is sampled.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Clock {
    /// The kernel's clock of each thread: every machine has it.
    Software,
    /// Precise loads and stores of the processor: PEBS, IBS.
    Pmu,
}

/// How long to watch.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wanted = duration(text)?;
    match (Duration::from_millis(10)..=Duration::from_secs(604_800)).contains(&wanted) {
        true => Ok(wanted),
        false => Err("from 10ms to 168h".into()),
    }
}

/// `2%` or `2` as 0.02.
fn percent(text: &str) -> Result<f64, String> {
    let n: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is no percentage"))?;
    match (0.01..=50.0).contains(&n) {
        true => Ok(n / 100.0),
        false => Err("from 0.01% to 50%".into()),
    }
}

impl Whom {
    /// For a heading.
    pub fn title(&self) -> String {
        let pids: Vec<String> = self.pid.iter().map(ToString::to_string).collect();
        let words: Vec<_> = self.command.iter().map(|c| c.to_string_lossy()).collect();
        match (&self.user, &self.cgroup) {
            _ if self.kernel => "-k".into(),
            (Some(user), _) => format!("-u {user}"),
            (None, Some(group)) => format!("--cgroup {}", group.display()),
            _ if pids.is_empty() => words.join(" "),
            _ => format!("-p {}", pids.join(",")),
        }
    }

    /// As the library wants it.
    pub fn options(&self) -> anyhow::Result<Options> {
        let who = match (&self.user, &self.cgroup) {
            _ if self.kernel => Who::Kernel(self.vmlinux.clone()),
            (Some(user), _) => Who::User(user.clone()),
            (None, Some(group)) => Who::Cgroup(group.clone()),
            _ if !self.pid.is_empty() => Who::Pids(self.pid.clone()),
            _ if !self.command.is_empty() => {
                super::no_flag(&self.command)?;
                Who::Command(self.command.clone())
            }
            _ => anyhow::bail!("whom to watch? -p PID, -u USER, --cgroup PATH, -k or -- COMMAND"),
        };
        let sampling = match self.clock {
            None => Sampling::Best,
            Some(Clock::Software) => Sampling::Software,
            Some(Clock::Pmu) => Sampling::Pmu,
        };
        let confirm = !self.no_confirm;
        Ok(Options { who, sampling, rate_hz: self.rate, overhead: self.overhead, confirm })
    }
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    evidence_file::check(&args.output)?;
    let mut watching = Watching::start(args.whom.options()?)?;
    watching.remarks.drain(..).for_each(|r| global.remark(r));
    watch(&mut watching, args.duration, global);
    let (mut evidence, problems) = named(&mut watching);
    problems.iter().for_each(|p| global.remark(p));
    if args.redact {
        tussle_evidence::redact(&mut evidence);
    }
    let written = evidence_file::write(&args.output, &evidence);
    global.remark(spent(&watching, args));
    if let Some(pid) = watching.still_runs() {
        global.remark(format!("the command goes on, as process {pid}"));
    }
    evidence_file::seen_from_here(&mut evidence);
    let report = tussle_report::report(&evidence, &[], &tussle_report::Options::default());
    global.print(&report.view)?;
    // What was seen is shown even where there is no room for it.
    written.context("nothing is left of this but the report")?;
    Ok(ExitCode::SUCCESS)
}

/// What watching cost.
fn spent(watching: &Watching, args: &Args) -> String {
    let o = watching.overhead();
    let share = o.share.map_or("unknown".into(), |s| format!("{:.2}%", 100.0 * s));
    let paused = o.paused_ns as f64 / 1e9 / watching.seconds().max(1e-3);
    // Below a hundredth it is the end of a tick.
    let paused = match paused < 0.01 {
        true => String::new(),
        false => format!(", for which the clock paused {:.0}% of the time", 100.0 * paused),
    };
    let wakeup = match o.way {
        Way::Cpus => {
            ", its wake-ups nothing, as the clock is that of all CPUs: others lose their part".into()
        }
        _ => format!(", a wake-up {:.1} µs", o.cost.switch_ns as f64 / 1e3),
    };
    format!(
        "{} samples at {} Hz in {:.1} s of the program's CPU time, {} hits of debug registers, {} wake-ups of \
         threads: cost the program about {share} (budget {:.2}%{paused}; a sample costs {:.1} µs here, a hit \
         {:.1} µs, arming a word {:.1} µs{wakeup}; tussle itself ran for {:.2} s while no CPU was idle) -> {}",
        watching.session.counts.samples,
        o.rate_hz,
        o.cpu_ns as f64 / 1e9,
        o.hits,
        o.switches,
        100.0 * args.whom.overhead,
        o.cost.sample_ns as f64 / 1e3,
        o.cost.trap_ns as f64 / 1e3,
        o.cost.arming_ns as f64 / 1e3,
        o.own_ns as f64 / 1e9,
        args.output.display()
    )
}

fn watch(watching: &mut Watching, duration: Duration, global: &Global) {
    // What was seen until then is kept.
    ending::heed();
    let step = Duration::from_millis(500);
    let mut left = duration;
    while !left.is_zero() {
        watching.step(left.min(step));
        left = left.saturating_sub(step);
        let samples = watching.session.counts.samples;
        global.draw(format!("{:.0} s, {samples} samples", watching.seconds()));
        if watching.finished() || ending::asked() {
            break;
        }
    }
    global.erase();
    if let Some(why) = watching.unconfirmed() {
        global.remark(format!("lines are not confirmed: {why}; samples only"));
    }
}

/// The evidence so far, with names, and what could not be named.
pub fn named(watching: &mut Watching) -> (Evidence, Vec<tussle_naming::Unnamed>) {
    let (mut evidence, operands) = watching.evidence();
    let registers = operands.into_iter().collect();
    let mut images = LiveImages { procs: watching.procs(), host: HostImages::new() };
    let problems = tussle_naming::name_sampled(&mut evidence, &mut images, &registers);
    (evidence, problems)
}
