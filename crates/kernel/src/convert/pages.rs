//! Bare pages: memory that no slab, variable or allocation explains, told by the code that touches it. A page table's
//! entries are what the walking code calls them; what code clears, copies and sums for others is a page's contents,
//! memory of programs and bytes of files and packets, which has no fields.

use std::collections::{BTreeMap, HashMap, HashSet};

use tussle_evidence::{Evidence, Object, ObjectKind, Role};
use tussle_model::Type;

use crate::convert::inner::Bases;
use crate::image::KernelTypes;
use crate::place::{FILE_PAGE, is_nobodys};
use crate::slab::PAGE;
use crate::typed::Holder;

/// Entries of page tables, by the names of their types (arch/x86/include/asm/pgtable_types.h).
const ENTRIES: &[&str] = &["pte_t", "pmd_t", "pud_t", "p4d_t", "pgd_t"];

/// Beginnings of the names of inlined functions that read and change one such entry, where the register that holds its
/// address has lost its variable's name (include/linux/pgtable.h, arch/x86/include/asm/pgtable.h).
const ENTRY_CODE: &[&str] = &[
    "ptep_",
    "pmdp_",
    "pudp_",
    "p4dp_",
    "pgdp_",
    "set_pte",
    "set_pmd",
    "native_set_p",
    "native_ptep_",
    "native_pmdp_",
];

/// Beginnings of the names of functions that clear, copy and sum bytes for whoever calls them, over five years of
/// kernels (arch/x86/lib; lib/crc32.c: file systems and journals sum their blocks).
const BYTES_CODE: &[&str] = &[
    "clear_page",
    "copy_page",
    "copy_user",
    "__copy_user",
    "copy_mc",
    "__clear_user",
    "clear_user",
    "rep_movs_alternative",
    "rep_stos_alternative",
    "memcpy",
    "__memcpy",
    "__pi_memcpy",
    "memmove",
    "__memmove",
    "memset",
    "__memset",
    "__pi_memset",
    "crc32",
    "__crc32",
    "crc_pcl",
];

/// Beginnings of the names of functions that read and change single bits of a bitmap. In a file's page that is one of
/// its file system: which of its blocks are in use (arch/x86/include/asm/bitops.h, lib/find_bit.c).
const BITMAP_CODE: &[&str] = &[
    "arch___set_bit",
    "arch___clear_bit",
    "arch___test_and_",
    "arch_test_bit",
    "variable_test_bit",
    "_find_next_",
    "_find_first_",
    "mb_set_bits",
    "mb_clear_bits",
];

/// What a page is called of which all that was touched is explained.
const PAGE_NAME: &str = "page";

/// Writes the roles of touches to bare pages, and calls pages that they explain entirely what they are.
pub(super) fn name(types: &KernelTypes, bases: &Bases, evidence: &mut Evidence) {
    let bare: Vec<bool> = evidence.objects.iter().map(is_bare).collect();
    let mut known: BTreeMap<u32, Option<Role>> = BTreeMap::new();
    for t in evidence.touches.iter_mut().filter(|t| bare.get(t.object as usize) == Some(&true)) {
        let told = || {
            let code = |stems| evidence.code.get(t.code as usize).is_some_and(|c| begins(&c.frames, stems));
            let walks = bases.get(&t.code).is_some_and(|held| is_entry(types, held)) || code(ENTRY_CODE);
            let moves = || code(BYTES_CODE);
            if walks { Some(Role::PageTableEntry) } else { moves().then_some(Role::PageContents) }
        };
        let role = *known.entry(t.code).or_insert_with(told);
        if role.is_some() {
            (t.role, t.field) = (role, None);
        }
    }
    bitmaps(&bare, evidence);
    spread(&bare, evidence);
    rename(&bare, evidence);
}

/// Bits of a file system's bitmap, which has no fields.
fn bitmaps(bare: &[bool], evidence: &mut Evidence) {
    let code: Vec<bool> = evidence.code.iter().map(|c| begins(&c.frames, BITMAP_CODE)).collect();
    for t in evidence.touches.iter_mut().filter(|t| t.role.is_none() && t.field.is_none()) {
        let file = evidence.objects.get(t.object as usize).and_then(|o| o.name.as_deref()) == Some(FILE_PAGE);
        if file && bare.get(t.object as usize) == Some(&true) && code.get(t.code as usize) == Some(&true) {
            t.role = Some(Role::PageContents);
        }
    }
}

fn is_bare(o: &Object) -> bool {
    let page = matches!(o.kind, ObjectKind::Mapped | ObjectKind::Unknown) && o.size == PAGE;
    page && o.ty.is_none() && o.base.is_multiple_of(PAGE)
}

