//! Functions that are given the address of one member and read more than it has, or go on from there: as a `void *`, as
//! a pointer to an array, by what keeps it.

use super::body::Source;
use super::bytes::keeps;
use super::callee::{is_single, walks_from};
use super::neighbours::{Member, Uses, may_be_function, size};
use super::scan::Code;

/// What copies, compares or sends as many bytes as its last argument says.
const COPIES: [&str; 8] =
    ["memcpy", "memmove", "memcmp", "memset", "__builtin_memcpy", "bcmp", "write", "strncmp"];

/// The standard library's functions of a first element and a count.
const COUNTED: [&str; 4] = ["qsort", "qsort_r", "bsearch", "lfind"];

/// A function as one file defines it.
struct Definition<'c, 's, 'a> {
    code: &'c Code<'s, 'a>,
    /// Ranges of its parameters.
    parameters: Vec<(usize, usize)>,
    /// Tokens of its body.
    body: (usize, usize),
}

impl Uses<'_, '_, '_> {
    /// `load(&x->a)`, where the function copies more bytes from there than `a` has.
    pub(super) fn is_exceeded_by_callee(&self, member: &Member, first: usize, last: usize) -> Option<String> {
        let objects = self.objects;
        let (open, index) = self.call_of(first, last)?;
        let name = objects.text(open - 1);
        if is_vector_load(name) {
            return Some(exceeded(name, member));
        }
        let own = member.bytes().filter(|_| member.array || !is_single(name) && !keeps(name))?;
        let arguments = objects.arguments(open);
        let counted = arguments.get(index + 1).is_some_and(|&next| self.is_size_of(member, next));
        let mut defining = self.files.iter().filter(|f| may_be_function(f.1, name));
        let exceeds = defining.any(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            code.definitions(name).any(|d| Definition::new(&code, d).exceeds(index, own, counted))
        });
        exceeds.then(|| exceeded(name, member))
    }

    /// `v.iov_base = &x->a; v.iov_len = 8;`
    pub(super) fn vector(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        let value = (objects.text(i + 1) == "=").then_some(i + 2)?;
        let at = objects.code.closing(value).filter(|_| objects.text(value) == "(").map_or(value, |c| c + 1);
        let (member, _) =
            Some(at).filter(|&a| objects.text(a) == "&").and_then(|a| self.own_member(a + 1))?;
        let (from, to) = objects.function(i);
        let length = |&&j: &&usize| (from..to).contains(&j) && objects.text(j + 1) == "=";
        let &length = objects.code.places("iov_len").iter().find(length)?;
        let end = (length..to).find(|&j| matches!(objects.text(j), ";" | "," | "}"))?;
        let alone = member.array || self.is_size_of(member, (length + 2, end));
        (!alone && self.spreads(member, self.length((length + 2, end))))
            .then(|| format!("a vector of writev() or its kin reaches from {} on", member.name))
    }

    /// A compiler's type of several numbers: `__m128`, or a typedef with `vector_size`.
    pub(super) fn is_vector(&self, word: &str) -> bool {
        let known = ["__m64", "__m128", "__m256", "__m512"].iter().any(|w| word.starts_with(w));
        let neon = word.contains('x') && word.ends_with("_t") && word.contains(|c: char| c.is_ascii_digit());
        let defined = |text: &str| {
            let statements = text.split(';').filter(|s| s.contains("vector_size") && s.contains("typedef"));
            statements
                .into_iter()
                .any(|s| s.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == word))
        };
        known || neon || self.files.iter().any(|f| defined(f.1))
    }

    /// `set(x->name, y)`, where the function copies more than the array has.
    pub(super) fn array_argument(&self, i: usize) -> Option<String> {
        let objects = self.objects;
        if !matches!(objects.text(i.wrapping_sub(1)), "(" | ",") || objects.text(i + 1) == "(" {
            return None;
        }
        let (member, last) = self.own_member(i).filter(|(m, _)| m.array)?;
        let alone = matches!(objects.text(last + 1), "," | ")");
        let (open, index) = self.call_of(i, last).filter(|_| alone)?;
        // `printf("%.*s", 11, x->name)`
        let name = objects.text(open - 1);
        let arguments = objects.arguments(open);
        let is_more = |n: Option<usize>| {
            let given = n.and_then(|n| arguments.get(n)).and_then(|&a| self.length(a));
            given.zip(member.bytes()).is_some_and(|(n, own)| n > own)
        };
        let printed = name.contains("printf")
            && (is_more(index.checked_sub(1)) || {
                let form = arguments.iter().map(|a| objects.text(a.0)).find(|t| t.starts_with('"'));
                let most = form.and_then(|f| f.split("%.").skip(1).filter_map(precision).max());
                most.zip(member.bytes()).is_some_and(|(n, own)| n > own)
            });
        let compared = matches!(name, "strncmp" | "strncasecmp" | "memchr") && is_more(Some(2));
        // `strndup(x->name, 16)`, `std::string v(x.name, 16)`
        let outside = || !self.files.iter().any(|f| may_be_function(f.1, name));
        match printed || compared || is_more(Some(index + 1)) && outside() {
            true => Some(format!("{name}() takes more from {} on than it has", member.name)),
            false => self.is_exceeded_by_callee(member, i, last),
        }
    }

    /// The call in whose arguments the tokens `first..=last` stand alone: its `(`, and the argument's number.
    pub(super) fn call_of(&self, first: usize, last: usize) -> Option<(usize, usize)> {
        let objects = self.objects;
        if !matches!(objects.text(first.saturating_sub(1)), "(" | ",") {
            return None;
        }
        let mut opens = (first.saturating_sub(40)..first).rev().filter(|&k| objects.text(k) == "(");
        let open = opens.find(|&k| objects.code.closing(k).is_some_and(|c| c > last))?;
        let named = open > 0 && objects.code.is_word(open - 1);
        let index = objects.arguments(open).iter().position(|a| a.0 <= first && first < a.1)?;
        named.then_some((open, index))
    }

    /// What a call of the function `name` returns is walked: `first(x)[1]`, `p = first(x)` and then `p++`.
    pub(super) fn is_walked_by_callers(&self, name: &str) -> bool {
        let files = self.files.iter().filter(|f| f.1.contains(name));
        files.into_iter().any(|f| {
            let source = Source::new(f.1);
            let code = Code::new(&source);
            code.places(name).iter().any(|&i| {
                let Some(close) = code.closing(i + 1).filter(|_| code.text(i + 1) == "(") else {
                    return false;
                };
                let behind = (code.text(close + 1), code.text(close + 2));
                let at_once = behind.0 == "+" || behind.0 == "[" && behind.1 != "0";
                let variable = i.checked_sub(2).filter(|_| code.text(i - 1) == "=");
                let kept = |v: usize| code.walks(code.text(v), close, code.function(i).1);
                code.is_in_function(i) && (at_once || variable.is_some_and(kept))
            })
        })
    }

    /// The variable at `variable` is given to a function that takes a first element and a count, or that walks from it.
    pub(super) fn is_given_with_count(&self, variable: usize, from: usize) -> bool {
        let code = &self.objects.code;
        let (_, end) = self.objects.function(variable);
        let uses = code.places(code.text(variable)).iter().filter(|&&j| from < j && j < end);
        uses.into_iter().filter_map(|&j| self.call_of(j, j).map(|call| (j, call))).any(
            |(j, (open, index))| {
                let name = code.text(open - 1);
                let alone = matches!(code.text(j + 1), "," | ")");
                alone && (COUNTED.contains(&name) || walks_from(self.files, name, index))
            },
        )
    }
}

