//! When are two entries of different units the same type?
//!
//! Three hashes answer it. `nominal` names a type without looking into it, `shallow` adds size and source position,
//! `layout` covers everything that is part of the object by value. Two structs are one type when their layouts are
//! equal; what hangs on their pointers only has to have the same name, since one unit may know it and another not.

use gimli::{DwTag, constants as dw};

use super::context::Context;
use super::die::{self, Die, target};
use super::hash::{bytes, mix};
use super::member::{RawMember, members};
use super::types::{Loaded, Types};
use super::units::DieRef;

/// Types nested deeper than this are cut.
pub(super) const DEPTH_MAX: usize = tussle_model::leaf::DEPTH_MAX;

/// Which hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nominal,
    Shallow,
    Layout,
}

/// Value of a hash while it is being computed: a type that contains itself ends here.
const OPEN: u64 = 1;

impl<'f> Types<'f> {
    /// Hash of the entry at `at`; of `void` for `None`.
    pub(super) fn hash(&mut self, at: Option<DieRef>, kind: Kind, depth: usize) -> u64 {
        let Some(at) = at else { return 2 };
        if let Some(known) = self.memo(at).hash(kind) {
            return known;
        }
        if depth > DEPTH_MAX {
            return 3;
        }
        if kind == Kind::Layout
            && let Some(known) = self.recognise(at)
        {
            let layout = self.key_of.get(known.0 as usize).copied().unwrap_or(0);
            self.memo_mut(at).set_hash(kind, layout);
            return layout;
        }
        self.memo_mut(at).set_hash(kind, OPEN);
        let hash = match self.load(at) {
            Some((ctx, die)) => self.hash_die(&ctx, &die, kind, depth + 1),
            None => 4,
        };
        self.memo_mut(at).set_hash(kind, hash);
        hash
    }

    fn hash_die(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, kind: Kind, depth: usize) -> u64 {
        let tag = mix(0, u64::from(die.tag.0));
        let inner = die.ty.and_then(|v| target(ctx, &v));
        match die.tag {
            t if die::is_aggregate(t) => self.hash_aggregate(ctx, die, kind, depth),
            dw::DW_TAG_enumeration_type => match kind {
                Kind::Nominal => named(ctx, die),
                Kind::Shallow => placed(ctx, die),
                Kind::Layout => self.hash_enumerators(ctx, die),
            },
            dw::DW_TAG_typedef => match kind {
                Kind::Nominal => named(ctx, die),
                _ => {
                    let h = die.alignment.map_or(named(ctx, die), |n| mix(named(ctx, die), n));
                    mix(h, self.hash(inner, kind, depth))
                }
            },
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let to = if kind == Kind::Layout { Kind::Nominal } else { kind };
                let h = mix(tag, die.byte_size.unwrap_or(0));
                mix(mix(h, text(ctx, die)), self.hash(inner, to, depth))
            }
            dw::DW_TAG_array_type => {
                let mut h = mix(tag, self.hash(inner, kind, depth));
                for count in super::build::dimensions(ctx, die) {
                    h = mix(h, count.map_or(u64::MAX, |n| n));
                }
                if die.vector { mix(h, die.byte_size.unwrap_or(6)) } else { h }
            }
            dw::DW_TAG_subroutine_type => self.hash_function(ctx, die, kind, depth),
            _ => {
                let h = mix(mix(tag, text(ctx, die)), mix(die.byte_size.unwrap_or(0), die.encoding));
                match inner {
                    Some(_) => mix(h, self.hash(inner, kind, depth)),
                    None if die.ty.is_none() => h,
                    None => mix(h, 5),
                }
            }
        }
    }

    fn hash_enumerators(&mut self, ctx: &Loaded<'f>, die: &Die<'f>) -> u64 {
        let mut h = placed(ctx, die);
        let walked = die::children(ctx, die, |child| {
            let value = die::constant(ctx, child);
            h = mix(mix(h, text(ctx, child)), value as u64);
            h = if i64::try_from(value).is_ok() { h } else { mix(h, (value >> 64) as u64) };
            Ok(())
        });
        self.note(ctx, die, walked);
        h
    }

    fn hash_function(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, kind: Kind, depth: usize) -> u64 {
        let to = if kind == Kind::Layout { Kind::Nominal } else { kind };
        let mut parts = vec![die.ty.and_then(|v| target(ctx, &v))];
        let mut variadic = 0;
        let walked = die::children(ctx, die, |child| {
            match child.tag {
                dw::DW_TAG_formal_parameter => parts.push(child.ty.and_then(|v| target(ctx, &v))),
                dw::DW_TAG_unspecified_parameters => variadic = 1,
                _ => {}
            }
            Ok(())
        });
        self.note(ctx, die, walked);
        let start = mix(mix(0, u64::from(die.tag.0)), variadic);
        parts.into_iter().fold(start, |h, part| mix(h, self.hash(part, to, depth)))
    }

    fn hash_aggregate(&mut self, ctx: &Loaded<'f>, die: &Die<'f>, kind: Kind, depth: usize) -> u64 {
        if kind == Kind::Nominal {
            return if die.name.is_some() { named(ctx, die) } else { placed(ctx, die) };
        }
        let shallow = placed(ctx, die);
        if kind == Kind::Shallow || die.declaration {
            return shallow;
        }
        let mut list = std::mem::take(&mut self.scratch);
        let first = list.len();
        let walked = members(ctx, die, &mut |m| list.push(m));
        let mut h = mix(mix(shallow, die.alignment.unwrap_or(0)), 7);
        for i in first..list.len() {
            let member = list[i];
            // nested calls use the part of the list behind ours
            self.scratch = std::mem::take(&mut list);
            let of_type = self.hash(member.ty, Kind::Layout, depth);
            list = std::mem::take(&mut self.scratch);
            h = mix(mix(h, hash_member(ctx, &member)), of_type);
        }
        list.truncate(first);
        self.scratch = list;
        self.note(ctx, die, walked);
        h
    }
}

