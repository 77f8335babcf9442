//! Two builds are compared under the same names, and a cause is the least that explains what moved.

mod support;

use support::Build as Table;
use tussle_layout::diff::{
    Change, Options, Resized, Side, TypeDiff, Width, changed, diff, summary_view, type_view,
};
use tussle_layout::phases::Where;
use tussle_model::{Aggregate, AggregateKind, LineSize, Member, Type, TypeId, TypeTable};
use tussle_render::{Format, Node, Style, View, render};

fn compare(old: &TypeTable, new: &TypeTable, ty: &str, hot: &[&str]) -> TypeDiff {
    let hot = hot.iter().map(|h| h.to_string()).collect();
    let options = Options { line: LineSize::L64, at: Where::Phase(0), hot };
    let side = |table| Side { table, btf: false };
    diff(side(old), old.find(ty).expect("a type"), side(new), new.find(ty).expect("a type"), &options)
}

fn text(nodes: Vec<Node>) -> String {
    render(&View { kind: "diff", schema_version: 1, nodes }, Format::Text, Style::default())
}

/// A hot word, padding, a member made by `of` and a word behind it.
fn holder(pad: u64, size: u64, of: impl Fn(&mut Table) -> TypeId) -> TypeTable {
    let mut t = Table::new();
    let (char, long) = (t.base("char", 1), t.base("long", 8));
    let (pad_ty, member) = (t.array(char, pad), of(&mut t));
    let members =
        [("hot", long, 0), ("pad", pad_ty, 8), ("m", member, 8 + pad), ("last", long, 8 + pad + size)];
    t.structure("o", 16 + pad + size, &members);
    t.table
}

fn inner(t: &mut Table, name: &str, members: &[&str]) -> TypeId {
    let int = t.base("int", 4);
    let at = (0..).step_by(4);
    let members: Vec<_> = members.iter().zip(at).map(|(m, at)| (*m, int, at)).collect();
    t.structure(name, 4 * members.len() as u64, &members)
}

fn pairs(d: &TypeDiff) -> Vec<(&str, &str)> {
    d.now_share.iter().map(|p| (p.a.as_str(), p.b.as_str())).collect()
}

/// The only member of a struct goes by the struct's name, but not beside a build in which the struct has two.
#[test]
fn a_struct_that_gained_its_second_member() {
    let one = |pad| holder(pad, 8, |t| inner(t, "i", &["x"]));
    let two = |pad| holder(pad, 8, |t| inner(t, "i", &["x", "more"]));
    for hot in [&["hot", "m.x"][..], &["hot", "m"], &[]] {
        let d = compare(&one(56), &two(40), "o", hot);
        assert!(pairs(&d).contains(&("hot", "m.x")), "{hot:?}: {d:?}");
        assert_eq!(d.added, [("m.more".to_string(), 52)]);
        assert!(d.removed.is_empty());
        assert!(d.moved.iter().any(|m| (m.path.as_str(), m.old, m.new) == ("m.x", 64, 48)), "{:?}", d.moved);
    }
    let back = compare(&two(56), &one(40), "o", &["hot", "m.x"]);
    assert_eq!(
        (pairs(&back), back.removed.clone()),
        (vec![("hot", "m.x")], vec![("m.more".to_string(), 68)])
    );
}

/// A lock behind two structs of one member each, and an array of counters that gained a member.
#[test]
fn locks_and_arrays_of_them() {
    let lock = |pad, members: &'static [&str]| {
        holder(pad, 16, move |t| {
            let raw = inner(t, "raw", members);
            let size = 4 * members.len() as u64;
            let union = t.aggregate(AggregateKind::Union, "", size, &[("rl", raw, 0)]);
            t.structure("spin", size, &[("", union, 0)])
        })
    };
    for hot in [&["hot", "m"][..], &["hot", "m.rl"], &["hot", "m.rl.val"], &["hot", "m.r*"], &[]] {
        let d = compare(&lock(56, &["val"]), &lock(40, &["val", "magic", "cpu", "depth"]), "o", hot);
        let shares = d.now_share.iter().any(|p| p.a == "hot" && p.b.ends_with(".val"));
        assert!(shares && d.moved.iter().any(|m| m.new == 48), "{hot:?}: {d:?}");
        assert!(d.removed.is_empty());
    }
    let counters = |pad, members: &'static [&str]| {
        holder(pad, 16, move |t| {
            let counter = inner(t, "counter", members);
            t.array(counter, 2)
        })
    };
    let d = compare(&counters(56, &["n"]), &counters(40, &["n", "debug"]), "o", &["hot", "m[1]"]);
    assert_eq!(pairs(&d), [("hot", "m[1].n")]);
}

