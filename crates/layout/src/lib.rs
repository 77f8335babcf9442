//! What a layout means: holes, cache lines, phases, differences, rules and free slots.
//!
//! Pure functions from a [`tussle_model::TypeTable`] to values and views. No I/O: callers read files and print views.
//! Everything is total over hostile tables: arithmetic saturates and recursion is bounded.

pub mod align;
pub mod bounds;
pub mod compilable;
pub mod data;
pub mod diff;
pub mod holes;
pub mod homes;
pub mod lines;
pub mod lint;
pub use tussle_model::near;
pub mod over;
pub mod pahole;
pub mod phases;
pub mod place;
pub mod reorder;
pub mod rules;
pub mod slab;
pub mod slots;
pub mod whereabouts;
