//! The recorded accesses seen through another build's layout, by field path.

use std::cell::RefCell;
use std::collections::HashMap;

use tussle_model::leaf::{Arrays, leaf_at, leaves};
use tussle_model::{Leaf, TypeId, TypeTable};

use crate::cost::Layout;
use crate::relayout::{Relayout, RelayoutError};

/// Bytes of fields that a build does not have go here: nobody shares a line with them.
const NOWHERE: u64 = 1 << 40;

/// Another build of the same program or kernel.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// How to call it: its file name.
    pub name: &'a str,
    /// Its types.
    pub table: &'a TypeTable,
}

/// One type in both tables.
struct Twin {
    other: Option<TypeId>,
    ours: Vec<Leaf>,
    theirs: HashMap<String, u64>,
}

/// Maps offsets of the evidence's types to those of a build, and further through an edit.
pub(crate) struct Mapped<'a> {
    ours: &'a TypeTable,
    relayout: &'a Relayout<'a>,
    twins: RefCell<HashMap<TypeId, std::rc::Rc<Twin>>>,
}

impl<'a> Mapped<'a> {
    /// `relayout` is over the build's table.
    pub(crate) fn new(ours: &'a TypeTable, relayout: &'a Relayout<'a>) -> Self {
        Mapped { ours, relayout, twins: RefCell::default() }
    }

    fn twin(&self, ty: TypeId) -> std::rc::Rc<Twin> {
        let ty = self.ours.strip(ty);
        if let Some(t) = self.twins.borrow().get(&ty) {
            return t.clone();
        }
        let theirs = self.relayout.table();
        let name = self.ours.aggregate(ty).and_then(|a| a.name.clone());
        let other = name.and_then(|n| theirs.find(&n));
        let paths = |t: &TypeTable, id| leaves(t, id, Arrays::Whole);
        let twin = std::rc::Rc::new(Twin {
            other,
            ours: paths(self.ours, ty),
            theirs: other
                .map(|id| paths(theirs, id))
                .unwrap_or_default()
                .into_iter()
                .map(|l| (l.path, l.offset))
                .collect(),
        });
        self.twins.borrow_mut().insert(ty, twin.clone());
        twin
    }
}

impl Layout for Mapped<'_> {
    fn translate(&self, ty: TypeId, offset: u64) -> Result<u64, RelayoutError> {
        let twin = self.twin(ty);
        // Types without a name or a twin (arrays, scalars) are taken as they are.
        let Some(other) = twin.other else { return Ok(offset) };
        let Some(leaf) = leaf_at(&twin.ours, offset) else { return Ok(offset) };
        match twin.theirs.get(&leaf.path) {
            Some(at) => self.relayout.translate(other, at + (offset - leaf.offset)),
            None => Ok(NOWHERE + offset * 256),
        }
    }

    fn size(&self, ty: TypeId) -> Result<Option<u64>, RelayoutError> {
        match self.twin(ty).other {
            Some(other) => self.relayout.size(other),
            None => Ok(self.ours.size(ty)),
        }
    }

    fn align(&self, ty: TypeId) -> Result<u64, RelayoutError> {
        match self.twin(ty).other {
            Some(other) => self.relayout.align(other),
            None => Ok(1),
        }
    }

    fn raised_align(&self, ty: TypeId) -> Result<u64, RelayoutError> {
        match self.twin(ty).other {
            Some(other) => self.relayout.raised_align(other),
            None => Ok(1),
        }
    }
}
