//! Expressions that access members: `p->a`, `v[1].a`, `(*q)->a`, `get()->a`, `o.in->a`.

use super::objects::Objects;

/// Tokens that a subscript may hold.
const SUBSCRIPT_TOKENS_MAX: usize = 100;

/// An expression without its operators in front.
struct Expression {
    /// It is an object of the type, or points to one.
    ours: bool,
    /// Place of the last member's name, if that is a member of an object of the type.
    member: Option<usize>,
}

impl Objects<'_, '_> {
    /// Place of the name of the last member that the expression at `at` accesses, if it is a member of an object of
    /// the type.
    pub(super) fn accessed(&self, at: usize) -> Option<usize> {
        self.expression(at, 0)?.member
    }

    fn expression(&self, at: usize, depth: usize) -> Option<Expression> {
        let (mut found, mut end) = self.primary(at, depth)?;
        loop {
            let access = match (self.text(end), self.text(end + 1)) {
                ("[", _) => {
                    end = self.code.matching(end, ["[", "]"], SUBSCRIPT_TOKENS_MAX)? + 1;
                    continue;
                }
                (".", _) => end + 1,
                ("-", ">") => end + 2,
                _ => return Some(found),
            };
            if !self.code.is_word(access) {
                return None;
            }
            found = Expression { ours: self.may_hold(access), member: found.ours.then_some(access) };
            end = access + 1;
        }
    }

    /// What an expression begins with: a name, a call, or parentheses; and the token behind it.
    fn primary(&self, at: usize, depth: usize) -> Option<(Expression, usize)> {
        if self.text(at) == "(" {
            let close = self.code.closing(at).filter(|_| depth < 8)?;
            let cast = (at..close).any(|j| self.is_name(j) && self.text(j + 1) == "*");
            let operators = |t: &str| matches!(t, "*" | "&");
            let inner = (at + 1..close).find(|&j| !operators(self.text(j)))?;
            let inside = self.expression(inner, depth + 1);
            let ours = cast || inside.as_ref().is_some_and(|e| e.ours);
            return Some((Expression { ours, member: inside.and_then(|e| e.member) }, close + 1));
        }
        if !self.code.is_word(at) {
            return None;
        }
        let called = self.text(at + 1) == "(";
        let own = self.text(at) == "this" && self.is_method(at);
        let ours = own || if called { self.returns_object(self.text(at)) } else { self.is_object(at) };
        let end = if called { self.code.closing(at + 1)? + 1 } else { at + 1 };
        Some((Expression { ours, member: None }, end))
    }
}
