//! A field found by its path, without flattening the whole object: `mmap_lock.owner`, `vm_event[3]`, `stat_*`,
//! `t.std::_Head_base<0, int, false>::_M_head_impl`.

use crate::bases::virtual_bases;
use crate::leaf::{Arrays, LEAVES_MAX, leaves_within};
use crate::types::{Aggregate, Member, MemberRole, Type, TypeId, TypeTable};
use std::cell::Cell;

/// Anonymous members and bases nest this far.
const DEPTH_MAX: usize = crate::leaf::DEPTH_MAX;

/// Names of bases within bases are kept up to this many bytes.
const THROUGH_BYTES_MAX: usize = 4096;

/// Types looked at for one part of a path: hostile files inherit one 2^32 times.
const VISITS_MAX: usize = 1 << 18;

/// A pattern names at most this many fields.
const SPOTS_MAX: usize = 4096;

/// A field in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its full path.
    pub path: String,
    /// Its type, without typedefs and qualifiers.
    pub ty: TypeId,
    /// Its type as declared.
    pub declared: TypeId,
    /// First byte, from the start of the object.
    pub offset: u64,
    /// Bytes that it touches; 0 when its type has no size.
    pub size: u64,
    /// It is a bit-field.
    pub bits: bool,
    /// Its place is known: it does not lie in a virtual base that could be in several places.
    pub placed: bool,
    /// Line of its declaration in the file of the aggregate that declares it; 0 when unknown.
    pub decl_line: u32,
    /// The aggregate that declares it.
    pub owner: TypeId,
    /// The class and the bases that it lies in, from the outermost (`D::X::B`); empty outside of bases.
    pub through: String,
}

impl Spot {
    /// First byte after it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Its path with all bases that its last part goes through, which names no other field.
    pub fn spelled(&self) -> String {
        let at = split(&self.path).map(str::len).last().unwrap_or(0);
        let (before, last) = self.path.split_at(self.path.len().saturating_sub(at));
        if self.through.is_empty() { self.path.clone() } else { format!("{before}{}::{last}", self.through) }
    }

    /// The bytes of its leaf fields as offset and size, padding left out; all of it as one piece when it has more
    /// leaves than are listed.
    pub fn pieces(&self, table: &TypeTable) -> Vec<(u64, u64)> {
        let whole = vec![(self.offset, self.size)];
        if self.bits || table.aggregate(self.ty).is_none() {
            return whole;
        }
        let inner = leaves_within(table, self.ty, Arrays::Whole, 0..self.size.max(1));
        if inner.is_empty() || inner.len() >= LEAVES_MAX {
            return whole;
        }
        inner.iter().map(|l| (self.offset.saturating_add(l.offset), l.size)).collect()
    }
}

/// The fields of `id` that a path names. `*` stands for any part of one name. Several fields for a path without `*`
/// mean that it is ambiguous: bases hold members of one name.
pub fn resolve(table: &TypeTable, id: TypeId, path: &str) -> Vec<Spot> {
    let parts: Vec<&str> = split(path).collect();
    let mut found = vec![Spot {
        path: String::new(),
        ty: table.strip(id),
        declared: id,
        offset: 0,
        size: table.size(id).unwrap_or(0),
        bits: false,
        placed: true,
        decl_line: 0,
        owner: id,
        through: String::new(),
    }];
    for part in parts {
        let Some(step) = Step::parse(part) else { return Vec::new() };
        found = found.iter().flat_map(|at| step.from(table, at)).take(SPOTS_MAX).collect();
    }
    found
}

/// Parts of a path between dots; dots in template arguments belong to the name.
fn split(path: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    path.split(move |c| {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        c == '.' && depth <= 0
    })
}

/// One part of a path: `std::Base<int>::name[2]`.
struct Step<'a> {
    base: Option<&'a str>,
    name: &'a str,
    subscripts: Vec<u64>,
    /// Types looked at so far.
    visits: Cell<usize>,
}

