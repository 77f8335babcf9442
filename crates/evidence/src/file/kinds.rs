//! Rows of a file on their way into the tables of an [`Evidence`].

use super::{END, OTHER, older, short};
use crate::cell::{Cell, Column};
use crate::columns::{self, Row, TypeModel, TypeRow};
use crate::problem::{Problem, Problems};
use crate::tables::*;
use serde_json::Value;
use tussle_model::{TypeId, TypeTable};

/// Where in the file something is.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// 1-based.
    pub line: u64,
    /// Byte offset.
    pub byte: u64,
}

/// How much of a table could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Nothing: what it held, and whether it held anything, is unknown.
    #[default]
    None,
    /// Some blocks; rows are missing.
    Part,
    /// Everything.
    Whole,
}

/// A table of the file.
#[derive(Default)]
struct Seen {
    table: String,
    /// Blocks that could be read, and that could not.
    read: u32,
    lost: u32,
}

/// Names of tables that are kept, of hostile files.
const TABLES_MAX: usize = 64;

impl Seen {
    fn add(&mut self, read: u32, lost: u32) {
        self.read = self.read.saturating_add(read);
        self.lost = self.lost.saturating_add(lost);
    }
}

/// Which table a block belongs to, and where its columns are.
pub(super) struct Columns {
    kind: TableKind,
    /// Position in the file's rows of each column that this build knows.
    position: Vec<Option<usize>>,
    /// Exactly the columns of this build, in its order.
    usual: bool,
}

/// One row, in either form.
enum Cells<'a> {
    Line(&'a [u8]),
    /// Columns of a block, and the number of the row.
    Block(&'a mut [Column], usize),
    Absent,
}

macro_rules! tables {
    ($($kind:ident $field:ident: $row:ty),+ ; $($optional:ident $of:ident: $item:ty),+ $(,)?) => {
        #[derive(Clone, Copy, PartialEq)]
        enum TableKind {
            $($kind,)+
            $($optional,)+
            Other,
            End,
        }

        impl TableKind {
            fn by_name(name: &str) -> Option<(TableKind, &'static [&'static str])> {
                match name {
                    $(<$row>::TABLE => Some((TableKind::$kind, <$row>::COLUMNS)),)+
                    $(<$item>::TABLE => Some((TableKind::$optional, <$item>::COLUMNS)),)+
                    OTHER => Some((TableKind::Other, &[])),
                    END => Some((TableKind::End, &[])),
                    _ => None,
                }
            }
        }

        /// Tables while they grow.
        #[derive(Default)]
        pub(super) struct Reader {
            $($field: Vec<$row>,)+
            $($of: Option<Vec<$item>>,)+
            /// Tables that had a header.
            seen: Vec<Seen>,
            /// Whole evidences inside of this one.
            pub(super) others: Vec<Evidence>,
            ended: bool,
            problems: Problems,
        }

        impl Reader {
            /// The table is there, perhaps without rows.
            fn present(&mut self, kind: TableKind) {
                match kind {
                    $(TableKind::$optional => {
                        self.$of.get_or_insert_default();
                    })+
                    TableKind::End => self.ended = true,
                    _ => {}
                }
            }

            /// Appends what comes later in the file.
            pub(super) fn join(&mut self, mut later: Reader) {
                $(self.$field.append(&mut later.$field);)+
                $(if let Some(rows) = &mut later.$of {
                    self.$of.get_or_insert_default().append(rows);
                })+
                for seen in later.seen {
                    self.seen(&seen.table).into_iter().for_each(|s| s.add(seen.read, seen.lost));
                }
                self.others.append(&mut later.others);
                self.ended |= later.ended;
                self.problems.join(later.problems);
            }

            /// Rows of a block all at once; false where they are to be read one by one.
            fn all_rows(&mut self, kind: TableKind, cells: &[Column], rows: usize) -> bool {
                match kind {
                    $(TableKind::$kind => <$row>::take_all(cells, rows, &mut self.$field),)+
                    $(TableKind::$optional => {
                        <$item>::take_all(cells, rows, self.$of.get_or_insert_default())
                    })+
                    TableKind::Other | TableKind::End => false,
                }
            }

            fn row(&mut self, columns: &Columns, cells: Cells, at: At) {
                match columns.kind {
                    $(TableKind::$kind => keep(&mut self.$field, columns, cells, at, &mut self.problems),)+
                    $(TableKind::$optional => {
                        keep(self.$of.get_or_insert_default(), columns, cells, at, &mut self.problems)
                    })+
                    TableKind::Other | TableKind::End => self.problem(END, at, "a row of a block without rows"),
                }
            }
        }
    };
}

