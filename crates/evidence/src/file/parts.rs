//! A file whose largest tables are read a block at a time: memory for one block, however large the file is.

use super::kinds::{At, Extent, Reader};
use super::{Error, MAJOR, OTHER, magic_of, packed, text};
use crate::tables::Evidence;
use crate::validate;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Tables that nothing refers to by number, each row of which is judged by itself.
const LAST: [&str; 7] = ["accesses", "touches", "operations", "transfers", "samples", "rates", "heat"];

/// Bytes of a file from an offset on, so many: all of them, or an error.
pub type ReadAt = Box<dyn Fn(u64, usize) -> io::Result<Vec<u8>> + Send + Sync>;

/// Where blocks are read.
enum Held {
    Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>),
    File(ReadAt),
}

impl Held {
    /// The block that begins there, and what follows it.
    fn block(&self, block: &Block) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Held::Bytes(all) => {
                Ok(Cow::Borrowed((**all).as_ref().get(block.at.byte as usize..).unwrap_or_default()))
            }
            Held::File(read) => read(block.at.byte, block.length).map(Cow::Owned),
        }
    }
}

/// A block: where, and of how many bytes in a file.
struct Block {
    at: At,
    length: usize,
}

/// Bytes in which a header ends.
const HEADER_MAX: usize = 1 << 16;

/// An evidence without these tables, and where their blocks lie. JSON Lines and older files are read whole: they have
/// no such blocks. Recordings with turns of other lengths are left out.
///
/// Rows are those that [`read`] gives, but for what no run can count in all: a sum beyond 2^56 is not noticed.
pub struct Parts {
    held: Held,
    rest: Evidence,
    blocks: BTreeMap<String, Vec<Block>>,
    /// Of the tables in `rest`.
    extents: Vec<(String, Extent)>,
}

impl Parts {
    /// Reads everything but those tables.
    ///
    /// # Errors
    /// As those of [`read`].
    pub fn open(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Result<Parts, Error> {
        let all = (*bytes).as_ref();
        let (magic, start) = magic_of(all)?;
        if magic.body.is_none() || magic.major != MAJOR {
            let reader = match magic.body {
                None => text::read(all, start),
                Some(_) => packed::read(all, start, false),
            };
            let mut extents = reader.extents();
            let rest = Evidence { others: Vec::new(), ..reader.finish(magic.major).0 };
            // Version 1 had them under another name.
            let older = extents.iter().find(|e| e.0 == "samples" && rest.samples.is_none()).map(|e| e.1);
            extents.extend(older.map(|extent| ("transfers".to_string(), extent)));
            return Ok(Parts { rest, held: Held::Bytes(bytes), blocks: BTreeMap::new(), extents });
        }
        let (mut reader, mut blocks) = (Reader::default(), BTreeMap::<String, Vec<Block>>::new());
        let (mut at, mut line) = (start, 1);
        while at < all.len() {
            line += 1;
            let place = At { line, byte: at as u64 };
            at = match packed::peek(all, at) {
                Some((table, next)) if LAST.contains(&table.as_str()) => {
                    blocks.entry(table).or_default().push(Block { at: place, length: next - at });
                    next
                }
                Some((table, next)) if table == OTHER => next,
                _ => packed::step(&mut reader, all, place, false),
            };
        }
        let extents = reader.extents();
        let rest = reader.finish(magic.major).0;
        Ok(Parts { rest, held: Held::Bytes(bytes), blocks, extents })
    }

    /// As [`Parts::open`] of a file of so many bytes, which is never in memory as a whole, but where it is damaged, of
    /// JSON Lines, or of an older version.
    ///
    /// # Errors
    /// As those of [`Parts::open`], and those of reading.
    pub fn open_at(length: u64, read: ReadAt) -> Result<Parts, OpenError> {
        match Parts::blocks_at(length, &read)? {
            Some((rest, blocks, extents)) => Ok(Parts { held: Held::File(read), rest, blocks, extents }),
            None => Ok(Parts::open(Arc::new(read(0, usize::try_from(length).unwrap_or(usize::MAX))?))?),
        }
    }

    /// `None`: something is not as this build writes it.
    fn blocks_at(length: u64, read: &ReadAt) -> Result<Option<Scanned>, OpenError> {
        let window = |at: u64| read(at, usize::try_from(length - at).unwrap_or(usize::MAX).min(HEADER_MAX));
        let (magic, start) = magic_of(&window(0)?)?;
        if magic.body.is_none() || magic.major != MAJOR {
            return Ok(None);
        }
        let (mut reader, mut blocks) = (Reader::default(), BTreeMap::<String, Vec<Block>>::new());
        let (mut at, mut line) = (start as u64, 1);
        while at < length {
            line += 1;
            let Some((table, size)) = packed::size(&window(at)?).filter(|(_, n)| *n as u64 <= length - at)
            else {
                return Ok(None);
            };
            // Every block, or the header of an empty one, ends its line.
            if read(at + size as u64 - 1, 1)? != b"\n" {
                return Ok(None);
            }
            if LAST.contains(&table.as_str()) {
                let block = Block { at: At { line, byte: at }, length: size };
                blocks.entry(table).or_default().push(block);
            } else if table != OTHER {
                let bytes = read(at, size)?;
                if packed::step(&mut reader, &bytes, At { line, byte: 0 }, false) != size {
                    return Ok(None);
                }
            }
            at += size as u64;
        }
        let extents = reader.extents();
        Ok(Some((reader.finish(MAJOR).0, blocks, extents)))
    }

    /// All tables that are not read in blocks.
    pub fn rest(&self) -> &Evidence {
        &self.rest
    }

    /// Blocks of a table; `None`: it is not read in blocks, and [`Parts::rest`] has it if the file has.
    pub fn blocks(&self, table: &str) -> Option<usize> {
        self.blocks.get(table).map(Vec::len)
    }

    /// How much of a table can be read, by the checksums of its blocks.
    pub fn extent(&self, table: &str) -> Extent {
        let Some(blocks) = self.blocks.get(table) else {
            return self.extents.iter().find(|e| e.0 == table).map_or(Extent::None, |e| e.1);
        };
        let mut whole =
            blocks.iter().map(|b| self.held.block(b).is_ok_and(|bytes| packed::is_whole(&bytes, 0)));
        let first = whole.next().unwrap_or(false);
        match (first, whole.all(|w| w == first)) {
            (true, true) => Extent::Whole,
            (false, true) => Extent::None,
            (_, false) => Extent::Part,
        }
    }

    /// Puts the rows of one block into the rest, for as long as `look` looks at it.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn with_block<T>(
        &mut self,
        table: &str,
        block: usize,
        look: impl FnOnce(&Evidence) -> T,
    ) -> io::Result<T> {
        let Some(block) = self.blocks.get(table).and_then(|b| b.get(block)) else {
            return Ok(look(&self.rest));
        };
        let mut reader = Reader::default();
        packed::step(&mut reader, &self.held.block(block)?, At { line: block.at.line, byte: 0 }, true);
        reader.last_into(&mut self.rest);
        validate::last_rows(&mut self.rest);
        let seen = look(&self.rest);
        Reader::default().last_into(&mut self.rest);
        Ok(seen)
    }
}

type Scanned = (Evidence, BTreeMap<String, Vec<Block>>, Vec<(String, Extent)>);

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is no evidence.
    #[error(transparent)]
    Format(#[from] Error),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
