//! Variables that lie on two lines by luck, and move all together. The linker puts globals somewhere: the recorded
//! build is another one than the program's own, what lies before them has other sizes. The system puts a process's
//! first stack somewhere, in every run anew.

use crate::analysis::{Contention, HiddenBy, IsCase, LATENT_E_MIN, Latent, LineContention, Roles, evaluate};
use crate::lines::{self, LinePieces};
use crate::window;
use std::collections::BTreeSet;
use tussle_evidence::{Access, Evidence, Object, ObjectKind};

/// Who moves them.
#[derive(Clone, Copy)]
enum Mover {
    Linker,
    System,
}

impl Mover {
    /// Steps, bytes. Globals: below 4 there is no type that anybody shares. The first stack: what Linux leaves of a
    /// random address (`arch_align_stack`), which is also what functions rely on.
    fn step(self) -> u64 {
        match self {
            Mover::Linker => 4,
            Mover::System => 16,
        }
    }

    /// Whether it moves an object. A function that holds something of a stricter alignment aligns its part of the stack
    /// by itself: what lies there stays.
    fn moves(self, e: &Evidence, o: &Object, line_bytes: u64) -> bool {
        match self {
            Mover::Linker => o.kind == ObjectKind::Global && o.align < line_bytes,
            Mover::System => is_on_first_stack(e, o) && o.align <= self.step(),
        }
    }
}

fn is_on_first_stack(e: &Evidence, o: &Object) -> bool {
    let owner = o.alloc_actor.and_then(|a| e.actors.get(a as usize));
    o.kind == ObjectKind::Stack && o.name.is_some() && owner.is_some_and(|a| a.creator.is_none())
}

