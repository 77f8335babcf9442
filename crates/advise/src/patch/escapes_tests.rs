//! Ways in which the address of an object or of a member gets to code that knows what lies behind it.

use super::{Ask, check};
use crate::edit::Edit;

/// What refuses the move in these files; empty where nothing does.
fn found(edit: &str, ask: Ask, files: &[(&str, &str)]) -> String {
    let edits: Vec<Edit> = vec![edit.parse().expect("a move")];
    check("s", Some(&edits), ask, files).err().map(|e| e.to_string()).unwrap_or_default()
}

const S: &str = "struct s { int a; int b; long c; long d; long e; char name[8]; };\n";

fn refused_by(edit: &str, code: &str, words: &str) {
    let text = format!("{S}{code}\n");
    let found = found(edit, Ask::LAYOUT, &[("x.c", &text)]);
    assert!(found.contains(words), "{edit}: {code}: {found:?}");
}

fn fine_by(edit: &str, code: &str) {
    let text = format!("{S}{code}\n");
    assert_eq!(found(edit, Ask::LAYOUT, &[("x.c", &text)]), "", "{edit}: {code}");
}

#[test]
fn functions_that_read_more_than_the_member() {
    let load = "static long load(const void *p) { long v; memcpy(&v, p, sizeof v); return v; }\n";
    refused_by(
        "swap:b,c",
        &format!("{load}long f(struct s *s) {{ return load(&s->a); }}"),
        "load() reaches from a on",
    );
    fine_by("swap:a,b", &format!("{load}long f(struct s *s) {{ return load(&s->c); }}"));
    let swap =
        "static int cas(void *p, long o, long n) { return __sync_bool_compare_and_swap((long *)p, o, n); }\n";
    refused_by(
        "swap:b,c",
        &format!("{swap}int f(struct s *s) {{ return cas(&s->a, 1, 2); }}"),
        "cas() reaches from a on",
    );
    let hash = "static unsigned fnv(const void *p, size_t n) { const unsigned char *c = p; unsigned h = 1;\n\
        while (n--) h = (h ^ *c++) * 31; return h; }\n";
    let key = "#define KEY (sizeof(int) + sizeof(int))\n";
    refused_by(
        "swap:b,c",
        &format!("{key}{hash}int f(struct s *s) {{ return fnv(&s->a, KEY); }}"),
        "fnv() reaches from a on",
    );
    fine_by("swap:b,c", &format!("{hash}int f(struct s *s) {{ return fnv(&s->a, sizeof(s->a)); }}"));
    fine_by("swap:b,c", "static void put(void *p) { free(p); }\nvoid f(struct s *s) { put(&s->a); }");
    refused_by(
        "swap:c,d",
        "void f(struct s *s) { r = _mm_loadu_si128(&s->c); }",
        "_mm_loadu_si128() reaches from c on",
    );
    fine_by("swap:c,d", "void f(struct s *s) { _mm_prefetch(&s->c, 0); }");
}

#[test]
fn an_object_that_comes_back_as_numbers() {
    let words = "static const uint64_t *words(const void *p) { return p; }\n";
    refused_by(
        "align:d=64",
        &format!("{words}long f(const struct s *s) {{ return words(s)[1] + words(s)[2]; }}"),
        "words() gives it back as numbers",
    );
    fine_by("align:d=64", &format!("{words}long f(const struct s *s) {{ return words(s->name)[0]; }}"));
    let text = "static const char *about(struct s *s, char *buf, size_t n) { return buf; }\n";
    fine_by("align:d=64", &format!("{text}void f(struct s *s, char *b) {{ puts(about(s, b, 8)); }}"));
}

#[test]
fn an_object_that_is_written_by_a_pointer_to_nothing() {
    let write = |size: &str| {
        format!("long f(const struct s *s) {{ const void *p = s; return write(1, p, {size}); }}")
    };
    refused_by("align:d=64", &write("part.bytes"), "write() takes its bytes");
    fine_by("align:d=64", "long f(const struct s *s, const void *p) { return write(1, p, s->a); }");
}

#[test]
fn vectors_of_more_than_one_member() {
    let send = |length: &str| {
        format!(
            "void f(struct s *s) {{ struct iovec v[1]; v[0].iov_base = &s->a; v[0].iov_len = {length}; \
                writev(1, v, 1); }}"
        )
    };
    refused_by("swap:b,c", &send("sizeof s->a + sizeof s->b"), "reaches from a on");
    fine_by("swap:b,c", &send("sizeof s->a"));
}

