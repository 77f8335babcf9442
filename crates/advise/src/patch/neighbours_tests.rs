use super::*;
use crate::patch::uses::{self, Ask};

const S: &str = "struct s {\n\tint a;\n\tint b;\n\tint c;\n\tchar name[8];\n};\n";

fn check(body: &str, edit: &str, expect: Option<&str>) {
    let text = format!("{S}{body}\n");
    let edits: Vec<Edit> = vec![edit.parse().unwrap()];
    let found = uses::check("s", Some(&edits), Ask::LAYOUT, &[("x.c", &text)]).err().map(|e| e.to_string());
    match (found, expect) {
        (Some(found), Some(words)) => assert!(found.contains(words), "{body}: {found}"),
        (found, expect) => assert_eq!(found.as_deref(), expect, "{body}"),
    }
}

#[test]
fn ranges_of_members() {
    let f =
        |code: &str, expect| check(&format!("void f(struct s *p, int *v) {{ {code} }}"), "swap:b,c", expect);
    f("memset(&p->b, 0, sizeof(*p) - offsetof(struct s, b));", Some("up to or from"));
    f("memcpy(&p->a, v, 2 * sizeof(int));", Some("reaches from a on"));
    f("memcpy(&p->a, v, sizeof(p->a));", None);
    f("memcpy(&p->a, v, sizeof(int));", None);
    f("memcpy(&p->a, v, 4);", None);
    f("memcpy(&p->a, v, 8);", Some("reaches from a on"));
    f("memset(p->name, 0, sizeof(p->name));", None);
    // What is left of a member's size is no other's.
    f("strncpy(p->name, v, sizeof(p->name) - 1);", None);
    f("strncpy(p->name, v, sizeof p->name - 1);", None);
    f("p->name[sizeof(p->name) - 1] = 0;", None);
    f("g(p->name, sizeof *p - 12);", Some("what is left of its size"));
    f("memset(p, 0, sizeof(*p));", None);
    f("use(offsetof(struct s, b));", None);
    f("if (offsetof(struct s, b) < 8) return;", Some("compared or subtracted"));
}

#[test]
fn arithmetic_on_addresses() {
    let f = |code: &str, expect| check(&format!("int f(struct s *p) {{ {code} }}"), "swap:b,c", expect);
    f("return *(&p->a + 1);", Some("arithmetic on the address of a"));
    f("return (&p->a)[1];", Some("arithmetic"));
    f("return &p->c - &p->a;", Some("arithmetic"));
    f("int *q = &p->a; return q[1];", Some("arithmetic"));
    f("int *q = &p->a; return q[0] + *q;", None);
    f("return g(&p->a, &p->b) + 1;", None);
    f("return p->a & p->b + 1;", None);
    f("return p->a - p->b;", None);
    f("return v && p->a > 3 && p->b < 4;", None);
    f("return v && p->name[2] == 1;", None);
    f("return g(&p->a) + 1;", None);
    f("return g(&p->name[1]) < h(&p->c);", None);
    f("return (&p->a)->x;", None);
    // What lies there, not where it lies.
    f("if (v) *(volatile int *)&p->a += 1; return 0;", None);
    f("return *(int *)&p->a - 1 < *&p->b + 1;", None);
    f("return *((int *)&p->a + 1);", Some("arithmetic on the address of a"));
    // Another function's variable of that name, and one that walks before the loop in which it is set.
    f("int *q; if (v) { q = &p->a; }\nreturn *q; }\nint g(int *q) { return q[1];", None);
    f("int *q = v; q++; if (v) { q = &p->a; q++; } return *q;", Some("arithmetic"));
    f("memcpy(v, p, 8);", Some("from the first on"));
    f("memcpy(v, p, sizeof(v));", Some("from the first on"));
    f("memcpy(v, p, n);", None);
    f("memcpy(this, p, sizeof(*this));", None);
}

