use super::*;
use crate::sample::Sample;
use proptest::prelude::*;

fn packed(e: &Evidence) -> Vec<u8> {
    let mut out = Vec::new();
    write(e, &mut out).unwrap();
    out
}

fn bytes(e: &Evidence) -> Vec<u8> {
    let mut out = Vec::new();
    write_jsonl(e, &mut out).unwrap();
    out
}

fn small() -> Evidence {
    let mut s = Sample::two_counters();
    let e = s.tables();
    e.modules.push(Module {
        process: 0,
        path: "/bin/server".into(),
        build_id: Some("ab".into()),
        start: 0x40_0000,
        end: 0x41_0000,
        bias: 0,
    });
    e.losses.push(Loss {
        process: Some(0),
        what: "pieces merged".into(),
        count: 3,
        note: "E within 2%".into(),
    });
    e.operations = Some(vec![Operation {
        actor: 1,
        lock_object: Some(0),
        lock_offset: Some(8),
        vt0: 5,
        vt1: 9,
        visits: vec![(0, 0, 8, TouchKind::Write, 2)],
        repeats: 7,
        shared: Some(true),
        think_instructions: Some(1000),
        instructions: None,
        inner: Some(vec![(0, 1, 0, 8, None)]),
        kind: Some(OperationKind::Section),
        work: Some(vec![(WorkKind::Dependent, 12)]),
    }]);
    e.schedules =
        Some(vec![Schedule { turn_instructions: 1000, feedback_instructions: Some(0), seed: Some(7) }]);
    e.order = Some(vec![Turn { actor: 1, visits: vec![(0, 0, 8, TouchKind::Rmw)], schedule: Some(0) }]);
    numbers(e);
    s.evidence()
}

/// A row of every kind of number.
fn numbers(e: &mut Evidence) {
    let kind = TouchKind::Write;
    e.transfers = Some(vec![Transfer {
        object: 0,
        offset: 8,
        size: 8,
        code: Some(2),
        actor: Some(1),
        kind,
        transfers: 9,
        dirty: 4,
        schedule: Some(0),
    }]);
    e.rates = Some(vec![Rate {
        object: 0,
        offset: 0,
        size: 8,
        actor: None,
        code: Some(2),
        of: RateOf::Conflicts,
        from_s: 0.5,
        to_s: 1.5,
        events: 12,
        per_s: 12.0,
        low_per_s: None,
        high_per_s: Some(20.5),
        first_s: Some(0.25),
    }]);
    e.heat = Some(vec![Heat { object: 0, offset: 0, size: 8, reads: 3, writes: 4, within: Some(2.0) }]);
    e.regions = Some(vec![Region {
        process: 0,
        start: 4096,
        end: 8192,
        backing: Some(Backing::File),
        device: Some(3),
        inode: Some(4),
        offset: Some(0),
        parent: None,
    }]);
    e.objects[0].region = Some(0);
    e.run.flags = Some(vec!["--pieces".into()]);
    e.run.seed = Some(1);
    e.samples =
        Some(vec![Sampled { records: 5, size: 1, hitm_local: Some(3), cpus: Some(2), ..Sampled::default() }]);
}

#[test]
fn round_trip() {
    for e in [small(), Sample::two_counters().evidence(), Sample::new(1).evidence()] {
        for file in [bytes(&e), packed(&e)] {
            let (back, problems) = read(&file).unwrap();
            assert_eq!(problems, []);
            assert_eq!(format!("{e:?}"), format!("{back:?}"));
        }
    }
}

#[test]
fn tables_longer_than_a_block_come_back_whole() {
    let mut s = Sample::two_counters();
    for i in 0..3 * packed::BLOCK_ROWS as u64 {
        s.access(0, 0, 8, 1, (i, i + 1), [i, 0, 0]);
    }
    let e = s.evidence();
    for file in [bytes(&e), packed(&e)] {
        let (back, problems) = read(&file).unwrap();
        assert_eq!(problems, []);
        assert_eq!(back.accesses, e.accesses);
    }
    assert!(8 * packed(&e).len() < bytes(&e).len(), "that is what packing is for");
}

