//! GitHub workflow commands: one annotation per finding.
//! Escapes as in <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.

use crate::tree::{Level, View};

pub(crate) fn render(view: &View) -> String {
    let mut out = String::new();
    for f in crate::findings(view) {
        let command = match f.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "notice",
        };
        let mut fields = Vec::new();
        if let Some(file) = &f.file {
            fields.push(format!("file={}", property(file)));
            fields.extend(f.line.map(|l| format!("line={l}")));
        }
        fields.push(format!("title={}", property(&f.rule)));
        out.push_str(&format!("::{command} {}::{}\n", fields.join(","), data(&f.message)));
    }
    out
}

fn data(s: &str) -> String {
    let text = s.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    crate::text::clean(&text)
}

fn property(s: &str) -> String {
    data(s).replace(':', "%3A").replace(',', "%2C")
}
