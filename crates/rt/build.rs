//! Builds the runtime: one object file, and a shared library made of it; and the recorder inside of an emulator, one
//! object file.
//!
//! No cargo inside cargo: `$RUSTC` is called directly. The object is what `tussle cc` adds to executables; the shared
//! library takes the place of `libtsan.so.2`. Both are for the programs that tussle records, whatever tussle itself is
//! built for.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What recorded programs are built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=runtime");
    println!("cargo::rerun-if-changed=emulated");
    println!("cargo::rerun-if-changed=core");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={LINKER}");
    let out = PathBuf::from(variable("OUT_DIR"));
    let ours = variable("TARGET");
    let (object, shared) = (out.join("tussle-rt.o"), out.join("libtsan.so.2"));
    let emulated = out.join("tussle-emulated.o");
    if !ours.starts_with("x86_64-") || !ours.contains("-linux-") {
        // Everything but recording works there; `record` and `cc` say so.
        for file in [&object, &shared, &emulated] {
            std::fs::write(packed(file), []).expect("OUT_DIR is writable");
        }
        return;
    }
    let core = out.join("libtussle_rt_core.rlib");
    compile("core/lib.rs", &["--crate-name=tussle_rt_core", "--crate-type=rlib"], &core);
    let with_core = format!("--extern=tussle_rt_core={}", core.display());
    let library = |name: &str, source: &str| {
        let archive = out.join(format!("libtussle_{name}.a"));
        let name = format!("--crate-name=tussle_{name}");
        compile(source, &[&name, "--crate-type=staticlib", "-Clto=fat", &with_core], &archive);
        archive
    };
    let linker = linker(&ours);
    let own = out.join("tussle-runtime.o");
    let ours = COMPILERS.map(|name| format!("-Wl,--wrap={name}"));
    extract(&linker, &library("runtime", "runtime/lib.rs"), "tussle_init", &ours, &own);
    join(&linker, &[&own, Path::new("runtime/arch/x86_64_names.s")], &object);
    link(&linker, &object, &shared);
    extract(&linker, &library("emulated", "emulated/lib.rs"), "tussle_emulated_begin", &[], &emulated);
    for file in [&object, &shared, &emulated] {
        pack(file);
    }
}

/// Name of the compressed file that goes into tussle.
fn packed(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".z");
    name.into()
}

fn pack(file: &Path) {
    let bytes = std::fs::read(file).expect("a linker has just written it");
    let out = std::fs::File::create(packed(file)).expect("OUT_DIR is writable");
    let mut packer = flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
    packer.write_all(&bytes).and_then(|()| packer.finish()).expect("OUT_DIR is writable");
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Cargo's own name for the linker of [`TARGET`].
const LINKER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER";

/// The compiler driver that links for [`TARGET`]. Cargo tells of the one for tussle's own target only.
fn linker(ours: &str) -> OsString {
    let host = variable("HOST");
    let native = host.starts_with("x86_64-") && host.contains("-linux-");
    let own = if ours == TARGET { std::env::var_os("RUSTC_LINKER") } else { None };
    let usual = if native { "cc" } else { "x86_64-linux-gnu-gcc" };
    std::env::var_os(LINKER).or(own).unwrap_or_else(|| usual.into())
}

fn compile(source: &str, kind: &[&str], out: &Path) {
    let mut c = Command::new(variable("RUSTC"));
    c.arg("--edition=2024").args(kind);
    c.args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cembed-bitcode=yes"]);
    c.args(["-Crelocation-model=pic", "-Cforce-unwind-tables=yes", "-Coverflow-checks=no", "-Cdebuginfo=0"]);
    c.args(["-Cdebug-assertions=no", "--target", TARGET, "-o"]).arg(out).arg(source);
    run(&mut c, &format!("it needs Rust's core library for {TARGET}: rustup target add {TARGET}"));
}

/// What compilers call by themselves, and the runtime exports: its own code gets `__wrap_*` of these names.
const COMPILERS: [&str; 3] = ["memcpy", "memmove", "memset"];

/// One object of what the archive's `first` symbol needs: the archive holds all of the compiler's built-ins, too.
fn extract(linker: &OsString, archive: &Path, first: &str, flags: &[String], object: &Path) {
    let mut c = Command::new(linker);
    c.args(["-r", "-nostdlib", "-Wl,-S", &format!("-Wl,--undefined={first}")]).args(flags);
    c.arg("-o").arg(object).arg(archive);
    run(&mut c, &linker_needed());
}

/// One object of several, some of them still to be assembled, whose data stay behind the program's.
fn join(linker: &OsString, parts: &[&Path], object: &Path) {
    let mut c = Command::new(linker);
    c.args(["-r", "-nostdlib", "-Wl,-T,runtime/behind.ld", "-o"]).arg(object).args(parts);
    run(&mut c, &linker_needed());
}

fn link(linker: &OsString, object: &Path, shared: &Path) {
    let mut c = Command::new(linker);
    c.args([
        "-shared",
        "-nostartfiles",
        "-Wl,-soname,libtsan.so.2",
        "-Wl,-Bsymbolic",
        "-Wl,-z,now",
        "-Wl,-s",
    ]);
    c.arg("-o").arg(shared).arg(object);
    run(&mut c, &linker_needed());
}

fn linker_needed() -> String {
    format!("it needs a C compiler that links for {TARGET}, with GNU ld or lld; {LINKER} names one")
}

/// Runs a tool, shows its warnings, and stops with what is `needed` if it fails.
fn run(c: &mut Command, needed: &str) {
    // Flags meant for the crate (coverage, sanitizers, native CPUs) are not meant for the runtime.
    c.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let tool = c.get_program().to_owned();
    let fail = |why: &str| -> ! {
        eprintln!("cannot build the recorder's runtime; {needed}\n{tool:?}: {why}");
        std::process::exit(1)
    };
    let out = c.output().unwrap_or_else(|e| fail(&e.to_string()));
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        fail(&said);
    }
    for line in said.lines() {
        println!("cargo::warning={line}");
    }
}
