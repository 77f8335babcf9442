//! From advice to a patch whose offsets the compiler confirmed, on small programs.

mod common;

use common::folder;
use std::path::Path;

use tussle_advise::{Edit, Options};
use tussle_evidence::sample::Sample;
use tussle_host::fix::{self, Build, FixError, Patched, Request};
use tussle_testkit::need;

fn patch(dir: &Path, type_name: &str, edits: &[&str], build: &Build) -> Result<Patched, FixError> {
    let edits: Vec<Edit> = edits.iter().map(|e| e.parse().expect("an edit")).collect();
    fix::patch_tree(
        &Request {
            dir,
            type_name,
            decl: None,
            edits: &edits,
            build,
            abi_ok: false,
            sites: &[],
            workshop: None,
        },
        &mut |_| {},
    )
}

fn after(patched: &Patched, field: &str) -> u64 {
    patched.fields.iter().find(|f| f.path == field).expect("the field").after
}

const QUEUE: &str = "\
#include <stdio.h>

/* Work that waits. */
struct queue {
\tlong lock;\t/* taken by everybody */
\t/* Written by the consumer. */
\tlong taken;
\tchar name[40];
\tlong added; // by producers
\tint depth;
};

struct pair { struct queue q[2]; int tail; };

static struct queue q = { .name = \"main\" };
int main(void) { struct pair p = { .tail = 3 }; q.taken++; return p.tail - 3 + (int)(q.taken - 1); }
";

#[test]
fn a_move_is_compiled_before_it_is_shown() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[("queue.c", QUEUE)]);
    let p = patch(dir.path(), "struct queue", &["taken:after:depth"], &Build::Plain).expect("a patch");
    assert_eq!((p.size_before, p.size_after), (72, 72));
    assert_eq!((after(&p, "taken"), after(&p, "name"), after(&p, "depth")), (64, 8, 56));
    let expect = "\
--- a/queue.c
+++ b/queue.c
@@ -3,11 +3,11 @@
 /* Work that waits. */
 struct queue {
 \tlong lock;\t/* taken by everybody */
-\t/* Written by the consumer. */
-\tlong taken;
 \tchar name[40];
 \tlong added; // by producers
 \tint depth;
+\t/* Written by the consumer. */
+\tlong taken;
 };
 
 struct pair { struct queue q[2]; int tail; };
";
    assert_eq!(p.diff, expect);
    // Nothing was written; --apply writes exactly the file, and a changed file is left alone.
    let path = dir.path().join("queue.c");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), QUEUE);
    fix::apply(dir.path(), &p).expect("applied");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), p.files[0].new);
    assert!(matches!(fix::apply(dir.path(), &p), Err(FixError::Io { .. })));
}

#[test]
fn every_kind_of_edit_gets_the_predicted_offsets() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[("queue.c", QUEUE)]);
    let check = |edits: &[&str], expect: (u64, &str, u64)| {
        let p = patch(dir.path(), "queue", edits, &Build::Plain).expect("a patch");
        assert_eq!((p.size_after, after(&p, expect.1)), (expect.0, expect.2), "{edits:?}\n{}", p.diff);
    };
    check(&["swap:lock,depth"], (72, "lock", 64));
    check(&["align:taken=64"], (128, "taken", 64));
    check(&["align:taken=64", "align:name=64"], (192, "name", 128));
    check(&["element=64"], (128, "taken", 8));
    check(&["pad=64"], (128, "taken", 8));
    check(&["gap:taken=64"], (136, "taken", 72));
    check(&["gap:taken=64", "gap:name=64"], (200, "name", 144));
    check(&["depth:first", "pad=128"], (128, "lock", 8));
    check(&["taken@64"], (72, "taken", 64));
    check(&["lock@56"], (72, "lock", 56));
    let e = patch(dir.path(), "queue", &["taken@20"], &Build::Plain).expect_err("a refusal").to_string();
    assert!(e.contains("no move or exchange of members puts taken at byte 20"), "{e}");
}

