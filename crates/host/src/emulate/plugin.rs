//! The plugin: carried as source and as the recorder's object, made with `cc` in the cache on first use.

use super::EmulateError;
use crate::cache::{self, CacheError};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin is a separate work under GPL-2.0-or-later (`qemu/COPYING`): it is never linked into this program.
const PLUGIN: &str = include_str!("../../qemu/emulate/tussle-emulate.c");
const ATOMICS: &str = include_str!("../../qemu/emulate/atomics.c");
const HEADER: &str = include_str!("../../qemu/emulate/tussle-emulate.h");
const FLAGS: [&str; 5] = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,now"];

/// The plugin's file.
pub(super) fn plugin(announce: &mut dyn FnMut(&str)) -> Result<PathBuf, EmulateError> {
    if tussle_rt::EMULATED.is_empty() {
        return Err(EmulateError::Plugin(
            "this tussle carries no recorder: it was not built for x86-64 Linux".into(),
        ));
    }
    let recorder = tussle_rt::EMULATED.bytes();
    let all = [PLUGIN.as_bytes(), ATOMICS.as_bytes(), HEADER.as_bytes(), &recorder].concat();
    let name = format!("emulate-{:08x}-{}", crc32fast::hash(&all), all.len());
    let folder = cache::private(&name)?;
    let made = folder.join("tussle-emulate.so");
    if !made.is_file() {
        make(&folder, &recorder, &made, announce)?;
    }
    Ok(made)
}

/// Complete before it has its name, whoever else makes it at the same time.
fn make(
    folder: &Path,
    recorder: &[u8],
    made: &Path,
    announce: &mut dyn FnMut(&str),
) -> Result<(), EmulateError> {
    let io = |e| EmulateError::from(CacheError::at(folder)(e));
    let own = tempfile::Builder::new().prefix("new-").tempdir_in(folder).map_err(io)?;
    let at = |name: &str| own.path().join(name);
    let atomics = at("atomics.c");
    let (source, object, part) = (at("tussle-emulate.c"), at("tussle-emulated.o"), at("tussle-emulate.so"));
    std::fs::write(&source, PLUGIN).map_err(io)?;
    std::fs::write(&atomics, ATOMICS).map_err(io)?;
    std::fs::write(at("tussle-emulate.h"), HEADER).map_err(io)?;
    std::fs::write(&object, recorder).map_err(io)?;
    announce(&format!(
        "cc {} -o {} tussle-emulate.c atomics.c tussle-emulated.o",
        FLAGS.join(" "),
        made.display()
    ));
    let output = Command::new("cc").args(FLAGS).arg("-o").args([&part, &source, &atomics, &object]).output();
    let output =
        output.map_err(|e| EmulateError::Plugin(format!("cc: {e} (a C compiler is needed once)")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<&str> = said.lines().filter(|l| l.contains("rror")).take(5).collect();
        return Err(EmulateError::Plugin(format!("it does not compile: {}", errors.join("; "))));
    }
    std::fs::rename(&part, made).map_err(io)
}
