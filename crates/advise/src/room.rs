//! Whether the memory of objects grows with their struct. What `sizeof` asks for does, and variables do. A size in
//! plain bytes, or one that some other function is told, stays as it is, and the patched program writes behind its
//! block.

use crate::cost::Layout;
use crate::scene::Scene;
use tussle_evidence::{Basis, Object, ObjectKind};
use tussle_model::Language;

/// An object that a layout makes larger than memory that does not grow with it: where it comes from, and why.
pub(crate) fn lacking(scene: &Scene<'_>, layout: &dyn Layout) -> Option<String> {
    let stays = |o: &&Object| {
        let c = o.ty.and_then(|t| scene.evidence.types.aggregate(t)).is_none_or(|a| a.language == Language::C);
        let kept = match o.kind {
            ObjectKind::Heap => c,
            ObjectKind::Mapped => true,
            _ => false,
        };
        kept && o.basis != Some(Basis::Sizeof) && scene.object_size(o, layout).is_ok_and(|n| n > o.size)
    };
    let o = scene.objects().find(stays)?;
    let code = o.alloc_code.and_then(|c| scene.evidence.code.get(c as usize)?.frames.first());
    let at = code.map_or(String::new(), |f| format!(" at {}:{}", f.file, f.line));
    let allocator = o.allocator.as_deref().unwrap_or("its memory");
    Some(format!("{allocator}{at} was not seen to use sizeof: {} bytes would not grow with the struct", o.size))
}

#[cfg(test)]
mod tests {
    use crate::advice::{Options, advise};
    use tussle_evidence::{Basis, sample::Sample};

    #[test]
    fn memory_of_a_size_in_bytes_does_not_grow() {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.c", 9, &[]);
        let (one, two) = (s.worker(main, start), s.worker(main, start));
        let long = s.long();
        let site = s.code("make", "make.c", 12, &[]);
        let ty = s.structure("pair", 16, &[("a", long, 0), ("b", long, 8)]);
        let o = s.heap(0x1000, 16, Some(ty), 1, 64, Some(site));
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        let recorded = s.evidence();
        let ask = |basis| {
            let mut e = recorded.clone();
            e.objects[o as usize].basis = Some(basis);
            advise(&e, "pair", &Options::default()).unwrap()
        };
        assert!(ask(Basis::Sizeof).advices.iter().any(|a| a.size_after > 16));
        let report = ask(Basis::Allocation);
        assert!(report.advices.iter().all(|a| a.size_after <= 16), "{:?}", report.advices);
        let told = |n: &String| n.contains("make.c:12") && n.contains("16 bytes");
        assert!(report.notes.iter().any(told), "{:?}", report.notes);
    }
}
