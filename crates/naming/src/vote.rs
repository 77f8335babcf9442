//! Types of untyped memory: what the allocation site says, held against what the code that touches it says.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use tussle_evidence::tables::MALLOC_ALIGN;
use tussle_evidence::{Basis, Evidence, Object, ObjectKind, TouchKind};
use tussle_model::{TypeId, TypeTable};

use crate::alloc::{self, Candidate, Fit};
use crate::image::{ImageId, Images};
use crate::lives::TouchKey;
use crate::nest;
use crate::site::{Claim, Sites};
use crate::types::Pending;

/// Below this confidence a type is not given: bytes without a name are better than a wrong name.
const CONFIDENCE_MIN: f32 = 0.62;

/// Elements of an array inside of one struct that are tried at most.
const ELEMENTS_MAX: u64 = 4096;

/// Sightings of one group that are counted at about most; more of them say the same.
const SIGHTINGS_COUNTED: usize = 20_000;

/// Sightings that are kept of one group; pools need them one by one.
const SIGHTINGS_MAX: usize = 4_000_000;

/// Types from the touching code that are tried for one group at most, the most named first.
const CANDIDATES_MAX: usize = 12;

/// Outer and inner type → where the inner one begins.
type Known = HashMap<(ImageId, TypeId, TypeId), Rc<Vec<nest::Places>>>;

/// Where types begin inside of others, each pair worked out once.
#[derive(Default)]
pub(crate) struct Nests {
    known: RefCell<Known>,
}

impl Nests {
    fn places(
        &self,
        table: &TypeTable,
        image: ImageId,
        outer: TypeId,
        inner: TypeId,
    ) -> Rc<Vec<nest::Places>> {
        let mut known = self.known.borrow_mut();
        known
            .entry((image, outer, inner))
            .or_insert_with(|| Rc::new(nest::places(table, outer, inner)))
            .clone()
    }
}

/// Touches of one code line at one place in an object.
#[derive(Clone)]
pub(crate) struct Sighting {
    pub object: u32,
    pub offset: u64,
    /// What identifies the code line: file, line, column.
    pub line: u32,
    /// Bytes touched.
    pub size: u32,
    /// Innermost function.
    pub function: Rc<str>,
    pub claims: Rc<Vec<Claim>>,
}

/// Everything that is known of the objects of one allocation site.
#[derive(Default)]
pub(crate) struct Group {
    pub objects: Vec<u32>,
    pub sightings: Vec<Sighting>,
    /// The highest offset at which any of the objects was touched.
    pub furthest: u64,
}

/// Reads what the code says about each touch, writes `field` of the touches, and groups untyped objects. Also gives the
/// code line of every touch as [`Sighting::line`] numbers them, `u32::MAX` for none.
pub(crate) fn groups(
    evidence: &mut Evidence,
    images: &mut Images,
    sites: &mut Sites,
) -> (Vec<Group>, Vec<u32>) {
    let mut keys: HashMap<Vec<(ImageId, u64)>, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut of_object: HashMap<u32, usize> = HashMap::new();
    for (id, object) in evidence.objects.iter().enumerate() {
        let kinds = [ObjectKind::Heap, ObjectKind::Stack, ObjectKind::Mapped, ObjectKind::Unknown];
        let memory = object.name.is_none() && kinds.contains(&object.kind);
        if object.ty.is_some() || !(memory || was_allocated(object)) {
            continue;
        }
        let key = site_key(evidence, images, object.alloc_code);
        let group = match key {
            Some(key) => *keys.entry(key).or_insert(groups.len()),
            None => groups.len(),
        };
        if group == groups.len() {
            groups.push(Group::default());
        }
        groups[group].objects.push(id as u32);
        of_object.insert(id as u32, group);
    }
    let mut claims: HashMap<(u32, TouchKind, u32), Rc<Vec<Claim>>> = HashMap::new();
    let mut seen: HashSet<(u32, u64, u32, u32)> = HashSet::new();
    let mut lines: HashMap<(String, u32, u32), u32> = HashMap::new();
    let mut line_of_code = vec![u32::MAX; evidence.code.len()];
    let mut line_of = vec![u32::MAX; evidence.touches.len()];
    // Neighbouring words are touched alike, mostly: what was asked last.
    let mut last: Option<((u32, TouchKind, u32), Rc<Vec<Claim>>)> = None;
    for i in 0..evidence.touches.len() {
        let t = &evidence.touches[i];
        let (object, offset, code, kind, size) = (t.object, t.offset, t.code, t.kind, t.size);
        let key = (code, kind, size);
        let said = match last.as_ref().filter(|l| l.0 == key).map(|l| &l.1).or_else(|| claims.get(&key)) {
            Some(known) => known.clone(),
            None => {
                let read = Rc::new(sites.claims(evidence, images, code, kind, size));
                claims.insert(key, read.clone());
                read
            }
        };
        last = Some((key, said.clone()));
        evidence.touches[i].field = one_field(&said);
        let Some(&group) = of_object.get(&object) else { continue };
        groups[group].furthest = groups[group].furthest.max(offset);
        if said.is_empty() {
            continue;
        }
        let Some(frame) = evidence.code.get(code as usize).and_then(|c| c.frames.first()) else { continue };
        let line = match line_of_code[code as usize] {
            u32::MAX => {
                let next = lines.len() as u32;
                *lines.entry((frame.file.clone(), frame.line, frame.column)).or_insert(next)
            }
            known => known,
        };
        (line_of_code[code as usize], line_of[i]) = (line, line);
        // The same line at the same place says the same, whoever called it; another size may be another field.
        if groups[group].sightings.len() >= SIGHTINGS_MAX || !seen.insert((object, offset, line, size)) {
            continue;
        }
        let function = Rc::from(frame.function.as_str());
        groups[group].sightings.push(Sighting { object, offset, line, size, function, claims: said });
    }
    (groups, line_of)
}

