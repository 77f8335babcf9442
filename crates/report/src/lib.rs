//! Evidence, its comparison and advice as views: contended lines by field first.

pub mod advice;
pub mod before_after;
mod by_object;
pub mod by_type;
mod declared;
mod drawing;
pub mod excerpt;
pub mod kernel;
mod latent;
mod line;
pub mod lines;
pub mod live;
pub mod names;
mod narrowest;
mod outcome;
pub mod pareto;
pub mod pmu;
pub mod profiler;
mod side;
pub mod signs;
pub mod what_if;

pub use outcome::Outcome;
pub use side::compare;

use tussle_advise::class::{self, Class, Judged};
use tussle_advise::lines::ByLine;
use tussle_contention::analysis::{self, Bases, Contention, Question};
use tussle_contention::fields::Namer;
use tussle_contention::group::Group;
use tussle_evidence::Problem;
use tussle_evidence::*;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View, plural, shell, thousands};

/// Version of the `report` document.
pub const SCHEMA_VERSION: u32 = 1;

/// Groups shown in full; the rest is in the table only.
const DETAILS_MAX: usize = 20;

/// What to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only objects of these types or variables (`struct stats`, `stats`, `counter`); empty shows all.
    pub names: Vec<String>,
    /// Line size, bases, window, split.
    pub question: Question,
    /// The evidence's file where other verbs would not look for it by themselves.
    pub file: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { names: Vec::new(), question: Question::observed(), file: None }
    }
}

/// A report and what its exit status follows from.
#[derive(Clone, Debug)]
pub struct Report {
    /// For printing.
    pub view: View,
    /// What was found.
    pub outcome: Outcome,
}

