//! Where a struct is defined in Rust text, and what its definition consists of.

use super::lex::{Kind, Token, lex};
use super::refused;
use crate::patch::Refusal;

/// Text with its tokens.
pub(super) struct Source<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Source<'a> {
        Source { text, tokens: lex(text) }
    }

    /// Text of a token; empty behind the last.
    pub fn at(&self, i: usize) -> &'a str {
        self.tokens.get(i).map_or("", |t| &self.text[t.start..t.end])
    }

    pub fn start(&self, i: usize) -> usize {
        self.tokens.get(i).map_or(self.text.len(), |t| t.start)
    }

    pub fn end(&self, i: usize) -> usize {
        self.tokens.get(i).map_or(self.text.len(), |t| t.end)
    }

    pub fn is_ident(&self, i: usize) -> bool {
        self.tokens.get(i).is_some_and(|t| t.kind == Kind::Ident)
    }

    /// The bracket that closes the one at `open`.
    pub fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for i in open..self.tokens.len() {
            match self.at(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(i);
            }
        }
        None
    }

    /// The nearest bracket before `i` that is still open there: the other half of one at `i` that closes.
    pub fn opening(&self, i: usize) -> Option<usize> {
        let mut depth = 0usize;
        for j in (0..i).rev() {
            match self.at(j) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" if depth == 0 => return Some(j),
                "(" | "[" | "{" => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// The first of `words` behind `from` outside of brackets that open there.
    pub fn outside(&self, from: usize, words: &[&str]) -> Option<usize> {
        let mut i = from;
        while i < self.tokens.len() && !words.contains(&self.at(i)) {
            i = match self.at(i) {
                "(" | "[" | "{" => self.closing(i)? + 1,
                ")" | "]" | "}" => return None,
                _ => i + 1,
            };
        }
        (i < self.tokens.len()).then_some(i)
    }

    /// Behind the expression at `from`; that of a `condition` ends before a block.
    pub fn expression_end(&self, from: usize, condition: bool) -> usize {
        let mut i = from;
        while i < self.tokens.len() {
            i = match self.at(i) {
                ";" | ")" | "]" | "}" | "," => return i,
                "{" if condition => return i,
                "(" | "[" | "{" => self.closing(i).map_or(self.tokens.len(), |c| c + 1),
                _ => i + 1,
            };
        }
        i
    }

    /// Behind a list of generics at `open`, which is `<`.
    pub fn behind_generics(&self, open: usize) -> Option<usize> {
        let (mut i, mut depth) = (open, 0usize);
        while i < self.tokens.len() {
            match self.at(i) {
                "<" => depth += 1,
                ">" if !(self.at(i - 1) == "-" && self.end(i - 1) == self.start(i)) => depth -= 1,
                "(" | "[" | "{" => i = self.closing(i)?,
                _ => {}
            }
            i += 1;
            if depth == 0 {
                return Some(i);
            }
        }
        None
    }

    pub fn line(&self, byte: usize) -> u32 {
        self.text.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() as u32 + 1
    }

    /// First byte of the line, and its indentation.
    pub fn line_start(&self, byte: usize) -> (usize, &'a str) {
        let start = self.text[..byte].rfind('\n').map_or(0, |n| n + 1);
        let rest = &self.text[start..byte];
        (start, &rest[..rest.len() - rest.trim_start().len()])
    }
}

/// One named field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub name: String,
    /// First and one past the last token, attributes and visibility included, the comma not.
    pub tokens: (usize, usize),
    /// The same of its type.
    pub ty: (usize, usize),
}

/// The definition of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub name: String,
    /// Token of `pub` or `struct`.
    pub first: usize,
    /// Attributes: tokens of `[` and `]`.
    pub attributes: Vec<(usize, usize)>,
    pub public: bool,
    /// Tokens of its braces.
    pub braces: (usize, usize),
    pub fields: Vec<Field>,
}

impl Item {
    /// Words inside of `#[name(..)]`, of all such attributes.
    pub fn words<'a>(&self, s: &Source<'a>, name: &str) -> Vec<(usize, &'a str)> {
        let own = self.attributes.iter().filter(|(open, _)| s.at(open + 1) == name);
        own.flat_map(|(open, close)| (open + 3..close - 1).map(|i| (i, s.at(i)))).collect()
    }

    pub fn field(&self, name: &str) -> Result<usize, Refusal> {
        let at = self.fields.iter().position(|f| f.name == name);
        at.ok_or_else(|| Refusal::NoStatement { field: name.into() })
    }
}

