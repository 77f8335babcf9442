//! Replays a corpus of the fuzz targets as an ordinary test, then shorter and damaged forms of its files.
//!
//! docs/testing.md says how the targets themselves are run.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Random;

/// `TUSSLE_FUZZ_SECONDS` lets each corpus be mutated for so long instead of a moment.
fn budget() -> Duration {
    let seconds = std::env::var("TUSSLE_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    seconds.map_or(Duration::from_millis(300), Duration::from_secs)
}

/// Reads every file of a corpus of at least `files_min` files, then mutations of them; none may take long.
///
/// # Panics
/// When the corpus is not there, when `read` panics, or when it takes more than 20 seconds for one file.
pub fn replay(corpus: &str, files_min: usize, read: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    assert!(paths.len() >= files_min, "{}", folder.display());
    let files: Vec<_> = paths.iter().map(|p| std::fs::read(p).expect("a file of the corpus")).collect();
    files.iter().for_each(|f| read(f));
    let (start, mut random) = (Instant::now(), Random(0x2545_f491_4f6c_dd1d));
    while start.elapsed() < budget() {
        let mut bytes = files[random.below(files.len())].clone();
        random.mutate(&mut bytes, &files);
        let began = Instant::now();
        read(&bytes);
        assert!(began.elapsed() < Duration::from_secs(20), "{corpus}: {} bytes take too long", bytes.len());
    }
}

/// Mutations of files, as a fuzzer makes them.
impl Random {
    /// Puts another decimal number in the place of the next one.
    fn number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) else { return };
        let end = bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
        let number = (1u64 << self.below(64)).wrapping_sub(self.below(3) as u64);
        bytes.splice(start..end, number.to_string().into_bytes());
    }

    /// Flips, interesting numbers, copies within and between files, cuts.
    fn mutate(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        for _ in 0..1 + self.below(8) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(7) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => {
                    let number = [0u32, 1, u32::MAX, 0x7fff_ffff, 0x8000_0000, at as u32][self.below(6)];
                    let end = (at + 4).min(bytes.len());
                    bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
                }
                3 => {
                    let from = self.below(bytes.len());
                    let n = self.below(32).min(bytes.len() - at.max(from));
                    bytes.copy_within(from..from + n, at);
                }
                4 => {
                    let other = &others[self.below(others.len())];
                    let n = self.below(64).min(bytes.len() - at).min(other.len());
                    let from = self.below(other.len() - n + 1);
                    bytes[at..at + n].copy_from_slice(&other[from..from + n]);
                }
                5 => self.number(bytes, at),
                _ => bytes.truncate(at.max(1)),
            }
        }
    }
}
