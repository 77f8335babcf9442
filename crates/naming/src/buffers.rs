//! Memory of the C++ library in which it builds a value of a type that its name tells: what `std::make_shared` puts
//! beside the counts, the nodes of maps. Debug information has bytes there.

use tussle_model::{Member, Type, TypeId, TypeTable};

/// Templates of libstdc++ whose first argument is the type of the value (`ext/aligned_buffer.h`).
const BUFFERS: [&str; 2] = ["__gnu_cxx::__aligned_buffer<", "__gnu_cxx::__aligned_membuf<"];

/// Gives each such buffer its value as the only member, where the table has the type and it is as large. `named` gives
/// the table's types of a name.
pub(crate) fn fill<'a>(types: &mut TypeTable, named: impl Fn(&str) -> &'a [TypeId]) {
    let found: Vec<(TypeId, TypeId)> = types
        .aggregates()
        .filter_map(|(id, a)| {
            let value = value_of(a.name.as_deref()?)?;
            let same = |ty: &&TypeId| types.size(**ty).is_some_and(|n| n > 0 && Some(n) == types.size(id));
            Some((id, *named(value).iter().find(same)?))
        })
        .collect();
    for (id, value) in found {
        if let Some(mut a) = types.aggregate(id).cloned() {
            a.members = vec![Member::field(Some("_M_storage"), value, 0)];
            types.set(id, Type::Aggregate(a));
        }
    }
}

/// `ns::Pair<int>` of `__gnu_cxx::__aligned_buffer<ns::Pair<int> >`.
fn value_of(name: &str) -> Option<&str> {
    let inside = BUFFERS.iter().find_map(|b| name.strip_prefix(b))?;
    Some(inside.strip_suffix('>')?.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_named() {
        assert_eq!(value_of("__gnu_cxx::__aligned_buffer<Pair>"), Some("Pair"));
        assert_eq!(value_of("__gnu_cxx::__aligned_membuf<ns::Slot<long int> >"), Some("ns::Slot<long int>"));
        assert_eq!(value_of("std::aligned_storage<16, 8>::type"), None);
    }
}
