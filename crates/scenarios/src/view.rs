//! Predictions as a view.

use crate::answer::Influence;
use crate::pictures;
use crate::predict::{Ablation, COVERAGE_MIN, Doubt, EFFECT_MIN, OPERATION_NS_MIN, OPERATIONS_MIN, Point};
use crate::predict::{Comparison, Prediction, SHARE_MIN, Subject, Verdict};
use crate::stories::{Side, Story};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View};
use tussle_sim::Machine;

/// `+3.4%`.
pub fn percent(x: f64) -> String {
    format!("{:+.1}%", x * 100.0)
}

fn effect_cell(x: f64) -> Cell {
    let tone = if x.abs() < EFFECT_MIN {
        Tone::Plain
    } else if x > 0.0 {
        Tone::Good
    } else {
        Tone::Bad
    };
    Cell::number(x, percent(x)).tone(tone)
}

fn rate(x: f64) -> Cell {
    Cell::number(x, tussle_render::thousands(x.round() as u64))
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

/// The built-in lock stories.
pub fn stories() -> View {
    let items = Story::ALL.iter().map(|s| {
        let a = s.about();
        let facts = Node::Facts(vec![
            fact("number", "Number", Cell::text(a.number)),
            fact("origin", "From", Cell::text(a.origin)),
            fact("variants", "Variants", Cell::text(a.variants.join(" "))),
            fact("types", "Types", Cell::text(a.types.join(" "))),
        ]);
        let name = Node::Data { key: "name".into(), value: a.name.into() };
        Node::Section {
            key: a.name.into(),
            title: format!("{}: {}", a.name, a.title),
            nodes: vec![name, facts],
        }
    });
    View {
        kind: "scenarios",
        schema_version: 1,
        nodes: vec![Node::List { key: "scenarios".into(), items: items.collect() }],
    }
}

/// A prediction as tables and words; with `check` also the verdict that is withheld.
pub fn prediction(p: &Prediction, check: bool) -> View {
    let q = &p.question;
    let name = q.subject.name();
    let mut nodes = vec![Node::Facts(vec![
        fact("scenario", "Scenario", Cell::value(name, format!("{name}: {}", q.subject.title()))),
        fact("machine", "Machine", machine_cell(&q.machine)),
        fact("before", "Before", side_cell(&q.before)),
        fact("after", "After", side_cell(&q.after)),
        fact("cpus", "CPUs", q.cpus.last().map_or_else(Cell::unknown, |c| Cell::count(u64::from(*c)))),
        fact("draws", "Draws", p.point().map_or_else(Cell::unknown, |x| Cell::count(u64::from(x.draws)))),
        fact(
            "unit",
            "Numbers",
            Cell::value("simulated", "simulated: an interval over what is not known exactly"),
        ),
    ])];
    nodes.push(Node::Data { key: "machine_unsourced".into(), value: q.machine.unsourced.into() });
    if let Some(point) = p.point() {
        nodes.push(headline(point, q));
        nodes.push(Node::Data {
            key: "effect".into(),
            value: serde_json::json!({
                "low": point.low, "median": point.median, "high": point.high,
                "positive_share": point.positive_share,
            }),
        });
        nodes.push(Node::Data { key: "verdict".into(), value: point.verdict.name().into() });
        if let Some(doubt) = point.doubt {
            nodes.push(Node::Data { key: "doubt".into(), value: doubt.name().into() });
            nodes.extend(what_to_measure(p, doubt));
        }
        if let Some(withheld) = point.withheld.filter(|_| check) {
            let text = format!("Withheld verdict, for checking only: {}.", withheld.name());
            nodes.push(Node::Text(vec![Span::plain(text)]));
            nodes.push(Node::Data { key: "withheld".into(), value: withheld.name().into() });
        }
    }
    if let Subject::Recording(r) = &q.subject {
        nodes.push(crate::recorded::assumptions(r, q));
    }
    nodes.push(curve(p));
    let mut crossings = Vec::new();
    for (low, high, word) in &p.crossovers {
        let text = format!("The sign of the median changes between {low} and {high} CPUs: {word}.");
        nodes.push(Node::Text(vec![Span::plain(text)]));
        crossings.push(serde_json::json!({"between": [low, high], "what": word}));
    }
    if !crossings.is_empty() {
        nodes.push(Node::Data { key: "crossovers".into(), value: crossings.into() });
    }
    nodes.push(tornado(p));
    if !p.ablations.is_empty() {
        nodes.push(ablations(p));
    }
    nodes.push(fields(p));
    View { kind: "predict", schema_version: 1, nodes }
}

fn side_cell(side: &Side) -> Cell {
    match side {
        Side::Name(n) if n == "ideal" => Cell::value("ideal", "ideal: every field on a line of its own"),
        other => Cell::text(other.label()),
    }
}

fn machine_cell(m: &Machine) -> Cell {
    match m.mark() {
        Some(mark) => Cell::value(m.name.clone(), format!("{} ({mark})", m.name)).tone(Tone::Warn),
        None => Cell::text(m.name.clone()),
    }
}

/// How a verdict is shown.
pub(crate) fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Undecided => Tone::Warn,
    }
}

