//! Threads that take turns at a line, in whatever way: they were watched, and were not there at the same time
//! (`rt-core/src/company.rs`). What orders them is not known, but it acts like a lock of the line's own.

use crate::held::Share;
use crate::lines::{AccessRun, Use};
use crate::wire::Company;
use std::collections::BTreeMap;
use tussle_evidence::TURN_BYTE;

/// Windows in which another user of the line ran, that say something; of a line by itself, where others beside it say
/// the rest.
const WINDOWS_MIN: u64 = 16;
const WINDOWS_OWN_MIN: u64 = 4;

/// Of so many windows or visits at most one has company. Threads that take turns never meet, but for what is seen too
/// late.
const PER_MEETING: u64 = 32;

/// Of so many accesses at most one was in a visit beside another one's.
const PER_HEAVY: u64 = 8;

/// Fewer turns may be threads that happened to run one after the other.
const TURNS_MIN: u64 = 8;

/// Short visits of a run at most: what comes out of a queue is used, and put into the next one.
const VISITS_MAX: u64 = 4;

/// Fewer meetings of a thread may be that.
const MEETINGS_MIN: u64 = 4;

/// What lies at a line, if that is one of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Objects that one place allocated: what is true of many is true of each.
    Site(u32),
    /// Variables of one page, of different kinds perhaps.
    Page(u64),
}

impl Kind {
    /// The place that allocated it.
    pub fn site(self) -> Option<u32> {
        match self {
            Kind::Site(site) => Some(site),
            Kind::Page(_) => None,
        }
    }
}

/// What was seen of a line, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Windows {
    /// Those in which another user ran.
    all: u64,
    /// Those of them in which it used the line, too.
    met: u64,
    /// Others, in which it may have done so while the thread was elsewhere.
    paused: u64,
    /// Visits that began when another one's was over, and those at the same time as another one's.
    in_turn: u64,
    beside: u64,
    /// And those before which nobody else had been there.
    again: u64,
    /// Of the first visits, the short ones before which nobody else had been there, and in how many runs of such nobody
    /// came in between.
    first_short: u64,
    first_runs: u64,
    /// Accesses in visits in turn, and beside others.
    in_turn_accesses: u64,
    beside_accesses: u64,
    /// How often one came after another one.
    turns: u64,
    /// Some thread met others, in windows or in visits: one that comes seldom does so whenever it comes, and the others
    /// hardly ever.
    someone_meets: bool,
    someone_beside: bool,
}

impl Windows {
    fn of(c: &Company) -> Windows {
        let [alone, met, paused, in_turn, beside, again] =
            [c.alone, c.met, c.paused, c.in_turn, c.beside, c.again].map(u64::from);
        let meets = |met: u64, all: u64| met >= MEETINGS_MIN && met * PER_MEETING > all;
        Windows {
            all: alone + met,
            met,
            paused,
            in_turn,
            beside,
            again,
            first_short: c.first_short.into(),
            first_runs: u64::from(c.first_turns) + 1,
            in_turn_accesses: c.in_turn_accesses,
            beside_accesses: c.beside_accesses,
            turns: c.turns.into(),
            someone_meets: meets(met, alone + met),
            someone_beside: meets(beside, in_turn + beside),
        }
    }

    fn add(&mut self, other: Windows) {
        self.all += other.all;
        self.met += other.met;
        self.paused += other.paused;
        self.in_turn += other.in_turn;
        self.beside += other.beside;
        self.again += other.again;
        self.first_short += other.first_short;
        self.first_runs += other.first_runs;
        self.in_turn_accesses = self.in_turn_accesses.saturating_add(other.in_turn_accesses);
        self.beside_accesses = self.beside_accesses.saturating_add(other.beside_accesses);
        self.turns += other.turns;
        self.someone_meets |= other.someone_meets;
        self.someone_beside |= other.someone_beside;
    }

    fn are_known(&self) -> bool {
        self.turns >= TURNS_MIN && (self.are_ordered() || self.all >= WINDOWS_MIN.max(self.paused))
    }

    /// Visits say what there is to say: windows depend on the scheduler.
    fn are_ordered(&self) -> bool {
        self.in_turn + self.beside >= WINDOWS_MIN
    }

    /// Threads that fight do so at the same time, if they run then. Else each may come again and again before the
    /// scheduler lets the next one, and what orders them may be anything; who gets what is handed on comes once, and
    /// gives little else away meanwhile. A ring's producer gives away an element, and goes on with the next one.
    fn alternate(&self) -> bool {
        let once = self.in_turn >= self.again && self.first_short <= VISITS_MAX * self.first_runs;
        self.all + self.paused >= WINDOWS_MIN || once
    }

