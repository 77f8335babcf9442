//! Loads of 16 bytes that leave memory as it is: constants lie in pages that may not be written.

use crate::arch::{cas128, has_avx, load_whole};
use crate::sys;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether [`load_whole`] is atomic; 0 while unknown, 1 no, 2 yes.
static WHOLE: AtomicU8 = AtomicU8::new(0);

fn whole_is_atomic() -> bool {
    match WHOLE.load(Relaxed) {
        0 => {
            let yes = has_avx();
            WHOLE.store(1 + yes as u8, Relaxed);
            yes
        }
        known => known == 2,
    }
}

/// The value of `a`, which is not written.
///
/// # Safety
/// `a` may be read and is aligned to 16 bytes.
#[inline(always)]
pub unsafe fn load(a: *mut u128) -> u128 {
    // SAFETY: the caller's promise is that of both.
    unsafe { if whole_is_atomic() { load_whole(a) } else { load_without_avx(a) } }
}

/// Without AVX only `cmpxchg16b` is atomic, which a page that may not be written does not survive; there halves do, as
/// nobody stores. Where the page cannot be asked about it is done as libatomic does it.
///
/// # Safety
/// As [`load`].
unsafe fn load_without_avx(a: *mut u128) -> u128 {
    const MADV_POPULATE_WRITE: usize = 23;
    const PAGE: usize = 4096;
    const EPERM: isize = 1;
    const REFUSED: isize = -EPERM;
    // SAFETY: `a` may be read; it is written (what it holds already) only where the kernel says that it may be, or
    // where the program's own load would write it.
    unsafe {
        match sys::call3(sys::SYS_madvise, a as usize & !(PAGE - 1), PAGE, MADV_POPULATE_WRITE) {
            0 | REFUSED => cas128(a, 0, 0),
            _ => load_whole(a),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: u128 = 7 << 64 | 9;

    /// A page with [`VALUE`] at its start.
    fn page(writable: bool) -> *mut u128 {
        const PRIVATE_ANONYMOUS: usize = 0x22;
        const SYS_MPROTECT: usize = 10;
        // SAFETY: a new page, written before it is protected.
        unsafe {
            let at = sys::call(sys::SYS_mmap, 0, 4096, 3, PRIVATE_ANONYMOUS, usize::MAX, 0);
            assert!(at > 0);
            *(at as *mut u128) = VALUE;
            assert!(writable || sys::call3(SYS_MPROTECT, at as usize, 4096, 1) == 0);
            at as *mut u128
        }
    }

    #[test]
    fn constants_are_loaded_either_way() {
        for a in [page(true), page(false)] {
            // SAFETY: both pages may be read.
            unsafe {
                assert_eq!((load_whole(a), load_without_avx(a), load(a)), (VALUE, VALUE, VALUE));
                assert_eq!(*a, VALUE);
            }
        }
    }

    /// Without AVX a load never sees halves of two stores.
    #[test]
    fn loads_without_avx_are_atomic() {
        let a = page(true) as usize;
        // SAFETY: a page that may be written, which the threads use atomically only.
        std::thread::scope(|s| unsafe {
            let writer = s.spawn(move || {
                for i in 0..100_000u128 {
                    let at = a as *mut u128;
                    let mut old = cas128(at, 0, 0);
                    loop {
                        match cas128(at, old, i << 64 | i) {
                            seen if seen == old => break,
                            seen => old = seen,
                        }
                    }
                }
            });
            while !writer.is_finished() {
                let v = load_without_avx(a as *mut u128);
                assert!(v == VALUE || v >> 64 == v & u128::from(u64::MAX), "{v:x}");
            }
        });
    }
}
