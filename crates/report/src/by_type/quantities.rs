//! What each source counts, row by row.

use super::met;
use crate::pmu;
use std::collections::{BTreeMap, BTreeSet};
use tussle_contention::fields::Namer;
use tussle_evidence::*;

/// A column.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    pub key: &'static str,
    pub title: &'static str,
    how: How,
}

/// How a column follows from the sums.
#[derive(Clone, Copy)]
enum How {
    /// The sum of that value.
    Sum(usize),
    /// One sum by another.
    Mean(usize, usize),
    /// Distinct threads or CPUs.
    Users,
    /// Those of them that store.
    Writers,
}

const fn sum(key: &'static str, title: &'static str, value: usize) -> Quantity {
    Quantity { key, title, how: How::Sum(value) }
}

const USERS: Quantity = Quantity { key: "users", title: "threads", how: How::Users };
const WRITERS: Quantity = Quantity { key: "writers", title: "writers", how: How::Writers };

/// One row of the evidence; the first value is what types are ranked by.
pub(crate) struct Event {
    pub object: u32,
    /// `None` where the source only knows the line.
    pub offset: Option<u64>,
    actor: Option<u32>,
    writes: bool,
    values: Vec<Option<u64>>,
}

/// All rows of one source.
pub(crate) struct Events {
    pub quantities: Vec<Quantity>,
    pub rows: Vec<Event>,
    /// What the numbers are.
    pub what: String,
    /// Values of which one above 0 says that several CPUs used it; where empty, the actors tell.
    contended: &'static [usize],
}

impl Events {
    /// Columns that the source cannot fill are left out.
    fn new(quantities: &[Quantity], contended: &'static [usize], rows: Vec<Event>, what: String) -> Events {
        let seen = |value: usize| rows.iter().any(|r| r.values.get(value).is_some_and(Option::is_some));
        let fills = |q: &&Quantity| match q.how {
            How::Sum(value) | How::Mean(value, _) => seen(value),
            How::Users | How::Writers => rows.iter().any(|r| r.actor.is_some()),
        };
        Events { quantities: quantities.iter().filter(fills).copied().collect(), rows, what, contended }
    }
}

/// Sums over rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    values: Vec<Option<u64>>,
    users: BTreeSet<u32>,
    writers: BTreeSet<u32>,
    /// Something stored to it, or may have: not every source tells.
    written: bool,
    rows: u64,
}

impl Sum {
    pub fn add(&mut self, event: &Event) {
        self.rows += 1;
        self.values.resize(event.values.len(), None);
        for (sum, value) in self.values.iter_mut().zip(&event.values) {
            *sum = match (*sum, *value) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            };
        }
        self.written |= event.writes;
        self.users.extend(event.actor);
        self.writers.extend(event.actor.filter(|_| event.writes));
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The quantity that the source ranks by.
    pub fn weight(&self) -> u64 {
        self.values.first().copied().flatten().unwrap_or(0)
    }

    /// `None` where it is not known; what met nothing has zero of everything that adds up.
    pub fn value(&self, q: &Quantity) -> Option<u64> {
        let value = |i: usize| if self.is_empty() { Some(0) } else { self.values.get(i).copied().flatten() };
        match q.how {
            How::Sum(i) => value(i),
            How::Mean(i, by) => value(i)?.checked_div(value(by)?),
            How::Users => Some(self.users.len() as u64),
            How::Writers => Some(self.writers.len() as u64),
        }
    }
}

/// The rows of the evidence's source.
pub(crate) fn events(e: &Evidence) -> Events {
    if let Some(samples) = &e.samples {
        return sampled(samples);
    }
    match &e.transfers {
        Some(transfers) => transferred(e, transfers),
        None => accessed(e),
    }
}

