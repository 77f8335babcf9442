//! `perf script -F pid,tid,ip,sym,addr,data_src,weight,phys_addr` text to evidence. Fields may be left out, but for
//! `addr`, `data_src` and `weight`.

use crate::c2c::Totals;
use crate::data_src::DataSrc;
use crate::error::Skipped;
use crate::import::{Imported, blind, sampled};
use crate::mem_report;
use crate::sample::Sample;
use crate::sums::{Key, Sums};
use crate::tables::Tables;
use std::collections::HashMap;
use tussle_evidence::{Evidence, Loss, Unit};

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    address: u64,
    ip: u64,
    symbol: String,
    pid: u32,
    tid: u32,
    cpu: Option<u32>,
    phys: Option<u64>,
}

/// True when the text has samples with a data source in perf's words.
pub fn is_script(text: &str) -> bool {
    text.contains("|OP ")
}

/// Reads the text. Never fails: lines without a data source are passed over, unreadable ones are problems.
pub fn read(text: &str) -> Imported {
    let (mut sums, mut symbols) = (Sums::default(), HashMap::<u64, String>::new());
    let (mut bad, mut named, mut cut) = (0u64, false, false);
    for line in text.lines() {
        let Some((row, source, weight)) = parse(line) else {
            let sample = line.contains("|OP ");
            bad += u64::from(sample);
            cut = sample;
            continue;
        };
        (cut, named) = (false, named | (row.tid != 0));
        sums.add(
            &Sample {
                addr: Some(row.address),
                ip: Some(row.ip),
                pid: Some(row.pid),
                tid: Some(row.tid),
                cpu: row.cpu,
                weight: Some(weight),
                phys_addr: row.phys,
                data_src: Some(source),
                ..Sample::default()
            },
            0,
        );
        if row.ip != 0 && !row.symbol.is_empty() {
            symbols.entry(row.ip).or_insert(row.symbol);
        }
    }
    sums.finish();
    let mut totals = sums.totals();
    // Text does not tell mappings.
    totals.no_map = 0;
    let evidence = evidence(&sums, &totals, &symbols, named);
    let mut problems = Vec::new();
    if bad > 0 {
        let message =
            format!("{bad} lines have a data source but no address, data source word and weight around it");
        problems.push(Skipped { offset: 0, message });
    }
    if cut || !text.ends_with('\n') {
        problems.push(Skipped { offset: text.len() as u64, message: "the last line is cut off".into() });
    }
    Imported { evidence, totals, problems, registers: Vec::new() }
}

/// Reads the text of `perf mem report`, histogram or list (`-D`).
pub fn read_mem_report(text: &str) -> Imported {
    let (rows, bad) = mem_report::rows(text);
    let (mut sums, mut symbols) = (Sums::default(), HashMap::<u64, String>::new());
    let mut named = false;
    for row in rows {
        // The histogram has functions without addresses: a number of our own keeps them apart.
        let made_up =
            || 1 + symbols.iter().find(|s| *s.1 == row.symbol).map_or(symbols.len() as u64, |s| s.0 - 1);
        let ip = if row.ip == 0 && !row.symbol.is_empty() { made_up() } else { row.ip };
        if !row.symbol.is_empty() {
            symbols.entry(ip).or_insert(row.symbol);
        }
        named |= row.tid != 0;
        let sample = Sample {
            addr: Some(row.address),
            ip: Some(ip),
            pid: Some(row.pid),
            tid: Some(row.tid),
            weight: Some(row.weight),
            phys_addr: row.phys,
            data_src: Some(row.source),
            ..Sample::default()
        };
        sums.add_times(&sample, 0, row.samples);
    }
    sums.finish();
    let mut totals = sums.totals();
    totals.no_map = 0;
    let mut evidence = evidence(&sums, &totals, &symbols, named);
    evidence.run.command = vec!["perf".into(), "mem".into(), "report".into()];
    let homeless = totals.load_no_address + totals.store_no_address;
    if homeless > 0 {
        let note = "perf printed the name of the data instead of its address: not attributed to any line";
        let what = "samples without an address".into();
        evidence.losses.push(Loss { process: None, what, count: homeless, note: note.into() });
    }
    let mut problems = Vec::new();
    if bad > 0 {
        problems.push(Skipped { offset: 0, message: format!("{bad} lines of the report are not readable") });
    }
    if !text.ends_with('\n') {
        problems.push(Skipped { offset: text.len() as u64, message: "the last line is cut off".into() });
    }
    Imported { evidence, totals, problems, registers: Vec::new() }
}

