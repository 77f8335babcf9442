//! Virtual bases: where the program has them, or unknown.

mod common;

use common::*;
use std::path::Path;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open};
use tussle_model::leaf::Arrays;
use tussle_model::{leaves, resolve};
use tussle_testkit::need;

const SOURCE: &str = r#"
#include <cstdio>
struct Base { int x[4]; long tail; };
struct VB : virtual Base { int own; };
struct D : VB { char d; };
struct Nearly { virtual void f() {} };
struct N : virtual Nearly { long n; };
struct Two : virtual Base, virtual Nearly { short s; };
struct Odd { int a; char c; };
struct O : virtual Odd { char t; };
struct M : virtual Odd, virtual Base { };
struct Left : virtual Odd { long l; };
struct Right : virtual Odd { int r; };
struct Diamond : Left, Right { char d; };
struct Loose { char z; };
struct L : virtual Loose { char own; };
struct Holder { char first; VB vb; Diamond many[2]; };
struct Plain { int p; };
struct Wide : virtual Plain { alignas(32) char w; };
VB vb; D d; N n; Two t; O o; M m; Diamond g; L l; Holder h; Wide w;
#define P(t, o, f) printf(#t " " #f " %ld\n", (long)((char *)&o.f - (char *)&o))
int main() {
    P(VB, vb, x); P(VB, vb, tail); P(VB, vb, own); P(D, d, x); P(D, d, own); P(D, d, d); P(N, n, n);
    P(Two, t, x); P(Two, t, s); P(O, o, a); P(O, o, c); P(O, o, t); P(M, m, a); P(M, m, c); P(M, m, x);
    P(Diamond, g, a); P(Diamond, g, l); P(Diamond, g, r); P(Diamond, g, d); P(L, l, z); P(L, l, own);
    P(Holder, h, vb.x); P(Holder, h, vb.own); P(Holder, h, many[1].a); P(Holder, h, many[1].d);
    P(Wide, w, p); P(Wide, w, w);
}
"#;

#[test]
fn virtual_bases_lie_where_the_program_has_them_or_nowhere() {
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        for flags in
            ["", " -O2", " -gdwarf-4", " -fdebug-types-section", " -no-pie", " -static-libgcc -fno-rtti"]
        {
            check(SOURCE, &format!("{cc} -g{flags} a.cc"), 27);
        }
    }
}

/// Virtual bases of bases, in several places of one hierarchy, with and without a pointer of their own; below
/// templates and in unnamed namespaces, on both sides of other bases, alone in a library of another unit.
const DEEP: &str = r#"
#include <cstdio>
struct A { char a; };
struct B : virtual A { char b; };
struct C : virtual A, virtual B { short c; };
struct D : C { char d; };
struct F { long f; virtual ~F() {} };
struct E : virtual D, B { int e; };
struct G : F, E { char g; };
struct H : virtual G, virtual C { long h; };
struct I : F, virtual H { char i; };
template <class T> struct K : T, virtual B { T* k; char l; };
struct Q : K<H> { char q; };
namespace { struct U : virtual E { char u; }; struct V : F, U { char v; }; }
struct Nearly { virtual void n() {} };
struct P : virtual Nearly { char p; void n() override {} };
struct R : F, P, virtual B { char r; };
struct S : virtual R, virtual Q { char s; };
struct Big { long x[30]; };
struct T : virtual Big, virtual A { char t; };
struct W : Nearly, T, virtual S { char w; };
D d; E e; G g; H h; I i; K<C> k; Q q; U u; V v; R r; S s; W w;
#define P(t, o, f) printf(#t " " #f " %ld\n", (long)((char *)&o.f - (char *)&o))
int main() {
    P(D, d, a); P(D, d, b); P(D, d, c); P(E, e, a); P(E, e, c); P(E, e, d); P(E, e, e);
    P(G, g, f); P(G, g, a); P(G, g, c); P(G, g, d); P(G, g, g); P(H, h, a); P(H, h, d); P(H, h, e); P(H, h, f);
    P(H, h, g); P(I, i, a); P(I, i, d); P(I, i, e); P(I, i, g); P(I, i, h); P(I, i, i);
    P(Q, q, a); P(Q, q, d); P(Q, q, e); P(Q, q, f); P(Q, q, h); P(Q, q, k); P(Q, q, q);
    P(R, r, f); P(R, r, p); P(R, r, a); P(R, r, b); P(S, s, a); P(S, s, d); P(S, s, e); P(S, s, h);
    P(S, s, k); P(S, s, p); P(S, s, r); P(S, s, s); P(W, w, x); P(W, w, a); P(W, w, t); P(W, w, r);
    P(W, w, h); P(W, w, w); P(W, w, d);
    P((anonymous namespace)::V, v, a); P((anonymous namespace)::V, v, d); P((anonymous namespace)::V, v, e);
    P((anonymous namespace)::V, v, v); P((anonymous namespace)::U, u, c); P((anonymous namespace)::U, u, u);
}
"#;

