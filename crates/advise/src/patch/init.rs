//! Initialisers that count on the order of members: `struct foo x = { 1, 2 };`.

use super::Refusal;
use super::body::{Source, bare_name, find};
use super::lex::{Kind, Token};

/// Looks through `files` (path and text) for positional initialisers of the type `name` (tag, and typedef names if its
/// definition is among the files). `{}` and `{0}` do not count: they mean all zero.
pub fn check(name: &str, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let sources: Vec<(&str, Source<'_>)> = files.iter().map(|(p, t)| (*p, Source::new(t))).collect();
    let mut names = vec![bare_name(name).to_string()];
    for (_, source) in &sources {
        if let Ok(body) = find(source, name, None) {
            if body.typedef {
                names.extend(body.aliases.clone());
            }
            names.extend(body.tag.clone());
        }
        names.extend(typedefs(source, bare_name(name)));
    }
    names.sort();
    names.dedup();
    let macros: Vec<(&str, &str)> = sources.iter().flat_map(|(_, s)| defines(s)).collect();
    for (path, source) in &sources {
        if let Some(line) = first_positional(source, &names, &macros) {
            return Err(Refusal::PositionalInitialiser { name: name.into(), file: (*path).into(), line });
        }
    }
    Ok(())
}

/// Names of `typedef struct name other;`.
fn typedefs(source: &Source<'_>, name: &str) -> Vec<String> {
    let code: Vec<&Token> = source.tokens.iter().filter(|t| t.is_code()).collect();
    let text = |i: usize| code.get(i).map_or("", |t| t.text(source.text));
    (0..code.len())
        .filter(|&i| {
            text(i) == "typedef" && text(i + 1) == "struct" && text(i + 2) == name && text(i + 4) == ";"
        })
        .map(|i| text(i + 3).to_string())
        .collect()
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

fn first_positional(source: &Source<'_>, names: &[String], macros: &[(&str, &str)]) -> Option<u32> {
    let code: Vec<(usize, &Token)> =
        source.tokens.iter().enumerate().filter(|(_, t)| t.is_code() && t.kind != Kind::Directive).collect();
    let text = |i: usize| code.get(i).map_or("", |t| t.1.text(source.text));
    for i in 0..code.len() {
        if code[i].1.kind != Kind::Ident || !names.iter().any(|n| n == text(i)) {
            continue;
        }
        let mut at = i + 1;
        // `(struct foo){ ... }`, `(struct foo[]){ ... }`, `Foo{ ... }`
        while matches!(text(at), ")" | "[" | "]" | "const") || is_dimension(&code, source, at) {
            at += 1;
        }
        let compound =
            at > i + 1 && text(at) == "{" && text(i + 1) != "[" || text(i + 1) == ")" && text(at) == "{";
        if compound && group_is_positional(source, code[at].0, false) {
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
        if text(at) != "=" || at == i + 1 {
            continue;
        }
        let value = at + 1;
        let bad = match text(value) {
            "{" => group_is_positional(source, code[value].0, array),
            word => macros.iter().filter(|m| m.0 == word).any(|m| macro_is_positional(m.1)),
        };
        if bad {
            return Some(code[i].1.line);
        }
    }
    None
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
        return !matches!(source.at(first), "{" | "}" | "[" | "0");
    }
    let second = source.code_from(first + 1);
    let zero = source.at(first) == "0"
        && (source.at(second) == "}" || source.at(source.code_from(second + 1)) == "}");
    !(matches!(source.at(first), "}" | ".") || zero)
}
