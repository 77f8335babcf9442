//! Writes a large evidence file for tests: the same blocks of accesses over and over.
//!
//!     cargo run --release --example large_evidence -- FILE MIB
//!
//! prints its rows of `accesses` and the sum of their loads as JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use tussle_evidence::file;
use tussle_evidence::sample::Sample;

/// Rows of the blocks that are repeated: four of them.
const ROWS: u64 = 65_536;

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (path, mib) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let bytes = mib.parse::<u64>().expect("FILE MIB") << 20;
    let (start, blocks, end, reads) = pieces()?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let times = (bytes / blocks.len() as u64).max(1);
    out.write_all(&start)?;
    for _ in 0..times {
        out.write_all(&blocks)?;
    }
    out.write_all(&end)?;
    out.flush()?;
    println!("{{\"rows\": {}, \"reads\": {}}}", times * ROWS, times * reads);
    Ok(())
}

/// A small file before, within and after its accesses, and the sum of their loads.
fn pieces() -> std::io::Result<(Vec<u8>, Vec<u8>, Vec<u8>, u64)> {
    let mut s = Sample::two_counters();
    s.tables().accesses.clear();
    let (mut x, mut reads) = (0x9e37_79b9_7f4a_7c15u64, 0);
    for row in 0..ROWS {
        // xorshift: counts that no compressor guesses.
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let (actor, counts) = (1 + (x % 2) as u32, [x >> 40, x >> 50, 0]);
        s.access(0, 8 * (x >> 8 & 1), 8, actor, (row * 10, row * 10 + 10), counts);
        reads += counts[0];
    }
    let mut whole = Vec::new();
    file::write(&s.evidence(), &mut whole)?;
    let find = |what: &[u8]| whole.windows(what.len()).position(|w| w == what).map_or(0, |at| at + 1);
    let (from, to) = (find(b"\n{\"table\":\"accesses\""), find(b"\n{\"table\":\"touches\""));
    Ok((whole[..from].to_vec(), whole[from..to].to_vec(), whole[to..].to_vec(), reads))
}
