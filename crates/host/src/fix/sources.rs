//! The C and C++ sources below a folder.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::patch::body::{Body, Source, bare_name, bodies, may_define};
use tussle_advise::patch::files::is_module;
use tussle_advise::patch::uses::{Ask, Uses};
use tussle_advise::patch::{Refusal, scope};
use tussle_model::SourceLoc;

use super::calls::{is_cpp, is_unit};
use super::{FixError, PatchedFile};

/// Source files above this are not looked at.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Texts that are kept whatever they say; in larger trees only those that mention the type.
const KEPT_BYTES_MAX: u64 = 64 << 20;

const EXTENSIONS: [&str; 17] =
    ["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "C", "H", "inc", "inl", "ipp", "tcc", "S", "s", "asm"];

/// One source.
#[derive(Debug)]
struct File {
    /// Empty when the tree is large and it does not mention the type.
    text: String,
    /// Names of the files that it includes, without their folders.
    includes: Vec<Box<str>>,
    /// Else every byte was taken for a letter (Latin-1), which is enough to read by, and not to write.
    is_utf8: bool,
}

/// An index of the sources: paths relative to the folder, who includes whom, and the texts that count.
#[derive(Debug, Default)]
pub(super) struct Sources {
    files: BTreeMap<PathBuf, File>,
    /// Paths and texts of what is written in assembly. A kernel's takes offsets from the compiler, and is not kept.
    assembly: Vec<(String, String)>,
    /// Paths and texts of what declares structs of C in other languages.
    mirrors: Vec<(String, String)>,
}

impl Sources {
    /// Looks into every source that is text, for what mentions `type_name`.
    pub(super) fn read(dir: &Path, type_name: &str) -> Result<Sources, FixError> {
        std::fs::metadata(dir).map_err(|source| FixError::Io { path: dir.into(), source })?;
        let (mut paths, mut total) = (Vec::new(), 0);
        collect(dir, Path::new(""), (24, &is_source), &mut paths, &mut total);
        let wanted = memchr::memmem::Finder::new(bare_name(type_name));
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(dir.join(path)).ok()?;
            let keep = total <= KEPT_BYTES_MAX || wanted.find(&bytes).is_some();
            let (text, is_utf8) = match String::from_utf8(bytes) {
                Ok(text) => (text, true),
                Err(e) if e.as_bytes().contains(&0) => return None,
                Err(e) => (e.into_bytes().into_iter().map(char::from).collect(), false),
            };
            let includes = included(&text).map(Box::from).collect();
            Some(File { text: if keep { text } else { String::new() }, includes, is_utf8 })
        };
        let written = |p: &PathBuf| matches!(extension(p), "S" | "s" | "asm");
        let (assembly, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(written);
        let assembly = if is_kernel(dir) { Vec::new() } else { assembly };
        let text = |p: PathBuf| {
            let text = std::fs::read_to_string(dir.join(&p)).ok()?;
            // What a compiler left says so.
            (!text.contains("\t.ident\t")).then(|| (p.to_string_lossy().into_owned(), text))
        };
        let assembly = assembly.into_iter().filter_map(text).collect();
        let files = super::parallel(&paths, read);
        Ok(Sources {
            assembly,
            mirrors: mirrors(dir),
            files: paths.into_iter().zip(files).filter_map(|(p, f)| Some((p, f?))).collect(),
        })
    }

    /// Text of a file, empty if it is not among the sources.
    pub(super) fn text(&self, path: &Path) -> &str {
        self.files.get(path).map_or("", |f| f.text.as_str())
    }

    /// Refuses when a patch would have to write what is not UTF-8.
    pub(super) fn can_write(&self, files: &[PatchedFile]) -> Result<(), FixError> {
        let other = |f: &&PatchedFile| self.files.get(&f.path).is_some_and(|known| !known.is_utf8);
        match files.iter().find(other) {
            Some(f) => Err(FixError::NotUtf8 { file: f.path.display().to_string() }),
            None => Ok(()),
        }
    }

    /// Paths and texts of all that are kept.
    pub(super) fn texts(&self) -> Vec<(&str, &str)> {
        let kept = self.files.iter().filter(|(_, f)| !f.text.is_empty());
        kept.filter_map(|(p, f)| Some((p.to_str()?, f.text.as_str()))).collect()
    }

    /// Paths and texts of those that mean the type `name` as `file` defines it: where others define it, too, a source
    /// means the definition whose folder is nearest to its own.
    pub(super) fn texts_of(&self, name: &str, file: &Path) -> Vec<(&str, &str)> {
        let rivals = self.definitions(name);
        let texts = self.texts();
        if rivals.len() < 2 {
            return texts;
        }
        let near = |path: &Path, other: &Path| {
            let folder = other.parent().unwrap_or(Path::new(""));
            path.components().zip(folder.components()).take_while(|(a, b)| a == b).count()
        };
        let private =
            |path: &Path| is_unit(&path.to_string_lossy()) && scope::keeps_to_itself(self.text(path), name);
        let apart: Vec<&Path> = rivals.iter().copied().filter(|r| *r != file && private(r)).collect();
        let means = |path: &Path| {
            if apart.contains(&path) {
                return false;
            }
            let own = near(path, file);
            // The rival in a source's own folder wins over one that is as near but elsewhere.
            let beside = |r: &Path| r.parent() == path.parent();
            path == file
                || !rivals.iter().any(|r| *r != file && (near(path, r) > own || (beside(r) && !beside(file))))
        };
        texts.into_iter().filter(|(p, _)| means(Path::new(p))).collect()
    }

    /// Every file that defines a type of this name.
    fn definitions(&self, name: &str) -> Vec<&Path> {
        let bare = bare_name(name);
        let all = self.files.iter().filter(|(_, f)| defines(&f.text, bare));
        all.map(|(p, _)| p.as_path()).collect()
    }

    /// Whether C sees `file`: of what only C++ units see, the compiler's syntax tree tells.
    fn is_seen_by_c(&self, file: &Path) -> bool {
        let users = self.users(file);
        let units: Vec<&PathBuf> = users.iter().filter(|p| is_unit(&p.to_string_lossy())).collect();
        !is_cpp(file) && (units.is_empty() || !units.iter().all(|u| is_cpp(u)))
    }

    /// Asks every source for uses of the type that another layout changes; with `edits`, for those that count on the
    /// present order, too.
    pub(super) fn judge(
        &self,
        name: &str,
        file: &Path,
        edits: Option<&[Edit]>,
        ask: Ask,
    ) -> Result<(), Refusal> {
        let texts = self.texts_of(name, file);
        let uses = Uses::new(name, edits, &texts);
        let c = ask.positions && self.is_seen_by_c(file);
        let found = super::parallel(&texts, |(path, text)| {
            let positions = c && !is_cpp(Path::new(path));
            uses.of_file(path, text, Ask { positions, ..ask })
        });
        Uses::judge(found)?;
        let assembly: Vec<(&str, &str)> =
            self.assembly.iter().map(|a| (a.0.as_str(), a.1.as_str())).collect();
        if !ask.layout {
            return Ok(());
        }
        tussle_advise::patch::mirror::check(name, edits, &texts, &self.mirrors)?;
        tussle_advise::patch::assembly::check(name, &texts, &assembly)
    }

    /// Translation units: first those that include a file named like `file`, then those that do so through others.
    pub(super) fn units_for(&self, file: &Path) -> Vec<PathBuf> {
        let is_unit =
            |p: &Path| matches!(extension(p), "c" | "cc" | "cpp" | "cxx" | "C") || is_module(extension(p));
        if is_unit(file) {
            return vec![file.to_path_buf()];
        }
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let units = self.files.iter().filter(|(p, _)| is_unit(p));
        let direct = |f: &File| f.includes.iter().any(|i| **i == *name);
        let (direct, others): (Vec<_>, Vec<_>) = units.partition(|(_, f)| direct(f));
        let users = self.users(file);
        let (users, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|(p, _)| users.contains(*p));
        direct.into_iter().chain(users).chain(others).map(|(p, _)| p.clone()).collect()
    }

    /// The file and everything that includes it, directly or through others, as far as the names of files tell.
    pub(super) fn users(&self, file: &Path) -> BTreeSet<PathBuf> {
        let all: Vec<(&PathBuf, &File)> = self.files.iter().collect();
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, (_, file)) in all.iter().enumerate() {
            for name in &file.includes {
                by_name.entry(name).or_default().push(i);
            }
        }
        let mut known = vec![false; all.len()];
        let mut todo = vec![file];
        while let Some(path) = todo.pop() {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            // Whoever includes a file of this name is not asked for twice.
            for user in by_name.remove(name).into_iter().flatten() {
                if !std::mem::replace(&mut known[user], true) {
                    todo.push(all[user].0);
                }
            }
        }
        let users = all.iter().zip(known).filter(|(_, known)| *known).map(|(f, _)| f.0.clone());
        users.chain([file.to_path_buf()]).collect()
    }

    /// The file that defines `name`: the one that the debug information names if it is here, else the only one. Not one
    /// that the build makes.
    pub(super) fn definition(
        &self,
        dir: &Path,
        name: &str,
        decl: Option<&SourceLoc>,
    ) -> Result<PathBuf, FixError> {
        let file = self.defining(dir, name, decl)?;
        match super::made::rule(dir, &file) {
            Some(rule) => Err(FixError::Made { file: file.display().to_string(), rule }),
            None => Ok(file),
        }
    }

    fn defining(&self, dir: &Path, name: &str, decl: Option<&SourceLoc>) -> Result<PathBuf, FixError> {
        let bare = bare_name(name);
        if let Some(path) =
            decl.and_then(|d| self.resolve(dir, &d.file)).filter(|p| defines(self.text(p), bare))
        {
            return match self.copies(dir, name, &path) {
                copies if copies.is_empty() => Ok(path),
                copies => Err(FixError::ManySources {
                    name: name.into(),
                    files: [path.as_path()]
                        .into_iter()
                        .chain(copies)
                        .map(|p| p.display().to_string())
                        .collect(),
                    what: ONE_TYPE,
                }),
            };
        }
        let found: Vec<&PathBuf> =
            self.files.iter().filter(|(_, f)| defines(&f.text, bare)).map(|(p, _)| p).collect();
        let found = scope::deepest(found, |p| depth_in(self.text(p), name));
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            // Tools and tests of a kernel copy its headers, and drivers have structs of the core's names.
            many if in_kernel(many, is_kernel(dir)).is_some() => {
                Ok(in_kernel(many, is_kernel(dir)).cloned().unwrap_or_default())
            }
            [] => Err(FixError::NoSource { dir: dir.into(), name: name.into() }),
            many => Err(FixError::ManySources {
                name: name.into(),
                files: many.iter().map(|p| p.display().to_string()).collect(),
                what: self.rivals(name, many),
            }),
        }
    }

    /// Files of the program that define the same members once more under that name, and that others see: what is
    /// declared in one of them may be the type of `file`.
    fn copies(&self, dir: &Path, name: &str, file: &Path) -> Vec<&Path> {
        if is_kernel(dir) {
            return Vec::new();
        }
        // Of copies of one header the units see the nearest: a copy beside which no unit lies is nobody's.
        let other = |p: &Path| p != file && (p.file_name() != file.file_name() || self.has_unit_beside(p));
        let seen = |p: &Path| self.users(p).iter().any(|u| !scope::keeps_to_itself(self.text(u), name));
        let mut rivals = self.definitions(name);
        rivals.retain(|p| other(p));
        if rivals.is_empty() {
            return rivals;
        }
        let own = self.members(file, name);
        rivals.retain(|p| self.members(p, name) == own && seen(p));
        rivals
    }

    /// Names and types of the members as a file defines them.
    fn members(&self, file: &Path, name: &str) -> Vec<(String, String)> {
        tussle_advise::patch::neighbours::names_and_types(&file.to_string_lossy(), self.text(file), name)
    }

    /// A unit in the same folder includes the header.
    fn has_unit_beside(&self, header: &Path) -> bool {
        let name = header.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let beside = self.files.iter().filter(|(p, _)| p.parent() == header.parent());
        beside
            .filter(|(p, _)| is_unit(&p.to_string_lossy()))
            .any(|(_, f)| f.includes.iter().any(|i| **i == *name))
    }

    /// What several definitions ask for. Those with the same members may be one type, whose units must agree.
    fn rivals(&self, name: &str, files: &[&PathBuf]) -> &'static str {
        let mut all = files.iter().map(|p| self.members(p, name));
        let first = all.next().unwrap_or_default();
        if all.any(|m| m == first) {
            return ONE_TYPE;
        }
        "they differ: name one of them with --in, or the folder that holds only one with --dir"
    }

    /// A path of debug information as one of ours: below the folder, or by its longest matching tail (it may have been
    /// built in a copy).
    fn resolve(&self, dir: &Path, file: &str) -> Option<PathBuf> {
        let file = normal(Path::new(file));
        let below = dir.canonicalize().ok().and_then(|d| file.strip_prefix(d).ok().map(Path::to_path_buf));
        if let Some(path) = below.filter(|p| self.files.contains_key(p)) {
            return Some(path);
        }
        let parts: Vec<Component<'_>> =
            file.components().filter(|c| matches!(c, Component::Normal(_))).collect();
        (0..parts.len()).map(|n| parts[n..].iter().collect::<PathBuf>()).find(|p| self.files.contains_key(p))
    }
}

