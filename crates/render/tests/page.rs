//! The page in a real browser: its script runs, draws, and lets no name become markup.

use std::process::Command;
use tussle_render::*;

const EVIL: &str = "</script><img src=x onerror=\"document.body.dataset.evil=1\">";

fn page() -> View {
    let used = |start, thread| Stretch {
        start,
        size: 8,
        name: EVIL.into(),
        short: EVIL.into(),
        uses: vec![Use { thread, reads: 1, writes: 5 }],
        code: vec![EVIL.into()],
        ..Stretch::default()
    };
    let hole = Stretch { start: 8, size: 40, kind: StretchKind::Hole, ..Stretch::default() };
    let drawn = Bytes {
        key: "bytes".into(),
        title: EVIL.into(),
        line_bytes: 64,
        phase_bytes: 16,
        phases: [0, 16, 32, 48].map(|bytes| Phase { bytes, expected_invalidations: Some(7) }).to_vec(),
        threads: vec![EVIL.into(), "worker".into()],
        stretches: vec![used(0, 0), hole, used(48, 1)],
        beyond: Vec::new(),
    };
    let rows = (0..10_000).map(|i| vec![Cell::count(i), Cell::text(EVIL)]).collect();
    let columns = vec![Column::number("n", "n"), Column::text("name", EVIL)];
    let table = Node::Table { key: "lines".into(), columns, rows };
    let help = Node::Help { title: EVIL.into(), text: EVIL.into() };
    let nodes = vec![Node::Bytes(Box::new(drawn)), table, help];
    let section = Node::Section { key: "s".into(), title: EVIL.into(), nodes };
    View { kind: "report", schema_version: 1, nodes: vec![section] }
}

/// The document after its script ran.
fn in_browser(html: &str) -> Option<String> {
    if !tussle_testkit::wish("chromium") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, html).expect("a page");
    let dump = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium runs");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    Some(String::from_utf8(dump.stdout).expect("UTF-8"))
}

#[test]
fn the_script_draws_and_names_stay_text() {
    let html = render(&page(), Format::Html, Style::default());
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    let Some(dom) = in_browser(&html) else { return };
    assert!(dom.contains("data-ready=\"1\""), "the script ended early");
    assert!(!dom.contains("data-evil") && !dom.contains("<img"));
    // two fields and the hole between them: the second field begins the next line
    assert_eq!(dom.matches("<button class=\"c").count(), 3);
    assert_eq!(dom.matches("nobody fights for this line").count(), 2 + 1, "two lines, and the script itself");
    assert!(dom.contains("type=\"range\"") && dom.contains("16 bytes into a line, as drawn first"));
    assert!(dom.contains("show 300 more of 9,700"));
}
