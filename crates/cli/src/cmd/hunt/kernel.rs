//! `tussle hunt --kernel`: a Linux source tree built, booted in the emulator and recorded; a patch, built; the patched
//! kernel booted and recorded again; what it would bring on a machine with many CPUs.

mod screen;

use super::Args;
use super::course::{Course, Phase};
use crate::cmd::record_kernel::{self, Recorded, WorkArgs};
use crate::global::Global;
use anyhow::Context;
use screen::{Attempt, Story};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_advise::advice::{self, Advice, Options};
use tussle_advise::again::{Again, Moved, Sign};
use tussle_advise::{AdviseError, Edit};
use tussle_evidence::Evidence;
use tussle_host::evidence_file;
use tussle_host::fix::{self, Build, Patched, Request};
use tussle_host::kernel_tree::KernelTree;

/// Patches that are built and recorded until one survives: each takes a build of the kernel.
const ATTEMPTS_MAX: usize = 2;

/// Proposals that the sources may refuse.
const PROPOSALS_MAX: usize = 8;

/// What is added to the name of the evidence for the patched kernel's.
const PATCHED: &str = ".patched";

/// Of a kernel.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "With --kernel")]
pub struct KernelArgs {
    /// DIR is the source of Linux: build it outside of DIR, boot it in the emulator, record --workload or --run in it,
    /// patch it, build and record it again (docs/kernel.md).
    #[arg(long, conflicts_with_all = ["build", "pairs", "load", "time", "metric", "command"])]
    kernel: bool,
    /// Configuration of the kernel; what the emulator needs is switched on in it [default: the smallest that boots].
    #[arg(long, value_name = "FILE", requires = "kernel")]
    config: Option<PathBuf>,
    /// Build the kernel in this folder and keep it: the next hunt builds only what has changed.
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    keep_build: Option<PathBuf>,
    /// The struct to change; left out, the one that a layout helps most.
    #[arg(short = 'C', long = "class", value_name = "NAME", requires = "kernel")]
    class: Option<String>,
    /// What to change, as in `tussle fix`; left out, what `tussle advise` proposes.
    #[arg(long = "move", value_name = "MOVE", requires = "class")]
    moves: Vec<Edit>,
    #[command(flatten)]
    work: WorkArgs,
}

impl KernelArgs {
    /// The sources are a kernel's.
    ///
    /// # Errors
    /// They are not, and something is said of a guest.
    pub fn is_asked_for(&self) -> anyhow::Result<bool> {
        let option = self.work.given().filter(|_| !self.kernel);
        option.map_or(Ok(self.kernel), |o| {
            anyhow::bail!("{o} is for a kernel's guest: hunt --kernel TREE {o} ..")
        })
    }
}

/// Everything that stays the same while patches come and go.
struct Hunt<'a> {
    args: &'a Args,
    work: &'a WorkArgs,
    tree: KernelTree,
    course: Course,
    global: &'a Global,
}

/// Runs the verb for a kernel.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let work = &args.kernel.work;
    anyhow::ensure!(
        work.has_workload() || args.run.is_some(),
        "what shall the guest do? --workload mmap1 (`tussle record-kernel --help` has more), or --run 'COMMAND'"
    );
    anyhow::ensure!(
        !(work.has_workload() && args.run.is_some()),
        "--workload and --run: the guest does one of both"
    );
    anyhow::ensure!(
        KernelTree::is_one(&args.dir),
        "{} is no source tree of Linux for x86-64 (no Kbuild, Kconfig and arch/x86)",
        args.dir.display()
    );
    // Before minutes of building.
    tussle_host::emulator::find()?;
    let course = Course::new(&args.patch);
    course.heed().context("cannot heed signals")?;
    let shown = course.show(global);
    begin(&course, global, Phase::Build, "building the kernel");
    let mut announce = |command: &str| global.remark(format_args!("outside of the tree: {command}"));
    let tree = KernelTree::new(
        &args.dir,
        args.kernel.config.as_deref(),
        args.kernel.keep_build.as_deref(),
        &mut announce,
    )?;
    let vmlinux = tree.build(false, &mut announce)?;
    let hunt = Hunt { args, work, tree, course, global };
    let before = hunt.record(&vmlinux)?;
    keep(&args.output, &before.evidence)?;
    hunt.course.keeps_evidence(&args.output);
    let mut story = Story::new(&before.evidence, &args.output, !args.kernel.moves.is_empty());
    let proposals = hunt.proposals(&before.evidence)?;
    hunt.try_all(&before.evidence, &proposals, &mut story)?;
    if let Some(chosen) = story.chosen().map(|a| &a.patched) {
        begin(&hunt.course, global, Phase::Predict, "predicting what it would bring");
        story.predicted = Some(super::super::predict::of_kernel(
            &chosen.type_name,
            &chosen.edits,
            &before.evidence,
            global,
        ));
    }
    hunt.course.end();
    drop(shown);
    global.print(&story.view())?;
    Ok(ExitCode::from(story.status()))
}