/// A number that became a struct, and a struct whose members all have other names, are still that member.
#[test]
fn a_member_that_was_made_anew() {
    let number = holder(56, 8, |t| t.base("int", 4));
    let made = |pad, name: &'static str| holder(pad, 8, move |t| inner(t, name, &[name, "rest"]));
    for (old, new) in
        [(number, made(40, "a")), (holder(56, 8, |t| inner(t, "b", &["b", "q"])), made(40, "a"))]
    {
        let d = compare(&old, &new, "o", &["hot", "m"]);
        assert_eq!(pairs(&d), [("hot", "m")]);
        assert!(d.moved.iter().any(|m| (m.path.as_str(), m.old, m.new) == ("m", 64, 48)));
        assert!(d.added.is_empty() && d.removed.is_empty(), "{d:?}");
    }
}

/// Words one after the other.
fn words(names: &[&str]) -> TypeTable {
    let mut t = Table::new();
    let (char, long) = (t.base("char", 1), t.base("long", 8));
    let pad = t.array(char, 56);
    let (mut at, mut members) = (0, Vec::new());
    for name in names {
        let (ty, size) = if *name == "pad" { (pad, 56) } else { (long, 8) };
        members.push((*name, ty, at));
        at += size;
    }
    t.structure("o", at, &members);
    t.table
}

fn cause(old: &TypeTable, new: &TypeTable) -> (String, Change) {
    let c = compare(old, new, "o", &[]).cause.expect("a cause");
    (c.member, c.change)
}

/// The fewest members that explain the new order, and none that lies where it lay.
#[test]
fn who_changed_the_order() {
    let (_, swapped) = cause(&words(&["a", "pad", "b", "c"]), &words(&["b", "pad", "a", "c"]));
    assert_eq!(swapped, Change::Several(vec!["b elsewhere".into(), "a elsewhere".into()], 2));
    let (member, change) = cause(&words(&["f0", "f1", "f2", "f3", "f4"]), &words(&["f0", "f3", "f1", "f2"]));
    assert_eq!((member.as_str(), change), ("f3", Change::Reordered));
}

/// Scalars by name and size, laid out in order: `x:4` is an `int` called `x`, `c:1*8` an array of 8 bytes.
fn laid_out(members: &[&str]) -> TypeTable {
    let mut t = Table::new();
    let (mut at, mut made) = (0u64, Vec::new());
    for m in members {
        let (name, kind) = m.split_once(':').expect("a size");
        let (size, count) = kind.split_once('*').unwrap_or((kind, "1"));
        let (size, count): (u64, u64) = (size.parse().unwrap(), count.parse().unwrap());
        let scalar = t.base("scalar", size);
        let ty = if kind.contains('*') { t.array(scalar, count) } else { scalar };
        at = at.next_multiple_of(size);
        made.push((name, ty, at));
        at += size * count;
    }
    t.structure("o", at.next_multiple_of(8), &made);
    t.table
}

/// What only fills a hole moved nothing; an array that is aligned less moves itself by that, not by its size.
#[test]
fn a_cause_explains_its_shift() {
    let old = laid_out(&["a:4", "b:8", "c:8"]);
    assert_eq!(
        cause(&old, &laid_out(&["a:4", "fill:4", "y:8", "b:8", "c:8"])),
        ("y".into(), Change::Inserted)
    );
    let old = laid_out(&["a:2*3", "b:4*8", "c:2"]);
    assert_eq!(cause(&old, &laid_out(&["a:2*3", "b:1*8", "c:2"])), ("b".into(), Change::Realigned));
    let old = laid_out(&["a:4", "b:2", "c:4"]);
    assert_eq!(cause(&old, &laid_out(&["a:4", "b:8", "c:4"])), ("b".into(), Change::Resized(2, 8)));
    // of two removals the one that made room
    let old = laid_out(&["a:4", "gone:8", "also:4", "b:8"]);
    assert_eq!(cause(&old, &laid_out(&["a:4", "b:8"])), ("gone".into(), Change::Removed));
}

