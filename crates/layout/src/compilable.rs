//! A C header that compiles to the same sizes and offsets.
//!
//! Where the compiler's own rules give the layout, a struct is written as it is. Elsewhere (bit-fields, packed or
//! overlapping members, bases) it is packed, with its padding spelled out. Typedefs, qualifiers and the names of
//! enumerations are left out: only layout counts.

use crate::holes::order;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, Base, Encoding, Member, MemberRole, Type, TypeId, TypeTable};

/// Text beyond this is cut off with an `#error`, bytes.
const TEXT_MAX: usize = 64 << 20;

/// Words that C and its GNU dialect keep for themselves.
const KEYWORDS: &[&str] = &[
    "asm", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "linux", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "typeof", "union",
    "unix", "unsigned", "void", "volatile", "while",
];

/// The header with `roots` and all that they hold by value. Compiled with `-DTUSSLE_CHECK_LAYOUT` it asserts every
/// size and offset.
pub fn header(table: &TypeTable, roots: &[TypeId]) -> String {
    let mut w = Writer {
        table,
        tags: HashMap::new(),
        used: HashSet::new(),
        forward: BTreeSet::new(),
        done: HashMap::new(),
        definitions: String::new(),
        checks: String::new(),
        pads: 0,
    };
    for &root in roots {
        w.define(table.strip(root), 0);
    }
    let forward: String = w.forward.iter().map(|tag| format!("{tag};\n")).collect();
    let cut = if w.definitions.len() > TEXT_MAX { "#error cut off\n" } else { "" };
    let (definitions, checks) = (&w.definitions, &w.checks);
    format!("/* made by tussle */\n{forward}\n{definitions}{cut}#ifdef TUSSLE_CHECK_LAYOUT\n{checks}#endif\n")
}

struct Writer<'a> {
    table: &'a TypeTable,
    tags: HashMap<TypeId, String>,
    used: HashSet<String>,
    forward: BTreeSet<String>,
    /// Alignment that each type has as it was written.
    done: HashMap<TypeId, u64>,
    definitions: String,
    checks: String,
    pads: usize,
}

/// A declarator with the size and alignment that a compiler gives it, bytes.
struct Declared {
    text: String,
    size: u64,
    align: u64,
}

/// A member in place.
struct Item {
    first_bit: u64,
    bits: u64,
    /// Width of a bit-field.
    width: Option<u32>,
    declared: Declared,
    /// For the check of its offset.
    name: Option<String>,
}

impl Item {
    fn end(&self) -> u64 {
        self.first_bit.saturating_add(self.bits)
    }
}

