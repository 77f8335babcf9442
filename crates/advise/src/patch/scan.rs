//! Reads a file's code tokens for calls and declarations: enough to say which type a name was declared with.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::body::Source;
use super::lex::Kind;

/// Tokens that a call's parentheses may hold; more is no call that somebody wrote.
const CALL_TOKENS_MAX: usize = 400;

/// Tokens of a function that are looked at.
const BODY_TOKENS_MAX: usize = 4000;

/// Words before a name that are no type of it.
const NO_TYPES: [&str; 16] = [
    "return",
    "sizeof",
    "else",
    "case",
    "goto",
    "struct",
    "class",
    "union",
    "enum",
    "namespace",
    "new",
    "delete",
    "throw",
    "typename",
    "using",
    "typedef",
];

/// The code tokens of one file, without comments and directives. Places are indices among them.
pub(super) struct Code<'s, 'a> {
    pub(super) source: &'s Source<'a>,
    tokens: Vec<usize>,
    /// Places of every word, in order.
    words: OnceCell<HashMap<&'a str, Vec<usize>>>,
    /// Declarations of the words that were asked for, in order.
    declarations: RefCell<HashMap<&'a str, Declarations>>,
    /// Per token the place of the `{` around it, and its own number where there is none.
    around: OnceCell<Vec<usize>>,
    /// Place of the `}` of every `{`.
    closes: OnceCell<HashMap<usize, usize>>,
    cpp: OnceCell<bool>,
    /// Functions that the file alone has.
    statics: OnceCell<HashSet<&'a str>>,
}

/// Places and types of the declarations of one word, and where the functions end in which they stand.
type Declarations = Rc<[(usize, Declared, usize)]>;

/// What a name was declared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// Place of the type's name.
    pub(super) ty: usize,
    /// Stars and brackets: how often it is dereferenced to get the type itself.
    pub(super) depth: usize,
}

impl<'s, 'a> Code<'s, 'a> {
    pub(super) fn new(source: &'s Source<'a>) -> Self {
        let is_code = |i: &usize| {
            let token = source.tokens[*i];
            token.is_code() && token.kind != Kind::Directive
        };
        Code {
            source,
            tokens: (0..source.tokens.len()).filter(is_code).collect(),
            words: OnceCell::new(),
            declarations: RefCell::default(),
            around: OnceCell::new(),
            closes: OnceCell::new(),
            cpp: OnceCell::new(),
            statics: OnceCell::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn text(&self, i: usize) -> &'a str {
        self.tokens.get(i).map_or("", |&t| self.source.at(t))
    }

    /// Bytes of the token at `i`; empty behind the end.
    pub(super) fn range(&self, i: usize) -> std::ops::Range<usize> {
        let end = self.source.text.len();
        self.tokens.get(i).map_or(end..end, |&t| self.source.tokens[t].start..self.source.tokens[t].end)
    }

    pub(super) fn line(&self, i: usize) -> u32 {
        self.tokens.get(i).map_or(0, |&t| self.source.tokens[t].line)
    }

    pub(super) fn is_word(&self, i: usize) -> bool {
        self.tokens.get(i).is_some_and(|&t| self.source.tokens[t].kind == Kind::Ident)
    }

    /// Number of the token at `i` among all of the source.
    pub(super) fn token(&self, i: usize) -> Option<usize> {
        self.tokens.get(i).copied()
    }

    /// Place of the first code token at or behind token `t` of the source.
    pub(super) fn place_of(&self, t: usize) -> usize {
        self.tokens.partition_point(|&x| x < t)
    }

    /// Place of the `)` of the `(` at `open`.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        self.matching(open, ["(", ")"], CALL_TOKENS_MAX)
    }

