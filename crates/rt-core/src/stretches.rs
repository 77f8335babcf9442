// Which parts of virtual time a sample is made of. Included by runtime and reader.

use super::wire::WINDOW_VT;

/// Length of the stretches of which a sample is made, virtual time.
pub const STRETCH_VT: u64 = 4 * WINDOW_VT;

/// Length of the parts of a run of which each has one stretch, where one of `every` is counted.
pub const fn period_vt(every: u32) -> u64 {
    STRETCH_VT * every as u64
}

/// Where the stretch of the n-th part begins: at one of its windows, drawn by its number.
pub const fn stretch_vt(n: u64, every: u32) -> u64 {
    let x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let places = (period_vt(every) - STRETCH_VT) / WINDOW_VT + 1;
    n.wrapping_mul(period_vt(every)).wrapping_add(WINDOW_VT * ((x ^ x >> 32) % places))
}
