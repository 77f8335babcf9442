//! Advice about variables that are no structs of the program: single globals, and arrays whose elements different
//! threads write.
//!
//! What is proposed follows from who fights: an array with itself gets a line per element, several variables one each.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tussle_contention::analysis::{HiddenBy, Latent};
use tussle_contention::group::{FieldPair, FieldUse, Group, groups};
use tussle_evidence::{Evidence, Object, ObjectKind};
use tussle_model::{LineSize, Type, TypeId, TypeTable};

use crate::advice::{Advice, Report, is_own_source};
use crate::class::{self, Class, Fights, is_luck};
use crate::cost::{Layout, Variable};
use crate::edit::Edit;
use crate::relayout::RelayoutError;
use crate::scene::Scene;

/// Variables of one fight that are changed at most: more are a matter for a person.
const VARIABLES_MAX: usize = 8;

/// Lines on which variables fight that get a line of their own.
pub(crate) const FIGHTS_ON: LineSize = LineSize::L64;

/// A fight between variables, and what to do.
struct Plan {
    /// The variable that is named first, and all that change.
    names: Vec<String>,
    edits: Vec<Edit>,
    class: Class,
    /// They lie on several lines as it was recorded, by luck.
    latent: bool,
}

/// Advice about every fight between such variables, in no order, on lines of so many bytes.
pub(crate) fn all(evidence: &Evidence, fights: &Fights, line: u64) -> Vec<Advice> {
    plans(evidence, fights, line).iter().filter_map(|p| p.advice(evidence, line)).collect()
}

/// What is known of the variable `name`; `None` where it takes part in no fight.
pub fn report(evidence: &Evidence, name: &str, line: u64) -> Option<Report> {
    let plans = class::fights(evidence, FIGHTS_ON, |fights| plans(evidence, fights, line));
    let plan = plans.into_iter().find(|p| p.names.iter().any(|n| n == name))?;
    let scene = plan.scene(evidence, line);
    let before = scene.cost(&plan.layout(evidence, false)).ok()?;
    let sharing = scene.sharing(&plan.layout(evidence, false)).ok()?;
    Some(Report {
        type_name: name.into(),
        decl: None,
        unit: evidence.run.unit.to_string(),
        class: plan.class,
        latent: plan.latent,
        stays: None,
        cost: before,
        sharing,
        advices: plan.advice(evidence, line).into_iter().collect(),
        refused: None,
        evaluated: 1,
        notes: Vec::new(),
    })
}

/// What the variables of a proposal cost without and with it, on lines of so many bytes.
pub(crate) fn costs(evidence: &Evidence, advice: &Advice, line: u64) -> Option<(f64, f64)> {
    let (names, edits) = (advice.variables.clone(), advice.edits.clone());
    let plan = Plan { names, edits, class: Class::LayoutHelps, latent: advice.is_latent() };
    let scene = plan.scene(evidence, line);
    let cost = |changed| Some(scene.cost(&plan.layout(evidence, changed)).ok()?.mean);
    Some((cost(false)?, cost(true)?))
}

/// Whether an object is a variable that a patch can change by itself.
fn is_plain(e: &Evidence, o: &Object) -> bool {
    let own = |t: TypeId| {
        let a = e.types.aggregate(e.types.element(t));
        a.is_some_and(|a| a.decl.as_ref().is_some_and(|d| is_own_source(&d.file)))
    };
    o.kind == ObjectKind::Global && o.name.is_some() && o.ty.is_some_and(|t| !own(t))
}

/// Bytes of an array's first-dimension elements.
fn stride(types: &TypeTable, o: &Object) -> Option<u64> {
    match types.get(types.strip(o.ty?)) {
        Type::Array { counts, .. } => {
            let n = (*counts.first()?)?;
            (n > 1 && o.size % n == 0).then(|| o.size / n)
        }
        _ => None,
    }
}