/// An allocation of a fixed size that one pointer keeps for good: clang makes it a variable, with a name after the
/// pointer's and without a type.
fn was_allocated(object: &Object) -> bool {
    let name = object.name.as_deref().unwrap_or("");
    object.kind == ObjectKind::Global && object.ty.is_none() && name.ends_with(".body")
}

/// The field, when all claims name the same.
fn one_field(claims: &[Claim]) -> Option<String> {
    let first = claims.first().map(|c| &c.field).filter(|f| !f.is_empty())?;
    claims.iter().all(|c| c.field == *first).then(|| first.clone())
}

/// Allocations with the same call and the same callers make the same things.
fn site_key(evidence: &Evidence, images: &mut Images, alloc: Option<u32>) -> Option<Vec<(ImageId, u64)>> {
    let row = evidence.code.get(alloc? as usize)?;
    let mut key = Vec::new();
    for id in std::iter::once(alloc?).chain(row.chain.iter().copied()) {
        let Some(c) = evidence.code.get(id as usize) else { break };
        let Some(module) = c.module else { break };
        let Some(image) = images.of_module(evidence, module) else { break };
        key.push((image, c.address.wrapping_sub(evidence.modules[module as usize].bias)));
    }
    (!key.is_empty()).then_some(key)
}

/// Gives the objects of a group a type, or says why not. Returns where code contradicts the type at objects of `reused`
/// memory.
pub(crate) fn decide(
    evidence: &mut Evidence,
    images: &mut Images,
    sites: &mut Sites,
    pending: &mut Pending,
    nests: &Nests,
    group: &Group,
    reused: &HashSet<u32>,
) -> Vec<TouchKey> {
    let Some(&first) = group.objects.first() else { return Vec::new() };
    let whole = [ObjectKind::Heap, ObjectKind::Mapped];
    if !evidence.objects.get(first as usize).is_some_and(|o| whole.contains(&o.kind) || was_allocated(o)) {
        return Vec::new();
    }
    let largest =
        group.objects.iter().filter_map(|o| evidence.objects.get(*o as usize)).map(|o| o.size).max();
    let bytes = largest.unwrap_or(0);
    let frames = match evidence.objects[first as usize].alloc_code {
        Some(code) => sites.of_code(evidence, images, code),
        None => Vec::new(),
    };
    let mut candidates = alloc::candidates(sites, images, &frames, bytes);
    // Where the allocation names a type, one code line alone does not overrule it.
    let prior = if candidates.is_empty() { 0.3 } else { 0.1 };
    candidates.extend(from_claims(evidence, images, group, prior));
    let (best, guess) = likeliest(evidence, images, nests, group, &candidates);
    for &id in &group.objects {
        let Some(object) = evidence.objects.get_mut(id as usize) else { continue };
        let Some((confidence, _, why, c)) = &best else {
            object.why = match &guess {
                Some((_, text)) => text.clone(),
                None => "neither the allocation nor the code that touches it names a type".into(),
            };
            continue;
        };
        let table = &images.get(c.image).types;
        // Where no code was seen behind the first element, a block may just be longer than the struct in it: nobody
        // said how long it should be, or it was filled up to a line.
        let first = table.size(c.ty).is_none_or(|element| group.furthest < element);
        let filled = |element: u64| {
            object.align > MALLOC_ALIGN
                && element.div_ceil(object.align) == object.size.div_ceil(object.align)
        };
        let one = first && (c.basis == Basis::Code || table.size(c.ty).is_some_and(filled));
        object.count = match c.fit(table, object.size) {
            Fit::Elements(_) if one => 1,
            Fit::Elements(n) => n,
            Fit::Header => 1,
            Fit::No => {
                object.why = format!("smaller than {}, which the same site allocates", table.name(c.ty));
                continue;
            }
        };
        object.ty = Some(pending.image(images, c.image, c.ty));
        object.confidence = *confidence;
        object.basis = Some(c.basis);
        object.why = why.clone();
    }
    match best {
        Some((_, _, _, c)) => contradictions(evidence, images, nests, group, reused, c),
        None => Vec::new(),
    }
}

