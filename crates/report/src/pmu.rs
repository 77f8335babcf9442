//! The report of samples of a performance monitoring unit: lines by HITM, never by E, whose unit is another.

use crate::{
    Options, Outcome, Report, SCHEMA_VERSION, dim, fact, loss_nodes, names, object_matches, silent, text,
};
use std::collections::BTreeMap;
use tussle_advise::class;
use tussle_contention::fields::Namer;
use tussle_evidence::Problem;
use tussle_evidence::*;
use tussle_model::LineSize;
use tussle_render::{Cell, Column, Node, Tone, View, offset, thousands};

/// Lines shown with their rows.
const DETAILS_MAX: usize = 20;

/// Rows shown per line.
const ROWS_MAX: usize = 30;

/// A line is a finding from this many HITM (or peer) samples on.
pub const FINDING_SAMPLES_MIN: u64 = 10;

/// And when a second field has at least this share of the line's samples.
pub const FINDING_SECOND_SHARE_MIN: f64 = 0.01;

/// One line and its rows, most contended first.
#[derive(Clone, Debug)]
pub struct PmuLine<'a> {
    /// Process id (index).
    pub process: u32,
    /// Address of its first byte.
    pub address: u64,
    /// Rows of the samples table on it.
    pub rows: Vec<&'a Sampled>,
    /// HITM samples, or peer samples where the unit sees no HITM.
    pub contended: u64,
}

/// HITM samples of a row; peer samples where the unit sees no HITM.
pub fn contended(s: &Sampled) -> u64 {
    match (s.hitm_local, s.hitm_remote) {
        (None, None) => s.peer.unwrap_or(0),
        (l, r) => l.unwrap_or(0).saturating_add(r.unwrap_or(0)),
    }
}

/// Stores of a row; `None` where none are seen.
pub fn stores(s: &Sampled) -> Option<u64> {
    let all = [s.store_l1_hit, s.store_l1_miss, s.store_no_level];
    all.iter().any(Option::is_some).then(|| all.into_iter().flatten().fold(0, u64::saturating_add))
}

/// The lines with at least one contended sample, most first.
pub fn lines(e: &Evidence, line: LineSize) -> Vec<PmuLine<'_>> {
    let mut found: BTreeMap<(u32, u64), Vec<&Sampled>> = BTreeMap::new();
    for s in e.samples.iter().flatten() {
        let Some(o) = e.objects.get(s.object as usize) else { continue };
        let address = o.base.saturating_add(s.offset);
        found.entry((o.process, address / line.bytes() * line.bytes())).or_default().push(s);
    }
    let mut out: Vec<PmuLine> = found
        .into_iter()
        .map(|((process, address), mut rows)| {
            rows.sort_by_key(|s| (std::cmp::Reverse(contended(s)), s.offset));
            let contended = rows.iter().map(|s| contended(s)).fold(0, u64::saturating_add);
            PmuLine { process, address, rows, contended }
        })
        .filter(|l| l.contended > 0)
        .collect();
    out.sort_unstable_by_key(|l| (std::cmp::Reverse(l.contended), l.process, l.address));
    out
}

/// Samples per field of a line, most first.
fn fields(e: &Evidence, namer: &Namer, l: &PmuLine) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for s in l.rows.iter().filter(|s| s.code.is_some()) {
        *sums.entry(field(e, namer, s)).or_default() += contended(s);
    }
    let mut out: Vec<(String, u64)> = sums.into_iter().collect();
    out.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out
}

/// Its byte in the object; `None` for what a text counts for the whole line and in none of its rows.
pub(super) fn place(s: &Sampled) -> Option<u64> {
    (s.code.is_some() || s.size <= 8).then_some(s.offset)
}

pub(super) fn field(e: &Evidence, namer: &Namer, s: &Sampled) -> String {
    if place(s).is_none() {
        return "(no row in the text)".into();
    }
    let known = e.objects.get(s.object as usize).is_some_and(|o| o.ty.is_some() || o.name.is_some());
    if known {
        return namer.name(s.object, s.offset, u64::from(s.size)).path;
    }
    let base = e.objects.get(s.object as usize).map_or(0, |o| o.base);
    format!("0x{:x}", base.saturating_add(s.offset))
}

