//! Uses of a Rust struct that see its layout: raw pointers of another type, `transmute`, slices of its bytes, unions,
//! traits of plain bytes, sizes and offsets that are printed or compared.

mod bytes;
mod known;
mod raw;
mod reach;
mod sizes;

use super::generic::{self, Curious};
use super::item::Source;
use super::{BYTE_DERIVES, bare, refused};
use crate::edit::Edit;
use crate::patch::Refusal;
use bytes::Others;
use known::Known;
use reach::Reach;

/// Types behind which nothing of the layout is seen.
const OPAQUE: [&str; 6] = ["c_void", "(", "_", "dyn", "libc", "ffi"];

/// Methods that leave the place of a raw pointer.
pub(super) const STEPS: [&str; 7] =
    ["add", "sub", "offset", "wrapping_add", "byte_add", "offset_from", "byte_offset_from"];

/// Refuses with the first use in `files` (path and text) that another layout of `name` would change. Uses of its size
/// count where it is `resized`.
///
/// # Errors
/// The use, with its place.
pub fn check(name: &str, edits: &[Edit], resized: bool, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let bare = bare(name);
    // What is appended is not seen by whoever counts in numbers.
    let grows = edits.iter().all(|e| matches!(e, Edit::Element { .. }));
    let sources: Vec<Source<'_>> = files.iter().map(|f| Source::new(f.1)).collect();
    let takers = raw::takers(bare, &sources);
    let curious = generic::curious(&sources);
    let known = Known::of_struct(bare, &sources);
    let others = Others::of(&sources);
    for ((path, _), s) in files.iter().zip(&sources) {
        let mut uses =
            Uses { s, name: bare, own: owned(s, bare), resized, sources: &sources, pointers: Vec::new() };
        uses.pointers = uses.raw_pointers();
        let reach = Reach::new(s, &known, (0, s.tokens.len()));
        let found = (0..s.tokens.len()).find_map(|i| {
            let at = || uses.at(i, grows);
            let given = || uses.given(i, &takers, |from, to| gives(&uses, &reach, grows, from, to));
            let shown = || uses.shown_to(i, &curious, &reach, grows);
            let seen = || reach.seen(i, &others, grows);
            Some((i, at().or_else(given).or_else(shown).or_else(seen)?))
        });
        if let Some((i, how)) = found {
            return Err(refused(bare, &format!("{path}:{}: {how}", s.line(s.start(i)))));
        }
    }
    Ok(())
}

/// An argument is the type's address: of one of many, where what follows one (`grows`) is all that changes.
fn gives(uses: &Uses<'_, '_>, reach: &Reach<'_, '_>, grows: bool, from: usize, to: usize) -> bool {
    let one = !grows && (from..to).any(|j| uses.is_whole(j));
    one || reach.whole_in(from, to).is_some_and(|w| w.many)
}

/// Names that are declared with the type, or with a reference or a pointer to it, and blocks of its methods.
struct Owned<'a> {
    names: Vec<&'a str>,
    methods: Vec<(usize, usize)>,
}

fn owned<'a>(s: &Source<'a>, name: &str) -> Owned<'a> {
    let mut out = Owned { names: Vec::new(), methods: Vec::new() };
    for i in (0..s.tokens.len()).filter(|&i| s.at(i) == name) {
        // `impl Q {`, `impl T for Q {`.
        let start = (0..i).rev().find(|&j| matches!(s.at(j), ";" | "}" | "{" | "impl")).unwrap_or(i);
        if let Some(open) = (i..i + 12).find(|&j| s.at(j) == "{").filter(|_| s.at(start) == "impl") {
            out.methods.extend(s.closing(open).map(|close| (open, close)));
        }
        let skipped = |j: &usize| {
            !matches!(s.at(*j), "&" | "*" | "const" | "mut" | "static") && !s.at(*j).starts_with('\'')
        };
        let before = (i.saturating_sub(6)..i).rev().find(skipped).unwrap_or(0);
        // `q: &Q`, but not `::Q`.
        if s.at(before) == ":" && before > 0 && s.is_ident(before - 1) {
            out.names.push(s.at(before - 1));
        }
        // `let q = Q { .. }`, `let q = Q::new()`, `let q = Box::new(Q {..})`.
        let statement = (0..i).rev().find(|&j| matches!(s.at(j), ";" | "{" | "}")).map_or(0, |j| j + 1);
        let bound = s.at(statement) == "let" && matches!(s.at(i + 1), "{" | ":");
        let variable = statement + 1 + usize::from(s.at(statement + 1) == "mut");
        out.names.extend((bound && s.is_ident(variable)).then(|| s.at(variable)));
    }
    out
}

