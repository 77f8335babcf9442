//! Where a patch is tried: in a copy of its own, or in one that is built already.

use std::path::{Path, PathBuf};

use super::compile::OUTPUTS_MAX;
use super::{Build, FixError, Request, farm, kernel};
use crate::project::{BuildError, Scratch, Workshop, WorkshopError};

/// A copy of the folder in which the build may run and files may be written.
pub(super) enum BuildCopy<'a> {
    Own(Scratch),
    Built(&'a Workshop),
}

impl<'a> BuildCopy<'a> {
    /// `real` files will be written; with the texts of the folder.
    pub(super) fn new(request: &Request<'a>, real: &[PathBuf]) -> Result<BuildCopy<'a>, FixError> {
        let own = match (request.build, request.workshop) {
            (Build::Shell(_) | Build::Make | Build::System(_), Some(workshop)) => {
                return BuildCopy::built(workshop);
            }
            (Build::Shell(_) | Build::Make | Build::System(_), None) => Scratch::copy_of(request.dir)?,
            // Nothing is written but these files: links to the others do.
            (Build::Kernel(_), _) => farm::tree(request.dir, real, &kernel::REAL, &kernel::LEFT_OUT)?,
            (Build::Compdb(_) | Build::Plain, _) => farm::folders(request.dir, real)?,
        };
        Ok(BuildCopy::Own(own))
    }

    /// A copy in which every build writes, whatever the language.
    pub(super) fn of_everything(request: &Request<'a>) -> Result<BuildCopy<'a>, FixError> {
        match request.workshop {
            Some(workshop) => BuildCopy::built(workshop),
            None => Ok(BuildCopy::Own(Scratch::copy_of(request.dir)?)),
        }
    }

    fn built(workshop: &Workshop) -> Result<BuildCopy<'_>, FixError> {
        let io = |source| FixError::Io { path: workshop.path().into(), source };
        workshop.restore().map_err(io)?;
        Ok(BuildCopy::Built(workshop))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            BuildCopy::Own(scratch) => scratch.path(),
            BuildCopy::Built(workshop) => workshop.path(),
        }
    }

    /// Gives a file another text.
    pub(super) fn write(&self, file: &Path, text: &str) -> Result<(), FixError> {
        let path = self.path().join(file);
        let written = match self {
            BuildCopy::Own(_) => std::fs::write(&path, text),
            BuildCopy::Built(workshop) => workshop.write(file, text),
        };
        written.map_err(|source| FixError::Io { path, source })
    }
}

/// What `probe` finds first in what was built: of the unpatched text once for all patches, else by building what has
/// changed.
pub(super) fn find<T>(
    workshop: &Workshop,
    patched: bool,
    announce: &mut dyn FnMut(&str),
    probe: &dyn Fn(&Path) -> Option<T>,
) -> Result<Option<T>, FixError> {
    if !patched {
        return Ok(workshop.before().iter().find_map(|f| probe(f)));
    }
    workshop.again(announce).map_err(|e| failed(e, workshop.path()))?;
    Ok(workshop.programs().iter().take(OUTPUTS_MAX).find_map(|f| probe(f)))
}

/// A build that failed with a patch.
fn failed(error: WorkshopError, path: &Path) -> FixError {
    match error {
        WorkshopError::Build(BuildError::Failed { command, tail, .. }) => {
            FixError::BuildFailed { command, patched: true, tail }
        }
        WorkshopError::Scratch(e) => FixError::Scratch(e),
        other => FixError::Io { path: path.into(), source: std::io::Error::other(other.to_string()) },
    }
}
