use super::*;

fn run(path: &str, text: &str, name: &str, change: Change) -> Result<String, String> {
    let out = patch(name, change, &[(path, text)]).map_err(|e| e.to_string())?;
    assert_eq!(out.len(), 1);
    Ok(out.into_iter().next().map(|c| c.text).unwrap_or_default())
}

fn check(path: &str, text: &str, name: &str, change: Change, expect: &str) {
    assert_eq!(run(path, text, name, change).as_deref(), Ok(expect));
}

#[test]
fn single_variables_are_aligned_in_the_files_own_way() {
    let attribute = "static volatile long sent __attribute__((aligned(64))), other;\n";
    check("a.c", "static volatile long sent, other;\n", "sent", Change::Align(64), attribute);
    check(
        "a.cc",
        "std::atomic<long> hits{0};\n",
        "hits",
        Change::Align(64),
        "alignas(64) std::atomic<long> hits{0};\n",
    );
    check(
        "a.c",
        "long a[4] = { 1 };\n",
        "a",
        Change::Align(64),
        "long a[4] __attribute__((aligned(64))) = { 1 };\n",
    );
    let braces = "long top{0}, next __attribute__((aligned(64))){1};\n";
    check("a.cc", "long top{0}, next{1};\n", "next", Change::Align(64), braces);
    let own = "#define CACHE_ALIGNED x\nstatic int b CACHE_ALIGNED;\nint a;\n";
    check("a.c", own, "a", Change::Align(64), &own.replace("int a;", "int a CACHE_ALIGNED;"));
    check(
        "a.cc",
        "namespace n {\nlong x = 1;\n}\n",
        "n::x",
        Change::Align(64),
        "namespace n {\nalignas(64) long x = 1;\n}\n",
    );
    let local = "void f(void)\n{\n\tstatic long calls;\n\tcalls++;\n}\n";
    check(
        "a.c",
        local,
        "f::calls",
        Change::Align(64),
        &local.replace("calls;", "calls __attribute__((aligned(64)));"),
    );
}

#[test]
fn elements_get_a_struct_and_uses_follow() {
    let text = "#define N 4\nstatic volatile long counts[N];\n\tlong f(int i, struct s *p)\n{\n\
        \tmemset(counts, 0, sizeof(counts));\n\tfor (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)\n\
        \t\tcounts[counts[i] & 3]++;\n\treturn p->counts[i] + counts[i];\n}\n";
    let expect = "#define N 4\nstatic struct counts_element {\n\tvolatile long value __attribute__((aligned(64)));\n} \
        counts[N];\n\tlong f(int i, struct s *p)\n{\n\
        \tmemset(counts, 0, sizeof(counts));\n\tfor (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)\n\
        \t\tcounts[counts[i].value & 3].value++;\n\treturn p->counts[i] + counts[i].value;\n}\n";
    check("a.c", text, "counts", Change::Spread(64), expect);
    let rows = "char *names[2][3] = {0};\nchar *f() { return names[0][1]; }\n";
    let expect = "struct names_element {\n    alignas(64) char *value[3];\n} names[2] = {0};\n\
        char *f() { return names[0].value[1]; }\n";
    check("a.cc", rows, "names", Change::Spread(64), expect);
}

#[test]
fn initialised_elements_and_atomics() {
    let of = |values: &str| {
        format!("static long n[] = {values};\nlong f(int i) {{ return __atomic_load_n(&n[i], 0); }}\n")
    };
    let expect = |values: &str| {
        format!(
            "static struct n_element {{\n    long value __attribute__((aligned(64)));\n}} n[] = {values};\n\
                long f(int i) {{ return __atomic_load_n(&n[i].value, 0); }}\n"
        )
    };
    let run = |before: &str, after: &str| check("a.c", &of(before), "n", Change::Spread(64), &expect(after));
    run("{ 1, 2 + f(3, 4), }", "{ { 1 }, { 2 + f(3, 4) }, }");
    run("{ [1] = 5, [3] = 7 }", "{ [1] = { 5 }, [3] = { 7 } }");
    run("{ 0 }", "{ 0 }");
}

/// A parameter or a local variable of the same name is another one, as far as it reaches.
#[test]
fn what_only_has_the_name_stays_as_it_is() {
    let text = |member: &str, element: &str| {
        format!(
            "static {element}n[4];\nvoid run(int n);\nvoid run(int n) {{ while (n--) start(n); }}\n\
                long g(long i) {{ {{ long n = i; i += n; }} return n[i]{member}; }}\n\
                long h(long *n) {{ return n[0]; }}\nlong k(void) {{ return n[1]{member}; }}\n"
        )
    };
    let element = "struct n_element {\n    long value __attribute__((aligned(64)));\n} ";
    check("a.c", &text("", "long "), "n", Change::Spread(64), &text(".value", element));
}

