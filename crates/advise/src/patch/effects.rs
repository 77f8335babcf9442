//! Values in braces that are worked out one after the other, and do something: C leaves the order open, and compilers
//! take that of the members.

use super::body::Source;
use super::neighbours::{Uses, macro_text, may_be_function};
use super::scan::Code;

/// Functions of the system that give something else each time.
const STREAMS: [&str; 16] = [
    "getchar", "fgetc", "getc", "fgets", "fread", "read", "recv", "rand", "random", "drand48", "strtok",
    "scanf", "fscanf", "va_arg", "clock", "dequeue",
];

/// Functions that print.
const PRINTS: [&str; 4] = ["printf", "puts", "putchar", "fwrite"];

impl Uses<'_, '_, '_> {
    /// `struct s x = { .a = next(), .b = next() }`: what two members get depends on which is worked out first.
    pub(super) fn in_turn(&self, open: usize) -> Option<String> {
        let code = &self.objects.code;
        if code.is_cpp() || !self.is_of_type(open) {
            return None;
        }
        let close = code.matching(open, ["{", "}"], 400)?;
        let named = (open + 1..close).filter(|&j| {
            let begins =
                code.text(j) == "." && matches!(code.text(j - 1), "{" | ",") && code.text(j + 2) == "=";
            begins && code.open_before(j) == Some(open)
        });
        let places: Vec<usize> = named.collect();
        let ends = places.iter().skip(1).copied().chain([close]);
        let values = places.iter().zip(ends).filter(|&(&at, end)| (at + 3..end).any(|j| self.acts(j)));
        let names: Vec<&str> = values.map(|(&at, _)| code.text(at + 1)).collect();
        let [first, second, ..] = names[..] else { return None };
        Some(format!("what {first} and {second} begin with is worked out in the order of the members"))
    }

    /// The braces at `open` are the value of a variable of the type, or a compound literal of it.
    fn is_of_type(&self, open: usize) -> bool {
        let (objects, code) = (self.objects, &self.objects.code);
        match open.checked_sub(1).map_or("", |b| code.text(b)) {
            ")" => code.opening(open - 1).is_some_and(|o| objects.names_type(o, open - 1)),
            "=" => code.initialised(open).is_some_and(|v| objects.is_variable_or_declared(v)),
            "{" | "," => code.open_before(open).is_some_and(|outer| {
                code.text(outer) == "{"
                    && code.initialised(outer).is_some_and(|v| objects.is_variable_or_declared(v))
            }),
            _ => false,
        }
    }

    /// The token at `i` changes something, or calls what does.
    fn acts(&self, i: usize) -> bool {
        let code = &self.objects.code;
        let twice = |t: &str| code.text(i) == t && code.text(i + 1) == t;
        if twice("+") || twice("-") {
            return true;
        }
        let word = code.text(i);
        if !code.is_word(i) {
            return false;
        }
        let made = self.files.iter().find_map(|f| macro_text(f.1, word));
        if made.is_some_and(|m| m.contains("++") || m.contains("--")) {
            return true;
        }
        code.text(i + 1) == "(" && (STREAMS.contains(&word) || self.files.iter().any(|f| acts_in(f.1, word)))
    }
}

/// The text defines a function `name` that changes what outlives it, or prints.
fn acts_in(text: &str, name: &str) -> bool {
    if !may_be_function(text, name) {
        return false;
    }
    let source = Source::new(text);
    let code = Code::new(&source);
    code.definitions(name).any(|(_, brace)| {
        (brace + 1..code.close_of(brace)).any(|j| {
            let step = |t: &str| code.text(j) == t && code.text(j + 1) == t;
            let prints = PRINTS.iter().any(|p| code.text(j).ends_with(p)) && code.text(j + 1) == "(";
            let sign = |t: &str| matches!(t, "=" | "!" | "<" | ">");
            let sets = code.text(j) == "=" && !sign(code.text(j + 1)) && !sign(code.text(j - 1));
            let before = || code.operand_start(j.saturating_sub(1));
            let stepped = (step("+") || step("-")) && {
                let behind = if code.is_word(j + 2) { j + 2 } else { before() };
                outlives(&code, behind)
            };
            let sum = usize::from(matches!(code.text(j - 1), "+" | "-" | "|"));
            let set = sets && outlives(&code, code.operand_start(j - 1 - sum));
            prints || stepped || set || STREAMS.contains(&code.text(j)) && code.text(j + 1) == "("
        })
    })
}

/// The path that begins at `at` leads to what is no variable of the function, or one that it keeps.
fn outlives(code: &Code<'_, '_>, at: usize) -> bool {
    let Some((declared, d)) = code.variable_at(code.text(at), at + 1) else { return code.is_word(at) };
    let reached = matches!(code.text(at + 1), "-" | "[") && d.depth > 0;
    code.is_declared_static(declared)
        || reached
        || !code.is_in_function(declared)
            && code.enclosing(declared).is_none()
            && !is_parameter(code, declared)
}

fn is_parameter(code: &Code<'_, '_>, at: usize) -> bool {
    code.open_before(at).is_some_and(|open| code.text(open) == "(")
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    #[test]
    fn values_that_are_worked_out_in_turn() {
        let refused = |functions: &str, value: &str| {
            let code = format!(
                "struct s {{ int a; int b; char *c; }};\n{functions}\nvoid f(int n) {{ {value} use(x); }}\n"
            );
            let edits = ["swap:a,b".parse::<Edit>().unwrap()];
            let found = check("s", Some(&edits), Ask::LAYOUT, &[("a.c", &code)]);
            found.err().is_some_and(|e| e.to_string().contains("in the order of the members"))
        };
        let next = "static int n_;\nstatic int next(void) { return ++n_; }";
        let pure = "static int twice(int x) { int y = x; y += x; return y; }";
        assert!(refused(next, "struct s x = { .a = next(), .b = next() };"));
        assert!(refused(next, "struct s x = (struct s){ .b = next(), .a = next() };"));
        assert!(refused(next, "struct s x[] = { { .a = next(), .b = next() } };"));
        assert!(refused("", "struct s x = { .a = n++, .b = n++ };"));
        assert!(refused("", "struct s x = { .a = getchar(), .b = getchar() };"));
        assert!(!refused(next, "struct s x = { .a = next(), .b = 0 };"));
        assert!(!refused(pure, "struct s x = { .a = twice(1), .b = twice(2) };"));
    }
}
