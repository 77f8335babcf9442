//! Tables as packed columns: compressed batches of rows, one after the other.

use super::kinds::{At, Columns, Reader};
use super::{END, Header, OTHER, Tables, pack, split_line};
use crate::columns::Row;
use crate::tables::Evidence;
use crate::threads;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::Value;
use std::io::{self, Read, Write};

/// Rows per block: what is lost when the writer is killed or a byte is damaged.
pub(super) const BLOCK_ROWS: usize = 16_384;

/// Rows of one block that a reader takes.
const BLOCK_ROWS_MAX: u64 = 65_536;

/// Bytes that one byte of deflate can stand for at most.
const DEFLATE_RATIO_MAX: u64 = 1_040;

/// Evidence repeats itself at short distance; more effort costs time and gains little (docs/evidence.md).
const EFFORT: u32 = 3;

/// Bytes of blocks that are worth a thread's while.
const PART_BYTES_MIN: usize = 32 << 10;

/// Parts that are in memory by themselves, before they become one.
const PARTS_AT_ONCE: usize = 16;

/// What every header of a block begins with.
const HEADER_START: &[u8] = b"\n{\"table\":";

pub(super) struct Writer<'a, W> {
    pub out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    fn block(&mut self, table: &str, columns: &[&str], rows: usize, raw: &[u8]) -> io::Result<()> {
        self.packed(table, columns, rows, &Body::of(raw)?)
    }

    fn packed(&mut self, table: &str, columns: &[&str], rows: usize, body: &Body) -> io::Result<()> {
        let header = Header {
            table: table.into(),
            columns: columns.iter().map(|c| c.to_string()).collect(),
            rows: rows as u64,
            bytes: body.packed.len() as u64,
            raw: Some(body.raw),
            crc32: format!("{:08x}", crc32fast::hash(&body.packed)),
        };
        serde_json::to_writer(&mut *self.out, &header)?;
        self.out.write_all(b"\n")?;
        if body.packed.is_empty() {
            return Ok(());
        }
        self.out.write_all(&body.packed)?;
        self.out.write_all(b"\n")
    }
}

/// What a block holds.
struct Body {
    packed: Vec<u8>,
    /// Bytes before they were compressed.
    raw: u64,
}

impl Body {
    fn of(raw: &[u8]) -> io::Result<Body> {
        Ok(Body { packed: deflate(raw)?, raw: raw.len() as u64 })
    }

    fn of_rows<R: Row>(rows: &[R]) -> io::Result<Body> {
        let mut raw = Vec::new();
        if let Some(columns) = R::columns(rows) {
            columns.iter().for_each(|c| pack::put_column(&mut raw, c));
            return Body::of(&raw);
        }
        let mut columns: Vec<Vec<Value>> =
            R::COLUMNS.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            row.cells(&mut columns)?;
        }
        columns.iter().for_each(|c| pack::put(&mut raw, c));
        Body::of(&raw)
    }
}

fn deflate(raw: &[u8]) -> io::Result<Vec<u8>> {
    if raw.is_empty() {
        return Ok(Vec::new());
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(EFFORT));
    encoder.write_all(raw)?;
    encoder.finish()
}

impl<W: Write> Tables for Writer<'_, W> {
    fn table<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        let blocks: Vec<&[R]> = match rows {
            [] => vec![rows],
            _ => rows.chunks(BLOCK_ROWS).collect(),
        };
        for some in blocks.chunks(PARTS_AT_ONCE) {
            for (rows, body) in some.iter().zip(threads::map(some, |rows| Body::of_rows(rows))) {
                self.packed(R::TABLE, R::COLUMNS, rows.len(), &body?)?;
            }
        }
        Ok(())
    }

    /// Older readers skip the block: a table that they do not know.
    fn other(&mut self, e: &Evidence) -> io::Result<()> {
        let mut inside = Vec::new();
        super::write(e, &mut inside)?;
        self.block(OTHER, &[], 0, &inside)
    }

    fn end(&mut self) -> io::Result<()> {
        self.block(END, &[], 0, &[])
    }
}

/// Reads blocks from byte `from` on, which begins line 2. Lines are counted by headers: bodies are none. `inside`: of
/// another file, so that nothing goes deeper.
pub(super) fn read(bytes: &[u8], from: usize, inside: bool) -> Reader {
    let mut reader = Reader::default();
    let part = |places: &Vec<At>| {
        let mut reader = Reader::default();
        for place in places {
            step(&mut reader, bytes, *place, inside);
        }
        reader
    };
    for parts in parts(bytes, from).chunks(PARTS_AT_ONCE) {
        threads::map(parts, part).into_iter().for_each(|later| reader.join(later));
    }
    reader
}