impl<'c, 's, 'a> Definition<'c, 's, 'a> {
    /// Of the function whose parameters begin at `open`, and its body at `brace`.
    fn new(code: &'c Code<'s, 'a>, (open, brace): (usize, usize)) -> Self {
        let (_, end) = code.function(brace + 1);
        Definition { code, parameters: code.arguments(open), body: (brace + 1, end) }
    }

    /// The function reads more than `own` bytes from where its parameter `index` points; `counted` says that it is told
    /// so many by the next one.
    fn exceeds(&self, index: usize, own: u64, counted: bool) -> bool {
        let code = self.code;
        let Some(&(from, to)) = self.parameters.get(index) else { return false };
        // `long (*v)[4]`
        if code.text(to - 1) == "]" && (from..to).any(|j| code.text(j) == "*") {
            return true;
        }
        // What a pointer to numbers may take of an array is only seen by a length.
        let untyped = (from..to).any(|j| code.text(j) == "void");
        let bytes = (from..to).any(|j| matches!(code.text(j), "char" | "uint8_t" | "u8"));
        let name = code.text(to - 1);
        let uses = code.places(name).iter().filter(|&&j| self.body.0 <= j && j < self.body.1);
        uses.into_iter().any(|&j| {
            untyped && self.use_exceeds(j, own, counted)
                || bytes && self.copied(j).and_then(|l| self.bytes(l)).is_some_and(|n| n > own)
        })
    }

