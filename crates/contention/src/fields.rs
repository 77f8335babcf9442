//! Names of bytes inside objects: `struct stats.hits`, `workers[].done`, `counter`.
//!
//! Everything that prints a field asks here, so that one field has one name everywhere. Indices of arrays are left out
//! of the name (elements of one array are one finding) and kept as data.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::RwLock;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{AggregateKind, MemberRole, Type, TypeId, TypeTable};

use crate::wrappers;
use tussle_evidence::{Evidence, Frame, Object, ObjectKind, Touch, threads};

/// Synchronisation types of POSIX, C11 and Linux whose insides nobody wants to see: naming stops at the member that
/// has such a type.
const OPAQUE: &[&str] = &[
    "pthread_mutex_t",
    "pthread_cond_t",
    "pthread_rwlock_t",
    "pthread_spinlock_t",
    "pthread_barrier_t",
    "pthread_once_t",
    "sem_t",
    "mtx_t",
    "cnd_t",
    "atomic_t",
    "atomic64_t",
    "atomic_long_t",
    "refcount_t",
    "spinlock_t",
    "raw_spinlock_t",
    "seqcount_t",
];

/// The same for C++ types; the name may go on with template arguments.
const OPAQUE_CPP: &[&str] = &[
    "std::atomic",
    "std::mutex",
    "std::recursive_mutex",
    "std::timed_mutex",
    "std::shared_mutex",
    "std::condition_variable",
    "std::atomic_flag",
];

/// The name of a byte range inside an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldName {
    /// For people: `struct stats.hits`, `workers[].done`, `malloc in parse, bytes 24..31`.
    pub path: String,
    /// Field inside one element of the object's type with all indices (`lists[3].next`); empty for a scalar, `None`
    /// where the type is not known or the range is padding.
    pub leaf: Option<String>,
    /// Element, when the object is an array or the first array on the way to the field.
    pub index: Option<u64>,
    /// 0 to 1: the certainty of the object's type, halved where union members cannot be told apart.
    pub certainty: f32,
    /// It is of a synchronisation type: what lies inside of it is nobody's to move.
    pub opaque: bool,
}

impl FieldName {
    /// Of bytes that are no field that is known.
    fn unknown(path: String, certainty: f32) -> FieldName {
        FieldName { path, leaf: None, index: None, certainty, opaque: false }
    }
}

/// Touches that are looked at together: few of many tell a field.
const PART_ROWS: usize = 1 << 16;

/// Names one range; build a [`Namer`] for many.
pub fn field_path(evidence: &Evidence, object: u32, offset: u64, size: u64) -> FieldName {
    Namer::new(evidence).name(object, offset, size)
}

/// Of x86-64, and of what kernels hand out.
const PAGE_BYTES: u64 = 4096;

/// What `size` bytes at `offset` of a type are called, without the type: `mmap_lock.owner`.
pub fn path_in(table: &TypeTable, ty: TypeId, offset: u64, size: u64) -> String {
    Resolve::new(table, &[]).visit(ty, offset, size.max(1), 0).path
}

/// Names ranges of one evidence, with the code's choices between union members at hand.
#[derive(Debug)]
pub struct Namer<'a> {
    evidence: &'a Evidence,
    /// What the source calls a byte of an object, with the number of code rows that say so.
    said: HashMap<(u32, u64), Vec<(&'a str, u64)>>,
    /// What was found where no code says anything: the same for every object of a type.
    found: RwLock<HashMap<Place, Found>>,
}

/// A type, first byte and bytes in it, and whether its object has a name of the program's.
type Place = (TypeId, u64, u64, bool);

/// Places that are remembered.
const FOUND_MAX: usize = 1 << 20;

