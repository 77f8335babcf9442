//! Types with what their fields met, as `perf annotate --data-type` shows them: every field in its place, with the
//! quantities of the evidence's own source (samples and latencies, transfers in a model, or recorded accesses).
//!
//! A row counts where its first byte lies; of a union that the code does not tell apart, at the smallest member.

use crate::{Options, SCHEMA_VERSION, dim, fact, object_matches};
use std::collections::{BTreeMap, BTreeSet};
use tussle_contention::fields::Namer;
use tussle_evidence::*;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, TypeId, fields};
use tussle_render::{Cell, Column, Node, Tone, View, offset, thousands};

mod quantities;

use quantities::{Event, Events, Sum, events};
pub use quantities::{Hot, hot_fields};

/// Types shown field by field.
const DETAILS_MAX: usize = 20;
/// Fields that met nothing are left out of types with more fields than this.
const WHOLE_MAX: usize = 40;

/// What one type met.
pub(crate) struct Met {
    pub name: String,
    /// `None` where nothing is known but the variable or the owner.
    pub ty: Option<TypeId>,
    pub size: u64,
    pub objects: BTreeSet<u32>,
    pub all: Sum,
    pub fields: Vec<(Leaf, Sum)>,
    /// In no field: padding, behind the type's end, or nobody knows where.
    pub outside: Sum,
}

impl Met {
    fn new(e: &Evidence, namer: &Namer, o: &Object) -> Met {
        let ty = o.ty.filter(|t| e.types.aggregate(*t).is_some());
        let leaves = ty.map(|t| fields(&e.types, t, Arrays::Whole)).unwrap_or_default();
        Met {
            name: name(e, namer, o),
            ty,
            size: o.ty.and_then(|t| e.types.size(t)).unwrap_or(o.size),
            objects: BTreeSet::new(),
            all: Sum::default(),
            fields: leaves.into_iter().map(|l| (l, Sum::default())).collect(),
            outside: Sum::default(),
        }
    }

    fn add(&mut self, o: &Object, event: &Event) {
        self.objects.insert(event.object);
        self.all.add(event);
        let inside = |at: &u64| self.size > 0 && *at < self.size.saturating_mul(o.count.max(1));
        let at = event.offset.filter(inside).map(|at| at % self.size);
        let leaves = self.fields.iter().enumerate();
        let found = leaves.filter(|(_, f)| at.is_some_and(|at| f.0.offset <= at && at < f.0.end()));
        let best = found.min_by_key(|(_, f)| (Some(f.0.offset) != at, f.0.size)).map(|(i, _)| i);
        match best.and_then(|i| self.fields.get_mut(i)) {
            Some((_, sum)) => sum.add(event),
            None => self.outside.add(event),
        }
    }
}

/// Objects of one struct belong together; others go by their variable, allocation or kind.
fn name(e: &Evidence, namer: &Namer, o: &Object) -> String {
    match o.ty.filter(|t| e.types.aggregate(*t).is_some()) {
        Some(t) => e.types.name(t),
        None => namer.root(o),
    }
}

/// The types that were met, by the first quantity of the source.
pub(crate) fn met(e: &Evidence, namer: &Namer, events: &Events, names: &[String]) -> Vec<Met> {
    let mut all: BTreeMap<(String, bool), Met> = BTreeMap::new();
    for event in &events.rows {
        let Some(o) = e.objects.get(event.object as usize) else { continue };
        if !names.is_empty() && !names.iter().any(|n| object_matches(e, namer, o, n)) {
            continue;
        }
        let known = o.ty.is_some_and(|t| e.types.aggregate(t).is_some());
        let met = all.entry((name(e, namer, o), known)).or_insert_with(|| Met::new(e, namer, o));
        met.add(o, event);
    }
    let mut out: Vec<Met> = all.into_values().collect();
    out.sort_by(|a, b| b.all.weight().cmp(&a.all.weight()).then_with(|| a.name.cmp(&b.name)));
    out
}

/// `report --style type`.
pub fn by_type(e: &Evidence, options: &Options) -> View {
    let namer = Namer::new(e);
    let events = events(e);
    let all = met(e, &namer, &events, &options.names);
    let total = all.iter().map(|m| m.all.weight()).fold(0, u64::saturating_add);
    let mut nodes = vec![Node::Facts(vec![
        fact("counts", "numbers", Cell::text(&events.what)),
        fact("total", "in all", Cell::count(total)),
    ])];
    nodes.push(types(&all, &events, total));
    let known = || all.iter().filter(|m| m.ty.is_some());
    let items = known().take(DETAILS_MAX).map(|m| section(e, m, &events)).collect();
    nodes.push(Node::List { key: "layouts".into(), items });
    if known().count() > DETAILS_MAX {
        nodes.push(dim(format!("... and {} more types; -C shows them", known().count() - DETAILS_MAX)));
    }
    View { kind: "types", schema_version: SCHEMA_VERSION, nodes }
}

