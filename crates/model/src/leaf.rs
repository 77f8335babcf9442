//! Flattening of nested members to leaf fields (`mmap_lock.owner`), the unit in which contention is named.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::bases::virtual_bases;
use crate::types::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeId, TypeTable};

/// Nesting deeper than this is cut, and told: kernels stay below 20, a `std::tuple` of 80 has 80 levels, hostile files
/// can be cyclic.
pub const DEPTH_MAX: usize = 256;

/// Flattening stops after this many leaves: a hostile file can describe 2^64 of them in a few bytes.
pub const LEAVES_MAX: usize = 65_536;

/// And after this many types looked at: elements without a single leaf can be as many.
const VISITS_MAX: usize = 4 * LEAVES_MAX;

/// And after paths of so many bytes: a hostile file nests long names.
const PATHS_BYTES_MAX: usize = 1 << 26;

/// A scalar (or an array of scalars) inside an object, with its full path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// `mmap_lock.owner`; array elements as `lists[3].next`; empty for a scalar object.
    pub path: String,
    /// First byte, from the start of the object.
    pub offset: u64,
    /// Bytes that it touches.
    pub size: u64,
    /// For bit-fields: first bit from the start of the object and width in bits.
    pub bits: Option<(u64, u32)>,
    /// Type of the leaf.
    pub ty: TypeId,
    /// Overlaps another leaf (member of a union or a variant).
    pub overlaps: bool,
}

impl Leaf {
    /// First byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// How arrays are flattened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// One leaf for an array of scalars; arrays of aggregates element by element.
    Whole,
    /// One leaf per element.
    Elements,
}

/// The leaf fields of `id` in order of offset, then of declaration. Never more than [`LEAVES_MAX`]: who has so many
/// has a cut list. What lies in a virtual base whose place is unknown is left out.
pub fn leaves(table: &TypeTable, id: TypeId, arrays: Arrays) -> Vec<Leaf> {
    Walk::over(table, arrays, 0..u64::MAX).run(id)
}

/// The leaf fields of `id` that touch some of these bytes. Arrays are not walked outside of them.
pub fn leaves_within(table: &TypeTable, id: TypeId, arrays: Arrays, window: Range<u64>) -> Vec<Leaf> {
    Walk::over(table, arrays, window).run(id)
}

/// [`leaves_within`], and whether some are missing: there are too many, or they nest too deeply.
pub fn leaves_told(table: &TypeTable, id: TypeId, arrays: Arrays, window: Range<u64>) -> (Vec<Leaf>, bool) {
    let mut walk = Walk::over(table, arrays, window);
    walk.visit(id, At::top());
    let cut = walk.cut;
    (walk.sorted().0, cut)
}

/// The leaf fields as people speak of them, for pictures and tables: `mmap_lock.count` is one field though its type is
/// a struct around one scalar, and so is `mmap_lock.wait_lock`, whose 4 bytes a union names in five ways.
///
/// The only member of a struct of its own size takes the struct's name; a named member of at most 8 bytes with a union
/// inside is one field.
pub fn fields(table: &TypeTable, id: TypeId, arrays: Arrays) -> Vec<Leaf> {
    Walk { whole: true, ..Walk::over(table, arrays, 0..u64::MAX) }.run(id)
}

/// [`fields`] of two builds of a type, named alike: a member is one field only where it is one in both builds. A lock
/// of one `int` is `lock`; beside a build in which the lock has an owner too, it is `lock.val`.
pub fn fields_of_both(
    old: (&TypeTable, TypeId),
    new: (&TypeTable, TypeId),
    arrays: Arrays,
) -> (Vec<Leaf>, Vec<Leaf>) {
    let mut open = HashSet::new();
    loop {
        let walk = |(table, id): (&TypeTable, TypeId)| {
            let walk = Walk { whole: true, open: Some(&open), ..Walk::over(table, arrays, 0..u64::MAX) };
            walk.run_with_folds(id)
        };
        let ((a, here), (b, there)) = (walk(old), walk(new));
        // Each round opens members that were folded: there are no more rounds than levels of nesting.
        let differ: Vec<u64> = here.only_folded(&there).chain(there.only_folded(&here)).collect();
        if differ.is_empty() {
            return (a, b);
        }
        open.extend(differ);
    }
}

/// Which members with members of their own are one field, and which are not, by [`step`]s of their full paths.
#[derive(Default)]
struct Folds {
    folded: Vec<u64>,
    open: Vec<u64>,
}

impl Folds {
    fn sorted(mut self) -> Folds {
        for list in [&mut self.folded, &mut self.open] {
            list.sort_unstable();
            list.dedup();
        }
        self
    }

    /// Members that are one field here and not there.
    fn only_folded<'a>(&'a self, there: &'a Folds) -> impl Iterator<Item = u64> + 'a {
        self.folded.iter().copied().filter(|key| there.open.binary_search(key).is_ok())
    }
}

