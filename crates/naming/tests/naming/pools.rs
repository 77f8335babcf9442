use crate::support::*;
use tussle_evidence::*;

const POOL: &str = r#"
#include <stdlib.h>
struct item { struct item *next; unsigned refs; unsigned char nkey; char data[]; };
struct other { long a; long b; };
static char *block;
void init(void) { block = malloc(4096); }
void use(struct item *it, struct other *o) {
    it->refs++; // u1
    it->nkey = 9; // u2
    it->next = it; // u3
    o->b++; // u4
    o->a = 7; // u5
}
struct slot { long done; long idle; };
void run(struct slot *slots) { slots[1].done++; } // r1
int main(int argc, char **argv) {
    struct slot slots[4] = {{ argc }};
    slots[argc].idle = 3; // s1
    slots[2].done = 4; // s2
    init();
    run(slots);
    use((struct item *)block, (struct other *)(block + 2048));
    return 0;
}
"#;

#[test]
fn objects_are_found_inside_of_a_pool() {
    let Some(mut p) = compile("gcc", &["-O0"], POOL) else { return };
    let alloc = p.code("block = malloc(4096)", "malloc", &[]);
    let object = p.object(ObjectKind::Heap, 0x40_0010, 4096, Some(alloc));
    let lines = [("it->refs++", "++", 8, 4), ("it->nkey = 9", "=", 12, 1), ("it->next = it", "=", 0, 8)];
    // Items every 48 bytes behind a header of 16; the third code line misses one of them. Up to the others there is
    // room for 42.
    for (n, start) in [16u64, 64, 112, 208, 256].iter().enumerate() {
        for (line, token, offset, size) in &lines[..if n == 1 { 2 } else { 3 }] {
            let code = p.code(line, token, &[]);
            p.touch(object, start + offset, *size, code, TouchKind::Write);
        }
    }
    for (line, token, offset) in [("o->b++", "++", 2056), ("o->a = 7", "=", 2048)] {
        let code = p.code(line, token, &[]);
        p.touch(object, offset, 8, code, TouchKind::Write);
    }
    let unread = p.row(BIAS, &[]);
    p.touch(object, 3000, 8, unread, TouchKind::Write);
    p.name();
    let mut names = p.touched();
    names.dedup();
    assert_eq!(names.iter().filter(|n| *n == "struct item.refs").count(), 5);
    assert_eq!(
        names[names.len() - 3..],
        ["struct other.b", "struct other.a", "malloc in init, bytes 3000..3007"]
    );
    let items: Vec<&Object> =
        p.evidence.objects.iter().filter(|o| o.size == 48 && o.kind == ObjectKind::Heap).collect();
    assert_eq!(items.len(), 5, "{:?}", p.evidence.objects);
    assert!(items.iter().all(|o| o.align == 16 && o.live_max == 42 && o.base % 16 == 0));
    assert!(items[0].why.contains("inside of a larger block"), "{}", items[0].why);
}

/// Alignment of items every 64 bytes of mapped memory, with an array of others behind them.
fn items_align_beside(others_at: u64) -> Option<Vec<u32>> {
    let mut p = compile("gcc", &["-O0"], POOL)?;
    let object = p.object(ObjectKind::Heap, 0x7f00_0000_0000, 4096, None);
    p.evidence.objects[object as usize].align = 4096;
    let (refs, a, b) =
        (p.code("it->refs++", "++", &[]), p.code("o->a = 7", "=", &[]), p.code("o->b++", "++", &[]));
    for n in 0..4 {
        p.touch(object, 128 + 64 * n + 8, 4, refs, TouchKind::Write);
        p.touch(object, others_at + 16 * n, 8, a, TouchKind::Write);
        p.touch(object, others_at + 16 * n + 8, 8, b, TouchKind::Write);
    }
    p.name();
    let items = p.evidence.objects.iter().filter(|o| o.size == 64);
    Some(items.map(|o| o.align as u32).collect())
}

#[test]
fn pieces_of_a_block_are_aligned_no_better_than_their_neighbours_show() {
    let Some(lone) = items_align_beside(2048) else { return };
    assert_eq!(lone, [64; 4]);
    // Whoever laid out the block begins arrays on 16 bytes: that the items begin on lines is luck.
    assert_eq!(items_align_beside(2064), Some(vec![16; 4]));
}

#[test]
fn variables_on_a_stack_are_named_by_the_code_that_uses_them_by_name() {
    let Some(mut p) = compile("gcc", &["-O0"], POOL) else { return };
    let object = p.object(ObjectKind::Stack, 0x7fff_0000_0000, 1 << 20, None);
    let at = 0x8_0040;
    let s2 = p.code("slots[2].done = 4", "=", &[]);
    p.touch(object, at + 32, 8, s2, TouchKind::Write);
    let r1 = p.code("slots[1].done++", "++", &[]);
    p.touch(object, at + 16, 8, r1, TouchKind::Write);
    let unread = p.row(BIAS, &[]);
    p.touch(object, 64, 8, unread, TouchKind::Write);
    p.name();
    assert_eq!(p.touched(), ["main::slots[].done", "main::slots[].done", "stack, bytes 64..71"]);
}

