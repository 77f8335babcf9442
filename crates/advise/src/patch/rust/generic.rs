//! Generic functions and macros that look at the bytes of what they are given.

use super::item::Source;

/// What reads or makes a value of bytes.
const READS: [&str; 6] = [
    "from_raw_parts",
    "from_raw_parts_mut",
    "read_unaligned",
    "write_unaligned",
    "transmute",
    "transmute_copy",
];

/// Tokens of one function or macro that are looked at.
const TOKENS_MAX: usize = 2000;

/// One that does so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curious {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Macro,
    /// A trait of every type, which asks for its size.
    Trait,
}

/// Those of all `files` (path and text).
pub(super) fn curious(files: &[(&str, &str)]) -> Vec<Curious> {
    let mut out = Vec::new();
    let may_have =
        |t: &str| t.contains("macro_rules!") || t.contains("size_of") || READS.iter().any(|r| t.contains(r));
    for (_, text) in files.iter().filter(|f| may_have(f.1)) {
        let s = Source::new(text);
        for i in 0..s.tokens.len() {
            let found = match s.at(i) {
                "fn" => function(&s, i).map(|name| Curious { name, kind: Kind::Function }),
                "macro_rules" => macro_of_bytes(&s, i).map(|name| Curious { name, kind: Kind::Macro }),
                "impl" => trait_of_all(&s, i).map(|name| Curious { name, kind: Kind::Trait }),
                _ => None,
            };
            out.extend(found);
        }
    }
    out
}

/// `fn words<T>(t: &T) -> &[u64] { from_raw_parts(.., size_of::<T>() / 8) }`
fn function(s: &Source<'_>, i: usize) -> Option<String> {
    let name = (s.at(i + 2) == "<").then(|| s.at(i + 1))?;
    let open = (i..(i + TOKENS_MAX).min(s.tokens.len())).find(|&j| matches!(s.at(j), "{" | ";"))?;
    let close = s.closing(open).filter(|_| s.at(open) == "{")?;
    let has = |words: &[&str]| (open..close).any(|j| words.contains(&s.at(j)));
    let counts = has(&["size_of", "size_of_val", "transmute", "transmute_copy"]);
    (has(&READS) && counts).then(|| name.to_string())
}

/// `macro_rules! as_array { .. => { .. as *const Self as *const [f32; 3] .. } }`
fn macro_of_bytes(s: &Source<'_>, i: usize) -> Option<String> {
    let open = (i..i + 5).find(|&j| matches!(s.at(j), "{" | "("))?;
    let close = s.closing(open)?;
    let pointer = |j: usize| s.at(j) == "as" && s.at(j + 1) == "*" && matches!(s.at(j + 2), "const" | "mut");
    let reads = |j: usize| pointer(j) && s.at(j + 3) != "Self" || READS.contains(&s.at(j));
    (open..close).any(reads).then(|| s.at(open - 1).to_string())
}

/// `impl<T> Store for T { const INLINE: bool = size_of::<T>() <= 16; }`
fn trait_of_all(s: &Source<'_>, i: usize) -> Option<String> {
    let parameter = (s.at(i + 1) == "<").then(|| s.at(i + 2))?;
    let open = (i..i + 40).find(|&j| matches!(s.at(j), "{" | ";"))?;
    let word = (i..open).find(|&j| s.at(j) == "for" && s.at(j + 1) == parameter)?;
    let close = s.closing(open)?;
    let asks = (open..close).any(|j| s.at(j) == "size_of" && (j..j + 6).any(|k| s.at(k) == parameter));
    asks.then(|| s.at(word - 1).to_string())
}

/// `<Q as Store>` at the `as`, where every type's `Store` asks for its size.
pub(super) fn as_trait(s: &Source<'_>, i: usize, known: &[Curious]) -> Option<String> {
    let one = known.iter().find(|c| c.kind == Kind::Trait && c.name == s.at(i + 1))?;
    Some(format!("{} counts on its size", one.name))
}

/// The function or macro at `i` is one of `known`: what it is given ends at the token that is returned.
pub(super) fn use_at(s: &Source<'_>, i: usize, known: &[Curious]) -> Option<(String, usize)> {
    let (kind, open) = match s.at(i + 1) {
        "!" => (Kind::Macro, i + 2),
        "(" => (Kind::Function, i + 1),
        // `parse::<P>(b)`
        ":" if s.at(i + 3) == "<" => (Kind::Function, (i..i + 24).find(|&j| s.at(j) == "(")?),
        _ => return None,
    };
    let defined = s.at(i.wrapping_sub(1)) == "fn";
    let one = known.iter().find(|c| c.kind == kind && c.name == s.at(i) && !defined)?;
    Some((format!("{} looks at the bytes of what it is given", one.name), s.closing(open)?))
}
