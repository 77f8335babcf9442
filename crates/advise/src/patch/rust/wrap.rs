//! A field on cache lines of its own: a type with an alignment around the field's type.

use super::item::{Field, Item, Source};
use super::{Changes, refused};
use crate::edit::Edit;
use crate::patch::Refusal;

/// Bytes to which `CachePadded` aligns on x86-64: a pair of lines, which the prefetcher fetches together.
pub const PADDED_BYTES: u64 = 128;

/// Derives of the struct that the type around a field needs, too.
const DERIVES: [&str; 8] = ["Default", "Clone", "Copy", "PartialEq", "Eq", "PartialOrd", "Ord", "Hash"];

/// What a field is wrapped in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// `CachePadded` by its path in the program, because the crate depends on it.
    Padded(String),
    /// A type that the patch adds, by its name without the bytes: one of `OWN`.
    Own(&'static str),
}

/// Names of the type that a patch adds, the bytes behind them; the first that nothing else has is taken.
const OWN: [&str; 3] = ["CacheLine", "OwnLine", "AlignedLine"];

/// Something of that name in the text is not the type that a patch adds.
fn is_taken(text: &str, name: &str) -> bool {
    text.contains(name) && {
        let s = Source::new(text);
        let own = (0..s.tokens.len()).any(|i| is_own(&s, i, name));
        (0..s.tokens.len()).filter(|i| s.at(*i) == name).any(|i| {
            let before = s.at(i.wrapping_sub(1));
            let item =
                matches!(before, "struct" | "enum" | "union" | "type" | "trait" | "as" | "const" | "mod");
            let defined = item && !is_own(&s, i - 1, name);
            // Brought in from elsewhere.
            let used = !own
                && (0..i).rev().find(|j| matches!(s.at(*j), ";" | "}" | "use")).map(|j| s.at(j))
                    == Some("use");
            defined || used
        })
    }
}

/// `struct CacheLine64<T>(pub T);`
fn is_own(s: &Source<'_>, i: usize, name: &str) -> bool {
    let words = ["struct", name, "<", "T", ">", "("];
    let value = i + words.len() + usize::from(s.at(i + words.len()) == "pub");
    words.iter().zip(i..).all(|(word, j)| s.at(j) == *word) && s.at(value) == "T" && s.at(value + 1) == ")"
}

impl Wrapper {
    /// A type of the patch's own, under a name that nothing in these texts has for these alignments.
    pub fn own(texts: &[&str], edits: &[Edit]) -> Wrapper {
        let bytes = |e: &Edit| if let Edit::Align { bytes, .. } = e { Some(*bytes) } else { None };
        let taken = |own: &&&str| {
            let mut names = edits.iter().filter_map(bytes).map(|n| format!("{own}{n}"));
            names.any(|name| texts.iter().any(|t| is_taken(t, &name)))
        };
        Wrapper::Own(OWN.iter().find(|own| !taken(own)).unwrap_or(&OWN[0]))
    }

    /// The patch adds the type.
    pub fn is_own(&self) -> bool {
        matches!(self, Wrapper::Own(_))
    }

    /// What a reviewer should know.
    pub(super) fn note(&self, field: &str) -> String {
        match self {
            Wrapper::Padded(path) => {
                format!("{field} is a {path} now: {PADDED_BYTES} bytes, read through Deref")
            }
            Wrapper::Own(_) => {
                format!(
                    "{field} has a type with an alignment around it now, read through Deref; with crossbeam-utils \
                         it would be a CachePadded"
                )
            }
        }
    }
}

/// The field's type and its initialisers in this text, wrapped; the type itself where it is ours and not there yet.
pub(super) fn wrapped(
    s: &Source<'_>,
    item: &Item,
    field: usize,
    bytes: u64,
    wrapper: &Wrapper,
) -> Result<Changes, Refusal> {
    let f = &item.fields[field];
    let reprs = item.words(s, "repr");
    if reprs.iter().any(|w| matches!(w.1, "packed" | "transparent")) {
        return Err(refused(&item.name, "repr(packed) and repr(transparent) allow no aligned field"));
    }
    let (ty, value) = match wrapper {
        Wrapper::Padded(path) => (path.clone(), format!("{path}::new")),
        Wrapper::Own(name) => (format!("{name}{bytes}"), format!("{name}{bytes}")),
    };
    let (start, end) = (s.start(f.ty.0), s.end(f.ty.1 - 1));
    if (f.ty.0..f.ty.1).any(|t| is_line(s.at(t))) {
        return Err(refused(&item.name, &format!("{} has lines of its own already", f.name)));
    }
    if item.fields.iter().filter(|other| other.name == f.name).count() > 1 {
        let why = format!("{} is declared several times, under conditions", f.name);
        return Err(refused(&item.name, &why));
    }
    let mut out = vec![(start..end, format!("{ty}<{}>", &s.text[start..end]))];
    initialisers(s, item, f, &value, &mut out);
    let known = (0..s.tokens.len()).any(|i| is_own(s, i, &ty));
    if wrapper.is_own() && !known {
        let behind = s.end(item.braces.1);
        let (_, indent) = s.line_start(s.start(item.first));
        out.push((behind..behind, definition(s, item, &ty, bytes, indent)));
    }
    Ok(out)
}

