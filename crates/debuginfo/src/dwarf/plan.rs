//! Abbreviations compiled for fast skipping, and a cursor that reads attribute values without interpreting them.
//!
//! A kernel's debug information describes each common struct thousands of times. To find out that an entry is one
//! that was read before, its bytes are walked with these plans instead of with gimli's general readers; whatever the
//! plans do not know makes the unit take the general way.

use gimli::{DwForm, constants as dw};

use super::hash::{bytes as hash_bytes, mix};

/// Abbreviation codes are dense in what compilers write; larger ones take the general way.
const CODES_MAX: u64 = 1 << 16;

/// Attributes of one entry that are compiled at most.
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

#[derive(Clone, Copy)]
pub(super) struct Op {
    pub role: Role,
    /// Bytes of the value, or [`ULEB`] or [`VARIABLE`]. Neighbours that are ignored are one operation.
    width: u8,
    pub at: u16,
    pub form: DwForm,
    /// The value of a form without bytes.
    implicit: i64,
}

/// The width of a LEB128 number.
const ULEB: u8 = 254;

/// The width of everything that is neither fixed nor LEB128.
const VARIABLE: u8 = 255;

/// Ignored attributes are joined up to this many bytes.
const JOINED_MAX: usize = 64;

impl Op {
    fn new(at: u16, form: DwForm, implicit: i64, widths: Widths) -> Op {
        let width = match form {
            dw::DW_FORM_udata | dw::DW_FORM_ref_udata | dw::DW_FORM_strx | dw::DW_FORM_GNU_str_index => ULEB,
            dw::DW_FORM_addrx | dw::DW_FORM_loclistx | dw::DW_FORM_rnglistx | dw::DW_FORM_GNU_addr_index => {
                ULEB
            }
            form => size_of(form, widths).map_or(VARIABLE, |n| n as u8),
        };
        let implicit = if form == dw::DW_FORM_flag_present { 1 } else { implicit };
        Op { role: role_of(at), width, at, form, implicit }
    }

    /// Takes the next operation in, if neither is of interest.
    fn join(&mut self, next: &Op) -> bool {
        let sum = usize::from(self.width) + usize::from(next.width);
        let both = self.role == Role::Ignored && next.role == Role::Ignored;
        let fits = both && sum <= JOINED_MAX;
        if fits {
            self.width = sum as u8;
        }
        fits
    }
}

/// How to read the entries of one abbreviation code.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub tag: u16,
    pub children: bool,
    /// Bytes of all attributes, if that does not depend on their values.
    fixed: Option<u32>,
    first: u32,
    end: u32,
}

/// The plans of a unit, by code.
pub(super) struct Plans {
    plans: Vec<Option<Plan>>,
    ops: Vec<Op>,
}

/// Sizes that depend on the unit.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub little: bool,
    pub address: usize,
    pub offset: usize,
    /// Bytes of `DW_FORM_ref_addr`, an address before DWARF 3.
    pub reference: usize,
}

/// A position in a unit's bytes. Reading beyond the end sets `failed` and yields 0.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'f> {
    pub bytes: &'f [u8],
    pub at: usize,
    pub failed: bool,
    pub widths: Widths,
}

