//! Addresses that travel to a function of the sources as pointers to bytes, and become pointers to structs again there.

use super::body::Source;
use super::neighbours::{macro_text, may_be_function, members_in};
use super::objects::{Cast, Objects, is_scalar};
use super::overlay::Over;
use super::scan::Code;

/// Tokens of a function that are looked at.
const BODY_TOKENS_MAX: usize = 4000;

/// The cast is an argument of functions in `files` that only cast it back: to the type itself, or to structs that it
/// does not begin like (one parameter for several types).
pub(super) fn is_cast_back(objects: &Objects<'_, '_>, cast: &Cast<'_>, files: &[(&str, &str)]) -> bool {
    let Some(function) = objects.call_around(cast.first, cast.end) else { return false };
    let name = objects.text(function);
    let called = objects.code.is_word(function)
        && !matches!(objects.text(function.wrapping_sub(1)), "." | ">" | ":" | "*" | "(");
    let arguments = objects.arguments(function + 1);
    let Some(index) = arguments.iter().position(|a| *a == (cast.first, cast.end)).filter(|_| called) else {
        return false;
    };
    if files.iter().any(|f| macro_text(f.1, name).is_some()) {
        return false;
    }
    let own = objects.names();
    let is_ours = |ty: &str| own.iter().any(|n| n == ty);
    let unlike = |ty: &str| {
        let members = own.iter().map(|n| members_in(files, n)).find(|m| !m.is_empty()).unwrap_or_default();
        let other = !members_in(files, ty).is_empty() && !members.is_empty();
        other && Over::Like(ty.into()).prefix(&members, files, own) == 0
    };
    let mut bodies = files.iter().filter(|f| may_be_function(f.1, name)).peekable();
    bodies.peek().is_some()
        && bodies.all(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            casts_of_parameter(&code, name, index)
                .is_some_and(|types| types.iter().all(|ty| is_ours(ty) || unlike(ty)))
        })
}

/// The sources declare the function `name` with a parameter that points to one of the types that are asked about: what
/// it does with the object is seen there.
pub(super) fn is_typed_parameter(
    objects: &Objects<'_, '_>,
    name: &str,
    index: usize,
    files: &[(&str, &str)],
) -> bool {
    let ours = |code: &Code<'_, '_>, (from, to): (usize, usize)| {
        (from..to).any(|k| objects.names().iter().any(|n| n == code.text(k))).then_some(())
    };
    parameter(name, index, files, ours).is_some()
}

/// What the parameter of the function `name` points to, as the first of the sources declares it that does.
pub(super) fn parameter_type(name: &str, index: usize, files: &[(&str, &str)]) -> Option<String> {
    parameter(name, index, files, |code, (from, to)| {
        let star = (from..to).find(|&k| code.text(k) == "*")?;
        let words = (from..star).rev().map(|k| code.text(k));
        words.filter(|w| !matches!(*w, "const" | "volatile")).map(str::to_string).next()
    })
}

/// What `of` tells of the parameter that is a pointer, in the first declaration of the function `name` where it tells
/// anything.
fn parameter<R>(
    name: &str,
    index: usize,
    files: &[(&str, &str)],
    of: impl Fn(&Code<'_, '_>, (usize, usize)) -> Option<R>,
) -> Option<R> {
    files.iter().filter(|f| f.1.contains(name)).find_map(|f| {
        let source = Source::new(f.1);
        let code = Code::new(&source);
        code.places(name).iter().filter(|&&j| j > 0).find_map(|&j| {
            let typed = code.is_word(j - 1) && code.text(j - 1) != "return" || code.text(j - 1) == "*";
            let close = code.closing(j + 1).filter(|_| typed && code.text(j + 1) == "(")?;
            let ends = matches!(code.text(code.behind_attributes(close + 1)), ";" | "{");
            let (from, to) = code.arguments(j + 1).get(index).copied().filter(|_| ends)?;
            let pointer = (from..to).filter(|&k| code.text(k) == "*").count() == 1;
            of(&code, (from, to)).filter(|_| pointer)
        })
    })
}

/// The types of pointers that the functions `name` cast their parameter `index` to; `None` where one does anything else
/// with it, or where there is none.
fn casts_of_parameter<'a>(code: &Code<'_, 'a>, name: &str, index: usize) -> Option<Vec<&'a str>> {
    let mut out = None;
    for &i in code.places(name).iter().filter(|&&i| code.text(i + 1) == "(") {
        let Some(close) = code.closing(i + 1).filter(|c| code.text(c + 1) == "{") else { continue };
        let &(from, to) = code.arguments(i + 1).get(index)?;
        let parameter = to.checked_sub(1).filter(|&p| p > from && code.is_word(p))?;
        let end = code.matching(close + 1, ["{", "}"], BODY_TOKENS_MAX)?;
        let uses = code.places(code.text(parameter)).iter().filter(|&&j| close < j && j < end);
        let types = out.get_or_insert_with(Vec::new);
        for &j in uses.filter(|&&j| !is_member(code, j) && !is_compared(code, j)) {
            types.push(cast_to(code, j)?);
        }
    }
    out
}

