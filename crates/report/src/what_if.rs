//! The ordered log replayed with fields elsewhere: transfers in a model before and after, field by field.

use crate::{Options, SCHEMA_VERSION, dim, fact, object_matches, text};
use std::collections::{BTreeMap, HashMap};
use tussle_advise::elsewhere::Elsewhere;
use tussle_advise::turns::{AtTurn, Envelope};
use tussle_contention::fields::Namer;
use tussle_contention::replay::{self, Moved, Spot};
use tussle_evidence::*;
use tussle_render::{Cell, Column, Node, Tone, View, thousands};

/// Rows of the table.
const ROWS_MAX: usize = 40;

/// The table, or `None` when the evidence has no ordered log. `envelope` is the same change at every length of a turn.
pub fn what_if(e: &Evidence, options: &Options, other: &dyn Elsewhere, envelope: &Envelope) -> Option<View> {
    let line = options.question.line.bytes();
    let here = replay::recorded(e);
    let in_place = replay::replay(e, line, &here)?;
    // What the other layout has not is counted on neither side: else leaving a field out would look like a gain.
    let (before, gone): (BTreeMap<Spot, Moved>, BTreeMap<Spot, Moved>) =
        in_place.iter().map(|(s, m)| (*s, *m)).partition(|(s, _)| other.address(s.0, s.1).is_some());
    let there = |o: u32, at: u64| other.address(o, at);
    let after = replay::replay(e, line, &there)?;
    let namer = Namer::new(e);
    let sizes: HashMap<Spot, u32> =
        e.order.iter().flatten().flat_map(|t| &t.visits).map(|v| ((v.0, v.1), v.2)).collect();
    let size = |spot: &Spot| u64::from(sizes.get(spot).copied().unwrap_or(1));
    let shown = |spot: &Spot| {
        let o = e.objects.get(spot.0 as usize);
        o.is_some_and(|o| {
            options.names.is_empty() || options.names.iter().any(|n| object_matches(e, &namer, o, n))
        })
    };
    let mut fields: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (i, moved) in [&before, &after].into_iter().enumerate() {
        for (spot, m) in moved.iter().filter(|(s, _)| shown(s)) {
            fields.entry(namer.name(spot.0, spot.1, size(spot)).path).or_default()[i] += m.all();
        }
    }
    let reached = reached(e, other, &before, &after);
    let mut facts = facts(e, other, line, [&before, &after], reached);
    facts.extend(turns(envelope));
    let mut nodes = vec![Node::Facts(facts)];
    if line == u64::from(e.run.line_bytes) {
        nodes.extend(check(e, &in_place));
    }
    nodes.push(table(fields));
    if !gone.is_empty() {
        let lost: u64 = gone.values().map(Moved::all).sum();
        nodes.push(dim(format!(
            "{} places with {} transfers have no field in the other layout and are left out of both sides.",
            thousands(gone.len() as u64),
            thousands(lost)
        )));
    }
    nodes.push(dim(
        "Transfers in a model, in the recorded order of accesses: infinite caches, CPUs in turns, the same accesses \
         whatever the layout. No speed; `tussle predict` is about that. Only objects in the log are counted.",
    ));
    Some(View { kind: "what_if", schema_version: SCHEMA_VERSION, nodes })
}

/// Transfers of the objects that the change reaches.
fn reached(
    e: &Evidence,
    other: &dyn Elsewhere,
    before: &BTreeMap<Spot, Moved>,
    after: &BTreeMap<Spot, Moved>,
) -> [u64; 2] {
    let sum = |all: &BTreeMap<Spot, Moved>| {
        let of = |s: &Spot| e.objects.get(s.0 as usize).is_some_and(|o| other.reaches(o));
        all.iter().filter(|(s, _)| of(s)).map(|(_, m)| m.all()).sum()
    };
    [sum(before), sum(after)]
}

fn facts(
    e: &Evidence,
    other: &dyn Elsewhere,
    line: u64,
    [before, after]: [&BTreeMap<Spot, Moved>; 2],
    reached: [u64; 2],
) -> Vec<tussle_render::Fact> {
    let sum = |all: &BTreeMap<Spot, Moved>| all.values().map(Moved::all).sum::<u64>();
    let pair = |key: &str, label: &str, [a, b]: [u64; 2]| {
        let text = format!("{} before, {} after ({})", thousands(a), thousands(b), change(a, b));
        fact(key, label, Cell::value(serde_json::json!({ "before": a, "after": b }), text))
    };
    let recorded: u64 = e.transfers.iter().flatten().map(|t| t.transfers).sum();
    let logged: u64 = replay::counted(e).values().map(Moved::all).sum();
    let visits: usize = e.order.iter().flatten().map(|t| t.visits.len()).sum();
    vec![
        fact("command", "command", Cell::text(e.run.command.join(" "))),
        fact("change", "what if", Cell::text(other.words())),
        fact(
            "log",
            "replayed",
            Cell::value(
                visits,
                format!(
                    "{} accesses, lines of {line} bytes; the log is about {} of {} recorded transfers",
                    thousands(visits as u64),
                    thousands(logged),
                    thousands(recorded)
                ),
            ),
        ),
        pair("reached", "of what changes", reached),
        pair("transfers", "all in the log", [sum(before), sum(after)]),
        fact("unit", "numbers", Cell::text("transfers in a model, in the recorded order")),
    ]
}

