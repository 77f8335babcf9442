//! The code tokens of Rust text, without comments; their places are kept.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identifier or keyword, raw ones with their `r#`.
    Ident,
    /// Lifetime, label, number, string or character.
    Other,
    /// One character of punctuation.
    Punct,
}

/// A piece of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// Cuts `text` into tokens. Total: what ends too early ends with the text.
pub(super) fn lex(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    std::iter::from_fn(|| lexer.next()).collect()
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

impl Lexer<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn starts(&self, word: &str) -> bool {
        self.bytes[self.at.min(self.bytes.len())..].starts_with(word.as_bytes())
    }

    fn next(&mut self) -> Option<Token> {
        self.skip();
        let start = self.at;
        let first = *self.bytes.get(start)?;
        let kind = match first {
            b'"' => self.quoted(),
            b'\'' => self.quote(),
            b'0'..=b'9' => self.while_name(Kind::Other),
            _ if self.raw_string().is_some() => self.raw(),
            b'b' | b'c' if self.byte(1) == b'"' => {
                self.at += 1;
                self.quoted()
            }
            b'b' if self.byte(1) == b'\'' => {
                self.at += 1;
                self.quote()
            }
            b'r' if self.byte(1) == b'#' && is_name(self.byte(2)) => {
                self.at += 2;
                self.while_name(Kind::Ident)
            }
            b if is_name(b) => self.while_name(Kind::Ident),
            _ => {
                self.at += 1;
                Kind::Punct
            }
        };
        Some(Token { kind, start, end: self.at })
    }

    /// Blanks and comments; block comments nest.
    fn skip(&mut self) {
        loop {
            if self.byte(0).is_ascii_whitespace() {
                self.at += 1;
            } else if self.starts("//") {
                self.at = self.text[self.at..].find('\n').map_or(self.bytes.len(), |n| self.at + n);
            } else if self.starts("/*") {
                self.block_comment();
            } else {
                return;
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.bytes.len() {
            let step = if self.starts("/*") {
                depth += 1;
                2
            } else if self.starts("*/") {
                depth -= 1;
                2
            } else {
                1
            };
            self.at += step;
            if depth == 0 {
                return;
            }
        }
    }

    fn while_name(&mut self, kind: Kind) -> Kind {
        while is_name(self.byte(0)) && self.at < self.bytes.len() {
            self.at += 1;
        }
        kind
    }

    fn quoted(&mut self) -> Kind {
        self.at += 1;
        while self.at < self.bytes.len() && self.byte(0) != b'"' {
            self.at += if self.byte(0) == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.bytes.len());
        Kind::Other
    }

    /// A character, or a lifetime: no quote behind its first character.
    fn quote(&mut self) -> Kind {
        let rest = self.text.get(self.at + 1..).unwrap_or("");
        let mut characters = rest.chars();
        let first = characters.next();
        if first == Some('\\') {
            self.at += 3;
            while self.at < self.bytes.len() && self.byte(0) != b'\'' {
                self.at += 1;
            }
            self.at = (self.at + 1).min(self.bytes.len());
        } else if let Some(c) = first.filter(|_| characters.next() == Some('\'')) {
            self.at += 2 + c.len_utf8();
        } else {
            self.at += 1;
            self.while_name(Kind::Other);
        }
        Kind::Other
    }

    /// Hashes of the raw string that begins here.
    fn raw_string(&self) -> Option<(usize, usize)> {
        let prefix = match (self.byte(0), self.byte(1)) {
            (b'r', _) => 1,
            (b'b' | b'c', b'r') => 2,
            _ => return None,
        };
        let hashes = self.bytes[self.at + prefix..].iter().take_while(|b| **b == b'#').count();
        (self.byte(prefix + hashes) == b'"').then_some((prefix, hashes))
    }

    fn raw(&mut self) -> Kind {
        let Some((prefix, hashes)) = self.raw_string() else { return Kind::Other };
        let inside = self.at + prefix + hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        let found = self.text.get(inside..).and_then(|rest| rest.find(&end));
        self.at = found.map_or(self.bytes.len(), |n| inside + n + end.len());
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let got: Vec<&str> = lex(text).iter().map(|t| &text[t.start..t.end]).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn tokens_without_comments() {
        check(
            "struct A<'a> { b: &'a str } // x",
            &["struct", "A", "<", "'a", ">", "{", "b", ":", "&", "'a", "str", "}"],
        );
        check("'x' '\\'' '\\u{1}' b'{' 'ä'", &["'x'", "'\\''", "'\\u{1}'", "b'{'", "'ä'"]);
        check("r#\"a\"}\"# br\"{\" \"\\\"{\" r#type", &["r#\"a\"}\"#", "br\"{\"", "\"\\\"{\"", "r#type"]);
        check("/* a /* b */ { */ x", &["x"]);
        check("1_000u64..2", &["1_000u64", ".", ".", "2"]);
    }

    #[test]
    fn any_text_ends() {
        for text in ["'", "\"", "r#\"", "/*", "'\\", "b'", "r#", "\\", "é'"] {
            lex(text);
        }
    }
}
