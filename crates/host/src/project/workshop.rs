//! A copy of a folder that is built once, and after each change of its text only as far as the change reaches.
//!
//! Makefiles often do not know which headers their objects were made of. Whatever includes a changed file therefore
//! counts as changed, too, and what the compilers were called with tells whether all of it was compiled again. Where it
//! was not, the copy is made and built anew.

use super::traces::Traces;
use super::{BuildError, Programs, Project, Scratch, ScratchError, System, writable_copy};
use crate::cc::CALLS_VARIABLE;
use crate::fix::changed_with;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The copy.
#[derive(Debug)]
pub struct Workshop {
    project: Project,
    /// What was copied.
    from: PathBuf,
    env: Vec<(&'static str, OsString)>,
    copy: Scratch,
    /// What compilers were called with: a folder for each build.
    calls: Scratch,
    builds: Cell<usize>,
    /// When the last build of everything began, and the last build.
    begun: Cell<(SystemTime, SystemTime)>,
    /// Sources that the last build of everything compiled.
    compiled: RefCell<BTreeSet<PathBuf>>,
    /// What was built from the text that was kept.
    before: Scratch,
    texts: RefCell<BTreeMap<PathBuf, Text>>,
    /// Files that were written since they were built.
    stale: RefCell<BTreeSet<PathBuf>>,
    /// What lay in the copy when it was built.
    traces: RefCell<Traces>,
    /// A run has changed what cannot be given back: nothing is known of the next one.
    worn: Cell<bool>,
}

/// A file that is other than the folder's, or was for a while.
#[derive(Clone, Debug)]
struct Text {
    kept: String,
    now: String,
}

impl Workshop {
    /// Copies `from` (the project's folder or a patched copy of it) and builds the copy, with `env` added to the
    /// environment.
    ///
    /// # Errors
    /// It cannot be copied, or does not build.
    pub fn new(
        project: &Project,
        from: &Path,
        env: Vec<(&'static str, OsString)>,
    ) -> Result<(Workshop, Programs), WorkshopError> {
        let copy = project.copy(from)?;
        let workshop = Workshop {
            project: project.clone(),
            from: from.to_path_buf(),
            env,
            copy,
            calls: Scratch::empty()?,
            builds: Cell::new(0),
            begun: Cell::new((SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH)),
            compiled: RefCell::default(),
            before: Scratch::empty()?,
            texts: RefCell::default(),
            stale: RefCell::default(),
            traces: RefCell::default(),
            worn: Cell::new(false),
        };
        let old = Programs::before(workshop.path());
        workshop.whole()?;
        let programs = Programs::after(&project.system, workshop.path(), &old);
        Ok((workshop, programs))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.copy.path()
    }

    /// The folder in which a build wrote down what the compilers were called with.
    fn log(&self, build: usize) -> PathBuf {
        self.calls.path().join(build.to_string())
    }

    /// These folders of all builds.
    pub(crate) fn calls(&self) -> Vec<PathBuf> {
        (1..=self.builds.get()).map(|n| self.log(n)).collect()
    }

    /// Gives a file another text.
    pub(crate) fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let at = self.path().join(path);
        let mut texts = self.texts.borrow_mut();
        let was = match texts.get(path) {
            Some(t) => t.now.clone(),
            None => fs::read_to_string(&at)?,
        };
        if was == text {
            return Ok(());
        }
        fs::write(&at, text)?;
        let known = texts.entry(path.to_path_buf()).or_insert(Text { kept: was, now: String::new() });
        known.now = text.to_string();
        self.stale.borrow_mut().insert(path.to_path_buf());
        Ok(())
    }

    /// Gives every file the text that was kept last.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let texts = self.texts.borrow().clone();
        texts.iter().try_for_each(|(path, text)| self.write(path, &text.kept))
    }

    /// The texts are those to go on from, and so is what was built of them.
    ///
    /// # Errors
    /// What was built cannot be kept.
    pub fn keep(&self) -> io::Result<()> {
        self.texts.borrow_mut().values_mut().for_each(|t| t.kept = t.now.clone());
        for old in fs::read_dir(self.before.path())? {
            fs::remove_file(old?.path())?;
        }
        for (n, file) in Programs::linked(self.path(), self.begun.get().0).iter().enumerate() {
            fs::copy(file, self.before.path().join(n.to_string()))?;
        }
        Ok(())
    }

