//! Compilers and `strip` that leave debug information, for builds of which a layout is read.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::compile::{DEBUG_FLAGS, class_flags};

/// Takes the linker's options that leave debug information out from the arguments. What belongs to `-Xlinker` stays.
const UNSTRIPPED: &str = r#"before=
for a; do
  shift
  case $before,$a in
    -Xlinker,*) ;;
    *,-Wl,*)
      a=$(printf '%s,,' "$a" | sed 's/,/,,/g; s/,\(-s\|-S\|--strip-all\|--strip-debug\),//g; s/,,*/,/g; s/,$//')
      [ "$a" = -Wl ] && continue ;;
    *,-s) continue ;;
  esac
  before=$a
  set -- "$@" "$a"
done
"#;

/// Programs that take debug information out of files.
const STRIPPERS: [&str; 4] = ["strip", "llvm-strip", "eu-strip", "objcopy"];

/// A folder of compilers that add debug information, first in `PATH`: makefiles often build without it, and strip what
/// they link. Each call is written down below `log`; what is stripped by a program of its own is copied to `kept`.
pub(super) fn debug_compilers(dir: &Path, log: &Path, kept: &Path) -> std::io::Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file());
    for name in crate::project::wrapper::NAMES {
        let Some(real) = find(name) else { continue };
        let (real, log) = (quote(&real), quote(log));
        let keep = format!("printf '%s\\0' \"$PWD\" {real} \"$@\" > {log}/$$");
        let flags = [&DEBUG_FLAGS, class_flags(name)].concat().join(" ");
        script(&dir.join(name), &format!("{keep}\n{UNSTRIPPED}exec {real} \"$@\" {flags}\n"))?;
    }
    for name in STRIPPERS {
        let Some(real) = find(name) else { continue };
        let (real, kept) = (quote(&real), quote(kept));
        let keep = format!("for a; do [ -f \"$a\" ] && cp \"$a\" {kept}/$$-\"${{a##*/}}\"; done");
        script(&dir.join(name), &format!("{keep}\nexec {real} \"$@\"\n"))?;
    }
    let mut first = dir.as_os_str().to_os_string();
    first.push(":");
    first.push(path);
    Ok(first)
}

fn quote(path: &Path) -> String {
    tussle_render::shell::quoted(&path.to_string_lossy())
}

fn script(file: &PathBuf, text: &str) -> std::io::Result<()> {
    std::fs::write(file, format!("#!/bin/sh\n{text}"))?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
}
