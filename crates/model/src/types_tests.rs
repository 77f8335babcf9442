//! Tests of the table of types.

use super::*;

fn aggregate(name: Option<&str>, member: TypeId) -> Type {
    let members = vec![Member::field(Some("a"), member, 0)];
    Type::Aggregate(Aggregate::new(AggregateKind::Struct, name, 8, members))
}

/// `NAME { .. } foo_t; foo_t *p; foo_t v;`: the pointer and the value in that order.
fn extracted(tag: Option<&str>) -> TypeTable {
    let mut table = TypeTable::new(8);
    let long = table.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
    let body = table.push(aggregate(tag, long));
    let alias = table.push(Type::Typedef { name: "foo_t".into(), to: body });
    let pointer = table.push(Type::Pointer { to: alias, size: 8 });
    table.extract(&[pointer, alias]).0
}

#[test]
fn a_struct_without_a_tag_is_one_type_behind_pointers_and_by_value() {
    let table = extracted(None);
    assert_eq!(table.aggregates().count(), 1);
    assert_eq!(table.iter().filter(|(_, t)| matches!(t, Type::Typedef { .. })).count(), 1);
}

#[test]
fn a_typedef_is_found_with_its_body_where_a_pointer_knows_only_the_name() {
    let table = extracted(Some("foo"));
    let found = table.find("foo_t").and_then(|id| table.aggregate(id));
    assert_eq!(found.map(|a| (a.declaration, a.members.len())), Some((false, 1)));
}

#[test]
fn a_struct_without_a_tag_is_called_by_its_first_typedef() {
    let mut table = TypeTable::new(8);
    let body = table.push(aggregate(None, TypeId::VOID));
    let first = table.push(Type::Typedef { name: "buf_t".into(), to: body });
    let constant = table.push(Type::Const(first));
    let second = table.push(Type::Typedef { name: "const_buf_t".into(), to: constant });
    for id in [first, constant, second] {
        assert_eq!(table.first_typedef(id), Some(first));
    }
    assert_eq!(table.first_typedef(body), None);
}
