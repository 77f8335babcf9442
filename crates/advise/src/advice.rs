//! Ranks edits of a struct by what they gain and what they cost.
//!
//! The answer is a Pareto list, not one optimum: an edit is on it when no other gains as much for fewer bytes, less
//! new sharing, fewer moved fields and fewer edits. Expected invalidations decide the sign; they do not change when
//! bytes that everybody writes move elsewhere, so true sharing is never "fixed".

use std::collections::{BTreeSet, HashMap};

use tussle_evidence::{Evidence, Object, ObjectKind, Unit};
use tussle_model::leaf::{Arrays, leaves};
use tussle_model::near::also_fields;
use tussle_model::{Language, LineSize, SourceLoc, TypeId};

use crate::abi::Shapes;
use crate::builds::{Build, Mapped};
use crate::class::{self, Class, Fights, Verdicts};
use crate::cost::{Cost, Sharing, from_c_heap, honours_alignment, language};
use crate::edit::Edit;
pub use crate::error::AdviseError;
use crate::moves::{candidates, gaps, hot_members, leave_impossible_out};
use crate::named::{close_to, contended_types, name_of, type_named};
pub use crate::named::{is_own_source, source_name};
use crate::owners::Owners;
use crate::patch::alloc::Site;
use crate::rank::{pareto, sort_best};
use crate::relayout::{Relayout, RelayoutError};
use crate::room;
use crate::scene::Scene;
use crate::stays::Stays;
use crate::turns::{self, Envelope};
use crate::variables;

/// Least gain in expected invalidations, the same bound as for a finding of `report`.
pub const GAIN_MIN: f64 = 1000.0;

/// Least gain as a share of what the struct costs today.
pub const GAIN_SHARE_MIN: f64 = 0.05;

/// Pieces of accesses that one search may evaluate: a few seconds.
const WORK_MAX: u64 = 30_000_000;

/// Notes of one kind of edit: one per allocation site at most.
const NOTES_MAX: usize = 4;

/// Leaves that tell two layouts of one struct apart.
const LEAVES_COMPARED_MAX: usize = 2000;

/// Sizes of lines that are laid out, bytes.
const LINES_BYTES: std::ops::RangeInclusive<u64> = 16..=4096;

/// What the sources say against edits of the struct; `None`: nothing.
pub type Refuses<'a> = &'a dyn Fn(&[Edit]) -> Option<String>;

/// Whether a Rust struct of this name and place is `repr(C)`.
pub type Ordered<'a> = &'a dyn Fn(&str, Option<&SourceLoc>) -> bool;

/// What to look for.
#[derive(Clone)]
pub struct Options<'a> {
    /// Line in bytes; `None` takes the recorded machine's.
    pub line: Option<u64>,
    /// Edits per advice at most; above 1 they are found greedily.
    pub moves: usize,
    /// Members whose offset must not change.
    pub frozen: Vec<String>,
    /// Builds in which the advice must hold, too.
    pub builds: Vec<Build<'a>>,
    /// Edits that no source would allow are left out.
    pub refuses: Option<Refuses<'a>>,
    /// Whether the source of a Rust struct fixes the order of its fields; without it none does.
    pub ordered: Option<Ordered<'a>>,
    /// Edits of structs that a compiler has refused: these, and all that hold them, are left out.
    pub failed: Vec<(String, Vec<Edit>)>,
    /// Structs whose members stay in their order, as something counts on it.
    pub fixed_order: Vec<String>,
    /// Structs whose memory nobody aligns, as the sources tell: for them gaps and padding stand in for alignments.
    pub unaligned: Vec<String>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            line: None,
            moves: 1,
            frozen: Vec::new(),
            builds: Vec::new(),
            refuses: None,
            ordered: None,
            failed: Vec::new(),
            fixed_order: Vec::new(),
            unaligned: Vec::new(),
        }
    }
}

