//! `tussle check`: a result per cell, exit statuses, what is known already, and where findings point.

#![allow(clippy::unwrap_used)]

mod schema;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tussle_testkit::need;

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../layout/tests/data/snapshots");
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/linux-mm.toml");

fn run(dir: &Path, program: &str, args: &[&str]) -> (i32, String) {
    let out = Command::new(program).args(args).current_dir(dir).output().unwrap();
    (out.status.code().unwrap(), String::from_utf8_lossy(&out.stdout).into_owned())
}

fn tussle(dir: &Path, args: &[&str]) -> (i32, String) {
    run(dir, env!("CARGO_BIN_EXE_tussle"), args)
}

fn json(dir: &Path, args: &[&str]) -> (i32, Value) {
    let (code, text) = tussle(dir, &[args, &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"));
    schema::keeps_to(json["kind"].as_str().unwrap(), &json);
    (code, json)
}

#[test]
fn the_shipped_rules_over_six_kernels_one_of_them_rt() {
    let files = ["6.1-amd64", "6.1-arm64", "6.12-amd64", "6.12-rt", "7.2-amd64", "7.2-arm64"]
        .map(|f| format!("{f}.json"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let (code, json) =
        json(Path::new(SNAPSHOTS), &[&["check", "--rules", SHIPPED], files.as_slice()].concat());
    assert_eq!(code, 1);
    assert_eq!((&json["failed"], &json["excluded"], &json["errors"]), (&11.into(), &4.into(), &0.into()));
    let matrix = json["matrix"].as_array().unwrap();
    assert_eq!(matrix.len(), 7);
    assert_eq!(
        (&matrix[0]["6.12-rt.json"], &matrix[0]["6.1-amd64.json"]),
        (&"excluded".into(), &"fail".into())
    );
    assert!(matrix.iter().all(|row| row.as_object().unwrap().len() == 7), "every cell is there");
}

/// A tree with a type that breaks a rule, and a repository around it.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    let source = "struct sh {\n\tlong lock;\n\tlong data;\n\tchar pad[112];\n} __attribute__((aligned(64)));\n\
        struct sh s;\n";
    std::fs::write(dir.path().join("src/a.c"), source).unwrap();
    let rules = "[[rule]]\nid = \"apart\"\ntype = \"sh\"\nseparate = [\"lock\", \"data\"]\n\
        help = \"move data behind pad\"\n";
    std::fs::write(dir.path().join("rules.toml"), rules).unwrap();
    assert_eq!(run(dir.path(), "gcc", &["-g", "-c", "src/a.c", "-o", "a.o"]).0, 0);
    dir
}

#[test]
fn exit_statuses_and_what_is_known() {
    if !need("gcc") {
        return;
    }
    let dir = tree();
    let dir = dir.path();
    let check = |more: &[&str]| json(dir, &[&["check", "--rules", "rules.toml", "a.o"], more].concat());
    assert_eq!(check(&[]).0, 1);
    assert_eq!(check(&["--baseline", "known.json", "--update"]).0, 0);
    let (code, known) = check(&["--baseline", "known.json"]);
    assert_eq!((code, &known["known"], &known["failed"]), (0, &1.into(), &1.into()));
    assert_eq!(check(&["--against", "a.o"]).0, 0);
    let extra = "[[rule]]\ntype = \"sh\"\nalone = [\"gone\"]\n[[rule]]\ntype = \"sh\"\nmax_size = 1\n\
        when = { config = \"X\" }\n";
    std::fs::write(dir.join("extra.toml"), extra).unwrap();
    let (code, json) = check(&["--rules", "extra.toml"]);
    assert_eq!((code, &json["errors"], &json["unknown"]), (2, &1.into(), &1.into()));
    std::fs::write(dir.join("extra.toml"), extra.replace("gone", "pad")).unwrap();
    assert_eq!(check(&["--rules", "extra.toml", "--baseline", "known.json"]).0, 1);
    std::fs::write(
        dir.join("extra.toml"),
        "[[rule]]\ntype = \"sh\"\nmax_size = 1\nwhen = { config = \"X\" }\n",
    )
    .unwrap();
    assert_eq!(check(&["--rules", "extra.toml", "--baseline", "known.json"]).0, 0);
    assert_eq!(check(&["--rules", "extra.toml", "--baseline", "known.json", "--strict"]).0, 1);
}

#[test]
fn findings_point_into_the_checkout() {
    if !need("gcc") {
        return;
    }
    let dir = tree();
    let dir = dir.path();
    let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "a.o", "--format", "github"]);
    assert_eq!(code, 1);
    assert!(text.starts_with("::error file=src/a.c,line=3,title=apart::"), "{text}");
    let (_, text) = tussle(dir, &["check", "--rules", "rules.toml", "a.o", "--format", "sarif"]);
    let sarif: Value = serde_json::from_str(&text).unwrap();
    let run = &sarif["runs"][0];
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "apart");
    assert_eq!(run["tool"]["driver"]["rules"][0]["help"]["text"], "move data behind pad");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"src/a.c".into(), &3.into())
    );
    assert_eq!(result["partialFingerprints"]["tussle/v1"].as_str().map(str::len), Some(16));
    // code hosts refuse results without a place
    std::fs::write(dir.join("rules.toml"), "[[rule]]\ntype = \"gone\"\nmax_size = 3\n").unwrap();
    let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "a.o", "--format", "sarif"]);
    let sarif: Value = serde_json::from_str(&text).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!((code, &place["uri"]), (2, &"a.o".into()));
}

