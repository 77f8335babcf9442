//! Tables as JSON Lines: one array per row.

use super::kinds::{At, Columns, Reader};
use super::{END, Header, Tables};
use crate::columns::Row;
use std::io::{self, Write};

/// Rows per block: a damaged block loses its checksum only for these.
pub(super) const BLOCK_ROWS: usize = 4096;

pub(super) struct Writer<'a, W> {
    pub out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    fn block(&mut self, table: &str, columns: &[&str], rows: usize, body: &[u8]) -> io::Result<()> {
        let header = Header {
            table: table.into(),
            columns: columns.iter().map(|c| c.to_string()).collect(),
            rows: rows as u64,
            bytes: body.len() as u64,
            raw: None,
            crc32: format!("{:08x}", crc32fast::hash(body)),
        };
        serde_json::to_writer(&mut *self.out, &header)?;
        self.out.write_all(b"\n")?;
        self.out.write_all(body)
    }
}

impl<W: Write> Tables for Writer<'_, W> {
    fn table<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        let mut body = Vec::new();
        let mut rest = rows;
        loop {
            let (now, later) = rest.split_at(rest.len().min(BLOCK_ROWS));
            body.clear();
            for row in now {
                row.put(&mut body)?;
                body.push(b'\n');
            }
            self.block(R::TABLE, R::COLUMNS, now.len(), &body)?;
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.block(END, &[], 0, &[])
    }
}

/// One line without its end.
struct Line<'a> {
    text: &'a [u8],
    /// With its line feed, for checksums.
    raw: &'a [u8],
    /// 1-based.
    number: u64,
    /// Byte offset in the file.
    at: u64,
}

struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

impl Line<'_> {
    fn place(&self) -> At {
        At { line: self.number, byte: self.at }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.bytes.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |i| i + 1);
        let raw = &rest[..end];
        let line = Line {
            text: raw.strip_suffix(b"\n").unwrap_or(raw),
            raw,
            number: self.number + 1,
            at: self.at as u64,
        };
        self.at += end;
        self.number += 1;
        Some(line)
    }
}

/// A block while its rows are read.
struct Block {
    header: Header,
    columns: Option<Columns>,
    rows: u64,
    bytes: u64,
    crc: crc32fast::Hasher,
    at: At,
}

/// Reads blocks from byte `from` on, which begins line 2.
pub(super) fn read(bytes: &[u8], from: usize) -> Reader {
    let mut reader = Reader::default();
    let mut block: Option<Block> = None;
    for line in (Lines { bytes, at: from, number: 1 }) {
        if line.text.first() == Some(&b'[') {
            match &mut block {
                Some(b) => row(&mut reader, b, &line),
                None => reader.problem("", line.place(), "a row before any table's header"),
            }
            continue;
        }
        if let Some(b) = block.take() {
            close(&mut reader, b);
        }
        block = open(&mut reader, &line);
    }
    if let Some(b) = block.take() {
        close(&mut reader, b);
    }
    reader
}

fn open(reader: &mut Reader, line: &Line) -> Option<Block> {
    let Ok(header) = serde_json::from_slice::<Header>(line.text) else {
        reader.problem("", line.place(), "neither a table's header nor a row; skipped");
        return None;
    };
    let columns = reader.open(&header.table, &header.columns, line.place());
    Some(Block { header, columns, rows: 0, bytes: 0, crc: crc32fast::Hasher::new(), at: line.place() })
}

fn row(reader: &mut Reader, block: &mut Block, line: &Line) {
    block.rows += 1;
    block.bytes += line.raw.len() as u64;
    block.crc.update(line.raw);
    if let Some(columns) = &block.columns {
        reader.line(columns, line.text, line.place());
    }
}

/// Compares what a block's header promised with what came.
fn close(reader: &mut Reader, block: Block) {
    let Block { header, rows, bytes, crc, at, .. } = block;
    // Rows are read one by one: whatever is there counts.
    reader.closed(&header.table, rows == header.rows || rows > 0);
    if rows != header.rows {
        reader.closed(&header.table, false);
        reader.problem(&header.table, at, &format!("{rows} of {} rows are there", header.rows));
    } else if bytes != header.bytes || format!("{:08x}", crc.finalize()) != header.crc32 {
        reader.closed(&header.table, false);
        let what = "checksum does not match: numbers in this block may be wrong";
        reader.problem(&header.table, at, what);
    }
}
