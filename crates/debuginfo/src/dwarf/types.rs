//! Resolves entries to types, each distinct type once.

use std::rc::Rc;

use gimli::DebugInfoOffset;
use tussle_model::{Language, Type, TypeId, TypeTable};

use super::content::Contents;
use super::context::Context;
use super::die::{self, Die, target};
use super::fast::{self, Fresh, Prints};
use super::hash::IntMap;
use super::ident::{DEPTH_MAX, Kind};
use super::member::RawMember;
use super::units::{DieRef, Units};
use super::virtual_bases::Slot;
use crate::error::{Damage, Damages};
use crate::text::Budget;

pub(super) type Loaded<'f> = Rc<Context<'f>>;

/// Opened units are kept up to this number; link-time optimised programs refer to many at once.
const CONTEXTS_MAX: usize = 128;

/// At most this many types are made of one file.
const TYPES_MAX: usize = 1 << 26;

/// Resolves debugging information entries to types. Every distinct type is in [`Types::table`] once, however many
/// units describe it.
pub struct Types<'f> {
    pub(super) units: &'f Units<'f>,
    pub(super) table: TypeTable,
    pub(super) keys: IntMap<u64, TypeId>,
    memos: IntMap<u64, Memo>,
    contexts: IntMap<u32, Option<Loaded<'f>>>,
    pub(super) pending: Vec<Pending>,
    pub(super) scratch: Vec<RawMember<'f>>,
    /// Structs in the order in which they were read, with their units.
    pub(super) appeared: Vec<(TypeId, u32)>,
    /// Key of each type by id, `void` first.
    pub(super) key_of: Vec<u64>,
    /// Types that need not be read again, and the unit that is open for recognising them.
    prints: Prints,
    pub(super) fast: Option<(u32, fast::Unit<'f>)>,
    /// Room for the next one.
    contents: Contents,
    pub(super) stubs: bool,
    language: Language,
    pub(super) problems: Damages,
    /// Members of all structs read.
    pub(super) members: usize,
    /// Of classes with virtual bases: where their vtables tell the places of these.
    pub(super) slots: IntMap<u32, Vec<Slot>>,
    budget: Rc<Budget>,
}

/// What is known of one entry; 0 and `u32::MAX` stand for "not yet".
#[derive(Clone, Copy)]
pub(super) struct Memo {
    nominal: u64,
    shallow: u64,
    layout: u64,
    pub id: u32,
}

impl Default for Memo {
    fn default() -> Self {
        Memo { nominal: 0, shallow: 0, layout: 0, id: u32::MAX }
    }
}

impl Memo {
    pub fn hash(&self, kind: Kind) -> Option<u64> {
        let h = match kind {
            Kind::Nominal => self.nominal,
            Kind::Shallow => self.shallow,
            Kind::Layout => self.layout,
        };
        (h != 0).then_some(h)
    }

    pub fn set_hash(&mut self, kind: Kind, hash: u64) {
        let hash = hash.max(1);
        match kind {
            Kind::Nominal => self.nominal = hash,
            Kind::Shallow => self.shallow = hash,
            Kind::Layout => self.layout = hash,
        }
    }
}

/// A reference of a finished type to an entry that is not resolved yet.
pub(super) struct Pending {
    pub of: TypeId,
    /// 0: the target or result; 1..: a parameter.
    pub slot: usize,
    pub to: DieRef,
}

