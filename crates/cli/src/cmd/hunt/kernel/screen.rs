//! The screen of a kernel's hunt.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use tussle_advise::advice::Advice;
use tussle_advise::again::{Again, Counted, Sign};
use tussle_advise::class::{self, Class};
use tussle_contention::analysis::{Question, contention};
use tussle_contention::fields::Namer;
use tussle_evidence::Evidence;
use tussle_host::fix::{self, Patched};
use tussle_render::{Cell, Column, Node, Span, Tone, View, shell, thousands};

/// Version of the `hunt_kernel` document.
const SCHEMA_VERSION: u32 = 1;

/// Lines of the first recording that are shown.
const LINES_MAX: usize = 8;

/// Pairs named in a sentence.
const PAIRS_MAX: usize = 4;

/// A patch that was built and recorded.
pub struct Attempt {
    /// What was proposed.
    pub advice: Advice,
    /// What was made of it.
    pub patched: Patched,
    /// What the second recording says.
    pub again: Again,
    /// That recording.
    pub after: Evidence,
}

/// What a kernel's hunt found and did.
pub struct Story<'a> {
    evidence: &'a Evidence,
    file: PathBuf,
    helps: bool,
    /// The change was the caller's.
    asked: bool,
    /// Patches that were built and recorded, in turn.
    pub attempts: Vec<Attempt>,
    refused: Vec<(String, String)>,
    /// Where the patch lies.
    pub patch_file: Option<PathBuf>,
    /// What it would bring.
    pub predicted: Option<anyhow::Result<View>>,
}

