//! Makes model types of entries.

use gimli::constants as dw;
use tussle_model::{
    Aggregate, AggregateKind, Alignment, AlignmentSource, Base, Encoding, EnumType, Enumerator, Exact,
    Language, Member, MemberRole, SourceLoc, Type, TypeId, misfit,
};

use super::abi;
use super::context::Context;
use super::die::{self, Die, target};
use super::ident::Kind;
use super::member::{RawMember, members, old_bit_offset, scalar_size};
use super::no_bytes;
use super::types::{Loaded, Pending, Types};
use super::units::DieRef;
use super::virtual_bases::slots;
use super::wide_bits;

/// More dimensions than this do not occur.
const DIMENSIONS_MAX: usize = 64;

impl<'f> Types<'f> {
    /// The type that the entry describes.
    pub(super) fn id(&mut self, at: Option<DieRef>, depth: usize) -> TypeId {
        let Some(at) = at else { return TypeId::VOID };
        let known = self.memo(at).id;
        if known != u32::MAX {
            return TypeId(known);
        }
        if let Some(known) = self.recognise(at) {
            self.memo_mut(at).id = known.0;
            return known;
        }
        if self.too_deep(at, depth) || self.full() {
            return TypeId::VOID;
        }
        let Some((ctx, die)) = self.load(at) else { return TypeId::VOID };
        let key = self.key(at, &die);
        if let Some(&id) = self.keys.get(&key) {
            self.memo_mut(at).id = id.0;
            return id;
        }
        // while the type is made, whatever contains itself by value sees void
        self.memo_mut(at).id = TypeId::VOID.0;
        let id = self.build(&ctx, &die, depth + 1);
        self.note_exact(&ctx, &die, id);
        self.keys.insert(key, id);
        self.key_of.resize(self.table.len(), 0);
        if let Some(slot) = self.key_of.get_mut(id.0 as usize).filter(|k| **k == 0) {
            *slot = key;
        }
        self.memo_mut(at).id = id.0;
        id
    }

