//! How often a program's code, as it lies in its file, can store to a variable: in loops and at every call, or at most
//! once per run of some functions. What compilers keep in registers until a loop ends is stored once.
//!
//! Only variables at fixed addresses that no pointer reaches can be told. Code outside of symbols is not seen, so a
//! program without symbols tells nothing.

use crate::address::{stores_somewhere, touches_memory};
use crate::code::FUNCTION_BYTES_MAX;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use std::collections::BTreeSet;
use tussle_debuginfo::symbols::{Segment, Symbol, Symbols};

/// Larger images are not decoded.
const IMAGE_BYTES_MAX: usize = 64 << 20;

/// The code of one image.
pub struct Stores<'a> {
    symbols: &'a Symbols,
    image: &'a [u8],
    functions: Vec<Function<'a>>,
}

struct Function<'a> {
    symbol: &'a Symbol,
    code: Vec<Instruction>,
    /// Jumps back: from where, to where.
    loops: Vec<(u64, u64)>,
}

impl<'a> Stores<'a> {
    /// Decodes all functions; `None` where the image is too large or has no symbols.
    pub fn new(symbols: &'a Symbols, image: &'a [u8]) -> Option<Stores<'a>> {
        if image.len() > IMAGE_BYTES_MAX {
            return None;
        }
        let function = |symbol| Function::new(symbol, bytes(symbols, image, symbol)?);
        let functions: Vec<Function<'a>> = symbols.functions().filter_map(function).collect();
        (!functions.is_empty()).then_some(Stores { symbols, image, functions })
    }

    /// The functions that store to bytes `offset..offset + size` of a variable, if each of them does so at most once
    /// per call, outside of loops. `None`: more often, or not known.
    pub fn at_most_once_per_call(&self, variable: &str, offset: u64, size: u64) -> Option<BTreeSet<String>> {
        let mut named = self.symbols.static_variables().iter().filter(|v| v.name == variable);
        let (Some(v), None) = (named.next(), named.next()) else { return None };
        let whole = v.svma..v.svma.checked_add(v.size?)?;
        let part = v.svma.checked_add(offset)?..v.svma.checked_add(offset)?.checked_add(size)?;
        if self.is_pointed_to(&whole) {
            return None;
        }
        let mut out = BTreeSet::new();
        for f in &self.functions {
            for i in f.code.iter().filter(|i| touches_memory(i)) {
                let at = i.is_ip_rel_memory_operand().then(|| i.ip_rel_memory_address());
                let bytes = i.memory_size().size().max(1) as u64;
                let reaches = at.is_some_and(|at| at < part.end && part.start < at.saturating_add(bytes));
                if !reaches || !stores_somewhere(i) {
                    continue;
                }
                if f.loops.iter().any(|(from, to)| (*to..=*from).contains(&i.ip())) {
                    return None;
                }
                out.insert(f.name().to_string());
            }
        }
        Some(out)
    }

    /// Whether other code calls a function, or jumps to it.
    pub fn is_called(&self, name: &str) -> bool {
        let starts: Vec<u64> =
            self.functions.iter().filter(|f| f.name() == name).map(|f| f.symbol.svma).collect();
        let leads = |i: &&Instruction| i.op0_kind() == OpKind::NearBranch64;
        let mut jumps = self.functions.iter().flat_map(|f| f.code.iter().filter(leads));
        starts.is_empty() || jumps.any(|i| starts.contains(&i.near_branch_target()))
    }

    /// An address in the range is taken by code, or lies in the image as a number.
    fn is_pointed_to(&self, range: &std::ops::Range<u64>) -> bool {
        let taken = |i: &Instruction| {
            let lea = i.code().mnemonic() == iced_x86::Mnemonic::Lea && i.is_ip_rel_memory_operand();
            let immediate = (0..i.op_count()).any(|n| is_immediate(i, n) && range.contains(&i.immediate(n)));
            let absolute = !i.is_ip_rel_memory_operand() && range.contains(&i.memory_displacement64());
            lea && range.contains(&i.ip_rel_memory_address()) || immediate || absolute
        };
        if self.functions.iter().any(|f| f.code.iter().any(taken)) {
            return true;
        }
        let words = self
            .symbols
            .segments
            .iter()
            .filter_map(|s| mapped(self.image, s))
            .flat_map(|b| b.chunks_exact(8));
        words.filter_map(|w| w.try_into().ok()).any(|w: [u8; 8]| range.contains(&u64::from_le_bytes(w)))
    }
}