/// A full path as a number, one name further (FNV-1a): nothing is allocated for names that a leaf's path leaves out.
/// Elements of an array are of one type and have the key of the array.
fn step(before: u64, name: Option<&str>) -> u64 {
    let mix = |key: u64, byte: u8| (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.unwrap_or("?").bytes().fold(mix(before, b'.'), mix)
}

/// The leaf that holds byte `offset`, preferring one that starts there, then the smallest.
pub fn leaf_at(leaves: &[Leaf], offset: u64) -> Option<&Leaf> {
    leaves
        .iter()
        .filter(|l| l.offset <= offset && offset < l.end())
        .min_by_key(|l| (l.offset != offset, l.size))
}

struct Walk<'a> {
    table: &'a TypeTable,
    arrays: Arrays,
    window: Range<u64>,
    out: Vec<(Leaf, Option<String>)>,
    visits: usize,
    /// Bytes of all paths in `out`.
    paths_bytes: usize,
    /// Something was left out.
    cut: bool,
    /// As [`fields`] has it.
    whole: bool,
    /// Members that are not one field, as [`fields_of_both`] finds them; none when one build is looked at alone.
    open: Option<&'a HashSet<u64>>,
    folds: Folds,
}

/// What is known on the way to a leaf.
#[derive(Clone)]
struct At {
    path: String,
    /// The path with the bases that it goes through, if any.
    full: Option<String>,
    /// The base that is being looked into.
    base: Option<String>,
    offset: u64,
    overlaps: bool,
    depth: usize,
    /// The object is no base of another: its virtual bases are its own.
    complete: bool,
    /// The full path, with names that the leaf's path leaves out.
    key: u64,
}

impl At {
    fn top() -> At {
        let (path, full, base) = (String::new(), None, None);
        At { path, full, base, offset: 0, overlaps: false, depth: 0, complete: true, key: 0 }
    }

    /// A step down to a member of that name.
    fn member(&self, name: Option<&str>, offset: u64, overlaps: bool) -> At {
        let (depth, complete, key) = (self.depth + 1, true, self.key);
        let Some(name) = name else {
            return At { offset, overlaps, depth, complete, ..self.clone() };
        };
        let before = self.full.as_deref().unwrap_or(&self.path);
        let full = match &self.base {
            Some(base) => Some(join(before, &format!("{base}::{name}"))),
            None => self.full.as_deref().map(|full| join(full, name)),
        };
        At { path: join(&self.path, name), full, base: None, offset, overlaps, depth, complete, key }
    }

    fn base(&self, table: &TypeTable, ty: TypeId, offset: u64) -> At {
        let name = table.aggregate(ty).and_then(|a| a.name.clone());
        let key = step(self.key, None);
        At { base: name, offset, depth: self.depth + 1, complete: false, key, ..self.clone() }
    }
}