#[test]
fn offsets_that_are_compared_later() {
    let table = "struct f { const char *n; size_t off; };\n\
        static struct f fs[] = { { \"c\", offsetof(struct s, c) }, { \"a\", offsetof(struct s, a) } };\n";
    let compare = "static int cmp(const void *a, const void *b) { const struct f *x = a, *y = b; return x->off \
        < y->off; }";
    refused_by("swap:a,b", &format!("{table}{compare}"), "the offset of");
    fine_by(
        "swap:a,b",
        &format!("{table}static long *at(struct s *s, int i) {{ return (long *)((char *)s + fs[i].off); }}"),
    );
}

#[test]
fn pointers_to_arrays_and_subscripts_the_other_way_round() {
    let dot = "static long dot(long (*v)[2]) { return (*v)[0] + (*v)[1]; }\n";
    refused_by(
        "swap:d,e",
        &format!("{dot}long f(struct s *s) {{ return dot((void *)&s->c); }}"),
        "dot() reaches from c on",
    );
    refused_by("swap:d,e", &format!("{dot}long f(struct s *s) {{ return dot((long (*)[2])&s->c); }}"), "c");
    refused_by("swap:a,c", "long f(struct s *s) { return ((int (*)[2])s)[0][1]; }", "pointer to int");
    refused_by("swap:d,e", "long f(struct s *s, int i) { long *q = &s->c; return (i)[q]; }", "arithmetic");
    refused_by(
        "swap:d,e",
        "static long *first(struct s *s) { return &s->c; }\n\
        long f(struct s *s) { long *v = first(s); long r = 0; for (long *e = v + 3; v != e; v++) r += *v; \
        return r; }",
        "arithmetic",
    );
    fine_by(
        "swap:d,e",
        "static long *first(struct s *s) { return &s->c; }\nlong f(struct s *s) { return *first(s); }",
    );
    refused_by(
        "swap:d,e",
        "int cmp(const void *, const void *);\n\
        void f(struct s *s) { long *base = &s->c; size_t n = 3; qsort(base, n, sizeof(long), cmp); }",
        "arithmetic",
    );
}

#[test]
fn assembly_in_the_source_that_defines_a_function() {
    let peek = "__asm__(\".globl peek\\npeek:\\n movq 8(%rdi), %rax\\n ret\\n\");\nlong peek(void *);\n";
    refused_by(
        "swap:a,b",
        &format!("{peek}static struct s v;\nlong f(void) {{ void *p = &v; return peek(p); }}"),
        "peek()",
    );
    refused_by(
        "swap:a,b",
        &format!("{peek}static struct s v;\nlong f(void) {{ return peek(&v); }}"),
        "peek()",
    );
    fine_by("swap:a,b", &format!("{peek}static struct s v;\nlong f(void) {{ return peek(0) + v.a; }}"));
}

#[test]
fn ranges_told_by_typeof() {
    refused_by(
        "swap:b,c",
        "void f(struct s *v) { memset((char *)(v) + offsetof(typeof(*(v)), c), 0, sizeof(*(v)) - \
            offsetof(typeof(*(v)), c)); }",
        "up to or from",
    );
}

#[test]
fn pointers_to_it_in_arrays_and_members() {
    let view = "struct view { int a; int b; };\n";
    let kept = "static void *items[2];\nint f(struct s *s) { items[0] = s; struct view *x = items[0]; return x->b; }";
    refused_by("swap:a,b", &format!("{view}{kept}"), "a void pointer becomes one to view");
    let added = "static void *all[4];\nstatic int n;\nstatic void add(void *o) { all[n++] = o; }\n\
        int f(struct s *s) { add(s); return ((struct view *)all[0])->b; }";
    refused_by("swap:a,b", &format!("{view}{added}"), "a void pointer becomes one to view");
    let node = "struct node { void *data; };\nint g(const struct node *n) { const struct view *v = n->data; \
        return v->b; }\n\
        int f(void) { static struct s s; struct node n = { .data = &s }; return g(&n); }";
    refused_by("swap:a,b", &format!("{view}{node}"), "a void pointer becomes one to view");
    let other =
        "static void *items[2];\nint f(struct s *s) { items[0] = s; struct s *x = items[0]; return x->b; }";
    fine_by("swap:a,b", other);
}

