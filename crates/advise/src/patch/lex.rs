//! A lossless lexer for C and C++: the tokens, put together again, are the input.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blanks, and a backslash with the newline behind it.
    Space,
    /// `\n` or `\r\n`.
    Newline,
    /// `// ...` without its newline.
    LineComment,
    /// `/* ... */`.
    BlockComment,
    /// A preprocessor directive with its continuation lines, without the last newline.
    Directive,
    /// Identifier or keyword.
    Ident,
    /// Number.
    Number,
    /// String or character literal.
    Literal,
    /// One character of punctuation.
    Punct,
}

/// A piece of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// 1-based line of its first byte.
    pub line: u32,
}

impl Token {
    /// Its text.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.start..self.end).unwrap_or("")
    }

    /// Neither blank, nor newline, nor comment.
    pub fn is_code(&self) -> bool {
        !matches!(self.kind, Kind::Space | Kind::Newline | Kind::LineComment | Kind::BlockComment)
    }
}

/// Cuts `source` into tokens. Total: any text gives tokens that cover it without gap or overlap.
pub fn lex(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { bytes: source.as_bytes(), at: 0, line: 1, fresh: true, tokens: Vec::new() };
    while lexer.at < lexer.bytes.len() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    /// Only blanks and comments so far on this line, so that `#` begins a directive.
    fresh: bool,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) {
        let (start, line) = (self.at, self.line);
        let kind = self.token();
        debug_assert!(self.at > start);
        let text = &self.bytes[start..self.at];
        self.line = self.line.saturating_add(text.iter().filter(|&&b| b == b'\n').count() as u32);
        self.fresh = match kind {
            Kind::Newline => true,
            Kind::Space | Kind::BlockComment => self.fresh,
            _ => false,
        };
        self.tokens.push(Token { kind, start, end: self.at, line });
    }

    fn token(&mut self) -> Kind {
        match self.peek(0) {
            b'\n' => self.take(1, Kind::Newline),
            b'\r' if self.peek(1) == b'\n' => self.take(2, Kind::Newline),
            b'\\' if self.peek(1) == b'\n' => self.take(2, Kind::Space),
            b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => self.take(3, Kind::Space),
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.blanks(),
            b'/' if self.peek(1) == b'/' => self.line_end(Kind::LineComment),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'#' if self.fresh => self.line_end(Kind::Directive),
            b'"' | b'\'' => self.literal(),
            b'0'..=b'9' => self.number(),
            b if b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b >= 0x80 => self.ident(),
            _ => self.take(1, Kind::Punct),
        }
    }

    fn take(&mut self, n: usize, kind: Kind) -> Kind {
        self.at += n;
        kind
    }

    fn blanks(&mut self) -> Kind {
        self.at += 1;
        while matches!(self.peek(0), b' ' | b'\t' | 0x0b | 0x0c) {
            self.at += 1;
        }
        Kind::Space
    }

    /// To the end of the line, over continued lines; in directives also over block comments.
    fn line_end(&mut self, kind: Kind) -> Kind {
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\n' => break,
                b'\r' if self.peek(1) == b'\n' => break,
                b'\\' if self.peek(1) == b'\n' => self.at += 2,
                b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => self.at += 3,
                b'/' if self.peek(1) == b'*' && kind == Kind::Directive => {
                    self.block_comment();
                }
                b'/' if self.peek(1) == b'/' && kind == Kind::Directive => {
                    self.line_end(Kind::LineComment);
                }
                _ => self.at += 1,
            }
        }
        kind
    }

    fn block_comment(&mut self) -> Kind {
        self.at += 2;
        while self.at < self.bytes.len() {
            if self.peek(0) == b'*' && self.peek(1) == b'/' {
                self.at += 2;
                break;
            }
            self.at += 1;
        }
        Kind::BlockComment
    }

    /// A string or character; unterminated ones end with their line.
    fn literal(&mut self) -> Kind {
        let quote = self.peek(0);
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => self.at += 3,
                b'\\' => self.at = (self.at + 2).min(self.bytes.len()),
                b'\n' => break,
                b if b == quote => {
                    self.at += 1;
                    break;
                }
                _ => self.at += 1,
            }
        }
        // A backslash before a multi-byte character must not cut it.
        while self.at < self.bytes.len() && self.bytes[self.at] & 0xc0 == 0x80 {
            self.at += 1;
        }
        Kind::Literal
    }

    fn number(&mut self) -> Kind {
        while self.at < self.bytes.len() {
            let (b, next) = (self.peek(0), self.peek(1));
            let sign = matches!(b, b'e' | b'E' | b'p' | b'P') && matches!(next, b'+' | b'-');
            if sign {
                self.at += 2;
            } else if b.is_ascii_alphanumeric()
                || matches!(b, b'.' | b'_')
                || (b == b'\'' && next.is_ascii_alphanumeric())
            {
                self.at += 1;
            } else {
                break;
            }
        }
        Kind::Number
    }

    fn ident(&mut self) -> Kind {
        let start = self.at;
        while self.at < self.bytes.len() {
            let b = self.peek(0);
            if !(b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80) {
                break;
            }
            self.at += 1;
        }
        let raw = matches!(&self.bytes[start..self.at], b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
        if raw && self.peek(0) == b'"' && self.raw_string() {
            return Kind::Literal;
        }
        Kind::Ident
    }

    /// `"delim( ... )delim"` at the current place; false leaves the place unchanged.
    fn raw_string(&mut self) -> bool {
        let rest = &self.bytes[self.at + 1..];
        let Some(open) = rest.iter().take(17).position(|&b| b == b'(') else { return false };
        let mut close = vec![b')'];
        close.extend_from_slice(&rest[..open]);
        close.push(b'"');
        match rest[open..].windows(close.len()).position(|w| w == close) {
            Some(n) => {
                self.at += 1 + open + n + close.len();
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(source: &str, expect: &[(Kind, &str)]) {
        let got: Vec<(Kind, &str)> = lex(source)
            .iter()
            .filter(|t| t.kind != Kind::Space && t.kind != Kind::Newline)
            .map(|t| (t.kind, t.text(source)))
            .collect();
        assert_eq!(got, expect, "{source}");
    }

    #[test]
    fn nasty_pieces_become_one_token() {
        use Kind::*;
        check(
            "/* a; } */ x // y; \\\n z\n;",
            &[(BlockComment, "/* a; } */"), (Ident, "x"), (LineComment, "// y; \\\n z"), (Punct, ";")],
        );
        check(
            "#define A /* b\n c */ 1 \\\n 2\nint",
            &[(Directive, "#define A /* b\n c */ 1 \\\n 2"), (Ident, "int")],
        );
        check(
            r#"'"' "\"}" R"x(;")x" 1'000.5e-3"#,
            &[(Literal, "'\"'"), (Literal, r#""\"}""#), (Literal, r#"R"x(;")x""#), (Number, "1'000.5e-3")],
        );
        check("a # b", &[(Ident, "a"), (Punct, "#"), (Ident, "b")]);
        check(
            "/* c */ # if X // }\nq",
            &[(BlockComment, "/* c */"), (Directive, "# if X // }"), (Ident, "q")],
        );
    }

    #[test]
    fn lines_are_counted_over_crlf_and_continuations() {
        let source = "a\r\n\\\r\nb /*\r\n*/ c";
        let lines: Vec<u32> = lex(source).iter().filter(|t| t.kind == Kind::Ident).map(|t| t.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }

    proptest! {
        #[test]
        fn tokens_cover_any_text(source in "(\\PC|[\n\r\t\"'/*#\\\\{};]){0,200}") {
            let tokens = lex(&source);
            let again: String = tokens.iter().map(|t| t.text(&source)).collect();
            prop_assert_eq!(&again, &source);
            for pair in tokens.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
            }
        }
    }
}