struct Uses<'u, 'a> {
    s: &'u Source<'a>,
    name: &'u str,
    own: Owned<'a>,
    resized: bool,
    sources: &'u [Source<'a>],
    /// Raw pointers to it: where they are bound, and the end of the block.
    pointers: Vec<(&'a str, usize, usize)>,
}

impl<'a> Uses<'_, 'a> {
    fn at(&self, i: usize, grows: bool) -> Option<String> {
        match self.s.at(i) {
            "size_of" | "size_of_val" | "align_of" | "align_of_val" if self.resized => self.measured(i),
            "offset_of" if !grows => self.offset(i),
            "from_raw_parts" | "from_raw_parts_mut" => self.slice(i),
            "for" => self.plain_bytes(i),
            _ if grows => None,
            "as" => self.cast(i).or_else(|| self.as_number(i)),
            "addr" => self.as_number(i),
            "cast" => self.method(i),
            "transmute" | "transmute_copy" => {
                self.is_seen(i).then(|| "transmute makes it another type".into())
            }
            "union" => self.union(i),
            _ => None,
        }
    }

    /// Tokens of the statement around `i`.
    fn statement(&self, i: usize) -> (usize, usize) {
        let ends = |j: &usize| matches!(self.s.at(*j), ";" | "{" | "}");
        let start = (0..i).rev().find(ends).map_or(0, |j| j + 1);
        (start, (i..self.s.tokens.len()).find(ends).unwrap_or(self.s.tokens.len()))
    }

    /// The token is the type, or a whole object of it.
    fn is_whole(&self, i: usize) -> bool {
        let s = self.s;
        let field = s.at(i + 1) == "." && s.is_ident(i + 2) && !matches!(s.at(i + 3), "(" | ":");
        let named = || self.own.names.contains(&s.at(i)) && !field && s.at(i.wrapping_sub(1)) != ".";
        let method = || self.own.methods.iter().any(|m| (m.0..m.1).contains(&i));
        let own = || matches!(s.at(i), "self" | "Self") && !field && s.at(i + 1) != ":" && method();
        let pointer = || self.pointers.iter().any(|p| p.0 == s.at(i) && (p.1..p.2).contains(&i));
        let raw = || !field && s.at(i.wrapping_sub(1)) != "." && pointer();
        s.is_ident(i) && (s.at(i) == self.name && s.at(i + 1) != ":" || named() || own() || raw())
    }

    /// `words(&q)`, `let q: Q = parse(bytes)`, `as_array!(Q)`.
    fn shown_to(&self, i: usize, curious: &[Curious], reach: &Reach<'_, '_>, grows: bool) -> Option<String> {
        let s = self.s;
        let seen = generic::use_at(s, i, curious, grows).filter(|(_, end)| {
            let (from, _) = self.statement(i);
            let made = |j: usize| s.at(j) == self.name && s.at(j + 1) != ":";
            let open = s.opening(*end).unwrap_or(i);
            (from..*end).any(|j| if grows { made(j) } else { self.is_whole(j) })
                || reach.argument(open, *end).is_some()
        });
        seen.map(|(how, _)| how).or_else(|| self.sized_by(i, curious))
    }

    /// `<Q as Store>::INLINE`, where that depends on the size.
    fn sized_by(&self, i: usize, curious: &[Curious]) -> Option<String> {
        let ours = self.resized && self.s.at(i) == "as" && self.s.at(i.wrapping_sub(1)) == self.name;
        ours.then(|| generic::as_trait(self.s, i, curious)).flatten()
    }

    fn is_seen(&self, i: usize) -> bool {
        let (from, to) = self.statement(i);
        (from..to).any(|j| self.is_whole(j))
    }

    /// `q as *const Q as *const [u64; 4]`.
    fn cast(&self, i: usize) -> Option<String> {
        let s = self.s;
        let pointer = s.at(i + 1) == "*" && matches!(s.at(i + 2), "const" | "mut");
        let other = s.at(i + 3);
        if !pointer {
            return None;
        }
        let (from, _) = self.statement(i);
        let given_back = (from..i).any(|j| matches!(s.at(j), "dealloc" | "realloc" | "from_raw"));
        if other == self.name {
            let bytes = (from..i).any(|j| matches!(s.at(j), "as_ptr" | "as_mut_ptr"));
            return bytes.then(|| "bytes become one".into());
        }
        if OPAQUE.contains(&other) || other == "Self" || given_back {
            return None;
        }
        let from = (from..i).rev().find(|&j| matches!(s.at(j), "(" | "," | "=")).map_or(from, |j| j + 1);
        if (from..i).any(|j| self.is_whole(j)) {
            return Some(format!("it is looked at as {}", if other == "[" { "an array" } else { other }));
        }
        self.stepped(i)
    }

    /// `&q.a as *const u64`, from which a step leads to the next field.
    fn stepped(&self, i: usize) -> Option<String> {
        let s = self.s;
        let (from, to) = self.statement(i);
        let method = |j: usize| self.own.methods.iter().any(|m| (m.0..m.1).contains(&j));
        let named = |j: usize| self.own.names.contains(&s.at(j)) || s.at(j) == "self" && method(j);
        let own = (from..i).find(|&j| named(j) && s.at(j + 1) == "." && s.is_ident(j + 2))?;
        let steps = |j: usize| s.at(j) == "." && STEPS.contains(&s.at(j + 1));
        let at_once = (i..to).any(steps);
        let variable = from + 1 + usize::from(s.at(from + 1) == "mut");
        let later =
            s.at(from) == "let" && (to..s.tokens.len()).any(|j| s.at(j) == s.at(variable) && steps(j + 1));
        (at_once || later).then(|| format!("there is arithmetic on the address of {}", s.at(own + 2)))
    }

    /// `&q.a as *const u64 as usize`, `(&raw const q.a).addr()`.
    fn as_number(&self, i: usize) -> Option<String> {
        let s = self.s;
        let method = s.at(i) == "addr" && s.at(i - 1) == ".";
        let number = matches!(s.at(i + 1), "usize" | "isize" | "u64" | "i64");
        if !(method || number && s.at(i) == "as") {
            return None;
        }
        let (from, _) = self.statement(i);
        // Only of a pointer: back over its cast, or the call that made it.
        let pointer =
            (from..i).rev().take(12).any(|j| matches!(s.at(j), "const" | "mut" | "addr_of" | "from_ref"));
        let borrowed = |j: usize| matches!(s.at(j - 1), "&" | "(" | "const" | "mut") && s.at(j + 3) != "(";
        let own = (from + 1..i).rev().take(16).find(|&j| {
            self.own.names.contains(&s.at(j)) && s.at(j + 1) == "." && s.is_ident(j + 2) && borrowed(j)
        });
        own.filter(|_| pointer).map(|j| format!("the address of {} becomes a number", s.at(j + 2)))
    }

    /// `ptr::from_ref(&q).cast::<u64>()`.
    fn method(&self, i: usize) -> Option<String> {
        let s = self.s;
        let bound = (s.at(i - 1), s.at(i + 1)) == (".", "(");
        let other = if bound { self.bound_type(i).unwrap_or("_") } else { s.at(i + 4) };
        let typed = bound || (s.at(i - 1), s.at(i + 1), s.at(i + 3)) == (".", ":", "<");
        let seen = typed && other != self.name && !OPAQUE.contains(&other) && self.is_seen(i);
        seen.then(|| format!("it is looked at as {}", if other == "[" { "an array" } else { other }))
    }

    /// `from_raw_parts(&q as *const Q as *const u8, size_of::<Q>())`, `from_raw_parts(&q.a, 4)`.
    fn slice(&self, i: usize) -> Option<String> {
        let s = self.s;
        let close = s.closing(i + 1).filter(|_| s.at(i + 1) == "(")?;
        let other =
            (i..close).any(|j| s.at(j) == "*" && s.at(j + 2) != self.name && s.at(j.wrapping_sub(1)) == "as");
        let field = (i..close).any(|j| {
            let borrowed = matches!(s.at(j.wrapping_sub(1)), "&" | "mut" | "(");
            self.own.names.contains(&s.at(j)) && s.at(j + 1) == "." && borrowed && s.at(j + 3) != "("
        });
        let whole = other && (i..close).any(|j| self.is_whole(j));
        (whole || field).then(|| "a slice is made of its bytes".into())
    }

    fn union(&self, i: usize) -> Option<String> {
        let s = self.s;
        let open = (i..i + 12).find(|&j| s.at(j) == "{").filter(|_| s.is_ident(i + 1))?;
        let close = s.closing(open)?;
        (open..close).any(|j| s.at(j) == self.name).then(|| "it shares a union with other types".into())
    }

    /// `unsafe impl Pod for Q`.
    fn plain_bytes(&self, i: usize) -> Option<String> {
        let (word, ours) = (self.s.at(i - 1), self.s.at(i + 1) == self.name);
        (ours && BYTE_DERIVES.contains(&word)).then(|| format!("{word} makes its bytes known"))
    }
}