/// Lines that variables would share in another build or run, the costliest first; no variable is in two. `open` says
/// which objects are no case where they lie.
pub(crate) fn latent(
    e: &Evidence,
    seen: &Contention,
    open: &dyn Fn(u32) -> bool,
    how: (&Roles, IsCase<'_>),
) -> Vec<Latent> {
    let strict = |o: &Object| is_on_first_stack(e, o) && o.align > Mover::System.step();
    let mut out = moved_by(Mover::Linker, e, seen, open, how);
    if !e.objects.iter().any(strict) {
        out.extend(moved_by(Mover::System, e, seen, open, how));
    }
    out
}

fn moved_by(
    mover: Mover,
    e: &Evidence,
    seen: &Contention,
    open: &dyn Fn(u32) -> bool,
    (roles, is_case): (&Roles, IsCase<'_>),
) -> Vec<Latent> {
    let line = seen.question.line;
    let variable =
        |id: u32| open(id) && e.objects.get(id as usize).is_some_and(|o| mover.moves(e, o, line.bytes()));
    let rows: Vec<&Access> = e.accesses.iter().filter(|a| variable(a.object)).collect();
    if rows.is_empty() || !e.run.sees.phases {
        return Vec::new();
    }
    let walk = |by: u64| {
        let each = |l: LinePieces| Some((window::quick_e(&l.pieces, seen.window_vt), l));
        let base = |_, o: &Object| moved(o, by);
        (by, lines::map_fights(e, rows.iter().copied(), (line, LATENT_E_MIN), &base, &each).found)
    };
    let moves: Vec<(u64, Vec<(f64, LinePieces)>)> =
        (0..line.bytes()).step_by(mover.step() as usize).map(walk).collect();
    // Variables that share a line here are judged here; what one global holds, where it may be placed.
    let last = |o: &Object| match mover {
        Mover::Linker => o.base,
        Mover::System => o.base.saturating_add(o.size.saturating_sub(1)),
    };
    let apart = |l: &LinePieces| {
        let homes = objects(l).into_iter().filter_map(|o| e.objects.get(o as usize));
        homes.flat_map(|o| [line.index(o.base), line.index(last(o))]).collect::<BTreeSet<_>>().len() > 1
    };
    let elsewhere = moves.iter().skip(1).flat_map(|(_, lines)| lines);
    let mut found: Vec<LineContention> = elsewhere
        .filter(|(most, l)| *most >= LATENT_E_MIN && apart(l))
        .filter_map(|(_, l)| evaluate(l, &seen.question, seen.window_vt, roles))
        .filter(|l| is_case(l))
        .collect();
    found.sort_by(|a, b| b.cost.total().total_cmp(&a.cost.total()));
    let mut told: BTreeSet<u32> = BTreeSet::new();
    let mut out = Vec::new();
    for worst in found {
        let all = worst.objects();
        let Some(&object) = all.first().filter(|_| !all.iter().any(|o| told.contains(o))) else { continue };
        told.extend(&all);
        let own = |l: &LinePieces| objects(l).iter().any(|o| all.contains(o));
        let most = |lines: &[(f64, LinePieces)]| {
            lines.iter().filter(|(_, l)| own(l)).map(|(e, _)| *e).fold(0.0, f64::max)
        };
        // Where a variable's own alignment does not let it go, nobody moves.
        let align = all.iter().filter_map(|o| e.objects.get(*o as usize)).map(|o| o.align).max().unwrap_or(1);
        let allowed = moves.iter().filter(|(by, _)| by % align.max(1) == 0);
        let phases = allowed.map(|(by, lines)| (*by, most(lines))).collect();
        let hidden_by = match mover {
            Mover::Linker => HiddenBy::Link { object, phases },
            Mover::System => HiddenBy::Stack { object, phases },
        };
        out.push(Latent { line: worst, hidden_by });
    }
    out
}

/// Where a variable lies when all are moved by so much: nowhere if its alignment forbids it.
fn moved(o: &Object, by: u64) -> Option<u64> {
    by.is_multiple_of(o.align.max(1)).then(|| o.base.saturating_add(by))
}

fn objects(l: &LinePieces) -> BTreeSet<u32> {
    l.ranges.iter().map(|r| r.object).collect()
}

#[cfg(test)]
mod tests {
    use crate::analysis::{HiddenBy, Latent, Question, contention, latent};
    use tussle_evidence::sample::Sample;
    use tussle_evidence::{Evidence, ObjectKind};

    /// Two threads, of which each stores to a variable of its own: `at` are their addresses.
    fn two(at: [u64; 2], align: u64) -> Evidence {
        let mut s = Sample::new(65_536);
        let main = s.thread("main", None);
        let long = s.long();
        for (name, base) in ["hits", "misses"].into_iter().zip(at) {
            let variable = s.global(name, base, 8, Some(long), align);
            let thread = s.thread(name, Some(main));
            s.access(variable, 0, 8, thread, (0, 60_000), [0, 50_000, 0]);
        }
        s.evidence()
    }

    fn by_linker(e: &Evidence) -> Vec<Latent> {
        let seen = contention(e, &Question::observed());
        let all = latent(e, &seen, &|l| l.cost.removable() > 1000.0);
        all.into_iter().filter(|l| matches!(l.hidden_by, HiddenBy::Link { .. })).collect()
    }

    #[test]
    fn neighbours_on_two_lines_would_fight_in_another_build() {
        let found = by_linker(&two([0x4038, 0x4040], 8));
        assert_eq!(found.len(), 1, "{found:?}");
        let HiddenBy::Link { phases, .. } = &found[0].hidden_by else { panic!("{found:?}") };
        // Seven of eight places have both on one line; here they are not.
        assert_eq!(phases.len(), 8);
        assert_eq!(phases.iter().filter(|p| p.1 > 1000.0).count(), 7);
        assert_eq!(phases[0], (0, 0.0));
    }

    /// The same on the stack of the first thread, or of another one.
    fn on_stack(at: [u64; 2], (align, owner): (u64, u32)) -> Vec<Latent> {
        let mut e = two(at, align);
        for o in &mut e.objects {
            (o.kind, o.alloc_actor) = (ObjectKind::Stack, Some(owner));
        }
        let seen = contention(&e, &Question::observed());
        let all = latent(&e, &seen, &|l| l.cost.removable() > 1000.0);
        all.into_iter().filter(|l| matches!(l.hidden_by, HiddenBy::Stack { .. })).collect()
    }

    #[test]
    fn neighbours_on_the_first_stack_would_fight_in_another_run() {
        let found = on_stack([0x4038, 0x4040], (8, 0));
        let HiddenBy::Stack { phases, .. } = &found[0].hidden_by else { panic!("{found:?}") };
        let fights = |p: &&(u64, f64)| p.1 > 1000.0;
        assert_eq!((phases.len(), phases.iter().filter(fights).count(), phases[0]), (4, 3, (0, 0.0)));
        assert!(on_stack([0x4038, 0x4040], (8, 1)).is_empty(), "other stacks begin alike in every run");
        assert!(on_stack([0x4038, 0x4040], (64, 0)).is_empty(), "functions that align their part stay");
    }

    #[test]
    fn what_is_a_line_apart_or_aligned_stays_apart() {
        assert!(by_linker(&two([0x4000, 0x4040], 8)).is_empty(), "64 bytes apart");
        assert!(by_linker(&two([0x4038, 0x4040], 64)).is_empty(), "on lines of their own");
    }

    #[test]
    fn what_shares_a_line_here_is_seen_and_not_hidden() {
        assert!(by_linker(&two([0x4000, 0x4008], 8)).is_empty());
    }
}
