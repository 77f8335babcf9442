//! What all sources call objects of a type: other types that hold it, fields, statics, functions that give one.

use crate::patch::rust::item::Source;
use std::collections::HashMap;

/// What holds many objects side by side.
const MANY: [&str; 7] = ["[", "Vec", "VecDeque", "SmallVec", "ArrayVec", "vec", "chunks"];

/// Behind these the object is no part of what holds it.
const BEHIND: [&str; 14] = [
    "&",
    "*",
    "Vec",
    "VecDeque",
    "Box",
    "Arc",
    "Rc",
    "Weak",
    "NonNull",
    "AtomicPtr",
    "HashMap",
    "BTreeMap",
    "PhantomData",
    "dyn",
];

/// Types that mention another, and hold none.
const NONE: [&str; 9] =
    ["size_of", "size_of_val", "align_of", "offset_of", "Layout", "PhantomData", "Fn", "FnMut", "FnOnce"];

/// Names that say nothing about what a function gives.
const COMMON: [&str; 5] = ["new", "default", "clone", "get", "from"];

/// Types that hold types that hold it.
const ROUNDS: usize = 4;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    /// An array, or a list of them.
    pub many: bool,
    pub pointer: bool,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// The type, and what holds it by value: whether many.
    types: Vec<(String, bool)>,
    fields: HashMap<String, Vec<Field>>,
    functions: HashMap<String, Option<Whole>>,
    statics: HashMap<String, Option<Whole>>,
}

/// A field of that name: the struct that has it, and what it is.
#[derive(Debug)]
struct Field {
    of: String,
    whole: Option<Whole>,
}