#[test]
fn a_damaged_packed_block_takes_only_its_own_rows() {
    let mut s = Sample::two_counters();
    for i in 0..3 * packed::BLOCK_ROWS as u64 {
        s.access(0, 0, 8, 1, (i, i + 1), [i, 0, 0]);
    }
    let e = s.evidence();
    let file = packed(&e);
    let find = |from: usize, what: &[u8]| {
        from + file[from..].windows(what.len()).position(|w| w == what).expect("the text")
    };
    let header = find(0, b"{\"table\":\"accesses\"");
    let body = find(header, b"\n") + 1;
    let read_with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut damaged = file.clone();
        change(&mut damaged);
        let (e, problems) = read(&damaged).unwrap();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        (e, problems.join("; "))
    };
    for (change, said) in [
        (&(|f: &mut Vec<u8>| f[body + 9] ^= 1) as &dyn Fn(&mut Vec<u8>), "another checksum"),
        (&|f: &mut Vec<u8>| f[header + 3] = b'T', "no header of a table"),
        (&|f: &mut Vec<u8>| drop(f.drain(body..body + 7)), "16384 rows are lost"),
    ] {
        let (back, problems) = read_with(change);
        assert!(problems.contains(said), "{problems}");
        assert_eq!(back.accesses, e.accesses[packed::BLOCK_ROWS..], "{said}");
        assert!(back.run.complete, "{said}: the end is there");
    }
    let (back, _) = read_with(&|f| f.truncate(find(body, b"{\"table\":\"accesses\"") + 200));
    assert!(!back.run.complete);
    assert_eq!(back.accesses, e.accesses[..packed::BLOCK_ROWS]);
}

#[test]
fn lost_packed_rows_do_not_shift_the_ids_of_others() {
    let e = small();
    let mut file = packed(&e);
    let at = file.windows(16).position(|w| w == b"{\"table\":\"actors").expect("actors");
    let body = at + file[at..].iter().position(|b| *b == b'\n').expect("its end") + 1;
    file[body + 4] ^= 0x55;
    let (back, problems) = read(&file).unwrap();
    assert!(problems.iter().any(|p| p.to_string().contains("another checksum")), "{problems:?}");
    assert_eq!(back.actors.len(), e.actors.len());
    assert!(back.actors.iter().all(|a| a.kind == ActorKind::Unknown));
    assert_eq!(back.accesses, e.accesses);
}

#[test]
fn cut_at_any_byte_what_came_before_is_there() {
    for whole in [bytes(&small()), packed(&small())] {
        cut_everywhere(&small(), &whole);
    }
}

fn cut_everywhere(e: &Evidence, whole: &[u8]) {
    let first = whole.iter().position(|b| *b == b'\n').unwrap();
    for cut in 0..whole.len() {
        match read(&whole[..cut]) {
            Err(_) => assert!(cut < first, "{cut}"),
            // Only the last line feed is missing: nothing is lost.
            Ok((back, _)) if cut + 1 == whole.len() => assert!(back.run.complete),
            Ok((back, problems)) => {
                assert!(!back.run.complete && !problems.is_empty(), "{cut}");
                assert!(back.accesses.len() <= e.accesses.len());
                assert!(back.accesses.iter().all(|a| e.accesses.contains(a)));
            }
        }
    }
}

#[test]
fn a_newer_major_version_is_refused_with_advice() {
    let text = String::from_utf8(bytes(&small())).unwrap().replacen("\"major\":2", "\"major\":3", 1);
    let error = read(text.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 3, known: 2 }));
    assert!(error.to_string().contains("update tussle"));
    for foreign in [&b""[..], b"\x7fELF\x02", b"{}", b"{\"format\":\"other\",\"major\":1}"] {
        assert!(read(foreign).unwrap_err().to_string().contains("tussle record"));
    }
}

/// Reads the sample after a textual change and returns the evidence and its problems as text.
fn changed(from: &str, to: &str) -> (Evidence, String) {
    let text = String::from_utf8(bytes(&small())).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    let (e, problems) = read(text.replacen(from, to, 1).as_bytes()).unwrap();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    (e, problems.join("\n"))
}

#[test]
fn damage_is_said_and_bounded() {
    let (e, problems) = changed("\"held\"]", "\"held\",\"hitm\"]");
    assert_eq!(e.accesses.len(), 2);
    assert!(problems.contains("unknown column `hitm`"), "{problems}");
    let (_, problems) = changed("{\"table\":\"losses\"", "{\"table\":\"wishes\"");
    assert!(problems.contains("unknown table") && problems.contains("losses: absent"), "{problems}");
    let (_, problems) = changed(",50000,", ",50001,");
    assert!(problems.contains("checksum does not match"), "{problems}");
    let (e, problems) = changed(",50000,", ",-1,");
    assert_eq!(e.accesses.len(), 1);
    assert!(problems.contains("row dropped: writes"), "{problems}");
    let (e, problems) = changed(",50000,", ",1e400,");
    assert_eq!(e.accesses.len(), 1);
    assert!(problems.contains("row dropped"), "{problems}");
    let (_, problems) = changed("\"rows\":2", "\"rows\":18446744073709551615");
    assert!(problems.contains("of 18446744073709551615 rows are there"), "{problems}");
    let (e, problems) = changed("[0,0,8,1,", "[9,0,8,1,");
    assert_eq!(e.accesses.len(), 1);
    assert!(problems.contains("refer to no actor or to no bytes"), "{problems}");
    let (e, _) = changed("[0,0,8,1,", "[0,18446744073709551615,8,1,");
    assert_eq!(e.accesses.len(), 1);
}

