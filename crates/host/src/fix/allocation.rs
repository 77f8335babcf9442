//! The allocations that have to change together with a struct: those of types whose alignment rises above what C's
//! heap gives, and those that `alloc=N` asks for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::patch::alloc::{self, Changed, Goal, HEAP};
use tussle_advise::patch::init::names_of;
use tussle_advise::relayout::Relayout;
use tussle_model::TypeId;

use super::sources::Sources;
use super::{Build, FixError, Request};

/// What C's `malloc` gives on 64-bit machines, bytes (`alignof(max_align_t)`).
const HEAP_ALIGN: u64 = 16;

/// Whether edits may ask for other allocations.
pub(super) fn may_change(edits: &[Edit]) -> bool {
    edits.iter().any(|e| matches!(e, Edit::Alloc { .. } | Edit::Element { .. } | Edit::Align { .. }))
}

/// Files that such edits may change, beside the one with the struct.
pub(super) fn candidates(request: &Request<'_>, sources: &Sources) -> Vec<PathBuf> {
    if !may_change(request.edits) || request.build == &Build::Kernel {
        return Vec::new();
    }
    let allocates = |t: &str| t.contains("sizeof") && HEAP.iter().any(|h| t.contains(h));
    let all = sources.texts().into_iter().filter(|f| allocates(f.1));
    all.map(|f| PathBuf::from(f.0)).collect()
}

/// What the allocations must give after a change.
pub(super) struct Needs {
    types: Vec<String>,
    bytes: u64,
    whole: bool,
    strict: bool,
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
        if !may_change(request.edits) || request.build == &Build::Kernel {
            return Ok(None);
        }
        let table = shapes.table();
        let mut out = Needs { types: Vec::new(), bytes: 0, whole: true, strict: false };
        let mut names = BTreeSet::new();
        if let Some(bytes) = relayout.heap_block(target) {
            out.bytes = bytes;
            out.whole = relayout.size(target)?.is_some_and(|s| s % bytes == 0);
            names.insert(request.type_name.to_string());
        }
        for (id, _) in table.aggregates() {
            let (Ok(old), Ok(new)) = (shapes.align(id), relayout.align(id)) else { continue };
            if new > old && new > HEAP_ALIGN {
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
        alloc::rewrite(&goal, &texts, request.sites).map_err(FixError::Use)?;
        for (path, text) in texts.iter_mut().filter(|t| Path::new(t.0) == file) {
            (*path, *text) = (*path, new);
        }
        alloc::rewrite(&goal, &texts, &[]).map_err(FixError::Use)
    }

    /// Notes for a reviewer.
    pub(super) fn notes(&self, changed: &[Changed]) -> Vec<String> {
        let places = |c: &Changed| {
            let lines: Vec<String> = c.lines.iter().map(u32::to_string).collect();
            format!("{}:{}", c.path, lines.join(","))
        };
        let places: Vec<String> = changed.iter().map(places).collect();
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
