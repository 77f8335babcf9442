//! Rules as C: `_Static_assert` lines that the compiler checks in every build.

use super::{Demand, Rule};

/// The rules as a C header. Rules over several phases become one assertion per phase; those of a type that is only
/// known by its alignment at compile time are written for phase 0 and say so.
pub fn emit_c(rules: &[Rule]) -> String {
    let mut out = String::from(
        "/* Layout rules as compile-time checks. Include it where the types are complete. */\n#include <stddef.h>\n",
    );
    for rule in rules {
        out.push('\n');
        if let Some(reason) = &rule.reason {
            out.push_str(&format!("/* {} */\n", reason.replace("*/", "* /")));
        }
        let guard = guard(rule);
        if let Some(guard) = &guard {
            out.push_str(&format!("#if {guard}\n"));
        }
        for phase in rule.phases.clone().unwrap_or_else(|| vec![0]) {
            for condition in conditions(rule, phase) {
                let words = format!("{}: {}", rule.ty, rule.demand.words()).replace('"', "'");
                out.push_str(&format!("_Static_assert({condition},\n\t\"{words}\");\n"));
            }
        }
        if guard.is_some() {
            out.push_str("#endif\n");
        }
    }
    out
}

fn guard(rule: &Rule) -> Option<String> {
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

/// Offsets of a field as C expressions.
struct Field<'a> {
    ty: &'a str,
    path: &'a str,
    phase: u64,
    line: u64,
}

impl<'a> Field<'a> {
    fn new(rule: &'a Rule, path: &'a str, phase: u64) -> Field<'a> {
        Field { ty: &rule.ty, path, phase, line: rule.line.bytes() }
    }

    fn offset(&self) -> String {
        format!("offsetof({}, {})", tag(self.ty), self.path)
    }

    fn size(&self) -> String {
        format!("sizeof((({} *)0)->{})", tag(self.ty), self.path)
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

/// `struct foo` unless the name brings its keyword or is C++.
fn tag(ty: &str) -> String {
    if ty.contains(' ') || ty.contains("::") { ty.to_string() } else { format!("struct {ty}") }
}

fn conditions<'a>(rule: &'a Rule, phase: u64) -> Vec<String> {
    let line = rule.line.bytes();
    let field = |path: &'a String| Field::new(rule, path, phase);
    let ty = tag(&rule.ty);
    match &rule.demand {
        Demand::Separate(f) => {
            let pairs = f.iter().enumerate().flat_map(|(i, a)| f[i + 1..].iter().map(move |b| (a, b)));
            pairs.map(|(a, b)| apart(&field(a), &field(b))).collect()
        }
        Demand::SameLine(f) | Demand::Together(f) => f
            .iter()
            .map(|x| {
                format!(
                    "{} == {} && {} == {}",
                    field(&f[0]).first_line(),
                    field(x).first_line(),
                    field(x).first_line(),
                    field(x).last_line()
                )
            })
            .collect(),
        Demand::Straddle(f) => {
            f.iter().map(|x| format!("{} != {}", field(x).first_line(), field(x).last_line())).collect()
        }
        // Neighbours are not known by name here: the field must own its lines.
        Demand::Alone(f) => {
            f.iter().map(|x| format!("({}{}) % {line} == 0", field(x).offset(), field(x).plus())).collect()
        }
        Demand::MaxLines(n) => vec![format!("(sizeof({ty}) + {phase} + {}) / {line} <= {n}", line - 1)],
        Demand::MaxSize(n) => vec![format!("sizeof({ty}) <= {n}")],
        Demand::Offset(list) => list.iter().map(|(f, at)| format!("{} == {at}", field(f).offset())).collect(),
        Demand::Group(g) => {
            let mark = |kind: &str| format!("offsetof({ty}, __cacheline_group_{kind}__{})", g.name);
            let inside = |m: &'a String| {
                let f = field(m);
                format!(
                    "{} >= {} && {} + {} <= {}",
                    f.offset(),
                    mark("begin"),
                    f.offset(),
                    f.size(),
                    mark("end")
                )
            };
            let size = g.max_size.map(|n| format!("{} - {} <= {n}", mark("end"), mark("begin")));
            size.into_iter().chain(g.members.iter().map(inside)).collect()
        }
    }
}

fn apart(a: &Field<'_>, b: &Field<'_>) -> String {
    format!("{} < {} || {} < {}", a.last_line(), b.first_line(), b.last_line(), a.first_line())
}