impl<'a> Walk<'a> {
    fn over(table: &'a TypeTable, arrays: Arrays, window: Range<u64>) -> Walk<'a> {
        let (out, folds, paths_bytes, cut) = (Vec::new(), Folds::default(), 0, false);
        Walk { table, arrays, window, out, visits: 0, paths_bytes, cut, whole: false, open: None, folds }
    }

    fn run(self, id: TypeId) -> Vec<Leaf> {
        self.run_with_folds(id).0
    }

    fn run_with_folds(mut self, id: TypeId) -> (Vec<Leaf>, Folds) {
        self.visit(id, At::top());
        self.sorted()
    }

    fn sorted(mut self) -> (Vec<Leaf>, Folds) {
        self.name_by_bases();
        let mut out: Vec<Leaf> = self.out.into_iter().map(|(leaf, _)| leaf).collect();
        out.sort_by_key(|l| l.offset);
        (out, self.folds.sorted())
    }

    /// Whether a member that could be one field is one, where two builds are compared.
    fn folds(&mut self, at: &At, could: bool) -> bool {
        let Some(open) = self.open.filter(|_| !at.path.is_empty()) else { return could };
        let folds = could && !open.contains(&at.key);
        let list = if folds { &mut self.folds.folded } else { &mut self.folds.open };
        list.push(at.key);
        folds
    }

    /// Leaves of one path at different places get the bases that they lie in into their paths.
    fn name_by_bases(&mut self) {
        if self.out.iter().all(|(_, full)| full.is_none()) {
            return;
        }
        let mut count: HashMap<String, usize> = HashMap::new();
        for (leaf, _) in &self.out {
            *count.entry(leaf.path.clone()).or_default() += 1;
        }
        for (leaf, full) in &mut self.out {
            if let Some(full) = full.take().filter(|_| count.get(&leaf.path).is_some_and(|&n| n > 1)) {
                leaf.path = full;
            }
        }
    }

    /// `a` is all of its only member, so that the member's name adds nothing.
    fn wraps(&self, a: &Aggregate) -> bool {
        let mut fields = a.members.iter().filter(|m| m.role != MemberRole::Static);
        let (Some(m), None) = (fields.next(), fields.next()) else { return false };
        self.whole && m.bit_size.is_none() && m.offset_bits == 0 && self.table.size(m.ty) == Some(a.size)
    }

    /// Small and a union somewhere: the bytes have several names, the member has one.
    fn small_union(&self, a: &Aggregate, depth: usize) -> bool {
        let inner = |m: &Member| self.table.aggregate(m.ty).is_some_and(|a| self.small_union(a, depth + 1));
        let union = a.kind == AggregateKind::Union && a.members.len() > 1;
        self.whole && a.size <= 8 && depth < 8 && (union || a.members.iter().any(inner))
    }

    fn visit(&mut self, id: TypeId, at: At) {
        self.visits += 1;
        if self.outside(id, &at) {
            return;
        }
        if at.depth > 2 * DEPTH_MAX || self.full() {
            self.cut = true;
            return;
        }
        let id = self.table.strip(id);
        match self.table.get(id) {
            Type::Aggregate(a) if !at.path.is_empty() && self.small_union(a, 0) && self.folds(&at, true) => {
                self.push(id, a.size, None, at);
            }
            Type::Aggregate(a) if !a.members.is_empty() => self.aggregate(a, at),
            Type::Array { elem, counts } => self.array(id, *elem, counts, at),
            _ => self.push(id, self.table.size(id).unwrap_or(0), None, at),
        }
    }

    /// Nothing of it lies in the window.
    fn outside(&self, id: TypeId, at: &At) -> bool {
        let Some(size) = self.table.size(id) else { return false };
        // bases have data of the whole in their tails, virtual bases lie beyond theirs
        let end = at.offset.saturating_add(size);
        at.offset >= self.window.end || (at.complete && size > 0 && end <= self.window.start)
    }

    fn aggregate(&mut self, a: &Aggregate, at: At) {
        let could = self.wraps(a);
        let wraps = self.folds(&at, could);
        let in_union = at.overlaps || (a.kind == AggregateKind::Union && !wraps);
        for m in &a.members {
            let over = in_union || m.role == MemberRole::Variant;
            let offset = at.offset.saturating_add(m.offset());
            let key = if self.open.is_some() { step(at.key, m.name.as_deref()) } else { 0 };
            match (m.role, m.bit_size) {
                (MemberRole::Static | MemberRole::VirtualBase, _) => {}
                (MemberRole::Base, _) => self.visit(m.ty, at.base(self.table, m.ty, offset)),
                (_, Some(bits)) => self.bits(m, bits, at.member(m.name.as_deref(), offset, over), at.offset),
                _ => {
                    let name = m.name.as_deref().filter(|_| !wraps || at.path.is_empty());
                    self.visit(m.ty, At { key, ..at.member(name, offset, over) });
                }
            }
        }
        let derived = |m: &Member| matches!(m.role, MemberRole::Base | MemberRole::VirtualBase);
        if at.complete && a.members.iter().any(derived) {
            for base in virtual_bases(self.table, a) {
                let Some(offset) = base.offset else { continue };
                self.visit(base.ty, at.base(self.table, base.ty, at.offset.saturating_add(offset)));
            }
        }
    }

    fn bits(&mut self, m: &Member, bits: u32, mut at: At, start: u64) {
        let first = start.saturating_mul(8).saturating_add(m.offset_bits);
        let end = first.saturating_add(u64::from(bits)).div_ceil(8);
        at.offset = first / 8;
        let size = end - at.offset.min(end);
        self.push(m.ty, size, Some((first, bits)), at);
    }

    fn array(&mut self, id: TypeId, elem: TypeId, counts: &[Option<u64>], at: At) {
        let stride = self.table.size(elem).unwrap_or(0);
        let scalar = self.table.aggregate(elem).is_none()
            && !matches!(self.table.get(self.table.strip(elem)), Type::Array { .. });
        if stride == 0 || (scalar && self.arrays == Arrays::Whole) || counts.iter().any(|c| c.is_none()) {
            return self.push(id, self.table.size(id).unwrap_or(0), None, at);
        }
        let counts: Vec<u64> = counts.iter().map(|c| c.unwrap_or(0)).collect();
        let total = counts.iter().fold(1u64, |n, c| n.saturating_mul(*c));
        let first = self.window.start.saturating_sub(at.offset) / stride;
        let end = self.window.end.saturating_sub(at.offset).div_ceil(stride).min(total);
        for i in first..end {
            if self.full() {
                self.cut = true;
                return;
            }
            let offset = at.offset.saturating_add(i.saturating_mul(stride));
            let mut element = at.member(None, offset, at.overlaps);
            let subscripts = subscripts(i, &counts);
            element.full = element.full.map(|full| full + &subscripts);
            element.path += &subscripts;
            self.visit(elem, element);
        }
    }

    fn full(&self) -> bool {
        self.out.len() >= LEAVES_MAX || self.visits > VISITS_MAX || self.paths_bytes > PATHS_BYTES_MAX
    }

    fn push(&mut self, ty: TypeId, size: u64, bits: Option<(u64, u32)>, at: At) {
        let leaf = Leaf { path: at.path, offset: at.offset, size, bits, ty, overlaps: at.overlaps };
        let touches = leaf.offset < self.window.end && (leaf.end() > self.window.start || size == 0);
        if touches && self.out.len() >= LEAVES_MAX {
            self.cut = true;
        } else if touches {
            self.paths_bytes += leaf.path.len();
            self.out.push((leaf, at.full));
        }
    }
}

/// `[1][2]` for the flat index of a row-major array.
fn subscripts(flat: u64, counts: &[u64]) -> String {
    let mut rest = flat;
    let mut parts: Vec<String> = counts
        .iter()
        .rev()
        .map(|&c| {
            let i = rest % c.max(1);
            rest /= c.max(1);
            format!("[{i}]")
        })
        .collect();
    parts.reverse();
    parts.concat()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { [path, ".", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::*;

    fn sample() -> (TypeTable, TypeId) {
        let mut t = TypeTable::new(8);
        let int = t.push(Type::Base(Base { name: "int".into(), size: 4, encoding: Encoding::Signed }));
        let member = Member::field;
        let agg = |name, kind, size, members| Type::Aggregate(Aggregate::new(kind, name, size, members));
        let inner = t.push(agg(
            Some("lock"),
            AggregateKind::Struct,
            8,
            vec![member(Some("count"), int, 0), member(Some("owner"), int, 4)],
        ));
        let locks = t.push(Type::Array { elem: inner, counts: vec![Some(2)] });
        let ints = t.push(Type::Array { elem: int, counts: vec![Some(3)] });
        let anon = t.push(agg(
            None,
            AggregateKind::Union,
            4,
            vec![member(Some("a"), int, 0), member(Some("b"), int, 0)],
        ));
        let outer = t.push(agg(
            Some("outer"),
            AggregateKind::Struct,
            32,
            vec![member(Some("locks"), locks, 0), member(Some("v"), ints, 16), member(None, anon, 28)],
        ));
        (t, outer)
    }

    #[test]
    fn nested_members_get_full_paths() {
        let (t, outer) = sample();
        let got: Vec<(String, u64, u64)> =
            leaves(&t, outer, Arrays::Whole).into_iter().map(|l| (l.path, l.offset, l.size)).collect();
        let want = [
            ("locks[0].count", 0, 4),
            ("locks[0].owner", 4, 4),
            ("locks[1].count", 8, 4),
            ("locks[1].owner", 12, 4),
            ("v", 16, 12),
            ("a", 28, 4),
            ("b", 28, 4),
        ];
        assert_eq!(got, want.map(|(p, o, s)| (p.to_string(), o, s)));
    }

    #[test]
    fn wrappers_and_small_unions_are_one_field() {
        let (mut t, outer) = sample();
        let Type::Aggregate(outer) = t.get(outer).clone() else { panic!("a struct") };
        let int = outer.members[2].ty;
        let member = |name: &str, ty, offset: u64| Member {
            name: Some(name.into()),
            ty,
            offset_bits: offset * 8,
            ..outer.members[0].clone()
        };
        let mut with =
            |size, members| t.push(Type::Aggregate(Aggregate { name: None, size, members, ..outer.clone() }));
        // `int` here is the anonymous union of the sample: 4 bytes with the names a and b.
        let word = with(4, vec![member("raw", int, 0)]);
        let pair = with(12, vec![member("lock", word, 0), member("rest", word, 8)]);
        let got: Vec<_> = fields(&t, pair, Arrays::Whole).into_iter().map(|l| (l.path, l.size)).collect();
        assert_eq!(got, [("lock".to_string(), 4), ("rest".to_string(), 4)]);
        assert_eq!(leaves(&t, pair, Arrays::Whole).len(), 4);
        // An object of such a type keeps the names of its members.
        let got: Vec<_> = fields(&t, word, Arrays::Whole).into_iter().map(|l| l.path).collect();
        assert_eq!(got, ["raw"]);
    }

    #[test]
    fn a_type_that_contains_itself_ends() {
        let mut t = TypeTable::new(8);
        let id = t.push(Type::Void);
        let a = Type::Array { elem: id, counts: vec![Some(1)] };
        t.set(id, a);
        assert!(leaves(&t, id, Arrays::Elements).len() <= LEAVES_MAX);
        assert_eq!(t.size(id), None);
    }
}
