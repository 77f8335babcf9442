//! `tussle.toml` in a project's folder: what verbs would otherwise be told on their command lines.
//!
//! Its commands are run by `hunt` and `record --project` alone, only from the folder that the command line names, and
//! printed first. `check` reads which rules hold for which files, and runs nothing.

use anyhow::Context;
use std::path::Path;

/// Name of the file.
pub const NAME: &str = "tussle.toml";

/// What the file may say.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// Shell command that builds a copy of the folder.
    pub build: Option<String>,
    /// Command to run, split into words.
    pub run: Option<String>,
    /// Shell command that drives it.
    pub load: Option<String>,
    /// Longest time of the load.
    #[serde(rename = "for")]
    pub time: Option<String>,
    /// When the load may begin.
    pub ready: Option<String>,
    /// Time of the load that is not measured.
    pub warmup: Option<String>,
    /// What is measured, and what it means.
    pub metric: Option<String>,
    /// `rate`, `cost`, `total`.
    pub kind: Option<String>,
    /// Structs whose layout stays as it is: no patch of them is tried.
    #[serde(default)]
    pub frozen: Vec<String>,
    /// Cases that cost at most so many transfers do not make `hunt` fail. They are shown all the same, in their class.
    pub transfers_max: Option<f64>,
    /// Rule files of `check`, relative to the folder.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Builds that `check` looks into, relative to the folder.
    #[serde(default)]
    pub check: Vec<String>,
}

impl ProjectFile {
    /// The folder's file; nothing where there is none.
    ///
    /// # Errors
    /// It cannot be read, or says something that is not known.
    pub fn of(dir: &Path) -> anyhow::Result<ProjectFile> {
        let path = dir.join(NAME);
        if !path.is_file() {
            return Ok(ProjectFile::default());
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", path.display()))
    }

    /// A patch of this struct may be tried.
    pub fn allows(&self, type_name: &str) -> bool {
        let bare = |n: &str| n.trim_start_matches("struct ").trim_start_matches("class ").trim().to_string();
        !self.frozen.iter().any(|f| bare(f) == bare(type_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_to_do_and_nothing_unknown() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ProjectFile::of(dir.path()).unwrap(), ProjectFile::default());
        let checks = "transfers_max = 5000\nrules = ['l.toml']\n";
        let text = "build = 'make'\nrun = './s -p 1'\nfor = '10s'\nfrozen = ['struct wire']\n";
        std::fs::write(dir.path().join(NAME), format!("{checks}{text}")).unwrap();
        let file = ProjectFile::of(dir.path()).unwrap();
        assert_eq!((file.build.as_deref(), file.time.as_deref()), (Some("make"), Some("10s")));
        assert!(!file.allows("wire") && file.allows("struct wires"));
        std::fs::write(dir.path().join(NAME), "biuld = 'make'\n").unwrap();
        assert!(format!("{:#}", ProjectFile::of(dir.path()).unwrap_err()).contains("biuld"));
    }
}
