//! Names of bytes in objects whose type nothing tells: bare pages, general objects, what lies behind a struct. The
//! instruction's base register held a variable that points to a struct; then the bytes are that struct's member.

use std::collections::{BTreeMap, HashMap};

use tussle_evidence::Evidence;
use tussle_model::leaf::{Arrays, leaf_at, leaves};

use crate::convert::Inputs;
use crate::image::KernelTypes;
use crate::place::{Place, TypeWish};
use crate::typed::{Code, Holder, structure};

/// Variables in the base registers of code, with the displacement of its operand; by code row.
pub(super) type Bases = BTreeMap<u32, Vec<(Holder, i64)>>;

/// Asks for the code that touches objects which may stay without a type.
pub(super) fn bases(inputs: &Inputs, evidence: &Evidence, objects: &[Place]) -> Bases {
    let code = Code { symbols: &inputs.image.symbols, file: inputs.vmlinux };
    let sure = |p: &Place| matches!(p.ty, TypeWish::Named(_) | TypeWish::Entry(_));
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