#[test]
fn other_types_laid_over() {
    let base = "struct base { int a; int b; };\n";
    let f = |code: &str, edit, expect| check(&format!("{base}{code}"), edit, expect);
    f("int f(struct s *p) { return g((struct base *)p); }", "swap:b,c", Some("looked at as base"));
    f("int f(struct s *p) { return g((struct base *)p); }", "c:after:name", None);
    f(
        "int f(struct base *p) { struct s *q = (struct s *)p; return q->c; }",
        "b:first",
        Some("pointer to base"),
    );
    let first = "int first(const void *v) { return *(const int *)v; }\n";
    f(&format!("{first}int f(struct s *p) {{ return first(p); }}"), "b:first", Some("a void pointer"));
    f(&format!("{first}int f(struct s *p) {{ return first(&p->b); }}"), "b:first", None);
    f("union u { struct s s; int v[5]; };", "swap:b,c", Some("union"));
    f("union u { struct s *s; int v[5]; };", "swap:b,c", None);
}

#[test]
fn a_function_that_goes_on_from_a_member_counts_on_the_next() {
    let sum = "int sum(const int *p, int n) { int r = 0; while (n--) r += *p++; return r; }\n";
    let one = "int one(const int *p, int n) { return *p * n; }\n";
    let f = |callee: &str, call: &str, expect| {
        check(&format!("{callee}int f(struct s *p) {{ return {call}; }}"), "swap:b,c", expect)
    };
    f(sum, "sum(&p->a, 3)", Some("arithmetic on the address of a"));
    f(one, "one(&p->a, 3)", None);
    f("", "unknown(&p->a)", None);
    f(sum, "sum(p->name, 3)", None);
}

#[test]
fn one_number_over_two_members() {
    let f = |code: &str, expect| check(&format!("void f(struct s *p) {{ {code} }}"), "swap:b,c", expect);
    f("use(*(uint64_t *)&p->a);", Some("read as one number"));
    f("use(*(unsigned *)&p->a);", None);
    f("write(1, &p->a, sizeof p->a + sizeof p->b);", Some("reaches from a on"));
    f("write(1, &p->a, sizeof p->a);", None);
    f("memset(&(p)->a, 0, 2 * sizeof(int));", Some("reaches from a on"));
    f("memset(&p->a, 0, LENGTH_OF_OTHERS);", None);
    f("memcpy(p, q, 3 * sizeof(int));", Some("takes some of its bytes"));
    f("memcpy(&p->a, v, sizeof *v);", Some("reaches from a on"));
    f("int *v; memcpy(&p->a, v, sizeof *v);", None);
}

#[test]
fn the_first_member_is_where_the_object_is() {
    let f = |code: &str, edit: &str, expect| check(code, edit, expect);
    let compare = "int compare(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }\n";
    let sort = "void f(struct s *p, int n) { qsort(p, n, sizeof(*p), compare); }\n";
    f(&format!("{compare}{sort}"), "swap:a,b", Some("a void pointer becomes one to int"));
    f(&format!("{compare}{sort}"), "swap:b,c", None);
    f(
        "int g(void *v) { int *w = v; return w[2]; }\nint f(struct s *p) { return g(p); }",
        "swap:b,c",
        Some("becomes"),
    );
    let place = "int g(void *v, int at) { return *(int *)((char *)v + at); }\n";
    f(&format!("{place}int f(struct s *p) {{ return g(p, offsetof(struct s, b)); }}"), "swap:a,b", None);
    let later =
        "struct w { int a; int b; };\nint f(struct s *p) { struct w *q; void *v = p; q = v; return q->b; }";
    f(later, "swap:b,c", Some("void pointer becomes one to w"));
    f("void f(struct s *p) { void *q = *(void **)p; }", "swap:a,b", Some("its first member"));
    f("void f(struct s *p) { printf(\"%s\", (char *)p); }", "swap:a,b", Some("its first member"));
    f("void f(struct s *p) { printf(\"%d\", *(int *)((char *)p + at)); }", "swap:a,b", None);
    f("void f(void) { struct s x, *p = &x; void *v = p; puts(v); }", "swap:a,b", Some("as a string"));
    f("int f(struct s x) { return *(int *)get(&x); }", "swap:a,b", None);
}

