//! Candidate edits of a struct: what a reviewer would accept, the promising ones first.

use std::collections::HashMap;

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, MemberRole, Type, TypeId, TypeTable};

use crate::edit::{Edit, Spot};
use crate::owners::Owners;
use crate::relayout::member_at;
use crate::scene::Scene;

/// Members considered hot, the hottest first.
pub const HOT_MAX: usize = 12;

/// Members of one body between which others may move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Names in order of declaration; bit-fields and unnamed members left out.
    pub names: Vec<String>,
    /// Those of them that are arrays of several elements, with the bytes from one to the next.
    pub arrays: Vec<(String, u64)>,
}

/// The bodies of `id` in which members can move: its own and those of anonymous structs inside it.
pub fn scopes(table: &TypeTable, id: TypeId) -> Vec<Scope> {
    let mut out = Vec::new();
    collect(table, table.strip(id), 0, &mut out);
    out
}

fn collect(table: &TypeTable, id: TypeId, depth: usize, out: &mut Vec<Scope>) {
    let Some(a) = table.aggregate(id) else { return };
    if depth > DEPTH_MAX || a.kind == AggregateKind::Union {
        return;
    }
    let movable = |m: &&tussle_model::Member| m.role == MemberRole::Field && m.bit_size.is_none();
    let named = || a.members.iter().filter(movable).filter(|m| m.name.is_some());
    let parts = |m: &tussle_model::Member| {
        let n = table.elements(m.ty).filter(|n| *n > 1)?;
        Some((m.name.clone()?, table.size(m.ty)? / n))
    };
    out.push(Scope {
        names: named().filter_map(|m| m.name.clone()).collect(),
        arrays: named().filter_map(parts).collect(),
    });
    for m in a.members.iter().filter(|m| m.name.is_none() && m.role == MemberRole::Field) {
        collect(table, table.strip(m.ty), depth + 1, out);
    }
}

/// Members of the target by how much contended traffic they see, hottest first.
pub fn hot_members(scene: &Scene<'_>) -> Vec<(String, f64)> {
    let table = &scene.evidence.types;
    let mut heat: HashMap<String, f64> = HashMap::new();
    for (ty, offset, n) in scene.hot_bytes() {
        if let Some(name) = member_name(table, ty, offset, scene.target) {
            *heat.entry(name).or_default() += n;
        }
    }
    let mut out: Vec<(String, f64)> = heat.into_iter().collect();
    out.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out
}

/// Name of the target's member at `offset` of an object of type `ty`.
pub(crate) fn member_name(table: &TypeTable, ty: TypeId, offset: u64, target: TypeId) -> Option<String> {
    let (mut id, mut offset, mut inside) = (table.strip(ty), offset, false);
    let wanted = table.aggregate(target)?;
    for _ in 0..DEPTH_MAX {
        match table.get(id) {
            Type::Array { elem, .. } => {
                let size = table.size(*elem).filter(|s| *s > 0)?;
                offset %= size;
                id = table.strip(*elem);
            }
            Type::Aggregate(a) => {
                inside |= id == target || same(a, wanted);
                let m = &a.members[member_at(table, a, offset)?];
                if inside && let Some(name) = &m.name {
                    return Some(name.clone());
                }
                offset -= m.offset().min(offset);
                id = table.strip(m.ty);
            }
            _ => return None,
        }
    }
    None
}

fn same(a: &Aggregate, b: &Aggregate) -> bool {
    a.name.is_some() && a.name == b.name
}

/// Gaps that part what alignments part: for objects whose memory nobody aligns. One before a hot member, before the one
/// behind it or behind its group, too, around all of them, or where the writer changes.
pub(crate) fn gaps(
    table: &TypeTable,
    target: TypeId,
    (hot, owners): (&[String], &Owners),
    line: u64,
) -> Vec<Vec<Edit>> {
    let is_hot = |n: &String| hot.iter().take(HOT_MAX).any(|h| h == n);
    let (scopes, mut aligned) = (scopes(table, target), Vec::new());
    for scope in &scopes {
        owned(scope, owners, line, &mut aligned);
        isolations(scope, &is_hot, line, &mut aligned);
    }
    // The first member has nothing before it.
    let first = scopes.first().and_then(|s| s.names.first());
    let gap = |e: Edit| match e {
        Edit::Align { field, bytes } if Some(&field) != first => Some(Edit::Gap { field, bytes }),
        _ => None,
    };
    let list = aligned.into_iter().map(|edits| edits.into_iter().filter_map(gap).collect::<Vec<Edit>>());
    list.filter(|edits| !edits.is_empty()).collect()
}

/// All candidates for `target`, each a list of edits that belong together. `hot` names its hot members, hottest first.
pub(crate) fn candidates(
    table: &TypeTable,
    target: TypeId,
    (hot, owners): (&[String], &Owners),
    line: u64,
) -> Vec<Vec<Edit>> {
    let mut out: Vec<Vec<Edit>> = vec![
        vec![Edit::Element { bytes: line }],
        vec![Edit::Pad { bytes: line }],
        vec![Edit::Pad { bytes: 2 * line }],
    ];
    let scopes = scopes(table, target);
    let is_hot = |n: &String| hot.iter().take(HOT_MAX).any(|h| h == n);
    for scope in &scopes {
        spreads(scope, &is_hot, line, &mut out);
        owned(scope, owners, line, &mut out);
        isolations(scope, &is_hot, line, &mut out);
    }
    for scope in &scopes {
        moves(scope, &is_hot, &mut out);
    }
    for scope in &scopes {
        moves(scope, &|n| !is_hot(n), &mut out);
    }
    out
}