/// A type around the field gives it lines already.
fn is_line(word: &str) -> bool {
    let numbered = |own: &str| word.strip_prefix(own).is_some_and(|n| n.parse::<u64>().is_ok());
    word == "CachePadded" || word.starts_with(OWN[0]) || OWN.iter().any(|own| numbered(own))
}

/// `Name { field: value }` and `Self { field }` become `field: Wrapper(value)`. Patterns stay.
fn initialisers(s: &Source<'_>, item: &Item, f: &Field, value: &str, out: &mut Changes) {
    let own = impls(s, &item.name);
    for i in 0..s.tokens.len() {
        let named = s.at(i) == item.name || (s.at(i) == "Self" && own.iter().any(|r| r.contains(&i)));
        let before = if i == 0 { "" } else { s.at(i - 1) };
        let heads =
            matches!(before, "struct" | "impl" | "for" | "trait" | "enum" | "union" | "let" | "&" | "dyn");
        // `-> Name {` is a function's body.
        let result = before == ">" && i > 1 && s.at(i - 2) == "-";
        if !named || heads && before != "&" || result {
            continue;
        }
        let mut open = i + 1;
        if s.at(open) == ":" && s.at(open + 2) == "<" {
            open = s.behind_generics(open + 2).unwrap_or(open);
        }
        let Some(close) = Some(open).filter(|o| s.at(*o) == "{").and_then(|o| s.closing(o)) else { continue };
        let after = s.at(close + 1);
        let pattern = after == "=" || after == "|" || after == "if";
        if !pattern {
            in_literal(s, open, close, f, value, out);
        }
    }
}

/// The one entry for the field between two braces.
fn in_literal(s: &Source<'_>, open: usize, close: usize, f: &Field, value: &str, out: &mut Changes) {
    let mut i = open + 1;
    while i < close {
        let end = entry_end(s, i, close);
        if s.at(i).trim_start_matches("r#") == f.name {
            let name = s.at(i);
            if i + 1 == end {
                out.push((s.start(i)..s.end(i), format!("{name}: {value}({name})")));
            } else if s.at(i + 1) == ":" && s.at(i + 2) != ":" {
                let (start, stop) = (s.start(i + 2), s.end(end - 1));
                out.push((start..stop, format!("{value}({})", &s.text[start..stop])));
            }
        }
        i = end + 1;
    }
}

fn entry_end(s: &Source<'_>, first: usize, close: usize) -> usize {
    let mut i = first;
    while i < close && s.at(i) != "," {
        i = match s.at(i) {
            "(" | "[" | "{" => s.closing(i).map_or(close, |c| c + 1),
            // Commas of `::<A, B>`.
            "<" if s.at(i.wrapping_sub(1)) == ":" => s.behind_generics(i).unwrap_or(i + 1),
            _ => i + 1,
        };
    }
    i.min(close)
}

/// What is printed of a field is as it was without the type around it.
fn shown(name: &str, how: &str) -> String {
    format!(
        "\n\nimpl<T: core::fmt::{how}> core::fmt::{how} for {name}<T> {{\n    fn fmt(&self, f: &mut \
         core::fmt::Formatter<'_>) -> core::fmt::Result {{\n        core::fmt::{how}::fmt(&self.0, f)\n    }}\n}}"
    )
}

/// Tokens of the bodies of `impl .. Name .. {`.
fn impls(s: &Source<'_>, name: &str) -> Vec<std::ops::Range<usize>> {
    let heads = (0..s.tokens.len()).filter(|i| s.at(*i) == "impl");
    let body = |i: usize| {
        let open = (i..s.tokens.len()).find(|t| matches!(s.at(*t), "{" | ";"))?;
        let subject = (i..open).rev().find(|t| s.at(*t) == "for").unwrap_or(i);
        let own = s.at(open) == "{" && (subject..open).any(|t| s.at(t) == name);
        own.then_some(())?;
        Some(open..s.closing(open)?)
    };
    heads.filter_map(body).collect()
}

/// The type around the field, behind the struct.
fn definition(s: &Source<'_>, item: &Item, name: &str, bytes: u64, indent: &str) -> String {
    let derives = item.words(s, "derive");
    let kept: Vec<&str> = DERIVES.into_iter().filter(|d| derives.iter().any(|w| w.1 == *d)).collect();
    let derive = if kept.is_empty() { String::new() } else { format!("#[derive({})]\n", kept.join(", ")) };
    let public = if item.public { "pub " } else { "" };
    let text = format!(
        "\n\n/// Has cache lines of its own.\n{derive}#[repr(align({bytes}))]\n{public}struct {name}<T>({public}T);\n\n\
         impl<T> core::ops::Deref for {name}<T> {{\n    type Target = T;\n\n    fn deref(&self) -> &T {{\n        \
         &self.0\n    }}\n}}\n\nimpl<T> core::ops::DerefMut for {name}<T> {{\n    fn deref_mut(&mut self) -> &mut T \
         {{\n        &mut self.0\n    }}\n}}{}{}",
        shown(name, "Debug"),
        shown(name, "Display")
    );
    let lines = text.split('\n').map(|l| if l.is_empty() { String::new() } else { format!("{indent}{l}") });
    lines.collect::<Vec<_>>().join("\n")
}
