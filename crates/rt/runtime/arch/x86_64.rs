//! x86-64 on Linux: the hooks that instrumented code calls (the fast path is some twenty instructions, and the slow
//! path needs the return address), the exported names of everything else, and thread-local storage.
//!
//! Exported names are weak: a program that brings its own `malloc` or `memcpy` keeps it.

use crate::wire::*;
use core::arch::{asm, global_asm};
use core::mem::offset_of;

// The assembly below relies on these.
const _: () = assert!(offset_of!(Live, entries) == 0 && size_of::<Entry>() == 64 && ENTRIES == 512);
const _: () = assert!(offset_of!(Entry, rmask) == 8 && offset_of!(Entry, wmask) == 16);
const _: () = assert!(offset_of!(Entry, cnt) == 32);
const _: () = assert!(offset_of!(Live, frames) == 40960 && size_of::<Frame>() == 16 && FRAMES == 512);
const _: () = assert!(offset_of!(Live, depth) == 49152 && offset_of!(Live, skip) == 49156);

global_asm!(
    ".section .tdata,\"awT\",@progbits",
    ".p2align 3",
    ".type tussle_tls,@object",
    ".size tussle_tls,8",
    "tussle_tls: .quad tussle_dummy",
    ".type tussle_state,@object",
    ".size tussle_state,8",
    "tussle_state: .quad 0",
    ".hidden tussle_dummy",
    ".hidden tussle_counting",
    ".hidden tussle_slow",
    ".text",
);

// How `tussle record` knows an executable with this runtime inside.
global_asm!(
    ".section .note.tussle,\"a\",@note",
    ".p2align 2",
    ".long 7, 4, 1",
    ".asciz \"tussle\"",
    ".p2align 2",
    ".long 1",
    ".text",
);

// Start and end. The constructor runs before those of the program's own objects in most cases; hooks that run earlier
// find the dummy thread.
global_asm!(
    ".section .init_array.00001,\"aw\",@init_array",
    ".p2align 3",
    ".quad tussle_init",
    ".section .fini_array,\"aw\",@fini_array",
    ".p2align 3",
    ".quad tussle_fini",
    ".text",
    ".hidden tussle_init",
    ".hidden tussle_fini",
);

/// One access hook: find the line in the table, know the bytes, count. `$check` jumps to 2 unless the line is the
/// entry's and all bytes have been seen: it may use ecx (address), rdx, r9, and has the entry in rax, the word in r8.
///
/// `$site` is the same for sites that `tussle cc` rewrote from a call into a jump: the return address is in r11
/// (`tussle_rt::sites`), so that an access costs one store less.
///
/// The first instruction has three bytes and no operand that the linker rewrites: `asleep` puts the return there, or a
/// jump to the end, where accesses are only counted (`paused`).
macro_rules! access {
    ($cnt:literal, $op:literal, [$($check:expr),+], $site:literal, $($name:literal),+) => {
        access!(@hook $cnt, $op, [$($check),+], concat!(".L", $site, "_called"),
            [".cfi_startproc"], ["ret"],
            ["mov rsi, qword ptr [rsp]", concat!("mov edx, ", $op), "jmp tussle_slow"], $($name),+);
        access!(@hook $cnt, $op, [$($check),+], concat!(".L", $site, "_jumped"),
            [".cfi_startproc", ".cfi_def_cfa rsp, 0", ".cfi_register rip, r11"], ["jmp r11"],
            ["mov rsi, r11", concat!("mov edx, ", $op), "jmp tussle_slow_site"], $site);
        // Reached without a procedure linkage table, which would clobber r11.
        global_asm!(concat!(".hidden ", $site));
    };
    (@hook $cnt:literal, $op:literal, [$($check:expr),+], $label:expr, [$($cfi:expr),+], [$back:expr],
     [$($slow:expr),+], $($name:literal),+) => {
        global_asm!(
            $( concat!(".globl ", $name, "\n.type ", $name, ",@function"), )+
            ".p2align 5",
            $( concat!($name, ":"), )+
            concat!($label, ":"),
            $( $cfi, )+
            "mov rdx, rdi",
            "3:",
            "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
            "shr rdx, 9",
            "mov r8d, edi",
            "mov rax, qword ptr fs:[rax]",
            "xor edx, edi",
            // Resolvers of functions run before the loader fills thread-local storage.
            "test rax, rax",
            "jz 2f",
            "shr r8d, 3",
            "and edx, 0x7fc0",
            "and r8d, 7",
            "add rax, rdx",
            $( $check, )+
            concat!("inc word ptr [rax + r8*2 + ", $cnt, "]"),
            "js 2f",
            $back,
            "2:",
            $( $slow, )+
            concat!($label, "_paused:"),
            "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
            "mov rax, qword ptr fs:[rax]",
            "test rax, rax",
            "jz 2b",
            "dec dword ptr [rax + 49156]",
            "js 4f",
            $back,
            "4:",
            "cmp dword ptr [rip + tussle_counting], 0",
            "jne 2b",
            "mov rdx, rdi",
            "jmp 3b",
            ".cfi_endproc",
        );
    };
}

