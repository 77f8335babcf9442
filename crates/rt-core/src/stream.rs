//! The bytes of a record's earlier runs: the first ones lie in its second part, the others in a list of blocks.

use crate::arena::{at, reference};
use crate::wire::*;
use core::ptr::null_mut;

/// A place in them.
pub struct Stream {
    m: *mut More,
    /// The next byte, and how many there are up to the end of its block.
    p: *mut u8,
    left: usize,
    /// Reference of that block; 0 in the second part itself.
    block: u32,
    bytes: u32,
}

impl Stream {
    /// Before the first byte.
    ///
    /// # Safety
    /// `m` belongs to a record of the calling thread, which is inside the recorder.
    pub unsafe fn at_start(m: *mut More) -> Stream {
        // SAFETY: the caller's promise.
        let p = unsafe { (&raw mut (*m).first).cast() };
        Stream { m, p, left: PIECE_BYTES_FIRST, block: 0, bytes: 0 }
    }

    /// Behind the last byte, which is in the block `last`.
    ///
    /// # Safety
    /// As [`Stream::at_start`].
    pub unsafe fn at_end(m: *mut More, last: u32) -> Stream {
        // SAFETY: the caller's promise; the last block is one of the record's.
        unsafe {
            let bytes = (*m).bytes as usize;
            if bytes <= PIECE_BYTES_FIRST {
                let s = Stream::at_start(m);
                return Stream { p: s.p.add(bytes), left: s.left - bytes, bytes: (*m).bytes, ..s };
            }
            let within = (bytes - PIECE_BYTES_FIRST) % PIECE_BYTES;
            let (block, bytes) = (last, (*m).bytes);
            if within == 0 {
                return Stream { m, p: null_mut(), left: 0, block, bytes };
            }
            let p = (&raw mut (*at::<PieceBlock>(block)).bytes).cast::<u8>().add(within);
            Stream { m, p, left: PIECE_BYTES - within, block, bytes }
        }
    }

    /// The block of the byte before.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// How many bytes lie before.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Where the reference of the block after this one is.
    ///
    /// # Safety
    /// As [`Stream::at_start`].
    unsafe fn link(&self) -> *mut u32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.block {
                0 => &raw mut (*self.m).next,
                block => &raw mut (*at::<PieceBlock>(block)).next,
            }
        }
    }

    /// Goes on to the next block; false without one.
    ///
    /// # Safety
    /// As [`Stream::at_start`].
    unsafe fn follow(&mut self) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let block = *self.link();
            if block != 0 {
                self.block = block;
                self.p = (&raw mut (*at::<PieceBlock>(block)).bytes).cast();
                self.left = PIECE_BYTES;
            }
            block != 0
        }
    }

    /// The next byte, and goes on.
    ///
    /// # Safety
    /// As [`Stream::at_start`], still.
    pub unsafe fn get(&mut self) -> Option<u8> {
        // SAFETY: the caller's promise; there is a byte left.
        unsafe {
            if self.left == 0 && !self.follow() {
                return None;
            }
            let b = *self.p;
            self.step();
            Some(b)
        }
    }

    /// Writes a byte where there is one, and goes on.
    ///
    /// # Safety
    /// As [`Stream::at_start`], still.
    pub unsafe fn put_over(&mut self, b: u8) {
        // SAFETY: the caller's promise; there is a byte left.
        unsafe {
            if self.left != 0 || self.follow() {
                *self.p = b;
                self.step();
            }
        }
    }

    /// Writes a byte, into a new block if need be, and goes on; false without memory.
    ///
    /// # Safety
    /// As [`Stream::at_start`], still; `t` is the calling thread's.
    pub unsafe fn put(&mut self, t: *mut Live, b: u8) -> bool {
        // SAFETY: the caller's promise; blocks are new and the record's own.
        unsafe {
            if self.left == 0 && *self.link() == 0 {
                let block = crate::mem::take(t, size_of::<PieceBlock>() as u64);
                if block == 0 {
                    return false;
                }
                *self.link() = reference(block);
            }
            self.put_over(b);
            true
        }
    }

    /// # Safety
    /// There is a byte left.
    unsafe fn step(&mut self) {
        // SAFETY: the caller's promise.
        self.p = unsafe { self.p.add(1) };
        self.left -= 1;
        self.bytes += 1;
    }
}
