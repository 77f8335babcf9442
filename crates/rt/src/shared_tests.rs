#![allow(clippy::unwrap_used)]

use super::*;

const MAPS: &str = "\
555555554000-555555555000 rw-p 00001000 08:01 7 /bin/a
200000000000-200000002000 rw-s 00001000 00:1a 42                         /dev/shm/x
7ffff7000000-7ffff7001000 rw-s 00000000 00:01 1024                       /dev/zero (deleted)
7ffff6000000-7ffff7000000 rw-s 00000000 00:1a 50                         /dev/shm/s/1.raw
";

#[test]
fn only_shared_mappings_of_the_program_count() {
    let all = mappings(MAPS);
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].file, all[0].offset, all[0].writable), ((0x1a, 42), 0x1000, true));
    assert_eq!(all[1].file, (1, 1024));
}

#[test]
fn damaged_lines_are_no_mappings() {
    for text in
        ["", "x-y rw-s 0 00:1a 42", "2000-1000 rw-s 0 00:1a 42", "1000-2000 rw-s ffffffffffffffff 00:1a 42"]
    {
        assert_eq!(mappings(text), [], "{text}");
    }
}

#[test]
fn one_byte_has_one_address() {
    let m = |start, offset, inode| Mapping {
        start,
        end: start + 0x2000,
        file: (0x1a, inode),
        offset,
        writable: true,
    };
    let of = vec![vec![m(0x10000, 0, 42)], vec![m(0x50000, 0x1000, 42), m(0x80000, 0, 43)]];
    let s = Shared { of, not_followed: 0 };
    assert_eq!(s.canonical(1, 0x50040), Some((0, 0x11040)));
    assert_eq!(s.canonical(0, 0x11040), Some((0, 0x11040)));
    // Beyond the first process's mapping the second one's address stands.
    assert_eq!(s.canonical(1, 0x51040), Some((1, 0x51040)));
    assert_eq!(s.canonical(1, 0x80040), Some((1, 0x80040)));
    assert_eq!(s.canonical(1, 0x99999), None);
}

#[test]
fn of_mappings_at_one_address_the_first_counts() {
    let mut all = Vec::new();
    let first = mappings(MAPS)[0];
    assert!(add(&mut all, first));
    assert!(!add(&mut all, Mapping { file: (1, 9), ..first }));
    assert!(add(&mut all, Mapping { end: first.end + 0x1000, ..first }));
    assert!(add(&mut all, Mapping { start: first.start - 0x1000, offset: 0, ..first }));
    assert_eq!(all, [Mapping { start: first.start - 0x1000, offset: 0, end: first.end + 0x1000, ..first }]);
}
