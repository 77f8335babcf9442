//! Which members of which structs hold a type by value.

use std::collections::BTreeSet;

use super::body::{Body, Source, bodies, statements};
use super::member::declared;

/// Members, of any struct of a project, that are declared with a type.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Their names, sorted.
    pub(super) names: Vec<String>,
    /// With the tags and typedefs of the structs around them.
    by: BTreeSet<(String, String)>,
}

impl Held {
    /// Of the type that is called `names`, as `files` (path and text) define structs.
    pub(super) fn of(names: &[String], files: &[(&str, &str)]) -> Held {
        let mut out = Held::default();
        for (_, text) in files.iter().filter(|f| names.iter().any(|n| f.1.contains(n.as_str()))) {
            let source = Source::new(text);
            let all = bodies(&source);
            for body in &all {
                let members = members(&source, body, names);
                // Those of a struct without a tag are members of what stands around it.
                let around = all.iter().filter(|b| b.open <= body.open && body.close <= b.close);
                let holders: Vec<&String> = around.flat_map(|b| b.tag.iter().chain(&b.aliases)).collect();
                for member in members {
                    out.by.extend(holders.iter().map(|h| (h.to_string(), member.clone())));
                    out.names.push(member);
                }
            }
        }
        out.names.sort();
        out.names.dedup();
        out
    }

    /// Whether some struct has such a member.
    pub(super) fn has(&self, member: &str) -> bool {
        self.names.binary_search_by(|n| n.as_str().cmp(member)).is_ok()
    }

    /// Whether the struct `holder` has it.
    pub(super) fn has_in(&self, holder: &str, member: &str) -> bool {
        self.by.contains(&(holder.to_string(), member.to_string()))
    }
}

/// The members of `body` that are declared with one of `names`, by value.
fn members(source: &Source<'_>, body: &Body, names: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for statement in statements(source, body).unwrap_or_default() {
        let tokens = statement.first..statement.last;
        let words: Vec<&str> = tokens.filter(|&i| source.tokens[i].is_code()).map(|i| source.at(i)).collect();
        let keyword = |w: &&&str| matches!(**w, "struct" | "const" | "volatile" | "union" | "class");
        let ours = words.iter().find(|w| !keyword(w)).is_some_and(|w| names.iter().any(|n| n == w));
        if ours && !words.contains(&"*") && !words.contains(&"(") {
            out.extend(declared(source, &statement).names);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::patch::bytes::check;

    const HEADER: &str = "struct mapping { int a; int b; };\nstruct inode { struct mapping data; };\n\
        struct ext { unsigned data[15]; };\nstruct outer { int n; struct { struct mapping deep; }; };\n";

    #[test]
    fn a_member_of_the_same_name_in_another_struct_is_another() {
        let run = |code: &str| check("mapping", &[("a.h", HEADER), ("a.c", code)]).is_ok();
        assert!(run("char *f(struct ext *e) { return (char *)e->data; }\n"));
        assert!(!run("char *f(struct inode *e) { return (char *)&e->data; }\n"));
        assert!(!run("char *f(struct outer *e) { return (char *)&e->deep; }\n"));
        // Whose member it is cannot be told.
        assert!(!run("char *f(ext_t *e) { return (char *)&e->data; }\n"));
        assert!(!run("char *f(struct top *e) { return (char *)&e->inner.data; }\n"));
    }
}
