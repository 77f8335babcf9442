//! A hash of everything that an entry says, for [`super::fast`].
//!
//! What an entry holds by value goes in by its content, what it points to by the chain of types up to the first name:
//! the same distinction as in [`super::ident`], on bytes. Strings go in by their offset, files by their path.

use std::cell::{Cell, RefCell};

use gimli::DwTag;

use super::cursor::Cursor;
use super::die::is_aggregate;
use super::fast::Unit;
use super::hash::mix;
use super::memo::{Known, Memo, Of};
use super::plan::{Op, Plan, Role, Teller};

/// References nest this far; what lies deeper is only equal to itself.
const DEPTH_MAX: usize = 64;

/// Bytes that may be walked per byte of the unit: nested types are walked once per level, and entries that overlap
/// (hostile) are not walked for ever.
const WALKED_MAX: usize = 64;

/// What is known of the entries of one unit. The room that it takes serves one unit after another.
#[derive(Default)]
pub(super) struct Contents {
    known: RefCell<Memo>,
    walked: Cell<usize>,
    walked_max: usize,
    failed: Cell<bool>,
    depth: Cell<usize>,
    /// The unit before was one of C: so is this one, most likely.
    pub(super) after_c: bool,
}

impl Contents {
    /// Empties it for a unit of so many bytes.
    pub fn begin(&mut self, bytes: usize) {
        self.known.get_mut().clear();
        self.walked.set(0);
        self.walked_max = bytes.saturating_mul(WALKED_MAX);
        self.failed.set(false);
        self.depth.set(0);
    }

    /// Bytes walked so far.
    pub fn walked(&self) -> usize {
        self.walked.get()
    }

    /// The unit is damaged, or walked too often: no hash of it means anything.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    fn walk(&self, bytes: usize, failed: bool) {
        let sum = self.walked.get().saturating_add(bytes);
        self.walked.set(sum);
        if failed || sum > self.walked_max {
            self.failed.set(true);
        }
    }
}

impl<'f> Unit<'f> {
    /// Hash of the entry at an offset with all that it holds, and the end of its last child.
    pub(super) fn content(&self, offset: u32) -> Known {
        let find = |unit: &Self| unit.walk(offset, Of::Content).unwrap_or_else(|| unit.unique(offset));
        self.known(offset, Of::Content, find)
    }