/// One proposal with its bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// The struct to edit, as source and debug information name it.
    pub type_name: String,
    /// Its definition.
    pub decl: Option<SourceLoc>,
    /// What to do, in this order.
    pub edits: Vec<Edit>,
    /// Expected invalidations today.
    pub before: Cost,
    /// Expected invalidations after the edits.
    pub after: Cost,
    /// Bytes of one object today.
    pub size_before: u64,
    /// Bytes of one object after the edits.
    pub size_after: u64,
    /// Bytes more over all objects that were alive at once; negative when it shrinks.
    pub live_bytes: i64,
    /// Pairs of fields of different actors, one written, that share a line only after the edits.
    pub new_sharing: Vec<(String, String)>,
    /// Members whose cache line changes.
    pub moved: Vec<String>,
    /// What it does to whom.
    pub why: String,
    /// Conditions that the edit alone does not meet.
    pub notes: Vec<String>,
    /// Of them: an object would become larger than memory that does not grow with it.
    pub too_large: Option<String>,
    /// Allocations of C's heap that must give more alignment than today.
    pub sites: Vec<Site>,
    /// The recorded accesses replayed in their order, at every length of a turn; `None` where there is no order, and
    /// beyond the first few of a list.
    pub replayed: Option<Envelope>,
    /// Variables that change by themselves; empty where a struct changes.
    pub variables: Vec<String>,
}

impl Advice {
    /// Expected invalidations saved, mean over phases.
    pub fn gain(&self) -> f64 {
        self.before.mean - self.after.mean
    }

    /// Expected invalidations saved at the recorded addresses.
    pub fn gain_observed(&self) -> f64 {
        self.before.observed - self.after.observed
    }

    /// It parts objects that the heap puts side by side: their memory gets whole lines, by other allocations or by the
    /// type itself, which `new` heeds.
    pub fn parts_neighbours(&self) -> bool {
        !self.sites.is_empty() || self.edits.iter().any(|e| matches!(e, Edit::Element { .. }))
    }

    /// Of what does as much, a reviewer knows an alignment; a gap is for memory that nobody aligns.
    pub(crate) fn has_gaps(&self) -> bool {
        self.edits.iter().any(|e| matches!(e, Edit::Gap { .. }))
    }

    /// What has to change beside the struct: conditions for the reader, allocations for the patch.
    pub(crate) fn conditions(&self) -> usize {
        self.notes.len() + usize::from(!self.sites.is_empty())
    }

    /// Where the patch changes allocations, as `main.c:61`.
    pub fn allocations(&self) -> Vec<String> {
        let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_string();
        self.sites.iter().map(|s| format!("{}:{}", name(&s.file), s.line)).collect()
    }

    /// Bytes added to one object.
    pub fn bytes_added(&self) -> i64 {
        self.size_after as i64 - self.size_before as i64
    }

    /// What it changes by name: a type, or variables.
    pub fn changed(&self) -> &[String] {
        if self.variables.is_empty() { std::slice::from_ref(&self.type_name) } else { &self.variables }
    }

    /// The costly part is hidden at the recorded addresses.
    pub fn is_latent(&self) -> bool {
        self.gain() >= 1.0 && self.gain_observed() < GAIN_MIN.min(0.05 * self.gain())
    }
}

/// Advice about one struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its name.
    pub type_name: String,
    /// Its definition.
    pub decl: Option<SourceLoc>,
    /// Unit of the counts behind expected invalidations.
    pub unit: String,
    /// What the fights over its lines are at the recorded addresses: the class of the costliest.
    pub class: Class,
    /// A layout helps at other addresses only.
    pub latent: bool,
    /// Why no move of members parts what fights, if it is known.
    pub stays: Option<Stays>,
    /// Transfers today.
    pub cost: Cost,
    /// Who shares with whom today.
    pub sharing: Sharing,
    /// The list, largest gain first.
    pub advices: Vec<Advice>,
    /// The best of the proposals that would gain enough and that no patch would do, with the reason.
    pub refused: Option<String>,
    /// Layouts evaluated.
    pub evaluated: usize,
    /// Remarks on what was left out.
    pub notes: Vec<String>,
}

fn no_such_type(evidence: &Evidence, name: &str) -> AdviseError {
    let named = |o: &Object| o.ty.is_some_and(|t| evidence.types.name(t) == name);
    if evidence.objects.iter().any(named) {
        return AdviseError::NoMembers(name.into());
    }
    AdviseError::NoSuchType(name.into(), close_to(evidence, name))
}

