//! Programs whose output changes with the order or the size of a struct: `fix` refuses them with the place, or what it
//! prints is still what it was. C and C++; docs/validation/patches.md has the whole table.

use std::path::Path;
use std::process::Command;

use tussle_advise::Edit;
use tussle_host::fix::{self, Build, FixError, Request};
use tussle_testkit::need;

const HEADERS: &str = "#include <stdio.h>\n#include <string.h>\n#include <stdint.h>\n#include <stddef.h>\n";

/// Compiles and runs `file`.
fn output(dir: &Path, file: &str) -> Vec<u8> {
    let (compiler, standard) =
        if file.ends_with(".c") { ("gcc", "-std=gnu11") } else { ("g++", "-std=c++20") };
    let mut command = Command::new(compiler);
    command.args([standard, "-w", "-o", "program", file]).current_dir(dir);
    let compiled = command.output().expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Command::new(dir.join("program")).output().expect("the program runs").stdout
}

/// A refusal has the words; a patch must not change what the program prints.
fn check(file: &str, body: &str, edit: &str, refused: Option<&str>) {
    let dir = tempfile::tempdir().expect("a folder");
    let text = format!("{HEADERS}{body}\n");
    std::fs::write(dir.path().join(file), &text).expect("a file");
    let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
    let build = Build::Plain;
    let (dir, edits) = (dir.path(), edits.as_slice());
    let request = Request {
        dir,
        type_name: "s",
        decl: None,
        edits,
        build: &build,
        abi_ok: false,
        sites: &[],
        workshop: None,
    };
    match (fix::patch_tree(&request, &mut |_| {}), refused) {
        (Err(e), Some(words)) => assert!(e.to_string().contains(words), "{e}\n{body}"),
        (Err(e), None) => panic!("{e}\n{body}"),
        (Ok(_), Some(words)) => panic!("not refused ({words}):\n{body}"),
        (Ok(patched), None) => {
            let before = output(dir, file);
            std::fs::write(dir.join(file), &patched.files[0].new).expect("a file");
            assert_eq!(before, output(dir, file), "{edit}:\n{body}");
        }
    }
}

const S: &str = "struct s {\n\tint a;\n\tint b;\n\tint c;\n\tlong d;\n};\n";

fn c(main: &str, edit: &str, refused: Option<&str>) {
    check("main.c", &format!("{S}{main}"), edit, refused);
}

#[test]
fn positions_in_c_are_found_by_gcc() {
    if !need("gcc") {
        return;
    }
    let positions =
        |text: &str, expect| c(&format!("{text}\nint main(void) {{ return 0; }}"), "swap:a,c", expect);
    let found = Some("by position");
    c("struct s g = { 1, 2, 3 };\nint main(void) { return 0; }", "gap:b=64", found);
    positions("struct o { struct s in; int x; } g = { { 1, 2, 3 }, 4 };", found);
    positions("struct o { struct s in; int x; } g = { .in = { 1, 2, 3 } };", found);
    positions("struct s g = { .b = 2, 3 };", found);
    positions("typedef struct s tab[2];\ntab g = { { 1, 2 } };", found);
    positions("#define DEFINE(n) struct s n = { 1, 2, 3 }\nDEFINE(g);", found);
    positions("struct s z;\n__typeof__(z) g = { 1, 2 };", found);
    positions("struct s z, g = { 1, 2 };", found);
    positions("struct s g = { 0 }, h = { 0 };\nstruct s t[2] = { { 0 } };", None);
    positions("struct s g = { a: 1, c: 3 };", None);
}

