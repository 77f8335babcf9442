//! Patches of variables that are no structs, verified by the sizes that the compiler gives them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};
use tussle_advise::Edit;
use tussle_advise::patch::variable::{self, Change};
use tussle_advise::patch::{self, Refusal};

use super::compile::Compiler;
use super::place::BuildCopy;
use super::sources::Sources;
use super::{FieldMove, FixError, Patched, PatchedFile, Request, diagnostics};
use crate::companions::open_bytes;

/// Elements that are listed.
const ELEMENTS_MAX: u64 = 4096;

/// Patches the variables that the edits name; `None` when the sources define no such variable.
pub(super) fn patch_tree(
    request: &Request<'_>,
    sources: &Sources,
    announce: &mut dyn FnMut(&str),
) -> Result<Option<Patched>, FixError> {
    if request.build.is_kernel() || !variable::is_defined(request.type_name, &sources.texts()) {
        return Ok(None);
    }
    let changes: Vec<(&str, Change)> =
        request.edits.iter().map(|e| change(request.type_name, e)).collect::<Result<_, _>>()?;
    let files = changed(sources, &changes).map_err(FixError::Use)?;
    let Some(first) = files.first() else { return Ok(None) };
    if !request.abi_ok {
        public(request, &files).map_err(FixError::Use)?;
    }
    let real: Vec<PathBuf> = files.iter().map(|f| f.path.clone()).collect();
    let place = BuildCopy::new(request, &real)?;
    let compiler = Compiler::new(request, sources, &first.path, &place)?;
    let sizes = |file: &Path| sizes(file, &changes);
    let before = compiler.find(false, announce, &sizes).map_err(|e| unseen(e, request.type_name))?;
    let calls = compiler.calls()?;
    let said = diagnostics::of(&calls);
    sources.can_write(&files)?;
    files.iter().try_for_each(|f| place.write(&f.path, &f.new))?;
    let after = compiler.find(true, announce, &sizes)?;
    if let Some(text) = diagnostics::new_one(&said, &diagnostics::of(&calls), true) {
        return Err(FixError::Meaning(format!("with the patch the compiler says: {text}")));
    }
    let mut fields = Vec::new();
    for (n, (name, change)) in changes.iter().enumerate() {
        fields.extend(verified(name, *change, before[n], after[n])?);
    }
    let diff = files.iter().map(|f| patch::unified_diff(&f.path.to_string_lossy(), &f.old, &f.new)).collect();
    Ok(Some(Patched {
        type_name: request.type_name.into(),
        edits: request.edits.to_vec(),
        diff,
        files,
        fields,
        size_before: before[0],
        size_after: after[0],
        notes: Vec::new(),
    }))
}

/// Debug information says nothing of a variable's place: the symbol does.
fn unseen(error: FixError, name: &str) -> FixError {
    match error {
        FixError::NoLayout { command, .. } => FixError::Meaning(format!(
            "nothing that `{command}` built has a symbol of {name}, so that its size cannot be verified: an optimising \
             compiler keeps only what is needed of a variable; give a build without (--build, -O0)"
        )),
        other => other,
    }
}

/// Refuses where programs outside of the folder are built with a header that changes.
fn public(request: &Request<'_>, files: &[PatchedFile]) -> Result<(), Refusal> {
    let shared = super::sources::builds_shared_library(request.dir);
    let check =
        |f: &PatchedFile| patch::boundary::check(request.type_name, &f.path.to_string_lossy(), shared);
    files.iter().try_for_each(check)
}

/// What an edit does to which variable.
fn change<'e>(name: &'e str, edit: &'e Edit) -> Result<(&'e str, Change), FixError> {
    match edit {
        Edit::Element { bytes } => Ok((name, Change::Spread(*bytes))),
        Edit::Align { field, bytes } => Ok((field, Change::Align(*bytes))),
        other => Err(FixError::Meaning(format!(
            "{name} is a variable: align:NAME=N aligns it, element=N gives every element of an array so many bytes; \
             {other} is for structs"
        ))),
    }
}

/// The changed files, that with the first variable first.
fn changed(sources: &Sources, changes: &[(&str, Change)]) -> Result<Vec<PatchedFile>, Refusal> {
    let mut now: BTreeMap<String, String> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for (name, change) in changes {
        let texts: Vec<(&str, &str)> =
            sources.texts().into_iter().map(|(p, t)| (p, now.get(p).map_or(t, |n| n.as_str()))).collect();
        for c in variable::patch(name, *change, &texts)? {
            if !order.contains(&c.path) {
                order.push(c.path.clone());
            }
            now.insert(c.path, c.text);
        }
    }
    let file = |path: String| {
        let new = now.get(&path).cloned().unwrap_or_default();
        PatchedFile { old: sources.text(Path::new(&path)).to_string(), new, path: path.into() }
    };
    Ok(order.into_iter().map(file).collect())
}

