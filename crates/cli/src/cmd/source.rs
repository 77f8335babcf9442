//! Files that hold layouts, opened for the verbs that compare and print them.

use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use tussle_debuginfo::dwarf::Want;
use tussle_host::companions::{FileCompanions, open_bytes};
use tussle_layout::near::{also, near};
use tussle_layout::slab::Cache;
use tussle_model::{LineSize, TypeId, TypeTable};

pub use tussle_host::companions::KERNEL;

/// The types of one file.
pub struct Source {
    /// As the user named it.
    pub path: PathBuf,
    /// Its types.
    pub table: TypeTable,
    /// It comes from BTF, which keeps neither `aligned` nor source lines.
    pub btf: bool,
    /// Architecture as the kernel names it (`x86_64`, `arm64`), if the file tells.
    pub arch: Option<String>,
    /// Byte order of what the file describes; raw BTF and snapshots are taken for little-endian.
    pub little_endian: bool,
}

/// Every definition of a name is looked for in files up to this size, bytes; beyond it the first one is taken.
const ALL_DEFINITIONS_MAX: usize = 2 << 30;

impl Source {
    /// Opens `path` and reads the named types, or all of them when `names` is empty.
    pub fn open(path: &Path, names: &[String], global: &Global) -> anyhow::Result<Source> {
        let bytes = open_bytes(path).with_context(|| format!("{}", path.display()))?;
        Source::read((*bytes).as_ref(), path, names, global)
    }

    /// [`Source::open`] of what was read of `path` already.
    pub fn read(bytes: &[u8], path: &Path, names: &[String], global: &Global) -> anyhow::Result<Source> {
        let want = match names {
            [] => Want::All,
            names if bytes.len() <= ALL_DEFINITIONS_MAX => Want::Definitions(names),
            names => {
                global.remark(format_args!(
                    "{}: large: the first definition of each name is taken",
                    path.display()
                ));
                Want::Names(names)
            }
        };
        let mut companions = FileCompanions::new(path).with_btf_base(global.btf_base.as_deref());
        let (table, problems) = tussle_debuginfo::open(bytes, &want, &mut companions)
            .with_context(|| format!("{}", path.display()))?;
        if let (true, true, Some(first)) =
            (names.is_empty(), table.aggregates().next().is_none(), problems.first())
        {
            bail!("{}: no type can be read: {first}", path.display());
        }
        for problem in problems.iter().take(5) {
            global.remark(format_args!("{}: {problem}", path.display()));
        }
        if problems.len() > 5 {
            global.remark(format_args!("{}: {} more problems", path.display(), problems.len() - 5));
        }
        // Snapshots that do not tell: only BTF has no source lines at all.
        let no_lines = || table.aggregates().all(|(_, a)| a.decl.is_none());
        let btf = table.aligns_lost.unwrap_or_else(no_lines);
        Ok(Source {
            path: path.to_path_buf(),
            table,
            btf,
            arch: tussle_debuginfo::arch(bytes),
            little_endian: !bytes.starts_with(b"\x7fELF") || bytes.get(5) != Some(&2),
        })
    }

    /// Stands for a file that cannot be read: no types.
    pub fn unreadable(path: &Path) -> Source {
        Source {
            path: path.to_path_buf(),
            table: TypeTable::new(8),
            btf: false,
            arch: None,
            little_endian: true,
        }
    }

    /// All definitions of that name.
    ///
    /// # Errors
    /// Names close matches when there is none.
    pub fn find_all(&self, name: &str) -> anyhow::Result<Vec<TypeId>> {
        let found = self.table.find_all(name);
        if found.is_empty() { self.find(name).map(|id| vec![id]) } else { Ok(found) }
    }

    /// The configuration of the kernel: what lies beside the file or in /boot, or what the file carries itself.
    pub fn kernel_config(&self) -> Option<String> {
        tussle_host::companions::kernel_config(&self.path).or_else(|| {
            // looked for only here: it may lie anywhere in the file
            open_bytes(&self.path).ok().and_then(|b| tussle_debuginfo::ikconfig((*b).as_ref()))
        })
    }

    /// The type of that name.
    ///
    /// # Errors
    /// Names close matches when there is none.
    pub fn find(&self, name: &str) -> anyhow::Result<TypeId> {
        if let Some(id) = self.table.find(name) {
            return Ok(id);
        }
        let all = open_bytes(&self.path).ok().and_then(|bytes| {
            let bytes: &[u8] = (*bytes).as_ref();
            tussle_debuginfo::open(bytes, &Want::All, &mut FileCompanions::new(&self.path)).ok()
        });
        let close = all.map(|(table, _)| near(&table, name, 5)).unwrap_or_default();
        let file = self.path.display();
        bail!("{file}: no type named `{name}`{}", also(&close))
    }
}

/// The argument of `--phase`: an object begins inside of a line.
pub fn phase_in(line: LineSize, phase: Option<u64>) -> anyhow::Result<Option<u64>> {
    let (bytes, outside) = (line.bytes(), phase.filter(|&p| p >= line.bytes()));
    match outside {
        Some(p) => {
            bail!("--phase {p}: an object begins 0 to {} bytes into a line of {bytes} bytes", bytes - 1)
        }
        None => Ok(phase),
    }
}

/// Names out of `-C a,b`; commas inside `<>` or `()` belong to C++ names.
pub fn split_names(lists: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for list in lists {
        let (mut depth, mut name) = (0i32, String::new());
        for c in list.chars() {
            match c {
                '<' | '(' => depth += 1,
                '>' | ')' => depth -= 1,
                ',' if depth == 0 => {
                    out.push(std::mem::take(&mut name));
                    continue;
                }
                _ => {}
            }
            name.push(c);
        }
        out.push(name);
    }
    out.into_iter().map(|n| n.trim().to_string()).filter(|n| !n.is_empty()).collect()
}

/// Reads `/sys/kernel/slab` or a saved copy of it: one folder per cache.
///
/// # Errors
/// When the folder cannot be read or holds no cache.
pub fn slab_caches(dir: &Path) -> anyhow::Result<Vec<Cache>> {
    let mut caches = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let entry = entry?;
        let number = |file: &str| -> Option<u64> {
            std::fs::read_to_string(entry.path().join(file)).ok()?.trim().parse().ok()
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        let (Some(object_size), Some(slab_size)) = (number("object_size"), number("slab_size")) else {
            continue;
        };
        let (align, objs) = (number("align").unwrap_or(8), number("objs_per_slab").unwrap_or(1));
        caches.push(Cache { name, object_size, slab_size, align, objs_per_slab: objs });
    }
    if caches.is_empty() {
        bail!("{}: no slab cache here (it should look like /sys/kernel/slab)", dir.display());
    }
    caches.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(caches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_templates_do_not_split() {
        let got = split_names(&["a,std::pair<int, long>".into(), "b".into()]);
        assert_eq!(got, ["a", "std::pair<int, long>", "b"]);
    }
}