#[test]
fn members_compared_by_their_addresses() {
    let two = "struct l { int v; };\nstruct s { struct l a; struct l b; int c; };\n\
        static void lock(struct l *x, struct l *y) { if (x > y) { struct l *t = x; x = y; y = t; } x->v = 1; \
        y->v = 2; }\n\
        void f(struct s *s) { lock(&s->b, &s->a); }\n";
    let how = found("swap:a,b", Ask::LAYOUT, &[("x.c", two)]);
    assert!(how.contains("compares the addresses"), "{how:?}");
}

#[test]
fn offsets_in_variables() {
    let key = "static int at = 4;\nstatic int key(const void *p) { return *(const int *)((const char *)p + at); }\n";
    refused_by(
        "swap:b,c",
        &format!("{key}int f(struct s *s) {{ return key(s); }}"),
        "a void pointer becomes one to",
    );
}

#[test]
fn sizes_that_are_numbers_elsewhere() {
    refused_by(
        "pad=64",
        "enum { SHIFT = __builtin_ctz(sizeof(struct s)), MASK = sizeof(struct s) - 1 };",
        "its size",
    );
    refused_by(
        "pad=64",
        "#define SHIFT 3\nstatic struct s tab[8];\n\
        struct s *at(unsigned i) { return (struct s *)((char *)tab + (i << SHIFT)); }",
        "a number",
    );
    fine_by(
        "pad=64",
        "static struct s tab[8];\n\
        struct s *at(unsigned i) { return (struct s *)((char *)tab + i * sizeof(struct s)); }",
    );
    fine_by("pad=64", "struct s *of(long *c) { return (struct s *)((char *)c - offsetof(struct s, c)); }");
    fine_by("pad=64", "struct s *of(char *base, size_t at) { return (struct s *)(base + at); }");
    let arena = "static char arena[1024]; static size_t top;\nstatic void *take(size_t n) { n = (n + 7) & ~7UL;\n\
        if (top + n > sizeof arena) return 0; void *p = arena + top; top += n; return p; }\n\
        struct s *f(void) { return take(sizeof(struct s)); }";
    refused_by("pad=64", arena, "take()");
    let kept = found("swap:a,b", Ask { size: false, ..Ask::LAYOUT }, &[("x.c", &format!("{S}{arena}"))]);
    assert_eq!(kept, "");
    fine_by(
        "pad=64",
        "static size_t used;\nvoid *zmalloc(size_t n) { if (n + 8 < n) return 0; used += n; return malloc(n); }\n\
        struct s *f(void) { return zmalloc(sizeof(struct s)); }",
    );
    refused_by(
        "pad=64",
        "struct page { void *next; char mem[4088]; };\n\
        static int fit(size_t size) { struct page *p = 0; return sizeof p->mem / size; }\n\
        int f(void) { return fit(sizeof(struct s)); }",
        "fit()",
    );
    let sum = "static float asum(int n, const long *x, int step) { long r = 0; for (int i = 0; i < n; i++) r += \
        x[i * step]; return r; }\n";
    let call = |step: &str| {
        format!("{sum}static struct s v[4];\nlong f(void) {{ return asum(4, &v[0].c, {step}); }}")
    };
    refused_by("pad=64", &call("6"), "asum()");
    fine_by("pad=64", &call("step"));
}

#[test]
fn an_alignment_that_stays_is_not_asked_for() {
    let print = "void f(void) { printf(\"%zu\", _Alignof(struct s)); }";
    fine_by("pad=64", print);
    refused_by("align:b=64", print, "its alignment is printed");
}

#[test]
fn what_templates_do() {
    let run = |edit: &str, text: &str| found(edit, Ask::LAYOUT, &[("x.cc", text)]);
    let show = "template <class T> void show(T t) { if constexpr (std::is_aggregate_v<T>) { auto [x, y] = t; \
        use(x, y); } }\n\
        struct s { int a; int b; };\nint f() { s v; show(v); return std::max(1, 2); }\n";
    assert!(run("swap:a,b", show).contains("show"), "{}", run("swap:a,b", show));
    let put = "template <class T> void put(std::vector<char> &o, const T &t) { auto p = reinterpret_cast<const \
        char *>(&t);\n\
        o.insert(o.end(), p, p + sizeof(T)); }\nstruct s { int a; int b; };\nvoid f(std::vector<char> &o) { \
        put(o, s{}); }\n";
    assert!(run("pad=64", put).contains("put"), "{}", run("pad=64", put));
}