/// What several definitions with the same members ask for.
const ONE_TYPE: &str =
    "where these are one type, every unit must see the same one: put it into a header that all include";

/// Whether `text` defines the type `bare`. Most texts only mention it, and are not cut into tokens.
fn defines(text: &str, bare: &str) -> bool {
    may_define(text, bare) && bodies(&Source::new(text)).iter().any(|b| is_called(b, bare))
}

fn is_called(body: &Body, bare: &str) -> bool {
    body.tag.as_deref() == Some(bare) || body.aliases.iter().any(|a| a == bare)
}

/// How many of the namespaces and classes of `name` are seen around a definition in `text`; `None` where others are.
fn depth_in(text: &str, name: &str) -> Option<usize> {
    let (source, bare) = (Source::new(text), bare_name(name));
    let all = bodies(&source);
    let own = all.iter().filter(|b| is_called(b, bare));
    own.filter_map(|b| scope::depth(&source, b, name)).max()
}

/// Folders of a kernel's core.
const CORE: [&str; 6] = ["kernel", "mm", "fs", "block", "lib", "net/core"];

/// The only one of the files that a kernel is built from: in `include/linux`; else, where the tree `is_kernel`, in its
/// core, in its other headers, anywhere but among its tools.
fn in_kernel<'p>(files: &[&'p PathBuf], is_kernel: bool) -> Option<&'p PathBuf> {
    let foreign =
        |p: &Path| ["tools", "scripts", "samples", "Documentation"].iter().any(|d| p.starts_with(d));
    let below = |folders: &[&str]| -> Vec<&'p PathBuf> {
        let own = files.iter().filter(|p| !foreign(p) && folders.iter().any(|f| p.starts_with(f)));
        own.copied().collect()
    };
    let places: [&[&str]; 4] = [&["include/linux"], &CORE, &["include"], &[""]];
    let tried = if is_kernel { &places[..] } else { &places[..1] };
    let found = tried.iter().map(|p| below(p)).find(|f| !f.is_empty()).unwrap_or_default();
    match found[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Whether the folder is a Linux tree.
fn is_kernel(dir: &Path) -> bool {
    dir.join("Kbuild").is_file() && dir.join("Kconfig").is_file()
}

/// Whether a build file at the top of the folder makes a shared library. A kernel makes one for user programs (the
/// vDSO), but its headers are its own; what is not stands under `uapi`.
pub(super) fn builds_shared_library(dir: &Path) -> bool {
    let files = [
        "CMakeLists.txt",
        "Makefile",
        "GNUmakefile",
        "makefile",
        "Makefile.am",
        "Makefile.in",
        "meson.build",
    ];
    let text = |name: &&str| std::fs::read_to_string(dir.join(name)).ok();
    !is_kernel(dir)
        && files.iter().filter_map(text).any(|t| tussle_advise::patch::boundary::builds_shared_library(&t))
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or("")
}

pub(crate) fn is_source(path: &Path) -> bool {
    EXTENSIONS.contains(&extension(path)) || is_module(extension(path))
}

/// Paths and texts of sources in other languages that declare structs of C.
fn mirrors(dir: &Path) -> Vec<(String, String)> {
    let (mut paths, mut total) = (Vec::new(), 0);
    let other = |p: &Path| matches!(extension(p), "py" | "rs") && !p.starts_with("target");
    if is_kernel(dir) {
        return Vec::new();
    }
    collect(dir, Path::new(""), (24, &other), &mut paths, &mut total);
    let read = |p: &PathBuf| {
        let text = std::fs::read_to_string(dir.join(p)).ok()?;
        let path = p.to_string_lossy().into_owned();
        tussle_advise::patch::mirror::may_declare(&path, &text).then_some((path, text))
    };
    super::parallel(&paths, read).into_iter().flatten().collect()
}

/// Paths of those below `dir` that are wanted, and their bytes.
fn collect(
    dir: &Path,
    relative: &Path,
    (depth, wanted): (usize, &dyn Fn(&Path) -> bool),
    out: &mut Vec<PathBuf>,
    total: &mut u64,
) {
    let Ok(entries) = std::fs::read_dir(dir.join(relative)) else { return };
    for entry in entries.flatten() {
        let path = relative.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 && !entry.file_name().to_string_lossy().starts_with('.') {
            collect(dir, &path, (depth - 1, wanted), out, total);
        } else if kind.is_file() && wanted(&path) {
            let size = entry.metadata().map_or(u64::MAX, |m| m.len());
            if size <= FILE_BYTES_MAX {
                *total += size;
                out.push(path);
            }
        }
    }
}

/// Stands for a name that only the preprocessor knows (`#include NAME`).
pub(super) const COMPUTED: &str = "*";

/// Last parts of the paths that `text` includes.
fn included(text: &str) -> impl Iterator<Item = &str> {
    memchr::memmem::find_iter(text.as_bytes(), "include").filter_map(|at| {
        let blank = |c: char| c.is_whitespace() && c != '\n';
        let before = text.get(..at)?.trim_end_matches(blank).strip_suffix('#')?.trim_end_matches(blank);
        let rest = text.get(at + "include".len()..)?.trim_start_matches(blank);
        let first = before.is_empty() || before.ends_with('\n');
        let Some(path) = rest.strip_prefix(['"', '<']) else {
            return first.then_some(COMPUTED);
        };
        let path = path.split(['"', '>', '\n']).next()?;
        first.then(|| path.rsplit('/').next())?
    })
}

/// Without `.` and `..`, as far as that can be told from the text.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf8_is_read_and_not_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.h"), b"/* caf\xe9 */\nstruct s { long a; long b; };\n").unwrap();
        std::fs::write(
            dir.path().join("b.c"),
            b"/* \xe9 */\nvoid f(struct s *p) { fwrite(p, sizeof *p, 1, o); }\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("c.h"), b"\xff\xd8\0\0 struct s {").unwrap();
        let sources = Sources::read(dir.path(), "s").unwrap();
        let file = sources.definition(dir.path(), "s", None).unwrap();
        assert_eq!(file, Path::new("a.h"));
        let edits = ["align:b=64".parse().unwrap()];
        let why = sources.judge("s", &file, Some(&edits), Ask::LAYOUT).unwrap_err().to_string();
        assert!(why.contains("b.c:2: fwrite()"), "{why}");
        let changed = PatchedFile { path: file, old: String::new(), new: "x".into() };
        let why = sources.can_write(&[changed]).unwrap_err().to_string();
        assert!(why.starts_with("a.h is not UTF-8"), "{why}");
    }

    #[test]
    fn files_that_a_text_includes() {
        let text = "#include <a/b.h>\n  #  include \"c.h\"\n// #include \"no.h\"\nint include;\n\
                    int f; #include <no.h>\n#include M\n";
        assert_eq!(included(text).collect::<Vec<_>>(), ["b.h", "c.h", COMPUTED]);
    }

    #[test]
    fn a_kernels_own_struct_is_meant_and_not_a_drivers() {
        let check = |files: &[&str], is_kernel, expect: Option<&str>| {
            let paths: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            let all: Vec<&PathBuf> = paths.iter().collect();
            assert_eq!(in_kernel(&all, is_kernel), expect.map(PathBuf::from).as_ref(), "{files:?}");
        };
        let rq = ["drivers/vfio/pci/cmd.h", "include/net/mana/gdma.h", "kernel/sched/sched.h"];
        check(&rq, true, Some("kernel/sched/sched.h"));
        check(&rq, false, None);
        check(
            &["include/linux/fs.h", "tools/include/linux/fs.h", "fs/x.h"],
            true,
            Some("include/linux/fs.h"),
        );
        check(&["fs/ext4/a.h", "fs/jfs/a.h", "drivers/a.h"], true, None);
        check(
            &["include/net/sock.h", "tools/testing/a.c", "tools/testing/b.c"],
            true,
            Some("include/net/sock.h"),
        );
        check(&["include/linux/a.h", "include/linux/b.h", "mm/a.h"], true, None);
    }
}
