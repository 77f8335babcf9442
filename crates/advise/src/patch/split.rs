//! `int *a, b = 2;` as `int *a; int b = 2;`: one statement per member, so that one of them can move.

use super::body::{Role, Source, Statement};
use super::lex::Kind;
use super::unit::indent_of;

/// The statement's text with one declarator per statement; `None` where that is more than a matter of commas
/// (functions, bit-fields, attributes, nested types, comments and directives inside).
pub fn split(source: &Source<'_>, statement: &Statement) -> Option<String> {
    if statement.role != Role::Declaration || statement.split {
        return None;
    }
    let code = plain_tokens(source, statement)?;
    let commas = top_level_commas(source, &code)?;
    let first_end = *commas.first()?;
    let start = declarator_start(source, &code[..first_end])?;
    let text = |from: usize, to: usize| {
        source.text[source.tokens[code[from]].start..source.tokens[code[to - 1]].end].trim()
    };
    let prefix = text(0, start);
    let begins = std::iter::once(start).chain(commas.iter().map(|c| c + 1));
    let ends = commas.iter().copied().chain([code.len()]);
    let ranges: Vec<(usize, usize)> = begins.zip(ends).collect();
    if !ranges.iter().all(|&(from, to)| is_declarator(source, &code[from..to])) {
        return None;
    }
    let parts: Vec<String> =
        ranges.iter().map(|&(from, to)| format!("{prefix} {};", text(from, to))).collect();
    let at = source.tokens[statement.first].start;
    let line = source.text[..at].rfind('\n').map_or(0, |n| n + 1);
    let own_line = source.text[line..at].trim().is_empty();
    let newline = if source.text.contains("\r\n") { "\r\n" } else { "\n" };
    let between = if own_line { format!("{newline}{}", indent_of(source.text, at)) } else { " ".into() };
    Some(parts.join(&between))
}

/// Tokens of a declaration without the `;`; `None` with comments, directives, attributes and nested types.
fn plain_tokens(source: &Source<'_>, statement: &Statement) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    for i in statement.first..statement.last {
        let token = source.tokens[i];
        let plain = match token.kind {
            Kind::Space | Kind::Newline => continue,
            Kind::LineComment | Kind::BlockComment | Kind::Directive => false,
            Kind::Ident => !matches!(source.at(i), "__attribute__" | "alignas" | "_Alignas"),
            _ => true,
        };
        if !plain {
            return None;
        }
        out.push(i);
    }
    Some(out)
}

/// Commas between declarators. `<` opens arguments of a template until the first declarator's value begins.
fn top_level_commas(source: &Source<'_>, code: &[usize]) -> Option<Vec<usize>> {
    let (mut depth, mut angles, mut value) = (0usize, 0usize, false);
    let mut out = Vec::new();
    for (n, &i) in code.iter().enumerate() {
        match source.at(i) {
            "=" => value |= depth == 0 && angles == 0,
            "<" if !value => angles += 1,
            ">" if !value => angles = angles.checked_sub(1)?,
            // `a = x < y, b` or `a = f<int, long>()`: which of the two is for a parser.
            "<" | ">" if depth == 0 => return None,
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => depth = depth.checked_sub(1)?,
            "," if depth == 0 && angles == 0 => {
                out.push(n);
                value = false;
            }
            _ => {}
        }
    }
    Some(out)
}

/// Where the first declarator begins: at its name or at the stars before it.
fn declarator_start(source: &Source<'_>, code: &[usize]) -> Option<usize> {
    let end = code.iter().position(|&i| matches!(source.at(i), "[" | "=" | "{")).unwrap_or(code.len());
    let name = end.checked_sub(1).filter(|&n| source.tokens[code[n]].kind == Kind::Ident)?;
    let mut start = name;
    while start > 0 && matches!(source.at(code[start - 1]), "*" | "&") {
        start -= 1;
    }
    // `struct foo { .. } a, b;` makes a type.
    let makes = start > 0 && matches!(source.at(code[start - 1]), "struct" | "union" | "class" | "enum");
    (start > 0 && !makes).then_some(start)
}

/// Stars, a name, lengths, and a value behind `=` or in braces: no function and no bit-field.
fn is_declarator(source: &Source<'_>, code: &[usize]) -> bool {
    let mut at = code.iter().take_while(|&&i| matches!(source.at(i), "*" | "&" | "const")).count();
    if code.get(at).is_none_or(|&i| source.tokens[i].kind != Kind::Ident) {
        return false;
    }
    at += 1;
    while code.get(at).is_some_and(|&i| source.at(i) == "[") {
        let close = code[at..].iter().position(|&i| source.at(i) == "]");
        let Some(close) = close else { return false };
        at += close + 1;
    }
    code.get(at).is_none_or(|&i| matches!(source.at(i), "=" | "{"))
}

#[cfg(test)]
mod tests {
    use super::super::body::{find, statements};
    use super::*;

    fn check(member: &str, expect: Option<&str>) {
        let text = format!("struct s {{\n\t{member}\n}};\n");
        let source = Source::new(&text);
        let body = find(&source, "s", None).unwrap();
        let list = statements(&source, &body).unwrap();
        assert_eq!(split(&source, &list[0]).as_deref(), expect, "{member}");
    }

    #[test]
    fn declarators_with_values_are_split() {
        check("int a, b;", Some("int a;\n\tint b;"));
        check("int *a, b[3], **c;", Some("int *a;\n\tint b[3];\n\tint **c;"));
        check("int k = 2, n = 5;", Some("int k = 2;\n\tint n = 5;"));
        check("std::atomic<int> a{0}, b{1};", Some("std::atomic<int> a{0};\n\tstd::atomic<int> b{1};"));
        check("std::map<int, long> a, b;", Some("std::map<int, long> a;\n\tstd::map<int, long> b;"));
        check("long a = f(1, 2), b = {3};", Some("long a = f(1, 2);\n\tlong b = {3};"));
        check("struct foo *a, *b;", Some("struct foo *a;\n\tstruct foo *b;"));
        check("unsigned a : 3, b : 5;", None);
        check("void (*f)(int), (*g)(int);", None);
        check("struct { int x; } a, b;", None);
        check("bool a = x < y, b = z > y;", None);
        check("int a, /* second */ b;", None);
    }
}
