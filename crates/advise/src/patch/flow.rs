//! Where addresses without a type go: through variables, members, parameters, results, containers of `void *`, and
//! numbers that are addresses. Names alone tell, whatever the order of statements.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::is_number;
use super::kept::place;
use super::neighbours::members_in;
use super::objects::Objects;
use super::scan::{Code, Declared, is_number_type};

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// The address of an object of the type that is asked about.
const OBJECT: &str = "&";

/// Parentheses, casts and choices around a value.
const NESTED_MAX: usize = 8;

/// Arguments of a function that takes any number.
const LISTED_MAX: usize = 8;

/// Tokens of a list in braces.
const ITEMS_TOKENS_MAX: usize = 400;

/// What the system's functions give back of what they were given.
const SYSTEM: [(&str, &str); 3] = [
    ("pthread_setspecific#1", "pthread_getspecific()"),
    ("tss_set#1", "tss_get()"),
    ("a thread's result", "pthread_join#1^"),
];

/// Values without a type, and where they go. A node is `f:x`, a variable or a parameter of `f`; `f#0`, what it is
/// given first; `f#0^`, what it stores where that points; `f()`, what it returns; `x`, a variable of a file; `s.x`, a
/// member of a struct; `.x`, one of a member.
#[derive(Debug, Default)]
pub(super) struct Flows {
    edges: BTreeMap<String, BTreeSet<String>>,
    /// Names that are declared with a type, and without one, outside of functions.
    typed: BTreeSet<String>,
    untyped: BTreeSet<String>,
}

impl Flows {
    /// Adds what one file does.
    pub(super) fn add(&mut self, objects: &Objects<'_, '_>, files: Files<'_>) {
        let file = File { objects, code: &objects.code, files };
        for i in (1..file.code.len()).filter(|&i| file.code.is_word(i) && !file.code.is_in_function(i)) {
            let Some(declared) = file.code.declaration(i) else { continue };
            let names = if file.is_untyped(i, declared) { &mut self.untyped } else { &mut self.typed };
            names.insert(file.code.text(i).to_string());
        }
        for i in 1..file.code.len() {
            match file.code.text(i) {
                "=" => self.assignment(&file, i),
                "return" => self.result(&file, i),
                "{" => self.list(&file, i),
                ":" => self.range(&file, i),
                _ if file.code.is_word(i) && file.code.text(i + 1) == "(" => self.call(&file, i),
                _ => {}
            }
        }
        for (name, open, _) in file.code.all_definitions() {
            self.parameters(&file, name, open);
        }
    }

    /// Everything that may have an object's address.
    pub(super) fn reached(mut self) -> BTreeSet<String> {
        for (from, to) in SYSTEM {
            self.edge(from.into(), to.into());
        }
        let mut out = BTreeSet::new();
        let mut left = vec![OBJECT.to_string()];
        while let Some(node) = left.pop() {
            let next = self.edges.remove(&node).unwrap_or_default();
            let may = |n: &String| {
                n.split_once('.').is_none_or(|(_, m)| self.untyped.contains(m) || !self.typed.contains(m))
            };
            left.extend(next.into_iter().filter(|n| may(n) && out.insert(n.clone())));
        }
        out
    }

    fn edge(&mut self, from: String, to: String) {
        self.edges.entry(from).or_default().insert(to);
    }

    fn goes(&mut self, values: Vec<String>, to: &str) {
        values.into_iter().for_each(|v| self.edge(v, to.into()));
    }

    /// `p = x`, `s->p = x`, `v[n] = x`, `*out = x`, `{ .p = x }`
    fn assignment(&mut self, file: &File<'_, '_, '_>, i: usize) {
        let code = file.code;
        if matches!(code.text(i + 1), "=")
            || matches!(code.text(i - 1), "=" | "!" | "<" | ">" | "+" | "-" | "|")
        {
            return;
        }
        let Some(to) = file.target(i - 1) else { return };
        if code.text(i + 1) == "va_arg" {
            self.listed(file, i, &to);
        }
        self.goes(file.values((i + 1, file.end(i + 1))), &to);
    }

