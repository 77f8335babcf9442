//! A verified patch with its bill, as a view tree.

use tussle_advise::{Advice, Edit};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View, offset, plural};

use super::{FieldMove, Patched};

/// Version of the JSON document of `fix`.
pub const SCHEMA_VERSION: u32 = 1;

/// Moved members that are listed.
const ROWS_MAX: usize = 64;

impl Patched {
    /// Members that moved, in the old order: one whose parts all moved alike is told as a whole.
    pub fn moved(&self) -> Vec<FieldMove> {
        let mut out: Vec<FieldMove> = Vec::new();
        let mut rest = self.fields.as_slice();
        while let Some(first) = rest.first() {
            let name = member(&first.path);
            let parts = rest.iter().take_while(|f| member(&f.path) == name).count();
            let (own, others) = rest.split_at(parts);
            rest = others;
            let distance = |f: &FieldMove| f.after.wrapping_sub(f.before);
            let alike = own.iter().all(|f| distance(f) == distance(first));
            if parts > 1 && alike && first.before != first.after {
                out.push(whole(name, own));
            } else {
                out.extend(own.iter().filter(|f| f.before != f.after).cloned());
            }
        }
        out
    }
}

/// How sure a number of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The layout rules gave the size that the compiler made.
    Exact,
    /// What the structs grow by (a type around a field, where the compiler orders fields): what holds them may be
    /// rounded up.
    AtLeast,
    /// Gaps before variables that are aligned: the linker may put others there.
    AtMost,
}

/// By how much all objects alive at once grow, bytes.
pub fn live_growth(patched: &Patched, bill: &Advice) -> (i64, Bound) {
    let growth = |(before, after): (u64, u64)| after as i64 - before as i64;
    let said = growth((bill.size_before, bill.size_after));
    let made = growth((patched.size_before, patched.size_after));
    if !bill.variables.is_empty() {
        let aligned = bill.edits.iter().any(|e| matches!(e, Edit::Align { .. }));
        return (bill.live_bytes, if aligned { Bound::AtMost } else { Bound::Exact });
    }
    if made == said {
        return (bill.live_bytes, Bound::Exact);
    }
    let structs = if said == 0 { 1 } else { (bill.live_bytes / said).max(1) };
    (made.saturating_mul(structs), Bound::AtLeast)
}

/// `+592`, or `at least +592`.
pub fn live_words((bytes, bound): (i64, Bound)) -> String {
    let before = match bound {
        Bound::Exact => "",
        Bound::AtLeast => "at least ",
        Bound::AtMost => "at most ",
    };
    format!("{before}{bytes:+}")
}

