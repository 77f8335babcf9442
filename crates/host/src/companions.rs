//! Finds the files that debug information points at, where gdb and elfutils look for them.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use memmap2::{Mmap, UncheckedAdvice};
use tussle_debuginfo::{Bytes, CompanionRequest, Companions, Elf};

/// The running kernel's description of its own types.
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// Where distributions install separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Names of dwz files are followed through at most this many parent folders.
const PARENTS_MAX: usize = 32;

/// The configuration of a kernel that lies apart from it: beside the file as FILE.config, or as `config-VERSION` for
/// `vmlinux-VERSION` in its folder or in /boot.
pub fn kernel_config(file: &Path) -> Option<String> {
    let mut beside = file.to_path_buf().into_os_string();
    beside.push(".config");
    let name = file.file_name()?.to_string_lossy().into_owned();
    let running = || std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let version = match file == Path::new(KERNEL) {
        true => running().map(|v| v.trim().to_string()),
        false => ["vmlinux-", "vmlinuz-"].iter().find_map(|p| name.strip_prefix(p)).map(Into::into),
    };
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let named = |v: String| [folder.join(format!("config-{v}")), format!("/boot/config-{v}").into()];
    let mut files = std::iter::once(PathBuf::from(beside)).chain(version.into_iter().flat_map(named));
    files.find_map(|path| std::fs::read_to_string(path).ok())
}

/// Opens companions of one executable.
pub struct FileCompanions {
    /// The executable.
    file: PathBuf,
    /// Roots of separate debug files.
    roots: Vec<PathBuf>,
    /// Files of split objects are looked for here too.
    folder: PathBuf,
    /// The BTF that a module's continues, when somebody said so.
    btf_base: Option<PathBuf>,
    /// Files that do not belong to the executable though they lie where its own would.
    passed_over: Vec<String>,
}

impl FileCompanions {
    /// For the executable at `file`; further roots beside `/usr/lib/debug` come from `TUSSLE_DEBUG_DIRS`
    /// (separated by `:`).
    pub fn new(file: &Path) -> FileCompanions {
        let more = std::env::var_os("TUSSLE_DEBUG_DIRS").unwrap_or_default();
        let roots = std::env::split_paths(&more).chain([PathBuf::from(DEBUG_ROOT)]).collect();
        FileCompanions::with_roots(file, roots)
    }

    /// With exactly these roots of separate debug files.
    pub fn with_roots(file: &Path, roots: Vec<PathBuf>) -> FileCompanions {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        FileCompanions { file, roots, folder, btf_base: None, passed_over: Vec::new() }
    }

    /// With the file whose BTF a module's continues.
    pub fn with_btf_base(self, base: Option<&Path>) -> FileCompanions {
        FileCompanions { btf_base: base.map(Path::to_path_buf), ..self }
    }

    /// `<root>/.build-id/ab/cdef...debug`.
    fn by_build_id(&self, id: &[u8]) -> Option<Bytes> {
        let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!(".build-id/{first:02x}/{rest}.debug");
        self.roots.iter().map(|r| r.join(&name)).find_map(|path| {
            let bytes = map(&path)?;
            has_build_id(&bytes, id).then_some(bytes)
        })
    }

    /// Beside the file, in its `.debug` folder, and under the roots with the file's own path.
    fn by_link(&mut self, name: &str, crc: u32) -> Option<Bytes> {
        let name = Path::new(name).file_name()?;
        let below = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        let beside = [self.folder.join(name), self.folder.join(".debug").join(name)];
        let rooted = self.roots.iter().map(|r| r.join(below).join(name));
        let candidates: Vec<PathBuf> = beside.into_iter().chain(rooted).filter(|p| *p != self.file).collect();
        for path in candidates {
            let Some(bytes) = map(&path) else { continue };
            let found = crc32((*bytes).as_ref());
            if found == crc {
                return Some(bytes);
            }
            let path = path.display();
            let why =
                format!("{path} is of another build: its CRC is {found:08x}, .gnu_debuglink wants {crc:08x}");
            self.passed_over.push(why);
        }
        None
    }

    /// dwz's multifile: by build-id, as written, or relative to the file or to its debug file under a root.
    fn alternate(&self, name: &str, build_id: &[u8]) -> Option<Bytes> {
        let path = Path::new(name);
        let mut candidates = vec![self.folder.join(path)];
        if path.is_relative() {
            let below = self.folder.strip_prefix("/").unwrap_or(&self.folder);
            candidates.extend(self.roots.iter().map(|r| tidy(&r.join(below).join(path))));
            // a debug file found by build-id lies two folders below its root
            candidates.extend(self.roots.iter().map(|r| tidy(&r.join(".build-id/00").join(path))));
            candidates.extend(self.roots.iter().map(|r| r.join(".dwz").join(path)));
        }
        let same = |bytes: &Bytes| build_id.is_empty() || has_build_id(bytes, build_id);
        self.by_build_id(build_id).or_else(|| candidates.iter().filter_map(|p| map(p)).find(same))
    }

    /// A split object: as written, relative to the folder of its compilation, or beside the executable.
    fn split(&self, comp_dir: &str, name: &str) -> Option<Bytes> {
        let written = Path::new(comp_dir).join(name);
        let here = self.folder.join(name);
        let beside = Path::new(name).file_name().map(|n| self.folder.join(n));
        [Some(written), Some(here), beside].into_iter().flatten().find_map(|p| map(&p))
    }