fn plans(e: &Evidence, fights: &Fights, line: u64) -> Vec<Plan> {
    let helped = fights.judged.iter().filter(|j| j.class.may_gain());
    let mut out: Vec<Plan> = helped.filter_map(|j| plan(e, &j.group, j.class, line)).collect();
    let by_linker = |l: &&Latent| matches!(l.hidden_by, HiddenBy::Link { .. }) && is_luck(e, &l.hidden_by);
    for hidden in fights.latent.iter().filter(by_linker) {
        let there = groups(e, fights.namer, std::iter::once(&hidden.line));
        let plans = there.iter().filter_map(|g| plan(e, g, Class::LayoutHelps, line));
        out.extend(plans.map(|p| Plan { latent: true, ..p }));
    }
    out
}

/// What to do about one fight; `None` where something else than plain variables takes part.
fn plan(e: &Evidence, group: &Group<'_>, class: Class, line: u64) -> Option<Plan> {
    let pairs = fighting(group);
    let fields = pairs.iter().flat_map(|p| [p.stored, p.lost]).filter_map(|f| group.fields.get(f));
    let fighters: BTreeSet<u32> = fields.map(|f| f.object).collect();
    let objects: Vec<&Object> = fighters.iter().filter_map(|o| e.objects.get(*o as usize)).collect();
    let plain = objects.iter().all(|o| is_plain(e, o)) && !objects.is_empty();
    let mut edits: BTreeMap<&str, Edit> = BTreeMap::new();
    for o in objects.iter().filter(|_| plain) {
        let name = o.name.as_deref()?;
        let edit = match spreads(e, group, &pairs, o, line) {
            true => Edit::Element { bytes: line },
            false => Edit::Align { field: name.into(), bytes: line },
        };
        edits.insert(name, edit);
    }
    let element = edits.values().filter(|e| matches!(e, Edit::Element { .. })).count();
    let possible = match element {
        0 => edits.len() > 1,
        // One array at a time; others follow when it is repaired.
        _ => edits.len() == 1,
    };
    if !possible {
        edits.retain(|_, e| matches!(e, Edit::Element { .. }));
        edits = edits.into_iter().take(1).collect();
    }
    let names: Vec<String> = edits.keys().map(|n| n.to_string()).collect();
    let edits: Vec<Edit> = edits.into_values().collect();
    (!edits.is_empty() && edits.len() <= VARIABLES_MAX).then_some(Plan { names, edits, class, latent: false })
}

/// Pairs of fields that a layout can part, with at least 1% of what such pairs cost.
fn fighting(group: &Group<'_>) -> Vec<FieldPair> {
    let apart = || group.pairs.iter().filter(|p| !p.same_bytes);
    let least = 0.01 * apart().map(|p| p.e).sum::<f64>();
    apart().filter(|p| p.e >= least).copied().collect()
}

/// Threads meet in the array itself, whose elements are no whole lines.
fn spreads(e: &Evidence, group: &Group<'_>, pairs: &[FieldPair], o: &Object, line: u64) -> bool {
    let whole = stride(&e.types, o).is_none_or(|s| s % line == 0);
    let of = |f: usize| group.fields.get(f).is_some_and(|f| is_of(e, f, o));
    !whole && !is_storage(e, group, o) && pairs.iter().any(|p| of(p.stored) && of(p.lost))
}

/// An array of bytes in which the program keeps something larger: its elements mean nothing.
pub(crate) fn is_storage(e: &Evidence, group: &Group<'_>, o: &Object) -> bool {
    let larger = |bytes: u64| group.fields.iter().any(|f| f.size > bytes && is_of(e, f, o));
    o.kind == ObjectKind::Global && stride(&e.types, o).is_some_and(larger)
}

/// The field is the object's, or that of one called the same: another process's.
fn is_of(e: &Evidence, field: &FieldUse, o: &Object) -> bool {
    e.objects.get(field.object as usize).is_some_and(|x| x.name == o.name && x.kind == o.kind)
}

impl Plan {
    fn objects(&self, e: &Evidence) -> HashSet<u32> {
        let named = |o: &Object| {
            o.kind == ObjectKind::Global && o.name.as_ref().is_some_and(|n| self.names.contains(n))
        };
        (0..e.objects.len() as u32).filter(|&i| named(&e.objects[i as usize])).collect()
    }

