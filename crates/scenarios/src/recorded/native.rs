//! Recorded operations as a program for real threads: C written from our own templates with bounded numbers, and
//! nothing of the evidence's names.
//!
//! Both layouts are in one program, so that it can measure them in interleaved pairs. Time between accesses is work
//! whose kind the evidence does not tell: every operation exists once for each of [`KINDS`]. How much of a line's way a
//! processor hides depends on that kind more than on the length of the work.

use super::place::{Arrangement, Native, native};
use super::replay::turns;
use super::{Held, Model, OperationShape, RecordedError, Recording, Step, Visit};
use crate::predict::PredictError;
use crate::stories::{Setup, Side};
use std::fmt::Write;

/// What every generated program has: memory, work, threads, pairs.
const PREAMBLE: &str = include_str!("native/preamble.c");
/// How it runs.
const MAIN: &str = include_str!("native/main.c");
/// Kinds of work between accesses, as the templates name them: a chain that goes on whatever was loaded, one that waits
/// for it, and work that waits for nothing.
const KINDS: [&str; 3] = ["CHAIN", "FED", "INDEPENDENT"];
/// Shapes of one actor, the most frequent first.
const SHAPES_MAX: usize = 16;
/// Steps of one shape.
const STEPS_MAX: usize = 400;
/// Operations of one round of an actor, after which it looks whether to stop.
const ROUND: usize = 32;
/// Threads.
const THREADS_MAX: usize = 64;
/// Longest work between two accesses, ns.
const WORK_NS_MAX: f64 = 1e6;

/// Why the operations cannot be replayed on this machine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// Locks of a kernel have no counterpart in a program.
    #[error("{0} is no lock of a program: its operations are simulated, name a machine with --machine NAME")]
    Lock(&'static str),
    /// A lock that is not glibc's: its words are other ones, and lie among its neighbours.
    #[error(
        "the lock {0} cannot be repeated here: measure both versions (tussle bench), or name a machine to simulate \
         (--machine NAME)"
    )]
    Foreign(String),
    /// Too many actors.
    #[error("{0} actors are more than {THREADS_MAX}: record with fewer threads")]
    Threads(usize),
    /// The layout.
    #[error(transparent)]
    Layout(#[from] RecordedError),
}

/// [`program`] of two sides of a comparison.
///
/// # Errors
/// A side that recorded operations do not have, [`NativeError`].
pub fn of_sides(r: &Recording, before: &Side, after: &Side, setup: &Setup) -> Result<String, PredictError> {
    Ok(program(r, super::place_of(before)?, super::place_of(after)?, setup)?)
}

/// A program in C that measures both layouts of a recording.
///
/// # Errors
/// [`NativeError`].
pub fn program(
    r: &Recording,
    before: Arrangement<'_>,
    after: Arrangement<'_>,
    setup: &Setup,
) -> Result<String, NativeError> {
    if r.actors > THREADS_MAX {
        return Err(NativeError::Threads(r.actors));
    }
    r.locks.iter().try_for_each(|held| known(r, held))?;
    let sides = [native(r, before, setup)?, native(r, after, setup)?];
    let shapes: Vec<Vec<u32>> = (0..r.actors).map(|a| frequent(r, a)).collect();
    let bytes = sides.iter().map(|s| s.bytes).max().unwrap_or(0).next_multiple_of(4096) + 4096;
    let mut c = Code { text: String::new(), works: Vec::new(), actor: 0 };
    c.line(&format!("#define THREADS {}\n#define BYTES {bytes}", r.actors));
    c.text.push_str(PREAMBLE);
    for (layout, side) in sides.iter().enumerate() {
        for (kind, name) in KINDS.iter().enumerate() {
            c.line(&format!(
                "#undef KIND\n#define KIND {name}\n#undef MEMORY\n#define MEMORY memory[{layout}]"
            ));
            for (actor, mine) in shapes.iter().enumerate() {
                c.actor = actor;
                c.actor(r, side, mine, &format!("{layout}_{kind}_{actor}"))?;
            }
        }
    }
    c.tables(r, &sides)?;
    c.text.push_str(MAIN);
    Ok(c.text)
}