    /// Programs and libraries that were built of the texts that were kept.
    pub(crate) fn before(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.before.path()).into_iter().flatten().flatten();
        files.map(|f| f.path()).collect()
    }

    /// Programs and libraries that the last build made.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        Programs::linked(self.path(), self.begun.get().1)
    }

    /// The copy with these texts, and else those that were kept, built.
    ///
    /// # Errors
    /// It does not build.
    pub fn with<'t>(
        &self,
        texts: impl Iterator<Item = (&'t Path, &'t str)>,
        announce: &mut dyn FnMut(&str),
    ) -> Result<(), WorkshopError> {
        let mut wanted: BTreeMap<PathBuf, String> =
            self.texts.borrow().iter().map(|(path, t)| (path.clone(), t.kept.clone())).collect();
        wanted.extend(texts.map(|(path, text)| (path.to_path_buf(), text.to_string())));
        for (path, text) in &wanted {
            self.write(path, text).map_err(WorkshopError::Io)?;
        }
        self.again(announce)
    }

    /// Builds what changed since the last build; every command is told to `announce`.
    ///
    /// # Errors
    /// It does not build.
    pub fn again(&self, announce: &mut dyn FnMut(&str)) -> Result<(), WorkshopError> {
        let stale = self.stale.borrow().clone();
        if stale.is_empty() && !self.worn.get() {
            return Ok(());
        }
        if !self.worn.get() && self.in_part(&stale, announce)? {
            return Ok(());
        }
        announce(&self.project.system.command());
        self.project.copy_again(&self.from, &self.copy)?;
        for (path, text) in self.texts.borrow().iter() {
            fs::write(self.path().join(path), &text.now).map_err(WorkshopError::Io)?;
        }
        self.whole()
    }

    /// A build of everything.
    fn whole(&self) -> Result<(), WorkshopError> {
        let command = self.project.system.command();
        self.run(&command)?;
        self.begun.set((self.begun.get().1, self.begun.get().1));
        *self.compiled.borrow_mut() = self.sources_of(self.builds.get());
        self.built()
    }

    /// A build of what `stale` files reach. `false`: nobody can say that it was all.
    fn in_part(
        &self,
        stale: &BTreeSet<PathBuf>,
        announce: &mut dyn FnMut(&str),
    ) -> Result<bool, WorkshopError> {
        let system = &self.project.system;
        let (rust, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
            stale.iter().partition(|p| p.extension().is_some_and(|e| e == "rs"));
        let reached = changed_with(self.path(), &others);
        let compiled = self.compiled.borrow();
        let expected: Vec<PathBuf> = compiled.iter().filter(|p| reached.contains(*p)).cloned().collect();
        drop(compiled);
        let known = others.is_empty() || !expected.is_empty();
        let cargo = matches!(system, System::Cargo(_) | System::Member(..));
        if !known || (!rust.is_empty() && !cargo && !matches!(system, System::Single(_))) {
            return Ok(false);
        }
        for path in &reached {
            touch(&self.path().join(path)).map_err(WorkshopError::Io)?;
        }
        announce(&system.again());
        if let Err(e) = self.run(&system.again()) {
            // A command of the user's may be one that works once: `mkdir build && ..`.
            return if matches!(system, System::Shell(_)) { Ok(false) } else { Err(e) };
        }
        let compiled = self.sources_of(self.builds.get());
        if !expected.iter().all(|p| compiled.contains(p)) {
            return Ok(false);
        }
        self.built()?;
        Ok(true)
    }

    fn run(&self, command: &str) -> Result<(), WorkshopError> {
        self.builds.set(self.builds.get() + 1);
        self.begun.set((self.begun.get().0, SystemTime::now()));
        let log = self.log(self.builds.get());
        fs::create_dir(&log).map_err(WorkshopError::Io)?;
        let mut env = self.env.clone();
        env.push((CALLS_VARIABLE, log.into()));
        Ok(self.project.run_in(&self.copy, command, &env)?)
    }

    fn built(&self) -> Result<(), WorkshopError> {
        self.stale.borrow_mut().clear();
        self.worn.set(false);
        *self.traces.borrow_mut() = Traces::of(self.path(), &|path| self.from.join(path).is_file())?;
        Ok(())
    }

    /// What a build compiled, relative to the copy.
    fn sources_of(&self, build: usize) -> BTreeSet<PathBuf> {
        crate::fix::sources_compiled(&self.log(build), self.path())
    }

    /// Takes away what a run of the program left in the copy, so that the next one finds what it found.
    pub fn clean(&self) {
        let write = |path: &Path| {
            let (at, texts) = (self.path().join(path), self.texts.borrow());
            match (texts.get(path), self.from.join(path)) {
                (Some(text), _) => fs::write(at, &text.now).map(|()| true),
                (None, source) if source.is_file() => writable_copy(&source, &at).map(|()| true),
                _ => Ok(false),
            }
        };
        let clean = self.traces.borrow_mut().undo(self.path(), &write);
        self.worn.set(self.worn.get() || !clean);
    }
}

/// Makes a file new to whoever goes by times.
fn touch(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

/// Why there is nothing built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkshopError {
    /// No copy.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// It does not build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A file of the copy cannot be read or written.
    #[error("cannot change the copy: {0}")]
    Io(io::Error),
}
