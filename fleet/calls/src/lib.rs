//! The verbs of tussle as functions: the same libraries and the same texts as those of the command line, without
//! arguments, terminals or exit. What the command line prints is the [`Answer`]'s view, what it exits with its status.

pub mod evidence;
pub mod layouts;
pub mod predict;
pub mod source;

pub use source::Source;

use tussle_render::glossary::explained;
use tussle_render::{Format, Node, Style, View, render};

/// What a verb says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// For any renderer.
    pub view: View,
    /// What a page shows beside that: text has no room for it.
    pub picture: Option<Node>,
    /// As the command line would exit: 0 clean, 1 a finding, 2 something could not be judged.
    pub status: u8,
}

impl Answer {
    /// Without a picture.
    pub fn new(view: View, status: u8) -> Answer {
        Answer { view, picture: None, status }
    }

    fn clean(view: View) -> Answer {
        Answer::new(view, 0)
    }

    /// One HTML page, as the command line prints it.
    pub fn page(&self) -> String {
        let nodes = self.view.nodes.iter().chain(&self.picture).cloned().collect();
        render(&explained(&View { nodes, ..self.view }), Format::Html, Style::default())
    }
}

/// An error with its causes as the command line prints it, leaving out those that the text before them already says.
pub fn in_full(e: &anyhow::Error) -> String {
    let text = e.chain().skip(1).map(ToString::to_string).fold(e.to_string(), |text, cause| {
        match text.contains(&cause) {
            true => text,
            false => format!("{text}: {cause}"),
        }
    });
    // Those of TOML end with a line feed.
    text.trim_end().to_string()
}
