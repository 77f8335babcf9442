//! Opens a file and reads one struct, over and over: what the same costs from Python is held against it
//! (fleet/tests/open_time.py).
//!
//!     cargo run --release --example open_one -- FILE STRUCT TIMES
//!
//! prints the milliseconds of each time, one a line.

use std::path::Path;
use std::time::Instant;
use tussle_calls::source::Source;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, times] = words.as_slice() else { anyhow::bail!("FILE STRUCT TIMES") };
    for _ in 0..times.parse::<u32>()? {
        let start = Instant::now();
        let (types, found) = Source::open(Path::new(file), None)?.find(name)?;
        let size = types.table.size(found[0]);
        println!("{:.3} {}", start.elapsed().as_secs_f64() * 1e3, size.unwrap_or(0));
    }
    Ok(())
}
