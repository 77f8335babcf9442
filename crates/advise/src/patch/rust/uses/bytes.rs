//! Uses that see where objects of an array lie: its bytes, its address as a number, steps of bytes.

use super::known::{Known, Whole, function_body};
use super::reach::Reach;
use super::{OPAQUE, STEPS};
use crate::patch::rust::item::Source;
use std::collections::{BTreeMap, HashSet};

/// Words without which no text has such a use.
const WORDS: [&str; 5] = ["as *", ".cast", "align_to", "transmute", "byte_"];

/// Foreign functions that look at no bytes.
const HARMLESS: [&str; 10] = [
    "pthread_create",
    "free",
    "munmap",
    "madvise",
    "mlock",
    "munlock",
    "mprotect",
    "mbind",
    "posix_madvise",
    "syscall",
];

/// Functions of bytemuck and zerocopy.
const CASTS: [&str; 12] = [
    "bytes_of",
    "bytes_of_mut",
    "cast_slice",
    "cast_slice_mut",
    "must_cast_slice",
    "must_cast_slice_mut",
    "try_cast_slice",
    "try_cast_slice_mut",
    "cast_vec",
    "cast_slice_box",
    "pod_collect_to_vec",
    "cast_ref",
];

const STEPS_OF_BYTES: &str = "there are steps of bytes from its address";

const NUMBERS: [&str; 6] = ["usize", "isize", "u64", "i64", "u128", "i128"];

/// Functions outside of the sources, and generic ones that look at bytes.
#[derive(Debug, Default)]
pub(super) struct Others {
    foreign: Vec<String>,
    curious: HashSet<String>,
}

impl Others {
    pub fn of(sources: &[Source<'_>]) -> Others {
        let mut out = Others::default();
        for s in sources.iter().filter(|s| s.text.contains("extern")) {
            let blocks = (0..s.tokens.len()).filter(|&i| s.at(i) == "extern");
            for i in blocks {
                let Some(open) = (i + 1..i + 3).find(|&j| s.at(j) == "{") else { continue };
                let close = s.closing(open).unwrap_or(open);
                let named = (open..close).filter(|&j| s.at(j) == "fn").map(|j| s.at(j + 1));
                out.foreign.extend(named.filter(|n| !HARMLESS.contains(n)).map(String::from));
            }
        }
        let (mut known, mut dull) = (BTreeMap::new(), HashSet::new());
        for s in sources.iter().filter(|s| WORDS.iter().any(|w| s.text.contains(w))) {
            for i in (0..s.tokens.len()).filter(|&i| s.at(i) == "fn") {
                out.curious.extend(generic(s, i, sources, &mut known));
            }
        }
        // One of several functions of that name says nothing.
        for s in sources.iter().filter(|_| !out.curious.is_empty()) {
            let named = (0..s.tokens.len()).filter(|&i| s.at(i) == "fn" && out.curious.contains(s.at(i + 1)));
            let others = named
                .filter(|&i| function_body(s, i).is_some() && generic(s, i, sources, &mut known).is_none());
            dull.extend(others.map(|i| s.at(i + 1).to_string()));
        }
        out.curious.retain(|name| !dull.contains(name));
        out
    }
}

/// The function at `i` is generic, or a method of generic code, and sees where what it is given lies.
fn generic(
    s: &Source<'_>,
    i: usize,
    sources: &[Source<'_>],
    known: &mut BTreeMap<String, Known>,
) -> Option<String> {
    let body = function_body(s, i).filter(|b| (b.0..b.1).any(|j| looks(s, j)))?;
    let mut parameters = if s.at(i + 2) == "<" { listed(s, i + 2) } else { Vec::new() };
    let mut at = i;
    while let Some(open) = s.opening(at) {
        let head = (0..open).rev().take_while(|&j| !matches!(s.at(j), ";" | "{" | "}"));
        match head.into_iter().find(|&j| matches!(s.at(j), "impl" | "trait")) {
            Some(j) if s.at(j) == "trait" => parameters.push("Self"),
            Some(j) if s.at(j + 1) == "<" => parameters.extend(listed(s, j + 1)),
            _ => {}
        }
        at = open;
    }
    let none = Others::default();
    let sees = |p: &&str| {
        let known = known.entry((*p).into()).or_insert_with(|| Known::of_parameter(p, sources));
        let reach = Reach::new(s, known, (i, body.1));
        (body.0..body.1).any(|j| reach.seen(j, &none, true).is_some())
    };
    let name = s.at(i + 1).to_string();
    parameters.iter().any(sees).then_some(name)
}

/// A token of what looks at bytes.
fn looks(s: &Source<'_>, j: usize) -> bool {
    match s.at(j) {
        "as" => s.at(j + 1) == "*" || NUMBERS.contains(&s.at(j + 1)),
        "cast" | "align_to" | "align_to_mut" | "transmute" | "transmute_copy" | "addr" => true,
        word => {
            word.starts_with("byte_") || word.starts_with("from_raw_parts") || word.starts_with("as_bytes")
        }
    }
}

/// Types in `<'a, T: Pod, const N: usize>`.
fn listed<'a>(s: &Source<'a>, open: usize) -> Vec<&'a str> {
    let end = s.behind_generics(open).unwrap_or(open);
    let first = |j: &usize| matches!(s.at(j - 1), "<" | ",") && s.is_ident(*j) && s.at(*j) != "const";
    (open + 1..end).filter(first).map(|j| s.at(j)).collect()
}

