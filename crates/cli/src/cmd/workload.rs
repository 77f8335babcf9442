//! `tussle workload`: one run of a built-in workload, for `tussle bench --workload`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tussle_host::workloads::{self, Setting, Workload};

use crate::global::Global;

/// Run a built-in workload once and print its rate.
#[derive(clap::Args)]
pub struct Args {
    /// mmap1, page_fault1, page_fault2, pft, exec_storm, fork_storm, sem_ops
    name: String,
    /// Tasks at once
    #[arg(long, default_value_t = 1)]
    tasks: usize,
    /// Processes instead of threads
    #[arg(long)]
    processes: bool,
    /// Time counted
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Size of a mapped region
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    region_mib: usize,
}

/// Runs the verb.
pub fn run(args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    let workload = by_name(&args.name)?;
    let measure = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let Some(region_bytes) = args.region_mib.checked_mul(1 << 20).filter(|b| (1..=1 << 40).contains(b))
    else {
        bail!("--region-mib {} is out of range", args.region_mib);
    };
    let setting =
        Setting { tasks: args.tasks, processes: args.processes, warmup: measure / 5, measure, region_bytes };
    let rates = workloads::run(workload, setting).with_context(|| args.name.clone())?;
    println!("operations_per_s: {:.3}", rates.operations_per_s);
    if let Some(per_cpu) = rates.operations_per_cpu_s {
        println!("operations_per_cpu_s: {per_cpu:.3}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The workload of this name.
pub fn by_name(name: &str) -> anyhow::Result<Workload> {
    let names: Vec<&str> = workloads::ALL.iter().map(|w| w.0).collect();
    Workload::by_name(name)
        .with_context(|| format!("no workload is called {name}; there are {}", names.join(", ")))
}
