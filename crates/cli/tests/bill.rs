//! The bill of a patch, against what was worked out by hand for twenty moves: sizes by the rules of the ABI, lines and
//! fights at every place where the allocator can put the object.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const TUSSLE: &str = env!("CARGO_BIN_EXE_tussle");

/// How the program gets its objects.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// `calloc` for each: 16 bytes apart from their neighbours' ends, at 0, 16, 32 or 48 of a line.
    Calloc,
    /// `aligned_alloc(64, ..)`, filled up to whole lines.
    Aligned,
    /// One `calloc` for all.
    Array,
    /// A variable.
    Variable,
}

struct Case {
    name: &'static str,
    /// Members of `struct s`; what is not named in `threads` is never touched.
    body: &'static [&'static str],
    from: From,
    objects: usize,
    /// Members that each thread changes, 5,000 times in every object.
    threads: &'static [&'static [&'static str]],
    moves: &'static [&'static str],
    /// Bytes of a struct with the move.
    size: u64,
    /// Growth of all objects.
    live: i64,
    /// Lines of a thread before and after, mean over threads and places; `None` where other variables count, too.
    lines: Option<(f64, f64)>,
    /// Fights before and after, in those that two threads have at one word of a line each, mean over places.
    fights: (f64, f64),
    /// Pairs that share a line only after the move.
    new: &'static [(&'static str, &'static str)],
    /// The first member is another one.
    first: bool,
}

/// Two threads, one object that `calloc` gave.
const CASE: Case = Case {
    name: "",
    body: &["long a", "long b"],
    from: From::Calloc,
    objects: 1,
    threads: &[&["a"], &["b"]],
    moves: &[],
    size: 0,
    live: 0,
    lines: Some((1.0, 1.0)),
    fights: (1.0, 1.0),
    new: &[],
    first: false,
};

