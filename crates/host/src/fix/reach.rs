//! How far a change of some files reaches in a copy that was built, and what was compiled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::calls::{self, is_unit};
use super::sources::{COMPUTED, Sources, is_source, normal};

/// The C and C++ files among `files` and all that include them, directly or through others, as far as names of files
/// tell; with them what includes a name that the preprocessor computes. Relative to `root`; what builds made there
/// counts, too.
pub(crate) fn changed_with(root: &Path, files: &[&PathBuf]) -> BTreeSet<PathBuf> {
    let files: Vec<&&PathBuf> = files.iter().filter(|p| is_source(p)).collect();
    // No text is wanted.
    let Some(sources) = Sources::read(root, "\0").ok().filter(|_| !files.is_empty()) else {
        return BTreeSet::new();
    };
    let mut out: BTreeSet<PathBuf> = files.iter().flat_map(|f| sources.users(f)).collect();
    out.extend(sources.users(Path::new(COMPUTED)));
    out.retain(|p| root.join(p).is_file());
    out
}

/// The units of the calls that were written down below `log`, relative to `root`.
pub(crate) fn sources_compiled(log: &Path, root: &Path) -> BTreeSet<PathBuf> {
    let real = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let below = |path: PathBuf| {
        let path = normal(&path);
        path.strip_prefix(root).or(path.strip_prefix(&real)).ok().map(Path::to_path_buf)
    };
    let calls = calls::logged(log);
    let units = calls.iter().flat_map(|c| c.args.iter().filter(|a| is_unit(a)).map(|a| c.dir.join(a)));
    units.filter_map(below).collect()
}
