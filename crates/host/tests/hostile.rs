//! C++ programs whose output depends on the order of members: a patch either keeps the output or is refused.

use std::path::Path;
use std::process::Command;

use tussle_advise::Edit;
use tussle_host::fix::{self, Build, FixError, Patched, Request};
use tussle_testkit::need;

/// What `fix` must do; where it patches, the output must stay in any case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expect<'a> {
    /// A patch.
    Patched,
    /// A refusal with these words.
    Refused(&'a str),
}
use Expect::{Patched as Patches, Refused};

fn patch(dir: &Path, type_name: &str, edit: &str) -> Result<Patched, FixError> {
    let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
    fix::patch_tree(
        &Request {
            dir,
            type_name,
            decl: None,
            edits: &edits,
            build: &Build::Plain,
            abi_ok: false,
            sites: &[],
            workshop: None,
        },
        &mut |_| {},
    )
}

/// Compiles and runs `main.cpp` in `dir`.
fn output(dir: &Path) -> String {
    let program = dir.join("program");
    let compiled = Command::new("g++")
        .args(["-std=c++20", "-w", "-o"])
        .args([&program, &dir.join("main.cpp")])
        .output()
        .expect("g++");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let out = Command::new(&program).output().expect("the program runs");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Patches the program and compares what it prints.
fn check(body: &str, type_name: &str, edit: &str, expect: Expect<'_>) {
    let dir = tempfile::tempdir().expect("a folder");
    let main = dir.path().join("main.cpp");
    let text = format!("#include <cstdio>\n#include <compare>\n{body}\n");
    std::fs::write(&main, &text).expect("a file");
    let database = format!(
        r#"[{{"directory": {0:?}, "file": "main.cpp", "arguments": ["g++", "-std=c++20", "-c", "main.cpp"]}}]"#,
        dir.path()
    );
    let compdb = dir.path().join("compile_commands.json");
    std::fs::write(&compdb, database).expect("a file");
    let before = output(dir.path());
    let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
    let build = Build::Compdb(compdb);
    let request = Request {
        dir: dir.path(),
        type_name,
        decl: None,
        edits: &edits,
        build: &build,
        abi_ok: false,
        sites: &[],
        workshop: None,
    };
    match (fix::patch_tree(&request, &mut |_| {}), expect) {
        (Ok(patched), _) => {
            std::fs::write(&main, &patched.files[0].new).expect("a file");
            assert_eq!(before, output(dir.path()), "{edit} changes what this prints:\n{body}");
            assert_eq!(expect, Patches, "{edit}:\n{body}");
        }
        (Err(e), Refused(words)) => assert!(e.to_string().contains(words), "{edit}: {e}\n{body}"),
        (Err(e), Patches) => panic!("{edit}: refused: {e}\n{body}"),
    }
}

/// `main` that prints `what` as a long.
fn main_prints(what: &str) -> String {
    format!("int main() {{ printf(\"%ld\\n\", (long)({what})); }}")
}

#[test]
fn initialisers_that_need_their_order_keep_it() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let run = |class: &str, ty: &str, value: &str, edit: &str, expect| {
        check(&format!("{class}\n{}", main_prints(value)), ty, edit, expect);
    };
    let reads = "struct S {\n  long a_ = 42;\n  long b_ = a_;\n  int c_ = 1;\n};";
    run(reads, "S", "S().b_", "b_:before:a_", Refused("uses a_"));
    run(reads, "S", "S().b_", "c_:before:b_", Patches);
    run(reads, "S", "S().b_", "b_:after:c_", Patches);
    let list = "struct S {\n  long a_;\n  long b_;\n  S() : a_(42), b_(a_) {}\n};";
    run(list, "S", "S().b_", "swap:a_,b_", Refused("uses a_"));
    let mixed = "static long n;\nstatic long next() { return ++n; }\nstruct S {\n\
        long a_ = next();\n  long b_;\n  long c_ = next();\n  S() : b_(7) {}\n};";
    run(mixed, "S", "S().a_ * 10 + S().c_", "c_:before:a_", Refused("may show"));
    run(mixed, "S", "S().b_", "b_:first", Patches);
    let moved = "#include <string>\n#include <utility>\nstruct S {\n  long size_ = 0;\n\
        std::string s_;\n  std::string t_;\n  explicit S(std::string x) : s_(std::move(x)) {}\n};";
    run(moved, "S", "S(\"abc\").s_.size()", "size_:after:t_", Patches);
    let sides = "struct L {\n  long n;\n  explicit L(long i) : n(i) { printf(\"+%ld\", i); }\n\
        ~L() { printf(\"-%ld\", n); }\n};\nstruct S {\n  L a{1};\n  long x = 0;\n  L b{2};\n};";
    run(sides, "S", "S().x", "b:first", Refused("constructed and destroyed"));
    run(sides, "S", "S().x", "x:after:b", Patches);
    let lambda = "#include <functional>\nstruct S {\n  long a = 5;\n\
        long b = [this] { return a; }();\n  long c = 0;\n};";
    run(lambda, "S", "S().b", "b:first", Refused("b uses a"));
    // Copies of what only holds numbers show nothing; a constructor with other arguments may.
    let copied = "struct O {\n  bool b = false;\n  int n = 3;\n};\nstruct S {\n  void *arg;\n  const O options;\n\
        explicit S(const O &o) : options(o), arg(nullptr) {}\n};";
    run(copied, "S", "S(O()).options.n", "options:first", Patches);
    let built = copied.replace("int n = 3;", "int n;\n  O(int i = 3) : n(i) {}");
    let said = built
        .replace(": n(i) {}", ": n(i) { printf(\"%d\", i); }")
        .replace("options(o), arg(nullptr)", "options(o.n + 1), arg((void *)(printf(\"x\") * 0L))");
    run(&said, "S", "S(O()).options.n", "options:first", Refused("may show"));
    // By a method, one that calls another, one that may be another class's.
    let method = "struct S {\n  long a = 21;\n  long b = twice();\n  long c = 0;\n\
        long twice() const { return more(); }\n  long more() const;\n};\n\
        long S::more() const { return 2 * a; }";
    run(method, "S", "S().b", "swap:a,b", Refused("b uses a"));
    run(method, "S", "S().b", "c:first", Patches);
    let virtual_one = "struct S {\n  long c = 0;\n  long a = 21;\n  long b = twice();\n\
        virtual long twice() const { return 1; }\n};";
    run(virtual_one, "S", "S().b", "swap:a,b", Refused("b uses a"));
}

