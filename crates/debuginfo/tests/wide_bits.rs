//! Bit-fields as wide as their type in packed structs, against where the program itself writes them.

mod common;

use common::*;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open};
use tussle_model::resolve;
use tussle_testkit::need;

const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
#define PACKED __attribute__((packed))
struct tight { unsigned a:4; unsigned b:32; unsigned char c:4; } PACKED t;
struct line { char pad[60]; unsigned a:4; unsigned b:32; unsigned c:32; unsigned d:4; char e; } PACKED l;
struct wide { unsigned long a:7; unsigned long b:64; unsigned char c:1; short d; } PACKED w;
struct plain { unsigned a:4; unsigned b:32; unsigned c:4; short d; } p;
struct loose { unsigned a:3; unsigned :2; unsigned b:32; char c; } PACKED u;
static void show(const char *name, const unsigned char *at, int size) {
    int first = -1, last = 0;
    for (int i = 0; i < 8 * size; i++)
        if (at[i / 8] >> i % 8 & 1) { first = first < 0 ? i : first; last = i; }
    printf("%s %d %d\n", name, first, last - first + 1);
}
#define P(s, v, f) memset(&v, 0, sizeof v); v.f = -1; show(#s " " #f, (unsigned char *)&v, sizeof v)
int main(void) {
    P(tight, t, a); P(tight, t, b); P(tight, t, c);
    P(line, l, a); P(line, l, b); P(line, l, c); P(line, l, d); P(line, l, e);
    P(wide, w, a); P(wide, w, b); P(wide, w, c); P(wide, w, d);
    P(plain, p, a); P(plain, p, b); P(plain, p, c); P(plain, p, d);
    P(loose, u, a); P(loose, u, b); P(loose, u, c);
}
"#;

#[test]
fn full_width_bit_fields_lie_where_the_program_writes_them() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        for flags in ["-gdwarf-5", "-gdwarf-4", "-gdwarf-3"] {
            check(&format!("{cc} -w {flags} a.c"));
        }
    }
}

fn check(command: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), SOURCE).unwrap();
    run(dir.path(), command);
    let printed = run(dir.path(), "./a.out");
    let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
    let (table, problems) = open(&bytes, &Want::All, &mut NoCompanions).unwrap();
    let unsure =
        |ty: &str| problems.iter().any(|p| p.what.starts_with(&format!("struct {ty}: b: its first bit")));
    assert!(!["tight", "line", "wide", "plain"].into_iter().any(unsure), "{command}: {problems:?}");
    assert_eq!(unsure("loose"), command.starts_with("clang"), "{command}: {problems:?}");
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [ty, path, first, bits] = words.as_slice() else { panic!("{line}") };
        let (first, bits): (u64, u64) = (first.parse().unwrap(), bits.parse().unwrap());
        let id = table.find(ty).unwrap();
        let spots = resolve(&table, id, path);
        let (from, to) = (first / 8, (first + bits).div_ceil(8));
        assert_eq!((spots[0].offset, spots[0].end()), (from, to), "{command}: {ty}.{path}: bytes");
        let member = table.aggregate(id).unwrap().members.iter().find(|m| m.name.as_deref() == Some(*path));
        let at = member.unwrap().offset_bits;
        assert!(at == first || unsure(ty), "{command}: {ty}.{path}: bit {at}, truth {first}");
    }
}
