//! `tussle-fleet`: what `tussle export --parquet`, `tussle fleet` and `tussle sweep` run.
//!
//! stdout is data, stderr is talk. Exit status: 0 clean, 1 a finding, 2 an error.

mod args;
mod batches;
mod dataset;
mod export;
mod query;
mod regressions;
mod results;
mod sweep;

use args::Args;
use std::process::ExitCode;

const HELP: &str = "\
What tussle runs for more than one machine. docs/fleet.md has the rest.

  tussle export --parquet [EVIDENCE|RESULT]... --to FOLDER
      [--host NAME] [--build ID] [--kernel VERSION] [--no-raw] [--redact]
  tussle fleet [top|new|regressions|cpus|phases|builds|rules|sweep|predictions|accesses|schema] --dataset FOLDER
      [--limit N] [--format text|json|md|html] [--engine duckdb|spark] [--master URL] [--threads N] [--memory-gb N]
      of `new`: --since DAY (2026-11-22, UTC) | --since-build ID; of `regressions`: [--old ID --new ID]
  tussle sweep PLAN.toml --to FOLDER [--jobs A..B] [--threads N] [--batch N] [--engine threads|ray] [--master ADDRESS]
  tussle sweep PLAN.toml --list [--jobs A..B]
";

fn main() -> ExitCode {
    // A reader that closes the pipe early ends us quietly, like any Unix tool.
    // SAFETY: resets a signal disposition before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    match run() {
        Ok(code) => code,
        Err(e) => {
            eprintln!("tussle: {}", tussle_calls::in_full(&e));
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let verb = words.next().and_then(|v| v.into_string().ok()).unwrap_or_default();
    let args = Args::parse(words)?;
    match verb.as_str() {
        _ if args.has("help") => print!("{HELP}"),
        "export" => return export::run(&args),
        "fleet" => return query::run(&args),
        "sweep" => return sweep::run(&args),
        "" | "help" | "--help" | "-h" => print!("{HELP}"),
        "--version" => println!("tussle-fleet {}", env!("CARGO_PKG_VERSION")),
        other => anyhow::bail!("no verb `{other}`\n{HELP}"),
    }
    Ok(ExitCode::SUCCESS)
}
