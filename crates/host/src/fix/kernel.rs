//! One object of a Linux kernel, built outside of its tree: with the tree's `.config`, else the default one.
//!
//! The baseline build stays for the patched one: `make` compiles again what the changed header reaches.

use std::path::{Path, PathBuf};
use std::process::Command;

use tussle_advise::patch::body::bare_name;
use tussle_model::TypeTable;

use super::calls::is_unit;
use super::compile::{Compiler, DEBUG_FLAGS, run};
use super::{Build, FixError};

/// Folders that must not be links: `make` looks there for remains of a build inside the tree, which are left out.
pub(super) const REAL: [&str; 2] = ["include", "arch/x86/include"];

/// Remains of a build inside the tree: with them the kernel refuses to be built elsewhere.
pub(crate) const LEFT_OUT: [&str; 4] =
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
        let config = match compiler.request.build {
            Build::Kernel(Some(config)) => config.clone(),
            _ => compiler.request.dir.join(".config"),
        };
        let goal = match std::fs::copy(config, out.join(".config")) {
            Ok(_) => "olddefconfig",
            Err(_) => "defconfig",
        };
        make(compiler, goal, patched, announce)?;
    }
    let (mut failed, mut without) = (None, Vec::new());
    for unit in units(compiler) {
        let object = unit.with_extension("o");
        match make(compiler, &object.to_string_lossy(), patched, announce) {
            Ok(()) => match compiler.read(&out.join(&object)) {
                Some(table) => return Ok(table),
                None => without.push(object.display().to_string()),
            },
            Err(e) => failed = Some(e),
        }
    }
    let objects = if without.is_empty() { "the kernel's objects".into() } else { without.join(", ") };
    let none = FixError::NoObject { name: compiler.request.type_name.into(), objects };
    Err(failed.unwrap_or(none))
}

/// Units that see the file: those beside it that its folder's `Makefile` builds first, then those of the core, which
/// every configuration builds.
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
    // A folder's own header: another one of its name stands where the core includes it from.
    let own = compiler.file.parent().filter(|f| !f.starts_with("include"));
    let makefile =
        own.and_then(|f| std::fs::read_to_string(compiler.request.dir.join(f).join("Makefile")).ok());
    let beside = |p: &Path| {
        let object = p.with_extension("o");
        let name = object.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let built = |m: &String| m.split_whitespace().any(|w| w == name);
        p.parent() == own && makefile.as_ref().is_some_and(built)
    };
    let direct =
        compiler.sources.units_for(compiler.file).into_iter().collect::<std::collections::BTreeSet<_>>();
    let mut out: Vec<&PathBuf> =
        users.iter().filter(|p| direct.contains(*p) && (beside(p) || folder(p).is_some())).collect();
    // Folders have headers of one name: who has most to do with the type is likeliest to see this one.
    let bare = bare_name(compiler.request.type_name);
    let uses = |p: &Path| std::cmp::Reverse(compiler.sources.text(p).matches(bare).count());
    out.sort_by_cached_key(|p| (!beside(p), core(p), uses(p), folder(p), (*p).clone()));
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
