//! `tussle where`.

use super::memory::number;
use super::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_debuginfo::companion::separate;
use tussle_debuginfo::symbols::{Segment, Symbols, Variable};
use tussle_debuginfo::{Elf, dwarf};
use tussle_evidence::Mapped;
use tussle_host::companions::{FileCompanions, open_bytes};
use tussle_layout::whereabouts::{Object, view};
use tussle_model::{LineSize, TypeTable};
use tussle_render::View;

/// Name the object and field at an address of a process, and their neighbours.
///
/// Global and static variables are found by themselves. Of objects on heap and stack only their owner knows the type:
/// give it with --type and --base (`scripts/gdb-tussle.py` does).
#[derive(clap::Args)]
pub struct Args {
    /// The process.
    pid: u32,
    /// The address, decimal or 0x...
    #[arg(value_name = "ADDR", value_parser = number)]
    address: u64,
    /// Type of the object that begins at --base.
    #[arg(long = "type", value_name = "NAME", requires = "base")]
    ty: Option<String>,
    /// Where that object begins.
    #[arg(long, value_name = "ADDR", value_parser = number, requires = "ty")]
    base: Option<u64>,
    /// File with the type [default: the program].
    #[arg(long, value_name = "FILE", requires = "ty")]
    file: Option<PathBuf>,
    /// Line size in bytes.
    #[arg(short = 'c', value_name = "BYTES", default_value_t = 64)]
    line: u32,
}

/// Mappings begin at multiples of this.
const PAGE_BYTES: u64 = 4096;

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let line = super::line_size(args.line)?;
    let path = format!("/proc/{}/maps", args.pid);
    let text = std::fs::read_to_string(&path).with_context(|| format!("process {}: {path}", args.pid))?;
    let maps: Vec<Mapped> = text.lines().filter_map(Mapped::parse).collect();
    let Some(here) = maps.iter().find(|m| m.start <= args.address && args.address < m.end) else {
        bail!("process {} has nothing at {:#x}", args.pid, args.address);
    };
    let (table, objects) = match (&args.ty, args.base) {
        (Some(ty), Some(base)) => told(args, ty, base, global)?,
        _ => globals(args, &maps, here, line)?,
    };
    let nodes = view(&table, &objects, args.address, line);
    if objects.is_empty() && args.ty.is_none() {
        let place = if here.path.is_empty() { "unnamed memory (heap, a thread's stack)" } else { here.path };
        global.remark(format_args!("{place}: the type is not known; --type and --base tell it"));
    }
    global.print(&View { kind: "where", schema_version: 1, nodes })?;
    Ok(ExitCode::SUCCESS)
}

/// The object that the user has told the type of.
fn told(args: &Args, ty: &str, base: u64, global: &Global) -> anyhow::Result<(TypeTable, Vec<Object>)> {
    let program = PathBuf::from(format!("/proc/{}/exe", args.pid));
    // names of debug files are relative to where the program really is
    let program = std::fs::read_link(&program).ok().filter(|p| p.is_file()).unwrap_or(program);
    let file = args.file.clone().unwrap_or(program);
    let source = Source::open(&file, &[ty.to_string()], global)?;
    let id = source.find(ty)?;
    let size = source.table.size(id).unwrap_or(0);
    if args.address < base || args.address - base >= size {
        bail!("{:#x} is not in the {size} bytes of {ty} at {base:#x}", args.address);
    }
    let object = Object { name: format!("({ty} *){base:#x}"), start: base, size, ty: Some(id) };
    Ok((source.table, vec![object]))
}

/// Variables of the module that the address belongs to which touch its line.
fn globals(
    args: &Args,
    maps: &[Mapped],
    here: &Mapped,
    line: LineSize,
) -> anyhow::Result<(TypeTable, Vec<Object>)> {
    let none = || (TypeTable::new(8), Vec::new());
    // .bss is unnamed memory right behind its module
    let module = maps.iter().rev().find(|m| m.start <= here.start && m.path.starts_with('/'));
    let Some(module) = module.filter(|_| !here.path.starts_with('[')) else { return Ok(none()) };
    let path = Path::new(module.path);
    let inside =
        PathBuf::from(format!("/proc/{}/root", args.pid)).join(path.strip_prefix("/").unwrap_or(path));
    let path = if path.is_file() { path.to_path_buf() } else { inside };
    let bytes = open_bytes(&path).with_context(|| format!("{}", path.display()))?;
    if !(*bytes).as_ref().starts_with(b"\x7fELF") {
        return Ok(none());
    }
    let elf = Elf::parse((*bytes).as_ref()).with_context(|| format!("{}", path.display()))?;
    let mut companions = FileCompanions::new(&path);
    let debug = if elf.has(".debug_info") { None } else { separate(&elf, &mut companions) };
    let debug = debug.as_ref().map(|(bytes, _)| (**bytes).as_ref());
    let (symbols, _) = Symbols::read((*bytes).as_ref(), debug)?;
    let Some(bias) = bias(&symbols.segments, maps, module) else { return Ok(none()) };
    let first = args.address.wrapping_sub(bias) & !(line.bytes() - 1);
    Ok(in_line(&elf, &symbols, &mut companions, bias, first..first.saturating_add(line.bytes())))
}

/// How far the module lies from where its file says. Two segments may share a page of the file, which is then mapped
/// twice: the distance is right that puts most segments where the process has them.
fn bias(segments: &[Segment], maps: &[Mapped], module: &Mapped) -> Option<u64> {
    let page = |at: u64| at & !(PAGE_BYTES - 1);
    let holds = |s: &&Segment| {
        let inside = module.offset.checked_sub(s.file_offset).is_some_and(|at| at < s.file_size);
        inside || page(s.file_offset) == module.offset
    };
    let here = |s: &Segment| {
        let start = s.svma.wrapping_add(module.offset).wrapping_sub(s.file_offset);
        module.start.wrapping_sub(start)
    };
    let fits = |bias: &u64| {
        let mapped = |s: &&Segment| {
            let start = page(s.svma.wrapping_add(*bias));
            maps.iter().any(|m| m.path == module.path && m.start == start && m.offset == page(s.file_offset))
        };
        segments.iter().filter(mapped).count()
    };
    segments.iter().filter(holds).map(here).max_by_key(fits)
}

/// Variables that touch these file addresses, with their types, at their addresses in the process.
fn in_line(
    elf: &Elf<'_>,
    symbols: &Symbols,
    companions: &mut FileCompanions,
    bias: u64,
    line: std::ops::Range<u64>,
) -> (TypeTable, Vec<Object>) {
    // what has no size in the symbol table may reach into the line from anywhere in front of it
    let may = |v: &&Variable| {
        !v.tls && v.svma < line.end && v.size.is_none_or(|n| v.svma.saturating_add(n) > line.start)
    };
    let near: Vec<&Variable> = symbols.variables.iter().filter(may).collect();
    let entries: Vec<usize> = near.iter().filter_map(|v| v.ty).collect();
    let (table, types) = dwarf::read_entries(elf, &entries, companions)
        .unwrap_or_else(|_| (TypeTable::new(elf.pointer_size()), Default::default()));
    let object = |v: &&Variable| {
        let ty = v.ty.and_then(|at| types.get(&at)).copied();
        let size = v.size.or_else(|| table.size(ty?))?;
        let touches = v.svma.saturating_add(size) > line.start;
        touches.then(|| Object { name: v.name.clone(), start: v.svma.wrapping_add(bias), size, ty })
    };
    let objects = near.iter().filter_map(object).collect();
    (table, objects)
}