const ON_STACKS: &str = r#"
struct st { long a, b; };
void work(struct st *p) { p->a++; p->b = 2; p->a = p->b; }
void run(int id) {
    struct st loc[200]; struct st *mine = loc;
    work(mine + id);
}
int main(void) { struct st one[4]; work(one); run(1); return 0; }
"#;

/// Threads `actors` run `run` on the first one's stack, and touch `starts` of its elements.
fn alive_on_stacks(actors: u32, starts: u64) -> Option<Vec<u64>> {
    let mut p = compile("gcc", &["-O0"], ON_STACKS)?;
    let stack = p.object(ObjectKind::Stack, 0x7fff_0000_0000, 8 << 20, None);
    let run = p.code("work(mine + id)", "work", &[]);
    let lines = [("p->a++", "++", 0), ("p->b = 2", "=", 8), ("p->a = p->b", "= p", 0)];
    for (line, token, member) in lines {
        let code = p.code(line, token, &[run]);
        for start in 0..starts {
            for actor in 0..actors {
                p.touch(stack, 0x8_0000 + 16 * start + member, 8, code, TouchKind::Write);
                p.evidence.touches.last_mut().unwrap().actor = Some(actor);
            }
        }
    }
    p.name();
    Some(p.evidence.objects.iter().filter(|o| o.size == 16).map(|o| o.live_max).collect())
}

/// Not as many as a stack of eight megabytes has room for, and not only those that somebody used.
#[test]
fn a_stack_holds_as_many_as_its_functions_declare() {
    let Some(one) = alive_on_stacks(1, 2) else { return };
    assert_eq!(one, [200; 2]);
    assert_eq!(alive_on_stacks(2, 4), Some(vec![400; 4]));
}

const CPP: &str = r#"
#include <atomic>
#include <memory>
#include <vector>
#include <unordered_map>
namespace app { struct Worker { std::atomic<long> done{0}; long idle = 0;
    virtual void run() { idle++; } virtual ~Worker() {} }; }
struct alignas(64) Slot { long hits = 0; };
using app::Worker;
Worker *single() { return new Worker(); }
Slot *array(int n) { return new Slot[n]; }
auto shared() { return std::make_shared<Worker>(); }
void fill(std::vector<Slot> &v, int n) { v.resize(n); }
void map(std::unordered_map<int, long> &m, int k) { m[k] += 2; }
template <class T> T *make() { return new T; }
struct Owned { long hits, misses; };
auto owned() { return std::make_unique<Owned>(); }
int main(int argc, char **) {
    std::vector<Slot> v; fill(v, argc);
    std::unordered_map<int, long> m; map(m, argc);
    auto s = shared(); s->done++;
    make<Slot>()->hits++;
    owned()->hits++;
    single()->run(); array(argc)[0].hits++;
    return 0;
}
"#;

/// Code rows for every call of an allocation function, in order of address.
fn allocations(p: &Program) -> Vec<u64> {
    let out = std::process::Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(p.exe()).output();
    let text = String::from_utf8_lossy(&out.expect("objdump").stdout).into_owned();
    let mut found = Vec::new();
    let mut pending = false;
    for line in text.lines() {
        let Some((address, rest)) = line.trim().split_once(":\t") else { continue };
        if std::mem::take(&mut pending) {
            found.push(u64::from_str_radix(address, 16).unwrap() - 1);
        }
        pending = rest.contains("call") && (rest.contains("<_Znwm") || rest.contains("<_Znam"));
    }
    found
}

#[test]
fn cpp_allocations_name_their_types() {
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("clang++", "-O1")] {
        let Some(mut p) = compile(compiler, &[level], CPP) else { continue };
        for address in allocations(&p) {
            let alloc = p.row(BIAS + address, &[]);
            // A size that fits everything: 24 for Worker, 64 for Slot.
            p.object(ObjectKind::Heap, 0x40_0000, 64 * 24 * 40, Some(alloc));
        }
        p.name();
        let mut types: Vec<String> =
            p.evidence.objects.iter().filter_map(|o| o.ty).map(|t| p.evidence.types.name(t)).collect();
        types.sort();
        types.dedup();
        for want in ["Slot", "app::Worker", "Owned"] {
            assert!(types.iter().any(|t| t == want), "{compiler} {level}: no {want} in {types:?}");
        }
        let node = |t: &String| t.contains("_Hash_node<std::pair<");
        assert!(types.iter().any(node), "{compiler} {level}: {types:?}");
        let counted = |t: &String| t.contains("_Sp_counted_ptr_inplace<app::Worker");
        assert!(types.iter().any(counted), "{compiler} {level}: {types:?}");
    }
}
