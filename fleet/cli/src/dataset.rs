//! A folder of Parquet files, partitioned by kind, day, host and build. Files are written beside, synced and renamed,
//! so that what has a name is whole; a file's name is the hash of what it came from, so that nothing is there twice.

use crate::args::Args;
use anyhow::{Context, bail};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::str::Utf8Chunk;
use std::time::Duration;

/// Version of the dataset's schema: grows when a column changes its meaning; new columns do not change it.
pub(crate) const SCHEMA: u32 = 1;
/// Where a file says it.
pub(crate) const SCHEMA_KEY: &str = "tussle.schema";
const MARKER: &str = "tussle-dataset.json";
const FORMAT: &str = "tussle-dataset";

/// The marker file.
#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    schema: u32,
}

/// Where rows belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// `2026-11-22`, or `unknown`.
    pub(crate) day: String,
    /// Name of the machine.
    pub(crate) host: String,
    /// Build-id or what stands for it.
    pub(crate) build: String,
    /// Permissions of its files.
    pub(crate) mode: u32,
}

/// A dataset that this version can append to.
pub(crate) struct Dataset {
    root: PathBuf,
}

impl Dataset {
    /// Opens a folder, or makes it a dataset when it is new or empty.
    ///
    /// # Errors
    /// The folder holds something else, a newer schema, or cannot be written.
    pub(crate) fn open_or_create(root: &Path) -> anyhow::Result<Dataset> {
        let at = || root.display().to_string();
        let marker = root.join(MARKER);
        if marker.try_exists().unwrap_or(false) {
            return Dataset::open(root);
        }
        fs::create_dir_all(root).with_context(at)?;
        let mut names = fs::read_dir(root).with_context(at)?.flatten().map(|e| e.file_name());
        let other = names.any(|n| !n.to_string_lossy().starts_with('.'));
        // Looked for again, after the others: whoever makes it a dataset at this moment writes the marker first.
        if marker.try_exists().with_context(at)? {
            return Dataset::open(root);
        }
        if other {
            bail!("{}: a folder with other things in it; name an empty or a new one", root.display());
        }
        let text = serde_json::to_vec(&Marker { format: FORMAT.into(), schema: SCHEMA })?;
        put(&marker, FOR_ALL, |file| Ok(std::io::Write::write_all(file, &text)?)).with_context(at)?;
        Ok(Dataset { root: root.into() })
    }

    /// Opens a dataset.
    ///
    /// # Errors
    /// It is none, or of a newer schema.
    pub(crate) fn open(root: &Path) -> anyhow::Result<Dataset> {
        let marker = root.join(MARKER);
        let text = fs::read(&marker).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => anyhow::anyhow!(
                "{}: no dataset (`tussle export --parquet --to FOLDER` makes one)",
                root.display()
            ),
            _ => anyhow::Error::new(e).context(marker.display().to_string()),
        })?;
        let read: Marker = serde_json::from_slice(&text).with_context(|| marker.display().to_string())?;
        if read.format != FORMAT || read.schema > SCHEMA {
            bail!(
                "{}: {} of schema {}; this tussle-fleet writes {FORMAT} of schema {SCHEMA}: update it, or name \
                 another folder",
                root.display(),
                read.format,
                read.schema
            );
        }
        Ok(Dataset { root: root.into() })
    }

    /// Its folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of one kind.
    pub(crate) fn kind(&self, kind: &str) -> PathBuf {
        self.root.join(format!("kind={kind}"))
    }

    /// The file that rows of `kind` from the source with this key have or will have.
    pub(crate) fn file(&self, kind: &str, p: &Partition, key: &str) -> PathBuf {
        let folder = |name: &str, value: &str| format!("{name}={}", escape(value));
        let path = self.kind(kind).join(folder("day", &p.day)).join(folder("host", &p.host));
        path.join(folder("build", &p.build)).join(format!("{key}.parquet"))
    }

    /// Writes a file. The same key again replaces it by the same rows.
    ///
    /// # Errors
    /// The file system refuses; nothing with that name is there then, or the older whole file.
    pub(crate) fn append(
        &self,
        kind: &str,
        p: &Partition,
        key: &str,
        batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
    ) -> anyhow::Result<u64> {
        let path = self.file(kind, p, key);
        let mut rows = 0;
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        clear(folder);
        put(&path, p.mode, |file| {
            let mut writer: Option<ArrowWriter<&mut File>> = None;
            let mut file = Some(file);
            for batch in batches {
                let batch = batch?;
                if let Some(file) = file.take() {
                    writer = Some(ArrowWriter::try_new(file, batch.schema(), Some(properties()))?);
                }
                rows += batch.num_rows() as u64;
                if let Some(w) = writer.as_mut() {
                    w.write(&batch)?;
                }
            }
            match writer {
                Some(w) => w.close().map(drop)?,
                None => bail!("no table"),
            }
            Ok(())
        })
        .with_context(|| path.display().to_string())?;
        Ok(rows)
    }
}