#[test]
fn what_cannot_be_followed_is_refused_with_its_place() {
    let refused = |text: &str, expect: &str| {
        let e = run("a.c", text, "n", Change::Spread(64)).unwrap_err();
        assert!(e.starts_with("a.c:") && e.contains(expect), "{e}\n{text}");
    };
    let n = "static long n[4];\n";
    refused(&format!("{n}long *f(void) {{ return n; }}\n"), "a.c:2: n is used as a whole");
    refused(&format!("{n}long *f(int i) {{ return &n[i]; }}\n"), "the address of an element");
    let another = "another n is declared here";
    refused(&format!("{n}long f(long i) {{ for (long n = 0; n < i; n++) g(n); return n[0]; }}\n"), another);
    refused(&format!("{n}#if A\nint f(int n) {{\n#else\nint f(long n) {{\n#endif\nreturn n; }}\n"), another);
    refused(&format!("{n}#define ADD(i) n[i]++\n"), "a macro uses n");
    refused("static long n[2][2] = { 1, 2, 3, 4 };\n", "more than one value each");
    refused("int f(long *n) { return n[0]; }\n", "n is a local variable or a parameter");
    refused("static long n[4], m;\n", "other variables");
    refused("long n;\n", "no array");
    refused("extern long n[4];\nlong n[4];\n", "declared here, too");
    let size = "the size of n is used for more";
    refused(&format!("{n}int f(void) {{ return sizeof(n) / sizeof(long); }}\n"), size);
    refused(&format!("{n}int f(void) {{ return sizeof n / 8; }}\n"), size);
    refused(&format!("{n}int f(void) {{ return sizeof(n[0]); }}\n"), size);
    refused("static long n[2][2];\nvoid f(void) { memset(n[0], 0, sizeof(n)); }\n", size);
    refused(&format!("{n}void f(void) {{ asm(\"incq n+8(%rip)\"); }}\n"), "named in a string");
    refused(&format!("{n}void *f(void) {{ return dlsym(0, \"n\"); }}\n"), "named in a string");
    let by_type = "#define COUNT(x) (sizeof(x) / sizeof(long))\n";
    refused(
        &format!("{by_type}{n}int f(void) {{ return COUNT(n); }}\n").replace("a.c:2", ""),
        "used as a whole",
    );
    assert!(run("a.c", "int m;\n", "n", Change::Align(64)).is_err());
}

#[test]
fn an_array_that_a_header_declares_changes_in_both() {
    let run = |source: &str| {
        let header = "extern volatile long n[];\nlong total(void);\n";
        let files = [("count.h", header), ("count.c", source), ("use.c", "long f(void) { return n[1]; }\n")];
        let out = patch("n", Change::Spread(64), &files).map_err(|e| e.to_string())?;
        Ok::<_, String>(out.into_iter().map(|c| (c.path, c.text)).collect::<Vec<_>>())
    };
    let element = "struct n_element {\n    volatile long value __attribute__((aligned(64)));\n} n[";
    let texts = run("#include \"count.h\"\nvolatile long n[4] = { 1 };\n").expect("a patch");
    assert_eq!(texts[0].0, "count.c");
    assert_eq!(texts[0].1, "#include \"count.h\"\nstruct n_element n[4] = { { 1 } };\n");
    assert_eq!(texts[1].1, format!("extern {element}];\nlong total(void);\n"));
    assert_eq!(texts[2].1, "long f(void) { return n[1].value; }\n");
    // Who defines it without its header needs the struct, too.
    assert_eq!(run("volatile long n[4];\n").expect("a patch")[0].1, format!("{element}4];\n"));
    let again =
        run("#include \"count.h\"\nvoid f(void) { extern volatile long n[]; }\nvolatile long n[4];\n");
    assert!(again.unwrap_err().contains("declared here, too"));
}

#[test]
fn elements_are_counted_by_their_own_size() {
    let same = |code: &str| {
        let define = "#define ARRAY_SIZE(arr) (sizeof(arr) / sizeof((arr)[0]) + __must_be_array(arr))\n";
        let text = format!("{define}static long n[4];\nint f(void) {{ return {code}; }}\n");
        let new = run("a.c", &text, "n", Change::Spread(64)).expect(code);
        assert!(new.contains(&format!("return {code};")), "{new}");
    };
    same("sizeof(n) / sizeof(n[0])");
    same("(int)(sizeof n / sizeof *n)");
    same("sizeof(n)/sizeof(*n)");
    same("sizeof n / sizeof n[0]");
    same("ARRAY_SIZE(n)");
    same("(memset(n, 0, sizeof(n)), 1)");
}

