//! Compiles C and C++ at test time and holds layouts against what the compiled program itself prints.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{Bytes, CompanionRequest, Companions, Damage};
use tussle_model::{Member, TypeId, TypeTable};
use tussle_testkit::{skip, wish};

/// Runs a command in a folder; `None` (and a note) when it fails, for tools that lack a feature.
#[track_caller]
pub fn attempt(dir: &Path, command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let out = Command::new(words.next().unwrap()).args(words).current_dir(dir).output().ok()?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        skip(&format!("{command}: {}", text.lines().next().unwrap_or_default()));
        return None;
    }
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs a command that must work.
#[track_caller]
pub fn run(dir: &Path, command: &str) -> String {
    attempt(dir, command).unwrap_or_else(|| panic!("{command} failed"))
}

/// Companion files of one folder.
pub struct Folder(pub PathBuf);

impl Companions for Folder {
    fn open(&mut self, request: &CompanionRequest) -> Option<Bytes> {
        let name = match request {
            CompanionRequest::Debuglink { name, .. } | CompanionRequest::Alternate { name, .. } => {
                name.clone()
            }
            CompanionRequest::Dwo { name, .. } => name.clone(),
            CompanionRequest::Package => "a.out.dwp".into(),
            CompanionRequest::BuildId(id) => {
                format!("{}.debug", id.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
            _ => return None,
        };
        let file = Path::new(&name).file_name()?;
        let bytes = std::fs::read(self.0.join(&name)).or_else(|_| std::fs::read(self.0.join(file))).ok()?;
        Some(Arc::new(bytes))
    }
}

/// All types of a file, which must be free of problems.
pub fn read(path: &Path) -> TypeTable {
    let (table, problems) = read_with_problems(path);
    assert!(problems.is_empty(), "{problems:?}");
    table
}

/// All types of a file and what it says that it could not read.
pub fn read_with_problems(path: &Path) -> (TypeTable, Vec<Damage>) {
    let bytes = std::fs::read(path).unwrap();
    let mut companions = Folder(path.parent().unwrap().to_path_buf());
    tussle_debuginfo::open(&bytes, &Want::All, &mut companions).unwrap()
}

/// What a probe program printed: `type.field` to (bit offset, bit size); `type` to (0, bits).
pub type Facts = BTreeMap<String, (u64, u64)>;

pub fn facts(output: &str) -> Facts {
    output
        .lines()
        .map(|line| {
            let mut words = line.rsplitn(3, ' ');
            let size = words.next().unwrap().parse().unwrap();
            let offset = words.next().unwrap().parse().unwrap();
            (words.next().unwrap().to_string(), (offset, size))
        })
        .collect()
}

/// Bit offset and size of a member, by a dotted path; members of anonymous aggregates count as the outer one's.
pub fn member(table: &TypeTable, of: TypeId, path: &str) -> Option<(u64, u64)> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let (at, m) = find_member(table, of, first, 0)?;
    match rest {
        None => {
            let bits = m.bit_size.map(u64::from).or_else(|| Some(table.size(m.ty)? * 8))?;
            Some((at, bits))
        }
        Some(rest) => member(table, m.ty, rest).map(|(inner, bits)| (at + inner, bits)),
    }
}

fn find_member<'a>(table: &'a TypeTable, of: TypeId, name: &str, depth: u32) -> Option<(u64, &'a Member)> {
    let aggregate = table.aggregate(of).filter(|_| depth < 8)?;
    aggregate.members.iter().find_map(|m| match m.name.as_deref() {
        Some(n) => (n == name).then_some((m.offset_bits, m)),
        None => find_member(table, m.ty, name, depth + 1).map(|(at, found)| (at + m.offset_bits, found)),
    })
}

/// Every fact holds in the table.
pub fn assert_facts(table: &TypeTable, facts: &Facts, context: &str) {
    assert!(!facts.is_empty(), "{context}: the probe printed nothing");
    for (path, &want) in facts {
        let (name, field) = path.split_once('/').map_or((path.as_str(), None), |(a, b)| (a, Some(b)));
        let id = table.find(name).unwrap_or_else(|| panic!("{context}: {name} not found"));
        let got = match field {
            None => table.size(id).map(|s| (0, s * 8)),
            Some(field) => member(table, id, field),
        };
        assert_eq!(got, Some(want), "{context}: {path}");
    }
}

