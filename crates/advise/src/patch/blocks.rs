//! Moves of whole `#if` blocks, told member by member: layouts know members only.

use super::Editor;
use super::Refusal;
use super::member;
use crate::edit::{Edit, Spot};

impl Editor<'_, '_> {
    /// `edit` as moves of single members: a member inside an `#if` takes its block along to places outside of it, and
    /// a place beside such a member is beside its block. Members that the build lacks are left out.
    pub(super) fn told(&self, edit: &Edit) -> Result<Vec<Edit>, Refusal> {
        let Edit::Move { field, to } = edit else { return Ok(vec![edit.clone()]) };
        let from = self.movable(field)?;
        let (anchor, _) = self.goal(field, to)?;
        let common = self.common(from, anchor);
        let moving = self.block(from, common, field)?;
        let beside = self.block(anchor, common, field)?;
        let to = match to {
            Spot::After(other) => Spot::After(beside.last().unwrap_or(other).clone()),
            Spot::Before(other) => Spot::Before(beside.first().unwrap_or(other).clone()),
            Spot::First => beside.first().map_or(Spot::First, |f| Spot::Before(f.clone())),
        };
        let Some((first, rest)) = moving.split_first().filter(|_| from != anchor) else {
            return Ok(vec![Edit::Move { field: field.clone(), to }]);
        };
        let mut out = vec![Edit::Move { field: first.clone(), to }];
        let mut last = first;
        for name in rest {
            out.push(Edit::Move { field: name.clone(), to: Spot::After(last.clone()) });
            last = name;
        }
        Ok(out)
    }

    /// Members of the build in the block around a statement, below `common` blocks; empty where there is none.
    fn block(&self, at: usize, common: usize, field: &str) -> Result<Vec<String>, Refusal> {
        let Some(open) = self.statements[at].opened.get(common) else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for statement in self.statements.iter().filter(|s| s.opened.get(common) == Some(open)) {
            let declared = member::declared(self.source, statement);
            if declared.anonymous || declared.bit_field {
                return Err(Refusal::BlockHolds { field: field.into() });
            }
            let known = |n: &&String| self.target.members.is_empty() || self.has_member(n);
            out.extend(declared.names.iter().filter(known).cloned());
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::patch::{Target, patch};

    const TEXT: &str = "\
struct mm {
\tlong users;
\tlong list;
#ifdef COMPAT
\tlong compat_base;
\tint compat_legacy;
#else
\tint no_compat;
#endif
#ifdef NUMA
\tlong scan;
\tstruct { int seq; };
#endif
\tlong flags;
};
";

    /// Moves of single members in a build with COMPAT and without NUMA.
    fn told(edit: &str) -> Result<Vec<String>, String> {
        let members = ["users", "list", "compat_base", "compat_legacy", "flags"].map(|m| (m.to_string(), 0));
        let target = Target { name: "mm", decl_line: None, members: &members, pad_bytes: 0 };
        let patched = patch("mm.h", TEXT, &target, &[edit.parse().unwrap()]).map_err(|e| e.to_string())?;
        Ok(patched.edits.iter().map(|e| e.to_string()).collect())
    }

    #[test]
    fn a_block_moves_as_all_of_its_members() {
        let check = |edit: &str, expect: &[&str]| assert_eq!(told(edit).unwrap(), expect, "{edit}");
        let behind = "compat_legacy:after:compat_base";
        check("compat_base:after:users", &["compat_base:after:users", behind]);
        check("compat_legacy:after:users", &["compat_base:after:users", behind]);
        check("compat_legacy:first", &["compat_base:first", behind]);
        check("compat_base:before:list", &["compat_base:before:list", behind]);
        check("flags:after:compat_base", &["flags:after:compat_legacy"]);
        check("users:before:compat_legacy", &["users:before:compat_base"]);
        // Within the block only the member moves.
        check("compat_legacy:before:compat_base", &["compat_legacy:before:compat_base"]);
        check("flags:after:users", &["flags:after:users"]);
    }

    #[test]
    fn a_block_with_an_anonymous_struct_is_refused() {
        assert!(told("scan:after:users").unwrap_err().contains("moves as a whole"));
    }
}
