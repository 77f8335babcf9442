//! Text for a terminal or a pipe.

use crate::bytes::{Bytes, Hand};
use crate::tree::{Column, Fact, Finding, Level, Node, Span, Style, Tone, View};
use anstyle::{AnsiColor, Effects};

/// Columns are separated by this.
const GAP: &str = "  ";

/// Colours of threads; red is for bytes of several.
const THREADS: [AnsiColor; 5] =
    [AnsiColor::Cyan, AnsiColor::Yellow, AnsiColor::Magenta, AnsiColor::Green, AnsiColor::Blue];

/// Narrower than this nothing is wrapped: the result would be worse than long lines.
const WRAP_MIN: usize = 24;
/// Where there is no terminal, tables fill so many columns, and keep all of theirs. Sentences are not wrapped there:
/// who searches for one finds it in one line.
const PIPE: usize = 200;

/// And than this not where every column is needed and the screen is narrow.
const NARROW_MIN: usize = 9;

pub(crate) fn render(view: &View, style: Style) -> String {
    let mut text = Text { out: String::new(), style, title: false, finding: false };
    text.nodes(&view.nodes, 0);
    let mut out = text.out;
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// Width of a string on a terminal, in columns: wide (East Asian) characters count as one, good enough for names.
pub(crate) fn width(s: &str) -> usize {
    s.chars().filter(|c| !c.is_control()).count()
}

/// What a terminal or a page obeys instead of showing it (a name from a hostile file may hold escape sequences, or turn
/// the direction of all that follows) becomes visible.
pub(crate) fn clean(s: &str) -> String {
    s.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters, marks of the direction of writing, and separators of lines.
pub(crate) fn is_obeyed(c: char) -> bool {
    const TURNS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    c.is_control()
        || TURNS.contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// ASCII without control characters other than tabs and ends of lines.
fn is_plain(text: &str) -> bool {
    let plain = |b: u8| (0x20..0x7f).contains(&b) || b == b'\t' || b == b'\n';
    // piece by piece without a branch per byte
    text.as_bytes().chunks(4096).all(|piece| piece.iter().fold(true, |all, &b| all & plain(b)))
}

/// Columns and rows.
type Table<'a> = (&'a [Column], &'a [Vec<crate::Cell>]);

struct Text {
    out: String,
    style: Style,
    /// The last thing written was a heading.
    title: bool,
    /// The last thing written was a finding: several stand together.
    finding: bool,
}

impl Text {
    fn nodes(&mut self, nodes: &[Node], depth: usize) {
        for (node, next) in crate::tree::with_next(nodes) {
            self.node(node, next, depth);
        }
    }

    fn node(&mut self, node: &Node, next: Option<&Bytes>, depth: usize) {
        let together = std::mem::take(&mut self.finding);
        match node {
            Node::Section { title, nodes, .. } if title.is_empty() => self.nodes(nodes, depth),
            Node::Section { title, nodes, .. } => {
                self.blank();
                self.heading(&clean(title), Tone::Strong, depth);
                self.title = true;
                self.nodes(nodes, depth + 1);
            }
            Node::List { items, .. } => self.nodes(items, depth),
            Node::Facts(facts) => self.facts(facts, depth),
            Node::Table { columns, rows, .. } if !rows.is_empty() => {
                self.blank();
                self.table(columns, rows, depth);
            }
            Node::Table { .. } | Node::Data { .. } | Node::Written { .. } | Node::Help { .. } => {}
            Node::Text(spans) => {
                self.blank();
                self.paragraph(spans, depth, depth);
            }
            Node::Block { text, language, .. } => self.block(text, language),
            Node::Plot(p) => self.figure(&p.title, p.lines().iter().map(|l| clean(l)).collect(), depth),
            Node::Bytes(b) => self.figure(&b.title, self.bytes(b, next, depth), depth),
            Node::Finding(f) => {
                if !together {
                    self.blank();
                }
                self.finding(f, depth);
                self.finding = true;
            }
        }
    }

    /// One empty line before a new piece, but not under a heading or at the top.
    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && !self.title {
            self.out.push('\n');
        }
        self.title = false;
    }

    /// What stands above something: wrapped, going on further right.
    fn heading(&mut self, title: &str, tone: Tone, depth: usize) {
        for (i, part) in wrap(title, self.room(2 * depth + 4)).iter().enumerate() {
            let part = self.paint(part, tone);
            self.line(if i == 0 { depth } else { depth + 2 }, &part);
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.title = false;
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(text);
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.out.push('\n');
    }

    fn facts(&mut self, facts: &[Fact], depth: usize) {
        if facts.iter().any(|f| !f.label.is_empty()) {
            self.blank();
        }
        let label = facts.iter().map(|f| width(&f.label)).max().unwrap_or(0);
        let room = self.room(2 * depth + label + 2);
        for f in facts.iter().filter(|f| !f.label.is_empty()) {
            let pad = " ".repeat(label - width(&f.label) + 2);
            let head = self.paint(&clean(&f.label), Tone::Dim) + &pad;
            for (i, part) in wrap(&clean(&f.cell.text), room).iter().enumerate() {
                let part = self.paint(part, f.cell.tone);
                let lead = if i == 0 { head.clone() } else { " ".repeat(label + 2) };
                self.line(depth, &(lead + &part));
            }
        }
    }

    fn table(&mut self, columns: &[Column], rows: &[Vec<crate::Cell>], depth: usize) {
        let natural: Vec<usize> = (0..columns.len()).map(|i| natural_width(columns, rows, i)).collect();
        let room = self.style.width.unwrap_or(PIPE).saturating_sub(2 * depth);
        let Fitted { mut shown, mut widths, fits } = match self.style.width {
            Some(_) => fit((columns, rows), &natural, room),
            None => all(columns, natural, room),
        };
        if !fits && !columns.iter().any(|c| c.picture) {
            return self.records(columns, rows, depth);
        }
        // Beside a picture, which nothing can squeeze, there may be no room: what belongs to a row stands below it.
        let below = shown.last().copied().filter(|&i| goes_below(columns, i, &widths, room));
        let below = below.filter(|_| self.style.width.is_some());
        if below.is_some() {
            shown.pop();
            widths.pop();
        }
        let titles: Vec<Column> = shown.iter().map(|&i| columns[i].clone()).collect();
        if titles.iter().any(|c| !c.title.is_empty()) {
            let heads: Vec<(String, Tone)> = titles.iter().map(|c| (clean(&c.title), Tone::Dim)).collect();
            self.row(&heads, &titles, &widths, depth);
        }
        for row in rows {
            let cells = shown.iter().filter_map(|&i| row.get(i)).map(|c| (clean(&c.text), c.tone));
            self.row(&cells.collect::<Vec<_>>(), &titles, &widths, depth);
            if let Some(cell) = below.and_then(|i| row.get(i)) {
                self.paragraph(&[Span { text: cell.text.clone(), tone: cell.tone }], depth + 2, depth + 2);
            }
        }
        let hidden = columns.iter().enumerate().filter(|(i, _)| !shown.contains(i) && below != Some(*i));
        let hidden = hidden.map(|(_, c)| c.title.as_str());
        let hidden: Vec<&str> = hidden.collect();
        if !hidden.is_empty() {
            let text = clean(&format!("(left out, the screen is narrow: {})", hidden.join(", ")));
            self.paragraph(&[Span { text, tone: Tone::Dim }], depth, depth);
        }
    }

    /// Row by row, what no screen of this width has room for side by side.
    fn records(&mut self, columns: &[Column], rows: &[Vec<crate::Cell>], depth: usize) {
        for row in rows {
            let fact = |(c, cell): (&Column, &crate::Cell)| {
                let label = if c.title.is_empty() { " ".into() } else { c.title.clone() };
                Fact { key: String::new(), label, cell: cell.clone() }
            };
            self.facts(&columns.iter().zip(row).map(fact).collect::<Vec<_>>(), depth);
        }
    }

    fn row(&mut self, cells: &[(String, Tone)], columns: &[Column], widths: &[usize], depth: usize) {
        let parts: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|((text, _), w)| wrap(text, Some((*w).max(1)))).collect();
        let height = parts.iter().map(Vec::len).max().unwrap_or(1).max(1);
        for k in 0..height {
            let mut line = String::new();
            for (i, part) in parts.iter().enumerate() {
                let text = part.get(k).map(String::as_str).unwrap_or("");
                let pad = " ".repeat(widths[i].saturating_sub(width(text)));
                let text = self.paint(text, cells[i].1);
                if i > 0 {
                    line.push_str(GAP);
                }
                match columns[i].right {
                    true => line.extend([pad, text]),
                    false => line.extend([text, pad]),
                }
            }
            self.line(depth, &line);
        }
    }

    fn paragraph(&mut self, spans: &[Span], depth: usize, hanging: usize) {
        let plain: String = spans.iter().map(|s| clean(&s.text)).collect();
        let tones: Vec<Tone> =
            spans.iter().flat_map(|s| std::iter::repeat_n(s.tone, clean(&s.text).chars().count())).collect();
        let mut at = 0;
        for (i, part) in wrap(&plain, self.room(2 * hanging.max(depth))).iter().enumerate() {
            // Wrapping drops blanks only: walk the original along to find each character's tone.
            let chars: Vec<char> = plain.chars().collect();
            let mut line = String::new();
            let mut run = String::new();
            let mut tone = Tone::Plain;
            while chars.get(at).is_some_and(|c| *c == ' ') && !part.starts_with(' ') {
                at += 1;
            }
            for c in part.chars() {
                let t = tones.get(at).copied().unwrap_or_default();
                if t != tone && !run.is_empty() {
                    line.push_str(&self.paint(&run, tone));
                    run.clear();
                }
                tone = t;
                run.push(c);
                at += 1;
            }
            line.push_str(&self.paint(&run, tone));
            self.line(if i == 0 { depth } else { hanging }, &line);
        }
    }

    /// Blocks are to be copied: never indented, never wrapped.
    fn block(&mut self, text: &str, language: &str) {
        self.blank();
        self.title = false;
        if language != "diff" && is_plain(text) {
            // a listing of a whole kernel has megabytes
            self.out.push_str(text);
            if !text.is_empty() && !text.ends_with('\n') {
                self.out.push('\n');
            }
            return;
        }
        for line in text.split_terminator('\n') {
            // A patch of a file whose lines end so applies with these ends only.
            let (line, end) = match line.strip_suffix('\r') {
                Some(line) if language == "diff" => (line, "\r\n"),
                other => (other.unwrap_or(line), "\n"),
            };
            let line = crate::visible(line);
            let tone = match (language, line.as_bytes().first()) {
                ("diff", Some(b'+')) => Tone::Good,
                ("diff", Some(b'-')) => Tone::Bad,
                ("diff", Some(b'@')) => Tone::Name,
                _ => Tone::Plain,
            };
            let line = self.paint(&line, tone);
            self.out.push_str(&line);
            self.out.push_str(end);
        }
    }

    /// The title says what the field means; lines are never wrapped.
    fn figure(&mut self, title: &str, lines: Vec<String>, depth: usize) {
        if lines.is_empty() {
            return;
        }
        self.blank();
        self.heading(&clean(title), Tone::Dim, depth);
        for line in lines {
            self.line(depth, &line);
        }
    }

    /// Bytes of one thread have its colour, those for which several fight are red.
    fn bytes(&self, b: &Bytes, next: Option<&Bytes>, depth: usize) -> Vec<String> {
        let part = |(text, hand): &(String, Hand)| {
            let style = match hand {
                Hand::Nobody => anstyle::Style::new(),
                Hand::One(thread) => THREADS[thread % THREADS.len()].on_default(),
                Hand::Several => AnsiColor::Red.on_default().bold(),
                Hand::Readers => anstyle::Style::new().bold(),
            };
            match !self.style.colour || text.trim().is_empty() || *hand == Hand::Nobody {
                true => clean(text),
                false => format!("{}{}{}", style.render(), clean(text), style.render_reset()),
            }
        };
        b.painted(next, self.room(2 * depth)).iter().map(|parts| parts.iter().map(part).collect()).collect()
    }

    fn finding(&mut self, f: &Finding, depth: usize) {
        self.title = false;
        let tone = match f.level {
            Level::Error => Tone::Bad,
            Level::Warning => Tone::Warn,
            Level::Note => Tone::Dim,
        };
        let place = match (&f.file, f.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            (Some(file), None) => format!(" ({file})"),
            _ => String::new(),
        };
        let spans = [
            Span { text: crate::json::level(f.level).into(), tone },
            Span::plain(format!(": {} [{}]", f.message, f.rule)),
            Span { text: place, tone: Tone::Dim },
        ];
        self.paragraph(&spans, depth, depth + 1);
    }

    fn room(&self, used: usize) -> Option<usize> {
        self.style.width.map(|w| w.saturating_sub(used)).filter(|w| *w >= WRAP_MIN)
    }

    fn paint(&self, text: &str, tone: Tone) -> String {
        if !self.style.colour || tone == Tone::Plain || text.is_empty() {
            return text.to_string();
        }
        let style = match tone {
            Tone::Plain => anstyle::Style::new(),
            Tone::Name => AnsiColor::Cyan.on_default(),
            Tone::Strong => anstyle::Style::new().bold(),
            Tone::Dim => anstyle::Style::new().effects(Effects::DIMMED),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Warn => AnsiColor::Yellow.on_default(),
        };
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

/// Whether a table with a picture is too wide for the screen even with this column of text, its last, squeezed.
fn goes_below(columns: &[Column], last: usize, widths: &[usize], room: usize) -> bool {
    let wide = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    columns.iter().any(|c| c.picture) && columns.get(last).is_some_and(Column::wraps) && wide > room
}

/// Width of a column that nothing squeezes.
fn natural_width(columns: &[Column], rows: &[Vec<crate::Cell>], i: usize) -> usize {
    cells(rows, i).chain([width(&columns[i].title)]).max().unwrap_or(0)
}

/// What of a table a screen has room for.
struct Fitted {
    shown: Vec<usize>,
    widths: Vec<usize>,
    /// No line is wider than the room.
    fits: bool,
}

/// The columns that a screen has room for, and their widths: text columns are wrapped first, then columns of the
/// highest rank go, the last of them first, then headings of numbers are wrapped.
fn fit(table: Table, natural: &[usize], room: usize) -> Fitted {
    let (columns, rows) = table;
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let piece: Vec<usize> = shown.iter().map(|&i| pieces(table, i)).collect();
    let text = |i: usize, least: usize| if columns[i].wraps() { least } else { usize::MAX };
    loop {
        let mut widths: Vec<usize> = shown.iter().map(|&i| natural[i]).collect();
        let to = |of: &dyn Fn(usize) -> usize| shown.iter().map(|&i| of(i)).collect::<Vec<_>>();
        let fits = squeeze(&mut widths, &to(&|i| text(i, piece[i].min(room / 2).max(WRAP_MIN))), room);
        let goes = (0..shown.len()).max_by_key(|&k| (columns[shown[k]].rank, k));
        if let Some(k) = goes.filter(|&k| !fits && columns[shown[k]].rank > 0) {
            shown.remove(k);
            continue;
        }
        let narrow = |i: usize| text(i, piece[i].min(room / 2).max(NARROW_MIN));
        let head = |i: usize| match columns[i].right {
            true => cells(rows, i).chain(columns[i].title.split(' ').map(width)).max().unwrap_or(0),
            false => narrow(i),
        };
        let fits = fits || squeeze(&mut widths, &to(&narrow), room) || squeeze(&mut widths, &to(&head), room);
        return Fitted { shown, widths, fits };
    }
}

/// All columns; those of text are wrapped as far as that can be read.
fn all(columns: &[Column], mut widths: Vec<usize>, room: usize) -> Fitted {
    let least: Vec<usize> = columns.iter().map(|c| if c.wraps() { WRAP_MIN } else { usize::MAX }).collect();
    squeeze(&mut widths, &least, room);
    Fitted { shown: (0..columns.len()).collect(), widths, fits: true }
}

/// Takes what a narrow terminal lacks from the widest columns, down to the `least` of each; false when that is not
/// enough.
fn squeeze(widths: &mut [usize], least: &[usize], room: usize) -> bool {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    loop {
        if widths.iter().sum::<usize>() + gaps <= room {
            return true;
        }
        let wide = (0..widths.len()).filter(|&i| widths[i] > least[i]);
        match wide.max_by_key(|&i| widths[i]) {
            Some(i) => widths[i] -= 1,
            None => return false,
        }
    }
}

fn cells(rows: &[Vec<crate::Cell>], i: usize) -> impl Iterator<Item = usize> + '_ {
    rows.iter().filter_map(move |r| r.get(i)).map(|c| width(&c.text))
}

/// Width of the longest piece of a column's text that cannot be broken well.
fn pieces((columns, rows): Table, i: usize) -> usize {
    let of = |s: &str| s.split(' ').flat_map(|w| w.split_inclusive(is_sign)).map(width).max().unwrap_or(0);
    let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| of(&c.text));
    cells.chain([of(&columns[i].title)]).max().unwrap_or(0)
}

/// Words may be broken behind it.
fn is_sign(c: char) -> bool {
    "._/:,;<>[]()-=".contains(c)
}

/// Where a word that is too long is broken: behind the last sign of punctuation that has room, else in the middle.
fn break_at(word: &str, room: usize) -> usize {
    let end = word.char_indices().nth(room).map_or(word.len(), |(i, _)| i);
    let at =
        word[..end].char_indices().filter(|(_, c)| is_sign(*c)).map(|(i, c)| i + c.len_utf8()).next_back();
    // A short line is better than a piece in two, unless that has no room on a line either.
    let next = |i: usize| word[i..].split_inclusive(is_sign).next().map_or(0, width);
    at.filter(|&i| 3 * i >= end || next(i) <= room).unwrap_or(end)
}

/// Breaks at blanks; a word longer than the room is broken behind punctuation. Line feeds in the text are kept.
pub(crate) fn wrap(text: &str, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else { return vec![text.to_string()] };
    if width(text) <= room {
        return vec![text.to_string()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let mut word = word;
        let sep = usize::from(!line.is_empty());
        if width(&line) + sep + width(word) > room && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        while width(word) > room {
            let cut = break_at(word, room);
            lines.push(word[..cut].to_string());
            word = &word[cut..];
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}
