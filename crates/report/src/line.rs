//! One group of lines in full.

use crate::by_object::ByObject;
use crate::declared;
use crate::latent::Hidden;
use crate::narrowest::Ranges;
use crate::{count, dim, fact, invalidations, names};
use serde_json::json;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use tussle_advise::class::Judged;
use tussle_advise::lines::ByLine;
use tussle_contention::analysis::{HiddenBy, Question};
use tussle_contention::fields::Namer;
use tussle_contention::group::{FieldUse, Group};
use tussle_evidence::*;
use tussle_model::Placement;
use tussle_render::{Cell, Column, Fact, Finding, Level, Node, Tone, offset, thousands};

/// Rows of each table of a section.
const FIELDS_MAX: usize = 16;
const PAIRS_MAX: usize = 6;
const CODE_MAX: usize = 12;

/// What sections are made from.
pub(super) struct Context<'a> {
    pub(super) e: &'a Evidence,
    pub(super) namer: &'a Namer<'a>,
    pub(super) question: Question,
    pub(super) by_line: Option<ByLine>,
    pub(super) touches: ByObject<'a, Touch>,
    pub(super) accesses: OnceCell<ByObject<'a, Access>>,
}

impl<'a> Context<'a> {
    /// Without lines of other sizes.
    pub(super) fn new(e: &'a Evidence, namer: &'a Namer<'a>, question: Question) -> Context<'a> {
        let (by_line, accesses) = (None, OnceCell::new());
        Context { e, namer, question, by_line, touches: ByObject::new(&e.touches), accesses }
    }

    /// A group with its class and what to do.
    pub(super) fn judged(&self, j: &Judged, number: usize) -> Node {
        let Node::Section { key, title, mut nodes } = self.section(&j.group, number) else {
            return Node::Facts(Vec::new());
        };
        let words = format!("{}: {}", j.class.words(), j.remedy(self.e));
        if let Some(Node::Facts(facts)) = nodes.first_mut() {
            facts.insert(0, fact("class", "class", Cell::value(j.class.words(), words).tone(Tone::Strong)));
            facts.extend(self.on_lines(&j.group));
        }
        Node::Section { key, title, nodes }
    }

    /// What a group is on lines of other sizes.
    pub(super) fn on_lines(&self, g: &Group) -> Option<Fact> {
        self.by_line.as_ref().map(|b| crate::lines::verdicts(&b.verdicts(&g.lines)))
    }

    /// Everything about one group; `number` is its row in the table, 0 for latent ones.
    pub(super) fn section(&self, g: &Group, number: usize) -> Node {
        let title = match number {
            0 => g.title(),
            n => format!("#{n}  {}", g.title()),
        };
        let mut nodes = Vec::new();
        nodes.push(Node::Facts(self.facts(g, number)));
        nodes.extend(self.drawing(g, None).map(|b| Node::Bytes(Box::new(b))));
        nodes.push(self.fields(g));
        nodes.extend(self.pairs(g));
        nodes.extend(self.code(g));
        Node::Section { key: "line".into(), title, nodes }
    }

    /// What fails the check, in one sentence.
    pub(super) fn finding(&self, g: &Group) -> Finding {
        let line = g.lines.first().map_or(64, |l| l.line.bytes());
        let pair = g.worst_pair();
        let across = pair.is_some_and(|pair| g.across(pair));
        let what = match pair.map(|(a, b)| (&g.fields[a], &g.fields[b])) {
            Some((a, b)) if a.path == b.path => {
                format!("different elements' `{}` share {line}-byte lines", a.path)
            }
            // Of two fields only elements are different ones.
            Some((a, b)) if across && a.path.contains('[') && b.path.contains('[') => {
                format!("different elements' `{}` and `{}` share {line}-byte lines", a.path, b.path)
            }
            Some((a, b)) => format!("`{}` and `{}` share a {line}-byte line", a.path, b.path),
            None => format!("`{}` shares {line}-byte lines", g.title()),
        };
        let e = thousands(g.cost.total().round().max(0.0) as u64);
        let share = names::percent(g.cost.removable_share());
        let (file, line) = declared::place(self.e, &self.touches, g);
        let message =
            format!("{what}: {e} expected invalidations and copies lost, the best layout removes {share}");
        let (rule, level) = ("false-sharing".into(), Level::Error);
        Finding { rule, level, message, file, line, ..Finding::default() }
    }

    /// A case that only this run's allocator or stack hid, or this build's linker.
    pub(super) fn lucky(&self, h: &Hidden) -> Finding {
        let mut finding = self.finding(&h.group);
        let message = &mut finding.message;
        match h.by {
            HiddenBy::Phase { observed, worst, .. } => message.push_str(&format!(
                ", where the allocator puts it {worst} bytes into a line, not {observed} as in this run"
            )),
            HiddenBy::Link { .. } => {
                message.push_str(", where the linker puts them on one, not as in this build")
            }
            HiddenBy::Stack { .. } => {
                message.push_str(", where the system puts the stack elsewhere than in this run")
            }
            HiddenBy::LineSize => {}
        }
        finding
    }

    fn facts(&self, g: &Group, number: usize) -> Vec<Fact> {
        let share = g.e.e / g.accesses.max(1.0);
        let e = invalidations(g.e.e);
        let words = format!(
            "{} expected invalidations, {} of {} accesses",
            e.text,
            names::percent(share),
            thousands(g.accesses.round().max(0.0) as u64)
        );
        let silent = |key: &str, value: serde_json::Value| fact(key, "", Cell::value(value, ""));
        let mut facts = vec![
            silent("rank", if number > 0 { number.into() } else { serde_json::Value::Null }),
            fact("expected_invalidations", "E", Cell { text: words, ..e }.tone(Tone::Strong)),
            fact("expected_invalidations_even_split", "even split", even(g)),
            fact("expected_invalidations_whole_run", "whole run", whole_run(g)),
            silent("accesses", (g.accesses.round().max(0.0) as u64).into()),
            fact("transfers", "transfers", cost(g)),
            fact("sharing", "sharing", sharing(g)),
            fact("handoffs", "", Cell::count(g.e.handoffs)),
            fact("threads", "threads", Cell::text(names::threads(self.e, &g.fighters()))),
        ];
        if g.e.e_whole_run <= 2.0 * g.e.e {
            facts[3].label = String::new();
        }
        facts.extend(self.split_words(g));
        facts.extend(self.process(g));
        facts.extend(self.object(g));
        facts
    }

    /// Whose counts are an estimate: fields that one thread uses and that lie in one word.
    fn split_words(&self, g: &Group) -> Option<Fact> {
        let words = |f: &FieldUse| {
            let from = self.e.objects.get(f.object as usize).map_or(0, |o| o.base) + f.offset;
            from / 8..(from + f.size).div_ceil(8)
        };
        let beside = |f: &&FieldUse| {
            let own = words(f);
            g.fields.iter().any(|other| {
                let others = words(other);
                f.path != other.path
                    && own.start < others.end
                    && others.start < own.end
                    && f.actors.keys().any(|a| other.actors.contains_key(a))
            })
        };
        let split: Vec<&str> = g.fields.iter().filter(beside).map(|f| &*f.path).collect();
        let told = !self.e.run.sees.word_parts && !split.is_empty();
        told.then(|| {
            let words = format!(
                "the counts of {}: they lie in one word of 8 bytes, which is counted as a whole and divided by samples",
                split.join(", ")
            );
            fact("estimated_fields", "estimate", Cell::value(split, words))
        })
    }

    /// Which process, where there are several.
    pub(super) fn process(&self, g: &Group) -> Option<Fact> {
        let p = self.e.processes.get(g.lines.first()?.process as usize)?;
        let label = if self.e.processes.len() > 1 { "process" } else { "" };
        Some(fact("pid", label, Cell::value(p.pid, format!("{} (pid {})", p.exe, p.pid))))
    }

    /// Which memory it is, how sure that is, where it came from, where in a line it began.
    pub(super) fn object(&self, g: &Group) -> Vec<Fact> {
        let ids = g.objects();
        let mut facts = Vec::new();
        let first = ids.iter().find(|i| g.fields.first().is_some_and(|f| f.object == **i)).or(ids.first());
        let Some(o) = first.and_then(|i| self.e.objects.get(*i as usize)) else { return facts };
        let ty = o.ty.map(|t| self.e.types.name(t));
        let root = self.namer.root(o);
        let what = match (&ty, o.count) {
            (Some(t), n) if n > 1 => format!("{} elements of {t}, {} bytes", thousands(n), thousands(o.size)),
            (Some(t), _) if *t != root => format!("{root}: {t}, {} bytes", thousands(o.size)),
            _ => format!("{root}, {} bytes", thousands(o.size)),
        };
        let others = ids.len().saturating_sub(1);
        let what = match others {
            0 => what,
            n => format!("{what}; and {n} other object{} on the same lines", if n == 1 { "" } else { "s" }),
        };
        facts.push(fact("object", "object", Cell::text(what)));
        let silent = |key: &str, value: serde_json::Value| fact(key, "", Cell::value(value, ""));
        facts.push(silent("type", ty.clone().into()));
        facts.push(silent(
            "type_confidence",
            json!(ty.is_some().then(|| (f64::from(o.confidence) * 1e3).round() / 1e3)),
        ));
        let known = match (&ty, o.confidence) {
            (None, _) => Cell::value(serde_json::Value::Null, "unknown").tone(Tone::Warn),
            (Some(_), c) if c >= 0.99 => Cell::value(o.why.clone(), format!("certain: {}", o.why)),
            (Some(_), c) => {
                let words = format!("{} certain: {}", names::percent(f64::from(c)), o.why);
                Cell::value(o.why.clone(), words).tone(Tone::Warn)
            }
        };
        facts.push(fact("type_why", "type", known));
        let live =
            if o.live_max > 1 { format!("; at most {} alive", thousands(o.live_max)) } else { String::new() };
        let origin = names::origin(self.e, o);
        facts.push(fact("origin", "from", Cell::value(origin.clone(), origin + &live)));
        facts.push(silent("live_max", o.live_max.into()));
        facts.push(self.phase(g, o));
        facts
    }

    fn phase(&self, g: &Group, o: &Object) -> Fact {
        let line = self.question.line;
        if !self.e.run.sees.phases {
            return fact("phase_bytes", "phase", Cell::unknown());
        }
        let phase = line.offset(o.base);
        let possible = Placement::aligned(o.align).phases(line).len();
        let words = match possible {
            1 => format!("{}: always, its alignment is {} bytes", offset(phase), o.align),
            n => format!(
                "{} in its line{}; alignment {} allows {n} phases",
                offset(phase),
                self.other_phases(g, o, phase),
                if o.align == 1 { "of 1 byte".into() } else { format!("of {} bytes", o.align) }
            ),
        };
        fact("phase_bytes", "phase", Cell::value(phase, words))
    }

    /// Where in their lines the group's other objects of this kind begin, if elsewhere.
    fn other_phases(&self, g: &Group, o: &Object, phase: u64) -> String {
        let root = self.namer.root(o);
        let others = g.objects().into_iter().filter_map(|i| self.e.objects.get(i as usize));
        let mut phases: Vec<u64> = others
            .filter(|other| other.count == 1 && self.namer.root(other) == root)
            .map(|other| self.question.line.offset(other.base))
            .filter(|p| *p != phase)
            .collect();
        phases.sort_unstable();
        phases.dedup();
        let words: Vec<String> = phases.into_iter().map(offset).collect();
        if words.is_empty() { String::new() } else { format!(", others at {}", words.join(", ")) }
    }

    pub(super) fn fields(&self, g: &Group) -> Node {
        let columns = vec![
            Column::text("field", "field"),
            Column::number("offset_bytes", "offset"),
            Column::text("threads", "threads"),
            Column::number("reads", "reads"),
            Column::number("writes", "writes"),
            Column::number("atomics", "atomics"),
        ];
        let row = |f: &FieldUse| {
            let many = |c: &tussle_contention::analysis::Counts| c.total() >= 0.001 * f.counts.total();
            let ids: Vec<u32> = f.actors.iter().filter(|(_, c)| many(c)).map(|(a, _)| *a).collect();
            let name = match f.elements {
                Some((low, high)) if low != high => format!("{}  {low}..{high}", f.path),
                Some((low, _)) => format!("{}  {low}", f.path),
                None => f.path.clone(),
            };
            vec![
                Cell::value(f.path.clone(), name).tone(Tone::Name),
                Cell::value(f.offset, offset(f.offset)),
                Cell::text(names::threads(self.e, &ids)),
                zero_as_dot(f.counts.reads),
                zero_as_dot(f.counts.writes),
                zero_as_dot(f.counts.rmws),
            ]
        };
        Node::Table {
            key: "fields".into(),
            columns,
            rows: g.fields.iter().take(FIELDS_MAX).map(row).collect(),
        }
    }

    fn pairs(&self, g: &Group) -> Option<Node> {
        if g.pairs.len() < 2 && g.fields.len() < 2 {
            return None;
        }
        let columns = vec![
            Column::number("expected_invalidations", "E"),
            Column::number("share", "share"),
            Column::text("stores_to", "stores to"),
            Column::text("take_the_line_from", "take the line from users of"),
            Column::text("bytes", "bytes"),
        ];
        let row = |p: &tussle_contention::group::FieldPair| {
            let share = p.e / g.e.e.max(f64::MIN_POSITIVE);
            vec![
                invalidations(p.e),
                Cell::number(share, names::percent(share)),
                Cell::text(&g.fields[p.stored].path).tone(Tone::Name),
                Cell::text(&g.fields[p.lost].path).tone(Tone::Name),
                Cell::text(if p.same_bytes { "same" } else { "other" }),
            ]
        };
        Some(Node::Table {
            key: "pairs".into(),
            columns,
            rows: g.pairs.iter().take(PAIRS_MAX).map(row).collect(),
        })
    }

    /// Code that touches the group's fields, most seen first.
    pub(super) fn code(&self, g: &Group) -> Vec<Node> {
        let mut ranges: BTreeMap<u32, Ranges> = BTreeMap::new();
        let mut fields: HashMap<&str, usize> = HashMap::new();
        for (n, f) in g.fields.iter().enumerate() {
            fields.entry(&f.path).or_insert(n);
        }
        for p in g.lines.iter().flat_map(|line| &line.parts) {
            let width = u64::from(p.range.size);
            let name = self.namer.name(p.range.object, p.range.offset, width).path;
            if let Some(f) = fields.get(&*name) {
                ranges.entry(p.range.object).or_default().add(p.range.offset, width, *f);
            }
        }
        // By number first: there are far fewer places than touches, and names are long.
        let mut counts: BTreeMap<(u32, &str, usize), u64> = BTreeMap::new();
        let touches = ranges.iter().flat_map(|(&object, of)| {
            self.touches.among(object, |blocks| of.in_blocks(blocks)).map(move |t| (t, of))
        });
        for (t, ranges) in touches {
            let end = t.offset.saturating_add(u64::from(t.size));
            let Some(f) = ranges.of(t.offset, end) else { continue };
            let kind = match t.kind {
                TouchKind::Read => "reads",
                TouchKind::Write => "writes",
                TouchKind::Rmw => "atomic",
            };
            *counts.entry((t.code, kind, f)).or_default() += t.samples.max(1);
        }
        let mut rows: BTreeMap<(String, Vec<String>, &str, usize), u64> = BTreeMap::new();
        for ((code, kind, f), samples) in counts {
            let key = (names::place(self.e, code), names::stack(self.e, code), kind, f);
            *rows.entry(key).or_default() += samples;
        }
        self.code_table(g, rows)
    }

    fn code_table(&self, g: &Group, rows: BTreeMap<(String, Vec<String>, &str, usize), u64>) -> Vec<Node> {
        if rows.is_empty() {
            return Vec::new();
        }
        let total = rows.len();
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|((place, _, _, field), n)| (*field, std::cmp::Reverse(*n), place.clone()));
        let columns = vec![
            Column::text("kind", ""),
            Column::text("field", "field"),
            Column::text("place", "code"),
            Column::text("stack", "function \u{2190} callers"),
            Column::number("samples", "samples"),
        ];
        let row = |((place, stack, kind, field), samples): ((String, Vec<String>, &str, usize), u64)| {
            let shown: Vec<&str> = stack.iter().take(5).map(String::as_str).collect();
            vec![
                Cell::text(kind),
                Cell::text(&g.fields[field].path).tone(Tone::Name),
                Cell::value(place.clone(), names::short_path(&place)),
                Cell::value(stack.clone(), shown.join(" \u{2190} ")),
                Cell::count(samples),
            ]
        };
        let rows: Vec<Vec<Cell>> = rows.into_iter().take(CODE_MAX).map(row).collect();
        let mut nodes = vec![Node::Table { key: "code".into(), columns, rows }];
        if total > CODE_MAX {
            nodes.push(dim(format!("{} further code lines", total - CODE_MAX)));
        }
        nodes
    }
}

