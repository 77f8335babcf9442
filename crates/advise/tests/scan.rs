//! The patch engine on sources that real projects contain.

use insta::assert_snapshot;
use tussle_advise::edit::Edit;
use tussle_advise::patch::uses::{self, Ask};
use tussle_advise::patch::{self, Refusal, Target};

fn target(name: &str) -> Target<'_> {
    Target { name, decl_line: None, members: &[], pad_bytes: 40 }
}

fn edits(list: &[&str]) -> Vec<Edit> {
    list.iter().map(|e| e.parse().expect("an edit")).collect()
}

/// The diff without its header, or the refusal.
fn diff(source: &str, name: &str, list: &[&str]) -> String {
    match patch::patch("x.h", source, &target(name), &edits(list)) {
        Ok(p) => {
            let diff = patch::unified_diff("x.h", source, &p.text);
            diff.lines()
                .skip(2)
                .filter(|l| !l.starts_with("@@"))
                .map(|l| format!("{}\n", l.trim_end()))
                .collect()
        }
        Err(e) => format!("refused: {e}"),
    }
}

const ADDRESS_SPACE: &str = "\
/* Contents of a cacheable, mappable object. */
struct address_space {
\tstruct inode\t\t*host;
\tstruct xarray\t\ti_pages;
\tstruct rw_semaphore\tinvalidate_lock;
\tgfp_t\t\t\tgfp_mask;
\tatomic_t\t\ti_mmap_writable;
#ifdef CONFIG_READ_ONLY_THP_FOR_FS
\t/* number of thp, only for non-shmem files */
\tatomic_t\t\tnr_thps;
#endif
\tstruct rb_root_cached\ti_mmap;
\tstruct rw_semaphore\ti_mmap_rwsem;
\tunsigned long\t\tnrpages;
\tpgoff_t\t\t\twriteback_index;
\tconst struct address_space_operations *a_ops;
\tunsigned long\t\tflags;
\terrseq_t\t\twb_err;
\tspinlock_t\t\tprivate_lock;
\tstruct list_head\tprivate_list;
\tvoid\t\t\t*private_data;
} __attribute__((aligned(sizeof(long)))) __randomize_layout;
";

#[test]
fn the_exchange_in_address_space_is_the_kernels_patch() {
    assert_snapshot!(diff(ADDRESS_SPACE, "struct address_space", &["i_mmap_rwsem:after:flags"]), @r"
     	atomic_t		nr_thps;
     #endif
     	struct rb_root_cached	i_mmap;
    -	struct rw_semaphore	i_mmap_rwsem;
     	unsigned long		nrpages;
     	pgoff_t			writeback_index;
     	const struct address_space_operations *a_ops;
     	unsigned long		flags;
    +	struct rw_semaphore	i_mmap_rwsem;
     	errseq_t		wb_err;
     	spinlock_t		private_lock;
     	struct list_head	private_list;
    ");
}

const MM_STRUCT: &str = "\
struct mm_struct {
\tstruct {
\t\tstruct vm_area_struct *mmap;
\t\tatomic_t mm_count;

\t\t/**
\t\t * @has_pinned: Whether this mm has pinned any pages.
\t\t */
\t\tatomic_t has_pinned;

\t\t/**
\t\t * @write_protect_seq: Locked when any thread is write
\t\t * protecting pages mapped by this mm to enforce a later COW,
\t\t * for instance during page table copying for fork().
\t\t */
\t\tseqcount_t write_protect_seq;

#ifdef CONFIG_MMU
\t\tatomic_long_t pgtables_bytes;\t/* PTE page table pages */
#endif
\t\tint map_count;\t\t\t/* number of VMAs */

\t\tspinlock_t page_table_lock; /* Protects page tables and some
\t\t\t\t\t     * counters
\t\t\t\t\t     */
\t\tstruct rw_semaphore mmap_lock;

\t\tunsigned long def_flags;

\t\tspinlock_t arg_lock; /* protect the below fields */

\t\tunsigned long start_code, end_code, start_data, end_data;
\t} __randomize_layout;
\tunsigned long cpu_bitmap[];
};
";

