//! `tussle workload`: how a built-in workload scales with the number of tasks.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tussle_bench::{Metric, MetricKind, scaling};
use tussle_host::bench::{Command, Plan};
use tussle_host::workloads::{self, Rates, Setting, Workload};
use tussle_render::View;

use super::bench::measure;
use crate::global::Global;

/// Measure how a built-in workload scales with the number of tasks.
///
/// Every number of tasks runs several times, in random order; the curve has intervals. Samples go to a file that
/// `tussle compare` reads.
#[derive(clap::Args)]
pub struct Args {
    /// mmap1, page_fault1, page_fault2, pft, exec_storm, fork_storm, sem_ops
    name: String,
    /// Numbers of tasks at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2")]
    tasks: Vec<usize>,
    /// What the tasks are
    #[arg(long, value_parser = ["threads", "processes", "both"], default_value = "threads")]
    mode: String,
    /// Time that one run counts
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Runs of each number of tasks
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: usize,
    /// Rounds thrown away first
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Size of a mapped region
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    region_mib: usize,
    /// Where every sample goes, as JSON Lines
    #[arg(short, long, value_name = "FILE", default_value = "tussle-bench.jsonl")]
    output: PathBuf,
    /// Run once, with the first number of tasks, and print its rate
    #[arg(long)]
    once: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let workload = by_name(&args.name)?;
    if args.once {
        let rates = once(workload, args)?;
        println!("operations_per_s: {:.3}", rates.operations_per_s);
        if let Some(per_cpu) = rates.operations_per_cpu_s {
            println!("operations_per_cpu_s: {per_cpu:.3}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut plan = Plan::new(arms(args)?, args.pairs);
    (plan.warmup, plan.seed) = (args.warmup, args.seed);
    plan.metric = Metric {
        name: "operations/s".into(),
        ..Metric::regex(r"^operations_per_s: ([\d.]+)", MetricKind::Rate)
    };
    let results = measure(&plan, &args.output, global)?;
    let nodes = scaling::nodes(&args.name, &scaling::points(&results), results.header.cpus);
    global.print(&View { kind: "scaling", schema_version: 1, nodes })?;
    Ok(ExitCode::SUCCESS)
}

fn once(workload: Workload, args: &Args) -> anyhow::Result<Rates> {
    let measure = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let Some(region_bytes) = args.region_mib.checked_mul(1 << 20).filter(|b| (1..=1 << 40).contains(b))
    else {
        bail!("--region-mib {} is out of range", args.region_mib);
    };
    let (tasks, processes) = (args.tasks.first().copied().unwrap_or(1), args.mode == "processes");
    let setting = Setting { tasks, processes, warmup: measure / 5, measure, region_bytes };
    workloads::run(workload, setting).with_context(|| args.name.clone())
}

/// Each number of tasks is an arm, run by this very program.
fn arms(args: &Args) -> anyhow::Result<Vec<Command>> {
    let me = std::env::current_exe().context("this program cannot find itself")?;
    let modes: &[&str] = match args.mode.as_str() {
        "both" => &["threads", "processes"],
        "processes" => &["processes"],
        _ => &["threads"],
    };
    let mut arms = Vec::new();
    for mode in modes {
        for tasks in &args.tasks {
            let mut argv = vec![me.clone().into_os_string()];
            argv.extend(["workload", &args.name, "--once"].map(Into::into));
            argv.extend([
                format!("--tasks={tasks}").into(),
                format!("--mode={mode}").into(),
                format!("--seconds={}", args.seconds).into(),
                format!("--region-mib={}", args.region_mib).into(),
            ]);
            arms.push(Command::argv(&format!("{mode}-{tasks}"), argv));
        }
    }
    Ok(arms)
}

/// The workload of this name.
fn by_name(name: &str) -> anyhow::Result<Workload> {
    let names: Vec<&str> = workloads::ALL.iter().map(|w| w.0).collect();
    Workload::by_name(name)
        .with_context(|| format!("no workload is called {name}; there are {}", names.join(", ")))
}