/// Texts that are hardly ever there twice: a dictionary of them would be made in vain.
const UNLIKE: [&str; 3] = ["task", "document", "parameters"];

fn properties() -> WriterProperties {
    let schema = KeyValue::new(SCHEMA_KEY.to_string(), SCHEMA.to_string());
    let made = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("tussle-fleet {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![schema]))
        // Nobody looks for documents from one to another.
        .set_column_statistics_enabled("document".into(), EnabledStatistics::None);
    UNLIKE.iter().fold(made, |made, name| made.set_column_dictionary_enabled((*name).into(), false)).build()
}

/// What has no source of its own is for others, too; what the umask takes away stays away.
pub(crate) const FOR_ALL: u32 = 0o666;
const PART: &str = ".part-";
/// Who writes locks its file this soon after making it.
const YOUNG: Duration = Duration::from_secs(2);

/// Who may read and write a file made of this one: whoever may read and write it.
pub(crate) fn mode_of(source: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    source.metadata().map_or(0o600, |m| m.permissions().mode() & FOR_ALL)
}

/// Writes beside, syncs, renames, syncs the folder. A name that begins with a dot is never read. While it is written it
/// is locked, so that others can tell what a killed writer left behind.
fn put(path: &Path, mode: u32, write: impl FnOnce(&mut File) -> anyhow::Result<()>) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().unwrap_or(Path::new("."));
    let permissions = fs::Permissions::from_mode(mode);
    let mut temporary = tempfile::Builder::new().prefix(PART).permissions(permissions).tempfile_in(folder)?;
    lock(temporary.as_file());
    write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|e| e.error)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// False: somebody else holds it, or this file system has no locks.
fn lock(file: &File) -> bool {
    // SAFETY: a descriptor that is open.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Removes what killed writers left in a folder; what cannot be removed is ignored by all readers.
fn clear(folder: &Path) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()) {
        let part = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PART));
        let Some(file) = part.then(|| File::open(&path).ok()).flatten() else { continue };
        let old = |m: fs::Metadata| m.modified().ok()?.elapsed().ok().map(|age| age > YOUNG);
        if file.metadata().ok().and_then(old) == Some(true) && lock(&file) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// What engines take for a null in the name of a folder.
const NULLS: [&str; 2] = ["__HIVE_DEFAULT_PARTITION__", "NULL"];

/// The name of a folder: what is no letter, digit, dot, dash or underscore as `%2F`, and so the first letter of what
/// would be read as nothing.
fn escape(text: &str) -> String {
    let null = NULLS.iter().any(|n| n.eq_ignore_ascii_case(text));
    let plain = |(i, b): (usize, u8)| (b.is_ascii_alphanumeric() || b"._-".contains(&b)) && !(null && i == 0);
    let byte = |(i, b)| if plain((i, b)) { char::from(b).to_string() } else { format!("%{b:02X}") };
    let name: String = text.bytes().enumerate().map(byte).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

/// The hash of what rows came from, 32 hex digits.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n)]);
    hash.finalize().iter().take(16).flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// The host that rows belong to: as it was named, else this machine, unless it must not be told.
pub(crate) fn host_of(args: &Args) -> String {
    let unnamed = || if args.has("redact") { "redacted".into() } else { host_name() };
    args.text("host").unwrap_or_else(unnamed)
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    let bytes = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    match as_text(bytes.trim_ascii()).as_str() {
        "" => "unknown".into(),
        name => name.into(),
    }
}

/// Bytes as a text, those that are none as `\xFF`: two names that differ stay two.
pub(crate) fn as_text(bytes: &[u8]) -> String {
    let part = |c: Utf8Chunk<'_>| {
        let odd = c.invalid().iter().map(|b| format!("\\x{b:02X}"));
        c.valid().to_string() + &odd.collect::<String>()
    };
    bytes.utf8_chunks().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        let refused = Dataset::open_or_create(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("other things"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MARKER), r#"{"format":"tussle-dataset","schema":99}"#).unwrap();
        let refused = Dataset::open_or_create(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("schema 99"), "{refused}");
    }

    #[test]
    fn machines_whose_names_are_no_text_stay_apart() {
        let names: [&[u8]; 4] = [b"web", b"web\xff", b"web\xfe", "wéb".as_bytes()];
        assert_eq!(names.map(as_text), ["web", "web\\xFF", "web\\xFE", "wéb"]);
    }

    #[test]
    fn names_of_folders_are_safe() {
        assert_eq!(escape("../a b=ü"), "..%2Fa%20b%3D%C3%BC");
        assert_eq!(escape(""), "unknown");
        assert_eq!(escape("__HIVE_DEFAULT_PARTITION__"), "%5F_HIVE_DEFAULT_PARTITION__");
        assert_eq!((escape("null"), escape("nullable")), ("%6Eull".into(), "nullable".into()));
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(key(&[b"a"]), "ae6121c88ba555f64c3d812123eb799d");
    }
}
