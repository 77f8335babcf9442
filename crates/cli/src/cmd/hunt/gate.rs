//! The gate: a patch counts only when the patched program was recorded again and is better, with nothing new.

use super::behaviour::{Compared, Unpatched};
use super::course::Phase;
use super::parted::{self, Parted};
use super::steps::{Built, Hunt, RecordedRun, contains, edits};
use super::{reason, siblings};
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::Path;
use tussle_advise::Edit;
use tussle_advise::advice::{Advice, Options, best, source_name};
use tussle_advise::class::{self, COST_MIN, Class};
use tussle_advise::lines::LINES_BYTES;
use tussle_contention::analysis::{HiddenBy, Question, contention};
use tussle_contention::fields::Namer;
use tussle_contention::group::{FieldPair, Group};
use tussle_evidence::{Evidence, ObjectKind};
use tussle_host::fix::Patched;
use tussle_host::project::Scratch;
use tussle_model::{LineSize, SourceLoc};
use tussle_render::Node;
use tussle_report::before_after;

/// Patches that are made and recorded again in one hunt, whether they survive or not.
const ATTEMPTS_MAX: usize = 10;

/// A patch survives when it saves at least this share of what was promised.
const SAVED_SHARE_MIN: f64 = 0.5;

/// Bytes that a patch may add for every transfer that it saves. A line of 64 bytes more is fetched by everybody who
/// uses it, in every run, and takes the place of another: it must save more than a handful of transfers.
const BYTES_PER_TRANSFER_MAX: f64 = 1.0;

/// A case that was there grew by so much: that is new, too.
const GROWN_MIN: f64 = 1.5;

/// Something that a layout helps.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The pair of fields.
    pub title: String,
    /// The object or type it is in.
    pub root: String,
    /// Stores elsewhere and copies lost; for a latent one, at the phase where it fights.
    pub cost: f64,
    /// Hidden in that run by where the allocator put the object.
    pub latent: bool,
    /// Two heap objects of different allocations that the allocator put side by side in that run: `alloc=N` parts
    /// them, no member of either struct does.
    pub neighbours: bool,
    /// The struct whose members would have to part, if it has a name.
    pub of: Option<String>,
    /// Its objects.
    objects: Vec<u32>,
}

/// All of them, the costliest first.
pub fn cases(e: &Evidence) -> Vec<Case> {
    let (namer, seen) = (Namer::new(e), contention(e, &Question::observed()));
    let judged = class::judge(e, &namer, &seen);
    let root = |object: Option<u32>| {
        object.and_then(|o| e.objects.get(o as usize)).map(|o| namer.root(o)).unwrap_or_default()
    };
    let mut out = Vec::new();
    for j in judged.iter().filter(|j| j.class == Class::LayoutHelps) {
        let g = &j.group;
        // The object of the pair that the title names: a line may hold others, whose fate is their own.
        let first = g.worst_pair().map_or(0, |(a, _)| a);
        let root = root(g.fields.get(first).map(|f| f.object));
        let (title, cost, objects) = (g.title(), g.cost.total(), g.objects());
        let neighbours = are_neighbours(e, g);
        let of = j.to_change(e);
        out.push(Case { title, root, cost, latent: false, neighbours, of, objects });
    }
    for l in class::latent(e, &seen, &judged).iter().filter(|l| class::is_luck(e, &l.hidden_by)) {
        let objects = l.line.objects();
        let root = root(objects.first().copied());
        out.push(Case {
            title: root.clone(),
            root,
            cost: l.line.cost.total(),
            latent: true,
            neighbours: false,
            of: objects.first().and_then(|o| source_name(&e.types, e.objects.get(*o as usize)?.ty?)),
            objects,
        });
    }
    out
}

