use crate::support::*;
use tussle_evidence::*;
use tussle_testkit::Random;

const SOURCE: &str = r#"
#include <pthread.h>
struct stats { long hits; long misses; pthread_mutex_t lock; };
struct worker { long done; int id; struct stats *st; };
static struct worker workers[8];
long counter;
__thread int depth;
__thread struct stats mine;
struct stats total = { .hits = 1 };

static inline void touch(struct worker *w) {
    w->done++;
    counter++;
}

int main(int argc, char **argv) {
    static volatile int calls;
    calls += argc;
    depth++;
    mine.misses++;
    total.misses++;
    touch(&workers[argc]);
    return 0;
}
"#;

/// Unknown pages over the data of the module, as the recorder writes them.
fn pages(p: &mut Program, names: &[(&str, u64, u32)], code: u32) {
    for (name, offset, size) in names {
        let at = p.variable(name) + offset;
        let page = at & !4095;
        let known = p.evidence.objects.iter().position(|o| o.base == page);
        let object = match known {
            Some(i) => i as u32,
            None => p.object(ObjectKind::Unknown, page, 4096, None),
        };
        p.touch(object, at - page, *size, code, TouchKind::Write);
    }
}

#[test]
fn module_memory_becomes_variables() {
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1")] {
        let Some(mut p) = compile(compiler, &[level, "-fno-inline"], SOURCE) else { continue };
        let code = p.row(BIAS, &[]);
        let touched = [
            ("workers", 24 * 3, 8),
            ("workers", 24 * 7 + 8, 4),
            ("counter", 0, 8),
            ("main::calls", 0, 4),
            ("total", 8, 8),
            ("total", 16, 4),
        ];
        pages(&mut p, &touched, code);
        let problems = p.name();
        assert!(!problems.iter().any(|p| p.what.contains("build-id")), "{problems:?}");
        let want = ["workers[].done", "workers[].id", "counter", "main::calls", "total.misses", "total.lock"];
        assert_eq!(p.touched(), want, "{compiler} {level}");
        assert!(p.evidence.objects.iter().all(|o| o.kind == ObjectKind::Global && o.confidence == 1.0));
        let workers = p.evidence.objects.iter().find(|o| o.name.as_deref() == Some("workers")).unwrap();
        assert_eq!(
            (workers.size, workers.count, workers.align),
            (192, 1, if compiler == "gcc" { 32 } else { 8 })
        );
        assert_eq!(p.evidence.objects.len(), 4);
        assert!(p.evidence.types.len() < 60, "only what is needed");
    }
}

