//! Calls that take a while: on a thread of their own, without the GIL, while this one looks after Ctrl-C.

use crate::Error;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often signals are looked after.
const TURN: Duration = Duration::from_millis(50);
/// Stack of the thread: as much as a main thread usually has, and more.
const STACK_BYTES: usize = 32 << 20;

/// Runs `work` without the GIL. After Ctrl-C its result is not waited for: it ends by itself and is dropped.
pub(crate) fn long<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (to, from) = channel();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(move || to.send(work())).map_err(|e| Error::new_err(e.to_string()))?;
    let from = std::sync::Mutex::new(from);
    loop {
        let turn =
            || from.lock().map(|f| f.recv_timeout(TURN)).unwrap_or(Err(RecvTimeoutError::Disconnected));
        match py.detach(turn) {
            Ok(done) => return done.map_err(error),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new_err("a fault in tussle: the work panicked"));
            }
        }
    }
}

/// With the text that the command line prints.
pub(crate) fn error(e: anyhow::Error) -> PyErr {
    Error::new_err(tussle_calls::in_full(&e))
}

/// What the command line says on its error stream beside an answer.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}
