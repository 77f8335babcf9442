//! `tussle help TOPIC`: passages of docs/glossary.md, as text that fits the terminal.

use crate::help;
use tussle_model::near;
use tussle_render::glossary::passages;

/// The passage called `name` in lines of `columns`, the list of all for `topics`, or `None`.
pub fn find(name: &str, columns: usize) -> Option<String> {
    match name {
        "topics" => Some(list()),
        _ => passages().find(|(topic, _)| *topic == name).map(|(_, text)| plain(text, columns)),
    }
}

/// Markdown as text: paragraphs and items in lines of `columns`, what is indented as it stands.
fn plain(passage: &str, columns: usize) -> String {
    let blocks = passage.trim_matches('\n').split("\n\n").map(|block| match block.starts_with("    ") {
        true => block.trim_end().to_string() + "\n",
        false => {
            let mut paragraphs: Vec<String> = Vec::new();
            for line in block.lines() {
                match paragraphs.last_mut().filter(|_| !line.starts_with("- ")) {
                    Some(begun) => *begun += &format!(" {}", line.trim()),
                    None => paragraphs.push(line.trim().to_string()),
                }
            }
            paragraphs.iter().map(|p| filled(&unmarked(p), columns)).collect()
        }
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Without the stars of emphasis; of a link its words and where it leads, of a picture what it shows.
fn unmarked(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(i, part)| match i % 2 {
        0 => part.replace('*', ""),
        _ => format!("`{part}`"),
    });
    let text: String = parts.collect();
    let (mut out, mut rest) = (String::new(), text.as_str());
    while let Some((before, words, target, behind)) = link(rest) {
        match before.strip_suffix('!') {
            Some(before) => out += &format!("{before}(picture: {words})"),
            None => out += &format!("{before}{words} ({target})"),
        }
        rest = behind;
    }
    out + rest
}

/// What stands before the first link, its words, where it leads, and what stands behind it.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, behind) = text.split_once("](")?;
    let (target, behind) = behind.split_once(')')?;
    let (before, words) = head.rsplit_once('[')?;
    Some((before, words, target, behind))
}

/// A paragraph in lines of `columns`, an item's behind its mark.
fn filled(text: &str, columns: usize) -> String {
    let (head, text) = text.strip_prefix("- ").map_or(("", text), |item| ("- ", item));
    help::filled(head, text, columns)
}

/// What is said of a name that is neither a topic nor one of these verbs.
pub fn unknown<'a>(name: &str, verbs: impl Iterator<Item = &'a str>) -> String {
    let close = near::near_paths(passages().map(|(topic, _)| topic).chain(verbs), name, 3);
    let close = near::also(&close);
    format!("no topic and no verb is called `{name}`{close}; `tussle help topics` lists the topics")
}

fn list() -> String {
    let names: Vec<&str> = passages().map(|(topic, _)| topic).collect();
    format!("{}\n", names.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_found_and_no_verb_is_hidden_by_one() {
        use clap::CommandFactory;
        let root = crate::Cli::command();
        for (topic, text) in passages() {
            let found = find(topic, 80).unwrap();
            assert!(found.len() > 80 && !found.contains("**"), "{topic}");
            assert!(root.find_subcommand(topic).is_none() && !text.is_empty(), "{topic}");
        }
        assert!(list().contains("false-sharing") && find("tea", 80).is_none());
        assert!(unknown("phasess", ["hunt"].into_iter()).contains("; close: phases;"));
        assert!(unknown("hunnt", ["hunt"].into_iter()).contains("; close: hunt;"));
    }

    #[test]
    fn passages_fit_the_terminal_and_say_the_same() {
        let words =
            |text: &str| text.replace('*', "").split_whitespace().map(String::from).collect::<Vec<_>>();
        for (topic, text) in passages() {
            for columns in [60, 80, 100] {
                let found = find(topic, columns).unwrap();
                let wide: Vec<&str> = found.lines().filter(|l| l.chars().count() > columns).collect();
                assert!(wide.iter().all(|l| l.starts_with("    ")), "{topic}: {wide:?}");
                assert_eq!(words(&found), words(text), "{topic}");
            }
            let pairs = |t: &str| t.matches('`').count();
            assert_eq!(pairs(&plain(text, 80)), pairs(text), "{topic}");
        }
    }

    #[test]
    fn markdown_is_read_as_text() {
        let text = "\nA *word* and\na [page](docs/x.md), ![a line](x.svg).\n\n\
                    - **one** two\n  three\n- four\n\n    [[rule]]\n";
        let plain = plain(text, 20);
        assert_eq!(
            plain,
            "A word and a page\n(docs/x.md),\n(picture: a line).\n\n- one two three\n- four\n\n    [[rule]]\n"
        );
        assert_eq!(super::plain("- one two three four five", 12), "- one two\n  three four\n  five\n");
        assert_eq!(unmarked("*x* `*p` `a[i](b` [x"), "x `*p` `a[i](b` [x", "neither emphasis nor a link");
    }
}
