//! Sizes and alignments that do not follow from what a type is made of.

use crate::types::{Type, TypeId, TypeTable};
use serde::{Deserialize, Serialize};

/// What is known of one type beyond its kind and parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exact {
    /// Bytes: a vector of three `float` has 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Alignment in bytes, a power of two: `_Complex double` needs 8, a typedef may ask for less than its type needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u64>,
    /// Perhaps up to this: a vector's alignment depends on options of the compiler. A power of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_most: Option<u64>,
}

impl Exact {
    /// Only an alignment.
    pub fn aligned(bytes: u64) -> Exact {
        Exact { align: Some(bytes), ..Exact::default() }
    }
}

impl TypeTable {
    /// Remembers what is known of a type.
    pub fn set_exact(&mut self, id: TypeId, known: Exact) {
        if id != TypeId::VOID && known != Exact::default() {
            self.exact.insert(id, known);
        }
    }

    /// The alignment of a type where it is told, bytes: at least and at most. That of a typedef or of what it stands
    /// for.
    pub fn told_align(&self, mut id: TypeId) -> Option<(u64, u64)> {
        // as far as `strip` follows
        for _ in 0..64 {
            if let Some((e, align)) = self.exact.get(&id).and_then(|e| Some((e, e.align?))) {
                return Some((align, e.align_most.unwrap_or(align).max(align)));
            }
            match self.get(id) {
                Type::Typedef { to, .. } | Type::Const(to) | Type::Volatile(to) | Type::Restrict(to) => {
                    id = *to
                }
                _ => return None,
            }
        }
        None
    }

    /// [`TypeTable::told_align`], the least.
    pub fn exact_align(&self, id: TypeId) -> Option<u64> {
        self.told_align(id).map(|a| a.0)
    }

    /// Alignment that a scalar needs, bytes: the largest power of two in its size (the 12 bytes of `long double` on
    /// 32-bit x86 need 4), unless the reader knew better. At least 1.
    pub fn scalar_align(&self, id: TypeId) -> u64 {
        let by_size = || 1 << self.size(id).unwrap_or(1).max(1).trailing_zeros();
        self.exact_align(id).unwrap_or_else(by_size)
    }
}
