//! A file whose largest tables are read a block at a time: memory for one block, however large the file is.

use super::kinds::{At, Extent, Reader};
use super::{Error, MAJOR, OTHER, magic_of, packed, text};
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
            return Ok(Parts { rest, bytes, blocks: BTreeMap::new(), extents });
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
        let extents = reader.extents();
        let rest = reader.finish(magic.major).0;
        Ok(Parts { rest, bytes, blocks, extents })
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
        let all = (*self.bytes).as_ref();
        let mut whole = blocks.iter().map(|b| packed::is_whole(all, b.byte as usize));
        let first = whole.next().unwrap_or(false);
        match (first, whole.all(|w| w == first)) {
            (true, true) => Extent::Whole,
            (false, true) => Extent::None,
            (_, false) => Extent::Part,
        }
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
