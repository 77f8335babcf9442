use crate::patch::uses::{Ask, check};

const S: &str =
    "struct s { long a; long b; };\nstruct t { long v[2]; };\nstruct o { int n; struct s in; };\n";

fn refused(code: &str, words: &str) {
    let text = format!("{S}{code}\n");
    let found =
        check("s", None, Ask::LAYOUT, &[("x.c", &text)]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(found.contains(words), "{code}: {found:?}");
}

fn fine(code: &str) {
    let text = format!("{S}{code}\n");
    assert_eq!(check("s", None, Ask::LAYOUT, &[("x.c", &text)]), Ok(()), "{code}");
}

#[test]
fn copies_into_something_else() {
    refused("void f(struct s *p) { long w[2]; memcpy(w, p, sizeof *p); }", "from or to long");
    refused("void f(struct s *p) { struct t r; memcpy(&r, p, sizeof(struct s)); }", "from or to t");
    refused(
        "void f(S *p) { struct s g; vector<char> v(9); memcpy(v.data(), &g, sizeof g); }",
        "array of bytes",
    );
    fine("void f(struct s *p) { struct s q; memcpy(&q, p, sizeof q); }");
    fine("void f(struct s *p) { typeof(*p) q; memcpy(&q, p, sizeof q); }");
    fine("void f(struct s *p, void *to) { memcpy(to, p, sizeof *p); }");
    fine("void f(struct s *p) { struct o x; memcpy(&x.in, p, sizeof *p); }");
}

#[test]
fn sizes_that_count() {
    refused("int f(void) { return 4096 / sizeof(struct s); }", "divided by its size");
    refused("int f(void) { return 512 / (int)sizeof(struct s); }", "divided by its size");
    refused("int f(void) { const int room = 1024; return room / sizeof(struct s); }", "divided by its size");
    refused("static char room[2 * sizeof(struct s)];", "as many bytes");
    fine("static struct s all[4]; int f(void) { return sizeof(all) / sizeof(struct s); }");
    fine("int f(int bytes) { return bytes / sizeof(struct s); }");
    fine("alignas(struct s) static char room[sizeof(struct s)];");
    fine("void *f(int n) { return malloc(n * sizeof(struct s)); }");
}

#[test]
fn bytes_of_what_is_around_it() {
    refused(
        "static struct o h; void f(void) { write(1, &h, sizeof h); }",
        "as part of a struct that holds it",
    );
    fine("static struct o h; void f(void) { write(1, &h.n, sizeof h.n); }");
    refused("static struct s g; void f(void) { struct iovec v = { &g, sizeof g }; }", "take its bytes");
    refused(
        "long *f(struct s *p) { return static_cast<long *>(static_cast<void *>(p)); }",
        "pointer to long",
    );
    fine("void *f(struct s *p) { return static_cast<void *>(p); }");
}