    /// Who takes turns at first and fights then does so in one visit, which may be longer than all before.
    fn are_light(&self) -> bool {
        let all = self.in_turn_accesses.saturating_add(self.beside_accesses);
        self.beside_accesses.saturating_mul(PER_HEAVY) <= all
    }

    fn are_turns(&self) -> bool {
        match self.are_ordered() {
            true => {
                let few = self.beside * PER_MEETING <= self.in_turn + self.beside;
                few && self.are_light() && !self.someone_beside && self.alternate()
            }
            false => !self.someone_meets && self.met * PER_MEETING <= self.all,
        }
    }
}

/// How it is known that threads took turns at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was seen there.
    Here,
    /// What lies there is one of many objects, at which they do.
    ByMany,
}

/// The lines of a process at which threads took turns.
#[derive(Default)]
pub(crate) struct Shifts {
    lines: BTreeMap<u64, (Windows, Option<Kind>)>,
    kinds: BTreeMap<Kind, Windows>,
}

impl Shifts {
    /// What each thread saw at each line, and what lies there.
    pub fn new(seen: impl Iterator<Item = (u64, Company, Option<Kind>)>) -> Shifts {
        let mut out = Shifts::default();
        for (line, c, kind) in seen {
            let of_line = out.lines.entry(line).or_default();
            of_line.0.add(Windows::of(&c));
            of_line.1 = of_line.1.or(kind);
        }
        for (windows, kind) in out.lines.values() {
            // A fight for one variable says nothing of its neighbours.
            let counts = |kind: &&Kind| matches!(kind, Kind::Site(_)) || windows.are_turns();
            if let Some(kind) = kind.as_ref().filter(counts) {
                out.kinds.entry(*kind).or_default().add(*windows);
            }
        }
        out
    }

    /// How it is known that threads took turns at a line, if they did; `kind` says what lies at one of which nothing
    /// was seen.
    pub fn at(&self, line: u64, kind: impl FnOnce() -> Option<Kind>) -> Option<Known> {
        let are_turns = |kind: &Kind| self.kinds.get(kind).is_some_and(|w| w.are_known() && w.are_turns());
        let Some((own, kind)) = self.lines.get(&line) else {
            return kind().filter(|k| matches!(k, Kind::Site(_)) && are_turns(k)).map(|_| Known::ByMany);
        };
        let alike = match kind {
            Some(Kind::Page(_)) if own.all < WINDOWS_OWN_MIN => false,
            Some(kind) => are_turns(kind),
            None => false,
        };
        // Of one object among many a meeting or two may be another one's, which had its bytes before.
        let one = matches!(kind, Some(Kind::Site(_)));
        let hardly = own.are_ordered() && own.beside < MEETINGS_MIN && own.are_light() && one;
        match own.are_turns() {
            _ if alike && (own.are_turns() || hardly) && one => Some(Known::ByMany),
            true if own.are_known() || alike => Some(Known::Here),
            _ => None,
        }
    }