#[test]
fn a_variable_of_another_function_is_another() {
    fine_by(
        "pad=64",
        "static void *xalloc(size_t n) { struct s *b = malloc(sizeof(struct s) + n); return b + 1; }\n\
         void f(void) { char *a = xalloc(10), *b = xalloc(20); use(a, b); }",
    );
    refused_by("pad=64", "void f(void) { struct s *b; b = xalloc(48); }", "told its size as a number");
}

#[test]
fn arrays_of_which_more_is_taken() {
    let text = "struct s { char name[8]; char ext[3]; char n; };\n";
    let run = |code: &str| found("ext:after:n", Ask::LAYOUT, &[("x.c", &format!("{text}{code}\n"))]);
    assert!(
        run("int f(struct s *d) { return memcmp(d->name, \"README  TXT\", 11); }")
            .contains("more from name on")
    );
    assert_eq!(run("int f(struct s *d) { return memcmp(d->name, \"README  \", 8); }"), "");
    let set = "static void set(char *to, const char *from) { memcpy(to, from, 11); }\n";
    assert!(
        run(&format!("{set}void f(struct s *d) {{ set(d->name, \"x\"); }}")).contains("reaches from name on")
    );
    let less = "static void set(char *to, const char *from) { memcpy(to, from, 8); }\n";
    assert_eq!(run(&format!("{less}void f(struct s *d) {{ set(d->name, \"x\"); }}")), "");
}

#[test]
fn vectors_of_numbers() {
    let v4 = "typedef long v2 __attribute__((vector_size(16)));\n";
    refused_by(
        "swap:d,e",
        &format!("{v4}v2 f(struct s *s) {{ return *(v2 *)&s->c; }}"),
        "read as one number",
    );
    refused_by("swap:d,e", "void f(struct s *s) { x = *(__m128i *)&s->c; }", "read as one number");
    fine_by("swap:d,e", "typedef long word;\nword f(struct s *s) { return *(word *)&s->c; }");
}

#[test]
fn tables_of_numbers_and_lists_of_pointers() {
    let table = "struct field { const char *name; unsigned off; };\n\
        static const struct field fields[] = { { \"a\", 0 }, { \"b\", 4 } };\n\
        static int get(const void *o, const struct field *f) { return *(const int *)((const char *)o + f->off); }\n";
    refused_by(
        "swap:a,b",
        &format!("{table}int f(struct s *s) {{ return get(s, fields); }}"),
        "a void pointer",
    );
    let list = "struct view { int a; int b; };\nstruct node { void *data; };\n\
        static void push(struct node *n, void *data) { n->data = data; }\n\
        int f(struct s *s, struct node *n) { push(n, s); struct view *v = n->data; return v->b; }";
    refused_by("swap:a,b", list, "a void pointer becomes one to view");
}

#[test]
fn templates_that_hand_on() {
    let one = "class W { template <class T> void one(const T &t) { auto *p = reinterpret_cast<const char \
        *>(&t); use(p, p + sizeof(T)); }\n\
        public: template <class... Ts> void all(const Ts &...ts) { (one(ts), ...); } };\n\
        struct s { int a; int b; };\nvoid f(W &w) { w.all(1, s{}); }\n";
    let how = found("swap:a,b", Ask::LAYOUT, &[("x.cc", one)]);
    assert!(how.contains("all looks at the bytes"), "{how}");
    let lambda = "struct s { int a; int b; };\nvoid f(std::string &o) { auto put = [&o](const auto &x) {\n\
        const char *p = (const char *)std::addressof(x); o.append(p, sizeof x); }; put(s{}); }\n";
    let how = found("swap:a,b", Ask::LAYOUT, &[("x.cc", lambda)]);
    assert!(how.contains("put looks at the bytes"), "{how}");
}

#[test]
fn operators_and_braces() {
    let writer = "struct W { template <class T> W &operator<<(const T &t) { auto *p = reinterpret_cast<const \
    char *>(&t);\n\
        put(p, p + sizeof(T)); return *this; } };\nstruct s { int a; int b; };\n";
    let run = |code: &str| found("swap:a,b", Ask::LAYOUT, &[("x.cc", &format!("{writer}{code}\n"))]);
    assert!(run("void f(W &w) { w << s{}; }").contains("looks at the bytes"));
    assert_eq!(run("void f(W &w, s &x) { w << x.a; std::use(x.b); }"), "");
    let draw = "struct s { int a; int b; };\nvoid draw(s x, int n) { std::use(x.a, n); }\nvoid draw(other o, \
    long n);\n";
    let run = |code: &str| found("swap:a,b", Ask::LAYOUT, &[("x.cc", &format!("{draw}{code}\n"))]);
    assert!(run("void f() { draw({1, 2}, 0); }").contains("draw() is given its members in their order"));
    assert_eq!(run("void f() { draw({.a = 1, .b = 2}, 0); draw({}, 1); }"), "");
}

