//! Built-in field tables (facts of published kernels) and their counterparts from real builds.

use tussle_model::TypeTable;
use tussle_model::leaf::{Arrays, leaves};
use tussle_sim::{LayoutError, Shape};

/// Rows of (accepted paths, offset, bytes); the first path is the name.
type Rows<'a> = &'a [(&'a [&'a str], u32, u8)];

fn table(name: &str, size: u32, stride: u32, rows: Rows<'_>) -> Shape {
    let fields: Vec<(&str, u32, u8)> = rows
        .iter()
        .map(|(p, offset, size)| (p.first().copied().unwrap_or_default(), *offset, *size))
        .collect();
    Shape::new(name, size, &fields).with_stride(stride)
}

fn from_types(types: &TypeTable, ty: &str, rows: Rows<'_>) -> Result<Shape, LayoutError> {
    let wanted: Vec<&[&str]> = rows.iter().map(|(p, ..)| *p).collect();
    let mut shape = Shape::from_types(types, ty, &wanted)?;
    // Newer locks point to their first waiter only, who knows the last: that word lies outside of the lock.
    let head = shape.fields.iter().find(|f| f.name.ends_with("wait_list.next")).map(|f| f.offset);
    let outside = shape.size.next_multiple_of(8);
    let tail = shape.fields.iter_mut().find(|f| f.name.ends_with("wait_list.prev") && Some(f.offset) == head);
    if let Some(tail) = tail {
        tail.offset = outside;
        shape.size = outside + 8;
        shape.stride = shape.size;
    }
    Ok(shape)
}

/// Head of `mm_struct`; `lock` is the offset of `mmap_lock` (128 regressed, 120 before and after the fix).
/// Offsets of v5.10 with all three options set.
fn mm_rows(lock: u32) -> Vec<(&'static [&'static str], u32, u8)> {
    let shift = lock - 120;
    vec![
        (&["mmap_lock.count"], lock, 8),
        (&["mmap_lock.owner"], lock + 8, 8),
        (&["mmap_lock.osq"], lock + 16, 4),
        (&["mmap_lock.wait_lock"], lock + 20, 4),
        (&["mmap_lock.wait_list.next", "mmap_lock.first_waiter"], lock + 24, 8),
        (&["mmap_lock.wait_list.prev", "mmap_lock.first_waiter"], lock + 32, 8),
        (&["mm_rb", "mm_mt.ma_root"], 8, 8),
        (&["mmap_base"], 32, 8),
        (&["task_size"], 64, 8),
        (&["pgd"], 80, 8),
        (&["mm_count"], 96, 4),
        (&["pgtables_bytes"], 104 + shift, 8),
        (&["map_count"], 112 + shift, 4),
        (&["total_vm"], 192 + shift, 8),
        (&["data_vm"], 216 + shift, 8),
    ]
}

/// `mm_struct` with `mmap_lock` at this offset.
pub fn mm(lock: u32) -> Shape {
    table("mm_struct", 1024, 1024, &mm_rows(lock))
}

/// `mm_struct` of a real build.
///
/// # Errors
/// Fields that the build does not have.
pub fn mm_from(types: &TypeTable) -> Result<Shape, LayoutError> {
    from_types(types, "mm_struct", &mm_rows(120))
}

/// `vm_area_struct` of v5.10 as far as a red-black tree of areas needs it.
pub fn area_5_10() -> Shape {
    table(
        "vm_area_struct",
        200,
        200,
        &[
            (&["vm_start"], 0, 8),
            (&["vm_end"], 8, 8),
            (&["vm_rb.parent"], 32, 8),
            (&["vm_rb.rb_left"], 48, 8),
            (&["vm_rb.rb_right"], 40, 8),
            (&["rb_subtree_gap"], 56, 8),
            (&["vm_mm"], 64, 8),
            (&["vm_flags"], 80, 8),
        ],
    )
}

/// The part of `vm_area_struct` by which it hangs in `i_mmap`.
pub fn area_shared() -> Shape {
    table(
        "vm_area_struct",
        152,
        152,
        &[
            (&["vm_end"], 8, 8),
            (&["shared.rb.parent"], 80, 8),
            (&["shared.rb.rb_left"], 96, 8),
            (&["shared.rb.rb_right"], 88, 8),
            (&["shared.rb_subtree_last"], 104, 8),
            (&["vm_pgoff"], 128, 8),
        ],
    )
}

