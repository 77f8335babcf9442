//! One self-contained HTML page: no request to anywhere, light and dark. Everything is readable without its script,
//! which adds the slider of a drawing, sorting, filtering and paging. Names are hostile: text is escaped here, and
//! the script only ever sets text.

use crate::tree::{Cell, Column, Finding, Node, Tone, View};
use crate::{Bytes, StretchKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Rows of a table that stand in the page; the script takes the others from data when they are asked for.
const ROWS_MAX: usize = 300;

/// Findings in a row that are not folded away: a browser lays out what it shows.
const FINDINGS_MAX: usize = 100;

/// Headings from here on are worth a list of contents.
const CONTENTS_MIN: usize = 4;

/// Colours of threads in `page.css`.
const COLOURS: usize = 8;

pub(crate) fn render(view: &View) -> String {
    let mut page = Page::default();
    page.nodes(&view.nodes, 2, false);
    let kind = escape(&view.kind.replace('_', " "));
    let plots = if has_plot(&view.nodes) { crate::svg::STYLE } else { "" };
    let contents = page.contents();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>tussle {kind}</title>\n<style>{STYLE}{plots}</style>\n</head>\n<body>\n<main>\n<h1>tussle {kind}</h1>\n\
         <div class=\"bar\"><input id=\"q\" type=\"search\" placeholder=\"filter ( / )\" aria-label=\"filter rows and \
         sections\"> <button id=\"theme\" type=\"button\">dark or light</button> <span class=\"d\">keys: / filter, \
         j next, k previous</span></div>\n{contents}{}</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        page.out
    )
}

fn has_plot(nodes: &[Node]) -> bool {
    nodes.iter().any(|n| match n {
        Node::Plot(_) => true,
        Node::Section { nodes, .. } | Node::List { items: nodes, .. } => has_plot(nodes),
        _ => false,
    })
}

#[derive(Default)]
struct Page {
    out: String,
    /// Headings: identifier and title.
    headings: Vec<(String, String)>,
    /// How often an identifier was wanted.
    taken: BTreeMap<String, usize>,
}

impl Page {
    fn nodes(&mut self, list: &[Node], level: usize, items: bool) {
        let both = |a: &Node, b: &Node| matches!((a, b), (Node::Finding(_), Node::Finding(_)));
        for run in list.chunk_by(both) {
            let (shown, folded) = run.split_at(run.len().min(FINDINGS_MAX));
            shown.iter().for_each(|n| self.node(n, level, items));
            if !folded.is_empty() {
                let more = crate::thousands(folded.len() as u64);
                self.out.push_str(&format!("<details><summary>{more} more findings</summary>\n"));
                folded.iter().for_each(|n| self.node(n, level, items));
                self.out.push_str("</details>\n");
            }
        }
    }

    fn node(&mut self, node: &Node, level: usize, items: bool) {
        match node {
            Node::Section { title, nodes, .. } => self.section(title, nodes, level, items),
            Node::List { items, .. } => self.nodes(items, level, true),
            Node::Facts(facts) => {
                self.out.push_str("<dl>\n");
                for f in facts.iter().filter(|f| !f.label.is_empty()) {
                    let (label, value) = (escape(&f.label), cell(&f.cell));
                    self.out.push_str(&format!("<dt>{label}</dt><dd>{value}</dd>\n"));
                }
                self.out.push_str("</dl>\n");
            }
            Node::Table { columns, rows, .. } if !rows.is_empty() => table(columns, rows, &mut self.out),
            Node::Table { .. } | Node::Data { .. } | Node::Written { .. } => {}
            Node::Text(spans) => {
                let text: String = spans.iter().map(|s| toned(&s.text, s.tone)).collect();
                self.out.push_str(&format!("<p>{text}</p>\n"));
            }
            Node::Block { text, language, .. } => block(text, language, &mut self.out),
            Node::Plot(p) => self.out.push_str(&crate::svg::figure(p)),
            Node::Bytes(b) => bytes(b, &mut self.out),
            Node::Help { title, text } => help(title, text, &mut self.out),
            Node::Finding(f) => finding(f, &mut self.out),
        }
    }