/// The two fields that fight lie in heap objects of different allocation sites.
fn are_neighbours(e: &Evidence, g: &Group<'_>) -> bool {
    let Some((a, b)) = g.worst_pair() else { return false };
    let object = |field: usize| e.objects.get(g.fields.get(field)?.object as usize);
    let (Some(a), Some(b)) = (object(a), object(b)) else { return false };
    a.kind == ObjectKind::Heap && b.kind == ObjectKind::Heap && a.alloc_code != b.alloc_code
}

/// Those that a patch can repair, and those that only lie side by side.
fn split(all: Vec<Case>) -> (Vec<Case>, Vec<Case>) {
    all.into_iter().partition(|c| !c.neighbours)
}

/// A patch that survived.
pub struct Repair {
    /// The proposal.
    pub advice: Advice,
    /// The patch, on top of those before it.
    pub patched: Patched,
    /// What it prints, against the program without any patch.
    pub output: Compared,
    /// What the struct's lines cost when recorded before and after it, and what was promised to be saved.
    pub before: f64,
    /// After.
    pub after: f64,
    /// `after` is `before` without what the fields that the patch parts cost each other ([`parted`]).
    pub by_pairs: bool,
    /// Promised.
    pub promised: f64,
    /// An object of the struct before and after it.
    pub drawn: Vec<Node>,
    /// For lines of so many bytes: what a layout would still remove at the struct, of the second recording.
    pub left_by_line: Vec<(u64, f64)>,
}

/// All that survived, one on top of the other.
pub struct Repairs {
    /// In the order in which they were applied.
    pub list: Vec<Repair>,
    /// What did not, with the reason.
    pub passed_over: Vec<(String, String)>,
    /// The folder with all of them.
    pub scratch: Option<Scratch>,
    /// Cases that are left, recorded with all patches.
    pub left: Vec<Case>,
    /// Why, for each of them of which no change was tried.
    pub because: Vec<Option<String>>,
    /// Of these, heap objects that only lie side by side.
    pub beside: Vec<Case>,
    /// Cases that no patch was for, and that are no more what a layout helps, recorded with all patches.
    pub vanished: Vec<Case>,
}

impl Repairs {
    /// One patch of all of them, against the folder as it was.
    pub fn diff(&self, dir: &Path) -> anyhow::Result<String> {
        let mut files: BTreeMap<&Path, &str> = BTreeMap::new();
        for f in self.list.iter().flat_map(|r| &r.patched.files) {
            files.insert(&f.path, &f.new);
        }
        let mut out = String::new();
        for (path, new) in files {
            let old = std::fs::read_to_string(dir.join(path))?;
            out += &tussle_advise::patch::unified_diff(&path.to_string_lossy(), &old, new);
        }
        Ok(out)
    }
}

