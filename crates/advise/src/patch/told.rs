//! Places in an object that a number tells: functions that add it to the address they are given, and memory in which
//! somebody writes at numbers, too.

use super::body::Source;
use super::bytes::is_number;
use super::neighbours::may_be_function;
use super::objects::{Objects, is_scalar};
use super::places::{is_value, operand};
use super::scan::Code;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// A sentence, if the call at `i` is of such a function.
pub(super) fn call(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<String> {
    let name = objects.text(i);
    if !objects.code.is_word(i) || objects.text(i + 1) != "(" || !objects.code.is_in_function(i) {
        return None;
    }
    let how = match () {
        () if by_number(objects, i, files) => "is told a place in it by a number",
        () if among_others(objects, i, files) => "takes it for numbers",
        () if from_numbers(objects, i, files) => "gives an array of numbers for it",
        () => return None,
    };
    Some(format!("{name}() {how}"))
}

/// `get(&x, 4)`
fn by_number(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
    let name = objects.text(i);
    let arguments = objects.arguments(i + 1);
    let number = |&(from, to): &(usize, usize)| {
        to == from + 1 && (is_number(objects, from, files) || is_counted_up(objects, from))
    };
    let given = |&(from, to): &(usize, usize)| {
        objects.is_address((from, to)) || (to == from + 1 && objects.is_object_as_void(from))
    };
    let Some(address) = arguments.iter().position(given) else { return false };
    let numbers: Vec<usize> = (0..arguments.len()).filter(|&n| number(&arguments[n])).collect();
    !numbers.is_empty()
        && defined(files, name, |code, (open, brace)| {
            let parameters = code.arguments(open);
            let last = |n: usize| parameters.get(n).map(|p| code.text(p.1 - 1));
            let Some(pointer) = last(address) else { return false };
            let (_, end) = code.function(brace + 1);
            let mut places = (brace + 1..end).filter(|&j| code.text(j) == pointer);
            places.any(|j| numbers.iter().filter_map(|&n| last(n)).any(|number| is_moved(code, j, number)))
        })
}

/// `control(SET, &x)`, where the function takes a pointer to numbers out of its `...`.
fn among_others(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
    let given = objects.arguments(i + 1).iter().any(|&a| objects.is_address(a));
    given
        && defined(files, objects.text(i), |code, (_, brace)| {
            let (_, end) = code.function(brace + 1);
            let mut taken = code.places("va_arg").iter().filter(|&&j| brace < j && j < end);
            taken.any(|&j| {
                let ty = code.arguments(j + 1).get(1).copied();
                let number = |k: usize| is_scalar(code.text(k)) && code.text(k) != "char";
                ty.is_some_and(|(from, to)| code.text(to - 1) == "*" && (from..to).any(number))
            })
        })
}

/// `at += 4`: the variable goes over all places.
fn is_counted_up(objects: &Objects<'_, '_>, i: usize) -> bool {
    let (from, to) = objects.function(i);
    let text = |j: usize| objects.text(j);
    let mut places = objects.code.places(text(i)).iter().filter(|&&j| from <= j && j < to);
    places.any(|&j| {
        let before = (text(j - 1), text(j.saturating_sub(2)));
        matches!((text(j + 1), text(j + 2)), ("+", "+" | "=")) || before == ("+", "+")
    })
}

/// `(const char *)p + n`, `((char *)p)[n]`, `n + (char *)p`
fn is_moved(code: &Code<'_, '_>, j: usize, by: &str) -> bool {
    let behind = (j + 1..j + 4).find(|&k| code.text(k) != ")").unwrap_or(j + 1);
    let first = code.text(behind + 1) == by && matches!(code.text(behind), "+" | "[");
    let before = (j.saturating_sub(8)..j).rev().find(|&k| code.text(k) == "+");
    first || before.is_some_and(|plus| code.text(plus - 1) == by && operand(code, plus + 1) == j)
}

/// `struct s *r = map(0x1000);` where `map` returns a place in an array of numbers, which are stored one by one, too.
fn from_numbers(objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
    let name = objects.text(i);
    let assigned = || objects.text(i - 1) == "=" && objects.is_variable_or_declared(i - 2);
    let cast = || {
        let open = objects.code.cast_before(i - 1).filter(|_| objects.text(i - 1) == ")");
        open.is_some_and(|open| objects.names_type(open, i))
    };
    if i < 3 || !(assigned() || cast()) {
        return false;
    }
    defined(files, name, |code, (_, brace)| {
        let (_, end) = code.function(brace + 1);
        let mut returns = code.places("return").iter().filter(|&&j| brace < j && j < end);
        returns.any(|&j| {
            let value = (j + 1..j + 8).find(|&k| code.is_word(k) && is_value(code, operand(code, k)));
            value.is_some_and(|v| is_written(code, v))
        })
    })
}

/// The word at `at` is an array of numbers that is stored to by subscripts or has numbers from its beginning on.
fn is_written(code: &Code<'_, '_>, at: usize) -> bool {
    let Some((declared, d)) = code.variable_at(code.text(at), at) else { return false };
    let array = code.text(declared + 1) == "[" && is_scalar(code.text(d.ty)) && d.depth == 1;
    array
        && code.places(code.text(at)).iter().any(|&j| {
            let close = code.matching(j + 1, ["[", "]"], 40).filter(|_| code.text(j + 1) == "[");
            close.is_some_and(|c| code.text(c + 1) == "=" && code.text(c + 2) != "=")
        })
}

/// One of the files defines the function `name` so.
fn defined(files: Files<'_>, name: &str, so: impl Fn(&Code<'_, '_>, (usize, usize)) -> bool) -> bool {
    files.iter().filter(|f| may_be_function(f.1, name)).any(|f| {
        let source = Source::new(f.1);
        let code = Code::new(&source);
        code.definitions(name).any(|d| so(&code, d))
    })
}
