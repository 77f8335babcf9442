//! Sizes and alignments of a type that become data. Another size changes what a program prints, how many objects fit,
//! which branch it takes.

use super::bytes::carved_from;
use super::number::Numbers;
use super::objects::{Objects, is_scalar};

/// The first such use: its place, and a sentence.
pub(super) fn in_file(objects: &Objects<'_, '_>, files: &[(&str, &str)]) -> Option<(usize, String)> {
    let numbers = Numbers { code: &objects.code, files };
    ["sizeof", "alignof", "_Alignof", "__alignof__"]
        .iter()
        .find_map(|word| {
            objects.code.places(word).iter().find_map(|&i| {
                let end = measured(objects, i)?;
                let what = if *word == "sizeof" { "size" } else { "alignment" };
                let shown = || numbers.shown(i, end).map(|how| format!("its {what} {how}"));
                Some((i, bytes(objects, i).or_else(shown)?))
            })
        })
        .or_else(|| (1..objects.code.len()).find_map(|i| Some((i, counted(objects, i)?))))
}

/// Memory of so many bytes for objects: `malloc(24)`, `(struct s *)pool` of an array of numbers.
fn counted(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let word = objects.text(i);
    if matches!(word, "(" | "reinterpret_cast") {
        return carved_from(objects, i, is_scalar);
    }
    if !word.contains("alloc") || objects.text(i + 1) != "(" {
        return None;
    }
    let close = objects.code.closing(i + 1)?;
    let number = |j: usize| objects.text(j).starts_with(|c: char| c.is_ascii_digit());
    let sign = |j: usize| matches!(objects.text(j), "+" | "*" | "," | "(" | ")");
    let numbers = (i + 2..close).any(number) && (i + 2..close).all(|j| number(j) || sign(j));
    let (start, _) = objects.code.statement(i);
    let equal = (start..i).rev().find(|&j| objects.text(j) == "=")?;
    let cast = (equal..i).any(|j| objects.is_name(j));
    let last = equal - 1;
    let element =
        (objects.text(last) == "]").then(|| (start..last).rev().find(|&j| objects.text(j) == "[")).flatten();
    let target = element.map_or(last, |open| open - 1);
    let ours = cast || objects.is_object(target) || objects.is_variable_or_declared(target);
    (numbers && ours).then(|| format!("{word}() is told its size as a number"))
}

/// One past the operand of `sizeof` at `i`, if that is the type, an object or an array of them.
fn measured(objects: &Objects<'_, '_>, i: usize) -> Option<usize> {
    let parentheses = objects.text(i + 1) == "(";
    let end = if parentheses { objects.code.closing(i + 1)? + 1 } else { objects.code.operand_end(i + 1) };
    let (from, to) = if parentheses { (i + 2, end - 1) } else { (i + 1, end) };
    let mut at = from;
    while matches!(objects.text(at), "struct" | "const" | "class" | "union" | "volatile") {
        at += 1;
    }
    let named = objects.is_name(at) && objects.text(to - 1) != "*";
    (named || is_object(objects, from, to)).then_some(end)
}

/// The expression is an object or an array of them, and no pointer.
fn is_object(objects: &Objects<'_, '_>, from: usize, to: usize) -> bool {
    let stars =
        (from..to).take_while(|&j| matches!(objects.text(j), "*" | "(")).filter(|&j| objects.text(j) == "*");
    let stars = stars.count();
    let Some(at) = (from..to).find(|&j| !matches!(objects.text(j), "*" | "(")) else { return false };
    if objects.text(at) == "this" {
        return stars == 1 && at + 1 == to && objects.is_method(at);
    }
    let last = objects.path_end(at);
    let (mut end, mut subscripts) = (last + 1, 0);
    while objects.text(end) == "[" {
        let Some(close) = objects.code.matching(end, ["[", "]"], 100) else { return false };
        (end, subscripts) = (close + 1, subscripts + 1);
    }
    while end < to && objects.text(end) == ")" {
        end += 1;
    }
    end == to && objects.is_object(last) && objects.is_reached(last, stars + subscripts)
}

/// `char buf[sizeof(struct s)]`, unless that is aligned for it.
fn bytes(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let (start, end) = objects.code.statement(i);
    let open = (start..i).rev().find(|&j| matches!(objects.text(j), "[" | "]" | "(" | "="))?;
    let name = open.checked_sub(1).filter(|_| objects.text(open) == "[")?;
    let declared = objects.code.declaration(name)?;
    let aligned = (start..end).any(|j| matches!(objects.text(j), "alignas" | "_Alignas" | "aligned"));
    let bytes = matches!(objects.text(declared.ty), "char" | "uint8_t" | "u8" | "byte");
    (bytes && !aligned).then(|| format!("{} is an array of as many bytes", objects.text(name)))
}
