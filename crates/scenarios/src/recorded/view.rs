//! What a prediction from recorded operations takes for granted, for people.

use super::{Recording, Think};
use crate::predict::Comparison;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone};

/// Locks shown.
const LOCKS_MAX: usize = 12;

/// Operations, coverage, think time, copies, and the model of every lock.
pub(crate) fn assumptions(r: &Recording, q: &Comparison) -> Node {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let share = |x: f64| Cell::number(x, format!("{:.1}%", x * 100.0));
    let (all, kept) = r.operations();
    let kept_text =
        if kept < all { format!("the most frequent {kept} of {all}") } else { format!("all {all}") };
    let ns = |x: f64| format!("{} ns", tussle_render::thousands(x.round() as u64));
    let think = r.think_ns();
    let think = match r.think() {
        Think::Measured => Cell::number(think, format!("{}, measured on this machine", ns(think))),
        Think::Instructions => Cell::number(think, format!("{}, from instructions counted", ns(think))),
        Think::Accesses => Cell::number(think, format!("{}, from accesses between them", ns(think))),
        Think::Unknown => {
            Cell::number(think, format!("{} assumed: not recorded", ns(think))).tone(Tone::Warn)
        }
    };
    let mut nodes = vec![Node::Facts(vec![
        fact("actors", "Recorded actors", Cell::count(r.actors() as u64)),
        fact("operations", "Operations repeated", Cell::value(kept, kept_text)),
        fact(
            "coverage",
            "Accesses to their objects that lie in operations",
            r.coverage().map_or_else(Cell::unknown, share),
        ),
        fact("think_ns", "Between two operations", think),
        fact("operation_ns", "One operation, alone", Cell::number(r.operation_ns(), ns(r.operation_ns()))),
    ])];
    let tasks = q.tasks.or(q.cpus.last().copied()).unwrap_or(1) as usize;
    if tasks > r.actors() {
        let text = format!(
            "{tasks} tasks repeat {} actors: bytes that one actor alone touched are each task's own, in further \
             copies of their objects; bytes that several touched are shared by all.",
            r.actors()
        );
        nodes.push(Node::Text(vec![Span::plain(text)]));
    } else if tasks < r.actors() {
        let text = format!("{tasks} tasks do the operations of {} actors, each of several.", r.actors());
        nodes.push(Node::Text(vec![Span::plain(text)]));
    }
    if r.crossed > 0 {
        let text = format!(
            "{} locks inside of operations are left out: others take them the other way round.",
            r.crossed
        );
        nodes.push(Node::Text(vec![Span::plain(text)]));
    }
    let rows = r.locks();
    if !rows.is_empty() {
        nodes.push(locks(&rows));
    }
    Node::Section { key: "assumptions".into(), title: "What is taken for granted".into(), nodes }
}

fn locks(rows: &[super::LockRow<'_>]) -> Node {
    let columns = vec![
        Column::text("lock", "Lock"),
        Column::text("type", "Type"),
        Column::text("model", "Simulated as"),
        Column::number("locks", "Locks"),
        Column::number("operations", "Operations"),
    ];
    let row = |l: &super::LockRow<'_>| {
        let model = l.found.model.title();
        let model = if l.found.assumed {
            Cell::value(model, format!("{model} (assumed)")).tone(Tone::Warn)
        } else {
            Cell::text(model)
        };
        let ty = l.found.ty.clone().map_or_else(Cell::unknown, Cell::text);
        vec![
            Cell::text(l.at.clone()).tone(Tone::Name),
            ty,
            model,
            Cell::count(l.count),
            Cell::count(l.operations),
        ]
    };
    let cells = rows.iter().take(LOCKS_MAX).map(row).collect();
    let title = match rows.len() {
        n if n > LOCKS_MAX => format!(
            "Locks ({LOCKS_MAX} of {n}); where not recorded, operations that write nothing take rwlocks shared"
        ),
        _ => "Locks; where not recorded, operations that write nothing take rwlocks shared".into(),
    };
    let table = Node::Table { key: "rows".into(), columns, rows: cells };
    Node::Section { key: "locks".into(), title, nodes: vec![table] }
}
