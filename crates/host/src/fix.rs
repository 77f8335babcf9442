//! Source patches that were compiled before anybody sees them.
//!
//! [`patch_tree`] works in scratch copies of a source folder: it reads the present layout from a build, edits the
//! source, builds again, and compares the offsets that the compiler chose with those that were predicted. Only then
//! is there a diff.

mod allocation;
pub mod bill;
mod calls;
pub(crate) mod compdb;
mod compile;
mod cplusplus;
mod diagnostics;
mod elements;
mod expanded;
pub(crate) mod farm;
mod foresight;
pub(crate) mod kernel;
mod made;
mod meaning;
mod place;
mod positions;
mod reach;
mod rust;
mod sources;
mod tools;
mod variable;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::edit::{self, EditError};
use tussle_advise::patch::alloc::Site;
use tussle_advise::patch::uses::Ask;
use tussle_advise::patch::{self, PatchedText, Refusal, Target};
use tussle_advise::relayout::{Relayout, RelayoutError, holder};
use tussle_evidence::threads::map as parallel;
use tussle_model::leaf::{Arrays, leaves};
use tussle_model::{MemberRole, SourceLoc, TypeId, TypeTable};

use crate::project::{ScratchError, Workshop};
pub use bill::view;
pub use compile::Build;
pub(crate) use compile::{DEPTH_MAX, elf_files};
pub use foresight::Foresight;
pub(crate) use reach::{changed_with, sources_compiled};
pub use rust::is_ordered;
use sources::Sources;
pub(crate) use sources::is_source;

/// Most leaf fields that are compared; beyond it only every struct's own size is.
const FIELDS_MAX: usize = 4096;

/// Pieces of advice tried until the source allows one.
const ATTEMPTS_MAX: usize = 6;

/// So many compilations as run at once, and the next ones: whoever finds a reason in the first asks no others.
fn by_turns(calls: &[calls::Call]) -> std::slice::Chunks<'_, calls::Call> {
    calls.chunks(crate::threads::cpus() as usize)
}

/// What to patch.
#[derive(Debug)]
pub struct Request<'a> {
    /// The source folder. It is only read.
    pub dir: &'a Path,
    /// `struct foo`, `foo`, `ns::Foo`, a typedef name.
    pub type_name: &'a str,
    /// Where the debug information says it is defined.
    pub decl: Option<&'a SourceLoc>,
    /// What to do, in this order.
    pub edits: &'a [Edit],
    /// How to build it.
    pub build: &'a Build,
    /// Others may know the layout; the user says that nobody needs it.
    pub abi_ok: bool,
    /// Recorded allocations that must give more alignment than today.
    pub sites: &'a [Site],
    /// A copy of the folder that is built already, to be patched and built again.
    pub workshop: Option<&'a Workshop>,
}

/// A field before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMove {
    /// Path of the leaf field.
    pub path: String,
    /// Offset in bytes before.
    pub before: u64,
    /// Offset in bytes after, as the compiler chose it.
    pub after: u64,
    /// Bytes.
    pub size: u64,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedFile {
    /// Relative to the folder.
    pub path: PathBuf,
    /// Text before.
    pub old: String,
    /// Text after.
    pub new: String,
}

/// A patch whose offsets are those of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The struct, as the source names it.
    pub type_name: String,
    /// What was done: moves of members, where `FIELD@OFFSET` was asked for.
    pub edits: Vec<Edit>,
    /// Unified diff with `a/` and `b/`, for `patch -p1` and `git apply`.
    pub diff: String,
    /// The files it changes.
    pub files: Vec<PatchedFile>,
    /// Every leaf field, in the old order.
    pub fields: Vec<FieldMove>,
    /// Bytes of the struct before.
    pub size_before: u64,
    /// Bytes of the struct after.
    pub size_after: u64,
    /// What a reviewer should know.
    pub notes: Vec<String>,
}

