//! The one classifier: what each fight over cache lines is, and whether a layout helps. Every verb asks it.
//!
//! Judged are groups: lines on which the same fields of the same kind of object meet, by the sum of their cost, so that
//! it makes no difference whether a fight happens on one line or on two thousand.

use std::collections::{HashMap, HashSet};

use tussle_contention::analysis::{self, Contention, HiddenBy, Latent, LineContention, Question};
use tussle_contention::fields::Namer;
use tussle_contention::group::{Group, groups};
use tussle_contention::library::is_the_library_s;
use tussle_contention::objective::LineCost;
use tussle_evidence::{Access, ELSEWHERE, Evidence, OTHER_PROGRAMS, Object, ObjectKind, Source, UNREAD};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, LineSize, Member, MemberRole, Type, TypeId, TypeTable};

use crate::foreign::{is_a_library_s, is_own, own_in_library_s};
use crate::named::source_name;
use crate::relayout::member_at;
use crate::variables::is_storage;

/// A group is listed from this cost on, and a layout helps only if it removes as much: stores that find the line
/// elsewhere and read copies lost, in the evidence's own unit.
pub const COST_MIN: f64 = 1000.0;

/// Samples of a running program are judged by shares alone, from this many on a group's lines on.
pub const SAMPLES_MIN: f64 = 100.0;

/// A layout helps when the best one removes this share of the group's cost.
pub const HELPS_SHARE_MIN: f64 = 0.25;

/// From here up to [`HELPS_SHARE_MIN`] it is undecided: windows and merging make the cost uncertain by about as much.
pub const UNDECIDED_SHARE_MIN: f64 = 0.15;

/// Below this share of what is left, no byte range alone is what the threads fight for: memory moves as a whole.
const MAIN_SHARE_MIN: f64 = 0.5;

/// Lines grouped at most; those with the highest E first.
const LINES_MAX: usize = 50_000;

/// What a fight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The best layout removes enough of it.
    LayoutHelps,
    /// It would remove a part that is within the error of the numbers.
    Undecided,
    /// Threads fight for the same bytes, wherever these lie.
    SameBytes,
    /// Memory is handed from thread to thread with all that is in it.
    MovesWhole,
    /// A library's own data, which no layout of the program's moves.
    Library,
    /// Too little to be listed.
    Small,
}

impl Class {
    /// The class of so much cost.
    pub fn of(cost: &LineCost) -> Class {
        let enough = cost.removable() >= COST_MIN;
        match cost.removable_share() {
            _ if cost.total() < COST_MIN => Class::Small,
            share if enough && share >= HELPS_SHARE_MIN => Class::LayoutHelps,
            share if enough && share >= UNDECIDED_SHARE_MIN => Class::Undecided,
            _ if cost.main >= MAIN_SHARE_MIN * cost.apart => Class::SameBytes,
            _ => Class::MovesWhole,
        }
    }

    /// The class of so much cost in samples of a running program, whose number says nothing about the number of stores.
    pub fn of_samples(cost: &LineCost, samples: f64) -> Class {
        if samples < SAMPLES_MIN || cost.total() <= 0.0 {
            return Class::Small;
        }
        match cost.removable_share() {
            share if share >= HELPS_SHARE_MIN => Class::LayoutHelps,
            share if share >= UNDECIDED_SHARE_MIN => Class::Undecided,
            _ if cost.main >= MAIN_SHARE_MIN * cost.apart => Class::SameBytes,
            _ => Class::MovesWhole,
        }
    }

    /// The class of a fight in which threads mostly take turns, if they do ([`LineContention::by_turns`]).
    pub(crate) fn of_turns(self, by_turns: bool) -> Class {
        if by_turns && self == Class::LayoutHelps { Class::Undecided } else { self }
    }