/// Confidence, size and reason.
type Choice<'a> = (f32, u64, String, &'a Candidate);

/// The candidate that the code confirms best, and the best of those that it does not confirm enough.
fn likeliest<'a>(
    evidence: &Evidence,
    images: &Images,
    nests: &Nests,
    group: &Group,
    candidates: &'a [Candidate],
) -> (Option<Choice<'a>>, Option<(f32, String)>) {
    let mut best: Option<Choice> = None;
    let mut guess: Option<(f32, String)> = None;
    for c in candidates {
        let table = &images.get(c.image).types;
        let votes = count(evidence, nests, table, group, c);
        let confidence = confidence(c.prior, &votes);
        let why = reason(c, &votes);
        if confidence >= CONFIDENCE_MIN {
            let size = table.size(c.ty).unwrap_or(0);
            if best.as_ref().is_none_or(|(b, s, _, _)| (confidence, size) > (*b, *s)) {
                best = Some((confidence, size, why, c));
            }
        } else if guess.as_ref().is_none_or(|(g, _)| confidence > *g) {
            guess = Some((confidence, format!("not sure enough of {}: {why}", table.name(c.ty))));
        }
    }
    (best, guess)
}

/// Where code contradicts the type that its object got, at objects of `reused` memory.
fn contradictions(
    evidence: &Evidence,
    images: &Images,
    nests: &Nests,
    group: &Group,
    reused: &HashSet<u32>,
    c: &Candidate,
) -> Vec<TouchKey> {
    let table = &images.get(c.image).types;
    let typed = |s: &Sighting| evidence.objects.get(s.object as usize).is_some_and(|o| o.ty.is_some());
    let contradicts = |s: &&Sighting| {
        let offset = offset_in(evidence, table, c, s);
        reused.contains(&s.object)
            && typed(s)
            && agrees(nests, table, c.image, c.ty, offset, &s.claims) == Some(false)
    };
    let place = |s: &Sighting| (s.object, s.offset, s.line, s.size);
    group.sightings.iter().filter(contradicts).map(place).collect()
}

/// Where in the candidate's type a sighting lies, when its object holds one or an array of them.
fn offset_in(evidence: &Evidence, table: &TypeTable, c: &Candidate, s: &Sighting) -> u64 {
    let stride = table.size(c.ty).unwrap_or(0);
    let bytes = evidence.objects.get(s.object as usize).map_or(0, |o| o.size);
    let array = matches!(c.fit(table, bytes), Fit::Elements(n) if n > 1);
    if array && stride > 0 { s.offset % stride } else { s.offset }
}

/// Types that the touching code speaks of, the most named first.
fn from_claims(evidence: &Evidence, images: &Images, group: &Group, prior: f32) -> Vec<Candidate> {
    let mut named: HashMap<(ImageId, TypeId), (u64, u64)> = HashMap::new();
    for s in &group.sightings {
        let [claim] = s.claims.as_slice() else { continue };
        let (Some(ty), None) = (claim.ty, &claim.variable) else { continue };
        let bytes = evidence.objects.get(s.object as usize).map_or(0, |o| o.size);
        let entry = named.entry((claim.image, images.get(claim.image).types.strip(ty))).or_default();
        *entry = (entry.0 + 1, entry.1.max(bytes));
    }
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_unstable_by_key(|((image, ty), (n, _))| (std::cmp::Reverse(*n), *image, *ty));
    let mut out: Vec<Candidate> = Vec::new();
    for ((image, ty), (_, bytes)) in named {
        let table = &images.get(image).types;
        let fits = match alloc::fit(table, ty, bytes) {
            Fit::Elements(_) => true,
            Fit::Header => nest::flexible(table, ty),
            Fit::No => false,
        };
        let known = out.iter().any(|c| c.image == image && nest::same(table, c.ty, ty));
        if fits && !known && nest::structured(table, ty) && out.len() < CANDIDATES_MAX {
            let why = "what the code that touches it says".to_string();
            out.push(Candidate { image, ty, prior, basis: Basis::Code, why, leads: false });
        }
    }
    out
}

