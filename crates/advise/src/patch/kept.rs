//! Plain pointers in which the sources keep the addresses of objects, or memory of files: members and variables, and
//! the functions that give them back.

use std::collections::BTreeSet;

use super::body::Source;
use super::boundary;
use super::flow::{self, Flows};
use super::held::Held;
use super::objects::Objects;
use super::scan::Code;

/// Sources of which more are only asked for what they write to files: a kernel's.
const FILES_MAX: usize = 2000;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// A member, or a variable: the name of its struct, or of the variable itself where the struct has none, and its own.
type Place = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Everything that may have an object's address; [`Flows`] says how it is called.
    reached: BTreeSet<String>,
    /// Words without which no text has to do with that.
    words: BTreeSet<String>,
    /// Members and variables that point to memory of a file.
    mapped: BTreeSet<String>,
}

impl Kept {
    /// Of the objects of a type.
    pub(super) fn of((names, held): &(&[String], &Held), files: Files<'_>) -> Kept {
        let few = files.len() <= FILES_MAX;
        let sent: BTreeSet<&str> = files.iter().flat_map(|f| boundary::sent_members(f.1)).collect();
        let untyped = |t: &str| few && ["void", "ptr_t", "long", "64"].iter().any(|w| t.contains(w));
        let mut flows = Flows::default();
        for (_, text) in files.iter().filter(|f| untyped(f.1) || sent.iter().any(|m| f.1.contains(m))) {
            let source = Source::new(text);
            flows.add(&Objects::new(&source, names, held), files);
        }
        let reached = flows.reached();
        let word = |node: &String| {
            let word = node.split([':', '#', '(', '@']).next()?;
            word.rsplit('.').next().map(str::to_string)
        };
        let words = reached.iter().filter_map(word).collect();
        Kept { reached, words, mapped: BTreeSet::new() }
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

    /// The value at `i` may be an object's address; whether a number is added to it.
    pub(super) fn gives_back(&self, objects: &Objects<'_, '_>, i: usize, files: Files<'_>) -> Option<bool> {
        flow::has(&self.reached, objects, i, files)
    }

    /// The text may have to do with what is kept.
    pub(super) fn concerns(&self, text: &str) -> bool {
        self.words.iter().chain(&self.mapped).any(|name| text.contains(name.as_str()))
    }
}

/// The word at `i` is a variable of the function around it.
fn is_local(code: &Code<'_, '_>, i: usize) -> bool {
    code.variable_at(code.text(i), i).is_some_and(|(at, _)| code.is_in_function(at))
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
pub(super) fn place(code: &Code<'_, '_>, i: usize) -> Option<Place> {
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
