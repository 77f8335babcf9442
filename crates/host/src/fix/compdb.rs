//! `compile_commands.json`: how each file was compiled.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::FixError;

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

/// Reads the database at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, FixError> {
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
    fn outputs_are_dropped() {
        let words = split("gcc -MD -MF x.d -Wp,-MMD,y.d -c -o x.o -O2 -Ifoo x.c");
        assert_eq!(without_outputs(words), ["gcc", "-O2", "-Ifoo", "x.c"]);
    }
}
