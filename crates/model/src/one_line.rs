//! Names that break lines. Compilers write none; a hostile file may, so that what it calls a field reads as a line of
//! its own in a listing, or moves the cursor of a terminal.

use crate::types::Type;

/// Control characters of the type's names become visible.
pub(crate) fn names(ty: &mut Type) {
    match ty {
        Type::Base(b) => name(&mut b.name),
        Type::Typedef { name: n, .. } | Type::Other { name: n, .. } => name(n),
        Type::Enum(e) => {
            e.name.iter_mut().for_each(name);
            e.values.iter_mut().for_each(|v| name(&mut v.name));
        }
        Type::Aggregate(a) => {
            a.name.iter_mut().for_each(name);
            a.members.iter_mut().filter_map(|m| m.name.as_mut()).for_each(name);
        }
        _ => {}
    }
}

fn name(name: &mut String) {
    // byte by byte first: a kernel has a million names, and nearly all are ASCII
    let plain = name.bytes().all(|b| (0x20..0x7f).contains(&b));
    if !plain && name.contains(breaks) {
        *name = name.replace(breaks, "\u{fffd}");
    }
}

fn breaks(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}
