//! What became of each member.

use super::{Found, Moved, Resized, TypeDiff, Width, above};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use tussle_model::Leaf;

/// Members that came, went, moved or have another width. A member whose parts had one fate is told as a whole.
pub(super) fn compare(found: &Found<'_>, d: &mut TypeDiff) {
    // What happened to each path, and to each member above it if all that lies below had the same fate.
    let mut fates: HashMap<&str, Option<Fate>> = HashMap::with_capacity(2 * found.new.len());
    let removed = found.old.iter().filter(|l| found.in_new(&l.path).is_none());
    let all = found.new.iter().map(|l| (l, true)).chain(removed.map(|l| (l, false)));
    for (l, is_there) in all.clone() {
        let fate = if is_there { fate(found.in_old(&l.path), l) } else { Fate::Removed };
        for path in above(&l.path) {
            // widths are of their own: that of one part is not that of the whole
            let told = Some(fate).filter(|f| *f != Fate::Resized || path.len() == l.path.len());
            let known = fates.entry(path).or_insert(told);
            *known = known.filter(|k| Some(*k) == told);
        }
    }
    let mut told = HashSet::new();
    for (l, _) in all {
        let Some(path) = above(&l.path).find(|p| fates.get(p).is_some_and(Option::is_some)) else { continue };
        if !told.insert(path) {
            continue;
        }
        match fates[path] {
            Some(Fate::Added) => d.added.push((path.to_string(), l.offset)),
            Some(Fate::Removed) => d.removed.push((path.to_string(), l.offset)),
            Some(Fate::Moved(by)) if by != 0 => {
                let (path, old) = (path.to_string(), l.offset.wrapping_sub(by as u64));
                d.moved.push(Moved { path, old, new: l.offset, bits: None });
            }
            Some(Fate::Resized) => found.in_old(&l.path).into_iter().for_each(|old| resized(old, l, d)),
            Some(Fate::Moved(_)) | None => {}
        }
    }
}

/// What happened to a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Added,
    Removed,
    /// By so many bytes, 0 for a leaf that stayed; its width did not change.
    Moved(i64),
    /// It has another width, or begins at another bit of its byte.
    Resized,
}

fn fate(old: Option<&Leaf>, new: &Leaf) -> Fate {
    match old {
        None => Fate::Added,
        Some(o) if width(o) == width(new) && first_bit(o) == first_bit(new) => {
            Fate::Moved(new.offset.wrapping_sub(o.offset) as i64)
        }
        _ => Fate::Resized,
    }
}

fn width(l: &Leaf) -> Width {
    l.bits.map_or(Width::Bytes(l.size), |(_, bits)| Width::Bits(bits))
}

/// First bit in the leaf's first byte.
fn first_bit(l: &Leaf) -> u64 {
    l.bits.map_or(0, |(first, _)| first.saturating_sub(l.offset.saturating_mul(8)))
}

fn resized(old: &Leaf, new: &Leaf, d: &mut TypeDiff) {
    let (from, to) = (first_bit(old), first_bit(new));
    if (old.offset, from) != (new.offset, to) {
        let bits = (from != to).then_some((from, to));
        d.moved.push(Moved { path: new.path.clone(), old: old.offset, new: new.offset, bits });
    }
    if width(old) != width(new) {
        d.resized.push(Resized { path: new.path.clone(), old: width(old), new: width(new) });
    }
}