    /// What tells the type from all others: its content, and for what is no struct also where its pointers lead.
    fn key(&mut self, at: DieRef, die: &Die<'f>) -> u64 {
        match die.tag {
            t if die::is_aggregate(t) => self.hash(Some(at), Kind::Layout, 0),
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                self.hash(Some(at), Kind::Shallow, 0)
            }
            _ => {
                let layout = self.hash(Some(at), Kind::Layout, 0);
                // mixed first: equal halves would cancel each other
                super::hash::mix(super::hash::mix(layout, 19), self.hash(Some(at), Kind::Shallow, 0))
            }
        }
    }

    /// The type behind a pointer; only a declaration of it when just a few types are wanted.
    pub(super) fn pointee(&mut self, at: DieRef) -> TypeId {
        if !self.stubs {
            return self.id(Some(at), 0);
        }
        let Some((ctx, die)) = self.load(at) else { return TypeId::VOID };
        if !die.is_aggregate() || die.name.is_none() {
            return self.id(Some(at), 0);
        }
        let defined = self.memo(at).id;
        if defined != u32::MAX {
            return TypeId(defined);
        }
        let key = super::hash::mix(self.hash(Some(at), Kind::Nominal, 0), 17);
        if let Some(&id) = self.keys.get(&key) {
            return id;
        }
        let stub = Aggregate { declaration: true, ..header(&ctx, &die) };
        let id = self.table.push(Type::Aggregate(stub));
        self.keys.insert(key, id);
        id
    }

    /// Remembers size and alignment of a type that was just made, where its parts do not tell them.
    fn note_exact(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, id: TypeId) {
        let known = match (die.tag, self.table.get(id)) {
            (dw::DW_TAG_base_type, Type::Base(b)) => abi::base(ctx, die, b.size, &b.name),
            (dw::DW_TAG_array_type, _) if die.vector => abi::vector(ctx, die, self.table.size(id)),
            (dw::DW_TAG_ptr_to_member_type, _) => abi::words(ctx),
            _ => Exact::default(),
        };
        let made = die.is_aggregate()
            || die.tag == dw::DW_TAG_typedef
            || known.align.is_some()
            || known.size.is_some();
        match abi::stated(ctx, die).filter(|_| made) {
            Some(align) => self.table.set_exact(id, Exact { size: known.size, ..Exact::aligned(align) }),
            None => self.table.set_exact(id, known),
        }
    }

    fn build(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, depth: usize) -> TypeId {
        let inner = die.ty.and_then(|v| target(ctx, &v));
        let ty = match die.tag {
            t if die::is_aggregate(t) => return self.aggregate(ctx, die, depth),
            dw::DW_TAG_enumeration_type => self.enumeration(ctx, die),
            dw::DW_TAG_base_type => base(ctx, die),
            dw::DW_TAG_typedef => {
                Type::Typedef { name: ctx.qualified(die).unwrap_or_default(), to: self.id(inner, depth) }
            }
            dw::DW_TAG_const_type => Type::Const(self.id(inner, depth)),
            dw::DW_TAG_volatile_type => Type::Volatile(self.id(inner, depth)),
            dw::DW_TAG_restrict_type => Type::Restrict(self.id(inner, depth)),
            dw::DW_TAG_atomic_type => Type::Atomic(self.id(inner, depth)),
            dw::DW_TAG_array_type => {
                Type::Array { elem: self.id(inner, depth), counts: dimensions(ctx, die).collect() }
            }
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                return self.pointer(ctx, die, inner);
            }
            // of a size only in Go: a pointer to a closure
            dw::DW_TAG_subroutine_type if die.byte_size.is_some_and(|n| n > 0) => other(ctx, die),
            dw::DW_TAG_subroutine_type => return self.function(ctx, die, inner),
            dw::DW_TAG_ptr_to_member_type => self.member_pointer(ctx, die, inner, depth),
            _ if die.name.is_none() && inner.is_some() => return self.id(inner, depth),
            _ => other(ctx, die),
        };
        self.table.push(ty)
    }

    fn pointer(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, inner: Option<DieRef>) -> TypeId {
        let size = die.byte_size.unwrap_or(u64::from(ctx.unit.header.address_size()));
        let to = TypeId::VOID;
        let id = self.table.push(match die.tag {
            dw::DW_TAG_pointer_type => Type::Pointer { to, size },
            tag => Type::Reference { to, rvalue: tag == dw::DW_TAG_rvalue_reference_type },
        });
        self.pending.extend(inner.map(|to| Pending { of: id, slot: 0, to }));
        // Rust names its pointers: `&str`, `*const u8`
        match die.name {
            Some(name) => self.table.push(Type::Typedef { name: ctx.string(name), to: id }),
            None => id,
        }
    }

    fn function(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, inner: Option<DieRef>) -> TypeId {
        let mut targets = Vec::new();
        let mut variadic = false;
        let walked = die::children(ctx, die, |child| {
            match child.tag {
                dw::DW_TAG_formal_parameter => targets.push(child.ty.and_then(|v| target(ctx, &v))),
                dw::DW_TAG_unspecified_parameters => variadic = true,
                _ => {}
            }
            Ok(())
        });
        self.note(ctx, die, walked);
        let params = vec![TypeId::VOID; targets.len()];
        let id = self.table.push(Type::Function { ret: TypeId::VOID, params, variadic });
        let slots = std::iter::once(inner).chain(targets).enumerate();
        self.pending.extend(slots.filter_map(|(slot, to)| to.map(|to| Pending { of: id, slot, to })));
        id
    }

    /// `int Foo::*`. Pointers to data members have the size of an integer, those to functions of two.
    fn member_pointer(
        &mut self,
        ctx: &Loaded<'f>,
        die: &Die<'f>,
        inner: Option<DieRef>,
        depth: usize,
    ) -> Type {
        let function = inner
            .and_then(|at| self.load(at))
            .is_some_and(|(_, target)| target.tag == dw::DW_TAG_subroutine_type);
        let word = u64::from(ctx.unit.header.address_size());
        let size = die.byte_size.unwrap_or(if function { 2 * word } else { word });
        let name = if function {
            "member function pointer".into()
        } else {
            let of = self.id(inner, depth);
            format!("{} ::*", self.table.name(of))
        };
        Type::Other { name, size }
    }

    fn aggregate(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, depth: usize) -> TypeId {
        let mut aggregate = header(ctx, die);
        let mut raw = Vec::new();
        let walked = members(ctx, die, &mut |m| raw.push(m));
        let cut = walked.is_err().then_some("not all of its members can be read");
        self.note(ctx, die, walked);
        self.members += raw.len() + 1;
        if let Some(why) = unsized_why(die, &raw) {
            aggregate.declaration = true;
            let id = self.table.push(Type::Aggregate(aggregate));
            self.doubt(ctx, die, id, why);
            return id;
        }
        aggregate.members.reserve_exact(raw.len());
        for m in &raw {
            let member = self.member(ctx, m, depth);
            aggregate.members.push(member);
        }
        if ctx.language == Language::Rust {
            no_bytes::mend(&mut self.table, &mut aggregate);
        }
        if let Some(told) = wide_bits::place(&self.table, &mut aggregate) {
            self.problem(ctx.id, die.offset, told);
        }
        let slots = slots(&self.table, &aggregate, &raw);
        self.place_virtual_bases(&mut aggregate, &slots);
        let misfit = cut.or_else(|| misfit(&self.table, &aggregate));
        let id = self.table.push(Type::Aggregate(aggregate));
        if let Some(why) = misfit {
            self.doubt(ctx, die, id, why);
        }
        if !slots.is_empty() {
            self.slots.insert(id.0, slots);
        }
        id
    }

    /// Tells that a type is not known in full, and where in the file.
    fn doubt(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, id: TypeId, why: &str) {
        let what = format!("{}: {why}", self.table.name(id));
        self.problem(ctx.id, die.offset, what);
        self.table.doubt(id, why);
    }

    fn member(&mut self, ctx: &Loaded<'f>, m: &RawMember<'f>, depth: usize) -> Member {
        // a static member takes no room, so it is no reason to read its type by value
        let ty = self.id(m.ty, depth);
        let mut offset_bits = m.offset_bits;
        if let (Some((from_top, storage)), Some(bits)) = (m.old_bits, m.bit_size) {
            let storage = storage.or_else(|| scalar_size(ctx, m.ty?)).unwrap_or(4);
            offset_bits = old_bit_offset(m.offset_bits, from_top, bits, storage, ctx.little_endian());
        }
        let mut name = m.name.map(|n| ctx.string(n)).filter(|n| !n.is_empty());
        if m.role == MemberRole::Variant && name.is_none() {
            name = self.table.aggregate(ty).and_then(|a| a.name.as_deref()).map(last_part);
        }
        Member {
            name,
            ty,
            offset_bits,
            bit_size: m.bit_size.filter(|&bits| !self.is_padded_atomic(ty, bits)),
            align: m.align,
            decl_line: m.line,
            role: m.role,
        }
    }

    /// clang pads small atomic structs to a power of two, to which they are aligned, and says so of the member only:
    /// as a bit-field of more bits than the struct has.
    fn is_padded_atomic(&mut self, ty: TypeId, bits: u32) -> bool {
        let size = u64::from(bits / 8);
        let padded = matches!(self.table.get(ty), Type::Atomic(to) if self.table.aggregate(*to).is_some())
            && bits.is_multiple_of(8)
            && size.is_power_of_two();
        if padded {
            self.table.set_exact(ty, Exact { size: Some(size), ..Exact::aligned(size) });
        }
        padded
    }

    fn enumeration(&mut self, ctx: &Loaded<'f>, die: &Die<'f>) -> Type {
        let mut values = Vec::new();
        let walked = die::children(ctx, die, |child| {
            if child.tag == dw::DW_TAG_enumerator {
                let name = child.name.map(|n| ctx.string(n)).unwrap_or_default();
                values.push(Enumerator::new(name, die::constant(ctx, child)));
            }
            Ok(())
        });
        self.note(ctx, die, walked);
        let size = die.byte_size.or_else(|| scalar_size(ctx, target(ctx, &die.ty?)?)).unwrap_or(0);
        Type::Enum(EnumType { name: ctx.qualified(die), size, values })
    }
}