/// Why there is no patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixError {
    /// The source cannot be patched safely.
    #[error("{file}: {refusal}")]
    Refused {
        /// The file.
        file: String,
        /// Why.
        refusal: Refusal,
    },
    /// A use in any file of the folder; the refusal names it.
    #[error(transparent)]
    Use(Refusal),
    /// The edit does not fit the type.
    #[error(transparent)]
    Layout(#[from] RelayoutError),
    /// No source file below the folder defines the type.
    #[error(
        "no source below {dir} defines {name}: a macro or the build makes it, or another folder has it (fix --dir)"
    )]
    NoSource {
        /// The folder.
        dir: PathBuf,
        /// Type.
        name: String,
    },
    /// Several do.
    #[error("{name} is defined in {}; {what}", files.join(", "))]
    ManySources {
        /// Type.
        name: String,
        /// Relative paths.
        files: Vec<String>,
        /// What to do about it.
        what: &'static str,
    },
    /// The patch would write it anew.
    #[error("{file} is not UTF-8 and is not changed: convert it first (iconv -t utf-8)")]
    NotUtf8 {
        /// Relative path.
        file: String,
    },
    /// The build makes the file.
    #[error(
        "{file} is made by the build ({rule}): a patch of it is gone with the next one; patch what it is made from"
    )]
    Made {
        /// Relative path.
        file: String,
        /// Place of the rule.
        rule: String,
    },
    /// A file or folder could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No scratch copy.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The build failed.
    #[error("`{command}` failed{}:\n{tail}", if *patched { " with the patch" } else { "" })]
    BuildFailed {
        /// What was run.
        command: String,
        /// After patching.
        patched: bool,
        /// End of its output.
        tail: String,
    },
    /// Nothing that was built describes the type.
    #[error(
        "no debug information about {name} in what `{command}` built; build with -g, or give --compdb \
         compile_commands.json; where an older build lies in the folder, have everything built: --build 'make -B'"
    )]
    NoLayout {
        /// Type.
        name: String,
        /// What was run.
        command: String,
    },
    /// Nothing that cargo built describes the type.
    #[error(
        "no debug information about {name} in what `{command}` built; have that built which uses it, as in \
         --build 'cargo test --no-run' or --build 'cargo bench --no-run'"
    )]
    NoRustLayout {
        /// Type.
        name: String,
        /// What was run.
        command: String,
    },
    /// No object of a kernel that was compiled has the type.
    #[error(
        "none of {objects} describes {name}, as the kernel was configured for them: put a .config into the folder with \
         which its code is built"
    )]
    NoObject {
        /// Type.
        name: String,
        /// The objects that were made.
        objects: String,
    },
    /// The compilation database does not help.
    #[error("{path}: {what}")]
    Compdb {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The compiler placed a field elsewhere than predicted: nothing is printed.
    #[error("the compiler puts {field} at {actual}, predicted was {predicted}; no patch is made")]
    Mismatch {
        /// Field, or `the size`.
        field: String,
        /// Bytes.
        predicted: u64,
        /// Bytes.
        actual: u64,
    },
    /// Something in the program depends on the order of the members.
    #[error("{0}")]
    Meaning(String),
    /// The edits leave everything as it is.
    #[error("the edit changes nothing: {0}")]
    Nothing(String),
}

impl From<EditError> for FixError {
    fn from(e: EditError) -> FixError {
        FixError::Layout(e.into())
    }
}

/// Patches a copy of the folder, builds it, and compares offsets. Every command is told to `announce` before it runs.
pub fn patch_tree(request: &Request<'_>, announce: &mut dyn FnMut(&str)) -> Result<Patched, FixError> {
    match patched_tree(request, announce) {
        // What is run may have been built without such debug information.
        Err(FixError::NoLayout { .. } | FixError::NoRustLayout { .. }) if request.workshop.is_some() => {
            patched_tree(&Request { workshop: None, ..*request }, announce)
        }
        other => other,
    }
}

