//! Types as debug information describes them, in one arena.
//!
//! A [`TypeTable`] owns every type of one build; a [`TypeId`] indexes it. Readers for DWARF, BTF and snapshots all
//! produce this and nothing else does, so printing, diffing and naming never care where a layout came from.

use crate::exact::Known;
use crate::spelling::canonical;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Index of a type in its [`TypeTable`]. Id 0 is always [`Type::Void`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub u32);

impl TypeId {
    /// `void`, or a type that the source could not describe.
    pub const VOID: TypeId = TypeId(0);
}

/// Typedefs and qualifiers in a row are followed so far: [`TypeTable::checked`] leaves none that are longer.
pub(crate) const CHAIN_MAX: usize = crate::check::NESTING_MAX as usize + 1;

/// Every type of one build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TypeTable {
    types: Vec<Type>,
    /// Size of a pointer in bytes (8 or 4).
    pub pointer_size: u8,
    /// Sizes and alignments that do not follow from what the types are made of.
    #[serde(default, skip_serializing_if = "Known::is_empty")]
    pub(crate) exact: Known,
    /// The types come from BTF, which keeps no alignments. `None` where that is not told (older snapshots).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aligns_lost: Option<bool>,
    /// Types of which not everything is known, and why: damaged, or nested beyond what is read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) doubts: BTreeMap<TypeId, String>,
    /// A part of the file could not be read, and what: types may be missing, definitions too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

impl TypeTable {
    /// A table that holds only `void`. `pointer_size` in bytes.
    pub fn new(pointer_size: u8) -> Self {
        TypeTable {
            types: vec![Type::Void],
            pointer_size,
            exact: Known::default(),
            aligns_lost: None,
            doubts: BTreeMap::new(),
            lost: None,
        }
    }

    /// Adds a type and returns its id. Tables of more than `u32::MAX` types do not occur: readers bound their input.
    pub fn push(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        id
    }

    /// Replaces a type, for readers that reserve an id before they have read its body (cyclic types).
    pub fn set(&mut self, id: TypeId, ty: Type) {
        if let Some(slot) = self.types.get_mut(id.0 as usize) {
            *slot = ty;
        }
    }

    /// The type, or [`Type::Void`] for an id from another table.
    pub fn get(&self, id: TypeId) -> &Type {
        self.types.get(id.0 as usize).unwrap_or(&Type::Void)
    }

    /// The type of an id that is in the table.
    pub(crate) fn get_mut(&mut self, id: TypeId) -> &mut Type {
        &mut self.types[id.0 as usize]
    }

    /// Elements of an array, of its first dimension; `None` of what is no array or has no length.
    pub fn elements(&self, id: TypeId) -> Option<u64> {
        match self.get(self.strip(id)) {
            Type::Array { counts, .. } => *counts.first()?,
            _ => None,
        }
    }

    /// The same types in another order: `order` lists the old ids, each once and `void` first; `new` maps every old
    /// id to its new one (several old ids may become one). For readers that sort or merge what they have read.
    pub fn reordered(self, order: &[TypeId], new: &[TypeId]) -> TypeTable {
        let map = |id: TypeId| new.get(id.0 as usize).copied().unwrap_or(TypeId::VOID);
        let mut old = self.types;
        let mut types: Vec<Type> = order
            .iter()
            .map(|id| old.get_mut(id.0 as usize).map_or(Type::Void, |t| std::mem::replace(t, Type::Void)))
            .collect();
        for ty in &mut types {
            ty.map_ids(map);
        }
        let mut exact = Known::default();
        for (&id, &known) in self.exact.iter() {
            exact.add(map(id), known);
        }
        let mut doubts = BTreeMap::new();
        for (id, why) in self.doubts {
            doubts.entry(map(id)).or_insert(why);
        }
        doubts.remove(&TypeId::VOID);
        let TypeTable { pointer_size, aligns_lost, lost, .. } = self;
        TypeTable { types, exact, pointer_size, aligns_lost, doubts, lost }
    }

