//! Where a name stands for objects of a type as a whole, or for their address.

use super::known::{Known, Whole, function_body, parameters, type_end};
use crate::patch::rust::item::Source;

/// Methods that give the same objects, or their address.
const SAME: [&str; 60] = [
    "clone",
    "iter",
    "iter_mut",
    "into_iter",
    "as_ptr",
    "as_mut_ptr",
    "as_ptr_range",
    "as_mut_ptr_range",
    "as_slice",
    "as_mut_slice",
    "as_ref",
    "as_mut",
    "borrow",
    "borrow_mut",
    "deref",
    "deref_mut",
    "get",
    "get_mut",
    "get_unchecked",
    "get_unchecked_mut",
    "first",
    "last",
    "unwrap",
    "expect",
    "lock",
    "read",
    "write",
    "to_vec",
    "into_boxed_slice",
    "into_vec",
    "leak",
    "to_owned",
    "into_raw",
    "into_inner",
    "add",
    "sub",
    "offset",
    "wrapping_add",
    "wrapping_sub",
    "byte_add",
    "byte_sub",
    "byte_offset",
    "cast",
    "cast_mut",
    "cast_const",
    "chunks",
    "chunks_mut",
    "windows",
    "enumerate",
    "skip",
    "take",
    "rev",
    "zip",
    "next",
    "nth",
    "load",
    "swap",
    "unwrap_unchecked",
    "collect",
    "split_at",
];

/// Of them, and of functions and macros: what makes an address.
const ADDRESSES: [&str; 14] = [
    "as_ptr",
    "as_mut_ptr",
    "as_ptr_range",
    "as_mut_ptr_range",
    "into_raw",
    "addr_of",
    "addr_of_mut",
    "from_ref",
    "from_mut",
    "NonNull",
    "raw",
    "leak",
    "byte_add",
    "as_non_null_ptr",
];

/// Functions whose result is what they are given.
const KEEPS: [&str; 19] = [
    "addr_of",
    "addr_of_mut",
    "from_ref",
    "from_mut",
    "clone",
    "new",
    "from",
    "as_ptr",
    "as_mut_ptr",
    "into_raw",
    "new_unchecked",
    "Some",
    "Ok",
    "pin",
    "black_box",
    "as_ref",
    "unwrap",
    "leak",
    "from_raw",
];

/// A name between two tokens.
#[derive(Debug)]
struct Name<'a> {
    name: &'a str,
    whole: Whole,
    scope: (usize, usize),
}

/// Where the calls and indices behind a name lead.
enum Leads {
    /// The objects, or their address.
    Whole(Whole),
    /// A field of theirs: its token.
    Part(Whole, usize),
    Elsewhere,
}

pub(super) struct Reach<'r, 'a> {
    pub s: &'r Source<'a>,
    pub known: &'r Known,
    own: Vec<Name<'a>>,
    /// Types with methods, and the braces of these.
    targets: Vec<(&'a str, usize, usize)>,
}

impl<'r, 'a> Reach<'r, 'a> {
    /// With the names that the tokens between two bind.
    pub fn new(s: &'r Source<'a>, known: &'r Known, range: (usize, usize)) -> Reach<'r, 'a> {
        let mut out = Reach { s, known, own: Vec::new(), targets: Vec::new() };
        for i in 0..s.tokens.len() {
            match s.at(i) {
                "impl" | "trait" => out.methods(i),
                _ if i < range.0 || i >= range.1 => {}
                ":" if s.at(i + 1) != ":" && i > 0 && s.is_ident(i - 1) => out.parameter(i),
                "let" => out.bound(i),
                "for" => out.walked(i),
                "|" if s.at(i.wrapping_sub(1)) == "(" => out.closure(i),
                _ => {}
            }
        }
        out
    }

    fn name(&mut self, name: &'a str, whole: Whole, scope: (usize, usize)) {
        self.own.push(Name { name, whole, scope });
    }

    /// `self` in `impl Stat`, `impl Bytes for [T]`, `trait Bytes`.
    fn methods(&mut self, i: usize) {
        let s = self.s;
        let from = if s.at(i + 1) == "<" { s.behind_generics(i + 1).unwrap_or(i + 1) } else { i + 1 };
        let Some(open) = (from..s.tokens.len()).find(|&j| matches!(s.at(j), "{" | "}")) else { return };
        let Some(close) = s.closing(open).filter(|_| s.at(open) == "{") else { return };
        let target = (from..open).find(|&j| s.at(j) == "for").map_or(from, |j| j + 1);
        let whole = match s.at(i) {
            "trait" => self.known.is_type("Self").then(Whole::default),
            _ => self.known.mentioned(s, target, open),
        };
        if let Some(w) = whole {
            self.name("self", w, (open, close));
        }
        // `m::List<T> {`
        let last = (target..open).take_while(|&j| !matches!(s.at(j), "<" | "where")).last();
        self.targets.extend(last.map(|j| (s.at(j), open, close)));
    }

