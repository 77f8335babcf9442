//! `tussle diff`.

use super::golden;
use super::source::{Source, phase_in, split_names};
use crate::global::Global;
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_evidence::threads;
use tussle_layout::diff::{
    Common, HotPair, Options, Side, changed, diff, hot_pairs, matched, recorded_view, shown, summary_view,
    type_view, unheard_hot, unknown_hot,
};
use tussle_layout::phases::Where;
use tussle_model::TypeId;
use tussle_render::{Cell, Fact, Format, Node, View};
use watch::{Judged, Watch};

mod watch;

/// What changed between two builds: sizes, fields, new sharing of lines, and the cause.
///
/// Without -C all types of both files are compared: new sharing of locks and counters first, then one row per cause.
/// Exit status 1 when fields of --hot, a rule or an evidence share a line that did not before, 2 when no type is in
/// both.
#[derive(clap::Args)]
pub struct Args {
    /// The old build, or a folder of snapshots: each is compared with the build of its name.
    old: PathBuf,
    /// The new build, or a folder of builds.
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
    /// Rule files: new sharing among the fields of one rule fails.
    #[arg(long, value_name = "RULES.toml")]
    rules: Vec<PathBuf>,
    /// What was recorded: new sharing among the fields of a type that it saw several threads use fails, where one of
    /// the two is stored to.
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// What fails: new sharing of fields named by --hot, --rules or --evidence, or of any fields.
    #[arg(long, value_enum, default_value = "hot")]
    fail_on: FailOn,
    /// All causes and all types, not only one screen of them.
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum FailOn {
    /// Fields of --hot, --rules and --evidence.
    Hot,
    /// Any fields.
    Any,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let line = super::line_size(args.line)?;
    let names = split_names(&args.names);
    let at = phase_in(line, args.phase)?.map_or(Where::Any, Where::Phase);
    let options = Options { line, at, hot: args.hot.clone() };
    let any = args.fail_on == FailOn::Any;
    let watch = Watch::new(&args.rules, args.evidence.as_deref(), any)?;
    let (mut nodes, judged) = if args.old.is_dir() {
        kept(args, &options, &watch, global)?
    } else {
        let (old, new) = open_both(&args.old, &args.new, &names, global)?;
        let compared = match names.is_empty() {
            true => whole(args, &old, &new, &options, &watch, global)?,
            false => {
                let (items, judged) = named(&old, &new, &names, &options, &watch, global)?;
                (vec![Node::List { key: "types".into(), items }], judged)
            }
        };
        // the program ends soon: taking two kernels' types apart would be for nothing
        std::mem::forget((old, new));
        compared
    };
    nodes.splice(0..0, recorded_view(&judged.seen));
    global.print(&View { kind: "diff", schema_version: 1, nodes })?;
    Ok(ExitCode::from(u8::from(judged.bad)))
}

/// Reads both files at once: each takes a while when it is a kernel.
fn open_both(old: &Path, new: &Path, names: &[String], global: &Global) -> anyhow::Result<(Source, Source)> {
    std::thread::scope(|s| {
        let reader = s.spawn(|| Source::open(old, names, global));
        let new = Source::open(new, names, global);
        let old = reader.join().map_err(|_| anyhow::anyhow!("reading {} failed", old.display()))?;
        Ok((old?, new?))
    })
}

fn side(s: &Source) -> Side<'_> {
    Side { table: &s.table, btf: s.btf }
}

fn named(
    old: &Source,
    new: &Source,
    names: &[String],
    options: &Options,
    watch: &Watch,
    global: &Global,
) -> anyhow::Result<(Vec<Node>, Judged)> {
    let (mut types, mut lone) = (Vec::new(), Lone::default());
    for name in names {
        let (before, after) = (old.find_all(name)?, new.find_all(name)?);
        let found = matched(&old.table, &before, &new.table, &after);
        types.extend(shown(&found, &old.table, &before, &new.table, &after));
        lone.add(old, new, &found);
    }
    if let Some((field, close)) = unknown_hot(side(old), side(new), &types, &options.hot) {
        let close = tussle_layout::near::also(&close);
        bail!("--hot: no field `{field}` in {}{close}", names.join(", "));
    }
    let mut judged = Judged::default();
    let mut items = Vec::new();
    for &(a, b) in &types {
        let d = diff(side(old), a, side(new), b, options);
        judged.add(watch.judge((side(old), a), (side(new), b), &d, options));
        items.push(type_view(&d));
    }
    judged.bad |= watch.any() && !lone.0.is_empty();
    lone.tell(global);
    Ok((items, judged))
}

