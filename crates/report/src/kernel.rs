//! The report of a kernel recorded in an emulator: lines by transfers of the coherence model, equal lines of equal
//! objects together. Transfers are counted in the emulator's order of accesses, E is expected from shares of the
//! accesses; both are shown, never added.

use crate::line::Context;
use crate::{
    Options, Outcome, Report, SCHEMA_VERSION, dim, fact, loss_nodes, names, object_matches, silent, text,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tussle_advise::class::{self, Class};
use tussle_contention::analysis::{self, LineContention};
use tussle_contention::fields::Namer;
use tussle_contention::objective::LineCost;
use tussle_evidence::Problem;
use tussle_evidence::*;
use tussle_render::{Cell, Column, Fact, Node, Tone, View, offset, thousands};

/// Groups in the table.
const GROUPS_MAX: usize = 40;
/// Fields in the table of fields.
const FIELD_ROWS_MAX: usize = 24;
/// Groups shown in full.
const DETAILS_MAX: usize = 16;
/// Rows of one group.
const ROWS_MAX: usize = 16;
/// Fields named in the table.
const FIELDS_MAX: usize = 5;
/// Functions shown of a stack.
const STACK_MAX: usize = 5;

/// Transfers of one field by one piece of code.
#[derive(Clone, Debug, Default)]
struct Use {
    transfers: u64,
    dirty: u64,
    /// Where in its object (of arrays, the first one seen).
    offset: u64,
    kinds: BTreeSet<&'static str>,
    actors: BTreeSet<u32>,
}

/// Lines with the same place in the same kind of object.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelGroup {
    transfers: u64,
    dirty: u64,
    lines: BTreeSet<u64>,
    objects: BTreeSet<u32>,
    actors: BTreeSet<u32>,
    fields: BTreeMap<String, u64>,
    uses: BTreeMap<(String, u32), Use>,
    /// The line's first byte, relative to the object's.
    relative: i64,
    e: f64,
    e_true: f64,
    e_apart: f64,
    cost: LineCost,
    /// Contents or page tables alone: where in its page a line lies says nothing, and no layout places it.
    is_anywhere: bool,
    /// Its line with the highest E, and an object of its kind there: what is drawn.
    worst: Option<(u32, LineContention)>,
}

impl KernelGroup {
    /// By the same rule as everywhere.
    fn helps(&self) -> bool {
        !self.is_anywhere && Class::of(&self.cost) == Class::LayoutHelps
    }

    /// Fields, most transfers first.
    pub(super) fn ranked(&self) -> Vec<(&str, u64)> {
        let mut out: Vec<(&str, u64)> = self.fields.iter().map(|(f, n)| (f.as_str(), *n)).collect();
        out.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        out
    }

    fn title(&self) -> String {
        let ranked = self.ranked();
        let mut named: Vec<&str> = ranked.iter().take(FIELDS_MAX).map(|f| f.0).collect();
        if ranked.len() > FIELDS_MAX {
            named.push("...");
        }
        named.join(", ")
    }

    /// Share of E between CPUs that want different bytes of the line.
    fn apart(&self) -> f64 {
        if self.e > 0.0 { self.e_apart / self.e } else { 0.0 }
    }

    fn sharing(&self) -> String {
        match self.apart() {
            _ if self.e <= 0.0 => "unknown".into(),
            s if s >= 0.995 => "false".into(),
            s if s < 0.005 => "true".into(),
            s => format!("{} false", names::percent(s)),
        }
    }
}