    fn package(&self) -> Option<Bytes> {
        let mut name = OsString::from(&self.file);
        name.push(".dwp");
        map(Path::new(&name))
    }

    /// What the caller gave; else the `vmlinux` beside a saved BTF file; else, for a module that tells its kernel's
    /// version, that kernel's files; the running kernel's only for its own modules. The reader checks that the two fit.
    fn base_btf(&self) -> Option<Bytes> {
        if let Some(base) = &self.btf_base {
            return map(base);
        }
        let own = self.folder.join("vmlinux");
        let version = map(&self.file).and_then(|bytes| kernel_version((*bytes).as_ref()));
        let mut candidates = vec![own];
        if let Some(version) = &version {
            // A tree unpacked elsewhere has its `boot` beside its `lib/modules`.
            let tops = self.file.ancestors().filter(|a| a.join("lib/modules").join(version).is_dir());
            for top in tops.map(Path::to_path_buf).chain([PathBuf::from("/")]) {
                candidates.push(top.join("usr/lib/debug/boot").join(format!("vmlinux-{version}")));
                candidates.push(top.join("usr/lib/debug/lib/modules").join(version).join("vmlinux"));
                candidates.push(top.join("boot").join(format!("vmlinux-{version}")));
                candidates.push(top.join("lib/modules").join(version).join("build/vmlinux"));
            }
            candidates.extend(self.roots.iter().map(|r| r.join("boot").join(format!("vmlinux-{version}"))));
        }
        let running = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if version.is_none_or(|v| v == running.trim()) {
            candidates.push("/sys/kernel/btf/vmlinux".into());
        }
        candidates.into_iter().filter(|p| *p != self.file).find_map(|p| map(&p))
    }
}

/// The kernel that a module was built for, out of its `vermagic=6.1.0-1-amd64 SMP ..`.
fn kernel_version(module: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(module, b"\0vermagic=").or_else(|| {
        let first = memchr::memmem::find(module, b"vermagic=")?;
        first.checked_sub(1)
    })?;
    let text = module.get(at + 10..)?;
    let end = text.iter().take(128).position(|b| *b == b' ' || *b == 0)?;
    let version = std::str::from_utf8(&text[..end]).ok()?;
    let plain = version.chars().all(|c| c.is_ascii_alphanumeric() || "._+-~".contains(c));
    (plain && !version.is_empty() && !version.contains("..")).then(|| version.to_string())
}

impl Companions for FileCompanions {
    fn open(&mut self, request: &CompanionRequest) -> Option<Bytes> {
        match request {
            CompanionRequest::BuildId(id) => self.by_build_id(id),
            CompanionRequest::Debuglink { name, crc } => self.by_link(name, *crc),
            CompanionRequest::Alternate { name, build_id } => self.alternate(name, build_id),
            CompanionRequest::Dwo { comp_dir, name, .. } => self.split(comp_dir, name),
            CompanionRequest::Package => self.package(),
            CompanionRequest::BaseBtf => self.base_btf(),
            _ => None,
        }
    }

    fn passed_over(&self) -> &[String] {
        &self.passed_over
    }
}

/// The bytes of a file: mapped, or read where mapping is impossible (`/sys/kernel/btf/vmlinux` on older kernels).
///
/// # Errors
/// Those of opening and reading the file.
pub fn open_bytes(path: &Path) -> std::io::Result<Bytes> {
    if crate::whole::check(path)?.is_fifo() {
        return Ok(Arc::new(crate::whole::read(path)?));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    // SAFETY: the map is only read. A file that shrinks meanwhile kills the reader with SIGBUS, as in every
    // tool that maps executables.
    match unsafe { Mmap::map(&file) } {
        Ok(map) if !map.is_empty() => {
            let map = Arc::new(map);
            if map.len() as u64 > RESIDENT_MAX {
                keep_resident_low(Arc::downgrade(&map));
            }
            Ok(map)
        }
        _ => Ok(Arc::new(crate::whole::read(path)?)),
    }
}

/// Pages of a mapped file that may stay in memory, bytes: debug information of several gigabytes is read from its
/// beginning to its end.
const RESIDENT_MAX: u64 = 768 << 20;

/// Gives the pages of a large map back from time to time, as long as it exists. They stay in the system's cache.
fn keep_resident_low(map: Weak<Mmap>) {
    let work = move || {
        while let Some(map) = map.upgrade() {
            if resident_of_files().is_some_and(|bytes| bytes > RESIDENT_MAX) {
                // SAFETY: the map is of a file and only read: a page that is dropped is read again.
                let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
            }
            drop(map);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let _ = std::thread::Builder::new().name("trim".into()).spawn(work);
}

/// File pages of this process in memory, bytes.
fn resident_of_files() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    // SAFETY: a plain call.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    text.split(' ').nth(2)?.parse::<u64>().ok()?.checked_mul(page)
}

fn map(path: &Path) -> Option<Bytes> {
    if path.is_file() { open_bytes(path).ok() } else { None }
}

fn has_build_id(bytes: &Bytes, id: &[u8]) -> bool {
    Elf::parse((**bytes).as_ref()).is_ok_and(|elf| elf.build_id() == Some(id))
}

/// Resolves `..` in a path without asking the file system.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components().take(PARENTS_MAX * 8) {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// CRC-32 of `.gnu_debuglink`: the IEEE polynomial, as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}
