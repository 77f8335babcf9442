//! Abbreviations compiled for fast skipping and hashing.
//!
//! A kernel's debug information describes each common struct thousands of times. To find out that an entry is one
//! that was read before, its bytes are walked with these plans instead of with gimli's general readers; whatever the
//! plans do not know makes the unit take the general way.

use std::ops::Range;

use gimli::{DwForm, DwTag, constants as dw};

use super::cursor::{Cursor, Widths, is_uleb, size_of};
use super::die::is_aggregate;
use super::hash::mix;

/// Abbreviation codes are dense in what compilers write; larger ones take the general way.
const CODES_MAX: u64 = 1 << 16;

/// Attributes of one unit that are compiled at most.
const OPS_MAX: usize = 1 << 20;

/// What an attribute means for recognising a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Part of the identity as it is.
    Value,
    /// A string.
    Text,
    /// A file index, meaningful only with the unit's file table.
    File,
    /// A reference to another entry.
    Reference,
    /// Of importance for a unit only.
    Unit,
    /// Of no importance here.
    Ignored,
}

/// Where an attribute goes in the word of its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lane {
    Name,
    Line,
    /// Where it is, how large, or what its value is.
    Number,
}

impl Lane {
    fn shift(self) -> u32 {
        [0, 32, 48][self as usize]
    }

    fn bytes(self) -> u8 {
        [4, 2, 2][self as usize]
    }
}

/// How an attribute goes into the hash of its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Together with others, each at its place in one word.
    Packed(Lane),
    /// A word of its own.
    Alone,
    /// By what it refers to in its unit.
    Local,
    /// By what it says, since its value is of this unit only.
    Told,
    /// Not at all.
    Not,
}

/// How to read one attribute.
#[derive(Clone, Copy)]
pub(super) struct Op {
    pub role: Role,
    how: How,
    /// Bytes of ignored attributes that lie before it.
    pub before: u8,
    /// Bytes of the value, or [`ULEB`] or [`VARIABLE`].
    pub width: u8,
    pub at: u16,
    pub form: DwForm,
    /// The value of a form without bytes.
    pub implicit: i64,
}

/// Places in the word of an entry.
const PACKS: usize = 3;

/// A packed attribute at a known place in the bytes of its entry.
#[derive(Clone, Copy, Default)]
struct Pack {
    offset: u32,
    shift: u32,
    /// Covers the bytes of the value.
    mask: u64,
}

/// Another attribute at a known place.
#[derive(Clone, Copy)]
struct Part {
    offset: u32,
    /// Index of the operation.
    op: u32,
    how: How,
    mask: u64,
    implicit: u64,
}

/// The width of a LEB128 number.
pub(super) const ULEB: u8 = 254;

/// The width of everything that is neither fixed nor LEB128.
pub(super) const VARIABLE: u8 = 255;

/// Ignored attributes are joined up to this many bytes.
const JOINED_MAX: usize = 64;

impl Op {
    fn new(tag: DwTag, at: u16, form: DwForm, implicit: i64, widths: Widths) -> Op {
        let width = if is_uleb(form) { ULEB } else { size_of(form, widths).map_or(VARIABLE, |n| n as u8) };
        let implicit = if form == dw::DW_FORM_flag_present { 1 } else { implicit };
        let role = role_of(tag, at);
        let mut op = Op { role, how: How::Not, before: 0, width, at, form, implicit };
        op.how = match role {
            Role::Text if !is_direct_text(form) => How::Told,
            Role::Value | Role::Text => op.place(tag).map_or(How::Alone, How::Packed),
            Role::Reference if is_local(form) => How::Local,
            // a section offset or signature is the same from everywhere
            Role::Reference => How::Alone,
            Role::File => How::Told,
            Role::Unit | Role::Ignored => How::Not,
        };
        op
    }

    /// A name that stands in the entry itself.
    #[cfg(test)]
    pub(super) fn text_in_place(widths: Widths) -> Op {
        Op::new(dw::DW_TAG_member, dw::DW_AT_name.0, dw::DW_FORM_string, 0, widths)
    }

