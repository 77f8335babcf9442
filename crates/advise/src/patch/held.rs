//! Which members of which structs hold a type by value or point to it, and which names stand for pointers to it.

use std::collections::BTreeSet;

use super::body::{Body, Source, bodies, statements};
use super::init::names_of;
use super::member::declared;
use super::names::{Names, is_one_of};
use super::passed::Passed;
use super::scan::Code;

/// How deep a struct that holds a type may lie in others.
const OUTER_MAX: usize = 3;

/// Holders of which more are looked for: a type that is everywhere is not followed further.
const HOLDERS_MAX: usize = 64;

/// Members, of any struct of a project, that are declared with a type.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Their names, sorted.
    pub(super) names: Vec<String>,
    /// With the tags and typedefs of the structs around them.
    by: BTreeSet<(String, String)>,
    /// Those that are arrays: only they are addresses without an `&`.
    arrays: BTreeSet<String>,
    /// Members that point to one, with the tags and typedefs of the structs around them.
    pointing: BTreeSet<(String, String)>,
    /// Typedefs of pointers to it.
    pub(super) pointers: Vec<String>,
    /// What files beyond those that name it have to do with it.
    pub(super) passed: Passed,
}

impl Held {
    /// Of the type that is called `names` (sorted), as `files` (path and text) define structs.
    pub(super) fn of(names: &[String], files: &[(&str, &str)]) -> Held {
        let mut out = Held::default();
        let search = Names::new(names);
        let mut brackets = BTreeSet::new();
        let may_tell = |text: &&str| {
            let mut tells = false;
            for (from, to) in search.places(text) {
                tells |= may_hold(&text[to..]) || may_derive(&text[..from]);
                brackets.extend(is_array_typedef(text, from, to).then(|| text[from..to].to_string()));
            }
            tells
        };
        let telling: Vec<&str> = files.iter().map(|f| f.1).filter(may_tell).collect();
        for text in telling {
            let source = Source::new(text);
            out.pointers.extend(pointer_typedefs(&source, names));
            let all = bodies(&source);
            for body in &all {
                let members = members(&source, body, names, &brackets);
                // Those of a struct without a tag are members of what stands around it.
                let around = all.iter().filter(|b| b.open <= body.open && body.close <= b.close);
                let holders: Vec<&String> = around.flat_map(|b| b.tag.iter().chain(&b.aliases)).collect();
                if derives(&source, body, names) {
                    out.by.extend(body.tag.iter().map(|tag| (tag.clone(), String::new())));
                }
                for (member, kind) in members {
                    if kind == Kind::Pointer {
                        let unnamed = holders.is_empty().then(String::new);
                        let holders = holders.iter().map(|h| h.to_string()).chain(unnamed);
                        out.pointing.extend(holders.map(|h| (h, member.clone())));
                        continue;
                    }
                    out.arrays.extend((kind == Kind::Array).then(|| member.clone()));
                    out.by.extend(holders.iter().map(|h| (h.to_string(), member.clone())));
                    out.names.push(member);
                }
            }
        }
        for list in [&mut out.names, &mut out.pointers] {
            list.sort_unstable();
            list.dedup();
        }
        out
    }

    /// The tags and typedefs of the structs that hold it by value, and of those that hold these.
    pub(super) fn holders(&self, files: &[(&str, &str)]) -> Vec<String> {
        let mut out: BTreeSet<String> = self.by.iter().map(|(holder, _)| holder.clone()).collect();
        for _ in 0..OUTER_MAX {
            let names: Vec<String> = out.iter().cloned().collect();
            let known = out.len();
            if names.is_empty() || known > HOLDERS_MAX {
                break;
            }
            out.extend(Held::of(&names, files).by.into_iter().map(|(holder, _)| holder));
            if out.len() == known {
                break;
            }
        }
        out.into_iter().collect()
    }

    /// Whether some struct has such a member.
    pub(super) fn has(&self, member: &str) -> bool {
        self.names.binary_search_by(|n| n.as_str().cmp(member)).is_ok()
    }

    /// Whether some struct has such an array.
    pub(super) fn is_array(&self, member: &str) -> bool {
        self.arrays.contains(member)
    }

    /// Whether the struct `holder` has such a member that points to one.
    pub(super) fn points_in(&self, holder: &str, member: &str) -> bool {
        self.pointing.contains(&(holder.to_string(), member.to_string()))
    }