#[test]
fn attributes_and_lists_behind_the_name() {
    let of = "long got __attribute__((aligned(8))) = 1;\n";
    check("a.c", of, "got", Change::Align(64), &of.replace("got ", "got __attribute__((aligned(64))) "));
    let spread =
        run("a.c", "static long n[4] __attribute__((aligned(8)));\n", "n", Change::Spread(64)).unwrap();
    assert!(spread.ends_with("} n[4] __attribute__((aligned(8)));\n"), "{spread}");
    let list = "static int rx[4], tx[4] = { 1, 2 };\n";
    let why = run("a.c", list, "tx", Change::Spread(64)).unwrap_err();
    assert!(why.contains("declares other variables"), "{why}");
}

#[test]
fn reasons_are_true() {
    let refused = |path: &str, text: &str, name: &str, change, words: &str| {
        let why = run(path, text, name, change).unwrap_err();
        assert!(why.contains(words), "{text}: {why}");
    };
    refused("a.c", "static char hits[4] = \"abc\";\n", "hits", Change::Spread(64), "by a string");
    let class = "struct G { static long in; };\nlong G::in = 0;\nalignas(8) std::atomic<long> G::out{0};\n";
    refused("a.cc", class, "G::in", Change::Align(64), "static member");
    refused("a.cc", class, "G::out", Change::Align(64), "static member");
    refused("a.cc", class, "G::none", Change::Align(64), "no definition");
    // A parameter of the same name is no matter where only the definition changes.
    let both = "static long a;\nvoid *f(void *a) { return a; }\n";
    check(
        "a.c",
        both,
        "a",
        Change::Align(64),
        &both.replace("long a", "long a __attribute__((aligned(64)))"),
    );
}

#[test]
fn what_becomes_text_stays() {
    let run = |define: &str| {
        let text = format!("{define}\nstatic long hits[4];\nvoid f(int i) {{ SHOW(hits[i]); }}\n");
        run("a.c", &text, "hits", Change::Spread(64))
    };
    let show = "#define SHOW(x) printf(#x \" = %ld\\n\", (long)(x))";
    assert!(run(show).unwrap_err().contains("makes text of what it is given"));
    let outer = show.replace("SHOW(x)", "TEXT(x)") + "\n#define SHOW(x) TEXT(x)";
    assert!(run(&outer).unwrap_err().contains("SHOW makes text"));
    assert!(run("#define SHOW(x) printf(\"%ld\", (x))").is_ok());
    assert!(run("#define SHOW(x) count##_of(x)").is_ok());
}

#[test]
fn static_variables_of_functions_are_told_apart() {
    let text = "long low(long v)\n{\n\tstatic long state;\n\treturn state += v;\n}\n\
        long peak(long v)\n{\n\tstatic long state;\n\treturn state -= v;\n}\n";
    let second = text.rfind("state;").unwrap();
    let aligned = |at: usize| format!("{} __attribute__((aligned(64))){}", &text[..at + 5], &text[at + 5..]);
    check("a.c", text, "peak::state", Change::Align(64), &aligned(second));
    check("a.c", text, "low::state", Change::Align(64), &aligned(text.find("state;").unwrap()));
    let of_none = run("a.c", text, "state", Change::Align(64)).unwrap_err();
    assert!(of_none.contains("is defined here and at"), "{of_none}");
}

#[test]
fn inline_members_are_defined_in_their_class() {
    let text = "class Counters {\n    static inline std::atomic<long> accepted_{0};\n};\n";
    let aligned = text.replace("static", "alignas(64) static");
    check("a.hpp", text, "Counters::accepted_", Change::Align(64), &aligned);
    let labelled = text.replace("    static", "private:\n    static");
    let expected = labelled.replace("static", "alignas(64) static");
    check("a.hpp", &labelled, "Counters::accepted_", Change::Align(64), &expected);
    assert!(run("a.hpp", text, "accepted_", Change::Spread(64)).unwrap_err().contains("static member"));
}

#[test]
fn the_name_of_a_header_is_no_macro() {
    let text = "#include \"count.h\"\nunsigned count[3];\nvoid f(int i) { count[i]++; }\n";
    assert!(run("count.c", text, "count", Change::Spread(64)).is_ok());
    let hidden = "#define COUNT(i) count[i]\nunsigned count[3];\nvoid f(int i) { COUNT(i)++; }\n";
    assert!(run("count.c", hidden, "count", Change::Spread(64)).is_err());
}