fn zero_as_dot(n: f64) -> Cell {
    let c = count(n);
    if n == 0.0 { Cell { text: "\u{b7}".into(), ..c }.tone(Tone::Dim) } else { c }
}

fn even(g: &Group) -> Cell {
    let c = invalidations(g.e.e_even);
    let words = match (g.e.e_even - g.e.e).abs() <= 0.05 * g.e.e {
        true => format!("{}: the same, the threads did equal shares", c.text),
        false => format!("{} if threads of one kind did equal shares", c.text),
    };
    Cell { text: words, ..c }
}

/// The cost by which a group is classed.
fn cost(g: &Group) -> Cell {
    let n = |x: f64| thousands(x.round().max(0.0) as u64);
    let c = &g.cost;
    let words = format!(
        "{}: {} stores that find the line elsewhere, {} copies lost; with every byte range on a line of its own {}",
        n(c.total()),
        n(c.now.stores),
        n(c.now.copies),
        n(c.apart)
    );
    let whole = |x: f64| json!(x.round());
    let value =
        json!({ "stores": whole(c.now.stores), "copies": whole(c.now.copies), "apart": whole(c.apart) });
    Cell::value(value, words)
}

fn whole_run(g: &Group) -> Cell {
    let c = invalidations(g.e.e_whole_run);
    let words = format!("{} if all had happened at once; {} hand-offs", c.text, thousands(g.e.handoffs));
    Cell { text: words, ..c }
}

/// Shares as text and as an object of three numbers.
pub(super) fn sharing(g: &Group) -> Cell {
    let all = (g.e.e_true + g.e.e_false + g.e.e_mixed).max(f64::MIN_POSITIVE);
    let (t, f, m) = (g.e.e_true / all, g.e.e_false / all, g.e.e_mixed / all);
    let words: Vec<String> = [
        (f, "false (no byte in common)"),
        (m, "mixed (some bytes in common)"),
        (t, "true (bytes that both use)"),
    ]
    .iter()
    .filter(|(share, _)| *share >= 0.0005)
    .map(|(share, word)| format!("{} {word}", names::percent(*share)))
    .collect();
    let round = |x: f64| (x * 1e4).round() / 1e4;
    Cell::value(json!({ "false": round(f), "mixed": round(m), "true": round(t) }), words.join(", "))
}