#[test]
fn members_of_an_object_without_a_name() {
    let run = |body: &str, expect: Option<&str>| {
        let text = format!("struct V {{ float x; float y; float z; {body} }};\n");
        let edits: Vec<Edit> = vec!["swap:y,z".parse().unwrap()];
        let found =
            uses::check("V", Some(&edits), Ask::LAYOUT, &[("v.hpp", &text)]).err().map(|e| e.to_string());
        assert_eq!(found.is_some(), expect.is_some(), "{body}: {found:?}");
        assert!(expect.is_none_or(|e| found.unwrap_or_default().contains(e)), "{body}");
    };
    run("float at(int i) { return (&x)[i]; }", Some("arithmetic on the address of x"));
    run("float at(int i) { return *(&x + i); }", Some("arithmetic on the address of x"));
    run("float at(float x) { return *(&x + 0); }", None);
    run("float *first() { return &x; }", None);
    run("float *data() { return &x; }", Some("arithmetic on the address of x"));
    run("}; void f(V v) { auto &a = reinterpret_cast<float (&)[3]>(v); ", Some("pointer to float"));
    run(
        "}; struct A { float v[3]; }; void f(V v) { auto &a = reinterpret_cast<A &>(v); ",
        Some("looked at as A"),
    );
    run("}; bool f() { return sizeof(V) <= 16; ", Some("compared with a number"));
    run("}; bool f() { return std::has_unique_object_representations_v<V>; ", Some("padding"));
}

#[test]
fn an_aligned_member_opens_a_gap() {
    let f = |code: &str, edit: &str, expect| check(&format!("int f(struct s *p) {{ {code} }}"), edit, expect);
    f("return (&p->a)[1];", "align:b=64", Some("arithmetic"));
    f("int *q = &p->a; return q[1];", "align:b=64", Some("arithmetic"));
    f("memset(&p->a, 0, 2 * sizeof(int));", "align:b=64", Some("reaches from a on"));
    f("memcpy(v, p, 8);", "align:b=64", Some("from the first on"));
    // What is reached stays together, or is told by the names of members.
    f("memset(&p->a, 0, 2 * sizeof(int));", "align:c=64", None);
    f("memcpy(v, p, 8);", "align:c=64", None);
    f("memset(&p->b, 0, sizeof *p - offsetof(struct s, b));", "align:c=64", None);
    // The first member and all behind it stay; other sizes move no member.
    f("return (&p->a)[1];", "align:a=64", None);
    f("return (&p->a)[1];", "element=64", None);
    f("return (&p->a)[1];", "pad=64", None);
    check("union u { struct s s; int v[5]; };", "align:b=64", Some("union"));
    check(
        "struct t { int k, m; }; int f(struct s *p) { return ((struct t *)p)->m; }",
        "align:b=64",
        Some("as t"),
    );
    check("struct t { int k; }; int f(struct s *p) { return ((struct t *)p)->k; }", "align:b=64", None);
}

#[test]
fn every_way_to_a_member() {
    let f = |code: &str| check(code, "swap:b,c", Some("arithmetic on the address of a"));
    f("static struct s g __attribute__((aligned(64))); int f(void) { return (&g.a)[1]; }");
    f("static struct s __attribute__((aligned(64))) g; int f(void) { return (&g.a)[1]; }");
    f("static struct s g[3]; int f(void) { return (&g[1].a)[1]; }");
    f("static struct { int z; struct s *in; } h; int f(void) { return (&h.in->a)[1]; }");
    f("static struct s *get(void); int f(void) { return (&get()->a)[1]; }");
    f("int f(struct s *p) { return (&(*p).a)[1]; }");
    f("int f(struct s **p) { return (&(*p)->a)[1]; }");
    f("int f(struct s *p) { __typeof__(*p) *q = p; return (&q->a)[1]; }");
    f("typedef struct s *P; int f(P q) { return (&q->a)[1]; }");
    f("int f(void *v) { return (&((struct s *)v)->a)[1]; }");
    f("static struct s g; static int *const regs = &g.a; int f(void) { return regs[1]; }");
    f("void f(struct s *p) { span<int> all(&p->a, 3); }");
    let other = |code: &str| check(code, "swap:b,c", None);
    other("struct t { int a; }; static struct t g[3]; int f(void) { return (&g[1].a)[1]; }");
    other("static struct s g[3]; int f(void) { return (&other()->a)[1]; }");
    other("void f(struct s *p) { lib_add(&p->a, 3); lib_pair(&p->a, 1); lib_pair(&p->a, 300); }");
}

#[test]
fn distances_and_several_numbers() {
    let f =
        |code: &str, edit: &str, expect| check(&format!("void f(struct s *p) {{ {code} }}"), edit, expect);
    f("fwrite(&p->a, sizeof(int), 3, out);", "align:b=64", Some("reaches from a on"));
    f("fwrite(&p->a, sizeof(int), 1, out);", "align:b=64", None);
    f("fwrite(&p->a, 1, sizeof(int), out);", "align:b=64", None);
    f("n = (char *)&p->b - (char *)p;", "align:b=64", Some("becomes a number"));
    f("n = (char *)&p->b - start;", "align:b=64", None);
}