/// Advice for the struct `name`.
pub fn advise(evidence: &Evidence, name: &str, options: &Options<'_>) -> Result<Report, AdviseError> {
    if let Some(bytes) = options.line.filter(|n| !(n.is_power_of_two() && LINES_BYTES.contains(n))) {
        return Err(AdviseError::Line(bytes));
    }
    let Some(target) = type_named(evidence, name) else {
        let report = variables::report(evidence, name, line_bytes(evidence, options));
        return report.ok_or_else(|| no_such_type(evidence, name));
    };
    let verdicts = Verdicts::new(evidence, line_size(evidence, options));
    let mut report = advise_type(evidence, target, options, &verdicts)?;
    let worse = turns::rank(evidence, line_bytes(evidence, options), &mut report.advices);
    report.notes.extend(turns::left_out(worse));
    Ok(report)
}

fn advise_type(
    evidence: &Evidence,
    target: TypeId,
    options: &Options<'_>,
    verdicts: &Verdicts,
) -> Result<Report, AdviseError> {
    let shapes = Shapes::new(&evidence.types);
    let scene = Scene::new(evidence, target, line_bytes(evidence, options));
    let holds = |o| scene.holds(o);
    let (class, hidden) = (verdicts.of_objects(holds), verdicts.hides(holds));
    let mut search = Search::new(&scene, &shapes, options, class)?;
    search.latent = hidden && class != Class::LayoutHelps;
    search.report()
}

/// The best advice over all structs with a known definition outside the system's headers, in the order of
/// [`sort_best`].
pub fn best(evidence: &Evidence, options: &Options<'_>) -> Vec<Advice> {
    let mut out: Vec<Advice> = Vec::new();
    let (size, bytes) = (line_size(evidence, options), line_bytes(evidence, options));
    let variables = |fights: &Fights| variables::all(evidence, fights, bytes);
    let (verdicts, of_variables) = class::fights(evidence, size, |fights| {
        (Verdicts::of(fights), (size == variables::FIGHTS_ON).then(|| variables(fights)))
    });
    for target in contended_types(evidence, &verdicts) {
        if let Ok(report) = advise_type(evidence, target, options, &verdicts) {
            out.extend(report.advices);
        }
    }
    out.extend(of_variables.unwrap_or_else(|| class::fights(evidence, variables::FIGHTS_ON, variables)));
    sort_best(&mut out);
    turns::rank(evidence, line_bytes(evidence, options), &mut out);
    out
}

/// The bill of given edits, whether they gain or not.
pub fn evaluate(
    evidence: &Evidence,
    name: &str,
    edits: &[Edit],
    options: &Options<'_>,
) -> Result<Advice, AdviseError> {
    let target = type_named(evidence, name).ok_or_else(|| no_such_type(evidence, name))?;
    let shapes = Shapes::new(&evidence.types);
    let scene = Scene::new(evidence, target, line_bytes(evidence, options));
    // A move of the caller's own is billed whatever the class.
    let search = Search::new(&scene, &shapes, options, Class::Undecided)?;
    let layout = Relayout::new(&shapes, target, edits)?;
    let size = layout.size(target)?.unwrap_or(0);
    Ok(search.bill(Tried { edits: edits.to_vec(), after: scene.cost(&layout)?, size })?)
}

/// The line size by which fights are classed: 64 bytes, or 128 where that is the line.
fn line_size(evidence: &Evidence, options: &Options<'_>) -> LineSize {
    LineSize::new(line_bytes(evidence, options) as u32).unwrap_or(LineSize::L64)
}

fn line_bytes(evidence: &Evidence, options: &Options<'_>) -> u64 {
    let asked = options.line.unwrap_or(u64::from(evidence.run.line_bytes));
    asked.clamp(*LINES_BYTES.start(), *LINES_BYTES.end()).next_power_of_two()
}

