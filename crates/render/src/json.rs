//! JSON of a view, keys in reading order.

use crate::tree::{Finding, Level, Node, View};
use serde_json::Value;
use std::sync::Arc;

/// A JSON value whose objects keep the order in which keys came (serde_json sorts them).
pub(crate) enum Json {
    Value(Value),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// Text of [`laid_out`].
    Written(Arc<str>),
}

/// JSON text of one element of a [`Node::Written`] that stands among the outermost nodes.
pub fn laid_out(value: &Value) -> Arc<str> {
    let mut out = String::new();
    Json::from_value(value).write(&mut out, 2);
    out.into()
}

impl Json {
    pub(crate) fn text(s: impl Into<String>) -> Json {
        Json::Value(Value::String(s.into()))
    }

    /// Nested values are laid out like everything else.
    fn from_value(v: &Value) -> Json {
        match v {
            Value::Array(items) => Json::Array(items.iter().map(Json::from_value).collect()),
            Value::Object(map) => {
                Json::Object(map.iter().map(|(k, v)| (k.clone(), Json::from_value(v))).collect())
            }
            plain => Json::Value(plain.clone()),
        }
    }

    /// Indented by two blanks a level; arrays and objects of plain values that fit stay on one line.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        inert(out)
    }

    fn compact(&self) -> String {
        match self {
            Json::Value(v) => v.to_string(),
            Json::Written(text) => text.to_string(),
            Json::Array(items) => {
                let items: Vec<String> = items.iter().map(Json::compact).collect();
                format!("[{}]", items.join(", "))
            }
            Json::Object(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(k, v)| format!("{}: {}", quote(k), v.compact())).collect();
                format!("{{{}}}", fields.join(", "))
            }
        }
    }

    fn flat(&self) -> bool {
        match self {
            Json::Value(v) => !v.is_array() && !v.is_object(),
            Json::Written(_) => false,
            Json::Array(items) => {
                items.iter().all(|i| matches!(i, Json::Value(v) if !v.is_array() && !v.is_object()))
            }
            Json::Object(fields) => fields.iter().all(|(_, v)| matches!(v, Json::Value(_))),
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        let line = self.flat().then(|| self.compact()).filter(|l| depth > 0 && l.len() <= 100);
        if let Some(line) = line {
            return out.push_str(&line);
        }
        match self {
            Json::Value(v) => return out.push_str(&v.to_string()),
            Json::Written(text) => return out.push_str(text),
            Json::Array(_) | Json::Object(_) => {}
        }
        let (open, close) = if matches!(self, Json::Array(_)) { ('[', ']') } else { ('{', '}') };
        out.push(open);
        let inner = "  ".repeat(depth + 1);
        let mut first = true;
        let mut next = |out: &mut String| {
            out.push_str(if std::mem::take(&mut first) { "\n" } else { ",\n" });
            out.push_str(&inner);
        };
        match self {
            Json::Array(items) => {
                for item in items {
                    next(out);
                    item.write(out, depth + 1);
                }
            }
            Json::Object(fields) => {
                for (key, value) in fields {
                    next(out);
                    out.push_str(&quote(key));
                    out.push_str(": ");
                    value.write(out, depth + 1);
                }
            }
            Json::Value(_) | Json::Written(_) => {}
        }
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
        out.push(close);
    }
}

/// Marks of the direction of writing and other characters that a screen obeys stand only in strings, where an escape
/// says the same.
fn inert(json: String) -> String {
    let obeyed = |c: char| c != '\n' && crate::text::is_obeyed(c);
    if !json.contains(obeyed) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match obeyed(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

fn quote(s: &str) -> String {
    Value::String(s.into()).to_string()
}

/// The document of a view: `kind`, `schema_version`, then its nodes.
pub(crate) fn render(view: &View) -> String {
    let mut fields = vec![
        ("kind".to_string(), Json::text(view.kind)),
        ("schema_version".into(), num(view.schema_version)),
    ];
    object(&view.nodes, &mut fields);
    Json::Object(fields).pretty()
}

fn num(n: u32) -> Json {
    Json::Value(n.into())
}

fn object(nodes: &[Node], fields: &mut Vec<(String, Json)>) {
    let mut findings = Vec::new();
    for node in nodes {
        match node {
            Node::Section { key, nodes, .. } => {
                let mut inner = Vec::new();
                object(nodes, &mut inner);
                put(fields, key, Json::Object(inner));
            }
            Node::List { key, items } => put(fields, key, Json::Array(items.iter().map(item).collect())),
            Node::Facts(facts) => {
                for f in facts {
                    put(fields, &f.key, Json::from_value(&f.cell.value));
                }
            }
            Node::Table { key, columns, rows } => {
                let row = |cells: &Vec<crate::Cell>| {
                    let mut row = Vec::new();
                    for (c, cell) in columns.iter().zip(cells) {
                        put(&mut row, &c.key, Json::from_value(&cell.value));
                    }
                    Json::Object(row)
                };
                put(fields, key, Json::Array(rows.iter().map(row).collect()));
            }
            Node::Text(_) | Node::Help { .. } => {}
            Node::Block { key, text, .. } => put(fields, key, Json::text(text)),
            Node::Plot(p) if p.key.is_empty() => {}
            Node::Plot(p) => put(fields, &p.key, Json::from_value(&p.json())),
            Node::Bytes(b) => put(fields, &b.key, Json::from_value(&b.json())),
            Node::Finding(f) => findings.push(finding(f)),
            Node::Data { key, value } => put(fields, key, Json::from_value(value)),
            Node::Written { key, items } => {
                put(fields, key, Json::Array(items.iter().cloned().map(Json::Written).collect()));
            }
        }
    }
    if !findings.is_empty() {
        put(fields, "findings", Json::Array(findings));
    }
}

/// One element of a list: a section's content without its key, or an object with the node in it.
fn item(node: &Node) -> Json {
    let mut inner = Vec::new();
    match node {
        Node::Section { nodes, .. } => object(nodes, &mut inner),
        Node::Data { value, .. } => return Json::from_value(value),
        Node::Block { text, .. } => return Json::text(text),
        other => object(std::slice::from_ref(other), &mut inner),
    }
    Json::Object(inner)
}

/// Siblings never share a key; if they do in spite of that, nothing is lost.
fn put(fields: &mut Vec<(String, Json)>, key: &str, value: Json) {
    let taken = |k: &str| fields.iter().any(|(have, _)| have == k);
    let mut name = key.to_string();
    let mut n = 2;
    while taken(&name) {
        name = format!("{key}_{n}");
        n += 1;
    }
    fields.push((name, value));
}

fn finding(f: &Finding) -> Json {
    let level = level(f.level);
    let mut fields = vec![
        ("rule".to_string(), Json::text(&f.rule)),
        ("level".into(), Json::text(level)),
        ("message".into(), Json::text(&f.message)),
    ];
    fields.push(("file".into(), Json::Value(f.file.clone().into())));
    fields.push(("line".into(), Json::Value(f.line.into())));
    for (key, value) in [("help", &f.help), ("fingerprint", &f.fingerprint)] {
        fields.extend(value.as_ref().map(|text| (key.to_string(), Json::text(text))));
    }
    Json::Object(fields)
}

/// The word for a severity, the same in JSON, SARIF and text.
pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    }
}
