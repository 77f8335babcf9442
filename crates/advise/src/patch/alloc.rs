//! Allocations of a struct on the heap, written so that every object begins on a cache line and shares none.
//!
//! Found by `sizeof`: of the type, or of what a variable or a member points to. `malloc` becomes `aligned_alloc` with a
//! rounded size; `calloc` and `realloc`, and sizes that could wrap when they are rounded, become calls of a function
//! that is put below the file's includes. All of them give memory that `free` and `realloc` take.

mod elsewhere;
mod helpers;
mod hidden;
pub mod slab;
mod types;

use std::ops::Range;

use super::body::Source;
use super::lex::Kind;
use super::scan::Code;
use super::{Refusal, splice};
use helpers::Helpers;
pub use hidden::by_new;
use types::Types;

/// Functions of C's heap, as evidence and sources call them.
pub const HEAP: [&str; 7] =
    ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "reallocarray"];

/// What allocations must give.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    /// Tags and typedefs of the types of the objects.
    pub types: &'a [String],
    /// Bytes, a power of two.
    pub bytes: u64,
    /// The types' sizes are multiples of that already.
    pub whole: bool,
    /// The types themselves need it: memory that cannot be changed refuses the patch.
    pub strict: bool,
}

/// A place where a recorded object was allocated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Path, as the debug information has it.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// The function: one of [`HEAP`].
    pub function: String,
}

/// A file with other allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// As given.
    pub path: String,
    /// The new text.
    pub text: String,
    /// Lines of the calls, in the old text.
    pub lines: Vec<u32>,
}