fn mapping_rows(lock: u32, after: [u32; 2]) -> Vec<(&'static [&'static str], u32, u8)> {
    vec![
        (&["i_mmap_rwsem.count"], lock, 8),
        (&["i_mmap_rwsem.owner"], lock + 8, 8),
        (&["i_mmap_rwsem.osq"], lock + 16, 4),
        (&["i_mmap_rwsem.wait_lock"], lock + 20, 4),
        (&["i_mmap_rwsem.wait_list.next", "i_mmap_rwsem.first_waiter"], lock + 24, 8),
        (&["i_mmap_rwsem.wait_list.prev", "i_mmap_rwsem.first_waiter"], lock + 32, 8),
        (&["i_mmap.rb_root"], 72, 8),
        (&["i_mmap.rb_leftmost"], 80, 8),
        (&["i_pages.xa_head"], 16, 8),
        (&["nrpages"], after[0], 8),
        (&["a_ops"], after[1], 8),
    ]
}

/// `address_space` of 6.4 by the name of a layout: `shared` (before the patch), `exchanged` (the patch), `padded` (its
/// first version), `upstream` (the order of 6.12).
pub fn mapping(name: &str) -> Option<Shape> {
    let rows = match name {
        "shared" => mapping_rows(88, [128, 144]),
        "exchanged" => mapping_rows(120, [88, 104]),
        "padded" => mapping_rows(128, [168, 184]),
        "upstream" => mapping_rows(144, [88, 104]),
        _ => return None,
    };
    Some(table("address_space", 192, 1128, &rows))
}

/// `address_space` of a real build.
///
/// # Errors
/// Fields that the build does not have.
pub fn mapping_from(types: &TypeTable) -> Result<Shape, LayoutError> {
    from_types(types, "address_space", &mapping_rows(88, [128, 144]))
}

/// Rows of `vm_area_struct` with a lock of its own: fields 0–4 are read by every fault, 5 is the sequence, 6 the
/// detached flag, 7 the pointer to a split lock or the reference count, from 8 on the merged semaphore.
fn area_rows(kind: crate::locks::vma::Kind) -> Vec<(&'static [&'static str], u32, u8)> {
    use crate::locks::vma::Kind;
    let mut rows: Vec<(&[&str], u32, u8)> = vec![
        (&["vm_start"], 0, 8),
        (&["vm_end"], 8, 8),
        (&["vm_mm"], 16, 8),
        (&["vm_page_prot"], 24, 8),
        (&["vm_flags"], 32, 8),
        (&["vm_lock_seq"], 40, 4),
    ];
    // A count knows by its value whether the area is detached: kernels that have it have no flag.
    rows.push((if kind == Kind::Count { &["detached", "vm_lock_seq"] } else { &["detached"] }, 44, 1));
    rows.push(match kind {
        Kind::Split => (&["vm_lock"], 48, 8),
        Kind::Merged => (&["vm_lock_pointer", "vm_lock_seq"], 48, 8),
        Kind::Count => (&["vm_refcnt"], 128, 4),
    });
    if kind == Kind::Merged {
        const NAMES: [&[&str]; 6] = [
            &["vm_lock.count", "vm_lock.lock.count"],
            &["vm_lock.owner", "vm_lock.lock.owner"],
            &["vm_lock.osq", "vm_lock.lock.osq"],
            &["vm_lock.wait_lock", "vm_lock.lock.wait_lock"],
            &["vm_lock.wait_list.next", "vm_lock.lock.wait_list.next", "vm_lock.lock.first_waiter"],
            &["vm_lock.wait_list.prev", "vm_lock.lock.wait_list.prev", "vm_lock.lock.first_waiter"],
        ];
        rows.extend(
            NAMES.into_iter().zip(SEMAPHORE).map(|(name, (offset, size))| (name, 128 + offset, size)),
        );
    }
    rows
}

/// `vm_area_struct` with one of the locks of scenario `vma_lock`.
pub fn area_locked(kind: crate::locks::vma::Kind) -> Shape {
    use crate::locks::vma::Kind;
    let size = match kind {
        Kind::Split => 176,
        Kind::Merged => 256,
        Kind::Count => 192,
    };
    table("vm_area_struct", size, size, &area_rows(kind))
}

/// The lock that a build's `vm_area_struct` has, by its fields.
pub fn area_lock_of(types: &TypeTable) -> Option<crate::locks::vma::Kind> {
    use crate::locks::vma::Kind;
    let id = types.find("vm_area_struct")?;
    let all = leaves(types, id, Arrays::Whole);
    let has = |p: &str| all.iter().any(|l| l.path == p || l.path.starts_with(&format!("{p}.")));
    match () {
        () if has("vm_refcnt") => Some(Kind::Count),
        () if all.iter().any(|l| l.path == "vm_lock") => Some(Kind::Split),
        () if has("vm_lock") => Some(Kind::Merged),
        () => None,
    }
}

