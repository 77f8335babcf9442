//! A whole type table after a change of one struct: every type that contains it by value is laid out again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeId, TypeTable};

use crate::abi::{ShapeError, Shapes, place};
use crate::edit::{Edit, EditError, apply};
use crate::exchange::{Exchange, ExchangeError};
use crate::patch::variable::MEMBER;

/// Why a change cannot be followed through a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayoutError {
    /// A type's layout cannot be computed.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The edit does not apply.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// `FIELD@OFFSET` that cannot be.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Bytes that change places, and members that move.
    #[error("FIELD@OFFSET does not go together with other moves")]
    Mixed,
    /// The type to change is not in the table.
    #[error("no struct, class or union named {0}")]
    NoSuchType(String),
    /// C++ lays out the derived class by rules of its own.
    #[error("{0} is a base class of {1}; change the derived classes by hand")]
    BaseClass(String, String),
}

/// One aggregate under the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relaid {
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub align: u64,
    /// New first bit of every member, by its index in the unchanged aggregate.
    pub offsets_bits: Vec<u64>,
    /// Member indices in their new order; `None` for padding.
    pub order: Vec<Option<usize>>,
    /// Anything differs from the old layout.
    pub changed: bool,
    /// Arrays whose elements lie elsewhere, by their member's index: bytes from one to the next, before and after.
    pub strides: Vec<(usize, u64, u64)>,
}

/// The table after `edits` of the type `target`.
pub struct Relayout<'a> {
    shapes: &'a Shapes<'a>,
    target_name: String,
    /// Edits by the aggregate that holds their members: the struct itself, or an anonymous struct inside it.
    edits: HashMap<TypeId, Vec<Edit>>,
    target: TypeId,
    exchange: Exchange,
    /// What [`Edit::Alloc`] asks of allocations of the type.
    alloc_bytes: Option<u64>,
    cache: RefCell<HashMap<TypeId, Result<Rc<Relaid>, RelayoutError>>>,
}

