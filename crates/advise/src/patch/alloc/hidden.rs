//! Memory for a type that no rewriting reaches: macros that allocate what they are given, and placement `new`.

use super::{Goal, HEAP, refusal};
use crate::patch::Refusal;
use crate::patch::body::Source;
use crate::patch::lex::Kind;
use crate::patch::scan::Code;

/// Refuses with the first such place.
pub(super) fn check(goal: &Goal<'_>, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let macros: Vec<String> = files.iter().flat_map(|f| allocating(f.1)).collect();
    let mentions = |t: &str| goal.types.iter().any(|n| t.contains(n.as_str()));
    for (path, text) in files.iter().filter(|f| mentions(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        if let Some((line, why)) = (0..code.len()).find_map(|i| at(&code, i, goal, &macros)) {
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
