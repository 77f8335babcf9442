//! Variables that are no structs: an alignment for single ones, a line of its own for every element of an array.
//!
//! An array's element becomes a struct with one member, and every use `name[i]` becomes `name[i].value`. Only uses that
//! are subscripts can be followed: whoever takes the array's address counts on where the elements lie.

mod shadow;
mod uses;

pub(super) use uses::is_atomic;

use std::ops::Range;

use super::alloc::Changed;
use super::body::{Source, is_for_debug};
use super::scan::Code;
use super::word;
use super::{AlignStyle, Refusal, splice};

/// Name of the member that an element becomes.
pub const MEMBER: &str = "value";

/// What happens to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It begins on a multiple of so many bytes.
    Align(u64),
    /// Each element of the array does.
    Spread(u64),
}

/// Changes the global or static variable `name`, whose definition is in one of `files` (path and text).
///
/// # Errors
/// No definition or several, one that is more than a declarator, uses that cannot be followed.
pub fn patch(name: &str, change: Change, files: &[(&str, &str)]) -> Result<Vec<Changed>, Refusal> {
    let bare = name.rsplit("::").next().unwrap_or(name);
    let sources: Vec<(&str, Source<'_>)> =
        files.iter().filter(|f| f.1.contains(bare)).map(|f| (f.0, Source::new(f.1))).collect();
    let codes: Vec<(&str, Code<'_, '_>)> = sources.iter().map(|(p, s)| (*p, Code::new(s))).collect();
    let scope = name.strip_suffix(bare).and_then(|n| n.strip_suffix("::")).unwrap_or("");
    let at = definition((scope, bare), &codes, change)?;
    let code = &codes[at.file].1;
    if code.token(at.place).is_some_and(|t| is_for_debug(code.source, t)) {
        return Err(Refusal::DebugOnly { field: name.into() });
    }
    match change {
        Change::Align(bytes) => Ok(vec![align(&codes[at.file], at.place, bytes)?]),
        Change::Spread(bytes) => {
            let shown = shown(bare, &codes);
            let sees = shown.is_some_and(|h| includes(codes[at.file].0, codes[h.0].0, files));
            spread(bare, bytes, &codes, at, shown.map(|s| (s, sees)))
        }
    }
}

/// Whether `files` define a variable of that name, changeable or not.
pub fn is_defined(name: &str, files: &[(&str, &str)]) -> bool {
    !matches!(patch(name, Change::Align(1), files), Err(Refusal::NotFound { .. }))
}

/// Where a variable is defined.
#[derive(Clone, Copy)]
struct Definition {
    /// Index of the file.
    file: usize,
    /// Place of the name.
    place: usize,
    /// Nobody else sees it.
    is_private: bool,
}

/// File and place of the one declaration of the variable for other units, if it stands in a header and alone.
fn shown(name: &str, codes: &[(&str, Code<'_, '_>)]) -> Option<(usize, usize)> {
    let all = codes.iter().enumerate().flat_map(|(file, (_, code))| {
        let at = |j: &usize| code.text(*j) == name && matches!(declared(code, *j), Some(Kind::Extern));
        (0..code.len()).filter(at).map(move |j| (file, j)).collect::<Vec<_>>()
    });
    let all: Vec<(usize, usize)> = all.collect();
    let [(file, place)] = all[..] else { return None };
    let (path, code) = &codes[file];
    (is_header(path) && matches!(block(code, place), Block::File)).then_some((file, place))
}

fn is_header(path: &str) -> bool {
    [".h", ".hh", ".hpp", ".hxx", ".H", ".inc"].iter().any(|e| path.ends_with(e))
}

/// Whether the file at `from` includes the one at `header`, by itself or through others, as far as names of files tell.
fn includes(from: &str, header: &str, files: &[(&str, &str)]) -> bool {
    let base = |p: &str| p.rsplit('/').next().unwrap_or(p).to_string();
    let mut seen = std::collections::BTreeSet::from([base(from)]);
    let mut todo: Vec<&str> = files.iter().filter(|f| f.0 == from).map(|f| f.1).collect();
    while let Some(text) = todo.pop() {
        let directives = text.lines().filter_map(|l| l.trim_start().strip_prefix('#'));
        let paths =
            directives.filter_map(|d| d.trim_start().strip_prefix("include")?.split(['"', '<', '>']).nth(1));
        for name in paths.map(base) {
            if seen.insert(name.clone()) {
                todo.extend(files.iter().filter(|f| base(f.0) == name).map(|f| f.1));
            }
        }
    }
    seen.contains(&base(header))
}

pub(super) fn refusal(path: &str, code: &Code<'_, '_>, place: usize, why: impl Into<String>) -> Refusal {
    Refusal::Variable { file: path.into(), line: code.line(place), why: why.into() }
}

/// The one definition; everything else of that name that is declared, members apart, makes it ambiguous. Static
/// variables of functions are told apart by these where it does not matter who uses them.
fn definition(
    (scope, name): (&str, &str),
    codes: &[(&str, Code<'_, '_>)],
    change: Change,
) -> Result<Definition, Refusal> {
    let mut found: Vec<Definition> = Vec::new();
    let (mut local, mut unclear) = (None, None);
    let owner = scope.rsplit("::").next().unwrap_or(scope);
    let scoped = matches!(change, Change::Align(_)) && !owner.is_empty();
    let is_of_owner = |code: &Code<'_, '_>, place| static_in(code, place) == Some(owner);
    let by_owner = scoped && {
        let mut all = codes.iter().flat_map(|(_, code)| code.places(name).iter().map(move |&j| (code, j)));
        all.any(|(code, j)| matches!(declared(code, j), Some(Kind::Global { .. })) && is_of_owner(code, j))
    };
    for (file, (path, code)) in codes.iter().enumerate() {
        for place in (0..code.len()).filter(|&j| code.text(j) == name) {
            let Some(kind) = declared(code, place) else { continue };
            match (kind, found.first()) {
                (Kind::Member | Kind::Extern, _) => {}
                (Kind::Inline, _) if !scoped => {}
                (Kind::Global { .. }, _) if by_owner && !is_of_owner(code, place) => {}
                (Kind::Local, _) => {
                    local.get_or_insert((*path, code, place));
                    if shadow::reach(code, place).is_none() {
                        unclear.get_or_insert((*path, code, place));
                    }
                }
                (Kind::Global { .. } | Kind::Inline, Some(first)) => {
                    let at = format!("{}:{}", codes[first.file].0, codes[first.file].1.line(first.place));
                    return Err(refusal(path, code, place, format!("{name} is defined here and at {at}")));
                }
                (Kind::Global { is_static }, None) => {
                    found.push(Definition { file, place, is_private: is_static && !is_header(path) });
                }
                (Kind::Inline, None) => found.push(Definition { file, place, is_private: false }),
            }
        }
    }
    let why = match found.is_empty() {
        true => format!("{name} is a local variable or a parameter; global and static variables are changed"),
        false => format!("another {name} is declared here: which one a use means cannot be told"),
    };
    // Where it begins is written at its definition alone: whoever else has the name keeps it.
    let unclear = unclear.filter(|_| matches!(change, Change::Spread(_)));
    match (if found.is_empty() { local } else { unclear }, found.first()) {
        (Some((path, code, place)), _) => Err(refusal(path, code, place, why)),
        (None, Some(first)) => Ok(*first),
        (None, None) => match static_member(name, codes) {
            Some((path, code, place)) => {
                let why =
                    format!("{name} is a static member of a class; global and static variables are changed");
                Err(refusal(path, code, place, why))
            }
            None => Err(Refusal::NotFound { name: name.into() }),
        },
    }
}

/// The function around the static variable at `place`.
fn static_in<'a>(code: &Code<'_, 'a>, place: usize) -> Option<&'a str> {
    let Block::Function = block(code, place) else { return None };
    let (open, _) = code.function(place);
    let called = (code.start_of(open)..open).find(|&j| code.is_word(j) && code.text(j + 1) == "(");
    called.map(|j| code.text(j))
}

/// `T Class::name = ..;` outside of all functions, `static inline T name = ..;` in a class.
fn static_member<'c, 's, 'a>(
    name: &str,
    codes: &'c [(&'c str, Code<'s, 'a>)],
) -> Option<(&'c str, &'c Code<'s, 'a>, usize)> {
    codes.iter().find_map(|(path, code)| {
        let defined = |j: &&usize| {
            let start = code.start_of(**j);
            code.text(j.saturating_sub(1)) == ":"
                && j.saturating_sub(3) > start
                && matches!(code.text(**j + 1), ";" | "=" | "{" | "[")
                && matches!(block(code, **j), Block::File)
        };
        let inline = |j: &&usize| matches!(declared(code, **j), Some(Kind::Inline));
        Some((*path, code, *code.places(name).iter().find(|j| defined(j) || inline(j))?))
    })
}

