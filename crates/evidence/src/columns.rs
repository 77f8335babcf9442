//! Which columns each table has, in which order, and how a row becomes cells and comes back.

use crate::cell::{Cell, Column};
use crate::tables::*;
use crate::typed::Typed;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tussle_model::Type;

/// A table's row. Columns are the names of its fields, in the order in which they are declared and written, so that a
/// row of a file with just these columns can be read in one go.
pub(crate) trait Row: Sized + DeserializeOwned + Sync {
    /// Name of the table in the file.
    const TABLE: &'static str;
    /// Names of the columns.
    const COLUMNS: &'static [&'static str];
    /// Appends the row as one JSON array.
    fn put(&self, out: &mut Vec<u8>) -> serde_json::Result<()>;
    /// Appends each cell to its column.
    fn cells(&self, columns: &mut [Vec<Value>]) -> serde_json::Result<()>;
    /// Takes the row's cells by position in [`Row::COLUMNS`]; a column that the file lacks is null.
    fn take(cells: &mut dyn Cells) -> Result<Self, String>;
    /// Appends the rows of a block whose columns are [`Row::COLUMNS`]; false where they are better read one by one, and
    /// then nothing was appended.
    fn take_all(_columns: &[Column], _rows: usize, _to: &mut Vec<Self>) -> bool {
        false
    }
    /// Columns of rows, in the order of [`Row::COLUMNS`]; `None` where they are made cell by cell.
    fn columns(_rows: &[Self]) -> Option<Vec<Column>> {
        None
    }
    /// What stands in for an unreadable row where other tables refer to rows by number; `None` where none do.
    fn stand_in() -> Option<Self> {
        None
    }
}

/// The cells of one row.
pub(crate) trait Cells {
    /// That of a column, by its position in [`Row::COLUMNS`].
    fn cell(&mut self, column: usize) -> Cell<'_>;
}

/// [`Row::take_all`] and [`Row::columns`] of tables with very many rows.
macro_rules! many {
    ($($column:ident),+) => {
        fn take_all(columns: &[Column], rows: usize, to: &mut Vec<Self>) -> bool {
            let mut columns = columns.iter();
            $(
                let Some(mut $column) = columns.next().and_then(Typed::all).map(Vec::into_iter) else { return false };
            )+
            if [$($column.len()),+].iter().any(|n| *n != rows) {
                return false;
            }
            to.reserve(rows);
            to.extend((0..rows).map_while(|_| Some(Self { $($column: $column.next()?),+ })));
            true
        }

        fn columns(rows: &[Self]) -> Option<Vec<Column>> {
            Some(vec![$(Typed::column(rows.iter().map(|row| &row.$column))),+])
        }
    };
}

macro_rules! rows {
    (many $type:ty, $table:literal, [$($column:ident),+ $(,)?]) => {
        rows!(@ $type, $table, [$($column),+], { many!($($column),+); });
    };
    ($type:ty, $table:literal, [$($column:ident),+ $(,)?] $(, $stand_in:expr)?) => {
        rows!(@ $type, $table, [$($column),+], {
            $(
                fn stand_in() -> Option<Self> {
                    Some($stand_in)
                }
            )?
        });
    };
    (@ $type:ty, $table:literal, [$($column:ident),+], { $($more:tt)* }) => {
        impl Row for $type {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];

            fn put(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                out.push(b'[');
                $(
                    serde_json::to_writer(&mut *out, &self.$column)?;
                    out.push(b',');
                )+
                out.pop();
                out.push(b']');
                Ok(())
            }

            fn cells(&self, columns: &mut [Vec<Value>]) -> serde_json::Result<()> {
                let mut columns = columns.iter_mut();
                $(
                    if let Some(column) = columns.next() {
                        column.push(serde_json::to_value(&self.$column)?);
                    }
                )+
                Ok(())
            }

            fn take(cells: &mut dyn Cells) -> Result<Self, String> {
                let mut at = 0;
                $(
                    let $column = Deserialize::deserialize(cells.cell(at))
                        .map_err(|e| format!(concat!(stringify!($column), ": {}"), e))?;
                    at += 1;
                )+
                let _ = at;
                Ok(Self { $($column),+ })
            }

            $($more)*
        }
    };
}

