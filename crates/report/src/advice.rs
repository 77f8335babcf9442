//! The advice as a view tree.

use crate::{before_after, lines};
use serde_json::json;
use tussle_evidence::Evidence;
use tussle_evidence::tables::is_of_library;
use tussle_model::LineSize;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View, thousands};

use tussle_advise::advice::{Advice, Report};
use tussle_advise::class::Class;
use tussle_advise::cost::Cost;
use tussle_advise::stays::Stays;
use tussle_advise::turns::{AtTurn, Sign};

/// Version of the JSON document of `advise`.
pub const SCHEMA_VERSION: u32 = 1;

/// What `tussle advise` prints.
pub fn view(report: &Report) -> View {
    let mut nodes = vec![Node::Facts(facts(report)), Node::Text(vec![Span::plain(verdict(report))])];
    let replayed = report.advices.iter().any(|a| a.replayed.is_some());
    let with = |cells: Vec<Cell>, a: &Advice| match replayed {
        true => cells.into_iter().chain([replay(a)]).collect(),
        false => cells,
    };
    nodes.push(Node::Table {
        key: "advice".into(),
        columns: columns()
            .into_iter()
            .chain(replayed.then(|| Column::text("replayed", "Replayed")))
            .collect(),
        rows: report.advices.iter().enumerate().map(|(n, a)| with(row(n + 1, a), a)).collect(),
    });
    if replayed {
        nodes.push(Node::Text(vec![Span { text: REPLAYED.into(), tone: Tone::Dim }]));
    }
    for (n, a) in report.advices.iter().enumerate() {
        nodes.extend(remarks(n + 1, a));
    }
    for note in &report.notes {
        nodes.push(Node::Text(vec![Span { text: format!("note: {note}"), tone: Tone::Dim }]));
    }
    nodes.push(Node::Data { key: "details".into(), value: details(report) });
    if let Some(first) = report.advices.first() {
        let text = match report.decl.as_ref().is_some_and(|d| is_of_library(&d.file)) {
            true => format!("No patch: {} is a library's. {OF_LIBRARY}", report.type_name),
            false => format!("Patch: {}", crate::signs::fix(&report.type_name, &first.edits)),
        };
        nodes.push(Node::Text(vec![Span::plain(text)]));
    }
    View { kind: "advise", schema_version: SCHEMA_VERSION, nodes }
}

/// What to do about a type of a library.
const OF_LIBRARY: &str = "Put it into a type of your own with that alignment.";

/// Where no struct is to be changed: why not.
pub fn nothing(why: &str) -> View {
    let next = "`tussle report` lists what fights and why; -C NAME asks about one struct.";
    let nodes = vec![Node::Text(vec![Span::plain(format!("{why}. {next}"))])];
    View { kind: "advise", schema_version: SCHEMA_VERSION, nodes }
}

/// The same with the best change drawn: an object's bytes today and after it.
pub fn drawn(e: &Evidence, report: &Report, line: LineSize) -> View {
    let mut view = view(report);
    let at = view.nodes.iter().position(|n| matches!(n, Node::Table { .. })).map_or(0, |i| i + 1);
    let drawings =
        report.advices.first().map_or(Vec::new(), |a| before_after::drawings(e, a, line, "after #1"));
    view.nodes.splice(at..at, drawings);
    view.nodes.extend(on_lines(e, report, line));
    view
}

/// The sizes of lines for which the first change holds; where there is none, those on which a layout would help.
fn on_lines(e: &Evidence, report: &Report, line: LineSize) -> Vec<Node> {
    let text = |s: String| Node::Text(vec![Span::plain(s)]);
    if let Some(first) = report.advices.first() {
        let left = tussle_advise::lines::left(e, first);
        let value = lines::left_value(&left);
        return vec![text(format!("1: {}", lines::left(&left))), Node::Data { key: "by_line".into(), value }];
    }
    let helped = tussle_advise::lines::helped(e, &report.type_name);
    if helped.iter().any(|bytes| u64::from(*bytes) == line.bytes()) {
        return Vec::new();
    }
    let wider = helped.iter().find(|bytes| u64::from(**bytes) > line.bytes());
    wider.map_or(Vec::new(), |bytes| vec![text(lines::on_wider(&report.type_name, &helped, *bytes))])
}

