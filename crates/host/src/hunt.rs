//! The parts of `tussle hunt` that touch the machine: a scratch copy of a source folder, its build, and what came out.

pub mod project;
pub mod scratch;
pub mod wrapper;

pub use project::{Build, BuildError, Project};
pub use scratch::{Scratch, ScratchError};
pub use wrapper::Wrapper;
