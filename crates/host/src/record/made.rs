//! Names of code that was made while the program ran, as JIT compilers leave them: `/tmp/perf-PID.map`, and dumps that
//! the process mapped (`jit-PID.dump`).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;
use tussle_evidence::{Evidence, Frame};
use tussle_live::jit::Names;

const BYTES_MAX: u64 = 1 << 28;

/// Names rows of code of processes that recorded since `began`. Memory behind a mapped file counts as that file's: what
/// its maker says of code there is nearer.
pub(super) fn name(evidence: &mut Evidence, began: Option<SystemTime>) {
    for process in 0..evidence.processes.len() {
        let names = names_of(evidence, process, began);
        for c in evidence.code.iter_mut().filter(|c| c.process as usize == process) {
            if let Some(f) = names.find(c.address) {
                c.module = None;
                c.frames = vec![Frame { function: f.name.clone(), file: String::new(), line: 0, column: 0 }];
            }
        }
    }
}

fn names_of(evidence: &Evidence, process: usize, began: Option<SystemTime>) -> Names {
    let pid = evidence.processes[process].pid;
    let map = read(Path::new(&format!("/tmp/perf-{pid}.map")), began).unwrap_or_default();
    let mut names = Names::read(&String::from_utf8_lossy(&map));
    let dump = format!("jit-{pid}.dump");
    let of_process = evidence.modules.iter().filter(|m| m.process as usize == process);
    for m in of_process.filter(|m| Path::new(&m.path).file_name().is_some_and(|n| n == &*dump)) {
        names.add_dump(&read(Path::new(&m.path), began).unwrap_or_default());
    }
    names
}

/// A file of this user's that was written since the recording began: numbers of processes come again.
fn read(path: &Path, began: Option<SystemTime>) -> Option<Vec<u8>> {
    let about = std::fs::symlink_metadata(path).ok()?;
    // SAFETY: asks the kernel for a number.
    let own = about.uid() == unsafe { libc::geteuid() };
    let earlier = began.is_some_and(|b| about.modified().is_ok_and(|m| m < b));
    if !about.is_file() || !own || earlier || about.len() > BYTES_MAX {
        return None;
    }
    std::fs::read(path).ok()
}
