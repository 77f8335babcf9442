//! `tussle place`.

use super::source::Source;
use crate::global::Global;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_layout::place::{Build, view};
use tussle_layout::slots::parse_field;
use tussle_render::View;

/// Where a new field fits without moving any other, in every build given.
#[derive(clap::Args)]
pub struct Args {
    /// Builds: executables, objects, BTF files or snapshots.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The type that gets the field.
    #[arg(short = 'C', value_name = "NAME")]
    name: String,
    /// Declaration of the field, for example 'seqcount_t write_protect_seq'.
    #[arg(long, value_name = "TYPE NAME")]
    field: String,
    /// Line size in bytes.
    #[arg(short = 'c', value_name = "BYTES", default_value_t = 64)]
    line: u32,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let line = super::line_size(args.line)?;
    // The field's own type may be any type of the file.
    let sources =
        args.files.iter().map(|f| Source::open(f, &[], global)).collect::<anyhow::Result<Vec<Source>>>()?;
    let ids = sources.iter().map(|s| s.find(&args.name)).collect::<Result<Vec<_>, _>>()?;
    let field =
        sources.iter().find_map(|s| parse_field(&s.table, &args.field, s.btf)).with_context(|| {
            format!("--field: `{}`: no such type, or not of the form 'TYPE NAME'", args.field)
        })?;
    let builds: Vec<Build<'_>> = sources
        .iter()
        .zip(&ids)
        .map(|(s, id)| Build { name: s.path.display().to_string(), table: &s.table, id: *id, btf: s.btf })
        .collect();
    global.print(&View { kind: "place", schema_version: 1, nodes: view(&builds, &field, line) })?;
    Ok(ExitCode::SUCCESS)
}