#[test]
fn a_block_of_a_configuration_moves_whole() {
    if !need("gcc") {
        return;
    }
    let text = "\
#define COMPAT 1
struct mm {
\tlong users;
\tstruct { long next, prev; } mmlist;
\tlong base;
#ifdef COMPAT
\t/* Base addresses for compat tasks. */
\tlong compat_base;
\tint compat_legacy;
#endif
#ifdef NUMA
\tlong scan;
#endif
\tlong flags;
};
struct mm one;
int main(void) { one.compat_base = 3; return (int)one.compat_base - 3; }
";
    let dir = folder(&[("mm.c", text)]);
    let p = patch(dir.path(), "struct mm", &["compat_base:after:users"], &Build::Plain).expect("a patch");
    assert_eq!((after(&p, "compat_base"), after(&p, "compat_legacy"), after(&p, "mmlist.next")), (8, 16, 24));
    let lines =
        ["users;", "#ifdef COMPAT", "\t/* Base addresses for compat tasks. */", "\tlong compat_base;"];
    let block = format!("{}\n\tint compat_legacy;\n#endif\n\tstruct", lines.join("\n"));
    assert!(p.files[0].new.contains(&block), "{}", p.diff);
    assert_eq!(p.edits.len(), 2, "{:?}", p.edits);
    let p = patch(dir.path(), "struct mm", &["flags:before:compat_legacy"], &Build::Plain).expect("a patch");
    assert_eq!((after(&p, "flags"), after(&p, "compat_base")), (32, 40));
    let e = patch(dir.path(), "struct mm", &["compat_legacy@8"], &Build::Plain).expect_err("a refusal");
    assert!(e.to_string().contains("comes to byte 16, not to 8"), "{e}");
}

#[test]
fn cpp_classes_are_patched_in_their_own_style() {
    if !need("g++") {
        return;
    }
    let text = "#include <atomic>
namespace app {
class Stats {
public:
  Stats() : hits(0), lock(0) { }
  std::atomic<long> hits; // readers
  std::atomic<int> lock;
  long total() const { return hits; }
};
}
int main() { return (int)app::Stats().total(); }
";
    let dir = folder(&[("main.cpp", text)]);
    let p = patch(dir.path(), "app::Stats", &["align:lock=64"], &Build::Plain).expect("a patch");
    assert!(p.diff.contains("+  alignas(64) std::atomic<int> lock;"), "{}", p.diff);
    let p = patch(dir.path(), "app::Stats", &["element=64"], &Build::Plain).expect("a patch");
    assert!(p.diff.contains("+class alignas(64) Stats {") && p.size_after == 64, "{}", p.diff);
    // The constructor names hits first: a maintainer's -Wreorder would complain.
    let e =
        patch(dir.path(), "app::Stats", &["lock:first"], &Build::Plain).expect_err("a refusal").to_string();
    assert!(if need("clang++") { e.contains("-Wreorder") } else { e.contains("only with clang++") }, "{e}");
    if need("clang++") {
        std::fs::write(dir.path().join("main.cpp"), text.replace(" : hits(0), lock(0) { }", " { }"))
            .expect("a file");
        let p = patch(dir.path(), "app::Stats", &["lock:first"], &Build::Plain).expect("a patch");
        assert_eq!(p.fields.iter().find(|f| f.path.starts_with("hits")).map(|f| f.after), Some(8));
    }
}

#[test]
fn containers_of_aligned_classes_need_an_aligning_new() {
    if !need("g++") {
        return;
    }
    let text = "\
#include <vector>
struct Slot { long hits; };
std::vector<Slot> slots(4);
int main() { return (int)slots[1].hits; }
";
    let dir = folder(&[("slots.cc", text), ("Makefile", "")]);
    let with = |standard: &str| {
        let flags = format!("slots: slots.cc\n\tg++ -std={standard} -o slots slots.cc\n");
        std::fs::write(dir.path().join("Makefile"), flags).expect("a file");
        patch(dir.path(), "Slot", &["element=64"], &Build::Make)
    };
    let p = with("c++17").expect("a patch");
    assert!(p.notes.iter().any(|n| n.contains("__cpp_aligned_new")), "{:?}", p.notes);
    let e = with("c++14").expect_err("a refusal").to_string();
    assert!(e.contains("slots.cc:3") && e.contains("before C++17"), "{e}");
}