#[test]
fn uses_by_position_refuse() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let agg = "struct Agg {\n  int a;\n  int b;\n  int c;\n};\n";
    let run = |rest: &str, expect| check(&format!("{agg}{rest}"), "Agg", "swap:a,c", expect);
    let print = main_prints("x.a * 100 + x.b * 10 + x.c").replace("{ ", "{ Agg x = make(); ");
    run(&format!("Agg make() {{ return Agg{{0, 1, 2}}; }}\n{print}"), Refused("by position"));
    let gap = |rest: &str, expect| check(&format!("{agg}{rest}"), "Agg", "gap:b=64", expect);
    gap(&format!("Agg make() {{ return Agg{{0, 1, 2}}; }}\n{print}"), Refused("by position"));
    gap(&format!("Agg make() {{ Agg x; x.a = 3; x.b = 4; x.c = 5; return x; }}\n{print}"), Patches);
    run(&format!("Agg make() {{ return {{0, 1, 2}}; }}\n{print}"), Refused("by position"));
    run(
        &format!(
            "template <class T> T of() {{ return T{{0, 1, 2}}; }}\n\
                Agg make() {{ return of<Agg>(); }}\n{print}"
        ),
        Refused("by position"),
    );
    run(&format!("Agg make() {{ Agg x; x.a = 3; x.b = 4; x.c = 5; return x; }}\n{print}"), Patches);
    run(&format!("Agg make() {{ Agg x{{}}; x.a = 3; return x; }}\n{print}"), Patches);
    let bind =
        "int main() { Agg x{}; x.a = 1; x.c = 3; auto [p, q, r] = x; printf(\"%d %d %d\\n\", p, q, r); }";
    run(bind, Refused("by position"));
    let named = "int main() { Agg x{.a = 1, .b = 2, .c = 3}; printf(\"%d\\n\", x.a); }";
    run(named, Refused("by position"));
    let tie = "#include <tuple>\nint main() { Agg x{}, y{}; x.a = 1; y.c = 2; printf(\"%d\\n\
        \", std::tie(x.a, x.b, x.c) < std::tie(y.a, y.b, y.c)); }";
    run(tie, Patches);
    let array = "static Agg all[] = {{1, 2, 3}, {4, 5, 6}};\nint main() { printf(\"%d\\n\", all[1].a); }";
    run(array, Refused("by position"));
}

