//! Addresses to names: code rows to functions and lines, memory to variables, heap blocks to types.
//!
//! A recording holds raw addresses. [`name`] rewrites it in place so that it explains itself: code rows get their
//! frames, module memory is split into the variables that it holds, heap objects get types. What cannot be named with
//! confidence stays unknown and says why; a wrong field name is the worst possible answer.

mod alloc;
mod buffers;
mod carve;
mod code;
mod cookies;
mod cplusplus;
mod expr;
mod globals;
mod held;
mod image;
mod lives;
mod nest;
mod operators;
mod retarget;
mod rust;
mod site;
mod stacks;
mod tokens;
mod told;
mod typed;
mod types;
mod vote;

use std::collections::HashSet;
use std::sync::Arc;

use tussle_debuginfo::{Bytes, CompanionRequest};
use tussle_evidence::Evidence;

use image::Images as Loaded;

/// Where the bytes of modules and the text of sources come from.
pub trait Images {
    /// Bytes of a mapped file. `build_id` (hex) is what was mapped; an implementation may use it to find the file
    /// elsewhere. The reason of a failure is shown to people.
    ///
    /// # Errors
    /// Why the file cannot be read.
    fn module(&mut self, path: &str, build_id: Option<&str>) -> Result<Bytes, String>;

    /// Debug information that lies beside the module at `path`.
    fn companion(&mut self, path: &str, request: &CompanionRequest) -> Option<Bytes>;

    /// Whole text of a source file by the path that the debug information has.
    fn source(&mut self, path: &str) -> Option<Arc<str>>;
}

/// Something that could not be named, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unnamed {
    /// Module or source file.
    pub file: String,
    /// What is wrong, what it means, what helps.
    pub what: String,
}

impl std::fmt::Display for Unnamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// Registers of a row of the samples table, by their numbers in perf's list for x86-64 (`enum perf_event_x86_regs`).
pub type SampledRegisters = std::collections::HashMap<u32, Vec<(u32, u64)>>;

/// Names everything that can be named. Total: the problems say what stayed unknown.
pub fn name(evidence: &mut Evidence, images: &mut dyn Images) -> Vec<Unnamed> {
    name_sampled(evidence, images, &SampledRegisters::new())
}

/// [`name`] where allocators were told the types of objects: ids of rows, with names as the debug information has
/// them.
pub fn name_told(evidence: &mut Evidence, images: &mut dyn Images, told: &[(u32, String)]) -> Vec<Unnamed> {
    name_all(evidence, images, &SampledRegisters::new(), told)
}

/// [`name`] for samples that came with registers.
pub fn name_sampled(
    evidence: &mut Evidence,
    images: &mut dyn Images,
    registers: &SampledRegisters,
) -> Vec<Unnamed> {
    name_all(evidence, images, registers, &[])
}

fn name_all(
    evidence: &mut Evidence,
    images: &mut dyn Images,
    registers: &SampledRegisters,
    told: &[(u32, String)],
) -> Vec<Unnamed> {
    let mut loaded = Loaded::new(images);
    let mut pending = types::Pending::new(evidence);
    code::name(evidence, &mut loaded);
    operators::pass(evidence);
    told::apply(evidence, &mut loaded, &mut pending, told);
    globals::split(evidence, &mut loaded, &mut pending);
    typed::place(evidence, &mut loaded, &mut pending, registers);
    let mut sites = site::Sites::default();
    rust::part(evidence, &mut loaded, &mut sites, &mut pending);
    cookies::part(evidence, &mut loaded, &mut sites);
    let nests = vote::Nests::default();
    let (groups, lines) = vote::groups(evidence, &mut loaded, &mut sites);
    let reused = lives::reused(evidence);
    let mut foreign = HashSet::new();
    for group in &groups {
        let found = vote::decide(evidence, &mut loaded, &mut sites, &mut pending, &nests, group, &reused);
        foreign.extend(found);
    }
    lives::take_out(evidence, &lines, &foreign);
    let declared = stacks::Declared::read(evidence, &mut loaded, &mut sites);
    let mut split = carve::carve(evidence, &loaded, &mut pending, &nests, &groups, &declared);
    held::name(evidence, &loaded, &mut pending, &groups, &mut split);
    split.apply(evidence);
    types::fill(evidence, &loaded, pending);
    cplusplus::threads(evidence, &mut loaded, &mut sites);
    rust::settle(evidence);
    loaded.into_problems()
}
