//! Templates that look at the size, the bytes or the members of what they are given.

use super::body::Source;
use super::bytes::keeps;
use super::objects::{Objects, is_scalar};
use super::scan::Code;

/// What needs no refusal while the size stays.
const SIZE: &str = "counts on the size of";

/// Tokens of one template that are looked at.
const TEMPLATE_TOKENS_MAX: usize = 600;

/// The name of every operator that is a template.
const OPERATOR: &str = "operator";

/// Templates that hand their parameter on, one after the other.
const HANDED_ON_MAX: usize = 3;

/// Tokens of the parameters of one template.
const PARAMETER_TOKENS_MAX: usize = 80;

/// A template that looks at the layout of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curious {
    name: String,
    /// What it does, as part of a sentence.
    how: &'static str,
    /// It is a concept.
    concept: bool,
    /// Which arguments of a function it looks at; all, where that is not known.
    at: Option<Positions>,
}

/// Arguments of a function: these, and all from one on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Positions {
    these: Vec<usize>,
    rest: usize,
}

impl Positions {
    fn has(&self, n: usize) -> bool {
        self.these.contains(&n) || n >= self.rest
    }
}

impl Curious {
    fn looks_at(&self, argument: usize) -> bool {
        self.at.as_ref().is_none_or(|p| p.has(argument))
    }
}

/// The arguments of the function `name` that `wanted` holds of; `Ts... ts` stands for all from there on. `None` where
/// there is no such argument: something else is looked at.
fn positions(code: &Code<'_, '_>, name: usize, wanted: &dyn Fn((usize, usize)) -> bool) -> Option<Positions> {
    if code.text(name + 1) != "(" {
        return None;
    }
    let all = code.arguments(name + 1);
    let these: Vec<usize> = all.iter().enumerate().filter(|a| wanted(*a.1)).map(|a| a.0).collect();
    let many = |a: &(usize, usize)| (a.0..a.1).any(|j| code.text(j) == "." && code.text(j + 1) == ".");
    let rest = all.iter().position(many).filter(|n| these.contains(n)).unwrap_or(usize::MAX);
    (!these.is_empty()).then_some(Positions { these, rest })
}

