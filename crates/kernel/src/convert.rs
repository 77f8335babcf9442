//! Stream, guest memory and debug information to evidence.

mod inner;
mod order;
mod pages;
mod roles;
mod rows;
mod sections;
mod shared;
mod told;

use std::collections::{BTreeMap, HashMap};

use tussle_debuginfo::Elf;
use tussle_evidence::{
    Actor, ActorKind, Basis, Code, Evidence, Frame, Loss, Module, Object, Process, Run, Schedule, Sees,
    Source,
};
use tussle_model::TypeId;

use crate::image::{ImageError, KernelImage, KernelTypes};
use crate::memory::Memory;
use crate::orc::Orc;
use crate::place::{Allocator, Atlas, How, Owner, TypeWish};
use crate::slab::WALKED;
use crate::stream::{Stream, Summary};
use crate::typed::{self, Verdict};

/// What the guest was.
#[derive(Clone, Debug)]
pub struct Machine {
    /// vCPUs.
    pub vcpus: u32,
    /// Emulator and its version.
    pub emulator: String,
    /// What tussle ran, for people.
    pub command: Vec<String>,
    /// Path of the debug file, as given.
    pub vmlinux: String,
    /// Instructions that a vCPU lost with every transfer.
    pub feedback: u64,
}

/// Everything that a conversion needs.
pub struct Inputs<'a> {
    /// The kernel's file.
    pub vmlinux: &'a [u8],
    /// Its symbols.
    pub image: &'a KernelImage,
    /// Guest memory at the stop marker.
    pub ram: &'a [u8],
    /// What the plugin wrote.
    pub stream: &'a Stream,
    /// Hooked allocation functions.
    pub allocators: &'a [Allocator],
    /// The guest.
    pub machine: &'a Machine,
}

/// Why nothing could be made of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The kernel's file does not serve.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The plugin stopped early.
    #[error("the recording has no end: the guest never reached its stop marker")]
    CutOff,
    /// Only regions were asked for.
    #[error(
        "no region was begun in the guest, so nothing was counted: the program needs the marks of tussle.h \
         (docs/marks.md)"
    )]
    NoRegion,
    /// The guest's memory belongs to another kernel than the debug file.
    #[error("the guest does not run the kernel of {vmlinux}: it says `{guest}`, the file `{file}`")]
    Mismatch {
        /// Debug file.
        vmlinux: String,
        /// Banner in memory.
        guest: String,
        /// Banner in the file.
        file: String,
    },
}

/// Transfers by how their address was explained.
pub type Attribution = BTreeMap<How, u64>;

/// Makes the tables, and says how the transfers were attributed.
///
/// # Errors
/// [`ConvertError`].
pub fn evidence(inputs: &Inputs) -> Result<(Evidence, Attribution), ConvertError> {
    let end = inputs.stream.end.ok_or(ConvertError::CutOff)?;
    if end.outside > 0 && end.regions == 0 {
        return Err(ConvertError::NoRegion);
    }
    let memory = memory(inputs)?;
    let all: Vec<usize> = inputs.image.symbols.static_variables().iter().filter_map(|v| v.ty).collect();
    let walked: Vec<String> = WALKED.iter().map(|n| n.to_string()).chain(["pglist_data".into()]).collect();
    let types = KernelTypes::read(inputs.vmlinux, &walked, &all)?;
    let vcpus = u64::from(inputs.machine.vcpus);
    let mut atlas = Atlas::new(inputs.image, &types, memory, inputs.stream, inputs.allocators, vcpus);
    let behind = atlas.look_behind(&types);
    atlas.follow(&types, &KernelTypes::read(inputs.vmlinux, &behind, &[])?);
    let atlas = atlas;
    let mut tables = rows::Rows::new(inputs.stream, &end, &atlas);
    tables.add_all();
    let attribution = tables.attribution.clone();
    let mut evidence = empty(inputs, &end);
    let (operations, left_out) = sections::operations(inputs.stream, &mut tables);
    evidence.operations = Some(operations);
    let order = (end.order_lost == 0).then(|| order::order(inputs.stream, &mut tables));
    evidence.order = order;
    let spins = |pc: u64| inputs.image.function_at(pc).is_some_and(|f| is_spinlock(&f.name));
    tables.finish(&mut evidence, &spins);
    let mut objects = std::mem::take(&mut tables.objects);
    told::ask(inputs, &evidence, &mut objects);
    let free_pointers: Vec<Option<u64>> = objects.iter().map(|p| p.free_pointer).collect();
    let bases = inner::bases(inputs, &evidence, &objects);
    let types = fill_objects(inputs, &mut evidence, objects, &bases)?;
    inner::name(&types, &bases, &mut evidence);
    let chains = sampled_chains(inputs, &tables);
    name_code(inputs, &mut evidence, &chains);
    pages::name(&types, &bases, &mut evidence);
    name_heads(&mut evidence);
    let functions =
        |pc: u64| inputs.image.symbols.frames(pc).into_iter().map(|f| f.function).collect::<Vec<_>>();
    let clearing = roles::clearing(&evidence.code, &chains, &functions);
    roles::name(&mut evidence, &free_pointers, &clearing);
    shared::name(inputs, &types, &mut evidence);
    evidence.losses.extend(losses(&end, &attribution));
    evidence.losses.extend(atlas.slabs.missing.iter().map(unknown_layout));
    evidence.losses.extend(section_losses(inputs.stream, &end, left_out));
    Ok((evidence, attribution))
}