tables!(
    Run run: Run,
    Processes processes: Process,
    Modules modules: Module,
    Actors actors: Actor,
    TypeModel type_model: TypeModel,
    Types types: TypeRow,
    Objects objects: Object,
    Code code: Code,
    Accesses accesses: Access,
    Touches touches: Touch,
    Losses losses: Loss;
    Regions regions: Region,
    Operations operations: Operation,
    Schedules schedules: Schedule,
    Order order: Turn,
    Transfers transfers: Transfer,
    Samples samples: Sampled,
    Rates rates: Rate,
    Heat heat: Heat,
    Marks marks: Mark,
    Stretches stretches: Stretch,
);

impl Reader {
    /// Notes a problem.
    pub(super) fn problem(&mut self, table: &str, at: At, what: &str) {
        self.problems.push(&short(table), at.line, at.byte, what);
    }

    /// What there is of a table; `None`: too many have a header.
    fn seen(&mut self, table: &str) -> Option<&mut Seen> {
        let at = self.seen.iter().position(|s| s.table == table).unwrap_or(self.seen.len());
        if at == self.seen.len() && at < TABLES_MAX {
            self.seen.push(Seen { table: table.into(), ..Seen::default() });
        }
        self.seen.get_mut(at)
    }

    /// A block begins; `None` where its table is unknown.
    pub(super) fn open(&mut self, table: &str, columns: &[String], at: At) -> Option<Columns> {
        self.seen(table);
        let Some((kind, names)) = TableKind::by_name(table) else {
            self.problem(table, at, "unknown table, skipped (written by a newer tussle?)");
            return None;
        };
        for c in columns.iter().filter(|c| !names.contains(&c.as_str())) {
            self.problem(table, at, &format!("unknown column `{}`, skipped", short(c)));
        }
        self.present(kind);
        let position: Vec<_> = names.iter().map(|n| columns.iter().position(|c| c == n)).collect();
        let usual =
            position.len() == columns.len() && position.iter().enumerate().all(|(i, c)| *c == Some(i));
        Some(Columns { kind, position, usual })
    }

    /// A block of this table ended, and could be read.
    pub(super) fn closed(&mut self, table: &str, read: bool) {
        self.seen(table).into_iter().for_each(|s| s.add(u32::from(read), u32::from(!read)));
    }

    /// How much of a table could be read so far.
    pub(super) fn extent(&self, table: &str) -> Extent {
        match self.seen.iter().find(|s| s.table == table).map(|s| (s.read, s.lost)) {
            None | Some((0, _)) => Extent::None,
            Some((_, 0)) => Extent::Whole,
            Some(_) => Extent::Part,
        }
    }

    /// The tables that had a header, with how much of each could be read.
    pub(super) fn extents(&self) -> Vec<(String, Extent)> {
        self.seen.iter().map(|s| (s.table.clone(), self.extent(&s.table))).collect()
    }

    /// A row as a JSON array.
    pub(super) fn line(&mut self, columns: &Columns, text: &[u8], at: At) {
        self.row(columns, Cells::Line(text), at);
    }

    /// Rows as columns; each has `rows` cells.
    pub(super) fn cells(&mut self, columns: &Columns, mut cells: Vec<Column>, rows: usize, at: At) {
        if columns.usual && self.all_rows(columns.kind, &cells, rows) {
            return;
        }
        for row in 0..rows {
            self.row(columns, Cells::Block(&mut cells, row), at);
        }
    }

    /// Rows that cannot be read, where ids count them.
    pub(super) fn absent(&mut self, columns: &Columns, rows: usize) {
        for _ in 0..rows {
            self.row(columns, Cells::Absent, At { line: 0, byte: 0 });
        }
    }

