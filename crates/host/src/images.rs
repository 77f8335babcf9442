//! Opens modules, their debug files and sources for naming.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tussle_debuginfo::{Bytes, CompanionRequest, Elf};
use tussle_naming::Images;

/// Source files above this are not read: they are made by generators, and naming reads them as text.
const SOURCE_BYTES_MAX: u64 = 32 << 20;

/// Where distributions put separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// The files of this machine.
#[derive(Debug, Default)]
pub struct HostImages {
    /// `from → to`: sources below `from` in the debug information lie below `to` here (`-ffile-prefix-map`).
    pub source_maps: Vec<(PathBuf, PathBuf)>,
    /// Folders in which sources with relative paths are looked for.
    pub source_roots: Vec<PathBuf>,
    alternatives: HashMap<PathBuf, Option<PathBuf>>,
}

impl HostImages {
    /// Looks for relative sources in the current folder.
    pub fn new() -> Self {
        HostImages { source_roots: std::env::current_dir().into_iter().collect(), ..Default::default() }
    }

    fn find_source(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.alternatives.get(path) {
            return known.clone();
        }
        let mapped =
            self.source_maps.iter().filter_map(|(from, to)| Some(to.join(path.strip_prefix(from).ok()?)));
        let rooted = self.source_roots.iter().filter(|_| path.is_relative()).map(|root| root.join(path));
        let found = std::iter::once(path.to_path_buf())
            .filter(|p| p.is_absolute())
            .chain(mapped)
            .chain(rooted)
            .find(|p| p.is_file());
        self.alternatives.insert(path.to_path_buf(), found.clone());
        found
    }
}

impl Images for HostImages {
    fn module(&mut self, path: &str, _build_id: Option<&str>) -> Result<Bytes, String> {
        map(Path::new(path)).map_err(|e| format!("cannot be read ({e}): its addresses are not named"))
    }

    fn companion(&mut self, path: &str, request: &CompanionRequest) -> Option<Bytes> {
        let beside = Path::new(path).parent().unwrap_or(Path::new("."));
        match request {
            CompanionRequest::BuildId(id) => {
                let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
                let (head, tail) = hex.split_at_checked(2)?;
                let file = Path::new(DEBUG_ROOT).join(".build-id").join(head).join(format!("{tail}.debug"));
                map(&file).ok().filter(|b| has_build_id(b, id))
            }
            CompanionRequest::Debuglink { name, .. } => {
                let name = Path::new(name).file_name()?;
                let global =
                    Path::new(DEBUG_ROOT).join(beside.strip_prefix("/").unwrap_or(beside)).join(name);
                let own =
                    Elf::parse((*map(Path::new(path)).ok()?).as_ref()).ok()?.build_id().map(<[u8]>::to_vec);
                [beside.join(name), beside.join(".debug").join(name), global]
                    .into_iter()
                    .filter(|f| f != Path::new(path))
                    .filter_map(|f| map(&f).ok())
                    .find(|b| own.as_ref().is_none_or(|id| has_build_id(b, id)))
            }
            CompanionRequest::Alternate { name, build_id } => {
                let file = beside.join(name);
                map(&file).ok().filter(|b| has_build_id(b, build_id))
            }
            CompanionRequest::Dwo { comp_dir, name, .. } => map(&Path::new(comp_dir).join(name)).ok(),
            CompanionRequest::Package => map(Path::new(&format!("{path}.dwp"))).ok(),
            _ => None,
        }
    }

    fn source(&mut self, path: &str) -> Option<Arc<str>> {
        let file = self.find_source(Path::new(path))?;
        let size = std::fs::metadata(&file).ok()?.len();
        if size > SOURCE_BYTES_MAX {
            return None;
        }
        let bytes = std::fs::read(&file).ok()?;
        Some(String::from_utf8_lossy(&bytes).into())
    }
}

fn has_build_id(bytes: &Bytes, id: &[u8]) -> bool {
    Elf::parse((**bytes).as_ref()).ok().and_then(|e| e.build_id().map(|b| b == id)).unwrap_or(false)
}

/// Maps a regular file; an empty one cannot be mapped and is an error.
fn map(path: &Path) -> std::io::Result<Bytes> {
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    // SAFETY: the map is private and only read. A file that shrinks meanwhile would raise SIGBUS, as for any
    // debugger; reading gigabytes of debug information instead would cost every run.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Arc::new(map))
}