/// Bit-fields of `unsigned` from bit 0 on, in the units of the ABI, and an int behind them.
fn bits(widths: &[(&str, u32)]) -> TypeTable {
    let mut t = Table::new();
    let (unit, mut at, mut members) = (t.base("unsigned", 4), 0u64, Vec::new());
    for &(name, width) in widths {
        if at / 32 != (at + u64::from(width) - 1) / 32 {
            at = at.next_multiple_of(32);
        }
        members.push(Member { offset_bits: at, bit_size: Some(width), ..Member::field(Some(name), unit, 0) });
        at += u64::from(width);
    }
    let behind = at.div_ceil(32) * 4;
    members.push(Member::field(Some("behind"), unit, behind));
    t.table.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("o"), behind + 4, members)));
    t.table
}

#[test]
fn bit_fields() {
    // b pushes c out of its unit
    let (old, new) = (bits(&[("a", 3), ("b", 4), ("c", 25)]), bits(&[("a", 3), ("b", 5), ("c", 25)]));
    assert_eq!(cause(&old, &new), ("b".into(), Change::Rewidened(4, 5)));
    // and inside of a byte
    let (old, new) = (bits(&[("a", 3), ("b", 2), ("c", 3)]), bits(&[("a", 3), ("b", 1), ("c", 4)]));
    let d = compare(&old, &new, "o", &[]);
    let width =
        |path: &str, old, new| Resized { path: path.into(), old: Width::Bits(old), new: Width::Bits(new) };
    assert_eq!(d.resized, [width("b", 2, 1), width("c", 3, 4)]);
    let moved: Vec<_> = d.moved.iter().map(|m| (m.path.as_str(), m.bits)).collect();
    assert_eq!(moved, [("c", Some((5, 4)))]);
    let shown = text(vec![type_view(&d)]);
    assert!(shown.contains("b shrank from 2 to 1 bits\n"), "{shown}");
    assert!(shown.contains("2 bits") && shown.contains("bit 5"), "{shown}");
}

/// A struct behind a pointer that only grew is in the list of all types.
#[test]
fn a_type_that_only_grew_is_listed() {
    let made = |n| {
        let mut t = Table::new();
        let int = t.base("int", 4);
        let list = t.array(int, n);
        t.structure("big", 4 + 4 * n, &[("a", int, 0), ("list", list, 4)]);
        t.table
    };
    let (old, new) = (made(4), made(44));
    let d = compare(&old, &new, "big", &[]);
    assert!(!d.sharing_changed());
    let shown = |whole| text(summary_view(std::slice::from_ref(&d), &[], whole));
    assert!(
        shown(true).lines().any(|l| l.starts_with("struct big") && l.contains("20 -> 180")),
        "{}",
        shown(true)
    );
    assert!(shown(false).contains("--all lists them"), "{}", shown(false));
}

/// Holders of a struct that has only a typedef's name, and of one whose alignment grew, are told whose growth it was.
#[test]
fn the_root_of_what_moved() {
    let unnamed = |more: u64| {
        let mut t = Table::new();
        let (int, long) = (t.base("int", 4), t.base("long", 8));
        let mut members = vec![("a", int, 0), ("b", long, 8 + more)];
        if more > 0 {
            members.insert(1, ("c", long, 8));
        }
        let inner = t.structure("", 16 + more, &members);
        let inner = t.typedef("thing_t", inner);
        t.structure("o", 24 + more, &[("t", inner, 0), ("x", int, 16 + more)]);
        t.table
    };
    let (old, new) = (unnamed(0), unnamed(8));
    let c = compare(&old, &new, "o", &[]).cause.expect("a cause");
    assert_eq!((c.root.as_str(), c.why.as_str()), ("thing_t", "c inserted after a: b moves by +8"));
    assert_eq!(changed(&old, &new).changed.len(), 2);

    let nested = |size: u64| {
        let mut t = Table::new();
        let (char, int, long) = (t.base("char", 1), t.base("int", 4), t.base("long", 8));
        let all = [("a", int, 0), ("g", long, 8)];
        let i = t.structure("i", size, &all[..if size > 4 { 2 } else { 1 }]);
        let align = if size > 4 { 8 } else { 4 };
        let m = t.structure("m", 2 * size.max(align), &[("i", i, 0), ("k", int, size)]);
        let outer = 2 * size.max(align) + align;
        t.structure(
            "o",
            outer + 16,
            &[("c", char, 0), ("m", m, align), ("z", long, outer.next_multiple_of(8))],
        );
        t.table
    };
    let c = compare(&nested(4), &nested(16), "o", &[]).cause.expect("a cause");
    assert_eq!((c.member.as_str(), c.root.as_str()), ("m", "struct i"), "{c:?}");
    assert_eq!(c.why, "g inserted after a");
}
