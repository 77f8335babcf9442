//! Many names, searched for at once: a lock is a member of thousands of a kernel's structs.

use aho_corasick::{AhoCorasick, Input};

/// Places of `word` in `text`, also inside of other words; none of an empty one.
pub(super) fn places_of<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    memchr::memmem::find_iter(text.as_bytes(), word.as_bytes()).filter(|_| !word.is_empty())
}

/// Whether the word is one of the sorted names.
pub(super) fn is_one_of(names: &[String], word: &str) -> bool {
    names.binary_search_by(|n| n.as_str().cmp(word)).is_ok()
}

/// Names that are looked for as whole words.
#[derive(Debug)]
pub(super) struct Names {
    /// `None` for no name, or for more than can be searched at once.
    automaton: Option<AhoCorasick>,
}

impl Names {
    pub(super) fn new<'n>(names: impl IntoIterator<Item = &'n String>) -> Names {
        let mut names = names.into_iter().filter(|n| !n.is_empty()).peekable();
        let automaton = names.peek().is_some().then(|| AhoCorasick::new(names).ok()).flatten();
        Names { automaton }
    }

    /// Bytes of every one of them in `text` that is a word of its own.
    pub(super) fn places<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, usize)> + 't {
        let all = self.automaton.iter().filter_map(|a| a.try_find_overlapping_iter(Input::new(text)).ok());
        all.flatten().map(|m| (m.start(), m.end())).filter(|&(from, to)| {
            let part =
                |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80);
            let bytes = text.as_bytes();
            !part(from.checked_sub(1).and_then(|at| bytes.get(at))) && !part(bytes.get(to))
        })
    }

    pub(super) fn are_in(&self, text: &str) -> bool {
        self.places(text).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_alone() {
        let names = Names::new(&["page".to_string(), "page_pool".to_string(), String::new()]);
        let text = "page *my_page, pages; struct page_pool p[page];";
        let found: Vec<&str> = names.places(text).map(|(from, to)| &text[from..to]).collect();
        assert_eq!(found, ["page", "page_pool", "page"]);
        assert!(!Names::new(&[]).are_in("page"));
    }
}
