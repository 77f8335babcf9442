//! Namespaces and classes around a definition: which of several types of one name is meant.

use super::body::{Body, Source, bare_name, segments, unadorned};
use super::scan::Code;

/// How many of the namespaces and classes of `name` are seen around the definition; `None` where others are. Macros may
/// open more (`FMT_BEGIN_NAMESPACE`), and of a name without any all definitions are as likely.
pub fn depth(source: &Source<'_>, body: &Body, name: &str) -> Option<usize> {
    let wanted = qualifiers(name);
    if wanted.is_empty() {
        return Some(0);
    }
    let (mut left, scopes) = (wanted.iter(), around(source, body));
    scopes.iter().all(|scope| left.any(|w| w == scope)).then_some(scopes.len())
}

/// Those that are likeliest meant, by their [`depth`]; all, where none may be.
pub fn deepest<T>(all: Vec<T>, depth: impl Fn(&T) -> Option<usize>) -> Vec<T> {
    if all.len() < 2 {
        return all;
    }
    let depths: Vec<Option<usize>> = all.iter().map(depth).collect();
    let most = depths.iter().max().copied().flatten();
    all.into_iter().zip(depths).filter(|(_, d)| *d == most).map(|(t, _)| t).collect()
}

/// `ns` and `list` of `struct ns::list<a::b>::node`.
fn qualifiers(name: &str) -> Vec<&str> {
    let mut out = segments(name);
    out.pop();
    out.into_iter().map(unadorned).collect()
}

/// Names of the namespaces and classes around the definition, outermost first.
fn around<'a>(source: &Source<'a>, body: &Body) -> Vec<&'a str> {
    let mut open: Vec<Vec<&str>> = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    for i in (0..body.keyword).filter(|&i| source.code_from(i) == i) {
        match source.at(i) {
            "{" => open.push(names(&std::mem::take(&mut head))),
            "}" => {
                open.pop();
                head.clear();
            }
            ";" => head.clear(),
            word => head.push(word),
        }
    }
    let own: Vec<&str> =
        (body.keyword..body.open).filter(|&i| source.code_from(i) == i).map(|i| source.at(i)).collect();
    let mut out: Vec<&str> = open.into_iter().flatten().collect();
    let mut own = names(&own);
    own.pop();
    out.extend(own);
    out
}

/// The names that the head of a block declares: `a` and `b` of `namespace a::b`, `Foo` of `class EXPORT Foo : Base`.
fn names<'a>(head: &[&'a str]) -> Vec<&'a str> {
    let keyword = head.iter().rposition(|w| matches!(*w, "namespace" | "class" | "struct" | "union"));
    let Some(keyword) = keyword.filter(|_| !head.contains(&"(")) else { return Vec::new() };
    let rest = &head[keyword + 1..];
    let single = |i: usize| rest.get(i) == Some(&":") && rest.get(i + 1) != Some(&":");
    let base = (0..rest.len()).find(|&i| single(i) && (i == 0 || rest[i - 1] != ":")).unwrap_or(rest.len());
    let (mut out, mut depth, mut joined) = (Vec::new(), 0usize, false);
    for w in &rest[..base] {
        match *w {
            "<" => depth += 1,
            ">" => depth = depth.saturating_sub(1),
            ":" => joined = true,
            "final" => {}
            w if depth == 0 && w.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                // Only what `::` joins: other words before the name are macros.
                if !std::mem::take(&mut joined) {
                    out.clear();
                }
                out.push(w);
            }
            _ => {}
        }
    }
    out
}

/// Whether the type `name` that this file defines is the file's own: no other one sees a variable of it, or a function
/// with it. Another file's type of the same name is another type then.
pub fn keeps_to_itself(text: &str, name: &str) -> bool {
    let source = Source::new(text);
    let code = Code::new(&source);
    code.places(bare_name(name)).iter().all(|&i| {
        let within = code.enclosing(i);
        let unnamed = |open: usize| code.text(open.saturating_sub(1)) == "namespace";
        let own = |open: usize| code.text(open.saturating_sub(1)) == bare_name(name);
        if code.is_in_function(i) || within.is_some_and(|open| unnamed(open) || own(open)) {
            return true;
        }
        let (start, end) = code.statement(i);
        let first = code.text(start);
        let only_defined = code.text(i + 1) == "{" && code.text(code.close_of(i + 1) + 1) == ";";
        let declared = within.is_none() && i + 1 == end;
        only_defined || declared || matches!(first, "static" | "typedef")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::body::bodies;

    fn meant_of(text: &str, name: &str) -> Vec<bool> {
        let source = Source::new(text);
        let all = bodies(&source);
        all.iter()
            .filter(|b| b.tag.as_deref() == Some("Rep"))
            .map(|b| depth(&source, b, name).is_some())
            .collect()
    }

    #[test]
    fn a_file_keeps_a_type_to_itself() {
        let defined = "struct stats { long records; struct stats *next; };\n";
        let own = [
            "static struct stats last;",
            "static void put(struct stats *s) { s->records++; }",
            "struct stats;",
        ];
        let seen = [
            "extern struct stats all[4];",
            "struct stats last;",
            "void put(struct stats *s) { s->records++; }",
        ];
        for text in own {
            assert!(keeps_to_itself(&format!("{defined}{text}"), "struct stats"), "{text}");
        }
        for text in seen {
            assert!(!keeps_to_itself(&format!("{defined}{text}"), "struct stats"), "{text}");
        }
        assert!(keeps_to_itself("namespace { struct stats { long n; }; stats last; }", "stats"));
        assert!(keeps_to_itself(&format!("{defined}void f(void) {{ struct stats s; use(&s); }}"), "stats"));
    }

    #[test]
    fn the_scopes_of_a_name_choose() {
        let text = "namespace db {\nstruct Table::Rep { int a; };\nnamespace log { class EXPORT Rep { int b; }; }\n\
            class Builder : public Base { struct Rep { int c; }; void f() { struct Rep { int d; }; } };\n}\n";
        assert_eq!(meant_of(text, "db::Table::Rep"), [true, false, false, false]);
        assert_eq!(meant_of(text, "db::log::Rep"), [false, true, false, false]);
        assert_eq!(meant_of(text, "struct db::Builder::Rep"), [false, false, true, true]);
        let nested = "struct Rep<int>::Rep { int a; };\ntemplate <class T> struct list<T>::Rep { int b; };";
        assert_eq!(meant_of(nested, "list<long>::Rep"), [false, true]);
        let source = Source::new(
            "namespace db { BEGIN namespace { struct Rep { int a; }; } struct Graph::Rep { int b; }; }",
        );
        let meant = |name: &str| deepest(bodies(&source), |b| depth(&source, b, name));
        let graph = meant("db::v2::Graph::Rep");
        assert_eq!(graph.len(), 1);
        assert_eq!(source.at(source.code_from(graph[0].keyword + 1)), "Graph");
        assert_eq!(meant("Rep").len(), 2, "a name without scopes chooses none");
        assert_eq!(meant("other::Rep").len(), 2, "scopes that none has choose none");
        // Namespaces by macros, and a name that says nothing.
        assert_eq!(meant_of(text, "Rep"), [true; 4]);
        assert_eq!(meant_of("BEGIN\nstruct Rep { int a; };\nEND", "fmt::v9::Rep"), [true]);
    }
}
