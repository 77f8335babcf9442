//! A file or bytes that hold layouts. Types are read when they are asked for: one struct of a kernel takes
//! milliseconds, all of it a second.

use anyhow::{Context, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{Bytes, Elf};
use tussle_host::companions::{FileCompanions, kernel_config, open_bytes};
use tussle_host::whole;
use tussle_layout::near::near;
use tussle_model::{TypeId, TypeTable};

/// Files of more bytes are mapped: a kernel with all of its debug information.
const READ_MAX: u64 = 256 << 20;

/// What the first bytes of a file with evidence are.
const EVIDENCE: &[u8] = b"{\"format\":\"tussle-evidence\"";

/// Types of a file.
#[derive(Debug)]
pub struct Types {
    /// The types.
    pub table: TypeTable,
    /// They come from BTF, which keeps neither `aligned` nor source lines.
    pub btf: bool,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// An executable, object, kernel, BTF file or snapshot.
pub struct Source {
    /// What it is called in views: the path, or `bytes`.
    pub name: String,
    path: PathBuf,
    bytes: Bytes,
    btf_base: Option<PathBuf>,
    /// All types under the empty list.
    read: Mutex<HashMap<Vec<String>, Arc<Types>>>,
}

impl Source {
    /// A file. It is read, so that who shortens it meanwhile does not end this process; only a very large one is
    /// mapped.
    ///
    /// # Errors
    /// It cannot be read, or is nothing that holds layouts.
    pub fn open(path: &Path, btf_base: Option<&Path>) -> anyhow::Result<Source> {
        let large = path.metadata().is_ok_and(|m| m.len() > READ_MAX);
        let read = || whole::read(path).map(|bytes| Arc::new(bytes) as Bytes);
        let bytes = if large { open_bytes(path) } else { read() }.with_context(|| path.display().to_string())?;
        let name = path.display().to_string();
        Source::new(name, path.to_path_buf(), bytes, btf_base.map(Path::to_path_buf))
    }

    /// Bytes that are no file.
    ///
    /// # Errors
    /// They are nothing that holds layouts.
    pub fn of_bytes(bytes: Vec<u8>) -> anyhow::Result<Source> {
        Source::new("bytes".into(), PathBuf::new(), Arc::new(bytes), None)
    }

    fn new(name: String, path: PathBuf, bytes: Bytes, btf_base: Option<PathBuf>) -> anyhow::Result<Source> {
        let source = Source { name, path, bytes, btf_base, read: Mutex::default() };
        let start: &[u8] = (*source.bytes).as_ref();
        if start.starts_with(EVIDENCE) {
            bail!("{}: an evidence file; `evidence` reads it", source.name);
        }
        let known = tussle_debuginfo::elf::is_elf(start)
            || tussle_debuginfo::btf::is_btf(start)
            || tussle_debuginfo::snapshot::is_snapshot(start);
        if !known {
            source.types(&[])?;
        }
        Ok(source)
    }

    /// Bytes of the file.
    pub fn len(&self) -> usize {
        (*self.bytes).as_ref().len()
    }

    /// There is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These types in all definitions, or all types when no name is given.
    ///
    /// # Errors
    /// The file holds no types, or is damaged so that nothing is left.
    pub fn types(&self, names: &[String]) -> anyhow::Result<Arc<Types>> {
        let mut read = self.read.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = read.get(&[][..]).or_else(|| read.get(names)) {
            return Ok(known.clone());
        }
        let want = if names.is_empty() { Want::All } else { Want::Definitions(names) };
        let mut companions = FileCompanions::new(&self.path).with_btf_base(self.btf_base.as_deref());
        let (table, problems) = tussle_debuginfo::open((*self.bytes).as_ref(), &want, &mut companions)
            .with_context(|| self.name.clone())?;
        // Only BTF has no source lines at all.
        let btf = table.aggregates().all(|(_, a)| a.decl.is_none());
        let types =
            Arc::new(Types { table, btf, problems: problems.iter().map(ToString::to_string).collect() });
        read.insert(names.to_vec(), types.clone());
        Ok(types)
    }

    /// All definitions of one name.
    ///
    /// # Errors
    /// Names close matches when there is none.
    pub fn find(&self, name: &str) -> anyhow::Result<(Arc<Types>, Vec<TypeId>)> {
        let types = self.types(&[name.to_string()])?;
        let mut found = types.table.find_all(name);
        found.extend(types.table.find(name).filter(|_| found.is_empty()));
        if !found.is_empty() {
            return Ok((types, found));
        }
        let close = near(&self.types(&[])?.table, name, 5);
        let file = &self.name;
        match close.as_slice() {
            [] => bail!("{file}: no type named `{name}`"),
            close => bail!("{file}: no type named `{name}`; close: {}", close.join(", ")),
        }
    }

    /// The kernel's name of the architecture that an ELF file is for; raw BTF and snapshots do not tell.
    pub fn arch(&self) -> Option<String> {
        tussle_debuginfo::arch((*self.bytes).as_ref())
    }

    /// The build's configuration, of a kernel: what lies beside the file or in /boot, or what the file carries itself.
    pub fn config(&self) -> Option<String> {
        kernel_config(&self.path).or_else(|| tussle_debuginfo::ikconfig((*self.bytes).as_ref()))
    }

    /// Build-id of an ELF file, hex.
    pub fn build_id(&self) -> Option<String> {
        let elf = Elf::parse((*self.bytes).as_ref()).ok()?;
        Some(elf.build_id()?.iter().map(|b| format!("{b:02x}")).collect())
    }
}

/// A file name fits a pattern in which `*` stands for anything.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter(|i| name.is_char_boundary(*i)).any(|i| fits(rest, &name[i..]))
}
