//! Which accesses happened under which lock, estimated from the critical sections that were traced.
//!
//! Traced sections of a thread and lock all stand for equally many. In one that was cut short, what was seen stands
//! for all of it, in proportion to its length.

use crate::lines::{self, AccessRun};
use crate::mutexes::Mutexes;
use crate::raw::TracedLock;
use crate::wire::*;
use crate::words::{Counts, Kinds, Span, Words};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// From this share of a thread's accesses to some bytes on, all of them count as under the lock: sections that are not
/// traced differ from those that are.
pub(crate) const ALL_SHARE_MIN: f64 = 0.8;

/// A lock that covers so much of what threads did to a line explains it.
const COVER_MIN: f64 = 0.95;

/// A lock that was recognised late must have been one for this share of the accesses at least.
const LATE_MIN: f64 = 0.5;

/// A sample of sections may miss this many of its standard errors: readers and writers of one lock, say, are one
/// sample, of which few are writers.
const SAMPLE_ERRORS_MAX: f64 = 3.0;

/// Accesses that are over before a line gets from one core to another: that takes 50 to 100 ns (two threads that hand
/// one to and fro on Intel's and AMD's servers), and a core that has its lines makes one access per nanosecond or more.
/// Less than that, as what comes later may be hit.
const TRANSFER: u64 = 32;

/// Bytes before and behind a line that are its surroundings, and lines of them in which a thread must have been traced
/// under a lock before that says something of those in which it was not.
const AROUND: u64 = 2048;
const AROUND_LINES_MIN: f64 = 4.0;

/// Traced lines of objects that one place allocates, before these say something of the others.
const SITE_LINES_MIN: usize = 16;

/// What was done under which lock to the objects that one place allocates, and by which threads.
struct Site {
    lock: u64,
    what: Use,
    threads: HashSet<usize>,
}

/// What a thread did to bytes of a line under one lock. Estimates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    pub accesses: f64,
    /// Variance of `accesses`: each section was sampled or not.
    pub variance: f64,
    /// Sections that visited the bytes.
    pub sections: f64,
    /// Those of them that stored to them.
    pub storing: f64,
}

/// Of a byte, by lock: of each thread.
type Byte = BTreeMap<u64, BTreeMap<usize, Use>>;
/// By line, and byte in it.
type Places = HashMap<u64, BTreeMap<u64, Byte>>;

/// All of it.
#[derive(Default)]
pub(crate) struct HeldLocks {
    places: Places,
    /// Clock of the first section of each lock that was traced.
    first: HashMap<u64, u64>,
    /// By thread and byte: the clock of the last window of accesses under no lock in which it was visited.
    outside: BTreeMap<(usize, u64), u64>,
    /// What was stored by those who held a lock together with others, and the places that allocated such.
    together: BTreeSet<u64>,
    together_sites: HashSet<u32>,
    /// By thread: locks of which sections were cut short.
    cut: HashMap<usize, Vec<Cut>>,
    mutexes: Mutexes,
    /// By thread and line: what it did there under which lock.
    lines: BTreeMap<(usize, u64), BTreeMap<u64, Use>>,
    /// What one place allocates, if one lock orders it.
    sites: HashMap<u32, Site>,
}

/// What was not seen of a lock's sections.
struct Cut {
    lock: u64,
    /// Accesses.
    unseen: f64,
    /// Sections that were cut.
    sections: f64,
}

/// A lock's share of a thread's accesses to some bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Address of the lock.
    pub lock: u64,
    /// Of the accesses; 1 is all.
    pub share: f64,
    /// Sections, and those that store, per access under the lock.
    pub sections: f64,
    pub storing: f64,
}

fn address(v: &Visit) -> u64 {
    v.what & 0xffff_ffff_ffff
}