impl Reach<'_, '_> {
    /// What is seen at `i`. Where all that changes is what follows the fields (`grows`), one object alone shows
    /// nothing.
    pub fn seen(&self, i: usize, others: &Others, grows: bool) -> Option<String> {
        let own = match self.s.at(i) {
            "as" if self.s.at(i + 1) == "*" => self.cast(i, grows),
            "as" if NUMBERS.contains(&self.s.at(i + 1)) => self.number(i, i, i + 2),
            "addr" | "expose_provenance" | "expose_addr" if self.s.at(i.wrapping_sub(1)) == "." => {
                self.number(i - 1, i, i + 3)
            }
            "cast" if self.s.at(i.wrapping_sub(1)) == "." => self.method(i, grows),
            "align_to" | "align_to_mut" | "as_bytes" | "as_mut_bytes" | "as_bytes_mut" => self.aligned(i),
            "byte_add" | "byte_sub" | "byte_offset" | "wrapping_byte_add" | "wrapping_byte_sub"
            | "byte_offset_from" => self.stepped(i),
            "transmute" | "transmute_copy" => self.transmuted(i),
            "from_raw_parts" | "from_raw_parts_mut" => self.sliced(i),
            "union" => self.united(i),
            "addr_of" | "addr_of_mut" | "from_ref" | "from_mut" | "raw" => self.field(i, grows),
            _ => None,
        };
        own.or_else(|| self.called(i, others))
    }

    /// `v.as_ptr() as *const u8`.
    fn cast(&self, i: usize, grows: bool) -> Option<String> {
        let s = self.s;
        let from = self.operand(i);
        let other = s.at(i + 3);
        if self.is_ours(i + 3) {
            return self.one_of_bytes(from, i);
        }
        if let Some((field, many)) = self.part_in(from, i).filter(|p| p.1 || !grows) {
            return self.is_stepped(i).then(|| {
                let of = if many { " of one of many" } else { "" };
                format!("there is arithmetic on the address of {}{of}", s.at(field))
            });
        }
        let whole = self.whole_in(from, i).filter(|_| !self.is_given_back(i))?;
        self.other(i, whole, other)
    }

    /// `bytes.as_ptr() as *const Stat`, not `stats.as_ptr() as *const Stat`.
    fn one_of_bytes(&self, from: usize, to: usize) -> Option<String> {
        let pointer = (from..to).any(|j| matches!(self.s.at(j), "as_ptr" | "as_mut_ptr"));
        (pointer && self.whole_in(from, to).is_none()).then(|| "bytes become some".into())
    }

