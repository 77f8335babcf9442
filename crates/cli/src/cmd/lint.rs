//! `tussle lint`.

use super::source::Source;
use crate::global::Global;
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_host::source_text::checkout_path;
use tussle_layout::lint::{Found, lint, view};
use tussle_render::View;

/// Doubts about layouts from types and names alone, without a rule or a recording.
///
/// Both ends of a queue in one line, two locks in one line, small elements of threads, locks and counters beside
/// tables of functions. Nothing here knows which threads touch what: `tussle record` does. Exit status 1 when there is
/// a doubt.
#[derive(clap::Args)]
pub struct Args {
    /// Executables, objects, BTF files or snapshots.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Needed: too many of these doubts are wrong for a check that fails a build (docs/layout.md has the figures).
    #[arg(long)]
    experimental: bool,
    /// Line size in bytes.
    #[arg(short = 'c', value_name = "BYTES", default_value_t = 64)]
    line: u32,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if !args.experimental {
        bail!(
            "lint guesses from names and is wrong too often to fail a build: --experimental runs it all the same"
        );
    }
    let line = super::line_size(args.line)?;
    let mut all = Found::default();
    for file in &args.files {
        let source = Source::open(file, &[], global)?;
        let found = lint(&source.table, line, source.btf);
        all.types += found.types;
        for mut doubt in found.doubts {
            if let Some(at) = &mut doubt.at {
                at.file = checkout_path(Path::new(&at.file)).unwrap_or_else(|| at.file.clone());
            }
            if !all.doubts.contains(&doubt) {
                all.doubts.push(doubt);
            }
        }
    }
    global.print(&View { kind: "lint", schema_version: 1, nodes: view(&all) })?;
    Ok(ExitCode::from(u8::from(!all.doubts.is_empty())))
}
