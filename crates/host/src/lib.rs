//! What touches the machine: files, processes, caches, compilers.

pub mod hunt;