impl Hunt<'_> {
    /// Repairs case after case until none is left, nothing more is proposed, or enough was tried.
    /// Every patch is built in the copy that was recorded first.
    pub fn repair(
        &self,
        built: &Built,
        argv: &[OsString],
        evidence: &Evidence,
        unpatched: &Unpatched,
    ) -> Repairs {
        let (left, beside) = split(cases(evidence));
        let found = [left.clone(), beside.clone()].concat();
        if let Err(e) = built.workshop.keep() {
            self.remark(format_args!("patches are verified by builds of their own: {e}"));
        }
        let (list, passed_over, vanished) = (Vec::new(), Vec::new(), Vec::new());
        let because = Vec::new();
        let mut out = Repairs { list, passed_over, scratch: None, left, because, beside, vanished };
        let (mut now, mut known) = (evidence.clone(), by_root(evidence));
        let (mut tried, mut brought) = (HashSet::new(), Brought::default());
        let ordered =
            |name: &str, decl: Option<&SourceLoc>| tussle_host::fix::is_ordered(&self.dir, name, decl);
        let mut options = Options { ordered: Some(&ordered), ..Options::default() };
        for _ in 0..ATTEMPTS_MAX {
            if out.left.is_empty() && out.beside.is_empty() {
                break;
            }
            let proposed = siblings::together(&now, &options, best(&now, &options));
            let Some(advice) = proposed.into_iter().find(|a| out.takes(self, &now, a, &mut tried)) else {
                break;
            };
            let dir = out.scratch.as_ref().map_or(self.dir.clone(), |s| s.path().to_path_buf());
            match self.attempt(&dir, (built, argv), (&now, &known), advice.clone(), unpatched) {
                Ok(done) => {
                    out.list.push(done.repair);
                    out.scratch = Some(done.scratch);
                    if let Ok(diff) = out.diff(&self.dir) {
                        self.course.keeps_patches(out.list.len(), diff);
                    }
                    (out.left, out.beside) = (done.left, done.beside);
                    now = done.evidence;
                    // What one recording does not show is not new in the next.
                    for (root, cost) in by_root(&now) {
                        let was = known.entry(root).or_default();
                        *was = was.max(cost);
                    }
                    tried.clear();
                    brought = Brought::default();
                }
                Err(e) => {
                    if let Some(new) = e.downcast_ref::<NewCase>()
                        && brought.by_another(new, &advice.type_name)
                    {
                        known.insert(new.root.clone(), new.cost);
                        tried.clear();
                        out.passed_over.clear();
                        continue;
                    }
                    options.failed.extend(reason::refused_by_compiler(&advice, &e));
                    options.fixed_order.extend(reason::keeps_order(&advice, &e));
                    options.unaligned.extend(reason::unaligned(&advice, &e));
                    let why = reason::of(&self.dir, [built.workshop.path(), &dir], &e);
                    out.pass_over(title(&advice), why);
                }
            }
        }
        out.vanished = out.not_seen_again(evidence, found);
        out.because =
            out.left.iter().map(|c| super::left::because(&now, c, &out.passed_over, &options)).collect();
        out
    }

    /// Patches, builds, records and judges one proposal.
    fn attempt(
        &self,
        dir: &Path,
        (built, argv): (&Built, &[OsString]),
        (before, known): (&Evidence, &Known),
        advice: Advice,
        unpatched: &Unpatched,
    ) -> anyhow::Result<Done> {
        self.begin(Phase::Patch, format_args!("patching a copy, {}", title(&advice)));
        let patched = self.patch(dir, &advice, built)?;
        self.build_patched(built, &patched)?;
        let aimed = |c: &&Case| c.objects.iter().any(|o| is_one_of(before, *o, advice.changed()));
        let beside = split(cases(before)).1;
        let parts = beside.iter().filter(aimed).any(|c| is_parted_from_neighbours(c, &advice));
        let latent = advice.is_latent() && !parts;
        let was = cost_of(before, advice.changed(), latent);
        // Where the object lies elsewhere in the next run nothing is promised but that it does not matter.
        let promised = if latent { was } else { advice.gain_observed().max(0.0) };
        let mut trials = Trials { before, known, advice: &advice, latent, was, promised, unlike: 0 };
        let (evidence, output, seen) = loop {
            let RecordedRun { evidence, said, status } = self.record(built, argv)?;
            ensure!(status == 0, "the patched program ended with status {status}, the unpatched one with 0");
            let output = unpatched.compare(self, argv, built, &said)?;
            if let Some(seen) = trials.survived(&evidence)? {
                break (evidence, output, seen);
            }
            self.remark("its threads met otherwise than before the patch: recording once more");
        };
        let line = LineSize::new(before.run.line_bytes).unwrap_or(LineSize::L64);
        let repair = Repair {
            drawn: before_after::drawings(before, &advice, line, "with the patch"),
            before: was,
            after: seen.cost,
            by_pairs: seen.by_pairs,
            left_by_line: left_by_line(&evidence, advice.changed()),
            promised,
            patched,
            advice,
            output,
        };
        built.workshop.keep().context("cannot keep what was built")?;
        let scratch = self.patched_copy(dir, &repair.patched)?;
        Ok(Done { repair, scratch, left: seen.left, beside: seen.beside, evidence })
    }
}

