//! Bounds on what hostile files can cost: a few bytes can refer to a megabyte of text a million times, or to the same
//! long list from everywhere.

use std::cell::Cell;

/// Names longer than this are cut; C++ templates reach some thousand bytes.
const NAME_MAX: usize = 1 << 14;

/// Text and steps that one file may cost.
#[derive(Debug)]
pub(crate) struct Budget {
    text_bytes: Cell<usize>,
    steps: Cell<u64>,
}

impl Budget {
    /// For an input of `bytes`: honest files need less text than they are long, and a few steps per byte.
    pub fn for_input(bytes: usize) -> Budget {
        Budget {
            text_bytes: Cell::new(bytes.saturating_mul(8).saturating_add(1 << 24)),
            steps: Cell::new((bytes as u64).saturating_mul(32).saturating_add(1 << 24)),
        }
    }

    /// The text with invalid UTF-8 replaced; cut when too long, empty when the budget is spent.
    pub fn string(&self, text: &[u8]) -> String {
        let text = clip(text);
        if !self.charge(text.len()) {
            return String::new();
        }
        String::from_utf8_lossy(text).into_owned()
    }

    /// Takes so many bytes of text out of the budget; false when they are not left.
    pub fn charge(&self, bytes: usize) -> bool {
        let left = self.text_bytes.get().checked_sub(bytes);
        self.text_bytes.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Takes so many steps; false when they are not left.
    #[inline]
    pub fn step(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        left > 0
    }

    /// Something had to be left out.
    pub fn is_spent(&self) -> bool {
        self.text_bytes.get() == 0 || self.steps.get() == 0
    }
}

/// At most [`NAME_MAX`] bytes of a name.
pub(crate) fn clip(text: &[u8]) -> &[u8] {
    &text[..text.len().min(NAME_MAX)]
}