impl Writer<'_> {
    /// `struct tag`.
    fn tag(&mut self, id: TypeId, a: &Aggregate) -> String {
        if let Some(tag) = self.tags.get(&id) {
            return tag.clone();
        }
        let base = identifier(a.name.as_deref().unwrap_or("unnamed"));
        let taken = |n: &String| !self.used.contains(n);
        let unique = std::iter::once(base.clone()).chain((2..).map(|i| format!("{base}__{i}"))).find(taken);
        let unique = unique.unwrap_or(base);
        self.used.insert(unique.clone());
        let tag = format!("{} {unique}", word(a.kind));
        self.tags.insert(id, tag.clone());
        tag
    }

    /// Writes a named type once, after the types in it; returns its alignment.
    fn define(&mut self, id: TypeId, depth: usize) -> u64 {
        if let Some(&align) = self.done.get(&id) {
            return align;
        }
        let Type::Aggregate(a) = self.table.get(id) else { return 1 };
        // what contains itself by value is hostile, and stays incomplete
        self.done.insert(id, 1);
        let tag = self.tag(id, a);
        let (body, align, items) = self.body(a, depth);
        self.done.insert(id, align);
        if self.definitions.len() > TEXT_MAX {
            return align;
        }
        let comment = a.name.as_deref().filter(|n| identifier(n) != **n).map(|n| n.replace("*/", "* /"));
        let comment = comment.map(|n| format!("/* {n} */\n")).unwrap_or_default();
        let _ = writeln!(self.definitions, "{comment}{tag} {body};\n");
        let _ = writeln!(self.checks, "_Static_assert(sizeof({tag}) == {}, \"size of {tag}\");", a.size);
        for (name, byte) in items {
            let what =
                format!("_Static_assert(__builtin_offsetof({tag}, {name}) == {byte}, \"{tag}.{name}\");\n");
            self.checks.push_str(&what);
        }
        align
    }

    /// `{ .. } attributes`, the alignment, and offsets to be checked.
    fn body(&mut self, a: &Aggregate, depth: usize) -> (String, u64, Vec<(String, u64)>) {
        let items = self.items(a, depth);
        let named = items.iter().filter(|i| i.width.is_none());
        let checks = named.filter_map(|i| Some((i.name.clone()?, i.first_bit / 8))).collect();
        let union = a.kind == AggregateKind::Union;
        let natural = items.iter().map(|i| i.declared.align).fold(1, u64::max);
        let declared = a.align.map_or(1, |x| x.bytes);
        let plain = match union {
            true => fits_union(&items, a.size, natural.max(declared)),
            false => fits_struct(&items, a.size, natural.max(declared)),
        };
        let tabs = "\t".repeat(depth.min(16) + 1);
        let end = "\t".repeat(depth.min(16));
        if plain {
            let lines: String = items.iter().map(|i| format!("{tabs}{};\n", i.declared.text)).collect();
            let attribute = if declared > natural {
                format!(" __attribute__((aligned({declared})))")
            } else {
                String::new()
            };
            return (format!("{{\n{lines}{end}}}{attribute}"), natural.max(declared), checks);
        }
        let lines =
            if union { self.padded_union(&items, a.size, &tabs) } else { self.padded(&items, a.size, &tabs) };
        let mut align = natural.max(declared);
        while align > 1 && !a.size.is_multiple_of(align) {
            align /= 2;
        }
        (format!("{{\n{lines}{end}}} __attribute__((packed, aligned({align})))"), align, checks)
    }

    /// The members that have a place, in its order. What reaches into its successor is cut to bytes.
    fn items(&mut self, a: &Aggregate, depth: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for (n, &i) in order(a).iter().enumerate() {
            let m = &a.members[i];
            if m.role == MemberRole::Static || m.offset_bits == Member::UNPLACED {
                continue;
            }
            let bits = m.bit_size.map_or(self.table.size(m.ty).unwrap_or(0).saturating_mul(8), u64::from);
            let mut name = self.member_name(m, n);
            if let Some(text) = name.as_mut().filter(|t| !seen.insert((*t).clone())) {
                *text = format!("{text}__{n}");
            }
            let mut declared = self.declare(m.ty, name.as_deref().unwrap_or(""), depth + 1);
            if let Some(width) = m.bit_size {
                let _ = write!(declared.text, ":{width}");
            }
            if let (Some(align), None) = (m.align.filter(|n| *n > declared.align), m.bit_size) {
                let _ = write!(declared.text, " __attribute__((aligned({align})))");
                declared.align = align;
            }
            items.push(Item { first_bit: m.offset_bits, bits, width: m.bit_size, declared, name });
        }
        if a.kind == AggregateKind::Union {
            return items;
        }
        items.sort_by_key(|i| (i.first_bit, i.bits));
        let starts: Vec<u64> = items.iter().skip(1).map(|i| i.first_bit).collect();
        for (item, next) in items.iter_mut().zip(starts) {
            if item.end() > next {
                cut(item, next);
            }
        }
        items.retain(|i| i.end() <= a.size.saturating_mul(8) && (i.bits > 0 || i.declared.size == 0));
        items
    }

    fn member_name(&self, m: &Member, n: usize) -> Option<String> {
        match (&m.name, m.role) {
            (Some(name), _) => Some(identifier(name)),
            (None, MemberRole::Field) if self.is_inline(m.ty) || m.bit_size.is_some() => None,
            (None, _) => Some(format!("__base_{n}")),
        }
    }

    fn is_inline(&self, ty: TypeId) -> bool {
        self.table.aggregate(ty).is_some_and(|a| a.name.is_none())
    }

    fn declare(&mut self, ty: TypeId, name: &str, depth: usize) -> Declared {
        let table = self.table;
        let id = table.strip(ty);
        let size = table.size(id).unwrap_or(0);
        if depth > DEPTH_MAX {
            return bytes(name, size);
        }
        match table.get(id) {
            Type::Base(b) => scalar(b, name),
            Type::Enum(e) => integer(e.size, true, name),
            Type::Pointer { to, size } if *size == u64::from(table.pointer_size) => {
                let target = self.pointee(*to);
                Declared { text: format!("{target}*{name}"), size: *size, align: *size }
            }
            Type::Reference { .. } => Declared { text: format!("void *{name}"), size, align: size },
            Type::Array { elem, counts } => {
                let dims: String = counts.iter().map(|c| format!("[{}]", c.unwrap_or(0))).collect();
                let elem = self.declare(*elem, &format!("{name}{dims}"), depth + 1);
                Declared { size, ..elem }
            }
            Type::Aggregate(a) if a.declaration => bytes(name, 0),
            Type::Aggregate(a) if a.name.is_some() => {
                let align = self.define(id, 0);
                Declared { text: format!("{} {name}", self.tag(id, a)), size, align }
            }
            Type::Aggregate(a) => {
                let (body, align, _) = self.body(a, depth);
                Declared { text: format!("{} {body} {name}", word(a.kind)).trim_end().into(), size, align }
            }
            _ => bytes(name, size),
        }
    }

    /// What a pointer points to, as far as C needs it: a declared struct, or nothing.
    fn pointee(&mut self, to: TypeId) -> String {
        let id = self.table.strip(to);
        match self.table.get(id) {
            Type::Aggregate(a) if a.name.is_some() => {
                let tag = self.tag(id, a);
                self.forward.insert(tag.clone());
                format!("{tag} ")
            }
            _ => "void ".into(),
        }
    }

    fn pad(&mut self, from: u64, to: u64, tabs: &str) -> String {
        let mut out = String::new();
        let whole = from.next_multiple_of(8).min(to);
        if whole > from {
            let _ = writeln!(out, "{tabs}unsigned int :{};", whole - from);
        }
        if to / 8 > whole / 8 {
            self.pads += 1;
            let _ = writeln!(out, "{tabs}unsigned char __pad_{}[{}];", self.pads, to / 8 - whole / 8);
        }
        let rest = to - whole.max(to / 8 * 8).min(to);
        if rest > 0 {
            let _ = writeln!(out, "{tabs}unsigned int :{rest};");
        }
        out
    }

    fn padded(&mut self, items: &[Item], size: u64, tabs: &str) -> String {
        let (mut out, mut at) = (String::new(), 0u64);
        for item in items {
            if item.first_bit > at {
                let pad = self.pad(at, item.first_bit, tabs);
                out.push_str(&pad);
            }
            let _ = writeln!(out, "{tabs}{};", item.declared.text);
            at = item.end().max(at);
        }
        let end = size.saturating_mul(8);
        if end > at {
            let pad = self.pad(at, end, tabs);
            out.push_str(&pad);
        }
        out
    }

    fn padded_union(&mut self, items: &[Item], size: u64, tabs: &str) -> String {
        let mut out: String = items.iter().map(|i| format!("{tabs}{};\n", i.declared.text)).collect();
        self.pads += 1;
        let _ = writeln!(out, "{tabs}unsigned char __pad_{}[{size}];", self.pads);
        out
    }
}