impl Plans {
    /// Compiles the abbreviations at an offset of `.debug_abbrev`.
    pub fn compile(section: &[u8], offset: usize, widths: Widths) -> Option<Plans> {
        let mut cursor = Cursor { bytes: section, at: offset, failed: false, widths };
        let mut plans = Plans { plans: Vec::new(), ops: Vec::new() };
        loop {
            let code = cursor.uleb();
            if code == 0 {
                return (!cursor.failed).then_some(plans);
            }
            let tag = u16::try_from(cursor.uleb()).ok()?;
            let children = cursor.fixed(1) != 0;
            let first = plans.ops.len() as u32;
            let mut fixed = Some(0u32);
            loop {
                let (at, form) = (cursor.uleb(), cursor.uleb());
                let form = DwForm(u16::try_from(form).ok()?);
                let implicit = if form == dw::DW_FORM_implicit_const { cursor.sleb() } else { 0 };
                if at == 0 && form.0 == 0 {
                    break;
                }
                let at = u16::try_from(at).ok()?;
                fixed = fixed.and_then(|sum| Some(sum + size_of(form, widths)? as u32));
                let op = Op::new(at, form, implicit, widths);
                let own = plans.ops.len() > first as usize;
                if !plans.ops.last_mut().filter(|_| own).is_some_and(|last| last.join(&op)) {
                    plans.ops.push(op);
                }
            }
            if cursor.failed || code >= CODES_MAX || plans.ops.len() > OPS_MAX {
                return None;
            }
            let index = code as usize;
            if plans.plans.len() <= index {
                plans.plans.resize(index + 1, None);
            }
            plans.plans[index] = Some(Plan { tag, children, fixed, first, end: plans.ops.len() as u32 });
        }
    }

    #[inline]
    pub fn get(&self, code: u64) -> Option<Plan> {
        self.plans.get(usize::try_from(code).ok()?).copied().flatten()
    }

    #[inline]
    pub fn ops(&self, plan: Plan) -> &[Op] {
        self.ops.get(plan.first as usize..plan.end as usize).unwrap_or(&[])
    }

    /// Moves the cursor over the attributes of an entry.
    #[inline]
    pub fn skip(&self, plan: Plan, cursor: &mut Cursor<'_>) {
        match plan.fixed {
            Some(n) => cursor.skip(n as usize),
            None => self.ops(plan).iter().for_each(|op| cursor.skip_op(op)),
        }
    }
}

fn role_of(at: u16) -> Role {
    match gimli::DwAt(at) {
        dw::DW_AT_name => Role::Text,
        dw::DW_AT_decl_file => Role::File,
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
        dw::DW_AT_language | dw::DW_AT_stmt_list | dw::DW_AT_str_offsets_base => Role::Unit,
        _ => Role::Ignored,
    }
}

/// Bytes of a form, if fixed.
fn size_of(form: DwForm, widths: Widths) -> Option<usize> {
    Some(match form {
        dw::DW_FORM_implicit_const | dw::DW_FORM_flag_present => 0,
        dw::DW_FORM_data1 | dw::DW_FORM_ref1 | dw::DW_FORM_flag | dw::DW_FORM_strx1 | dw::DW_FORM_addrx1 => 1,
        dw::DW_FORM_data2 | dw::DW_FORM_ref2 | dw::DW_FORM_strx2 | dw::DW_FORM_addrx2 => 2,
        dw::DW_FORM_strx3 | dw::DW_FORM_addrx3 => 3,
        dw::DW_FORM_data4 | dw::DW_FORM_ref4 | dw::DW_FORM_strx4 | dw::DW_FORM_addrx4 => 4,
        dw::DW_FORM_ref_sup4 => 4,
        dw::DW_FORM_data8 | dw::DW_FORM_ref8 | dw::DW_FORM_ref_sig8 | dw::DW_FORM_ref_sup8 => 8,
        dw::DW_FORM_data16 => 16,
        dw::DW_FORM_strp | dw::DW_FORM_line_strp | dw::DW_FORM_sec_offset | dw::DW_FORM_strp_sup => {
            widths.offset
        }
        dw::DW_FORM_GNU_ref_alt | dw::DW_FORM_GNU_strp_alt => widths.offset,
        dw::DW_FORM_ref_addr => widths.reference,
        dw::DW_FORM_addr => widths.address,
        _ => return None,
    })
}

impl<'f> Cursor<'f> {
    #[inline]
    fn fail<T: Default>(&mut self) -> T {
        self.failed = true;
        self.at = self.bytes.len();
        T::default()
    }

