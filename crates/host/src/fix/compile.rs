//! Builds a scratch copy and reads the layout of one type out of what came out.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tussle_advise::patch::body::{Source, find};
use tussle_debuginfo::dwarf::Want;
use tussle_model::{SourceLoc, Type, TypeId, TypeTable};

use super::calls::{self, Call, is_cpp, is_unit};
use super::place::{self, BuildCopy};
use super::sources::Sources;
use super::tools::debug_compilers;
use super::{FixError, Request, compdb, kernel};
use crate::companions::{FileCompanions, open_bytes};
use crate::project::{Scratch, System};

/// Compilations tried until one describes the type.
const UNITS_MAX: usize = 24;

/// Folders of a build are looked through to this depth.
pub(crate) const DEPTH_MAX: usize = 24;

/// Files of a build that are looked into.
pub(super) const OUTPUTS_MAX: usize = 400;

/// Asks the compiler for types that no variable uses, too.
pub(super) const DEBUG_FLAGS: [&str; 3] = ["-g", "-fno-eliminate-unused-debug-types", "-w"];

/// What compilers must be told to describe every class that a unit knows: by default, those with virtual functions are
/// described in one unit only, and members of such types have no layout in the others.
pub(super) fn class_flags(compiler: &str) -> &'static [&'static str] {
    let name = compiler.rsplit('/').next().unwrap_or("");
    match (name.contains("clang"), name.contains("++")) {
        (true, _) => &["-fstandalone-debug"],
        (false, true) => &["-femit-class-debug-always"],
        (false, false) => &[],
    }
}

/// How the folder is built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Build {
    /// A shell command, run in a copy of the folder.
    Shell(String),
    /// `make -B`, run in a copy of the folder.
    Make,
    /// Another build system, run in a copy of the folder.
    System(System),
    /// One compilation out of this database.
    Compdb(PathBuf),
    /// One object of a Linux kernel, built outside of its tree, configured by this file; without one by the tree's
    /// own `.config`, else the default one.
    Kernel(Option<PathBuf>),
    /// One source file by itself: `cc -c FILE`.
    Plain,
}

impl Build {
    /// The folder is the source of Linux.
    pub fn is_kernel(&self) -> bool {
        matches!(self, Build::Kernel(_))
    }

    /// `make` if there is a makefile, a compilation database if there is one, another build system, else file by file.
    pub fn find(dir: &Path) -> Build {
        if dir.join("Kbuild").is_file() && dir.join("Kconfig").is_file() {
            return Build::Kernel(None);
        }
        let all = System::all_of(dir);
        let database = all.iter().find_map(|s| match s {
            System::Database(path) => Some(dir.join(path)),
            _ => None,
        });
        match (all.contains(&System::Make), database, all.into_iter().next()) {
            (true, ..) => Build::Make,
            (_, Some(path), _) => Build::Compdb(path),
            (.., Some(system)) => Build::of(&system, dir),
            (.., None) => Build::Plain,
        }
    }

    /// How a type is looked up in a folder that is built by `system`.
    pub fn of(system: &System, dir: &Path) -> Build {
        match system {
            System::Shell(command) => Build::Shell(command.clone()),
            System::Make => Build::Make,
            System::Database(path) => Build::Compdb(dir.join(path)),
            System::Single(_) => Build::Plain,
            other => Build::System(other.clone()),
        }
    }

    /// What has to be there before a build of everything.
    fn prepare(&self, root: &Path) -> std::io::Result<()> {
        match self {
            Build::System(system) => system.prepare(root),
            _ => Ok(()),
        }
    }
}

pub(super) struct Compiler<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) sources: &'a Sources,
    /// The file to patch, relative.
    pub(super) file: &'a Path,
    /// Where it is built.
    place: &'a BuildCopy<'a>,
    pub(super) root: &'a Path,
    /// Lines on which a struct without a name of its own begins: the type is called by a variable.
    unnamed: Option<RangeInclusive<u32>>,
    /// What the first build of everything compiled.
    calls: RefCell<Option<Vec<Call>>>,
    /// The compilers of every build of everything: build systems remember where the first one found them.
    tools: Scratch,
}