struct Search<'a> {
    scene: &'a Scene<'a>,
    shapes: &'a Shapes<'a>,
    options: &'a Options<'a>,
    name: String,
    decl: Option<SourceLoc>,
    class: Class,
    latent: bool,
    before: Cost,
    sharing: Sharing,
    frozen: Vec<(String, u64)>,
    leaves: Vec<tussle_model::Leaf>,
}

/// A candidate that was evaluated.
#[derive(Clone)]
struct Tried {
    edits: Vec<Edit>,
    after: Cost,
    size: u64,
}

impl<'a> Search<'a> {
    fn new(
        scene: &'a Scene<'a>,
        shapes: &'a Shapes<'a>,
        options: &'a Options<'a>,
        class: Class,
    ) -> Result<Self, AdviseError> {
        let table = &scene.evidence.types;
        let name = name_of(scene.evidence, scene.target).unwrap_or_else(|| table.name(scene.target));
        let as_is = Relayout::new(shapes, scene.target, &[])?;
        let mut leaves = leaves(table, scene.target, Arrays::Whole);
        leaves.truncate(LEAVES_COMPARED_MAX);
        let mut frozen = Vec::new();
        for field in &options.frozen {
            let prefix = |p: &str| {
                p == field || p.starts_with(&format!("{field}.")) || p.starts_with(&format!("{field}["))
            };
            match leaves.iter().find(|l| prefix(&l.path)) {
                Some(l) => frozen.push((field.clone(), l.offset)),
                None => {
                    let close = also_fields(table, scene.target, field);
                    return Err(AdviseError::NoSuchField { ty: name, field: field.clone(), close });
                }
            }
        }
        let decl = table.aggregate(scene.target).and_then(|a| a.decl.clone());
        let (before, sharing) = (scene.cost(&as_is)?, scene.sharing(&as_is)?);
        Ok(Search {
            scene,
            shapes,
            options,
            name,
            decl,
            class,
            latent: false,
            before,
            sharing,
            frozen,
            leaves,
        })
    }

    fn report(&self) -> Result<Report, AdviseError> {
        let table = &self.scene.evidence.types;
        let hot: Vec<String> = hot_members(self.scene).into_iter().map(|h| h.0).collect();
        let mut notes = Vec::new();
        let mut tried = Vec::new();
        if self.before.worst >= self.gain_min() && (self.class.may_gain() || self.latent) {
            let owners = Owners::of(self.scene);
            let mut list = candidates(table, self.scene.target, (&hot, &owners), self.scene.line);
            let unaligned = self.options.unaligned.contains(&self.name);
            if unaligned {
                list.retain(|edits| !edits.iter().any(Edit::aligns));
            } else if self.on_c_heap() {
                list.insert(0, vec![Edit::Alloc { bytes: self.scene.line }]);
            }
            if self.on_c_heap() || unaligned {
                let orders =
                    list.iter().position(|edits| edits.iter().any(Edit::reorders)).unwrap_or(list.len());
                list.splice(orders..orders, gaps(table, self.scene.target, (&hot, &owners), self.scene.line));
            }
            if self.language() == Language::Rust {
                let ordered = self.options.ordered.is_some_and(|f| f(&self.name, self.decl.as_ref()));
                notes.extend(leave_impossible_out(&mut list, ordered));
            }
            let budget = self.budget();
            if list.len() > budget {
                notes.push(format!(
                    "{} of {} layouts evaluated, the promising ones first",
                    budget,
                    list.len()
                ));
            }
            tried = self.try_all(&[], list.iter().take(budget).cloned());
            self.deepen(&mut tried, &list, budget / 2);
        }
        if self.scene.scale > 1.0 {
            notes.push(format!(
                "{:.0}% of what threads can do to each other was laid out again, by lines, those where they meet most \
                 first; figures are for all of it, as if the rest were alike",
                100.0 / self.scene.scale
            ));
        }
        let evaluated = tried.len();
        let mut advices: Vec<Advice> =
            self.promising(tried).into_iter().filter_map(|t| self.bill(t).ok()).collect();
        advices.retain(|a| self.holds_in_builds(a, &mut notes));
        let refused = self.leave_refused_out(&mut advices, &mut notes);
        pareto(&mut advices);
        Ok(Report {
            type_name: self.name.clone(),
            decl: self.decl.clone(),
            unit: self.scene.evidence.run.unit.to_string(),
            class: self.class,
            latent: self.latent,
            stays: Stays::of(self.scene),
            cost: self.before,
            sharing: self.sharing.clone(),
            advices,
            refused,
            evaluated,
            notes,
        })
    }

