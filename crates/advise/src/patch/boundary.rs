//! Structs whose layout others know: files, sockets, kernels, other programs, assertions on sizes and offsets.

mod buffers;

use super::Refusal;
use super::body::Source;
use super::kept;
use super::lex::Kind;
use super::objects::Objects;

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

/// Refuses when the file with the definition of `name` is one that other programs are built with. `shared` says that
/// the folder builds a shared library.
pub fn check(name: &str, defined_in: &str, shared: bool) -> Result<(), Refusal> {
    match of_path(defined_in, shared) {
        None => Ok(()),
        Some(how) => Err(Refusal::LeavesProcess { name: name.into(), place: defined_in.into(), how }),
    }
}

/// Why the layouts in this file are known, as part of a sentence.
fn of_path(path: &str, shared: bool) -> Option<String> {
    let mut folders = path.rsplit('/').skip(1);
    let header = [".h", ".hh", ".hpp", ".hxx"].iter().any(|e| path.ends_with(e));
    let how = if path.split('/').any(|p| p == "uapi") {
        "user programs are built with this header"
    } else if shared && header && folders.any(|p| p == "include") {
        "it is a public header of a library that is or can be shared, and programs are built with it"
    } else {
        return None;
    };
    Some(how.into())
}

/// Which assertions on sizes and offsets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asserted {
    /// Every one.
    All,
    /// Of a struct around the type, whose parts keep their sizes: those that look into the type.
    Inside,
}

/// Line and sentence of the first place where a layout leaves the process: `write() takes its bytes`.
pub(super) fn in_file(objects: &Objects<'_, '_>, asserted: Asserted) -> Option<(u32, String)> {
    first(objects, asserted).or_else(|| in_macros(objects, asserted))
}

/// Boundaries in the bodies of macros: `#define GET _IOR('x', 1, struct foo)`.
fn in_macros(objects: &Objects<'_, '_>, asserted: Asserted) -> Option<(u32, String)> {
    let source = objects.code.source;
    let mut directives = source.tokens.iter().filter(|t| t.kind == Kind::Directive);
    directives.find_map(|token| {
        let text = token.text(source.text).trim_start_matches('#').trim_start();
        let body = Source::new(text.strip_prefix("define")?);
        first(&objects.elsewhere(&body), asserted).map(|(_, how)| (token.line, how))
    })
}

/// Line and sentence of the first call that shows the layout.
fn first(objects: &Objects<'_, '_>, asserted: Asserted) -> Option<(u32, String)> {
    let calls = (0..objects.code.len()).filter(|&i| objects.code.is_word(i) && objects.text(i + 1) == "(");
    let called = calls.clone().find_map(|i| {
        let assertion = ASSERTIONS.contains(&objects.text(i));
        let how = if assertion { assertion_at(objects, i, asserted) } else { call(objects, i) };
        Some((objects.code.line(i), how?))
    });
    called
        .or_else(|| mapped(objects))
        .or_else(|| vector(objects))
        .or_else(|| buffers::in_file(objects))
        .or_else(|| {
            let vectors = (0..objects.code.len()).filter_map(|i| Some((i, vector_of(objects.text(i))?)));
            let passed = |i: usize| objects.text(i + 1) == "=" && objects.address(i + 2).is_some();
            let mut passed = vectors.filter(|v| passed(v.0));
            passed.next().map(|(i, calls)| (objects.code.line(i), format!("{calls} take its bytes")))
        })
}

/// `(struct s *)store.base`, where a file is mapped to, and `file.as<S>()`, which returns such a pointer.
fn mapped(objects: &Objects<'_, '_>) -> Option<(u32, String)> {
    let (code, passed) = (&objects.code, objects.passed());
    let cast = |&i: &usize| {
        let close = code.closing(i).filter(|c| code.text(i) == "(" && c - i < 7 && code.text(c - 1) == "*");
        close
            .is_some_and(|c| objects.names_type(i, c) && passed.kept.is_mapped(code, objects.path_end(c + 1)))
    };
    let method = |&i: &usize| {
        let close = code.matching(i + 1, ["<", ">"], 16).filter(|_| code.text(i + 1) == "<");
        passed.maps.contains(code.text(i)) && close.is_some_and(|c| objects.names_type(i, c))
    };
    let found = (0..code.len()).find(|i| cast(i) || method(i))?;
    Some((code.line(found), "a file is mapped there".into()))
}

