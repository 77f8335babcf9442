//! One member: its declarator and the comment with offset and size.

use super::aggregate::{Conf, Writer, plural};
use super::names::{function_pointer, push_number, push_padded, type_name};
use crate::holes::Extent;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeId, TypeTable};

/// Writes a member without its newline. `line` is the last cacheline that a comment has announced.
pub(super) fn write(w: &mut Writer<'_>, m: &Member, align: Option<u64>, conf: &Conf, line: &mut u64) {
    let p = Extent::of(w.table, m);
    let mut inner = conf.clone();
    let mut offset = p.offset;
    if !conf.relative {
        offset = offset.saturating_add(conf.base);
        if !conf.alternative {
            inner.base = offset;
        }
    }
    let placed = m.offset_bits != Member::UNPLACED;
    if placed {
        boundary(w, offset, conf.indent, line);
    }
    let start = w.out.len();
    let inherited = matches!(m.role, MemberRole::Base | MemberRole::VirtualBase);
    let name = match m.role {
        MemberRole::Base | MemberRole::VirtualBase => Some("<ancestor>"),
        MemberRole::Discriminant => m.name.as_deref().or(Some("(discriminant)")),
        _ => m.name.as_deref(),
    };
    if inherited {
        w.out.push_str("/* ");
    }
    if m.role == MemberRole::Static {
        w.out.push_str("static ");
    }
    let anonymous = direct(w, m.ty, name, &inner, line);
    if let Some(width) = m.bit_size {
        w.out.push(':');
        push_number(&mut w.out, u64::from(width), false, 0);
    }
    let attribute = align.map_or(String::new(), |n| format!(" __attribute__((__aligned__({n})))"));
    w.out.push_str(&attribute);
    w.out.push(';');
    let columns = conf.type_width + conf.name_width;
    let room = if anonymous {
        let name = name.map_or(-1, |n| n.len() as i64);
        columns - name - 3 - attribute.len() as i64 - own_attributes(w, m.ty)
    } else {
        let mut room = columns - (w.out.len() - start) as i64;
        if inherited {
            w.out.push_str(" */");
            room -= 3;
        }
        room.max(0)
    };
    push_padded(&mut w.out, " ", room);
    place(w, &p, placed.then_some(offset));
}

/// The comment with offset and size; only the vtable knows an offset that is not there.
fn place(w: &mut Writer<'_>, p: &Extent, offset: Option<u64>) {
    let hex = w.options.hex;
    w.out.push_str("/* ");
    match offset {
        Some(offset) => push_number(&mut w.out, offset, hex, 5),
        None => w.out.push_str("    ?"),
    }
    let bit = p.bits.filter(|_| offset.is_some());
    if let Some((bit, _)) = bit {
        w.out.push(':');
        push_number(&mut w.out, bit, hex, 2);
    }
    w.out.push(' ');
    push_number(&mut w.out, p.size, hex, if bit.is_some() { 2 } else { 5 });
    w.out.push_str(" */");
}

/// The comment that a new cacheline has begun at or before `offset`.
fn boundary(w: &mut Writer<'_>, offset: u64, indent: usize, line: &mut u64) {
    let size = w.options.line.bytes();
    let index = offset / size;
    if index <= *line {
        return;
    }
    *line = index;
    let past = offset % size;
    let ago = if past == 0 { String::new() } else { format!(" was {past} byte{} ago", plural(past)) };
    w.out.push_str(&format!("/* --- cacheline {index} boundary ({} bytes){ago} --- */\n", offset - past));
    w.tabs(indent);
}

/// Length of what counts as attributes behind the brace of an aggregate that is written out in place.
fn own_attributes(w: &Writer<'_>, ty: TypeId) -> i64 {
    let Type::Aggregate(a) = w.table.get(ty) else {
        return 0;
    };
    if w.is_packed(a) { " __attribute__((__packed__))".len() as i64 } else { 0 }
}

/// Writes type and name; true when the type is an unnamed aggregate or enumeration written out in place.
fn direct(w: &mut Writer<'_>, ty: TypeId, name: Option<&str>, conf: &Conf, line: &mut u64) -> bool {
    let tag = match w.table.get(ty) {
        Type::Aggregate(a) => &a.name,
        Type::Enum(e) => &e.name,
        _ => {
            declarator(w, ty, name.unwrap_or(""), conf, line);
            return false;
        }
    };
    let anonymous = tag.is_none();
    let conf = Conf { suffix: None, stats: false, ..conf.clone() };
    tagged(w, ty, "", &conf, line);
    if let Some(name) = name {
        if anonymous {
            w.out.push(' ');
        }
        w.out.push_str(name);
    }
    anonymous
}