    /// `v.as_ptr().cast::<u8>()`.
    fn method(&self, i: usize, grows: bool) -> Option<String> {
        let s = self.s;
        let typed = s.at(i + 1) == ":" && s.at(i + 3) == "<";
        let ty = if typed { i + 4 } else { self.bound_pointer(i)? };
        let from = self.operand(i - 1);
        if self.is_ours(ty) {
            return self.one_of_bytes(from, i - 1);
        }
        if let Some((field, _)) = self.part_in(from, i - 1).filter(|p| p.1 || !grows) {
            let stepped = self.is_stepped(i);
            return stepped.then(|| format!("there is arithmetic on the address of {}", s.at(field)));
        }
        let whole = self.whole_in(from, i - 1).filter(|_| !self.is_given_back(i))?;
        self.other(i, whole, s.at(ty))
    }

    /// A pointer to `other`: one object alone shows nothing where nobody goes on from there.
    fn other(&self, i: usize, whole: Whole, other: &str) -> Option<String> {
        if OPAQUE.contains(&other) {
            return (whole.many && self.is_stepped(i)).then(|| STEPS_OF_BYTES.into());
        }
        (whole.many || self.is_stepped(i)).then(|| looked_at(other))
    }

    /// The type of `let p: *const u8 = v.as_ptr().cast();`.
    fn bound_pointer(&self, i: usize) -> Option<usize> {
        let s = self.s;
        let (from, _) = self.binding(i)?;
        let colon = (from..from + 4).find(|&j| s.at(j) == ":")?;
        (s.at(colon + 1) == "*").then_some(colon + 3)
    }

    /// `v.as_ptr() as usize + 48`. Whoever asks for the alignment sees none of the others.
    fn number(&self, to: usize, i: usize, behind: usize) -> Option<String> {
        let s = self.s;
        let from = self.operand(to);
        let whole = self.whole_in(from, to).filter(|w| w.pointer)?;
        let mut next = behind;
        while s.at(next) == ")" {
            next += 1;
        }
        let asked = matches!(s.at(next), "%" | "&");
        let counted = matches!(s.at(next), "+" | "-") || self.is_counted(i);
        ((whole.many || counted) && !asked).then(|| "its address becomes a number".into())
    }

    /// `let base = .. as usize; base + 48`.
    fn is_counted(&self, i: usize) -> bool {
        let s = self.s;
        let Some((name, end)) = self.variable(i) else { return false };
        (end..s.tokens.len()).any(|j| s.at(j) == name && matches!(s.at(j + 1), "+" | "-"))
    }

    /// `v.align_to::<u8>()`, zerocopy's `v.as_bytes()`.
    fn aligned(&self, i: usize) -> Option<String> {
        let s = self.s;
        let method = s.at(i.wrapping_sub(1)) == "." && matches!(s.at(i + 1), "(" | ":");
        self.whole_in(self.operand(i - 1), i - 1).filter(|_| method)?;
        let typed = s.at(i + 1) == ":" && s.at(i + 3) == "<";
        Some(looked_at(if typed { s.at(i + 4) } else { "bytes" }))
    }

    /// `p.byte_add(48)`, where `p` points to one.
    fn stepped(&self, i: usize) -> Option<String> {
        let s = self.s;
        let close = s.closing(i + 1).filter(|_| s.at(i.wrapping_sub(1)) == "." && s.at(i + 1) == "(")?;
        let measured = (i..close).any(|j| matches!(s.at(j), "size_of" | "offset_of" | "size_of_val"));
        self.whole_in(self.operand(i - 1), i - 1).filter(|_| !measured)?;
        Some(STEPS_OF_BYTES.into())
    }

