//! Advice from samples: the pairs and what parts them, without a size.

use tussle_advise::Edit;
use tussle_advise::apart::Parting;
use tussle_advise::signs::{Meeting, Signs};
use tussle_render::{Cell, Column, Node, Span, Tone, View, shell, thousands};

/// Version of the JSON document.
pub const SCHEMA_VERSION: u32 = 1;

/// What the numbers are not.
const SIZE: &str = "These edits part the pair; how much that brings is unknown: samples tell neither who stored nor \
                    how often. Measure both builds.";
/// For a lock's own words.
const ONE_MEMBER: &str = "Both belong to one member. For a lock's own words apart can help or harm: it hangs on how \
                          long waiters wait.";

/// What `tussle advise` prints for imported samples.
pub fn view(signs: &Signs) -> View {
    let mut nodes = nodes(signs);
    nodes.push(Node::Data { key: "unit".into(), value: signs.unit.clone().into() });
    if let Some(first) = signs.meetings.iter().find_map(|m| m.partings.first()) {
        nodes.push(plain(format!("Patch: {}", patch(signs, first))));
    }
    View { kind: "advise_samples", schema_version: SCHEMA_VERSION, nodes }
}

/// The command that makes an edit.
pub fn patch(signs: &Signs, parting: &Parting) -> String {
    fix(&signs.type_name, &parting.edits)
}

/// The command that makes edits of a type.
pub fn fix(type_name: &str, edits: &[Edit]) -> String {
    let moves: String = edits.iter().map(|e| format!(" --move {}", shell::quoted(&e.to_string()))).collect();
    format!("tussle fix -C {}{moves}", shell::quoted(type_name))
}

/// The pairs of one struct.
pub fn nodes(signs: &Signs) -> Vec<Node> {
    let mut out = vec![Node::Data { key: "type".into(), value: signs.type_name.clone().into() }];
    if signs.meetings.is_empty() {
        let words = "no two of its fields with samples share a line: nothing to part";
        out.push(plain(format!("{}: {words}.", signs.type_name)));
    }
    let items = signs.meetings.iter().enumerate().map(|(i, m)| meeting(i + 1, signs, m)).collect();
    out.push(Node::List { key: "pairs".into(), items });
    if signs.meetings.iter().any(|m| !m.partings.is_empty()) {
        out.push(dim(SIZE));
    }
    out
}

fn plain(words: impl Into<String>) -> Node {
    Node::Text(vec![Span::plain(words.into())])
}

fn dim(words: &str) -> Node {
    Node::Text(vec![Span { text: words.into(), tone: Tone::Dim }])
}

fn meeting(rank: usize, signs: &Signs, m: &Meeting) -> Node {
    let title = format!(
        "{rank}. {}: {} ({} {}) shares a line with {} ({})",
        signs.type_name,
        m.a,
        thousands(m.samples.0),
        signs.unit,
        m.b,
        thousands(m.samples.1)
    );
    let data = |key: &str, value: serde_json::Value| Node::Data { key: key.into(), value };
    let mut nodes = vec![
        data("field", m.a.clone().into()),
        data("other", m.b.clone().into()),
        data("samples", m.samples.0.into()),
        data("samples_other", m.samples.1.into()),
        data("phases", m.phases.clone().into()),
        data("one_member", m.one_member.into()),
    ];
    if m.one_member {
        nodes.push(plain(ONE_MEMBER));
    }
    match m.partings.is_empty() {
        true => nodes.push(plain("No move, exchange or alignment of its members parts them.")),
        false => nodes.push(table(m)),
    }
    Node::Section { key: format!("pair_{rank}"), title, nodes }
}

fn table(m: &Meeting) -> Node {
    let columns = vec![
        Column::text("edits", "change"),
        Column::text("apart", "the pair is apart"),
        Column::number("bytes_added", "bytes"),
        Column::text("moved", "members whose line changes"),
        Column::text("joined", "hot fields that meet it then"),
    ];
    let row = |p: &Parting| {
        let edits: Vec<String> = p.edits.iter().map(Edit::to_string).collect();
        let joined: Vec<String> = p.joined.iter().map(|j| format!("{} with {}", j.0, j.1)).collect();
        let bytes = Cell::value(p.bytes_added, format!("{:+}", p.bytes_added));
        vec![
            Cell::text(edits.join(" ")).tone(Tone::Name),
            Cell::text(apart(p, &m.phases)),
            bytes,
            Cell::text(some(&p.moved)),
            Cell::text(some(&joined)),
        ]
    };
    Node::Table { key: "changes".into(), columns, rows: m.partings.iter().map(row).collect() }
}

/// At which phases.
fn apart(p: &Parting, phases: &[u64]) -> String {
    match p.phases_left.as_slice() {
        [] => "yes".into(),
        left => {
            let left: Vec<String> = left.iter().map(u64::to_string).collect();
            format!("not at phase {} of {}", left.join(" "), phases.len())
        }
    }
}

/// The first few of a list.
fn some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(4).map(String::as_str).collect();
    let more = if names.len() > 4 { format!(" and {} more", names.len() - 4) } else { String::new() };
    shown.join(", ") + &more
}
