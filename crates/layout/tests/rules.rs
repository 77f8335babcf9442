//! Rules: what they accept, what they refuse, and what they become.

mod support;

use std::process::Command;
use support::{Build as Table, rwsem};
use tussle_layout::rules::{Build, Error, Status, check, emit_c, from_source, parse};
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

fn outcome(rule: &str) -> Result<Status, Error> {
    let table = table();
    let rules = parse(&format!("[[rule]]\ntype = \"object\"\n{rule}\n"))?;
    Ok(check(&rules, &[build(&table)])?.remove(0).status)
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
        let status = outcome(rule).unwrap_or_else(|e| panic!("{rule}: {e}"));
        assert_eq!(status == Status::Pass, holds, "{rule}: {status:?}");
    }
}

#[test]
fn a_field_alone_in_its_lines() {
    let mut t = Table::new();
    let int = t.base("int", 4);
    t.structure("o", 128, &[("hot", int, 0), ("cold", int, 64)]);
    let rules = parse("[[rule]]\ntype = \"o\"\nalone = [\"hot\"]\nphases = [0]\n").expect("a rule");
    assert_eq!(check(&rules, &[build(&t.table)]).expect("names")[0].status, Status::Pass);
    // At phase 32 the two are still a line apart, but over all phases of a 4-byte alignment they never meet either.
    let rules = parse("[[rule]]\ntype = \"o\"\nalone = [\"hot\"]\nline = 128\n").expect("a rule");
    assert!(matches!(check(&rules, &[build(&t.table)]).expect("names")[0].status, Status::Fail { .. }));
}

#[test]
fn what_is_unknown_is_an_error_and_never_a_pass() {
    let cases = [
        ("type = \"object\"\nseperate = [\"a\", \"b\"]", "unknown field `seperate`"),
        ("type = \"object\"\nmax_size = 1\nmax_lines = 1", "one demand per rule"),
        ("type = \"object\"", "is needed"),
        ("type = \"object\"\nseparate = [\"head\"]", "at least 2 fields"),
        ("type = \"object\"\nmax_size = 1\nline = 32", "line is 64 or 128"),
        ("type = \"object\"\nmax_size = 1\nphases = \"some\"", "phases"),
        ("type = \"objekt\"\nmax_size = 1", "no type named `objekt`; close: object"),
        ("type = \"object\"\nalone = [\"lock.cnt\"]", "has no field `lock.cnt`"),
        ("type = \"object\"\nalone = [\"count\"]", "close: lock.count"),
        ("type = \"object\"\nmax_size = 1\nwhen = { cpu = \"x\" }", "unknown field `cpu`"),
        ("type = \"object\"\nmax_size = -1", "invalid value"),
    ];
    let table = table();
    for (rule, message) in cases {
        let got = parse(&format!("[[rule]]\n{rule}\n")).and_then(|r| check(&r, &[build(&table)]));
        let text = got.expect_err(rule).to_string();
        assert!(text.contains(message), "{rule}: {text}");
    }
}

#[test]
fn a_rule_for_other_builds_is_not_applied() {
    let table = table();
    let rules = parse(
        "[[rule]]\ntype = \"object\"\nmax_size = 1\nwhen = { arch = \"arm64\", config = \"CONFIG_MMU\" }\n",
    );
    let rules = rules.expect("a rule");
    let status = |arch: Option<&str>, config: Option<&str>| {
        let b = Build { arch: arch.map(Into::into), config: config.map(Into::into), ..build(&table) };
        check(&rules, &[b]).expect("names").remove(0).status
    };
    assert_eq!(status(Some("x86_64"), None), Status::NotForThis);
    assert!(matches!(status(None, None), Status::Unknown(_)));
    assert!(matches!(status(Some("arm64"), None), Status::Unknown(_)));
    assert_eq!(status(Some("arm64"), Some("# CONFIG_MMU is not set\n")), Status::NotForThis);
    assert!(matches!(status(Some("arm64"), Some("CONFIG_MMU=y\n")), Status::Fail { .. }));
}

#[test]
fn a_violation_names_the_declaration() {
    let Ok(Status::Fail { at, message }) = outcome(r#"separate = ["lock.owner", "flags"]"#) else {
        panic!("a violation");
    };
    assert_eq!(at, Some(SourceLoc { file: "object.h".into(), line: 3 }));
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
        std::fs::write(&c, format!("{body}{}", emit_c(&parse(toml).expect("rules")))).expect("a folder");
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
    let text = include_str!("../../../rules/linux-mm.toml");
    let rules = parse(text).expect("the shipped rules");
    assert!(rules.iter().all(|r| r.reason.is_some()), "every rule says why");
    for ty in ["mm_struct", "address_space", "vm_area_struct", "per_cpu_pages", "anon_vma"] {
        assert!(rules.iter().any(|r| r.ty == ty), "{ty}");
    }
}