/// Every such template of `files`.
pub(super) fn curious(files: &[(&str, &str)]) -> Vec<Curious> {
    let mut out = Vec::new();
    for (_, text) in files.iter().filter(|f| has_templates(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        out.extend(code.places("template").iter().filter_map(|&i| template(&code, i)));
        out.extend(code.places("auto").iter().filter_map(|&i| deduced(&code, i)));
    }
    // Who hands its parameter on to such a template is one, too.
    let mut asked = 0;
    for _ in 0..HANDED_ON_MAX {
        let fresh = &out[asked..];
        let mentions = |t: &str| has_templates(t) && fresh.iter().any(|c| t.contains(&c.name));
        let mut more = Vec::new();
        for (_, text) in files.iter().filter(|f| mentions(f.1)) {
            let source = Source::new(text);
            let code = Code::new(&source);
            more.extend(code.places("template").iter().filter_map(|&i| hands_on(&code, i, &out)));
        }
        asked = out.len();
        out.extend(more);
    }
    let concepts: Vec<Curious> = out.iter().filter(|c| c.concept).cloned().collect();
    for (_, text) in files.iter().filter(|f| concepts.iter().any(|c| f.1.contains(c.name.as_str()))) {
        let source = Source::new(text);
        let code = Code::new(&source);
        out.extend(code.places("template").iter().filter_map(|&i| constrained(&code, i, &concepts)));
    }
    out
}

/// The function with a parameter of `auto` at `i`, or the variable that is such a lambda: `auto h = [](auto &o) {`.
fn deduced(code: &Code<'_, '_>, i: usize) -> Option<Curious> {
    let open = code.open_before(i).filter(|&o| o > 0 && code.text(o) == "(")?;
    let close = code.closing(open)?;
    let body = (close + 1..close + 12).find(|&j| matches!(code.text(j), "{" | ";" | ")"))?;
    let end = code.matching(body, ["{", "}"], TEMPLATE_TOKENS_MAX).filter(|_| code.text(body) == "{")?;
    let parameters: Vec<&str> =
        code.arguments(open).into_iter().filter(|a| a.1 > a.0).map(|(_, to)| code.text(to - 1)).collect();
    let name = match code.text(open - 1) {
        "]" => {
            let start = code.opening(open - 1)?;
            start.checked_sub(2).filter(|_| code.text(start - 1) == "=")?
        }
        _ => open - 1,
    };
    let how = how(code, (body, end), &parameters).filter(|_| code.is_word(name))?;
    Some(Curious { name: code.text(name).to_string(), how, concept: false, at: None })
}

/// The template at `i`, if one of `concepts` says what it is given.
fn constrained(code: &Code<'_, '_>, i: usize, concepts: &[Curious]) -> Option<Curious> {
    let close = code.matching(i + 1, ["<", ">"], PARAMETER_TOKENS_MAX)?;
    let open = (close..code.len().min(close + PARAMETER_TOKENS_MAX)).find(|&j| code.text(j) == "{")?;
    let how = (i + 2..open).find_map(|j| concepts.iter().find(|c| c.name == code.text(j)))?.how;
    let name = (close + 1..open).find(|&j| code.is_word(j) && code.text(j + 1) == "(")?;
    Some(Curious { name: code.text(name).to_string(), how, concept: false, at: None })
}

/// The template at `i`, if it gives its parameters to one of `known`.
fn hands_on(code: &Code<'_, '_>, i: usize, known: &[Curious]) -> Option<Curious> {
    let (name, end, parameters) = header(code, i)?;
    if known.iter().any(|c| c.name == code.text(name)) {
        return None;
    }
    // `const Ts &...ts`
    let own: Vec<&str> = code
        .arguments(name + 1)
        .into_iter()
        .filter(|&(from, to)| (from..to).any(|k| parameters.contains(&code.text(k))))
        .map(|(_, to)| code.text(to - 1))
        .collect();
    let generic = |k: usize| own.contains(&code.text(k)) || is_generic(code, k, &parameters);
    let mut handed: Vec<&str> = Vec::new();
    let mut found = None;
    for j in (name + 1..end).filter(|&j| code.text(j + 1) == "(") {
        let Some(known) = known.iter().find(|c| c.name == code.text(j)) else { continue };
        let arguments = code.arguments(j + 1);
        let looked_at = arguments.iter().enumerate().filter(|a| known.looks_at(a.0));
        let words = looked_at.flat_map(|(_, a)| (a.0..a.1).filter(|&k| code.is_word(k) && generic(k)));
        let before = handed.len();
        handed.extend(words.map(|k| code.text(k)));
        found = found.or((handed.len() > before).then_some(known.how));
    }
    let given = |(from, to): (usize, usize)| to > from && handed.contains(&code.text(to - 1));
    let at = positions(code, name, &given);
    Some(Curious { name: code.text(name).to_string(), how: found?, concept: false, at })
}

/// `template <`, as far as a glance tells.
fn has_templates(text: &str) -> bool {
    let angle = |(at, word): (usize, &str)| text[at + word.len()..].trim_start().starts_with('<');
    text.match_indices("template").any(angle) || (text.contains("auto") && text.contains("::"))
}

/// The first place where an object, or the type itself, is given to such a template: to one that asks for its size
/// alone where `size` is asked for, else to one that asks for more.
pub(super) fn in_file(objects: &Objects<'_, '_>, curious: &[Curious], size: bool) -> Option<(usize, String)> {
    curious.iter().filter(|c| (c.how == SIZE) == size).find_map(|c| {
        let place = match c.name.as_str() {
            OPERATOR => (2..objects.code.len()).find(|&i| operand(objects, i)),
            name => objects.code.places(name).iter().copied().find(|&i| given(objects, i, c)),
        };
        place.map(|i| (i, format!("{} {} what it is given", c.name, c.how)))
    })
}

/// `s{1, 2}`
fn is_made(objects: &Objects<'_, '_>, i: usize) -> bool {
    objects.is_name(i) && matches!(objects.text(i + 1), "{" | "(")
}

/// `out << s{1, 2}`, and `out(1, s{})` of a variable.
fn operand(objects: &Objects<'_, '_>, i: usize) -> bool {
    let whole = is_made(objects, i) || objects.is_variable(i) && !matches!(objects.text(i + 1), "." | "-");
    let shifted = (objects.text(i - 1), objects.text(i - 2)) == ("<", "<");
    let called = || {
        let callee = objects.code.open_before(i).filter(|&o| o > 0 && objects.text(o) == "(").map(|o| o - 1);
        callee.is_some_and(|c| objects.code.variable(objects.text(c), c).is_some() && objects.code.is_word(c))
    };
    whole && (shifted || called())
}

/// The function at `i` is given members in their order, in braces: `draw({1, 2})`, where one `draw` takes the type.
pub(super) fn braced(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let code = &objects.code;
    if !code.is_word(i) || code.text(i + 1) != "(" || !code.is_cpp() || !code.is_in_function(i) {
        return None;
    }
    let values = |a: &(usize, usize)| code.text(a.0) == "{" && !matches!(code.text(a.0 + 1), "}" | ".");
    let index = code.arguments(i + 1).iter().position(values)?;
    let takes = |&&j: &&usize| {
        let parameter = code.arguments(j + 1).get(index).copied();
        j != i && code.is_typed(j) && parameter.is_some_and(|(from, to)| objects.names_type(from, to))
    };
    let name = code.text(i);
    code.places(name).iter().find(takes).map(|_| format!("{name}() is given its members in their order"))
}

/// The template at `i` is given the type (`f<S>`) or an object of it (`f(s)`).
fn given(objects: &Objects<'_, '_>, i: usize, curious: &Curious) -> bool {
    if objects.text(i + 1) == "<" {
        return objects.names_type(i + 2, (i + 2..i + 12).find(|&j| objects.text(j) == ">").unwrap_or(i + 2));
    }
    // `f(s.storage)` is given a member.
    let member =
        |j: usize| objects.text(j + 1) == "." || (objects.text(j + 1), objects.text(j + 2)) == ("-", ">");
    let whole = |j: usize| objects.is_object(j) && (!member(j) || objects.text(j + 3) == "(");
    let returned = |j: usize| objects.text(j + 1) == "(" && objects.returns_object(objects.text(j));
    let shown = |j: usize| whole(j) || is_made(objects, j) || returned(j);
    let arguments = objects.arguments(i + 1).into_iter().enumerate().filter(|a| curious.looks_at(a.0));
    objects.text(i + 1) == "(" && arguments.into_iter().any(|(_, (from, to))| (from..to).any(shown))
}

/// The name of the template at `i`, its end, and its parameters.
fn header<'a>(code: &Code<'_, 'a>, i: usize) -> Option<(usize, usize, Vec<&'a str>)> {
    let close = code.matching(i + 1, ["<", ">"], PARAMETER_TOKENS_MAX)?;
    let parameters: Vec<&str> = (i + 2..close)
        .filter(|&j| matches!(code.text(j - 1), "typename" | "class" | "."))
        .map(|j| code.text(j))
        .collect();
    let end = end_of(code, close + 1)?;
    let name = (close + 1..end).find(|&j| {
        code.is_word(j)
            && (code.text(j + 1) == "("
                || code.text(j) == OPERATOR
                || matches!(code.text(j - 1), "struct" | "class" | "union")
                || code.text(j + 1) == "=")
    })?;
    Some((name, end, parameters))
}

