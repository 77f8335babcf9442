//! Verbs about layouts: `layout --lines`, `diff`, `check`, `place`.

use crate::source::Types;
use crate::{Answer, Source};
use anyhow::{Context, bail};
use std::path::Path;
use std::sync::Arc;
use tussle_host::source_text::checkout_path;
use tussle_layout::diff::{
    HotPair, Options, Side, changed, diff, hot_pairs, matched, shown, summary_view, type_view, unknown_hot,
};
use tussle_layout::phases::Where;
use tussle_layout::rules::{self, Build, RuleSet, Status, Told};
use tussle_layout::slots::parse_field;
use tussle_layout::{lines, place};
use tussle_model::{LineSize, TypeId, TypeTable};
use tussle_render::{Node, View};

/// A line size in bytes.
///
/// # Errors
/// It is no power of two from 8 to 65536.
pub fn line_size(bytes: u32) -> anyhow::Result<LineSize> {
    LineSize::new(bytes)
        .with_context(|| format!("-c {bytes}: a power of two from 8 to 65536 is needed"))
}

/// Where objects begin in their lines: at one phase, or wherever they can.
///
/// # Errors
/// The phase is not inside of a line.
pub fn at(phase: Option<u64>, line: LineSize) -> anyhow::Result<Where> {
    match phase.filter(|p| *p >= line.bytes()) {
        Some(p) => Err(outside(p, line)),
        None => Ok(phase.map_or(Where::Any, Where::Phase)),
    }
}

/// No phase of that line.
pub(crate) fn outside(phase: u64, line: LineSize) -> anyhow::Error {
    let (last, line) = (line.bytes() - 1, line.bytes());
    anyhow::anyhow!("--phase {phase}: an object begins 0 to {last} bytes into a line of {line} bytes")
}

/// Every line of a type, at one phase or at all that are possible.
///
/// # Errors
/// There is no such type.
pub fn lines(source: &Source, name: &str, line: LineSize, phase: Option<u64>) -> anyhow::Result<Answer> {
    let (types, ids) = source.find(name)?;
    let at = at(phase, line)?;
    let items = ids.iter().map(|&id| lines::view(&types.table, id, &at, line, types.btf)).collect();
    let nodes = vec![Node::List { key: "types".into(), items }];
    Ok(Answer::clean(View { kind: "layout", schema_version: 1, nodes }))
}

/// What changed between two builds; all types of both when no name is given. Status 1: fields of `hot` share a line
/// that did not before.
///
/// # Errors
/// A type or a field is in neither, or no type is in both.
pub fn diffs(old: &Source, new: &Source, names: &[String], options: &Options) -> anyhow::Result<Answer> {
    let (nodes, bad) = match names {
        [] => whole(old, new, options)?,
        names => named(old, new, names, options)?,
    };
    Ok(Answer::new(View { kind: "diff", schema_version: 1, nodes }, bad.into()))
}

/// Options of [`diffs`].
///
/// # Errors
/// As those of [`at`].
pub fn diff_options(line: LineSize, phase: Option<u64>, hot: Vec<String>) -> anyhow::Result<Options> {
    Ok(Options { line, at: at(phase, line)?, hot })
}

fn named(
    old: &Source,
    new: &Source,
    names: &[String],
    options: &Options,
) -> anyhow::Result<(Vec<Node>, bool)> {
    let (mut items, mut bad) = (Vec::new(), false);
    for name in names {
        let ((a, before), (b, after)) = (old.find(name)?, new.find(name)?);
        let sides = (Side { table: &a.table, btf: a.btf }, Side { table: &b.table, btf: b.btf });
        let found = matched(&a.table, &before, &b.table, &after);
        let pairs = shown(&found, &a.table, &before, &b.table, &after);
        if let Some((field, close)) = unknown_hot(sides.0, sides.1, &pairs, &options.hot) {
            let close =
                if close.is_empty() { String::new() } else { format!("; close: {}", close.join(", ")) };
            bail!("--hot: no field `{field}` in {name}{close}");
        }
        for (x, y) in pairs {
            let d = diff(sides.0, x, sides.1, y, options);
            bad |= !options.hot.is_empty() && !d.now_share.is_empty();
            items.push(type_view(&d));
        }
    }
    Ok((vec![Node::List { key: "types".into(), items }], bad))
}

fn whole(old: &Source, new: &Source, options: &Options) -> anyhow::Result<(Vec<Node>, bool)> {
    let (a, b) = (old.types(&[])?, new.types(&[])?);
    let common = changed(&a.table, &b.table);
    if common.names == 0 {
        bail!("{} and {} have no type in common", old.name, new.name);
    }
    let sides = (Side { table: &a.table, btf: a.btf }, Side { table: &b.table, btf: b.btf });
    let (mut hot, mut diffs) = (Vec::new(), Vec::new());
    for (x, y) in common.changed {
        let d = diff(sides.0, x, sides.1, y, options);
        hot.extend(hot_pairs(sides.1, y, &d));
        diffs.push(d);
    }
    let bad = !options.hot.is_empty() && diffs.iter().any(|d| !d.now_share.is_empty());
    hot.sort_by_key(HotPair::rank);
    diffs.sort_by(|x, y| y.now_share.len().cmp(&x.now_share.len()).then_with(|| x.name.cmp(&y.name)));
    Ok((summary_view(&diffs, &hot, true), bad))
}

