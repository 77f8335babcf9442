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
        Type::Const(t) => ["const ", &inner(*t), " "].concat(),
        Type::Volatile(t) => ["volatile ", &inner(*t), " "].concat(),
        Type::Atomic(t) => ["_Atomic ", &inner(*t), " "].concat(),
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
    [word, " ", name.unwrap_or("")].concat()
}

fn pointer_name(n: &Namer<'_>, to: TypeId, sign: &str, depth: usize) -> String {
    if to == TypeId::VOID {
        return ["void ", sign].concat();
    }
    if let Type::Const(t) = n.table.get(to)
        && let Type::Pointer { .. } = n.table.get(*t)
    {
        return format!("{} const {sign}", name_at(n, *t, depth + 1));
    }
    let mut text = name_at(n, to, depth + 1);
    text.reserve(1 + sign.len());
    text.push(' ');
    text.push_str(sign);
    text
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
    let mut out = String::new();
    push_padded(&mut out, s, width);
    out
}

/// Appends [`pad_right`] of it.
pub fn push_padded(out: &mut String, s: &str, width: i64) {
    let width = usize::try_from(width.unsigned_abs()).unwrap_or(0).min(4096);
    let blanks = width.saturating_sub(s.len());
    out.reserve(s.len() + blanks);
    out.push_str(s);
    push_blanks(out, blanks);
}

/// Appends so many blanks.
pub fn push_blanks(out: &mut String, mut n: usize) {
    const BLANKS: &str = "                                                                ";
    while n > 0 {
        let some = n.min(BLANKS.len());
        out.push_str(&BLANKS[..some]);
        n -= some;
    }
}

/// Appends a number, blanks before it up to `width`; as C's `%u`, or `%#x`, which writes 0 without the prefix.
pub fn push_number(out: &mut String, n: u64, hex: bool, width: usize) {
    if hex && n > 0 {
        return out.push_str(&format!("{:>width$}", format!("{n:#x}")));
    }
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), n);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    push_blanks(out, width.saturating_sub(digits.len() - at));
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}
