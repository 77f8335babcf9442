//! Memory that several allocations had one after the other, and code that is listed at the wrong one of them.
//!
//! A recorder keeps which code touched which bytes of a line, not when; where the memory was freed and given out again,
//! code of one life may stand at the object of another. Code that contradicts the object's type is then taken out.

use std::collections::HashSet;

use tussle_evidence::{Evidence, Loss, ObjectKind};

/// What identifies the touches of one code line at one place: object, offset, line, size.
pub(crate) type TouchKey = (u32, u64, u32, u32);

/// Heap objects whose bytes belonged to another heap object at another time.
pub(crate) fn reused(evidence: &Evidence) -> HashSet<u32> {
    let heap = evidence.objects.iter().enumerate().filter(|(_, o)| o.kind == ObjectKind::Heap);
    let mut spans: Vec<(u32, u64, u64, u32)> =
        heap.map(|(id, o)| (o.process, o.base, o.base.saturating_add(o.size), id as u32)).collect();
    spans.sort_unstable();
    let mut out = HashSet::new();
    // The earlier span that reaches furthest: a later one overlaps an earlier one exactly if it begins inside of it.
    let mut furthest: Option<(u32, u64, u32)> = None;
    for (process, base, end, id) in spans {
        match furthest {
            Some((p, reach, other)) if p == process && base < reach => {
                out.extend([other, id]);
                if end > reach {
                    furthest = Some((process, end, id));
                }
            }
            _ => furthest = Some((process, end, id)),
        }
    }
    out
}

/// Takes the touches at `foreign` places out; `lines` names the code line of every touch.
pub(crate) fn take_out(evidence: &mut Evidence, lines: &[u32], foreign: &HashSet<TouchKey>) {
    let mut line = lines.iter();
    let before = evidence.touches.len();
    evidence
        .touches
        .retain(|t| line.next().is_none_or(|l| !foreign.contains(&(t.object, t.offset, *l, t.size))));
    let count = (before - evidence.touches.len()) as u64;
    if count > 0 {
        evidence.losses.push(Loss {
            process: None,
            what: "code of other lives".into(),
            count,
            note:
                "samples of code left out: it belongs to another object that had the memory at another time"
                    .into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::{Object, Run, Sees, Source};

    fn check(spans: &[(u64, u64)], expected: &[u32]) {
        let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
        for &(base, size) in spans {
            e.objects.push(Object::unnamed(0, ObjectKind::Heap, base, size));
        }
        let mut found: Vec<u32> = reused(&e).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn objects_that_share_bytes_are_found() {
        check(&[(0, 32), (32, 32), (64, 16)], &[]);
        check(&[(0, 32), (0, 32), (64, 16)], &[0, 1]);
        check(&[(0, 100), (16, 8), (40, 8), (100, 8)], &[0, 1, 2]);
        check(&[(40, 8), (0, 41)], &[0, 1]);
    }
}
