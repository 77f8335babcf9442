//! The emulator's stream, and the lives of slots that are read from it.

use tussle_kernel::lives::Lives;
use tussle_kernel::stream::decode;

pub fn read(bytes: &[u8]) {
    let Ok((stream, _)) = decode(bytes) else { return };
    let lives = Lives::read(&stream);
    for a in stream.accesses.iter().take(64) {
        let _ = (stream.pc(a.instruction), a.transfers(), lives.get(a.born), lives.first_end(a.address));
    }
}
