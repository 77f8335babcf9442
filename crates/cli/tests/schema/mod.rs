//! What several tests of the command line ask.

use serde_json::Value;

/// Holds a document against a schema of `docs/schema`.
#[track_caller]
pub fn keeps_to(schema: &str, document: &Value) {
    let path = format!("{}/../../docs/schema/{schema}.json", env!("CARGO_MANIFEST_DIR"));
    let rules = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(tussle_render::schema::violations(&rules, document), Vec::<String>::new(), "{document}");
}