/// Leaves what Rust can have: types are aligned, and fields have an order if `ordered` (`repr(C)`). The word to the
/// reader where they have none.
pub fn leave_impossible_out(list: &mut Vec<Vec<Edit>>, ordered: bool) -> Option<String> {
    let possible = |e: &Edit| match e {
        Edit::Align { .. } | Edit::Element { .. } => true,
        Edit::Move { .. } | Edit::Swap { .. } => ordered,
        _ => false,
    };
    list.retain(|edits| edits.iter().all(possible));
    let word = "the compiler orders the fields of a Rust struct without #[repr(C)]: an alignment holds, an order in \
                the source does not";
    (!ordered).then(|| word.into())
}

/// Every element of a hot array on lines of its own, of all such arrays, and the other hot members apart as well.
fn spreads(scope: &Scope, is_hot: &dyn Fn(&String) -> bool, line: u64, out: &mut Vec<Vec<Edit>>) {
    let parted = |n: &String| scope.arrays.iter().any(|(a, stride)| a == n && stride % line != 0);
    let hot: Vec<&String> = scope.names.iter().filter(|n| is_hot(n)).collect();
    let spread = |n: &String| Edit::Spread { field: n.clone(), bytes: line };
    let all: Vec<Edit> = hot.iter().filter(|n| parted(n)).map(|n| spread(n)).collect();
    if all.len() > 1 {
        out.push(all.clone());
    }
    out.extend(all.iter().map(|e| vec![e.clone()]));
    if all.is_empty() || all.len() == hot.len() {
        return;
    }
    let align = |n: &String| Edit::Align { field: n.clone(), bytes: line };
    let last = scope.names.iter().rposition(is_hot).and_then(|n| scope.names.get(n + 1));
    let alone = hot.iter().map(|n| if parted(n) { spread(n) } else { align(n) });
    out.push(alone.chain(last.map(align)).collect());
}

/// An alignment wherever the writer changes, or who reads does, too.
fn owned(scope: &Scope, owners: &Owners, line: u64, out: &mut Vec<Vec<Edit>>) {
    let touched: Vec<&String> = scope.names.iter().filter(|n| owners.knows(n)).collect();
    for readers in [false, true] {
        let parted = touched.windows(2).filter(|w| owners.part(w[0], w[1], readers));
        let edits: Vec<Edit> = parted.map(|w| Edit::Align { field: w[1].clone(), bytes: line }).collect();
        if edits.len() > 1 && !out.contains(&edits) {
            out.push(edits);
        }
    }
}

/// Alignments: one member, or one with the member behind it, so that nothing else shares its line.
fn isolations(scope: &Scope, is_hot: &dyn Fn(&String) -> bool, line: u64, out: &mut Vec<Vec<Edit>>) {
    let align = |field: &String| Edit::Align { field: field.clone(), bytes: line };
    // Every hot member on a line of its own, the rest behind the last: what the classifier compares with.
    let mut alone: Vec<Edit> = scope.names.iter().filter(|n| is_hot(n)).map(align).collect();
    let last = scope.names.iter().rposition(|n| is_hot(n));
    alone.extend(last.and_then(|n| scope.names.get(n + 1)).map(align));
    if alone.len() > 2 {
        out.push(alone);
    }
    for (i, name) in scope.names.iter().enumerate().filter(|(_, n)| is_hot(n)) {
        out.push(vec![align(name)]);
        // A group of hot members that follow each other stays together.
        let end = scope.names[i..].iter().position(|n| !is_hot(n)).map_or(scope.names.len(), |n| i + n);
        for next in [i + 1, end].into_iter().filter(|&n| n < scope.names.len()) {
            let pair = vec![align(name), align(&scope.names[next])];
            if !out.contains(&pair) {
                out.push(pair);
            }
        }
    }
    for name in scope.names.iter().skip(1).filter(|n| !is_hot(n)) {
        out.push(vec![align(name)]);
    }
}

/// Every place for every chosen member, and exchanges with members behind it.
fn moves(scope: &Scope, chosen: &dyn Fn(&String) -> bool, out: &mut Vec<Vec<Edit>>) {
    let names = &scope.names;
    for (i, name) in names.iter().enumerate().filter(|(_, n)| chosen(n)) {
        // The first member stays first and nothing goes before it: casts between a struct and its first member.
        if i == 0 {
            continue;
        }
        for (j, other) in names.iter().enumerate() {
            if j != i && j + 1 != i {
                out.push(vec![Edit::Move { field: name.clone(), to: Spot::After(other.clone()) }]);
            }
        }
        for (j, other) in names.iter().enumerate().skip(1) {
            let seen = chosen(other) && j < i;
            if j != i && !seen {
                out.push(vec![Edit::Swap { a: name.clone(), b: other.clone() }]);
            }
        }
    }
}
