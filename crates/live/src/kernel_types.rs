//! Names of the kernel's memory where there is no file with debug information: types of variables, and of what its
//! functions' parameters point to, as the kernel describes both itself (BTF).

use crate::flow::{self, Inside, Names};
use crate::kernel::{KERNEL_PID, Kernel, Text};
use crate::session::Target;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tussle_debuginfo::btf::code::CodeTypes;
use tussle_evidence::{Basis, Evidence, Object, ObjectKind, Sampled};

/// Functions longer than this are not looked at.
const BYTES_MAX: u64 = 64 << 10;

/// Structs with pointers begin at multiples of so many bytes.
const ALIGNED: u64 = 8;

/// How sure a type is that a parameter's declaration tells.
const CONFIDENCE: f32 = 0.9;

/// Gives what is known of types to the objects of an evidence.
pub(crate) fn name(e: &mut Evidence, kernel: &Kernel, target: &mut dyn Target) {
    let Some(mut types) = kernel.known.types.as_deref().and_then(|t| CodeTypes::read(t).ok()) else { return };
    let mut roots: Vec<u32> = Vec::new();
    let objects = e.objects.iter().enumerate();
    let named: Vec<(usize, u32)> =
        objects.filter_map(|(n, o)| Some((n, types.type_of(o.name.as_deref()?)?))).collect();
    let hints = hints(e, kernel, &types, target);
    let found = merged(&types, &hints);
    roots.extend(named.iter().map(|n| n.1).chain(found.iter().map(|f| f.ty)));
    let (table, ids) = types.table(&roots);
    let sizes: Vec<u64> = ids.iter().map(|id| table.size(*id).unwrap_or(0)).collect();
    let ends = ends(e);
    for ((n, _), (id, size)) in named.iter().zip(ids.iter().zip(&sizes)) {
        let o = &mut e.objects[*n];
        // What is used behind its end belongs to another variable, or this is another one of that name.
        if (ends.get(&(*n as u32)).copied().unwrap_or(0).max(1)..=o.size).contains(size) {
            (o.ty, o.size) = (Some(*id), *size);
            o.why = "of the kernel's list of symbols and its own description of types (BTF)".into();
        }
    }
    let place = Places::new(e, &found, &hints);
    for (f, id) in found.iter().zip(&ids[named.len()..]) {
        let why = "the code that touches it has it from a parameter of that type (the kernel's BTF)".into();
        let (ty, basis, confidence) = (Some(*id), Some(Basis::Code), CONFIDENCE);
        let new = Object::unnamed(f.process, ObjectKind::Slab, f.base, f.size);
        e.objects.push(Object { ty, basis, confidence, why, ..new });
    }
    place.move_rows(e);
    e.types = table;
}

/// One past the last byte of each object that is used.
fn ends(e: &Evidence) -> HashMap<u32, u64> {
    let mut out: HashMap<u32, u64> = HashMap::new();
    for s in e.samples.iter().flatten() {
        let end = out.entry(s.object).or_default();
        *end = (*end).max(s.offset.saturating_add(u64::from(s.size)));
    }
    out
}

/// What the code of a row says: process, the struct's address, its type.
type Hint = (u32, u64, u32);

struct OfKernel<'k>(&'k Kernel);

impl Names for OfKernel<'_> {
    fn per_cpu(&self, address: u64) -> Option<(String, u64)> {
        let v = self.0.known.symbols.variable(address)?;
        Some((v.name.to_string(), address - v.start))
    }
}

/// By row of the samples.
fn hints(e: &Evidence, kernel: &Kernel, types: &CodeTypes, target: &mut dyn Target) -> HashMap<usize, Hint> {
    let mut functions: HashMap<u64, HashMap<u64, Inside>> = HashMap::new();
    let mut out = HashMap::new();
    if kernel.known.text != Text::Running {
        return out;
    }
    for (n, s) in e.samples.iter().flatten().enumerate() {
        let Some((o, code)) = nameless(e, s) else { continue };
        let Some(f) = kernel.known.symbols.function(code).filter(|f| f.end - f.start <= BYTES_MAX) else {
            continue;
        };
        let places = functions.entry(f.start).or_insert_with(|| {
            let mut bytes = vec![0; (f.end - f.start) as usize];
            let whole = target.memory(KERNEL_PID, f.start, &mut bytes) == bytes.len();
            let own = || flow::operands((f.name, f.start, &bytes), types, &OfKernel(kernel));
            if whole { own() } else { HashMap::new() }
        });
        let Some((ty, at)) = places.get(&code).copied() else { continue };
        let inside = u64::try_from(at).ok().filter(|a| a.saturating_add(u64::from(s.size)) <= types.size(ty));
        let base = inside.and_then(|a| o.base.checked_add(s.offset)?.checked_sub(a));
        if let Some(base) = base.filter(|b| b % ALIGNED == 0) {
            out.insert(n, (o.process, base, ty));
        }
    }
    out
}