fn evidence(sums: &Sums, totals: &Totals, symbols: &HashMap<u64, String>, named: bool) -> Evidence {
    let stores = totals.store > 0;
    let (peers, hitm) = (totals.local_peer + totals.remote_peer, totals.hitm());
    let sees_hitm = hitm > 0 || peers == 0;
    let mut tables = Tables::new();
    for id in sums.sorted() {
        let Key { address, ip, pid, tid } = sums.row(id).key;
        let actor = if named { tables.thread(pid, tid, None) } else { tables.nobody() };
        let symbol = symbols.get(&ip).map_or("", String::as_str);
        let kernel = ip >= crate::maps::KERNEL_START;
        let code = (ip != 0).then(|| tables.named_code(kernel, ip, symbol, ""));
        let (object, offset) = tables.place(pid, address);
        let mut out = sampled(sums.row(id), stores, sees_hitm, peers > 0);
        (out.object, out.offset, out.code, out.actor) = (object, offset, code, Some(actor));
        tables.sample(out);
    }
    let mut evidence = tables.finish();
    evidence.run.unit = if sees_hitm { Unit::HitmSamples } else { Unit::PeerSamples };
    evidence.run.sees.writes = stores;
    evidence.run.command = vec!["perf".into(), "script".into()];
    if totals.unparsed > 0 {
        evidence.losses.push(Loss {
            process: None,
            what: "unparsed data sources".into(),
            count: totals.unparsed,
            note: "neither load nor store: not attributed to any field".into(),
        });
    }
    evidence.losses.extend(blind(totals, stores, sees_hitm));
    evidence
}

/// `... ADDR DATA_SRC |OP ...|BLK N/A WEIGHT [IP [SYMBOL] [(DSO)]] [PHYS]`.
fn parse(line: &str) -> Option<(Row, DataSrc, u32)> {
    let hex = |w: &str| u64::from_str_radix(w, 16).ok();
    let (before, after) = line.split_once("|OP ")?;
    let mut words = words_of(before).rev();
    let source = DataSrc(hex(words.next()?)?);
    let mut row = Row { address: hex(words.next()?)?, ..Row::default() };
    if let Some((pid, tid)) = words.find_map(|w| {
        let (pid, tid) = w.split_once('/')?;
        Some((pid.parse().ok()?, tid.parse().ok()?))
    }) {
        (row.pid, row.tid) = (pid, tid);
    }
    let tail: Vec<&str> = after.rsplit('|').next()?.split_whitespace().collect();
    let at = tail.iter().position(|w| w.bytes().all(|b| b.is_ascii_digit()))?;
    let weight = tail[at].parse().ok()?;
    let rest = &tail[at + 1..];
    row.cpu = words_of(before).find_map(|w| w.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    row.phys = rest.last().and_then(|w| hex(w)).filter(|_| rest.len() != 2);
    // One number alone is the physical address; an instruction comes before something else.
    if let [ip, second, ..] = rest
        && let Some(ip) = hex(ip)
    {
        row.ip = ip;
        if hex(second).is_none() || rest.len() > 2 {
            row.symbol = second.split("+0x").next().unwrap_or(second).to_string();
        }
    }
    Some((row, source, weight))
}

fn words_of(text: &str) -> std::str::SplitWhitespace<'_> {
    text.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<(u64, u64, &str, u32, u32)>) {
        let got = parse(line);
        let got = got.as_ref().map(|(r, _, w)| (r.address, r.ip, r.symbol.as_str(), r.tid, *w));
        assert_eq!(got, expect, "{line}");
    }

    #[test]
    fn fields_may_be_left_out() {
        let op = "|OP LOAD|LVL L3 hit|SNP HitM|TLB N/A|LCK N/A|BLK  N/A";
        check(&format!("7f0000000038 5201042 {op} 242 10000"), Some((0x7f00_0000_0038, 0, "", 0, 242)));
        let full =
            format!("prog 500/502 [000] 1.5: raw: 7f38 52 {op} 242 4000e8 work+0x8 (/nowhere/prog) 10000");
        check(&full, Some((0x7f38, 0x4000e8, "work", 502, 242)));
        check(&format!("{op} 242"), None);
        check(&format!("7f38 52 {op}"), None);
    }
}
