//! Access cells to rows of objects, accesses, touches, transfers and code.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tussle_evidence::{Access as Row, Evidence, Touch, TouchKind, Transfer};

use crate::convert::{Attribution, code_row};
use crate::place::{Atlas, How, Owner, TypeWish, When};
use crate::stream::{Access, AccessKind, Chain, Stream, Summary};

/// Rows of accesses kept apart by time at most; beyond, windows of one place are merged.
const ROWS_MAX: usize = 400_000;

/// Lines with fewer transfers keep one row per place and CPU: their windows could not matter.
const QUIET_TRANSFERS: u64 = 64;

/// What one vCPU did to one range: the windows and its loads, stores and read-modify-writes there.
type Windows = BTreeMap<u32, [u64; 3]>;

/// Object, offset, size, vCPU.
type Key = (u32, u64, u32, u32);

/// Object, offset, size, code, vCPU, kind.
type TouchKey = (u32, u64, u32, u32, u32, u8);

/// Tables while they grow.
pub(super) struct Rows<'a> {
    stream: &'a Stream,
    end: &'a Summary,
    atlas: &'a Atlas<'a>,
    pub objects: Vec<Owner>,
    pub attribution: Attribution,
    by_identity: HashMap<(u64, u64, Option<String>, u32), u32>,
    known: HashMap<(u64, u32, u32), u32>,
    moved: HashMap<u64, u64>,
    transfers: HashMap<u32, u64>,
    cells: BTreeMap<Key, (bool, Windows)>,
    touches: BTreeMap<TouchKey, [u64; 4]>,
    /// Code rows by instruction and kind of object: one function has other callers for each.
    code: BTreeMap<(u32, String), u32>,
    code_addresses: Vec<u64>,
}

impl<'a> Rows<'a> {
    pub fn new(stream: &'a Stream, end: &'a Summary, atlas: &'a Atlas<'a>) -> Self {
        Rows {
            stream,
            end,
            atlas,
            objects: Vec::new(),
            attribution: Attribution::new(),
            by_identity: HashMap::new(),
            known: HashMap::new(),
            moved: HashMap::new(),
            transfers: HashMap::new(),
            cells: BTreeMap::new(),
            touches: BTreeMap::new(),
            code: BTreeMap::new(),
            code_addresses: Vec::new(),
        }
    }

    /// Code row of an instruction that touched something at an address.
    pub fn code_of(&self, c: &Chain) -> Option<u32> {
        let label = label(&self.atlas.place(c.address, self.when(c.window, c.born)));
        self.code.get(&(c.instruction, label)).copied()
    }

    fn when(&self, window: u32, born: u32) -> When {
        let start = u64::from(window).saturating_mul(self.end.window);
        When { window: (start, start.saturating_add(self.end.window)), born }
    }

    /// The window that holds a moment, given in accesses of all vCPUs before.
    pub fn window_of(&self, accesses: u64) -> u32 {
        (accesses / self.end.window.max(1)).min(u64::from(u32::MAX)) as u32
    }

    /// Transfers of an object.
    pub fn transfers(&self, object: u32) -> u64 {
        self.transfers.get(&object).copied().unwrap_or(0)
    }

    /// Transfers of a line, given by its number.
    pub fn moved(&self, line: u64) -> u64 {
        self.moved.get(&line).copied().unwrap_or(0)
    }

    /// Takes in every access cell of lines on which anything ever moved.
    pub fn add_all(&mut self) {
        for a in &self.stream.accesses {
            *self.moved.entry(a.address >> 6).or_default() += a.transfers();
        }
        for a in &self.stream.accesses {
            let moved = self.moved(a.address >> 6);
            if moved > 0 {
                let object = self.object(a.address, a.window, a.born);
                self.add(a, object, moved < QUIET_TRANSFERS);
            }
        }
    }

    /// The object at an address; a new one when it was not met before.
    pub fn object(&mut self, address: u64, window: u32, born: u32) -> u32 {
        let key = self.key(address, window, born);
        if let Some(o) = self.known.get(&key) {
            return *o;
        }
        let place = self.atlas.place(address, self.when(window, born));
        let identity = identity(&place);
        let next = self.objects.len() as u32;
        let id = *self.by_identity.entry(identity).or_insert(next);
        if id == next {
            self.objects.push(place);
        }
        self.known.insert(key, id);
        id
    }

    /// The object at an address if it was met before.
    pub fn find(&self, address: u64, window: u32, born: u32) -> Option<u32> {
        match self.known.get(&self.key(address, window, born)) {
            Some(o) => Some(*o),
            None => {
                let place = self.atlas.place(address, self.when(window, born));
                self.by_identity.get(&identity(&place)).copied()
            }
        }
    }

    /// What decides which object lies at an address: most pages never change hands.
    pub fn key(&self, address: u64, window: u32, born: u32) -> (u64, u32, u32) {
        let window = if self.atlas.is_steady(address) { 0 } else { window };
        (address, window, born)
    }