#[test]
fn bases_of_bases_lie_where_the_program_has_them() {
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        for flags in ["", " -O2 -gdwarf-4", " -fdebug-types-section", " -no-pie"] {
            check(DEEP, &format!("{cc} -g{flags} -w a.cc"), 55);
        }
    }
}

fn check(source: &str, command: &str, fields: usize) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.cc"), source).unwrap();
    run(dir.path(), command);
    let printed = run(dir.path(), "./a.out");
    run(dir.path(), &format!("{command} -c -o a.o"));
    run(dir.path(), "objcopy --only-keep-debug a.out a.debug");
    run(dir.path(), "objcopy --strip-all --add-gnu-debuglink=a.debug a.out stripped");
    for file in ["a.out", "a.o", "stripped"] {
        compare(&format!("{command}, {file}"), &dir.path().join(file), &printed, fields);
    }
}

fn compare(command: &str, file: &Path, printed: &str, fields: usize) {
    let bytes = std::fs::read(file).unwrap();
    let mut companions = Folder(file.parent().unwrap().to_path_buf());
    let (table, _) = open(&bytes, &Want::All, &mut companions).unwrap();
    let (mut known, mut unknown, mut lost) = (0, 0, Vec::new());
    for line in printed.lines() {
        let words: Vec<&str> = line.rsplitn(3, ' ').collect();
        let [offset, path, ty] = words.as_slice() else { panic!("{line}") };
        let offset: u64 = offset.parse().unwrap();
        let id = table.find(ty).unwrap();
        let spots = resolve(&table, id, path);
        assert_eq!(spots.len(), 1, "{command}: {ty} {path}: {spots:?}");
        let listed = leaves(&table, id, Arrays::Whole).into_iter().find(|l| l.path == *path);
        match spots[0].placed {
            true => {
                known += 1;
                assert_eq!(spots[0].offset, offset, "{command}: {ty} {path}");
                assert_eq!(listed.map(|l| l.offset), Some(offset), "{command}: {ty} {path}");
            }
            false => {
                unknown += 1;
                lost.push(line);
                assert_eq!(listed, None, "{command}: {ty} {path}");
            }
        }
    }
    // without a VTT and a description of the type nothing tells where a vtable begins
    let allowed = match () {
        () if command.contains("-fno-rtti") => 4,
        // which leaves parts of vtables out that nothing uses
        () if command.starts_with("clang") && command.contains("-O2") => 2,
        () => 0,
    };
    assert!(unknown <= allowed, "{command}: {known} known, unknown: {lost:?}");
    assert_eq!(known + unknown, fields, "{command}");
}

