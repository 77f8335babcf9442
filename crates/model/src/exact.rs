//! Sizes and alignments that do not follow from what a type is made of.

use crate::types::{Type, TypeId, TypeTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Types with a bit in [`Known`]; a kernel has some 100,000. Ids in a hostile snapshot are as large as they like.
const BITS_MAX: u32 = 1 << 22;

/// What is known by type. Most types are asked about often and have nothing here: a bit for each says so.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<TypeId, Exact>", into = "BTreeMap<TypeId, Exact>")]
pub(crate) struct Known {
    map: BTreeMap<TypeId, Exact>,
    /// Bit `id % 64` of word `id / 64`: something is known of this type.
    told: Vec<u64>,
    /// Of some type, it was its size.
    sizes: bool,
}

impl Known {
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub fn get(&self, id: TypeId) -> Option<&Exact> {
        let bit = |word: &u64| word >> (id.0 % 64) & 1 == 1;
        let told = id.0 >= BITS_MAX || self.told.get(id.0 as usize / 64).is_some_and(bit);
        if told { self.map.get(&id) } else { None }
    }

    /// The size, if it is known.
    pub fn size(&self, id: TypeId) -> Option<u64> {
        if self.sizes { self.get(id)?.size } else { None }
    }

    /// A size is known of some type.
    pub fn has_sizes(&self) -> bool {
        self.sizes
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TypeId, &Exact)> {
        self.map.iter()
    }

    /// Remembers what is known of a type in place of what was.
    pub fn set(&mut self, id: TypeId, known: Exact) {
        if id.0 < BITS_MAX {
            let word = id.0 as usize / 64;
            self.told.resize(self.told.len().max(word + 1), 0);
            self.told[word] |= 1 << (id.0 % 64);
        }
        self.sizes |= known.size.is_some();
        self.map.insert(id, known);
    }

    /// Remembers it unless something is known; nothing is of `void`.
    pub fn add(&mut self, id: TypeId, known: Exact) {
        if id != TypeId::VOID && self.get(id).is_none() {
            self.set(id, known);
        }
    }

    /// Forgets what `keep` says no to.
    pub fn retain(&mut self, keep: impl FnMut(&TypeId, &mut Exact) -> bool) {
        self.map.retain(keep);
    }
}

impl From<BTreeMap<TypeId, Exact>> for Known {
    fn from(map: BTreeMap<TypeId, Exact>) -> Known {
        let mut known = Known::default();
        map.into_iter().for_each(|(id, e)| known.set(id, e));
        known
    }
}

impl From<Known> for BTreeMap<TypeId, Exact> {
    fn from(known: Known) -> Self {
        known.map
    }
}

impl TypeTable {
    /// Remembers what is known of a type.
    pub fn set_exact(&mut self, id: TypeId, known: Exact) {
        if id != TypeId::VOID && known != Exact::default() {
            self.exact.set(id, known);
        }
    }

    /// The alignment of a type where it is told, bytes: at least and at most. That of a typedef or of what it stands
    /// for.
    pub fn told_align(&self, mut id: TypeId) -> Option<(u64, u64)> {
        // as far as `strip` follows
        for _ in 0..crate::types::CHAIN_MAX {
            if let Some((e, align)) = self.exact.get(id).and_then(|e| Some((e, e.align?))) {
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
