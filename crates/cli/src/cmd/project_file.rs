//! `tussle.toml` in a project's folder: what verbs would otherwise be told on their command lines.
//!
//! Its commands are run by `hunt` and `record --project` alone, only from the folder that the command line names, and
//! printed first. `check` reads which rules hold for which files, and runs nothing.

use super::service::duration;
use anyhow::Context;
use std::path::Path;
use tussle_evidence::Evidence;
use tussle_host::service::Ready;

/// Name of the file.
pub const NAME: &str = "tussle.toml";

/// What a figure may mean, as `--kind` has it.
const KINDS: [&str; 3] = ["cost", "rate", "total"];

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
        let file: ProjectFile = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
        file.check().map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
        Ok(file)
    }

    /// # Errors
    /// A key with what is wrong about its value.
    fn check(&self) -> Result<(), String> {
        let of = |key: &str, why: String| Err(format!("{key}: {why}"));
        let commands = [("build", &self.build), ("run", &self.run), ("load", &self.load)];
        if let Some((key, _)) = commands.iter().find(|(_, c)| c.as_ref().is_some_and(|c| c.trim().is_empty()))
        {
            return of(key, "it is empty".into());
        }
        for (key, time) in [("for", &self.time), ("warmup", &self.warmup)] {
            if let Some(Err(why)) = time.as_deref().map(duration) {
                return of(key, why);
            }
        }
        if let Some(Err(why)) = self.ready.as_deref().map(str::parse::<Ready>) {
            return of("ready", why);
        }
        if let Some(kind) = self.kind.as_ref().filter(|k| !KINDS.contains(&k.as_str())) {
            return of("kind", format!("`{kind}` is none: say {}", KINDS.join(", ")));
        }
        match self.transfers_max.filter(|n| !(n.is_finite() && *n >= 0.0)) {
            Some(n) => of("transfers_max", format!("{n} is no number of transfers")),
            None => Ok(()),
        }
    }

    /// Frozen structs that nothing recorded holds: whoever mistypes one would see it patched.
    pub fn frozen_unseen(&self, e: &Evidence) -> Option<String> {
        let unseen = |name: &&String| e.types.find(name).is_none();
        let names: Vec<&str> = self.frozen.iter().filter(unseen).map(String::as_str).collect();
        (!names.is_empty())
            .then(|| format!("{NAME}: frozen: nothing that was recorded holds {}", names.join(", ")))
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

    #[test]
    fn a_value_that_cannot_be_is_named_with_its_file_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let check = |text: &str, expect: &str| {
            std::fs::write(&path, text).unwrap();
            let why = format!("{:#}", ProjectFile::of(dir.path()).expect_err(text));
            assert_eq!(why, format!("{}: {expect}", path.display()));
        };
        check("for = 'abc'", "for: `abc` is no time: say 10s, 500ms or 2m");
        check("warmup = '3d'", "warmup: `d` is no unit: use ms, s, m or h");
        check("run = ' '", "run: it is empty");
        check("ready = 'soon'", "ready: `soon`: say port:NUMBER or line:TEXT");
        check("kind = 'speed'", "kind: `speed` is none: say cost, rate, total");
        check("transfers_max = -1", "transfers_max: -1 is no number of transfers");
        check("transfers_max = nan", "transfers_max: NaN is no number of transfers");
    }

    #[test]
    fn a_frozen_struct_that_nothing_holds_is_named() {
        let e = tussle_evidence::sample::Sample::two_counters().evidence();
        let known = e.types.aggregates().find_map(|(_, a)| a.name.clone()).unwrap();
        let file = ProjectFile { frozen: vec![known, "struct nosuch".into()], ..ProjectFile::default() };
        let remark = file.frozen_unseen(&e).unwrap();
        assert!(remark.ends_with("holds struct nosuch"), "{remark}");
    }
}