/// Name of the template at `i`, and what it does with its parameters' layout.
fn template(code: &Code<'_, '_>, i: usize) -> Option<Curious> {
    let (name, end, parameters) = header(code, i)?;
    // `template <class T> union Bits { T t; char raw[sizeof(T)]; };`
    let union = code.text(name - 1) == "union" && (name..end).any(|j| parameters.contains(&code.text(j)));
    let how = if union { "looks at the bytes of" } else { how(code, (name, end), &parameters)? };
    let concept = code.text(name.wrapping_sub(1)) == "concept";
    let generic = |(from, to): (usize, usize)| (from..to).any(|k| parameters.contains(&code.text(k)));
    let at = positions(code, name, &generic);
    Some(Curious { name: code.text(name).to_string(), how, concept, at })
}

/// What the tokens `from..to` of a template do with the layout of its parameters. Whoever asks for a size and has an
/// address looks at bytes.
fn how(code: &Code<'_, '_>, (from, to): (usize, usize), parameters: &[&str]) -> Option<&'static str> {
    let all = || (from..to).filter_map(|j| looks(code, j, parameters));
    let address = |j: usize| {
        let taken = matches!(code.text(j - 1), "(" | "," | "=" | ")" | "return") && code.text(j) == "&";
        let named = (code.text(j), code.text(j + 1)) == ("addressof", "(");
        taken && is_generic(code, j + 1, parameters) || named && is_generic(code, j + 2, parameters)
    };
    match all().find(|h| *h != SIZE).or_else(|| all().next()) {
        Some(SIZE) if (from + 1..to).any(address) => Some("looks at the bytes of"),
        found => found,
    }
}

