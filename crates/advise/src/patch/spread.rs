//! Arrays that are members, with every element on lines of its own: the element becomes a struct with one member, and
//! every use `x->name[i]` becomes `x->name[i].value`.
//!
//! Which uses are those of this struct a compiler says; here stands what may be made of each.

use std::collections::BTreeSet;
use std::ops::Range;

use super::body::{Source, find};
use super::member::{declared, statement_of};
use super::scan::Code;
use super::unit::indent_of;
use super::variable::{MEMBER, refusal};
use super::{Editor, Refusal, Target, descend, splice, word};

impl Editor<'_, '_> {
    /// `int count[8][4];` as `struct { int value[4] __attribute__((aligned(64))); } count[8];`.
    pub(super) fn spread(&self, field: &str, bytes: u64) -> Result<String, Refusal> {
        let statement = &self.statements[self.movable(field)?];
        let made = || Refusal::MacroMade { field: field.into() };
        let (name, dims) =
            declarator(self.source, (statement.first, statement.last), field).ok_or_else(made)?;
        let tokens = &self.source.tokens;
        let text = |range: Range<usize>| self.text()[range].trim();
        let start = tokens[statement.first].start;
        let element = text(start..tokens[name].start);
        let (first, rest) = (text(dims[0].clone()), text(dims[0].end..dims[dims.len() - 1].end));
        let space = if element.ends_with('*') { "" } else { " " };
        let value = format!("{element}{space}{MEMBER}{rest}");
        let member = word::aligned(self.source, self.style, bytes, self.body.keyword, &value);
        let line = self.text()[..start].rfind('\n').map_or(0, |n| n + 1);
        let (indent, newline) = (indent_of(self.text(), start), self.newline());
        let around = match self.text()[line..start].trim().is_empty() {
            true => {
                let step = if indent.contains('\t') { "\t" } else { "    " };
                format!("struct {{{newline}{indent}{step}{member}{newline}{indent}}} {field}{first}")
            }
            false => format!("struct {{ {member} }} {field}{first}"),
        };
        Ok(splice(self.text(), &[(start..dims[dims.len() - 1].end, &around)]))
    }
}

/// Token of the name `field` in the statement and the bytes of each of its lengths; `None` where more follows them.
fn declarator(
    source: &Source<'_>,
    (first, last): (usize, usize),
    field: &str,
) -> Option<(usize, Vec<Range<usize>>)> {
    let name = (first..last).rev().find(|&i| source.at(i) == field)?;
    let mut dims = Vec::new();
    let mut at = source.code_from(name + 1);
    while source.at(at) == "[" {
        let end = source.group_end(at)?;
        dims.push(source.tokens[at].start..source.tokens[end - 1].end);
        at = source.code_from(end);
    }
    (!dims.is_empty() && at == last).then_some((name, dims))
}

/// The text with another name for the member: what used it does not compile any more. Lines stay.
///
/// # Errors
/// No statement that declares it.
pub fn renamed(text: &str, target: &Target<'_>, field: &str, new: &str) -> Result<String, Refusal> {
    let source = Source::new(text);
    let body = find(&source, target.name, target.decl_line)?;
    let (_, list) = descend(&source, body, &[field], 0)?;
    let line = target.members.iter().find(|m| m.0 == field).map(|m| m.1).filter(|l| *l > 0);
    let statement = &list[statement_of(&source, &list, field, line)?];
    if declared(&source, statement).macro_made {
        return Err(Refusal::MacroMade { field: field.into() });
    }
    let name = (statement.first..statement.last).rev().find(|&i| source.at(i) == field);
    let name = name.ok_or_else(|| Refusal::MacroMade { field: field.into() })?;
    Ok(splice(text, &[(source.tokens[name].start..source.tokens[name].end, new)]))
}

/// A place in a text where some object's member of that name is used: `x.name`, `x->name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte of the name.
    pub name: usize,
    /// First byte of the point or arrow before it.
    pub point: usize,
}

/// Every place of code in `text` where a member `field` is used, of whatever struct.
pub fn accesses(text: &str, field: &str) -> Vec<Access> {
    let source = Source::new(text);
    let code = Code::new(&source);
    let start = |j: usize| code.range(j).start;
    let at = |j: &usize| {
        let arrow = code.text(j.saturating_sub(1)) == ">";
        Access { name: start(*j), point: start(j.saturating_sub(1 + usize::from(arrow))) }
    };
    code.places(field).iter().filter(|j| is_access(&code, **j)).map(at).collect()
}

fn is_access(code: &Code<'_, '_>, j: usize) -> bool {
    let before = |n: usize| j.checked_sub(n).map_or("", |k| code.text(k));
    before(1) == "." || (before(1) == ">" && before(2) == "-")
}

/// The text after each of the uses in `own` (numbers among [`accesses`]) reaches into its element.
///
/// # Errors
/// A use that is no element: what gets the array may count on where its elements lie.
pub fn rewrite(path: &str, text: &str, field: &str, own: &BTreeSet<usize>) -> Result<String, Refusal> {
    let source = Source::new(text);
    let code = Code::new(&source);
    let places: Vec<usize> = code.places(field).iter().copied().filter(|&j| is_access(&code, j)).collect();
    let mut changes: Vec<usize> = Vec::new();
    for &place in own.iter().filter_map(|&n| places.get(n)) {
        changes.extend(one(path, &code, field, place)?.map(|close| code.range(close).end));
    }
    let value = format!(".{MEMBER}");
    let new: Vec<(Range<usize>, &str)> = changes.iter().map(|&at| (at..at, value.as_str())).collect();
    Ok(splice(text, &new))
}