    /// Its place in the word of its entry, if it is small enough. Attributes of one place never occur in one entry.
    fn place(&self, tag: DwTag) -> Option<Lane> {
        let place = match gimli::DwAt(self.at) {
            dw::DW_AT_name => Lane::Name,
            dw::DW_AT_decl_line => Lane::Line,
            dw::DW_AT_data_member_location if tag == dw::DW_TAG_member => Lane::Number,
            dw::DW_AT_const_value if tag == dw::DW_TAG_enumerator => Lane::Number,
            dw::DW_AT_upper_bound => Lane::Number,
            dw::DW_AT_byte_size if is_root(tag) => Lane::Number,
            _ => return None,
        };
        let fits = match self.width {
            0 => u64::try_from(self.implicit).is_ok_and(|n| n >> (8 * place.bytes()) == 0),
            n => n <= place.bytes(),
        };
        fits.then_some(place)
    }

    /// Appends the operation, or puts it in the place of an ignored one that lies before it.
    fn push(mut self, ops: &mut Vec<Op>, first: usize) {
        let last = ops.get(first..).and_then(<[Op]>::last).filter(|o| o.role == Role::Ignored);
        let before = last.map(|o| usize::from(o.before) + usize::from(o.width));
        if let Some(before) = before.filter(|&n| n <= JOINED_MAX) {
            self.before = before as u8;
            ops.pop();
        }
        ops.push(self);
    }
}

/// How to move over a value whose bytes tell its length.
#[derive(Clone, Copy)]
struct Skip {
    /// Bytes of what lies before it.
    before: u32,
    form: DwForm,
}

/// How to read the entries of one abbreviation code.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    /// 0 where the unit has no such code.
    pub tag: u16,
    pub children: bool,
    /// A struct, union, class, typedef or enumeration.
    pub root: bool,
    /// Its type is a part of it.
    pub holds: bool,
    /// No operations are kept for it.
    bare: bool,
    /// All its values have fixed sizes and the first byte is the lowest.
    even: bool,
    /// Hash of the tag and of the attributes that count.
    shape: u64,
    ops: (u32, u32),
    /// Those that are not in use cover no bytes.
    packs: [Pack; PACKS],
    parts: (u32, u32),
    /// The packed values without bytes.
    packed: u64,
    skips: (u32, u32),
    /// Bytes of the attributes behind the last of `skips`.
    fixed: u32,
}

/// The plans of a unit, by code.
pub(super) struct Plans {
    plans: Vec<Plan>,
    ops: Vec<Op>,
    /// Of entries that have a fixed size.
    parts: Vec<Part>,
    skips: Vec<Skip>,
}

/// Tells what an attribute says whose value means nothing outside of its unit.
pub(super) trait Teller {
    /// A reference within the unit.
    fn local(&self, value: u64) -> u64;
    /// A string or a file.
    fn told(&self, op: &Op, value: u64) -> u64;
}

impl Plans {
    /// Compiles the abbreviations at an offset of `.debug_abbrev`. `scoped`: functions and variables may be parts of
    /// types, which they are not in C.
    pub fn compile(section: &[u8], offset: usize, widths: Widths, scoped: bool) -> Option<Plans> {
        let mut cursor = Cursor { bytes: section, at: offset, failed: false, widths };
        let mut plans = Plans {
            plans: Vec::with_capacity(256),
            ops: Vec::with_capacity(1024),
            parts: Vec::with_capacity(256),
            skips: Vec::with_capacity(64),
        };
        loop {
            let code = cursor.uleb();
            if code == 0 {
                return (!cursor.failed).then_some(plans);
            }
            let plan = plans.add(&mut cursor, scoped)?;
            if cursor.failed || code >= CODES_MAX || plans.ops.len() > OPS_MAX {
                return None;
            }
            let index = code as usize;
            if plans.plans.len() <= index {
                plans.plans.resize(index + 1, Plan::default());
            }
            plans.plans[index] = plan;
        }
    }

