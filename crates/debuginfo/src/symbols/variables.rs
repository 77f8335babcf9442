//! Variables with a fixed place in memory, from `DW_TAG_variable` entries.

use std::collections::HashMap;

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_alignment, DW_AT_decl_file, DW_AT_decl_line, DW_AT_location,
    DW_AT_name, DW_AT_specification, DW_AT_type, Operation, UnitRef,
};
use tussle_model::SourceLoc;

use super::{Reader, Variable};
use crate::error::Damages;

type Entry = gimli::DebuggingInformationEntry<Reader>;

/// What a declaration says; definitions elsewhere refer to it.
#[derive(Clone, Default)]
struct Declared {
    name: Option<String>,
    ty: Option<usize>,
    decl: Option<SourceLoc>,
}

/// A definition whose declaration may come later in the file.
struct Defined {
    own: Declared,
    origin: Option<usize>,
    svma: u64,
    tls: bool,
    align: Option<u64>,
}

/// All variables of all units, in no particular order.
pub(super) fn read(dwarf: &gimli::Dwarf<Reader>, problems: &mut Damages) -> Vec<Variable> {
    let mut declared = HashMap::new();
    let mut defined = Vec::new();
    let mut headers = dwarf.units();
    loop {
        let header = match headers.next() {
            Ok(Some(h)) => h,
            Ok(None) => break,
            Err(e) => {
                problems.add(".debug_info", 0, format!("{e}; variables of later units are not named"));
                break;
            }
        };
        let at = header.debug_info_offset().map_or(0, |o| o.0);
        let read = dwarf.unit(header).and_then(|unit| {
            let mut walk = Walk {
                unit: unit.unit_ref(dwarf),
                scopes: Vec::new(),
                files: HashMap::new(),
                declared: &mut declared,
                defined: &mut defined,
            };
            walk.run()
        });
        if let Err(e) = read {
            problems.add(".debug_info", at as u64, format!("{e}; variables of this unit are not all named"));
        }
    }
    defined.into_iter().filter_map(|d| finish(d, &declared)).collect()
}

/// Takes over what the declaration knows. Bounded: origins can form a ring in a hostile file.
fn finish(d: Defined, declared: &HashMap<usize, (Declared, Option<usize>)>) -> Option<Variable> {
    let mut own = d.own;
    let mut next = d.origin;
    for _ in 0..8 {
        let Some((from, after)) = next.and_then(|o| declared.get(&o)) else { break };
        // The qualified name of a static member is the declaration's.
        if from.name.is_some() {
            own.name = from.name.clone();
        }
        own.ty = own.ty.or(from.ty);
        own.decl = own.decl.or_else(|| from.decl.clone());
        next = *after;
    }
    Some(Variable {
        name: own.name?,
        svma: d.svma,
        size: None,
        ty: own.ty,
        decl: own.decl,
        tls: d.tls,
        align: d.align,
    })
}

struct Walk<'a> {
    unit: UnitRef<'a, Reader>,
    /// Depth and name of the namespaces, classes and functions around the entry.
    scopes: Vec<(isize, Option<String>)>,
    files: HashMap<u64, Option<String>>,
    declared: &'a mut HashMap<usize, (Declared, Option<usize>)>,
    defined: &'a mut Vec<Defined>,
}

