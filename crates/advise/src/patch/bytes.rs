//! Uses that look at an object's bytes without moving them out of the process: hashes, comparisons, copies into
//! buffers, casts to numbers, inline assembly. Any other layout may change what they give.

mod tabled;

use super::assembly::{variable, words};
use super::handed::{is_cast_back, is_typed_parameter};
use super::held::is_same_or_around;
use super::neighbours::{macro_text, members_in};
use super::number::number;
use super::objects::{Objects, Pointee, is_scalar};
use super::scan::is_typeof;
use super::told::becomes_object;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// Parts of names of functions that take an object and its size and only make, clear, copy or order it as a whole.
const KEEPS: [&str; 25] = [
    "alloc", "new", "free", "dup", "clone", "zero", "memset", "memcpy", "memmove", "sort", "search", "init",
    "assert", "swap", "printf", "create", "cache", "register", "unmap", "delete", "sizeof", "poison",
    "kasan", "kmsan", "prefetch",
];

/// Numbers below are no addresses but marks.
pub(super) const FIXED_MIN: u64 = 0x1000;

/// The first use that looks at the bytes of objects: its place, and a sentence.
pub(super) fn in_file(objects: &Objects<'_, '_>, files: Files<'_>) -> Option<(usize, String)> {
    (0..objects.code.len()).find_map(|i| Some((i, seen(objects, i, files)?)))
}

