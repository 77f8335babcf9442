//! Pools: big blocks out of which the program makes small objects itself, and stacks, which hold variables.
//!
//! No allocation tells where such an object begins, but the code does: `it->refs` at byte 1048 says that a struct item
//! begins at 1048 − offset(refs). Where enough code lines agree, the piece becomes an object of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tussle_evidence::{Basis, Evidence, Object, ObjectKind};
use tussle_model::TypeId;

use crate::image::{ImageId, Images};
use crate::nest;
use crate::retarget::Split;
use crate::site::Claim;
use crate::stacks::Declared;
use crate::types::Pending;
use crate::vote::{Group, Nests, Sighting, agrees};

/// Share of the code lines in a piece that must agree with its type.
const AGREEMENT_MIN: f32 = 0.75;

/// One code line is believed when it names this many objects at regular distances.
const REGULAR_STARTS_MIN: usize = 3;

/// Alignment of a stack at a call, bytes (System V ABI of x86-64, AAPCS64).
const STACK_ALIGN: u64 = 16;

/// A type (of a variable, on stacks) that begins at some places.
struct Guess {
    image: ImageId,
    ty: TypeId,
    variable: Option<String>,
    lines: BTreeSet<u32>,
    /// Object → offsets in it, each with the code lines that say so.
    starts: BTreeMap<u32, BTreeMap<u64, BTreeSet<u32>>>,
}

impl Guess {
    /// How many of it were seen.
    fn seen(&self) -> u64 {
        self.starts.values().map(|s| s.len() as u64).sum()
    }
}

/// A piece of an object that a guess wants.
struct Wanted {
    object: u32,
    start: u64,
    end: u64,
    stride: Option<u64>,
    guess: usize,
}

/// Finds objects in the untyped ones of all groups.
pub(crate) fn carve(
    evidence: &mut Evidence,
    images: &Images,
    pending: &mut Pending,
    nests: &Nests,
    groups: &[Group],
    declared: &Declared,
) -> Split {
    let mut split = Split::default();
    for group in groups {
        let open =
            |id: u32| evidence.objects.get(id as usize).is_some_and(|o| o.ty.is_none() && o.name.is_none());
        let mut sightings: Vec<&Sighting> = group.sightings.iter().filter(|s| open(s.object)).collect();
        sightings.sort_by_key(|s| (s.object, s.offset));
        if sightings.is_empty() {
            continue;
        }
        let mut guesses = guesses(evidence, images, &sightings);
        guesses.sort_by_key(|g| std::cmp::Reverse((g.lines.len(), size_of(images, g))));
        let mut taken: HashMap<u32, BTreeMap<u64, (u64, usize)>> = HashMap::new();
        let (made, mut arrays) = (split.new.len(), BTreeMap::<u32, BTreeMap<usize, u64>>::new());
        let mut found: Vec<Wanted> = Vec::new();
        for wanted in pieces_of(evidence, images, &guesses) {
            let list = taken.entry(wanted.object).or_default();
            let guess = &guesses[wanted.guess];
            let Some(wanted) = beside(list, wanted, size_of(images, guess)) else { continue };
            let Some((agree, lines)) = believed(images, nests, guess, &wanted, &sightings) else { continue };
            list.insert(wanted.start, (wanted.end, wanted.guess));
            let Some(parent) = evidence.objects.get(wanted.object as usize) else { continue };
            let part = object_of(parent, guess, &wanted, images, (pending, declared), (agree, lines));
            split.add(evidence, wanted.object, wanted.start, part);
            if wanted.stride.is_some() {
                arrays.entry(wanted.object).or_default().entry(wanted.guess).or_insert(wanted.start);
            }
            found.push(wanted);
        }
        align_as_neighbours(&mut split.new[made..], &found, &arrays);
        let seen: Vec<u64> = guesses.iter().map(Guess::seen).collect();
        // All of a guess in one object live alike: once for each.
        let mut live: HashMap<(u32, usize), u64> = HashMap::new();
        for (object, wanted) in split.new[made..].iter_mut().zip(&found) {
            let (Some(parent), Some(taken)) =
                (evidence.objects.get(wanted.object as usize), taken.get(&wanted.object))
            else {
                continue;
            };
            let guess = (&guesses[wanted.guess], seen[wanted.guess]);
            let of_kind = live.entry((wanted.object, wanted.guess));
            object.live_max =
                *of_kind.or_insert_with(|| alive(images, parent, guess, wanted, (taken, declared)));
        }
    }
    for (id, found) in split.counts() {
        if let Some(o) = evidence.objects.get_mut(id as usize) {
            o.why = format!("what is left of it beside {found} objects found inside; {}", o.why);
        }
    }
    split
}

