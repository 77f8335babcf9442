//! Initialisers that count on the order of members: `struct foo x = { 1, 2 };`.

use super::body::{Source, bare_name, find, may_define};
use super::lex::{Kind, Token};
use super::names::places_of;

/// Line of the first positional initialiser of a type called `names`. Macros that make one are looked for in `files`
/// (path and text). `{}` and `{0}` do not count: they mean all zero.
pub(super) fn in_file(source: &Source<'_>, names: &[String], files: &[(&str, &str)]) -> Option<u32> {
    let positional_macro = |word: &str| {
        let mentions = files.iter().filter(|f| may_make(f.1, word));
        mentions
            .map(|f| Source::new(f.1))
            .any(|source| defines(&source).iter().any(|m| m.0 == word && macro_is_positional(m.1)))
    };
    first_positional(source, names, &positional_macro)
}

/// Whether `text` has `#define word`, as far as a glance tells.
fn may_make(text: &str, word: &str) -> bool {
    places_of(text, word).any(|at| text[..at].trim_end_matches([' ', '\t']).ends_with("define"))
}

/// Every name of the type `name` that the files show: its tag and its typedefs.
pub fn names_of(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let bare = bare_name(name);
    let mut names = vec![bare.to_string()];
    let alias = |text: &str| text.contains("typedef") || text.contains("using");
    for (_, text) in files.iter().filter(|f| f.1.contains(bare) && (alias(f.1) || may_define(f.1, bare))) {
        let source = Source::new(text);
        if let Ok(body) = find(&source, name, None) {
            if body.typedef {
                names.extend(body.aliases.clone());
            }
            names.extend(body.tag.clone());
        }
        names.extend(typedefs(&source, bare));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Names of `typedef struct name other;`, `typedef name other[2];` and `using other = name;`, pointers excepted.
fn typedefs(source: &Source<'_>, name: &str) -> Vec<String> {
    let code: Vec<&Token> =
        source.tokens.iter().filter(|t| t.is_code() && t.kind != Kind::Directive).collect();
    let text = |i: usize| code.get(i).map_or("", |t| t.text(source.text));
    let qualifier = |i: usize| matches!(text(i), "struct" | "const" | "volatile" | "union" | "class");
    let skip = |mut i: usize| {
        while qualifier(i) {
            i += 1;
        }
        i
    };
    let mut out = Vec::new();
    for i in 0..code.len() {
        let at = skip(i + 1);
        let word = |j: usize| code.get(j).is_some_and(|t| t.kind == Kind::Ident);
        if text(i) == "typedef" && text(at) == name && word(at + 1) && matches!(text(at + 2), ";" | "[") {
            out.push(text(at + 1).to_string());
        } else if text(i) == "using" && text(i + 2) == "=" {
            let at = skip(i + 3);
            let named = (at..at + 6).take_while(|&j| text(j) != ";").last();
            if named.is_some_and(|j| text(j) == name)
                && (at..at + 6).all(|j| text(j) != "*" || text(j - 1) == ";")
            {
                out.push(text(i + 1).to_string());
            }
        }
    }
    out
}

/// Object-like and function-like macros: name and body.
fn defines<'a>(source: &Source<'a>) -> Vec<(&'a str, &'a str)> {
    let mut out = Vec::new();
    for token in source.tokens.iter().filter(|t| t.kind == Kind::Directive) {
        let text = token.text(source.text).trim_start_matches('#').trim_start();
        let Some(rest) = text.strip_prefix("define").map(str::trim_start) else { continue };
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, body) = rest.split_at(end);
        let body = match body.strip_prefix('(') {
            Some(args) => args.split_once(')').map_or("", |p| p.1),
            None => body,
        };
        out.push((name, body));
    }
    out
}

fn first_positional(source: &Source<'_>, names: &[String], is_macro: &dyn Fn(&str) -> bool) -> Option<u32> {
    let code: Vec<(usize, &Token)> =
        source.tokens.iter().enumerate().filter(|(_, t)| t.is_code() && t.kind != Kind::Directive).collect();
    let text = |i: usize| code.get(i).map_or("", |t| t.1.text(source.text));
    for i in 0..code.len() {
        if code[i].1.kind != Kind::Ident || !names.iter().any(|n| n == text(i)) {
            continue;
        }
        if let Some(open) = compound(source, &code, i)
            && group_is_positional(source, code[open].0, text(open.saturating_sub(2)) == "]")
        {
            return Some(code[i].1.line);
        }
        // `struct foo x[3] = { ... }`
        let mut at = i + 1;
        let mut array = false;
        while matches!(text(at), "*" | "const" | "volatile" | "static" | "]" | "[")
            || code.get(at).is_some_and(|t| t.1.kind == Kind::Ident)
            || is_dimension(&code, source, at)
        {
            if text(at) == "*" {
                break;
            }
            array |= text(at) == "[";
            at += 1;
        }
        if text(at) != "=" || !names_type(source, &code, i) {
            continue;
        }
        let value = at + 1;
        let bad = match text(value) {
            "{" => group_is_positional(source, code[value].0, array),
            word => is_macro(word),
        };
        if bad {
            return Some(code[i].1.line);
        }
    }
    None
}

