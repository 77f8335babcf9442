//! The version that `--version` prints: with the commit in optimised builds. Debug builds leave it out, so that a
//! commit does not mean building anew.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo:rustc-env=TUSSLE_VERSION={version}");
}

/// Commit of the checkout, ten digits; none for debug builds and sources without git.
fn commit() -> Option<String> {
    if std::env::var("PROFILE").ok()? != "release" {
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
