//! Errors of this crate: every one names the section and the offset where reading stopped.

/// Why debug information could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is none of the formats that can hold layouts.
    #[error("not an ELF file, raw BTF or tussle snapshot ({})", begins(start))]
    Format {
        /// The first bytes of the file, at most eight.
        start: Vec<u8>,
    },
    /// The container itself is damaged or cut off.
    #[error("{section}: offset {offset:#x}: {what}")]
    Malformed {
        /// Section, or `ELF header`, `BTF`, `snapshot`.
        section: String,
        /// Byte offset in that section.
        offset: u64,
        /// What was wrong.
        what: String,
    },
    /// A valid file that uses something this reader does not know.
    #[error("{section}: unsupported: {what}")]
    Unsupported {
        /// Section, or the kind of file.
        section: String,
        /// The unknown feature.
        what: String,
    },
    /// The file is fine but describes no types.
    #[error(
        "no debug information ({why}); compile with -g, or install the package with its debug symbols (-dbg, -dbgsym)"
    )]
    NoDebugInfo {
        /// `stripped`, or what is missing.
        why: String,
    },
    /// None of the wanted types is in the file.
    #[error("snapshot: {0}")]
    Snapshot(String),
}

impl From<gimli::Error> for Error {
    fn from(e: gimli::Error) -> Error {
        Error::malformed("DWARF", 0, e)
    }
}

impl Error {
    /// A [`Error::Malformed`] in few words.
    pub(crate) fn malformed(section: impl Into<String>, offset: u64, what: impl ToString) -> Error {
        Error::Malformed { section: section.into(), offset, what: what.to_string() }
    }
}

/// Something that could not be read while the rest was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file it is in, when it is not the main one (`foo.dwo`, a dwz file).
    pub file: Option<String>,
    /// The section.
    pub section: String,
    /// Byte offset in that section.
    pub offset: u64,
    /// What is wrong and what it means for the result.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        write!(f, "{}: offset {:#x}: {}", self.section, self.offset, self.what)
    }
}

/// At most this many problems are kept of one file: a corrupt one has millions.
pub const PROBLEMS_MAX: usize = 64;

/// Collects problems up to [`PROBLEMS_MAX`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Damages(pub Vec<Damage>);

impl Damages {
    pub fn add(&mut self, section: &str, offset: u64, what: impl ToString) {
        if self.0.len() < PROBLEMS_MAX {
            let what = what.to_string();
            self.0.push(Damage { file: None, section: section.into(), offset, what });
        }
    }

    /// For what is missing from the result: told before damage, however much of that there is.
    pub fn push_first(&mut self, section: &str, what: String) {
        self.0.insert(0, Damage { file: None, section: section.into(), offset: 0, what });
        self.0.truncate(PROBLEMS_MAX);
    }

    pub fn push(&mut self, problem: Damage) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(problem);
        }
    }
}

/// What a file begins with, as text where it is text.
fn begins(start: &[u8]) -> String {
    let text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    if start.is_empty() {
        return "it is empty".into();
    }
    if !start.iter().all(text) {
        let hex: Vec<String> = start.iter().map(|b| format!("{b:02x}")).collect();
        return format!("it begins with the bytes {}", hex.join(" "));
    }
    let quoted = String::from_utf8_lossy(start).trim_end().to_string();
    format!(
        "it begins with the text {quoted:?}; of a source file, compile it with -g first and give what comes out"
    )
}
