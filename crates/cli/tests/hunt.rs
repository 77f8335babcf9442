//! The whole loop as a user runs it, on the example, without the measurement (wall time is no test).

mod schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tallyd")
}

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tussle"))
        .args(arguments)
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hunt(dir: &Path, more: &[&str]) -> Output {
    let source = example();
    let mut arguments = vec!["hunt", source.to_str().unwrap(), "--run", "./tallyd 300 4", "--no-bench"];
    arguments.extend(more);
    tussle(dir, &arguments)
}

#[test]
fn the_example_is_found_explained_and_patched() {
    if !tussle_testkit::need("make") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = hunt(dir.path(), &["--format", "json"]);
    let view: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    schema::keeps_to("hunt", &view);
    let drawn = |p: &serde_json::Value| p["before"]["stretches"].is_array();
    assert!(view["patches"].as_array().unwrap().iter().any(drawn), "{view:#} {}", text(&out.stderr));
    // The copy that was built is gone; the evidence speaks of the folder.
    let report = tussle(dir.path(), &["report", "--format", "md", "--sources", example().to_str().unwrap()]);
    let report = text(&report.stdout);
    assert!(report.contains("./tallyd 300 4") && !report.contains("tussle-"), "{report}");
    // Recorded again with all patches: everything that a layout helps is gone, neighbours on the heap, too.
    let left = view["left"].as_array().cloned().unwrap_or_default();
    assert_eq!(view["beside"], serde_json::Value::Null, "{}", text(&out.stderr));
    // A spin lock whose holder is not running costs its waiters what no layout gives back; how often that happens hangs
    // on the machine. What may be left is that lock with its own data, and then the exit status says so.
    let of_the_lock = |l: &serde_json::Value| {
        let fields = l["fields"].as_str().unwrap();
        fields.contains("audit") && !fields.contains("polls") && !fields.contains("worker_stats")
    };
    assert!(left.iter().all(of_the_lock), "{left:?} {}", text(&out.stderr));
    assert_eq!(out.status.code(), Some(i32::from(!left.is_empty())), "{left:?} {}", text(&out.stderr));
    let lines = view["lines"].as_array().unwrap();
    let of = |name: &str| {
        lines.iter().filter(|l| l["fields"].as_str().unwrap().contains(name)).collect::<Vec<_>>()
    };
    let kind =
        |name: &str| of(name).iter().map(|l| l["kind"].as_str().unwrap().to_string()).collect::<Vec<_>>();
    assert!(kind("worker_stats").iter().any(|k| k == "a layout helps"), "{lines:?}");
    // How much of this one a layout removes hangs on where malloc put it: from a fifth to nearly all.
    assert!(!kind("server_stats").is_empty(), "{lines:?}");
    // Every worker writes the one counter: contended, but nothing to fix.
    assert!(kind("answer_number").iter().all(|k| k == "no layout helps: the same bytes"), "{lines:?}");
    // In which order they are repaired hangs on the run, and whether by one patch or by two: where a neighbour polls
    // in it, the elements are parted first and the neighbour later. That the workers' struct is, and well, does not.
    let patches = view["patches"].as_array().unwrap();
    let of_workers: Vec<_> =
        patches.iter().filter(|p| p["type"].as_str().unwrap().contains("worker_stats")).collect();
    assert!(!of_workers.is_empty(), "{patches:?}");
    let transfers = |p: &serde_json::Value, what: &str| p["transfers"][what].as_f64().unwrap();
    let (before, after) =
        (transfers(of_workers[0], "before"), transfers(of_workers[of_workers.len() - 1], "after"));
    assert!(before > 1000.0 && after < before / 10.0, "{of_workers:?}");
    // The patch applies to the example as it is, and the example was not touched.
    let patch = std::fs::read_to_string(dir.path().join("tussle.patch")).unwrap();
    assert!(patch.contains("--- a/tallyd.h\n+++ b/tallyd.h\n"), "{patch}");
    // Statistics that begin on a line are allocated so.
    assert!(patch.contains("--- a/main.c\n+++ b/main.c\n") && patch.contains("aligned_alloc"), "{patch}");
    assert!(!example().join("tallyd.o").exists() && !example().join("main.o").exists());
}

#[test]
fn a_folder_without_a_makefile_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let out = tussle(dir.path(), &["hunt", "."]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--build"), "{}", text(&out.stderr));
    assert!(out.stdout.is_empty());
}