    /// `p = va_arg(list, void *)`: any of what follows the function's parameters.
    fn listed(&mut self, file: &File<'_, '_, '_>, i: usize, to: &str) {
        let code = file.code;
        let Some(own) = code.function_name(i) else { return };
        let named = code.arguments(own + 1).len().saturating_sub(1);
        for n in named..named + LISTED_MAX {
            self.edge(format!("{}#{n}", file.function(own)), to.into());
        }
    }

    /// `return x;`
    fn result(&mut self, file: &File<'_, '_, '_>, i: usize) {
        let Some(own) = file.code.function_name(i) else { return };
        let to = format!("{}()", file.function(own));
        self.goes(file.values((i + 1, file.end(i + 1))), &to);
    }

    /// `void *all[] = { &x, y };`, `struct event e = { 1, (intptr_t)&x };`
    fn list(&mut self, file: &File<'_, '_, '_>, open: usize) {
        let code = file.code;
        if code.text(open - 1) != "=" {
            return;
        }
        let Some(name) = code.initialised(open) else { return };
        let own = file.variable(name);
        let ty = code.declaration(name).map(|d| code.text(d.ty));
        let close = code.matching(open, ["{", "}"], ITEMS_TOKENS_MAX);
        let items = close.map_or_else(Vec::new, |close| code.between(open, close));
        let mut members = None;
        for (n, &item) in items.iter().enumerate().filter(|(_, a)| code.text(a.0) != ".") {
            let values = file.values(item);
            if values.is_empty() {
                continue;
            }
            if let Some(to) = &own {
                self.goes(values, to);
            } else if let Some(ty) = ty {
                let all = members.get_or_insert_with(|| members_in(file.files, ty));
                if let Some(member) = all.get(n) {
                    self.goes(values, &format!("{ty}.{}", member.name));
                }
            }
        }
    }

    /// `for (void *p : all)`
    fn range(&mut self, file: &File<'_, '_, '_>, i: usize) {
        let code = file.code;
        let Some(open) = code.open_before(i).filter(|&o| o > 0 && code.text(o - 1) == "for") else { return };
        let (Some(to), Some(close)) = (file.variable(i - 1), code.closing(open)) else { return };
        self.goes(file.values((i + 1, close)), &to);
    }

    /// `f(x)`, `f(&p)`, `all.push_back(x)`
    fn call(&mut self, file: &File<'_, '_, '_>, i: usize) {
        let code = file.code;
        let name = code.text(i);
        // What an allocator is given comes back from it as anything.
        if ["alloc", "free"].iter().any(|w| name.contains(w)) {
            return;
        }
        let own = file.function(i);
        let arguments = code.arguments(i + 1);
        let holder = file.container(i);
        for (n, &argument) in arguments.iter().enumerate() {
            let out = (code.text(argument.0) == "&" && argument.0 + 2 == argument.1)
                .then(|| file.variable(argument.0 + 1))
                .flatten();
            if let Some(variable) = out {
                self.edge(format!("{own}#{n}^"), variable.clone());
                self.edge(variable, format!("{own}#{n}"));
            }
            let values = file.values(argument);
            if let Some(holder) = &holder {
                self.goes(values.clone(), holder);
            }
            self.goes(values, &format!("{own}#{n}"));
        }
        let argument = |n: usize| arguments.get(n).copied();
        match name {
            "pthread_create" | "thrd_create" => {
                let function = argument(if name == "thrd_create" { 1 } else { 2 });
                if let Some((from, _)) = function.filter(|&(from, to)| from + 1 == to) {
                    let last = arguments.len() - 1;
                    let function = file.function(from);
                    self.goes(file.values(arguments[last]), &format!("{function}#0"));
                    self.edge(format!("{function}()"), "a thread's result".into());
                }
            }
            // `memcpy(copy, x, n)`
            "memcpy" | "memmove" => {
                if let (Some(to), Some(from)) = (argument(0), argument(1)) {
                    let values = file.values(from);
                    file.values(to).iter().for_each(|t| self.goes(values.clone(), t));
                }
            }
            "cleanup" => {
                let (from, to) = code.statement(i);
                if file.objects.names_type(from, to) {
                    let function = argument(0).map(|a| file.function(a.0));
                    function.into_iter().for_each(|f| self.edge(OBJECT.into(), format!("{f}#0")));
                }
            }
            _ => {}
        }
    }