#[test]
fn a_variable_whose_struct_has_no_name_is_aligned_by_its_own() {
    if !need("gcc") {
        return;
    }
    let text = "static struct {\n\tint a;\n\tlong b;\n} state = { .a = 1 };\n\
        int main(void) { state.a--; return state.a; }\n";
    let dir = folder(&[("state.c", text)]);
    let p = patch(dir.path(), "state", &["align:state=64"], &Build::Plain).expect("a patch");
    assert_eq!((p.size_before, p.size_after), (16, 64));
    assert!(p.diff.contains("aligned(64)"), "{}", p.diff);
    let member = patch(dir.path(), "state", &["align:b=64"], &Build::Plain).expect("a patch");
    assert_eq!(after(&member, "b"), 64);
}

#[test]
fn a_makefile_without_debug_information_will_do() {
    if !need("make") || !need("gcc") {
        return;
    }
    let header =
        "#ifndef Q_H\n#define Q_H\ntypedef struct {\n\tint a;\n\tlong b;\n\tint c;\n} item_t;\n#endif\n";
    let dir = folder(&[
        ("include/item.h", header),
        ("src/main.c", "#include \"item.h\"\nitem_t items[4];\nint main(void) { return items[0].a; }\n"),
        ("Makefile", "CC = gcc\nprog: src/main.c include/item.h\n\t$(CC) -O2 -Iinclude -o prog src/main.c\n"),
    ]);
    assert_eq!(Build::find(dir.path()), Build::Make);
    let p = patch(dir.path(), "item_t", &["c:after:a"], &Build::Make).expect("a patch");
    assert_eq!((p.size_before, p.size_after, after(&p, "c")), (24, 16, 4));
    assert!(p.diff.starts_with("--- a/include/item.h\n"));
    assert!(!dir.path().join("prog").exists(), "built in a copy only");
    let shell = Build::Shell("cc -Iinclude -c src/main.c -o main.o".into());
    assert_eq!(patch(dir.path(), "item_t", &["c:after:a"], &shell).expect("a patch").diff, p.diff);
}

#[test]
fn a_compilation_database_names_the_flags() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[
        ("lib/s.h", "struct s {\n\tchar a;\n#ifdef WIDE\n\tlong pad;\n#endif\n\tlong b;\n\tchar c;\n};\n"),
        ("main.c", "#include <s.h>\nstruct s s;\nint main(void) { return s.a; }\n"),
    ]);
    let root = dir.path().canonicalize().expect("a path");
    let root = root.display();
    let command = format!("gcc -DWIDE -I{root}/lib -MD -MF x.d -c main.c -o main.o");
    let json = format!(r#"[{{"directory": "{root}", "file": "main.c", "command": "{command}"}}]"#);
    let path = dir.path().join("compile_commands.json");
    std::fs::write(&path, json).expect("a file");
    let p = patch(dir.path(), "s", &["c:after:a"], &Build::Compdb(path)).expect("a patch");
    assert_eq!((p.size_before, after(&p, "c"), after(&p, "b")), (32, 1, 16));
    let p = patch(dir.path(), "s", &["pad:after:c"], &Build::find(dir.path())).expect("the block moves");
    assert_eq!((after(&p, "pad"), after(&p, "b")), (24, 8));
    assert!(p.notes.iter().any(|n| n.contains("whole #if block")), "{:?}", p.notes);
}