    /// Adds the types of another table, except those that `known` finds here already, and returns the id that each
    /// type of the other table has here.
    pub fn absorb(&mut self, other: TypeTable, known: impl Fn(TypeId) -> Option<TypeId>) -> Vec<TypeId> {
        let mut ids = Vec::with_capacity(other.types.len());
        let mut fresh = Vec::new();
        for (at, ty) in other.types.into_iter().enumerate() {
            let old = TypeId(at as u32);
            let id = if old == TypeId::VOID { Some(old) } else { known(old) };
            ids.push(id.unwrap_or_else(|| {
                let id = self.push(Type::Void);
                other.exact.get(old).into_iter().for_each(|&e| self.exact.set(id, e));
                self.doubts.extend(other.doubts.get(&old).map(|why| (id, why.clone())));
                fresh.push((id, ty));
                id
            }));
        }
        for (id, mut ty) in fresh {
            ty.map_ids(|old| ids.get(old.0 as usize).copied().unwrap_or(TypeId::VOID));
            self.set(id, ty);
        }
        ids
    }

    /// Number of types, `void` included.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// True when only `void` is known.
    pub fn is_empty(&self) -> bool {
        self.types.len() <= 1
    }

    /// All types with their ids, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        self.types.iter().enumerate().map(|(i, t)| (TypeId(i as u32), t))
    }

    /// All structs, classes and unions, declarations without a body excluded.
    pub fn aggregates(&self) -> impl Iterator<Item = (TypeId, &Aggregate)> {
        self.iter().filter_map(|(id, t)| match t {
            Type::Aggregate(a) if !a.declaration => Some((id, a)),
            _ => None,
        })
    }

    /// The type, what it is a typedef of or qualifies, and so on. Stops after [`CHAIN_MAX`] steps (a cycle).
    fn layers(&self, id: TypeId) -> impl Iterator<Item = TypeId> {
        let inner = |id: &TypeId| match self.get(*id) {
            Type::Typedef { to, .. }
            | Type::Const(to)
            | Type::Volatile(to)
            | Type::Restrict(to)
            | Type::Atomic(to) => Some(*to),
            _ => None,
        };
        std::iter::successors(Some(id), inner).take(CHAIN_MAX + 1)
    }

    /// Follows typedefs and qualifiers to the type that has a size. Stops after [`CHAIN_MAX`] steps (a cycle).
    pub fn strip(&self, id: TypeId) -> TypeId {
        self.layers(id).last().unwrap_or(id)
    }

    /// What an array has elements of, of arrays of arrays too, stripped; other types are their own. Stops after
    /// [`DEPTH_MAX`](crate::leaf::DEPTH_MAX) steps (a cycle).
    pub fn element(&self, id: TypeId) -> TypeId {
        let mut id = self.strip(id);
        for _ in 0..crate::leaf::DEPTH_MAX {
            let Type::Array { elem, .. } = self.get(id) else { break };
            id = self.strip(*elem);
        }
        id
    }

    /// The innermost of the typedefs around a type: what a struct without a tag is called.
    pub fn first_typedef(&self, id: TypeId) -> Option<TypeId> {
        self.layers(id).filter(|id| matches!(self.get(*id), Type::Typedef { .. })).last()
    }

    /// The struct, class or union behind typedefs and qualifiers.
    pub fn aggregate(&self, id: TypeId) -> Option<&Aggregate> {
        match self.get(self.strip(id)) {
            Type::Aggregate(a) => Some(a),
            _ => None,
        }
    }

    /// Finds a defined aggregate by name: `foo`, `struct foo`, `union foo`, `ns::Foo`, a typedef of one; instances of
    /// templates in any compiler's spelling (`Slot<long>`, `Slot<long int>`).
    /// The first definition wins; use [`TypeTable::aggregates`] to see them all.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        let (kind, bare) = split_keyword(name);
        let direct = self
            .aggregates()
            .find(|(_, a)| kind.is_none_or(|k| a.kind == k) && a.name.as_deref().is_some_and(|n| n == bare));
        let instance = || {
            let wanted = bare.contains('<').then(|| canonical(bare))?;
            let same =
                |a: &Aggregate| a.name.as_deref().is_some_and(|n| n.contains('<') && canonical(n) == wanted);
            self.aggregates().find(|(_, a)| kind.is_none_or(|k| a.kind == k) && same(a))
        };
        if let Some((id, _)) = direct.or_else(instance) {
            return Some(id);
        }
        if kind.is_some() {
            return None;
        }
        let behind = self.iter().filter_map(|(_, t)| match t {
            Type::Typedef { name: n, to } if n == bare => self.aggregate(*to).map(|a| (self.strip(*to), a)),
            _ => None,
        });
        // A pointer's target may be known by its name alone.
        let (id, _) = behind.min_by_key(|(_, a)| a.declaration)?;
        Some(id)
    }

    /// All definitions that [`TypeTable::find`] could give: units of one program may define a name differently.
    pub fn find_all(&self, name: &str) -> Vec<TypeId> {
        let (kind, bare) = split_keyword(name);
        let direct = self.aggregates().filter(|(_, a)| {
            kind.is_none_or(|k| a.kind == k) && a.name.as_deref().is_some_and(|n| n == bare)
        });
        let mut found: Vec<TypeId> = direct.map(|(id, _)| id).collect();
        if found.is_empty() && kind.is_none() {
            let named = self.iter().filter_map(|(_, t)| match t {
                Type::Typedef { name: n, to } if n == bare => self.aggregate(*to).map(|_| self.strip(*to)),
                _ => None,
            });
            found = named.collect();
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Size in bytes; `None` for incomplete types, functions and flexible arrays.
    pub fn size(&self, id: TypeId) -> Option<u64> {
        self.size_at(id, 0)
    }

    fn size_at(&self, id: TypeId, depth: usize) -> Option<u64> {
        if depth > crate::leaf::DEPTH_MAX {
            return None;
        }
        if let Some(padded) = self.padded_atomic(id) {
            return Some(padded);
        }
        let id = self.strip(id);
        if let Some(size) = self.exact.size(id) {
            return Some(size);
        }
        match self.get(id) {
            Type::Base(b) => Some(b.size),
            Type::Pointer { size, .. } => Some(*size),
            Type::Reference { .. } => Some(u64::from(self.pointer_size)),
            Type::Other { size, .. } if *size > 0 => Some(*size),
            Type::Array { elem, counts } => {
                let n = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?))?;
                self.size_at(*elem, depth + 1)?.checked_mul(n)
            }
            Type::Aggregate(a) if !a.declaration => Some(a.size),
            Type::Enum(e) => Some(e.size),
            _ => None,
        }
    }

    /// Size of an atomic type that has more bytes than what it is made of.
    fn padded_atomic(&self, id: TypeId) -> Option<u64> {
        if !self.exact.has_sizes() {
            return None;
        }
        self.exact.size(self.layers(id).find(|id| matches!(self.get(*id), Type::Atomic(_)))?)
    }

    /// The type's name as its language writes it: `struct foo *`, `unsigned int [4]`, `ns::Foo`.
    pub fn name(&self, id: TypeId) -> String {
        self.name_at(id, 0)
    }

    fn name_at(&self, id: TypeId, depth: usize) -> String {
        if depth > crate::leaf::DEPTH_MAX {
            return "...".into();
        }
        let inner = |to: TypeId| self.name_at(to, depth + 1);
        match self.get(id) {
            Type::Void => "void".into(),
            Type::Base(b) => b.name.clone(),
            Type::Pointer { to, .. } => match self.get(*to) {
                Type::Function { .. } => format!("{} (*)()", inner(*to)),
                Type::Pointer { .. } => format!("{}*", inner(*to)),
                _ => format!("{} *", inner(*to)),
            },
            Type::Reference { to, rvalue } => format!("{} {}", inner(*to), if *rvalue { "&&" } else { "&" }),
            Type::Array { elem, counts } => {
                let dims: String =
                    counts.iter().map(|c| c.map_or("[]".into(), |n| format!("[{n}]"))).collect();
                format!("{}{dims}", inner(*elem))
            }
            Type::Aggregate(a) => a.display_name(),
            Type::Enum(e) => match &e.name {
                Some(n) => format!("enum {n}"),
                None => "enum".into(),
            },
            Type::Typedef { name, .. } => name.clone(),
            Type::Const(t) => match self.get(*t) {
                Type::Pointer { .. } => format!("{} const", inner(*t)),
                _ => format!("const {}", inner(*t)),
            },
            Type::Volatile(t) => format!("volatile {}", inner(*t)),
            Type::Restrict(t) => format!("{} restrict", inner(*t)),
            Type::Atomic(t) => format!("_Atomic {}", inner(*t)),
            Type::Function { ret, .. } => inner(*ret),
            Type::Other { name, .. } => name.clone(),
        }
    }
}

