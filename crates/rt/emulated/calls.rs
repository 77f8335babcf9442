//! The shadow stack: who called whom.

use crate::cpu::live;
use crate::functions;
use tussle_rt_core::wire::*;

/// Bytes of a frame: depths count in these.
pub const STEP: u32 = size_of::<Frame>() as u32;
/// Frames that a return may drop: exceptions and longjmp leave frames behind.
const DROPPED_MAX: u32 = 32;

/// # Safety
/// `t` is the calling thread's state.
unsafe fn frame(t: *mut Live, depth: u32) -> *mut Frame {
    // SAFETY: the index is masked.
    unsafe { (&raw mut (*t).frames[0]).add((depth / STEP) as usize & (FRAMES - 1)) }
}

/// Return address of the innermost call; 0 if there is none.
///
/// # Safety
/// `t` is the calling thread's state.
pub unsafe fn caller(t: *mut Live) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { if (*t).depth <= STEP { 0 } else { (*frame(t, (*t).depth)).pc } }
}

/// The `k`th return address from within; 0 beyond the last.
///
/// # Safety
/// `t` is the calling thread's state.
pub unsafe fn caller_at(t: *mut Live, k: u32) -> u64 {
    // SAFETY: the caller's promise; frames beyond the ring's size are others.
    unsafe {
        let below = k.saturating_mul(STEP);
        if k >= FRAMES as u32 || (*t).depth <= STEP + below { 0 } else { (*frame(t, (*t).depth - below)).pc }
    }
}

/// QEMU's callback for accesses of a call: `sp` is where the return address was written, 0 if the machine keeps it in a
/// register; or the call reads from there where it leads.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_call(cpu: u32, info: u32, sp: u64, ret: u64) {
    const STORES: u32 = 1 << 17;
    // SAFETY: the state is the calling thread's; one that is not recorded has no depth.
    unsafe {
        if info & STORES == 0 && sp != 0 {
            return crate::memory::tussle_emulated_memory(cpu, info, sp, ret);
        }
        let t = live(cpu);
        if (*t).depth == 0 {
            return;
        }
        // Frames at or below are left over.
        while sp != 0 && (*t).depth > STEP && (*frame(t, (*t).depth)).sp <= sp {
            (*t).depth -= STEP;
        }
        (*t).depth += STEP;
        let f = frame(t, (*t).depth);
        (*f).pc = ret;
        (*f).sp = sp;
    }
}

/// The same where the return address stays in a register.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_linked(cpu: u32, ret: u64) {
    // SAFETY: the caller's promise.
    unsafe { tussle_emulated_call(cpu, 0, 0, ret) }
}

/// Code behind a call instruction begins to run: that call may have returned. True if the result of a function is
/// wanted ([`functions::tussle_emulated_result`]).
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_landed(cpu: u32, pc: u64) -> bool {
    // SAFETY: the state is the calling thread's.
    unsafe {
        let t = live(cpu);
        let top = (*t).depth;
        let last = STEP.max(top.saturating_sub(DROPPED_MAX * STEP));
        let mut depth = top;
        while depth > last {
            if (*frame(t, depth)).pc == pc {
                (*t).depth = depth - STEP;
                return functions::returned_to(cpu, depth);
            }
            depth -= STEP;
        }
        false
    }
}

/// Other frames follow that do not belong to these: the stack is another one.
pub fn forget(cpu: u32) {
    // SAFETY: the state is the calling thread's; one that is not recorded has no depth.
    unsafe {
        let t = live(cpu);
        (*t).depth = (*t).depth.min(STEP);
    }
}
