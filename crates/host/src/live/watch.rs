//! Words of contended lines under debug registers, one thread at a time, at random moments.

use super::breakpoint::{self, Armed, watching, watching_kernel};
use super::cost::Cost;
use super::event::{self, TIMES, now_ns};
use super::load;
use std::collections::{HashMap, HashSet};
use std::io;
use tussle_evidence::TouchKind;
use tussle_live::confirm::{WATCHED_MAX, Waits, Watch};
use tussle_live::decode::{self, Event as Record};
use tussle_live::lines::{LINE_BYTES, LineId};
use tussle_live::session::{Session, Target};
use tussle_perf::Attr;

/// Lines that are watched in turns: those with most samples.
const LINES_MAX: usize = 8;

/// Lines on which no store was seen that are watched beside them.
const SUSPECTS_MAX: usize = 4;

/// Threads of a line that are watched: those with most samples.
const THREADS_MAX: usize = 6;

/// How long words stay armed at most, drawn anew each time: short for what is hot, long for what is rare.
const WINDOWS_NS: [u64; 3] = [500_000, 2_000_000, 8_000_000];

/// A small generator of random numbers (SplitMix64): moments and choices are to be independent of the program's own
/// rhythm, nothing more.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

/// What arming has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub armings: u64,
    pub hits: u64,
    /// Times that the thread came to run while words were armed, times the words.
    pub switches: u64,
}

impl Spent {
    /// Nanoseconds of the watched threads' time.
    pub fn ns(&self, cost: &Cost) -> u64 {
        let switches_ns = self.switches * cost.armed_switch_ns / WATCHED_MAX as u64;
        self.hits * cost.trap_ns + self.armings * cost.arming_ns + switches_ns
    }
}

/// Arms words.
pub(super) struct Watcher {
    pub random: Random,
    pub spent: Spent,
    /// Why there are no debug registers.
    pub refused: Option<io::Error>,
    unwatchable: HashSet<LineId>,
    turn: usize,
    begin_ns: u64,
}

/// Words of one thread that are armed together.
struct Group {
    line: LineId,
    thread: u32,
    waits: Waits,
    /// Address of the line's first byte in the thread's process.
    address: u64,
    words: Vec<u8>,
}

impl Watcher {
    pub fn new(seed: u64, begin_ns: u64) -> Watcher {
        Watcher {
            random: Random(seed),
            spent: Spent::default(),
            refused: None,
            unwatchable: HashSet::new(),
            turn: 0,
            begin_ns,
        }
    }