#[test]
fn what_does_not_build_or_counts_by_position_is_refused() {
    if !need("gcc") {
        return;
    }
    let check = |text: &str, edit: &str, expect: &str| {
        let dir = folder(&[("x.c", text)]);
        let error = patch(dir.path(), "s", &[edit], &Build::Plain).expect_err("a refusal").to_string();
        assert!(error.contains(expect), "{error}");
    };
    let s = "struct s {\n\tint a;\n\tlong b;\n\tint c;\n};\n";
    check(&format!("{s}struct s x = {{ 1, 2, 3 }};\n"), "swap:a,c", "x.c:6 initialises s by position");
    let pinned = format!("#include <stddef.h>\n{s}_Static_assert(offsetof(struct s, c) == 16, \"wire\");\n");
    check(&pinned, "c:after:a", "x.c:7: _Static_assert fixes its size or an offset");
    check(&format!("{s}struct s x;\nint f(void) {{ return y; }}\n"), "c:after:a", "failed:");
    check("#define S struct s { int a; long b; }\nS x;\n", "swap:a,b", "defines s");
    check(s, "swap:a,d", "has no member d");
    check(s, "a:before:b", "changes nothing");
}

#[test]
fn recorded_evidence_ends_in_a_verified_patch() {
    if !need("gcc") {
        return;
    }
    let source = "struct worker {\n\tlong jobs; /* done */\n\tlong bytes;\n};
struct worker workers[8];
int main(void) { return 0; }
";
    let dir = folder(&[("server.c", source)]);
    let mut s = Sample::new(1000);
    let main = s.thread("server", None);
    let start = s.code("work", "server.c", 5, &[]);
    let long = s.long();
    let ty = s.structure("worker", 16, &[("jobs", long, 0), ("bytes", long, 8)]);
    let o = s.global("workers", 0x40_4040, 128, Some(ty), 32);
    s.tables().objects[o as usize].count = 8;
    for i in 0..8 {
        let t = s.worker(main, start);
        s.access(o, 16 * i, 8, t, (0, 1_000_000), [0, 50_000, 0]);
    }
    let mut advices = tussle_advise::best(&s.evidence(), &Options::default());
    tussle_advise::sort_best(&mut advices);
    let chosen = fix::patch_best(dir.path(), &advices, &Build::Plain, false, &mut |_| {})
        .expect("a patch")
        .expect("advice");
    let p = &chosen.patched;
    assert!(p.size_after >= 64 && p.diff.contains("/* done */"), "{}", p.diff);
    assert!(advices[chosen.index].after.worst < 0.01 * advices[chosen.index].before.mean);
    let view = fix::view(p, Some(&advices[chosen.index]));
    let text = tussle_render::render(&view, tussle_render::Format::Text, tussle_render::Style::default());
    assert!(text.contains("offsets equal the compiler's") && text.contains("--- a/server.c"), "{text}");
}

#[test]
fn members_without_bytes_and_of_opaque_types_move() {
    if !need("gcc") || !need("g++") || !need("clang++") {
        return;
    }
    let text = "struct none { };\nstruct s {\n\tlong a;\n\tchar c;\n\tstruct none e;\n\tlong m[0];\n\
        \tlong b;\n\tstruct none last;\n};
struct s s;\nint main(void) { return (int)s.a; }\n";
    let dir = folder(&[("x.c", text)]);
    let p = patch(dir.path(), "s", &["b:after:a"], &Build::Plain).expect("a patch");
    assert_eq!((after(&p, "b"), after(&p, "c"), p.size_after), (8, 16, 24));
    patch(dir.path(), "s", &["last:first"], &Build::Plain).expect("an empty struct is no flexible array");
    patch(dir.path(), "s", &["m:after:b"], &Build::Plain).expect("a marker moves");
    let text = "#include <string>\n#include <unordered_map>\nstruct base { int x; };\n\
        struct part : base { char c; };\nclass cache {
public:
  long hits;
  std::string name;
  std::unordered_map<int, int> map;
  part p;
  char tag;
  long misses;
};
cache c;\nint main() { return (int)c.hits; }\n";
    let dir = folder(&[("x.cpp", text)]);
    let p = patch(dir.path(), "cache", &["misses:after:hits"], &Build::Plain).expect("a patch");
    assert_eq!(after(&p, "misses"), 8);
    patch(dir.path(), "cache", &["align:misses=64"], &Build::Plain).expect("a patch");
}

