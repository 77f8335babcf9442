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
    /// Those that are arrays: only they are addresses without an `&`.
    arrays: BTreeSet<String>,
}

impl Held {
    /// Of the type that is called `names`, as `files` (path and text) define structs.
    pub(super) fn of(names: &[String], files: &[(&str, &str)]) -> Held {
        let mut out = Held::default();
        let brackets: Vec<String> =
            names.iter().filter(|n| files.iter().any(|f| is_array_typedef(f.1, n))).cloned().collect();
        for (_, text) in files.iter().filter(|f| names.iter().any(|n| may_hold(f.1, n))) {
            let source = Source::new(text);
            let all = bodies(&source);
            for body in &all {
                let members = members(&source, body, names, &brackets);
                // Those of a struct without a tag are members of what stands around it.
                let around = all.iter().filter(|b| b.open <= body.open && body.close <= b.close);
                let holders: Vec<&String> = around.flat_map(|b| b.tag.iter().chain(&b.aliases)).collect();
                for (member, is_array) in members {
                    out.arrays.extend(is_array.then(|| member.clone()));
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

    /// Whether some struct has such an array.
    pub(super) fn is_array(&self, member: &str) -> bool {
        self.arrays.contains(member)
    }

    /// Whether the struct `holder` has it.
    pub(super) fn has_in(&self, holder: &str, member: &str) -> bool {
        self.by.contains(&(holder.to_string(), member.to_string()))
    }
}

/// Whether `text` may declare something with the type `name` by value: pointers, casts and arguments only mention it.
fn may_hold(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let behind = text[at + name.len()..].trim_start().bytes().next();
        !matches!(behind, None | Some(b'*' | b')' | b',' | b';' | b'&' | b'>' | b'.' | b'(' | b'='))
    })
}

/// `typedef struct foo name[2];`
fn is_array_typedef(text: &str, name: &str) -> bool {
    let statements = text.split(';').filter(|s| s.contains("typedef") && s.contains(name));
    let mut declarators = statements.filter_map(|s| s.rsplit_once(name));
    declarators.any(|(_, behind)| behind.trim_start().starts_with('['))
}

/// The members of `body` that are declared with one of `names`, by value, and whether they are arrays: by brackets or
/// by their type's name.
fn members(source: &Source<'_>, body: &Body, names: &[String], brackets: &[String]) -> Vec<(String, bool)> {
    let mut out = Vec::new();
    for statement in statements(source, body).unwrap_or_default() {
        let tokens = statement.first..statement.last;
        let words: Vec<&str> = tokens.filter(|&i| source.tokens[i].is_code()).map(|i| source.at(i)).collect();
        let keyword = |w: &&&str| matches!(**w, "struct" | "const" | "volatile" | "union" | "class");
        let ours = words.iter().find(|w| !keyword(w)).is_some_and(|w| names.iter().any(|n| n == w));
        if ours && !words.contains(&"*") && !words.contains(&"(") {
            let is_array = words.contains(&"[") || words.iter().any(|w| brackets.iter().any(|b| b == w));
            out.extend(declared(source, &statement).names.into_iter().map(|n| (n, is_array)));
        }
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
}