    /// Whether some struct has such a member that points to one. Structs without a name have no other sign.
    pub(super) fn points_somewhere(&self, member: &str) -> bool {
        self.pointing.iter().any(|(_, m)| m == member)
    }

    /// Whether the word stands for a pointer to one.
    pub(super) fn is_pointer_name(&self, word: &str) -> bool {
        self.pointers.iter().any(|p| p == word)
    }

    /// Whether the struct `holder` has it.
    pub(super) fn has_in(&self, holder: &str, member: &str) -> bool {
        self.by.contains(&(holder.to_string(), member.to_string()))
    }
}

/// Whether two names mean one type, or a struct and one that holds it by value.
pub(super) fn is_same_or_around(a: &str, b: &str, files: &[(&str, &str)]) -> bool {
    let around = |inner: &str, outer: &str| {
        let names = names_of(inner, files);
        let has = |list: &[String]| list.iter().any(|n| n == outer);
        has(&names) || has(&Held::of(&names, files).holders(files))
    };
    a == b || around(a, b) || around(b, a)
}

/// Whether what is `behind` a type's name may be a member of it, or one that points to it: casts and parameters only
/// mention it.
fn may_hold(behind: &str) -> bool {
    let behind = behind.trim_start();
    match behind.strip_prefix('*') {
        // A member or a typedef: one star, a name, and what ends a declarator of a struct.
        Some(name) => name
            .trim_start_matches(|c: char| c.is_whitespace() || c.is_alphanumeric() || c == '_')
            .starts_with([';', ',']),
        None => !matches!(
            behind.bytes().next(),
            None | Some(b')' | b',' | b';' | b'&' | b'>' | b'.' | b'(' | b'=')
        ),
    }
}

/// `struct other : public name {`, as far as a glance at what is `before` the name tells.
fn may_derive(before: &str) -> bool {
    let before = before.trim_end();
    [":", ",", "public", "private", "protected", "virtual"].iter().any(|w| before.ends_with(w))
}

/// One of `names` is a base of the class.
fn derives(source: &Source<'_>, body: &Body, names: &[String]) -> bool {
    let head = (body.keyword..body.open).filter(|&t| source.tokens[t].is_code()).map(|t| source.at(t));
    let mut bases = head.skip_while(|t| *t != ":").skip(1);
    bases.any(|t| is_one_of(names, t))
}

/// Names of `typedef struct name *other;` and `using other = name *;`.
fn pointer_typedefs(source: &Source<'_>, names: &[String]) -> Vec<String> {
    let code = Code::new(source);
    let ours = |i: usize| is_one_of(names, code.text(i));
    let keyword = |i: usize| matches!(code.text(i), "struct" | "const" | "class" | "volatile");
    let skip = |mut i: usize| {
        while keyword(i) {
            i += 1;
        }
        i
    };
    let mut out = Vec::new();
    for &i in code.places("typedef") {
        let at = skip(i + 1);
        if ours(at) && code.text(at + 1) == "*" && code.text(at + 3) == ";" {
            out.push(code.text(at + 2).to_string());
        }
        // `typedef struct name { .. } name, *other;`
        let (_, end) = code.statement(i);
        let named = ours(at) || ours(end.saturating_sub(3));
        if named && code.text(end - 2) == "*" && code.text(end.saturating_sub(3)) == "," {
            out.push(code.text(end - 1).to_string());
        }
    }
    for &i in code.places("using").iter().filter(|&&i| code.text(i + 2) == "=") {
        let at = skip(i + 3);
        if ours(at) && code.text(at + 1) == "*" && code.text(at + 2) == ";" {
            out.push(code.text(i + 1).to_string());
        }
    }
    out
}

/// How a member has the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Array,
    Pointer,
}

/// `typedef struct foo name[2];`, where the name stands in these bytes.
fn is_array_typedef(text: &str, from: usize, to: usize) -> bool {
    let statement = || text[..from].rsplit(';').next().unwrap_or("");
    text[to..].trim_start().starts_with('[') && statement().contains("typedef")
}

