//! Reading a compiler's command line: what it does, and which arguments cannot go together with recording.

use std::ffi::OsString;
use std::path::Path;

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing that could be instrumented: queries, preprocessing, assembly of nothing.
    Pass,
    /// Compile without linking.
    Compile,
    /// Link, perhaps after compiling.
    Link,
}

/// A source file on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As written.
    pub file: OsString,
    /// `-x` that was in force.
    pub language: Option<OsString>,
}

/// A command line taken apart.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What it does.
    pub mode: Mode,
    /// All arguments but the dropped ones.
    pub args: Vec<OsString>,
    /// Sources, in order; only filled when linking.
    pub sources: Vec<SourceFile>,
    /// `-shared`.
    pub shared: bool,
    /// `-r`.
    pub relocatable: bool,
    /// `-nostdlib` and the like: not a program of the C library.
    pub bare: bool,
    /// `-nodefaultlibs`.
    no_defaults: bool,
    /// `-fuse-ld=gold`.
    pub gold: bool,
    /// A `-x` is in force at the end.
    pub language_set: bool,
    /// What was dropped, for people.
    pub messages: Vec<String>,
}

/// Options whose argument is the next word.
const WITH_ARGUMENT: [&str; 36] = [
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-include",
    "-include-pch",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-isysroot",
    "--sysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-T",
    "-u",
    "-z",
    "-e",
    "--param",
    "-target",
    "-arch",
    "-A",
    "-B",
    "-aux-info",
    "-dumpbase",
];

const SOURCES: [&str; 26] = [
    "c", "i", "ii", "m", "mm", "mi", "cc", "cp", "cxx", "cpp", "CPP", "c++", "C", "f", "f90", "s", "S", "sx",
    "d", "go", "cppm", "ccm", "cxxm", "c++m", "ixx", "mpp",
];

/// A header as the only input becomes a precompiled one: nothing is linked.
const HEADERS: [&str; 9] = ["h", "hh", "H", "hp", "hxx", "hpp", "HPP", "h++", "tcc"];

/// Takes a command line apart. Response files are read, so that what they say is seen too.
pub fn parse(args: &[OsString]) -> Parsed {
    let mut p = Parsed {
        mode: Mode::Link,
        args: Vec::new(),
        sources: Vec::new(),
        shared: false,
        relocatable: false,
        bare: false,
        no_defaults: false,
        gold: false,
        language_set: false,
        messages: Vec::new(),
    };
    let expanded = expand(args, 0);
    let mut language: Option<OsString> = None;
    let (mut inputs, mut headers) = (0, 0);
    let mut i = 0;
    while i < expanded.len() {
        let a = &expanded[i];
        let text = a.to_string_lossy().into_owned();
        if WITH_ARGUMENT.contains(&text.as_str()) && i + 1 < expanded.len() {
            let value = expanded[i + 1].clone();
            i += 2;
            if text == "-z" && value == "defs" {
                p.drop_it("-z defs", "shared libraries get their hooks from the program");
                continue;
            }
            if text == "-x" {
                language = Some(value.clone()).filter(|v| v != "none");
            }
            p.args.extend([a.clone(), value]);
            continue;
        }
        i += 1;
        if text.starts_with('-') && text != "-" {
            p.option(a, &text);
            continue;
        }
        inputs += 1;
        let extension = Path::new(&text).extension().unwrap_or_default().to_string_lossy().into_owned();
        let header_by_name = language.is_none() && HEADERS.contains(&extension.as_str());
        headers += usize::from(header_by_name || language.as_ref().is_some_and(is_header_language));
        if language.is_some() || text == "-" || SOURCES.contains(&extension.as_str()) {
            p.sources.push(SourceFile { file: a.clone(), language: language.clone() });
        }
        p.args.push(a.clone());
    }
    p.language_set = language.is_some();
    // rustc names every library of a program itself.
    p.bare |= p.no_defaults && !p.args.iter().any(|a| a == "-lc");
    if inputs == 0 {
        // Objects may also come in by -l or -Wl alone, but then nothing of ours is linked.
        p.mode = Mode::Pass;
    } else if headers == inputs {
        p.mode = lower(p.mode, Mode::Compile);
    }
    p
}

