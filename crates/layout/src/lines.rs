//! The picture that pahole does not draw: every line of an object as a row of byte cells, with its leaf fields.

use crate::phases::{Where, list, span};
use serde_json::json;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, LineSize, TypeId, TypeTable, fields};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, offset};

/// More lines than this over all phases are cut, with a remark: a page of them has a few megabytes.
pub const LINES_MAX: u64 = 2048;

/// Parts of fields drawn in one picture; more are left out.
const PARTS_MAX: usize = 20_000;

/// One line of an object at one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index, 0 for the line in which the object begins.
    pub index: u64,
    /// Offset in the object of the line's first byte; negative when the object begins inside the line.
    pub start: i64,
    /// One character per byte: a letter per field, `.` for holes, blank outside the object.
    pub cells: String,
    /// The fields that touch the line.
    pub fields: Vec<Part>,
}

/// A field, or the part of it that lies in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The leaf.
    pub leaf: Leaf,
    /// Its letter in [`Line::cells`].
    pub letter: char,
    /// It reaches into another line.
    pub straddles: bool,
}

/// The first `most` lines of an object of type `id` that begins `phase` bytes into a line, and whether some were cut.
pub fn lines(table: &TypeTable, id: TypeId, phase: u64, line: LineSize, most: u64) -> (Vec<Line>, bool) {
    // Positions are signed below; no real object comes near this.
    let size = table.size(id).unwrap_or(0).min(1 << 48);
    let phase = phase % line.bytes();
    let leaves: Vec<Leaf> =
        fields(table, id, Arrays::Whole).into_iter().filter(|l| l.end() <= 1 << 48).collect();
    let total = line.span(phase, size).end;
    let bytes = line.bytes();
    let mut by_line: Vec<Vec<&Leaf>> = vec![Vec::new(); total.min(most) as usize];
    let mut room = PARTS_MAX;
    for leaf in leaves.iter().filter(|l| l.size > 0) {
        let s = span(leaf, phase, line);
        for list in by_line.iter_mut().take(s.end as usize).skip(s.first as usize).take(room) {
            list.push(leaf);
            room -= 1;
        }
    }
    let out = by_line.into_iter().enumerate().map(|(index, touching)| {
        let index = index as u64;
        let start = (index * bytes) as i64 - phase as i64;
        let mut cells: Vec<char> = (0..bytes as i64)
            .map(|i| if (0..size as i64).contains(&(start + i)) { '.' } else { ' ' })
            .collect();
        let mut fields = Vec::new();
        for (n, leaf) in touching.into_iter().enumerate() {
            let letter = letter(n);
            for (i, cell) in cells.iter_mut().enumerate() {
                let at = start + i as i64;
                let inside = at >= leaf.offset as i64 && at < leaf.end() as i64;
                if inside && *cell == '.' {
                    *cell = letter;
                }
            }
            let straddles = span(leaf, phase, line).straddles();
            fields.push(Part { leaf: leaf.clone(), letter, straddles });
        }
        Line { index, start, cells: cells.into_iter().collect(), fields }
    });
    (out.collect(), total > most)
}

/// `a` to `z`, `A` to `Z`, then `#` for whatever a 128-byte line full of bytes still needs.
pub(crate) fn letter(n: usize) -> char {
    (b'a'..=b'z').chain(b'A'..=b'Z').nth(n).map_or('#', char::from)
}

/// The picture of one type over all phases of `at`, as a section.
pub fn view(table: &TypeTable, id: TypeId, at: &Where, line: LineSize, btf: bool) -> Node {
    let phases = at.phases(table, id, line, btf);
    let name = table.name(id);
    let size = table.size(id).unwrap_or(0);
    let most = (LINES_MAX / phases.len().max(1) as u64).max(1);
    let items = phases.iter().map(|&p| phase_view(table, id, p, line, most)).collect();
    Node::Section {
        key: "type".into(),
        title: name.clone(),
        nodes: vec![
            Node::Facts(vec![
                fact("name", "type", Cell::text(name)),
                fact("size_bytes", "size", Cell::value(size, format!("{size} bytes"))),
                fact("line_bytes", "line", Cell::value(line.bytes(), format!("{} bytes", line.bytes()))),
                fact("phases", "answer for", Cell::value(json!(phases), list(&phases, phases.len()))),
            ]),
            Node::List { key: "layouts".into(), items },
        ],
    }
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn phase_view(table: &TypeTable, id: TypeId, phase: u64, line: LineSize, most: u64) -> Node {
    let (lines, cut) = lines(table, id, phase, line, most);
    let mut nodes = vec![Node::Facts(vec![
        fact("phase_bytes", "phase", Cell::count(phase)),
        fact("lines", "lines", Cell::count(lines.len() as u64)),
    ])];
    let columns = vec![
        Column::number("line", "line"),
        Column::text("offset_bytes", "offset").rank(1),
        Column::picture("cells", "bytes"),
        Column::text("fields", "fields"),
    ];
    let rows = lines.iter().map(row).collect();
    nodes.push(Node::Table { key: "rows".into(), columns, rows });
    if cut {
        nodes.push(Node::Text(vec![Span { text: format!("cut after {most} lines"), tone: Tone::Warn }]));
    }
    Node::Section { key: "layout".into(), title: format!("phase {phase}"), nodes }
}

fn row(line: &Line) -> Vec<Cell> {
    let first = line.start.max(0) as u64;
    let fields: Vec<_> = line
        .fields
        .iter()
        .map(|p| {
            json!({
                "path": p.leaf.path, "letter": p.letter, "offset_bytes": p.leaf.offset, "size_bytes": p.leaf.size,
                "bits": p.leaf.bits.map(|b| b.1), "straddles": p.straddles, "overlaps": p.leaf.overlaps,
            })
        })
        .collect();
    let straddling = line.fields.iter().any(|p| p.straddles);
    let text = line.fields.iter().map(part_text).collect::<Vec<_>>().join(" ");
    let tone = if straddling { Tone::Warn } else { Tone::Plain };
    vec![
        Cell::count(line.index),
        Cell::value(first, offset(first)),
        Cell::value(line.cells.clone(), format!("|{}|", line.cells)),
        Cell::value(fields, text).tone(tone),
    ]
}

/// `a=mm_count@56`; `<>` marks a field that straddles, `|` one that overlaps others.
fn part_text(p: &Part) -> String {
    let mark = if p.straddles { "<>" } else { "" };
    let over = if p.leaf.overlaps { "|" } else { "" };
    format!("{}={}@{}{mark}{over}", p.letter, p.leaf.path, p.leaf.offset)
}
