//! The file format: JSON Lines, checksummed in blocks, readable up to the byte where its writer was killed.
//!
//! ```text
//! {"format":"tussle-evidence","major":1,"minor":2}
//! {"table":"run","columns":["format_version",...],"rows":1,"bytes":312,"crc32":"89abcdef"}
//! [1,"0.1.0",...]
//! {"table":"accesses","columns":["object","offset",...],"rows":2,"bytes":54,"crc32":"01234567"}
//! [0,24,8,1,0,99840,0,50000,0]
//! [0,32,8,2,0,99840,0,50000,0]
//! {"table":"end","columns":[],"rows":0,"bytes":0,"crc32":"00000000"}
//! ```
//!
//! A table may come in several blocks; row numbers go on. `docs/evidence.md` fixes the columns.

use crate::columns::{Row, TypeModel, TypeRow};
use crate::problem::{Problem, Problems};
use crate::tables::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};
use tussle_model::{TypeId, TypeTable};

/// Major version of the format that this build writes and reads. A newer one is refused.
pub const MAJOR: u32 = 1;

/// Minor version that this build writes: grows when tables or columns are added.
pub const MINOR: u32 = 2;

/// Rows per block: a damaged block loses its checksum only for these.
const BLOCK_ROWS: usize = 4096;

/// Why bytes are not evidence that this build can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first line is not that of an evidence file.
    #[error("not an evidence file: {why}; `tussle record -o FILE -- COMMAND` writes one")]
    NotEvidence {
        /// What is wrong with the first line.
        why: String,
    },
    /// Written by a newer tussle.
    #[error(
        "evidence format {found} is newer than {known}, which this tussle reads: update tussle, or record again"
    )]
    Newer {
        /// Major version in the file.
        found: u32,
        /// Major version of this build.
        known: u32,
    },
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Magic {
    format: String,
    major: u32,
    #[serde(default)]
    minor: u32,
}

/// The line before a block's rows.
#[derive(Serialize, Deserialize)]
struct Header {
    table: String,
    columns: Vec<String>,
    rows: u64,
    bytes: u64,
    crc32: String,
}

/// Writes the whole file. Nothing is buffered beyond one block.
///
/// # Errors
/// Those of `out`; and `InvalidData` for a value that JSON cannot hold.
pub fn write(evidence: &Evidence, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Magic { format: FORMAT.into(), major: MAJOR, minor: MINOR })?;
    out.write_all(b"\n")?;
    put_table(out, std::slice::from_ref(&evidence.run))?;
    put_table(out, &evidence.processes)?;
    put_table(out, &evidence.modules)?;
    put_table(out, &evidence.actors)?;
    put_table(out, &[TypeModel { pointer_bytes: evidence.types.pointer_size }])?;
    let types: Vec<TypeRow> = evidence.types.iter().map(|(_, t)| TypeRow { body: t.clone() }).collect();
    put_table(out, &types)?;
    put_table(out, &evidence.objects)?;
    put_table(out, &evidence.code)?;
    put_table(out, &evidence.accesses)?;
    put_table(out, &evidence.touches)?;
    if let Some(operations) = &evidence.operations {
        put_table(out, operations)?;
    }
    if let Some(order) = &evidence.order {
        put_table(out, order)?;
    }
    if let Some(samples) = &evidence.samples {
        put_table(out, samples)?;
    }
    put_table(out, &evidence.losses)?;
    put_block(out, END, &[], 0, &[])
}

const FORMAT: &str = "tussle-evidence";
const END: &str = "end";

