//! Which type a `sizeof` measures, as far as the sources show it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::patch::body::{Source, bodies};
use crate::patch::scan::Code;

/// Name of a type, and how often what is declared with it is dereferenced to get it.
type Of = (String, usize);

/// Members of all structs of a project, and other names of types.
#[derive(Debug, Default)]
pub(super) struct Types {
    members: BTreeMap<String, BTreeMap<String, Of>>,
    aliases: BTreeMap<String, String>,
}

impl Types {
    /// Reads all definitions.
    pub(super) fn of(files: &[(&str, &str)]) -> Types {
        let mut out = Types::default();
        for (_, text) in files.iter().filter(|f| f.1.contains("struct") || f.1.contains("class")) {
            let source = Source::new(text);
            let code = Code::new(&source);
            out.read_aliases(&code);
            for body in bodies(&source) {
                let (from, to) = (code.place_of(body.open), code.place_of(body.close));
                let members = members(&code, from..to);
                let typedefs = body.aliases.iter().filter(|_| body.typedef);
                for name in body.tag.iter().chain(typedefs) {
                    let known = out.members.entry(name.clone()).or_default();
                    known.extend(members.iter().map(|(n, of)| (n.clone(), of.clone())));
                }
                if let (Some(tag), true) = (&body.tag, body.typedef) {
                    out.aliases.extend(body.aliases.iter().map(|a| (a.clone(), tag.clone())));
                }
            }
        }
        out
    }

    /// `typedef struct foo foo_t;`
    fn read_aliases(&mut self, code: &Code<'_, '_>) {
        for i in (0..code.len()).filter(|&i| code.text(i) == "typedef") {
            let tagged = matches!(code.text(i + 1), "struct" | "class" | "union");
            let at = i + 1 + usize::from(tagged);
            if code.is_word(at) && code.is_word(at + 1) && code.text(at + 2) == ";" {
                self.aliases.insert(code.text(at + 1).into(), code.text(at).into());
            }
        }
    }

    /// Name of the type that the `sizeof` at `i` measures; `None` where that cannot be told.
    pub(super) fn measured(&self, code: &Code<'_, '_>, i: usize) -> Option<String> {
        let operand = operand(code, i)?;
        let inside = match code.text(operand.start) {
            "(" => operand.start + 1..operand.end - 1,
            _ => operand,
        };
        let mut at = inside.start;
        let stars = (at..inside.end).take_while(|&j| code.text(j) == "*").count();
        at += stars;
        let mut tagged = false;
        while matches!(code.text(at), "struct" | "class" | "union" | "const" | "volatile") {
            tagged |= code.text(at) != "const" && code.text(at) != "volatile";
            at += 1;
        }
        let first = code.text(at);
        let variable = (!tagged).then(|| code.variable(first, i)).flatten();
        let Some(variable) = variable else {
            let whole = code.is_word(at) && at + 1 == inside.end && stars == 0;
            return (whole && (tagged || self.is_type(first))).then(|| first.into());
        };
        let mut of = (code.text(variable.ty).to_string(), variable.depth);
        at += 1;
        let mut taken = 0;
        while at < inside.end {
            match (code.text(at), code.text(at + 1)) {
                ("[", _) => {
                    taken += 1;
                    at = (at..inside.end).find(|&j| code.text(j) == "]")? + 1;
                }
                (".", _) => (of, taken, at) = (self.member(&of.0, code.text(at + 1))?, 0, at + 2),
                ("-", ">") => (of, taken, at) = (self.member(&of.0, code.text(at + 2))?, 0, at + 3),
                _ => return None,
            }
        }
        (of.1 == stars + taken).then_some(of.0)
    }

    fn is_type(&self, name: &str) -> bool {
        self.members.contains_key(name) || self.aliases.contains_key(name)
    }

    /// A member of a type; where the type is unknown, the one meaning that all members of that name have.
    fn member(&self, ty: &str, name: &str) -> Option<Of> {
        let members = self.members.get(ty).or_else(|| self.members.get(self.aliases.get(ty)?));
        if let Some(members) = members {
            return members.get(name).cloned();
        }
        let all: BTreeSet<&Of> = self.members.values().filter_map(|m| m.get(name)).collect();
        (all.len() == 1).then(|| all.first().map(|of| (*of).clone())).flatten()
    }
}

/// Declarations of one body.
fn members(code: &Code<'_, '_>, body: Range<usize>) -> Vec<(String, Of)> {
    let one = |j: usize| {
        let declared = code.is_word(j).then(|| code.declaration(j)).flatten()?;
        Some((code.text(j).to_string(), (code.text(declared.ty).to_string(), declared.depth)))
    };
    body.filter_map(one).collect()
}

/// Places of what the `sizeof` at `i` measures, with its parentheses: first, and one past the last.
pub(super) fn operand(code: &Code<'_, '_>, i: usize) -> Option<Range<usize>> {
    let from = i + 1;
    if code.text(from) == "(" {
        return Some(from..code.closing(from)? + 1);
    }
    let mut at = from;
    while code.text(at) == "*" {
        at += 1;
    }
    if !code.is_word(at) {
        return None;
    }
    at += 1;
    loop {
        match (code.text(at), code.text(at + 1)) {
            ("[", _) => at = (at..code.len()).find(|&j| code.text(j) == "]")? + 1,
            (".", _) => at += 2,
            ("-", ">") => at += 3,
            _ => return Some(from..at),
        }
    }
}