/// Recordings of one patched program at most.
const RECORDINGS_MAX: u32 = 3;

/// Of two runs that do the same work no more accesses to the same objects are seen in one than this times those in the
/// other, unless threads wait by polling in one of them and not in the other.
const ALIKE_MAX: f64 = 1.5;

/// Recordings of one patched program against what was promised.
struct Trials<'e> {
    before: &'e Evidence,
    known: &'e Known,
    advice: &'e Advice,
    /// What it saves is hidden at the recorded addresses.
    latent: bool,
    was: f64,
    promised: f64,
    /// Recordings so far in which threads met otherwise than before.
    unlike: u32,
}

/// What a recording shows that bears a patch out.
#[derive(Debug, PartialEq)]
struct Survived {
    /// Of the patched type.
    cost: f64,
    left: Vec<Case>,
    beside: Vec<Case>,
    /// `cost` is that before the patch without what the fields that it parts cost each other ([`parted`]).
    by_pairs: bool,
}

impl Trials<'_> {
    /// What a recording shows that bears the patch out. `None`: it does not, but is not to be compared with the one
    /// before; another may be.
    ///
    /// # Errors
    /// It does not survive, or nothing can be said.
    fn survived(&mut self, e: &Evidence) -> anyhow::Result<Option<Survived>> {
        let names = self.advice.changed();
        let cost = cost_of(e, names, self.latent);
        let (left, beside) = split(cases(e));
        // A patch that brings the type's fields beside another object is no better than one that keeps them together.
        let meets = beside.iter().filter(|c| c.objects.iter().any(|o| is_one_of(e, *o, names))).cloned();
        let after: Vec<Case> = left.iter().cloned().chain(meets).collect();
        let Err(why) = survives(self.advice, (self.was, cost, self.promised), &after, self.known, e) else {
            return Ok(Some(Survived { cost, left, beside, by_pairs: false }));
        };
        // What a case beside the patched type grew by is the patch's doing, or that of threads that poll there.
        let beside_it = left.iter().filter(|c| is_new(was_of(self.known, c), c.cost, self.was - cost));
        let all = names.iter().chain(beside_it.map(|c| &c.root));
        let mut accesses = all.map(|n| (accesses_to(self.before, n), accesses_to(e, n)));
        let Some((a, b)) = accesses.find(|(a, b)| a.max(*b) > ALIKE_MAX * a.min(*b)) else { return Err(why) };
        self.unlike += 1;
        if self.unlike < RECORDINGS_MAX {
            return Ok(None);
        }
        if let Some(cost) = self.by_what_it_parts(e, &left) {
            return Ok(Some(Survived { cost, left, beside, by_pairs: true }));
        }
        // The cause stays reachable: what this patch and another seem to bring is the doing of neither.
        Err(why.context(format!(
            "cannot say: its threads met otherwise in each of {RECORDINGS_MAX} recordings ({} accesses before, {} now)",
            whole(a),
            whole(b)
        )))
    }

    /// The fields that the patch parts cost each other enough before it, and nothing is new: what the type costs
    /// without that. What stays on one line is compared with nothing.
    fn by_what_it_parts(&self, e: &Evidence, left: &[Case]) -> Option<f64> {
        if self.latent {
            return None;
        }
        let Parted { saved, were } = parted::parted(self.before, e, self.advice.changed());
        let cost = (self.was - saved).max(0.0);
        let others: Vec<Case> = left.iter().filter(|c| !were.contains(&c.title)).cloned().collect();
        survives(self.advice, (self.was, cost, self.promised), &others, self.known, e).ok().map(|()| cost)
    }
}

/// Accesses to objects of a type.
fn accesses_to(e: &Evidence, name: &str) -> f64 {
    let of: HashSet<u32> = (0..e.objects.len() as u32).filter(|o| holds(e, *o, name)).collect();
    sum(e.accesses.iter().filter(|a| of.contains(&a.object)).map(|a| a.total() as f64))
}