// A site that jumps is no call: the stack is aligned as at a call, and stays so for the slow path.
global_asm!(
    ".type tussle_slow_site,@function",
    "tussle_slow_site:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 0",
    ".cfi_register rip, r11",
    "push r11",
    ".cfi_def_cfa_offset 8",
    ".cfi_offset rip, -8",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    "call tussle_slow",
    "add rsp, 8",
    ".cfi_def_cfa_offset 8",
    "pop r11",
    ".cfi_def_cfa_offset 0",
    ".cfi_register rip, r11",
    "jmp r11",
    ".cfi_endproc",
);

/// Accesses of `$n` bytes anywhere.
macro_rules! anywhere {
    ($n:literal, $full:literal, $mask:literal, $cnt:literal, $op:literal, $site:literal, $($name:literal),+) => {
        access!($cnt, $op, [
            "mov r9, rdi", "sub r9, qword ptr [rax]", concat!("cmp r9, 64 - ", $n), "ja 2f",
            "mov ecx, edi", concat!("mov rdx, qword ptr [rax + ", $mask, "]"), "shr rdx, cl", "not edx",
            concat!("test edx, ", $full), "jne 2f"
        ], $site, $($name),+);
    };
}

/// Eight aligned bytes are one byte of the mask.
macro_rules! word {
    ($mask:literal, $cnt:literal, $op:literal, $site:literal, $($name:literal),+) => {
        access!($cnt, $op, [
            "mov r9, rdi", "and r9, -64", "cmp r9, qword ptr [rax]", "jne 2f",
            concat!("cmp byte ptr [rax + r8 + ", $mask, "], -1"), "jne 2f"
        ], $site, $($name),+);
    };
}

/// One byte is one bit.
macro_rules! byte {
    ($mask:literal, $cnt:literal, $op:literal, $site:literal, $($name:literal),+) => {
        access!($cnt, $op, [
            "mov r9, rdi", "and r9, -64", "cmp r9, qword ptr [rax]", "jne 2f",
            "mov ecx, edi", concat!("mov rdx, qword ptr [rax + ", $mask, "]"), "bt rdx, rcx", "jnc 2f"
        ], $site, $($name),+);
    };
}
byte!(8, 32, "1", "tussle_site_read1", "__tsan_read1");
anywhere!(2, "3", 8, 32, "2", "tussle_site_read2", "__tsan_read2", "__tsan_unaligned_read2");
anywhere!(4, "15", 8, 32, "4", "tussle_site_read4", "__tsan_read4", "__tsan_unaligned_read4");
word!(8, 32, "8", "tussle_site_read8", "__tsan_read8", "__tsan_vptr_read");
anywhere!(8, "255", 8, 32, "8", "tussle_site_unaligned_read8", "__tsan_unaligned_read8");
byte!(16, 48, "1 | 256", "tussle_site_write1", "__tsan_write1");
anywhere!(2, "3", 16, 48, "2 | 256", "tussle_site_write2", "__tsan_write2", "__tsan_unaligned_write2");
anywhere!(4, "15", 16, 48, "4 | 256", "tussle_site_write4", "__tsan_write4", "__tsan_unaligned_write4");
word!(16, 48, "8 | 256", "tussle_site_write8", "__tsan_write8", "__tsan_vptr_update");
anywhere!(8, "255", 16, 48, "8 | 256", "tussle_site_unaligned_write8", "__tsan_unaligned_write8");

