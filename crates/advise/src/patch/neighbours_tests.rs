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
