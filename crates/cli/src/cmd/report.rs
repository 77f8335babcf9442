//! `tussle report`.

use crate::cmd::source::{Source, phase_in};
use crate::global::Global;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_advise::abi::Shapes;
use tussle_advise::elsewhere::{Change, Elsewhere, Moved, OtherBuild};
use tussle_advise::turns::{self, Envelope};
use tussle_contention::analysis::{Bases, Question, Split};
use tussle_evidence::{Evidence, Problem};
use tussle_host::evidence_file;
use tussle_host::source_text::SourceText;
use tussle_model::LineSize;
use tussle_render::View;
use tussle_report::what_if::what_if;
use tussle_report::{self as report, Options};

/// Show contended lines by field.
///
/// Ranks fights over cache lines by the stores that find the line elsewhere and the copies that readers lose, and
/// names fields, threads, code and objects. A fight is a case that a layout helps when the best layout removes at
/// least a quarter of it and at least 1,000; the exit status is 1 exactly then, also where only luck hid it: the
/// allocator may put the object elsewhere in the next run, the linker in the next build. It is 2 when nothing was seen
/// that could be judged. Others are listed with their class, latent ones, too: other lines or addresses would pay.
#[derive(clap::Args)]
pub struct Args {
    /// Evidence; with OTHER the older one of two to compare.
    #[arg(value_name = "EVIDENCE", default_value = evidence_file::DEFAULT_PATH)]
    evidence: PathBuf,
    /// A second evidence, shown side by side with the first.
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Only these types or variables, separated by commas (`struct stats`, `counter`).
    #[arg(short = 'C', value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
    /// Line size in bytes: 64, or 128 for machines with such lines or line pairs.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = line_bytes)]
    line: u32,
    /// What if every object began this many bytes into a line? Each object is then taken by itself.
    #[arg(long, value_name = "BYTES")]
    phase: Option<u64>,
    /// Window of virtual time in accesses, instead of the recorder's.
    #[arg(long, value_name = "ACCESSES")]
    window: Option<u64>,
    /// Rank and judge by the threads' recorded shares of the work, or by equal ones.
    #[arg(long, value_enum, default_value = "observed")]
    split: SplitArg,
    /// `c2c`: the Pareto table of `perf c2c report` with fields, for what `tussle import` read. `type`: every struct
    /// with what its fields met, as `perf annotate --data-type` shows it.
    #[arg(long, value_enum, default_value = "tussle")]
    style: StyleArg,
    /// What makes the exit status 1: a case that a layout helps, or any that is listed.
    #[arg(long, value_enum, default_value = "layout")]
    fail_on: FailOn,
    /// Replay a kernel recording's accesses in their order with fields elsewhere: `TYPE: MOVE; MOVE`, a MOVE as of
    /// `tussle fix --move`, or FIELD@OFFSET to change places with what lies there. Transfers in a model, no speed.
    #[arg(long, value_name = "CHANGE", conflicts_with_all = ["other", "layout", "style"])]
    what_if: Option<Change>,
    /// The same with all layouts as in this file: another kernel's vmlinux, BTF or snapshot.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["other", "style"])]
    layout: Option<PathBuf>,
    /// Show lines of source files below this folder beside the places of code, unless they changed since.
    #[arg(long, value_name = "DIR", default_value = ".")]
    sources: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StyleArg {
    Tussle,
    C2c,
    Type,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Layout,
    Any,
}

#[derive(Clone, Copy, ValueEnum)]
enum SplitArg {
    Observed,
    Even,
}

fn line_bytes(s: &str) -> Result<u32, String> {
    match s {
        "64" => Ok(64),
        "128" => Ok(128),
        _ => Err("64 or 128".into()),
    }
}

/// The report of --what-if or --layout.
fn elsewhere(args: &Args, e: &Evidence, options: &Options, global: &Global) -> anyhow::Result<View> {
    let line = options.question.line.bytes();
    let ask = |other: &dyn Elsewhere, envelope: &Envelope| {
        what_if(e, options, other, envelope).context(
            "this evidence holds no ordered log of accesses: `tussle record-kernel` writes one (unless --ops made it \
             too long)",
        )
    };
    if let Some(change) = &args.what_if {
        let shapes = Shapes::new(&e.types);
        return ask(&Moved::new(e, &shapes, change)?, &turns::replayed(e, line, change));
    }
    let path = args.layout.as_deref().context("--what-if or --layout")?;
    let mut wanted: Vec<String> = e.turn_lengths().flat_map(OtherBuild::wanted).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let other = Source::open(path, &wanted, global)?;
    let label = path.display().to_string();
    let envelope =
        Envelope::new(e, |e| turns::reached(e, line, &OtherBuild::new(e, &other.table, &label).ok()?));
    ask(&OtherBuild::new(e, &other.table, &label).with_context(|| label.clone())?, &envelope)
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let (first, problems) = read(&args.evidence)?;
    if global.folded() {
        print!("{}", report::pareto::folded(&first));
        return Ok(status(args, &first, &problems, &options));
    }
    if args.what_if.is_some() || args.layout.is_some() {
        check_names(args, &[&first])?;
        global.print(&elsewhere(args, &first, &options, global)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.style != StyleArg::Tussle {
        global.print(&styled(args, &first, &options)?)?;
        return Ok(status(args, &first, &problems, &options));
    }
    let mut report = match &args.other {
        None => {
            check_names(args, &[&first])?;
            report::report(&first, &problems, &options)
        }
        Some(path) => {
            let (second, more) = read(path)?;
            check_names(args, &[&first, &second])?;
            for p in problems.iter().chain(&more) {
                global.remark(p);
            }
            report::compare(&first, &second, [&problems, &more], &options)
        }
    };
    let mut sources = SourceText::below(&args.sources, first.run.started_unix_s)
        .with_context(|| format!("--sources {}", args.sources.display()))?;
    let here = std::env::current_dir().unwrap_or_default();
    report::excerpt::attach(&mut report.view, &mut |file, line| sources.seen_from(&here, file, line));
    global.print(&report.view)?;
    // The process ends here: millions of rows need not be given back one by one.
    std::mem::forget((first, report.view));
    Ok(ExitCode::from(report.outcome.status(args.fail_on == FailOn::Any)))
}

/// What the plain report ends with: another form of it finds no less.
fn status(args: &Args, e: &Evidence, problems: &[Problem], options: &Options) -> ExitCode {
    ExitCode::from(report::report(e, problems, options).outcome.status(args.fail_on == FailOn::Any))
}

/// The report in a style that others made known.
fn styled(args: &Args, e: &Evidence, options: &Options) -> anyhow::Result<View> {
    if args.other.is_some() {
        bail!("--style shows one evidence");
    }
    if args.style == StyleArg::Type {
        check_names(args, &[e])?;
        return Ok(report::by_type::by_type(e, options));
    }
    if e.samples.is_none() {
        bail!(
            "{}: --style c2c is for samples of a PMU, which `tussle import` reads",
            args.evidence.display()
        );
    }
    Ok(report::pareto::pareto(e, options))
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        let line = LineSize::new(self.line).context("impossible line size")?;
        let bases = phase_in(line, self.phase)?.map_or(Bases::Observed, Bases::Phase);
        let split = match self.split {
            SplitArg::Observed => Split::Observed,
            SplitArg::Even => Split::Even,
        };
        let question = Question { line, bases, window_vt: self.window, split };
        let elsewhere = self.evidence != Path::new(evidence_file::DEFAULT_PATH);
        let file = elsewhere.then(|| self.evidence.display().to_string());
        Ok(Options { names: self.names.clone(), question, file })
    }
}

fn read(path: &Path) -> anyhow::Result<(Evidence, Vec<Problem>)> {
    let (mut evidence, problems) = evidence_file::read(path)?;
    evidence_file::seen_from_here(&mut evidence);
    Ok((evidence, problems))
}

/// A name that no object has is a mistake of the caller, not an empty report.
fn check_names(args: &Args, evidences: &[&Evidence]) -> anyhow::Result<()> {
    for name in &args.names {
        if evidences.iter().any(|e| report::is_known(e, name)) {
            continue;
        }
        let known: Vec<String> = evidences.iter().flat_map(|e| report::known_names(e, 12)).collect();
        bail!("nothing recorded has the name or type `{name}`; there is: {}", known.join(", "));
    }
    Ok(())
}
