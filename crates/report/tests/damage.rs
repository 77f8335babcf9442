//! Whatever the reader makes of a damaged file can be shown.

use proptest::prelude::*;
use tussle_evidence::file;
use tussle_evidence::sample::Sample;
use tussle_report::{Options, compare, report};

fn bytes() -> Vec<u8> {
    let mut out = Vec::new();
    file::write_jsonl(&Sample::two_counters().evidence(), &mut out).unwrap();
    out
}

proptest! {
    #[test]
    fn damaged_evidence_is_shown(flips in prop::collection::vec((0usize..100_000, any::<u8>()), 1..8)) {
        let mut damaged = bytes();
        for (at, with) in flips {
            let at = at % damaged.len();
            damaged[at] ^= with;
        }
        if let Ok((e, problems)) = file::read(&damaged) {
            report(&e, &problems, &Options::default());
            compare(&e, &e, [&[], &[]], &Options::default());
        }
    }
}
