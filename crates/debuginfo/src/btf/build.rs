//! Model types of BTF records.

use tussle_model::{
    Aggregate, AggregateKind, Base, Encoding, EnumType, Enumerator, Language, Member, MemberRole, Type,
    TypeId,
};

use super::raw::{Blob, Record, kind};
use crate::error::Damages;
use crate::text::Budget;

/// Chains of arrays and type tags longer than this are cut.
const CHAIN_MAX: usize = 64;

/// Makes a type id of a record id; the flag says that the type is contained by value.
pub(super) type Resolve<'r, 'd> = &'r mut dyn FnMut(&Reader<'d>, u32, bool) -> TypeId;

/// All records of a base and a split blob under one numbering; 0 is `void`.
pub(super) struct Reader<'d> {
    blobs: Vec<Blob<'d>>,
    pub pointer_size: u8,
    pub problems: Damages,
    budget: Budget,
}

impl<'d> Reader<'d> {
    pub fn new(blobs: Vec<Blob<'d>>, pointer_size: u8, problems: Damages) -> Reader<'d> {
        let bytes = blobs.iter().map(|b| b.strings_len() + b.len() * 12).sum();
        Reader { blobs, pointer_size, problems, budget: Budget::for_input(bytes) }
    }

    /// Number of ids, `void` included.
    pub fn len(&self) -> usize {
        1 + self.blobs.iter().map(Blob::len).sum::<usize>()
    }

    pub fn record(&self, id: u32) -> Option<Record<'d>> {
        let mut index = (id as usize).checked_sub(1)?;
        for blob in &self.blobs {
            if index < blob.len() {
                return blob.record(index);
            }
            index -= blob.len();
        }
        None
    }