/// `-x c++-header`, and gcc's names for the units of modules.
fn is_header_language(language: &OsString) -> bool {
    language.to_string_lossy().contains("-header")
}

impl Parsed {
    fn drop_it(&mut self, what: &str, why: &str) {
        self.messages.push(format!("dropped {what}: {why}"));
    }

    fn option(&mut self, a: &OsString, text: &str) {
        if let Some(list) = text.strip_prefix("-fsanitize=") {
            return self.sanitizers(list);
        }
        match text {
            "-c" | "-S" | "--precompile" | "-emit-pch" => self.mode = lower(self.mode, Mode::Compile),
            "-E" | "-M" | "-MM" | "-fsyntax-only" | "--version" | "-dumpversion" | "-dumpmachine"
            | "-###" | "--help" | "-dumpspecs" | "-dumpfullversion" => self.mode = Mode::Pass,
            "-shared" | "--shared" => self.shared = true,
            "-r" => self.relocatable = true,
            "-nostdlib" | "-nostartfiles" | "-ffreestanding" => self.bare = true,
            "-nodefaultlibs" => self.no_defaults = true,
            "-fuse-ld=gold" => self.gold = true,
            "-static" | "-static-pie" | "--static" => {
                return self.drop_it(text, "a static program leaves no functions to stand in front of");
            }
            "-static-libtsan" | "-static-libasan" | "-static-libsan" => return,
            "-s" | "-Wl,-s" | "-Wl,--strip-all" | "-Wl,-S" | "-Wl,--strip-debug" => {
                return self.drop_it(text, "the report needs the debug information");
            }
            _ if says_little(text) => return self.drop_it(text, "the report needs the debug information"),
            "-Wl,-z,defs" | "-Wl,--no-undefined" | "-Wl,-no-undefined" => {
                return self.drop_it(text, "shared libraries get their hooks from the program");
            }
            "-fomit-frame-pointer" => return,
            _ if text.starts_with("-flto") => {
                return self.drop_it(text, "link-time optimisation would lose the instrumentation");
            }
            _ if text.starts_with("-print-") || text.starts_with("--print-") => self.mode = Mode::Pass,
            _ if text.starts_with("-Wl,") && text.contains(",defs") => {
                let left = text.replace(",-z,defs", "");
                self.drop_it("-z defs", "shared libraries get their hooks from the program");
                if left != "-Wl" {
                    self.args.push(left.into());
                }
                return;
            }
            _ => {}
        }
        self.args.push(a.clone());
    }

    /// Only what gets along with thread instrumentation stays.
    fn sanitizers(&mut self, list: &str) {
        const CONFLICTS: [&str; 9] = [
            "address",
            "leak",
            "memory",
            "hwaddress",
            "kernel-address",
            "kernel-hwaddress",
            "kernel-memory",
            "dataflow",
            "safe-stack",
        ];
        let mut stay = Vec::new();
        for s in list.split(',') {
            if CONFLICTS.contains(&s) {
                self.drop_it(&format!("-fsanitize={s}"), "it cannot be combined with recording");
            } else if s != "thread" {
                stay.push(s);
            }
        }
        if !stay.is_empty() {
            self.args.push(format!("-fsanitize={}", stay.join(",")).into());
        }
    }

