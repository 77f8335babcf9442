//! Memory that an `operator new` of the program's own asked for: who wanted it is the operator's caller.

use std::collections::HashMap;

use tussle_evidence::{Code, Evidence, ObjectKind};

/// Operators that call one another (`new[]` calls `new`).
const NESTED_MAX: usize = 3;

/// Moves allocation sites out of operators, whose names become the allocator's. Needs named code.
pub(crate) fn pass(evidence: &mut Evidence) {
    let mut moved: HashMap<u32, Option<(u32, String)>> = HashMap::new();
    for i in 0..evidence.objects.len() {
        let o = &evidence.objects[i];
        let Some(code) = o.alloc_code.filter(|_| o.kind == ObjectKind::Heap) else { continue };
        let known = moved.get(&code).cloned();
        let found = known.unwrap_or_else(|| caller(evidence, code));
        if let Some((caller, operator)) = &found {
            let o = &mut evidence.objects[i];
            (o.alloc_code, o.allocator) = (Some(*caller), Some(operator.clone()));
        }
        moved.insert(code, found);
    }
}

/// The operator's caller and the operator's name, if `code` lies in one.
fn caller(evidence: &mut Evidence, code: u32) -> Option<(u32, String)> {
    let row = evidence.code.get(code as usize)?;
    let mut found = None;
    let (mut at, mut rest) = (code, row.chain.clone());
    for _ in 0..NESTED_MAX {
        let Some(name) = operator(evidence.code.get(at as usize)?) else { break };
        if rest.is_empty() {
            break;
        }
        at = rest.remove(0);
        found = Some(name);
    }
    let name = found?;
    Some((with_callers(evidence, at, rest)?, name))
}

/// The row of code `at` that is called by `callers`: made if it is not there.
pub(crate) fn with_callers(evidence: &mut Evidence, at: u32, callers: Vec<u32>) -> Option<u32> {
    let caller = evidence.code.get(at as usize)?;
    if callers.is_empty() {
        return Some(at);
    }
    let row = Code { chain: callers, ..caller.clone() };
    let same = |c: &Code| (c.process, c.address, &c.chain) == (row.process, row.address, &row.chain);
    let id = evidence.code.iter().position(same).unwrap_or_else(|| {
        evidence.code.push(row);
        evidence.code.len() - 1
    });
    Some(id as u32)
}

/// `operator new` or `operator new[]` if the code's outermost function (others are inlined into it) is one.
fn operator(code: &Code) -> Option<String> {
    let function = &code.frames.last()?.function;
    let is =
        |name: &str, symbol: &str| function.split('(').next() == Some(name) || function.starts_with(symbol);
    let name = [("operator new", "_Znw"), ("operator new[]", "_Zna")].into_iter().find(|(n, s)| is(n, s))?.0;
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::{Frame, Object, Run, Sees, Source};

    fn code(function: &str, chain: &[u32]) -> Code {
        let frame = Frame { function: function.into(), file: "a.cc".into(), line: 1, column: 1 };
        Code { process: 0, module: None, address: 1, frames: vec![frame], chain: chain.to_vec() }
    }

    fn site(codes: Vec<Code>, at: u32) -> (Option<u32>, Option<String>, Evidence) {
        let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
        e.code = codes;
        for (i, c) in e.code.iter_mut().enumerate() {
            c.address = i as u64;
        }
        let mut o = Object::unnamed(0, ObjectKind::Heap, 4096, 64);
        (o.alloc_code, o.allocator) = (Some(at), Some("malloc".into()));
        e.objects.push(o);
        pass(&mut e);
        let o = &e.objects[0];
        (o.alloc_code, o.allocator.clone(), e)
    }

    #[test]
    fn the_callers_of_operators_are_the_sites() {
        let codes = || {
            vec![
                code("operator new(unsigned long)", &[1, 2, 3]),
                code("operator new[](unsigned long)", &[]),
                code("make", &[]),
                code("main", &[]),
            ]
        };
        let (at, name, e) = site(codes(), 0);
        let row = &e.code[at.unwrap() as usize];
        assert_eq!((row.frames[0].function.as_str(), row.chain.as_slice()), ("make", &[3][..]));
        assert_eq!(name.as_deref(), Some("operator new[]"));
        // Code that is no operator, or whose caller is not known, stays.
        assert_eq!(site(codes(), 2).0, Some(2));
        assert_eq!(site(vec![code("_Znwm", &[])], 0).0, Some(0));
        assert_eq!(site(vec![code("operator newer(long)", &[1]), code("main", &[])], 0).0, Some(0));
    }
}
