//! Finds a struct's body in a source file and cuts it into statements.

use super::lex::{Kind, Token, lex};
use super::names::places_of;
use super::{Refusal, scope};

/// A lexed source file.
#[derive(Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// Its tokens.
    pub tokens: Vec<Token>,
}

impl<'a> Source<'a> {
    /// Lexes `text`.
    pub fn new(text: &'a str) -> Self {
        Source { text, tokens: lex(text) }
    }

    /// Text of token `i`, empty past the end.
    pub fn at(&self, i: usize) -> &'a str {
        self.tokens.get(i).map_or("", |t| t.text(self.text))
    }

    pub(super) fn kind(&self, i: usize) -> Option<Kind> {
        self.tokens.get(i).map(|t| t.kind)
    }

    /// Next token at or after `i` that is code and no directive.
    pub fn code_from(&self, mut i: usize) -> usize {
        while self.tokens.get(i).is_some_and(|t| !t.is_code() || t.kind == Kind::Directive) {
            i += 1;
        }
        i
    }

    /// Token behind the group that opens at `i` with `(`, `[` or `{`; `None` if it never closes.
    pub fn group_end(&self, i: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in i..self.tokens.len() {
            if self.kind(at) != Some(Kind::Punct) {
                continue;
            }
            match self.at(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Macros in a row, each on a line of its own, that are passed over.
const MACROS_MAX: usize = 64;

/// A definition with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Token of `struct`, `class` or `union`.
    pub keyword: usize,
    /// Tag, if it has one.
    pub tag: Option<String>,
    /// `char` of the specialisation `struct S<char> {`.
    pub arguments: Option<String>,
    /// Token of `{`.
    pub open: usize,
    /// Token of `}`.
    pub close: usize,
    /// Identifiers between `}` and `;`: typedef names, variables.
    pub aliases: Vec<String>,
    /// The definition is part of a `typedef`.
    pub typedef: bool,
}

/// Every definition in the file, nested ones included, in order.
pub fn bodies(source: &Source<'_>) -> Vec<Body> {
    bodies_in(source, 0, source.tokens.len())
}

/// Every definition whose keyword is one of the tokens from `first` to before `last`.
pub fn bodies_in(source: &Source<'_>, first: usize, last: usize) -> Vec<Body> {
    let mut out = Vec::new();
    for i in first..last.min(source.tokens.len()) {
        let keyword =
            source.kind(i) == Some(Kind::Ident) && matches!(source.at(i), "struct" | "class" | "union");
        if keyword && let Some(body) = body_at(source, i) {
            out.push(body);
        }
    }
    out
}

/// Token behind the `>` that closes the template arguments opening at `i`.
pub(super) fn angle_end(source: &Source<'_>, i: usize, last: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = i;
    while at < last {
        match source.at(at) {
            "<" => depth += 1,
            ">" => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            ";" => return None,
            "(" | "[" | "{" => at = source.group_end(at)? - 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The definition whose keyword is token `keyword`, if it is one.
fn body_at(source: &Source<'_>, keyword: usize) -> Option<Body> {
    let mut tag = None;
    let mut arguments = None;
    let mut named = false;
    let mut i = source.code_from(keyword + 1);
    loop {
        match (source.kind(i)?, source.at(i)) {
            (Kind::Punct, "{") => break,
            (Kind::Punct, "(" | "[") => i = source.group_end(i)? - 1,
            // A base clause: the tag is behind us.
            (Kind::Punct, ":") => {
                let qualifier = source.at(i + 1) == ":";
                named |= !qualifier;
                i += usize::from(qualifier);
            }
            (Kind::Punct, "<") if tag.is_some() && !named && arguments.is_none() => {
                let end = angle_end(source, i, source.tokens.len())?;
                arguments =
                    Some(source.text[source.tokens[i].end..source.tokens[end - 1].start].trim().into());
                i = end - 1;
            }
            (Kind::Punct, "<" | ">" | ",") => {}
            (Kind::Punct, _) => return None,
            (Kind::Ident, "struct" | "class" | "union" | "enum") => return None,
            (Kind::Ident, "final") => named = true,
            (Kind::Ident, name) if !named => {
                let call = source.at(source.code_from(i + 1)) == "(";
                // `struct foo f(int x) {` is a function; `struct foo __aligned(8) {` is not.
                let attribute = is_attribute(name) || name.starts_with("__");
                if call && tag.is_some() && !attribute {
                    return None;
                }
                if !call {
                    tag = Some(name.to_string());
                }
            }
            _ => {}
        }
        i = source.code_from(i + 1);
    }
    let open = i;
    let close = source.group_end(open)? - 1;
    let mut aliases = Vec::new();
    let mut i = source.code_from(close + 1);
    while let Some(kind) = source.kind(i) {
        match (kind, source.at(i)) {
            (Kind::Punct, ";" | "=" | "{" | "}") => break,
            (Kind::Punct, "(" | "[") => i = source.group_end(i)? - 1,
            (Kind::Ident, name) if source.at(source.code_from(i + 1)) != "(" => {
                aliases.push(name.to_string())
            }
            _ => {}
        }
        i = source.code_from(i + 1);
    }
    let before =
        source.tokens[..keyword].iter().rev().find(|t| t.is_code() && t.text(source.text) != "const");
    let typedef = before.is_some_and(|t| t.text(source.text) == "typedef");
    Some(Body { keyword, tag, arguments, open, close, aliases, typedef })
}

/// The definition of `name` (a tag or a typedef name). `decl_line` from the debug information decides between several.
pub fn find(source: &Source<'_>, name: &str, decl_line: Option<u32>) -> Result<Body, Refusal> {
    let bare = bare_name(name);
    let all = bodies(source);
    let alias = |b: &Body| b.aliases.iter().any(|a| a == bare);
    let named = |b: &&Body| b.tag.as_deref() == Some(bare) || (b.typedef && alias(b));
    let mut found: Vec<Body> = all.iter().filter(named).cloned().collect();
    if found.is_empty() {
        found = all.into_iter().filter(alias).collect();
    }
    let line = |i: usize| source.tokens.get(i).map_or(0, |t| t.line);
    if let Some(want) = decl_line {
        let mut exact = found.iter().filter(|b| line(b.keyword) <= want && want <= line(b.open));
        if let (Some(body), None) = (exact.next(), exact.next()) {
            return Ok(body.clone());
        }
    }
    found = scope::deepest(found, |b| scope::depth(source, b, name));
    if found.len() > 1 {
        let given = name.split_once('<').and_then(|n| n.1.trim().strip_suffix('>'));
        let special = |b: &Body| b.arguments.is_some() && b.arguments.as_deref() == given;
        // Without such a specialisation the template itself is meant.
        let wanted = found.iter().any(special);
        found.retain(|b| if wanted { special(b) } else { b.arguments.is_none() });
    }
    match found.as_slice() {
        [] => Err(Refusal::NotFound { name: name.into() }),
        [one] => Ok(one.clone()),
        _ => Err(Refusal::SeveralDefinitions { name: name.into(), count: found.len() }),
    }
}

/// `Foo` of `struct ns::Foo<int>`, `node` of `list<int>::node`.
pub fn bare_name(name: &str) -> &str {
    unadorned(segments(name).pop().unwrap_or(name))
}

/// What `::` parts outside of template arguments: `ns` and `list<a::b>` of `ns::list<a::b>`.
pub(super) fn segments(name: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0usize, 0, Vec::new());
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && at >= from && name[at..].starts_with("::") => {
                out.push(&name[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    out.push(&name[from..]);
    out
}

/// `list` of `struct list<int>`.
pub(super) fn unadorned(segment: &str) -> &str {
    let name = segment.split('<').next().unwrap_or(segment).trim();
    // gcc writes the module of a type behind its name: `counter@jobs`.
    let name = name.split('@').next().unwrap_or(name);
    name.rsplit(' ').next().unwrap_or(name).trim()
}

/// Whether `text` may define the type `bare`: some mention of it has a brace behind it before the statement ends, or
/// stands behind one. Most texts only mention a type, and need not be cut into tokens.
pub fn may_define(text: &str, bare: &str) -> bool {
    let bytes = text.as_bytes();
    places_of(text, bare).any(|at| {
        let behind = bytes[at + bare.len()..].iter().find(|b| matches!(b, b'{' | b';' | b')' | b'}' | b'='));
        let before = bytes[..at].iter().rev().find(|b| matches!(b, b'{' | b';' | b'}'));
        behind == Some(&b'{') || behind == Some(&b')') || before == Some(&b'}')
    })
}

/// What a statement of a struct body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ends in `;`: a member, a nested type, a method's declaration, an assertion.
    Declaration,
    /// A function with its body.
    Function,
    /// A macro that stands alone: `randomized_struct_fields_start`, `Q_OBJECT`.
    Marker,
}

/// One statement of a struct body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// First token.
    pub first: usize,
    /// Last token, usually `;`.
    pub last: usize,
    /// What it is.
    pub role: Role,
    /// Which branches of which `#if` it stands in: (number of the `#if`, number of the branch).
    pub context: Vec<(u32, u32)>,
    /// Tokens of those `#if`s.
    pub opened: Vec<usize>,
    /// Grows with every `public:`, `private:`, `protected:`.
    pub section: u32,
    /// A directive stands between its tokens outside nested braces.
    pub split: bool,
}

/// Cuts `body` into statements.
pub fn statements(source: &Source<'_>, body: &Body) -> Result<Vec<Statement>, Refusal> {
    let mut cutter = Cutter {
        source,
        body,
        out: Vec::new(),
        first: None,
        split: false,
        stack: Vec::new(),
        opened: Vec::new(),
        ifs: 0,
        section: 0,
    };
    cutter.run()?;
    Ok(cutter.out)
}

struct Cutter<'s, 'a> {
    source: &'s Source<'a>,
    body: &'s Body,
    out: Vec<Statement>,
    first: Option<usize>,
    split: bool,
    stack: Vec<(u32, u32)>,
    opened: Vec<usize>,
    ifs: u32,
    section: u32,
}

impl Cutter<'_, '_> {
    fn run(&mut self) -> Result<(), Refusal> {
        let mut i = self.body.open + 1;
        while i < self.body.close {
            i = self.step(i)?;
        }
        if self.stack.is_empty() { Ok(()) } else { Err(Refusal::UnbalancedIf) }
    }

    fn step(&mut self, i: usize) -> Result<usize, Refusal> {
        let Some(token) = self.source.tokens.get(i) else { return Ok(i + 1) };
        if token.kind == Kind::Directive {
            self.split |= self.first.is_some();
            self.directive(i)?;
            return Ok(i + 1);
        }
        if !token.is_code() {
            return Ok(i + 1);
        }
        if self.first.is_none() {
            if let Some(next) = self.label(i) {
                self.section += 1;
                return Ok(next);
            }
            self.first = Some(i);
            if let Some(end) = self.marker(i) {
                self.push(end - 1, Role::Marker);
                return Ok(end);
            }
        }
        match self.source.at(i) {
            ";" => {
                self.push(i, Role::Declaration);
                Ok(i + 1)
            }
            "(" | "[" => self.source.group_end(i).ok_or(Refusal::UnbalancedBraces),
            "{" => {
                let end = self.source.group_end(i).ok_or(Refusal::UnbalancedBraces)?;
                if self.is_function_body(i) {
                    let next = self.source.code_from(end);
                    let last = if self.source.at(next) == ";" { next } else { end - 1 };
                    self.push(last, Role::Function);
                    return Ok(last + 1);
                }
                Ok(end)
            }
            _ => Ok(i + 1),
        }
    }

    fn push(&mut self, last: usize, role: Role) {
        if let Some(first) = self.first.take() {
            let split = std::mem::take(&mut self.split);
            self.out.push(Statement {
                first,
                last,
                role,
                context: self.stack.clone(),
                opened: self.opened.clone(),
                section: self.section,
                split,
            });
        }
    }

    fn directive(&mut self, i: usize) -> Result<(), Refusal> {
        match directive_word(self.source.at(i)) {
            "if" | "ifdef" | "ifndef" => {
                self.ifs += 1;
                self.stack.push((self.ifs, 0));
                self.opened.push(i);
            }
            "elif" | "else" | "elifdef" | "elifndef" => {
                self.stack.last_mut().ok_or(Refusal::UnbalancedIf)?.1 += 1
            }
            "endif" => {
                self.stack.pop().ok_or(Refusal::UnbalancedIf)?;
                self.opened.pop();
            }
            _ => {}
        }
        Ok(())
    }

    /// Token behind `public:` and the like.
    fn label(&self, i: usize) -> Option<usize> {
        let word = matches!(self.source.at(i), "public" | "private" | "protected" | "signals" | "slots");
        let colon = self.source.code_from(i + 1);
        (word && self.source.at(colon) == ":" && self.source.at(colon + 1) != ":").then_some(colon + 1)
    }

    /// Token behind a macro that stands on a line of its own without `;`.
    fn marker(&self, i: usize) -> Option<usize> {
        let (end, call) = self.alone(i)?;
        let mut next = self.source.code_from(end);
        // `FIELD(long, a)` on one line, `FIELD(int, b)` on the next, and then a member.
        for _ in 0..MACROS_MAX {
            match self.alone(next) {
                Some((end, true)) if call => next = self.source.code_from(end),
                _ => break,
            }
        }
        if next >= self.body.close {
            return Some(end);
        }
        let ident = self.source.kind(next) == Some(Kind::Ident);
        let starts_member = ident && self.idents_until_semicolon(next) >= 2;
        let is_marker = starts_member && (call || !is_keyword(self.source.at(i)));
        is_marker.then_some(end)
    }

    /// Token behind the macro that has a line of its own, and whether it has arguments.
    fn alone(&self, i: usize) -> Option<(usize, bool)> {
        let source = self.source;
        if source.kind(i) != Some(Kind::Ident) || !self.begins_line(i) {
            return None;
        }
        let name = source.at(i);
        let loud =
            name.chars().any(|c| c.is_ascii_uppercase()) && !name.chars().any(|c| c.is_ascii_lowercase());
        let next = source.code_from(i + 1);
        let end = if loud && source.at(next) == "(" { source.group_end(next)? } else { i + 1 };
        self.ends_line(end).then_some((end, end > i + 1))
    }

    fn idents_until_semicolon(&self, from: usize) -> usize {
        (from..self.body.close)
            .take_while(|&i| !matches!(self.source.at(i), ";" | "{" | "("))
            .filter(|&i| self.source.kind(i) == Some(Kind::Ident))
            .count()
    }

    fn begins_line(&self, i: usize) -> bool {
        let before = self.source.tokens[..i].iter().rev().find(|t| t.kind != Kind::Space);
        before.is_none_or(|t| t.kind == Kind::Newline)
    }

    fn ends_line(&self, end: usize) -> bool {
        let skip = |t: &&Token| !matches!(t.kind, Kind::Space | Kind::BlockComment | Kind::LineComment);
        self.source.tokens[end..].iter().find(skip).is_none_or(|t| t.kind == Kind::Newline)
    }

    /// Whether the `{` at `open` begins a function's body and not a nested type or an initialiser.
    fn is_function_body(&self, open: usize) -> bool {
        let Some(first) = self.first else { return false };
        let (mut call, mut init_list, mut operator, mut last) = (false, false, false, "");
        // `struct node *next() {` is a function, `struct PACKED(4) node {` is none.
        let (mut tagged, mut named) = (false, false);
        let mut i = first;
        while i < open {
            let text = self.source.at(i);
            if !self.source.tokens[i].is_code() {
                i += 1;
                continue;
            }
            if call && tagged && self.source.kind(i) == Some(Kind::Ident) && last == ")" {
                named =
                    !matches!(text, "const" | "noexcept" | "override" | "final" | "volatile" | "requires");
            }
            match text {
                // `template <class F> void run(F f) {`
                "template" => {
                    let angle = self.source.code_from(i + 1);
                    i = angle_end(self.source, angle, open).unwrap_or(i + 1);
                    continue;
                }
                "struct" | "union" | "class" | "enum" if !call => tagged = true,
                // `int (*f)(int) = [](int n) { .. };`
                "=" if !operator => return false,
                "operator" => operator = true,
                "(" => {
                    call |= self.source.kind(i) == Some(Kind::Punct) && !is_attribute(last);
                    i = self.source.group_end(i).map_or(open, |e| e - 1);
                    last = ")";
                    i += 1;
                    continue;
                }
                ":" if call => init_list = true,
                _ => {}
            }
            last = text;
            i += 1;
        }
        call && !named
            && !(init_list && last.chars().all(|c| c.is_alphanumeric() || c == '_') && !last.is_empty())
    }
}

/// `ifdef` of `# ifdef X`.
fn directive_word(text: &str) -> &str {
    let rest = text.trim_start_matches('#').trim_start();
    &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())]
}

/// Bytes of the lines from the `#if` at token `open` to its `#endif`.
pub fn block_lines(source: &Source<'_>, open: usize) -> Option<std::ops::Range<usize>> {
    let mut depth = 0usize;
    for (i, token) in source.tokens.iter().enumerate().skip(open).filter(|(_, t)| t.kind == Kind::Directive) {
        match directive_word(source.at(i)) {
            "if" | "ifdef" | "ifndef" => depth += 1,
            "endif" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            let first = source.text[..source.tokens[open].start].rfind('\n').map_or(0, |n| n + 1);
            let end = source.text[token.end..].find('\n').map_or(source.text.len(), |n| token.end + n + 1);
            // The directive's token may hold its newline.
            let end = if source.text[..token.end].ends_with('\n') { token.end } else { end };
            return Some(first..end);
        }
    }
    None
}

/// Whether the `#if` at token `open` asks for `DEBUG` or `NDEBUG`.
pub fn asks_for_debug(source: &Source<'_>, open: usize) -> bool {
    let words = source.at(open).split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.into_iter().any(|w| matches!(w, "DEBUG" | "NDEBUG" | "_DEBUG"))
}

/// Whether the token stands inside an `#if` that asks for them.
pub fn is_for_debug(source: &Source<'_>, token: usize) -> bool {
    open_conditions(source, token).into_iter().any(|o| asks_for_debug(source, o))
}

/// Tokens of the `#if`s around a token.
pub(super) fn open_conditions(source: &Source<'_>, token: usize) -> Vec<usize> {
    let mut open = Vec::new();
    for i in (0..token).filter(|&i| source.tokens[i].kind == Kind::Directive) {
        match directive_word(source.at(i)) {
            "if" | "ifdef" | "ifndef" => open.push(i),
            "endif" => {
                open.pop();
            }
            _ => {}
        }
    }
    open
}

/// Words that take parentheses without being functions.
pub fn is_attribute(word: &str) -> bool {
    matches!(
        word,
        "__attribute__" | "__attribute" | "alignas" | "_Alignas" | "__declspec" | "__aligned" | "decltype"
    ) || matches!(word, "typeof" | "__typeof__" | "_Atomic")
}

/// Words that are part of a type or of a declaration.
pub fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "struct"
            | "union"
            | "class"
            | "enum"
            | "const"
            | "volatile"
            | "restrict"
            | "unsigned"
            | "signed"
            | "int"
            | "long"
            | "short"
            | "char"
            | "float"
            | "double"
            | "void"
            | "bool"
            | "_Bool"
            | "static"
            | "inline"
            | "mutable"
            | "constexpr"
            | "virtual"
            | "typename"
            | "typedef"
            | "using"
            | "friend"
            | "template"
            | "extern"
            | "explicit"
            | "auto"
            | "operator"
            | "_Atomic"
            | "_Alignas"
            | "alignas"
            | "__attribute__"
            | "__extension__"
            | "__volatile__"
            | "__restrict"
            | "_Complex"
            | "register"
            | "thread_local"
    )
}
