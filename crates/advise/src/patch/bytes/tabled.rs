//! Tables that keep an object's address, as a pointer to nothing in particular, beside its size: whoever reads them
//! sees bytes. A reader that clears or copies them as a whole may do so.

use super::super::body::Source;
use super::super::neighbours::{macro_text, members_in};
use super::super::objects::Objects;
use super::{Files, keeps};

/// Tokens of a table that are looked at.
const TABLE_MAX: usize = 2000;

/// `struct chunk all[] = { { &x, sizeof(x) } }`, where the first member of `struct chunk` is a `const void *`.
pub(super) fn at(objects: &Objects<'_, '_>, open: usize, files: Files<'_>) -> Option<String> {
    let code = &objects.code;
    let close = code.matching(open, ["{", "}"], TABLE_MAX)?;
    let items = items(objects, open, close);
    let pointer = || {
        items.iter().enumerate().find_map(|(n, &item)| {
            let (name, value) = designated(objects, item);
            objects.is_address(value).then(|| untyped(objects, open, (n, name), files)).flatten()
        })
    };
    let pair = items.iter().any(|&i| is_size(objects, i)).then(pointer).flatten();
    let by_macro = || items.iter().find_map(|&(from, _)| pair_by_macro(objects, (open, from), files));
    let (table, member) = pair.or_else(by_macro)?;
    (!only_kept(objects, (table, &member), files))
        .then(|| "a table keeps its address, of no type, beside its size".into())
}

/// What stands between the commas.
fn items(objects: &Objects<'_, '_>, open: usize, close: usize) -> Vec<(usize, usize)> {
    let (mut out, mut from, mut at) = (Vec::new(), open + 1, open + 1);
    while at < close {
        match objects.text(at) {
            "(" => at = objects.code.closing(at).unwrap_or(at),
            "{" => at = objects.code.matching(at, ["{", "}"], TABLE_MAX).unwrap_or(at),
            "," => {
                out.push((from, at));
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    out.push((from, close));
    out
}

/// `.from = x`: the name, and the value.
fn designated<'a>(
    objects: &Objects<'_, 'a>,
    (from, to): (usize, usize),
) -> (Option<&'a str>, (usize, usize)) {
    let named = objects.text(from) == "." && objects.text(from + 2) == "=";
    if named { (Some(objects.text(from + 1)), (from + 3, to)) } else { (None, (from, to)) }
}

/// A size of the type, and no number of objects: `sizeof(v)`, `4 * sizeof(struct s)`.
fn is_size(objects: &Objects<'_, '_>, (from, to): (usize, usize)) -> bool {
    let own = |j: usize| objects.text(j) == "sizeof" && objects.measures(j, to);
    (from..to).any(own) && !(from..to).any(|j| objects.text(j) == "/")
}

/// The table's struct, and its member for the item, if the type of this says nothing.
fn untyped<'a>(
    objects: &Objects<'_, 'a>,
    open: usize,
    (index, name): (usize, Option<&str>),
    files: Files<'_>,
) -> Option<(&'a str, String)> {
    let code = &objects.code;
    let ty = code.text(code.declaration(code.initialised(open)?)?.ty);
    let members = members_in(files, ty);
    let member = name.map_or(members.get(index), |n| members.iter().find(|m| m.name == n))?;
    let plain = |w: &str| matches!(w, "void" | "char" | "uint8_t" | "u8" | "uintptr_t");
    member.ty.split(' ').any(plain).then(|| (ty, member.name.clone()))
}

/// Whoever reads the member of such a struct clears or copies what it points to: `memset(all[i].at, 0, all[i].bytes)`.
fn only_kept(objects: &Objects<'_, '_>, (ty, member): (&str, &str), files: Files<'_>) -> bool {
    let mut seen = false;
    for (_, text) in files.iter().filter(|f| f.1.contains(member)) {
        let source = Source::new(text);
        let elsewhere = objects.elsewhere(&source);
        let code = &elsewhere.code;
        let accessed =
            |&&i: &&usize| i > 1 && matches!(code.text(i - 1), "." | ">") && code.text(i + 1) != "=";
        for &i in code.places(member).iter().filter(accessed) {
            let last = i.saturating_sub(if code.text(i - 1) == "." { 2 } else { 3 });
            let open = if code.text(last) == "]" { code.opening(last) } else { None };
            let base = open.map_or(last, |o| o.saturating_sub(1));
            if code.variable(code.text(base), base).is_some_and(|d| code.text(d.ty) != ty) {
                continue;
            }
            seen = true;
            if !elsewhere.named_call_around(i, i + 1).is_some_and(|call| keeps(code.text(call))) {
                return false;
            }
        }
    }
    seen
}

/// `CHUNK(x)` of `#define CHUNK(x) { &(x), sizeof(x) }`.
fn pair_by_macro<'a>(
    objects: &Objects<'_, 'a>,
    (open, at): (usize, usize),
    files: Files<'_>,
) -> Option<(&'a str, String)> {
    if !objects.code.is_word(at) || objects.text(at + 1) != "(" {
        return None;
    }
    let pair = |text: &str| {
        let body = text.split_once(')').map_or("", |(_, body)| body.trim_start());
        body.starts_with('{') && body.contains("sizeof")
    };
    let ours = objects.arguments(at + 1).iter().any(|&a| objects.hands_over(a));
    let text = files.iter().find_map(|f| macro_text(f.1, objects.text(at)));
    (ours && text.is_some_and(pair)).then(|| untyped(objects, open, (0, None), files)).flatten()
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    fn holds(code: &str) -> bool {
        let text = format!("struct gate {{ long passed, weight; }};\nstruct gate gates[4], one;\n{code}\n");
        check("gate", None, Ask::LAYOUT, &[("g.c", &text)]).is_ok()
    }

    #[test]
    fn bytes_that_a_table_tells_are_seen() {
        let chunk = "struct chunk { const void *from; unsigned long bytes; };";
        assert!(!holds(&format!("{chunk}\nconst struct chunk all[] = {{ {{ gates, sizeof(gates) }} }};")));
        assert!(!holds(&format!("{chunk}\nstruct chunk c = {{ &one, sizeof(struct gate) }};")));
        assert!(!holds(&format!(
            "{chunk}\nstruct chunk c = {{ .bytes = 4 * sizeof(*gates), .from = gates }};"
        )));
        assert!(!holds(&format!("{chunk}\nstruct chunk c[] = {{ {{ 0, 0 }}, {{ &(one), sizeof(one) }} }};")));
        let by_macro = "#define CHUNK(x) { &(x), sizeof(x) }";
        assert!(!holds(&format!("{by_macro}\n{chunk}\nstruct chunk c[] = {{ CHUNK(gates) }};")));
        let typed = "struct part { struct gate *from; unsigned long n; };";
        assert!(holds(&format!("{typed}\nstruct part p = {{ gates, sizeof(gates) / sizeof(gates[0]) }};")));
        assert!(holds(&format!("{typed}\nstruct part p = {{ &one, sizeof(one) }};")));
        assert!(holds(&format!("{chunk}\nlong n;\nstruct chunk c = {{ &n, sizeof n }};")));
    }
}