/// Splits `struct foo` into its keyword and the bare name.
pub(crate) fn split_keyword(name: &str) -> (Option<AggregateKind>, &str) {
    for (word, kind) in [
        ("struct ", AggregateKind::Struct),
        ("union ", AggregateKind::Union),
        ("class ", AggregateKind::Class),
    ] {
        if let Some(rest) = name.strip_prefix(word) {
            return (Some(kind), rest.trim());
        }
    }
    (None, name.trim())
}

/// One type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Type {
    /// No type, or one that could not be read.
    Void,
    /// Integer, float, bool, character.
    Base(Base),
    /// Pointer; `size` in bytes.
    Pointer {
        /// What it points to.
        to: TypeId,
        /// Bytes.
        size: u64,
    },
    /// C++ reference.
    Reference {
        /// What it refers to.
        to: TypeId,
        /// `&&` instead of `&`.
        rvalue: bool,
    },
    /// Array, outermost dimension first; a `None` count is a flexible array.
    Array {
        /// Element type.
        elem: TypeId,
        /// Elements per dimension.
        counts: Vec<Option<u64>>,
    },
    /// Struct, union, class.
    Aggregate(Aggregate),
    /// Enumeration.
    Enum(EnumType),
    /// Typedef or type alias.
    Typedef {
        /// Its name.
        name: String,
        /// What it stands for.
        to: TypeId,
    },
    /// `const`.
    Const(TypeId),
    /// `volatile`.
    Volatile(TypeId),
    /// `restrict`.
    Restrict(TypeId),
    /// `_Atomic`.
    Atomic(TypeId),
    /// Function, as the target of pointers.
    Function {
        /// Return type.
        ret: TypeId,
        /// Parameter types.
        params: Vec<TypeId>,
        /// Ends in `...`.
        variadic: bool,
    },
    /// Anything else that has a name and perhaps a size (pointers to members, `decltype(nullptr)`).
    Other {
        /// How it prints.
        name: String,
        /// Bytes, 0 if unknown.
        size: u64,
    },
}

