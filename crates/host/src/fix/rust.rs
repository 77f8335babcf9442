//! Patches of Rust structs: the text is edited, cargo or rustc compiles it, and what the compiler made is held against
//! what the patch claims.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::patch::rust::{self, PADDED_BYTES, Wrapper};
use tussle_advise::patch::unified_diff;
use tussle_advise::relayout::Relayout;
use tussle_debuginfo::dwarf::Want;
use tussle_model::{Aggregate, MemberRole, SourceLoc, TypeId, TypeTable};

use super::compile::{elf_files, hidden, run};
use super::place::{self, BuildCopy};
use super::sources::normal;
use super::{Build, FieldMove, FixError, Patched, PatchedFile, Request};
use crate::companions::{FileCompanions, open_bytes};
use crate::project::wrapper::target_in_copy;
use crate::project::{BUILD_FOLDER, System};

/// Sources above this are not looked at.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Folders below the top.
const DEPTH_MAX: usize = 16;

/// What a release build leaves out unless it is asked.
const DEBUG: [(&str, &str); 5] = [
    // What an incremental build keeps of the unpatched text would be read as what was built.
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "2"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
    ("CARGO_PROFILE_DEV_DEBUG", "2"),
    ("CARGO_PROFILE_DEV_STRIP", "none"),
];

/// The struct is Rust's.
pub(super) fn is_rust(request: &Request<'_>) -> bool {
    let cargo = matches!(request.build, Build::System(s) if s.is_rust());
    request.decl.map_or(cargo, |d| d.file.ends_with(".rs"))
}

/// Rust sources below the folder define the struct.
pub(super) fn defines(request: &Request<'_>) -> bool {
    sources(request.dir, request.decl).values().any(|text| rust::defines(text, request.type_name))
}

/// The fields of the struct lie in the order of its source (`repr(C)`), as far as the sources below `dir` tell.
pub fn is_ordered(dir: &Path, name: &str, decl: Option<&SourceLoc>) -> bool {
    let sources = sources(dir, decl);
    let found = definition(dir, &sources, name, decl);
    found.is_ok_and(|path| rust::is_ordered(&sources[&path], name, line(decl)))
}

/// Patches a copy of the folder, builds it, and compares.
pub(super) fn patch_tree(request: &Request<'_>, announce: &mut dyn FnMut(&str)) -> Result<Patched, FixError> {
    let sources = sources(request.dir, request.decl);
    let file = definition(request.dir, &sources, request.type_name, request.decl)?;
    let old = &sources[&file];
    let wrapper = wrapper(request, &file, &sources);
    uses(request, request.edits.iter().any(Edit::resizes), &sources)?;
    let text = rust::patch(old, request.type_name, line(request.decl), request.edits, &wrapper)
        .map_err(|refusal| FixError::Refused { file: file.display().to_string(), refusal })?;
    let place = BuildCopy::of_everything(request)?;
    let builder = Builder { request, file: &file, place: &place, all: Cell::new(false) };
    let before = builder.layout(false, announce)?;
    place.write(&file, &text.text)?;
    let after = builder.layout(true, announce).map_err(|e| made_elsewhere(e, &file))?;
    let (Some(a), Some(b)) = (aggregate(&before, request), aggregate(&after, request)) else {
        return Err(builder.no_layout());
    };
    let fields = compare(request, &wrapper, (&before, a), b)?;
    uses(request, a.1.size != b.1.size, &sources)?;
    let path = file.to_string_lossy().into_owned();
    let mut notes = text.notes;
    if request.type_name.contains('<') {
        notes.push("it is generic: every instance changes, this one was looked at".into());
    }
    Ok(Patched {
        type_name: request.type_name.into(),
        edits: request.edits.to_vec(),
        diff: unified_diff(&path, old, &text.text),
        size_before: a.1.size,
        size_after: b.1.size,
        files: vec![PatchedFile { old: old.clone(), new: text.text, path: file }],
        fields,
        notes,
    })
}

/// What makes the field in another file has not the type that the patch puts around it: with what to do about that.
fn made_elsewhere(error: FixError, file: &Path) -> FixError {
    match error {
        FixError::BuildFailed { command, patched: true, tail }
            if ["[E0277]", "[E0308]"].iter().any(|code| tail.contains(code)) =>
        {
            let hint =
                "the patch changes what makes the struct in this file only; let others call a function of it";
            FixError::BuildFailed {
                command,
                patched: true,
                tail: format!("{tail}\n{}: {hint}", file.display()),
            }
        }
        other => other,
    }
}