/// Exports `$name`, which passes its return address as one more argument in `$reg` to `$target`.
macro_rules! stub {
    ($($name:literal => $target:literal, $reg:literal;)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", $target, "\n.p2align 4"),
            concat!($name, ":"),
            concat!("mov ", $reg, ", qword ptr [rsp]"),
            concat!("jmp ", $target),
        );
    )+ };
}

/// Exports `$name`, which passes its stack pointer (the return address lies there) and its caller's frame pointer as
/// two more arguments in `$sp` and `$bp` to `$target`.
macro_rules! frame_stub {
    ($($name:literal => $target:literal, $sp:literal, $bp:literal;)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", $target, "\n.p2align 4"),
            concat!($name, ":"),
            concat!("mov ", $sp, ", rsp"),
            concat!("mov ", $bp, ", rbp"),
            concat!("jmp ", $target),
        );
    )+ };
}

/// As [`frame_stub`] where six arguments take all registers: both come as one structure, on the stack.
macro_rules! frame_stub_of_six {
    ($($name:literal => $target:literal;)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", $target, "\n.p2align 4"),
            concat!($name, ":"),
            ".cfi_startproc",
            "mov rax, rsp",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            concat!("call ", $target),
            "add rsp, 24",
            ".cfi_adjust_cfa_offset -24",
            "ret",
            ".cfi_endproc",
        );
    )+ };
}

/// Exports `$name` as another name of `$target`.
macro_rules! alias {
    ($($name:literal => $target:literal;)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", $target, "\n.p2align 4"),
            concat!($name, ":"),
            concat!("jmp ", $target),
        );
    )+ };
}

// The shadow call stack. Entries below the stack pointer belong to functions left by longjmp or an exception. Compilers
// that inline after instrumenting (LTO of clang and rustc) leave the hooks of the inlined function in its caller: the
// same stack pointer and return address once more. The upper 16 bits of the return address count these.
global_asm!(
    ".globl __tsan_func_entry",
    ".type __tsan_func_entry,@function",
    ".p2align 5",
    "__tsan_func_entry:",
    ".Ltussle_entry_called:",
    "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
    "mov rax, qword ptr fs:[rax]",
    "test rax, rax",
    "jz 3f",
    "mov ecx, dword ptr [rax + 49152]",
    "test ecx, ecx",
    "jz 3f",
    "2:",
    "mov edx, ecx",
    "and edx, 0x1ff0",
    "cmp rsp, qword ptr [rax + rdx + 40968]",
    "jae 4f",
    "5:",
    "add ecx, 16",
    "mov edx, ecx",
    "and edx, 0x1ff0",
    "mov qword ptr [rax + rdx + 40960], rdi",
    "mov qword ptr [rax + rdx + 40968], rsp",
    "mov dword ptr [rax + 49152], ecx",
    "3:",
    "ret",
    "4:",
    "jne 6f",
    "mov rsi, qword ptr [rax + rdx + 40960]",
    "xor rsi, rdi",
    "shl rsi, 16",
    "jnz 6f",
    "cmp word ptr [rax + rdx + 40966], 255",
    "jae 3b",
    "inc word ptr [rax + rdx + 40966]",
    "ret",
    "6:",
    "sub ecx, 16",
    "cmp ecx, 16",
    "ja 2b",
    "mov ecx, 16",
    "jmp 5b",
    ".globl __tsan_func_exit",
    ".type __tsan_func_exit,@function",
    ".p2align 5",
    "__tsan_func_exit:",
    ".Ltussle_exit_called:",
    "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
    "mov rax, qword ptr fs:[rax]",
    "test rax, rax",
    "jz 3f",
    "mov ecx, dword ptr [rax + 49152]",
    "cmp ecx, 32",
    "jb 3f",
    "mov edx, ecx",
    "and edx, 0x1ff0",
    "cmp word ptr [rax + rdx + 40966], 0",
    "jne 4f",
    "sub ecx, 16",
    "mov dword ptr [rax + 49152], ecx",
    "3:",
    "ret",
    "4:",
    "dec word ptr [rax + rdx + 40966]",
    "ret",
);

