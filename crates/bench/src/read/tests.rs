use super::*;
use crate::audit::{audit, follows};

/// Facts of public mails and logs, cut to what the tests need; the first line of a file says where it is from.
macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/tables/", $name))
    };
}

fn document(text: &str) -> Document {
    let (document, problems) = read(text).unwrap();
    assert_eq!(problems, Vec::<String>::new());
    document
}

/// All rows recompute.
fn check(text: &str, rows: usize) -> crate::audit::Audit {
    let d = document(text);
    assert_eq!(d.rows.len(), rows, "{:?}", d.rows.iter().map(|r| &r.name).collect::<Vec<_>>());
    let audit = audit(&d);
    assert_eq!(audit.wrong, Vec::new());
    assert_eq!(audit.deviations.1, Vec::<String>::new());
    let recomputed = d.rows.iter().filter(|r| follows(r).is_some()).count();
    assert_eq!(audit.checked, recomputed);
    audit
}

#[test]
fn every_pasted_table_recomputes_within_the_rounding_of_its_numbers() {
    for (text, rows) in [
        (fixture!("0day_mmap1.txt"), 24),
        (fixture!("0day_context_switch1.txt"), 3),
        (fixture!("0day_poll2.txt"), 10),
        (fixture!("0day_misc.txt"), 17),
        (fixture!("mmtests_pft_pcpdrain.txt"), 15),
        (fixture!("mmtests_pft_pcpspinirq.txt"), 5),
        (fixture!("mmtests_pft_pervma.txt"), 16),
        (fixture!("mmtests_pft_prefetch_off.txt"), 16),
        (fixture!("mmtests_pft_vmlock.txt"), 10),
        (fixture!("mmtests_hackbench.txt"), 14),
    ] {
        check(text, rows);
    }
}

/// Cover letters arrive as a single line with all white space collapsed, tables quoted and wrapped by mailers.
#[test]
fn collapsed_wrapped_and_quoted_tables_read_the_same() {
    let straight = document(fixture!("mmtests_pft_pervma.txt")).rows;
    let collapsed = fixture!("mmtests_pft_pervma.txt").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(document(&collapsed).rows, straight);
    let quoted: String = fixture!("mmtests_pft_pervma.txt").lines().map(|l| format!("> > {l}\n")).collect();
    assert_eq!(document(&quoted).rows, straight);

    let robot = document(fixture!("0day_mmap1.txt")).rows;
    let wrapped =
        fixture!("0day_mmap1.txt").replace("  will-it-scale.", "\n> will-it-scale.").replace('%', "% ");
    let wrapped = wrapped.replace("% stddev", "%stddev");
    let names = |rows: &[Row]| rows.iter().map(|r| (r.name.clone(), r.new.value)).collect::<Vec<_>>();
    assert_eq!(names(&document(&wrapped).rows), names(&robot));
}

#[test]
fn a_percentage_that_does_not_follow_is_named() {
    let text = fixture!("mmtests_pft_pervma.txt").replace("14.76%", "24.76%");
    let wrong = audit(&document(&text)).wrong;
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0].1.starts_with("printed 24.76, but 200061.2238 → 229597.0317 is +14.76"),
        "{}",
        wrong[0].1
    );
    let text = fixture!("mmtests_pft_pcpdrain.txt").replace("0.8670", "0.9670");
    assert_eq!(audit(&document(&text)).deviations.1.len(), 1);
    let text = fixture!("0day_mmap1.txt").replace("-9.2%     310805", "-8.2%     310805");
    assert_eq!(audit(&document(&text)).wrong.len(), 2);
}

/// −0.26% has no star, −0.24% has one. The rule of its time explains that for 9 to 35 iterations.
#[test]
fn the_star_trap_is_answered_with_rules_and_ranges() {
    let audit = check(fixture!("mmtests_pft_pcpdrain.txt"), 15);
    assert_eq!(audit.deviations.0, 10);
    let fitting: Vec<_> = audit.star_rules.iter().map(|r| r.samples.clone()).collect();
    assert_eq!(fitting, [vec![(9, 35)], vec![(9, 35)], vec![(13, 49)], vec![(13, 49)], vec![]]);
    assert!(
        audit
            .notes
            .iter()
            .any(|n| n.contains("faults/sec-5 -0.26% is not starred but faults/sec-3 -0.24% is"))
    );
}

