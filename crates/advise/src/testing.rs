//! What several tests of this crate start from.

use tussle_model::types::{Base, Encoding};
use tussle_model::{Aggregate, AggregateKind, Member, Type, TypeId, TypeTable};

/// `struct s { int a, b; long c, d; }` of 24 bytes.
pub fn table() -> (TypeTable, TypeId) {
    let mut t = TypeTable::new(8);
    let int = t.push(Type::Base(Base { name: "int".into(), size: 4, encoding: Encoding::Signed }));
    let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
    let field = |n, ty, at| Member::field(Some(n), ty, at);
    let members = vec![field("a", int, 0), field("b", int, 4), field("c", long, 8), field("d", long, 16)];
    let s = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("s"), 24, members)));
    (t, s)
}
