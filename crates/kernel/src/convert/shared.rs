//! Which member code is about where several share the bytes that it accesses. Of bit-fields those whose bits it masks,
//! tests or shifts; of a union those of the struct that its base register points to, and no callback's head where no
//! callback is handled.

use std::collections::{BTreeMap, HashMap};

use tussle_evidence::{Evidence, Object, Touch};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{MemberRole, Type, TypeId, TypeTable};

use crate::bits;
use crate::convert::Inputs;
use crate::image::KernelTypes;
use crate::typed::{Code, structure};

/// Members that are collected at one place.
const MEMBERS_MAX: usize = 64;

/// Members of a union that are named; where code may be about more it says nothing.
const NAMES_MAX: usize = 3;

/// What fewer of the samples may be about is not named.
const SAMPLES_SHARE_MIN: f64 = 0.02;

/// A scalar member at some bytes.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    /// From the object's type on.
    path: String,
    /// The struct that has it, and its first byte there.
    parent: Option<String>,
    at: u64,
    /// Of a bit-field: first bit from the object's start, and how many.
    bits: Option<(u64, u64)>,
}

/// Names them in touches that say nothing yet and have no role, as `a|b` where code may be about several: all code that
/// touches the bytes decides, because a row of a report is all of it.
pub(super) fn name(inputs: &Inputs, types: &KernelTypes, evidence: &mut Evidence) {
    let code = Code { symbols: &inputs.image.symbols, file: inputs.vmlinux };
    let mask = |at: u64| {
        let f = inputs.image.function_at(at)?;
        bits::touched(code.whole(f.start, f.end)?, f.start, at)
    };
    let base = |at: u64| -> Vec<(String, u64)> {
        let held = code.accessed(at).into_iter();
        let one = |(holder, at): (crate::typed::Holder, i64)| {
            let (ty, _) = structure(types, holder.entry)?;
            Some((types.table.aggregate(ty)?.name.clone()?, u64::try_from(at).ok()?))
        };
        held.filter_map(one).collect()
    };
    let mut masks: HashMap<u64, Option<u64>> = HashMap::new();
    let mut bases: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
    let mut places: BTreeMap<(TypeId, u64, u32), Place> = BTreeMap::new();
    let key = |objects: &[Object], t: &Touch| {
        let open = t.field.is_none() && t.role.is_none();
        open.then(|| Some((objects.get(t.object as usize)?.ty?, t.offset, t.size))).flatten()
    };
    for t in &evidence.touches {
        let Some(key) = key(&evidence.objects, t) else { continue };
        let place = places.entry(key).or_insert_with(|| Place::new(&evidence.types, key));
        let Some(at) = evidence.code.get(t.code as usize).map(|c| c.address).filter(|_| place.all.len() > 1)
        else {
            continue;
        };
        let may_be = match place.is_bits() {
            true => {
                let mask = masks.entry(at).or_insert_with(|| mask(at)).unwrap_or(u64::MAX);
                place.all.iter().map(|m| m.is_in(t.offset, mask)).collect()
            }
            false => of_union(&place.all, bases.entry(at).or_insert_with(|| base(at))),
        };
        place.add(&may_be, t.samples);
    }
    let said: BTreeMap<_, _> = places.into_iter().filter_map(|(k, p)| Some((k, p.said()?))).collect();
    for t in &mut evidence.touches {
        t.field = key(&evidence.objects, t).and_then(|k| said.get(&k).cloned()).or(t.field.take());
    }
}

/// Members that share bytes, and how many samples of code may be about each.
struct Place {
    all: Vec<Member>,
    samples: Vec<u64>,
    total: u64,
}

impl Place {
    fn new(types: &TypeTable, (ty, offset, size): (TypeId, u64, u32)) -> Place {
        let mut all = Vec::new();
        let here = Here { path: String::new(), start: 0, parent: None };
        members(types, ty, offset..offset.saturating_add(u64::from(size)), &here, 0, &mut all);
        Place { samples: vec![0; all.len()], all, total: 0 }
    }

    fn is_bits(&self) -> bool {
        self.all.iter().all(|m| m.bits.is_some())
    }

    fn add(&mut self, may_be: &[bool], samples: u64) {
        self.total += samples;
        self.samples.iter_mut().zip(may_be).filter(|(_, m)| **m).for_each(|(n, _)| *n += samples);
    }

    /// Those that code may be about, if that narrows them to few.
    fn said(&self) -> Option<String> {
        let counts = |n: u64| n > 0 && n as f64 >= SAMPLES_SHARE_MIN * self.total as f64;
        let left: Vec<&str> = self
            .all
            .iter()
            .zip(&self.samples)
            .filter(|(_, n)| counts(**n))
            .map(|(m, _)| m.path.as_str())
            .collect();
        let most = if self.is_bits() { usize::MAX } else { NAMES_MAX };
        let narrower = !left.is_empty() && left.len() < self.all.len() && left.len() <= most;
        narrower.then(|| left.join("|"))
    }
}

