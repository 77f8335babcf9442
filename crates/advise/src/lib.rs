//! Search over field moves with their bill, and a patch engine for C and C++ sources.
//!
//! Pure: sources come in as text, patches go out as text. [`abi`] computes offsets, [`edit`] names the changes,
//! [`relayout`] follows one through all types that contain the struct, [`patch`] edits the source.

pub mod abi;
pub mod edit;
pub mod patch;
pub mod relayout;