impl HeldLocks {
    /// `locks` with the position of the thread that held them, `windows` of accesses under no lock; `kept` says which
    /// lines matter.
    pub fn new<'a>(
        locks: impl Iterator<Item = &'a (usize, TracedLock)>,
        windows: impl Iterator<Item = &'a (usize, TracedLock)>,
        kept: impl Fn(u64) -> bool,
    ) -> HeldLocks {
        let mut out = HeldLocks::default();
        for (thread, l) in windows {
            for (section, visits) in &l.sections {
                visits.iter().filter(|v| kept(address(v) & !(LINE - 1))).for_each(|v| {
                    let last = out.outside.entry((*thread, address(v))).or_insert(0);
                    *last = section.vt0.max(*last);
                });
            }
        }
        for (thread, l) in locks {
            if l.lock.by_word != 0 {
                out.mutexes.is_word(l.lock.addr);
            }
            let weight = l.lock.count as f64 / l.sections.len().max(1) as f64;
            let first = l.sections.iter().map(|s| s.0.vt0).min().unwrap_or(0);
            out.mutexes.add(*thread, l.lock.addr, l.lock.count as f64 * with_its_word(l), first);
            out.cuts(*thread, l, weight);
            for (section, visits) in &l.sections {
                let first = out.first.entry(l.lock.addr).or_insert(section.vt0);
                *first = section.vt0.min(*first);
                out.section((*thread, l.lock.addr), section, visits, weight, &kept);
            }
        }
        out.sum_lines();
        out
    }

    fn sum_lines(&mut self) {
        for (line, bytes) in &self.places {
            for (lock, threads) in bytes.values().flatten() {
                for (thread, u) in threads {
                    let sum = self.lines.entry((*thread, *line)).or_default().entry(*lock).or_default();
                    sum.accesses += u.accesses;
                    sum.sections += u.sections;
                }
            }
        }
    }

    /// Which lock orders what each place allocates: a tree has more nodes than sections are traced. `site` says which
    /// place allocated what lies at an address.
    pub fn know_sites(&mut self, mut site: impl FnMut(u64) -> Option<u32>) {
        // Lines, threads, and what they did under each lock.
        type Seen = (HashSet<u64>, HashSet<usize>, BTreeMap<u64, Use>);
        let mut seen: HashMap<u32, Seen> = HashMap::new();
        // In order: sums of what is no whole number depend on it.
        let places: BTreeMap<_, _> = self.places.iter().collect();
        for (line, bytes) in places {
            for (byte, locks) in bytes {
                let Some(site) = site(line + byte) else { continue };
                let (lines, threads, sums) = seen.entry(site).or_default();
                lines.insert(*line);
                for (lock, of_lock) in locks {
                    threads.extend(of_lock.keys());
                    let sum = sums.entry(*lock).or_default();
                    sum.accesses += of_lock.values().map(|u| u.accesses).sum::<f64>();
                    sum.sections += of_lock.values().map(|u| u.sections).sum::<f64>();
                }
            }
        }
        self.together_sites = self.together.iter().filter_map(|addr| site(*addr)).collect();
        seen.retain(|site, _| !self.together_sites.contains(site));
        // What others do without the lock stays outside: that they do says nothing of those who take it.
        for (thread, addr) in self.outside.keys() {
            let taken = |s: &u32| seen.get(s).is_some_and(|(_, threads, _)| threads.contains(thread));
            if let Some(site) = site(*addr).filter(taken) {
                seen.remove(&site);
            }
        }
        let one = |(site, (lines, threads, sums)): (u32, Seen)| {
            let all: f64 = sums.values().map(|u| u.accesses).sum();
            let (lock, what) = sums.into_iter().max_by(|a, b| a.1.accesses.total_cmp(&b.1.accesses))?;
            let known = lines.len() >= SITE_LINES_MIN && what.accesses >= COVER_MIN * all;
            known.then_some((site, Site { lock, what, threads }))
        };
        self.sites = seen.into_iter().filter_map(one).collect();
    }

    /// Readers of a lock, who hold it together, store to a line, or to others that the same place allocated: neither
    /// that lock orders what they do there, nor who gives it back to whom.
    pub fn readers_store(&self, (line, site): (u64, Option<u32>)) -> bool {
        let here = self.together.range(line..line.saturating_add(LINE)).next().is_some();
        here || site.is_some_and(|s| self.together_sites.contains(&s))
    }

    /// All that a thread did to a line of an object, if one lock orders what the same place allocates, none of its
    /// holders was met there outside of it, and readers store nothing there.
    fn as_its_kind(&self, site: Option<u32>, range: Span, u: &lines::Use) -> Option<Share> {
        let site = self.sites.get(&site?).filter(|s| s.threads.contains(&u.thread))?;
        whole(site.lock, &site.what, range, &u.runs)
    }

    /// The lock under which a thread did all that was traced of it in the lines around this one. A table of many
    /// elements has more of them than sections are traced; whatever the thread does to its neighbours under the lock
    /// and never outside, it does to this one, too.
    fn as_around(&self, line: u64, range: (u64, u64), thread: usize, runs: &[AccessRun]) -> Option<Share> {
        let (from, to) = (line.saturating_sub(AROUND), line.saturating_add(AROUND));
        if self.outside.range((thread, from)..(thread, to)).next().is_some() {
            return None;
        }
        let mut sums: BTreeMap<u64, (f64, Use)> = BTreeMap::new();
        for (lock, u) in self.lines.range((thread, from)..(thread, to)).flat_map(|of_line| of_line.1) {
            let sum = sums.entry(*lock).or_default();
            sum.0 += 1.0;
            sum.1.accesses += u.accesses;
            sum.1.sections += u.sections;
        }
        let all: f64 = sums.values().map(|s| s.1.accesses).sum();
        let (lock, (lines, u)) = sums.into_iter().max_by(|a, b| a.1.1.accesses.total_cmp(&b.1.1.accesses))?;
        if lines < AROUND_LINES_MIN || u.accesses < ALL_SHARE_MIN * all {
            return None;
        }
        whole(lock, &u, range, runs)
    }

    fn cuts(&mut self, thread: usize, l: &TracedLock, weight: f64) {
        let cut = || l.sections.iter().filter(|s| s.0.cut != 0 && s.0.shared == 0);
        let unseen = |(section, visits): &(Section, Vec<Visit>)| {
            section.vt1.saturating_sub(section.vt0).saturating_sub(seen(visits)) as f64
        };
        let unseen = cut().map(unseen).sum::<f64>() * weight;
        if unseen > 0.0 {
            let of_thread = self.cut.entry(thread).or_default();
            of_thread.push(Cut { lock: l.lock.addr, unseen, sections: cut().count() as f64 * weight });
        }
    }

    /// The lock whose sections were cut before they came to these bytes: a thread touches them, is not met there under
    /// no lock, and no section was seen to.
    fn behind_a_cut(&self, line: u64, range: (u64, u64), thread: usize, all: f64) -> Option<Share> {
        let fits = |c: &&Cut| c.unseen >= ALL_SHARE_MIN * all;
        let cut = self.cut.get(&thread)?.iter().filter(fits).max_by(|a, b| a.unseen.total_cmp(&b.unseen))?;
        let sections = (cut.sections / all.max(1.0)).min(1.0);
        (all > 0.0 && !self.is_seen_outside(thread, line, range, 0)).then_some(Share {
            lock: cut.lock,
            share: 1.0,
            sections,
            storing: sections,
        })
    }

    fn section(
        &mut self,
        (thread, outermost): (usize, u64),
        section: &Section,
        visits: &[Visit],
        weight: f64,
        kept: &impl Fn(u64) -> bool,
    ) {
        let longer = longer(section, visits);
        let mut sums: BTreeMap<(u64, u64), f64> = BTreeMap::new();
        let mut inner: Vec<(u64, bool)> = Vec::new();
        let mut seen: HashSet<(u64, u64, bool)> = HashSet::new();
        // Readers hold a lock together: it keeps nobody from what they store.
        let stored: HashSet<u64> =
            visits.iter().filter(|v| [WRITE, RMW].contains(&((v.what >> 56) as u32))).map(address).collect();
        let mut so_far = 0_u64;
        for (k, v) in visits.iter().enumerate() {
            let (addr, kind) = (address(v), (v.what >> 56) as u32);
            so_far = so_far.saturating_add(v.gap).saturating_add(1);
            match kind {
                TAKEN | TAKEN_SHARED => {
                    inner.push((addr, kind == TAKEN_SHARED));
                    let taken = if kind == TAKEN { longer * weight } else { 0.0 };
                    self.mutexes.add(thread, addr, taken, section.vt0);
                }
                RELEASED => inner.retain(|l| l.0 != addr),
                _ if kept(addr & !(LINE - 1)) => {
                    // What follows a visit without being one of its own repeats it.
                    let repeats = visits.get(k + 1).map_or(0, |next| next.gap);
                    let all = inner.iter().copied().chain([(outermost, section.shared != 0)]);
                    if kind != READ && all.clone().any(|(_, shared)| shared) {
                        self.together.insert(addr);
                    }
                    for (lock, shared) in all.filter(|(_, shared)| !shared || !stored.contains(&addr)) {
                        let n = match shared && lock & !(LINE - 1) == addr & !(LINE - 1) {
                            true => beside_its_word(so_far, repeats),
                            false => (1 + repeats) as f64 * longer,
                        } * weight;
                        let first = seen.insert((lock, addr, false));
                        let stores = kind != READ && seen.insert((lock, addr, true));
                        let u = self.place(addr).entry(lock).or_default().entry(thread).or_default();
                        u.accesses += n;
                        *sums.entry((lock, addr)).or_default() += n;
                        u.sections += if first { weight } else { 0.0 };
                        u.storing += if stores { weight } else { 0.0 };
                    }
                }
                _ => {}
            }
        }
        for ((lock, addr), n) in sums {
            self.place(addr).entry(lock).or_default().entry(thread).or_default().variance += n * n;
        }
    }

    fn place(&mut self, addr: u64) -> &mut Byte {
        self.places.entry(addr & !(LINE - 1)).or_default().entry(addr & (LINE - 1)).or_default()
    }

    /// Whether a thread was seen at bytes `[lo, hi)` of a line under no lock, from a moment on.
    fn is_seen_outside(&self, thread: usize, line: u64, (lo, hi): (u64, u64), from: u64) -> bool {
        self.outside.range((thread, line + lo)..(thread, line + hi)).any(|(_, last)| *last >= from)
    }

    /// [`HeldLocks::of`] of all accesses in `runs` that a range stands for, among them those to a mutex's own words.
    /// `site` is the place that allocated what lies there.
    pub fn of_runs(
        &self,
        (line, site): (u64, Option<u32>),
        range: Span,
        words: &Words,
        u: &lines::Use,
    ) -> Option<Share> {
        let by_kind = self.as_its_kind(site, range, u);
        if by_kind.is_some() {
            return by_kind;
        }
        let kinds = words.kinds(range);
        let visits = self.of(line, range, u.thread, |from| accesses_of(&u.runs, (range, kinds), from));
        let own = self.mutexes.share(line, range, words, u);
        let known = visits.into_iter().chain(own).max_by(|a, b| a.share.total_cmp(&b.share));
        let around = || self.as_around(line, range, u.thread, &u.runs);
        known.or_else(|| if self.readers_store((line, site)) { None } else { around() })
    }

    /// One lock covers what threads did to a line, but for a part that is smaller than what is traced can tell.
    pub fn cover(&self, (line, site): (u64, Option<u32>), uses: &[lines::Use]) -> bool {
        let (mut all, mut inside) = (0.0, BTreeMap::<u64, f64>::new());
        for u in uses {
            let mut words = Words::new(u);
            let mut sums: BTreeMap<Span, u64> = BTreeMap::new();
            for run in &u.runs {
                words.join_all(run);
                for &(range, (reads, writes, rmws), _) in words.joined() {
                    *sums.entry(range).or_default() += reads + writes + rmws;
                }
            }
            for (range, n) in sums {
                let share = self.of_runs((line, site), range, &words, u);
                all += n as f64;
                share.into_iter().for_each(|s| *inside.entry(s.lock).or_default() += n as f64 * s.share);
            }
        }
        inside.values().any(|n| *n >= COVER_MIN * all)
    }

    /// The lock under which most of a thread's accesses to bytes `[lo, hi)` of a line happened; `after` gives those
    /// from a moment on. Of several that cover them, that under which all threads together did most.
    pub fn of(
        &self,
        line: u64,
        (lo, hi): (u64, u64),
        thread: usize,
        after: impl Fn(u64) -> f64,
    ) -> Option<Share> {
        let (sums, all) = (self.sums(line, (lo, hi), thread), after(0));
        if sums.values().all(|(_, own)| own.accesses == 0.0) {
            return self.behind_a_cut(line, (lo, hi), thread, all);
        }
        let is_all = |lock: u64, u: &Use| {
            // A lock made of atomics is taken for one only after some time.
            let first = self.first.get(&lock).copied().unwrap_or(0);
            let late = after(first);
            // Who is never met outside has done all of it inside, as far as the sample can tell.
            let error = match u.accesses > 0.0 && !self.is_seen_outside(thread, line, (lo, hi), first) {
                true => SAMPLE_ERRORS_MAX * u.variance.sqrt(),
                false => 0.0,
            };
            covers(u.accesses + error, all, late)
        };
        let ranked = sums.into_iter().map(|(lock, (everybody, u))| match is_all(lock, &u) {
            true => (true, everybody, lock, u),
            false => (false, u.accesses, lock, u),
        });
        let best = ranked.max_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(y.2.cmp(&x.2)));
        let (covers, _, lock, u) = best.filter(|b| b.3.accesses > 0.0 && all > 0.0)?;
        let share = if covers { 1.0 } else { u.accesses / all };
        // More sections than accesses there are not.
        let per_access = |n: f64| (n / (share * all)).min(1.0);
        Some(Share { lock, share, sections: per_access(u.sections), storing: per_access(u.storing) })
    }

    /// By lock: all threads' accesses to bytes `[lo, hi)` of a line under it, and what a thread did.
    fn sums(&self, line: u64, (lo, hi): (u64, u64), thread: usize) -> BTreeMap<u64, (f64, Use)> {
        let mut sums: BTreeMap<u64, (f64, Use)> = BTreeMap::new();
        let bytes = self.places.get(&line).into_iter().flat_map(|of_line| of_line.range(lo..hi));
        for (lock, threads) in bytes.flat_map(|(_, byte)| byte) {
            let sum = sums.entry(*lock).or_default();
            sum.0 += threads.values().map(|u| u.accesses).sum::<f64>();
            if let Some(u) = threads.get(&thread) {
                sum.1.accesses += u.accesses;
                sum.1.variance += u.variance;
                sum.1.sections = sum.1.sections.max(u.sections);
                sum.1.storing = sum.1.storing.max(u.storing);
            }
        }
        sums
    }
}

