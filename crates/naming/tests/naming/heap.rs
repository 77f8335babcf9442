use crate::support::*;
use tussle_evidence::*;

const C: &str = r#"
#include <stdlib.h>
#include <string.h>
struct stats { long hits; long misses; int lock; int flags; };
struct worker { long done; int id; struct stats *st; };
struct item { struct item *next; unsigned refs; unsigned char nkey; char data[]; };
typedef struct { struct worker *workers; struct stats *stats; int n; } pool_t;
static void *xmalloc(size_t n) {
    void *p = malloc(n); // in xmalloc
    if (!p) abort();
    return p;
}
#define NEW(T) ((T *)xmalloc(sizeof(T)))
struct stats *by_type(void) { return malloc(sizeof(struct stats)); }
struct stats *by_target(void) {
    struct stats *s = malloc(sizeof *s);
    return s;
}
void by_member(pool_t *pool, int n) {
    pool->workers = calloc(n, sizeof(*pool->workers));
    pool->stats = malloc(sizeof(*pool->stats) * n);
}
void *by_cast(size_t bytes) { void *p = (struct stats *)malloc(bytes); return p; }
struct stats *by_wrapper(void) { struct stats *s = xmalloc(sizeof(struct stats)); return s; }
struct worker *by_macro(void) { struct worker *w = NEW(struct worker); return w; }
struct item *flexible(size_t key) {
    struct item *it = malloc(sizeof(struct item) + key + 1);
    return it;
}
struct worker *with_rest(size_t n) { struct worker *w = malloc(sizeof(struct worker) + n * sizeof(long)); return w; }
struct board { long version; long slot[]; };
struct board *aligned(size_t n) {
    struct board *b = aligned_alloc(64, (n + 63) / 64 * 64);
    return b;
}
void play(struct board *b) {
    b->version = 1; // u11
    b->slot[2]++; // u12
}
struct space { char *buf; size_t len; };
struct space *with_buffer(size_t n) {
    struct space *space = malloc(sizeof(struct space));
    space->buf = xmalloc(n); // kept
    return space;
}
char *raw(size_t n) { char *bytes = malloc(n); return bytes; }
long *scalars(size_t n) { long *v = malloc(n * sizeof(long)); return v; }
void lies(pool_t *pool) { pool->stats = malloc(sizeof(struct stats)); }
void use(struct worker *w, struct stats *s, struct item *it, int i) {
    w->done++; // u1
    w[i].id = 3; // u2
    w->st->misses++; // u3
    s->hits += 2; // u4
    s->misses -= 1; // u5
    s->lock = i; // u6
    s->flags |= 2; // u7
    it->refs++; // u8
    it->nkey = 9; // u9
    it->next = it; // u10
}
int main(int argc, char **argv) {
    pool_t pool = { .n = argc };
    by_member(&pool, argc); lies(&pool);
    struct stats *s = by_type(); s = by_target(); s = by_cast(sizeof *s); s = by_wrapper();
    raw(8); scalars(8); with_rest(3); play(aligned(64));
    struct space *space = with_buffer(argc + 31);
    space->len = argc;
    use(by_macro(), s, flexible(8), argc);
    return 0;
}
"#;

/// One object from one allocation; the names of the touched places.
struct Case<'a> {
    site: (&'a str, &'a str),
    callers: &'a [(&'a str, &'a str)],
    bytes: u64,
    /// Line, token, offset, bytes.
    touched: &'a [(&'a str, &'a str, u64, u32)],
    want: &'a [&'a str],
    count: u64,
    why: &'a str,
}

fn check(p: &mut Program, case: &Case) {
    p.evidence.objects.clear();
    p.evidence.touches.clear();
    p.evidence.accesses.clear();
    p.evidence.types = tussle_model::TypeTable::new(8);
    let chain: Vec<u32> = case.callers.iter().map(|(line, token)| p.code(line, token, &[])).collect();
    let alloc = p.code(case.site.0, case.site.1, &chain);
    let object = p.object(ObjectKind::Heap, 0x40_0010, case.bytes, Some(alloc));
    for (line, token, offset, size) in case.touched {
        let code = p.code(line, token, &[]);
        p.touch(object, *offset, *size, code, TouchKind::Write);
    }
    p.name();
    let o = &p.evidence.objects[object as usize];
    let got = p.touched();
    assert_eq!(got, case.want, "{:?}: {} ({})", case.site, o.why, o.confidence);
    assert_eq!(o.count, case.count, "{:?}: {}", case.site, o.why);
    assert!(o.why.contains(case.why), "{:?}: {}", case.site, o.why);
    assert_eq!(o.ty.is_some(), o.confidence > 0.6, "{}", o.why);
}

