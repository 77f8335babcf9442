//! What `top` shows: the ranked lines with their history, and one of them in full.

use super::terminal::Key;
use std::collections::HashMap;
use tussle_evidence::{ELSEWHERE, Evidence};
use tussle_host::live::Overhead;
use tussle_render::{Cell, Column, Node, Span, Tone, View};

/// Frames of history.
const HISTORY: usize = 30;

/// Signs of the history, low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the caller has to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Draw again.
    Nothing,
    /// Write the evidence.
    Save,
    /// End.
    Leave,
}

/// One line of the table, by the names of its fields.
#[derive(Clone, Debug, Default)]
struct Past {
    samples: u64,
    /// Share of the accesses of each interval.
    shares: Vec<f64>,
}

/// The state of the screen.
#[derive(Default)]
pub struct Screen {
    /// Nothing new is shown.
    pub paused: bool,
    whom: String,
    said: String,
    status: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    sections: Vec<Node>,
    past: HashMap<String, Past>,
    total: u64,
    chosen: usize,
    open: bool,
    by_name: bool,
}

impl Screen {
    /// Nothing seen yet.
    pub fn new(whom: String) -> Screen {
        Screen { whom, ..Screen::default() }
    }

    /// Something for the last line.
    pub fn say(&mut self, said: String) {
        self.said = said;
    }

    /// New numbers.
    pub fn update(&mut self, e: &Evidence, o: &Overhead, seconds: f64) {
        let report = tussle_report::report(e, &[], &tussle_report::Options::default());
        for node in report.view.nodes {
            match node {
                Node::Table { key, columns, rows } if key == "lines" => {
                    (self.columns, self.rows) = (columns, rows)
                }
                Node::List { key, items } if key == "live_lines" => self.sections = items,
                _ => {}
            }
        }
        let kept: u64 = e.samples.iter().flatten().map(|s| s.records).sum();
        let total = kept + e.losses.iter().filter(|l| l.what == ELSEWHERE).map(|l| l.count).sum::<u64>();
        self.remember(total.saturating_sub(self.total));
        self.total = total;
        let share = o.share.map_or("unknown".into(), |s| format!("{:.2}%", 100.0 * s));
        self.status = format!(
            "{seconds:.0} s, {total} accesses sampled at {} Hz, {} hits of debug registers, cost {share}",
            o.rate_hz, o.hits
        );
        self.chosen = self.chosen.min(self.rows.len().saturating_sub(1));
    }

    /// Adds the interval to the history of every line.
    fn remember(&mut self, accesses: u64) {
        for row in &self.rows {
            let (Some(title), Some(samples)) = (row.last(), row.get(1).and_then(|c| c.value.as_u64())) else {
                continue;
            };
            let past = self.past.entry(title.text.clone()).or_default();
            let new = samples.saturating_sub(past.samples);
            past.samples = samples;
            past.shares.push(new as f64 / accesses.max(1) as f64);
            if past.shares.len() > HISTORY {
                past.shares.remove(0);
            }
        }
    }

    /// A key was pressed.
    pub fn key(&mut self, key: Key) -> Todo {
        self.said.clear();
        match key {
            Key::Up => self.chosen = self.chosen.saturating_sub(1),
            Key::Down => self.chosen = (self.chosen + 1).min(self.rows.len().saturating_sub(1)),
            Key::Open => self.open = !self.open,
            Key::Back if self.open => self.open = false,
            Key::Letter('p') => self.paused = !self.paused,
            Key::Letter('o') => self.by_name = !self.by_name,
            Key::Letter('s') => return Todo::Save,
            Key::Letter('q') => return Todo::Leave,
            _ => {}
        }
        Todo::Nothing
    }

    /// Rows in the order asked for: as ranked, or by the names of their fields.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        if self.by_name {
            order.sort_by_key(|i| self.rows[*i].last().map(|c| c.text.clone()));
        }
        order
    }

    /// The screen as a view.
    pub fn view(&self) -> View {
        let plain = |text: String, tone: Tone| Node::Text(vec![Span { text, tone }]);
        let paused = if self.paused { "  PAUSED" } else { "" };
        let mut nodes =
            vec![plain(format!("tussle top {}{paused}: {}", self.whom, self.status), Tone::Strong)];
        match self.order().get(self.chosen).and_then(|i| self.sections.get(*i)) {
            Some(section) if self.open => nodes.push(section.clone()),
            _ if self.rows.is_empty() => {
                nodes.push(plain(
                    "no line that one thread stores to and another one touches yet".into(),
                    Tone::Dim,
                ));
            }
            _ => nodes.push(self.table()),
        }
        let help = "↑↓ choose  Enter open  o order  p pause  s save  q quit";
        let last = if self.said.is_empty() { help.to_string() } else { self.said.clone() };
        nodes.push(plain(last, Tone::Dim));
        View { kind: "top", schema_version: 1, nodes }
    }

    fn table(&self) -> Node {
        let mut columns = vec![Column::text("chosen", "")];
        columns.extend(self.columns.iter().cloned());
        let at = columns.len() - 1;
        columns.insert(at, Column::text("history", "history"));
        let row = |(n, i): (usize, usize)| {
            let mark = if n == self.chosen { ">" } else { "" };
            let mut cells = vec![Cell::text(mark).tone(Tone::Strong)];
            cells.extend(self.rows[i].iter().cloned());
            let past = self.rows[i].last().and_then(|c| self.past.get(&c.text));
            cells.insert(at, Cell::text(past.map_or(String::new(), |p| sparkline(&p.shares))));
            cells
        };
        let rows = self.order().into_iter().enumerate().map(row).collect();
        Node::Table { key: "lines".into(), columns, rows }
    }
}

/// Shares as signs, the whole height for the largest.
fn sparkline(shares: &[f64]) -> String {
    let most = shares.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    shares.iter().map(|s| LEVELS[((s / most * 7.0).round() as usize).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_use_the_whole_height() {
        assert_eq!(sparkline(&[0.0, 0.1, 0.2]), "▁▅█");
        assert_eq!(sparkline(&[0.0]), "▁");
    }

    #[test]
    fn keys_change_what_is_shown() {
        let mut s = Screen::new("-p 1".into());
        s.rows = vec![vec![Cell::text("b")], vec![Cell::text("a")]];
        s.columns = vec![Column::text("fields", "fields")];
        assert_eq!((s.key(Key::Down), s.chosen), (Todo::Nothing, 1));
        assert_eq!((s.key(Key::Down), s.chosen), (Todo::Nothing, 1));
        s.key(Key::Letter('o'));
        assert_eq!(s.order(), [1, 0]);
        assert_eq!(s.key(Key::Letter('s')), Todo::Save);
        assert_eq!(s.key(Key::Letter('q')), Todo::Leave);
        s.key(Key::Letter('p'));
        assert!(s.paused);
    }
}