/// Groups of the transfers, most transfers first.
pub(super) fn groups(e: &Evidence, namer: &Namer, options: &Options) -> Vec<KernelGroup> {
    let line = options.question.line.bytes();
    let mut by_line: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
    for s in e.transfers.iter().flatten() {
        let Some(o) = e.objects.get(s.object as usize) else { continue };
        by_line.entry(o.base.saturating_add(s.offset) / line).or_default().push(s);
    }
    // A choice between members of a union holds for the code that made it, not for other code at the same bytes.
    let plain = Namer::without_choices(e);
    let said = e.touches.iter().filter(|t| t.field.is_some() && t.role.is_none());
    let chosen: HashSet<(u32, u64, u32)> = said.map(|t| (t.object, t.offset, t.code)).collect();
    let roles: HashMap<(u32, u64, u32), Role> =
        e.touches.iter().filter_map(|t| Some(((t.object, t.offset, t.code), t.role?))).collect();
    let role = |s: &Transfer| s.code.and_then(|c| roles.get(&(s.object, s.offset, c))).copied();
    let chose = |s: &Transfer| s.code.is_some_and(|c| chosen.contains(&(s.object, s.offset, c)));
    let seen = analysis::contention(e, &options.question);
    let contended: HashMap<u64, &LineContention> = seen.lines.iter().map(|l| (l.address / line, l)).collect();
    let mut out: BTreeMap<(String, bool, i64), KernelGroup> = BTreeMap::new();
    for (number, rows) in by_line {
        let Some((most, root, relative)) = owner(e, namer, number * line, &rows) else { continue };
        let is_anywhere = rows.iter().all(|s| role(s).is_some_and(Role::is_anywhere));
        let (root, relative) = if is_anywhere { ("pages".into(), 0) } else { (root, relative) };
        let g = out.entry((root, is_anywhere, relative)).or_default();
        (g.relative, g.is_anywhere) = (relative, is_anywhere);
        g.lines.insert(number * line);
        for s in rows {
            let path = path(e, if chose(s) { namer } else { &plain }, s, role(s));
            add(g, s, path);
        }
        if let Some(l) = contended.get(&number) {
            g.e += l.e.e;
            g.e_true += l.e.e_true;
            g.e_apart += l.e.e_false + l.e.e_mixed;
            g.cost.add(&l.cost);
            if g.worst.as_ref().is_none_or(|(_, w)| w.e.e < l.e.e) {
                g.worst = Some((most, (*l).clone()));
            }
        }
    }
    let named = |g: &KernelGroup| {
        let one = |o: &u32| {
            let o = e.objects.get(*o as usize);
            o.is_some_and(|o| options.names.iter().any(|n| object_matches(e, namer, o, n)))
        };
        options.names.is_empty() || g.objects.iter().any(one)
    };
    let mut list: Vec<KernelGroup> = out.into_values().filter(named).collect();
    list.sort_by_key(|g| (std::cmp::Reverse(g.transfers), g.lines.first().copied()));
    list
}

/// The object with most of the line's transfers, its kind, and where the line begins in it.
fn owner(e: &Evidence, namer: &Namer, address: u64, rows: &[&Transfer]) -> Option<(u32, String, i64)> {
    let mut by_object: BTreeMap<u32, u64> = BTreeMap::new();
    for s in rows {
        *by_object.entry(s.object).or_default() += s.transfers;
    }
    let most = by_object.into_iter().max_by_key(|(o, n)| (*n, std::cmp::Reverse(*o)))?.0;
    let o = e.objects.get(most as usize)?;
    Some((most, namer.root(o), address.wrapping_sub(o.base) as i64))
}

/// The field, with what its bytes were instead.
fn path(e: &Evidence, namer: &Namer, s: &Transfer, role: Option<Role>) -> String {
    let field = namer.name(s.object, s.offset, u64::from(s.size)).path;
    match (role, e.objects.get(s.object as usize)) {
        // What the page became by the end of the run says nothing of the time when it was a page table.
        (Some(Role::PageTableEntry), _) => "page table entry".into(),
        (Some(role @ Role::PageContents), Some(o)) if o.kind == ObjectKind::Unknown => format!("page {role}"),
        (Some(role @ Role::PageContents), Some(o)) => format!("{} {role}", namer.root(o)),
        (Some(role), _) => format!("{field} {role}"),
        (None, _) => field,
    }
}

fn add(g: &mut KernelGroup, s: &Transfer, path: String) {
    g.transfers += s.transfers;
    g.dirty += s.dirty;
    g.objects.insert(s.object);
    *g.fields.entry(path.clone()).or_default() += s.transfers;
    let Some(code) = s.code else { return };
    let u = g.uses.entry((path, code)).or_insert_with(|| Use { offset: s.offset, ..Use::default() });
    u.transfers += s.transfers;
    u.dirty += s.dirty;
    u.kinds.insert(kind(s));
    if let Some(a) = s.actor {
        u.actors.insert(a);
        g.actors.insert(a);
    }
}

fn kind(s: &Transfer) -> &'static str {
    if s.kind == TouchKind::Read { "load" } else { "store" }
}

