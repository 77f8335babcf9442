//! Every container that debug information comes in, each held against the program's own offsets.

mod common;

use common::*;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{Error, NoCompanions, open};
use tussle_model::Aggregate;
use tussle_testkit::{need, wish};

#[test]
fn compressed_sections() {
    if need("gcc") {
        check_c("gcc -g -gz=zlib sample.c");
        check_c("gcc -g -gz=zlib-gnu sample.c");
        check_c("gcc -g -gz=zstd sample.c");
    }
    if need("clang") {
        check_c("clang -g -gz=zlib sample.c");
    }
}

#[test]
fn zstd_sections_by_objcopy() {
    let tools = ["objcopy", "llvm-objcopy", "llvm-objcopy-14", "llvm-objcopy-19"];
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    run(dir.path(), "gcc -g sample.c");
    let facts = facts(&run(dir.path(), "./a.out"));
    let packed = tools
        .into_iter()
        .any(|t| attempt(dir.path(), &format!("{t} --compress-debug-sections=zstd a.out packed")).is_some());
    if packed {
        assert_facts(&read(&dir.path().join("packed")), &facts, "zstd");
    }
}

#[test]
fn zstd_sections_made_here() {
    // binutils 2.40 may lack zstd: a raw frame around stored blocks is valid zstd, so one is made by hand
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    run(dir.path(), "gcc -g sample.c");
    let facts = facts(&run(dir.path(), "./a.out"));
    run(
        dir.path(),
        "objcopy -O binary --only-section=.debug_info --set-section-flags .debug_info=alloc a.out info",
    );
    let info = std::fs::read(dir.path().join("info")).unwrap();
    let mut packed = Vec::new();
    packed.extend(2u32.to_le_bytes());
    packed.extend(0u32.to_le_bytes());
    packed.extend((info.len() as u64).to_le_bytes());
    packed.extend(1u64.to_le_bytes());
    packed.extend(stored_zstd(&info));
    std::fs::write(dir.path().join("packed"), &packed).unwrap();
    run(dir.path(), "objcopy --update-section .debug_info=packed a.out marked");
    let mut elf = std::fs::read(dir.path().join("marked")).unwrap();
    set_compressed(&mut elf, packed.len() as u64);
    std::fs::write(dir.path().join("marked"), &elf).unwrap();
    assert_facts(&read(&dir.path().join("marked")), &facts, "zstd by hand");
}

/// A zstd frame (RFC 8878) of raw blocks.
fn stored_zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend((data.len() as u32).to_le_bytes());
    let mut chunks = data.chunks(100_000).peekable();
    while let Some(chunk) = chunks.next() {
        let header = (chunk.len() as u32) << 3 | u32::from(chunks.peek().is_none());
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(chunk);
    }
    out
}

/// Sets SHF_COMPRESSED on the only section of that size.
fn set_compressed(elf: &mut [u8], size: u64) {
    let word = |at: usize, elf: &[u8]| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let table = word(0x28, elf) as usize;
    let count = u16::from_le_bytes([elf[0x3c], elf[0x3d]]) as usize;
    let at = (0..count).map(|i| table + i * 64).find(|&at| word(at + 32, elf) == size).unwrap();
    let flags = word(at + 8, elf) | 0x800;
    elf[at + 8..at + 16].copy_from_slice(&flags.to_le_bytes());
}

#[test]
fn type_units() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        check_c(&format!("{cc} -gdwarf-4 -fdebug-types-section sample.c"));
        check_c(&format!("{cc} -gdwarf-5 -fdebug-types-section sample.c"));
    }
}

#[test]
fn split_objects() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        for version in [4, 5] {
            check_c(&format!("{cc} -gdwarf-{version} -gsplit-dwarf sample.c"));
            check_c(&format!("{cc} -gdwarf-{version} -gsplit-dwarf -fdebug-types-section sample.c"));
        }
    }
}

/// Has location and range lists when optimised.
const BUSY: &str = "int busy(int n) { int s = 0; for (int i = 0; i < n; i++) { int k = i * n; \
    if (k % 7) s += puts(\"x\") + k; } return s; }\n";

#[test]
fn packages_of_split_objects() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        for packer in ["dwp", "llvm-dwp"].into_iter().filter(|p| if *p == "dwp" { need(p) } else { wish(p) })
        {
            for flags in ["", " -O2", " -fdebug-types-section", " -O2 -fdebug-types-section"] {
                // binutils' packer does not know DWARF 5
                let versions = if packer == "dwp" { 4..=4 } else { 4..=5 };
                versions.for_each(|version| package(cc, version, packer, flags));
            }
        }
    }
}

