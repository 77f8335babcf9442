//! Verdicts and proposals on lines of other sizes, in words.

use crate::fact;
use serde_json::json;
use tussle_advise::class::Class;
use tussle_advise::lines::{Left, Verdict};
use tussle_render::{Cell, Fact, thousands};

/// `64 bytes`, `128 (Apple, POWER, pairs of lines on x86)`, `256 (s390)`.
pub fn name(line_bytes: u64) -> String {
    match line_bytes {
        128 => "128 (Apple, POWER, pairs of lines on x86)".into(),
        256 => "256 (s390)".into(),
        _ => format!("{line_bytes} bytes"),
    }
}

/// What a fight is on lines of each size.
pub(crate) fn verdicts(of: &[Verdict]) -> Fact {
    let value: Vec<_> = of
        .iter()
        .map(|v| json!({ "line_bytes": v.line_bytes, "transfers": whole(v.transfers), "class": v.class.words() }))
        .collect();
    fact("by_line", "lines", Cell::value(value, sentence(of)))
}

/// `64 bytes: harmless; 128 (..), 256 (s390): a layout helps, 559,046 and 600,000 transfers`.
fn sentence(of: &[Verdict]) -> String {
    let same = |a: &Verdict, b: &Verdict| a.class == b.class;
    let chunks: Vec<String> = of.chunk_by(same).map(chunk).collect();
    chunks.join("; ")
}

fn chunk(of: &[Verdict]) -> String {
    let names: Vec<String> = of.iter().map(|v| name(v.line_bytes.into())).collect();
    let class = of.first().map_or(Class::Small, |v| v.class);
    let words = if class == Class::Small { "harmless" } else { class.words() };
    let mut costs: Vec<u64> = of.iter().map(|v| whole(v.transfers)).collect();
    costs.dedup();
    let costs: Vec<String> = costs.into_iter().map(thousands).collect();
    let cost =
        if class == Class::Small { String::new() } else { format!(", {} transfers", costs.join(", ")) };
    format!("{}: {words}{cost}", names.join(", "))
}

/// `holds for lines of 64 bytes; 128 (..): 280,000 of 559,046 transfers are left`.
pub(crate) fn left(of: &[Left]) -> String {
    let (holds, open): (Vec<&Left>, Vec<&Left>) = of.iter().partition(|l| l.holds);
    let names: Vec<String> = holds.iter().map(|l| name(l.line_bytes.into())).collect();
    let said = (!names.is_empty()).then(|| format!("holds for lines of {}", names.join(", ")));
    let part = |l: &&Left| {
        let (after, before) = (thousands(whole(l.after)), thousands(whole(l.before)));
        format!("{}: {after} of {before} transfers are left", name(l.line_bytes.into()))
    };
    said.into_iter().chain(open.iter().map(part)).collect::<Vec<_>>().join("; ")
}

/// What to ask where a layout helps on wider lines only.
pub(crate) fn on_wider(type_name: &str, helped: &[u32], line_bytes: u32) -> String {
    let names: Vec<String> = helped.iter().map(|b| name((*b).into())).collect();
    let (names, ty) = (names.join(", "), tussle_render::shell::quoted(type_name));
    format!("On lines of {names} a layout helps: tussle advise -C {ty} -c {line_bytes}")
}

/// For JSON.
pub(crate) fn left_value(of: &[Left]) -> serde_json::Value {
    let one = |l: &Left| {
        json!({ "line_bytes": l.line_bytes, "transfers": whole(l.before), "after_transfers": whole(l.after),
                "holds": l.holds })
    };
    of.iter().map(one).collect()
}

fn whole(transfers: f64) -> u64 {
    transfers.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_verdicts_are_one() {
        let v = |line_bytes, transfers, class| Verdict { line_bytes, transfers, class };
        let (small, helps) = (Class::Small, Class::LayoutHelps);
        let apart = [v(64, 0.0, small), v(128, 5_000.0, helps), v(256, 5_000.0, helps)];
        let want = "64 bytes: harmless; 128 (Apple, POWER, pairs of lines on x86), 256 (s390): a layout helps, \
                    5,000 transfers";
        assert_eq!(sentence(&apart), want);
    }

    #[test]
    fn a_proposal_names_the_lines_that_it_holds_for() {
        let l = |line_bytes, after, holds| Left { line_bytes, before: 9_000.0, after, holds };
        let want = "holds for lines of 64 bytes; 256 (s390): 4,000 of 9,000 transfers are left";
        assert_eq!(left(&[l(64, 3.0, true), l(256, 4_000.0, false)]), want);
    }
}