#[test]
fn thread_local_variables_are_found_below_the_thread_pointer() {
    let Some(mut p) = compile("gcc", &["-O1"], SOURCE) else { return };
    let code = p.row(BIAS, &[]);
    let pointer = 0x7fff_f7d8_0740u64;
    let object = p.object(ObjectKind::Tls, pointer - 4096, 4096, None);
    // The linker sorts by section; ask the symbol table where they are, counted from the block's start.
    let nm = std::process::Command::new("nm").arg(p.exe()).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let offset = |name: &str| {
        let line = nm.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    // 56 bytes of `mine` and 4 of `depth`, aligned to 8 or more: the block is 64 (60 rounded up to 8 or 16).
    let (depth, mine) = (offset("depth"), offset("mine"));
    let block = pointer - 64;
    p.touch(object, block + depth - (pointer - 4096), 4, code, TouchKind::Write);
    p.touch(object, block + mine + 8 - (pointer - 4096), 8, code, TouchKind::Write);
    p.touch(object, 100, 8, code, TouchKind::Write);
    p.name();
    assert_eq!(p.touched(), ["depth", "mine.misses", "thread-local storage, bytes 100..107"]);
}

#[test]
fn an_access_over_two_variables_is_shared_out_and_keeps_its_sum() {
    let Some(mut p) =
        compile("gcc", &["-O0"], "int a[2] = {1}; int b[2] = {2}; int main(void) { return a[0]; }")
    else {
        return;
    };
    let code = p.row(BIAS, &[]);
    let (a, b) = (p.variable("a"), p.variable("b"));
    assert_eq!(b - a, 8);
    let object = p.object(ObjectKind::Unknown, a & !4095, 4096, None);
    p.touch(object, (a & 4095) + 4, 8, code, TouchKind::Write);
    p.evidence.accesses[0].writes = 7;
    p.name();
    assert_eq!(p.touched(), ["a[]", "b[]"]);
    assert_eq!(p.evidence.accesses.iter().map(|a| a.writes).sum::<u64>(), 7);
}

#[test]
fn code_rows_get_all_inlined_frames() {
    let Some(mut p) = compile("gcc", &["-O2"], SOURCE) else { return };
    let row = p.code("w->done++;", "++", &[]);
    p.name();
    let frames: Vec<(&str, u32)> =
        p.evidence.code[row as usize].frames.iter().map(|f| (f.function.as_str(), f.line)).collect();
    assert_eq!(frames, [("touch", 12), ("main", 22)]);
}

#[test]
fn without_debug_information_symbols_are_all_there_is() {
    let Some(mut p) = compile("gcc", &["-O0"], SOURCE) else { return };
    if !strip(&p.exe(), "--strip-debug") {
        return;
    }
    let code = p.row(BIAS + p.variable("counter") % 7, &[]);
    pages(&mut p, &[("counter", 0, 8), ("workers", 8, 4)], code);
    let problems = p.name();
    assert_eq!(p.touched(), ["counter", "workers, bytes 8..11"]);
    assert!(p.evidence.objects.iter().all(|o| o.ty.is_none() && o.why.contains("compile with -g")));
    assert!(problems.iter().any(|p| p.what.contains("no debug information")), "{problems:?}");
}

#[test]
fn stripped_and_missing_modules_leave_addresses_and_say_why() {
    let Some(mut p) = compile("gcc", &["-O0"], SOURCE) else { return };
    let code = p.row(BIAS + 0x1000, &[]);
    pages(&mut p, &[("total", 0, 8)], code);
    p.images.hide_modules = true;
    let problems = p.name();
    assert!(p.touched()[0].starts_with("memory at 0x"), "{:?}", p.touched());
    assert!(problems[0].what.contains("hidden"));
    p.images.hide_modules = false;
    p.evidence.modules[0].build_id = Some("00".into());
    let problems = p.name();
    assert!(problems[0].what.contains("is not the file that was recorded"), "{problems:?}");
}

#[test]
fn damaged_modules_never_panic() {
    let Some(mut p) = compile("gcc", &["-O1"], SOURCE) else { return };
    let bytes = std::fs::read(p.exe()).unwrap();
    let code = p.row(BIAS + 0x1150, &[]);
    pages(&mut p, &[("counter", 0, 8)], code);
    let raw = p.evidence.clone();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..60 {
        let mut bad = bytes.clone();
        if round % 4 == 0 {
            bad.truncate(bytes.len() * round / 60);
        }
        for _ in 0..20 {
            let at = random.below(bad.len());
            if let Some(b) = bad.get_mut(at) {
                *b = random.below(256) as u8;
            }
        }
        std::fs::write(p.exe(), &bad).unwrap();
        p.evidence = raw.clone();
        p.evidence.modules[0].build_id = None;
        p.name();
    }
}

/// clang makes an allocation that one pointer keeps for good a variable, `kept.body`, which has no type.
#[test]
fn an_allocation_that_became_a_variable_has_the_type_that_its_code_says() {
    let source = r#"
#include <stdlib.h>
struct worker { long done, failed; };
static struct worker *kept;
__attribute__((noinline)) void count(long i) {
    kept[i].done++;
}
int main(int n, char **v) {
    kept = calloc(4, sizeof *kept);
    count(n);
    return kept[n].done;
}
"#;
    let Some(mut p) = compile("clang", &["-O2"], source) else { return };
    if !p.has_variable("kept.body") {
        return tussle_testkit::skip("this clang leaves the allocation on the heap");
    }
    let done = p.code("kept[i].done", "done", &[]);
    let at = p.variable("kept.body");
    let page = p.object(ObjectKind::Unknown, at & !4095, 8192, None);
    p.touch(page, (at & 4095) + 16, 8, done, TouchKind::Write);
    p.touch(page, (at & 4095) + 32, 8, done, TouchKind::Write);
    p.name();
    let body = p.evidence.objects.iter().find(|o| o.name.as_deref() == Some("kept.body")).unwrap();
    assert_eq!((body.kind, body.size, body.count), (ObjectKind::Global, 64, 4), "{}", body.why);
    assert_eq!(p.touched(), ["kept.body[].done", "kept.body[].done"]);
}