impl Repairs {
    /// Notes why a change was not taken; what is said of one already says it.
    fn pass_over(&mut self, change: String, why: String) {
        let row = (change, why);
        if !self.passed_over.contains(&row) {
            self.passed_over.push(row);
        }
    }

    /// What was found before all patches, is not there with them, and none of them was for.
    fn not_seen_again(&self, before: &Evidence, found: Vec<Case>) -> Vec<Case> {
        let stays = |c: &Case| self.left.iter().chain(&self.beside).any(|l| l.root == c.root);
        let changed: BTreeSet<String> =
            self.list.iter().flat_map(|r| siblings::changed(before, &r.advice)).collect();
        let meant = |c: &Case| c.objects.iter().any(|o| changed.iter().any(|name| holds(before, *o, name)));
        found.into_iter().filter(|c| !stays(c) && !meant(c)).collect()
    }

    /// Whether a proposal is worth a try: it changes the type of an open case, removes enough of it, and is not dear.
    /// Why one is passed over is noted once per type.
    fn takes(&mut self, hunt: &Hunt<'_>, e: &Evidence, a: &Advice, tried: &mut HashSet<String>) -> bool {
        let only_allocations = a.edits.iter().all(|e| matches!(e, Edit::Alloc { .. }));
        let inside = self.left.iter().filter(|_| !only_allocations);
        let open = inside.chain(self.beside.iter().filter(|_| a.parts_neighbours()));
        let Some(cost) = aims_at(e, a, open) else { return false };
        if !tried.insert(title(a)) {
            return false;
        }
        let frozen = || format!("{} freezes it", crate::cmd::project_file::NAME);
        let frozen = (!hunt.file.allows(&a.type_name)).then(frozen);
        let Some(why) = frozen.or_else(|| too_dear(a, cost)) else { return true };
        let prefix = format!("{}: ", a.type_name);
        if !self.passed_over.iter().any(|(t, _)| t.starts_with(&prefix)) {
            self.passed_over.push((title(a), why));
        }
        false
    }
}

/// Why a proposal for a case of this cost is not worth its bill.
fn too_dear(a: &Advice, cost: f64) -> Option<String> {
    let gain = if a.is_latent() { a.gain() } else { a.gain_observed() };
    if !a.is_latent() && gain < class::HELPS_SHARE_MIN * cost {
        return Some(format!("it promises {} of {}", whole(gain), whole(cost)));
    }
    let dear = a.live_bytes as f64 > BYTES_PER_TRANSFER_MAX * gain;
    dear.then(|| format!("it adds {} bytes for {} transfers saved", whole(a.live_bytes as f64), whole(gain)))
}

fn whole(x: f64) -> String {
    tussle_render::thousands(x.max(0.0).round() as u64)
}

struct Done {
    repair: Repair,
    scratch: Scratch,
    left: Vec<Case>,
    beside: Vec<Case>,
    evidence: Evidence,
}

/// Type and change of a proposal.
fn title(a: &Advice) -> String {
    format!("{}: {}", a.type_name, edits(a))
}

/// The cost of the costliest open case whose type a proposal changes: a latent one where it is hidden.
fn aims_at<'c>(e: &Evidence, advice: &Advice, open: impl Iterator<Item = &'c Case>) -> Option<f64> {
    let of = |c: &&Case| c.objects.iter().any(|o| is_one_of(e, *o, advice.changed()));
    // Memory that gets whole lines parts neighbours, whatever it does to the members.
    let hidden = |c: &&Case| c.latent == advice.is_latent() || is_parted_from_neighbours(c, advice);
    open.filter(hidden).filter(of).map(|c| c.cost).max_by(f64::total_cmp)
}

