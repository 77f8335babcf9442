//! Edits of Rust structs: an alignment of the whole, a field on lines of its own, the order of fields under `repr(C)`.
//!
//! Without `repr(C)` the compiler orders fields as it likes, so that no order in the source holds anything; a type
//! with an alignment of its own holds wherever it is placed. A field gets lines of its own by a type around it, with
//! `Deref`, so that methods of atomics and locks are called as before; what cannot be used so does not compile, and
//! then there is no patch.

mod generic;
mod item;
mod lex;
pub mod order;
pub mod uses;
mod wrap;

use super::{PatchedText, Refusal};
use crate::edit::{Edit, Spot};
use item::{Field, Item, Source, find};
use std::ops::Range;
pub use wrap::{PADDED_BYTES, Wrapper};

/// Derives that read or write the bytes of a value: their order is known outside.
const BYTE_DERIVES: [&str; 9] = [
    "Pod",
    "Zeroable",
    "NoUninit",
    "AnyBitPattern",
    "FromBytes",
    "IntoBytes",
    "AsBytes",
    "FromZeroes",
    "FromZeros",
];

/// Why a Rust struct is not changed.
pub(crate) fn refused(name: &str, why: &str) -> Refusal {
    Refusal::Rust { name: name.into(), why: why.into() }
}

