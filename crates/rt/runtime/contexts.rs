//! Contexts with stacks of their own (`swapcontext`): each has its own callers. The shadow stack's frames lie in order
//! of addresses, which the next context's stack may be anywhere in.

use crate::arch::{alias, current};
use crate::arena::recording;
use crate::interpose::P;
use crate::libc_calls::{call, next};
use core::ffi::c_int;
use tussle_rt_core::code::Aside;

next! { SWAPCONTEXT = "swapcontext"; }
alias! { "swapcontext" => "tussle_swapcontext"; }

/// Looks up what may be called in handlers.
pub fn resolve() {
    SWAPCONTEXT.find();
}

/// `swapcontext`: returns when another context switches back to this one, perhaps in another thread. What is put aside
/// lies on this context's stack meanwhile.
///
/// # Safety
/// As `swapcontext`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_swapcontext(from: P, to: P) -> c_int {
    // SAFETY: arguments as the caller's; the shadow stack is that of the thread that runs before and after the call.
    unsafe {
        let aside = if recording() { Aside::put(current()) } else { Aside::nothing() };
        let r = call!(SWAPCONTEXT, (from => P, to => P) -> c_int);
        if recording() {
            aside.take_back(current());
        }
        r
    }
}
