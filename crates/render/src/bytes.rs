//! Bytes of an object in cache lines, and who touches them: letters in text and Markdown, cells in HTML.

use serde_json::{Value, json};

use crate::tree::thousands;

/// Lines of cache drawn; of larger objects the first ones.
pub(crate) const LINES_MAX: usize = 8;

/// Characters of a row of letters; longer lines have several bytes to a letter.
const ROW_COLUMNS: u64 = 64;

/// Bytes of an object (and of its neighbours) in cache lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bytes {
    /// JSON name.
    pub key: String,
    /// What is drawn; the caption.
    pub title: String,
    /// Bytes of a line, a power of two.
    pub line_bytes: u32,
    /// Where in its line the object began, below `line_bytes`.
    pub phase_bytes: u32,
    /// Where its allocator could have put it, ascending; one place when its alignment decides.
    pub phases: Vec<Phase>,
    /// Who touches it; a [`Use`] counts in here.
    pub threads: Vec<String>,
    /// By ascending start, not overlapping.
    pub stretches: Vec<Stretch>,
    /// The object's other bytes, which lie on these lines where it begins elsewhere.
    pub beyond: Vec<Stretch>,
}

/// A place in a line where the object may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Bytes into the line.
    pub bytes: u32,
    /// Expected invalidations there, where they were computed.
    pub expected_invalidations: Option<u64>,
}

/// Neighbouring bytes with one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// First byte, counted from the object's first; negative before it.
    pub start: i64,
    /// Bytes.
    pub size: u64,
    /// Full name, as in tables.
    pub name: String,
    /// What has room in a cell.
    pub short: String,
    /// What kind of bytes.
    pub kind: StretchKind,
    /// Who touched them; nobody when empty.
    pub uses: Vec<Use>,
    /// Code that touches them, most seen first.
    pub code: Vec<String>,
}

/// What kind of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StretchKind {
    /// A field, or bytes without a known type.
    #[default]
    Field,
    /// Bytes between fields.
    Hole,
    /// Another object that lay on the line in this run.
    Neighbour,
}

/// What one thread did to a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Position in [`Bytes::threads`].
    pub thread: usize,
    /// Loads.
    pub reads: u64,
    /// Stores and atomic updates.
    pub writes: u64,
}

impl Use {
    fn words(&self, threads: &[String]) -> String {
        let who = threads.get(self.thread).map_or("unknown", String::as_str);
        format!("{who}: {} reads, {} writes", thousands(self.reads), thousands(self.writes))
    }
}

/// Whose bytes these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hand {
    /// Nobody touched them.
    Nobody,
    /// One thread alone: its position in [`Bytes::threads`].
    One(usize),
    /// Several threads, one of which stores.
    Several,
    /// Several threads, all of which only read.
    Readers,
}

/// Characters, and whose bytes they stand for.
pub(crate) type Part = (String, Hand);

/// One line of cache.
pub(crate) struct Row {
    /// The object's byte at the line's first column.
    pub start: i64,
    pub pieces: Vec<Piece>,
}

/// Part of a stretch on one line.
pub(crate) struct Piece {
    pub column: u64,
    pub size: u64,
    pub stretch: usize,
}

impl Bytes {
    /// The lines that any stretch lies on, where the object began in this run; at most [`LINES_MAX`].
    pub(crate) fn rows(&self) -> Vec<Row> {
        let line = i64::from(self.line_bytes.max(1));
        let phase = i64::from(self.phase_bytes);
        let mut rows: Vec<Row> = Vec::new();
        for (stretch, s) in self.stretches.iter().enumerate() {
            let end = s.start.saturating_add_unsigned(s.size).saturating_add(phase);
            let mut at = s.start.saturating_add(phase);
            while at < end {
                let first = at.div_euclid(line) * line;
                if rows.last().is_none_or(|r| r.start != first.saturating_sub(phase)) {
                    if rows.len() == LINES_MAX {
                        return rows;
                    }
                    rows.push(Row { start: first.saturating_sub(phase), pieces: Vec::new() });
                }
                let size = first.saturating_add(line).min(end) - at;
                let piece = Piece { column: (at - first) as u64, size: size as u64, stretch };
                rows.last_mut().into_iter().for_each(|r| r.pieces.push(Piece { ..piece }));
                at += size;
            }
        }
        rows
    }

    /// Threads that fight for a line: one stores there and another touches it. Empty when nobody fights.
    pub(crate) fn fighters(&self, row: &Row) -> Vec<usize> {
        let uses = || row.pieces.iter().flat_map(|p| &self.stretches[p.stretch].uses);
        let mut all: Vec<usize> = uses().map(|u| u.thread).collect();
        all.sort_unstable();
        all.dedup();
        let stored = uses().any(|u| u.writes > 0);
        if stored && all.len() > 1 { all } else { Vec::new() }
    }