#[test]
fn new_since_a_revision() {
    if !need("gcc") || !need("git") {
        return;
    }
    let dir = tree();
    let dir = dir.path();
    assert_eq!(tussle(dir, &["snapshot", "a.o", "-C", "sh", "-o", "sh.json"]).0, 0);
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
        assert_eq!(run(dir, "git", &[&who, args].concat()).0, 0, "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "sh.json"]);
    git(&["commit", "-qm", "layouts"]);
    let check = || tussle(dir, &["check", "--rules", "rules.toml", "sh.json", "--against", "HEAD"]);
    assert_eq!(check().0, 0);
    std::fs::write(
        dir.join("rules.toml"),
        "[[rule]]\ntype = \"sh\"\nseparate = [\"lock\", \"data\", \"pad\"]\n",
    )
    .unwrap();
    // the same rule over more fields: the same fault under another rule is no news only where it has its name
    let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "sh.json"]);
    assert_eq!(code, 1, "{text}");
    std::fs::write(
        dir.join("src/a.c"),
        std::fs::read_to_string(dir.join("src/a.c"))
            .unwrap()
            .replace("\tlong data;\n", "\tlong data, more;\n"),
    )
    .unwrap();
    std::fs::write(dir.join("rules.toml"), "[[rule]]\ntype = \"sh\"\nseparate = [\"lock\", \"*a*\"]\n")
        .unwrap();
    assert_eq!(run(dir, "gcc", &["-g", "-c", "src/a.c", "-o", "a.o"]).0, 0);
    assert_eq!(tussle(dir, &["snapshot", "a.o", "-C", "sh", "-o", "sh.json"]).0, 0);
    assert_eq!(check().0, 0, "more is no field that the pattern names");
    std::fs::write(dir.join("rules.toml"), "[[rule]]\ntype = \"sh\"\nseparate = [\"lock\", \"*\"]\n")
        .unwrap();
    let (code, text) = check();
    assert!(code == 1 && text.contains("more") && !text.contains("lock at 0 and data"), "{code}: {text}");
}

