//! The command line: words, `--key value`, `--switch`.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Options without a value.
const SWITCHES: &[&str] = &["help", "parquet", "no-raw", "redact", "quiet", "list"];
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
    }
}
