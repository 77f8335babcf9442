//! Uses that look at an object's bytes without moving them out of the process: hashes, comparisons, copies into
//! buffers, casts to numbers, inline assembly. Any other layout may change what they give.

use super::objects::{Objects, Pointee};
use super::scan::is_typeof;

/// Parts of names of functions that take an object and its size and only make, clear, copy or order it as a whole.
const KEEPS: [&str; 25] = [
    "alloc", "new", "free", "dup", "clone", "zero", "memset", "memcpy", "memmove", "sort", "search", "init",
    "assert", "swap", "printf", "create", "cache", "register", "unmap", "delete", "sizeof", "poison",
    "kasan", "kmsan", "prefetch",
];

/// The first use that looks at the bytes of objects: its place, and a sentence.
pub(super) fn in_file(objects: &Objects<'_, '_>) -> Option<(usize, String)> {
    (0..objects.code.len()).find_map(|i| Some((i, seen(objects, i)?)))
}

/// A sentence, if the use at `i` looks at bytes.
fn seen(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    match objects.text(i) {
        "(" | "reinterpret_cast" | "static_cast" => cast(objects, i).or_else(|| carved(objects, i)),
        "has_unique_object_representations" | "has_unique_object_representations_v" => {
            let close = objects.code.matching(i + 1, ["<", ">"], 20)?;
            objects.names_type(i + 1, close).then(|| "it is asked whether it has padding".into())
        }
        "asm" | "__asm__" | "__asm" => assembly(objects, i),
        _ if objects.code.is_word(i) => call(objects, i),
        _ => None,
    }
}

/// `(const char *)&x` and what becomes of it: distances and places of members are none of the layout's order.
fn cast(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let cast = objects.cast(i)?;
    let Pointee::Scalar(word) = cast.pointee else { return None };
    let behind = objects.text(cast.end);
    let before = i.checked_sub(1).map_or("", |b| objects.text(b));
    let moved =
        matches!(behind, "+" | "-") && !objects.text(cast.end + 1).starts_with(|c: char| c.is_ascii_digit());
    let distance = matches!(before, "-" | "<" | ">") || matches!(behind, "<" | ">");
    let passed = (0..i).rev().take(40).take_while(|&j| !matches!(objects.text(j), ";" | "{" | "}"));
    let kept = passed
        .filter(|&j| objects.code.is_word(j) && objects.text(j + 1) == "(")
        .any(|j| keeps(objects.text(j)));
    let freed = before == "=" && behind == ";" && is_freed(objects, i - 2);
    (!moved && !distance && !kept && !freed).then(|| format!("it is read through a pointer to {word}"))
}

/// The variable at `variable` is only given back: `delete[] p`, `free(p)`.
fn is_freed(objects: &Objects<'_, '_>, variable: usize) -> bool {
    let (from, to) = objects.function(variable);
    let places = objects.code.places(objects.text(variable));
    let mut uses = places.iter().filter(|&&j| j != variable && (from..to).contains(&j)).peekable();
    uses.peek().is_some()
        && uses.all(|&j| {
            let before =
                (objects.text(j - 1), objects.text(j.saturating_sub(2)), objects.text(j.saturating_sub(3)));
            let deleted = matches!(before, ("delete", ..) | ("]", "[", "delete"));
            deleted || (before.0 == "(" && keeps(before.1) && objects.text(j + 1) == ")")
        })
}

/// `(struct s *)pool` where `pool` is an array of so many bytes, or memory in which bytes are counted.
fn carved(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let reinterpret = objects.text(i) == "reinterpret_cast";
    let close = match reinterpret {
        true => (i..i + 10).find(|&j| objects.text(j) == ">")?,
        false => objects.code.closing(i)?,
    };
    let ours = objects.names_type(i, close) && objects.text(close - 1) == "*" && close - i < 8;
    let value = close + 1 + usize::from(reinterpret);
    if !ours || !objects.code.is_word(value) {
        return None;
    }
    let name = objects.text(value);
    let (at, declared) = objects.code.variable_at(name, value)?;
    if !matches!(objects.text(declared.ty), "char" | "uint8_t" | "u8" | "byte") || declared.depth != 1 {
        return None;
    }
    let counted = |j: usize| {
        objects.text(j) == name
            && objects.text(j + 1) == "+"
            && objects.text(j + 2).starts_with(|c: char| c.is_ascii_digit() && c != '0')
    };
    let (from, to) = objects.function(value);
    let fixed = objects.text(at + 1) == "["
        && !(at..at + 40).take_while(|&j| objects.text(j) != ";").any(|j| objects.text(j) == "sizeof");
    (fixed || (from..to).any(counted)).then(|| format!("{name} is a place of so many bytes for it"))
}

