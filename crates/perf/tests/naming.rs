//! A pasted `perf c2c` report, before and after a patch, named without debug information of those kernels.

use tussle_debuginfo::{NoCompanions, dwarf::Want};
use tussle_model::{LineSize, TypeTable};
use tussle_perf::guess::{Candidate, candidates};
use tussle_perf::{import_text, objects, phases, text};
use tussle_report::{self as report, pmu};

const REPORT: &str = include_str!("data/i_mmap-c2c.txt");

/// `struct address_space` of Linux 6.4 before and after the patch, without and with `nr_thps`.
const BUILDS: [(&str, &str); 4] = [
    ("before", include_str!("data/address_space-6.4-before.json")),
    ("before, nr_thps", include_str!("data/address_space-6.4-before-thps.json")),
    ("after", include_str!("data/address_space-6.4-after.json")),
    ("after, nr_thps", include_str!("data/address_space-6.4-after-thps.json")),
];

fn builds() -> Vec<TypeTable> {
    let open = |json: &str| tussle_debuginfo::open(json.as_bytes(), &Want::All, &mut NoCompanions).unwrap().0;
    BUILDS.iter().map(|(_, json)| open(json)).collect()
}

fn described(c: &Candidate) -> (&'static str, u64, Vec<(u64, &str)>) {
    let fields = c.fields.iter().map(|f| (f.0, f.2.as_str())).collect();
    (BUILDS[c.build].0, c.phase, fields)
}

#[test]
fn totals_of_both_tables() {
    let text = text::read(REPORT);
    let tables = import_text::split(&text);
    assert_eq!(tables.len(), 2);
    let hitm: Vec<u64> = tables.iter().map(|t| t.iter().map(|l| l.counts.hitm()).sum()).collect();
    assert_eq!(hitm, [9520, 1394]);
    let change = (100.0 * (hitm[1] as f64 / hitm[0] as f64 - 1.0)).round();
    assert_eq!(change, -85.0);
    // Rows, and what is left over without one, give the totals of the lines again.
    for (table, hitm) in tables.iter().zip(hitm) {
        let (e, _) = import_text::c2c_text(&text, table);
        let rows: u64 = e.samples.iter().flatten().map(pmu::contended).sum();
        let lost: u64 = e.losses.iter().map(|l| l.count).sum();
        assert_eq!(rows, hitm);
        assert!(lost > 0, "the mail leaves rows out");
    }
}

#[test]
fn fields_and_phases_come_out() {
    let (text, builds) = (text::read(REPORT), builds());
    let builds: Vec<&TypeTable> = builds.iter().collect();
    let best: Vec<Vec<Candidate>> = text.lines.iter().map(|l| candidates(l, &builds, 64)).collect();
    for (b, c) in best.iter().flat_map(|b| b.iter().map(move |c| (b.len(), c))) {
        println!("{b} {:.3} {:.2} {:?}", c.fit, c.confidence, described(c));
    }
    let before = [
        (0x18, "i_mmap.rb_root.rb_node"),
        (0x20, "i_mmap.rb_leftmost"),
        (0x28, "i_mmap_rwsem.count.counter"),
        (0x30, "i_mmap_rwsem.owner.counter"),
    ];
    let first: Vec<_> = best[0].iter().take(2).map(described).collect();
    assert_eq!(first, [("before", 16, before.to_vec()), ("before, nr_thps", 8, before.to_vec())]);
    let after = [(0x8, "a_ops"), (0x18, "i_mmap_rwsem.count.counter"), (0x20, "i_mmap_rwsem.owner.counter")];
    let first: Vec<_> = best[1].iter().take(2).map(described).collect();
    assert_eq!(first, [("after", 32, after.to_vec()), ("after, nr_thps", 24, after.to_vec())]);
    let pairs = phases::pairs(&best[0], &best[1], &builds);
    let moves: Vec<_> = pairs.iter().map(|p| (p.before.phase, p.after.phase, p.moved(64))).collect();
    assert_eq!(moves, [(16, 32, 16), (8, 24, 16)]);
}

#[test]
fn the_two_runs_side_by_side() {
    let text = text::read(REPORT);
    let [a, b] = [0, 1].map(|i| import_text::c2c_text(&text, import_text::split(&text)[i]).0);
    let view = report::compare(&a, &b, [&[], &[]], &report::Options::default()).view;
    let printed = tussle_render::render(&view, tussle_render::Format::Text, tussle_render::Style::default());
    let row = printed.lines().find(|l| l.starts_with("HITM samples")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["HITM", "samples", "9,520", "1,394", "-85%"]);
}

#[test]
fn other_phases_would_do_this() {
    let (text, builds) = (text::read(REPORT), builds());
    let builds: Vec<&TypeTable> = builds.iter().collect();
    let line = &text.lines[0];
    let best = candidates(line, &builds, 64);
    let all = phases::all_phases(&best[0], line.address, 64);
    assert_eq!(all.len(), 8);
    let together: Vec<u64> = all.iter().filter(|p| p.lines.len() == 1).map(|p| p.phase).collect();
    // Root at 72 and owner at 96 share a line unless a boundary lies at 80, 88 or 96.
    assert_eq!(together, [0, 8, 16, 24, 56]);
}

#[test]
fn the_report_names_the_fields() {
    let (text, builds) = (text::read(REPORT), builds());
    let refs: Vec<&TypeTable> = builds.iter().collect();
    let (mut e, _) = import_text::c2c_text(&text, import_text::split(&text)[0]);
    let best = &candidates(&text.lines[0], &refs, 64)[0];
    let id = objects::place(&mut e, best.base, refs[best.build], best.ty, best.confidence as f32, "by fit");
    assert!(id.is_some());
    let r = report::report(&e, &[], &report::Options::default());
    assert!(r.outcome.helps);
    let printed =
        tussle_render::render(&r.view, tussle_render::Format::Text, tussle_render::Style::default());
    for field in ["i_mmap.rb_root", "i_mmap.rb_leftmost", "i_mmap_rwsem.count", "i_mmap_rwsem.owner"] {
        assert!(printed.contains(field), "{field} in\n{printed}");
    }
    assert_eq!(pmu::lines(&e, LineSize::L64).len(), 1);
}

#[test]
fn functions_of_no_known_family_name_nothing() {
    let other = REPORT.replace("rwsem_", "foo_").replace("_interval_tree_", "_bar_");
    let text = text::read(&other.replace("down_write", "quux").replace("up_write", "quux"));
    let builds = builds();
    let refs: Vec<&TypeTable> = builds.iter().collect();
    assert!(text.lines.iter().all(|l| candidates(l, &refs, 64).is_empty()));
}

/// The functions of this one mail that belong to no family, under other names: the same answers.
#[test]
fn functions_outside_of_families_neither_help_nor_harm() {
    let builds = builds();
    let refs: Vec<&TypeTable> = builds.iter().collect();
    let best = |report: &str| -> Vec<_> {
        let text = text::read(report);
        let all = text.lines.iter().map(|l| candidates(l, &refs, 64).into_iter().next().unwrap());
        all.map(|c| (c.build, c.phase, c.type_name, (c.fit * 1000.0).round())).collect()
    };
    let renamed = REPORT.replace("do_dentry_open", "quux").replace("hugepage_vma_check", "frob");
    assert_ne!(renamed, REPORT);
    assert_eq!(best(REPORT), best(&renamed));
}
