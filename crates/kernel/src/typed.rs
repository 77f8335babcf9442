//! Types of kmalloc objects: the debug information says which variable receives what an allocator returned, and which
//! variable the accessing code had in its base register. A variable's declared type is believed only where the size
//! that was asked for agrees; everything else stays without a type.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use tussle_debuginfo::symbols::{Location, Placed, Symbols};
use tussle_model::{Type, TypeId};

use crate::bits;
use crate::image::KernelTypes;
use crate::wish::is_link;

/// Instructions followed after an allocator's return.
const STEPS_MAX: usize = 12;
/// Longest x86-64 instruction, bytes.
const INSTRUCTION_MAX: usize = 15;

/// How sure: a variable receives exactly what was asked for.
const RECEIVED: f32 = 0.95;
/// Something follows behind the struct.
const RECEIVED_MORE: f32 = 0.8;
/// Only the accessing code says so.
const ACCESSED: f32 = 0.85;
/// The same, and the size is only bounded by the slot.
const ACCESSED_ONLY: f32 = 0.6;

/// Instructions that must use an object's beginning as one struct; one alone may be of a cast.
const BEGINNING_VOTES_MIN: u32 = 2;
/// Structs in each other that are followed.
const BEGINNINGS_MAX: usize = 16;

/// General registers by DWARF's numbers (System V ABI for x86-64, figure 3.36).
const DWARF: [Register; 16] = [
    Register::RAX,
    Register::RDX,
    Register::RCX,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::RSP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// A variable that held the object's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// Entry of its type, a pointer, in `.debug_info`.
    pub entry: usize,
    /// Its name.
    pub variable: String,
}

/// What is known of the objects of one allocation site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// Variables that received them.
    pub received: Vec<Holder>,
    /// Variables that code used to access them, and how many instructions did.
    pub accessed: BTreeMap<Holder, u32>,
    /// Bytes that were asked for; 0 where unknown or not always the same.
    pub asked: u32,
    /// The struct that a pointer of a global variable leads to here; believed if the accessing code agrees.
    pub pointed: Option<Pointed>,
}

/// What a global variable says of memory behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointed {
    /// Name of the struct.
    pub name: String,
    /// The variable, with its member.
    pub variable: String,
}

impl Told {
    /// Entries of all variables' types.
    pub fn entries(&self) -> impl Iterator<Item = usize> + '_ {
        self.received.iter().chain(self.accessed.keys()).map(|h| h.entry)
    }
}

/// The kernel's code and its variables.
pub struct Code<'a> {
    /// Variables and segments.
    pub symbols: &'a Symbols,
    /// The file.
    pub file: &'a [u8],
}

impl Code<'_> {
    fn bytes(&self, svma: u64) -> Option<&[u8]> {
        let rest = self.from(svma)?;
        Some(&rest[..rest.len().min(INSTRUCTION_MAX * STEPS_MAX)])
    }

    /// The file's bytes from the code at an address on.
    fn from(&self, svma: u64) -> Option<&[u8]> {
        let s = self.symbols.segments.iter().find(|s| s.svma <= svma && svma - s.svma < s.file_size)?;
        let start = usize::try_from(s.file_offset.checked_add(svma - s.svma)?).ok()?;
        self.file.get(start..)
    }

    /// The code of a whole function.
    pub(crate) fn whole(&self, start: u64, end: u64) -> Option<&[u8]> {
        self.from(start)?.get(..usize::try_from(end.checked_sub(start)?).ok()?)
    }

    /// Variables that hold what the call before a return address gave.
    pub fn received(&self, back: u64) -> Vec<Holder> {
        let Some(bytes) = self.bytes(back) else { return Vec::new() };
        follow(bytes, back, &|at| self.symbols.placed(at))
    }

    /// Variables in the base register of the instruction's memory operand, and the operand's displacement.
    pub fn accessed(&self, svma: u64) -> Vec<(Holder, i64)> {
        let Some(bytes) = self.bytes(svma) else { return Vec::new() };
        let i = Decoder::with_ip(64, bytes, svma, DecoderOptions::NONE).decode();
        let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        if !memory || i.memory_index() != Register::None || i.segment_prefix() != Register::None {
            return Vec::new();
        }
        let Some(base) = number(i.memory_base()) else { return Vec::new() };
        let at = |v: Placed| match v.place {
            Location::Register(r) if r == base => Some((0, v)),
            Location::Sum(r, sum) if r == base => Some((sum, v)),
            _ => None,
        };
        let found = self.symbols.placed(svma).into_iter().filter_map(at);
        found
            .filter_map(|(sum, v)| {
                // The variable is the register plus `sum`, the access the register plus the displacement.
                let offset = (i.memory_displacement64() as i64).wrapping_sub(sum);
                Some((Holder { entry: v.ty?, variable: v.name }, offset))
            })
            .collect()
    }
}

