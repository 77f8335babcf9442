//! What lies at an address: the object, the field, and who shares its line.

use tussle_model::leaf::{Arrays, leaf_at};
use tussle_model::{Leaf, LineSize, TypeId, TypeTable, leaves_told, leaves_within};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, offset};

/// Neighbours that are listed.
const ROWS_MAX: usize = 200;

/// An object with a known place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name of the variable, or what the caller calls it.
    pub name: String,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Its type in the table; `None` when only its place is known.
    pub ty: Option<TypeId>,
}

impl Object {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    fn holds(&self, at: u64) -> bool {
        self.start <= at && at < self.end()
    }

    /// Its fields that touch these addresses, none in a hole; the whole object where its type is not known.
    fn fields(&self, table: &TypeTable, from: u64, to: u64) -> Vec<Leaf> {
        let window = from.saturating_sub(self.start)..to.saturating_sub(self.start);
        let whole = Leaf {
            path: String::new(),
            offset: 0,
            size: self.size,
            bits: None,
            ty: TypeId::VOID,
            overlaps: false,
        };
        match self.ty.map(|ty| leaves_within(table, ty, Arrays::Elements, window)) {
            Some(all) => all,
            None => vec![whole],
        }
    }
}

/// The answer of `tussle where`: object and field at `address`, and all fields of `objects` in its line.
pub fn view(table: &TypeTable, objects: &[Object], address: u64, line: LineSize) -> Vec<Node> {
    let first = address - line.offset(address);
    let end = first.saturating_add(line.bytes());
    let mut nodes = vec![Node::Facts(facts(table, objects, address, line))];
    let mut rows = Vec::new();
    let mut near: Vec<&Object> = objects.iter().filter(|o| o.start < end && o.end() > first).collect();
    near.sort_by_key(|o| o.start);
    for o in near {
        for l in texts(o.fields(table, first, end)).iter().take(ROWS_MAX.saturating_sub(rows.len())) {
            let at = o.start.saturating_add(l.offset);
            if at < end && at.saturating_add(l.size) > first {
                rows.push(row(table, o, l, at, address));
            }
        }
    }
    if rows.is_empty() {
        let text = "no known object touches this line".into();
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Warn }]));
    }
    nodes.push(Node::Table {
        key: "line".into(),
        columns: vec![
            Column::text("at_bytes", "at"),
            Column::number("size_bytes", "size"),
            Column::text("object", "object"),
            Column::text("field", "field"),
            Column::text("type", "type"),
        ],
        rows,
    });
    nodes
}

/// Neighbouring bytes of one array (a text, a buffer) are one row: `name[0..15]`.
fn texts(leaves: Vec<Leaf>) -> Vec<Leaf> {
    let mut out: Vec<Leaf> = Vec::new();
    let mut first = String::new();
    for l in leaves {
        let array = l.path.strip_suffix(']').and_then(|p| p.rsplit_once('[')).filter(|_| l.size == 1);
        let before = out.last_mut().filter(|b| b.end() == l.offset);
        match (array, before) {
            (Some((stem, index)), Some(b)) if !first.is_empty() && first.starts_with(&format!("{stem}[")) => {
                b.size += 1;
                b.path = format!("{first}..{index}]");
            }
            _ => {
                first = array.map(|(stem, index)| format!("{stem}[{index}")).unwrap_or_default();
                out.push(l);
            }
        }
    }
    out
}

fn row(table: &TypeTable, o: &Object, l: &Leaf, at: u64, address: u64) -> Vec<Cell> {
    let here = at <= address && address < at.saturating_add(l.size);
    let tone = if here { Tone::Name } else { Tone::Plain };
    let ty = if l.ty == TypeId::VOID { String::new() } else { table.name(l.ty) };
    vec![
        Cell::value(at, format!("{at:#x}")),
        Cell::count(l.size),
        Cell::text(&o.name),
        Cell::text(&l.path).tone(tone),
        Cell::text(ty),
    ]
}

fn facts(table: &TypeTable, objects: &[Object], address: u64, line: LineSize) -> Vec<Fact> {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mut out = vec![
        fact("address", "address", Cell::value(address, format!("{address:#x}"))),
        fact(
            "line_offset_bytes",
            "in its line",
            Cell::value(line.offset(address), offset(line.offset(address))),
        ),
    ];
    let Some(o) = objects.iter().filter(|o| o.holds(address)).min_by_key(|o| o.size) else {
        out.push(fact("object", "object", Cell::value(serde_json::Value::Null, "unknown")));
        return out;
    };
    let inside = address - o.start;
    out.push(fact("object", "object", Cell::text(&o.name)));
    let ty = o.ty.map(|ty| table.name(ty));
    out.push(fact("type", "type", Cell::value(ty.clone(), ty.unwrap_or_else(|| "unknown".into()))));
    out.push(fact("offset_bytes", "offset in it", Cell::value(inside, offset(inside))));
    let fields = o.fields(table, address, address.saturating_add(1));
    let path = match (leaf_at(&fields, inside), o.ty) {
        (Some(l), Some(_)) if l.path.is_empty() => Some("the whole object".to_string()),
        (Some(l), Some(_)) => Some(l.path.clone()),
        (None, Some(ty)) => Some(hole(table, ty, o.size, inside)),
        (_, None) => None,
    };
    out.push(fact("field", "field", Cell::value(path.clone(), path.unwrap_or_else(|| "unknown".into()))));
    out
}

/// The padding around a byte that no field has.
fn hole(table: &TypeTable, ty: TypeId, size: u64, at: u64) -> String {
    if let Some(why) = table.incomplete(ty) {
        return format!("unknown ({why})");
    }
    let (leaves, cut) = leaves_told(table, ty, Arrays::Whole, 0..u64::MAX);
    if cut {
        return "padding".into();
    }
    let sized = || leaves.iter().filter(|l| l.size > 0);
    let start = sized().map(Leaf::end).filter(|&end| end <= at).max().unwrap_or(0);
    let end = sized().map(|l| l.offset).filter(|&first| first > at).min().unwrap_or(size);
    let behind = sized().filter(|l| l.end() == start).last().map(|l| format!(" behind {}", l.path));
    format!("padding: {} bytes from {start}{}", end.saturating_sub(start), behind.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_text_are_one_row() {
        let leaf = |path: &str, offset, size| Leaf {
            path: path.into(),
            offset,
            size,
            bits: None,
            ty: TypeId::VOID,
            overlaps: false,
        };
        let got = texts(vec![
            leaf("n", 0, 8),
            leaf("a[0]", 8, 1),
            leaf("a[1]", 9, 1),
            leaf("a[2]", 10, 1),
            leaf("b[0]", 11, 1),
            leaf("v[3]", 12, 4),
            leaf("v[4]", 16, 4),
            leaf("t[0].a[0]", 20, 1),
            leaf("t[1].a[0]", 21, 1),
        ]);
        let got: Vec<_> = got.into_iter().map(|l| (l.path, l.size)).collect();
        let want = [
            ("n", 8),
            ("a[0..2]", 3),
            ("b[0]", 1),
            ("v[3]", 4),
            ("v[4]", 4),
            ("t[0].a[0]", 1),
            ("t[1].a[0]", 1),
        ];
        assert_eq!(got, want.map(|(p, n)| (p.to_string(), n)));
    }
}