    /// Arguments for compiling one source of a compile-and-link call: all options, no other input, no output.
    pub fn compile_flags(&self, source: &SourceFile) -> Vec<OsString> {
        let mut out = Vec::new();
        let mut dependencies = (false, false);
        self.walk(|a, value| {
            let text = a.to_string_lossy();
            match (text.as_ref(), value) {
                ("-o" | "-l" | "-L" | "-Xlinker" | "-T" | "-u" | "-z" | "-e" | "-x", Some(_)) => {}
                (_, Some(v)) => {
                    dependencies.1 |= text == "-MF";
                    out.extend([a.clone(), v.clone()]);
                }
                (t, None) if t.starts_with('-') && t != "-" => {
                    let link =
                        t.starts_with("-Wl,") || t.starts_with("-l") || t.starts_with("-L") || t == "-shared";
                    dependencies.0 |= t == "-MD" || t == "-MMD";
                    if !link && t != "-rdynamic" && t != "-r" {
                        out.push(a.clone());
                    }
                }
                _ => {}
            }
        });
        if dependencies == (true, false) {
            out.extend(["-MF".into(), self.dependency_file(source)]);
        }
        if let Some(l) = &source.language {
            out.extend(["-x".into(), l.clone()]);
        }
        out.extend([source.file.clone(), "-c".into()]);
        out
    }

    /// Where the compiler would have put the dependencies of a compile-and-link call.
    fn dependency_file(&self, source: &SourceFile) -> OsString {
        let mut stem = Path::new(&source.file).file_stem().unwrap_or_default().to_os_string();
        self.walk(|a, value| {
            if let (true, Some(v)) = (a == "-o", value) {
                let base = Path::new(v).with_extension("");
                stem = if self.sources.len() == 1 { base.into() } else { stem.clone() };
            }
        });
        stem.push(".d");
        stem
    }

    /// Calls `f` with each argument and its value.
    fn walk(&self, mut f: impl FnMut(&OsString, Option<&OsString>)) {
        let mut i = 0;
        while let Some(a) = self.args.get(i) {
            let value = self.args.get(i + 1).filter(|_| WITH_ARGUMENT.iter().any(|w| a == w));
            i += 1 + usize::from(value.is_some());
            f(a, value);
        }
    }

    /// Arguments of a link without sources.
    pub fn link_args(&self) -> Vec<OsString> {
        self.link_args_with(&[])
    }

    /// Arguments of the link, sources replaced by `objects` in their order.
    pub fn link_args_with(&self, objects: &[OsString]) -> Vec<OsString> {
        let mut out = Vec::new();
        let mut objects = objects.iter();
        let mut sources = self.sources.iter().peekable();
        self.walk(|a, value| {
            let text = a.to_string_lossy();
            match value {
                Some(_) if text == "-x" || text == "-MF" || text == "-MT" || text == "-MQ" => {}
                Some(v) => out.extend([a.clone(), v.clone()]),
                None if sources.peek().is_some_and(|s| s.file == *a) => {
                    sources.next();
                    out.extend(objects.next().cloned());
                }
                None if matches!(text.as_ref(), "-MD" | "-MMD" | "-MP" | "-MG") => {}
                None => out.push(a.clone()),
            }
        });
        out
    }
}

/// Debug information without types, or none.
pub fn says_little(flag: &str) -> bool {
    let level = flag.strip_prefix("-g").unwrap_or(" ").trim_start_matches("gdb").trim_start_matches("dwarf");
    matches!(level, "0" | "1" | "line-tables-only" | "line-directives-only" | "mlt")
}

fn lower(now: Mode, to: Mode) -> Mode {
    if now == Mode::Pass { now } else { to }
}

/// Arguments with `@file`s replaced by their content; a file that cannot be read stays as it is.
fn expand(args: &[OsString], depth: usize) -> Vec<OsString> {
    let mut out = Vec::new();
    for a in args {
        let text = a.to_string_lossy();
        let file = text.strip_prefix('@').filter(|_| depth < 8);
        match file.and_then(|f| std::fs::read_to_string(f).ok()) {
            Some(content) => out.extend(expand(&split(&content), depth + 1)),
            None => out.push(a.clone()),
        }
    }
    out
}

