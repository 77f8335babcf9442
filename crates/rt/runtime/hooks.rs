//! The hooks that instrumented code calls, in assembly: the fast path is some twenty instructions, and the slow path
//! needs the return address.
//!
//! Exported names are weak: a program that brings its own `malloc` or `memcpy` keeps it.

use crate::wire::*;
use core::arch::global_asm;
use core::mem::offset_of;

// The assembly below relies on these.
const _: () = assert!(offset_of!(Live, entries) == 0 && size_of::<Entry>() == 64 && ENTRIES == 512);
const _: () = assert!(offset_of!(Entry, rmask) == 8 && offset_of!(Entry, wmask) == 16);
const _: () = assert!(offset_of!(Entry, cnt) == 32);
const _: () = assert!(offset_of!(Live, frames) == 40960 && size_of::<Frame>() == 16 && FRAMES == 512);
const _: () = assert!(offset_of!(Live, depth) == 49152);

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
macro_rules! access {
    ($cnt:literal, $op:literal, [$($check:expr),+], $site:literal, $($name:literal),+) => {
        access!(@hook $cnt, $op, [$($check),+], [".cfi_startproc"], ["ret"],
            ["mov rsi, qword ptr [rsp]", concat!("mov edx, ", $op), "jmp tussle_slow"], $($name),+);
        access!(@hook $cnt, $op, [$($check),+],
            [".cfi_startproc", ".cfi_def_cfa rsp, 0", ".cfi_register rip, r11"], ["jmp r11"],
            ["mov rsi, r11", concat!("mov edx, ", $op), "jmp tussle_slow_site"], $site);
        // Reached without a procedure linkage table, which would clobber r11.
        global_asm!(concat!(".hidden ", $site));
    };
    (@hook $cnt:literal, $op:literal, [$($check:expr),+], [$($cfi:expr),+], [$back:expr], [$($slow:expr),+],
     $($name:literal),+) => {
        global_asm!(
            $( concat!(".globl ", $name, "\n.type ", $name, ",@function"), )+
            ".p2align 5",
            $( concat!($name, ":"), )+
            $( $cfi, )+
            "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
            "mov rdx, rdi",
            "shr rdx, 9",
            "mov r8d, edi",
            "mov rax, qword ptr fs:[rax]",
            "xor edx, edi",
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
pub(crate) use {alias, stub};

stub! {
    "__tsan_read16" => "tussle_read16", "rsi";
    "__tsan_write16" => "tussle_write16", "rsi";
    "__tsan_unaligned_read16" => "tussle_read16", "rsi";
    "__tsan_unaligned_write16" => "tussle_write16", "rsi";
    "__tsan_read_range" => "tussle_read_range", "rdx";
    "__tsan_write_range" => "tussle_write_range", "rdx";
    "__tsan_external_read" => "tussle_read1_pc", "rsi";
    "__tsan_external_write" => "tussle_write1_pc", "rsi";
}
alias! {
    "__tsan_read_range_pc" => "tussle_read_range";
    "__tsan_write_range_pc" => "tussle_write_range";
    "__tsan_read1_pc" => "tussle_read1_pc";
    "__tsan_read2_pc" => "tussle_read2_pc";
    "__tsan_read4_pc" => "tussle_read4_pc";
    "__tsan_read8_pc" => "tussle_read8_pc";
    "__tsan_read16_pc" => "tussle_read16";
    "__tsan_write1_pc" => "tussle_write1_pc";
    "__tsan_write2_pc" => "tussle_write2_pc";
    "__tsan_write4_pc" => "tussle_write4_pc";
    "__tsan_write8_pc" => "tussle_write8_pc";
    "__tsan_write16_pc" => "tussle_write16";
}

macro_rules! sized {
    ($($name:ident = $n:literal, $kind:expr;)+) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: u64, pc: u64) {
            if crate::arena::recording() {
                unsafe { crate::record::access(a, $n, $kind, pc) }
            }
        }
    )+ };
}
sized! {
    tussle_read1_pc = 1, READ;
    tussle_read2_pc = 2, READ;
    tussle_read4_pc = 4, READ;
    tussle_read8_pc = 8, READ;
    tussle_read16 = 16, READ;
    tussle_write1_pc = 1, WRITE;
    tussle_write2_pc = 2, WRITE;
    tussle_write4_pc = 4, WRITE;
    tussle_write8_pc = 8, WRITE;
    tussle_write16 = 16, WRITE;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_read_range(a: u64, n: u64, pc: u64) {
    unsafe { crate::record::range(a, n, READ, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_write_range(a: u64, n: u64, pc: u64) {
    unsafe { crate::record::range(a, n, WRITE, pc) }
}

// The shadow call stack. Entries below the stack pointer belong to functions left by longjmp or an exception.
global_asm!(
    ".globl __tsan_func_entry",
    ".type __tsan_func_entry,@function",
    ".p2align 5",
    "__tsan_func_entry:",
    "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
    "mov rax, qword ptr fs:[rax]",
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
    "sub ecx, 16",
    "cmp ecx, 16",
    "ja 2b",
    "mov ecx, 16",
    "jmp 5b",
    ".globl __tsan_func_exit",
    ".type __tsan_func_exit,@function",
    ".p2align 5",
    "__tsan_func_exit:",
    "mov rax, qword ptr [rip + tussle_tls@GOTTPOFF]",
    "mov rax, qword ptr fs:[rax]",
    "mov ecx, dword ptr [rax + 49152]",
    "cmp ecx, 32",
    "jb 3f",
    "sub ecx, 16",
    "mov dword ptr [rax + 49152], ecx",
    "3:",
    "ret",
);

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

alias! {
    "__tsan_atomic128_compare_exchange_strong" => "tussle_a128_cas";
    "__tsan_atomic128_compare_exchange_weak" => "tussle_a128_cas";
    "__tsan_atomic128_compare_exchange_val" => "tussle_a128_cas_val";
    "__tsan_atomic_thread_fence" => "tussle_fence";
}
stub! {
    "__tsan_atomic128_load" => "tussle_a128_load", "rdx";
    "__tsan_atomic128_store" => "tussle_a128_store", "r8";
    "__tsan_atomic128_exchange" => "tussle_a128_exchange", "r8";
    "__tsan_atomic128_fetch_add" => "tussle_a128_fetch_add", "r8";
    "__tsan_atomic128_fetch_sub" => "tussle_a128_fetch_sub", "r8";
    "__tsan_atomic128_fetch_and" => "tussle_a128_fetch_and", "r8";
    "__tsan_atomic128_fetch_or" => "tussle_a128_fetch_or", "r8";
    "__tsan_atomic128_fetch_xor" => "tussle_a128_fetch_xor", "r8";
    "__tsan_atomic128_fetch_nand" => "tussle_a128_fetch_nand", "r8";
}

/// Hooks that need do nothing, and those whose meaning is not recorded: these are counted, and the first is named.
macro_rules! nothing {
    ($($name:literal)+) => { $(
        global_asm!(concat!(".weak ", $name, "\n.type ", $name, ",@function\n", $name, ": xor eax, eax\nret"));
    )+ };
}
macro_rules! unsupported {
    ($($name:literal)+) => { $(
        global_asm!(
            concat!(".weak ", $name, "\n.type ", $name, ",@function\n", $name, ":"),
            "lea rdi, [rip + 9f]",
            "jmp tussle_unsupported",
            concat!("9: .asciz \"", $name, "\""),
        );
    )+ };
}
global_asm!(".hidden tussle_unsupported");
nothing! {
    "__tsan_init" "__tsan_atomic_signal_fence" "__tsan_default_options" "__tsan_default_suppressions"
    "__tsan_flush_memory" "__tsan_on_report" "__tsan_symbolize_external" "__tsan_symbolize_external_ex"
    "__tsan_testonly_shadow_stack_current_size" "__tsan_get_current_report" "__tsan_get_report_data"
    "__tsan_get_report_loc" "__tsan_get_report_loc_object_type" "__tsan_get_report_mop" "__tsan_get_report_mutex"
    "__tsan_get_report_stack" "__tsan_get_report_tag" "__tsan_get_report_thread" "__tsan_get_report_unique_tid"
    "__tsan_get_alloc_stack" "__tsan_locate_address" "__tsan_external_register_tag"
    "__tsan_external_register_header" "__tsan_external_assign_tag" "__tsan_acquire" "__tsan_release"
    "__tsan_mutex_create" "__tsan_mutex_destroy" "__tsan_mutex_pre_lock" "__tsan_mutex_post_lock"
    "__tsan_mutex_pre_unlock" "__tsan_mutex_post_unlock" "__tsan_mutex_pre_signal" "__tsan_mutex_post_signal"
    "__tsan_mutex_pre_divert" "__tsan_mutex_post_divert"
    "__tsan_ignore_thread_begin" "__tsan_ignore_thread_end"
    "AnnotateBenignRace" "AnnotateBenignRaceSized" "AnnotateCondVarSignal" "AnnotateCondVarSignalAll"
    "AnnotateCondVarWait" "AnnotateEnableRaceDetection" "AnnotateExpectRace" "AnnotateFlushExpectedRaces"
    "AnnotateFlushState" "AnnotateHappensAfter" "AnnotateHappensBefore" "AnnotateIgnoreReadsBegin"
    "AnnotateIgnoreReadsEnd" "AnnotateIgnoreSyncBegin" "AnnotateIgnoreSyncEnd" "AnnotateIgnoreWritesBegin"
    "AnnotateIgnoreWritesEnd" "AnnotateMemoryIsInitialized" "AnnotateMemoryIsUninitialized" "AnnotateMutexIsNotPHB"
    "AnnotateMutexIsUsedAsCondVar" "AnnotateNewMemory" "AnnotateNoOp" "AnnotatePCQCreate" "AnnotatePCQDestroy"
    "AnnotatePCQGet" "AnnotatePCQPut" "AnnotatePublishMemoryRange" "AnnotateRWLockAcquired" "AnnotateRWLockCreate"
    "AnnotateRWLockCreateStatic" "AnnotateRWLockDestroy" "AnnotateRWLockReleased" "AnnotateThreadName"
    "AnnotateTraceMemory" "AnnotateUnpublishMemoryRange" "RunningOnValgrind" "ThreadSanitizerQuery"
    "WTFAnnotateBenignRaceSized" "WTFAnnotateHappensAfter" "WTFAnnotateHappensBefore"
    "__sanitizer_print_stack_trace" "__sanitizer_set_death_callback" "__sanitizer_set_report_path"
    "__sanitizer_free_hook" "__sanitizer_malloc_hook" "__sanitizer_sandbox_on_notify" "__lsan_ignore_object"
    "__lsan_disable" "__lsan_enable" "__lsan_do_leak_check" "__lsan_do_recoverable_leak_check"
}
unsupported! {
    "__tsan_create_fiber" "__tsan_destroy_fiber" "__tsan_get_current_fiber" "__tsan_set_fiber_name"
    "__tsan_switch_to_fiber" "__tsan_java_acquire" "__tsan_java_alloc" "__tsan_java_finalize" "__tsan_java_find"
    "__tsan_java_fini" "__tsan_java_free" "__tsan_java_init" "__tsan_java_move" "__tsan_java_mutex_lock"
    "__tsan_java_mutex_lock_rec" "__tsan_java_mutex_read_lock" "__tsan_java_mutex_read_unlock"
    "__tsan_java_mutex_unlock" "__tsan_java_mutex_unlock_rec" "__tsan_java_release" "__tsan_java_release_store"
    "__tsan_testonly_barrier_init" "__tsan_testonly_barrier_wait"
}

/// Counts a call of a hook without meaning here and keeps the first name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_unsupported(name: *const u8) -> u64 {
    let h = crate::arena::header();
    if !h.is_null() {
        crate::arena::lost(LOST_UNSUPPORTED, 1);
        unsafe {
            let to = &raw mut (*h).unsupported[0];
            if *to == 0 {
                let mut k = 0;
                while k < 63 && *name.add(k) != 0 {
                    *to.add(k) = *name.add(k);
                    k += 1;
                }
            }
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_init() {
    unsafe { crate::thread::init() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fini() {
    crate::arena::mark_end(END_EXITED, 0);
}