/// The member of the struct that a path begins with.
fn member(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// A member whose parts all moved by the same distance.
fn whole(name: &str, parts: &[FieldMove]) -> FieldMove {
    let first = |at: fn(&FieldMove) -> u64| parts.iter().map(at).min().unwrap_or(0);
    let (before, after) = (first(|f| f.before), first(|f| f.after));
    let end = parts.iter().map(|f| f.before + f.size).max().unwrap_or(before);
    FieldMove { path: name.into(), before, after, size: end - before }
}

/// What `tussle fix` prints: the bill first and the diff last, so that the whole output can be given to `patch`.
pub fn view(patched: &Patched, bill: Option<&Advice>) -> View {
    let mut nodes = vec![Node::Facts(facts(patched, bill))];
    let moved = patched.moved();
    if !moved.is_empty() {
        nodes.push(Node::Table {
            key: "moved".into(),
            columns: vec![
                Column::text("field", "Field"),
                Column::number("before_bytes", "Offset before"),
                Column::number("after_bytes", "after"),
                Column::number("size_bytes", "Size"),
            ],
            rows: moved.iter().take(ROWS_MAX).map(row).collect(),
        });
    }
    if moved.len() > ROWS_MAX {
        nodes.push(Node::Text(vec![Span::plain(format!("... and {} more fields", moved.len() - ROWS_MAX))]));
    }
    let notes: Vec<&String> = patched.notes.iter().chain(bill.iter().flat_map(|b| &b.notes)).collect();
    for note in &notes {
        nodes.push(Node::Text(vec![Span { text: format!("note: {note}"), tone: Tone::Warn }]));
    }
    for (a, b) in bill.iter().flat_map(|b| &b.new_sharing) {
        nodes.push(Node::Text(vec![Span {
            text: format!("note: new in one line: {a} and {b}"),
            tone: Tone::Warn,
        }]));
    }
    if let Some(bill) = bill {
        nodes.push(data("new_sharing", serde_json::json!(bill.new_sharing)));
        nodes.push(data("lines_per_actor_before", serde_json::json!(bill.before.lines_per_actor)));
        nodes.push(data("transfers_before", serde_json::json!(bill.before.mean)));
        nodes.push(data("phases", serde_json::json!(bill.after.phases)));
    }
    nodes.push(data("notes", serde_json::json!(notes)));
    nodes.push(Node::Block { key: "diff".into(), language: "diff", text: patched.diff.clone() });
    View { kind: "fix", schema_version: SCHEMA_VERSION, nodes }
}

fn data(key: &str, value: serde_json::Value) -> Node {
    Node::Data { key: key.into(), value }
}

fn row(f: &FieldMove) -> Vec<Cell> {
    let at = |n: u64| Cell::value(n, offset(n));
    vec![Cell::text(&f.path).tone(Tone::Name), at(f.before), at(f.after), Cell::count(f.size)]
}

fn facts(patched: &Patched, bill: Option<&Advice>) -> Vec<Fact> {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let (before, after) = (patched.size_before, patched.size_after);
    let size = Cell::value(after, format!("{before} -> {after} bytes"));
    let mut out = vec![
        fact("type", "Struct", Cell::text(&patched.type_name).tone(Tone::Name)),
        fact("size_bytes", "Size", size),
    ];
    match bill {
        Some(b) => {
            let e = |n: f64| tussle_render::thousands(n.max(0.0).round() as u64);
            let phases = plural(b.after.phases as usize, "phase", "phases");
            let text = format!("{} -> {} (mean over {phases})", e(b.before.mean), e(b.after.mean));
            out.push(fact(
                "expected_invalidations",
                "Stores elsewhere and copies lost",
                Cell::number(b.after.mean, text),
            ));
            let here = format!("{} -> {}", e(b.before.observed), e(b.after.observed));
            out.push(fact(
                "expected_here",
                "at the recorded addresses",
                Cell::number(b.after.observed, here),
            ));
            let lines = format!("{:.1} -> {:.1}", b.before.lines_per_actor, b.after.lines_per_actor);
            let lines = Cell::number(b.after.lines_per_actor, lines);
            out.push(fact("lines_per_actor", "Lines per thread (cost without contention)", lines));
            let live = live_growth(patched, b);
            let live = Cell::value(live.0, live_words(live));
            out.push(fact("live_bytes_added", "Bytes over all live objects", live));
        }
        None => out.push(fact("expected_invalidations", "Stores elsewhere and copies lost", Cell::unknown())),
    }
    let checked = format!("{} offsets equal the compiler's", patched.fields.len());
    out.push(fact("offsets_verified", "Verified", Cell::value(patched.fields.len() as u64, checked)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_is_of_what_the_compiler_made() {
        let patched = |size_after| Patched {
            type_name: "ring::Ring".into(),
            edits: Vec::new(),
            diff: String::new(),
            files: Vec::new(),
            fields: Vec::new(),
            size_before: 48,
            size_after,
            notes: Vec::new(),
        };
        // Three of them, each in a block that is rounded up.
        let said =
            |size_after, live_bytes| Advice { size_before: 48, size_after, live_bytes, ..Advice::default() };
        assert_eq!(live_growth(&patched(320), &said(320, 3 * 320)), (960, Bound::Exact));
        assert_eq!(live_growth(&patched(640), &said(320, 3 * 320)), (3 * 592, Bound::AtLeast));
        // Nobody said that it grows.
        assert_eq!(live_growth(&patched(176), &said(48, 0)), (128, Bound::AtLeast));
        assert_eq!(live_words((128, Bound::AtLeast)), "at least +128");
        assert_eq!(live_words((112, Bound::AtMost)), "at most +112");
    }

    #[test]
    fn a_member_that_moves_as_a_whole_is_one_row() {
        let field = |path: &str, before, after, size| FieldMove { path: path.into(), before, after, size };
        let fields = vec![
            field("id", 0, 0, 8),
            // Two views of a union.
            field("lock.word", 8, 64, 8),
            field("lock.bytes", 8, 64, 40),
            field("row[0]", 48, 104, 4),
            field("row[1]", 52, 128, 4),
            field("last", 56, 132, 4),
        ];
        let patched = Patched {
            type_name: "struct s".into(),
            edits: Vec::new(),
            diff: String::new(),
            files: Vec::new(),
            fields,
            size_before: 64,
            size_after: 136,
            notes: Vec::new(),
        };
        let rows =
            [("lock", 8, 64, 40), ("row[0]", 48, 104, 4), ("row[1]", 52, 128, 4), ("last", 56, 132, 4)];
        let expected: Vec<FieldMove> = rows.map(|(path, a, b, size)| field(path, a, b, size)).to_vec();
        assert_eq!(patched.moved(), expected);
    }
}
