//! What is known of the entries of one unit, by offset: an open table that is emptied for the next unit by counting up.

/// Slots of a new table.
const SLOTS_MIN: usize = 1 << 12;

/// Bits of a key below the number of the unit: the offset and [`Of`].
const KEY_BITS: u32 = 33;

/// Which of the two hashes of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Its content.
    Content,
    /// What it is called.
    Name,
}

/// Hash and end of an entry.
pub(super) type Known = (u64, usize);

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Number of the unit, offset and [`Of`].
    key: u64,
    hash: u64,
}

/// A slot of which the content is being found.
pub(super) struct Taken {
    key: u64,
    at: usize,
}

/// A table from entries to hashes. Lookups probe from the place of the offset, so that entries that lie together are
/// found together.
#[derive(Default)]
pub(super) struct Memo {
    /// A power of two; at most half of them are in use.
    slots: Vec<Slot>,
    /// The end of the entry of each slot, in a list of its own because few ask for it.
    ends: Vec<usize>,
    used: usize,
    /// Number of the unit, from 1, where it stands in keys: those of units before are smaller.
    unit: u64,
}

impl Memo {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.used = 0;
        self.unit = self.unit.checked_add(1 << KEY_BITS).unwrap_or_else(|| {
            self.slots.fill(Slot::default());
            1 << KEY_BITS
        });
    }

    #[inline]
    fn key(&self, offset: u32, of: Of) -> u64 {
        self.unit | u64::from(offset) << 1 | u64::from(of == Of::Name)
    }

    /// The index of the slot with a key, or of the free one where it belongs. `None` while there is no room.
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        // entries have some ten bytes
        let mut at = (key >> 3) as usize & mask;
        loop {
            let found = self.slots.get(at)?.key;
            if found == key || found < self.unit {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The hash, if it is known.
    #[inline]
    pub fn hash(&self, offset: u32, of: Of) -> Option<u64> {
        let key = self.key(offset, of);
        let slot = self.slots.get(self.find(key)?)?;
        (slot.key == key).then_some(slot.hash)
    }

    /// What is known.
    pub fn get(&self, offset: u32, of: Of) -> Option<Known> {
        let key = self.key(offset, of);
        self.at(self.find(key)?, key)
    }

    #[inline]
    fn at(&self, at: usize, key: u64) -> Option<Known> {
        let slot = self.slots.get(at).filter(|s| s.key == key)?;
        Some((slot.hash, *self.ends.get(at)?))
    }

    /// What is known, or the slot that is to be filled with it.
    #[inline]
    pub fn enter(&mut self, offset: u32, of: Of) -> Result<Known, Taken> {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let key = self.key(offset, of);
        let at = self.find(key).unwrap_or(0);
        self.at(at, key).ok_or(Taken { key, at })
    }

    /// Fills a slot.
    pub fn fill(&mut self, taken: &Taken, known: Known) {
        let same = self.slots.get(taken.at).is_some_and(|s| s.key == taken.key);
        // new, or the table has grown or been filled here
        let at = if same { taken.at } else { self.find(taken.key).unwrap_or(0) };
        self.put(at, taken.key, known);
    }

    fn put(&mut self, at: usize, key: u64, (hash, end): Known) {
        if let (Some(slot), Some(place)) = (self.slots.get_mut(at), self.ends.get_mut(at)) {
            self.used += usize::from(slot.key != key);
            *slot = Slot { key, hash };
            *place = end;
        }
    }

    fn grow(&mut self) {
        let slots = self.slots.len().max(SLOTS_MIN / 2) * 2;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        let ends = std::mem::replace(&mut self.ends, vec![0; slots]);
        self.used = 0;
        let unit = self.unit;
        for (slot, end) in old.into_iter().zip(ends).filter(|(s, _)| s.key >= unit) {
            let at = self.find(slot.key).unwrap_or(0);
            self.put(at, slot.key, (slot.hash, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_told() {
        let mut memo = Memo::default();
        for unit in 1..4u64 {
            memo.clear();
            let mut held = Vec::new();
            // offsets that fall on the same place, and more of them than the table begins with
            let offsets = || (0..SLOTS_MIN as u32).map(|i| i.wrapping_mul(1 << 13).wrapping_add(i / 3));
            let hash = |o: u32, of| u64::from(o) ^ unit << 40 ^ u64::from(of == Of::Name) << 63;
            for o in offsets() {
                for of in [Of::Content, Of::Name] {
                    let Err(taken) = memo.enter(o, of) else { panic!("{o} of {unit} is new") };
                    memo.fill(&taken, (1, 1));
                    assert_eq!(memo.enter(o, of).ok(), Some((1, 1)));
                    held.push((taken, (hash(o, of), o as usize)));
                }
            }
            held.into_iter().for_each(|(taken, known)| memo.fill(&taken, known));
            for o in offsets() {
                for of in [Of::Content, Of::Name] {
                    assert_eq!(memo.enter(o, of).ok(), Some((hash(o, of), o as usize)));
                }
            }
        }
    }
}
