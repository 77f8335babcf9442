//! Slab geometry and the types that lie inside others: which phases really occur, and how often.

use crate::align::takes_room;
use crate::phases::span;
use std::collections::{BTreeMap, HashMap};
use tussle_model::{Leaf, LineSize, Type, TypeId, TypeTable};

/// One cache of `/sys/kernel/slab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Folder name (`ext4_inode_cache`).
    pub name: String,
    /// Bytes that an object uses.
    pub object_size: u64,
    /// Distance between objects, bytes.
    pub slab_size: u64,
    /// Alignment of objects, bytes.
    pub align: u64,
    /// Objects per slab.
    pub objs_per_slab: u64,
}

/// A slab has at most this many objects in any real kernel; more are not walked.
const OBJECTS_MAX: u64 = 65_536;

/// Caches whose name does not tell their type.
const KNOWN: &[(&str, &str)] = &[
    ("sock_inode_cache", "socket_alloc"),
    ("bdev_cache", "bdev_inode"),
    ("inode_cache", "inode"),
    ("signal_cache", "signal_struct"),
    ("files_cache", "files_struct"),
    ("names_cache", "filename"),
];

impl Cache {
    /// Offset of each slot's object from the slab's (page-aligned) start.
    pub fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.objs_per_slab.min(OBJECTS_MAX)).map(|i| i.saturating_mul(self.slab_size))
    }

    /// The type of its objects, by name and size. `None` when no type of that size bears a fitting name.
    pub fn element(&self, table: &TypeTable) -> Option<TypeId> {
        let known = KNOWN.iter().find(|(cache, _)| *cache == self.name).map(|(_, ty)| *ty);
        let stem = self.name.trim_end_matches("_cachep").trim_end_matches("_cache");
        table
            .aggregates()
            .filter(|(_, a)| {
                a.size > 0 && a.size <= self.object_size && a.size.next_multiple_of(64) >= self.object_size
            })
            .filter_map(|(id, a)| Some((rank(a.name.as_deref()?, known, &self.name, stem)?, id)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, id)| id)
    }
}

/// How well a type's name fits a cache's: smaller is better.
fn rank(ty: &str, known: Option<&str>, cache: &str, stem: &str) -> Option<u32> {
    if known.is_some_and(|k| k == ty) || ty == cache {
        return Some(0);
    }
    let rest = ty.strip_prefix(stem)?;
    ["", "_info", "_struct", "_t"].iter().position(|s| *s == rest).map(|i| i as u32 + 1)
}

/// One place where a type lies inside another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The outermost type.
    pub outer: TypeId,
    /// Its name.
    pub outer_name: String,
    /// Path inside it (`vfs_inode.i_data`); empty when it is the type itself.
    pub path: String,
    /// Offset inside it, bytes.
    pub offset: u64,
}

/// Every place where `id` lies inside another type, itself first; at most `limit`. Only the first element of an
/// array counts.
pub fn embeddings(table: &TypeTable, id: TypeId, limit: usize) -> Vec<Embedding> {
    let users = users(table);
    let id = table.strip(id);
    let name = |id: TypeId| table.aggregate(id).and_then(|a| a.name.clone()).unwrap_or_default();
    let mut out = vec![Embedding { outer: id, outer_name: name(id), path: String::new(), offset: 0 }];
    let mut at = 0;
    while at < out.len() && out.len() < limit {
        let here = out[at].clone();
        for (outer, member, offset) in users.get(&here.outer).into_iter().flatten() {
            let path = match (member.is_empty(), here.path.is_empty()) {
                (_, true) => member.clone(),
                (true, false) => here.path.clone(),
                (false, false) => format!("{member}.{}", here.path),
            };
            let offset = here.offset.saturating_add(*offset);
            // A type cannot contain itself; hostile tables say so anyway.
            if path.matches('.').count() < tussle_model::leaf::DEPTH_MAX {
                out.push(Embedding { outer: *outer, outer_name: name(*outer), path, offset });
            }
        }
        at += 1;
    }
    out.truncate(limit);
    out
}

type Users = HashMap<TypeId, Vec<(TypeId, String, u64)>>;

/// For each aggregate the aggregates that hold it by value, with member name and offset.
fn users(table: &TypeTable) -> Users {
    let mut users = Users::new();
    for (outer, a) in table.aggregates() {
        for m in a.members.iter().filter(|m| takes_room(m.role)) {
            let mut ty = table.strip(m.ty);
            let mut name = m.name.clone().unwrap_or_default();
            if let Type::Array { elem, .. } = table.get(ty) {
                ty = table.strip(*elem);
                name.push_str("[0]");
            }
            if let Type::Aggregate(_) = table.get(ty) {
                users.entry(ty).or_default().push((outer, name, m.offset()));
            }
        }
    }
    users
}

/// The objects of one type in one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The cache.
    pub cache: Cache,
    /// Where in the cache's objects the type lies.
    pub embedding: Embedding,
}

/// All caches whose objects are or contain `id`.
pub fn homes(table: &TypeTable, id: TypeId, caches: &[Cache]) -> Vec<Home> {
    let places = embeddings(table, id, 10_000);
    let mut out = Vec::new();
    for cache in caches {
        let Some(element) = cache.element(table) else { continue };
        for e in places.iter().filter(|e| e.outer == element) {
            out.push(Home { cache: cache.clone(), embedding: e.clone() });
        }
    }
    out
}

impl Home {
    /// Number of slots of a slab per phase of the object, phases in bytes.
    pub fn phases(&self, line: LineSize) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for start in self.cache.starts() {
            *counts.entry(line.offset(start.saturating_add(self.embedding.offset))).or_insert(0) += 1;
        }
        counts
    }

    /// Slots of a slab in which both leaves (offsets in the object itself) share a line.
    pub fn sharing(&self, a: &Leaf, b: &Leaf, line: LineSize) -> u64 {
        let shares = |at: &u64| span(a, *at, line).meets(span(b, *at, line));
        self.cache.starts().map(|s| s.saturating_add(self.embedding.offset)).filter(shares).count() as u64
    }

    /// Slots whose `a` shares a line with `b` of the next object of the slab.
    pub fn sharing_next(&self, a: &Leaf, b: &Leaf, line: LineSize) -> u64 {
        let starts: Vec<u64> = self.cache.starts().collect();
        let at = |s: u64| s.saturating_add(self.embedding.offset);
        starts.windows(2).filter(|w| span(a, at(w[0]), line).meets(span(b, at(w[1]), line))).count() as u64
    }

    /// `ext4_inode_info.vfs_inode.i_data.i_mmap_rwsem.owner` for a leaf's path.
    pub fn path(&self, leaf: &str) -> String {
        let parts = [self.embedding.outer_name.as_str(), self.embedding.path.as_str(), leaf];
        parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(".")
    }
}