rows!(
    Run,
    "run",
    [
        format_version,
        tool_version,
        source,
        unit,
        command,
        started_unix_s,
        duration_s,
        arch,
        cpu_model,
        cpus,
        line_bytes,
        window_vt,
        sees,
        complete,
        flags,
        compiler,
        seed,
        input_hash,
        accesses,
        sample_every,
    ]
);

rows!(
    Process,
    "processes",
    [pid, parent, exe, build_id, end],
    Process { pid: 0, parent: None, exe: String::new(), build_id: None, end: "unreadable".into() }
);

rows!(
    Module,
    "modules",
    [process, path, build_id, start, end, bias],
    Module { process: 0, path: String::new(), build_id: None, start: 0, end: 0, bias: 0 }
);

rows!(
    Actor,
    "actors",
    [process, kind, number, name, creator, start, vt0, vt1],
    Actor {
        process: None,
        kind: ActorKind::Unknown,
        number: 0,
        name: None,
        creator: None,
        start: None,
        vt0: 0,
        vt1: 0,
    }
);

rows!(
    Object,
    "objects",
    [
        process,
        kind,
        base,
        size,
        name,
        ty,
        count,
        confidence,
        basis,
        why,
        align,
        allocator,
        alloc_code,
        alloc_actor,
        vt0,
        vt1,
        live_max,
        region,
    ],
    Object {
        count: 0,
        why: "unreadable".into(),
        live_max: 0,
        ..Object::unnamed(0, ObjectKind::Unknown, 0, 0)
    }
);

rows!(
    Code,
    "code",
    [process, module, address, frames, chain],
    Code { process: 0, module: None, address: 0, frames: Vec::new(), chain: Vec::new() }
);

rows!(many Access, "accesses", [object, offset, size, actor, vt0, vt1, reads, writes, rmws, held]);
rows!(many Touch, "touches", [object, offset, size, code, actor, kind, samples, field, role]);
rows!(
    Operation,
    "operations",
    [
        actor,
        lock_object,
        lock_offset,
        vt0,
        vt1,
        visits,
        repeats,
        shared,
        think_instructions,
        instructions,
        inner,
        kind,
        work,
    ]
);
rows!(
    Sampled,
    "samples",
    [
        object,
        offset,
        size,
        code,
        actor,
        records,
        hitm_local,
        hitm_remote,
        peer,
        loads,
        store_l1_hit,
        store_l1_miss,
        store_no_level,
        latency_cycles,
        cpus,
        period,
        locked,
        blocked_data,
        blocked_address,
        tlb_miss,
        phys_addr,
        page_bytes,
        rebuilt,
    ]
);
rows!(
    Region,
    "regions",
    [process, start, end, backing, device, inode, offset, parent],
    Region {
        process: 0,
        start: 0,
        end: 0,
        backing: None,
        device: None,
        inode: None,
        offset: None,
        parent: None,
    }
);
rows!(
    Schedule,
    "schedules",
    [turn_instructions, feedback_instructions, seed],
    Schedule { turn_instructions: 0, feedback_instructions: None, seed: None }
);
rows!(Turn, "order", [actor, visits, schedule]);
rows!(Transfer, "transfers", [object, offset, size, code, actor, kind, transfers, dirty, schedule]);
rows!(
    Rate,
    "rates",
    [object, offset, size, actor, code, of, from_s, to_s, events, per_s, low_per_s, high_per_s, first_s,]
);
rows!(Heat, "heat", [object, offset, size, reads, writes, within]);
rows!(Mark, "marks", [process, kind, name, count]);
rows!(Stretch, "stretches", [process, vt0, vt1]);
rows!(Loss, "losses", [process, what, count, note]);

/// One type of the type table; its row number is its id.
#[derive(Deserialize)]
pub(crate) struct TypeRow {
    /// The type, as in a snapshot.
    pub(crate) body: Type,
}

rows!(TypeRow, "types", [body], TypeRow { body: Type::Void });

/// What all types have in common.
#[derive(Deserialize)]
pub(crate) struct TypeModel {
    /// Size of a pointer.
    pub(crate) pointer_bytes: u8,
}

rows!(TypeModel, "type_model", [pointer_bytes]);
