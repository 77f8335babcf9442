//! The `tussle` binary: parses arguments, calls, prints.
//!
//! `main` reads as a table of contents: one match on the verb. Each verb is one file under `cmd/`. stdout is data,
//! stderr is talk. Exit status: 0 clean, 1 a finding or regression, 2 an error; `record` returns the program's own.

mod cmd;
#[cfg(test)]
mod documents;
mod global;
mod help;
mod pager;
mod topics;
mod verbs;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use global::Global;
use std::process::ExitCode;

/// Find which fields of which structures fight over a cache line, explain it, fix it, prove it.
#[derive(Parser)]
#[command(name = "tussle", version = verbs::VERSION, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs, in the order in which a user meets them.
#[derive(Subcommand)]
enum Verb {
    Hunt(cmd::hunt::Args),
    Layout(cmd::layout::Args),
    Diff(cmd::diff::Args),
    Check(cmd::check::Args),
    Lint(cmd::lint::Args),
    Place(cmd::place::Args),
    Where(cmd::locate::Args),
    Snapshot(cmd::snapshot::Args),
    Cc(cmd::cc::Args),
    #[command(name = "c++")]
    Cxx(cmd::cc::Args),
    Cargo(cmd::cargo::Args),
    Record(cmd::record::Args),
    RecordKernel(cmd::record_kernel::Args),
    Live(cmd::live::Args),
    Top(cmd::top::Args),
    Import(cmd::import::Args),
    Triage(cmd::triage::Args),
    Export(cmd::export::Args),
    Fleet(cmd::fleet::Args),
    Sweep(cmd::fleet::SweepArgs),
    Report(cmd::report::Args),
    Advise(cmd::advise::Args),
    Fix(cmd::fix::Args),
    Bench(cmd::bench::Args),
    Compare(cmd::compare::Args),
    Predict(cmd::predict::Args),
    Calibrate(cmd::calibrate::Args),
    Bisect(cmd::bisect::Args),
    History(cmd::history::Args),
    #[command(hide = true)]
    Drive(cmd::service::Args),
    Workload(cmd::workload::Args),
    Demo(cmd::demo::Args),
    Scenario(cmd::scenario::Args),
    Cache(cmd::cache::Args),
    Completions(cmd::completions::Args),
    Man(cmd::completions::ManArgs),
}

/// The verbs need no more, bytes; `ulimit -s` may give the main thread less.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let mut given = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills plain data.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut given) } == 0;
    if !known || given.rlim_cur >= STACK as u64 / 8 {
        return begin();
    }
    let begun = std::thread::Builder::new().stack_size(STACK).spawn(begin);
    // 101 is what a panic ends with; it has said why.
    begun.ok().and_then(|thread| thread.join().ok()).unwrap_or(ExitCode::from(101))
}

/// Of what was asked for as text.
fn printed(how: std::io::Result<()>) -> ExitCode {
    match how {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tussle: cannot print: {e}");
            ExitCode::from(2)
        }
    }
}

fn begin() -> ExitCode {
    // A reader that closes the pipe early (`tussle report | head`) ends us quietly, like any Unix tool.
    // SAFETY: resets a signal disposition before anything else runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if let Some(code) = cmd::cc::run_as_assembler() {
        return code;
    }
    if let Some(code) = cmd::cc::run_as_rustc() {
        return code;
    }
    if let Some(code) = cmd::cargo::run_by_name() {
        return code;
    }
    if let Some(language) = cmd::cc::language_of_argv0() {
        return cmd::cc::run_as_compiler(language);
    }
    match topic() {
        Some(Ok(text)) => return printed(pager::show(&text)),
        Some(Err(why)) => {
            eprintln!("tussle: {}", global::quoted(&why));
            return ExitCode::from(2);
        }
        None => {}
    }
    if let Some(e) = cmd::fleet::forward() {
        eprintln!("tussle: {}", global::quoted(&in_full(&e)));
        return ExitCode::from(2);
    }
    let matches = verbs::command(Cli::command()).try_get_matches_from(help::words());
    let cli = match matches.and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) => {
            let shown = help::print(&e);
            return if e.use_stderr() { ExitCode::from(2) } else { printed(shown) };
        }
    };
    let ended = run(&cli);
    tussle_host::interrupted::hold();
    match ended {
        Ok(code) => code,
        Err(e) => {
            eprintln!("tussle: {}", global::quoted(&in_full(&e)));
            ExitCode::from(2)
        }
    }
}