impl<'a> Namer<'a> {
    /// Reads the `field` column of all touches once.
    pub fn new(evidence: &'a Evidence) -> Self {
        let mut said: HashMap<(u32, u64), Vec<(&str, u64)>> = HashMap::new();
        let parts: Vec<&[Touch]> = evidence.touches.chunks(PART_ROWS).collect();
        let tells = |t: &&'a Touch| t.role.is_none() && t.field.is_some();
        let telling = threads::map(&parts, |rows| rows.iter().filter(tells).collect::<Vec<_>>());
        for t in telling.into_iter().flatten() {
            let Some(field) = t.field.as_deref() else { continue };
            let votes = said.entry((t.object, t.offset)).or_default();
            match votes.iter_mut().find(|(f, _)| *f == field) {
                Some((_, n)) => *n += 1,
                None => votes.push((field, 1)),
            }
        }
        Namer { evidence, said, found: RwLock::default() }
    }

    /// Names without the code's choices: members of a union that share the bytes are all named.
    pub fn without_choices(evidence: &'a Evidence) -> Self {
        Namer { evidence, said: HashMap::new(), found: RwLock::default() }
    }

    /// Name of bytes of an object without a type.
    fn untyped(&self, object: u32, o: &Object, root: String, offset: u64, size: u64) -> String {
        // Of a page that nothing is known of, what it holds is of interest, not where.
        let page = o.kind == ObjectKind::Mapped && o.size == PAGE_BYTES && o.allocator.is_none();
        // With the type: an expression alone (`stats.hits`) does not say whose field it is.
        let whole = |f: &str| f.starts_with("struct ") || f.starts_with("union ");
        let told = self.said.get(&(object, offset)).map(Vec::as_slice);
        match (told, o.name.as_ref(), offset == 0 && size >= o.size) {
            // The accessing code says what these bytes are to it; where it disagrees, they are bytes.
            (Some([(field, _)]), _, _) if whole(field) => format!("{root}, {field}"),
            (_, Some(_), true) => root,
            (_, Some(_), false) if page => root + "[]",
            _ => bytes_text(&root, offset, size),
        }
    }

    /// Name of `size` bytes at `offset` from the start of `object`.
    pub fn name(&self, object: u32, offset: u64, size: u64) -> FieldName {
        let Some(o) = self.evidence.objects.get(object as usize) else {
            return FieldName::unknown(bytes_text("?", offset, size), 0.0);
        };
        let root = self.root(o);
        let Some(ty) = o.ty else {
            let path = self.untyped(object, o, root, offset, size);
            return FieldName::unknown(path, 0.0);
        };
        let table = &self.evidence.types;
        let said = self.said.get(&(object, offset)).map(Vec::as_slice).unwrap_or(&[]);
        let stride = table.size(ty).unwrap_or(0);
        let mut index = None;
        let mut prefix = String::new();
        let mut at = offset;
        if o.count > 1 && stride > 0 {
            let (first, last) = (offset / stride, offset.saturating_add(size.max(1) - 1) / stride);
            prefix = "[]".into();
            if first >= o.count {
                return FieldName::unknown(bytes_text(&root, offset, size), 0.0);
            }
            if first != last {
                return FieldName { index: Some(first), ..FieldName::unknown(root + "[]", o.confidence) };
            }
            index = Some(first);
            at = offset % stride;
        }
        // Of a type of the library that has no other name, its own names are all there are.
        let named = o.name.is_some() || !is_library(&table.name(ty));
        let r = self.resolve((ty, at, size.max(1), named), said);
        if !r.is_field && o.count <= 1 && stride > 0 && offset >= stride {
            // A block may be longer than the struct at its start.
            let path = bytes_text(&format!("behind {root}"), offset, size);
            return FieldName::unknown(path, o.confidence);
        }
        let halves = if r.ambiguous { 0.5 } else { 1.0 };
        FieldName {
            path: attach(&(root + &prefix), &r.path),
            leaf: r.is_field.then_some(r.exact),
            index: index.or(r.index),
            certainty: o.confidence * halves,
            opaque: r.opaque,
        }
    }

    fn resolve(&self, place: Place, said: &[(&str, u64)]) -> Found {
        let known = || self.found.read().ok()?.get(&place).cloned();
        if let Some(found) = said.is_empty().then(known).flatten() {
            return found;
        }
        let (ty, at, size, named) = place;
        let found = Resolve { named, ..Resolve::new(&self.evidence.types, said) }.visit(ty, at, size, 0);
        if let (true, Ok(mut all)) = (said.is_empty(), self.found.write())
            && all.len() < FOUND_MAX
        {
            all.insert(place, found.clone());
        }
        found
    }

