//! Bytes read as an object of a type: `{ .flags = 3, .name = "eth0" }`, one field per line.

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{AggregateKind, Base, Encoding, EnumType, Member, MemberRole, Type, TypeId, TypeTable};

/// Elements of an array that are printed.
const ELEMENTS_MAX: u64 = 64;

/// Text is cut here, bytes.
const TEXT_MAX: usize = 1 << 20;

/// Bytes of memory as they lie there.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// From the first byte of the object on; what lies behind the end is unknown.
    pub bytes: &'a [u8],
    /// Byte order.
    pub little_endian: bool,
}

impl Memory<'_> {
    /// Up to 128 bits from a bit on; `None` where bytes are missing.
    fn bits(&self, first: u64, width: u64) -> Option<u128> {
        if width == 0 || width > 128 {
            return None;
        }
        let mut value = 0u128;
        for i in 0..width {
            let bit = first.checked_add(i)?;
            let byte = self.bytes.get(usize::try_from(bit / 8).ok()?)?;
            // in big-endian files bits count from the most significant one
            match self.little_endian {
                true => value |= u128::from(byte >> (bit % 8) & 1) << i,
                false => value = value << 1 | u128::from(byte >> (7 - bit % 8) & 1),
            }
        }
        Some(value)
    }
}

/// The object at the start of `memory`, with a final newline. Virtual bases without a place and static members are
/// left out; bytes that are not there print as `?`.
pub fn text(table: &TypeTable, id: TypeId, memory: Memory<'_>) -> String {
    let mut p = Printer { table, memory, out: String::new() };
    p.value(id, 0, None, 0);
    p.out.push('\n');
    p.out
}

struct Printer<'a> {
    table: &'a TypeTable,
    memory: Memory<'a>,
    out: String,
}

impl Printer<'_> {
    /// The value that begins at bit `at`.
    fn value(&mut self, id: TypeId, at: u64, width: Option<u32>, depth: usize) {
        if depth > DEPTH_MAX || self.out.len() > TEXT_MAX {
            return self.out.push_str("...");
        }
        let table = self.table;
        let id = table.strip(id);
        let bits = width.map_or_else(|| table.size(id).unwrap_or(0).saturating_mul(8), u64::from);
        match table.get(id) {
            Type::Aggregate(a) if a.declaration => self.out.push('?'),
            Type::Aggregate(a) => self.members(&a.members, a.kind == AggregateKind::Union, at, depth),
            Type::Array { elem, counts } => self.array(*elem, counts, at, depth),
            Type::Base(b) => self.scalar(b, at, bits),
            Type::Enum(e) => self.constant(e, at, bits),
            _ => match self.memory.bits(at, bits) {
                Some(n) => self.out.push_str(&format!("{n:#x}")),
                None => self.out.push('?'),
            },
        }
    }

    fn members(&mut self, members: &[Member], union: bool, at: u64, depth: usize) {
        self.out.push_str(if union { "{ // one of\n" } else { "{\n" });
        for m in members {
            if m.role == MemberRole::Static || m.offset_bits == Member::UNPLACED {
                continue;
            }
            self.indent(depth + 1);
            match (&m.name, m.role) {
                (Some(name), _) => self.out.push_str(&format!(".{name} = ")),
                (None, MemberRole::Base | MemberRole::VirtualBase) => {
                    self.out.push_str(&format!("/* {} */ ", self.table.name(m.ty)));
                }
                (None, _) => {}
            }
            self.value(m.ty, at.saturating_add(m.offset_bits), m.bit_size, depth + 1);
            self.out.push_str(",\n");
        }
        self.indent(depth);
        self.out.push('}');
    }

    fn array(&mut self, elem: TypeId, counts: &[Option<u64>], at: u64, depth: usize) {
        let Some((count, inner)) = counts.split_first() else { return self.value(elem, at, None, depth + 1) };
        let count = count.unwrap_or(0);
        let rows = inner.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?));
        let size = rows.and_then(|n| n.checked_mul(self.table.size(elem)?)).unwrap_or(0);
        if let (Type::Base(b), true) = (self.table.get(self.table.strip(elem)), inner.is_empty())
            && b.encoding == Encoding::Char
            && b.size == 1
            && self.string(at, count)
        {
            return;
        }
        self.out.push_str("[ ");
        for i in 0..count.min(ELEMENTS_MAX) {
            self.out.push_str(if i > 0 { ", " } else { "" });
            let at = at.saturating_add(i.saturating_mul(size).saturating_mul(8));
            match inner.is_empty() {
                true => self.value(elem, at, None, depth + 1),
                false => self.array(elem, inner, at, depth + 1),
            }
            if self.out.len() > TEXT_MAX {
                break;
            }
        }
        if count > ELEMENTS_MAX {
            self.out.push_str(&format!(", ... {} more", count - ELEMENTS_MAX));
        }
        self.out.push_str(" ]");
    }

    /// Characters up to the first zero, if they are text and nothing follows it.
    fn string(&mut self, at: u64, count: u64) -> bool {
        let start = usize::try_from(at / 8).ok();
        let end = start.and_then(|s| s.checked_add(usize::try_from(count).ok()?));
        let Some(bytes) = start.zip(end).and_then(|(s, e)| self.memory.bytes.get(s..e)) else { return false };
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        let rest = &bytes[text.len()..];
        if !text.iter().all(|b| (0x20..0x7f).contains(b)) || rest.iter().any(|b| *b != 0) || bytes.is_empty()
        {
            return false;
        }
        self.out.push_str(&format!("{:?}", String::from_utf8_lossy(text)));
        true
    }

    fn scalar(&mut self, b: &Base, at: u64, bits: u64) {
        let Some(n) = self.memory.bits(at, bits) else { return self.out.push('?') };
        let shown = match (b.encoding, bits) {
            (Encoding::Signed, _) => signed(n, bits).to_string(),
            (Encoding::Float, 32) => f32::from_bits(n as u32).to_string(),
            (Encoding::Float, 64) => f64::from_bits(n as u64).to_string(),
            (Encoding::Float, _) => format!("{n:#x}"),
            (Encoding::Bool, _) if n < 2 => (n == 1).to_string(),
            (Encoding::Char, 8) if (0x20..0x7f).contains(&n) => format!("{:?}", n as u8 as char),
            _ => n.to_string(),
        };
        self.out.push_str(&shown);
    }

    fn constant(&mut self, e: &EnumType, at: u64, bits: u64) {
        let Some(n) = self.memory.bits(at, bits) else { return self.out.push('?') };
        let mask = u128::MAX >> (128 - bits.clamp(1, 128));
        match e.values.iter().find(|v| v.wide() as u128 & mask == n) {
            Some(v) => self.out.push_str(&v.name),
            None => self.out.push_str(&n.to_string()),
        }
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n('\t', depth.min(16)));
    }
}

fn signed(n: u128, bits: u64) -> i128 {
    let shift = 128 - bits.clamp(1, 128) as u32;
    (n << shift) as i128 >> shift
}
