//! Objects that are looked at as another type without a cast of their address: under another declaration, through a
//! function that nobody declared.

use super::assembly::variable;
use super::body::Source;
use super::objects::is_scalar;
use super::overlay::{Over, Overlay};
use super::scan::Code;

/// Words beside the name of a type.
const QUALIFIERS: [&str; 6] = ["const", "volatile", "struct", "class", "union", "restrict"];

impl Overlay<'_, '_, '_> {
    /// Such a use at `i`.
    pub(super) fn elsewhere(&self, i: usize) -> Option<(Over, String)> {
        match self.objects.text(i) {
            "alias" => self.alias(i),
            "(" => self.as_function(i),
            _ if self.objects.code.is_word(i) => {
                self.declared(i).or_else(|| self.unprototyped(i)).or_else(|| self.stepped(i))
            }
            _ => None,
        }
    }

    /// `extern int config[4];`, where another file defines `struct config config`.
    fn declared(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let name = objects.text(i);
        if !objects.passed().variables.contains(name) || objects.code.enclosing(i).is_some() {
            return None;
        }
        let declared = objects.code.declaration(i).filter(|_| i > 0)?;
        let start = objects.code.start_of(i);
        let external =
            (start..i).any(|j| objects.text(j) == "extern") && objects.code.open_before(i).is_none();
        let ty = objects.text(declared.ty);
        let other = external && !objects.is_name(declared.ty) && !is_deduced(ty);
        other.then(|| (over(ty), format!("{name} is declared as {ty} here")))
    }

    /// `extern struct view v __attribute__((alias("x")));`
    fn alias(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let name = objects.text(i + 2).trim_matches('"');
        let aliased = objects.text(i + 1) == "(" && name.len() + 2 == objects.text(i + 2).len();
        let ours = || objects.code.places(name).iter().any(|&j| variable(objects, j).is_some());
        if !aliased || !ours() {
            return None;
        }
        let start = objects.code.start_of(i);
        let declared = (start + 1..i).find_map(|j| objects.code.declaration(j))?;
        let ty = objects.text(declared.ty);
        (!objects.is_name(declared.ty)).then(|| (over(ty), format!("{name} has an alias of the type {ty}")))
    }

    /// The function defined at `i` is called with an object where no parameters are declared.
    fn unprototyped(&self, i: usize) -> Option<(Over, String)> {
        let code = &self.objects.code;
        let (ty, parameter, close) = self.objects.passed().unprototyped(code, i)?;
        let (from, to) = code.function(close + 2);
        let over = if code.walks(parameter, from, to) { Over::Numbers } else { Over::First };
        Some((over, format!("{}() is given it without a prototype, and takes {ty} *", code.text(i))))
    }

    /// `q += 8`, `q + 8`, where `void *q = &x`: GNU's C counts bytes.
    fn stepped(&self, i: usize) -> Option<(Over, String)> {
        let text = |j: usize| self.objects.text(j);
        let at = i + 2 + usize::from(text(i + 2) == "=");
        let number = text(at).starts_with(|c: char| c.is_ascii_digit()) && text(at) != "0";
        let behind = matches!(text(i + 1), "+" | "-") && text(i + 1) == text(i + 2);
        let once = behind || (text(i.wrapping_sub(1)) == "+" && text(i.wrapping_sub(2)) == "+");
        let moved = once || matches!(text(i + 1), "+" | "-") && number;
        let ours = moved && self.objects.is_object_as_void(i);
        ours.then(|| (Over::Numbers, "a void pointer to it is moved by a number".into()))
    }

    /// `(void (*)(struct s *))handler`, where `handler` takes a `struct head *`.
    fn as_function(&self, i: usize) -> Option<(Over, String)> {
        let objects = self.objects;
        let close = objects.code.closing(i)?;
        let star = (i + 1..close).find(|&j| (objects.text(j), objects.text(j + 1)) == ("(", "*"))?;
        let open = star + 3;
        let ends = objects.text(open) == "(" && objects.code.closing(open).is_some_and(|c| c + 1 == close);
        if !ends || !objects.code.is_word(close + 1) {
            return None;
        }
        let ours = |&(from, to): &(usize, usize)| {
            objects.names_type(from, to) && objects.text(to.wrapping_sub(1)) == "*"
        };
        let index = objects.arguments(open).iter().position(ours)?;
        let name = objects.text(close + 1);
        let kept = objects.code.variable(name, close + 1).map(|d| objects.text(d.ty));
        let taken = [kept, Some(name)].into_iter().flatten().find_map(|n| self.parameter(n, index))?;
        let other = !objects.names().contains(&taken) && taken != "void";
        other.then(|| (over(&taken), format!("a function that takes {taken} * is called with it")))
    }

    /// What the parameter `index` of a function, or of a typedef of such functions, points to.
    fn parameter(&self, name: &str, index: usize) -> Option<String> {
        let files = self.files.iter().filter(|f| f.1.contains(name));
        files.into_iter().find_map(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            code.places(name).iter().find_map(|&j| {
                let open = j + 1 + usize::from(code.text(j + 1) == ")");
                let declares = code.is_typed(j) && code.text(open) == "(";
                let &(from, to) = code.arguments(open).get(index).filter(|_| declares)?;
                let stars = (from..to).filter(|&k| code.text(k) == "*").count();
                let word = (from..to).find(|&k| code.is_word(k) && !QUALIFIERS.contains(&code.text(k)))?;
                (stars == 1).then(|| code.text(word).to_string())
            })
        })
    }
}

