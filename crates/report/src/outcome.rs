//! The outcome in one sentence, and what an exit status follows from.

use crate::latent::Hidden;
use tussle_advise::class::{self, Class, Judged};
use tussle_evidence::{Evidence, Problem};
use tussle_render::{Node, Span, Tone, plural, thousands};

/// What a report found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// A layout helps somewhere.
    pub helps: bool,
    /// Something is listed, whatever its class.
    pub listed: bool,
    /// Why nothing can be said.
    pub blind: Option<String>,
}

impl Outcome {
    pub(crate) fn new(e: &Evidence, problems: &[Problem], all: &[Judged], hidden: &[Hidden]) -> Outcome {
        let helps = all.iter().any(|j| j.class == Class::LayoutHelps) || hidden.iter().any(|h| h.by_luck(e));
        Outcome { helps, listed: helps || !all.is_empty(), blind: class::blind(e).or(damaged(problems)) }
    }

    /// The exit status: 1 a layout helps, or with `any` something is listed; 2 nothing can be said; else 0.
    pub fn status(&self, any: bool) -> u8 {
        match (self.helps || any && self.listed, &self.blind) {
            (true, _) => 1,
            (false, Some(_)) => 2,
            (false, None) => 0,
        }
    }
}

/// Why an evidence of which not all was read says nothing by what it lacks.
pub(crate) fn damaged(problems: &[Problem]) -> Option<String> {
    problems.first().map(|p| format!("the evidence is damaged: {p}"))
}

/// The sentence, with how many of the hidden cases luck hid, how many lines were touched, and how many of them are
/// shared without harm.
pub(crate) fn sentence(
    outcome: &Outcome,
    (all, hidden, lucky): (&[Judged], &[Hidden], usize),
    (touched, quiet): (u64, usize),
) -> Node {
    let mut parts = Vec::new();
    if let Some(reason) = &outcome.blind {
        let words = if outcome.helps { "Part of it was not seen" } else { "Cannot say" };
        parts.push(Span { text: format!("{words}: {reason}"), tone: Tone::Warn });
    }
    parts.extend(counts(all));
    if lucky > 0 {
        let words = "hidden here by luck that a layout helps";
        let text = plural(lucky, &format!("case {words}"), &format!("cases {words}"));
        parts.push(Span { text, tone: Tone::Bad });
    }
    if parts.is_empty() {
        parts.push(Span { text: "Nothing that a layout helps".into(), tone: Tone::Good });
    }
    let latent = hidden.len().saturating_sub(lucky);
    if latent > 0 {
        parts.push(Span { text: plural(latent, "latent case", "latent cases"), tone: Tone::Warn });
    }
    let mut spans = Vec::new();
    for (i, p) in parts.into_iter().enumerate() {
        if i > 0 {
            spans.push(Span::plain(", "));
        }
        spans.push(p);
    }
    let quiet = thousands(quiet as u64);
    let touched = plural(touched as usize, "line", "lines");
    spans.push(Span::plain(format!("; {touched} touched, {quiet} shared without harm.")));
    Node::Text(spans)
}

/// How many of each class.
fn counts(all: &[Judged]) -> Vec<Span> {
    let kinds: [(Class, &str, &str, Tone); 6] = [
        (Class::LayoutHelps, "case that a layout helps", "cases that a layout helps", Tone::Bad),
        (Class::Undecided, "undecided", "undecided", Tone::Warn),
        (Class::SameBytes, "of the same bytes", "of the same bytes", Tone::Plain),
        (Class::MovesWhole, "that moves as a whole", "that move as a whole", Tone::Plain),
        (Class::Library, "of a library's own", "of a library's own", Tone::Plain),
        (Class::Small, "small", "small", Tone::Dim),
    ];
    let count = |class: Class| all.iter().filter(|j| j.class == class).count();
    let span = |(class, one, many, tone): (Class, &str, &str, Tone)| {
        let n = count(class);
        (n > 0).then(|| Span { text: plural(n, one, many), tone })
    };
    kinds.into_iter().filter_map(span).collect()
}
