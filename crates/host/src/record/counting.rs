//! When a recorded program's accesses are counted: a word that all its processes look at, and who changes it.

use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The file of a session, see `rt-core/src/counting.rs`.
const FILE: &str = "control";
const BYTES: usize = 4096;
/// Value of the word while nothing is to be counted.
const OFF: u32 = 1;

/// Which part of the run is counted; by default all of it.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// Begins without counting.
    pub stopped: bool,
    /// This signal, sent to tussle, lets counting begin or end.
    pub toggle: Option<i32>,
    /// Begins so long after the start.
    pub after: Option<Duration>,
    /// Ends so long after it began; the program goes on.
    pub lasts: Option<Duration>,
    /// One of so many parts, a sample.
    pub every: Option<u32>,
}

impl Counting {
    fn is_whole(&self) -> bool {
        let Counting { stopped, toggle, after, lasts, every } = self;
        !stopped && toggle.is_none() && after.is_none() && lasts.is_none() && every.is_none()
    }

    /// As options.
    pub(super) fn flags(&self) -> Vec<String> {
        let time = |name: &str, t: Option<Duration>| t.map(|t| format!("{name}={}s", t.as_secs_f64()));
        let name = |n: i32| SIGNALS.iter().find(|s| s.1 == n).map_or_else(|| n.to_string(), |s| s.0.into());
        let all = [
            self.every.map(|n| format!("--sample=1/{n}")),
            self.stopped.then(|| "--stopped".into()),
            self.toggle.map(|n| format!("--toggle={}", name(n))),
            time("--count-after", self.after),
            time("--count-for", self.lasts),
        ];
        all.into_iter().flatten().collect()
    }

    fn begins_off(&self) -> bool {
        self.stopped || self.after.is_some()
    }
}

/// The word, in memory that stays mapped.
#[derive(Clone, Copy)]
struct Word(&'static AtomicU32);

impl Word {
    fn count(self, on: bool) {
        self.0.store(if on { 0 } else { OFF }, Ordering::SeqCst);
    }
}

static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Changes whether is counted if that is what the signal says. Async-signal-safe.
pub(super) fn toggled_by(signal: i32) -> bool {
    // SAFETY: null, or a word that stays mapped.
    let word = unsafe { WORD.load(Ordering::Acquire).as_ref() };
    let ours = SIGNAL.load(Ordering::Relaxed) == signal;
    if let Some(word) = word.filter(|_| ours) {
        word.fetch_xor(OFF, Ordering::SeqCst);
    }
    word.is_some() && ours
}

/// Lets counting begin and end, until it is dropped.
pub(super) struct Control {
    word: Word,
}

impl Control {
    /// Makes the session's file, before the program starts; `None` if all of the run is counted.
    pub fn new(session: &Path, counting: &Counting) -> std::io::Result<Option<Control>> {
        if counting.is_whole() {
            return Ok(None);
        }
        let options = std::fs::File::options().read(true).write(true).create_new(true).clone();
        let file = options.open(session.join(FILE))?;
        file.set_len(BYTES as u64)?;
        // SAFETY: a file in a private folder, which nobody makes shorter.
        let mut map = unsafe { memmap2::MmapMut::map_mut(&file)? };
        let begin = if counting.begins_off() { OFF } else { 0 };
        map[..4].copy_from_slice(&begin.to_ne_bytes());
        map[4..8].copy_from_slice(&counting.every.unwrap_or(0).to_ne_bytes());
        let word: *mut AtomicU32 = Box::leak(Box::new(map)).as_mut_ptr().cast();
        SIGNAL.store(counting.toggle.unwrap_or(0), Ordering::Relaxed);
        WORD.store(word, Ordering::Release);
        // SAFETY: the mapping was leaked just now; others use its first word as an atomic, too.
        Ok(Some(Control { word: Word(unsafe { &*word }) }))
    }

    /// The program has started.
    pub fn begin(&self, counting: &Counting) {
        let (word, counting) = (self.word, counting.clone());
        if counting.after.is_none() && counting.lasts.is_none() {
            return;
        }
        std::thread::spawn(move || {
            std::thread::sleep(counting.after.unwrap_or_default());
            word.count(true);
            if let Some(lasts) = counting.lasts {
                std::thread::sleep(lasts);
                word.count(false);
            }
        });
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        WORD.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Signals that may let counting begin and end: names as `kill -l` has them.
const SIGNALS: [(&str, i32); 5] = [
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("HUP", libc::SIGHUP),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
];

/// The number of a signal by its name, with `SIG` or without.
pub fn signal(name: &str) -> Result<i32, String> {
    let short = name.to_ascii_uppercase();
    let short = short.strip_prefix("SIG").unwrap_or(&short);
    let known = SIGNALS.iter().find(|s| s.0 == short).map(|s| s.1);
    known.ok_or_else(|| format!("`{name}`: one of {}", SIGNALS.map(|s| s.0).join(", ")))
}