/// The word at `at` is a parameter of the template, or a variable of its type.
fn is_generic(code: &Code<'_, '_>, at: usize, parameters: &[&str]) -> bool {
    let word = code.text(at);
    parameters.contains(&word)
        || code.variable(word, at).is_some_and(|d| parameters.contains(&code.text(d.ty)))
}

fn looks(code: &Code<'_, '_>, j: usize, parameters: &[&str]) -> Option<&'static str> {
    let generic = |at: usize| is_generic(code, at, parameters);
    match code.text(j) {
        "sizeof" => {
            let close = code.closing(j + 1).unwrap_or(j + 2);
            let measures = (j + 1..=close).any(|k| code.is_word(k) && generic(k));
            let call =
                (j.saturating_sub(40)..j).rev().take_while(|&k| !matches!(code.text(k), ";" | "{" | "}"));
            // What a compiler asserts it decides.
            let room = |w: &str| w.contains("storage") || w == "static_assert" || keeps(w);
            let kept = call.filter(|&k| code.is_word(k)).any(|k| room(code.text(k)));
            // `put(t, sizeof *t)`
            let beside = code.open_before(j).filter(|&o| o > 0 && code.text(o) == "(" && code.is_word(o - 1));
            let given = beside.is_some_and(|o| {
                let others = code.arguments(o).into_iter().filter(|a| !(a.0 <= j && j < a.1));
                others.into_iter().any(|(from, to)| (from..to).any(|k| is_generic(code, k, parameters)))
            });
            let how = if given { "looks at the bytes of" } else { SIZE };
            (measures && !kept).then_some(how)
        }
        "reinterpret_cast" | "bit_cast" | "as_bytes" => {
            let (_, end) = code.statement(j);
            (j..end).any(|k| code.is_word(k) && generic(k)).then_some("looks at the bytes of")
        }
        // `(const char *)&o`
        "&" if (code.text(j - 1), code.text(j - 2)) == (")", "*") && code.cast_before(j - 1).is_some() => {
            let bytes = (j.saturating_sub(6)..j).any(|k| is_scalar(code.text(k)));
            (bytes && generic(j + 1)).then_some("looks at the bytes of")
        }
        // `(const char *)std::addressof(o)`
        "addressof" if code.text(j + 1) == "(" && generic(j + 2) => {
            let cast = (j.saturating_sub(9)..j)
                .rev()
                .find(|&k| code.text(k) == "*")
                .filter(|&k| code.text(k + 1) == ")");
            let bytes = cast.is_some_and(|c| (c.saturating_sub(4)..c).any(|k| is_scalar(code.text(k))));
            bytes.then_some("looks at the bytes of")
        }
        "has_unique_object_representations_v"
        | "has_unique_object_representations"
        | "is_always_lock_free" => {
            let (from, end) = code.statement(j);
            (from..end).any(|k| parameters.contains(&code.text(k))).then_some(SIZE)
        }
        // `auto [x, y] = t;`
        "auto" => {
            let open = (j + 1..j + 4).find(|&k| code.text(k) != "&").filter(|&k| code.text(k) == "[")?;
            let close = code.matching(open, ["[", "]"], 60)?;
            let value = (code.text(close + 1) == "=").then_some(close + 2)?;
            generic(value).then_some("takes the members in their order of")
        }
        // `requires { T{1}; }`, `decltype(T{1, 2})`: what compiles decides.
        "requires" | "decltype" => (j..j + 30)
            .take_while(|&k| code.text(k) != ";")
            .any(|k| parameters.contains(&code.text(k)) && code.text(k + 1) == "{" && code.text(k + 2) != "}")
            .then_some("asks for the first members of"),
        _ => None,
    }
}