/// What a declaration declares.
enum Kind {
    Member,
    /// `static inline` in a class: defined there.
    Inline,
    Extern,
    Local,
    Global {
        is_static: bool,
    },
}

/// The kind of the declaration whose declarator is at `place`, if it is one.
fn declared(code: &Code<'_, '_>, place: usize) -> Option<Kind> {
    code.declaration(place)?;
    let start = code.start_of(place);
    let words: Vec<&str> = (start..place).map(|j| code.text(j)).collect();
    let has = |w: &str| words.contains(&w);
    let parens = words.iter().filter(|w| **w == "(").count() > words.iter().filter(|w| **w == ")").count();
    if parens {
        return Some(Kind::Local);
    }
    if has("extern") && code.text(place + 1) != "=" {
        return Some(Kind::Extern);
    }
    let block = block(code, place);
    Some(match block {
        Block::Struct if has("static") && has("inline") => Kind::Inline,
        Block::Struct => Kind::Member,
        _ if has("static") => Kind::Global { is_static: true },
        Block::File => Kind::Global { is_static: false },
        Block::Function => Kind::Local,
    })
}

enum Block {
    File,
    Struct,
    Function,
}

/// What the innermost braces around `place` are.
fn block(code: &Code<'_, '_>, place: usize) -> Block {
    let mut at = place;
    while let Some(open) = code.enclosing(at) {
        let start = code.start_of(open);
        let words: Vec<&str> = (start..open).map(|j| code.text(j)).collect();
        let opens = |w: &[&str]| words.iter().any(|x| w.contains(x)) && !words.contains(&"(");
        if opens(&["struct", "union", "class", "enum"]) {
            return Block::Struct;
        }
        if !(opens(&["namespace"]) || words.first() == Some(&"extern")) {
            return Block::Function;
        }
        at = open;
    }
    Block::File
}

