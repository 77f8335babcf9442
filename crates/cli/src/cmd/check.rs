//! `tussle check`.

use super::project_file::ProjectFile;
use super::source::{Source, slab_caches};
use crate::global::Global;
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_host::revisions;
use tussle_host::source_text::checkout_path;
use tussle_layout::rules::known::{Baseline, idle};
use tussle_layout::rules::{
    Build, Context, Language, Outcome, Rule, RuleSet, Status, check, emit, from_markers, from_source, parse,
    view,
};
use tussle_layout::slab::Cache;
use tussle_render::{Node, View};

/// Check layouts against rules.
///
/// Exit status 1 when one is violated, 2 when one cannot be checked.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// Rule file (TOML); default: what tussle.toml in this folder names.
    #[arg(long, value_name = "RULES.toml")]
    rules: Vec<PathBuf>,
    /// Take rules from kernel source: CACHELINE_ASSERT lines, or a net_cachelines table.
    #[arg(long, value_name = "SOURCE")]
    from_source: Vec<PathBuf>,
    /// Take rules from the types' own __cacheline_group_begin and _end markers.
    #[arg(long)]
    markers: bool,
    /// Builds to check; default: what tussle.toml in this folder names. An architecture comes from the file; a .config
    /// from FILE.config, /boot, or the kernel itself.
    files: Vec<PathBuf>,
    /// Slab geometry: /sys/kernel/slab or a copy. Rules then cover the phases that really occur.
    #[arg(long, value_name = "DIR")]
    slab: Option<PathBuf>,
    /// Violations that are known: those in the file are counted and do not fail.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the violations of now to the baseline file.
    #[arg(long, requires = "baseline")]
    update: bool,
    /// Tell only what an older build does not violate: a file, or a git revision that holds the same files.
    #[arg(long, value_name = "FILE|REV", conflicts_with = "update")]
    against: Option<String>,
    /// What cannot be decided fails, too.
    #[arg(long)]
    strict: bool,
    /// Write the rules as assertions of a language instead of checking them.
    #[arg(long, value_enum)]
    emit: Option<Emit>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Emit {
    /// `_Static_assert` lines.
    C,
    /// `static_assert` lines.
    #[value(name = "c++")]
    Cpp,
    /// `const _: () = assert!(..)` lines.
    Rust,
}

impl Args {
    /// What the command line leaves open is taken from the folder's `tussle.toml`. Nothing of it is run.
    fn completed(&self) -> anyhow::Result<Args> {
        let mut all = self.clone();
        let silent = self.rules.is_empty() && self.from_source.is_empty() && !self.markers;
        if silent || (self.files.is_empty() && self.emit.is_none()) {
            let file = ProjectFile::of(std::path::Path::new("."))?;
            if silent {
                all.rules = file.rules.iter().map(PathBuf::from).collect();
            }
            if self.files.is_empty() {
                all.files = file.check.iter().map(PathBuf::from).collect();
            }
        }
        if silent && all.rules.is_empty() {
            bail!(
                "say which rules hold: --rules RULES.toml, --from-source, --markers, or `rules` in tussle.toml"
            );
        }
        Ok(all)
    }
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let args = &args.completed()?;
    let mut set = rules(args, global)?;
    if let Some(emit) = args.emit {
        return print_assertions(args, &set.rules, emit, global);
    }
    if args.files.is_empty() {
        bail!(
            "name what to check: an executable, a vmlinux, or /sys/kernel/btf/vmlinux for the running kernel"
        );
    }
    let caches = args.slab.as_deref().map(slab_caches).transpose()?;
    let wanted = wanted(args, &set.rules);
    let (sources, unreadable) = open_all(&args.files, &wanted, global)?;
    if args.markers {
        add_markers(&mut set.rules, &sources)?;
    }
    let builds: Vec<Build<'_>> = sources.iter().map(|s| build(s, caches.as_deref())).collect();
    let mut outcomes = check(&set.rules, &builds);
    for o in &mut outcomes {
        if let Some(why) = unreadable.get(&o.build) {
            o.status = Status::Error(why.clone());
        }
    }
    for w in idle(&set.waivers, &set.rules) {
        global
            .remark(format_args!("the waiver of `{}` lets nothing go: no rule has that id and type", w.rule));
    }
    remark_undecided(&set.rules, &builds, &outcomes, global);
    in_checkout(&mut outcomes);
    let known = known(args, &set.rules, &outcomes, &wanted, caches.as_deref(), global)?;
    let context =
        Context { known, waivers: set.waivers, today: tussle_host::day::today(), strict: args.strict };
    let (nodes, verdict) = view(&set.rules, &builds, &outcomes, &context);
    global.print(&View { kind: "check", schema_version: 1, nodes })?;
    Ok(ExitCode::from(match (verdict.errors, verdict.fatal) {
        (0, 0) => 0,
        (0, _) => 1,
        _ => 2,
    }))
}

/// Of several files one that cannot be read is a column of errors, and keeps no other from being judged.
fn open_all(
    files: &[PathBuf],
    wanted: &[String],
    global: &Global,
) -> anyhow::Result<(Vec<Source>, BTreeMap<usize, String>)> {
    let (mut sources, mut unreadable) = (Vec::new(), BTreeMap::new());
    for (i, file) in files.iter().enumerate() {
        let source = Source::open(file, wanted, global).or_else(|e| match files.len() {
            1 => Err(e),
            _ => {
                unreadable.insert(i, format!("{e:#}"));
                Ok(Source::unreadable(file))
            }
        });
        sources.push(source?);
    }
    Ok((sources, unreadable))
}

