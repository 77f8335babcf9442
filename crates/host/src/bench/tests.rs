use super::*;
use tussle_bench::Outcome;

fn plan(a: &str, b: &str, pairs: usize) -> Plan {
    let mut plan = Plan::new(vec![Command::shell("a", a), Command::shell("b", b)], pairs);
    plan.warmup = 0;
    plan
}

fn by_regex(mut plan: Plan, pattern: &str) -> Plan {
    plan.metric = Metric::regex(pattern, tussle_bench::MetricKind::Rate);
    plan
}

#[test]
fn a_command_that_does_twice_the_work_is_found_with_its_figures() {
    let spin = |n: u32| format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done");
    let paired = paired(&plan(&spin(4000), &spin(40_000), 6)).unwrap();
    let v = tussle_bench::verdict(&paired).unwrap();
    assert_eq!(v.outcome, Outcome::Regressed, "{}", v.wording);
    assert!(v.ratio.ratio > 1.5, "{}", v.wording);
    let first = &paired.pairs[0][0];
    assert!(first.wall_s > 0.0 && first.faults_minor.unwrap() > 0 && first.load.is_some());
    assert!(first.cpu_s().unwrap() < first.wall_s + 0.05);
}

#[test]
fn a_metric_is_read_from_the_output_and_every_sample_is_written_at_once() {
    let mut log = Vec::new();
    let plan = by_regex(plan("echo ops: 100", "echo ops: 200 >&2", 3), r"ops: (\d+)");
    let run = run(&plan, Some(&mut log), &mut |_| {}).unwrap();
    assert!(run.stopped.is_none());
    let text = String::from_utf8(log).unwrap();
    let (read, problems) = sample::parse(&text).unwrap();
    assert_eq!((read, problems.len()), (run.results, 0));
    let paired = Paired::from_results(&sample::parse(&text).unwrap().0, 0, 1).unwrap();
    assert_eq!(paired.values(), [vec![100.0; 3], vec![200.0; 3]]);
}

#[test]
fn a_command_that_prints_nothing_ends_it_with_a_reason_and_keeps_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs");
    // Works twice, then breaks for good.
    let flaky = format!("echo x >> {0}; [ $(wc -l < {0}) -le 2 ] && echo ops: 5; exit 3", file.display());
    let good_then_bad = format!("{flaky} 2>/dev/null").replace("exit 3", "[ $(wc -l < RUNS) -le 2 ]");
    let command = good_then_bad.replace("RUNS", &file.display().to_string());
    let plan = by_regex(plan("echo ops: 5", &command, 20), r"ops: (\d+)");
    let run = run(&plan, None, &mut |_| {}).unwrap();
    let text = run.stopped.unwrap().to_string();
    assert!(text.starts_with("b: exit status 1"), "{text}");
    assert_eq!(run.results.samples.iter().filter(|s| s.arm == 1 && s.value.is_some()).count(), 2);

    let silent = by_regex(super::tests::plan("echo ops: 5", "true", 20), r"ops: (\d+)");
    let text = paired(&silent).unwrap_err().to_string();
    assert!(text.starts_with("b: no metric in its output (it printed nothing)"), "{text}");
}

#[test]
fn crashes_limits_and_missing_programs_are_told_apart() {
    let check = |command: Command, expect: &str| {
        let mut plan = Plan::new(vec![Command::shell("a", "true"), command], 3);
        plan.timeout = Some(Duration::from_millis(300));
        let text = paired(&plan).unwrap_err().to_string();
        assert!(text.starts_with(expect), "{text}");
    };
    check(Command::shell("b", "echo broken >&2; kill -SEGV $$"), "b: killed by signal 11: broken (");
    check(Command::shell("b", "sleep 20 & sleep 20"), "b: ran into the time limit");
    check(Command::argv("b", ["/nonexistent/program"]), "b: could not be started (No such file");
    check(Command::shell("b", "exit 7"), "b: exit status 7");
}

#[test]
fn a_plan_without_sense_does_not_start() {
    let check = |plan: Plan, expect: &str| assert_eq!(paired(&plan).unwrap_err().to_string(), expect);
    check(Plan::new(vec![Command::shell("a", "true")], 5), "a benchmark needs at least two arms");
    check(plan("true", "true", 1), "at least two pairs are needed");
    check(plan("true", " ", 4), "an arm has no command");
    let twins = Plan::new(vec![Command::shell("a", "true"), Command::shell("a", "true")], 4);
    check(twins, "two arms are called a");
}

#[test]
fn until_decided_stops_early_when_the_answer_is_plain() {
    let mut plan = by_regex(plan("echo ops: 10$(($$ % 10))", "echo ops: 20$(($$ % 10))", 2), r"ops: (\d+)");
    plan.until = Until::Decided { question: Criterion::default(), pairs_max: 60 };
    let paired = paired(&plan).unwrap();
    let v = tussle_bench::verdict(&paired).unwrap();
    assert_eq!(v.outcome, Outcome::Improved, "{}", v.wording);
    assert!(v.pairs < 20, "{}", v.pairs);
    assert!(paired.sequential && v.e_value >= 20.0);
}

#[test]
fn pinning_and_fixed_addresses_reach_the_program() {
    let mut plan =
        by_regex(plan("cat /proc/self/status", "cat /proc/self/status", 2), r"Cpus_allowed_list:\s+(\d+)$");
    plan.cpus = Some(vec![0]);
    plan.fixed_addresses = true;
    // CPU 0 reads as 0, which no metric may be: pinned to CPU 0 there is "no metric", and the reason names the value.
    let text = paired(&plan).unwrap_err().to_string();
    assert!(text.contains("the metric is 0"), "{text}");
}

#[test]
fn counters_of_the_run_and_its_children_are_kept_or_their_absence_is_explained() {
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut plan = plan(spin, &format!("sh -c '{spin}'; sh -c '{spin}'"), 3);
    let mut log = Vec::new();
    let run = run(&plan, Some(&mut log), &mut |_| {}).unwrap();
    let header = &run.results.header;
    let names: Vec<&str> = run.results.samples[0].counters.iter().map(|c| c.0.as_str()).collect();
    match &header.counters_missing {
        Some(why) => assert!(!why.is_empty() && !names.iter().any(|n| n.starts_with("cycles")), "{names:?}"),
        None => {
            let cycles = |arm: usize| {
                let of = run.results.samples.iter().find(|s| s.arm == arm).unwrap();
                of.counters.iter().find(|c| c.0.starts_with("cycles")).unwrap().1
            };
            assert!(cycles(1) > cycles(0), "children count");
        }
    }
    // Migrations are counted by any kernel with perf events, with or without a PMU.
    if header.counters_missing.as_deref() != Some("the kernel has no perf events") {
        println!("{names:?} {:?}", header.counters_missing);
    }
    plan.counters = false;
    let without = super::run(&plan, None, &mut |_| {}).unwrap().results;
    assert!(
        without.samples.iter().all(|s| s.counters.is_empty()) && without.header.counters_missing.is_none()
    );
}

#[test]
fn a_migration_between_two_pinned_cpus_is_counted() {
    if !tussle_testkit::need("two CPUs") || !tussle_testkit::need("taskset") {
        return;
    }
    let there_and_back = "taskset -p 1 $$ >/dev/null; taskset -p 2 $$ >/dev/null; taskset -p 1 $$ >/dev/null; \
                          taskset -p 2 $$ >/dev/null";
    let paired = paired(&plan("true", there_and_back, 2)).unwrap();
    if let Some(migrations) = paired.pairs[0][1].counter("cpu_migrations") {
        assert!(migrations >= 3, "{migrations}");
    }
}
