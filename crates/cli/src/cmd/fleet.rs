//! `tussle fleet`, `tussle sweep` and `tussle export --parquet`: run by `tussle-fleet`, as git runs git-foo. Nobody who
//! does not look at more than one machine pays for Parquet.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program.
const PROGRAM: &str = "tussle-fleet";

/// Verbs that it has all of.
const VERBS: &[&str] = &["fleet", "sweep"];

/// Ask a dataset of many runs: top fields, new ones, regressions.
///
/// Run by `tussle-fleet` (docs/fleet.md); `tussle fleet --help` lists its options where that is installed.
#[derive(clap::Args)]
pub struct Args {
    /// What `tussle-fleet` takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub words: Vec<OsString>,
}

/// Check, diff, predict or advise over a product of parameters.
///
/// Run by `tussle-fleet` (docs/fleet.md); `tussle sweep --help` lists its options where that is installed.
#[derive(clap::Args)]
pub struct SweepArgs {
    /// What `tussle-fleet` takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub words: Vec<OsString>,
}

/// Hands the whole command line over, options and all, where it is for `tussle-fleet`.
pub fn forward() -> Option<anyhow::Error> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let switches = words.iter().take_while(|w| *w == "-q" || *w == "--quiet").count();
    let verb = words.get(switches)?;
    let is_parquet = verb == "export" && words.iter().any(|w| w == "--parquet");
    if !is_parquet && !VERBS.iter().any(|v| verb == v) {
        return None;
    }
    words.rotate_left(switches);
    Some(exec(&words))
}

/// Runs a verb that came after other options.
pub fn run(verb: &str, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Vec<OsString> = [verb.into()].into_iter().chain(args.iter().cloned()).collect();
    Err(exec(&words))
}

/// Becomes `tussle-fleet`, which lies beside this program or in PATH; returns only what kept it from that.
fn exec(words: &[OsString]) -> anyhow::Error {
    let beside = std::env::current_exe().ok().map(|me| me.with_file_name(PROGRAM)).filter(|p| p.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(words).exec();
    if error.kind() != ErrorKind::NotFound {
        return anyhow::Error::new(error).context(program.display().to_string());
    }
    let verb = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    anyhow::anyhow!(
        "`{verb}` is run by {PROGRAM}, which is neither beside tussle nor in PATH; `cargo install --path fleet/cli` in \
         tussle's sources installs it (docs/fleet.md)"
    )
}