/// All accesses of a range under one lock, with as many sections for each as those that were traced had.
fn whole(lock: u64, traced: &Use, range: Span, runs: &[AccessRun]) -> Option<Share> {
    let of = |kinds: Kinds| accesses_of(runs, (range, kinds), 0);
    let (all, stores) = (of(Kinds::ALL), of(Kinds::STORES));
    let sections = (traced.sections / traced.accesses).min(1.0);
    (all > 0.0).then_some(Share { lock, share: 1.0, sections, storing: sections.min(stores / all) })
}

/// Whether so many accesses inside are all of them, or all of those since a lock that was recognised late.
pub(crate) fn covers(inside: f64, all: f64, late: f64) -> bool {
    inside >= ALL_SHARE_MIN * all || (late >= LATE_MIN * all && inside >= ALL_SHARE_MIN * late)
}

/// The share of a thread's changes of a lock's word that belong together: who leaves a long section that is shared
/// comes back to the word when others may have taken the line.
fn with_its_word(l: &TracedLock) -> f64 {
    let lengths = || l.sections.iter().map(|(s, _)| s.vt1.saturating_sub(s.vt0));
    let short = lengths().sum::<u64>() <= TRANSFER * lengths().count() as u64;
    if short || l.sections.iter().all(|s| s.0.shared == 0) { 1.0 } else { 0.5 }
}