    #[inline]
    pub fn skip(&mut self, n: usize) {
        match self.at.checked_add(n).filter(|&at| at <= self.bytes.len()) {
            Some(at) => self.at = at,
            None => self.fail(),
        }
    }

    #[inline]
    pub fn uleb(&mut self) -> u64 {
        match self.bytes.get(self.at) {
            Some(&b) if b < 0x80 => {
                self.at += 1;
                u64::from(b)
            }
            _ => self.long_uleb(),
        }
    }

    fn long_uleb(&mut self) -> u64 {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let Some(&b) = self.bytes.get(self.at) else { return self.fail() };
            self.at += 1;
            value |= u64::from(b & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if b < 0x80 {
                return value;
            }
        }
    }

    fn sleb(&mut self) -> i64 {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let Some(&b) = self.bytes.get(self.at) else { return self.fail() };
            self.at += 1;
            value |= i64::from(b & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if b < 0x80 {
                let negative = b & 0x40 != 0 && shift < 64;
                return if negative { value | -1i64 << shift } else { value };
            }
        }
    }

    /// An unsigned number of `n` ≤ 8 bytes.
    #[inline]
    pub fn fixed(&mut self, n: usize) -> u64 {
        let Some(slice) = self.at.checked_add(n).and_then(|end| self.bytes.get(self.at..end)) else {
            return self.fail();
        };
        self.at += n;
        let join = |n: u64, b: &u8| n << 8 | u64::from(*b);
        if self.widths.little { slice.iter().rev().fold(0, join) } else { slice.iter().fold(0, join) }
    }

    /// Moves over a value.
    pub fn skip_form(&mut self, form: DwForm) {
        if let Some(n) = size_of(form, self.widths) {
            return self.skip(n);
        }
        match form {
            dw::DW_FORM_string => {
                let rest = self.bytes.get(self.at..).unwrap_or(&[]);
                match memchr::memchr(0, rest) {
                    Some(end) => self.at += end + 1,
                    None => self.fail(),
                }
            }
            dw::DW_FORM_exprloc | dw::DW_FORM_block => {
                let n = self.uleb();
                self.skip(usize::try_from(n).unwrap_or(usize::MAX));
            }
            dw::DW_FORM_block1 => {
                let n = self.fixed(1);
                self.skip(n as usize);
            }
            dw::DW_FORM_block2 => {
                let n = self.fixed(2);
                self.skip(n as usize);
            }
            dw::DW_FORM_block4 => {
                let n = self.fixed(4);
                self.skip(n as usize);
            }
            dw::DW_FORM_sdata => {
                self.uleb();
            }
            _ => self.fail(),
        }
    }

    /// Moves over the value of an operation.
    #[inline]
    pub fn skip_op(&mut self, op: &Op) {
        match op.width {
            ULEB => {
                self.uleb();
            }
            VARIABLE => self.skip_form(op.form),
            n => self.skip(usize::from(n)),
        }
    }

    /// A value as a number: constants and offsets as they are, blocks and inline strings as a hash.
    #[inline]
    pub fn value(&mut self, op: &Op) -> u64 {
        match op.width {
            0 => op.implicit as u64,
            ULEB => self.uleb(),
            n if n <= 8 => self.word(n),
            _ => self.long_value(op),
        }
    }

    /// A number of 1 to 8 bytes.
    #[inline]
    fn word(&mut self, n: u8) -> u64 {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        match rest.first_chunk::<8>() {
            Some(eight) if self.widths.little => {
                self.at += usize::from(n);
                u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * u32::from(n)))
            }
            _ => self.fixed(usize::from(n)),
        }
    }

    fn long_value(&mut self, op: &Op) -> u64 {
        if op.form == dw::DW_FORM_sdata {
            return self.sleb() as u64;
        }
        let start = self.at;
        self.skip_form(op.form);
        let slice = self.bytes.get(start..self.at).unwrap_or(&[]);
        mix(21, hash_bytes(0, crate::text::clip(slice)))
    }
}
