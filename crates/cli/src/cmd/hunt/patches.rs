//! What was repaired, what was not and why, as a view.

use super::gate::{Case, Repair, Repairs};
use super::steps::edits;
use tussle_advise::Advice;
use tussle_advise::class::COST_MIN;
use tussle_host::fix::bill;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, offset, thousands};
use tussle_report::lines::name;

/// Fields shown with their offsets.
const OFFSETS_MAX: usize = 12;

/// Every patch with its bill, the one diff, what did not survive, what is left.
pub fn nodes(repairs: &Repairs, diff: &str, slower: bool) -> Vec<Node> {
    let mut out = Vec::new();
    let items = repairs.list.iter().map(one).collect();
    out.push(Node::List { key: "patches".into(), items });
    if slower {
        out.push(warn("The patched program is slower here: no patch is handed out."));
    } else if !diff.is_empty() {
        out.push(Node::Block { key: "diff".into(), language: "diff", text: diff.into() });
    }
    out.extend(rows(
        "passed_over",
        ("change", "not taken"),
        ("reason", "because"),
        repairs.passed_over.iter().map(|(t, r)| (t.clone(), r.clone())),
    ));
    if repairs.list.is_empty() {
        let said = match repairs.passed_over.is_empty() {
            true => "No patch was tried: the reason stands beside each case.",
            false => "No patch survived, because of the reasons above.",
        };
        out.push(warn(said));
    }
    out.extend(left(repairs));
    let beside = repairs.beside.iter().map(|c| {
        let remedy =
            "side by side on the heap in this run: an allocation of whole lines (alloc=64) parts them";
        (c.title.clone(), format!("{}, {remedy}", whole(c.cost)))
    });
    out.extend(rows("beside", ("fields", "neighbours"), ("transfers", "transfers"), beside));
    let vanished = repairs.vanished.iter().map(|c| {
        let why =
            "no case any more when recorded with the patch, which is not for it: in other runs it may be";
        (c.title.clone(), format!("{}, {why}", whole(c.cost)))
    });
    out.extend(rows("vanished", ("fields", "not seen again"), ("transfers", "transfers"), vanished));
    out
}

/// How a patch's transfers were compared where whole recordings could not be.
const BY_PAIRS: &str = "counting only what the fields that it parts cost each other: in every recording with the \
                        patch threads met otherwise, as on a busy machine";

fn one(r: &Repair) -> Node {
    let a = &r.advice;
    let fact = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
    let how = if r.by_pairs { BY_PAIRS } else { "recorded again after the patch" };
    let shown = format!("{} to {}, {how}", whole(r.before), whole(r.after));
    let value = serde_json::json!({ "before": r.before, "after": r.after, "promised": r.promised });
    let of_line = |(bytes, left): &(u64, f64)| serde_json::json!({ "line_bytes": bytes, "transfers": left });
    let by_line: Vec<serde_json::Value> = r.left_by_line.iter().map(of_line).collect();
    let bytes = serde_json::json!({ "before": r.patched.size_before, "after": r.patched.size_after });
    let size = format!("{} to {} bytes", r.patched.size_before, r.patched.size_after);
    let live = bill::live_growth(&r.patched, a);
    let memory = format!("{} bytes over all live objects", bill::live_words(live));
    let mut facts = vec![
        fact(
            "type",
            if a.variables.is_empty() { "struct" } else { "variable" },
            Cell::text(a.changed().join(", ")).tone(Tone::Name),
        ),
        fact("edit", "edit", Cell::text(edits(a)).tone(Tone::Strong)),
        fact("why", "why", Cell::text(a.why.clone())),
        fact("size_bytes", "size", Cell::value(bytes, size)),
        fact("live_bytes", "memory", Cell::value(live.0, memory)),
        fact("new_sharing", "new sharing", Cell::text(new_sharing(a))),
        fact("transfers", "transfers", Cell::value(value, shown).tone(Tone::Good)),
        fact("output", "output", Cell::text(r.output.words())),
        fact("lines", "lines", Cell::value(by_line, lines(&r.left_by_line))),
    ];
    for (n, note) in a.notes.iter().chain(&r.patched.notes).enumerate() {
        facts.push(fact(&format!("note_{n}"), "note", Cell::text(note.clone()).tone(Tone::Warn)));
    }
    let title = format!("Patch of {}, offsets verified by compiling it", a.changed().join(", "));
    Node::Section {
        key: "patch".into(),
        title,
        nodes: [vec![Node::Facts(facts), offsets(r)], r.drawn.clone()].concat(),
    }
}

