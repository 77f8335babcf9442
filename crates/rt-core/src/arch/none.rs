//! Stand-ins where nothing can be recorded: the crate compiles, every system call fails.

/// `ENOSYS`.
///
/// # Safety
/// None needed: nothing is called.
pub unsafe fn call(_n: usize, _args: [usize; 6]) -> isize {
    -38
}

/// Stops.
pub fn die() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Nothing.
#[inline(always)]
pub fn prefetch_to_write(_p: *const u8) {}

/// Not told.
#[inline(always)]
pub fn processor() -> u32 {
    0
}

/// Nothing.
#[inline(always)]
pub fn reach_down_the_stack() {}