#[test]
fn the_allocation_site_names_the_type() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    let hits = &[("u4", "+=", 0, 8), ("u5", "-=", 8, 8)];
    let hits: Vec<_> = hits.iter().map(|(l, t, o, s)| (line(l), *t, *o as u64, *s as u32)).collect();
    let site = |line: &'static str, token: &'static str, bytes, count, why| Case {
        site: (line, token),
        callers: &[],
        bytes,
        touched: &[],
        want: &[],
        count,
        why,
    };
    let whole = ["struct stats.hits", "struct stats.misses"];
    let array = ["struct stats[].hits", "struct stats[].misses"];
    for (mut case, want) in [
        (site("return malloc(sizeof(struct stats))", "malloc", 24, 1, "sizeof"), whole),
        (site("struct stats *s = malloc(sizeof *s)", "malloc", 24, 1, "sizeof"), whole),
        (site("pool->stats = malloc(sizeof(*pool", "malloc", 72, 3, "sizeof"), array),
        (site("(struct stats *)malloc(bytes)", "malloc", 24, 1, "cast"), whole),
    ] {
        case.touched = &hits;
        case.want = &want;
        check(&mut p, &case);
    }
}

/// The size is a sum, or the struct has no end: a block as large as several of them still has one.
#[test]
fn what_is_behind_a_header_is_no_second_element() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    let (done, id) = ((line("u1"), "++", 0, 8), (line("u2"), "=", 8, 4));
    let behind = (line("u12"), "++", 24, 8);
    check(
        &mut p,
        &Case {
            site: ("malloc(sizeof(struct worker) + n", "malloc"),
            callers: &[],
            bytes: 48,
            touched: &[done, id, behind],
            want: &["struct worker.done", "struct worker.id", "behind struct worker, bytes 24..31"],
            count: 1,
            why: "sizeof",
        },
    );
    check(
        &mut p,
        &Case {
            site: ("struct board *b = aligned_alloc(64", "aligned_alloc"),
            callers: &[],
            bytes: 64,
            touched: &[(line("u11"), "=", 0, 8), behind],
            want: &["struct board.version", "struct board.slot[]"],
            count: 1,
            why: "pointer that takes",
        },
    );
}

/// The marker comment stands on its line; what is compiled is before it.
fn line(marker: &str) -> &'static str {
    C.lines().find(|l| l.ends_with(&format!("// {marker}"))).unwrap().trim()
}

#[test]
fn wrappers_and_macros_are_walked_through() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    let inner = ("void *p = malloc(n);", "malloc");
    check(
        &mut p,
        &Case {
            site: inner,
            callers: &[("struct stats *s = xmalloc(sizeof(struct stats))", "xmalloc")],
            bytes: 24,
            touched: &[(line("u7"), "|=", 20, 4), (line("u6"), "=", 16, 4)],
            want: &["struct stats.flags", "struct stats.lock"],
            count: 1,
            why: "2 of 2 code lines agree",
        },
    );
    check(
        &mut p,
        &Case {
            site: inner,
            callers: &[("struct worker *w = NEW(struct worker)", "NEW")],
            bytes: 24,
            touched: &[(line("u1"), "++", 0, 8)],
            want: &["struct worker.done"],
            count: 1,
            why: "sizeof at the allocation",
        },
    );
}

/// The function that allocates a buffer returns something else: its caller's pointer tells nothing of the buffer.
#[test]
fn what_is_kept_in_a_member_is_not_what_the_caller_gets() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    check(
        &mut p,
        &Case {
            site: ("void *p = malloc(n);", "malloc"),
            callers: &[
                ("space->buf = xmalloc(n);", "xmalloc"),
                ("struct space *space = with_buffer(argc + 31);", "with_buffer"),
            ],
            bytes: 32,
            touched: &[(line("u4"), "+=", 0, 8)],
            want: &["malloc in xmalloc, bytes 0..7"],
            count: 1,
            why: "neither the allocation nor the code",
        },
    );
}

