//! Without a table of lines: members of the structs that a diff touches, whose type is what the hot functions work on.

use crate::cmd::source::Source;
use tussle_advise::apart::{self, Pair, Parting, ToPart};
use tussle_advise::holders::places;
use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{TypeId, TypeTable};
use tussle_perf::mail::{Change, Family, names};

/// A colder family is no clue.
const PERCENT_MIN: f64 = 1.0;
/// Names that a struct without a name in the diff must have, and their share: builds differ by configuration and age.
const NAMES_MIN: usize = 3;
const NAMES_SHARE_MIN: f64 = 0.7;
/// Bytes.
const LINE: u64 = 64;
/// Rows of what parts a pair.
const ROWS_MAX: usize = 5;

/// A member that profile and diff point at.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// The struct.
    pub type_name: String,
    /// Path of the member.
    pub member: String,
    /// Its type, without keyword.
    pub primitive: &'static str,
    /// Percent of the profile at its hottest function.
    pub percent: f64,
    /// The functions.
    pub functions: Vec<String>,
    /// Where it lies, for each build.
    pub places: Vec<MemberAt>,
    /// The two fields in it that the functions touch.
    pub pair: Option<(String, String)>,
    /// What parts them, in the last build, for objects that begin on a line.
    pub partings: Vec<Parting>,
}

/// Where a member lies in a build.
#[derive(Clone, Debug)]
pub struct MemberAt {
    /// The build.
    pub build: String,
    /// Bytes from the object's beginning.
    pub offset: u64,
    /// For objects that begin on a line: the two fields share a line.
    pub together: Option<bool>,
}

/// All suspects, the hottest first. With the `prose` of a text that has no profile: those that it names.
pub fn find(
    families: &[Family],
    changes: &[Change],
    types: &[&TypeTable],
    builds: &[Source],
    prose: Option<&str>,
) -> Vec<Suspect> {
    let mut out: Vec<Suspect> = Vec::new();
    let named = |s: &Suspect| {
        let own = s.member.rsplit('.').next().unwrap_or(&s.member);
        prose.is_none_or(|text| s.pair.is_some() && names(text, own))
    };
    for family in families.iter().filter(|f| prose.is_some() || f.percent >= PERCENT_MIN) {
        for change in changes {
            for found in of(family, change, types, builds).into_iter().filter(named) {
                let same = |s: &Suspect| s.type_name == found.type_name && s.member == found.member;
                if !out.iter().any(same) {
                    out.push(found);
                }
            }
        }
    }
    out
}

fn of(family: &Family, change: &Change, types: &[&TypeTable], builds: &[Source]) -> Vec<Suspect> {
    let Some((table, target)) = types.last().and_then(|t| Some((*t, named(t, change)?))) else {
        return Vec::new();
    };
    let Some(primitive) = table.find(family.type_name) else { return Vec::new() };
    let all = leaves(table, target, Arrays::Whole);
    let inner = leaves(table, primitive, Arrays::Whole);
    let at = places(table, primitive, target).unwrap_or_default();
    let suspect = |at: &u64| {
        let first = all.iter().find(|l| l.offset == *at)?;
        let own = inner.iter().find(|l| l.offset == 0)?;
        let member = first.path.strip_suffix(&own.path)?.trim_end_matches('.').to_string();
        let pair = pair(&inner, family);
        let question_pair = pair.as_ref().map(|p| Pair { a: at + p.0.offset, b: at + p.1.offset });
        let partings = question_pair.map_or(Vec::new(), |p| partings(table, target, &p));
        Some(Suspect {
            type_name: table.name(target),
            places: builds.iter().filter_map(|b| place(b, change, &member, family)).collect(),
            member,
            primitive: family.type_name,
            percent: family.percent,
            functions: family.functions.clone(),
            pair: pair.map(|p| (p.0.path, p.1.path)),
            partings,
        })
    };
    let mut out: Vec<Suspect> = at.iter().filter_map(suspect).collect();
    // What the diff shows is what it moves; other members of the kind count only where it shows none.
    let shown =
        |s: &Suspect| [&change.near, &change.moved, &change.added].iter().any(|l| l.contains(&s.member));
    if out.iter().any(shown) {
        out.retain(shown);
    }
    out
}

/// The struct of a diff: by its name, or the one that has most of the members around.
pub fn named(table: &TypeTable, change: &Change) -> Option<TypeId> {
    if let Some(found) = change.type_name.as_ref().and_then(|n| table.find(n)) {
        return Some(found);
    }
    let wanted: Vec<&String> = change.near.iter().chain(&change.moved).collect();
    if wanted.len() < NAMES_MIN {
        return None;
    }
    let has = |id: TypeId| {
        let all = leaves(table, id, Arrays::Whole);
        let outer = |l: &Leaf, n: &str| l.path.split(['.', '[']).next() == Some(n);
        wanted.iter().filter(|n| all.iter().any(|l| outer(l, n))).count()
    };
    let enough = |n: usize| n >= NAMES_MIN && n as f64 >= NAMES_SHARE_MIN * wanted.len() as f64;
    let mut fits: Vec<(usize, TypeId, &Option<String>)> =
        table.aggregates().filter(|(_, a)| a.name.is_some()).map(|(id, a)| (has(id), id, &a.name)).collect();
    fits.retain(|f| enough(f.0));
    let best = fits.iter().max_by_key(|f| f.0)?;
    let rivals = fits.iter().filter(|f| f.0 == best.0).any(|f| f.2 != best.2);
    (!rivals).then_some(best.1)
}

/// The two fields that the functions touch most.
fn pair(inner: &[Leaf], family: &Family) -> Option<(Leaf, Leaf)> {
    let of = |name: &&'static str| {
        inner.iter().find(|l| l.path == **name || l.path.starts_with(&format!("{name}."))).cloned()
    };
    let found: Vec<Leaf> = family.members.iter().filter_map(of).collect();
    let first = found.first()?.clone();
    let second = found.iter().find(|l| l.offset != first.offset)?.clone();
    Some(if first.offset < second.offset { (first, second) } else { (second, first) })
}

fn place(build: &Source, change: &Change, member: &str, family: &Family) -> Option<MemberAt> {
    let table = &build.table;
    let target = named(table, change)?;
    let all = leaves(table, target, Arrays::Whole);
    let prefix = format!("{member}.");
    let offset = all.iter().find(|l| l.path.starts_with(&prefix))?.offset;
    let pair = table.find(family.type_name).and_then(|p| pair(&leaves(table, p, Arrays::Whole), family));
    let line = |l: &Leaf| (offset + l.offset) / LINE;
    let together = pair.map(|(a, b)| line(&a) == line(&b));
    Some(MemberAt { build: build.path.display().to_string(), offset, together })
}

/// What parts the pair where objects begin on a line; nothing where they are apart there.
fn partings(table: &TypeTable, target: TypeId, pair: &Pair) -> Vec<Parting> {
    if pair.a / LINE != pair.b / LINE {
        return Vec::new();
    }
    let question = ToPart { target, pair, hot: &[], phases: &[0], line: LINE };
    apart::part(table, &question, ROWS_MAX).unwrap_or_default()
}
