//! Addresses of objects behind `void *`.

use super::objects::Objects;

/// Variables that one after the other have had an address.
const PASSED_ON_MAX: usize = 2;

impl Objects<'_, '_> {
    /// The function in whose parentheses the tokens from `i` to before `end` stand.
    pub(super) fn call_around(&self, i: usize, end: usize) -> Option<usize> {
        let mut opens = (i.saturating_sub(60)..i).rev().filter(|&k| self.text(k) == "(");
        let open = opens.find(|&k| self.code.closing(k).is_some_and(|c| c >= end))?;
        open.checked_sub(1)
    }

    /// The same of a call or a macro with a name: parentheses alone are passed over.
    pub(super) fn named_call_around(&self, i: usize, end: usize) -> Option<usize> {
        let mut opens = (i.saturating_sub(60)..i).rev().filter(|&k| self.text(k) == "(");
        opens.find_map(|k| {
            let name = k.checked_sub(1).filter(|&n| self.code.is_word(n))?;
            self.code.closing(k).is_some_and(|c| c >= end).then_some(name)
        })
    }

    /// The word is a `void *` to which an object's address is given.
    pub(super) fn is_object_as_void(&self, i: usize) -> bool {
        let before = |n: usize| self.text(i.wrapping_sub(n));
        let member = before(1) == "." || (before(1), before(2)) == (">", "-");
        let variable = self.code.variable(self.text(i), i).filter(|_| self.code.is_word(i) && !member);
        let depth = 1 + usize::from(self.text(i + 1) == "[");
        variable.is_some_and(|d| self.text(d.ty) == "void" && d.depth == depth) && self.receives(i, 0)
    }

    /// The word is the only parameter, a `void *`, of a function that is passed beside an object's address, which is
    /// what it is called with: `on_exit(report, &x)`.
    pub(super) fn is_called_with(&self, i: usize) -> bool {
        self.code.function_name(i).is_some_and(|own| {
            let [(from, to)] = self.arguments(own + 1)[..] else { return false };
            let plain = (from..to).any(|j| self.text(j) == "void") && self.text(to - 1) == self.text(i);
            plain && (self.passed().is_beside(self.text(own)) || self.is_called_back(own))
        })
    }

    /// An object's address becomes the value of the variable at `value`, or of an element of it: it is assigned, or
    /// passed to its function. Another such variable may have had it before.
    fn receives(&self, value: usize, passed_on: usize) -> bool {
        let name = self.text(value);
        let (open, end) = self.function(value);
        let own = self.code.function_name(value);
        let of_file = |j: usize| {
            self.code.variable_at(name, j + 1).is_some_and(|(at, _)| !self.code.is_in_function(at))
        };
        let here = |j: usize| (open..end).contains(&j) || !self.code.is_in_function(j) || of_file(j);
        let whole = |at: usize| self.address(at).is_some_and(|end| self.text(end) != "+");
        let untyped = |at: usize| {
            let variable = self.code.variable(self.text(at), at).filter(|_| self.text(at + 1) == ";");
            let plain = variable.is_some_and(|d| self.text(d.ty) == "void" && d.depth == 1);
            plain && passed_on < PASSED_ON_MAX && self.receives(at, passed_on + 1)
        };
        let mut assigned = self.code.places(name).iter().filter_map(|&j| Some((j, self.assigned(j)?)));
        assigned.any(|(j, at)| here(j) && (whole(at) || untyped(at)))
            || own.is_some_and(|j| self.is_passed(j, name) || self.is_called_back(j))
    }

    /// Place of what is assigned to the variable at `j`, or to an element of it.
    fn assigned(&self, j: usize) -> Option<usize> {
        let close = || self.code.matching(j + 1, ["[", "]"], 60);
        let at = if self.text(j + 1) == "[" { close()? + 1 } else { j + 1 };
        (self.text(at) == "=" && self.text(at + 1) != "=").then_some(at + 1)
    }

    /// The braces at `open` list an object's address: `{ .fn = show, .ctx = &x }`.
    pub(super) fn is_listed_with_object(&self, open: usize) -> bool {
        let close = (self.text(open) == "{").then(|| self.code.matching(open, ["{", "}"], 200)).flatten();
        let value = |j: usize| matches!(self.text(j - 1), "=" | "," | "{");
        close.is_some_and(|close| {
            let address = |j: usize| self.address(j).filter(|&end| matches!(self.text(end), "," | "}"));
            (open + 1..close).any(|j| value(j) && address(j).is_some())
        })
    }

    /// A call of the function whose name is at `own` gives its parameter `name` an object's address.
    fn is_passed(&self, own: usize, name: &str) -> bool {
        let parameters = self.arguments(own + 1);
        let Some(index) = parameters.iter().position(|p| p.1 > p.0 && self.text(p.1 - 1) == name) else {
            return false;
        };
        if self.passed().is_given(self.text(own), index) {
            return true;
        }
        let calls = self.code.places(self.text(own)).iter().filter(|&&j| j != own && self.text(j + 1) == "(");
        calls.into_iter().any(|&j| self.arguments(j + 1).get(index).is_some_and(|a| self.is_address(*a)))
    }

    /// The function at `own` is passed beside an object's address: `qsort(v, n, sizeof(*v), compare)`. One that takes
    /// as many objects as such gets no other by a `void *`: `find(table, hash, key, dev)` of `hash(void *, dev *)`.
    fn is_called_back(&self, own: usize) -> bool {
        let typed =
            self.arguments(own + 1).into_iter().filter(|&(from, to)| self.names_type(from, to)).count();
        let names = self.code.places(self.text(own)).iter().copied();
        let mut passed = names.filter(|&j| j != own && matches!(self.text(j + 1), ")" | "," | "}"));
        passed.any(|j| {
            let call = self.call_around(j, j + 1);
            let beside = || self.code.open_before(j).is_some_and(|open| self.is_listed_with_object(open));
            if typed == 0 && beside() {
                return true;
            }
            call.is_some_and(|f| {
                self.arguments(f + 1).iter().filter(|a| self.is_address(**a)).count() > typed
            })
        })
    }
}