#[test]
fn text_of_more_than_the_array() {
    let text = "struct s { char name[8]; char ext[3]; char n; };\n";
    let run = |code: &str| found("ext:after:n", Ask::LAYOUT, &[("x.c", &format!("{text}{code}\n"))]);
    assert!(run("void f(struct s *d) { printf(\"%.*s\", 11, d->name); }").contains("more from name on"));
    assert_eq!(run("void f(struct s *d) { printf(\"%.*s\", 8, d->name); }"), "");
    assert!(run("char *f(struct s *d) { return strndup(d->name, 11); }").contains("more from name on"));
    assert!(run("void f(s &d) { std::string v(d.name, 11); use(v); }").contains("more from name on"));
    assert_eq!(run("char *f(struct s *d) { return strndup(d->name, 8); }"), "");
    assert_eq!(run("void at(char *n, int x) { use(n); }\nvoid f(struct s *d) { at(d->name, 11); }"), "");
}

#[test]
fn functions_that_are_listed_with_the_object() {
    let list = "struct cb { void (*fn)(void *); void *ctx; };\nstatic void show(void *ctx) { int *w = ctx; \
    use(w[0], w[1]); }\n\
        static struct s v;\nint f(void) { struct cb c = { .fn = show, .ctx = &v }; c.fn(c.ctx); return 0; }";
    refused_by("swap:a,b", list, "a void pointer becomes one to int");
    let other = "struct cb { void (*fn)(void *); void *ctx; };\nvoid show(void *);\n\
        static struct s v;\nint f(void) { struct cb c = { show, &v }; c.fn(c.ctx); return 0; }\n";
    let shows = "void show(void *ctx) { int *w = ctx; use(w[0], w[1]); }\n";
    let how = found("swap:a,b", Ask::LAYOUT, &[("x.c", &format!("{S}{other}")), ("y.c", shows)]);
    assert!(how.contains("y.c:1: a void pointer becomes one to int"), "{how}");
    let own = "struct cb { void (*fn)(void *); void *ctx; };\nstatic void show(void *ctx) { struct s *w = ctx; \
    use(w->a); }\n\
        static struct s v;\nint f(void) { struct cb c = { .fn = show, .ctx = &v }; c.fn(c.ctx); return 0; }";
    fine_by("swap:a,b", own);
}

#[test]
fn hardware_and_memory_of_numbers() {
    refused_by("swap:a,b", "int f(void) { return ((struct s *)0x40011000)->a; }", "address that is a number");
    let base = |body: &str| {
        format!(
            "static unsigned long base(void) {{ {body} }}\nint f(void) {{ return ((struct s *)base())->a; }}"
        )
    };
    refused_by("swap:a,b", &base("return 0x40011000;"), "base() returns the number of an address");
    fine_by("swap:a,b", &base("return (unsigned long)malloc(100);"));
    fine_by("swap:a,b", &base("return 0x40011000 + get();"));
    fine_by("swap:a,b", "#define NONE ((struct s *)1)\nint f(struct s *p) { return p == (struct s *)0x10; }");
    let moved = |code: &str| {
        let text = format!("{S}{code}\n");
        found("swap:a,b", Ask { size: false, ..Ask::LAYOUT }, &[("x.c", &text)])
    };
    let read = "int f(void) { return ((struct s *)&bus[0])->a; }";
    let filled = format!("static unsigned bus[16] = {{ 1, 2 }};\n{read}");
    assert!(moved(&filled).contains("bus is a place of"), "{}", moved(&filled));
    assert_eq!(moved(&format!("static unsigned bus[16];\n{read}")), "");
}

#[test]
fn templates_of_unions_and_of_what_is_returned() {
    let text = "template <class T> union Bits { T t; unsigned char raw[sizeof(T)]; };\n\
        template <class T> void hex(const T &t) { auto *p = reinterpret_cast<const char *>(&t);\n\
        std::put(p, sizeof(T)); }\nstruct s { int a; int b; };\nstatic s make() { return {}; }\n";
    let run = |code: &str| found("swap:a,b", Ask::LAYOUT, &[("x.cc", &format!("{text}{code}\n"))]);
    assert!(run("void f() { Bits<s> b; std::use(b.raw); }").contains("Bits looks at the bytes"));
    assert!(run("void f() { hex(make()); }").contains("hex looks at the bytes"));
    assert_eq!(run("void f() { std::use(make().a); hex(3); }"), "");
}

