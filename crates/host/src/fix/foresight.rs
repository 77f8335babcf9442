//! What `fix` would refuse, as far as the sources alone tell: no build, no compiler. `advise` leaves such rows out.

use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::patch::uses::Ask;
use tussle_advise::patch::{self, Refusal, Target};
use tussle_model::{SourceLoc, TypeTable};

use super::calls::is_cpp;
use super::meaning::reorders;
use super::sources::{self, Sources};

/// The sources of one struct.
#[derive(Debug)]
pub struct Foresight {
    name: String,
    decl_line: Option<u32>,
    file: PathBuf,
    text: String,
    /// Against every change.
    whole: Option<Refusal>,
    /// Against another order of members.
    order: Option<String>,
    /// Against another size.
    size: Option<Refusal>,
    /// A unit of C++ that sees it: uses of a member array's elements are followed in C only.
    cpp: Option<PathBuf>,
}

impl Foresight {
    /// The struct's sources, if they lie below the current folder: what `fix` would refuse there is not proposed.
    pub fn here(types: &TypeTable, name: &str) -> Option<Foresight> {
        let decl = types.aggregate(types.find(name)?)?.decl.clone()?;
        let here = std::env::current_dir().ok()?.canonicalize().ok()?;
        let file = Path::new(&decl.file).canonicalize().ok()?;
        file.starts_with(&here).then(|| Foresight::new(&here, name, Some(&decl)))?
    }

    /// Reads the sources below `dir`; `None` where they do not define the struct.
    pub fn new(dir: &Path, name: &str, decl: Option<&SourceLoc>) -> Option<Foresight> {
        let sources = Sources::read(dir, name).ok()?;
        let file = sources.definition(dir, name, decl).ok()?;
        let shared = sources::builds_shared_library(dir);
        let judge = |ask| sources.judge(name, &file, None, ask).err();
        let known = patch::boundary::check(name, &file.to_string_lossy(), shared).err();
        let whole = known.or_else(|| judge(Ask { size: false, ..Ask::LAYOUT }));
        let by_position = judge(Ask::POSITIONS).map(|e| e.to_string());
        let no_clang = is_cpp(&file) && crate::cc::search("clang++".as_ref()).is_none();
        let no_clang =
            no_clang.then(|| "members of C++ classes are reordered with clang++ in PATH only".into());
        let size = judge(Ask::SIZE);
        Some(Foresight {
            name: name.into(),
            decl_line: decl.map(|d| d.line).filter(|l| *l > 0),
            text: sources.text(&file).to_string(),
            file: file.clone(),
            whole,
            order: by_position.or(no_clang),
            cpp: sources.users(&file).into_iter().find(|u| is_cpp(u)),
            size,
        })
    }

    /// Why these edits would be refused.
    pub fn refuses(&self, edits: &[Edit]) -> Option<String> {
        if let Some(refusal) = &self.whole {
            return Some(refusal.to_string());
        }
        if let Some(why) = self.order.as_ref().filter(|_| reorders(edits)) {
            return Some(why.clone());
        }
        if let Some(refusal) = self.size.as_ref().filter(|_| edits.iter().any(Edit::resizes)) {
            return Some(refusal.to_string());
        }
        let parted =
            edits.iter().find_map(|e| if let Edit::Spread { field, .. } = e { Some(field) } else { None });
        if let Some((field, unit)) = parted.zip(self.cpp.as_ref()) {
            return Some(super::elements::in_cpp(&unit.to_string_lossy(), field));
        }
        let target = Target { name: &self.name, decl_line: self.decl_line, members: &[], pad_bytes: 1 };
        let patched = patch::patch(&self.file.to_string_lossy(), &self.text, &target, edits);
        match patched {
            // Its bill would be another one.
            Ok(p) if p.edits != edits => Some("the whole #if block would move".into()),
            Ok(_) => None,
            Err(e) => Some(e.to_string()),
        }
    }
}
