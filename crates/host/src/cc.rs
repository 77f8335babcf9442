//! The compiler wrapper: compile with `-fsanitize=thread`, link without it, add the runtime to executables.

mod args;
mod assembler;

pub use args::{Mode, Parsed, parse, says_little};
pub use assembler::{ASSEMBLER_VARIABLE, assemble};

use crate::cache::CacheError;
use crate::record::{include_folder, object_file};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable: what is compiled and linked now is to stay as it is (build scripts, procedural macros).
pub const PLAIN_VARIABLE: &str = "TUSSLE_PLAIN";

/// Environment variable: a folder in which every compilation is written down, a file each: where it ran, the compiler
/// and its arguments, separated by NUL.
pub const CALLS_VARIABLE: &str = "TUSSLE_CALLS";

/// Source language of a compiler call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
}

/// Why the compiler could not be called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CcError {
    /// No compiler.
    #[error("no compiler `{0}` in PATH: install gcc or clang, or name one in {1}")]
    NoCompiler(String, &'static str),
    /// No assembler.
    #[error("no assembler `as` in PATH: install binutils, or name one in {ASSEMBLER_VARIABLE}")]
    NoAssembler,
    /// The runtime could not be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The compiler could not be started.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// A compiler found on this machine.
struct Compiler {
    program: PathBuf,
    /// Arguments that belong to it (`ccache gcc`).
    own_args: Vec<OsString>,
    clang: bool,
    /// Folder in which gcc finds `tussle` as its assembler, and the assembler that it would have taken.
    assembler: Option<(PathBuf, PathBuf)>,
}

/// Calls the compiler as `tussle cc ARGS` or `tussle c++ ARGS`; returns its exit status. `called_as` is the compiler's
/// name by which this binary was called, if it was; `tussle` is this binary, if it is one that calls [`assemble`] when
/// it is started as `as`. Messages go to `say`.
pub fn run(
    language: Language,
    called_as: Option<&str>,
    tussle: Option<&Path>,
    args: &[OsString],
    say: &mut dyn FnMut(String),
) -> Result<u8, CcError> {
    let (named, args) = match args {
        [flag, compiler, rest @ ..] if flag == AS_FLAG => (Some(compiler), rest),
        all => (None, all),
    };
    let mut compiler = match named {
        Some(program) => exactly(program, language)?,
        None => find_compiler(language, called_as)?,
    };
    if std::env::var_os(PLAIN_VARIABLE).is_some() {
        return exec(&compiler, &including(args));
    }
    let parsed = parse(args);
    let program_of_libc = !parsed.bare || parsed.shared || parsed.relocatable;
    if parsed.mode == Mode::Link && !parsed.sources.is_empty() && !program_of_libc {
        // There is nothing that its hooks could lead to.
        return exec(&compiler, &including(args));
    }
    note(&compiler, &parsed, args);
    if parsed.mode != Mode::Pass {
        compiler.assembler = assembler::stand_in(&compiler, tussle, &parsed.args);
    }
    for m in &parsed.messages {
        say(m.clone());
    }
    match parsed.mode {
        Mode::Pass => exec(&compiler, &including(args)),
        Mode::Compile => exec(&compiler, &including(&compile_args(&compiler, &parsed.args))),
        Mode::Link if parsed.sources.is_empty() => {
            exec(&compiler, &link_args(&compiler, &parsed, &parsed.link_args())?)
        }
        Mode::Link => compile_and_link(&compiler, &parsed),
    }
}

/// Writes a compilation down where somebody wants to know. What cannot be written is not known of there.
fn note(c: &Compiler, parsed: &Parsed, args: &[OsString]) {
    use std::os::unix::ffi::OsStrExt;
    let compiles = parsed.mode == Mode::Compile || (parsed.mode == Mode::Link && !parsed.sources.is_empty());
    let Some(folder) = std::env::var_os(CALLS_VARIABLE).filter(|_| compiles) else { return };
    let Ok(here) = std::env::current_dir() else { return };
    let words = [here.as_os_str(), c.program.as_os_str()].into_iter();
    let words = words.chain(c.own_args.iter().chain(args).map(|a| a.as_os_str()));
    let line: Vec<u8> = words.flat_map(|w| w.as_bytes().iter().copied().chain([0])).collect();
    let when = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let name = format!("{when:024}-{}", std::process::id());
    let _ = std::fs::write(Path::new(&folder).join(name), line);
}

/// Flags of instrumented compilation. `-U`: some programs switch code off under sanitizers; theirs must stay.
fn compile_args(c: &Compiler, args: &[OsString]) -> Vec<OsString> {
    let mut out: Vec<OsString> = vec!["-fsanitize=thread".into()];
    if let Some((dir, _)) = &c.assembler {
        let mut flag = OsString::from("-B");
        flag.push(dir);
        out.push(flag);
    }
    if c.clang {
        // clang leaves out reads that a write follows, and puts no frame pointer in.
        let extra = ["-mllvm", "-tsan-instrument-read-before-write=1", "-Wno-unused-command-line-argument"];
        out.extend(extra.map(OsString::from));
    }
    if !args.iter().any(|a| is_debug_flag(a)) {
        out.push("-g".into());
    }
    out.extend(args.iter().cloned());
    out.push("-U__SANITIZE_THREAD__".into());
    if !c.clang {
        // gcc warns of fences, which ThreadSanitizer does not understand; the recorder does. clang has no such flag.
        out.push("-Wno-tsan".into());
    }
    out
}

/// The arguments, and behind all other folders the one with `tussle.h`, where something is compiled.
fn including(args: &[OsString]) -> Vec<OsString> {
    let is_source = |a: &OsString| Path::new(a).extension().is_some_and(|e| SOURCES.iter().any(|s| e == *s));
    let reads = args.iter().any(|a| READING.iter().any(|r| a == *r)) || args.iter().any(is_source);
    let folder = if reads { include_folder().ok() } else { None };
    let flag = folder.map(|f| [OsString::from("-idirafter"), f.into_os_string()]);
    flag.into_iter().flatten().chain(args.iter().cloned()).collect()
}

/// Options with which sources are read, and how the names of sources end.
const READING: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];
const SOURCES: [&str; 9] = ["c", "cc", "cpp", "cxx", "c++", "C", "CC", "cp", "h"];

