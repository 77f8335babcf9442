//! BPF type format: the kernel's own, compact description of its types.
//!
//! It knows neither source lines nor `aligned` attributes; where an alignment follows from the layout it is given as
//! [`tussle_model::AlignmentSource::Inferred`].

mod build;
pub mod code;
mod infer;
mod raw;

use std::collections::HashMap;

use tussle_model::{Type, TypeId, TypeTable};

use crate::dwarf::Want;
use crate::error::{Damage, Damages, Error};
use build::Reader;
use raw::{Blob, kind};

pub use infer::infer_alignments;
pub use raw::is_btf;

/// Reads all types of raw BTF. `base` is the BTF that a module's (split) BTF continues: usually that of `vmlinux`.
/// Type ids of the table are those of the BTF.
///
/// # Errors
/// [`Error::Malformed`] when the header or its sections are damaged, [`Error::Unsupported`] when `bytes` do not
/// continue `base`. A damaged type ends the list with a problem.
pub fn read(bytes: &[u8], base: Option<&[u8]>) -> Result<(TypeTable, Vec<Damage>), Error> {
    read_types(bytes, base, &Want::All, 8)
}

/// Reads the wanted types of raw BTF. `pointer_size` in bytes: BTF does not record it.
///
/// # Errors
/// As [`read`].
pub fn read_types(
    bytes: &[u8],
    base: Option<&[u8]>,
    want: &Want<'_>,
    pointer_size: u8,
) -> Result<(TypeTable, Vec<Damage>), Error> {
    let mut problems = Damages::default();
    let mut blobs = Vec::new();
    if let Some(base) = base {
        blobs.push(Blob::parse(base, &mut problems)?);
    }
    let own = Blob::parse(bytes, &mut problems)?;
    if blobs.first().is_some_and(|base| !own.continues(base)) {
        let what = "this is a module's BTF of another kernel than the one at hand; give that kernel's with --btf-base";
        return Err(Error::Unsupported { section: "BTF".into(), what: what.into() });
    }
    blobs.push(own);
    let mut reader = Reader::new(blobs, pointer_size, problems);
    let mut table = match want {
        Want::All => all(&mut reader),
        Want::Names(names) | Want::Definitions(names) => named(&mut reader, names),
    };
    infer_alignments(&mut table);
    table.aligns_lost = Some(true);
    if reader.len() > 1 && table.is_empty() && matches!(want, Want::All) {
        reader.problems.add("BTF", 0, "holds no readable type");
    }
    Ok((table, reader.problems.0))
}

/// The BTF continues that of another file, as a kernel module's does.
pub fn is_split(bytes: &[u8]) -> bool {
    Blob::parse(bytes, &mut Damages::default()).is_ok_and(|b| b.is_split())
}

/// Every record, under its own id.
fn all(reader: &mut Reader<'_>) -> TypeTable {
    let mut table = TypeTable::new(reader.pointer_size);
    for id in 1..reader.len() as u32 {
        let ty = reader.build(id, &mut |r, to, _| TypeId(r.untagged(to)));
        table.push(ty);
    }
    crate::definitions::replace_declarations(table)
}

/// The definitions of each name and what it contains; types behind pointers become declarations.
fn named(reader: &mut Reader<'_>, names: &[String]) -> TypeTable {
    let roots = names.iter().flat_map(|n| reader.find_all(n)).collect();
    crate::definitions::replace_declarations(reached(reader, roots).0)
}

/// These types and what they contain, with the ids that the first ones get.
fn reached(reader: &mut Reader<'_>, roots: Vec<u32>) -> (TypeTable, Vec<TypeId>) {
    let mut table = TypeTable::new(reader.pointer_size);
    let mut known: HashMap<(u32, bool), TypeId> = HashMap::new();
    let mut todo = Vec::new();
    let mut reserve = Reserve { table: &mut table, known: &mut known, todo: &mut todo };
    let ids = roots.into_iter().map(|id| reserve.get(reader, id, true)).collect();
    while let Some((id, body, at)) = todo.pop() {
        let mut reserve = Reserve { table: &mut table, known: &mut known, todo: &mut todo };
        let ty = if body {
            reader.build(id, &mut |r, to, by_value| reserve.get(r, to, by_value))
        } else {
            reader.declaration(id)
        };
        table.set(at, ty);
    }
    (table, ids)
}

/// Gives new ids to the records that are reached.
struct Reserve<'a> {
    table: &'a mut TypeTable,
    known: &'a mut HashMap<(u32, bool), TypeId>,
    todo: &'a mut Vec<(u32, bool, TypeId)>,
}

impl Reserve<'_> {
    /// `by_value` when the body is needed; otherwise a named struct becomes a declaration.
    fn get(&mut self, reader: &Reader<'_>, id: u32, by_value: bool) -> TypeId {
        let id = reader.untagged(id);
        if id == 0 {
            return TypeId::VOID;
        }
        let body = by_value || !reader.is_named_aggregate(id);
        let found = self.known.get(&(id, true)).or_else(|| self.known.get(&(id, body)));
        if let Some(&known) = found {
            return known;
        }
        let at = self.table.push(Type::Void);
        self.known.insert((id, body), at);
        self.todo.push((id, body, at));
        at
    }
}

/// A kind that [`TypeTable::find`] could return.
fn is_findable(kind: u32) -> bool {
    matches!(kind, kind::STRUCT | kind::UNION | kind::TYPEDEF | kind::ENUM | kind::ENUM64)
}