#[test]
fn a_build_that_fails_shows_its_last_lines() {
    let dir = tempfile::tempdir().unwrap();
    let out = tussle(dir.path(), &["hunt", ".", "--build", "echo no such header >&2; exit 3"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no such header"), "{}", text(&out.stderr));
}

/// Two threads, each counting in its own member by a function of another file.
const COUNTERS: [(&str, &str); 4] = [
    (
        "s.h",
        "struct stats { long a; long b; };\nextern struct stats all;\nvoid inc_a(void);\nvoid inc_b(void);\n",
    ),
    (
        "inc.c",
        "#include \"s.h\"\nstruct stats all;\nvoid inc_a(void) { all.a++; }\nvoid inc_b(void) { all.b++; }\n",
    ),
    (
        "main.c",
        "#include <pthread.h>\n#include \"s.h\"\nstatic pthread_barrier_t go;\n\
         static void *a(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 100000; i++) inc_a(); return x; }\n\
         static void *b(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 100000; i++) inc_b(); return x; }\n\
         int main(void)\n{\n\tpthread_t t[2];\n\tpthread_barrier_init(&go, 0, 2);\n\
         \tpthread_create(&t[0], 0, a, 0);\n\tpthread_create(&t[1], 0, b, 0);\n\
         \tpthread_join(t[0], 0);\n\tpthread_join(t[1], 0);\n\treturn all.a + all.b != 200000;\n}\n",
    ),
    ("Makefile", "CC = gcc\nprog: main.o inc.o\n\t$(CC) $(CFLAGS) -pthread -o $@ $^\n"),
];

/// What a hunt of the counters, built with these flags, says of the program as it is built for use.
fn built_for_use(flags: &str) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    for (name, text) in COUNTERS {
        std::fs::write(project.join(name), text).unwrap();
    }
    let build = format!("make CC=cc CFLAGS='{flags}'");
    let out = tussle(dir.path(), &["hunt", "project", "--build", &build, "--pairs", "2", "--format", "json"]);
    let view: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));
    schema::keeps_to("hunt", &view);
    assert_eq!(view["lines"][0]["kind"], "a layout helps", "{flags}: {view}");
    view["only_instrumented"].clone()
}

#[test]
fn stores_that_link_time_optimisation_removes_are_only_in_the_instrumented_build() {
    if !tussle_testkit::need("make") || !tussle_testkit::need("gcc") {
        return;
    }
    let gone = built_for_use("-O2 -g -flto");
    assert!(gone[0]["why"].as_str().unwrap().starts_with("only in the instrumented build"), "{gone}");
    assert_eq!(built_for_use("-O2 -g"), serde_json::Value::Null, "the loops call a function that stores");
}

/// What a hunt makes of two counters on the heap, in a program that ends by printing what `prints` says of them.
fn hunt_that_prints(prints: &str, more: &[&str]) -> (Output, serde_json::Value) {
    hunt_of("", "malloc(sizeof(struct pair))", prints, more)
}

/// The same with a function of its own, and memory from somewhere else.
fn hunt_of(function: &str, memory: &str, prints: &str, more: &[&str]) -> (Output, serde_json::Value) {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let text = format!(
        "#include <malloc.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         {function}struct pair {{ long a; long b; }};\nstatic struct pair *p;\nstatic pthread_barrier_t go;\n\
         static void *a(void *x) {{\n\tpthread_barrier_wait(&go);\n\
         \tfor (int i = 0; i < 20000; i++) __atomic_fetch_add(&p->a, 1, __ATOMIC_RELAXED);\n\treturn x;\n}}\n\
         static void *b(void *x) {{\n\tpthread_barrier_wait(&go);\n\
         \tfor (int i = 0; i < 20000; i++) __atomic_fetch_add(&p->b, 1, __ATOMIC_RELAXED);\n\treturn x;\n}}\n\
         int main(void) {{\n\tpthread_t t[2];\n\tpthread_barrier_init(&go, 0, 2);\n\
         \tp = {memory};\n\tp->a = p->b = 0;\n\
         \tpthread_create(&t[0], 0, a, 0);\n\tpthread_create(&t[1], 0, b, 0);\n\
         \tpthread_join(t[0], 0);\n\tpthread_join(t[1], 0);\n\tputs(\"counted\");\n\t{prints}\n\treturn 0;\n}}\n"
    );
    std::fs::write(project.join("main.c"), text).unwrap();
    let build = "gcc -O1 -g -pthread -o prog main.c";
    let words = ["hunt", "project", "--build", build, "--no-bench", "--format", "json"];
    let out = tussle(dir.path(), &[&words, more].concat());
    let view: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", errors(&out)));
    schema::keeps_to("hunt", &view);
    (out, view)
}

/// A function that is told a size has nothing to align: the counters are put apart where they are.
#[test]
fn where_no_allocation_can_be_aligned_a_gap_is_taken() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let wrapper = "static __attribute__((noinline)) void *get(size_t n) {\n\tchar *p = malloc(n + 16);\n\
                   \tif (!p) abort();\n\treturn p + 16;\n}\n";
    let (out, view) = hunt_of(wrapper, "get(sizeof(struct pair))", "", &[]);
    assert_eq!(out.status.code(), Some(0), "{view} {}", errors(&out));
    assert!(view["diff"].to_string().contains("char b_gap[64];"), "{view}");
}

fn errors(out: &Output) -> String {
    text(&out.stderr)
}