    /// As reports print it.
    pub fn words(self) -> &'static str {
        match self {
            Class::LayoutHelps => "a layout helps",
            Class::Undecided => "undecided",
            Class::SameBytes => "no layout helps: the same bytes",
            Class::MovesWhole => "moves as a whole",
            Class::Library => "a library's own",
            Class::Small => "small",
        }
    }

    /// The same for a column.
    pub fn short(self) -> &'static str {
        match self {
            Class::LayoutHelps => "layout helps",
            Class::SameBytes => "same bytes",
            Class::MovesWhole => "moves whole",
            Class::Library => "library's",
            Class::Undecided | Class::Small => self.words(),
        }
    }

    /// What to do instead of, or besides, a layout.
    pub fn remedy(self) -> &'static str {
        match self {
            Class::LayoutHelps => "move the fields apart: `tussle advise` says how, or why not",
            Class::Undecided => {
                "a layout would remove a part that is within the error of these numbers: a small one, or what happens \
                 where threads take turns, mostly"
            }
            Class::SameBytes => {
                "fewer stores help, no move does: a copy per thread that is summed when read, shards, batches, a test \
                 before the store; for what is rarely written, a copy per reader"
            }
            Class::MovesWhole => "hand over less often or less: batches, work that stays with one thread",
            Class::Library => {
                "no layout of the program's moves it: use it less often (one per thread, batches, pools for what is \
                 allocated), or take another library; what you give to it may have a line of its own"
            }
            Class::Small => "too little to act on",
        }
    }

    /// Whether moves of fields are worth a search.
    pub fn may_gain(self) -> bool {
        matches!(self, Class::LayoutHelps | Class::Undecided)
    }
}

/// A group with its class.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Lines, fields, pairs.
    pub group: Group<'a>,
    /// What it is.
    pub class: Class,
}

impl Judged<'_> {
    /// The program's struct that the case is about, or whose elements, if it has a name.
    pub fn struct_name(&self, e: &Evidence) -> Option<String> {
        let id = e.types.element(self.first_object(e)?.ty?);
        e.types.aggregate(id).filter(|a| is_own(a)).and_then(|_| source_name(&e.types, id))
    }

    /// The struct to ask `advise` about.
    pub fn to_change(&self, e: &Evidence) -> Option<String> {
        self.inner_struct(e).or_else(|| self.struct_name(e))
    }

    /// What to do instead of, or besides, a layout; where nothing has a name to ask `advise` about, what to do by hand.
    pub fn remedy(&self, e: &Evidence) -> &'static str {
        match self.class {
            Class::LayoutHelps if !self.is_for_advise(e) => self.by_hand(e),
            class => class.remedy(),
        }
    }

    /// `advise` knows what it is about: a struct of the program's, or a variable.
    pub fn is_for_advise(&self, e: &Evidence) -> bool {
        self.to_change(e).is_some() || self.first_object(e).is_some_and(is_variable)
    }

    /// How a program parts what fights where tussle has no patch.
    pub fn by_hand(&self, e: &Evidence) -> &'static str {
        let number = |o: &Object| o.ty.is_some_and(|t| is_number(&e.types, t)) && !is_variable(o);
        match self.first_object(e) {
            Some(o) if o.kind == ObjectKind::Stack && o.name.is_some() => {
                "give each of these local variables a line of its own where it is declared (`alignas(64)`)"
            }
            Some(o) if is_storage(e, &self.group, o) => {
                "have the program hand out whole lines of this memory; `TUSSLE_PART` tells tussle what lies there"
            }
            Some(o) if is_variable(o) && (o.count > 1 || o.ty.is_some_and(|t| is_array(e, t))) => {
                "give each of its elements a line of its own: a struct around it that is aligned (`alignas(64)`)"
            }
            Some(o) if number(o) && self.is_inside_of_one(e) => {
                "what you put into a library's struct fights with what that keeps beside it: put in a struct of your \
                 own that is aligned to a line, if the memory is worth it"
            }
            Some(o) if number(o) && o.count > 1 => {
                "put each element into a struct of your own that is aligned to a line: it has no members to move"
            }
            Some(o) if number(o) => {
                "give each object a line of its own where it is allocated: it has no members to move"
            }
            _ => {
                "give what each thread uses a line of its own, by hand (`alignas(64)`, `#[repr(align(64))]`): tussle \
                 knows no struct of the program's there that it could change"
            }
        }
    }

    /// Two fields of one struct fight: a line for each object parts nothing.
    fn is_inside_of_one(&self, e: &Evidence) -> bool {
        let is_struct = |o: &Object| o.ty.is_some_and(|t| e.types.aggregate(e.types.element(t)).is_some());
        let of_one = |p: &(usize, usize)| {
            let [a, b] = [&self.group.fields[p.0], &self.group.fields[p.1]];
            a.object == b.object && a.offset != b.offset && !self.group.across(*p)
        };
        self.first_object(e).is_some_and(is_struct) && self.group.worst_pair().as_ref().is_some_and(of_one)
    }

    fn first_object<'e>(&self, e: &'e Evidence) -> Option<&'e Object> {
        self.group.fields.first().and_then(|f| e.objects.get(f.object as usize))
    }

    /// The innermost struct with a name that holds both fields that the case is called after: whose members can part.
    /// Where elements or neighbours fight that are a library's struct, the program's own one in them: aligned, it parts
    /// them.
    pub fn inner_struct(&self, e: &Evidence) -> Option<String> {
        let pair = self.group.worst_pair()?;
        let (a, b) = (&self.group.fields[pair.0], &self.group.fields[pair.1]);
        let ty = e.objects.get(a.object as usize)?.ty?;
        let of_one = a.object == b.object;
        if (self.group.across(pair) || !of_one)
            && let Some(own) = own_in_library_s(&e.types, ty)
        {
            return source_name(&e.types, own);
        }
        let own = || own_in_library_s(&e.types, ty).and_then(|own| source_name(&e.types, own));
        of_one.then(|| holder_of(&e.types, ty, a.offset, b.offset).or_else(own))?
    }
}

