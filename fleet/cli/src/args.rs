//! The command line: words, `--key value`, `--switch`.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Options without a value.
const SWITCHES: &[&str] = &["help", "parquet", "no-raw", "redact", "quiet", "list", "sums"];
/// Options with one.
const VALUES: &[&str] = &[
    "to",
    "host",
    "build",
    "kernel",
    "dataset",
    "limit",
    "since",
    "since-build",
    "old",
    "new",
    "format",
    "engine",
    "master",
    "threads",
    "memory-gb",
    "jobs",
    "batch",
];
/// Options whose values are paths, which may be any bytes.
const PATHS: &[&str] = &["to", "dataset"];

/// Who uses which of them; `help` and `quiet` are for all.
const USED: &[(&str, &[&str])] = &[
    ("export", &["parquet", "to", "host", "build", "kernel", "no-raw", "redact"]),
    ("sweep", &["to", "jobs", "threads", "engine", "master", "batch", "list", "sums"]),
    ("fleet", &["dataset", "limit", "format", "engine", "master", "threads", "memory-gb"]),
    ("fleet new", &["since", "since-build"]),
    ("fleet regressions", &["old", "new"]),
];
/// Nobody has more CPUs for one of these.
const THREADS_MAX: u64 = 1_024;

/// What was given.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// What is no option.
    pub(crate) words: Vec<PathBuf>,
    values: BTreeMap<String, OsString>,
}

impl Args {
    /// `--` ends the options: what follows is words.
    ///
    /// # Errors
    /// An unknown option, one without its value, or a text that is not UTF-8.
    pub(crate) fn parse(from: impl Iterator<Item = OsString>) -> anyhow::Result<Args> {
        let (mut args, mut from) = (Args::default(), from);
        while let Some(word) = from.next() {
            if word == "--" {
                args.words.extend(from.by_ref().map(PathBuf::from));
            } else if dashed(&word) && word.len() > 1 {
                args.option(&word, &mut from)?;
            } else {
                args.words.push(word.into());
            }
        }
        Ok(args)
    }

    /// One option, and its value where that is the next word.
    fn option(&mut self, word: &OsStr, from: &mut impl Iterator<Item = OsString>) -> anyhow::Result<()> {
        let (name, value) = parts(word);
        if SWITCHES.contains(&&*name) && value.is_none() {
            self.values.insert(name, OsString::new());
            return Ok(());
        }
        if !VALUES.contains(&&*name) {
            let shown = word.display();
            bail!("{shown}: no such option; `tussle-fleet help` lists them; a file of that name is ./{shown}");
        }
        // `--to --host x` forgot a folder: nobody wants one called `--host`.
        let value = value.or_else(|| from.next().filter(|next| !dashed(next)));
        let value = value.with_context(|| {
            format!("--{name}: a value is missing; one that begins with a dash is written --{name}=-..")
        })?;
        // Whoever is named by half of a name would be somebody else.
        if !PATHS.contains(&&*name) && value.to_str().is_none() {
            bail!("--{name} {}: not UTF-8, which every text of a dataset is", value.display());
        }
        self.values.insert(name, value);
        Ok(())
    }

    /// What would be ignored is refused: who gave it believes in it.
    ///
    /// # Errors
    /// An option that none of these uses.
    pub(crate) fn only(&self, who: &[&str]) -> anyhow::Result<()> {
        let uses = |w: &&str, name: &str| USED.iter().any(|u| u.0 == *w && u.1.contains(&name));
        let known = |name: &str| ["help", "quiet"].contains(&name) || who.iter().any(|w| uses(w, name));
        let Some(other) = self.values.keys().find(|n| !known(n)) else { return Ok(()) };
        let users = USED.iter().map(|u| u.0).filter(|w| uses(w, other));
        let users: Vec<String> = users.map(|w| format!("`{w}`")).collect();
        bail!("--{other}: not used here, but by {}", users.join(" and "))
    }

