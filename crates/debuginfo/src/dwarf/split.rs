//! Split DWARF: finds the skeleton units and opens their `.dwo` files or the `.dwp` package.

use gimli::{DwAt, EndianSlice, Section, constants as dw};

use super::files::{DWOS_MAX, Dwo, Files, Slice, load_dwo, load_package};
use crate::companion::{CompanionRequest, Companions};
use crate::elf::SectionData;
use crate::error::Damages;

/// What a skeleton unit says about its other half.
pub(crate) struct Skeleton {
    pub id: u64,
    pub comp_dir: String,
    pub name: String,
}

/// Opens what the skeleton units of the main file name.
pub(crate) fn load(files: &mut Files<'_>, companions: &mut dyn Companions, problems: &mut Damages) {
    let skeletons = skeletons(files);
    if skeletons.is_empty() {
        return;
    }
    files.package = companions.open(&CompanionRequest::Package).and_then(|b| load_package(&b, problems));
    let packaged = packaged(files, problems);
    for s in skeletons.into_iter().take(DWOS_MAX).filter(|s| !packaged(s.id)) {
        let request = CompanionRequest::Dwo { comp_dir: s.comp_dir, name: s.name.clone(), id: s.id };
        let Some(bytes) = companions.open(&request) else {
            problems.add(
                ".debug_info",
                0,
                format!("split object {} was not found: its types are unknown", s.name),
            );
            continue;
        };
        if let Some(sections) = load_dwo(&bytes, &s.name, problems) {
            if let Some(other) = foreign(&sections, s.id, files.endian) {
                let what = format!(
                    "split object {} is of another compilation (it has id {other:#x}, {:#x} is wanted): \
                     its types are unknown; build again",
                    s.name, s.id
                );
                problems.add(".debug_info", 0, what);
                continue;
            }
            files.dwos.push(Dwo { id: s.id, name: s.name, sections });
        }
    }
}

/// The id of the first unit of a split object that has units, but none with the id that is wanted.
fn foreign(
    sections: &gimli::DwarfSections<SectionData<'static>>,
    id: u64,
    endian: gimli::RunTimeEndian,
) -> Option<u64> {
    let dwarf = sections.borrow(|s| EndianSlice::new(s.get(), endian));
    let mut units = dwarf.units();
    let mut first = None;
    while let Ok(Some(header)) = units.next() {
        match dwo_id(&dwarf, &header) {
            Some(found) if found == id => return None,
            found => first = first.or(found),
        }
    }
    first
}

/// Tells whether the package holds a unit.
fn packaged(files: &Files<'_>, problems: &mut Damages) -> impl Fn(u64) -> bool + use<> {
    let index = files.package.as_ref().and_then(|p| {
        let empty = EndianSlice::new(&[], files.endian);
        match p.borrow(|s| EndianSlice::new(s.get(), files.endian), empty) {
            Ok(package) => Some(package.cu_index.section_count() > 0).map(|_| ids(&package)),
            Err(e) => {
                problems.add(".debug_cu_index", 0, e);
                None
            }
        }
    });
    move |id| index.as_ref().is_some_and(|ids| ids.contains(&id))
}

/// All unit ids of a package.
fn ids(package: &gimli::DwarfPackage<Slice<'_>>) -> std::collections::HashSet<u64> {
    let parent = gimli::Dwarf::default();
    let mut out = std::collections::HashSet::new();
    for row in 1..=package.cu_index.unit_count() {
        let Ok(dwarf) = package.cu_sections(row, &parent) else { continue };
        let Ok(Some(header)) = dwarf.units().next() else { continue };
        if let Some(id) = dwo_id(&dwarf, &header) {
            out.insert(id);
        }
    }
    out
}

/// The id of a skeleton or split unit, from its header (DWARF 5) or its root entry (the older GNU extension).
pub(crate) fn dwo_id(dwarf: &gimli::Dwarf<Slice<'_>>, header: &gimli::UnitHeader<Slice<'_>>) -> Option<u64> {
    match header.type_() {
        gimli::UnitType::Skeleton(id) | gimli::UnitType::SplitCompilation(id) => Some(id.0),
        _ if header.version() >= 5 => None,
        _ => dwarf.unit(*header).ok()?.dwo_id.map(|id| id.0),
    }
}

fn skeletons(files: &Files<'_>) -> Vec<Skeleton> {
    let dwarf = files.dwarf();
    // Old split units are only known by their root entry; large files without .debug_addr have none.
    let small = dwarf.debug_info.reader().len() < 1 << 20;
    let split = !dwarf.debug_addr.reader().is_empty() || small;
    let mut units = dwarf.units();
    let mut out = Vec::new();
    while let Ok(Some(header)) = units.next() {
        let v5 = matches!(header.type_(), gimli::UnitType::Skeleton(_));
        if (v5 || (header.version() < 5 && split)) && out.len() < DWOS_MAX {
            out.extend(skeleton(&dwarf, header));
        }
    }
    out
}

fn skeleton(dwarf: &gimli::Dwarf<Slice<'_>>, header: gimli::UnitHeader<Slice<'_>>) -> Option<Skeleton> {
    let unit = dwarf.unit(header).ok()?;
    let id = unit.dwo_id?.0;
    let root = unit.entry(header.root_offset()).ok()?;
    let text = |at: DwAt| {
        let value = root.attr_value(at)?;
        Some(String::from_utf8_lossy(dwarf.attr_string(&unit, value).ok()?.slice()).into_owned())
    };
    let name = text(dw::DW_AT_dwo_name).or_else(|| text(dw::DW_AT_GNU_dwo_name))?;
    Some(Skeleton { id, comp_dir: text(dw::DW_AT_comp_dir).unwrap_or_default(), name })
}
