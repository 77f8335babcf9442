//! Functions that a file gets for aligned memory where a call of `aligned_alloc` alone would lose something: zeros,
//! contents, a check of the size.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::patch::body::Source;
use crate::patch::lex::Kind;

/// The functions of one file.
pub(super) struct Helpers<'s, 'a> {
    source: &'s Source<'a>,
    header: bool,
    bytes: u64,
    wanted: BTreeSet<&'static str>,
}

impl<'s, 'a> Helpers<'s, 'a> {
    pub(super) fn new(source: &'s Source<'a>, path: &str, bytes: u64) -> Self {
        let header = [".h", ".hh", ".hpp", ".hxx", ".H"].iter().any(|e| path.ends_with(e));
        Helpers { source, header, bytes, wanted: BTreeSet::new() }
    }

    /// The name to call in place of `malloc`, `calloc` or `realloc`.
    pub(super) fn wanted(&mut self, function: &'static str) -> String {
        self.wanted.insert(function);
        self.name(function)
    }

    /// A name that the file has not, or that of the same function put there before.
    fn name(&self, function: &str) -> String {
        let plain = format!("{function}_aligned");
        let numbered = format!("{plain}_{}", self.bytes);
        let taken = |name: &str| self.source.tokens.iter().any(|t| t.text(self.source.text) == name);
        let same = |name: &str| self.source.text.contains(&self.body(function, name));
        if !taken(&plain) || same(&plain) { plain } else { numbered }
    }

    /// What is put below the includes: nothing, or one piece of text.
    ///
    /// # Errors
    /// There is no include to put it below.
    pub(super) fn text(&self) -> Result<Option<(Range<usize>, String)>, &'static str> {
        let text = self.source.text;
        let new = |f: &&&str| !text.contains(&self.body(f, &self.name(f)));
        let bodies: Vec<String> =
            self.wanted.iter().filter(new).map(|f| self.body(f, &self.name(f))).collect();
        if bodies.is_empty() {
            return Ok(None);
        }
        let at = self.below_includes().ok_or("the file includes nothing, so that a function has no place")?;
        let newline = self.newline();
        let copies = self.wanted.iter().any(|f| *f != "malloc");
        let has_string = text.contains("<string.h>") || text.contains("<cstring>");
        let include =
            if copies && !has_string { format!("#include <string.h>{newline}") } else { String::new() };
        Ok(Some((at..at, format!("{include}{newline}{}", bodies.join(newline)))))
    }

    /// One past the line of the last include that stands in no more conditions than the others.
    fn below_includes(&self) -> Option<usize> {
        let mut depth = 0usize;
        let mut all: Vec<(usize, usize)> = Vec::new();
        for token in self.source.tokens.iter().filter(|t| t.kind == Kind::Directive) {
            let text = token.text(self.source.text).trim_start_matches('#').trim_start();
            match text.split(|c: char| !c.is_alphabetic()).next().unwrap_or("") {
                "if" | "ifdef" | "ifndef" => depth += 1,
                "endif" => depth = depth.saturating_sub(1),
                "include" => all.push((depth, token.end)),
                _ => {}
            }
        }
        let least = all.iter().map(|a| a.0).min()?;
        let end = all.iter().rfind(|a| a.0 == least)?.1;
        let rest = self.source.text.get(end.saturating_sub(1)..)?;
        Some(end.saturating_sub(1) + rest.find('\n').map_or(rest.len(), |n| n + 1))
    }

    fn newline(&self) -> &'static str {
        if self.source.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// The function's text in the file's own indentation.
    fn body(&self, function: &str, name: &str) -> String {
        let text = self.source.text;
        let inline = if self.header { "static inline" } else { "static" };
        let template = match function {
            "malloc" => MALLOC,
            "calloc" => CALLOC,
            _ => REALLOC,
        };
        let indent = if text.contains("\n\t") {
            "\t"
        } else if text.contains("\n    ") && !text.contains("\n  s") && !text.contains("\n  i") {
            "    "
        } else {
            "  "
        };
        let (n, less) = (self.bytes.to_string(), (self.bytes - 1).to_string());
        let out = template.replace("STATIC", inline).replace("NAME", name).replace("LESS", &less);
        out.replace("BYTES", &n).replace('\t', indent).replace('\n', self.newline())
    }
}

const MALLOC: &str = "\
/* malloc() of whole blocks of BYTES bytes: no other object lies in a cache line of these. */
STATIC void *NAME(size_t size)
{
\tif (size > (size_t)-1 - LESS)
\t\treturn malloc(size);
\treturn aligned_alloc(BYTES, (size + LESS) / BYTES * BYTES);
}
";

/// Where the size wraps, `calloc` itself says so.
const CALLOC: &str = "\
/* calloc() of whole blocks of BYTES bytes: no other object lies in a cache line of these. */
STATIC void *NAME(size_t n, size_t size)
{
\tsize_t bytes;
\tvoid *p;

\tif (size && n > ((size_t)-1 - LESS) / size)
\t\treturn calloc(n, size);
\tbytes = (n * size + LESS) / BYTES * BYTES;
\tp = aligned_alloc(BYTES, bytes);
\treturn p ? memset(p, 0, bytes) : p;
}
";

/// The new memory is there before the old one goes, so that a failure leaves the old one as it was.
const REALLOC: &str = "\
/* realloc() of whole blocks of BYTES bytes: no other object lies in a cache line of these. */
STATIC void *NAME(void *old, size_t size)
{
\tvoid *p, *copy;

\tif (!size || size > (size_t)-1 - LESS)
\t\treturn realloc(old, size);
\tsize = (size + LESS) / BYTES * BYTES;
\tcopy = aligned_alloc(BYTES, size);
\tp = copy ? realloc(old, size) : copy;
\tif (!p || (size_t)p % BYTES == 0) {
\t\tfree(copy);
\t\treturn p;
\t}
\tmemcpy(copy, p, size);
\tfree(p);
\treturn copy;
}
";
