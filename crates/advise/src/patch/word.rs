//! How a project writes the alignment of a member to a cache line, as its file shows it.

use super::body::{Source, is_keyword};
use super::lex::Kind;

/// Text of an alignment and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What is written.
    pub text: String,
    /// Behind the declarator; else before the declaration.
    pub behind: bool,
}

/// The file's own word for an alignment to `bytes`, if it uses one: `____cacheline_aligned_in_smp`, `CACHE_ALIGNED`,
/// `AE_ALIGN(64)`, `alignas(std::hardware_destructive_interference_size)`. What it stands for is for the compiler to
/// say: the offsets are verified.
pub fn of_file(source: &Source<'_>, bytes: u64) -> Option<Word> {
    let ident = |i: &usize| source.tokens[*i].kind == Kind::Ident;
    (0..source.tokens.len()).filter(ident).find_map(|i| word_at(source, i, bytes))
}

fn word_at(source: &Source<'_>, i: usize, bytes: u64) -> Option<Word> {
    let name = source.at(i);
    let next = source.code_from(i + 1);
    let end = source.group_end(next).filter(|_| source.at(next) == "(");
    if bytes == 64 && matches!(name, "alignas" | "_Alignas") {
        let close = end? - 1;
        let inside = &source.text[source.tokens[next].end..source.tokens[close].start];
        let interference = inside.trim().ends_with("hardware_destructive_interference_size");
        return interference.then(|| Word { text: format!("{name}({})", inside.trim()), behind: false });
    }
    let lower = name.to_lowercase();
    let aligns = lower.contains("align") && !is_keyword(name) && !lower.contains("alloc");
    if end.is_some() && name == "AE_ALIGN" {
        return Some(Word { text: format!("{name}({bytes})"), behind: false });
    }
    let cache = lower.contains("cache") && lower.ends_with("aligned") || lower.ends_with("aligned_in_smp");
    if bytes != 64 || !aligns || !cache || end.is_some() {
        return None;
    }
    // `spinlock_t lock CACHE_ALIGNED;` or `CACHE_ALIGNED spinlock_t lock;`
    Some(Word { text: name.into(), behind: matches!(source.at(next), ";" | "=" | "," | "{") })
}
