//! Whether the memory of objects grows with their struct. What `sizeof` asks for does, and variables do. A size in
//! plain bytes, or one that some other function is told, stays as it is, and the patched program writes behind its
//! block.

use crate::cost::{Layout, elements, language};
use crate::scene::Scene;
use std::collections::{HashMap, HashSet};
use tussle_evidence::tables::WHOLE_BYTES;
use tussle_evidence::{Basis, Evidence, Object, ObjectKind};
use tussle_model::Language;

/// Objects of `affected` in memory of so many bytes of which nobody was seen to use what lies behind their elements:
/// `mmap(NULL, 4096, ..)` for a struct of 16. Small ones are recorded as a whole, so that unseen is unused there; what
/// `sizeof` asks for has no room.
pub(crate) fn spare(evidence: &Evidence, affected: &[bool]) -> HashSet<u32> {
    let roomy = |o: &Object| {
        let of_bytes =
            matches!(o.kind, ObjectKind::Heap | ObjectKind::Mapped) && o.basis != Some(Basis::Sizeof);
        let each =
            evidence.types.size(o.ty.filter(|_| of_bytes && o.size <= WHOLE_BYTES)?).filter(|n| *n > 0)?;
        let end = elements(o, each).saturating_mul(each);
        (end < o.size).then_some(end)
    };
    let all = (0u32..).zip(&evidence.objects).zip(affected).filter(|(_, reached)| **reached);
    let mut ends: HashMap<u32, u64> = all.filter_map(|((id, o), _)| Some((id, roomy(o)?))).collect();
    for a in &evidence.accesses {
        if ends.get(&a.object).is_some_and(|end| a.offset.saturating_add(u64::from(a.size)) > *end) {
            ends.remove(&a.object);
        }
    }
    ends.into_keys().collect()
}

/// An object that a layout makes larger than memory that does not grow with it: where it comes from, and why.
pub(crate) fn lacking(scene: &Scene<'_>, layout: &dyn Layout) -> Option<String> {
    let stays = |(id, o): &(u32, &Object)| {
        // Rust's containers ask for the size of what they hold.
        let c = o.ty.and_then(|t| language(&scene.evidence.types, t)).is_none_or(|l| l == Language::C);
        // The compiler writes the size of a `new`, of a struct that C shares, too.
        let new = o.allocator.as_deref().is_some_and(|a| a.starts_with("operator new"));
        let kept = match o.kind {
            ObjectKind::Heap => c && !new,
            ObjectKind::Mapped => true,
            _ => false,
        };
        kept && o.basis != Some(Basis::Sizeof) && scene.object_size(*id, layout).is_ok_and(|n| n > o.size)
    };
    let (_, o) = scene.numbered().find(stays)?;
    let code = o.alloc_code.and_then(|c| scene.evidence.code.get(c as usize)?.frames.first());
    let at = code.map_or(String::new(), |f| format!(" at {}:{}", f.file, f.line));
    let allocator = o.allocator.as_deref().unwrap_or("its memory");
    Some(format!(
        "{allocator}{at} was not seen to use sizeof: {} bytes would not grow with the struct",
        o.size
    ))
}

#[cfg(test)]
mod tests {
    use crate::advice::{Options, Report, advise};
    use tussle_evidence::{Access, Basis, Evidence, sample::Sample};
    use tussle_model::{Language, Type};

    /// Two threads that write each its half of a struct of 16 bytes in a block of so many.
    fn pair_in(bytes: u64, basis: Basis) -> Evidence {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let (one, two) = (s.worker(main, start), s.worker(main, start));
        let long = s.long();
        let site = s.code("make", "make.c", 12, &[]);
        let ty = s.structure("pair", 16, &[("a", long, 0), ("b", long, 8)]);
        let o = s.heap(0x1000, bytes, Some(ty), 1, 64, Some(site));
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        let mut e = s.evidence();
        e.objects[o as usize].basis = Some(basis);
        e
    }

    fn ask(e: &Evidence) -> Report {
        advise(e, "pair", &Options::default()).unwrap()
    }

    #[test]
    fn memory_of_a_size_in_bytes_does_not_grow() {
        assert!(ask(&pair_in(16, Basis::Sizeof)).advices.iter().any(|a| a.size_after > 16));
        let report = ask(&pair_in(16, Basis::Allocation));
        assert!(report.advices.iter().all(|a| a.size_after <= 16), "{:?}", report.advices);
        let told = |n: &String| n.contains("make.c:12") && n.contains("16 bytes");
        assert!(report.notes.iter().any(told), "{:?}", report.notes);
    }

    #[test]
    fn a_struct_of_c_that_cpp_allocates_grows() {
        let mut recorded = pair_in(16, Basis::Allocation);
        recorded.objects.iter_mut().for_each(|o| o.allocator = Some("operator new[]".into()));
        assert!(ask(&recorded).advices.iter().any(|a| a.size_after > 16));
    }

    #[test]
    fn an_array_that_rust_allocates_grows() {
        let mut recorded = pair_in(32, Basis::Allocation);
        let pair = recorded.types.find("pair").unwrap();
        let Type::Aggregate(mut a) = recorded.types.get(pair).clone() else { panic!("no struct") };
        a.language = Language::Rust;
        recorded.types.set(pair, Type::Aggregate(a));
        let ty = recorded.types.push(Type::Array { elem: pair, counts: vec![Some(2)] });
        recorded.objects.iter_mut().for_each(|o| o.ty = Some(ty));
        let report = ask(&recorded);
        assert!(report.advices.iter().any(|a| a.size_after > 16), "{report:?}");
        assert_eq!(report.notes.iter().find(|n| n.contains("sizeof")), None);
    }

    #[test]
    fn a_block_with_room_behind_the_struct_holds_a_larger_one() {
        let recorded = pair_in(128, Basis::Allocation);
        let best = ask(&recorded).advices.remove(0);
        assert_eq!((best.size_after, best.live_bytes, best.after.observed), (128, 0, 0.0), "{best:?}");
        let mut used = recorded.clone();
        used.accesses.push(Access { offset: 120, ..recorded.accesses[0].clone() });
        let report = ask(&used);
        assert!(report.advices.is_empty() && report.refused.is_some(), "{:?}", report.advices);
    }
}
