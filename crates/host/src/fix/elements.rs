//! Uses of a member array whose elements become structs. Which `x->name` is that of the patched struct, gcc says: in a
//! copy the member has another name, and each of its uses is an error with its place.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::patch::spread;
use tussle_advise::patch::variable::MEMBER;
use tussle_advise::patch::{Refusal, Target};
use tussle_advise::relayout::{Relayout, RelayoutError};
use tussle_model::{TypeId, TypeTable};

use super::calls::Call;
use super::compile::Compiler;
use super::expanded::Text;
use super::sources::{Sources, normal};
use super::{FieldMove, FixError, PatchedFile};

/// Elements that are listed.
const ELEMENTS_MAX: u64 = 4096;

/// Asks gcc for places as bytes; those before version 11 count so anyway, and do not know the option.
const AS_BYTES: &str = "-fdiagnostics-column-unit=byte";

/// Files that such edits may change, beside the one with the struct.
pub(super) fn candidates(edits: &[Edit], sources: &Sources, file: &Path) -> Vec<PathBuf> {
    let fields: Vec<&str> = spread_fields(edits).collect();
    if fields.is_empty() {
        return Vec::new();
    }
    let uses = |p: &PathBuf| fields.iter().any(|f| !spread::accesses(sources.text(p), f).is_empty());
    sources.users(file).into_iter().filter(uses).collect()
}

fn spread_fields(edits: &[Edit]) -> impl Iterator<Item = &str> {
    edits.iter().filter_map(|e| if let Edit::Spread { field, .. } = e { Some(field.as_str()) } else { None })
}

/// Where the elements of the struct's spread arrays must lie.
pub(super) fn parted(
    table: &TypeTable,
    target: TypeId,
    relayout: &Relayout<'_>,
) -> Result<Vec<FieldMove>, RelayoutError> {
    let relaid = relayout.relaid(target)?;
    let mut out = Vec::new();
    for &(i, old, new) in &relaid.strides {
        let Some(member) = table.aggregate(target).and_then(|a| a.members.get(i)) else { continue };
        let (name, n) = (member.name.as_deref().unwrap_or(""), table.elements(member.ty).unwrap_or(0));
        let (before, after) = (member.offset(), relaid.offsets_bits[i] / 8);
        out.extend((0..n.min(ELEMENTS_MAX)).map(|k| FieldMove {
            path: format!("{name}[{k}].{MEMBER}"),
            before: before.saturating_add(k * old),
            after: after.saturating_add(k * new),
            size: old,
        }));
    }
    Ok(out)
}

/// Changes the uses of all arrays that the request spreads in `files`, the patched ones, and adds those that have none
/// but uses. The copy has the old texts.
pub(super) fn follow(
    compiler: &Compiler<'_>,
    (table, target): (&TypeTable, TypeId),
    files: &mut Vec<PatchedFile>,
) -> Result<(), FixError> {
    let members = super::members_with_lines(table, target);
    let (name, decl_line) = (compiler.request.type_name, super::decl_line(table, target));
    let goal = Target { name, decl_line, members: &members, pad_bytes: 0 };
    let Compiler { sources, file, root, .. } = *compiler;
    let calls = compiler.calls()?;
    Elements { sources, file, root, goal }.follow(compiler.request.edits, &calls, files)
}

/// Places of errors: path below the copy, 1-based line and column.
type Places = BTreeSet<(PathBuf, u32, usize)>;

/// The struct in a copy that still has the old texts.
struct Elements<'a> {
    sources: &'a Sources,
    /// The file that defines it.
    file: &'a Path,
    root: &'a Path,
    goal: Target<'a>,
}