#[test]
fn an_unreadable_row_keeps_the_numbers_of_those_after_it() {
    let (e, problems) = changed("[0,\"thread\",101,", "[0,\"thread\",-101,");
    assert_eq!(e.actors.len(), 3);
    assert_eq!((e.actors[1].kind, e.actors[2].number), (ActorKind::Unknown, 102));
    assert!(problems.contains("row dropped: number"), "{problems}");
}

#[test]
fn an_absent_table_is_unknown_not_empty() {
    let e = Sample::two_counters().evidence();
    assert!(read(&bytes(&e)).unwrap().0.operations.is_none());
    assert_eq!(read(&bytes(&small())).unwrap().0.operations.map(|o| o.len()), Some(1));
}

#[test]
fn columns_are_those_of_the_documentation() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence.md")).unwrap();
    let file = String::from_utf8(bytes(&small())).unwrap();
    for line in file.lines().filter(|l| l.starts_with("{\"table\"")) {
        let header: Header = serde_json::from_str(line).unwrap();
        if header.table == END {
            continue;
        }
        let heading = format!("### {}\n", header.table);
        let at = text.find(&heading).unwrap_or_else(|| panic!("no section for {}", header.table));
        let section = text[at + heading.len()..].split("\n### ").next().unwrap();
        let documented: Vec<&str> =
            section.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).collect();
        assert_eq!(documented, header.columns, "{}", header.table);
    }
}

/// The file by [`Parts`], its blocks put together again.
fn by_parts(file: &[u8]) -> Result<Evidence, Error> {
    let bytes = file.to_vec();
    let read = move |at: u64, n: usize| {
        let found = bytes.get(at as usize..at as usize + n).map(<[u8]>::to_vec);
        found.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::UnexpectedEof))
    };
    let by_file = match Parts::open_at(file.len() as u64, Box::new(read)) {
        Ok(parts) => Ok(together(parts)),
        Err(OpenError::Format(e)) => Err(e),
        Err(OpenError::Io(e)) => panic!("{e}"),
    };
    let by_bytes = Parts::open(std::sync::Arc::new(file.to_vec())).map(together);
    let form = |e: &Result<Evidence, Error>| e.as_ref().map(bytes_of).map_err(ToString::to_string);
    assert!(form(&by_file) == form(&by_bytes));
    by_file
}

fn bytes_of(e: &Evidence) -> Vec<u8> {
    bytes(e)
}

fn together(mut parts: Parts) -> Evidence {
    fn more<T: Clone>(to: &mut Option<Vec<T>>, from: &Option<Vec<T>>) {
        if let Some(rows) = from {
            to.get_or_insert_default().extend(rows.iter().cloned());
        }
    }
    let mut all = parts.rest().clone();
    for table in ["accesses", "touches", "operations", "transfers", "samples", "rates", "heat"] {
        for block in 0..parts.blocks(table).unwrap_or(0) {
            parts
                .with_block(table, block, |e| {
                    all.accesses.extend(e.accesses.iter().cloned());
                    all.touches.extend(e.touches.iter().cloned());
                    more(&mut all.operations, &e.operations);
                    more(&mut all.transfers, &e.transfers);
                    more(&mut all.samples, &e.samples);
                    more(&mut all.rates, &e.rates);
                    more(&mut all.heat, &e.heat);
                })
                .unwrap();
        }
    }
    all
}

/// What [`read`] gives, without recordings inside.
fn as_a_whole(file: &[u8]) -> Result<Evidence, Error> {
    Ok(Evidence { others: Vec::new(), ..read(file)?.0 })
}

#[test]
fn tables_by_blocks_are_those_of_the_whole() {
    let mut e = small();
    e.accesses = (0..50_000)
        .map(|i| Access { vt0: i, vt1: i + 1, reads: i % 7, offset: i % 9, ..e.accesses[0].clone() })
        .collect();
    let file = packed(&e);
    let parts = Parts::open(std::sync::Arc::new(file.clone())).unwrap();
    assert_eq!((parts.blocks("accesses"), parts.blocks("objects")), (Some(4), None));
    assert!(parts.rest().accesses.is_empty() && !parts.rest().objects.is_empty());
    for cut in (file.len() / 50..=file.len()).step_by(file.len() / 50) {
        assert_eq!(
            bytes(&by_parts(&file[..cut]).unwrap()),
            bytes(&as_a_whole(&file[..cut]).unwrap()),
            "{cut}"
        );
    }
}