#[test]
fn comparisons_templates_and_bases() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let less = "struct V {\n  int major = 0;\n  int minor = 0;\n\
        auto operator<=>(const V &) const = default;\n};\n\
        int main() { V a, b; a.major = 1; b.minor = 2; printf(\"%d\\n\", a < b); }";
    check(less, "V", "swap:major,minor", Refused("<=>"));
    check(less, "V", "align:minor=64", Patches);
    let friend = "struct V {\n  int a = 0;\n  int b = 0;\n\
        friend bool operator==(const V &, const V &) = default;\n};\n\
        int main() { V x, y; printf(\"%d\\n\", x == y); }";
    check(friend, "V", "swap:a,b", Refused("operator=="));
    let slot = "template <class T> struct Slot {\n  T a = 1;\n  T b = a + 1;\n  int c = 0;\n};\n\
        int main() { Slot<long> s; printf(\"%ld\\n\", s.b); }";
    check(slot, "Slot<long>", "swap:a,b", Refused("b uses a"));
    check(slot, "Slot<long>", "align:c=64", Patches);
    check(slot, "Slot", "align:c=64", Patches);
    let base = "struct B {\n  int a = 1;\n  long b = 2;\n  int c = 3;\n};\n\
        struct D : B { int d = 4; };\nint main() { D d; printf(\"%d\\n\", d.a); }";
    check(base, "B", "c:after:a", Patches);
    let sized = base.replace("d.a)", "(int)sizeof d)");
    check(&sized, "B", "c:after:a", Refused("its size is printed"));
    check(&sized, "B", "swap:a,c", Patches);
    let elided = base.replace("D d;", "D d{1, 2, 3, 4};");
    check(&elided, "B", "swap:a,c", Refused("by position"));
    let packed = "struct __attribute__((packed)) P {\n  char a = 1;\n  int b = 2;\n  char c = 3;\n\
        };\nint main() { P p; printf(\"%d\\n\", p.b); }";
    check(packed, "P", "c:after:a", Patches);
    let bits = "struct F {\n  unsigned a : 3;\n  unsigned b : 5;\n  int c;\n};\n\
        int main() { F f{}; f.a = 1; printf(\"%d\\n\", f.a); }";
    check(bits, "F", "a:after:c", Refused("bit-field"));
    check(bits, "F", "c:first", Patches);
}

#[test]
fn without_clang_only_alignment_and_padding_stay() {
    if !need("g++") || has_clang() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let text = "struct S {\n  int a;\n  int b;\n};\nS s;\nint main() { return s.a; }\n";
    std::fs::write(dir.path().join("main.cpp"), text).expect("a file");
    let refused = patch(dir.path(), "S", "swap:a,b").expect_err("no clang").to_string();
    assert!(refused.contains("only with clang++"), "{refused}");
    patch(dir.path(), "S", "element=64").expect("a patch");
}

#[test]
fn units_beside_the_patched_header_are_asked() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let header = "#pragma once\nstruct S {\n  int a = 0;\n  int b = 0;\n  int c = 0;\n};\n";
    let try_with = |unit: &str| {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("s.h"), header).expect("a file");
        std::fs::write(dir.path().join("use.cpp"), format!("#include \"s.h\"\n{unit}\n")).expect("a file");
        patch(dir.path(), "S", "c:first").map_err(|e| e.to_string())
    };
    try_with("S s; int main() { return s.a; }").expect("a patch");
    let refused = try_with("S s{1, 2, 3}; int main() { return s.a; }").expect_err("by position");
    assert!(refused.contains("by position"), "{refused}");
}

fn has_clang() -> bool {
    let there = Command::new("clang++").arg("--version").output().is_ok();
    if there {
        tussle_testkit::skip("clang++ is installed");
    }
    there
}