    /// Drops what the sources do not allow; the best of it with the reason.
    fn leave_refused_out(&self, advices: &mut Vec<Advice>, notes: &mut Vec<String>) -> Option<String> {
        let mut refused: Vec<(f64, String)> = Vec::new();
        advices.retain(|a| {
            let refuses = || self.options.refuses?(&a.edits);
            let Some(why) = a.too_large.clone().or_else(refuses) else { return true };
            let edits: Vec<String> = a.edits.iter().map(Edit::to_string).collect();
            refused.push((a.gain(), format!("{}: {why}", edits.join(" "))));
            false
        });
        let count = refused.len();
        let (_, best) = refused.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        notes.push(format!("left out, as no patch would do: {count}, the best {best}"));
        Some(best)
    }

    fn language(&self) -> Language {
        self.scene.evidence.types.aggregate(self.scene.target).map_or(Language::C, |a| a.language)
    }

    /// Objects of the struct itself come from functions of C's heap that align less than to a line.
    fn on_c_heap(&self) -> bool {
        let types = &self.scene.evidence.types;
        let own = |o: &&Object| o.ty.is_some_and(|t| types.strip(t) == self.scene.target);
        self.language() != Language::Rust
            && self.scene.objects().filter(own).any(|o| from_c_heap(o) && o.align < self.scene.line)
    }

    fn gain_min(&self) -> f64 {
        let counted = self.scene.evidence.run.unit == Unit::Accesses;
        if counted { GAIN_MIN } else { 1.0 }
    }

    fn budget(&self) -> usize {
        let hits: usize = self.scene.clusters.iter().map(|c| c.hits.len()).sum();
        let each = (hits as u64).max(1) * u64::from(self.before.phases.max(1));
        (WORK_MAX / each).clamp(30, 4000) as usize
    }

    /// Evaluates `base` followed by each candidate; layouts that come out the same are evaluated once, and are those of
    /// the fewest edits.
    fn try_all(&self, base: &[Edit], list: impl Iterator<Item = Vec<Edit>>) -> Vec<Tried> {
        let mut seen: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut out: Vec<Tried> = Vec::new();
        for candidate in list {
            let edits = [base, &candidate].concat();
            if self.has_failed(&edits) {
                continue;
            }
            let Ok(layout) = Relayout::new(self.shapes, self.scene.target, &edits) else { continue };
            let Ok(key) = self.key(&layout) else { continue };
            if !self.keeps_frozen(&layout) {
                continue;
            }
            if let Some(same) = seen.get(&key).and_then(|i| out.get_mut(*i)) {
                if edits.len() < same.edits.len() {
                    same.edits = edits;
                }
                continue;
            }
            let Ok(after) = self.scene.cost(&layout) else { continue };
            let Ok(Some(size)) = layout.size(self.scene.target) else { continue };
            seen.insert(key, out.len());
            out.push(Tried { edits, after, size });
        }
        out
    }

    /// What a compiler has refused is among the edits, or another order where the present one is counted on.
    fn has_failed(&self, edits: &[Edit]) -> bool {
        let among = |failed: &[Edit]| failed.iter().all(|e| edits.contains(e));
        if self.options.fixed_order.contains(&self.name) && edits.iter().any(Edit::reorders) {
            return true;
        }
        self.options.failed.iter().any(|(name, failed)| *name == self.name && among(failed))
    }

    /// What tells layouts apart: offsets, size, alignment.
    fn key(&self, layout: &Relayout<'_>) -> Result<Vec<u64>, RelayoutError> {
        let mut key = vec![layout.size(self.scene.target)?.unwrap_or(0), layout.align(self.scene.target)?];
        key.push(layout.heap_block(self.scene.target).unwrap_or(0));
        for leaf in &self.leaves {
            key.push(layout.translate(self.scene.target, leaf.offset)?);
        }
        Ok(key)
    }

