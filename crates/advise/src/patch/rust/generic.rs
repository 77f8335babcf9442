//! Generic functions and macros that look at the bytes of what they are given.

use super::item::Source;
use super::uses::STEPS;

/// What reads or makes a value of bytes.
const READS: [&str; 6] = [
    "from_raw_parts",
    "from_raw_parts_mut",
    "read_unaligned",
    "write_unaligned",
    "transmute",
    "transmute_copy",
];

/// What sees all bytes of what a macro is given.
const ALL: [&str; 7] =
    ["as_ptr", "as_mut_ptr", "align_to", "align_to_mut", "byte_add", "byte_offset", "size_of_val"];

/// Tokens of one function or macro that are looked at.
const TOKENS_MAX: usize = 2000;

/// One that does so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curious {
    name: String,
    kind: Kind,
    /// It sees what follows the fields, too.
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Macro,
    /// A trait of every type, which asks for its size.
    Trait,
}

/// Those of all `sources`.
pub(super) fn curious(sources: &[Source<'_>]) -> Vec<Curious> {
    let mut out = Vec::new();
    let may_have =
        |t: &str| t.contains("macro_rules!") || t.contains("size_of") || READS.iter().any(|r| t.contains(r));
    for s in sources.iter().filter(|s| may_have(s.text)) {
        for i in 0..s.tokens.len() {
            let found = match s.at(i) {
                "fn" => function(s, i),
                "macro_rules" => macro_of_bytes(s, i),
                "impl" => trait_of_all(s, i),
                _ => None,
            };
            out.extend(found);
        }
    }
    for c in out.iter_mut().filter(|c| c.kind == Kind::Function) {
        // One of several functions of that name says nothing.
        let named =
            |s: &Source<'_>, i: usize| s.at(i) == "fn" && s.at(i + 1) == c.name && function(s, i).is_none();
        let bodies = |s: &Source<'_>| s.text.contains(&c.name) && (0..s.tokens.len()).any(|i| named(s, i));
        c.all &= !sources.iter().any(bodies);
    }
    out
}

/// `fn words<T>(t: &T) -> &[u64] { from_raw_parts(.., size_of::<T>() / 8) }`
fn function(s: &Source<'_>, i: usize) -> Option<Curious> {
    let name = (s.at(i + 2) == "<").then(|| s.at(i + 1))?;
    let open = (i..(i + TOKENS_MAX).min(s.tokens.len())).find(|&j| matches!(s.at(j), "{" | ";"))?;
    let close = s.closing(open).filter(|_| s.at(open) == "{")?;
    let has = |words: &[&str]| (open..close).any(|j| words.contains(&s.at(j)));
    let counts = has(&["size_of", "size_of_val", "transmute", "transmute_copy"]);
    // A slice of its own type is no look at bytes.
    let all = has(&READS[2..]);
    (has(&READS) && counts).then(|| Curious { name: name.to_string(), kind: Kind::Function, all })
}

/// `macro_rules! as_array { .. => { .. as *const Self as *const [f32; 3] .. } }`
fn macro_of_bytes(s: &Source<'_>, i: usize) -> Option<Curious> {
    let open = (i..i + 5).find(|&j| matches!(s.at(j), "{" | "("))?;
    let close = s.closing(open)?;
    let pointer = |j: usize| s.at(j) == "as" && s.at(j + 1) == "*" && matches!(s.at(j + 2), "const" | "mut");
    let reads = |j: usize| pointer(j) && s.at(j + 3) != "Self" || READS.contains(&s.at(j));
    let goes_on = |j: usize| s.at(j) == "." && STEPS.contains(&s.at(j + 1));
    let all = (open..close).any(|j| READS.contains(&s.at(j)) || ALL.contains(&s.at(j)) || goes_on(j));
    let cast = |j: usize| s.at(j) == "cast" && s.at(j + 1) == ":";
    let seen = (open..close).any(|j| reads(j) || ALL.contains(&s.at(j)) || cast(j));
    seen.then(|| Curious { name: s.at(open - 1).to_string(), kind: Kind::Macro, all })
}

/// `impl<T> Store for T { const INLINE: bool = size_of::<T>() <= 16; }`
fn trait_of_all(s: &Source<'_>, i: usize) -> Option<Curious> {
    let parameter = (s.at(i + 1) == "<").then(|| s.at(i + 2))?;
    let open = (i..i + 40).find(|&j| matches!(s.at(j), "{" | ";"))?;
    let word = (i..open).find(|&j| s.at(j) == "for" && s.at(j + 1) == parameter)?;
    let close = s.closing(open)?;
    let asks = (open..close).any(|j| s.at(j) == "size_of" && (j..j + 6).any(|k| s.at(k) == parameter));
    asks.then(|| Curious { name: s.at(word - 1).to_string(), kind: Kind::Trait, all: true })
}

/// `<Q as Store>` at the `as`, where every type's `Store` asks for its size.
pub(super) fn as_trait(s: &Source<'_>, i: usize, known: &[Curious]) -> Option<String> {
    let one = known.iter().find(|c| c.kind == Kind::Trait && c.name == s.at(i + 1))?;
    Some(format!("{} counts on its size", one.name))
}

/// The function or macro at `i` is one of `known`, of those that see `all` where that is asked. What it is given ends
/// at the token that is returned.
pub(super) fn use_at(s: &Source<'_>, i: usize, known: &[Curious], all: bool) -> Option<(String, usize)> {
    let (kind, open) = match s.at(i + 1) {
        "!" => (Kind::Macro, i + 2),
        "(" => (Kind::Function, i + 1),
        // `parse::<P>(b)`
        ":" if s.at(i + 3) == "<" => (Kind::Function, (i..i + 24).find(|&j| s.at(j) == "(")?),
        _ => return None,
    };
    let defined = s.at(i.wrapping_sub(1)) == "fn";
    let one = known.iter().find(|c| c.kind == kind && c.name == s.at(i) && (c.all || !all) && !defined)?;
    Some((format!("{} looks at the bytes of what it is given", one.name), s.closing(open)?))
}