    /// Characters: a ruler, a row of letters for each line, and what the letters mean unless `next`, the drawing right
    /// below, says all of it.
    pub(crate) fn lines(&self, next: Option<&Bytes>) -> Vec<String> {
        let text = |parts: Vec<Part>| parts.into_iter().map(|p| p.0).collect::<String>();
        self.painted(next, None).into_iter().map(|parts| text(parts).trim_end().to_string()).collect()
    }

    /// The same, with whose every part is; what the letters mean stays within `room` columns.
    pub(crate) fn painted(&self, next: Option<&Bytes>, room: Option<usize>) -> Vec<Vec<Part>> {
        let rows = self.rows();
        let mut out = self.drawing(&rows);
        let mut meant = self.meanings(&rows);
        let below = next.map(|n| n.meanings(&n.rows())).unwrap_or_default();
        if meant.iter().all(|m| below.contains(m)) {
            meant.clear();
        }
        out.extend(legend(meant, room));
        out
    }

    fn drawing(&self, rows: &[Row]) -> Vec<Vec<Part>> {
        let scale = u64::from(self.line_bytes).div_ceil(ROW_COLUMNS).max(1);
        let label = |n: i64| format!("{n:>7}  ");
        let mut ruler = String::new();
        for at in (0..u64::from(self.line_bytes)).step_by(8 * scale as usize) {
            ruler.push_str(&format!("{at:<8}"));
        }
        let mut out = vec![vec![(format!("   byte  {}", ruler.trim_end()), Hand::Nobody)]];
        for row in rows {
            let mut cells = vec![(' ', Hand::Nobody); u64::from(self.line_bytes).div_ceil(scale) as usize];
            for p in &row.pieces {
                let to = (p.column + p.size).div_ceil(scale) as usize;
                let end = to.min(cells.len());
                cells[((p.column / scale) as usize).min(end)..end]
                    .fill((self.letter(p.stretch), self.hand(p.stretch)));
            }
            let mut parts = vec![(label(row.start), Hand::Nobody)];
            for same in cells.chunk_by(|a, b| a.1 == b.1) {
                parts.push((same.iter().map(|c| c.0).collect(), same[0].1));
            }
            out.push(parts);
        }
        out
    }

    /// `a` to `z` and `A` to `Z` for touched stretches, `#` for any beyond, `.` for holes, `-` for what nobody touched.
    fn letter(&self, stretch: usize) -> char {
        let s = &self.stretches[stretch];
        let before = self.stretches[..stretch].iter().filter(|s| !s.uses.is_empty()).count();
        match (s.uses.is_empty(), s.kind) {
            (true, StretchKind::Hole) => '.',
            (true, _) => '-',
            (false, _) => ('a'..='z').chain('A'..='Z').nth(before).unwrap_or('#'),
        }
    }

    fn hand(&self, stretch: usize) -> Hand {
        match self.stretches[stretch].uses.as_slice() {
            [] => Hand::Nobody,
            [one] => Hand::One(one.thread),
            several if several.iter().any(|u| u.writes > 0) => Hand::Several,
            _ => Hand::Readers,
        }
    }

    /// What the signs of these rows mean, each once.
    fn meanings(&self, rows: &[Row]) -> Vec<Part> {
        let mut drawn: Vec<usize> = rows.iter().flat_map(|r| r.pieces.iter().map(|p| p.stretch)).collect();
        drawn.dedup();
        let (touched, rest): (Vec<usize>, Vec<usize>) =
            drawn.into_iter().partition(|&i| !self.stretches[i].uses.is_empty());
        let who = |s: &Stretch| match s.uses.as_slice() {
            [one] => self.threads.get(one.thread).cloned().unwrap_or_default(),
            several => format!("{} threads", several.len()),
        };
        let words = |i: usize| {
            let s = &self.stretches[i];
            let stored = if s.uses.iter().any(|u| u.writes > 0) { "" } else { ", only read" };
            let name = if s.short.is_empty() { "hole" } else { &s.short };
            (format!("{} {name} ({}{stored})", self.letter(i), who(s)), self.hand(i))
        };
        let mut out: Vec<Part> = touched.into_iter().map(words).collect();
        for (sign, words) in [('-', "- not touched"), ('.', ". hole")] {
            if rest.iter().any(|&i| self.letter(i) == sign) {
                out.push((words.into(), Hand::Nobody));
            }
        }
        out
    }

    /// Everything, for JSON and for the page's script.
    pub(crate) fn json(&self) -> Value {
        let uses = |u: &Use| json!({ "thread": u.thread, "reads": u.reads, "writes": u.writes });
        let kind = |k: StretchKind| match k {
            StretchKind::Field => "field",
            StretchKind::Hole => "hole",
            StretchKind::Neighbour => "neighbour",
        };
        let stretch = |s: &Stretch| {
            json!({ "offset_bytes": s.start, "size_bytes": s.size, "name": s.name, "short": s.short,
                    "kind": kind(s.kind), "uses": s.uses.iter().map(uses).collect::<Vec<_>>(), "code": s.code })
        };
        let phase =
            |p: &Phase| json!({ "phase_bytes": p.bytes, "expected_invalidations": p.expected_invalidations });
        json!({ "line_bytes": self.line_bytes, "phase_bytes": self.phase_bytes,
                "phases": self.phases.iter().map(phase).collect::<Vec<_>>(), "threads": self.threads,
                "stretches": self.stretches.iter().map(stretch).collect::<Vec<_>>(),
                "beyond": self.beyond.iter().map(stretch).collect::<Vec<_>>() })
    }