/// Names of the hooks whose first bytes change while nothing is recorded, `$how` they are reached.
macro_rules! points {
    ($start:literal, $end:literal: $($name:literal, $how:literal;)+) => {
        global_asm!(
            ".section .rodata.tussle_points,\"a\",@progbits",
            ".p2align 2",
            concat!($start, ":"),
            $( concat!(".long .L", $name, "_", $how, " - ."),
               concat!(".long .L", $name, "_", $how, "_paused - .L", $name, "_", $how), )+
            concat!($end, ":"),
            ".text",
        );
    };
}
points! { "tussle_called", "tussle_called_end":
    "tussle_site_read1", "called"; "tussle_site_read2", "called"; "tussle_site_read4", "called";
    "tussle_site_read8", "called"; "tussle_site_unaligned_read8", "called"; "tussle_site_write1", "called";
    "tussle_site_write2", "called"; "tussle_site_write4", "called"; "tussle_site_write8", "called";
    "tussle_site_unaligned_write8", "called";
}
global_asm!(
    ".section .rodata.tussle_points,\"a\",@progbits",
    ".p2align 2",
    "tussle_frames:",
    ".long .Ltussle_entry_called - ., 0",
    ".long .Ltussle_exit_called - ., 0",
    "tussle_frames_end:",
    ".text",
);
points! { "tussle_jumped", "tussle_jumped_end":
    "tussle_site_read1", "jumped"; "tussle_site_read2", "jumped"; "tussle_site_read4", "jumped";
    "tussle_site_read8", "jumped"; "tussle_site_unaligned_read8", "jumped"; "tussle_site_write1", "jumped";
    "tussle_site_write2", "jumped"; "tussle_site_write4", "jumped"; "tussle_site_write8", "jumped";
    "tussle_site_unaligned_write8", "jumped";
}

/// A hook's first bytes in all forms: `mov rdx, rdi`, a return or a jump back, a jump to its own end. Of function hooks
/// only the first one is known: linkers rewrite the others.
pub struct Point {
    /// Where it begins, on a multiple of eight.
    pub at: *mut u64,
    /// The bytes that change, in the low ones of the word.
    pub mask: u64,
    /// While accesses are recorded.
    pub awake: u64,
    /// While nothing is: it returns at once.
    pub returning: u64,
    /// While accesses are only counted; `None` where it cannot be.
    pub paused: Option<u64>,
}

/// Calls `each` for all access hooks, whose first bytes may change, and with `frames` for those of functions, too.
pub fn points(frames: bool, mut each: impl FnMut(Point)) {
    let mut walk = |from: usize, to: usize, mask: u64, awake: u64, returning: u64| {
        for at in (from..to).step_by(8) {
            // SAFETY: the list has pairs of 32 bits.
            let [distance, paused] = unsafe { (at as *const [i32; 2]).read() };
            // A short jump counts from its own end.
            let jump = u8::try_from(paused - 2).ok().filter(|j| *j < 128);
            let paused = jump.map(|j| 0xfa_00eb | (j as u64) << 8);
            let at = at.wrapping_add_signed(distance as isize) as *mut u64;
            each(Point { at, mask, awake, returning, paused });
        }
    };
    let (called, called_end, jumped, jumped_end): (usize, usize, usize, usize);
    let (functions, functions_end): (usize, usize);
    // SAFETY: addresses of the lists.
    unsafe {
        asm!("lea {0}, [rip + tussle_called]", "lea {1}, [rip + tussle_called_end]",
            "lea {2}, [rip + tussle_jumped]", "lea {3}, [rip + tussle_jumped_end]",
            "lea {4}, [rip + tussle_frames]", "lea {5}, [rip + tussle_frames_end]",
            out(reg) called, out(reg) called_end, out(reg) jumped, out(reg) jumped_end,
            out(reg) functions, out(reg) functions_end,
            options(nomem, nostack, preserves_flags));
    }
    walk(called, called_end, 0xff_ffff, 0xfa_8948, 0xfa_89c3);
    walk(jumped, jumped_end, 0xff_ffff, 0xfa_8948, 0xe3_ff41);
    if frames {
        walk(functions, functions_end, 0xff, 0x48, 0xc3);
    }
}

