//! Unified diffs, as `patch -p1` and `git apply` take them.

use std::fmt::Write;
use std::ops::Range;

/// Lines that are shown around a change.
const CONTEXT: usize = 3;
/// Patches are small: between texts that differ in more lines everything from the first to the last counts as changed.
const CHANGES_MAX: usize = 1_000;

/// A unified diff of one file with `a/` and `b/` before its path; empty when nothing changed.
pub fn unified_diff(path: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let changes = changes(&old, &new);
    let mut out = format!("--- {}\n+++ {}\n", named("a", path), named("b", path));
    // Changes whose context touches are one hunk.
    for together in changes.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT) {
        hunk(&old, &new, together, &mut out);
    }
    out
}

/// A file's name as git writes it, and git and patch read it: quoted where it could end the line or begin an escape
/// sequence, with a tab behind it where a blank could end it.
fn named(side: &str, path: &str) -> String {
    let name = format!("{side}/{path}");
    if !name.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) {
        return if name.contains(' ') { name + "\t" } else { name };
    }
    let mut out = String::from("\"");
    for b in name.bytes() {
        match b {
            b'"' | b'\\' => out.extend(['\\', char::from(b)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0x20..0x7f => out.push(char::from(b)),
            _ => _ = write!(out, "\\{b:03o}"),
        }
    }
    out + "\""
}

/// Lines that were replaced, possibly by none, or none by some.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

fn hunk(old: &[&str], new: &[&str], changes: &[Change], out: &mut String) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
    let before = first.old.start.min(CONTEXT);
    let behind = (old.len() - last.old.end).min(CONTEXT);
    let whole = Change {
        old: first.old.start - before..last.old.end + behind,
        new: first.new.start - before..last.new.end + behind,
    };
    let _ = writeln!(out, "@@ -{} +{} @@", numbers(&whole.old), numbers(&whole.new));
    let mut at = whole.old.start;
    for change in changes {
        put(' ', &old[at..change.old.start], out);
        put('-', &old[change.old.clone()], out);
        put('+', &new[change.new.clone()], out);
        at = change.old.end;
    }
    put(' ', &old[at..whole.old.end], out);
}

/// Number of the first line, and how many: an empty range is named by the line before it.
fn numbers(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        n => format!("{},{n}", lines.start + 1),
    }
}

fn put(mark: char, lines: &[&str], out: &mut String) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// What changed, in order; of equal lines as many as possible stay.
fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[before..], &new[before..]);
    let behind = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - behind], &b[..b.len() - behind]);
    let kept = kept(a, b).unwrap_or_default();
    let mut out: Vec<Change> = Vec::new();
    let mut at = (0, 0);
    for next in kept.into_iter().chain([(a.len(), b.len())]) {
        if at != next {
            let (old, new) = (before + at.0..before + next.0, before + at.1..before + next.1);
            out.push(Change { old, new });
        }
        at = (next.0 + 1, next.1 + 1);
    }
    out
}

/// Pairs of lines that stay, by Myers's greedy algorithm; `None` when more than [`CHANGES_MAX`] do not.
fn kept(a: &[&str], b: &[&str]) -> Option<Vec<(usize, usize)>> {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let most = (a.len() + b.len()).min(CHANGES_MAX) as isize;
    // How far one gets on each diagonal `x - y`, from `-most - 1` on.
    let mut far = vec![0isize; 2 * most as usize + 3];
    let mut earlier = Vec::new();
    for d in 0..=most {
        let at = |k: isize| (k + most + 1) as usize;
        earlier.push(far[at(-d - 1)..=at(d + 1)].to_vec());
        for k in (-d..=d).step_by(2) {
            let down = k == -d || k != d && far[at(k - 1)] < far[at(k + 1)];
            let mut x = if down { far[at(k + 1)] } else { far[at(k - 1)] + 1 };
            while x < n && x - k < m && a[x as usize] == b[(x - k) as usize] {
                x += 1;
            }
            far[at(k)] = x;
            if x >= n && x - k >= m {
                return Some(walked(&earlier, n, m));
            }
        }
    }
    None
}

