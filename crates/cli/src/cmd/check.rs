//! `tussle check`.

use super::source::{Source, slab_caches};
use crate::global::Global;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_layout::rules::{Build, Rule, Status, check, emit_c, from_source, parse, view};
use tussle_layout::slab::Cache;
use tussle_render::{Node, View};

/// Check layouts against rules; exit status 1 when one is violated.
#[derive(clap::Args)]
pub struct Args {
    /// Rule file (TOML).
    #[arg(long, value_name = "RULES.toml", required_unless_present = "from_source")]
    rules: Vec<PathBuf>,
    /// Take rules from kernel source: CACHELINE_ASSERT lines, or a net_cachelines table.
    #[arg(long, value_name = "SOURCE")]
    from_source: Vec<PathBuf>,
    /// Builds to check. An architecture comes from the file; a .config is looked for as FILE.config.
    files: Vec<PathBuf>,
    /// Slab geometry: /sys/kernel/slab or a copy. Rules then cover the phases that really occur.
    #[arg(long, value_name = "DIR")]
    slab: Option<PathBuf>,
    /// Write the rules in another form instead of checking them.
    #[arg(long, value_enum)]
    emit: Option<Emit>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Emit {
    /// `_Static_assert` lines.
    C,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let rules = rules(args, global)?;
    if let Some(Emit::C) = args.emit {
        let block = Node::Block { key: "c".into(), language: "c", text: emit_c(&rules) };
        global.print(&View { kind: "rules", schema_version: 1, nodes: vec![block] })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.files.is_empty() {
        bail!("name at least one file to check");
    }
    let caches = args.slab.as_deref().map(slab_caches).transpose()?;
    // Containers of a type can only be found when all types are read.
    let mut names: Vec<String> = rules.iter().map(|r| r.ty.clone()).collect();
    names.sort();
    names.dedup();
    let wanted = if caches.is_some() { &[] } else { names.as_slice() };
    let sources = args
        .files
        .iter()
        .map(|f| Source::open(f, wanted, global))
        .collect::<anyhow::Result<Vec<Source>>>()?;
    let builds: Vec<Build<'_>> = sources.iter().map(|s| build(s, caches.as_deref())).collect();
    let outcomes = check(&rules, &builds)?;
    for o in &outcomes {
        if let Status::Unknown(what) = &o.status {
            let (name, ty) = (&builds[o.build].name, &rules[o.rule].ty);
            global.remark(format_args!("{name}: rule {} ({ty}) not decided: {what}", rules[o.rule].index));
        }
    }
    let nodes = view(&rules, &builds, &outcomes);
    global.print(&View { kind: "check", schema_version: 1, nodes })?;
    let failed = outcomes.iter().any(|o| matches!(o.status, Status::Fail { .. }));
    Ok(ExitCode::from(u8::from(failed)))
}

fn rules(args: &Args, global: &Global) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for path in &args.rules {
        rules.extend(parse(&read(path)?).with_context(|| format!("{}", path.display()))?);
    }
    for path in &args.from_source {
        let found = from_source(&read(path)?);
        for (line, text) in &found.unread {
            global.remark(format_args!("{}:{line}: not understood: {text}", path.display()));
        }
        rules.extend(found.rules);
    }
    if rules.is_empty() {
        bail!("no rules");
    }
    Ok(rules)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}

fn build<'a>(source: &'a Source, caches: Option<&'a [Cache]>) -> Build<'a> {
    let mut config = source.path.clone().into_os_string();
    config.push(".config");
    Build {
        name: source.path.display().to_string(),
        table: &source.table,
        btf: source.btf,
        arch: source.arch.clone(),
        config: std::fs::read_to_string(config).ok(),
        caches,
    }
}