#[test]
fn layouts_that_leave_the_process_are_refused_with_the_place() {
    if !need("gcc") {
        return;
    }
    let s = "struct s {\n\tint a;\n\tlong b;\n\tint c;\n};\n";
    let head = "#include <stdio.h>\n#include <unistd.h>\n#include <sys/mman.h>\n\
        #include <sys/ioctl.h>\n#include <sys/socket.h>\n";
    let fix = |path: &str, text: &str, abi_ok| {
        let include = format!("#include \"{path}\"\nstruct s s;\n");
        let dir = folder(&[
            (path, text),
            ("use.c", &include),
            ("Makefile", "all:\n\tgcc -c -I. use.c\n\tgcc -shared -o s.so use.o\n"),
        ]);
        let edits: Vec<Edit> = vec!["c:after:a".parse().expect("an edit")];
        fix::patch_tree(
            &Request {
                dir: dir.path(),
                type_name: "s",
                decl: None,
                edits: &edits,
                build: &Build::Plain,
                abi_ok,
                sites: &[],
                workshop: None,
            },
            &mut |_| {},
        )
    };
    let refused = |path: &str, body: &str, expect: &str| {
        let text = format!("{head}{s}{body}\n");
        let e = fix(path, &text, false).expect_err("a refusal").to_string();
        assert!(e.contains(expect) && e.contains("--abi-ok"), "{e}\n{body}");
        fix(path, &text, true).expect("with --abi-ok");
    };
    refused("uapi/s.h", "", "uapi/s.h: user programs");
    refused("include/s.h", "", "include/s.h: it is a public header");
    refused("s.c", "void f(struct s *p) { write(1, p, sizeof(*p)); }", "s.c:11: write() takes its bytes");
    refused(
        "s.c",
        "void f(FILE *o) { struct s x = { .a = 1 };\n fwrite(&x, sizeof x, 1, o); }",
        "s.c:12: fwrite()",
    );
    refused("s.c", "void f(int n) { struct s x; recv(n, &x, sizeof(struct s), 0); }", "recv()");
    refused("s.c", "void f(int n) { struct s x; ioctl(n, 7, &x); }", "ioctl()");
    refused("s.c", "#define GET _IOR('x', 1, struct s)", "s.c:11: _IOR");
    refused("s.c", "void f(int n) { struct s *p = mmap(0, 99, 1, 1, n, 0); (void)p; }", "mmap() maps it");
    refused("s.c", "_Static_assert(sizeof(struct s) >= 16, \"wire\");", "_Static_assert");
    let kept = |body: &str| {
        let patched = fix("s.c", &format!("{head}{s}{body}\n"), false);
        assert!(patched.is_ok(), "{:?}\n{body}", patched.err().map(|e| e.to_string()));
    };
    kept("void f(struct s *p) { write(1, &p->a, sizeof(p->a)); }");
    kept("void f(void) { struct s *p = mmap(0, 99, 1, MAP_ANONYMOUS, -1, 0); (void)p; }");
    kept("void f(struct s *p) { int n = 1; (void)p; write(1, &n, sizeof n); }");
    kept("_Static_assert(sizeof(int) == 4, \"int\");");
}