/// The innermost function of a row and its line.
pub(super) fn function(e: &Evidence, s: &Sampled) -> (String, String) {
    let Some(code) = s.code.and_then(|c| e.code.get(c as usize)) else { return Default::default() };
    match code.frames.first() {
        Some(f) if f.line > 0 => (f.function.clone(), format!("{}:{}", f.file, f.line)),
        Some(f) => (f.function.clone(), String::new()),
        None => (format!("0x{:x}", code.address), String::new()),
    }
}

fn is_finding(l: &PmuLine, fields: &[(String, u64)]) -> bool {
    let second = fields.get(1).map_or(0, |f| f.1) as f64;
    l.contended >= FINDING_SAMPLES_MIN && second >= FINDING_SECOND_SHARE_MIN * l.contended as f64
}

/// The report; ranks by HITM samples.
pub fn report(e: &Evidence, problems: &[Problem], options: &Options) -> Report {
    let namer = Namer::new(e);
    let mut all = lines(e, options.question.line);
    let named = |s: &Sampled, n: &String| {
        e.objects.get(s.object as usize).is_some_and(|o| object_matches(e, &namer, o, n))
    };
    all.retain(|l| {
        options.names.is_empty() || l.rows.iter().any(|s| options.names.iter().any(|n| named(s, n)))
    });
    let by_field: Vec<_> = all.iter().map(|l| fields(e, &namer, l)).collect();
    let finding = all.iter().zip(&by_field).any(|(l, f)| is_finding(l, f));
    let total: u64 = all.iter().map(|l| l.contended).sum();
    let mut nodes = vec![facts(e, total, all.len(), finding)];
    nodes.extend(loss_nodes(e, problems));
    nodes.push(table(e, &all, &by_field, total));
    let sections = all.iter().zip(1..).take(DETAILS_MAX);
    let items = sections.map(|(l, rank)| section(e, &namer, l, rank)).collect();
    nodes.push(Node::List { key: "sampled_lines".into(), items });
    nodes.push(dim(
        "A HITM sample says who found the line modified, not who had modified it: the other fields of the line and \
         its stores are where to look.",
    ));
    let outcome = Outcome { helps: finding, listed: !all.is_empty(), blind: class::blind(e) };
    Report { view: View { kind: "report_samples", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

fn facts(e: &Evidence, total: u64, lines: usize, finding: bool) -> Node {
    let r = &e.run;
    let total_text = format!(
        "{} {} on {} line{}",
        thousands(total),
        r.unit,
        thousands(lines as u64),
        if lines == 1 { "" } else { "s" }
    );
    let unit = format!("{}; {}: a sample of events, not a count of them", r.unit, r.source);
    let mut facts = vec![
        fact("command", "command", Cell::text(r.command.join(" "))),
        fact("samples", "sampled", Cell::value(total, total_text)),
        crate::machine(r, "CPUs"),
        fact("unit", "numbers", Cell::value(unit.clone(), unit)),
    ];
    facts.extend(silent(e, finding, r.unit.to_string()));
    Node::Facts(facts)
}

fn sum(l: &PmuLine, of: impl Fn(&Sampled) -> Option<u64>) -> Cell {
    let values: Vec<u64> = l.rows.iter().filter_map(|s| of(s)).collect();
    if values.is_empty() {
        Cell::unknown()
    } else {
        Cell::count(values.into_iter().fold(0, u64::saturating_add))
    }
}

fn share(part: u64, whole: u64) -> Cell {
    let s = part as f64 / whole.max(1) as f64;
    Cell::number(s, names::percent(s))
}

fn table(e: &Evidence, all: &[PmuLine], by_field: &[Vec<(String, u64)>], total: u64) -> Node {
    let unit = if e.run.unit == Unit::PeerSamples { "peer" } else { "HITM" };
    let columns = vec![
        Column::number("rank", "#"),
        Column::number("samples", unit),
        Column::number("share", "share"),
        Column::number("hitm_local", "local"),
        Column::number("hitm_remote", "remote"),
        Column::number("stores", "stores"),
        Column::text("address", "line"),
        Column::text("fields", "fields"),
    ];
    let row = |((i, l), fields): ((usize, &PmuLine), &Vec<(String, u64)>)| {
        let mut named: Vec<&str> = fields.iter().take(4).map(|f| f.0.as_str()).collect();
        if fields.len() > 4 {
            named.push("...");
        }
        let tone = if is_finding(l, fields) { Tone::Bad } else { Tone::Plain };
        vec![
            Cell::count(i as u64 + 1),
            Cell::count(l.contended).tone(tone),
            share(l.contended, total),
            sum(l, |s| s.hitm_local),
            sum(l, |s| s.hitm_remote),
            sum(l, stores),
            Cell::value(l.address, format!("0x{:x}", l.address)),
            Cell::text(named.join(", ")).tone(Tone::Name),
        ]
    };
    let rows = all.iter().enumerate().zip(by_field).map(row).collect();
    Node::Table { key: "lines".into(), columns, rows }
}

fn section(e: &Evidence, namer: &Namer, l: &PmuLine, rank: u64) -> Node {
    let columns = vec![
        Column::number("samples", "samples"),
        Column::number("share", "share"),
        Column::number("stores", "stores"),
        Column::number("offset", "in line"),
        Column::text("field", "field"),
        Column::text("function", "function"),
        Column::text("place", "source"),
        Column::number("cpus", "CPUs"),
    ];
    let row = |s: &&Sampled| {
        let base = e.objects.get(s.object as usize).map_or(0, |o| o.base);
        let at = base.saturating_add(s.offset).saturating_sub(l.address);
        let (function, place) = function(e, s);
        vec![
            Cell::count(contended(s)),
            share(contended(s), l.contended),
            stores(s).map_or_else(Cell::unknown, Cell::count),
            Cell::value(at, offset(at)),
            Cell::text(field(e, namer, s)).tone(Tone::Name),
            Cell::text(function),
            Cell::text(place),
            s.cpus.map_or_else(Cell::unknown, |c| Cell::count(c.into())),
        ]
    };
    let mut nodes = Vec::new();
    let mut said: Vec<u32> = l.rows.iter().map(|s| s.object).collect();
    said.dedup();
    for o in said.iter().take(2).filter_map(|o| e.objects.get(*o as usize)).filter(|o| o.ty.is_some()) {
        let sure = names::percent(f64::from(o.confidence));
        nodes.push(text(format!("{} at 0x{:x}: {} ({sure} sure)", namer.root(o), o.base, o.why)));
    }
    let rows = l.rows.iter().take(ROWS_MAX).map(row).collect();
    nodes.push(Node::Table { key: "rows".into(), columns, rows });
    if l.rows.len() > ROWS_MAX {
        nodes.push(dim(format!("... and {} rows with fewer samples", l.rows.len() - ROWS_MAX)));
    }
    let title = format!("{rank}. line 0x{:x}: {} {}", l.address, thousands(l.contended), e.run.unit);
    Node::Section { key: format!("line_{rank}"), title, nodes }
}

/// Two runs side by side: totals and their change.
pub fn compare(first: &Evidence, second: &Evidence, options: &Options) -> Report {
    let totals = |e: &Evidence| {
        let all = lines(e, options.question.line);
        let sum = all.iter().map(|l| l.contended).fold(0, u64::saturating_add);
        (sum, all.len() as u64, all.first().map_or(0, |l| l.contended))
    };
    let (a, b) = (totals(first), totals(second));
    let change = |x: u64, y: u64| match x {
        0 => Cell::unknown(),
        _ => {
            let c = y as f64 / x as f64 - 1.0;
            Cell::number(c, format!("{:+.0}%", 100.0 * c))
        }
    };
    let columns = vec![
        Column::text("what", ""),
        Column::number("first", "first"),
        Column::number("second", "second"),
        Column::number("change", "change"),
    ];
    let row =
        |what: String, x: u64, y: u64| vec![Cell::text(what), Cell::count(x), Cell::count(y), change(x, y)];
    let rows = vec![
        row(first.run.unit.to_string(), a.0, b.0),
        row("lines with any".into(), a.1, b.1),
        row("on the worst line".into(), a.2, b.2),
    ];
    let mut nodes = vec![Node::Table { key: "totals".into(), columns, rows }];
    if first.run.unit != second.run.unit {
        nodes.push(text("The units differ: these numbers cannot be compared."));
    }
    nodes.push(dim("Totals of different machines, loads or sampling rates are not comparable."));
    for (key, e) in [("first", first), ("second", second)] {
        let inner = report(e, &[], options).view.nodes;
        nodes.push(Node::Section { key: key.into(), title: key.into(), nodes: inner });
    }
    let outcome = report(second, &[], options).outcome;
    Report { view: View { kind: "samples_comparison", schema_version: SCHEMA_VERSION, nodes }, outcome }
}