#[test]
fn bytes_that_are_looked_at() {
    if !need("gcc") {
        return;
    }
    let f = |code: &str, expect| c(&format!("{code}\n"), "swap:a,c", Some(expect));
    f("int main(void) { struct s s = {0}; return ((unsigned char *)&s)[0]; }", "pointer to char");
    f(
        "int hash(const void *, size_t);\nint g(struct s *s) { return hash(s, sizeof(*s)); }",
        "hash() is given",
    );
    f("int g(struct s *x, struct s *y) { return memcmp(x, y, sizeof(*x)); }", "memcmp() compares");
    f("char out[64];\nvoid g(struct s *x) { memcpy(out, x, sizeof *x); }", "array of bytes");
    f("void g(struct s *x) { __asm__ volatile(\"\" : : \"r\"(x)); }", "assembly");
    f("struct s *g(void) { static char pool[48]; return (struct s *)pool; }", "so many bytes");
    let size = |code: &str, expect| c(&format!("{code}\n"), "pad=64", expect);
    size("int g(void) { return sizeof(struct s) <= 32; }", Some("compared with a number"));
    size("int g(void) { return sizeof(struct s) / sizeof(int); }", Some("counted in numbers"));
    let room = "static int g(int bytes) { return bytes / (int)sizeof(struct s); }\n\
                int main(void) { printf(\"%d\", g(512)); return 0; }";
    size(room, Some("divides a number of bytes"));
    // The size stays.
    c(&format!("{room}\n"), "swap:a,c", None);
    f("void g(struct s *x, char *b) { memcpy(b, x, 16); }", "from the first on");
    f(
        "struct t { int a, b; };\nvoid g(struct s *x, struct t *t) { memcpy(x, t, sizeof(*t)); }",
        "from the first on",
    );
    f("union u { struct s s; int v[5]; };", "union");
    f(
        "#include <sys/uio.h>\nint g(struct s *x) { struct iovec v = { .iov_base = x }; return writev(1, &v, 1); }",
        "bytes",
    );
    f(
        "int g(void) { char b[64]; fread(b, 1, 64, stdin); struct s *x = (struct s *)b; return x->a; }",
        "bytes",
    );
}

#[test]
fn what_only_looks_like_it_is_patched() {
    if !need("gcc") {
        return;
    }
    let main = "#include <stdlib.h>
#define container_of(p, t, m) ((t *)((char *)(p) - offsetof(t, m)))
static int by_c(const void *x, const void *y) { return ((const struct s *)x)->c - ((const struct s *)y)->c; }
int main(void) {
\tstruct s t[3] = { { 0 } }, *h = malloc(sizeof(*h)), copy;
\tmemset(h, 0, sizeof(*h));
\tstruct s *k;
\tmemcpy(&k, &h, sizeof(void *));
\th->c = 7;
\tt[1].c = 2;
\tmemcpy(&copy, h, sizeof(copy));
\tmemcpy(&t[0].a, &h->c, sizeof(h->c));
\tqsort(t, sizeof(t) / sizeof(t[0]), sizeof(t[0]), by_c);
\tint *p = &copy.c;
\tprintf(\"%d %d %ld\\n\", container_of(p, struct s, c)->c, *p, (long)((char *)&t[1] - (char *)&t[0] > 0));
\tfree(h);
\treturn 0;
}";
    c(main, "swap:a,c", None);
    c(main, "pad=64", None);
}

#[test]
fn templates_and_aliases() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let f = |code: &str, edit: &str, expect| check("main.cpp", &format!("{S}{code}"), edit, expect);
    let put = "template <class T> void put(const T &t) { fwrite(&t, sizeof t, 1, stdout); }\n\
        int main() { s x{}; x.a = 65; put(x); }";
    f(put, "swap:a,c", Some("put looks at the bytes"));
    let alias =
        "#include <unistd.h>\nusing Rec = s;\nint main() { Rec x{}; return write(1, &x, sizeof(x)) < 0; }";
    f(alias, "swap:a,c", Some("write() takes"));
    let automatic = "#include <unistd.h>\ns make() { return s(); }\n\
        int main() { auto x = make(); return write(1, &x, sizeof x) < 0; }";
    f(automatic, "pad=64", Some("write() takes"));
    let asks = "template <class T> constexpr bool one = requires { T{1}; };\nint main() { return one<s>; }";
    f(asks, "swap:a,d", Some("asks for the first members"));
    let pointers = "static int s::*const all[] = {&s::a, &s::c};\n\
        int main() { s x{}; x.a = 1; x.c = 3; for (auto m : all) printf(\"%d\", x.*m); }";
    f(pointers, "swap:a,c", None);
}

#[test]
fn constant_objects_by_constructors() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let class = "struct s {\n\tint a = 1;\n\tint b = 2;\n\tlong d = 3;\n\tconstexpr s() {}\n};\n\
        constexpr s one;\nstatic_assert(one.a == 1);\nint main() { printf(\"%ld\", one.a + one.d); }";
    check("main.cpp", class, "swap:a,d", None);
}

#[test]
fn the_first_member_stays_where_types_are_laid_over() {
    if !need("gcc") {
        return;
    }
    let base = "struct base { int kind; };\nstruct s {\n\tstruct base b;\n\tint n;\n\tint m;\n};\n";
    let main = "static int kind(struct base *b) { return b->kind; }\n\
        int main(void) { struct s x; x.b.kind = 7; printf(\"%d\\n\", kind((struct base *)&x)); return 0; }";
    check("main.c", &format!("{base}{main}"), "n:first", Some("looked at as base"));
    check("main.c", &format!("{base}{main}"), "swap:n,m", None);
}