/// The object of a row of which nothing is known, and the row's code.
fn nameless<'e>(e: &'e Evidence, s: &Sampled) -> Option<(&'e Object, u64)> {
    let o = e.objects.get(s.object as usize).filter(|o| o.kind == ObjectKind::Unknown && o.name.is_none())?;
    Some((o, e.code.get(s.code? as usize)?.address))
}

/// A struct of the kernel.
struct Found {
    process: u32,
    base: u64,
    size: u64,
    ty: u32,
    /// Hints that are about it or a part of it.
    of: BTreeSet<Hint>,
}

/// Structs that are parts of others are these. The largest come first.
fn merged(types: &CodeTypes, hints: &HashMap<usize, Hint>) -> Vec<Found> {
    let all: BTreeSet<Hint> = hints.values().copied().collect();
    let mut all: Vec<Hint> = all.into_iter().collect();
    all.sort_by_key(|h| (std::cmp::Reverse(types.size(h.2)), h.0, h.1));
    let mut out: Vec<Found> = Vec::new();
    for hint in all {
        let (process, base, ty) = hint;
        let around =
            |f: &&mut Found| f.process == process && base >= f.base && types.holds(f.ty, base - f.base, ty);
        match out.iter_mut().find(around) {
            Some(f) => drop(f.of.insert(hint)),
            None => out.push(Found { process, base, size: types.size(ty), ty, of: BTreeSet::from([hint]) }),
        }
    }
    out
}

/// Where rows of the page objects go: to the structs, by byte.
struct Places {
    /// By object, offset and size: the new object and offset; `None` where two pieces of code do not agree.
    rows: BTreeMap<(u32, u64, u64), Option<(u32, u64)>>,
}

impl Places {
    /// Rows whose code tells, and others in a struct that two pieces of code tell of and that no other one overlaps.
    fn new(e: &Evidence, found: &[Found], hints: &HashMap<usize, Hint>) -> Places {
        let first = e.objects.len() as u32;
        let mut codes: HashMap<Hint, BTreeSet<Option<u32>>> = HashMap::new();
        let samples = e.samples.as_deref().unwrap_or_default();
        for (n, h) in hints {
            codes.entry(*h).or_default().insert(samples[*n].code);
        }
        let agreed = |f: &Found| {
            let told: BTreeSet<_> = f.of.iter().filter_map(|h| codes.get(h)).flatten().collect();
            let apart =
                |o: &Found| std::ptr::eq(o, f) || o.base >= f.base + f.size || f.base >= o.base + o.size;
            told.len() >= 2 && found.iter().filter(|o| o.process == f.process).all(apart)
        };
        let agreed: Vec<bool> = found.iter().map(agreed).collect();
        let mut rows: BTreeMap<(u32, u64, u64), Option<(u32, u64)>> = BTreeMap::new();
        for (n, s) in samples.iter().enumerate() {
            let Some((o, _)) = nameless(e, s) else { continue };
            let at = o.base.saturating_add(s.offset);
            let holds = |f: &Found| {
                f.process == o.process && f.base <= at && at + u64::from(s.size) <= f.base + f.size
            };
            let own = hints.get(&n).and_then(|h| found.iter().position(|f| f.of.contains(h)));
            let around = || (0..found.len()).find(|i| agreed[*i] && holds(&found[*i]));
            if let Some(i) = own.or_else(around) {
                let to = Some((first + i as u32, at - found[i].base));
                let key = (s.object, s.offset, u64::from(s.size));
                rows.entry(key).and_modify(|t| *t = t.filter(|t| Some(*t) == to)).or_insert(to);
            }
        }
        Places { rows }
    }

    /// Rows of all tables at the same bytes go to the same struct.
    fn move_rows(&self, e: &mut Evidence) {
        let to = |object: &mut u32, offset: &mut u64, size: u32| {
            if let Some(Some(new)) = self.rows.get(&(*object, *offset, u64::from(size))) {
                (*object, *offset) = *new;
            }
        };
        e.samples.iter_mut().flatten().for_each(|r| to(&mut r.object, &mut r.offset, r.size));
        e.accesses.iter_mut().for_each(|r| to(&mut r.object, &mut r.offset, r.size));
        e.touches.iter_mut().for_each(|r| to(&mut r.object, &mut r.offset, r.size));
        e.rates.iter_mut().flatten().for_each(|r| self.rate(&mut r.object, &mut r.offset));
    }

    /// Rates are of whole words: those of a word of which some bytes moved.
    fn rate(&self, object: &mut u32, offset: &mut u64) {
        let word = *offset..offset.saturating_add(8);
        let in_word = self.rows.iter().find(|(k, _)| k.0 == *object && word.contains(&k.1));
        if let Some(((_, at, _), Some((new, inside)))) = in_word
            && let Some(moved) = inside.checked_sub(at - *offset)
        {
            (*object, *offset) = (*new, moved);
        }
    }
}
