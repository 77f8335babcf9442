//! Names close to one that was not found.

use crate::leaf::{Arrays, leaves};
use crate::{TypeId, TypeTable};

/// `; close: a, b`, or nothing: how an error about a name ends.
pub fn also(close: &[String]) -> String {
    if close.is_empty() { String::new() } else { format!("; close: {}", close.join(", ")) }
}

/// Up to three fields of a type close to `path`, as an error ends.
pub fn also_fields(table: &TypeTable, id: TypeId, path: &str) -> String {
    let leaves = leaves(table, id, Arrays::Whole);
    also(&near_paths(leaves.iter().map(|l| l.path.as_str()), path, 3))
}

/// Up to `limit` defined names closest to `name`: by edit distance, and names that contain it.
pub fn near(table: &TypeTable, name: &str, limit: usize) -> Vec<String> {
    // Template arguments are spelled differently by every compiler: the name in front of them decides.
    let bare = name.split('<').next().unwrap_or(name);
    let bare = bare.rsplit([' ', ':']).next().unwrap_or(bare);
    let mut found: Vec<(usize, &str)> = table
        .aggregates()
        .filter_map(|(_, a)| a.name.as_deref())
        .filter_map(|n| Some((score(bare, n)?, n)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(limit).map(|(_, n)| n.to_string()).collect()
}

/// Up to `limit` field paths with a part close to the last part of `path`.
pub fn near_paths<'a>(paths: impl Iterator<Item = &'a str>, path: &str, limit: usize) -> Vec<String> {
    let want = path.rsplit('.').next().unwrap_or(path);
    let closest = |p: &str| p.split(['.', '[']).filter_map(|part| score(want, part)).min();
    let mut found: Vec<(usize, &str)> = paths.filter_map(|p| Some((closest(p)?, p))).collect();
    found.sort_unstable();
    found.into_iter().take(limit).map(|(_, p)| p.to_string()).collect()
}

/// Smaller is closer; `None` is too far to mention.
fn score(want: &str, have: &str) -> Option<usize> {
    let stem = have.split('<').next().unwrap_or(have);
    let last = stem.rsplit("::").next().unwrap_or(stem);
    if last == want {
        return Some(0);
    }
    // Of one or two letters every name is one edit away.
    let allowed = if want.len() < 3 { 0 } else { (want.len() / 3).clamp(1, 4) };
    if want.len().abs_diff(last.len()) <= allowed {
        let d = distance(want, last);
        if d <= allowed {
            return Some(d);
        }
    }
    (want.len() >= 4 && have.contains(want)).then(|| 5 + have.len() - want.len())
}

/// Edit distance with two neighbours that changed places as one edit, over bytes: names are ASCII in practice.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let first: Vec<usize> = (0..=b.len()).collect();
    let (mut before, mut last) = (first.clone(), first);
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(row[j - 1] + 1).min(last[j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, want) in [
            ("", "abc", 3),
            ("mm_struct", "mm_struct", 0),
            ("mm_strct", "mm_struct", 1),
            ("ab", "ba", 1),
            ("bnak", "bank", 1),
        ] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn errors_end_with_names_that_may_have_been_meant() {
        let close = |path| also(&near_paths(["requests", "lock.count", "a"].into_iter(), path, 3));
        assert_eq!(close("requets"), "; close: requests");
        assert_eq!(close("stats.cont"), "; close: lock.count");
        assert_eq!((close("b"), close("nothing_like_it")), (String::new(), String::new()));
    }
}