/// Accesses of a visit and its repeats, the first of which is the `nth` of its section, that come so soon behind the
/// taking of a lock that one transfer brings them and its word. Later others who hold it, too, may have taken the line.
fn beside_its_word(nth: u64, repeats: u64) -> f64 {
    let last = nth.saturating_add(repeats);
    last.min(TRANSFER).saturating_add(1).saturating_sub(nth) as f64
}

/// How much longer a section was than what was seen of it.
fn longer(section: &Section, visits: &[Visit]) -> f64 {
    match section.cut {
        0 => 1.0,
        _ => (section.vt1.saturating_sub(section.vt0) as f64 / seen(visits).max(1) as f64).max(1.0),
    }
}

/// Accesses of a section that were seen.
fn seen(visits: &[Visit]) -> u64 {
    visits.iter().map(|v| v.gap.saturating_add(1)).fold(0, u64::saturating_add)
}

/// Accesses of some kinds to bytes `[lo, hi)` of a line in all runs from a moment on; of words, what the kinds say.
pub(crate) fn accesses_of(runs: &[AccessRun], ((lo, hi), kinds): (Span, Kinds), from: u64) -> f64 {
    let words = (lo / 8) as usize..(hi.div_ceil(8) as usize).min(8);
    let of = |r: &AccessRun| {
        let of = |w: usize| {
            kinds.reads * f64::from(r.reads[w])
                + kinds.writes * f64::from(r.writes[w])
                + kinds.rmws * f64::from(r.rmws[w])
        };
        let all: f64 = words.clone().map(of).sum();
        let length = r.vt1.saturating_sub(r.vt0).max(1);
        all * r.vt1.saturating_sub(from.max(r.vt0)).min(length) as f64 / length as f64
    };
    runs.iter().map(of).sum()
}