    /// What stands before the field: the variable, the type, or where the memory came from.
    pub fn root(&self, o: &Object) -> String {
        if let Some(name) = &o.name {
            return name.clone();
        }
        if let Some(ty) = o.ty {
            return self.evidence.types.name(ty);
        }
        match (o.kind, self.asker(o)) {
            (ObjectKind::Stack, _) => self.owned("stack", o),
            (ObjectKind::Tls, _) => self.owned("thread-local storage", o),
            (ObjectKind::Heap | ObjectKind::Mapped, Some(f)) => {
                format!("{} in {}", o.allocator.as_deref().unwrap_or("memory"), f.function)
            }
            (ObjectKind::Heap, None) => format!("{} block", o.allocator.as_deref().unwrap_or("heap")),
            _ => format!("memory at {:#x}", o.base),
        }
    }

    /// The function that asked for an object's memory: of a smart pointer's or a container's code the first caller
    /// outside of system headers.
    fn asker(&self, o: &Object) -> Option<&Frame> {
        let row = |c: u32| self.evidence.code.get(c as usize);
        let code = row(o.alloc_code?)?;
        let callers = code.chain.iter().filter_map(|c| row(*c));
        let mut all = std::iter::once(code).chain(callers).flat_map(|c| &c.frames);
        all.find(|f| f.line > 0 && !f.is_of_system_header())
            .filter(|_| code.frames.first().is_some_and(Frame::is_of_system_header))
            .or(code.frames.first())
    }

    fn owned(&self, what: &str, o: &Object) -> String {
        let actor = o.alloc_actor.and_then(|a| self.evidence.actors.get(a as usize));
        match actor {
            Some(a) => match &a.name {
                Some(n) => format!("{what} of {n}"),
                None => format!("{what} of thread {}", a.number),
            },
            None => what.to_string(),
        }
    }
}

fn bytes_text(root: &str, offset: u64, size: u64) -> String {
    match size {
        0 | 1 => format!("{root}, byte {offset}"),
        _ => format!("{root}, bytes {offset}..{}", offset.saturating_add(size - 1)),
    }
}

fn attach(root: &str, path: &str) -> String {
    match path {
        "" => root.to_string(),
        p if p.starts_with(['[', ' ']) => format!("{root}{p}"),
        p => format!("{root}.{p}"),
    }
}

/// What a walk down to a byte range found.
#[derive(Clone, Debug)]
struct Found {
    path: String,
    exact: String,
    index: Option<u64>,
    ambiguous: bool,
    is_field: bool,
    opaque: bool,
    /// Start and size of the leaf relative to the visited type.
    leaf: (u64, u64),
}

impl Found {
    fn whole(size: u64) -> Found {
        Found {
            path: String::new(),
            exact: String::new(),
            index: None,
            ambiguous: false,
            is_field: true,
            opaque: false,
            leaf: (0, size),
        }
    }

    fn text(path: String, ambiguous: bool, is_field: bool) -> Found {
        let exact = path.clone();
        Found { path, exact, index: None, ambiguous, is_field, opaque: false, leaf: (0, 0) }
    }

    fn under(mut self, name: Option<&str>, exact: Option<&str>, at: u64) -> Found {
        if let Some(n) = name {
            self.path = attach(n, &self.path);
        }
        if let Some(n) = exact.or(name) {
            self.exact = attach(n, &self.exact);
        }
        self.leaf.0 = self.leaf.0.saturating_add(at);
        self
    }
}

struct Resolve<'a> {
    table: &'a TypeTable,
    said: &'a [(&'a str, u64)],
    /// What stands before the field is a name of the program's.
    named: bool,
    /// Types that may still be entered: members that overlap, nested in each other, would double them at every level.
    left: Cell<u32>,
}

/// Types entered for one name; real unions in unions need a few dozen.
const VISITS_MAX: u32 = 2_000;

