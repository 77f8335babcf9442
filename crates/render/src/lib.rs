//! One view tree for all output.
//!
//! Commands build a [`View`] once; [`render`] turns it into text, JSON, Markdown, SARIF, GitHub annotations or HTML.
//! Nothing is formatted twice: a [`Cell`] carries its raw value (for JSON) and how it reads (for people).
//! No I/O and no terminal detection here: the caller says which [`Style`] to use.

pub mod tree;

pub use tree::*;