    fn add(&mut self, a: &Access, object: u32, quiet: bool) {
        let Some(place) = self.objects.get(object as usize) else { return };
        let label = label(place);
        *self.attribution.entry(place.how).or_default() += a.transfers();
        *self.transfers.entry(object).or_default() += a.transfers();
        let offset = a.address.saturating_sub(place.base);
        let size = u32::from(a.size).min(place.size.saturating_sub(offset).clamp(1, 64) as u32);
        let actor = u32::from(a.vcpu);
        let (was_quiet, windows) = self.cells.entry((object, offset, size, actor)).or_default();
        *was_quiet = quiet;
        let counts = windows.entry(a.window).or_default();
        counts[a.kind as usize] += u64::from(a.count);
        let next = self.code_addresses.len() as u32;
        let code = *self.code.entry((a.instruction, label)).or_insert(next);
        if code == next {
            self.code_addresses.push(self.stream.pc(a.instruction));
        }
        let sums = self.touches.entry((object, offset, size, code, actor, a.kind as u8)).or_default();
        for (sum, n) in sums.iter_mut().zip([a.count, a.dirty, a.clean, a.invalidated]) {
            *sum += u64::from(n);
        }
    }

    /// The only spinlock inside of a `struct page` is that of a page table: such pages are shown as `struct ptdesc`
    /// where the kernel has one (since 6.6), and elsewhere the field is told by name.
    fn find_page_tables(&mut self, spins: &dyn Fn(u64) -> bool) -> BTreeSet<(u32, u64)> {
        let mut locks = BTreeSet::new();
        for (object, offset, _, code, _, _) in self.touches.keys() {
            let Some(place) = self.objects.get_mut(*object as usize) else { continue };
            let pc = self.code_addresses.get(*code as usize).copied().unwrap_or(0);
            if place.how == How::PageStruct && spins(pc) {
                place.ty = TypeWish::Named(vec!["ptdesc".into(), "page".into()]);
                place.why = "struct page of a page table: its lock was taken".into();
                locks.insert((*object, *offset));
            }
        }
        locks
    }

    /// Writes everything but objects and names.
    pub fn finish(&mut self, evidence: &mut Evidence, spins: &dyn Fn(u64) -> bool) {
        let locks = self.find_page_tables(spins);
        // None is known to have moved, where none did.
        evidence.transfers = Some(Vec::new());
        evidence.code = self.code_addresses.iter().map(|a| code_row(*a)).collect();
        let window = self.end.window;
        let rows: usize = self.cells.values().filter(|c| !c.0).map(|c| c.1.len()).sum();
        for ((object, offset, size, actor), (quiet, windows)) in std::mem::take(&mut self.cells) {
            for (first, last, [reads, writes, rmws]) in merge(&windows, rows > ROWS_MAX, quiet) {
                let (vt0, vt1) = (u64::from(first) * window, (u64::from(last) + 1) * window);
                evidence.accesses.push(Row {
                    object,
                    offset,
                    size,
                    actor,
                    vt0,
                    vt1,
                    reads,
                    writes,
                    rmws,
                    held: None,
                });
            }
        }
        for ((object, offset, size, code, actor, kind), sums) in std::mem::take(&mut self.touches) {
            let [samples, dirty, clean, invalidated] = sums;
            let kind = [TouchKind::Read, TouchKind::Write, TouchKind::Rmw][usize::from(kind)];
            let (code, actor) = (Some(code), Some(actor));
            evidence.touches.push(Touch {
                object,
                offset,
                size,
                code: code.unwrap_or(0),
                actor,
                kind,
                samples,
                field: locks.contains(&(object, offset)).then(|| "ptl".to_string()),
                role: None,
            });
            if dirty + clean + invalidated == 0 {
                continue;
            }
            evidence.transfers.get_or_insert_default().push(Transfer {
                object,
                offset,
                size,
                code,
                actor,
                kind,
                transfers: dirty + clean + invalidated,
                dirty,
                schedule: None,
            });
        }
    }
}

fn identity(place: &Owner) -> (u64, u64, Option<String>, u32) {
    (place.base, place.size, place.name.clone(), place.life.number)
}

/// What objects of one kind have in common.
pub(super) fn label(place: &Owner) -> String {
    place.name.clone().unwrap_or_else(|| place.why.clone())
}

/// Neighbouring windows with similar counts become one row; with `all`, whatever the counts; with `quiet`, all windows.
fn merge(windows: &Windows, all: bool, quiet: bool) -> Vec<(u32, u32, [u64; 3])> {
    let mut out: Vec<(u32, u32, [u64; 3])> = Vec::new();
    for (&w, counts) in windows {
        let similar = |(first, last, sums): &(u32, u32, [u64; 3])| {
            let n = u64::from(last - first + 1);
            let near = |sum: u64, one: u64| sum <= 2 * n * one && n * one <= 2 * sum;
            quiet || *last + 1 == w && (all || sums.iter().zip(counts).all(|(s, c)| near(*s, *c)))
        };
        match out.last_mut().filter(|last| similar(last)) {
            Some((_, last, sums)) => {
                *last = w;
                sums.iter_mut().zip(counts).for_each(|(s, c)| *s += c);
            }
            None => out.push((w, w, *counts)),
        }
    }
    out
}

/// Index of a kind in the counts of a window.
const _: () = assert!(AccessKind::Read as usize == 0 && AccessKind::Rmw as usize == 2);
