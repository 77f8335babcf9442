//! A hash of everything that an entry says, for [`super::fast`].
//!
//! What an entry holds by value goes in by its content, what it points to by the chain of types up to the first name:
//! the same distinction as in [`super::ident`], on bytes. Strings go in by their offset, files by their path.

use std::cell::{Cell, RefCell};

use gimli::{DwTag, constants as dw};

use super::die::is_aggregate;
use super::fast::{Unit, is_root};
use super::hash::{IntMap, mix};
use super::plan::{Cursor, Op, Plan, Role};

/// References nest this far; what lies deeper is only equal to itself.
const DEPTH_MAX: usize = 64;

/// Entries of the cache of references.
const RECENT: usize = 1 << 11;

/// Bytes that may be walked per byte of the unit: nested types are walked once per level, and entries that overlap
/// (hostile) are not walked for ever.
const WALKED_MAX: usize = 64;

/// What is known of the entries of one unit.
pub(super) struct Contents {
    /// Hash and end of each entry's content, by offset.
    known: RefCell<IntMap<u32, (u64, usize)>>,
    /// The last references, by offset and [`Via`].
    recent: Box<[Cell<(u64, u64)>]>,
    walked: Cell<usize>,
    walked_max: usize,
    failed: Cell<bool>,
    depth: Cell<usize>,
}

/// How an entry refers to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Via {
    /// Holds it.
    Value,
    /// Points to it, or only names it.
    Name,
}

impl Contents {
    pub fn for_bytes(bytes: usize) -> Contents {
        Contents {
            known: RefCell::default(),
            recent: vec![Cell::new((u64::MAX, 0)); RECENT].into_boxed_slice(),
            walked: Cell::new(0),
            walked_max: bytes.saturating_mul(WALKED_MAX),
            failed: Cell::new(false),
            depth: Cell::new(0),
        }
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
    pub(super) fn content(&self, offset: u32) -> (u64, usize) {
        if let Some(known) = self.contents.known.borrow().get(&offset) {
            return *known;
        }
        let unique = (mix(mix(51, u64::from(self.id)), u64::from(offset)), self.end());
        let depth = self.contents.depth.get();
        if depth > DEPTH_MAX || self.contents.failed() {
            return unique;
        }
        // what holds itself by value is damaged: it meets this
        self.contents.known.borrow_mut().insert(offset, unique);
        self.contents.depth.set(depth + 1);
        let found = self.walk(offset, Via::Value).unwrap_or(unique);
        self.contents.depth.set(depth);
        self.contents.known.borrow_mut().insert(offset, found);
        found
    }

    fn end(&self) -> usize {
        self.at(0).bytes.len()
    }

    /// Hashes an entry and its children.
    fn walk(&self, offset: u32, via: Via) -> Option<(u64, usize)> {
        let mut cursor = self.at(offset as usize);
        let found = self.plans.get(cursor.uleb()).map(|plan| self.entries(plan, &mut cursor, via));
        self.contents.walk(cursor.at.saturating_sub(offset as usize), cursor.failed || found.is_none());
        found.map(|hash| (hash, cursor.at))
    }

    fn entries(&self, plan: Plan, cursor: &mut Cursor<'f>, via: Via) -> u64 {
        let mut hash = self.attributes(plan, cursor, 0, via);
        let mut depth = usize::from(plan.children);
        while depth > 0 && cursor.at < cursor.bytes.len() {
            let code = cursor.uleb();
            if code == 0 {
                depth -= 1;
                hash = mix(hash, depth as u64);
                continue;
            }
            let Some(plan) = self.plans.get(code) else {
                cursor.failed = true;
                break;
            };
            depth += usize::from(plan.children);
            hash = self.attributes(plan, cursor, hash, via);
        }
        hash
    }

    #[inline]
    fn attributes(&self, plan: Plan, cursor: &mut Cursor<'f>, hash: u64, via: Via) -> u64 {
        let mut hash = mix(hash, u64::from(plan.tag));
        for op in self.plans.ops(plan) {
            let part = match op.role {
                Role::Ignored | Role::Unit => {
                    cursor.skip_op(op);
                    continue;
                }
                Role::File => {
                    let file = cursor.value(op);
                    // the file of a member is that of its struct
                    if !is_root(DwTag(plan.tag)) {
                        continue;
                    }
                    self.file(file)
                }
                Role::Text => self.text(op, cursor),
                Role::Reference if via == Via::Value && holds(DwTag(plan.tag)) => {
                    self.reference(op, cursor, Via::Value)
                }
                Role::Reference => self.reference(op, cursor, Via::Name),
                Role::Value => cursor.value(op),
            };
            hash = mix(hash, part ^ u64::from(op.at) << 56);
        }
        hash
    }

    fn reference(&self, op: &Op, cursor: &mut Cursor<'f>, via: Via) -> u64 {
        let value = cursor.value(op);
        match op.form {
            dw::DW_FORM_ref1
            | dw::DW_FORM_ref2
            | dw::DW_FORM_ref4
            | dw::DW_FORM_ref8
            | dw::DW_FORM_ref_udata => self.recent(value, via),
            // a section offset or signature is the same from everywhere
            _ => value,
        }
    }

    /// The hash of what a reference names, remembered: a few entries are referred to over and over.
    #[inline]
    fn recent(&self, offset: u64, via: Via) -> u64 {
        let key = offset << 1 | u64::from(via == Via::Value);
        let slot = &self.contents.recent[key as usize % RECENT];
        let (of, hash) = slot.get();
        if of == key {
            return hash;
        }
        let hash = match (u32::try_from(offset), via) {
            (Err(_), _) => 1,
            (Ok(offset), Via::Value) => mix(self.content(offset).0, self.scope_of(offset)),
            (Ok(offset), Via::Name) => self.called(offset),
        };
        slot.set((key, hash));
        hash
    }

    /// What the entry at an offset is called: by its own name if it is a struct, typedef or enumeration that has one,
    /// else by all that it says and what that refers to is called.
    fn called(&self, offset: u32) -> u64 {
        let mut cursor = self.at(offset as usize);
        let Some(plan) = self.plans.get(cursor.uleb()) else { return 1 };
        let tag = DwTag(plan.tag);
        if is_root(tag) {
            let name = self.plans.ops(plan).iter().fold(None, |name, op| match op.role {
                Role::Text => Some(self.text(op, &mut cursor)),
                _ => {
                    cursor.skip_op(op);
                    name
                }
            });
            if let Some(name) = name {
                return mix(mix(u64::from(plan.tag), name), self.scope_of(offset));
            }
            if is_aggregate(tag) {
                let mut cursor = self.at(offset as usize);
                cursor.uleb();
                return self.attributes(plan, &mut cursor, 3, Via::Name);
            }
        }
        let depth = self.contents.depth.get();
        if depth > DEPTH_MAX || self.contents.failed() {
            return mix(mix(53, u64::from(self.id)), u64::from(offset));
        }
        self.contents.depth.set(depth + 1);
        let found = self.walk(offset, Via::Name).map_or(1, |(hash, _)| hash);
        self.contents.depth.set(depth);
        found
    }
}

/// Entries whose type is a part of them.
fn holds(tag: DwTag) -> bool {
    is_root(tag)
        || matches!(
            tag,
            dw::DW_TAG_member
                | dw::DW_TAG_inheritance
                | dw::DW_TAG_array_type
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type
        )
}
