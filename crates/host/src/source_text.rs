//! Lines of source files that evidence names, for people to read beside its figures.
//!
//! Evidence may come from anybody, and what is printed may be passed on: only files below one folder are opened, and
//! only regular ones of a source's size. A file changed since the recording may say something else in that line, so
//! it is not shown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A source file larger than this is none.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files read for one view.
const FILES_MAX: usize = 256;
/// Characters of one line.
const LINE_CHARACTERS_MAX: usize = 400;

/// Reads lines of the files below a folder, each file once.
#[derive(Debug)]
pub struct SourceText {
    root: PathBuf,
    recorded: Option<SystemTime>,
    files: HashMap<String, Option<Vec<String>>>,
}

impl SourceText {
    /// Files below `root` that were last changed before `recorded_unix_s` (seconds since the epoch); of evidence that
    /// does not say when it was recorded none is older, so none is read.
    ///
    /// # Errors
    /// `root` is no folder that can be opened.
    pub fn below(root: &Path, recorded_unix_s: Option<f64>) -> std::io::Result<SourceText> {
        let recorded = recorded_unix_s
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .and_then(|s| SystemTime::UNIX_EPOCH.checked_add(s));
        Ok(SourceText { root: root.canonicalize()?, recorded, files: HashMap::new() })
    }

    /// Line `number` of `file`, counted from 1; `None` where it cannot be shown for any of the reasons above.
    pub fn line(&mut self, file: &str, number: u32) -> Option<String> {
        if !self.files.contains_key(file) {
            let lines = (self.files.len() < FILES_MAX).then(|| self.read(file)).flatten();
            self.files.insert(file.into(), lines);
        }
        let lines = self.files.get(file)?.as_ref()?;
        lines.get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
    }

    /// The same of a path as seen from `here`, or, where the program was built elsewhere, from the sources' folder.
    pub fn seen_from(&mut self, here: &Path, file: &str, number: u32) -> Option<String> {
        self.line(&here.join(file).to_string_lossy(), number).or_else(|| self.line(file, number))
    }

    fn read(&self, file: &str) -> Option<Vec<String>> {
        let path = self.root.join(file).canonicalize().ok().filter(|p| p.starts_with(&self.root))?;
        let about = path.metadata().ok().filter(|m| m.is_file() && m.len() <= FILE_BYTES_MAX)?;
        let changed = about.modified().ok()?;
        self.recorded.filter(|recorded| changed < *recorded)?;
        let bytes = std::fs::read(&path).ok()?;
        let printable = |c: &char| *c == '\t' || !c.is_control();
        let line = |l: &str| l.chars().filter(printable).take(LINE_CHARACTERS_MAX).collect();
        Some(String::from_utf8_lossy(&bytes).lines().map(line).collect())
    }
}

/// The longest end of the path that is a file from the current folder on: debug information names the folder of the
/// compilation.
pub fn checkout_path(path: &Path) -> Option<String> {
    let parts: Vec<_> = path.components().filter(|c| matches!(c, std::path::Component::Normal(_))).collect();
    let ends = (0..parts.len()).map(|i| parts[i..].iter().collect::<PathBuf>());
    ends.into_iter().find(|end| end.is_file()).map(|end| end.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> Option<f64> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Some(now.as_secs_f64() + 60.0)
    }

    #[test]
    fn only_older_files_below_the_folder_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("src/a.c"), "one\ntwo \x1b[31m\n").unwrap();
        std::fs::write(dir.path().join("secret"), "secret\n").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link.c")).unwrap();
        let mut text = SourceText::below(&root, later()).unwrap();
        let absolute = root.join("src/a.c");
        assert_eq!(text.line(absolute.to_str().unwrap(), 1).as_deref(), Some("one"));
        assert_eq!(text.line("src/a.c", 2).as_deref(), Some("two [31m"), "no control characters");
        assert_eq!((text.line("src/a.c", 0), text.line("src/a.c", 3)), (None, None));
        let outside = dir.path().join("secret");
        for file in ["../secret", "link.c", outside.to_str().unwrap(), "src", "/dev/zero", "src/../../secret"]
        {
            assert_eq!(text.line(file, 1), None, "{file}");
        }
        for recorded in [None, Some(1.0), Some(f64::NAN), Some(-1.0), Some(1e300)] {
            assert_eq!(SourceText::below(&root, recorded).unwrap().line("src/a.c", 1), None, "{recorded:?}");
        }
    }
}