/// Calls that take the bytes to which this member points.
fn vector_of(member: &str) -> Option<&'static str> {
    match member {
        "iov_base" => Some("writev(), readv() or their kin"),
        "aio_buf" => Some("aio_write(), aio_read() or their kin"),
        _ => None,
    }
}

/// `struct iovec v = { &x, sizeof(x) };`
fn vector(objects: &Objects<'_, '_>) -> Option<(u32, String)> {
    let pair = |open: &usize| {
        let comma = objects.address(open + 1).filter(|&end| objects.text(end) == ",");
        objects.text(*open) == "{" && comma.is_some_and(|c| objects.text(c + 1) == "sizeof")
    };
    objects.code.places("iovec").iter().find_map(|&i| {
        let (_, end) = objects.code.statement(i);
        let open = (i..end).find(pair)?;
        Some((objects.code.line(open), "writev(), readv() or their kin take its bytes".into()))
    })
}

/// `static_assert(sizeof(struct foo) == 64)`
fn assertion_at(objects: &Objects<'_, '_>, i: usize, asserted: Asserted) -> Option<String> {
    let word = objects.text(i);
    let (from, to) = (i + 2, objects.code.closing(i + 1)?);
    let end_of = |j: usize| objects.code.closing(j + 1).filter(|_| objects.text(j + 1) == "(").unwrap_or(to);
    let asks = |j: usize| {
        let end = end_of(j);
        // `sizeof(((struct s *)0)->a)` is the size of a member.
        let member = |k: usize| matches!((objects.text(k), objects.text(k + 1)), ("-", ">") | (".", _));
        match objects.text(j) {
            "offsetof" => objects.names_type(j, end),
            "sizeof" | "alignof" | "_Alignof" | "__alignof__" => {
                !(j..end).any(member) && objects.names_type(j, end)
            }
            _ => false,
        }
    };
    // `offsetof(struct outer, x.b)`
    let inside = |j: usize| objects.text(j) == "offsetof" && (j..end_of(j)).any(|k| objects.text(k) == ".");
    let counts = match asserted {
        Asserted::All => (from..to).any(asks),
        Asserted::Inside => (from..to).any(inside) && objects.names_type(from, to),
    };
    counts.then(|| format!("{word} fixes its size or an offset"))
}

fn call(objects: &Objects<'_, '_>, i: usize) -> Option<String> {
    let word = objects.text(i);
    let end = objects.code.closing(i + 1)?;
    let (from, to) = (i + 2, end);
    if matches!(word, "_IOR" | "_IOW" | "_IOWR") {
        return objects.names_type(from, to).then(|| format!("{word} makes it an argument of ioctl"));
    }
    if word == "syscall" {
        let futex = objects.text(from).contains("futex") || objects.text(from) == "202";
        let given = objects.arguments(i + 1).into_iter().any(|a| objects.is_address(a));
        return (given && !futex).then(|| "a system call takes it".into());
    }
    // A function of the program's own that is called so is looked at like any.
    if TRANSFERS.contains(&word) && objects.code.definitions(word).next().is_none() {
        let sized = (from..to).any(|j| objects.text(j) == "sizeof" && objects.measures(j, to));
        // `ops->ioctl(dev, ..)` is a function of the program.
        let given = (word == "ioctl" && !is_method(objects, i)).then(|| objects.arguments(i + 1));
        let mut given = given.into_iter().flatten().skip(2);
        let passed = given.any(|(from, to)| (from..to).any(|j| objects.is_variable(j)));
        let buffer = buffer(objects, i);
        let untyped = |b: (usize, usize)| b.1 == b.0 + 1 && objects.is_object_as_void(b.0);
        let kept = |b: (usize, usize)| objects.passed().kept.gives_back(objects, b.0, &[]).is_some();
        let whole = buffer.is_some_and(|b| objects.is_address(b) || untyped(b) || kept(b));
        let parsed = buffer.is_some_and(|b| (b.0..b.1).any(|j| is_buffer(objects, j)));
        return (sized || passed || whole || parsed).then(|| format!("{word}() takes its bytes"));
    }
    // `ops->mmap(file, ..)` is a function of the program.
    let system = kept::MAPPING.contains(&word) && !is_method(objects, i);
    let maps = (system || objects.passed().maps.contains(word)) && !kept::maps_no_file(&objects.code, i);
    (maps && assigned(objects, i)).then(|| format!("{word}() maps it"))
}

