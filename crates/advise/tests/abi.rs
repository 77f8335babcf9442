//! The layout rules against the compiler's own `offsetof`, `sizeof` and `_Alignof`.

use std::fmt::Write as _;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tussle_advise::abi::{Rules, Slot, place};

/// (C type, bytes, alignment) on x86-64 and AArch64 alike, `long double` left out.
const SCALARS: [(&str, u64, u64); 9] = [
    ("char", 1, 1),
    ("short", 2, 2),
    ("int", 4, 4),
    ("long", 8, 8),
    ("double", 8, 8),
    ("void *", 8, 8),
    ("_Bool", 1, 1),
    ("__int128", 16, 16),
    ("_Atomic int", 4, 4),
];

#[derive(Clone, Debug)]
enum Piece {
    Scalar { kind: usize, count: Option<u64>, align: Option<u64> },
    Bits { kind: usize, width: u32 },
    UnnamedBits(u32),
}

#[derive(Clone, Debug)]
struct Generated {
    pieces: Vec<Piece>,
    packed: bool,
    align: Option<u64>,
    union: bool,
}

fn piece() -> impl Strategy<Value = Piece> {
    let align = prop_oneof![6 => Just(None), 1 => (0..8u32).prop_map(|n| Some(1u64 << n))];
    let count = prop_oneof![3 => Just(None), 1 => (1..9u64).prop_map(Some)];
    prop_oneof![
        6 => (0..SCALARS.len(), count, align).prop_map(|(kind, count, align)| Piece::Scalar { kind, count, align }),
        3 => (0..4usize, 1..65u32)
            .prop_map(|(kind, w)| Piece::Bits { kind, width: 1 + (w - 1) % (SCALARS[kind].1 as u32 * 8) }),
        1 => (1..32u32).prop_map(Piece::UnnamedBits),
    ]
}

fn generated() -> impl Strategy<Value = Generated> {
    (
        prop::collection::vec(piece(), 1..14),
        prop::bool::weighted(0.1),
        prop_oneof![5 => Just(None), 1 => (3..8u32).prop_map(|n| Some(1u64 << n))],
        prop::bool::weighted(0.1),
    )
        .prop_map(|(pieces, packed, align, union)| Generated { pieces, packed, align, union })
}

impl Generated {
    fn c(&self, name: &str) -> String {
        let keyword = if self.union { "union" } else { "struct" };
        let mut out = format!("{keyword} {name} {{\n");
        for (i, p) in self.pieces.iter().enumerate() {
            let _ = match p {
                Piece::Scalar { kind, count, align } => {
                    // Below its natural alignment `aligned` has no effect, and `_Alignas` would be an error.
                    let align = align.map_or(String::new(), |a| format!(" __attribute__((aligned({a})))"));
                    let count = count.map_or(String::new(), |n| format!("[{n}]"));
                    writeln!(out, "  {} m{i}{count}{align};", SCALARS[*kind].0)
                }
                Piece::Bits { kind, width } => {
                    writeln!(out, "  unsigned {} m{i} : {width};", SCALARS[*kind].0)
                }
                Piece::UnnamedBits(width) => writeln!(out, "  unsigned int : {width};"),
            };
        }
        let packed = if self.packed { " __attribute__((packed))" } else { "" };
        let align = self.align.map_or(String::new(), |a| format!(" __attribute__((aligned({a})))"));
        format!("{out}}}{packed}{align};\n")
    }

    /// The same for the layout rules; unnamed bit-fields become slots of their own that take no part in alignment.
    fn slots(&self) -> (Vec<Slot>, Rules) {
        let slots = self
            .pieces
            .iter()
            .map(|p| match p {
                Piece::Scalar { kind, count, align } => {
                    let (_, size, natural) = SCALARS[*kind];
                    Slot { declared: *align, ..Slot::plain(size * count.unwrap_or(1), natural) }
                }
                Piece::Bits { kind, width } => Slot::bits(SCALARS[*kind].1, *width),
                Piece::UnnamedBits(width) => Slot::bits(4, *width),
            })
            .collect();
        let pack = self.packed.then_some(1);
        (slots, Rules { pack, align: self.align.unwrap_or(1), union: self.union })
    }