/// Functions that take or release spinlocks and nothing else.
fn is_spinlock(function: &str) -> bool {
    function.starts_with("_raw_spin_") || function.starts_with("native_queued_spin_lock")
}

/// Guest memory, after a look whether it is this kernel's.
fn memory<'a>(inputs: &Inputs<'a>) -> Result<Memory<'a>, ConvertError> {
    let label = |name: &'static str| inputs.image.label(name).ok_or(ImageError::Symbol(name));
    let memory = Memory::new(inputs.ram, label("init_top_pgt")?);
    let at = label("linux_banner")?;
    let guest = memory.text(at, 256).unwrap_or_default();
    let file = banner(inputs.vmlinux, at).unwrap_or_default();
    if guest != file {
        let vmlinux = inputs.machine.vmlinux.clone();
        return Err(ConvertError::Mismatch { vmlinux, guest: guest.trim().into(), file: file.trim().into() });
    }
    Ok(memory)
}

/// Text at a link address of the file.
fn banner(vmlinux: &[u8], at: u64) -> Option<String> {
    use object::{Object, ObjectSegment};
    let elf = Elf::parse(vmlinux).ok()?;
    let bytes = elf.object().segments().find_map(|s| {
        let inside = usize::try_from(at.checked_sub(s.address())?).ok()?;
        s.data().ok()?.get(inside..)
    })?;
    let end = bytes.iter().take(256).position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

fn empty(inputs: &Inputs, end: &Summary) -> Evidence {
    let machine = inputs.machine;
    let sees = Sees { locks: true, word_parts: true, ..Sees::ACCESSES };
    let run = Run {
        command: machine.command.clone(),
        cpu_model: format!("emulated by {}", machine.emulator),
        cpus: machine.vcpus,
        complete: end.lost == 0,
        ..Run::new(Source::KernelRecorder, end.window.max(1), sees)
    };
    let schedule = Schedule {
        turn_instructions: end.quantum,
        feedback_instructions: Some(machine.feedback),
        seed: None,
    };
    let process = Process {
        pid: 0,
        parent: None,
        exe: "[kernel]".into(),
        build_id: inputs.image.build_id.clone(),
        end: "stopped at its marker".into(),
    };
    let module = Module {
        process: 0,
        path: machine.vmlinux.clone(),
        build_id: inputs.image.build_id.clone(),
        start: 0xffff_ffff_8000_0000,
        end: u64::MAX,
        bias: 0,
    };
    let actors = (0..machine.vcpus).map(|n| Actor {
        process: Some(0),
        kind: ActorKind::Cpu,
        number: n,
        name: Some(format!("CPU {n}")),
        creator: None,
        start: None,
        vt0: 0,
        vt1: end.windows.saturating_mul(end.window),
    });
    Evidence {
        processes: vec![process],
        modules: vec![module],
        actors: actors.collect(),
        samples: Some(Vec::new()),
        schedules: Some(vec![schedule]),
        ..Evidence::empty(run)
    }
}

/// Reads the types that the places wish for, and those of variables in base registers, and writes the objects.
fn fill_objects(
    inputs: &Inputs,
    evidence: &mut Evidence,
    places: Vec<Owner>,
    bases: &inner::Bases,
) -> Result<KernelTypes, ConvertError> {
    let mut names = Vec::new();
    let mut entries: Vec<usize> = bases.values().flatten().map(|b| b.0.entry).collect();
    for p in &places {
        match &p.ty {
            TypeWish::Named(n) => names.extend(n.iter().cloned()),
            TypeWish::Entry(e) => entries.push(*e),
            TypeWish::Told(t) => entries.extend(t.entries()),
            TypeWish::Cache(c) => {
                names.extend(c.names.iter().cloned());
                entries.extend(c.told.iter().flat_map(|t| t.entries()));
            }
            TypeWish::Unknown => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    entries.sort_unstable();
    entries.dedup();
    let mut types = KernelTypes::read(inputs.vmlinux, &names, &entries)?;
    let declared = typed::declared(&types, &entries);
    if !declared.is_empty() {
        names.extend(declared);
        types = KernelTypes::read(inputs.vmlinux, &names, &entries)?;
    }
    let chosen: Vec<Option<Verdict>> = places.iter().map(|p| choose(&types, p)).collect();
    let mut roots: Vec<TypeId> = chosen.iter().flatten().map(|c| c.ty).collect();
    roots.sort_unstable_by_key(|t| t.0);
    roots.dedup();
    let (table, ids) = types.table.extract(&roots);
    let new: HashMap<TypeId, TypeId> = roots.into_iter().zip(ids).collect();
    evidence.types = table;
    let alive = alive(&places);
    let mut sites: HashMap<u64, u32> = HashMap::new();
    for (p, verdict) in places.into_iter().zip(chosen) {
        let live_max = alive.get(&rows::label(&p)).copied().unwrap_or(1);
        let alloc_code = p.site.as_ref().map(|(_, back)| {
            *sites.entry(back.wrapping_sub(1)).or_insert_with_key(|address| {
                evidence.code.push(code_row(*address));
                evidence.code.len() as u32 - 1
            })
        });
        let verdict = verdict.and_then(|v| Some(Verdict { ty: *new.get(&v.ty)?, ..v }));
        let element = verdict.as_ref().and_then(|v| evidence.types.size(v.ty)).unwrap_or(0);
        evidence.objects.push(Object { alloc_code, ..object(p, verdict, element, live_max) });
    }
    Ok(types)
}

/// How many objects of a kind were alive at the same time at most.
fn alive(places: &[Owner]) -> HashMap<String, u64> {
    let mut moments: BTreeMap<String, Vec<(u64, bool)>> = BTreeMap::new();
    for p in places {
        let of = moments.entry(rows::label(p)).or_default();
        of.push((p.life.from, true));
        of.extend(p.life.to.map(|to| (to, false)));
    }
    let most = |(why, mut of): (String, Vec<(u64, bool)>)| {
        // At equal times ends come first: the next life of a slot begins when the last one ends.
        of.sort_unstable();
        let (mut now, mut max) = (0u64, 0);
        for (_, born) in of {
            now = if born { now + 1 } else { now.saturating_sub(1) };
            max = max.max(now);
        }
        (why, max)
    };
    moments.into_iter().map(most).collect()
}

fn object(p: Owner, verdict: Option<Verdict>, element: u64, live_max: u64) -> Object {
    let told = verdict.is_some() && matches!(p.ty, TypeWish::Told(_));
    let why = match (&verdict, &p.name) {
        (Some(v), Some(name)) if told => {
            let site = name.split_once(" in ").map_or("", |n| n.1);
            format!("{}, allocated in {site}: {}", p.why, v.why)
        }
        (Some(v), None) if !v.why.is_empty() => format!("{}: {}", p.why, v.why),
        _ => p.why,
    };
    let cache = match &p.ty {
        TypeWish::Cache(c) if verdict.is_none() => Some(c.name.clone()),
        _ => None,
    };
    let basis = match p.how {
        How::PageStruct if !is_page_table(&p.ty) => Some(Basis::PageArray),
        _ if told => Some(Basis::Code),
        How::Variable => verdict.as_ref().map(|_| Basis::Variable),
        _ => verdict.as_ref().map(|_| Basis::Allocation),
    };
    let size = match p.how {
        How::Slab | How::AllocationSite => p.size,
        _ => p.size.max(element),
    }
    .max(1);
    Object {
        process: 0,
        kind: p.kind,
        base: p.base,
        size,
        name: if told || verdict.is_some() && p.how == How::Slab { None } else { p.name.or(cache) },
        ty: verdict.as_ref().map(|v| v.ty),
        count: 1,
        confidence: verdict.as_ref().map_or(0.0, |v| v.confidence),
        basis,
        why,
        align: p.align,
        allocator: p.site.map(|s| s.0),
        alloc_code: None,
        alloc_actor: p.life.vcpu.map(u32::from),
        vt0: p.life.from,
        vt1: p.life.to,
        live_max,
        region: None,
    }
}

/// A page whose `struct page` is shown as another type, because code took its lock.
fn is_page_table(ty: &TypeWish) -> bool {
    matches!(ty, TypeWish::Named(names) if names.iter().any(|n| n == "ptdesc"))
}

/// The first wished type that exists and fits, and how sure it is.
fn choose(types: &KernelTypes, p: &Owner) -> Option<Verdict> {
    let sure = |ty, confidence| Verdict { ty, confidence, why: String::new() };
    match &p.ty {
        TypeWish::Unknown => None,
        TypeWish::Told(told) => typed::decide(types, told, p.size),
        TypeWish::Entry(e) => Some(sure(types.entry(Some(*e))?, 1.0)),
        TypeWish::Named(names) => by_name(types, p, names),
        TypeWish::Cache(c) => by_name(types, p, &c.names)
            .or_else(|| typed::of_cache(types, c.told.as_deref()?, u64::from(p.asked))),
    }
}

/// The first of some structs that exists and fits.
fn by_name(types: &KernelTypes, p: &Owner, names: &[String]) -> Option<Verdict> {
    let sure = |ty, confidence| Verdict { ty, confidence, why: String::new() };
    names.iter().find_map(|name| {
        let ty = types.named(name)?;
        let size = types.table.size(ty)?;
        // A cache rounds its objects up to its alignment; variable parts come behind the struct.
        let exact = size <= p.size && p.size - size < 64;
        let first = names.first() == Some(name);
        match (exact, first && size <= p.size, p.how) {
            (true, _, _) => Some(sure(ty, 1.0)),
            (false, true, _) => Some(sure(ty, 0.9)),
            // `task_struct` ends in a part that a CPU may need less of.
            (false, false, How::Slab) if first => Some(sure(ty, 0.9)),
            _ => None,
        }
    })
}

/// Callers of every code row, from the sampled stacks.
fn sampled_chains(inputs: &Inputs, tables: &rows::Rows) -> roles::Chains {
    let orc = Elf::parse(inputs.vmlinux).map(|elf| Orc::read(&elf)).unwrap_or_default();
    let mut out = roles::Chains::new();
    for c in &inputs.stream.chains {
        let Some(code) = tables.code_of(c) else { continue };
        let callers = orc.callers(inputs.stream.pc(c.instruction), c.rsp, c.rbp, &c.stack);
        *out.entry(code).or_default().entry(callers).or_default() += 1;
    }
    out
}

/// Frames of every code row, and its commonest callers.
fn name_code(inputs: &Inputs, evidence: &mut Evidence, chains: &roles::Chains) {
    let mut rows: HashMap<u64, u32> =
        evidence.code.iter().enumerate().map(|(i, c)| (c.address, i as u32)).collect();
    for (&code, chains) in chains {
        // The commonest chain; of equals the first in order of address.
        let chain = chains.iter().max_by_key(|(chain, n)| (**n, std::cmp::Reverse(*chain)));
        let Some((chain, _)) = chain else { continue };
        let ids = chain.iter().map(|back| {
            *rows.entry(back - 1).or_insert_with(|| {
                evidence.code.push(code_row(back - 1));
                evidence.code.len() as u32 - 1
            })
        });
        let ids: Vec<u32> = ids.collect();
        if let Some(row) = evidence.code.get_mut(code as usize) {
            row.chain = ids;
        }
    }
    for row in &mut evidence.code {
        let frames = inputs.image.symbols.frames(row.address);
        row.frames = frames
            .into_iter()
            .map(|f| Frame { function: f.function, file: f.file, line: f.line, column: f.column })
            .collect();
        // Written in assembler: the symbol is all there is.
        let function = || inputs.image.function_at(row.address).map(|f| f.name.clone());
        match row.frames.first_mut() {
            Some(f) if f.function.is_empty() => f.function = function().unwrap_or_default(),
            Some(_) => {}
            None => {
                let frame = |function| Frame { function, file: String::new(), line: 0, column: 0 };
                row.frames.extend(function().map(frame));
            }
        }
    }
}

/// `struct page` holds the pointer to the head of a compound page where lists have their links: code in which
/// `compound_head()` is inlined means the pointer.
fn name_heads(evidence: &mut Evidence) {
    let heads =
        |c: &Code| c.frames.iter().any(|f| f.function == "_compound_head" || f.function == "compound_head");
    let reads_head: Vec<bool> = evidence.code.iter().map(heads).collect();
    for t in evidence.touches.iter_mut().filter(|t| t.field.is_none()) {
        let page = evidence.objects.get(t.object as usize).is_some_and(|o| o.basis == Some(Basis::PageArray));
        if page && reads_head.get(t.code as usize) == Some(&true) {
            t.field = Some("compound_head".into());
        }
    }
}

fn code_row(address: u64) -> Code {
    Code { process: 0, module: Some(0), address, frames: Vec::new(), chain: Vec::new() }
}

/// What is not in the operations.
fn section_losses(stream: &Stream, end: &Summary, left_out: u64) -> Vec<Loss> {
    let cut = stream.sections.iter().filter(|s| u64::from(s.total) > s.steps.len() as u64).count();
    let loss = |count: u64, note: &str| Loss {
        process: None,
        what: "critical sections".into(),
        count,
        note: note.into(),
    };
    let mut out = vec![
        loss(end.sections_lost, "not in the operations: another task released the lock"),
        loss(left_out, "not in the operations: too many visits in all"),
        loss(cut as u64, "cut in the operations: visits after the first 1,024 are missing"),
    ];
    out.retain(|l| l.count > 0);
    out
}

/// A struct of the kernel that is laid out in a way that is not known here.
fn unknown_layout(why: &ImageError) -> Loss {
    let note = format!(
        "{why}: this kernel lays it out in a way that is not known here; slab objects may lack owners"
    );
    Loss { process: None, what: "unknown layouts".into(), count: 1, note }
}

/// What was left out, and what could not be attributed.
fn losses(end: &Summary, attribution: &Attribution) -> Vec<Loss> {
    let loss = |what: &str, count: u64, note: String| Loss { process: None, what: what.into(), count, note };
    let total: u64 = attribution.values().sum();
    let mut out = vec![
        loss(
            "outside of regions",
            end.outside,
            format!("accesses left out; {} regions were begun", end.regions),
        ),
        loss("kernel stacks and vmalloc memory", end.stack, "accesses left out".into()),
        loss("user memory accessed by the kernel", end.user, "accesses left out".into()),
        loss("CPU entry areas and device registers", end.entry, "accesses left out".into()),
        loss("entries of the ordered log", end.order_lost, "did not fit: there is no ordered log".into()),
        loss(
            "records that did not fit",
            end.lost,
            "accesses and transfers are too few by about as many".into(),
        ),
    ];
    for how in [How::Nothing, How::GeneralCache] {
        let count = attribution.get(&how).copied().unwrap_or(0);
        let share = 100.0 * count as f64 / total.max(1) as f64;
        out.push(loss(how.text(), count, format!("transfers, {share:.1}% of {total}")));
    }
    out.retain(|l| l.count > 0);
    out
}
