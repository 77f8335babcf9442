//! Initialisers by position in C, as gcc sees them: with the attribute `designated_init` it warns at each of them,
//! those in macros and inside of other types' initialisers, too.

use std::path::Path;

use tussle_advise::patch::body::{Source, find};

use super::calls::Call;

const WARNING: &str = "[-Wdesignated-init]";

/// The first initialiser that names no members in what `calls` compile; `{0}` says zero in every order. The file is as
/// it was when this returns. Nothing is known where there is no gcc.
pub(super) fn check(
    class: &str,
    (file, text): (&Path, &str),
    decl_line: Option<u32>,
    calls: &[Call],
) -> Result<(), String> {
    let calls: Vec<Call> = calls.iter().filter(|c| !c.is_cpp()).filter_map(Call::with_gcc).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let write = |text: &str| std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()));
    write(&marked(text, class, decl_line)?)?;
    let ask = |call: &Call| {
        let out = call.front_end(&["-Wdesignated-init"]).ok()?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        stderr.lines().filter(|l| l.ends_with(WARNING)).find_map(|l| place(l, &call.dir))
    };
    let found =
        super::by_turns(&calls).find_map(|some| super::parallel(some, ask).into_iter().flatten().next());
    write(text)?;
    match found {
        None => Ok(()),
        Some(place) => Err(format!(
            "{place} initialises {class} by position; name the members there first (.member = ...)"
        )),
    }
}

/// The text with the attribute on the struct. Its line numbers stay.
fn marked(text: &str, class: &str, decl_line: Option<u32>) -> Result<String, String> {
    let source = Source::new(text);
    let body = find(&source, class, decl_line).map_err(|e| e.to_string())?;
    let at = source.tokens.get(body.keyword).map_or(0, |t| t.end);
    Ok(format!("{} __attribute__((designated_init)){}", &text[..at], &text[at..]))
}

/// `x.c:7` of a warning; none for `{0}`.
fn place(line: &str, dir: &Path) -> Option<String> {
    let mut parts = line.splitn(4, ':');
    let (file, row, column) = (parts.next()?, parts.next()?, parts.next()?);
    let name = file.rsplit('/').next().unwrap_or(file);
    let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
    let row_index: usize = row.parse().ok()?;
    let column: usize = column.parse().ok()?;
    let line = text.lines().nth(row_index.checked_sub(1)?).unwrap_or("");
    let zero = is_zero(line, column.saturating_sub(1)) || is_zero(line, behind_tabs(line, column));
    (!zero).then(|| format!("{name}:{row}"))
}

/// `{ 0 }` or `{ 0, }` with the 0 at byte `at`.
fn is_zero(line: &str, at: usize) -> bool {
    let (Some(before), Some(value)) = (line.get(..at), line.get(at..)) else { return false };
    let zero = value
        .strip_prefix('0')
        .is_some_and(|v| v.trim_start().trim_start_matches(',').trim_start().starts_with('}'));
    zero && before.trim_end().ends_with('{')
}

/// Byte of a column as gcc counts them since version 11: a tab goes on to the next multiple of 8.
fn behind_tabs(line: &str, column: usize) -> usize {
    let mut shown = 0;
    for (at, c) in line.char_indices() {
        if shown + 1 >= column {
            return at;
        }
        shown = if c == '\t' { (shown / 8 + 1) * 8 } else { shown + 1 };
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_no_positions() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("x.c"),
            "struct s a = { 0, };\nstruct s b = { 0, 1 };\n\tstruct s = { 0 };\n",
        )
        .unwrap();
        let of = |row: u32, column: u32| {
            place(&format!("x.c:{row}:{column}: warning: positional {WARNING}"), dir.path())
        };
        assert_eq!(of(1, 16), None);
        assert_eq!(of(2, 16).as_deref(), Some("x.c:2"));
        assert_eq!((of(3, 22), of(3, 15)), (None, None), "tabs may count as 8 or as 1");
    }

    #[test]
    fn the_attribute_follows_the_keyword() {
        let text = "typedef struct {\n\tint a;\n} s;\n";
        assert!(
            marked(text, "s", None).unwrap().starts_with("typedef struct __attribute__((designated_init)) {")
        );
    }
}
