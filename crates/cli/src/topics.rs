//! `tussle help TOPIC`: passages of docs/glossary.md.

const GLOSSARY: &str = include_str!("../glossary.md");

/// The passage called `name`, the list of all for `topics`, or `None`.
pub fn find(name: &str) -> Option<String> {
    match name {
        "topics" => Some(list()),
        _ => {
            passages().find(|(topic, _)| *topic == name).map(|(_, text)| text.trim().replace("**", "") + "\n")
        }
    }
}

/// Topics and their texts.
fn passages() -> impl Iterator<Item = (&'static str, &'static str)> {
    GLOSSARY.split("\n## ").skip(1).filter_map(|p| p.split_once('\n'))
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
        assert!(passages().count() >= 8);
        for (topic, text) in passages() {
            assert!(find(topic).is_some_and(|t| t.len() > 80 && !t.contains("**")), "{topic}");
            assert!(root.find_subcommand(topic).is_none() && !text.is_empty(), "{topic}");
        }
        assert!(list().contains("false-sharing") && find("tea").is_none());
    }
}