/// As much of a piece as is not another's already: the struct itself, of `size` bytes, at least.
fn beside(taken: &BTreeMap<u64, (u64, usize)>, wanted: Wanted, size: u64) -> Option<Wanted> {
    let before = taken.range(..=wanted.start).next_back().map_or(0, |(_, (end, _))| *end);
    let behind = taken.range(wanted.start..).next().map_or(u64::MAX, |(start, _)| *start);
    let end = wanted.end.min(behind);
    (before <= wanted.start && end >= wanted.start.saturating_add(size)).then_some(Wanted { end, ..wanted })
}

/// Where several arrays lie in one block, the least aligned of them tells to what its allocator aligns: what begins on
/// a line by luck may begin elsewhere in the next configuration. `arrays`: parent → guess → first start.
fn align_as_neighbours(new: &mut [Object], found: &[Wanted], arrays: &BTreeMap<u32, BTreeMap<usize, u64>>) {
    for (object, wanted) in new.iter_mut().zip(found) {
        let Some(starts) = arrays.get(&wanted.object).filter(|a| a.len() > 1) else { continue };
        let bits = starts.values().fold(0, |all, start| all | start);
        if bits != 0 {
            object.align = object.align.min(1 << bits.trailing_zeros());
        }
    }
}

fn size_of(images: &Images, g: &Guess) -> u64 {
    images.get(g.image).types.size(g.ty).unwrap_or(0)
}

/// Where a claim says that its struct begins; `None` when an unknown index lies in between.
fn start_of(images: &Images, claim: &Claim, offset: u64) -> Option<(TypeId, u64)> {
    let ty = claim.ty?;
    let table = &images.get(claim.image).types;
    let whole = table.size(ty)?;
    // `p[i].f` names an element wherever it is.
    let fixed = claim.strides.iter().all(|s| *s == whole);
    let named = claim.variable.is_some() || nest::structured(table, ty);
    (fixed && named && whole > 0).then_some((ty, offset.checked_sub(claim.offset)?))
}

fn guesses(evidence: &Evidence, images: &Images, sightings: &[&Sighting]) -> Vec<Guess> {
    let mut out: Vec<Guess> = Vec::new();
    for s in sightings {
        let [claim] = s.claims.as_slice() else { continue };
        let Some(object) = evidence.objects.get(s.object as usize) else { continue };
        let stack = object.kind == ObjectKind::Stack;
        let variable = match &claim.variable {
            Some((_, true)) if stack => local(s, claim),
            Some(_) => continue,
            None => None,
        };
        let Some((ty, start)) = start_of(images, claim, s.offset) else { continue };
        let table = &images.get(claim.image).types;
        if start.saturating_add(table.size(ty).unwrap_or(u64::MAX)) > object.size {
            continue;
        }
        let known = out
            .iter_mut()
            .find(|g| g.image == claim.image && nest::same(table, g.ty, ty) && g.variable == variable);
        let guess = match known {
            Some(g) => g,
            None => {
                out.push(Guess {
                    image: claim.image,
                    ty,
                    variable,
                    lines: BTreeSet::new(),
                    starts: BTreeMap::new(),
                });
                let last = out.len() - 1;
                &mut out[last]
            }
        };
        guess.lines.insert(s.line);
        guess.starts.entry(s.object).or_default().entry(start).or_default().insert(s.line);
    }
    join_pointers(images, &mut out);
    for g in &mut out {
        let size = size_of(images, g);
        g.starts.values_mut().for_each(|starts| drop_outvoted(starts, size));
    }
    out.retain(|g| {
        let most = g.starts.values().map(BTreeMap::len).max().unwrap_or(0);
        g.lines.len() >= 2 || most >= REGULAR_STARTS_MIN || g.variable.is_some()
    });
    out
}