    /// `v: &[Stat]` of a function or a closure.
    fn parameter(&mut self, i: usize) {
        let s = self.s;
        let Some(whole) = self.known.declared(s, i + 1) else { return };
        let Some(open) = s.opening(i).filter(|o| s.at(*o) == "(") else { return };
        let head = (0..open).rev().take(60).take_while(|&j| !matches!(s.at(j), ";" | "{" | "}"));
        let function = head.into_iter().find(|&j| s.at(j) == "fn" && parameters(s, j) == Some(open));
        let end = match function {
            Some(f) => function_body(s, f).map(|b| b.1),
            None => s.closing(open),
        };
        self.name(s.at(i - 1), whole, (i, end.unwrap_or(i)));
    }

    /// `let w = v.clone()`, `if let Some(s) = v.first() {`.
    fn bound(&mut self, i: usize) {
        let s = self.s;
        let Some(equal) = s.outside(i, &["=", ";"]).filter(|e| s.at(*e) == "=") else { return };
        let condition = matches!(s.at(i.wrapping_sub(1)), "if" | "while" | "&");
        let end = s.expression_end(equal + 1, condition);
        let colon = (i + 1..equal).find(|&j| s.at(j) == ":" && s.at(j + 1) != ":" && s.at(j - 1) != ":");
        let typed = colon.filter(|&c| (c..equal).all(|j| s.at(j) != "_"));
        let whole = match typed {
            Some(c) => self.known.mentioned(s, c, equal),
            None => self
                .known
                .mentioned(s, colon.unwrap_or(equal), equal)
                .or_else(|| self.made(equal + 1, end))
                .or_else(|| self.whole_in(equal + 1, end)),
        };
        if let Some(w) = whole {
            let block = s.opening(i).and_then(|o| s.closing(o)).unwrap_or(s.tokens.len());
            self.pattern(i + 1, colon.unwrap_or(equal), w, (end, block));
        }
    }

    fn pattern(&mut self, from: usize, to: usize, whole: Whole, scope: (usize, usize)) {
        let s = self.s;
        let bound = |j: &usize| {
            let word = s.at(*j);
            let lower = word.starts_with(|c: char| c.is_lowercase() || c == '_');
            s.is_ident(*j) && lower && !matches!(word, "mut" | "ref" | "_")
        };
        for j in (from..to).filter(bound) {
            self.name(s.at(j), whole, scope);
        }
    }

    /// `Stat { .. }`, `Arc::new(Stat::new())`, `(0..4).map(|_| Stat::new()).collect()`.
    fn made(&self, from: usize, to: usize) -> Option<Whole> {
        let s = self.s;
        let k = (from..to).find(|&k| s.is_ident(k) && self.known.is_type(s.at(k)))?;
        let whole = self.known.mentioned(s, from, to)?;
        let many = (from..to).any(|j| matches!(s.at(j), "collect" | "vec" | "from_fn"));
        let built = matches!(s.at(k + 1), "{" | ":" | ">" | "(");
        let first = (from..k).all(|j| {
            s.is_ident(j) || matches!(s.at(j), ":" | "(" | "&" | "[" | "<" | "{") || s.at(j).starts_with('\'')
        });
        (built && (many || first)).then_some(Whole { many: many || whole.many, ..whole })
    }

    /// `for s in v.iter() {`
    fn walked(&mut self, i: usize) {
        let s = self.s;
        let Some(word) = (i..i + 24).find(|&j| matches!(s.at(j), "in" | "{" | ";" | "<")) else { return };
        let end = s.expression_end(word + 1, true);
        if s.at(word) != "in" || s.at(end) != "{" {
            return;
        }
        if let Some(w) = self.whole_in(word + 1, end) {
            let whole = Whole { many: false, ..w };
            self.pattern(i + 1, word, whole, (end, s.closing(end).unwrap_or(end)));
        }
    }

    /// `v.iter().map(|s| ..)`
    fn closure(&mut self, i: usize) {
        let s = self.s;
        let dot = i.wrapping_sub(3);
        if i < 3 || s.at(dot) != "." {
            return;
        }
        let Some(end) = (i + 1..i + 24).find(|&j| s.at(j) == "|") else { return };
        if let Some(w) = self.whole_in(self.operand(dot), dot) {
            let whole = Whole { many: false, ..w };
            self.pattern(i + 1, end, whole, (i, s.closing(i - 1).unwrap_or(i)));
        }
    }

    /// The type whose method stands at `i`.
    fn target(&self, i: usize) -> Option<&'a str> {
        self.targets.iter().rev().find(|t| t.1 < i && i < t.2).map(|t| t.0)
    }

    /// The name at `i`, and the token behind it.
    fn named(&self, i: usize) -> Option<(Whole, usize)> {
        let s = self.s;
        let word = s.at(i);
        let before = s.at(i.wrapping_sub(1));
        let behind = s.at(i + 1);
        if !s.is_ident(i) || behind == "!" || behind == ":" || before == "fn" {
            return None;
        }
        if behind == "(" {
            return Some((self.known.function(word)?, s.closing(i + 1)? + 1));
        }
        if before == "." && s.at(i.wrapping_sub(2)) != "." {
            let own = (s.at(i.wrapping_sub(2)) == "self").then(|| self.target(i)).flatten();
            return Some((self.known.field(word, own)?, i + 1));
        }
        let inside = |n: &&Name<'_>| n.name == word && n.scope.0 <= i && i < n.scope.1;
        let own = self.own.iter().rev().find(inside).map(|n| n.whole);
        Some((own.or_else(|| self.known.fixed(word))?, i + 1))
    }