/// Those that the code's base registers point to, if they point to one of them; none that heads a callback otherwise.
fn of_union(all: &[Member], base: &[(String, u64)]) -> Vec<bool> {
    let pointed = |m: &Member| base.iter().any(|(name, at)| m.parent.as_ref() == Some(name) && m.at == *at);
    let left: Vec<bool> = all.iter().map(pointed).collect();
    if left.contains(&true) {
        return left;
    }
    all.iter().map(|m| m.parent.as_deref() != Some("callback_head")).collect()
}

impl Member {
    /// It has a bit in a mask of the bytes from `start` on.
    fn is_in(&self, start: u64, mask: u64) -> bool {
        let Some((first, count)) = self.bits else { return false };
        let of = |bit: u64| bit.checked_sub(start * 8).is_some_and(|b| b < 64 && mask >> b & 1 == 1);
        (first..first.saturating_add(count)).any(of)
    }
}

/// Where a walk is.
struct Here {
    path: String,
    /// First byte, from the object's start.
    start: u64,
    /// The struct, and where it begins.
    parent: Option<(String, u64)>,
}

/// Scalars that cover all bytes of `window`, and bit-fields that have a part of it. Arrays are one member.
fn members(
    types: &TypeTable,
    ty: TypeId,
    window: std::ops::Range<u64>,
    here: &Here,
    depth: usize,
    out: &mut Vec<Member>,
) {
    if depth > DEPTH_MAX || out.len() >= MEMBERS_MAX {
        return;
    }
    let ty = types.strip(ty);
    let Type::Aggregate(a) = types.get(ty) else {
        let (parent, begins) = here.parent.clone().unzip();
        let at = here.start - begins.unwrap_or(0);
        out.push(Member { path: here.path.clone(), parent, at, bits: None });
        return;
    };
    let parent = a.name.clone().map(|n| (n, here.start)).or_else(|| here.parent.clone());
    for m in a.members.iter().filter(|m| m.role != MemberRole::Static) {
        let path = match (&m.name, here.path.is_empty()) {
            (None, _) => here.path.clone(),
            (Some(n), true) => n.clone(),
            (Some(n), false) => format!("{}.{n}", here.path),
        };
        let start = here.start + m.offset();
        if let Some(bits) = m.bit_size {
            let first = here.start * 8 + m.offset_bits;
            let end = first + u64::from(bits);
            if first < window.end * 8 && window.start * 8 < end && m.name.is_some() {
                let bits = Some((first, u64::from(bits)));
                out.push(Member { path, parent: parent.clone().map(|p| p.0), at: start, bits });
            }
            continue;
        }
        let end = start.saturating_add(types.size(m.ty).unwrap_or(0));
        if start <= window.start && window.end <= end {
            let inner = Here { path, start, parent: parent.clone() };
            members(types, m.ty, window.clone(), &inner, depth + 1, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    /// `struct page { long flags; union { struct { struct list_head lru; long index; }; struct callback_head rcu; }; }`
    fn page() -> (TypeTable, TypeId) {
        let mut s = Sample::new(1000);
        let long = s.long();
        let list = s.structure("list_head", 16, &[("next", long, 0), ("prev", long, 8)]);
        let head = s.structure("callback_head", 16, &[("next", long, 0), ("func", long, 8)]);
        let page = s.structure("page", 32, &[("flags", long, 0), ("lru", list, 8), ("rcu", head, 8)]);
        (s.evidence().types, page)
    }

    fn at(window: std::ops::Range<u64>) -> Vec<Member> {
        let (types, page) = page();
        let (mut out, here) = (Vec::new(), Here { path: String::new(), start: 0, parent: None });
        members(&types, page, window, &here, 0, &mut out);
        out
    }

    fn paths(base: &[(&str, u64)], window: std::ops::Range<u64>) -> Vec<String> {
        let base: Vec<(String, u64)> = base.iter().map(|(n, at)| (n.to_string(), *at)).collect();
        let all = at(window);
        let left = of_union(&all, &base);
        all.into_iter().zip(left).filter(|(_, l)| *l).map(|(m, _)| m.path).collect()
    }

    #[test]
    fn of_a_union_the_member_that_code_points_to() {
        assert_eq!(paths(&[], 8..16), ["lru.next"], "no callback is handled");
        assert_eq!(paths(&[("list_head", 8)], 16..24), ["lru.prev"]);
        assert_eq!(paths(&[("callback_head", 8)], 16..24), ["rcu.func"]);
        assert_eq!(paths(&[("page", 16)], 16..24), ["lru.prev"], "the whole says nothing");
        assert_eq!(at(0..8).len(), 1);
        assert_eq!(at(4..12), [], "over two members");
    }

    #[test]
    fn of_bits_those_in_the_mask() {
        let bit = |n: u64| Member { path: format!("b{n}"), parent: None, at: 4, bits: Some((32 + n, 1)) };
        assert!(bit(0).is_in(4, 1) && !bit(1).is_in(4, 1) && bit(1).is_in(4, 0b10));
        assert!(!bit(0).is_in(5, u64::MAX), "in the byte before");
        let wide = Member { bits: Some((34, 3)), ..bit(0) };
        assert!(wide.is_in(4, 0b10000) && !wide.is_in(4, 0b11));
    }
}
