//! The picture of lines, and what an object's slab says.

mod support;

use support::{Build, rwsem};
use tussle_layout::holes::Holes;
use tussle_layout::lines::{lines, view};
use tussle_layout::phases::Where;
use tussle_layout::slab::{Cache, homes};
use tussle_model::LineSize;
use tussle_render::{Format, Style, View, render};

#[test]
fn a_lock_across_a_boundary_is_drawn_in_both_lines() {
    let mut b = Build::new();
    let lock = rwsem(&mut b);
    let (rows, cut) = lines(&b.table, lock, 52, LineSize::L64, 64);
    assert!(!cut);
    let cells: Vec<&str> = rows.iter().map(|r| r.cells.as_str()).collect();
    let first = format!("{}{}", " ".repeat(52), "aaaaaaaabbbb");
    assert_eq!(cells, [first.as_str(), &format!("aaaabbbbccccdddddddd{}{}", "eeeeeeee", " ".repeat(36))]);
    let owner = rows[0].fields.iter().find(|p| p.leaf.path == "owner").expect("owner is in line 0");
    assert!(owner.straddles);
    assert_eq!(rows[1].start, 12);
}

#[test]
fn the_view_carries_paths_and_offsets() {
    let mut b = Build::new();
    let lock = rwsem(&mut b);
    let node = view(&b.table, lock, &Where::Phase(0), LineSize::L64, false);
    let view = View { kind: "layout", schema_version: 1, nodes: vec![node] };
    let json: serde_json::Value =
        serde_json::from_str(&render(&view, Format::Json, Style::default())).expect("JSON");
    let text = json.to_string();
    assert!(text.contains("\"path\":\"wait_list.next\""), "{text}");
    assert!(render(&view, Format::Text, Style::default()).contains("b=owner@8"));
}

#[test]
fn bit_fields_and_bytes_leave_different_holes() {
    let mut b = Build::new();
    let (int, byte) = (b.base("int", 4), b.base("char", 1));
    let id = b.structure("s", 12, &[("c", byte, 0), ("i", int, 4), ("d", byte, 8)]);
    let holes = Holes::of(&b.table, b.table.aggregate(id).expect("a struct"));
    assert_eq!((holes.count, holes.sum_bytes(), holes.padding), (1, 3, 3));
}

#[test]
fn containers_are_spelled_out_with_their_slots() {
    let mut b = Build::new();
    let lock = rwsem(&mut b);
    let long = b.base("long", 8);
    let mapping = b.structure("address_space", 64, &[("flags", long, 0), ("i_mmap_rwsem", lock, 8)]);
    let inode = b.structure("inode", 128, &[("i_mode", long, 0), ("i_data", mapping, 40)]);
    let data = b.array(long, 124);
    b.structure("ext4_inode_info", 1120, &[("i_blocks", data, 0), ("vfs_inode", inode, 992)]);
    let cache = |name: &str, object_size, slab_size, objs| Cache {
        name: name.into(),
        object_size,
        slab_size,
        align: 8,
        objs_per_slab: objs,
    };
    let caches = [cache("ext4_inode_cache", 1120, 1128, 14), cache("other_cache", 1120, 1128, 14)];
    let found = homes(&b.table, mapping, &caches);
    assert_eq!(found.len(), 1, "a cache of the right size and another name is not taken");
    assert_eq!(found[0].path("i_mmap_rwsem.owner"), "ext4_inode_info.vfs_inode.i_data.i_mmap_rwsem.owner");
    let phases = found[0].phases(LineSize::L64);
    assert_eq!(phases.values().sum::<u64>(), 14);
    assert_eq!(phases.len(), 8);
    assert_eq!(phases.get(&8), Some(&2), "992 + 40 is 8 past a line");
}
