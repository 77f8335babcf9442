//! May further tasks repeat what the recorded actors did?
//!
//! Yes where all actors ran the same start routine and every object is either used by all of them at the same places,
//! so a further task uses it too, or by one actor alone that has one such object for itself, so a further task has one
//! of its own. Everything else is a guess: a slot of an array, a variable of one thread, a queue between two of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use tussle_evidence::tables::{Evidence, ObjectKind, Operation};

/// Actors by what they use: every (object, offset).
type Users = BTreeMap<(u32, u64), BTreeSet<u32>>;

/// Why nothing is known of more tasks than the recorded `actors`; `None` where they can be replicated.
pub fn refusal(
    ev: &Evidence,
    actors: &BTreeMap<u32, usize>,
    operations: &[&Operation],
) -> Option<&'static str> {
    let starts: BTreeSet<Option<u32>> =
        actors.keys().map(|&a| ev.actors.get(a as usize).and_then(|a| a.start)).collect();
    if starts.len() != 1 || starts.contains(&None) {
        return Some("the recorded threads do not all have one start routine");
    }
    let users = users(operations);
    let mut of_object: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    users.iter().for_each(|((o, _), who)| of_object.entry(*o).or_default().extend(who));
    let partly = |(at, who): (&(u32, u64), &BTreeSet<u32>)| {
        of_object.get(&at.0).is_some_and(|all| all.len() > 1) && who.len() < actors.len()
    };
    if users.iter().any(partly) {
        return Some("some of the recorded threads share bytes that others do not use");
    }
    let alone = of_object.iter().filter(|(_, who)| who.len() == 1);
    let alone = alone.filter_map(|(o, who)| Some((*o, *who.first()?)));
    (!one_each(ev, alone, actors.len()))
        .then_some("a thread has an object for itself that is not one per thread")
}

fn users(operations: &[&Operation]) -> Users {
    let mut users = Users::new();
    for op in operations {
        let locks = op.lock_object.zip(op.lock_offset);
        let inner = op.inner.iter().flatten().map(|i| (i.2, i.3));
        let visits = op.visits.iter().map(|v| (v.0, v.1));
        for at in locks.into_iter().chain(inner).chain(visits) {
            users.entry(at).or_default().insert(op.actor);
        }
    }
    users
}

/// Objects used by one actor alone come from allocation sites that gave every actor exactly one.
fn one_each(ev: &Evidence, alone: impl Iterator<Item = (u32, u32)>, actors: usize) -> bool {
    let mut sites: HashMap<u32, Vec<u32>> = HashMap::new();
    for (object, actor) in alone {
        let Some(o) = ev.objects.get(object as usize) else { continue };
        match (o.kind, o.alloc_code) {
            // Every thread has these of its own.
            (ObjectKind::Stack | ObjectKind::Tls | ObjectKind::PerCpu, _) => {}
            (_, Some(site)) => sites.entry(site).or_default().push(actor),
            (_, None) => return false,
        }
    }
    sites.into_values().all(|mut owners| {
        owners.sort_unstable();
        let all = owners.len();
        owners.dedup();
        all == owners.len() && all == actors
    })
}
