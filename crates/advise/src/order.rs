//! `FIELD@OFFSET` as an order of members, for sources: statements move, bytes do not.

use tussle_model::TypeId;
use tussle_model::leaf::{Arrays, leaves};

use crate::abi::Shapes;
use crate::edit::{Edit, EditError, Spot};
use crate::moves::scopes;
use crate::relayout::{Relayout, RelayoutError};

/// `edits` with every `FIELD@OFFSET` replaced by the move or the exchange of members after which the field begins at
/// that byte; a move is preferred.
///
/// # Errors
/// [`EditError::NoOrder`] when no single move or exchange gives it, and what [`Relayout::new`] says of the others.
pub fn ordered(shapes: &Shapes<'_>, target: TypeId, edits: &[Edit]) -> Result<Vec<Edit>, RelayoutError> {
    let mut out = Vec::new();
    for edit in edits {
        match edit {
            Edit::Place { field, byte } => out.push(one(shapes, target, &out, field, *byte)?),
            other => out.push(other.clone()),
        }
    }
    Ok(out)
}

fn one(
    shapes: &Shapes<'_>,
    target: TypeId,
    before: &[Edit],
    path: &str,
    byte: u64,
) -> Result<Edit, RelayoutError> {
    let table = shapes.table();
    let dot = format!("{path}.");
    let all = leaves(table, target, Arrays::Whole);
    let Some(leaf) = all.iter().find(|l| l.path == path || l.path.starts_with(&dot)) else {
        return Err(EditError::missing(table, target, path).into());
    };
    let member = path.split(['.', '[']).next().unwrap_or(path);
    let scope = scopes(table, target).into_iter().find(|s| s.names.iter().any(|n| n == member));
    let names = scope.map(|s| s.names).unwrap_or_default();
    let others = || names.iter().filter(|n| *n != member);
    let field = || member.to_string();
    let first = Edit::Move { field: field(), to: Spot::First };
    let moves = others().map(|n| Edit::Move { field: field(), to: Spot::After(n.clone()) });
    let swaps = others().map(|n| Edit::Swap { a: field(), b: n.clone() });
    let lands = |edit: &Edit| {
        let edits: Vec<Edit> = before.iter().cloned().chain([edit.clone()]).collect();
        let layout = Relayout::new(shapes, target, &edits).ok();
        layout.and_then(|l| l.translate(target, leaf.offset).ok()) == Some(byte)
    };
    let found = std::iter::once(first).chain(moves).chain(swaps).find(lands);
    found.ok_or_else(|| EditError::NoOrder { field: path.into(), byte }.into())
}
