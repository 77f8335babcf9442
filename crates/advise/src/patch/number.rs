//! What becomes of a number that the layout gives, a size or an offset: it is printed, compared, divided, or kept in
//! something of which this is true.

use super::body::Source;
use super::expression::Around;
use super::neighbours::{may_be_function, members_in};
use super::objects::is_scalar;
use super::scan::Code;

/// Numbers from here on are limits of types, not amounts.
const LIMIT: u64 = 0x7fff_ffff;

/// Functions that make text of numbers, by parts of their names.
const PRINTS: [&str; 4] = ["print", "format", "to_string", "syslog"];

/// The code in which a number stands, and the files of its project (path and text).
#[derive(Clone, Copy)]
pub(super) struct Numbers<'u, 's, 'a> {
    pub(super) code: &'u Code<'s, 'a>,
    pub(super) files: &'u [(&'u str, &'u str)],
}

impl<'u> Numbers<'u, '_, '_> {
    /// What the number that the tokens `from..to` make does, if it is data: `is printed`.
    pub(super) fn shown(&self, from: usize, to: usize) -> Option<String> {
        match self.code.around_number(from, to) {
            Around::Address => None,
            Around::Divisor(at) => self.divides(at),
            Around::Dividend(at) => self.divided(at),
            Around::Number(from, to) => self.at_once(from, to).or_else(|| self.kept(from)),
        }
    }

    /// The same without what keeps it.
    fn used(&self, from: usize, to: usize) -> Option<String> {
        match self.code.around_number(from, to) {
            Around::Address => None,
            Around::Divisor(at) => self.divides(at),
            Around::Dividend(at) => self.divided(at),
            Around::Number(from, to) => self.at_once(from, to),
        }
    }

    /// `4096 / sizeof(x)`.
    fn divides(&self, at: usize) -> Option<String> {
        let start = self.code.operand_start(at.checked_sub(2)?);
        self.is_amount(start, at - 1).then(|| "divides a number of bytes".into())
    }

    /// `sizeof(x) / 8`.
    fn divided(&self, at: usize) -> Option<String> {
        let code = self.code;
        let end = code.operand_end(at + 1);
        // `aligned_alloc(64, (sizeof(x) + 63) / 64 * 64)`: rounded, or memory's amount.
        let call =
            |open: usize| open > 0 && code.text(open) == "(" && super::bytes::keeps(code.text(open - 1));
        let mut around = std::iter::successors(code.open_before(at), |&open| code.open_before(open)).take(6);
        if code.text(end) == "*" || around.any(call) {
            return None;
        }
        self.is_amount(at + 1, end).then(|| "is counted in numbers".into())
    }

    fn at_once(&self, from: usize, to: usize) -> Option<String> {
        let code = self.code;
        let text = |j: usize| code.text(j);
        let (before, behind) = (text(from.wrapping_sub(1)), text(to));
        let before_that = text(from.wrapping_sub(2));
        if (before, before_that) == ("<", "<") {
            return Some("is printed".into());
        }
        let call = code.open_before(from).filter(|&o| text(o) == "(" && o > 0);
        // `snprintf(buf, sizeof(x), ..)` is told the place.
        let room = |o: usize| {
            text(o - 1).contains("snprintf") && code.arguments(o).get(1).is_some_and(|a| a.0 == from)
        };
        if matches!(before, "," | "(") && call.is_some_and(|o| prints(text(o - 1)) && !room(o)) {
            return Some("is printed".into());
        }
        if before == "case" {
            return Some("is compared with a number".into());
        }
        // `array<sizeof(x)>` compares nothing.
        if (before == "<" && matches!(behind, "," | ">")) || (before == "," && behind == ">") {
            return None;
        }
        let equal = |a: &str, b: &str| b == "=" && matches!(a, "=" | "!" | "<" | ">");
        let less = |a: &str, b: &str| matches!(a, "<" | ">") && a != b;
        let right = less(behind, text(to + 1)) || equal(behind, text(to + 1));
        let left = (less(before, before_that) && before_that != "-") || equal(before_that, before);
        let other = if right {
            let start = to + 1 + usize::from(text(to + 1) == "=");
            Some((start, code.operand_end(start)))
        } else if left {
            let last = from - 2 - usize::from(before == "=");
            Some((code.operand_start(last), last + 1))
        } else {
            None
        };
        let (from, to) = other?;
        self.is_amount(from, to).then(|| "is compared with a number".into())
    }