/// Rewrites every allocation of the types in `files` (path and text).
///
/// # Errors
/// A recorded site at which no such call is found, a call that cannot be changed, a project with an allocator of its
/// own by the name of C's.
pub fn rewrite(goal: &Goal<'_>, files: &[(&str, &str)], sites: &[Site]) -> Result<Vec<Changed>, Refusal> {
    let allocates = |t: &str| t.contains("sizeof") && HEAP.iter().any(|h| t.contains(h));
    let all = Types::of(files);
    let mut out = Vec::new();
    let mut unseen: Vec<&Site> = sites.iter().collect();
    for (path, text) in files.iter().filter(|f| allocates(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        let calls = calls(&code, goal, &all);
        unseen.retain(|s| !calls.iter().any(|c| c.is_at(path, s)));
        if !calls.is_empty() {
            out.extend(changed(goal, path, &code, &calls)?);
        }
    }
    if goal.strict {
        hidden::check(goal, &all, files)?;
    }
    if let Some(site) = unseen.first() {
        let why = format!("{} there is not seen to allocate by sizeof of the struct", site.function);
        return Err(refusal(&site.file, site.line, why));
    }
    match out.is_empty() {
        true => Ok(out),
        false => own_allocator(files).map_or(Ok(out), Err),
    }
}

fn refusal(file: &str, line: u32, why: String) -> Refusal {
    Refusal::Allocation { file: file.into(), line, why }
}

/// A definition of the project's own that takes the place of C's.
fn own_allocator(files: &[(&str, &str)]) -> Option<Refusal> {
    let named = |text: &str| {
        let mut words = text.trim_start_matches('#').split_whitespace();
        let name = (words.next() == Some("define")).then(|| words.next()).flatten()?;
        let name = name.split('(').next().unwrap_or(name);
        HEAP.iter().chain(&["free"]).find(|h| **h == name).copied()
    };
    files.iter().find_map(|(path, text)| {
        let source = Source::new(text);
        let directives = source.tokens.iter().filter(|t| t.kind == Kind::Directive);
        let found = directives.filter_map(|t| Some((t.line, named(t.text(text))?))).next();
        let (line, name) = found.or_else(|| defined(&Code::new(&source)))?;
        Some(refusal(path, line, format!("the project has a {name} of its own")))
    })
}

/// A function of the heap that the file defines.
fn defined(code: &Code<'_, '_>) -> Option<(u32, &'static str)> {
    (0..code.len()).find_map(|i| {
        let name = HEAP.iter().chain(&["free"]).find(|h| **h == code.text(i) && code.text(i + 1) == "(")?;
        let type_before = i > 0 && (code.is_word(i - 1) || code.text(i - 1) == "*");
        let body = code.text(code.closing(i + 1)? + 1) == "{";
        (type_before && body).then_some((code.line(i), *name))
    })
}

/// A call that allocates objects of the types.
struct Call {
    function: &'static str,
    /// Place of the function's name.
    at: usize,
    /// Places of `(` and `)`.
    parens: (usize, usize),
    lines: (u32, u32),
}

impl Call {
    fn is_at(&self, path: &str, site: &Site) -> bool {
        let file = site.file == path || site.file.strip_suffix(path).is_some_and(|p| p.ends_with('/'));
        file && site.function == self.function && (self.lines.0..=self.lines.1).contains(&site.line)
    }

    /// Places of the arguments: first, and one past the last.
    fn arguments(&self, code: &Code<'_, '_>) -> Vec<Range<usize>> {
        let (mut depth, mut from) = (0usize, self.parens.0 + 1);
        let mut out = Vec::new();
        for i in from..self.parens.1 {
            match code.text(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => {
                    out.push(from..i);
                    from = i + 1;
                }
                _ => {}
            }
        }
        out.push(from..self.parens.1);
        out
    }
}

fn calls(code: &Code<'_, '_>, goal: &Goal<'_>, types: &Types) -> Vec<Call> {
    let ours = |i: usize, end: usize| {
        let first = (i..end).find(|&j| code.text(j) == "sizeof")?;
        types.measured(code, first).filter(|t| goal.types.contains(t))
    };
    let call = |i: usize| {
        let function = HEAP.iter().find(|h| **h == code.text(i) && code.text(i + 1) == "(")?;
        let close = code.closing(i + 1)?;
        let member = i > 0 && matches!(code.text(i - 1), "." | ">");
        ours(i + 2, close).filter(|_| !member)?;
        let lines = (code.line(i), code.line(close));
        Some(Call { function, at: i, parens: (i + 1, close), lines })
    };
    (0..code.len()).filter_map(call).collect()
}

/// The file with `calls` rewritten; `None` when all of them do already what is asked.
fn changed(
    goal: &Goal<'_>,
    path: &str,
    code: &Code<'_, '_>,
    calls: &[Call],
) -> Result<Option<Changed>, Refusal> {
    let mut helpers = Helpers::new(code.source, path, goal.bytes);
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut lines = Vec::new();
    for call in calls {
        let new = one(goal, code, call, &mut helpers).map_err(|why| refusal(path, call.lines.0, why))?;
        if !new.is_empty() {
            lines.push(call.lines.0);
        }
        changes.extend(new);
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let missing = |why: &str| refusal(path, calls[0].lines.0, why.into());
    changes.extend(helpers.text().map_err(missing)?);
    let changes: Vec<(Range<usize>, &str)> = changes.iter().map(|(r, t)| (r.clone(), t.as_str())).collect();
    Ok(Some(Changed { path: path.into(), text: splice(code.source.text, &changes), lines }))
}

/// What changes at one call; the error says why it cannot be changed.
fn one(
    goal: &Goal<'_>,
    code: &Code<'_, '_>,
    call: &Call,
    helpers: &mut Helpers<'_, '_>,
) -> Result<Vec<(Range<usize>, String)>, String> {
    let arguments = call.arguments(code);
    let number = |n: usize| code.text(arguments.get(n)?.start).parse::<u64>().ok();
    let aligned = match call.function {
        "posix_memalign" => number(1),
        "aligned_alloc" | "memalign" => number(0),
        "reallocarray" => return Err("reallocarray is not changed; write realloc".into()),
        _ => None,
    };
    if matches!(call.function, "posix_memalign" | "aligned_alloc" | "memalign") {
        let enough = aligned.is_some_and(|n| n >= goal.bytes && n % goal.bytes == 0);
        let what = format!("{} asks for another alignment than {}", call.function, goal.bytes);
        return if enough { Ok(Vec::new()) } else { Err(what) };
    }
    if call.function == "malloc" && is_constant(code, &arguments[0]) {
        return Ok(aligned_alloc(goal, code, call, &arguments[0]));
    }
    Ok(vec![(name_range(code, call), helpers.wanted(call.function))])
}

/// The function's name, with `std::` before it.
fn name_range(code: &Code<'_, '_>, call: &Call) -> Range<usize> {
    let at = call.at;
    let colons = at >= 2 && code.text(at - 1) == ":" && code.text(at - 2) == ":";
    let first = match colons {
        true if at >= 3 && code.text(at - 3) == "std" => at - 3,
        true => at - 2,
        false => at,
    };
    code.range(first).start..code.range(at).end
}

/// `aligned_alloc(64, ..)` in place of `malloc(..)`; the size is rounded where it may be no multiple.
fn aligned_alloc(
    goal: &Goal<'_>,
    code: &Code<'_, '_>,
    call: &Call,
    size: &Range<usize>,
) -> Vec<(Range<usize>, String)> {
    let n = goal.bytes;
    let single = (size.start..size.end).filter(|&i| code.text(i) == "sizeof").count() == 1;
    let sum = operators(code, size).iter().any(|o| *o != "*");
    let (from, to) = (code.range(size.start).start, code.range(size.end - 1).end);
    let mut out = vec![(name_range(code, call), "aligned_alloc".to_string())];
    if goal.whole && single && !sum {
        out.push((from..from, format!("{n}, ")));
        return out;
    }
    out.push((from..from, format!("{n}, (")));
    out.push((to..to, format!(" + {}) / {n} * {n}", n - 1)));
    out
}

/// The size is made of numbers and `sizeof`: it does not wrap.
fn is_constant(code: &Code<'_, '_>, size: &Range<usize>) -> bool {
    operators(code, size).iter().all(|o| matches!(*o, "*" | "+"))
}

/// Tokens of a size beside its `sizeof`s, plain numbers and parentheses.
fn operators<'a>(code: &Code<'_, 'a>, size: &Range<usize>) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut i = size.start;
    while i < size.end {
        let text = code.text(i);
        match text {
            "sizeof" => i = types::operand(code, i).map_or(size.end, |o| o.end).max(i + 1),
            _ => {
                let plain = matches!(text, "(" | ")") || text.chars().all(|c| c.is_ascii_digit());
                out.extend((!plain).then_some(text));
                i += 1;
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "alloc_tests.rs"]
mod tests;
