//! `tussle triage` and the advice from samples alone, from texts of our own.
#![allow(clippy::unwrap_used)]

mod samples;

use samples::{AFTER, BEFORE, TABLES, json, text, tussle};
use std::process::Command;

/// A robot's report without a table of lines, and the blamed commit: a member is put before the lock.
const REPORT: &str = "\
> FYI, we noticed a -6.1% regression of bench.shells due to commit:

commit: 
  1111aaaa22 (\"fs: make room\")
  2222bbbb33 (\"fs: move the lock
of the mappings\")

1111aaaa22 2222bbbb33
---------------- ---------------------------
         %stddev     %change         %stddev
             \\          |                \\
      5000            -6.1%       4695        bench.shells
     40.10           +11.0       51.10        perf-profile.calltrace.cycles-pp.osq_lock.rwsem_down_write_slowpath
      1.10            +0.9        2.00        perf-profile.self.cycles-pp.rwsem_spin_on_owner
      2.10            +0.9        3.00        perf-profile.self.cycles-pp.down_write
";
const PATCH: &str = "\
+++ b/include/linux/fs.h
@@ -451,7 +451,7 @@ struct address_space {
 	atomic_t		i_mmap_writable;
 	struct rb_root_cached	i_mmap;
+	struct rw_semaphore	i_mmap_rwsem;
 	unsigned long		nrpages;
 	pgoff_t			writeback_index;
 	const struct address_space_operations *a_ops;
 	unsigned long		flags;
-	struct rw_semaphore	i_mmap_rwsem;
 	errseq_t		wb_err;
";

#[test]
fn a_pasted_table_gives_the_pair_and_what_parts_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let said = json(at, "triage", &["triage", "-q", TABLES, "--layout", BEFORE]);
    let finding = said["finding"].as_str().unwrap();
    assert!(finding.contains("i_mmap_rwsem.owner") && finding.contains("i_mmap.rb_leftmost"), "{finding}");
    let pair = &said["structs"][0]["pairs"][0];
    // Counted in the table by hand: 33.82 + 17.06 + 3.54 % of 3,729 and 34.10 + 15.28 + 3.52 % of 5,791.
    assert_eq!(pair["samples"], 5093);
    let changes = pair["changes"].as_array().unwrap();
    assert!(!changes.is_empty() && changes.iter().all(|c| c["apart"] == "yes"), "{changes:?}");
    assert_eq!(tussle(at, &["triage", "-q", TABLES, "--layout", BEFORE]).status.code(), Some(1));
    let bare = tussle(at, &["triage", "-q", TABLES]);
    assert_eq!(bare.status.code(), Some(1), "places of a line meet, whatever they are called");
    let bare = text(&bare);
    assert!(bare.contains("fields are unknown") && bare.contains("rwsem_spin_on_owner"), "{bare}");
    assert!(bare.contains("bytes 48 (5093 samples) and 32 (364) of line 0xff19b3818445c740 meet"), "{bare}");
}

/// What parts the pair really does: the layout after the edit has them on two lines.
#[test]
fn samples_without_stores_or_threads_get_edits_without_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(tussle(at, &["import", "-q", TABLES, "--layout", BEFORE]).status.success());
    let said = json(at, "advise_samples", &["advise", "-q", "-C", "struct address_space"]);
    let first = &said["pairs"][0];
    assert_eq!(first["phases"], serde_json::json!([16]));
    assert!(first["changes"][0]["edits"].as_str().unwrap().contains("i_mmap"), "{first}");
    let out = text(&tussle(at, &["advise", "-C", "struct address_space"]));
    assert!(out.contains("unknown: samples tell neither who stored nor how often"), "{out}");
    assert!(out.contains("apart can help or harm"), "{out}");
}

#[test]
fn a_report_and_a_patch_point_at_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("report"), REPORT).unwrap();
    std::fs::write(at.join("patch"), PATCH.replace('\t', "\u{a0}")).unwrap();
    let words = ["triage", "-q", "report", "patch", "--layout", BEFORE, "--layout", AFTER];
    let said = json(at, "triage", &words);
    assert!(said["blamed"].as_str().unwrap().contains("fs: move the lock of the mappings"), "{said}");
    assert!(said["measured"].as_str().unwrap().contains("-6.1%"), "{said}");
    assert_eq!(said["changes"]["rows"][0]["moved"], "i_mmap_rwsem");
    let suspect = &said["suspects"][0];
    assert_eq!(suspect["member"], "i_mmap_rwsem");
    assert_eq!(suspect["places"].as_array().unwrap().len(), 2);
    assert!(suspect["places"][0]["offset"] == 88 && suspect["places"][1]["offset"] == 120, "{suspect}");
    assert_eq!(said["suspects"].as_array().unwrap().len(), 1, "the lock that the diff does not show is none");
    // The report alone: a kind of lock, no struct.
    let alone = text(&tussle(at, &["triage", "-q", "report", "--layout", BEFORE]));
    assert!(alone.contains("which one is not known"), "{alone}");
}

#[test]
fn nothing_is_made_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("letter"), "Dear all,\nit is slow. struct foo { int bar; };\n").unwrap();
    let out = tussle(at, &["triage", "letter"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out).contains("no table, profile, commit or diff"), "{}", text(&out));
}

#[test]
fn the_blamed_commit_is_read_from_the_tree() {
    if !tussle_testkit::need("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let out = Command::new("git").current_dir(at).args(who).args(words).output().unwrap();
        assert!(out.status.success(), "{}", text(&out));
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    };
    let header = |order: &str| format!("struct address_space {{\n\tint a;\n{order}\tint b;\n}};\n");
    git(&["init", "-q"]);
    std::fs::write(at.join("fs.h"), header("")).unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "base"]);
    std::fs::write(at.join("fs.h"), header("\tstruct rw_semaphore i_mmap_rwsem;\n")).unwrap();
    git(&["commit", "-qam", "fs: put it in"]);
    let hash = git(&["rev-parse", "HEAD"]);
    let mail = REPORT.replace("2222bbbb33", &hash[..12]);
    std::fs::write(at.join("report"), mail).unwrap();
    let said = json(at, "triage", &["triage", "-q", "report", "--tree", "."]);
    assert_eq!(said["changes"]["rows"][0]["added"], "i_mmap_rwsem");
    assert!(said["blamed"].as_str().unwrap().contains("fs: put it in"), "{said}");
    let wrong = tussle(at, &["triage", "report", "--tree", ".", "--commit", "0123456789"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}