fn is_parted_from_neighbours(case: &Case, advice: &Advice) -> bool {
    case.neighbours && !case.latent && advice.parts_neighbours()
}

/// Whether a second recording bears a patch out: what the patched type cost before and after it, and what was
/// promised to be saved.
fn survives(
    advice: &Advice,
    (was, now, promised): (f64, f64, f64),
    after: &[Case],
    known: &Known,
    e: &Evidence,
) -> anyhow::Result<()> {
    let saved = was - now;
    let of = |c: &&Case| c.objects.iter().any(|o| is_one_of(e, *o, advice.changed()));
    if advice.is_latent() && after.iter().filter(of).any(|c| c.latent) {
        anyhow::bail!("recorded again, it still depends on where the allocator puts the object");
    }
    if saved < SAVED_SHARE_MIN * promised {
        anyhow::bail!("recorded again, it saves {} of the promised {}", whole(saved), whole(promised));
    }
    if saved < COST_MIN {
        anyhow::bail!("recorded again, it saves {}: too little to act on", whole(saved));
    }
    for c in after {
        if is_new(was_of(known, c), c.cost, saved) {
            return Err(NewCase { root: c.root.clone(), title: c.title.clone(), cost: c.cost }.into());
        }
    }
    Ok(())
}

/// A case that no recording without the patch has shown.
#[derive(Debug)]
struct NewCase {
    root: String,
    title: String,
    cost: f64,
}

impl std::fmt::Display for NewCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "recorded again, it brings a new case: {} with {}", self.title, whole(self.cost))
    }
}

impl std::error::Error for NewCase {}

/// By root the type whose patch brought a new case first.
#[derive(Default)]
struct Brought(BTreeMap<String, String>);

impl Brought {
    /// Another type's patch brought it, too: it is the doing of neither. Threads took turns there in the recordings
    /// before, as they may on a busy machine.
    fn by_another(&mut self, new: &NewCase, type_name: &str) -> bool {
        self.0.entry(new.root.clone()).or_insert_with(|| type_name.into()) != type_name
    }
}

/// Whether a case that cost `was` before a patch and `now` after it speaks against the patch, which saves `saved`.
/// A case that was known, if only where the allocator hid it, is not the patch's doing: who waits less fights more
/// elsewhere, and heap objects move when their neighbours grow. It stays open, and is the next to be repaired; but
/// what it grew by must not eat up what the patch saves.
fn is_new(was: f64, now: f64, saved: f64) -> bool {
    let grown = now - was >= COST_MIN && now > GROWN_MIN * was;
    grown && (was < COST_MIN || now - was > SAVED_SHARE_MIN * saved)
}

/// What was there already in any recording, whatever its class: cost by object or type.
type Known = BTreeMap<String, f64>;

fn was_of(known: &Known, case: &Case) -> f64 {
    known.get(&case.root).copied().unwrap_or(0.0)
}

fn by_root(e: &Evidence) -> Known {
    let (namer, seen) = (Namer::new(e), contention(e, &Question::observed()));
    let judged = class::judge(e, &namer, &seen);
    let add = |out: &mut BTreeMap<String, f64>, objects: Vec<u32>, cost: f64| {
        let roots: BTreeSet<String> =
            objects.iter().filter_map(|o| e.objects.get(*o as usize)).map(|o| namer.root(o)).collect();
        roots.into_iter().for_each(|r| *out.entry(r).or_default() += cost);
    };
    let mut out = BTreeMap::new();
    judged.iter().for_each(|j| add(&mut out, j.group.objects(), j.group.cost.total()));
    // No run has the other phase and the wider lines at once.
    let (mut phases, mut wide) = (BTreeMap::new(), BTreeMap::new());
    for l in class::latent(e, &seen, &judged) {
        let to = if l.hidden_by == HiddenBy::LineSize { &mut wide } else { &mut phases };
        add(to, l.line.objects(), l.line.cost.total());
    }
    for (root, cost) in wide {
        let known = phases.entry(root).or_insert(0.0);
        *known = known.max(cost);
    }
    phases.into_iter().for_each(|(root, cost)| *out.entry(root).or_default() += cost);
    out
}

