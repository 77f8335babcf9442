//! What a triage says, in reading order: what was measured, who is blamed, which fields meet, what parts them, what to
//! measure.

use super::Found;
use super::suspects::Suspect;
use crate::cmd::import::view::DECIDED;
use std::collections::BTreeMap;
use tussle_advise::Edit;
use tussle_perf::mail::{Change, Commit};
use tussle_perf::text::{TextLine, TextRow};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View, offset, shell};
use tussle_report::signs;

/// Rows of the benchmark that are shown.
const ROWS_MAX: usize = 4;
/// Structs of a diff that are shown.
const CHANGES_MAX: usize = 6;
/// Functions in a list.
const FUNCTIONS_MAX: usize = 4;

/// The whole view.
pub fn view(found: &Found) -> View {
    let mut nodes = vec![Node::Facts(facts(found))];
    nodes.extend(lines(found));
    nodes.push(changes(found));
    nodes.push(profile(found));
    nodes.push(Node::List { key: "suspects".into(), items: found.suspects.iter().map(suspect).collect() });
    let structs = found.signs.iter().map(|s| Node::Section {
        key: "struct".into(),
        title: format!("{}: its hot pairs and what parts them", s.type_name),
        nodes: signs::nodes(s),
    });
    nodes.push(Node::List { key: "structs".into(), items: structs.collect() });
    nodes.push(measure(found));
    View { kind: "triage", schema_version: 1, nodes }
}

fn plain(words: impl Into<String>) -> Node {
    Node::Text(vec![Span::plain(words.into())])
}

fn facts(found: &Found) -> Vec<Fact> {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mut out = Vec::new();
    let rows: Vec<String> = found.rows.iter().take(ROWS_MAX).map(row).collect();
    if !rows.is_empty() {
        out.push(fact("measured", "measured", Cell::text(rows.join("; "))));
    }
    let commit = |c: &Commit| match c.title.is_empty() {
        true => c.hash.clone(),
        false => format!("{} (\"{}\")", c.hash, c.title),
    };
    out.extend(found.commits.0.iter().map(|c| fact("base", "before", Cell::text(commit(c)))));
    out.extend(found.commits.1.iter().map(|c| fact("blamed", "blamed", Cell::text(commit(c)))));
    out.push(fact("finding", "finding", Cell::text(finding(found))));
    out
}

fn row(r: &tussle_bench::read::Row) -> String {
    let change = r.change.map_or("?".into(), |c| format!("{}%", c.text()));
    format!("{} {} -> {} ({change})", r.name, r.old.text(), r.new.text())
}

/// Two fields of a struct meet or are suspected to, or two places of a table's line of which no type is known.
pub fn meets(found: &Found) -> bool {
    let pairs = found.suspects.iter().any(|s| s.pair.is_some());
    pairs || found.signs.iter().any(|s| !s.meetings.is_empty()) || !two_places(found).is_empty()
}

/// One sentence.
fn finding(found: &Found) -> String {
    let meeting = found.signs.iter().find_map(|s| Some((s, s.meetings.first()?)));
    if let Some((s, m)) = meeting {
        return format!("{}.{} and .{} share a line in the table", s.type_name, m.a, m.b);
    }
    if let Some((s, (a, b))) = found.suspects.iter().find_map(|s| Some((s, s.pair.as_ref()?))) {
        let together = match s.places.last().and_then(|p| p.together) {
            Some(true) => "share a line where objects begin on one",
            Some(false) => "are on two lines where objects begin on one",
            None => "are what its hot functions touch",
        };
        return format!(
            "suspected: {}.{}: {a} and {b} {together}; the diff and the text point there, no table of lines does",
            s.type_name, s.member
        );
    }
    if found.no_types && !found.lines.is_empty() {
        return format!("fields are unknown: no file with types was given{}", two_places(found));
    }
    if let Some(p) = found.naming.primitives.first() {
        return format!("`{}` at 0x{:x} is fought over; what holds it is not known", p.type_name, p.base);
    }
    if !found.lines.is_empty() {
        return format!("no type is sure enough for the lines{}", two_places(found));
    }
    if let Some(f) = found.families.first() {
        let functions = f.functions.first().map_or("", String::as_str);
        return format!(
            "undecided: the hottest code ({functions}) works on objects of type {}; which one is not known without a \
             table of lines, or the blamed commit's diff (--tree, or the patch as another MAIL) and types (-k)",
            f.type_name
        );
    }
    "undecided: nothing in the text ties the loss to two fields".into()
}

