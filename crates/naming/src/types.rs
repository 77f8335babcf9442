//! Types on their way from images into the evidence.

use std::collections::HashMap;

use tussle_evidence::Evidence;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Type, TypeId, TypeTable};

use crate::image::{ImageId, Images};

/// Where a type lives until it is copied into the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// It was there before.
    Evidence(TypeId),
    /// In an opened module.
    Image(ImageId, TypeId),
}

/// While naming runs, `Object::ty` indexes this list; [`fill`] replaces the indices by ids of the final table.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    list: Vec<Origin>,
    index: HashMap<Origin, TypeId>,
}

impl Pending {
    /// Takes over the types that objects already have.
    pub fn new(evidence: &mut Evidence) -> Pending {
        let mut pending = Pending::default();
        for o in &mut evidence.objects {
            o.ty = o.ty.map(|t| pending.add(Origin::Evidence(t)));
        }
        pending
    }

    /// A handle for a type of an opened module; named structs stand for their typedefs.
    pub fn image(&mut self, images: &Images, image: ImageId, ty: TypeId) -> TypeId {
        self.add(Origin::Image(image, crate::nest::plain(&images.get(image).types, ty)))
    }

    /// The type of an opened module that a handle stands for.
    pub fn of_image(&self, handle: TypeId) -> Option<(ImageId, TypeId)> {
        match self.list.get(handle.0 as usize)? {
            Origin::Image(image, ty) => Some((*image, *ty)),
            Origin::Evidence(_) => None,
        }
    }

    /// A handle for `Object::ty`.
    fn add(&mut self, origin: Origin) -> TypeId {
        *self.index.entry(origin).or_insert_with(|| {
            self.list.push(origin);
            TypeId(self.list.len() as u32 - 1)
        })
    }
}

/// Copies what objects need into the evidence and gives them their final ids.
pub(crate) fn fill(evidence: &mut Evidence, images: &Images, pending: Pending) {
    let mut last: Vec<TypeId> = vec![TypeId::VOID; pending.list.len()];
    for (slot, origin) in last.iter_mut().zip(&pending.list) {
        if let Origin::Evidence(id) = origin {
            *slot = *id;
        }
    }
    for image in 0..images.len() {
        let wanted: Vec<(usize, TypeId)> = pending
            .list
            .iter()
            .enumerate()
            .filter_map(|(i, o)| match o {
                Origin::Image(m, id) if *m == image => Some((i, *id)),
                _ => None,
            })
            .collect();
        let roots: Vec<TypeId> = wanted.iter().map(|(_, id)| *id).collect();
        if roots.is_empty() {
            continue;
        }
        let (table, ids) = images.get(image).types.extract(&roots);
        let ids = append(&mut evidence.types, &table, &ids);
        for ((i, _), id) in wanted.iter().zip(ids) {
            last[*i] = id;
        }
    }
    for o in &mut evidence.objects {
        o.ty = o.ty.and_then(|t| last.get(t.0 as usize)).copied().filter(|t| *t != TypeId::VOID);
    }
}

/// Appends a table to another; returns the new ids of `roots`.
fn append(to: &mut TypeTable, from: &TypeTable, roots: &[TypeId]) -> Vec<TypeId> {
    // Id 0 is void in both; the others follow what is there.
    let shift = u32::try_from(to.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let moved = |id: TypeId| if id == TypeId::VOID { id } else { TypeId(id.0.saturating_add(shift)) };
    if to.is_empty() {
        to.pointer_size = from.pointer_size;
    }
    for (id, ty) in from.iter() {
        if id != TypeId::VOID {
            to.push(shifted(ty, &moved));
        }
    }
    roots.iter().map(|r| moved(*r)).collect()
}

fn shifted(ty: &Type, moved: &dyn Fn(TypeId) -> TypeId) -> Type {
    match ty {
        Type::Pointer { to, size } => Type::Pointer { to: moved(*to), size: *size },
        Type::Reference { to, rvalue } => Type::Reference { to: moved(*to), rvalue: *rvalue },
        Type::Array { elem, counts } => Type::Array { elem: moved(*elem), counts: counts.clone() },
        Type::Aggregate(a) => {
            let mut a = a.clone();
            a.members.iter_mut().for_each(|m| m.ty = moved(m.ty));
            Type::Aggregate(a)
        }
        Type::Typedef { name, to } => Type::Typedef { name: name.clone(), to: moved(*to) },
        Type::Const(t) => Type::Const(moved(*t)),
        Type::Volatile(t) => Type::Volatile(moved(*t)),
        Type::Restrict(t) => Type::Restrict(moved(*t)),
        Type::Atomic(t) => Type::Atomic(moved(*t)),
        Type::Function { ret, params, variadic } => Type::Function {
            ret: moved(*ret),
            params: params.iter().map(|p| moved(*p)).collect(),
            variadic: *variadic,
        },
        other => other.clone(),
    }
}

/// Alignment that the x86-64 ABI gives a type, bytes: what is declared, else that of its largest scalar.
pub(crate) fn align_of(table: &TypeTable, id: TypeId) -> u64 {
    align_at(table, id, 0)
}

fn align_at(table: &TypeTable, id: TypeId, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return 1;
    }
    let id = table.strip(id);
    match table.get(id) {
        Type::Aggregate(a) => {
            let declared = a.align.map_or(1, |a| a.bytes);
            let members =
                a.members.iter().map(|m| m.align.unwrap_or(1).max(align_at(table, m.ty, depth + 1)));
            let natural = members.max().unwrap_or(1);
            // A packed struct is smaller than its members' alignment allows.
            let packed = a.size % natural != 0
                || a.members
                    .iter()
                    .any(|m| m.bit_size.is_none() && m.offset() % align_at(table, m.ty, depth + 1) != 0);
            if packed { declared } else { natural.max(declared) }
        }
        Type::Array { elem, .. } => align_at(table, *elem, depth + 1),
        _ => table.size(id).filter(|s| s.is_power_of_two()).unwrap_or(1).min(16),
    }
}