#[test]
fn all_stars_look_like_mmtests_without_r() {
    for text in [fixture!("mmtests_pft_pervma.txt"), fixture!("mmtests_pft_prefetch_off.txt")] {
        let audit = check(text, 16);
        assert!(audit.notes.iter().any(|n| n.contains("looks like mmtests without R")), "{:?}", audit.notes);
    }
    let audit = check(fixture!("mmtests_pft_pcpdrain.txt"), 15);
    assert!(!audit.notes.iter().any(|n| n.contains("without R")));
}

#[test]
fn missing_deviations_are_at_most_two_percent_and_raw_samples_give_the_printed_mean() {
    let audit = check(fixture!("0day_context_switch1.txt"), 3);
    assert!(
        audit.notes[0].contains("2 of 3 rows print no deviation on a side: it was 2% or less"),
        "{:?}",
        audit.notes
    );
    assert!(
        audit.notes.iter().any(|n| n.contains("4 raw samples is 101819.5, as printed")),
        "{:?}",
        audit.notes
    );
}

/// The mail on rwsem against mutex (2013): two vmstat excerpts, two profiles, two turbostat lines of which three
/// headings are blank.
#[test]
fn system_reports_of_the_rwsem_mail() {
    let reports = document(fixture!("rwsem_mutex_reports.txt")).reports;
    let kinds: Vec<_> = reports.iter().map(|r| (r.format, r.samples, r.title.as_str())).collect();
    let of = |i: usize, format, samples, title| assert_eq!(kinds[i], (format, samples, title));
    of(0, Format::Vmstat, 2, "vmstat for mutex implementation");
    of(1, Format::Vmstat, 2, "vmstat for rw-sem implementation (3.10-rc4)");
    of(2, Format::Profile, 14, "Profile for mutex implementation");
    of(3, Format::Profile, 13, "Profile for rw-sem implementation");
    of(4, Format::Turbostat, 1, "turbostat for mutex implementation");
    of(5, Format::Turbostat, 1, "turbostat of rw-sem implementation (3.10-rc4)");
    assert_eq!(kinds.len(), 6);
    let figure = |i: usize, name: &str| reports[i].figures.iter().find(|f| f.0 == name).unwrap().1;
    let change = |name: &str| 100.0 * (figure(1, name) / figure(0, name) - 1.0);
    assert!((change("cs") - 44.6).abs() < 0.05, "{}", change("cs"));
    assert!((change("in") - 36.1).abs() < 0.05, "{}", change("in"));
    assert_eq!((figure(4, "%c0"), figure(5, "%c0")), (82.91, 80.10));
    assert_eq!((figure(2, "exim page_fault"), figure(3, "exim page_fault")), (5.02, 4.88));
}

