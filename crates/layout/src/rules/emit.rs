//! Rules as assertions that a compiler checks in every build: C, C++ and Rust.

use super::{Demand, Rule};
use tussle_model::{AggregateKind, Spot, TypeTable, resolve, virtual_bases};

/// What the assertions are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C11.
    C,
    /// C++11.
    Cpp,
    /// Rust 1.77, where `offset_of!` became stable.
    Rust,
}

const HEAD_C: &str = "/* Layout rules as compile-time checks. Include it where the types are complete. */\n\
    #include <stddef.h>\n";
const HEAD_RUST: &str = "// Layout rules as compile-time checks. Include it where the types are in scope.\n\
    #[allow(dead_code)]\nconst fn size_of_field<T, F>(_: fn(&T) -> *const F) -> usize {\n    \
    core::mem::size_of::<F>()\n}\n";

/// The rules as source text. Rules over several phases become one assertion per phase; those of a type that is only
/// known by its alignment at compile time are written for phase 0. What no constant expression can say (patterns,
/// unnamed neighbours) is left as a comment, with a `table` of the types also what its compiler refuses: bit-fields,
/// members of virtual bases, members of a `class`, which may be private.
pub fn emit(rules: &[Rule], language: Language, table: Option<&TypeTable>) -> String {
    let rust = language == Language::Rust;
    let mut out = String::from(if rust { HEAD_RUST } else { HEAD_C });
    for (n, rule) in rules.iter().enumerate() {
        out.push('\n');
        if let Some(reason) = &rule.reason {
            out.push_str(&comment(reason, rust));
        }
        let guard = guard(rule, rust);
        let (open, close) = guard.map_or((String::new(), ""), |g| match rust {
            true => (format!("#[cfg({g})]\n"), ""),
            false => (format!("#if {g}\n"), "#endif\n"),
        });
        let words = format!("{}: {}", rule.ty, rule.demand.words()).replace(['"', '\\'], "'");
        if let Some(why) = table.and_then(|t| refused(rule, language, t)) {
            out.push_str(&comment(&format!("not an assertion: {words}: {why}"), rust));
            continue;
        }
        // a comma separates the arguments of a macro
        let alias =
            (language == Language::Cpp && rule.ty.contains(',')).then(|| format!("tussle_layout_{n}"));
        let named = alias.as_ref().map(|a| Rule { ty: a.clone(), ..rule.clone() });
        let phases = rule.phases.clone().unwrap_or_else(|| vec![0]);
        let all: Option<Vec<String>> = phases
            .iter()
            .map(|&p| conditions(named.as_ref().unwrap_or(rule), p, language))
            .collect::<Option<Vec<_>>>()
            .map(|v| v.concat());
        let Some(all) = all else {
            out.push_str(&comment(&format!("not an assertion: {words}"), rust));
            continue;
        };
        // an attribute covers one item only
        out.push_str(if rust { "" } else { &open });
        out.extend(alias.map(|a| format!("using {a} = {};\n", rule.ty)));
        for condition in all {
            out.push_str(if rust { &open } else { "" });
            out.push_str(&match language {
                Language::C => format!("_Static_assert({condition},\n\t\"{words}\");\n"),
                Language::Cpp => format!("static_assert({condition},\n\t\"{words}\");\n"),
                Language::Rust => {
                    format!("const _: () = assert!({condition}, \"{}\");\n", words.replace(['{', '}'], ""))
                }
            });
        }
        out.push_str(close);
    }
    out
}

/// Why a compiler refuses to give the offset of one of the fields.
fn refused(rule: &Rule, language: Language, table: &TypeTable) -> Option<String> {
    let class = |spot: &Spot| table.aggregate(spot.owner).is_some_and(|a| a.kind == AggregateKind::Class);
    let why = |id, spot: &Spot| {
        let inherits = || table.aggregate(id).is_some_and(|a| !virtual_bases(table, a).is_empty());
        match language {
            Language::C | Language::Cpp if spot.bits => Some("is a bit-field, which has no offset"),
            Language::Cpp if spot.owner != id && inherits() => Some("may lie in a virtual base"),
            Language::Cpp if class(spot) => Some("may be private"),
            _ => None,
        }
    };
    let found = rule
        .demand
        .fields()
        .into_iter()
        .flat_map(|f| table.find_all(&rule.ty).into_iter().map(move |id| (f, id)));
    let spots = found.flat_map(|(f, id)| resolve(table, id, f).into_iter().map(move |spot| (id, spot)));
    spots.into_iter().find_map(|(id, spot)| Some(format!("{} {}", spot.path, why(id, &spot)?)))
}

fn comment(text: &str, rust: bool) -> String {
    match rust {
        true => format!("// {}\n", text.replace('\n', " ")),
        false => format!("/* {} */\n", text.replace("*/", "* /")),
    }
}

fn guard(rule: &Rule, rust: bool) -> Option<String> {
    if rust {
        // a kernel's options are not known to Rust's cfg by these names
        let arch: Vec<String> =
            rule.when.arch.iter().map(|a| format!("target_arch = \"{}\"", rust_arch(a))).collect();
        return (!arch.is_empty()).then(|| format!("any({})", arch.join(", ")));
    }
    let option = |c: &String| match c.strip_prefix('!') {
        Some(name) => format!("!defined({name})"),
        None => match c.split_once('=') {
            Some((name, value)) => format!("{name} == {value}"),
            None => format!("defined({c})"),
        },
    };
    let mut parts: Vec<String> = rule.when.config.iter().map(option).collect();
    let arch: Vec<String> = rule.when.arch.iter().map(|a| format!("defined({})", arch_macro(a))).collect();
    if !arch.is_empty() {
        parts.push(format!("({})", arch.join(" || ")));
    }
    (!parts.is_empty()).then(|| parts.join(" && "))
}