impl<'a> Relayout<'a> {
    /// Checks that the edits apply to `target`. Every definition of the same name is changed alike.
    pub fn new(shapes: &'a Shapes<'a>, target: TypeId, edits: &[Edit]) -> Result<Self, RelayoutError> {
        let table = shapes.table();
        let target = table.strip(target);
        let Some(wanted) = table.aggregate(target) else {
            return Err(RelayoutError::NoSuchType(table.name(target)));
        };
        let name = wanted.display_name();
        let place = |e: &'_ Edit| match e {
            Edit::Place { field, byte } => Some((field.clone(), *byte)),
            _ => None,
        };
        let places: Vec<(String, u64)> = edits.iter().filter_map(place).collect();
        if !places.is_empty() && places.len() < edits.len() {
            return Err(RelayoutError::Mixed);
        }
        let exchange = Exchange::new(table, target, &places)?;
        let edits = if exchange.is_empty() { edits } else { &[] };
        let mut by_type: HashMap<TypeId, Vec<Edit>> = HashMap::new();
        for edit in edits {
            by_type.entry(holder(table, target, edit)?).or_default().push(edit.clone());
        }
        let twins =
            table.aggregates().filter(|(id, a)| *id != target && a.name.is_some() && a.name == wanted.name);
        for (id, _) in twins {
            // Another definition of the same name without these members is another type.
            let holders: Result<Vec<TypeId>, _> = edits.iter().map(|e| holder(table, id, e)).collect();
            for (holder, edit) in holders.into_iter().flatten().zip(edits) {
                by_type.entry(holder).or_default().push(edit.clone());
            }
        }
        let asked = |e: &Edit| if let Edit::Alloc { bytes } = e { Some(*bytes) } else { None };
        let alloc_bytes = edits.iter().filter_map(asked).max();
        let cache = RefCell::default();
        let this =
            Relayout { shapes, target_name: name, edits: by_type, target, exchange, alloc_bytes, cache };
        this.relaid(target)?;
        Ok(this)
    }

    /// The unchanged table.
    pub fn table(&self) -> &TypeTable {
        self.shapes.table()
    }

    /// The new layout of an aggregate.
    pub fn relaid(&self, id: TypeId) -> Result<Rc<Relaid>, RelayoutError> {
        self.relaid_at(id, 0)
    }

    /// New size of any type in bytes; `None` when it has none.
    pub fn size(&self, id: TypeId) -> Result<Option<u64>, RelayoutError> {
        self.size_at(id, 0)
    }

    /// New alignment of any type in bytes.
    pub fn align(&self, id: TypeId) -> Result<u64, RelayoutError> {
        let table = self.table();
        match table.get(table.strip(id)) {
            Type::Array { elem, .. } => Ok(self.align(*elem)?.max(self.shapes.align(id)?)),
            Type::Aggregate(a) if !a.declaration => Ok(self.relaid(id)?.align),
            _ => Ok(self.shapes.align(id)?),
        }
    }

    /// The same where it is more than before, else 1.
    pub(crate) fn raised_align(&self, id: TypeId) -> Result<u64, RelayoutError> {
        let (new, before) = (self.align(id)?, self.shapes.align(id)?);
        Ok(if new > before { new } else { 1 })
    }

    /// Bytes of the blocks in which the heap gives objects of type `id`, where the change says so.
    pub fn heap_block(&self, id: TypeId) -> Option<u64> {
        let table = self.table();
        let is = |id: TypeId| {
            let (a, b) = (table.aggregate(id), table.aggregate(self.target));
            id == self.target || a.zip(b).is_some_and(|(a, b)| a.name.is_some() && a.name == b.name)
        };
        let id = table.strip(id);
        let own = match table.get(id) {
            Type::Array { elem, .. } => is(table.strip(*elem)),
            _ => is(id),
        };
        self.alloc_bytes.filter(|_| own)
    }

    /// Where byte `offset` of an object of type `id` lies after the change. Bytes of padding keep their distance from
    /// the member before them.
    pub fn translate(&self, id: TypeId, offset: u64) -> Result<u64, RelayoutError> {
        self.translate_at(id, offset, 0)
    }

    /// The table with every changed type as it is laid out after the change.
    pub fn after(&self) -> Result<TypeTable, RelayoutError> {
        let mut out = self.table().clone();
        for (id, a) in self.table().aggregates() {
            let Ok(relaid) = self.relaid(id) else { continue };
            if a.declaration || !relaid.changed {
                continue;
            }
            let mut new = a.clone();
            new.size = relaid.size;
            for (member, at) in new.members.iter_mut().zip(&relaid.offsets_bits) {
                member.offset_bits = *at;
            }
            for (i, _, stride) in &relaid.strides {
                new.members[*i].ty = spread(&mut out, new.members[*i].ty, *stride);
            }
            out.set(id, Type::Aggregate(new));
        }
        Ok(out)
    }

    fn translate_at(&self, id: TypeId, offset: u64, depth: usize) -> Result<u64, RelayoutError> {
        let table = self.table();
        let id = table.strip(id);
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep.into());
        }
        match table.get(id) {
            Type::Array { elem, .. } => {
                let Some(old) = table.size(*elem).filter(|s| *s > 0) else { return Ok(offset) };
                let new = self.size_at(*elem, depth + 1)?.unwrap_or(old);
                let inner = self.translate_at(*elem, offset % old, depth + 1)?;
                Ok((offset / old).saturating_mul(new).saturating_add(inner))
            }
            Type::Aggregate(a) if !a.declaration => {
                let relaid = self.relaid_at(id, depth)?;
                if !relaid.changed {
                    return Ok(offset);
                }
                if id == self.target && !self.exchange.is_empty() {
                    return Ok(self.exchange.translate(offset));
                }
                let Some(i) = member_at(table, a, offset) else { return Ok(offset) };
                let m = &a.members[i];
                let inside = offset - m.offset().min(offset);
                // A bit-field's bytes move with its storage.
                if m.bit_size.is_some() {
                    return Ok((relaid.offsets_bits[i] / 8).saturating_add(inside));
                }
                if let Some((_, old, new)) = relaid.strides.iter().find(|s| s.0 == i && s.1 > 0) {
                    let at = (inside / old).saturating_mul(*new).saturating_add(inside % old);
                    return Ok((relaid.offsets_bits[i] / 8).saturating_add(at));
                }
                let inner = self.translate_at(m.ty, inside, depth + 1)?;
                Ok((relaid.offsets_bits[i] / 8).saturating_add(inner))
            }
            _ => Ok(offset),
        }
    }

    fn size_at(&self, id: TypeId, depth: usize) -> Result<Option<u64>, RelayoutError> {
        let table = self.table();
        let id = table.strip(id);
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep.into());
        }
        match table.get(id) {
            Type::Array { elem, counts } => {
                let Some(n) = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?)) else {
                    return Ok(None);
                };
                Ok(self.size_at(*elem, depth + 1)?.and_then(|s| s.checked_mul(n)))
            }
            Type::Aggregate(a) if !a.declaration => Ok(Some(self.relaid_at(id, depth)?.size)),
            _ => Ok(table.size(id)),
        }
    }

    fn relaid_at(&self, id: TypeId, depth: usize) -> Result<Rc<Relaid>, RelayoutError> {
        let id = self.table().strip(id);
        if let Some(known) = self.cache.borrow().get(&id) {
            return known.clone();
        }
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep.into());
        }
        let relaid = match self.edits.get(&id) {
            _ if id == self.target && !self.exchange.is_empty() => self.exchanged(id),
            Some(edits) => self.target(id, edits),
            None => self.container(id, depth),
        };
        self.cache.borrow_mut().insert(id, relaid.clone());
        relaid
    }

    /// The changed type itself.
    fn target(&self, id: TypeId, edits: &[Edit]) -> Result<Rc<Relaid>, RelayoutError> {
        let Some(a) = self.table().aggregate(id) else {
            return Err(RelayoutError::NoSuchType(self.target_name.clone()));
        };
        let shape = self.shapes.shape(id)?;
        let edited = apply(a, &shape, edits)?;
        let mut offsets_bits: Vec<u64> = a.members.iter().map(|m| m.offset_bits).collect();
        for (member, at) in edited.members.iter().zip(&edited.placed.offsets_bits) {
            if let Some(i) = member {
                offsets_bits[*i] = *at;
            }
        }
        let mut strides = Vec::new();
        for (slot, member) in edited.slots.iter().zip(&edited.members) {
            let Some((i, n)) = member.zip(slot.elements.filter(|n| *n > 0)) else { continue };
            let name = a.members[i].name.as_ref();
            if edits.iter().any(|e| matches!(e, Edit::Spread { field, .. } if name == Some(field))) {
                strides.push((i, self.table().size(a.members[i].ty).unwrap_or(0) / n, slot.size / n));
            }
        }
        let changed = edited.placed.size != a.size
            || edited.placed.align != shape.placed.align
            || a.members.iter().zip(&offsets_bits).any(|(m, at)| m.offset_bits != *at);
        let (size, align) = (edited.placed.size, edited.placed.align);
        Ok(Rc::new(Relaid { size, align, offsets_bits, order: edited.members, changed, strides }))
    }

    /// The type whose bytes change places: its members, as far as they are known, stay.
    fn exchanged(&self, id: TypeId) -> Result<Rc<Relaid>, RelayoutError> {
        let Some(a) = self.table().aggregate(id) else {
            return Err(RelayoutError::NoSuchType(self.target_name.clone()));
        };
        let align = self.shapes.align(id).unwrap_or(1);
        Ok(Rc::new(Relaid { align, changed: true, ..unmoved(a) }))
    }

    /// Any other type: unchanged unless it holds a changed one by value.
    fn container(&self, id: TypeId, depth: usize) -> Result<Rc<Relaid>, RelayoutError> {
        let table = self.table();
        let Some(a) = table.aggregate(id) else {
            return Err(ShapeError::NotAggregate(table.name(id)).into());
        };
        let mut news = Vec::with_capacity(a.members.len());
        for m in &a.members {
            let new = if m.role == MemberRole::Static { None } else { self.changed(m.ty, depth + 1)? };
            if new.is_some() && m.role != MemberRole::Field {
                return Err(RelayoutError::BaseClass(self.target_name.clone(), a.display_name()));
            }
            news.push(new);
        }
        let reached = news.iter().any(Option::is_some);
        let same = |(m, new): (&Member, &Option<(u64, u64)>)| {
            new.is_none_or(|(size, align)| {
                table.size(m.ty) == Some(size) && self.shapes.align(m.ty) == Ok(align)
            })
        };
        if a.members.iter().zip(&news).all(same) {
            let align = self.shapes.align(id).unwrap_or(1);
            return Ok(Rc::new(Relaid { align, changed: reached, ..unmoved(a) }));
        }
        let shape = self.shapes.shape(id)?;
        let mut slots = shape.slots.clone();
        for (slot, &i) in slots.iter_mut().zip(&shape.members) {
            if let Some((size, align)) = news[i] {
                (slot.size, slot.align) = (size, align);
            }
        }
        let placed = place(&slots, shape.rules);
        let Relaid { mut offsets_bits, order, .. } = unmoved(a);
        for (&i, at) in shape.members.iter().zip(&placed.offsets_bits) {
            offsets_bits[i] = *at;
        }
        let (size, align) = (placed.size, placed.align);
        Ok(Rc::new(Relaid { size, align, offsets_bits, order, changed: true, strides: Vec::new() }))
    }

    /// New size and alignment of a member's type if the change reaches it.
    fn changed(&self, id: TypeId, depth: usize) -> Result<Option<(u64, u64)>, RelayoutError> {
        let table = self.table();
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep.into());
        }
        let id = table.strip(id);
        match table.get(id) {
            Type::Array { elem, .. } => match self.changed(*elem, depth + 1)? {
                Some((_, align)) => Ok(Some((self.size_at(id, depth + 1)?.unwrap_or(0), align))),
                None => Ok(None),
            },
            Type::Aggregate(a) if !a.declaration => {
                let r = self.relaid_at(id, depth)?;
                Ok(r.changed.then_some((r.size, r.align)))
            }
            _ => Ok(None),
        }
    }
}

