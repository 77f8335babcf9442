//! Members that stand between two others: what is cleared from one marker to the next, and what is allocated up to a
//! member, counts on who stands there.

use std::collections::BTreeSet;

use super::neighbours::{Member, Order, Uses};

impl Order<'_> {
    /// Between the members at two places (from the first one of all on, where there is no `from`) come to stand others
    /// than today.
    pub(super) fn parts(&self, from: Option<usize>, to: usize) -> bool {
        let order = self.after();
        let at = |n: usize| order.iter().position(|o| *o == self.members[n].name).unwrap_or(n);
        let (first, last) = (from.map_or(0, at), at(to));
        let today: BTreeSet<&str> =
            self.members[from.unwrap_or(0)..to].iter().map(|m| m.name.as_str()).collect();
        let then: BTreeSet<&str> = order[first.min(last)..last].iter().copied().collect();
        today != then
    }
}

impl Uses<'_, '_, '_> {
    /// Two places between which somebody counts on who stands there.
    pub(super) fn group(&self, i: usize) -> Option<(Option<usize>, usize, String)> {
        match self.objects.text(i) {
            "-" => self.marked(i),
            "offsetof" | "__builtin_offsetof" => self.cut(i),
            _ => None,
        }
    }

    /// `p->end - p->begin`, where both are arrays.
    fn marked(&self, i: usize) -> Option<(Option<usize>, usize, String)> {
        let code = &self.objects.code;
        let (right, _) = self.own_member(i + 1).filter(|(m, _)| m.array)?;
        let start = code.operand_start(i.checked_sub(1)?);
        let (left, _) = self.own_member(start).filter(|&(m, last)| m.array && last + 1 == i)?;
        let (from, to) = (self.place(right)?, self.place(left)?);
        let how = format!("the members between {} and {} are counted", right.name, left.name);
        (from < to).then_some((Some(from), to, how))
    }

    /// `malloc(offsetof(struct s, tail))`
    fn cut(&self, i: usize) -> Option<(Option<usize>, usize, String)> {
        let objects = self.objects;
        let close = objects.code.closing(i + 1)?;
        let comma = (i + 2..close).find(|&j| objects.text(j) == ",")?;
        let name = objects.text(comma + 1);
        let member = self.members.iter().position(|m| m.name == name)?;
        let ours = objects.names_type(i + 2, comma);
        if ours && self.is_rest(i) {
            return Some((None, member, format!("the room from {name} to the end is counted")));
        }
        let call = objects.named_call_around(i, close + 1)?;
        let allocates = objects.text(call).to_lowercase().contains("alloc");
        let how = || format!("{}() gives memory up to {name} alone", objects.text(call));
        (ours && allocates).then(|| (None, member, how()))
    }

    /// `sizeof(struct s) - offsetof(struct s, tail)`
    fn is_rest(&self, i: usize) -> bool {
        let objects = self.objects;
        let minus = i.checked_sub(1).filter(|&m| objects.text(m) == "-");
        minus.is_some() && (i.saturating_sub(12)..i).any(|j| objects.text(j) == "sizeof")
    }

    fn place(&self, member: &Member) -> Option<usize> {
        self.members.iter().position(|m| m == member)
    }
}

#[cfg(test)]
mod tests {
    use crate::edit::Edit;
    use crate::patch::uses::{Ask, check};

    fn found(edit: &str, code: &str) -> String {
        let own = "struct s { long id; char from[0]; int x; int y; char until[0]; int z; int last; };\n";
        let edits: Vec<Edit> = vec![edit.parse().expect("an edit")];
        let text = format!("{own}void f(struct s *p) {{ {code} }}\n");
        check("s", Some(&edits), Ask::LAYOUT, &[("a.c", &text)])
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn who_stands_between_two_markers() {
        let clear = "memset(p->from, 0, p->until - p->from);";
        assert!(found("z:after:x", clear).contains("between from and until"));
        assert!(found("x:after:last", clear).contains("between from and until"));
        assert_eq!(found("swap:x,y", clear), "");
        assert_eq!(found("swap:z,last", clear), "");
        assert_eq!(found("z:after:x", "p->x = p->y - p->z;"), "");
    }

    #[test]
    fn what_is_allocated_up_to_a_member() {
        let short = "struct s *q = malloc(n ? sizeof *q : offsetof(struct s, z)); use(q);";
        assert!(found("x:after:last", short).contains("memory up to z alone"));
        assert!(found("swap:y,last", short).contains("memory up to z alone"));
        assert_eq!(found("swap:x,y", short), "");
        assert_eq!(found("x:after:last", "use(offsetof(struct s, z));"), "");
        let rest = "use(sizeof(struct s) - offsetof(struct s, z));";
        assert!(found("x:after:last", rest).contains("from z to the end"));
        assert_eq!(found("swap:x,y", rest), "");
    }
}