impl Type {
    /// Replaces every reference to another type.
    pub fn map_ids(&mut self, map: impl Fn(TypeId) -> TypeId) {
        match self {
            Type::Pointer { to, .. } | Type::Reference { to, .. } | Type::Typedef { to, .. } => {
                *to = map(*to)
            }
            Type::Array { elem, .. } => *elem = map(*elem),
            Type::Const(t) | Type::Volatile(t) | Type::Restrict(t) | Type::Atomic(t) => *t = map(*t),
            Type::Function { ret, params, .. } => {
                *ret = map(*ret);
                params.iter_mut().for_each(|p| *p = map(*p));
            }
            Type::Aggregate(a) => {
                a.members.iter_mut().for_each(|m| m.ty = map(m.ty));
                a.indirect_bases.iter_mut().for_each(|b| b.0 = map(b.0));
            }
            Type::Void | Type::Base(_) | Type::Enum(_) | Type::Other { .. } => {}
        }
    }
}

/// How the bytes of a base type are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// Signed integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Floating point.
    Float,
    /// Boolean.
    Bool,
    /// Character.
    Char,
    /// Anything else.
    Other,
}

/// A scalar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Name as the compiler wrote it (`long unsigned int`).
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// How to read it.
    pub encoding: Encoding,
}

/// An enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnumType {
    /// Tag name.
    pub name: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Its constants.
    pub values: Vec<Enumerator>,
}

/// One constant of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enumerator {
    /// Name.
    pub name: String,
    /// Value; `u64` values above `i64::MAX` keep their bits.
    pub value: i64,
    /// Bits 64 to 127, where the value needs them: of enumerations of 16 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
}

impl Enumerator {
    /// A constant of up to 128 bits.
    pub fn new(name: String, value: i128) -> Enumerator {
        let high = i64::try_from(value).is_err().then_some((value >> 64) as u64);
        Enumerator { name, value: value as i64, high }
    }

    /// The value with all its bits.
    pub fn wide(&self) -> i128 {
        match self.high {
            Some(high) => (u128::from(high) << 64 | u128::from(self.value as u64)) as i128,
            None => i128::from(self.value),
        }
    }
}

