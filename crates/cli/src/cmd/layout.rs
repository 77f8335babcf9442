//! `tussle layout`.

use super::memory;
use super::source::{KERNEL, Source, phase_in, slab_caches, split_names};
use crate::global::Global;
use anyhow::bail;
use foldhash::{HashSet, HashSetExt};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_layout::bounds::bounds;
use tussle_layout::homes;
use tussle_layout::phases::Where;
use tussle_layout::{compilable, data, holes::Holes, lines, pahole, reorder};
use tussle_model::leaf::Arrays;
use tussle_model::{Aggregate, LineSize, TypeId, TypeTable, leaves_told};
use tussle_render::{Format, Node, View, laid_out};

/// Print types with offsets, holes and cache lines.
///
/// Without --lines the text is that of pahole, byte for byte. FILE may be an executable, an object, a kernel module,
/// a vmlinux, a BTF file or a snapshot.
#[derive(clap::Args)]
pub struct Args {
    /// File to read [default: the running kernel's BTF]; several with --lines: what each build made of the types.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Types to print, separated by commas, `*` for any part of a name; all when not given.
    #[arg(short = 'C', value_name = "NAME,..")]
    names: Vec<String>,
    /// Only types that hold this one by value.
    #[arg(short = 'i', long = "contains", value_name = "NAME", conflicts_with = "names")]
    contains: Option<String>,
    /// Order of the types [default: that of the file].
    #[arg(long, value_enum)]
    sort: Option<Sort>,
    /// Write out members of struct and union type.
    #[arg(short = 'E')]
    expand: bool,
    /// Line size in bytes; 128 for adjacent-line prefetchers.
    #[arg(short = 'c', value_name = "BYTES", default_value_t = 64)]
    line: u32,
    /// Offsets and sizes in hexadecimal.
    #[arg(long)]
    hex: bool,
    /// Only types whose names begin so.
    #[arg(long, value_name = "PREFIX,..", value_delimiter = ',', conflicts_with = "names")]
    prefix: Vec<String>,
    /// No types whose names begin so.
    #[arg(long, value_name = "PREFIX,..", value_delimiter = ',', conflicts_with = "names")]
    exclude: Vec<String>,
    /// A C header that compiles to the same offsets; -DTUSSLE_CHECK_LAYOUT asserts them.
    #[arg(long, conflicts_with_all = ["lines", "phase", "slab", "expand", "sizes", "reorganize"])]
    compile: bool,
    /// Moves that make the type smaller. By size alone: `tussle advise` asks a recording what shares a line.
    #[arg(short = 'R', long, requires = "names", conflicts_with_all = ["lines", "phase", "slab"])]
    reorganize: bool,
    #[command(flatten)]
    place: memory::ObjectAt,
    /// Only name, size and number of holes.
    #[arg(short = 's')]
    sizes: bool,
    /// Only types with at least this many holes.
    #[arg(short = 'H', value_name = "HOLES")]
    holes: Option<u64>,
    /// Answer for objects that begin this many bytes into a line [default: every phase possible].
    #[arg(long, value_name = "BYTES")]
    phase: Option<u64>,
    /// Draw every line with its leaf fields.
    #[arg(long)]
    lines: bool,
    /// Slab geometry: /sys/kernel/slab or a copy; says which phases really occur.
    #[arg(long, value_name = "DIR")]
    slab: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// The largest first.
    Size,
    /// The most bytes in holes and padding first.
    Waste,
    /// By name.
    Name,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let line = super::line_size(args.line)?;
    let names = split_names(&args.names);
    if args.files.len() > 1 {
        return over(args, &names, line, global);
    }
    let path = args.files.first().cloned().unwrap_or_else(|| KERNEL.into());
    // Containers of a type can only be found when all types are read.
    let all = args.slab.is_some() || args.contains.is_some() || names.iter().any(|n| n.contains('*'));
    let wanted = if all { &[] } else { names.as_slice() };
    let source = Source::open(&path, wanted, global)?;
    let ids = ids(args, &source, &names)?;
    if args.compile || args.reorganize || args.place.is_given() {
        return other(args, &source, &ids, global);
    }
    let phase = phase_in(line, args.phase)?;
    let nodes = match (&args.slab, args.lines || phase.is_some()) {
        (Some(dir), _) => {
            let caches = slab_caches(dir)?;
            ids.iter().map(|&id| homes::view(&source.table, id, &caches, line)).collect()
        }
        (None, true) => {
            let at = phase.map_or(Where::Any, Where::Phase);
            ids.iter().map(|&id| lines::view(&source.table, id, &at, line, source.btf)).collect()
        }
        (None, false) => text(args, &source, &ids, &names, line, global),
    };
    let nodes = match nodes.iter().any(|n| matches!(n, Node::Section { .. })) {
        true => vec![Node::List { key: "types".into(), items: nodes }],
        false => nodes,
    };
    global.print(&View { kind: "layout", schema_version: 1, nodes })?;
    // the program ends here: taking a kernel's types apart would be for nothing
    std::mem::forget(source);
    Ok(ExitCode::SUCCESS)
}

