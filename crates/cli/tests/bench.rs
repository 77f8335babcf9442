//! `tussle bench`, `compare` and `history` as a user meets them: revisions, several arms, bad input.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn tussle(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tussle")).current_dir(folder).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it, expects an exit status, reads its JSON.
fn json(folder: &Path, arguments: &[&str], status: i32) -> Value {
    let run = tussle(folder, &[arguments, &["--format", "json"]].concat());
    let (out, talk) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(status), "{out}{talk}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{talk}"))
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
    let run = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    text(&run.stdout).trim().to_string()
}

/// A repository whose program prints its throughput: one commit per level, tagged `v0`, `v1`, ...
fn repository(folder: &Path, levels: &[u32]) {
    git(folder, &["init", "-q"]);
    fs::create_dir(folder.join("below")).unwrap();
    fs::write(folder.join("below/readme"), "text\n").unwrap();
    for (i, level) in levels.iter().enumerate() {
        fs::write(folder.join("source"), program(*level)).unwrap();
        git(folder, &["add", "-A"]);
        git(folder, &["commit", "-qm", &format!("level {level}")]);
        git(folder, &["tag", &format!("v{i}")]);
    }
}

/// The noise comes from the process id.
fn program(level: u32) -> String {
    format!("#!/bin/sh\necho ops: $(({level} + $$ % 5))\n")
}

const BUILD: [&str; 4] = ["--build", "cp source prog && chmod +x prog", "--metric", r"regex:ops: (\d+)"];