    /// The tokens are an amount that somebody chose: a number, a constant, the size of an array of numbers.
    pub(super) fn is_amount(&self, from: usize, to: usize) -> bool {
        let code = self.code;
        let mut some = false;
        let mut at = from;
        while at < to {
            let text = code.text(at);
            if text == "sizeof" {
                let end = code.operand_end(at).max(at + 1);
                if !self.is_plain(at + 1, end) {
                    return false;
                }
                (some, at) = (true, end);
                continue;
            }
            if text.starts_with(|c: char| c.is_ascii_digit()) {
                if number(text).is_none_or(|n| n >= LIMIT) {
                    return false;
                }
                some |= text != "0";
            } else if code.is_word(at) && !super::scan::is_number_type(text) {
                if !self.is_chosen(at) || code.text(at + 1) == "(" {
                    return false;
                }
                some = true;
            } else if text == "~" {
                return false;
            }
            at += 1;
        }
        some
    }

    /// `sizeof` of these tokens measures numbers: `(long)`, `pool` of `char pool[64]`.
    fn is_plain(&self, from: usize, to: usize) -> bool {
        let code = self.code;
        if let Some(ty) = self.member_type(from, to) {
            return ty.split(' ').all(is_scalar);
        }
        let mut words = (from..to).filter(|&j| code.is_word(j)).peekable();
        words.peek().is_some()
            && words.all(|j| {
                let ty = || code.variable(code.text(j), j).map(|d| code.text(d.ty));
                is_scalar(code.text(j)) || ty().is_some_and(is_scalar)
            })
    }

    /// The type of the member that `p->mem` or `(p->mem)` is.
    fn member_type(&self, from: usize, to: usize) -> Option<String> {
        let code = self.code;
        let base = (from..to).find(|&j| code.is_word(j))?;
        let last = (base..to).rev().find(|&j| code.is_word(j)).filter(|&l| l > base)?;
        let accesses = (base..last).filter(|&k| matches!(code.text(k), "." | ">")).count();
        let holder = code.variable(code.text(base), base).filter(|_| accesses == 1)?;
        let members = members_in(self.files, code.text(holder.ty));
        members.into_iter().find(|m| m.name == code.text(last)).map(|m| m.ty)
    }

    /// The word is a constant, or a variable that is given a number, at once or by the function's callers.
    fn is_chosen(&self, at: usize) -> bool {
        let code = self.code;
        let word = code.text(at);
        if word.ends_with("MAX") || word.ends_with("max") {
            return false;
        }
        if is_constant(word) {
            return true;
        }
        let amount = |j: usize| number(code.text(j)).is_some_and(|n| n > 0 && n < LIMIT);
        let given = code.places(word).iter().any(|&j| {
            let ends = matches!(code.text(j + 3), ";" | "," | "*" | "}");
            code.text(j + 1) == "=" && amount(j + 2) && ends
        });
        given || self.argument(at).is_some_and(amount)
    }

    /// Place of a number that some call gives to the parameter at `at`.
    fn argument(&self, at: usize) -> Option<usize> {
        let code = self.code;
        let (name, open) = self.function_around(at)?;
        let parameters = code.arguments(open);
        let own = |&(from, to): &(usize, usize)| (from..to).any(|j| code.text(j) == code.text(at));
        let index = parameters.iter().position(own)?;
        code.places(name).iter().filter(|&&j| j + 1 != open && code.text(j + 1) == "(").find_map(|&j| {
            let &(from, to) = code.arguments(j + 1).get(index)?;
            (to == from + 1).then_some(from)
        })
    }