/// Builds are not committed; snapshots of them are, in a folder of their own.
#[test]
fn a_build_is_held_against_the_snapshot_committed_of_it() {
    if !need("gcc") || !need("git") {
        return;
    }
    let dir = tree();
    let dir = dir.path();
    assert_eq!(tussle(dir, &["snapshot", "--update", "layouts", "a.o"]).0, 2, "nothing to renew");
    assert_eq!(tussle(dir, &["snapshot", "a.o", "-C", "sh", "-o", "layouts/a.json"]).0, 0);
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
        assert_eq!(run(dir, "git", &[&who, args].concat()).0, 0, "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "layouts"]);
    git(&["commit", "-qm", "layouts"]);
    let rules = std::fs::read_to_string(dir.join("rules.toml")).unwrap();
    let more = "[[rule]]\nid = \"small\"\ntype = \"sh\"\nmax_size = 200\n";
    std::fs::write(dir.join("rules.toml"), rules + more).unwrap();
    let check = || json(dir, &["check", "--rules", "rules.toml", "a.o", "--against", "HEAD"]);
    let (code, known) = check();
    assert_eq!((code, &known["known"], &known["failed"]), (0, &1.into(), &1.into()));
    let source = std::fs::read_to_string(dir.join("src/a.c")).unwrap().replace("pad[112]", "pad[240]");
    std::fs::write(dir.join("src/a.c"), source).unwrap();
    assert_eq!(run(dir, "gcc", &["-g", "-c", "src/a.c", "-o", "a.o"]).0, 0);
    let (code, known) = check();
    assert_eq!((code, &known["known"], &known["failed"]), (1, &1.into(), &2.into()));
    let grown = || tussle(dir, &["diff", "layouts", "."]).1.contains("128 -> 256");
    assert!(grown());
    assert_eq!(tussle(dir, &["snapshot", "--update", "layouts", "."]).0, 0);
    assert!(!grown());
}

#[test]
fn assertions_compile_in_three_languages() {
    if !need("gcc") || !need("g++") {
        return;
    }
    let dir = tree();
    let dir = dir.path();
    let rules = "[[rule]]\ntype = \"sh\"\nseparate = [\"lock\", \"pad\"]\nphases = [56]\n[[rule]]\n\
        type = \"sh\"\nmax_size = 128\n\
        [[rule]]\ntype = \"sh\"\nalone = [\"st*\"]\n";
    std::fs::write(dir.join("rules.toml"), rules).unwrap();
    let emit = |language: &str, file: &str, before: &str, compiler: &[&str]| {
        let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "--emit", language]);
        assert_eq!(code, 0);
        for (text, fine) in [(text.clone(), true), (text.replace("128", "64"), false)] {
            std::fs::write(dir.join(file), format!("{before}\n{text}")).unwrap();
            let out =
                Command::new(compiler[0]).args(&compiler[1..]).arg(file).current_dir(dir).output().unwrap();
            assert_eq!(
                out.status.success(),
                fine,
                "{language}: {}\n{text}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
    };
    let c = "struct sh { long lock, data; char pad[112]; };";
    emit("c", "r.c", c, &["gcc", "-fsyntax-only", "-std=c11"]);
    emit("c++", "r.cc", c, &["g++", "-fsyntax-only", "-std=c++11"]);
    let rust = "#![crate_type = \"lib\"]\n#[allow(non_camel_case_types)]\n#[repr(C)]\n\
        pub struct sh { lock: i64, data: i64, pad: [u8; 112] }";
    emit("rust", "r.rs", rust, &["rustc", "--emit=metadata", "--edition=2021"]);
}

#[test]
fn what_no_assertion_can_say_is_a_comment() {
    if !need("g++") || !need("rustc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "template<class A, class B> struct both { A a; B b; }; struct bits { int x : 3, y : 5; int z; };\n\
        class hides { int x; public: int y; }; struct V { int v; }; struct D : virtual V { int d; };\n\
        both<int, long> o; bits p; hides q; D r;\n";
    let rules = "[[rule]]\ntype = \"both<int, long>\"\noffset = { b = 8 }\n[[rule]]\ntype = \"bits\"\n\
        separate = [\"x\", \"z\"]\n[[rule]]\ntype = \"hides\"\noffset = { x = 0 }\n[[rule]]\ntype = \"D\"\n\
        offset = { v = 12 }\n[[rule]]\ntype = \"bits\"\noffset = { z = 4 }\n";
    std::fs::write(dir.join("a.cc"), source).unwrap();
    std::fs::write(dir.join("rules.toml"), rules).unwrap();
    assert_eq!(run(dir, "g++", &["-g", "-c", "a.cc", "-o", "a.o"]).0, 0);
    let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "--emit", "c++", "a.o"]);
    assert_eq!(
        (code, text.matches("static_assert(").count(), text.matches("not an assertion").count()),
        (0, 2, 3)
    );
    std::fs::write(dir.join("b.cc"), format!("{source}\n{text}")).unwrap();
    assert_eq!(run(dir, "g++", &["-fsyntax-only", "-std=c++11", "b.cc"]).0, 0, "{text}");
    let packed = "#![crate_type = \"lib\"]\n#[repr(C, packed)] pub struct P { a: u8, b: u64 }";
    std::fs::write(dir.join("rules.toml"), "[[rule]]\ntype = \"P\"\nsame_line = [\"a\", \"b\"]\n").unwrap();
    let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "--emit", "rust"]);
    std::fs::write(dir.join("b.rs"), format!("{packed}\n{text}")).unwrap();
    assert_eq!((code, run(dir, "rustc", &["--emit=metadata", "--edition=2021", "b.rs"]).0), (0, 0), "{text}");
}

