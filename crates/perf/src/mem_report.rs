//! Text of `perf mem report`: the histogram (`--stdio`) and the list of samples (`-D`).
//!
//! The histogram has no data addresses but for what perf could not name (`0x00007f...`); rows of named data keep the
//! name and are counted as without an address.

use crate::data_src::{DataSrc, level, op, snoop, snoopx};

/// One row: samples that are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemRow {
    pub samples: u32,
    pub source: DataSrc,
    pub weight: u32,
    pub address: u64,
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
    pub phys: Option<u64>,
    pub symbol: String,
}

/// Is it the text of `perf mem report`?
pub fn is_mem_report(text: &str) -> bool {
    dump_columns(text).is_some() || text.lines().any(|l| columns(l).is_some())
}

/// All rows, and how many lines that should be rows are not readable.
pub(crate) fn rows(text: &str) -> (Vec<MemRow>, u64) {
    match dump_columns(text) {
        Some(columns) => dump(text, &columns),
        None => histogram(text),
    }
}

/// `# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL`
fn dump_columns(text: &str) -> Option<Vec<String>> {
    let line = text.lines().find(|l| l.starts_with("# PID, TID, IP, ADDR"))?;
    Some(line.trim_start_matches("# ").split(", ").map(str::to_string).collect())
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

fn dump(text: &str, columns: &[String]) -> (Vec<MemRow>, u64) {
    let (mut out, mut bad) = (Vec::new(), 0);
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        match dumped(line, columns) {
            Some(row) => out.push(row),
            None => bad += 1,
        }
    }
    (out, bad)
}

fn dumped(line: &str, columns: &[String]) -> Option<MemRow> {
    let mut row = MemRow { samples: 1, ..MemRow::default() };
    let mut words = line.split([' ', ',']).filter(|w| !w.is_empty());
    for column in columns {
        let word = words.next()?;
        match column.as_str() {
            "PID" => row.pid = word.parse().ok()?,
            "TID" => row.tid = word.parse().ok()?,
            "IP" => row.ip = hex(word)?,
            // The first line of perf 6.1 has `0x016` in front, a width that is not one.
            "ADDR" => row.address = hex(word.strip_prefix("0x016").filter(|r| r.len() >= 8).unwrap_or(word))?,
            "LOCAL WEIGHT" => row.weight = word.parse().ok()?,
            "DSRC" => row.source = DataSrc(hex(word)?),
            "PHYS ADDR" => row.phys = hex(word).filter(|p| *p != 0),
            "SYMBOL" => {
                row.symbol = word.rsplit_once(':').map(|s| s.1).filter(|s| *s != "???").unwrap_or("").into();
            }
            _ => {}
        }
    }
    Some(row)
}

/// Byte ranges of the columns that a line of dots gives, by the names above them.
type Columns = Vec<(String, std::ops::Range<usize>)>;

/// The header line's names are found once the dots are known; this only tells that it is one.
fn columns(line: &str) -> Option<()> {
    let has = |name: &str| line.contains(name);
    (line.starts_with('#') && has("Overhead") && has("Samples") && has("Memory access") && has("Snoop"))
        .then_some(())
}

fn histogram(text: &str) -> (Vec<MemRow>, u64) {
    let (mut out, mut bad) = (Vec::new(), 0);
    let (mut header, mut at, mut store) = ("", Columns::new(), false);
    for line in text.lines() {
        if let Some(event) = line.strip_prefix("# Samples:") {
            store = event.contains("stor") || event.contains("STOR");
        } else if columns(line).is_some() {
            header = line;
        } else if line.starts_with("# ..") && !header.is_empty() {
            at = ranges(header, line);
        } else if !line.starts_with('#') && !line.trim().is_empty() && !at.is_empty() {
            match histogram_row(line, &at, store) {
                Some(row) => out.push(row),
                None => bad += 1,
            }
        }
    }
    (out, bad)
}

fn ranges(header: &str, dots: &str) -> Columns {
    let mut out = Columns::new();
    let mut start = None;
    for (i, c) in dots.bytes().chain([b' ']).enumerate().skip(1) {
        match (c, start) {
            (b'.', None) => start = Some(i),
            (b' ', Some(s)) => {
                let name = header.get(s..i.min(header.len())).unwrap_or_default().trim();
                out.push((name.to_string(), s..i));
                start = None;
            }
            _ => {}
        }
    }
    // The last column has no end.
    if let Some(last) = out.last_mut() {
        last.1.end = usize::MAX;
    }
    out
}