    /// Name of the function around the token, and the `(` of its parameters.
    fn function_around(&self, at: usize) -> Option<(&'u str, usize)> {
        let code = self.code;
        let (body, _) = code.function(at);
        let start = code.start_of(body);
        let name = (start..body).find(|&j| code.is_word(j) && code.text(j + 1) == "(")?;
        Some((code.text(name), name + 1))
    }

    /// The number is given to something that shows it.
    fn kept(&self, from: usize) -> Option<String> {
        let code = self.code;
        let before = code.text(from.wrapping_sub(1));
        let told = |(name, how): (&str, String)| format!("is kept in {name}, which {how}");
        match before {
            "=" => {
                let sum = matches!(code.text(from.wrapping_sub(2)), "+" | "-");
                let target = from.checked_sub(2 + usize::from(sum))?;
                self.target(target).map(told)
            }
            "return" => {
                let (name, open) = self.function_around(from)?;
                let calls = code.places(name).iter().filter(|&&j| j + 1 != open && code.text(j + 1) == "(");
                let how = calls.into_iter().find_map(|&j| self.used(j, code.closing(j + 1)? + 1))?;
                Some(format!("is what {name}() returns, which {how}"))
            }
            "," | "{" | "(" => {
                let open = code.open_before(from)?;
                match code.text(open) {
                    "{" => self.in_braces(open, from).map(told),
                    _ => self.parameter(open, from),
                }
            }
            _ => None,
        }
    }

    /// What is assigned to the word at `target`, a variable or a member, is shown.
    fn target(&self, target: usize) -> Option<(&'u str, String)> {
        let code = self.code;
        let name = code.text(target);
        if !code.is_word(target) {
            return None;
        }
        let member = matches!(code.text(target.wrapping_sub(1)), "." | ">");
        if member {
            let base = code.operand_start(target);
            // `{ .len = sizeof(x) }`
            let holder = match base == target {
                true => self.initialised(code.open_before(base)?)?,
                false => code.text(code.variable(code.text(base), base)?.ty),
            };
            return self.member(holder, name).map(|how| (name, how));
        }
        let declared = code.variable_at(name, target + 1);
        if declared.is_some_and(|(_, d)| d.depth > 0) {
            return None;
        }
        let of_file = declared.is_none_or(|(at, _)| code.enclosing(at).is_none());
        let (from, to) = if of_file { (0, code.len()) } else { code.function(target) };
        let mut uses = code.places(name).iter().filter(|&&j| j != target && (from..to).contains(&j));
        uses.find_map(|&j| self.used(j, j + 1)).map(|how| (name, how))
    }