/// Where blocks begin, some at a time: each part has so many bytes at least.
fn parts(bytes: &[u8], from: usize) -> Vec<Vec<At>> {
    let mut out = vec![Vec::new()];
    let (mut at, mut line, mut full) = (from, 1, from + PART_BYTES_MIN);
    while at < bytes.len() {
        if at >= full {
            out.push(Vec::new());
            full = at + PART_BYTES_MIN;
        }
        line += 1;
        out.last_mut().into_iter().for_each(|part| part.push(At { line, byte: at as u64 }));
        at = peek(bytes, at).map_or_else(|| next_header(bytes, at), |p| p.1);
    }
    out
}

/// Reads the block that begins at `place`; returns where the next one begins.
pub(super) fn step(reader: &mut Reader, bytes: &[u8], place: At, inside: bool) -> usize {
    let at = place.byte as usize;
    let Some(Found { header, body, end }) = find(bytes, at) else {
        reader.problem("", place, "no header of a table; skipped up to the next one");
        return next_header(bytes, at);
    };
    let columns = reader.open(&header.table, &header.columns, place);
    let Some(end) = end else {
        lost(reader, &header, columns, place, "is cut off or damaged");
        return next_header(bytes, at);
    };
    match &bytes[body..end] {
        [] => block(reader, &header, columns, &[], place),
        _ if header.table == OTHER && inside => {
            reader.problem(OTHER, place, "inside of another one; skipped");
        }
        packed if header.table == OTHER => other(reader, &header, packed, place),
        packed => block(reader, &header, columns, packed, place),
    }
    next(body, end)
}

/// A block's header, and where its body lies.
struct Found {
    header: Header,
    body: usize,
    /// `None`: cut off, or something else follows than another block.
    end: Option<usize>,
}

fn find(bytes: &[u8], at: usize) -> Option<Found> {
    let (line, length) = split_line(&bytes[at..]);
    let body = at + length;
    let header = serde_json::from_slice::<Header>(line).ok()?;
    let end = usize::try_from(header.bytes).ok().and_then(|n| body.checked_add(n));
    let whole = |end: &usize| match bytes.get(body..*end) {
        Some([]) => true,
        Some(_) => matches!(bytes.get(*end), None | Some(b'\n')),
        None => false,
    };
    Some(Found { header, body, end: end.filter(whole) })
}

/// Where the next block begins: a line feed follows what is not empty.
fn next(body: usize, end: usize) -> usize {
    if end == body { end } else { end.saturating_add(1) }
}

/// The block at `at` is as it was written.
pub(super) fn is_whole(bytes: &[u8], at: usize) -> bool {
    let Some(Found { header, body, end: Some(end) }) = find(bytes, at) else { return false };
    format!("{:08x}", crc32fast::hash(&bytes[body..end])) == header.crc32
}

/// The table of the block at `at`, and where the next block begins, without a look into its body; `None` where there is
/// no header.
pub(super) fn peek(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let Found { header, body, end } = find(bytes, at)?;
    let after = end.map_or_else(|| next_header(bytes, at), |end| next(body, end));
    Some((header.table, after))
}

/// The table of the block that begins here and its bytes up to the next one; `bytes` need not reach that far.
pub(super) fn size(bytes: &[u8]) -> Option<(String, usize)> {
    let (line, length) = split_line(bytes);
    let header = serde_json::from_slice::<Header>(line).ok().filter(|_| length > line.len())?;
    let body = usize::try_from(header.bytes).ok()?;
    Some((header.table, length.checked_add(body)?.checked_add(usize::from(body > 0))?))
}

/// Where the next header begins after `at`, or the end.
fn next_header(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    let found = rest.windows(HEADER_START.len()).position(|w| w == HEADER_START);
    found.map_or(bytes.len(), |i| at + 2 + i)
}

fn block(reader: &mut Reader, header: &Header, columns: Option<Columns>, packed: &[u8], at: At) {
    if format!("{:08x}", crc32fast::hash(packed)) != header.crc32 {
        return lost(reader, header, columns, at, "has another checksum");
    }
    let Some(known) = &columns else { return };
    let cells = inflate(packed, header.raw.unwrap_or(0)).and_then(|raw| {
        let rows = usize::try_from(header.rows).ok().filter(|_| header.rows <= BLOCK_ROWS_MAX)?;
        pack::take(&raw, header.columns.len(), rows)
    });
    match cells {
        Some(cells) => {
            reader.cells(known, cells, header.rows as usize, at);
            reader.closed(&header.table, true);
        }
        None => lost(reader, header, columns, at, "cannot be unpacked"),
    }
}

/// An evidence inside of this one.
fn other(reader: &mut Reader, header: &Header, packed: &[u8], at: At) {
    let whole = format!("{:08x}", crc32fast::hash(packed)) == header.crc32;
    let inside = inflate(packed, header.raw.unwrap_or(0)).filter(|_| whole);
    let Some(inside) = inside else { return reader.problem(OTHER, at, "the block is damaged; dropped") };
    match super::read_in(&inside, true) {
        Ok((e, problems)) => {
            problems.iter().for_each(|p| reader.problem(OTHER, at, &p.to_string()));
            reader.others.push(e);
        }
        Err(why) => reader.problem(OTHER, at, &format!("dropped: {why}")),
    }
}