/// A number, or what a library makes of one (`std::atomic<long>`, `AtomicU64`).
fn is_number(types: &TypeTable, ty: TypeId) -> bool {
    match types.get(types.strip(ty)) {
        Type::Base(_) => true,
        Type::Aggregate(a) => {
            !is_own(a) && a.kind != AggregateKind::Union && own_in_library_s(types, ty).is_none()
        }
        _ => false,
    }
}

fn is_array(e: &Evidence, ty: TypeId) -> bool {
    matches!(e.types.get(e.types.strip(ty)), Type::Array { .. })
}

fn is_variable(o: &Object) -> bool {
    o.kind == ObjectKind::Global
}

fn holder_of(table: &TypeTable, ty: TypeId, mut a: u64, mut b: u64) -> Option<String> {
    let (mut id, mut found) = (table.strip(ty), None);
    for _ in 0..DEPTH_MAX {
        match table.get(id) {
            Type::Array { elem, .. } => {
                let size = table.size(*elem).filter(|s| *s > 0)?;
                (a, b) = (a % size, b % size);
                id = table.strip(*elem);
            }
            Type::Aggregate(body) => {
                found = source_name(table, id).filter(|_| is_own(body)).or(found);
                let (at, of_b) = (member_at(table, body, a), member_at(table, body, b));
                let one = at.filter(|_| at == of_b).map(|m| &body.members[m]);
                let Some(member) = variant_with(table, body, [a, b]).or(one) else { break };
                (a, b) = (a - member.offset().min(a), b - member.offset().min(b));
                id = table.strip(member.ty);
            }
            _ => break,
        }
    }
    found
}

/// The variant of an enum that has members at all of these bytes.
fn variant_with<'t>(table: &'t TypeTable, body: &'t Aggregate, bytes: [u64; 2]) -> Option<&'t Member> {
    let has = |m: &Member, at: u64| {
        let mut inside = table.aggregate(m.ty).into_iter().flat_map(|v| &v.members);
        inside.any(|f| {
            let from = m.offset().saturating_add(f.offset());
            (from..from.saturating_add(table.size(f.ty).unwrap_or(0))).contains(&at)
        })
    };
    let mut variants = body.members.iter().filter(|m| m.role == MemberRole::Variant);
    variants.find(|m| bytes.iter().all(|at| has(m, *at)))
}

