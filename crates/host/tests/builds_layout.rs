//! Which program a layout is read from: builds that strip what they link, and folders with several programs.

mod common;

use common::folder;
use std::path::Path;

use tussle_advise::Edit;
use tussle_host::fix::{self, Build, FixError, Patched, Request};
use tussle_model::SourceLoc;
use tussle_testkit::need;

fn patch(dir: &Path, decl: Option<&SourceLoc>, edit: &str) -> Result<Patched, FixError> {
    let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
    let build = Build::Make;
    let edits = &edits[..];
    let request = Request {
        dir,
        type_name: "slot",
        decl,
        edits,
        build: &build,
        abi_ok: false,
        sites: &[],
        workshop: None,
    };
    fix::patch_tree(&request, &mut |_| {})
}

const SLOT: &str = "struct slot { long hits; long lost; };\nstatic struct slot all[2];\n\
    int main(void) { all[1].hits++; return (int)all[0].lost; }\n";

#[test]
fn a_program_that_is_stripped_in_one_call_has_a_layout() {
    if !need("gcc") || !need("make") {
        return;
    }
    let link = |how: &str| format!("all:\n\t{how}\n");
    for how in [
        "cc -g1 -O2 -s -o prog a.c",
        "cc -Wl,-O1,-s,-z,now -o prog a.c",
        "cc -Wl,--gc-sections -Wl,--strip-all -o prog a.c",
        "cc -o prog a.c\n\tstrip prog",
        "cc -o prog a.c\n\tobjcopy --strip-debug prog small && rm prog",
    ] {
        let dir = folder(&[("a.c", SLOT), ("Makefile", &link(how))]);
        let patched = patch(dir.path(), None, "element=64");
        assert_eq!(patched.map(|p| p.size_after).map_err(|e| e.to_string()), Ok(64), "{how}");
    }
}

#[test]
fn of_two_programs_with_a_struct_of_one_name_the_patched_one_is_compared() {
    if !need("gcc") || !need("make") {
        return;
    }
    let client = "struct slot { char c; };\nint main(void) { struct slot s = { .c = 0 }; return s.c; }\n";
    let rules = [
        "all:\n\tcc -c client.c -o client.o\n\tcc client.o -o client\n\tcc server.c -o server\n",
        "all:\n\tcc client.c -o client\n\tcc server.c -o server\n",
        "all:\n\tcc server.c -o server\n\tcc client.c -o client\n",
    ];
    for (name, wanted) in [("server.c", 64), ("client.c", 64)] {
        for rule in rules {
            let dir = folder(&[("server.c", SLOT), ("client.c", client), ("Makefile", rule)]);
            let decl = SourceLoc { file: name.into(), line: 1 };
            let patched = patch(dir.path(), Some(&decl), "element=64").map_err(|e| e.to_string());
            let sizes = patched.map(|p| (p.files[0].path.display().to_string(), p.size_before, p.size_after));
            let before = if name == "server.c" { 16 } else { 1 };
            assert_eq!(sizes, Ok((name.into(), before, wanted)), "{rule}");
        }
    }
}

#[test]
fn folders_built_by_their_own_makefiles_keep_their_structs_apart() {
    if !need("gcc") || !need("make") {
        return;
    }
    let unit = "#include \"inc/slot.h\"\nstatic struct slot all[2];\n\
        int main(void) { all[1].hits++; return 0; }\n";
    let (one, two) = ("struct slot { long hits; };\n", "struct slot { char c[24]; long hits; };\n");
    let rule = "all:\n\tcc -I. main.c -o prog\n";
    let dir = folder(&[
        ("a/inc/slot.h", one),
        ("a/main.c", unit),
        ("a/Makefile", rule),
        ("b/inc/slot.h", two),
        ("b/main.c", unit),
        ("b/Makefile", rule),
        ("Makefile", "all:\n\t$(MAKE) -C a\n\t$(MAKE) -C b\n"),
    ]);
    for (name, size) in [("a/inc/slot.h", 8), ("b/inc/slot.h", 32)] {
        let decl = SourceLoc { file: name.into(), line: 1 };
        let patched = patch(dir.path(), Some(&decl), "pad=64").map_err(|e| e.to_string());
        assert_eq!(patched.map(|p| (p.size_before, p.size_after)), Ok((size, 64)), "{name}");
    }
}