/// One past the brackets of the declarator at `place`.
fn declarator_end(code: &Code<'_, '_>, place: usize) -> usize {
    let mut at = place + 1;
    while code.text(at) == "[" {
        at = (at..code.len()).find(|&j| code.text(j) == "]").map_or(code.len(), |j| j + 1);
    }
    at
}

/// The statement declares nothing else.
fn is_alone(code: &Code<'_, '_>, place: usize) -> bool {
    let (start, end) = code.statement(place);
    let mut depth = 0i32;
    !(start..end).any(|j| {
        match code.text(j) {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth -= 1,
            _ => {}
        }
        depth == 0 && code.text(j) == ","
    })
}

fn align(file: &(&str, Code<'_, '_>), place: usize, bytes: u64) -> Result<Changed, Refusal> {
    let (path, code) = file;
    let text = code.source.text;
    let behind = code.range(declarator_end(code, place).saturating_sub(1)).end;
    let start = code.range(code.statement(place).0).start;
    let style = AlignStyle::of(path, text).but_c11();
    let word = word::of(code.source, style, bytes, code.token(place).unwrap_or(0));
    let change = match word.behind {
        true => (behind..behind, format!(" {}", word.text)),
        false if is_alone(code, place) => (start..start, format!("{} ", word.text)),
        false => (behind..behind, format!(" {}", AlignStyle::Attribute.word(bytes).text)),
    };
    let lines = vec![code.line(place)];
    Ok(Changed { path: path.to_string(), text: splice(text, &[(change.0, change.1.as_str())]), lines })
}

/// Words of a declaration that say where it is stored, not what it is.
const STORAGE: [&str; 8] =
    ["static", "thread_local", "__thread", "_Thread_local", "inline", "constinit", "register", "extern"];

/// `shown`: the declaration in a header, and whether the file of the definition includes that.
fn spread(
    name: &str,
    bytes: u64,
    codes: &[(&str, Code<'_, '_>)],
    at: Definition,
    shown: Option<((usize, usize), bool)>,
) -> Result<Vec<Changed>, Refusal> {
    let places = [Some(((at.file, at.place), shown.is_some_and(|s| s.1))), shown.map(|s| (s.0, false))];
    let macros = uses::Macros::of(codes);
    let mut out = Vec::new();
    for (file, (path, code)) in codes.iter().enumerate() {
        if at.is_private && file != at.file {
            continue;
        }
        let here: Vec<(usize, bool)> =
            places.iter().flatten().filter(|p| p.0.0 == file).map(|p| (p.0.1, p.1)).collect();
        let declared: Vec<usize> = here.iter().map(|h| h.0).collect();
        let mut changes: Vec<(Range<usize>, String)> = uses::rewrite(name, path, code, &declared, &macros)?;
        for (place, known) in here {
            changes.extend(element_struct(name, (bytes, known), path, code, place)?);
        }
        if changes.is_empty() {
            continue;
        }
        let lines = vec![code.line(declared.first().copied().unwrap_or(0))];
        let new: Vec<(Range<usize>, &str)> = changes.iter().map(|(r, t)| (r.clone(), t.as_str())).collect();
        let changed = Changed { path: path.to_string(), text: splice(code.source.text, &new), lines };
        // The file of the definition first: its object has the variable.
        out.insert(if file == at.file { 0 } else { out.len() }, changed);
    }
    Ok(out)
}