    /// Compiles one abbreviation.
    fn add(&mut self, cursor: &mut Cursor<'_>, scoped: bool) -> Option<Plan> {
        let tag = DwTag(u16::try_from(cursor.uleb()).ok()?);
        let children = cursor.fixed(1) != 0;
        let bare = is_bare(tag) || !scoped && is_code(tag);
        let first = self.ends();
        let mut shape = mix(0, u64::from(tag.0));
        let mut fixed = 0u32;
        loop {
            let (at, form) = (cursor.uleb(), cursor.uleb());
            let form = DwForm(u16::try_from(form).ok()?);
            let implicit = if form == dw::DW_FORM_implicit_const { cursor.sleb() } else { 0 };
            if at == 0 && form.0 == 0 {
                break;
            }
            match size_of(form, cursor.widths) {
                Some(n) => fixed = fixed.checked_add(n as u32)?,
                None => self.skips.push(Skip { before: std::mem::take(&mut fixed), form }),
            }
            if !bare {
                let op = Op::new(tag, u16::try_from(at).ok()?, form, implicit, cursor.widths);
                if op.role != Role::Ignored {
                    shape = mix(shape, u64::from(op.at));
                }
                op.push(&mut self.ops, first.ops);
            }
        }
        let even = self.skips.len() == first.skips && cursor.widths.little;
        let (packs, packed) = if even { self.place(first.ops) } else { Default::default() };
        let end = self.ends();
        let range = |of: fn(&Ends) -> usize| (of(&first) as u32, of(&end) as u32);
        Some(Plan {
            tag: tag.0,
            children,
            root: is_root(tag),
            holds: holds(tag),
            bare,
            even,
            shape,
            ops: range(|e| e.ops),
            packs,
            parts: range(|e| e.parts),
            packed,
            skips: range(|e| e.skips),
            fixed,
        })
    }

    fn ends(&self) -> Ends {
        Ends { ops: self.ops.len(), parts: self.parts.len(), skips: self.skips.len() }
    }

    /// Places the attributes of an entry of fixed size; also returns the packed ones without bytes.
    fn place(&mut self, ops: usize) -> ([Pack; PACKS], u64) {
        let (mut offset, mut packs, mut packed) = (0u32, [Pack::default(); PACKS], 0);
        for (i, op) in self.ops.iter().enumerate().skip(ops) {
            offset += u32::from(op.before);
            let mask = u64::MAX.checked_shr(64 - 8 * u32::from(op.width.min(8))).unwrap_or(0);
            let implicit = op.implicit as u64;
            match op.how {
                How::Packed(place) if op.width == 0 => packed ^= implicit << place.shift(),
                How::Packed(place) => packs[place as usize] = Pack { offset, shift: place.shift(), mask },
                How::Not => {}
                how => self.parts.push(Part { offset, op: i as u32, how, mask, implicit }),
            }
            offset += u32::from(op.width);
        }
        (packs, packed)
    }

    /// Mixes the attributes of an entry into a hash and moves the cursor over them.
    #[inline(always)]
    pub fn hash(&self, plan: &Plan, cursor: &mut Cursor<'_>, hash: u64, teller: &impl Teller) -> u64 {
        let hash = mix(hash, plan.shape);
        // a value may be read with up to 8 bytes behind it
        let end = cursor.at + plan.fixed as usize;
        match cursor.bytes.get(cursor.at..end + 8) {
            Some(bytes) if plan.even => {
                cursor.at = end;
                self.hash_even(plan, bytes, hash, teller)
            }
            _ => self.hash_uneven(plan, cursor, hash, teller),
        }
    }

    #[inline(always)]
    fn hash_even(&self, plan: &Plan, bytes: &[u8], mut hash: u64, teller: &impl Teller) -> u64 {
        let mut packed = plan.packed;
        for pack in &plan.packs {
            packed ^= (word(bytes, pack.offset) & pack.mask).wrapping_shl(pack.shift);
        }
        for part in self.parts.get(range(plan.parts)).unwrap_or(&[]) {
            let value = word(bytes, part.offset) & part.mask | part.implicit;
            let word = if part.how == How::Local {
                teller.local(value)
            } else if part.how == How::Told {
                self.ops.get(part.op as usize).map_or(0, |op| teller.told(op, value))
            } else {
                value
            };
            hash = mix(hash, word);
        }
        mix(hash, packed)
    }

    #[inline(never)]
    fn hash_uneven(&self, plan: &Plan, cursor: &mut Cursor<'_>, mut hash: u64, teller: &impl Teller) -> u64 {
        if plan.bare {
            self.skip(plan, cursor);
        }
        let mut packed = 0;
        for op in self.ops(plan) {
            let word = match op.how {
                How::Not => {
                    cursor.skip_op(op);
                    continue;
                }
                How::Packed(place) => {
                    packed ^= cursor.value(op) << place.shift();
                    continue;
                }
                How::Local => teller.local(cursor.value(op)),
                How::Told => teller.told(op, cursor.value(op)),
                How::Alone => cursor.value(op),
            };
            hash = mix(hash, word);
        }
        mix(hash, packed)
    }