const CASES: &[Case] = &[
    // 16 bytes never cross a line, wherever they begin; nor do two of them at the start of 64.
    Case { name: "pad", moves: &["pad=64"], size: 64, live: 48, ..CASE },
    // Three blocks 32 apart take 80 bytes: two lines from each of the four places; 80 apart they take three.
    Case {
        name: "pad of three",
        objects: 3,
        moves: &["pad=64"],
        size: 64,
        live: 144,
        lines: Some((2.0, 3.0)),
        fights: (3.0, 3.0),
        ..CASE
    },
    Case { name: "element", moves: &["element=64"], size: 64, live: 48, ..CASE },
    Case { name: "align", moves: &["align:b=64"], size: 128, live: 112, fights: (1.0, 0.0), ..CASE },
    // The block was one line and is two.
    Case {
        name: "align in a line",
        from: From::Aligned,
        moves: &["align:b=64"],
        size: 128,
        live: 64,
        fights: (1.0, 0.0),
        ..CASE
    },
    // Of the eight places of a variable of `long`s one parts the two.
    Case {
        name: "align a variable",
        from: From::Variable,
        moves: &["align:b=64"],
        size: 128,
        live: 112,
        lines: Some((1.0, 1.0)),
        fights: (7.0 / 8.0, 0.0),
        ..CASE
    },
    // b goes from 8 to 120 of 128 bytes.
    Case {
        name: "into the hole at the end",
        body: &["long a", "long b", "char cold[100]", "long c"],
        moves: &["b:after:c"],
        size: 128,
        fights: (1.0, 0.0),
        ..CASE
    },
    // b at 128 meets the next object's a, 144 behind this one's, from three of four places.
    Case {
        name: "towards the next object",
        body: &["long a", "long b", "char cold[120]"],
        objects: 2,
        moves: &["b:after:cold"],
        size: 136,
        lines: Some((2.0, 2.0)),
        fights: (2.0, 0.75),
        ..CASE
    },
    // a at 120 and b at 128 are parted from one of four places.
    Case {
        name: "before",
        body: &["char cold[120]", "long a", "long b"],
        moves: &["b:before:cold"],
        size: 136,
        fights: (0.75, 0.0),
        first: true,
        ..CASE
    },
    Case {
        name: "first",
        body: &["char cold[200]", "long a", "long b"],
        from: From::Aligned,
        moves: &["b:first"],
        size: 216,
        fights: (1.0, 0.0),
        first: true,
        ..CASE
    },
    // c is at 128, so that the second thread's line changes with b's.
    Case {
        name: "swap",
        body: &["long a", "long b", "char cold[112]", "long c"],
        from: From::Aligned,
        moves: &["swap:b,c"],
        size: 136,
        fights: (1.0, 0.0),
        ..CASE
    },
    Case {
        name: "swap of two sizes",
        body: &["long a", "int x", "int y", "char cold[112]", "long b"],
        from: From::Aligned,
        threads: &[&["a"], &["x"]],
        moves: &["swap:x,b"],
        size: 136,
        fights: (1.0, 0.0),
        ..CASE
    },
    // The second thread's two members part.
    Case {
        name: "two alignments",
        body: &["long a", "long b", "long c"],
        from: From::Aligned,
        threads: &[&["a"], &["b", "c"]],
        moves: &["align:b=64", "align:c=64"],
        size: 192,
        live: 128,
        lines: Some((1.0, 1.5)),
        fights: (17.0 / 15.0, 0.0),
        ..CASE
    },
    Case {
        name: "out of a group",
        body: &["long a", "long b", "long c", "char cold[104]"],
        from: From::Aligned,
        threads: &[&["a", "c"], &["b"]],
        moves: &["b:after:cold"],
        size: 128,
        fights: (17.0 / 15.0, 0.0),
        ..CASE
    },
    // The first thread's members lay 128 apart and come together.
    Case {
        name: "into a group",
        body: &["long a", "long b", "char cold[112]", "long c"],
        from: From::Aligned,
        threads: &[&["a", "c"], &["b"]],
        moves: &["swap:b,c"],
        size: 136,
        lines: Some((1.5, 1.0)),
        fights: (1.0, 0.0),
        ..CASE
    },
    // b goes to 56 and c stays at 64: nothing changes.
    Case {
        name: "not far enough",
        body: &["long a", "long b", "char cold[48]", "long c"],
        from: From::Aligned,
        threads: &[&["a"], &["b", "c"]],
        moves: &["b:after:cold"],
        size: 72,
        lines: Some((1.5, 1.5)),
        ..CASE
    },
    Case {
        name: "out of a hole",
        body: &["char a", "long b", "char c"],
        moves: &["c:after:a"],
        size: 16,
        live: -8,
        ..CASE
    },
    // 64 bytes take a line from one of four places and two from the others.
    Case {
        name: "array",
        from: From::Array,
        objects: 4,
        moves: &["align:b=64"],
        size: 128,
        live: 448,
        lines: Some((1.75, 4.0)),
        fights: (4.0, 0.0),
        ..CASE
    },
    Case {
        name: "array, padded",
        from: From::Array,
        objects: 4,
        moves: &["pad=64"],
        size: 64,
        live: 192,
        lines: Some((1.75, 4.0)),
        fights: (4.0, 4.0),
        ..CASE
    },
    // Two blocks 32 apart: one line from two of four places.
    Case {
        name: "blocks",
        objects: 2,
        moves: &["alloc=64"],
        size: 16,
        live: 96,
        lines: Some((1.5, 2.0)),
        fights: (2.0, 2.0),
        ..CASE
    },
    // The third thread's c was alone on its line. It meets a after an exchange, and b when that goes to its line.
    Case {
        name: "a private line",
        body: &["long a", "long b", "char cold[200]", "long c"],
        from: From::Aligned,
        threads: &[&["a"], &["b"], &["c"]],
        moves: &["swap:b,c"],
        size: 224,
        new: &[("a", "c")],
        ..CASE
    },
    Case {
        name: "beside a private line",
        body: &["long a", "long b", "char cold[200]", "long c"],
        from: From::Aligned,
        threads: &[&["a"], &["b"], &["c"]],
        moves: &["b:after:cold"],
        size: 224,
        new: &[("b", "c")],
        ..CASE
    },
];

