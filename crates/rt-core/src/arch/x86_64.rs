//! x86-64 on Linux.

use core::arch::asm;

/// A raw system call; the result is negative on errors.
///
/// # Safety
/// As the system call: pointers among the arguments must be valid for what the kernel does with them.
#[inline(always)]
pub unsafe fn call(n: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let r: isize;
    // SAFETY: the kernel's calling convention: rcx and r11 are clobbered, the stack is not used.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => r, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    r
}

/// Stops the process with SIGILL.
pub fn die() -> ! {
    // SAFETY: raises a fault, does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// Has the line at `p` at hand for writing. Any address will do.
#[inline(always)]
pub fn prefetch_to_write(p: *const u8) {
    // SAFETY: a prefetch does not fault, whatever the address.
    unsafe { asm!("prefetchw byte ptr [{0}]", in(reg) p, options(nostack, preserves_flags)) };
}

/// Reads a byte of the stack as far below as the recorder ever uses it (some 700 bytes, the deepest is a new place in
/// code that has the memory map read). Where the stack ends before, the program's handler of the fault runs here.
#[inline(always)]
pub fn reach_down_the_stack() {
    // SAFETY: reads; a fault is what a call of the same depth would raise.
    unsafe { asm!("cmp byte ptr [rsp - 1024], 0", options(nostack, readonly)) };
}
