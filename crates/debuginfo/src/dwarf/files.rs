//! The sections of an executable and of its companion files, loaded and kept alive together.

use gimli::{DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId};

use crate::companion::{CompanionRequest, Companions, separate};
use crate::elf::{Bytes, Elf, SectionData};
use crate::error::{Damage, Damages, Error};
use crate::vtables::Vtables;

/// The reader that all of DWARF is parsed with.
pub type Slice<'f> = EndianSlice<'f, RunTimeEndian>;

/// At most this many split objects are opened.
pub(crate) const DWOS_MAX: usize = 100_000;

/// Sections of one executable, its separate debug file, dwz file and split objects.
pub struct Files<'d> {
    pub(crate) endian: RunTimeEndian,
    pub(crate) pointer_size: u8,
    pub(crate) arch: object::Architecture,
    pub(crate) main: DwarfSections<SectionData<'d>>,
    pub(crate) sup: Option<DwarfSections<SectionData<'d>>>,
    pub(crate) dwos: Vec<Dwo>,
    pub(crate) package: Option<DwarfPackageSections<SectionData<'static>>>,
    pub(crate) vtables: Vtables<'d>,
    /// What could not be opened or loaded.
    pub problems: Vec<Damage>,
}

/// One `.dwo` file.
pub(crate) struct Dwo {
    pub id: u64,
    pub name: String,
    pub sections: DwarfSections<SectionData<'static>>,
}

impl<'d> Files<'d> {
    /// Loads the sections that describe types. When `elf` itself has no `.debug_info`, its separate debug file is
    /// asked for.
    ///
    /// # Errors
    /// [`Error::NoDebugInfo`] when there is no `.debug_info` anywhere, [`Error::Malformed`] when it does not load.
    pub fn load(elf: &Elf<'d>, companions: &mut dyn Companions) -> Result<Files<'d>, Error> {
        let problems = Damages::default();
        if has_dwarf(elf) {
            let main = load_sections(|name| elf.section(name).map(SectionData::from))?;
            let vtables = Vtables::new(elf.bytes(), None);
            return Ok(Files::with_main(elf, main, vtables, companions, problems));
        }
        let Some((bytes, how)) = separate(elf, companions) else {
            let why = if elf.has(".symtab") { "no .debug_info section" } else { "stripped" };
            let passed_over = companions.passed_over().iter().map(|file| format!("; {file}"));
            return Err(Error::NoDebugInfo { why: why.to_string() + &passed_over.collect::<String>() });
        };
        let other = Elf::parse((*bytes).as_ref())?;
        if !has_dwarf(&other) {
            return Err(Error::NoDebugInfo {
                why: format!("its separate file, found by {how}, has none either"),
            });
        }
        let main = load_sections(|name| other.shared(name, &bytes))?;
        let vtables = Vtables::new(elf.bytes(), Some(bytes.clone()));
        Ok(Files::with_main(&other, main, vtables, companions, problems))
    }

    fn with_main(
        elf: &Elf<'_>,
        main: DwarfSections<SectionData<'d>>,
        vtables: Vtables<'d>,
        companions: &mut dyn Companions,
        mut problems: Damages,
    ) -> Files<'d> {
        let sup = elf.debugaltlink().and_then(|(name, build_id)| {
            let request = CompanionRequest::Alternate { name: name.clone(), build_id };
            let Some(bytes) = companions.open(&request) else {
                problems.add(
                    ".gnu_debugaltlink",
                    0,
                    format!("{name} was not found: types in it are unknown"),
                );
                return None;
            };
            load_companion(&bytes, &name, &mut problems)
        });
        let mut files = Files {
            endian: elf.endian(),
            pointer_size: elf.pointer_size(),
            arch: object::Object::architecture(elf.object()),
            main,
            sup,
            dwos: Vec::new(),
            package: None,
            vtables,
            problems: Vec::new(),
        };
        super::split::load(&mut files, companions, &mut problems);
        files.problems = problems.0;
        files
    }

    /// The main file's DWARF, with the dwz file attached.
    pub fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        self.main.borrow_with_sup(self.sup.as_ref(), |s| EndianSlice::new(s.get(), self.endian))
    }

    /// Size of a pointer in bytes.
    pub fn pointer_size(&self) -> u8 {
        self.pointer_size
    }
}

/// The file has DWARF of its own (not only a skeleton without `.debug_info`).
pub(crate) fn has_dwarf(elf: &Elf<'_>) -> bool {
    [".debug_info", ".debug_info.dwo", ".debug_types"].iter().any(|n| elf.has(n))
}

/// A DWARF section that naming and types need; the others stay unread.
fn wanted(id: SectionId) -> bool {
    use SectionId::*;
    matches!(
        id,
        DebugAbbrev
            | DebugAddr
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugStr
            | DebugStrOffsets
            | DebugTypes
            | DebugCuIndex
            | DebugTuIndex
            | DebugRanges
            | DebugRngLists
    )
}

fn load_sections<'d>(
    mut section: impl FnMut(&str) -> Result<SectionData<'d>, Error>,
) -> Result<DwarfSections<SectionData<'d>>, Error> {
    DwarfSections::load(|id| {
        if !wanted(id) {
            return Ok(SectionData::default());
        }
        let found = section(id.name())?;
        // a lone .dwo file is readable on its own
        match id.dwo_name() {
            Some(dwo) if found.get().is_empty() => section(dwo),
            _ => Ok(found),
        }
    })
}

/// Sections of a companion; a broken one is a problem, not an error.
fn load_companion<'d>(
    bytes: &Bytes,
    name: &str,
    problems: &mut Damages,
) -> Option<DwarfSections<SectionData<'d>>> {
    let loaded = Elf::parse((**bytes).as_ref()).and_then(|elf| load_sections(|s| elf.shared(s, bytes)));
    loaded.map_err(|e| problems.add(name, 0, e)).ok()
}

/// Sections of a `.dwo`.
pub(crate) fn load_dwo(
    bytes: &Bytes,
    name: &str,
    problems: &mut Damages,
) -> Option<DwarfSections<SectionData<'static>>> {
    load_companion(bytes, name, problems)
}

/// Sections of a `.dwp`.
pub(crate) fn load_package(
    bytes: &Bytes,
    problems: &mut Damages,
) -> Option<DwarfPackageSections<SectionData<'static>>> {
    let loaded = Elf::parse((**bytes).as_ref()).and_then(|elf| {
        DwarfPackageSections::load(|id| match id.dwo_name() {
            // all of them: a unit of the package is a row of parts of each, and none may be missing
            Some(name) => elf.shared(name, bytes),
            _ => Ok(SectionData::default()),
        })
    });
    loaded.map_err(|e| problems.add(".dwp", 0, e)).ok()
}
