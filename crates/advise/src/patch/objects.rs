//! Which names in a file stand for objects of one type, and which expressions for their addresses.

use super::body::Source;
use super::held::Held;
use super::names::is_one_of;
use super::passed::Passed;
use super::scan::{Code, is_number_type, is_typeof};

/// Words beside the names in a cast or a declaration.
const QUALIFIERS: [&str; 8] = ["const", "volatile", "struct", "class", "union", "std", "restrict", "static"];

/// What a pointer points to after a cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pointee<'a> {
    /// Bytes or numbers.
    Scalar(&'a str),
    /// Another type.
    Other(&'a str),
}

/// A cast of an object's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cast<'a> {
    /// First token.
    pub(super) first: usize,
    /// One past the last token.
    pub(super) end: usize,
    /// What it is looked at as.
    pub(super) pointee: Pointee<'a>,
}

/// The code of one file, and the names of the type.
pub(super) struct Objects<'s, 'a> {
    pub(super) code: Code<'s, 'a>,
    names: &'s [String],
    /// Members of any struct that are declared with the type.
    held: &'s Held,
}

impl<'s, 'a> Objects<'s, 'a> {
    pub(super) fn new(source: &'s Source<'a>, names: &'s [String], held: &'s Held) -> Self {
        Objects { code: Code::new(source), names, held }
    }

    /// The same type in other code.
    pub(super) fn elsewhere<'t, 'b>(&self, source: &'t Source<'b>) -> Objects<'t, 'b>
    where
        's: 't,
    {
        Objects::new(source, self.names, self.held)
    }