    fn leads(&self, i: usize, to: usize) -> Option<Leads> {
        let s = self.s;
        let (mut whole, mut j) = self.named(i)?;
        while j < to {
            j = match s.at(j) {
                "[" => s.closing(j)? + 1,
                "?" => j + 1,
                "." => {
                    let call = if s.at(j + 2) == ":" { s.behind_generics(j + 4).unwrap_or(j) } else { j + 2 };
                    let word = s.at(j + 1);
                    let number = word.starts_with(|c: char| c.is_ascii_digit());
                    if s.at(call) == "(" && SAME.contains(&word) {
                        whole.pointer |= ADDRESSES.contains(&word);
                        s.closing(call)? + 1
                    } else if s.at(call) == "(" || !s.is_ident(j + 1) && !number {
                        return Some(Leads::Elsewhere);
                    } else if number || whole.pointer && matches!(word, "start" | "end") {
                        j + 2
                    } else {
                        return Some(Leads::Part(whole, j + 1));
                    }
                }
                ")" | "}" => j + 1,
                "as" | "," => match s.outside(j, &[")", "}"]) {
                    Some(close) if close < to => close + 1,
                    _ => break,
                },
                ";" | "{" | "]" => break,
                _ => return Some(Leads::Elsewhere),
            };
        }
        Some(Leads::Whole(whole))
    }

    /// The objects, or their address, are what stands between two tokens.
    pub fn whole_in(&self, from: usize, to: usize) -> Option<Whole> {
        let found = (from..to).find_map(|i| match self.leads(i, to)? {
            Leads::Whole(w) if self.is_kept(from, i) => Some(w),
            _ => None,
        })?;
        Some(Whole { pointer: found.pointer || self.is_address(from, to), ..found })
    }

    /// The address of a field: its token, and whether it is one of many objects.
    pub fn part_in(&self, from: usize, to: usize) -> Option<(usize, bool)> {
        (from..to).find_map(|i| match self.leads(i, to)? {
            Leads::Part(w, field) if self.is_kept(from, i) => Some((field, w.many)),
            _ => None,
        })
    }

    fn is_address(&self, from: usize, to: usize) -> bool {
        let s = self.s;
        (from..to).any(|j| ADDRESSES.contains(&s.at(j)) || s.at(j) == "as" && s.at(j + 1) == "*")
    }

    /// What is open at `i` since `from` gives what it is given.
    fn is_kept(&self, from: usize, i: usize) -> bool {
        let s = self.s;
        let mut at = i;
        while let Some(open) = s.opening(at).filter(|o| *o >= from) {
            let before = s.at(open.wrapping_sub(1));
            let kept = match s.at(open) {
                "(" if before == "!" => KEEPS.contains(&s.at(open - 2)),
                "(" if before == ">" => {
                    let start = (from..open).rev().find(|&j| s.at(j) == "<").unwrap_or(open);
                    KEEPS.contains(&s.at(start.wrapping_sub(3)))
                }
                "(" if open > 0 && s.is_ident(open - 1) => KEEPS.contains(&before) || before == "unsafe",
                "[" => open == 0 || !s.is_ident(open - 1) && !matches!(before, ")" | "]"),
                "{" => matches!(before, "unsafe" | "=" | "(" | "{"),
                _ => true,
            };
            if !kept {
                return false;
            }
            at = open;
        }
        true
    }

    /// Where the operand begins that ends before `end`: of a cast, or what a method is called of.
    pub fn operand(&self, end: usize) -> usize {
        let s = self.s;
        let mut j = end;
        while j > 0 {
            let before = s.at(j.wrapping_sub(2));
            j = match s.at(j - 1) {
                ")" | "]" | "}" => match s.opening(j - 1) {
                    Some(open) => open,
                    None => break,
                },
                "," | ";" | "{" | "(" | "[" | "=" | "+" | "-" | "|" | "/" | "%" | "return" | "in" | "if"
                | "match" | "else" => break,
                "!" if j > 1 && !s.is_ident(j - 2) => break,
                ">" if matches!(before, "=" | "-") => break,
                _ => j - 1,
            };
        }
        j
    }

    /// The type that a pointer points to, which begins at `i`, is ours.
    pub fn is_ours(&self, i: usize) -> bool {
        let s = self.s;
        let end = type_end(s, i);
        let stops = |j: &usize| matches!(s.at(*j), "as" | "." | "+" | "-") || *j >= end;
        let end = if s.at(i) == "[" { s.closing(i).unwrap_or(i) } else { (i..).find(stops).unwrap_or(end) };
        (i..end).any(|j| self.known.is_type(s.at(j)) || s.at(j) == "Self")
    }
}