#[test]
fn raw_results() {
    let series = |text: &str| -> Vec<(String, Vec<f64>)> {
        document(text).series.into_iter().map(|s| (s.name, s.values)).collect()
    };
    let of = |name: &str, values: &[f64]| (name.to_string(), values.to_vec());
    let wis = "testcase:mmap\nwarmup\nmin:1 max:2 total:3\n\
         measurement\nmin:39512 max:40962 total:80474\naverage:82171\n";
    assert_eq!(series(wis), [of("mmap", &[80474.0])]);
    let csv = "tasks,processes,processes_idle,threads,threads_idle,linear\n\
         0,0,100,0,100,0\n104,1200363,0.04,9,0.00,0\n";
    assert_eq!(series(csv), [of("processes-104", &[1_200_363.0]), of("threads-104", &[9.0])]);
    let pft = " Gb  Thr CLine   User     System     Wall    flt/cpu/s fault/wsec\n\
         \x20   2    3   1      0.04s      1.20s    0.60s 779925.611 2336662.091\n";
    assert_eq!(series(pft), [of("faults/cpu-3", &[779_925.611]), of("faults/sec-3", &[2_336_662.091])]);
    let unixbench = "File Copy 1024 bufsize 2000 maxblocks       1675624.0 KBps  (30.0 s, 7 samples)\n\
        System Benchmarks Partial Index              BASELINE       RESULT    INDEX\n\
        File Copy 1024 bufsize 2000 maxblocks          3960.0    1675624.0   4231.4\n\
        System Benchmarks Index Score (Partial Only)                         4231.4\n";
    let got = series(unixbench);
    assert_eq!(got[0], of("File Copy 1024 bufsize 2000 maxblocks (KBps)", &[1_675_624.0]));
    assert_eq!(got[2], of("System Benchmarks Index Score (Partial Only)", &[4231.4]));
    let hyperfine = r#"{"results":[{"command":"sleep 1","mean":1.0,"times":[1.0,1.1,0.9]}]}"#;
    assert_eq!(series(hyperfine), [of("sleep 1", &[1.0, 1.1, 0.9])]);
    let google = r#"{"context":{},"benchmarks":[
        {"name":"BM_a/repeats:2","run_name":"BM_a","run_type":"iteration","real_time":5.0,"time_unit":"ns"},
        {"name":"BM_a/repeats:2","run_name":"BM_a","run_type":"iteration","real_time":6.0,"time_unit":"ns"},
        {"name":"BM_a_mean","run_name":"BM_a","run_type":"aggregate","real_time":5.5,"time_unit":"ns"}]}"#;
    assert_eq!(series(google), [of("BM_a", &[5.0, 6.0])]);
    assert_eq!(series(r#"{"iters":[10.0,20.0],"times":[100.0,220.0]}"#), [of("criterion", &[10.0, 11.0])]);
    assert_eq!(series(r#"{"mean":{"point_estimate":12.5}}"#), [of("criterion", &[12.5])]);
}

#[test]
fn benchstat_old_and_new() {
    let old = "name   old time/op  new time/op  delta\n\
         Gob-8  13.6ms ± 1%  11.8ms ± 1%  -13.31%  (p=0.016 n=4+5)\n\
         JSON-8 32.1ms ± 1%  31.8ms ± 1%  ~  (p=0.286 n=4+5)\n";
    let rows = document(old).rows;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].name.as_str(), rows[0].statistic.as_deref(), rows[0].starred),
        ("Gob-8", Some("time/op"), Some(true))
    );
    assert!((rows[0].old.value - 0.0136).abs() < 1e-12);
    assert!(audit(&document(old)).wrong.is_empty());
    let new = "Gob-8   13.61m ± 1%   11.80m ± 1%  -13.31% (p=0.002 n=6)\n";
    assert!(audit(&document(new)).wrong.is_empty());
    let (mixed, problems) =
        read("A-8 1.0ms ± 1% 2.0MB ± 1% +1.0% (p=0.01 n=5+5)\nB-8 1.0ms ± 1% 1.0ms ± 1% ~ (p=0.9 n=5+5)\n")
            .unwrap();
    assert_eq!((mixed.rows.len(), problems.len()), (1, 1));
    assert!(problems[0].contains("mixed units"), "{problems:?}");
}

#[test]
fn bad_input_is_an_error_or_a_problem_never_a_guess() {
    let check = |text: &str, expect: &str| {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    check("", "the file is empty");
    check("hello\n", "no known format in it");
    check("{\"a\": ", "no known format in it (not JSON");
    check("{}", "no known format in it;");
    let (d, problems) =
        read("Hmean x-1 nan ( 0.00%) 5.0 ( 1.00%)\nHmean x-2 4.0 ( 0.00%) 5.0 ( 25.00%)\n").unwrap();
    assert_eq!((d.rows.len(), problems), (1, vec!["Hmean x-1: nan is no number".to_string()]));
    let (d, problems) = read(r#"{"results":[{"command":"c","times":[1.0,-2.0]}]}"#).unwrap();
    assert_eq!(d.series[0].values, [1.0]);
    assert_eq!(problems, ["c: 1 values that are not finite and positive left out"]);
}

proptest::proptest! {
    /// Nothing that a mail may hold makes a reader panic.
    #[test]
    fn no_text_panics(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "Hmean", "Stddev", "x", "1.0", "(", "0.00%)", "*", "5%*", "±", "%", "+1%", "-", "\n", "r", "b", "swpd",
            "%c0",
            "5.0%", "[k]", "tasks,", "1,2", "testcase:a", "measurement", "total:5", "{", "nan", "a.b", "1e999",
            "\u{a0}", ">",
        ]), 0..60))
    {
        let text = words.join(" ");
        if let Ok((document, _)) = read(&text) {
            audit(&document);
        }
    }
}