/// A folder of snapshots against the builds of their names: the types that changed.
fn kept(
    args: &Args,
    options: &Options,
    watch: &Watch,
    global: &Global,
) -> anyhow::Result<(Vec<Node>, Judged)> {
    let (mut items, mut judged) = (Vec::new(), Judged::default());
    for g in golden::of(&args.old, &args.new)? {
        let (old, new) = open_both(&g.snapshot, &g.build, &g.names, global)?;
        let differ = |name: &String| -> anyhow::Result<Option<String>> {
            let (a, b) = (old.find_all(name)?, new.find_all(name)?);
            let same = matched(&old.table, &a, &new.table, &b) == Common::default();
            Ok((!same).then(|| name.clone()))
        };
        let changed = g.names.iter().filter_map(|n| differ(n).transpose()).collect::<Result<Vec<_>, _>>()?;
        let (more, worse) = named(&old, &new, &changed, options, watch, global)?;
        items.extend(more);
        judged.add(worse);
    }
    let count = Fact {
        key: "types_changed".into(),
        label: "types whose layout changed".into(),
        cell: Cell::count(items.len() as u64),
    };
    Ok((vec![Node::Facts(vec![count]), Node::List { key: "types".into(), items }], judged))
}

/// Definitions of a name that both builds have, without a counterpart in the other one.
#[derive(Default)]
struct Lone(Vec<String>);

impl Lone {
    fn add(&mut self, old: &Source, new: &Source, common: &Common) {
        let line = |s: &Source, id: &TypeId| {
            let (name, size) = (s.table.name(*id), s.table.size(*id).unwrap_or(0));
            let unit = s.table.aggregate(*id).and_then(|a| a.unit.clone()).map(|u| format!(" in {u}"));
            format!("{name} of {size} bytes{} is only in {}", unit.unwrap_or_default(), s.path.display())
        };
        self.0.extend(common.only_old.iter().map(|id| line(old, id)));
        self.0.extend(common.only_new.iter().map(|id| line(new, id)));
    }

    fn tell(&self, global: &Global) {
        self.0.iter().take(TOLD_MAX).for_each(|l| global.remark(format_args!("another definition: {l}")));
        if self.0.len() > TOLD_MAX {
            let more = self.0.len() - TOLD_MAX;
            global.remark(format_args!("{more} more definitions that only one of the files has"));
        }
    }
}

/// Definitions without a counterpart that are told.
const TOLD_MAX: usize = 5;

/// All types of both files.
fn whole(
    args: &Args,
    old: &Source,
    new: &Source,
    options: &Options,
    watch: &Watch,
    global: &Global,
) -> anyhow::Result<(Vec<Node>, Judged)> {
    let common = changed(&old.table, &new.table);
    if common.names == 0 {
        bail!("{} and {} have no type in common", old.path.display(), new.path.display());
    }
    if let Some((field, close)) = unheard_hot(side(old), side(new), &options.hot) {
        let close = tussle_model::near::also(&close);
        bail!(
            "--hot: no type has a field `{field}`{close}; a path begins with the type's member, not with the type"
        );
    }
    let judged = threads::map(&common.changed, |&(a, b)| {
        let d = diff(side(old), a, side(new), b, options);
        let judged = watch.judge((side(old), a), (side(new), b), &d, options);
        (hot_pairs(side(new), b, &d), d, judged)
    });
    let (mut hot, mut diffs, mut all) = (Vec::new(), Vec::new(), Judged::default());
    for (pairs, d, judged) in judged {
        hot.extend(pairs);
        diffs.push(d);
        all.add(judged);
    }
    let mut lone = Lone::default();
    lone.add(old, new, &common);
    all.bad |= watch.any() && !lone.0.is_empty();
    lone.tell(global);
    hot.sort_by_key(HotPair::rank);
    diffs.sort_by(|x, y| y.now_share.len().cmp(&x.now_share.len()).then_with(|| x.name.cmp(&y.name)));
    let whole = args.all || global.format() == Format::Json;
    let nodes = summary_view(&diffs, &hot, whole);
    std::mem::forget(diffs);
    Ok((nodes, all))
}
