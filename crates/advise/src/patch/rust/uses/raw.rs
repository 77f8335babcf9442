//! Raw pointers that are bound to a name, whose type follows from what they are bound to, or that a function is given
//! as pointers to nothing.

use super::{OPAQUE, Uses};
use crate::patch::rust::item::Source;

/// A function that makes its opaque parameter a pointer to another type.
#[derive(Debug)]
pub(super) struct Taker {
    name: String,
    parameter: usize,
    /// That type.
    seen: String,
}

/// Every function of `sources` that sees what it is given by `*const ()` as something other than `name`.
pub(super) fn takers(name: &str, sources: &[Source<'_>]) -> Vec<Taker> {
    let mut out = Vec::new();
    for s in sources.iter().filter(|s| s.text.contains("*const") || s.text.contains("*mut")) {
        let functions = (0..s.tokens.len()).filter(|&i| s.at(i) == "fn" && s.is_ident(i + 1));
        out.extend(functions.flat_map(|i| taken(s, i, name).unwrap_or_default()));
    }
    out
}

/// Such parameters of the function at `i`.
fn taken(s: &Source<'_>, i: usize, name: &str) -> Option<Vec<Taker>> {
    let open = (i..i + 24).find(|&j| s.at(j) == "(")?;
    let close = s.closing(open)?;
    let body = (close..s.tokens.len()).find(|&j| matches!(s.at(j), "{" | ";"))?;
    let end = s.closing(body).filter(|_| s.at(body) == "{")?;
    let opaque = |j: usize| {
        let pointer = s.at(j) == ":" && s.at(j + 1) == "*" && s.is_ident(j - 1);
        pointer
            && (j + 3..j + 8)
                .take_while(|&k| !matches!(s.at(k), "," | ")"))
                .any(|k| matches!(s.at(k), "(" | "c_void"))
    };
    let found = (open + 1..close).filter(|&j| opaque(j)).filter_map(|j| {
        let parameter = (open + 1..j).filter(|&k| s.at(k) == ",").count();
        let seen = (body..end).filter(|&k| s.at(k) == s.at(j - 1)).find_map(|k| cast(s, k))?;
        let other = seen != name && !OPAQUE.contains(&seen);
        other.then(|| Taker { name: s.at(i + 1).into(), parameter, seen: seen.into() })
    });
    Some(found.collect())
}

/// The type in `p as *const Head`, `p.cast::<Head>()`.
fn cast<'a>(s: &Source<'a>, k: usize) -> Option<&'a str> {
    match (s.at(k + 1), s.at(k + 2)) {
        ("as", "*") => Some(s.at(k + 4)),
        (".", "cast") if s.at(k + 3) == ":" => Some(s.at(k + 6)),
        _ => None,
    }
}

impl<'a> Uses<'_, 'a> {
    /// `let p = &job as *const Job;`: the name, and the end of its block.
    pub(super) fn raw_pointers(&self) -> Vec<(&'a str, usize, usize)> {
        let s = self.s;
        let lets = (0..s.tokens.len()).filter(|&i| s.at(i) == "let");
        let bound = lets.filter_map(|i| {
            let name = i + 1 + usize::from(s.at(i + 1) == "mut");
            let (_, end) = self.statement(i);
            let equal = (name..end).find(|&j| s.at(j) == "=")?;
            let makes = |j: usize| {
                let cast = s.at(j) == "as" && s.at(j + 1) == "*";
                cast || matches!(
                    s.at(j),
                    "addr_of" | "addr_of_mut" | "from_ref" | "from_mut" | "raw" | "into_raw"
                )
            };
            let made = (equal..end).any(makes) && (equal..end).any(|j| self.is_whole(j));
            (s.is_ident(name) && made).then(|| (s.at(name), end, self.block_end(i)))
        });
        bound.collect()
    }

    fn block_end(&self, i: usize) -> usize {
        let mut depth = 0usize;
        let end = (i..self.s.tokens.len()).find(|&j| {
            match self.s.at(j) {
                "{" => depth += 1,
                "}" if depth == 0 => return true,
                "}" => depth -= 1,
                _ => {}
            }
            false
        });
        end.unwrap_or(self.s.tokens.len())
    }

    /// `let p: *const Head = ...cast();`
    pub(super) fn bound_type(&self, i: usize) -> Option<&'a str> {
        let s = self.s;
        let (from, _) = self.statement(i);
        let colon = (from..from + 4).find(|&j| s.at(j) == ":").filter(|_| s.at(from) == "let")?;
        (s.at(colon + 1) == "*").then(|| s.at(colon + 3))
    }

    /// `head(&job as *const Job as *const ())`, where `head` sees another type: `gives` says of an argument between two
    /// tokens that it is ours.
    pub(super) fn given(
        &self,
        i: usize,
        takers: &[Taker],
        gives: impl Fn(usize, usize) -> bool,
    ) -> Option<String> {
        let s = self.s;
        let taker = takers.iter().find(|t| t.name == s.at(i))?;
        let close = s.closing(i + 1).filter(|_| s.at(i + 1) == "(" && s.at(i.wrapping_sub(1)) != "fn")?;
        let mut from = i + 2;
        for _ in 0..taker.parameter {
            from = s.expression_end(from, false) + 1;
        }
        let given = from < close && gives(from, s.expression_end(from, false));
        given.then(|| format!("it is looked at as {}", taker.seen))
    }
}