#[test]
fn comparisons_that_are_defaulted_behind_the_class() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let behind = "#include <compare>\nstruct s {\n\tdouble a = 0;\n\tint b = 0;\n\
        \tstd::partial_ordering operator<=>(const s &) const;\n};\n\
        std::partial_ordering s::operator<=>(const s &) const = default;\nint main() { s x, y; return x < y; }";
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("main.cpp"), behind).expect("a file");
    let edits: Vec<Edit> = vec!["swap:a,b".parse().expect("an edit")];
    let command = Build::Shell("g++ -std=c++20 -o program main.cpp".into());
    let (dir, edits) = (dir.path(), edits.as_slice());
    let request = Request {
        dir,
        type_name: "s",
        decl: None,
        edits,
        build: &command,
        abi_ok: false,
        sites: &[],
        workshop: None,
    };
    let refused =
        fix::patch_tree(&request, &mut |_| {}).map_err(|e: FixError| e.to_string()).expect_err("defaulted");
    assert!(refused.contains("operator<=> is defaulted"), "{refused}");
}

#[test]
fn classes_that_other_units_describe_and_unnamed_namespaces() {
    if !need("g++") || !need("clang++") {
        return;
    }
    // The key function of Order stands elsewhere: by default g++ describes Order only there.
    let text = "struct Order { virtual ~Order(); virtual int of(int); long rank; };\nnamespace app { namespace {\n\
        struct Set {\n\tOrder order;\n\tlong first = 1;\n\tchar tail = 2;\n\tlong last = 3;\n};\n} }\n\
        long use(Order *o) { app::Set *s = new app::Set; return s->first + s->last + o->of(1); }\n";
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("set.cpp"), text).expect("a file");
    let edits: Vec<Edit> = vec!["swap:first,last".parse().expect("an edit")];
    let (dir, edits, build) = (dir.path(), edits.as_slice(), &Build::Plain);
    for type_name in ["app::Set", "app::(anonymous namespace)::Set"] {
        let request =
            Request { dir, type_name, decl: None, edits, build, abi_ok: false, sites: &[], workshop: None };
        let patched = fix::patch_tree(&request, &mut |_| {}).expect("a patch");
        assert!(patched.fields.iter().any(|f| f.path == "last" && f.after == 16), "{:?}", patched.fields);
    }
}

#[test]
fn members_that_the_build_leaves_out_are_named_as_such() {
    if !need("gcc") {
        return;
    }
    let text =
        "struct s {\n\tint k;\n#ifdef CONFIG_COMPAT\n\tint compat;\n#endif\n\tint z;\n};\nstruct s g;\n";
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("s.c"), text).expect("a file");
    let edits: Vec<Edit> = vec!["compat:after:z".parse().expect("an edit")];
    let (dir, edits, build) = (dir.path(), edits.as_slice(), &Build::Plain);
    let request =
        Request { dir, type_name: "s", decl: None, edits, build, abi_ok: false, sites: &[], workshop: None };
    let refused = fix::patch_tree(&request, &mut |_| {}).expect_err("left out").to_string();
    assert!(refused.contains("line 4 in an #if that this build leaves out"), "{refused}");
}

#[test]
fn another_folders_type_of_the_same_name_is_not_meant() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let header = "struct s {\n\tint a;\n\tint b;\n};\n";
    let files = [
        ("src/s.h", header),
        ("src/main.c", "#include \"s.h\"\nstruct s g;\nint main(void) { return g.a; }\n"),
        ("deps/other/s.h", "struct s {\n\tlong x;\n\tlong y;\n};\n"),
        ("deps/other/use.c", "#include \"s.h\"\nstruct s h = { 1, 2 };\n"),
    ];
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let decl = tussle_model::SourceLoc { file: "src/s.h".into(), line: 1 };
    let edits: Vec<Edit> = vec!["swap:a,b".parse().expect("an edit")];
    let build = &Build::Shell("gcc -c src/main.c -o main.o".into());
    let (dir, edits, decl) = (dir.path(), edits.as_slice(), Some(&decl));
    let request =
        Request { dir, type_name: "s", decl, edits, build, abi_ok: false, sites: &[], workshop: None };
    let patched = fix::patch_tree(&request, &mut |_| {}).expect("a patch");
    assert!(patched.diff.contains("a/src/s.h"), "{}", patched.diff);
}