/// Compiles and runs the C sources of `dir` with `flags`.
fn output(dir: &Path, sources: &[&str], flags: &[&str]) -> String {
    let program = dir.join("program");
    let mut command = std::process::Command::new("gcc");
    let compiled = command.current_dir(dir).args(flags).args(["-o", "program"]).args(sources).output();
    let compiled = compiled.expect("gcc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let out = std::process::Command::new(program).output().expect("the program runs");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

const POOL_H: &str = "#ifndef POOL_H\n#define POOL_H\n#include <stddef.h>\n\
    struct stats {\n\tlong hits;\n\tlong misses;\n};\n\
    struct pool {\n\tstruct stats *all;\n\tsize_t n;\n};\n\
    void pool_add(struct pool *p);\nstruct stats *one(void);\n#endif\n";

const POOL_C: &str = "#include \"pool.h\"\n#include <stdlib.h>\n\n\
    /* One more. */\nvoid pool_add(struct pool *p)\n{\n\
    \tstruct stats *more = realloc(p->all, (p->n + 1) * sizeof(*p->all));\n\n\
    \tif (!more)\n\t\tabort();\n\tp->all = more;\n\tmore[p->n].hits = (long)p->n;\n\
    \tmore[p->n++].misses = 1;\n}\n\n\
    struct stats *one(void)\n{\n\treturn malloc(sizeof(struct stats));\n}\n";

const POOL_MAIN: &str = "#include \"pool.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n\
    int main(void)\n{\n\tstruct pool p = { .n = 0 };\n\tstruct stats *zeros = calloc(3, sizeof(struct stats));\n\
    \tstruct stats *s = one();\n\tlong sum = 0;\n\n\
    \tfor (int i = 0; i < 1000; i++)\n\t\tpool_add(&p);\n\
    \tfor (size_t i = 0; i < p.n; i++)\n\t\tsum += p.all[i].hits * p.all[i].misses;\n\
    \tfor (int i = 0; i < 3; i++)\n\t\tsum += zeros[i].hits + zeros[i].misses;\n\
    \ts->hits = 7;\n\tprintf(\"%ld %ld\\n\", sum, s->hits);\n\
    #ifdef ALIGNED\n\tprintf(\"%d\\n\", (int)(((size_t)p.all | (size_t)zeros | (size_t)s) % 64));\n#endif\n\
    \tfree(zeros);\n\tfree(s);\n\tfree(p.all);\n\treturn 0;\n}\n";

#[test]
fn allocations_change_with_the_alignment() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[("pool.h", POOL_H), ("pool.c", POOL_C), ("main.c", POOL_MAIN)]);
    let sources = ["main.c", "pool.c"];
    let before = output(dir.path(), &sources, &["-O2"]);
    for edit in ["element=64", "align:misses=64", "alloc=64"] {
        let p = patch(dir.path(), "struct stats", &[edit], &Build::Plain).expect("a patch");
        let paths: Vec<&str> = p.files.iter().filter_map(|f| f.path.to_str()).collect();
        assert!(paths.contains(&"main.c") && paths.contains(&"pool.c"), "{edit}: {paths:?}");
        fix::apply(dir.path(), &p).expect("applied");
        let flags = ["-O2", "-Wall", "-Werror"];
        assert_eq!(output(dir.path(), &sources, &flags), before, "{edit}\n{}", p.diff);
        let flags = ["-O2", "-DALIGNED", "-fsanitize=address,undefined", "-fno-sanitize-recover"];
        if need("gcc -fsanitize=address") {
            assert_eq!(output(dir.path(), &sources, &flags), format!("{before}0\n"), "{edit}\n{}", p.diff);
        }
        for (name, text) in [("pool.h", POOL_H), ("pool.c", POOL_C), ("main.c", POOL_MAIN)] {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
    }
    // C99 does not declare aligned_alloc: its result would be an int.
    let json = format!(
        r#"[{{"directory": {0:?}, "file": "pool.c", "arguments": ["gcc", "-std=c99", "-c", "pool.c"]}}]"#,
        dir.path().canonicalize().expect("a path")
    );
    let path = dir.path().join("compile_commands.json");
    std::fs::write(&path, json).expect("a file");
    let e =
        patch(dir.path(), "stats", &["element=64"], &Build::Compdb(path)).expect_err("a refusal").to_string();
    assert!(e.contains("with the patch the compiler says: pool.c"), "{e}");
}

const COUNTS: &str = "#include <stdio.h>\n#include <string.h>\n\n#define N 4\n\n\
    static volatile long counts[N];\nstatic long sent, received;\n\n\
    static long sum(void)\n{\n\tlong out = 0;\n\n\
    \tfor (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)\n\t\tout = out * 10 + counts[i];\n\
    \treturn out;\n}\n\n\
    int main(void)\n{\n\tmemset((void *)&sent, 0, sizeof(sent));\n\
    \tfor (int i = 0; i < N; i++)\n\t\tcounts[i] += i, sent++, received += counts[i];\n\
    \tcounts[counts[2]]--;\n\tprintf(\"%ld %ld %ld\\n\", sum(), sent, received);\n\treturn 0;\n}\n";

#[test]
fn variables_are_patched_with_their_uses() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[("count.c", COUNTS)]);
    let before = output(dir.path(), &["count.c"], &["-O2"]);
    for (edits, fields) in [
        (&["element=64"][..], 4),
        (&["align:sent=64", "align:received=64"][..], 2),
        (&["align:counts=64"][..], 1),
    ] {
        let name = if fields == 2 { "sent" } else { "counts" };
        let p = patch(dir.path(), name, edits, &Build::Plain).expect("a patch");
        assert_eq!(p.fields.len(), fields, "{:?}", p.fields);
        fix::apply(dir.path(), &p).expect("applied");
        assert_eq!(
            output(dir.path(), &["count.c"], &["-O2", "-Wall", "-Wextra", "-Werror"]),
            before,
            "{}",
            p.diff
        );
        std::fs::write(dir.path().join("count.c"), COUNTS).expect("a file");
    }
    let p = patch(dir.path(), "counts", &["element=64"], &Build::Plain).expect("a patch");
    assert_eq!((p.size_before, p.size_after, p.fields[3].after), (32, 256, 192));
    let refused = |text: &str, expect: &str| {
        std::fs::write(dir.path().join("count.c"), text).expect("a file");
        let e =
            patch(dir.path(), "counts", &["element=64"], &Build::Plain).expect_err("a refusal").to_string();
        assert!(e.contains(expect), "{e}");
    };
    refused(
        &COUNTS.replace("counts[counts[2]]--;", "fwrite((void *)counts, 8, N, stdout);"),
        "used as a whole",
    );
    refused(&COUNTS.replace("counts[counts[2]]--;", "*&counts[2] -= 1;"), "address of an element");
    let e = patch(dir.path(), "sent", &["pad=64"], &Build::Plain).expect_err("a refusal").to_string();
    assert!(e.contains("sent is a variable"), "{e}");
}

