//! Uses of an array whose elements become structs.

use std::ops::Range;

use super::{Kind, MEMBER, declared, refusal, shadow};
use crate::patch::Refusal;
use crate::patch::lex::Kind as Token;
use crate::patch::scan::Code;

/// What must be inserted at every use of `name` in one file; `own` are the places of its declarators that change
/// otherwise.
pub(super) fn rewrite(
    name: &str,
    path: &str,
    code: &Code<'_, '_>,
    own: &[usize],
    macros: &Macros,
) -> Result<Vec<(Range<usize>, String)>, Refusal> {
    in_macros(name, path, code)?;
    in_strings(name, path, code)?;
    let mut out = Vec::new();
    let others = shadow::all(name, code);
    let means_it = |j: &usize| !own.contains(j) && !others.iter().any(|o| o.contains(j));
    for place in (0..code.len()).filter(|&j| code.text(j) == name).filter(means_it) {
        if let Some(end) = one(name, path, code, place, macros)? {
            let at = code.range(end).end;
            out.push((at..at, format!(".{MEMBER}")));
        }
    }
    Ok(out)
}

/// Macros hide how they are used.
fn in_macros(name: &str, path: &str, code: &Code<'_, '_>) -> Result<(), Refusal> {
    let directives = code.source.tokens.iter().filter(|t| t.kind == Token::Directive);
    // The name of a header is no use.
    let included = |text: &str| text.trim_start_matches('#').trim_start().starts_with("include");
    let word = |text: &str| {
        !included(text) && text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == name)
    };
    match directives.into_iter().find(|t| word(t.text(code.source.text))) {
        None => Ok(()),
        Some(t) => Err(Refusal::Variable {
            file: path.into(),
            line: t.line,
            why: format!(
                "{} {name}; where it is used cannot be followed",
                if t.text(code.source.text).contains("pragma") { "a #pragma names" } else { "a macro uses" }
            ),
        }),
    }
}

/// Assembly names variables inside of strings, and so does `dlsym`.
fn in_strings(name: &str, path: &str, code: &Code<'_, '_>) -> Result<(), Refusal> {
    let is_word = |text: &str| text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == name);
    let in_assembly = |j: usize| {
        let (start, _) = code.statement(j);
        (start..j).any(|k| matches!(code.text(k), "asm" | "__asm__" | "__asm"))
    };
    let names = |j: &usize| {
        let text = code.text(*j);
        text.starts_with('"') && (text.trim_matches('"') == name || (is_word(text) && in_assembly(*j)))
    };
    match (0..code.len()).find(names) {
        None => Ok(()),
        Some(j) => Err(refusal(
            path,
            code,
            j,
            format!("{name} is named in a string: what looks it up cannot be followed"),
        )),
    }
}

/// Place of the `]` behind which the member goes; `None` where nothing changes.
fn one(
    name: &str,
    path: &str,
    code: &Code<'_, '_>,
    place: usize,
    macros: &Macros,
) -> Result<Option<usize>, Refusal> {
    let refuse = |why: String| Err(refusal(path, code, place, why));
    let before = |n: usize| place.checked_sub(n).map_or("", |j| code.text(j));
    if before(1) == "." || (before(1) == ">" && before(2) == "-") {
        return Ok(None);
    }
    match declared(code, place) {
        Some(Kind::Member) => return Ok(None),
        Some(Kind::Extern) => {
            return refuse(format!(
                "{name} is declared here, too, with the type that its elements have today; one extern declaration in a \
                 header is changed"
            ));
        }
        Some(_) => return refuse(format!("another {name} is declared here")),
        None => {}
    }
    if let Some(size) = Size::around(code, place) {
        return match size.counts(code, name) {
            true => Ok(None),
            false => refuse(format!("the size of {name} is used for more than the number of its elements")),
        };
    }
    if let Some(quoter) = macros.quotes(code, place) {
        return refuse(format!(
            "{quoter} makes text of what it is given, and {name} would read otherwise there"
        ));
    }
    if code.text(place + 1) != "[" {
        let counted =
            before(1) == "(" && code.text(place + 1) == ")" && macros.counting.iter().any(|c| c == before(2));
        return match counted || zeroed(code, place) {
            true => Ok(None),
            false => {
                refuse(format!("{name} is used as a whole, by what may count on where its elements lie"))
            }
        };
    }
    let close = code
        .matching(place + 1, ["[", "]"], usize::MAX)
        .ok_or_else(|| refusal(path, code, place, "the brackets do not match"))?;
    if before(1) == "&" && before(2) == "(" && is_atomic(before(3)) {
        return Ok(Some(close));
    }
    if matches!(before(1), "typeof" | "decltype" | "__typeof__" | "&") && before(2) != "&" {
        return refuse(format!(
            "the address of an element of {name} is taken; what reads it may count on the element behind it"
        ));
    }
    if matches!(before(2), "typeof" | "decltype" | "__typeof__") {
        return refuse(format!("the type of an element of {name} is asked for"));
    }
    Ok(Some(close))
}

/// Functions that touch the one element whose address they take first.
pub(in crate::patch) fn is_atomic(function: &str) -> bool {
    let prefixes =
        ["__atomic_", "__sync_", "atomic_", "__c11_atomic_", "InterlockedAdd", "InterlockedIncrement"];
    prefixes.iter().any(|p| function.starts_with(p))
}

/// `sizeof` of the array or of an element.
struct Size {
    /// Place of `sizeof`.
    first: usize,
    /// Its last place.
    last: usize,
}