#[test]
fn distances_of_objects_and_how_many_fit() {
    let apart = |body: &str| {
        format!(
            "static long gap(const void *p, const void *q) {{ {body} }}\nstruct s v[2];\n\
            long f(void) {{ return gap(&v[0], &v[1]); }}"
        )
    };
    refused_by("pad=64", &apart("return (const char *)q - (const char *)p;"), "gap() counts the bytes");
    let order = Ask { size: false, ..Ask::LAYOUT };
    for body in ["return (const char *)q - (const char *)p;", "return (const char *)q < (const char *)p;"] {
        assert_eq!(found("swap:a,b", order, &[("x.c", &format!("{S}{}\n", apart(body)))]), "");
    }
    refused_by("swap:a,b", &apart("return *((const char *)q - 4);"), "a void pointer becomes one to char");
    refused_by("swap:a,b", &apart("out << (const char *)q; return 0;"), "a void pointer becomes one to char");
    fine_by("pad=64", &apart("return p == q;"));
    let typed = "static long gap(struct s *p, struct s *q) { return q - p; }\nstruct s v[2];\n\
        long f(void) { return gap(&v[0], &v[1]); }";
    fine_by("pad=64", typed);
    let own = "struct s { int a; int b; };\n";
    let run = |code: &str| found("pad=64", Ask::LAYOUT, &[("x.cc", &format!("{own}{code}\n"))]);
    let most = run("void f() { std::vector<s> v; std::cout << v.max_size(); }");
    assert!(most.contains("how many fit into memory is printed"), "{most}");
    assert_eq!(run("void f() { std::vector<int> v; s x; std::cout << v.max_size(); }"), "");
    assert_eq!(run("void f() { std::vector<s> v; if (n > v.max_size()) throw 1; }"), "");
}

#[test]
fn places_that_a_number_tells() {
    let get = "static int get(const void *p, size_t n) { return *(const int *)((const char *)p + n); }\n";
    let words = "get() is told a place in it by a number";
    refused_by("swap:a,b", &format!("{get}int f(struct s *x) {{ return get(x, 4); }}"), words);
    let named = "enum { AT = 4 };\n";
    refused_by("swap:a,b", &format!("{named}{get}int f(struct s *x) {{ return get(x, AT); }}"), words);
    refused_by(
        "swap:a,b",
        "struct s x;\nint f(void) { return (*(int *)((char *)(&x) + (4))); }",
        "read through a pointer to char",
    );
    fine_by("swap:a,b", "struct s x;\nint f(int n) { return (*(int *)((char *)(&x) + (n))); }");
    let set = "static void set(void *p, int v, size_t n) { *(int *)((char *)p + n) = v; }\n";
    let told = "set() is told a place in it by a number";
    refused_by("swap:a,b", &format!("{set}void f(struct s *x, int v) {{ set(x, v, 4); }}"), told);
    let all = "for (size_t at = 0; at < sizeof(struct s); at += 4) use(get(x, at));";
    refused_by("swap:a,b", &format!("{get}void f(struct s *x) {{ {all} }}"), words);
    let subscript = "static int get(void *p, int n) { return ((char *)p)[n]; }\n";
    refused_by("swap:a,b", &format!("{subscript}int f(struct s *x) {{ return get(x, 4); }}"), words);
    fine_by("swap:a,b", &format!("{get}int f(struct s *x) {{ return get(x, offsetof(struct s, b)); }}"));
    let element = "static struct s *at(struct s *v, int n) { return v + n; }\n";
    fine_by("swap:a,b", &format!("{element}int f(struct s *x) {{ return at(x, 4)->a; }}"));
    fine_by("swap:a,b", "static void put(void *p, int n) { use(n); }\nvoid f(struct s *x) { put(x, 4); }");
}

