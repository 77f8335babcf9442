//! Readers on what the tools themselves wrote: hyperfine 1.15, google benchmark 1.7, benchstat of 2026, go 1.26,
//! criterion 0.8, procps vmstat 4.0, perf 6.1, turbostat. What mailers do to the kernel test robot's tables.

#![allow(clippy::unwrap_used)]

use tussle_bench::audit::audit;
use tussle_bench::read::{Direction, Document, Format, read};

macro_rules! real {
    ($name:literal) => {
        include_str!(concat!("data/real/", $name))
    };
}

fn document(text: &str) -> Document {
    let (document, problems) = read(text).unwrap();
    assert_eq!(problems, Vec::<String>::new());
    document
}

/// Format, name, unit, number of values and first value of every series.
fn check_series(text: &str, format: Format, expect: &[(&str, &str, usize, f64)]) {
    let series = document(text).series;
    let got: Vec<_> =
        series.iter().map(|s| (s.name.as_str(), s.unit.as_str(), s.values.len(), s.values[0])).collect();
    assert_eq!(got, expect);
    assert!(series.iter().all(|s| s.format == format));
}

#[test]
fn hyperfine_and_google_benchmark() {
    check_series(
        real!("hyperfine.json"),
        Format::Hyperfine,
        &[("sleep 0.01", "s", 4, 0.00772823448), ("sleep 0.012", "s", 4, 0.013586743480000002)],
    );
    let names = |text: &str| -> Vec<_> {
        document(text).series.into_iter().map(|s| (s.name, s.unit, s.values.len())).collect()
    };
    let expect = |n: usize| {
        [("BM_StringCreation/1024", "ns"), ("BM_Copy", "us")]
            .map(|(name, unit)| (name.into(), unit.into(), n))
    };
    assert_eq!(names(real!("google_repetitions.json")), expect(3));
    // Aggregates alone: the mean of the repetitions is one value.
    assert_eq!(names(real!("google_aggregates.json")), expect(1));
}

#[test]
fn criterion_samples_and_estimates() {
    let samples = document(real!("criterion_sample.json")).series;
    let estimates = document(real!("criterion_estimates.json")).series;
    assert_eq!((samples[0].values.len(), estimates[0].values.len()), (100, 1));
    assert_eq!((samples[0].format, samples[0].unit.as_str()), (Format::Criterion, "ns"));
    // The samples are batches of growing size; their mean per iteration is what criterion estimated.
    let mean = samples[0].values.iter().sum::<f64>() / 100.0;
    assert!((mean / estimates[0].values[0] - 1.0).abs() < 1e-6, "{mean} {:?}", estimates[0].values);
}

#[test]
fn benchstat_names_what_it_measures() {
    let d = document(real!("benchstat.txt"));
    let rows: Vec<_> = d
        .rows
        .iter()
        .map(|r| {
            let change = r.change.map(|c| c.value);
            (r.name.as_str(), r.statistic.as_deref().unwrap(), change, r.starred, r.direction)
        })
        .collect();
    let (low, high) = (Direction::Lower, Direction::Higher);
    let expect = [
        ("Build-2", "sec/op", None, Some(false), low),
        ("Sort-2", "sec/op", Some(7.72), Some(true), low),
        ("geomean", "sec/op", Some(9.42), None, low),
        ("Build-2", "B/s", None, Some(false), high),
        ("Build-2", "B/op", None, Some(false), low),
        ("Sort-2", "B/op", Some(18.75), Some(true), low),
        ("geomean", "B/op", Some(8.97), None, low),
        ("Build-2", "allocs/op", None, Some(false), low),
        ("Sort-2", "allocs/op", None, Some(false), low),
        ("geomean", "allocs/op", Some(0.0), None, low),
    ];
    assert_eq!(rows, expect);
    assert!((d.rows[1].old.value - 20.13e-6).abs() < 1e-15 && d.rows[1].new_deviation_percent == Some(15.0));
    assert!((d.rows[5].new.value - 9728.0).abs() < 1e-9);
    let audit = audit(&d);
    assert_eq!((audit.checked, audit.wrong.len()), (5, 0));
    let wrong = real!("benchstat.txt").replace("+18.75%", "+19.75%");
    assert_eq!(tussle_bench::audit::audit(&document(&wrong)).wrong.len(), 1);
}

#[test]
fn go_test_bench_is_raw_results() {
    let series = document(real!("go_bench.txt")).series;
    let about: Vec<_> = series.iter().map(|s| (s.name.as_str(), s.values.len(), s.direction)).collect();
    let (low, high) = (Direction::Lower, Direction::Higher);
    let expect = [
        ("Build-2 ns/op", 6, low),
        ("Build-2 MB/s", 6, high),
        ("Build-2 B/op", 6, low),
        ("Build-2 allocs/op", 6, low),
        ("Sort-2 ns/op", 6, low),
        ("Sort-2 B/op", 6, low),
        ("Sort-2 allocs/op", 6, low),
    ];
    assert_eq!(about, expect);
    assert_eq!((series[0].values[0], series[1].values[0]), (3344.0, 299.02));
}

/// Kind, title, lines and some figures of the only report.
fn check_report(text: &str, format: Format, title: &str, samples: usize, figures: &[(&str, f64)]) {
    let reports = document(text).reports;
    let [report] = reports.as_slice() else { panic!("{} reports", reports.len()) };
    assert_eq!((report.format, report.title.as_str(), report.samples), (format, title, samples));
    for (name, value) in figures {
        let got = report.figures.iter().find(|f| f.0 == *name);
        assert!(got.is_some_and(|g| (g.1 - value).abs() < 1e-9), "{name}: {got:?}");
    }
    assert!(report.figures.iter().all(|f| f.1.is_finite()));
}

