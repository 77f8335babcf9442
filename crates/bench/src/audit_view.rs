//! An audit and comparisons of foreign results as views.

use tussle_render::{Cell, Column, Fact, Node, Span, Tone};
use tussle_stats::{Interval, rank, summary, welch};

use crate::audit::{Audit, StarRule, follows, noise_percent};
use crate::read::{ChangeKind, Direction, Document, Format, Report, Row, Series};
use crate::verdict::{Criterion, Outcome, outcome, percent};
use crate::view::{p_text, significant, tone};

fn table(key: &str, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Node {
    Node::Table { key: key.into(), columns, rows }
}

/// All that a document holds: table rows with recomputed changes, remarks, pairs of system reports, raw results.
pub fn nodes(document: &Document, audit: &Audit, problems: &[String]) -> Vec<Node> {
    let mut out = vec![summary_text(document, audit)];
    out.extend(summary_data(document, audit));
    if !document.rows.is_empty() {
        out.push(rows_table(&document.rows, audit));
    }
    if !audit.deviations.1.is_empty() {
        out.push(remarks(
            "coefficients_wrong",
            "coefficients of variation that do not follow",
            &audit.deviations.1,
        ));
    }
    if !audit.star_rules.is_empty() {
        out.push(star_table(&audit.star_rules));
    }
    if !audit.notes.is_empty() {
        out.push(remarks("notes", "remarks", &audit.notes));
    }
    out.extend(report_nodes(&document.reports));
    if !document.series.is_empty() {
        out.push(series_table(&document.series));
    }
    if !problems.is_empty() {
        out.push(remarks("problems", "could not be read", problems));
    }
    out
}

fn remarks(key: &str, title: &str, texts: &[String]) -> Node {
    let rows = texts.iter().map(|t| vec![Cell::text(t.clone())]).collect();
    table(key, vec![Column::text("text", title)], rows)
}

fn summary_text(document: &Document, audit: &Audit) -> Node {
    let names: Vec<String> = document.formats().iter().map(|f| f.name().to_string()).collect();
    let mut text = format!("Found: {}.", names.join(", "));
    if audit.checked > 0 {
        let good = audit.checked - audit.wrong.len();
        text += &format!(" {good} of {} printed changes follow from the printed numbers.", audit.checked);
    }
    if audit.deviations.0 > 0 {
        let good = audit.deviations.0 - audit.deviations.1.len();
        text += &format!(" {good} of {} coefficients of variation do.", audit.deviations.0);
    }
    let tone = if audit.accuses() { Tone::Bad } else { Tone::Strong };
    Node::Text(vec![Span { text, tone }])
}

/// The sentence above as figures.
fn summary_data(document: &Document, audit: &Audit) -> [Node; 5] {
    let data = |key: &str, value: serde_json::Value| Node::Data { key: key.into(), value };
    let (deviations, deviations_wrong) = (audit.deviations.0, audit.deviations.1.len());
    [
        data("formats", serde_json::json!(document.formats())),
        data("changes_checked", audit.checked.into()),
        data("changes_wrong", audit.wrong.len().into()),
        data("coefficients_checked", deviations.into()),
        data("coefficients_contradicted", deviations_wrong.into()),
    ]
}

fn rows_table(rows: &[Row], audit: &Audit) -> Node {
    // Of three commits and more the second and the following are candidates.
    let several = rows.iter().any(|r| r.column > 1);
    let mut columns = vec![
        Column::text("statistic", "statistic"),
        Column::text("name", "name"),
        Column::number("old", "old"),
        Column::number("new", "new"),
        Column::number("change_printed", "printed"),
        Column::number("change_recomputed", "recomputed"),
        Column::number("noise_percent", "noise"),
        Column::text("star", "star"),
        Column::text("audit", "audit"),
    ];
    if several {
        columns.insert(2, Column::number("column", "column"));
    }
    let cells = rows.iter().enumerate().map(|(i, row)| {
        let unit = if row.change_kind == ChangeKind::Difference { "" } else { "%" };
        let change = |x: Option<f64>| {
            x.map_or_else(Cell::unknown, |x| Cell::number(x, format!("{:+.2}{unit}", x + 0.0)))
        };
        let wrong = audit.wrong.iter().find(|w| w.0 == i);
        let verdict = match (wrong, follows(row)) {
            (Some((_, why)), _) => Cell::text(why.clone()).tone(Tone::Bad),
            (None, Some(_)) => Cell::text("follows").tone(Tone::Dim),
            (None, None) => Cell::text("nothing to recompute").tone(Tone::Dim),
        };
        let noise = noise_percent(row).map_or_else(
            || Cell::value(serde_json::Value::Null, ""),
            |n| Cell::number(n, format!("{}{n:.0}%", if unprinted(row) { "≤ " } else { "± " })),
        );
        let mut cells = vec![
            Cell::text(row.statistic.clone().unwrap_or_default()),
            Cell::text(row.name.clone()).tone(Tone::Name),
            Cell::number(row.old.value, row.old.text()),
            Cell::number(row.new.value, row.new.text()),
            change(row.change.map(|c| c.value)),
            change(follows(row).map(|f| f.0)),
            noise,
            Cell::value(row.starred, if row.starred == Some(true) { "*" } else { "" }),
            verdict,
        ];
        if several {
            cells.insert(2, Cell::count(row.column as u64 + 1));
        }
        cells
    });
    table("rows", columns, cells.collect())
}

fn unprinted(row: &Row) -> bool {
    row.old_deviation_percent.is_none() && row.new_deviation_percent.is_none()
}

fn star_table(rules: &[StarRule]) -> Node {
    let rows = rules.iter().map(|r| {
        let text: Vec<String> = r.samples.iter().map(|(a, b)| format!("{a} to {b}")).collect();
        let (text, tone) = if text.is_empty() {
            ("does not fit".to_string(), Tone::Dim)
        } else {
            (format!("fits for {} samples a side", text.join(", ")), Tone::Good)
        };
        vec![Cell::text(r.rule), Cell::value(serde_json::json!(r.samples), text).tone(tone)]
    });
    let columns = vec![Column::text("rule", "rule of the stars"), Column::text("samples", "fits")];
    table("star_rules", columns, rows.collect())
}

/// Reports of the same kind are compared two by two, in the order they stand.
fn report_nodes(reports: &[Report]) -> Vec<Node> {
    let mut items = Vec::new();
    for format in [Format::Vmstat, Format::Turbostat, Format::Profile] {
        let of_kind: Vec<&Report> = reports.iter().filter(|r| r.format == format).collect();
        for pair in of_kind.chunks(2) {
            let nodes = match pair {
                [old, new] => vec![report_pair(old, new)],
                [alone] => vec![report_alone(alone)],
                _ => continue,
            };
            let titles = pair.iter().map(|r| r.title.as_str()).collect::<Vec<_>>();
            let mut nodes = nodes;
            nodes.insert(0, Node::Data { key: "format".into(), value: serde_json::json!(format) });
            nodes.insert(1, Node::Data { key: "titles".into(), value: serde_json::json!(titles) });
            if format == Format::Vmstat {
                let text =
                    "The first line that vmstat prints is an average since boot; it counts if it is there.";
                nodes.push(Node::Text(vec![Span { text: text.into(), tone: Tone::Dim }]));
            }
            let title =
                if titles.iter().all(|t| t.is_empty()) { String::new() } else { titles.join(" → ") };
            items.push(Node::Section { key: format!("{format:?}").to_lowercase(), title, nodes });
        }
    }
    if items.is_empty() { items } else { vec![Node::List { key: "reports".into(), items }] }
}

/// As printed where it was printed short; means of several lines with six digits.
fn figure(x: f64) -> String {
    let text = format!("{x}");
    if text.len() <= 9 || x.fract() == 0.0 { text } else { significant(x) }
}

fn report_alone(report: &Report) -> Node {
    let row = |(name, x): &(String, f64)| {
        vec![Cell::text(name.clone()).tone(Tone::Name), Cell::number(*x, figure(*x))]
    };
    let title = if report.format == Format::Profile { "%" } else { "mean" };
    let columns = vec![Column::text("name", "figure"), Column::number("value", title)];
    table("figures", columns, report.figures.iter().map(row).collect())
}

fn report_pair(old: &Report, new: &Report) -> Node {
    let mut names: Vec<&String> = old.figures.iter().map(|f| &f.0).collect();
    names.extend(new.figures.iter().map(|f| &f.0).filter(|n| !old.figures.iter().any(|f| f.0 == **n)));
    let of = |report: &Report, name: &str| report.figures.iter().find(|f| f.0 == name).map(|f| f.1);
    let rows = names.into_iter().map(|name| {
        let (a, b) = (of(old, name), of(new, name));
        let cell = |x: Option<f64>| x.map_or_else(Cell::unknown, |x| Cell::number(x, figure(x)));
        let points = a.zip(b).map(|(a, b)| b - a);
        let relative = a.zip(b).filter(|(a, _)| *a != 0.0).map(|(a, b)| 100.0 * (b - a) / a);
        vec![
            Cell::text(name.clone()).tone(Tone::Name),
            cell(a),
            cell(b),
            points.map_or_else(Cell::unknown, |d| Cell::number(d, format!("{d:+.2}"))),
            relative.map_or_else(Cell::unknown, |p| Cell::number(p, format!("{p:+.1}%"))),
        ]
    });
    let columns = vec![
        Column::text("name", "figure"),
        Column::number("old", "old"),
        Column::number("new", "new"),
        Column::number("difference", "difference"),
        Column::number("change_percent", "change"),
    ];
    table("figures", columns, rows.collect())
}

fn series_table(series: &[Series]) -> Node {
    let rows = series.iter().map(|s| {
        let number = |x: Option<f64>| x.map_or_else(Cell::unknown, |x| Cell::number(x, significant(x)));
        vec![
            Cell::text(s.name.clone()).tone(Tone::Name),
            Cell::count(s.values.len() as u64),
            number(tussle_stats::mean(&s.values)),
            number(summary::coeff_var_percent(&s.values)),
            Cell::text(s.unit.clone()),
        ]
    });
    let columns = vec![
        Column::text("name", "result"),
        Column::number("samples", "samples"),
        Column::number("mean", "mean"),
        Column::number("coeff_var_percent", "CoeffVar %"),
        Column::text("unit", "unit"),
    ];
    table("results", columns, rows.collect())
}

/// Two sets of raw results, matched by name: Welch's test on logarithms, and ranks. Whether any regressed.
pub fn compare_series(old: &[Series], new: &[Series], question: Criterion) -> (Vec<Node>, bool) {
    let (mut rows, mut notes, mut regressed) = (Vec::new(), Vec::new(), false);
    let alone = old.len() == 1 && new.len() == 1;
    for a in old {
        let Some(b) = new.iter().find(|s| s.name == a.name || alone) else {
            notes.push(format!("{} is in the first result only", a.name));
            continue;
        };
        if a.unit != b.unit {
            notes.push(format!("{}: mixed units, {} and {}", a.name, a.unit, b.unit));
            continue;
        }
        let Some((row, bad)) = series_row(a, b, question) else {
            let (n, m) = (a.values.len(), b.values.len());
            notes.push(format!(
                "{}: {n} and {m} usable samples; two a side are needed for an interval",
                a.name
            ));
            continue;
        };
        regressed |= bad;
        rows.push(row);
    }
    add_holm(&mut rows, &mut notes);
    notes.push(
        "measured in separate sessions: drift between them looks like a difference; \
         `tussle bench` runs in pairs"
            .into(),
    );
    let columns = vec![
        Column::text("name", "result"),
        Column::number("ratio", "change"),
        Column::text("interval", "interval"),
        Column::number("samples_old", "n old"),
        Column::number("samples_new", "n new"),
        Column::number("p", "p (Welch, logs)"),
        Column::number("p_holm", "p (Holm)"),
        Column::number("p_ranks", "p (ranks)"),
        Column::text("verdict", "verdict"),
    ];
    (vec![table("comparisons", columns, rows), remarks("warnings", "warnings", &notes)], regressed)
}

/// Columns of [`series_row`].
const P: usize = 5;
const P_HOLM: usize = 6;

/// The p-values corrected for the number of rows.
fn add_holm(rows: &mut [Vec<Cell>], notes: &mut Vec<String>) {
    let p: Vec<f64> = rows.iter().filter_map(|r| r.get(P)?.value.as_f64()).collect();
    if p.len() != rows.len() {
        return;
    }
    for (row, p) in rows.iter_mut().zip(tussle_stats::multiple::holm(&p)) {
        row[P_HOLM] = Cell::number(p, p_text(p));
    }
    if p.len() > 1 {
        notes.push(format!(
            "{} results: of equal ones about 1 in 20 is called different; p (Holm) is corrected for that",
            p.len()
        ));
    }
}

fn series_row(a: &Series, b: &Series, question: Criterion) -> Option<(Vec<Cell>, bool)> {
    let logs = |xs: &[f64]| xs.iter().map(|x| x.ln()).collect::<Vec<f64>>();
    let (la, lb) = (logs(&a.values), logs(&b.values));
    let difference = tussle_stats::mean(&lb)? - tussle_stats::mean(&la)?;
    let (interval, p) = match welch::welch(&la, &lb) {
        Some(t) => {
            let share = |xs: &[f64]| Some(summary::variance(xs)? / xs.len() as f64);
            let error = (share(&la)? + share(&lb)?).sqrt();
            let half = tussle_stats::dist::t_quantile(0.5 + question.confidence / 2.0, t.df)? * error;
            (Interval { low: difference - half, high: difference + half }, t.p)
        }
        // No spread at all (numbers of allocations): the difference is what it is.
        None if la.len() > 1 && lb.len() > 1 => {
            (Interval { low: difference, high: difference }, if difference == 0.0 { 1.0 } else { 0.0 })
        }
        None => return None,
    };
    let verdict = outcome(Some(interval), question.margin, a.direction != Direction::Lower);
    let ranks = rank::mann_whitney(&a.values, &b.values)?;
    let text = format!("{} .. {}", percent(interval.low.exp()), percent(interval.high.exp()));
    let row = vec![
        Cell::text(a.name.clone()).tone(Tone::Name),
        Cell::number(difference.exp(), percent(difference.exp())),
        Cell::value(serde_json::json!([interval.low.exp(), interval.high.exp()]), text),
        Cell::count(a.values.len() as u64),
        Cell::count(b.values.len() as u64),
        Cell::number(p, p_text(p)),
        // Filled when all rows are known.
        Cell::unknown(),
        Cell::number(ranks.p, p_text(ranks.p)),
        Cell::text(verdict.name()).tone(tone(verdict)),
    ];
    Some((row, verdict == Outcome::Regressed))
}

/// A footer that states rule and n.
pub fn footer(rule: &str) -> Node {
    let cell = Cell::text(rule).tone(Tone::Dim);
    Node::Facts(vec![Fact { key: "rule".into(), label: "rule".into(), cell }])
}