/// `TUSSLE_TEST_KERNEL_TREE=.../linux-source-6.1 cargo test -p tussle-host --test fix kernel -- --nocapture`
#[test]
fn a_struct_of_a_kernel_tree_is_patched() {
    let Some(tree) = tussle_testkit::given("TUSSLE_TEST_KERNEL_TREE") else { return };
    let tree = Path::new(&tree);
    let begin = std::time::Instant::now();
    let edits: Vec<Edit> = vec!["mmap_lock:after:def_flags".parse().expect("an edit")];
    let mut announce = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let build = Build::find(tree);
    assert_eq!(build, Build::Kernel(None));
    let (dir, type_name) = (tree, "mm_struct");
    let request = Request {
        dir,
        type_name,
        decl: None,
        edits: &edits,
        build: &build,
        abi_ok: false,
        sites: &[],
        workshop: None,
    };
    let patched = fix::patch_tree(&request, &mut announce).expect("a patch");
    println!("{:6.1} s  done", begin.elapsed().as_secs_f64());
    let lock = patched.fields.iter().find(|f| f.path.starts_with("mmap_lock.")).expect("the lock");
    assert!(lock.after > lock.before && patched.size_before == patched.size_after, "{lock:?}");
}

const TALLY: &str = "\
#ifndef TALLY_H
#define TALLY_H
struct tally {
\tlong total;
\tint count[4][2];
\tlong seen;
};
struct other { int count[4]; };
static inline int first(const struct tally *t) { return t->count[0][0]; }
#endif
";

const TALLY_USER: &str = "\
#include \"tally.h\"
struct tally tally = { .total = 3 };
int sum(struct tally *t, struct other *o) {
\tint n = o->count[1];
\tfor (int i = 0; i < 4; i++) n += t->count[i][1]; o->count[2]++;
\treturn n + first(t);
}
int main(void) { struct other o = { {1, 2, 3, 4} }; tally.count[2][1] = 7; return sum(&tally, &o) - 9; }
";

