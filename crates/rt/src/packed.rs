//! Files inside tussle, compressed: they would be a twentieth of it.

use std::io::Read;

/// A file as `build.rs` left it.
pub struct Packed(pub(crate) &'static [u8]);

impl Packed {
    /// Whether there is no such file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the file holds.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.is_empty() {
            flate2::read::ZlibDecoder::new(self.0).read_to_end(&mut bytes).expect("build.rs has packed it");
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_out_as_they_were_built() {
        assert!(Packed(&[]).bytes().is_empty());
        for (name, file) in [
            ("tussle-rt.o", &crate::OBJECT),
            ("libtsan.so.2", &crate::SHARED),
            ("tussle-emulated.o", &crate::EMULATED),
        ] {
            let built = std::path::Path::new(env!("OUT_DIR")).join(name);
            assert_eq!(file.is_empty(), !built.exists(), "{name}");
            assert!(file.is_empty() || file.bytes() == std::fs::read(built).unwrap(), "{name}");
        }
    }
}
