//! Two tasks on one reader-writer semaphore: the grid on which simulation is held against the machine at hand.
//!
//! Nothing is ever fitted to it. A profile comes from ping-pong, fetch-and-add and hand-overs between sleepers; the
//! grid varies what locks are made of: generation, length of the section, time outside, who reads and who writes, and
//! whether the lock's words share a line with each other and with what they protect.

use crate::locks::{Kind, SleepLock, SleepWords};
use crate::nodes::Nodes;
use crate::stories::{bump, think};
use std::sync::Arc;
use tussle_render::{Cell as Shown, Column, Fact, Node, Span, Tone, View};
use tussle_sim::{Cell, Config, Env, LayoutError, Machine, MemoryMap, Note, Program, Shape, SimError, Words};
use tussle_stats::quantile;

/// Simulation and machine agree when their throughputs differ by at most this share of the machine's.
pub const TOLERANCE: f64 = 0.35;
/// Simulated time of one point, ns.
const RUN_NS: u64 = 3_000_000;

/// Generations of the semaphore.
const KINDS: [Kind; 5] = [Kind::RwsemFair, Kind::Rwsem310, Kind::RwsemSpin, Kind::RwsemSkip, Kind::Rwsem];
/// Lengths of the section, ns.
const SECTIONS_NS: [u32; 5] = [100, 300, 1_000, 3_000, 10_000];
/// Times between two sections, ns.
const THINKS_NS: [u32; 3] = [200, 1_000, 5_000];

/// One point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Generation.
    pub kind: Kind,
    /// Inside the section, ns.
    pub section_ns: u32,
    /// Outside, on average, ns.
    pub think_ns: u32,
    /// How many of the two tasks read.
    pub readers: u32,
    /// Lock words and data lie on lines of their own.
    pub separated: bool,
}

impl Point {
    /// Name of the generation.
    pub fn kind_name(&self) -> &'static str {
        Kind::NAMES.iter().find(|(_, k)| *k == self.kind).map_or("?", |(n, _)| *n)
    }

    /// Who takes part.
    pub fn mix(&self) -> &'static str {
        ["two writers", "writer and reader", "two readers"].get(self.readers as usize).copied().unwrap_or("?")
    }
}

/// All points, in a fixed order.
pub fn grid() -> Vec<Point> {
    let mut out = Vec::new();
    for kind in KINDS {
        for readers in 0..=2 {
            for section_ns in SECTIONS_NS {
                for think_ns in THINKS_NS {
                    for separated in [false, true] {
                        out.push(Point { kind, section_ns, think_ns, readers, separated });
                    }
                }
            }
        }
    }
    out
}

/// The two tasks of a point.
#[derive(Clone, Debug)]
pub struct Duel {
    point: Point,
    memory: MemoryMap,
    lock: SleepLock,
    data: Cell,
    own: Vec<Cell>,
}

impl Duel {
    /// Lays a point out.
    ///
    /// # Errors
    /// Never in practice: the objects are small.
    pub fn new(point: Point) -> Result<Duel, LayoutError> {
        let mut memory = MemoryMap::new();
        let step = if point.separated { 64 } else { 8 };
        let fields: Vec<(&str, u32, u8)> =
            SleepWords::FIELDS.iter().chain(&["data"]).zip(0..).map(|(&n, i)| (n, i * step, 8)).collect();
        let object = memory.object(&Arc::new(Shape::new("guarded", 64 * 7, &fields)), 0)?;
        let own = memory.slab(&Arc::new(Shape::new("own", 128, &[("writes", 0, 8)])), 2, 0)?;
        let nodes = Nodes::new(&mut memory, 2)?;
        let lock = SleepLock::new(point.kind, SleepWords::at(object), &nodes);
        Ok(Duel { point, memory, lock, data: object.field(6), own })
    }
}

