//! `tussle advise`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use tussle_advise::Edit;
use tussle_advise::advice::{Options, Ordered, Refuses};
use tussle_advise::builds::Build;
use tussle_advise::class::{self, Class};
use tussle_contention::analysis::{Question, contention};
use tussle_contention::fields::Namer;
use tussle_debuginfo::dwarf::Want;
use tussle_evidence::Evidence;
use tussle_host::companions::{FileCompanions, open_bytes};
use tussle_host::evidence_file;
use tussle_host::fix::{Foresight, is_ordered};
use tussle_model::{LineSize, SourceLoc, TypeTable};

use crate::global::Global;

/// Structs named beside the first one where no name is asked for.
const OTHERS_MAX: usize = 4;

/// Propose moves of fields, each with its bill.
#[derive(clap::Args)]
pub struct Args {
    /// What was recorded.
    #[arg(default_value = evidence_file::DEFAULT_PATH)]
    evidence: PathBuf,
    /// The struct to change; without it the one that a layout helps most.
    #[arg(short = 'C', long = "class", value_name = "NAME")]
    name: Option<String>,
    /// Moves per proposal at most; above 1 they are found one after the other.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u8).range(1..=3))]
    moves: u8,
    /// Members whose offset must stay.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    frozen: Vec<String>,
    /// Other builds (executables, vmlinux, BTF, snapshots) in which the advice must hold.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    builds: Vec<PathBuf>,
    /// Line size; the default is the recorded machine's.
    #[arg(short = 'c', long = "cacheline", value_name = "BYTES")]
    line: Option<u32>,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let mut evidence = super::fix::read_evidence(&args.evidence, global)?;
    evidence_file::seen_from_here(&mut evidence);
    let name = match &args.name {
        Some(name) => name.clone(),
        None => match worst(&evidence, args, global) {
            Ok(name) => name,
            Err(nothing) => {
                global.print(&tussle_report::advice::nothing(&nothing))?;
                return Ok(ExitCode::SUCCESS);
            }
        },
    };
    let actors = evidence.actors.iter().any(|a| a.kind != tussle_evidence::ActorKind::Unknown);
    if evidence.samples.is_some() && !(evidence.run.sees.writes && actors) {
        global.remark(format!(
            "{}: imported samples that tell no stores or no threads (unknown, not zero): edits are listed, their \
             size is not known; `perf c2c record` with stores or `tussle record` gives what is missing",
            args.evidence.display()
        ));
        let line = u64::from(args.line.unwrap_or(evidence.run.line_bytes));
        let signs = tussle_advise::signs::signs(&evidence, &name, line)?;
        global.print(&tussle_report::signs::view(&signs))?;
        return Ok(ExitCode::SUCCESS);
    }
    if evidence.samples.as_ref().is_some_and(|s| !s.is_empty()) {
        global.remark(
            "this evidence holds samples: the numbers are in samples, good for comparing edits with each \
             other and with nothing else",
        );
    }
    let tables =
        args.builds.iter().map(|p| types_of(p, &name)).collect::<anyhow::Result<Vec<TypeTable>>>()?;
    let files: Vec<String> = args.builds.iter().map(|p| p.display().to_string()).collect();
    let builds = files.iter().zip(&tables).map(|(name, table)| Build { name, table }).collect();
    let line = args.line.map(u64::from);
    let foresight = Foresight::here(&evidence.types, &name);
    let refuses = |edits: &[Edit]| foresight.as_ref().and_then(|f| f.refuses(edits));
    let ordered = |name: &str, decl: Option<&SourceLoc>| is_ordered(Path::new("."), name, decl);
    let (moves, frozen) = (args.moves.into(), args.frozen.clone());
    let (refuses, ordered): (Option<Refuses<'_>>, Option<Ordered<'_>>) = (Some(&refuses), Some(&ordered));
    let options = Options { line, moves, frozen, builds, refuses, ordered, ..Options::default() };
    let report = tussle_advise::advise(&evidence, &name, &options)?;
    let line = LineSize::new(args.line.unwrap_or(evidence.run.line_bytes)).unwrap_or(LineSize::L64);
    global.print(&tussle_report::advice::drawn(&evidence, &report, line))?;
    Ok(ExitCode::SUCCESS)
}

/// The name of the struct or variable with the best proposal; others are named on stderr. Where there is none, why.
fn worst(evidence: &Evidence, args: &Args, global: &Global) -> Result<String, String> {
    let line = args.line.map(u64::from);
    let mut names: Vec<String> = Vec::new();
    for advice in tussle_advise::advice::best(evidence, &Options { line, ..Options::default() }) {
        if !names.contains(&advice.type_name) {
            names.push(advice.type_name);
        }
    }
    let mut names = names.into_iter();
    let first = names.next().map_or_else(|| without_change(evidence), Ok)?;
    let option = |name: String| format!("-C {}", tussle_render::shell::quoted(&name));
    let others: Vec<String> = names.take(OTHERS_MAX).map(option).collect();
    if !others.is_empty() {
        global.remark(format!("{first} first; then {}", others.join(", ")));
    }
    Ok(first)
}

/// Where no change is known: the struct of the worst case that a layout helps; where it has no name, what to do.
fn without_change(evidence: &Evidence) -> Result<String, String> {
    let (namer, seen) = (Namer::new(evidence), contention(evidence, &Question::observed()));
    let judged = class::judge(evidence, &namer, &seen);
    let Some(helped) = judged.iter().find(|j| j.class == Class::LayoutHelps) else {
        return Err("No change of any struct is worth a proposal here".into());
    };
    helped.to_change(evidence).ok_or_else(|| {
        format!(
            "A layout helps {}, but no patch of tussle's: {}",
            helped.group.title(),
            helped.by_hand(evidence)
        )
    })
}

/// The types of another build.
fn types_of(path: &std::path::Path, name: &str) -> anyhow::Result<TypeTable> {
    let bytes = open_bytes(path).with_context(|| path.display().to_string())?;
    let names = [name.to_string()];
    let mut companions = FileCompanions::new(path);
    let (table, _) = tussle_debuginfo::open((*bytes).as_ref(), &Want::Names(&names), &mut companions)
        .with_context(|| path.display().to_string())?;
    anyhow::ensure!(table.find(name).is_some(), "{}: no struct {name} in it", path.display());
    Ok(table)
}
