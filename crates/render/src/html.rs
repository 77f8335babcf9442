//! One self-contained HTML page: no script, no request to anywhere, light and dark.

use crate::tree::{Cell, Column, Finding, Node, Tone, View};

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#66707a;--name:#0b6e99;--good:#1a7f37;--bad:#c62828;\
--warn:#9a6700;--rule:#d8dee4;--soft:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--fg:#dce3ea;--bg:#14181d;--dim:#8b96a1;--name:#6cc7ec;--good:#57c26c;\
--bad:#ff7b72;--warn:#e0b040;--rule:#303841;--soft:#1b2128}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:72rem;margin:2rem auto;\
padding:0 1rem}h1,h2,h3,h4{line-height:1.25;margin:1.6em 0 .5em}table{border-collapse:collapse;margin:.6em 0 1.2em;\
display:block;overflow-x:auto}th,td{padding:.25em .8em;text-align:left;border-bottom:1px solid var(--rule);\
vertical-align:top}th{color:var(--dim);font-weight:600}.r{text-align:right;font-variant-numeric:tabular-nums}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1.2em;margin:.6em 0}dt{color:var(--dim)}dd{margin:0}\
pre{background:var(--soft);padding:.8em 1em;overflow-x:auto;border-radius:6px}.n{color:var(--name);\
font-family:ui-monospace,monospace}.s{font-weight:600}.d{color:var(--dim)}.g{color:var(--good)}.b{color:var(--bad);\
font-weight:600}.w{color:var(--warn)}.f{border-left:4px solid var(--bad);padding:.3em .8em;background:var(--soft);\
margin:.5em 0}";

pub(crate) fn render(view: &View) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>tussle {0}</title>\n<style>{STYLE}{plots}</style>\n</head>\n<body>\n<h1>tussle {0}</h1>\n",
        escape(view.kind),
        plots = if has_plot(&view.nodes) { crate::svg::STYLE } else { "" }
    );
    nodes(&view.nodes, 2, &mut out);
    out.push_str("</body>\n</html>\n");
    out
}

fn has_plot(nodes: &[Node]) -> bool {
    nodes.iter().any(|n| match n {
        Node::Plot(_) => true,
        Node::Section { nodes, .. } | Node::List { items: nodes, .. } => has_plot(nodes),
        _ => false,
    })
}

fn nodes(list: &[Node], level: usize, out: &mut String) {
    for node in list {
        match node {
            Node::Section { title, nodes: inner, .. } => {
                let h = level.min(6);
                if !title.is_empty() {
                    out.push_str(&format!("<h{h}>{}</h{h}>\n", escape(title)));
                }
                out.push_str("<section>\n");
                nodes(inner, if title.is_empty() { level } else { level + 1 }, out);
                out.push_str("</section>\n");
            }
            Node::List { items, .. } => nodes(items, level, out),
            Node::Facts(facts) => {
                out.push_str("<dl>\n");
                for f in facts.iter().filter(|f| !f.label.is_empty()) {
                    out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(&f.label), cell(&f.cell)));
                }
                out.push_str("</dl>\n");
            }
            Node::Table { columns, rows, .. } if !rows.is_empty() => table(columns, rows, out),
            Node::Table { .. } | Node::Data { .. } => {}
            Node::Text(spans) => {
                let text: String = spans.iter().map(|s| toned(&s.text, s.tone)).collect();
                out.push_str(&format!("<p>{text}</p>\n"));
            }
            Node::Block { text, language, .. } => block(text, language, out),
            Node::Plot(p) => out.push_str(&crate::svg::figure(p)),
            Node::Finding(f) => finding(f, out),
        }
    }
}

fn table(columns: &[Column], rows: &[Vec<Cell>], out: &mut String) {
    let class = |c: &Column| if c.right { " class=\"r\"" } else { "" };
    out.push_str("<table>\n<thead><tr>");
    for c in columns {
        out.push_str(&format!("<th{}>{}</th>", class(c), escape(&c.title)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (c, value) in columns.iter().zip(row) {
            let content = if c.picture { crate::svg::cells(&value.text) } else { cell(value) };
            out.push_str(&format!("<td{}>{content}</td>", class(c)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}

fn block(text: &str, language: &str, out: &mut String) {
    out.push_str("<pre>");
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

fn finding(f: &Finding, out: &mut String) {
    let mut place = String::new();
    if let Some(file) = &f.file {
        let line = f.line.map(|l| format!(":{l}")).unwrap_or_default();
        place = format!(" <span class=\"d\">{}{line}</span>", escape(file));
    }
    let level = crate::json::level(f.level);
    let (rule, message) = (escape(&f.rule), escape(&f.message));
    out.push_str(&format!("<p class=\"f\"><span class=\"b\">{level}</span> {message} [{rule}]{place}</p>\n"));
}

fn cell(c: &Cell) -> String {
    toned(&c.text, c.tone)
}

fn toned(text: &str, tone: Tone) -> String {
    let class = match tone {
        Tone::Plain => return escape(text),
        Tone::Name => "n",
        Tone::Strong => "s",
        Tone::Dim => "d",
        Tone::Good => "g",
        Tone::Bad => "b",
        Tone::Warn => "w",
    };
    format!("<span class=\"{class}\">{}</span>", escape(text))
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
            c if c.is_control() && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
