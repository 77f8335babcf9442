//! Samples of running programs to evidence: no rebuild, no PMU, no I/O here.
//!
//! `tussle-host` opens perf's software clock on the threads of a program and hands over the bytes of its rings. A
//! sample holds the registers at an interrupted instruction, so the address that the instruction is about to access is
//! known ([`address`]), often also that of the one before it ([`code`]). Where a PMU samples loads and stores, it tells
//! the address itself ([`precise`]). What threads touch is summed by cache line
//! ([`lines`]); words of lines that several threads touch are watched by debug registers ([`confirm`]); [`convert`]
//! makes evidence of it all. [`stores`] reads a program's file, not a running one: how often its code stores to a
//! variable.

pub mod address;
pub mod code;
pub mod confirm;
pub mod convert;
pub mod decode;
pub mod flow;
pub mod image;
pub mod jit;
pub mod kallsyms;
pub mod kernel;
mod kernel_types;
pub mod lines;
pub mod maps;
pub mod precise;
pub mod registers;
pub mod session;
pub mod stores;
pub mod turns;
