//! `tussle cache`: what tussle keeps in the user's cache.

use crate::global::Global;
use std::process::ExitCode;
use tussle_host::cache;
use tussle_render::{Cell, Column, Node, Span, Tone, View};

/// Show or empty what tussle keeps in ~/.cache/tussle.
///
/// Everything in it is made again when it is missing. What was not used for 30 days goes by itself, and so does what
/// was not used for longest while all of it is above 2 GiB.
#[derive(clap::Args)]
pub struct Args {
    /// Remove all of it.
    #[arg(long)]
    clean: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let folder = cache::folder();
    let entries = cache::entries(&folder);
    let total: u64 = entries.iter().map(|e| e.bytes).sum();
    let columns = vec![
        Column::text("name", "folder"),
        Column::text("what", "what"),
        Column::number("bytes", "KiB"),
        Column::number("unused_h", "hours unused"),
    ];
    let row = |e: &cache::Entry| {
        let hours = e.age.as_secs() / 3600;
        let name = e.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kib = Cell::value(e.bytes, (e.bytes >> 10).to_string());
        vec![Cell::text(name), Cell::text(e.what()), kib, Cell::value(hours, hours.to_string())]
    };
    let rows = entries.iter().map(row).collect();
    let done = if args.clean { "removed from" } else { "in" };
    let text = format!("{} folders, {} KiB, {done} {}", entries.len(), total >> 10, folder.display());
    let failed = if args.clean { cache::remove(entries) } else { Vec::new() };
    failed.iter().for_each(|f| global.remark(f));
    let table = Node::Table { key: "entries".into(), columns, rows };
    let nodes = vec![Node::Text(vec![Span { text, tone: Tone::Strong }]), table];
    global.print(&View { kind: "cache", schema_version: 1, nodes })?;
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
