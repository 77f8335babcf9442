//! Memory without a struct, by the pointer through which the code gets there: `hits[]`, `*total`.
//!
//! An array of numbers on the heap has no field names. Where the code says `hits[i]`, and `hits` is a global variable
//! or a member of a named struct, that is what its readers call it. Names of a function's own variables say nothing
//! elsewhere and are not used. Where code lines name different pointers, the memory stays without a name.

use std::collections::{BTreeMap, BTreeSet};

use tussle_evidence::{Basis, Evidence, Object, ObjectKind};
use tussle_model::TypeId;

use crate::image::{ImageId, Images};
use crate::nest;
use crate::retarget::Split;
use crate::types::Pending;
use crate::vote::{Group, Sighting};

/// Share of the code lines that name a pointer which must name this one.
const AGREEMENT_MIN: f32 = 0.75;

/// Bytes between two seen places that may belong to the same array: whose the bytes of a wider gap are is not known.
const GAP_MAX: u64 = 64;

/// Where one pointer was seen to lead in one object.
struct Reach {
    lines: BTreeSet<u32>,
    /// First byte and one past the last of what was touched, each with the code lines.
    seen: BTreeMap<(u64, u64), BTreeSet<u32>>,
    /// Some code takes any element of it.
    indexed: bool,
    /// What it points to, where all code agrees.
    ty: Option<(ImageId, TypeId)>,
}

impl Reach {
    fn is_array(&self) -> bool {
        self.indexed || self.seen.len() > 1
    }

    fn start(&self) -> u64 {
        self.seen.first_key_value().map_or(0, |((start, _), _)| *start)
    }

    /// Stretches without a wide gap.
    fn stretches(&self) -> Vec<Stretch> {
        let mut out: Vec<Stretch> = Vec::new();
        for ((start, end), lines) in &self.seen {
            match out.last_mut().filter(|s| *start <= s.end.saturating_add(GAP_MAX)) {
                Some(s) => {
                    s.end = s.end.max(*end);
                    s.lines.extend(lines);
                }
                None => out.push(Stretch { start: *start, end: *end, lines: lines.clone() }),
            }
        }
        out
    }
}

/// Bytes of an object that one pointer leads to.
struct Stretch {
    start: u64,
    end: u64,
    lines: BTreeSet<u32>,
}

/// What the code says about one object.
#[derive(Default)]
struct Heard<'a> {
    pointers: BTreeMap<&'a str, Reach>,
    /// Places where code sees something else, and its lines.
    others: Vec<(u64, u32)>,
}