/// `tussle cc --print-include`: the folder with `tussle.h`, for other compilers.
pub const PRINT_INCLUDE: &str = "--print-include";

fn is_debug_flag(a: &OsString) -> bool {
    a.to_str().is_some_and(|a| a.starts_with("-g") && !says_little(a) && !a.starts_with("-gcc-toolchain"))
}

/// What libraries that are loaded later ask the program for: hooks, and what marks tell.
const EXPORTED: [&str; 2] =
    ["-Wl,--export-dynamic-symbol=__tsan_*", "-Wl,--export-dynamic-symbol=tussle_mark_*"];

fn link_args(c: &Compiler, p: &Parsed, args: &[OsString]) -> Result<Vec<OsString>, CcError> {
    let mut out = args.to_vec();
    if p.shared || p.relocatable || p.bare {
        return Ok(out);
    }
    if p.language_set {
        out.extend(["-x".into(), "none".into()]);
    }
    let object = object_file()?.into_os_string();
    if out.contains(&object) {
        return Ok(out);
    }
    out.push(object);
    out.extend(["-lpthread".into(), "-ldl".into()]);
    // Libraries loaded later with dlopen ask the executable.
    match p.gold {
        true => out.push("-rdynamic".into()),
        false => out.extend(EXPORTED.map(OsString::from)),
    }
    let _ = c;
    Ok(out)
}