/// The members of `body` that are declared with one of `names`. Arrays are so by brackets or by their type's name.
fn members(
    source: &Source<'_>,
    body: &Body,
    names: &[String],
    brackets: &BTreeSet<String>,
) -> Vec<(String, Kind)> {
    let mut out = Vec::new();
    for statement in statements(source, body).unwrap_or_default() {
        let tokens = statement.first..statement.last;
        let words: Vec<&str> = tokens.filter(|&i| source.tokens[i].is_code()).map(|i| source.at(i)).collect();
        let keyword = |w: &&&str| matches!(**w, "struct" | "const" | "volatile" | "union" | "class");
        let ours = words.iter().find(|w| !keyword(w)).is_some_and(|w| is_one_of(names, w));
        if !ours || words.contains(&"(") {
            continue;
        }
        let is_array = words.contains(&"[") || words.iter().any(|w| brackets.contains(*w));
        let declared = declared(source, &statement).names;
        let stars = words.iter().filter(|w| **w == "*").count();
        let kind = match (stars, is_array) {
            (0, false) => Kind::Value,
            (0, true) => Kind::Array,
            (n, false) if n == declared.len() => Kind::Pointer,
            _ => continue,
        };
        out.extend(declared.into_iter().map(|n| (n, kind)));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{self, Ask};

    const HEADER: &str = "struct mapping { int a; int b; };\nstruct inode { struct mapping data; };\n\
        struct ext { unsigned data[15]; };\nstruct outer { int n; struct { struct mapping deep; }; };\n";

    #[test]
    fn a_member_of_the_same_name_in_another_struct_is_another() {
        let run =
            |code: &str| uses::check("mapping", None, Ask::LAYOUT, &[("a.h", HEADER), ("a.c", code)]).is_ok();
        assert!(run("char *f(struct ext *e) { return (char *)e->data; }\n"));
        assert!(!run("char *f(struct inode *e) { return (char *)&e->data; }\n"));
        assert!(!run("char *f(struct outer *e) { return (char *)&e->deep; }\n"));
        // Only arrays are addresses as they stand: this `data` is no struct.
        assert!(run("char *f(struct top *e) { return (char *)e->inner.data; }\n"));
        assert!(!run(
            "struct all { struct mapping list[4]; };\nchar *f(struct all *e) { return (char *)e->list; }\n"
        ));
        let alias = "typedef struct mapping two[2];\nstruct all { two list; };\n";
        assert!(!run(&format!("{alias}char *f(struct all *e) {{ return (char *)e->list; }}\n")));
        // Whose member it is cannot be told.
        assert!(!run("char *f(ext_t *e) { return (char *)&e->data; }\n"));
        assert!(!run("char *f(struct top *e) { return (char *)&e->inner.data; }\n"));
    }

    #[test]
    fn a_base_is_a_part() {
        let own = "struct s { int a; int b; };\nstruct d : public s { int k; };\n";
        let run = |code: &str| {
            let text = format!("{own}{code}\n");
            uses::check("s", None, Ask::LAYOUT, &[("a.cc", &text)]).is_ok()
        };
        assert!(!run("void f() { d x; hash(&x, sizeof(s)); }"));
        assert!(!run("char *f(d *x) { return (char *)x; }"));
        assert!(run("void f() { d x; use(&x, 4); }"));
    }

    #[test]
    fn pointers_are_addresses_too() {
        let run = |code: &str| uses::check("s", None, Ask::LAYOUT, &[("a.c", code)]).is_ok();
        let own = "struct s { int a; int b; };\n";
        assert!(!run(&format!("{own}typedef struct s *sp;\nchar *f(sp p) {{ return (char *)p; }}\n")));
        assert!(!run("typedef struct s { int a; } s_t, *sp;\nchar *f(sp p) { return (char *)p; }\n"));
        let list =
            format!("{own}struct list {{ int n; struct s *item; }};\nstruct other {{ char *item; }};\n");
        assert!(!run(&format!("{list}char *f(struct list *l) {{ return (char *)l->item; }}\n")));
        assert!(run(&format!("{list}char *f(struct other *l) {{ return (char *)l->item; }}\n")));
        assert!(!run(&format!("{own}struct s *get(void);\nchar *f(void) {{ return (char *)get(); }}\n")));
        let freed = "void f(struct s *p) { char *b = (char *)p; free(b); }\n";
        assert!(run(&format!("{own}{freed}")));
    }
}
