//! What a Rust program makes of the order of fields, where `repr(C)` keeps it: derives that go through them, and the
//! order in which they are dropped.

use std::collections::BTreeSet;

use super::item::{Item, Source, find};
use super::{bare, refused};
use crate::edit::{Edit, Spot};
use crate::patch::Refusal;

/// Derives whose result has the order of the fields in it.
const ORDERED: [&str; 9] =
    ["PartialOrd", "Ord", "Hash", "Serialize", "Deserialize", "Encode", "Decode", "Archive", "Writable"];

/// Types whose destruction nobody sees, if nobody sees that of what they hold.
const QUIET: [&str; 66] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "bool",
    "char",
    "str",
    "String",
    "CString",
    "OsString",
    "PathBuf",
    "Vec",
    "VecDeque",
    "HashMap",
    "HashSet",
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
    "Box",
    "Rc",
    "Arc",
    "Weak",
    "Option",
    "Result",
    "Cell",
    "RefCell",
    "UnsafeCell",
    "OnceCell",
    "OnceLock",
    "Mutex",
    "RwLock",
    "Condvar",
    "Once",
    "AtomicBool",
    "AtomicU8",
    "AtomicU16",
    "AtomicU32",
    "AtomicU64",
    "AtomicUsize",
    "AtomicI8",
    "AtomicI16",
    "AtomicI32",
    "AtomicI64",
    "AtomicIsize",
    "AtomicPtr",
    "PhantomData",
    "MaybeUninit",
    "ManuallyDrop",
    "NonNull",
    "Wrapping",
    "NonZero",
    "Duration",
    "Instant",
    "SystemTime",
    "ThreadId",
    "CachePadded",
];

/// A trait that goes through the fields in their order, and calls what their types have of it.
struct Shown {
    name: &'static str,
    /// The derive that makes it so; destruction needs none.
    derive: &'static str,
    how: &'static str,
}

const SHOWN: [Shown; 4] = [
    Shown { name: "Drop", derive: "", how: "dropped" },
    Shown { name: "Default", derive: "Default", how: "made by a derived Default" },
    Shown { name: "Clone", derive: "Clone", how: "copied by a derived Clone" },
    Shown { name: "PartialEq", derive: "PartialEq", how: "compared by a derived PartialEq" },
];

/// How deep fields of fields are looked into.
const DEPTH_MAX: usize = 6;

/// Refuses when `edits` change an order of the fields of `name` that shows.
///
/// # Errors
/// What shows it, with its place.
pub fn check(name: &str, edits: &[Edit], files: &[(&str, &str)]) -> Result<(), Refusal> {
    let name = bare(name);
    let moved: BTreeSet<&str> = edits.iter().flat_map(moves).collect();
    let texts = files.iter().filter(|f| f.1.contains(name));
    for (path, text) in texts.filter(|_| !moved.is_empty()) {
        let s = Source::new(text);
        let Ok(item) = find(&s, name, None) else { continue };
        let derives = item.words(&s, "derive");
        if let Some((_, d)) = derives.iter().find(|d| ORDERED.contains(&d.1)) {
            return Err(refused(
                name,
                &format!("{path}: {d} is derived and goes through its fields in their order"),
            ));
        }
        if derives.iter().any(|d| d.1 == "Debug")
            && let Some((file, line)) = printed(files)
        {
            let why =
                format!("{file}:{line}: {{:?}} may print its fields in their order, as Debug is derived");
            return Err(refused(name, &why));
        }
        for shown in SHOWN.iter().filter(|w| w.derive.is_empty() || derives.iter().any(|d| d.1 == w.derive)) {
            if let Some((first, other)) = parted(&s, &item, edits, files, shown.name) {
                let how = shown.how;
                let why = format!(
                    "{path}: {first} and {other} are {how} in their order, and what that does may show"
                );
                return Err(refused(name, &why));
            }
        }
    }
    Ok(())
}

/// The fields that an edit brings elsewhere.
fn moves(edit: &Edit) -> Vec<&str> {
    match edit {
        Edit::Move { field, .. } | Edit::Place { field, .. } => vec![field],
        Edit::Swap { a, b } => vec![a, b],
        _ => Vec::new(),
    }
}

/// File and line of the first place that prints by `Debug`.
fn printed<'f>(files: &[(&'f str, &str)]) -> Option<(&'f str, usize)> {
    let prints =
        |l: &str| [":?}", ":#?}", "dbg!"].iter().any(|w| l.contains(w)) && !l.trim_start().starts_with("//");
    files.iter().find_map(|(path, text)| Some((*path, text.lines().position(prints)? + 1)))
}

