//! A program's file as it is built for use: how often its code stores to a variable.

use std::path::Path;
use tussle_debuginfo::symbols::Symbols;

pub use tussle_live::stores::Stores;

/// Answers a question about the program; `None` where its file cannot be read or has no symbols.
pub fn ask<T>(exe: &Path, question: impl FnOnce(&Stores<'_>) -> T) -> Option<T> {
    let image = std::fs::read(exe).ok()?;
    let (symbols, _) = Symbols::read(&image, None).ok()?;
    let stores = Stores::new(&symbols, &image)?;
    Some(question(&stores))
}
