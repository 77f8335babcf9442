//! Copies of a struct's declaration in other languages: Python's ctypes, Rust's `repr(C)`. They count on the order of
//! the members that they name.

use super::Refusal;
use super::neighbours::Order;
use crate::edit::Edit;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// A file that declares structs of C, as far as a glance tells.
pub fn may_declare(path: &str, text: &str) -> bool {
    match path.rsplit_once('.').map_or("", |p| p.1) {
        "py" => text.contains("_fields_"),
        "rs" => text.contains("repr(C"),
        _ => false,
    }
}

/// Refuses when one of `mirrors` declares the first members of `name`, two or more of them, and `edits` change these.
///
/// # Errors
/// The place.
pub fn check(
    name: &str,
    edits: Option<&[Edit]>,
    files: Files<'_>,
    mirrors: &[(String, String)],
) -> Result<(), Refusal> {
    let Some(edits) = edits.filter(|e| !mirrors.is_empty() && e.iter().any(Edit::displaces)) else {
        return Ok(());
    };
    let order = Order::new(name, edits, files);
    for (path, text) in mirrors {
        for (line, fields) in declared(path, text) {
            let same = fields.iter().zip(&order.members).take_while(|(f, m)| **f == m.name).count();
            let whole = same == fields.len().min(order.members.len());
            if same >= 2 && whole && order.changes(same) {
                let place = format!("{path}:{line}");
                let how = "it is declared there once more, in another language".into();
                return Err(Refusal::LeavesProcess { name: name.into(), place, how });
            }
        }
    }
    Ok(())
}

/// Lines and field names of the structs that a file declares as C's.
fn declared<'t>(path: &str, text: &'t str) -> Vec<(usize, Vec<&'t str>)> {
    let python = path.ends_with(".py");
    let word = if python { "_fields_" } else { "repr(C" };
    let found = text.match_indices(word).filter_map(|(at, _)| {
        let rest = &text[at..];
        let fields = if python { tuples(rest) } else { fields(rest) }?;
        Some((text[..at].matches('\n').count() + 1, fields))
    });
    found.collect()
}

/// The first strings of `_fields_ = [("fd", c_int), ..]`.
fn tuples(text: &str) -> Option<Vec<&str>> {
    let list = &text[text.find('[')? + 1..];
    let list = &list[..list.find("\n\n").unwrap_or(list.len())];
    let name = |part: &'_ str| -> Option<(usize, usize)> {
        let lead = part.len() - part.trim_start().len();
        let quote = part.trim_start().chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let end = part[lead + 1..].find(quote)?;
        Some((lead + 1, lead + 1 + end))
    };
    let parts = list.split('(').skip(1);
    Some(parts.filter_map(|p| name(p).map(|(a, b)| &p[a..b])).collect())
}

/// The names before the colons of `struct Conn { fd: i32, .. }`.
fn fields(text: &str) -> Option<Vec<&str>> {
    let open = text.find('{').filter(|&o| text[..o].contains("struct"))?;
    let mut depth = 0usize;
    let (mut out, mut from) = (Vec::new(), open + 1);
    for (at, c) in text[open..].char_indices().map(|(i, c)| (open + i, c)) {
        match c {
            '{' | '(' | '[' | '<' => depth += 1,
            '}' | ')' | ']' | '>' => depth = depth.saturating_sub(1),
            ':' if depth == 1 && from <= at => {
                out.push(text[from..at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?);
                from = text.len();
            }
            ',' if depth == 1 => from = at + 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn declarations_in_other_languages() {
        let c = "struct point { int left; int top; long used; int mark; };\n";
        let run = |edit: &str, path: &str, text: &str| {
            let edits = vec![edit.parse().expect("an edit")];
            let mirrors = [(path.to_string(), text.to_string())];
            check("point", Some(&edits), &[("a.c", c)], &mirrors).map_err(|e| e.to_string())
        };
        let python = "class P(Structure):\n    _fields_ = [('left', c_int),\n        (\"top\", c_int)]\n";
        assert!(run("swap:left,top", "use.py", python).expect_err("seen").contains("use.py:2"));
        assert!(run("top:after:used", "use.py", python).is_err());
        assert_eq!(run("swap:used,mark", "use.py", python), Ok(()));
        assert_eq!(run("swap:left,top", "use.py", "_fields_ = [('x', c_int), ('y', c_int)]"), Ok(()));
        let rust = "#[repr(C)]\npub struct Point {\n    /// Bytes.\n    pub left: i32,\n\
            \x20   top: [i32; 1],\n    used: i64,\n}\n";
        assert!(run("align:used=64", "m.rs", rust).is_err());
        assert!(run("swap:top,mark", "m.rs", rust).is_err());
        assert_eq!(run("align:mark=64", "m.rs", rust), Ok(()));
        assert_eq!(run("pad=64", "m.rs", rust), Ok(()));
    }
}
