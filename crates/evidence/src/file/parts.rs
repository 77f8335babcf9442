//! A file whose largest tables are read a block at a time: memory for one block, however large the file is.

use super::kinds::{At, Reader};
use super::{Error, MAJOR, OTHER, magic_of, packed, read};
use crate::tables::Evidence;
use crate::validate;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tables that nothing refers to by number, each row of which is judged by itself.
const LAST: [&str; 7] = ["accesses", "touches", "operations", "transfers", "samples", "rates", "heat"];

/// An evidence without these tables, and where their blocks lie. JSON Lines and older files are read whole: they have
/// no such blocks. Recordings with turns of other lengths are left out.
///
/// Rows are those that [`read`] gives, but for what no run can count in all: a sum beyond 2^56 is not noticed.
pub struct Parts {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    rest: Evidence,
    blocks: BTreeMap<String, Vec<At>>,
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
            let rest = Evidence { others: Vec::new(), ..read(all)?.0 };
            return Ok(Parts { rest, bytes, blocks: BTreeMap::new() });
        }
        let (mut reader, mut blocks) = (Reader::default(), BTreeMap::<String, Vec<At>>::new());
        let (mut at, mut line) = (start, 1);
        while at < all.len() {
            line += 1;
            let place = At { line, byte: at as u64 };
            at = match packed::peek(all, at) {
                Some((table, next)) if LAST.contains(&table.as_str()) => {
                    blocks.entry(table).or_default().push(place);
                    next
                }
                Some((table, next)) if table == OTHER => next,
                _ => packed::step(&mut reader, all, place, false),
            };
        }
        let rest = reader.finish(magic.major).0;
        Ok(Parts { rest, bytes, blocks })
    }

    /// All tables that are not read in blocks.
    pub fn rest(&self) -> &Evidence {
        &self.rest
    }

    /// Blocks of a table; `None`: it is not read in blocks, and [`Parts::rest`] has it if the file has.
    pub fn blocks(&self, table: &str) -> Option<usize> {
        self.blocks.get(table).map(Vec::len)
    }

    /// Puts the rows of one block into the rest, for as long as `look` looks at it.
    pub fn with_block<T>(&mut self, table: &str, block: usize, look: impl FnOnce(&Evidence) -> T) -> T {
        let Some(place) = self.blocks.get(table).and_then(|b| b.get(block)) else { return look(&self.rest) };
        let mut reader = Reader::default();
        packed::step(&mut reader, (*self.bytes).as_ref(), *place, true);
        reader.last_into(&mut self.rest);
        validate::last_rows(&mut self.rest);
        let seen = look(&self.rest);
        Reader::default().last_into(&mut self.rest);
        seen
    }
}