impl Walk<'_> {
    fn run(&mut self) -> gimli::Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while self.scopes.last().is_some_and(|(d, _)| *d >= depth) {
                self.scopes.pop();
            }
            match entry.tag() {
                gimli::DW_TAG_variable | gimli::DW_TAG_member => self.variable(entry),
                gimli::DW_TAG_namespace => {
                    let name = self.name(entry).unwrap_or_else(|| "(anonymous namespace)".into());
                    self.scopes.push((depth, Some(name)));
                }
                gimli::DW_TAG_subprogram
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_union_type => {
                    let name = self.name(entry).or_else(|| self.origin_name(entry));
                    self.scopes.push((depth, name));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn variable(&mut self, entry: &Entry) {
        let place = self.place(entry);
        let member = entry.tag() == gimli::DW_TAG_member;
        if member && entry.attr(gimli::DW_AT_data_member_location).is_some() {
            return;
        }
        let own = Declared {
            name: self.name(entry).map(|n| self.qualified(&n)),
            ty: reference(&self.unit, entry, DW_AT_type),
            decl: self.decl(entry),
        };
        let origin = reference(&self.unit, entry, DW_AT_specification)
            .or_else(|| reference(&self.unit, entry, DW_AT_abstract_origin));
        let offset = entry.offset().to_debug_info_offset(&self.unit.header).map(|o| o.0);
        match place {
            Some((svma, tls)) => {
                let align = entry.attr_value(DW_AT_alignment).and_then(|v| v.udata_value());
                self.defined.push(Defined { own: own.clone(), origin, svma, tls, align });
            }
            // A local variable: nothing refers to it.
            None if entry.has_attr(DW_AT_location) => return,
            None => {}
        }
        if let Some(at) = offset {
            self.declared.insert(at, (own, origin));
        }
    }

    fn name(&self, entry: &Entry) -> Option<String> {
        let value = entry.attr_value(DW_AT_name)?;
        let text = self.unit.attr_string(value).ok()?;
        Some(String::from_utf8_lossy(&gimli::Reader::to_slice(&text).ok()?).into_owned())
    }

    /// Name of the declaration that a definition refers to.
    fn origin_name(&self, entry: &Entry) -> Option<String> {
        let mut current = entry.clone();
        for _ in 0..4 {
            let value = current
                .attr_value(DW_AT_specification)
                .or_else(|| current.attr_value(DW_AT_abstract_origin))?;
            let AttributeValue::UnitRef(offset) = value else { return None };
            current = self.unit.entry(offset).ok()?;
            if let Some(n) = self.name(&current) {
                return Some(n);
            }
        }
        None
    }

    fn qualified(&self, name: &str) -> String {
        let mut out = String::new();
        for (_, scope) in &self.scopes {
            if let Some(s) = scope {
                out.push_str(s);
                out.push_str("::");
            }
        }
        out + name
    }

    fn decl(&mut self, entry: &Entry) -> Option<SourceLoc> {
        let index = entry.attr_value(DW_AT_decl_file).and_then(|v| match v {
            AttributeValue::FileIndex(i) => Some(i),
            other => other.udata_value(),
        })?;
        let line = entry.attr_value(DW_AT_decl_line).and_then(|v| v.udata_value()).unwrap_or(0);
        let unit = self.unit;
        let file = self.files.entry(index).or_insert_with(|| file_name(&unit, index)).clone()?;
        Some(SourceLoc { file, line: u32::try_from(line).unwrap_or(0) })
    }

    /// `DW_OP_addr X [DW_OP_plus_uconst N]`, or a constant made a thread-local address.
    fn place(&self, entry: &Entry) -> Option<(u64, bool)> {
        let AttributeValue::Exprloc(expression) = entry.attr_value(DW_AT_location)? else { return None };
        let mut ops = expression.operations(self.unit.encoding());
        let mut at: Option<u64> = None;
        let (mut tls, mut address) = (false, false);
        for _ in 0..4 {
            match ops.next().ok()? {
                None => break,
                Some(Operation::Address { address: a }) => (at, address) = (Some(a), true),
                Some(Operation::AddressIndex { index }) => {
                    (at, address) = (Some(self.unit.address(index).ok()?), true);
                }
                Some(Operation::ConstantIndex { index }) => at = Some(self.unit.address(index).ok()?),
                Some(Operation::UnsignedConstant { value }) => at = Some(value),
                Some(Operation::PlusConstant { value }) => at = Some(at?.wrapping_add(value)),
                Some(Operation::TLS) => tls = true,
                Some(_) => return None,
            }
        }
        // A lone constant is a value, and linkers leave 0 where they dropped a section.
        at.filter(|&a| tls || (address && a != 0)).map(|a| (a, tls))
    }
}

/// Path of a file of the unit's line table.
pub(super) fn file_name(unit: &UnitRef<'_, Reader>, index: u64) -> Option<String> {
    let program = unit.line_program.as_ref()?;
    let file = program.header().file(index)?;
    let text = |value| {
        let raw = unit.attr_string(value).ok()?;
        Some(String::from_utf8_lossy(&gimli::Reader::to_slice(&raw).ok()?).into_owned())
    };
    let name = text(file.path_name())?;
    let dir = file.directory(program.header()).and_then(text);
    match dir {
        Some(d) if !name.starts_with('/') && !d.is_empty() => Some(format!("{d}/{name}")),
        _ => Some(name),
    }
}

/// Offset in `.debug_info` of the entry that an attribute refers to.
pub(super) fn reference(unit: &UnitRef<'_, Reader>, entry: &Entry, name: gimli::DwAt) -> Option<usize> {
    match entry.attr_value(name)? {
        AttributeValue::UnitRef(o) => o.to_debug_info_offset(&unit.header).map(|o| o.0),
        AttributeValue::DebugInfoRef(o) => Some(o.0),
        _ => None,
    }
}
