//! What touches the machine: files, processes, caches, compilers.

pub mod bench;
pub mod companions;
pub mod evidence_file;
pub mod hunt;

pub mod images;
