//! `suite/manifest.toml`.

use std::path::{Path, PathBuf};

/// The whole file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub limits: Limits,
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// The same for the programs in Rust and Go: `suite/languages/manifest.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Languages {
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// Wrong verdicts that are allowed in the fixed forty.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub missed_max: usize,
    pub accused_max: usize,
    pub misnamed_max: usize,
}

impl Limits {
    /// The same rate for another number of judged twins.
    pub fn scaled(&self, judged: usize) -> Limits {
        let up = |n: usize| (n * judged).div_ceil(40).max(n);
        Limits {
            missed_max: up(self.missed_max),
            accused_max: up(self.accused_max),
            misnamed_max: up(self.misnamed_max),
        }
    }
}

/// One program.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub source: String,
    #[serde(default)]
    pub flags: Vec<String>,
    pub needs: Option<String>,
    #[serde(default = "yes")]
    pub instrumented: bool,
    pub buggy: String,
    pub fixed: Option<String>,
    pub pair: Option<[String; 2]>,
    /// With fewer threads, or with more, the classes do not hold.
    pub threads_min: Option<u32>,
    pub threads_max: Option<u32>,
    #[serde(default)]
    pub ci: Vec<String>,
}

/// One of its two forms, and the class it has.
pub struct Twin {
    pub fixed: bool,
    pub class: String,
}

fn yes() -> bool {
    true
}

/// The folder with manifest and programs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suite")
}

impl Manifest {
    pub fn read() -> Manifest {
        let text = std::fs::read_to_string(folder().join("manifest.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }

    /// All of them, or those whose source's name has a word of `TUSSLE_SUITE_CASES`.
    pub fn chosen(&self) -> impl Iterator<Item = &Case> {
        let only = std::env::var("TUSSLE_SUITE_CASES").unwrap_or_default();
        self.cases
            .iter()
            .filter(move |c| only.is_empty() || only.split(',').any(|word| c.source.contains(word)))
    }
}

/// Programs in other languages, all of them or those that are asked for.
pub fn languages() -> Vec<Case> {
    let all: Languages = read("languages/manifest.toml");
    all.cases.into_iter().filter(|c| c.is_chosen()).collect()
}

fn read<T: serde::de::DeserializeOwned>(path: &str) -> T {
    let text = std::fs::read_to_string(folder().join(path)).unwrap();
    toml::from_str(&text).unwrap()
}

impl Case {
    /// The source's name has a word of `TUSSLE_SUITE_CASES`, or no word is asked for.
    fn is_chosen(&self) -> bool {
        let only = std::env::var("TUSSLE_SUITE_CASES").unwrap_or_default();
        only.is_empty() || only.split(',').any(|word| self.source.contains(word))
    }

    /// How its source's name ends.
    pub fn language(&self) -> &str {
        self.source.rsplit('.').next().unwrap_or_default()
    }

    /// Its classes hold with so many threads.
    pub fn holds(&self, threads: u32) -> bool {
        (self.threads_min.unwrap_or(0)..=self.threads_max.unwrap_or(u32::MAX)).contains(&threads)
    }

    /// The twins to judge: all of them, or those of the fixed forty.
    pub fn twins(&self, whole: bool) -> Vec<Twin> {
        let wanted = |name: &str| whole || self.ci.iter().any(|c| c == name);
        let mut out = Vec::new();
        if wanted("buggy") {
            out.push(Twin { fixed: false, class: self.buggy.clone() });
        }
        if let Some(class) = self.fixed.as_ref().filter(|_| wanted("fixed")) {
            out.push(Twin { fixed: true, class: class.clone() });
        }
        out
    }
}
