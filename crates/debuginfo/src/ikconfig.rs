//! The configuration that a kernel built with `CONFIG_IKCONFIG` carries: a gzip stream between two marks
//! (kernel/configs.c).

use std::io::Read;

const START: &[u8] = b"IKCFG_ST";

/// Larger configurations do not occur: 300 kB is usual.
const BYTES_MAX: u64 = 8 << 20;

/// Text of the `.config` inside an uncompressed kernel image (`vmlinux`); `None` where there is none.
pub fn ikconfig(bytes: &[u8]) -> Option<String> {
    memchr::memmem::find_iter(bytes, START).find_map(|at| {
        let packed = bytes.get(at + START.len()..)?;
        let mut text = String::new();
        let read = flate2::read::GzDecoder::new(packed).take(BYTES_MAX).read_to_string(&mut text);
        (read.is_ok() && text.contains("CONFIG_")).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_kernels_own_configuration() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(b"CONFIG_MMU=y\n# CONFIG_X is not set\n").unwrap();
        let packed = packer.finish().unwrap();
        let image = [b"elf..IKCFG_ST not it ..", START, &packed, b"IKCFG_ED and more"].concat();
        assert_eq!(ikconfig(&image).as_deref(), Some("CONFIG_MMU=y\n# CONFIG_X is not set\n"));
        assert_eq!(ikconfig(b"no such thing"), None);
        assert_eq!(ikconfig(&image[..40]), None);
    }
}