    pub(super) fn passed(&self) -> &'s Passed {
        &self.held.passed
    }

    pub(super) fn text(&self, i: usize) -> &'a str {
        self.code.text(i)
    }

    /// Every name of the type, sorted.
    pub(super) fn names(&self) -> &'s [String] {
        self.names
    }

    /// The word at `i` is a name of the type, and not a variable or a member called like it.
    pub(super) fn is_name(&self, i: usize) -> bool {
        self.code.is_word(i)
            && is_one_of(self.names, self.text(i))
            && !self.is_hidden(i)
            && !self.is_template_parameter(i)
    }

    /// The word at `i` is what a template around it calls its parameter: `template <typename Iterator>`.
    fn is_template_parameter(&self, i: usize) -> bool {
        if self.code.places("template").is_empty() {
            return false;
        }
        let name = self.text(i);
        let declares = |from: usize, to: usize| {
            let parameter =
                |j: usize| matches!(self.text(j), "typename" | "class") && self.text(j + 1) == name;
            self.text(from) == "template" && (from + 2..to).any(parameter)
        };
        let here = self.code.start_of(i);
        if declares(here, i + 1) {
            return true;
        }
        let mut at = i;
        while let Some(open) = self.code.enclosing(at) {
            if declares(self.code.start_of(open), open) {
                return true;
            }
            at = open;
        }
        false
    }

    /// The word at `i` is a member, or the function around it has a variable of this name. A variable's own declarator
    /// and what stands before another word is none.
    fn is_hidden(&self, i: usize) -> bool {
        let before = if i > 0 { self.text(i - 1) } else { "" };
        if matches!(before, "struct" | "class" | "union" | "enum") || self.code.is_word(i + 1) {
            return false;
        }
        let accessed = i > 1 && (before == "." || before == ">" && self.text(i - 2) == "-");
        // `offsetof(struct outer, x)`
        let offset = |j: usize| matches!(self.text(j), "offsetof" | "__builtin_offsetof");
        if accessed || before == "," && (i.saturating_sub(6)..i).any(offset) {
            return true;
        }
        let Some((open, _)) = self.code.is_in_function(i).then(|| self.code.function(i)) else {
            return false;
        };
        let declared = self.code.variable_at(self.text(i), i);
        declared.is_some_and(|(at, _)| at >= self.code.start_of(open))
    }

    pub(super) fn names_type(&self, from: usize, to: usize) -> bool {
        (from..to).any(|i| self.is_name(i))
    }

    /// `sizeof` at `i` measures the type, or a variable or a member of it.
    pub(super) fn measures(&self, i: usize, to: usize) -> bool {
        let mut at = i + 1;
        while at < to && matches!(self.text(at), "(" | "*" | "struct" | "const" | "&") {
            at += 1;
        }
        let last = self.path_end(at);
        // `sizeof(x->member)` measures something else, if that is not one of ours.
        // So does `sizeof(X::member)`.
        let whole = !matches!(self.text(last + 1), "[" | "+" | "-" | ":");
        let of_pointer = last == at && self.text(at - 1) != "*" && self.is_declared_pointer(at);
        whole && (self.is_name(at) && last == at || self.is_object(last) && !of_pointer)
    }

    /// The word at `i` names a variable or a member of the type, or pointers or arrays to it.
    pub(super) fn is_object(&self, i: usize) -> bool {
        if !self.code.is_word(i) {
            return false;
        }
        match self.text(i.saturating_sub(1)) {
            "." | ">" if self.text(i.saturating_sub(2)) != "<" && self.is_access(i) => {
                self.held.has(self.text(i)) && !self.is_of_another(i) || self.points(i)
            }
            _ => self.is_variable(i),
        }
    }

    /// The name of the type that a size or an address in the tokens is of: the declared one of the variable, else the
    /// one that `sizeof` names; `None` for members.
    pub(super) fn type_in(&self, (from, to): (usize, usize)) -> Option<&'a str> {
        let path = |j: usize| matches!(self.text(j + 1), "." | "-") || (j > 0 && self.is_access(j));
        let variable = (from..to).find(|&j| !self.is_name(j) && self.is_object(j));
        let ty = match variable {
            Some(j) if path(j) => return None,
            Some(j) => self.code.variable(self.text(j), j)?.ty,
            None => (from..to).find(|&j| self.is_name(j))?,
        };
        self.is_name(ty).then(|| self.text(ty))
    }

    /// The member at `i` may be one, or point to one, whatever it is accessed through.
    pub(super) fn may_hold(&self, i: usize) -> bool {
        self.is_object(i) || self.held.points_somewhere(self.text(i)) && !self.is_of_another(i)
    }

    /// The member at `i` is a pointer to one: it is accessed through a variable of a struct that has such a member.
    fn points(&self, i: usize) -> bool {
        let base = i.saturating_sub(if self.text(i - 1) == "." { 2 } else { 3 });
        if !self.code.is_word(base) || (base > 0 && self.is_access(base)) {
            return false;
        }
        let holder = self.code.variable(self.text(base), base).map(|d| self.text(d.ty));
        holder.is_some_and(|h| self.held.points_in(h, self.text(i)))
    }

    /// The member at `i` is one of a variable that is declared as `struct other`, where that name means another type.
    /// Classes may inherit it: of C++ nothing is known.
    fn is_of_another(&self, i: usize) -> bool {
        let base = i.saturating_sub(if self.text(i - 1) == "." { 2 } else { 3 });
        if !self.code.is_word(base) || (base > 0 && self.is_access(base)) || self.code.is_cpp() {
            return false;
        }
        let Some(declared) = self.code.variable(self.text(base), base) else { return false };
        let tagged = declared.ty > 0 && matches!(self.text(declared.ty - 1), "struct" | "union");
        tagged && !self.held.has_in(self.text(declared.ty), self.text(i))
    }

    /// So many dereferences of the variable or member at `i` give an object; none of an array gives all of them.
    pub(super) fn is_reached(&self, i: usize, dereferences: usize) -> bool {
        if i > 0 && self.is_access(i) {
            return dereferences > 0 || !self.points(i);
        }
        let Some((at, declared)) = self.code.variable_at(self.text(i), i) else { return dereferences > 0 };
        let array = self.text(at + 1) == "[";
        let by_name = usize::from(self.held.is_pointer_name(self.text(declared.ty)));
        let deduced =
            usize::from(self.text(declared.ty) == "auto" && self.text(at - 1) != "&" && declared.depth == 0);
        dereferences >= declared.depth + by_name + deduced || (array && dereferences == 0)
    }

    fn is_access(&self, i: usize) -> bool {
        self.text(i - 1) == "." || (i >= 2 && self.text(i - 2) == "-")
    }

    /// The word at `i` was last declared with the type.
    pub(super) fn is_variable(&self, i: usize) -> bool {
        self.declared_with(i, 0)
    }

    /// The same, or it is declared with the type here.
    pub(super) fn is_variable_or_declared(&self, i: usize) -> bool {
        self.is_variable(i) || self.code.declaration(i).is_some_and(|d| self.is_name(d.ty))
    }

    fn declared_with(&self, i: usize, depth: usize) -> bool {
        if !self.code.is_word(i) || (i > 0 && self.is_access(i)) || depth > 4 {
            return false;
        }
        let Some((at, declared)) = self.code.variable_at(self.text(i), i) else { return false };
        if self.is_name(declared.ty) || self.held.is_pointer_name(self.text(declared.ty)) {
            return true;
        }
        match self.text(declared.ty) {
            "auto" | "__auto_type" => self.value_is_object(at, depth),
            word if is_typeof(word) => {
                let close = self.code.closing(declared.ty + 1).unwrap_or(declared.ty);
                let mut inside = declared.ty + 2..close;
                let member = inside.clone().any(|j| matches!(self.text(j), "." | ">"));
                !member && inside.any(|j| self.is_name(j) || self.declared_with(j, depth + 1))
            }
            // `std::vector<foo> v`, `unique_ptr<foo>`.
            _ if self.text(declared.ty + 1) == "<" => self.names_type(declared.ty + 2, at),
            _ => false,
        }
    }

    /// What the variable declared by `auto` at `i` begins with has the type.
    fn value_is_object(&self, i: usize, depth: usize) -> bool {
        let end = (i..self.code.len().min(i + 60)).find(|&j| matches!(self.text(j), ";" | "{")).unwrap_or(i);
        (i + 1..end).any(|j| {
            self.is_name(j)
                || (self.text(j + 1) == "(" && self.returns_object(self.text(j)))
                || (self.text(j) != self.text(i) && self.declared_with(j, depth + 1))
        })
    }

    /// A function `name` is declared to return the type.
    pub(super) fn returns_object(&self, name: &str) -> bool {
        let mut calls = self.code.places(name).iter().filter(|&&i| self.text(i + 1) == "(");
        calls.any(|&i| (i.saturating_sub(3)..i).any(|j| self.is_name(j)))
    }

    /// A function `name` is declared to return a pointer to the type.
    fn returns_pointer(&self, name: &str) -> bool {
        let mut calls = self.code.places(name).iter().filter(|&&i| i > 1 && self.text(i + 1) == "(");
        calls.any(|&i| {
            let pointer = self.text(i - 1) == "*" && self.is_name(i - 2);
            pointer || self.held.is_pointer_name(self.text(i - 1))
        })
    }

    /// The last word of `a.b->c` that begins at `at`; subscripts count.
    pub(super) fn path_end(&self, at: usize) -> usize {
        let (mut last, mut i) = (at, at + 1);
        loop {
            if self.text(i) == "." && self.code.is_word(i + 1) {
                last = i + 1;
            } else if self.text(i) == "-" && self.text(i + 1) == ">" && self.code.is_word(i + 2) {
                last = i + 2;
            } else {
                return last;
            }
            i = last + 1;
        }
    }

    /// One past the address of a whole object that begins at `i`: `&x`, `&x[0]`, `p`, `v.data()`, `this`.
    pub(super) fn address(&self, i: usize) -> Option<usize> {
        // `((&x))`, as macros leave it.
        if self.text(i) == "(" && matches!(self.text(i + 1), "&" | "(") {
            let close = self.code.closing(i)?;
            return (self.address(i + 1)? == close).then_some(close + 1);
        }
        if let Some(end) = self.by_library(i) {
            return Some(end);
        }
        let taken = self.text(i) == "&";
        let first = i + usize::from(taken);
        let mut at = first;
        while self.text(at) == "(" && taken {
            at += 1;
        }
        let opened = at - first;
        if self.text(at) == "this" && !taken && self.text(at + 1) != "-" {
            return self.is_method(at).then_some(at + 1);
        }
        let last = self.path_end(at);
        // `get()`, declared as `struct s *get(void)`.
        if !taken && last == at && self.text(at + 1) == "(" && self.returns_pointer(self.text(at)) {
            return self.code.closing(at + 1).map(|close| close + 1);
        }
        let called = matches!(self.text(last), "data" | "get" | "begin") && self.text(last + 1) == "(";
        if called {
            return self.is_object(at).then_some(last + 3);
        }
        if !self.is_object(last) {
            return None;
        }
        let mut end = last + 1;
        if self.text(end) == "[" {
            end = (end..self.code.len()).find(|&j| self.text(j) == "]")? + 1;
            // `v[0].x` is a member, `v[0]` alone no address.
            if !taken {
                return None;
            }
        }
        // `&(x)`
        let whole = end == last + 1;
        end += (0..opened).take_while(|n| self.text(end + n) == ")").count();
        let member = self.text(end) == "." || (self.text(end) == "-" && self.text(end + 1) == ">");
        let member_of = last > 0 && matches!(self.text(last - 1), "." | ">") && self.is_access(last);
        let pointer = taken
            || match member_of {
                true => self.held.is_array(self.text(last)) || self.points(last),
                false => self.is_pointer(last),
            };
        // `&p`: the bytes of a pointer.
        let of_pointer = taken && whole && !member_of && self.is_declared_pointer(last);
        (!member && self.text(end) != "(" && pointer && !of_pointer).then_some(end)
    }

    /// `std::addressof(x)`, `&v.front()`, `&*v.begin()`.
    fn by_library(&self, i: usize) -> Option<usize> {
        let at = if self.text(i) == "std" && self.text(i + 1) == ":" { i + 3 } else { i };
        if self.text(at) == "addressof" && self.text(at + 1) == "(" {
            let close = self.code.closing(at + 1)?;
            let last = self.path_end(at + 2);
            let one = self.is_object(last) && (last + 1 == close || self.text(last + 1) == "[");
            return one.then_some(close + 1);
        }
        let first = i + 1 + usize::from(self.text(i + 1) == "*");
        let last = self.path_end(first);
        let element = match self.text(last) {
            "front" | "back" | "at" => first == i + 1,
            "begin" | "cbegin" => first == i + 2,
            _ => false,
        };
        let called = self.text(i) == "&" && element && last > first && self.text(last + 1) == "(";
        let close = self.code.closing(last + 1).filter(|_| called && self.is_object(first))?;
        (!matches!(self.text(close + 1), "." | "-" | "[")).then_some(close + 1)
    }

    /// The variable at `i` is seen to be declared as a pointer: it is none of an array's or a reference's names.
    fn is_declared_pointer(&self, i: usize) -> bool {
        self.code.variable_at(self.text(i), i).is_some_and(|(at, d)| {
            let star = self.text(at - 1) == "*" && d.depth > 0;
            (star || self.held.is_pointer_name(self.text(d.ty))) && self.text(at - 1) != "&"
        })
    }

    fn is_pointer(&self, i: usize) -> bool {
        self.code.variable_at(self.text(i), i).is_none_or(|(at, d)| {
            d.depth > 0
                || self.held.is_pointer_name(self.text(d.ty))
                || (is_typeof(self.text(d.ty)) && self.text(d.ty + 2) != "*")
                || (self.text(d.ty) == "auto" && (at..at + 4).any(|j| matches!(self.text(j), "&" | "new")))
        })
    }

    /// The token at `i` stands in a function of the type.
    pub(super) fn is_method(&self, i: usize) -> bool {
        let mut at = i;
        while let Some(open) = self.code.enclosing(at) {
            let start = self.code.start_of(open);
            let class = matches!(self.text(start), "struct" | "class" | "template");
            if (start..open).any(|j| self.is_name(j) && (class || self.text(j + 1) == ":")) {
                return true;
            }
            at = open;
        }
        false
    }

    /// The word at `i` may be a member in a method of the type: no variable of the function has this name.
    pub(super) fn is_member_in_method(&self, i: usize) -> bool {
        if !self.code.is_word(i) || !self.is_method(i) {
            return false;
        }
        let (open, _) = self.function(i);
        let start = self.code.start_of(open);
        self.code.variable_at(self.text(i), i).is_none_or(|(at, _)| at < start)
    }

    /// The cast that begins at `i`, if it makes the address of a whole object another pointer.
    pub(super) fn cast(&self, i: usize) -> Option<Cast<'a>> {
        // `static_cast<long *>(static_cast<void *>(p))`
        let twice = self.text(i) == "static_cast" && self.text(i + 1) == "<";
        let reinterpret = twice || self.text(i) == "reinterpret_cast" && self.text(i + 1) == "<";
        let open = if reinterpret { i + 1 } else { i };
        if !reinterpret && (self.text(i) != "(" || self.is_call(i)) {
            return None;
        }
        let (pointee, close) = self.pointee(open + 1, if reinterpret { ">" } else { ")" })?;
        let mut operand = close + 1 + usize::from(reinterpret);
        if twice {
            let inner = self.code.matching(operand + 1, ["<", ">"], 8)?;
            if self.text(operand) != "static_cast" || self.text(inner - 2) != "void" {
                return None;
            }
            operand = inner + 2;
        }
        // `(struct other *)(void *)&x`
        let void = |open: usize| {
            let close = self.code.closing(open).filter(|c| self.text(open) == "(" && c - open < 6)?;
            (self.text(close - 1) == "*" && self.text(close - 2) == "void").then_some(close + 1)
        };
        operand = void(operand).filter(|_| !reinterpret).unwrap_or(operand);
        // `reinterpret_cast<other &>(x)`
        let last = self.path_end(operand);
        let reference = reinterpret && (open..close).any(|j| self.text(j) == "&");
        let end = match reference {
            true => self.is_object(last).then_some(last + 1)?,
            false => self.address(operand)?,
        };
        if reinterpret && self.text(end) != ")" {
            return None;
        }
        Some(Cast { first: i, end: end + usize::from(reinterpret), pointee })
    }

    /// `const unsigned char *` up to the token `until`: what it points to, and the place of `until`.
    fn pointee(&self, from: usize, until: &str) -> Option<(Pointee<'a>, usize)> {
        let (mut word, mut stars, mut at) = (None, 0, from);
        // `(long (*)[4])`
        let inner = (from..from + 3).find(|&j| (self.text(j), self.text(j + 1)) == ("(", "*"));
        if let Some(open) = inner.filter(|&o| o > from && until == ")" && self.text(o + 2) == ")") {
            let end = self.code.matching(open + 3, ["[", "]"], 30)? + 1;
            let element = self.text(open - 1);
            return (is_scalar(element) && self.text(end) == until)
                .then_some((Pointee::Scalar(element), end));
        }
        while self.text(at) != until {
            match self.text(at) {
                "*" | "&" => stars += 1,
                ":" => {}
                // `float (&)[3]`
                "(" | ")" | "[" | "]" if until == ">" => {}
                text if stars > 0 && text.starts_with(|c: char| c.is_ascii_digit()) => {}
                text if QUALIFIERS.contains(&text) && stars == 0 => {}
                "const" | "volatile" | "restrict" => {}
                text if self.code.is_word(at) && stars == 0 => word = Some(text),
                _ => return None,
            }
            at += 1;
        }
        let word = word.filter(|w| *w != "void" && !is_one_of(self.names, w) && stars == 1)?;
        Some((if is_scalar(word) { Pointee::Scalar(word) } else { Pointee::Other(word) }, at))
    }

    /// The `(` at `i` belongs to a call, a condition or `sizeof`.
    fn is_call(&self, i: usize) -> bool {
        i > 0
            && (self.code.is_word(i - 1) && self.text(i - 1) != "return"
                || matches!(self.text(i - 1), ")" | "]"))
    }

    /// The variable at `i` is made a pointer to the type in its function: `(struct foo *)buf`, `struct foo *p = buf;`.
    pub(super) fn becomes_object(&self, i: usize) -> bool {
        let name = self.text(i);
        let (from, to) = self.function(i);
        (from..to).filter(|&j| self.text(j) == name && j > 2).any(|j| {
            let back =
                (j.saturating_sub(8)..j).rev().take_while(|&k| !matches!(self.text(k), ";" | "{" | "}"));
            let words: Vec<usize> = back.collect();
            let star = words.iter().any(|&k| self.text(k) == "*");
            let cast = matches!(self.text(j - 1), ")" | "(" | "&" | "=");
            let assigned = self.text(j - 1) == "=" && self.is_variable(j - 2);
            cast && star && words.iter().any(|&k| self.is_name(k)) || assigned
        })
    }

    /// Tokens of the function around `i`.
    pub(super) fn function(&self, i: usize) -> (usize, usize) {
        self.code.function(i)
    }

    /// The pointer variable at `variable` is indexed or moved behind `from`.
    pub(super) fn walks(&self, variable: usize, from: usize) -> bool {
        let (at, _) = self.code.variable_at(self.text(variable), variable + 1).unzip();
        let of_file = at.is_some_and(|at| self.code.enclosing(at).is_none());
        let end = if of_file { self.code.len() } else { self.function(variable).1 };
        self.code.walks(self.text(variable), from, end)
    }

    /// Ranges of the arguments of the call whose `(` is at `open`.
    pub(super) fn arguments(&self, open: usize) -> Vec<(usize, usize)> {
        self.code.arguments(open)
    }

    /// The argument is an object, an array of them (`v`, `x->v`), or the address of one.
    pub(super) fn hands_over(&self, (from, to): (usize, usize)) -> bool {
        let last = self.path_end(from);
        last + 1 == to && self.is_object(last) || self.is_address((from, to))
    }

    /// The argument is the address of a whole object, with or without a cast.
    pub(super) fn is_address(&self, (from, to): (usize, usize)) -> bool {
        let mut at = from;
        // `(const void *)&x`
        while self.text(at) == "(" && self.text(at + 1) != "&" {
            match self.code.closing(at) {
                Some(close) if close + 1 < to => at = close + 1,
                _ => return false,
            }
        }
        self.address(at).is_some_and(|end| end == to) || self.cast(from).is_some_and(|c| c.end == to)
    }
}

/// The word makes a pointee a number or a byte: who reads an object through it reads its layout.
pub(super) fn is_scalar(word: &str) -> bool {
    is_number_type(word) || matches!(word, "float" | "double" | "bool" | "_Bool" | "byte")
}
