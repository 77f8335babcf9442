//! Builds a scratch copy and reads the layout of one type out of what came out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tussle_debuginfo::dwarf::Want;
use tussle_model::TypeTable;

use super::sources::Sources;
use super::{FixError, Request, compdb};
use crate::companions::{FileCompanions, open_bytes};
use crate::hunt::Scratch;

/// Compilations tried until one describes the type.
const UNITS_MAX: usize = 24;

/// Files of a build that are looked into.
const OUTPUTS_MAX: usize = 400;

/// Asks the compiler for types that no variable uses, too.
const DEBUG_FLAGS: [&str; 3] = ["-g", "-fno-eliminate-unused-debug-types", "-w"];

/// How the folder is built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Build {
    /// A shell command, run in a copy of the folder.
    Shell(String),
    /// `make -B`, run in a copy of the folder.
    Make,
    /// One compilation out of this database.
    Compdb(PathBuf),
    /// One source file by itself: `cc -c FILE`.
    Plain,
}

impl Build {
    /// `make` if there is a makefile, a compilation database if there is one, else file by file.
    pub fn find(dir: &Path) -> Build {
        let database = ["compile_commands.json", "build/compile_commands.json"];
        if ["GNUmakefile", "makefile", "Makefile"].iter().any(|n| dir.join(n).is_file()) {
            return Build::Make;
        }
        match database.iter().map(|n| dir.join(n)).find(|p| p.is_file()) {
            Some(path) => Build::Compdb(path),
            None => Build::Plain,
        }
    }
}

pub(super) struct Compiler<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) sources: &'a Sources,
    /// The file to patch, relative.
    pub(super) file: &'a Path,
    /// The scratch copy.
    pub(super) root: &'a Path,
}

impl Compiler<'_> {
    /// Builds the copy and reads the type. `patched` only words errors.
    pub(super) fn layout(
        &self,
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<TypeTable, FixError> {
        match &self.request.build {
            Build::Shell(command) => self.whole("sh", &["-c", command], command, patched, announce),
            Build::Make => self.whole("make", &["-B"], "make -B", patched, announce),
            Build::Compdb(path) => self.by_database(path, patched, announce),
            Build::Plain => self.plain(patched, announce),
        }
    }

    /// The error for a build without the type.
    pub(super) fn no_layout(&self) -> FixError {
        let command = match &self.request.build {
            Build::Shell(c) => c.clone(),
            Build::Make => "make -B".into(),
            Build::Compdb(p) => p.display().to_string(),
            Build::Plain => "cc -c -g".into(),
        };
        FixError::NoLayout { name: self.request.type_name.into(), command }
    }

    /// Runs a build of everything and looks into the files that are new after it.
    fn whole(
        &self,
        program: &str,
        arguments: &[&str],
        shown: &str,
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<TypeTable, FixError> {
        let tools = Scratch::empty()?;
        let path = debug_compilers(tools.path())
            .map_err(|source| FixError::Io { path: tools.path().into(), source })?;
        // Coarse clocks of file systems: what is a second older still counts as new.
        let start = SystemTime::now() - Duration::from_secs(1);
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.root).env("PATH", path);
        run(command, shown, patched, announce)?;
        let mut files = Vec::new();
        new_elf_files(self.root, start, 24, &mut files);
        files.sort_by_key(|p| (p.extension().is_none_or(|e| e != "o"), p.clone()));
        let found = files.iter().take(OUTPUTS_MAX).find_map(|f| self.read(f));
        found.ok_or_else(|| self.no_layout())
    }

    /// One compilation of the database that includes the file.
    fn by_database(
        &self,
        path: &Path,
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<TypeTable, FixError> {
        let entries = compdb::read(path)?;
        let original = self.request.dir.canonicalize().unwrap_or_else(|_| self.request.dir.to_path_buf());
        let units = self.sources.units_for(self.file);
        let mut last = None;
        for unit in units.iter().take(UNITS_MAX) {
            let wanted = original.join(unit);
            let same = |p: &Path| p == wanted || p.canonicalize().is_ok_and(|c| c == wanted);
            let Some(entry) = entries.iter().find(|e| same(&e.file)) else { continue };
            let out = Scratch::empty()?;
            let object = out.path().join("unit.o");
            let here = |s: &str| s.replace(&*original.to_string_lossy(), &self.root.to_string_lossy());
            let Some((compiler, rest)) = entry.arguments.split_first() else { continue };
            let mut command = Command::new(compiler);
            command.args(rest.iter().map(|a| here(a))).args(DEBUG_FLAGS).arg("-c").arg("-o").arg(&object);
            let directory = PathBuf::from(here(&entry.directory.to_string_lossy()));
            command.current_dir(if directory.is_dir() { &directory } else { &entry.directory });
            let shown = entry.arguments.join(" ");
            match run(command, &shown, patched, announce) {
                Ok(()) => match self.read(&object) {
                    Some(table) => return Ok(table),
                    None => last = Some(self.no_layout()),
                },
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| FixError::Compdb {
            path: path.into(),
            what: format!("has no command for {} or a file that includes it", self.file.display()),
        }))
    }

    /// `cc -c` of the file, or of a file that includes it, or of the header alone.
    fn plain(&self, patched: bool, announce: &mut dyn FnMut(&str)) -> Result<TypeTable, FixError> {
        let mut last = None;
        let units = self.sources.units_for(self.file);
        let header = (!units.iter().any(|u| u == self.file)).then(|| self.file.to_path_buf());
        for unit in units.into_iter().take(UNITS_MAX).chain(header) {
            let cpp = matches!(
                unit.extension().and_then(|e| e.to_str()),
                Some("cc" | "cpp" | "cxx" | "C" | "hpp" | "hh")
            );
            let compiler = compiler_name(cpp);
            let out = Scratch::empty()?;
            let object = out.path().join("unit.o");
            let language = if cpp { "c++" } else { "c" };
            let mut command = Command::new(&compiler);
            command.args(DEBUG_FLAGS).args(["-I.", "-Iinclude", "-x", language, "-c"]).arg(&unit);
            command.arg("-o").arg(&object).current_dir(self.root);
            let shown = format!("{compiler} -g -c {}", unit.display());
            match run(command, &shown, patched, announce) {
                Ok(()) => match self.read(&object) {
                    Some(table) => return Ok(table),
                    None => last = Some(self.no_layout()),
                },
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| self.no_layout()))
    }

    /// The type as `file` has it.
    fn read(&self, file: &Path) -> Option<TypeTable> {
        let bytes = open_bytes(file).ok()?;
        let names = [self.request.type_name.to_string()];
        let mut companions = FileCompanions::new(file);
        let (table, _) =
            tussle_debuginfo::open((*bytes).as_ref(), &Want::Names(&names), &mut companions).ok()?;
        table.find(self.request.type_name)?;
        Some(table)
    }
}

/// `TUSSLE_CC` and `TUSSLE_CXX`, else gcc, as everywhere.
fn compiler_name(cpp: bool) -> String {
    let (variable, default) = if cpp { ("TUSSLE_CXX", "g++") } else { ("TUSSLE_CC", "gcc") };
    std::env::var(variable).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.into())
}