/// Each thread changes its members of every object; nobody else touches them.
fn source(case: &Case) -> String {
    let n = case.objects;
    let members: String = case.body.iter().map(|m| format!("\t{m};\n")).collect();
    let object = if case.from == From::Variable { "g" } else { "(*o[i])" };
    let allocation = match case.from {
        From::Calloc => "o[i] = calloc(1, sizeof(struct s));",
        From::Aligned => "o[i] = aligned_alloc(64, (sizeof(struct s) + 63) / 64 * 64);",
        From::Array => "o[i] = i ? o[0] + i : calloc(4, sizeof(struct s));",
        From::Variable => "",
    };
    let (mut threads, mut starts) = (String::new(), String::new());
    for (t, fields) in case.threads.iter().enumerate() {
        let change: String = fields.iter().map(|f| format!(" CHANGE({object}.{f});")).collect();
        threads += &format!(
            "static void *thread{t}(void *p)\n{{\n\tfor (int r = 0; r < 5000; r++)\n\t\tfor (int i = 0; i < {n}; i++) \
             {{{change} }}\n\treturn p;\n}}\n"
        );
        starts += &format!("\tpthread_create(&t[{t}], 0, thread{t}, 0);\n");
    }
    let count = case.threads.len();
    let variables = match case.from {
        From::Variable => "static struct s g;".to_string(),
        _ => format!("static struct s *o[{n}];"),
    };
    format!(
        "#include <pthread.h>\n#include <stdlib.h>\n#define CHANGE(x) ((*(volatile __typeof__(x) *)&(x))++)\n\
         struct s {{\n{members}}};\n{variables}\n{threads}int main(void)\n{{\n\tpthread_t t[{count}];\n\
         \tfor (int i = 0; i < {n}; i++) {{ {allocation} }}\n{starts}\
         \tfor (int i = 0; i < {count}; i++) pthread_join(t[i], 0);\n}}\n"
    )
}

fn run(folder: &Path, args: &[&str]) -> Vec<u8> {
    let out = Command::new(TUSSLE).args(args).current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn bill(case: &Case) -> Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.c"), source(case)).unwrap();
    run(folder.path(), &["cc", "-O1", "-g", "p.c", "-o", "p", "-pthread"]);
    run(folder.path(), &["record", "-q", "-o", "p.data", "--", "./p"]);
    let mut fix = vec!["fix", "-q", "--format", "json", "-C", "s", "p.data"];
    case.moves.iter().for_each(|m| fix.extend(["--move", m]));
    serde_json::from_slice(&run(folder.path(), &fix)).unwrap()
}

#[test]
fn bills_are_what_a_hand_works_out() {
    if !tussle_testkit::need("cc") {
        return;
    }
    // What two threads at one word each cost.
    let one = bill(&CASES[0])["transfers_before"].as_f64().unwrap();
    for case in CASES {
        let bill = bill(case);
        let of = |key: &str| bill[key].as_f64().unwrap_or(f64::NAN);
        let near = |what: &str, got: f64, want: f64| {
            assert!(
                (got - want).abs() < 0.03 * want.max(0.3),
                "{}: {what} {got}, by hand {want}: {bill}",
                case.name
            );
        };
        assert_eq!(bill["size_bytes"], case.size, "{}: {bill}", case.name);
        assert_eq!(bill["live_bytes_added"], case.live, "{}: {bill}", case.name);
        if let Some((before, after)) = case.lines {
            near("lines before", of("lines_per_actor_before"), before);
            near("lines after", of("lines_per_actor"), after);
        }
        near("fights before", of("transfers_before") / one, case.fights.0);
        near("fights after", of("expected_invalidations") / one, case.fights.1);
        let new: Vec<Value> = case
            .new
            .iter()
            .map(|(a, b)| [format!("struct s.{a}"), format!("struct s.{b}")].to_vec().into())
            .collect();
        assert_eq!(bill["new_sharing"], Value::Array(new), "{}: {bill}", case.name);
        let first =
            bill["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains("first member"));
        assert_eq!(first, case.first, "{}: {bill}", case.name);
    }
}