fn arch_macro(arch: &str) -> String {
    match arch {
        "arm64" => "__aarch64__".into(),
        "powerpc" => "__powerpc__".into(),
        "s390" => "__s390__".into(),
        other => format!("__{other}__"),
    }
}

fn rust_arch(arch: &str) -> &str {
    match arch {
        "arm64" => "aarch64",
        "s390" => "s390x",
        "riscv" => "riscv64",
        "loongarch" => "loongarch64",
        other => other,
    }
}

/// Offsets of a field as constant expressions.
struct Field<'a> {
    ty: String,
    path: &'a str,
    phase: u64,
    line: u64,
    language: Language,
}

impl<'a> Field<'a> {
    fn new(rule: &'a Rule, path: &'a str, phase: u64, language: Language) -> Field<'a> {
        Field { ty: tag(&rule.ty, language), path, phase, line: rule.line.bytes(), language }
    }

    fn offset(&self) -> String {
        let (ty, path) = (&self.ty, self.path);
        match self.language {
            Language::Rust => format!("core::mem::offset_of!({ty}, {path})"),
            _ => format!("offsetof({ty}, {path})"),
        }
    }

    fn size(&self) -> String {
        let (ty, path) = (&self.ty, self.path);
        match self.language {
            Language::Rust => format!("size_of_field(|t: &{ty}| core::ptr::addr_of!(t.{path}))"),
            _ => format!("sizeof((({ty} *)0)->{path})"),
        }
    }

    fn first_line(&self) -> String {
        format!("({}{}) / {}", self.offset(), self.plus(), self.line)
    }

    fn last_line(&self) -> String {
        format!("({} + {}{} - 1) / {}", self.offset(), self.size(), self.plus(), self.line)
    }

    fn plus(&self) -> String {
        if self.phase == 0 { String::new() } else { format!(" + {}", self.phase) }
    }
}

/// `struct foo` in C, unless the name brings its keyword.
fn tag(ty: &str, language: Language) -> String {
    let plain = language != Language::C || ty.contains(' ') || ty.contains("::");
    if plain { ty.to_string() } else { format!("struct {ty}") }
}

fn whole(ty: &str, language: Language) -> String {
    if language == Language::Rust { format!("core::mem::size_of::<{ty}>()") } else { format!("sizeof({ty})") }
}

/// `None` for what is no constant expression.
fn conditions(rule: &Rule, phase: u64, language: Language) -> Option<Vec<String>> {
    if rule.demand.fields().iter().any(|f| f.contains('*') || f.contains("::")) {
        return None;
    }
    let line = rule.line.bytes();
    let field = |path: &'_ str| -> (String, String, String, String) {
        let f = Field::new(rule, path, phase, language);
        (f.offset(), f.size(), f.first_line(), f.last_line())
    };
    let ty = tag(&rule.ty, language);
    let size = whole(&ty, language);
    let alone = |f: &String| {
        format!(
            "({}{}) % {line} == 0",
            field(f).0,
            if phase == 0 { String::new() } else { format!(" + {phase}") }
        )
    };
    Some(match &rule.demand {
        Demand::Separate(groups) => apart(groups, field),
        Demand::SameLine(f) | Demand::Together(f) => f
            .iter()
            .map(|x| {
                let ((_, _, first, last), zero) = (field(x), field(&f[0]).2);
                format!("{zero} == {first} && {first} == {last}")
            })
            .collect(),
        Demand::Straddle(f) => f.iter().map(|x| format!("{} != {}", field(x).2, field(x).3)).collect(),
        // Neighbours are not known by name here: the field must begin its line.
        Demand::Alone(f) => f.iter().map(alone).collect(),
        Demand::MaxLines(n) => vec![format!("({size} + {phase} + {}) / {line} <= {n}", line - 1)],
        Demand::MaxSize(n) => vec![format!("{size} <= {n}")],
        Demand::Offset(list) => list.iter().map(|(f, at)| format!("{} == {at}", field(f).0)).collect(),
        Demand::Group(g) => {
            let mark = |kind: &str| field(&format!("__cacheline_group_{kind}__{}", g.name)).0;
            let inside = |m: &String| {
                let (at, size, ..) = field(m);
                format!("{at} >= {} && {at} + {size} <= {}", mark("begin"), mark("end"))
            };
            let size = g.max_size.map(|n| format!("{} - {} <= {n}", mark("end"), mark("begin")));
            size.into_iter().chain(g.members.iter().map(inside)).collect()
        }
        Demand::NothingBetween(_) | Demand::Within { .. } | Demand::GroupsApart => return None,
    })
}

/// No field of one group and one of another in one line.
fn apart(groups: &[Vec<String>], field: impl Fn(&str) -> (String, String, String, String)) -> Vec<String> {
    let mut out = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        for a in group {
            for b in groups[i + 1..].iter().flatten() {
                let ((_, _, a_first, a_last), (_, _, b_first, b_last)) = (field(a), field(b));
                out.push(format!("{a_last} < {b_first} || {b_last} < {a_first}"));
            }
        }
    }
    out
}