fn inflate(packed: &[u8], raw: u64) -> Option<Vec<u8>> {
    if raw > (packed.len() as u64).saturating_mul(DEFLATE_RATIO_MAX) {
        return None;
    }
    if packed.is_empty() {
        return Some(Vec::new());
    }
    let mut out = Vec::with_capacity(raw as usize);
    DeflateDecoder::new(packed).take(raw + 1).read_to_end(&mut out).ok()?;
    (out.len() as u64 == raw).then_some(out)
}

/// Says what a block that cannot be read takes with it; ids go on behind it.
fn lost(reader: &mut Reader, header: &Header, columns: Option<Columns>, at: At, why: &str) {
    reader.problem(&header.table, at, &format!("the block {why}: its {} rows are lost", header.rows));
    reader.closed(&header.table, false);
    if let Some(columns) = columns {
        reader.absent(&columns, header.rows.min(BLOCK_ROWS_MAX) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, Column};
    use crate::columns::Cells;
    use crate::tables::{Access, Role, Touch, TouchKind};

    /// Rows of all kinds of columns: all of one kind, some absent, all absent, none.
    fn samples() -> Vec<(Vec<Access>, Vec<Touch>)> {
        let access = |i: u64, held| Access {
            object: i as u32 % 7,
            offset: i * 8,
            size: 8,
            actor: 1,
            vt0: u64::MAX - i,
            vt1: 1 << (i % 60),
            reads: i,
            writes: 0,
            rmws: 1,
            held,
        };
        let touch = |i: u64, field: Option<&str>, role| Touch {
            object: 3,
            offset: i * i,
            size: 4,
            code: 1000 - i as u32,
            actor: (!i.is_multiple_of(3)).then_some(i as u32),
            kind: [TouchKind::Read, TouchKind::Write, TouchKind::Rmw][i as usize % 3],
            samples: i,
            field: field.map(String::from),
            role,
        };
        let held = |i: u64| (i as u32, i * 3, i, 0);
        let some = |i: u64| (i % 2 == 1).then(|| held(i));
        let words = |i: u64| [Some("next"), None, Some("prev")][i as usize % 3];
        let roles = |i: u64| [None, Some(Role::RcuHead), Some(Role::FreelistWord)][i as usize % 3];
        vec![
            (Vec::new(), Vec::new()),
            ((0..9).map(|i| access(i, None)).collect(), (0..9).map(|i| touch(i, None, None)).collect()),
            (
                (0..9).map(|i| access(i, Some(held(i)))).collect(),
                (0..9).map(|i| touch(i, words(i), None)).collect(),
            ),
            (
                (0..9).map(|i| access(i, some(i))).collect(),
                (0..9).map(|i| touch(i, Some("cas"), roles(i))).collect(),
            ),
        ]
    }

    /// Bytes as they are made cell by cell.
    fn by_cells<R: Row>(rows: &[R]) -> Vec<u8> {
        let mut columns: Vec<Vec<Value>> = R::COLUMNS.iter().map(|_| Vec::new()).collect();
        rows.iter().for_each(|row| row.cells(&mut columns).unwrap());
        let mut raw = Vec::new();
        columns.iter().for_each(|c| pack::put(&mut raw, c));
        raw
    }

    struct OneRow<'a>(&'a mut [Column], usize);

    impl Cells for OneRow<'_> {
        fn cell(&mut self, column: usize) -> Cell<'_> {
            self.0[column].take(self.1)
        }
    }

    fn check<R: Row + Clone + PartialEq + std::fmt::Debug>(rows: &[R]) {
        let mut raw = Vec::new();
        R::columns(rows).unwrap().iter().for_each(|c| pack::put_column(&mut raw, c));
        assert_eq!(raw, by_cells(rows));
        let mut columns = pack::take(&raw, R::COLUMNS.len(), rows.len()).unwrap();
        let mut all = Vec::new();
        assert_eq!(R::take_all(&columns, rows.len(), &mut all), !rows.is_empty());
        assert_eq!(all, rows);
        let one = |i| R::take(&mut OneRow(&mut columns, i)).unwrap();
        assert_eq!((0..rows.len()).map(one).collect::<Vec<_>>(), rows);
    }

    #[test]
    fn whole_columns_are_what_cells_are() {
        for (accesses, touches) in samples() {
            check(&accesses);
            check(&touches);
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_cells() {
        let rows = samples().remove(1).0;
        let mut columns = Access::columns(&rows).unwrap();
        columns[0] = Column::Ints(vec![1 << 40; rows.len()]);
        assert!(!Access::take_all(&columns, rows.len(), &mut Vec::new()), "an id beyond 32 bits");
        columns[0] = Column::Ints(vec![1]);
        assert!(!Access::take_all(&columns, rows.len(), &mut Vec::new()), "too few");
    }
}
