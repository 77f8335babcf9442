//! The report of a program that was sampled while it ran: lines by their share of the samples, what debug registers
//! confirmed. Samples of a clock stand where threads wait, so shares are of time, not of accesses, and a gain in stores
//! is never promised. Samples of a PMU are of loads and stores; they also tell which loads found their line modified
//! elsewhere (HITM).

use crate::line::Context;
use crate::{Options, Outcome, Report, class_tone, dim, fact, loss_nodes, names, silent, text, wanted};
use std::collections::BTreeSet;
use tussle_advise::class::{self, Class, Judged, SAMPLES_MIN};
use tussle_contention::analysis::{self, Contention};
use tussle_contention::fields::Namer;
use tussle_contention::group::Group;
use tussle_evidence::Problem;
use tussle_evidence::*;
use tussle_render::{Cell, Column, Fact, Finding, Level, Node, Span, Tone, View, thousands};

/// Version of the `live` document.
pub const SCHEMA_VERSION: u32 = 1;

/// Groups shown in full, and in the table.
const DETAILS_MAX: usize = 12;
const ROWS_MAX: usize = 40;

/// Fewer samples than this on lines that no debug register confirmed are not listed: two threads that start up.
const LISTED_MIN: f64 = 10.0;

/// So many samples are enough to judge a line of one percent of them.
const ENOUGH: f64 = 100.0 * SAMPLES_MIN;

/// Longer than this nobody watches for one answer.
const LONGEST_S: f64 = 24.0 * 3_600.0;

/// Column of the table of lines where the processor tells of HITM.
const HITM_AT: usize = 3;

/// Rows of the table of rates.
const RATES_MAX: usize = 16;

/// What debug registers say of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// Two threads were caught on its lines, at least one of them storing.
    Yes,
    /// One thread was.
    Partly,
    /// Words were armed, nobody came.
    NotHit,
    /// Nothing was armed.
    NotWatched,
}

impl Confirmed {
    fn words(self) -> &'static str {
        match self {
            Confirmed::Yes => "yes",
            Confirmed::Partly => "one thread",
            Confirmed::NotHit => "armed, no hit",
            Confirmed::NotWatched => "not watched",
        }
    }
}

/// The lines of a group.
struct Lines<'e> {
    e: &'e Evidence,
    lines: BTreeSet<(u32, u64)>,
    bytes: u64,
}

impl<'e> Lines<'e> {
    fn new(e: &'e Evidence, g: &Group) -> Lines<'e> {
        let lines = g.lines.iter().map(|l| (l.process, l.address)).collect();
        Lines { e, lines, bytes: g.lines.first().map_or(64, |l| l.line.bytes()) }
    }

    fn hold(&self, object: u32, offset: u64) -> bool {
        let line = |o: &Object| (o.process, o.base.saturating_add(offset) / self.bytes * self.bytes);
        self.e.objects.get(object as usize).is_some_and(|o| self.lines.contains(&line(o)))
    }

    /// Rates measured there.
    fn rates(&self) -> Vec<&'e Rate> {
        self.e.rates.iter().flatten().filter(|r| self.hold(r.object, r.offset)).collect()
    }

    /// What the processor told of the loads there; `None` where a clock was sampled, which tells nothing of it.
    fn hitm(&self) -> Option<Hitm> {
        let mut out = (self.e.run.unit == Unit::PreciseSamples).then(Hitm::default)?;
        for s in self.e.samples.iter().flatten().filter(|s| self.hold(s.object, s.offset)) {
            out.loads += s.loads.unwrap_or(0);
            out.found += crate::pmu::contended(s).max(s.peer.unwrap_or(0));
            out.cycles += s.latency_cycles.unwrap_or(0);
        }
        Some(out)
    }
}

/// Loads that found their line in another core's cache.
#[derive(Clone, Copy, Debug, Default)]
struct Hitm {
    loads: u64,
    found: u64,
    cycles: u64,
}

impl Hitm {
    fn words(self) -> String {
        let (found, loads) = (thousands(self.found), thousands(self.loads));
        match self.cycles.checked_div(self.found) {
            Some(mean) => format!("{found} of {loads} loads, {} cycles each", thousands(mean)),
            None => format!("{found} of {loads} loads"),
        }
    }
}

fn confirmed(rates: &[&Rate]) -> Confirmed {
    let hit: Vec<&&Rate> = rates.iter().filter(|r| r.events > 0).collect();
    let actors: BTreeSet<Option<u32>> = hit.iter().map(|r| r.actor).collect();
    let stored = hit.iter().any(|r| r.of == RateOf::Writes);
    match (rates.is_empty(), actors.len()) {
        (true, _) => Confirmed::NotWatched,
        (_, 0) => Confirmed::NotHit,
        (_, n) if n >= 2 && stored => Confirmed::Yes,
        _ => Confirmed::Partly,
    }
}

