//! `tussle hunt`: the whole loop. Build, record, report, advise, patch, rebuild, prove.

mod behaviour;
mod course;
mod fate;
mod gate;
mod kernel;
mod left;
mod parted;
mod patches;
mod predicted;
mod reason;
mod screen;
mod shipped;
mod siblings;
mod steps;

use crate::global::Global;
use anyhow::Context;
use course::Phase;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_contention::analysis::{Question, contention};
use tussle_host::evidence_file;

/// Where the patch is put.
pub const DEFAULT_PATCH: &str = "tussle.patch";

/// Find, explain, fix and prove false sharing in a program.
///
/// Builds a copy of DIR with instrumentation, runs it, names the fields that fight over cache lines, writes a patch
/// and verifies its offsets by compiling it, then rebuilds both versions without instrumentation and measures them
/// against each other in randomly ordered pairs. A patch counts only when the patched program was recorded again,
/// prints what it printed before, and saves at least half of what was promised, with nothing new; all cases are tried
/// in turn. DIR itself is never written to. The evidence stays in tussle.data, the patch in tussle.patch; so does what
/// there is of both when Ctrl-C or SIGTERM ends it. Exit status:
/// 0 nothing that a layout helps, or all of it repaired and not slower; 1 something is left; 2 nothing was seen, or an
/// error.
#[derive(clap::Args)]
pub struct Args {
    /// Folder with the program's sources, or a single source file.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Shell command that builds it (default: what the folder is made for: cargo, meson, cmake, configure, make ..).
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// Command to run in the built folder, split into words (default: the one executable that the build makes).
    #[arg(long, value_name = "COMMAND", conflicts_with = "command")]
    run: Option<String>,
    /// Pairs of runs to measure (default: as many as fit into about a minute, 5 to 40, ending early when decided).
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    #[command(flatten)]
    service: super::service::ServiceArgs,
    /// What is measured (default: wall time), as in `tussle bench`: last-number, regex:PATTERN, json:POINTER out of
    /// what the program, or its load, prints.
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// What such a figure means, as in `tussle bench`.
    #[arg(long, value_name = "KIND", value_parser = ["cost", "rate", "total"])]
    kind: Option<String>,
    /// Stop after the patch: do not measure.
    #[arg(long)]
    no_bench: bool,
    /// Nobody else needs the layouts, as in `tussle fix`: patch structs of which the sources show that others may.
    #[arg(long)]
    abi_ok: bool,
    /// Where to put the evidence.
    #[arg(short, long, value_name = "EVIDENCE", default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
    /// Where to put the patch.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATCH)]
    patch: PathBuf,
    /// Command and arguments to run in the built folder.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    kernel: kernel::KernelArgs,
}

impl Args {
    /// A folder that says itself how it is built and run.
    fn of(dir: &Path) -> Args {
        Args {
            dir: dir.to_path_buf(),
            build: None,
            run: None,
            pairs: None,
            service: super::service::ServiceArgs::default(),
            metric: None,
            kind: None,
            no_bench: false,
            abi_ok: false,
            kernel: kernel::KernelArgs::default(),
            output: PathBuf::new(),
            patch: PathBuf::new(),
            command: Vec::new(),
        }
    }
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if args.kernel.is_asked_for()? {
        return kernel::run(args, global);
    }
    let hunt = steps::Hunt::new(args, global)?;
    hunt.course.heed().context("cannot heed signals")?;
    let shown = hunt.course.show(global);
    let steps::First { built, argv, evidence, said } = hunt.first()?;
    let unpatched = behaviour::Unpatched::new(said);
    evidence_file::write(&args.output, &evidence)
        .with_context(|| format!("cannot keep the evidence in {}", args.output.display()))?;
    hunt.course.keeps_evidence(&args.output);
    let seen = contention(&evidence, &Question::observed());
    let mut story = screen::Story::new(&evidence, &seen, &args.output);
    story.transfers_max = hunt.file.transfers_max;
    hunt.file.frozen_unseen(&evidence).iter().for_each(|remark| hunt.remark(remark));
    if story.finding() {
        if !args.no_bench {
            hunt.program_for_use(&argv).iter().for_each(|exe| story.look_at(exe));
        }
        let repairs = hunt.repair(&built, &argv, &evidence, &unpatched);
        prove(&hunt, args, &argv, repairs, &mut story)?;
    }
    let another = story.patch_file.is_none() && args.patch.exists();
    story.other_patch = another.then(|| display(&args.patch));
    hunt.course.end();
    drop(shown);
    global.print(&story.view())?;
    Ok(ExitCode::from(story.status()))
}