fn begin(course: &Course, global: &Global, phase: Phase, what: &str) {
    course.begin(phase, what);
    global.remark(what);
}

fn keep(path: &Path, evidence: &Evidence) -> anyhow::Result<()> {
    evidence_file::write(path, evidence)
        .with_context(|| format!("cannot keep the evidence in {}", path.display()))
}

impl Hunt<'_> {
    fn record(&self, vmlinux: &Path) -> anyhow::Result<Recorded> {
        begin(&self.course, self.global, Phase::Record, "recording the kernel in the emulator");
        let args = record_kernel::Args::of(vmlinux, self.args.run.as_ref(), self.work);
        let recorded = record_kernel::recorded(&args, self.global)?.context("nothing was recorded")?;
        self.global.remark(recorded.words());
        Ok(recorded)
    }

    /// What is tried, best first: what was asked for, else advice about the struct, else about the recording.
    fn proposals(&self, e: &Evidence) -> anyhow::Result<Vec<Advice>> {
        let (kernel, options) = (&self.args.kernel, Options::default());
        let unknown = |e: AdviseError| anyhow::Error::from(e);
        let mut all = match &kernel.class {
            None => advice::best(e, &options),
            Some(name) if kernel.moves.is_empty() => {
                tussle_advise::advise(e, name, &options).map_err(unknown)?.advices
            }
            Some(name) => vec![advice::evaluate(e, name, &kernel.moves, &options).map_err(unknown)?],
        };
        all.truncate(PROPOSALS_MAX);
        Ok(all)
    }

    /// Patches, builds and records until one survives.
    fn try_all(&self, before: &Evidence, proposals: &[Advice], story: &mut Story<'_>) -> anyhow::Result<()> {
        for advice in proposals {
            if story.attempts.len() == ATTEMPTS_MAX {
                break;
            }
            let patched = match self.patch(advice) {
                Ok(patched) => patched,
                Err(why) => {
                    story.refused(advice, &why);
                    continue;
                }
            };
            self.tree.patch(&patched.files)?;
            begin(&self.course, self.global, Phase::Build, "building the patched kernel");
            let built =
                self.tree.build(true, &mut |c| self.global.remark(format_args!("outside of the tree: {c}")));
            let vmlinux = match built {
                Ok(vmlinux) => vmlinux,
                Err(why) => {
                    story.refused(advice, &why);
                    continue;
                }
            };
            let after = self.record(&vmlinux)?.evidence;
            let again = Again::of(before, &after, &advice.type_name, &moved(&patched));
            let survives = again.sign() == Sign::Fewer;
            keep(&suffixed(&self.args.output), &after)?;
            story.attempts.push(Attempt { advice: advice.clone(), patched, again, after });
            if survives {
                break;
            }
        }
        let Some(chosen) = story.chosen() else { return Ok(()) };
        // The evidence is that of the patch that is left, not of the last one tried.
        keep(&suffixed(&self.args.output), &chosen.after)?;
        std::fs::write(&self.args.patch, &chosen.patched.diff)
            .with_context(|| format!("cannot write the patch to {}", self.args.patch.display()))?;
        story.patch_file = Some(self.args.patch.clone());
        Ok(())
    }

    fn patch(&self, advice: &Advice) -> Result<Patched, fix::FixError> {
        begin(&self.course, self.global, Phase::Patch, &format!("patching {}", advice.type_name));
        let build = Build::Kernel(Some(self.tree.config()));
        let request = Request {
            dir: &self.args.dir,
            type_name: &advice.type_name,
            decl: advice.decl.as_ref(),
            edits: &advice.edits,
            build: &build,
            abi_ok: self.args.abi_ok,
            sites: &advice.sites,
            workshop: None,
        };
        fix::patch_tree(&request, &mut |c| self.global.remark(format_args!("outside of the tree: {c}")))
    }
}

fn moved(patched: &Patched) -> Vec<Moved> {
    let of = |f: &fix::FieldMove| Moved { path: f.path.clone(), at: [f.before, f.after], size: f.size };
    patched.fields.iter().map(of).collect()
}

fn suffixed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PATCHED);
    name.into()
}