const OF_A_CLOCK: &str = "Samples are taken where threads are, and threads wait at contended memory: shares lean to \
    what is slow. Rates are from times to the first hit of a debug register; what a layout gains is for \
    `tussle bench` to say.";
const PRECISE: &str = "Samples are loads and stores of which the processor told the address; HITM: loads that found \
    the line modified in another cache. Intel leaves fast loads out. Rates are from times to the first hit of a debug \
    register; what a layout gains is for `tussle bench` to say.";

struct Seen<'a> {
    judged: Judged<'a>,
    rates: Vec<&'a Rate>,
    confirmed: Confirmed,
    hitm: Option<Hitm>,
}

/// The report; ranks by samples.
pub fn report(e: &Evidence, problems: &[Problem], options: &Options) -> Report {
    let namer = Namer::new(e);
    let seen = analysis::contention(e, &options.question);
    let all = listed(e, &namer, &seen, options);
    let total = total(e);
    let helps = all.iter().any(|s| s.judged.class == Class::LayoutHelps);
    let outcome = Outcome { helps, listed: !all.is_empty(), blind: class::blind(e) };
    let mut nodes = vec![Node::Facts(facts(e, total, helps)), sentence(e, &all, total)];
    nodes.extend(few(e, total).map(|words| text(&words)));
    nodes.push(table(e, &all, total));
    let context = Context::new(e, &namer, seen.question);
    let sections = all.iter().zip(1..).take(DETAILS_MAX);
    let items = sections.map(|(s, rank)| section(&context, s, rank, total)).collect();
    nodes.push(Node::List { key: "live_lines".into(), items });
    nodes.push(dim(match e.run.unit {
        Unit::PreciseSamples => PRECISE,
        _ => OF_A_CLOCK,
    }));
    nodes.extend(loss_nodes(e, problems));
    let helped = all.iter().filter(|s| s.judged.class == Class::LayoutHelps);
    nodes.extend(helped.map(|s| Node::Finding(finding(s, total))));
    Report { view: View { kind: "live", schema_version: SCHEMA_VERSION, nodes }, outcome }
}

/// Groups worth showing, most samples first.
fn listed<'a>(e: &'a Evidence, namer: &Namer, seen: &'a Contention, options: &Options) -> Vec<Seen<'a>> {
    let with_rates = |judged: Judged<'a>| {
        let lines = Lines::new(e, &judged.group);
        let rates = lines.rates();
        Seen { confirmed: confirmed(&rates), rates, hitm: lines.hitm(), judged }
    };
    let mut all: Vec<Seen> = class::judge(e, namer, seen)
        .into_iter()
        .filter(|j| wanted(e, namer, &j.group, &options.names))
        .map(with_rates)
        .filter(|s| s.judged.group.accesses >= LISTED_MIN || s.confirmed == Confirmed::Yes)
        .collect();
    all.sort_by(|a, b| b.judged.group.accesses.total_cmp(&a.judged.group.accesses));
    all
}

/// All samples, those elsewhere included.
fn total(e: &Evidence) -> f64 {
    let kept: u64 = e.samples.iter().flatten().map(|s| s.records).sum();
    let elsewhere = e.losses.iter().filter(|l| l.what == ELSEWHERE).map(|l| l.count).sum::<u64>();
    (kept.saturating_add(elsewhere) as f64).max(1.0)
}

fn facts(e: &Evidence, total: f64, finding: bool) -> Vec<Fact> {
    let r = &e.run;
    let lasted = match r.duration_s {
        Some(s) => Cell::number(s, format!("{s:.1} s")),
        None => Cell::unknown(),
    };
    let all = total.round() as u64;
    let flags = r.flags.clone().unwrap_or_default();
    let unit = format!("{}; {}", r.unit, r.source);
    let mut facts = vec![
        fact("command", "command", Cell::text(r.command.join(" "))),
        fact("samples", "sampled", Cell::value(all, format!("{} accesses", thousands(all)))),
        fact("duration_s", "watched", lasted),
        crate::machine(r, "CPUs"),
        fact("sampling", "sampling", Cell::value(flags.clone(), flags.join(", "))),
        fact("unit", "numbers", Cell::value(unit.clone(), unit)),
    ];
    facts.extend(silent(e, finding, r.unit.to_string()));
    facts
}

