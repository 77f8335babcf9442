//! Which names a statement declares, and which statement declares a member of the debug information.

use super::Refusal;
use super::body::{Role, Source, Statement, angle_end, is_attribute};
use super::lex::Kind;

/// What a statement declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Name of every declarator, as far as it can be told from the text.
    pub names: Vec<String>,
    /// Every identifier that could be one: attributes by macro stand behind names (`lock ____cacheline_aligned`).
    pub idents: Vec<String>,
    /// Number of declarators.
    pub declarators: usize,
    /// Token of the `:` of a bit-field.
    pub bit_field: bool,
    /// The last declarator is `name[]`, or `name[0]` or `name[1]` as written before C99.
    pub flexible: bool,
    /// `DECLARE_BITMAP(name, 3);`: a macro makes the member.
    pub macro_made: bool,
    /// A nested struct or union without a declarator.
    pub anonymous: bool,
}

/// Parses one statement.
pub fn declared(source: &Source<'_>, statement: &Statement) -> Declared {
    let mut out = Declared::default();
    if statement.role != Role::Declaration {
        return out;
    }
    let tokens = significant(source, statement);
    let nested = tokens.iter().rposition(|t| t.1 == "{}");
    let is_type = matches!(tokens.first().map(|t| t.1), Some("struct" | "union" | "class" | "enum"));
    let tail = match nested {
        Some(at)
            if is_type
                || tokens[..at].iter().any(|t| matches!(t.1, "struct" | "union" | "class" | "enum")) =>
        {
            // `} __randomize_layout;` declares nothing.
            out.anonymous = tokens[at + 1..].iter().all(|t| t.1.starts_with("__"));
            &tokens[at + 1..]
        }
        _ => &tokens[..],
    };
    for part in split_commas(tail) {
        out.declarators += 1;
        declarator(source, part, &mut out);
    }
    if out.anonymous {
        out.declarators = 0;
    }
    out.macro_made &= out.names.is_empty();
    out
}

/// Byte behind the declarator of a statement with one: before its value, its attributes included.
pub fn declarator_end(source: &Source<'_>, statement: &Statement) -> usize {
    let is_type = |i: usize| matches!(source.at(i), "struct" | "union" | "class" | "enum");
    let nested = (statement.first..statement.last).find(|&i| is_type(i) || matches!(source.at(i), "{" | "="));
    // The braces of a nested type are none of a value.
    let mut types = nested.is_some_and(is_type);
    let mut i = statement.first;
    while i < statement.last {
        match source.at(i) {
            "(" | "[" => i = source.group_end(i).map_or(i, |e| e - 1),
            "{" if types => {
                types = false;
                i = source.group_end(i).map_or(i, |e| e - 1);
            }
            "=" | "{" => break,
            _ => {}
        }
        i += 1;
    }
    if i >= statement.last {
        return source.tokens[statement.last].start;
    }
    let before = (statement.first..i).rev().find(|&j| source.tokens[j].is_code());
    before.map_or(source.tokens[statement.last].start, |j| source.tokens[j].end)
}

/// Code tokens without attributes; `(...)`, `[...]`, `{...}` and `<...>` become one entry each, that of their opener.
fn significant<'a>(source: &Source<'a>, statement: &Statement) -> Vec<(usize, &'a str)> {
    let mut out: Vec<(usize, &str)> = Vec::new();
    let mut i = statement.first;
    while i < statement.last {
        let token = source.tokens[i];
        if !token.is_code() || token.kind == Kind::Directive {
            i += 1;
            continue;
        }
        let text = token.text(source.text);
        let group = match text {
            "(" => Some("()"),
            "[" => Some("[]"),
            "{" => Some("{}"),
            _ => None,
        };
        if let Some(name) = group {
            let end = source.group_end(i).unwrap_or(statement.last);
            let attribute = out.last().is_some_and(|l| is_attribute(l.1));
            let double = name == "[]" && source.at(source.code_from(i + 1)) == "[";
            if attribute && name == "()" {
                let word = out.pop().map_or("", |l| l.1);
                // `typeof(x) name`, `decltype(x) name` and `_Atomic(int) name` are types.
                if matches!(word, "decltype" | "typeof" | "__typeof__" | "_Atomic") {
                    out.push((i, "typeof"));
                }
            } else if !double {
                out.push((i, name));
            }
            i = end.min(statement.last);
            continue;
        }
        let template = text == "<" && out.last().is_some_and(|l| source.tokens[l.0].kind == Kind::Ident);
        if template && let Some(end) = angle_end(source, i, statement.last) {
            out.push((i, "<>"));
            i = end;
            continue;
        }
        out.push((i, text));
        i += 1;
    }
    out
}

fn split_commas<'t, 'a>(tokens: &'t [(usize, &'a str)]) -> impl Iterator<Item = &'t [(usize, &'a str)]> {
    tokens.split(|t| t.1 == ",")
}

