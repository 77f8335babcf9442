//! `perf c2c report --stdio` text to evidence: each row's shares become samples again.

use crate::error::Skipped;
use crate::tables::Tables;
use crate::text::{C2cText, TextLine, TextRow};
use tussle_evidence::{Evidence, Loss, Sampled, Unit};

/// Samples that no row accounts for lie somewhere in their line.
const LINE: u32 = 64;

/// The Pareto tables of a text, in order: a table ends where the lines' numbers begin anew.
pub fn split(text: &C2cText) -> Vec<&[TextLine]> {
    text.lines.chunk_by(|a, b| b.index > a.index).collect()
}

/// Evidence of one table.
///
/// What the rows do not add up to is a loss: a pasted table is often cut.
pub fn c2c_text(text: &C2cText, table: &[TextLine]) -> (Evidence, Vec<Skipped>) {
    let mut tables = Tables::new();
    let peer = table.iter().any(|l| l.counts.peer.is_some());
    let stores = stores_seen(table);
    let mut missing = 0u64;
    for line in table {
        let (mut left, mut seen) = (total(line), 0u64);
        for row in &line.rows {
            let actor = tables.nobody();
            let code = tables.named_code(row.kernel, row.code, &row.symbol, place(row));
            let (object, offset) = tables.place(0, line.address.saturating_add(row.offset));
            let sampled = samples(line, row, peer, stores);
            left = left.saturating_sub(contended(&sampled));
            seen += sampled.hitm_local.unwrap_or(0);
            tables.sample(Sampled { object, offset, code: Some(code), actor: Some(actor), ..sampled });
        }
        if left > 0 {
            let actor = tables.nobody();
            let (object, offset) = tables.place(0, line.address);
            let rest = Sampled {
                object,
                offset,
                actor: Some(actor),
                size: LINE,
                records: left,
                ..Sampled::default()
            };
            let hitm = line.counts.hitm() > 0;
            // The text does not tell which of the two the missing ones are: what the rows leave over does.
            let local = line.counts.local_hitm.saturating_sub(seen).min(left);
            tables.sample(Sampled {
                hitm_local: hitm.then_some(local),
                hitm_remote: hitm.then_some(left - local),
                peer: (!hitm).then_some(left),
                ..rest
            });
        }
        missing += left;
    }
    let mut e = tables.finish();
    let hitm: u64 = table.iter().map(|l| l.counts.hitm()).sum();
    e.run.unit = if hitm == 0 && peer { Unit::PeerSamples } else { Unit::HitmSamples };
    e.run.sees.writes = stores;
    e.run.command = vec!["perf".into(), "c2c".into(), "report".into(), "--stdio".into()];
    e.run.cpus = table.iter().flat_map(|l| &l.rows).map(|r| r.cpus).max().unwrap_or(0) as u32;
    if missing > 0 {
        e.losses.push(Loss {
            process: None,
            what: format!("{} without a row", e.run.unit),
            count: missing,
            note: "the text gives them to a line but to no offset of it: rows are missing".into(),
        });
    }
    let problems = text.problems.clone();
    (e, problems)
}

/// HITM or peer samples that the text gives to a line.
fn total(line: &TextLine) -> u64 {
    if line.counts.hitm() > 0 { line.counts.hitm() } else { line.counts.peer.unwrap_or(0) }
}

fn contended(s: &Sampled) -> u64 {
    let hitm = s.hitm_local.unwrap_or(0) + s.hitm_remote.unwrap_or(0);
    if hitm > 0 { hitm } else { s.peer.unwrap_or(0) }
}

fn stores_seen(table: &[TextLine]) -> bool {
    let stores = |l: &TextLine| {
        let c = l.counts;
        c.store_l1_hit.saturating_add(c.store_l1_miss).saturating_add(c.store_no_level.unwrap_or(0))
    };
    table.iter().any(|l| stores(l) > 0)
}

/// `file:line`, where perf found it; `function+offset` names no place in the source.
fn place(row: &TextRow) -> &str {
    let named = row.source.rsplit_once(':').is_some_and(|(f, l)| !f.is_empty() && l.parse::<u32>().is_ok());
    if named { &row.source } else { "" }
}

/// A row's shares of its line as samples.
fn samples(line: &TextLine, row: &TextRow, peer: bool, seen: bool) -> Sampled {
    let c = line.counts;
    let share = |column: usize, count: u64| {
        let percent = row.percent.get(column).copied().unwrap_or(0.0);
        (percent / 100.0 * count as f64).round() as u64
    };
    let only_peers = c.peer_remote.is_some();
    let at = usize::from(c.peer.is_some() && !only_peers);
    let (remote, local) = match c.peer_remote {
        Some(far) => (share(0, far), share(1, c.peer.unwrap_or(0).saturating_sub(far))),
        None => (share(0, c.remote_hitm), share(1, c.local_hitm)),
    };
    let peers = if only_peers { Some(remote + local) } else { c.peer.map(|n| share(2, n)) };
    let stores = [share(2 + at, c.store_l1_hit), share(3 + at, c.store_l1_miss)];
    let no_level = c.store_no_level.map(|n| share(4 + at, n));
    let contended = if only_peers { 0 } else { peers.unwrap_or(0) } + remote + local;
    let sampled = contended + stores[0] + stores[1] + no_level.unwrap_or(0);
    let hitm_seen = !only_peers && (!peer || c.hitm() > 0);
    let cycles = remote.saturating_mul(row.cycles[0]).saturating_add(local.saturating_mul(row.cycles[1]));
    Sampled {
        size: 1,
        records: row.records.unwrap_or(sampled).max(sampled),
        hitm_local: hitm_seen.then_some(local),
        hitm_remote: hitm_seen.then_some(remote),
        peer: peers,
        loads: None,
        store_l1_hit: seen.then_some(stores[0]),
        store_l1_miss: seen.then_some(stores[1]),
        store_no_level: no_level.filter(|_| seen),
        latency_cycles: Some(cycles),
        cpus: u32::try_from(row.cpus).ok(),
        ..Sampled::default()
    }
}