/// The way back from the end: on each step's diagonals, one line more or less, then lines that are equal.
fn walked(earlier: &[Vec<isize>], n: isize, m: isize) -> Vec<(usize, usize)> {
    let (mut x, mut y, mut out) = (n, m, Vec::new());
    for (d, far) in earlier.iter().enumerate().rev() {
        let (d, k) = (d as isize, x - y);
        let at = |k: isize| far[(k + d + 1) as usize];
        let down = k == -d || k != d && at(k - 1) < at(k + 1);
        let (from_x, from_k) = if down { (at(k + 1), k + 1) } else { (at(k - 1), k - 1) };
        let from = if d == 0 { (0, 0) } else { (from_x, from_x - from_k) };
        while x > from.0 && y > from.1 {
            (x, y) = (x - 1, y - 1);
            out.push((x as usize, y as usize));
        }
        (x, y) = from;
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a diff makes of a text, checking every line that it does not change.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let lines: Vec<&str> = diff.split_inclusive('\n').collect();
        for (i, line) in lines.iter().enumerate().skip(2) {
            let cut = lines.get(i + 1).is_some_and(|l| l.starts_with('\\'));
            let text = if cut { line[1..].trim_end_matches('\n') } else { &line[1..] };
            match line.as_bytes()[0] {
                b'@' => {
                    let start = line[4..].split([',', ' ']).next().unwrap();
                    let empty = line[4..].split(' ').next().unwrap().ends_with(",0");
                    let start = start.parse::<usize>().unwrap() - usize::from(!empty);
                    old[at..start].iter().for_each(|l| out.push_str(l));
                    at = start;
                }
                b'+' => out.push_str(text),
                b'\\' => {}
                mark => {
                    assert_eq!(old[at], text);
                    at += 1;
                    if mark == b' ' {
                        out.push_str(text);
                    }
                }
            }
        }
        old[at..].iter().for_each(|l| out.push_str(l));
        out
    }

    #[test]
    fn a_diff_is_what_diff_would_say() {
        let old = "struct s {\n\tlong a;\n\tlong b;\n};\n";
        let new = "struct s {\n\tlong a;\n\tchar pad[56];\n\tlong b;\n};\n";
        let diff = unified_diff("dir/s.h", old, new);
        let said = "--- a/dir/s.h\n+++ b/dir/s.h\n@@ -1,4 +1,5 @@\n struct s {\n \tlong a;\n+\tchar pad[56];\n \
            \tlong b;\n };\n";
        assert_eq!(diff, said);
        assert_eq!(unified_diff("s.h", old, old), "");
        assert_eq!(unified_diff("x", "", "a\n"), "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
        let cut = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
        assert_eq!(unified_diff("x", "a", "b"), cut);
    }

    /// As git 2.39 and GNU patch 2.7 read them.
    #[test]
    fn names_end_where_they_end() {
        let names = |path: &str| unified_diff(path, "", "a\n").lines().next().unwrap().to_string();
        assert_eq!(names("my file.c"), "--- a/my file.c\t");
        assert_eq!(names("größe.c"), "--- a/größe.c");
        assert_eq!(names("a\n+++ b/c \u{1b}[2J\"ö\\.c"), r#"--- "a/a\n+++ b/c \033[2J\"\303\266\\.c""#);
    }

    #[test]
    fn far_changes_are_hunks_of_their_own() {
        let text = |changed: &[usize]| -> String {
            (0..40).map(|i| format!("{}{i}\n", if changed.contains(&i) { "new " } else { "" })).collect()
        };
        for (changed, hunks) in [(&[5, 11][..], 1), (&[5, 13], 2), (&[0, 39], 2), (&[5, 6, 7], 1)] {
            let diff = unified_diff("x", &text(&[]), &text(changed));
            assert_eq!(diff.matches("@@ -").count(), hunks, "{diff}");
            assert_eq!(applied(&text(&[]), &diff), text(changed));
        }
    }

    #[test]
    fn whatever_changed_the_diff_makes_the_new_text() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for round in 0..400 {
            // Few different lines, so that many are equal; sometimes without a line feed at the end.
            let mut text = |n: u64| -> String {
                let lines: String = (0..next(n)).map(|_| format!("{}\n", next(4))).collect();
                if next(3) == 0 { lines.trim_end().to_string() } else { lines }
            };
            let size = if round % 50 == 0 { 3_000 } else { 12 };
            let (old, new) = (text(size), text(size));
            assert_eq!(applied(&old, &unified_diff("x", &old, &new)), new, "{old:?} to {new:?}");
        }
    }
}
