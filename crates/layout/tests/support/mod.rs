//! Type tables written by hand.
#![allow(dead_code)]

use tussle_model::*;

/// Builds a table step by step.
pub struct Build {
    pub table: TypeTable,
}

impl Build {
    pub fn new() -> Build {
        Build { table: TypeTable::new(8) }
    }

    pub fn base(&mut self, name: &str, size: u64) -> TypeId {
        self.table.push(Type::Base(Base { name: name.into(), size, encoding: Encoding::Signed }))
    }

    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        self.table.push(Type::Typedef { name: name.into(), to })
    }

    pub fn array(&mut self, elem: TypeId, n: u64) -> TypeId {
        self.table.push(Type::Array { elem, counts: vec![Some(n)] })
    }

    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        self.table.push(Type::Pointer { to, size: 8 })
    }

    /// Members are name (empty: unnamed), type and offset in bytes; declared in lines 1, 2, 3 of `<name>.h`.
    pub fn aggregate(
        &mut self,
        kind: AggregateKind,
        name: &str,
        size: u64,
        members: &[(&str, TypeId, u64)],
    ) -> TypeId {
        let members = members
            .iter()
            .enumerate()
            .map(|(i, (name, ty, offset))| Member {
                decl_line: i as u32 + 1,
                ..Member::field(Some(*name).filter(|n| !n.is_empty()), *ty, *offset)
            })
            .collect();
        self.table.push(Type::Aggregate(Aggregate {
            decl: Some(SourceLoc { file: format!("{name}.h"), line: 1 }),
            ..Aggregate::new(kind, Some(name).filter(|n| !n.is_empty()), size, members)
        }))
    }

    pub fn structure(&mut self, name: &str, size: u64, members: &[(&str, TypeId, u64)]) -> TypeId {
        self.aggregate(AggregateKind::Struct, name, size, members)
    }

    pub fn aligned(&mut self, id: TypeId, bytes: u64) {
        if let Type::Aggregate(a) = self.table.get(id) {
            let mut a = a.clone();
            a.align = Some(Alignment { bytes, source: AlignmentSource::Declared });
            self.table.set(id, Type::Aggregate(a));
        }
    }
}

/// `list_head` and `rw_semaphore` as in a 64-bit kernel without lock debugging.
pub fn rwsem(b: &mut Build) -> TypeId {
    let long = b.base("long int", 8);
    let int = b.base("int", 4);
    let list = b.structure("list_head", 16, &[("next", long, 0), ("prev", long, 8)]);
    b.structure(
        "rw_semaphore",
        40,
        &[
            ("count", long, 0),
            ("owner", long, 8),
            ("osq", int, 16),
            ("wait_lock", int, 20),
            ("wait_list", list, 24),
        ],
    )
}