/// Name of a type as its source spells it: `a::b::Slot<u64>` is `Slot`.
pub fn bare(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// `text` defines a struct of that name.
pub fn defines(text: &str, name: &str) -> bool {
    text.contains(bare(name)) && {
        let s = Source::new(text);
        (0..s.tokens.len()).any(|i| s.at(i) == "struct" && s.at(i + 1) == bare(name))
    }
}

/// Why what `text` defines under that name is not patched, where it is no struct.
pub fn no_struct(text: &str, name: &str) -> Option<Refusal> {
    let s = Source::new(text);
    let own = |i: &usize| s.at(i + 1) == bare(name) || (s.at(i + 1) == "mut" && s.at(i + 2) == bare(name));
    let kinds = [
        (
            "static",
            "a static, and statics are not patched: a type with #[repr(align(64))] gives it lines of its own",
        ),
        (
            "enum",
            "an enum, and enums are not patched: by hand #[repr(align(64))] gives its elements lines of their own",
        ),
        ("union", "a union: its members share their bytes"),
    ];
    (0..s.tokens.len()).filter(own).find_map(|i| {
        let (_, why) = kinds.iter().find(|(word, _)| *word == s.at(i))?;
        Some(refused(name, &format!("line {} defines {why}", s.line(s.start(i)))))
    })
}

/// The struct's fields lie in memory in the order of the source: `repr(C)`. `false` where it cannot be found.
pub fn is_ordered(text: &str, name: &str, line: Option<u32>) -> bool {
    let s = Source::new(text);
    find(&s, bare(name), line).is_ok_and(|item| item.words(&s, "repr").iter().any(|w| w.1 == "C"))
}

/// Applies `edits` to the definition of `name` (the one on `line` where there are several) in `text`.
///
/// # Errors
/// What is unclear in the definition, and what such a struct cannot have.
pub fn patch(
    text: &str,
    name: &str,
    line: Option<u32>,
    edits: &[Edit],
    wrapper: &Wrapper,
) -> Result<PatchedText, Refusal> {
    let name = bare(name);
    let mut out = PatchedText { text: text.to_string(), notes: Vec::new(), edits: edits.to_vec() };
    for (n, edit) in edits.iter().enumerate() {
        let s = Source::new(&out.text);
        let item = find(&s, name, line.filter(|_| n == 0))?;
        for_users(&s, &item, edit)?;
        let changes = match edit {
            Edit::Element { bytes } => aligned(&s, &item, *bytes)?,
            Edit::Align { field, bytes } => {
                out.notes.push(wrapper.note(field));
                wrap::wrapped(&s, &item, item.field(field)?, *bytes, wrapper)?
            }
            Edit::Move { field, to } => moved(&s, &item, field, to)?,
            Edit::Swap { a, b } => exchanged(&s, &item, a, b)?,
            _ => return Err(refused(name, &format!("`{edit}` is an edit of C; Rust aligns by types alone"))),
        };
        out.text = splice(&out.text, changes);
    }
    out.notes.dedup();
    Ok(out)
}

/// Builds for users have what changes its place: none of it stands under `cfg(debug_assertions)`.
fn for_users(s: &Source<'_>, item: &Item, edit: &Edit) -> Result<(), Refusal> {
    let changes = |name: &String| match edit {
        Edit::Move { field, .. } | Edit::Align { field, .. } => name == field,
        Edit::Swap { a, b } => name == a || name == b,
        _ => false,
    };
    let debug = |f: &Field| (f.tokens.0..f.ty.0).any(|t| s.at(t) == "debug_assertions");
    match item.fields.iter().find(|f| changes(&f.name) && debug(f)) {
        Some(f) => {
            let why = format!(
                "{} stands under cfg(debug_assertions): a patch there does nothing for the others",
                f.name
            );
            Err(refused(&item.name, &why))
        }
        None => Ok(()),
    }
}

/// Replaces ranges, which do not overlap.
fn splice(text: &str, mut changes: Vec<(Range<usize>, String)>) -> String {
    changes.sort_by_key(|c| std::cmp::Reverse((c.0.start, c.0.end)));
    let mut out = text.to_string();
    for (range, new) in changes {
        out.replace_range(range, &new);
    }
    out
}

type Changes = Vec<(Range<usize>, String)>;

/// `#[repr(align(N))]` above the struct, or a larger N where it has one.
fn aligned(s: &Source<'_>, item: &Item, bytes: u64) -> Result<Changes, Refusal> {
    let words = item.words(s, "repr");
    for word in ["packed", "transparent", "simd"] {
        if words.iter().any(|w| w.1 == word) {
            return Err(refused(&item.name, &format!("repr({word}) allows no alignment")));
        }
    }
    if let Some((at, _)) = words.iter().find(|w| w.1 == "align") {
        let given: Option<u64> = s.at(at + 2).replace('_', "").parse().ok();
        return match given {
            Some(n) if n < bytes => Ok(vec![(s.start(at + 2)..s.end(at + 2), bytes.to_string())]),
            _ => Err(refused(&item.name, "its repr already gives this alignment, or one that is unclear")),
        };
    }
    let first = s.start(item.first);
    let (line, indent) = s.line_start(first);
    let alone = s.text[line..first].trim().is_empty();
    let tail = if alone { format!("\n{indent}") } else { " ".into() };
    Ok(vec![(first..first, format!("#[repr(align({bytes}))]{tail}"))])
}

/// An order of the source counts, and nobody else counts on it.
fn orderly(s: &Source<'_>, item: &Item) -> Result<(), Refusal> {
    if !item.words(s, "repr").iter().any(|w| w.1 == "C") {
        let why = "without #[repr(C)] the compiler orders its fields; an order in the source holds nothing";
        return Err(refused(&item.name, why));
    }
    let derives = item.words(s, "derive");
    if let Some((_, d)) = derives.iter().find(|d| BYTE_DERIVES.contains(&d.1)) {
        return Err(refused(&item.name, &format!("{d} makes its bytes known outside of the program")));
    }
    if passes_to_c(s, &item.name) {
        return Err(refused(&item.name, "functions with C's calling convention take or give it"));
    }
    Ok(())
}

/// An `extern` function or block of the text mentions the type.
fn passes_to_c(s: &Source<'_>, name: &str) -> bool {
    let externs = (0..s.tokens.len()).filter(|i| s.at(*i) == "extern" && s.at(i + 1) != "crate");
    externs.into_iter().any(|i| {
        let open = (i..s.tokens.len()).find(|t| matches!(s.at(*t), "{" | ";")).unwrap_or(i);
        let is_block = open <= i + 2;
        let end = if is_block { s.closing(open).unwrap_or(open) } else { open };
        (i..end).any(|t| s.at(t) == name)
    })
}

/// Bytes of a field with what stands before it since the last one: attributes, comments, the line's blanks.
fn span(s: &Source<'_>, item: &Item, f: &Field) -> Result<Range<usize>, Refusal> {
    let before = if f.tokens.0 == item.braces.0 + 1 { item.braces.0 } else { f.tokens.0 - 1 };
    let after = s.text[s.end(before)..].split('\n').next().unwrap_or("");
    // A comment behind the comma belongs to the field before it.
    let start = s.end(before) + after.len();
    let last = f.tokens.1 - 1;
    let comma = if s.at(f.tokens.1) == "," { f.tokens.1 } else { last };
    let rest = s.text[s.end(comma)..].split('\n').next().unwrap_or("");
    let alone = rest.trim().is_empty() || rest.trim_start().starts_with("//");
    if start > s.start(f.tokens.0) || !alone {
        return Err(Refusal::SharedLine { field: f.name.clone() });
    }
    Ok(start..s.end(comma) + rest.len())
}

/// The field's text, with a comma.
fn with_comma(s: &Source<'_>, f: &Field, span: &Range<usize>) -> String {
    let text = &s.text[span.clone()];
    if s.at(f.tokens.1) == "," {
        return text.to_string();
    }
    let end = s.end(f.tokens.1 - 1) - span.start;
    format!("{},{}", &text[..end], &text[end..])
}

fn moved(s: &Source<'_>, item: &Item, field: &str, to: &Spot) -> Result<Changes, Refusal> {
    orderly(s, item)?;
    let from = item.field(field)?;
    let at = match to {
        Spot::First => 0,
        Spot::Before(o) => item.field(o)?,
        Spot::After(o) => item.field(o)? + 1,
    };
    let mut order: Vec<usize> = (0..item.fields.len()).filter(|i| *i != from).collect();
    order.insert(if at > from { at - 1 } else { at }, from);
    reordered(s, item, &order)
}

fn exchanged(s: &Source<'_>, item: &Item, a: &str, b: &str) -> Result<Changes, Refusal> {
    orderly(s, item)?;
    let mut order: Vec<usize> = (0..item.fields.len()).collect();
    order.swap(item.field(a)?, item.field(b)?);
    reordered(s, item, &order)
}

/// Every place gets the field that comes there; only what changes is written.
fn reordered(s: &Source<'_>, item: &Item, order: &[usize]) -> Result<Changes, Refusal> {
    let mut out = Changes::new();
    let inside = s.end(item.braces.0)..s.start(item.braces.1);
    let commented = ["//", "/*"].iter().any(|c| s.text[inside.clone()].contains(c));
    let own_lines = item.fields.iter().all(|f| span(s, item, f).is_ok());
    if !own_lines && !commented {
        let text = |f: &Field| s.start(f.tokens.0)..s.end(f.tokens.1 - 1);
        let places = order.iter().enumerate().filter(|(place, from)| place != *from);
        out.extend(places.map(|(p, f)| (text(&item.fields[p]), s.text[text(&item.fields[*f])].to_string())));
        return Ok(out);
    }
    for (place, from) in order.iter().enumerate().filter(|(place, from)| place != *from) {
        let (old, new) = (&item.fields[place], &item.fields[*from]);
        let text = with_comma(s, new, &span(s, item, new)?);
        out.push((span(s, item, old)?, text));
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
