//! What the sources show of a type that another layout would change. Every file is cut into tokens once, whatever is
//! asked of it.

use super::boundary::{self, Asserted};
use super::bytes;
use super::generic::{self, Curious};
use super::held::Held;
use super::init;
use super::names::Names;
use super::neighbours::Order;
use super::objects::Objects;
use super::overlay::Overlay;
use super::passed::Passed;
use super::size;
use super::strides;
use super::{Refusal, body::Source};
use crate::edit::Edit;

/// What is asked of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Initialisers by position.
    pub positions: bool,
    /// Uses that see the layout, whatever changes in it.
    pub layout: bool,
    /// Uses of its size.
    pub size: bool,
}

impl Ask {
    /// Initialisers alone.
    pub const POSITIONS: Ask = Ask { positions: true, layout: false, size: false };
    /// All but initialisers.
    pub const LAYOUT: Ask = Ask { positions: false, layout: true, size: true };
    /// What counts when the type gets another size.
    pub const SIZE: Ask = Ask { positions: false, layout: false, size: true };
}

/// File and line of a line of the text.
type At<'p> = &'p dyn Fn(u32) -> (String, u32);

/// The first refusal of every kind in one file.
pub type Found = [Option<Refusal>; 6];

/// What a text must mention to be of interest.
#[derive(Debug)]
struct Searches {
    /// Names of the type.
    own: Names,
    /// Of the structs around it.
    outer: Names,
    /// Of members that are declared with it.
    members: Names,
}

/// A type, and what must be known of a project to judge one of its files.
#[derive(Debug)]
pub struct Uses<'f> {
    name: &'f str,
    names: Vec<String>,
    held: Held,
    /// Structs that hold it by value, and their own holders.
    outer: Vec<String>,
    outer_held: Held,
    /// The type and its holders: a part of a holder's bytes may have its size.
    all: Vec<String>,
    all_held: Held,
    search: Searches,
    curious: Vec<Curious>,
    order: Option<Order<'f>>,
    /// Objects become whole cache lines.
    whole: bool,
    /// Neighbours in an array part.
    parts: bool,
    /// Its alignment may change.
    aligns: bool,
    files: &'f [(&'f str, &'f str)],
}