fn sentence(e: &Evidence, all: &[Seen], total: f64) -> Node {
    let Some(first) = all.first() else {
        if let Some(why) = class::blind(e) {
            return text(&format!("Nothing can be said: {why}."));
        }
        let few = e.run.duration_s.is_some() && total < SAMPLES_MIN;
        let words = match few {
            true => {
                "Hardly a sample: the threads sleep. Put the program under load, or watch for longer (--duration)."
            }
            false => "No line that one thread stores to and another one touches has 10 samples or more.",
        };
        return text(words);
    };
    let count = |c: Class| all.iter().filter(|s| s.judged.class == c).count();
    let helps = count(Class::LayoutHelps);
    let tone = if helps > 0 { Tone::Bad } else { Tone::Plain };
    let lines = if helps == 1 { "fight" } else { "fights" };
    let share = names::percent(first.judged.group.accesses / total);
    Node::Text(vec![
        Span { text: format!("{helps} {lines} over a line that a layout ends"), tone },
        Span::plain(format!(
            ", {} listed in all; {share} of all sampled accesses are to the first.",
            all.len()
        )),
    ])
}

/// What cannot be judged where fewer samples than [`ENOUGH`] were taken, and how to get that many.
fn few(e: &Evidence, total: f64) -> Option<String> {
    if total >= ENOUGH || class::blind(e).is_some() {
        return None;
    }
    let judged = match total < SAMPLES_MIN {
        true => "a line is judged from 100 on, so none is".into(),
        false => {
            let share = names::percent(SAMPLES_MIN / total);
            format!("a line is judged from 100 on, so only one with {share} of them or more is")
        }
    };
    let longer = match e.run.duration_s.map(|s| (s * ENOUGH / total).ceil()) {
        Some(s) if s <= LONGEST_S => format!("--duration {s:.0}s, a higher --overhead, or more load"),
        _ => "a higher --overhead or more load".into(),
    };
    let sampled = thousands(total.round() as u64);
    Some(format!(
        "Only {sampled} sampled accesses: {judged}. What is below is not clean, it was not seen enough. For lines of \
         1%: {longer}."
    ))
}

fn table(e: &Evidence, all: &[Seen], total: f64) -> Node {
    let mut columns = vec![
        Column::number("rank", "#"),
        Column::number("samples", "samples"),
        Column::number("share", "share"),
        Column::text("class", "class"),
        Column::text("confirmed", "confirmed"),
        Column::number("lines", "lines"),
        Column::text("threads", "threads"),
        Column::text("fields", "fields"),
    ];
    if e.run.unit == Unit::PreciseSamples {
        columns.insert(HITM_AT, Column::number("hitm", "HITM"));
    }
    let row = |(s, rank): (&Seen, u64)| {
        let g = &s.judged.group;
        let share = g.accesses / total;
        let class = s.judged.class;
        let mut cells = vec![
            Cell::count(rank),
            Cell::count(g.accesses.round() as u64),
            Cell::number((share * 1e4).round() / 1e4, names::percent(share)),
            Cell::value(class.words(), class.short()).tone(class_tone(class)),
            Cell::text(s.confirmed.words()),
            Cell::count(g.lines.len() as u64),
            Cell::text(names::threads(e, &g.fighters())),
            Cell::text(g.title()).tone(Tone::Name),
        ];
        s.hitm.iter().for_each(|h| cells.insert(HITM_AT, Cell::count(h.found)));
        cells
    };
    Node::Table { key: "lines".into(), columns, rows: all.iter().zip(1..).take(ROWS_MAX).map(row).collect() }
}

fn section(context: &Context, s: &Seen, rank: u64, total: f64) -> Node {
    let g = &s.judged.group;
    let class = s.judged.class;
    let small = match class {
        Class::Small => format!("fewer than {SAMPLES_MIN} samples: watch for longer, or under more load"),
        _ => class.remedy().into(),
    };
    let share = names::percent(g.accesses / total);
    let samples = format!("{}, {share} of all", thousands(g.accesses.round() as u64));
    let first = g.lines.first().map_or(0, |l| l.address);
    let mut facts = vec![
        fact(
            "class",
            "class",
            Cell::value(class.words(), format!("{}: {small}", class.words())).tone(Tone::Strong),
        ),
        fact("samples", "samples", Cell::value(g.accesses.round() as u64, samples)),
        fact("sharing", "sharing", crate::line::sharing(g)),
        fact("confirmed", "confirmed", Cell::text(s.confirmed.words())),
        fact("threads", "threads", Cell::text(names::threads(context.e, &g.fighters()))),
        fact("address", "line", Cell::value(first, format!("0x{first:x}"))),
    ];
    facts.extend(s.hitm.map(|h| fact("hitm", "HITM", Cell::value(h.found, h.words()))));
    facts.extend(context.process(g));
    facts.extend(context.object(g));
    let mut nodes = vec![Node::Facts(facts)];
    nodes.extend(context.drawing(g, None).map(|b| Node::Bytes(Box::new(b))));
    nodes.push(context.fields(g));
    nodes.extend(rate_table(context, s));
    nodes.extend(context.code(g));
    Node::Section { key: format!("line_{rank}"), title: format!("#{rank}  {}", g.title()), nodes }
}