pub(super) fn keeps(function: &str) -> bool {
    let lower = function.to_lowercase();
    KEEPS.iter().any(|k| lower.contains(k))
}

/// `asm("..." : : "r"(&x))`.
fn assembly(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let open = (i + 1..i + 4).find(|&j| objects.text(j) == "(")?;
    let close = objects.code.closing(open)?;
    // `"r"(p)`: behind its constraint, and not the argument of a call.
    let operand = |j: usize| {
        let constrained = objects.text(j) == "(" && objects.text(j - 1).ends_with('"');
        constrained && objects.code.closing(j).is_some_and(|end| objects.is_address((j + 1, end)))
    };
    (open + 1..close).any(operand).then(|| "assembly is given its address".to_string())
}

/// Calls with an object and its size, and those that exist to see bytes.
fn call(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let word = objects.text(i);
    if matches!(word, "bit_cast" | "as_bytes" | "as_writable_bytes" | "__builtin_bit_cast") {
        let (start, end) = objects.code.statement(i);
        let object = (start..end).any(|j| objects.is_name(j) || objects.is_object(j));
        return object.then(|| format!("{word} shows its bytes"));
    }
    if objects.text(i + 1) != "(" || is_declaration(objects, i) {
        return None;
    }
    let arguments = objects.arguments(i + 1);
    let sized = |&(from, to): &(usize, usize)| {
        (from..to).any(|j| objects.text(j) == "sizeof" && objects.measures(j, to))
    };
    if !arguments.iter().any(sized) {
        return None;
    }
    match word {
        "memcmp" | "bcmp" => Some(format!("{word}() compares its bytes")),
        "memcpy" | "memmove" | "__builtin_memcpy" | "std" => copied(objects, &arguments, word),
        _ if takes(word) => copied(objects, &arguments, word),
        _ if keeps(word) => None,
        _ => {
            let passed = arguments.iter().any(|a| is_given(objects, *a));
            passed.then(|| format!("{word}() is given its bytes"))
        }
    }
}

/// `int f(struct s *s, size_t n)`: parameters, not arguments.
fn is_declaration(objects: &Objects<'_, '_>, i: usize) -> bool {
    i > 0
        && (objects.code.is_word(i - 1) && !matches!(objects.text(i - 1), "return" | "else" | "case" | "do"))
}

/// Names of functions that copy.
fn takes(function: &str) -> bool {
    let lower = function.to_lowercase();
    ["dup", "clone", "memcpy", "memmove"].iter().any(|w| lower.contains(w)) && !lower.contains("free")
}

/// The argument is the address of an object, also behind a `void *`.
fn is_given(objects: &Objects<'_, '_>, argument: (usize, usize)) -> bool {
    let untyped = argument.1 == argument.0 + 1 && objects.is_object_as_void(argument.0);
    untyped || objects.is_address(argument)
}

/// A copy between an object and an array of bytes.
fn copied(objects: &Objects<'_, '_>, arguments: &[(usize, usize)], word: &str) -> Option<String> {
    let (to, from) = (arguments.first()?, arguments.get(1)?);
    let object = is_given(objects, *to) || is_given(objects, *from);
    let other =
        [to, from].into_iter().find_map(|a| if is_given(objects, *a) { None } else { other(objects, *a) });
    other.filter(|_| object).map(|o| {
        let bytes = matches!(o, "char" | "uint8_t" | "u8" | "byte" | "unsigned");
        format!("{word}() copies its bytes from or to {}", if bytes { "an array of bytes" } else { o })
    })
}

/// The type of the variable in the argument, where that is not this type and not `void`.
fn other<'a>(objects: &Objects<'_, 'a>, (from, to): (usize, usize)) -> Option<&'a str> {
    let word =
        (from..to).find(|&j| objects.code.is_word(j) && !matches!(objects.text(j), "std" | "addressof"))?;
    let declared = objects.code.variable(objects.text(word), word)?;
    let behind = objects.text(declared.ty + 1);
    let ty = if behind == "<" { objects.text(declared.ty + 2) } else { objects.text(declared.ty) };
    // A path leads to what is not seen here.
    let whole =
        word + 1 == to || objects.text(word + 1) == "[" || (behind == "<" && objects.text(word + 1) == ".");
    let address = objects.text(from) == "&" || declared.depth > 0 || behind == "<";
    let unknown = matches!(ty, "void" | "auto" | "__auto_type" | "std" | "T") || is_typeof(ty);
    (whole && address && !unknown && !objects.is_name(declared.ty) && !objects.is_object(word)).then_some(ty)
}

#[cfg(test)]
#[path = "bytes_tests.rs"]
mod tests;