/// The declaration with a struct around the element's type, so many bytes apart; only the struct's name where a header
/// defines that already.
fn element_struct(
    name: &str,
    (bytes, known): (u64, bool),
    path: &str,
    code: &Code<'_, '_>,
    place: usize,
) -> Result<Vec<(Range<usize>, String)>, Refusal> {
    let refuse = |why: &str| Err(refusal(path, code, place, why));
    let (start, end) = code.statement(place);
    if code.text(place + 1) != "[" {
        return refuse("this is no array");
    }
    if !is_alone(code, place) {
        return refuse("the statement declares other variables, too; declare this one by itself first");
    }
    let first_end = (place..end).find(|&j| code.text(j) == "]").map_or(end, |j| j + 1);
    let dims_end = declarator_end(code, place);
    let rows = first_end < dims_end;
    let from = code.behind_attributes(dims_end);
    if code.text(from + 1).starts_with('"') && code.text(from) == "=" {
        return refuse("its elements are initialised by a string");
    }
    if code.text(from) == "=" && code.text(from + 1) != "{" {
        return refuse("its initialiser is no list in braces");
    }
    let Some(values) = wrapped(code, from, end, rows) else {
        return refuse("its elements are initialised by more than one value each, between commas");
    };
    let mut ty = start;
    while STORAGE.contains(&code.text(ty)) {
        ty += 1;
    }
    if (ty..place).any(|j| matches!(code.text(j), "{" | "alignas" | "_Alignas" | "__attribute__")) {
        return refuse("its declaration is more than a type and a name");
    }
    let text = |from: usize, to: usize| &code.source.text[code.range(from).start..code.range(to - 1).end];
    let rest = if first_end < dims_end { text(first_end, dims_end) } else { "" };
    let element = text(ty, place);
    let space = if element.ends_with('*') { "" } else { " " };
    let line_start = code.source.text[..code.range(start).start].rfind('\n').map_or(0, |n| n + 1);
    let indent = super::unit::indent_of(code.source.text, line_start);
    let step = if code.source.text.contains("\n\t") { "\t" } else { "    " };
    let (style, value) = (AlignStyle::of(path, code.source.text), format!("{element}{space}{MEMBER}{rest}"));
    let member = word::aligned(code.source, style, bytes, code.token(place).unwrap_or(0), &value);
    let tag = format!("{name}_element");
    let newline = if code.source.text.contains("\r\n") { "\r\n" } else { "\n" };
    let new = match known {
        true => format!("struct {tag} "),
        false => format!("struct {tag} {{{newline}{indent}{step}{member}{newline}{indent}}} "),
    };
    let mut out = vec![(code.range(ty).start..code.range(place).start, new)];
    out.extend(values);
    if !rest.is_empty() {
        out.push((code.range(first_end).start..code.range(dims_end - 1).end, String::new()));
    }
    Ok(out)
}

/// Braces around each value of the initialiser from `from` to `end`; `None` where values of rows stand without braces
/// of their own. Nothing for zeros.
fn wrapped(code: &Code<'_, '_>, from: usize, end: usize, rows: bool) -> Option<Vec<(Range<usize>, String)>> {
    let whole: String = (from..end).map(|j| code.text(j)).collect();
    if matches!(whole.as_str(), "" | "={0}" | "={}" | "{}") {
        return Some(Vec::new());
    }
    let open = from + usize::from(code.text(from) == "=");
    if code.text(open) != "{" || code.text(end - 1) != "}" {
        return None;
    }
    let mut out = Vec::new();
    let (mut depth, mut first) = (0usize, open + 1);
    for j in open + 1..end {
        match code.text(j) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth > 0 => depth -= 1,
            "," | "}" if depth == 0 => {
                if first < j {
                    let value = value_of(code, first, j);
                    if rows && code.text(value) != "{" {
                        return None;
                    }
                    let (begins, ends) = (code.range(value).start, code.range(j - 1).end);
                    out.push((begins..begins, "{ ".to_string()));
                    out.push((ends..ends, " }".to_string()));
                }
                first = j + 1;
            }
            _ => {}
        }
    }
    Some(out)
}

/// Where the value begins behind `[1] =`.
fn value_of(code: &Code<'_, '_>, first: usize, end: usize) -> usize {
    let assigned = (first..end).find(|&j| code.text(first) == "[" && code.text(j) == "=");
    assigned.map_or(first, |j| j + 1)
}

#[cfg(test)]
#[path = "variable_tests.rs"]
mod tests;