impl Program for Duel {
    fn tasks(&self) -> usize {
        2
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let writes = e.me() >= self.point.readers;
        let mine = self.own[e.me() as usize % self.own.len()];
        while !e.stopping() {
            think(e, self.point.think_ns, 1.0).await;
            if writes {
                self.lock.lock(e).await;
                e.work(|w| {
                    w.work(self.point.section_ns);
                    bump(w, self.data, 1);
                    bump(w, mine, 1);
                })
                .await;
                self.lock.unlock(e).await;
            } else {
                self.lock.lock_shared(e).await;
                e.work(|w| {
                    w.get(self.data);
                    w.work(self.point.section_ns);
                })
                .await;
                self.lock.unlock_shared(e).await;
            }
            e.note(Note::Done);
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let all = w.get(self.data);
        let sum: u64 = self.own.iter().map(|&c| w.get(c)).sum();
        (all == sum).then_some(()).ok_or(format!("{all} of {sum} writes survived"))
    }
}

/// Operations per second of both tasks on a simulated machine.
///
/// # Errors
/// See [`SimError`].
pub fn simulated(point: Point, machine: &Machine) -> Result<f64, SimError> {
    let duel = Duel::new(point).map_err(|e| SimError::Check(e.to_string()))?;
    Ok(tussle_sim::simulate(&duel, machine, &Config::new(2, RUN_NS, 1))?.throughput())
}

/// A point, measured and simulated.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Which.
    pub point: Point,
    /// Operations per second on this machine, the median of bursts; `None` when CPU time was stolen in every attempt.
    pub real: Option<f64>,
    /// Operations per second simulated.
    pub simulated: f64,
}

impl Compared {
    /// Simulated/real − 1.
    pub fn error(&self) -> Option<f64> {
        self.real.filter(|r| *r > 0.0).map(|r| self.simulated / r - 1.0)
    }

    fn agrees(&self) -> Option<bool> {
        self.error().map(|e| e.abs() <= TOLERANCE)
    }
}

/// Points that agree, and points that were measured.
pub fn score(points: &[Compared]) -> (usize, usize) {
    let seen: Vec<bool> = points.iter().filter_map(Compared::agrees).collect();
    (seen.iter().filter(|a| **a).count(), seen.len())
}

/// How the comparison was made.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Profile that was simulated.
    pub profile: String,
    /// Bursts per point.
    pub bursts: usize,
    /// Length of one, ms.
    pub burst_ms: u64,
    /// They ran at real-time priority.
    pub real_time: bool,
    /// Share of CPU time that the hypervisor took while measuring; `None` when unknown.
    pub steal: Option<f64>,
}

/// The comparison as a view: how many points agree, by generation, by section, and the points that agree least.
pub fn view(points: &[Compared], conditions: &Conditions, all: bool) -> View {
    let (agree, measured) = score(points);
    let share = agree as f64 / measured.max(1) as f64;
    let tone = if share >= 0.8 { Tone::Good } else { Tone::Bad };
    let verdict = if measured == 0 {
        Shown::text("not measured").tone(Tone::Warn)
    } else {
        Shown::number(share, format!("{:.0}% ({agree} of {measured} measured points)", share * 100.0))
            .tone(tone)
    };
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let steal = conditions.steal.map_or("unknown".into(), |s| format!("{:.2}%", s * 100.0));
    let facts = vec![
        fact("agree", "Within 35%", verdict),
        fact("not_measured", "Not measured", Shown::count((points.len() - measured) as u64)),
        fact("profile", "Profile", Shown::text(conditions.profile.clone())),
        fact(
            "bursts",
            "Per point",
            Shown::text(format!("median of {} bursts of {} ms", conditions.bursts, conditions.burst_ms)),
        ),
        fact(
            "priority",
            "Priority",
            Shown::text(if conditions.real_time {
                "real time"
            } else {
                "normal: real time is not permitted"
            }),
        ),
        fact("steal", "Steal", Shown::text(steal)),
        fact("unit", "Numbers", Shown::text("measured here beside simulated; nothing is fitted to them")),
    ];
    let mut nodes = vec![
        Node::Facts(facts),
        groups("generations", "Lock and tasks", points, |p| format!("{}, {}", p.kind_name(), p.mix())),
        groups("sections", "Section", points, |p| format!("{} ns", p.section_ns)),
        groups("layouts", "Lines", points, |p| if p.separated { "separated" } else { "one line" }.into()),
    ];
    let mut order: Vec<&Compared> = points.iter().collect();
    if !all {
        order.retain(|c| c.agrees() != Some(true));
        order.sort_by(|a, b| off(b).total_cmp(&off(a)));
        order.truncate(15);
        nodes.push(Node::Text(vec![Span::plain("Points that agree least")]));
    }
    nodes.push(table("points", &order));
    View { kind: "calibrate-check", schema_version: 1, nodes }
}