#[test]
fn elements_of_a_member_array_are_parted_where_gcc_finds_their_uses() {
    if !need("gcc") {
        return;
    }
    let dir = folder(&[("tally.h", TALLY), ("user.c", TALLY_USER)]);
    let p = patch(dir.path(), "struct tally", &["element:count=64"], &Build::Plain).expect("a patch");
    assert_eq!((p.size_before, p.size_after, after(&p, "seen")), (48, 384, 320));
    let text = |name: &str| p.files.iter().find(|f| f.path == Path::new(name)).expect("a file").new.clone();
    let has = |name: &str, line: &str| assert!(text(name).contains(line), "{line}\n{}", text(name));
    has("tally.h", "\tstruct {\n\t\tint value[2] __attribute__((aligned(64)));\n\t} count[4];\n\tlong seen;");
    has("tally.h", "return t->count[0].value[0];");
    has("user.c", "n += t->count[i].value[1]; o->count[2]++;");
    has("user.c", "tally.count[2].value[1] = 7;");
    has("user.c", "int n = o->count[1];");
    let elements = p.fields.iter().filter(|f| f.path.starts_with("count[")).count();
    assert_eq!((after(&p, "count[3].value"), elements), (256, 4));
    // A struct that is called by its variable alone, on one line with what becomes of its elements.
    let own = "struct { long own[4]; } l;\nint main(void) { l.own[2]++; return l.own[1]; }\n";
    let dir = folder(&[("own.c", own)]);
    let p = patch(dir.path(), "l", &["element:own=64"], &Build::Plain).expect("a patch");
    assert_eq!((p.size_after, after(&p, "own[3].value")), (256, 192));
    assert!(p.files[0].new.contains("l.own[2].value++; return l.own[1].value;"), "{}", p.files[0].new);
}

#[test]
fn elements_whose_uses_cannot_be_followed_stay() {
    if !need("gcc") {
        return;
    }
    let refused = |from: &str, to: &str, why: &str| {
        let user = TALLY_USER.replace(from, to);
        assert_ne!(user, TALLY_USER);
        let dir = folder(&[("tally.h", TALLY), ("user.c", &user)]);
        let e =
            patch(dir.path(), "struct tally", &["element:count=64"], &Build::Plain).expect_err("a refusal");
        assert!(e.to_string().contains(why), "{e}");
    };
    let first = "int n = o->count[1];";
    refused(first, "int n = *t->count[1], *p = &t->count[2][0]; n += *p;", "the address of an element");
    refused(first, "int n = (int)sizeof(t->count);", "used as a whole");
    refused(first, "int n = (int)__builtin_offsetof(struct tally, count[1]);", "for its offset");
    refused(
        "struct tally tally",
        "#define AT(t, i) ((t)->count[i][0])\nint at(struct tally *t) { return AT(t, 1); }\nstruct tally tally",
        "by a macro",
    );
    refused(
        "struct tally tally",
        "#ifdef NEVER\nint at(struct tally *t) { return t->count[1][1]; }\n#endif\nstruct tally tally",
        "no unit that is built compiles",
    );
    refused("int n = o->count[1];", "int n = o->count[1] + missing;", "does not take the sources");
    let foreseen = |user: &str| {
        let dir = folder(&[("tally.h", TALLY), (user, TALLY_USER)]);
        let sources = fix::Foresight::new(dir.path(), "struct tally", None).expect("sources");
        sources.refuses(&["element:count=64".parse().expect("an edit")])
    };
    assert_eq!(foreseen("user.c"), None);
    assert!(foreseen("user.cc").expect("a refusal").contains("user.cc is C++"));
    let dir = folder(&[("tally.h", TALLY), ("user.c", TALLY_USER)]);
    let e = patch(dir.path(), "struct tally", &["element:seen=64"], &Build::Plain).expect_err("a refusal");
    assert!(e.to_string().contains("no array of several elements"), "{e}");
}
