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
    /// File in `programs/`.
    pub source: String,
    /// Nominal time between operations, ns.
    pub think_ns: u32,
    /// Nominal time inside of the lock beside the accesses, ns.
    pub section_ns: u32,
    /// The work waits for nothing.
    pub independent: bool,
}

impl Case {
    /// For people.
    pub fn name(&self) -> String {
        let kind = if self.independent { "independent" } else { "dependent" };
        let stem = self.source.trim_end_matches(".c");
        format!("{stem} think {} section {} {kind}", self.think_ns, self.section_ns)
    }

    /// All words of the filter, between commas, are in the name.
    pub fn matches(&self, filter: &str) -> bool {
        filter.split(',').all(|word| self.name().contains(word))
    }

    /// Operations of each thread: some 0.3 s of a native run.
    pub fn operations(&self) -> u64 {
        300_000_000 / (u64::from(self.think_ns + self.section_ns) + 60)
    }

    /// Definitions for the compiler.
    pub fn defines(&self) -> Vec<String> {
        let mut out =
            vec![format!("-DTHINK_NS={}", self.think_ns), format!("-DSECTION_NS={}", self.section_ns)];
        out.extend(self.independent.then(|| "-DINDEPENDENT".to_string()));
        out
    }
}

/// Where the suite lies.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../suite/closed-loop")
}

/// All cases, in the order of the file.
pub fn read() -> Vec<Case> {
    let file: File = toml::from_str(&std::fs::read_to_string(folder().join("cases.toml")).unwrap()).unwrap();
    let of = |p: Program| {
        let source = p.source;
        p.cases.into_iter().map(move |(think_ns, section_ns, independent)| Case {
            source: source.clone(),
            think_ns,
            section_ns,
            independent,
        })
    };
    file.program.into_iter().flat_map(of).collect()
}