impl<'a> Story<'a> {
    /// Begins with what was recorded.
    pub fn new(evidence: &'a Evidence, file: &Path, asked: bool) -> Story<'a> {
        let (namer, seen) = (Namer::new(evidence), contention(evidence, &Question::observed()));
        let helps = class::judge(evidence, &namer, &seen).iter().any(|j| j.class == Class::LayoutHelps);
        let (attempts, refused) = (Vec::new(), Vec::new());
        let file = file.to_path_buf();
        Story { evidence, file, helps, asked, attempts, refused, patch_file: None, predicted: None }
    }

    /// A proposal of which there is no patch.
    pub fn refused(&mut self, advice: &Advice, why: &dyn Display) {
        self.refused.push((change(advice), why.to_string()));
    }

    /// The patch that survived; else the first of those whose sign turns with the length of a turn; else what was asked
    /// for.
    pub fn chosen(&self) -> Option<&Attempt> {
        self.attempts.get(chosen(&self.signs(), self.asked)?)
    }

    fn signs(&self) -> Vec<Sign> {
        self.attempts.iter().map(|a| a.again.sign()).collect()
    }

    /// 0: nothing that a layout helps, or a patch that survived. 1: something is left. 2: nobody can say.
    pub fn status(&self) -> u8 {
        let signs = self.signs();
        match chosen(&signs, self.asked).map(|i| signs[i]) {
            Some(Sign::Fewer) => 0,
            Some(Sign::Turns) => 2,
            _ if class::blind(self.evidence).is_some() => 2,
            _ => u8::from(self.helps || !self.attempts.is_empty()),
        }
    }

    /// The screen.
    pub fn view(&self) -> View {
        let mut nodes = vec![self.headline(), tussle_report::kernel::first_lines(self.evidence, LINES_MAX)];
        if !self.refused.is_empty() {
            let row = |(change, why): &(String, String)| {
                vec![Cell::text(change.clone()).tone(Tone::Name), Cell::text(why.clone())]
            };
            let columns = vec![Column::text("change", "not made"), Column::text("why", "why")];
            let rows = self.refused.iter().map(row).collect();
            nodes.push(Node::Table { key: "refused".into(), columns, rows });
        }
        let items: Vec<Node> = self.attempts.iter().map(attempt).collect();
        nodes.push(Node::List { key: "attempts".into(), items });
        nodes.extend(self.prediction());
        nodes.push(self.next());
        View { kind: "hunt_kernel", schema_version: SCHEMA_VERSION, nodes }
    }

    fn headline(&self) -> Node {
        let (text, tone) = match (self.status(), self.chosen().map(|a| &a.patched)) {
            (0, Some(p)) => (
                format!(
                    "A patch of {}: its lines move less at every turn length, recorded again.",
                    p.type_name
                ),
                Tone::Good,
            ),
            (1, Some(p)) => (
                format!(
                    "The patch of {} was made as asked for; its lines move no less at any turn length, recorded again. \
                     Transfers are not time: the prediction is about that.",
                    p.type_name
                ),
                Tone::Warn,
            ),
            (_, Some(p)) => (
                format!(
                    "Cannot say what the patch of {} brings: it turns with how long a CPU goes on before the next one, \
                     which no emulator knows.",
                    p.type_name
                ),
                Tone::Warn,
            ),
            (2, None) => {
                let why = class::blind(self.evidence).unwrap_or_default();
                (format!("Cannot say: {why}."), Tone::Warn)
            }
            (1, None) => ("A layout helps, and no patch survived.".into(), Tone::Bad),
            _ => ("Nothing found that a layout helps.".into(), Tone::Good),
        };
        Node::Text(vec![Span { text, tone }])
    }

    fn prediction(&self) -> Option<Node> {
        let nodes = match self.predicted.as_ref()? {
            Ok(view) => view.nodes.clone(),
            Err(e) => vec![dim(format!("No prediction: {e:#}."))],
        };
        let title = "Predicted, for a machine with many CPUs".into();
        Some(Node::Section { key: "predicted".into(), title, nodes })
    }

    fn next(&self) -> Node {
        let file = |p: &Path| shell::file(&p.to_string_lossy());
        let mut words = vec![format!("Evidence is in {} (tussle report)", self.file.display())];
        if !self.attempts.is_empty() {
            let patched = super::suffixed(&self.file);
            let (a, b) = (file(&self.file), file(&patched));
            words.push(format!("the patched kernel's in {} (tussle report {a} {b})", patched.display()));
        }
        if let Some(patch) = &self.patch_file {
            let name = patch.display();
            words.push(format!("the patch in {name} (patch -p1 <{} in the tree)", file(patch)));
        }
        dim(format!("{}.", words.join(", ")))
    }
}

/// Which of the patches is left, by what their second recordings say.
fn chosen(signs: &[Sign], asked: bool) -> Option<usize> {
    let of = |sign| signs.iter().position(|s| *s == sign);
    let first = || (asked && !signs.is_empty()).then_some(0);
    of(Sign::Fewer).or_else(|| of(Sign::Turns)).or_else(first)
}

fn dim(text: String) -> Node {
    Node::Text(vec![Span { text, tone: Tone::Dim }])
}

fn change(advice: &Advice) -> String {
    let moves: Vec<String> = advice.edits.iter().map(ToString::to_string).collect();
    format!("{} {}", advice.type_name, moves.join(" "))
}

fn attempt(a: &Attempt) -> Node {
    let mut nodes = fix::view(&a.patched, Some(&a.advice)).nodes;
    nodes.push(counted(&a.again.turns));
    let said = match a.again.sign() {
        Sign::Fewer => "Recorded again: fewer transfers of the struct at every turn length.",
        Sign::NotFewer => "Recorded again: no fewer transfers of the struct at any turn length.",
        Sign::Turns => {
            "Recorded again: fewer transfers at some turn lengths, more at others. There is no sign."
        }
    };
    nodes.push(Node::Text(vec![Span::plain(said.to_string())]));
    let pairs = [("Apart now", "parted", &a.again.parted), ("Still on one line", "remain", &a.again.remain)];
    for (words, key, list) in pairs.into_iter().chain([("On one line only now", "new", &a.again.new)]) {
        let all: Vec<String> = list.iter().map(|(a, b)| format!("{a} and {b}")).collect();
        if !all.is_empty() {
            let more = if all.len() > PAIRS_MAX {
                format!("; {} more", all.len() - PAIRS_MAX)
            } else {
                String::new()
            };
            let first = all[..all.len().min(PAIRS_MAX)].join("; ");
            nodes.push(Node::Text(vec![Span::plain(format!("{words}: {first}{more}."))]));
        }
        nodes.push(Node::Data { key: key.into(), value: all.into() });
    }
    Node::Section { key: "attempt".into(), title: change(&a.advice), nodes }
}

fn counted(turns: &[Counted]) -> Node {
    let columns = vec![
        Column::number("turn_instructions", "turn"),
        Column::number("struct_before", "struct's transfers"),
        Column::number("struct_after", "struct's, patched"),
        Column::number("all_before", "all transfers"),
        Column::number("all_after", "all, patched"),
    ];
    let row = |t: &Counted| {
        let turn = t.turn_instructions.map_or_else(Cell::unknown, |n| Cell::value(n, thousands(n)));
        let [a, b] = t.of_struct.map(Cell::count);
        let [c, d] = t.all.map(Cell::count);
        vec![turn, a, b, c, d]
    };
    Node::Table { key: "again".into(), columns, rows: turns.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_less_is_left_before_what_nobody_can_tell() {
        use Sign::{Fewer, NotFewer, Turns};
        assert_eq!(chosen(&[Turns, Fewer], false), Some(1));
        assert_eq!(chosen(&[NotFewer, Turns], false), Some(1));
        assert_eq!(chosen(&[NotFewer, NotFewer], false), None);
        assert_eq!(chosen(&[NotFewer], true), Some(0), "what was asked for is left, whatever it brings");
        assert_eq!(chosen(&[], true), None);
    }

    #[test]
    fn of_an_empty_recording_nobody_can_say() {
        let e = tussle_evidence::sample::Sample::new(1000).evidence();
        let story = Story::new(&e, Path::new("tussle.data"), false);
        assert_eq!(story.status(), 2);
    }
}
