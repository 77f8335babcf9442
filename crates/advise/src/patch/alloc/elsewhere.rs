//! Memory that is aligned to 16 bytes at most, whatever the type needs: `alloca`, functions around C's heap, a class's
//! own `operator new`, allocators of containers, thrown objects, locals of coroutines.

use super::types::Types;
use super::{Goal, HEAP};
use crate::patch::body::Source;
use crate::patch::scan::Code;

/// Functions and class templates of a project that call C's heap.
#[derive(Debug, Default)]
pub(super) struct Wrappers<'t> {
    types: Option<&'t Types>,
    functions: Vec<String>,
    allocators: Vec<String>,
}

impl<'t> Wrappers<'t> {
    pub(super) fn of(files: &[(&str, &str)], types: &'t Types) -> Wrappers<'t> {
        let mut out = Wrappers { types: Some(types), ..Wrappers::default() };
        for (_, text) in files.iter().filter(|f| HEAP.iter().any(|h| f.1.contains(h))) {
            let source = Source::new(text);
            let code = Code::new(&source);
            for call in ["malloc", "calloc", "realloc"].into_iter().flat_map(|h| code.places(h).to_vec()) {
                out.functions.extend(code.void_function(call).map(String::from));
                out.allocators.extend(class_template(&code, call));
            }
        }
        out
    }

    /// Why an object at `i` is not aligned.
    pub(super) fn at(&self, code: &Code<'_, '_>, i: usize, goal: &Goal<'_>) -> Option<String> {
        let ours = |j: usize| goal.types.iter().any(|t| t == code.text(j));
        let word = code.text(i);
        match word {
            "alloca" | "__builtin_alloca" => self.is_for(code, i, goal).then(|| "alloca gives it".into()),
            "throw" | "make_exception_ptr" => {
                let (_, end) = code.statement(i);
                let first =
                    (i + 1..end).find(|&j| !matches!(code.text(j), ":" | "<" | "(") && !is_scope(code, j));
                first.is_some_and(ours).then(|| "memory of thrown objects has 16 bytes of alignment".into())
            }
            "co_await" | "co_yield" | "co_return" => {
                let (from, to) = code.function(i);
                let local = (from..to).any(|j| ours(j) && is_local(code, j));
                local.then(|| "the frame of a coroutine holds it".into())
            }
            "operator" if code.text(i + 1) == "new" => self.operator(code, i, goal),
            _ if code.text(i + 1) == "<" && self.allocators.iter().any(|a| a == word) => {
                let close = code.matching(i + 1, ["<", ">"], 40)?;
                let held = (i + 2..close).any(ours);
                held.then(|| format!("{word} allocates it by malloc"))
            }
            _ => (self.wraps(word) && self.is_for(code, i, goal)).then(|| format!("{word}() gives it")),
        }
    }

    /// The call at `i` is told a size of one of the types, and its value becomes a pointer.
    fn is_for(&self, code: &Code<'_, '_>, i: usize, goal: &Goal<'_>) -> bool {
        let Some(close) = code.closing(i + 1).filter(|_| code.text(i + 1) == "(") else { return false };
        let before = i.checked_sub(1).map_or("", |b| code.text(b));
        let value = matches!(before, "=" | "return" | ")" | "(" | ",") || before == "?" || before == ":";
        value
            && (i + 2..close).filter(|&j| code.text(j) == "sizeof").any(|j| {
                let named = (j + 1..close).take(5).any(|k| goal.types.iter().any(|t| t == code.text(k)));
                named || self.types.and_then(|t| t.measured(code, j)).is_some_and(|t| goal.types.contains(&t))
            })
    }

    /// The function allocates by C's heap, or its name says so.
    fn wraps(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        let own = self.functions.iter().any(|f| f == name) || lower.contains("alloc");
        own && !lower.contains("align")
            && !lower.contains("free")
            && !HEAP.contains(&name)
            && name != "valloc"
    }

    /// `operator new` of one of the types, by C's heap.
    fn operator(&self, code: &Code<'_, '_>, i: usize, goal: &Goal<'_>) -> Option<String> {
        let open = i + 2 + 2 * usize::from(code.text(i + 2) == "[");
        let close = code.closing(open)?;
        let plain = code.text(open) == "("
            && !(open..close).any(|j| code.text(j) == "align_val_t" || code.text(j) == ",");
        let body = code.matching(close + 1, ["{", "}"], 200).filter(|_| plain)?;
        let heap = (close + 1..body).any(|j| HEAP.contains(&code.text(j)) && code.text(j) != "aligned_alloc");
        let open = code.enclosing(i)?;
        let start = code.start_of(open);
        let own = (start..open).any(|j| goal.types.iter().any(|t| t == code.text(j)));
        (heap && own).then(|| "its own operator new calls malloc".into())
    }
}

/// `app::` before a name.
fn is_scope(code: &Code<'_, '_>, j: usize) -> bool {
    (code.text(j + 1), code.text(j + 2)) == (":", ":")
}

/// `S x;`, `S x{1};`: an object, neither a pointer nor what is called.
fn is_local(code: &Code<'_, '_>, j: usize) -> bool {
    let begins = matches!(code.text(j.wrapping_sub(1)), ";" | "{" | "}" | "struct" | "class" | ":" | "const");
    begins && code.is_word(j + 1) && matches!(code.text(j + 2), ";" | "{" | "=" | "(" | "," | "[")
}

/// Name of the class template around a call that allocates what its parameter says.
fn class_template(code: &Code<'_, '_>, call: usize) -> Option<String> {
    let mut at = call;
    while let Some(open) = code.enclosing(at) {
        let start = code.start_of(open);
        let class =
            (start..open).find(|&j| matches!(code.text(j), "struct" | "class") && code.text(j + 2) != ">");
        let class = class.filter(|_| code.text(start) == "template").map(|_| ());
        let name = (start..open).rev().find(|&j| matches!(code.text(j.wrapping_sub(1)), "struct" | "class"));
        if class.is_some() {
            return name.map(|n| code.text(n).to_string());
        }
        at = open;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Goal, rewrite};

    fn found(path: &str, code: &str) -> String {
        let text = format!("struct s {{ int a; long b; }};\n{code}\n");
        let types = ["s".to_string()];
        let goal = Goal { types: &types, bytes: 64, whole: true, strict: true };
        rewrite(&goal, &[(path, &text)], &[]).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn memory_that_c_gives() {
        let run = |code: &str| found("x.c", code);
        assert!(
            run("void f(int n) { struct s *v = alloca(n * sizeof *v); use(v); }").contains("alloca gives it")
        );
        let own = "void *grab(unsigned long n) { void *p = malloc(n); return p ? p : die(); }\n";
        let call = "void f(void) { struct s *p = grab(sizeof *p); use(p); }";
        assert!(run(&format!("{own}{call}")).contains("grab() gives it"));
        assert!(
            run("void f(void) { struct s *p = xmalloc(sizeof(struct s)); use(p); }")
                .contains("xmalloc() gives")
        );
        let other = "struct t { int a; };\nvoid f(void) { struct t *p = xmalloc(sizeof *p); use(p); }";
        assert_eq!(run(other), "");
        assert_eq!(run("void f(void) { struct s *p = alloc_aligned(64, sizeof *p); use(p); }"), "");
        assert_eq!(run("void f(struct s *p) { total_allocated += sizeof *p; log_alloc(n, p); }"), "");
    }

    #[test]
    fn memory_that_cpp_gives() {
        let run = |code: &str| found("x.cc", code);
        let mal = "template <class T> struct Mal {\n\
            T *allocate(std::size_t n) { return static_cast<T *>(std::malloc(n * sizeof(T))); }\n};\n";
        assert!(run(&format!("{mal}std::vector<s, Mal<s>> v;")).contains("Mal allocates it"));
        assert_eq!(run(&format!("{mal}std::vector<int, Mal<int>> v;\nstd::vector<s> w;")), "");
        let own = "class s { public: int a; void *operator new(std::size_t n) { return std::malloc(n); } };";
        assert!(run(own).contains("operator new"));
        assert_eq!(run(&own.replace("class s {", "class t {")), "");
        assert!(run("void f() { throw app::s(); }").contains("thrown"));
        assert_eq!(run("void f() { throw std::runtime_error(\"s\"); }"), "");
        assert!(run("Task f() { s x; co_await g(x); }").contains("coroutine"));
        assert_eq!(run("Task f(s *x) { co_await g(x); }\nvoid h() { s x; }"), "");
    }
}
