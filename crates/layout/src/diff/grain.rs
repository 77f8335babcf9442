//! How finely a type is compared: as finely as both builds have the same names for its parts.

use super::{Found, above};
use foldhash::{HashMap, HashSet};
use tussle_model::Leaf;

/// The outermost members that both builds have without a part of one name in both (a number became a struct, a struct
/// an array): each is compared as a whole, for it is still that member.
pub(super) fn remade(found: &Found<'_>) -> HashSet<String> {
    let gone: HashSet<&str> =
        found.old.iter().filter(|l| found.in_new(&l.path).is_none()).flat_map(|l| above(&l.path)).collect();
    if gone.is_empty() {
        return HashSet::default();
    }
    let came = found.new.iter().filter(|l| found.in_old(&l.path).is_none());
    let mut both: HashSet<&str> = came.flat_map(|l| above(&l.path)).filter(|p| gone.contains(p)).collect();
    if !both.is_empty() {
        let common = found.old.iter().filter(|l| found.in_new(&l.path).is_some());
        common.flat_map(|l| above(&l.path)).for_each(|p| {
            both.remove(p);
        });
    }
    let outermost = |p: &&&str| above(p).find(|x| both.contains(x)) == Some(**p);
    both.iter().filter(outermost).map(|p| p.to_string()).collect()
}

/// One leaf for all that lies below each of these members.
pub(super) fn joined(list: Vec<Leaf>, whole: &HashSet<String>) -> Vec<Leaf> {
    let mut out: Vec<Leaf> = Vec::with_capacity(list.len());
    let mut at: HashMap<String, usize> = HashMap::default();
    for mut leaf in list {
        let Some(path) = above(&leaf.path).find(|p| whole.contains(*p)).map(String::from) else {
            out.push(leaf);
            continue;
        };
        match at.get(&path) {
            // in order of their offsets
            Some(&i) => {
                let end = out[i].end().max(leaf.end());
                out[i].size = end - out[i].offset.min(end);
                out[i].overlaps &= leaf.overlaps;
                out[i].bits = None;
            }
            None => {
                at.insert(path.clone(), out.len());
                leaf.bits = leaf.bits.filter(|_| leaf.path == path);
                out.push(Leaf { path, ..leaf });
            }
        }
    }
    out
}