    /// The type of what the braces at `open` initialise.
    fn initialised(&self, open: usize) -> Option<&'u str> {
        let code = self.code;
        let before = open.checked_sub(1)?;
        match code.text(before) {
            // `= { { "x", 8 }, .. }`
            "{" | "," => self.initialised(code.open_before(open)?),
            "=" => Some(code.text(code.declaration(code.operand_start(before.checked_sub(1)?))?.ty)),
            ")" => Some(code.text(before.checked_sub(1)?)),
            _ => Some(code.text(code.declaration(before)?.ty)),
        }
    }

    /// `{ 1, sizeof(x) }`.
    fn in_braces(&self, open: usize, from: usize) -> Option<(&'u str, String)> {
        let holder = self.initialised(open)?;
        let close = self.code.matching(open, ["{", "}"], 400)?;
        let mut depth = 0usize;
        let mut index = 0;
        for j in open + 1..from.min(close) {
            match self.code.text(j) {
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth = depth.saturating_sub(1),
                "," if depth == 0 => index += 1,
                _ => {}
            }
        }
        let members = members_in(self.files, holder);
        let how = self.member(holder, &members.get(index)?.name)?;
        Some((holder, how))
    }

    /// Some file shows the member `name` of variables of the type `holder`.
    fn member(&self, holder: &str, name: &str) -> Option<String> {
        let files = self.files.iter().filter(|f| f.1.contains(name) && f.1.contains(holder));
        files.into_iter().find_map(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            let numbers = Numbers { code: &code, files: self.files };
            code.places(name).iter().find_map(|&j| {
                let base = code.operand_start(j);
                let declared = code.variable(code.text(base), base);
                let ours = declared.is_some_and(|d| code.text(d.ty) == holder);
                let accesses = (base..j).filter(|&k| matches!(code.text(k), "." | ">")).count();
                let used = || numbers.used(base, j + 1).or_else(|| numbers.ordered(base, j));
                (ours && accesses == 1).then(used).flatten()
            })
        })
    }

    /// `x->off < y->off`: the member at `j` is compared with that of another object.
    fn ordered(&self, base: usize, j: usize) -> Option<String> {
        let code = self.code;
        let less = |t: &str| matches!(t, "<" | ">" | "-");
        let access = (code.text(j + 1), code.text(j + 2)) == ("-", ">");
        let behind = less(code.text(j + 1)) && !access && {
            let from = j + 2 + usize::from(code.text(j + 2) == "=");
            let end = code.operand_end(from);
            code.text(end - 1) == code.text(j) && (from..end).all(|k| code.text(k) != code.text(base))
        };
        behind.then(|| "is compared with another".into())
    }

    /// A function of the sources prints its parameter, or compares or divides with it.
    fn parameter(&self, open: usize, from: usize) -> Option<String> {
        let code = self.code;
        let name = code.text(open.checked_sub(1)?);
        let index = code.arguments(open).iter().position(|a| (a.0..a.1).contains(&from))?;
        let defining = self.files.iter().find(|f| may_be_function(f.1, name))?;
        let source = Source::new(defining.1);
        let code = Code::new(&source);
        let numbers = Numbers { code: &code, files: self.files };
        let header = code.places(name).iter().find_map(|&j| {
            let close = code.closing(j + 1)?;
            (code.text(j + 1) == "(" && code.text(close + 1) == "{").then_some((j + 1, close + 1))
        });
        let (parameters, body) = header?;
        let &(_, end) = code.arguments(parameters).get(index)?;
        let own = code.text(end - 1);
        let (_, last) = code.function(body + 1);
        let uses: Vec<usize> =
            code.places(own).iter().copied().filter(|j| (body..last).contains(j)).collect();
        let how = uses.iter().find_map(|&j| {
            let how = numbers.used(j, j + 1)?;
            // Allocators have sizes of their own; `if (used + size > sizeof pool)` is what fits.
            let summed = code.text(j - 1) == "+" || code.text(j + 1) == "+";
            match how.as_str() {
                "is printed" => Some("prints"),
                "is compared with a number" if summed || !super::bytes::keeps(name) => {
                    Some("compares with a number")
                }
                "divides a number of bytes" => Some("divides a number of bytes by"),
                _ => None,
            }
        });
        // `size_t rounded(size_t n) { return (n + 15) & ~15; }`
        let returned = uses.iter().any(|&j| match code.around_number(j, j + 1) {
            Around::Number(from, _) => code.text(from.wrapping_sub(1)) == "return",
            _ => false,
        });
        let passed_on = || {
            let how = self.shown(open - 1, self.code.closing(open)? + 1).filter(|_| returned)?;
            Some(format!("is rounded or so by {name}(), and {how}"))
        };
        how.map(|how| format!("is what {name}() {how}")).or_else(passed_on)
    }
}

fn prints(function: &str) -> bool {
    let lower = function.to_lowercase();
    PRINTS.iter().any(|p| lower.contains(p))
}

/// The value of a number as sources write it.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L', 'z', 'Z']).replace('\'', "");
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A word in capitals.
fn is_constant(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase())
}