/// Place of the `]` behind which the element's member goes; `None` where nothing changes.
fn one(path: &str, code: &Code<'_, '_>, field: &str, place: usize) -> Result<Option<usize>, Refusal> {
    let refuse = |why: String| Err(refusal(path, code, place, why));
    let Some(first) = first_of(code, place) else {
        // `{ .name = {1, 2} }`: braces may be left out in C.
        return Ok(None);
    };
    if code.text(place + 1) != "[" {
        return refuse(format!("{field} is used as a whole, by what may count on where its elements lie"));
    }
    let close = code.matching(place + 1, ["[", "]"], usize::MAX);
    let close = close.ok_or_else(|| refusal(path, code, place, "the brackets do not match"))?;
    let before = |n: usize| first.checked_sub(n).map_or("", |j| code.text(j));
    let words = ["sizeof", "typeof", "__typeof__", "_Alignof"];
    let opened = (1..4).find(|&n| before(n) != "(").unwrap_or(4);
    if words.contains(&before(opened)) {
        return refuse(format!("the size or the type of an element of {field} is asked for"));
    }
    if opened == 1 && before(1) == "&" && before(2) == "(" && super::variable::is_atomic(before(3)) {
        return Ok(Some(close));
    }
    if before(opened) == "&" && before(opened + 1) != "&" {
        return refuse(format!(
            "the address of an element of {field} is taken; what reads it may count on the element behind it"
        ));
    }
    Ok(Some(close))
}

/// First place of the expression whose member is named at `place`: of `a.b[i]` in `a.b[i]->name`; `None` where nothing
/// is before the point, as in initialisers.
fn first_of(code: &Code<'_, '_>, place: usize) -> Option<usize> {
    let point =
        |at: usize| match (code.text(at.checked_sub(1)?), at.checked_sub(2).map_or("", |j| code.text(j))) {
            (".", _) => Some(at - 1),
            (">", "-") => Some(at - 2),
            _ => None,
        };
    let mut at = point(place)?;
    loop {
        let mut last = at.checked_sub(1)?;
        while matches!(code.text(last), "]" | ")") {
            let open = code.opening(last)?;
            let called = open > 0 && (code.is_word(open - 1) || matches!(code.text(open - 1), "]" | ")"));
            let word = open.checked_sub(1).map_or("", |j| code.text(j));
            if !called || matches!(word, "return" | "sizeof" | "case" | "if" | "while" | "for" | "switch") {
                return Some(open);
            }
            last = open - 1;
        }
        if !code.is_word(last) {
            return None;
        }
        match point(last) {
            Some(before) => at = before,
            None => return Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Edit;

    fn patched(path: &str, text: &str, edit: &str) -> Result<String, Refusal> {
        let target = Target { name: "tally", decl_line: None, members: &[], pad_bytes: 0 };
        let edit: Edit = edit.parse().unwrap();
        super::super::patch(path, text, &target, &[edit]).map(|p| p.text)
    }

    #[test]
    fn an_element_becomes_a_struct() {
        let text = "struct tally {\n\tlong sum;\n\tint own[8][4]; /* by thread */\n};\n";
        let expect = "struct tally {\n\tlong sum;\n\tstruct {\n\t\tint value[4] __attribute__((aligned(64)));\n\t} \
                      own[8]; /* by thread */\n};\n";
        assert_eq!(patched("t.c", text, "element:own=64").unwrap(), expect);
        let text = "struct tally { const char *own[N]; };\n";
        let expect = "struct tally { struct { alignas(64) const char *value; } own[N]; };\n";
        assert_eq!(patched("t.cc", text, "element:own=64").unwrap(), expect);
        for text in ["struct tally { row own; };", "struct tally { void (*own[4])(void); };"] {
            assert!(patched("t.c", text, "element:own=64").is_err(), "{text}");
        }
    }

    #[test]
    fn uses_reach_into_the_element() {
        let all = |line: &str| {
            let text = format!("int f(struct tally *t) {{\n{line};\n}}\n");
            let own = (0..accesses(&text, "own").len()).collect();
            let new = rewrite("t.c", &text, "own", &own).map_err(|e| e.to_string())?;
            Ok(new.lines().nth(1).unwrap_or("").trim_end_matches(';').to_string())
        };
        let is = |line: &str, expect: &str| assert_eq!(all(line), Ok::<_, String>(expect.to_string()));
        is("t->own[i]++", "t->own[i].value++");
        is("x = (*t).own[t->own[0]]", "x = (*t).own[t->own[0].value].value");
        is("x = 2 + a[2].b->own[1][3]", "x = 2 + a[2].b->own[1].value[3]");
        is("return get(t)->own[1]", "return get(t)->own[1].value");
        is("__atomic_add_fetch(&t->own[i], 1, 0)", "__atomic_add_fetch(&t->own[i].value, 1, 0)");
        is("struct tally x = { .own = {1, 2} }", "struct tally x = { .own = {1, 2} }");
        is("a && t->own[1]", "a && t->own[1].value");
        let sizes = ["n = sizeof t->own[0]", "n = sizeof(t->own[0])"];
        for line in ["f(t->own)", "p = &t->own[1]", "g(&(t->own[1]))"].into_iter().chain(sizes) {
            let refused = all(line);
            assert!(refused.is_err(), "{line}: {refused:?}");
        }
    }

    #[test]
    fn another_name_keeps_the_lines() {
        let target = Target { name: "tally", decl_line: None, members: &[], pad_bytes: 0 };
        let text = "struct tally {\n\tint n[4], own[4];\n};\n";
        let expect = "struct tally {\n\tint n[4], other[4];\n};\n";
        assert_eq!(renamed(text, &target, "own", "other").unwrap(), expect);
    }
}
