//! Recordings on disk: a file, or a folder of `perf record --threads`.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tussle_perf::Input;
use tussle_perf::import::{self, Imported, Recording};

/// What is not perf.data in a file is read whole, up to so many bytes.
pub const WHOLE_MAX: u64 = 1 << 30;

/// A file that is read in pieces.
struct OpenFile {
    file: File,
    size: u64,
}

impl OpenFile {
    fn open(path: &Path) -> anyhow::Result<OpenFile> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let size = file.metadata().with_context(|| path.display().to_string())?.len();
        Ok(OpenFile { file, size })
    }
}

impl Input for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

/// What a path holds.
pub enum Found {
    /// perf.data: the file with the header, and the files beside it.
    Recording(PathBuf, Vec<PathBuf>),
    /// Everything else, or what came through a pipe.
    Bytes(Vec<u8>),
}

/// Is it perf.data?
pub fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP")
}

/// Looks at a path; `-` is the standard input. More than `most` bytes that are read whole are an error.
pub fn find(path: &Path, most: u64) -> anyhow::Result<Found> {
    let whole = |input: &mut dyn Read| whole(input, most);
    let named = || path.display().to_string();
    if path.as_os_str() == "-" {
        return whole(&mut io::stdin().lock()).map(Found::Bytes).context("standard input");
    }
    if path.is_dir() {
        let main = path.join("data");
        if !main.is_file() {
            bail!("{}: a folder without a file `data`, so no recording of `perf record --threads`", named());
        }
        return Ok(Found::Recording(main, numbered(path)?));
    }
    tussle_host::whole::check(path).with_context(named)?;
    let mut file = File::open(path).with_context(named)?;
    if !file.metadata().with_context(named)?.is_file() {
        return whole(&mut file).map(Found::Bytes).with_context(named);
    }
    let mut magic = [0u8; 8];
    let n = file.read_at(&mut magic, 0).with_context(named)?;
    if is_perf_data(&magic[..n]) {
        return Ok(Found::Recording(path.to_path_buf(), Vec::new()));
    }
    whole(&mut file).map(Found::Bytes).with_context(named)
}

fn whole(input: &mut dyn Read, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    input.take(most + 1).read_to_end(&mut out)?;
    if out.len() as u64 > most {
        bail!("more than {} MiB that cannot be read in pieces; perf.data in a file can", most >> 20);
    }
    Ok(out)
}

/// `data.0`, `data.1`, ... in order.
fn numbered(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("data.")?.parse::<u32>().ok());
        out.extend(number.map(|n| (n, folder.join(&name))));
    }
    out.sort_unstable();
    Ok(out.into_iter().map(|f| f.1).collect())
}

/// Reads recordings as if they were one.
pub fn import(files: &[(PathBuf, Vec<PathBuf>)]) -> anyhow::Result<Imported> {
    let open = |f: &(PathBuf, Vec<PathBuf>)| -> anyhow::Result<(OpenFile, Vec<OpenFile>)> {
        Ok((OpenFile::open(&f.0)?, f.1.iter().map(|p| OpenFile::open(p)).collect::<Result<_, _>>()?))
    };
    let open: Vec<_> = files.iter().map(open).collect::<Result<_, _>>()?;
    let recordings: Vec<Recording<'_>> = open
        .iter()
        .map(|(main, more)| Recording { main, more: more.iter().map(|f| f as &dyn Input).collect() })
        .collect();
    let names: Vec<String> = files.iter().map(|f| f.0.display().to_string()).collect();
    import::recordings(&recordings).with_context(|| names.join(", "))
}