    /// A string by its offset in the concatenated string sections.
    pub fn text(&self, offset: u32) -> &'d [u8] {
        let mut at = offset as usize;
        for blob in &self.blobs {
            if at < blob.strings_len() {
                return blob.string(at);
            }
            at -= blob.strings_len();
        }
        &[]
    }

    fn string(&mut self, offset: u32) -> Option<String> {
        let text = self.text(offset);
        (!text.is_empty()).then(|| self.budget.string(text))
    }

    /// Follows type tags (`__user`, `__rcu`), which are no types of their own.
    pub fn untagged(&self, mut id: u32) -> u32 {
        for _ in 0..CHAIN_MAX {
            match self.record(id) {
                Some(r) if r.kind == kind::TYPE_TAG => id = r.size,
                _ => break,
            }
        }
        id
    }

    pub fn is_named_aggregate(&self, id: u32) -> bool {
        self.record(id)
            .is_some_and(|r| matches!(r.kind, kind::STRUCT | kind::UNION) && !self.text(r.name).is_empty())
    }

    /// The definitions of `foo`, `struct foo`, or else a typedef of that name.
    pub fn find_all(&self, name: &str) -> Vec<u32> {
        let words = [("struct ", kind::STRUCT), ("union ", kind::UNION), ("enum ", kind::ENUM)];
        let keyword = words.iter().find_map(|&(w, k)| Some((k, name.strip_prefix(w)?)));
        let bare = keyword.map_or(name, |(_, rest)| rest).trim();
        let mut offsets = Vec::new();
        let mut before = 0u32;
        for blob in &self.blobs {
            offsets.extend(blob.find_string(bare.as_bytes()).into_iter().map(|o| o + before));
            before += blob.strings_len() as u32;
        }
        let named = |r: &Record<'_>| super::is_findable(r.kind) && offsets.contains(&r.name);
        let of_kind = |r: &Record<'_>| match keyword {
            Some((kind::ENUM, _)) => matches!(r.kind, kind::ENUM | kind::ENUM64),
            Some((k, _)) => r.kind == k,
            None => true,
        };
        let hits: Vec<(u32, u32)> = (1..self.len() as u32)
            .filter_map(|id| self.record(id).filter(|r| named(r) && of_kind(r)).map(|r| (id, r.kind)))
            .collect();
        let whole: Vec<u32> =
            hits.iter().filter(|h| matches!(h.1, kind::STRUCT | kind::UNION)).map(|h| h.0).collect();
        match whole.is_empty() {
            true => hits.first().map(|h| h.0).into_iter().collect(),
            false => whole,
        }
    }

    /// A struct or union of which only the name matters.
    pub fn declaration(&mut self, id: u32) -> Type {
        let Some(r) = self.record(id) else { return Type::Void };
        let (name, size) = (self.string(r.name), u64::from(r.size));
        Type::Aggregate(Aggregate { size, declaration: true, ..aggregate(r.kind == kind::UNION, name) })
    }

    /// The type of a record.
    pub fn build(&mut self, id: u32, resolve: Resolve<'_, 'd>) -> Type {
        let Some(r) = self.record(id) else { return Type::Void };
        match r.kind {
            kind::INT => self.int(&r),
            kind::FLOAT => {
                let name = self.string(r.name).unwrap_or_default();
                Type::Base(Base { name, size: r.size.into(), encoding: Encoding::Float })
            }
            kind::PTR => {
                Type::Pointer { to: resolve(self, r.size, false), size: u64::from(self.pointer_size) }
            }
            kind::ARRAY => self.array(&r, resolve),
            kind::STRUCT | kind::UNION => self.aggregate(&r, resolve),
            kind::ENUM | kind::ENUM64 => self.enumeration(&r),
            kind::FWD => {
                let name = self.string(r.name);
                Type::Aggregate(Aggregate { declaration: true, ..aggregate(r.flag, name) })
            }
            kind::TYPEDEF => {
                let name = self.string(r.name).unwrap_or_default();
                Type::Typedef { name, to: resolve(self, r.size, true) }
            }
            kind::CONST => Type::Const(resolve(self, r.size, true)),
            kind::VOLATILE => Type::Volatile(resolve(self, r.size, true)),
            kind::RESTRICT => Type::Restrict(resolve(self, r.size, true)),
            kind::FUNC_PROTO => self.function(&r, resolve),
            // a tag stands in the table only because ids are kept; nothing refers to it
            _ => Type::Void,
        }
    }

    fn int(&mut self, r: &Record<'_>) -> Type {
        let name = self.string(r.name).unwrap_or_default();
        let encoding = match r.word(0) >> 24 & 0xf {
            _ if name == "char" => Encoding::Char,
            0 => Encoding::Unsigned,
            1 => Encoding::Signed,
            2 => Encoding::Char,
            4 => Encoding::Bool,
            _ => Encoding::Other,
        };
        Type::Base(Base { name, size: r.size.into(), encoding })
    }

    /// BTF nests one array per dimension.
    fn array(&mut self, r: &Record<'d>, resolve: Resolve<'_, 'd>) -> Type {
        let mut counts = vec![count(r.word(2))];
        let mut elem = r.word(0);
        while let Some(inner) =
            self.record(elem).filter(|r| r.kind == kind::ARRAY && counts.len() < CHAIN_MAX)
        {
            counts.push(count(inner.word(2)));
            elem = inner.word(0);
        }
        Type::Array { elem: resolve(self, elem, true), counts }
    }

    fn aggregate(&mut self, r: &Record<'d>, resolve: Resolve<'_, 'd>) -> Type {
        let mut members = Vec::with_capacity(r.count);
        for i in 0..r.count {
            let (name, ty, offset) = (r.word(i * 3), r.word(i * 3 + 1), r.word(i * 3 + 2));
            let (offset_bits, bit_size) = match r.flag {
                true => (u64::from(offset & 0x00ff_ffff), Some(offset >> 24).filter(|&b| b > 0)),
                false => self.old_bits(ty, offset),
            };
            members.push(Member {
                name: self.string(name),
                ty: resolve(self, ty, true),
                offset_bits,
                bit_size,
                align: None,
                decl_line: 0,
                role: MemberRole::Field,
            });
        }
        let name = self.string(r.name);
        let size = u64::from(r.size);
        Type::Aggregate(Aggregate { members, size, ..aggregate(r.kind == kind::UNION, name) })
    }

    /// Without the flag a bit-field is an integer that is narrower than its bytes, at an offset of its own.
    fn old_bits(&self, ty: u32, offset: u32) -> (u64, Option<u32>) {
        let mut id = ty;
        for _ in 0..CHAIN_MAX {
            match self.record(id) {
                Some(r) if is_alias(r.kind) => id = r.size,
                Some(r) if r.kind == kind::INT => {
                    let (bits, inner) = (r.word(0) & 0xff, r.word(0) >> 16 & 0xff);
                    let narrow = u64::from(bits) != u64::from(r.size) * 8 || inner != 0;
                    return (u64::from(offset) + u64::from(inner), narrow.then_some(bits));
                }
                _ => break,
            }
        }
        (u64::from(offset), None)
    }

    fn enumeration(&mut self, r: &Record<'d>) -> Type {
        let mut values = Vec::with_capacity(r.count);
        for i in 0..r.count {
            let (name, value) = match r.kind {
                kind::ENUM64 => {
                    let bits = u64::from(r.word(i * 3 + 2)) << 32 | u64::from(r.word(i * 3 + 1));
                    (r.word(i * 3), bits as i64)
                }
                // before 6.0 the flag for signedness did not exist: values were signed
                _ => (r.word(i * 2), i64::from(r.word(i * 2 + 1) as i32)),
            };
            values.push(Enumerator { name: self.string(name).unwrap_or_default(), value, high: None });
        }
        Type::Enum(EnumType { name: self.string(r.name), size: r.size.into(), values })
    }

    fn function(&mut self, r: &Record<'d>, resolve: Resolve<'_, 'd>) -> Type {
        let mut params = Vec::with_capacity(r.count);
        for i in 0..r.count {
            params.push((r.word(i * 2), r.word(i * 2 + 1)));
        }
        // a last parameter without name and type is the ellipsis
        let variadic = params.last() == Some(&(0, 0));
        if variadic {
            params.pop();
        }
        let params = params.into_iter().map(|(_, ty)| resolve(self, ty, false)).collect();
        Type::Function { ret: resolve(self, r.size, false), params, variadic }
    }
}

fn is_alias(kind: u32) -> bool {
    matches!(kind, kind::TYPEDEF | kind::CONST | kind::VOLATILE | kind::RESTRICT | kind::TYPE_TAG)
}

/// BTF writes `[]` and `[0]` alike.
fn count(elements: u32) -> Option<u64> {
    (elements > 0).then_some(u64::from(elements))
}

fn aggregate(union: bool, name: Option<String>) -> Aggregate {
    Aggregate {
        kind: if union { AggregateKind::Union } else { AggregateKind::Struct },
        name,
        size: 0,
        align: None,
        members: Vec::new(),
        decl: None,
        declaration: false,
        language: Language::C,
        unit: None,
        indirect_bases: Vec::new(),
    }
}