/// The change at every length of a turn, and whether it has a sign.
fn turns(envelope: &Envelope) -> Vec<tussle_render::Fact> {
    let length = |t: &AtTurn| t.turn_instructions.map_or("unknown".into(), thousands);
    let said = |t: &AtTurn| match t.reached {
        Some([a, b]) => format!("{} instructions: {}", length(t), change(a, b)),
        None => format!("{} instructions: not in that log", length(t)),
    };
    let value = |t: &AtTurn| {
        serde_json::json!({ "turn_instructions": t.turn_instructions, "before": t.reached.map(|r| r[0]),
                            "after": t.reached.map(|r| r[1]) })
    };
    let all: Vec<_> = envelope.0.iter().map(value).collect();
    let text = envelope.0.iter().map(said).collect::<Vec<_>>().join(", ");
    let sign = envelope.sign();
    vec![
        fact("turns", "by turn length", Cell::value(all, text)),
        fact("sign", "sign", Cell::value(sign.key(), sign.words())),
    ]
}

/// The log in place must give what the recording counted.
fn check(e: &Evidence, before: &BTreeMap<Spot, Moved>) -> [Node; 2] {
    let counted = replay::counted(e);
    let (replayed, recorded): (u64, u64) =
        (before.values().map(Moved::all).sum(), counted.values().map(Moved::all).sum());
    let other = |spot: &Spot, m: &Moved| counted.get(spot).copied().unwrap_or_default() != *m;
    let differ = before.iter().filter(|(spot, m)| other(spot, m)).count()
        + counted.keys().filter(|spot| !before.contains_key(spot)).count();
    let said = match differ {
        0 => {
            dim(format!("Replayed in place: {} transfers, place by place as recorded.", thousands(replayed)))
        }
        n => text(format!(
            "Replayed in place: {} transfers where {} were recorded ({n} places differ): take the difference below \
             with that error",
            thousands(replayed),
            thousands(recorded)
        )),
    };
    [said, Node::Data { key: "places_that_differ".into(), value: differ.into() }]
}

fn change(a: u64, b: u64) -> String {
    match a {
        _ if a == b => "same".into(),
        0 => "new".into(),
        _ => format!("{:+.1}%", 100.0 * (b as f64 - a as f64) / a as f64),
    }
}

