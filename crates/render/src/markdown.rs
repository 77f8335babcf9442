//! Markdown for issue trackers and mails.

use crate::text::{clean, is_obeyed};
use crate::tree::{Cell, Column, Node, Tone, View};

pub(crate) fn render(view: &View) -> String {
    let mut out = String::new();
    nodes(&view.nodes, 2, &mut out);
    let end = out.trim_end().len();
    out.truncate(end);
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn nodes(list: &[Node], level: usize, out: &mut String) {
    for (node, next) in crate::tree::with_next(list) {
        match node {
            Node::Section { title, nodes: inner, .. } => {
                let next = if title.is_empty() { level } else { level + 1 };
                if !title.is_empty() {
                    out.push_str(&format!("{} {}\n\n", "#".repeat(level.min(6)), escape(title)));
                }
                nodes(inner, next, out);
            }
            Node::List { items, .. } => nodes(items, level, out),
            Node::Facts(facts) => {
                for f in facts.iter().filter(|f| !f.label.is_empty()) {
                    out.push_str(&format!("- {}: {}\n", escape(&f.label), cell(&f.cell)));
                }
                out.push('\n');
            }
            Node::Table { columns, rows, .. } if !rows.is_empty() => table(columns, rows, out),
            Node::Table { .. } | Node::Data { .. } | Node::Written { .. } | Node::Help { .. } => {}
            Node::Text(spans) => {
                let text: String = spans.iter().map(|s| toned(&s.text, s.tone)).collect();
                out.push_str(&text);
                out.push_str("\n\n");
            }
            Node::Block { text, language, .. } => block(text, language, out),
            Node::Plot(p) => figure(&p.title, &p.lines(), out),
            Node::Bytes(b) => figure(&b.title, &b.lines(next), out),
            Node::Finding(f) => {
                let level = crate::json::level(f.level);
                let rule = toned(&f.rule, Tone::Name);
                out.push_str(&format!("- **{level}**: {} ({rule})", escape(&f.message)));
                if let Some(file) = &f.file {
                    let line = f.line.map(|l| format!(":{l}")).unwrap_or_default();
                    out.push_str(&format!(", {}", toned(&format!("{file}{line}"), Tone::Name)));
                }
                out.push_str("\n\n");
            }
        }
    }
}

fn figure(title: &str, lines: &[String], out: &mut String) {
    if !lines.is_empty() {
        out.push_str(&format!("{}\n\n", escape(title)));
        let lines: Vec<String> = lines.iter().map(|l| clean(l)).collect();
        block(&lines.join("\n"), "text", out);
    }
}

fn table(columns: &[Column], rows: &[Vec<Cell>], out: &mut String) {
    let heads: Vec<String> = columns.iter().map(|c| escape(&c.title)).collect();
    out.push_str(&format!("| {} |\n|", heads.join(" | ")));
    for c in columns {
        out.push_str(if c.right { " ---: |" } else { " --- |" });
    }
    out.push('\n');
    for row in rows {
        let text = |(c, value): (&Column, &Cell)| if c.picture { picture(&value.text) } else { cell(value) };
        let cells: Vec<String> = columns.iter().zip(row).map(text).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out.push('\n');
}

/// The fence is longer than any run of backticks inside.
fn block(text: &str, language: &str, out: &mut String) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let text = crate::visible(text);
    out.push_str(&format!("{fence}{language}\n{text}{end}{fence}\n\n"));
}

/// In the font of code, with blanks that stay.
fn picture(text: &str) -> String {
    let mut out = String::from("<code>");
    for c in text.chars() {
        match c {
            ' ' => out.push_str("&nbsp;"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' => out.push(c),
            c if is_obeyed(c) => out.push('\u{fffd}'),
            c => out.push_str(&format!("&#{};", c as u32)),
        }
    }
    out + "</code>"
}

fn cell(c: &Cell) -> String {
    toned(&c.text, c.tone)
}

fn toned(text: &str, tone: Tone) -> String {
    match tone {
        Tone::Name if !text.is_empty() && !text.contains(['`', '|', '\n']) => format!("`{}`", clean(text)),
        Tone::Strong | Tone::Bad if !text.trim().is_empty() => format!("**{}**", escape(text)),
        _ => escape(text),
    }
}

fn escape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => out.extend(['\\', c]),
            // Of an entity; elsewhere the sign stands for itself.
            '&' if chars.peek().is_some_and(|n| n.is_alphanumeric() || *n == '#') => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            c if is_obeyed(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
