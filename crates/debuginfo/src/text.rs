//! Names out of hostile files: a few bytes can refer to a megabyte of text a million times.

/// Names longer than this are cut; C++ templates reach some thousand bytes.
const NAME_MAX: usize = 1 << 14;

/// Bytes of names that one file may turn into.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    /// For an input of `bytes`: honest files stay below their own size.
    pub fn for_input(bytes: usize) -> Budget {
        Budget { left: bytes.saturating_mul(8).saturating_add(1 << 24) }
    }

    /// The text with invalid UTF-8 replaced; cut when too long, empty when the budget is spent.
    pub fn string(&mut self, text: &[u8]) -> String {
        let text = clip(text);
        let text = &text[..text.len().min(self.left)];
        self.left -= text.len();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// At most [`NAME_MAX`] bytes of a name.
pub(crate) fn clip(text: &[u8]) -> &[u8] {
    &text[..text.len().min(NAME_MAX)]
}