impl<'f> Types<'f> {
    /// An empty table over `units`. `pointer_size` in bytes.
    pub fn new(units: &'f Units<'f>, pointer_size: u8) -> Types<'f> {
        let mut table = TypeTable::new(pointer_size);
        table.aligns_lost = Some(false);
        Types {
            units,
            table,
            keys: IntMap::default(),
            memos: IntMap::default(),
            contexts: IntMap::default(),
            pending: Vec::new(),
            scratch: Vec::new(),
            appeared: Vec::new(),
            key_of: vec![0],
            prints: Prints::default(),
            fast: None,
            contents: Contents::default(),
            stubs: false,
            language: Language::C,
            problems: Damages::default(),
            members: 0,
            slots: IntMap::default(),
            budget: Rc::new(Budget::for_input(units.bytes())),
        }
    }

    /// The types found so far. Ids stay valid while this value lives.
    pub fn table(&self) -> &TypeTable {
        &self.table
    }

    /// The entry at an offset of the main file's `.debug_info`, as gimli and addr2line give it.
    pub fn entry(&self, offset: DebugInfoOffset) -> Option<DieRef> {
        self.units.at(0, offset)
    }

    /// The type that the entry describes (a struct, typedef, pointer ...). [`TypeId::VOID`] when it is none.
    pub fn resolve(&mut self, at: DieRef) -> TypeId {
        let id = self.id(Some(at), 0);
        self.drain();
        id
    }

    /// The type that the entry *has* (`DW_AT_type` of a variable, parameter, member or function), following
    /// `DW_AT_specification` and `DW_AT_abstract_origin`. `None` when it has none.
    pub fn type_of(&mut self, at: DieRef) -> Option<TypeId> {
        let mut at = at;
        for _ in 0..4 {
            let (ctx, die) = self.load(at)?;
            if let Some(ty) = die.ty.and_then(|v| target(&ctx, &v)) {
                return Some(self.resolve(ty));
            }
            at = target(&ctx, &die.specification.or(die.origin)?)?;
        }
        None
    }

    pub(super) fn read_unit(&mut self, unit: u32) {
        let contents = std::mem::take(&mut self.contents);
        self.fast = fast::Unit::open(self.units, unit, contents).map(|f| (unit, f));
        let fresh = self.fast.as_ref().and_then(|(_, fast)| fast.scan(&mut self.prints));
        match fresh {
            Some(fresh) => fresh.iter().for_each(|f| self.read_fresh(unit, f)),
            None => self.read_roots(unit),
        }
        self.drain();
        self.contents = self.fast.take().map(|(_, fast)| fast.contents).unwrap_or_default();
        self.memos.clear();
    }

    fn read_fresh(&mut self, unit: u32, fresh: &Fresh) {
        let id = self.id(Some(DieRef { unit, offset: fresh.offset }), 0);
        if die::is_aggregate(fresh.tag) {
            self.appeared.push((id, unit));
        }
        self.remember_print(fresh.print, id);
    }

    fn remember_print(&mut self, print: u64, id: TypeId) {
        self.prints.insert(print, id.0);
    }

    /// The struct at an entry of the unit that is open need not be read again.
    pub(super) fn remember(&mut self, at: DieRef, id: TypeId) {
        let open = self.fast.as_ref().filter(|(unit, _)| *unit == at.unit);
        if let Some((print, _)) = open.and_then(|(_, fast)| fast.print_at(at.offset)) {
            self.remember_print(print, id);
        }
    }

    /// Reads a unit the general way.
    fn read_roots(&mut self, unit: u32) {
        self.fast = None;
        let Some(ctx) = self.context(unit) else { return };
        match ctx.roots() {
            Ok(roots) => {
                for &(offset, tag) in roots {
                    let id = self.id(Some(DieRef { unit, offset }), 0);
                    if die::is_aggregate(tag) {
                        self.appeared.push((id, unit));
                    }
                }
            }
            Err(e) => self.lose(unit, e),
        }
    }

    /// The struct, union or class at an entry, if one with the same print was read before.
    pub(super) fn recognise(&self, at: DieRef) -> Option<TypeId> {
        let (unit, fast) = self.fast.as_ref()?;
        if *unit != at.unit {
            return None;
        }
        let (print, bytes) = fast.print_at(at.offset)?;
        if !self.budget.step(bytes) {
            return None;
        }
        self.prints.get(&print).filter(|&&id| id != fast::UNREAD).map(|&id| TypeId(id))
    }

    /// Resolves what finished types still refer to.
    pub(super) fn drain(&mut self) {
        while let Some(p) = self.pending.pop() {
            let id = self.pointee(p.to);
            let mut ty = self.table.get(p.of).clone();
            match &mut ty {
                Type::Pointer { to, .. } | Type::Reference { to, .. } => *to = id,
                Type::Function { ret, params, .. } => match p.slot.checked_sub(1) {
                    None => *ret = id,
                    Some(i) => params.get_mut(i).into_iter().for_each(|p| *p = id),
                },
                _ => {}
            }
            self.table.set(p.of, ty);
        }
    }

    /// Opens a unit, or finds it opened.
    pub(super) fn context(&mut self, unit: u32) -> Option<Loaded<'f>> {
        if let Some(known) = self.contexts.get(&unit) {
            return known.clone();
        }
        if self.contexts.len() >= CONTEXTS_MAX {
            self.contexts.clear();
        }
        let opened = match Context::open(self.units, unit, self.language, self.budget.clone()) {
            Ok(ctx) => {
                self.language = ctx.language;
                Some(Rc::new(ctx))
            }
            Err(e) => {
                self.lose(unit, e);
                None
            }
        };
        self.contexts.insert(unit, opened.clone());
        opened
    }

    /// Reads an entry, following signatures of type units.
    pub(super) fn load(&mut self, at: DieRef) -> Option<(Loaded<'f>, Die<'f>)> {
        let mut at = at;
        for _ in 0..3 {
            let ctx = self.context(at.unit)?;
            let read = ctx.unit.entries_raw(Some(at.unit_offset())).and_then(|mut raw| die::read(&mut raw));
            let die = match read {
                Ok(Some(die)) => die,
                Ok(None) => return None,
                Err(e) => {
                    self.problem(at.unit, at.offset, e);
                    return None;
                }
            };
            match die.signature.and_then(|v| target(&ctx, &v)) {
                Some(definition) if definition != at => at = definition,
                _ => return Some((ctx.clone(), named_by_declaration(&ctx, die))),
            }
        }
        None
    }

    pub(super) fn memo(&self, at: DieRef) -> Memo {
        self.memos.get(&key(at)).copied().unwrap_or_default()
    }

    pub(super) fn memo_mut(&mut self, at: DieRef) -> &mut Memo {
        self.memos.entry(key(at)).or_default()
    }

    pub(super) fn full(&self) -> bool {
        self.table.len() >= TYPES_MAX
    }

    pub(super) fn too_deep(&mut self, at: DieRef, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            self.problem(at.unit, at.offset, "types nest too deeply here; cut off");
        }
        depth > DEPTH_MAX
    }

    /// Records a failed walk over children; the members read up to there stay.
    pub(super) fn note(&mut self, ctx: &Context<'_>, die: &Die<'_>, result: gimli::Result<()>) {
        if let Err(e) = result {
            self.problem(ctx.id, die.offset, e);
        }
    }

    /// Records a unit that cannot be read.
    fn lose(&mut self, unit: u32, why: gimli::Error) {
        self.problem(unit, 0, why);
        let what = self.problems.0.last().map(ToString::to_string);
        self.table.lost = self.table.lost.take().or(what);
    }

    pub(super) fn problem(&mut self, unit: u32, offset: u32, what: impl ToString) {
        let start = self.units.get(unit).and_then(|u| u.header.debug_info_offset()).map_or(0, |o| o.0 as u64);
        self.problems.add(".debug_info", start + u64::from(offset), what);
    }

    /// The table and what went wrong. Structs come in the order in which they first appear in the file, before all
    /// other types; a declaration with exactly one definition of its name is replaced by it.
    pub fn finish(self) -> (TypeTable, Vec<Damage>) {
        let (table, _, problems) = self.finish_with_ids();
        (table, problems)
    }

    /// The same, and for every id that [`Types::resolve`] gave (as an index) the id in the finished table.
    pub fn finish_with_ids(self) -> (TypeTable, Vec<TypeId>, Vec<Damage>) {
        let (mut problems, mut table) = (self.problems, self.table);
        if self.budget.is_spent() {
            let what = "refers to the same places too often: reading stopped early";
            problems.add(".debug_info", 0, what);
            table.lost.get_or_insert(what.into());
        }
        super::order::name_units(&mut table, &self.appeared, self.units);
        let appeared: Vec<TypeId> = self.appeared.iter().map(|a| a.0).collect();
        let (table, ids) = super::order::finish(table, &appeared);
        (table, ids, problems.0)
    }
}

/// A definition apart from its declaration may leave the name to that one.
fn named_by_declaration<'f>(ctx: &Context<'f>, mut die: Die<'f>) -> Die<'f> {
    let declaration = die.specification.filter(|_| die.name.is_none()).and_then(|v| target(ctx, &v));
    if let Some(at) = declaration.filter(|at| at.unit == ctx.id) {
        let read = ctx.unit.entries_raw(Some(at.unit_offset())).and_then(|mut raw| die::read(&mut raw));
        die.name = read.ok().flatten().and_then(|d| d.name);
    }
    die
}

fn key(at: DieRef) -> u64 {
    u64::from(at.unit) << 32 | u64::from(at.offset)
}
