//! `predict`: what a layout or a lock costs on another machine.

use crate::{Answer, Source};
use anyhow::{Context, bail};
use std::path::Path;
use std::sync::Arc;
use tussle_evidence::Evidence;
use tussle_evidence::threads::map_on;
use tussle_scenarios::decide::Course;
use tussle_scenarios::predict::{self, Comparison, Prediction};
use tussle_scenarios::recorded::{Recording, Relocation};
use tussle_scenarios::stories::Build;
use tussle_scenarios::{Side, Story, view};
use tussle_sim::{Machine, machine};

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Machine by name, or a profile's file; `None`: that of the scenario's published figures.
    pub machine: Option<String>,
    /// Numbers of CPUs; the last is the answer. Empty: the scenario's.
    pub cpus: Vec<u32>,
    /// The side compared from: a variant, a file with types, or VARIANT@FILE.
    pub before: Option<String>,
    /// The side compared with.
    pub after: Option<String>,
    /// Unknowns and machine parameters that are fixed.
    pub set: Vec<(String, f64)>,
    /// Draws per number of CPUs; `None`: until it is decided.
    pub draws: Option<u32>,
    /// Seed of the draws.
    pub seed: u64,
}

/// A scenario.
///
/// # Errors
/// No such scenario, variant, machine or number of CPUs.
pub fn scenario(name: &str, asked: &Asked, threads: u32) -> anyhow::Result<Prediction> {
    let story = Story::find(name).map_err(|e| anyhow::anyhow!("{e}; and there is no file of that name"))?;
    let mut q = Comparison::of(story)?;
    if let Some(name) = &asked.machine {
        q.machine = open_machine(name)?;
    }
    let side = |name: &String| story_side(story, name);
    settings(asked, &mut q, side)?;
    run(&q, threads)
}

/// Recorded operations in two layouts: `recorded`, `ideal` or a file with types.
///
/// # Errors
/// The evidence holds no operations, or no machine is named.
pub fn recorded(e: &Evidence, asked: &Asked, threads: u32) -> anyhow::Result<Prediction> {
    let recording = Recording::new(e)?;
    let Some(name) = asked.machine.as_deref().filter(|m| *m != "here") else {
        bail!("name a simulated machine; `tussle predict --machine here` replays on this one");
    };
    let sides = [&asked.before, &asked.after];
    let sides = sides.map(|s| s.as_ref().map(|s| recorded_side(s, &recording, e)).transpose());
    let [before, after] = sides;
    let mut q = Comparison::of_recording(recording, open_machine(name)?);
    (q.before, q.after) = (before?.unwrap_or(q.before), after?.unwrap_or(q.after));
    let plain = Asked { before: None, after: None, ..asked.clone() };
    settings(&plain, &mut q, |s| Ok(Side::Name(s.clone())))?;
    run(&q, threads)
}

/// A prediction as the command line shows it.
pub fn answer(p: &Prediction) -> Answer {
    Answer::clean(view::prediction(p, false))
}

/// A built-in machine, or a profile in a file.
fn open_machine(name: &str) -> anyhow::Result<Machine> {
    match machine::find(name) {
        Err(_) if Path::new(name).exists() => {
            let text = std::fs::read_to_string(name).with_context(|| name.to_string())?;
            Machine::from_toml(&text).with_context(|| name.to_string())
        }
        found => Ok(found?),
    }
}

fn settings(
    asked: &Asked,
    q: &mut Comparison,
    side: impl Fn(&String) -> anyhow::Result<Side>,
) -> anyhow::Result<()> {
    q.cpus = match asked.cpus.as_slice() {
        [] => vec![q.cpus.last().copied().unwrap_or(1).min(q.machine.cpus())],
        cpus => cpus.to_vec(),
    };
    if let Some(n) = q.cpus.iter().find(|n| **n == 0 || **n > q.machine.cpus()) {
        let (name, has) = (&q.machine.name, q.machine.cpus());
        bail!(
            "--cpus {n}: {name} has CPUs 1 to {has}; --list-machines shows larger ones, a profile may describe one"
        );
    }
    if let Some(n) = asked.draws.filter(|n| !(1..=100_000).contains(n)) {
        bail!("--draws {n}: from 1 to 100000");
    }
    (q.draws, q.seed) = (asked.draws, asked.seed);
    for (key, value) in &asked.set {
        q.set(key, *value)?;
    }
    if let Some(name) = &asked.before {
        q.before = side(name)?;
    }
    if let Some(name) = &asked.after {
        q.after = side(name)?;
    }
    for side in [&q.before, &q.after] {
        q.subject.check(side)?;
    }
    Ok(())
}

/// A variant by name, the types of a file, or a variant's lock in a file's layout.
fn story_side(story: Story, side: &str) -> anyhow::Result<Side> {
    let about = story.about();
    let (lock, file) = match side.split_once('@').filter(|(lock, _)| about.variants.contains(lock)) {
        Some((lock, file)) => (Some(lock), file),
        None => (None, side),
    };
    if about.variants.contains(&side) || (lock.is_none() && !Path::new(file).exists()) {
        return Ok(Side::Name(side.into()));
    }
    let source = Source::open(Path::new(file), None)?;
    for ty in about.types {
        source.find(ty)?;
    }
    let wanted: Vec<String> = about.types.iter().map(ToString::to_string).collect();
    let table = source.types(&wanted)?.table.clone();
    Ok(Side::Build(Build::new(story, side, table, lock)?))
}

fn recorded_side(side: &str, recording: &Recording, e: &Evidence) -> anyhow::Result<Side> {
    if !Path::new(side).exists() {
        return Ok(Side::Name(side.into()));
    }
    let element = |name: &str| name.split('[').next().unwrap_or(name).to_string();
    let names: Vec<String> = recording.wanted().keys().map(|t| element(&e.types.name(*t))).collect();
    let source = Source::open(Path::new(side), None)?;
    let types = source.types(&names)?;
    Ok(Side::Moved(Arc::new(Relocation::of_types(recording, &e.types, &types.table, side)?)))
}

fn run(q: &Comparison, threads: u32) -> anyhow::Result<Prediction> {
    let mut course = Course::new(q);
    loop {
        let jobs = course.next();
        if jobs.is_empty() {
            return Ok(course.answer());
        }
        let samples = map_on(threads as usize, &jobs, |job| predict::run(q, job));
        course.add(&jobs, samples.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
}
