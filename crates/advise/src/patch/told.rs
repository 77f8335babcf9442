//! Places in an object that a number tells: functions that add it to the address they are given, and memory in which
//! somebody writes at numbers, too. What each function of the project does is noted once.

use std::collections::{BTreeMap, BTreeSet};

use super::body::Source;
use super::bytes::{FIXED_MIN, is_number};
use super::number::number;
use super::objects::{Objects, is_scalar};
use super::places::{is_value, operand};
use super::scan::Code;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// Functions of a project, by name.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<String, Function>);

/// What the definitions of one name do.
#[derive(Debug, Default)]
struct Function {
    /// Numbers of a parameter that points to bytes or numbers, and of one that is added to it.
    moves: BTreeSet<(usize, usize)>,
    /// It takes a pointer to numbers out of its `...`.
    numbers: bool,
    /// It returns a place in an array of numbers, which are stored one by one, too.
    array: bool,
    /// It does nothing but return the number of an address.
    address: bool,
}

impl Told {
    /// Of all functions in the files.
    pub(super) fn of(files: Files<'_>) -> Told {
        let mut out = Told::default();
        for (_, text) in files.iter().filter(|f| may_tell(f.1)) {
            let source = Source::new(text);
            let code = Code::new(&source);
            for (i, open, brace) in code.all_definitions() {
                let function = Function::of(&code, open, brace);
                if function.tells() {
                    out.0.entry(code.text(i).into()).or_default().add(function);
                }
            }
        }
        out
    }

    /// A sentence, if the call at `i` is of such a function.
    pub(super) fn call(&self, objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<String> {
        let name = objects.text(i);
        let function = self.0.get(name).filter(|_| objects.text(i + 1) == "(")?;
        if !objects.code.is_in_function(i) {
            return None;
        }
        let how = match () {
            () if function.is_told(objects, i, files) => "is told a place in it by a number",
            () if function.numbers && is_given(objects, i) => "takes it for numbers",
            () if function.array && becomes_object(objects, i) => "gives an array of numbers for it",
            () => return None,
        };
        Some(format!("{name}() {how}"))
    }

    /// `base()`, a function that does nothing but return the number of an address.
    pub(super) fn is_address(&self, objects: &Objects<'_, '_>, call: usize) -> bool {
        let empty = (objects.text(call + 1), objects.text(call + 2)) == ("(", ")");
        empty && self.0.get(objects.text(call)).is_some_and(|f| f.address)
    }
}

/// Only such texts have functions that are noted.
fn may_tell(text: &str) -> bool {
    ["+", "[", "va_arg", "0x"].iter().any(|w| text.contains(w)) && text.contains('{')
}

impl Function {
    /// What the definition does whose parameters begin at `open`, and its body at `brace`.
    fn of(code: &Code<'_, '_>, open: usize, brace: usize) -> Function {
        let (_, end) = code.function(brace + 1);
        let body = (brace + 1, end);
        Function {
            moves: moves(code, open, body),
            numbers: takes_numbers(code, body),
            array: gives_array(code, body),
            address: is_address(code, brace),
        }
    }

    fn tells(&self) -> bool {
        !self.moves.is_empty() || self.numbers || self.array || self.address
    }

    fn add(&mut self, other: Function) {
        self.moves.extend(other.moves);
        self.numbers |= other.numbers;
        self.array |= other.array;
        self.address |= other.address;
    }

