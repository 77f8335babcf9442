//! The list of cases.

use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct File {
    program: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    source: String,
    cases: Vec<(u32, u32, bool)>,
}

/// One case.
pub struct Case {
    /// File in C.
    pub source: PathBuf,
    /// For people.
    pub name: String,
    /// Arguments: operations of the threads, some 0.3 s of a native run.
    pub operations: String,
    /// Definitions for the compiler.
    pub defines: Vec<String>,
}

impl Case {
    fn new(source: &str, (think_ns, section_ns, independent): (u32, u32, bool)) -> Case {
        let kind = if independent { "independent" } else { "dependent" };
        let stem = source.trim_end_matches(".c");
        let mut defines = vec![format!("-DTHINK_NS={think_ns}"), format!("-DSECTION_NS={section_ns}")];
        defines.extend(independent.then(|| "-DINDEPENDENT".to_string()));
        Case {
            source: folder().join("programs").join(source),
            name: format!("{stem} think {think_ns} section {section_ns} {kind}"),
            operations: (300_000_000 / (u64::from(think_ns + section_ns) + 60)).to_string(),
            defines,
        }
    }

    /// All words of the filter, between commas, are in the name.
    pub fn matches(&self, filter: &str) -> bool {
        filter.split(',').all(|word| self.name.contains(word))
    }

    /// What is left out together with it: its program.
    pub fn program(&self) -> String {
        self.source.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Where the suite lies.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../suite/closed-loop")
}

/// All cases, in the order of the file.
pub fn read() -> Vec<Case> {
    let file: File = toml::from_str(&std::fs::read_to_string(folder().join("cases.toml")).unwrap()).unwrap();
    let of = |p: Program| p.cases.into_iter().map(move |case| Case::new(&p.source, case));
    file.program.into_iter().flat_map(of).collect()
}