/// The keyword of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AggregateKind {
    /// `struct`.
    Struct,
    /// `union`.
    Union,
    /// `class`.
    Class,
}

impl AggregateKind {
    /// `struct`, `union` or `class`.
    pub fn keyword(self) -> &'static str {
        match self {
            AggregateKind::Struct => "struct",
            AggregateKind::Union => "union",
            AggregateKind::Class => "class",
        }
    }
}

/// Source language of a type, as far as naming differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    /// C and everything that names types like C.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// Where an alignment is known from. BTF loses `aligned`, so there it can only be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlignmentSource {
    /// Written in the source and kept by the debug information.
    Declared,
    /// Computed from the members' natural alignment, size and offsets.
    Inferred,
}

/// An alignment and how we know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// Power of two.
    pub bytes: u64,
    /// Declared or inferred.
    pub source: AlignmentSource,
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLoc {
    /// Path as the debug information has it.
    pub file: String,
    /// 1-based; 0 when unknown.
    pub line: u32,
}

/// Keeps defaults out of snapshots.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Struct, union or class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Keyword.
    pub kind: AggregateKind,
    /// Name with its namespaces (`ns::Foo`); `None` when anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Alignment written in the source, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Alignment>,
    /// In declaration order; bases first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// Source position of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decl: Option<SourceLoc>,
    /// Only declared, never defined, in what was read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub declaration: bool,
    /// Source language.
    #[serde(default, skip_serializing_if = "is_default")]
    pub language: Language,
    /// The compilation unit that was read first of those that define it so, where the program has several definitions
    /// of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Virtual bases that come through another base, and their byte offsets in a complete object, as far as the
    /// program's vtables tell them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indirect_bases: Vec<(TypeId, u64)>,
}

impl Aggregate {
    /// A defined C aggregate of `size` bytes with these members; where it is declared is not known.
    pub fn new(kind: AggregateKind, name: Option<&str>, size: u64, members: Vec<Member>) -> Aggregate {
        Aggregate {
            kind,
            name: name.map(Into::into),
            size,
            align: None,
            members,
            decl: None,
            declaration: false,
            language: Language::C,
            unit: None,
            indirect_bases: Vec::new(),
        }
    }

    /// `struct foo`, `union {..}` for anonymous ones, `ns::Foo` for C++ and Rust.
    pub fn display_name(&self) -> String {
        match (&self.name, self.language) {
            (Some(n), Language::C) => format!("{} {n}", self.kind.keyword()),
            (Some(n), _) => n.clone(),
            (None, _) => format!("{} {{...}}", self.kind.keyword()),
        }
    }
}

/// What a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRole {
    /// An ordinary data member.
    #[default]
    Field,
    /// A C++ base class.
    Base,
    /// A virtual C++ base class. Its offset holds for complete objects of the type only, and may be
    /// [`Member::UNPLACED`].
    VirtualBase,
    /// A compiler-made pointer to the virtual table.
    Vptr,
    /// A static data member: takes no room in the object.
    Static,
    /// A Rust enum's discriminant.
    Discriminant,
    /// The contents of one variant of a Rust enum; overlaps its siblings.
    Variant,
}

/// One member of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `None` for anonymous structs and unions and for unnamed bit-fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeId,
    /// From the start of the aggregate.
    pub offset_bits: u64,
    /// Width of a bit-field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_size: Option<u32>,
    /// `_Alignas` / `aligned` on the member, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u64>,
    /// Line of its declaration, in the file of the aggregate; 0 when unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decl_line: u32,
    /// What it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: MemberRole,
}

impl Member {
    /// [`Member::offset_bits`] of a virtual base: its place depends on the complete object (see
    /// [`crate::bases::virtual_bases`]).
    pub const UNPLACED: u64 = u64::MAX;

    /// An ordinary member, no bit-field, at this byte.
    pub fn field(name: Option<&str>, ty: TypeId, offset: u64) -> Member {
        Member {
            name: name.map(Into::into),
            ty,
            offset_bits: offset * 8,
            bit_size: None,
            align: None,
            decl_line: 0,
            role: MemberRole::Field,
        }
    }

    /// Byte in which the member starts.
    pub fn offset(&self) -> u64 {
        self.offset_bits / 8
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
