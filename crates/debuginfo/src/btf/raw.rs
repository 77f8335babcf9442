//! The sections of one BTF blob and its type records, checked once so that later reads cannot fail.
//!
//! The format is described in the kernel's Documentation/bpf/btf.rst; kinds up to 19 (`ENUM64`) are known.

use crate::error::{Damages, Error};

const MAGIC: u16 = 0xeb9f;

/// A type table never has more entries: the kernel's own limit is 2^20, its largest has some 200,000.
const TYPES_MAX: usize = 1 << 24;

/// Kinds of type records.
pub(super) mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// One blob: its strings and where each record starts.
pub(super) struct Blob<'d> {
    little: bool,
    strings: &'d [u8],
    types: &'d [u8],
    /// Offset of each record in `types`.
    starts: Vec<u32>,
}

/// The fixed part of a record, and its id's following words.
#[derive(Clone, Copy)]
pub(super) struct Record<'d> {
    little: bool,
    pub name: u32,
    pub kind: u32,
    pub flag: bool,
    /// Size in bytes or id of another type, by kind.
    pub size: u32,
    /// Number of members, values, parameters.
    pub count: usize,
    tail: &'d [u8],
}

impl<'d> Record<'d> {
    /// A word behind the fixed part; 0 beyond the end.
    pub fn word(&self, index: usize) -> u32 {
        let at = index * 4;
        self.tail.get(at..at + 4).map_or(0, |b| word(b, self.little))
    }
}

fn word(bytes: &[u8], little: bool) -> u32 {
    let b = bytes.first_chunk::<4>().copied().unwrap_or_default();
    if little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) }
}

/// Raw BTF in either byte order begins like this.
pub fn is_btf(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes()) || bytes.starts_with(&MAGIC.to_be_bytes())
}

impl<'d> Blob<'d> {
    pub fn parse(bytes: &'d [u8], problems: &mut Damages) -> Result<Blob<'d>, Error> {
        if !is_btf(bytes) {
            return Err(Error::malformed("BTF", 0, "does not begin with the magic number 0xeb9f"));
        }
        let little = bytes.starts_with(&MAGIC.to_le_bytes());
        let field = |at: usize| {
            let b = bytes.get(at..at + 4).ok_or_else(|| {
                Error::malformed("BTF", at as u64, format!("header cut off: {} bytes", bytes.len()))
            })?;
            Ok::<usize, Error>(word(b, little) as usize)
        };
        let version = bytes.get(2).copied().unwrap_or(0);
        if version != 1 {
            let what = format!("version {version}");
            return Err(Error::Unsupported { section: "BTF".into(), what });
        }
        let start = field(4)?;
        let part = |what: &str, offset: usize, len: usize| {
            let from = start.checked_add(offset);
            let range = from.and_then(|f| Some(f..f.checked_add(len)?));
            range.and_then(|r| bytes.get(r)).ok_or_else(|| {
                let what = format!("{what} section of {len} bytes reaches beyond the end at {}", bytes.len());
                Error::malformed("BTF", offset as u64, what)
            })
        };
        let types = part("type", field(8)?, field(12)?)?;
        let strings = part("string", field(16)?, field(20)?)?;
        let starts = starts(types, little, problems);
        Ok(Blob { little, strings, types, starts })
    }

    /// The blob cannot stand alone: its strings or names continue those of another.
    pub fn is_split(&self) -> bool {
        let beyond = |r: Record<'_>| r.name as usize >= self.strings.len().max(1);
        self.strings.first().is_some_and(|&b| b != 0)
            || (0..self.len()).filter_map(|i| self.record(i)).any(beyond)
    }

    /// The names of a module's BTF, counted from the start of `base`'s strings, are whole strings: with another
    /// kernel's BTF in front nearly all of them would begin somewhere inside a string.
    pub fn continues(&self, base: &Blob<'_>) -> bool {
        let whole = |strings: &[u8], at: usize| match at.checked_sub(1) {
            None => !strings.is_empty(),
            Some(before) => at < strings.len() && strings[before] == 0,
        };
        let (mut whole_count, mut torn_count) = (0u32, 0u32);
        for record in (0..self.len()).filter_map(|i| self.record(i)).filter(|r| r.name != 0) {
            let name = record.name as usize;
            let fits = match name.checked_sub(base.strings.len()) {
                None => whole(base.strings, name),
                Some(own) => whole(self.strings, own),
            };
            *(if fits { &mut whole_count } else { &mut torn_count }) += 1;
        }
        torn_count <= whole_count / 10
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of strings.
    pub fn strings_len(&self) -> usize {
        self.strings.len()
    }

    pub fn record(&self, index: usize) -> Option<Record<'d>> {
        let at = *self.starts.get(index)? as usize;
        let head = self.types.get(at..at + 12)?;
        let info = word(&head[4..], self.little);
        Some(Record {
            little: self.little,
            name: word(head, self.little),
            kind: info >> 24 & 0x1f,
            flag: info >> 31 != 0,
            size: word(&head[8..], self.little),
            count: (info & 0xffff) as usize,
            tail: &self.types[at + 12..],
        })
    }

    /// The string at an offset of this blob's string section.
    pub fn string(&self, offset: usize) -> &'d [u8] {
        let rest = self.strings.get(offset..).unwrap_or(&[]);
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Offsets at which the string section holds exactly `text` (strings may share their ends).
    pub fn find_string(&self, text: &[u8]) -> Vec<u32> {
        let mut pattern = text.to_vec();
        pattern.push(0);
        let starts = memchr::memmem::find_iter(self.strings, &pattern);
        starts.filter_map(|at| u32::try_from(at).ok()).take(1 << 12).collect()
    }
}

/// Where the records start. A damaged record ends the list: nothing behind it can be found.
fn starts(types: &[u8], little: bool, problems: &mut Damages) -> Vec<u32> {
    let mut starts = Vec::with_capacity(types.len() / 20);
    let mut at = 0;
    while at < types.len() {
        let Some(head) = types.get(at..at + 12) else {
            problems.add("BTF", at as u64, "the last type is cut off");
            break;
        };
        let info = word(&head[4..], little);
        let Some(tail) = tail_bytes(info >> 24 & 0x1f, (info & 0xffff) as usize) else {
            problems.add("BTF", at as u64, format!("type kind {} is unknown", info >> 24 & 0x1f));
            break;
        };
        let end = at + 12 + tail;
        if end > types.len() || starts.len() >= TYPES_MAX {
            problems.add("BTF", at as u64, "the last type is cut off");
            break;
        }
        starts.push(at as u32);
        at = end;
    }
    starts
}

/// Bytes behind the fixed part of a record.
fn tail_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
        kind::ENUM | kind::FUNC_PROTO => 8 * count,
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => 0,
        kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}
