//! The tree itself.

use serde_json::Value;
use std::sync::Arc;

/// Everything that one command prints on stdout.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Name of the JSON document: `layout`, `report`, `advise`, ...
    pub kind: &'static str,
    /// Version of that document's schema.
    pub schema_version: u32,
    /// Content in reading order.
    pub nodes: Vec<Node>,
}

/// One piece of a view. `key` is its name in JSON (snake_case); two siblings never share one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Node {
    /// A titled group; a JSON object. An empty title prints no heading.
    Section {
        /// JSON name.
        key: String,
        /// Heading.
        title: String,
        /// Content.
        nodes: Vec<Node>,
    },
    /// A sequence of similar groups; a JSON array of objects.
    List {
        /// JSON name.
        key: String,
        /// One [`Node::Section`] (or other node) each.
        items: Vec<Node>,
    },
    /// Label and value pairs; merged into the enclosing JSON object under each item's own key.
    Facts(Vec<Fact>),
    /// A table; a JSON array of objects keyed by column.
    Table {
        /// JSON name.
        key: String,
        /// Columns.
        columns: Vec<Column>,
        /// Rows of as many cells as there are columns.
        rows: Vec<Vec<Cell>>,
    },
    /// A paragraph for people; not in JSON.
    Text(Vec<Span>),
    /// Preformatted text (pahole text, a patch); a JSON string.
    Block {
        /// JSON name.
        key: String,
        /// `c`, `diff`, `text`, ...
        language: &'static str,
        /// Content; colour is chosen from the language.
        text: String,
    },
    /// Something that fails a check: shown in every format, and all that SARIF and GitHub annotations show.
    Finding(Finding),
    /// Points with intervals: characters in text and Markdown, data in JSON, a picture in HTML.
    Plot(crate::plot::Plot),
    /// Bytes in cache lines: letters in text and Markdown, data in JSON, cells to look into in HTML.
    Bytes(Box<crate::bytes::Bytes>),
    /// What a word means, folded; HTML only.
    Help {
        /// The word.
        title: String,
        /// Its passage, in paragraphs parted by empty lines.
        text: String,
    },
    /// JSON only.
    Data {
        /// JSON name.
        key: String,
        /// Value.
        value: Value,
    },
    /// JSON only: a list whose elements [`crate::laid_out`] has written already. Values take ten times the memory of
    /// their text.
    Written {
        /// JSON name.
        key: String,
        /// Text of each element.
        items: Vec<Arc<str>>,
    },
}

/// Nodes, each with the drawing of bytes that comes right after it.
pub(crate) fn with_next(nodes: &[Node]) -> impl Iterator<Item = (&Node, Option<&crate::bytes::Bytes>)> {
    let next = |i: usize| match nodes.get(i + 1) {
        Some(Node::Bytes(b)) => Some(&**b),
        _ => None,
    };
    nodes.iter().enumerate().map(move |(i, n)| (n, next(i)))
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// JSON name.
    pub key: String,
    /// What people read.
    pub label: String,
    /// Value.
    pub cell: Cell,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// JSON name, unit last (`size_bytes`).
    pub key: String,
    /// Heading.
    pub title: String,
    /// Numbers stand right, text left.
    pub right: bool,
    /// A picture of characters: every blank counts.
    pub picture: bool,
    /// On a terminal too narrow for all columns those of the highest rank go first; 0 always stays.
    pub rank: u8,
}

impl Column {
    /// A left-aligned column.
    pub fn text(key: &str, title: &str) -> Column {
        Column { key: key.into(), title: title.into(), right: false, picture: false, rank: 0 }
    }

    /// A right-aligned column.
    pub fn number(key: &str, title: &str) -> Column {
        Column { key: key.into(), title: title.into(), right: true, picture: false, rank: 0 }
    }

    /// A column of pictures, one character a cell: letters are drawn as boxes where there is room for them.
    pub fn picture(key: &str, title: &str) -> Column {
        Column { picture: true, ..Column::text(key, title) }
    }

    /// Text that may go over several lines.
    pub(crate) fn wraps(&self) -> bool {
        !self.right && !self.picture
    }

    /// The same column, given up on narrow terminals before those of a lower rank.
    pub fn rank(self, rank: u8) -> Column {
        Column { rank, ..self }
    }
}

/// A value and how it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// For JSON. `Null` means unknown, never zero.
    pub value: Value,
    /// For people.
    pub text: String,
    /// Emphasis.
    pub tone: Tone,
}

impl Cell {
    /// Text that is its own value.
    pub fn text(s: impl Into<String>) -> Cell {
        let text = s.into();
        Cell { value: Value::String(text.clone()), text, tone: Tone::Plain }
    }

    /// A count, with thousands separated by commas for people.
    pub fn count(n: u64) -> Cell {
        Cell { value: n.into(), text: thousands(n), tone: Tone::Plain }
    }

    /// A number with its own printed form.
    pub fn number(value: f64, text: impl Into<String>) -> Cell {
        let value = serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number);
        Cell { value, text: text.into(), tone: Tone::Plain }
    }

    /// Not known.
    pub fn unknown() -> Cell {
        Cell { value: Value::Null, text: "unknown".into(), tone: Tone::Dim }
    }

    /// Any value with its own printed form.
    pub fn value(value: impl Into<Value>, text: impl Into<String>) -> Cell {
        Cell { value: value.into(), text: text.into(), tone: Tone::Plain }
    }

    /// With emphasis.
    pub fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }
}

/// `1234567` as `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 process`, `2,000 processes`.
pub fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n as u64), if n == 1 { one } else { many })
}

/// An offset as house style has it: `120 (0x78)`, because a decimal 120 written as 0x120 fooled readers for years.
pub fn offset(bytes: u64) -> String {
    format!("{bytes} (0x{bytes:x})")
}

/// A run of text with one emphasis.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Emphasis.
    pub tone: Tone,
}

impl Span {
    /// Plain text.
    pub fn plain(text: impl Into<String>) -> Span {
        Span { text: text.into(), tone: Tone::Plain }
    }
}

/// Emphasis, mapped to colour, bold or markup by each renderer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// Names of fields and types.
    Name,
    /// Headings and totals.
    Strong,
    /// Less important.
    Dim,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Doubt.
    Warn,
}

/// A violated rule or a contended line, for CI.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// Stable identifier (`false-sharing`, `separate`).
    pub rule: String,
    /// How bad.
    pub level: Level,
    /// One sentence.
    pub message: String,
    /// Declaration of the field, if known.
    pub file: Option<String>,
    /// 1-based line in `file`.
    pub line: Option<u32>,
    /// What to do about it; the same for all findings of a rule.
    pub help: Option<String>,
    /// The same for the same fault in other runs and builds.
    pub fingerprint: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Fails the check.
    #[default]
    Error,
    /// Does not fail it.
    Warning,
    /// For information.
    Note,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Markdown.
    Markdown,
    /// SARIF 2.1.0.
    Sarif,
    /// GitHub workflow annotations.
    Github,
    /// One self-contained page.
    Html,
}

/// How text may be decorated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours allowed.
    pub colour: bool,
    /// Columns of the terminal; `None` means do not wrap.
    pub width: Option<usize>,
}