impl<'a> Compiler<'a> {
    /// Nothing is built yet.
    pub(super) fn new(
        request: &'a Request<'a>,
        sources: &'a Sources,
        file: &'a Path,
        place: &'a BuildCopy<'a>,
    ) -> Result<Self, FixError> {
        let (tools, root) = (Scratch::empty()?, place.path());
        let unnamed = unnamed(sources.text(file), request);
        Ok(Compiler { request, sources, file, place, root, unnamed, calls: RefCell::default(), tools })
    }

    /// Builds the copy and reads the type. `patched` only words errors.
    pub(super) fn layout(
        &self,
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<TypeTable, FixError> {
        if self.request.build.is_kernel() {
            return kernel::layout(self, patched, announce);
        }
        // Another program of the folder may have a type of this name: only where none is known to stand in our file,
        // the first one counts.
        let other = RefCell::new(None);
        let found = self.find(patched, announce, &|file| {
            let table = self.read(file)?;
            if self.target(&table).is_some_and(|id| self.is_defined_here(&table, id)) {
                return Some(table);
            }
            other.borrow_mut().get_or_insert(table);
            None
        });
        match found {
            Err(FixError::NoLayout { .. }) => other.take().ok_or_else(|| self.no_layout()),
            found => found,
        }
    }

    /// The type stands in the file that is patched, as far as the debug information says where it does.
    fn is_defined_here(&self, table: &TypeTable, id: TypeId) -> bool {
        let Some(decl) = table.aggregate(id).and_then(|a| a.decl.as_ref()) else { return true };
        let path = super::sources::normal(Path::new(&decl.file));
        path.ends_with(self.file) || self.file.ends_with(&path)
    }

    /// Builds the copy and reads what `probe` finds in the first file that was built and has it.
    pub(super) fn find<T>(
        &self,
        patched: bool,
        announce: &mut dyn FnMut(&str),
        probe: &dyn Fn(&Path) -> Option<T>,
    ) -> Result<T, FixError> {
        if let BuildCopy::Built(workshop) = self.place {
            self.calls.borrow_mut().get_or_insert_with(|| calls::of_all(&workshop.calls()));
            return place::find(workshop, patched, announce, probe)?.ok_or_else(|| self.no_layout());
        }
        match &self.request.build {
            Build::Shell(command) => self.whole(&["sh", "-c", command], command, patched, announce, probe),
            Build::Make => self.whole(&["make", "-B"], "make -B", patched, announce, probe),
            Build::System(system) => {
                let command = system.command();
                self.whole(&["sh", "-c", &command], &command, patched, announce, probe)
            }
            Build::Compdb(path) => self.by_database(path, patched, announce, probe),
            Build::Kernel(_) => Err(self.no_layout()),
            Build::Plain => self.plain(patched, announce, probe),
        }
    }

    /// The error for a build without the type.
    pub(super) fn no_layout(&self) -> FixError {
        let command = match &self.request.build {
            Build::Shell(c) => c.clone(),
            Build::Make => "make -B".into(),
            Build::System(s) => s.command(),
            Build::Kernel(_) => "make".into(),
            Build::Compdb(p) => p.display().to_string(),
            Build::Plain => "cc -c -g".into(),
        };
        FixError::NoLayout { name: self.request.type_name.into(), command }
    }

    /// Runs a build of everything and looks into the files that are new after it.
    fn whole<T>(
        &self,
        words: &[&str],
        shown: &str,
        patched: bool,
        announce: &mut dyn FnMut(&str),
        probe: &dyn Fn(&Path) -> Option<T>,
    ) -> Result<T, FixError> {
        let log = self.tools.path().join("calls");
        let io = |source| FixError::Io { path: self.tools.path().into(), source };
        let _ = std::fs::remove_dir_all(&log);
        std::fs::create_dir(&log).map_err(io)?;
        let kept = self.tools.path().join("kept");
        let _ = std::fs::remove_dir_all(&kept);
        std::fs::create_dir(&kept).map_err(io)?;
        let path = debug_compilers(self.tools.path(), &log, &kept).map_err(io)?;
        self.request.build.prepare(self.root).map_err(io)?;
        let start = SystemTime::now();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.root).env("PATH", path);
        run(command, shown, patched, announce)?;
        self.calls.borrow_mut().get_or_insert_with(|| calls::logged(&log));
        let mut files = elf_files(self.root, start, DEPTH_MAX);
        files.sort_by_cached_key(|p| (p.extension().is_none_or(|e| e != "o"), self.distance(p), p.clone()));
        files.extend(elf_files(&kept, start, 1));
        let found = files.iter().take(OUTPUTS_MAX).find_map(|f| probe(f));
        found.ok_or_else(|| self.no_layout())
    }

