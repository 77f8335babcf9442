//! What touches the machine: files, processes, caches, compilers.

pub mod bench;
pub mod cache;
pub mod calibrate;
pub mod cc;
pub mod companions;
pub mod day;
pub mod demo;
pub mod elf;
pub mod emulate;
pub mod emulator;
pub mod evidence_file;
pub mod fix;
pub mod for_use;
pub mod grid;
pub mod images;
pub mod live;
pub mod project;
pub mod record;
pub mod replay;
pub mod revisions;
pub mod rustc;
pub mod service;
pub mod source_text;
pub mod threads;
pub mod threads_cpu;
pub mod workloads;
