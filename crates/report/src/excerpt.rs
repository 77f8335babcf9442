//! The words of the source beside every place of code that a view names.

use tussle_render::{Cell, Column, Node, View};

/// Characters of a source line that people see; JSON has the whole.
const SHOWN_CHARACTERS: usize = 60;
/// On a narrow terminal the words of the source go before everything else.
const RANK: u8 = 9;

/// Adds a column `source_line` to every table `code` whose places are of the form `FILE:LINE`. `line_of` gives a line
/// of a file, counted from 1, or `None` where it is not at hand. A table without any such line stays as it is.
pub fn attach(view: &mut View, line_of: &mut dyn FnMut(&str, u32) -> Option<String>) {
    view.nodes.iter_mut().for_each(|n| walk(n, line_of));
}

fn walk(node: &mut Node, line_of: &mut dyn FnMut(&str, u32) -> Option<String>) {
    match node {
        Node::Section { nodes, .. } | Node::List { items: nodes, .. } => {
            nodes.iter_mut().for_each(|n| walk(n, line_of));
        }
        Node::Table { key, columns, rows } if key == "code" => {
            let Some(place) = columns.iter().position(|c| c.key == "place") else { return };
            let lines: Vec<Option<String>> =
                rows.iter().map(|r| r.get(place).and_then(|c| words(c, line_of))).collect();
            if lines.iter().all(Option::is_none) {
                return;
            }
            columns.insert(place + 1, Column::text("source_line", "").rank(RANK));
            for (row, line) in rows.iter_mut().zip(lines) {
                row.insert(place + 1, cell(line));
            }
        }
        _ => {}
    }
}

/// The source line of a cell `FILE:LINE`, without the blanks around it.
fn words(place: &Cell, line_of: &mut dyn FnMut(&str, u32) -> Option<String>) -> Option<String> {
    let (file, number) = place.value.as_str()?.rsplit_once(':')?;
    let line = line_of(file, number.parse().ok()?)?;
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}

fn cell(line: Option<String>) -> Cell {
    let Some(line) = line else { return Cell { text: String::new(), ..Cell::unknown() } };
    let mut shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
    if shown.len() < line.len() {
        shown.push('\u{2026}');
    }
    Cell::value(line, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: &str, places: &[&str]) -> Node {
        let columns = vec![Column::text("field", "field"), Column::text("place", "code")];
        let rows = places.iter().map(|p| vec![Cell::text("f"), Cell::text(*p)]).collect();
        Node::Table { key: key.into(), columns, rows }
    }

    fn attached(node: Node) -> Node {
        let nodes = vec![Node::Section { key: "line".into(), title: String::new(), nodes: vec![node] }];
        let mut view = View { kind: "report", schema_version: 1, nodes };
        attach(&mut view, &mut |file, line| {
            (file == "a.c").then(|| format!("\t{}  {}", line, "x".repeat(line as usize)))
        });
        let Node::Section { nodes, .. } = view.nodes.remove(0) else { panic!() };
        nodes.into_iter().next().unwrap()
    }

    #[test]
    fn a_place_gets_its_line_and_others_stay_unknown() {
        let Node::Table { columns, rows, .. } =
            attached(table("code", &["a.c:3", "b.c:3", "0x12", "a.c:100"]))
        else {
            panic!()
        };
        assert_eq!(columns[2].key, "source_line");
        assert_eq!((rows[0][2].text.as_str(), rows[1][2].text.as_str()), ("3 xxx", ""));
        assert!(rows[1][2].value.is_null() && rows[2][2].value.is_null(), "unknown is no empty text");
        assert_eq!(rows[3][2].text.chars().count(), SHOWN_CHARACTERS + 1);
        assert_eq!(rows[3][2].value.as_str().unwrap().len(), 104, "JSON has the whole line");
    }

    #[test]
    fn tables_without_a_known_line_are_as_they_were() {
        for node in [table("code", &["b.c:3"]), table("fields", &["a.c:3"])] {
            assert_eq!(attached(node.clone()), node);
        }
    }
}
