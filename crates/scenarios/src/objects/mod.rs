//! Real objects over [`Words`](tussle_sim::Words): what they touch is what a run pays for, and on real threads they
//! are real memory.

pub mod buddy;
pub mod list;
pub mod tree;
