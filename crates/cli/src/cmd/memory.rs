//! Bytes of objects: of a file, a core dump or a running process.

use anyhow::{Context, bail};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tussle_debuginfo::Elf;
use tussle_host::companions::open_bytes;

/// Where an object lies.
#[derive(clap::Args)]
pub struct ObjectAt {
    /// Print the object that lies in FILE from OFFSET on (bytes, decimal or 0x..).
    #[arg(long, value_name = "FILE@OFFSET", conflicts_with_all = ["pid", "core"])]
    data: Option<String>,
    /// Print the object in a running process; takes --addr.
    #[arg(long, value_name = "PID", requires = "addr")]
    pid: Option<u32>,
    /// Print the object in a core dump; takes --addr.
    #[arg(long, value_name = "FILE", requires = "addr", conflicts_with = "pid")]
    core: Option<PathBuf>,
    /// Address of the object.
    #[arg(long, value_name = "ADDR", value_parser = number, conflicts_with = "data")]
    addr: Option<u64>,
}

impl ObjectAt {
    /// Is an object to be printed?
    pub fn is_given(&self) -> bool {
        self.data.is_some() || self.pid.is_some() || self.core.is_some() || self.addr.is_some()
    }

    /// Up to `size` bytes of the object: fewer where the file ends.
    ///
    /// # Errors
    /// When not even the first byte can be read.
    pub fn read(&self, size: u64) -> anyhow::Result<Vec<u8>> {
        let size = usize::try_from(size).ok().filter(|n| *n <= BYTES_MAX).context("the type is too large")?;
        if let Some(data) = &self.data {
            let (file, offset) = data.rsplit_once('@').context("--data: FILE@OFFSET is needed")?;
            let offset = number(offset).map_err(|e| anyhow::anyhow!("--data: {e}"))?;
            return part(Path::new(file), offset, size);
        }
        let addr = self.addr.context("--addr is needed")?;
        match (self.pid, &self.core) {
            (Some(pid), _) => part(&PathBuf::from(format!("/proc/{pid}/mem")), addr, size),
            (None, Some(core)) => {
                let bytes = open_bytes(core).with_context(|| format!("{}", core.display()))?;
                let elf = Elf::parse((*bytes).as_ref()).with_context(|| format!("{}", core.display()))?;
                let found = elf.memory(addr).with_context(|| {
                    format!(
                        "{}: {addr:#x} is not in it (file-backed memory is often left out)",
                        core.display()
                    )
                })?;
                Ok(found[..size.min(found.len())].to_vec())
            }
            (None, None) => bail!("--addr: --pid or --core is needed"),
        }
    }
}

/// Objects beyond this are not printed.
const BYTES_MAX: usize = 64 << 20;

fn part(file: &Path, offset: u64, size: usize) -> anyhow::Result<Vec<u8>> {
    let open = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
    let (mut bytes, mut got) = (vec![0; size], 0);
    while got < size {
        let at = offset.checked_add(got as u64).context("the object ends behind the last address")?;
        match open.read_at(&mut bytes[got..], at) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if got == 0 => {
                return Err(e).with_context(|| format!("{} at {offset:#x}", file.display()));
            }
            Err(_) => break,
        }
    }
    if got == 0 && size > 0 {
        bail!("{}: ends before {offset:#x}", file.display());
    }
    bytes.truncate(got);
    Ok(bytes)
}

/// Decimal, or hexadecimal with `0x`.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is no number (decimal, or 0x..)"))
}