/// Bytes of every changed variable in a file that was built; `None` unless it has all of them. By the symbol table:
/// in objects that are not linked yet, debug information knows no addresses.
fn sizes(file: &Path, changes: &[(&str, Change)]) -> Option<Vec<u64>> {
    let bytes = open_bytes(file).ok()?;
    let image = object::File::parse((*bytes).as_ref()).ok()?;
    let data = |s: &object::Symbol<'_, '_>| {
        matches!(s.kind(), object::SymbolKind::Data | object::SymbolKind::Tls | object::SymbolKind::Unknown)
            && s.size() > 0
    };
    let size = |name: &str| {
        let named = image.symbols().filter(data).filter(|s| s.name().is_ok_and(|n| is_symbol_of(n, name)));
        let mut sizes: Vec<u64> = named.map(|s| s.size()).collect();
        sizes.dedup();
        (sizes.len() == 1).then(|| sizes[0])
    };
    changes.iter().map(|(name, _)| size(name)).collect()
}

/// Whether a symbol is that of the variable `name`: `counts`, `calls.0` of a static in a function, `_ZN3app4hitsE` of
/// `app::hits` (the Itanium C++ ABI writes lengths before names).
fn is_symbol_of(symbol: &str, name: &str) -> bool {
    let bare = name.rsplit("::").next().unwrap_or(name);
    if symbol.starts_with("_Z") {
        let part = |p: &str| {
            let p = if p == "(anonymous namespace)" { "_GLOBAL__N_1" } else { p };
            format!("{}{p}", p.len())
        };
        let around: String =
            name.strip_suffix(bare).unwrap_or("").split("::").filter(|p| !p.is_empty()).map(part).collect();
        // `L`: seen in its file alone.
        let whole = ["", "L"].iter().any(|l| symbol.contains(&format!("{around}{l}{}", part(bare))));
        return whole || symbol.ends_with(&part(bare));
    }
    let stem = symbol.split_once('.').filter(|(_, n)| n.chars().all(|c| c.is_ascii_digit()));
    stem.map_or(symbol, |s| s.0) == bare
}

/// Where the variable's elements lie, if the sizes are those that the change must give.
fn verified(name: &str, change: Change, before: u64, after: u64) -> Result<Vec<FieldMove>, FixError> {
    let mismatch =
        |predicted| FixError::Mismatch { field: format!("the end of {name}"), predicted, actual: after };
    let Change::Spread(bytes) = change else {
        let whole = FieldMove { path: name.into(), before: 0, after: 0, size: before };
        return if before == after { Ok(vec![whole]) } else { Err(mismatch(before)) };
    };
    let fits = |n: &u64| before % n == 0 && (before / n).div_ceil(bytes) * bytes * n == after;
    let counts: Vec<u64> = (1..=before).filter(fits).collect();
    let count = match counts[..] {
        [] => return Err(mismatch(before.div_ceil(bytes) * bytes)),
        [one] => one,
        // Elements and rows of them would give the same size: which of the two they are is not known.
        _ => return Ok(vec![FieldMove { path: name.into(), before: 0, after: 0, size: before }]),
    };
    let (old, new) = (before / count, after / count);
    let element =
        |i: u64| FieldMove { path: format!("{name}[{i}]"), before: i * old, after: i * new, size: old };
    Ok((0..count.min(ELEMENTS_MAX)).map(element).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_the_names_of_variables() {
        let is = |symbol: &str, name: &str| assert!(is_symbol_of(symbol, name), "{symbol} {name}");
        is("counts", "counts");
        is("calls.0", "f::calls");
        is("_ZN3app4hitsE", "app::hits");
        is("_ZL4hits", "hits");
        is("_ZZ4mainE5calls", "main::calls");
        is("_ZN12_GLOBAL__N_15limitE", "(anonymous namespace)::limit");
        is("_ZN3app12_GLOBAL__N_1L5limitE", "app::(anonymous namespace)::limit");
        let not = |symbol: &str, name: &str| assert!(!is_symbol_of(symbol, name), "{symbol} {name}");
        not("counts2", "counts");
        not("_ZN3app5hits2E", "app::hits");
        not("_ZN3app4miss", "app::hits");
        not("counts.cold", "counts");
    }

    #[test]
    fn sizes_must_be_those_of_the_change() {
        let offsets = |change, before, after| {
            verified("n", change, before, after).ok().map(|f| f.iter().map(|f| f.after).collect::<Vec<_>>())
        };
        assert_eq!(offsets(Change::Spread(64), 32, 256), Some(vec![0, 64, 128, 192]));
        assert_eq!(offsets(Change::Spread(64), 160, 256), Some(vec![0]), "4 of 40 bytes, or 2 of 80");
        assert_eq!(offsets(Change::Spread(64), 32, 200), None);
        assert_eq!(offsets(Change::Align(64), 8, 8), Some(vec![0]));
        assert_eq!(offsets(Change::Align(64), 8, 64), None);
    }
}