/// One member as a range of bytes.
struct Part<'a> {
    name: Option<&'a str>,
    ty: TypeId,
    start: u64,
    end: u64,
    bits: bool,
    /// The name for people: `slots`, not `slots._M_impl._M_start`; none of a member that only a library knows.
    shown: Option<&'a str>,
    /// Of a base: the class that derives from it.
    derived: Option<&'a tussle_model::Aggregate>,
}

/// Namespaces of the C++ library's types.
const LIBRARY: [&str; 3] = ["std::", "__gnu_cxx::", "__cxx11::"];

fn is_library(ty: &str) -> bool {
    LIBRARY.iter().any(|l| ty.starts_with(l))
}

impl<'a> Resolve<'a> {
    fn new(table: &'a TypeTable, said: &'a [(&'a str, u64)]) -> Resolve<'a> {
        Resolve { table, said, named: true, left: Cell::new(VISITS_MAX) }
    }

    fn visit(&self, id: TypeId, offset: u64, size: u64, depth: usize) -> Found {
        self.left.set(self.left.get().saturating_sub(1));
        let opaque = self.opaque(id);
        if depth > DEPTH_MAX || self.left.get() == 0 || opaque {
            return Found { opaque, ..Found::whole(self.table.size(id).unwrap_or(0)) };
        }
        let id = self.table.strip(id);
        match self.table.get(id) {
            Type::Aggregate(a) if !a.members.is_empty() => {
                let parts = self.parts(a);
                let union = a.kind == AggregateKind::Union;
                self.member(&parts, union, offset, size, depth)
            }
            Type::Array { elem, counts } => self.array(*elem, counts, offset, size, depth),
            _ => Found::whole(self.table.size(id).unwrap_or(0)),
        }
    }

    /// A type whose members are nobody's business.
    fn opaque(&self, mut id: TypeId) -> bool {
        for _ in 0..DEPTH_MAX {
            match self.table.get(id) {
                Type::Typedef { name, to } => {
                    if OPAQUE.contains(&name.as_str()) {
                        return true;
                    }
                    id = *to;
                }
                Type::Const(to) | Type::Volatile(to) | Type::Restrict(to) | Type::Atomic(to) => id = *to,
                Type::Aggregate(a) => {
                    let bare = a.name.as_deref().unwrap_or("").split('<').next().unwrap_or("");
                    return OPAQUE_CPP.contains(&bare);
                }
                _ => return false,
            }
        }
        false
    }

    fn parts<'b>(&self, a: &'b tussle_model::Aggregate) -> Vec<Part<'b>>
    where
        'a: 'b,
    {
        let mut parts = Vec::new();
        let library = self.named && a.name.as_deref().is_some_and(is_library);
        for m in &a.members {
            if m.role == MemberRole::Static {
                continue;
            }
            let start = m.offset();
            let (end, bits) = match m.bit_size {
                Some(b) => (m.offset_bits.saturating_add(u64::from(b)).div_ceil(8), true),
                None => (start.saturating_add(self.table.size(m.ty).unwrap_or(0)), false),
            };
            // A flexible array reaches as far as the memory does.
            let flexible =
                end == start && !bits && matches!(self.table.get(self.table.strip(m.ty)), Type::Array { .. });
            let end = if flexible { u64::MAX } else { end };
            let base = m.role == MemberRole::Base;
            let name = if base { None } else { m.name.as_deref() };
            let own = |n: &str| (library && n.starts_with('_')) || (self.named && n.starts_with("_M_"));
            let own = |n: &&str| own(n) || wrappers::hides(self.table, a, n);
            let shown = name.filter(|n| !own(n)).map(|n| wrappers::tuple_member(a, n).unwrap_or(n));
            let element = || self.table.aggregate(m.ty).and_then(wrappers::tuple_element);
            let shown = if base { element() } else { shown };
            parts.push(Part { name, ty: m.ty, start, end, bits, shown, derived: base.then_some(a) });
        }
        parts
    }

    fn member(&self, parts: &[Part], union: bool, offset: u64, size: u64, depth: usize) -> Found {
        let end = offset.saturating_add(size);
        let mut inside: Vec<&Part> = parts.iter().filter(|p| p.start <= offset && end <= p.end).collect();
        // An empty base class or an empty flexible array overlaps others: the bounded part is meant.
        if inside.iter().any(|p| p.end != u64::MAX) {
            inside.retain(|p| p.end != u64::MAX);
        }
        match inside.as_slice() {
            [] => self.several(parts, offset, end, depth),
            [p] => self.descend(p, offset, size, depth),
            many if union || !many.iter().all(|p| p.bits) => self.choose(many, offset, size, depth),
            many => {
                // Bits in these bytes: those that the code uses, where it tells.
                let votes = self.votes(&many.iter().map(|p| p.shown.unwrap_or_default()).collect::<Vec<_>>());
                let told: Vec<_> = many.iter().zip(votes).filter(|(_, n)| *n > 0).map(|(p, _)| p).collect();
                if let [one] = told.as_slice() {
                    return self.descend(one, offset, size, depth);
                }
                let shown = if told.is_empty() { many.iter().collect() } else { told };
                let names: Vec<&str> = shown.iter().filter_map(|p| p.shown).collect();
                Found::text(names.join("|"), false, true)
            }
        }
    }

    fn descend(&self, p: &Part, offset: u64, size: u64, depth: usize) -> Found {
        if p.bits {
            return Found::whole(p.end - p.start).under(p.shown, p.name, p.start);
        }
        let found = self.visit(p.ty, offset - p.start, size, depth + 1);
        self.by_base(p, found).under(p.shown, p.name, p.start)
    }

    /// `A::hits` of a member of a base, where another base has a member of that name, or the class itself.
    fn by_base(&self, p: &Part, mut found: Found) -> Found {
        let (Some(derived), Some(base)) = (p.derived, self.table.aggregate(p.ty)) else { return found };
        let first = |path: &str| path.split(['.', '[', ' ']).next().unwrap_or_default().to_string();
        let others = derived.members.iter().filter(|m| (m.ty, m.offset()) != (p.ty, p.start));
        let name = first(&found.exact);
        if name.is_empty() || !others.into_iter().any(|m| self.provides(m, &name, 0)) {
            return found;
        }
        let base = base.name.as_deref().unwrap_or_default();
        if first(&found.path) == name {
            found.path = format!("{base}::{}", found.path);
        }
        found.exact = format!("{base}::{}", found.exact);
        found
    }

    /// The member is called so, or one of the base that it is.
    fn provides(&self, m: &tussle_model::Member, name: &str, depth: usize) -> bool {
        match m.role {
            MemberRole::Base => self.table.aggregate(m.ty).filter(|_| depth < 8).is_some_and(|base| {
                name.starts_with(&format!("{}::", base.name.as_deref().unwrap_or_default()))
                    || base.members.iter().any(|m| self.provides(m, name, depth + 1))
            }),
            MemberRole::Static => false,
            _ => m.name.as_deref() == Some(name),
        }
    }

    /// Members of a union: the one that the code names, else the one that fits exactly, else all of them.
    fn choose(&self, parts: &[&Part], offset: u64, size: u64, depth: usize) -> Found {
        let mut found: Vec<Found> = parts.iter().map(|p| self.descend(p, offset, size, depth)).collect();
        let votes = self.votes(&found.iter().map(|f| f.path.as_str()).collect::<Vec<_>>());
        let most = votes.iter().copied().max().unwrap_or(0);
        if most > 0 && votes.iter().filter(|v| **v == most).count() == 1 {
            let i = votes.iter().position(|v| *v == most).unwrap_or(0);
            return found.swap_remove(i);
        }
        let exact: Vec<usize> = (0..found.len()).filter(|&i| found[i].leaf == (offset, size)).collect();
        if let [only] = exact.as_slice() {
            return found.swap_remove(*only);
        }
        let mut names: Vec<&str> = Vec::new();
        let told = found.iter().zip(&votes).filter(|(_, v)| most == 0 || **v == most).map(|(f, _)| f);
        for f in told.filter(|f| !f.path.is_empty()) {
            if !names.contains(&f.path.as_str()) {
                names.push(&f.path);
            }
        }
        Found::text(names.join("|"), names.len() > 1, true)
    }

    /// Of each of these paths, how many code rows say it: `a.b` is said as `b`, `x.a.b` or, of an `atomic_t`,
    /// `a.b.counter`, alone or with others (`a|b`). A row speaks for the paths that agree with it the furthest.
    fn votes(&self, paths: &[&str]) -> Vec<u64> {
        let mut out = vec![0; paths.len()];
        if self.said.is_empty() {
            return out;
        }
        let dotted = |p: &str| format!(".{}.", p.replace("[]", ""));
        // Members of an inner union that nobody tells apart are one path here.
        let names: Vec<Vec<String>> = paths.iter().map(|p| p.split('|').map(dotted).collect()).collect();
        let agrees = |name: &String, f: &String| match (f.contains(name), name.ends_with(f)) {
            _ if name.len() <= 2 => 0,
            (true, _) => name.len(),
            (_, true) => f.len(),
            _ => 0,
        };
        for (said, n) in self.said {
            let mut told = vec![false; paths.len()];
            for f in said.split('|').map(dotted) {
                let of = |names: &Vec<String>| names.iter().map(|name| agrees(name, &f)).max().unwrap_or(0);
                let far: Vec<usize> = names.iter().map(of).collect();
                let most = far.iter().copied().max().unwrap_or(0).max(1);
                far.iter().zip(&mut told).for_each(|(far, told)| *told |= *far == most);
            }
            told.iter().zip(&mut out).filter(|(t, _)| **t).for_each(|(_, out)| *out += n);
        }
        out
    }

    /// A range that is no single member: `a..c`, or padding.
    fn several(&self, parts: &[Part], offset: u64, end: u64, depth: usize) -> Found {
        let mut touched: Vec<&Part> = parts.iter().filter(|p| p.start < end && offset < p.end).collect();
        touched.sort_by_key(|p| p.start);
        let part_name = |p: &Part| {
            let from = offset.max(p.start);
            let size = end.min(p.end) - from;
            self.descend(p, from, size.max(1), depth).path
        };
        match touched.as_slice() {
            [] => {
                let before = parts.iter().filter(|p| p.end <= offset).max_by_key(|p| p.end);
                let text = match before.and_then(|p| p.name) {
                    Some(n) => format!(" padding after {n}"),
                    None => " padding".to_string(),
                };
                Found::text(text, false, false)
            }
            [one] => Found::text(part_name(one), false, true),
            [first, .., last] => {
                let text = match (part_name(first), part_name(last)) {
                    (from, to) if from == to || from.is_empty() || to.is_empty() => from,
                    (from, to) => format!("{from}..{to}"),
                };
                Found::text(text, false, true)
            }
        }
    }

    fn array(&self, elem: TypeId, counts: &[Option<u64>], offset: u64, size: u64, depth: usize) -> Found {
        let stride = self.table.size(elem).unwrap_or(0);
        let dims = "[]".repeat(counts.len().max(1));
        if stride == 0 {
            return Found::text(dims, false, true);
        }
        let index = offset / stride;
        if offset.saturating_add(size - 1) / stride != index {
            let mut f = Found::text(dims, false, true);
            f.index = Some(index);
            return f;
        }
        let inner = self.visit(elem, offset % stride, size, depth + 1);
        let exact = subscripts(index, counts);
        let mut f = inner.under(Some(&dims), Some(&exact), index.saturating_mul(stride));
        f.index = Some(index);
        f
    }
}

/// `[1][2]` for the flat index of a row-major array; the outermost dimension may be open.
fn subscripts(flat: u64, counts: &[Option<u64>]) -> String {
    let mut rest = flat;
    let mut parts = Vec::new();
    for (i, c) in counts.iter().enumerate().rev() {
        let n = c.unwrap_or(u64::MAX).max(1);
        let here = if i == 0 { rest } else { rest % n };
        parts.push(format!("[{here}]"));
        rest /= n;
    }
    parts.reverse();
    parts.concat()
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
