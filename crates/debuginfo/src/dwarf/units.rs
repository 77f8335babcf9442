//! All units of all files under one numbering, and references between them.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{DebugInfoOffset, EndianSlice, Endianity, Reader, Section, UnitHeader, UnitOffset, UnitType};

use super::files::{Files, Slice};
use crate::error::{Damages, Error};

/// More units than this are not read; the largest known programs have some 200,000.
const UNITS_MAX: usize = 4_000_000;

/// A debugging information entry anywhere in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DieRef {
    /// Index of its unit in [`Units`].
    pub unit: u32,
    /// Byte offset from the start of the unit's header.
    pub offset: u32,
}

/// One unit and the sections that it belongs to.
pub struct UnitEntry<'f> {
    /// Index of its DWARF in [`Units::dwarf`].
    pub dwarf: u32,
    /// Its header.
    pub header: UnitHeader<Slice<'f>>,
    /// The skeleton unit (index) of a split unit: file names are found there.
    pub skeleton: Option<u32>,
}

/// Every unit of an executable and its companions.
pub struct Units<'f> {
    files: &'f Files<'f>,
    dwarfs: Vec<gimli::Dwarf<Slice<'f>>>,
    units: Vec<UnitEntry<'f>>,
    /// Units of `.debug_info` per DWARF, ascending by offset.
    info: Vec<Range<usize>>,
    sup: Option<u32>,
    signatures: HashMap<u64, DieRef>,
    /// Units in the order in which they are read: a split unit stands where its skeleton does.
    order: Vec<u32>,
}

