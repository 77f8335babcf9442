//! Namespaces and classes around a definition: which of several types of one name is meant.

use super::body::{Body, Source};

/// Whether the definition may be the type `name`: every namespace and class that is seen around it stands in the name,
/// in this order. Macros may open more (`FMT_BEGIN_NAMESPACE`), and a name without any fits all.
fn is_meant(source: &Source<'_>, body: &Body, name: &str) -> bool {
    let wanted = qualifiers(name);
    let mut left = wanted.iter();
    wanted.is_empty() || around(source, body).into_iter().all(|scope| left.any(|w| *w == scope))
}

/// How many of the namespaces and classes of `name` are seen around the definition; `None` where others are.
pub fn depth(source: &Source<'_>, body: &Body, name: &str) -> Option<usize> {
    is_meant(source, body, name).then(|| around(source, body).len())
}

/// Those of the definitions that are likeliest `name`; all, where none may be.
pub fn meant(source: &Source<'_>, bodies: Vec<Body>, name: &str) -> Vec<Body> {
    let depths: Vec<Option<usize>> = bodies.iter().map(|b| depth(source, b, name)).collect();
    let most = depths.iter().max().copied().flatten();
    let fits = |d: &Option<usize>| most.is_none() || *d == most;
    bodies.into_iter().zip(depths).filter(|(_, d)| fits(d)).map(|(b, _)| b).collect()
}

/// `ns` and `list` of `struct ns::list<a::b>::node`.
fn qualifiers(name: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0usize, 0, Vec::new());
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && name[at..].starts_with("::") => {
                let scope = name[from..at].split('<').next().unwrap_or("");
                out.push(scope.rsplit(' ').next().unwrap_or(scope));
                from = at + 2;
            }
            _ => {}
        }
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::body::bodies;

    fn meant_of(text: &str, name: &str) -> Vec<bool> {
        let source = Source::new(text);
        let all = bodies(&source);
        all.iter().filter(|b| b.tag.as_deref() == Some("Rep")).map(|b| is_meant(&source, b, name)).collect()
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
        let meant: Vec<usize> =
            meant(&source, bodies(&source), "db::v2::Graph::Rep").iter().map(|b| b.keyword).collect();
        assert_eq!(meant.len(), 1);
        assert_eq!(source.at(source.code_from(meant[0] + 1)), "Graph");
        // Namespaces by macros, and a name that says nothing.
        assert_eq!(meant_of(text, "Rep"), [true; 4]);
        assert_eq!(meant_of("BEGIN\nstruct Rep { int a; };\nEND", "fmt::v9::Rep"), [true]);
    }
}
