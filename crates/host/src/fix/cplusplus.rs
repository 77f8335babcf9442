//! Whether another order of members keeps a C++ program's meaning, as clang's front end sees every unit that uses the
//! class.
//!
//! Three questions, in copies of the sources: do initialisers, constructors and destructors of members depend on the
//! order (from the syntax tree); does anything use members by position (aggregates, structured bindings: the class
//! gets a private member, and what no longer compiles counts); is a comparison defaulted. Without an answer there is
//! no patch.

mod ast;
mod traits;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tussle_advise::patch::body::{Source, bare_name, find};

use super::calls::Call;

/// The private member that makes positional uses fail.
const PROBE: &str = "tussle_probe_";

/// What is asked.
pub(super) struct ClassQuestion<'a> {
    /// The class, with its namespaces, as the debug information names it.
    pub(super) class: &'a str,
    /// The file that defines it, in the copy.
    pub(super) file: &'a Path,
    /// Its text.
    pub(super) text: &'a str,
    /// Line of its definition, if known.
    pub(super) decl_line: Option<u32>,
    /// Members in today's order.
    pub(super) before: &'a [String],
    /// Members in the order to come.
    pub(super) after: &'a [String],
}

/// Why the order must stay.
pub(super) type Reason = String;

impl ClassQuestion<'_> {
    /// Asks clang about every call; the file is as it was when this returns.
    pub(super) fn ask(&self, calls: &[Call]) -> Result<(), Reason> {
        let clang = crate::cc::search("clang++".as_ref()).ok_or(
            "members of a C++ class are reordered only with clang++ in PATH, whose syntax tree tells what depends on \
             their order; alignment and padding need none",
        )?;
        if calls.is_empty() {
            return Err(format!(
                "no compilation of a unit that sees {} is known, so that what depends on the order of its members \
                 cannot be told; give --compdb",
                self.class
            ));
        }
        self.positions(&clang, calls)?;
        self.initialisers(&clang, calls)
    }

    /// Members whose order of construction and destruction shows.
    fn initialisers(&self, clang: &PathBuf, calls: &[Call]) -> Result<(), Reason> {
        let mut seen = false;
        for some in super::by_turns(calls) {
            for found in super::parallel(some, |call| self.in_unit(clang, call)) {
                seen |= found?;
            }
        }
        if seen {
            return Ok(());
        }
        Err(format!("clang++ finds no class {} with these members in the units that see it", self.class))
    }

    /// Whether the unit has the class; the error is the reason against the new order.
    fn in_unit(&self, clang: &Path, call: &Call) -> Result<bool, Reason> {
        let Some(file) = call.file() else { return Ok(false) };
        let shown = call.source().unwrap_or("").to_string();
        let unread = |what: &str| format!("clang++ cannot tell what depends on the order in {shown}: {what}");
        let filter = format!("-ast-dump-filter={}", bare_name(self.class));
        let extra = ["-Xclang", "-ast-dump=json", "-Xclang", &filter];
        let out = call.clang(clang, &file, &extra).map_err(|e| unread(&e.to_string()))?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stderr);
            return Err(unread(text.lines().find(|l| l.contains("error")).unwrap_or("it fails")));
        }
        let class = ast::Class::read(&out.stdout, bare_name(self.class), self.before);
        // The unit includes the file and skips the class by a condition.
        let Some(class) = class.map_err(|e| unread(&e))? else { return Ok(false) };
        // What members are made of matters only where their order shows.
        let check = |inert: BTreeSet<String>| {
            class.check(self.before, self.after, &inert).map(|()| true).map_err(|reason| self.placed(&reason))
        };
        check(BTreeSet::new()).or_else(|_| check(traits::inert(clang, call, self.class, self.before)))
    }

    /// The reason behind the place of the class.
    fn placed(&self, reason: &str) -> Reason {
        let file = self.file.file_name().map(|f| f.to_string_lossy()).unwrap_or_default();
        match self.decl_line {
            Some(line) => format!("{file}:{line}: {reason}"),
            None => format!("{file}: {reason}"),
        }
    }

    /// Uses of members by position, found by the errors that a private member makes.
    fn positions(&self, clang: &PathBuf, calls: &[Call]) -> Result<(), Reason> {
        let probed = probed(self.text, self.class, self.decl_line)?;
        let write =
            |text: &str| std::fs::write(self.file, text).map_err(|e| format!("{}: {e}", self.file.display()));
        let own = |call: &Call, e: &(String, String)| own_error(call).is_none_or(|o| o.1 != e.1);
        for some in super::by_turns(calls) {
            write(&probed)?;
            let found = super::parallel(some, |call| {
                let out = call.clang(clang, &call.file()?, &[]).ok()?;
                first_error(&String::from_utf8_lossy(&out.stderr)).or_else(|| own_error(call))
            });
            write(self.text)?;
            let found = some.iter().zip(found).find_map(|(c, e)| e.filter(|e| own(c, e)));
            if let Some((place, text)) = found {
                let class = self.class;
                return Err(format!(
                    "{place} uses members of {class} by position, or counts on their order (clang's words, had it one \
                     member more: {text})"
                ));
            }
        }
        Ok(())
    }
}

/// The first error of the program's own compiler, which may be in another branch of an `#if` than clang.
fn own_error(call: &Call) -> Option<(String, String)> {
    let out = call.front_end(&["-w"]).ok()?;
    first_error(&String::from_utf8_lossy(&out.stderr))
}

/// The text with a private member at the front of the class. Its line numbers stay.
fn probed(text: &str, class: &str, decl_line: Option<u32>) -> Result<String, Reason> {
    let source = Source::new(text);
    let body = find(&source, class, decl_line).map_err(|e| e.to_string())?;
    let back = if source.at(body.keyword) == "class" { "private" } else { "public" };
    let open = source.tokens.get(body.open).map_or(text.len(), |t| t.end);
    // Constructors that are `constexpr` leave no member without a value; a class without them may have to be trivial.
    let constant = (body.open..body.close).any(|i| ["constexpr", "consteval"].contains(&source.at(i)));
    let value = if constant { " = 0" } else { "" };
    Ok(format!("{} private: char {PROBE}{value}; {back}: {}", &text[..open], &text[open..]))
}

/// Place and text of the first error that is not an assertion about sizes.
fn first_error(stderr: &str) -> Option<(String, String)> {
    let mut errors =
        stderr.lines().filter_map(|l| l.split_once(": error: ").or_else(|| l.split_once(": fatal error: ")));
    let (place, text) =
        errors.find(|(_, t)| !t.contains("static_assert") && !t.contains("static assertion"))?;
    let mut parts = place.rsplitn(2, ':');
    let place = parts.nth(1).unwrap_or(place);
    Some((place.rsplit('/').next().unwrap_or(place).to_string(), text.to_string()))
}
