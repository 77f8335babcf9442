//! Which lines and fields of an evidence are fought over, by whom, and what would happen with bytes elsewhere.
//!
//! Pure: an [`Evidence`](tussle_evidence::Evidence) and a question go in, numbers with their names come out. Views of
//! them are in `report`, changes of the layout in `advise`.

pub mod analysis;
mod even;
pub mod fields;
pub mod group;
pub mod library;
pub mod lines;
mod link;
pub mod objective;
mod pairs;
pub mod replay;
pub mod sampling;
pub mod under;
pub mod window;
mod wrappers;
