//! `tussle calibrate`.

use crate::global::Global;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_host::calibrate::{fit, measure, warning};
use tussle_render::{Cell, Column, Fact, Node, View};

/// Measure this machine and write a profile for `predict --machine`.
///
/// Ping-pong by compare-and-swap and by load and store for every pair of CPUs, fetch-and-add on the same and on own
/// lines,
/// in short bursts at real-time priority where that is allowed.
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
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let measured = measure(args.noisy)?;
    if let Some(text) = warning(&measured) {
        global.remark(format_args!("warning: {text}"));
    }
    let name = args.name.clone().unwrap_or_else(|| format!("1s-this-{}", tussle_host::threads::cpus()));
    let machine = fit(&measured, &name, "this machine, as tussle calibrate measured it");
    machine.validate()?;
    if let Some(path) = &args.output {
        std::fs::write(path, machine.to_toml()?).with_context(|| format!("{}", path.display()))?;
    }
    let ns = |x: f64| Cell::number(x, format!("{x:.1} ns"));
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mut facts = vec![
        fact("latency_ns", "Line transfer, one way", ns(machine.latency_ns.socket)),
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
    global.print(&View { kind: "calibrate", schema_version: 1, nodes: vec![Node::Facts(facts), table] })?;
    Ok(ExitCode::SUCCESS)
}
