//! How many objects of a type lie on stacks at once. No allocation tells: what the functions that ran there declare
//! does, once for every thread that ran them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tussle_evidence::{Evidence, ObjectKind};
use tussle_model::{Type, TypeId, TypeTable};

use crate::image::{Image, ImageId, Images};
use crate::nest;
use crate::site::{Site, Sites};

/// A local variable: image, line and name of its function, its own name.
type Variable = (ImageId, Option<u32>, Option<String>, String);

/// What one of them holds.
struct Held {
    /// Type of its elements, or its own.
    ty: TypeId,
    count: u64,
    /// Bytes that it asks to be aligned to, by itself or by its type; 1 if it does not.
    align: u64,
    /// Who ran the function; `None` for a thread that is not known.
    actors: BTreeSet<Option<u32>>,
}

/// The local variables of all functions that touched memory, or called what did.
#[derive(Default)]
pub(crate) struct Declared(BTreeMap<Variable, Held>);

impl Declared {
    /// Nothing where no stack holds anything without a name.
    pub fn read(evidence: &Evidence, images: &mut Images, sites: &mut Sites) -> Declared {
        let mut out = Declared::default();
        if !evidence.objects.iter().any(|o| o.kind == ObjectKind::Stack && o.name.is_none()) {
            return out;
        }
        let ran: HashSet<(u32, Option<u32>)> = evidence.touches.iter().map(|t| (t.code, t.actor)).collect();
        for (code, actor) in ran {
            for site in sites.of_code(evidence, images, code) {
                out.add(images.get(site.image), &site, actor);
            }
        }
        out
    }

    fn add(&mut self, image: &Image, site: &Site, actor: Option<u32>) {
        let scope = &site.scope;
        for (name, die) in &scope.variables {
            let Some((ty, count)) = image.ty(*die).and_then(|ty| elements(&image.types, ty)) else {
                continue;
            };
            let own = scope.aligned.iter().filter(|a| a.0 == *name).map(|a| a.1).max();
            let align = own.unwrap_or(1).max(nest::declared_align(&image.types, ty));
            let key = (site.image, scope.decl_line, scope.name.clone(), name.clone());
            let held =
                self.0.entry(key).or_insert_with(|| Held { ty, count, align, actors: BTreeSet::new() });
            held.actors.insert(actor);
        }
    }

    /// What a variable of that name asks to be aligned to in any function, bytes.
    pub fn align(&self, image: ImageId, name: &str) -> u64 {
        self.0.iter().filter(|(v, _)| v.0 == image && v.3 == name).map(|(_, h)| h.align).max().unwrap_or(1)
    }

    /// Objects of a type that all threads together have on their stacks when each is in all functions that it ran.
    pub fn alive(&self, images: &Images, image: ImageId, ty: TypeId) -> u64 {
        let table = &images.get(image).types;
        let of = self.0.iter().filter(|(v, h)| v.0 == image && nest::same(table, h.ty, ty));
        of.fold(0, |n, (_, h)| n.saturating_add(h.count.saturating_mul(h.actors.len() as u64)))
    }
}

/// What a variable of a type holds and how many of it; `None` for an array whose length only the run decides.
fn elements(table: &TypeTable, ty: TypeId) -> Option<(TypeId, u64)> {
    match table.get(table.strip(ty)) {
        Type::Array { elem, counts } => {
            let count = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?))?;
            let (inner, more) = elements(table, *elem)?;
            Some((inner, count.checked_mul(more)?))
        }
        _ => Some((ty, 1)),
    }
}