#[test]
fn revisions_are_built_beside_the_repository_and_compared() {
    if !tussle_testkit::need("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (repo, at) = (folder.path().join("repo"), folder.path());
    fs::create_dir(&repo).unwrap();
    repository(&repo, &[1000, 900]);
    let inside = repo.join("below").display().to_string();
    let bench = |more: &[&str], status| {
        let revisions = ["bench", "-q", "./prog", "--repository", &inside, "--pairs", "8", "--warmup", "0"];
        json(at, &[&revisions[..], &BUILD, more].concat(), status)
    };
    let result = bench(&["--checkout", "v0", "--checkout", "HEAD"], 1);
    assert_eq!(result["comparisons"][0]["verdict"], "regressed");
    let ratio = result["comparisons"][0]["ratio"]["ratio"].as_f64().unwrap();
    assert!((ratio - 0.9).abs() < 0.01, "{ratio}");
    assert_eq!(result["overview"], Value::Null, "one candidate needs no overview");

    // The header knows the commits, so that a history need not be told.
    let log = fs::read_to_string(at.join("tussle-bench.jsonl")).unwrap();
    let header: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(header["commits"][0], git(&repo, &["rev-parse", "v0"]).as_str());
    let added = at.join("tussle-bench.jsonl").display().to_string();
    json(&repo, &["history", "--add", &added, "--arm", "v0"], 0);
    let history = fs::read_to_string(repo.join("tussle-history.jsonl")).unwrap();
    assert!(
        history.contains(header["commits"][0].as_str().unwrap()) && history.contains("level 1000"),
        "{history}"
    );
    fs::remove_file(repo.join("tussle-history.jsonl")).unwrap();

    // The working tree counts as it is, with files that nobody committed; and nothing was left in it.
    fs::write(repo.join("source"), "#!/bin/sh\n. ./new\n").unwrap();
    fs::write(repo.join("new"), program(1100)).unwrap();
    let result = bench(&["--checkout", "v0", "--checkout", "v1", "--checkout", "."], 1);
    let verdicts: Vec<&Value> =
        result["overview"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, ["regressed", "improved"]);
    assert_eq!(result["overview"][1]["arm"], "working tree");
    for (row, full) in [0, 1].map(|i| (&result["overview"][i], &result["comparisons"][i])) {
        let p = |of: &Value, key: &str| of[key].as_f64().unwrap();
        assert!(p(row, "p_holm") >= p(row, "p_sign_flip") && row["p_holm"] == full["p_holm"], "{row}");
    }
    assert_eq!(git(&repo, &["status", "--porcelain"]), "M source\n?? new");
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn mistakes_with_revisions_are_told() {
    if !tussle_testkit::need("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path(), &[10, 20]);
    let check = |arguments: &[&str], expect: &str| {
        let run = tussle(folder.path(), &[&["bench", "-q"], arguments].concat());
        let talk = text(&run.stderr);
        assert!(run.status.code() == Some(2) && talk.contains(expect), "{talk}");
    };
    check(&["--checkout", "v0", "./prog"], "give --checkout twice or more");
    check(&["--checkout", "v0", "--checkout", "v1"], "--checkout needs one command");
    check(&["--checkout", "v0", "--checkout", "v1", "./a", "./b"], "2 were given");
    check(&["--checkout", "v0", "--checkout", "v7", "./prog"], "git rev-parse");
    check(
        &["--checkout", "v0", "--checkout", "v1", "--build", "echo no such thing; exit 3", "./prog"],
        "no such thing",
    );
    check(&["--checkout", "v0", "--checkout", "v1", "--repository", "/", "./prog"], "not a git repository");
    check(&["--build", "make", "./a", "./b"], "--checkout");
}

#[test]
fn a_cache_keeps_builds() {
    if !tussle_testkit::need("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path(), &[1000, 900]);
    let count = folder.path().join("count");
    let build = format!("echo x >> {}; cp source prog; chmod +x prog", count.display());
    let cache = folder.path().join("cache").display().to_string();
    for _ in 0..2 {
        let revisions = ["bench", "-q", "--checkout", "v0", "--checkout", "v1", "--pairs", "3", "./prog"];
        let rest = ["--build", &build, "--cache", &cache, "--metric", r"regex:ops: (\d+)"];
        json(folder.path(), &[&revisions[..], &rest].concat(), 1);
    }
    assert_eq!(fs::read_to_string(count).unwrap(), "x\nx\n");
}

#[test]
fn a_result_reads_in_the_styles_of_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let arms = ["bench", "-q", "base-a=echo 10$(($$ % 10))", "base-b=echo 20$(($$ % 10))"];
    json(at, &[&arms[..], &["--metric", "last-number", "--pairs", "6"]].concat(), 0);
    let style = |name: &str| text(&tussle(at, &["compare", "tussle-bench.jsonl", "--style", name]).stdout);
    let mmtests = style("mmtests");
    let row = mmtests
        .lines()
        .find(|l| l.starts_with("Hmean     last-number"))
        .unwrap_or_else(|| panic!("{mmtests}"));
    assert!(row.contains('*') && mmtests.lines().next().unwrap().ends_with("base"), "{mmtests}");
    let lkp = style("lkp");
    assert!(lkp.lines().last().unwrap().ends_with("  last-number") && lkp.contains("base-b"), "{lkp}");
}

/// A hint tells spinning from sleeping where throughput alone sees nothing.
#[test]
fn spinning_instead_of_sleeping_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let work = "echo ops: $((1000000 + $$ % 10))";
    let sleeps = format!("sleeps=sleep 0.03; {work}");
    let spins = format!("spins=i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; {work}");
    let how = ["--metric", r"regex:ops: (\d+)", "--kind", "total", "--pairs", "6", "--warmup", "0"];
    let result = json(folder.path(), &[&["bench", "-q", &sleeps, &spins], &how[..]].concat(), 0);
    let comparison = &result["comparisons"][0];
    assert_eq!(comparison["verdict"], "equivalent");
    let hint = comparison["hint"].as_str().unwrap_or_else(|| panic!("{comparison}"));
    assert!(hint.starts_with("as fast, but more CPU time per unit of work: it spins"), "{hint}");
    assert!(comparison["work_per_cpu_second"]["high"].as_f64().unwrap() < 0.9, "{comparison}");
}

#[test]
fn workloads_that_do_not_exist_or_cannot_run_say_so() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expect) in [
        (["workload", "-q", "mmap9", "--once"].as_slice(), "no workload is called mmap9"),
        (&["workload", "-q", "mmap1", "--tasks", "0"], "from 1 to 4096 tasks"),
    ] {
        let run = tussle(folder.path(), arguments);
        let talk = text(&run.stderr);
        assert!(run.status.code() == Some(2) && talk.contains(expect), "{expect} is not in {talk}");
    }
}