/// Whether the name at `i` is that of a type that declares something: behind `struct`, or before another name. A
/// variable called like its struct is neither.
fn names_type(source: &Source<'_>, code: &[(usize, &Token)], i: usize) -> bool {
    let text = |i: usize| code.get(i).map_or("", |t| t.1.text(source.text));
    let word = |i: usize| code.get(i).is_some_and(|t| t.1.kind == Kind::Ident);
    let tag = i > 0 && matches!(text(i - 1), "struct" | "union" | "class");
    word(i + 1) && (tag || !matches!(text(i.saturating_sub(1)), "." | ">" | "*"))
}

/// The `{` of a compound literal of the type named at `i`: `(struct foo){`, `(const foo_t []){`. Braces behind a
/// function's parameters or a condition look alike, but there a word stands before the `(`.
fn compound(source: &Source<'_>, code: &[(usize, &Token)], i: usize) -> Option<usize> {
    let text = |i: usize| code.get(i).map_or("", |t| t.1.text(source.text));
    let mut open = i.checked_sub(1)?;
    while matches!(text(open), "struct" | "union" | "class" | "const" | "volatile") {
        open = open.checked_sub(1)?;
    }
    if text(open) != "(" {
        return None;
    }
    let before = open.checked_sub(1).and_then(|b| code.get(b));
    let word = before.is_some_and(|t| t.1.kind == Kind::Ident && t.1.text(source.text) != "return");
    let mut at = i + 1;
    while matches!(text(at), "[" | "]" | "const" | "volatile") || is_dimension(code, source, at) {
        at += 1;
    }
    (!word && text(at) == ")" && text(at + 1) == "{").then_some(at + 1)
}

fn is_dimension(code: &[(usize, &Token)], source: &Source<'_>, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|b| code.get(b)).map_or("", |t| t.1.text(source.text));
    before == "[" && code.get(at).is_some_and(|t| t.1.kind == Kind::Number)
}

fn macro_is_positional(body: &str) -> bool {
    let body = body.trim().trim_start_matches(['\\', '\n', '\r', ' ', '\t']);
    let body = match body.strip_prefix('(') {
        // `((struct foo){ ... })`
        Some(_) => body.find('{').map_or("", |n| &body[n..]),
        None => body,
    };
    let source = Source::new(body);
    let open = source.code_from(0);
    source.at(open) == "{" && group_is_positional(&source, open, false)
}

/// Whether the braces at token `open` name no members. In arrays the inner braces decide.
fn group_is_positional(source: &Source<'_>, open: usize, array: bool) -> bool {
    let Some(end) = source.group_end(open) else { return false };
    let first = source.code_from(open + 1);
    if array {
        let mut at = first;
        while at < end {
            if source.at(at) == "{" {
                if group_is_positional(source, at, false) {
                    return true;
                }
                at = source.group_end(at).unwrap_or(end);
            } else {
                at += 1;
            }
        }
        // `struct foo x[] = { 1, 2, 3, 4 }` fills members one after the other.
        let behind = source.group_end(first).map(|e| source.code_from(e)).filter(|_| source.at(first) == "(");
        let compound = behind.is_some_and(|b| source.at(b) == "{");
        return !compound && !matches!(source.at(first), "{" | "}" | "[" | "0");
    }
    let items = items(source, open, end);
    let zero = items.len() == 1 && source.at(first) == "0" && source.at(source.code_from(first + 1)) != ":";
    // `.a = 1, 2` gives 2 to the member behind a; `a: 1` is what GNU C wrote before C99.
    let named = |i: usize| source.at(i) == "." || source.at(source.code_from(i + 1)) == ":";
    // `INIT_MM_CONTEXT(init_mm)` among named ones is a macro that names what it gives.
    let is_macro =
        |i: usize| i != first && !source.at(i).contains(|c: char| c.is_ascii_lowercase() || c == '{');
    let word = |i: usize| source.tokens.get(i).is_some_and(|t| t.kind == Kind::Ident);
    !zero && items.iter().any(|&i| !named(i) && !(is_macro(i) && word(i)))
}

/// First tokens of what stands between the commas of the group that opens at `open`.
fn items(source: &Source<'_>, open: usize, end: usize) -> Vec<usize> {
    let mut out = Vec::new();
    let mut at = source.code_from(open + 1);
    while at + 1 < end {
        out.push(at);
        while at + 1 < end && source.at(at) != "," {
            at = match source.at(at) {
                "(" | "[" | "{" => source.group_end(at).unwrap_or(end),
                _ => at + 1,
            };
        }
        at = source.code_from(at + 1);
    }
    out
}
