//! Type names with pahole's spacing, which people have grepped for since 2006: `struct foo * *`, `const char  *`.

use std::cell::Cell;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{AggregateKind, Type, TypeId, TypeTable};

/// How pahole names a type inside a declaration.
pub fn type_name(table: &TypeTable, id: TypeId) -> String {
    name_at(&Namer::new(table), id, 0)
}

/// A table with the number of names that may still be spelled: parameters of parameters of functions grow without end
/// in a hostile file.
struct Namer<'a> {
    table: &'a TypeTable,
    left: Cell<u32>,
}

impl<'a> Namer<'a> {
    fn new(table: &'a TypeTable) -> Namer<'a> {
        Namer { table, left: Cell::new(1000) }
    }

    /// Takes one of the names that are left.
    fn exhausted(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() == 0
    }
}

fn name_at(n: &Namer<'_>, id: TypeId, depth: usize) -> String {
    if depth > DEPTH_MAX || n.exhausted() {
        return "...".into();
    }
    let inner = |to: TypeId| name_at(n, to, depth + 1);
    match n.table.get(id) {
        Type::Void => "void".into(),
        Type::Base(b) => b.name.clone(),
        Type::Pointer { to, .. } => pointer_name(n, *to, "*", depth),
        Type::Reference { to, rvalue } => pointer_name(n, *to, if *rvalue { "&&" } else { "&" }, depth),
        Type::Array { elem, .. } => inner(*elem),
        Type::Aggregate(a) => tagged(keyword(a.kind), a.name.as_deref()),
        Type::Enum(e) => tagged("enum", e.name.as_deref()),
        Type::Typedef { name, .. } | Type::Other { name, .. } => name.clone(),
        // The blank after a qualified type is the source of the double blanks in front of `*`.
        Type::Const(t) => format!("const {} ", inner(*t)),
        Type::Volatile(t) => format!("volatile {} ", inner(*t)),
        Type::Atomic(t) => format!("_Atomic {} ", inner(*t)),
        Type::Restrict(t) => format!("{} restrict ", inner(*t)),
        Type::Function { .. } => function(n, id, "", 0, depth),
        _ => String::new(),
    }
}

/// The keyword in front of a type's name.
pub fn keyword(kind: AggregateKind) -> &'static str {
    kind.keyword()
}

fn tagged(word: &str, name: Option<&str>) -> String {
    format!("{word} {}", name.unwrap_or(""))
}

fn pointer_name(n: &Namer<'_>, to: TypeId, sign: &str, depth: usize) -> String {
    if to == TypeId::VOID {
        return format!("void {sign}");
    }
    if let Type::Const(t) = n.table.get(to)
        && let Type::Pointer { .. } = n.table.get(*t)
    {
        return format!("{} const {sign}", name_at(n, *t, depth + 1));
    }
    format!("{} {sign}", name_at(n, to, depth + 1))
}

/// `int (*name)(struct file *, loff_t)`; `declarator` is what stands between the parentheses, with its star.
pub fn function_pointer(table: &TypeTable, id: TypeId, declarator: &str, width: i64) -> String {
    function(&Namer::new(table), id, declarator, width, 0)
}

fn function(n: &Namer<'_>, id: TypeId, declarator: &str, width: i64, depth: usize) -> String {
    let Type::Function { ret, params, variadic } = n.table.get(id) else {
        return String::new();
    };
    if depth > DEPTH_MAX || n.exhausted() {
        return "...".into();
    }
    let mut out = pad_right(&name_at(n, *ret, depth + 1), width);
    out.push_str(&format!(" ({declarator})("));
    let mut list: Vec<String> = params.iter().map(|p| parameter(n, *p, depth + 1)).collect();
    if *variadic && !list.is_empty() {
        list.push("...".into());
    }
    out.push_str(if list.is_empty() { "void" } else { "" });
    out.push_str(&list.join(", "));
    out.push(')');
    out
}

fn parameter(n: &Namer<'_>, id: TypeId, depth: usize) -> String {
    match n.table.get(id) {
        Type::Pointer { to, .. } if matches!(n.table.get(*to), Type::Function { .. }) => {
            function(n, *to, "*", 0, depth)
        }
        Type::Function { .. } => function(n, id, "", 0, depth),
        _ => name_at(n, id, depth),
    }
}

/// Left-aligned in at least `width` bytes. As in C, a negative width counts by its magnitude.
pub fn pad_right(s: &str, width: i64) -> String {
    let width = usize::try_from(width.unsigned_abs()).unwrap_or(0).min(4096);
    let mut out = s.to_string();
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(s.len())));
    out
}