/// Runs one command, its output kept for errors.
fn run(
    mut command: Command,
    shown: &str,
    patched: bool,
    announce: &mut dyn FnMut(&str),
) -> Result<(), FixError> {
    announce(shown);
    let failed = |tail: String| FixError::BuildFailed { command: shown.into(), patched, tail };
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    Err(failed(lines[lines.len().saturating_sub(20)..].join("\n")))
}

/// A folder of compilers that add debug information, first in `PATH`: makefiles often build without it.
fn debug_compilers(dir: &Path) -> std::io::Result<std::ffi::OsString> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in crate::hunt::wrapper::NAMES {
        let real = std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file());
        let Some(real) = real else { continue };
        let quoted = real.to_string_lossy().replace('\'', r"'\''");
        let script = format!("#!/bin/sh\nexec '{quoted}' \"$@\" {}\n", DEBUG_FLAGS.join(" "));
        let file = dir.join(name);
        std::fs::write(&file, script)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    }
    let mut first = dir.as_os_str().to_os_string();
    first.push(":");
    first.push(path);
    Ok(first)
}

fn new_elf_files(dir: &Path, since: SystemTime, depth: usize, out: &mut Vec<PathBuf>) {
    use std::io::Read;
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            new_elf_files(&path, since, depth - 1, out);
        } else if kind.is_file() && out.len() < 100_000 {
            let new = entry.metadata().and_then(|m| m.modified()).is_ok_and(|t| t >= since);
            let mut magic = [0u8; 4];
            let mut read = |p: &Path| std::fs::File::open(p).and_then(|mut f| f.read_exact(&mut magic));
            if new && read(&path).is_ok() && &magic == b"\x7fELF" {
                out.push(path);
            }
        }
    }
}
