//! Templates that look at the size, the bytes or the members of what they are given.

use super::body::Source;
use super::bytes::keeps;
use super::objects::Objects;
use super::scan::Code;

/// Tokens of one template that are looked at.
const TEMPLATE_TOKENS_MAX: usize = 600;

/// Tokens of the parameters of one template.
const PARAMETER_TOKENS_MAX: usize = 80;

/// A template that looks at the layout of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curious {
    name: String,
    /// What it does, as part of a sentence.
    how: &'static str,
}

/// Every such template of `files`.
pub(super) fn curious(files: &[(&str, &str)]) -> Vec<Curious> {
    let mut out = Vec::new();
    for (_, text) in files.iter().filter(|f| has_templates(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        out.extend(code.places("template").iter().filter_map(|&i| template(&code, i)));
    }
    out
}

/// `template <`, as far as a glance tells.
fn has_templates(text: &str) -> bool {
    text.match_indices("template").any(|(at, word)| text[at + word.len()..].trim_start().starts_with('<'))
}

/// The first place where an object, or the type itself, is given to such a template.
pub(super) fn in_file(objects: &Objects<'_, '_>, curious: &[Curious]) -> Option<(usize, String)> {
    curious.iter().find_map(|c| {
        let mut places = objects.code.places(&c.name).iter().filter(|&&i| given(objects, i));
        places.next().map(|&i| (i, format!("{} {} what it is given", c.name, c.how)))
    })
}

/// The template at `i` is given the type (`f<S>`) or an object of it (`f(s)`).
fn given(objects: &Objects<'_, '_>, i: usize) -> bool {
    if objects.text(i + 1) == "<" {
        return objects.names_type(i + 2, (i + 2..i + 12).find(|&j| objects.text(j) == ">").unwrap_or(i + 2));
    }
    objects.text(i + 1) == "("
        && objects.arguments(i + 1).iter().any(|&(from, to)| (from..to).any(|j| objects.is_object(j)))
}

/// Name of the template at `i`, and what it does with its parameters' layout.
fn template(code: &Code<'_, '_>, i: usize) -> Option<Curious> {
    let close = code.matching(i + 1, ["<", ">"], PARAMETER_TOKENS_MAX)?;
    let parameters: Vec<&str> = (i + 2..close)
        .filter(|&j| matches!(code.text(j - 1), "typename" | "class" | "."))
        .map(|j| code.text(j))
        .collect();
    let end = end_of(code, close + 1)?;
    let name = (close + 1..end).find(|&j| {
        code.is_word(j)
            && (code.text(j + 1) == "("
                || matches!(code.text(j - 1), "struct" | "class")
                || code.text(j + 1) == "=")
    })?;
    let how = (name..end).find_map(|j| looks(code, j, &parameters))?;
    Some(Curious { name: code.text(name).to_string(), how })
}

fn looks(code: &Code<'_, '_>, j: usize, parameters: &[&str]) -> Option<&'static str> {
    let generic = |word: &str, at: usize| {
        parameters.contains(&word)
            || code.variable(word, at).is_some_and(|d| parameters.contains(&code.text(d.ty)))
    };
    match code.text(j) {
        "sizeof" => {
            let close = code.closing(j + 1).unwrap_or(j + 2);
            let measures = (j + 1..=close).any(|k| code.is_word(k) && generic(code.text(k), k));
            let call =
                (j.saturating_sub(40)..j).rev().take_while(|&k| !matches!(code.text(k), ";" | "{" | "}"));
            let kept = call.filter(|&k| code.is_word(k)).any(|k| keeps(code.text(k)));
            (measures && !kept).then_some("counts on the size of")
        }
        "reinterpret_cast" | "bit_cast" | "as_bytes" => {
            let (_, end) = code.statement(j);
            (j..end).any(|k| code.is_word(k) && generic(code.text(k), k)).then_some("looks at the bytes of")
        }
        // `requires { T{1}; }`, `decltype(T{1, 2})`: what compiles decides.
        "requires" | "decltype" => (j..j + 30)
            .take_while(|&k| code.text(k) != ";")
            .any(|k| parameters.contains(&code.text(k)) && code.text(k + 1) == "{" && code.text(k + 2) != "}")
            .then_some("asks for the first members of"),
        _ => None,
    }
}

/// One past the `}` or at the `;` that ends the template.
fn end_of(code: &Code<'_, '_>, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in from..code.len().min(from + TEMPLATE_TOKENS_MAX) {
        match code.text(i) {
            "{" => depth += 1,
            "}" if depth == 1 && code.text(i + 1) != ";" => return Some(i + 1),
            "}" => depth = depth.checked_sub(1)?,
            ";" if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}
