//! BTF built as data here, and the running kernel's where there is one.

mod common;

use common::*;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, btf, open, snapshot};
use tussle_model::{AlignmentSource, Encoding, Type, TypeId, TypeTable};

/// Builds BTF in either byte order.
struct Builder {
    big: bool,
    strings: Vec<u8>,
    strings_before: u32,
    types: Vec<u8>,
}

impl Builder {
    fn new(big: bool) -> Builder {
        Builder { big, strings: vec![0], strings_before: 0, types: Vec::new() }
    }

    fn split(strings_before: u32) -> Builder {
        Builder { big: false, strings: Vec::new(), strings_before, types: Vec::new() }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32 + self.strings_before;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn word(&self, n: u32) -> [u8; 4] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn half(&self, n: u16) -> [u8; 2] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    /// A record of `kind` (bit 7: the flag) with `count` parts, whose words follow.
    fn record(&mut self, name: &str, kind: u32, flag: bool, count: u32, size: u32, words: &[u32]) {
        let name = self.string(name);
        let info = count | kind << 24 | u32::from(flag) << 31;
        for word in [name, info, size].iter().chain(words) {
            let bytes = self.word(*word);
            self.types.extend(bytes);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.half(0xeb9f));
        out.extend([1, 0]);
        let lens = [24, 0, self.types.len() as u32, self.types.len() as u32, self.strings.len() as u32];
        lens.iter().for_each(|w| out.extend(self.word(*w)));
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;

/// Every kind once.
fn every_kind(big: bool) -> Builder {
    let mut b = Builder::new(big);
    b.record("int", INT, false, 0, 4, &[1 << 24 | 32]); // 1
    b.record("", 2, false, 0, 6, &[]); // 2: pointer to struct s
    b.record("", ARRAY, false, 0, 0, &[1, 1, 3]); // 3: int[3]
    b.record("", ARRAY, false, 0, 0, &[3, 1, 2]); // 4: int[2][3]
    b.record("", ARRAY, false, 0, 0, &[1, 1, 0]); // 5: int[]
    let names: Vec<u32> =
        ["a", "bits", "m", "p", "tagged", "e", "flex"].iter().map(|n| b.string(n)).collect();
    let member = |i: usize, ty: u32, bits: u32| [names[i], ty, bits];
    let members = [
        member(0, 8, 0),
        member(1, 1, 5 << 24 | 32),
        member(2, 4, 64),
        member(3, 2, 256),
        member(4, 14, 320),
        member(5, 15, 384),
        member(6, 5, 512),
    ];
    b.record("s", STRUCT, true, 7, 64, &members.concat()); // 6
    b.record("fwd", 7, false, 0, 0, &[]); // 7
    b.record("my_int", 8, false, 0, 9, &[]); // 8: typedef const int
    b.record("", 10, false, 0, 1, &[]); // 9: const
    b.record("", 9, false, 0, 1, &[]); // 10: volatile
    b.record("", 11, false, 0, 2, &[]); // 11: restrict
    b.record("user", 18, false, 0, 7, &[]); // 12: type tag on fwd
    b.record("", 13, false, 2, 1, &[0, 2, 0, 0]); // 13: int (struct s *, ...)
    b.record("", 2, false, 0, 12, &[]); // 14: pointer to tagged fwd
    let (low, high) = (b.string("LOW"), b.string("HIGH"));
    b.record("big", 19, true, 2, 8, &[low, (-1i32) as u32, (-1i32) as u32, high, 1, 2]); // 15: enum64
    let value = b.string("V");
    b.record("small", 6, false, 1, 4, &[value, (-7i32) as u32]); // 16
    b.record("f", 12, false, 1, 13, &[]); // 17: func
    b.record("var", 14, false, 0, 1, &[0]); // 18
    b.record(".data", 15, false, 1, 8, &[18, 0, 4]); // 19
    b.record("double", 16, false, 0, 8, &[]); // 20
    b.record("tag", 17, false, 0, 6, &[0]); // 21
    b.record("u", 5, false, 1, 4, &[names[0], 1, 0]); // 22
    b
}

fn members(table: &TypeTable, name: &str) -> Vec<String> {
    let a = table.aggregate(table.find(name).unwrap()).unwrap();
    let show = |m: &tussle_model::Member| {
        let bits = m.bit_size.map(|b| format!(":{b}")).unwrap_or_default();
        format!("{} {} @{}{bits}", table.name(m.ty), m.name.as_deref().unwrap_or("-"), m.offset_bits)
    };
    a.members.iter().map(show).collect()
}

#[test]
fn every_kind_in_both_byte_orders() {
    for big in [false, true] {
        let (table, problems) = btf::read(&every_kind(big).bytes(), None).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(table.len(), 23);
        let want = [
            "my_int a @0",
            "int bits @32:5",
            "int[2][3] m @64",
            "struct s * p @256",
            "struct fwd * tagged @320",
            "enum big e @384",
            "int[] flex @512",
        ];
        assert_eq!(members(&table, "s"), want);
        let Type::Enum(e) = table.get(TypeId(15)) else { panic!() };
        assert_eq!(e.values.iter().map(|v| v.value).collect::<Vec<_>>(), [-1, 2 << 32 | 1]);
        let Type::Enum(e) = table.get(TypeId(16)) else { panic!() };
        assert_eq!(e.values[0].value, -7);
        let Type::Function { params, variadic, .. } = table.get(TypeId(13)) else { panic!() };
        assert_eq!((params.len(), *variadic), (1, true));
        let Type::Base(b) = table.get(TypeId(20)) else { panic!() };
        assert_eq!((b.size, b.encoding), (8, Encoding::Float));
        assert_eq!(members(&table, "union u"), ["int a @0"]);
    }
}

#[test]
fn a_name_brings_what_it_contains() {
    let bytes = every_kind(false).bytes();
    let (table, problems) = open(&bytes, &Want::Names(&["struct s".into()]), &mut NoCompanions).unwrap();
    assert!(problems.is_empty());
    assert_eq!(members(&table, "s").len(), 7);
    assert!(table.len() < 20 && table.find("u").is_none());
    let (table, _) = open(&bytes, &Want::Names(&["absent".into()]), &mut NoCompanions).unwrap();
    assert!(table.is_empty());
}

#[test]
fn old_bit_fields_are_narrow_integers() {
    let mut b = Builder::new(false);
    b.record("int", INT, false, 0, 4, &[1 << 24 | 32]);
    b.record("int", INT, false, 0, 4, &[1 << 24 | 3 << 16 | 4]);
    let (x, y) = (b.string("x"), b.string("y"));
    b.record("s", STRUCT, false, 2, 8, &[x, 1, 0, y, 2, 32]);
    let (table, _) = btf::read(&b.bytes(), None).unwrap();
    assert_eq!(members(&table, "s"), ["int x @0", "int y @35:4"]);
}

#[test]
fn a_module_continues_its_kernel() {
    let base = every_kind(false);
    let mut module = Builder::split(base.strings.len() as u32);
    let name = module.string("inner");
    module.record("mine", STRUCT, false, 1, 64, &[name, 6, 0]); // 23
    let (table, problems) = btf::read(&module.bytes(), Some(&base.bytes())).unwrap();
    assert!(problems.is_empty());
    assert_eq!(table.find("mine"), Some(TypeId(23)));
    assert_eq!(members(&table, "mine"), ["struct s inner @0"]);
    assert!(btf::is_split(&module.bytes()) && !btf::is_split(&base.bytes()));
    let error = open(&module.bytes(), &Want::All, &mut NoCompanions).unwrap_err();
    assert!(error.to_string().contains("give the kernel's with --btf-base"), "{error}");
    // Another kernel's names begin elsewhere: no field of it may be shown.
    let mut other = every_kind(false);
    other.string("more");
    let error = btf::read(&module.bytes(), Some(&other.bytes())).unwrap_err();
    assert!(error.to_string().contains("of another kernel"), "{error}");
}

#[test]
fn alignment_is_inferred_where_the_layout_shows_it() {
    let check = |size: u32, offsets: &[u32], expect: Option<u64>| {
        let mut b = Builder::new(false);
        b.record("int", INT, false, 0, 4, &[1 << 24 | 32]);
        let name = b.string("m");
        let members: Vec<u32> = offsets.iter().flat_map(|o| [name, 1, o * 8]).collect();
        b.record("s", STRUCT, false, offsets.len() as u32, size, &members);
        let (table, _) = btf::read(&b.bytes(), None).unwrap();
        let align = table.aggregate(table.find("s").unwrap()).unwrap().align;
        assert_eq!(align.map(|a| a.bytes), expect, "{size} {offsets:?}");
        assert!(align.is_none_or(|a| a.source == AlignmentSource::Inferred));
    };
    check(8, &[0, 4], None);
    check(64, &[0, 4], Some(64));
    check(128, &[0, 64], Some(64));
    check(16, &[0, 8], Some(8));
    check(20, &[0, 16], None); // packed or padded by hand: nothing is known
    check(5, &[1], None);
    check(0, &[], None);
}

#[test]
fn damage_is_named_with_its_place() {
    let whole = every_kind(false).bytes();
    let check = |bytes: &[u8], expect: &str| {
        let text = match btf::read(bytes, None) {
            Ok((_, problems)) => problems.iter().map(|p| p.to_string()).collect::<String>(),
            Err(e) => e.to_string(),
        };
        assert!(text.contains(expect), "{text}");
    };
    check(&whole[..10], "BTF: offset 0x8: header cut off");
    check(&whole[..30], "type section");
    let mut version = whole.clone();
    version[2] = 9;
    check(&version, "unsupported: version 9");
    let mut kind = whole.clone();
    kind[24 + 7] = 0x1f;
    check(&kind, "type kind 31 is unknown");
}

#[test]
fn the_running_kernel() {
    if !tussle_testkit::need("kernel types") {
        return;
    }
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let (table, problems) = btf::read(&bytes, None).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let id = table.find("struct list_head").unwrap();
    assert_eq!(member(&table, id, "prev"), Some((64, 64)));
    let mut code = btf::code::CodeTypes::read(&bytes).unwrap();
    let runqueues = code.type_of("runqueues").unwrap();
    let (own, ids) = code.table(&[runqueues]);
    let aggregate = own.aggregate(ids[0]).unwrap();
    assert_eq!(aggregate.name.as_deref(), Some("rq"));
    assert!(aggregate.size > 64 && own.len() < table.len() / 20);
    // handle_mm_fault(struct vm_area_struct *, unsigned long, ..); vma->vm_mm; mm->mmap_lock
    let vma = code.parameters("handle_mm_fault").unwrap();
    assert!(vma[0].is_some() && vma[1].is_none());
    let place = |of: &str, field: &str| member(&table, table.find(of).unwrap(), field).unwrap().0 / 8;
    let mm = code.pointer_at(vma[0].unwrap(), place("vm_area_struct", "vm_mm")).unwrap();
    let (names, ids) = code.table(&[mm]);
    assert_eq!(names.aggregate(ids[0]).unwrap().name.as_deref(), Some("mm_struct"));
    let file = code.pointer_at(vma[0].unwrap(), place("vm_area_struct", "vm_file")).unwrap();
    let inode = code.pointer_at(file, place("file", "f_inode")).unwrap();
    assert!(code.pointer_at(file, place("file", "f_inode") + 4).is_none(), "the middle of a pointer");
    assert!(code.size(inode) > 100 && code.holds(inode, 0, inode) && !code.holds(inode, 0, file));
    let (few, _) = btf::read_types(&bytes, None, &Want::Names(&["mm_struct".into()]), 8).unwrap();
    let all = table.aggregate(table.find("mm_struct").unwrap()).unwrap();
    let one = few.aggregate(few.find("mm_struct").unwrap()).unwrap();
    assert_eq!((one.size, one.members.len()), (all.size, all.members.len()));
    assert!(few.len() < table.len() / 20);
}

#[test]
fn a_snapshot_reads_like_the_original() {
    let (table, _) = btf::read(&every_kind(false).bytes(), None).unwrap();
    let json = snapshot::write(&table, &[table.find("s").unwrap()]).unwrap();
    let (again, problems) = open(&json, &Want::All, &mut NoCompanions).unwrap();
    assert!(problems.is_empty());
    assert_eq!(members(&again, "s"), members(&table, "s"));
    assert_eq!(again.aggregates().next().unwrap().1.name.as_deref(), Some("s"), "named structs come first");
    assert_eq!(json, snapshot::write(&again, &[again.find("s").unwrap()]).unwrap());
}

#[test]
fn every_truncation_and_flipped_byte_is_survived() {
    let whole = every_kind(false).bytes();
    for end in 0..whole.len() {
        let _ = btf::read(&whole[..end], None);
    }
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            if let Ok((table, _)) = btf::read(&bytes, None) {
                table.iter().for_each(|(id, _)| drop((table.size(id), table.name(id))));
            }
            let _ = btf::read_types(&bytes, None, &Want::Names(&["s".into()]), 8);
        }
    }
}

/// Writes the seeds of the fuzz targets; run by hand with `--ignored` when the builder changes.
#[test]
#[ignore = "writes into fuzz/corpus"]
fn write_seeds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let little = every_kind(false);
    let mut module = Builder::split(little.strings.len() as u32);
    let name = module.string("inner");
    module.record("mine", STRUCT, false, 1, 64, &[name, 6, 0]);
    let (table, _) = btf::read(&little.bytes(), None).unwrap();
    let one = snapshot::write(&table, &[table.find("s").unwrap()]).unwrap();
    let all: Vec<_> = table.iter().map(|(id, _)| id).collect();
    for (path, bytes) in [
        ("btf/little", little.bytes()),
        ("btf/big", every_kind(true).bytes()),
        ("btf/module", module.bytes()),
        ("snapshot/one.json", one),
        ("snapshot/all.json", snapshot::write(&table, &all).unwrap()),
    ] {
        std::fs::write(folder.join(path), bytes).unwrap();
    }
}
