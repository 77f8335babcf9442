//! Between gcc and its assembler: calls of access hooks become jumps (`tussle_rt::sites`).
//!
//! gcc is told with `-B` to look for `as` in a folder where that name is this binary, which rewrites the compiler's
//! assembly and starts the real assembler. Whenever anything is unusual the assembly goes through unchanged: calls
//! work as well, they only cost more where threads fight.

use super::{CcError, Compiler, search};
use crate::record::assembler_folder;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the real assembler, from `tussle cc` to itself as `as`.
pub const ASSEMBLER_VARIABLE: &str = "TUSSLE_AS";

/// Assembly larger than this goes through unchanged, bytes.
const ASSEMBLY_MAX: u64 = 1 << 30;

/// The folder to name with `-B`, and the assembler that this compiler would take by itself. `None`: leave it alone.
/// Position-independent code may become a shared library, whose calls go through a table that a jump would not survive.
pub(super) fn stand_in(c: &Compiler, tussle: Option<&Path>, args: &[OsString]) -> Option<(PathBuf, PathBuf)> {
    const UNFIT: [&str; 6] = ["-fPIC", "-fpic", "-m32", "-mx32", "-masm=intel", "-fsplit-stack"];
    let unfit = c.own_args.iter().chain(args).any(|a| UNFIT.iter().any(|u| a == u));
    if c.clang || !cfg!(target_arch = "x86_64") || unfit {
        return None;
    }
    let dir = assembler_folder(tussle?).ok()?;
    let out = Command::new(&c.program).args(&c.own_args).arg("-print-prog-name=as").output().ok()?;
    let name = String::from_utf8(out.stdout).ok()?;
    let real = search(name.trim().as_ref()).filter(|_| out.status.success())?;
    Some((dir, real))
}

/// Runs as the assembler that [`ASSEMBLER_VARIABLE`] names, else the one in PATH, on rewritten input; returns its exit
/// status.
///
/// # Errors
/// There is no assembler, it cannot be started, or its input cannot be read or written.
pub fn assemble(args: &[OsString]) -> Result<u8, CcError> {
    let named = std::env::var_os(ASSEMBLER_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    let real = named.or_else(|| search("as".as_ref())).ok_or(CcError::NoAssembler)?;
    let mut command = Command::new(&real);
    command.env_remove(ASSEMBLER_VARIABLE);
    let failed = |e| CcError::Io(real.display().to_string(), e);
    let Some(input) = input(args) else { return Err(failed(command.args(args).exec())) };
    let Some(at) = input else {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(failed)?;
        let text = tussle_rt::sites::rewrite(&text).unwrap_or(text);
        let mut child = command.args(args).stdin(Stdio::piped()).spawn().map_err(failed)?;
        if let Some(mut to) = child.stdin.take() {
            // An assembler that stops early says why by itself.
            let _ = to.write_all(&text);
        }
        return child.wait().map(status).map_err(failed);
    };
    let small = std::fs::metadata(&args[at]).is_ok_and(|m| m.is_file() && m.len() <= ASSEMBLY_MAX);
    let text = if small { std::fs::read(&args[at]).ok() } else { None };
    let Some(text) = text.and_then(|t| tussle_rt::sites::rewrite(&t)) else {
        return Err(failed(command.args(args).exec()));
    };
    let mut file = tempfile::Builder::new().prefix("tussle-").suffix(".s").tempfile().map_err(failed)?;
    file.write_all(&text).map_err(failed)?;
    let mut args = args.to_vec();
    args[at] = file.path().as_os_str().to_os_string();
    command.args(&args).status().map(status).map_err(failed)
}

fn status(s: std::process::ExitStatus) -> u8 {
    s.code().map_or_else(|| 128u8.wrapping_add(s.signal().unwrap_or(0) as u8), |s| s as u8)
}

/// Position of the one input file among the arguments, `Some(None)` for standard input; `None` for anything else than
/// 64-bit code from one input.
fn input(args: &[OsString]) -> Option<Option<usize>> {
    const WITH_VALUE: [&str; 7] = ["-o", "-I", "-J", "--MD", "--defsym", "--debug-prefix-map", "-march"];
    let (mut found, mut output) = (None, false);
    let mut i = 0;
    while i < args.len() {
        let a = args[i].to_str()?;
        if a == "--32" || a == "--x32" || a.starts_with('@') {
            return None;
        }
        output |= a == "-o";
        if WITH_VALUE.contains(&a) {
            i += 1;
        } else if a != "-" && !a.starts_with('-') {
            if found.is_some() {
                return None;
            }
            found = Some(i);
        }
        i += 1;
    }
    // gcc -pipe names no input at all.
    output.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::input;

    #[track_caller]
    fn check(args: &str, at: Option<Option<usize>>) {
        let args: Vec<std::ffi::OsString> = args.split(' ').map(Into::into).collect();
        assert_eq!(input(&args), at, "{args:?}");
    }

    #[test]
    fn the_input_of_an_assembler_call_is_found() {
        check("--64 -o x.o /tmp/cc1.s", Some(Some(3)));
        check("-I . --gdwarf-5 --64 -o x.o -", Some(None));
        check("-v --64 -o x.o", Some(None));
        check("--32 -o x.o /tmp/cc1.s", None);
        check("-o x.o a.s b.s", None);
        check("--version", None);
        check("--debug-prefix-map /a=/b -o x.o a.s", Some(Some(4)));
    }
}
