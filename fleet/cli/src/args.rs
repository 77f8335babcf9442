//! The command line: words, `--key value`, `--switch`.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
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
    /// # Errors
    /// An unknown option, or one without its value.
    pub(crate) fn parse(from: impl Iterator<Item = OsString>) -> anyhow::Result<Args> {
        let (mut args, mut from) = (Args::default(), from);
        while let Some(word) = from.next() {
            let Some(name) = word.to_str().and_then(option) else {
                args.words.push(word.into());
                continue;
            };
            let (name, value) =
                name.split_once('=').map_or((name, None), |(n, v)| (n, Some(OsString::from(v))));
            if SWITCHES.contains(&name) && value.is_none() {
                args.values.insert(name.into(), OsString::new());
            } else if VALUES.contains(&name) {
                let value =
                    value.or_else(|| from.next()).with_context(|| format!("--{name}: a value is missing"))?;
                args.values.insert(name.into(), value);
            } else {
                bail!("--{name}: no such option; `tussle-fleet help` lists them");
            }
        }
        Ok(args)
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

fn option(word: &str) -> Option<&str> {
    match word {
        "-h" => Some("help"),
        "-q" => Some("quiet"),
        word => word.strip_prefix("--").filter(|n| !n.is_empty()),
    }
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
    fn mistakes_are_said() {
        assert!(parse("--nothing").unwrap_err().to_string().contains("no such option"));
        assert!(parse("--to").unwrap_err().to_string().contains("missing"));
        let since = parse("top --since 2026-11-22").unwrap();
        assert!(since.only(&["fleet", "fleet new"]).is_ok());
        let said = since.only(&["fleet"]).unwrap_err().to_string();
        assert_eq!(said, "--since: not used here, but by `fleet new`");
        let many = parse("--threads 100000 --limit 3").unwrap();
        assert_eq!(many.threads().unwrap_err().to_string(), "--threads 100000: from 1 to 1024");
    }
}
