//! Uses of an array whose elements become structs.

use std::ops::Range;

use super::{Kind, MEMBER, declared, refusal};
use crate::patch::Refusal;
use crate::patch::lex::Kind as Token;
use crate::patch::scan::Code;

/// What must be inserted at every use of `name` in one file; `own` are the places of its declarators that change
/// otherwise.
pub(super) fn rewrite(
    name: &str,
    path: &str,
    code: &Code<'_, '_>,
    own: &[usize],
) -> Result<Vec<(Range<usize>, String)>, Refusal> {
    in_macros(name, path, code)?;
    let mut out = Vec::new();
    for place in (0..code.len()).filter(|&j| code.text(j) == name && !own.contains(&j)) {
        if let Some(end) = one(name, path, code, place)? {
            let at = code.range(end).end;
            out.push((at..at, format!(".{MEMBER}")));
        }
    }
    Ok(out)
}

/// Macros hide how they are used.
fn in_macros(name: &str, path: &str, code: &Code<'_, '_>) -> Result<(), Refusal> {
    let directives = code.source.tokens.iter().filter(|t| t.kind == Token::Directive);
    let word = |text: &str| text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == name);
    match directives.into_iter().find(|t| word(t.text(code.source.text))) {
        None => Ok(()),
        Some(t) => Err(Refusal::Variable {
            file: path.into(),
            line: t.line,
            why: format!("a macro uses {name}; where it is used cannot be followed"),
        }),
    }
}

/// Place of the `]` behind which the member goes; `None` where nothing changes.
fn one(name: &str, path: &str, code: &Code<'_, '_>, place: usize) -> Result<Option<usize>, Refusal> {
    let refuse = |why: String| Err(refusal(path, code, place, why));
    let before = |n: usize| place.checked_sub(n).map_or("", |j| code.text(j));
    if before(1) == "." || (before(1) == ">" && before(2) == "-") {
        return Ok(None);
    }
    match declared(code, place) {
        Some(Kind::Member) => return Ok(None),
        Some(Kind::Extern) => {
            return refuse(format!(
                "{name} is declared here, too, with the type that its elements have today; one extern declaration in a \
                 header is changed"
            ));
        }
        Some(_) => return refuse(format!("another {name} is declared here")),
        None => {}
    }
    if code.text(place + 1) != "[" {
        return match zeroed(code, place) || matches!(before(1), "sizeof") || sizeof_parens(code, place) {
            true => Ok(None),
            false => {
                refuse(format!("{name} is used as a whole, by what may count on where its elements lie"))
            }
        };
    }
    let close = code
        .matching(place + 1, ["[", "]"], usize::MAX)
        .ok_or_else(|| refusal(path, code, place, "the brackets do not match"))?;
    if before(1) == "sizeof" || sizeof_parens(code, place) {
        return Ok(None);
    }
    if before(1) == "&" && before(2) == "(" && is_atomic(before(3)) {
        return Ok(Some(close));
    }
    if matches!(before(1), "typeof" | "decltype" | "__typeof__" | "&") && before(2) != "&" {
        return refuse(format!(
            "the address of an element of {name} is taken; what reads it may count on the element behind it"
        ));
    }
    if matches!(before(2), "typeof" | "decltype" | "__typeof__") {
        return refuse(format!("the type of an element of {name} is asked for"));
    }
    Ok(Some(close))
}

/// Functions that touch the one element whose address they take first.
fn is_atomic(function: &str) -> bool {
    let prefixes =
        ["__atomic_", "__sync_", "atomic_", "__c11_atomic_", "InterlockedAdd", "InterlockedIncrement"];
    prefixes.iter().any(|p| function.starts_with(p))
}

/// `sizeof(name..)`, whatever stands behind it.
fn sizeof_parens(code: &Code<'_, '_>, place: usize) -> bool {
    place >= 2 && code.text(place - 1) == "(" && code.text(place - 2) == "sizeof"
}

/// `memset(name, 0, ..)`.
fn zeroed(code: &Code<'_, '_>, place: usize) -> bool {
    let before = |n: usize| place.checked_sub(n).map_or("", |j| code.text(j));
    before(1) == "(" && before(2) == "memset" && code.text(place + 1) == "," && code.text(place + 2) == "0"
}
