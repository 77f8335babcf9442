//! What can be wrong with a perf.data file.

/// The file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a perf.data file.
    #[error(
        "not a perf.data file: it begins with {found:02x?}, not with PERFILE2; for text give the output \
         of `perf script` or `perf c2c report --stdio`"
    )]
    Magic {
        /// First bytes.
        found: Vec<u8>,
    },
    /// The header itself is cut off.
    #[error("perf.data: {section} is cut off at offset {offset} (0x{offset:x})")]
    Truncated {
        /// Part of the file.
        section: &'static str,
        /// Offset in the file, bytes.
        offset: u64,
    },
    /// No event describes samples.
    #[error(
        "perf.data: no event attributes, so samples cannot be decoded; was the recording ended before it began?"
    )]
    NoAttributes,
}

/// Something that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Offset in the file (or in the decompressed stream), bytes; 0 when it is about the whole.
    pub offset: u64,
    /// What.
    pub message: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            0 => write!(f, "{}", self.message),
            at => write!(f, "{} at offset {at} (0x{at:x})", self.message),
        }
    }
}
