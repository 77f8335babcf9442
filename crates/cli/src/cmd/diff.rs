//! `tussle diff`.

use super::source::{Source, split_names};
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_layout::diff::{Options, Side, TypeDiff, changed, diff, summary_view, type_view, unknown_hot};
use tussle_layout::phases::Where;
use tussle_model::LineSize;
use tussle_render::{Cell, Fact, Node, View};

/// What changed between two builds: sizes, fields, which of them share a line now, and the cause.
///
/// Without -C all types of both files are compared and those listed whose sharing changed.
#[derive(clap::Args)]
pub struct Args {
    /// The old build.
    old: PathBuf,
    /// The new build.
    new: PathBuf,
    /// Types to compare, separated by commas.
    #[arg(short = 'C', value_name = "NAME,..")]
    names: Vec<String>,
    /// Report sharing between these fields only; a member stands for all its parts.
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',')]
    hot: Vec<String>,
    /// Line size in bytes.
    #[arg(short = 'c', value_name = "BYTES", default_value_t = 64)]
    line: u32,
    /// Answer for objects that begin this many bytes into a line [default: every phase possible].
    #[arg(long, value_name = "BYTES")]
    phase: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let line = LineSize::new(args.line).context("-c: a power of two from 8 to 65536 is needed")?;
    let names = split_names(&args.names);
    let (old, new) = open_both(args, &names, global)?;
    let at = args.phase.map_or(Where::Any, Where::Phase);
    let options = Options { line, at, hot: args.hot.clone() };
    let nodes = match names.is_empty() {
        true => whole(&old, &new, &options),
        false => named(&old, &new, &names, &options)?,
    };
    global.print(&View { kind: "diff", schema_version: 1, nodes })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads both files at once: each takes a while when it is a kernel.
fn open_both(args: &Args, names: &[String], global: &Global) -> anyhow::Result<(Source, Source)> {
    std::thread::scope(|s| {
        let old = s.spawn(|| Source::open(&args.old, names, global));
        let new = Source::open(&args.new, names, global);
        let old = old.join().map_err(|_| anyhow::anyhow!("reading {} failed", args.old.display()))?;
        Ok((old?, new?))
    })
}

fn side(s: &Source) -> Side<'_> {
    Side { table: &s.table, btf: s.btf }
}

fn named(old: &Source, new: &Source, names: &[String], options: &Options) -> anyhow::Result<Vec<Node>> {
    let types: Vec<_> =
        names.iter().map(|name| Ok((old.find(name)?, new.find(name)?))).collect::<anyhow::Result<_>>()?;
    if let Some((field, close)) = unknown_hot(side(old), side(new), &types, &options.hot) {
        let close = if close.is_empty() { String::new() } else { format!("; close: {}", close.join(", ")) };
        bail!("--hot: no field `{field}` in {}{close}", names.join(", "));
    }
    let item = |&(a, b): &(_, _)| type_view(&diff(side(old), a, side(new), b, options));
    Ok(vec![Node::List { key: "types".into(), items: types.iter().map(item).collect() }])
}

/// Types whose sharing changed, the widest change first.
fn whole(old: &Source, new: &Source, options: &Options) -> Vec<Node> {
    let pairs = changed(&old.table, &new.table);
    let mut diffs: Vec<TypeDiff> = parallel(&pairs, |(a, b)| diff(side(old), *a, side(new), *b, options))
        .into_iter()
        .filter(TypeDiff::sharing_changed)
        .collect();
    diffs.sort_by(|x, y| y.now_share.len().cmp(&x.now_share.len()).then_with(|| x.name.cmp(&y.name)));
    let fact = |key: &str, label: &str, n: usize| Fact {
        key: key.into(),
        label: label.into(),
        cell: Cell::count(n as u64),
    };
    vec![
        Node::Facts(vec![
            fact("types_changed", "types whose layout changed", pairs.len()),
            fact("types_sharing_changed", "types whose sharing changed", diffs.len()),
        ]),
        summary_view(&diffs),
    ]
}

/// `f` over all items on all CPUs, results in order.
fn parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(i) else { return out };
            out.push((i, f(item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|s| {
        let others: Vec<_> = (1..cpus).map(|_| s.spawn(work)).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().unwrap_or_default());
        }
        all
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, r)| r).collect()
}
