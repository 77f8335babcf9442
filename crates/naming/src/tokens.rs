//! C and C++ source as tokens with their places, and the macros that it defines.
//!
//! Not a preprocessor: conditionals are ignored, the last definition of a macro wins. That is enough to read the
//! expression at a line and column that the debug information names.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Tokens of one file at most; a generated file may be longer, then its rest has no names.
const TOKENS_MAX: usize = 4_000_000;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Number,
    Text,
    Punct,
}

/// One token; `line` and `column` are 1-based, columns count bytes as compilers do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub text: Arc<str>,
    pub line: u32,
    pub column: u32,
}

impl Token {
    pub fn is(&self, text: &str) -> bool {
        &*self.text == text && self.kind != Kind::Text
    }

    pub fn is_ident(&self) -> bool {
        self.kind == Kind::Ident
    }
}

/// A `#define`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Macro {
    /// `None` for one without parameters list.
    pub params: Option<Vec<Arc<str>>>,
    pub body: Vec<Token>,
}

/// One source file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub tokens: Vec<Token>,
    pub macros: HashMap<Arc<str>, Macro>,
    /// Paths of `#include "..."`.
    pub includes: Vec<String>,
}

const PUNCT: &[&str] = &[
    "<<=", ">>=", "...", "->*", "<=>", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::", "##", ".*",
];

impl Source {
    /// Reads any text; what is no C gives odd tokens, never an error.
    pub fn read(text: &str) -> Source {
        let mut source = Source::default();
        let mut lexer =
            Lexer { text: text.as_bytes(), at: 0, line: 1, line_start: 0, interned: HashMap::new() };
        while source.tokens.len() < TOKENS_MAX {
            let Some((token, fresh_line)) = lexer.next(false) else { break };
            if token.is("#") && fresh_line {
                directive(&mut lexer, &mut source);
            } else {
                source.tokens.push(token);
            }
        }
        source
    }

    /// The token at a place, or the one that covers it.
    pub fn at(&self, line: u32, column: u32) -> Option<usize> {
        let i = self.tokens.partition_point(|t| (t.line, t.column) <= (line, column)).checked_sub(1)?;
        let t = &self.tokens[i];
        (t.line == line && column < t.column + t.text.len() as u32).then_some(i)
    }

    /// Tokens of one line.
    pub fn line(&self, line: u32) -> Range<usize> {
        self.tokens.partition_point(|t| t.line < line)..self.tokens.partition_point(|t| t.line <= line)
    }
}

/// The rest of a `#` line.
fn directive(lexer: &mut Lexer, source: &mut Source) {
    let line = lexer.line_tokens();
    let Some(first) = line.first() else { return };
    match &*first.text {
        "define" => {
            let Some(name) = line.get(1).filter(|t| t.is_ident()) else { return };
            let has_params = line.get(2).is_some_and(|p| {
                p.is("(") && p.line == name.line && p.column == name.column + name.text.len() as u32
            });
            let close = line.iter().position(|t| t.is(")"));
            let (params, body) = match (has_params, close) {
                (true, Some(c)) => {
                    let params =
                        line[3..c.max(3)].iter().filter(|t| t.is_ident()).map(|t| t.text.clone()).collect();
                    (Some(params), &line[c + 1..])
                }
                _ => (None, &line[2..]),
            };
            source.macros.insert(name.text.clone(), Macro { params, body: body.to_vec() });
        }
        "include" => {
            if let Some(path) = line.get(1).filter(|t| t.kind == Kind::Text && t.text.starts_with('"')) {
                source.includes.push(path.text.trim_matches('"').to_string());
            }
        }
        _ => {}
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    interned: HashMap<&'a [u8], Arc<str>>,
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn newline(&mut self) {
        self.line += 1;
        self.line_start = self.at;
    }

    /// Skips white space and comments. `in_line` stops at the end of the logical line. True when a line began.
    fn skip(&mut self, in_line: bool) -> bool {
        let mut fresh = self.at == 0;
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) if in_line => break,
                (b'\n', _) => {
                    self.at += 1;
                    self.newline();
                    fresh = true;
                }
                (b'\\', b'\n') => {
                    self.at += 2;
                    self.newline();
                }
                (b'\\', b'\r') if self.peek(2) == b'\n' => {
                    self.at += 3;
                    self.newline();
                }
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    while self.at < self.text.len() && (self.peek(0), self.peek(1)) != (b'*', b'/') {
                        self.at += 1;
                        if self.text[self.at - 1] == b'\n' {
                            self.newline();
                        }
                    }
                    self.at = (self.at + 2).min(self.text.len());
                }
                (c, _) if c.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        fresh
    }

    /// The next token, and whether it is the first of its line.
    fn next(&mut self, in_line: bool) -> Option<(Token, bool)> {
        let fresh = self.skip(in_line);
        if self.at >= self.text.len() || (in_line && self.peek(0) == b'\n') {
            return None;
        }
        let start = self.at;
        let (line, column) = (self.line, (start - self.line_start) as u32 + 1);
        let kind = self.advance();
        let bytes = &self.text[start..self.at];
        let text =
            self.interned.entry(bytes).or_insert_with(|| String::from_utf8_lossy(bytes).into()).clone();
        Some((Token { kind, text, line, column }, fresh))
    }

    fn advance(&mut self) -> Kind {
        let c = self.peek(0);
        let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c >= 0x80;
        if c == b'"' || c == b'\'' {
            self.quoted(c);
            return Kind::Text;
        }
        if c.is_ascii_digit() || (c == b'.' && self.peek(1).is_ascii_digit()) {
            while word(self.peek(0)) || self.peek(0) == b'.' || (self.peek(0) == b'\'' && word(self.peek(1)))
            {
                self.at += 1;
            }
            return Kind::Number;
        }
        if word(c) {
            while word(self.peek(0)) {
                self.at += 1;
            }
            return Kind::Ident;
        }
        let rest = &self.text[self.at..];
        let len = PUNCT.iter().find(|p| rest.starts_with(p.as_bytes())).map_or(1, |p| p.len());
        self.at += len;
        Kind::Punct
    }

    fn quoted(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.text.len() && self.peek(0) != quote && self.peek(0) != b'\n' {
            if self.peek(0) == b'\\' && self.peek(1) != b'\n' {
                self.at += 1;
            }
            self.at += 1;
        }
        if self.peek(0) == quote {
            self.at += 1;
        }
        self.at = self.at.min(self.text.len());
    }

    /// Everything up to the end of the logical line.
    fn line_tokens(&mut self) -> Vec<Token> {
        let mut out = Vec::new();
        while let Some((token, _)) = self.next(true) {
            out.push(token);
        }
        out
    }
}