/// Refuses when the sources look at the layout, and at the size where that is another.
fn uses(request: &Request<'_>, resized: bool, sources: &BTreeMap<PathBuf, String>) -> Result<(), FixError> {
    if request.abi_ok {
        return Ok(());
    }
    let texts: Vec<_> = sources.iter().map(|s| (s.0.to_string_lossy(), s.1.as_str())).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|t| (&*t.0, t.1)).collect();
    rust::order::check(request.type_name, request.edits, &texts).map_err(FixError::Use)?;
    rust::uses::check(request.type_name, request.edits, resized, &texts).map_err(FixError::Use)
}

fn line(decl: Option<&SourceLoc>) -> Option<u32> {
    decl.map(|d| d.line).filter(|l| *l > 0)
}

/// Text of every Rust source below `dir`, without what cargo built, and of the file of the definition: what is included
/// (`include!`) may be called otherwise.
fn sources(dir: &Path, decl: Option<&SourceLoc>) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    collect(dir, Path::new(""), DEPTH_MAX, &mut out);
    out.extend(decl.and_then(|d| included(dir, &normal(Path::new(&d.file)))));
    out
}

/// The longest tail of a path that is no `.rs` and lies below `dir`, with its text.
fn included(dir: &Path, path: &Path) -> Option<(PathBuf, String)> {
    let parts: Vec<_> = path.components().collect();
    let mut tails = (0..parts.len()).map(|n| parts[n..].iter().collect::<PathBuf>());
    let other = path.extension().is_none_or(|e| e != "rs");
    let tail = tails.find(|t| other && t.is_relative() && dir.join(t).is_file())?;
    let small = std::fs::metadata(dir.join(&tail)).is_ok_and(|m| m.len() <= FILE_BYTES_MAX);
    let text = small.then(|| std::fs::read_to_string(dir.join(&tail)).ok())??;
    Some((tail, text))
}

fn collect(dir: &Path, relative: &Path, depth: usize, out: &mut BTreeMap<PathBuf, String>) {
    let Ok(entries) = std::fs::read_dir(dir.join(relative)) else { return };
    for entry in entries.flatten() {
        let path = relative.join(entry.file_name());
        let Ok(meta) = entry.metadata() else { continue };
        let built = dir.join(&path).join("CACHEDIR.TAG").exists();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if meta.is_dir() && depth > 0 && !hidden && !built {
            collect(dir, &path, depth - 1, out);
        } else if meta.is_file()
            && path.extension().is_some_and(|e| e == "rs")
            && meta.len() <= FILE_BYTES_MAX
        {
            out.extend(std::fs::read_to_string(dir.join(&path)).ok().map(|text| (path, text)));
        }
    }
}

/// The file that the debug information names (its longest tail that is here), else the only one with the struct.
fn definition(
    dir: &Path,
    sources: &BTreeMap<PathBuf, String>,
    name: &str,
    decl: Option<&SourceLoc>,
) -> Result<PathBuf, FixError> {
    let named = |path: &&PathBuf| decl.is_some_and(|d| normal(Path::new(&d.file)).ends_with(path));
    let told = sources.keys().filter(named).max_by_key(|p| p.components().count());
    if let Some(path) = told.filter(|p| rust::defines(&sources[*p], name)) {
        return Ok(path.clone());
    }
    let all: Vec<&PathBuf> = sources.iter().filter(|s| rust::defines(s.1, name)).map(|s| s.0).collect();
    match all.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(no_struct(sources, name)
            .unwrap_or_else(|| FixError::NoSource { dir: dir.into(), name: name.into() })),
        many => Err(FixError::ManySources {
            name: name.into(),
            files: many.iter().map(|p| p.display().to_string()).collect(),
            what: "name one of them with --in, or the folder that holds only one with --dir",
        }),
    }
}

/// Something else of that name is defined.
fn no_struct(sources: &BTreeMap<PathBuf, String>, name: &str) -> Option<FixError> {
    let why = |(path, text): (&PathBuf, &String)| {
        let file = path.display().to_string();
        rust::no_struct(text, name).map(|refusal| FixError::Refused { file, refusal })
    };
    sources.iter().find_map(why)
}

/// `CachePadded` where the nearest manifest above the file depends on a crate that has it.
fn wrapper(request: &Request<'_>, file: &Path, sources: &BTreeMap<PathBuf, String>) -> Wrapper {
    let manifests = file.ancestors().skip(1).map(|d| request.dir.join(d).join("Cargo.toml"));
    let text = manifests.into_iter().find_map(|m| std::fs::read_to_string(m).ok()).unwrap_or_default();
    match (depends(&text, "crossbeam-utils"), depends(&text, "crossbeam")) {
        (true, _) => Wrapper::Padded("crossbeam_utils::CachePadded".into()),
        (_, true) => Wrapper::Padded("crossbeam::utils::CachePadded".into()),
        _ => Wrapper::own(&sources.values().map(String::as_str).collect::<Vec<_>>(), request.edits),
    }
}