    fn scene<'a>(&self, e: &'a Evidence, line: u64) -> Scene<'a> {
        Scene::of_objects(e, &self.objects(e), line)
    }

    fn layout<'a>(&'a self, e: &'a Evidence, changed: bool) -> Changed<'a> {
        Changed { evidence: e, plan: self, changed }
    }

    fn advice(&self, e: &Evidence, line: u64) -> Option<Advice> {
        let scene = self.scene(e, line);
        let (old, new) = (self.layout(e, false), self.layout(e, true));
        let (before, after) = (scene.cost(&old).ok()?, scene.cost(&new).ok()?);
        let (shared, sharing) = (scene.sharing(&old).ok()?, scene.sharing(&new).ok()?);
        let first = scene.objects().find(|o| o.name.as_ref() == self.names.first())?;
        let grown = |o: &Object| new.variable(o).map_or(o.size, |v| v.size(o.size));
        // Of several processes' variables of one name each has as much.
        let mut live: BTreeMap<&str, i64> = BTreeMap::new();
        for o in scene.objects() {
            let more = (grown(o) - o.size.min(grown(o)) + new.gap(o)) as i64;
            let known = live.entry(o.name.as_deref().unwrap_or_default()).or_default();
            *known = more.max(*known);
        }
        let gain = if self.latent { before.mean - after.mean } else { before.observed - after.observed };
        let gains = gain >= crate::class::COST_MIN;
        gains.then(|| Advice {
            type_name: self.names.first().cloned().unwrap_or_default(),
            decl: None,
            edits: self.edits.clone(),
            before,
            after,
            size_before: first.size,
            size_after: grown(first),
            live_bytes: live.values().sum(),
            new_sharing: sharing.pairs.difference(&shared.pairs).cloned().collect(),
            moved: Vec::new(),
            why: self.why(),
            notes: Vec::new(),
            too_large: None,
            sites: Vec::new(),
            replayed: None,
            variables: self.names.clone(),
        })
    }

    fn why(&self) -> String {
        match self.edits[..] {
            [Edit::Element { .. }] => {
                format!("every element of {} gets a cache line of its own", self.names[0])
            }
            _ => format!("{} begin on cache lines of their own", self.names.join(", ")),
        }
    }
}

/// The variables of a plan, as they are or as they would be.
struct Changed<'a> {
    evidence: &'a Evidence,
    plan: &'a Plan,
    changed: bool,
}

impl Changed<'_> {
    fn variable(&self, o: &Object) -> Option<Variable> {
        let name = o.name.as_ref().filter(|_| self.changed && o.kind == ObjectKind::Global)?;
        let at = self.plan.names.iter().position(|n| n == name)?;
        match self.plan.edits.get(at)? {
            Edit::Element { bytes } => {
                let old = stride(&self.evidence.types, o)?;
                Some(Variable { align: *bytes, stride: Some((old, old.div_ceil(*bytes) * bytes)) })
            }
            Edit::Align { bytes, .. } => Some(Variable { align: *bytes, stride: None }),
            _ => None,
        }
    }
}

impl Changed<'_> {
    /// Bytes that a variable which is aligned may leave unused before it, more than it did.
    fn gap(&self, o: &Object) -> u64 {
        match Changed::variable(self, o) {
            Some(Variable { align, stride: None }) => align.saturating_sub(o.align),
            _ => 0,
        }
    }
}

impl Layout for Changed<'_> {
    fn translate(&self, _ty: TypeId, offset: u64) -> Result<u64, RelayoutError> {
        Ok(offset)
    }

    fn size(&self, ty: TypeId) -> Result<Option<u64>, RelayoutError> {
        Ok(self.evidence.types.size(ty))
    }

    fn align(&self, _ty: TypeId) -> Result<u64, RelayoutError> {
        Ok(1)
    }

    fn variable(&self, object: &Object) -> Option<Variable> {
        Changed::variable(self, object)
    }
}