    /// `get(&x, 4)`
    fn is_told(&self, objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> bool {
        let arguments = objects.arguments(i + 1);
        let given = |&(from, to): &(usize, usize)| {
            objects.is_address((from, to)) || (to == from + 1 && objects.is_object_as_void(from))
        };
        let number = |&(from, to): &(usize, usize)| {
            to == from + 1 && (is_number(objects, from, files) || is_counted_up(objects, from))
        };
        self.moves.iter().any(|&(address, by)| {
            arguments.get(address).is_some_and(given) && arguments.get(by).is_some_and(number)
        })
    }
}

/// An object's address is one of the arguments.
fn is_given(objects: &Objects<'_, '_>, i: usize) -> bool {
    objects.arguments(i + 1).iter().any(|&a| objects.is_address(a))
}

/// `struct s *r = map(0x1000);`, `(struct s *)map(0x1000)`
pub(super) fn becomes_object(objects: &Objects<'_, '_>, i: usize) -> bool {
    let assigned = || objects.text(i - 1) == "=" && objects.is_variable_or_declared(i - 2);
    let cast = || {
        let open = objects.code.cast_before(i - 1).filter(|_| objects.text(i - 1) == ")");
        open.is_some_and(|open| objects.names_type(open, i))
    };
    i > 2 && (assigned() || cast())
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

/// Which parameters are added to which others.
fn moves(code: &Code<'_, '_>, open: usize, (from, to): (usize, usize)) -> BTreeSet<(usize, usize)> {
    let parameters = code.arguments(open);
    let name = |&(_, end): &(usize, usize)| code.text(end - 1);
    // Pointers to structs go from one object to the next.
    let plain = |&(from, to): &(usize, usize)| {
        let pointer = (from..to).any(|k| matches!(code.text(k), "*" | "["));
        pointer && (from..to).any(|k| code.text(k) == "void" || is_scalar(code.text(k)))
    };
    let mut out = BTreeSet::new();
    for (address, _) in parameters.iter().enumerate().filter(|p| parameters.len() > 1 && plain(p.1)) {
        let pointer = name(&parameters[address]);
        for &j in code.places(pointer).iter().filter(|&&j| from <= j && j < to) {
            let moved = |p: &(usize, usize)| is_moved(code, j, name(p));
            out.extend(parameters.iter().position(moved).map(|by| (address, by)));
        }
    }
    out
}

/// `(const char *)p + n`, `((char *)p)[n]`, `n + (char *)p`
fn is_moved(code: &Code<'_, '_>, j: usize, by: &str) -> bool {
    let behind = (j + 1..j + 4).find(|&k| code.text(k) != ")").unwrap_or(j + 1);
    let first = code.text(behind + 1) == by && matches!(code.text(behind), "+" | "[");
    let before = (j.saturating_sub(8)..j).rev().find(|&k| code.text(k) == "+");
    first || before.is_some_and(|plus| code.text(plus - 1) == by && operand(code, plus + 1) == j)
}

/// `va_arg(ap, const int *)`
fn takes_numbers(code: &Code<'_, '_>, (from, to): (usize, usize)) -> bool {
    let mut taken = code.places("va_arg").iter().filter(|&&j| from <= j && j < to);
    taken.any(|&j| {
        let ty = code.arguments(j + 1).get(1).copied();
        let number = |k: usize| is_scalar(code.text(k)) && code.text(k) != "char";
        ty.is_some_and(|(from, to)| code.text(to - 1) == "*" && (from..to).any(number))
    })
}

/// `return file + (at & 15);` of an array of numbers that is stored to by subscripts.
fn gives_array(code: &Code<'_, '_>, (from, to): (usize, usize)) -> bool {
    let mut returns = code.places("return").iter().filter(|&&j| from <= j && j < to);
    returns.any(|&j| {
        let value = (j + 1..j + 8).find(|&k| code.is_word(k) && is_value(code, operand(code, k)));
        // `return make(buffer)` returns something else.
        let given = |v: usize| (j + 2..v).any(|k| code.text(k) == "(" && code.is_word(k - 1));
        value.is_some_and(|v| !given(v) && is_written(code, v))
    })
}

/// The word at `at` is an array of numbers that is stored to by subscripts.
fn is_written(code: &Code<'_, '_>, at: usize) -> bool {
    let Some((declared, d)) = code.variable_at(code.text(at), at) else { return false };
    let array = code.text(declared + 1) == "[" && is_scalar(code.text(d.ty)) && d.depth == 1;
    let stays = !code.is_in_function(declared) || code.is_declared_static(declared);
    array
        && stays
        && code.places(code.text(at)).iter().any(|&j| {
            let close = code.matching(j + 1, ["[", "]"], 40).filter(|_| code.text(j + 1) == "[");
            close.is_some_and(|c| code.text(c + 1) == "=" && code.text(c + 2) != "=")
        })
}

/// `{ return 0x40011000; }`
fn is_address(code: &Code<'_, '_>, brace: usize) -> bool {
    let value = (brace + 2..brace + 6).find(|&j| !matches!(code.text(j), "(" | "+"));
    code.text(brace + 1) == "return"
        && value.is_some_and(|v| {
            code.text(v).starts_with("0x")
                && number(code.text(v)).is_some_and(|a| a >= FIXED_MIN)
                && code.text(v + 1) != "+"
        })
}