#[test]
fn commands_that_cannot_be_measured_end_with_a_reason_and_keep_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let check = |arguments: &[&str], expect: &str| {
        let run = tussle(at, &[&["bench", "-q", "--warmup", "0"], arguments].concat());
        let talk = text(&run.stderr);
        assert!(run.status.code() == Some(2) && talk.contains(expect), "{expect} is not in {talk}");
    };
    let number = ["--metric", "last-number"];
    let of = |a: &'static str, b: &'static str| [&["x=echo 5", "y=echo 5"][..0], &[a, b], &number].concat();
    check(&of("x=echo 5", "y=echo nan"), "y: no metric in its output (it printed no number)");
    check(&of("x=echo 5", "y=echo -3"), "y: no metric in its output (the metric is -3");
    check(&of("x=echo 5", "y=echo 0"), "the metric is 0; it must be finite and positive");
    check(&of("x=echo 5", "y=echo 1e999"), "the metric is inf");
    check(&of("x=echo 5", "y=true"), "y: no metric in its output (it printed nothing)");
    check(&of("x=echo 5", "y=kill -SEGV $$"), "y: killed by signal 11");
    check(&of("x=echo 5", "y=exit 3"), "y: exit status 3");
    check(&of("x=echo 5", "y=./not-there"), "y: exit status 127: /bin/sh");
    check(&["echo 5", "echo 6", "--metric", "json:/a"], "no number at /a");
    check(&["echo 5", "echo 6", "--metric", "regex:("], "is not a regular expression");
    check(&["echo 5", "echo 6", "--metric", "speed"], "known are wall, cpu");
    check(&["echo 5"], "give two commands or more");
    check(&["x=echo 5", "x=echo 6"], "two arms are called x");
    check(&["echo 5", "echo 6", "--pairs", "1"], "at least two pairs are needed");
    check(&["echo 5", "echo 6", "--margin=-1"], "--margin is a percentage");
    check(&["echo 5", "echo 6", "--cpus", "3-1"], "is no range of CPUs");
    check(&["echo 5", "echo 6", "--cpus", "8000"], "there is no CPU 8000");
    check(&["echo 5", "echo 6", "--until", "decided", "--order", "blocked"], "cannot run the arms in blocks");
    check(&["a=sleep 9", "b=true", "--timeout", "0.1"], "a: ran into the time limit");

    // A benchmark that breaks in its ninth run: eight samples are kept, and `compare` reads what is complete.
    let breaks = "y=echo x >> runs; [ $(wc -l < runs) -le 4 ] && echo 7$(($$ % 10))";
    check(&["x=echo 50", breaks, "--metric", "last-number", "--pairs", "9", "--seed", "5"], "samples kept");
    let log = fs::read_to_string(at.join("tussle-bench.jsonl")).unwrap();
    let kept = log.lines().filter(|l| l.contains("\"status\":\"ok\",\"value\":")).count();
    assert!(kept >= 8, "{log}");
    let compared = json(at, &["compare", "tussle-bench.jsonl"], 0);
    assert_eq!(compared["comparisons"][0]["arms"][0]["runs"], 4);
    let warnings = compared["comparisons"][0]["warnings"].to_string();
    assert!(
        warnings.contains("y: exit status 1, 3 times") && warnings.contains("only 4 pairs"),
        "{warnings}"
    );
    assert!(at.join("tussle-bench.jsonl.old").exists());
}