#[test]
fn arrays_and_flexible_tails_are_counted_right() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    check(
        &mut p,
        &Case {
            site: ("pool->workers = calloc(", "calloc"),
            callers: &[],
            bytes: 24 * 5,
            touched: &[(line("u2"), "=", 24 * 3 + 8, 4), (line("u1"), "++", 48, 8)],
            want: &["struct worker[].id", "struct worker[].done"],
            count: 5,
            why: "2 of 2 code lines agree",
        },
    );
    check(
        &mut p,
        &Case {
            site: ("malloc(sizeof(struct item) + key + 1)", "malloc"),
            callers: &[],
            bytes: 16 + 31,
            touched: &[(line("u8"), "++", 8, 4), (line("u9"), "=", 12, 1), (line("u10"), "=", 20, 8)],
            want: &["struct item.refs", "struct item.nkey", "struct item.data[]"],
            count: 1,
            why: "2 of 3 code lines agree",
        },
    );
    check(
        &mut p,
        &Case {
            site: ("malloc(n * sizeof(long))", "malloc"),
            callers: &[],
            bytes: 64,
            touched: &[],
            want: &[],
            count: 8,
            why: "sizeof",
        },
    );
}

#[test]
fn one_line_against_the_allocation_makes_it_unknown() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    check(
        &mut p,
        &Case {
            site: ("malloc(n * sizeof(long))", "malloc"),
            callers: &[],
            bytes: 64,
            touched: &[(line("u10"), "=", 16, 8)],
            want: &["malloc in scalars, bytes 16..23"],
            count: 1,
            why: "not sure enough of",
        },
    );
}

#[test]
fn a_vote_against_the_allocation_wins() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    // sizeof(struct stats) is right by size, but the code writes a struct worker there.
    check(
        &mut p,
        &Case {
            site: ("pool->stats = malloc(sizeof(struct stats));", "malloc"),
            callers: &[],
            bytes: 24,
            touched: &[(line("u1"), "++", 0, 8), (line("u2"), "=", 8, 4), (line("u3"), "->", 16, 8)],
            want: &["struct worker.done", "struct worker.id", "struct worker.st"],
            count: 1,
            why: "what the code that touches it says",
        },
    );
}

#[test]
fn raw_bytes_and_contradictions_stay_unknown() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    check(
        &mut p,
        &Case {
            site: ("char *bytes = malloc(n)", "malloc"),
            callers: &[],
            bytes: 64,
            touched: &[],
            want: &[],
            count: 1,
            why: "neither the allocation nor the code",
        },
    );
    check(
        &mut p,
        &Case {
            site: ("char *bytes = malloc(n)", "malloc"),
            callers: &[],
            bytes: 24,
            touched: &[(line("u1"), "++", 8, 8), (line("u4"), "+=", 16, 8), (line("u9"), "=", 3, 1)],
            want: &["malloc in raw, bytes 8..15", "malloc in raw, bytes 16..23", "malloc in raw, byte 3"],
            count: 1,
            why: "not sure enough of",
        },
    );
}

#[test]
fn wrong_and_missing_sources_give_no_wrong_names() {
    let Some(mut p) = compile("gcc", &["-O0"], C) else { return };
    let case = Case {
        site: ("return malloc(sizeof(struct stats))", "malloc"),
        callers: &[],
        bytes: 24,
        touched: &[(line("u4"), "+=", 0, 8)],
        want: &["malloc in by_type, bytes 0..7"],
        count: 1,
        why: "neither the allocation nor the code",
    };
    p.images.hide_sources = true;
    check(&mut p, &case);
    assert!(p.name().iter().any(|p| p.what.contains("source not found")));
    p.images.hide_sources = false;
    // The file was edited after the build: lines and columns point into something else.
    p.images.instead = Some(C.replace("#include <stdlib.h>", "\n/* a new comment */\n#include <stdlib.h>"));
    check(&mut p, &case);
    assert!(p.name().iter().any(|p| p.what.contains("not the text that was compiled")));
}