/// Words of a response file: separated by white space, quotes and backslashes as gcc reads them.
fn split(content: &str) -> Vec<OsString> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = content.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => out.extend(word.take().map(OsString::from)),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word.map(OsString::from));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn check(line: &str, mode: Mode, args: &str, messages: usize) -> Parsed {
        let p = parse(&words(line));
        assert_eq!((p.mode, &p.args, p.messages.len()), (mode, &words(args), messages), "{line}");
        p
    }

    #[test]
    fn what_a_command_line_does() {
        check("-c a.c", Mode::Compile, "-c a.c", 0);
        check("-S a.c -o a.s", Mode::Compile, "-S a.c -o a.s", 0);
        check("-E a.c", Mode::Pass, "-E a.c", 0);
        check("-M -c a.c", Mode::Pass, "-M -c a.c", 0);
        check("--version", Mode::Pass, "--version", 0);
        check("-print-prog-name=ld", Mode::Pass, "-print-prog-name=ld", 0);
        check("-v", Mode::Pass, "-v", 0);
        check("-O2 all.h -o all.h.gch", Mode::Compile, "-O2 all.h -o all.h.gch", 0);
        check("-x c++-header all -o all.gch", Mode::Compile, "-x c++-header all -o all.gch", 0);
        check("--precompile m.cppm -o m.pcm", Mode::Compile, "--precompile m.cppm -o m.pcm", 0);
        assert_eq!(check("a.c a.h", Mode::Link, "a.c a.h", 0).sources.len(), 1);
        assert!(check("a.o -o a", Mode::Link, "a.o -o a", 0).sources.is_empty());
        assert!(check("-nodefaultlibs a.o", Mode::Link, "-nodefaultlibs a.o", 0).bare);
        assert!(!check("-nodefaultlibs a.o -lc", Mode::Link, "-nodefaultlibs a.o -lc", 0).bare);
        assert_eq!(check("a.c b.o -o a", Mode::Link, "a.c b.o -o a", 0).sources.len(), 1);
        assert!(check("-shared a.o -o a.so", Mode::Link, "-shared a.o -o a.so", 0).shared);
        assert!(check("-r a.o -o b.o", Mode::Link, "-r a.o -o b.o", 0).relocatable);
    }

    #[test]
    fn what_cannot_go_together_is_dropped_with_a_message() {
        check("-fsanitize=address,undefined -c a.c", Mode::Compile, "-fsanitize=undefined -c a.c", 1);
        check("-fsanitize=thread -c a.c", Mode::Compile, "-c a.c", 0);
        check("-shared -Wl,-z,defs a.o", Mode::Link, "-shared a.o", 1);
        check("-shared -Wl,-O1,-z,defs a.o", Mode::Link, "-shared -Wl,-O1 a.o", 1);
        check("-shared -z defs a.o", Mode::Link, "-shared a.o", 1);
        check("-static -s -flto=auto a.o", Mode::Link, "a.o", 3);
        check("-g0 -c a.c", Mode::Compile, "-c a.c", 1);
        check("-g1 -ggdb1 -gline-tables-only -c a.c", Mode::Compile, "-c a.c", 3);
        check("-g -g3 -gdwarf-4 -ggdb -c a.c", Mode::Compile, "-g -g3 -gdwarf-4 -ggdb -c a.c", 0);
    }

    #[test]
    fn sources_are_compiled_one_by_one() {
        let p = parse(&words("-O2 -Wl,-O1 -x c++ a.c -x none b.o -L. -lm -MD -o prog"));
        let flags = p.compile_flags(&p.sources[0]);
        assert_eq!(flags, words("-O2 -MD -MF prog.d -x c++ a.c -c"));
        assert_eq!(p.link_args_with(&words("t/a.o")), words("-O2 -Wl,-O1 t/a.o b.o -L. -lm -o prog"));
    }

    #[test]
    fn response_files_are_words_with_quotes() {
        assert_eq!(split("-DA=\"x y\" 'b c' d\\ e\n"), ["-DA=x y", "b c", "d e"]);
    }
}
