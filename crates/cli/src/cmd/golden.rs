//! Layouts kept in a repository: a folder of snapshots, each compared with or renewed from the build of its name.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Endings of what a snapshot `NAME.json` is taken of.
const ENDINGS: [&str; 5] = ["", ".o", ".ko", ".so", ".json"];

/// A snapshot, the build that belongs to it, and the types that it holds.
pub struct Golden {
    /// `layouts/NAME.json`.
    pub snapshot: PathBuf,
    /// The file given, or `NAME`, `NAME.o`, `NAME.ko`, `NAME.so` or `NAME.json` in the folder given.
    pub build: PathBuf,
    /// Types that the snapshot was taken of.
    pub names: Vec<String>,
}

/// The snapshots of a folder, by name.
///
/// # Errors
/// When there are none, or one has no build.
pub fn of(folder: &Path, build: &Path) -> anyhow::Result<Vec<Golden>> {
    let mut paths = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            entries.and_then(|all| all.map(|e| Ok(e?.path())).collect::<std::io::Result<Vec<PathBuf>>>())
        }
    }
    .with_context(|| format!("{}", folder.display()))?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort_unstable();
    let mut out = Vec::new();
    for snapshot in paths {
        let bytes = std::fs::read(&snapshot).with_context(|| format!("{}", snapshot.display()))?;
        let names = tussle_debuginfo::snapshot::root_names(&bytes);
        let names = names.with_context(|| format!("{}", snapshot.display()))?;
        out.push(Golden { build: build_of(&snapshot, build)?, names, snapshot });
    }
    if out.is_empty() {
        bail!(
            "{}: no snapshot here; `tussle snapshot FILE -C NAME -o {}` makes one",
            folder.display(),
            tussle_render::shell::word(&folder.join("NAME.json").to_string_lossy())
        );
    }
    Ok(out)
}

fn build_of(snapshot: &Path, build: &Path) -> anyhow::Result<PathBuf> {
    if !build.is_dir() {
        return Ok(build.to_path_buf());
    }
    let stem = snapshot.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let found = ENDINGS.iter().map(|end| build.join(format!("{stem}{end}"))).find(|p| p.is_file());
    found.with_context(|| {
        format!("{}: no {stem}, {stem}.o, .ko, .so or .json in {}", snapshot.display(), build.display())
    })
}
