//! Idioms of kernels that look like uses of a layout, and are none.

use super::{Ask, check};
use crate::edit::Edit;

const TYPES: &str = "struct list { struct list *next; };\n\
    struct s {\n\tint a;\n\tint b;\n\tstruct list uc;\n\tstruct list mc;\n\tlong c;\n};\n\
    struct holder {\n\tstruct s s;\n\tint x;\n};\n";

fn asked(code: &str, edit: &str, size: bool) -> Option<String> {
    let edits: Vec<Edit> = vec![edit.parse().expect("a move")];
    let text = format!("{TYPES}{code}\n");
    let ask = Ask { size, ..Ask::LAYOUT };
    check("s", Some(&edits), ask, &[("a.c", &text)]).err().map(|e| e.to_string())
}

fn fine(code: &str) {
    assert_eq!(asked(code, "swap:a,b", true), None, "{code}");
}

fn refused(code: &str, words: &str) {
    let found = asked(code, "swap:a,b", true).unwrap_or_default();
    assert!(found.contains(words), "{code}: {found:?}");
}

#[test]
fn a_table_of_functions_maps_nothing() {
    fine("int f(struct s *s, struct area *v) { return s->op->mmap(s, v); }");
    refused("void f(void) { struct s *p = mmap(0, 64, 3, MAP_SHARED, fd, 0); }", "mmap() maps it");
}

#[test]
fn assembly_that_sets_a_pointer_does_not_look_at_the_object() {
    fine("struct s *current(void) { struct s *p; asm(\"mrc %0\" : \"=r\"(p)); return p; }");
    fine(
        "extern struct s *now;\nvoid *f(void) { void *v; asm(\"ldr %0, now\\n ldr %0, [%0]\" : \"=r\"(v)); return v; }",
    );
    let read = "asm(\"mov now, %0\\n mov 4(%0), %0\" : \"=r\"(v));";
    let behind = &format!("extern struct s *now;\nint f(void) {{ int v; {read} return v; }}");
    refused(behind, "assembly names now");
    refused("void f(struct s *p) { asm(\"mov 4(%0), %1\" : \"+r\"(p)); }", "assembly is given its address");
    refused("void f(struct s *p) { asm(\"inc 4(%0)\" : : \"r\"(p)); }", "assembly is given its address");
}

#[test]
fn a_variable_called_like_the_struct_is_of_its_own_type() {
    fine("int f(void *u) { struct other s; return copy_from_user(&s, u, sizeof(s)); }");
    fine("int f(struct other *s, char *u) { return memcmp(s, u, sizeof(*s)); }");
    refused(
        "int f(void *u) { struct s t; return copy_from_user(&t, u, sizeof(struct s)); }",
        "copy_from_user()",
    );
    refused("int f(void *u) { struct s s; return copy_from_user(&s, u, sizeof(s)); }", "copy_from_user()");
    refused(
        "int f(struct other *o) { return 0; }\nint g(int s) { return s; }\nstatic_assert(sizeof(struct s) == 9);",
        "static_assert",
    );
    fine("int f(struct other *o, void *u) { return copy_from_user(&o->s, u, sizeof(o->s)); }");
}

#[test]
fn assertions_on_what_is_around_it_need_another_size() {
    let first = "void f(void) { BUILD_BUG_ON(offsetof(struct holder, s) != 0); }";
    let size = "_Static_assert(sizeof(struct holder) == 48, \"\");";
    let inner = "_Static_assert(offsetof(struct holder, s.b) == 4, \"\");";
    for code in [first, size] {
        assert_eq!(asked(code, "swap:a,b", false), None, "{code}");
    }
    assert!(asked(size, "align:b=64", true).is_some());
    assert!(asked(inner, "swap:a,b", false).is_some());
}

#[test]
fn assertions_on_a_member_alone() {
    fine("void f(void) { BUILD_BUG_ON(sizeof(struct other) > sizeof(((struct s *)0)->mc)); }");
    refused("void f(void) { BUILD_BUG_ON(sizeof(struct s) > 64); }", "BUILD_BUG_ON");
    refused("void f(void) { BUILD_BUG_ON(offsetof(struct s, b) != 4); }", "BUILD_BUG_ON");
}

#[test]
fn places_behind_a_cast_in_parentheses() {
    fine("void *f(struct s *s, struct attr *a) { return (void *)(((char *)s) + a->offset); }");
    fine("void *f(struct s *s) { return ((u8 *)s) + sizeof(struct s); }");
    refused("int f(struct s *s) { return ((u8 *)s)[3]; }", "read through a pointer to u8");
    refused("int f(struct s *s) { return *(((u8 *)s) + 3); }", "read through a pointer to u8");
}

#[test]
fn loops_made_by_macros_define_no_function() {
    fine("void f(struct s *p, struct set *o) { for_each_address(a, &p->mc) { o->mc[o->n] = a->x; } }");
    refused(
        "int g(struct list *l) { return l[1].next != 0; }\nint f(struct s *p) { return g(&p->uc); }",
        "arithmetic",
    );
}

#[test]
fn a_pointer_kept_in_another_object_is_not_walked_by_a_member_of_its_name() {
    fine(
        "void f(struct s *p, struct e *e, struct g *g, int n) { g->l[n] = g->l[0]; e->l = &p->uc; g->l[n] = 0; }",
    );
    refused("int f(struct s *p) { struct list *l = &p->uc; return l[1].next != 0; }", "arithmetic");
}

#[test]
fn a_function_that_takes_the_object_as_such_has_another_key() {
    let hash =
        "static int hash(const void *key, const struct s *p) { const int *k = key; return k[0] + k[1]; }\n";
    fine(&format!(
        "{hash}int f(struct t *t, const void *key, struct s *p) {{ return find(t, hash, key, p); }}"
    ));
    let compare = "static int cmp(const void *a, const void *b) { const int *k = a; return k[0] + k[1]; }\n";
    refused(
        &format!("{compare}void f(struct s *p) {{ qsort(p, 4, sizeof(*p), cmp); }}"),
        "a void pointer becomes",
    );
}
