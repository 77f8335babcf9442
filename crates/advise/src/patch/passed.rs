//! What the sources do with an object beyond the file that has it: functions elsewhere that are given its address as a
//! plain pointer, variables of it that other files see, functions that map files.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assembly::variable;
use super::body::Source;
use super::bytes::keeps;
use super::held::Held;
use super::kept::{self, Kept};
use super::objects::{Objects, is_scalar};
use super::scan::Code;
use super::told::Told;

/// Path and text of every source.
type Files<'f> = &'f [(&'f str, &'f str)];

/// Parameters of a function of which one may be given what stands beside it in a list.
const LISTED_PARAMETERS: usize = 3;

/// Functions and variables of a project that have to do with objects of one type.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Functions defined in another file than the call's, and the parameter that is given an object's address.
    void: BTreeSet<(String, usize)>,
    /// Functions that are passed beside an object's address.
    beside: BTreeSet<String>,
    /// As `void`, where the caller declares no parameters: `int f();`.
    bare: BTreeSet<(String, usize)>,
    /// Where the sources keep an object's address as a plain pointer.
    pub(super) kept: Kept,
    /// Variables of the type that other files may declare.
    pub(super) variables: BTreeSet<String>,
    /// Functions that return mapped memory of a file.
    pub(super) maps: BTreeSet<String>,
    /// What functions do with addresses, whatever the type.
    pub(super) told: Arc<Told>,
}

impl Passed {
    /// Of the type called `names`.
    pub(super) fn of(names: &[String], held: &Held, files: Files<'_>) -> Passed {
        let mut out = Passed { told: Arc::new(Told::of(files)), ..Passed::default() };
        let mentions = |t: &str| names.iter().chain(&held.names).any(|n| t.contains(n.as_str()));
        for (_, text) in files.iter().filter(|f| mentions(f.1)) {
            let source = Source::new(text);
            let objects = Objects::new(&source, names, held);
            out.calls(&objects);
            out.listed(&objects);
            let shared = |&i: &usize| variable(&objects, i).is_some() && !objects.code.is_declared_static(i);
            let shared = (0..objects.code.len()).filter(shared);
            out.variables.extend(shared.map(|i| objects.text(i).to_string()));
        }
        out.kept = Kept::of(&(names, held), files);
        for (_, text) in files.iter().filter(|f| f.1.contains("mmap") || f.1.contains("shmat")) {
            let source = Source::new(text);
            let code = Code::new(&source);
            out.maps.extend(mapping(&code).map(str::to_string));
            out.kept.maps(&code);
        }
        let mapped: Vec<String> = files.iter().flat_map(|f| out.kept.mapping_methods(f.1)).collect();
        out.maps.extend(mapped);
        out
    }

    /// Functions that are listed in braces beside an object's address.
    fn listed(&mut self, objects: &Objects<'_, '_>) {
        let code = &objects.code;
        for open in (1..code.len()).filter(|&i| code.text(i) == "{" && objects.is_listed_with_object(i)) {
            let close = code.matching(open, ["{", "}"], 200).unwrap_or(open);
            let alone = |j: &usize| {
                let value = matches!(code.text(j - 1), "=" | "," | "{" | "&");
                value && code.is_word(*j) && matches!(code.text(j + 1), "," | "}")
            };
            let functions = (open + 1..close).filter(alone).filter(|&j| !objects.is_object(j));
            let names: Vec<String> = functions.map(|j| code.text(j).to_string()).collect();
            self.void
                .extend(names.into_iter().flat_map(|n| (0..LISTED_PARAMETERS).map(move |k| (n.clone(), k))));
        }
    }

