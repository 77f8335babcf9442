//! The report of an evidence as rows: one per fight, by field name, so that nobody joins types by hand.

use crate::fields;
use crate::kind::Field;
use serde::Serialize;
use tussle_advise::class;
use tussle_contention::analysis::{self, Contention, Question};
use tussle_contention::fields::Namer;
use tussle_contention::group::{FieldUse, Group};
use tussle_evidence::{Evidence, Problem, Unit};
use tussle_report::names;

/// Fights of one run that are kept: those with the highest cost.
pub const ROWS_MAX: usize = 100;

/// One fight: lines on which the same fields of the same kind of object meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineRow {
    /// 1 is the costliest.
    pub rank: u64,
    /// Process id of the run.
    pub pid: Option<u64>,
    /// Executable.
    pub exe: Option<String>,
    /// Type or variable of the object with the worst field.
    pub type_name: Option<String>,
    /// Both fields, as reports print them.
    pub fields: String,
    /// One of the two fields.
    pub field_a: Option<String>,
    /// The other one; the same where the fight is about the same bytes or about elements of one array.
    pub field_b: Option<String>,
    /// As reports print it.
    pub class: &'static str,
    /// What the counts are.
    pub unit: Unit,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Where the object begins in its line, bytes; null where addresses are not known.
    pub phase_bytes: Option<u64>,
    /// Expected invalidations.
    pub e: f64,
    /// The same if threads of one role took equal shares.
    pub e_even: f64,
    /// The part between threads that share no byte.
    pub e_false: f64,
    /// Stores that find the line elsewhere and copies that readers lose.
    pub transfers: f64,
    /// Share of the transfers that the best layout removes, 0 to 1.
    pub removable_share: f64,
    /// E over the accesses of all lines of the run that are fought over, 0 to 1.
    pub share: f64,
    /// Loads of the fields.
    pub reads: f64,
    /// Stores.
    pub writes: f64,
    /// Atomic read-modify-writes.
    pub rmws: f64,
    /// Who fights, as reports print it.
    pub threads: String,
    /// How many of them.
    pub actors: u64,
    /// Lines.
    pub lines: u64,
    /// The code that touches field A most often (`server.c:21`).
    pub code_a: Option<String>,
    /// The code that touches field B most often.
    pub code_b: Option<String>,
}

/// Columns of [`LineRow`].
pub const LINES: &[Field] = fields![
    U64 => rank pid; Text => exe type_name fields field_a field_b class unit; U64 => line_bytes phase_bytes;
    F64 => e e_even e_false transfers removable_share share reads writes rmws; Text => threads; U64 => actors lines;
    Text => code_a code_b
];

/// The fights of a run, the costliest first, [`ROWS_MAX`] at most unless `all`. Small ones are among them.
///
/// `problems`: what could not be read.
///
/// # Errors
/// Why this evidence holds no accesses with threads and stores from which fights could be told: unknown, not empty.
pub fn line_rows(
    e: &Evidence,
    problems: &[Problem],
    question: &Question,
    all: bool,
) -> Result<Vec<LineRow>, String> {
    if e.samples.is_some() && e.run.unit != Unit::ClockSamples {
        return Err("samples of a PMU alone do not tell who fights; `report` shows the lines".into());
    }
    let sources: [(&str, bool); 3] =
        [("accesses", e.accesses.is_empty()), ("objects", e.objects.is_empty()), ("actors", e.actors.is_empty())];
    for (table, _) in sources.iter().filter(|s| s.1) {
        // What concerns the file may concern any table.
        if let Some(p) = problems.iter().find(|p| p.table.is_empty() || p.table == *table) {
            return Err(format!("who fights is unknown: nothing of table {table} could be read: {p}"));
        }
    }
    let namer = Namer::new(e);
    let seen = analysis::contention(e, question);
    let total: f64 = seen.lines.iter().map(|l| l.accesses).sum();
    let judged = class::judge(e, &namer, &seen);
    let most = if all { usize::MAX } else { ROWS_MAX };
    let row = |(i, j): (usize, &class::Judged<'_>)| {
        let about = About { e, namer: &namer, seen: &seen };
        LineRow {
            rank: i as u64 + 1,
            class: j.class.words(),
            share: j.group.e.e / total.max(1.0),
            ..about.row(&j.group)
        }
    };
    Ok(judged.iter().enumerate().take(most).map(row).collect())
}

struct About<'a> {
    e: &'a Evidence,
    namer: &'a Namer<'a>,
    seen: &'a Contention,
}

impl About<'_> {
    fn row(&self, g: &Group<'_>) -> LineRow {
        let pair = g.worst_pair().map(|(a, b)| (&g.fields[a], &g.fields[b]));
        let (a, b) = (pair.map(|p| p.0).or(g.fields.first()), pair.map(|p| p.1));
        let object = a.and_then(|f| self.e.objects.get(f.object as usize));
        let process = g.lines.first().and_then(|l| self.e.processes.get(l.process as usize));
        let line = self.seen.question.line;
        let sum = |of: fn(&FieldUse) -> f64| g.fields.iter().map(of).sum();
        let fighters = g.fighters();
        LineRow {
            rank: 0,
            pid: process.map(|p| p.pid.into()),
            exe: process.map(|p| p.exe.clone()),
            type_name: object.map(|o| self.namer.root(o)),
            fields: g.title(),
            field_a: a.map(|f| f.path.clone()),
            field_b: b.map(|f| f.path.clone()),
            class: "",
            unit: self.e.run.unit,
            line_bytes: line.bytes(),
            phase_bytes: object.filter(|_| self.e.run.sees.phases).map(|o| line.offset(o.base)),
            e: g.e.e,
            e_even: g.e.e_even,
            e_false: g.e.e_false,
            transfers: g.cost.total(),
            removable_share: g.cost.removable_share(),
            share: 0.0,
            reads: sum(|f| f.counts.reads),
            writes: sum(|f| f.counts.writes),
            rmws: sum(|f| f.counts.rmws),
            threads: names::threads(self.e, &fighters),
            actors: fighters.len() as u64,
            lines: g.lines.len() as u64,
            code_a: a.and_then(|f| self.code(f)),
            code_b: b.and_then(|f| self.code(f)),
        }
    }

    /// Where the source touches a field most often.
    fn code(&self, f: &FieldUse) -> Option<String> {
        let (start, end) = (f.offset, f.offset + f.size);
        let here = |t: &&tussle_evidence::Touch| {
            t.object == f.object && t.offset < end && start < t.offset + u64::from(t.size)
        };
        let most =
            self.e.touches.iter().filter(here).max_by_key(|t| (t.samples, std::cmp::Reverse(t.code)))?;
        Some(names::place(self.e, most.code))
    }
}
