//! `tussle calibrate`.

use crate::cmd::predict::open_machine;
use crate::global::Global;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_host::calibrate::{Measured, fit, measure, named, warnings};
use tussle_host::{grid, threads};
use tussle_render::{Cell, Column, Fact, Node, View};
use tussle_scenarios::duel;
use tussle_sim::{Curve, Machine, Pattern};

/// Measure this machine and write a profile for `predict --machine`.
///
/// Ping-pong by compare-and-swap and by load and store for every pair of CPUs, fetch-and-add on the same and on own
/// lines, pauses and wake-ups, in short bursts at real-time priority where that is allowed. With `--check` a profile
/// made before is put to the test instead: two threads on every generation of the reader-writer semaphore, here and
/// simulated.
#[derive(clap::Args)]
pub struct Args {
    /// Where the profile goes [default: standard output shows the figures only]
    #[arg(short, long, value_name = "MACHINE.toml")]
    output: Option<PathBuf>,
    /// Name of the profile
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Accept figures from a machine on which others run
    #[arg(long)]
    noisy: bool,
    /// Compare two-thread runs on this machine with their simulation under this profile; fits nothing
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["output", "name"])]
    check: Option<String>,
    /// With --check: show every point
    #[arg(long, requires = "check")]
    all: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(profile) = &args.check {
        return check(profile, args.all, global);
    }
    let measured = measure(args.noisy)?;
    for text in warnings(&measured) {
        global.remark(format_args!("warning: {text}"));
    }
    let machine = profile(&measured, args.name.as_deref())?;
    if let Some(path) = &args.output {
        std::fs::write(path, machine.to_toml()?).with_context(|| format!("{}", path.display()))?;
    }
    global.print(&view(&measured, &machine))?;
    Ok(ExitCode::SUCCESS)
}

/// The profile; unless it is named, its name says what was found.
fn profile(measured: &Measured, name: Option<&str>) -> anyhow::Result<Machine> {
    let cpus = threads::cpus();
    let mut machine = fit(measured, cpus, "", "this machine, as tussle calibrate measured it");
    machine.name = name.map_or_else(|| format!("{}s-this-{cpus}", machine.sockets), String::from);
    machine.validate()?;
    Ok(machine)
}

/// The grid of two threads, here and simulated.
fn check(profile: &str, all: bool, global: &Global) -> anyhow::Result<ExitCode> {
    let machine = open_machine(profile)?;
    if let Some(mark) = machine.mark() {
        global.remark(format_args!("{} is {mark}", machine.name));
    }
    let draw = |done, of| global.draw(format!("{done}/{of} points "));
    let (points, conditions) = grid::compare(&machine, 1, draw)?;
    global.erase();
    global.print(&duel::view(&points, &conditions, all))?;
    Ok(ExitCode::SUCCESS)
}

fn view(measured: &Measured, machine: &Machine) -> View {
    let ns = |x: f64| Cell::number(x, format!("{x:.1} ns"));
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let threads = machine.threads_per_core;
    let shape = format!("{} x {} cores x {threads} threads", machine.sockets, machine.cores_per_cluster);
    let pair = measured.pairs.first().map_or(machine.latency_ns.socket, |p| p.cas_ns);
    let reads = if machine.core.migratory { "takes the line away" } else { "leaves a copy" };
    let mut facts = vec![
        fact("topology", "CPUs", Cell::text(shape)),
        fact("siblings", "Threads of one core", Cell::text(named(measured))),
        fact("latency_ns", "Line transfer, one way", ns(pair)),
        fact("migratory", "Reading a modified line", Cell::text(reads)),
        fact("pause_ns", "Pause", ns(measured.pause_ns)),
        fact("wake_cost_ns", "Waking a sleeper", ns(measured.wake_cost_ns)),
        fact("wake_ns", "Until it runs", ns(measured.wake_ns)),
        fact("rmw_ns", "Locked operation, own line", ns(measured.add_own_ns)),
        fact("add_same_line_ns", "Locked operation, shared line", ns(measured.add_shared_ns)),
        fact(
            "run_length",
            "Operations in a row",
            Cell::number(measured.run_length, format!("{:.1}", measured.run_length)),
        ),
        fact("unit", "Numbers", Cell::text("measured here")),
    ];
    for (key, value) in &machine.measured {
        facts.push(fact(&format!("note_{key}"), &key.replace('_', " "), Cell::text(value.clone())));
    }
    let columns = vec![
        Column::number("a", "CPU"),
        Column::number("b", "CPU"),
        Column::number("cas_ns", "Compare-and-swap ns"),
        Column::number("load_store_ns", "Load and store ns"),
    ];
    let cell = |x: f64| Cell::number(x, format!("{x:.1}"));
    let rows = measured
        .pairs
        .iter()
        .map(|p| {
            let n = |c: u32| Cell::count(u64::from(c));
            vec![n(p.a), n(p.b), cell(p.cas_ns), cell(p.load_store_ns)]
        })
        .collect();
    let table = Node::Table { key: "pairs".into(), columns, rows };
    let nodes = vec![Node::Facts(facts), table, hidden(&measured.curve)];
    View { kind: "calibrate", schema_version: 1, nodes }
}

/// What an operation costs more when another CPU is on its line, by the work before it.
fn hidden(curve: &Curve) -> Node {
    let mut columns = vec![Column::text("pattern", "Behind work of"), Column::text("work", "Work")];
    let name = |ns: &f64| Column::number(&format!("ns_{ns:.0}"), &format!("{ns:.0} ns"));
    columns.extend(curve.work_ns.iter().map(name));
    let cell = |x: &f64| Cell::number(*x, format!("{x:.0}"));
    let of = |pattern: Pattern| {
        let kinds = [("one chain", &curve.dependent), ("waits for nothing", &curve.independent)];
        kinds.into_iter().filter_map(move |(kind, all)| {
            let first = [Cell::text(pattern.title()), Cell::text(kind)].into_iter();
            Some(first.chain(all.get(&pattern)?.iter().map(cell)).collect())
        })
    };
    let rows = Pattern::ALL.into_iter().flat_map(of).collect();
    let title = "What another CPU on the line costs, ns an operation, by the work before it".into();
    let table = Node::Table { key: "curve".into(), columns, rows };
    Node::Section { key: "hidden".into(), title, nodes: vec![table] }
}