fn sampled(samples: &[Sampled]) -> Events {
    let columns = [
        sum("samples", "samples", 0),
        sum("hitm", "HITM", 1),
        sum("peer", "peer", 2),
        Quantity { key: "latency_cycles", title: "cycles each", how: How::Mean(3, 6) },
        sum("loads", "loads", 4),
        sum("stores", "stores", 5),
    ];
    let row = |s: &Sampled| {
        let hitm = match (s.hitm_local, s.hitm_remote) {
            (None, None) => None,
            (l, r) => Some(l.unwrap_or(0).saturating_add(r.unwrap_or(0))),
        };
        let stores = pmu::stores(s);
        let waited = s.latency_cycles.is_some().then(|| pmu::contended(s));
        let values = vec![Some(s.records), hitm, s.peer, s.latency_cycles, s.loads, stores, waited];
        let writes = stores.is_none_or(|n| n > 0);
        Event { object: s.object, offset: pmu::place(s), actor: s.actor, writes, values }
    };
    let what = "samples of the CPU's performance monitoring unit; cycles each: mean latency of the HITM or peer \
                samples";
    Events::new(&columns, &[1, 2], samples.iter().map(row).collect(), what.into())
}

/// Of several schedules the first one: their counts do not add up.
fn transferred(e: &Evidence, transfers: &[Transfer]) -> Events {
    let columns = [sum("transfers", "transfers", 0), sum("dirty", "modified", 1), USERS, WRITERS];
    let first = transfers.iter().filter_map(|t| t.schedule).min();
    let row = |t: &Transfer| Event {
        object: t.object,
        offset: Some(t.offset),
        actor: t.actor,
        writes: t.kind != TouchKind::Read,
        values: vec![Some(t.transfers), Some(t.dirty)],
    };
    let rows = transfers.iter().filter(|t| t.schedule == first).map(row).collect();
    let turns = if e.others.is_empty() { "" } else { "; of several turn lengths the first" };
    let which = if first.is_some() { "; of several schedules the first" } else { "" };
    let what = format!("transfers of lines in a model of caches{turns}{which}; modified: found so elsewhere");
    Events::new(&columns, &[0], rows, what)
}

fn accessed(e: &Evidence) -> Events {
    let columns = [
        sum("accesses", "accesses", 0),
        sum("reads", "loads", 1),
        sum("writes", "stores", 2),
        sum("rmws", "atomics", 3),
        USERS,
        WRITERS,
    ];
    let sees = &e.run.sees;
    let row = |a: &Access| {
        let (reads, writes, rmws) =
            (sees.reads.then_some(a.reads), sees.writes.then_some(a.writes), sees.rmws.then_some(a.rmws));
        Event {
            object: a.object,
            offset: Some(a.offset),
            actor: Some(a.actor),
            writes: a.writes + a.rmws > 0,
            values: vec![Some(a.total()), reads, writes, rmws],
        }
    };
    let rows = e.accesses.iter().map(row).collect();
    Events::new(&columns, &[], rows, format!("{}; {}", e.run.unit, e.run.source))
}

/// Fields of a type that an evidence saw several threads use, with those that one of them stores to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    /// Paths of fields, most used first.
    pub fields: Vec<String>,
    /// Those of them that are stored to, or of which the source does not tell.
    pub written: BTreeSet<String>,
}

/// Fields with less than this share of their type's rows (percent) are not hot.
const SHARE_MIN_PERCENT: u64 = 1;

/// What the evidence says is hot, by type. Types that one thread alone used have no hot fields.
pub fn hot_fields(e: &Evidence) -> BTreeMap<String, Hot> {
    let namer = Namer::new(e);
    let events = events(e);
    let mut out = BTreeMap::new();
    for m in met(e, &namer, &events, &[]).iter().filter(|m| m.ty.is_some() && m.all.shared(&events)) {
        let enough =
            |s: &Sum| s.weight().saturating_mul(100) >= m.all.weight().saturating_mul(SHARE_MIN_PERCENT);
        let mut hot: Vec<_> = m.fields.iter().filter(|(_, s)| s.weight() > 0 && enough(s)).collect();
        hot.sort_by_key(|(_, s)| std::cmp::Reverse(s.weight()));
        let written = hot.iter().filter(|(_, s)| s.written).map(|(l, _)| l.path.clone()).collect();
        let fields = hot.iter().map(|(l, _)| l.path.clone()).collect();
        out.insert(m.name.clone(), Hot { fields, written });
    }
    out
}

impl Sum {
    /// Several threads or CPUs used it.
    fn shared(&self, events: &Events) -> bool {
        let above = |i: &usize| self.values.get(*i).copied().flatten().unwrap_or(0) > 0;
        self.users.len() > 1 || events.contended.iter().any(above)
    }
}