/// The variable of a function in which a claim begins.
fn local(s: &Sighting, claim: &Claim) -> Option<String> {
    let (name, _) = claim.variable.as_ref()?;
    Some(format!("{}::{name}", claim.function.as_deref().unwrap_or(&s.function)))
}

/// Code that names a variable speaks of what pointers of its type point to, where it begins.
fn join_pointers(images: &Images, guesses: &mut [Guess]) {
    let (variables, mut pointed): (Vec<&mut Guess>, Vec<&mut Guess>) =
        guesses.iter_mut().partition(|g| g.variable.is_some());
    for g in &mut pointed {
        let table = &images.get(g.image).types;
        for v in variables.iter().filter(|v| v.image == g.image && nest::same(table, g.ty, v.ty)) {
            for (object, starts) in &mut g.starts {
                for (at, lines) in v.starts.get(object).into_iter().flatten() {
                    if let Some(own) = starts.get_mut(at) {
                        own.extend(lines);
                        g.lines.extend(lines);
                    }
                }
            }
        }
    }
}

/// Of starts too close to each other to be two objects, the one with more code lines stays: a lock is touched anywhere
/// inside by one call, which says a start too far behind.
fn drop_outvoted(starts: &mut BTreeMap<u64, BTreeSet<u32>>, size: u64) {
    let votes: Vec<(u64, usize)> = starts.iter().map(|(at, lines)| (*at, lines.len())).collect();
    let near = |at: u64| {
        let first = votes.partition_point(|v| v.0.saturating_add(size) <= at);
        votes[first..].iter().take_while(move |v| v.0 < at.saturating_add(size))
    };
    starts.retain(|at, lines| near(*at).all(|v| v.1 <= lines.len()));
}

/// Pieces of all guesses, those of the first guess first.
fn pieces_of(evidence: &Evidence, images: &Images, guesses: &[Guess]) -> Vec<Wanted> {
    let mut out = Vec::new();
    for (i, guess) in guesses.iter().enumerate() {
        let size = size_of(images, guess);
        let flexible = nest::flexible(&images.get(guess.image).types, guess.ty);
        for (&object, starts) in &guess.starts {
            let Some(bytes) = evidence.objects.get(object as usize).map(|o| o.size) else { continue };
            let starts: Vec<u64> = starts.keys().copied().collect();
            let step = starts.windows(2).fold(0, |g, w| gcd(g, w[1] - w[0]));
            let stride = (starts.len() >= REGULAR_STARTS_MIN && step >= size).then_some(step);
            for (k, &start) in starts.iter().enumerate() {
                let next = starts.get(k + 1).copied().unwrap_or(bytes);
                // What follows a struct up to the next one belongs to it, if it may have a tail.
                let length = match stride {
                    Some(s) if flexible || s < 2 * size => s,
                    _ => size,
                };
                let end = start.saturating_add(length).min(next).min(bytes);
                if end >= start.saturating_add(size) {
                    out.push(Wanted { object, start, end, stride, guess: i });
                }
            }
        }
    }
    out
}

/// Code lines in the piece that agree, and all that speak, if they are enough. `sightings` are in order of object and
/// offset.
fn believed(
    images: &Images,
    nests: &Nests,
    guess: &Guess,
    wanted: &Wanted,
    sightings: &[&Sighting],
) -> Option<(u32, u32)> {
    let table = &images.get(guess.image).types;
    let mut by_line: BTreeMap<u32, bool> = BTreeMap::new();
    let first = sightings.partition_point(|s| (s.object, s.offset) < (wanted.object, wanted.start));
    let last = sightings.partition_point(|s| (s.object, s.offset) < (wanted.object, wanted.end));
    for s in &sightings[first..last] {
        let own = guess.variable.is_some()
            && s.claims.iter().any(|c| {
                // To set the whole of it is told wherever a store goes to.
                let inside = s.offset - wanted.start < size_of(images, guess);
                let starts = || start_of(images, c, s.offset).is_some_and(|x| x.1 == wanted.start);
                local(s, c) == guess.variable && (c.field.is_empty() && inside || starts())
            });
        let says = if own {
            Some(true)
        } else if s.claims.iter().all(|c| c.variable.is_some()) {
            // Another variable was here at another time.
            guess.variable.is_some().then_some(false)
        } else {
            agrees(nests, table, guess.image, guess.ty, s.offset - wanted.start, &s.claims)
        };
        if let Some(says) = says {
            let line = by_line.entry(s.line).or_insert(says);
            *line = *line && says;
        }
    }
    let (agree, lines) = (by_line.values().filter(|v| **v).count() as u32, by_line.len() as u32);
    (agree > 0 && agree as f32 >= AGREEMENT_MIN * lines as f32).then_some((agree, lines))
}

