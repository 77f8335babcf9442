//! A few types of a table as a table of their own.

use crate::types::{Type, TypeId, TypeTable};

impl TypeTable {
    /// A table with only `roots` and what they reach (pointer targets are cut to declarations, so that one kernel
    /// struct does not drag in the whole kernel), and the new ids of the roots in the same order.
    pub fn extract(&self, roots: &[TypeId]) -> (TypeTable, Vec<TypeId>) {
        let mut copy = Extract { from: self, to: TypeTable::new(self.pointer_size), map: Default::default() };
        copy.to.aligns_lost = self.aligns_lost;
        copy.to.lost = self.lost.clone();
        let ids = roots.iter().map(|&r| copy.whole(r)).collect();
        (copy.to, ids)
    }
}

/// State of [`TypeTable::extract`]: `map` remembers what was copied, with its body or only as a name.
struct Extract<'a> {
    from: &'a TypeTable,
    to: TypeTable,
    map: std::collections::HashMap<(TypeId, bool), TypeId>,
}

impl Extract<'_> {
    /// Works off an explicit list: a hostile chain of a million typedefs must not overflow the stack.
    fn whole(&mut self, root: TypeId) -> TypeId {
        let mut todo = Vec::new();
        let new = self.reserve(root, true, &mut todo);
        while let Some((old, body, new)) = todo.pop() {
            let ty = self.rewrite(old, body, &mut todo);
            self.to.set(new, ty);
        }
        new
    }

    fn reserve(&mut self, old: TypeId, body: bool, todo: &mut Vec<(TypeId, bool, TypeId)>) -> TypeId {
        if old == TypeId::VOID {
            return old;
        }
        // What has no body to leave out is one type, however it is reached.
        let body = body || !self.has_name_and_body(old);
        if let Some(&new) = self.map.get(&(old, true)).or_else(|| self.map.get(&(old, body))) {
            return new;
        }
        let new = self.to.push(Type::Void);
        self.from.exact.get(old).into_iter().for_each(|&e| self.to.exact.set(new, e));
        self.to.doubts.extend(self.from.doubts.get(&old).map(|why| (new, why.clone())));
        self.map.insert((old, body), new);
        todo.push((old, body, new));
        new
    }

    /// Whether a declaration can stand for the type, or for what it is a typedef or an array of.
    fn has_name_and_body(&self, id: TypeId) -> bool {
        let mut id = self.from.strip(id);
        for _ in 0..crate::types::CHAIN_MAX {
            match self.from.get(id) {
                Type::Array { elem, .. } => id = self.from.strip(*elem),
                Type::Aggregate(a) => return a.name.is_some() && !a.declaration,
                _ => return false,
            }
        }
        true
    }

    fn rewrite(&mut self, old: TypeId, body: bool, todo: &mut Vec<(TypeId, bool, TypeId)>) -> Type {
        let from = self.from;
        match from.get(old) {
            Type::Aggregate(a) => {
                let mut a = a.clone();
                if !body && a.name.is_some() {
                    a.members.clear();
                    a.indirect_bases.clear();
                    a.declaration = true;
                } else {
                    for m in &mut a.members {
                        m.ty = self.reserve(m.ty, true, todo);
                    }
                    for base in &mut a.indirect_bases {
                        base.0 = self.reserve(base.0, true, todo);
                    }
                }
                Type::Aggregate(a)
            }
            Type::Pointer { to, size } => Type::Pointer { to: self.reserve(*to, false, todo), size: *size },
            Type::Reference { to, rvalue } => {
                Type::Reference { to: self.reserve(*to, false, todo), rvalue: *rvalue }
            }
            Type::Array { elem, counts } => {
                Type::Array { elem: self.reserve(*elem, body, todo), counts: counts.clone() }
            }
            Type::Typedef { name, to } => {
                Type::Typedef { name: name.clone(), to: self.reserve(*to, body, todo) }
            }
            Type::Const(t) => Type::Const(self.reserve(*t, body, todo)),
            Type::Volatile(t) => Type::Volatile(self.reserve(*t, body, todo)),
            Type::Restrict(t) => Type::Restrict(self.reserve(*t, body, todo)),
            Type::Atomic(t) => Type::Atomic(self.reserve(*t, body, todo)),
            Type::Function { ret, params, variadic } => Type::Function {
                ret: self.reserve(*ret, false, todo),
                params: params.iter().map(|p| self.reserve(*p, false, todo)).collect(),
                variadic: *variadic,
            },
            other => other.clone(),
        }
    }
}