    /// Folders between a file that was built and the one that is patched.
    fn distance(&self, built: &Path) -> usize {
        let own = self.file.parent().unwrap_or(Path::new(""));
        let folder = built.strip_prefix(self.root).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        let same = own.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
        own.components().count() + folder.components().count() - 2 * same
    }

    /// Every known compilation of a unit that sees the file, run in the copy.
    pub(super) fn calls(&self) -> Result<Vec<Call>, FixError> {
        let users = self.sources.users(self.file);
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.to_path_buf());
        let all = match &self.request.build {
            // One command among thousands: the layout is compiled, diagnostics are not compared.
            Build::Kernel(_) => Vec::new(),
            Build::Shell(_) | Build::Make | Build::System(_) => {
                self.calls.borrow().clone().unwrap_or_default()
            }
            Build::Compdb(path) => compdb::of_folder(path, self.request.dir)?
                .iter()
                .filter_map(|e| self.database_call(e))
                .collect(),
            Build::Plain => {
                let units = users.iter().filter(|p| is_unit(&p.to_string_lossy()));
                let calls: Vec<Call> = units.map(|u| self.plain_call(u)).collect();
                if calls.is_empty() { vec![self.plain_call(self.file)] } else { calls }
            }
        };
        // Most files of the copy are links: their own paths count, not where they lead.
        let sees = |call: &Call| {
            let file = call.file().map(|f| super::sources::normal(&f));
            let below =
                file.as_deref().and_then(|f| f.strip_prefix(self.root).or(f.strip_prefix(&root)).ok());
            below.is_some_and(|f| users.contains(f))
        };
        Ok(all.into_iter().filter(sees).collect())
    }

    /// An entry of the database, moved into the copy.
    fn database_call(&self, entry: &compdb::Entry) -> Option<Call> {
        let original = self.request.dir.canonicalize().unwrap_or_else(|_| self.request.dir.to_path_buf());
        let moved = entry.moved(&original, self.root);
        let (compiler, rest) = moved.arguments.split_first()?;
        let directory = if moved.directory.is_dir() { &moved.directory } else { &entry.directory };
        Some(Call::new(directory, compiler, rest.to_vec()))
    }

    fn plain_call(&self, unit: &Path) -> Call {
        let cpp = is_cpp(unit);
        let language = if cpp { "c++" } else { "c" };
        let mut args: Vec<String> = ["-I.", "-Iinclude", "-x", language].map(String::from).to_vec();
        args.push(unit.to_string_lossy().into_owned());
        Call::new(self.root, &compiler_name(cpp), args)
    }

    /// One compilation of the database that includes the file.
    fn by_database<T>(
        &self,
        path: &Path,
        patched: bool,
        announce: &mut dyn FnMut(&str),
        probe: &dyn Fn(&Path) -> Option<T>,
    ) -> Result<T, FixError> {
        let entries = compdb::of_folder(path, self.request.dir)?;
        let original = self.request.dir.canonicalize().unwrap_or_else(|_| self.request.dir.to_path_buf());
        let units = self.sources.units_for(self.file);
        let mut last = None;
        for unit in units.iter().take(UNITS_MAX) {
            let wanted = original.join(unit);
            let same = |p: &Path| p == wanted || p.canonicalize().is_ok_and(|c| c == wanted);
            let Some(entry) = entries.iter().find(|e| same(&e.file)) else { continue };
            let Some(call) = self.database_call(entry) else { continue };
            let out = Scratch::empty()?;
            let object = out.path().join("unit.o");
            let mut command = Command::new(&call.compiler);
            command
                .args(&call.args)
                .args(DEBUG_FLAGS)
                .args(class_flags(&call.compiler))
                .arg("-c")
                .arg("-o")
                .arg(&object)
                .current_dir(&call.dir);
            let shown = entry.arguments.join(" ");
            match run(command, &shown, patched, announce) {
                Ok(()) => match probe(&object) {
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
    fn plain<T>(
        &self,
        patched: bool,
        announce: &mut dyn FnMut(&str),
        probe: &dyn Fn(&Path) -> Option<T>,
    ) -> Result<T, FixError> {
        let mut last = None;
        let units = self.sources.units_for(self.file);
        let header = (!units.iter().any(|u| u == self.file)).then(|| self.file.to_path_buf());
        for unit in units.into_iter().take(UNITS_MAX).chain(header) {
            let out = Scratch::empty()?;
            let object = out.path().join("unit.o");
            let call = self.plain_call(&unit);
            let mut command = Command::new(&call.compiler);
            command
                .args(DEBUG_FLAGS)
                .args(class_flags(&call.compiler))
                .args(&call.args)
                .arg("-c")
                .arg("-o")
                .arg(&object)
                .current_dir(self.root);
            let shown = format!("{} -g -c {}", call.compiler, unit.display());
            match run(command, &shown, patched, announce) {
                Ok(()) => match probe(&object) {
                    Some(table) => return Ok(table),
                    None => last = Some(self.no_layout()),
                },
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| self.no_layout()))
    }

    /// The type in a table.
    pub(super) fn target(&self, table: &TypeTable) -> Option<TypeId> {
        let Some(lines) = &self.unnamed else {
            let name = self.request.type_name;
            let named = table.find(name).or_else(|| hidden(table, name))?;
            return Some(self.of_our_file(table, named));
        };
        let name = self.file.file_name()?.to_str()?;
        let here = |d: &SourceLoc| lines.contains(&d.line) && d.file.ends_with(name);
        let unnamed =
            table.aggregates().filter(|(_, a)| a.name.is_none() && a.decl.as_ref().is_some_and(here));
        let all: Vec<_> = unnamed.collect();
        // Another one may stand inside of it, on the same line.
        let inside =
            |id: TypeId| all.iter().any(|(_, a)| a.members.iter().any(|m| element(table, m.ty) == id));
        all.iter().map(|(id, _)| *id).find(|id| !inside(*id))
    }

    /// `named`, or the type of its name that stands in the file that is patched.
    fn of_our_file(&self, table: &TypeTable, named: TypeId) -> TypeId {
        let Some(wanted) = table.aggregate(named).filter(|_| !self.is_defined_here(table, named)) else {
            return named;
        };
        let mut same = table.aggregates().filter(|(id, a)| {
            !a.declaration
                && a.kind == wanted.kind
                && a.name.is_some()
                && a.name == wanted.name
                && self.is_defined_here(table, *id)
        });
        same.next().map_or(named, |(id, _)| id)
    }

    /// The type as `file` has it.
    pub(super) fn read(&self, file: &Path) -> Option<TypeTable> {
        let bytes = open_bytes(file).ok()?;
        let names = [self.request.type_name.to_string()];
        let read = |want: &Want<'_>| {
            let (table, _) =
                tussle_debuginfo::open((*bytes).as_ref(), want, &mut FileCompanions::new(file)).ok()?;
            self.target(&table).map(|_| table)
        };
        if self.unnamed.is_some() {
            return read(&Want::All);
        }
        // Compilers spell instances of templates in their own ways, and people leave unnamed namespaces out: only a
        // full table can be searched for them.
        let cpp = || self.sources.users(self.file).iter().any(|u| is_cpp(u));
        let spelt = self.request.type_name.contains('<') || is_cpp(self.file) || cpp();
        read(&Want::Names(&names)).or_else(|| spelt.then(|| read(&Want::All))?)
    }
}

/// The type of an array's elements, or the type itself.
fn element(table: &TypeTable, ty: TypeId) -> TypeId {
    match table.get(table.strip(ty)) {
        Type::Array { elem, .. } => table.strip(*elem),
        _ => table.strip(ty),
    }
}

/// The only type that has this name but for unnamed namespaces, or for the namespaces and classes around it; else the
/// only instance of the template of this name.
pub(super) fn hidden(table: &TypeTable, name: &str) -> Option<TypeId> {
    let wanted = super::without_unnamed(name);
    let bare = wanted.strip_prefix("struct ").or(wanted.strip_prefix("class ")).unwrap_or(&wanted);
    let inside = |n: &str| n.strip_suffix(bare).is_some_and(|outer| outer.ends_with("::"));
    let same = |n: &str| (n.contains('(') && super::without_unnamed(n) == wanted) || inside(n);
    let instance = |n: &str| template(n).is_some_and(|t| t == bare || inside(t));
    only(table, same).or_else(|| only(table, instance))
}

/// The one type whose name fits.
fn only(table: &TypeTable, fits: impl Fn(&str) -> bool) -> Option<TypeId> {
    let mut all = table.aggregates().filter(|(_, a)| !a.declaration && a.name.as_deref().is_some_and(&fits));
    let found = all.next()?.0;
    all.next().is_none().then_some(found)
}

/// `a::Slot` of `a::Slot<b<u8>>`.
fn template(instance: &str) -> Option<&str> {
    let mut depth = 0i64;
    let opens_last = |&(_, c): &(usize, char)| {
        depth += i64::from(c == '>') - i64::from(c == '<');
        c == '<' && depth == 0
    };
    let open = instance.char_indices().rev().find(opens_last).filter(|_| instance.ends_with('>'))?.0;
    Some(&instance[..open])
}

/// Lines of the keyword and the brace of a struct that has neither a tag nor a typedef.
fn unnamed(text: &str, request: &Request<'_>) -> Option<RangeInclusive<u32>> {
    let source = Source::new(text);
    let body = find(&source, request.type_name, request.decl.map(|d| d.line)).ok()?;
    let line = |i: usize| source.tokens.get(i).map_or(0, |t| t.line);
    (body.tag.is_none() && !body.typedef).then(|| line(body.keyword)..=line(body.open))
}

/// `TUSSLE_CC` and `TUSSLE_CXX`, else gcc, as everywhere.
fn compiler_name(cpp: bool) -> String {
    let (variable, default) = if cpp { ("TUSSLE_CXX", "g++") } else { ("TUSSLE_CC", "gcc") };
    std::env::var(variable).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.into())
}

/// Runs one command, its output kept for errors.
pub(super) fn run(
    mut command: Command,
    shown: &str,
    patched: bool,
    announce: &mut dyn FnMut(&str),
) -> Result<(), FixError> {
    announce(shown);
    let failed = |tail: String| FixError::BuildFailed { command: shown.into(), patched, tail };
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot_start = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            failed(format!("no `{program}` in PATH: install it, or say --build CMD"))
        }
        _ => failed(format!("{program}: {e}")),
    };
    let output = crate::interrupted::output(&mut command).map_err(cannot_start)?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    Err(failed(lines[lines.len().saturating_sub(20)..].join("\n")))
}

/// Executables, objects and libraries in folders so deep that are not older than `since`.
pub(crate) fn elf_files(dir: &Path, since: SystemTime, depth: usize) -> Vec<PathBuf> {
    let mut out = Vec::new();
    // Coarse clocks of file systems: what is a second older still counts as new.
    new_elf_files(dir, since - Duration::from_secs(1), depth, &mut out);
    out
}

/// Executables, objects and libraries that are new.
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