/// `cc a.c b.o -o prog`: each source on its own, then the link.
fn compile_and_link(c: &Compiler, p: &Parsed) -> Result<u8, CcError> {
    let dir = tempfile::Builder::new()
        .prefix("tussle-cc-")
        .tempdir()
        .map_err(|e| CcError::Io(std::env::temp_dir().display().to_string(), e))?;
    crate::interrupted::goes(dir.path());
    // Without it a signal leaves the folder behind, and nothing worse.
    let _ = crate::interrupted::heed(|_| {});
    let mut objects = Vec::new();
    for (i, s) in p.sources.iter().enumerate() {
        let stem = Path::new(&s.file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let object = dir.path().join(format!("{i}-{stem}.o"));
        let mut args = compile_args(c, &p.compile_flags(s));
        args.extend(["-o".into(), object.clone().into_os_string()]);
        let status = call(c, &including(&args))?;
        if status != 0 {
            return Ok(status);
        }
        objects.push(object.into_os_string());
    }
    let linked = p.link_args_with(&objects);
    call(c, &link_args(c, p, &linked)?)
}

fn command(c: &Compiler, args: &[OsString]) -> Command {
    let mut cmd = Command::new(&c.program);
    cmd.args(&c.own_args).args(args);
    if let Some((_, real)) = &c.assembler {
        cmd.env(ASSEMBLER_VARIABLE, real);
    }
    cmd
}

fn call(c: &Compiler, args: &[OsString]) -> Result<u8, CcError> {
    let status = command(c, args).status().map_err(|e| CcError::Io(c.program.display().to_string(), e))?;
    Ok(status.code().map_or_else(|| 128u8.wrapping_add(status.signal().unwrap_or(0) as u8), |s| s as u8))
}

/// Becomes the compiler.
fn exec(c: &Compiler, args: &[OsString]) -> Result<u8, CcError> {
    let e = command(c, args).exec();
    Err(CcError::Io(c.program.display().to_string(), e))
}

/// `tussle cc --as /usr/bin/gcc ARGS`: what stands before a compiler that a build system has chosen (a launcher).
pub const AS_FLAG: &str = "--as";

/// The compiler that a build system has chosen.
fn exactly(program: &OsStr, language: Language) -> Result<Compiler, CcError> {
    let variable = if language == Language::C { "TUSSLE_CC" } else { "TUSSLE_CXX" };
    let found = search(program);
    let program =
        found.ok_or_else(|| CcError::NoCompiler(program.to_string_lossy().into_owned(), variable))?;
    let clang = is_clang(&program, &[]);
    Ok(Compiler { program, own_args: Vec::new(), clang, assembler: None })
}

fn find_compiler(language: Language, called_as: Option<&str>) -> Result<Compiler, CcError> {
    let (variable, default) = match language {
        Language::C => ("TUSSLE_CC", "gcc"),
        Language::Cxx => ("TUSSLE_CXX", "g++"),
    };
    let named = std::env::var(variable).ok().filter(|v| !v.trim().is_empty());
    let words = named.or(called_as.map(String::from)).unwrap_or_else(|| default.into());
    let mut words = words.split_whitespace().map(OsString::from);
    let name = words.next().unwrap_or_else(|| default.into());
    let own_args: Vec<OsString> = words.collect();
    let program =
        search(&name).ok_or_else(|| CcError::NoCompiler(name.to_string_lossy().into_owned(), variable))?;
    let clang = is_clang(&program, &own_args);
    Ok(Compiler { program, own_args, clang, assembler: None })
}

/// The first program of that name in PATH that is not this binary under a compiler's name.
pub(crate) fn search(name: &OsStr) -> Option<PathBuf> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let other = |p: &PathBuf| p.is_file() && std::fs::canonicalize(p).ok() != own;
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(other);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|d| d.join(name)).find(other)
}

fn is_clang(program: &Path, own_args: &[OsString]) -> bool {
    let text = |p: &Path| p.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = [text(program), std::fs::canonicalize(program).map(|p| text(&p)).unwrap_or_default()];
    if names.iter().any(|n| n.contains("clang"))
        || own_args.iter().any(|a| a.to_string_lossy().contains("clang"))
    {
        return true;
    }
    if names.iter().any(|n| n.contains("gcc") || n.contains("g++")) {
        return false;
    }
    // `cc` may be either.
    let out = Command::new(program).args(own_args).arg("--version").output();
    out.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("clang"))
}
