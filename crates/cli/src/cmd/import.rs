//! `tussle import`.

pub mod input;
pub mod view;

use self::input::Found;
use super::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_evidence::Evidence;
use tussle_host::companions::open_bytes;
use tussle_host::evidence_file;
use tussle_model::TypeTable;
use tussle_perf::guess::{self, Candidate};
use tussle_perf::import::Imported;
use tussle_perf::{import, import_text, joint, mem_report, modules, objects, script, text};

/// Turn what perf recorded into evidence.
///
/// Reads perf.data, or the text of `perf c2c report --stdio`, of
/// `perf script -F pid,tid,ip,sym,addr,data_src,weight,phys_addr`, or of `perf mem report` (best with `-D`).
///
/// Text may be wrapped or flattened by a mailer. With `-k` or `--layout` a line of text gets the type and phase whose
/// fields fit its functions best; `--object` overrides that.
#[derive(clap::Args)]
pub struct Args {
    /// perf.data (several of `perf record --switch-output` are read as one), a folder of `perf record --threads`, or
    /// text; `-` is the standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Kernel with debug information or BTF.
    #[arg(short = 'k', value_name = "VMLINUX", conflicts_with = "layout")]
    kernel: Option<PathBuf>,
    /// Files with layouts to try (binary, BTF, snapshot); several builds may be given.
    #[arg(long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    /// An object that is known: address of its first byte, and its type in the file of -k or --layout.
    #[arg(long, value_name = "ADDR=TYPE", value_parser = object)]
    object: Vec<(u64, String)>,
    /// Which table of a text that holds several, from 1.
    #[arg(long, value_name = "N", default_value_t = 1)]
    table: usize,
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
}

fn object(s: &str) -> Result<(u64, String), String> {
    let (address, name) = s.split_once('=').ok_or("write it as 0xffff888012345678=struct foo")?;
    let digits = address.trim().trim_start_matches("0x");
    let address = u64::from_str_radix(digits, 16).map_err(|_| format!("`{address}` is no hex address"))?;
    Ok((address, name.trim().into()))
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let builds = builds(args, global)?;
    let mut naming = view::Naming::default();
    let mut evidence = read(args, global, &builds, &mut naming)?;
    told(args, &builds, &mut evidence)?;
    naming.apply(&builds, &mut evidence);
    tussle_evidence::lost(&evidence).iter().for_each(|l| global.remark(l));
    if args.redact {
        tussle_evidence::redact(&mut evidence);
    }
    evidence_file::write(&args.output, &evidence)?;
    global.print(&view::view(&evidence, &naming, &args.output))?;
    Ok(ExitCode::SUCCESS)
}

fn builds(args: &Args, global: &Global) -> anyhow::Result<Vec<Source>> {
    args.kernel.iter().chain(&args.layout).map(|p| Source::open(p, &[], global)).collect()
}

/// All files, whatever they are.
fn read(
    args: &Args,
    global: &Global,
    builds: &[Source],
    naming: &mut view::Naming,
) -> anyhow::Result<Evidence> {
    let mut recordings = Vec::new();
    for path in &args.files {
        match input::find(path, input::WHOLE_MAX)? {
            Found::Recording(main, more) => recordings.push((main, more)),
            Found::Bytes(bytes) if input::is_perf_data(&bytes) => {
                alone(args)?;
                let imported = import::perf_data(&bytes).with_context(|| path.display().to_string())?;
                return perf_data(args, global, imported, naming);
            }
            Found::Bytes(bytes) => {
                alone(args)?;
                naming.builds = builds.iter().map(|b| b.path.display().to_string()).collect();
                return any_text(args, global, &bytes, builds, naming);
            }
        }
    }
    perf_data(args, global, input::import(&recordings)?, naming)
}

fn alone(args: &Args) -> anyhow::Result<()> {
    if args.files.len() > 1 {
        bail!("several files are read as one only when all are perf.data; import texts one by one");
    }
    Ok(())
}

fn perf_data(
    args: &Args,
    global: &Global,
    mut imported: Imported,
    naming: &mut view::Naming,
) -> anyhow::Result<Evidence> {
    naming.totals = imported.totals.labelled();
    for p in imported.problems.iter().take(20) {
        remark(args, global, p);
    }
    let kernel = args.kernel.as_deref();
    modules::set_biases(&mut imported.evidence, kernel.map(|k| k.display().to_string()), &mut |path| {
        // Program headers stand at the front; a kernel with debug information has hundreds of megabytes behind them.
        open_bytes(Path::new(path)).ok().map(|b| (*b).as_ref().iter().take(1 << 16).copied().collect())
    });
    let mut images = tussle_host::images::HostImages::new();
    let registers = imported.registers.into_iter().collect();
    for p in tussle_naming::name_sampled(&mut imported.evidence, &mut images, &registers) {
        global.remark(p);
    }
    Ok(imported.evidence)
}

fn any_text(
    args: &Args,
    global: &Global,
    bytes: &[u8],
    builds: &[Source],
    naming: &mut view::Naming,
) -> anyhow::Result<Evidence> {
    let words = String::from_utf8_lossy(bytes);
    if script::is_script(&words) {
        let imported = script::read(&words);
        imported.problems.iter().for_each(|p| remark(args, global, p));
        return Ok(imported.evidence);
    }
    if mem_report::is_mem_report(&words) {
        let imported = script::read_mem_report(&words);
        imported.problems.iter().for_each(|p| remark(args, global, p));
        return Ok(imported.evidence);
    }
    let read = text::read(&words);
    let tables = import_text::split(&read);
    let file = args.files[0].display();
    if tables.is_empty() {
        bail!("{file}: neither perf.data nor a Pareto table of `perf c2c report --stdio`");
    }
    let Some(table) = args.table.checked_sub(1).and_then(|i| tables.get(i)) else {
        bail!("{file}: there is no table {}; it has {}", args.table, tables.len());
    };
    if tables.len() > 1 {
        global.remark(format!("table {} of {} is imported; --table chooses", args.table, tables.len()));
    }
    let (evidence, problems) = import_text::c2c_text(&read, table);
    for p in problems.iter().take(20) {
        remark(args, global, p);
    }
    let types: Vec<&TypeTable> = builds.iter().map(|b| &b.table).collect();
    let guess = |l: &text::TextLine| -> Vec<Candidate> { guess::candidates(l, &types, 64) };
    naming.lines = joint::name(table, &types, 64, view::DECIDED);
    naming.primitives = joint::primitives(table, &types, 64, view::DECIDED);
    naming.add_moves(&tables, args.table - 1, &types, &guess);
    Ok(evidence)
}

/// What could not be read, with the file that it is about.
fn remark(args: &Args, global: &Global, problem: &tussle_perf::Skipped) {
    let names: Vec<String> = args.files.iter().map(|f| f.display().to_string()).collect();
    global.remark(format!("{}: {problem}", names.join(", ")));
}

/// What the user says goes before what fits.
fn told(args: &Args, builds: &[Source], evidence: &mut Evidence) -> anyhow::Result<()> {
    for (address, name) in &args.object {
        let Some(build) = builds.iter().find(|b| b.table.find(name).is_some()).or(builds.first()) else {
            bail!("--object needs the type's layout: give -k or --layout");
        };
        let ty = build.find(name)?;
        if objects::place(evidence, *address, &build.table, ty, 1.0, "told with --object").is_none() {
            bail!("--object 0x{address:x}={name}: no sample lies in those bytes");
        }
    }
    Ok(())
}
