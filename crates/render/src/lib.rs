//! One view tree for all output.
//!
//! Commands build a [`View`] once; [`render`] turns it into text, JSON, Markdown, SARIF, GitHub annotations or HTML.
//! Nothing is formatted twice: a [`Cell`] carries its raw value (for JSON) and how it reads (for people).
//! No I/O and no terminal detection here: the caller says which [`Style`] to use.

mod bars;
mod bytes;
mod github;
pub mod glossary;
mod html;
mod json;
mod markdown;
mod plot;
mod sarif;
pub mod schema;
pub mod shell;
mod svg;
mod text;
pub mod tree;

pub use bytes::{Bytes, Phase, Stretch, StretchKind, Use};
pub use json::laid_out;
pub use plot::{Axis, Curve, Dot, Draw, Mark, Plot, Scale};
pub use tree::*;

/// The view in one format, ending in a line feed unless empty. [`Style`] matters for [`Format::Text`] only.
pub fn render(view: &View, format: Format, style: Style) -> String {
    match format {
        Format::Text => text::render(view, style),
        Format::Json => json::render(view),
        Format::Markdown => markdown::render(view),
        Format::Sarif => sarif::render(view),
        Format::Github => github::render(view),
        Format::Html => html::render(view),
    }
}

/// A message of several lines in which nothing but line feeds and tabs is obeyed: paths and names in it may be hostile.
pub fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if text::is_obeyed(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c })
        .collect()
}

/// Text for terminals that have ASCII only: our signs become one ASCII character each, so that columns stay where they
/// are; letters of names are left alone.
pub fn ascii(text: &str) -> String {
    let sign = |c: char| match c {
        '⟷' => '~',
        '←' => '<',
        '→' => '>',
        '·' | '…' => '.',
        '×' => 'x',
        '–' | '—' | '─' => '-',
        '≤' => '<',
        '≥' => '>',
        '│' => '|',
        '█' | '▓' | '▒' | '░' | '▀' | '▄' | '■' => '#',
        other => other,
    };
    text.chars().map(sign).collect()
}

/// Every finding of a view, in reading order, however deep.
pub fn findings(view: &View) -> Vec<&Finding> {
    fn walk<'a>(nodes: &'a [Node], out: &mut Vec<&'a Finding>) {
        for node in nodes {
            match node {
                Node::Finding(f) => out.push(f),
                Node::Section { nodes, .. } | Node::List { items: nodes, .. } => walk(nodes, out),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    walk(&view.nodes, &mut out);
    out
}

#[cfg(test)]
mod tests;
