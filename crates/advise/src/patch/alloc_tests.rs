use super::*;

const HEAD: &str = "#include <stdlib.h>\n#include \"s.h\"\n";
const TYPES: &str = "struct stats { long a; };\ntypedef struct other { int x; } other_t;\n\
    struct server { struct stats *stats; other_t *others; struct stats **all; };\n";

fn run(body: &str, whole: bool, sites: &[Site]) -> Result<String, String> {
    let text = format!("{HEAD}{body}");
    let types = ["stats".to_string()];
    let goal = Goal { types: &types, bytes: 64, whole, strict: whole };
    let files = [("s.h", TYPES), ("src/main.c", text.as_str())];
    let out = rewrite(&goal, &files, sites).map_err(|e| e.to_string())?;
    assert!(out.len() <= 1 && out.iter().all(|c| c.path == "src/main.c"));
    Ok(out.into_iter().next().map_or(text.clone(), |c| c.text))
}

/// The body behind the includes and what was put below them.
fn check(body: &str, whole: bool, expect: &str) {
    let text = run(body, whole, &[]).unwrap();
    assert!(text.starts_with(HEAD) && text.ends_with(expect), "{text}");
}

#[test]
fn sizeof_of_the_type_of_a_variable_and_of_a_member_is_found() {
    let one = "void f(void) { struct stats *p = malloc(sizeof(struct stats)); }\n";
    check(one, true, "void f(void) { struct stats *p = aligned_alloc(64, sizeof(struct stats)); }\n");
    check(one, false, "= aligned_alloc(64, (sizeof(struct stats) + 63) / 64 * 64); }\n");
    check(
        "void f(struct stats *p) { p = malloc(8 * sizeof *p); }\n",
        true,
        "{ p = aligned_alloc(64, 8 * sizeof *p); }\n",
    );
    check(
        "void f(struct server *s, int n) { s->stats = calloc(n, sizeof(*s->stats)); }\n",
        true,
        "{ s->stats = calloc_aligned(n, sizeof(*s->stats)); }\n",
    );
    check(
        "int f(struct server *s, int n) { s->stats = realloc(s->stats, n * sizeof(s->stats[0])); }\n",
        true,
        "= realloc_aligned(s->stats, n * sizeof(s->stats[0])); }\n",
    );
    check(
        "int f(struct server *s, int n) { *s->all = malloc(n * sizeof(**s->all)); }\n",
        true,
        "= malloc_aligned(n * sizeof(**s->all)); }\n",
    );
}

#[test]
fn types_named_without_struct_and_unions_are_found() {
    let text = "#include <cstdlib>\nstruct stats { long a; };\nunion u { long x; };\n\
        void f() { auto p = (stats *)std::malloc(sizeof(stats)); union u *q = malloc(sizeof *q); }\n";
    let types = ["stats".to_string(), "u".to_string()];
    let goal = Goal { types: &types, bytes: 64, whole: true, strict: true };
    let out = rewrite(&goal, &[("a.cc", text)], &[]).unwrap();
    assert!(out[0].text.contains("(stats *)aligned_alloc(64, sizeof(stats))"), "{}", out[0].text);
    assert!(out[0].text.contains("aligned_alloc(64, sizeof *q)"), "{}", out[0].text);
}

#[test]
fn other_types_and_pointers_stay() {
    let same = |body: &str| assert_eq!(run(body, true, &[]).unwrap(), format!("{HEAD}{body}"));
    same("void f(struct server *s) { s->others = calloc(4, sizeof(*s->others)); }\n");
    same("void f(struct server *s) { s->all = malloc(4 * sizeof(*s->all)); }\n");
    same("void f(struct server *s) { s->all = malloc(4 * sizeof(struct stats *)); }\n");
    same("void f(other_t *stats) { stats = malloc(sizeof(*stats)); }\n");
    same("void f(void) { struct stats *p; posix_memalign((void **)&p, 64, sizeof(*p)); }\n");
    same("void f(struct pool *p) { p->malloc(sizeof(struct stats)); }\n");
}

#[test]
fn a_function_is_put_below_the_includes_once() {
    let body = "void f(struct server *s) { s->stats = calloc(4, sizeof(*s->stats)); }\n";
    let once = run(body, true, &[]).unwrap();
    assert!(once.contains("#include <string.h>\n\n/* calloc() of whole blocks"), "{once}");
    let more = format!(
        "{}void g(struct server *s) {{ s->stats = calloc(9, sizeof(*s->stats)); }}\n",
        &once[HEAD.len()..]
    );
    let twice = run(&more, true, &[]).unwrap();
    assert_eq!(twice.matches("static void *").count(), 1, "{twice}");
    assert_eq!(twice.matches("calloc_aligned(").count(), 3, "{twice}");
}

#[test]
fn what_cannot_be_changed_is_refused_with_its_place() {
    let site = |line| [Site { file: "/build/src/main.c".into(), line, function: "malloc".into() }];
    let body = "void *get(size_t n) { return malloc(n); }\n";
    assert!(
        run(body, true, &site(3)).unwrap_err().starts_with("/build/src/main.c:3: malloc there is not seen")
    );
    let body = "void f(struct stats *p) { p = malloc(sizeof(*p)); }\n";
    assert!(run(body, true, &site(3)).is_ok() && run(body, true, &site(4)).is_err());
    let own = format!("#define malloc(n) my_malloc(n)\n{body}");
    assert!(run(&own, true, &[]).unwrap_err().contains("src/main.c:3: the project has a malloc of its own"));
    let own = format!("void free(void *p) {{ }}\n{body}");
    assert!(run(&own, true, &[]).unwrap_err().contains("a free of its own"));
    let macros = "#define NEW(t) malloc(sizeof(t))\nvoid *f(void) { return NEW(struct stats); }\n";
    assert!(run(macros, true, &[]).unwrap_err().contains("src/main.c:4: the macro NEW allocates it"));
    let placed = "void f(char *b) { new (b) stats; }\n";
    assert!(run(placed, true, &[]).unwrap_err().contains("placement new"));
    let body = "void f(struct stats *p) { posix_memalign((void **)&p, 32, sizeof(*p)); }\n";
    assert!(run(body, true, &[]).unwrap_err().contains("another alignment than 64"));
}
