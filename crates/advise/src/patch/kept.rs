//! Plain pointers in which the sources keep the addresses of objects, or memory of files: members and variables, and
//! the functions that give them back.

use std::collections::BTreeSet;

use super::body::Source;
use super::boundary;
use super::held::Held;
use super::objects::Objects;
use super::scan::Code;

/// Sources of which more are only asked for what they write to files: a kernel's.
const FILES_MAX: usize = 2000;

/// A member, or a variable: the name of its struct, or of the variable itself where the struct has none, and its own.
type Place = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    places: BTreeSet<Place>,
    /// Functions that return one of them.
    givers: BTreeSet<String>,
    /// Members and variables that point to memory of a file.
    mapped: BTreeSet<String>,
}

impl Kept {
    /// Of the objects of a type, whose addresses the functions in `given` get.
    pub(super) fn of(
        given: &BTreeSet<(String, usize)>,
        (names, held): &(&[String], &Held),
        files: &[(&str, &str)],
    ) -> Kept {
        let mut out = Kept::default();
        let sent: BTreeSet<&str> = files.iter().flat_map(|f| boundary::sent_members(f.1)).collect();
        let few = files.len() <= FILES_MAX;
        let plain = |t: &str| few && (t.contains("void *") || t.contains("void*"));
        for (_, text) in files.iter().filter(|f| plain(f.1) || sent.iter().any(|m| f.1.contains(m))) {
            let source = Source::new(text);
            let objects = Objects::new(&source, names, held);
            out.keep(&objects, given);
            out.gives(&objects);
        }
        if !out.places.is_empty() {
            for (_, text) in files.iter().filter(|f| f.1.contains("return")) {
                let source = Source::new(text);
                out.givers(&Code::new(&source));
            }
        }
        out
    }

    /// `table->rows = rows;` in a function that is given an object's address as `void *rows`, or `table->rows = &x;`.
    fn keep(&mut self, objects: &Objects<'_, '_>, given: &BTreeSet<(String, usize)>) {
        let code = &objects.code;
        for i in (2..code.len()).filter(|&i| code.text(i) == "=" && code.text(i + 1) != "=") {
            let Some(place) = place(code, i - 1) else { continue };
            let ends = |end: usize| matches!(code.text(end), ";" | ",");
            let address = !place.0.is_empty() && objects.address(i + 1).is_some_and(ends);
            let argument = || ends(i + 2) && is_given(code, i + 1, given);
            let listed = || code.text(i + 1) == "va_arg" && takes_more(code, i, given);
            if address || argument() || listed() {
                self.places.insert(place);
            }
        }
    }

    /// `void *handle(void) { return &x; }`
    fn gives(&mut self, objects: &Objects<'_, '_>) {
        let code = &objects.code;
        let whole = |&&i: &&usize| objects.address(i + 1).is_some_and(|end| code.text(end) == ";");
        for &i in code.places("return").iter().filter(whole) {
            self.givers.extend(code.void_function(i).map(String::from));
        }
    }

    fn givers(&mut self, code: &Code<'_, '_>) {
        let returned = |i: usize| {
            let end = (i..code.len()).find(|&j| code.text(j) == ";")?;
            self.has(code, end - 1).then(|| function_of(code, i))?
        };
        let found: Vec<String> = code.places("return").iter().filter_map(|&i| returned(i)).collect();
        self.givers.extend(found);
    }

    /// Members that memory of a file is assigned to: `s->base = mmap(..)`.
    pub(super) fn maps(&mut self, code: &Code<'_, '_>) {
        let kept = |&i: &usize| i > 2 && code.text(i - 1) == "=" && code.is_word(i - 2);
        for name in file_mappings(code).filter(kept).map(|i| i - 2) {
            if !is_local(code, name) {
                self.mapped.insert(code.text(name).to_string());
            }
        }
    }

    /// The word at `i` is the last one of a path to memory of a file: `st.base`.
    pub(super) fn is_mapped(&self, code: &Code<'_, '_>, i: usize) -> bool {
        self.mapped.contains(code.text(i)) && matches!(code.text(i.wrapping_sub(1)), "." | ">")
    }