impl Size {
    /// The one whose operand holds the name at `place` first: `sizeof n`, `sizeof(n[0])`, `sizeof(*n)`.
    fn around(code: &Code<'_, '_>, place: usize) -> Option<Size> {
        let mut at = place.checked_sub(1)?;
        while at > 0 && matches!(code.text(at), "(" | "*") {
            at -= 1;
        }
        if code.text(at) != "sizeof" {
            return None;
        }
        let end = |from: usize, pair| code.matching(from, pair, usize::MAX);
        let last = match code.text(at + 1) {
            "(" => end(at + 1, ["(", ")"])?,
            _ if code.text(place + 1) == "[" => end(place + 1, ["[", "]"])?,
            _ => place,
        };
        Some(Size { first: at, last })
    }

    /// What it measures, without blanks and parentheses.
    fn operand(&self, code: &Code<'_, '_>) -> String {
        (self.first + 1..=self.last).map(|j| code.text(j)).filter(|t| !matches!(*t, "(" | ")")).collect()
    }

    /// It is one side of `sizeof(n) / sizeof(n[0])`, or how much `memset(n, 0, sizeof(n))` clears.
    fn counts(&self, code: &Code<'_, '_>, name: &str) -> bool {
        let operand = self.operand(code);
        let element = |o: &str| o == format!("*{name}") || o.starts_with(&format!("{name}["));
        let behind =
            || (code.text(self.last + 1) == "/").then(|| Size::around(code, self.name_behind(code, name)?));
        if operand == name && behind().flatten().is_some_and(|s| element(&s.operand(code))) {
            return true;
        }
        let before = |n: usize| self.first.checked_sub(n).map_or("", |j| code.text(j));
        if element(&operand) && before(1) == "/" {
            let sizeof = (self.first.saturating_sub(6)..self.first).rev().find(|&j| code.text(j) == "sizeof");
            let words =
                |j: usize| (j + 1..self.first - 1).map(|k| code.text(k)).filter(|t| !matches!(*t, "(" | ")"));
            return sizeof.is_some_and(|j| words(j).eq([name]));
        }
        let memset = [",", "0", ",", name, "(", "memset"];
        operand == name && memset.iter().enumerate().all(|(n, t)| before(n + 1) == *t)
    }

    /// Place of the name in the `sizeof` behind the `/` behind this one.
    fn name_behind(&self, code: &Code<'_, '_>, name: &str) -> Option<usize> {
        let from = self.last + 2;
        (code.text(from) == "sizeof").then(|| (from..from + 5).find(|&j| code.text(j) == name)).flatten()
    }
}

/// Macros of the files that make something of an array or of its elements.
pub(super) struct Macros {
    /// They count an array's elements by its own size and that of an element, whatever their type.
    counting: Vec<String>,
    /// They make text of what they are given.
    quoting: Vec<String>,
}

impl Macros {
    /// Of all `files`.
    pub(super) fn of(files: &[(&str, Code<'_, '_>)]) -> Macros {
        let directives = files.iter().flat_map(|(_, code)| {
            let of_file = code.source.tokens.iter().filter(|t| t.kind == Token::Directive);
            of_file.map(|t| t.text(code.source.text))
        });
        let directives: Vec<&str> = directives.collect();
        let mut quoting: Vec<String> = Vec::new();
        // Macros may hand on what they are given.
        for _ in 0..4 {
            let found = directives.iter().filter_map(|d| quoter(d, &quoting));
            let new: Vec<String> = found.filter(|n| !quoting.contains(n)).collect();
            quoting.extend(new);
        }
        Macros { counting: directives.iter().filter_map(|d| counter(d)).collect(), quoting }
    }

    /// The macro around `place` that makes text of it.
    fn quotes<'a>(&self, code: &Code<'_, 'a>, place: usize) -> Option<&'a str> {
        let (start, _) = code.statement(place);
        let around = (start..place).filter(|&j| code.text(j + 1) == "(");
        let mut around = around.filter(|&j| code.closing(j + 1).is_some_and(|close| close > place));
        around.find(|&j| self.quoting.iter().any(|q| q == code.text(j))).map(|j| code.text(j))
    }
}

/// The name in `#define NAME(x) .. #x ..`, or in one that calls one of `known`.
fn quoter(directive: &str, known: &[String]) -> Option<String> {
    let rest = directive.trim_start_matches('#').trim_start().strip_prefix("define")?.trim_start();
    let (name, rest) = rest.split_once('(')?;
    let (_, body) = rest.split_once(')')?;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let plain = body.replace("##", " ");
    let hash = plain.split('#').skip(1).any(|behind| behind.trim_start().starts_with(word));
    let calls = body.split(|c| !word(c)).any(|w| known.iter().any(|k| k == w));
    ((hash || calls) && name.chars().all(word)).then(|| name.to_string())
}

/// The name in `#define NAME(x) (sizeof(x) / sizeof((x)[0]))`, with whatever is added to that.
fn counter(directive: &str) -> Option<String> {
    let rest = directive.trim_start_matches('#').trim_start().strip_prefix("define")?.trim_start();
    let (name, rest) = rest.split_once('(')?;
    let (parameter, body) = rest.split_once(')')?;
    let parameter = parameter.trim();
    let plain: String =
        body.chars().filter(|c| !c.is_whitespace() && !matches!(c, '(' | ')' | '\\')).collect();
    let whole = format!("sizeof{parameter}/sizeof");
    let counts =
        [format!("{whole}{parameter}[0]"), format!("{whole}*{parameter}")].iter().any(|c| plain.contains(c));
    (counts && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then(|| name.to_string())
}

/// `memset(name, 0, ..)`.
fn zeroed(code: &Code<'_, '_>, place: usize) -> bool {
    let before = |n: usize| place.checked_sub(n).map_or("", |j| code.text(j));
    before(1) == "(" && before(2) == "memset" && code.text(place + 1) == "," && code.text(place + 2) == "0"
}