#[test]
fn keys_registers_and_what_stands_for_others() {
    let hash = "unsigned h(struct e *p) { return jhash((const char *)p + offsetof(struct e, key), sizeof(struct s)); }";
    refused_by("swap:a,b", hash, "jhash() is given its bytes");
    let table = "static struct params p = { .key_len = sizeof(struct s), .hash = jhash };";
    refused_by("swap:a,b", table, "its bytes are a key");
    let read =
        "int f(struct s *x, int at) { switch (at) { case offsetof(struct s, b): return x->b; } return 0; }";
    refused_by("swap:a,b", read, "offset of b is compared");
    refused_by("swap:a,b", "void f(struct s *x) { __builtin_dump_struct(x, printf); }", "prints its members");
    let walk = "struct cur { long *at, *end; };\nlong next(struct cur *c) { return *c->at++; }\n";
    let begin = "void f(struct s *x, struct cur *c) { c->at = &x->c; c->end = &x->e; }";
    refused_by("swap:c,d", &format!("{walk}{begin}"), "arithmetic on the address of c");
    let kept = "struct ref { long *at; };\nlong get(struct ref *c) { return *c->at; }\n";
    fine_by("swap:c,d", &format!("{kept}void f(struct s *x, struct ref *c) {{ c->at = &x->c; }}"));
    let control =
        "int control(int cmd, ...) { va_list ap; const int *v = va_arg(ap, const int *); return v[1]; }\n";
    refused_by(
        "swap:a,b",
        &format!("{control}int f(struct s *x) {{ return control(1, x); }}"),
        "takes it for numbers",
    );
    let own =
        "int control(int cmd, ...) { va_list ap; struct s *v = va_arg(ap, struct s *); return v->a; }\n";
    fine_by("swap:a,b", &format!("{own}int f(struct s *x) {{ return control(1, x); }}"));
}

#[test]
fn what_goes_on_from_a_member() {
    let words = "there is arithmetic on the address of a";
    let show = "static void *show(void *arg) { int *p = arg; use(p[1]); return 0; }\n";
    refused_by("swap:a,b", &format!("{show}void f(struct s *x) {{ start(show, &x->a); }}"), words);
    let one = "static void *show(void *arg) { int *p = arg; use(*p); return 0; }\n";
    fine_by("swap:a,b", &format!("{one}void f(struct s *x) {{ start(show, &x->a); }}"));
    let own = "struct s { int a; int b; };\nstruct cursor { int *p; };\nstruct view { const int *q; };\n";
    let run = |code: &str| found("swap:a,b", Ask::LAYOUT, &[("x.cc", &format!("{own}{code}\n"))]);
    let kept = run("void f(s &x) { cursor c{&x.a}; c.p++; use(*c.p); }");
    assert!(kept.contains(words), "{kept}");
    assert!(run("void f(s &x) { view v(&x.a); use(v.q[1]); }").contains(words));
    assert_eq!(run("void f(s &x) { view v(&x.a); use(*v.q); }"), "");
    assert!(run("void f(s &x) { use(*std::next(&x.a)); }").contains(words));
    assert!(run("void f(s &x) { int *p = &x.a; std::advance(p, 1); use(*p); }").contains(words));
    assert!(run("void f(s &x) { auto g = [](int *p) { return p[1]; }; use(g(&x.a)); }").contains(words));
    assert!(run("void f(s &x) { sum({&x.a, 2}); }").contains(words));
    assert_eq!(run("void f(s &x) { sum({&x.a, 1}); }"), "");
    let compared = run("void f(s &x) { use(*std::min(&x.a, &x.b)); }");
    assert!(compared.contains("the addresses of a and b are compared"), "{compared}");
    assert_eq!(run("void f(s &x) { use(std::min(x.a, x.b)); }"), "");
}

#[test]
fn memory_that_is_written_by_numbers() {
    let moved = |code: &str| {
        let text = format!("{S}{code}\n");
        found("swap:a,b", Ask { size: false, ..Ask::LAYOUT }, &[("x.c", &text)])
    };
    let map = "static unsigned file[16];\nstatic void *map(unsigned long at) { return file + (at & 15); }\n";
    let read = "struct s *r = map(0x1000); return r->a;";
    let words = "map() gives an array of numbers";
    assert!(moved(&format!("{map}int f(void) {{ file[1] = 7; {read} }}")).contains(words));
    assert_eq!(moved(&format!("{map}int f(void) {{ {read} }}")), "");
    let made = "static void *map(long at) { char text[8]; text[0] = '1'; return make(text, at); }\n";
    assert_eq!(moved(&format!("{made}int f(void) {{ {read} }}")), "");
    let ram = "static unsigned char ram[64];\n";
    let at =
        |at: &str| format!("{ram}int f(void) {{ struct s *r = (struct s *)(ram + {at}); return r->a; }}");
    assert!(moved(&at("16")).contains("ram is a place of"), "{}", moved(&at("16")));
    assert_eq!(moved(&at("used")), "");
}

