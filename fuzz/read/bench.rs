//! Foreign results of measurements, and tussle's own.

use tussle_bench::{audit, history, read, sample};

pub fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok((document, _)) = read::read(&text) {
        audit::audit(&document);
    }
    let _ = sample::parse(&text);
    let (entries, _) = history::parse(&text);
    history::analyse(&entries);
}
