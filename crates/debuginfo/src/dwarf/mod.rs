//! Types from DWARF 4 and 5.
//!
//! [`Files::load`] gathers the sections of an executable and its companions, [`Files::units`] lists the units, and
//! [`Types`] resolves entries to types of one [`TypeTable`]: all of them, the ones with given names, or whichever
//! entry is asked for.

mod abi;
mod build;
mod content;
mod context;
mod cursor;
mod die;
mod fast;
mod file_table;
mod files;
pub(crate) mod hash;
mod ident;
mod member;
mod memo;
mod names;
mod no_bytes;
mod order;
mod parallel;
mod plan;
mod split;
mod types;
mod units;
mod virtual_bases;
mod wide_bits;

use std::collections::HashMap;

use tussle_model::{TypeId, TypeTable};

use crate::companion::Companions;
use crate::elf::Elf;
use crate::error::{Damage, Damages, Error};

pub use files::{Files, Slice};
pub use types::Types;
pub use units::{DieRef, UnitEntry, Units};

/// Which types are to be read.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// Every struct, union, class, typedef and enumeration, and what they need.
    All,
    /// The first definition of each name (`foo`, `struct foo`, `ns::Foo`, a typedef), with all that it contains.
    /// Types behind its pointers become declarations.
    Names(&'a [String]),
    /// All definitions of each name, where units disagree about it: [`TypeTable::find_all`] tells them apart.
    Definitions(&'a [String]),
}

impl<'d> Files<'d> {
    /// The units of all files. What cannot be read is appended to `problems`.
    ///
    /// # Errors
    /// [`Error::Malformed`] when not even the first unit can be read.
    pub fn units(&self, problems: &mut Vec<Damage>) -> Result<Units<'_>, Error> {
        let mut found = Damages::default();
        let units = Units::load(self, &mut found);
        problems.append(&mut found.0);
        units
    }
}

/// The types at these offsets of the main file's `.debug_info`, as `symbols::Variable::ty` has them. Types behind their
/// pointers are declarations.
///
/// # Errors
/// As [`read_types`].
pub fn read_entries(
    elf: &Elf<'_>,
    offsets: &[usize],
    companions: &mut dyn Companions,
) -> Result<(TypeTable, HashMap<usize, TypeId>), Error> {
    let files = Files::load(elf, companions)?;
    let units = files.units(&mut Vec::new())?;
    let mut types = Types::new(&units, files.pointer_size());
    types.stubs = true;
    let mut found = HashMap::new();
    for &offset in offsets {
        if let Some(at) = types.entry(gimli::DebugInfoOffset(offset)) {
            found.insert(offset, types.resolve(at));
        }
    }
    let (table, ids, _) = types.finish_with_ids();
    found.retain(|_, id| ids.get(id.0 as usize).map(|new| *id = *new).is_some());
    Ok((table, found))
}

/// Reads the wanted types of an executable with DWARF.
///
/// # Errors
/// [`Error::NoDebugInfo`] without `.debug_info`, [`Error::Malformed`] when nothing of it is readable.
pub fn read_types(
    elf: &Elf<'_>,
    want: &Want<'_>,
    companions: &mut dyn Companions,
) -> Result<(TypeTable, Vec<Damage>), Error> {
    let mut files = Files::load(elf, companions)?;
    let mut problems = std::mem::take(&mut files.problems);
    let units = files.units(&mut problems)?;
    let mut types = Types::new(&units, files.pointer_size());
    types.table.lost = problems.first().map(ToString::to_string);
    match want {
        Want::All => types.read_all(),
        Want::Names(names) => types.read_named(names),
        Want::Definitions(names) => types.read_definitions(names),
    }
    let (table, mut found) = types.finish();
    problems.append(&mut found);
    Ok((table, problems))
}