/// Why a definition has no size: `struct { int a; char v[n]; int b; }` in a function is like no other object.
fn unsized_why(die: &Die<'_>, members: &[RawMember<'_>]) -> Option<&'static str> {
    if members.iter().any(|m| m.computed) {
        return Some("its layout is computed at run time");
    }
    (die.byte_size.is_none() && !die.declaration).then_some("its size is not told: it is left out")
}

/// Other alignments only occur in damaged files.
fn power_of_two(align: Option<u64>) -> Option<u64> {
    align.filter(|a| a.is_power_of_two())
}

/// The last part of a qualified Rust name.
fn last_part(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_string()
}

/// Everything of an aggregate but its members.
fn header<'f>(ctx: &Context<'f>, die: &Die<'f>) -> Aggregate {
    Aggregate {
        kind: match die.tag {
            dw::DW_TAG_union_type => AggregateKind::Union,
            dw::DW_TAG_class_type => AggregateKind::Class,
            _ => AggregateKind::Struct,
        },
        name: ctx.qualified(die).filter(|n| !n.is_empty()),
        size: die.byte_size.unwrap_or(0),
        align: power_of_two(die.alignment)
            .map(|bytes| Alignment { bytes, source: AlignmentSource::Declared }),
        members: Vec::new(),
        decl: die.decl_file.and_then(|f| ctx.path(f)).map(|file| SourceLoc { file, line: die.decl_line }),
        declaration: die.declaration,
        language: ctx.language,
        unit: None,
        indirect_bases: Vec::new(),
    }
}

