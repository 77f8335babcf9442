//! Functions that are given the address of a member, and reach others from there.

use super::body::Source;
use super::neighbours::{Member, Uses, macro_text, may_be_function, members_in};
use super::objects::is_scalar;
use super::scan::{Code, is_number_type};

/// Parts of names of functions that are given one number by its address.
const SINGLE: [&str; 10] = ["atomic", "sync", "add", "inc", "sub", "set", "store", "futex", "xchg", "init"];

/// The standard library's functions of a first and a last element.
const RANGES: [&str; 22] = [
    "accumulate",
    "reduce",
    "sort",
    "stable_sort",
    "copy",
    "fill",
    "for_each",
    "find",
    "find_if",
    "count",
    "count_if",
    "max_element",
    "min_element",
    "reverse",
    "rotate",
    "transform",
    "iota",
    "equal",
    "inner_product",
    "partial_sum",
    "adjacent_difference",
    "distance",
];

/// Containers that are made of a first and a last element.
const CONTAINERS: [&str; 6] = ["vector", "span", "deque", "list", "set", "basic_string"];

impl Uses<'_, '_, '_> {
    /// `sum(&x->a, 3)`, where `a` stands beside members of its type and the function goes on from there.
    pub(super) fn is_walked_by_callee(&self, member: &Member, first: usize, last: usize) -> bool {
        let objects = self.objects;
        let Some((open, index)) = self.call_of(first, last).filter(|_| self.is_run(member)) else {
            return false;
        };
        let name = objects.text(open - 1);
        let arguments = objects.arguments(open);
        self.is_run_of(member, arguments.get(index + 1), name)
            || objects.code.walks_parameter(name, index)
            || self.is_walked_unseen(member, open, index)
            || walks_from(self.files, name, index)
            || arguments.iter().any(|&a| self.is_walking_function(a))
            || self.is_walked_by_class(open)
    }

    /// `each(show, &x->a)`: the argument is a function that goes on from its first parameter.
    fn is_walking_function(&self, (from, to): (usize, usize)) -> bool {
        let word = self.objects.text(from);
        to == from + 1 && self.objects.code.is_word(from) && walks_from(self.files, word, 0)
    }

    /// `cursor(&x->a)`, `cursor c{&x->a}`: a class of the sources keeps the address in a member from which it goes on.
    /// The parentheses or braces are at `open`.
    pub(super) fn is_walked_by_class(&self, open: usize) -> bool {
        let code = &self.objects.code;
        let class = |j: usize| code.is_word(j).then(|| code.text(j));
        let named = [open.checked_sub(1), open.checked_sub(2)].into_iter().flatten().filter_map(class);
        let kept = named.flat_map(|name| members_in(self.files, name)).filter(|m| m.ty.ends_with('*'));
        kept.into_iter().any(|m| self.is_stepped_member(&m.name, None))
    }

    /// Somewhere a pointer that is a member of this name is moved or indexed, of an object of type `ty`, if given.
    pub(super) fn is_stepped_member(&self, name: &str, ty: Option<&str>) -> bool {
        self.files.iter().filter(|f| f.1.contains(name)).any(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            let of_type = |j: usize| {
                let start = code.operand_start(j);
                ty.is_none()
                    || start < j && code.variable(code.text(start), start).map(|d| code.text(d.ty)) == ty
            };
            code.places(name).iter().any(|&j| is_stepped(&code, j) && of_type(j))
        })
    }

    /// A function that no source defines is given a number beside the address, and so many members of one type stand
    /// there: `span<long> s(&x.a, 4)`.
    fn is_run_of(&self, member: &Member, next: Option<&(usize, usize)>, name: &str) -> bool {
        let Some(count) = next.and_then(|&n| self.length(n)) else { return false };
        let at = self.members.iter().position(|m| m == member).unwrap_or(0);
        let run = self.members[at..].iter().take_while(|m| m.ty == member.ty && !m.array).count() as u64;
        is_plain(member) && (2..=run).contains(&count) && !is_single(name) && !self.is_defined(name)
    }

    /// The same of a number that is not known, and of a second address: where the sources declare the function as such,
    /// or where it is the standard library's.
    fn is_walked_unseen(&self, member: &Member, open: usize, index: usize) -> bool {
        let objects = self.objects;
        let name = objects.text(open - 1);
        let arguments = objects.arguments(open);
        let Some(&(from, to)) = arguments.get(index + 1).filter(|_| is_plain(member) && !is_single(name))
        else {
            return false;
        };
        let end = (from..to).find(|&j| objects.text(j) == "&").and_then(|j| self.member_address(j));
        let range =
            end.is_some_and(|(m, last)| m != member && m.ty == member.ty && !m.array && last + 1 == to);
        let container = objects.code.declaration(open - 1).map(|d| objects.text(d.ty));
        let container = container.is_some_and(|ty| CONTAINERS.contains(&ty));
        if range && (RANGES.contains(&name) || container) {
            return true;
        }
        let counted = matches!(name, "copy_n" | "fill_n" | "for_each_n" | "generate_n") || container;
        let declared = || self.parameter(name, index + 1).filter(|_| !self.is_defined(name));
        !range && counted || declared().is_some_and(|counts| if counts { !range } else { range })
    }

    /// The sources have a body of `name`, or a macro.
    fn is_defined(&self, name: &str) -> bool {
        self.files.iter().any(|f| may_be_function(f.1, name) || macro_text(f.1, name).is_some())
    }

    /// A declaration of the function, or of a pointer to one, has a parameter at `index`: whether that is a number.
    fn parameter(&self, name: &str, index: usize) -> Option<bool> {
        let files = self.files.iter().filter(|f| f.1.contains(name));
        files.into_iter().find_map(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            code.places(name).iter().find_map(|&j| {
                let before = |n: usize| code.text(j.wrapping_sub(n));
                let pointer = (before(2), before(1), code.text(j + 1)) == ("(", "*", ")");
                let open = if pointer { j + 2 } else { j + 1 };
                let known = pointer || code.is_typed(j);
                let close = code.closing(open).filter(|_| code.text(open) == "(" && known)?;
                let declares = pointer || matches!(code.text(close + 1), ";" | "__attribute__");
                let &(from, to) = code.arguments(open).get(index).filter(|_| declares)?;
                let star = (from..to).any(|k| code.text(k) == "*");
                Some(!star && (from..to).any(|k| is_number_type(code.text(k))))
            })
        })
    }
}