/// The two hottest places of the first line, where it has as many.
fn two_places(found: &Found) -> String {
    let Some(line) = found.lines.first() else { return String::new() };
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for r in &line.rows {
        *sums.entry(r.offset).or_default() += samples(r, line);
    }
    let mut places: Vec<(u64, f64)> = sums.into_iter().collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    match places[..] {
        [(a, x), (b, y), ..] if y >= 1.0 => {
            format!("; bytes {a} ({x:.0} samples) and {b} ({y:.0}) of line 0x{:x} meet", line.address)
        }
        _ => String::new(),
    }
}

/// Contended samples of a row: HITM, or peers where the machine cannot tell HITM.
fn samples(r: &TextRow, line: &TextLine) -> f64 {
    let peers = || Some(r.percent.get(2)? / 100.0 * line.counts.peer? as f64);
    match line.counts.hitm() {
        0 if line.counts.peer_remote.is_none() => peers().unwrap_or(0.0),
        _ => r.hitm(line),
    }
}

/// Lines of the table: named, or as offsets and functions.
fn lines(found: &Found) -> Vec<Node> {
    if found.lines.is_empty() {
        return Vec::new();
    }
    let mut nodes = Vec::new();
    if found.naming.lines.iter().any(|l| !l.candidates.is_empty()) {
        nodes.push(found.naming.candidates());
    } else {
        nodes.push(bare(found));
    }
    nodes.extend(found.naming.places().into_iter().map(plain));
    let undecided =
        |l: &&tussle_perf::joint::Named| l.candidates.first().is_none_or(|c| c.confidence < DECIDED);
    let open = found.naming.lines.iter().filter(undecided).count();
    if open > 0 {
        nodes.push(plain(match found.no_types {
            true => "No file with types: -k VMLINUX of a similar build (/sys/kernel/btf/vmlinux for this machine's) \
                     gives the fields their names."
                .into(),
            false => format!(
                "{open} of {} lines without a name: no type is at least {DECIDED:.2} sure.",
                found.naming.lines.len()
            ),
        }));
    }
    vec![Node::Section { key: "table".into(), title: "Lines of the table".into(), nodes }]
}

fn bare(found: &Found) -> Node {
    let columns = vec![
        Column::text("line", "line"),
        Column::number("offset", "in line"),
        Column::number("samples", "samples"),
        Column::text("functions", "functions"),
    ];
    let mut rows = Vec::new();
    for line in found.lines.iter().take(ROWS_MAX) {
        let mut places: Vec<u64> = line.rows.iter().map(|r| r.offset).collect();
        places.sort_unstable();
        places.dedup();
        for at in places {
            let here: Vec<_> = line.rows.iter().filter(|r| r.offset == at).collect();
            let samples = here.iter().map(|r| samples(r, line)).sum::<f64>().round() as u64;
            let mut names: Vec<&str> = here.iter().map(|r| r.symbol.as_str()).collect();
            names.dedup();
            rows.push(vec![
                Cell::value(line.address, format!("0x{:x}", line.address)),
                Cell::value(at, offset(at)),
                Cell::count(samples),
                Cell::text(names.join(", ")),
            ]);
        }
    }
    Node::Table { key: "offsets".into(), columns, rows }
}

fn changes(found: &Found) -> Node {
    let columns = vec![
        Column::text("type", "struct in the diff"),
        Column::text("file", "file"),
        Column::text("added", "added"),
        Column::text("removed", "removed"),
        Column::text("moved", "moved"),
    ];
    let row = |c: &Change| {
        let list = |names: &[String]| Cell::text(names.join(", "));
        vec![
            c.type_name.as_ref().map_or_else(Cell::unknown, |n| Cell::text(n).tone(Tone::Name)),
            Cell::text(&c.file),
            list(&c.added),
            list(&c.removed),
            list(&c.moved),
        ]
    };
    let rows: Vec<Vec<Cell>> = found.changes.0.iter().take(CHANGES_MAX).map(row).collect();
    let nodes = match rows.is_empty() {
        true => Vec::new(),
        false => vec![Node::Table { key: "rows".into(), columns, rows }],
    };
    let title = if nodes.is_empty() { String::new() } else { format!("What {} changes", found.changes.1) };
    Node::Section { key: "changes".into(), title, nodes }
}