fn base<'f>(ctx: &Context<'f>, die: &Die<'f>) -> Type {
    let encoding = match gimli::DwAte(die.encoding.min(0xff) as u8) {
        dw::DW_ATE_signed => Encoding::Signed,
        dw::DW_ATE_unsigned => Encoding::Unsigned,
        dw::DW_ATE_float | dw::DW_ATE_complex_float => Encoding::Float,
        dw::DW_ATE_boolean => Encoding::Bool,
        dw::DW_ATE_signed_char | dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF => Encoding::Char,
        _ => Encoding::Other,
    };
    let size = die.byte_size.or(die.bit_size.map(|b| b.div_ceil(8))).unwrap_or(0);
    Type::Base(Base { name: ctx.qualified(die).unwrap_or_default(), size, encoding })
}

fn other<'f>(ctx: &Context<'f>, die: &Die<'f>) -> Type {
    let name = ctx.qualified(die).unwrap_or_else(|| die.tag.to_string());
    // compilers leave out the size of `decltype(nullptr)`
    let word = || match name.as_str() {
        "decltype(nullptr)" => u64::from(ctx.unit.header.address_size()),
        _ => 0,
    };
    let size = die.byte_size.unwrap_or_else(word);
    Type::Other { name, size }
}

/// The number of elements of each dimension of an array, outermost first; `None` for a flexible one.
pub(super) fn dimensions<'f>(ctx: &Context<'f>, die: &Die<'f>) -> impl Iterator<Item = Option<u64>> + use<> {
    let mut counts = Vec::new();
    // a cut-off array keeps the dimensions that were readable
    let _ = die::children(ctx, die, |child| {
        if child.tag == dw::DW_TAG_subrange_type && counts.len() < DIMENSIONS_MAX {
            counts.push(elements(child, ctx.unit.header.address_size()));
        }
        Ok(())
    });
    if counts.is_empty() {
        counts.push(None);
    }
    counts.into_iter()
}

fn elements(range: &Die<'_>, address_size: u8) -> Option<u64> {
    if let Some(n) = range.count {
        return Some(n);
    }
    let lower = range.lower_bound.unwrap_or(0);
    match range.upper_bound {
        Some(upper) if upper == u64::from(u32::MAX) && address_size == 4 => Some(0),
        Some(upper) => Some((upper as i64).wrapping_sub(lower).wrapping_add(1).max(0) as u64),
        None if range.empty => Some(0),
        None => None,
    }
}