fn number(register: Register) -> Option<u16> {
    DWARF.iter().position(|r| *r == register).map(|n| n as u16)
}

/// Follows `rax` from a call's return on through copies, as long as control falls through.
fn follow(bytes: &[u8], back: u64, placed: &dyn Fn(u64) -> Vec<Placed>) -> Vec<Holder> {
    let mut decoder = Decoder::with_ip(64, bytes, back, DecoderOptions::NONE);
    let mut holds = vec![Register::RAX];
    let mut out: Vec<Holder> = Vec::new();
    let mut i = Instruction::default();
    for _ in 0..STEPS_MAX {
        for v in placed(decoder.ip()) {
            let Location::Register(r) = v.place else { continue };
            let here = DWARF.get(usize::from(r)).is_some_and(|r| holds.contains(r));
            if let (true, Some(entry)) = (here, v.ty) {
                let holder = Holder { entry, variable: v.name };
                if !out.contains(&holder) {
                    out.push(holder);
                }
            }
        }
        if !decoder.can_decode() {
            break;
        }
        decoder.decode_out(&mut i);
        let goes_on = matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
        if i.is_invalid() || !goes_on {
            break;
        }
        let copied = i.mnemonic() == Mnemonic::Mov
            && i.op0_kind() == OpKind::Register
            && i.op1_kind() == OpKind::Register
            && holds.contains(&i.op1_register());
        holds.retain(|r| !bits::writes(&i, *r));
        if copied {
            holds.push(i.op0_register());
        }
        if holds.is_empty() {
            break;
        }
    }
    out
}

/// A type, how sure, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The struct at the object's start.
    pub ty: TypeId,
    /// 0 to 1.
    pub confidence: f32,
    /// For people.
    pub why: String,
}

/// Decides. `slot` is what the cache hands out, bytes.
pub fn decide(types: &KernelTypes, told: &Told, slot: u64) -> Option<Verdict> {
    if let Some(pointed) = &told.pointed {
        return by_pointer(types, told, pointed);
    }
    let asked = u64::from(told.asked);
    let known: Vec<(TypeId, u64, &str)> = told
        .received
        .iter()
        .filter_map(|h| structure(types, h.entry).map(|(ty, size)| (ty, size, h.variable.as_str())))
        .filter(|(_, size, _)| *size <= if asked > 0 { asked } else { slot })
        .collect();
    let exact: Vec<_> = known.iter().filter(|k| asked > 0 && k.1 == asked).collect();
    if let Some((ty, size, variable)) = only(types, &exact) {
        let why = format!("received by `{variable}`, and {size} bytes were asked for");
        return Some(Verdict { ty, confidence: RECEIVED, why });
    }
    if let Some(v) = by_access(types, told, asked, slot) {
        return Some(v);
    }
    if !exact.is_empty() {
        return None;
    }
    let (ty, size, variable) = only(types, &known.iter().collect::<Vec<_>>())?;
    let why = match asked {
        0 => format!("received by `{variable}`, of {size} bytes"),
        _ => format!("received by `{variable}`; {asked} bytes were asked for, the struct has {size}"),
    };
    Some(Verdict { ty, confidence: RECEIVED_MORE, why })
}

