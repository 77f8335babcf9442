//! Rules: what they accept, what they refuse, and what they become.

mod support;

use std::process::Command;
use support::{Build as Table, rwsem};
use tussle_layout::rules::known::{Baseline, idle};
use tussle_layout::rules::{
    Build, Context, Language, Status, Violation, check, emit, from_markers, from_source, parse, view,
};
use tussle_model::{SourceLoc, TypeTable};

/// An object with a lock across a line boundary: count in line 1, owner in line 2, a field behind.
fn table() -> TypeTable {
    let mut t = Table::new();
    let lock = rwsem(&mut t);
    let long = t.base("long unsigned int", 8);
    let int = t.base("int", 4);
    let pad = t.array(long, 15);
    let empty = t.array(int, 0);
    t.structure(
        "object",
        192,
        &[
            ("pad", pad, 0),
            ("lock", lock, 120),
            ("flags", int, 160),
            ("__cacheline_group_begin__hot", empty, 168),
            ("head", long, 168),
            ("tail", long, 176),
            ("__cacheline_group_end__hot", empty, 184),
        ],
    );
    t.aligned(t.table.find("object").expect("just made"), 64);
    t.table
}

fn build(table: &TypeTable) -> Build<'_> {
    Build { name: "o".into(), table, btf: false, arch: None, config: None, caches: None }
}

fn outcome(rule: &str) -> Status {
    outcome_in(&table(), "object", rule)
}

fn outcome_in(table: &TypeTable, ty: &str, rule: &str) -> Status {
    let text = format!("[[rule]]\ntype = \"{ty}\"\n{rule}\n");
    let rules = parse(&text).unwrap_or_else(|e| panic!("{rule}: {e}")).rules;
    check(&rules, &[build(table)]).remove(0).status
}

/// Messages of all violations.
fn messages(status: &Status) -> Vec<&str> {
    let Status::Fail(violations) = status else { panic!("no violation: {status:?}") };
    violations.iter().map(|v| v.message.as_str()).collect()
}

