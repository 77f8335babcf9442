//! What the debug information tells of slab objects: asked once for each allocation site and size, and each cache.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use tussle_evidence::{Evidence, ObjectKind};

use crate::convert::Inputs;
use crate::place::{How, Owner, TypeWish};
use crate::typed::{Code, Holder, Pointed, Told};

/// Sites asked about at most.
const SITES_MAX: usize = 20_000;

/// Objects that are asked about together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// Return address of the allocation and bytes asked for.
    Allocation(u64, u32),
    /// Elements of the array that a global variable points to, with the struct's name.
    Pointed(String, String),
    /// One object of a general cache of which nobody saw the allocation.
    Alone(u32),
    /// Objects of a cache made for one type, of so many bytes.
    Cache(String, u32),
}

impl Site {
    fn of(p: &Owner, id: u32) -> Option<Site> {
        match &p.ty {
            TypeWish::Cache(c) => return Some(Site::Cache(c.name.clone(), p.asked)),
            TypeWish::Unknown => {}
            _ => return None,
        }
        match (p.how, &p.pointed) {
            (How::AllocationSite, _) if p.kind == ObjectKind::Slab => {
                Some(Site::Allocation(p.site.as_ref()?.1, p.asked))
            }
            // Rounded up by nobody: what was asked for is unknown, the size reaches to the next one.
            (How::PerCpu, _) => Some(Site::Allocation(p.site.as_ref()?.1, 0)),
            (How::GeneralCache, _) => Some(Site::Alone(id)),
            (_, Some(to)) => Some(Site::Pointed(to.variable.clone(), to.name.clone())),
            _ => None,
        }
    }

    fn told(&self, code: &Code) -> Told {
        match self {
            Site::Allocation(back, asked) => {
                Told { received: code.received(*back), asked: *asked, ..Told::default() }
            }
            Site::Pointed(variable, name) => {
                let pointed = Pointed { name: name.clone(), variable: variable.clone() };
                Told { pointed: Some(pointed), ..Told::default() }
            }
            Site::Cache(_, asked) => Told { asked: *asked, ..Told::default() },
            Site::Alone(_) => Told::default(),
        }
    }
}

/// Wishes for the types of all objects with a known allocation.
pub(super) fn ask(inputs: &Inputs, evidence: &Evidence, objects: &mut [Owner]) {
    let code = Code { symbols: &inputs.image.symbols, file: inputs.vmlinux };
    let of: HashMap<u32, Site> =
        objects.iter().zip(0u32..).filter_map(|(p, id)| Some((id, Site::of(p, id)?))).collect();
    let mut told: BTreeMap<Site, Told> = BTreeMap::new();
    for site in of.values().collect::<BTreeSet<_>>().into_iter().take(SITES_MAX) {
        told.insert(site.clone(), site.told(&code));
    }
    let mut holders: HashMap<u32, Vec<(Holder, i64)>> = HashMap::new();
    let mut counted: HashSet<(&Site, u64, u32)> = HashSet::new();
    for t in &evidence.touches {
        let Some(site) = of.get(&t.object) else { continue };
        let (Some(told), Some(c)) = (told.get_mut(site), evidence.code.get(t.code as usize)) else {
            continue;
        };
        if !counted.insert((site, t.offset, t.code)) {
            continue;
        }
        let holders = holders.entry(t.code).or_insert_with(|| code.accessed(c.address));
        for (holder, _) in holders.iter().filter(|h| u64::try_from(h.1) == Ok(t.offset)) {
            *told.accessed.entry(holder.clone()).or_default() += 1;
        }
    }
    let told: HashMap<Site, Rc<Told>> = told.into_iter().map(|(s, t)| (s, Rc::new(t))).collect();
    for (id, site) in &of {
        let (Some(p), Some(t)) = (objects.get_mut(*id as usize), told.get(site)) else { continue };
        match &mut p.ty {
            TypeWish::Cache(c) => c.told = Some(t.clone()),
            ty => *ty = TypeWish::Told(t.clone()),
        }
    }
}