impl Elements<'_> {
    fn follow(&self, edits: &[Edit], calls: &[Call], files: &mut Vec<PatchedFile>) -> Result<(), FixError> {
        for field in spread_fields(edits) {
            let own = self.own(field, calls)?;
            for (path, numbers) in own {
                if !files.iter().any(|f| f.path == path) {
                    let old = self.sources.text(&path).to_string();
                    files.push(PatchedFile { new: old.clone(), old, path: path.clone() });
                }
                let Some(file) = files.iter_mut().find(|f| f.path == path) else { continue };
                let uses = |text: &str| spread::accesses(text, field).len();
                if uses(&file.new) != uses(&file.old) {
                    let path = path.display();
                    return Err(unclear(format!("the other changes of {path} change uses of {field}")));
                }
                let shown = path.to_string_lossy();
                file.new = spread::rewrite(&shown, &file.new, field, &numbers).map_err(FixError::Use)?;
            }
        }
        files.retain(|f| f.old != f.new);
        Ok(())
    }

    /// Per file the uses of this struct's `field`, as numbers among all accesses to members of that name.
    fn own(&self, field: &str, calls: &[Call]) -> Result<BTreeMap<PathBuf, BTreeSet<usize>>, FixError> {
        if let Some(unit) = calls.iter().find(|c| c.is_cpp()).and_then(Call::source) {
            return Err(unclear(in_cpp(unit, field)));
        }
        let gcc: Option<Vec<Call>> = calls.iter().map(Call::with_gcc).collect();
        let gcc = gcc.filter(|c| !c.is_empty()).ok_or_else(|| {
            unclear(format!(
                "gcc says which uses of {field} are its: no unit is known that sees it, or no gcc"
            ))
        })?;
        if let Some(error) = self.ask(field, &gcc)?.0 {
            let why = format!("gcc does not take the sources as they are, nor say who uses {field}: {error}");
            return Err(unclear(why));
        }
        let path = self.root.join(self.file);
        let text = self.sources.text(self.file);
        let other = format!("tussle_other_{field}");
        let renamed = spread::renamed(text, &self.goal, field, &other).map_err(|refusal| {
            FixError::Refused { file: self.file.to_string_lossy().into_owned(), refusal }
        })?;
        let io = |source| FixError::Io { path: path.clone(), source };
        let write = |text: &str| std::fs::write(&path, text).map_err(io);
        write(&renamed)?;
        let asked = self.ask(field, &gcc);
        write(text)?;
        self.numbers(field, asked?.1, &gcc)
    }

    /// The first error that is none about the member, and the places of those that are.
    fn ask(&self, field: &str, calls: &[Call]) -> Result<(Option<String>, Places), FixError> {
        let flags = ["-w", "-fmax-errors=0", "-fno-diagnostics-show-caret"];
        let said = super::parallel(calls, |call| {
            let run = |flags: &[&str]| {
                let said = call.front_end(flags).map(|o| o.stderr).unwrap_or_default();
                String::from_utf8_lossy(&said).into_owned()
            };
            let text = run(&[&flags[..], &[AS_BYTES]].concat());
            if text.contains(AS_BYTES) { run(&flags) } else { text }
        });
        let missing = format!("has no member named '{field}'");
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.into());
        let (mut other, mut places) = (None, Places::new());
        for (call, text) in calls.iter().zip(&said) {
            for line in text.lines().filter(|l| l.contains(" error: ") || l.contains(": fatal error: ")) {
                if !line.contains(&missing) {
                    other.get_or_insert_with(|| line.to_string());
                    continue;
                }
                let mut parts = line.splitn(4, ':');
                let mut next = || parts.next().unwrap_or("");
                let (path, line, column) = (normal(&call.dir.join(next())), next().parse(), next().parse());
                let path = path.strip_prefix(self.root).or(path.strip_prefix(&root)).map(Path::to_path_buf);
                let (Ok(path), Ok(line), Ok(column)) = (path, line, column) else {
                    return Err(unclear(format!("{field} is used outside of the folder")));
                };
                places.insert((path, line, column));
            }
        }
        Ok((other, places))
    }

    /// Which accesses stand at `places`. All others must be of other structs: compiled, and no error.
    fn numbers(
        &self,
        field: &str,
        mut places: Places,
        calls: &[Call],
    ) -> Result<BTreeMap<PathBuf, BTreeSet<usize>>, FixError> {
        let texts = super::parallel(calls, |call| Text::of(call, self.root));
        let compiled: HashSet<(&Path, u32)> = texts
            .iter()
            .flat_map(|t| t.places_of(field))
            .map(|(file, line)| (Path::new(file), line))
            .collect();
        let mut out: BTreeMap<PathBuf, BTreeSet<usize>> = BTreeMap::new();
        for path in self.sources.users(self.file) {
            let text = self.sources.text(&path);
            let lines: Vec<usize> = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).collect();
            for (n, access) in spread::accesses(text, field).iter().enumerate() {
                // gcc names the point or the arrow, in initialisers the member.
                let at = [access.point, access.name].map(|byte| place(&path, &lines, byte));
                let line = at[1].1;
                if at.iter().filter(|at| places.remove(at)).count() > 0 {
                    out.entry(path.clone()).or_default().insert(n);
                } else if !compiled.contains(&(path.as_path(), line)) {
                    return Err(refusal(
                        &path,
                        line,
                        format!(
                            "no unit that is built compiles this use of a member {field}: whose it is cannot be told"
                        ),
                    ));
                }
            }
        }
        match places.first() {
            None => Ok(out),
            Some((path, line, _)) => Err(refusal(
                path,
                *line,
                format!("{field} is used by a macro, or for its offset, which cannot be followed"),
            )),
        }
    }
}

/// A byte as gcc tells its place; `lines` are where lines behind the first begin.
fn place(path: &Path, lines: &[usize], byte: usize) -> (PathBuf, u32, usize) {
    let before = lines.partition_point(|start| *start <= byte);
    let start = before.checked_sub(1).map_or(0, |n| lines[n]);
    (path.into(), before as u32 + 1, byte - start + 1)
}

/// Why no use in C++ is followed.
pub(super) fn in_cpp(unit: &str, field: &str) -> String {
    format!(
        "{unit} is C++: uses of an array's elements are followed in C only; wrap those of {field} by hand"
    )
}

fn unclear(why: String) -> FixError {
    FixError::Meaning(why)
}

fn refusal(path: &Path, line: u32, why: String) -> FixError {
    FixError::Use(Refusal::Variable { file: path.to_string_lossy().into_owned(), line, why })
}