/// `holds for 64 bytes, 128 (Apple, POWER, pairs on x86); with 256 (s390) 12,345 transfers are left`.
fn lines(left: &[(u64, f64)]) -> String {
    type Lines<'a> = Vec<&'a (u64, f64)>;
    let (open, holds): (Lines<'_>, Lines<'_>) = left.iter().partition(|l| l.1 >= COST_MIN);
    let holds: Vec<String> = holds.iter().map(|l| name(l.0)).collect();
    let open = open.iter().map(|l| format!("with {} {} transfers are left", name(l.0), whole(l.1)));
    let said = (!holds.is_empty()).then(|| format!("holds for {}", holds.join(", ")));
    said.into_iter().chain(open).collect::<Vec<_>>().join("; ")
}

fn offsets(r: &Repair) -> Node {
    let columns = vec![
        Column::text("field", "field"),
        Column::number("before_bytes", "before"),
        Column::number("after_bytes", "after"),
    ];
    let cell = |bytes: u64| Cell::value(bytes, offset(bytes));
    let moved = r.patched.moved().into_iter().take(OFFSETS_MAX);
    let rows = moved.map(|f| vec![Cell::text(f.path), cell(f.before), cell(f.after)]);
    Node::Table { key: "offsets".into(), columns, rows: rows.collect() }
}

fn rows(
    key: &str,
    a: (&'static str, &'static str),
    b: (&'static str, &'static str),
    list: impl Iterator<Item = (String, String)>,
) -> Option<Node> {
    let rows: Vec<Vec<Cell>> = list.map(|(x, y)| vec![Cell::text(x), Cell::text(y)]).collect();
    let columns = vec![Column::text(a.0, a.1), Column::text(b.0, b.1)];
    (!rows.is_empty()).then(|| Node::Table { key: key.into(), columns, rows })
}

/// What stays, and why where no change above was for it.
fn left(repairs: &Repairs) -> Option<Node> {
    let row = |(c, why): (&Case, &Option<String>)| {
        let hidden = if c.latent { ", at another phase" } else { "" };
        let why = why.as_deref().unwrap_or("what was tried stands under \u{201c}not taken\u{201d}");
        vec![Cell::text(c.title.clone()), Cell::text(format!("{}{hidden}", whole(c.cost))), Cell::text(why)]
    };
    let rows: Vec<Vec<Cell>> = repairs.left.iter().zip(&repairs.because).map(row).collect();
    let columns = vec![
        Column::text("fields", "still there"),
        Column::text("transfers", "transfers"),
        Column::text("because", "because"),
    ];
    (!rows.is_empty()).then(|| Node::Table { key: "left".into(), columns, rows })
}

fn new_sharing(a: &Advice) -> String {
    if a.new_sharing.is_empty() {
        return "none".into();
    }
    a.new_sharing.iter().map(|(x, y)| format!("{x} \u{27f7} {y}")).collect::<Vec<_>>().join(", ")
}

fn warn(text: &str) -> Node {
    Node::Text(vec![Span { text: text.into(), tone: Tone::Warn }])
}

fn whole(e: f64) -> String {
    thousands(e.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_the_lines_that_it_holds_for() {
        let left = [(64, 0.0), (128, 20.0), (256, 12_345.0)];
        let want = "holds for 64 bytes, 128 (Apple, POWER, pairs of lines on x86); \
                    with 256 (s390) 12,345 transfers are left";
        assert_eq!(lines(&left), want);
        assert_eq!(lines(&[(64, 5_000.0)]), "with 64 bytes 5,000 transfers are left");
    }
}