/// The report.
pub fn report(e: &Evidence, problems: &[Problem], options: &Options) -> Report {
    let namer = Namer::new(e);
    let all = groups(e, &namer, options);
    let total: u64 = all.iter().map(|g| g.transfers).sum();
    let finding = all.iter().any(KernelGroup::helps);
    let mut nodes = vec![Node::Facts(facts(e, &all, total, finding))];
    nodes.extend(loss_nodes(e, problems));
    nodes.push(field_table(e, &all, total));
    nodes.push(table(&all[..all.len().min(GROUPS_MAX)], total));
    if all.len() > GROUPS_MAX {
        let rest: u64 = all[GROUPS_MAX..].iter().map(|g| g.transfers).sum();
        nodes.push(dim(format!(
            "... and {} more with {} transfers in all",
            all.len() - GROUPS_MAX,
            thousands(rest)
        )));
    }
    let context = Context::new(e, &namer, options.question);
    let items = all.iter().zip(1..).take(DETAILS_MAX).map(|(g, n)| section(&context, g, n)).collect();
    nodes.push(Node::List { key: "kernel_lines".into(), items });
    let named = Named::of(e);
    let value = serde_json::json!({
        "field": named.field, "contents": named.contents, "owner": named.owner, "nothing": named.nothing
    });
    nodes.push(Node::Data { key: "named".into(), value });
    nodes.push(dim(format!("Names: {}.", named.words())));
    nodes.push(dim(
        "Transfers happened in a model: infinite caches, CPUs in turns, the accesses of one run in their order. They \
         say which fields meet on a line, not what it costs; `tussle predict` is about cost.",
    ));
    let outcome = Outcome { helps: finding, listed: !all.is_empty(), blind: class::blind(e) };
    Report { view: View { kind: "report_kernel", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

fn facts(e: &Evidence, all: &[KernelGroup], total: u64, finding: bool) -> Vec<Fact> {
    let r = &e.run;
    let lines: usize = all.iter().map(|g| g.lines.len()).sum();
    let dirty: u64 = all.iter().map(|g| g.dirty).sum();
    let seen = format!(
        "{} transfers of lines between CPUs ({} of modified lines) on {} lines",
        thousands(total),
        thousands(dirty),
        thousands(lines as u64)
    );
    let unit = "transfers: counted by a coherence model in the emulator; E: invalidations expected from each CPU's \
                share of the accesses; neither is measured";
    let mut facts = vec![
        fact("command", "command", Cell::text(r.command.join(" "))),
        fact("transfers", "recorded", Cell::value(total, seen)),
        crate::machine(r, "CPUs"),
        fact("unit", "numbers", Cell::text(unit)),
    ];
    facts.extend(silent(e, finding, "transfers".into()));
    facts
}

fn table(all: &[KernelGroup], total: u64) -> Node {
    let columns = vec![
        Column::number("rank", "#"),
        Column::number("transfers", "transfers"),
        Column::number("share", "share"),
        Column::number("dirty", "modified"),
        Column::number("expected_invalidations", "E"),
        Column::text("sharing", "sharing"),
        Column::number("lines", "lines"),
        Column::number("cpus", "CPUs"),
        Column::text("phase", "phase"),
        Column::text("fields", "fields"),
    ];
    let row = |(i, g): (usize, &KernelGroup)| {
        let share = g.transfers as f64 / total.max(1) as f64;
        vec![
            Cell::count(i as u64 + 1),
            Cell::count(g.transfers).tone(if g.helps() { Tone::Bad } else { Tone::Plain }),
            Cell::number(share, names::percent(share)),
            Cell::count(g.dirty),
            Cell::count(g.e.round().max(0.0) as u64),
            Cell::text(g.sharing()),
            Cell::count(g.lines.len() as u64),
            Cell::count(g.actors.len() as u64),
            Cell::value(phase(g), phase(g).to_string()),
            Cell::text(g.title()).tone(Tone::Name),
        ]
    };
    Node::Table { key: "lines".into(), columns, rows: all.iter().enumerate().map(row).collect() }
}

/// The first lines of a report, and what is said when there are none.
pub fn first_lines(e: &Evidence, rows: usize) -> Node {
    let all = groups(e, &Namer::new(e), &Options::default());
    let total = all.iter().map(|g| g.transfers).sum();
    table(&all[..all.len().min(rows)], total)
}

/// The same transfers by field, whatever object and phase it was in.
fn field_table(e: &Evidence, all: &[KernelGroup], total: u64) -> Node {
    #[derive(Default)]
    struct Sum<'a> {
        transfers: u64,
        objects: BTreeSet<u32>,
        phases: BTreeSet<u64>,
        code: BTreeMap<u32, u64>,
        beside: BTreeMap<&'a str, u64>,
    }
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for g in all {
        for ((path, code), u) in &g.uses {
            let sum = sums.entry(path).or_default();
            sum.transfers += u.transfers;
            sum.objects.extend(&g.objects);
            sum.phases.insert(phase(g));
            *sum.code.entry(*code).or_default() += u.transfers;
            for (other, n) in g.fields.iter().filter(|(f, _)| *f != path) {
                *sum.beside.entry(other).or_default() += n;
            }
        }
    }
    let mut list: Vec<(&str, Sum)> = sums.into_iter().collect();
    list.sort_unstable_by_key(|(path, s)| (std::cmp::Reverse(s.transfers), *path));
    let row = |(path, s): &(&str, Sum)| {
        let top = s.code.iter().max_by_key(|(code, n)| (**n, std::cmp::Reverse(**code)));
        let function = top.and_then(|(code, _)| stack(e, *code).into_iter().next()).unwrap_or_default();
        let beside = s.beside.iter().max_by_key(|(f, n)| (**n, std::cmp::Reverse(**f)));
        let phases: Vec<String> = s.phases.iter().map(u64::to_string).collect();
        let share = s.transfers as f64 / total.max(1) as f64;
        vec![
            Cell::count(s.transfers),
            Cell::number(share, names::percent(share)),
            Cell::text(*path).tone(Tone::Name),
            Cell::text(function),
            Cell::text(beside.map_or("", |b| b.0)),
            Cell::count(s.objects.len() as u64),
            Cell::text(phases.join(" ")),
        ]
    };
    let columns = vec![
        Column::number("transfers", "transfers"),
        Column::number("share", "share"),
        Column::text("field", "field"),
        Column::text("function", "mostly in"),
        Column::text("beside", "busiest field on the same line"),
        Column::number("objects", "objects"),
        Column::text("phases", "phases"),
    ];
    Node::Table { key: "fields".into(), columns, rows: list.iter().take(FIELD_ROWS_MAX).map(row).collect() }
}

/// Where the object begins in a line.
fn phase(g: &KernelGroup) -> u64 {
    g.relative.wrapping_neg().rem_euclid(64) as u64
}

fn section(context: &Context<'_>, g: &KernelGroup, rank: u64) -> Node {
    let (e, namer) = (context.e, context.namer);
    let mut nodes = Vec::new();
    for o in g.objects.iter().take(2).filter_map(|o| e.objects.get(*o as usize)) {
        let sure = names::percent(f64::from(o.confidence));
        nodes.push(text(format!("{} at 0x{:x}: {} ({sure} sure)", namer.root(o), o.base, o.why)));
    }
    nodes.push(text(format!(
        "{} object{} on {} line{}; objects begin {} bytes into a line, and the line at byte {} of the object.",
        g.objects.len(),
        if g.objects.len() == 1 { "" } else { "s" },
        g.lines.len(),
        if g.lines.len() == 1 { "" } else { "s" },
        phase(g),
        g.relative
    )));
    let drawn = g.worst.as_ref().and_then(|(object, line)| context.around(*object, vec![line], None));
    nodes.extend(drawn.map(|b| Node::Bytes(Box::new(b))));
    let columns = vec![
        Column::number("transfers", "transfers"),
        Column::number("dirty", "modified"),
        Column::text("kind", ""),
        Column::number("offset", "offset"),
        Column::text("field", "field"),
        Column::text("place", "source"),
        Column::text("function", "function \u{2190} callers"),
        Column::number("cpus", "CPUs"),
    ];
    let mut uses: Vec<(&(String, u32), &Use)> = g.uses.iter().collect();
    uses.sort_unstable_by(|a, b| b.1.transfers.cmp(&a.1.transfers).then_with(|| a.0.cmp(b.0)));
    let hidden = uses.len().saturating_sub(ROWS_MAX);
    let rows = uses.into_iter().take(ROWS_MAX).map(|(key, u)| use_row(e, key, u)).collect();
    nodes.push(Node::Table { key: "rows".into(), columns, rows });
    if hidden > 0 {
        nodes.push(dim(format!("... and {hidden} rows with fewer transfers")));
    }
    let title = format!("{rank}. {}: {} transfers", g.title(), thousands(g.transfers));
    Node::Section { key: format!("line_{rank}"), title, nodes }
}

fn use_row(e: &Evidence, (path, code): &(String, u32), u: &Use) -> Vec<Cell> {
    let mut stack = stack(e, *code);
    stack.truncate(STACK_MAX);
    let at = u.offset;
    vec![
        Cell::count(u.transfers),
        Cell::count(u.dirty),
        Cell::text(u.kinds.iter().copied().collect::<Vec<_>>().join("+")),
        Cell::value(at, offset(at)),
        Cell::text(path).tone(Tone::Name),
        Cell::text(place(e, *code)),
        Cell::text(stack.join(" \u{2190} ")),
        Cell::count(u.actors.len() as u64),
    ]
}

/// Functions of headers (`atomic_long_read`) are in every chain and nobody's cause.
fn is_helper(f: &Frame) -> bool {
    f.file.contains("/include/") || f.file.starts_with("include/")
}

/// Functions from the innermost outwards, helpers left out unless there is nothing else.
fn stack(e: &Evidence, code: u32) -> Vec<String> {
    let Some(row) = e.code.get(code as usize) else { return Vec::new() };
    let chain = row.chain.iter().filter_map(|c| e.code.get(*c as usize));
    let frames = std::iter::once(row).chain(chain).flat_map(|c| &c.frames);
    let named: Vec<String> = frames.filter(|f| !is_helper(f)).map(|f| f.function.clone()).collect();
    if named.is_empty() { names::stack(e, code) } else { named }
}

/// `mm/vma.c:1152`: the innermost place outside of headers, without the folder in which the kernel was built.
fn place(e: &Evidence, code: u32) -> String {
    let frames = e.code.get(code as usize).map_or(&[][..], |c| &c.frames);
    match frames.iter().find(|f| !is_helper(f)).or(frames.first()) {
        Some(f) if f.line > 0 => format!("{}:{}", in_tree(&f.file), f.line),
        _ => names::place(e, code),
    }
}

/// The part of a path that begins at a top folder of the kernel's sources.
fn in_tree(path: &str) -> &str {
    const TOP: &[&str] = &[
        "/arch/",
        "/block/",
        "/crypto/",
        "/drivers/",
        "/fs/",
        "/include/",
        "/init/",
        "/io_uring/",
        "/ipc/",
        "/kernel/",
        "/lib/",
        "/mm/",
        "/net/",
        "/security/",
        "/sound/",
        "/virt/",
    ];
    let first = TOP.iter().filter_map(|t| path.find(t)).min();
    first.and_then(|at| path.get(at + 1..)).unwrap_or(path)
}

/// Two kernels or two layouts: transfers field by field.
pub fn compare(first: &Evidence, second: &Evidence, options: &Options) -> Report {
    let by_field = |e: &Evidence| {
        let namer = Namer::new(e);
        let mut fields: BTreeMap<String, u64> = BTreeMap::new();
        for g in groups(e, &namer, options) {
            g.fields.into_iter().for_each(|(f, n)| *fields.entry(f).or_default() += n);
        }
        fields
    };
    let (a, b) = (by_field(first), by_field(second));
    let (sum_a, sum_b): (u64, u64) = (a.values().sum(), b.values().sum());
    let mut names: Vec<&String> = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))).collect();
    let of = |m: &BTreeMap<String, u64>, k: &str| m.get(k).copied().unwrap_or(0);
    names.sort_unstable_by_key(|k| (std::cmp::Reverse(of(&a, k).max(of(&b, k))), k.as_str()));
    let cell = |m: &BTreeMap<String, u64>, k: &str| match m.get(k) {
        Some(n) => Cell::count(*n),
        None => Cell::value(0, "-"),
    };
    let share = |n: u64, of: u64| {
        let s = n as f64 / of.max(1) as f64;
        Cell::number(s, names::percent(s))
    };
    let row = |k: &&String| {
        let (x, y) = (of(&a, k), of(&b, k));
        vec![
            Cell::text(k.as_str()).tone(Tone::Name),
            cell(&a, k),
            share(x, sum_a),
            cell(&b, k),
            share(y, sum_b),
        ]
    };
    let columns = vec![
        Column::text("field", "field"),
        Column::number("first", "first"),
        Column::number("first_share", "share"),
        Column::number("second", "second"),
        Column::number("second_share", "share"),
    ];
    let rows = names.iter().take(2 * GROUPS_MAX).map(row).collect();
    let facts = vec![
        fact("first", "first", Cell::text(first.run.command.join(" "))),
        fact("second", "second", Cell::text(second.run.command.join(" "))),
        fact("total_first", "transfers", Cell::value(sum_a, thousands(sum_a))),
        fact("total_second", "transfers", Cell::value(sum_b, thousands(sum_b))),
    ];
    let mut nodes = vec![Node::Facts(facts), Node::Table { key: "fields".into(), columns, rows }];
    nodes.push(dim(
        "Transfers in a model, each kernel in its own order of accesses: shares compare, totals do not tell speed.",
    ));
    let outcome = report(second, &[], options).outcome;
    Report { view: View { kind: "kernel_comparison", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    /// Two counters on one line; the first moved 70 times, the second 30 times.
    fn evidence() -> Evidence {
        let mut s = Sample::two_counters();
        let e = s.tables();
        e.run.source = Source::KernelRecorder;
        let row = |offset, code, actor, transfers| Transfer {
            object: 0,
            offset,
            size: 8,
            code: Some(code),
            actor: Some(actor),
            kind: TouchKind::Write,
            transfers,
            dirty: transfers / 2,
            schedule: None,
        };
        e.transfers = Some(vec![row(8, 3, 2, 30), row(0, 2, 1, 70)]);
        s.evidence()
    }

    #[test]
    fn fields_of_a_line_come_together_with_their_own_offsets() {
        let e = evidence();
        let namer = Namer::new(&e);
        let all = groups(&e, &namer, &Options::default());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].ranked(), [("struct stats.hits", 70), ("struct stats.misses", 30)]);
        assert_eq!((all[0].transfers, all[0].dirty, all[0].sharing().as_str()), (100, 50, "false"));
        let offsets: Vec<u64> = all[0].uses.values().map(|u| u.offset).collect();
        assert_eq!(offsets, [0, 8]);
        let shown = crate::report(&e, &[], &Options::default());
        assert!(shown.outcome.helps, "by the same rule as everywhere");
        assert_eq!(shown.view.kind, "report_kernel");
    }

    #[test]
    fn what_the_allocator_does_to_a_field_is_not_shown_as_the_field() {
        let mut e = evidence();
        let touch = |code| Touch {
            object: 0,
            offset: 8,
            size: 8,
            code,
            actor: None,
            kind: TouchKind::Write,
            samples: 1,
            field: None,
            role: Some(Role::FreelistWord),
        };
        e.touches.push(touch(3));
        let all = groups(&e, &Namer::new(&e), &Options::default());
        let ranked = [("struct stats.hits", 70), ("struct stats.misses (freelist word)", 30)];
        assert_eq!(all[0].ranked(), ranked);
        // Other code at the same bytes means the field.
        (e.touches.pop(), e.touches.push(touch(2)));
        let all = groups(&e, &Namer::new(&e), &Options::default());
        assert_eq!(all[0].ranked(), [("struct stats.hits", 70), ("struct stats.misses", 30)]);
    }

    #[test]
    fn places_in_pages_are_one_row_that_no_layout_helps() {
        let mut e = evidence();
        (e.objects[0].ty, e.objects[0].kind) = (None, ObjectKind::Unknown);
        for (offset, code) in [(0, 2), (8, 3)] {
            let (actor, kind, role) = (None, TouchKind::Write, Some(Role::PageContents));
            e.touches.push(Touch {
                object: 0,
                offset,
                size: 8,
                code,
                actor,
                kind,
                samples: 1,
                field: None,
                role,
            });
        }
        let all = groups(&e, &Namer::new(&e), &Options::default());
        assert_eq!(all[0].ranked(), [("page (contents)", 100)]);
        assert!(!crate::report(&e, &[], &Options::default()).outcome.helps);
    }

    #[test]
    fn names_of_other_types_show_nothing() {
        let e = evidence();
        let options = Options { names: vec!["struct other".into()], ..Options::default() };
        assert!(groups(&e, &Namer::new(&e), &options).is_empty());
    }

    #[test]
    fn phases_are_where_objects_begin_in_a_line() {
        let at = |relative| phase(&KernelGroup { relative, ..KernelGroup::default() });
        assert_eq!([at(0), at(64), at(-8), at(120), at(16)], [0, 0, 8, 8, 48]);
    }

    #[test]
    fn paths_lose_the_build_folder() {
        assert_eq!(in_tree("debian/build/build_amd64/mm/vma.c"), "mm/vma.c");
        assert_eq!(in_tree("/b/arch/x86/kernel/tsc.c"), "arch/x86/kernel/tsc.c");
        assert_eq!(in_tree("main.c"), "main.c");
    }
}
