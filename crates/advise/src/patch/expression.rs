//! How far the arithmetic around a number reaches.

use super::scan::{Code, is_number_type};

/// The expression around a number, without the parentheses and casts around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    /// A sum with a pointer: an address, no number.
    Address,
    /// Something is divided by the expression that begins here.
    Divisor(usize),
    /// The expression before this `/` or `%` is divided.
    Dividend(usize),
    /// Tokens of sums and products.
    Number(usize, usize),
}

impl Code<'_, '_> {
    /// What is around the number that the tokens `from..to` make.
    pub(super) fn around_number(&self, mut from: usize, mut to: usize) -> Around {
        for _ in 0..64 {
            let (before, behind) = (self.text(from.wrapping_sub(1)), self.text(to));
            match (before, behind) {
                ("/" | "%", _) => return Around::Divisor(from),
                (_, "/" | "%") => return Around::Dividend(to),
                ("(", ")") if !self.is_called(from - 1) => (from, to) = (from - 1, to + 1),
                (")", _) => match self.cast_before(from - 1) {
                    Some(open) if self.text(from - 2) == "*" && open > 0 => return Around::Address,
                    Some(open) => from = open,
                    None => return Around::Number(from, to),
                },
                (_, "+" | "-" | "*") if self.continues(to) => {
                    let end = self.operand_end(to + 1);
                    if self.has_pointer(to + 1, end) {
                        return Around::Address;
                    }
                    to = end.max(to + 1);
                }
                ("+" | "-" | "*", _) if from > 1 && self.is_value(from - 2) => {
                    let start = self.operand_start(from - 2);
                    if self.has_pointer(start, from - 1) {
                        return Around::Address;
                    }
                    from = start;
                }
                _ => return Around::Number(from, to),
            }
        }
        Around::Number(from, to)
    }

    /// The `(` at `open` is that of a call, of a condition, or of `sizeof`.
    fn is_called(&self, open: usize) -> bool {
        let Some(before) = open.checked_sub(1) else { return false };
        self.is_word(before) && !matches!(self.text(before), "return" | "case")
            || matches!(self.text(before), "]" | ">")
    }

    /// The operator at `i` goes on with an operand: `->`, `++` and `+=` do not.
    fn continues(&self, i: usize) -> bool {
        let next = self.text(i + 1);
        !matches!((self.text(i), next), ("-", ">") | (_, "=")) && self.text(i) != next
    }

    /// A value ends at `i`.
    fn is_value(&self, i: usize) -> bool {
        let keyword = matches!(self.text(i), "return" | "case" | "else" | "sizeof");
        let number = self.text(i).starts_with(|c: char| c.is_ascii_digit());
        (self.is_word(i) && !keyword) || number || matches!(self.text(i), ")" | "]")
    }

    /// One past the operand that begins at `at`.
    pub(super) fn operand_end(&self, mut at: usize) -> usize {
        while matches!(self.text(at), "*" | "&" | "-" | "+" | "~" | "!" | "sizeof") {
            at += 1;
        }
        if self.text(at) == "(" {
            let Some(close) = self.closing(at) else { return at };
            let cast = self.cast_before(close) == Some(at) && self.text(at.wrapping_sub(1)) != "sizeof";
            at = if cast { self.operand_end(close + 1) } else { close + 1 };
        } else {
            at += 1;
        }
        loop {
            at = match (self.text(at), self.text(at + 1)) {
                ("[", _) => self.matching(at, ["[", "]"], 100).unwrap_or(at) + 1,
                ("(", _) => self.closing(at).unwrap_or(at) + 1,
                (".", _) => at + 2,
                ("-", ">") => at + 3,
                _ => return at,
            }
        }
    }

    /// First token of the operand that ends at `last`.
    pub(super) fn operand_start(&self, last: usize) -> usize {
        let mut at = last;
        loop {
            while matches!(self.text(at), ")" | "]") {
                let Some(open) = self.opening(at) else { return at };
                let names = open > 0 && (self.is_word(open - 1) || matches!(self.text(open - 1), ")" | "]"));
                at = if names { open - 1 } else { open };
                if !names {
                    break;
                }
            }
            let before = |n: usize| self.text(at.wrapping_sub(n));
            at = match (before(2), before(1)) {
                (_, ".") if at > 1 && self.is_value(at - 2) => at - 2,
                ("-", ">") if at > 2 && self.is_value(at - 3) => at - 3,
                (_, "sizeof") => return at - 1,
                ("sizeof", "*" | "&") => return at - 2,
                _ => return at,
            };
        }
    }

    /// A pointer stands among the tokens `from..to`: by a cast or by its declaration.
    fn has_pointer(&self, from: usize, to: usize) -> bool {
        (from..to).any(|j| {
            if self.text(j) == "*" && self.text(j + 1) == ")" {
                return true;
            }
            let member = matches!(self.text(j.wrapping_sub(1)), "." | ">" | "*" | "sizeof");
            let inside = matches!(self.text(j + 1), "[" | "." | "-" | "(") || member;
            let pointer = || self.variable(self.text(j), j).is_some_and(|d| d.depth > 0);
            self.is_word(j) && !inside && !is_number_type(self.text(j)) && pointer()
        })
    }

    /// Place of the `(` or `{` that is open at `i`; nothing beyond the statement.
    pub(super) fn open_before(&self, i: usize) -> Option<usize> {
        let mut depth = 0usize;
        for j in (i.saturating_sub(400)..i).rev() {
            match self.text(j) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" if depth == 0 => return Some(j),
                "(" | "[" | "{" => depth -= 1,
                ";" if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }
}