fn patched_tree(request: &Request<'_>, announce: &mut dyn FnMut(&str)) -> Result<Patched, FixError> {
    if rust::is_rust(request) {
        return rust::patch_tree(request, announce);
    }
    let sources = Sources::read(request.dir, request.type_name)?;
    let file = match sources.definition(request.dir, request.type_name, request.decl) {
        Err(FixError::NoSource { .. }) if rust::defines(request) => {
            return rust::patch_tree(request, announce);
        }
        Err(e @ FixError::NoSource { .. }) => {
            return variable::patch_tree(request, &sources, announce)?.ok_or(e);
        }
        found => found?,
    };
    if let Some(edits) = of_variable(request, sources.text(&file)) {
        return patched_tree(&Request { edits: &edits, ..*request }, announce);
    }
    uses(request, &sources, &file)?;
    let place = place::BuildCopy::new(request, &changing(request, &sources, &file))?;
    let compiler = compile::Compiler::new(request, &sources, &file, &place)?;
    let table = compiler.layout(false, announce)?;
    let target = compiler.target(&table).ok_or_else(|| compiler.no_layout())?;
    let shapes = Shapes::new(&table);
    let old = sources.text(&file);
    let edits = by_members(request, &shapes, target, &file, old)?;
    if edits != request.edits {
        uses(&Request { edits: &edits, ..*request }, &sources, &file)?;
    }
    let asked = request.edits;
    let request = &Request { edits: &edits, ..*request };
    let relayout = Relayout::new(&shapes, target, request.edits)?;
    places_kept(asked, target, &relayout)?;
    let mut patched = edited(request, target, &shapes, &file, old)?;
    let needs = allocation::Needs::of(request, &sources, &shapes, target, &relayout)?;
    let mut files = changed_files(request, &sources, &file, needs.as_ref(), &mut patched)?;
    if let Some(needs) = &needs {
        patched.notes.extend(needs.by_new(&sources, &compiler.calls()?)?);
    }
    let resized = relayout.relaid(target)?.size != table.size(target).unwrap_or(0);
    hidden_uses(request, &sources, &file, (&compiler, resized))?;
    let defined = place.path().join(&file);
    elements::follow(&compiler, (&table, target), &mut files)?;
    let meaning = meaning::Meaning {
        compiler: &compiler,
        relayout: &relayout,
        edits: &edits,
        target,
        place: &defined,
        text: old,
        aligns: needs.is_some(),
    };
    let before = meaning.before(announce)?;
    sources.can_write(&files)?;
    files.iter().try_for_each(|f| place.write(&f.path, &f.new))?;
    let after = compiler.layout(true, announce)?;
    before.compare()?;
    let found = compiler.target(&after).ok_or_else(|| compiler.no_layout())?;
    let fields = compare(&table, target, &relayout, &after, found)?;
    let diff = files.iter().map(|f| patch::unified_diff(&f.path.to_string_lossy(), &f.old, &f.new)).collect();
    Ok(Patched {
        type_name: request.type_name.into(),
        edits: request.edits.to_vec(),
        diff,
        size_before: table.size(target).unwrap_or(0),
        size_after: after.size(found).unwrap_or(0),
        files,
        fields,
        notes: patched.notes,
    })
}

/// Files that the patch may change.
fn changing(request: &Request<'_>, sources: &Sources, file: &Path) -> Vec<PathBuf> {
    let mut out = allocation::candidates(request, sources);
    out.push(file.to_path_buf());
    out.extend(elements::candidates(request.edits, sources, file));
    out
}

/// The edits of a variable whose struct has no name, where they align it by its own name: all of the type is meant.
fn of_variable(request: &Request<'_>, text: &str) -> Option<Vec<Edit>> {
    let name = patch::body::bare_name(request.type_name);
    let own = |e: &Edit| matches!(e, Edit::Align { field, .. } if field == name);
    let source = patch::body::Source::new(text);
    let body = patch::body::find(&source, name, None).ok()?;
    if !request.edits.iter().any(own) || body.typedef || body.tag.is_some() {
        return None;
    }
    let whole = |e: &Edit| match e {
        Edit::Align { field, bytes } if field == name => Edit::Element { bytes: *bytes },
        other => other.clone(),
    };
    Some(request.edits.iter().map(whole).collect())
}