    fn use_exceeds(&self, j: usize, own: u64, counted: bool) -> bool {
        let code = self.code;
        let wide = |ty: usize| size(code.text(ty)).is_none_or(|s| s > own);
        // `memcpy(&v, p, sizeof v)`
        if matches!(code.text(j - 1), "(" | ",") && matches!(code.text(j + 1), "," | ")") {
            return self.copied(j).is_some_and(|l| match self.bytes(l) {
                Some(bytes) => bytes > own,
                None => !counted,
            });
        }
        // `(uint64_t *)p`
        if code.text(j - 1) == ")"
            && let Some(open) = code.cast_before(j - 1)
        {
            let ty = (open + 1..j - 1).find(|&k| !matches!(code.text(k), "const" | "volatile" | "struct"));
            let kept = code.text(open.wrapping_sub(1)) == "=";
            let scalar = ty.is_some_and(|t| size(code.text(t)).is_some());
            return scalar && (ty.is_some_and(wide) || kept && self.walks(open - 2, j, counted));
        }
        // `const unsigned char *c = p;`
        let assigned = code.text(j - 1) == "=" && matches!(code.text(j + 1), ";" | ",");
        let declared = code.variable(code.text(j.wrapping_sub(2)), j).filter(|_| assigned);
        declared
            .is_some_and(|d| size(code.text(d.ty)).is_some() && (wide(d.ty) || self.walks(j - 2, j, counted)))
    }

    /// The length of the copy or comparison that is given the pointer at `j`.
    fn copied(&self, j: usize) -> Option<(usize, usize)> {
        let code = self.code;
        let alone = matches!(code.text(j - 1), "(" | ",") && matches!(code.text(j + 1), "," | ")");
        let open = code.open_before(j).filter(|&o| alone && o > 0 && COPIES.contains(&code.text(o - 1)))?;
        code.arguments(open).last().copied()
    }

    fn walks(&self, variable: usize, from: usize, counted: bool) -> bool {
        !counted && self.code.walks(self.code.text(variable), from, self.body.1)
    }

    /// A length that is seen: `8`, `sizeof(long)`, `sizeof v` of a number.
    fn bytes(&self, (from, to): (usize, usize)) -> Option<u64> {
        let code = self.code;
        if code.text(from) != "sizeof" {
            return code.text(from).parse().ok().filter(|_| to == from + 1);
        }
        let word = (from + 1..to).find(|&j| code.is_word(j))?;
        let single = (word + 1..to).all(|j| code.text(j) == ")");
        let declared = code.variable(code.text(word), word).filter(|d| d.depth == 0).map(|d| code.text(d.ty));
        size(declared.unwrap_or(code.text(word))).filter(|_| single)
    }
}

/// Compilers' loads and stores of whole vectors: `_mm_loadu_ps`, `vld1q_f32`.
fn is_vector_load(name: &str) -> bool {
    let moves = ["load", "store", "gather", "lddqu"].iter().any(|w| name.contains(w));
    name.starts_with("_mm") && moves || name.starts_with("vld") || name.starts_with("vst")
}

/// `8s`, as it stands behind `%.`: the characters of a text.
fn precision(form: &str) -> Option<u64> {
    let end = form.find(|c: char| !c.is_ascii_digit()).filter(|&e| form[e..].starts_with('s'))?;
    form[..end].parse().ok()
}

fn exceeded(function: &str, member: &Member) -> String {
    format!("{function}() reaches from {} on, and may take more than {} alone", member.name, member.name)
}