/// All variables in the base register point to entries of page tables.
fn is_entry(types: &KernelTypes, held: &[(Holder, i64)]) -> bool {
    let one = |(holder, _): &(Holder, i64)| {
        let Some(ty) = types.entry(Some(holder.entry)) else { return false };
        let Type::Pointer { to, .. } = types.table.get(types.table.strip(ty)) else { return false };
        ENTRIES.contains(&types.table.name(*to).trim_start_matches("const "))
    };
    !held.is_empty() && held.iter().all(one)
}

/// The innermost function's name begins with one of these.
fn begins(frames: &[tussle_evidence::Frame], stems: &[&str]) -> bool {
    let innermost = frames.first().map(|f| f.function.as_str());
    innermost.is_some_and(|f| stems.iter().any(|stem| f.starts_with(stem)))
}

/// Code of which nothing is known touches what other code calls an entry.
fn spread(bare: &[bool], evidence: &mut Evidence) {
    let entry = |role: Option<Role>| role == Some(Role::PageTableEntry);
    let entries: HashSet<(u32, u64, u32)> =
        evidence.touches.iter().filter(|t| entry(t.role)).map(|t| (t.object, t.offset, t.size)).collect();
    for t in evidence.touches.iter_mut().filter(|t| t.role.is_none() && t.field.is_none()) {
        let here = (t.object, t.offset, t.size);
        if bare.get(t.object as usize) == Some(&true) && entries.contains(&here) {
            t.role = Some(Role::PageTableEntry);
        }
    }
}

/// A page is nobody's as long as one touch is unexplained.
fn rename(bare: &[bool], evidence: &mut Evidence) {
    let mut explained: HashMap<u32, bool> = HashMap::new();
    for t in &evidence.touches {
        *explained.entry(t.object).or_insert(true) &= t.role.is_some() || t.field.is_some();
    }
    for ((o, bare), id) in evidence.objects.iter_mut().zip(bare).zip(0u32..) {
        if *bare && explained.get(&id) == Some(&true) && o.name.as_deref().is_some_and(is_nobodys) {
            (o.kind, o.name) = (ObjectKind::Mapped, Some(PAGE_NAME.into()));
            o.why = format!("{}, and by the code that touches it", o.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::OWNERLESS;
    use tussle_evidence::sample::Sample;
    use tussle_evidence::{Frame, Touch, TouchKind};

    fn touch(object: u32, offset: u64, code: u32) -> Touch {
        let kind = TouchKind::Read;
        Touch { object, offset, size: 8, code, actor: None, kind, samples: 1, field: None, role: None }
    }

    /// Code 0 clears, 1 walks a table, 2 and 3 are anybody's, 4 sums, 5 tests a bit. The third page is a
    /// file's.
    fn named(touches: Vec<Touch>) -> Evidence {
        let mut s = Sample::new(1000);
        for base in [0x1000, 0x2000, 0x3000] {
            s.heap(base, PAGE, None, 1, PAGE, None);
        }
        let long = s.long();
        let pte = s.typedef("pte_t", long);
        let mut e = s.evidence();
        for function in
            ["clear_page_erms", "zap_pte_range", "_raw_spin_lock", "mystery", "crc32_body", "arch_test_bit"]
        {
            let frames = vec![Frame { function: function.into(), file: String::new(), line: 0, column: 0 }];
            let row = tussle_evidence::Code { frames, ..crate::convert::code_row(0) };
            e.code.push(row);
        }
        for o in &mut e.objects {
            (o.kind, o.name) = (ObjectKind::Unknown, Some(OWNERLESS.into()));
        }
        e.objects[2].name = Some(FILE_PAGE.into());
        e.touches = touches;
        let mut table = e.types.clone();
        let pointer = table.push(Type::Pointer { to: pte, size: 8 });
        let types = KernelTypes::of(table, HashMap::from([(7, pointer)]));
        let bases = Bases::from([(1, vec![(Holder { entry: 7, variable: "pte".into() }, 0)])]);
        name(&types, &bases, &mut e);
        e
    }

    #[test]
    fn pages_are_what_all_of_their_code_says() {
        let e = named(vec![touch(0, 0, 0), touch(0, 64, 1), touch(0, 64, 2), touch(1, 0, 4), touch(1, 8, 3)]);
        let roles: Vec<Option<Role>> = e.touches.iter().map(|t| t.role).collect();
        let (contents, entry) = (Some(Role::PageContents), Some(Role::PageTableEntry));
        assert_eq!(roles, [contents, entry, entry, contents, None]);
        let names: Vec<Option<&str>> = e.objects.iter().map(|o| o.name.as_deref()).collect();
        assert_eq!(names, [Some(PAGE_NAME), Some(OWNERLESS), Some(FILE_PAGE)]);
    }

    #[test]
    fn bits_are_contents_in_a_files_page_alone() {
        let e = named(vec![touch(1, 0, 5), touch(2, 0, 5), touch(2, 8, 3)]);
        let roles: Vec<Option<Role>> = e.touches.iter().map(|t| t.role).collect();
        assert_eq!(roles, [None, Some(Role::PageContents), None]);
    }
}
