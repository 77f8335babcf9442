//! Facts about real kernels, from snapshots of their BTF: who shares a line with whom, and in how many phases.

mod support;

use tussle_layout::diff::{Options, Side, diff};
use tussle_layout::phases::{Where, line_count, select, share};
use tussle_layout::slab::{Cache, Embedding, Home};
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, LineSize, TypeId, TypeTable, leaves};

const KERNELS: [(&str, &[u8]); 6] = [
    ("6.1-amd64", include_bytes!("data/snapshots/6.1-amd64.json")),
    ("6.1-arm64", include_bytes!("data/snapshots/6.1-arm64.json")),
    ("6.12-amd64", include_bytes!("data/snapshots/6.12-amd64.json")),
    ("7.2-amd64", include_bytes!("data/snapshots/7.2-amd64.json")),
    ("7.2-arm64", include_bytes!("data/snapshots/7.2-arm64.json")),
    ("6.12-rt", include_bytes!("data/snapshots/6.12-rt.json")),
];

fn kernel(name: &str) -> TypeTable {
    let (_, bytes) = KERNELS.iter().find(|(n, _)| *n == name).expect("a kernel of the table");
    tussle_debuginfo::snapshot::read(bytes).expect("a snapshot").0
}

fn all(table: &TypeTable, ty: &str) -> (TypeId, Vec<Leaf>) {
    let id = table.find(ty).expect("a type");
    (id, leaves(table, id, Arrays::Whole))
}

fn leaf<'a>(leaves: &'a [Leaf], path: &str) -> Option<&'a Leaf> {
    select(leaves, path).first().copied()
}

/// Number of phases, of those that 8-byte alignment allows, in which two fields share a line.
fn phases_shared(leaves: &[Leaf], a: &str, b: &str, line: LineSize) -> usize {
    let (a, b) = (leaf(leaves, a).expect("a field"), leaf(leaves, b).expect("a field"));
    (0..line.bytes()).step_by(8).filter(|&p| share(a, b, p, line)).count()
}

/// One row of the matrix: offsets of the lock's two halves, of the tree and its lock, phases in which the tree's root
/// and the lock's count share a line, sizes.
fn row(name: &str) -> String {
    let t = kernel(name);
    let (_, mm) = all(&t, "mm_struct");
    let offset =
        |leaves: &[Leaf], path: &str| leaf(leaves, path).map_or("-".into(), |l| l.offset.to_string());
    let (_, mapping) = all(&t, "address_space");
    let shared = match leaf(&mapping, "i_mmap_rwsem.count") {
        Some(_) => phases_shared(&mapping, "i_mmap.rb_root", "i_mmap_rwsem.count", LineSize::L64).to_string(),
        None => "-".into(),
    };
    let size = |ty: &str| t.size(t.find(ty).expect("a type")).expect("a size");
    format!(
        "{name} {}/{} {}/{} {shared} {} {}",
        offset(&mm, "mmap_lock.count"),
        offset(&mm, "mmap_lock.owner"),
        offset(&mapping, "i_mmap.rb_root"),
        offset(&mapping, "i_mmap_rwsem"),
        size("vm_area_struct"),
        size("per_cpu_pages"),
    )
}

#[test]
fn count_and_owner_share_a_line_again() {
    let want = [
        "6.1-amd64 112/120 72/88 6 152 256",
        "6.1-arm64 96/104 72/88 6 152 256",
        "6.12-amd64 168/176 72/144 0 176 256",
        "7.2-amd64 408/416 64/120 1 192 256",
        "7.2-arm64 344/352 64/120 1 192 256",
        // A real-time kernel's lock has no count and no owner.
        "6.12-rt -/- 104/208 - 168 256",
    ];
    let got: Vec<String> = KERNELS.iter().map(|(name, _)| row(name)).collect();
    assert_eq!(got, want);
    for (name, _) in &KERNELS[..5] {
        let t = kernel(name);
        let (_, mm) = all(&t, "mm_struct");
        let (count, owner) =
            (leaf(&mm, "mmap_lock.count").expect("a field"), leaf(&mm, "mmap_lock.owner").expect("a field"));
        // The cache of mm_struct is aligned to a line: phase 0 is the one that occurs.
        assert!(share(count, owner, 0, LineSize::L64), "{name}");
    }
}

#[test]
fn the_leftmost_child_meets_the_lock_in_fewer_phases_from_kernel_to_kernel() {
    let shared = |name: &str, line| {
        let t = kernel(name);
        phases_shared(&all(&t, "address_space").1, "i_mmap.rb_leftmost", "i_mmap_rwsem.count", line)
    };
    // ext4's stride of 1128 bytes makes all 8 phases occur.
    assert_eq!(shared("6.1-amd64", LineSize::L64), 7);
    assert_eq!(shared("6.12-amd64", LineSize::L64), 0);
    assert_eq!(shared("7.2-amd64", LineSize::L64), 2);
    // A pair of lines has 16 phases.
    assert_eq!(shared("6.12-amd64", LineSize::L128), 8);
}

#[test]
fn an_object_meets_its_neighbour() {
    let t = kernel("6.1-amd64");
    let (id, leaves) = all(&t, "anon_vma");
    let cache =
        Cache { name: "anon_vma".into(), object_size: 104, slab_size: 104, align: 8, objs_per_slab: 9 };
    let embedding = Embedding { outer: id, outer_name: "anon_vma".into(), path: String::new(), offset: 0 };
    let home = Home { cache, embedding };
    assert_eq!(home.phases(LineSize::L64).len(), 8);
    let (root, count) =
        (leaf(&leaves, "rb_root").expect("a field"), leaf(&leaves, "rwsem.count").expect("a field"));
    assert_eq!(home.sharing_next(root, count, LineSize::L64), 4, "of 8 neighbours");
}

#[test]
fn lines_of_whole_objects() {
    let t = kernel("7.2-amd64");
    let size = |ty: &str| t.size(t.find(ty).expect("a type")).expect("a size");
    assert_eq!(line_count(size("vm_area_struct"), 0, LineSize::L64), 3);
    assert_eq!(line_count(size("vm_area_struct"), 8, LineSize::L64), 4);
    assert_eq!(line_count(size("per_cpu_pages"), 0, LineSize::L128), 2);
}

#[test]
fn between_two_kernels_the_hot_pairs_are_few() {
    let (old, new) = (kernel("6.1-amd64"), kernel("6.12-amd64"));
    let hot = ["i_mmap", "i_mmap_rwsem"].map(String::from).to_vec();
    let options = Options { line: LineSize::L64, at: Where::Any, hot };
    let id = |t: &TypeTable| t.find("address_space").expect("a type");
    let side = |table| Side { table, btf: true };
    let d = diff(side(&old), id(&old), side(&new), id(&new), &options);
    let pair = |p: &&tussle_layout::diff::Pair| p.a == "i_mmap.rb_leftmost" && p.b == "i_mmap_rwsem.count";
    let apart = d.now_apart.iter().find(pair).expect("the pair of the text is apart now");
    assert_eq!(apart.phases.len(), 7);
    assert!(d.now_share.iter().all(|p| p.a.starts_with("i_mmap") && p.b.starts_with("i_mmap")));
}
