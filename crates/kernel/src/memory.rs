//! Guest memory read by virtual address: a walk through the kernel's own page tables.

/// Linux's fixed mapping of the kernel image on x86-64 (`__START_KERNEL_map`).
const IMAGE_MAP: u64 = 0xffff_ffff_8000_0000;

/// A page-table entry is valid.
const PRESENT: u64 = 1;
/// An entry maps a large page.
const LARGE: u64 = 1 << 7;
/// Physical address in an entry.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// Memory of a stopped x86-64 guest. Physical addresses are offsets into it: guests have no hole in their memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'m> {
    ram: &'m [u8],
    /// Physical address of the top page table.
    root: u64,
}

impl<'m> Memory<'m> {
    /// `top_page_table` is the link address of `init_top_pgt`; the kernel was not moved (`nokaslr`).
    pub fn new(ram: &'m [u8], top_page_table: u64) -> Memory<'m> {
        Memory { ram, root: top_page_table.wrapping_sub(IMAGE_MAP) }
    }

    /// Physical address behind a virtual one; `None` where nothing is mapped.
    pub fn translate(&self, address: u64) -> Option<u64> {
        let mut table = self.root;
        for shift in [39u32, 30, 21, 12] {
            let index = address >> shift & 511;
            let entry = self.physical_u64(table.checked_add(index * 8)?)?;
            if entry & PRESENT == 0 {
                return None;
            }
            let inside = (1u64 << shift) - 1;
            if shift == 12 || (shift < 39 && entry & LARGE != 0) {
                return Some(entry & FRAME & !inside | address & inside);
            }
            table = entry & FRAME;
        }
        None
    }

    fn physical_u64(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        Some(u64::from_le_bytes(self.ram.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }

    /// Bytes within one page.
    fn piece(&self, address: u64, size: usize) -> Option<&'m [u8]> {
        let at = usize::try_from(self.translate(address)?).ok()?;
        self.ram.get(at..at.checked_add(size)?)
    }

    /// `N` bytes, across a page boundary too.
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let first = (4096 - (address % 4096) as usize).min(N);
        let mut out = [0; N];
        out[..first].copy_from_slice(self.piece(address, first)?);
        if first < N {
            out[first..].copy_from_slice(self.piece(address.checked_add(first as u64)?, N - first)?);
        }
        Some(out)
    }

    /// A 64-bit word.
    pub fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// A 32-bit word.
    pub fn u32(&self, address: u64) -> Option<u32> {
        self.bytes(address).map(u32::from_le_bytes)
    }

    /// An unsigned number of 1 to 8 bytes.
    pub fn number(&self, address: u64, size: u64) -> Option<u64> {
        Some(match size {
            1 => u64::from(self.bytes::<1>(address)?[0]),
            2 => u64::from(u16::from_le_bytes(self.bytes(address)?)),
            4 => u64::from(self.u32(address)?),
            8 => self.u64(address)?,
            _ => return None,
        })
    }

    /// A text that ends with a zero byte, at most `max` bytes.
    pub fn text(&self, address: u64, max: u64) -> Option<String> {
        let mut out = Vec::new();
        for i in 0..max {
            match self.bytes::<1>(address.checked_add(i)?)?[0] {
                0 => break,
                b => out.push(b),
            }
        }
        Some(String::from_utf8_lossy(&out).into_owned())
    }

    /// Bytes of memory.
    pub fn size(&self) -> u64 {
        self.ram.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page tables at 0x1000.. that map one page at `va` to physical 0x5000, and a large page beside it.
    fn guest(va: u64) -> Vec<u8> {
        let mut ram = vec![0u8; 8 << 20];
        let mut set = |at: u64, v: u64| ram[at as usize..at as usize + 8].copy_from_slice(&v.to_le_bytes());
        set(0x1000 + (va >> 39 & 511) * 8, 0x2003);
        set(0x2000 + (va >> 30 & 511) * 8, 0x3003);
        set(0x3000 + (va >> 21 & 511) * 8, 0x4003);
        set(0x3000 + ((va >> 21 & 511) + 1) * 8, 0x20_0083);
        set(0x4000 + (va >> 12 & 511) * 8, 0x8000_0000_0000_5003);
        set(0x5ff8, 0x1122_3344_5566_7788);
        set(0x20_0008, 42);
        ram
    }

    #[test]
    fn small_and_large_pages() {
        let va = 0xffff_8880_0000_0000;
        let ram = guest(va);
        let memory = Memory::new(&ram, IMAGE_MAP + 0x1000);
        assert_eq!(memory.translate(va + 0x123), Some(0x5123));
        assert_eq!(memory.u64(va + 0xff8), Some(0x1122_3344_5566_7788));
        assert_eq!(memory.u64(va + (2 << 20) + 8), Some(42));
        assert_eq!(memory.u64(va + 0xffc), None, "the next page is not mapped");
        assert_eq!(memory.translate(0), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(ram: Vec<u8>, root: u64, at: u64) {
            let memory = Memory::new(&ram, root);
            let _ = (memory.u64(at), memory.text(at, 16), memory.number(at, 4));
        }
    }
}