/// What objects of a type have part in; where they are hidden, what a layout helps at another phase.
fn cost_of(e: &Evidence, names: &[String], latent: bool) -> f64 {
    if latent {
        let of = |c: &&Case| c.latent && c.objects.iter().any(|o| is_one_of(e, *o, names));
        return sum(cases(e).iter().filter(of).map(|c| c.cost));
    }
    let (namer, seen) = (Namer::new(e), contention(e, &Question::observed()));
    let judged = class::judge(e, &namer, &seen);
    sum(judged.iter().map(|j| part_of(e, &j.group, names)))
}

/// The part of a group's cost in which fields of a type's objects store or lose. What two others on the same line do to
/// each other is theirs: no patch of the type ends it.
fn part_of(e: &Evidence, group: &Group<'_>, names: &[String]) -> f64 {
    let own: Vec<bool> = group.fields.iter().map(|f| is_one_of(e, f.object, names)).collect();
    let takes_part = |p: &&FieldPair| own[p.stored] || own[p.lost];
    let all = sum(group.pairs.iter().map(|p| p.e));
    let part = sum(group.pairs.iter().filter(takes_part).map(|p| p.e));
    match all > 0.0 {
        true => group.cost.total() * part / all,
        false if own.contains(&true) => group.cost.total(),
        false => 0.0,
    }
}

/// Of nothing 0: an empty sum of floating point numbers is -0.
pub fn sum(costs: impl Iterator<Item = f64>) -> f64 {
    costs.fold(0.0, |a, b| a + b)
}

/// The cost of what a layout helps at objects of a type, for each size of a line, at the recorded addresses.
fn left_by_line(e: &Evidence, names: &[String]) -> Vec<(u64, f64)> {
    let namer = Namer::new(e);
    let left = |line: LineSize| {
        let seen = contention(e, &Question { line, ..Question::observed() });
        let judged = class::judge(e, &namer, &seen);
        let helped = judged.iter().filter(|j| j.class == Class::LayoutHelps);
        (line.bytes(), sum(helped.map(|j| part_of(e, &j.group, names))))
    };
    LINES_BYTES.into_iter().filter_map(LineSize::new).map(left).collect()
}

/// An object is one of these, see [`holds`].
pub fn is_one_of(e: &Evidence, object: u32, names: &[String]) -> bool {
    names.iter().any(|name| holds(e, object, name))
}