    fn parameters(&mut self, file: &File<'_, '_, '_>, name: usize, open: usize) {
        let code = file.code;
        let name = file.function(name);
        for (n, (from, to)) in code.arguments(open).into_iter().enumerate() {
            let Some(own) = (from..to).rev().find(|&j| code.is_word(j)) else { continue };
            let variable = format!("{name}:{}", code.text(own));
            self.edge(format!("{name}#{n}"), variable.clone());
            self.edge(variable, format!("{name}#{n}^"));
        }
    }
}

/// Whether the value that begins at `i` is one of `reached`, as it is or with a number added to it: whether it is.
pub(super) fn has(
    reached: &BTreeSet<String>,
    objects: &Objects<'_, '_>,
    i: usize,
    files: Files<'_>,
) -> Option<bool> {
    if reached.is_empty() {
        return None;
    }
    let code = &objects.code;
    let file = File { objects, code, files };
    let inside = if code.text(i) == "(" { i + 1 } else { i };
    let plus = Some(code.operand_end(inside)).filter(|&p| inside > i && code.text(p) == "+");
    let moved = plus.is_some_and(|p| is_number(objects, p + 1, files));
    // `std::any_cast<void *>(x)`
    let named = code.text(i + 1) == ":" || code.text(i + 1) == "<";
    let end = if named { file.end(i) } else { code.operand_end(i) };
    let values = file.values((i, end));
    let known = values.iter().any(|v| v != OBJECT && reached.contains(v));
    (known && (moved || plus.is_none())).then_some(moved)
}

struct File<'u, 's, 'a> {
    objects: &'u Objects<'s, 'a>,
    code: &'u Code<'s, 'a>,
    files: Files<'u>,
}

