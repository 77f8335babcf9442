//! `tussle fix`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use tussle_advise::patch::body::{Source, find};
use tussle_advise::patch::{self, Refusal};
use tussle_advise::{Advice, Edit, Options};
use tussle_evidence::Evidence;
use tussle_host::evidence_file;
use tussle_host::fix::{self, Build, Patched, Request};
use tussle_host::project::{Project, System};
use tussle_model::SourceLoc;

use crate::global::Global;

/// Turn a move into a verified source patch.
#[derive(clap::Args)]
pub struct Args {
    /// What was recorded.
    evidence: Option<PathBuf>,
    /// The struct to change.
    #[arg(short = 'C', long = "class", value_name = "NAME")]
    name: String,
    /// FIELD:after:FIELD, FIELD:before:FIELD, FIELD:first, swap:A,B, align:FIELD=N, gap:FIELD=N, element=N,
    /// element:FIELD=N (every element of a member array), pad=N, alloc=N or FIELD@OFFSET (the move or exchange that
    /// puts it there); may be given several times. Default: the best advice.
    #[arg(long = "move", value_name = "MOVE")]
    moves: Vec<Edit>,
    /// Folder of the sources; built in a copy, changed only with --apply.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Source below --dir that defines the struct, where several define one of its name.
    #[arg(long = "in", value_name = "SOURCE", requires = "moves")]
    source: Option<PathBuf>,
    /// Shell command that builds the folder.
    #[arg(long, value_name = "CMD", conflicts_with = "compdb")]
    build: Option<String>,
    /// Compilation database.
    #[arg(long, value_name = "FILE")]
    compdb: Option<PathBuf>,
    /// Nobody else needs the layout: patch structs of uapi/ and of public headers, and those that go through write,
    /// send, ioctl or mapped files, or have assertions on sizes and offsets.
    #[arg(long)]
    abi_ok: bool,
    /// Write the patch into the folder, once it is verified.
    #[arg(long)]
    apply: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let evidence = evidence(args, global)?;
    let (dir, build) = folder(args, global);
    let mut announce = |command: &str| global.remark(format_args!("in a copy: {command}"));
    let (patched, bill) = if args.moves.is_empty() {
        let evidence = evidence.context("no evidence and no --move: record first, or say what to move")?;
        best(args, &dir, &evidence, &build, global, &mut announce)?
    } else {
        let decl =
            evidence.as_ref().and_then(|e| Some(e.types.aggregate(e.types.find(&args.name)?)?.decl.clone()));
        let named = args.source.as_ref().map(|source| defining(source, &dir, &args.name)).transpose()?;
        let decl = named.or(decl.flatten());
        let (dir, type_name) = (dir.as_path(), args.name.as_str());
        let bill = |edits: &[Edit]| {
            tussle_advise::evaluate(evidence.as_ref()?, &args.name, edits, &Options::default()).ok()
        };
        let sites = bill(&args.moves).map_or(Vec::new(), |b| b.sites);
        let (decl, edits, build, sites) = (decl.as_ref(), args.moves.as_slice(), &build, sites.as_slice());
        let request =
            Request { dir, type_name, decl, edits, build, abi_ok: args.abi_ok, sites, workshop: None };
        let patched = fix::patch_tree(&request, &mut announce)?;
        let bill = bill(&patched.edits);
        (patched, bill)
    };
    if args.apply {
        fix::apply(&dir, &patched)?;
        for file in &patched.files {
            global.remark(format_args!("wrote {}", dir.join(&file.path).display()));
        }
    }
    global.print(&fix::view(&patched, bill.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

/// The place of the struct in the source that was named.
fn defining(source: &Path, dir: &Path, name: &str) -> anyhow::Result<SourceLoc> {
    let path = dir.join(source);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let defined = match source.extension().is_some_and(|e| e == "rs") {
        true => patch::rust::defines(&text, name),
        false => !matches!(find(&Source::new(&text), name, None), Err(Refusal::NotFound { .. })),
    };
    anyhow::ensure!(defined, "{} does not define {name}", path.display());
    Ok(SourceLoc { file: source.to_string_lossy().into_owned(), line: 0 })
}

/// What is patched, and how it is built: of a package of a cargo workspace the workspace, by cargo.
fn folder(args: &Args, global: &Global) -> (PathBuf, Build) {
    match (&args.build, &args.compdb) {
        (Some(command), _) => return (args.dir.clone(), Build::Shell(command.clone())),
        (_, Some(path)) => return (args.dir.clone(), Build::Compdb(path.clone())),
        _ => {}
    }
    let real = args.dir.canonicalize().ok();
    let project = real.and_then(|d| Project::find(&d, None).ok());
    match project.filter(|p| matches!(p.system, System::Member(..))) {
        Some(p) => {
            global.remark(format_args!(
                "{} belongs to the workspace {}",
                args.dir.display(),
                p.dir.display()
            ));
            let build = Build::of(&p.system, &p.dir);
            (p.dir, build)
        }
        None => (args.dir.clone(), Build::find(&args.dir)),
    }
}

/// The named evidence, or the default one if it is there.
fn evidence(args: &Args, global: &Global) -> anyhow::Result<Option<Evidence>> {
    let default = Path::new(evidence_file::DEFAULT_PATH);
    match &args.evidence {
        Some(path) => read_evidence(path, global).map(Some),
        None if default.exists() => read_evidence(default, global).map(Some),
        None => Ok(None),
    }
}

/// Reads an evidence file; what is wrong with parts of it goes to stderr.
pub fn read_evidence(path: &Path, global: &Global) -> anyhow::Result<Evidence> {
    let (evidence, problems) = evidence_file::read(path)?;
    for p in problems {
        global.remark(p);
    }
    Ok(evidence)
}

/// The best advice that the source allows.
fn best(
    args: &Args,
    dir: &Path,
    evidence: &Evidence,
    build: &Build,
    global: &Global,
    announce: &mut dyn FnMut(&str),
) -> anyhow::Result<(Patched, Option<Advice>)> {
    let mut report = tussle_advise::advise(evidence, &args.name, &Options::default())?;
    tussle_advise::sort_best(&mut report.advices);
    let moves = |a: &Advice| a.edits.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(" ");
    let chosen = fix::patch_best(dir, &report.advices, build, args.abi_ok, announce)?;
    let chosen = chosen.with_context(|| {
        let ty = tussle_render::shell::quoted(&args.name);
        format!("nothing to fix: `tussle advise -C {ty}` says what was looked at")
    })?;
    for (i, error) in &chosen.refused {
        global.remark(format_args!("not {}: {error}", moves(&report.advices[*i])));
    }
    Ok((chosen.patched, Some(report.advices.swap_remove(chosen.index))))
}