#[test]
fn results_that_cannot_be_compared_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let google = |unit: &str| {
        format!(
            r#"{{"benchmarks":[{{"name":"b","real_time":5.0,"time_unit":"{unit}"}},
            {{"name":"b","real_time":6.0,"time_unit":"{unit}"}}]}}"#
        )
    };
    let header = r#"{"tussle_bench":1,"arms":["a","b"],"commands":[],"metric":{"name":"m","kind":"cost","from":"wall"},
        "order":"random_within_pairs","seed":1,"warmup":0,"cpus":2,"sequential":false}"#
        .replace('\n', " ");
    let run = |arm: usize, pair: usize, value: &str| {
        format!(
            r#"{{"pair":{pair},"arm":{arm},"position":0,"status":"ok","value":{value},"started_s":0,"wall_s":1}}"#
        )
    };
    let huge = usize::MAX;
    for (name, content) in [
        ("empty", String::new()),
        ("unknown", "hello\n".into()),
        ("binary", "\u{0}\u{1}\u{fffd}".repeat(50)),
        ("json", "{\"a\": [1, ".into()),
        ("ns.json", google("ns")),
        ("us.json", google("us")),
        ("one.json", r#"{"results":[{"command":"c","times":[1.0]}]}"#.into()),
        ("header", format!("{header}\n")),
        ("one-pair", format!("{header}\n{}\n{}\n", run(0, 0, "1.5"), run(1, 0, "1.6"))),
        (
            "negative",
            format!(
                "{header}\n{}\n{}\n{}\n{}\n",
                run(0, 0, "1.5"),
                run(1, 0, "-1"),
                run(0, huge, "1.5"),
                run(1, huge, "1.6")
            ),
        ),
        ("escapes", r#"{"results":[{"command":"\u001b[31mred","times":[]}]}"#.into()),
        ("future", header.replace("\"tussle_bench\":1", "\"tussle_bench\":9")),
    ] {
        fs::write(at.join(name), content).unwrap();
    }
    let check = |arguments: &[&str], status: i32, expect: &str| {
        let run = tussle(at, &[&["compare"], arguments].concat());
        let said = text(&run.stderr) + &text(&run.stdout);
        assert!(run.status.code() == Some(status) && said.contains(expect), "{arguments:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains('\u{1b}'), "{said}");
    };
    check(&["--read", "escapes"], 2, "[31mred: no samples in it");
    check(&["--read", "empty"], 2, "the file is empty");
    check(&["--read", "unknown"], 2, "no known format in it");
    check(&["--read", "binary"], 2, "no known format in it");
    check(&["--read", "json"], 2, "not JSON");
    check(&["--read", "missing"], 2, "cannot read missing");
    check(&["empty", "unknown"], 2, "the file is empty");
    check(&["ns.json", "us.json"], 0, "b: mixed units, ns and us");
    check(&["one.json", "one.json"], 0, "1 and 1 usable samples; two a side are needed");
    check(&["header"], 2, "only 0 complete pairs; at least two are needed");
    check(&["one-pair"], 2, "only 1 complete pairs");
    check(&["negative"], 2, "b: a value is not finite and positive");
    check(&["future"], 2, "version 9");
    check(&["."], 2, "cannot read .");
    check(&[".", "."], 2, "no raw results in it");
    check(
        &["ns.json", "ns.json", "--style", "mmtests:1999"],
        2,
        "known are own, mmtests:2022, mmtests:mid, lkp",
    );
}

/// As root, moving the older output away would take `/dev/null` from everybody.
#[test]
fn an_output_that_is_no_file_is_written_and_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, copy) = (folder.path().join("pipe"), folder.path().join("copy"));
    if !tussle_testkit::need("mkfifo") {
        return;
    }
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut reader =
        Command::new("sh").arg("-c").arg("cat < pipe > copy").current_dir(folder.path()).spawn().unwrap();
    let run = tussle(folder.path(), &["bench", "-q", "true", "a=true", "--pairs", "2", "-o", "pipe"]);
    assert_ne!(run.status.code(), Some(2), "{}", text(&run.stderr));
    reader.wait().unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap().lines().count(), 1 + 2 + 4);
    assert!(!folder.path().join("pipe.old").exists() && !fs::metadata(pipe).unwrap().is_file());
}

#[test]
fn a_result_cut_off_in_the_middle_of_a_line_loses_that_line_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run =
        tussle(at, &["bench", "-q", "a=echo 1$$", "b=echo 1$$", "--metric", "last-number", "--pairs", "4"]);
    assert_ne!(run.status.code(), Some(2), "{}", text(&run.stderr));
    let log = fs::read_to_string(at.join("tussle-bench.jsonl")).unwrap();
    fs::write(at.join("cut"), &log[..log.len() - 40]).unwrap();
    let run = tussle(at, &["compare", "cut", "--format", "json"]);
    assert!(text(&run.stderr).contains("cut: line 11: EOF while parsing"), "{}", text(&run.stderr));
    let json: Value = serde_json::from_str(&text(&run.stdout)).unwrap();
    assert_eq!(json["comparisons"][0]["arms"][0]["runs"], 3);
}