/// `vm_area_struct` of a real build with this lock.
///
/// # Errors
/// Fields that the build does not have.
pub fn area_locked_from(types: &TypeTable, kind: crate::locks::vma::Kind) -> Result<Shape, LayoutError> {
    let shape = from_types(types, "vm_area_struct", &area_rows(kind))?;
    // Areas whose type is not line-aligned lie side by side in their slab.
    let stride =
        if kind == crate::locks::vma::Kind::Split { shape.size } else { shape.size.next_multiple_of(64) };
    Ok(shape.with_stride(stride))
}

/// The part of `mm_struct` that page faults touch: the lock, 6 its sequence beside it, 7 the root of the tree
/// with fields that faults read, 8 the writer that waits for readers of an area.
const FAULT_MM: Rows<'static> = &[
    (&["mmap_lock.count"], 128, 8),
    (&["mmap_lock.owner"], 136, 8),
    (&["mmap_lock.osq"], 144, 4),
    (&["mmap_lock.wait_lock"], 148, 4),
    (&["mmap_lock.wait_list.next", "mmap_lock.first_waiter"], 152, 8),
    (&["mmap_lock.wait_list.prev", "mmap_lock.first_waiter"], 160, 8),
    (&["mm_lock_seq"], 184, 4),
    (&["mm_mt.ma_root"], 64, 8),
    // Only builds with a reference count have it, and only they need it.
    (&["vma_writer_wait", "mm_lock_seq"], 256, 8),
];

/// `mm_struct` as scenario `vma_lock` needs it, with a word that counts what went wrong.
pub fn fault_mm() -> Shape {
    let mut rows = FAULT_MM.to_vec();
    rows.push((&["bad"], 320, 8));
    table("mm_struct", 1024, 1024, &rows)
}

/// The same of a real build.
///
/// # Errors
/// Fields that the build does not have.
pub fn fault_mm_from(types: &TypeTable) -> Result<Shape, LayoutError> {
    from_types(types, "mm_struct", FAULT_MM)
}

/// Offsets and sizes of a semaphore's words.
const SEMAPHORE: [(u32, u8); 6] = [(0, 8), (8, 8), (16, 4), (20, 4), (24, 8), (32, 8)];

/// `struct vma_lock`: the semaphore in an object of its own.
pub fn vma_lock() -> Shape {
    let names = crate::locks::SleepWords::FIELDS;
    let fields: Vec<(&str, u32, u8)> =
        names.into_iter().zip(SEMAPHORE).map(|(n, (o, s))| (n, o, s)).collect();
    Shape::new("vma_lock", 40, &fields)
}

/// Lists of `per_cpu_pages` that a scenario initialises.
const LISTS: usize = 13;

/// `per_cpu_pages`: fields 0–3 are lock, count, high, batch; then 13 list heads of two words.
pub fn per_cpu_pages(with_lock: bool) -> Shape {
    // Without the lock everything lies four bytes lower; its word is kept where nobody touches it.
    let (lock, base, lists) = if with_lock { (0, 4, 24) } else { (248, 0, 16) };
    let mut fields: Vec<(String, u32, u8)> = vec![("lock".into(), lock, 4)];
    for (i, name) in ["count", "high", "batch"].into_iter().enumerate() {
        fields.push((name.into(), base + i as u32 * 4, 4));
    }
    for i in 0..LISTS as u32 {
        fields.push((format!("lists[{i}].next"), lists + i * 16, 8));
        fields.push((format!("lists[{i}].prev"), lists + i * 16 + 8, 8));
    }
    let rows: Vec<(&str, u32, u8)> = fields.iter().map(|(n, o, s)| (n.as_str(), *o, *s)).collect();
    Shape::new("per_cpu_pages", 256, &rows)
}

/// A build's `per_cpu_pages` has a spinlock.
pub fn pages_have_lock(types: &TypeTable) -> bool {
    let id = types.find("per_cpu_pages");
    id.is_some_and(|id| leaves(types, id, Arrays::Whole).iter().any(|l| l.path.starts_with("lock")))
}

/// `per_cpu_pages` of a real build. Older kernels have fewer lists; the scenario works on the second.
///
/// # Errors
/// Fields that the build does not have, the lock among them if it is wanted.
pub fn per_cpu_pages_from(types: &TypeTable, with_lock: bool) -> Result<Shape, LayoutError> {
    let lists = (0..LISTS)
        .flat_map(|i| ["next", "prev"].map(|w| (format!("lists[{i}].{w}"), format!("lists[0].{w}"))));
    let lists: Vec<(String, String)> = lists.collect();
    let mut wanted: Vec<Vec<&str>> = vec![if with_lock { vec!["lock"] } else { vec!["lock", "count"] }];
    wanted.extend(["count", "high", "batch"].map(|n| vec![n]));
    wanted.extend(lists.iter().map(|(own, first)| vec![own.as_str(), first.as_str()]));
    let wanted: Vec<&[&str]> = wanted.iter().map(Vec::as_slice).collect();
    let shape = Shape::from_types(types, "per_cpu_pages", &wanted)?;
    // One per CPU, in areas far apart.
    let stride = shape.size.next_multiple_of(128);
    Ok(shape.with_stride(stride))
}

