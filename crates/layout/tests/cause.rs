//! A cause explains its shift, or there are several.

mod support;

use support::Build as Table;
use tussle_layout::diff::{Change, Options, Side, TypeDiff, changed, diff, hot_pairs, shown, summary_view};
use tussle_layout::phases::Where;
use tussle_model::{AggregateKind, LineSize, TypeTable};
use tussle_render::{Format, Style, View, render};

type Members<'a> = &'a [(&'a str, u64, u64)];

/// A struct of members with name, size and offset.
fn table(size: u64, members: Members<'_>) -> TypeTable {
    let mut t = Table::new();
    let char = t.base("char", 1);
    let long = t.base("long", 8);
    let made: Vec<_> = members
        .iter()
        .map(|&(name, bytes, at)| (name, if bytes == 8 { long } else { t.array(char, bytes) }, at))
        .collect();
    t.structure("o", size, &made);
    t.table
}

fn compare(old: &TypeTable, new: &TypeTable, ty: &str) -> TypeDiff {
    let options = Options { line: LineSize::L64, at: Where::Phase(0), hot: Vec::new() };
    let side = |table| Side { table, btf: false };
    diff(side(old), old.find(ty).expect("a type"), side(new), new.find(ty).expect("a type"), &options)
}

fn cause(old: (u64, Members<'_>), new: (u64, Members<'_>)) -> (String, Change, i64) {
    let d = compare(&table(old.0, old.1), &table(new.0, new.1), "o");
    let c = d.cause.expect("a cause");
    (c.member, c.change, c.shift)
}

#[test]
fn single_changes_explain_themselves() {
    let old: (u64, Members<'_>) = (24, &[("a", 8, 0), ("b", 8, 8), ("c", 8, 16)]);
    let cases: [((u64, Members<'_>), (&str, Change, i64)); 4] = [
        ((32, &[("a", 8, 0), ("x", 8, 8), ("b", 8, 16), ("c", 8, 24)]), ("x", Change::Inserted, 8)),
        ((16, &[("a", 8, 0), ("c", 8, 8)]), ("b", Change::Removed, -8)),
        ((48, &[("a", 8, 0), ("b", 32, 8), ("c", 8, 40)]), ("b", Change::Resized(8, 32), 24)),
        ((24, &[("a", 8, 0), ("c", 8, 8), ("b", 8, 16)]), ("b", Change::Reordered, -8)),
    ];
    for (new, (member, change, shift)) in cases {
        assert_eq!(cause(old, new), (member.to_string(), change, shift));
    }
}

/// A removed 8-byte member does not move others by 88, nor does a marker of no bytes move them by 200.
#[test]
fn impossible_causes_are_not_told() {
    let old: (u64, Members<'_>) = (32, &[("a", 8, 0), ("gone", 8, 8), ("b", 8, 16), ("c", 8, 24)]);
    let new: (u64, Members<'_>) =
        (208, &[("a", 8, 0), ("mark", 0, 8), ("big", 88, 8), ("bigger", 96, 96), ("b", 8, 192)]);
    let (_, change, shift) = cause(old, new);
    // the marker is none of them: it moves nothing
    assert!(matches!(change, Change::Several(_, 3)), "{change:?}");
    assert_eq!(shift, 176);
    // two insertions of which one lies in what the shift is
    let new: (u64, Members<'_>) =
        (56, &[("a", 8, 0), ("gone", 8, 8), ("x", 8, 16), ("y", 16, 24), ("b", 8, 40), ("c", 8, 48)]);
    assert!(matches!(cause(old, new).1, Change::Several(_, 2)));
    // something else stands behind what was removed far away
    let new: (u64, Members<'_>) = (112, &[("a", 8, 0), ("b", 8, 104)]);
    assert!(!matches!(cause((24, &[("a", 8, 0), ("gone", 8, 8), ("b", 8, 16)]), new).1, Change::Removed));
}

/// Two kernels in which a lock shrank: many types move, one cause is told, what is hot by kind comes first.
fn kernel(lock: u64) -> TypeTable {
    let mut t = Table::new();
    let long = t.base("long", 8);
    let int = t.base("int", 4);
    let atomic_s = t.structure("", 4, &[("counter", int, 0)]);
    let atomic = t.typedef("atomic_t", atomic_s);
    let rest = t.array(long, (lock - 8) / 8);
    let mutex = t.structure("mutex", lock, &[("owner", long, 0), ("rest", rest, 8)]);
    for i in 0..40 {
        let name = format!("user{i:02}");
        let pad = t.array(long, 6);
        let members =
            [("lock", mutex, 0), ("pad", pad, lock), ("users", atomic, lock + 48), ("data", long, lock + 56)];
        let id = t.structure(&name, lock + 64, &members);
        t.aligned(id, 8);
    }
    t.table
}

#[test]
fn one_screen_groups_types_by_their_cause() {
    let (old, new) = (kernel(32), kernel(24));
    let common = changed(&old, &new);
    // the lock's counter is a typedef without a struct's name
    assert_eq!((common.names, common.changed.len()), (42, 41));
    let options = Options { line: LineSize::L64, at: Where::Any, hot: Vec::new() };
    let side = |table| Side { table, btf: false };
    let mut diffs = Vec::new();
    let mut hot = Vec::new();
    for &(a, b) in &common.changed {
        let d = diff(side(&old), a, side(&new), b, &options);
        hot.extend(hot_pairs(side(&new), b, &d));
        diffs.push(d);
    }
    let users = diffs.iter().filter(|d| d.name != "struct mutex");
    assert!(users.clone().all(|d| d.cause.as_ref().is_some_and(|c| c.root == "struct mutex")));
    assert!(!hot.is_empty(), "lock and users share a line at some phases");
    let view = View { kind: "diff", schema_version: 1, nodes: summary_view(&diffs, &hot, false) };
    let text = render(&view, Format::Text, Style::default());
    assert!(text.lines().count() < 40, "{text}");
    assert_eq!(text.matches("struct mutex").count(), 1, "{text}");
    let row = text.lines().find(|l| l.starts_with("struct mutex")).expect("a row");
    assert!(row.contains("40") && row.contains("rest shrank from 24 to 16 bytes"), "{row}");
}

/// A member that grew out of its place is the cause itself, not an alignment.
#[test]
fn a_member_that_no_longer_fits_where_it_lay() {
    let old: (u64, Members<'_>) = (12, &[("a", 4, 0), ("b", 2, 4), ("c", 4, 8)]);
    let new: (u64, Members<'_>) = (24, &[("a", 4, 0), ("b", 8, 8), ("c", 4, 16)]);
    assert_eq!(cause(old, new), ("b".to_string(), Change::Resized(2, 8), 4));
}

/// A struct inside, of the same size and at the same place, whose members changed their order.
#[test]
fn a_change_inside_of_a_member_has_that_type_as_its_root() {
    let table = |first: &str, second: &str| {
        let mut t = Table::new();
        let long = t.base("long", 8);
        let inner = t.structure("inner", 16, &[(first, long, 0), (second, long, 8)]);
        let middle = t.structure("middle", 24, &[("n", long, 0), ("in", inner, 8)]);
        t.structure("o", 32, &[("m", middle, 0), ("last", long, 24)]);
        t.table
    };
    let d = compare(&table("x", "y"), &table("y", "x"), "o");
    let c = d.cause.expect("a cause");
    assert_eq!((c.root.as_str(), c.member.as_str()), ("struct inner", "m.in.x"));
    assert!(matches!(c.change, Change::Reordered), "{:?}", c.change);
}

/// A member that went into an unnamed union is still there.
#[test]
fn a_member_in_an_unnamed_union_is_not_removed() {
    let mut t = Table::new();
    let long = t.base("long", 8);
    let union = t.aggregate(tussle_model::AggregateKind::Union, "", 8, &[("a", long, 0), ("b", long, 0)]);
    t.structure("o", 16, &[("", union, 0), ("c", long, 8)]);
    let old = table(24, &[("a", 8, 0), ("b", 8, 8), ("c", 8, 16)]);
    let c = compare(&old, &t.table, "o").cause.expect("a cause");
    assert_eq!((c.member.as_str(), &c.change, c.offset), ("b", &Change::Reordered, 0));
    let c = compare(&t.table, &old, "o").cause.expect("a cause");
    assert_eq!((c.member.as_str(), &c.change), ("b", &Change::Reordered));
}

/// One member that went to the front moved, not the four that it passed; a struct that became a union has one cause.
#[test]
fn a_member_far_from_where_it_stood_and_a_union() {
    let back: (u64, Members<'_>) =
        (40, &[("a", 8, 0), ("b", 8, 8), ("c", 8, 16), ("d", 8, 24), ("hot", 8, 32)]);
    let front: (u64, Members<'_>) =
        (40, &[("hot", 8, 0), ("a", 8, 8), ("b", 8, 16), ("c", 8, 24), ("d", 8, 32)]);
    for (old, new) in [(back, front), (front, back)] {
        let (member, change, _) = cause(old, new);
        assert_eq!((member.as_str(), change), ("hot", Change::Reordered));
    }
    let union = |t: &mut Table| {
        let long = t.base("long", 8);
        t.aggregate(AggregateKind::Union, "o", 8, &[("a", long, 0), ("b", long, 0)])
    };
    let mut t = Table::new();
    union(&mut t);
    let d = compare(&table(16, &[("a", 8, 0), ("b", 8, 8)]), &t.table, "o");
    assert_eq!(d.cause.map(|c| c.change), Some(Change::Recast("struct", "union")));
}

/// Structs without a name are compared under those of their typedefs; of two definitions of a name each has its own
/// counterpart, or none.
#[test]
fn typedefs_of_unnamed_structs_and_second_definitions() {
    let made = |size: u64| {
        let mut t = Table::new();
        let char = t.base("char", 1);
        let rest = t.array(char, size);
        let unnamed = t.aggregate(AggregateKind::Struct, "", size, &[("rest", rest, 0)]);
        t.typedef("anon_t", unnamed);
        t.table
    };
    let common = changed(&made(16), &made(80));
    assert_eq!((common.names, common.changed.len()), (1, 1));
    assert_eq!(compare(&made(16), &made(80), "anon_t").name, "anon_t");

    let both = |sizes: &[u64]| {
        let mut t = Table::new();
        let char = t.base("char", 1);
        for &size in sizes {
            let rest = t.array(char, size);
            t.structure("o", size, &[("rest", rest, 0)]);
        }
        t.table
    };
    let (two, swapped, one) = (both(&[80, 16]), both(&[16, 80]), both(&[80]));
    let common = changed(&two, &swapped);
    assert!(common.changed.is_empty() && common.only_old.is_empty() && common.only_new.is_empty());
    let found = shown(&common, &two, &two.find_all("o"), &swapped, &swapped.find_all("o"));
    let sizes: Vec<_> = found.iter().map(|&(a, b)| (two.size(a), swapped.size(b))).collect();
    assert_eq!(sizes, [(Some(80), Some(80))]);
    let more = changed(&one, &two);
    assert_eq!(more.only_new.iter().filter_map(|&id| two.size(id)).collect::<Vec<_>>(), [16]);
    assert_eq!(changed(&two, &one).only_old.len(), 1);
}

/// The time of a comparison grows with the fields, not with their square.
#[test]
fn ten_thousand_fields_are_compared_in_a_moment() {
    let big = |first: u64| {
        let names: Vec<String> = (0..10_000).map(|i| format!("f{i}")).collect();
        let mut t = Table::new();
        let int = t.base("int", 4);
        let long = t.base("long", 8);
        let (mut at, mut members) = (first, vec![("new", long, 0)]);
        members.truncate(usize::from(first > 0));
        for name in &names {
            members.push((name, int, at));
            at += 4;
        }
        t.structure("o", at, &members);
        t.table
    };
    let start = std::time::Instant::now();
    let d = compare(&big(0), &big(8), "o");
    assert_eq!(d.cause.map(|c| c.change), Some(Change::Inserted));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