    /// The same where its plan is known, and the place of its attributes.
    #[inline]
    pub(super) fn content_from<'a>(&'a self, offset: u32, plan: &'a Plan, attributes: Cursor<'f>) -> Known {
        self.known(offset, Of::Content, |unit| unit.walk_from(offset, plan, attributes, Of::Content))
    }

    /// What is known of an entry, or is found of it now. What holds itself by value is damaged: it meets
    /// [`Unit::unique`].
    fn known<'a>(&'a self, offset: u32, of: Of, find: impl Fn(&'a Self) -> Known) -> Known {
        let Contents { known, depth, .. } = &self.contents;
        let before = depth.get();
        if before > DEPTH_MAX || self.contents.failed() {
            return known.borrow().get(offset, of).unwrap_or_else(|| self.unique(offset));
        }
        let entered = known.borrow_mut().enter(offset, of);
        let taken = match entered {
            Ok(known) => return known,
            Err(taken) => taken,
        };
        known.borrow_mut().fill(&taken, self.unique(offset));
        depth.set(before + 1);
        let found = find(self);
        depth.set(before);
        known.borrow_mut().fill(&taken, found);
        found
    }

    /// Of an entry that is only equal to itself.
    fn unique(&self, offset: u32) -> Known {
        (mix(mix(51, u64::from(self.id)), u64::from(offset)), self.end())
    }

    fn end(&self) -> usize {
        self.at(0).bytes.len()
    }

    /// Hashes an entry and its children.
    fn walk(&self, offset: u32, of: Of) -> Option<Known> {
        let mut cursor = self.at(offset as usize);
        match self.plans.get(cursor.uleb()) {
            Some(plan) => Some(self.walk_from(offset, plan, cursor, of)),
            None => {
                self.contents.walk(0, true);
                None
            }
        }
    }

    fn walk_from<'a>(&'a self, offset: u32, plan: &'a Plan, mut cursor: Cursor<'f>, of: Of) -> Known {
        let hash = self.entries(plan, &mut cursor, of);
        self.contents.walk(cursor.at.saturating_sub(offset as usize), cursor.failed);
        (hash, cursor.at)
    }

    fn entries<'a>(&'a self, mut plan: &'a Plan, cursor: &mut Cursor<'f>, of: Of) -> u64 {
        let (mut hash, mut depth) = (0, 0usize);
        loop {
            hash = self.attributes(plan, cursor, hash, of);
            depth += usize::from(plan.children);
            plan = loop {
                if depth == 0 || cursor.at >= cursor.bytes.len() {
                    return hash;
                }
                let code = cursor.uleb();
                if code == 0 {
                    depth -= 1;
                    hash = mix(hash, depth as u64);
                    continue;
                }
                let Some(plan) = self.plans.get(code) else {
                    cursor.failed = true;
                    return hash;
                };
                break plan;
            };
        }
    }

    #[inline(always)]
    fn attributes(&self, plan: &Plan, cursor: &mut Cursor<'f>, hash: u64, of: Of) -> u64 {
        let of = if plan.holds { of } else { Of::Name };
        self.plans.hash(plan, cursor, hash, &Within { unit: self, of })
    }

    /// The hash of what a reference names.
    #[inline(never)]
    fn refer(&self, value: u64, of: Of) -> u64 {
        let Ok(offset) = u32::try_from(value) else { return 1 };
        let (hash, _) = match of {
            Of::Content => self.content(offset),
            Of::Name => self.known(offset, Of::Name, |unit| (unit.called(offset), 0)),
        };
        self.scoped_hash(offset, hash, of)
    }

    /// What is called something was hashed with its scope.
    #[inline]
    fn scoped_hash(&self, offset: u32, hash: u64, of: Of) -> u64 {
        if of == Of::Content && self.scoped { mix(hash, self.scope_of(offset)) } else { hash }
    }

    /// What the entry at an offset is called: by its own name if it is a struct, typedef or enumeration that has one,
    /// else by all that it says and what that refers to is called.
    fn called(&self, offset: u32) -> u64 {
        let mut cursor = self.at(offset as usize);
        let Some(plan) = self.plans.get(cursor.uleb()) else { return 1 };
        if plan.root {
            let attributes = cursor;
            for op in self.plans.ops(plan) {
                if op.role == Role::Text {
                    let name = self.text(op, cursor.value(op));
                    return mix(mix(u64::from(plan.tag), name), self.scope_of(offset));
                }
                cursor.skip_op(op);
            }
            if is_aggregate(DwTag(plan.tag)) {
                return self.attributes(plan, &mut { attributes }, 3, Of::Name);
            }
        }
        self.walk(offset, Of::Name).map_or(1, |(hash, _)| hash)
    }
}

/// Resolves what attributes refer to, the one way or the other.
struct Within<'a, 'f> {
    unit: &'a Unit<'f>,
    of: Of,
}

impl Teller for Within<'_, '_> {
    #[inline(always)]
    fn local(&self, value: u64) -> u64 {
        let offset = value as u32;
        let known = self.unit.contents.known.borrow().hash(offset, self.of);
        match known {
            Some(hash) if u64::from(offset) == value => self.unit.scoped_hash(offset, hash, self.of),
            _ => self.unit.refer(value, self.of),
        }
    }

    #[inline(never)]
    fn told(&self, op: &Op, value: u64) -> u64 {
        if op.role == Role::File { self.unit.file(value) } else { self.unit.text(op, value) }
    }
}
