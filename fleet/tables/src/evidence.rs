//! The tables of an evidence, column by column as docs/evidence.md has them. Row numbers are ids.

use crate::column::Column;
use crate::ffi::Batches;
use crate::fields;
use crate::kind::Field;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard};
use tussle_evidence::Evidence;
use tussle_evidence::file::Parts;
use tussle_model::types::Type;

/// Rows of a batch at most: as those of a block of the file.
pub const BATCH_ROWS: usize = 65_536;

/// A table of an evidence.
pub struct Table {
    /// Its name in the file.
    pub name: &'static str,
    /// Its columns.
    pub fields: &'static [Field],
    take: fn(&Evidence, usize, usize) -> Option<Result<Column, String>>,
}

impl Table {
    /// These rows, fewer where the table ends; `None` when the evidence has no such table (unknown, not empty).
    pub fn rows(&self, e: &Evidence, from: usize, most: usize) -> Option<Result<Column, String>> {
        (self.take)(e, from, most)
    }

    /// All rows, in batches. Only one batch is in memory beside the evidence.
    pub fn batches(&'static self, e: Arc<Evidence>) -> Option<Batches> {
        self.rows(&e, 0, 0)?.ok()?;
        let mut from = 0;
        Some(Box::new(move || {
            let Some(batch) = self.rows(&e, from, BATCH_ROWS).transpose()? else { return Ok(None) };
            from += batch.len();
            Ok((!batch.is_empty()).then_some(batch))
        }))
    }
}

impl Table {
    /// As [`Table::batches`], a block of the file at a time: no more than one is in memory.
    pub fn streamed(&'static self, parts: Arc<Mutex<Parts>>) -> Option<Batches> {
        let blocks = {
            let parts = locked(&parts);
            match parts.blocks(self.name) {
                Some(n) => n,
                // Not in blocks: there as a whole, or not at all.
                None => self.rows(parts.rest(), 0, 0)?.ok().map(|_| 0)?,
            }
        };
        let mut at = 0;
        Some(Box::new(move || {
            let mut parts = locked(&parts);
            if blocks == 0 {
                let Some(batch) = self.rows(parts.rest(), at, BATCH_ROWS).transpose()? else { return Ok(None) };
                at += batch.len();
                return Ok((!batch.is_empty()).then_some(batch));
            }
            while at < blocks {
                at += 1;
                let rows = parts.with_block(self.name, at - 1, |e| self.rows(e, 0, usize::MAX));
                let rows = rows.map_err(|e| format!("table {}: {e}", self.name))?;
                if let Some(batch) = rows.transpose()?.filter(|b| !b.is_empty()) {
                    return Ok(Some(batch));
                }
            }
            Ok(None)
        }))
    }
}

/// A batch that failed leaves the tables as they were.
fn locked(parts: &Mutex<Parts>) -> MutexGuard<'_, Parts> {
    parts.lock().unwrap_or_else(|e| e.into_inner())
}

/// The table of that name.
pub fn table(name: &str) -> Option<&'static Table> {
    tables().find(|t| t.name == name)
}

/// All tables.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().chain([&TYPES_TABLE])
}

fn part<R: Serialize>(
    fields: &'static [Field],
    rows: &[R],
    from: usize,
    most: usize,
) -> Result<Column, String> {
    let rows = rows.get(from..).unwrap_or_default();
    Column::table(fields, &rows[..rows.len().min(most)]).map_err(|e| e.to_string())
}

/// A row of `types`.
#[derive(Serialize)]
struct TypeRow<'a> {
    body: &'a Type,
}

/// The row of `type_model`.
#[derive(Serialize)]
struct ModelRow {
    pointer_bytes: u8,
}

fn types(e: &Evidence, fields: &'static [Field], from: usize, most: usize) -> Result<Column, String> {
    let rows: Vec<TypeRow<'_>> =
        e.types.iter().skip(from).take(most).map(|(_, body)| TypeRow { body }).collect();
    part(fields, &rows, 0, most)
}

macro_rules! tables {
    ($($name:literal $fields:expr, |$e:ident| $rows:expr);+ $(;)?) => {
        &[$({
            const FIELDS: &[Field] = $fields;
            Table {
                name: $name,
                fields: FIELDS,
                take: |$e, from, most| Some(part(FIELDS, $rows, from, most)),
            }
        }),+]
    };
}