    #[inline]
    pub fn get(&self, code: u64) -> Option<&Plan> {
        self.plans.get(usize::try_from(code).ok()?).filter(|p| p.tag != 0)
    }

    #[inline]
    pub fn ops(&self, plan: &Plan) -> &[Op] {
        self.ops.get(range(plan.ops)).unwrap_or(&[])
    }

    /// Moves the cursor over the attributes of an entry.
    #[inline]
    pub fn skip(&self, plan: &Plan, cursor: &mut Cursor<'_>) {
        for skip in self.skips.get(range(plan.skips)).unwrap_or(&[]) {
            cursor.skip(skip.before as usize);
            cursor.skip_variable(skip.form);
        }
        cursor.skip(plan.fixed as usize);
    }
}

/// The eight bytes at an offset, the first one lowest.
#[inline]
fn word(bytes: &[u8], offset: u32) -> u64 {
    let offset = offset as usize;
    let eight = bytes.get(offset..offset + 8).and_then(|b| b.try_into().ok());
    eight.map_or(0, u64::from_le_bytes)
}

/// Lengths of the lists of [`Plans`].
struct Ends {
    ops: usize,
    parts: usize,
    skips: usize,
}

/// Entries of code: they are never part of a type, and nothing but their size counts.
fn is_bare(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_call_site
            | dw::DW_TAG_call_site_parameter
            | dw::DW_TAG_GNU_call_site
            | dw::DW_TAG_GNU_call_site_parameter
            | dw::DW_TAG_inlined_subroutine
            | dw::DW_TAG_lexical_block
            | dw::DW_TAG_label
    )
}

/// Functions and variables: parts of classes.
fn is_code(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_subprogram | dw::DW_TAG_variable)
}

fn range((first, end): (u32, u32)) -> Range<usize> {
    first as usize..end as usize
}

fn role_of(tag: DwTag, at: u16) -> Role {
    match gimli::DwAt(at) {
        dw::DW_AT_name => Role::Text,
        // the file of a member is that of its struct
        dw::DW_AT_decl_file if is_root(tag) => Role::File,
        dw::DW_AT_type | dw::DW_AT_specification | dw::DW_AT_signature | dw::DW_AT_discr => Role::Reference,
        dw::DW_AT_byte_size
        | dw::DW_AT_bit_size
        | dw::DW_AT_data_member_location
        | dw::DW_AT_data_bit_offset
        | dw::DW_AT_bit_offset
        | dw::DW_AT_decl_line
        | dw::DW_AT_alignment
        | dw::DW_AT_count
        | dw::DW_AT_upper_bound
        | dw::DW_AT_const_value
        | dw::DW_AT_encoding
        | dw::DW_AT_declaration
        | dw::DW_AT_GNU_vector
        | dw::DW_AT_external => Role::Value,
        dw::DW_AT_language | dw::DW_AT_stmt_list | dw::DW_AT_str_offsets_base if is_unit(tag) => Role::Unit,
        _ => Role::Ignored,
    }
}

fn is_unit(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_compile_unit | dw::DW_TAG_partial_unit | dw::DW_TAG_type_unit | dw::DW_TAG_skeleton_unit
    )
}

pub(super) fn is_root(tag: DwTag) -> bool {
    is_aggregate(tag) || matches!(tag, dw::DW_TAG_typedef | dw::DW_TAG_enumeration_type)
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

/// Offsets that identify a string, and strings themselves.
fn is_direct_text(form: DwForm) -> bool {
    matches!(form, dw::DW_FORM_strp | dw::DW_FORM_line_strp | dw::DW_FORM_string)
}

/// References to an entry of the same unit.
fn is_local(form: DwForm) -> bool {
    matches!(
        form,
        dw::DW_FORM_ref1 | dw::DW_FORM_ref2 | dw::DW_FORM_ref4 | dw::DW_FORM_ref8 | dw::DW_FORM_ref_udata
    )
}