#[test]
fn vmstat_plain_wide_and_with_timestamps() {
    check_report(
        real!("vmstat.txt"),
        Format::Vmstat,
        "",
        3,
        &[("free", 599712.0 / 3.0), ("cs", 1344.0 / 3.0), ("us", 159.0 / 3.0), ("st", 0.0 / 3.0)],
    );
    check_report(
        real!("vmstat_wide.txt"),
        Format::Vmstat,
        "",
        2,
        &[("free", 2189408.0 / 2.0), ("cs", 1393.0 / 2.0), ("us", 108.0 / 2.0), ("st", 0.0 / 2.0)],
    );
    let stamped = [("free", 1_494_912.0), ("active", 14_087_664.0), ("cs", 644.5), ("st", 0.0)];
    check_report(real!("vmstat_timestamps.txt"), Format::Vmstat, "", 2, &stamped);
}

#[test]
fn perf_report_flat_by_symbol_and_with_call_graphs() {
    let title = "Samples: 956  of event 'cpu-clock'";
    let flat = [("sh __strcmp_evex", 18.41), ("sh 0x0000000000009d55", 1.26)];
    check_report(real!("perf_report.txt"), Format::Profile, title, 13, &flat);
    let symbols = [("__strcmp_evex", 18.41), ("strcmp@plt", 2.62)];
    check_report(real!("perf_report_symbols.txt"), Format::Profile, title, 9, &symbols);
    let title = "Samples: 1K of event 'cpu-clock'";
    let graph = [("sh __strcmp_evex", 15.76), ("sh __strcspn_sse42", 4.24)];
    check_report(real!("perf_report_graph.txt"), Format::Profile, title, 2, &graph);
    // With --children the own samples count, or a caller would hide what its callees did.
    let own =
        [("ls entry_SYSCALL_64_after_hwframe", 0.0), ("ls do_syscall_64", 1.12), ("sh __strcmp_evex", 15.76)];
    check_report(real!("perf_report_children.txt"), Format::Profile, title, 8, &own);
}

#[test]
fn turbostat_counts_the_lines_of_the_whole_system_only() {
    let reports = document(real!("turbostat.txt")).reports;
    let about: Vec<_> = reports.iter().map(|r| (r.title.as_str(), r.samples)).collect();
    assert_eq!(about, [("78.062895 sec", 1), ("idle", 3), ("0       0.05  800     2600    1200    1200", 2)]);
    let figure = |i: usize, name: &str| reports[i].figures.iter().find(|f| f.0 == name).map(|f| f.1);
    assert_eq!((figure(0, "Busy%"), figure(0, "Pkg_J"), figure(0, "CPU")), (Some(2.95), Some(4747.52), None));
    assert_eq!(
        (figure(1, "Bzy_MHz"), figure(1, "UMHz0.0")),
        (Some((849.0 + 801.0 + 800.0) / 3.0), Some(1200.0))
    );
    assert_eq!((figure(2, "Avg_MHz"), figure(2, "TSC_MHz")), (Some(181.5), Some(2893.0)));
}

/// A line broken at the last blank before column 72, as mailers do, with the mark of a quote before the rest.
fn wrapped(text: &str, quote: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        loop {
            let limit = rest.char_indices().nth(72).map_or(rest.len(), |(i, _)| i);
            let cut = if limit == rest.len() { None } else { rest[..limit].trim_end().rfind(' ') };
            let cut = cut.filter(|&at| !rest[..at].trim().is_empty());
            let (head, tail) = rest.split_at(cut.unwrap_or(rest.len()));
            out += &format!("{quote}{head}\n");
            if tail.is_empty() {
                break;
            }
            rest = tail.trim_start();
        }
    }
    out
}

/// As a mail archive keeps a message that is not ASCII: quoted-printable, lines joined by `=`.
fn quoted_printable(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.replace('=', "=3D").replace('±', "=C2=B1");
        let (mut column, mut rest) = (0, line.as_str());
        while rest.len() > 70 {
            // Never inside of an escape.
            let cut = (60..70).rev().find(|&i| !rest.as_bytes()[i - 3..i].contains(&b'=')).unwrap();
            out += &format!("{}=\n", &rest[..cut]);
            column += cut;
            rest = &line[column..];
        }
        out += &format!("{rest}\n");
    }
    out
}

#[test]
fn tables_of_the_kernel_test_robot_after_mailers() {
    for (name, text) in [
        ("mmap1", include_str!("data/tables/0day_mmap1.txt")),
        ("context_switch1", include_str!("data/tables/0day_context_switch1.txt")),
        ("poll2", include_str!("data/tables/0day_poll2.txt")),
        ("misc", include_str!("data/tables/0day_misc.txt")),
    ] {
        let straight = document(text).rows;
        for (how, spoilt) in [
            ("wrapped", wrapped(text, "")),
            ("wrapped and quoted", wrapped(text, "> > ")),
            ("quoted-printable", quoted_printable(text)),
            ("quoted-printable and quoted", wrapped(&text.replace('±', "=C2=B1"), ">")),
            ("read as Latin-1", text.replace('±', "\u{c2}\u{b1}")),
            ("tabs and hard blanks", text.replace("  ", "\u{a0}\t")),
            ("Windows line ends", text.replace('\n', "\r\n")),
        ] {
            assert_eq!(document(&spoilt).rows, straight, "{name} {how}: {spoilt}");
        }
    }
}