/// What `tussle help TOPIC` prints, or why nothing; `None` of a verb, and where nobody asks for a topic.
fn topic() -> Option<Result<String, String>> {
    let mut words = help::words().into_iter().skip(1);
    let name = words.next().filter(|w| w == "help").and_then(|_| words.next())?.into_string().ok()?;
    if let Some(text) = topics::find(&name, help::columns()) {
        return Some(Ok(text));
    }
    let verbs = verbs::command(Cli::command());
    let unknown = !name.starts_with('-') && name != "help" && verbs.find_subcommand(&name).is_none();
    unknown.then(|| Err(topics::unknown(&name, verbs.get_subcommands().map(clap::Command::get_name))))
}

/// An error with its causes, leaving out those that the text before them already says.
fn in_full(e: &anyhow::Error) -> String {
    e.chain().skip(1).map(ToString::to_string).fold(e.to_string(), |text, cause| {
        match text.contains(&cause) {
            true => text,
            false => format!("{text}: {cause}"),
        }
    })
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let global = &cli.global;
    match &cli.verb {
        Verb::Hunt(a) => cmd::hunt::run(a, global),
        Verb::Layout(a) => cmd::layout::run(a, global),
        Verb::Diff(a) => cmd::diff::run(a, global),
        Verb::Check(a) => cmd::check::run(a, global),
        Verb::Lint(a) => cmd::lint::run(a, global),
        Verb::Place(a) => cmd::place::run(a, global),
        Verb::Where(a) => cmd::locate::run(a, global),
        Verb::Snapshot(a) => cmd::snapshot::run(a, global),
        Verb::Cc(a) => cmd::cc::run(a, cmd::cc::Language::C),
        Verb::Cxx(a) => cmd::cc::run(a, cmd::cc::Language::Cxx),
        Verb::Cargo(a) => cmd::cargo::run(a, global),
        Verb::Record(a) => cmd::record::run(a, global),
        Verb::RecordKernel(a) => cmd::record_kernel::run(a, global),
        Verb::Live(a) => cmd::live::run(a, global),
        Verb::Top(a) => cmd::top::run(a, global),
        Verb::Import(a) => cmd::import::run(a, global),
        Verb::Triage(a) => cmd::triage::run(a, global),
        Verb::Export(a) => cmd::export::run(a, global),
        Verb::Fleet(a) => cmd::fleet::run("fleet", &a.words),
        Verb::Sweep(a) => cmd::fleet::run("sweep", &a.words),
        Verb::Report(a) => cmd::report::run(a, global),
        Verb::Advise(a) => cmd::advise::run(a, global),
        Verb::Fix(a) => cmd::fix::run(a, global),
        Verb::Bench(a) => cmd::bench::run(a, global),
        Verb::Compare(a) => cmd::compare::run(a, global),
        Verb::Predict(a) => cmd::predict::run(a, global),
        Verb::Calibrate(a) => cmd::calibrate::run(a, global),
        Verb::Bisect(a) => cmd::bisect::run(a, global),
        Verb::History(a) => cmd::history::run(a, global),
        Verb::Cache(a) => cmd::cache::run(a, global),
        Verb::Drive(a) => cmd::service::run(a, global),
        Verb::Workload(a) => cmd::workload::run(a, global),
        Verb::Demo(a) => cmd::demo::run(a, global),
        Verb::Scenario(a) => cmd::scenario::run(a, global),
        Verb::Completions(a) => cmd::completions::run(a, verbs::command(Cli::command())),
        Verb::Man(a) => cmd::completions::run_man(a, verbs::command(Cli::command())),
    }
}