/// An object is the variable of this name, or is or embeds a struct of it.
pub fn holds(e: &Evidence, object: u32, name: &str) -> bool {
    let variable =
        |o: &tussle_evidence::Object| o.kind == ObjectKind::Global && o.name.as_deref() == Some(name);
    if e.objects.get(object as usize).is_some_and(variable) {
        return true;
    }
    let bare = name.trim_start_matches("struct ").trim_start_matches("class ").trim_start_matches("union ");
    let Some(target) = e.types.find(name).or_else(|| e.types.find(bare)) else { return false };
    let ty = e.objects.get(object as usize).and_then(|o| o.ty);
    ty.is_some_and(|t| contains(e, t, target, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether threads polled or not, not the patch, decides what one recording saves against another.
    #[test]
    fn recordings_of_other_meetings_are_no_proof_against_a_patch() {
        let before = tussle_evidence::sample::Sample::two_counters().evidence();
        let advice = best(&before, &Options::default()).swap_remove(0);
        let was = cost_of(&before, advice.changed(), false);
        let promised = advice.gain_observed();
        let known = by_root(&before);
        let mut trials = Trials {
            before: &before,
            known: &known,
            advice: &advice,
            latent: false,
            was,
            promised,
            unlike: 0,
        };
        let why = |e: anyhow::Error| e.to_string();
        let same = trials.survived(&before).map_err(why);
        assert!(same.is_err_and(|w| w.contains("it saves 0")), "the same work, and nothing saved");
        let mut polled = before.clone();
        polled.accesses.iter_mut().for_each(|a| a.reads += 10 * a.total());
        for _ in 1..RECORDINGS_MAX {
            assert_eq!(trials.survived(&polled).map_err(why), Ok(None));
        }
        assert!(trials.survived(&polled).map_err(why).is_err_and(|w| w.starts_with("cannot say")));
        let mut apart = before.clone();
        apart.accesses.truncate(1);
        assert!(trials.survived(&apart).map_err(why).is_ok_and(|seen| seen.is_some()));
    }

    /// Of two structs on one line each has its own case, whichever comes first.
    #[test]
    fn a_case_is_of_the_object_that_its_title_names() {
        let mut s = tussle_evidence::sample::Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let [one, two] = [(); 2].map(|()| s.worker(main, start));
        let long = s.long();
        let wire = s.structure("wire", 8, &[("seq", long, 0)]);
        let tally = s.structure("tally", 16, &[("in", long, 0), ("out", long, 8)]);
        let w = s.global("w", 0x1000, 8, Some(wire), 64);
        let t = s.global("t", 0x1008, 16, Some(tally), 8);
        s.access(w, 0, 8, one, (0, 100_000), [0, 2_000, 0]);
        s.access(t, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(t, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        let found = cases(&s.evidence());
        assert_eq!((found.len(), found[0].root.as_str()), (1, "t"), "{found:?}");
    }

    /// What two fields of another object do to each other is not what a patch of this one can end.
    #[test]
    fn a_type_has_its_part_of_what_a_line_costs() {
        let mut s = tussle_evidence::sample::Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let [one, two, three] = [(); 3].map(|()| s.worker(main, start));
        let long = s.long();
        let small = s.structure("small", 8, &[("a", long, 0)]);
        let large = s.structure("large", 16, &[("b", long, 0), ("c", long, 8)]);
        let x = s.global("x", 0x1000, 8, Some(small), 64);
        let y = s.global("y", 0x1008, 16, Some(large), 8);
        s.access(x, 0, 8, one, (0, 100_000), [0, 1_000, 0]);
        s.access(y, 0, 8, two, (0, 100_000), [0, 50_000, 0]);
        s.access(y, 8, 8, three, (0, 100_000), [0, 50_000, 0]);
        let e = s.evidence();
        let (of_small, of_large) =
            (cost_of(&e, &["small".into()], false), cost_of(&e, &["large".into()], false));
        assert!((1_000.0..5_000.0).contains(&of_small), "{of_small} of {of_large}");
        assert!(of_large > 50_000.0, "{of_large}");
    }

    /// Of what two patches of different types both "bring", neither is the cause.
    #[test]
    fn what_two_types_patches_bring_is_the_doing_of_neither() {
        let case = |root: &str| NewCase { root: root.into(), title: root.into(), cost: 62_000.0 };
        let mut brought = Brought::default();
        assert!(!brought.by_another(&case("queue"), "counter"));
        assert!(!brought.by_another(&case("queue"), "counter"), "another patch of the same type");
        assert!(!brought.by_another(&case("table"), "entries"), "another case");
        assert!(brought.by_another(&case("queue"), "entries"));
    }

    #[test]
    fn a_known_case_may_grow_by_less_than_a_patch_saves() {
        assert!(is_new(0.0, 5_000.0, 1e6), "what was not there is new, however little");
        assert!(!is_new(0.0, COST_MIN - 1.0, 1e6));
        assert!(!is_new(4_400_000.0, 16_500_000.0, 75_000_000.0));
        assert!(is_new(4_400_000.0, 16_500_000.0, 20_000_000.0), "it eats up what is saved");
        assert!(!is_new(10_000.0, 14_000.0, 0.0), "that is noise");
    }
}