/// The report of one evidence; `problems` are those of reading it.
pub fn report(e: &Evidence, problems: &[Problem], options: &Options) -> Report {
    if e.transfers.is_some() {
        return kernel::report(e, problems, options);
    }
    if e.run.unit.by_share() {
        return live::report(e, problems, options);
    }
    if e.samples.is_some() {
        return pmu::report(e, problems, options);
    }
    let namer = Namer::new(e);
    let seen = analysis::contention(e, &options.question);
    let keep = |g: &Group| wanted(e, &namer, g, &options.names);
    let mut all = class::judge(e, &namer, &seen);
    let latent = match options.question.bases {
        Bases::Observed => class::latent(e, &seen, &all),
        Bases::Phase(_) => Vec::new(),
    };
    // Who asks for one name does not make the rest harmless.
    let harmed: usize = all.iter().filter(|j| j.class != Class::Small).map(|j| j.group.lines.len()).sum();
    let quiet = seen.lines.len().saturating_sub(harmed);
    // A name that is asked for shows whatever there is.
    all.retain(|j| keep(&j.group) && (j.class != Class::Small || !options.names.is_empty()));
    let mut hidden = latent::hidden(e, &namer, &latent);
    hidden.retain(|h| keep(&h.group));
    let outcome = Outcome::new(e, problems, &all, &hidden);
    let lucky = hidden.iter().filter(|h| h.by_luck(e)).count();
    let (helped, others): (Vec<&Judged>, Vec<&Judged>) =
        all.iter().partition(|j| j.class == Class::LayoutHelps);
    let by_line = by_line(e, &seen, &all, &hidden);
    let context = line::Context { by_line, ..line::Context::new(e, &namer, seen.question) };
    let mut nodes = vec![outcome::sentence(&outcome, (&all, &hidden, lucky), (seen.lines_touched, quiet))];
    let first_lucky = hidden.iter().find(|h| h.by_luck(e));
    let mut facts = match first_lucky.filter(|_| helped.is_empty()) {
        Some(h) => worst_hidden(&context, h, options),
        None => worst(&context, &helped, options),
    };
    facts.extend(outcome.blind.iter().map(|why| fact("not_seen", "", Cell::text(why.clone()))));
    facts.extend(run_facts(e, &seen, outcome.helps));
    nodes.push(Node::Facts(facts));
    nodes.extend(loss_nodes(e, problems));
    nodes.extend(unshared(e, &namer, &all, options));
    nodes.push(table(e, &all));
    let details = |list: &[&Judged]| -> Vec<Node> {
        list.iter().take(DETAILS_MAX).map(|j| context.judged(j, number_of(&all, j))).collect()
    };
    nodes.push(Node::List { key: "layout_helps".into(), items: details(&helped) });
    nodes.push(Node::List { key: "other_classes".into(), items: details(&others) });
    nodes.extend(latent::nodes(&context, &hidden));
    nodes.extend(helped.iter().map(|j| Node::Finding(context.finding(&j.group))));
    nodes.extend(hidden.iter().filter(|h| h.by_luck(e)).map(|h| Node::Finding(context.lucky(h))));
    Report { view: View { kind: "report", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

/// What listed cases are on lines of other sizes; where objects lie elsewhere than they did, nobody knows.
fn by_line(e: &Evidence, seen: &Contention, all: &[Judged], hidden: &[latent::Hidden]) -> Option<ByLine> {
    let shown = all.iter().map(|j| &j.group).chain(hidden.iter().filter(|h| h.is_here()).map(|h| &h.group));
    let lines = shown.flat_map(|g| g.lines.iter().copied());
    (seen.question.bases == Bases::Observed).then(|| ByLine::new(e, seen, lines))
}

/// The worst finding in a sentence, and what to do about it.
fn worst(context: &line::Context, findings: &[&Judged], options: &Options) -> Vec<Fact> {
    let Some(judged) = findings.first() else { return Vec::new() };
    // The change that helps most may be one of another struct than the worst line's: of what that holds, or points to.
    let name = match options.names[..] {
        [] => judged.is_for_advise(context.e).then(String::new),
        _ => judged.struct_name(context.e).map(|name| format!(" -C {}", shell::quoted(&name))),
    };
    let worst = Cell::text(context.finding(&judged.group).message);
    std::iter::once(fact("worst", "worst", worst)).chain(name.map(|name| next(&name, options))).collect()
}

/// The same where only luck hid it in this run.
fn worst_hidden(context: &line::Context, hidden: &latent::Hidden, options: &Options) -> Vec<Fact> {
    let worst = fact("worst", "worst", Cell::text(context.lucky(hidden).message));
    std::iter::once(worst).chain(options.names.is_empty().then(|| next("", options))).collect()
}

/// The command that goes on from here; `name` is an option that asks for one struct, with a space before it.
fn next(name: &str, options: &Options) -> Fact {
    let file = options.file.iter().map(|f| format!(" {}", shell::file(f))).collect::<String>();
    let line = match options.question.line.bytes() {
        64 => String::new(),
        bytes => format!(" -c {bytes}"),
    };
    fact("next", "next", Cell::text(format!("tussle advise{file}{name}{line}")).tone(Tone::Name))
}

fn number_of(all: &[Judged], one: &Judged) -> usize {
    all.iter().position(|j| std::ptr::eq(j, one)).map_or(0, |i| i + 1)
}

/// Names of types and variables that were touched, for a message when `-C` matches none; at most `limit`.
pub fn known_names(e: &Evidence, limit: usize) -> Vec<String> {
    let namer = Namer::new(e);
    let named = e.objects.iter().filter(|o| o.ty.is_some() || o.name.is_some());
    let mut out: Vec<String> = named.map(|o| namer.root(o)).collect();
    out.sort_unstable();
    out.dedup();
    out.truncate(limit);
    out
}

/// Some object of the evidence has this name or type, contended or not.
pub fn is_known(e: &Evidence, name: &str) -> bool {
    let namer = Namer::new(e);
    e.objects.iter().any(|o| object_matches(e, &namer, o, name))
}

fn object_matches(e: &Evidence, namer: &Namer, o: &Object, name: &str) -> bool {
    let bare = |s: &str| {
        let s = s.trim();
        let keyword = ["struct ", "union ", "class ", "enum "].iter().find_map(|k| s.strip_prefix(k));
        keyword.unwrap_or(s).split('[').next().unwrap_or("").trim().to_string()
    };
    let wanted = bare(name);
    let ty = o.ty.map(|t| e.types.name(t));
    bare(&namer.root(o)) == wanted || ty.is_some_and(|t| bare(&t) == wanted)
}

fn wanted(e: &Evidence, namer: &Namer, g: &Group, names: &[String]) -> bool {
    let object = |id: u32| {
        let o = e.objects.get(id as usize);
        o.is_some_and(|o| names.iter().any(|n| object_matches(e, namer, o, n)))
    };
    names.is_empty() || g.objects().into_iter().any(object)
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn text(s: impl Into<String>) -> Node {
    Node::Text(vec![Span::plain(s)])
}

fn dim(s: impl Into<String>) -> Node {
    Node::Text(vec![Span { text: s.into(), tone: Tone::Dim }])
}

/// E for people and JSON: rounded, never with decimals that it does not have.
fn invalidations(e: f64) -> Cell {
    Cell::count(e.round().max(0.0) as u64)
}

fn count(n: f64) -> Cell {
    Cell::count(n.round().max(0.0) as u64)
}

fn run_facts(e: &Evidence, seen: &Contention, finding: bool) -> Vec<Fact> {
    let r = &e.run;
    let accesses: f64 = e.accesses.iter().map(|a| a.reads as f64 + a.writes as f64 + a.rmws as f64).sum();
    let command = r.command.join(" ");
    let duration = match r.duration_s {
        Some(s) => Cell::number(s, format!("{s:.2} s")),
        None => Cell::unknown(),
    };
    let line = seen.question.line.bytes();
    let unit = format!(
        "E: stores that find the line with another thread, expected from each thread's share of the {}; {}, not \
         measured. Windows of {}, {line}-byte lines.",
        r.unit,
        r.source,
        plural(seen.window_vt as usize, "access", "accesses")
    );
    let cpus = e.actors.iter().any(|a| a.kind == ActorKind::Cpu);
    let actors = format!("{} {}", e.actors.len(), if cpus { "CPUs" } else { "threads" });
    // Kept are only lines that threads share, and their neighbours: the source says how many it saw.
    let kept = accesses.round().max(0.0) as u64;
    let (accesses, kept) = match r.accesses {
        Some(all) if kept == 0 && all > 0 => (all as f64, ", none to memory that they share".into()),
        Some(all) if all > kept => {
            (all as f64, format!(", {} of them to lines that are kept", thousands(kept)))
        }
        _ => (accesses, String::new()),
    };
    let total = format!("{} {} by {actors}{kept}", thousands(accesses.round().max(0.0) as u64), r.unit);
    let total = if r.complete { total } else { format!("{total}; the recording is incomplete") };
    let mut facts = vec![
        fact("command", "command", Cell::text(command)),
        fact("accesses", "recorded", Cell::value(accesses.round().max(0.0) as u64, total)),
        fact("duration_s", "lasted", duration),
        machine(r, "CPUs used"),
        fact("unit", "numbers", Cell::value(unit.clone(), unit)),
    ];
    let [finding, complete, source, unit, version] = silent(e, finding, r.unit.to_string());
    let window = fact("window_vt", "", Cell::value(seen.window_vt, ""));
    let line = fact("line_bytes", "", Cell::value(line, ""));
    let touched = fact("lines_touched", "", Cell::value(seen.lines_touched, ""));
    facts.extend([finding, complete, source, unit, window, line, touched, version]);
    facts
}

/// Model, number of `cpus` and architecture, as far as the source knows them.
pub(crate) fn machine(r: &Run, cpus: &str) -> Fact {
    let known = [r.cpu_model.clone(), format!("{} {cpus}", r.cpus), r.arch.clone()];
    let known: Vec<String> = known.into_iter().filter(|word| !word.is_empty()).collect();
    fact("machine", "machine", Cell::text(known.join(", ")))
}

/// What only machines read, of every source: the outcome, and where the numbers come from.
pub(crate) fn silent(e: &Evidence, finding: bool, counts_unit: String) -> [Fact; 5] {
    let r = &e.run;
    let silent = |key: &str, value: serde_json::Value| fact(key, "", Cell::value(value, ""));
    [
        silent("finding", finding.into()),
        silent("complete", r.complete.into()),
        silent("source", serde_json::to_value(r.source).unwrap_or_default()),
        silent("counts_unit", counts_unit.into()),
        silent("tool_version", r.tool_version.clone().into()),
    ]
}

/// What was lost, merged, damaged or cannot be seen: said before any number.
fn loss_nodes(e: &Evidence, problems: &[Problem]) -> Vec<Node> {
    let row = |l: &tussle_evidence::Lost| {
        let pid = l.loss.process.and_then(|p| e.processes.get(p as usize)).map(|p| p.pid);
        let process = match (l.processes, pid) {
            (0 | 1, Some(p)) => Cell::value(p, format!("pid {p}")),
            (0 | 1, None) => Cell::value(serde_json::Value::Null, ""),
            (n, _) => Cell::value(serde_json::Value::Null, format!("{n} processes")),
        };
        vec![Cell::text(&l.loss.what), Cell::count(l.count), process, Cell::text(&l.loss.note)]
    };
    let rows: Vec<Vec<Cell>> = tussle_evidence::lost(e).iter().map(row).collect();
    let mut nodes = Vec::new();
    let sees = &e.run.sees;
    let blind: Vec<&str> = [
        (sees.reads, "loads"),
        (sees.writes, "stores"),
        (sees.rmws, "atomic read-modify-writes"),
        (sees.phases, "true addresses"),
        (sees.time, "times"),
    ]
    .iter()
    .filter(|s| !s.0)
    .map(|s| s.1)
    .collect();
    if !blind.is_empty() {
        let words = format!("This source does not see {}: unknown, not zero.", blind.join(", "));
        nodes.push(Node::Text(vec![Span { text: words, tone: Tone::Warn }]));
    }
    if !rows.is_empty() {
        let columns = vec![
            Column::text("what", "lost or merged"),
            Column::number("count", "count"),
            Column::text("pid", ""),
            Column::text("note", "effect"),
        ];
        nodes.push(Node::Table { key: "losses".into(), columns, rows });
    }
    if !problems.is_empty() {
        let row = |p: &Problem| vec![Cell::text(p.to_string()).tone(Tone::Warn)];
        let rows = problems.iter().take(20).map(row).collect();
        let columns = vec![Column::text("problem", "problems in the evidence file")];
        nodes.push(Node::Table { key: "problems".into(), columns, rows });
    }
    nodes
}

/// A name that was asked for and that nobody fights over: what was done to it all the same.
fn unshared(e: &Evidence, namer: &Namer, all: &[Judged], options: &Options) -> Option<Node> {
    if options.names.is_empty() || !all.is_empty() {
        return None;
    }
    let asked = |a: &&Access| {
        let o = e.objects.get(a.object as usize);
        o.is_some_and(|o| options.names.iter().any(|n| object_matches(e, namer, o, n)))
    };
    let (mut accesses, mut stores, mut actors) = (0, 0, std::collections::BTreeSet::new());
    for a in e.accesses.iter().filter(asked) {
        accesses += a.reads + a.writes + a.rmws;
        stores += a.writes + a.rmws;
        actors.insert(a.actor);
    }
    Some(text(format!(
        "{}: {} kept, {} of them stores, by {}; no line of it was written by one and used by another \
         at the same time.",
        options.names.join(", "),
        plural(accesses as usize, "access", "accesses"),
        thousands(stores),
        plural(actors.len(), "thread", "threads")
    )))
}

fn table(e: &Evidence, all: &[Judged]) -> Node {
    let columns = vec![
        Column::number("rank", "#"),
        Column::number("expected_invalidations", "E"),
        Column::number("expected_invalidations_even_split", "E even").rank(3),
        Column::number("share_of_accesses", "of accesses").rank(4),
        Column::number("transfers", "transfers"),
        Column::number("removable_share", "removable").rank(2),
        Column::text("class", "class"),
        Column::number("lines", "lines").rank(2),
        Column::text("threads", "threads").rank(1),
        Column::text("fields", "fields"),
    ];
    let row = |(i, j): (usize, &Judged)| {
        let g = &j.group;
        let share = g.e.e / g.accesses.max(1.0);
        let removable = g.cost.removable_share();
        vec![
            Cell::count(i as u64 + 1),
            invalidations(g.e.e).tone(class_tone(j.class)),
            invalidations(g.e.e_even),
            Cell::number(share, names::percent(share)),
            invalidations(g.cost.total()),
            Cell::number((removable * 1e4).round() / 1e4, names::percent(removable)),
            Cell::value(j.class.words(), j.class.short()).tone(class_tone(j.class)),
            Cell::count(g.lines.len() as u64),
            Cell::text(names::threads(e, &g.fighters())),
            Cell::text(g.title()).tone(Tone::Name),
        ]
    };
    Node::Table { key: "lines".into(), columns, rows: all.iter().enumerate().map(row).collect() }
}

fn class_tone(class: Class) -> Tone {
    match class {
        Class::LayoutHelps => Tone::Bad,
        Class::Undecided => Tone::Warn,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests;
