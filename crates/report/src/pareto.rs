//! Samples as users of `perf c2c` know them: the Pareto table with fields beside the offsets, and folded stacks.

use crate::pmu::{self, PmuLine};
use crate::{Options, SCHEMA_VERSION, dim};
use std::collections::BTreeMap;
use tussle_contention::fields::Namer;
use tussle_evidence::*;
use tussle_model::LineSize;
use tussle_render::{Cell, Column, Node, View, thousands};

/// Lines printed.
const LINES_MAX: usize = 50;

/// The Pareto table of `perf c2c report`: a line's counts, then its rows as shares of them.
pub fn pareto(e: &Evidence, options: &Options) -> View {
    let namer = Namer::new(e);
    let all = pmu::lines(e, options.question.line);
    let mut nodes = vec![dim("Shared Cache Line Distribution Pareto")];
    nodes.push(Node::List {
        key: "lines".into(),
        items: all.iter().enumerate().take(LINES_MAX).map(|(i, l)| one(e, &namer, i, l)).collect(),
    });
    if all.len() > LINES_MAX {
        nodes.push(dim(format!("... and {} lines with fewer samples", all.len() - LINES_MAX)));
    }
    View { kind: "pareto", schema_version: SCHEMA_VERSION, nodes }
}

/// A counter of a row and its column.
/// Key, heading, number, and which of them go first where there is no room.
type Counter = (&'static str, &'static str, fn(&Sampled) -> Option<u64>, u8);

const COUNTERS: [Counter; 6] = [
    ("hitm_remote", "RmtHitm", |s| s.hitm_remote, 0),
    ("hitm_local", "LclHitm", |s| s.hitm_local, 0),
    ("peer", "Peer", |s| s.peer, 0),
    ("store_l1_hit", "L1 Hit", |s| s.store_l1_hit, 1),
    ("store_l1_miss", "L1 Miss", |s| s.store_l1_miss, 2),
    ("store_no_level", "N/A", |s| s.store_no_level, 3),
];

fn one(e: &Evidence, namer: &Namer, number: usize, l: &PmuLine) -> Node {
    // A column that this unit cannot fill is left out, as perf leaves it out.
    let seen: Vec<&Counter> = COUNTERS.iter().filter(|c| l.rows.iter().any(|s| c.2(s).is_some())).collect();
    let total = |c: &Counter| l.rows.iter().filter_map(|s| c.2(s)).fold(0, u64::saturating_add);
    let mut columns: Vec<Column> = seen.iter().map(|c| Column::number(c.0, c.1).rank(c.3)).collect();
    columns.extend([
        Column::number("offset", "Offset"),
        Column::text("field", "Field"),
        Column::number("code", "Code address").rank(4),
        Column::number("records", "records").rank(3),
        Column::number("cpus", "cpu cnt").rank(1),
        Column::text("symbol", "Symbol"),
        Column::text("source", "Source:Line"),
    ]);
    let row = |s: &&Sampled| {
        let percent = |c: &&Counter| match (c.2(s), total(c)) {
            (None, _) => Cell::unknown(),
            (Some(_), 0) => Cell::number(0.0, "0.00%"),
            (Some(n), all) => {
                let p = 100.0 * n as f64 / all as f64;
                Cell::number(p, format!("{p:.2}%"))
            }
        };
        let base = e.objects.get(s.object as usize).map_or(0, |o| o.base);
        let offset = base.saturating_add(s.offset).saturating_sub(l.address);
        let code = s.code.and_then(|c| e.code.get(c as usize)).map(|c| c.address);
        let (function, place) = pmu::function(e, s);
        let mut cells: Vec<Cell> = seen.iter().map(percent).collect();
        cells.extend([
            Cell::value(offset, format!("0x{offset:x}")),
            Cell::text(pmu::field(e, namer, s)),
            code.map_or_else(Cell::unknown, |a| Cell::value(a, format!("0x{a:x}"))),
            Cell::count(s.records),
            s.cpus.map_or_else(Cell::unknown, |c| Cell::count(c.into())),
            Cell::text(function),
            Cell::text(place),
        ]);
        cells
    };
    let rows = l.rows.iter().filter(|s| pmu::contended(s) > 0 || pmu::stores(s).unwrap_or(0) > 0);
    let rows = rows.map(row).collect();
    let counts: Vec<String> = seen.iter().map(|c| format!("{} {}", c.1, thousands(total(c)))).collect();
    let title = format!("{number}  {}  0x{:x}", counts.join("  "), l.address);
    let mut nodes = vec![
        Node::Data { key: "number".into(), value: number.into() },
        Node::Data { key: "address".into(), value: l.address.into() },
        Node::Data { key: "contended".into(), value: l.contended.into() },
    ];
    nodes.extend(seen.iter().map(|c| Node::Data { key: format!("total_{}", c.0), value: total(c).into() }));
    nodes.push(Node::Table { key: "rows".into(), columns, rows });
    Node::Section { key: format!("line_{number}"), title, nodes }
}

/// Folded stacks (`process;outer;...;function;field count`), what flame graph tools read: HITM or peer samples, or
/// the samples of code that the recorder kept.
pub fn folded(e: &Evidence) -> String {
    let namer = Namer::new(e);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    match &e.samples {
        Some(_) => {
            for s in pmu::lines(e, LineSize::L64).iter().flat_map(|l| &l.rows) {
                add(&mut sums, e, s.code, pmu::field(e, &namer, s), pmu::contended(s));
            }
        }
        None => {
            for t in &e.touches {
                let field = namer.name(t.object, t.offset, u64::from(t.size)).path;
                add(&mut sums, e, Some(t.code), field, t.samples);
            }
        }
    }
    sums.into_iter().map(|(stack, n)| format!("{stack} {n}\n")).collect()
}

fn add(sums: &mut BTreeMap<String, u64>, e: &Evidence, code: Option<u32>, field: String, count: u64) {
    if count == 0 {
        return;
    }
    let clean = |s: &str| tussle_render::visible(&s.replace([';', '\n', '\t'], ":"));
    let frames = |id: u32| -> Vec<String> {
        let Some(c) = e.code.get(id as usize) else { return Vec::new() };
        match c.frames.is_empty() {
            true => vec![format!("0x{:x}", c.address)],
            false => c.frames.iter().rev().map(|f| clean(&f.function)).collect(),
        }
    };
    let row = code.and_then(|c| e.code.get(c as usize));
    let process = row.and_then(|c| e.processes.get(c.process as usize)).map_or("", |p| p.exe.as_str());
    let mut stack = vec![clean(if process.is_empty() { "all" } else { process })];
    for caller in row.iter().flat_map(|c| c.chain.iter().rev()) {
        stack.extend(frames(*caller));
    }
    stack.extend(code.into_iter().flat_map(frames));
    stack.push(clean(&field));
    *sums.entry(stack.join(";")).or_default() += count;
}