/// All groups of an evidence, the costliest first; those of [`Class::Small`] are among them.
pub fn judge<'a>(e: &Evidence, namer: &Namer, seen: &'a Contention) -> Vec<Judged<'a>> {
    let sampled = e.run.unit.by_share();
    let judged = |group: Group<'a>| {
        let class = match sampled {
            true => Class::of_samples(&group.cost, group.accesses),
            false => Class::of(&group.cost),
        };
        let class = class.of_turns(group.by_turns());
        let class = match class {
            c if c.may_gain() && is_the_library_s(e, &group) => Class::Library,
            c if c.may_gain() && group.is_one_lock() => Class::SameBytes,
            c if c.may_gain() && is_a_library_s(e, &group) => Class::Library,
            c => c,
        };
        Judged { class, group }
    };
    let mut out: Vec<Judged<'a>> =
        groups(e, namer, seen.lines.iter().take(LINES_MAX)).into_iter().map(judged).collect();
    out.sort_by(|a, b| b.group.cost.total().total_cmp(&a.group.cost.total()));
    out
}

/// Whether a layout helps one line, taken by itself.
fn helps_line(line: &LineContention) -> bool {
    Class::of(&line.cost).of_turns(line.by_turns()) == Class::LayoutHelps
}

/// Cases that the addresses of this run or the lines of this machine hid. What objects like it showed at that very
/// phase was not hidden: it is judged by what they did; nor is what a layout would remove here as well.
pub fn latent(e: &Evidence, seen: &Contention, judged: &[Judged]) -> Vec<Latent> {
    if e.run.unit.by_share() {
        // What did not fight did not wait, and has hardly a sample.
        return Vec::new();
    }
    let told: HashSet<(u32, u64)> = judged
        .iter()
        .filter(|j| matches!(j.class, Class::LayoutHelps | Class::Library))
        .flat_map(|j| j.group.lines.iter().map(|l| (l.process, l.address)))
        .collect();
    let is_case = |l: &LineContention| told.contains(&(l.process, l.address)) || helps_line(l);
    let alike = Alike::new(e, seen.question.line);
    let mut out = analysis::latent(e, seen, &is_case);
    out.retain(|l| !alike.showed(e, &l.hidden_by) && adds(l, seen));
    out
}

/// Whether what a layout removes there is more than what it removes here by enough to help. A contended lock beside
/// its data is a little above [`HELPS_SHARE_MIN`] at one phase and a little below at the next: nothing is hidden.
fn adds(hidden: &Latent, seen: &Contention) -> bool {
    let ranges: HashSet<_> = hidden.line.parts.iter().map(|p| p.range).collect();
    let of = |l: &&LineContention| l.parts.iter().any(|p| ranges.contains(&p.range));
    let here: f64 = seen.lines.iter().filter(of).map(|l| l.cost.removable()).sum();
    hidden.line.cost.removable() - here >= HELPS_SHARE_MIN * hidden.line.cost.total()
}

/// Heap objects of one type, arrays of any length, from one place in the code: the allocator puts them at this phase or
/// that, and whichever a later run will see, this one saw in another object. Accesses by kind and phase.
struct Alike {
    line: LineSize,
    /// By kind and phase, of objects that several actors used.
    accesses: HashMap<(Kind, u64), u64>,
    of_object: HashMap<u32, Uses>,
}

/// Accesses to one object.
struct Uses {
    accesses: u64,
    first: u32,
    several: bool,
}

/// Code that allocated, type, size of an element in bytes.
type Kind = (u32, Option<TypeId>, u64);

/// Objects at a phase showed what it brings when they were used by this share of one object's accesses, all together.
const SHOWED_SHARE_MIN: f64 = 0.5;