/// The named structs over several builds, in their order.
fn over(args: &Args, names: &[String], line: LineSize, global: &Global) -> anyhow::Result<ExitCode> {
    let other = args.contains.is_some() || args.compile || args.reorganize || args.place.is_given();
    if !args.lines || names.is_empty() || other || args.slab.is_some() {
        bail!("of several files the lines of named types are drawn: --lines -C NAME FILE FILE..");
    }
    let phase = phase_in(line, args.phase)?.unwrap_or(0);
    let opened = args.files.iter().map(|path| Source::open(path, names, global));
    let sources: Vec<Source> = opened.collect::<anyhow::Result<_>>()?;
    let mut nodes = Vec::new();
    for name in names {
        let found: Vec<_> = sources.iter().map(|s| s.table.find_all(name).first().copied()).collect();
        if found.iter().all(Option::is_none) {
            // says what was meant
            sources[0].find(name)?;
        }
        let mut builds = Vec::new();
        for (s, id) in sources.iter().zip(found) {
            let path = s.path.display().to_string();
            let name = path.strip_suffix(".json").unwrap_or(&path).to_string();
            builds.push(tussle_layout::over::Build { name, table: &s.table, id });
        }
        nodes.push(tussle_layout::over::view(name, &builds, phase, line));
    }
    let nodes = vec![Node::List { key: "types".into(), items: nodes }];
    global.print(&View { kind: "layouts", schema_version: 1, nodes })?;
    Ok(ExitCode::SUCCESS)
}

/// What is no listing: a header, advice, the values of an object.
fn other(args: &Args, source: &Source, ids: &[TypeId], global: &Global) -> anyhow::Result<ExitCode> {
    let table = &source.table;
    let block = |text| Node::Block { key: "text".into(), language: "c", text };
    let (kind, node) = match (args.compile, args.reorganize) {
        (true, _) => ("header", block(compilable::header(table, ids))),
        (_, true) => {
            let items = ids.iter().map(|&id| reorder::view(table, id, u64::from(args.line))).collect();
            ("reorganize", Node::List { key: "types".into(), items })
        }
        _ => {
            let [id] = ids else {
                bail!("an object has one type: name it with -C TYPE ({} of them fit here)", ids.len())
            };
            let bytes = args.place.read(table.size(*id).unwrap_or(0))?;
            let memory = data::Memory { bytes: &bytes, little_endian: source.little_endian };
            ("data", block(format!("({}) {}", table.name(*id), data::text(table, *id, memory))))
        }
    };
    global.print(&View { kind, schema_version: 1, nodes: vec![node] })?;
    Ok(ExitCode::SUCCESS)
}

fn ids(args: &Args, source: &Source, names: &[String]) -> anyhow::Result<Vec<TypeId>> {
    let table = &source.table;
    let mut ids: Vec<TypeId> = match names {
        [] => table.aggregates().filter(|(_, a)| a.name.is_some()).map(|(id, _)| id).collect(),
        names => names.iter().map(|n| named(source, n)).collect::<Result<Vec<_>, _>>()?.concat(),
    };
    if let Some(name) = &args.contains {
        let inner = source.find_all(name)?;
        ids.retain(|&id| inner.iter().any(|&x| holds(table, id, x, 0)));
    }
    let begins = |id: TypeId, with: &[String]| {
        let name = table.aggregate(id).and_then(|a| a.name.as_deref()).unwrap_or_default();
        with.iter().any(|p| name.starts_with(p.as_str()))
    };
    ids.retain(|&id| (args.prefix.is_empty() || begins(id, &args.prefix)) && !begins(id, &args.exclude));
    if ids.is_empty() && !(args.prefix.is_empty() && args.exclude.is_empty()) {
        bail!("{}: --prefix and --exclude leave no type", source.path.display());
    }
    if let Some(sort) = args.sort {
        ids.sort_by_cached_key(|&id| sort_key(table, id, sort));
    }
    if names.is_empty() && args.lines {
        bail!("--lines: name the types with -C");
    }
    if let (Some(least), true) = (args.holes, names.is_empty()) {
        ids.retain(|&id| table.aggregate(id).is_some_and(|a| Holes::of(table, a).count >= least));
    }
    Ok(ids)
}

/// All types that a name or a pattern stands for.
fn named(source: &Source, name: &str) -> anyhow::Result<Vec<TypeId>> {
    // C++ names have stars of their own
    let exact = source.table.find_all(name);
    if !exact.is_empty() || !name.contains('*') {
        return source.find_all(name);
    }
    let fits = |a: &Aggregate| a.name.as_deref().is_some_and(|n| tussle_model::path::matches(name, n));
    let found: Vec<TypeId> = source.table.aggregates().filter(|(_, a)| fits(a)).map(|(id, _)| id).collect();
    if found.is_empty() {
        bail!("{}: no type like `{name}`", source.path.display());
    }
    Ok(found)
}

