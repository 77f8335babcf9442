//! Rules out of a type's own `__cacheline_group_begin` and `__cacheline_group_end` markers.

use super::{Demand, Group, Rule};
use tussle_model::{Aggregate, TypeTable};

const BEGIN: &str = "__cacheline_group_begin__";
const END: &str = "__cacheline_group_end__";

/// For every type with markers: each group holds what stands between its markers in the order of declaration, and no
/// two groups share a line. Kernels write the markers (linux/cache.h) where they mean this; without `aligned` nothing
/// but such a rule keeps it.
pub fn from_markers(table: &TypeTable) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (_, a) in table.aggregates() {
        let Some(name) = a.name.as_deref().filter(|n| !seen.contains(*n)) else { continue };
        let groups = groups(a);
        if groups.is_empty() {
            continue;
        }
        seen.insert(name.to_string());
        let reason = || Some("the type's own markers".to_string());
        let several = groups.len() > 1;
        rules.extend(groups.into_iter().map(|g| Rule::new(0, name, Demand::Group(g), reason())));
        if several {
            rules.push(Rule::new(0, name, Demand::GroupsApart, reason()));
        }
    }
    for (i, rule) in rules.iter_mut().enumerate() {
        rule.index = i + 1;
    }
    rules
}

fn groups(a: &Aggregate) -> Vec<Group> {
    let mut out = Vec::new();
    let mut open: Option<Group> = None;
    for name in a.members.iter().filter_map(|m| m.name.as_deref()) {
        if let Some(begin) = name.strip_prefix(BEGIN) {
            open = Some(Group { name: begin.into(), ..Group::default() });
        } else if let Some(end) = name.strip_prefix(END) {
            out.extend(open.take().filter(|g| g.name == end));
        } else if let Some(group) = &mut open {
            group.members.push(name.into());
        }
    }
    out
}
