//! Programs as a build's own description names them.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Programs of a build, absolute.
#[derive(Clone, Debug, Default)]
pub(super) struct Described {
    /// All of them.
    pub programs: Vec<PathBuf>,
    /// Those that the build itself runs to make others.
    pub helpers: BTreeSet<PathBuf>,
}

impl Described {
    /// The only program that the build is for: it is what there is to run, also where it is a test.
    pub fn only(&self) -> Option<PathBuf> {
        let mut own = self.programs.iter().filter(|p| !self.helpers.contains(*p));
        own.next().filter(|_| own.next().is_none()).cloned()
    }

    /// Of the programs that a build left: a helper is what a rule of the makefile runs to make its target.
    pub fn by_make(copy: &Path, programs: Vec<PathBuf>) -> Described {
        let makefiles = ["GNUmakefile", "makefile", "Makefile"];
        let text = makefiles.iter().find_map(|m| fs::read_to_string(copy.join(m)).ok()).unwrap_or_default();
        let run: BTreeSet<PathBuf> = runs(&text).into_iter().map(|p| copy.join(p)).collect();
        let helpers = programs.iter().filter(|p| run.contains(*p)).cloned().collect();
        Described { programs, helpers }.checked()
    }

    /// Where nothing else is left, helpers are programs like any other.
    fn checked(mut self) -> Described {
        if self.programs.iter().all(|p| self.helpers.contains(p)) {
            self.helpers.clear();
        }
        self
    }
}

/// Programs that recipes run whose output is their target: `gen.h: gen`, then `./gen > $@`.
fn runs(makefile: &str) -> Vec<&str> {
    let (mut targets, mut out) = ("", Vec::new());
    for line in makefile.lines() {
        let Some(recipe) = line.strip_prefix('\t') else {
            targets = line.split_once(':').map_or(targets, |l| l.0);
            continue;
        };
        let words: Vec<&str> = recipe.trim_start_matches(['@', '-', '+', ' ']).split_whitespace().collect();
        let written =
            |w: &&str| w.contains("$@") || targets.split_whitespace().any(|t| w.trim_matches('>') == t);
        if words.iter().skip(1).any(|w| written(w)) {
            out.extend(words.first().and_then(|w| w.strip_prefix("./")));
        }
    }
    out
}

/// Executables of cmake's file API (`codemodel-v2`); `None` if there is no answer. A helper is what a target of
/// objects waits for: nothing links an executable but plugins of it.
pub(super) fn by_cmake(build: &Path) -> Option<Described> {
    let reply = build.join(".cmake/api/v1/reply");
    let files = fs::read_dir(&reply).ok()?.flatten();
    let targets: Vec<Value> = files
        .filter(|e| e.file_name().to_string_lossy().starts_with("target-"))
        .filter_map(|e| json(&e.path()))
        .collect();
    let uses = |t: &&Value| !matches!(t["type"].as_str(), Some("UTILITY" | "MODULE_LIBRARY"));
    let waited_for: BTreeSet<&str> = targets
        .iter()
        .filter(uses)
        .flat_map(|t| t["dependencies"].as_array().into_iter().flatten())
        .filter_map(|d| d["id"].as_str())
        .collect();
    let mut out = Described::default();
    for t in targets.iter().filter(|t| t["type"] == "EXECUTABLE") {
        let paths = t["artifacts"].as_array().into_iter().flatten().filter_map(|a| a["path"].as_str());
        let paths: Vec<PathBuf> = paths.map(|p| build.join(p)).collect();
        if t["id"].as_str().is_some_and(|id| waited_for.contains(id)) {
            out.helpers.extend(paths.iter().cloned());
        }
        out.programs.extend(paths);
    }
    out.programs.sort_unstable();
    out.programs.dedup();
    Some(out.checked())
}

/// Executables of `meson introspect --targets`, as the build folder keeps them; tools of subprojects only where the
/// project has no program of its own. A helper is what a custom target runs.
pub(super) fn by_meson(build: &Path) -> Option<Described> {
    let targets = json(&build.join("meson-info/intro-targets.json"))?;
    let targets = targets.as_array()?;
    let runs = |t: &Value| t["target_sources"][0]["compiler"][0].as_str().map(str::to_string);
    let run: BTreeSet<String> = targets.iter().filter(|t| t["type"] == "custom").filter_map(runs).collect();
    let all: Vec<&Value> = targets.iter().filter(|t| t["type"] == "executable").collect();
    let own: Vec<&Value> = all.iter().copied().filter(|t| t["subproject"].is_null()).collect();
    let mut out = Described::default();
    for t in if own.is_empty() { all } else { own } {
        let files = t["filename"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for file in files {
            if run.contains(file) || t["name"].as_str().is_some_and(|n| run.contains(n)) {
                out.helpers.insert(file.into());
            }
            out.programs.push(file.into());
        }
    }
    Some(out.checked())
}

pub(super) fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_makefile_runs_to_make_something_is_no_program_of_it() {
        let makefile = "all: appd\nappd: app.c gen.h\n\t$(CC) -o $@ app.c\ngen.h: gen\n\t@./gen > $@\n\
            tab.c: mktab\n\t./mktab in >tab.c\ncheck: appd\n\t./appd > /dev/null\n";
        assert_eq!(runs(makefile), ["gen", "mktab"]);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Makefile"), makefile).unwrap();
        let paths = |names: &[&str]| names.iter().map(|n| dir.path().join(n)).collect::<Vec<_>>();
        let found = Described::by_make(dir.path(), paths(&["appd", "gen", "mktab"]));
        assert_eq!(found.only(), Some(dir.path().join("appd")));
        assert_eq!(Described::by_make(dir.path(), paths(&["gen"])).only(), Some(dir.path().join("gen")));
    }
}