/// The definition of `name`, the one on `line` where there are several.
pub(super) fn find(s: &Source<'_>, name: &str, line: Option<u32>) -> Result<Item, Refusal> {
    let defined = |i: &usize| s.at(*i) == "struct" && s.at(i + 1) == name;
    let all: Vec<usize> = (0..s.tokens.len()).filter(defined).collect();
    let on_line = |i: &&usize| line.is_some_and(|l| s.line(s.start(**i)) == l);
    let keyword = match (all.as_slice(), all.iter().find(on_line)) {
        (_, Some(found)) => *found,
        ([one], None) => *one,
        ([], None) => return Err(Refusal::NotFound { name: name.into() }),
        (many, None) => return Err(Refusal::SeveralDefinitions { name: name.into(), count: many.len() }),
    };
    read(s, name, keyword)
}

fn read(s: &Source<'_>, name: &str, keyword: usize) -> Result<Item, Refusal> {
    let unclear = |why: &str| Err(refused(name, why));
    let mut i = keyword + 2;
    if s.at(i) == "<" {
        let Some(behind) = s.behind_generics(i) else { return unclear("its generics are not closed") };
        i = behind;
    }
    while s.at(i) != "{" {
        match s.at(i) {
            "(" => return unclear("its fields have no names"),
            ";" | "" => return unclear("it has no fields"),
            _ => i += 1,
        }
    }
    let Some(close) = s.closing(i) else { return unclear("its braces do not match") };
    let (first, public) = visibility(s, keyword);
    let attributes = attributes(s, first);
    let fields = fields(s, name, i, close)?;
    let start = attributes.last().map_or(first, |a| a.0.saturating_sub(1));
    if (start..=close).any(|t| s.at(t) == "$") {
        return unclear("a macro makes it");
    }
    let conditional =
        |a: &(usize, usize)| s.at(a.0 + 1) == "cfg_attr" && (a.0..a.1).any(|t| s.at(t) == "repr");
    if attributes.iter().any(conditional) {
        return unclear("its repr depends on a condition");
    }
    Ok(Item { name: name.into(), first, attributes, public, braces: (i, close), fields })
}

/// The first token of the item without its attributes, and whether it is public.
fn visibility(s: &Source<'_>, keyword: usize) -> (usize, bool) {
    if keyword == 0 {
        return (0, false);
    }
    if s.at(keyword - 1) == "pub" {
        return (keyword - 1, true);
    }
    let open = (1..=keyword).rev().take(16).map(|n| n - 1).find(|i| s.at(*i) == "pub");
    match open.filter(|i| s.at(i + 1) == "(" && s.closing(i + 1) == Some(keyword - 1)) {
        Some(i) => (i, true),
        None => (keyword, false),
    }
}

/// Attributes that end before `first`, the nearest first.
fn attributes(s: &Source<'_>, first: usize) -> Vec<(usize, usize)> {
    let (mut out, mut end) = (Vec::new(), first);
    while end > 0 && s.at(end - 1) == "]" {
        let open = (0..end - 1).rev().find(|i| s.at(*i) == "[" && s.closing(*i) == Some(end - 1));
        let Some(open) = open.filter(|o| *o > 0 && s.at(o - 1) == "#") else { break };
        out.push((open, end - 1));
        end = open - 1;
    }
    out
}

fn fields(s: &Source<'_>, name: &str, open: usize, close: usize) -> Result<Vec<Field>, Refusal> {
    let mut out = Vec::new();
    let mut i = open + 1;
    while i < close {
        let first = i;
        while s.at(i) == "#" {
            i = s.closing(i + 1).map_or(close, |c| c + 1);
        }
        if s.at(i) == "pub" {
            i += 1;
            if s.at(i) == "(" {
                i = s.closing(i).map_or(close, |c| c + 1);
            }
        }
        if !s.is_ident(i) || s.at(i + 1) != ":" || s.at(i + 2) == ":" {
            return Err(refused(name, "a macro makes its fields"));
        }
        let ty = i + 2;
        let field = s.at(i).trim_start_matches("r#").to_string();
        i = ty;
        while i < close && s.at(i) != "," {
            i = match s.at(i) {
                "<" => s.behind_generics(i).unwrap_or(close),
                "(" | "[" | "{" => s.closing(i).map_or(close, |c| c + 1),
                _ => i + 1,
            };
        }
        let end = i.min(close);
        out.push(Field { name: field, tokens: (first, end), ty: (ty, end) });
        i = end + 1;
    }
    Ok(out)
}