fn over(ty: &str) -> Over {
    if is_scalar(ty) { Over::Numbers } else { Over::Type(ty.into()) }
}

/// The word tells nothing about the type.
fn is_deduced(ty: &str) -> bool {
    matches!(ty, "void" | "auto" | "__auto_type" | "extern")
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    const S: &str =
        "struct s { int kind; int size; long at; int last; };\nstruct head { int kind; int size; };\n";

    /// What refuses a move in these files, the first of which has the struct before it.
    fn found(edit: &str, files: &[(&str, &str)]) -> String {
        let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
        let first = format!("{S}{}\n", files[0].1);
        let mut all = vec![(files[0].0, first.as_str())];
        all.extend(&files[1..]);
        check("s", Some(&edits), Ask::LAYOUT, &all).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_variable_that_others_declare_otherwise() {
        let file = ("a.c", "struct s shared;");
        let run = |edit: &str, other: &str| found(edit, &[file, ("b.c", other)]);
        assert!(run("swap:size,last", "extern int shared[5];").contains("b.c:1: shared is declared as int"));
        assert!(run("swap:size,last", "extern struct head shared;").contains("as head"));
        assert_eq!(run("swap:at,last", "extern struct head shared;"), "");
        assert_eq!(run("swap:size,last", "static int shared[5];\nint f(int shared);"), "");
        let hidden = ("a.c", "static struct s shared;");
        assert_eq!(found("swap:size,last", &[hidden, ("b.c", "extern int shared[5];")]), "");
        let alias = "struct s shared;\nextern struct head view __attribute__((alias(\"shared\")));";
        assert!(found("swap:size,last", &[("a.c", alias)]).contains("an alias of the type head"));
        assert_eq!(found("swap:at,last", &[("a.c", alias)]), "");
    }

    #[test]
    fn functions_of_other_files() {
        let call = |declared: &str| format!("{declared}\nvoid f(void) {{ struct s x; see(&x); }}");
        let run = |edit: &str, declared: &str, other: &str| {
            found(edit, &[("a.c", &call(declared)), ("b.c", other)])
        };
        let walks = "int see(int *v) { return v[0] + v[1]; }";
        assert!(run("swap:size,last", "int see();", walks).contains("without a prototype"));
        let reads = "int see(int *v) { return *v; }";
        assert_eq!(run("swap:size,last", "int see();", reads), "");
        assert!(run("last:first", "int see();", reads).contains("without a prototype"));
        let void = "int see(const void *);";
        let head = "struct head { int kind; int size; };\n";
        for body in [
            "const struct head *h = p; return h->size;",
            "return ((const struct head *)p)->size;",
            "auto *h = static_cast<const head *>(p); return h->size;",
        ] {
            let other = format!("{head}int see(const void *p) {{ {body} }}");
            assert!(run("swap:size,last", void, &other).contains("becomes one to head"), "{body}");
            assert_eq!(run("swap:at,last", void, &other), "", "{body}");
        }
        // The file has a function of that name itself.
        let own = "static int see(void *p) { return p != 0; }";
        let other = format!("{head}static int see(void *p) {{ struct head *h = p; return h->size; }}");
        assert_eq!(run("swap:size,last", own, &other), "");
    }

    #[test]
    fn pointers_that_are_kept() {
        let run = |edit: &str, code: &str| found(edit, &[("a.c", code)]);
        let kept = "void f(struct job *j, struct s *p) { j->arg = p; }\nint g(struct job *j) { return ";
        let first = format!("{kept}*(int *)j->arg; }}");
        assert!(run("last:first", &first).contains("a void pointer becomes one to int"));
        assert_eq!(run("swap:size,last", &first), "");
        assert!(
            run("swap:size,last", &format!("{kept}((struct head *)j->arg)->size; }}"))
                .contains("becomes one to head")
        );
        assert_eq!(run("swap:size,last", &format!("{kept}((struct s *)j->arg)->size; }}")), "");
        assert_eq!(run("last:first", &format!("{kept}*(int *)j->other; }}")), "");
    }

    #[test]
    fn void_pointers_that_are_moved() {
        let run =
            |code: &str| found("swap:size,last", &[("a.c", &format!("int f(struct s *x) {{ {code} }}"))]);
        assert!(run("void *q = x; q += 4; return *(int *)q;").contains("moved by a number"));
        assert!(run("void *q = x; return *(int *)(q + 4);").contains("moved by a number"));
        assert_eq!(run("void *q = x; return *(int *)(q + at);"), "");
        assert_eq!(run("void *q = x + 1; return *(int *)(q + 4);"), "");
        assert_eq!(run("void *q = x; if (!(use(q))) return 1; return 0;"), "");
        assert_eq!(run("void *q = x; use(q); return *(o->q + 4);"), "");
    }

    #[test]
    fn functions_under_another_type() {
        let run = |edit: &str, code: &str| found(edit, &[("a.c", code)]);
        let call = "void go(void (*f)(struct s *));\nvoid g(void) { go((void (*)(struct s *))one); }";
        let head = format!("static void one(struct head *h) {{ use(h->size); }}\n{call}");
        assert!(run("swap:size,last", &head).contains("takes head *"));
        assert_eq!(run("swap:at,last", &head), "");
        assert_eq!(run("swap:size,last", &format!("static void one(void *h) {{ use(h); }}\n{call}")), "");
        assert_eq!(run("swap:size,last", &format!("static void one(struct s *h) {{ use(h); }}\n{call}")), "");
        let typed = format!("typedef void see(struct head *);\nstatic see *one;\n{call}");
        assert!(run("swap:size,last", &typed).contains("takes head *"));
    }
}