fn headline(point: &Point, q: &Comparison) -> Node {
    let with = (point.positive_share * f64::from(point.draws)).round() as u32;
    let verdict = Span { text: point.verdict.name().into(), tone: tone(point.verdict) };
    let text = format!(
        ": {} to {} of throughput in 90% of the draws, median {}; positive in {with} of {}.",
        percent(point.low),
        percent(point.high),
        percent(point.median),
        point.draws
    );
    let told = q.fixed.iter().any(|(key, _)| key == "think");
    let guessed = !told && matches!(&q.subject, Subject::Recording(r) if r.think().guessed());
    let text = if guessed { text + " Time between operations guessed." } else { text };
    Node::Text(vec![verdict, Span::plain(text)])
}

/// Why there is no verdict, and what would give one.
fn what_to_measure(p: &Prediction, doubt: Doubt) -> Vec<Node> {
    let text = match doubt {
        Doubt::Coverage(share) => format!(
            "No verdict: {:.1}% of the accesses to these objects lie in recorded operations, less than {:.0}%; the \
             rest is not simulated and may turn the sign. To decide it, build both versions and measure them with \
             tussle bench.",
            share * 100.0,
            COVERAGE_MIN * 100.0
        ),
        Doubt::TooFew(operations) => format!(
            "No verdict: too few operations simulated: {operations:.1} per task, fewer than {OPERATIONS_MIN:.0}. \
             Simulate longer: --set run_us=MICROSECONDS."
        ),
        Doubt::Short(ns) => format!(
            "No verdict: the accesses of an operation take {ns:.0} ns alone; below {OPERATION_NS_MIN:.0} ns a \
             processor hides too much of a line's way. Build both versions and measure them with tussle bench."
        ),
        Doubt::Replicas(why) => {
            format!("No verdict: more tasks than were recorded, and {why}. Record with as many threads.")
        }
        Doubt::Turned(mechanism) => format!(
            "No verdict: {}, which nobody has measured on this machine, the effect has the other sign. It is the \
             dominant unknown. Build both versions and measure them with tussle bench.",
            mechanism.title()
        ),
        Doubt::TurnLength => {
            "No verdict: recordings with turns of other lengths do not have the same sign (below), \
             and no machine tells which is right. Build both versions and measure them with tussle bench."
                .into()
        }
        Doubt::Withheld => {
            "No verdict: nobody has held the answer against such a machine (docs/validation.md). Build both \
             versions and measure them with tussle bench; --check shows the verdict that is withheld."
                .into()
        }
        Doubt::Draws => return undecided_draws(p),
    };
    vec![Node::Text(vec![Span::plain(text)])]
}

/// The draws do not agree: what would make them.
fn undecided_draws(p: &Prediction) -> Vec<Node> {
    if p.samples.iter().all(|s| s.effect().abs() < EFFECT_MIN) {
        let text = format!("No difference: it is below {:.1}% in every draw.", EFFECT_MIN * 100.0);
        return vec![Node::Text(vec![Span::plain(text)])];
    }
    let strongest: Vec<_> = p.tornado.iter().take(2).collect();
    let mut text = format!(
        "No verdict: it is not sure that {:.0}% of the draws agree and that the median is above {:.1}%. To decide it, \
         measure ",
        SHARE_MIN * 100.0,
        EFFECT_MIN * 100.0
    );
    for (i, x) in strongest.iter().enumerate() {
        let joint = if i == 0 { "" } else { ", then " };
        text += &format!("{joint}{}", x.unknown.measure);
    }
    let keys: Vec<&str> = strongest.iter().map(|x| x.unknown.key).collect();
    text += &format!("; then fix what you know: --set {}=FACTOR.", keys.join("=FACTOR --set "));
    let list: Vec<serde_json::Value> = strongest
        .iter()
        .map(|x| serde_json::json!({"parameter": x.unknown.key, "how": x.unknown.measure}))
        .collect();
    vec![Node::Text(vec![Span::plain(text)]), Node::Data { key: "measure".into(), value: list.into() }]
}

fn curve(p: &Prediction) -> Node {
    let columns = vec![
        Column::number("cpus", "CPUs"),
        Column::number("before_per_s", "Before/s"),
        Column::number("after_per_s", "After/s"),
        Column::number("low", "Low"),
        Column::number("median", "Median"),
        Column::number("high", "High"),
        Column::number("positive_share", "Positive"),
        Column::number("switches", "Context switches"),
        Column::text("verdict", "Verdict"),
    ];
    let row = |x: &Point| {
        vec![
            Cell::count(u64::from(x.cpus)),
            rate(x.throughput.0),
            rate(x.throughput.1),
            effect_cell(x.low),
            effect_cell(x.median),
            effect_cell(x.high),
            Cell::number(x.positive_share, format!("{:.0}%", x.positive_share * 100.0)),
            x.switches.map_or(Cell::value(serde_json::Value::Null, "-"), |s| Cell::number(s, percent(s))),
            Cell::text(x.verdict.name()),
        ]
    };
    let table = Node::Table { key: "points".into(), columns, rows: p.curve.iter().map(row).collect() };
    let nodes = pictures::scaling(p).into_iter().chain([table]).collect();
    Node::Section { key: "curve".into(), title: "By number of CPUs".into(), nodes }
}

