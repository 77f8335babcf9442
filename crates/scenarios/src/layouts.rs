//! Built-in field tables (facts of published kernels) and their counterparts from real builds.

use tussle_model::TypeTable;
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
    Shape::from_types(types, ty, &wanted)
}

/// Head of `mm_struct`; `lock` is the offset of `mmap_lock` (seed 000: 128 regressed, 120 before and after the fix).
/// Offsets of v5.10 with all three options set.
fn mm_rows(lock: u32) -> Vec<(&'static [&'static str], u32, u8)> {
    let shift = lock - 120;
    vec![
        (&["mmap_lock.count"], lock, 8),
        (&["mmap_lock.owner"], lock + 8, 8),
        (&["mmap_lock.osq"], lock + 16, 4),
        (&["mmap_lock.wait_lock"], lock + 20, 4),
        (&["mmap_lock.wait_list.next", "mmap_lock.first_waiter"], lock + 24, 8),
        (&["mmap_lock.wait_list.prev", "mmlist.next"], lock + 32, 8),
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
        (&["i_mmap_rwsem.wait_list.prev", "wb_err"], lock + 32, 8),
        (&["i_mmap.rb_root"], 72, 8),
        (&["i_mmap.rb_leftmost"], 80, 8),
        (&["i_pages.xa_head"], 16, 8),
        (&["nrpages"], after[0], 8),
        (&["a_ops"], after[1], 8),
    ]
}

/// `address_space` of 6.4 by the name of a layout: `shared` (before seed 001), `exchanged` (its patch), `padded` (its
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

/// `vm_area_struct` with a lock of seed 002: fields 0–4 are read by every fault, 5 is the sequence, 6 the detached
/// flag,
/// 7 the pointer to a split lock or the reference count, from 8 on the merged semaphore.
pub fn area_locked(kind: crate::locks::vma::Kind) -> Shape {
    use crate::locks::vma::Kind;
    let (lock, sem, size) = match kind {
        Kind::Split => ((48, 8), None, 176),
        Kind::Merged => ((48, 8), Some(128), 256),
        Kind::Count => ((128, 4), None, 192),
    };
    let mut rows: Vec<(&[&str], u32, u8)> = vec![
        (&["vm_start"], 0, 8),
        (&["vm_end"], 8, 8),
        (&["vm_mm"], 16, 8),
        (&["vm_page_prot"], 24, 8),
        (&["vm_flags"], 32, 8),
        (&["vm_lock_seq"], 40, 4),
        (&["detached"], 44, 1),
    ];
    rows.push((if kind == Kind::Count { &["vm_refcnt"] } else { &["vm_lock"] }, lock.0, lock.1));
    if let Some(at) = sem {
        const NAMES: [&[&str]; 6] = [
            &["vm_lock.count"],
            &["vm_lock.owner"],
            &["vm_lock.osq"],
            &["vm_lock.wait_lock"],
            &["vm_lock.wait_list.next"],
            &["vm_lock.wait_list.prev"],
        ];
        for (name, (offset, size)) in NAMES.into_iter().zip(SEMAPHORE) {
            rows.push((name, at + offset, size));
        }
    }
    table("vm_area_struct", size, size, &rows)
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

/// `per_cpu_pages`: fields 0–3 are lock, count, high, batch; then 13 list heads of two words.
pub fn per_cpu_pages(with_lock: bool) -> Shape {
    // Without the lock everything lies four bytes lower; its word is kept where nobody touches it.
    let (lock, base, lists) = if with_lock { (0, 4, 24) } else { (248, 0, 16) };
    let mut fields: Vec<(String, u32, u8)> = vec![("lock".into(), lock, 4)];
    for (i, name) in ["count", "high", "batch"].into_iter().enumerate() {
        fields.push((name.into(), base + i as u32 * 4, 4));
    }
    for i in 0..13 {
        fields.push((format!("lists[{i}].next"), lists + i * 16, 8));
        fields.push((format!("lists[{i}].prev"), lists + i * 16 + 8, 8));
    }
    let rows: Vec<(&str, u32, u8)> = fields.iter().map(|(n, o, s)| (n.as_str(), *o, *s)).collect();
    Shape::new("per_cpu_pages", 256, &rows)
}

/// `anon_vma` of 3.10: its lock, reference count and tree.
pub fn anon_vma() -> Shape {
    let mut rows: Vec<(&str, u32, u8)> = Vec::new();
    const NAMES: [&str; 6] = [
        "rwsem.count",
        "rwsem.owner",
        "rwsem.osq",
        "rwsem.wait_lock",
        "rwsem.wait_list.next",
        "rwsem.wait_list.prev",
    ];
    for (name, (offset, size)) in NAMES.into_iter().zip(SEMAPHORE) {
        rows.push((name, 8 + offset, size));
    }
    rows.extend([("refcount", 48, 4), ("rb_root", 56, 8)]);
    Shape::new("anon_vma", 64, &rows).with_stride(104)
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