/// The most frequent shapes of an actor, in their order.
fn frequent(r: &Recording, actor: usize) -> Vec<u32> {
    let mut mine: Vec<u32> =
        (0..r.shapes.len() as u32).filter(|&i| r.shapes[i as usize].actor == actor).collect();
    mine.sort_by_key(|&i| std::cmp::Reverse(r.shapes[i as usize].repeats));
    mine.truncate(SHAPES_MAX);
    mine.sort_unstable();
    mine
}

/// Bytes of glibc's lock that stands for one; of a lock that has fewer it would reach into its neighbours.
fn bytes(model: Model) -> u64 {
    match model {
        Model::SleepingMutex => 40,
        Model::SleepingRwlock => 56,
        _ => 4,
    }
}

/// Locks made by hand, and those of other libraries, have no template.
fn known(r: &Recording, held: &Held) -> Result<(), NativeError> {
    let found = &held.found;
    // A kernel's have their own message.
    verbs(found.model, false)?;
    let why = match () {
        () if found.assumed => {
            "made by hand, of an unknown type, or a counter that threads add to and take from".into()
        }
        () if found.size < bytes(found.model) => {
            format!("{}, {} bytes: not glibc's", found.ty.as_deref().unwrap_or("?"), found.size)
        }
        () => return Ok(()),
    };
    let place = r.places.get(held.object).map_or("?", |p| p.label.as_str());
    let at = found.member.as_ref().map_or(format!("{place} at {}", found.start), |m| format!("{place}.{m}"));
    Err(NativeError::Foreign(format!("{at} ({why})")))
}

/// How a lock of a program is taken, given up, and made.
fn verbs(model: Model, shared: bool) -> Result<[&'static str; 3], NativeError> {
    Ok(match (model, shared) {
        (Model::SleepingMutex, _) => ["MUTEX_LOCK", "MUTEX_UNLOCK", "MUTEX_INIT"],
        (Model::SleepingRwlock, true) => ["RW_RDLOCK", "RW_UNLOCK", "RW_INIT"],
        (Model::SleepingRwlock, false) => ["RW_WRLOCK", "RW_UNLOCK", "RW_INIT"],
        (Model::TestAndSet, _) => ["SPIN_LOCK", "SPIN_UNLOCK", "SPIN_INIT"],
        (other, _) => return Err(NativeError::Lock(other.title())),
    })
}

/// A piece of work: its nominal length, ns, the actor that does it, and whether it lies between two operations.
type Piece = (f64, usize, bool);

/// Text in the making, and every piece of work.
struct Code {
    text: String,
    works: Vec<Piece>,
    actor: usize,
}

impl Code {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Work of this length; a piece of the same length, actor and place is the same piece.
    fn work(&mut self, ns: f64, between: bool) {
        let ns = ns.clamp(0.0, WORK_NS_MAX);
        if ns < 0.1 {
            return;
        }
        let piece = (ns, self.actor, between);
        let index = self.works.iter().position(|w| *w == piece).unwrap_or_else(|| {
            self.works.push(piece);
            self.works.len() - 1
        });
        self.line(&format!("    WORK({index})"));
    }

    /// The operations of one actor, and a round of them as often as they were seen.
    fn actor(&mut self, r: &Recording, side: &Native, mine: &[u32], name: &str) -> Result<(), NativeError> {
        for (i, &shape) in mine.iter().enumerate() {
            self.line(&format!("static NOINLINE uint64_t op_{name}_{i}(uint64_t x) {{"));
            if let Some(shape) = r.shapes.get(shape as usize) {
                self.operation(r, side, shape)?;
            }
            self.line("    return x;\n}");
        }
        self.line(&format!("static uint64_t round_{name}(uint64_t x) {{"));
        let round = turns(r, mine, if mine.len() == 1 { 1 } else { ROUND });
        for shape in &round {
            let i = mine.iter().position(|m| m == shape).unwrap_or(0);
            self.line(&format!("    x = op_{name}_{i}(x);"));
        }
        self.line("    return x;\n}");
        self.line(&format!("#define OPS_{name} {}", round.len()));
        Ok(())
    }