/// A global variable leads here, and code accesses it through pointers to the same struct.
fn by_pointer(types: &KernelTypes, told: &Told, pointed: &Pointed) -> Option<Verdict> {
    let ty = types.named(&pointed.name)?;
    let agrees = |h: &&Holder| {
        structure(types, h.entry)
            .and_then(|(ty, _)| types.table.aggregate(ty)?.name.as_deref())
            .is_some_and(|name| name == pointed.name)
    };
    let (n, variable) = match told.accessed.iter().find(|(h, _)| agrees(h)) {
        Some((h, n)) => (n, &h.variable),
        None => return None,
    };
    let plural = if *n == 1 { "" } else { "s" };
    let why = format!(
        "{} points to an array of them, and {n} instruction{plural} use it as `{variable}`",
        pointed.variable
    );
    Some(Verdict { ty, confidence: ACCESSED, why })
}

/// Code accessed the object through pointers to one struct of just the size that was asked for, or, where that is not
/// known, of one that no smaller slot holds.
fn by_access(types: &KernelTypes, told: &Told, asked: u64, slot: u64) -> Option<Verdict> {
    let fits = |size: u64| match asked {
        0 => size > slot / 2 && size <= slot,
        _ => size == asked,
    };
    let mut votes: BTreeMap<String, (TypeId, u32, &str)> = BTreeMap::new();
    for (h, n) in &told.accessed {
        let Some((ty, size)) = structure(types, h.entry) else { continue };
        if fits(size) {
            let vote = votes.entry(types.table.name(ty)).or_insert((ty, 0, &h.variable));
            vote.1 += n;
        }
    }
    let (_, (ty, n, variable)) = votes.pop_first()?;
    if !votes.is_empty() {
        return None;
    }
    let plural = if n == 1 { "" } else { "s" };
    let (confidence, why) = match asked {
        0 => (
            ACCESSED_ONLY,
            format!("{n} instruction{plural} use it as `{variable}`; its allocation was not seen"),
        ),
        _ => {
            let why =
                format!("{n} instruction{plural} use it as `{variable}`, whose {asked} bytes were asked for");
            (ACCESSED, why)
        }
    };
    Some(Verdict { ty, confidence, why })
}

/// The type of a cache's objects, which its name does not tell: the accessing code uses them as one struct of the size
/// that the cache was made for; else as one that they begin with, if all agree.
pub fn of_cache(types: &KernelTypes, told: &Told, size: u64) -> Option<Verdict> {
    by_access(types, told, size, size).filter(|_| size > 0).or_else(|| by_beginning(types, told, size))
}

/// Code uses the objects as structs that all begin the largest of them: that is what lies at the objects' beginning.
fn by_beginning(types: &KernelTypes, told: &Told, size: u64) -> Option<Verdict> {
    let mut votes: BTreeMap<String, (TypeId, u64, u32, &str)> = BTreeMap::new();
    for (h, n) in &told.accessed {
        let Some((ty, bytes)) = structure(types, h.entry) else { continue };
        let name = types.table.name(ty);
        if !is_link(&name) {
            votes.entry(name).or_insert((ty, bytes, 0, &h.variable)).2 += n;
        }
    }
    let (ty, bytes, n, variable) = *votes.values().max_by_key(|v| v.1)?;
    let begins =
        |v: &(TypeId, u64, u32, &str)| v.0 == ty || beginnings(types, ty).contains(&types.table.name(v.0));
    let agrees = votes.values().all(begins) && n >= BEGINNING_VOTES_MIN && (size == 0 || bytes <= size);
    let why = format!("{n} instructions use its beginning as `{variable}`");
    agrees.then_some(Verdict { ty, confidence: ACCESSED_ONLY, why })
}

/// Names of the structs that lie at a struct's first byte, one in the other.
fn beginnings(types: &KernelTypes, ty: TypeId) -> Vec<String> {
    let mut out = Vec::new();
    let mut at = types.table.strip(ty);
    while out.len() < BEGINNINGS_MAX {
        let Some(first) = types.table.aggregate(at).and_then(|a| a.members.iter().find(|m| m.offset() == 0))
        else {
            break;
        };
        at = types.table.strip(first.ty);
        out.push(types.table.name(at));
    }
    out
}

