//! Why no move of a struct's members parts what fights there.

use tussle_model::{AggregateKind, Member, Type};

use crate::moves::hot_members;
use crate::scene::Scene;

/// Members with a smaller share of the hottest one's use do not count beside it.
const ALONE_SHARE_MAX: f64 = 0.01;

/// What keeps bytes where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stays {
    /// The one member that is used where threads meet has parts: no move of members parts these.
    Inside(String),
    /// A bit-field: bits of one word have no address of their own.
    Bits(String),
    /// A union: its members lie on each other, and it is not changed as a whole either.
    Union,
}

impl Stays {
    /// Of the struct that the scene is about, if it is one of these.
    pub(crate) fn of(scene: &Scene<'_>) -> Option<Stays> {
        let table = &scene.evidence.types;
        let body = table.aggregate(scene.target)?;
        if body.kind == AggregateKind::Union {
            return Some(Stays::Union);
        }
        let hot = hot_members(scene);
        let (_, most) = hot.first()?;
        let member = |name: &String| body.members.iter().find(|m| m.name.as_ref() == Some(name));
        let used = |h: &&(String, f64)| h.1 >= ALONE_SHARE_MAX * most;
        let used: Vec<&Member> = hot.iter().filter(used).filter_map(|h| member(&h.0)).collect();
        let first = used.first()?;
        let name = first.name.clone()?;
        if used.iter().all(|m| m.bit_size.is_some()) {
            return Some(Stays::Bits(name));
        }
        let parts = matches!(table.get(table.strip(first.ty)), Type::Aggregate(_) | Type::Array { .. });
        (parts && used.len() == 1).then_some(Stays::Inside(name))
    }

    /// The reason, and what to do by hand.
    pub fn words(&self) -> String {
        match self {
            Stays::Inside(member) => format!(
                "what fights lies inside of its member {member}. Part that by hand: tussle moves whole members of \
                 structs that have a name, and parts elements of arrays"
            ),
            Stays::Bits(member) => format!(
                "what fights are bit-fields ({member}), which share a word. Part them by hand: bits that different \
                 threads store to need words of their own, on lines of their own"
            ),
            Stays::Union => concat!(
                "tussle changes no union. Where threads use one each, align each to 64 bytes by hand; where they use ",
                "different members of one, make it a struct with these on lines of their own"
            )
                .into(),
        }
    }
}
