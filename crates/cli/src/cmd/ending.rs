//! A signal that asks us to end while we watch: what was seen until then is kept. A second one ends us at once.

use std::sync::atomic::{AtomicBool, Ordering};

static END: AtomicBool = AtomicBool::new(false);

extern "C" fn end(signal: libc::c_int) {
    END.store(true, Ordering::Relaxed);
    // SAFETY: async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// From now on SIGTERM, SIGHUP and SIGINT are only noted; what is ignored stays so.
pub fn heed() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let handler = end as extern "C" fn(libc::c_int);
        // SAFETY: the handler stores to an atomic and calls what may be called there.
        unsafe {
            if libc::signal(signal, handler as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Somebody wants us to end.
pub fn asked() -> bool {
    END.load(Ordering::Relaxed)
}