impl File<'_, '_, '_> {
    /// One past the value that begins at `from`.
    fn end(&self, from: usize) -> usize {
        let mut depth = 0usize;
        let ends = |j: &usize| match self.code.text(*j) {
            "(" | "[" | "{" => {
                depth += 1;
                false
            }
            ")" | "]" | "}" if depth == 0 => true,
            ")" | "]" | "}" => {
                depth -= 1;
                false
            }
            ";" | "," => depth == 0,
            _ => false,
        };
        (from..self.code.len().min(from + 200)).find(ends).unwrap_or(from)
    }

    /// What is assigned to, whose last token is at `last`.
    fn target(&self, last: usize) -> Option<String> {
        let code = self.code;
        let last = if code.text(last) == "]" { code.opening(last)?.checked_sub(1)? } else { last };
        if !code.is_word(last) || last == 0 {
            return None;
        }
        let before = code.text(last - 1);
        // `{ .p = x }`
        let open = || code.open_before(last).filter(|&o| code.text(o) == "{");
        if before == "." && last > 1 && matches!(code.text(last - 2), "{" | ",") {
            let holder = code.initialised(open()?)?;
            let ty = code.declaration(holder).map_or(holder, |d| d.ty);
            return Some(format!("{}.{}", code.text(ty), code.text(last)));
        }
        self.node(last)
    }

    /// The variable or the member whose last word is at `last`.
    fn node(&self, last: usize) -> Option<String> {
        let before = |n: usize| last.checked_sub(n).map_or("", |j| self.code.text(j));
        if before(1) != "." && (before(2), before(1)) != ("-", ">") {
            return self.variable(last);
        }
        // A member of a member, whatever that is.
        let unknown = || (String::new(), self.code.text(last).to_string());
        let (holder, name) = place(self.code, last).unwrap_or_else(unknown);
        Some(format!("{holder}.{name}"))
    }

    /// The variable at `i`, if it has no type: `void *`, a number, a container of `void *`.
    fn variable(&self, i: usize) -> Option<String> {
        let code = self.code;
        if !code.is_word(i) {
            return None;
        }
        let own = || code.declaration(i).map(|d| (i, d));
        let (at, declared) = own().or_else(|| code.variable_at(code.text(i), i))?;
        if !self.is_untyped(at, declared) {
            return None;
        }
        let function = if code.is_in_function(at) { code.function_name(at) } else { parameter_of(code, at) };
        let name = code.text(i);
        Some(function.map_or(name.to_string(), |f| format!("{}:{name}", self.function(f))))
    }

    fn is_untyped(&self, at: usize, declared: Declared) -> bool {
        let code = self.code;
        let ty = code.text(declared.ty);
        let void = ty == "void" && declared.depth > 0;
        let number = is_number_type(ty) && !matches!(ty, "char" | "short") && declared.depth == 0;
        let holds = code.text(declared.ty + 1) == "<" && (declared.ty..at).any(|j| code.text(j) == "void");
        void || number || holds || ty == "any" || (ty == "auto" && declared.depth == 0)
    }

    /// The container that the method at `i` is called of.
    fn container(&self, i: usize) -> Option<String> {
        let dot = self.code.text(i.wrapping_sub(1)) == "." && i > 1;
        dot.then(|| self.variable(i - 2)).flatten()
    }

    /// Where the value that the tokens make may come from.
    fn values(&self, (from, to): (usize, usize)) -> Vec<String> {
        let mut out = Vec::new();
        self.collect(from, to, NESTED_MAX, &mut out);
        out
    }

    fn collect(&self, from: usize, to: usize, nested: usize, out: &mut Vec<String>) {
        let code = self.code;
        if from >= to || nested == 0 {
            return;
        }
        if self.objects.address(from).is_some_and(|end| end == to) {
            out.push(OBJECT.into());
            return;
        }
        if let Some((left, right)) = choice(code, from, to) {
            let question = (from..left).rfind(|&j| code.text(j) == "?").unwrap_or(from);
            self.collect(question + 1, left, nested - 1, out);
            self.collect(right, to, nested - 1, out);
            return;
        }
        match code.text(from) {
            "(" => {
                let Some(close) = code.closing(from) else { return };
                if close + 1 == to {
                    return self.collect(from + 1, close, nested - 1, out);
                }
                if code.cast_before(close) == Some(from) && is_untyped_cast(code, from + 1, close) {
                    self.collect(close + 1, to, nested - 1, out);
                }
            }
            "static_cast" | "reinterpret_cast" | "const_cast" => {
                let Some(close) = code.matching(from + 1, ["<", ">"], 16) else { return };
                if is_untyped_cast(code, from + 2, close) && code.closing(close + 1) == Some(to - 1) {
                    self.collect(close + 2, to - 1, nested - 1, out);
                }
            }
            "*" => self.collect(from + 1, to, nested - 1, out),
            "std" if code.text(from + 1) == ":" => self.collect(from + 3, to, nested, out),
            _ if code.is_word(from) => self.path(from, to, nested, out),
            _ => {}
        }
    }

    /// `p`, `s->p`, `v[n]`, `f(x)`, `all.front()`, `get<void *>(x)`, and what is added to one of them.
    fn path(&self, from: usize, to: usize, nested: usize, out: &mut Vec<String>) {
        let code = self.code;
        let last = self.objects.path_end(from);
        if code.text(last + 1) == "<" && last == from {
            let close = code.matching(last + 1, ["<", ">"], 16);
            let Some(close) = close.filter(|&c| code.closing(c + 1) == Some(to - 1)) else { return };
            let given = (close + 2, to - 1);
            // `make_shared<T>()`
            if code.text(from).starts_with("make_") && self.objects.names_type(from, close) {
                out.push(OBJECT.into());
            }
            return self.collect(given.0, given.1, nested - 1, out);
        }
        let end = code.operand_end(from);
        if end != to && code.text(end) != "+" {
            return;
        }
        match code.text(end - 1) {
            ")" => {
                let Some(name) = code.opening(end - 1).filter(|&o| o > from).map(|o| o - 1) else { return };
                out.extend(self.container(name));
                out.push(format!("{}()", self.function(name)));
            }
            "]" => out.extend(code.opening(end - 1).and_then(|o| self.node(o - 1))),
            _ => out.extend(self.node(end - 1)),
        }
    }

    /// The function that the word at `i` means. One that the file alone has is told from others of its name.
    fn function(&self, i: usize) -> String {
        let (code, name) = (self.code, self.code.text(i));
        match code.is_static(name) {
            true => format!("{name}@{}", code.source.text.len()),
            false => name.to_string(),
        }
    }
}

