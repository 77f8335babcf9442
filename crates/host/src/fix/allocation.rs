//! The allocations that have to change together with a struct: those of types whose alignment rises above what C's
//! heap gives, and those that `alloc=N` asks for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::patch::Refusal;
use tussle_advise::patch::alloc::{self, Changed, Goal, HEAP, slab};
use tussle_advise::patch::init::names_of;
use tussle_advise::relayout::Relayout;
use tussle_model::TypeId;

use super::calls::Call;
use super::sources::Sources;
use super::{FixError, Request};

/// What C's `malloc` gives on 64-bit machines, bytes (`alignof(max_align_t)`).
const HEAP_ALIGN: u64 = 16;

/// What a kernel's slab gives, bytes (`ARCH_SLAB_MINALIGN`).
const SLAB_ALIGN: u64 = 8;

/// Whether edits may ask for other allocations.
pub(super) fn may_change(edits: &[Edit]) -> bool {
    let asks = |e: &Edit| {
        matches!(e, Edit::Alloc { .. } | Edit::Element { .. } | Edit::Align { .. } | Edit::Spread { .. })
    };
    edits.iter().any(asks)
}

/// Files that such edits may change, beside the one with the struct.
pub(super) fn candidates(request: &Request<'_>, sources: &Sources) -> Vec<PathBuf> {
    if !may_change(request.edits) {
        return Vec::new();
    }
    let kernel = request.build.is_kernel();
    let allocates = |t: &str| match kernel {
        true => slab::makes_caches(t),
        false => t.contains("sizeof") && HEAP.iter().any(|h| t.contains(h)),
    };
    let all = sources.texts().into_iter().filter(|f| allocates(f.1));
    all.map(|f| PathBuf::from(f.0)).collect()
}

/// What the allocations must give after a change.
pub(super) struct Needs {
    types: Vec<String>,
    bytes: u64,
    whole: bool,
    strict: bool,
    kernel: bool,
}

impl Needs {
    /// Of `target` and of all types that hold it; `None` when today's allocations will do.
    pub(super) fn of(
        request: &Request<'_>,
        sources: &Sources,
        shapes: &Shapes<'_>,
        target: TypeId,
        relayout: &Relayout<'_>,
    ) -> Result<Option<Needs>, FixError> {
        let kernel = request.build.is_kernel();
        if !may_change(request.edits) {
            return Ok(None);
        }
        let table = shapes.table();
        let mut out = Needs { types: Vec::new(), bytes: 0, whole: true, strict: false, kernel };
        let given = if kernel { SLAB_ALIGN } else { HEAP_ALIGN };
        let mut names = BTreeSet::new();
        if let Some(bytes) = relayout.heap_block(target) {
            if kernel {
                let why =
                    "alloc=N changes calls of C's heap, and a kernel has none: align the type, element=N";
                return Err(FixError::Meaning(why.into()));
            }
            out.bytes = bytes;
            out.whole = relayout.size(target)?.is_some_and(|s| s % bytes == 0);
            names.insert(request.type_name.to_string());
        }
        for (id, _) in table.aggregates() {
            let (Ok(old), Ok(new)) = (shapes.align(id), relayout.align(id)) else { continue };
            if new > old && new > given {
                (out.bytes, out.strict) = (out.bytes.max(new), true);
                names.extend(tussle_advise::advice::source_name(table, id));
            }
        }
        let texts = sources.texts();
        out.types = names.iter().flat_map(|n| names_of(n, &texts)).collect();
        Ok((!out.types.is_empty()).then_some(out))
    }

    /// The files that change; `file` has the text `new` by then. Recorded sites are looked for in the old texts.
    pub(super) fn changes(
        &self,
        request: &Request<'_>,
        sources: &Sources,
        file: &Path,
        new: &str,
    ) -> Result<Vec<Changed>, FixError> {
        let goal = Goal { types: &self.types, bytes: self.bytes, whole: self.whole, strict: self.strict };
        let mut texts = sources.texts();
        if !self.kernel {
            alloc::rewrite(&goal, &texts, request.sites).map_err(FixError::Use)?;
        }
        for (path, text) in texts.iter_mut().filter(|t| Path::new(t.0) == file) {
            (*path, *text) = (*path, new);
        }
        if self.kernel {
            return Ok(slab::rewrite(&self.types, self.bytes, &texts));
        }
        alloc::rewrite(&goal, &texts, &[]).map_err(FixError::Use)
    }

    /// Refuses where C++ allocates such types by `new` or in containers and the compiler does not align them (before
    /// C++17); a note where it does.
    pub(super) fn by_new(&self, sources: &Sources, calls: &[Call]) -> Result<Option<String>, FixError> {
        let texts = sources.texts();
        let Some((file, line)) = alloc::by_new(&self.types, &texts).filter(|_| self.strict) else {
            return Ok(None);
        };
        let mut asked: Vec<Vec<String>> = Vec::new();
        for call in calls.iter().filter(|c| c.is_cpp()) {
            let mut key: Vec<String> = call.args.iter().filter(|a| a.starts_with("-std=")).cloned().collect();
            key.push(call.compiler.clone());
            if asked.contains(&key) {
                continue;
            }
            asked.push(key);
            if call.aligns_new() == Some(false) {
                let why =
                    "new and the standard containers align to 16 bytes at most before C++17 (-faligned-new)";
                let file = file.to_string();
                return Err(FixError::Use(Refusal::Allocation { file, line, why: why.into() }));
            }
        }
        let note = "new and the standard containers align it: the build's C++ does (__cpp_aligned_new)";
        Ok((!asked.is_empty()).then(|| note.into()))
    }

    /// Notes for a reviewer.
    pub(super) fn notes(&self, changed: &[Changed]) -> Vec<String> {
        let places = |c: &Changed| {
            let lines: Vec<String> = c.lines.iter().map(u32::to_string).collect();
            format!("{}:{}", c.path, lines.join(","))
        };
        let places: Vec<String> = changed.iter().map(places).collect();
        if self.kernel {
            let caches = match places.is_empty() {
                true => "none by sizeof is seen to need a change".to_string(),
                false => {
                    format!("changed at {}, compiled only where that is the object above", places.join(" "))
                }
            };
            return vec![format!(
                "slab caches align objects as their creation says, not as the type needs: {caches}; other caches \
                 and kmalloc of sizes that are no power of two are for you to check"
            )];
        }
        match places.is_empty() {
            true => Vec::new(),
            false => vec![format!(
                "memory of whole blocks of {} bytes is asked for at {}; memory by other ways is for you to align",
                self.bytes,
                places.join(" ")
            )],
        }
    }
}