/// Whether a package has the crate under its own name in every build: with all features and none, on every target.
fn depends(manifest: &str, name: &str) -> bool {
    let table: toml::Table = manifest.parse().unwrap_or_default();
    let Some(dependency) = table.get("dependencies").and_then(|d| d.get(name)) else { return false };
    let optional = dependency.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
    let renamed = dependency.get("package").is_some_and(|p| p.as_str() != Some(name));
    !optional && !renamed
}

/// Builds the copy.
struct Builder<'a> {
    request: &'a Request<'a>,
    file: &'a Path,
    place: &'a BuildCopy<'a>,
    /// Tests, benches and examples are built, too.
    all: Cell<bool>,
}

impl Builder<'_> {
    fn command(&self) -> String {
        match self.request.build {
            Build::Shell(c) => c.clone(),
            Build::Make => "make -B".into(),
            Build::System(s) if self.all.get() => format!("{} --all-targets", s.command()),
            Build::System(s) => s.command(),
            _ => System::Single(self.file.to_path_buf()).command(),
        }
    }

    fn no_layout(&self) -> FixError {
        let (name, command) = (self.request.type_name.into(), self.command());
        match matches!(self.request.build, Build::Shell(_)) || self.is_ours() {
            true => FixError::NoRustLayout { name, command },
            false => FixError::NoLayout { name, command },
        }
    }

    /// What was built, as a table with the struct.
    fn layout(&self, patched: bool, announce: &mut dyn FnMut(&str)) -> Result<TypeTable, FixError> {
        let shown = self.command();
        let names = [self.request.type_name.to_string()];
        // A name without its crate is found in the table of everything only.
        let wants = [Want::Names(&names), Want::All];
        if let BuildCopy::Built(workshop) = self.place {
            let read = |file: &Path| wants.iter().find_map(|w| self.read(file, w));
            return place::find(workshop, patched, announce, &read)?.ok_or_else(|| self.no_layout());
        }
        match self.built(&shown, &wants, patched, announce)? {
            Some(table) => Ok(table),
            None if self.is_ours() && !self.all.replace(true) => self.with_tests(&wants, patched, announce),
            None => Err(self.no_layout()),
        }
    }

    /// Of a library, only what uses a struct describes it: its tests, benches or examples.
    fn with_tests(
        &self,
        wants: &[Want<'_>],
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<TypeTable, FixError> {
        // They may need what is not there.
        let built = self.built(&self.command(), wants, patched, announce).ok().flatten();
        built.ok_or_else(|| self.no_layout())
    }

    /// The command is tussle's own.
    fn is_ours(&self) -> bool {
        matches!(self.request.build, Build::System(System::Cargo(_) | System::Member(..)))
    }

    /// Runs the command, and reads the struct out of what is new.
    fn built(
        &self,
        shown: &str,
        wants: &[Want<'_>],
        patched: bool,
        announce: &mut dyn FnMut(&str),
    ) -> Result<Option<TypeTable>, FixError> {
        let root = self.place.path();
        let folder = root.join(BUILD_FOLDER);
        std::fs::create_dir_all(&folder).map_err(|source| FixError::Io { path: folder, source })?;
        let start = SystemTime::now();
        let mut command = Command::new("sh");
        command.args(["-c", shown]).current_dir(root).envs(DEBUG).envs(target_in_copy());
        run(command, shown, patched, announce)?;
        let files = elf_files(root, start, DEPTH_MAX);
        Ok(wants.iter().find_map(|w| files.iter().find_map(|f| self.read(f, w))))
    }

    fn read(&self, file: &Path, want: &Want<'_>) -> Option<TypeTable> {
        let bytes = open_bytes(file).ok()?;
        let mut companions = FileCompanions::new(file);
        let (table, _) = tussle_debuginfo::open((*bytes).as_ref(), want, &mut companions).ok()?;
        aggregate(&table, self.request).is_some().then_some(table)
    }
}

fn aggregate<'t>(table: &'t TypeTable, request: &Request<'_>) -> Option<(TypeId, &'t Aggregate)> {
    let named = table.find(request.type_name).or_else(|| hidden(table, request.type_name))?;
    let id = table.strip(named);
    Some((id, table.aggregate(id).filter(|a| !a.declaration)?))
}

/// Holds what the compiler made against what was promised: with `repr(C)` every offset; of a type with an
/// alignment that nothing else lies on its lines, wherever the compiler puts it.
fn compare(
    request: &Request<'_>,
    wrapper: &Wrapper,
    (before, old): (&TypeTable, (TypeId, &Aggregate)),
    new: (TypeId, &Aggregate),
) -> Result<Vec<FieldMove>, FixError> {
    let named = |a: &Aggregate| -> Vec<(String, u64)> {
        let fields = a.members.iter().filter(|m| m.role == MemberRole::Field);
        fields.filter_map(|m| Some((m.name.clone()?, m.offset_bits / 8))).collect()
    };
    let after: BTreeMap<String, u64> = named(new.1).into_iter().collect();
    let wraps = request.edits.iter().any(|e| matches!(e, Edit::Align { .. }));
    if wraps {
        alone(request, wrapper, new.1, &after)?;
    } else {
        predicted(request, before, old, (&after, new.1.size))?;
    }
    let moved = |(path, was): (String, u64)| {
        let m = old.1.members.iter().find(|m| m.name.as_ref() == Some(&path))?;
        let size = before.size(m.ty).unwrap_or(0);
        Some(FieldMove { before: was, after: *after.get(&path)?, size, path })
    };
    Ok(named(old.1).into_iter().filter_map(moved).collect())
}

/// Offsets and size as the layout rules give them.
fn predicted(
    request: &Request<'_>,
    before: &TypeTable,
    old: (TypeId, &Aggregate),
    (after, size): (&BTreeMap<String, u64>, u64),
) -> Result<(), FixError> {
    let shapes = Shapes::new(before);
    let relaid = Relayout::new(&shapes, old.0, request.edits)?.relaid(old.0)?;
    let mismatch = |field: &str, predicted, actual| {
        if predicted == actual {
            Ok(())
        } else {
            Err(FixError::Mismatch { field: field.into(), predicted, actual })
        }
    };
    mismatch("the end", relaid.size, size)?;
    for (m, bits) in old.1.members.iter().zip(&relaid.offsets_bits) {
        let Some((name, actual)) = m.name.as_ref().and_then(|n| after.get_key_value(n)) else { continue };
        mismatch(name, bits / 8, *actual)?;
    }
    Ok(())
}

/// No other field begins on the lines of a wrapped one.
fn alone(
    request: &Request<'_>,
    wrapper: &Wrapper,
    new: &Aggregate,
    after: &BTreeMap<String, u64>,
) -> Result<(), FixError> {
    for edit in request.edits {
        let Edit::Align { field, bytes } = edit else { continue };
        let bytes = if wrapper.is_own() { *bytes } else { PADDED_BYTES };
        let Some(at) = after.get(field) else {
            return Err(FixError::Nothing(edit.to_string()));
        };
        let start = at / bytes * bytes;
        let wrong = after.iter().find(|(name, o)| *name != field && (start..at + bytes).contains(*o));
        if at % bytes != 0 || new.size % bytes != 0 || wrong.is_some() {
            let (field, actual) = wrong.map_or((field.clone(), *at), |w| (w.0.clone(), *w.1));
            return Err(FixError::Mismatch { field, predicted: at.next_multiple_of(bytes), actual });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_build_has_may_be_used_in_a_patch() {
        let depends_on = |dependency: &str| {
            let manifest =
                format!("[package]\nname = \"a\"\n[dev-dependencies]\ncrossbeam = \"1\"\n{dependency}");
            depends(&manifest, "crossbeam-utils")
        };
        assert!(depends_on("[dependencies]\ncrossbeam-utils = \"0.8\""));
        assert!(depends_on("[dependencies]\ncrossbeam-utils.workspace = true"));
        assert!(depends_on("[dependencies.crossbeam-utils]\nversion = \"0.8\""));
        assert!(!depends_on("[dependencies]\ncrossbeam-utils = { version = \"0.8\", optional = true }"));
        assert!(!depends_on("[dependencies]\ncb = { package = \"crossbeam-utils\", version = \"0.8\" }"));
        assert!(!depends_on("[target.'cfg(unix)'.dependencies]\ncrossbeam-utils = \"0.8\""));
        assert!(!depends_on("[dependencies]\ncrossbeam-utils = { version = \"0.8\", package = \"other\" }"));
        assert!(!depends_on(""));
    }

    #[test]
    fn a_definition_in_an_included_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(path), text).unwrap();
        };
        put("src/main.rs", "include!(\"../gen/part.in\"); enum State { Idle }");
        put("gen/part.in", "pub struct Part { pub a: u64 }");
        let decl = SourceLoc { file: "/p/src/../gen/part.in".into(), line: 1 };
        let all = sources(dir.path(), Some(&decl));
        let found = definition(dir.path(), &all, "m::Part", Some(&decl)).unwrap();
        assert_eq!(found, Path::new("gen/part.in"));
        let why = definition(dir.path(), &all, "m::State", None).unwrap_err().to_string();
        assert!(why.starts_with("src/main.rs: m::State: line 1 defines an enum"), "{why}");
    }
}
