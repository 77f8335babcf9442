//! What the documents say of the command line is true: every verb, flag and topic that they name exists.

use crate::{Cli, topics, verbs};
use clap::{Command, CommandFactory};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Verbs that pass their words on to another program.
const FORWARDED: [&str; 5] = ["cc", "c++", "cargo", "fleet", "sweep"];

/// Flags of other programs that documents name alone.
const FOREIGN: &[&str] = &[
    // compilers and linkers
    "--coverage",
    "--param",
    "--precompile",
    "--print-include",
    "--wrap",
    // cargo and its tests
    "--target-dir",
    "--nocapture",
    "--target",
    "--test",
    // docker, perf, node, an example's own
    "--cap-add",
    "--full-symbols",
    "--intr-regs",
    "--perf-basic-prof",
    "--port",
    "--security-opt",
    "--shm-size",
    "--tmpfs",
];

/// A flag as somebody writes it: `--until` of `--until=decided`, `-C` of `-Cmm_struct`.
fn flag(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['[', '(']);
    if let Some(long) = word.strip_prefix("--") {
        let end = long.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(long.len());
        return (end > 0).then(|| &word[..end + 2]);
    }
    let mut letters = word.chars();
    let short = letters.next() == Some('-') && letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    short.then(|| &word[..2])
}

/// The verb takes this flag.
fn has(verb: &Command, flag: &str) -> bool {
    let own = |a: &clap::Arg| match flag.strip_prefix("--") {
        Some(long) => {
            a.get_long() == Some(long) || a.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => a.get_short() == flag.chars().nth(1),
    };
    let global = ["--help", "-h", "--version", "-V", "--quiet", "-q", "--no-pager", "--btf-base", "--color"];
    global.contains(&flag) || verb.get_arguments().any(own)
}

/// Words of the command that begins at the start of a text: up to a pipe, a command of its own after `--`, a comment.
/// What stands in quotes or in `$(..)` is told to other programs.
fn words(text: &str) -> Vec<&str> {
    let end = text.find(['\n', '`', '|', ';', '#', '<', '>']).unwrap_or(text.len());
    let mut open: Option<char> = None;
    let mut out = Vec::new();
    for word in text[..end].split_whitespace() {
        if open.is_none() && (word == "--" || word == "&&") {
            break;
        }
        if open.is_none() {
            out.push(word);
        }
        for c in word.chars() {
            open = match (open, c) {
                (None, '\'' | '"') => Some(c),
                (None, '(') => Some(')'),
                (Some(end), c) if c == end => None,
                (open, _) => open,
            };
        }
    }
    out
}

/// `tussle VERB ..` of a text, each with what follows the verb.
fn commands(text: &str) -> Vec<(&str, &str)> {
    let starts = text.match_indices("tussle ").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "`'\"(/$".contains(c))
    });
    let verb = |(at, found): (usize, &str)| {
        let rest = &text[at + found.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-+".contains(c)).unwrap_or(rest.len());
        (&rest[..end], &rest[end..])
    };
    starts.map(verb).collect()
}

fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
            .map(|f| root.join(f))
            .into();
    let page = |p: &PathBuf| p.extension().is_some_and(|e| e == "md");
    for folder in ["docs", "docs/validation"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        paths.extend(entries.flatten().map(|e| e.path()).filter(page));
    }
    let read = |p: PathBuf| {
        let text = std::fs::read_to_string(&p).unwrap().replace("\\\n", " ");
        (p.file_name().unwrap().to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

#[track_caller]
fn none(wrong: BTreeSet<String>, what: &str) {
    let list = Vec::from_iter(wrong).join("\n");
    assert!(list.is_empty(), "documents name {what} that do not exist:\n{list}");
}

/// What stands in backquotes and begins so.
fn quoted<'t>(text: &'t str, start: &'static str) -> impl Iterator<Item = &'t str> {
    text.split('`').skip(1).step_by(2).filter(move |s| s.starts_with(start))
}

#[test]
fn commands_of_documents_have_their_flags() {
    let root = verbs::command(Cli::command());
    let (mut wrong, mut count) = (BTreeSet::new(), 0);
    for (file, text) in documents() {
        for (verb, rest) in commands(&text) {
            let Some(known) = root.find_subcommand(verb).filter(|_| !FORWARDED.contains(&verb)) else {
                continue;
            };
            let all: Vec<&str> = words(rest).into_iter().filter_map(flag).collect();
            if all.contains(&"--parquet") {
                continue;
            }
            count += all.len();
            wrong.extend(all.iter().filter(|f| !has(known, f)).map(|f| format!("{file}: tussle {verb} {f}")));
        }
    }
    assert!(count > 100, "only {count} flags found");
    none(wrong, "flags");
}

#[test]
fn flags_that_documents_name_alone_exist() {
    let root = verbs::command(Cli::command());
    let mut wrong = BTreeSet::new();
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fleet/cli/src/args.rs");
    let fleet = std::fs::read_to_string(fleet).unwrap();
    let of_fleet = |flag: &str| fleet.contains(&format!("\"{}\"", flag.trim_start_matches('-')));
    // The page of tussle-fleet, which has a command line of its own.
    for (file, text) in documents().into_iter().filter(|(file, _)| file != "fleet.md") {
        let spans = quoted(&text, "--").filter(|s| !s.contains('\n'));
        for found in spans.filter_map(|s| flag(s.split_whitespace().next().unwrap_or_default())) {
            let known =
                root.get_subcommands().any(|v| has(v, found)) || FOREIGN.contains(&found) || of_fleet(found);
            wrong.extend((!known).then(|| format!("{file}: {found}")));
        }
    }
    none(wrong, "flags");
}

#[test]
fn verbs_and_topics_that_documents_name_exist() {
    let root = verbs::command(Cli::command());
    let mut wrong = BTreeSet::new();
    for (file, text) in documents() {
        for (verb, rest) in quoted(&text, "tussle ").flat_map(commands) {
            let topic = rest.split_whitespace().next().unwrap_or_default();
            let placeholder =
                |word: &str| word.is_empty() || word.chars().all(|c| c.is_ascii_uppercase() || c == '-');
            let is_verb = |word: &str| placeholder(word) || root.find_subcommand(word).is_some();
            let known = match verb {
                "help" => is_verb(topic) || topics::find(topic, 80).is_some(),
                _ => is_verb(verb) || verb.starts_with('-'),
            };
            wrong.extend((!known).then(|| format!("{file}: tussle {verb} {topic}")));
        }
    }
    none(wrong, "verbs or topics");
}

/// What the README shows of `hunt` is printed by it, word for word; numbers and names are of one run.
#[test]
fn the_screen_of_the_readme_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let screens = readme.split("```text\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let source = |path: &str| std::fs::read_to_string(root.join("crates").join(path)).unwrap();
    let printed =
        ["cli/src/cmd/hunt/screen.rs", "cli/src/cmd/hunt/patches.rs", "advise/src/class.rs"].map(source);
    let (mut missing, mut count) = (BTreeSet::new(), 0);
    for line in screens.flat_map(str::lines).filter(|l| *l != "...") {
        let parts = line.split("  ").flat_map(|column| column.split(", ")).map(str::trim);
        let own = |p: &&str| !p.is_empty() && !p.contains(|c: char| c.is_ascii_digit() || "_⟷%".contains(c));
        for part in parts.filter(own) {
            count += 1;
            let known = printed.iter().any(|text| text.contains(part));
            missing.extend((!known).then(|| part.to_string()));
        }
    }
    assert!(count > 10, "only {count} words found");
    none(missing, "words of `hunt`");
}
