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
        let used: Vec<String> = used_in("3 cases, 12% even split").map(|(title, _)| title).collect();
        assert_eq!(used, ["expected invalidations"]);
        assert!(list().contains("false-sharing") && find("tea").is_none());
    }
}
