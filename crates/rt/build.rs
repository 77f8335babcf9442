//! Builds the runtime: one object file, and a shared library made of it.
//!
//! No cargo inside cargo: `$RUSTC` is called directly. The object is what `tussle cc` adds to executables; the shared
//! library takes the place of `libtsan.so.2`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=runtime");
    println!("cargo::rerun-if-changed=../rt-core/src");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    let (object, shared) = (out.join("tussle-rt.o"), out.join("libtsan.so.2"));
    if !target.starts_with("x86_64-") || !target.contains("linux-gnu") {
        // Everything but recording works there; `record` and `cc` say so.
        std::fs::write(&object, []).expect("OUT_DIR is writable");
        std::fs::write(&shared, []).expect("OUT_DIR is writable");
        return;
    }
    let core = out.join("libtussle_rt_core.rlib");
    compile(&target, "../rt-core/src/lib.rs", &["--crate-name=tussle_rt_core", "--crate-type=rlib"], &core);
    let archive = out.join("libtussle_runtime.a");
    let with_core = format!("--extern=tussle_rt_core={}", core.display());
    let hooks = ["--crate-name=tussle_runtime", "--crate-type=staticlib", "-Clto=fat", &with_core];
    compile(&target, "runtime/lib.rs", &hooks, &archive);
    extract(&archive, &object);
    link(&object, &shared);
}

fn compile(target: &str, source: &str, kind: &[&str], out: &Path) {
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let mut c = Command::new(rustc);
    c.arg("--edition=2024").args(kind);
    c.args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cembed-bitcode=yes"]);
    c.args(["-Crelocation-model=pic", "-Cforce-unwind-tables=yes", "-Coverflow-checks=no", "-Cdebuginfo=0"]);
    c.args(["-Cdebug-assertions=no", "--target", target, "-o"]).arg(out).arg(source);
    run(&mut c);
}

/// One object of what the archive's first symbol needs: the archive holds all of the compiler's built-ins, too.
fn extract(archive: &Path, object: &Path) {
    let mut c = Command::new(linker());
    c.args(["-r", "-nostdlib", "-Wl,--undefined=tussle_init", "-Wl,-S", "-o"]).arg(object).arg(archive);
    run(&mut c);
}

fn linker() -> std::ffi::OsString {
    std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into())
}

fn link(object: &Path, shared: &Path) {
    let mut c = Command::new(linker());
    c.args([
        "-shared",
        "-nostartfiles",
        "-Wl,-soname,libtsan.so.2",
        "-Wl,-Bsymbolic",
        "-Wl,-z,now",
        "-Wl,-s",
        "-o",
    ]);
    c.arg(shared).arg(object);
    run(&mut c);
}

fn run(c: &mut Command) {
    // Flags meant for the crate (coverage, sanitizers, native CPUs) are not meant for the runtime.
    c.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let out = c.output().unwrap_or_else(|e| panic!("cannot run {:?}: {e}", c.get_program()));
    if !out.status.success() {
        panic!("{c:?} failed:\n{}", String::from_utf8_lossy(&out.stderr));
    }
    for line in String::from_utf8_lossy(&out.stderr).lines() {
        println!("cargo::warning={line}");
    }
}