/// `record --project`: builds an instrumented copy of `dir` as its `tussle.toml` or its build system says, and records;
/// with the status that its program ended with.
pub fn record_project(
    dir: &Path,
    service: &super::service::ServiceArgs,
    global: &Global,
) -> anyhow::Result<(tussle_evidence::Evidence, u8)> {
    let args = Args { service: service.clone(), no_bench: true, ..Args::of(dir) };
    let run = steps::Hunt::new(&args, global)?.once()?;
    Ok((run.evidence, run.status))
}

/// `predict --check DIR`: what a hunt predicts for its patch and then measures, as a line of the diary; the folder and
/// the current one stay as they are.
pub fn closed_loop(dir: &Path, global: &Global) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir()?;
    let args = Args { patch: scratch.path().join("patch"), ..Args::of(dir) };
    let hunt = steps::Hunt::new(&args, global)?;
    let steps::First { built, argv, evidence, said } = hunt.first()?;
    let unpatched = behaviour::Unpatched::new(said);
    let seen = contention(&evidence, &Question::observed());
    let mut story = screen::Story::new(&evidence, &seen, &args.output);
    anyhow::ensure!(story.finding(), "nothing was found that a layout helps: nothing to predict");
    let repairs = hunt.repair(&built, &argv, &evidence, &unpatched);
    anyhow::ensure!(
        repairs.scratch.is_some(),
        "no patch was proved: nothing to predict; `tussle hunt {} --no-bench` says why",
        tussle_render::shell::file(&dir.to_string_lossy())
    );
    prove(&hunt, &args, &argv, repairs, &mut story)?;
    anyhow::ensure!(story.failures.is_empty(), "{}", story.failures.join("; "));
    let (answer, measured) =
        story.predicted.as_ref().zip(story.measured.as_ref()).context("nothing was predicted")?;
    let why =
        || answer.void().unwrap_or_else(|| "too few runs for an interval of the measured effect".into());
    predicted::line(&evidence.run.command.join(" "), answer, measured)
        .with_context(|| format!("no prediction: {}", why()))
}

/// Keeps the patch and measures both versions without instrumentation.
fn prove(
    hunt: &steps::Hunt<'_>,
    args: &Args,
    argv: &[OsString],
    repairs: gate::Repairs,
    story: &mut screen::Story<'_>,
) -> anyhow::Result<()> {
    if let Some(patched) = repairs.scratch.as_ref() {
        story.diff = repairs.diff(&hunt.dir)?;
        // From here on a failure is told on the screen: the findings and the patch stand without it.
        if !args.no_bench {
            let evidence = story.evidence;
            let mut predicted = None;
            let mut predict = |before| {
                hunt.begin(Phase::Predict, "predicting what it will bring");
                predicted = Some(predicted::predict(evidence, &repairs, before, hunt.global));
                if let Some(Err(e)) = &predicted {
                    hunt.remark(format_args!("no prediction: {e:#}"));
                }
            };
            match hunt.measure(args.pairs, argv, patched.path(), &mut predict) {
                Ok(paired) => story.measured = Some(paired),
                Err(e) => story.failures.push(format!("not measured: {e:#}")),
            }
            story.predicted = predicted.and_then(Result::ok);
            if let Some((answer, measured)) = story.predicted.as_ref().zip(story.measured.as_ref()) {
                predicted::keep(&evidence.run.command.join(" "), answer, measured);
            }
        }
        if story.is_slower() {
            story.diff.clear();
        } else {
            std::fs::write(&args.patch, &story.diff)
                .with_context(|| format!("cannot write the patch to {}", args.patch.display()))?;
            story.patch_file = Some(display(&args.patch));
        }
    }
    story.repairs = Some(repairs);
    Ok(())
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