/// A mail of the kernel test robot about three commits: every change is against the first column.
#[test]
fn changes_of_further_commits_are_against_the_first_column() {
    let mail = "\
        ---------------- --------------------------- ---------------------------\n\
            100000 ±  2%     -10.0%      90000             +5.0%     105000 ±  1%  will-it-scale.per_thread_ops\n\
              4.50         +1.5        6.00         -0.5        4.00        perf-profile.calltrace.cycles-pp.down\n";
    let (document, _) = read(mail).unwrap();
    let seen: Vec<(usize, f64, f64)> =
        document.rows.iter().map(|r| (r.column, r.old.value, r.new.value)).collect();
    assert_eq!(seen, [(1, 1e5, 9e4), (2, 1e5, 1.05e5), (1, 4.5, 6.0), (2, 4.5, 4.0)]);
    assert!(!crate::audit::audit(&document).accuses(), "{:?}", crate::audit::audit(&document));
    assert_eq!(document.rows[1].new_deviation_percent, Some(1.0));
}

#[test]
fn exports_of_other_tools_are_read_as_what_they_are() {
    let one = |text: &str| {
        let (document, problems) = read(text).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        let s = document.series.into_iter().next().unwrap();
        (s.format, s.name, s.unit, s.direction, s.values)
    };
    let nanobench = r#"{"results": [{"title": "t", "name": "hash", "unit": "op", "batch": 1,
        "median(elapsed)": 2e-9,
        "measurements": [{"iterations": 10, "elapsed": 2e-9}, {"iterations": 9, "elapsed": 3e-9}]}]}"#;
    let (lower, higher) = (Direction::Lower, Direction::Higher);
    assert_eq!(one(nanobench), (Format::Nanobench, "hash".into(), "s".into(), lower, vec![2e-9, 3e-9]));
    let pytest = r#"{"machine_info": {}, "benchmarks": [{"name": "test_sort", "fullname": "t.py::test_sort",
        "stats": {"mean": 0.5, "data": [0.4, 0.6]}}]}"#;
    let name = "t.py::test_sort".to_string();
    assert_eq!(one(pytest), (Format::PytestBenchmark, name, "s".into(), lower, vec![0.4, 0.6]));
    let jmh = r#"[{"benchmark": "a.B.c", "mode": "thrpt", "params": {"n": "10"},
        "primaryMetric": {"score": 5.0, "scoreUnit": "ops/us", "rawData": [[4.0, 5.0], [6.0]]}}]"#;
    assert_eq!(one(jmh), (Format::Jmh, "a.B.c n=10".into(), "ops/us".into(), higher, vec![4.0, 5.0, 6.0]));
}

#[test]
fn no_samples_are_no_result() {
    for text in [
        r#"{"results": [{"command": "x", "times": []}]}"#,
        r#"{"results": [{"command": "x", "mean": 1.0, "times": []}]}"#,
        r#"{"results": [{"name": "x", "measurements": []}]}"#,
        r#"{"benchmarks": [{"name": "x", "stats": {}}]}"#,
    ] {
        let error = read(text).unwrap_err();
        assert!(error.to_string().contains("x: no samples in it"), "{error}");
    }
}

#[test]
fn samples_that_are_none_are_told() {
    let metric = r#"{"score":1.5,"scoreUnit":"ns/op","rawData":[[1.5,"NaN",1.4]]}"#;
    let jmh = format!(r#"[{{"benchmark":"b","mode":"avgt","primaryMetric":{metric}}}]"#);
    let (_, problems) = read(&jmh).unwrap();
    assert_eq!(problems, ["b: 1 values that are not finite and positive left out"]);
    let hyperfine = r#"{"results":[{"command":"c","times":[1.0,1e308,1.1],"exit_codes":[0,1,0]}]}"#;
    let (_, problems) = read(hyperfine).unwrap();
    let failed = "c: 1 of its 3 runs failed; their times count all the same";
    assert_eq!(problems, [failed, "c: 1 values that are not finite and positive left out"]);
}
