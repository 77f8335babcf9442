//! `int *a, b;` as `int *a; int b;`: one statement per member, so that one of them can move.

use super::body::{Role, Source, Statement};
use super::lex::Kind;
use super::unit::indent_of;

/// The statement's text with one declarator per statement; `None` where that is more than a matter of commas
/// (functions, bit-fields, templates, attributes, nested types, comments and directives inside).
pub fn split(source: &Source<'_>, statement: &Statement) -> Option<String> {
    if statement.role != Role::Declaration || statement.split {
        return None;
    }
    let code = plain_tokens(source, statement)?;
    let commas = top_level_commas(source, &code);
    let first_end = *commas.first()?;
    let start = declarator_start(source, &code[..first_end])?;
    let text = |from: usize, to: usize| {
        source.text[source.tokens[code[from]].start..source.tokens[code[to - 1]].end].trim()
    };
    let prefix = text(0, start);
    let begins = std::iter::once(start).chain(commas.iter().map(|c| c + 1));
    let ends = commas.iter().copied().chain([code.len()]);
    let parts: Vec<String> =
        begins.zip(ends).map(|(from, to)| format!("{prefix} {};", text(from, to))).collect();
    let at = source.tokens[statement.first].start;
    let line = source.text[..at].rfind('\n').map_or(0, |n| n + 1);
    let own_line = source.text[line..at].trim().is_empty();
    let newline = if source.text.contains("\r\n") { "\r\n" } else { "\n" };
    let between = if own_line { format!("{newline}{}", indent_of(source.text, at)) } else { " ".into() };
    Some(parts.join(&between))
}

/// Tokens of a declaration of words, stars, brackets and commas; without the `;`.
fn plain_tokens(source: &Source<'_>, statement: &Statement) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    for i in statement.first..statement.last {
        let token = source.tokens[i];
        let plain = match token.kind {
            Kind::Ident | Kind::Number => true,
            Kind::Punct => matches!(source.at(i), "*" | "," | "[" | "]" | "+" | "-" | "/"),
            Kind::Space | Kind::Newline => continue,
            _ => false,
        };
        if !plain {
            return None;
        }
        out.push(i);
    }
    Some(out)
}

fn top_level_commas(source: &Source<'_>, code: &[usize]) -> Vec<usize> {
    let mut depth = 0i32;
    let mut out = Vec::new();
    for (n, &i) in code.iter().enumerate() {
        match source.at(i) {
            "[" => depth += 1,
            "]" => depth -= 1,
            "," if depth == 0 => out.push(n),
            _ => {}
        }
    }
    out
}

/// Where the first declarator begins: at its name or at the stars before it.
fn declarator_start(source: &Source<'_>, code: &[usize]) -> Option<usize> {
    let end = code.iter().position(|&i| source.at(i) == "[").unwrap_or(code.len());
    let name = end.checked_sub(1).filter(|&n| source.tokens[code[n]].kind == Kind::Ident)?;
    let mut start = name;
    while start > 0 && source.at(code[start - 1]) == "*" {
        start -= 1;
    }
    (start > 0).then_some(start)
}
