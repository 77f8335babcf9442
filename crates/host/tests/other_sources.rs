//! Uses of a struct in other files than the one that defines it, and in other languages: `fix` refuses them, and what
//! is harmless beside them is patched.

use tussle_advise::Edit;
use tussle_host::fix::{self, Build, Request};
use tussle_testkit::need;

/// The refusal of an edit of `s` in these files; `None` where there is a patch.
fn refusal(files: &[(&str, &str)], type_name: &str, edit: &str) -> Option<String> {
    let dir = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
    let build = &Build::Shell("for f in *.c *.cc; do [ ! -e $f ] || gcc -g -c $f || exit 1; done".into());
    let (dir, edits) = (dir.path(), edits.as_slice());
    let request =
        Request { dir, type_name, decl: None, edits, build, abi_ok: false, sites: &[], workshop: None };
    fix::patch_tree(&request, &mut |_| {}).err().map(|e| e.to_string())
}

const A: &str = "struct s {\n\tint id;\n\tint mark;\n\tlong used;\n\tint last;\n};\nstruct s all;\n\
    int see(const void *);\nint get(void) { return see(&all); }\n";

#[test]
fn units_that_do_not_name_the_struct() {
    if !need("gcc") {
        return;
    }
    let head = "struct head { int id; int mark; };\n\
        int see(const void *p) { const struct head *h = p; return h->mark; }\n";
    let run = |edit: &str, other: &str| refusal(&[("a.c", A), ("b.c", other)], "s", edit);
    assert!(run("swap:mark,last", head).expect("refused").contains("b.c:2"));
    assert_eq!(run("swap:used,last", head), None);
    let array = "extern int all[6];\nint see(const void *p) { return p && all[1]; }\n";
    assert!(run("swap:mark,last", array).expect("refused").contains("b.c:1: all is declared as int"));
}

#[test]
fn other_languages() {
    if !need("gcc") {
        return;
    }
    let python = "class S(Structure):\n    _fields_ = [('id', c_int), ('mark', c_int)]\n";
    let run = |edit: &str| refusal(&[("a.c", A), ("tool/use.py", python)], "s", edit);
    assert!(run("swap:id,mark").expect("refused").contains("tool/use.py:2"));
    assert_eq!(run("swap:used,last"), None);
}

#[test]
fn one_type_in_two_units() {
    if !need("gcc") {
        return;
    }
    let other = |members: &str| format!("struct s {{ {members} }};\nstruct s *one(void);\n");
    let same = other("int id; int mark; long used; int last;");
    let run = |other: &str| refusal(&[("a.c", A), ("b.c", other)], "s", "swap:id,mark").expect("refused");
    assert!(run(&same).contains("put it into a header"));
    assert!(run(&other("char name[4]; long x;")).contains("they differ"));
}

#[test]
fn memory_that_nothing_aligns() {
    if !need("gcc") {
        return;
    }
    let own = "#include <stdlib.h>\nvoid *take(unsigned long n) { void *p = malloc(n); return p ? p : take(n); }\n\
        struct s { int a; long b; };\nstruct s *make(void) { struct s *p = take(sizeof *p); return p; }\n";
    assert!(refusal(&[("a.c", own)], "s", "align:b=64").expect("refused").contains("take() gives it"));
    assert_eq!(refusal(&[("a.c", own)], "s", "gap:b=64"), None);
    let thrown = "struct s { int a; long b; };\nvoid f() { throw s(); }\n";
    assert!(refusal(&[("a.cc", thrown)], "s", "align:b=64").expect("refused").contains("thrown"));
}

#[test]
fn what_only_debug_builds_have() {
    if !need("gcc") {
        return;
    }
    let text = "#ifndef NDEBUG\nstruct s { int a; int b; } one;\nlong count;\n#endif\nlong other;\n";
    let run = |name: &str, edit: &str| refusal(&[("a.c", text)], name, edit);
    assert!(run("s", "swap:a,b").expect("refused").contains("inside #ifdef DEBUG or NDEBUG"));
    assert!(run("count", "align:count=64").expect("refused").contains("inside #ifdef DEBUG or NDEBUG"));
    assert_eq!(run("other", "align:other=64"), None);
}

#[test]
fn the_scopes_of_a_name_say_which_class_is_meant() {
    if !need("g++") || !need("clang++") {
        return;
    }
    let table = "namespace db {\nclass Table { struct Rep; };\nstruct Table::Rep { int a; int b; int c; };\n\
        int f(Table *);\n}\nint g(db::Table::Rep *r) { return r->a + r->c; }\n"
        .replace("class Table {", "class Table { public:");
    let log = "namespace db {\nnamespace log { struct Rep { long x; int y; long z; }; }\n}\n\
        long h(db::log::Rep *r) { return r->x + r->z; }\n";
    let files = [("table.cc", table.as_str()), ("log.cc", log)];
    assert_eq!(refusal(&files, "db::log::Rep", "y:first"), None);
    assert_eq!(refusal(&files, "db::Table::Rep", "swap:a,c"), None);
    let unclear = refusal(&files, "Rep", "swap:a,c").expect("two are called so");
    assert!(unclear.contains("log.cc, table.cc; they differ: name one of them with --in"), "{unclear}");
}