/// Calls of the C library that move bytes, and which argument points to them.
const BUFFERS: [(&str, usize); 15] = [
    ("fwrite", 0),
    ("fread", 0),
    ("write", 1),
    ("pwrite", 1),
    ("pwrite64", 1),
    ("send", 1),
    ("sendto", 1),
    ("read", 1),
    ("pread", 1),
    ("pread64", 1),
    ("recv", 1),
    ("recvfrom", 1),
    ("msgsnd", 1),
    ("msgrcv", 1),
    ("mq_send", 1),
];

/// Members that are among the arguments of such calls, as far as a glance tells.
pub(super) fn sent_members(text: &str) -> impl Iterator<Item = &str> {
    const LETTERS_MAX: usize = 200;
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    let calls = BUFFERS.iter().flat_map(move |(word, _)| {
        text.match_indices(word).filter_map(move |(at, _)| {
            let rest = text[at + word.len()..].trim_start().strip_prefix('(')?;
            let own = !text[..at].ends_with(letter);
            own.then(|| rest.split_once(';').map_or(rest, |r| r.0)).map(|r| r.get(..LETTERS_MAX).unwrap_or(r))
        })
    });
    calls.flat_map(move |arguments| {
        let names = arguments.split("->").skip(1).chain(arguments.split('.').skip(1));
        names.map(move |n| &n[..n.find(|c| !letter(c)).unwrap_or(n.len())]).filter(|n| !n.is_empty())
    })
}

/// The argument of a call of the C library that points to what is moved.
fn buffer(objects: &Objects<'_, '_>, i: usize) -> Option<(usize, usize)> {
    let place = BUFFERS.iter().find(|b| b.0 == objects.text(i)).map(|b| b.1)?;
    let arguments = objects.arguments(i + 1);
    (!is_method(objects, i) && arguments.len() >= 3).then(|| arguments[place])
}

fn is_method(objects: &Objects<'_, '_>, i: usize) -> bool {
    i > 0 && matches!(objects.text(i - 1), "." | ">")
}

/// The word at `j` is a buffer of bytes in which the function sees objects.
fn is_buffer(objects: &Objects<'_, '_>, j: usize) -> bool {
    objects.code.is_word(j)
        && objects.code.variable(objects.text(j), j).is_some_and(|d| {
            matches!(objects.text(d.ty), "char" | "uint8_t" | "u8" | "byte" | "void" | "unsigned")
        })
        && objects.becomes_object(j)
}