/// The hooks of one atomic width.
macro_rules! atomic_hooks {
    ($b:literal) => {
        global_asm!(
            ".macro tussle_atomic op, target, reg",
            concat!(".globl __tsan_atomic", $b, "_\\op"),
            concat!(".type __tsan_atomic", $b, "_\\op,@function"),
            concat!(".hidden tussle_a", $b, "_\\target"),
            ".p2align 4",
            concat!("__tsan_atomic", $b, "_\\op:"),
            "mov \\reg, qword ptr [rsp]",
            concat!("jmp tussle_a", $b, "_\\target"),
            ".endm",
            "tussle_atomic load, load, rdx",
            "tussle_atomic store, store, rcx",
            "tussle_atomic exchange, exchange, rcx",
            "tussle_atomic fetch_add, fetch_add, rcx",
            "tussle_atomic fetch_sub, fetch_sub, rcx",
            "tussle_atomic fetch_and, fetch_and, rcx",
            "tussle_atomic fetch_or, fetch_or, rcx",
            "tussle_atomic fetch_xor, fetch_xor, rcx",
            "tussle_atomic fetch_nand, fetch_nand, rcx",
            "tussle_atomic compare_exchange_strong, cas, r9",
            "tussle_atomic compare_exchange_weak, cas, r9",
            "tussle_atomic compare_exchange_val, cas_val, r9",
            ".purgem tussle_atomic",
        );
    };
}
atomic_hooks!("8");
atomic_hooks!("16");
atomic_hooks!("32");
atomic_hooks!("64");

// What the kernel calls for a signal. The handler is jumped to: it sees the kernel's frame, and returns to it.
global_asm!(
    ".hidden tussle_signal",
    ".globl tussle_signal",
    ".hidden tussle_signal_decide",
    ".type tussle_signal,@function",
    ".p2align 4",
    "tussle_signal:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_def_cfa_offset 16",
    "push rsi",
    ".cfi_def_cfa_offset 24",
    "push rdx",
    ".cfi_def_cfa_offset 32",
    "call tussle_signal_decide",
    "pop rdx",
    ".cfi_def_cfa_offset 24",
    "pop rsi",
    ".cfi_def_cfa_offset 16",
    "pop rdi",
    ".cfi_def_cfa_offset 8",
    "test rax, rax",
    "jz 2f",
    "jmp rax",
    "2:",
    "ret",
    ".cfi_endproc",
);

/// Hooks that need do nothing, and those whose meaning is not recorded: these are counted, and the first is named.
macro_rules! nothing {
    ($($name:literal)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n", $name, ": xor eax, eax\nret")
        );
    )+ };
}
macro_rules! unsupported {
    ($($name:literal)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n", $name, ":"),
            "lea rdi, [rip + 9f]",
            "jmp tussle_unsupported",
            concat!("9: .asciz \"", $name, "\""),
        );
    )+ };
}
global_asm!(".hidden tussle_unsupported");
/// The calling thread's state; that of threads that are not recorded as long as the loader has not filled thread-local
/// storage.
#[inline(always)]
pub fn current() -> *mut Live {
    let p: *mut Live;
    // SAFETY: reads or writes the runtime's own thread-local words.
    unsafe {
        asm!("mov {0}, qword ptr [rip + tussle_tls@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) p,
            options(nostack, preserves_flags, readonly));
    }
    if p.is_null() { &raw mut crate::thread::tussle_dummy } else { p }
}

/// Changes [`current`].
pub fn set_current(p: *mut Live) {
    // SAFETY: reads or writes the runtime's own thread-local words.
    unsafe {
        asm!("mov {1}, qword ptr [rip + tussle_tls@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) p,
            out(reg) _, options(nostack, preserves_flags));
    }
}

/// What kind of state [`current`] is, see `thread`.
pub fn state() -> u64 {
    let s: u64;
    // SAFETY: reads or writes the runtime's own thread-local words.
    unsafe {
        asm!("mov {0}, qword ptr [rip + tussle_state@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) s,
            options(nostack, preserves_flags, readonly));
    }
    s
}

/// Changes [`state`].
pub fn set_state(s: u64) {
    // SAFETY: reads or writes the runtime's own thread-local words.
    unsafe {
        asm!("mov {1}, qword ptr [rip + tussle_state@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) s,
            out(reg) _, options(nostack, preserves_flags));
    }
}

/// The thread pointer.
pub fn thread_pointer() -> u64 {
    let tp: u64;
    // SAFETY: reads or writes the runtime's own thread-local words.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

/// Copies `n` bytes upwards, before libc's function is known.
///
/// # Safety
/// As `memcpy`.
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as the ABI says.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// Sets `n` bytes to `byte`, before libc's function is known.
///
/// # Safety
/// As `memset`.
pub unsafe fn fill(to: *mut u8, byte: u8, n: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as the ABI says.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte,
            options(nostack, preserves_flags));
    }
}

