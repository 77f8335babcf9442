//! How the units of a folder are compiled: kept from a build, out of a database, or made up for single files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::compdb;
use crate::interrupted;
use tussle_advise::patch::files;

/// One compilation of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Where it runs.
    pub(super) dir: PathBuf,
    /// The compiler.
    pub(super) compiler: String,
    /// Its arguments, without output and dependency files.
    pub(super) args: Vec<String>,
}

/// Options that a front end needs to see the same program, and that gcc and clang share.
const MEANING: [&str; 9] =
    ["-I", "-D", "-U", "-std=", "-isystem", "-iquote", "-idirafter", "-include", "-fms-ext"];

/// Those whose value may be the next word.
const VALUED: [&str; 7] = ["-I", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-include"];

impl Call {
    pub(super) fn new(dir: &Path, compiler: &str, args: Vec<String>) -> Call {
        Call { dir: dir.into(), compiler: compiler.into(), args: compdb::without_outputs(args) }
    }

    /// The source that it compiles, as written.
    pub(super) fn source(&self) -> Option<&str> {
        let words = || self.args.iter().map(String::as_str).filter(|a| !a.starts_with('-'));
        words().find(|a| is_unit(a)).or_else(|| words().next_back().filter(|a| is_header(Path::new(a))))
    }

    /// The source's path.
    pub(super) fn file(&self) -> Option<PathBuf> {
        Some(self.dir.join(self.source()?))
    }

    pub(super) fn is_cpp(&self) -> bool {
        let name = self.compiler.rsplit('/').next().unwrap_or("");
        let source = self.source().unwrap_or("");
        name.contains("++") || is_cpp(Path::new(source)) || self.args.windows(2).any(|w| w == ["-x", "c++"])
    }

    /// The same compilation by gcc; `None` where there is none.
    pub(super) fn with_gcc(&self) -> Option<Call> {
        let name = self.compiler.rsplit('/').next().unwrap_or("");
        if name.contains("gcc") {
            return Some(self.clone());
        }
        let gcc = crate::cc::search("gcc".as_ref())?;
        let mut args: Vec<String> = self.meaning().into_iter().map(str::to_string).collect();
        args.extend(self.source().map(str::to_string));
        Some(Call { compiler: gcc.to_string_lossy().into_owned(), args, dir: self.dir.clone() })
    }

    /// Whether `new` and the standard containers align what needs more than the heap gives, as the compiler says of
    /// this compilation (`__cpp_aligned_new`: C++17, or `-faligned-new`); `None` when it cannot be asked.
    pub(super) fn aligns_new(&self) -> Option<bool> {
        let meaning =
            |a: &&String| a.starts_with("-std=") || a.contains("aligned-new") || a.contains("aligned-alloc");
        let mut command = Command::new(&self.compiler);
        command.args(self.args.iter().filter(meaning)).args(["-x", "c++", "-dM", "-E", "/dev/null"]);
        let out = interrupted::output(command.current_dir(&self.dir).env("LC_ALL", "C")).ok()?;
        let text = String::from_utf8_lossy(&out.stdout);
        text.contains("__cplusplus").then(|| text.contains("__cpp_aligned_new"))
    }

    /// Runs the compiler's front end with `extra` behind its own arguments.
    pub(super) fn front_end(&self, extra: &[&str]) -> std::io::Result<Output> {
        let args = self.args.iter().filter(|a| !matches!(a.as_str(), "-w" | "-Werror" | "-S" | "-E"));
        let mut command = Command::new(&self.compiler);
        command.args(args).arg("-fsyntax-only").args(extra).current_dir(&self.dir);
        interrupted::output(command.env("LC_ALL", "C"))
    }

    /// Runs the compiler with optimisation and `extra` behind its own arguments, warnings as such; nothing is kept.
    pub(super) fn optimised(&self, extra: &[&str]) -> std::io::Result<Output> {
        let args = self.args.iter().filter(|a| !matches!(a.as_str(), "-w" | "-Werror" | "-S" | "-E" | "-c"));
        let mut command = Command::new(&self.compiler);
        command
            .args(args)
            .args(["-O2", "-S", "-o", "/dev/null"])
            .args(extra)
            .arg("-Wno-error")
            .current_dir(&self.dir);
        interrupted::output(command.env("LC_ALL", "C"))
    }

    /// Runs the preprocessor.
    pub(super) fn expand(&self) -> std::io::Result<Output> {
        let args = self.args.iter().filter(|a| !matches!(a.as_str(), "-c" | "-S" | "-P" | "-fsyntax-only"));
        let mut command = Command::new(&self.compiler);
        command.args(args).args(["-E", "-w"]).current_dir(&self.dir);
        interrupted::output(command.env("LC_ALL", "C"))
    }

    /// Runs clang's front end on `source` as this call sees it; access control is off on request of `extra` only.
    pub(super) fn clang(&self, clang: &Path, source: &Path, extra: &[&str]) -> std::io::Result<Output> {
        let mut command = Command::new(clang);
        command.args(["-x", if self.is_cpp() { "c++" } else { "c" }, "-fsyntax-only", "-w"]);
        command.args(["-fno-caret-diagnostics", "-fno-color-diagnostics", "-ferror-limit=1000"]);
        command.args(self.meaning()).args(extra).arg(source).current_dir(&self.dir);
        interrupted::output(command.env("LC_ALL", "C"))
    }

    /// Its options that change what the source says.
    fn meaning(&self) -> Vec<&str> {
        let mut out = Vec::new();
        let mut words = self.args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if MEANING.iter().any(|m| word.starts_with(m)) || word == "-pthread" || word == "-fopenmp" {
                out.push(word);
                if VALUED.contains(&word) {
                    out.extend(words.next());
                }
            }
        }
        out
    }
}

/// Calls that were written down below several folders, each once.
pub(super) fn of_all(logs: &[PathBuf]) -> Vec<Call> {
    let mut out: Vec<Call> = Vec::new();
    for call in logs.iter().flat_map(|log| logged(log)) {
        if !out.contains(&call) {
            out.push(call);
        }
    }
    out
}

/// Calls that a wrapper wrote down below `log`: per file NUL-separated folder, compiler, arguments.
pub(super) fn logged(log: &Path) -> Vec<Call> {
    let Ok(entries) = std::fs::read_dir(log) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort_unstable();
    let mut out: Vec<Call> = Vec::new();
    for path in paths {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let mut words = text.strip_suffix('\0').unwrap_or(&text).split('\0');
        let (Some(dir), Some(compiler)) = (words.next(), words.next()) else { continue };
        let call = Call::new(Path::new(dir), compiler, words.map(str::to_string).collect());
        if call.source().is_some() && !out.contains(&call) {
            out.push(call);
        }
    }
    out
}

/// The name of a translation unit.
pub(super) fn is_unit(path: &str) -> bool {
    path.ends_with(".c") || (is_cpp(Path::new(path)) && !is_header(Path::new(path)))
}

fn is_header(path: &Path) -> bool {
    matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("h" | "hh" | "hpp" | "hxx" | "H" | "ipp" | "tcc" | "inl")
    )
}

/// The name of a C++ source or header.
pub(super) fn is_cpp(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    files::is_cpp(extension)
}