    /// C that prints size, alignment and the first bit of every named member.
    fn probe(&self, name: &str) -> String {
        let keyword = if self.union { "union" } else { "struct" };
        let mut out = format!("{{ {keyword} {name} x;\n");
        let _ = writeln!(out, "printf(\"%zu %zu\", sizeof x, _Alignof({keyword} {name}));");
        for (i, p) in self.pieces.iter().enumerate() {
            let _ = match p {
                Piece::Scalar { .. } => {
                    writeln!(out, "printf(\" %zu\", 8 * offsetof({keyword} {name}, m{i}));")
                }
                Piece::Bits { .. } => {
                    writeln!(
                        out,
                        "memset(&x, 0, sizeof x); x.m{i} = -1; printf(\" %zu\", first(&x, sizeof x));"
                    )
                }
                Piece::UnnamedBits(_) => writeln!(out, "printf(\" -\");"),
            };
        }
        format!("{out}printf(\"\\n\"); }}\n")
    }
}

fn sample(n: usize) -> Vec<Generated> {
    let mut runner = TestRunner::deterministic();
    let strategy = generated();
    (0..n).map(|_| strategy.new_tree(&mut runner).expect("a tree").current()).collect()
}

fn program(structs: &[Generated]) -> String {
    let mut out = String::from("#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n");
    out += "static size_t first(const void *p, size_t n) { const unsigned char *b = p;\n";
    out += "for (size_t i = 0; i < 8 * n; i++) if (b[i / 8] >> (i % 8) & 1) return i; return -1; }\n";
    for (i, s) in structs.iter().enumerate() {
        out += &s.c(&format!("s{i}"));
    }
    out += "int main(void) {\n";
    for (i, s) in structs.iter().enumerate() {
        out += &s.probe(&format!("s{i}"));
    }
    out + "return 0; }\n"
}

#[test]
fn offsets_equal_the_compilers() {
    if cfg!(not(target_pointer_width = "64")) {
        return tussle_testkit::skip("not a 64-bit target");
    }
    let structs = sample(400);
    for compiler in ["gcc", "clang"] {
        if !tussle_testkit::need(compiler) {
            continue;
        }
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("p.c"), program(&structs)).expect("a file");
        let built = Command::new(compiler)
            .args(["-w", "-O0", "p.c", "-o", "p"])
            .current_dir(dir.path())
            .output()
            .expect("a compiler");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let run = Command::new(dir.path().join("p")).output().expect("the program");
        let text = String::from_utf8(run.stdout).expect("text");
        assert_eq!(text.lines().count(), structs.len());
        for (i, (s, line)) in structs.iter().zip(text.lines()).enumerate() {
            check(&format!("{compiler} s{i}"), s, line);
        }
    }
}

fn check(label: &str, s: &Generated, line: &str) {
    let (slots, rules) = s.slots();
    let placed = place(&slots, rules);
    let words: Vec<&str> = line.split(' ').collect();
    // Unnamed bit-fields do not raise the alignment of the whole: compare it only without them.
    let unnamed = s.pieces.iter().any(|p| matches!(p, Piece::UnnamedBits(_)));
    if !unnamed {
        assert_eq!(words[0], placed.size.to_string(), "{label} size of {}", s.c("s"));
        assert_eq!(words[1], placed.align.to_string(), "{label} alignment of {}", s.c("s"));
    }
    for (i, word) in words[2..].iter().enumerate().filter(|(_, w)| **w != "-") {
        assert_eq!(*word, placed.offsets_bits[i].to_string(), "{label} member m{i} of {}", s.c("s"));
    }
}