fn tornado(p: &Prediction) -> Node {
    let columns = vec![
        Column::text("parameter", "Parameter"),
        Column::text("what", "Factor on"),
        Column::number("factor_low", "From"),
        Column::number("factor_high", "To"),
        Column::number("effect_low", "Effect when low"),
        Column::number("effect_high", "Effect when high"),
    ];
    let fixed = |key: &str| p.question.fixed.iter().any(|(k, _)| k == key);
    let free = || p.tornado.iter().filter(|x| !fixed(x.unknown.key));
    let row = |x: &Influence| {
        let (low, high) = x.unknown.range;
        vec![
            Cell::text(x.unknown.key),
            Cell::text(x.unknown.what),
            Cell::number(low, format!("x{low:.2}")),
            Cell::number(high, format!("x{high:.2}")),
            effect_cell(x.low),
            effect_cell(x.high),
        ]
    };
    let table = Node::Table { key: "unknowns".into(), columns, rows: free().map(row).collect() };
    let nodes = pictures::tornado(free()).into_iter().chain([table]).collect();
    let title = "What it hangs on (mean effect in the lower and upper third of each unknown)";
    Node::Section { key: "tornado".into(), title: title.into(), nodes }
}

fn ablations(p: &Prediction) -> Node {
    let columns = vec![Column::text("model", "Model"), Column::number("effect", "Median effect")];
    let main = p.point().map(|x| (Ablation::None, x.median));
    let all = main.iter().chain(&p.ablations);
    let rows = all.map(|(a, e)| vec![Cell::text(a.title()), effect_cell(*e)]).collect();
    let table = Node::Table { key: "changes".into(), columns, rows };
    Node::Section {
        key: "ablations".into(),
        title: "With parts of the model changed".into(),
        nodes: vec![table],
    }
}

fn fields(p: &Prediction) -> Node {
    let mut sums = std::collections::BTreeMap::<&str, (f64, f64)>::new();
    let n = p.samples.len().max(1) as f64;
    for s in &p.samples {
        for (name, t, _) in &s.before.fields {
            sums.entry(name).or_default().0 += t / n;
        }
        for (name, t, _) in &s.after.fields {
            sums.entry(name).or_default().1 += t / n;
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.retain(|(_, (b, a))| b.max(*a) >= 0.005);
    rows.sort_by(|a, b| b.1.0.max(b.1.1).total_cmp(&a.1.0.max(a.1.1)));
    let columns = vec![
        Column::text("field", "Field"),
        Column::number("before_per_op", "Transfers/op before"),
        Column::number("after_per_op", "After"),
    ];
    let rows = rows
        .into_iter()
        .take(12)
        .map(|(name, (b, a))| {
            let cell = |x: f64| Cell::number(x, format!("{x:.2}"));
            vec![Cell::text(name).tone(Tone::Name), cell(b), cell(a)]
        })
        .collect();
    let table = Node::Table { key: "fields".into(), columns, rows };
    Node::Section { key: "transfers".into(), title: "Line transfers by field".into(), nodes: vec![table] }
}

/// The built-in machines.
pub fn machines(list: &[Machine]) -> View {
    let columns = vec![
        Column::text("name", "Name"),
        Column::number("cpus", "CPUs"),
        Column::number("smt_ns", "SMT"),
        Column::number("cluster_ns", "Cluster"),
        Column::number("socket_ns", "Socket"),
        Column::number("cross_ns", "Cross"),
        Column::number("line_bytes", "Line"),
        Column::text("source", "Source of latencies (ns)"),
    ];
    let ns = |x: Option<f64>| {
        x.map_or(Cell::value(serde_json::Value::Null, "-"), |v| Cell::number(v, format!("{v}")))
    };
    let row = |m: &Machine| {
        let l = &m.latency_ns;
        let source = if m.unsourced { format!("unsourced; {}", l.source) } else { l.source.clone() };
        let source = Cell::text(source);
        vec![
            Cell::text(m.name.clone()).tone(Tone::Name),
            Cell::count(u64::from(m.cpus())),
            ns(l.smt),
            ns(l.cluster),
            ns(Some(l.socket)),
            ns(l.cross),
            Cell::count(u64::from(m.line_bytes)),
            if m.unsourced { source.tone(Tone::Warn) } else { source },
        ]
    };
    let rows = list.iter().map(row).collect();
    View {
        kind: "machines",
        schema_version: 1,
        nodes: vec![Node::Table { key: "machines".into(), columns, rows }],
    }
}