#[test]
fn a_patch_under_which_the_program_prints_something_else_is_not_taken() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    // No source says that it counts on the size of the struct: the heap does.
    let (out, view) = hunt_that_prints(r#"printf("%zu bytes\n", malloc_usable_size(p));"#, &[]);
    assert_eq!(view["patches"], serde_json::json!([]), "{view}");
    let reasons = view["passed_over"].to_string();
    let wanted = "the patched program printed something else: line 2 was";
    assert!(reasons.contains(wanted) && reasons.contains("24 bytes"), "{reasons} {}", errors(&out));
    assert_eq!(out.status.code(), Some(1), "the case is still there");
}

#[test]
fn outputs_that_differ_by_themselves_cannot_be_compared() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let output = |prints: &str| {
        let (out, view) = hunt_that_prints(prints, &[]);
        assert_eq!(out.status.code(), Some(0), "{view} {}", errors(&out));
        view["patches"][0]["output"].as_str().unwrap_or_default().to_string()
    };
    let varies = output(r#"printf("%d\n", (int)getpid());"#);
    assert!(varies.contains("could not be compared: it differs from run to run"), "{varies}");
    // Nor do a copy's folder and the addresses in it count.
    let same = output(r#"char at[999]; printf("%ld %p %s\n", p->a + p->b, (void *)&go, getcwd(at, 999));"#);
    assert_eq!(same, "the same as without the patch");
}

#[test]
fn a_layout_that_others_may_know_is_patched_when_nobody_does() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let writes = "int at[2]; if (pipe(at) || write(at[1], p, sizeof *p) < 0) return 3;";
    let (out, view) = hunt_that_prints(writes, &[]);
    let reasons = view["passed_over"].to_string();
    assert!(reasons.contains("write() takes its bytes") && reasons.contains("--abi-ok"), "{reasons}");
    assert_eq!(out.status.code(), Some(1), "the case is still there");
    let (out, view) = hunt_that_prints(writes, &["--abi-ok"]);
    assert_eq!(view["patches"].as_array().map(Vec::len), Some(1), "{view} {}", errors(&out));
    assert_eq!(out.status.code(), Some(0), "{view}");
}

#[test]
fn a_patch_that_was_there_before_is_not_taken_for_this_hunts() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let two = "#include <pthread.h>\nstatic long a;\nstatic void *f(void *x) { a++; return x; }\n\
               int main(void) { pthread_t t; long n = 0; for (int i = 0; i < 2000; i++) n += a;\n\
               pthread_create(&t, 0, f, 0); pthread_join(t, 0); return n > 0; }\n";
    std::fs::write(dir.path().join("main.c"), two).unwrap();
    let hunt = || text(&tussle(dir.path(), &["hunt", "main.c", "--no-bench"]).stdout);
    assert!(!hunt().contains("tussle.patch"));
    std::fs::write(dir.path().join("tussle.patch"), "of another hunt").unwrap();
    let said = hunt();
    assert!(said.contains("tussle.patch was there before and is not of this hunt"), "{said}");
    assert_eq!(std::fs::read_to_string(dir.path().join("tussle.patch")).unwrap(), "of another hunt");
}

/// Two threads with a counter each, and the limit on addresses that the program finds, into a file of its arguments.
const LIMITED: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
static struct { volatile long a, b; } s;
static pthread_barrier_t go;
static void *f(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 200000; i++) s.a++; return x; }
int main(int argc, char **argv) {
	pthread_t t;
	struct rlimit r;
	getrlimit(RLIMIT_AS, &r);
	FILE *o = fopen(argv[argc - 1], "a");
	fprintf(o, "%ld\n", (long)r.rlim_cur);
	fclose(o);
	pthread_barrier_init(&go, 0, 2);
	pthread_create(&t, 0, f, 0);
	pthread_barrier_wait(&go);
	for (int i = 0; i < 200000; i++) s.b++;
	pthread_join(t, 0);
	return 0;
}
"#;

/// What tussle raises for itself it does not hand on, to the second recording as little as to the first.
#[test]
fn every_recording_has_the_limits_that_were_given() {
    if !tussle_testkit::need("make") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("p");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("p.c"), LIMITED).unwrap();
    std::fs::write(folder.join("Makefile"), "p: p.c\n\t$(CC) -g -O1 -o p p.c -pthread\n").unwrap();
    let seen = dir.path().join("seen");
    let line = "ulimit -S -v 9000000; exec \"$0\" hunt p --run \"./p $1\" --no-bench";
    let tussle = env!("CARGO_BIN_EXE_tussle").as_ref();
    let arguments = ["-c".as_ref(), line.as_ref(), tussle, seen.as_os_str()];
    let out = std::process::Command::new("sh").args(arguments).current_dir(dir.path()).output().unwrap();
    let seen = std::fs::read_to_string(&seen).unwrap_or_default();
    assert!(seen.lines().count() >= 2, "{}", text(&out.stderr));
    assert!(seen.lines().all(|l| l == "9216000000"), "{seen}");
}