/// The one type, when all agree.
fn only<'a>(types: &KernelTypes, all: &[&(TypeId, u64, &'a str)]) -> Option<(TypeId, u64, &'a str)> {
    let first = all.first()?;
    let name = types.table.name(first.0);
    all.iter().all(|k| types.table.name(k.0) == name).then_some(**first)
}

/// The complete struct that a pointer leads to, and its size.
pub(crate) fn structure(types: &KernelTypes, entry: usize) -> Option<(TypeId, u64)> {
    let ty = types.entry(Some(entry))?;
    let Type::Pointer { to, .. } = types.table.get(types.table.strip(ty)) else { return None };
    let to = types.table.strip(*to);
    let a = types.table.aggregate(to)?;
    let to = match (a.declaration, &a.name) {
        (true, Some(name)) => types.named(name)?,
        (true, None) => return None,
        (false, _) => to,
    };
    let size = types.table.size(to).filter(|s| *s > 0)?;
    Some((to, size))
}

/// Names of structs that are only declared where the variables are.
pub fn declared(types: &KernelTypes, entries: &[usize]) -> Vec<String> {
    let name = |entry: &usize| {
        let ty = types.entry(Some(*entry))?;
        let Type::Pointer { to, .. } = types.table.get(types.table.strip(ty)) else { return None };
        let a = types.table.aggregate(types.table.strip(*to))?;
        a.name.clone().filter(|_| a.declaration)
    };
    let mut out: Vec<String> = entries.iter().filter_map(name).collect();
    out.sort_unstable();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(name: &str, register: u16) -> Placed {
        Placed { name: name.into(), ty: Some(usize::from(register)), place: Location::Register(register) }
    }

    /// Names found after `code`, with `v` in `rbx` and `w` in `rax` everywhere.
    fn names(code: &[u8]) -> Vec<String> {
        let all = |_| vec![placed("v", 3), placed("w", 0)];
        follow(code, 0x1000, &all).into_iter().map(|h| h.variable).collect()
    }

    /// Entries 1 to 3 point to `struct a` of 24 bytes, `struct b` of 64, and `struct c`, which is declared only; 4 to a
    /// `long`.
    fn types() -> KernelTypes {
        use tussle_evidence::sample::Sample;
        let mut s = Sample::new(1);
        let long = s.long();
        let a = s.structure("a", 24, &[("x", long, 0)]);
        let b = s.structure("b", 64, &[("y", long, 0)]);
        let mut table = s.evidence().types;
        let mut pointer = |to| table.push(Type::Pointer { to, size: 8 });
        let entries = [(1, pointer(a)), (2, pointer(b)), (4, pointer(long))];
        KernelTypes::of(table, entries.into_iter().collect())
    }

    #[test]
    fn a_type_needs_a_size_that_agrees() {
        let holder = |entry: usize| Holder { entry, variable: format!("v{entry}") };
        let check = |received: &[usize], accessed: &[(usize, u32)], asked, want: Option<(&str, f32)>| {
            let told = Told {
                received: received.iter().map(|e| holder(*e)).collect(),
                accessed: accessed.iter().map(|(e, n)| (holder(*e), *n)).collect(),
                asked,
                pointed: None,
            };
            let types = types();
            let verdict = decide(&types, &told, 96);
            let got = verdict.map(|v| (types.table.name(v.ty), v.confidence));
            assert_eq!(got.as_ref().map(|(n, c)| (n.as_str(), *c)), want, "{told:?}");
        };
        check(&[1], &[], 24, Some(("struct a", RECEIVED)));
        check(&[4, 1], &[], 24, Some(("struct a", RECEIVED)));
        check(&[1, 2], &[], 24, Some(("struct a", RECEIVED)));
        check(&[1, 2], &[], 64, Some(("struct b", RECEIVED)));
        check(&[1], &[], 80, Some(("struct a", RECEIVED_MORE)));
        check(&[1], &[], 0, Some(("struct a", RECEIVED_MORE)));
        check(&[1, 2], &[], 80, None);
        check(&[2], &[], 24, None);
        check(&[4], &[], 8, None);
        check(&[9], &[], 24, None);
        check(&[], &[(1, 3)], 24, Some(("struct a", ACCESSED)));
        check(&[], &[(1, 3), (2, 9)], 24, Some(("struct a", ACCESSED)));
        check(&[], &[(1, 3)], 80, None);
        check(&[], &[(1, 3)], 0, None);
        // Nobody saw the allocation: 64 bytes fill a slot of 96, 24 would lie in a smaller one.
        check(&[], &[(2, 3)], 0, Some(("struct b", ACCESSED_ONLY)));
        check(&[], &[(1, 9), (2, 3)], 0, Some(("struct b", ACCESSED_ONLY)));
        check(&[1], &[(2, 1)], 64, Some(("struct b", ACCESSED)));
    }

    /// A cache for 64 bytes: `struct b` has as many; 24 bytes of `struct a` begin something larger.
    #[test]
    fn a_cache_has_the_type_of_its_size_or_of_its_beginning() {
        let check = |accessed: &[(usize, u32)], want: Option<(&str, f32)>| {
            let holder = |(e, n): &(usize, u32)| (Holder { entry: *e, variable: "v".into() }, *n);
            let told = Told { accessed: accessed.iter().map(holder).collect(), asked: 64, ..Told::default() };
            let types = types();
            let verdict = of_cache(&types, &told, 64).map(|v| (types.table.name(v.ty), v.confidence));
            assert_eq!(verdict.as_ref().map(|(n, c)| (n.as_str(), *c)), want, "{accessed:?}");
        };
        check(&[(2, 1)], Some(("struct b", ACCESSED)));
        check(&[(1, 5), (2, 1)], Some(("struct b", ACCESSED)));
        check(&[(1, 5)], Some(("struct a", ACCESSED_ONLY)));
        check(&[(1, 1)], None);
        check(&[(4, 9)], None);
        check(&[], None);
    }

    #[test]
    fn a_pointer_to_an_array_needs_code_that_agrees() {
        let check = |name: &str, accessed: &[usize], want: Option<&str>| {
            let holder = |e: &usize| (Holder { entry: *e, variable: "hb".into() }, 2);
            let pointed = Some(Pointed { name: name.into(), variable: "futex.queues".into() });
            let told = Told { accessed: accessed.iter().map(holder).collect(), pointed, ..Told::default() };
            let types = types();
            let verdict = decide(&types, &told, 64);
            assert_eq!(verdict.map(|v| v.why).as_deref(), want);
        };
        let why = "futex.queues points to an array of them, and 2 instructions use it as `hb`";
        check("b", &[2], Some(why));
        check("b", &[1, 2], Some(why));
        check("b", &[1], None);
        check("b", &[], None);
        check("nothing", &[2], None);
    }

    #[test]
    fn what_is_returned_is_followed() {
        // mov rbx, rax
        assert_eq!(names(&[0x48, 0x89, 0xc3]), ["w", "v"]);
        // mov rbx, rcx: something else
        assert_eq!(names(&[0x48, 0x89, 0xcb]), ["w"]);
        // test rax, rax; je +0; mov rbx, rax
        assert_eq!(names(&[0x48, 0x85, 0xc0, 0x74, 0, 0x48, 0x89, 0xc3]), ["w", "v"]);
        // mov rdx, rax; xor eax, eax; mov rbx, rdx
        assert_eq!(names(&[0x48, 0x89, 0xc2, 0x31, 0xc0, 0x48, 0x89, 0xd3]), ["w", "v"]);
        // xor eax, eax; mov rbx, rax
        assert_eq!(names(&[0x31, 0xc0, 0x48, 0x89, 0xc3]), ["w"]);
        // call; mov rbx, rax: another result
        assert_eq!(names(&[0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3]), ["w"]);
        // jmp; mov rbx, rax: not reached
        assert_eq!(names(&[0xeb, 0, 0x48, 0x89, 0xc3]), ["w"]);
        assert_eq!(names(&[]), ["w"]);
    }
}