    fn calls(&mut self, objects: &Objects<'_, '_>) {
        let code = &objects.code;
        let called = |i: &usize| code.is_word(*i) && code.text(i + 1) == "(" && !is_member(code, *i);
        for i in (1..code.len()).filter(called) {
            for (n, argument) in objects.arguments(i + 1).into_iter().enumerate() {
                if objects.address(argument.0).is_none_or(|end| end != argument.1) {
                    continue;
                }
                let name = code.text(i);
                let alone =
                    |a: &(usize, usize)| a.1 == a.0 + 1 && code.is_word(a.0) && !objects.is_object(a.0);
                let beside = objects.arguments(i + 1).into_iter().filter(alone);
                self.beside.extend(beside.map(|a| code.text(a.0).to_string()));
                if keeps(name) {
                    continue;
                }
                if !code.places(name).iter().any(|&j| is_definition(code, j)) {
                    self.void.insert((name.into(), n));
                }
                if code.places(name).iter().any(|&j| is_unprototyped(code, j)) {
                    self.bare.insert((name.into(), n));
                }
            }
        }
    }

    /// The function is passed beside an object's address.
    pub(super) fn is_beside(&self, function: &str) -> bool {
        self.beside.contains(function)
    }

    /// A variable of the type is found by its name, as a string.
    fn is_looked_up(&self, text: &str) -> bool {
        text.contains("dlsym") && self.variables.iter().any(|v| text.contains(&format!("\"{v}\"")))
    }

    /// The function defined at `i` is given objects in its parameter `index` by another file, as a `void *`.
    pub(super) fn is_given(&self, name: &str, index: usize) -> bool {
        self.void.contains(&(name.to_string(), index))
    }

    /// The file has a function or a declaration that counts, though it may not name the type.
    pub(super) fn concerns(&self, text: &str) -> bool {
        let declares = || self.variables.iter().any(|v| text.contains(v.as_str()));
        if text.contains("extern") && declares() {
            return true;
        }
        if self.kept.concerns(text) || self.is_looked_up(text) {
            return true;
        }
        if (self.void.is_empty() && self.beside.is_empty()) || !text.contains('{') {
            return false;
        }
        let source = Source::new(text);
        let code = Code::new(&source);
        let named = |n: &str| !code.places(n).is_empty();
        let beside = || self.beside.iter().any(|n| code.places(n).iter().any(|&j| is_definition(&code, j)));
        self.void.iter().chain(&self.bare).any(|(n, _)| named(n)) || beside()
    }

    /// The plain type of the parameter that the function defined at `i` sees an object as, though no declaration says
    /// so: `int norm(int *v)`, called as `norm(&x)` where `int norm();` stands.
    pub(super) fn unprototyped<'a>(
        &self,
        code: &Code<'_, 'a>,
        i: usize,
    ) -> Option<(&'a str, &'a str, usize)> {
        if self.bare.is_empty() || !is_definition(code, i) {
            return None;
        }
        let name = code.text(i);
        let parameters = code.arguments(i + 1);
        let given = self.bare.iter().filter(|b| b.0 == name);
        given.filter_map(|b| parameters.get(b.1)).find_map(|&(from, to)| {
            let star = (from..to).filter(|&j| code.text(j) == "*").count() == 1;
            let word = (from..to).find(|&j| is_scalar(code.text(j)))?;
            star.then(|| (code.text(word), code.text(to.wrapping_sub(1)), code.closing(i + 1).unwrap_or(i)))
        })
    }
}

fn is_member(code: &Code<'_, '_>, i: usize) -> bool {
    matches!(code.text(i.wrapping_sub(1)), "." | ">")
}

fn is_definition(code: &Code<'_, '_>, i: usize) -> bool {
    let close = (code.text(i + 1) == "(").then(|| code.closing(i + 1)).flatten();
    close.is_some_and(|c| code.text(c + 1) == "{")
        && i > 0
        && (code.is_word(i - 1) || code.text(i.wrapping_sub(1)) == "*")
}

/// `int f();`
fn is_unprototyped(code: &Code<'_, '_>, i: usize) -> bool {
    let empty = (code.text(i + 1), code.text(i + 2), code.text(i + 3)) == ("(", ")", ";");
    empty && code.is_typed(i) && !code.is_cpp()
}

/// Names of functions that return a pointer to no type, and map a file.
fn mapping<'a>(code: &Code<'_, 'a>) -> impl Iterator<Item = &'a str> {
    kept::file_mappings(code).filter_map(|i| code.void_function(i))
}
