//! `compile_commands.json`: how each file was compiled.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::FixError;
use super::sources::normal;

/// Databases above this are not read.
const BYTES_MAX: u64 = 512 << 20;

/// One compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it ran.
    pub(crate) directory: PathBuf,
    /// What was compiled, absolute.
    pub(crate) file: PathBuf,
    /// Compiler and arguments, without output and dependency files.
    pub(crate) arguments: Vec<String>,
}

impl Entry {
    /// The same below `to` instead of `from`.
    pub(crate) fn moved(&self, from: &Path, to: &Path) -> Entry {
        let path = |p: &Path| {
            let p = normal(p);
            p.strip_prefix(from).map_or(p.clone(), |rest| to.join(rest))
        };
        let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
        Entry {
            directory: path(&self.directory),
            file: path(&self.file),
            arguments: self.arguments.iter().map(|a| moved(a, &from, &to)).collect(),
        }
    }

    /// As a database has it.
    pub(crate) fn row(&self) -> Value {
        serde_json::json!({
            "directory": self.directory.to_string_lossy(),
            "file": self.file.to_string_lossy(),
            "arguments": self.arguments,
        })
    }
}

/// A word of a command with the path `to` wherever it has `from`, and not in the middle of other paths.
pub(crate) fn moved(word: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(from).filter(|_| from.len() > 1) {
        let (before, behind) = (&rest[..at], &rest[at + from.len()..]);
        out += before;
        let whole = begins_path(&out) && (behind.is_empty() || behind.starts_with(ENDS));
        out += if whole { to } else { from };
        rest = behind;
    }
    out + rest
}

/// What separates a path from what stands beside it in a word.
const ENDS: [char; 10] = ['/', '"', '\'', '\\', '=', ':', ',', ';', ' ', ')'];

/// Behind `text` a path may begin: behind a separator, or behind an option that it belongs to.
fn begins_path(text: &str) -> bool {
    const OPTIONS: [&str; 12] = [
        "-I",
        "-L",
        "-B",
        "-F",
        "-isystem",
        "-iquote",
        "-include",
        "-imacros",
        "-idirafter",
        "-isysroot",
        "@",
        "-iprefix",
    ];
    let last = text.rsplit(&ENDS[1..]).next().unwrap_or("");
    last.is_empty() || OPTIONS.contains(&last)
}

/// The database at `path` as one of `dir`. One that was made for the same files at another place, before a checkout
/// was moved or copied, is read as if it had been made here.
///
/// # Errors
/// It cannot be read, or speaks of another folder: its sources are not those that somebody asks about.
pub(crate) fn of_folder(path: &Path, dir: &Path) -> Result<Vec<Entry>, FixError> {
    let entries = read(path)?;
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    match root(&entries, &dir) {
        Some(root) if root == dir => Ok(entries),
        Some(root) => Ok(entries.iter().map(|e| e.moved(&root, &dir)).collect()),
        None => Err(FixError::Compdb {
            path: path.into(),
            what: format!(
                "it was made for {} and names no file of {}: make it anew (bear -- make, or cmake's \
                 CMAKE_EXPORT_COMPILE_COMMANDS), or say with --build how the folder is built",
                common(&entries).display(),
                dir.display()
            ),
        }),
    }
}

/// What a database calls the folder `dir`.
fn root(entries: &[Entry], dir: &Path) -> Option<PathBuf> {
    let files: Vec<PathBuf> = entries.iter().map(|e| normal(&e.file)).collect();
    if files.iter().any(|f| f.starts_with(dir)) || files.is_empty() {
        return Some(dir.into());
    }
    // Reached by a link.
    let is_dir = |p: &&Path| p.canonicalize().is_ok_and(|real| real == dir);
    let linked = files.iter().find_map(|f| f.ancestors().find(is_dir));
    if linked.is_some() {
        return linked.map(Path::to_path_buf);
    }
    let here = |file: &PathBuf, root: &Path| file.strip_prefix(root).is_ok_and(|f| dir.join(f).is_file());
    let fits = |root: &&Path| {
        let inside = entries.iter().all(|e| normal(&e.directory).starts_with(root));
        inside && files.iter().all(|f| here(f, root))
    };
    // The outermost: names alone say little.
    let roots: Vec<&Path> = files[0].ancestors().skip(1).collect();
    roots.into_iter().rev().find(fits).map(Path::to_path_buf)
}

/// The innermost folder of all files.
fn common(entries: &[Entry]) -> PathBuf {
    let mut files = entries.iter().map(|e| normal(&e.file));
    let first = files.next().and_then(|f| f.parent().map(Path::to_path_buf)).unwrap_or_default();
    files.fold(first, |folder, file| {
        folder.ancestors().find(|a| file.starts_with(a)).map(Path::to_path_buf).unwrap_or_default()
    })
}