impl Alike {
    fn new(e: &Evidence, line: LineSize) -> Alike {
        let mut out = Alike { line, accesses: HashMap::new(), of_object: HashMap::new() };
        // Rows of one object come together, mostly.
        for rows in e.accesses.chunk_by(|a, b| a.object == b.object) {
            let fresh = Uses { accesses: 0, first: rows[0].actor, several: false };
            let uses = out.of_object.entry(rows[0].object).or_insert(fresh);
            for a in rows {
                uses.accesses = uses.accesses.saturating_add(a.total());
                uses.several |= uses.first != a.actor;
            }
        }
        for (object, uses) in out.of_object.iter().filter(|u| u.1.several) {
            if let Some((kind, base)) = kind(e, *object) {
                let sum = out.accesses.entry((kind, line.offset(base))).or_default();
                *sum = sum.saturating_add(uses.accesses);
            }
        }
        out
    }

    fn showed(&self, e: &Evidence, by: &HiddenBy) -> bool {
        let HiddenBy::Phase { object, worst, .. } = by else { return false };
        let Some((kind, _)) = kind(e, *object) else { return false };
        let there = self.accesses.get(&(kind, self.line.offset(*worst))).copied().unwrap_or(0);
        let own = self.of_object.get(object).map_or(0, |u| u.accesses);
        there > 0 && there as f64 >= SHOWED_SHARE_MIN * own as f64
    }
}

fn kind(e: &Evidence, object: u32) -> Option<(Kind, u64)> {
    let o = e.objects.get(object as usize).filter(|o| o.kind == ObjectKind::Heap)?;
    Some(((o.alloc_code?, o.ty, o.size / o.count.max(1)), o.base))
}

/// A latent case that the allocator decides anew in every run, or the system, or the linker in every build: this one
/// was lucky, the next one need not be, and the program's own build is another one than the recorder's. Over all
/// phases it must cost as much as a case that was seen: what one phase of many costs is not what a run costs.
pub fn is_luck(e: &Evidence, by: &HiddenBy) -> bool {
    let (object, kinds) = match by {
        HiddenBy::Phase { object, .. } => (*object, &[ObjectKind::Heap, ObjectKind::Global][..]),
        HiddenBy::Link { object, .. } => (*object, &[ObjectKind::Global][..]),
        HiddenBy::Stack { object, .. } => (*object, &[ObjectKind::Stack][..]),
        HiddenBy::LineSize => return false,
    };
    let phases = by.elsewhere();
    let mean = phases.iter().map(|p| p.1).sum::<f64>() / phases.len().max(1) as f64;
    mean >= COST_MIN && e.objects.get(object as usize).is_some_and(|o| kinds.contains(&o.kind))
}

/// All fights of an evidence as it was recorded, and those that were hidden.
pub(crate) struct Fights<'a> {
    /// Names their fields.
    pub namer: &'a Namer<'a>,
    /// All of them.
    pub judged: &'a [Judged<'a>],
    /// What was hidden.
    pub latent: &'a [Latent],
}

/// What `look` makes of the fights on lines of the given size: working them out is dear.
pub(crate) fn fights<T>(e: &Evidence, line: LineSize, look: impl FnOnce(&Fights) -> T) -> T {
    let namer = Namer::new(e);
    let seen = analysis::contention(e, &Question { line, ..Question::observed() });
    let judged = judge(e, &namer, &seen);
    let latent = latent(e, &seen, &judged);
    look(&Fights { namer: &namer, judged: &judged, latent: &latent })
}

/// The classes of everything in an evidence, by object: what advice starts from.
pub struct Verdicts {
    by_object: HashMap<u32, Class>,
    /// Objects that would fight at other addresses.
    hidden: HashSet<u32>,
}

impl Verdicts {
    /// Judges an evidence as it was recorded, on lines of the given size.
    pub fn new(e: &Evidence, line: LineSize) -> Verdicts {
        fights(e, line, Verdicts::of)
    }

    /// The classes of these fights.
    pub(crate) fn of(fights: &Fights) -> Verdicts {
        let mut by_object: HashMap<u32, Class> = HashMap::new();
        let mut note = |object: u32, class: Class| {
            let known = by_object.entry(object).or_insert(class);
            *known = class.min(*known);
        };
        for j in fights.judged {
            let lines = j.group.lines.iter();
            lines.flat_map(|l| l.objects()).for_each(|o| note(o, j.class));
        }
        // What only wider lines bring together is no fight on these.
        let elsewhere = fights.latent.iter().filter(|l| l.hidden_by != HiddenBy::LineSize);
        Verdicts { by_object, hidden: elsewhere.flat_map(|l| l.line.objects()).collect() }
    }

