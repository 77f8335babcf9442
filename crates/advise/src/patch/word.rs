//! How a project writes the alignment of a member to a cache line, as its file shows it.

use super::AlignStyle;
use super::body::{Source, is_keyword, open_conditions};
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
/// `AE_ALIGN(64)`, `alignas(std::hardware_destructive_interference_size)`, or a macro that it defines as such. One that
/// the file defines behind token `at` is none there. What it stands for is for the compiler to say: the offsets are
/// verified.
pub fn of_file(source: &Source<'_>, bytes: u64, at: usize) -> Option<Word> {
    let ident = |i: &usize| source.tokens[*i].kind == Kind::Ident;
    let own = macros(source);
    let known = |w: &str| {
        let mut places = own.iter().filter(|m| m.name == w).peekable();
        places.peek().is_none() || places.any(|m| m.at < at)
    };
    let meant =
        |w: &str| own.iter().find(|m| m.name == w && m.at < at && !m.inside && m.bytes == Some(bytes));
    let words = || (0..source.tokens.len()).filter(ident).filter(|&i| known(source.at(i)));
    words().find_map(|i| word_at(source, i, bytes)).or_else(|| {
        let used = words().find(|&i| meant(source.at(i)).is_some())?;
        let behind = meant(source.at(used))?.behind;
        Some(Word { text: source.at(used).into(), behind })
    })
}

/// The file's own word for an alignment to `bytes` (at token `at`), else that of its style.
pub fn of(source: &Source<'_>, style: AlignStyle, bytes: u64, at: usize) -> Word {
    of_file(source, bytes, at).unwrap_or_else(|| style.word(bytes))
}

/// `declaration` with that word.
pub fn aligned(source: &Source<'_>, style: AlignStyle, bytes: u64, at: usize, declaration: &str) -> String {
    let word = of(source, style, bytes, at);
    match word.behind {
        true => format!("{declaration} {};", word.text),
        false => format!("{} {declaration};", word.text),
    }
}

impl AlignStyle {
    pub(super) fn word(self, bytes: u64) -> Word {
        match self {
            AlignStyle::Attribute => {
                Word { text: format!("__attribute__((aligned({bytes})))"), behind: true }
            }
            AlignStyle::C11 => Word { text: format!("_Alignas({bytes})"), behind: false },
            AlignStyle::Cpp => Word { text: format!("alignas({bytes})"), behind: false },
        }
    }

    /// The same where `_Alignas` may not stand.
    pub(super) fn but_c11(self) -> AlignStyle {
        if self == AlignStyle::C11 { AlignStyle::Attribute } else { self }
    }
}

/// A macro without parameters that the file defines.
struct Macro<'a> {
    name: &'a str,
    /// Token of its directive.
    at: usize,
    /// It stands inside an `#if` that is no guard of the file.
    inside: bool,
    /// What it aligns to, if it does nothing else.
    bytes: Option<u64>,
    /// It stands behind a declarator.
    behind: bool,
}

fn macros<'a>(source: &Source<'a>) -> Vec<Macro<'a>> {
    let directives = (0..source.tokens.len()).filter(|&i| source.tokens[i].kind == Kind::Directive);
    let defined: Vec<(usize, &str, &str)> =
        directives.filter_map(|i| definition(source.at(i)).map(|(name, body)| (i, name, body))).collect();
    let number = |text: &str| -> Option<u64> {
        let plain = |t: &str| t.trim().trim_matches(['(', ')']).trim().parse().ok();
        plain(text).or_else(|| plain(defined.iter().find(|d| d.1 == text.trim())?.2))
    };
    let aligned = |(at, name, body): &(usize, &'a str, &str)| {
        let body: String = body.split_whitespace().collect();
        let attribute = body.strip_prefix("__attribute__((aligned(").and_then(|b| b.strip_suffix(")))"));
        let word = body.strip_prefix("_Alignas(").or(body.strip_prefix("alignas("));
        let inside = attribute.or(word.and_then(|w| w.strip_suffix(')')));
        let guarded = open_conditions(source, *at).len() > usize::from(is_guarded(source));
        Macro { name, at: *at, inside: guarded, bytes: inside.and_then(number), behind: attribute.is_some() }
    };
    defined.iter().map(aligned).collect()
}

/// Name and body of `#define NAME body`.
fn definition(directive: &str) -> Option<(&str, &str)> {
    let rest = directive.trim_start_matches('#').trim_start().strip_prefix("define")?.trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, body) = rest.split_at(end);
    (!name.is_empty() && !body.starts_with('(')).then(|| (name, body.trim()))
}

/// The file begins with `#ifndef FILE_H` and `#define FILE_H`.
fn is_guarded(source: &Source<'_>) -> bool {
    let mut directives =
        source.tokens.iter().filter(|t| t.kind == Kind::Directive).map(|t| t.text(source.text));
    let (Some(first), Some(second)) = (directives.next(), directives.next()) else { return false };
    let guard = first.trim_start_matches('#').trim().strip_prefix("ifndef").map(str::trim);
    guard.is_some() && definition(second).map(|d| d.0) == guard
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

#[cfg(test)]
mod tests {
    use super::{Word, of_file};
    use crate::patch::body::Source;

    #[test]
    fn macros_of_the_file() {
        let own = "#define LINE 64\n#define OWN_LINE __attribute__((aligned(LINE)))\nstruct o { int z OWN_LINE; };\n";
        let run = |text: &str, bytes: u64| {
            let source = Source::new(text);
            let at = (0..source.tokens.len()).find(|&i| source.at(i) == "here").unwrap_or(0);
            of_file(&source, bytes, at).map(|Word { text, behind }| (text, behind))
        };
        let own_word = Some(("OWN_LINE".to_string(), true));
        assert_eq!(run(&format!("{own}int here;"), 64), own_word);
        assert_eq!(run(&format!("{own}int here;"), 128), None);
        // Behind the place, or not in every build.
        assert_eq!(run(&format!("int here;\n{own}"), 64), None);
        assert_eq!(run(&format!("#ifdef SMP\n{own}#endif\nint here;"), 64), None);
        assert_eq!(run(&format!("#ifndef A_H\n#define A_H\n{own}int here;\n#endif\n"), 64), own_word);
        let late = "int here;\n#define CACHE_ALIGNED __attribute__((aligned(64)))\nint z CACHE_ALIGNED;\n";
        assert_eq!(run(late, 64), None);
        let elsewhere = Some(("CACHE_ALIGNED".to_string(), true));
        assert_eq!(run("int here;\nint z CACHE_ALIGNED;\n", 64), elsewhere);
    }
}