/// A struct, union or enumeration: by name, or written out.
fn tagged(w: &mut Writer<'_>, ty: TypeId, name: &str, conf: &Conf, line: &mut u64) {
    let table = w.table;
    match table.get(ty) {
        Type::Aggregate(a) => match &a.name {
            Some(tag) if !w.options.expand => {
                let word = a.kind.keyword();
                let width = conf.type_width - word.len() as i64 - 1;
                named(w, word, tag, width, name);
            }
            _ => {
                let mut inner = conf.clone();
                inner.type_width -= 8;
                w.aggregate(a, &inner, line);
            }
        },
        Type::Enum(e) => match &e.name {
            Some(tag) => named(w, "enum", tag, conf.type_width - 5, name),
            None => w.enumeration(e, conf),
        },
        _ => {}
    }
}

/// `struct foo   name`
fn named(w: &mut Writer<'_>, word: &str, tag: &str, width: i64, name: &str) {
    w.out.push_str(word);
    w.out.push(' ');
    push_padded(&mut w.out, tag, width);
    w.out.push(' ');
    w.out.push_str(name);
}

/// Writes `ty` with `name` in its place (`int (*name)(void)`, `char name[16]`).
pub(super) fn declarator(w: &mut Writer<'_>, ty: TypeId, name: &str, conf: &Conf, line: &mut u64) {
    let ty = expand_typedefs(w, ty);
    unexpanded(w, ty, name, conf.clone(), line);
}

fn unexpanded(w: &mut Writer<'_>, ty: TypeId, name: &str, mut conf: Conf, line: &mut u64) {
    if w.depth > DEPTH_MAX {
        return w.out.push_str("...");
    }
    w.depth += 1;
    qualified(w, ty, name, &mut conf, line);
    w.depth -= 1;
}

fn qualified(w: &mut Writer<'_>, ty: TypeId, name: &str, conf: &mut Conf, line: &mut u64) {
    let table = w.table;
    match table.get(ty) {
        Type::Aggregate(_) | Type::Enum(_) => {
            conf.stats = false;
            conf.suffix = (!name.is_empty()).then(|| name.to_string());
            tagged(w, ty, name, conf, line);
        }
        Type::Pointer { to, .. } => match table.get(*to) {
            Type::Function { .. } => {
                let text = function_pointer(table, *to, &format!("*{name}"), conf.type_width);
                w.out.push_str(&text);
            }
            Type::Aggregate(Aggregate { name: None, .. }) => {
                conf.suffix = Some(format!("* {name}"));
                conf.relative = true;
                conf.stats = false;
                conf.type_width -= 8;
                tagged(w, *to, name, conf, line);
            }
            _ => plain(w, ty, name, conf.type_width),
        },
        Type::Const(to) | Type::Atomic(to) => {
            let word = if matches!(table.get(ty), Type::Const(_)) { "const " } else { "_Atomic " };
            w.out.push_str(word);
            conf.type_width -= word.len() as i64;
            if let Type::Aggregate(a) = table.get(*to)
                && word != "_Atomic "
                && (a.name.is_none() || w.options.expand)
            {
                // As in pahole, which does not know atomic types: a qualified aggregate that is written out keeps its
                // trailer and loses its name.
                return tagged(w, *to, name, conf, line);
            }
            unexpanded(w, *to, name, conf.clone(), line);
        }
        Type::Array { elem, counts } => {
            let elem = match table.get(*elem) {
                Type::Const(t) if counts.first().is_some_and(|c| c.unwrap_or(0) == 0) => *t,
                _ => *elem,
            };
            declarator(w, elem, name, conf, line);
            for count in counts {
                let flexible = conf.last && !conf.first && !conf.in_union;
                match count.unwrap_or(0) {
                    0 if flexible => w.out.push_str("[]"),
                    n => {
                        w.out.push('[');
                        push_number(&mut w.out, n, false, 0);
                        w.out.push(']');
                    }
                }
            }
        }
        Type::Function { .. } => w.out.push_str(&function_pointer(table, ty, name, conf.type_width)),
        _ => plain(w, ty, name, conf.type_width),
    }
}

fn plain(w: &mut Writer<'_>, ty: TypeId, name: &str, width: i64) {
    let text = type_name(w.table, ty);
    push_padded(&mut w.out, &text, width);
    w.out.push(' ');
    w.out.push_str(name);
}

/// Under `-E` typedefs are named in a comment and replaced by what they stand for.
fn expand_typedefs(w: &mut Writer<'_>, ty: TypeId) -> TypeId {
    if !w.options.expand {
        return ty;
    }
    let (mut at, mut chain) = (ty, String::new());
    for _ in 0..64 {
        let Type::Typedef { name, to } = w.table.get(at) else {
            break;
        };
        chain.push_str(if chain.is_empty() { "/* typedef " } else { " -> " });
        chain.push_str(name);
        at = *to;
    }
    if !chain.is_empty() {
        w.out.push_str(&chain);
        w.out.push_str(" */ ");
    }
    at
}

/// The struct that a member is, without looking through typedefs: only those get a note about their padding.
pub(super) fn direct_struct(table: &TypeTable, ty: TypeId) -> Option<&Aggregate> {
    match table.get(ty) {
        Type::Aggregate(a) if a.kind != AggregateKind::Union => Some(a),
        _ => None,
    }
}
