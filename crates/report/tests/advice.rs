//! The list of advice as text and as JSON.

use tussle_advise::advice::{Options, advise};
use tussle_evidence::sample::Sample;
use tussle_render::{Format, Style, render};
use tussle_report::advice;

#[test]
fn the_view_is_the_same_in_text_and_json() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let (a, b) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    let names = ["lock", "hits", "c", "d", "e", "f", "g", "h", "i"];
    let members: Vec<_> = names.iter().zip(0u64..).map(|(n, i)| (*n, long, 8 * i)).collect();
    let ty = s.structure("s", 72, &members);
    let o = s.global("g", 0x1000, 72, Some(ty), 64);
    s.access(o, 0, 8, a, (0, 1_000_000), [0, 0, 400_000]);
    s.access(o, 8, 8, b, (0, 1_000_000), [0, 400_000, 0]);
    let report = advise(&s.evidence(), "s", &Options::default()).expect("a report");
    let view = advice::view(&report);
    let text = render(&view, Format::Text, Style::default());
    assert!(text.contains("g.hits and g.lock no longer share a line"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&render(&view, Format::Json, Style::default())).expect("JSON");
    assert_eq!(json["schema_version"], 1);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/advise.json");
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON");
    let (known, got) = (schema["properties"].as_object(), json.as_object());
    let (known, got) = (known.expect("properties"), got.expect("an object"));
    assert!(got.keys().all(|k| known.contains_key(k)), "{:?}", got.keys());
    let required = schema["required"].as_array().expect("a list");
    assert!(required.iter().all(|k| k.as_str().is_some_and(|k| got.contains_key(k))));
    assert_eq!(json["advice"].as_array().map(Vec::len), Some(report.advices.len()));
}