/// The outcome does not depend on which object the linker saw first.
#[test]
fn two_definitions_of_one_name() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let good = "struct two { long a; char pad[56]; long b; } __attribute__((aligned(64))) g;\n\
        int main(void) { return 0; }\n";
    std::fs::write(dir.join("good.c"), good).unwrap();
    std::fs::write(dir.join("bad.c"), "struct two { long a; long b; } __attribute__((aligned(64))) h;\n")
        .unwrap();
    std::fs::write(dir.join("rules.toml"), "[[rule]]\ntype = \"two\"\nseparate = [\"a\", \"b\"]\n").unwrap();
    for order in [["good.c", "bad.c"], ["bad.c", "good.c"]] {
        assert_eq!(run(dir, "gcc", &["-g", order[0], order[1], "-o", "both"]).0, 0);
        let (code, text) = tussle(dir, &["check", "--rules", "rules.toml", "both"]);
        assert!(code == 1 && text.contains("as bad.c has it"), "{code}: {text}");
        let (_, text) = tussle(dir, &["layout", "both", "-C", "two"]);
        assert!(
            text.contains("/* good.c */\nstruct two {") && text.contains("/* bad.c */\nstruct two {"),
            "{text}"
        );
    }
}

/// `has` chooses among definitions; what one of them lacks is said of that one, and hides no violation of another.
#[test]
fn two_definitions_of_which_one_lacks_the_field() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("a.c"), "struct elem { int flag; int a; } g;\nint main(void) { return 0; }\n")
        .unwrap();
    std::fs::write(dir.join("b.c"), "struct elem { long hits; int other; } h;\n").unwrap();
    let rule = "[[rule]]\ntype = \"elem\"\nseparate = [\"flag\", \"a\"]\n";
    std::fs::write(dir.join("plain.toml"), rule).unwrap();
    std::fs::write(dir.join("has.toml"), format!("{rule}when = {{ has = \"flag\" }}\n")).unwrap();
    for order in [["a.c", "b.c"], ["b.c", "a.c"]] {
        assert_eq!(run(dir, "gcc", &["-g", order[0], order[1], "-o", "both"]).0, 0);
        let (code, text) = tussle(dir, &["check", "--rules", "plain.toml", "both"]);
        let said = text.contains("no field `flag` (as b.c has it); violated besides: flag at 0");
        assert!(code == 2 && said, "{code}: {text}");
        let (code, text) = tussle(dir, &["check", "--rules", "has.toml", "both"]);
        assert!(code == 1 && text.contains("as a.c has it"), "{code}: {text}");
    }
}

/// Members from a file that is included into the body: its line counts in another file.
#[test]
fn members_from_an_included_file_point_at_the_struct() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("fields.inc"), "\n\n\n\nlong inner;\n").unwrap();
    let source = "\n#define FIELD(n) long n;\nstruct s {\n\tFIELD(a)\n#include \"fields.inc\"\n\tlong c;\n};\n\
        struct s g;\n";
    std::fs::write(dir.join("a.c"), source).unwrap();
    assert_eq!(run(dir, "gcc", &["-g", "-c", "a.c", "-o", "a.o"]).0, 0);
    for (fields, line) in [("\"a\", \"inner\"", 3), ("\"inner\", \"a\"", 4), ("\"a\", \"c\"", 6)] {
        let rule = format!("[[rule]]\ntype = \"s\"\nseparate = [{fields}]\n");
        std::fs::write(dir.join("rules.toml"), rule).unwrap();
        let (_, text) = tussle(dir, &["check", "--rules", "rules.toml", "a.o", "--format", "github"]);
        assert!(text.contains(&format!("file=a.c,line={line},")), "{fields}: {text}");
    }
}

/// One file of a matrix that cannot be read keeps no other from being judged.
#[test]
fn a_file_without_debug_information_is_a_column_of_errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("not-a-build"), "hello hello hello").unwrap();
    let bad = dir.path().join("not-a-build").display().to_string();
    let snapshots = Path::new(SNAPSHOTS);
    let (code, json) = json(snapshots, &["check", "--rules", SHIPPED, &bad, "6.1-amd64.json"]);
    assert_eq!((code, &json["errors"], &json["builds"]), (2, &7.into(), &2.into()));
    let row = &json["matrix"][0];
    assert_eq!((&row["not-a-build"], &row["6.1-amd64.json"]), (&"error".into(), &"fail".into()));
    assert_eq!(tussle(snapshots, &["check", "--rules", SHIPPED, &bad]).0, 2);
}
