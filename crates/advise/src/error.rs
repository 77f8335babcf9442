//! Why there is no advice.

use crate::relayout::RelayoutError;

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// No such type among the recorded objects.
    #[error("no recorded object holds `{0}`; `tussle report` lists the types that were touched{1}")]
    NoSuchType(String, String),
    /// It is no struct.
    #[error(
        "`{0}` has no members to move: what fights are whole objects, side by side; give each a line of its own where \
         it is allocated"
    )]
    NoMembers(String),
    /// A frozen member does not exist.
    #[error("{ty} has no member {field} to freeze{close}")]
    NoSuchField {
        /// Type.
        ty: String,
        /// Member.
        field: String,
        /// Members like it, as the sentence ends; may be empty.
        close: String,
    },
    /// Not the bytes of a line.
    #[error("-c {0}: a power of two from 16 to 4096 is needed")]
    Line(u64),
    /// Its layout cannot be computed.
    #[error(transparent)]
    Layout(#[from] RelayoutError),
}