    /// Functions in this text that return such a pointer, as some type: `return static_cast<T *>(p_);`.
    pub(super) fn mapping_methods(&self, text: &str) -> Vec<String> {
        if !self.mapped.iter().any(|m| text.contains(m.as_str())) {
            return Vec::new();
        }
        let source = Source::new(text);
        let code = Code::new(&source);
        let of = |&i: &usize| {
            let end = (i..code.len()).find(|&j| code.text(j) == ";")?;
            let own = (i + 1..end).rev().find(|&j| code.is_word(j))?;
            let kept = self.mapped.contains(code.text(own)) && !is_local(&code, own);
            kept.then(|| function_of(&code, i))?
        };
        code.places("return").iter().filter_map(of).collect()
    }

    /// The expression at `i` is such a pointer, or a function's that gives it back.
    pub(super) fn gives_back(&self, objects: &Objects<'_, '_>, i: usize) -> bool {
        let code = &objects.code;
        let called = self.givers.contains(code.text(i)) && code.text(i + 1) == "(";
        called || (!self.places.is_empty() && self.has(code, objects.path_end(i)))
    }

    /// The word at `i` is the last one of such a place.
    pub(super) fn has(&self, code: &Code<'_, '_>, i: usize) -> bool {
        !self.places.is_empty() && place(code, i).is_some_and(|p| self.places.contains(&p))
    }

    /// The text may have to do with what is kept.
    pub(super) fn concerns(&self, text: &str) -> bool {
        let places = self.places.iter().map(|p| &p.1);
        places.chain(&self.givers).chain(&self.mapped).any(|name| text.contains(name.as_str()))
    }
}

/// The word at `i` is a variable of the function around it.
fn is_local(code: &Code<'_, '_>, i: usize) -> bool {
    code.variable_at(code.text(i), i).is_some_and(|(at, _)| code.is_in_function(at))
}

/// The word at `i` is a parameter, without a type, of a function that is given an object's address there.
fn is_given(code: &Code<'_, '_>, i: usize, given: &BTreeSet<(String, usize)>) -> bool {
    let Some(own) = code.function_name(i) else { return false };
    let parameters = code.arguments(own + 1);
    let index = parameters.iter().position(|p| p.1 > p.0 && code.text(p.1 - 1) == code.text(i));
    let plain = code.variable(code.text(i), i).is_some_and(|d| code.text(d.ty) == "void" && d.depth == 1);
    plain && index.is_some_and(|k| given.contains(&(code.text(own).to_string(), k)))
}

/// The function around `i` takes any number of arguments, and is given an object's address among those.
fn takes_more(code: &Code<'_, '_>, i: usize, given: &BTreeSet<(String, usize)>) -> bool {
    code.function_name(i).is_some_and(|own| {
        let named = code.arguments(own + 1).len();
        given.iter().any(|(name, k)| name == code.text(own) && k + 1 >= named)
    })
}

fn function_of(code: &Code<'_, '_>, i: usize) -> Option<String> {
    code.function_name(i).map(|own| code.text(own).to_string())
}

/// Functions of the system that map memory.
pub(super) const MAPPING: [&str; 3] = ["mmap", "mmap64", "shmat"];

/// The call at `i` maps memory that no file is behind: by its flags, of which Linux's number is what the preprocessor
/// leaves, or by the descriptor -1.
pub(super) fn maps_no_file(code: &Code<'_, '_>, i: usize) -> bool {
    const DESCRIPTOR: usize = 4;
    let close = code.closing(i + 1).unwrap_or(i);
    let anonymous = |j| matches!(code.text(j), "MAP_ANONYMOUS" | "MAP_ANON" | "0x20");
    let none = |a: &(usize, usize)| a.1 == a.0 + 2 && (code.text(a.0), code.text(a.0 + 1)) == ("-", "1");
    (i..close).any(anonymous) || code.arguments(i + 1).get(DESCRIPTOR).is_some_and(none)
}

/// Calls that map a file.
pub(super) fn file_mappings(code: &Code<'_, '_>) -> impl Iterator<Item = usize> {
    let calls = MAPPING.into_iter().flat_map(|w| code.places(w).to_vec());
    calls.filter(|&i| code.text(i + 1) == "(" && !maps_no_file(code, i))
}

