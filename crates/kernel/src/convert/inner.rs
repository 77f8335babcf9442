//! Names of bytes in objects whose type nothing tells: bare pages, general objects, what lies behind a struct. The
//! instruction's base register held a variable that points to a struct; then the bytes are that struct's member.

use std::collections::{BTreeMap, HashMap};

use tussle_evidence::{Evidence, Touch};
use tussle_model::leaf::{Arrays, leaf_at, leaves};

use crate::convert::Inputs;
use crate::image::KernelTypes;
use crate::place::{Owner, TypeWish};
use crate::typed::{Code, Holder, structure};

/// Variables in the base registers of code, with the displacement of its operand; by code row.
pub(super) type Bases = BTreeMap<u32, Vec<(Holder, i64)>>;

/// Asks for the code that touches objects which may stay without a type.
pub(super) fn bases(inputs: &Inputs, evidence: &Evidence, objects: &[Owner]) -> Bases {
    let code = Code { symbols: &inputs.image.symbols, file: inputs.vmlinux };
    let sure = |p: &Owner| matches!(p.ty, TypeWish::Named(_) | TypeWish::Entry(_));
    let open = |o: u32| objects.get(o as usize).is_some_and(|p| !sure(p));
    let mut out = Bases::new();
    for t in evidence.touches.iter().filter(|t| t.field.is_none() && open(t.object)) {
        let Some(row) = evidence.code.get(t.code as usize) else { continue };
        out.entry(t.code).or_insert_with(|| code.accessed(row.address));
    }
    out
}

/// Names the touches of objects without a type, where all variables agree.
pub(super) fn name(types: &KernelTypes, bases: &Bases, evidence: &mut Evidence) {
    let mut known: HashMap<u32, Option<String>> = HashMap::new();
    let untyped: Vec<bool> = evidence.objects.iter().map(|o| o.ty.is_none()).collect();
    for t in evidence.touches.iter_mut().filter(|t| t.field.is_none()) {
        if untyped.get(t.object as usize) != Some(&true) {
            continue;
        }
        let member = || bases.get(&t.code).and_then(|held| member(types, held));
        t.field = known.entry(t.code).or_insert_with(member).clone();
    }
    spread(&untyped, &mut evidence.touches);
}

/// Code whose own variables say nothing touches the same bytes: they are what all others call them.
fn spread(untyped: &[bool], touches: &mut [Touch]) {
    let open = |t: &Touch| untyped.get(t.object as usize) == Some(&true) && t.role.is_none();
    let mut said: HashMap<(u32, u64, u32), Option<String>> = HashMap::new();
    for t in touches.iter().filter(|t| open(t) && t.field.is_some()) {
        let all = said.entry((t.object, t.offset, t.size)).or_insert_with(|| t.field.clone());
        *all = all.take().filter(|one| Some(one) == t.field.as_ref());
    }
    for t in touches.iter_mut().filter(|t| open(t) && t.field.is_none()) {
        t.field = said.get(&(t.object, t.offset, t.size)).cloned().flatten();
    }
}

/// `struct x.member`, if every variable says the same.
fn member(types: &KernelTypes, held: &[(Holder, i64)]) -> Option<String> {
    let one = |(holder, at): &(Holder, i64)| {
        let (ty, size) = structure(types, holder.entry)?;
        types.table.aggregate(ty)?.name.as_ref()?;
        let at = u64::try_from(*at).ok().filter(|at| *at < size)?;
        let all = leaves(&types.table, ty, Arrays::Whole);
        Some(format!("{}.{}", types.table.name(ty), leaf_at(&all, at)?.path))
    };
    let mut said = held.iter().filter_map(one);
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::TouchKind;

    fn touch(code: u32, offset: u64, field: Option<&str>) -> Touch {
        let (kind, field) = (TouchKind::Read, field.map(Into::into));
        Touch { object: 0, offset, size: 4, code, actor: None, kind, samples: 1, field, role: None }
    }

    #[test]
    fn bytes_are_what_all_who_know_call_them() {
        let mut touches = vec![
            touch(1, 16, Some("struct chunk.free")),
            touch(2, 16, None),
            touch(3, 24, Some("struct chunk.base")),
            touch(4, 24, Some("struct page.flags")),
            touch(5, 24, None),
            touch(6, 40, None),
        ];
        spread(&[true], &mut touches);
        let said: Vec<Option<&str>> = touches.iter().map(|t| t.field.as_deref()).collect();
        assert_eq!(said[1], Some("struct chunk.free"));
        assert_eq!(&said[4..], [None, None], "two say different things, or nobody anything");
        let mut typed = vec![touch(1, 16, Some("struct chunk.free")), touch(2, 16, None)];
        spread(&[false], &mut typed);
        assert_eq!(typed[1].field, None);
    }
}