/// Index of the bracket that closes the one at `open`, within `tokens`.
pub(crate) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, t) in tokens.iter().enumerate().skip(open) {
        match &*t.text {
            "(" | "[" | "{" if t.kind == Kind::Punct => depth += 1,
            ")" | "]" | "}" if t.kind == Kind::Punct => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
        if i - open > 10_000 {
            return None;
        }
    }
    None
}

/// Index of the bracket that opens the one at `close`.
pub(crate) fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in (close.saturating_sub(10_000)..=close).rev() {
        let t = tokens.get(i)?;
        match &*t.text {
            ")" | "]" | "}" if t.kind == Kind::Punct => depth += 1,
            "(" | "[" | "{" if t.kind == Kind::Punct => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Arguments between brackets, split at the commas of the outermost level.
pub(crate) fn arguments(tokens: &[Token]) -> Vec<&[Token]> {
    let mut out = Vec::new();
    let (mut start, mut depth) = (0, 0i32);
    for (i, t) in tokens.iter().enumerate() {
        if t.kind != Kind::Punct {
            continue;
        }
        match &*t.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                out.push(&tokens[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&tokens[start..]);
    out
}

/// Replaces macros in `tokens`, inner ones too, up to a depth and length.
pub(crate) fn expand(tokens: &[Token], macros: &dyn Fn(&str) -> Option<Macro>, depth: usize) -> Vec<Token> {
    const DEPTH_MAX: usize = 12;
    const LENGTH_MAX: usize = 20_000;
    let mut out: Vec<Token> = Vec::new();
    let mut i = 0;
    while i < tokens.len() && out.len() < LENGTH_MAX {
        let t = &tokens[i];
        let found = if t.is_ident() && depth < DEPTH_MAX { macros(&t.text) } else { None };
        let Some(found) = found else {
            out.push(t.clone());
            i += 1;
            continue;
        };
        let (body, next) = match &found.params {
            None => (found.body.clone(), i + 1),
            Some(params) => {
                let close = match tokens.get(i + 1) {
                    Some(p) if p.is("(") => closing(tokens, i + 1),
                    _ => None,
                };
                let Some(close) = close else {
                    out.push(t.clone());
                    i += 1;
                    continue;
                };
                (substitute(&found.body, params, &arguments(&tokens[i + 2..close])), close + 1)
            }
        };
        // A macro does not expand inside itself.
        let own = t.text.clone();
        let inner = |name: &str| if name == &*own { None } else { macros(name) };
        out.extend(expand(&body, &inner, depth + 1));
        i = next;
    }
    out
}

fn substitute(body: &[Token], params: &[Arc<str>], args: &[&[Token]]) -> Vec<Token> {
    let mut out = Vec::new();
    for t in body {
        match params.iter().position(|p| *p == t.text).filter(|_| t.is_ident()) {
            Some(i) => out.extend(args.get(i).copied().unwrap_or(&[]).iter().cloned()),
            None => out.push(t.clone()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tokens: &[Token]) -> String {
        tokens.iter().map(|t| &*t.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn places_survive_comments_and_continued_lines() {
        let s =
            Source::read("a /* x\n y */ b\n#define M(x, y) \\\n ((x)->y)\nc->d // e\n\t'\\'' \"s\\\"\" ...");
        assert_eq!(texts(&s.tokens), "a b c -> d '\\'' \"s\\\"\" ...");
        let places: Vec<(u32, u32)> = s.tokens.iter().map(|t| (t.line, t.column)).collect();
        assert_eq!(places[..5], [(1, 1), (2, 7), (5, 1), (5, 2), (5, 4)]);
        assert_eq!(s.at(5, 3), Some(3));
        assert_eq!(texts(&s.macros["M"].body), "( ( x ) -> y )");
    }

    #[test]
    fn macros_expand_inside_each_other_but_not_inside_themselves() {
        let s = Source::read(
            "#define INC(p) ADD(p, 1)\n#define ADD(p, n) ((p)->count += n)\n#define A A + B\n#define B A\nINC(it) A",
        );
        let all = expand(&s.tokens, &|n| s.macros.get(n).cloned(), 0);
        assert_eq!(texts(&all), "( ( it ) -> count += 1 ) A + A");
    }

    #[test]
    fn any_bytes_can_be_read() {
        for text in
            ["\"", "'\\", "/*", "#define", "#define X(", "\\", "1'", "\u{1F600}x", "#include \"", "(((("]
        {
            let s = Source::read(text);
            let _ = expand(&s.tokens, &|n| s.macros.get(n).cloned(), 0);
            let _ = closing(&s.tokens, 0);
        }
    }
}
