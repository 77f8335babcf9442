//! The verbs of tussle as functions: the same libraries and the same texts as those of the command line, without
//! arguments, terminals or exit. What the command line prints is the [`Answer`]'s view, what it exits with its status.

pub mod evidence;
pub mod layouts;
pub mod predict;
pub mod source;

pub use source::Source;

use tussle_render::View;

/// What a verb says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// For any renderer.
    pub view: View,
    /// As the command line would exit: 0 clean, 1 a finding, 2 something could not be judged.
    pub status: u8,
}

impl Answer {
    fn clean(view: View) -> Answer {
        Answer { view, status: 0 }
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