    /// A stretch in words, for a tooltip and for readers of screens.
    pub(crate) fn words(&self, s: &Stretch) -> String {
        let uses: Vec<String> = s.uses.iter().take(8).map(|u| u.words(&self.threads)).collect();
        let more = s.uses.len().saturating_sub(8);
        let more = if more > 0 { format!("; {more} more threads") } else { String::new() };
        let uses = if uses.is_empty() { "not touched".into() } else { uses.join("; ") + &more };
        let name = if s.kind == StretchKind::Hole { "hole" } else { s.name.as_str() };
        let bytes = if s.size == 1 { "byte" } else { "bytes" };
        format!("{name}, {} {bytes} at {}. {uses}", s.size, s.start)
    }
}

/// Meanings side by side, within `room` columns.
fn legend(meant: Vec<Part>, room: Option<usize>) -> Vec<Vec<Part>> {
    let mut out: Vec<Vec<Part>> = Vec::new();
    let mut used = 0;
    let parts = |(text, hand): Part| {
        let parts = crate::text::wrap(&text, room.map(|r| r.saturating_sub(2)));
        let lines = parts.into_iter().enumerate();
        lines.map(move |(i, part)| (if i == 0 { part } else { format!("  {part}") }, hand))
    };
    for entry in meant.into_iter().flat_map(parts) {
        let wide = entry.0.chars().count() + 2;
        let full = out.last().is_none_or(|l| l.len() == 6 || room.is_some_and(|r| used + wide > r + 2));
        if full {
            out.push(Vec::new());
            used = 0;
        }
        used += wide;
        out.last_mut().into_iter().for_each(|l| l.extend([entry.clone(), ("  ".into(), Hand::Nobody)]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(start: i64, size: u64, short: &str, uses: &[(usize, u64, u64)]) -> Stretch {
        let uses = uses.iter().map(|&(thread, reads, writes)| Use { thread, reads, writes }).collect();
        let name = format!("struct s.{short}");
        Stretch { start, size, name, short: short.into(), uses, ..Stretch::default() }
    }

    fn drawn(phase_bytes: u32) -> Bytes {
        let hole = Stretch { kind: StretchKind::Hole, ..stretch(12, 4, "", &[]) };
        Bytes {
            key: "bytes".into(),
            title: "struct s".into(),
            line_bytes: 64,
            phase_bytes,
            phases: [0, 48].map(|bytes| Phase { bytes, expected_invalidations: None }).to_vec(),
            threads: vec!["main".into(), "w() T1".into()],
            stretches: vec![
                stretch(0, 8, "a", &[(0, 5, 5)]),
                stretch(8, 4, "n", &[]),
                hole,
                stretch(16, 8, "b", &[(1, 9, 0)]),
            ],
            beyond: Vec::new(),
        }
    }

    #[test]
    fn letters_stand_where_the_bytes_are() {
        let lines = drawn(0).lines(None);
        assert_eq!(lines[1], "      0  aaaaaaaa----....bbbbbbbb");
        assert_eq!(lines[2], "a a (main)  b b (w() T1, only read)  - not touched");
        assert_eq!(lines[3], ". hole");
        let lines = drawn(52).lines(None);
        assert_eq!(lines[1].trim_end(), format!("    -52  {}aaaaaaaa----", " ".repeat(52)));
        assert_eq!(lines[2], "     12  ....bbbbbbbb");
    }

    /// Before and after a move the letters mean the same: said once, below both.
    #[test]
    fn what_letters_mean_is_said_once() {
        let (before, after) = (drawn(0), drawn(48));
        assert_eq!(before.lines(Some(&after)).len(), 2);
        assert_eq!(after.lines(None)[3..], before.lines(None)[2..]);
        let mut other = drawn(0);
        other.stretches.swap_remove(0);
        assert_eq!(before.lines(Some(&other)).len(), 4, "its letters are others");
    }

    #[test]
    fn who_fights_depends_on_the_phase() {
        let fights = |phase| {
            let b = drawn(phase);
            b.rows().iter().map(|r| b.fighters(r)).collect::<Vec<_>>()
        };
        assert_eq!(fights(0), [vec![0, 1]]);
        assert_eq!(fights(48), [Vec::<usize>::new(), Vec::new()]);
    }

    #[test]
    fn hostile_sizes_end() {
        let b = Bytes { stretches: vec![stretch(i64::MIN, u64::MAX, "x", &[(7, 1, 1)])], ..drawn(0) };
        assert!(b.rows().len() <= LINES_MAX && !b.lines(None).is_empty());
        let b = Bytes { line_bytes: 0, ..b };
        assert!(b.rows().len() <= LINES_MAX);
        assert!(!b.lines(None).is_empty());
    }
}