fn object_of(
    parent: &Object,
    guess: &Guess,
    wanted: &Wanted,
    images: &Images,
    (pending, declared): (&mut Pending, &Declared),
    (agree, lines): (u32, u32),
) -> Object {
    let align = match &guess.variable {
        // A stack begins anywhere, in steps of its alignment; what a function holds there lies alike in all calls.
        Some(name) if parent.kind == ObjectKind::Stack => {
            let asked = declared.align(guess.image, name.rsplit("::").next().unwrap_or(name));
            let lies = parent.base.saturating_add(wanted.start) | STACK_ALIGN;
            asked.max(1 << lies.trailing_zeros())
        }
        _ => {
            let steps = wanted.start | wanted.stride.unwrap_or(0) | parent.align.max(1);
            1 << steps.trailing_zeros()
        }
    };
    let all = guess.lines.len() as f32;
    let share = agree as f32 / lines as f32;
    let what = if parent.kind == ObjectKind::Stack { "on a stack" } else { "inside of a larger block" };
    let bytes = wanted.end - wanted.start;
    Object {
        base: parent.base.saturating_add(wanted.start),
        size: bytes,
        name: guess.variable.clone(),
        ty: Some(pending.image(images, guess.image, guess.ty)),
        count: 1,
        // One line alone is worth 0.65, ten are worth 0.94.
        confidence: share * (0.3 + all) / (1.0 + all),
        basis: Some(Basis::Code),
        why: format!(
            "{what}: {agree} of {lines} code lines that touch it agree ({all} lines name such objects)"
        ),
        align,
        ..parent.clone()
    }
}

/// How many such objects live at once: a block of the heap is full of what lies in it at regular distances, up to where
/// something else was found in it; a stack is not, it holds what its functions declare. Never fewer than were seen.
fn alive(
    images: &Images,
    parent: &Object,
    (guess, seen): (&Guess, u64),
    wanted: &Wanted,
    (taken, declared): (&BTreeMap<u64, (u64, usize)>, &Declared),
) -> u64 {
    match wanted.stride {
        _ if parent.kind == ObjectKind::Stack && guess.variable.is_none() => {
            declared.alive(images, guess.image, guess.ty).max(seen)
        }
        Some(s) if parent.kind != ObjectKind::Stack => {
            parent.live_max.saturating_mul(room(taken, wanted.guess, parent.size, s)).max(seen)
        }
        // Every block of that allocation has as many of them, also where only one thread came and nothing was kept.
        _ if parent.kind == ObjectKind::Heap => {
            let here = taken.values().filter(|(_, g)| *g == wanted.guess).count() as u64;
            parent.live_max.saturating_mul(here).max(seen)
        }
        _ => seen,
    }
}

/// Places at a regular distance between the nearest other things before the first and behind the last of a kind.
fn room(taken: &BTreeMap<u64, (u64, usize)>, guess: usize, bytes: u64, stride: u64) -> u64 {
    let mut own = taken.iter().filter(|(_, (_, g))| *g == guess).map(|(start, _)| *start);
    let Some(first) = own.next() else { return 0 };
    let last = own.next_back().unwrap_or(first);
    let other = |(_, (_, g)): &(&u64, &(u64, usize))| *g != guess;
    let before = taken.range(..first).filter(other).map(|(_, (end, _))| *end).next_back().unwrap_or(0);
    let behind = taken.range(last..).filter(other).map(|(start, _)| *start).next().unwrap_or(bytes);
    let stride = stride.max(1);
    first.saturating_sub(before) / stride + behind.saturating_sub(first) / stride
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