/// How far off, as a factor's logarithm.
fn off(c: &Compared) -> f64 {
    c.error().map_or(f64::INFINITY, |e| (1.0 + e).max(1e-9).ln().abs())
}

/// One row per group: points, share that agrees, quantiles of the error.
fn groups(key: &str, title: &str, points: &[Compared], name: impl Fn(&Point) -> String) -> Node {
    let mut rows: Vec<(String, Vec<Compared>)> = Vec::new();
    for c in points {
        let n = name(&c.point);
        match rows.iter_mut().find(|r| r.0 == n) {
            Some(row) => row.1.push(*c),
            None => rows.push((n, vec![*c])),
        }
    }
    let columns = vec![
        Column::text("group", title),
        Column::number("measured", "Measured"),
        Column::number("agree", "Within 35%"),
        Column::number("low", "10%"),
        Column::number("median", "Median error"),
        Column::number("high", "90%"),
    ];
    let cells = rows.into_iter().map(|(name, members)| {
        let (agree, measured) = score(&members);
        let errors: Vec<f64> = members.iter().filter_map(Compared::error).collect();
        let q = |p| quantile(&errors, p).map_or_else(none, |e| Shown::number(e, percent(e)));
        let share = agree as f64 / measured.max(1) as f64;
        let within = Shown::number(share, format!("{:.0}%", share * 100.0));
        let within = if measured == 0 { none() } else { within };
        vec![Shown::text(name), Shown::count(measured as u64), within, q(0.1), q(0.5), q(0.9)]
    });
    Node::Table { key: key.into(), columns, rows: cells.collect() }
}

fn percent(x: f64) -> String {
    format!("{:+.0}%", x * 100.0)
}

fn none() -> Shown {
    Shown::value(serde_json::Value::Null, "-")
}

fn table(key: &str, points: &[&Compared]) -> Node {
    let columns = vec![
        Column::text("kind", "Lock"),
        Column::text("mix", "Tasks"),
        Column::number("section_ns", "Section ns"),
        Column::number("think_ns", "Outside ns"),
        Column::text("lines", "Lines"),
        Column::number("real", "Here/s"),
        Column::number("simulated", "Simulated/s"),
        Column::number("error", "Error"),
    ];
    let rate = |r: f64| Shown::number(r, format!("{:.0}", r));
    let row = |c: &&Compared| {
        let p = &c.point;
        vec![
            Shown::text(p.kind_name()),
            Shown::text(p.mix()),
            Shown::count(u64::from(p.section_ns)),
            Shown::count(u64::from(p.think_ns)),
            Shown::text(if p.separated { "separated" } else { "one line" }),
            c.real.map_or_else(none, rate),
            rate(c.simulated),
            c.error().map_or_else(none, |e| Shown::number(e, percent(e))),
        ]
    };
    Node::Table { key: key.into(), columns, rows: points.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_runs_simulated_and_counts_its_writes() {
        let machine = tussle_sim::machine::find("2s-icelake-sp-96").unwrap();
        for point in grid().into_iter().step_by(7) {
            let duel = Duel::new(point).unwrap();
            let run = tussle_sim::simulate(&duel, &machine, &Config::new(2, 200_000, 1)).unwrap();
            assert!(run.operations > 10, "{point:?}: {}", run.operations);
        }
    }

    #[test]
    fn points_without_a_measurement_do_not_count() {
        let at = |real, simulated| Compared { point: grid()[0], real, simulated };
        let points = [at(Some(100.0), 134.0), at(Some(100.0), 136.0), at(None, 100.0), at(Some(100.0), 64.0)];
        assert_eq!(score(&points), (1, 3));
    }
}
