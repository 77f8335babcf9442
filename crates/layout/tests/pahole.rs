//! pahole's text from types written by hand.

mod support;

use support::Build;
use tussle_layout::pahole::{Options, sizes_line, text};
use tussle_model::*;

fn per_cpu_pages() -> (TypeTable, TypeId) {
    let mut b = Build::new();
    let int = b.base("int", 4);
    let short = b.base("short int", 2);
    let spinlock = b.typedef("spinlock_t", int);
    let next = b.pointer(TypeId::VOID);
    let list = b.structure("list_head", 16, &[("next", next, 0), ("prev", next, 8)]);
    let lists = b.array(list, 13);
    let id = b.structure(
        "per_cpu_pages",
        256,
        &[
            ("lock", spinlock, 0),
            ("count", int, 4),
            ("high", int, 8),
            ("batch", int, 12),
            ("free_factor", short, 16),
            ("expire", short, 18),
            ("lists", lists, 24),
        ],
    );
    b.aligned(id, 64);
    (b.table, id)
}

/// The text of the mail that put a spinlock into the per-CPU lists, with tabs where the mail has eight blanks.
const PER_CPU_PAGES: &str = "struct per_cpu_pages {
\tspinlock_t                 lock;                 /*     0     4 */
\tint                        count;                /*     4     4 */
\tint                        high;                 /*     8     4 */
\tint                        batch;                /*    12     4 */
\tshort int                  free_factor;          /*    16     2 */
\tshort int                  expire;               /*    18     2 */

\t/* XXX 4 bytes hole, try to pack */

\tstruct list_head           lists[13];            /*    24   208 */

\t/* size: 256, cachelines: 4, members: 7 */
\t/* sum members: 228, holes: 1, sum holes: 4 */
\t/* padding: 24 */
} __attribute__((__aligned__(64)));
";

#[test]
fn per_cpu_pages_reads_as_in_the_mail() {
    let (t, id) = per_cpu_pages();
    assert_eq!(text(&t, id, Options::default()), PER_CPU_PAGES);
    assert_eq!(sizes_line(&t, id).as_deref(), Some("per_cpu_pages\t256\t1\n"));
}

#[test]
fn btf_alignment_is_guessed_from_the_gap() {
    let (t, id) = per_cpu_pages();
    let got = text(&t, id, Options { btf: true, ..Options::default() });
    assert_eq!(got, PER_CPU_PAGES);
    let mut plain = t.clone();
    if let Type::Aggregate(a) = t.get(id) {
        plain.set(id, Type::Aggregate(Aggregate { align: None, ..a.clone() }));
    }
    let got = text(&plain, id, Options { btf: true, ..Options::default() });
    assert!(got.ends_with("} __attribute__((__aligned__(64)));\n"), "{got}");
    let got = text(&plain, id, Options::default());
    assert!(got.ends_with("\t/* padding: 24 */\n};\n"), "{got}");
}

#[test]
fn types_that_contain_themselves_end() {
    let mut t = TypeTable::new(8);
    let id = t.push(Type::Void);
    let array = t.push(Type::Array { elem: id, counts: vec![Some(2)] });
    t.set(id, Type::Const(array));
    let mut b = Build { table: t };
    let s = b.structure("s", 8, &[("a", id, 0), ("b", array, 4)]);
    assert!(text(&b.table, s, Options { expand: true, ..Options::default() }).len() < 100_000);
}

#[test]
fn atomic_structs_without_a_tag_keep_their_member_name() {
    let mut b = Build::new();
    let int = b.base("int", 4);
    let unnamed = b.structure("", 4, &[("q", int, 0)]);
    let atomic = b.table.push(Type::Atomic(unnamed));
    let s = b.structure("s", 4, &[("as", atomic, 0)]);
    let got = text(&b.table, s, Options::default());
    assert!(got.contains("\t_Atomic struct {\n") && got.contains("\n\t} as;"), "{got}");
}
