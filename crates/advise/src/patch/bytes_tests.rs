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
fn a_function_of_its_own_called_like_one_of_the_system() {
    let own = "static void write(int n, struct s *p, long z) { p->a += n + z; }\n";
    fine(&format!("{own}void f(struct s *p) {{ write(1, p, 2); }}"));
    refused(&format!("{own}void f(struct s *p) {{ write(1, p, sizeof *p); }}"), "is given its bytes");
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

/// redis: `c` is a client in other functions of the file, and the bytes of a string here.
#[test]
fn a_name_means_what_its_function_says() {
    let string = "long long bitpos(void *s, unsigned long count) {\nunsigned long *l;\nunsigned char *c;\n\
                  c = (unsigned char*) s;\nwhile((unsigned long)c & (sizeof(*l)-1) && count) { c++; count--; }\n\
                  l = (unsigned long*) c;\nreturn *l; }\n";
    fine(string);
    fine(&format!("void a(struct s *c) {{ c->a = 1; }}\n{string}void b(struct s *c) {{ c->b = 1; }}"));
    fine(&format!("struct s *c;\n{string}"));
    fine(&format!("void a(struct s *c, void *p) {{ c->a = bitpos(p, 1); }}\n{string}"));
}

#[test]
fn the_bytes_of_a_pointer_are_none_of_the_struct() {
    let put = |arguments: &str| {
        let call = "int put(void *set, unsigned char *key, unsigned long bytes);";
        format!("{call}\nint f(void *q, struct s *p) {{ return put(q, (unsigned char *){arguments}); }}")
    };
    fine(&put("&p, sizeof(p)"));
    refused(&put("p, sizeof(*p)"), "its bytes");
    refused(&put("&p[0], sizeof(*p)"), "its bytes");
    refused(&put("p, sizeof(p)"), "a pointer to char");
    fine("typedef struct s *sp; int f(int to, sp p) { return write(to, &p, sizeof p); }");
    fine("int f(int to) { static struct s *all[4]; return write(to, &all, sizeof all); }");
    refused("int f(int to) { struct s p; return write(to, &p, sizeof p); }", "takes its bytes");
    refused("int f(int to) { struct s *p, v; return write(to, &v, sizeof v); }", "takes its bytes");
    refused("int f(int to, struct s &p) { return write(to, &p, sizeof p); }", "takes its bytes");
    refused("int f(int to) { struct s p[2]; return write(to, &p, sizeof p); }", "takes its bytes");
}

#[test]
fn sizes_that_count() {
    refused("int f(void) { return 4096 / sizeof(struct s); }", "divides a number of bytes");
    refused("int f(void) { return 512 / (int)sizeof(struct s); }", "divides a number of bytes");
    refused(
        "int f(void) { const int room = 1024; return room / sizeof(struct s); }",
        "divides a number of bytes",
    );
    refused("static char room[2 * sizeof(struct s)];", "as many bytes");
    fine("static struct s all[4]; int f(void) { return sizeof(all) / sizeof(struct s); }");
    fine("int f(int bytes) { return bytes / sizeof(struct s); }");
    refused(
        "static int f(int bytes) { return bytes / sizeof(struct s); } int g(void) { return f(512); }",
        "divides a number of bytes",
    );
    refused("static char room[512]; int f(void) { return sizeof(room) / sizeof(struct s); }", "divides");
    fine("void *f(size_t n) { return n > SIZE_MAX / sizeof(struct s) ? 0 : malloc(n * sizeof(struct s)); }");
    fine("alignas(struct s) static char room[sizeof(struct s)];");
    fine("void *f(int n) { return malloc(n * sizeof(struct s)); }");
}

#[test]
fn sizes_that_become_data() {
    refused("void f(struct s *p) { printf(\"%zu\", sizeof *p); }", "its size is printed");
    fine("void f(struct s *p) { printf(\"%zu\", sizeof p); }");
    refused(
        "void f(struct s *p) { int n = sizeof *p; printf(\"%d\", n); }",
        "is kept in n, which is printed",
    );
    refused(
        "size_t f(void) { return sizeof(struct s); } void g(void) { printf(\"%d\", f()); }",
        "f() returns",
    );
    refused("void f(int used) { while (used + sizeof(struct s) <= 512) used++; }", "compared with a number");
    refused("void f(void) { std::cout << sizeof(struct s) << 1; }", "is printed");
    fine("void f(void) { std::aligned_storage_t<sizeof(struct s), alignof(s)> room; }");
    let len = "struct h { int kind; int len; };\nvoid p(struct h *h) { printf(\"%d\", h->len); }\n";
    refused(&format!("{len}void f(struct h *h) {{ h->len = sizeof(struct s); }}"), "is kept in len");
    refused(&format!("{len}struct h all = {{ 1, sizeof(struct s) }};"), "is kept in h");
    refused(&format!("{len}struct h all = {{ .len = sizeof(struct s) }};"), "is kept in len");
    fine(&format!("{len}void f(struct h *h) {{ h->kind = sizeof(struct s); }}"));
    fine("void f(void) { struct s *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64); }");
    fine("void f(void) { size_t n = (sizeof(struct s) + 63) / 64 * 64; g(n); }");
    fine("char *f(char *b, int i) { return b + i * sizeof(struct s); }");
    fine("void f(struct s *p) { struct pool q; q.bytes = sizeof(*p); q.all = malloc(4 * q.bytes); }");
}

#[test]
fn what_a_void_pointer_hides() {
    refused("void f(struct s *p) { void *v = p; char w[16]; memcpy(w, v, sizeof *p); }", "array of bytes");
    refused(
        "void dup_to(void *, const void *, int);\nvoid f(struct s *p) { long w[2]; dup_to(w, p, sizeof *p); }",
        "long",
    );
    fine(
        "void put(void *c, struct s *p) { long w[2]; memcpy(w, c, sizeof w); }\nvoid f(struct s *p) { put(0, p); }",
    );
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

#[test]
fn printing_another_value_hides_nothing() {
    refused("int g(char *); void f(struct s *p) { printf(\"%d\", g((char *)p)); }", "pointer to char");
    refused("void f(struct s *p) { printf(\"%d\", *((char *)p)); }", "pointer to char");
    refused("void f(struct s *p) { printf(\"%d\", ((char *)p)[4]); }", "pointer to char");
    refused("void f(struct s *p) { printf(\"%d\", *(int *)((char *)p + 4)); }", "pointer to char");
    fine("void f(struct s *p) { printf(\"%p\", (char *)p); free((void *)((char *)p)); }");
}

#[test]
fn numbers_that_are_added_to_an_address() {
    let read = "*(long *)((char *)p + at) : 0; }";
    refused(&format!("#define at 8\nlong f(struct s *p) {{ return p ? {read}"), "pointer to char");
    refused(
        &format!("enum {{ first, at = 8 }};\nlong f(struct s *p) {{ return p ? {read}"),
        "pointer to char",
    );
    refused(
        &format!("static const int at = 8;\nlong f(struct s *p) {{ return p ? {read}"),
        "pointer to char",
    );
    let table = "static const int at[] = { 0, 8 };\n";
    refused(
        &format!("{table}long f(struct s *p, int i) {{ return *(long *)((char *)p + at[i]); }}"),
        "pointer to char",
    );
    fine(&format!("long f(struct s *p, int at) {{ return p ? {read}"));
    fine(&format!("static const int at = offsetof(struct s, b);\nlong f(struct s *p) {{ return p ? {read}"));
}

#[test]
fn memory_of_so_many_bytes() {
    refused("void f(void) { struct s *p = malloc(16); free(p); }", "told its size as a number");
    refused("void f(struct o *x) { struct s *v[2]; v[1] = calloc(2, 8 + 8); }", "told its size");
    refused(
        "static long pool[8];\nvoid f(void) { struct s *p = (struct s *)pool; use(p); }",
        "so many bytes",
    );
    refused("static long pool[8];\nvoid f(void) { struct s *p = (void *)pool; use(p); }", "so many bytes");
    fine("void f(void) { struct s *p = malloc(sizeof(struct s)); long *w = malloc(16); use(p, w); }");
    let same = check(
        "s",
        None,
        Ask { size: false, ..Ask::LAYOUT },
        &[("x.c", &format!("{S}void f(void) {{ struct s *p = malloc(16); free(p); }}\n"))],
    );
    assert_eq!(same, Ok(()));
}

#[test]
fn assembly_that_names_a_variable() {
    refused(
        "struct s g;\nint f(void) { int v; asm(\"movl g+4(%%rip), %0\" : \"=r\"(v)); return v; }",
        "names g",
    );
    fine("struct s g;\nint f(void) { int v; asm(\"movl h+4(%%rip), %0\" : \"=r\"(v)); return v; }");
    refused("bool f() { return std::is_corresponding_member(&s::a, &t::v); }", "asks for its first members");
}

/// Who defines such a function shows nothing.
#[test]
fn the_definition_of_bit_cast_is_no_use_of_it() {
    let cast = "template <typename To, typename From>\ninline To bit_cast(const From &from) {\n\
        return __builtin_bit_cast(To, from);\n}\n\
        inline double as_double(long bits) { return bit_cast<double>(bits); }\n";
    let fine = |code: &str| {
        let text = format!("namespace n {{\n{cast}struct s {{ long a; long b; }};\n{code}\n}}\n");
        crate::patch::uses::check("s", None, crate::patch::uses::Ask::LAYOUT, &[("x.cc", &text)]).is_ok()
    };
    assert!(fine("long f(const s &x) { return x.a; }"));
    assert!(!fine("auto f(const s &x) { return bit_cast<two>(x); }"));
}