/// Code lines for and against a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Votes {
    pub agree: u32,
    pub lines: u32,
}

/// Sightings of one code line that take part in its vote.
const SIGHTINGS_PER_LINE_MAX: u32 = 48;

fn count(evidence: &Evidence, nests: &Nests, table: &TypeTable, group: &Group, c: &Candidate) -> Votes {
    let mut by_line: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    let step = group.sightings.len() / SIGHTINGS_COUNTED + 1;
    for s in group.sightings.iter().step_by(step) {
        // Every byte of a buffer may be a sighting of its own; a line's vote is clear after a few.
        if by_line.get(&s.line).is_some_and(|(_, all)| *all >= SIGHTINGS_PER_LINE_MAX) {
            continue;
        }
        let offset = offset_in(evidence, table, c, s);
        // What lies behind a header is something else.
        let ends = || table.size(c.ty).filter(|_| c.leads && !nest::flexible(table, c.ty));
        if ends().is_some_and(|size| offset >= size) {
            continue;
        }
        let Some(says) = agrees(nests, table, c.image, c.ty, offset, &s.claims) else { continue };
        let entry = by_line.entry(s.line).or_default();
        entry.1 += 1;
        entry.0 += u32::from(says);
    }
    let lines = by_line.len() as u32;
    let agree = by_line.values().filter(|(yes, all)| 2 * yes > *all).count() as u32;
    Votes { agree, lines }
}

/// Whether claims fit byte `offset` of a `ty`; `None` when they say nothing about memory behind a pointer.
pub(crate) fn agrees(
    nests: &Nests,
    table: &TypeTable,
    image: ImageId,
    ty: TypeId,
    offset: u64,
    claims: &[Claim],
) -> Option<bool> {
    let mut heard = false;
    for c in claims {
        if c.variable.is_some() || c.image != image {
            continue;
        }
        match c.ty {
            Some(root) if nest::structured(table, root) => {
                heard = true;
                if inside(nests, table, image, ty, offset, root, c) {
                    return Some(true);
                }
            }
            Some(root) if !nest::structured(table, ty) && !nest::raw_bytes(table, root) => {
                heard = true;
                if nest::holds(table, ty, 0, root) {
                    return Some(true);
                }
            }
            Some(_) => {}
            None => {
                heard = true;
                if nest::member_covers(table, ty, offset, &c.field) {
                    return Some(true);
                }
            }
        }
    }
    heard.then_some(false)
}

/// The claim's struct begins where it would have to, inside `ty`.
fn inside(
    nests: &Nests,
    table: &TypeTable,
    image: ImageId,
    ty: TypeId,
    offset: u64,
    root: TypeId,
    c: &Claim,
) -> bool {
    let Some(rest) = offset.checked_sub(c.offset) else { return false };
    let places = nests.places(table, image, ty, root);
    // Inside of a struct that is named as a whole (a lock) any byte may be touched.
    let within = if c.scalar { 0 } else { c.size.unwrap_or(0).saturating_sub(1) };
    let begins = |at: u64| places.iter().any(|p| p.meets(at.saturating_sub(within), at));
    if begins(rest) {
        return true;
    }
    // With several strides the smallest is tried; an element of `p[i]` is a `root` anyway.
    let whole = table.size(root).unwrap_or(0);
    let step = c.strides.iter().copied().filter(|s| *s > 0 && *s < whole).min();
    let Some(step) = step else { return false };
    (1..=(rest.min(whole) / step).min(ELEMENTS_MAX)).any(|k| begins(rest - k * step))
}

/// A weighted mean of the prior (as good as two code lines, or one when only the code speaks) and the votes.
fn confidence(prior: f32, votes: &Votes) -> f32 {
    let weight = if prior >= 0.5 { 2.0 } else { 1.0 };
    (weight * prior + votes.agree as f32) / (weight + votes.lines as f32)
}

fn reason(c: &Candidate, votes: &Votes) -> String {
    match votes.lines {
        0 => c.why.clone(),
        1 => format!("{}, {} of 1 code line agrees", c.why, votes.agree),
        n => format!("{}, {} of {n} code lines agree", c.why, votes.agree),
    }
}
