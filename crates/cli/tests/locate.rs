//! Objects of a running process: `tussle where`, values in memory and in a core, and gdb's commands.

mod schema;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tussle_testkit::need;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct stats { long hits; long misses; struct { int x, y; } at[4]; char name[8]; };
struct stats counters __attribute__((aligned(64))) = { 5, -7, {{1, 2}, {3, 4}}, "eth0" };
static int neighbour __attribute__((aligned(64)));
long zeroed[3];
struct gap { char kind; int count; } holed[2] = { { 1, 2 } };
static const long fixed[2] = { 7, 8 };
int main(void) {
    struct stats *heap = calloc(1, sizeof *heap);
    heap->misses = 42;
    printf("%p %p %p %p %p %p\n", (void *)&counters.at[1].y, (void *)&neighbour, (void *)heap, (void *)&zeroed[1],
        (void *)&fixed[1], (void *)((char *)&holed[1] + 2));
    fflush(stdout);
    if (!getenv("QUICK")) sleep(600);
    return neighbour;
}
"#;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn build(dir: &Path, flags: &[&str]) {
    std::fs::write(dir.join("p.c"), PROGRAM).unwrap();
    let built = Command::new("gcc").args(["-g", "p.c", "-o", "p"]).args(flags).current_dir(dir).status();
    assert!(built.is_ok_and(|s| s.success()));
}

/// The process and the addresses that it printed.
fn start(dir: &Path) -> (Running, Vec<String>) {
    let mut child = Command::new(dir.join("p")).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Running(child), line.split_whitespace().map(Into::into).collect())
}

fn tussle(args: &[&str]) -> (String, Option<i32>) {
    let out = Command::new(env!("CARGO_BIN_EXE_tussle")).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (text, out.status.code())
}

#[track_caller]
fn says(args: &[&str], words: &[&str]) {
    let (text, code) = tussle(args);
    assert_eq!(code, Some(0), "{args:?}: {text}");
    words.iter().for_each(|w| assert!(text.contains(w), "{args:?} lacks {w}:\n{text}"));
}

#[test]
fn addresses_of_a_process_have_names() {
    if !need("gcc") {
        return;
    }
    for flags in [&["-O1"][..], &["-no-pie", "-static"], &["-Wl,-z,separate-code", "-Wl,-z,norelro"]] {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path(), flags);
        let (child, at) = start(dir.path());
        let pid = child.0.id().to_string();
        says(&["where", &pid, &at[0]], &["counters", "struct stats", "at[1].y", "at[3].x", "hits"]);
        for address in [&at[0], &at[2]] {
            let (json, _) = tussle(&["where", &pid, address, "--format", "json"]);
            let json = json.lines().filter(|l| !l.starts_with("tussle:")).collect::<Vec<_>>().join("\n");
            schema::keeps_to("where", &serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}")));
        }
        says(&["where", &pid, &at[1]], &["neighbour"]);
        says(&["where", &pid, &at[3]], &["zeroed", "[1]"]);
        says(&["where", &pid, &at[4]], &["fixed", "[1]"]);
        says(&["where", &pid, &at[5]], &["holed", "[1]", "padding: 3 bytes", "kind"]);
        says(&["where", &pid, &at[2]], &["unknown", "--type and --base"]);
        let inside = format!("{:#x}", u64::from_str_radix(&at[2][2..], 16).unwrap() + 8);
        says(&["where", &pid, &inside, "--type", "stats", "--base", &at[2]], &["struct stats", "misses"]);
        let file = dir.path().join("p").display().to_string();
        says(&["layout", &file, "-C", "stats", "--pid", &pid, "--addr", &at[2]], &[".misses = 42"]);
        let (text, code) = tussle(&["layout", &file, "-C", "stats", "--addr", "5"]);
        assert!(code == Some(2) && text.contains("--pid or --core"), "{text}");
        let (text, code) = tussle(&["layout", &file, "--prefix", "nothing_begins_so"]);
        assert!(code == Some(2) && text.contains("leave no type"), "{text}");
        let (text, code) = tussle(&["where", &pid, "0x10"]);
        assert!(code == Some(2) && text.contains("nothing at 0x10"), "{text}");
    }
    assert_eq!(tussle(&["where", "999999999", "0x10"]).1, Some(2));
}

#[test]
fn drgn_asks_for_its_process() {
    let found =
        Command::new("python3").args(["-c", "import drgn"]).output().is_ok_and(|o| o.status.success());
    if !found {
        return tussle_testkit::skip("python3 has no drgn");
    }
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), &["-O0"]);
    let (child, at) = start(dir.path());
    let code = format!(
        "import drgn, sys\nsys.path.insert(0, {:?})\nfrom drgn_tussle import where\nfrom drgn import Object\n\
         p = drgn.program_from_pid({})\nwhere(p, p['counters'].misses.address_of_())\n\
         heap = Object(p, 'struct stats *', value={})\nwhere(p, heap.misses.address_of_(), heap)\n",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts"),
        child.0.id(),
        at[2]
    );
    let mut python = Command::new("python3");
    let out = python.args(["-c", &code]).env("TUSSLE", env!("CARGO_BIN_EXE_tussle")).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    if text.contains("Operation not permitted") {
        return tussle_testkit::skip("drgn may not read a process here");
    }
    let times = |w: &str| text.matches(w).count();
    assert!(times("misses") >= 4 && text.contains("counters") && text.contains("(stats *)0x"), "{text}");
}

#[test]
fn gdb_asks_for_its_process() {
    if !need("gcc") || !need("gdb") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), &["-O0"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/gdb-tussle.py");
    let run = |commands: &[&str]| {
        let mut gdb = Command::new("gdb");
        gdb.args([
            "-nx",
            "-batch",
            "-ex",
            &format!("source {script}"),
            "-ex",
            "set disable-randomization off",
        ]);
        gdb.args(["-ex", "set env QUICK=1", "-ex", "break fflush", "-ex", "run", "-ex", "up"]);
        for c in commands {
            gdb.args(["-ex", c]);
        }
        let out = gdb
            .arg("p")
            .current_dir(dir.path())
            .env("TUSSLE", env!("CARGO_BIN_EXE_tussle"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    };
    let text =
        run(&["tussle-where &counters.misses", "tussle-where heap &heap->misses", "tussle-layout *heap"]);
    if text.contains("ptrace: Operation not permitted") {
        return tussle_testkit::skip("gdb may not trace here");
    }
    let times = |w: &str| text.matches(w).count();
    assert!(times("misses") >= 3 && times("struct stats") >= 3 && text.contains("counters"), "{text}");
    // a core of the same process, read without it
    let text = run(&["print/x (long)heap", "gcore core.saved"]);
    let heap = text.lines().find_map(|l| l.strip_prefix("$1 = ")).unwrap_or_else(|| panic!("{text}"));
    let (file, core) = (dir.path().join("p"), dir.path().join("core.saved"));
    let (file, core) = (file.display().to_string(), core.display().to_string());
    says(&["layout", &file, "-C", "stats", "--core", &core, "--addr", heap], &[".misses = 42"]);
    let (text, code) = tussle(&["layout", &file, "-C", "stats", "--core", &core, "--addr", "0x10"]);
    assert!(code == Some(2) && text.contains("not in it"), "{text}");
}
