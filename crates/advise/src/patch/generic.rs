//! Templates that look at the size, the bytes or the members of what they are given.

use super::Refusal;
use super::body::Source;
use super::bytes::keeps;
use super::held::Held;
use super::init::names_of;
use super::objects::Objects;
use super::scan::Code;

/// Tokens of one template that are looked at.
const TEMPLATE_TOKENS_MAX: usize = 600;

/// Tokens of the parameters of one template.
const PARAMETER_TOKENS_MAX: usize = 80;

/// Refuses when an object of `name`, or the type itself, is given to such a template of `files`.
pub fn check(name: &str, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let mut curious = Vec::new();
    for (_, text) in files.iter().filter(|f| f.1.contains("template")) {
        let source = Source::new(text);
        let code = Code::new(&source);
        curious.extend(
            (0..code.len()).filter(|&i| code.text(i) == "template").filter_map(|i| template(&code, i)),
        );
    }
    if curious.is_empty() {
        return Ok(());
    }
    let names = names_of(name, files);
    let held = Held::of(&names, files);
    for (path, text) in files.iter().filter(|f| curious.iter().any(|c| f.1.contains(c.0.as_str()))) {
        let source = Source::new(text);
        let objects = Objects::new(&source, &names, &held);
        for i in 0..objects.code.len() {
            if let Some((word, how)) =
                curious.iter().find(|c| c.0 == objects.text(i)).filter(|_| given(&objects, i))
            {
                let place = format!("{path}:{}", objects.code.line(i));
                let how = format!("{word} {how} what it is given");
                return Err(Refusal::SeesLayout { name: name.into(), place, how });
            }
        }
    }
    Ok(())
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
fn template(code: &Code<'_, '_>, i: usize) -> Option<(String, &'static str)> {
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
    let how = (name..end).find_map(|j| curious(code, j, &parameters))?;
    Some((code.text(name).to_string(), how))
}

fn curious(code: &Code<'_, '_>, j: usize, parameters: &[&str]) -> Option<&'static str> {
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