    fn section(&mut self, title: &str, nodes: &[Node], level: usize, item: bool) {
        let class = if item { " class=\"item\"" } else { "" };
        if title.is_empty() {
            self.out.push_str(&format!("<section{class}>\n"));
            self.nodes(nodes, level, false);
        } else {
            let (id, text, h) = (self.identifier(title), words(title), level.min(6));
            self.out.push_str(&format!(
                "<section{class} id=\"{id}\">\n<h{h}><a class=\"an\" href=\"#{id}\">{text}</a></h{h}>\n"
            ));
            self.headings.push((id, text));
            self.nodes(nodes, level + 1, false);
        }
        self.out.push_str("</section>\n");
    }

    /// The same in every page of the same report, so that links to it last.
    fn identifier(&mut self, title: &str) -> String {
        let lower = title.to_lowercase();
        let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
        let mut id = words.take(10).collect::<Vec<_>>().join("-");
        id.truncate(80);
        let id = if id.is_empty() { "part".to_string() } else { id };
        let n = self.taken.entry(id.clone()).or_insert(0);
        *n += 1;
        if *n == 1 { id } else { format!("{id}.{n}") }
    }

    fn contents(&self) -> String {
        if self.headings.len() < CONTENTS_MIN {
            return String::new();
        }
        let one = |(id, text): &(String, String)| format!("<li><a href=\"#{id}\">{text}</a></li>\n");
        let list: String = self.headings.iter().take(ROWS_MAX).map(one).collect();
        format!(
            "<nav aria-label=\"contents\"><details><summary>contents</summary><ol>\n{list}</ol></details></nav>\n"
        )
    }
}

fn table(columns: &[Column], rows: &[Vec<Cell>], out: &mut String) {
    let class = |c: &Column| if c.right { " class=\"r\"" } else { "" };
    out.push_str("<div class=\"tb\"><table data-t>\n<thead><tr>");
    for c in columns {
        // A heading without words is none, to who listens.
        match c.title.is_empty() {
            true => out.push_str(&format!("<td{}></td>", class(c))),
            false => out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(c), escape(&c.title))),
        }
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    // drawings of cells are made here alone
    let pictures = columns.iter().any(|c| c.picture);
    let (shown, rest) = rows.split_at(if pictures { rows.len() } else { rows.len().min(ROWS_MAX) });
    for row in shown {
        out.push_str("<tr>");
        for (c, value) in columns.iter().zip(row) {
            let content = if c.picture { crate::svg::cells(&value.text) } else { cell(value) };
            out.push_str(&format!("<td{}>{content}</td>", class(c)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    if !rest.is_empty() {
        let cell = |c: &Cell| json!([c.text, class_of(c.tone)]);
        let rows = rest.iter().map(|r| Value::Array(r.iter().map(cell).collect())).collect();
        out.push_str(&format!("<script type=\"application/json\" class=\"rest\">{}</script>\n", data(&rows)));
        out.push_str(&format!("<noscript>{} more rows need the page's script.</noscript>\n", rest.len()));
    }
    out.push_str("</div>\n");
}

/// JSON that cannot end the element it stands in.
fn data(value: &Value) -> String {
    // Control characters are escaped already.
    let text = value.to_string().replace('<', "\\u003c");
    text.replace(crate::text::is_obeyed, "\u{fffd}")
}

fn block(text: &str, language: &str, out: &mut String) {
    out.push_str("<pre tabindex=\"0\">");
    for line in text.lines() {
        let tone = match (language, line.as_bytes().first()) {
            ("diff", Some(b'+')) => Tone::Good,
            ("diff", Some(b'-')) => Tone::Bad,
            ("diff", Some(b'@')) => Tone::Dim,
            _ => Tone::Plain,
        };
        out.push_str(&toned(line, tone));
        out.push('\n');
    }
    out.push_str("</pre>\n");
}

/// The drawing as it was in this run; the script draws it again for other places, by the same rules.
fn bytes(b: &Bytes, out: &mut String) {
    let rows = b.rows();
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("<figure class=\"by\">\n<figcaption>{}</figcaption>\n", words(&b.title)));
    out.push_str("<div class=\"sc\"><div class=\"lines\">\n");
    for row in &rows {
        let fighters = b.fighters(row);
        let (war, say) = match fighters.len() {
            0 => ("", "nobody fights for this line".to_string()),
            n => (" war", format!("{n} threads fight for this line")),
        };
        out.push_str(&format!(
            "<div class=\"ln{war}\"><span class=\"at\">byte {}</span><div class=\"row\" \
             style=\"grid-template-columns:repeat({},1fr)\">",
            row.start, b.line_bytes
        ));
        row.pieces.iter().for_each(|p| piece(b, p, out));
        out.push_str(&format!("</div><span class=\"say\">{say}</span></div>\n"));
    }
    out.push_str("</div></div>\n<ul>\n");
    for (i, name) in b.threads.iter().enumerate() {
        let colour = i % COLOURS;
        out.push_str(&format!(
            "<li><span class=\"k\" style=\"background:var(--t{colour})\"></span>{}</li>\n",
            escape(name)
        ));
    }
    let marks = "thick foot: stored to; stripes: several threads; hatched: hole; italic: another object";
    out.push_str(&format!("<li class=\"d\">{marks}</li>\n"));
    out.push_str("</ul>\n<div class=\"det\" aria-live=\"polite\"></div>\n");
    out.push_str(&format!("<script type=\"application/json\">{}</script>\n</figure>\n", data(&b.json())));
}

fn piece(b: &Bytes, p: &crate::bytes::Piece, out: &mut String) {
    let s = &b.stretches[p.stretch];
    let mut class = String::from("c");
    let marks = [
        (s.kind == StretchKind::Hole, " h"),
        (s.kind == StretchKind::Neighbour, " nb"),
        (s.uses.is_empty(), " no"),
        (s.uses.iter().any(|u| u.writes > 0), " st"),
    ];
    marks.iter().filter(|(holds, _)| *holds).for_each(|(_, mark)| class.push_str(mark));
    let colour = s.uses.first().map_or(String::new(), |u| format!(";--c:var(--t{})", u.thread % COLOURS));
    let (words, short) = (escape(&b.words(s)), escape(&s.short));
    out.push_str(&format!(
        "<span class=\"{class}\" style=\"grid-column:{}/span {}{colour}\" title=\"{words}\">{short}</span>",
        p.column + 1,
        p.size
    ));
}

fn help(title: &str, text: &str, out: &mut String) {
    out.push_str(&format!("<details><summary>{}</summary>\n", escape(title)));
    for paragraph in text.split("\n\n").map(str::trim_end).filter(|p| !p.is_empty()) {
        let lines: Vec<&str> = paragraph.lines().collect();
        out.push_str(&match paragraph {
            p if p.starts_with("- ") => listed(&lines),
            p if p.starts_with("  ") => {
                format!("<pre>{}</pre>\n", lines.into_iter().map(escape).collect::<Vec<_>>().join("\n"))
            }
            _ => format!("<p>{}</p>\n", words(&lines.join(" "))),
        });
    }
    out.push_str("</details>\n");
}

/// Items that begin with `- `, each over several lines.
fn listed(lines: &[&str]) -> String {
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), items.last_mut()) {
            (None, Some(item)) => *item += &format!(" {}", line.trim()),
            (begun, _) => items.push(begun.unwrap_or(line).to_string()),
        }
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", words(item))).collect();
    format!("<ul>\n{items}</ul>\n")
}