    /// Place of the bracket that closes the first one at or behind `open`, at most `tokens` away.
    pub(super) fn matching(&self, open: usize, [left, right]: [&str; 2], tokens: usize) -> Option<usize> {
        let mut depth = 0usize;
        for i in open..self.len().min(open.saturating_add(tokens)) {
            match self.text(i) {
                t if t == left => depth += 1,
                t if t == right && depth == 1 => return Some(i),
                t if t == right => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// The last declaration of the variable `name` before `i`.
    pub(super) fn variable(&self, name: &str, i: usize) -> Option<Declared> {
        self.variable_at(name, i).map(|(_, d)| d)
    }

    /// The last declaration of the variable `name` before `i`, and where it stands.
    pub(super) fn variable_at(&self, name: &str, i: usize) -> Option<(usize, Declared)> {
        let declared = self.declarations(name);
        let before = &declared[..declared.partition_point(|d| d.0 < i)];
        before.iter().rev().find(|d| i < d.2).map(|&(at, declared, _)| (at, declared))
    }

    /// Where what is declared at `at` is no longer known: the end of its function, or of the one that it is a parameter
    /// of.
    fn end_of_scope(&self, at: usize) -> usize {
        let parameter = || {
            let outermost = |open: &usize| self.text(*open) == "(";
            let open = std::iter::successors(self.open_before(at), |&o| self.open_before(o))
                .filter(outermost)
                .last()?;
            let close = self.closing(open)?;
            let ends = |j: &usize| matches!(self.text(*j), "{" | ";" | ")" | ",");
            (close + 1..self.len().min(close + 40)).find(ends)
        };
        match self.function_around(at) {
            Some(open) => self.close_of(open),
            None => match parameter() {
                Some(body) if self.text(body) == "{" => self.close_of(body),
                Some(end) => end,
                None => self.len(),
            },
        }
    }

    /// Place of the `}` of the `{` at `open`; the end, where there is none.
    pub(super) fn close_of(&self, open: usize) -> usize {
        let closes = self.closes.get_or_init(|| {
            let (mut opened, mut out) = (Vec::new(), HashMap::new());
            for i in 0..self.len() {
                match self.text(i) {
                    "{" => opened.push(i),
                    "}" => out.extend(opened.pop().map(|open| (open, i))),
                    _ => {}
                }
            }
            out
        });
        closes.get(&open).copied().unwrap_or(self.len())
    }

    /// Place of the `{` of the `}` at `close`, which is near.
    fn open_of(&self, close: usize) -> Option<usize> {
        const TOKENS_MAX: usize = 400;
        let mut depth = 0usize;
        (close.saturating_sub(TOKENS_MAX)..=close).rev().find(|&j| {
            match self.text(j) {
                "}" => depth += 1,
                "{" => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    /// Places of the word `name`, in order.
    pub(super) fn places(&self, name: &str) -> &[usize] {
        let words = self.words.get_or_init(|| {
            let mut out: HashMap<&'a str, Vec<usize>> = HashMap::new();
            for i in (0..self.len()).filter(|&i| self.is_word(i)) {
                out.entry(self.text(i)).or_default().push(i);
            }
            out
        });
        words.get(name).map_or(&[], Vec::as_slice)
    }

    /// The pointer `name` is indexed or moved between two places.
    pub(super) fn walks(&self, name: &str, from: usize, to: usize) -> bool {
        // A member of another object is not the variable of its name.
        let member = |j: usize| {
            let this = self.text(j.saturating_sub(3)) == "this";
            self.text(j - 1) == "."
                || (self.text(j - 1), self.text(j.saturating_sub(2))) == (">", "-") && !this
        };
        let inside = self.places(name).iter().filter(|&&j| from <= j && j < to && !member(j));
        inside.into_iter().any(|&j| {
            let next = (self.text(j + 1), self.text(j + 2));
            let before = (self.text(j - 1), self.text(j.saturating_sub(2)));
            // `(char *)p - offsetof(..)` is `container_of`.
            let back = next.0 == "-" && !matches!(next.1, ">" | "offsetof" | "__builtin_offsetof");
            // `*p += 1` works on what it points to.
            let value = before.0 == "*" && next.0 != next.1;
            let stepped = (back || next.0 == "+") && !value;
            // `i[p]` is `p[i]`.
            let swapped = before.0 == "[" && next.0 == "]" && self.text(j.saturating_sub(2)) != "(";
            let indexed = (next.0 == "[" && next.1 != "0") || swapped;
            // `std::next(p)`, `std::advance(p, 2)`
            let by_name = before.0 == "(" && matches!(before.1, "next" | "prev" | "advance");
            let by_name = by_name && self.text(j.saturating_sub(3)) == ":";
            stepped || indexed || by_name || before == ("+", "+") || before == ("-", "-")
        })
    }

    /// The token at `i` stands in the body of a function.
    pub(super) fn is_in_function(&self, i: usize) -> bool {
        self.function_around(i).is_some()
    }

    /// Place of the outermost `{` around `i` that stands behind parentheses.
    fn function_around(&self, i: usize) -> Option<usize> {
        self.outwards(i).filter(|&open| (self.start_of(open)..open).any(|j| self.text(j) == "(")).last()
    }

    /// Places of every `{` around `i`, the innermost first.
    fn outwards(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.enclosing(i), |&open| self.enclosing(open))
    }

    /// The file is C++, as far as a glance tells.
    pub(super) fn is_cpp(&self) -> bool {
        *self.cpp.get_or_init(|| self.source.text.contains("::"))
    }

    /// The functions `name` that are defined here: place of the `(` of its parameters, and of the `{`.
    pub(super) fn definitions(&self, name: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.places(name).iter().filter_map(|&i| self.definition(i))
    }

    /// All functions that are defined here: place of the name, of the `(` and of the `{`.
    pub(super) fn all_definitions(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let words = (0..self.len()).filter(|&i| self.is_word(i));
        words.filter_map(|i| self.definition(i).map(|(open, brace)| (i, open, brace)))
    }

    /// The function whose name is at `i` is defined there. Inside of a function, `name(..) {` is a loop that a macro
    /// makes.
    fn definition(&self, i: usize) -> Option<(usize, usize)> {
        let close = self.closing(i + 1).filter(|c| self.text(i + 1) == "(" && self.text(c + 1) == "{")?;
        (!self.is_in_function(i)).then_some((i + 1, close + 1))
    }

    /// `static` stands before what is declared at `i`.
    pub(super) fn is_declared_static(&self, i: usize) -> bool {
        (self.start_of(i)..i).any(|j| self.text(j) == "static")
    }

    /// A `static` function `name` is defined here.
    pub(super) fn is_static(&self, name: &str) -> bool {
        let all = || {
            self.all_definitions().filter(|d| self.is_declared_static(d.0)).map(|d| self.text(d.0)).collect()
        };
        self.statics.get_or_init(all).contains(name)
    }

    /// The same of `auto name = [](..) {`.
    fn lambdas(&self, name: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
        let named = self.places(name).iter().filter(|&&i| (self.text(i + 1), self.text(i + 2)) == ("=", "["));
        named.filter_map(|&i| {
            let open = self.matching(i + 2, ["[", "]"], 60)? + 1;
            let close = self.closing(open).filter(|_| self.text(open) == "(")?;
            (close + 1..close + 8).find(|&j| self.text(j) == "{").map(|body| (open, body))
        })
    }

    /// Whether the function `name` is defined here and walks from where its parameter `index` points, or from a
    /// variable that is given it.
    pub(super) fn walks_parameter(&self, name: &str, index: usize) -> bool {
        self.definitions(name).chain(self.lambdas(name)).any(|(open, body)| {
            let close = self.closing(open).unwrap_or(body);
            let mut commas = (open + 1..close).filter(|&j| self.text(j) == ",");
            let end = commas.clone().nth(index).unwrap_or(close);
            let named = index == 0 || commas.nth(index - 1).is_some();
            let parameter = (open + 1..end).rev().find(|&j| self.is_word(j));
            let last = self.matching(body, ["{", "}"], BODY_TOKENS_MAX).unwrap_or(self.len());
            // `int *p = arg;`
            let given = |&&j: &&usize| {
                let ends = self.text(j - 1) == "=" && self.text(j + 1) == ";";
                // Bytes may be those of the member alone.
                let byte = |k: usize| matches!(self.text(k), "char" | "void" | "uint8_t" | "u8" | "byte");
                ends && !(self.start_of(j)..j).any(byte)
                    && body < j
                    && j < last
                    && self.walks(self.text(j - 2), j, last)
            };
            named
                && parameter.is_some_and(|p| {
                    let name = self.text(p);
                    self.walks(name, body, last) || self.places(name).iter().any(|j| given(&j))
                })
        })
    }

    /// Tokens of the function around `i`: of the outermost braces behind parentheses, else of all braces.
    pub(super) fn function(&self, i: usize) -> (usize, usize) {
        let from = self.body(i);
        let most = self.len().min(from + BODY_TOKENS_MAX);
        (from, self.matching(from, ["{", "}"], BODY_TOKENS_MAX).unwrap_or(most))
    }

    /// Where [`Code::function`] begins.
    fn body(&self, i: usize) -> usize {
        self.function_around(i).or_else(|| self.outwards(i).last()).unwrap_or(i)
    }

    /// Place of the name of the function around the token at `i`.
    pub(super) fn function_name(&self, i: usize) -> Option<usize> {
        let body = self.body(i);
        (self.start_of(body)..body).find(|&j| self.is_word(j) && self.text(j + 1) == "(")
    }

    /// Name of the function around a call, if it returns a `void *`.
    pub(super) fn void_function(&self, call: usize) -> Option<&'a str> {
        let name = self.function_name(call)?;
        let void = (self.start_of(name)..name).any(|j| self.text(j) == "void")
            && self.text(name.wrapping_sub(1)) == "*";
        void.then(|| self.text(name))
    }

    /// A type stands before the name at `i`: it is declared there, and not called.
    pub(super) fn is_typed(&self, i: usize) -> bool {
        let before = || self.text(i - 1);
        i > 0 && (self.is_word(i - 1) && before() != "return" || before() == "*")
    }

    /// Ranges of the arguments of the call whose `(` is at `open`.
    pub(super) fn arguments(&self, open: usize) -> Vec<(usize, usize)> {
        self.closing(open).map_or_else(Vec::new, |close| self.between(open, close))
    }

    /// Ranges of what commas part between two brackets.
    pub(super) fn between(&self, open: usize, close: usize) -> Vec<(usize, usize)> {
        let (mut depth, mut from) = (0usize, open + 1);
        let mut out = Vec::new();
        for i in open + 1..close {
            match self.text(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => {
                    out.push((from, i));
                    from = i + 1;
                }
                _ => {}
            }
        }
        if from < close {
            out.push((from, close));
        }
        out
    }

    /// Place of the bracket that the one at `close` closes.
    pub(super) fn opening(&self, close: usize) -> Option<usize> {
        let right = self.text(close);
        let left = match right {
            ")" => "(",
            "]" => "[",
            _ => return None,
        };
        let mut depth = 0usize;
        (close.saturating_sub(CALL_TOKENS_MAX)..=close).rev().find(|&j| {
            match self.text(j) {
                t if t == right => depth += 1,
                t if t == left => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// Place of the `(` of the cast that ends with the `)` at `close`: `(char *)`, `(uintptr_t)`.
    pub(super) fn cast_before(&self, close: usize) -> Option<usize> {
        let open = self.opening(close).filter(|_| self.text(close) == ")")?;
        let inside = open + 1..close;
        let called = open > 0 && self.is_word(open - 1) && !matches!(self.text(open - 1), "return" | "case");
        let number = |j: usize| is_number_type(self.text(j)) || self.text(j) == "const";
        // `(long (*)[4])`
        let array = self.text(close - 1) == "]" && inside.clone().any(|j| self.text(j) == "*");
        let pointer = (self.text(close - 1) == "*" || array) && self.is_word(open + 1);
        (!called && close > open + 1 && (pointer || inside.clone().all(number))).then_some(open)
    }

    fn declarations(&self, name: &str) -> Declarations {
        if let Some(known) = self.declarations.borrow().get(name) {
            return known.clone();
        }
        let places = self.places(name);
        let Some(&first) = places.first() else { return Rc::default() };
        let declared = places.iter().filter_map(|&j| Some((j, self.declaration(j).filter(|_| j > 0)?)));
        let found: Declarations = declared.map(|(j, d)| (j, d, self.end_of_scope(j))).collect();
        self.declarations.borrow_mut().insert(self.text(first), found.clone());
        found
    }

    /// The declaration whose declarator is the name at `j`, if it is one.
    pub(super) fn declaration(&self, j: usize) -> Option<Declared> {
        // `std::vector<foo> v(2);`
        let constructed = self.text(j + 1) == "(" && j > 0 && self.text(j - 1) == ">";
        let behind = self.text(self.behind_attributes(j + 1));
        if !constructed && !matches!(behind, ";" | "," | "=" | ")" | "[" | "{" | ":") {
            return None;
        }
        let ty = self.type_before(j)?;
        let stars = (ty + 1..j).filter(|&k| self.text(k) == "*").count();
        let mut brackets = 0;
        let mut at = j + 1;
        while self.text(at) == "[" {
            brackets += 1;
            at = (at..self.len()).find(|&k| self.text(k) == "]")? + 1;
        }
        Some(Declared { ty, depth: stars + brackets })
    }

    /// Place of the variable whose value the braces at `open`, or those around them, give.
    pub(super) fn initialised(&self, open: usize) -> Option<usize> {
        let outer = self.open_before(open).unwrap_or(open);
        let equal =
            [open, outer].into_iter().find_map(|o| o.checked_sub(1).filter(|&e| self.text(e) == "="))?;
        let last = equal.checked_sub(1)?;
        if self.text(last) == "]" { self.opening(last)?.checked_sub(1) } else { Some(last) }
    }

    /// The token behind `__attribute__((..))` at `at`; else `at`.
    pub(super) fn behind_attributes(&self, mut at: usize) -> usize {
        while matches!(self.text(at), "__attribute__" | "__attribute" | "asm" | "__asm__") {
            match self.closing(at + 1) {
                Some(close) => at = close + 1,
                None => break,
            }
        }
        at
    }

    /// The type's name before a declarator: behind `*`, `&` and `const`.
    fn type_before(&self, declarator: usize) -> Option<usize> {
        let behind = |mut at: usize| {
            while matches!(self.text(at), "*" | "&" | "const" | "restrict" | "volatile") {
                at = at.checked_sub(1)?;
            }
            Some(at)
        };
        let mut at = behind(declarator.checked_sub(1)?)?;
        // `struct foo *a, *b;`: over the declarators before this one.
        while self.text(at) == "," {
            let name = self.before_brackets(self.before_attribute(self.before_value(at.checked_sub(1)?))?)?;
            if !self.is_word(name) {
                break;
            }
            at = behind(name.checked_sub(1)?)?;
        }
        let at = self.before_arguments(behind(self.before_attribute(at)?)?)?;
        let word = self.is_word(at) && !NO_TYPES.contains(&self.text(at));
        let plain = matches!(self.text(declarator - 1), ">" | ")") || at + 1 == declarator;
        (word && (plain || !self.is_operand(at))).then_some(at)
    }

    /// The declarator whose value `= {..}`, `= 1` or `= f(x)` ends at `at`; else `at`.
    fn before_value(&self, at: usize) -> usize {
        if let Some(name) = self.before_braces(at) {
            return name;
        }
        let mut depth = 0usize;
        for j in (at.saturating_sub(CALL_TOKENS_MAX)..=at).rev() {
            match self.text(j) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" if depth == 0 => return at,
                "(" | "[" | "{" => depth -= 1,
                ";" | "," if depth == 0 => return at,
                "=" if depth == 0 => return j.saturating_sub(1),
                _ => {}
            }
        }
        at
    }

    /// The name before the braces that end at `at`: `top` of `long top{0}, next;`.
    fn before_braces(&self, at: usize) -> Option<usize> {
        let mut depth = 0usize;
        let open = (at.saturating_sub(CALL_TOKENS_MAX)..=at).rev().find(|&j| {
            match self.text(j) {
                "}" => depth += 1,
                "{" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let name = open.filter(|_| self.text(at) == "}")?.checked_sub(1)?;
        self.is_word(name).then_some(name)
    }

    /// The declarator before `[2][3]` that ends at `at`; else `at`.
    fn before_brackets(&self, at: usize) -> Option<usize> {
        let mut at = at;
        while self.text(at) == "]" {
            at = self.opening(at)?.checked_sub(1)?;
        }
        Some(at)
    }

    /// The token before `__attribute__((..))` that ends at `at`; else `at`.
    fn before_attribute(&self, at: usize) -> Option<usize> {
        let mut depth = 0usize;
        for j in (at.saturating_sub(CALL_TOKENS_MAX)..=at).rev() {
            match self.text(j) {
                ")" => depth += 1,
                "(" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                let word = j.checked_sub(1).map_or("", |b| self.text(b));
                let attribute = j != at && matches!(word, "__attribute__" | "alignas" | "_Alignas");
                return if attribute { j.checked_sub(2) } else { Some(at) };
            }
        }
        Some(at)
    }

    /// The name before `<..>` that ends at `at`, or `_Atomic` before `(..)`; else `at`.
    fn before_arguments(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1).map_or("", |b| self.text(b));
        let (open, close) = match (self.text(at), before) {
            (">", "-") => return None,
            (">", _) => ("<", ">"),
            (")", _) => ("(", ")"),
            _ => return Some(at),
        };
        let mut depth = 0usize;
        for j in (at.saturating_sub(CALL_TOKENS_MAX)..=at).rev() {
            match self.text(j) {
                text if text == close => depth += 1,
                text if text == open => depth -= 1,
                ";" | "{" | "}" => return None,
                _ => {}
            }
            if depth == 0 {
                let before = j.checked_sub(1)?;
                let template = close == ">"
                    || is_typeof(self.text(before))
                    || matches!(self.text(before), "_Atomic" | "alignas");
                return template.then_some(before);
            }
        }
        None
    }

    /// Place of the `{` that the token at `i` stands in; `None` outside of all.
    pub(super) fn enclosing(&self, i: usize) -> Option<usize> {
        let around = self.around.get_or_init(|| {
            let mut open = Vec::new();
            (0..self.len())
                .map(|i| {
                    let own = if self.text(i) == "}" { open.pop() } else { open.last().copied() };
                    open.extend((self.text(i) == "{").then_some(i));
                    own.unwrap_or(i)
                })
                .collect()
        });
        around.get(i).copied().filter(|&o| o != i)
    }

    /// Place of the first token of the statement around the one at `i`; `private:` ends the one before.
    pub(super) fn start_of(&self, i: usize) -> usize {
        let access = |j: usize| j > 0 && matches!(self.text(j - 1), "private" | "public" | "protected");
        let mut at = i;
        while at > 0 {
            match self.text(at - 1) {
                // `long a{0}, b{0};` is one declaration.
                "}" if self.text(at) == "," => at = self.open_of(at - 1).unwrap_or(0),
                ";" | "{" | "}" => return at,
                ":" if access(at - 1) => return at,
                _ => at -= 1,
            }
        }
        0
    }

    /// Places of the statement around the token at `i`: its first token, and its `;` or what ends it, the `}` of a
    /// function's body.
    pub(super) fn statement(&self, i: usize) -> (usize, usize) {
        let start = self.start_of(i);
        let (mut depth, mut body) = (0usize, false);
        let end = (i..self.len()).find(|&j| {
            let outside = depth == 0;
            match self.text(j) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if outside && self.text(j) == "{" && j > 0 {
                body = matches!(self.text(j - 1), ")" | "const" | "noexcept" | "override" | "final");
            }
            depth == 0 && (self.text(j) == ";" || body && self.text(j) == "}" && self.ends_at(j))
        });
        (start, end.unwrap_or(self.len()))
    }

    /// What follows the `}` at `j` begins something else.
    fn ends_at(&self, j: usize) -> bool {
        j + 1 >= self.len() || self.text(j + 1) == "}" || self.is_word(j + 1)
    }

    /// `a * b` multiplies where a value stands before: only statements and parameter lists begin declarations.
    fn is_operand(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or(";", |b| self.text(b));
        let begins = matches!(before, ";" | "{" | "}" | "(" | "," | ":" | "const" | "volatile" | "static");
        let storage = matches!(before, "extern" | "register" | "inline" | "constexpr" | "mutable");
        let tagged = matches!(before, "struct" | "class" | "union" | "enum" | "typename");
        // `unsigned char *p`: a word of a type is no value.
        let number = matches!(before, "unsigned" | "signed" | "short" | "int" | "long" | "char");
        !begins && !storage && !tagged && !number
    }
}

/// Words whose parentheses hold something of the type that is meant.
pub(super) fn is_typeof(word: &str) -> bool {
    matches!(word, "typeof" | "__typeof__" | "__typeof" | "typeof_unqual" | "decltype")
}

/// The word is a type of whole numbers, by its name: C's own, `<stdint.h>`'s, the kernel's.
pub(super) fn is_number_type(word: &str) -> bool {
    const PLAIN: [&str; 6] = ["unsigned", "signed", "short", "int", "long", "char"];
    const SHORT: [&str; 4] = ["uint", "ulong", "ushort", "uchar"];
    const SIZES: [&str; 6] = ["size_t", "ssize_t", "ptrdiff_t", "off_t", "off64_t", "time_t"];
    const BITS: [&str; 4] = ["8", "16", "32", "64"];
    if PLAIN.contains(&word) || SHORT.contains(&word) || SIZES.contains(&word) {
        return true;
    }
    let name = word.trim_start_matches('_');
    // `uint_fast32_t`, `intptr_t`, and `u_int32_t` of BSD.
    if let Some(stem) = name.strip_suffix("_t") {
        let stem = stem.strip_prefix("u_").or(stem.strip_prefix('u')).unwrap_or(stem);
        let width =
            stem.strip_prefix("int").map(|w| w.trim_start_matches("_fast").trim_start_matches("_least"));
        return width.is_some_and(|w| BITS.contains(&w) || matches!(w, "ptr" | "max"));
    }
    // `u64`, `__le32`
    let width = ["u", "s", "le", "be"].iter().find_map(|p| name.strip_prefix(p));
    width.is_some_and(|w| BITS.contains(&w))
}

#[cfg(test)]
mod tests {
    use super::is_number_type;

    #[test]
    fn numbers_by_their_names() {
        for word in
            ["long", "size_t", "uint64_t", "int_least8_t", "uintptr_t", "u_int16_t", "__u32", "s8", "__be16"]
        {
            assert!(is_number_type(word), "{word}");
        }
        for word in ["point_t", "gate", "u", "u7", "user", "print_t", "atomic_int", "s", "be"] {
            assert!(!is_number_type(word), "{word}");
        }
    }
}