// What the compiler calls for copies and zeroes of the recorder's own: `build.rs` puts these in the place of the
// exported names, which would count them as the program's. Weak: a program may be linked with `--wrap` itself.
global_asm!(
    ".weak __wrap_memset\n.hidden __wrap_memset\n.type __wrap_memset,@function\n.p2align 4",
    "__wrap_memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".weak __wrap_memmove\n.hidden __wrap_memmove\n.type __wrap_memmove,@function\n.p2align 4",
    "__wrap_memmove:",
    "mov rax, rdi",
    "sub rax, rsi",
    "cmp rax, rdx",
    "jae __wrap_memcpy",
    "mov rax, rdi",
    "mov rcx, rdx",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".weak __wrap_memcpy\n.hidden __wrap_memcpy\n.type __wrap_memcpy,@function\n.p2align 4",
    "__wrap_memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
);

/// Exports `$name`, which goes on to whatever `$find` returns, with its arguments as they are.
macro_rules! forwarder {
    ($name:literal, $find:ident) => {
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", stringify!($find)),
            concat!(".p2align 4\n", $name, ":"),
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "push rax",
            concat!("call ", stringify!($find)),
            "mov r11, rax",
            "pop rax",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp r11",
        );
    };
}

/// Exports `$name`, whose arguments from the second on are a list that ends with a null pointer, as `$target`, which
/// takes the list's address. The return address makes room: below the arguments on the stack go those in registers.
macro_rules! list_stub {
    ($($name:literal => $target:literal;)+) => { $(
        core::arch::global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", $target, "\n.p2align 4"),
            concat!($name, ":"),
            "mov r11, qword ptr [rsp]",
            "mov qword ptr [rsp], r9",
            "push r8",
            "push rcx",
            "push rdx",
            "push rsi",
            "mov rsi, rsp",
            "push r11",
            concat!("call ", $target),
            "pop r11",
            "add rsp, 32",
            "mov qword ptr [rsp], r11",
            "ret",
        );
    )+ };
}

/// Exports `$name` (`syscall`): numbers that concern the recorder go to `$ours`, all others to the function that
/// `$find` finds, with all registers and the stack as they are.
macro_rules! syscall_stub {
    ($name:literal, $find:ident, $ours:ident) => {
        core::arch::global_asm!(
            concat!(".hidden ", stringify!($ours)),
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n.p2align 4"),
            concat!($name, ":"),
            // read, pread64, readv, recvfrom, recvmsg, prctl, futex, preadv, seccomp, io_uring_setup.
            "test rdi, rdi",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 17",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 19",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 45",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 47",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 202",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 157",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 295",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 317",
            concat!("je ", stringify!($ours)),
            "cmp rdi, 425",
            concat!("je ", stringify!($ours)),
            "jmp tussle_forward_syscall",
        );
        crate::arch::forwarder!("tussle_forward_syscall", $find);
    };
}
pub(crate) use {alias, forwarder, frame_stub, frame_stub_of_six, nothing, stub, unsupported};
pub(crate) use {list_stub, syscall_stub};

/// Addresses of C++'s allocation functions as the program has them, its own, its library's or linked in; 0 where it has
/// none. References that are weak bring nothing into the program.
macro_rules! weak_addresses {
    ($count:literal: $($name:literal)+) => {
        global_asm!($( concat!(".weak ", $name) ),+);
        /// See the names in the source.
        pub fn operators() -> [u64; $count] {
            [$( {
                let p: u64;
                // SAFETY: reads a word of the global offset table.
                unsafe {
                    asm!(concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]"), out(reg) p,
                        options(nostack, preserves_flags, readonly));
                }
                p
            } ),+]
        }
    };
}
weak_addresses! { 8:
    "_Znwm" "_Znam" "_ZnwmRKSt9nothrow_t" "_ZnamRKSt9nothrow_t" "_ZnwmSt11align_val_t" "_ZnamSt11align_val_t"
    "_ZnwmSt11align_val_tRKSt9nothrow_t" "_ZnamSt11align_val_tRKSt9nothrow_t"
}