    /// The switch was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The text of an option.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|v| v.to_string_lossy().into_owned())
    }

    /// The path of an option.
    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.values.get(name).map(Path::new)
    }

    /// A whole number from 1 on.
    ///
    /// # Errors
    /// It is none, or more than `most`.
    pub(crate) fn count(&self, name: &str, most: u64) -> anyhow::Result<Option<u64>> {
        let Some(n) = self.parsed::<u64>(name)? else { return Ok(None) };
        if !(1..=most).contains(&n) {
            bail!("--{name} {n}: from 1 to {most}");
        }
        Ok(Some(n))
    }

    /// Threads that were asked for.
    ///
    /// # Errors
    /// As [`Args::count`].
    pub(crate) fn threads(&self) -> anyhow::Result<Option<u64>> {
        self.count("threads", THREADS_MAX)
    }

    /// A number, or anything else that is parsed.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> anyhow::Result<Option<T>> {
        let parse =
            |text: String| text.parse().ok().with_context(|| format!("--{name} {text}: not understood"));
        self.text(name).map(parse).transpose()
    }
}

fn dashed(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-")
}

/// The name of an option, and the value behind its `=`. What is none keeps its dash.
fn parts(word: &OsStr) -> (String, Option<OsString>) {
    let bytes = word.as_bytes();
    let (name, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_os_string())),
        None => (bytes, None),
    };
    let name = match name {
        b"-h" => "help".into(),
        b"-q" => "quiet".into(),
        name => String::from_utf8_lossy(name.strip_prefix(b"--").unwrap_or(name)),
    };
    (name.into_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Args> {
        Args::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_and_words() {
        let a = parse("a.data --to=x --no-raw b.data --limit 3").unwrap();
        assert_eq!(a.words, [PathBuf::from("a.data"), PathBuf::from("b.data")]);
        assert_eq!((a.text("to").as_deref(), a.has("no-raw")), (Some("x"), true));
        assert_eq!(a.parsed::<u32>("limit").unwrap(), Some(3));
        assert!(a.parsed::<u32>("to").is_err());
    }

    #[test]
    fn names_that_begin_with_a_dash_can_be_said() {
        let a = parse("--to=--format --host=-h ./-x.data - -- -y.data --quiet").unwrap();
        assert_eq!(a.words, ["./-x.data", "-", "-y.data", "--quiet"].map(PathBuf::from));
        assert_eq!((a.path("to"), a.text("host").as_deref()), (Some(Path::new("--format")), Some("-h")));
        assert!(!a.has("quiet"));
    }

    #[test]
    fn texts_are_utf_8_and_paths_are_bytes() {
        let odd = |start: &[u8]| OsStr::from_bytes(&[start, b"x\xff"].concat()).to_os_string();
        let of = |words: Vec<OsString>| Args::parse(words.into_iter());
        for words in [vec!["--host".into(), odd(b"")], vec![odd(b"--host=")], vec![odd(b"--")], vec![odd(b"-")]] {
            assert!(of(words.clone()).is_err(), "{words:?}");
        }
        for words in [vec!["--to".into(), odd(b"")], vec![odd(b"--to=")]] {
            assert_eq!(of(words).unwrap().path("to"), Some(Path::new(&odd(b""))));
        }
        assert_eq!(of(vec![odd(b"")]).unwrap().words, [PathBuf::from(odd(b""))]);
    }

    #[test]
    fn mistakes_are_said() {
        assert!(parse("--nothing").unwrap_err().to_string().contains("no such option"));
        assert!(parse("--to").unwrap_err().to_string().contains("missing"));
        let since = parse("top --since 2026-11-22").unwrap();
        assert!(since.only(&["fleet", "fleet new"]).is_ok());
        let said = since.only(&["fleet"]).unwrap_err().to_string();
        assert_eq!(said, "--since: not used here, but by `fleet new`");
        for line in ["--to --host x", "--to -q", "-x.data", "--to=x -x", "--dataset --format=json"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--to --host x").unwrap_err().to_string().contains("--to: a value is missing"));
        assert!(parse("-x.data").unwrap_err().to_string().contains("a file of that name is ./-x.data"));
        let many = parse("--threads 100000 --limit 3").unwrap();
        assert_eq!(many.threads().unwrap_err().to_string(), "--threads 100000: from 1 to 1024");
    }
}
