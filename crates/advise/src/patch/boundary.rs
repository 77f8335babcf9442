//! Structs whose layout others know: files, sockets, kernels, other programs, assertions on sizes and offsets.

use super::Refusal;
use super::body::Source;
use super::init::names_of;
use super::lex::Kind;
use super::scan::Code;

/// How a layout leaves the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// File, and line where there is one (1-based).
    pub place: String,
    /// What happens there, as a sentence part: `write() takes its bytes`.
    pub how: String,
}

/// Calls that move the bytes of objects out of the process or into it.
const TRANSFERS: [&str; 25] = [
    "write",
    "pwrite",
    "pwrite64",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "fwrite",
    "read",
    "pread",
    "pread64",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "fread",
    "ioctl",
    "setsockopt",
    "getsockopt",
    "copy_to_user",
    "copy_from_user",
    "msgsnd",
    "msgrcv",
    "mq_send",
    "nla_put",
];

/// Words of assertions that the compiler checks.
const ASSERTIONS: [&str; 7] = [
    "static_assert",
    "_Static_assert",
    "BUILD_BUG_ON",
    "BUILD_BUG_ON_MSG",
    "BOOST_STATIC_ASSERT",
    "G_STATIC_ASSERT",
    "ABSL_STATIC_ASSERT",
];

/// Refuses when a source shows that the layout of `name` is known outside of the program. `defined_in` is the file with
/// the definition; `shared` says that the folder builds a shared library.
pub fn check(name: &str, defined_in: &str, shared: bool, files: &[(&str, &str)]) -> Result<(), Refusal> {
    let found = of_path(defined_in, shared).or_else(|| of_uses(name, files));
    match found {
        None => Ok(()),
        Some(Boundary { place, how }) => Err(Refusal::LeavesProcess { name: name.into(), place, how }),
    }
}

fn of_path(path: &str, shared: bool) -> Option<Boundary> {
    let mut folders = path.rsplit('/').skip(1);
    let header = [".h", ".hh", ".hpp", ".hxx"].iter().any(|e| path.ends_with(e));
    let how = if path.split('/').any(|p| p == "uapi") {
        "user programs are built with this header"
    } else if shared && header && folders.any(|p| p == "include") {
        "it is a public header of a shared library, and programs are built with it"
    } else {
        return None;
    };
    Some(Boundary { place: path.into(), how: how.into() })
}

fn of_uses(name: &str, files: &[(&str, &str)]) -> Option<Boundary> {
    let names = names_of(name, files);
    let mentions = |text: &str| names.iter().any(|n| text.contains(n.as_str()));
    files.iter().filter(|f| mentions(f.1)).find_map(|(path, text)| {
        let source = Source::new(text);
        let scan = Scan::new(&source, &names);
        let direct = scan.first();
        let (line, how) = direct.or_else(|| in_macros(&source, &names))?;
        Some(Boundary { place: format!("{path}:{line}"), how })
    })
}

/// Boundaries in the bodies of macros: `#define GET _IOR('x', 1, struct foo)`.
fn in_macros(source: &Source<'_>, names: &[String]) -> Option<(u32, String)> {
    let directives = source.tokens.iter().filter(|t| t.kind == Kind::Directive);
    directives.clone().find_map(|token| {
        let text = token.text(source.text).trim_start_matches('#').trim_start();
        let body = text.strip_prefix("define")?;
        let source = Source::new(body);
        Scan::new(&source, names).first().map(|(_, how)| (token.line, how))
    })
}

/// The code of one file, and the names of the type.
struct Scan<'s, 'a> {
    code: Code<'s, 'a>,
    names: &'s [String],
}

impl<'s, 'a> Scan<'s, 'a> {
    fn new(source: &'s Source<'a>, names: &'s [String]) -> Self {
        Scan { code: Code::new(source), names }
    }

    fn text(&self, i: usize) -> &'a str {
        self.code.text(i)
    }

    /// Line and sentence of the first call that shows the layout.
    fn first(&self) -> Option<(u32, String)> {
        (0..self.code.len()).filter(|&i| self.code.is_word(i) && self.text(i + 1) == "(").find_map(|i| {
            let how = self.call(i)?;
            Some((self.code.line(i), how))
        })
    }

    fn call(&self, i: usize) -> Option<String> {
        let word = self.text(i);
        let end = self.code.closing(i + 1)?;
        let (from, to) = (i + 2, end);
        if ASSERTIONS.contains(&word) {
            let asks =
                (from..to).any(|j| matches!(self.text(j), "sizeof" | "offsetof" | "alignof" | "_Alignof"));
            return (asks && self.names_type(from, to))
                .then(|| format!("{word} fixes its size or an offset"));
        }
        if matches!(word, "_IOR" | "_IOW" | "_IOWR") {
            return self.names_type(from, to).then(|| format!("{word} makes it an argument of ioctl"));
        }
        if TRANSFERS.contains(&word) {
            let sized = (from..to).any(|j| self.text(j) == "sizeof" && self.measures(j, to));
            let passed = word == "ioctl" && (from..to).any(|j| self.is_variable(j));
            return (sized || passed).then(|| format!("{word}() takes its bytes"));
        }
        let mapped = matches!(word, "mmap" | "mmap64" | "shmat") && self.assigned(i);
        let private = (from..to).any(|j| matches!(self.text(j), "MAP_ANONYMOUS" | "MAP_ANON"));
        (mapped && !private).then(|| format!("{word}() maps it"))
    }

    fn is_name(&self, i: usize) -> bool {
        self.code.is_word(i) && self.names.iter().any(|n| n == self.text(i))
    }

    fn names_type(&self, from: usize, to: usize) -> bool {
        (from..to).any(|i| self.is_name(i))
    }

    /// `sizeof` at `i` measures the type or a variable of it.
    fn measures(&self, i: usize, to: usize) -> bool {
        let mut at = i + 1;
        while at < to && matches!(self.text(at), "(" | "*" | "struct" | "const" | "&") {
            at += 1;
        }
        // `sizeof(x->member)` measures something else.
        let whole = !matches!(self.text(at + 1), "." | "-" | "[");
        whole && (self.is_name(at) || self.is_variable(at))
    }

    /// The word at `i` was last declared with the type.
    fn is_variable(&self, i: usize) -> bool {
        if !self.code.is_word(i) || matches!(self.text(i.saturating_sub(1)), "." | ">") {
            return false;
        }
        self.code.variable(self.text(i), i).is_some_and(|d| self.is_name(d.ty))
    }

    /// What the call at `i` returns becomes an object of the type.
    fn assigned(&self, i: usize) -> bool {
        let start = (0..i).rev().find(|&j| matches!(self.text(j), ";" | "{" | "}")).map_or(0, |j| j + 1);
        let target = (start..i).rev().find(|&j| self.text(j) == "=").and_then(|j| j.checked_sub(1));
        self.names_type(start, i) || target.is_some_and(|t| self.is_variable(t))
    }
}

/// Whether a build file makes a shared library.
pub fn builds_shared_library(text: &str) -> bool {
    let words = [
        "BUILD_SHARED_LIBS",
        "lib_LTLIBRARIES",
        "shared_library(",
        " -shared",
        "\t-shared",
        "both_libraries(",
    ];
    let cmake = |l: &str| l.contains("add_library(") && l.contains("SHARED");
    words.iter().any(|w| text.contains(w)) || text.lines().any(cmake)
}