/// The array `id` with a struct of `stride` bytes around each element, as the patch writes it.
fn spread(table: &mut TypeTable, id: TypeId, stride: u64) -> TypeId {
    let Type::Array { elem, counts } = table.get(table.strip(id)).clone() else { return id };
    let Some((first, rest)) = counts.split_first() else { return id };
    let inner = match rest {
        [] => elem,
        _ => table.push(Type::Array { elem, counts: rest.to_vec() }),
    };
    let value = Member::field(Some(MEMBER), inner, 0);
    let around = Type::Aggregate(Aggregate::new(AggregateKind::Struct, None, stride, vec![value]));
    let elem = table.push(around);
    table.push(Type::Array { elem, counts: vec![*first] })
}

/// An aggregate whose members stay; its alignment is left at 1.
fn unmoved(a: &Aggregate) -> Relaid {
    let offsets_bits = a.members.iter().map(|m| m.offset_bits).collect();
    let order = (0..a.members.len()).map(Some).collect();
    Relaid { size: a.size, align: 1, offsets_bits, order, changed: false, strides: Vec::new() }
}

/// The aggregate whose direct members `edit` names: `id` itself or an anonymous struct inside it.
pub fn holder(table: &TypeTable, id: TypeId, edit: &Edit) -> Result<TypeId, EditError> {
    let fields = edit.fields();
    find_holder(table, table.strip(id), &fields, 0).unwrap_or_else(|| {
        let leaves = tussle_model::leaves(table, id, tussle_model::leaf::Arrays::Whole);
        let missing = fields.iter().find(|f| !leaves.iter().any(|l| first_name(&l.path) == **f));
        Err(match missing {
            Some(field) => EditError::missing(table, id, field),
            None => EditError::Nested { ty: table.name(id), field: fields.join(" and ") },
        })
    })
}