    /// `transmute::<&[Stat], &[[u64; 3]]>(v)`.
    fn transmuted(&self, i: usize) -> Option<String> {
        let s = self.s;
        let typed = s.at(i + 1) == ":" && s.at(i + 3) == "<";
        let open = if typed { s.behind_generics(i + 3)? } else { i + 1 };
        let close = s.closing(open).filter(|_| s.at(open) == "(")?;
        let bound = self.binding(i).map(|b| b.0);
        let comma = (i + 4..open).find(|&j| s.at(j) == "," && typed).unwrap_or(i + 4);
        let (source, target) = if typed {
            (self.known.mentioned(s, i + 4, comma), self.known.mentioned(s, comma, open))
        } else {
            (None, bound.and_then(|b| self.known.mentioned(s, b, i)))
        };
        let unknown = !typed || s.at(i + 4) == "_";
        let source = source.or_else(|| self.whole_in(open + 1, close).filter(|_| unknown));
        let many = |w: Option<Whole>| w.is_some_and(|w| w.many);
        let same = source.is_some() && target.is_some();
        ((many(source) || many(target)) && !same).then(|| "transmute makes it another type".into())
    }

    /// `from_raw_parts(v.as_ptr().cast(), size_of_val(v))`.
    fn sliced(&self, i: usize) -> Option<String> {
        let s = self.s;
        let open = (i..i + 24).find(|&j| s.at(j) == "(")?;
        let end = s.expression_end(open + 1, false);
        let other = |j: usize| match (s.at(j), s.at(j + 1)) {
            ("as", "*") => !self.is_ours(j + 3),
            ("cast", "(") => true,
            ("cast", ":") => !self.is_ours(j + 4),
            _ => false,
        };
        let cast = (open..end).any(other);
        self.whole_in(open + 1, end).filter(|_| cast)?;
        Some("a slice is made of its bytes".into())
    }

    /// `union U { all: [Stat; 4], words: [u64; 12] }`.
    fn united(&self, i: usize) -> Option<String> {
        let s = self.s;
        let open = (i..i + 12).find(|&j| s.at(j) == "{").filter(|_| s.is_ident(i + 1))?;
        let close = s.closing(open)?;
        let fields = (open..close).filter(|&j| s.at(j) == ":" && s.at(j + 1) != ":");
        let many = fields.into_iter().any(|j| self.known.declared(s, j + 1).is_some_and(|w| w.many));
        many.then(|| "it shares a union with other types".into())
    }

    /// `let l = addr_of!(p.left); l.byte_add(8)`.
    fn field(&self, i: usize, grows: bool) -> Option<String> {
        let s = self.s;
        let (from, to) = match s.at(i) {
            "raw" if s.at(i - 1) == "&" => (i + 2, s.expression_end(i, false)),
            "raw" => return None,
            _ => {
                let open = (i..i + 8).find(|&j| s.at(j) == "(")?;
                (open + 1, s.closing(open)?)
            }
        };
        let (field, _) = self.part_in(from, to).filter(|p| p.1 || !grows)?;
        self.is_stepped(i).then(|| format!("there is arithmetic on the address of {}", s.at(field)))
    }

    /// `memcmp(p, q, 48)`, `bytes_of(v)`, `v.bytes()`, `bytemuck::cast_slice(v)`.
    fn called(&self, i: usize, others: &Others) -> Option<String> {
        let s = self.s;
        if !s.is_ident(i) || s.at(i.wrapping_sub(1)) == "fn" {
            return None;
        }
        let name = s.at(i);
        let path = if s.at(i.wrapping_sub(1)) == ":" { s.at(i.wrapping_sub(3)) } else { "" };
        let foreign = others.foreign.iter().any(|n| n == name) || path == "libc" && !HARMLESS.contains(&name);
        let curious = others.curious.contains(name);
        let casts = CASTS.contains(&name) && ["bytemuck", "zerocopy"].iter().any(|l| s.text.contains(l));
        if !(foreign || curious || casts) {
            return None;
        }
        let typed = s.at(i + 1) == ":" && s.at(i + 3) == "<";
        let open = if typed { s.behind_generics(i + 3)? } else { i + 1 };
        let close = s.closing(open).filter(|_| s.at(open) == "(")?;
        let given = self.argument(open, close);
        if foreign && given.is_some_and(|w| w.many) {
            return Some(format!("{name}, which is no Rust, is given its address"));
        }
        let method = s.at(i.wrapping_sub(1)) == ".";
        let of = || self.whole_in(self.operand(i - 1), i - 1).filter(|_| method);
        let named = || self.known.mentioned(s, i + 1, open);
        let seen = (curious || casts) && given.or_else(of).or_else(named).is_some();
        seen.then(|| format!("{name} looks at the bytes of what it is given"))
    }

