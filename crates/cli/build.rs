//! The version that `--version` prints: with the commit in optimised builds. Debug builds leave it out, so that a
//! commit does not mean building anew. And what the linker of optimised builds can do.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo:rustc-env=TUSSLE_VERSION={version}");
    for flag in SMALLER.iter().filter(|f| is_release() && accepted(f) == Some(true)) {
        println!("cargo:rustc-link-arg-bins={flag}");
    }
}

fn is_release() -> bool {
    std::env::var("PROFILE").is_ok_and(|p| p == "release")
}

/// One function where several are the same, as generics often are for types that look alike: a twelfth of the binary.
/// Addresses that the loader adjusts as a bit each: a 25th.
const SMALLER: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

/// Whether the linker that will be used knows an option (rustc's own for this target does since 1.90, others may not),
/// and the loader what comes out (glibc does since 2.36). A program is linked and run to find out.
fn accepted(flag: &str) -> Option<bool> {
    let of = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let target = of("TARGET").filter(|t| t.ends_with("-linux-gnu") && of("HOST").as_ref() == Some(t))?;
    let folder = PathBuf::from(of("OUT_DIR")?);
    let (source, probe) = (folder.join("probe.rs"), folder.join("probe"));
    std::fs::write(&source, "fn main() {}").ok()?;
    let mut c = Command::new(of("RUSTC")?);
    c.args(of("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().split('\x1f').filter(|f| !f.is_empty()));
    c.args(of("RUSTC_LINKER").map(|l| format!("-Clinker={l}")));
    c.args(["--edition=2024", "--target", &target, &format!("-Clink-arg={flag}"), "-o"])
        .arg(&probe)
        .arg(source);
    Some(c.output().ok()?.status.success() && Command::new(probe).output().ok()?.status.success())
}

/// Commit of the checkout, ten digits; none for debug builds and sources without git.
fn commit() -> Option<String> {
    if !is_release() {
        return None;
    }
    let git = |arguments: &[&str]| {
        let run = Command::new("git").args(arguments).output().ok().filter(|r| r.status.success())?;
        Some(String::from_utf8(run.stdout).ok()?.trim().to_owned())
    };
    println!(
        "cargo:rerun-if-changed={}",
        git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?
    );
    git(&["rev-parse", "--short=10", "HEAD"]).filter(|c| !c.is_empty())
}
