//! One object of a Linux kernel, built outside of its tree: with the tree's `.config`, else the default one.
//!
//! The baseline build stays for the patched one: `make` compiles again what the changed header reaches.

use std::path::{Path, PathBuf};
use std::process::Command;

use tussle_model::TypeTable;

use super::FixError;
use super::calls::is_unit;
use super::compile::{Compiler, DEBUG_FLAGS, run};

/// Folders that must not be links: `make` looks there for remains of a build inside the tree, which are left out.
pub(super) const REAL: [&str; 2] = ["include", "arch/x86/include"];

/// Remains of a build inside the tree: with them the kernel refuses to be built elsewhere.
pub(super) const LEFT_OUT: [&str; 4] =
    [".config", "include/config", "include/generated", "arch/x86/include/generated"];

/// Objects tried until one describes the type.
const UNITS_MAX: usize = 6;

/// Builds an object that sees the file, and reads the type.
pub(super) fn layout(
    compiler: &Compiler<'_>,
    patched: bool,
    announce: &mut dyn FnMut(&str),
) -> Result<TypeTable, FixError> {
    let out = compiler.root.join("tussle-out");
    if !out.is_dir() {
        std::fs::create_dir(&out).map_err(|source| FixError::Io { path: out.clone(), source })?;
        let config = compiler.request.dir.join(".config");
        let goal = match std::fs::copy(config, out.join(".config")) {
            Ok(_) => "olddefconfig",
            Err(_) => "defconfig",
        };
        make(compiler, goal, patched, announce)?;
    }
    let mut last = None;
    for unit in units(compiler) {
        let object = unit.with_extension("o");
        match make(compiler, &object.to_string_lossy(), patched, announce) {
            Ok(()) => match compiler.read(&out.join(&object)) {
                Some(table) => return Ok(table),
                None => last = Some(compiler.no_layout()),
            },
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| compiler.no_layout()))
}

/// Units that see the file: those of the core, which every configuration builds, first.
fn units(compiler: &Compiler<'_>) -> Vec<PathBuf> {
    if is_unit(&compiler.file.to_string_lossy()) {
        return vec![compiler.file.to_path_buf()];
    }
    let users = compiler.sources.users(compiler.file);
    let core =
        |p: &Path| ["kernel/fork.c", "mm/filemap.c"].iter().position(|c| p == Path::new(c)).unwrap_or(2);
    let folder = |p: &Path| {
        ["kernel", "mm", "fs", "net/core", "block", "lib"]
            .iter()
            .position(|f| p.parent() == Some(Path::new(f)))
    };
    let direct =
        compiler.sources.units_for(compiler.file).into_iter().collect::<std::collections::BTreeSet<_>>();
    let mut out: Vec<&PathBuf> =
        users.iter().filter(|p| direct.contains(*p) && folder(p).is_some()).collect();
    out.sort_unstable_by_key(|p| (core(p), folder(p), (*p).clone()));
    out.into_iter().take(UNITS_MAX).cloned().collect()
}

fn make(
    compiler: &Compiler<'_>,
    goal: &str,
    patched: bool,
    announce: &mut dyn FnMut(&str),
) -> Result<(), FixError> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let flags = format!("KCFLAGS={}", DEBUG_FLAGS.join(" "));
    let mut command = Command::new("make");
    command.arg("-s").arg(format!("-j{jobs}")).arg("O=tussle-out").arg(flags).arg(goal);
    command.current_dir(compiler.root);
    run(command, &format!("make O=... {goal}"), patched, announce)
}