    pub fn argument(&self, open: usize, close: usize) -> Option<Whole> {
        let mut from = open + 1;
        while from < close {
            let end = self.s.expression_end(from, false);
            if let Some(w) = self.whole_in(from, end) {
                return Some(w);
            }
            from = end + 1;
        }
        None
    }

    /// Where the statement around `i` begins and ends, a block that it stands in apart.
    fn statement(&self, i: usize) -> (usize, usize) {
        let s = self.s;
        let mut start = i;
        while start > 0 && !matches!(s.at(start - 1), ";" | "{" | "}" | "(") {
            start = if s.at(start - 1) == ")" || s.at(start - 1) == "]" {
                s.opening(start - 1).unwrap_or(0)
            } else {
                start - 1
            };
        }
        let mut end = i;
        while end < s.tokens.len() && !matches!(s.at(end), ";" | "{" | "}") {
            end = if s.at(end) == "[" { s.closing(end).unwrap_or(end) + 1 } else { end + 1 };
        }
        (start, end)
    }

    /// The memory goes back to where it came from.
    fn is_given_back(&self, i: usize) -> bool {
        let ends = |j: &usize| matches!(self.s.at(*j), ";" | "{" | "}");
        let from = (0..i).rev().find(ends).unwrap_or(0);
        (from..i).any(|j| matches!(self.s.at(j), "dealloc" | "realloc" | "from_raw"))
    }

    /// The `let` whose value is made at `i`, and the end of it.
    fn binding(&self, i: usize) -> Option<(usize, usize)> {
        let s = self.s;
        let mut at = i;
        loop {
            let (from, to) = self.statement(at);
            if s.at(from) == "let" {
                return Some((from, to));
            }
            let open = s.opening(at)?;
            let block = s.at(open) == "{" && !matches!(s.at(open.wrapping_sub(1)), "unsafe" | "=");
            if block {
                return None;
            }
            at = open;
        }
    }

    /// The variable that it binds, and its end.
    fn variable(&self, i: usize) -> Option<(&str, usize)> {
        let (bound, to) = self.binding(i)?;
        Some((self.s.at(bound + 1 + usize::from(self.s.at(bound + 1) == "mut")), to))
    }

    /// What is made at `i`, or the variable that keeps it, goes on by so many.
    fn is_stepped(&self, i: usize) -> bool {
        let s = self.s;
        let (_, to) = self.statement(i);
        let steps = |j: usize| s.at(j) == "." && (STEPS.contains(&s.at(j + 1)) || is_of_bytes(s.at(j + 1)));
        let later = |(name, end): (&str, usize)| {
            (end..s.tokens.len()).any(|j| s.at(j) == name && steps(j + 1) && s.at(j.wrapping_sub(1)) != ".")
        };
        (i..to).any(steps) || self.variable(i).is_some_and(later)
    }
}

fn is_of_bytes(word: &str) -> bool {
    matches!(word, "byte_sub" | "byte_offset" | "wrapping_byte_add" | "wrapping_sub" | "wrapping_offset")
}

fn looked_at(other: &str) -> String {
    let other = if other == "[" { "an array" } else { other };
    format!("it is looked at as {other}")
}