#[test]
fn every_demand_can_hold_and_can_fail() {
    let cases = [
        (r#"separate = ["lock.count", "lock.owner"]"#, true),
        (r#"separate = ["lock.owner", "flags"]"#, false),
        (r#"together = ["lock.owner", "flags"]"#, true),
        (r#"together = ["lock.count", "lock.owner"]"#, false),
        (r#"alone = ["pad"]"#, false),
        (r#"same_line = ["head", "tail"]"#, true),
        (r#"same_line = ["lock"]"#, false),
        (r#"straddle = ["lock"]"#, true),
        (r#"straddle = ["head"]"#, false),
        ("max_lines = 3", true),
        ("max_lines = 2", false),
        ("max_lines = 2\nline = 128", true),
        ("max_size = 192", true),
        ("max_size = 191", false),
        ("offset = { \"lock.owner\" = 128 }", true),
        ("offset = { \"lock.owner\" = 0x128 }", false),
        (r#"group = { name = "hot", members = ["head", "tail"], max_size = 16 }"#, true),
        (r#"group = { name = "hot", members = ["flags"] }"#, false),
        (r#"group = { name = "hot", max_size = 8 }"#, false),
        // In the phase that puts both halves into one line the rule does not hold.
        ("separate = [\"lock.count\", \"lock.owner\"]\nphases = [8]", false),
    ];
    for (rule, holds) in cases {
        let status = outcome(rule);
        assert_eq!(status == Status::Pass, holds, "{rule}: {status:?}");
    }
}

#[test]
fn a_field_alone_in_its_lines() {
    let mut t = Table::new();
    let int = t.base("int", 4);
    t.structure("o", 128, &[("hot", int, 0), ("cold", int, 64)]);
    assert_eq!(outcome_in(&t.table, "o", "alone = [\"hot\"]\nphases = [0]"), Status::Pass);
    // At phase 32 the two are still a line apart, but over all phases of a 4-byte alignment they never meet either.
    assert!(matches!(outcome_in(&t.table, "o", "alone = [\"hot\"]\nline = 128"), Status::Fail(_)));
}

#[test]
fn an_object_without_members_is_no_neighbour() {
    let mut t = Table::new();
    let int = t.base("int", 4);
    let tag = t.structure("tag", 1, &[]);
    t.structure("o", 64, &[("hot", int, 0), ("tag", tag, 4)]);
    assert_eq!(outcome_in(&t.table, "o", "alone = [\"hot\"]"), Status::Pass);
}

#[test]
fn what_is_unknown_is_an_error_and_never_a_pass() {
    let cases = [
        ("type = \"object\"\nseperate = [\"a\", \"b\"]", "unknown field `seperate`"),
        ("type = \"object\"\nseperate = [\"a\", \"b\"]", "\nclose: separate"),
        ("type = \"object\"\nmax_size = 1\nmax_lines = 1", "one demand per rule"),
        ("type = \"object\"", "is needed"),
        ("type = \"object\"\nseparate = [\"head\"]", "at least 2 fields"),
        ("type = \"object\"\nmax_size = 1\nline = 32", "line is 64, 128 or 256"),
        ("type = \"object\"\nmax_size = 1\nphases = \"some\"", "phases"),
        ("type = \"objekt\"\nmax_size = 1", "no type named `objekt`; close: object"),
        ("type = \"object\"\nalone = [\"lock.cnt\"]", "has no field `lock.cnt`"),
        ("type = \"object\"\nalone = [\"count\"]", "close: lock.count"),
        ("type = \"object\"\nmax_size = 1\nwhen = { cpu = \"x\" }", "unknown field `cpu`"),
        ("type = \"object\"\nmax_size = -1", "invalid value"),
    ];
    let table = table();
    for (rule, message) in cases {
        let text = match parse(&format!("[[rule]]\n{rule}\n")) {
            Err(e) => e.to_string(),
            Ok(set) => match check(&set.rules, &[build(&table)]).remove(0).status {
                Status::Error(what) => what,
                other => panic!("{rule}: {other:?}"),
            },
        };
        assert!(text.contains(message), "{rule}: {text}");
    }
}

#[test]
fn a_rule_for_other_builds_is_not_applied() {
    let table = table();
    let rules = parse(
        "[[rule]]\ntype = \"object\"\nmax_size = 1\nwhen = { arch = \"arm64\", config = \"CONFIG_MMU\" }\n",
    );
    let rules = rules.expect("a rule").rules;
    let status = |arch: Option<&str>, config: Option<&str>| {
        let b = Build { arch: arch.map(Into::into), config: config.map(Into::into), ..build(&table) };
        check(&rules, &[b]).remove(0).status
    };
    assert_eq!(status(Some("x86_64"), None), Status::NotForThis);
    assert!(matches!(status(None, None), Status::Unknown(_)));
    assert!(matches!(status(Some("arm64"), None), Status::Unknown(_)));
    assert_eq!(status(Some("arm64"), Some("# CONFIG_MMU is not set\n")), Status::NotForThis);
    assert!(matches!(status(Some("arm64"), Some("CONFIG_MMU=y\n")), Status::Fail(_)));
}

#[test]
fn a_violation_names_the_declaration() {
    let Status::Fail(list) = outcome(r#"separate = ["lock.owner", "flags"]"#) else { panic!("a violation") };
    let [Violation { at, message, .. }] = list.as_slice() else { panic!("{list:?}") };
    assert_eq!(at.clone(), Some(SourceLoc { file: "object.h".into(), line: 3 }));
    assert_eq!(message, "lock.owner at 128 and flags at 160 share a 64-byte line in phase 0");
}

#[test]
fn rules_become_assertions_that_a_compiler_checks() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let good = r#"
[[rule]]
type = "object"
separate = ["count", "owner"]
reason = "apart"
[[rule]]
type = "object"
max_lines = 2
[[rule]]
type = "object"
offset = { owner = 64 }
[[rule]]
type = "object"
same_line = ["owner", "osq"]
[[rule]]
type = "object"
straddle = ["pad"]
"#;
    let compiles = |toml: &str| {
        let c = folder.path().join("rules.c");
        let body = "struct object { long count; char pad[56]; long owner; int osq; };\n";
        std::fs::write(&c, format!("{body}{}", emit(&parse(toml).expect("rules").rules, Language::C, None)))
            .expect("a folder");
        let out = Command::new("gcc").args(["-std=c11", "-fsyntax-only"]).arg(&c).output().expect("gcc");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (ok, text) = compiles(&good.replace("straddle = [\"pad\"]", "same_line = [\"pad\"]"));
    assert!(ok, "{text}");
    for (from, to) in [
        ("owner = 64", "owner = 60"),
        ("max_lines = 2", "max_lines = 1"),
        ("\"count\", \"owner\"", "\"owner\", \"osq\""),
    ] {
        let (ok, text) = compiles(&good.replace("straddle = [\"pad\"]", "max_size = 80").replace(from, to));
        assert!(!ok && text.contains("static assertion failed"), "{from} -> {to}: {text}");
    }
}

#[test]
fn kernel_sources_become_rules() {
    let c = "
\tCACHELINE_ASSERT_GROUP_MEMBER(struct tcp_sock, tcp_sock_read_tx, max_window);
\tCACHELINE_ASSERT_GROUP_MEMBER(struct tcp_sock, tcp_sock_read_tx, rcv_ssthresh);
\tCACHELINE_ASSERT_GROUP_SIZE(struct tcp_sock, tcp_sock_read_tx, 40 + 8);
\tCACHELINE_ASSERT_GROUP_SIZE(struct tcp_sock, tcp_sock_write_rx, 92 + CONFIG_SIZE);
";
    let found = from_source(c);
    assert_eq!(found.rules.len(), 2);
    assert_eq!(found.rules[0].ty, "tcp_sock");
    assert_eq!(
        format!("{:?}", found.rules[0].demand),
        "Group(Group { name: \"tcp_sock_read_tx\", members: [\"max_window\", \"rcv_ssthresh\"], max_size: Some(48) })"
    );
    assert_eq!(found.unread.len(), 1, "{:?}", found.unread);
    let rst = "
=========================================
inet_sock struct fast path usage breakdown
=========================================
Type                    Name              fastpath_tx_access  fastpath_rx_access  comment
struct sock             sk                read_mostly         read_mostly         tcp_init_buffer_space
__be32                  inet_saddr        read_write                              tcp_v4_send
";
    let found = from_source(rst);
    let rules: Vec<String> = found.rules.iter().map(|r| format!("{}: {}", r.ty, r.demand.words())).collect();
    assert_eq!(rules, ["inet_sock: separate inet_saddr, sk"]);
}

#[test]
fn the_shipped_rules_are_rules() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/linux-mm.toml")).unwrap();
    let rules = parse(&text).expect("the shipped rules").rules;
    assert!(rules.iter().all(|r| r.reason.is_some()), "every rule says why");
    for ty in ["mm_struct", "address_space", "vm_area_struct", "per_cpu_pages", "anon_vma"] {
        assert!(rules.iter().any(|r| r.ty == ty), "{ty}");
    }
}

#[test]
fn groups_patterns_and_sets_of_fields() {
    let mut t = Table::new();
    let (int, long) = (t.base("int", 4), t.base("long", 8));
    let names = ["lock", "stat_a", "stat_b", "config", "limit", "stat_c", "tail"];
    let offsets = [0, 8, 16, 64, 72, 80, 128];
    let members: Vec<_> = names.iter().zip(offsets).map(|(n, at)| (*n, long, at)).collect();
    t.structure("o", 192, &members);
    let id = t.table.find("o").expect("just made");
    t.aligned(id, 64);
    let inner = t.structure("lock_t", 8, &[("word", int, 0), ("owner", int, 4)]);
    t.structure("outer", 128, &[("pad", long, 0), ("l", inner, 60), ("rest", long, 72)]);
    let cases: [(&str, &[&str]); 12] = [
        (r#"separate = [["lock", "stat_a"], ["config", "limit"]]"#, &[]),
        (
            r#"separate = [["lock", "config"], ["stat_*"]]"#,
            &[
                "lock at 0 and stat_a at 8 share a 64-byte line in phase 0",
                "lock at 0 and stat_b at 16 share a 64-byte line in phase 0",
                "config at 64 and stat_c at 80 share a 64-byte line in phase 0",
            ],
        ),
        (r#"separate = ["stat_*"]"#, &["stat_a at 8 and stat_b at 16 share a 64-byte line in phase 0"]),
        (r#"together = ["stat_a", "stat_b"]"#, &[]),
        ("max_lines = 2\nfields = [\"stat_*\", \"lock\"]", &[]),
        (
            "max_lines = 1\nfields = [\"stat_*\"]",
            &["stat_a, stat_b, stat_c take 2 lines in phase 0, more than 1"],
        ),
        (r#"nothing_between = ["lock", "stat_a", "stat_b", "config"]"#, &[]),
        (r#"nothing_between = ["lock", "stat_b"]"#, &["stat_a at 8 lies between lock and stat_b"]),
        (r#"nothing_between = ["stat_b", "stat_a"]"#, &["stat_a at 8 does not lie behind stat_b"]),
        ("alone = [\"tail\"]\nline = 256", &["tail at 128 shares a line with lock at 0 in all 4 phases"]),
        (r#"alone = ["tail"]"#, &[]),
        ("max_lines = 2\nline = 256", &[]),
    ];
    for (rule, want) in cases {
        let status = outcome_in(&t.table, "o", rule);
        match want {
            [] => assert_eq!(status, Status::Pass, "{rule}"),
            [first] if rule.contains("256") => {
                assert!(messages(&status)[0].starts_with(&first[..40]), "{status:?}")
            }
            want => assert_eq!(messages(&status), *want, "{rule}"),
        }
    }
    // a rule of the inner type, asked in the types that hold it
    let alone =
        outcome_in(&t.table, "lock_t", "separate = [\"word\", \"owner\"]\nphases = [60]\ninherit = true");
    assert!(matches!(alone, Status::Fail(_)), "{alone:?}");
    let status =
        outcome_in(&t.table, "lock_t", "same_line = [\"word\", \"owner\"]\nphases = [0]\ninherit = true");
    assert!(messages(&status).iter().all(|m| m.ends_with("in struct outer")), "{status:?}");
}

#[test]
fn two_definitions_of_one_name_are_both_judged() {
    for first_holds in [true, false] {
        let mut t = Table::new();
        let long = t.base("long", 8);
        let apart = [("a", long, 0), ("b", long, 64)];
        let close = [("a", long, 0), ("b", long, 8)];
        let both = if first_holds { [&apart, &close] } else { [&close, &apart] };
        both.into_iter().for_each(|members| {
            let id = t.structure("o", 128, members);
            t.aligned(id, 64);
        });
        let status = outcome_in(&t.table, "o", r#"separate = ["a", "b"]"#);
        let got = messages(&status);
        assert_eq!(got.len(), 1);
        assert!(got[0].ends_with("(of o.h:1)"), "{got:?}");
    }
}

#[test]
fn a_field_behind_a_million_others_is_found() {
    let mut t = Table::new();
    let long = t.base("long", 8);
    let pair = t.structure("pair", 16, &[("x", long, 0), ("y", long, 8)]);
    let many = t.array(pair, 1_000_000);
    let id = t.structure(
        "sh",
        16_000_128,
        &[("many", many, 0), ("tail", long, 16_000_064), ("end", long, 16_000_072)],
    );
    t.aligned(id, 64);
    assert_eq!(outcome_in(&t.table, "sh", "offset = { tail = 16000064 }"), Status::Pass);
    assert_eq!(outcome_in(&t.table, "sh", r#"separate = ["many[999999].y", "tail"]"#), Status::Pass);
    let status = outcome_in(&t.table, "sh", r#"alone = ["tail"]"#);
    assert_eq!(messages(&status), ["tail at 16000064 shares a line with end at 16000072 in phase 0"]);
    let status = outcome_in(&t.table, "sh", r#"alone = ["many[999999].y"]"#);
    assert_eq!(messages(&status).len(), 7, "its pair and three others: {status:?}");
    assert!(matches!(outcome_in(&t.table, "sh", r#"alone = ["many[1000000].y"]"#), Status::Error(_)));
}

#[test]
fn one_bad_cell_leaves_the_others() {
    let table = table();
    let text = "[[rule]]\ntype = \"object\"\nalone = [\"gone\"]\n[[rule]]\ntype = \"object\"\nmax_size = 1\n\
        [[rule]]\ntype = \"object\"\nalone = [\"gone\"]\nwhen = { has = \"gone\" }\n\
        [[rule]]\ntype = \"object\"\nmax_size = 192\nwhen = { has = [\"lock.owner\", \"!gone\"] }\n";
    let outcomes = check(&parse(text).expect("rules").rules, &[build(&table)]);
    let kinds: Vec<&str> = outcomes
        .iter()
        .map(|o| match o.status {
            Status::Pass => "pass",
            Status::Fail(_) => "fail",
            Status::NotForThis => "not",
            Status::Unknown(_) => "unknown",
            Status::Error(_) => "error",
        })
        .collect();
    assert_eq!(kinds, ["error", "fail", "not", "pass"]);
}

#[test]
fn known_and_waived_violations_do_not_fail() {
    let table = table();
    let text = "[[rule]]\nid = \"big\"\ntype = \"object\"\nmax_size = 1\n[[rule]]\nid = \"apart\"\ntype = \"object\"\n\
        separate = [\"lock.owner\", \"flags\"]\n[[rule]]\nid = \"soft\"\ntype = \"object\"\nmax_lines = 1\n\
        severity = \"warning\"\n[[waiver]]\nrule = \"apart\"\nreason = \"next release\"\nuntil = \"2027-01-31\"\n";
    let set = parse(text).expect("rules");
    let outcomes = check(&set.rules, &[build(&table)]);
    let verdict = |known: Baseline, today: &str| {
        let context = Context { known, waivers: set.waivers.clone(), today: today.into(), strict: false };
        let v = view(&set.rules, &[build(&table)], &outcomes, &context).1;
        (v.fatal, v.known, v.waived)
    };
    assert_eq!(verdict(Baseline::default(), "2027-01-31"), (1, 0, 1));
    assert_eq!(verdict(Baseline::default(), "2027-02-01"), (2, 0, 0));
    let known = Baseline::of(&set.rules, &outcomes);
    let read = Baseline::read(&known.write()).expect("our own file");
    assert_eq!((read.len(), &read), (3, &known));
    assert_eq!(verdict(read, "2027-02-01"), (0, 3, 0));
    assert_eq!(idle(&set.waivers, &set.rules).count(), 0);
    let misspelled = parse(&text.replace("rule = \"apart\"", "rule = \"aparte\"")).expect("rules");
    assert_eq!(idle(&misspelled.waivers, &misspelled.rules).count(), 1);
    let bad = text.replace("2027-01-31", "soon");
    assert!(parse(&bad).expect_err("no date").to_string().contains("date"));
}

#[test]
fn a_types_own_markers_are_rules() {
    let table = table();
    let rules = from_markers(&table);
    assert_eq!(rules.len(), 1);
    assert_eq!(check(&rules, &[build(&table)])[0].status, Status::Pass);
    let mut t = Table::new();
    let long = t.base("long", 8);
    let none = t.array(long, 0);
    t.structure(
        "two",
        32,
        &[
            ("__cacheline_group_begin__a", none, 0),
            ("x", long, 0),
            ("__cacheline_group_end__a", none, 8),
            ("__cacheline_group_begin__b", none, 8),
            ("y", long, 8),
            ("__cacheline_group_end__b", none, 16),
        ],
    );
    let rules = from_markers(&t.table);
    assert_eq!(rules.len(), 3);
    assert!(matches!(check(&rules, &[build(&t.table)])[2].status, Status::Fail(_)));
}

/// BTF keeps no `aligned`: what holds in phase 0 and not in others is not decided where the size allows both.
#[test]
fn what_an_unrecorded_alignment_decides_is_unknown() {
    let mut t = Table::new();
    let long = t.base("long", 8);
    let rest = t.array(long, 7);
    t.structure("o", 64, &[("hot", long, 0), ("rest", rest, 8)]);
    t.structure("odd", 72, &[("hot", long, 0), ("rest", rest, 8), ("last", long, 64)]);
    let table = t.table;
    let btf = |ty: &str, rule: &str| {
        let rules = parse(&format!("[[rule]]\ntype = \"{ty}\"\n{rule}\n")).unwrap().rules;
        check(&rules, &[Build { btf: true, ..build(&table) }]).remove(0).status
    };
    let Status::Unknown(why) = btf("o", "max_lines = 1") else { panic!() };
    assert!(why.contains("8 to 64 bytes are possible"), "{why}");
    assert_eq!(btf("o", "same_line = [\"hot\"]"), Status::Pass);
    assert!(matches!(btf("o", "separate = [\"hot\", \"rest\"]"), Status::Fail(_)));
    // 72 bytes are aligned to 8 at most
    assert!(matches!(btf("odd", "max_lines = 1"), Status::Fail(_)));
    assert!(matches!(outcome_in(&table, "o", "max_lines = 1"), Status::Fail(_)));
}

/// Days that no calendar has would let a violation go for ever.
/// A date without quotes is one, too; whatever else stands there, the message says what should.
#[test]
fn waivers_take_dates_as_toml_writes_them() {
    let read =
        |until: &str| parse(&format!("[[waiver]]\nrule = \"r\"\nreason = \"soon\"\nuntil = {until}\n"));
    assert_eq!(read("2027-01-31").unwrap().waivers[0].until, "2027-01-31");
    for wrong in ["7", "2027-01-31T10:00:00Z", "\"soon\""] {
        let said = read(wrong).unwrap_err().to_string();
        assert!(said.contains("until is a date like 2027-01-31"), "{wrong}: {said}");
    }
}

#[test]
fn waivers_end_on_real_days() {
    let file = |until: &str| {
        parse(&format!("[[waiver]]\nrule = \"r\"\nreason = \"soon\"\nuntil = \"{until}\"\n")).is_ok()
    };
    for until in ["2027-01-31", "2028-02-29", "2000-02-29", "2027-12-01"] {
        assert!(file(until), "{until}");
    }
    for until in
        ["2027-02-31", "2027-13-45", "2027-02-29", "2100-02-29", "2027-00-10", "2027-04-31", "2027-01-00"]
    {
        assert!(!file(until), "{until}");
    }
    let twice = parse("[[rule]]\ntype = \"o\"\nseparate = [\"a\", \"b\", \"a\"]\n").unwrap_err();
    assert!(twice.to_string().contains("names `a` twice"), "{twice}");
}

#[test]
fn a_key_of_when_outside_of_it_is_told_its_place() {
    let error = parse("[[rule]]\ntype = \"o\"\nmax_size = 8\nhas = \"x\"\n").unwrap_err().to_string();
    assert!(error.contains("when = { has = .. }"), "{error}");
}
