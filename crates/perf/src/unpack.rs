//! The zstd stream of compressed records.
//!
//! perf flushes one frame after each ring buffer and never ends it, so a frame is unpacked block by block (RFC 8878,
//! section 3.1.1), and at the end of the file an empty last block is added to get at the decoder's window.

use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use std::io::Read;

/// Bytes handed on at once.
const CHUNK: usize = 256 << 10;

/// More than this, and than [`RATIO_MAX`] times the packed bytes, is taken for an attack.
const UNPACKED_MIN: u64 = 1 << 30;
const RATIO_MAX: u64 = 256;

/// Longest frame header, and the header of a block.
const FRAME_HEADER_MAX: usize = 18;
const BLOCK_HEADER: usize = 3;

/// Bytes of a frame's checksum.
const CHECKSUM: usize = 4;

/// Receives unpacked bytes; false: no more are wanted.
pub(crate) type OnBytes<'f> = &'f mut dyn FnMut(&[u8]) -> bool;

/// State between compressed records.
pub(crate) struct Unpacker {
    decoder: FrameDecoder,
    /// Inside of a frame.
    open: bool,
    /// Bytes to pass over before the next frame.
    skip: usize,
    carry: Vec<u8>,
    packed: u64,
    unpacked: u64,
    chunk: Vec<u8>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Unpacker {
            decoder: FrameDecoder::new(),
            open: false,
            skip: 0,
            carry: Vec::new(),
            packed: 0,
            unpacked: 0,
            chunk: Vec::new(),
        }
    }
}

impl Unpacker {
    /// Adds packed bytes and hands on what they unpack to.
    pub fn push(&mut self, packed: &[u8], f: OnBytes<'_>) -> Result<(), String> {
        self.packed += packed.len() as u64;
        self.carry.extend_from_slice(packed);
        let mut at = 0;
        while let Some(n) = self.step(at, f)? {
            at += n;
        }
        self.carry.drain(..at.min(self.carry.len()));
        Ok(())
    }

    /// Hands on what the decoder still keeps as its window.
    pub fn finish(&mut self, f: OnBytes<'_>) -> Result<(), String> {
        let cut = self.carry.len();
        if self.open {
            // Last block, stored, empty.
            self.block(&[1, 0, 0], f)?;
            self.open = false;
        }
        if cut > 0 { Err(format!("the last {cut} bytes are cut off")) } else { Ok(()) }
    }

    /// One frame header, block or checksum at `at`; `None` when more bytes are needed.
    fn step(&mut self, at: usize, f: OnBytes<'_>) -> Result<Option<usize>, String> {
        let rest = self.carry.get(at..).unwrap_or_default();
        if !self.open {
            return self.header(at);
        }
        let Some(&[a, b, c]) = rest.first_chunk::<BLOCK_HEADER>() else { return Ok(None) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (last, kind, size) = (header & 1 != 0, (header >> 1) & 3, (header >> 3) as usize);
        // A block of one repeated byte has just that byte.
        let size = BLOCK_HEADER + if kind == 1 { 1 } else { size };
        let Some(block) = rest.get(..size) else { return Ok(None) };
        let block = block.to_vec();
        self.block(&block, f)?;
        if last {
            self.open = false;
            self.skip = if self.decoder.is_finished() { 0 } else { CHECKSUM };
        }
        Ok(Some(size))
    }

    fn header(&mut self, at: usize) -> Result<Option<usize>, String> {
        let rest = self.carry.get(at..).unwrap_or_default();
        if self.skip > 0 || rest.is_empty() {
            let passed = self.skip.min(rest.len());
            self.skip -= passed;
            return Ok(Some(passed).filter(|n| *n > 0));
        }
        let mut input = rest;
        match self.decoder.reset(&mut input) {
            Ok(()) => {
                self.open = true;
                Ok(Some(rest.len() - input.len()))
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                self.skip = usize::try_from(length).unwrap_or(usize::MAX);
                Ok(Some(8))
            }
            Err(_) if rest.len() < FRAME_HEADER_MAX => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Decodes one block and empties the decoder, so that it keeps one window at most.
    fn block(&mut self, block: &[u8], f: OnBytes<'_>) -> Result<(), String> {
        self.decoder.decode_from_to(block, &mut []).map_err(|e| e.to_string())?;
        self.chunk.resize(CHUNK, 0);
        loop {
            let n = self.decoder.read(&mut self.chunk).map_err(|e| e.to_string())?;
            self.unpacked += n as u64;
            if self.unpacked > UNPACKED_MIN.max(self.packed.saturating_mul(RATIO_MAX)) {
                return Err(format!("{} bytes unpack to more than {}", self.packed, self.unpacked));
            }
            if n == 0 || !f(&self.chunk[..n]) {
                return Ok(());
            }
        }
    }
}
