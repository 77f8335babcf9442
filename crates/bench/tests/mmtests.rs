//! Tables in mmtests' style against the output of mmtests itself (PFT, 30 iterations a side).

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use tussle_bench::style::mmtests::{Comparison, Operation, Style, table};

/// `0-3` (kernel, threads) to samples of (faults per CPU second, faults per second).
fn pft() -> Comparison {
    let raw: BTreeMap<String, Vec<[f64; 2]>> =
        serde_json::from_str(include_str!("data/mmtests/pft.json")).unwrap();
    let of = |kernel: usize, threads: usize, column: usize| -> Vec<f64> {
        raw[&format!("{kernel}-{threads}")].iter().map(|pair| pair[column]).collect()
    };
    let operations = [("cpu", 0), ("sec", 1)]
        .iter()
        .flat_map(|&(unit, column)| {
            [1, 3, 5, 8].map(|threads| Operation {
                name: format!("faults/{unit}-{threads}"),
                old: of(0, threads, column),
                new: of(1, threads, column),
            })
        })
        .collect();
    let title = |name: &str| ["base".to_string(), name.to_string()];
    Comparison { titles: [title("vanilla"), title("patched")], higher_is_better: true, operations }
}

fn check(style: &str, expect: &str) {
    let got = table(&pft(), Style::parse(style).unwrap()).unwrap();
    for (i, (got, expect)) in got.lines().zip(expect.lines()).enumerate() {
        assert_eq!(got, expect, "{style}, line {}", i + 1);
    }
    assert_eq!(got, expect, "{style}");
}

#[test]
fn every_table_equals_that_of_mmtests_byte_for_byte() {
    for (style, with_significance, ratio) in [
        (
            "2022",
            include_str!("data/mmtests/2022_withR_printsig.txt"),
            include_str!("data/mmtests/2022_withR_ratio.txt"),
        ),
        (
            "2022:no-r",
            include_str!("data/mmtests/2022_noR_printsig.txt"),
            include_str!("data/mmtests/2022_noR_ratio.txt"),
        ),
        (
            "mid",
            include_str!("data/mmtests/mid_withR_printsig.txt"),
            include_str!("data/mmtests/mid_withR_ratio.txt"),
        ),
        (
            "mid:no-r",
            include_str!("data/mmtests/mid_noR_printsig.txt"),
            include_str!("data/mmtests/mid_noR_ratio.txt"),
        ),
    ] {
        check(&format!("{style}:significance"), with_significance);
        check(&format!("{style}:ratio"), ratio);
        let plain: String = with_significance
            .lines()
            .filter(|l| !l.starts_with("Significant"))
            .map(|l| format!("{l}\n"))
            .collect();
        check(style, &plain);
    }
}

#[test]
fn unknown_styles_are_refused() {
    assert_eq!(Style::parse("2035"), None);
    assert_eq!(Style::parse(""), Style::parse("2022"));
}
