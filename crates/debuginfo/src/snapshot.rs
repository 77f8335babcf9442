//! Snapshots: the layouts of a few structs as a small JSON file that is accepted wherever a binary is.
//!
//! ```json
//! {"tussle_snapshot": 1, "roots": [3], "table": {"pointer_size": 8, "types": ["Void", ..]}}
//! ```
//! `tussle_snapshot` is the schema version; a reader refuses versions that it does not know. Types refer to each
//! other by their index in `types`; fields that are absent have their default. Structs behind pointers are
//! declarations, so that one struct does not drag in a whole kernel.

use serde::{Deserialize, Serialize};
use tussle_model::{Type, TypeId, TypeTable};

use crate::error::{Damage, Damages, Error};

/// The schema version that is written.
pub const SCHEMA_VERSION: u32 = 1;

/// Larger files are no snapshots.
const BYTES_MAX: usize = 1 << 28;

#[derive(Serialize)]
struct Write<'a> {
    tussle_snapshot: u32,
    roots: &'a [TypeId],
    table: &'a TypeTable,
}

#[derive(Deserialize)]
struct Read {
    #[serde(default)]
    roots: Vec<TypeId>,
    table: TypeTable,
}

#[derive(Deserialize)]
struct Version {
    tussle_snapshot: u32,
}

/// A snapshot of `roots` and everything that they contain by value.
///
/// # Errors
/// [`Error::Snapshot`] if the types cannot be written as JSON.
pub fn write(table: &TypeTable, roots: &[TypeId]) -> Result<Vec<u8>, Error> {
    let (small, roots) = table.extract(roots);
    let whole = Write { tussle_snapshot: SCHEMA_VERSION, roots: &roots, table: &small };
    let mut out = serde_json::to_vec(&whole).map_err(|e| Error::Snapshot(e.to_string()))?;
    out.push(b'\n');
    Ok(out)
}

/// Reads a snapshot. The named structs come first in the table, in the order in which they were asked for.
///
/// # Errors
/// [`Error::Snapshot`] for anything that is no snapshot of a known version.
pub fn read(bytes: &[u8]) -> Result<(TypeTable, Vec<Damage>), Error> {
    if bytes.len() > BYTES_MAX {
        return Err(Error::Snapshot(format!("{} bytes are too many", bytes.len())));
    }
    let failed = |e: serde_json::Error| Error::Snapshot(e.to_string());
    let version: Version = serde_json::from_slice(bytes).map_err(failed)?;
    if version.tussle_snapshot != SCHEMA_VERSION {
        let found = version.tussle_snapshot;
        return Err(Error::Snapshot(format!("has version {found}, this tussle reads {SCHEMA_VERSION}")));
    }
    let Read { roots, table } = serde_json::from_slice(bytes).map_err(failed)?;
    let mut problems = Damages::default();
    let table = checked(table, &mut problems)?;
    let count = table.len();
    let mut placed = vec![false; count];
    let ids = std::iter::once(TypeId::VOID).chain(roots).chain((0..count as u32).map(TypeId));
    let order: Vec<TypeId> =
        ids.filter(|id| placed.get_mut(id.0 as usize).is_some_and(|p| !std::mem::replace(p, true))).collect();
    let mut new = vec![TypeId::VOID; count];
    for (at, id) in order.iter().enumerate() {
        new[id.0 as usize] = TypeId(at as u32);
    }
    Ok((table.reordered(&order, &new), problems.0))
}

/// Names of the types that a snapshot was taken of.
///
/// # Errors
/// Those of [`read`].
pub fn root_names(bytes: &[u8]) -> Result<Vec<String>, Error> {
    read(bytes)?;
    let whole: Read = serde_json::from_slice(bytes).map_err(|e| Error::Snapshot(e.to_string()))?;
    let name = |id: &TypeId| Some(whole.table.aggregate(*id)?.display_name());
    let mut names: Vec<String> = whole.roots.iter().filter_map(name).collect();
    names.dedup();
    Ok(names)
}

/// The bytes look like a snapshot.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Everything that other code relies on, see [`TypeTable::checked`]. A table without its first type is no snapshot.
fn checked(table: TypeTable, problems: &mut Damages) -> Result<TypeTable, Error> {
    if !matches!(table.pointer_size, 2 | 4 | 8) {
        return Err(Error::Snapshot(format!("pointers of {} bytes", table.pointer_size)));
    }
    if *table.get(TypeId::VOID) != Type::Void || table.iter().next().is_none() {
        return Err(Error::Snapshot("type 0 is not void".into()));
    }
    let (table, damage) = table.checked();
    for d in damage {
        problems.add("snapshot", u64::from(d.ty.0), format!("type {}: {}", d.ty.0, d.what));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str) {
        let got = match read(json.as_bytes()) {
            Ok((table, problems)) => format!("{} types, {} problems", table.len(), problems.len()),
            Err(e) => e.to_string(),
        };
        assert!(got.starts_with(expect), "{json}: {got}");
    }

    #[test]
    fn only_sound_snapshots_are_read() {
        check("", "snapshot: EOF");
        check("{}", "snapshot: missing field `tussle_snapshot`");
        check(r#"{"tussle_snapshot": 2}"#, "snapshot: has version 2, this tussle reads 1");
        check(r#"{"tussle_snapshot": 1}"#, "snapshot: missing field `table`");
        let table = |types: &str| {
            format!(r#"{{"tussle_snapshot":1,"table":{{"pointer_size":8,"types":[{types}]}}}}"#)
        };
        check(&table(""), "snapshot: type 0 is not void");
        check(&table(r#""Void""#), "1 types, 0 problems");
        check(&table(r#""Void",{"Const":9}"#), "2 types, 1 problems");
        check(&table(r#""Void",{"Const":1}"#), "2 types, 1 problems");
        check(&table(r#""Void",{"Const":0}"#), "2 types, 0 problems");
        check(&"[".repeat(100_000), "snapshot: ");
    }
}