fn facts(report: &Report) -> Vec<Fact> {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mut out = vec![fact("type", "Struct", Cell::text(&report.type_name).tone(Tone::Name))];
    if let Some(d) = &report.decl {
        out.push(fact("decl", "Defined at", Cell::text(format!("{}:{}", d.file, d.line))));
    }
    let e = |n: f64| Cell::number(n.round(), thousands(n.max(0.0).round() as u64));
    out.push(fact("class", "Class", class(report)));
    out.push(fact("transfers", "Expected transfers", cost_cell(&report.cost)));
    out.push(fact("e_true", "E on the same bytes", e(report.sharing.e_true)));
    out.push(fact("e_false", "E on different bytes", e(report.sharing.e_false)));
    out
}

/// What it is here, and elsewhere.
fn class(report: &Report) -> Cell {
    let here = report.class.words();
    match (report.latent, report.class) {
        (false, _) => Cell::text(here),
        (true, Class::Small) => Cell::value(here, "latent: a layout helps at other addresses"),
        (true, _) => Cell::value(here, format!("{here}; latent: a layout helps at other addresses")),
    }
}

/// One sentence that says whether layout can help at all.
fn verdict(report: &Report) -> String {
    if !report.advices.is_empty() {
        let latent = report.advices.iter().all(Advice::is_latent);
        let hidden = " Hidden at the recorded addresses, paid at others.";
        return format!("What to change, and what it costs.{}", if latent { hidden } else { "" });
    }
    let hottest = report.sharing.hottest.first().map_or("its fields", |h| h.0.as_str());
    let (words, remedy) = (report.class.words(), report.class.remedy());
    match report.class {
        _ if report.latent => {
            "Latent: at other addresses a layout helps, but no move of its members gains enough.".into()
        }
        Class::Small => "Nothing to gain: too little is fought over here.".into(),
        Class::SameBytes | Class::MovesWhole | Class::Library => {
            format!("Nothing to gain by layout at {hottest}. {words}: {remedy}.")
        }
        Class::LayoutHelps | Class::Undecided if report.refused.is_some() => {
            format!("{words}, but no patch would do what gains enough: the note says why.")
        }
        Class::LayoutHelps | Class::Undecided => {
            let unknown = || "what fights may be another object, or memory without members".into();
            let why = report.stays.as_ref().map_or_else(unknown, Stays::words);
            format!("{words}, but no move, exchange or alignment of its members gains enough: {why}.")
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::number("rank", "#"),
        Column::text("change", "Change"),
        Column::number("gain_transfers", "Gain"),
        Column::number("after_transfers", "Left"),
        Column::number("after_here_transfers", "Left here").rank(5),
        Column::number("after_worst_transfers", "At worst").rank(2),
        Column::number("object_bytes_added", "Bytes"),
        Column::number("live_bytes_added", "Live bytes").rank(1),
        Column::number("new_sharing_pairs", "New sharing"),
        Column::number("fields_moved", "Fields on other lines").rank(4),
        Column::number("lines_per_actor_added", "Lines/thread").rank(3),
        Column::text("why", "Why"),
    ]
}

fn row(n: usize, a: &Advice) -> Vec<Cell> {
    let change: Vec<String> = a.edits.iter().map(|e| e.to_string()).collect();
    let gain = a.gain();
    let share = 100.0 * gain / a.before.mean.max(1.0);
    let lines = a.after.lines_per_actor - a.before.lines_per_actor;
    vec![
        Cell::count(n as u64),
        Cell::text(change.join(" ")).tone(Tone::Strong),
        Cell::number(gain.round(), format!("{} ({share:.0}%)", thousands(gain.max(0.0).round() as u64))),
        transfers(a.after.mean),
        transfers(a.after.observed),
        transfers(a.after.worst),
        signed(a.bytes_added()),
        signed(a.live_bytes),
        Cell::count(a.new_sharing.len() as u64),
        Cell::count(a.moved.len() as u64),
        Cell::number(lines, format!("{lines:+.1}")),
        Cell::text(&a.why),
    ]
}

/// What the column says.
const REPLAYED: &str = "Replayed: change of the transfers with the recorded accesses in their order, from the least to \
                        the most over the recorded lengths of a turn. Where all agree it ranks, by the worst; \
                        elsewhere the order is unknown and Gain ranks, which is expected from shares of accesses.";

fn replay(a: &Advice) -> Cell {
    let Some(r) = &a.replayed else { return Cell::text("order unknown: not replayed") };
    let text = match r.sign() {
        Sign::Turns | Sign::Little | Sign::Unknown => format!("order unknown: {}", r.range()),
        Sign::Fewer | Sign::Same | Sign::More => r.range(),
    };
    let of = |t: &AtTurn| {
        json!({ "turn_instructions": t.turn_instructions, "before": t.reached.map(|r| r[0]),
                "after": t.reached.map(|r| r[1]) })
    };
    let turns: Vec<_> = r.0.iter().map(of).collect();
    Cell::value(json!({ "sign": r.sign().key(), "turns": turns }), text.trim_end_matches(": "))
}

/// `1,234` or, when phases differ, `1,234 (0..5,000 over 4 phases)`.
fn cost_cell(c: &Cost) -> Cell {
    let n = |x: f64| thousands(x.max(0.0).round() as u64);
    let text = if c.phases > 1 && (c.worst - c.mean).abs() >= 1.0 {
        format!("{} (here {}, at worst {}, {} phases)", n(c.mean), n(c.observed), n(c.worst), c.phases)
    } else {
        n(c.mean)
    };
    Cell::number(c.mean.round(), text)
}

fn transfers(x: f64) -> Cell {
    Cell::count(x.max(0.0).round() as u64)
}

fn signed(n: i64) -> Cell {
    Cell::value(n, if n > 0 { format!("+{}", signed_text(n)) } else { signed_text(n) })
}

fn signed_text(n: i64) -> String {
    let digits = thousands(n.unsigned_abs());
    if n < 0 { format!("-{digits}") } else { digits }
}

fn remarks(n: usize, a: &Advice) -> Vec<Node> {
    let text = |s: String| Node::Text(vec![Span::plain(s)]);
    let mut out = Vec::new();
    for (x, y) in a.new_sharing.iter().take(3) {
        out.push(text(format!("{n}: new in one line: {x} and {y}")));
    }
    out.extend(a.notes.iter().map(|note| text(format!("{n}: {note}"))));
    let allocations = a.allocations();
    if !allocations.is_empty() {
        out.push(text(format!("{n}: the patch aligns the memory of {}, too", allocations.join(", "))));
    }
    out
}

fn details(report: &Report) -> serde_json::Value {
    let cost = |c: &Cost| {
        json!({ "observed": c.observed, "mean": c.mean, "worst": c.worst, "phases": c.phases,
                "lines_per_actor": c.lines_per_actor })
    };
    let rows: Vec<_> = report
        .advices
        .iter()
        .map(|a| {
            json!({
                "moves": a.edits.iter().map(|e| e.to_string()).collect::<Vec<_>>(),
                "before": cost(&a.before), "after": cost(&a.after),
                "size_before_bytes": a.size_before, "size_after_bytes": a.size_after,
                "new_sharing": a.new_sharing, "fields_moved": a.moved, "latent": a.is_latent(), "notes": a.notes,
                "allocations": a.allocations(),
            })
        })
        .collect();
    let unit = format!("stores that find the line elsewhere and copies lost, of {}", report.unit);
    json!({ "unit": unit, "layouts_evaluated": report.evaluated,
            "before": cost(&report.cost), "hottest": report.sharing.hottest, "advice": rows, "notes": report.notes })
}