fn put_table<R: Row>(out: &mut impl Write, rows: &[R]) -> io::Result<()> {
    let mut body = Vec::new();
    let mut rest = rows;
    loop {
        let (now, later) = rest.split_at(rest.len().min(BLOCK_ROWS));
        body.clear();
        for row in now {
            row.put(&mut body)?;
            body.push(b'\n');
        }
        put_block(out, R::TABLE, R::COLUMNS, now.len(), &body)?;
        rest = later;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn put_block(
    out: &mut impl Write,
    table: &str,
    columns: &[&str],
    rows: usize,
    body: &[u8],
) -> io::Result<()> {
    let header = Header {
        table: table.into(),
        columns: columns.iter().map(|c| c.to_string()).collect(),
        rows: rows as u64,
        bytes: body.len() as u64,
        crc32: format!("{:08x}", crc32fast::hash(body)),
    };
    serde_json::to_writer(&mut *out, &header)?;
    out.write_all(b"\n")?;
    out.write_all(body)
}

/// Reads as much as is there.
///
/// A file cut off at any byte gives the rows before the cut and `run.complete == false`. Unreadable rows, wrong
/// checksums, rows that refer to nothing, unknown tables and columns are stated as problems, never a panic; memory
/// stays proportional to `bytes`.
///
/// # Errors
/// The first line is not that of an evidence file, or its major version is newer than [`MAJOR`].
pub fn read(bytes: &[u8]) -> Result<(Evidence, Vec<Problem>), Error> {
    let mut lines = Lines { bytes, at: 0, number: 0 };
    let first = lines.next().ok_or_else(|| Error::NotEvidence { why: "it is empty".into() })?;
    let magic: Magic = serde_json::from_slice(first.text)
        .map_err(|_| Error::NotEvidence { why: "its first line does not name the format".into() })?;
    if magic.format != FORMAT {
        return Err(Error::NotEvidence { why: format!("its format is {:?}", short(&magic.format)) });
    }
    if magic.major > MAJOR {
        return Err(Error::Newer { found: magic.major, known: MAJOR });
    }
    let mut reader = Reader::default();
    let mut block: Option<Block> = None;
    for line in lines {
        if line.text.first() == Some(&b'[') {
            match &mut block {
                Some(b) => reader.row(b, &line),
                None => reader.problems.push("", line.number, line.at, "a row before any table's header"),
            }
            continue;
        }
        if let Some(b) = block.take() {
            reader.close(b);
        }
        block = reader.open(&line);
    }
    if let Some(b) = block.take() {
        reader.close(b);
    }
    Ok(reader.finish())
}

fn short(s: &str) -> String {
    s.chars().take(40).collect()
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
    kind: Option<TableKind>,
    /// Position in the file's rows of each column that this build knows.
    columns: Vec<Option<usize>>,
    /// Exactly the columns of this build, in its order.
    usual: bool,
    rows: u64,
    bytes: u64,
    crc: crc32fast::Hasher,
    line: u64,
    at: u64,
}

#[derive(Clone, Copy)]
enum TableKind {
    Run,
    Processes,
    Modules,
    Actors,
    TypeModel,
    Types,
    Objects,
    Code,
    Accesses,
    Touches,
    Operations,
    Order,
    Samples,
    Losses,
    End,
}

impl TableKind {
    fn by_name(name: &str) -> Option<(TableKind, &'static [&'static str])> {
        fn of<R: Row>(kind: TableKind) -> (&'static str, TableKind, &'static [&'static str]) {
            (R::TABLE, kind, R::COLUMNS)
        }
        let all = [
            of::<Run>(TableKind::Run),
            of::<Process>(TableKind::Processes),
            of::<Module>(TableKind::Modules),
            of::<Actor>(TableKind::Actors),
            of::<TypeModel>(TableKind::TypeModel),
            of::<TypeRow>(TableKind::Types),
            of::<Object>(TableKind::Objects),
            of::<Code>(TableKind::Code),
            of::<Access>(TableKind::Accesses),
            of::<Touch>(TableKind::Touches),
            of::<Operation>(TableKind::Operations),
            of::<Turn>(TableKind::Order),
            of::<Sampled>(TableKind::Samples),
            of::<Loss>(TableKind::Losses),
            (END, TableKind::End, &[] as &[&str]),
        ];
        all.into_iter().find(|(n, _, _)| *n == name).map(|(_, kind, columns)| (kind, columns))
    }
}

#[derive(Default)]
struct Reader {
    run: Vec<Run>,
    processes: Vec<Process>,
    modules: Vec<Module>,
    actors: Vec<Actor>,
    type_model: Vec<TypeModel>,
    types: Vec<TypeRow>,
    objects: Vec<Object>,
    code: Vec<Code>,
    accesses: Vec<Access>,
    touches: Vec<Touch>,
    operations: Option<Vec<Operation>>,
    order: Option<Vec<Turn>>,
    samples: Option<Vec<Sampled>>,
    losses: Vec<Loss>,
    ended: bool,
    /// Tables that had a header.
    seen: Vec<String>,
    problems: Problems,
}

impl Reader {
    fn open(&mut self, line: &Line) -> Option<Block> {
        let header: Header = match serde_json::from_slice(line.text) {
            Ok(h) => h,
            Err(_) => {
                self.problems.push("", line.number, line.at, "neither a table's header nor a row; skipped");
                return None;
            }
        };
        let known = TableKind::by_name(&header.table);
        let columns = match known {
            None => {
                self.note(line, &header.table, "unknown table, skipped (written by a newer tussle?)");
                Vec::new()
            }
            Some((_, names)) => {
                for c in header.columns.iter().filter(|c| !names.contains(&c.as_str())) {
                    self.note(line, &header.table, &format!("unknown column `{}`, skipped", short(c)));
                }
                names.iter().map(|n| header.columns.iter().position(|c| c == n)).collect()
            }
        };
        if let Some((TableKind::End, _)) = known {
            self.ended = true;
        }
        if let Some((TableKind::Operations, _)) = known {
            self.operations.get_or_insert_with(Vec::new);
        }
        if let Some((TableKind::Order, _)) = known {
            self.order.get_or_insert_with(Vec::new);
        }
        if let Some((TableKind::Samples, _)) = known {
            self.samples.get_or_insert_with(Vec::new);
        }
        if self.seen.len() < 64 && !self.seen.contains(&header.table) {
            self.seen.push(header.table.clone());
        }
        let width = header.columns.len();
        Some(Block {
            header,
            kind: known.map(|(k, _)| k),
            usual: columns.iter().enumerate().all(|(i, c)| *c == Some(i)) && columns.len() == width,
            columns,
            rows: 0,
            bytes: 0,
            crc: crc32fast::Hasher::new(),
            line: line.number,
            at: line.at,
        })
    }

    fn note(&mut self, line: &Line, table: &str, what: &str) {
        self.problems.push(&short(table), line.number, line.at, what);
    }

    fn row(&mut self, block: &mut Block, line: &Line) {
        block.rows += 1;
        block.bytes += line.raw.len() as u64;
        block.crc.update(line.raw);
        let Some(kind) = block.kind else { return };
        let p = &mut self.problems;
        match kind {
            TableKind::Run => keep(&mut self.run, block, line, p),
            TableKind::Processes => keep(&mut self.processes, block, line, p),
            TableKind::Modules => keep(&mut self.modules, block, line, p),
            TableKind::Actors => keep(&mut self.actors, block, line, p),
            TableKind::TypeModel => keep(&mut self.type_model, block, line, p),
            TableKind::Types => keep(&mut self.types, block, line, p),
            TableKind::Objects => keep(&mut self.objects, block, line, p),
            TableKind::Code => keep(&mut self.code, block, line, p),
            TableKind::Accesses => keep(&mut self.accesses, block, line, p),
            TableKind::Touches => keep(&mut self.touches, block, line, p),
            TableKind::Operations => keep(self.operations.get_or_insert_with(Vec::new), block, line, p),
            TableKind::Order => keep(self.order.get_or_insert_with(Vec::new), block, line, p),
            TableKind::Samples => keep(self.samples.get_or_insert_with(Vec::new), block, line, p),
            TableKind::Losses => keep(&mut self.losses, block, line, p),
            TableKind::End => p.push(END, line.number, line.at, "a row after the end"),
        }
    }

    /// Compares what a block's header promised with what came.
    fn close(&mut self, block: Block) {
        let Block { header, rows, bytes, crc, line, at, .. } = block;
        let table = short(&header.table);
        if rows != header.rows {
            let what = format!("{rows} of {} rows are there", header.rows);
            self.problems.push(&table, line, at, &what);
        } else if bytes != header.bytes || format!("{:08x}", crc.finalize()) != header.crc32 {
            self.problems.push(
                &table,
                line,
                at,
                "checksum does not match: numbers in this block may be wrong",
            );
        }
    }

    fn finish(mut self) -> (Evidence, Vec<Problem>) {
        let mut run = match self.run.is_empty() {
            false => self.run.swap_remove(0),
            true => {
                self.problems.push("run", 0, 0, "absent: what ran is unknown");
                unknown_run()
            }
        };
        for table in ["processes", "actors", "objects", "accesses", "touches", "losses"] {
            if !self.seen.iter().any(|s| s == table) {
                self.problems.push(table, 0, 0, "absent: unknown, not empty");
            }
        }
        if !self.ended {
            self.problems.push("", 0, 0, "the file is cut off: what came later is missing");
            run.complete = false;
        }
        let mut types = TypeTable::new(self.type_model.first().map_or(8, |m| m.pointer_bytes));
        for (i, row) in self.types.into_iter().enumerate() {
            match i {
                0 => types.set(TypeId::VOID, row.body),
                _ => {
                    types.push(row.body);
                }
            }
        }
        let mut evidence = Evidence {
            run,
            processes: self.processes,
            modules: self.modules,
            actors: self.actors,
            types,
            objects: self.objects,
            code: self.code,
            accesses: self.accesses,
            touches: self.touches,
            operations: self.operations,
            order: self.order,
            samples: self.samples,
            losses: self.losses,
        };
        crate::validate::validate(&mut evidence, &mut self.problems);
        (evidence, self.problems.finish())
    }
}

/// Keeps a row, or what stands in for it where ids count rows, or only says that it is lost.
fn keep<R: Row>(table: &mut Vec<R>, block: &Block, line: &Line, problems: &mut Problems) {
    // The common case, several times faster than going through a value per cell.
    if block.usual
        && let Ok(row) = serde_json::from_slice::<R>(line.text)
    {
        return table.push(row);
    }
    let cells: serde_json::Result<Vec<Value>> = serde_json::from_slice(line.text);
    let row = cells.map_err(|_| "not a JSON array".to_string()).and_then(|mut cells| {
        let mut cell = |i: usize| {
            let at = block.columns.get(i).copied().flatten();
            at.and_then(|at| cells.get_mut(at)).map(Value::take).unwrap_or(Value::Null)
        };
        R::take(&mut cell)
    });
    match row {
        Ok(r) => table.push(r),
        Err(why) => {
            problems.push(R::TABLE, line.number, line.at, &format!("row dropped: {why}"));
            table.extend(R::stand_in());
        }
    }
}

fn unknown_run() -> Run {
    Run {
        format_version: MAJOR,
        tool_version: String::new(),
        source: Source::Recorder,
        unit: "accesses".into(),
        command: Vec::new(),
        started_unix_s: None,
        duration_s: None,
        arch: String::new(),
        cpu_model: String::new(),
        cpus: 0,
        line_bytes: 64,
        window_vt: 1,
        sees: Sees {
            reads: false,
            writes: false,
            rmws: false,
            phases: false,
            chains: false,
            locks: false,
            time: false,
        },
        complete: false,
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