/// A member of `id`, or of an unnamed member or array in it, is an `inner`.
fn holds(table: &TypeTable, id: TypeId, inner: TypeId, depth: usize) -> bool {
    let id = table.element(id);
    let Some(a) = table.aggregate(id).filter(|a| depth == 0 || a.name.is_none() || id == inner) else {
        return false;
    };
    (depth > 0 && id == inner)
        || (depth < 8 && a.members.iter().any(|m| holds(table, m.ty, inner, depth + 1)))
}

fn sort_key(table: &TypeTable, id: TypeId, sort: Sort) -> (u64, String) {
    let Some(a) = table.aggregate(id) else { return (0, String::new()) };
    let name = a.name.clone().unwrap_or_default();
    match sort {
        Sort::Size => (u64::MAX - a.size, name),
        Sort::Waste => {
            let holes = Holes::of(table, a);
            (u64::MAX - holes.sum_bytes().saturating_add(holes.padding), name)
        }
        Sort::Name => (0, name),
    }
}

/// pahole's text, and the same facts for JSON.
fn text(
    args: &Args,
    source: &Source,
    ids: &[TypeId],
    names: &[String],
    line: LineSize,
    global: &Global,
) -> Vec<Node> {
    let options = pahole::Options { expand: args.expand, line, btf: source.btf, hex: args.hex };
    let table = &source.table;
    let mut text = String::new();
    // A listing shows what reads the same only once.
    let mut seen = HashSet::new();
    for &id in ids {
        let whole = unit_comment(table, id, names) + &pahole::text(table, id, options);
        if names.is_empty() && seen.contains(&whole) {
            continue;
        }
        match args.sizes && names.is_empty() {
            true => text.push_str(&pahole::sizes_line(table, id).unwrap_or_default()),
            false => text.push_str(&whole),
        }
        seen.insert(whole);
    }
    let mut nodes = vec![Node::Block { key: "text".into(), language: "c", text }];
    if global.format() == Format::Json {
        let mut left = FIELDS_BYTES_MAX;
        let written = |&id: &TypeId| Some(laid_out(&facts(source, id, table.aggregate(id)?, &mut left)));
        let items: Vec<_> = ids.iter().filter_map(written).collect();
        if left == 0 {
            global.remark(format_args!("too many fields: the last types are without theirs (`fields_cut`)"));
        }
        nodes.push(Node::Written { key: "types".into(), items });
    }
    nodes
}

/// Where a name asked for has several definitions, each is shown under its unit.
fn unit_comment(table: &TypeTable, id: TypeId, names: &[String]) -> String {
    let unit = table.aggregate(id).and_then(|a| a.unit.as_deref()).filter(|_| !names.is_empty());
    unit.map(|u| format!("/* {} */\n", u.replace("*/", "* /"))).unwrap_or_default()
}

/// What the fields of all types in one JSON may come to, bytes, by the memory that they would take at once; a kernel's
/// come to 300 MiB. A hostile file nests so that each type has 65,536.
const FIELDS_BYTES_MAX: usize = 1 << 29;

/// What a field takes, but for its path, which is there three times.
const FIELD_BYTES: usize = 900;

/// One type for JSON. `left`: bytes that fields may still take.
fn facts(source: &Source, id: TypeId, a: &Aggregate, left: &mut usize) -> serde_json::Value {
    let table = &source.table;
    let holes = Holes::of(table, a);
    let align = bounds(table, id, source.btf);
    let (leaves, missing) = match *left {
        0 => (Vec::new(), true),
        _ => leaves_told(table, id, Arrays::Whole, 0..u64::MAX),
    };
    let cut = missing || table.damaged(id).is_some();
    *left = leaves.iter().fold(*left, |n, l| n.saturating_sub(FIELD_BYTES + 3 * l.path.len()));
    let fields: Vec<_> = leaves
        .into_iter()
        .map(|l| {
            json!({
                "path": l.path, "offset_bytes": l.offset, "size_bytes": l.size, "type": table.name(l.ty),
                "bits": l.bits.map(|b| b.1), "overlaps": l.overlaps,
            })
        })
        .collect();
    json!({
        "name": a.display_name(), "size_bytes": a.size, "align_bytes": align.likely,
        "align_inferred": !align.is_certain(), "holes": holes.count, "holes_bytes": holes.sum_bytes(),
        "bit_holes": holes.bit_count, "padding_bytes": holes.padding,
        "file": a.decl.as_ref().map(|d| &d.file), "line": a.decl.as_ref().map(|d| d.line), "unit": a.unit,
        "fields": fields, "fields_cut": cut,
    })
}
