use super::*;
use tussle_evidence::sample::Sample;

/// Every column of a table is as long as the table says.
fn is_table(t: &Value) {
    let length = t["length"].as_u64().unwrap();
    for (name, column) in t.as_object().unwrap().iter().filter(|(n, _)| *n != "length" && *n != "weightType")
    {
        assert_eq!(column.as_array().unwrap().len() as u64, length, "{name}: {t}");
    }
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
}

#[test]
fn tables_are_whole_and_nothing_is_lost() {
    let mut s = Sample::two_counters();
    let e = s.tables().clone();
    let p = profile(&e).unwrap();
    for table in ["stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources"] {
        is_table(&p["shared"][table]);
    }
    let threads = p["threads"].as_array().unwrap();
    assert_eq!(threads.len(), e.actors.len());
    let stacks = p["shared"]["stackTable"]["length"].as_f64().unwrap();
    for (i, t) in threads.iter().enumerate() {
        is_table(&t["samples"]);
        is_table(&t["markers"]);
        assert!(numbers(&t["samples"]["time"]).is_sorted(), "{t}");
        assert!(numbers(&t["samples"]["stack"]).iter().all(|s| *s < stacks));
        let of = e.accesses.iter().filter(|a| a.actor as usize == i);
        let want: u64 = of.map(|a| a.reads + a.writes + a.rmws).sum();
        assert_eq!(numbers(&t["samples"]["weight"]).iter().sum::<f64>(), want as f64);
    }
}

#[test]
fn every_contended_line_has_a_track_whose_sum_is_its_cost() {
    let mut s = Sample::two_counters();
    let e = s.tables().clone();
    let p = profile(&e).unwrap();
    let seen = contention(&e, &Question::observed());
    let counters = p["counters"].as_array().unwrap();
    assert_eq!(counters.len(), seen.lines.len());
    assert!(!counters.is_empty());
    for (counter, line) in counters.iter().zip(&seen.lines) {
        is_table(&counter["samples"]);
        let sum: f64 = numbers(&counter["samples"]["count"]).iter().sum();
        assert!((sum - line.e.e).abs() <= 0.02 * line.e.e, "{sum} {}", line.e.e);
        assert!(counter["mainThreadIndex"].as_u64().unwrap() < e.actors.len() as u64);
    }
}

/// An access of no length, at the last moment: it has a step, too.
#[test]
fn what_happens_at_the_end_is_drawn() {
    let mut s = Sample::new(1000);
    let threads = [(); 2].map(|()| s.thread("t", None));
    let o = s.global("counter", 0x1000, 8, None, 8);
    for _ in 0..2 {
        threads.iter().for_each(|&t| s.access(o, 0, 8, t, (4000, 4000), [0, 50, 0]));
    }
    let p = profile(s.tables()).unwrap();
    let counts = numbers(&p["counters"][0]["samples"]["count"]);
    assert!(counts.last().is_some_and(|e| *e > 0.0), "{counts:?}");
}

#[test]
fn a_source_without_times_has_no_profile() {
    let mut s = Sample::two_counters();
    s.tables().run.sees.time = false;
    assert_eq!(profile(s.tables()), None);
}
