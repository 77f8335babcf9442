//! `tussle completions` and `tussle man`: made from the one definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

/// Print completions for a shell.
#[derive(clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the verb: `root` is the command line as it is parsed.
pub fn run(args: &Args, mut root: Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut root, "tussle", &mut text);
    crate::pager::write(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Write man pages, one for each verb.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Folder for tussle.1, tussle-hunt.1, ...; made where it is not there
    folder: PathBuf,
}

/// Runs the verb: `root` is the command line as it is parsed.
pub fn run_man(args: &ManArgs, root: Command) -> anyhow::Result<ExitCode> {
    let at = args.folder.display().to_string();
    std::fs::create_dir_all(&args.folder).with_context(|| at.clone())?;
    clap_mangen::generate_to(root, &args.folder).with_context(|| at)?;
    Ok(ExitCode::SUCCESS)
}