impl<'a> Step<'a> {
    fn parse(part: &'a str) -> Option<Step<'a>> {
        let (base, last) = match part.rfind("::").filter(|&at| !part[at..].contains('>')) {
            Some(at) => (Some(&part[..at]), &part[at + 2..]),
            None => (None, part),
        };
        let mut pieces = last.split('[');
        let name = pieces.next()?;
        let number = |text: &str| text.strip_suffix(']')?.parse().ok();
        let subscripts = pieces.map(number).collect::<Option<Vec<u64>>>()?;
        Some(Step { base, name, subscripts, visits: Cell::new(0) })
    }

    fn from(&self, table: &TypeTable, at: &Spot) -> Vec<Spot> {
        let mut out = Vec::new();
        if let Type::Aggregate(_) = table.get(at.ty) {
            self.members(table, at, self.base.is_none(), true, 0, &mut out);
        }
        out.into_iter().filter_map(|spot| self.element(table, spot)).collect()
    }

    /// Matching members of `at`, those of unnamed members and bases included. `complete`: it is no base.
    fn members(
        &self,
        t: &TypeTable,
        at: &Spot,
        named: bool,
        complete: bool,
        depth: usize,
        out: &mut Vec<Spot>,
    ) {
        let Type::Aggregate(a) = t.get(at.ty) else { return };
        let scope = if complete { a.name.as_deref().unwrap_or_default() } else { &at.through };
        self.visits.set(self.visits.get() + 1);
        if depth > DEPTH_MAX || out.len() >= SPOTS_MAX || self.visits.get() > VISITS_MAX {
            return;
        }
        let own = a.members.iter().filter(|m| named && m.role != MemberRole::Static);
        let own = own.filter(|m| m.name.as_deref().is_some_and(|n| matches(self.name, n)));
        let before = out.len();
        let through = if complete { "" } else { &at.through };
        out.extend(own.map(|m| Spot { through: through.into(), ..inside(t, at, m) }));
        // a member hides those of the same name in bases
        if out.len() > before && !self.name.contains('*') {
            return;
        }
        for m in &a.members {
            let base = m.role == MemberRole::Base;
            if m.name.is_some() || !(base || m.role == MemberRole::Field || m.role == MemberRole::Variant) {
                continue;
            }
            let through = if base { longer(t, scope, m.ty) } else { String::new() };
            let inner = Spot { path: at.path.clone(), through, ..inside(t, at, m) };
            self.members(t, &inner, named || (base && self.names(&inner.through)), !base, depth + 1, out);
        }
        if complete {
            self.virtual_members(t, a, at, named, depth, out);
        }
    }

    fn virtual_members(
        &self,
        t: &TypeTable,
        a: &Aggregate,
        at: &Spot,
        named: bool,
        depth: usize,
        out: &mut Vec<Spot>,
    ) {
        for base in virtual_bases(t, a) {
            let scope = a.name.as_deref().unwrap_or_default();
            let inner = Spot {
                through: longer(t, scope, base.ty),
                ty: base.ty,
                offset: at.offset.saturating_add(base.offset.unwrap_or(0)),
                placed: at.placed && base.offset.is_some(),
                ..at.clone()
            };
            self.members(t, &inner, named || self.names(&inner.through), false, depth + 1, out);
        }
    }

    /// These bases end with the one that the part names, with or without its scope and the bases around it.
    fn names(&self, through: &str) -> bool {
        let scope = self.base.and_then(|want| through.strip_suffix(want));
        scope.is_some_and(|scope| scope.is_empty() || scope.ends_with("::"))
    }

    /// The element that the subscripts choose.
    fn element(&self, table: &TypeTable, mut spot: Spot) -> Option<Spot> {
        if self.subscripts.is_empty() {
            return Some(spot);
        }
        let Type::Array { elem, counts } = table.get(table.strip(spot.ty)) else { return None };
        let stride = table.size(*elem)?;
        let mut index = 0u64;
        for (i, count) in counts.iter().enumerate() {
            let at = self.subscripts.get(i).copied().unwrap_or(0);
            if count.is_some_and(|c| at >= c) {
                return None;
            }
            index = index.checked_mul(count.unwrap_or(1))?.checked_add(at)?;
        }
        let rest = counts.get(self.subscripts.len()..)?;
        let count = rest.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?))?;
        spot.offset = spot.offset.checked_add(index.checked_mul(stride)?)?;
        spot.size = stride.checked_mul(count)?;
        if rest.is_empty() {
            spot.ty = table.strip(*elem);
            spot.declared = *elem;
        }
        spot.path.extend(self.subscripts.iter().map(|i| format!("[{i}]")));
        Some(spot)
    }
}

/// The bases with one more. So many bytes of names are no class that people write.
fn longer(table: &TypeTable, through: &str, base: TypeId) -> String {
    let name = table.aggregate(base).and_then(|a| a.name.as_deref()).unwrap_or_default();
    let outer = if through.len() > THROUGH_BYTES_MAX { "" } else { through };
    format!("{outer}::{name}")
}

fn inside(table: &TypeTable, at: &Spot, m: &Member) -> Spot {
    let first_bit = at.offset.saturating_mul(8).saturating_add(m.offset_bits);
    let size = match m.bit_size {
        Some(bits) => first_bit.saturating_add(u64::from(bits)).div_ceil(8).saturating_sub(first_bit / 8),
        None => table.size(m.ty).unwrap_or(0),
    };
    let name = m.name.as_deref().unwrap_or_default();
    Spot {
        path: if at.path.is_empty() { name.into() } else { format!("{}.{name}", at.path) },
        ty: table.strip(m.ty),
        declared: m.ty,
        offset: first_bit / 8,
        size,
        bits: m.bit_size.is_some(),
        placed: at.placed && m.offset_bits != Member::UNPLACED,
        decl_line: m.decl_line,
        owner: at.ty,
        through: String::new(),
    }
}

/// `*` in the pattern stands for any run of characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(last) = parts.pop() else { return true };
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let yes = [
            ("a", "a"),
            ("*", ""),
            ("stat_*", "stat_x"),
            ("*_lock", "a_lock"),
            ("a*c*e", "abcde"),
            ("a**", "a"),
        ];
        let no = [("a", "b"), ("stat_*", "status"), ("a*c", "acb"), ("ab*ba", "aba"), ("", "a")];
        assert!(yes.iter().all(|(p, n)| matches(p, n)), "{yes:?}");
        assert!(!no.iter().any(|(p, n)| matches(p, n)), "{no:?}");
    }
}
