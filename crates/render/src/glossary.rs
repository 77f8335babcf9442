//! Passages of docs/glossary.md: the words of the views explained.

use crate::{Format, Node, Style, View, render};

const GLOSSARY: &str = include_str!("../glossary.md");

/// Topics and their texts, as Markdown.
pub fn passages() -> impl Iterator<Item = (&'static str, &'static str)> {
    GLOSSARY.split("\n## ").skip(1).filter_map(|p| p.split_once('\n'))
}

/// Titles and passages whose words a text uses: the topic itself, or what its passage stresses.
pub fn used_in(text: &str) -> impl Iterator<Item = (String, String)> {
    let text = text.to_lowercase();
    let used = move |words: &str| words.len() > 3 && text.contains(&words.to_lowercase());
    passages().filter_map(move |(topic, passage)| {
        let title = topic.replace('-', " ");
        // emphasis stands between single or double stars
        let passage = passage.trim().replace("**", "*");
        let stressed = passage.split('*').skip(1).step_by(2).filter(|w| !w.contains('\n')).any(&used);
        (used(&title) || stressed).then(|| (title, passage.replace('*', "")))
    })
}

/// The view with the passages whose words it uses, folded at its end: for pages, which have the room.
pub fn explained(view: &View) -> View {
    let text = render(view, Format::Text, Style { colour: false, width: None });
    let help = |(title, text): (String, String)| Node::Help { title, text };
    let nodes: Vec<Node> = used_in(&text).map(help).collect();
    if nodes.is_empty() {
        return view.clone();
    }
    let words = Node::Section { key: String::new(), title: "What am I looking at?".into(), nodes };
    View { nodes: view.nodes.iter().cloned().chain([words]).collect(), ..*view }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_text_are_explained() {
        assert!(passages().count() >= 8);
        let used: Vec<String> = used_in("3 cases, 12% even split").map(|(title, _)| title).collect();
        assert_eq!(used, ["expected invalidations"]);
    }

    #[test]
    fn a_page_explains_its_words_and_no_others() {
        let view = |text: &str| View {
            kind: "note",
            schema_version: 1,
            nodes: vec![Node::Text(vec![crate::Span::plain(text)])],
        };
        let page = |text: &str| render(&explained(&view(text)), Format::Html, Style::default());
        let many = page("12% even split");
        assert!(many.contains("What am I looking at?") && many.contains("expected invalidations"));
        assert_eq!(many.matches("<details").count(), 1, "of one word only");
        assert!(!page("tea").contains("What am I"));
    }
}
