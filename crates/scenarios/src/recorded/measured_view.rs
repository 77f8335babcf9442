//! A replay's answer for people: five seconds to read, the rest below.

use super::Recording;
use super::measured::{CLEAR_MIN, CONTENDING_MAX, NativeTime, Replayed};
use crate::answer::{COVERAGE_MIN, Verdict};
use crate::stories::Side;
use crate::view::{percent, tone};
use tussle_render::{Cell, Column, Fact, Node, Span, View};

/// Threads for which predictions were held against reality (docs/validation.md).
const THREADS_VALIDATED: usize = 2;

/// The one thing that stands against a verdict most; `None`: nothing.
fn doubt(r: &Recording, a: &Replayed) -> Option<(&'static str, String)> {
    let share = r.coverage().filter(|share| *share < COVERAGE_MIN);
    if let Some(share) = share {
        let share = share * 100.0;
        let why = format!("only {share:.0}% of the accesses to these objects are in recorded operations");
        return Some(("coverage", why));
    }
    if a.native.is_none() {
        let others =
            a.crowded().map(|s| format!("; others used {:.0}% of this machine meanwhile", s * 100.0));
        let why = "time between operations is not measured: --native CMD measures it";
        return Some(("guessed", format!("{why}{}", others.unwrap_or_default())));
    }
    if let Some(why) = a.void() {
        return Some((if a.crowded().is_some() { "others" } else { "paced" }, why));
    }
    if r.contending() > CONTENDING_MAX {
        let why = "threads fight for a lock itself, where measurements waver, too";
        return Some(("contended", why.into()));
    }
    if r.actors() > THREADS_VALIDATED {
        let why = format!("verdicts on more than {THREADS_VALIDATED} threads are not validated");
        return Some(("threads", why));
    }
    (a.verdict == Verdict::Undecided).then(|| ("effect", too_small(a)))
}

/// Why the interval itself decides nothing.
fn too_small(a: &Replayed) -> String {
    if a.low <= 0.0 && a.high >= 0.0 {
        return "it holds zero".into();
    }
    format!("it may be less than {:.0}%, by which sessions of the same program differ", CLEAR_MIN * 100.0)
}

/// What weakens a verdict that is printed.
const CAVEAT: &str = "other machines may differ, `tussle bench` of both layouts proves it";

/// The answer; with `check` also the verdict that is withheld.
pub fn view(r: &Recording, (before, after): (&Side, &Side), a: &Replayed, check: bool) -> View {
    let (doubt, why) = doubt(r, a).unwrap_or(("", CAVEAT.into()));
    let said = if doubt.is_empty() { a.verdict } else { Verdict::Undecided };
    let verdict = Span { text: said.name().into(), tone: tone(said) };
    // Of threads that did not run at the same time, or whose work does not decide, nothing is sure.
    let sure = if a.void().is_some() { "no interval" } else { "90%" };
    let text = format!(
        ": {} to {} of throughput here ({sure}), median {}; {why}.",
        percent(a.low),
        percent(a.high),
        percent(a.median)
    );
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mut nodes = vec![Node::Text(vec![verdict, Span::plain(text)])];
    if check {
        let text = format!("Withheld verdict, for checking only: {}.", a.verdict.name());
        nodes.push(Node::Text(vec![Span::plain(text)]));
        nodes.push(Node::Data { key: "withheld".into(), value: a.verdict.name().into() });
    }
    let think = match &a.native {
        Some(NativeTime { alone: Some(_), .. }) => "from native runs, on all CPUs and on one",
        Some(_) => "from a native run",
        None => "from the recording",
    };
    nodes.push(Node::Facts(vec![
        fact("before", "Before", Cell::text(before.label())),
        fact("after", "After", Cell::text(after.label())),
        fact("threads", "Threads", Cell::count(r.actors() as u64)),
        fact(
            "period_ns",
            "CPU time of an operation",
            Cell::number(a.period_ns, format!("{:.0} ns", a.period_ns)),
        ),
        fact("think", "Time between operations", Cell::text(think)),
        native_fact(a),
        fact("error", "Widened by a model error of", Cell::number(a.error, format!("x{:.2}", a.error))),
        fact("pairs", "Pairs of bursts", Cell::count(a.pairs as u64)),
        fact(
            "unit",
            "Numbers",
            Cell::value("replayed", "recorded operations replayed on threads of this machine"),
        ),
    ]));
    nodes.push(Node::Data { key: "verdict".into(), value: said.name().into() });
    if !doubt.is_empty() {
        nodes.push(Node::Data { key: "doubt".into(), value: doubt.into() });
    }
    nodes.push(Node::Data {
        key: "effect".into(),
        value: serde_json::json!({"low": a.low, "median": a.median, "high": a.high}),
    });
    nodes.push(variants(a));
    View { kind: "replay", schema_version: 1, nodes }
}

/// What the uninstrumented program loses to lines on their way.
fn native_fact(a: &Replayed) -> Fact {
    let cell = match &a.native {
        Some(native @ NativeTime { alone: Some(alone), .. }) => {
            let all_ns = native.typical_ns().unwrap_or(0.0);
            let each: Vec<String> = alone.each_ns.iter().map(|ns| format!("{ns:.0}")).collect();
            let each =
                if each.is_empty() { String::new() } else { format!(" ({} by thread)", each.join(", ")) };
            Cell::number(alone.mean_ns, format!("{:.0} ns{each}; {all_ns:.0} ns on all", alone.mean_ns))
        }
        _ => Cell::unknown(),
    };
    Fact { key: "alone_ns".into(), label: "The program's on one CPU".into(), cell }
}

fn variants(a: &Replayed) -> Node {
    let columns = vec![
        Column::text("work", "Work between accesses"),
        Column::number("factor", "Length"),
        Column::number("cpu_ns", "CPU ns/operation"),
        Column::number("alone_ns", "on one CPU"),
        Column::number("effect", "Replayed effect"),
        Column::text("counts", "Counts"),
    ];
    let row = |v: &super::measured::Variant| {
        vec![
            Cell::value(v.work.key(), v.work.title()),
            Cell::number(v.factor, format!("x{:.2}", v.factor)),
            Cell::number(v.cpu_ns, format!("{:.0}", v.cpu_ns)),
            Cell::number(v.alone_ns, format!("{:.0}", v.alone_ns)),
            Cell::number(v.effect, percent(v.effect)),
            Cell::value(v.counts, if v.counts { "yes" } else { "no" }),
        ]
    };
    let table = Node::Table { key: "rows".into(), columns, rows: a.variants.iter().map(row).collect() };
    let title = "By kind and length of work (those count that lose to lines what the native run loses)";
    Node::Section { key: "variants".into(), title: title.into(), nodes: vec![table] }
}