fn histogram_row(line: &str, columns: &Columns, store: bool) -> Option<MemRow> {
    let cell = |name: &str| {
        let range = &columns.iter().find(|c| c.0 == name)?.1;
        line.get(range.start.min(line.len())..range.end.min(line.len())).map(str::trim)
    };
    let mut row = MemRow { samples: cell("Samples")?.parse().ok()?, ..MemRow::default() };
    row.weight = cell("Local Weight").and_then(|w| w.parse().ok()).unwrap_or(0);
    let (access, snoops) = (cell("Memory access")?, cell("Snoop")?);
    let locked = if cell("Locked").is_some_and(|l| l.starts_with("Yes")) { 2 } else { 1 };
    let (snp, more) = snoop_of(snoops);
    let what = if store { op::STORE } else { op::LOAD };
    row.source = DataSrc(what | level_of(access) << 5 | snp << 19 | locked << 24 | more << 38);
    let named = |cell: &str| cell.split_once(']').map_or(cell, |c| c.1).trim().to_string();
    row.symbol = cell("Symbol").map(named).unwrap_or_default();
    let data = cell("Data Symbol").map(named).unwrap_or_default();
    row.address = data.strip_prefix("0x").and_then(hex).unwrap_or(0);
    Some(row)
}

/// perf's words for levels (`perf_mem__lvl_scnprintf`).
fn level_of(words: &str) -> u64 {
    let any = |names: &[&str]| names.iter().any(|n| words.contains(n));
    let mut out = if words.contains("miss") { level::MISS } else { level::HIT };
    let known: [(&[&str], u64); 9] = [
        (&["L1"], level::L1),
        (&["LFB"], level::LFB),
        (&["L2"], level::L2),
        (&["L3", "LLC"], level::L3),
        (&["Remote RAM"], level::REMOTE_RAM1),
        (&["Remote Cache", "Remote core"], level::REMOTE_CACHE1),
        (&["I/O"], level::IO),
        (&["Uncached"], level::UNCACHED),
        (&["Local RAM"], level::LOCAL_RAM),
    ];
    known.iter().filter(|k| any(k.0)).for_each(|k| out |= k.1);
    if words == "RAM hit" {
        out |= level::LOCAL_RAM;
    }
    if out == level::HIT { level::NA } else { out }
}

/// Snoop and its extension.
fn snoop_of(words: &str) -> (u64, u64) {
    match words {
        "HitM" => (snoop::HITM, 0),
        "Hit" => (snoop::HIT, 0),
        "Miss" => (snoop::MISS, 0),
        "None" => (snoop::NONE, 0),
        "Fwd" => (0, snoopx::FORWARD),
        "Peer" => (0, snoopx::PEER),
        _ => (snoop::NA, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTOGRAM: &str = include_str!("../tests/data/mem-report.txt");

    #[test]
    fn a_histogram() {
        assert!(is_mem_report(HISTOGRAM));
        let (rows, bad) = rows(HISTOGRAM);
        assert_eq!((rows.len(), bad), (2, 0));
        let r = &rows[0];
        assert_eq!((r.samples, r.weight, r.address), (7, 242, 0x7f00_0000_0038));
        assert_eq!((r.symbol.as_str(), r.source.snoop()), ("worker", snoop::HITM));
        assert_eq!(r.source.level(), level::HIT | level::L3);
        assert_eq!((rows[1].address, rows[1].source.lock()), (0, 2));
    }

    #[test]
    fn a_list() {
        let text = "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n  500   502 0x00000000004000e8 \
            0x0167f0000000038   242 0x5201042 /nowhere/prog:work\n500 501 0x4000c4 0x7f0000000100 353 0x5208042 \
            /nowhere/prog:???\nbroken\n";
        let (rows, bad) = rows(text);
        assert_eq!((rows.len(), bad), (2, 1));
        assert_eq!((rows[0].address, rows[0].symbol.as_str()), (0x7f00_0000_0038, "work"));
        assert_eq!((rows[1].address, rows[1].source.0), (0x7f00_0000_0100, 0x520_8042));
    }
}