/// One past the `}` or at the `;` that ends the template.
fn end_of(code: &Code<'_, '_>, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in from..code.len().min(from + TEMPLATE_TOKENS_MAX) {
        match code.text(i) {
            "{" => depth += 1,
            "}" if depth == 1 && code.text(i + 1) != ";" => return Some(i + 1),
            "}" => depth = depth.checked_sub(1)?,
            ";" if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    /// A hash that hands its state on, and what it takes of an object member by member.
    #[test]
    fn arguments_that_are_not_looked_at() {
        let hash = "struct H { template <typename T> static H combine(H state, const T &v) {\n\
            const unsigned char *p = reinterpret_cast<const unsigned char *>(&v); return state; } };\n\
            template <typename S> S value(S state, s x) { return S::combine(state, x.a); }\n";
        let run = |code: &str| {
            let text = format!("struct s {{ int a; int b; }};\n{hash}{code}\n");
            check("s", None, Ask::LAYOUT, &[("x.cc", &text)]).is_ok()
        };
        assert!(run("void f(H h, s &x) { value(h, x); }"));
        assert!(!run("void f(H h, s &x) { H::combine(h, x); }"));
        let both =
            "template <typename S, typename T> S all(S state, const T &t) { return S::combine(state, t); }\n";
        assert!(!run(&format!("{both}void f(H h, s &x) {{ all(h, x); }}")));
        assert!(run(&format!("{both}void f(H h, s &x) {{ all(x.b, x.a); }}")));
    }

    #[test]
    fn a_templates_parameter_of_its_name_is_another_type() {
        let bytes = "template <class T> int h(T &o) { return reinterpret_cast<unsigned char *>(&o)[0]; }\n";
        for cast in ["(const unsigned char *)&o", "(const unsigned char *)std::addressof(o)"] {
            let text = format!(
                "struct s {{ int a; int b; }};\n\
                 template <class T> int h(const T &o, int i) {{ return ({cast})[i]; }}\n\
                 int f(s *x) {{ return h(*x, 4); }}\n"
            );
            assert!(check("s", None, Ask::LAYOUT, &[("x.cc", &text)]).is_err(), "{cast}");
        }
        let run = |parameter: &str| {
            let code = format!("template <typename {parameter}> int g({parameter} v) {{ return h(v); }}");
            let text =
                format!("struct s {{ int a; int b; }};\n{bytes}{code}\nint f(s *x) {{ return x->a; }}\n");
            check("s", None, Ask::LAYOUT, &[("x.cc", &text)]).is_ok()
        };
        assert!(run("s") && run("U"));
    }

    #[test]
    fn functions_without_a_type() {
        let run = |code: &str| {
            let text = format!("struct s {{ int a; int b; }};\n{code}\n");
            check("s", None, Ask::LAYOUT, &[("x.cc", &text)]).is_ok()
        };
        let bytes = "{ return reinterpret_cast<const unsigned char *>(&o)[0]; }";
        assert!(!run(&format!("int f(s &x) {{ auto h = [](const auto &o) {bytes}; return h(x); }} // ::")));
        assert!(!run(&format!("int h(const auto &o) {bytes}\nint f(s &x) {{ return std::max(h(x), 1); }}")));
        assert!(!run(
            "int h(const auto &o) { return ((const char *)&o)[0]; }\nint f(s &x) { return ::h(x); }"
        ));
        assert!(run(&format!("int h(const auto &o) {bytes}\nint f(s &x) {{ return ::h(x.a); }}")));
        let small = "template <class T> concept Small = sizeof(T) <= 16;\n";
        assert!(!run(&format!(
            "{small}template <Small T> int g(T &) {{ return 1; }}\nint f(s &x) {{ return g(x); }}"
        )));
        assert!(run(&format!(
            "{small}template <class T> int g(T &) {{ return 1; }}\nint f(s &x) {{ return g(x); }}"
        )));
        let only = |size: bool, code: &str| {
            let text = format!("struct s {{ int a; int b; }};\n{code}\n");
            check("s", None, Ask { size, ..Ask::LAYOUT }, &[("x.cc", &text)]).is_ok()
        };
        let sized = "template <class T> int g(T &) { return sizeof(T); }\nint f(s &x) { return g(x); }";
        assert!(only(false, sized) && !only(true, sized));
        let written = "template <class T> void put(const T &t) { fwrite(&t, sizeof t, 1, f); }\n\
            void f(s &x) { put(x); }";
        assert!(!only(false, written));
        assert!(!only(
            false,
            &written.replace("fwrite(&t, sizeof t, 1, f)", "auto p = &t; sum(p, sizeof(T))")
        ));
        assert!(!only(
            false,
            &written.replace("const T &t", "const T *t").replace("&t, sizeof t", "t, sizeof *t")
        ));
        let room = "template <class T> struct Lazy {\n  static_assert(sizeof(T) > 1);\n\
            typename std::aligned_storage<sizeof(T), alignof(T)>::type room;\n};\nLazy<s> g;";
        assert!(only(true, room));
        assert!(run("template <class T> void in(const T &o) { reinterpret_cast<char &>(o) = 0; }\n\
            void f(s &x) { ::in(x.a); }"));
    }
}
