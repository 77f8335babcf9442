//! Advice from samples that tell neither who stored nor how often: which hot fields of a struct share a line, and which
//! edits part them. The sign of each edit is known as far as "apart" is good; its size is not.

use std::collections::BTreeMap;

use tussle_evidence::{Evidence, Sampled};
use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{SourceLoc, TypeId};

use crate::advice::AdviseError;
use crate::apart::{Pair, Parting, ToPart, field, part};
use crate::holders::places;
use crate::named::type_named;

/// Pairs that are asked about.
const PAIRS_MAX: usize = 3;
/// Rows for a pair.
const ROWS_MAX: usize = 5;
/// A field with a smaller share of its line's samples is no half of a pair.
const SHARE_MIN: f64 = 0.01;

/// Two fields that share a line, with what parts them.
#[derive(Clone, Debug, PartialEq)]
pub struct Meeting {
    /// The field with more samples, by its path.
    pub a: String,
    /// The other one.
    pub b: String,
    /// Contended samples at each.
    pub samples: (u64, u64),
    /// Both belong to one member: a lock's own words, for which apart is not always better.
    pub one_member: bool,
    /// Bytes into a line at which the sampled objects begin.
    pub phases: Vec<u64>,
    /// What parts them.
    pub partings: Vec<Parting>,
}

/// What samples say about one struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Signs {
    /// Its name.
    pub type_name: String,
    /// Its definition.
    pub decl: Option<SourceLoc>,
    /// What the samples are of: contended loads, and stores.
    pub unit: String,
    /// Pairs, the hotter ones first.
    pub meetings: Vec<Meeting>,
}

/// Advice about the struct `name` from samples alone.
///
/// # Errors
/// No sampled object holds it, or its layout cannot be computed.
pub fn signs(e: &Evidence, name: &str, line: u64) -> Result<Signs, AdviseError> {
    let target = type_named(e, name)
        .ok_or_else(|| AdviseError::NoSuchType(name.into(), crate::named::close_to(e, name)))?;
    let all = leaves(&e.types, target, Arrays::Whole);
    let heat = heat(e, target, line);
    let hot: Vec<u64> = heat.values().flat_map(|h| h.keys().copied()).collect();
    let mut meetings = Vec::new();
    for (pair, samples, phases) in pairs(&heat, &all) {
        let question = ToPart { target, pair: &pair, hot: &hot, phases: &phases, line };
        let partings = part(&e.types, &question, ROWS_MAX)?;
        let (a, b) = (field(&all, pair.a), field(&all, pair.b));
        let outer = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_string();
        let one_member = outer(&a) == outer(&b);
        meetings.push(Meeting { a, b, samples, one_member, phases, partings });
    }
    Ok(Signs {
        type_name: e.types.name(target),
        decl: e.types.aggregate(target).and_then(|a| a.decl.clone()),
        unit: format!("{} and store samples", e.run.unit.to_string().trim_end_matches(" samples")),
        meetings,
    })
}

/// Samples by field (its first byte), for each phase of the struct and each of its lines.
type Heat = BTreeMap<(u64, u64), BTreeMap<u64, u64>>;

fn heat(e: &Evidence, target: TypeId, line: u64) -> Heat {
    let mut out = Heat::new();
    let all = leaves(&e.types, target, Arrays::Whole);
    let size = e.types.size(target).unwrap_or(0);
    // What a text gives to a line but to no row of it has no code and lies nowhere.
    for s in e.samples.iter().flatten().filter(|s| s.code.is_some()) {
        let Some(o) = e.objects.get(s.object as usize) else { continue };
        let Some(ty) = o.ty else { continue };
        for at in places(&e.types, target, ty).unwrap_or_default() {
            let Some(inside) = s.offset.checked_sub(at).filter(|i| *i < size) else { continue };
            let Some(leaf) = all.iter().find(|l| l.offset <= inside && inside < l.end()) else { continue };
            let phase = o.base.wrapping_add(at) % line;
            let cell = out.entry((phase, (phase + leaf.offset) / line)).or_default();
            *cell.entry(leaf.offset).or_default() += contended(s).saturating_add(stores(s));
        }
    }
    out
}

fn contended(s: &Sampled) -> u64 {
    let hitm = s.hitm_local.unwrap_or(0).saturating_add(s.hitm_remote.unwrap_or(0));
    if hitm > 0 { hitm } else { s.peer.unwrap_or(0) }
}

fn stores(s: &Sampled) -> u64 {
    [s.store_l1_hit, s.store_l1_miss, s.store_no_level].iter().flatten().copied().fold(0, u64::saturating_add)
}

/// Pairs of hot fields on one line, by what the cooler of both has; with the phases at which that was seen.
fn pairs(heat: &Heat, all: &[Leaf]) -> Vec<(Pair, (u64, u64), Vec<u64>)> {
    let mut sums: BTreeMap<(u64, u64), (u64, u64, Vec<u64>)> = BTreeMap::new();
    for ((phase, _), fields) in heat {
        let total: u64 = fields.values().sum();
        let enough = |n: u64| n > 0 && n as f64 >= SHARE_MIN * total as f64;
        let hot: Vec<(u64, u64)> = fields.iter().map(|(at, n)| (*at, *n)).filter(|f| enough(f.1)).collect();
        for (i, a) in hot.iter().enumerate() {
            for b in hot.iter().skip(i + 1).filter(|b| !overlap(all, a.0, b.0)) {
                let sum = sums.entry((a.0, b.0)).or_default();
                *sum = (sum.0 + a.1, sum.1 + b.1, sum.2.iter().copied().chain([*phase]).collect());
            }
        }
    }
    let mut out: Vec<_> = sums.into_iter().collect();
    out.sort_by_key(|(_, s)| std::cmp::Reverse((s.0.min(s.1), s.0.max(s.1))));
    let ordered = |((a, b), (x, y, phases)): ((u64, u64), (u64, u64, Vec<u64>))| match x >= y {
        true => (Pair { a, b }, (x, y), phases),
        false => (Pair { a: b, b: a }, (y, x), phases),
    };
    out.into_iter().take(PAIRS_MAX).map(ordered).collect()
}

/// Members of a union are one place.
fn overlap(all: &[Leaf], a: u64, b: u64) -> bool {
    let end = |at: u64| all.iter().filter(|l| l.offset == at).map(Leaf::end).max().unwrap_or(at);
    a < end(b) && b < end(a)
}
