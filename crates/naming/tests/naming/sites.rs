//! What is read at every instrumented access of a program: the field that the source names there.

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::*;
use tussle_evidence::*;

const C: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
struct inner { long a; int b[4]; };
struct node { struct node *next; long count; struct inner in; struct inner *far; union { long cas; char end; }; };
struct pool { struct node nodes[4]; pthread_mutex_t lock; unsigned flags; };
#define INC(p) ((p)->count++)
#define NEXT(p) ((p)->next)
typedef struct { struct node *head; int n; } list_t;
long work(struct pool *pool, struct node *n, list_t *l, int i, long *out)
{
    n->count++; //=count r8 w8
    ++n->count; //=count r8 w8
    n->count = 5; //=count w8
    n->in.a += i; //=in.a r8 w8
    n->in.b[i] = 7; //=in.b w4
    n->far->b[2]++; //=far r8 b r4 w4
    pool->nodes[i].count--; //=nodes.count r8 w8
    pool->nodes[1].in.b[i] |= 3; //=nodes.in.b r4 w4
    (*n).next = n->next->next; //=next r8 w8
    INC(n); //=count r8 w8
    NEXT(n) = l->head; //=next w8 head r8
    l->n += ((struct node *)out)->in.b[1]; //=n r4 w4 in.b r4
    (&pool->nodes[i])->cas = 1; //=nodes.cas w8
    __atomic_fetch_add(&n->in.a, 1, __ATOMIC_RELAXED); //=in.a
    *out = pool->flags; //=flags r4
    return l->head->far->a; //=head r8 far r8 a r8
}
int main(int argc, char **argv)
{
    struct pool *p = calloc(1, sizeof *p);
    struct node *n = calloc(2, sizeof(struct node));
    list_t l = { n, argc };
    n->next = n; n->far = &n->in;
    return work(p, n, &l, argc - 1, (long *)n);
}
"#;

const CPP: &str = r#"
#include <atomic>
#include <vector>
#include <memory>
struct Counter { long hits = 0; std::atomic<long> live{0}; void hit() { 
    hits++; //=hits r8 w8
  } };
struct alignas(64) Worker { long done = 0; Counter c; int tag[3] = {}; };
struct Derived : Counter { int extra = 0; void run(Worker *w) {
    extra++; //=extra r4 w4
    hits += 2; //=hits r8 w8
    w->done++; //=done r8 w8
    w->c.hits = 3; //=c.hits w8
  } };
template <class T> void bump(T &t) {
    t.done += 1; //=done r8 w8
}
long work(Derived &d, std::vector<Worker> &v, std::unique_ptr<Worker> &u, int i) {
    d.run(&v[i]);
    d.extra ^= 5; //=extra r4 w4
    v[i].c.hits++; //=c.hits r8 w8
    u->tag[i] = 1; //=tag w4
    bump(v[0]);
    auto f = [&](Worker &w) {
        w.tag[1]--; //=tag r4 w4
    };
    f(*u);
    v[i].c.live.fetch_add(1); //=c.live c.live._M_i
    d.live++; //=live live._M_i
    return u->done; //=done r8
}
int main(int argc, char **) {
    std::vector<Worker> v(4);
    auto u = std::make_unique<Worker>();
    Derived *d = new Derived;
    return work(*d, v, u, argc);
}
"#;

/// `(code address, kind, bytes)` of all calls of access hooks.
fn hooks(p: &Program) -> Option<Vec<(u64, TouchKind, u32)>> {
    let out = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(p.exe()).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut found = Vec::new();
    let mut pending = None;
    for line in text.lines() {
        let Some((address, rest)) = line.trim().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        if let Some((kind, size)) = pending.take() {
            found.push((address - 1, kind, size));
        }
        let Some(name) = rest.split("<__tsan_").nth(1) else { continue };
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let kind = match () {
            _ if name.starts_with("atomic") => TouchKind::Rmw,
            _ if name.starts_with("read") || name.starts_with("unaligned_read") => TouchKind::Read,
            _ if name.starts_with("write") || name.starts_with("unaligned_write") => TouchKind::Write,
            _ => continue,
        };
        let size: u32 = digits.parse().unwrap_or(8);
        pending = Some((kind, if kind == TouchKind::Rmw { size / 8 } else { size }));
    }
    Some(found)
}

/// Every access whose line says `//=field r8 w8` must be read so; any other field is wrong. Returns accesses of such
/// lines, and how many of them were named.
fn check(compiler: &str, flags: &[&str], source: &str) -> Option<(usize, usize)> {
    let mut p = compile(compiler, &[&["-fsanitize=thread"], flags].concat(), source)?;
    let hooks = hooks(&p)?;
    let object = p.object(ObjectKind::Heap, 0x10_0000, 1 << 20, None);
    for (address, kind, size) in &hooks {
        let code = p.row(BIAS + address, &[]);
        p.touch(object, 0, *size, code, *kind);
    }
    p.name();
    let mut want: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (i, line) in source.lines().enumerate() {
        let Some((_, note)) = line.split_once("//=") else { continue };
        let mut field = "";
        for word in note.split_whitespace() {
            match word {
                "r8" | "w8" | "r4" | "w4" => want.entry(i + 1).or_default().push(format!("{field} {word}")),
                f => {
                    field = f;
                    want.entry(i + 1).or_default().push(format!("{field} u8"));
                }
            }
        }
    }
    let (mut all, mut named) = (0, 0);
    for t in &p.evidence.touches {
        // The innermost frame of the program's own: library functions are inlined into it.
        let frames = &p.evidence.code[t.code as usize].frames;
        let Some(frame) = frames.iter().find(|f| f.file.contains("prog.c")) else { continue };
        let Some(allowed) = want.get(&(frame.line as usize)) else { continue };
        // What a smart pointer reads of itself has no name in the program.
        all += usize::from(t.field.is_some() || frames[0].file.contains("prog.c"));
        let letter = match t.kind {
            TouchKind::Read => 'r',
            TouchKind::Write => 'w',
            TouchKind::Rmw => 'u',
        };
        match &t.field {
            Some(f) => {
                let got = format!("{f} {letter}{}", t.size);
                assert!(
                    allowed.contains(&got),
                    "{compiler} {flags:?} line {}:{}: {got}, not in {allowed:?}",
                    frame.line,
                    frame.column
                );
                named += 1;
            }
            None => eprintln!(
                "unnamed: {compiler} {flags:?} {letter}{} {}:{}: {}",
                t.size,
                frame.line,
                frame.column,
                source.lines().nth(frame.line as usize - 1).unwrap_or("")
            ),
        }
    }
    Some((named, all))
}

#[test]
fn every_access_of_a_c_program_is_read_right() {
    for (compiler, level) in
        [("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O1")]
    {
        let Some((named, all)) = check(compiler, &[level], C) else { continue };
        eprintln!("{compiler} {level}: {named} of {all}");
        assert!(named * 10 >= all * 9, "{compiler} {level}: only {named} of {all}");
    }
}

#[test]
fn every_access_of_a_cpp_program_is_read_right() {
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("clang++", "-O1")] {
        let Some((named, all)) = check(compiler, &[level], CPP) else { continue };
        eprintln!("{compiler} {level}: {named} of {all}");
        assert!(named * 10 >= all * 9, "{compiler} {level}: only {named} of {all}");
    }
}