#[test]
fn a_member_of_the_anonymous_struct_moves_with_its_comment_and_one_blank_line() {
    let out = diff(MM_STRUCT, "mm_struct", &["write_protect_seq:after:def_flags"]);
    assert_snapshot!(out, @r"
     		 */
     		atomic_t has_pinned;

    -		/**
    -		 * @write_protect_seq: Locked when any thread is write
    -		 * protecting pages mapped by this mm to enforce a later COW,
    -		 * for instance during page table copying for fork().
    -		 */
    -		seqcount_t write_protect_seq;
    -
     #ifdef CONFIG_MMU
     		atomic_long_t pgtables_bytes;	/* PTE page table pages */
     #endif
     		struct rw_semaphore mmap_lock;

     		unsigned long def_flags;
    +		/**
    +		 * @write_protect_seq: Locked when any thread is write
    +		 * protecting pages mapped by this mm to enforce a later COW,
    +		 * for instance during page table copying for fork().
    +		 */
    +		seqcount_t write_protect_seq;

     		spinlock_t arg_lock; /* protect the below fields */
    ");
}

#[test]
fn what_is_not_safe_is_refused_with_its_reason() {
    let check = |body: &str, edit: &str, expect: &str| {
        let got = diff(&format!("struct s {{\n{body}\n}};\n"), "s", &[edit]);
        assert_eq!(got, format!("refused: {expect}"), "{body}");
    };
    check(
        "int a;\n#ifdef X\nint b;\n#else\nint c;\n#endif",
        "b:after:c",
        "b would cross an #if: it would exist in other configurations than today",
    );
    check(
        "int a;\n#ifdef DEBUG\nint b;\n#endif\nint c;",
        "b:after:c",
        "b stands inside #ifdef DEBUG or NDEBUG: a patch there does nothing for the others",
    );
    let whole = "#ifndef NDEBUG\nstruct s { int a; int b; };\n#endif\n";
    let target = Target { name: "s", decl_line: None, members: &[], pad_bytes: 0 };
    let refused = patch::patch("x.c", whole, &target, &["swap:a,b".parse().expect("an edit")]);
    assert!(matches!(refused, Err(Refusal::DebugOnly { .. })), "{refused:?}");
    check(
        "int a;\n#ifdef X\nint b;\n#else\nint c;\n#endif",
        "swap:b,c",
        "b would cross an #if: it would exist in other configurations than today",
    );
    check(
        "int a, (*b)(void);\nint c;",
        "a:after:c",
        "a shares its statement with other members, and more than names, stars, lengths and values stands there; split \
         the declaration first",
    );
    check("int c;\nDECLARE_BITMAP(bits, 64);", "bits:first", "bits is made by a macro");
    check(
        "unsigned a : 3;\nunsigned b : 5;\nint c;",
        "a:after:c",
        "a is a bit-field; bit-fields share their storage and do not move alone",
    );
    check(
        "int n;\nint c;\nchar data[];",
        "data:first",
        "data is a flexible array member (or one of length 1, as before C99) and must stay last",
    );
    check(
        "int n;\nint c;\nchar data[];",
        "n:after:data",
        "data is a flexible array member (or one of length 1, as before C99) and must stay last",
    );
    check("int n;\n", "m:first", "no statement declares m; a macro or an included file may make it");
    check(
        "int x\n#ifdef Y\n[4]\n#endif\n;\nint y;",
        "x:after:y",
        "a preprocessor directive stands inside the declaration of x",
    );
    check(
        "int a; /* of a */ int b;\nint c;",
        "a:after:c",
        "a shares its line with other code; put it on a line of its own first",
    );
    check(
        "public:\nint a;\nprivate:\nint b;\nint c;",
        "swap:a,b",
        "a would cross public:, private: or protected:",
    );
    check("int a;\n#if X\nint b;", "a:after:b", "an #if begins inside the struct and ends outside of it");
    assert_eq!(
        diff("struct t { int a; };", "s", &["element=64"]),
        "refused: no definition of s in this file (is it made by a macro?)"
    );
}

#[test]
fn declarations_of_every_kind_are_told_apart() {
    use tussle_advise::patch::body::{Source, find, statements};
    use tussle_advise::patch::member::declared;
    let text = r#"struct __attribute__((packed)) s {
	int (*open)(struct inode *, int);   // f(
	void *(*table[4])(void);
	int (*(*make)(int))(char);
	char name[32], *alias;
	struct { int x; union { int y; float z; }; } inner;
	union { int u; float v; };
	struct list_head list __aligned(16);
	spinlock_t lock ____cacheline_aligned_in_smp;
	TAILQ_ENTRY(conn) link;
	DECLARE_BITMAP(bits, 3);
	randomized_struct_fields_start
	enum { A, B = ';' } mode;
	_Alignas(64) _Atomic(long) hits;
	const char *what __attribute__((nonnull("};")));
	unsigned int flag : 1, : 3, other : 4;
	unsigned long
		two_lines;
	Q_OBJECT
	std::map<int, std::pair<int, int>> map{};
	int value() const { return x; }
	s() : a(1), b{2} { if (a) { } }
	static_assert(sizeof(int) == 4, "a;b");
	[[maybe_unused]] int attr = 3;
	struct flex *tail[];
};"#;
    let source = Source::new(text);
    let body = find(&source, "s", None).expect("a body");
    let list: String = statements(&source, &body)
        .expect("statements")
        .iter()
        .map(|s| {
            let d = declared(&source, s);
            let kind = [
                (d.bit_field, " bits"),
                (d.flexible, " flexible"),
                (d.macro_made, " macro"),
                (d.anonymous, " anonymous"),
            ];
            let kind: String = kind.iter().filter(|k| k.0).map(|k| k.1).collect();
            format!("{:?} {} {}{kind}\n", s.role, d.declarators, d.names.join(","))
        })
        .collect();
    assert_snapshot!(list, @r"
    Declaration 1 open
    Declaration 1 table
    Declaration 1 make
    Declaration 2 name,alias
    Declaration 1 inner
    Declaration 0  anonymous
    Declaration 1 list
    Declaration 1 lock
    Declaration 1 link
    Declaration 1  macro
    Declaration 1 mode
    Declaration 1 hits
    Declaration 1 what
    Declaration 3 flag,other bits
    Declaration 1 two_lines
    Marker 0 
    Declaration 1 map
    Function 0 
    Function 0 
    Declaration 1  macro
    Declaration 1 attr
    Declaration 1 tail flexible
    ");
}

#[test]
fn exchanged_members_keep_their_comments() {
    let long =
        "\t/* how many\r\n\t   came in */\r\n\tlong in; // all of them\r\n\t         // since start\r\n";
    let (rest, out) = ("\r\n\tlong rest;\r\n", "\tlong out; /* sent */\r\n");
    let source = format!("typedef struct {{\r\n{long}{rest}{out}}} counts_t;\r\n");
    let p = patch::patch("x.c", &source, &target("counts_t"), &edits(&["swap:in,out"])).expect("a patch");
    assert_eq!(p.text, format!("typedef struct {{\r\n{out}{rest}{long}}} counts_t;\r\n"));
}

#[test]
fn one_line_structs_move_by_the_statement() {
    let check = |edit: &str, expect: &str| {
        let p = patch::patch("x.c", "struct p { long a; int b; char c; };", &target("p"), &edits(&[edit]));
        assert_eq!(p.expect("a patch").text, expect);
    };
    check("a:after:c", "struct p { int b; char c; long a; };");
    check("c:first", "struct p { char c; long a; int b; };");
    check("swap:a,c", "struct p { char c; int b; long a; };");
    check("align:b=64", "struct p { long a; int b __attribute__((aligned(64))); char c; };");
    check("element=64", "struct __attribute__((aligned(64))) p { long a; int b; char c; };");
    check("pad=64", "struct p { long a; int b; char c; char line_pad[40]; };");
    check("gap:b=64", "struct p { long a; char b_gap[64]; int b; char c; };");
}

#[test]
fn alignment_is_written_in_the_files_own_way() {
    let check = |path: &str, source: &str, edit: &str, expect: &str| {
        let p = patch::patch(path, source, &target("s"), &edits(&[edit])).expect("a patch");
        assert_eq!(p.text, expect);
    };
    check("a.cpp", "struct s {\n  long a;\n};\n", "align:a=64", "struct s {\n  alignas(64) long a;\n};\n");
    check(
        "a.cc",
        "class s final : public t {\n  long a;\n};\n",
        "element=64",
        "class alignas(64) s final : public t {\n  long a;\n};\n",
    );
    check(
        "a.c",
        "_Alignas(8) int q; struct s {\n  long a;\n};\n",
        "align:a=64",
        "_Alignas(8) int q; struct s {\n  _Alignas(64) long a;\n};\n",
    );
    check(
        "a.h",
        "struct s {\n  long a[2];  // x\n};",
        "align:a=64",
        "struct s {\n  long a[2] __attribute__((aligned(64)));  // x\n};",
    );
    check(
        "a.c",
        "struct s {\n\tlong a;\n};",
        "pad=64",
        "struct s {\n\tlong a;\n\tchar line_pad[40]; /* to a multiple of 64 bytes */\n};",
    );
}

#[test]
fn a_gap_stands_above_the_comments_of_its_member() {
    let source = "struct p {\n\tlong a;\n\t/* Of others. */\n\tlong b;\n\tlong b_gap;\n};\n";
    let p = patch::patch("a.h", source, &target("p"), &edits(&["gap:b=128"])).expect("a patch");
    let note = "/* b shares no line with what is before */";
    let (before, behind) = ("struct p {\n\tlong a;\n", "\t/* Of others. */\n\tlong b;\n\tlong b_gap;\n};\n");
    let wanted = format!("{before}\tchar b_gap2[128]; {note}\n{behind}");
    assert_eq!(p.text, wanted);
}

#[test]
fn initialisers_by_position_are_found() {
    let check = |source: &str, positional: bool| {
        let got = uses::check(
            "struct s",
            None,
            Ask::POSITIONS,
            &[("s.h", "typedef struct s { int a; int b; } s_t;"), ("x.c", source)],
        );
        assert_eq!(got.is_err(), positional, "{source}: {got:?}");
    };
    check("struct s x = { 1, 2 };", true);
    check("struct s x = { .a = 1 };", false);
    check("struct s x = { 0 };", false);
    check("struct s x = {};", false);
    check("static const s_t x[2] = { { 1, 2 }, { 3, 4 } };", true);
    check("static s_t x[] = { { .a = 2 }, [3] = { .b = 4 } };", false);
    check("f((struct s){ 1, 2 });", true);
    check("f(&(s_t){ .a = 1 });", false);
    check("#define S_INIT { 1, 2 }\nstruct s x = S_INIT;", true);
    check("#define S_INIT(n) { .a = (n) }\nstruct s x = S_INIT(3);", false);
    check("struct s *p = &x; struct s y = *p; int z = 1;", false);
    check("struct t x = { 1, 2 };", false);
    check("struct s x = { .a = 1, 2 };", true);
    check("struct s x = { .a = 1, two };", true);
    check("struct s x = { .a = 1, INIT_B(y) .c = 3, };", false);
    check("struct s x = { a: 1 };", false);
}

#[test]
fn of_two_definitions_the_line_decides() {
    let source =
        "#ifdef A\nstruct s {\n\tint a;\n\tint b;\n};\n#else\nstruct s {\n\tlong a;\n\tlong b;\n};\n#endif\n";
    assert!(diff(source, "s", &["swap:a,b"]).starts_with("refused: 2 definitions of s"));
    let target = Target { decl_line: Some(7), ..target("s") };
    let p = patch::patch("x.c", source, &target, &edits(&["swap:a,b"])).expect("a patch");
    assert!(p.text.contains("\tlong b;\n\tlong a;\n") && p.text.contains("\tint a;\n\tint b;\n"));
}

#[test]
fn several_edits_follow_one_another() {
    let source = "struct s {\n\tlong a;\n\tlong b;\n\tlong c;\n};\n";
    let p = patch::patch("x.c", source, &target("s"), &edits(&["align:b=64", "a:after:c", "c:first"]))
        .expect("a patch");
    assert_eq!(p.text, "struct s {\n\tlong c;\n\tlong b __attribute__((aligned(64)));\n\tlong a;\n};\n");
}

#[test]
fn a_patch_is_taken_by_patch_and_git() {
    use std::process::Command;
    let source = "struct s {\n\tlong a;\n\tlong b;\n}; /* no newline at the end */";
    let p = patch::patch("dir/x.c", source, &target("s"), &edits(&["swap:a,b"])).expect("a patch");
    let diff = patch::unified_diff("dir/x.c", source, &p.text);
    for tool in [&["patch", "-p1", "-i", "p.diff"][..], &["git", "apply", "p.diff"]] {
        if !tussle_testkit::need(tool[0]) {
            continue;
        }
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("dir")).expect("a folder");
        std::fs::write(dir.path().join("dir/x.c"), source).expect("a file");
        std::fs::write(dir.path().join("p.diff"), &diff).expect("a file");
        let out = Command::new(tool[0]).args(&tool[1..]).current_dir(dir.path()).output().expect("the tool");
        assert!(out.status.success(), "{tool:?}: {}{diff}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(std::fs::read_to_string(dir.path().join("dir/x.c")).expect("a file"), p.text);
    }
}

#[test]
fn names_that_only_look_like_initialisers_refuse_nothing() {
    let ok = |text: &str| {
        assert_eq!(uses::check("page", None, Ask::POSITIONS, &[("x.c", text)]), Ok(()), "{text}")
    };
    ok("struct page { int a; int b; };\nstatic void put(struct page *page) { g(page->a, page->b); }");
    ok("static void put(struct page page) { g(page.a, page.b); }");
    ok("int f(struct page) { return 1; }");
    ok("void f(void) { int page[] = { 1, 2 }; if (page) { g(1, 2); } }");
    ok("struct page *page = { 0 };");
    ok("void f(struct page *p) { while (p->page) { g(1, 2); } }");
    ok("struct page p[] = {\n(struct page) {.a = 10, .b = 20},\n(struct page) {.a = 20}, };");
    let refused =
        |text: &str| assert!(uses::check("page", None, Ask::POSITIONS, &[("x.c", text)]).is_err(), "{text}");
    refused("struct page p[] = {\n(struct page) {10, 20},\n};");
    refused("struct page p[] = { (1), 2 };");
    refused("struct page p = { 1, 2 };");
    refused("void f(void) { g((struct page){ 1, 2 }); }");
    refused("struct page *f(void) { return &(const struct page){ 1, 2 }; }");
    refused("struct page f(void) { return (struct page){ 1, 2 }; }");
    refused("struct page *all = (struct page[]){ { 1, 2 }, { 3, 4 } };");
    refused("typedef struct page page_t;\nconst page_t p = { 1, 2 };");
}

#[test]
fn blocks_move_whole_and_declarations_are_split() {
    let s = "struct s {\n\tint a;\n#ifdef CONFIG_COMPAT\n\tint b;\n#else\n\tlong bb;\n#endif\n\tint c;\n\tint d;\n};\n";
    assert_snapshot!(diff(s, "s", &["b:after:c"]), @r"
     struct s {
     	int a;
    +	int c;
     #ifdef CONFIG_COMPAT
     	int b;
     #else
     	long bb;
     #endif
    -	int c;
     	int d;
     };
    ");
    assert_snapshot!(diff(s, "s", &["d:before:b"]), @r"
     struct s {
     	int a;
    +	int d;
     #ifdef CONFIG_COMPAT
     	int b;
     #else
     	long bb;
     #endif
     	int c;
    -	int d;
     };
    ");
    let s = "struct s {\n\tunsigned long start, *end, data[2]; /* code */\n\tint c;\n};\n";
    assert_snapshot!(diff(s, "s", &["end:after:c"]), @r"
     struct s {
    -	unsigned long start, *end, data[2]; /* code */
    +	unsigned long start;
    +	unsigned long data[2]; /* code */
     	int c;
    +	unsigned long *end;
     };
    ");
}

#[test]
fn alignment_in_the_projects_own_word() {
    let check = |path: &str, text: &str, expect: &str| {
        let out = patch::patch(path, text, &target("s"), &edits(&["align:b=64"])).expect("a patch").text;
        assert!(out.contains(expect), "{out}");
    };
    let s = "struct s {\n\tint a;\n\tint b;\n};\n";
    let kernel = format!("struct t {{\n\tint x ____cacheline_aligned_in_smp;\n}};\n{s}");
    check("x.h", &kernel, "\tint b ____cacheline_aligned_in_smp;");
    check("x.h", &format!("struct t {{ CACHE_ALIGNED int x; }};\n{s}"), "\tCACHE_ALIGNED int b;");
    check("x.h", &format!("class AE_ALIGN(64) T {{ }};\n{s}"), "\tAE_ALIGN(64) int b;");
    let std = "alignas(std::hardware_destructive_interference_size)";
    check("x.hpp", &format!("struct t {{ {std} int x; }};\n{s}"), &format!("\t{std} int b;"));
    check("x.hpp", s, "\talignas(64) int b;");
}

#[test]
fn elements_have_the_projects_own_word_too() {
    let own = "#define OWN_LINE __attribute__((aligned(64)))\n";
    let element = |path: &str, text: &str| edited(path, text, "s", "element=64");
    let found = element("x.c", &format!("{own}struct t {{ int x OWN_LINE; }};\nstruct s {{ int b; }};\n"));
    assert!(found.contains("struct OWN_LINE s {"), "{found}");
    // In C an alignment that stands before a declaration cannot stand at a struct.
    let before = "#define OWN_LINE _Alignas(64)\nstruct t { OWN_LINE int x; };\nstruct s { int b; };\n";
    assert!(element("x.c", before).contains("struct __attribute__((aligned(64))) s {"));
    let cpp = "#define OWN_LINE alignas(64)\nstruct t { OWN_LINE int x; };\nstruct s { int b; };\n";
    assert!(element("x.cc", cpp).contains("struct OWN_LINE s {"));
}

/// The text after one edit.
fn edited(path: &str, text: &str, name: &str, edit: &str) -> String {
    let found = patch::patch(path, text, &target(name), &edits(&[edit]));
    found.map_or_else(|e| format!("refused: {e}"), |p| p.text)
}

/// What follows an array of one tells compilers that it ends there: `strcpy` beyond it is stopped (_FORTIFY_SOURCE).
#[test]
fn nothing_is_put_behind_what_may_be_a_flexible_array() {
    let padded = |last: &str| {
        let text = format!("struct s {{\n\tlong n;\n\tchar {last};\n}};\n");
        let target = Target { pad_bytes: 40, ..target("s") };
        patch::patch("x.h", &text, &target, &edits(&["pad=64"])).map(|p| p.text)
    };
    for last in ["name[]", "name[0]", "name[1]"] {
        assert!(matches!(padded(last), Err(patch::Refusal::Flexible { field }) if field == "name"), "{last}");
    }
    assert!(padded("name[16]").unwrap().contains("pad[40];"));
}

#[test]
fn members_with_values_of_every_kind() {
    let s = "class s {\n\tlong a = 2;\n\tint b{3};\n\tstd::function<int(int)> f = [](int v) { return v; };\n\
        \tint (*h)(int) = [](int v) -> int { return v; };\n\tint (s::*m)() = &s::get;\n\tint last;\n};\n";
    let a = edited("x.h", s, "s", "align:a=64");
    assert!(a.contains("\tlong a __attribute__((aligned(64))) = 2;\n"), "{a}");
    let b = edited("x.h", s, "s", "align:b=64");
    assert!(b.contains("\tint b __attribute__((aligned(64))){3};\n"), "{b}");
    assert!(edited("x.h", s, "s", "last:first").contains("{\n\tint last;\n\tlong a"));
    for (edit, expect) in [
        ("h:first", "class s {\n\tint (*h)(int) = [](int v) -> int { return v; };\n\tlong a"),
        ("m:after:last", "\tint last;\n\tint (s::*m)() = &s::get;\n};"),
        ("f:after:last", "\tint last;\n\tstd::function<int(int)> f = [](int v) { return v; };\n};"),
    ] {
        let found = edited("x.cc", s, "s", edit);
        assert!(found.contains(expect), "{edit}: {found}");
    }
    let nested = edited("x.c", "struct s { int a; struct { int x; } b; };\n", "s", "align:b=64");
    assert!(nested.contains("} b __attribute__((aligned(64)));"), "{nested}");
}

#[test]
fn a_specialisation_is_another_class() {
    let text = "template <class T> struct s {\n\tT a;\n\tint b;\n};\n\
        template <> struct s<char> {\n\tint c;\n\tint d;\n};\n";
    assert!(edited("x.hpp", text, "s<int>", "b:first").contains("{\n\tint b;\n\tT a;\n}"));
    assert!(edited("x.hpp", text, "s<char>", "d:first").contains("{\n\tint d;\n\tint c;\n}"));
    let nested = "template <class T> class list {\n\tstruct node { int tag; T value; };\n};\n";
    assert!(edited("x.hpp", nested, "a::list<int>::node", "value:first").contains("{ T value; int tag; }"));
}

#[test]
fn macros_in_a_row_are_passed() {
    let text = "struct s {\n\tint a;\n\tFIELD(long, x)\n\tFIELD(int, y)\n\tint b;\n};\n";
    let moved = edited("x.c", text, "s", "b:after:a");
    assert!(moved.contains("\tint a;\n\tint b;\n\tFIELD(long, x)\n\tFIELD(int, y)\n}"), "{moved}");
    assert!(edited("x.c", text, "s", "y:first").contains("no statement declares y"));
}

#[test]
fn methods_that_are_templates_or_return_structs_end_with_their_braces() {
    let source = "class Pool {\npublic:\n\ttemplate <class F> auto put(F &&f) -> decltype(f()) { return f(); }\n\
        private:\n\tvoid loop() { stop_ = true; }\n\tbool stop_ = false;\n\
        \tstruct node *next() const { return head_; }\n\tstruct node *head_;\n\
        \tstruct PACKED(4) pair { int a; int b; } pair_;\n\tlong n_;\n};\n";
    for (edit, moved) in [("stop_:after:head_", "bool stop_"), ("head_:after:n_", "struct node *head_")] {
        let text = diff(source, "Pool", &[edit]);
        assert!(text.contains(&format!("+\t{moved}")) && text.contains(&format!("-\t{moved}")), "{text}");
    }
}