/// Who touches which word, how often, as far as debug registers told.
fn rate_table(context: &Context, s: &Seen) -> Option<Node> {
    if s.rates.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("field", "word of"),
        Column::text("thread", "thread"),
        Column::text("of", "what"),
        Column::number("per_s", "per CPU second"),
        Column::number("events", "hits"),
        Column::text("place", "code"),
    ];
    let mut sorted = s.rates.clone();
    sorted.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then_with(|| a.offset.cmp(&b.offset)));
    let row = |r: &&Rate| {
        let what = match r.of {
            RateOf::Writes => "stores",
            RateOf::Reads => "loads",
            RateOf::Rmws => "atomics",
            RateOf::Accesses => "loads and stores",
            RateOf::Conflicts => "conflicts",
        };
        vec![
            Cell::text(field(context, r)).tone(Tone::Name),
            Cell::text(r.actor.map_or("unknown".into(), |a| names::threads(context.e, &[a]))),
            Cell::text(what),
            per_second(r),
            Cell::count(r.events),
            Cell::text(
                r.code.map_or(String::new(), |c| names::short_path(&names::place(context.e, c)).into()),
            ),
        ]
    };
    Some(Node::Table { key: "rates".into(), columns, rows: sorted.iter().take(RATES_MAX).map(row).collect() })
}

fn field(context: &Context, r: &Rate) -> String {
    let Some(o) = context.e.objects.get(r.object as usize) else { return "unknown".into() };
    match o.ty.is_some() || o.name.is_some() {
        true => context.namer.name(r.object, r.offset, u64::from(r.size)).path,
        false => format!("0x{:x}", o.base.saturating_add(r.offset)),
    }
}

fn per_second(r: &Rate) -> Cell {
    let words = match (r.events, r.high_per_s) {
        (0, Some(high)) => format!("below {}", rounded(high)),
        (_, None) => format!("at least {}", rounded(r.per_s)),
        (_, Some(_)) => rounded(r.per_s),
    };
    Cell::number(r.per_s, words)
}

/// Two digits: a rate has no more.
fn rounded(per_s: f64) -> String {
    let n = per_s.max(0.0);
    let step = 10f64.powf((n.max(1.0).log10().floor() - 1.0).max(0.0));
    thousands(((n / step).round() * step) as u64)
}

fn finding(s: &Seen, total: f64) -> Finding {
    let g = &s.judged.group;
    let share = names::percent(g.accesses / total);
    let message = format!("{}: threads fight over a line with {share} of all sampled accesses", g.title());
    Finding {
        rule: "false-sharing".into(),
        level: Level::Warning,
        message,
        file: None,
        line: None,
        ..Finding::default()
    }
}

/// Two runs side by side: what stood on contended lines.
pub fn compare(first: &Evidence, second: &Evidence, options: &Options) -> Report {
    let shares = |e: &Evidence| -> Vec<(String, f64)> {
        let namer = Namer::new(e);
        let seen = analysis::contention(e, &options.question);
        let total = total(e);
        listed(e, &namer, &seen, options)
            .iter()
            .map(|s| (s.judged.group.title(), s.judged.group.accesses / total))
            .collect()
    };
    let (a, b) = (shares(first), shares(second));
    let mut fields: Vec<&String> = a.iter().chain(&b).map(|x| &x.0).collect();
    let mut known = BTreeSet::new();
    fields.retain(|f| known.insert(f.as_str()));
    let of = |list: &[(String, f64)], f: &String| list.iter().find(|x| x.0 == *f).map(|x| x.1);
    let cell = |v: Option<f64>| {
        v.map_or(Cell::value(serde_json::Value::Null, "-"), |s| Cell::number(s, names::percent(s)))
    };
    let row = |f: &&String| vec![cell(of(&a, f)), cell(of(&b, f)), Cell::text(f.as_str()).tone(Tone::Name)];
    let columns = vec![
        Column::number("old_share", "share old"),
        Column::number("new_share", "share new"),
        Column::text("fields", "fields"),
    ];
    let outcome = report(second, &[], options).outcome;
    let rows = fields.iter().map(row).collect();
    let mut nodes = vec![Node::Table { key: "lines".into(), columns, rows }];
    let other = first.run.unit != second.run.unit;
    nodes.push(match other {
        true => text(&format!(
            "The old shares are of {}, the new ones of {}: they cannot be compared.",
            first.run.unit, second.run.unit
        )),
        false => dim("Shares of all samples; runs under different load are not comparable."),
    });
    Report { view: View { kind: "live_comparison", schema_version: SCHEMA_VERSION, nodes }, outcome }
}