fn finding(f: &Finding, out: &mut String) {
    let mut place = String::new();
    if let Some(file) = &f.file {
        let line = f.line.map(|l| format!(":{l}")).unwrap_or_default();
        place = format!(" <span class=\"d\">{}{line}</span>", escape(file));
    }
    let level = crate::json::level(f.level);
    let (rule, message) = (escape(&f.rule), words(&f.message));
    out.push_str(&format!("<p class=\"f\"><span class=\"b\">{level}</span> {message} [{rule}]{place}</p>\n"));
}

fn cell(c: &Cell) -> String {
    toned(&c.text, c.tone)
}

/// The class of an emphasis in `page.css`; empty for none.
fn class_of(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Name => "n",
        Tone::Strong => "s",
        Tone::Dim => "d",
        Tone::Good => "g",
        Tone::Bad => "b",
        Tone::Warn => "w",
    }
}

fn toned(text: &str, tone: Tone) -> String {
    match class_of(tone) {
        "" => words(text),
        class => format!("<span class=\"{class}\">{}</span>", words(text)),
    }
}

/// Text in which `code` is set as code.
fn words(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape).collect();
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        match i % 2 {
            0 => out.push_str(part),
            // The last one has no end.
            _ if i + 1 == parts.len() => out.extend(["`", part]),
            _ => out.extend(["<code>", part, "</code>"]),
        }
    }
    out
}

pub(crate) fn escape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if crate::text::is_obeyed(c) && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