/// `a ? b : c`: where `b` ends, and where `c` begins.
fn choice(code: &Code<'_, '_>, from: usize, to: usize) -> Option<(usize, usize)> {
    let outside = |&j: &usize| code.open_before(j).is_none_or(|open| open < from);
    let question = (from..to).filter(|&j| code.text(j) == "?").find(outside)?;
    let colon = (question..to).filter(|&j| code.text(j) == ":").rfind(outside)?;
    Some((colon, colon + 1))
}

/// `void *`, `uintptr_t`
fn is_untyped_cast(code: &Code<'_, '_>, from: usize, to: usize) -> bool {
    let stars = (from..to).filter(|&j| code.text(j) == "*").count();
    let void = (from..to).any(|j| code.text(j) == "void") && stars == 1;
    void || (stars == 0 && (from..to).all(|j| is_number_type(code.text(j))))
}

/// Place of the name of the function that is defined with a parameter declared at `at`.
fn parameter_of(code: &Code<'_, '_>, at: usize) -> Option<usize> {
    let open = code.open_before(at).filter(|&o| o > 0 && code.text(o) == "(" && code.is_word(o - 1))?;
    code.closing(open).filter(|c| code.text(c + 1) == "{").map(|_| open - 1)
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    /// What refuses to swap the first two members where `code` follows, with `PTR` a pointer to `to`.
    fn found(path: &str, code: &str, to: &str) -> String {
        let own = "struct s { int a; int b; long c; };\nstatic struct s x;\n";
        let text = format!("{own}{}\n", code.replace("PTR", &format!("{to} *")));
        let edits = ["swap:a,b".parse::<Edit>().unwrap()];
        check("s", Some(&edits), Ask::LAYOUT, &[(path, &text)])
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    }

    /// As numbers it is refused; as what it is, or numbers of another kind, it is not.
    fn comes_back(path: &str, code: &str) {
        assert!(
            found(path, code, "int").contains("becomes one to int"),
            "{code}: {:?}",
            found(path, code, "int")
        );
        assert_eq!(found(path, code, "struct s"), "", "{code}");
        assert_eq!(found(path, code, "double"), "", "{code}");
    }

    #[test]
    fn addresses_that_come_back_as_numbers() {
        for code in [
            "struct o { void *p; };\nvoid f(void) { struct o o = { .p = &x }; PTR v = o.p; use(v); }",
            "struct o { int k; void *p; };\nvoid f(void) { struct o o = { 1, &x }; PTR v = o.p; use(v); }",
            "struct o { void *p; };\nvoid f(struct o *o) { o->p = &x; }\n\
             void g(struct o *o) { PTR v; v = o->p; use(v); }",
            "struct o { void *p; };\nvoid put(struct o *o, void *v) { o->p = v; }\n\
             void *get(struct o *o) { return o->p; }\n\
             void f(struct o *o) { put(o, &x); }\nvoid g(struct o *o) { PTR v = get(o); use(v); }",
            "int find(void **out) { *out = &x; return 0; }\nvoid f(void) { void *r; find(&r); PTR v = r; use(v); }",
            "void *find(int n) { return n ? &x : 0; }\nvoid f(void) { use((PTR)find(1)); }",
            "static void *ring[8]; static int w;\nvoid put(void *p) { ring[w++ & 7] = p; }\n\
             void *get(void) { return ring[w & 7]; }\n\
             void f(void) { put(&x); PTR v = get(); use(v); }",
            "void call(void **all) { PTR v = all[0]; use(v); }\nvoid f(void) { void *all[] = { &x, 0 }; call(all); }",
            "static pthread_key_t k;\n\
             void f(void) { pthread_setspecific(k, &x); PTR v = pthread_getspecific(k); use(v); }",
            "void *work(void *a) { return &x; }\nvoid f(pthread_t t) { void *r; pthread_create(&t, 0, work, 0); \
             pthread_join(t, &r); PTR v = r; use(v); }",
            "void f(void) { uintptr_t u = (uintptr_t)&x; PTR v = (PTR)u; use(v); }",
            "struct e { intptr_t arg; };\nvoid f(void) { struct e e = { (intptr_t)&x }; g(e); }\n\
             void h(struct e e) { use((PTR)e.arg); }",
            "int ctl(int cmd, unsigned long arg) { PTR v = (PTR)arg; return use(v); }\n\
             void f(void) { ctl(1, (unsigned long)&x); }",
            "void *dup(const void *p, size_t n) { void *q = malloc(n); memcpy(q, p, n); return q; }\n\
             void f(void) { PTR v = dup(&x, sizeof x); use(v); }",
            "void drop(void *p) { PTR v = p; use(v); }\n\
             void f(void) { __attribute__((cleanup(drop))) struct s y = x; use(y.a); }",
        ] {
            comes_back("x.c", code);
        }
    }

    #[test]
    fn containers_of_addresses() {
        for code in [
            "std::vector<void *> v;\nvoid f() { v.push_back(&x); for (void *p : v) use(static_cast<PTR>(p)); }",
            "std::map<int, void *> m;\nvoid f() { m[1] = &x; use(static_cast<PTR>(m.at(1))); }",
            "void f() { std::any y = static_cast<void *>(&x); use(static_cast<PTR>(std::any_cast<void *>(y))); }",
            "void f() { std::variant<int, void *> y = &x; use(static_cast<PTR>(std::get<void *>(y))); }",
            "void f() { std::shared_ptr<void> y = std::make_shared<s>(); use(static_cast<PTR>(y.get())); }",
        ] {
            comes_back("x.cc", code);
        }
    }

    #[test]
    fn other_things_of_the_same_names() {
        let other = "static int n;\nstruct o { void *p; };\n";
        for code in [
            // Another member, another function's variable, what is not the object's address.
            "struct q { void *p; };\nvoid f(struct o *o) { o->p = &x; }\nvoid g(struct q *q) { PTR v = q->p; use(v); }",
            "void f(void) { void *p = &x; use(p); }\nvoid g(void *p) { PTR v = p; use(v); }",
            "void f(struct o *o) { o->p = &n; PTR v = o->p; use(v); }",
            "void f(struct o *o) { o->p = &x.c; PTR v = o->p; use(v); }",
        ] {
            assert_eq!(found("x.c", &format!("{other}{code}"), "int"), "", "{code}");
        }
    }
}
