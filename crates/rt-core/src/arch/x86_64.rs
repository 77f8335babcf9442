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

/// The number of the processor that the thread runs on now, from 1; 0 if it is not told. The kernel keeps it as the
/// limit of a segment for its own `getcpu` (`vdso_read_cpunode`): the low 12 bits. Does not fault, unlike `rdtscp`,
/// which a process may forbid itself.
#[inline(always)]
pub fn processor() -> u32 {
    const CPU_AND_NODE: u32 = 15 * 8 + 3;
    let (limit, told): (u32, u8);
    // SAFETY: reads a segment's limit; where there is no such segment, `told` is 0.
    unsafe {
        asm!("xor {0:e}, {0:e}", "lsl {0:e}, {1:e}", "setz {2}", out(reg) limit, in(reg) CPU_AND_NODE,
            out(reg_byte) told, options(nostack, nomem));
    }
    if told == 0 { 0 } else { (limit & 0xfff) + 1 }
}

/// Reads a byte of the stack as far below as the recorder ever uses it (some 700 bytes, the deepest is a new place in
/// code that has the memory map read). Where the stack ends before, the program's handler of the fault runs here.
#[inline(always)]
pub fn reach_down_the_stack() {
    // SAFETY: reads; a fault is what a call of the same depth would raise.
    unsafe { asm!("cmp byte ptr [rsp - 1024], 0", options(nostack, readonly)) };
}

/// `cmpxchg16b`: the old value; the exchange happened if it equals `old`. `a` must be 16-byte aligned and writable:
/// the instruction writes even where it does not exchange.
///
/// The compiler keeps rbx for itself, so the low half of `new` is exchanged into it; every other operand has a register
/// of its own by name, because one that the compiler chose could be rbx.
///
/// # Safety
/// As the text says.
pub unsafe fn cas128(a: *mut u128, old: u128, new: u128) -> u128 {
    let (mut lo, mut hi) = (old as u64, (old >> 64) as u64);
    // SAFETY: the caller's promise; rbx has its value again behind the instruction.
    unsafe {
        asm!("xchg rsi, rbx", "lock cmpxchg16b xmmword ptr [rdi]", "mov rbx, rsi", in("rdi") a,
            inout("rsi") new as u64 => _, in("rcx") (new >> 64) as u64, inout("rax") lo, inout("rdx") hi,
            options(nostack));
    }
    (hi as u128) << 64 | lo as u128
}

/// One 16-byte load; `a` must be 16-byte aligned and readable. Atomic on every processor with AVX (Intel SDM
/// volume 3A, 9.1.1; AMD APM volume 2, 7.3.2).
///
/// # Safety
/// As the text says.
pub unsafe fn load_whole(a: *const u128) -> u128 {
    let (lo, hi): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("movdqa {x}, xmmword ptr [{a}]", "movq {lo}, {x}", "psrldq {x}, 8", "movq {hi}, {x}", a = in(reg) a,
            x = out(xmm_reg) _, lo = out(reg) lo, hi = lateout(reg) hi, options(nostack, readonly, preserves_flags));
    }
    (hi as u128) << 64 | lo as u128
}

/// Whether the processor has AVX.
pub fn has_avx() -> bool {
    const AVX: u32 = 1 << 28;
    core::arch::x86_64::__cpuid(1).ecx & AVX != 0
}