/// A sentence, if the use at `i` looks at bytes.
fn seen(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<String> {
    match objects.text(i) {
        "(" | "reinterpret_cast" | "static_cast" => {
            cast(objects, i, files).or_else(|| carved(objects, i)).or_else(|| fixed(objects, i))
        }
        "is_pointer_interconvertible_with_class"
        | "is_corresponding_member"
        | "is_layout_compatible"
        | "is_layout_compatible_v" => {
            let (start, end) = objects.code.statement(i);
            objects.names_type(start, end).then(|| format!("{} asks for its first members", objects.text(i)))
        }
        "asm" | "__asm__" | "__asm" => assembly(objects, i),
        "{" => tabled::at(objects, i, files),
        _ if objects.code.is_word(i) => {
            let told = || objects.passed().told.call(objects, i, files);
            call(objects, i, files).or_else(told).or_else(|| parsed(objects, i))
        }
        _ => None,
    }
}

/// `(const char *)&x` and what becomes of it: distances and places of members are none of the layout's order.
fn cast(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<String> {
    let cast = objects.cast(i)?;
    let Pointee::Scalar(word) = cast.pointee else { return None };
    // `((char *)x) + at`
    let (mut first, mut end) = (i, cast.end);
    while first > 0
        && (objects.text(first - 1), objects.text(end)) == ("(", ")")
        && !(first > 1 && objects.code.is_word(first - 2) && objects.text(first - 2) != "return")
    {
        (first, end) = (first - 1, end + 1);
    }
    let behind = objects.text(end);
    let before = first.checked_sub(1).map_or("", |b| objects.text(b));
    let moved = matches!(behind, "+" | "-") && !is_number(objects, end + 1, files);
    let distance = matches!(before, "-" | "<" | ">") || matches!(behind, "<" | ">");
    let kept = objects.named_call_around(i, cast.end).is_some_and(|f| {
        let read = objects.arguments(f + 1).iter().any(|a| a.0 <= i && i < a.1 && objects.text(a.0) == "*");
        let next = (cast.end..cast.end + 4).find(|&j| objects.text(j) != ")");
        keeps(objects.text(f)) && !read && next.is_none_or(|j| objects.text(j) != "[")
    });
    let freed = before == "=" && behind == ";" && is_freed(objects, i - 2);
    let harmless = moved || distance || kept || freed || is_cast_back(objects, &cast, files);
    (!harmless).then(|| format!("it is read through a pointer to {word}"))
}

/// The operand at `i` is a number that somebody wrote: at once, by a macro, or as the value of a constant or a table.
pub(super) fn is_number(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
    let digit = |t: &str| t.starts_with(|c: char| c.is_ascii_digit());
    // `(4)`, as macros leave it.
    let i = (i..i + 3).find(|&j| objects.text(j) != "(").unwrap_or(i);
    let word = objects.text(i);
    if !objects.code.is_word(i) {
        return digit(word);
    }
    let text = files.iter().find_map(|f| macro_text(f.1, word));
    if text.is_some_and(|t| digit(t.trim_start_matches([' ', '\t', '(']))) {
        return true;
    }
    // `enum { AT = 4 }`, `size_t at = 4`, `at[] = { 0, 4 }`; what begins with 0 counts up.
    let given = |&j: &usize| {
        let is =
            (j + 1..j + 8).take_while(|&k| !matches!(objects.text(k), ";" | "(" | ")" | "{")).find(|&k| {
                objects.text(k) == "="
                    && objects.text(k + 1) != "="
                    && (k == j + 1 || objects.text(k - 1) == "]")
            });
        let Some(at) = is else { return false };
        let list = objects.text(at + 1) == "{";
        let end = |k: &usize| !matches!(objects.text(*k), ";" | "}") && (list || objects.text(*k) != ",");
        let tokens = (at + 1 + usize::from(list)..objects.code.len()).take(64).take_while(end);
        let mut value = tokens.map(|k| objects.text(k));
        value.clone().all(|t| digit(t) || t == ",") && value.any(|t| digit(t) && t != "0")
    };
    objects.code.places(word).iter().any(given) || is_listed(objects, i, files)
}

/// `f->at`, a member for which a table of such structs has numbers: `{ { "a", 0 }, { "b", 4 } }`.
fn is_listed(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
    let code = &objects.code;
    let last = objects.path_end(i);
    let Some(holder) = code.variable(objects.text(i), i).filter(|_| last > i) else { return false };
    let members = members_in(files, objects.text(holder.ty));
    let Some(index) = members.iter().position(|m| m.name == objects.text(last)) else { return false };
    let digit = |j: usize| objects.text(j).starts_with(|c: char| c.is_ascii_digit() && c != '0');
    let row = |open: usize| {
        let close = code.matching(open, ["{", "}"], 200).unwrap_or(open);
        let mut items: Vec<usize> = vec![open + 1];
        items.extend((open + 1..close).filter(|&j| objects.text(j) == ",").map(|j| j + 1));
        let named = |&j: &usize| objects.text(j) == "." && objects.text(j + 1) == objects.text(last);
        let value = items.iter().copied().find(named).map(|j| j + 3).or_else(|| items.get(index).copied());
        value.is_some_and(digit)
    };
    let tables = code.places(objects.text(holder.ty)).iter().filter(|&&t| objects.text(t + 2) == "[");
    tables.into_iter().any(|&t| {
        let open = (t..t + 12).find(|&j| objects.text(j) == "{");
        let end = open.and_then(|o| code.matching(o, ["{", "}"], 4000));
        open.zip(end).is_some_and(|(o, e)| (o + 1..e).any(|j| objects.text(j) == "{" && row(j)))
    })
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
    let bytes = carved_from(objects, i, is_byte);
    let filled = |name: &&str| objects.code.places(name).iter().any(|&j| is_filled(objects, j));
    bytes.or_else(|| carved_from(objects, i, is_scalar).filter(filled)).map(place_of_bytes)
}

/// `const struct s *p = pull(packet, 4)`, where `packet` has numbers of its own.
fn parsed(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    if objects.text(i + 1) != "(" || !becomes_object(objects, i) {
        return None;
    }
    let filled = |&(from, to): &(usize, usize)| {
        let (at, declared) = objects.code.variable_at(objects.text(from), from)?;
        let bytes = is_byte(objects.text(declared.ty)) && declared.depth == 1 && objects.text(at + 1) == "[";
        (to == from + 1 && bytes && is_filled(objects, at)).then(|| objects.text(from))
    };
    objects.arguments(i + 1).iter().find_map(filled).map(place_of_bytes)
}

/// A type of bytes, by its name.
pub(super) fn is_byte(word: &str) -> bool {
    matches!(word, "char" | "uint8_t" | "u8" | "byte")
}

pub(super) fn place_of_bytes(name: &str) -> String {
    format!("{name} is a place of so many bytes for it")
}

/// The array at `j` has numbers of its own: `bus[4] = { 1, 2 }`, `bus[] = { 1, 2 }`.
fn is_filled(objects: &Objects<'_, '_>, j: usize) -> bool {
    let close = objects.code.matching(j + 1, ["[", "]"], 20).filter(|_| objects.text(j + 1) == "[");
    let open = close.filter(|c| (objects.text(c + 1), objects.text(c + 2)) == ("=", "{")).map(|c| c + 2);
    let end = open.and_then(|o| objects.code.matching(o, ["{", "}"], 400));
    let number = |k: usize| objects.text(k).starts_with(|c: char| c.is_ascii_digit() && c != '0');
    open.zip(end).is_some_and(|(o, e)| (o..e).any(number))
}

/// The name of `pool`, whose elements are of a type that `is_element`.
pub(super) fn carved_from<'a>(
    objects: &Objects<'_, 'a>,
    i: usize,
    is_element: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let reinterpret = objects.text(i) == "reinterpret_cast";
    let close = match reinterpret {
        true => (i..i + 10).find(|&j| objects.text(j) == ">")?,
        false => objects.code.closing(i)?,
    };
    let void = objects.text(close - 1) == "*" && objects.text(close - 2) == "void";
    let to_void = void && i > 1 && objects.text(i - 1) == "=" && objects.is_variable_or_declared(i - 2);
    let ours = to_void || objects.names_type(i, close) && objects.text(close - 1) == "*" && close - i < 8;
    let value = close + 1 + usize::from(reinterpret);
    // `&pool[0]`, `(pool + 16)`
    let placed = objects.text(value) == "("
        && objects.text(value + 2) == "+"
        && objects.text(value + 3).starts_with(|c: char| c.is_ascii_digit());
    let taken = objects.text(value) == "&" && objects.text(value + 2) == "[";
    let value = value + usize::from(placed || taken);
    if !ours || !objects.code.is_word(value) {
        return None;
    }
    let name = objects.text(value);
    let (at, declared) = objects.code.variable_at(name, value)?;
    if !is_element(objects.text(declared.ty)) || declared.depth != 1 {
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
    (fixed || (from..to).any(counted)).then_some(name)
}

/// `((struct uart *)0x40011000)`: hardware, or something else that is laid out elsewhere.
fn fixed(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let close = if objects.text(i) == "(" {
        objects.code.closing(i)?
    } else {
        (i..i + 12).find(|&j| objects.text(j) == ">")?
    };
    let ours = objects.names_type(i, close) && objects.text(close - 1) == "*" && close - i < 12;
    let value = (close + 1..close + 4).find(|&j| objects.text(j) != "(").filter(|_| ours)?;
    let hexadecimal = objects.text(value).starts_with("0x") || objects.text(value).starts_with("0X");
    if objects.code.is_word(value) {
        let told = objects.passed().told.is_address(objects, value);
        return told.then(|| format!("{}() returns the number of an address for it", objects.text(value)));
    }
    let address = number(objects.text(value)).filter(|_| hexadecimal);
    let ends = matches!(objects.text(value + 1), ")" | ";" | "," | "+" | "-");
    (ends && address.is_some_and(|a| a >= FIXED_MIN)).then(|| "it lies at an address that is a number".into())
}

pub(super) fn keeps(function: &str) -> bool {
    let lower = function.to_lowercase();
    KEEPS.iter().any(|k| lower.contains(k))
}

/// `asm("..." : : "r"(&x))`.
fn assembly(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let open = (i + 1..i + 4).find(|&j| objects.text(j) == "(")?;
    let close = objects.code.closing(open)?;
    // `"r"(p)`: behind its constraint, and not the argument of a call; `"=r"(p)` sets the pointer.
    let operand = |j: usize| {
        let constraint = objects.text(j - 1);
        let constrained =
            objects.text(j) == "(" && constraint.ends_with('"') && !constraint.starts_with("\"=");
        constrained && objects.code.closing(j).is_some_and(|end| objects.is_address((j + 1, end)))
    };
    if (open + 1..close).any(operand) {
        return Some("assembly is given its address".into());
    }
    // `asm("movl g+4(%rip), %eax")`
    let strings: Vec<&str> =
        (open + 1..close).map(|j| objects.text(j)).filter(|t| t.ends_with('"')).collect();
    let given = |w: &str| {
        let calls = objects.code.places(w).iter().filter(|&&j| objects.text(j + 1) == "(");
        calls.into_iter().any(|&j| objects.arguments(j + 1).iter().any(|a| is_given(objects, *a)))
    };
    let mut labels = strings.iter().flat_map(|t| labels(t));
    if let Some(function) = labels.find(|w| given(w)).filter(|_| !objects.code.is_in_function(i)) {
        return Some(format!("assembly defines {function}(), which is given its address"));
    }
    let displaced = strings.iter().any(|t| has_displacement(t));
    // A pointer is only loaded, unless something is read behind it: `ldr %0, [%1, #4]`.
    let sees = |j: usize| variable(objects, j).is_some() && (objects.text(j - 1) != "*" || displaced);
    let of_type = |w: &&str| objects.code.places(w).iter().any(|&j| sees(j));
    let named = strings.into_iter().flat_map(words).find(of_type);
    named.map(|w| format!("assembly names {w}"))
}

/// The labels in a string of assembly: `"peek:\n ret"`.
fn labels(text: &str) -> impl Iterator<Item = &str> {
    let words = text.trim_matches('"').split("\\n").flat_map(|l| l.split([';', '\t', ' ']));
    words.filter_map(|w| w.strip_suffix(':'))
}

/// The text of assembly reads at a number of bytes behind an address: `4(%rax)`, `[x0, #4]`, `8 + %1`.
fn has_displacement(text: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let before = text.match_indices('(').any(|(at, _)| digit(text[..at].chars().next_back()));
    let behind = |sign: char| {
        let mut signs = text.match_indices(sign);
        signs.any(|(at, _)| digit(text[at + 1..].trim_start().chars().next()))
    };
    before || behind('#') || behind('+')
}

/// Calls with an object and its size, and those that exist to see bytes.
fn call(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<String> {
    let word = objects.text(i);
    if matches!(word, "bit_cast" | "as_bytes" | "as_writable_bytes" | "__builtin_bit_cast") {
        let (start, end) = objects.code.statement(i);
        let object = (start..end).any(|j| objects.is_name(j) || objects.is_object(j));
        return object.then(|| format!("{word} shows its bytes"));
    }
    // `.key_len = sizeof(struct key)`: of a table that hashes.
    if word.contains("key") && (word.contains("len") || word.contains("size")) && objects.text(i + 1) == "=" {
        let whole =
            objects.text(i + 2) == "sizeof" && objects.measures(i + 2, objects.code.operand_end(i + 2));
        return whole.then(|| format!("its bytes are a key: {word} is its size"));
    }
    if objects.text(i + 1) != "(" || is_declaration(objects, i) {
        return None;
    }
    let arguments = objects.arguments(i + 1);
    if word == "__builtin_dump_struct" {
        return arguments
            .first()
            .filter(|a| is_given(objects, **a))
            .map(|_| format!("{word}() prints its members"));
    }
    let sized = |&(from, to): &(usize, usize)| {
        (from..to).find(|&j| objects.text(j) == "sizeof" && objects.measures(j, to)).map(|j| (j, to))
    };
    let measured = arguments.iter().find_map(sized)?;
    match word {
        "memcmp" | "bcmp" => Some(format!("{word}() compares its bytes")),
        "memcpy" | "memmove" | "__builtin_memcpy" | "std" => copied(objects, &arguments, word),
        _ if takes(word) => copied(objects, &arguments, word),
        _ if keeps(word) => None,
        _ => {
            // `hash((char *)p + offsetof(struct entry, key), sizeof(struct key))`
            let placed = |a: &(usize, usize)| {
                let offset = |j: usize| matches!(objects.text(j), "offsetof" | "__builtin_offsetof");
                (a.0 + 1..a.1).any(|j| offset(j) && objects.text(j - 1) == "+")
            };
            if arguments.iter().any(placed) {
                return Some(format!("{word}() is given its bytes"));
            }
            let mut given = arguments.iter().enumerate().filter(|(_, a)| is_given(objects, **a));
            let passed = given.any(|(n, a)| {
                !is_another(objects, measured, *a, files) || !is_typed_parameter(objects, word, n, files)
            });
            passed.then(|| format!("{word}() is given its bytes"))
        }
    }
}

/// The size in the one argument is that of another type than the object in the other one, and neither holds the other.
fn is_another(
    objects: &Objects<'_, '_>,
    size: (usize, usize),
    object: (usize, usize),
    files: Files<'_>,
) -> bool {
    // Classes have bases, which begin where they do.
    if objects.code.is_cpp() {
        return false;
    }
    match (objects.type_in(size), objects.type_in(object)) {
        (Some(a), Some(b)) => !is_same_or_around(a, b, files),
        _ => false,
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