    fn keeps_frozen(&self, layout: &Relayout<'_>) -> bool {
        self.frozen.iter().all(|(_, at)| layout.translate(self.scene.target, *at) == Ok(*at))
    }

    /// Greedy further edits on top of the best so far.
    fn deepen(&self, tried: &mut Vec<Tried>, list: &[Vec<Edit>], budget: usize) {
        for _ in 1..self.options.moves.min(3) {
            let least = |a: &&Tried, b: &&Tried| a.after.mean.total_cmp(&b.after.mean);
            let best = tried.iter().filter(|t| self.is_gain(&t.after)).min_by(least).cloned();
            let Some(best) = best else { return };
            let deeper = self.try_all(&best.edits, list.iter().take(budget).cloned());
            let better = |t: &Tried| t.after.mean < best.after.mean - 0.01 * self.before.mean;
            tried.extend(deeper.into_iter().filter(better));
        }
    }

    fn is_gain(&self, after: &Cost) -> bool {
        let enough = |before: f64, after: f64| before - after >= self.gain_min().max(GAIN_SHARE_MIN * before);
        let worse = after.mean > self.before.mean * 1.02;
        !worse && (enough(self.before.mean, after.mean) || enough(self.before.observed, after.observed))
    }

    /// A first, cheap Pareto filter, before fields are named.
    fn promising(&self, mut tried: Vec<Tried>) -> Vec<Tried> {
        tried.retain(|t| self.is_gain(&t.after));
        let cost = |t: &Tried| t.after.mean;
        tried.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.size.cmp(&b.size)));
        let mut per_class: HashMap<(u64, usize), usize> = HashMap::new();
        tried.retain(|t| {
            let n = per_class.entry((t.size, t.edits.len())).or_default();
            *n += 1;
            *n <= 12
        });
        tried.truncate(60);
        tried
    }

    fn bill(&self, tried: Tried) -> Result<Advice, RelayoutError> {
        let table = &self.scene.evidence.types;
        let layout = Relayout::new(self.shapes, self.scene.target, &tried.edits)?;
        let after = self.scene.sharing(&layout)?;
        let new_sharing = after.pairs.difference(&self.sharing.pairs).cloned().collect();
        let line = self.scene.line;
        let too_large = room::lacking(self.scene, &layout);
        let mut moved = BTreeSet::new();
        for leaf in &self.leaves {
            let to = layout.translate(self.scene.target, leaf.offset)?;
            if to / line != leaf.offset / line {
                moved.insert(leaf.path.split(['.', '[']).next().unwrap_or_default().to_string());
            }
        }
        Ok(Advice {
            type_name: self.name.clone(),
            decl: self.decl.clone(),
            why: self.why(&after, &tried),
            notes: self.notes(&tried, too_large.clone()),
            too_large,
            sites: self.sites(&layout),
            variables: Vec::new(),
            edits: tried.edits,
            before: self.before,
            after: tried.after,
            size_before: table.size(self.scene.target).unwrap_or(0),
            size_after: tried.size,
            live_bytes: self.live_bytes(&layout),
            new_sharing,
            moved: moved.into_iter().collect(),
            replayed: None,
        })
    }

    /// Whom it parts: of the pairs that are gone, the one of the hottest fields.
    fn why(&self, after: &Sharing, tried: &Tried) -> String {
        let element = matches!(tried.edits[..], [Edit::Element { .. } | Edit::Pad { .. }]);
        if element && tried.edits.len() == 1 {
            return format!("every {} gets cache lines of its own", self.name);
        }
        if matches!(tried.edits[..], [Edit::Alloc { .. }]) {
            return format!("no other object of the heap shares a line with {}", self.name);
        }
        if let [Edit::Spread { field, .. }] = &tried.edits[..] {
            return format!("every element of {field} gets cache lines of its own");
        }
        let heat = |f: &String| self.sharing.hottest.iter().find(|h| &h.0 == f).map_or(0.0, |h| h.1);
        let gone = self.sharing.pairs.difference(&after.pairs);
        match gone.max_by(|a, b| (heat(&a.0) + heat(&a.1)).total_cmp(&(heat(&b.0) + heat(&b.1)))) {
            Some((a, b)) => format!("{a} and {b} no longer share a line"),
            None => "hot fields share a line in fewer phases".into(),
        }
    }

    fn notes(&self, tried: &Tried, too_large: Option<String>) -> Vec<String> {
        let aligning = tried.edits.iter().find_map(|e| match e {
            Edit::Align { bytes, .. } | Edit::Element { bytes } | Edit::Spread { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let mut out = BTreeSet::new();
        for o in self.scene.objects().filter(|o| o.kind == ObjectKind::Heap) {
            let types = &self.scene.evidence.types;
            let language = o.ty.and_then(|t| language(types, t)).unwrap_or(Language::C);
            let allocator = o.allocator.as_deref().unwrap_or("its allocator");
            if let Some(bytes) = aligning.filter(|b| o.align < *b && !honours_alignment(o, language)) {
                out.insert(format!(
                    "{allocator} does not align to {bytes} bytes: allocate with aligned_alloc({bytes}, ..)"
                ));
            }
        }
        out.extend(too_large);
        out.into_iter().take(NOTES_MAX).collect()
    }

    /// Allocations that must give more alignment than they do.
    fn sites(&self, layout: &Relayout<'_>) -> Vec<Site> {
        let more = |o: &&Object| {
            let Some(ty) = o.ty else { return false };
            let asks = layout.align(ty).ok().filter(|a| self.shapes.align(ty).is_ok_and(|b| b < *a));
            let c = self.language() != Language::Rust && from_c_heap(o);
            c && asks.into_iter().chain(layout.heap_block(ty)).any(|n| n > o.align)
        };
        let site = |o: &Object| {
            let frame = self.scene.evidence.code.get(o.alloc_code? as usize)?.frames.first()?;
            Some(Site { file: frame.file.clone(), line: frame.line, function: o.allocator.clone()? })
        };
        let all: BTreeSet<Site> = self.scene.objects().filter(more).filter_map(site).collect();
        all.into_iter().collect()
    }

    /// Growth of all objects alive at once: per allocation site the largest growth times the most that lived.
    fn live_bytes(&self, layout: &Relayout<'_>) -> i64 {
        type Site<'n> = (u8, Option<u32>, Option<&'n str>);
        let mut sites: HashMap<Site<'_>, (i64, u64)> = HashMap::new();
        for (id, o) in self.scene.numbered() {
            let new = self.scene.object_size(id, layout).unwrap_or(o.size);
            let growth = new as i64 - o.size as i64;
            let key = (o.kind as u8, o.alloc_code, o.name.as_deref());
            let site = sites.entry(key).or_insert((growth, 0));
            if growth.abs() > site.0.abs() {
                site.0 = growth;
            }
            site.1 = site.1.max(o.live_max.max(1));
        }
        sites.values().fold(0i64, |n, (growth, live)| {
            n.saturating_add(growth.saturating_mul(i64::try_from(*live).unwrap_or(i64::MAX)))
        })
    }

    /// Whether the edits apply to every other build and cost nothing there.
    fn holds_in_builds(&self, advice: &Advice, notes: &mut Vec<String>) -> bool {
        let ours = &self.scene.evidence.types;
        for build in &self.options.builds {
            let shapes = Shapes::new(build.table);
            let costs = build.table.find(&self.name).and_then(|id| {
                let (old, new) =
                    (Relayout::new(&shapes, id, &[]).ok()?, Relayout::new(&shapes, id, &advice.edits).ok()?);
                let old = self.scene.cost(&Mapped::new(ours, &old)).ok()?;
                Some((old, self.scene.cost(&Mapped::new(ours, &new)).ok()?))
            });
            let edits: Vec<String> = advice.edits.iter().map(|e| e.to_string()).collect();
            match costs {
                None => notes.push(format!("{} does not apply to {}", edits.join(" "), build.name)),
                Some((old, new)) if new.mean > old.mean + 0.02 * self.before.mean => {
                    notes.push(format!("{} makes {} worse", edits.join(" "), build.name));
                }
                Some(_) => continue,
            }
            return false;
        }
        true
    }
}
