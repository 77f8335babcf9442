//! A hunt builds everything once, and with each patch what the patch reaches: no less, whatever the makefile knows.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use tussle_testkit::need;

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.args(arguments).current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache")).env("NO_COLOR", "1");
    c.env("BUILT", dir.join("built")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two counters of one struct side by side, each written in a file of its own, and a file that does not know of them.
const COUNTERS: [(&str, &str); 5] = [
    (
        "s.h",
        "struct stats { long a; long b; };\nextern struct stats all;\nvoid inc_a(void);\nvoid inc_b(void);\n",
    ),
    ("a.c", "#include \"deep.h\"\nstruct stats all;\nvoid inc_a(void) { all.a++; }\n"),
    ("deep.h", "#include \"s.h\"\n"),
    ("other.c", "int other(void) { return 0; }\n"),
    (
        "main.c",
        "#include <fcntl.h>\n#include <pthread.h>\n#include <unistd.h>\n#define COUNTERS \"s.h\"\n\
         #include COUNTERS\nint other(void);\nvoid inc_b(void) { all.b++; }\nstatic pthread_barrier_t go;\n\
         static void *a(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 100000; i++) inc_a(); return x; }\n\
         static void *b(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 100000; i++) inc_b(); return x; }\n\
         int main(void)\n{\n\tpthread_t t[2];\n\tif (open(\"once\", O_CREAT | O_EXCL | O_WRONLY, 0600) < 0) return 3;\n\
         \tpthread_barrier_init(&go, 0, 2);\n\
         \tpthread_create(&t[0], 0, a, 0);\n\tpthread_create(&t[1], 0, b, 0);\n\
         \tpthread_join(t[0], 0);\n\tpthread_join(t[1], 0);\n\treturn all.a + all.b != 200000 || other();\n}\n",
    ),
];

/// Objects that know their sources and no header.
const WITHOUT_HEADERS: &str = "prog: main.o a.o other.o\n\t$(CC) -pthread -o $@ $^\n\
                               %.o: %.c\n\techo $< >>$(BUILT)\n\t$(CC) -g -O1 -c -o $@ $<\n";
/// A program that knows nothing.
const WITHOUT_ANYTHING: &str =
    "prog:\n\techo all >>$(BUILT)\n\t$(CC) -g -O1 -pthread -o $@ main.c a.c other.c\n";

/// What a hunt of the counters says, and what was built for it, in order.
fn hunted(makefile: &str, more: &[&str]) -> (serde_json::Value, String, Vec<String>) {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("p");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in COUNTERS.iter().chain([&("Makefile", makefile)]) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let out = tussle(lab.path(), &[&["hunt", "p", "--no-bench", "--format", "json"], more].concat());
    let said = text(&out.stderr);
    let view = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let built = std::fs::read_to_string(lab.path().join("built")).unwrap_or_default();
    (view, said, built.lines().map(String::from).collect())
}

#[track_caller]
fn patched((view, said, built): (serde_json::Value, String, Vec<String>)) -> Vec<String> {
    assert_eq!(view["patches"].as_array().map(Vec::len), Some(1), "{view:#}\n{said}");
    // With half of it built before the patch, the threads would still write to one line.
    assert!(view["patches"][0]["transfers"]["after"].as_f64().unwrap() < 100.0, "{view:#}\n{said}");
    built
}

#[test]
fn what_includes_a_changed_header_is_built_again_and_nothing_else() {
    if !need("make") || !need("gcc") {
        return;
    }
    let mut built = patched(hunted(WITHOUT_HEADERS, &[]));
    let mut again = built.split_off(3);
    again.sort();
    built.sort();
    assert_eq!(built, ["a.c", "main.c", "other.c"]);
    assert_eq!(again, ["a.c", "main.c"]);
}

#[test]
fn what_no_rule_builds_again_is_built_as_a_whole() {
    if !need("make") || !need("gcc") {
        return;
    }
    assert_eq!(patched(hunted(WITHOUT_ANYTHING, &[])), ["all", "all"]);
}

/// The command fails where its folder is there already.
#[test]
fn a_build_that_works_once_is_done_in_a_new_copy() {
    if !need("make") || !need("gcc") {
        return;
    }
    let once = "mkdir out && echo once >>$BUILT && cc -g -O1 -pthread -o out/prog main.c a.c other.c";
    assert_eq!(patched(hunted(WITHOUT_HEADERS, &["--build", once])), ["once", "once"]);
}