/// Columns of the source's quantities.
fn columns(events: &Events) -> impl Iterator<Item = Column> + '_ {
    let share = Column::number("share_percent", "share");
    // On a narrow screen the first of them stays.
    let rank = (0..).map(|i: u32| u8::from(i > 0));
    events
        .quantities
        .iter()
        .zip(rank)
        .map(|(q, rank)| Column::number(q.key, q.title).rank(rank))
        .chain([share])
}

fn cells(sum: &Sum, events: &Events, total: u64) -> Vec<Cell> {
    let none = || if sum.is_empty() { Cell::value(serde_json::Value::Null, "") } else { Cell::unknown() };
    let mut cells: Vec<Cell> =
        events.quantities.iter().map(|q| sum.value(q).map_or_else(none, Cell::count)).collect();
    cells.push(match total {
        0 => Cell::unknown(),
        all => {
            let p = 100.0 * sum.weight() as f64 / all as f64;
            Cell::number(p, format!("{p:.1}%"))
        }
    });
    cells
}

fn types(all: &[Met], events: &Events, total: u64) -> Node {
    let mut columns: Vec<Column> = vec![
        Column::text("type", "type"),
        Column::number("size_bytes", "bytes"),
        Column::number("objects", "objects"),
    ];
    columns.extend(self::columns(events));
    let row = |m: &Met| {
        let mut row = vec![
            Cell::text(&m.name).tone(if m.ty.is_some() { Tone::Name } else { Tone::Dim }),
            Cell::count(m.size),
            Cell::count(m.objects.len() as u64),
        ];
        row.extend(cells(&m.all, events, total));
        row
    };
    Node::Table { key: "types".into(), columns, rows: all.iter().map(row).collect() }
}

fn section(e: &Evidence, m: &Met, events: &Events) -> Node {
    let mut columns = vec![
        Column::number("offset_bytes", "offset"),
        Column::number("size_bytes", "bytes"),
        Column::text("field", "field"),
        Column::text("type", "type").rank(2),
    ];
    columns.extend(self::columns(events));
    let total = m.all.weight();
    let whole = m.fields.len() <= WHOLE_MAX;
    let row = |(l, sum): &(Leaf, Sum)| {
        let mut row = vec![
            Cell::value(l.offset, offset(l.offset)),
            Cell::count(l.size),
            Cell::text(&l.path).tone(if sum.is_empty() { Tone::Dim } else { Tone::Name }),
            Cell::text(e.types.name(l.ty)),
        ];
        row.extend(cells(sum, events, total));
        row
    };
    let shown: Vec<&(Leaf, Sum)> = m.fields.iter().filter(|f| whole || !f.1.is_empty()).collect();
    let hidden = m.fields.len() - shown.len();
    let mut nodes = vec![
        Node::Data { key: "name".into(), value: m.name.clone().into() },
        Node::Data { key: "size_bytes".into(), value: m.size.into() },
        Node::Data { key: "fields_without".into(), value: hidden.into() },
        Node::Data { key: "outside".into(), value: m.outside.weight().into() },
        Node::Table { key: "fields".into(), columns, rows: shown.into_iter().map(row).collect() },
    ];
    if hidden > 0 {
        nodes.push(dim(format!("{hidden} fields met nothing")));
    }
    if !m.outside.is_empty() {
        nodes.push(dim(format!(
            "{} in padding, behind its end, or at a place that the source does not tell",
            thousands(m.outside.weight())
        )));
    }
    Node::Section { key: "type".into(), title: m.name.clone(), nodes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;
    use tussle_render::{Format, Style, render};

    #[test]
    fn a_struct_with_the_accesses_of_its_fields() {
        let mut s = Sample::two_counters();
        let long = s.long();
        let big = s.structure("big", 24, &[("a", long, 0), ("b", long, 8)]);
        let o = s.heap(0x8000, 48, Some(big), 2, 8, None);
        s.access(o, 24 + 8, 8, 1, (0, 10), [7, 0, 0]);
        s.access(o, 16, 8, 1, (0, 10), [1, 0, 0]);
        let e = s.evidence();
        let view = by_type(&e, &Options::default());
        let json: serde_json::Value =
            serde_json::from_str(&render(&view, Format::Json, Style::default())).unwrap_or_default();
        let stats = &json["layouts"][0];
        assert_eq!(
            (&stats["name"], &stats["fields"][1]["field"]),
            (&"struct stats".into(), &"misses".into())
        );
        assert_eq!(
            (&stats["fields"][1]["writes"], &stats["fields"][1]["writers"]),
            (&50_000.into(), &1.into())
        );
        let big = &json["layouts"][1];
        assert_eq!((&big["fields"][1]["reads"], &big["outside"]), (&7.into(), &1.into()), "{json}");
    }

    #[test]
    fn hot_are_fields_that_several_threads_use() {
        let hot = hot_fields(&Sample::two_counters().evidence());
        let stats = &hot["struct stats"];
        assert_eq!((stats.fields.len(), stats.written.len()), (2, 2));
    }
}
