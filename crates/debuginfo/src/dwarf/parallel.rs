//! Reads the units of a file on several threads.
//!
//! Each thread reads a run of neighbouring units into a table of its own; the tables are joined in the order of the
//! units, so the result is the same for any number of threads.

use std::ops::Range;

use tussle_model::{TypeId, TypeTable};

use super::types::Types;
use super::units::Units;
use crate::error::Damage;

/// More threads find the same types over and over.
const THREADS_MAX: usize = 8;

/// Structs and members that a listing of everything may hold: at some 170 bytes each half a gigabyte, twenty times a
/// kernel's. What a name asks for is found beyond it.
const MEMBERS_MAX: usize = 3_000_000;

/// A thread is worth its start for this many bytes of debug information.
const BYTES_MIN: usize = 8 << 20;

/// Types nest up to [`super::ident::DEPTH_MAX`] calls deep.
const STACK_BYTES: usize = 16 << 20;

/// What one thread has read.
struct Part {
    table: TypeTable,
    key_of: Vec<u64>,
    appeared: Vec<(TypeId, u32)>,
    problems: Vec<Damage>,
}

impl Types<'_> {
    /// Reads every type of every unit.
    pub fn read_all(&mut self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.read_all_on(cores.min(self.units.bytes() / BYTES_MIN));
    }

    /// [`Types::read_all`] on so many threads.
    pub fn read_all_on(&mut self, threads: usize) {
        let units = self.units;
        let pointer_size = self.table.pointer_size;
        let threads = threads.clamp(1, THREADS_MAX);
        let most = MEMBERS_MAX / threads;
        let mut runs = runs(units, threads);
        let own = runs.next().unwrap_or(0..0);
        let parts: Vec<Option<Part>> = std::thread::scope(|scope| {
            let workers: Vec<_> = runs
                .map(|run| {
                    let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
                    let work = move || {
                        let mut types = Types::new(units, pointer_size);
                        types.read_run(run, most);
                        types.into_part()
                    };
                    builder.spawn_scoped(scope, work).ok()
                })
                .collect();
            self.read_run(own, most);
            workers.into_iter().map(|w| w?.join().ok()).collect()
        });
        for part in parts {
            match part {
                Some(part) => self.join(part),
                None => {
                    let what = "a reading thread was lost: its types are missing";
                    self.problems.add(".debug_info", 0, what);
                    self.table.lost.get_or_insert(what.into());
                }
            }
        }
    }

    /// Reads units until there are so many members.
    fn read_run(&mut self, run: Range<usize>, most: usize) {
        let units = self.units;
        let run = units.order().get(run).unwrap_or(&[]);
        for (i, &unit) in run.iter().enumerate() {
            if self.members > most {
                let what = format!(
                    "more than {most} fields: the types of {} units are left out; ask for them by name",
                    run.len() - i
                );
                self.table.lost.get_or_insert(what.clone());
                self.problems.push_first(".debug_info", what);
                return;
            }
            self.read_unit(unit);
        }
    }

    fn into_part(self) -> Part {
        let Types { table, key_of, appeared, problems, .. } = self;
        Part { table, key_of, appeared, problems: problems.0 }
    }

    fn join(&mut self, part: Part) {
        let Part { table, key_of, appeared, problems } = part;
        let lost = table.lost.clone();
        self.table.lost = self.table.lost.take().or(lost);
        let keys = &self.keys;
        let key = |id: TypeId| key_of.get(id.0 as usize).copied().filter(|&k| k != 0);
        let ids = self.table.absorb(table, |id| keys.get(&key(id)?).copied());
        self.key_of.resize(self.table.len(), 0);
        for (old, &new) in ids.iter().enumerate() {
            if let Some(key) = key(TypeId(old as u32)) {
                self.keys.entry(key).or_insert(new);
                self.key_of[new.0 as usize] = key;
            }
        }
        let here = |(id, unit): &(TypeId, u32)| Some((*ids.get(id.0 as usize)?, *unit));
        self.appeared.extend(appeared.iter().filter_map(here));
        problems.into_iter().for_each(|p| self.problems.push(p));
    }
}

/// Splits the units into runs of about equal size.
fn runs(units: &Units<'_>, threads: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let sizes: Vec<usize> =
        units.order().iter().map(|&u| units.get(u).map_or(0, |u| u.header.length_including_self())).collect();
    let total: usize = sizes.iter().sum();
    let mut ends = Vec::with_capacity(threads);
    let mut sum = 0;
    for (i, size) in sizes.iter().enumerate() {
        sum += size;
        if sum >= total / threads * (ends.len() + 1) && ends.len() + 1 < threads {
            ends.push(i + 1);
        }
    }
    ends.push(sizes.len());
    let mut start = 0;
    ends.into_iter().map(move |end| std::mem::replace(&mut start, end)..end)
}