/// Macros for probe programs. `F` prints a field, `B` a bit-field (found by setting it), `S` a size.
pub const PROBE: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define S(name, type) printf("%s 0 %zu\n", name, sizeof(type) * 8)
#define F(name, type, field) printf("%s/%s %zu %zu\n", name, #field, offsetof(type, field) * 8, \
    sizeof(((type *)0)->field) * 8)
#define B(name, type, field) do { \
    static type t; unsigned char *b = (unsigned char *)&t; size_t first = 0, n = 0; \
    memset(&t, 0, sizeof t); t.field = -1; \
    for (size_t i = 0; i < sizeof t * 8; i++) if (b[i / 8] >> (i % 8) & 1) { if (!n) first = i; n++; } \
    printf("%s/%s %zu %zu\n", name, #field, first, n); } while (0)
"#;

/// A C program with one of everything.
pub fn c_sample() -> String {
    format!(
        r#"{PROBE}
struct opaque;
typedef int (*callback)(struct opaque *, int);
typedef struct {{ int number; char text[3]; }} anonymous_t;
enum color {{ RED, GREEN = -5, BLUE = 1000 }};
struct inner {{ int a; struct {{ short x, y; }}; union {{ int u; float f; }}; struct {{ char deep; }} named; }};
struct outer {{
    char c; struct inner in; struct opaque *p; struct outer *next; callback fn;
    unsigned b1 : 3, b2 : 5; int : 0; uint64_t b3 : 40; signed b4 : 1;
    anonymous_t t; enum color e; int m[2][3]; volatile const long q; struct inner many[2];
    _Alignas(64) int aligned; char last[5]; int none[0]; char flexible[];
}};
struct __attribute__((packed)) packed {{ char c; int i; unsigned b : 7; unsigned d : 12; short s; }};
struct __attribute__((packed)) crossing {{ char c; uint64_t wide : 61; unsigned n : 30; char t; }};
struct __attribute__((aligned(128))) big {{ char c; }};
union choice {{ char c[3]; uint64_t u; struct inner in; unsigned b : 9; }};
struct outer o; struct packed p; struct crossing cr; struct big g; union choice ch;
int main(void) {{
    struct local {{ int here; char there; }} l = {{ 1, 2 }};
    S("crossing", struct crossing); B("crossing", struct crossing, wide); B("crossing", struct crossing, n);
    S("inner", struct inner); F("inner", struct inner, a); F("inner", struct inner, x);
    F("inner", struct inner, y); F("inner", struct inner, u); F("inner", struct inner, named.deep);
    S("outer", struct outer); F("outer", struct outer, c); F("outer", struct outer, in);
    F("outer", struct outer, in.y); F("outer", struct outer, p); F("outer", struct outer, next);
    F("outer", struct outer, fn); B("outer", struct outer, b1); B("outer", struct outer, b2);
    B("outer", struct outer, b3); B("outer", struct outer, b4); F("outer", struct outer, t);
    F("outer", struct outer, t.text); F("outer", struct outer, e); F("outer", struct outer, m);
    F("outer", struct outer, many); F("outer", struct outer, aligned); F("outer", struct outer, last);
    F("outer", struct outer, none); S("struct packed", struct packed); F("packed", struct packed, i);
    B("packed", struct packed, b); B("packed", struct packed, d); F("packed", struct packed, s);
    S("struct big", struct big); S("union choice", union choice); F("choice", union choice, in.named);
    B("choice", union choice, b); S("anonymous_t", anonymous_t); F("anonymous_t", anonymous_t, text);
    S("local", struct local); F("local", struct local, there);
    return l.here + (int)o.b1 + p.c + g.c + ch.c[0] != 1;
}}
"#
    )
}

/// Compiles the C sample with `command` (`CC FLAGS sample.c`) and checks the executable. `false` if the compiler
/// cannot do with these flags.
#[track_caller]
pub fn check_c(command: &str) -> bool {
    if !wish(command.trim_end_matches(" sample.c")) {
        return false;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    run(dir.path(), command);
    let facts = facts(&run(dir.path(), "./a.out"));
    assert_facts(&read(&dir.path().join("a.out")), &facts, command);
    true
}
