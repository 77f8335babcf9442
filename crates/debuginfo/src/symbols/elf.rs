//! Symbols, segments and thread-local storage from the ELF headers.

use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};

use super::{Segment, Symbol, SymbolKind, TlsSegment, Variable, demangle};
use crate::elf::Elf;
use crate::golang::GoTable;

const PF_W: u32 = 2;
const PT_TLS: u32 = 7;

/// All defined symbols of both tables in order of address, each address and name once.
pub(super) fn symbols(elf: &Elf) -> Vec<Symbol> {
    let file = elf.object();
    let mut out = Vec::new();
    for s in file.symbols().chain(file.dynamic_symbols()) {
        let kind = match s.kind() {
            _ if s.is_undefined() => continue,
            object::SymbolKind::Text => SymbolKind::Code,
            object::SymbolKind::Data => SymbolKind::Data,
            object::SymbolKind::Tls => SymbolKind::Tls,
            _ => continue,
        };
        let Ok(name) = s.name() else { continue };
        out.push(Symbol { name: demangle(name), svma: s.address(), size: s.size(), kind });
    }
    sort(&mut out);
    out
}

/// Adds the functions of Go's own table that the symbols do not have.
pub(super) fn add_go(symbols: &mut Vec<Symbol>, table: &GoTable) {
    let known: std::collections::HashSet<u64> =
        symbols.iter().filter(|s| s.kind == SymbolKind::Code).map(|s| s.svma).collect();
    let new = table.functions().filter(|f| !known.contains(&f.range.0));
    symbols.extend(new.map(|f| Symbol {
        name: f.name,
        svma: f.range.0,
        size: f.range.1 - f.range.0,
        kind: SymbolKind::Code,
    }));
    sort(symbols);
}

/// By address, the larger first, so that a lookup backwards meets the smallest.
pub(super) fn sort(symbols: &mut Vec<Symbol>) {
    symbols.sort_by(|a, b| a.svma.cmp(&b.svma).then(b.size.cmp(&a.size)).then_with(|| a.name.cmp(&b.name)));
    symbols.dedup();
}

/// `PT_LOAD` in order of address.
pub(super) fn segments(elf: &Elf) -> Vec<Segment> {
    let mut out: Vec<Segment> = elf
        .object()
        .segments()
        .map(|s| {
            let (file_offset, file_size) = s.file_range();
            let writable = matches!(s.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_W != 0);
            Segment { svma: s.address(), size: s.size(), file_offset, file_size, writable }
        })
        .collect();
    out.sort_by_key(|s| s.svma);
    out
}

/// The `PT_TLS` header of a 64-bit little-endian file: the only one that the recorder runs on.
pub(super) fn tls(bytes: &[u8]) -> Option<TlsSegment> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    if bytes.get(4..6)? != [2, 1] {
        return None;
    }
    let table = usize::try_from(u64_at(0x20)?).ok()?;
    let (entry_size, entries) = (usize::from(u16_at(0x36)?), usize::from(u16_at(0x38)?));
    (0..entries).find_map(|i| {
        let at = table.checked_add(i.checked_mul(entry_size)?)?;
        if u32_at(at)? != PT_TLS {
            return None;
        }
        let align = u64_at(at.checked_add(0x30)?)?;
        let align = if align.is_power_of_two() { align } else { 1 };
        Some(TlsSegment { size: u64_at(at.checked_add(0x28)?)?, align })
    })
}

/// Gives variables the sizes of their symbols and adds the symbols that the debug information does not have. Sorts
/// and removes what overlaps, so that every byte has one owner: the described variable before the bare symbol.
pub(super) fn merge(variables: &mut Vec<Variable>, symbols: &[Symbol]) {
    let find = |svma: u64, tls: bool| {
        let first = symbols.partition_point(|s| s.svma < svma);
        let wanted = if tls { SymbolKind::Tls } else { SymbolKind::Data };
        symbols[first..].iter().take_while(|s| s.svma == svma).find(|s| s.kind == wanted && s.size > 0)
    };
    for v in variables.iter_mut() {
        v.size = find(v.svma, v.tls).map(|s| s.size);
    }
    let described: std::collections::HashSet<(bool, u64)> =
        variables.iter().map(|v| (v.tls, v.svma)).collect();
    for s in symbols {
        let tls = match s.kind {
            SymbolKind::Code => continue,
            SymbolKind::Data => false,
            SymbolKind::Tls => true,
        };
        if s.size > 0 && !described.contains(&(tls, s.svma)) {
            variables.push(Variable {
                name: s.name.clone(),
                svma: s.svma,
                size: Some(s.size),
                ty: None,
                decl: None,
                tls,
                align: None,
            });
        }
    }
    variables.sort_by(|a, b| {
        let key = |v: &Variable| (v.tls, v.svma, v.ty.is_none(), v.size.is_none());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    variables.dedup_by(|later, first| later.tls == first.tls && later.svma == first.svma);
}
