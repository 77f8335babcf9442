//! A struct over builds: each of its lines as a row of letters per build, one letter for a field in all of them.

use crate::lines::{LINES_MAX, Line, letter, lines};
use std::collections::{BTreeMap, BTreeSet};
use tussle_model::{LineSize, TypeId, TypeTable};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone};

/// One build's definition of the struct.
pub struct Build<'a> {
    /// What it is called: its file.
    pub name: String,
    /// Its types.
    pub table: &'a TypeTable,
    /// The struct; `None` where the build has none of that name.
    pub id: Option<TypeId>,
}

/// The lines of one build, and on which of them every field lies.
struct Drawn<'a> {
    name: &'a str,
    size: Option<u64>,
    lines: Vec<Line>,
    homes: BTreeMap<String, BTreeSet<u64>>,
}

/// Every line of an object that begins `phase` bytes into one, over the builds in their order.
pub fn view(name: &str, builds: &[Build<'_>], phase: u64, line: LineSize) -> Node {
    let drawn: Vec<Drawn<'_>> = builds.iter().map(|b| drawn(b, phase, line)).collect();
    let most = drawn.iter().map(|d| d.lines.len()).max().unwrap_or(0);
    let place = match phase {
        0 => "where an object begins a line (--phase: elsewhere)".to_string(),
        n => format!("where an object begins {n} bytes into a line"),
    };
    let fact = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
    let mut nodes = vec![Node::Facts(vec![
        fact("name", "type", Cell::text(name)),
        fact("line_bytes", "line", Cell::value(line.bytes(), format!("{} bytes", line.bytes()))),
        fact("phase_bytes", "answer for", Cell::value(phase, place)),
    ])];
    nodes.push(sizes(&drawn));
    let items = (0..most).map(|i| one_line(&drawn, i)).collect();
    nodes.push(Node::List { key: "lines".into(), items });
    Node::Section { key: "type".into(), title: name.into(), nodes }
}

fn drawn<'a>(build: &'a Build<'_>, phase: u64, line: LineSize) -> Drawn<'a> {
    let most = LINES_MAX / 16;
    let lines = build.id.map_or(Vec::new(), |id| lines(build.table, id, phase, line, most).0);
    let mut homes: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for l in &lines {
        for p in &l.fields {
            homes.entry(p.leaf.path.clone()).or_default().insert(l.index);
        }
    }
    let size = build.id.and_then(|id| build.table.size(id));
    Drawn { name: &build.name, size, lines, homes }
}

/// Size and lines of every build.
fn sizes(all: &[Drawn<'_>]) -> Node {
    let columns = vec![
        Column::text("build", "build"),
        Column::number("size_bytes", "bytes"),
        Column::number("lines", "lines"),
    ];
    let known = |d: &Drawn<'_>, n: u64| d.size.map_or(Cell::unknown(), |_| Cell::count(n));
    let row = |d: &Drawn<'_>| {
        vec![
            Cell::text(d.name).tone(Tone::Name),
            known(d, d.size.unwrap_or(0)),
            known(d, d.lines.len() as u64),
        ]
    };
    Node::Table { key: "builds".into(), columns, rows: all.iter().map(row).collect() }
}

/// One line in every build: what lies there, and what came and went since the build before.
fn one_line(all: &[Drawn<'_>], index: usize) -> Node {
    let mut letters: Vec<&str> = Vec::new();
    for path in all.iter().filter_map(|d| d.lines.get(index)).flat_map(|l| &l.fields).map(|p| &p.leaf.path) {
        if !letters.contains(&path.as_str()) {
            letters.push(path);
        }
    }
    let columns = vec![
        Column::text("build", "build"),
        Column::picture("cells", "bytes"),
        Column::text("changes", "since the build before"),
    ];
    let row = |i: usize| {
        let cells = all[i].lines.get(index).map_or(String::new(), |l| picture(l, &letters));
        let text = cells.trim_end().to_string();
        let changes = if i == 0 { Vec::new() } else { changes(&all[i - 1], &all[i], index as u64) };
        let tone = if changes.is_empty() { Tone::Plain } else { Tone::Warn };
        let said = changes.join(", ");
        vec![
            Cell::text(all[i].name).tone(Tone::Name),
            Cell::value(cells, text),
            Cell::value(changes, said).tone(tone),
        ]
    };
    let rows = (0..all.len()).map(row).collect();
    let meant = letters.iter().enumerate().map(|(n, path)| format!("{} {path}", letter(n)));
    let meant = Span { text: meant.collect::<Vec<_>>().join(", "), tone: Tone::Dim };
    let table = Node::Table { key: "builds".into(), columns, rows };
    let facts =
        Node::Facts(vec![Fact { key: "line".into(), label: String::new(), cell: Cell::count(index as u64) }]);
    let fields = Node::Data { key: "fields".into(), value: letters.iter().map(|p| p.to_string()).collect() };
    let nodes = vec![facts, table, fields, Node::Text(vec![meant])];
    Node::Section { key: "line".into(), title: format!("line {index}"), nodes }
}

/// The line's cells with the letters that its fields have in all builds.
fn picture(line: &Line, letters: &[&str]) -> String {
    let ours = |c: char| {
        let part = line.fields.iter().find(|p| p.letter == c)?;
        Some(letter(letters.iter().position(|l| *l == part.leaf.path)?))
    };
    line.cells
        .chars()
        .map(|c| if matches!(c, '.' | ' ' | '#') { c } else { ours(c).unwrap_or('#') })
        .collect()
}

/// What is on the line and was not, and what was on it and is not.
fn changes(before: &Drawn<'_>, after: &Drawn<'_>, line: u64) -> Vec<String> {
    if before.size.is_none() || after.size.is_none() {
        return Vec::new();
    }
    let on = |d: &Drawn<'_>, path: &str| d.homes.get(path).is_some_and(|lines| lines.contains(&line));
    let whence = |d: &Drawn<'_>, path: &str| d.homes.get(path).and_then(|lines| lines.first().copied());
    let here = |d: &Drawn<'_>| d.homes.keys().filter(|p| on(d, p)).cloned().collect::<Vec<String>>();
    let came = |p: &str| match whence(before, p).filter(|_| !on(before, p)) {
        Some(from) => Some(format!("from line {from}")),
        None => (!on(before, p)).then(|| "new".to_string()),
    };
    let went = |p: &str| match whence(after, p).filter(|_| !on(after, p)) {
        Some(to) => Some(format!("to line {to}")),
        None => (!on(after, p)).then(|| "gone".to_string()),
    };
    [told(&here(after), &came), told(&here(before), &went)].concat()
}

/// What is said of each path; once of a member of which the same is said of every part.
fn told(paths: &[String], says: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let member = |p: &str| p.split(['.', '[']).next().unwrap_or_default().to_string();
    let mut out = Vec::new();
    for parts in paths.chunk_by(|a, b| member(a) == member(b)) {
        let said: Vec<Option<String>> = parts.iter().map(|p| says(p)).collect();
        match &said[0] {
            Some(what) if said.iter().all(|s| *s == said[0]) && parts.len() > 1 => {
                out.push(format!("{} {what}", member(&parts[0])));
            }
            _ => {
                out.extend(parts.iter().zip(&said).filter_map(|(p, s)| Some(format!("{p} {}", s.as_ref()?))))
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::{Aggregate, AggregateKind, Base, Encoding, Member, Type};

    fn table(fields: &[(&str, u64)], size: u64) -> TypeTable {
        let mut t = TypeTable::new(8);
        let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
        let members = fields.iter().map(|&(name, at)| Member::field(Some(name), long, at)).collect();
        t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("s"), size, members)));
        t
    }

    #[test]
    fn a_field_keeps_its_letter_and_moves_are_told() {
        let old = table(&[("a", 0), ("b", 8), ("c", 64)], 72);
        let new = table(&[("b", 0), ("n", 8), ("a", 64)], 72);
        let build = |name: &str, table| Build { name: name.into(), table, id: table.find("s") };
        let builds = [build("v1", &old), build("v2", &new), Build { id: None, ..build("v3", &new) }];
        let view = tussle_render::View {
            kind: "layouts",
            schema_version: 1,
            nodes: vec![view("struct s", &builds, 0, LineSize::new(64).unwrap())],
        };
        let text = tussle_render::render(&view, tussle_render::Format::Text, tussle_render::Style::default());
        let has = |s: &str| assert!(text.contains(s), "{s}:\n{text}");
        has("v1     aaaaaaaabbbbbbbb");
        has("v2     bbbbbbbbcccccccc");
        has("n new, a to line 1");
        has("a from line 0, c gone");
        has("a a, b b, c n");
        has("v3     unknown  unknown");
    }
}