/// The member that ends at `i`, `table->rows` or `table[n].rows`, or a variable of the file.
fn place(code: &Code<'_, '_>, i: usize) -> Option<Place> {
    let before = |n: usize| i.checked_sub(n).map_or("", |j| code.text(j));
    let name = code.is_word(i).then(|| code.text(i).to_string())?;
    let holder = match (before(1), before(2)) {
        (".", _) => i.checked_sub(2)?,
        (">", "-") => i.checked_sub(3)?,
        _ => {
            let (at, _) = code.variable_at(&name, i)?;
            return (!code.is_in_function(at)).then_some((String::new(), name));
        }
    };
    let holder = match code.text(holder) {
        "]" => code.opening(holder)?.checked_sub(1)?,
        _ => holder,
    };
    let path = holder > 0 && matches!(code.text(holder - 1), "." | ">");
    let known = code.is_word(holder) && !path;
    let of = code.variable(code.text(holder), holder).map(|d| d.ty).filter(|&ty| code.is_word(ty));
    known.then(|| (code.text(of.unwrap_or(holder)).to_string(), name))
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    const OWN: &str = "struct gauge { unsigned long in; unsigned long out; };\nstatic struct gauge g;\n";

    /// Whether aligning the second member is refused, with these files beside the one that puts `&g` somewhere.
    fn refused(call: &str, others: &[&str]) -> bool {
        let main = format!("{OWN}void f(void) {{ {call} }}\n");
        let names = ["b.c", "c.c", "d.c"];
        let mut files = vec![("a.c", main.as_str())];
        files.extend(names.iter().copied().zip(others.iter().copied()));
        let edits = ["align:out=64".parse::<Edit>().unwrap()];
        check("gauge", Some(&edits), Ask::LAYOUT, &files).is_err()
    }

    #[test]
    fn what_a_registry_gives_back_as_another_struct() {
        let put = "static struct { const char *n; void *p; } tab[8]; static int used;\n\
            void put(const char *n, void *what) { tab[used].n = n; tab[used++].p = what; }\n\
            void *get(const char *n) { return tab[0].p; }\n";
        let view =
            |members: &str, how: &str| format!("struct view {{ {members} }};\nvoid show(void) {{ {how} }}\n");
        let same = "unsigned long frames, drops;";
        let call = "put(\"g\", &g);";
        assert!(refused(call, &[put, &view(same, "const struct view *v = get(\"g\"); use(v->drops);")]));
        assert!(refused(call, &[put, &view(same, "use(((struct view *)get(\"g\"))->drops);")]));
        // A struct that does not begin like it, its own, and a registry that nobody gives it to.
        assert!(!refused(call, &[put, &view("int a; char *b;", "struct view *v = get(\"x\"); use(v);")]));
        assert!(!refused(call, &[put, "void show(void) { struct gauge *v = get(\"g\"); use(v->in); }\n"]));
        assert!(!refused("use(g.in);", &[put, &view(same, "struct view *v = get(\"g\"); use(v->drops);")]));
    }

    #[test]
    fn what_a_function_beside_it_takes_as_another_struct() {
        let report = |ty: &str| {
            format!(
                "struct totals {{ unsigned long received; unsigned long sent; }};\nstruct head {{ char *a; int b; }};\n\
                 void report(void *user) {{ struct {ty} *t = user; use(t); }}\n"
            )
        };
        assert!(refused("on_exit(report, &g);", &[&report("totals")]));
        assert!(!refused("on_exit(report, &g);", &[&report("head")]));
        assert!(!refused("on_exit(other, &g);", &[&report("totals")]));
    }

    #[test]
    fn arrays_that_come_back() {
        let own = "struct lane { unsigned long a; unsigned long b; };\nstatic struct lane lanes[4];\n\
            void f(void) { put(\"lanes\", lanes); }\n";
        let registry = "static void *slot;\nvoid put(const char *n, void *what) { slot = what; }\n\
            void *get(const char *n) { return slot; }\nstruct view { unsigned long x, y; };\n";
        let refused = |show: &str| {
            let edits = ["element=64".parse::<Edit>().unwrap()];
            let other = format!("{registry}void show(int n) {{ {show} }}\n");
            check("lane", Some(&edits), Ask::LAYOUT, &[("a.c", own), ("b.c", &other)]).is_err()
        };
        assert!(refused("struct view *v = get(\"lanes\"); for (int i = 0; i < n; i++) use(v[i].x);"));
        assert!(!refused("struct view *v = get(\"lanes\"); use(v->x);"));
    }

    #[test]
    fn what_is_passed_on_as_nothing() {
        let show = "struct pub { unsigned long a; unsigned long b; };\nvoid show(const struct pub *p) { use(p->b); }\n";
        let other = "struct pub { char *a; int b; };\nvoid show(const struct pub *p) { use(p->b); }\n";
        assert!(refused("show((const void *)&g);", &[show]));
        assert!(refused("const void *v = &g; show(v);", &[show]));
        assert!(!refused("show((const void *)&g);", &[other]));
        let handle = "extern struct gauge g;\nconst void *handle(int n) { return &g; }\n";
        let caller = "struct pub { unsigned long a; volatile unsigned long b; };\n\
            void f(void) { const struct pub *p = handle(1); use(p->b); }\n";
        assert!(refused("", &[handle, caller]));
    }

    #[test]
    fn what_is_behind_the_last_member() {
        let own = "struct sess { int id; unsigned long in; char name[120]; };\n";
        let refused = |code: &str, edit: &str| {
            let edits = [edit.parse::<Edit>().unwrap()];
            check("sess", Some(&edits), Ask::LAYOUT, &[("a.c", &format!("{own}{code}\n"))]).is_err()
        };
        let end =
            "void f(struct sess *p) { char *q = p->name, *end = (char *)(p + 1); while (q < end) *q++ = 0; }";
        let rest = "void f(struct sess *p) { memset(p->name, 0, sizeof *p - (size_t)((char *)p->name - (char *)p)); }";
        let fill = "void f(sess &x) { std::fill(x.name, reinterpret_cast<char *>(&x + 1), 0); }";
        for code in [end, rest, fill] {
            assert!(refused(code, "in:after:name"), "{code}");
            assert!(!refused(code, "align:in=64"), "{code}");
        }
        // What follows a header.
        assert!(!refused("char *body(struct sess *p) { return (char *)(p + 1); }", "in:after:name"));
    }

    #[test]
    fn memory_of_a_file_in_a_member() {
        let open = |flags: &str| {
            format!(
                "int store_open(struct store *s, int fd) {{ s->base = mmap(0, 4096, 3, {flags}, fd, 0); return 0; }}\n"
            )
        };
        let main = "struct state { long in; long out; };\nstatic struct store st;\n\
            void f(void) { ((struct state *)st.base)->in++; }\n";
        let ok = |main: &str, other: &str| {
            check("state", None, Ask::LAYOUT, &[("a.c", main), ("s.c", other)]).is_ok()
        };
        assert!(!ok(main, &open("MAP_SHARED")));
        assert!(ok(main, &open("MAP_PRIVATE | MAP_ANONYMOUS")));
        assert!(ok(&main.replace("st.base", "st.other"), &open("MAP_SHARED")));
        let class = "struct Mapped { template <class T> T *as() { return static_cast<T *>(p_); }\n\
            void open(int fd) { p_ = mmap(nullptr, 4096, 3, MAP_SHARED, fd, 0); } void *p_; };\n";
        let user = "struct state { long in; long out; };\nvoid f(Mapped &m) { state *s = m.as<state>(); s->in++; }\n";
        assert!(!ok(user, class));
    }

    #[test]
    fn what_is_found_by_its_name() {
        let own = "struct gauge { long in; long out; };\nstruct gauge the_gauge;\nvoid f(void) { the_gauge.in++; }\n";
        let show = |name: &str| {
            format!(
                "struct view {{ long a, b; }};\n\
                 void show(void) {{ struct view *v = dlsym(0, \"{name}\"); use(v->b); }}\n"
            )
        };
        let edits = ["align:out=64".parse::<Edit>().unwrap()];
        let ok =
            |show: &str| check("gauge", Some(&edits), Ask::LAYOUT, &[("a.c", own), ("b.c", show)]).is_ok();
        assert!(!ok(&show("the_gauge")));
        assert!(ok(&show("another")));
    }
}