fn is_member(code: &Code<'_, '_>, j: usize) -> bool {
    code.text(j - 1) == "." || (code.text(j - 1), code.text(j - 2)) == (">", "-")
}

/// `p == NULL`, `!p`.
fn is_compared(code: &Code<'_, '_>, j: usize) -> bool {
    let equal = matches!(code.text(j + 1), "=" | "!") && code.text(j + 2) == "=";
    let nothing = matches!(code.text(j + 3), "0" | "NULL" | "nullptr");
    (equal && nothing) || code.text(j - 1) == "!"
}

/// The struct in `(const struct s *)p` of the `p` at `j`.
fn cast_to<'a>(code: &Code<'_, 'a>, j: usize) -> Option<&'a str> {
    let close = j - 1;
    let open = code.cast_before(close).filter(|_| code.text(close - 1) == "*")?;
    let stars = (open..close).filter(|&k| code.text(k) == "*").count();
    let words = (open + 1..close).filter(|&k| code.is_word(k));
    let mut types =
        words.map(|k| code.text(k)).filter(|w| !matches!(*w, "struct" | "const" | "volatile" | "union"));
    let ty = types.next().filter(|ty| stars == 1 && *ty != "void" && !is_scalar(ty))?;
    types.next().is_none().then_some(ty)
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    const RULE: &str = "struct rule { long next; int index; };\nstruct state { char *name; int n; };\n\
        struct head { long next; };\n";

    fn harmless(code: &str) -> bool {
        let text = format!("{RULE}{code}\n");
        check("rule", None, Ask::LAYOUT, &[("x.c", &text)]).is_ok()
    }

    #[test]
    fn a_parameter_that_is_only_cast_back() {
        let call = "void g(struct rule *r) { add(1, (char *)r); }";
        let add = |body: &str| harmless(&format!("void add(int kind, char *arg) {{ {body} }}\n{call}"));
        assert!(add("if (!arg || arg == NULL) return; use((struct rule *)arg);"));
        assert!(add("if (kind) use((struct rule *)arg); else other((struct state *)arg);"));
        // A struct that begins like it, numbers, bytes, and what goes on elsewhere.
        assert!(!add("if (kind) use((struct rule *)arg); else first((struct head *)arg);"));
        assert!(!add("use((struct rule *)arg); sum((long *)arg);"));
        assert!(!add("use((struct rule *)arg); putchar(arg[0]);"));
        assert!(!add("struct rule *r = (struct rule *)arg; char *q = arg; use(r, q);"));
        assert!(!add("use((struct unseen *)arg);"));
        // Nobody sees what it does, or a macro does something.
        assert!(!harmless(call));
        assert!(!harmless(&format!("#define add(k, a) putchar(*(a))\n{call}")));
        let pointer = "void add(int k, char *a) { use((struct rule *)a); }\n";
        assert!(!harmless(&format!(
            "{pointer}void g(struct o *o, struct rule *r) {{ o->add(1, (char *)r); }}"
        )));
    }

    #[test]
    fn a_size_of_another_struct_is_no_size_of_it() {
        let own = "struct conf { long a; long b; };\nstruct data { int id; struct conf c; };\n\
            struct ctx { struct conf c; char *buf; };\nstruct all { struct data d; int n; };\n";
        let run = |code: &str| {
            let text = format!("{own}{code}\n");
            check("conf", None, Ask::LAYOUT, &[("x.c", &text)]).is_ok()
        };
        let find = "int find(int n, struct data *p, unsigned long size);";
        let with =
            |size: &str| run(&format!("{find}\nvoid f(struct data *p) {{ find(1, p, sizeof({size})); }}"));
        assert!(with("struct ctx"));
        // Nobody says what the function takes, or it takes bytes.
        assert!(!run("void f(struct data *p) { find(1, p, sizeof(struct ctx)); }"));
        let bytes = "int find(int n, void *p, unsigned long size);";
        assert!(!run(&format!("{bytes}\nvoid f(struct data *p) {{ find(1, p, sizeof(struct ctx)); }}")));
        assert!(!with("struct data") && !with("*p") && !with("struct all"));
        // Those that are its first bytes.
        assert!(!with("struct conf") && !with("p->c"));
        assert!(!run("void f(struct ctx *x) { find(x, sizeof x->c); }"));
    }
}