/// Accesses of one thread to one range, under a lock or not, row by row, so that what is rounded away in one row is
/// in a later one.
pub(crate) struct Turns {
    share: Option<Share>,
    /// Accesses so far, under the lock so far.
    seen: Counts,
    inside: Counts,
    sections: u64,
    storing: u64,
}

impl Turns {
    pub fn new(share: Option<Share>) -> Turns {
        Turns { share, seen: (0, 0, 0), inside: (0, 0, 0), sections: 0, storing: 0 }
    }

    /// Of a row's counts: those under the lock, the others, and the lock with its sections and those that store.
    pub fn split(&mut self, all: Counts) -> (Counts, Counts, Option<(u64, u64, u64)>) {
        let Some(s) = self.share else { return ((0, 0, 0), all, None) };
        self.seen = (self.seen.0 + all.0, self.seen.1 + all.1, self.seen.2 + all.2);
        let up_to = |n: u64| (n as f64 * s.share).round() as u64;
        let inside = (
            (up_to(self.seen.0) - self.inside.0).min(all.0),
            (up_to(self.seen.1) - self.inside.1).min(all.1),
            (up_to(self.seen.2) - self.inside.2).min(all.2),
        );
        self.inside = (self.inside.0 + inside.0, self.inside.1 + inside.1, self.inside.2 + inside.2);
        let total = inside.0 + inside.1 + inside.2;
        let so_far = (self.inside.0 + self.inside.1 + self.inside.2) as f64;
        let sections = ((so_far * s.sections).round() as u64).saturating_sub(self.sections).min(total);
        let storing = ((so_far * s.storing).round() as u64).saturating_sub(self.storing).min(sections);
        (self.sections, self.storing) = (self.sections + sections, self.storing + storing);
        let outside = (all.0 - inside.0, all.1 - inside.1, all.2 - inside.2);
        (inside, outside, Some((s.lock, sections, storing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(addr: u64, kind: u32, gap: u64) -> Visit {
        Visit { what: addr | 8 << 48 | u64::from(kind) << 56, gap }
    }

    fn traced(thread: usize, lock: u64, count: u64, visits: Vec<Visit>) -> (usize, TracedLock) {
        // SAFETY: plain numbers, for which zeros are values.
        let (mut l, section) = unsafe { (std::mem::zeroed::<Lock>(), std::mem::zeroed::<Section>()) };
        (l.addr, l.count) = (lock, count);
        (thread, TracedLock { lock: l, sections: vec![(section, visits)] })
    }

    #[test]
    fn one_section_stands_for_all_of_its_lock() {
        let locks =
            [traced(0, 0x900, 100, vec![visit(0x40, READ, 0), visit(0x40, WRITE, 0), visit(0x48, READ, 4)])];
        let outside = [traced(0, NO_LOCK, 1, vec![visit(0x40, READ, 0)])];
        let held = HeldLocks::new(locks.iter(), outside.iter(), |_| true);
        // A read, a write, and four more before the next visit.
        let share = held.of(0x40, (0, 8), 0, |_| 600.0).unwrap();
        assert_eq!((share.lock, share.share, share.sections), (0x900, 1.0, 1.0 / 6.0));
        // Three times as many in all: the others happened outside.
        assert!((held.of(0x40, (0, 8), 0, |_| 1800.0).unwrap().share - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(held.of(0x40, (16, 24), 0, |_| 10.0), None);
        assert_eq!(held.of(0x40, (0, 8), 1, |_| 10.0), None);
    }

    /// Nodes of one site, at 0x1000 and on: thread 0 was traced at 30 of them under a lock, thread 1 at none.
    #[test]
    fn a_tree_has_more_nodes_than_sections_are_traced() {
        let lock_of = |outside: Option<usize>, thread: usize, site: u32| {
            let locks = [traced(0, 0x900, 300, (0..30).map(|k| visit(0x1000 + 64 * k, READ, 0)).collect())];
            let met = outside.map(|thread| traced(thread, NO_LOCK, 1, vec![visit(0x1000, READ, 0)]));
            let mut held = HeldLocks::new(locks.iter(), met.iter(), |_| true);
            held.know_sites(|addr| (addr >= 0x1000).then_some(7));
            let run = AccessRun { vt0: 0, vt1: 1, reads: [10; 8], writes: [10; 8], rmws: [0; 8] };
            let u = lines::Use { thread, runs: vec![run], ..lines::Use::none() };
            held.of_runs((0x8000, Some(site)), (0, 8), &Words::new(&u), &u).map(|s| (s.lock, s.share))
        };
        assert_eq!(lock_of(None, 0, 7), Some((0x900, 1.0)));
        assert_eq!(lock_of(None, 1, 7), None, "who was never seen to take it");
        assert_eq!(lock_of(None, 0, 8), None, "another site");
        assert_eq!(lock_of(Some(0), 0, 7), None, "met outside");
        assert_eq!(lock_of(Some(1), 0, 7), Some((0x900, 1.0)), "what others do says nothing of it");
    }

    #[test]
    fn what_readers_store_is_ordered_by_nobody() {
        let nodes = |kind: u32| {
            (0..30).map(|k| visit(0x1000 + 64 * k, if k == 0 { kind } else { READ }, 0)).collect()
        };
        let stores = |kind: u32| {
            let mut locks = [traced(0, 0x900, 300, nodes(kind))];
            locks[0].1.sections[0].0.shared = 1;
            let mut held = HeldLocks::new(locks.iter(), [].iter(), |_| true);
            held.know_sites(|addr| (addr >= 0x1000).then_some(7));
            [held.readers_store((0x8000, Some(7))), held.readers_store((0x8000, None)), held.sites.is_empty()]
        };
        assert_eq!(stores(READ), [false, false, false]);
        assert_eq!(stores(WRITE), [true, false, true], "one node's count");
    }

    #[test]
    fn a_sample_with_few_writers_covers_all_unless_they_are_met_outside() {
        // Ten of eighty sections were kept, three of which store 4,000 times; truly it is half of them.
        let (thread, mut l) = traced(0, 0x900, 80, vec![]);
        let (section, _) = l.sections.pop().unwrap();
        for k in 0..10 {
            let section = Section { shared: section.shared, ..section };
            let visits = if k < 3 { vec![visit(0x40, WRITE, 0), visit(0x80, READ, 3999)] } else { vec![] };
            l.sections.push((section, visits));
        }
        let locks = [(thread, l)];
        let share = |windows: &[(usize, TracedLock)]| {
            let held = HeldLocks::new(locks.iter(), windows.iter(), |_| true);
            held.of(0x40, (0, 8), 0, |_| 160_000.0).unwrap().share
        };
        assert_eq!(share(&[]), 1.0);
        let outside = traced(0, NO_LOCK, 1, vec![visit(0x40, WRITE, 0)]);
        assert!((share(&[outside]) - 0.6).abs() < 1e-9);
        assert_eq!(share(&[traced(1, NO_LOCK, 1, vec![visit(0x40, WRITE, 0)])]), 1.0, "another thread");
    }

    #[test]
    fn what_lies_behind_a_cut_is_under_the_lock_unless_it_is_met_outside() {
        let (thread, mut l) = traced(0, 0x900, 100, vec![visit(0x40, WRITE, 9)]);
        (l.sections[0].0.vt1, l.sections[0].0.cut) = (1000, 1);
        let locks = [(thread, l)];
        let at = |windows: &[(usize, TracedLock)], accesses: f64| {
            HeldLocks::new(locks.iter(), windows.iter(), |_| true).of(0x80, (0, 8), 0, |_| accesses)
        };
        let share = at(&[], 500.0).unwrap();
        assert_eq!((share.lock, share.share, share.sections), (0x900, 1.0, 0.2));
        assert_eq!(at(&[], 2e5), None, "more than what was not seen");
        assert_eq!(at(&[traced(0, NO_LOCK, 1, vec![visit(0x80, WRITE, 0)])], 500.0), None);
    }

    #[test]
    fn of_a_large_table_what_was_not_traced_is_as_its_surroundings() {
        let of = |k: u64| {
            let at = 0x1000 + 128 * k;
            traced(0, 0x900, 100, vec![visit(at, READ, 0), visit(at, WRITE, 0)])
        };
        let locks: Vec<_> = (0..5).map(of).collect();
        let held = |outside: &[(usize, TracedLock)]| {
            let held = HeldLocks::new(locks.iter(), outside.iter(), |_| true);
            let run =
                |stores: u32| AccessRun { vt0: 0, vt1: 1, reads: [10; 8], writes: [stores; 8], rmws: [0; 8] };
            let share = |thread, stores| {
                let u = lines::Use { thread, runs: vec![run(stores)], ..lines::Use::none() };
                held.of_runs((0x1040, None), (8, 16), &Words::new(&u), &u)
            };
            [share(0, 10), share(0, 0), share(1, 10)]
                .map(|s| s.map(|s| (s.lock, s.share, s.sections, s.storing)))
        };
        // A section reads and writes: one for two accesses.
        assert_eq!(held(&[]), [Some((0x900, 1.0, 0.5, 0.5)), Some((0x900, 1.0, 0.5, 0.0)), None]);
        let outside = [traced(0, NO_LOCK, 1, vec![visit(0x1070, READ, 0)])];
        assert_eq!(held(&outside), [None; 3], "met outside of the lock, nearby");
    }

    #[test]
    fn what_readers_read_beside_their_word_comes_with_it_if_it_is_read_at_once() {
        let share = |gap: u64, length: u64| {
            let (thread, mut l) = traced(0, 0x40, 100, vec![visit(0x48, READ, gap)]);
            (l.sections[0].0.shared, l.sections[0].0.vt1) = (1, length);
            let held = HeldLocks::new([(thread, l)].iter(), [].iter(), |_| true);
            held.of(0x40, (8, 16), 0, |_| 100.0).map(|s| s.share)
        };
        assert_eq!(share(3, 1000), Some(1.0), "just behind");
        assert_eq!(share(500, 1000), None, "other readers may have taken the line meanwhile");
        let near = [(1, 0), (1, 99), (30, 4), (40, 9)].map(|(nth, repeats)| beside_its_word(nth, repeats));
        assert_eq!(near, [1.0, 32.0, 3.0, 0.0]);
    }

    #[test]
    fn what_came_before_a_lock_was_recognised_counts_as_under_it() {
        let (thread, mut l) = traced(0, 0x900, 150, vec![visit(0x40, WRITE, 0)]);
        l.sections[0].0.vt0 = 1000;
        let (_, mut outside) = traced(0, NO_LOCK, 1, vec![visit(0x40, WRITE, 0)]);
        outside.sections[0].0.vt0 = 2000;
        let held = HeldLocks::new([(thread, l)].iter(), [(thread, outside)].iter(), |_| true);
        let share = |all: f64| held.of(0x40, (0, 8), 0, |from| if from == 0 { all } else { 150.0 }).unwrap();
        assert_eq!((share(200.0).share, share(400.0).share), (1.0, 150.0 / 400.0));
    }

    #[test]
    fn the_lock_that_all_threads_hold_protects() {
        let inside = |outer: u64, thread: usize| {
            traced(
                thread,
                outer,
                10,
                vec![visit(0x900, TAKEN, 0), visit(0x40, WRITE, 0), visit(0x900, RELEASED, 0)],
            )
        };
        let locks = [inside(0x100, 0), inside(0x200, 1)];
        let held = HeldLocks::new(locks.iter(), [].iter(), |_| true);
        assert_eq!(held.of(0x40, (0, 8), 0, |_| 10.0).map(|s| s.lock), Some(0x900));
        assert_eq!(held.of(0x40, (0, 8), 1, |_| 10.0).map(|s| s.lock), Some(0x900));
    }
}