/// Two fields that change their order, and whose types do something of their own by the trait.
fn parted(
    s: &Source<'_>,
    item: &Item,
    edits: &[Edit],
    files: &[(&str, &str)],
    of_trait: &'static str,
) -> Option<(String, String)> {
    let mut drops = Drops { files, of_trait, known: Vec::new() };
    let fields: Vec<&str> = item.fields.iter().map(|f| f.name.as_str()).collect();
    let loud: Vec<&str> =
        item.fields.iter().filter(|f| drops.shows(s, f.ty, 0)).map(|f| f.name.as_str()).collect();
    let then: Vec<&str> = after(&fields, edits).into_iter().filter(|f| loud.contains(f)).collect();
    let at = loud.iter().zip(&then).position(|(a, b)| a != b)?;
    Some((loud[at].to_string(), then[at].to_string()))
}

/// The fields in the order to come.
fn after<'f>(fields: &[&'f str], edits: &[Edit]) -> Vec<&'f str> {
    let mut out = fields.to_vec();
    for edit in edits {
        let at = |f: &str| out.iter().position(|o| *o == f);
        match edit {
            Edit::Swap { a, b } => {
                if let (Some(a), Some(b)) = (at(a), at(b)) {
                    out.swap(a, b);
                }
            }
            Edit::Move { field, to } => {
                let Some(from) = at(field) else { continue };
                let name = out.remove(from);
                let at = |f: &str| out.iter().position(|o| *o == f);
                let place = match to {
                    Spot::First => Some(0),
                    Spot::Before(o) => at(o),
                    Spot::After(o) => at(o).map(|p| p + 1),
                };
                out.insert(place.unwrap_or(from), name);
            }
            // Where it comes from there is not known here.
            Edit::Place { .. } => out.reverse(),
            _ => {}
        }
    }
    out
}

/// Whose destruction shows, or what another trait does.
struct Drops<'f> {
    files: &'f [(&'f str, &'f str)],
    of_trait: &'static str,
    /// What was found of the project's own types.
    known: Vec<(String, bool)>,
}

impl Drops<'_> {
    /// A value of the type in the tokens does something when it is dropped that others may see.
    fn shows(&mut self, s: &Source<'_>, (from, to): (usize, usize), depth: usize) -> bool {
        // References and pointers drop nothing.
        if matches!(s.at(from), "&" | "*") || s.at(from) == "fn" {
            return false;
        }
        let last = |i: usize| s.is_ident(i) && (s.at(i + 1), s.at(i + 2)) != (":", ":");
        let words: Vec<usize> = (from..to).filter(|&i| last(i)).collect();
        words.into_iter().any(|i| {
            let word = s.at(i);
            let constant = s.at(i - 1) == ";" || word.len() > 1 && !word.contains(|c: char| c.is_lowercase());
            let quiet = QUIET.contains(&word) || constant || matches!(word, "const" | "mut");
            !quiet && self.of_own(word, depth)
        })
    }

    /// The same of a type by its name: one that no source defines may do anything.
    fn of_own(&mut self, name: &str, depth: usize) -> bool {
        if let Some((_, shows)) = self.known.iter().find(|k| k.0 == name) {
            return *shows;
        }
        let shows =
            depth >= DEPTH_MAX || self.is_dropped(name) || self.by_fields(name, depth).unwrap_or(true);
        self.known.push((name.into(), shows));
        shows
    }

    /// `impl Drop for name`.
    fn is_dropped(&self, name: &str) -> bool {
        let implemented = format!("{} for", self.of_trait);
        self.files.iter().filter(|f| f.1.contains(&implemented)).any(|f| {
            let s = Source::new(f.1);
            (2..s.tokens.len()).any(|i| (s.at(i - 2), s.at(i - 1), s.at(i)) == (self.of_trait, "for", name))
        })
    }

    fn by_fields(&mut self, name: &str, depth: usize) -> Option<bool> {
        self.files.iter().filter(|f| f.1.contains(name)).find_map(|f| {
            let s = Source::new(f.1);
            let Ok(item) = find(&s, name, None) else { return self.by_tuple(&s, name, depth) };
            Some(item.fields.iter().any(|field| self.shows(&s, field.ty, depth + 1)))
        })
    }
}