    /// Replaces the tables that nothing refers to.
    pub(super) fn last_into(self, e: &mut Evidence) {
        e.accesses = self.accesses;
        e.touches = self.touches;
        e.operations = self.operations;
        e.transfers = self.transfers;
        e.samples = self.samples;
        e.rates = self.rates;
        e.heat = self.heat;
    }

    /// The evidence, of a file of that major version.
    pub(super) fn finish(mut self, major: u32) -> (Evidence, Vec<Problem>) {
        let run = self.run_row();
        let mut types = TypeTable::new(self.type_model.first().map_or(8, |m| m.pointer_bytes));
        for (i, row) in self.types.into_iter().enumerate() {
            match i {
                0 => types.set(TypeId::VOID, row.body),
                _ => {
                    types.push(row.body);
                }
            }
        }
        let mut evidence = Evidence {
            run,
            processes: self.processes,
            modules: self.modules,
            actors: self.actors,
            types,
            regions: self.regions,
            objects: self.objects,
            code: self.code,
            accesses: self.accesses,
            touches: self.touches,
            operations: self.operations,
            schedules: self.schedules,
            order: self.order,
            transfers: self.transfers,
            samples: self.samples,
            rates: self.rates,
            heat: self.heat,
            marks: self.marks,
            stretches: self.stretches,
            losses: self.losses,
            others: self.others,
        };
        older::upgrade(&mut evidence, major);
        crate::validate::validate(&mut evidence, &mut self.problems);
        (evidence, self.problems.finish())
    }

    fn run_row(&mut self) -> Run {
        let mut run = match self.run.is_empty() {
            false => self.run.swap_remove(0),
            true => {
                self.problems.push("run", 0, 0, "absent: what ran is unknown");
                let run = Run::new(Source::Recorder, 1, Sees::NOTHING);
                Run { tool_version: String::new(), arch: String::new(), cpus: 0, complete: false, ..run }
            }
        };
        for table in ["processes", "actors", "objects", "accesses", "touches", "losses"] {
            if !self.seen.iter().any(|s| s.table == table) {
                self.problems.push(table, 0, 0, "absent: unknown, not empty");
            }
        }
        if !self.ended {
            self.problems.push("", 0, 0, "the file is cut off: what came later is missing");
            run.complete = false;
        }
        run
    }
}

/// Keeps a row, or what stands in for it where ids count rows, or only says that it is lost.
fn keep<R: Row>(table: &mut Vec<R>, columns: &Columns, cells: Cells, at: At, problems: &mut Problems) {
    let row = match cells {
        Cells::Absent => return table.extend(R::stand_in()),
        Cells::Line(text) => from_line(columns, text),
        Cells::Block(cells, row) => R::take(&mut OfBlock { columns, cells, row }),
    };
    match row {
        Ok(r) => table.push(r),
        Err(why) => {
            problems.push(R::TABLE, at.line, at.byte, &format!("row dropped: {why}"));
            table.extend(R::stand_in());
        }
    }
}

fn from_line<R: Row>(columns: &Columns, text: &[u8]) -> Result<R, String> {
    // The common case, several times faster than going through a value per cell.
    if columns.usual
        && let Ok(row) = serde_json::from_slice::<R>(text)
    {
        return Ok(row);
    }
    let cells: serde_json::Result<Vec<Value>> = serde_json::from_slice(text);
    let cells = cells.map_err(|_| "not a JSON array".to_string())?;
    R::take(&mut OfLine { columns, cells })
}

struct OfLine<'a> {
    columns: &'a Columns,
    cells: Vec<Value>,
}

impl columns::Cells for OfLine<'_> {
    fn cell(&mut self, column: usize) -> Cell<'_> {
        let at = self.columns.position.get(column).copied().flatten();
        at.and_then(|at| self.cells.get_mut(at)).map_or(Cell::Null, |v| Cell::Value(v.take()))
    }
}

struct OfBlock<'a> {
    columns: &'a Columns,
    cells: &'a mut [Column],
    row: usize,
}

impl columns::Cells for OfBlock<'_> {
    fn cell(&mut self, column: usize) -> Cell<'_> {
        let at = self.columns.position.get(column).copied().flatten();
        at.and_then(|at| self.cells.get_mut(at)).map_or(Cell::Null, |c| c.take(self.row))
    }
}
