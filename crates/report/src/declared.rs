//! Where a finding points: a place in the program's own sources, or none.

use crate::by_object::ByObject;
use crate::names;
use std::collections::BTreeMap;
use tussle_advise::advice::is_own_source;
use tussle_contention::group::{FieldUse, Group};
use tussle_evidence::{Evidence, Touch};
use tussle_model::{Type, TypeId, TypeTable};

type SourceLine = (Option<String>, Option<u32>);

/// How deep structs are looked into.
const DEPTH_MAX: usize = 16;

/// Where the first of the two fields is declared, in the innermost struct that is the program's; else the program's
/// line that touches it most, where a struct of a library holds the field.
pub(crate) fn place(e: &Evidence, touches: &ByObject<'_, Touch>, g: &Group<'_>) -> SourceLine {
    let Some(field) = g.worst_pair().map(|(a, _)| &g.fields[a]).or(g.fields.first()) else {
        return (None, None);
    };
    let ty = e.objects.get(field.object as usize).and_then(|o| o.ty);
    let Some(ty) = ty.filter(|t| e.types.aggregate(*t).is_some_and(|a| a.decl.is_some())) else {
        return (None, None);
    };
    declaration(&e.types, ty, field.offset).or_else(|| touched(e, touches, field)).unwrap_or((None, None))
}

/// File and line of the member that holds a byte.
fn declaration(types: &TypeTable, mut ty: TypeId, mut offset: u64) -> Option<SourceLine> {
    for _ in 0..DEPTH_MAX {
        ty = types.strip(ty);
        match types.get(ty) {
            Type::Array { elem, .. } => ty = *elem,
            Type::Aggregate(a) => {
                let at = offset % a.size.max(1);
                let member = a.members.iter().rfind(|m| m.offset() <= at);
                if let Some(decl) = a.decl.as_ref().filter(|d| is_own_source(&d.file)) {
                    let line = member.map(|m| m.decl_line).filter(|l| *l > 0).unwrap_or(decl.line);
                    return Some((Some(decl.file.clone()), Some(line).filter(|l| *l > 0)));
                }
                let member = member?;
                (ty, offset) = (member.ty, at - member.offset());
            }
            _ => return None,
        }
    }
    None
}

/// The program's line of the code that touches the field most.
fn touched(e: &Evidence, touches: &ByObject<'_, Touch>, field: &FieldUse) -> Option<SourceLine> {
    let mut lines: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    let bytes = field.offset..field.offset.saturating_add(1);
    for t in touches.near(field.object, bytes).filter(|t| t.offset == field.offset) {
        if let Some(f) = names::own_frame(e, t.code) {
            *lines.entry((&f.file, f.line)).or_default() += t.samples.max(1);
        }
    }
    let most = lines.into_iter().max_by_key(|((file, line), n)| (*n, std::cmp::Reverse((*file, *line))));
    most.map(|((file, line), _)| (Some(file.to_string()), Some(line)))
}