fn is_immediate(i: &Instruction, operand: u32) -> bool {
    !matches!(
        i.op_kind(operand),
        OpKind::Register
            | OpKind::Memory
            | OpKind::NearBranch16
            | OpKind::NearBranch32
            | OpKind::NearBranch64
    ) && i.try_immediate(operand).is_ok()
}

fn mapped<'a>(image: &'a [u8], s: &Segment) -> Option<&'a [u8]> {
    let from = usize::try_from(s.file_offset).ok()?;
    image.get(from..from.checked_add(usize::try_from(s.file_size).ok()?)?)
}

fn bytes<'a>(symbols: &Symbols, image: &'a [u8], of: &Symbol) -> Option<&'a [u8]> {
    let holds = |s: &&Segment| s.svma <= of.svma && of.svma - s.svma < s.file_size;
    let segment = symbols.segments.iter().find(holds)?;
    let from = usize::try_from(of.svma - segment.svma).ok()?;
    mapped(image, segment)?.get(from..from.checked_add(usize::try_from(of.size).ok()?)?)
}

impl<'a> Function<'a> {
    fn new(symbol: &'a Symbol, bytes: &[u8]) -> Option<Function<'a>> {
        if symbol.size > FUNCTION_BYTES_MAX {
            return None;
        }
        let code: Vec<Instruction> =
            Decoder::with_ip(64, bytes, symbol.svma, DecoderOptions::NONE).into_iter().collect();
        let jumps = code.iter().filter(|i| {
            matches!(i.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
        });
        let mut loops: Vec<(u64, u64)> =
            jumps.map(|i| (i.ip(), i.near_branch_target())).filter(|(from, to)| to <= from).collect();
        let unclear =
            |i: &Instruction| i.code() == Code::INVALID || i.flow_control() == FlowControl::IndirectBranch;
        if code.iter().any(unclear) {
            // A jump may lead anywhere.
            loops.push((u64::MAX, 0));
        }
        Some(Function { symbol, code, loops })
    }

    /// Without what compilers append to clones.
    fn name(&self) -> &str {
        let name = &self.symbol.name;
        [".lto_priv", ".constprop", ".part", ".isra", ".cold"]
            .iter()
            .filter_map(|s| name.find(s))
            .min()
            .map_or(name, |end| &name[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tussle_testkit::need;

    const PROGRAM: &str = "
        long once, looped, pointed, called;
        static long *volatile p = &pointed;
        void keeps(void) { for (int i = 0; i < 1000; i++) once += 2; }
        void stores(int n) { for (int i = 0; i < n; i++) *(volatile long *)&looped += i; }
        __attribute__((noinline)) void bump(void) { *(volatile long *)&called += 1; }
        int main(void) { keeps(); stores(9); for (int i = 0; i < 5; i++) bump(); return (int)*p; }";

    /// The answers for a program; `None` without a compiler.
    fn check(variable: &str) -> Option<Option<Vec<String>>> {
        if !need("cc") {
            return None;
        }
        let dir = tempfile::tempdir().ok()?;
        let (source, exe) = (dir.path().join("a.c"), dir.path().join("a"));
        std::fs::write(&source, PROGRAM).ok()?;
        let cc = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&exe).arg(&source).status();
        cc.ok().filter(|s| s.success())?;
        let image = std::fs::read(&exe).ok()?;
        let (symbols, _) = Symbols::read(&image, None).ok()?;
        let stores = Stores::new(&symbols, &image)?;
        assert!(stores.is_called("bump") && !stores.is_called("main"));
        Some(stores.at_most_once_per_call(variable, 0, 8).map(|s| s.into_iter().collect()))
    }

    #[test]
    fn what_is_kept_in_a_register_is_stored_once() {
        let Some(once) = check("once") else { return };
        assert!(once.is_some_and(|f| f.contains(&"keeps".to_string())));
        assert_eq!(check("looped"), Some(None), "a loop");
        assert_eq!(check("pointed"), Some(None), "a pointer may reach it");
        assert_eq!(
            check("called"),
            Some(Some(vec!["bump".into()])),
            "once per call, and who calls is another matter"
        );
        assert_eq!(check("none"), Some(None));
    }
}
