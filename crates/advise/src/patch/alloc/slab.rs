//! Slab caches of a kernel: objects of `kmem_cache_create` are aligned as its third argument and its flags say,
//! whatever the type needs.

use std::ops::Range;

use super::types::Types;
use super::{Call, Changed};
use crate::patch::body::Source;
use crate::patch::scan::Code;
use crate::patch::splice;

/// Functions that make a cache: name, size, alignment, flags. (`KMEM_CACHE` asks for the type's own alignment.)
const CREATE: [&str; 2] = ["kmem_cache_create", "kmem_cache_create_usercopy"];

/// Bytes to which `SLAB_HWCACHE_ALIGN` aligns objects that are as large.
const LINE_BYTES: u64 = 64;

/// Whether a text makes caches.
pub fn makes_caches(text: &str) -> bool {
    text.contains(CREATE[0])
}

/// The files in which caches for one of `types` (tags and typedefs) get the type's alignment, because they ask for less
/// than `bytes`.
pub fn rewrite(types: &[String], bytes: u64, files: &[(&str, &str)]) -> Vec<Changed> {
    let all = Types::of(files);
    let mut out = Vec::new();
    for (path, text) in files.iter().filter(|f| makes_caches(f.1)) {
        let source = Source::new(text);
        let code = Code::new(&source);
        let found: Vec<(Range<usize>, String, u32)> =
            (0..code.len()).filter_map(|i| change(&code, i, types, bytes, &all)).collect();
        if found.is_empty() {
            continue;
        }
        let changes: Vec<(Range<usize>, &str)> = found.iter().map(|c| (c.0.clone(), c.1.as_str())).collect();
        let lines = found.iter().map(|c| c.2).collect();
        out.push(Changed { path: path.to_string(), text: splice(text, &changes), lines });
    }
    out
}

/// The alignment argument of the call at `i` as it must become, with its line.
fn change(
    code: &Code<'_, '_>,
    i: usize,
    types: &[String],
    bytes: u64,
    all: &Types,
) -> Option<(Range<usize>, String, u32)> {
    let function = CREATE.iter().find(|f| **f == code.text(i) && code.text(i + 1) == "(")?;
    let close = code.closing(i + 1)?;
    let call = Call { function, at: i, parens: (i + 1, close), lines: (code.line(i), code.line(close)) };
    let arguments = call.arguments(code);
    let [_, size, align, flags] = arguments.get(..4)? else { return None };
    let measure = size.clone().find(|&j| code.text(j) == "sizeof")?;
    all.measured(code, measure).filter(|t| types.contains(t))?;
    let by_flag = flags.clone().any(|j| code.text(j) == "SLAB_HWCACHE_ALIGN") && bytes <= LINE_BYTES;
    // A number or a size; what else stands there was chosen by somebody for its alignment.
    let number = code.text(align.start).parse::<u64>();
    let is_less = number.is_ok_and(|n| n < bytes) || code.text(align.start) == "sizeof";
    if by_flag || !is_less {
        return None;
    }
    let operand = super::types::operand(code, measure)?;
    let text = &code.source.text[code.range(operand.start).start..code.range(operand.end - 1).end];
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let range = code.range(align.start).start..code.range(align.end - 1).end;
    Some((range, format!("__alignof__({inner})"), code.line(i)))
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn caches_ask_for_the_types_alignment() {
        let with = |align: &str, flags: &str| {
            format!("\tcache = kmem_cache_create(\"pool\", sizeof(struct pool), {align}, {flags}, NULL);\n")
        };
        let changed = |text: &str| {
            let out = rewrite(&["pool".to_string()], 64, &[("mm/pool.c", text)]);
            out.into_iter().next().map(|c| c.text)
        };
        let check = |align: &str| {
            assert_eq!(
                changed(&with(align, "SLAB_PANIC")),
                Some(with("__alignof__(struct pool)", "SLAB_PANIC"))
            );
        };
        check("0");
        check("8");
        check("sizeof(void *)");
        assert_eq!(changed(&with("0", "SLAB_PANIC | SLAB_HWCACHE_ALIGN")), None);
        assert_eq!(changed(&with("64", "0")), None);
        assert_eq!(changed(&with("__alignof__(struct pool)", "0")), None);
        assert_eq!(changed(&with("0", "0").replace("struct pool)", "struct other)")), None);
    }
}