/// Reads the database at `path`.
fn read(path: &Path) -> Result<Vec<Entry>, FixError> {
    let io = |source| FixError::Io { path: path.into(), source };
    if std::fs::metadata(path).map_err(io)?.len() > BYTES_MAX {
        return Err(FixError::Compdb { path: path.into(), what: "is larger than 512 MiB".into() });
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|e| FixError::Compdb { path: path.into(), what: format!("is not JSON: {e}") })?;
    let rows = value.as_array().ok_or_else(|| FixError::Compdb {
        path: path.into(),
        what: "is not a compilation database (a JSON array of objects)".into(),
    })?;
    let beside = path.parent().unwrap_or(Path::new("."));
    Ok(rows.iter().filter_map(|row| entry(row, beside)).collect())
}

fn entry(row: &Value, beside: &Path) -> Option<Entry> {
    let directory = beside.join(row.get("directory")?.as_str()?);
    let file = directory.join(row.get("file")?.as_str()?);
    let words = match row.get("arguments").and_then(Value::as_array) {
        Some(list) => list.iter().filter_map(|a| a.as_str().map(str::to_string)).collect(),
        None => split(row.get("command")?.as_str()?),
    };
    let arguments = without_outputs(words);
    (!arguments.is_empty()).then_some(Entry { directory, file, arguments })
}

/// Drops `-o FILE`, `-c` and what writes dependency files.
pub(super) fn without_outputs(words: Vec<String>) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" | "-MF" | "-MT" | "-MQ" => {
                words.next();
            }
            "-c" | "-MD" | "-MMD" | "-MP" | "-M" | "-MM" => {}
            w if w.starts_with("-MF")
                || (w.starts_with("-o") && w.len() > 2 && !w.starts_with("-object")) => {}
            w if w.starts_with("-Wp,-M") || w.starts_with("-gsplit-dwarf") => {}
            w if crate::cc::says_little(w) => {}
            _ => out.push(word),
        }
    }
    out
}

/// Words of a POSIX shell command without expansions: blanks separate, quotes and backslashes keep together.
pub(super) fn split(command: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', Some('"')) if matches!(chars.peek(), Some('"' | '\\' | '$' | '`')) => {
                word.get_or_insert_default().extend(chars.next());
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(chars.next()),
            (c, None) if c.is_whitespace() => out.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_split_as_a_shell_does() {
        let check = |command: &str, expect: &[&str]| assert_eq!(split(command), expect, "{command}");
        check("cc  -DA=1 x.c", &["cc", "-DA=1", "x.c"]);
        check(r#"cc -DS="\"a b\"" '-I a' x\ y.c"#, &["cc", r#"-DS="a b""#, "-I a", "x y.c"]);
        check("cc ''", &["cc", ""]);
        check("  ", &[]);
    }

    #[test]
    fn a_path_is_moved_where_it_stands_for_itself() {
        let check = |word: &str, expect: &str| assert_eq!(moved(word, "/a/p", "/c"), expect, "{word}");
        check("/a/p/x.c", "/c/x.c");
        check("-I/a/p", "-I/c");
        check("-ffile-prefix-map=/a/p=.", "-ffile-prefix-map=/c=.");
        check("-DDIR=\"/a/p/x\"", "-DDIR=\"/c/x\"");
        check("-I/a/p2", "-I/a/p2");
        check("-I/b/a/p", "-I/b/a/p");
        check("../a/p", "../a/p");
    }

    #[test]
    fn a_database_speaks_of_the_folder_wherever_that_was_before() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let put = |at: &str, text: &str| {
            std::fs::create_dir_all(top.join(at).parent().unwrap()).unwrap();
            std::fs::write(top.join(at), text).unwrap();
        };
        ["p/src/a.c", "p/b/gen.h", "q/b.c", "old/src/a.c"].iter().for_each(|at| put(at, ""));
        std::os::unix::fs::symlink("p", top.join("link")).unwrap();
        let of = |root: &str| {
            let row = r#"[{"directory": "@/b", "file": "../src/a.c", "command": "cc -I@/b -c ../src/a.c"}]"#;
            put("p/db.json", &row.replace('@', &top.join(root).to_string_lossy()));
            of_folder(&top.join("p/db.json"), &top.join("p"))
        };
        for root in ["p", "link", "old", "gone"] {
            let entry = of(root).unwrap().remove(0);
            assert_eq!(normal(&entry.file), top.join("p/src/a.c"), "{root}");
            assert_eq!(entry.directory, top.join("p/b"), "{root}");
            assert_eq!(entry.arguments[1], format!("-I{}", top.join("p/b").display()), "{root}");
        }
        let other = of_folder(&top.join("p/db.json"), &top.join("q")).unwrap_err().to_string();
        assert!(
            other.contains("made for") && other.contains("gone/src") && other.contains("--build"),
            "{other}"
        );
    }

    #[test]
    fn outputs_are_dropped() {
        let words = split("gcc -MD -MF x.d -Wp,-MMD,y.d -c -o x.o -O2 -Ifoo x.c");
        assert_eq!(without_outputs(words), ["gcc", "-O2", "-Ifoo", "x.c"]);
    }
}