impl<'f> Units<'f> {
    /// Reads the headers of all units.
    ///
    /// # Errors
    /// [`Error::Malformed`] when not even the first header can be read.
    pub(crate) fn load(files: &'f Files<'_>, problems: &mut Damages) -> Result<Units<'f>, Error> {
        let mut units = Units {
            files,
            dwarfs: Vec::new(),
            units: Vec::new(),
            info: Vec::new(),
            sup: None,
            signatures: HashMap::new(),
            order: Vec::new(),
        };
        let main = units.add_dwarf(files.dwarf(), ".debug_info", problems);
        if units.units.is_empty() {
            let what = problems.0.last().map_or("holds no unit".into(), |p| p.what.clone());
            return Err(Error::malformed(".debug_info", 0, what));
        }
        let main_units = 0..units.units.len();
        if let Some(sup) = &files.sup {
            let dwarf = sup.borrow(|s| EndianSlice::new(s.get(), files.endian));
            units.sup = Some(units.add_dwarf(dwarf, ".debug_info (dwz file)", problems));
        }
        let split = units.add_split(files, main, problems);
        for i in main_units {
            match split.get(&(i as u32)) {
                Some(range) => units.order.extend(range.clone().map(|u| u as u32)),
                None => units.order.push(i as u32),
            }
        }
        let sup = units.sup.map(|s| units.of_dwarf(s)).unwrap_or_default();
        units.order.extend(sup);
        Ok(units)
    }

    /// The unit with this index.
    pub fn get(&self, unit: u32) -> Option<&UnitEntry<'f>> {
        self.units.get(unit as usize)
    }

    /// Name of the source file that the unit was compiled from.
    pub fn name(&self, unit: u32) -> Option<String> {
        let entry = self.get(unit)?;
        let dwarf = self.dwarf(entry.dwarf)?;
        let name = dwarf.unit(entry.header).ok()?.name?;
        Some(String::from_utf8_lossy(name.slice()).into_owned())
    }

    /// All units by index.
    pub fn iter(&self) -> impl Iterator<Item = &UnitEntry<'f>> {
        self.units.iter()
    }

    /// The sections of a unit.
    pub fn dwarf(&self, index: u32) -> Option<&gimli::Dwarf<Slice<'f>>> {
        self.dwarfs.get(index as usize)
    }

    /// Unit indices in reading order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The entry at an offset of `.debug_info` of DWARF `dwarf` (0 is the main file).
    pub fn at(&self, dwarf: u32, offset: DebugInfoOffset) -> Option<DieRef> {
        let range = self.info.get(dwarf as usize)?.clone();
        let units = self.units.get(range.clone())?;
        let next = units.partition_point(|u| start(u) <= offset.0);
        let index = next.checked_sub(1)?;
        let unit = units.get(index)?;
        let inside = offset.0 - start(unit);
        if inside >= unit.header.length_including_self() {
            return None;
        }
        Some(DieRef { unit: (range.start + index) as u32, offset: u32::try_from(inside).ok()? })
    }

    /// The type that a type unit with this signature defines.
    pub fn signature(&self, signature: u64) -> Option<DieRef> {
        self.signatures.get(&signature).copied()
    }

    /// Bytes of all units.
    pub(crate) fn bytes(&self) -> usize {
        self.units.iter().fold(0, |n, u| n.saturating_add(u.header.length_including_self()))
    }

    /// The files that the units lie in.
    pub(super) fn files(&self) -> &'f Files<'f> {
        self.files
    }

    /// Byte order of all files.
    pub fn little_endian(&self) -> bool {
        self.dwarfs.first().is_none_or(|d| d.debug_info.reader().endian().is_little_endian())
    }

    /// The DWARF index of the dwz file.
    pub(crate) fn sup(&self) -> Option<u32> {
        self.sup
    }

    fn of_dwarf(&self, dwarf: u32) -> Vec<u32> {
        (0..self.units.len() as u32).filter(|&i| self.units[i as usize].dwarf == dwarf).collect()
    }

    fn add_dwarf(&mut self, dwarf: gimli::Dwarf<Slice<'f>>, section: &str, problems: &mut Damages) -> u32 {
        let index = self.dwarfs.len() as u32;
        let first = self.units.len();
        let mut headers = dwarf.units();
        loop {
            match headers.next() {
                Ok(Some(header)) => self.add_unit(index, header),
                Ok(None) => break,
                Err(e) => {
                    problems.add(section, self.units.last().map_or(0, |u| end(u) as u64), e);
                    break;
                }
            }
        }
        self.info.push(first..self.units.len());
        let mut headers = dwarf.type_units();
        loop {
            match headers.next() {
                Ok(Some(header)) => self.add_unit(index, header),
                Ok(None) => break,
                Err(e) => {
                    problems.add(".debug_types", 0, e);
                    break;
                }
            }
        }
        self.dwarfs.push(dwarf);
        index
    }

    fn add_unit(&mut self, dwarf: u32, header: UnitHeader<Slice<'f>>) {
        if self.units.len() >= UNITS_MAX {
            return;
        }
        let unit = self.units.len() as u32;
        if let UnitType::Type { type_signature, type_offset }
        | UnitType::SplitType { type_signature, type_offset } = header.type_()
        {
            let offset = u32::try_from(type_offset.0).unwrap_or(u32::MAX);
            self.signatures.entry(type_signature.0).or_insert(DieRef { unit, offset });
        }
        self.units.push(UnitEntry { dwarf, header, skeleton: None });
    }

    /// Adds the units of split objects; returns skeleton → units.
    fn add_split(
        &mut self,
        files: &'f Files<'_>,
        main: u32,
        problems: &mut Damages,
    ) -> HashMap<u32, Range<usize>> {
        let mut found = HashMap::new();
        if files.dwos.is_empty() && files.package.is_none() {
            return found;
        }
        let Some(parent) = self.dwarfs.get(main as usize) else { return found };
        let mut skeletons = HashMap::new();
        for (i, u) in self.units.iter().enumerate().filter(|(_, u)| u.dwarf == main) {
            if let Some(id) = super::split::dwo_id(parent, &u.header) {
                skeletons.insert(id, i as u32);
            }
        }
        let parent = files.dwarf();
        for dwo in &files.dwos {
            let mut dwarf = dwo.sections.borrow(|s| EndianSlice::new(s.get(), files.endian));
            dwarf.make_dwo(&parent);
            let range = self.add_split_dwarf(dwarf, &dwo.name, problems);
            found.extend(self.attach(&skeletons, range, Some(dwo.id)));
        }
        self.add_package(files, &parent, &skeletons, &mut found, problems);
        found
    }

    fn add_package(
        &mut self,
        files: &'f Files<'_>,
        parent: &gimli::Dwarf<Slice<'f>>,
        skeletons: &HashMap<u64, u32>,
        found: &mut HashMap<u32, Range<usize>>,
        problems: &mut Damages,
    ) {
        let Some(package) = &files.package else { return };
        let empty = EndianSlice::new(&[], files.endian);
        let Ok(package) = package.borrow(|s| EndianSlice::new(s.get(), files.endian), empty) else { return };
        for row in 1..=package.cu_index.unit_count().min(UNITS_MAX as u32) {
            match package.cu_sections(row, parent) {
                Ok(dwarf) => {
                    let range = self.add_split_dwarf(dwarf, ".debug_cu_index", problems);
                    found.extend(self.attach(skeletons, range, None));
                }
                Err(e) => problems.add(".debug_cu_index", u64::from(row), e),
            }
        }
        for row in 1..=package.tu_index.unit_count().min(UNITS_MAX as u32) {
            match package.tu_sections(row, parent) {
                Ok(dwarf) => {
                    let range = self.add_split_dwarf(dwarf, ".debug_tu_index", problems);
                    self.order.extend(range.map(|u| u as u32));
                }
                Err(e) => problems.add(".debug_tu_index", u64::from(row), e),
            }
        }
    }

    fn add_split_dwarf(
        &mut self,
        dwarf: gimli::Dwarf<Slice<'f>>,
        name: &str,
        problems: &mut Damages,
    ) -> Range<usize> {
        let first = self.units.len();
        self.add_dwarf(dwarf, name, problems);
        first..self.units.len()
    }

    /// Connects the units of one split object with the skeleton of its id.
    fn attach(
        &mut self,
        skeletons: &HashMap<u64, u32>,
        range: Range<usize>,
        id: Option<u64>,
    ) -> Option<(u32, Range<usize>)> {
        let unit = self.units.get(range.start)?;
        let id = id.or_else(|| super::split::dwo_id(self.dwarfs.get(unit.dwarf as usize)?, &unit.header))?;
        let skeleton = *skeletons.get(&id)?;
        for unit in self.units.get_mut(range.clone())? {
            unit.skeleton = Some(skeleton);
        }
        Some((skeleton, range))
    }
}

fn start(unit: &UnitEntry<'_>) -> usize {
    unit.header.debug_info_offset().map_or(0, |o| o.0)
}

fn end(unit: &UnitEntry<'_>) -> usize {
    start(unit).saturating_add(unit.header.length_including_self())
}

impl DieRef {
    /// The offset as gimli types it.
    pub fn unit_offset(self) -> UnitOffset {
        UnitOffset(self.offset as usize)
    }
}