fn hash_member<'f>(ctx: &Context<'f>, m: &RawMember<'f>) -> u64 {
    let name = m.name.map_or(0, |v| bytes(0, ctx.text_of(&v)));
    let (top, storage) = m.old_bits.map_or((0, 0), |(t, s)| (t.wrapping_add(1), s.unwrap_or(0)));
    let bits = u64::from(m.bit_size.map_or(0, |b| b.wrapping_add(1)));
    let h = mix(mix(name, m.offset_bits), bits << 8 | m.role as u64);
    mix(mix(h, u64::from(m.line) << 16 | m.align.unwrap_or(0)), top << 8 ^ storage)
}

/// Hash of the tag and the name with its scope.
fn named<'f>(ctx: &Context<'f>, die: &Die<'f>) -> u64 {
    let h = mix(kind_of(die.tag), bytes(0, ctx.scope(die.offset).as_bytes()));
    mix(h, text(ctx, die))
}

/// [`named`], with size and source position; an anonymous type without a position is only equal to itself.
fn placed<'f>(ctx: &Context<'f>, die: &Die<'f>) -> u64 {
    let name = named(ctx, die);
    if die.declaration {
        return mix(name, 11);
    }
    let h = mix(name, die.byte_size.unwrap_or(0));
    match die.decl_file {
        Some(file) => mix(mix(h, ctx.path_hash(file)), u64::from(die.decl_line)),
        None if die.name.is_some() => mix(h, 13),
        None => mix(mix(h, u64::from(ctx.id)), u64::from(die.offset)),
    }
}

/// `struct` and `class` of one name are one type in C++.
fn kind_of(tag: DwTag) -> u64 {
    u64::from(if tag == dw::DW_TAG_class_type { dw::DW_TAG_structure_type.0 } else { tag.0 })
}

fn text<'f>(ctx: &Context<'f>, die: &Die<'f>) -> u64 {
    die.name.map_or(0, |v| bytes(0, ctx.text_of(&v)))
}