fn first_name(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

fn find_holder(
    table: &TypeTable,
    id: TypeId,
    fields: &[&str],
    depth: usize,
) -> Option<Result<TypeId, EditError>> {
    let a = table.aggregate(id)?;
    if depth > DEPTH_MAX {
        return None;
    }
    let has = |f: &str| a.members.iter().any(|m| m.name.as_deref() == Some(f));
    if fields.iter().all(|f| has(f)) {
        return Some(match a.kind {
            AggregateKind::Union if !fields.is_empty() => Err(EditError::Union(a.display_name())),
            _ => Ok(id),
        });
    }
    let anonymous = a.members.iter().filter(|m| m.name.is_none() && m.role == MemberRole::Field);
    anonymous.filter_map(|m| find_holder(table, table.strip(m.ty), fields, depth + 1)).next()
}

/// Index of the member that holds byte `offset`, else of the last one before it.
pub(crate) fn member_at(table: &TypeTable, a: &tussle_model::Aggregate, offset: u64) -> Option<usize> {
    let mut best: Option<(usize, bool, u64)> = None;
    for (i, m) in a.members.iter().enumerate() {
        if m.role == MemberRole::Static || m.offset() > offset {
            continue;
        }
        let end = match m.bit_size {
            Some(w) => m.offset_bits.saturating_add(u64::from(w)).div_ceil(8),
            None => m.offset().saturating_add(table.size(m.ty).unwrap_or(0)),
        };
        let holds = offset < end;
        let better = match best {
            None => true,
            Some((_, held, at)) => (holds && !held) || (holds == held && m.offset() > at),
        };
        if better {
            best = Some((i, holds, m.offset()));
        }
    }
    best.map(|b| b.0)
}
