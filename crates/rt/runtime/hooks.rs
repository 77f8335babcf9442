//! The hooks that instrumented code calls, but for those in assembly (`arch`).

use crate::arch::{alias, current, nothing, stub, unsupported};
use crate::wire::*;
use crate::{arena, record};
use tussle_rt_core::counting;
use tussle_rt_core::sampling::sampled;

/// Entry from the hooks: `op` is size | kind << 8. The table did not have the line or these bytes, or a counter is
/// full.
///
/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_slow(addr: u64, pc: u64, op: u32) {
    if !arena::recording() {
        return;
    }
    // SAFETY: the addresses are only noted; the state is the calling thread's.
    unsafe {
        if !counting::counting() && (*current()).skip < 0 {
            counting::passed_over(current());
        }
        if !counting::may_count() {
            return;
        }
        if sampled() || !tussle_rt_core::record::refilled(current(), addr, pc, op) {
            record::counted(addr, (op & 0xff) as u64, op >> 8, pc);
        }
    }
}

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
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: u64, pc: u64) {
            if crate::arena::recording() {
                crate::record::access(a, $n, $kind, pc)
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

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_read_range(a: u64, n: u64, pc: u64) {
    crate::record::range(a, n, READ, pc)
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_write_range(a: u64, n: u64, pc: u64) {
    crate::record::range(a, n, WRITE, pc)
}

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
///
/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_unsupported(name: *const u8) -> u64 {
    let h = crate::arena::header();
    if !h.is_null() {
        // Only the first call writes.
        if crate::arena::lost(LOST_UNSUPPORTED, 1) == 0 {
            // SAFETY: the header has room for 64 bytes; `name` is a string of the hook.
            unsafe {
                let to = &raw mut (*h).unsupported[0];
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

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_init() {
    // SAFETY: the addresses are only noted.
    unsafe { crate::thread::init() }
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fini() {
    if let Some(entered) = crate::thread::enter() {
        tussle_rt_core::company::ends_all(&entered);
    }
    crate::arena::mark_end(END_EXITED, 0);
}
