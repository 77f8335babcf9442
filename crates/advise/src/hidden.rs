//! Latent cases by their fields, as lists show them.

use std::collections::HashMap;

use tussle_contention::analysis::{HiddenBy, Latent};
use tussle_contention::fields::Namer;
use tussle_contention::group::{Group, groups};
use tussle_evidence::Evidence;

/// A latent fight between fields, and what hides it.
pub struct Hidden<'a> {
    /// Where it costs most.
    pub group: Group<'a>,
    /// It shows at other addresses.
    pub at_phase: bool,
    /// It shows on lines of 128 bytes.
    pub on_wide_lines: bool,
}

impl Hidden<'_> {
    /// For people.
    pub fn words(&self) -> &'static str {
        match (self.at_phase, self.on_wide_lines) {
            (true, true) => "latent: only at other addresses or with 128-byte lines",
            (true, false) => "latent: only at other addresses",
            _ => "latent: only with 128-byte lines",
        }
    }
}

/// Latent cases, the costliest first. The same fields at another phase and on wider lines are alternatives: no run has
/// both, so the costlier stands for both and nothing is added up.
pub fn by_fields<'a>(e: &Evidence, namer: &Namer, latent: &'a [Latent]) -> Vec<Hidden<'a>> {
    let of = |wide: bool| {
        let lines = latent.iter().filter(|l| (l.hidden_by == HiddenBy::LineSize) == wide).map(|l| &l.line);
        groups(e, namer, lines)
    };
    let phases = of(false).into_iter().map(|group| Hidden { group, at_phase: true, on_wide_lines: false });
    let mut out: Vec<Hidden> = phases.collect();
    let known: HashMap<String, usize> = out.iter().enumerate().map(|(i, h)| (h.group.title(), i)).collect();
    for group in of(true) {
        match known.get(&group.title()).and_then(|i| out.get_mut(*i)) {
            Some(h) => {
                h.on_wide_lines = true;
                if group.cost.total() > h.group.cost.total() {
                    h.group = group;
                }
            }
            None => out.push(Hidden { group, at_phase: false, on_wide_lines: true }),
        }
    }
    out.sort_by(|a, b| b.group.cost.total().total_cmp(&a.group.cost.total()));
    out
}
