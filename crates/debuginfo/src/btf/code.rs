//! What BTF tells of code: which structs a function's parameters point to, and what lies behind a pointer's members.

use std::collections::HashMap;

use tussle_model::{TypeId, TypeTable};

use super::build::Reader;
use super::raw::{Blob, Record, kind};
use super::{infer_alignments, reached};
use crate::error::{Damages, Error};

/// Parameters that registers hold.
pub const PARAMETERS: usize = 6;

/// Structs inside of structs, and modifiers of one type, that are followed.
const DEPTH_MAX: usize = 32;

/// Structs that the parameters of a function point to; `None`: something else.
pub type Parameters = [Option<u32>; PARAMETERS];

/// The types of a kernel, asked for by code. Structs are called by their ids in the BTF.
pub struct CodeTypes<'d> {
    reader: Reader<'d>,
    /// By name; `None` where there are two of them.
    functions: HashMap<&'d [u8], Option<u32>>,
    variables: HashMap<&'d [u8], Option<u32>>,
}

impl<'d> CodeTypes<'d> {
    /// Reads raw BTF.
    ///
    /// # Errors
    /// The header or its sections are damaged.
    pub fn read(bytes: &'d [u8]) -> Result<CodeTypes<'d>, Error> {
        let blob = Blob::parse(bytes, &mut Damages::default())?;
        let reader = Reader::new(vec![blob], 8, Damages::default());
        let (mut functions, mut variables) = (HashMap::new(), HashMap::new());
        for id in 1..reader.len() as u32 {
            let Some(r) = reader.record(id) else { continue };
            let known = match r.kind {
                kind::FUNC => &mut functions,
                kind::VAR => &mut variables,
                _ => continue,
            };
            known.entry(reader.text(r.name)).and_modify(|k| *k = None).or_insert(Some(r.size));
        }
        Ok(CodeTypes { reader, functions, variables })
    }

    /// What a function is called with; `None` when its name is not known, or not its alone.
    pub fn parameters(&self, function: &str) -> Option<Parameters> {
        let proto = self.reader.record((*self.functions.get(function.as_bytes())?)?)?;
        let mut out = [None; PARAMETERS];
        for (n, slot) in out.iter_mut().enumerate().take(proto.count) {
            let ty = self.plain(proto.word(2 * n + 1));
            // A struct by value takes any number of registers, or none.
            if self.reader.record(ty).is_none_or(|r| matches!(r.kind, kind::STRUCT | kind::UNION)) {
                break;
            }
            *slot = self.pointee(ty);
        }
        Some(out)
    }

    /// Type of the variable that alone has this name.
    pub fn type_of(&self, variable: &str) -> Option<u32> {
        *self.variables.get(variable.as_bytes())?
    }

    /// The struct that a pointer at this byte of a variable points to.
    pub fn variable(&self, name: &str, offset: u64) -> Option<u32> {
        let ty = self.plain(self.type_of(name)?);
        match self.reader.record(ty)?.kind {
            kind::STRUCT => self.pointer_at(ty, offset),
            _ if offset == 0 => self.pointee(ty),
            _ => None,
        }
    }

    /// Bytes of a struct.
    pub fn size(&self, id: u32) -> u64 {
        self.reader.record(id).filter(|r| r.kind == kind::STRUCT).map_or(0, |r| u64::from(r.size))
    }

    /// The struct that a pointer at this byte of a struct points to.
    pub fn pointer_at(&self, id: u32, offset: u64) -> Option<u32> {
        let (mut id, mut left) = (id, offset);
        for _ in 0..DEPTH_MAX {
            let (member, at) = self.member(id, left)?;
            left -= at;
            match self.reader.record(member)?.kind {
                kind::STRUCT => id = member,
                _ if left == 0 => return self.pointee(member),
                _ => return None,
            }
        }
        None
    }

    /// Whether a struct has another one at this byte, at any depth, or is it.
    pub fn holds(&self, id: u32, offset: u64, inner: u32) -> bool {
        let (mut id, mut left) = (id, offset);
        for _ in 0..DEPTH_MAX {
            if id == inner && left == 0 {
                return true;
            }
            match self.member(id, left) {
                Some((member, at)) => (id, left) = (member, left - at),
                None => return false,
            }
        }
        false
    }

    /// These structs with all that they contain, and their ids in the table.
    pub fn table(&mut self, ids: &[u32]) -> (TypeTable, Vec<TypeId>) {
        let (mut table, ids) = reached(&mut self.reader, ids.to_vec());
        infer_alignments(&mut table);
        (table, ids)
    }

    /// Without typedefs, `const` and their like.
    fn plain(&self, mut id: u32) -> u32 {
        for _ in 0..DEPTH_MAX {
            match self.reader.record(id) {
                Some(r) if is_modifier(&r) => id = r.size,
                _ => break,
            }
        }
        id
    }

    /// The named struct that a pointer points to.
    fn pointee(&self, id: u32) -> Option<u32> {
        let pointer = self.reader.record(self.plain(id)).filter(|r| r.kind == kind::PTR)?;
        let to = self.plain(pointer.size);
        let r = self.reader.record(to).filter(|r| r.kind == kind::STRUCT)?;
        (!self.reader.text(r.name).is_empty()).then_some(to)
    }

    /// The member of a struct that holds this byte: its type and where it begins. Not of unions: nobody knows which.
    fn member(&self, id: u32, offset: u64) -> Option<(u32, u64)> {
        let r = self.reader.record(id).filter(|r| r.kind == kind::STRUCT && offset < u64::from(r.size))?;
        let begin = |n: usize| {
            let at = r.word(3 * n + 2);
            // With bit-fields among the members the upper byte is their size.
            u64::from(if r.flag { at & 0xff_ffff } else { at }) / 8
        };
        let n = (0..r.count).rev().find(|n| begin(*n) <= offset)?;
        Some((self.plain(r.word(3 * n + 1)), begin(n)))
    }
}

fn is_modifier(r: &Record<'_>) -> bool {
    matches!(r.kind, kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
}