/// Three fields of one name in three bases.
#[test]
fn paths_through_bases_are_unique() {
    if !need("g++") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <tuple>\nstruct S { std::tuple<int, long, char> t; struct A { int x; } a; } s;\n\
        struct B1 { int x; }; struct B2 { int x; }; struct J : B1, B2 { int y; } j; int main() { return j.y; }\n";
    std::fs::write(dir.path().join("a.cc"), source).unwrap();
    run(dir.path(), "g++ -g a.cc");
    let table = read(&dir.path().join("a.out"));
    for (ty, fields) in [("S", 4), ("J", 3)] {
        let id = table.find(ty).unwrap();
        let leaves = leaves(&table, id, Arrays::Whole);
        let paths: std::collections::BTreeSet<&str> = leaves.iter().map(|l| l.path.as_str()).collect();
        assert_eq!((leaves.len(), paths.len()), (fields, fields), "{paths:?}");
        for l in &leaves {
            let spots = resolve(&table, id, &l.path);
            assert_eq!(spots.iter().map(|s| s.offset).collect::<Vec<_>>(), [l.offset], "{}", l.path);
        }
    }
    assert_eq!(resolve(&table, table.find("J").unwrap(), "x").len(), 2);
    assert_eq!(resolve(&table, table.find("J").unwrap(), "B2::x")[0].offset, 4);
}

/// Without symbols of vtables only debug information is left.
#[test]
fn without_a_vtable_the_place_is_unknown() {
    if !need("g++") || !need("objcopy") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source =
        "struct Loose { char z; }; struct L : virtual Loose { char own; } l; int main() { return l.own; }\n";
    std::fs::write(dir.path().join("a.cc"), source).unwrap();
    run(dir.path(), "g++ -g a.cc");
    let placed = |file: &str| {
        let table = read(&dir.path().join(file));
        let spots = resolve(&table, table.find("L").unwrap(), "z");
        spots.iter().map(|s| s.placed).collect::<Vec<_>>()
    };
    assert_eq!(placed("a.out"), [true]);
    run(dir.path(), "objcopy --wildcard --strip-symbol=_ZT* a.out bare");
    assert_eq!(placed("bare"), [false]);
}

/// With type units clang only declares a base whose vtable is elsewhere.
#[test]
fn bases_that_are_only_declared_are_found_by_name() {
    if !need("clang++") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b.h"), "namespace n { struct Base { virtual void key(); long x; }; }\n")
        .unwrap();
    let derived = "#include \"b.h\"\nstruct Der : n::Base { int y; } d; int main() { return d.y; }\n";
    std::fs::write(dir.path().join("d.cc"), derived).unwrap();
    std::fs::write(dir.path().join("b.cc"), "#include \"b.h\"\nvoid n::Base::key() {}\n").unwrap();
    for flags in ["-g", "-g -fdebug-types-section", "-gdwarf-4 -fdebug-types-section"] {
        run(dir.path(), &format!("clang++ {flags} d.cc b.cc"));
        let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
        let names = ["Der".to_string()];
        for want in [Want::All, Want::Names(&names), Want::Definitions(&names)] {
            let (table, _) = open(&bytes, &want, &mut NoCompanions).unwrap();
            let spots = resolve(&table, table.find("Der").unwrap(), "x");
            assert_eq!(spots.iter().map(|s| s.offset).collect::<Vec<_>>(), [8], "{flags} {want:?}");
        }
    }
}

/// Padding of a `[[no_unique_address]]` member is used again by what follows, and debug information does not tell of
/// it: a place behind the padding is not the only one.
#[test]
fn what_may_lie_in_the_padding_of_a_member_is_not_placed_behind_it() {
    let source = "#include <cstdio>\nstruct V { long z, y; };\nstruct Mid : virtual V { };\n\
        struct Pad { alignas(16) long a; long b; char t; Pad() {} };\n\
        struct Out : Mid { [[no_unique_address]] Pad p; } o;\n\
        int main() { printf(\"%ld\", (long)((char *)&o.z - (char *)&o)); }\n";
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.cc"), source).unwrap();
        run(dir.path(), &format!("{cc} -std=c++20 -g a.cc"));
        let truth: u64 = run(dir.path(), "./a.out").parse().unwrap();
        let table = read(&dir.path().join("a.out"));
        let spots = resolve(&table, table.find("Out").unwrap(), "z");
        assert!(!spots[0].placed || spots[0].offset == truth, "{cc}: {spots:?}, truth {truth}");
    }
}