const SEES: &[Field] = fields![Bool => reads writes rmws phases chains locks time kernel_writes word_parts];
const FRAME: &[Field] = fields![Text => function file; U64 => line column];
const HELD: &[Field] = fields![U64 => object offset sections stores];
const VISIT: &[Field] = fields![U64 => object offset size; Text => kind; U64 => accesses_between];
const TURN_VISIT: &[Field] = fields![U64 => object offset size; Text => kind];
const INNER: &[Field] = fields![U64 => first end object offset; Bool => shared];
const WORK: &[Field] = fields![Text => kind; U64 => instructions];
const TYPES: &[Field] = fields![Json => body];

/// Tables whose rows are those in memory, in the order of the file.
const TABLES: &[Table] = tables![
    "run" fields![
        U64 => format_version; Text => tool_version source unit; List(&Text) => command;
        F64 => started_unix_s duration_s; Text => arch cpu_model; U64 => cpus line_bytes window_vt;
        Struct(SEES) => sees; Bool => complete; List(&Text) => flags; Text => compiler; U64 => seed;
        Text => input_hash; U64 => accesses sample_every
    ], |e| std::slice::from_ref(&e.run);
    "processes" fields![U64 => pid parent; Text => exe build_id end], |e| &e.processes;
    "modules" fields![U64 => process; Text => path build_id; U64 => start end bias], |e| &e.modules;
    "actors" fields![U64 => process; Text => kind; U64 => number; Text => name; U64 => creator start vt0 vt1],
        |e| &e.actors;
    "type_model" fields![U64 => pointer_bytes],
        |e| &[ModelRow { pointer_bytes: e.types.pointer_size }];
    "regions" fields![U64 => process start end; Text => backing; U64 => device inode offset parent],
        |e| e.regions.as_ref()?;
    "objects" fields![
        U64 => process; Text => kind; U64 => base size; Text => name; U64 => ty count; F64 => confidence;
        Text => basis why; U64 => align; Text => allocator; U64 => alloc_code alloc_actor vt0 vt1 live_max region
    ], |e| &e.objects;
    "code" fields![U64 => process module address; List(&Struct(FRAME)) => frames; List(&U64) => chain], |e| &e.code;
    "schedules" fields![U64 => turn_instructions feedback_instructions seed], |e| e.schedules.as_ref()?;
    "accesses" fields![U64 => object offset size actor vt0 vt1 reads writes rmws; Struct(HELD) => held],
        |e| &e.accesses;
    "touches" fields![U64 => object offset size code actor; Text => kind; U64 => samples; Text => field role],
        |e| &e.touches;
    "operations" fields![
        U64 => actor lock_object lock_offset vt0 vt1; List(&Struct(VISIT)) => visits; U64 => repeats; Bool => shared;
        U64 => think_instructions instructions; List(&Struct(INNER)) => inner; Text => kind;
        List(&Struct(WORK)) => work
    ], |e| e.operations.as_ref()?;
    "order" fields![U64 => actor; List(&Struct(TURN_VISIT)) => visits; U64 => schedule], |e| e.order.as_ref()?;
    "transfers" fields![U64 => object offset size code actor; Text => kind; U64 => transfers dirty schedule],
        |e| e.transfers.as_ref()?;
    "samples" fields![
        U64 => object offset size code actor records hitm_local hitm_remote peer loads store_l1_hit store_l1_miss
            store_no_level latency_cycles cpus period locked blocked_data blocked_address tlb_miss phys_addr page_bytes
            rebuilt
    ], |e| e.samples.as_ref()?;
    "rates" fields![
        U64 => object offset size actor code; Text => of; F64 => from_s to_s; U64 => events;
        F64 => per_s low_per_s high_per_s first_s
    ], |e| e.rates.as_ref()?;
    "heat" fields![U64 => object offset size reads writes; F64 => within], |e| e.heat.as_ref()?;
    "marks" fields![U64 => process; Text => kind name; U64 => count], |e| e.marks.as_ref()?;
    "stretches" fields![U64 => process vt0 vt1], |e| e.stretches.as_ref()?;
    "losses" fields![U64 => process; Text => what; U64 => count; Text => note], |e| &e.losses;
];

/// `types`: a row is JSON, as in a snapshot.
static TYPES_TABLE: Table =
    Table { name: "types", fields: TYPES, take: |e, from, most| Some(types(e, TYPES, from, most)) };
