//! Which instrumented code asked for memory: between it and malloc lie `operator new`, containers inside of shared
//! libraries, `strdup`. The shadow stack says where the innermost instrumented function's frame lies; the frames
//! between are walked with their modules' unwind tables. What the tables say of an address is kept.

use crate::unwind::Rule;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Frames walked at most, and the bytes of stack that they may take.
const FRAMES_MAX: usize = 24;
const STACK_BYTES_MAX: u64 = 256 << 10;

/// Where a function was called from: its stack pointer (the return address lies there) and its caller's rbp.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Call {
    /// Stack pointer at the function's first instruction.
    pub sp: u64,
    /// rbp there.
    pub bp: u64,
}

/// A code address, and which allocation function of [`crate::wire::ALLOCATORS`] lies between it and malloc; 0 if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Return address of the call.
    pub pc: u64,
    /// Position in the list of allocators, for the outermost that was passed.
    pub allocator: u16,
}

/// What is known of the function at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its frame; `None` if its module does not say.
    pub rule: Option<Rule>,
    /// Position in the list of allocators if it is one of them, else 0.
    pub allocator: u16,
}

/// The instrumented code behind `call`. `frame` is the stack pointer that the innermost instrumented function had when
/// it began, `u64::MAX` if there is none; `look` reads what is known of an address in a function.
///
/// # Safety
/// `call.sp` is the stack pointer of a function that runs, called from what `look` speaks of.
pub unsafe fn asker(call: Call, frame: u64, look: impl Fn(u64) -> Known) -> Asker {
    // SAFETY: the return address lies at the stack pointer.
    let first = unsafe { *(call.sp as *const u64) };
    let direct = Asker { pc: first, allocator: 0 };
    let (mut sp, mut bp) = (call.sp + 8, call.bp);
    let end = frame.wrapping_add(8);
    if end < sp || end - sp > STACK_BYTES_MAX {
        return direct;
    }
    let mut at = direct;
    for _ in 0..FRAMES_MAX {
        let known = cached(at.pc, &look);
        let Some(rule) = known.rule else { return direct };
        let next = if rule.from_rbp { bp } else { sp }.wrapping_add(rule.cfa_bytes as u64);
        if next > end {
            return at;
        }
        if next <= sp || next % 8 != 0 {
            return direct;
        }
        // SAFETY: between the stack pointer and the frame of a function that has not returned.
        unsafe {
            if let Some(saved) = rule.saved_rbp_bytes {
                let place = next.wrapping_add(saved as u64);
                if place < sp || place >= next || place % 8 != 0 {
                    return direct;
                }
                bp = *(place as *const u64);
            }
            at.pc = *((next - 8) as *const u64);
        }
        if known.allocator != 0 {
            at.allocator = known.allocator;
        }
        sp = next;
    }
    direct
}

/// Addresses kept.
const CACHE: usize = 1024;
/// Each has the packed answer, and the answer mixed with the address: two threads that write at once leave a pair that
/// fits no address.
static PACKED: [AtomicU64; CACHE] = [const { AtomicU64::new(0) }; CACHE];
static MIXED: [AtomicU64; CACHE] = [const { AtomicU64::new(0) }; CACHE];

fn cached(pc: u64, look: impl Fn(u64) -> Known) -> Known {
    let i = (pc ^ pc >> 10) as usize % CACHE;
    let packed = PACKED[i].load(Relaxed);
    if packed != 0 && MIXED[i].load(Relaxed) ^ packed == pc {
        return unpack(packed);
    }
    // The return address may lie behind the function's end.
    let known = look(pc - 1);
    let Some(packed) = pack(known) else { return known };
    PACKED[i].store(packed, Relaxed);
    MIXED[i].store(packed ^ pc, Relaxed);
    known
}

/// Bit 63: there is something; 62: a rule; 61: from rbp; 60: rbp is saved; 8 bits for the allocator; 24 bits each for
/// the two distances. Without the function's start, which nobody asks for again.
fn pack(k: Known) -> Option<u64> {
    const LIMIT: i64 = 1 << 23;
    let mut v = 1 << 63 | u64::from(k.allocator & 0xff) << 48;
    if let Some(r) = k.rule {
        let saved = r.saved_rbp_bytes.unwrap_or(0);
        if r.cfa_bytes.abs() >= LIMIT || saved.abs() >= LIMIT {
            return None;
        }
        v |= 1 << 62 | u64::from(r.from_rbp) << 61 | u64::from(r.saved_rbp_bytes.is_some()) << 60;
        v |= (r.cfa_bytes as u64 & 0xff_ffff) << 24 | saved as u64 & 0xff_ffff;
    }
    Some(v)
}

fn unpack(v: u64) -> Known {
    let signed = |v: u64| ((v << 40) as i64) >> 40;
    let rule = (v >> 62 & 1 == 1).then(|| Rule {
        from_rbp: v >> 61 & 1 == 1,
        cfa_bytes: signed(v >> 24),
        saved_rbp_bytes: (v >> 60 & 1 == 1).then(|| signed(v)),
        start: 0,
    });
    Known { rule, allocator: (v >> 48 & 0xff) as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(from_rbp: bool, cfa_bytes: i64, saved_rbp_bytes: Option<i64>) -> Known {
        Known { rule: Some(Rule { from_rbp, cfa_bytes, saved_rbp_bytes, start: 0 }), allocator: 0 }
    }

    #[test]
    fn what_is_kept_comes_back() {
        for k in [
            rule(false, 8, None),
            rule(true, 16, Some(-16)),
            rule(false, 4096, Some(-56)),
            Known { rule: None, allocator: 0 },
            Known { allocator: 13, ..rule(false, 32, Some(-24)) },
        ] {
            assert_eq!(pack(k).map(unpack), Some(k));
        }
        assert_eq!(pack(rule(false, 1 << 30, None)), None);
    }

    /// A stack made by hand: malloc, called by an operator (with rbp saved), called by a library's container that uses
    /// rbp, called by instrumented code.
    #[test]
    fn frames_are_walked_to_instrumented_code() {
        let mut stack = [0u64; 32];
        let stack = core::hint::black_box(&mut stack);
        let base = stack.as_ptr() as u64;
        let place = |i: usize| base + i as u64 * 8;
        stack[0] = 0x7_1001;
        // The operator's frame: a word, rbp, the return address.
        (stack[2], stack[3]) = (place(8), 0x7_2001);
        // The container's frame ends at rbp + 16.
        (stack[8], stack[9]) = (0x99, 0x7_3001);
        let look = |pc| match pc {
            0x7_1000 => Known { allocator: 9, ..rule(false, 24, Some(-16)) },
            0x7_2000 => rule(true, 16, Some(-16)),
            0x7_3000 => rule(false, 80, None),
            _ => Known { rule: None, allocator: 0 },
        };
        let call = Call { sp: place(0), bp: 0x55 };
        // SAFETY: all frames lie in `stack`.
        let found = |frame| unsafe { asker(call, frame, look) };
        assert_eq!(found(place(14)), Asker { pc: 0x7_3001, allocator: 9 });
        // No instrumented function below, or on another stack: what called malloc.
        assert_eq!(found(u64::MAX), Asker { pc: 0x7_1001, allocator: 0 });
        assert_eq!(found(place(0) - 4096), Asker { pc: 0x7_1001, allocator: 0 });
    }
}