    /// Whether a layout helps any object that `wanted` picks, if at other addresses only.
    pub fn hides(&self, wanted: impl Fn(u32) -> bool) -> bool {
        self.hidden.iter().any(|o| wanted(*o))
    }

    /// Whether a layout may help this object, if at other addresses only.
    pub fn may_gain(&self, object: u32) -> bool {
        self.by_object.get(&object).is_some_and(|c| c.may_gain()) || self.hidden.contains(&object)
    }

    /// The first class, in the order of [`Class`], of any object that `wanted` picks, at the recorded addresses.
    pub fn of_objects(&self, wanted: impl Fn(u32) -> bool) -> Class {
        let of = self.by_object.iter().filter(|(o, _)| wanted(**o));
        of.map(|(_, c)| *c).min().unwrap_or(Class::Small)
    }
}

/// Why nothing can be said about an evidence in which nothing was found.
pub fn blind(e: &Evidence) -> Option<String> {
    if e.run.unit.by_share() {
        return sampled_blind(e);
    }
    if is_empty(e) {
        if let Some(n) = e.run.accesses.filter(|n| *n > 0) {
            return Some(format!(
                "only {} recorded: code that was not built by `tussle cc` is not seen, and what the \
                 compiler keeps in registers is none",
                if n == 1 { "1 access was".into() } else { format!("{n} accesses were") }
            ));
        }
        return Some(
            "nothing was recorded: code that was not built by `tussle cc` is not seen, a static library for instance"
                .into(),
        );
    }
    if !e.accesses.is_empty() && e.accesses.iter().any(|a| e.actors.get(a.actor as usize).is_none()) {
        return Some("threads that accessed memory are missing".into());
    }
    let lost = |what: &str| e.losses.iter().find(|l| l.what == what && l.count > 0);
    // What a launcher did itself says nothing of what it launched.
    if e.accesses.is_empty() && lost(OTHER_PROGRAMS).is_some() {
        return Some("what it executed was not recorded: give that program to --emulate itself".into());
    }
    let threads = lost("threads").map(|l| format!("{} threads were not recorded", l.count));
    threads.or_else(|| lost("shared memory").map(|_| "memory that processes share was not compared".into()))
}

/// Nothing was sampled, or of most samples nobody knows what they access.
fn sampled_blind(e: &Evidence) -> Option<String> {
    let lost = |what: &str| e.losses.iter().filter(|l| l.what == what).map(|l| l.count).sum::<u64>();
    let kept: u64 = e.samples.iter().flatten().map(|s| s.records).sum();
    let all = kept.saturating_add(lost(ELSEWHERE));
    let unread = lost(UNREAD);
    if all == 0 {
        return Some("nothing was sampled: the threads slept".into());
    }
    (kept == 0 && unread > all / 2).then(|| {
        format!("the code of {unread} of {all} samples could not be read: what it accesses is not known")
    })
}

/// Hardly an access. Only memory that threads share is kept, so its source says how many it saw in all; an older file
/// does not, but clocks tell of them: they advance by their own accesses, and by whole windows where threads wait.
fn is_empty(e: &Evidence) -> bool {
    // Every transfer was counted, however few there were.
    if e.run.source == Source::KernelRecorder && e.run.complete && e.transfers.is_some() {
        return false;
    }
    let kept: u64 = e.accesses.iter().map(Access::total).fold(0, u64::saturating_add);
    let window = e.run.window_vt.max(1);
    let own = || e.actors.iter().map(|a| a.vt1.saturating_sub(a.vt0) % window).sum::<u64>();
    let seen = match (e.run.accesses, e.run.source) {
        (Some(all), _) => all,
        (None, Source::Recorder) => kept.saturating_add(own()),
        (None, _) => kept,
    };
    (seen as f64) < COST_MIN && e.samples.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
