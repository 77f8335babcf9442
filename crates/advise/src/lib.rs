//! Search over field moves with their bill, and a patch engine for C and C++ sources.
//!
//! Pure: sources come in as text, patches go out as text. [`abi`] computes offsets, [`edit`] names the changes,
//! [`relayout`] follows one through all types that contain the struct, [`scene`] and [`cost`] evaluate recorded
//! accesses under a layout, [`elsewhere`] says where recorded bytes would lie and [`turns`] what that saves,
//! [`lines`] what of it holds on other machines, [`apart`] parts two fields by the layout alone, [`signs`] asks that
//! for samples, [`moves`] proposes edits, [`advice`] bills and [`rank`] orders them, [`patch`] edits the source.

pub mod abi;
pub mod advice;
pub mod again;
pub mod apart;
pub mod builds;
pub mod class;
pub mod cost;
pub mod edit;
pub mod elsewhere;
mod error;
pub mod exchange;
mod foreign;
pub mod hidden;
pub mod holders;
pub mod lines;
pub mod moves;
mod named;
pub mod order;
mod owners;
pub mod patch;
pub mod rank;
pub mod relayout;
mod room;
pub mod scene;
pub mod signs;
pub mod stays;
#[cfg(test)]
mod testing;
pub mod turns;
pub mod variables;

pub use advice::{Advice, AdviseError, Options, Report, advise, best, evaluate};
pub use edit::Edit;
pub use rank::sort_best;