/// Names what pointers lead to in memory that got no struct, and is none of the parts in `split`, to which it adds its
/// own. `groups` are those of [`crate::vote::groups`].
pub(crate) fn name(
    evidence: &mut Evidence,
    images: &Images,
    pending: &mut Pending,
    groups: &[Group],
    split: &mut Split,
) {
    for group in groups {
        for (id, heard) in heard(images, group, split) {
            let Some(object) = evidence.objects.get_mut(id as usize).filter(|o| is_open(o)) else { continue };
            let all = heard.pointers.values().flat_map(|r| &r.lines).collect::<BTreeSet<_>>().len();
            let most = heard.pointers.iter().find(|(_, r)| agrees(r.lines.len(), all));
            // Members of several structs may lead to several places, and memory from the system may hold anything
            // behind what a pointer leads to.
            let own = |p: &str, r: &Reach| match object.kind {
                ObjectKind::Heap => !p.contains('.') || r.stretches().len() == 1,
                _ => !p.contains('.') && r.start() == 0,
            };
            match (most, object.ty) {
                (Some((pointer, reach)), Some(ty)) if is_plain(images, pending, ty) => {
                    of_whole(object, images, pending, pointer, reach);
                }
                (Some((pointer, reach)), None)
                    if heard.others.is_empty() && reach.is_array() && own(pointer, reach) =>
                {
                    of_whole(object, images, pending, pointer, reach);
                }
                (_, None) => {
                    let parent = object.clone();
                    for (pointer, reach, part) in parts(&heard) {
                        let Some(piece) = of_part(&parent, images, pending, (pointer, reach), &part) else {
                            continue;
                        };
                        if !split.meets(id, part.start, part.start + piece.size) {
                            split.add(evidence, id, part.start, piece);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn agrees(lines: usize, all: usize) -> bool {
    lines > 0 && lines as f32 >= AGREEMENT_MIN * all as f32
}

fn is_open(o: &Object) -> bool {
    o.name.is_none() && matches!(o.kind, ObjectKind::Heap | ObjectKind::Mapped | ObjectKind::Unknown)
}

/// Numbers and pointers: what has no fields whose names would say more.
fn is_plain(images: &Images, pending: &Pending, handle: TypeId) -> bool {
    pending.of_image(handle).is_some_and(|(image, ty)| !nest::structured(&images.get(image).types, ty))
}

fn heard<'a>(images: &Images, group: &'a Group, split: &Split) -> BTreeMap<u32, Heard<'a>> {
    let mut out: BTreeMap<u32, Heard> = BTreeMap::new();
    for s in &group.sightings {
        let says = out.entry(s.object).or_default();
        if split.meets(s.object, s.offset, s.offset.saturating_add(u64::from(s.size))) {
            says.others.push((s.offset, s.line));
            continue;
        }
        let is_struct = |image: ImageId, ty| nest::structured(&images.get(image).types, ty);
        let Some((pointer, ty)) = pointer_of(s).filter(|(_, (image, ty))| !is_struct(*image, *ty)) else {
            if s.claims.iter().any(|c| c.ty.is_none_or(|ty| is_struct(c.image, ty))) {
                says.others.push((s.offset, s.line));
            }
            continue;
        };
        let fresh = || Reach { lines: BTreeSet::new(), seen: BTreeMap::new(), indexed: false, ty: Some(ty) };
        let reach = says.pointers.entry(pointer).or_insert_with(fresh);
        reach.lines.insert(s.line);
        let place = (s.offset, s.offset.saturating_add(u64::from(s.size)));
        reach.seen.entry(place).or_default().insert(s.line);
        reach.indexed |= s.claims.iter().any(|c| !c.strides.is_empty());
        reach.ty = reach.ty.filter(|r| r.0 == ty.0 && nest::same(&images.get(ty.0).types, r.1, ty.1));
    }
    out
}

/// The pointer that all claims of a sighting go through, and what it points to.
fn pointer_of(s: &Sighting) -> Option<(&str, (ImageId, TypeId))> {
    let first = s.claims.first()?;
    let held = first.held.as_deref()?;
    let same = s.claims.iter().all(|c| c.held.as_deref() == Some(held) && c.ty == first.ty);
    // Inside of a library's containers its own names would be all there is.
    (same && !held.contains("std::")).then_some((held, (first.image, first.ty?)))
}

/// Stretches whose bytes no other code sees as something else, those that most code lines name first.
fn parts<'a>(heard: &'a Heard) -> Vec<(&'a str, &'a Reach, Stretch)> {
    let of = |(pointer, r): (&&'a str, &'a Reach)| {
        let (pointer, array) = (*pointer, r.is_array());
        r.stretches().into_iter().filter(move |_| array || r.seen.len() == 1).map(move |s| (pointer, r, s))
    };
    let mut all: Vec<(&str, &Reach, Stretch)> = heard.pointers.iter().flat_map(of).collect();
    all.sort_by_key(|(pointer, _, s)| (std::cmp::Reverse(s.lines.len()), *pointer, s.start));
    let mut out: Vec<(&str, &Reach, Stretch)> = Vec::new();
    for (pointer, reach, s) in all {
        let elsewhere = heard.pointers.iter().filter(|(p, _)| **p != pointer).flat_map(|(_, r)| &r.seen);
        let meets = |start: u64, end: u64| s.start < end && start < s.end;
        let others = heard.others.iter().filter(|(at, _)| meets(*at, at + 1)).map(|(_, line)| line);
        let against: BTreeSet<u32> = elsewhere
            .filter(|((start, end), _)| meets(*start, *end))
            .flat_map(|(_, lines)| lines)
            .chain(others)
            .copied()
            .collect();
        let taken = out.iter().any(|(_, _, o)| meets(o.start, o.end));
        if !taken && agrees(s.lines.len(), s.lines.union(&against).count()) {
            out.push((pointer, reach, s));
        }
    }
    out
}

/// How certain: one line alone is worth 0.65, ten are worth 0.94.
fn confidence(lines: usize) -> f32 {
    let lines = lines as f32;
    (0.3 + lines) / (1.0 + lines)
}

fn why(pointer: &str, lines: usize) -> String {
    match lines {
        1 => format!("1 code line reaches it through `{pointer}`"),
        n => format!("{n} code lines reach it through `{pointer}`"),
    }
}

/// `hits`, and `(struct job.slots)`: an array of that member's own would be written without brackets.
fn written(pointer: &str) -> String {
    if pointer.contains(['.', ' ']) { format!("({pointer})") } else { pointer.to_string() }
}

/// The whole object is what the pointer points to.
fn of_whole(object: &mut Object, images: &Images, pending: &mut Pending, pointer: &str, reach: &Reach) {
    object.name = Some(written(pointer));
    let told = why(pointer, reach.lines.len());
    object.why = match object.ty {
        Some(_) => format!("{}; {told}", object.why),
        None => told,
    };
    if object.ty.is_some() {
        return;
    }
    let sized = reach.ty.and_then(|(image, ty)| Some((image, ty, images.get(image).types.size(ty)?)));
    let whole = sized.filter(|(_, _, size)| *size > 0 && object.size.is_multiple_of(*size));
    let Some((image, ty, size)) = whole else { return };
    object.ty = Some(pending.image(images, image, ty));
    object.count = object.size / size;
    object.confidence = confidence(reach.lines.len());
    object.basis = Some(Basis::Code);
}

/// A part of a block is.
fn of_part(
    parent: &Object,
    images: &Images,
    pending: &mut Pending,
    (pointer, reach): (&str, &Reach),
    part: &Stretch,
) -> Option<Object> {
    let (image, ty) = reach.ty?;
    let element = images.get(image).types.size(ty).filter(|s| *s > 0)?;
    let count = if reach.is_array() { (part.end - part.start) / element } else { 1 };
    let size =
        count.checked_mul(element).filter(|s| *s > 0 && part.start.saturating_add(*s) <= parent.size)?;
    let told = why(pointer, part.lines.len());
    let (name, counted) = match reach.is_array() {
        true => (written(pointer), ", elements counted from the first that was seen"),
        false => (format!("*{}", written(pointer)), ""),
    };
    Some(Object {
        base: parent.base.saturating_add(part.start),
        size,
        name: Some(name),
        ty: Some(pending.image(images, image, ty)),
        count,
        confidence: confidence(part.lines.len()),
        basis: Some(Basis::Code),
        why: format!("inside of a larger block: {told}{counted}"),
        align: 1 << (part.start | parent.align.max(1)).trailing_zeros(),
        ..parent.clone()
    })
}