fn package(cc: &str, version: u32, packer: &str, flags: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), format!("{}{BUSY}", c_sample())).unwrap();
    run(dir.path(), &format!("{cc} -gdwarf-{version} -gsplit-dwarf{flags} sample.c"));
    if attempt(dir.path(), &format!("{packer} -e a.out -o a.out.dwp")).is_none() {
        return;
    }
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "dwo") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let facts = facts(&run(dir.path(), "./a.out"));
    let context = format!("{cc} DWARF {version} {packer}{flags}");
    assert_facts(&read(&dir.path().join("a.out")), &facts, &context);
}

/// Names and sizes of all structs, and the types of their members, do not depend on the section that they lie in.
#[test]
fn type_units_keep_namespaces() {
    let source = "namespace outer { namespace inner { struct Deep { int x; struct In { long y; } in; };\n\
        template <class T> struct Box { typedef T *Pointer; T t; struct Lid { T u; Pointer p; } lid;\n\
         enum Mode { A } m; }; }\n\
        namespace { struct Hidden { long h; }; } struct Late; struct User { Late *l; }; }\n\
        struct outer::Late { struct Part { char c; } part; };\n\
        outer::inner::Deep d; outer::inner::Box<int> b; outer::Hidden h; outer::Late l; outer::User u;\n\
        int main() { return d.x + b.t + h.h + !u.l; }\n";
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        for version in [4, 5] {
            let sizes = |flags: &str| {
                let dir = tempfile::tempdir().unwrap();
                std::fs::write(dir.path().join("a.cc"), source).unwrap();
                run(dir.path(), &format!("{cc} -gdwarf-{version}{flags} a.cc"));
                let table = read(&dir.path().join("a.out"));
                let named = table.aggregates().filter(|(_, a)| a.name.is_some());
                let types = |a: &Aggregate| a.members.iter().map(|m| table.name(m.ty)).collect::<Vec<_>>();
                let mut sizes: Vec<_> = named.map(|(_, a)| (a.display_name(), a.size, types(a))).collect();
                sizes.sort();
                sizes.dedup();
                sizes
            };
            let plain = sizes("");
            assert!(plain.iter().any(|(name, ..)| name.ends_with("outer::Late::Part")), "{plain:?}");
            assert_eq!(sizes(" -fdebug-types-section"), plain, "{cc} DWARF {version}");
        }
    }
}

#[test]
fn a_missing_split_object_is_a_problem() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    run(dir.path(), "gcc -g -gsplit-dwarf sample.c");
    let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
    let (table, problems) = open(&bytes, &Want::All, &mut NoCompanions).unwrap();
    assert!(table.find("outer").is_none());
    assert!(problems[0].to_string().contains("sample.dwo was not found"), "{problems:?}");
}

#[test]
fn dwz_multifiles() {
    if !need("gcc") || !need("dwz") {
        return;
    }
    for version in [4, 5] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
        run(dir.path(), &format!("gcc -gdwarf-{version} sample.c"));
        run(dir.path(), &format!("gcc -gdwarf-{version} sample.c -o b.out"));
        let facts = facts(&run(dir.path(), "./a.out"));
        run(dir.path(), "dwz -m shared.debug -M shared.debug a.out b.out");
        assert!(dir.path().join("shared.debug").exists());
        assert_facts(&read(&dir.path().join("a.out")), &facts, "dwz -m");
        let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
        let (_, problems) = open(&bytes, &Want::All, &mut NoCompanions).unwrap();
        assert!(problems[0].to_string().contains("shared.debug was not found"), "{problems:?}");
    }
}

#[test]
fn dwz_partial_units_of_one_file() {
    if !need("gcc") || !need("dwz") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    std::fs::write(dir.path().join("other.c"), c_sample().replace("int main", "int other_main")).unwrap();
    run(dir.path(), "gcc -g -Wl,-z,muldefs sample.c other.c");
    let facts = facts(&run(dir.path(), "./a.out"));
    run(dir.path(), "dwz a.out");
    assert_facts(&read(&dir.path().join("a.out")), &facts, "dwz");
}

#[test]
fn separate_debug_files() {
    if !need("gcc") || !need("objcopy") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
    run(dir.path(), "gcc -g -Wl,--build-id=0xabcdef12 sample.c");
    let facts = facts(&run(dir.path(), "./a.out"));
    run(dir.path(), "objcopy --only-keep-debug a.out abcdef12.debug");
    run(dir.path(), "objcopy --strip-debug a.out stripped");
    assert_facts(&read(&dir.path().join("stripped")), &facts, "build-id");
    run(dir.path(), "objcopy --strip-debug --remove-section=.note.gnu.build-id a.out linked");
    std::fs::rename(dir.path().join("abcdef12.debug"), dir.path().join("x.debug")).unwrap();
    run(dir.path(), "objcopy --add-gnu-debuglink=x.debug linked linked2");
    assert_facts(&read(&dir.path().join("linked2")), &facts, "debuglink");
}