    /// The lock of its own under which threads used a line where they took turns, of each use. None of a thread that
    /// was not seen to come and go: it may come at any time. Who was there before the others comes to it no more.
    /// At one of many objects each came once at least.
    pub fn of(line: u64, known: Known, uses: &[Use], index: impl Fn(&Use) -> u32) -> Vec<Option<Share>> {
        let before: Vec<u32> = uses.iter().filter_map(|u| u.company).map(|c| c.before).collect();
        let one = |u: &Use| {
            let first = || (known == Known::ByMany || before.contains(&index(u))).then_some(1);
            let turns = f64::from(u.company.map(|c| c.turns.max(1)).or_else(first)?);
            let accesses: f64 = u.runs.iter().map(AccessRun::accesses).sum();
            let sections = (turns / accesses.max(1.0)).min(1.0);
            Some(Share { lock: line + TURN_BYTE, share: 1.0, sections, storing: sections })
        };
        uses.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 0x1000;

    fn seen(alone: u16, met: u16, paused: u16) -> Company {
        // SAFETY: plain numbers, for which zeros are values.
        Company { alone, met, paused, turns: 40, ..unsafe { std::mem::zeroed() } }
    }

    fn turns(of_line: &[Company], beside: &[Company], kind: Option<Kind>) -> bool {
        let one = |line: u64| move |c: &Company| (line, Company { ..*c }, kind);
        let all = of_line.iter().map(one(LINE)).chain(beside.iter().map(one(LINE + 64)));
        Shifts::new(all).at(LINE, || kind).is_some()
    }

    #[test]
    fn who_was_never_there_with_others_took_turns() {
        assert!(turns(&[seen(40, 0, 2), seen(30, 1, 0)], &[], None));
        assert!(!turns(&[seen(40, 0, 2), seen(30, 20, 0)], &[], None));
    }

    #[test]
    fn who_comes_behind_the_other_one_takes_turns_whoever_ran_when() {
        let by_turn = |in_turn: u16, beside: u16, (alone, met): (u16, u16)| {
            turns(&[Company { in_turn, beside, ..seen(alone, met, 0) }, seen(0, 0, 0)], &[], None)
        };
        assert!(by_turn(100, 0, (0, 0)) && by_turn(100, 3, (0, 0)));
        assert!(by_turn(100, 0, (4, 40)), "somebody looked at it meanwhile");
        assert!(!by_turn(100, 4, (0, 0)) && !by_turn(0, 20, (400, 0)), "meets others");
        assert!(!by_turn(10, 0, (0, 0)), "little was seen");
        let heavy = Company {
            in_turn: 99,
            beside: 1,
            in_turn_accesses: 9900,
            beside_accesses: 5000,
            ..seen(0, 0, 0)
        };
        assert!(!turns(&[heavy, seen(0, 0, 0)], &[], None), "a fight behind hand-overs");
        let again = |alone: u16| {
            turns(&[Company { in_turn: 100, again: 700, ..seen(alone, 0, 0) }, seen(0, 0, 0)], &[], None)
        };
        assert!(!again(0) && again(100), "one after the other, as the scheduler lets them");
    }

    #[test]
    fn little_was_seen_is_not_nothing_was_there() {
        assert!(!turns(&[seen(7, 0, 0), seen(8, 0, 0)], &[], None));
        assert!(!turns(&[seen(40, 0, 50)], &[], None));
        assert!(!turns(&[], &[seen(100, 0, 0)], Some(Kind::Page(0))));
        assert!(turns(&[], &[seen(100, 0, 0)], Some(Kind::Site(1))), "one of many objects");
    }

    #[test]
    fn who_came_once_after_another_one_takes_no_turns() {
        let once = || Company { turns: 1, ..seen(400, 0, 0) };
        assert!(!turns(&[once(), once()], &[], None));
        let many: Vec<Company> = (0..20).map(|_| once()).collect();
        assert!(turns(&[once()], &many, Some(Kind::Site(1))), "one of many nodes");
    }

    #[test]
    fn who_comes_seldom_and_meets_others_then_takes_no_turn() {
        assert!(!turns(&[seen(4000, 40, 0), seen(1, 40, 0)], &[], None));
    }

    #[test]
    fn what_one_place_allocates_is_alike_and_variables_are_not() {
        let (site, page) = (Some(Kind::Site(1)), Some(Kind::Page(0)));
        assert!(turns(&[seen(0, 0, 0)], &[seen(20, 0, 0)], site));
        assert!(!turns(&[seen(2, 0, 0)], &[seen(20, 0, 0)], page));
        assert!(turns(&[seen(5, 0, 0)], &[seen(20, 0, 0)], page));
        assert!(!turns(&[seen(5, 0, 0)], &[seen(20, 20, 0)], site));
        // Variables beside it that are fought for count for neither.
        assert!(!turns(&[seen(5, 0, 0)], &[seen(20, 20, 0)], page));
    }

    #[test]
    fn each_visit_is_a_section() {
        let run = AccessRun { vt0: 0, vt1: 9, reads: [50; 8], writes: [0; 8], rmws: [0; 8] };
        let company = Some(seen(20, 0, 0));
        let first = Use { runs: vec![run.clone()], ..Use::none() };
        let then = Use { thread: 1, runs: vec![run.clone()], company, ..Use::none() };
        let never = Use { thread: 2, runs: vec![run], ..Use::none() };
        let shares = Shifts::of(LINE, Known::Here, &[first, then, never], |u| u.thread as u32);
        let sections: Vec<_> =
            shares.iter().map(|s| s.map(|s| (s.lock, s.share, s.sections, s.storing))).collect();
        assert_eq!(sections, [Some((LINE + 1, 1.0, 0.0025, 0.0025)), Some((LINE + 1, 1.0, 0.1, 0.1)), None]);
    }
}