/// Refuses when macros hide such uses, and when somebody counts on a size that changes.
fn hidden_uses(
    request: &Request<'_>,
    sources: &Sources,
    file: &Path,
    (compiler, resized): (&compile::Compiler<'_>, bool),
) -> Result<(), FixError> {
    if request.abi_ok {
        return Ok(());
    }
    if resized {
        sources.judge(request.type_name, file, Some(request.edits), Ask::SIZE).map_err(FixError::Use)?;
    }
    let edits = Some(request.edits);
    let (name, root) = (request.type_name, compiler.root);
    let hidden = expanded::Hidden { sources, name, file, edits, resized, root };
    hidden.check(&compiler.calls()?).map_err(FixError::Use)
}

/// Refuses when the sources show that the layout is known elsewhere, looked at, or counted on.
fn uses(request: &Request<'_>, sources: &Sources, file: &Path) -> Result<(), FixError> {
    let (name, reorders) = (request.type_name, meaning::reorders(request.edits));
    if !request.abi_ok {
        let shared = sources::builds_shared_library(request.dir);
        patch::boundary::check(name, &file.to_string_lossy(), shared).map_err(FixError::Use)?;
    }
    let ask = Ask { positions: reorders, layout: !request.abi_ok, size: false };
    sources.judge(name, file, Some(request.edits), ask).map_err(FixError::Use)
}

/// The edits as moves of single members: those that bring a field to a byte, and where a whole `#if` block moves, its
/// members.
fn by_members(
    request: &Request<'_>,
    shapes: &Shapes<'_>,
    target: TypeId,
    file: &Path,
    text: &str,
) -> Result<Vec<Edit>, FixError> {
    let left_out = |e: RelayoutError| elsewhere(e.into(), request, text);
    let edits = tussle_advise::order::ordered(shapes, target, request.edits).map_err(left_out)?;
    Relayout::new(shapes, target, &edits).map_err(left_out)?;
    let path = file.to_string_lossy().into_owned();
    let members = members_with_lines(shapes.table(), target);
    let decl_line = decl_line(shapes.table(), target);
    let goal = Target { name: request.type_name, decl_line, members: &members, pad_bytes: 0 };
    let patched = patch::patch(&path, text, &goal, &edits);
    patched.map(|p| p.edits).map_err(|refusal| FixError::Refused { file: path, refusal })
}

/// Refuses when a field that was asked for at a byte does not get there, because its whole `#if` block moves.
fn places_kept(asked: &[Edit], target: TypeId, relayout: &Relayout<'_>) -> Result<(), FixError> {
    let [.., Edit::Place { field, byte }] = asked else { return Ok(()) };
    let before = leaves(relayout.table(), target, Arrays::Whole);
    let dot = format!("{field}.");
    let Some(leaf) = before.iter().find(|l| l.path == *field || l.path.starts_with(&dot)) else {
        return Ok(());
    };
    match relayout.translate(target, leaf.offset)? {
        at if at == *byte => Ok(()),
        at => Err(FixError::Meaning(format!(
            "{field} moves with the whole #if block that it stands in, and comes to byte {at}, not to {byte}"
        ))),
    }
}

/// Line of the type's definition, if known.
fn decl_line(table: &TypeTable, target: TypeId) -> Option<u32> {
    table.aggregate(target).and_then(|a| a.decl.as_ref()).map(|d| d.line).filter(|l| *l > 0)
}

/// The error of a member that the source declares, and the configuration that was built does not.
fn elsewhere(error: FixError, request: &Request<'_>, text: &str) -> FixError {
    let FixError::Layout(RelayoutError::Edit(EditError::NoSuchField { ty, field, .. })) = &error else {
        return error;
    };
    match patch::left_out(text, request.type_name, field) {
        None => error,
        Some(line) => FixError::Meaning(format!(
            "{field} of {ty} stands at line {line} in an #if that this build leaves out: its place cannot be verified; \
             give a build that has it"
        )),
    }
}

/// The file with the struct and those with allocations; none is an error.
fn changed_files(
    request: &Request<'_>,
    sources: &Sources,
    file: &Path,
    needs: Option<&allocation::Needs>,
    patched: &mut PatchedText,
) -> Result<Vec<PatchedFile>, FixError> {
    let mut files = vec![(file.to_path_buf(), patched.text.clone())];
    if let Some(needs) = needs {
        let changed = needs.changes(request, sources, file, &patched.text)?;
        patched.notes.extend(needs.notes(&changed));
        for c in changed {
            match Path::new(&c.path) == file {
                true => files[0].1 = c.text,
                false => files.push((c.path.into(), c.text)),
            }
        }
    }
    let files: Vec<PatchedFile> = files
        .into_iter()
        .map(|(path, new)| PatchedFile { old: sources.text(&path).to_string(), new, path })
        .filter(|f| f.old != f.new)
        .collect();
    if files.is_empty() {
        let edits: Vec<String> = request.edits.iter().map(Edit::to_string).collect();
        return Err(FixError::Nothing(edits.join(" ")));
    }
    Ok(files)
}

/// The edited text of `file`.
fn edited(
    request: &Request<'_>,
    target: TypeId,
    shapes: &Shapes<'_>,
    file: &Path,
    old: &str,
) -> Result<PatchedText, FixError> {
    let table = shapes.table();
    let path = file.to_string_lossy().into_owned();
    let members = members_with_lines(table, target);
    let pad_bytes = pad_bytes(table, shapes, target, request.edits)?;
    let decl_line = decl_line(table, target);
    let goal = Target { name: request.type_name, decl_line, members: &members, pad_bytes };
    patch::patch(&path, old, &goal, request.edits)
        .map_err(|refusal| FixError::Refused { file: path, refusal })
}

/// Advice that became a patch, and what was refused before it.
#[derive(Debug)]
pub struct Chosen {
    /// Index into the list that was given.
    pub index: usize,
    /// Its patch.
    pub patched: Patched,
    /// Better advice that could not be turned into a patch, and why.
    pub refused: Vec<(usize, FixError)>,
}

/// Patches `dir` by the first advice of the list (in the order of [`tussle_advise::sort_best`]) that the source
/// allows. The error is that of the first one when none is possible.
pub fn patch_best(
    dir: &Path,
    advices: &[tussle_advise::Advice],
    build: &Build,
    abi_ok: bool,
    announce: &mut dyn FnMut(&str),
) -> Result<Option<Chosen>, FixError> {
    let mut refused = Vec::new();
    for (index, advice) in advices.iter().enumerate().take(ATTEMPTS_MAX) {
        let (type_name, decl) = (advice.type_name.as_str(), advice.decl.as_ref());
        let (edits, sites) = (&advice.edits, &advice.sites);
        let request = Request { dir, type_name, decl, edits, build, abi_ok, sites, workshop: None };
        match patch_tree(&request, announce) {
            Ok(patched) => return Ok(Some(Chosen { index, patched, refused })),
            // Without the patch it does not build: nor will it with another one.
            Err(e @ FixError::BuildFailed { patched: false, .. }) => return Err(e),
            // Every other patch would be refused for the same reason.
            Err(e @ FixError::Use(Refusal::LeavesProcess { .. })) => return Err(e),
            Err(e) => refused.push((index, e)),
        }
    }
    match refused.into_iter().next() {
        Some((_, first)) => Err(first),
        None => Ok(None),
    }
}

/// Writes the patched files into the folder. Refuses if a file changed since it was read.
pub fn apply(dir: &Path, patched: &Patched) -> Result<(), FixError> {
    for file in &patched.files {
        let path = dir.join(&file.path);
        let io = |source| FixError::Io { path: path.clone(), source };
        let now = std::fs::read_to_string(&path).map_err(io)?;
        if now != file.old {
            let source = std::io::Error::other("changed while the patch was made; run fix again");
            return Err(FixError::Io { path, source });
        }
        // Write beside it and rename: a full disk must not leave half a source file.
        let beside = path.with_extension("tussle-new");
        std::fs::write(&beside, &file.new).map_err(io)?;
        if let Ok(meta) = std::fs::metadata(&path) {
            let _ = std::fs::set_permissions(&beside, meta.permissions());
        }
        std::fs::rename(&beside, &path).map_err(io)?;
    }
    Ok(())
}

/// A name as it is written inside of the file: `app::Item` of `app::(anonymous namespace)::Item`.
fn without_unnamed(name: &str) -> String {
    name.replace("(anonymous namespace)::", "")
}

/// Members of the type and of the anonymous structs inside it, with their lines.
fn members_with_lines(table: &TypeTable, id: TypeId) -> Vec<(String, u32)> {
    let mut out = Vec::new();
    let mut todo = vec![(id, 0)];
    while let Some((id, depth)) = todo.pop() {
        let Some(a) = table.aggregate(id) else { continue };
        for m in a.members.iter().filter(|m| m.role == MemberRole::Field) {
            match &m.name {
                Some(name) => out.push((name.clone(), m.decl_line)),
                None if depth < 16 => todo.push((table.strip(m.ty), depth + 1)),
                None => {}
            }
        }
    }
    out
}

/// Bytes that `pad=N` appends, after the edits before it.
fn pad_bytes(
    table: &TypeTable,
    shapes: &Shapes<'_>,
    target: TypeId,
    edits: &[Edit],
) -> Result<u64, FixError> {
    let Some(at) = edits.iter().position(|e| matches!(e, Edit::Pad { .. })) else { return Ok(0) };
    let (Some(a), Edit::Pad { bytes }) = (table.aggregate(target), &edits[at]) else { return Ok(0) };
    let mut own = Vec::new();
    for e in &edits[..at] {
        if holder(table, target, e)? == table.strip(target) {
            own.push(e.clone());
        }
    }
    let shape = shapes.shape(target).map_err(RelayoutError::from)?;
    let edited = edit::apply(a, &shape, &own)?;
    Ok(edit::pad_bytes(&edited.placed, *bytes))
}

/// Holds the compiler's offsets against the predicted ones.
fn compare(
    old: &TypeTable,
    target: TypeId,
    relayout: &Relayout<'_>,
    new: &TypeTable,
    found: TypeId,
) -> Result<Vec<FieldMove>, FixError> {
    let size = relayout.size(target)?.unwrap_or(0);
    let actual = new.size(found).unwrap_or(0);
    if size != actual {
        return Err(FixError::Mismatch { field: "the end".into(), predicted: size, actual });
    }
    let by_path = |table: &TypeTable, id| -> HashMap<String, u64> {
        leaves(table, id, Arrays::Whole).into_iter().rev().map(|l| (l.path, l.offset)).collect()
    };
    let (after, expected) = (by_path(new, found), by_path(&relayout.after()?, target));
    let mut out = Vec::new();
    for leaf in leaves(old, target, Arrays::Whole).into_iter().take(FIELDS_MAX) {
        // Unnamed bit-fields have no path to compare.
        let (Some(&predicted), Some(&actual)) = (expected.get(&leaf.path), after.get(&leaf.path)) else {
            continue;
        };
        // Bit-fields may begin inside a byte of their neighbour.
        if predicted != actual && leaf.bits.is_none() && !leaf.overlaps {
            return Err(FixError::Mismatch { field: leaf.path, predicted, actual });
        }
        out.push(FieldMove { path: leaf.path, before: leaf.offset, after: actual, size: leaf.size });
    }
    for element in elements::parted(old, target, relayout)?.into_iter().take(FIELDS_MAX) {
        match after.get(&element.path) {
            Some(&actual) if actual == element.after => out.push(element),
            actual => {
                let (predicted, actual) = (element.after, actual.copied().unwrap_or(0));
                return Err(FixError::Mismatch { field: element.path, predicted, actual });
            }
        }
    }
    Ok(out)
}