fn declarator(source: &Source<'_>, part: &[(usize, &str)], out: &mut Declared) {
    let is_ident = |t: &(usize, &str)| source.tokens[t.0].kind == Kind::Ident && t.1 != "()";
    let mut end = part.len();
    for (n, t) in part.iter().enumerate() {
        let qualifier = t.1 == ":" && (near(part, n, 1) == ":" || (n > 0 && part[n - 1].1 == ":"));
        if t.1 == "=" || (t.1 == "{}" && n > 0) || (t.1 == ":" && !qualifier) {
            out.bit_field |= t.1 == ":";
            end = n;
            break;
        }
    }
    let part = &part[..end];
    // `int (*name)(void)`: the name stands inside the first group.
    for (n, t) in part.iter().enumerate() {
        let pointer = points(source, source.code_from(t.0 + 1));
        let called = n > 0 && is_ident(&part[n - 1]) && near(part, n, 1) != "()" && near(part, n, 1) != "[]";
        if t.1 == "()"
            && pointer
            && !called
            && let Some(name) = inner_name(source, t.0)
        {
            out.idents.push(name.clone());
            out.names.push(name);
            return;
        }
    }
    let mut name = None;
    let mut macro_call = false;
    for (n, t) in part.iter().enumerate() {
        if !is_ident(t) || super::body::is_keyword(t.1) {
            continue;
        }
        if near(part, n, 1) == "()" {
            macro_call = true;
            arguments(source, part[n + 1].0, &mut out.idents);
            continue;
        }
        out.idents.push(t.1.to_string());
        name = Some((n, t.1));
    }
    match name.map(|n| before_attribute(part, n)) {
        Some((n, text)) => {
            out.names.push(text.to_string());
            let brackets = part.get(n + 1).filter(|t| t.1 == "[]");
            out.flexible = brackets.is_some_and(|t| {
                let inside = source.at(source.code_from(t.0 + 1));
                inside == "]" || (matches!(inside, "0" | "1") && source.at(source.code_from(t.0 + 2)) == "]")
            });
        }
        None => out.macro_made |= macro_call,
    }
}

/// `lock` of `spinlock_t lock ____cacheline_aligned_in_smp`: a last word with two underscores behind a whole
/// declaration.
fn before_attribute<'a>(part: &[(usize, &'a str)], name: (usize, &'a str)) -> (usize, &'a str) {
    let (n, text) = name;
    let keyword =
        |w: &str| matches!(w, "struct" | "union" | "class" | "enum" | "const" | "volatile" | "static");
    let is_word = |w: &str| w.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let words = part[..=n].iter().filter(|t| is_word(t.1) && !keyword(t.1)).count();
    match n.checked_sub(1).map(|b| part[b]) {
        Some((_, before)) if text.starts_with("__") && words >= 3 && is_word(before) => {
            if super::body::is_keyword(before) {
                name
            } else {
                (n - 1, before)
            }
        }
        _ => name,
    }
}

fn near<'a>(part: &[(usize, &'a str)], n: usize, ahead: usize) -> &'a str {
    part.get(n + ahead).map_or("", |t| t.1)
}

/// A declarator of a pointer begins at `at`: `*name`, `Class::*name`.
fn points(source: &Source<'_>, at: usize) -> bool {
    let path = |i: &usize| source.kind(*i) == Some(Kind::Ident) || source.at(*i) == ":";
    let end = (at..at + 16).find(|i| !path(i)).unwrap_or(at);
    match source.at(end) {
        "*" => end == at || source.at(end - 1) == ":",
        "&" | "^" => end == at,
        _ => false,
    }
}

/// `name` of `(*name[3])` or `(*(*name)(int))`.
fn inner_name(source: &Source<'_>, open: usize) -> Option<String> {
    let mut name = None;
    for i in open + 1..source.tokens.len() {
        match (source.tokens[i].kind, source.at(i)) {
            (Kind::Ident, word) if !super::body::is_keyword(word) => name = Some(word.to_string()),
            (_, ")" | "[") => break,
            _ => {}
        }
    }
    name
}

fn arguments(source: &Source<'_>, open: usize, idents: &mut Vec<String>) {
    let end = source.group_end(open).unwrap_or(open);
    idents.extend(
        (open..end).filter(|&i| source.tokens[i].kind == Kind::Ident).map(|i| source.at(i).to_string()),
    );
}

/// The statement that declares `field`; `line` from the debug information decides between several.
pub fn statement_of(
    source: &Source<'_>,
    statements: &[Statement],
    field: &str,
    line: Option<u32>,
) -> Result<usize, Refusal> {
    let parsed: Vec<Declared> = statements.iter().map(|s| declared(source, s)).collect();
    let holds =
        |s: &Statement, line: u32| source.tokens[s.first].line <= line && line <= source.tokens[s.last].line;
    let named: Vec<usize> =
        (0..statements.len()).filter(|&i| parsed[i].names.iter().any(|n| n == field)).collect();
    let at_line = |of: &[usize]| -> Vec<usize> {
        of.iter().copied().filter(|&i| line.is_none_or(|l| holds(&statements[i], l))).collect()
    };
    let exact = at_line(&named);
    let any: Vec<usize> =
        (0..statements.len()).filter(|&i| parsed[i].idents.iter().any(|n| n == field)).collect();
    let found = match (exact.len(), named.len()) {
        (1, _) => exact,
        (0, 1) => named,
        (0, 0) => at_line(&any),
        _ => exact,
    };
    let [at] = found[..] else {
        return Err(if found.is_empty() {
            Refusal::NoStatement { field: field.into() }
        } else {
            Refusal::SeveralStatements { field: field.into() }
        });
    };
    let (statement, parsed) = (&statements[at], &parsed[at]);
    if statement.split {
        return Err(Refusal::DirectiveInside { field: field.into() });
    }
    if parsed.macro_made {
        return Err(Refusal::MacroMade { field: field.into() });
    }
    Ok(at)
}