/// Leaves the bytes of a member up to the next one.
fn cut(item: &mut Item, next: u64) {
    item.bits = next.saturating_sub(item.first_bit) / 8 * 8;
    item.width = None;
    let name = item.name.take().unwrap_or_default();
    item.declared = bytes(&name, item.bits / 8);
}

fn fits_struct(items: &[Item], size: u64, align: u64) -> bool {
    let mut at = 0u64;
    for item in items {
        let start = at.checked_next_multiple_of(item.declared.align);
        if item.width.is_some() || start.map(|s| s.saturating_mul(8)) != Some(item.first_bit) {
            return false;
        }
        at = (item.first_bit / 8).saturating_add(item.declared.size);
    }
    at.checked_next_multiple_of(align) == Some(size)
}

fn fits_union(items: &[Item], size: u64, align: u64) -> bool {
    let widest = items.iter().map(|i| i.declared.size).max().unwrap_or(0);
    let whole = items.iter().all(|i| i.width.is_none() && i.first_bit == 0);
    whole && widest.checked_next_multiple_of(align) == Some(size)
}

fn word(kind: AggregateKind) -> &'static str {
    if kind == AggregateKind::Union { "union" } else { "struct" }
}

fn bytes(name: &str, size: u64) -> Declared {
    Declared { text: format!("unsigned char {name}[{size}]"), size, align: 1 }
}

fn integer(size: u64, unsigned: bool, name: &str) -> Declared {
    let base = match size {
        1 => "char",
        2 => "short",
        4 => "int",
        8 => "long long",
        16 => "__int128",
        _ => return bytes(name, size),
    };
    let sign = if unsigned { "unsigned" } else { "signed" };
    Declared { text: format!("{sign} {base} {name}"), size, align: size }
}

fn scalar(b: &Base, name: &str) -> Declared {
    let plain = |word: &str| Declared { text: format!("{word} {name}"), size: b.size, align: b.size };
    match (b.encoding, b.size) {
        (Encoding::Float, 4) => plain("float"),
        (Encoding::Float, 8) => plain("double"),
        (Encoding::Float, 16) => plain("long double"),
        (Encoding::Bool, 1) => plain("_Bool"),
        (Encoding::Char, 1) => plain("char"),
        (Encoding::Float, size) => bytes(name, size),
        (Encoding::Signed, size) => integer(size, false, name),
        (_, size) => integer(size, true, name),
    }
}

/// A name that C takes.
fn identifier(name: &str) -> String {
    let mut out: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if out.starts_with(|c: char| c.is_ascii_digit()) || out.is_empty() {
        out.insert(0, '_');
    }
    if KEYWORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}