/// One of the files defines the function `name`, which walks from where its parameter `index` points.
pub(super) fn walks_from(files: &[(&str, &str)], name: &str, index: usize) -> bool {
    files.iter().filter(|f| may_be_function(f.1, name)).any(|f| {
        let source = Source::new(f.1);
        Code::new(&source).walks_parameter(name, index)
    })
}

/// `p[i]`, `p++`, `++c.p`, `p + n` of a pointer that a class keeps.
fn is_stepped(code: &Code<'_, '_>, j: usize) -> bool {
    let behind = (code.text(j + 1), code.text(j + 2));
    let start = code.operand_start(j);
    let before = (code.text(start.wrapping_sub(2)), code.text(start.wrapping_sub(1)));
    // `*p++` steps, `*p += 1` does not.
    let twice = matches!(behind, ("+", "+") | ("-", "-"));
    let stepped = twice || matches!(behind, ("+", _) | ("-", "=")) && before.1 != "*";
    stepped || (behind.0 == "[" && behind.1 != "0") || matches!(before, ("+", "+") | ("-", "-"))
}

fn is_plain(member: &Member) -> bool {
    member.ty.split(' ').all(|w| is_scalar(w) || is_number_type(w))
}

pub(super) fn is_single(function: &str) -> bool {
    let lower = function.to_lowercase();
    SINGLE.iter().any(|w| lower.contains(w))
}