#[test]
fn distances_of_members() {
    let f = |code: &str, expect| check(&format!("void f(struct s *p) {{ {code} }}"), "swap:b,c", expect);
    let found = Some("arithmetic on the address of");
    f("n = (char *)&p->b - (char *)&p->a;", found);
    f("n = (uintptr_t)&p->b - (uintptr_t)&p->a;", found);
    f("char *m = (char *)&p->b, *n = (char *)&p->a; x = m - n;", found);
    f("char *m = (char *)&p->b; x = m - start;", None);
    f("x = (uintptr_t)&p->b % 64;", Some("is aligned"));
    f("x = v(y) & p->b;", None);
    f("printf(\"%d\", (int)(size_t)&((struct s *)0)->b);", Some("the offset of b is printed"));
    f("printf(\"%zu\", offsetof(struct s, b));", Some("the offset of b is printed"));
    f("x = *(int *)((char *)p + offsetof(struct s, b));", None);
}

#[test]
fn what_a_callee_reaches() {
    let own = "long sum(const int *v, int n);\nlong range(const int *v, const int *end);\nvoid set(int *v, int n);\n";
    let f = |code: &str, edit: &str, expect| {
        check(&format!("{own}void f(struct s *p, int n) {{ {code} }}"), edit, expect)
    };
    for edit in ["swap:b,c", "align:b=64"] {
        f("sum(&p->a, n);", edit, Some("arithmetic"));
        f("range(&p->a, &p->c);", edit, Some("arithmetic"));
        f("x = std::accumulate(&p->a, &p->c, 0);", edit, Some("arithmetic"));
        f("long (*call)(const int *, int) = sum; call(&p->a, n);", edit, Some("arithmetic"));
    }
    f("set(&p->a, n); scanf(\"%d %d\", &p->a, &p->b); swap(&p->a, &p->b);", "swap:b,c", None);
}

#[test]
fn from_a_member_to_its_object() {
    let f =
        |code: &str, expect| check(&format!("struct s *f(int *m) {{ return {code}; }}"), "swap:b,c", expect);
    f("(struct s *)((char *)m - 4)", Some("address is computed"));
    f("(struct s *)(m - 1)", Some("address is computed"));
    f("(struct s *)((uintptr_t)m - sizeof(int))", Some("address is computed"));
    f("(struct s *)((char *)m - offsetof(struct s, b))", None);
}

#[test]
fn unions_of_pointers_and_of_what_holds_it() {
    let f = |code: &str, expect| check(code, "swap:b,c", expect);
    f("union u { struct s *one; int *v; };", Some("a union has a pointer"));
    f("union u { struct s *one; char *text; int n; };", None);
    f(
        "struct o { int n; struct s in; }; union u { struct o o; int v[9]; };",
        Some("shares a union with numbers"),
    );
}

#[test]
fn a_void_pointer_beside_other_variables() {
    let walk = "int g(void *v) { int *w = v, sum = 0; return w[2] + sum; }\n";
    let f = |edit| check(&format!("{walk}int f(struct s *p) {{ return g(p); }}"), edit, Some("becomes"));
    f("swap:b,c");
    f("align:b=64");
}

#[test]
fn a_callback_has_other_pointers_beside_the_object() {
    let entry = "struct t { char name[32]; int k; };\n\
        void each(int key, void *value, void *data) { struct t *e = value; }\n";
    check(&format!("{entry}void f(struct s *p) {{ walk(table, each, p); }}"), "swap:b,c", None);
}

#[test]
fn another_type_through_void() {
    let twin = "struct t { int a; int b; int k; };\n";
    let f =
        |code: &str, expect| check(&format!("{twin}int f(struct s *p) {{ {code} }}"), "align:c=64", expect);
    f("const struct t *q = (const void *)p; return q->k;", Some("looked at as t"));
    f("struct t *q; q = (void *)p; return q->k;", Some("looked at as t"));
    f("struct s *q = (void *)p; return q->c;", None);
    f("void *q = (void *)p; return q != 0;", None);
}