/// A table of which nothing can be read is no empty table.
#[test]
fn how_much_of_a_table_can_be_read() {
    let mut e = small();
    e.accesses = (0..50_000).map(|i| Access { vt0: i, vt1: i + 1, ..e.accesses[0].clone() }).collect();
    let file = packed(&e);
    let at = |table: &str| {
        let header = format!("{{\"table\":\"{table}\"");
        let found = file.windows(header.len()).enumerate().filter(|w| w.1 == header.as_bytes()).map(|w| w.0);
        found.map(|i| i + file[i..].iter().position(|b| *b == b'\n').unwrap() + 5).collect::<Vec<usize>>()
    };
    let extent = |damaged: &[usize], table: &str| {
        let mut file = file.clone();
        damaged.iter().for_each(|i| file[*i] ^= 0xff);
        Parts::open(std::sync::Arc::new(file)).unwrap().extent(table)
    };
    let blocks = at("accesses");
    assert_eq!(
        (blocks.len(), extent(&[], "accesses"), extent(&[], "losses")),
        (4, Extent::Whole, Extent::Whole)
    );
    assert_eq!(extent(&blocks, "accesses"), Extent::None);
    for one in &blocks {
        assert_eq!(extent(&[*one], "accesses"), Extent::Part);
    }
    assert_eq!(
        (extent(&at("objects"), "objects"), extent(&blocks, "objects")),
        (Extent::None, Extent::Whole)
    );
    assert_eq!(extent(&[], "nothing"), Extent::None);
    let text = String::from_utf8(bytes(&small())).unwrap();
    let without = |table: &str| text.replace(&format!("\"table\":\"{table}\""), "\"table\":\"wishes\"");
    for table in ["accesses", "processes", "losses"] {
        let of = |text: String| Parts::open(std::sync::Arc::new(text.into_bytes())).unwrap().extent(table);
        assert_eq!((of(text.clone()), of(without(table))), (Extent::Whole, Extent::None), "{table}");
    }
}

proptest! {
    #[test]
    fn damaged_tables_by_blocks_are_those_of_the_whole(
        flips in proptest::collection::vec((0usize..100_000, any::<u8>()), 1..4),
    ) {
        for mut file in [bytes(&small()), packed(&small())] {
            for (at, with) in &flips {
                let at = at % file.len();
                file[at] ^= with;
            }
            match (by_parts(&file), as_a_whole(&file)) {
                (Ok(a), Ok(b)) => prop_assert_eq!(bytes(&a), bytes(&b)),
                (a, b) => prop_assert_eq!(a.map_err(|e| e.to_string()).err(), b.map_err(|e| e.to_string()).err()),
            }
        }
    }

    #[test]
    fn no_flip_of_bytes_panics(flips in proptest::collection::vec((0usize..100_000, any::<u8>()), 1..8)) {
        for mut file in [bytes(&small()), packed(&small())] {
            for (at, with) in &flips {
                let at = at % file.len();
                file[at] ^= with;
            }
            if let Ok((e, _)) = read(&file) {
                // What was read can be written again; `report` holds a test that it can be evaluated.
                prop_assert!(read(&bytes(&e)).is_ok() && read(&packed(&e)).is_ok());
            }
        }
    }

    #[test]
    fn no_bytes_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut file = b"{\"format\":\"tussle-evidence\",\"major\":1}\n".to_vec();
        file.extend(noise);
        prop_assert!(read(&file).is_ok());
    }
}

#[test]
fn turns_of_other_lengths_stay_apart() {
    let with = |turn_instructions, others: Vec<Evidence>| {
        let mut e = crate::sample::Sample::two_counters().evidence();
        let schedule = Schedule { turn_instructions, feedback_instructions: None, seed: None };
        (e.schedules, e.others) = (Some(vec![schedule]), others);
        e
    };
    let e = with(1000, vec![with(100, Vec::new()), with(10_000, vec![with(7, Vec::new())])]);
    let mut bytes = Vec::new();
    write(&e, &mut bytes).unwrap();
    let (again, problems) = read(&bytes).unwrap();
    let turns: Vec<_> = again.turn_lengths().map(|e| (e.turn_instructions(), e.accesses.len())).collect();
    let rows = e.accesses.len();
    assert_eq!(turns, [(Some(1000), rows), (Some(100), rows), (Some(10_000), rows)]);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "one went deeper: {said:?}");
    let at = bytes.len() - 200;
    bytes[at] ^= 1;
    let (damaged, problems) = read(&bytes).unwrap();
    assert!(damaged.others.len() == 1 && problems.len() == 1, "{problems:?}");
    let mut text = Vec::new();
    write_jsonl(&e, &mut text).unwrap();
    assert_eq!(read(&text).unwrap().0.others.len(), 0, "one turn length per file of text");
}
