//! What becomes of the size of a struct, and of offsets in it.

use super::Uses;
use crate::patch::rust::item::Source;

/// Macros that print or compare what they are given.
const MACROS: [&str; 12] = [
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "write",
    "writeln",
    "panic",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert_eq",
];

/// Methods that make bytes or text of a number.
const BYTES: [&str; 4] = ["to_le_bytes", "to_be_bytes", "to_ne_bytes", "to_string"];

/// Functions that hand a number on to each other.
const HANDS_MAX: usize = 3;

/// The whole of an amount of which the tokens between two are a part: products, sums and casts in parentheses.
fn amount(s: &Source<'_>, i: usize, to: usize) -> (usize, usize) {
    let (mut from, mut end) = (i, to);
    loop {
        let before = s.at(from.wrapping_sub(1));
        let behind = s.at(end);
        if before == ":" && s.at(from.wrapping_sub(2)) == ":" {
            from = from.saturating_sub(3);
        } else if behind == "as" && s.is_ident(end + 1) {
            end += 2;
        } else if matches!(before, "*" | "+") && from > 1 {
            let operand = from - 2;
            let starts = |j: &usize| matches!(s.at(*j), "(" | "," | ";" | "{" | "=" | "return");
            let closed = s.at(operand) == ")" || s.at(operand) == "]";
            let last = if closed { s.opening(operand).unwrap_or(operand) } else { operand };
            from = (0..=last).rev().take_while(|j| !starts(j) || *j == last).last().unwrap_or(last);
        } else if matches!(behind, "*" | "+") {
            end = (end + 1..s.tokens.len())
                .find(|&j| matches!(s.at(j), ")" | "," | ";" | "}" | "as"))
                .unwrap_or(end);
        } else if before == "("
            && behind == ")"
            && (from < 2 || !(s.is_ident(from - 2) || s.at(from - 2) == ">"))
        {
            (from, end) = (from - 1, end + 1);
        } else {
            return (from, end);
        }
    }
}

impl<'a> Uses<'_, 'a> {
    pub(super) fn measured(&self, i: usize) -> Option<String> {
        let s = self.s;
        let open = (i..i + 12).find(|&j| s.at(j) == "(")?;
        let close = s.closing(open)?;
        let what = if s.at(i).starts_with("align") { "its alignment" } else { "its size" };
        let ours = (i..close).any(|j| self.is_whole(j));
        ours.then(|| self.shown(i, close + 1)).flatten().map(|how| format!("{what} {how}"))
    }

    pub(super) fn offset(&self, i: usize) -> Option<String> {
        let s = self.s;
        let open = (i..i + 3).find(|&j| s.at(j) == "(")?;
        let close = s.closing(open)?;
        let ours = s.at(open + 1) == self.name;
        ours.then(|| self.shown(i, close + 1)).flatten().map(|how| format!("an offset {how}"))
    }

    /// What is done with the number before `to`, the last token of an expression.
    fn shown(&self, i: usize, to: usize) -> Option<String> {
        let s = self.s;
        // `std::mem::size_of`
        let from = (0..i).rev().find(|&j| s.at(j) != ":" && s.at(j + 1) != ":").map_or(0, |j| j + 1);
        let (before, behind) = (s.at(from.wrapping_sub(1)), s.at(to));
        if matches!(before, "/" | "%") || matches!(behind, "/" | "%") {
            return Some("is divided, or divides".into());
        }
        let equal =
            behind == "=" || (before == "=" && matches!(s.at(from.wrapping_sub(2)), "=" | "!" | "<" | ">"));
        if matches!(behind, "<" | ">" | "!") || matches!(before, "<" | ">") || equal {
            return Some("is compared".into());
        }
        if self.is_printed(i) {
            return Some("is printed or compared".into());
        }
        if let Some(how) = self.given_on(i, to, HANDS_MAX) {
            return Some(how);
        }
        let (start, _) = self.statement(i);
        let variable = match s.at(start) {
            "let" => start + 1 + usize::from(s.at(start + 1) == "mut"),
            "const" | "static" => start + 1,
            _ => return None,
        };
        let name = s.at(variable);
        let shown = (0..s.tokens.len()).any(|j| j != variable && s.at(j) == name && self.is_printed(j));
        let captured = format!("{{{name}}}");
        (shown || s.text.contains(&captured))
            .then(|| format!("is kept in {name}, which is printed or compared"))
    }

    /// It becomes bytes, or is what a function gives of which that is true.
    fn given_on(&self, i: usize, to: usize, hands: usize) -> Option<String> {
        let s = self.s;
        let (from, end) = amount(s, i, to);
        if s.at(end) == "." && BYTES.contains(&s.at(end + 1)) {
            return Some("becomes bytes".into());
        }
        let start = s.at(from.wrapping_sub(1));
        let given = start == "return" || matches!(start, "{" | ";" | "}") && s.at(end) == "}";
        let open = s.opening(i).filter(|o| given && s.at(*o) == "{")?;
        let function = (0..open)
            .rev()
            .take_while(|&j| !matches!(s.at(j), "{" | "}" | ";"))
            .find(|&j| s.at(j) == "fn")?;
        let name = s.at(function + 1);
        let shown = self.sources.iter().any(|other| {
            let uses = Uses { s: other, ..self.of_text() };
            let calls = (0..other.tokens.len()).filter(|&j| other.at(j) == name && other.at(j + 1) == "(");
            let calls = calls.filter(|&j| other.at(j.wrapping_sub(1)) != "fn");
            calls.into_iter().any(|j| {
                let behind = other.closing(j + 1).map_or(j, |c| c + 1);
                uses.is_handed_on(j, behind, hands)
            })
        });
        shown.then(|| format!("is what {name} gives, which is printed or compared"))
    }

    /// What stands there is printed, compared or becomes bytes.
    fn is_handed_on(&self, i: usize, to: usize, hands: usize) -> bool {
        let s = self.s;
        let (from, end) = amount(s, i, to);
        let words =
            |j: usize| matches!(s.at(j), "<" | ">") || matches!(s.at(j), "=" | "!") && s.at(j + 1) == "=";
        let compared = words(end) || s.at(from.wrapping_sub(1)) == "=" && s.at(from.wrapping_sub(2)) == "=";
        compared
            || self.is_printed(i)
            || self.is_kept(i)
            || hands > 0 && self.given_on(i, to, hands - 1).is_some()
    }

    /// The variable that keeps it is printed or compared.
    fn is_kept(&self, i: usize) -> bool {
        let s = self.s;
        let (start, _) = self.statement(i);
        let name = s.at(start + 1 + usize::from(s.at(start + 1) == "mut"));
        let printed = |j: usize| j > i && s.at(j) == name && self.is_printed(j);
        s.at(start) == "let" && ((i..s.tokens.len()).any(printed) || s.text.contains(&format!("{{{name}}}")))
    }

    /// The same for another text: nothing is known of its names.
    fn of_text(&self) -> Uses<'_, 'a> {
        let own = super::Owned { names: Vec::new(), methods: Vec::new() };
        Uses {
            s: self.s,
            name: self.name,
            own,
            resized: self.resized,
            sources: self.sources,
            pointers: Vec::new(),
        }
    }

    /// The token stands in the parentheses of a macro that prints or compares.
    fn is_printed(&self, i: usize) -> bool {
        let s = self.s;
        let (start, _) = self.statement(i);
        (start..i).any(|j| {
            let open = j + 2;
            MACROS.contains(&s.at(j))
                && s.at(j + 1) == "!"
                && s.closing(open).is_some_and(|close| (open..close).contains(&i))
        })
    }
}
