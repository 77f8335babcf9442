//! A cursor over the bytes of a unit that reads attribute values without interpreting them.

use gimli::{DwForm, constants as dw};

use super::hash::{bytes as hash_bytes, mix};
use super::plan::{Op, ULEB, VARIABLE};

/// Sizes that depend on the unit.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub little: bool,
    pub address: u8,
    pub offset: u8,
    /// Bytes of `DW_FORM_ref_addr`, an address before DWARF 3.
    pub reference: u8,
}

/// A position in a unit's bytes. Reading beyond the end sets `failed` and yields 0.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'f> {
    pub bytes: &'f [u8],
    pub at: usize,
    pub failed: bool,
    pub widths: Widths,
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
        self.leb().0
    }

    pub fn sleb(&mut self) -> i64 {
        let (value, bits, last) = self.leb();
        let negative = last & 0x40 != 0 && bits < 64;
        if negative { value as i64 | -1i64 << bits } else { value as i64 }
    }

    /// A LEB128 number without its sign, its bits, and its last byte.
    fn leb(&mut self) -> (u64, u32, u8) {
        let (mut value, mut bits) = (0u64, 0u32);
        loop {
            let Some(&b) = self.bytes.get(self.at) else { return self.fail() };
            self.at += 1;
            value |= u64::from(b & 0x7f).checked_shl(bits).unwrap_or(0);
            bits = bits.saturating_add(7);
            if b < 0x80 {
                return (value, bits, b);
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
        match size_of(form, self.widths) {
            Some(n) => self.skip(n),
            None => self.skip_variable(form),
        }
    }

    /// Moves over a value whose bytes tell its length.
    pub fn skip_variable(&mut self, form: DwForm) {
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
            form if is_uleb(form) => {
                self.uleb();
            }
            _ => self.fail(),
        }
    }

    /// Moves over the value of an operation and what lies before it.
    #[inline]
    pub fn skip_op(&mut self, op: &Op) {
        self.skip(usize::from(op.before));
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
        self.skip(usize::from(op.before));
        match op.width {
            0 => op.implicit as u64,
            ULEB => self.uleb(),
            n if n <= 8 => self.word(n),
            _ => self.long_value(op),
        }
    }

    /// The hash of a string of up to 6 bytes, which it has in [`Cursor::long_value`]: compilers write short names in
    /// place. `None` for longer ones, and near the end.
    fn short_text(&mut self) -> Option<u64> {
        let eight = u64::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk::<8>()?);
        // the lowest bit set is the top one of the first byte that is 0
        let zeros = eight.wrapping_sub(0x0101_0101_0101_0101) & !eight & 0x8080_8080_8080_8080;
        let length = zeros.trailing_zeros() / 8;
        if length > 6 {
            return None;
        }
        self.at += length as usize + 1;
        let text = eight & ((1 << (8 * length)) - 1);
        Some(mix(21, mix(mix(0, u64::from(length) + 1), text)))
    }

    /// A number of 1 to 8 bytes.
    #[inline]
    pub(super) fn word(&mut self, n: u8) -> u64 {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        match rest.first_chunk::<8>() {
            Some(eight) if self.widths.little => {
                self.at += usize::from(n);
                u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * u32::from(n)))
            }
            _ => self.fixed(usize::from(n)),
        }
    }

    #[inline(never)]
    fn long_value(&mut self, op: &Op) -> u64 {
        if op.form == dw::DW_FORM_string
            && let Some(hash) = self.short_text()
        {
            return hash;
        }
        if op.form == dw::DW_FORM_sdata {
            return self.sleb() as u64;
        }
        let start = self.at;
        self.skip_form(op.form);
        let slice = self.bytes.get(start..self.at).unwrap_or(&[]);
        mix(21, hash_bytes(0, crate::text::clip(slice)))
    }
}

/// Bytes of a form, if fixed.
pub(super) fn size_of(form: DwForm, widths: Widths) -> Option<usize> {
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
            usize::from(widths.offset)
        }
        dw::DW_FORM_GNU_ref_alt | dw::DW_FORM_GNU_strp_alt => usize::from(widths.offset),
        dw::DW_FORM_ref_addr => usize::from(widths.reference),
        dw::DW_FORM_addr => usize::from(widths.address),
        _ => return None,
    })
}

/// Forms that are LEB128 numbers without a sign.
pub(super) fn is_uleb(form: DwForm) -> bool {
    matches!(
        form,
        dw::DW_FORM_udata
            | dw::DW_FORM_ref_udata
            | dw::DW_FORM_strx
            | dw::DW_FORM_GNU_str_index
            | dw::DW_FORM_addrx
            | dw::DW_FORM_loclistx
            | dw::DW_FORM_rnglistx
            | dw::DW_FORM_GNU_addr_index
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_hash_as_all_do() {
        let widths = Widths { little: true, address: 8, offset: 4, reference: 4 };
        for length in 0..12usize {
            let text = [&b"abcdefghijkl"[..length], b"\0"].concat();
            let long = [&text[..], b"behind it"].concat();
            let op = Op::text_in_place(widths);
            let value = |bytes| {
                let mut cursor = Cursor { bytes, at: 0, failed: false, widths };
                (cursor.value(&op), cursor.at, cursor.failed)
            };
            let want = (mix(21, hash_bytes(0, &text)), length + 1, false);
            assert_eq!((value(&text), value(&long)), (want, want), "{length}");
        }
    }
}