#[test]
fn relocatable_objects() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        for flags in ["-gdwarf-4", "-gdwarf-5", "-g -gz"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("sample.c"), c_sample()).unwrap();
            run(dir.path(), &format!("{cc} {flags} sample.c"));
            let facts = facts(&run(dir.path(), "./a.out"));
            run(dir.path(), &format!("{cc} {flags} -c sample.c -o sample.o"));
            assert_facts(&read(&dir.path().join("sample.o")), &facts, flags);
            run(dir.path(), "ld -r sample.o sample.o -z muldefs -o both.o");
            let table = read(&dir.path().join("both.o"));
            assert_facts(&table, &facts, "ld -r");
            let outers = table.aggregates().filter(|(_, a)| a.name.as_deref() == Some("outer")).count();
            assert_eq!(outers, 1, "the same type of two units is one");
        }
    }
}

#[test]
fn link_time_optimised() {
    if need("gcc") {
        check_c("gcc -g -flto -O2 sample.c");
    }
    if need("clang") && wish("ld.lld") {
        check_c("clang -g -flto -fuse-ld=lld sample.c");
    }
}

#[test]
fn thirty_two_bit_and_foreign_objects() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("a.c"),
        "struct s { char c; long l; void *p; unsigned b : 5; }; struct s s;\n",
    )
    .unwrap();
    let targets = [
        ("gcc -m32", 4),
        ("clang -m32", 4),
        ("clang --target=aarch64-linux-gnu", 8),
        ("clang --target=powerpc64-linux-gnu", 8),
        ("clang --target=mips-linux-gnu", 4),
        ("clang --target=riscv64-linux-gnu", 8),
    ];
    for (cc, word) in targets {
        for version in [4, 5] {
            let command = format!("{cc} -gdwarf-{version} -c a.c");
            if !wish(command.trim_end_matches(" a.c")) {
                continue;
            }
            run(dir.path(), &command);
            let table = read(&dir.path().join("a.o"));
            let id = table.find("s").unwrap();
            assert_eq!(u64::from(table.pointer_size), word, "{command}");
            assert_eq!(member(&table, id, "l"), Some((word * 8, word * 8)), "{command}");
            assert_eq!(member(&table, id, "p"), Some((word * 16, word * 8)), "{command}");
            let big_endian = cc.contains("powerpc64-") || cc.contains("mips-");
            assert_eq!(member(&table, id, "b"), Some((word * 24, 5)), "{command} {big_endian}");
        }
    }
}

#[test]
fn errors_say_what_to_do() {
    let check = |bytes: &[u8], expect: &str| {
        let error = open(bytes, &Want::All, &mut NoCompanions).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(b"", "the file is empty");
    check(b"#!/bin/sh\n", "not an ELF file");
    check(b"\x7fELF", "cut off or damaged");
    check(b"!<arch>\nx", "ar x");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
    run(dir.path(), "gcc a.c");
    let plain = std::fs::read(dir.path().join("a.out")).unwrap();
    check(&plain, "compile with -g, or install the package");
    run(dir.path(), "strip a.out");
    check(&std::fs::read(dir.path().join("a.out")).unwrap(), "(stripped)");
    let error = open(&plain[..plain.len() / 2], &Want::All, &mut NoCompanions).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. } | Error::NoDebugInfo { .. }), "{error}");
}

/// An object that was built again after the program was linked.
#[test]
fn a_split_object_of_another_compilation_is_refused() {
    for flags in ["-gdwarf-4", "-gdwarf-5"] {
        for compiler in ["gcc", "clang"].into_iter().filter(|c| need(c)) {
            let dir = tempfile::tempdir().unwrap();
            let compile = |source: &str| {
                std::fs::write(dir.path().join("s.c"), source).unwrap();
                run(dir.path(), &format!("{compiler} -g {flags} -gsplit-dwarf -c s.c"));
            };
            compile("struct s { long a, b; } s; int main(void) { return s.a; }\n");
            run(dir.path(), &format!("{compiler} -o a.out s.o"));
            compile("struct s { long a, b, rest[9]; } s; int main(void) { return s.b; }\n");
            let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
            let mut companions = Folder(dir.path().to_path_buf());
            let (table, problems) = tussle_debuginfo::open(&bytes, &Want::All, &mut companions).unwrap();
            assert_eq!(table.find("s"), None, "{compiler} {flags}");
            assert!(problems[0].to_string().contains("of another compilation"), "{problems:?}");
        }
    }
}
