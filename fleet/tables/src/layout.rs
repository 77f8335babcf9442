//! What a type looks like, as rows: its fields, and who lies on which line at each phase.

use crate::fields;
use crate::kind::Field;
use serde::Serialize;
use tussle_layout::lines::lines;
use tussle_layout::phases::Where;
use tussle_model::leaf::Arrays;
use tussle_model::{LineSize, TypeId, TypeTable, leaves};

/// A leaf field.
#[derive(Debug, Serialize)]
pub struct FieldRow {
    /// Name of the type.
    pub type_name: String,
    /// `mmap_lock.owner`.
    pub path: String,
    /// First byte from the start of the object.
    pub offset_bytes: u64,
    /// Bytes that it touches.
    pub size_bytes: u64,
    /// Name of the field's type.
    pub field_type: String,
    /// Width in bits, of bit-fields.
    pub bits: Option<u32>,
    /// It overlaps another one (a union).
    pub overlaps: bool,
}

/// Columns of [`FieldRow`].
pub const FIELDS: &[Field] = fields![
    Text => type_name path; U64 => offset_bytes size_bytes; Text => field_type; U64 => bits; Bool => overlaps
];

/// The leaf fields of a type, in order of offset.
pub fn field_rows(table: &TypeTable, id: TypeId) -> Vec<FieldRow> {
    let name = table.name(id);
    let row = |l: tussle_model::Leaf| FieldRow {
        type_name: name.clone(),
        path: l.path,
        offset_bytes: l.offset,
        size_bytes: l.size,
        field_type: table.name(l.ty),
        bits: l.bits.map(|b| b.1),
        overlaps: l.overlaps,
    };
    leaves(table, id, Arrays::Whole).into_iter().map(row).collect()
}

/// A field on a line of an object that begins `phase_bytes` into a line.
#[derive(Debug, Serialize)]
pub struct LineRow {
    /// Name of the type.
    pub type_name: String,
    /// Where the object begins in its first line, bytes.
    pub phase_bytes: u64,
    /// Index of the line, from 0.
    pub line: u64,
    /// The field.
    pub path: String,
    /// Its offset in the object.
    pub offset_bytes: u64,
    /// Bytes that it touches.
    pub size_bytes: u64,
    /// It reaches into another line.
    pub straddles: bool,
}

/// Columns of [`LineRow`].
pub const LINES: &[Field] = fields![
    Text => type_name; U64 => phase_bytes line; Text => path; U64 => offset_bytes size_bytes; Bool => straddles
];

/// Fields by line, for every phase of `at`. Lines beyond the 2048th of a phase are left out.
pub fn line_rows(table: &TypeTable, id: TypeId, at: &Where, line: LineSize, btf: bool) -> Vec<LineRow> {
    let name = table.name(id);
    let mut rows = Vec::new();
    for phase in at.phases(table, id, line, btf) {
        let (found, _) = lines(table, id, phase, line, tussle_layout::lines::LINES_MAX);
        for l in &found {
            rows.extend(l.fields.iter().map(|p| LineRow {
                type_name: name.clone(),
                phase_bytes: phase,
                line: l.index,
                path: p.leaf.path.clone(),
                offset_bytes: p.leaf.offset,
                size_bytes: p.leaf.size,
                straddles: p.straddles,
            }));
        }
    }
    rows
}
