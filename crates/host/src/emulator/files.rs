//! The plugin and the guest's init: carried as source, compiled with `cc` into the cache on first use.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::EmulatorError;
use crate::cache::{self, CacheError};

/// The plugin is a separate work under GPL-2.0-or-later (`qemu/COPYING`): it is never linked into this program.
const PLUGIN: &str = include_str!("../../qemu/tussle-plugin.c");
const PLUGIN_HEADER: &str = include_str!("../../qemu/tussle-plugin.h");
const INIT: &str = include_str!("../../qemu/tussle-init.c");

/// Flags of the plugin.
const PLUGIN_FLAGS: &[&str] = &["-O2", "-shared", "-fPIC", "-fvisibility=hidden"];
/// Flags of init; no debug information, so that the same source gives the same bytes.
const INIT_FLAGS: &[&str] = &["-O2", "-static", "-pthread", "-s"];

/// Compiled files.
#[derive(Clone, Debug)]
pub struct Equipment {
    /// The plugin.
    pub plugin: PathBuf,
    /// First program of the guest.
    pub init: PathBuf,
}

/// Compiles what is not there yet. `announce` is told each command before it runs.
///
/// # Errors
/// No compiler, no static C library, or the cache cannot be written.
pub fn equipment(announce: &mut dyn FnMut(&str)) -> Result<Equipment, EmulatorError> {
    let all = [PLUGIN, PLUGIN_HEADER, INIT].concat();
    let name = format!("emulator-{:08x}", crc32fast::hash(all.as_bytes()));
    let folder = cache::private(&name)?;
    let plugin = folder.join("tussle-plugin.so");
    let init = folder.join("init");
    if !plugin.is_file() {
        place(&folder.join("tussle-plugin.h"), PLUGIN_HEADER)?;
        compile(&folder, "tussle-plugin.c", PLUGIN, PLUGIN_FLAGS, &plugin, announce)?;
    }
    if !init.is_file() {
        compile(&folder, "tussle-init.c", INIT, INIT_FLAGS, &init, announce)?;
    }
    Ok(Equipment { plugin, init })
}

fn compile(
    folder: &Path,
    name: &'static str,
    source: &str,
    flags: &[&str],
    to: &Path,
    announce: &mut dyn FnMut(&str),
) -> Result<(), EmulatorError> {
    let file = folder.join(name);
    place(&file, source)?;
    let part = to.with_extension(format!("{}.part", std::process::id()));
    announce(&format!("cc {} -o {} {}", flags.join(" "), to.display(), file.display()));
    let failed = |output: String| EmulatorError::Compile { what: name, output };
    let output = Command::new("cc").args(flags).arg("-o").arg(&part).arg(&file).output();
    let output = output.map_err(|e| failed(format!("cc: {e}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(
            text.lines().filter(|l| l.contains("rror")).take(5).collect::<Vec<_>>().join("; "),
        ));
    }
    std::fs::rename(&part, to).map_err(EmulatorError::io(to.display().to_string()))
}

fn place(at: &Path, content: &str) -> Result<(), EmulatorError> {
    std::fs::write(at, content).map_err(|e| CacheError::at(at)(e).into())
}
