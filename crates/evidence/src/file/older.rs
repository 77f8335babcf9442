//! Evidence of older major versions in the tables of this one.

use crate::tables::*;

/// Says in words of this version what a file of version `major` says.
pub(super) fn upgrade(e: &mut Evidence, major: u32) {
    if major < 2 {
        transfers(e);
        e.touches.iter_mut().for_each(role);
        e.objects.iter_mut().for_each(basis);
        e.operations.iter_mut().flatten().for_each(|o| o.kind = Some(OperationKind::Section));
    }
    e.run.format_version = super::MAJOR;
}

/// Version 1 kept modelled transfers of kernel recordings in columns of a PMU: `records`, those of modified lines in
/// `hitm_local`, whether the line was wanted for a load in `loads`.
fn transfers(e: &mut Evidence) {
    if e.run.source != Source::KernelRecorder {
        return;
    }
    e.transfers = e.samples.take().map(|rows| {
        let one = |s: Sampled| Transfer {
            object: s.object,
            offset: s.offset,
            size: s.size,
            code: s.code,
            actor: s.actor,
            kind: if s.loads.unwrap_or(0) > 0 { TouchKind::Read } else { TouchKind::Write },
            transfers: s.records,
            dirty: s.hitm_local.unwrap_or(0),
            schedule: None,
        };
        rows.into_iter().map(one).collect()
    });
}

/// Version 1 wrote roles as fields in parentheses.
fn role(t: &mut Touch) {
    let all = [Role::FreelistWord, Role::ZeroedOnAllocation, Role::RcuHead];
    let words = t.field.as_deref().unwrap_or_default();
    if let Some(role) = all.into_iter().find(|r| r.to_string() == words) {
        (t.field, t.role) = (None, Some(role));
    }
}

/// Version 1 told only in words what a type rests on; these are the ones on which something depends.
fn basis(o: &mut Object) {
    o.basis = match o.why.as_str() {
        w if w.contains("sizeof") => Some(Basis::Sizeof),
        w if w.contains("variable's type") => Some(Basis::Variable),
        _ => None,
    };
}