/// `anon_vma` of 3.10: its lock, reference count and tree.
const ANON: [(&[&str], u32, u8); 8] = [
    (&["rwsem.count", "mutex.owner", "mutex.count"], 8, 8),
    (&["rwsem.owner", "mutex.owner"], 16, 8),
    (&["rwsem.osq", "mutex.osq", "mutex.spin_mlock"], 24, 4),
    (&["rwsem.wait_lock", "mutex.wait_lock"], 28, 4),
    (&["rwsem.wait_list.next", "rwsem.first_waiter", "mutex.wait_list.next", "mutex.first_waiter"], 32, 8),
    (&["rwsem.wait_list.prev", "rwsem.first_waiter", "mutex.wait_list.prev", "mutex.first_waiter"], 40, 8),
    (&["refcount"], 48, 4),
    (&["rb_root"], 56, 8),
];

/// `anon_vma` of 3.10.
pub fn anon_vma() -> Shape {
    table("anon_vma", 64, 104, &ANON)
}

/// The lock that a build's `anon_vma` has: the modern semaphore, the one without owner, or a mutex.
pub fn anon_lock_of(types: &TypeTable) -> Option<crate::locks::Kind> {
    use crate::locks::Kind;
    let all = leaves(types, types.find("anon_vma")?, Arrays::Whole);
    let has = |p: &str| all.iter().any(|l| l.path.starts_with(p));
    match () {
        () if has("rwsem.owner") => Some(Kind::Rwsem),
        () if has("rwsem.") => Some(Kind::Rwsem310),
        () if has("mutex.") => Some(Kind::Mutex310),
        () => None,
    }
}

/// `anon_vma` of a real build, with the words that this lock needs.
///
/// # Errors
/// Fields that the build does not have.
pub fn anon_vma_from(types: &TypeTable, kind: crate::locks::Kind) -> Result<Shape, LayoutError> {
    use crate::locks::Kind;
    let mut rows = ANON.to_vec();
    if matches!(kind, Kind::RwsemFair | Kind::Rwsem310) {
        // They neither have an owner nor spin.
        rows[1].0 = &["rwsem.owner", "rwsem.count"];
        rows[2].0 = &["rwsem.osq", "rwsem.wait_lock"];
    }
    from_types(types, "anon_vma", &rows)
}

/// `anon_vma_chain`.
pub fn chain() -> Shape {
    let rows = [
        ("rb.parent", 32, 8),
        ("rb.rb_left", 48, 8),
        ("rb.rb_right", 40, 8),
        ("vma.start", 0, 8),
        ("vma.last", 8, 8),
        ("rb_subtree_last", 56, 8),
    ];
    Shape::new("anon_vma_chain", 64, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_tables_are_aligned_and_free_of_overlaps() {
        let mut shapes = vec![mm(120), mm(128), area_5_10(), area_shared(), vma_lock(), anon_vma(), chain()];
        shapes.extend(["shared", "exchanged", "padded", "upstream"].map(|n| mapping(n).unwrap()));
        shapes.extend([true, false].map(per_cpu_pages));
        shapes.extend(crate::locks::vma::Kind::NAMES.map(|(_, k)| area_locked(k)));
        for s in shapes {
            let mut spans: Vec<(u32, u32)> =
                s.fields.iter().map(|f| (f.offset, f.offset + u32::from(f.size))).collect();
            spans.sort_unstable();
            assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "{}: {spans:?}", s.name);
            assert!(s.fields.iter().all(|f| f.offset % u32::from(f.size) == 0), "{}", s.name);
            assert!(spans.last().unwrap().1 <= s.size, "{}", s.name);
        }
    }

    #[test]
    fn seed_000_and_001_lines() {
        let line = |s: &Shape, f: &str| s.fields[s.index(f).unwrap() as usize].offset / 64;
        assert_eq!(line(&mm(128), "mmap_lock.count"), line(&mm(128), "mmap_lock.owner"));
        assert_ne!(line(&mm(120), "mmap_lock.count"), line(&mm(120), "mmap_lock.owner"));
        let shared = mapping("shared").unwrap();
        assert_eq!(line(&shared, "i_mmap.rb_root"), line(&shared, "i_mmap_rwsem.count"));
    }
}
