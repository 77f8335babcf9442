//! How far a hunt came: what a terminal shows meanwhile, and what somebody is told who ends it.

use crate::global::Global;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tussle_render::shell;

/// A terminal's line of progress is drawn so often, and is no longer than that without its times.
const EVERY: Duration = Duration::from_secs(1);
const LINE_MAX: usize = 48;

/// What takes time. Of one that was there before it is known how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A build with instrumentation.
    Build,
    /// The instrumented program runs: the terminal is its own.
    Record,
    /// What it did is given names.
    Name,
    /// A patch is made, and its offsets held against those of a build.
    Patch,
    /// A build as users make it.
    Plain,
    /// What a prediction needs is measured.
    Predict,
    /// Pairs of runs, which say themselves how many are left.
    Measure,
}

/// Shared with the thread that is woken when somebody ends the hunt.
#[derive(Clone)]
pub struct Course(Arc<Mutex<State>>);

struct State {
    begun: Instant,
    now: Option<(Phase, String, Instant)>,
    took: HashMap<Phase, Duration>,
    evidence: Option<PathBuf>,
    /// Where the patch goes, and what it is so far.
    patch: (PathBuf, Option<(usize, String)>),
    /// The command, as it was typed.
    command: String,
}

impl Course {
    /// Nothing has happened yet.
    pub fn new(patch: &Path) -> Course {
        let words: Vec<String> =
            std::env::args_os().skip(1).map(|w| shell::word(&w.to_string_lossy())).collect();
        let command = format!("tussle {}", words.join(" "));
        let patch = (patch.to_path_buf(), None);
        let (now, took, evidence) = (None, HashMap::new(), None);
        Course(Arc::new(Mutex::new(State { begun: Instant::now(), now, took, evidence, patch, command })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next phase; how long it will take, if one like it was there before.
    pub fn begin(&self, phase: Phase, what: &str) -> Option<Duration> {
        let mut state = self.state();
        state.end_phase();
        state.now = Some((phase, what.to_string(), Instant::now()));
        state.took.get(&phase).copied()
    }

    /// Nothing runs any more.
    pub fn end(&self) {
        self.state().end_phase();
    }

    /// What was recorded first lies there.
    pub fn keeps_evidence(&self, path: &Path) {
        self.state().evidence = Some(path.to_path_buf());
    }

    /// So many patches were recorded again, and this is all of them.
    pub fn keeps_patches(&self, n: usize, diff: String) {
        self.state().patch.1 = Some((n, diff));
    }

    /// Somebody who ends the hunt is told what there is.
    pub fn heed(&self) -> std::io::Result<()> {
        let course = self.clone();
        tussle_host::interrupted::heed(move |signal| {
            course.state().last_words(signal).iter().for_each(|line| crate::global::say(line));
        })
    }

    /// Draws the phase on a terminal, over and over, as long as what is returned is kept.
    pub fn show<'a>(&self, global: &'a Global) -> Ticking<'a> {
        let (kept, gone) = std::sync::mpsc::channel::<()>();
        let (course, draws) = (self.clone(), global.progress());
        let thread = draws.then(|| {
            std::thread::spawn(move || {
                while gone.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    if let Some(line) = course.state().line() {
                        crate::global::draw(&line);
                    }
                }
            })
        });
        Ticking { kept: Some(kept), thread, global }
    }
}

impl State {
    fn end_phase(&mut self) {
        if let Some((phase, _, since)) = self.now.take() {
            self.took.insert(phase, since.elapsed());
        }
    }

    /// For the terminal, which a program that is recorded has for itself.
    fn line(&self) -> Option<String> {
        let (phase, what, since) = self.now.as_ref()?;
        let drawn = !matches!(phase, Phase::Record | Phase::Measure) && since.elapsed() >= EVERY;
        let left = self.took.get(phase).and_then(|t| t.checked_sub(since.elapsed()));
        let left =
            left.map_or_else(String::new, |left| format!(", about {:.0} s left", left.as_secs_f64().ceil()));
        let what: String = what.chars().take(LINE_MAX).collect();
        drawn.then(|| format!("tussle: {what}: {:.0} s{left}", since.elapsed().as_secs_f64()))
    }

    fn last_words(&mut self, signal: &str) -> Vec<String> {
        let while_ = self.now.as_ref().map_or_else(String::new, |(_, what, since)| {
            format!(", {:.0} s into this step: {what}", since.elapsed().as_secs_f64())
        });
        let mut out =
            vec![format!("ended by {signal} after {:.0} s{while_}", self.begun.elapsed().as_secs_f64())];
        match &self.evidence {
            Some(path) => {
                let name = shell::file(&path.to_string_lossy());
                out.push(format!("kept: {name}, what the unpatched program did; next: tussle report {name}"));
            }
            None => out.push("kept: nothing, the program was not recorded to its end".into()),
        }
        if let (path, Some((n, diff))) = &self.patch {
            let file = shell::file(&path.to_string_lossy());
            let patches = if *n == 1 { "1 patch" } else { &format!("{n} patches") };
            out.push(match std::fs::write(path, diff) {
                Ok(()) => format!(
                    "kept: {file}, {patches} with checked offsets, recorded again, not measured; in the program's \
                     folder: patch -p1 <{file}"
                ),
                Err(e) => format!("{patches} could not be kept in {file}: {e}"),
            });
        }
        out.push(format!("the sources are as they were; from the beginning: {}", self.command));
        out
    }
}

/// A line of progress that goes when this does.
pub struct Ticking<'a> {
    kept: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    global: &'a Global,
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        drop(self.kept.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            self.global.erase();
        }
    }
}