impl Known {
    /// Of a struct of the sources.
    pub fn of_struct(name: &str, sources: &[Source<'_>]) -> Known {
        let mut out = Known { types: vec![(name.into(), false)], ..Known::default() };
        for _ in 0..ROUNDS {
            let found: Vec<_> = sources.iter().flat_map(|s| out.holders(s)).collect();
            let new: Vec<_> = found.into_iter().filter(|f| !out.is_type(&f.0)).collect();
            if new.is_empty() {
                break;
            }
            out.types.extend(new);
        }
        out.read(sources);
        out
    }

    /// Of a parameter of generic code.
    pub fn of_parameter(name: &str, sources: &[Source<'_>]) -> Known {
        let mut out = Known { types: vec![(name.into(), false)], ..Known::default() };
        out.read(sources);
        // A function that gives a `T` gives its own.
        out.functions.clear();
        out
    }

    pub fn is_type(&self, word: &str) -> bool {
        self.types.iter().any(|t| t.0 == word)
    }

    /// `struct Cell(UnsafeCell<Stat>)`, `type Row = [Stat; 4]`.
    fn holders(&self, s: &Source<'_>) -> Vec<(String, bool)> {
        let defined = |i: &usize| matches!(s.at(*i), "struct" | "type") && s.is_ident(i + 1);
        let all = (0..s.tokens.len()).filter(defined).filter_map(|i| {
            let end = body(s, i).map_or_else(|| type_end(s, i), |b| s.closing(b).unwrap_or(b));
            let end = if s.at(end) == "=" { type_end(s, end + 1) } else { end };
            let k = (i + 2..end).find(|&k| self.is_type(s.at(k)) && s.is_ident(k) && held(s, k))?;
            let start = start_of_type(s, k);
            // One of what holds an array is one.
            let array = s.at(i) == "type";
            let many = array
                && ((start..k).any(|j| s.at(j) == "[") || self.types.iter().any(|t| t.0 == s.at(k) && t.1));
            Some((s.at(i + 1).to_string(), many))
        });
        all.collect()
    }

    fn read(&mut self, sources: &[Source<'_>]) {
        let (mut fields, mut functions, mut statics) = (HashMap::new(), HashMap::new(), HashMap::new());
        for s in sources {
            for i in 0..s.tokens.len() {
                match s.at(i) {
                    "struct" => self.fields_of(s, i, &mut fields),
                    "fn" if s.is_ident(i + 1) => {
                        let given = self.given_by(s, i);
                        // One of several functions of that name says nothing.
                        let known = functions.entry(s.at(i + 1).to_string()).or_insert(given);
                        *known = known.filter(|_| given.is_some());
                    }
                    "static" | "const" => {
                        let name = i + 1 + usize::from(s.at(i + 1) == "mut");
                        if s.is_ident(name) && s.at(name + 1) == ":" {
                            let whole = self.declared(s, name + 2);
                            let known = statics.entry(s.at(name).to_string()).or_insert(whole);
                            *known = known.filter(|_| whole.is_some());
                        }
                    }
                    _ => {}
                }
            }
        }
        (self.fields, self.functions, self.statics) = (fields, functions, statics);
    }

    fn fields_of(&self, s: &Source<'_>, i: usize, out: &mut HashMap<String, Vec<Field>>) {
        let Some(open) = body(s, i).filter(|o| s.at(*o) == "{") else { return };
        let close = s.closing(open).unwrap_or(open);
        let named = |j: &usize| s.at(*j) == ":" && s.is_ident(j - 1) && s.at(j + 1) != ":";
        for j in (open + 2..close).filter(named) {
            let field = Field { of: s.at(i + 1).into(), whole: self.declared(s, j + 1) };
            out.entry(s.at(j - 1).into()).or_default().push(field);
        }
    }

    /// A field of that name, of a method's own struct where that is known.
    pub fn field(&self, name: &str, of: Option<&str>) -> Option<Whole> {
        let all = self.fields.get(name)?;
        match of.and_then(|own| all.iter().find(|f| f.of == own)) {
            Some(own) => own.whole,
            None => all.iter().map(|f| f.whole).reduce(|a, b| a.and(b))?,
        }
    }

    pub fn function(&self, name: &str) -> Option<Whole> {
        *self.functions.get(name)?
    }

    pub fn fixed(&self, name: &str) -> Option<Whole> {
        *self.statics.get(name)?
    }

    /// `fn all() -> &'static [Stat]`.
    fn given_by(&self, s: &Source<'_>, i: usize) -> Option<Whole> {
        let open = parameters(s, i)?;
        let arrow = s.closing(open)? + 1;
        if s.at(arrow) != "-" || COMMON.contains(&s.at(i + 1)) {
            return None;
        }
        let whole = self.declared(s, arrow + 2)?;
        let referred = |j: usize| BEHIND.contains(&s.at(j)) || s.at(j) == "[";
        let end = type_end(s, arrow + 2);
        (arrow + 2..end).any(referred).then_some(whole)
    }

    /// What something of the type at `from` is.
    pub fn declared(&self, s: &Source<'_>, from: usize) -> Option<Whole> {
        self.mentioned(s, from, type_end(s, from))
    }

    /// The first mention of the type between two tokens.
    pub fn mentioned(&self, s: &Source<'_>, from: usize, to: usize) -> Option<Whole> {
        let k = (from..to).find(|&k| s.is_ident(k) && self.is_type(s.at(k)))?;
        let many = self.types.iter().any(|t| t.0 == s.at(k) && t.1);
        let raw = |j: usize| s.at(j) == "*" && matches!(s.at(j + 1), "const" | "mut");
        let pointer = (from..k).any(|j| raw(j) || matches!(s.at(j), "NonNull" | "AtomicPtr"));
        let none = (from..k).any(|j| NONE.contains(&s.at(j)));
        (!none).then(|| Whole { many: many || (from..k).any(|j| MANY.contains(&s.at(j))), pointer })
    }
}

/// Nothing keeps the type at `k` elsewhere.
fn held(s: &Source<'_>, k: usize) -> bool {
    (start_of_type(s, k)..k).all(|j| !BEHIND.contains(&s.at(j)))
}

fn start_of_type(s: &Source<'_>, k: usize) -> usize {
    let single = |j: usize| s.at(j) == ":" && s.at(j - 1) != ":" && s.at(j + 1) != ":";
    let starts = |j: &usize| matches!(s.at(*j), "{" | "(" | "=" | ",") || single(*j);
    (1..k).rev().find(starts).map_or(k, |j| j + 1)
}

/// The first token behind the type that begins at `from`.
pub(super) fn type_end(s: &Source<'_>, from: usize) -> usize {
    let mut i = from;
    while i < s.tokens.len() {
        i = match s.at(i) {
            "," | ";" | "=" | ")" | "]" | "}" | "{" | "|" | "where" => return i,
            ">" if s.at(i - 1) != "-" => return i,
            "(" | "[" => s.closing(i).map_or(s.tokens.len(), |c| c + 1),
            "<" => s.behind_generics(i).unwrap_or(s.tokens.len()),
            _ => i + 1,
        };
    }
    i
}

/// The bracket that opens the fields of the struct at `i`.
fn body(s: &Source<'_>, i: usize) -> Option<usize> {
    let from = if s.at(i + 2) == "<" { s.behind_generics(i + 2)? } else { i + 2 };
    let open = (from..s.tokens.len()).find(|&j| matches!(s.at(j), "{" | "(" | ";" | "="))?;
    matches!(s.at(open), "{" | "(").then_some(open)
}

/// The parenthesis that opens the parameters of the function at `i`.
pub(super) fn parameters(s: &Source<'_>, i: usize) -> Option<usize> {
    let from = if s.at(i + 2) == "<" { s.behind_generics(i + 2)? } else { i + 2 };
    (s.is_ident(i + 1) && s.at(from) == "(").then_some(from)
}

/// The braces of the function at `i`.
pub(super) fn function_body(s: &Source<'_>, i: usize) -> Option<(usize, usize)> {
    let mut j = s.closing(parameters(s, i)?)? + 1;
    while j < s.tokens.len() && s.at(j) != "{" {
        j = match s.at(j) {
            ";" | "}" => return None,
            "(" | "[" => s.closing(j)? + 1,
            _ => j + 1,
        };
    }
    Some((j, s.closing(j)?))
}