fn profile(found: &Found) -> Node {
    let columns = vec![
        Column::text("type", "hot functions work on"),
        Column::number("percent", "hottest"),
        Column::text("functions", "functions"),
    ];
    let row = |f: &tussle_perf::mail::Family| {
        vec![
            Cell::text(f.type_name).tone(Tone::Name),
            Cell::number(f.percent, format!("{:.1}%", f.percent)),
            Cell::text(f.functions.iter().take(FUNCTIONS_MAX).cloned().collect::<Vec<_>>().join(", ")),
        ]
    };
    let rows: Vec<Vec<Cell>> = found.families.iter().map(row).collect();
    let nodes = match rows.is_empty() {
        true => Vec::new(),
        false => vec![Node::Table { key: "rows".into(), columns, rows }],
    };
    let title = if nodes.is_empty() { String::new() } else { "The profile".into() };
    Node::Section { key: "profile".into(), title, nodes }
}

fn suspect(s: &Suspect) -> Node {
    let mut nodes = vec![
        Node::Data { key: "type".into(), value: s.type_name.clone().into() },
        Node::Data { key: "member".into(), value: s.member.clone().into() },
    ];
    let clue = match s.functions.first() {
        Some(f) => format!("{f} has {:.1}% of the profile", s.percent),
        None => "the text names it".into(),
    };
    nodes.push(plain(format!(
        "{} (a {}) lies in the struct that the diff changes, and {clue}.",
        s.member, s.primitive
    )));
    let together = |t: Option<bool>| match t {
        Some(true) => "one line",
        Some(false) => "two lines",
        None => "unknown",
    };
    let columns = vec![
        Column::text("build", "build"),
        Column::number("offset", "offset"),
        Column::text("pair", "the pair, for objects that begin on a line"),
    ];
    let rows = s.places.iter().map(|p| {
        vec![Cell::text(&p.build), Cell::value(p.offset, offset(p.offset)), Cell::text(together(p.together))]
    });
    nodes.push(Node::Table { key: "places".into(), columns, rows: rows.collect() });
    nodes.extend(parting(s));
    Node::Section { key: "suspect".into(), title: format!("Suspected: {}.{}", s.type_name, s.member), nodes }
}

fn parting(s: &Suspect) -> Option<Node> {
    let (a, b) = s.pair.as_ref()?;
    let columns = vec![
        Column::text("edits", "change"),
        Column::number("bytes_added", "bytes"),
        Column::number("moved", "members whose line changes"),
    ];
    let row = |p: &tussle_advise::apart::Parting| {
        let edits: Vec<String> = p.edits.iter().map(Edit::to_string).collect();
        vec![
            Cell::text(edits.join(" ")).tone(Tone::Name),
            Cell::value(p.bytes_added, format!("{:+}", p.bytes_added)),
            Cell::count(p.moved.len() as u64),
        ]
    };
    let rows: Vec<Vec<Cell>> = s.partings.iter().map(row).collect();
    let title = format!(
        "These part {a} and {b} where objects begin on a line. Whether apart is better for a lock's own words hangs on \
         how long waiters wait; by how much is not known."
    );
    (!rows.is_empty()).then(|| Node::Section {
        key: "apart".into(),
        title,
        nodes: vec![Node::Table { key: "changes".into(), columns, rows }],
    })
}

/// What would decide it, as commands.
fn measure(found: &Found) -> Node {
    let mut items: Vec<String> = Vec::new();
    if let Some(w) = found.workloads.first() {
        items.push(format!(
            "tussle record-kernel --vmlinux VMLINUX --workload {}; tussle report (which fields meet, in an emulator)",
            shell::word(w)
        ));
    }
    let best =
        found.signs.iter().find_map(|s| Some((s, s.meetings.iter().find_map(|m| m.partings.first())?)));
    if let Some((s, p)) = best {
        items.push(format!("{} --dir TREE (the first change as a patch)", signs::patch(s, p)));
    }
    let first = found.suspects.iter().find_map(|s| Some((s, s.partings.first()?)));
    if let (None, Some((s, p))) = (best, first) {
        items
            .push(format!("{} --dir TREE (the first change as a patch)", signs::fix(&s.type_name, &p.edits)));
    }
    if found.lines.is_empty() {
        items.push(
            "perf c2c record -a -- BENCHMARK on both commits, tussle import each, tussle report A B (which lines are \
             hot: the mail has no table of them)"
                .into(),
        );
    } else {
        items.push(
            "perf c2c record -a -- BENCHMARK as perf.data, not text: stores and threads rank the changes"
                .into(),
        );
    }
    items.push(
        "tussle bench 'a=BENCHMARK on BASE' 'b=BENCHMARK on PATCHED' on the machine of the report (the size)"
            .into(),
    );
    let rows = items.into_iter().map(|i| vec![Cell::text(i)]).collect();
    let columns = vec![Column::text("command", "what to measure next")];
    Node::Table { key: "next".into(), columns, rows }
}