    fn operation(&mut self, r: &Recording, side: &Native, shape: &OperationShape) -> Result<(), NativeError> {
        self.work(shape.think_ns.clamp(1.0, WORK_NS_MAX), true);
        let lock = shape.lock.filter(|l| side.locks.contains_key(l));
        if let Some(l) = lock {
            self.lock(r, side, l, shape.shared, 0)?;
        }
        let steps = &shape.steps[..shape.steps.len().min(STEPS_MAX)];
        let mut held: Vec<(u32, bool)> = Vec::new();
        let mut i = 0;
        while let Some(step) = steps.get(i) {
            match *step {
                Step::Lock(l, shared) => {
                    self.lock(r, side, l as usize, shared, 0)?;
                    held.push((l, shared));
                }
                Step::Unlock(l, shared) => {
                    self.lock(r, side, l as usize, shared, 1)?;
                    held.retain(|h| h.0 != l);
                }
                Step::Visit(v) => i += self.visit(shape, side, &v, steps.get(i + 1)),
            }
            i += 1;
        }
        // Of an operation that was cut.
        for (l, shared) in held.into_iter().rev() {
            self.lock(r, side, l as usize, shared, 1)?;
        }
        lock.map_or(Ok(()), |l| self.lock(r, side, l, shape.shared, 1))
    }

    fn lock(
        &mut self,
        r: &Recording,
        side: &Native,
        lock: usize,
        shared: bool,
        verb: usize,
    ) -> Result<(), NativeError> {
        if let (Some(at), Some(held)) = (side.locks.get(&lock), r.locks.get(lock)) {
            self.line(&format!("    {}({at})", verbs(held.found.model, shared)?[verb]));
        }
        Ok(())
    }

    /// One access; a read and the write of the same bytes right after it are one increment. Returns how many steps
    /// more it took.
    fn visit(&mut self, shape: &OperationShape, side: &Native, v: &Visit, next: Option<&Step>) -> usize {
        self.work(f64::from(v.gap) * shape.access_ns, false);
        let Some(&(at, size)) = v.spot.and_then(|s| side.spots.get(s as usize)) else { return 0 };
        let bits = size * 8;
        if v.atomic {
            self.line(&format!("    ADD({bits}, {at})"));
            return 0;
        }
        let written =
            matches!(next, Some(Step::Visit(n)) if n.spot == v.spot && n.write && !n.atomic && n.gap <= 2);
        match (v.write, written) {
            (true, _) => self.line(&format!("    STORE({bits}, {at})")),
            (false, true) => {
                self.line(&format!("    INCREMENT({bits}, {at})"));
                return 1;
            }
            (false, false) => self.line(&format!("    LOAD({bits}, {at})")),
        }
        0
    }

    /// Lengths of work, the table of rounds, and how the locks are made.
    fn tables(&mut self, r: &Recording, sides: &[Native; 2]) -> Result<(), NativeError> {
        let piece = |(ns, actor, between): &Piece| format!("{{{ns:.2}, {actor}, {}}}", u8::from(*between));
        let works: Vec<String> = self.works.iter().map(piece).collect();
        let text = &mut self.text;
        // A string takes any text.
        let _ = writeln!(
            text,
            "#define WORKS {}\nstatic const struct piece works[WORKS + 1] = {{{}}};",
            works.len(),
            works.join(", ")
        );
        let shares: Vec<String> = r.shares().iter().map(|s| format!("{s:.9}")).collect();
        let _ = writeln!(text, "static const double share[THREADS] = {{{}}};", shares.join(", "));
        let _ = writeln!(text, "static const struct round rounds[2][KINDS][THREADS] = {{");
        for layout in 0..2 {
            for kind in 0..KINDS.len() {
                for actor in 0..r.actors {
                    let name = format!("{layout}_{kind}_{actor}");
                    let _ = writeln!(text, "    [{layout}][{kind}][{actor}] = {{round_{name}, OPS_{name}}},");
                }
            }
        }
        let _ = writeln!(text, "}};\nstatic void make_locks(void) {{");
        for (layout, side) in sides.iter().enumerate() {
            let _ = writeln!(text, "#undef MEMORY\n#define MEMORY memory[{layout}]");
            for (&lock, at) in &side.locks {
                if let Some(held) = r.locks.get(lock) {
                    let _ = writeln!(text, "    {}({at})", verbs(held.found.model, false)?[2]);
                }
            }
        }
        let _ = writeln!(text, "}}");
        Ok(())
    }
}