/// The rules of one rule file's text.
///
/// # Errors
/// It is no rule file, or has no rules.
pub fn rules(text: &str) -> anyhow::Result<RuleSet> {
    let set = rules::parse(text)?;
    if set.rules.is_empty() {
        bail!("no rules");
    }
    Ok(set)
}

/// A build that is to be checked: its name, and what was opened or why not.
pub type Named = (String, anyhow::Result<Arc<Source>>);

/// Whose paths a view has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// As the compiler was told: the same wherever it is asked.
    AsBuilt,
    /// As the command line shows them: as seen from the current folder.
    FromHere,
}

/// Rules against builds. Status 1: one is violated; 2: one cannot be checked. Of several builds one that cannot be read
/// is a column of errors, and keeps no other from being judged.
///
/// # Errors
/// There is no build, or the only one cannot be read.
pub fn check(set: &RuleSet, builds: Vec<Named>, paths: Paths) -> anyhow::Result<(Answer, Vec<Told>)> {
    if builds.is_empty() {
        bail!("name what to check: an executable, a vmlinux, or /sys/kernel/btf/vmlinux for the running kernel");
    }
    let mut names: Vec<String> = set.rules.iter().map(|r| r.ty.clone()).collect();
    names.sort();
    names.dedup();
    if set.rules.iter().any(|r| r.inherit) {
        names.clear();
    }
    let alone = builds.len() == 1;
    let read = |(name, source): Named| match source.and_then(|s| Ok((s.types(&names)?, s))) {
        Err(e) if alone => Err(e),
        read => Ok((name, read.map_err(|e| format!("{e:#}")))),
    };
    let read = builds.into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let nothing = TypeTable::new(8);
    let cells: Vec<Build<'_>> = read.iter().map(|(name, read)| cell(name, read, &nothing)).collect();
    let mut outcomes = rules::check(&set.rules, &cells);
    for o in &mut outcomes {
        if let Err(why) = &read[o.build].1 {
            o.status = Status::Error(why.clone());
        }
        if paths == Paths::FromHere {
            seen_from_here(&mut o.status);
        }
    }
    let rows = rules::told(&set.rules, &cells, &outcomes);
    let context = rules::Context {
        waivers: set.waivers.clone(),
        today: tussle_host::day::today(),
        ..Default::default()
    };
    let (nodes, verdict) = rules::view(&set.rules, &cells, &outcomes, &context);
    let status = match (verdict.errors, verdict.fatal) {
        (0, 0) => 0,
        (0, _) => 1,
        _ => 2,
    };
    Ok((Answer::new(View { kind: "check", schema_version: 1, nodes }, status), rows))
}

/// What a rule looks at.
fn cell<'a>(
    name: &str,
    read: &'a Result<(Arc<Types>, Arc<Source>), String>,
    nothing: &'a TypeTable,
) -> Build<'a> {
    let read = read.as_ref().ok();
    Build {
        name: name.into(),
        table: read.map_or(nothing, |r| &r.0.table),
        btf: read.is_some_and(|r| r.0.btf),
        arch: read.and_then(|r| r.1.arch()),
        config: read.and_then(|r| r.1.config()),
        caches: None,
    }
}

/// Source files of violations as seen from the current folder.
fn seen_from_here(status: &mut Status) {
    let Status::Fail(violations) = status else { return };
    for at in violations.iter_mut().filter_map(|v| v.at.as_mut()) {
        at.file = checkout_path(Path::new(&at.file)).unwrap_or_else(|| std::mem::take(&mut at.file));
    }
}

/// Where a new field (`TYPE NAME`) fits into a type without moving any other, in every build.
///
/// # Errors
/// No such type, or not of that form.
pub fn places(builds: &[&Source], name: &str, field: &str, line: LineSize) -> anyhow::Result<Answer> {
    // The field's own type may be any type of the file.
    let types = builds.iter().map(|b| b.types(&[])).collect::<anyhow::Result<Vec<_>>>()?;
    let ids = builds.iter().map(|b| Ok(b.find(name)?.1[0])).collect::<anyhow::Result<Vec<TypeId>>>()?;
    let parsed = types.iter().find_map(|t| parse_field(&t.table, field, t.btf));
    let parsed =
        parsed.with_context(|| format!("--field: `{field}`: no such type, or not of the form 'TYPE NAME'"))?;
    let cells: Vec<place::Build<'_>> = (builds.iter().zip(&types).zip(ids))
        .map(|((b, t), id)| place::Build { name: b.name.clone(), table: &t.table, id, btf: t.btf })
        .collect();
    Ok(Answer::clean(View { kind: "place", schema_version: 1, nodes: place::view(&cells, &parsed, line) }))
}