impl<'f> Uses<'f> {
    /// Of the type `name` in `files` (path and text). With `edits`, whoever counts on the present order is looked for,
    /// too.
    pub fn new(name: &'f str, edits: Option<&'f [Edit]>, files: &'f [(&'f str, &'f str)]) -> Uses<'f> {
        let names = init::names_of(name, files);
        let mut held = Held::of(&names, files);
        held.passed = Passed::of(&names, &held, files);
        let displaced = edits.filter(|edits| edits.iter().any(|e| e.displaces() || e.parts_elements()));
        let parts = edits.is_some_and(|edits| edits.iter().any(Edit::parts_elements));
        let order = displaced.map(|edits| Order::new(name, edits, files));
        let whole = edits.is_some_and(|edits| edits.iter().all(|e| matches!(e, Edit::Element { .. })));
        let pads = |e: &Edit| matches!(e, Edit::Pad { .. } | Edit::Move { .. } | Edit::Swap { .. });
        let aligns = edits.is_none_or(|edits| !edits.iter().all(pads));
        let outer = held.holders(files);
        let outer_held = Held::of(&outer, files);
        let mut all: Vec<String> = outer.iter().chain(&names).cloned().collect();
        all.sort_unstable();
        all.dedup();
        let mut all_held = if outer.is_empty() { Held::default() } else { Held::of(&all, files) };
        all_held.passed.told = held.passed.told.clone();
        let curious = generic::curious(files);
        let search =
            Searches { own: Names::new(&names), outer: Names::new(&outer), members: Names::new(&held.names) };
        Uses {
            name,
            outer,
            outer_held,
            all,
            all_held,
            held,
            search,
            curious,
            order,
            whole,
            parts,
            aligns,
            files,
            names,
        }
    }

    /// The first refusals in one of the files.
    pub fn of_file(&self, path: &str, text: &str, ask: Ask) -> Found {
        self.of_text(text, ask, &|line| (path.to_string(), line))
    }

    /// The same of a text whose lines are told as others: file and line.
    pub fn of_text(&self, text: &str, ask: Ask, place: At<'_>) -> Found {
        let named = self.search.own.are_in(text);
        let around = self.search.outer.are_in(text);
        let held = || self.search.members.are_in(text);
        if !named && !around && !held() && !self.held.passed.concerns(text) {
            return Found::default();
        }
        let source = Source::new(text);
        let name = self.name;
        let mut found = Found::default();
        if ask.positions && named {
            found[0] = init::in_file(&source, &self.names, self.files).map(|line| {
                let (file, line) = place(line);
                Refusal::PositionalInitialiser { name: name.into(), file, line }
            });
        }
        if !ask.layout && !ask.size {
            return found;
        }
        let objects = Objects::new(&source, &self.names, &self.held);
        self.layout_uses(&objects, ask, place, &mut found);
        if around {
            // The bytes of what is around it are its bytes, too.
            let outer = Objects::new(&source, &self.outer, &self.outer_held);
            self.outer_uses(&outer, ask, place, &mut found);
            let all = Objects::new(&source, &self.all, &self.all_held);
            let how = |how: String| format!("{how}, as part of a struct that holds it");
            let bytes =
                || bytes::in_file(&all, self.files).map(|(i, h)| self.seen(all.code.line(i), how(h), place));
            found[2] = found[2].take().or_else(|| ask.layout.then(bytes)?);
        }
        found
    }

    fn layout_uses(&self, objects: &Objects<'_, '_>, ask: Ask, place: At<'_>, found: &mut Found) {
        let seen = |(i, how)| self.seen(objects.code.line(i), how, place);
        if ask.size {
            let generic = || generic::in_file(objects, &self.curious, true);
            let strides = || self.parts.then(|| strides::in_file(objects, self.files)).flatten();
            let sized = size::in_file(objects, self.files, self.whole, self.aligns);
            found[5] = sized.or_else(generic).or_else(strides).map(seen);
        }
        if !ask.layout {
            return;
        }
        let left = boundary::in_file(objects, Asserted::All);
        found[1] = left.map(|(line, how)| self.left(line, how, place));
        found[2] = bytes::in_file(objects, self.files).map(seen);
        let braced = || (0..objects.code.len()).find_map(|i| Some((i, generic::braced(objects, i)?)));
        found[3] = generic::in_file(objects, &self.curious, false).or_else(braced).map(seen);
        found[4] = self.order.as_ref().and_then(|order| order.in_file(objects)).map(seen);
    }

    fn outer_uses(&self, outer: &Objects<'_, '_>, ask: Ask, place: At<'_>, found: &mut Found) {
        let how = |how: String| format!("{how}, as part of a struct that holds it");
        let seen = |(i, seen): (usize, String)| self.seen(outer.code.line(i), how(seen), place);
        if ask.size && found[5].is_none() {
            let behind = || size::offset_behind(outer, &self.names, self.files);
            found[5] = size::in_file(outer, self.files, self.whole, self.aligns).or_else(behind).map(seen);
        }
        if !ask.layout {
            return;
        }
        if found[1].is_none() {
            // Its size and its own members' offsets change only where the type gets another size.
            let asserted = if ask.size { Asserted::All } else { Asserted::Inside };
            let left = boundary::in_file(outer, asserted);
            found[1] = left.map(|(line, left)| self.left(line, how(left), place));
        }
        if found[4].is_none() && self.order.is_some() {
            let over = Overlay { objects: outer, members: &[], files: self.files };
            found[4] = over.around().map(|(i, how)| self.seen(outer.code.line(i), how, place));
        }
    }

    fn seen(&self, line: u32, how: String, place: At<'_>) -> Refusal {
        let (file, line) = place(line);
        Refusal::SeesLayout { name: self.name.into(), place: format!("{file}:{line}"), how }
    }

    fn left(&self, line: u32, how: String, place: At<'_>) -> Refusal {
        let (file, line) = place(line);
        Refusal::LeavesProcess { name: self.name.into(), place: format!("{file}:{line}"), how }
    }

    /// Refuses with the first of what was found in the files; kinds go before files.
    pub fn judge(found: Vec<Found>) -> Result<(), Refusal> {
        let mut first = Found::default();
        for file in found {
            for (kept, new) in first.iter_mut().zip(file) {
                *kept = kept.take().or(new);
            }
        }
        first.into_iter().flatten().next().map_or(Ok(()), Err)
    }
}

/// Asks every one of `files` (path and text), one after the other.
pub fn check(name: &str, edits: Option<&[Edit]>, ask: Ask, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let uses = Uses::new(name, edits, files);
    Uses::judge(files.iter().map(|f| uses.of_file(f.0, f.1, ask)).collect())
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod kernel_tests;

#[cfg(test)]
#[path = "escapes_tests.rs"]
mod escapes_tests;