fn table(fields: BTreeMap<String, [u64; 2]>) -> Node {
    let mut rows: Vec<(String, [u64; 2])> = fields.into_iter().filter(|(_, n)| n[0] + n[1] > 0).collect();
    let weight = |[a, b]: [u64; 2]| (a.abs_diff(b), a.max(b));
    rows.sort_unstable_by(|x, y| weight(y.1).cmp(&weight(x.1)).then_with(|| x.0.cmp(&y.0)));
    let row = |(path, [a, b]): &(String, [u64; 2])| {
        let tone = match a.cmp(b) {
            std::cmp::Ordering::Less => Tone::Bad,
            std::cmp::Ordering::Equal => Tone::Plain,
            std::cmp::Ordering::Greater => Tone::Good,
        };
        vec![
            Cell::text(path.as_str()).tone(Tone::Name),
            Cell::count(*a),
            Cell::count(*b),
            Cell::value(*b as i64 - *a as i64, change(*a, *b)).tone(tone),
        ]
    };
    let columns = vec![
        Column::text("field", "field"),
        Column::number("before", "before"),
        Column::number("after", "after"),
        Column::number("difference", "change"),
    ];
    Node::Table { key: "fields".into(), columns, rows: rows.iter().take(ROWS_MAX).map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use tussle_advise::turns;
    use tussle_evidence::sample::Sample;
    use tussle_render::{Format, Style, render};

    /// Two CPUs that take turns with two counters on one line; what a recording counts is the replay in place.
    fn evidence(records: u64) -> Evidence {
        let mut s = Sample::two_counters();
        let e = s.tables();
        e.run.source = Source::KernelRecorder;
        e.objects[0].base = 0x1000;
        let turn =
            |actor, offset| Turn { actor, visits: vec![(0, offset, 8, TouchKind::Write)], schedule: None };
        e.order = Some((0..5).flat_map(|_| [turn(1, 0), turn(2, 8)]).collect());
        let row = |offset, transfers| Transfer {
            object: 0,
            offset,
            size: 8,
            code: None,
            actor: None,
            kind: TouchKind::Write,
            transfers,
            dirty: transfers,
            schedule: None,
        };
        e.transfers = Some(vec![row(0, 4), row(8, records)]);
        s.evidence()
    }

    struct Asked<'a>(&'a dyn Fn(u32, u64) -> Option<u64>);

    impl Elsewhere for Asked<'_> {
        fn words(&self) -> String {
            "struct stats: move misses away".into()
        }

        fn address(&self, id: u32, offset: u64) -> Option<u64> {
            (self.0)(id, offset)
        }

        fn reaches(&self, _object: &Object) -> bool {
            true
        }
    }

    fn ask(e: &Evidence, address: &dyn Fn(u32, u64) -> Option<u64>) -> Option<View> {
        let asked = Asked(address);
        let envelope = Envelope::new(e, |e| turns::reached(e, 64, &asked));
        what_if(e, &Options::default(), &asked, &envelope)
    }

    /// The second half of the turns gains nothing by what the first gains all by.
    #[test]
    fn a_sign_that_turns_is_none() {
        let at = |turn_instructions, turns: &[(u32, u64)]| {
            let mut e = evidence(5);
            let turn = |(actor, offset): &(u32, u64)| Turn {
                actor: *actor,
                visits: vec![(0, *offset, 8, TouchKind::Write)],
                schedule: None,
            };
            e.order = Some(turns.iter().map(turn).collect());
            e.schedules = Some(vec![Schedule { turn_instructions, feedback_instructions: None, seed: None }]);
            e
        };
        let away = |_: u32, at: u64| Some(0x1000 + 8 * at);
        let mut e = at(1000, &[(1, 0), (2, 8), (1, 0), (2, 8)]);
        let one = render(&ask(&e, &away).unwrap(), Format::Text, Style { colour: false, width: None });
        assert!(one.contains("not decided: one turn length only"), "{one}");
        // Each takes both: together they cost one transfer a turn, apart two.
        e.others = vec![at(100, &[(1, 0), (1, 8), (2, 0), (2, 8), (1, 0), (1, 8)])];
        let view = ask(&e, &away).unwrap();
        let text = render(&view, Format::Text, Style { colour: false, width: None });
        assert!(text.contains("100 instructions: +100.0%, 1,000 instructions: -100.0%"), "{text}");
        assert!(text.contains("sign             none: it turns"), "{text}");
    }

    #[test]
    fn counters_that_part() {
        let view = ask(&evidence(5), &|_, at| Some(0x1000 + 8 * at)).unwrap();
        let text = render(&view, Format::Text, Style { colour: false, width: Some(100) });
        assert_snapshot!(text, @"
        command          ./server --threads 2
        what if          struct stats: move misses away
        replayed         10 accesses, lines of 64 bytes; the log is about 9 of 9 recorded transfers
        of what changes  9 before, 0 after (-100.0%)
        all in the log   9 before, 0 after (-100.0%)
        numbers          transfers in a model, in the recorded order
        by turn length   unknown instructions: -100.0%
        sign             not decided: one turn length only, and it may turn with that (`record-kernel`
                         without --quantum has three)

        Replayed in place: 9 transfers, place by place as recorded.

        field                before  after   change
        struct stats.misses       5      0  -100.0%
        struct stats.hits         4      0  -100.0%

        Transfers in a model, in the recorded order of accesses: infinite caches, CPUs in turns, the same
        accesses whatever the layout. No speed; `tussle predict` is about that. Only objects in the log are
        counted.
        ");
        let json = render(&view, Format::Json, Style::default());
        let schema = include_str!("../schema/what_if.json");
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rules = serde_json::from_str(schema).unwrap();
        assert_eq!(tussle_render::schema::violations(&rules, &document), [""; 0], "{json}");
    }

    #[test]
    fn a_replay_that_is_not_the_recording_says_so() {
        let view = ask(&evidence(6), &|_, at| (at == 0).then_some(0x1000)).unwrap();
        let text = render(&view, Format::Text, Style { colour: false, width: Some(100) });
        assert!(
            text.contains("Replayed in place: 9 transfers where 10 were recorded (1 places differ)"),
            "{text}"
        );
        assert!(text.contains("1 places with 5 transfers have no field in the other layout"), "{text}");
        assert!(text.contains("all in the log   4 before"), "{text}");
        assert!(ask(&Sample::two_counters().evidence(), &|_, at| Some(at)).is_none());
    }
}
