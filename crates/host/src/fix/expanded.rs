//! What macros hide: the units are asked for uses of the layout as the preprocessor leaves them.

use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::patch::Refusal;
use tussle_advise::patch::uses::{Ask, Uses};

use super::calls::Call;
use super::sources::{Sources, normal};

/// Units that are looked at.
const UNITS_MAX: usize = 256;

/// A struct whose layout changes.
pub(super) struct Hidden<'a> {
    pub(super) sources: &'a Sources,
    pub(super) name: &'a str,
    /// The file that defines it.
    pub(super) file: &'a Path,
    /// Another order of its members.
    pub(super) edits: Option<&'a [Edit]>,
    /// Its size changes.
    pub(super) resized: bool,
    /// The copy in which the calls run.
    pub(super) root: &'a Path,
}

impl Hidden<'_> {
    /// Refuses with the first use in what `calls` compile.
    pub(super) fn check(&self, calls: &[Call]) -> Result<(), Refusal> {
        let texts = self.sources.texts_of(self.name, self.file);
        let uses = Uses::new(self.name, self.edits, &texts);
        let calls = &calls[..calls.len().min(UNITS_MAX)];
        let found = super::parallel(calls, |call| {
            let text = Text::of(call, self.root);
            let ask = Ask { size: self.resized, ..Ask::LAYOUT };
            uses.of_text(&text.text, ask, &|line| text.place(line))
        });
        Uses::judge(found)
    }
}

/// A preprocessed unit without what is not the project's.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    files: Vec<String>,
    /// Per line its file and line.
    lines: Vec<(usize, u32)>,
}

impl Text {
    /// What `call` compiles; empty where the preprocessor fails.
    pub(super) fn of(call: &Call, root: &Path) -> Text {
        let out = call.expand().map(|o| o.stdout).unwrap_or_default();
        Text::read(&String::from_utf8_lossy(&out), &call.dir, root)
    }

    fn read(expanded: &str, dir: &Path, root: &Path) -> Text {
        let canonical = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let below = |path: &str| -> Option<PathBuf> {
            let path = normal(&dir.join(path));
            Some(path.strip_prefix(root).or(path.strip_prefix(&canonical)).ok()?.to_path_buf())
        };
        let mut out = Text::default();
        let (mut file, mut line) = (None, 0);
        for row in expanded.lines() {
            if let Some((at, path)) = marker(row) {
                line = at;
                file = below(path).map(|p| out.number(&p));
                continue;
            }
            if let Some(file) = file {
                out.text.push_str(row);
                out.text.push('\n');
                out.lines.push((file, line));
            }
            line += 1;
        }
        out
    }

    /// Files and lines on which `word` stands.
    pub(super) fn places_of(&self, word: &str) -> impl Iterator<Item = (&str, u32)> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let has = move |row: &str| row.split(|c| !is_word(c)).any(|w| w == word);
        let rows = self.text.lines().zip(&self.lines).filter(move |(row, _)| has(row));
        rows.map(|(_, (file, line))| (self.files[*file].as_str(), *line))
    }

    fn number(&mut self, path: &Path) -> usize {
        let path = path.to_string_lossy();
        self.files.iter().position(|f| *f == path).unwrap_or_else(|| {
            self.files.push(path.into_owned());
            self.files.len() - 1
        })
    }

    /// File and line of a line of the text (1-based).
    fn place(&self, line: u32) -> (String, u32) {
        let at = (line as usize).checked_sub(1).and_then(|i| self.lines.get(i));
        at.map_or((String::new(), line), |&(file, line)| (self.files[file].clone(), line))
    }
}

/// `# 12 "a.h" 1`.
fn marker(row: &str) -> Option<(u32, &str)> {
    let (line, rest) = row.strip_prefix("# ")?.split_once(' ')?;
    Some((line.parse().ok()?, rest.strip_prefix('"')?.split('"').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_project_keep_their_places() {
        let expanded = "# 0 \"x.c\"\n# 1 \"/usr/include/a.h\" 1\nint system;\n# 2 \"sub/../x.c\" 2\nint a;\nint b;\n\
                        # 9 \"/root/y.h\" 1\nint c;\n";
        let text = Text::read(expanded, Path::new("/root"), Path::new("/root"));
        assert_eq!(text.text, "int a;\nint b;\nint c;\n");
        let places: Vec<(String, u32)> = (1..=3).map(|l| text.place(l)).collect();
        assert_eq!(places, [("x.c".into(), 2), ("x.c".into(), 3), ("y.h".into(), 9)]);
    }
}