/// What the call at `i` returns becomes an object of the type: by a cast, in a variable, a member or an element of an
/// array, or as what the function returns.
fn assigned(objects: &Objects<'_, '_>, i: usize) -> bool {
    let code = &objects.code;
    let start = (0..i).rev().find(|&j| matches!(code.text(j), ";" | "{" | "}")).map_or(0, |j| j + 1);
    let before = (start..i).rev().find(|&j| code.text(j) == "=").and_then(|j| j.checked_sub(1));
    // `table[0] =`
    let target = before.and_then(|t| match code.text(t) {
        "]" => code.opening(t)?.checked_sub(1),
        _ => Some(t),
    });
    let returned = || {
        let head = code.function_name(i).filter(|_| (start..i).any(|j| code.text(j) == "return"));
        head.is_some_and(|name| objects.names_type(code.start_of(name), name))
    };
    objects.names_type(start, i)
        || target.is_some_and(|t| objects.is_object(t) || objects.becomes_object(t))
        || returned()
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

#[cfg(test)]
mod tests {
    use crate::patch::uses::{Ask, check};

    #[test]
    fn files_that_are_mapped_without_a_cast() {
        let run = |code: &str| {
            let text = format!(
                "struct state {{ long in; long out; }};\nstruct other {{ long in; }};\n\
                 struct ctx {{ int fd; struct state *st; struct other *more; }};\n{code}\n"
            );
            check("state", None, Ask::LAYOUT, &[("a.c", &text)]).is_ok()
        };
        let map = |flags: &str| format!("mmap(0, 4096, 3, {flags}, fd, 0)");
        let (file, none) = (map("MAP_SHARED"), map("MAP_PRIVATE | MAP_ANONYMOUS"));
        for (before, after) in [
            ("void f(struct ctx *c, int fd) { c->st = ", "; }"),
            ("static struct state *table[2];\nvoid f(int fd) { table[0] = ", "; }"),
            ("static struct state *f(int fd) { return ", "; }"),
            ("static struct state *f(int fd) { if (fd < 0) return 0; return ", "; }"),
        ] {
            assert!(!run(&format!("{before}{file}{after}")), "{before}");
            assert!(run(&format!("{before}{none}{after}")), "{before}");
        }
        // Memory of no file by its descriptor, whose name another function's variable has.
        let pages = "void *pages;\nvoid get(int flags) { pages = mmap(0, 4096, 3, flags, -1, 0); }\n";
        assert!(run(&format!(
            "{pages}static struct state *s;\nvoid f(int flags) {{ s = mmap(0, 4096, 3, flags, -1, 0); }}"
        )));
        let kept = "void *pages;\nvoid get(int fd) { pages = mmap(0, 4096, 3, 1, fd, 0); }\n";
        let give = "struct state *take(void) { struct state *pages = make(); return pages; }\n";
        assert!(run(&format!("{kept}{give}void f(void) {{ struct state *s = take(); s->in++; }}")));
        assert!(run(&format!("void f(struct ctx *c, int fd) {{ c->more = {file}; }}")));
        assert!(run(&format!("static struct other *f(int fd) {{ return {file}; }}")));
    }

    #[test]
    fn requests_that_point_to_bytes() {
        let run = |code: &str| check("dev", None, Ask::LAYOUT, &[("a.c", code)]).is_ok();
        assert!(!run(
            "static struct dev d;\nint f(struct aiocb *c) { c->aio_buf = &d; return aio_write(c); }\n"
        ));
        assert!(run(
            "static struct dev d;\nint f(struct aiocb *c) { c->aio_buf = buffer; return aio_write(c); }\n"
        ));
    }

    #[test]
    fn what_a_member_keeps_may_leave_elsewhere() {
        let kept = "void init(struct table *t, void *rows, size_t n) { t->rows = rows; t->n = n; }\n";
        let run = |caller: &str, writer: &str| {
            let writer = format!("{kept}{writer}");
            check("cell", None, Ask::LAYOUT, &[("a.c", caller), ("table.c", &writer)]).is_ok()
        };
        let writer = "int dump(struct table *t, FILE *f) { return fwrite(t->rows, t->width, t->n, f); }\n";
        let caller = "static struct cell cells[4];\nvoid f(struct table *t) { init(t, cells, 4); }\n";
        assert!(!run(caller, writer));
        assert!(!run(caller, "int dump(struct table t, int fd) { return write(fd, t.rows, t.n); }\n"));
        // Another struct's member of that name, another member, and a table of something else.
        assert!(run(caller, "int dump(struct list *l, FILE *f) { return fwrite(l->rows, 8, l->n, f); }\n"));
        assert!(run(caller, "int dump(struct table *t, FILE *f) { return fwrite(t->head, 8, 1, f); }\n"));
        assert!(run("static struct cell cells[4];\nvoid f(struct table *t) { init(t, 0, 4); }\n", writer));
    }

    #[test]
    fn only_what_ioctl_is_given_as_its_argument_leaves() {
        let run = |code: &str| check("dev", None, Ask::LAYOUT, &[("a.c", code)]).is_ok();
        assert!(!run("int f(int fd, struct dev *d) { return ioctl(fd, 7, d); }\n"));
        // A function pointer of that name, whose first argument is the device.
        assert!(run("int f(struct dev *d) { return ioctl(d, &ifr, 7); }\n"));
        assert!(run("int f(struct ops *o, struct dev *d) { return o->ioctl(o, 7, d); }\n"));
    }
}
