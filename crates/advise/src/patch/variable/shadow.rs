//! Where a name means something else than the variable: as far as parameters and what functions declare reach.

use std::ops::Range;

use super::{Kind, declared};
use crate::patch::lex::Kind as Token;
use crate::patch::scan::Code;

/// Places where `name` is a parameter's or a local variable's.
pub(super) fn all(name: &str, code: &Code<'_, '_>) -> Vec<Range<usize>> {
    let local = |j: &&usize| matches!(declared(code, **j), Some(Kind::Local));
    code.places(name).iter().filter(local).filter_map(|&j| reach(code, j)).collect()
}

/// How far the parameter or local variable that is declared at `place` reaches; `None` where that is not plain.
pub(super) fn reach(code: &Code<'_, '_>, place: usize) -> Option<Range<usize>> {
    let end = match parenthesis(code, place) {
        Some(open) => behind_parameters(code, open)?,
        None => code.matching(code.enclosing(place)?, ["{", "}"], usize::MAX)?,
    };
    let bytes = code.range(place).start..code.range(end).end;
    let alternative = |text: &str| {
        let word = text.trim_start_matches('#').trim_start();
        word.starts_with("else") || word.starts_with("elif")
    };
    let all = &code.source.tokens;
    let inside = all.iter().filter(|t| t.kind == Token::Directive && bytes.contains(&t.start));
    // Braces of alternatives are counted twice.
    (!inside.into_iter().any(|t| alternative(t.text(code.source.text)))).then_some(place..end + 1)
}

/// The outermost `(` of the statement that is open at `place`.
fn parenthesis(code: &Code<'_, '_>, place: usize) -> Option<usize> {
    let (mut depth, mut found) = (0, None);
    for j in (code.statement(place).0..place).rev() {
        match code.text(j) {
            ")" => depth += 1,
            "(" if depth > 0 => depth -= 1,
            "(" => found = Some(j),
            _ => {}
        }
    }
    found
}

/// The last place of what parameters between these parentheses are for: a body, or nothing.
fn behind_parameters(code: &Code<'_, '_>, open: usize) -> Option<usize> {
    let close = code.matching(open, ["(", ")"], usize::MAX)?;
    let mut at = code.behind_attributes(close + 1);
    while matches!(code.text(at), "const" | "noexcept" | "override" | "final" | "mutable") {
        at += 1;
    }
    let of = open.checked_sub(1).map_or("", |j| code.text(j));
    match code.text(at) {
        "{" => {
            let end = code.matching(at, ["{", "}"], usize::MAX)?;
            (code.text(end + 1) != "else").then_some(end)
        }
        ";" | "," if !matches!(of, "for" | "while" | "if" | "switch") => Some(close),
        _ => None,
    }
}