#[test]
fn containers_that_put_addresses_in_order() {
    let own = "struct s { int a; int b; };\n";
    let run = |body: &str| {
        let code = format!("{own}void f(s &x) {{ {body} }}\n");
        found("swap:a,b", Ask::LAYOUT, &[("x.cc", &code)])
    };
    let words = "puts the addresses of two members in order";
    assert!(run("std::map<int *, int> m; m[&x.b] = 1; m[&x.a] = 2; show(m);").contains(words));
    assert!(run("std::set<const int *> m{ &x.b, &x.a }; show(m);").contains(words));
    assert!(run("std::set<int *> m; m.insert(&x.b); m.insert(&x.a); show(m);").contains(words));
    let sorted = "std::vector<int *> v = { &x.b, &x.a };";
    assert!(run(&format!("{sorted} std::sort(v.begin(), v.end()); show(v);")).contains(words));
    assert_eq!(run(&format!("{sorted} show(v);")), "");
    assert_eq!(run(&format!("{sorted} std::sort(v.begin(), v.end(), by_value); show(v);")), "");
    let others = "static int up(const void *p, const void *q) { int *x = *(int *const *)p, *y = *(int *const *)q; \
        return x < y ? -1 : x > y; }\n\
        static int value(const void *p, const void *q) { return (*(struct n *const *)p)->n; }\n\
        static void each(int **v, int n) { qsort(v, n, sizeof *v, up); }\n\
        static void all(std::vector<int *> v) { std::sort(v.begin(), v.end()); }\n";
    let run_with = |body: &str| {
        let code = format!("{own}{others}void f(s &x) {{ {body} }}\n");
        found("swap:a,b", Ask::LAYOUT, &[("x.cc", &code)])
    };
    let array = "int *v[2] = { &x.b, &x.a };";
    assert!(run_with(&format!("{array} qsort(v, 2, sizeof *v, up);")).contains(words));
    assert!(run_with(&format!("{array} each(v, 2);")).contains(words));
    assert!(run_with("all({&x.b, &x.a});").contains(words));
    assert_eq!(run_with(&format!("{array} qsort(v, 2, sizeof *v, value);")), "");
    assert_eq!(run_with(&format!("{array} show(v);")), "");
    assert_eq!(run("std::unordered_map<int *, int> m; m[&x.b] = 1; m[&x.a] = 2; show(m);"), "");
    assert_eq!(run("std::map<int, int *> m; m[1] = &x.b; m[2] = &x.a; show(m);"), "");
}

#[test]
fn members_whose_addresses_a_template_orders() {
    let own = "struct s { int a; int b; };\n";
    let run = |body: &str| {
        let code = format!(
            "{own}template <class T> bool first(T *p, T *q) {{ {body} }}\n\
            bool f(s &x) {{ return first(&x.a, &x.b); }}\n"
        );
        found("swap:a,b", Ask::LAYOUT, &[("x.cc", &code)])
    };
    let words = "first() compares the addresses of two members";
    assert!(run("return std::less<>()(p, q);").contains(words));
    assert!(run("return std::less<T *>{}(p, q);").contains(words));
    assert!(run("T *low = std::min(p, q); return low == p;").contains(words));
    assert_eq!(run("return std::less<>()(*p, *q);"), "");
}

#[test]
fn functions_that_are_given_the_size() {
    let call = |f: &str, use_it: &str| format!("{f}\nvoid g(void) {{ struct s r; {use_it} }}");
    let pages = "static int pages(size_t n) { return 4096 / n; }";
    refused_by("pad=64", &call(pages, "int k = pages(sizeof r); use(k);"), "divides a number of bytes by");
    let path = "static int large(size_t n) { return n > 32; }";
    refused_by("pad=64", &call(path, "if (large(sizeof r)) use(1);"), "compares with a number");
    let rounded = "static size_t up(size_t n) { return (n + 15) & ~(size_t)15; }";
    refused_by(
        "pad=64",
        &call(rounded, "size_t n = up(sizeof r); printf(\"%zu\", n);"),
        "is rounded or so by up()",
    );
    fine_by("pad=64", &call(rounded, "void *p = malloc(up(sizeof r)); use(p);"));
    fine_by(
        "pad=64",
        &call(
            "static void *xmalloc(size_t n) { if (n < 16) n = 16; return malloc(n); }",
            "use(xmalloc(sizeof r));",
        ),
    );
}