/// With a file, what its types tell that no compiler takes is left as a comment.
fn print_assertions(
    args: &Args,
    rules: &[Rule],
    language: Emit,
    global: &Global,
) -> anyhow::Result<ExitCode> {
    let source =
        args.files.first().map(|file| Source::open(file, &wanted(args, rules), global)).transpose()?;
    let table = source.as_ref().map(|s| &s.table);
    let (key, language) = match language {
        Emit::C => ("c", Language::C),
        Emit::Cpp => ("c++", Language::Cpp),
        Emit::Rust => ("rust", Language::Rust),
    };
    let block = Node::Block { key: "c".into(), language: key, text: emit(rules, language, table) };
    global.print(&View { kind: "rules", schema_version: 1, nodes: vec![block] })?;
    Ok(ExitCode::SUCCESS)
}

/// Types to read; all of them (empty) when types that hold others or have markers are looked for.
fn wanted(args: &Args, rules: &[Rule]) -> Vec<String> {
    if args.slab.is_some() || args.markers || rules.iter().any(|r| r.inherit) {
        return Vec::new();
    }
    let mut names: Vec<String> = rules.iter().map(|r| r.ty.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn rules(args: &Args, global: &Global) -> anyhow::Result<RuleSet> {
    let mut all = RuleSet::default();
    for path in &args.rules {
        let set = parse(&read(path)?).with_context(|| format!("{}", path.display()))?;
        all.rules.extend(set.rules);
        all.waivers.extend(set.waivers);
    }
    for path in &args.from_source {
        let found = from_source(&read(path)?);
        for (line, text) in &found.unread {
            global.remark(format_args!("{}:{line}: not understood: {text}", path.display()));
        }
        all.rules.extend(found.rules);
    }
    if all.rules.is_empty() && !args.markers {
        bail!("no rules");
    }
    Ok(all)
}

/// The markers of all files; of one type those of the first file that has them.
fn add_markers(rules: &mut Vec<Rule>, sources: &[Source]) -> anyhow::Result<()> {
    let before = rules.len();
    for source in sources {
        let known: Vec<String> = rules[before..].iter().map(|r| r.ty.clone()).collect();
        rules.extend(from_markers(&source.table).into_iter().filter(|r| !known.contains(&r.ty)));
    }
    if rules.is_empty() {
        bail!("no rules: no type has __cacheline_group_begin markers");
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    tussle_host::whole::read_to_string(path).with_context(|| format!("{}", path.display()))
}

fn remark_undecided(rules: &[Rule], builds: &[Build<'_>], outcomes: &[Outcome], global: &Global) {
    for o in outcomes {
        if let Status::Unknown(what) = &o.status {
            let (name, rule) = (&builds[o.build].name, &rules[o.rule]);
            global.remark(format_args!("{name}: rule {} ({}) not decided: {what}", rule.index, rule.ty));
        }
    }
}

/// What is no news: the baseline file, or what an older build violates as well.
fn known(
    args: &Args,
    rules: &[Rule],
    outcomes: &[Outcome],
    wanted: &[String],
    caches: Option<&[Cache]>,
    global: &Global,
) -> anyhow::Result<Baseline> {
    if let Some(against) = &args.against {
        let old = older(args, against, wanted, global)?;
        let builds: Vec<Build<'_>> = old.iter().map(|s| build(s, caches)).collect();
        return Ok(Baseline::of(rules, &check(rules, &builds)));
    }
    let Some(path) = &args.baseline else { return Ok(Baseline::default()) };
    if args.update {
        let now = Baseline::of(rules, outcomes);
        std::fs::write(path, now.write()).with_context(|| format!("{}", path.display()))?;
        global.remark(format_args!("{}: {} violations", path.display(), now.len()));
        return Ok(now);
    }
    Baseline::read(&read(path)?).with_context(|| format!("{}", path.display()))
}

/// A file, or the files as they were committed at a revision.
fn older(args: &Args, against: &str, wanted: &[String], global: &Global) -> anyhow::Result<Vec<Source>> {
    if Path::new(against).exists() {
        return Ok(vec![Source::open(Path::new(against), wanted, global)?]);
    }
    let mut old = Vec::new();
    for path in &args.files {
        match revisions::file_at(against, path).with_context(|| format!("--against {against}"))? {
            Some(bytes) => old.push(Source::read(&bytes, path, wanted, global)?),
            None => old.extend(committed(path, against, wanted, global)?),
        }
    }
    Ok(old)
}

/// The snapshots of a build that is not in the repository itself.
fn committed(path: &Path, against: &str, wanted: &[String], global: &Global) -> anyhow::Result<Vec<Source>> {
    let mut found = revisions::snapshots_at(against, path)?;
    found.retain(|(_, bytes)| tussle_debuginfo::snapshot::is_snapshot(bytes));
    if found.is_empty() {
        global.remark(format_args!("{}: not in {against}, nor a snapshot of it: all is new", path.display()));
    }
    let read = |(name, bytes): &(String, Vec<u8>)| {
        global.remark(format_args!("{}: {name} of {against} is its older build", path.display()));
        Source::read(bytes, Path::new(name), wanted, global)
    };
    found.iter().map(read).collect()
}

fn build<'a>(source: &'a Source, caches: Option<&'a [Cache]>) -> Build<'a> {
    Build {
        name: source.path.display().to_string(),
        table: &source.table,
        btf: source.btf,
        arch: source.arch.clone(),
        config: source.kernel_config(),
        caches,
    }
}

/// Source files as seen from here: debug information names the folder of the compilation, annotations need the path in
/// the checkout.
fn in_checkout(outcomes: &mut [Outcome]) {
    for o in outcomes {
        let Status::Fail(violations) = &mut o.status else { continue };
        for at in violations.iter_mut().filter_map(|v| v.at.as_mut()) {
            if let Some(here) = checkout_path(Path::new(&at.file)) {
                at.file = here;
            }
        }
    }
}
