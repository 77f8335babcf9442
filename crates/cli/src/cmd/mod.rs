//! One file per verb: parse, call, print.

pub mod advise;
pub mod bench;
pub mod bisect;
pub mod cache;
pub mod calibrate;
pub mod cargo;
pub mod cc;
pub mod check;
pub mod checkouts;
pub mod compare;
pub mod completions;
pub mod demo;
pub mod diff;
mod ending;
pub mod export;
pub mod fix;
pub mod fleet;
pub mod golden;
pub mod history;
pub mod hunt;
pub mod import;
pub mod layout;
pub mod lint;
pub mod live;
pub mod locate;
pub mod memory;
pub mod place;
pub mod predict;
pub mod project_file;
pub mod record;
pub mod record_kernel;
pub mod report;
pub mod scenario;
pub mod service;
pub mod snapshot;
pub mod source;
pub mod top;
pub mod triage;
pub mod workload;

/// The first word of a command is no flag: one of ours, mistyped, would be looked for as a program.
fn no_flag(command: &[std::ffi::OsString]) -> anyhow::Result<()> {
    if let Some(flag) = command.first().filter(|c| c.as_encoded_bytes().starts_with(b"-")) {
        anyhow::bail!("{}: no such option; a program of that name is ./{0}", flag.display());
    }
    Ok(())
}

/// The line size that `-c` asks for.
///
/// # Errors
/// It is none.
fn line_size(bytes: u32) -> anyhow::Result<tussle_model::LineSize> {
    tussle_model::LineSize::new(bytes)
        .ok_or_else(|| anyhow::anyhow!("-c {bytes}: a power of two from 8 to 65536 is needed"))
}
