//! Memory for a type that no rewriting reaches: macros that allocate what they are given, and placement `new`.

use super::elsewhere::Wrappers;
use super::types::Types;
use super::{Goal, HEAP, refusal};
use crate::patch::Refusal;
use crate::patch::body::Source;
use crate::patch::lex::Kind;
use crate::patch::scan::Code;

/// Templates of the standard library that allocate what they hold.
const HOLDERS: [&str; 18] = [
    "vector",
    "deque",
    "list",
    "forward_list",
    "queue",
    "stack",
    "set",
    "multiset",
    "map",
    "multimap",
    "unordered_set",
    "unordered_map",
    "unordered_multiset",
    "unordered_multimap",
    "make_unique",
    "make_shared",
    "allocator",
    "promise",
];

/// File and line of the first place where C++ allocates one of the types: `new T`, or a container of them. Before C++17
/// neither aligns beyond what the heap gives.
pub fn by_new<'f>(types: &[String], files: &[(&'f str, &str)]) -> Option<(&'f str, u32)> {
    let mentions = |t: &str| types.iter().any(|n| t.contains(n.as_str()));
    files.iter().filter(|f| mentions(f.1)).find_map(|(path, text)| {
        let source = Source::new(text);
        let code = Code::new(&source);
        let ours = |i: &usize| types.iter().any(|t| t == code.text(*i));
        let found = (1..code.len()).filter(ours).find(|&i| is_new(&code, i))?;
        Some((*path, code.line(found)))
    })
}

/// Whether the type's name at `i` stands behind `new`, or is what a container holds.
fn is_new(code: &Code<'_, '_>, i: usize) -> bool {
    let mut at = i - 1;
    // Over `app::` and `struct`, and over the key of a map.
    let passed = |t: &str| matches!(t, ":" | "," | "struct" | "class" | "const");
    let name = |j: usize| code.is_word(j) && !HOLDERS.contains(&code.text(j)) && code.text(j) != "new";
    while at > 0 && (passed(code.text(at)) || name(at)) {
        at -= 1;
    }
    match code.text(at) {
        "new" => !(at + 1..i).any(|j| code.text(j) == ","),
        "<" => HOLDERS.contains(&code.text(at - 1)),
        _ => false,
    }
}

/// Refuses with the first such place.
pub(super) fn check(goal: &Goal<'_>, types: &Types, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let macros: Vec<String> = files.iter().flat_map(|f| allocating(f.1)).collect();
    let wrappers = Wrappers::of(files, types);
    let mentions = |t: &str| goal.types.iter().any(|n| t.contains(n.as_str()));
    for (path, text) in files.iter().filter(|f| mentions(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        let elsewhere = |i: usize| Some((code.line(i), wrappers.at(&code, i, goal)?));
        let found = |i: usize| at(&code, i, goal, &macros).or_else(|| elsewhere(i));
        if let Some((line, why)) = (0..code.len()).find_map(found) {
            return Err(refusal(path, line, why));
        }
    }
    Ok(())
}

/// Names of function-like macros that call an allocator with a `sizeof`.
fn allocating(text: &str) -> Vec<String> {
    if !(text.contains("#define") && text.contains("sizeof")) {
        return Vec::new();
    }
    let source = Source::new(text);
    let directives = source.tokens.iter().filter(|t| t.kind == Kind::Directive);
    let name = |t: &crate::patch::lex::Token| {
        let body = t.text(text).trim_start_matches('#').trim_start().strip_prefix("define")?.trim_start();
        let (name, rest) = body.split_once('(')?;
        let allocates = rest.contains("sizeof") && HEAP.iter().any(|h| rest.contains(h));
        (allocates && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then(|| name.to_string())
    };
    directives.filter_map(name).collect()
}

/// Line and reason of the place at `i`.
fn at(code: &Code<'_, '_>, i: usize, goal: &Goal<'_>, macros: &[String]) -> Option<(u32, String)> {
    if code.text(i + 1) != "(" {
        return None;
    }
    let close = code.closing(i + 1)?;
    let ours = |j: usize| goal.types.iter().any(|t| t == code.text(j));
    let word = code.text(i);
    if macros.iter().any(|m| m == word) && (i + 2..close).any(ours) {
        return Some((code.line(i), format!("the macro {word} allocates it")));
    }
    // `new (std::align_val_t(64)) T` and `new (std::nothrow) T` ask the allocator.
    let asks = (i + 2..close).any(|j| matches!(code.text(j), "nothrow" | "align_val_t"));
    let behind = (close + 1..close + 6).take_while(|&j| code.is_word(j) || code.text(j) == ":");
    (word == "new" && !asks && behind.into_iter().any(ours))
        .then(|| (code.line(i), "placement new puts it into memory whose alignment is not seen".into()))
}

#[cfg(test)]
mod tests {
    use super::by_new;

    #[test]
    fn places_where_cpp_allocates() {
        let line = |text: &str| by_new(&["Slot".to_string()], &[("a.cc", text)]).map(|f| f.1);
        for text in [
            "auto p = new Slot();",
            "p = new app::Slot[4];",
            "std::vector<Slot> v;",
            "std::map<int, struct Slot> m;",
            "auto p = std::make_unique<app::Slot[]>(4);",
        ] {
            assert_eq!(line(text), Some(1), "{text}");
        }
        for text in [
            "Slot s;",
            "std::array<Slot, 4> a;",
            "std::vector<std::unique_ptr<Slot>> v;",
            "int n = sizeof(Slot);",
            "f(new Other, Slot());",
            "a < Slot::max;",
        ] {
            assert_eq!(line(text), None, "{text}");
        }
    }
}
