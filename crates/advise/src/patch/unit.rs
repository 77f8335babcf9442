//! The text that moves with a statement: whole lines with its comments, or just the statement if lines are shared.

use std::ops::Range;

use super::body::{Body, Source, Statement};
use super::lex::Kind;

/// What moves when a statement moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of the source: from the first comment to behind the last newline, or just the statement.
    pub range: Range<usize>,
    /// Bytes of the statement alone.
    pub bare: Range<usize>,
    /// Whole lines.
    pub whole_lines: bool,
    /// Has comments of its own inside `range`.
    pub comments: bool,
}

/// The unit of statement `at`.
pub fn unit(source: &Source<'_>, body: &Body, statements: &[Statement], at: usize) -> Unit {
    let s = &statements[at];
    let bare = source.tokens[s.first].start..source.tokens[s.last].end;
    let floor = if at == 0 { body.open + 1 } else { tail(source, &statements[at - 1]).0 };
    let (end, closed) = tail(source, s);
    let head = head(source, s.first, floor);
    match (head, closed) {
        (Some(first), true) => {
            let range = source.tokens[first].start..source.tokens[end - 1].end;
            let comments = (first..end).any(|i| is_comment(source, i));
            Unit { range, bare, whole_lines: true, comments }
        }
        _ => {
            let near = (floor..s.first).chain(s.last + 1..end).any(|i| is_comment(source, i));
            Unit { range: bare.clone(), bare, whole_lines: false, comments: near }
        }
    }
}

fn is_comment(source: &Source<'_>, i: usize) -> bool {
    matches!(source.tokens[i].kind, Kind::LineComment | Kind::BlockComment)
}

/// Token behind the statement's trailing comments and newline, and whether its line ends there.
fn tail(source: &Source<'_>, s: &Statement) -> (usize, bool) {
    let mut i = s.last + 1;
    let mut column = None;
    while let Some(token) = source.tokens.get(i) {
        match token.kind {
            Kind::Space => {}
            Kind::BlockComment => {}
            Kind::LineComment => column = Some(column_of(source, i)),
            Kind::Newline => return (continued(source, i + 1, column), true),
            _ => return (i, false),
        }
        i += 1;
    }
    (i, false)
}

/// Lines of nothing but a `//` comment right below a trailing one continue it.
fn continued(source: &Source<'_>, mut from: usize, column: Option<usize>) -> usize {
    let Some(column) = column else { return from };
    loop {
        let mut i = from;
        while source.tokens.get(i).is_some_and(|t| t.kind == Kind::Space) {
            i += 1;
        }
        let comment = source.tokens.get(i).is_some_and(|t| t.kind == Kind::LineComment);
        let ended = source.tokens.get(i + 1).is_some_and(|t| t.kind == Kind::Newline);
        if !comment || !ended || column_of(source, i) != column {
            return from;
        }
        from = i + 2;
    }
}

/// Bytes from the start of the line, tabs counted to multiples of 8.
fn column_of(source: &Source<'_>, i: usize) -> usize {
    let start = source.tokens[i].start;
    let line = source.text[..start].rfind('\n').map_or(0, |n| n + 1);
    source.text[line..start].chars().fold(0, |n, c| if c == '\t' { (n / 8 + 1) * 8 } else { n + 1 })
}

/// First token of the statement's lines with the comment block right above; `None` if its line begins with other code.
fn head(source: &Source<'_>, first: usize, floor: usize) -> Option<usize> {
    let mut start = line_start(source, first, floor)?;
    loop {
        // The line above: `[Space] (comment [Space])+ Newline`.
        if start <= floor || source.tokens[start - 1].kind != Kind::Newline {
            return Some(start);
        }
        let mut i = start - 1;
        let mut comment = false;
        while i > floor
            && matches!(source.tokens[i - 1].kind, Kind::Space | Kind::BlockComment | Kind::LineComment)
        {
            i -= 1;
            comment |= is_comment(source, i);
        }
        let clean = i > 0 && source.tokens[i - 1].kind == Kind::Newline;
        if !comment || !clean || i < floor {
            return Some(start);
        }
        start = i;
    }
}

fn line_start(source: &Source<'_>, first: usize, floor: usize) -> Option<usize> {
    let mut i = first;
    while i > floor && matches!(source.tokens[i - 1].kind, Kind::Space | Kind::BlockComment) {
        i -= 1;
    }
    (i > 0 && source.tokens[i - 1].kind == Kind::Newline).then_some(i)
}

/// Blanks at the beginning of the line that holds byte `at`.
pub fn indent_of(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let rest = &text[line..];
    &rest[..rest.find(|c| c != ' ' && c != '\t').unwrap_or(0)]
}