/// Killed in the middle of a pair: complete pairs are kept, the rest runs again, another benchmark is refused.
#[test]
fn an_interrupted_benchmark_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let bench = |b: &str, more: &[&str]| {
        let base =
            ["bench", "-q", "a=echo 10$$", b, "--metric", "last-number", "--pairs", "6", "--no-counters"];
        tussle(at, &[&base[..], more].concat())
    };
    let log = || fs::read_to_string(at.join("tussle-bench.jsonl")).unwrap();
    assert_ne!(bench("b=echo 10$$", &[]).status.code(), Some(2));
    let whole = log();
    // Header, a warm-up round, two pairs, a half, and a line that was being written.
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = lines[..8].concat() + &lines[8][..30];
    fs::write(at.join("tussle-bench.jsonl"), &cut).unwrap();
    let run = bench("b=echo 10$$", &["--resume"]);
    assert_ne!(run.status.code(), Some(2), "{}", text(&run.stderr));
    let now = log();
    assert!(now.starts_with(lines[0]), "{now}");
    let runs = |pair: usize| {
        let of = format!("{{\"pair\":{pair},");
        now.lines().filter(|l| l.starts_with(&of) && l.contains("\"warmup\":false")).count()
    };
    assert_eq!((0..7).map(runs).collect::<Vec<_>>(), [2, 2, 2, 2, 2, 2, 0], "{now}");
    let place = |line: &str| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap();
    let places: Vec<u64> = now.lines().skip(1).map(place).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "every run has a place of its own: {places:?}");
    let first =
        |from: &str| from.lines().find(|l| l.starts_with("{\"pair\":1,\"arm\":0")).unwrap().to_string();
    assert_eq!(first(&now), first(&whole), "complete pairs are kept");
    let other = bench("b=echo 20$$", &["--resume"]);
    let talk = text(&other.stderr);
    assert!(other.status.code() == Some(2) && talk.contains("its arms differ"), "{talk}");
    assert_eq!(log(), now, "a refusal touches nothing");
    assert_eq!(bench("b=echo 10$$", &["--resume", "-o", "missing"]).status.code(), Some(2));
}

#[test]
fn the_screen_has_the_answer_and_documents_have_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let arms = ["bench", "-q", "a=echo 5$$", "b=echo 5$$", "--metric", "last-number", "--pairs", "8"];
    let screen = text(&tussle(at, &arms).stdout);
    assert!(screen.contains("-v shows") && !screen.contains("e-value"), "{screen}");
    let all = text(&tussle(at, &["compare", "tussle-bench.jsonl", "-v"]).stdout);
    assert!(all.contains("e-value") && all.lines().next() == screen.lines().next(), "{all}");
    let page = text(&tussle(at, &["compare", "tussle-bench.jsonl", "--format", "html"]).stdout);
    assert!(page.contains("of every run") && page.contains("e-value"), "no plot");
}

#[test]
fn a_history_takes_tables_too() {
    if !tussle_testkit::need("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    repository(at, &[1]);
    let add = |content: &str| {
        fs::write(at.join("result"), content).unwrap();
        let _ = fs::remove_file(at.join("tussle-history.jsonl"));
        json(at, &["history", "--add", "result"], 0)["series"].clone()
    };
    let three = "Hmean     faults-1   100.00 (   0.00%)   98.00 (  -2.00%)   103.00 (   3.00%)\n\
                 Stddev    faults-1     1.00 (   0.00%)    1.00 (   0.00%)     1.00 (   0.00%)\n";
    let series = add(three);
    assert_eq!(series.as_array().unwrap().len(), 1, "{series}");
    assert_eq!(series[0]["name"], "Hmean faults-1");
    assert_eq!(series[0]["points"][0]["mean"].as_f64().unwrap().round(), 103.0);
    let rows = |file: &str| json(at, &["compare", "--read", file], 0)["rows"].clone();
    let columns = rows("result");
    assert_eq!((&columns[0]["column"], &columns[1]["column"]), (&2.into(), &3.into()));
    let csv =
        ",old,,new,,,\n,sec/op,CI,sec/op,CI,vs base,P\nA,2.00e-05,3%,1.00e-05,1%,-50.00%,p=0.000 n=10\n";
    assert_eq!(add(csv)[0]["name"], "sec/op A");
    assert_eq!(rows("result")[0].get("column"), None);
}