    /// One arming of some words of one thread; returns without one when there is nothing to watch.
    pub fn once(&mut self, session: &mut Session, target: &mut dyn Target) {
        let Some(group) = self.choose(session) else { return };
        let window = WINDOWS_NS[self.random.below(WINDOWS_NS.len() as u64) as usize];
        let armed = match arm(&group, session) {
            Ok(armed) => armed,
            // The thread has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {
                session.threads[group.thread as usize].ended = true;
                return;
            }
            // The kernel does not let its own entry code's memory be watched.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && session.kernel.is_some() => {
                self.unwatchable.insert(group.line);
                return;
            }
            Err(e) => {
                self.refused = Some(e);
                return;
            }
        };
        let armed_ns = now_ns();
        self.spent.armings += armed.events.len() as u64;
        let came_to_run = || switches(session, group.thread);
        let before = came_to_run();
        std::thread::sleep(std::time::Duration::from_nanos(window));
        let switches = came_to_run().saturating_sub(before);
        let times: Vec<(u64, u64)> = armed.events.iter().map(|e| e.count().unwrap_or_default()).collect();
        let mut bytes = Vec::new();
        armed.ring.drain(&mut bytes);
        let span = (armed_ns - self.begin_ns, now_ns() - self.begin_ns);
        self.spent.switches += switches * armed.events.len() as u64;
        drop(armed.events);
        let hits = self.hits(session, target, &group, &bytes);
        for (word, (count, ran_ns)) in group.words.iter().zip(times) {
            let watch = Watch { line: group.line, word: *word, thread: group.thread, waits: group.waits };
            let tally = session.confirmed.tallies.entry(watch).or_default();
            tally.address = group.address + 8 * u64::from(*word);
            let hit = hits.get(word);
            // Up to the trap, not what the trap itself took.
            let until_hit = hit.and_then(|h| h.ran_ns).filter(|ns| *ns <= ran_ns);
            tally.add(span, until_hit.unwrap_or(ran_ns), count > 0);
            if let Some(code) = hit.and_then(|h| h.code) {
                *tally.codes.entry((code, hit.and_then(|h| h.kind))).or_default() += 1;
            }
        }
    }

    fn choose(&mut self, session: &Session) -> Option<Group> {
        let watchable = session.lines.ranked().filter(|l| !self.unwatchable.contains(&l.0));
        let mut lines: Vec<_> = watchable.take(LINES_MAX).collect();
        lines.extend(session.lines.suspects().into_iter().take(SUSPECTS_MAX));
        self.turn += 1;
        let (line, seen) = lines.get(self.turn % lines.len().max(1))?;
        let alive = |t: &&(u32, u64)| session.threads.get(t.0 as usize).is_some_and(|t| !t.ended);
        let threads = seen.threads();
        let threads: Vec<u32> = threads.iter().filter(alive).take(THREADS_MAX).map(|t| t.0).collect();
        let thread = *threads.get(self.random.below(threads.len() as u64) as usize)?;
        let mut words = seen.words();
        while words.len() > WATCHED_MAX {
            let out = self.random.below(words.len() as u64) as usize;
            words.swap_remove(out);
        }
        let waits = if self.random.below(2) == 0 { Waits::Stores } else { Waits::Any };
        let address = home(session, *line, thread)?;
        Some(Group { line: *line, thread, waits, address, words })
    }

    /// The code of the first hit of each word.
    fn hits(&mut self, session: &mut Session, target: &mut dyn Target, group: &Group, bytes: &[u8]) -> Hits {
        let asked = if session.kernel.is_some() { watching_kernel(0, true) } else { watching(0, true) };
        let layout = Attr {
            sample_type: asked.sample_type,
            sample_regs_user: asked.sample_regs_user,
            sample_regs_intr: asked.sample_regs_intr,
            read_format: TIMES,
            ..Attr::default()
        };
        let mut hits = Hits::new();
        for record in decode::events(bytes, &layout) {
            let Record::Sample(s) = record else { continue };
            let Some(address) = s.addr else { continue };
            self.spent.hits += 1;
            let word = (address.wrapping_sub(group.address) / 8) as u8;
            hits.entry(word).or_insert_with(|| {
                let (code, kind) = session.hit(&s, address, target);
                Hit { code, kind, ran_ns: s.running_ns }
            });
        }
        hits
    }
}

/// Times that a thread came to run so far; CPUs do not.
fn switches(session: &Session, thread: u32) -> u64 {
    let Some(t) = session.threads.get(thread as usize).filter(|_| session.kernel.is_none()) else { return 0 };
    let pid = session.processes.get(t.process as usize).map(|p| p.pid);
    pid.and_then(|pid| load::of_thread(pid, t.tid)).map_or(0, |(_, times)| times)
}

/// By word.
type Hits = HashMap<u8, Hit>;

/// The first hit of a word.
struct Hit {
    /// Number of the code.
    code: Option<u32>,
    /// What it does there.
    kind: Option<TouchKind>,
    /// Time that the thread ran while the word was armed, up to the trap.
    ran_ns: Option<u64>,
}

/// Where a line begins in the process of a thread, from what that thread did there.
fn home(session: &Session, line: LineId, thread: u32) -> Option<u64> {
    let row = session.lines.get(line)?.rows.iter().find(|r| r.thread == thread)?;
    let start = row.address.wrapping_sub(u64::from(row.offset));
    start.is_multiple_of(LINE_BYTES).then_some(start)
}

fn arm(group: &Group, session: &Session) -> io::Result<Armed> {
    let tid = session.threads[group.thread as usize].tid;
    // Of the kernel, threads are CPUs.
    let (attr, thread, cpu): (fn(u64, bool) -> event::Attr, _, _) = match session.kernel {
        Some(_) => (watching_kernel, event::ANY_THREAD, tid as i32),
        None => (watching, tid, -1),
    };
    let word = |w: &u8| attr(group.address + 8 * u64::from(*w), group.waits == Waits::Any);
    breakpoint::arm(group.words.iter().map(word), thread, cpu)
}
