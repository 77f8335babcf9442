//! The file format: blocks of rows with checksums, readable up to the block in which its writer was killed.
//!
//! Packed, as `tussle record` and the others write it (header lines are text, bodies are compressed columns):
//!
//! ```text
//! {"format":"tussle-evidence","major":2,"minor":0,"body":"packed"}
//! {"table":"accesses","columns":["object","offset",...],"rows":2,"bytes":31,"raw":28,"crc32":"01234567"}
//! ... 31 bytes and a line feed ...
//! {"table":"end","columns":[],"rows":0,"bytes":0,"raw":0,"crc32":"00000000"}
//! ```
//!
//! As JSON Lines, as `tussle export --jsonl` writes it and version 1 was:
//!
//! ```text
//! {"format":"tussle-evidence","major":2,"minor":0}
//! {"table":"accesses","columns":["object","offset",...],"rows":2,"bytes":54,"crc32":"01234567"}
//! [0,24,8,1,0,99840,0,50000,0]
//! [0,32,8,2,0,99840,0,50000,0]
//! {"table":"end","columns":[],"rows":0,"bytes":0,"crc32":"00000000"}
//! ```
//!
//! A table may come in several blocks; row numbers go on. `docs/evidence.md` fixes the columns.

mod kinds;
mod older;
mod pack;
mod packed;
mod parts;
mod text;

pub use kinds::Extent;
pub use parts::{OpenError, Parts, ReadAt};

use crate::columns::{Row, TypeModel, TypeRow};
use crate::problem::Problem;
use crate::tables::*;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Major version of the format that this build writes. Older ones are read, a newer one is refused.
pub const MAJOR: u32 = 2;

/// Minor version that this build writes: grows when tables or columns are added.
pub const MINOR: u32 = 0;

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
    /// `packed`, or absent for JSON Lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// The line before a block's rows.
#[derive(Serialize, Deserialize)]
struct Header {
    table: String,
    columns: Vec<String>,
    rows: u64,
    /// Bytes that follow, up to the next header (without the line feed after packed ones).
    bytes: u64,
    /// Bytes of the columns before they were compressed; of packed blocks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<u64>,
    crc32: String,
}

const FORMAT: &str = "tussle-evidence";
const END: &str = "end";
/// A block whose body is a whole file: the same work with turns of another length.
const OTHER: &str = "other";
const PACKED: &str = "packed";

/// Writes the whole file, packed. Nothing is buffered beyond a few blocks, which are made on all CPUs.
///
/// # Errors
/// Those of `out`; and `InvalidData` for a value that JSON cannot hold.
pub fn write(evidence: &Evidence, out: &mut impl Write) -> io::Result<()> {
    magic(out, Some(PACKED.into()))?;
    all(evidence, &mut packed::Writer { out })
}

/// Writes the whole file as JSON Lines: larger and slower, for other programs.
///
/// # Errors
/// As those of [`write`].
pub fn write_jsonl(evidence: &Evidence, out: &mut impl Write) -> io::Result<()> {
    magic(out, None)?;
    all(evidence, &mut text::Writer { out })
}

fn magic(out: &mut impl Write, body: Option<String>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Magic { format: FORMAT.into(), major: MAJOR, minor: MINOR, body })?;
    out.write_all(b"\n")
}

/// Where tables go.
trait Tables {
    fn table<R: Row>(&mut self, rows: &[R]) -> io::Result<()>;
    /// An evidence inside of this one; JSON Lines hold none.
    fn other(&mut self, _: &Evidence) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()>;

    fn optional<R: Row>(&mut self, rows: &Option<Vec<R>>) -> io::Result<()> {
        rows.as_ref().map_or(Ok(()), |rows| self.table(rows))
    }
}

/// What rows refer to comes before them.
fn all(e: &Evidence, to: &mut impl Tables) -> io::Result<()> {
    to.table(std::slice::from_ref(&e.run))?;
    to.table(&e.processes)?;
    to.table(&e.modules)?;
    to.table(&e.actors)?;
    to.table(&[TypeModel { pointer_bytes: e.types.pointer_size }])?;
    let types: Vec<TypeRow> = e.types.iter().map(|(_, t)| TypeRow { body: t.clone() }).collect();
    to.table(&types)?;
    to.optional(&e.regions)?;
    to.table(&e.objects)?;
    to.table(&e.code)?;
    to.optional(&e.schedules)?;
    to.table(&e.accesses)?;
    to.table(&e.touches)?;
    to.optional(&e.operations)?;
    to.optional(&e.order)?;
    to.optional(&e.transfers)?;
    to.optional(&e.samples)?;
    to.optional(&e.rates)?;
    to.optional(&e.heat)?;
    to.optional(&e.marks)?;
    to.optional(&e.stretches)?;
    to.table(&e.losses)?;
    e.others.iter().try_for_each(|other| to.other(other))?;
    to.end()
}

/// Reads as much as is there, of this version or an older one, packed or as JSON Lines.
///
/// A file cut off at any byte gives the blocks before the cut (of JSON Lines: the rows) and `run.complete == false`.
/// Unreadable rows, wrong checksums, rows that refer to nothing, unknown tables and columns are stated as problems,
/// never a panic; memory stays proportional to `bytes`.
///
/// # Errors
/// The first line is not that of an evidence file, or its major version is newer than [`MAJOR`].
pub fn read(bytes: &[u8]) -> Result<(Evidence, Vec<Problem>), Error> {
    read_in(bytes, false)
}

/// As [`read`]; `inside`: of another file.
fn read_in(bytes: &[u8], inside: bool) -> Result<(Evidence, Vec<Problem>), Error> {
    let (magic, rest) = magic_of(bytes)?;
    let reader = match magic.body {
        None => text::read(bytes, rest),
        Some(_) => packed::read(bytes, rest, inside),
    };
    Ok(reader.finish(magic.major))
}

/// What the first line says, of a file that this build can read, and where the next one begins.
fn magic_of(bytes: &[u8]) -> Result<(Magic, usize), Error> {
    let (first, rest) = split_line(bytes);
    if first.is_empty() {
        return Err(Error::NotEvidence { why: "it is empty".into() });
    }
    let magic: Magic = serde_json::from_slice(first)
        .map_err(|_| Error::NotEvidence { why: "its first line does not name the format".into() })?;
    if magic.format != FORMAT {
        return Err(Error::NotEvidence { why: format!("its format is {:?}", short(&magic.format)) });
    }
    if magic.major > MAJOR {
        return Err(Error::Newer { found: magic.major, known: MAJOR });
    }
    match magic.body.as_deref() {
        None | Some(PACKED) => Ok((magic, rest)),
        Some(other) => {
            let why = format!("its tables are {:?}, which this tussle cannot read", short(other));
            Err(Error::NotEvidence { why })
        }
    }
}

/// The first line, without its end, and where the next one begins.
fn split_line(bytes: &[u8]) -> (&[u8], usize) {
    match bytes.iter().position(|&b| b == b'\n') {
        Some(i) => (&bytes[..i], i + 1),
        None => (bytes, bytes.len()),
    }
}

fn short(s: &str) -> String {
    s.chars().take(40).collect()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