impl Drops<'_> {
    /// The same of `struct Id(u32);`, `struct Id;` and `enum Id { A, B }`.
    fn by_tuple(&mut self, s: &Source<'_>, name: &str, depth: usize) -> Option<bool> {
        if let Some(at) = (1..s.tokens.len()).find(|&i| (s.at(i - 1), s.at(i)) == ("enum", name)) {
            let close = s.closing(at + 1).filter(|_| s.at(at + 1) == "{")?;
            return (!(at + 2..close).any(|j| matches!(s.at(j), "(" | "{"))).then_some(false);
        }
        let at = (1..s.tokens.len()).find(|&i| (s.at(i - 1), s.at(i)) == ("struct", name))?;
        match s.at(at + 1) {
            ";" => Some(false),
            "(" => {
                let close = s.closing(at + 1)?;
                let mut from = at + 2;
                let ends: Vec<usize> = (from..=close).filter(|&i| i == close || s.at(i) == ",").collect();
                Some(ends.into_iter().any(|end| {
                    let first = std::mem::replace(&mut from, end + 1);
                    let first = if s.at(first) == "pub" { first + 1 } else { first };
                    first < end && self.shows(s, (first, end), depth + 1)
                }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn why(text: &str, edit: &str) -> String {
        let edits = [edit.parse().expect("an edit")];
        check("S", &edits, &[("a.rs", text)]).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn derives_that_go_through_the_fields() {
        let with = |derive: &str, rest: &str| {
            format!("#[repr(C)]\n#[derive({derive})]\nstruct S {{\n    a: u32,\n    b: u32,\n}}\n{rest}")
        };
        assert!(why(&with("PartialEq, PartialOrd", ""), "swap:a,b").contains("PartialOrd is derived"));
        assert!(why(&with("Clone, Hash", ""), "b:first").contains("Hash is derived"));
        assert!(why(&with("Debug", "fn f(s: &S) { println!(\"{s:?}\"); }"), "swap:a,b").contains("a.rs:7"));
        assert_eq!(why(&with("Debug, Clone, PartialEq, Eq, Default", ""), "swap:a,b"), "");
        assert_eq!(why(&with("Ord", ""), "element=64"), "");
    }

    #[test]
    fn fields_are_dropped_in_their_order() {
        let own = "struct L(u32);\nimpl Drop for L { fn drop(&mut self) {} }\nstruct Q { n: Vec<u64>, l: Option<L> }\n\
            struct P { n: Vec<u64> }\n";
        let with =
            |a: &str, b: &str| why(&format!("{own}struct S {{\n    a: {a},\n    b: {b},\n}}\n"), "swap:a,b");
        assert!(with("L", "Box<L>").contains("a and b are dropped"));
        assert!(with("Q", "foreign::Guard").contains("are dropped"));
        assert_eq!(with("L", "u32"), "");
        assert_eq!(with("P", "std::sync::Mutex<P>"), "");
        assert_eq!(with("&'static L", "[AtomicU64; LEN]"), "");
        // Tuples of numbers, and an order of those two that stays.
        let tuple = "struct I(pub u32, u8);\nstruct E;\nenum K { A, B }\n";
        assert_eq!(
            why(&format!("{tuple}struct S {{\n    a: I,\n    b: E,\n    k: K,\n}}\n"), "swap:a,b"),
            ""
        );
        let three = format!("{own}struct S {{\n    a: L,\n    n: u32,\n    b: L,\n}}\n");
        assert_eq!(why(&three, "b:before:n"), "");
        assert!(
            why(&three, "b:first").contains("a and b are dropped")
                || why(&three, "b:first").contains("dropped")
        );
    }

    #[test]
    fn derives_call_what_the_fields_have() {
        let own = "struct N(u8);\nimpl Default for N { fn default() -> N { N(next()) } }\n\
            #[derive(Default, Clone)]\nstruct P(u8);\n";
        let with = |derive: &str, ty: &str, edit: &str| {
            let fields = format!("    a: {ty},\n    n: u32,\n    b: {ty},\n");
            why(&format!("{own}#[repr(C)]\n#[derive({derive})]\nstruct S {{\n{fields}}}\n"), edit)
        };
        assert!(with("Default", "N", "swap:a,b").contains("made by a derived Default"));
        assert_eq!(with("Default", "N", "n:first"), "");
        assert_eq!(with("Default", "P", "swap:a,b"), "");
        assert_eq!(with("Clone", "N", "swap:a,b"), "");
    }
}
