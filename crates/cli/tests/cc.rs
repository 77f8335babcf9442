//! Programs built by `tussle cc` do what they do without it, whatever the flags: exceptions, signals, virtual calls,
//! accesses of every size, and hooks that are jumped to where that is possible.

use std::path::Path;
use std::process::{Command, Output};
use tussle_testkit::need;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <vector>
static volatile long a, b;
static volatile int ticks;
static void tick(int) { ticks = ticks + 1; }
struct base { virtual ~base() {} virtual int f() { return 1; } };
struct derived : base { int f() override { return 2; } };
__attribute__((noinline)) static void thrower(long i) {
	a++;
	if (i % 100 == 0) throw std::runtime_error("x" + std::to_string(i));
	b++;
}
static void *run(void *) {
	long sum = 0;
	std::vector<short> s(100);
	std::vector<char> c(100);
	std::vector<int> w(100);
	std::vector<double> d(100);
	for (long i = 0; i < 20000; i++) {
		try { thrower(i); } catch (std::exception &e) { sum += e.what()[1]; }
		s[i % 100]++, c[i % 100]++, w[i % 100]++, d[i % 100] += 0.5;
		base *o = i & 1 ? new derived : new base;
		sum += o->f() + s[7] + c[8] + w[9] + (long)d[10];
		delete o;
	}
	return (void *)sum;
}
int main() {
	struct itimerval often = {{0, 2000}, {0, 2000}}, never = {};
	signal(SIGPROF, tick);
	setitimer(ITIMER_PROF, &often, nullptr);
	pthread_t t;
	void *one, *two;
	pthread_create(&t, nullptr, run, nullptr);
	one = run(nullptr);
	pthread_join(t, &two);
	setitimer(ITIMER_PROF, &never, nullptr);
	printf("%ld %ld\n", (long)one, (long)two);
	return one == two ? 7 : 1;
}
"#;

struct Lab(tempfile::TempDir);

impl Lab {
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut c = Command::new(program);
        c.args(arguments).current_dir(self.0.path()).env("XDG_CACHE_HOME", self.0.path().join("cache"));
        c.output().unwrap()
    }

    fn tussle(&self, arguments: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_tussle"), arguments)
    }
}

fn contains(file: &Path, text: &[u8]) -> bool {
    std::fs::read(file).unwrap().windows(text.len()).any(|w| w == text)
}

/// Builds with these flags, with a compiler of that name: output and status are as without tussle, recorded or not.
/// `jumps`: the object's hooks are jumped to.
#[track_caller]
fn check(compiler: &str, flags: &str, jumps: bool) {
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.0.path().join("p.cc"), PROGRAM).unwrap();
    let flags: Vec<&str> = flags.split(' ').collect();
    if !need(compiler) {
        return;
    }
    let plain = lab.run(compiler, &[&flags[..], &["-pthread", "p.cc", "-o", "plain"]].concat());
    assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    let expected = lab.run("./plain", &[]);
    assert_eq!(expected.status.code(), Some(7));

    let cc = |arguments: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.arg("c++").args(arguments).current_dir(lab.0.path()).env("TUSSLE_CXX", compiler);
        let out = c.env("XDG_CACHE_HOME", lab.0.path().join("cache")).output().unwrap();
        assert!(out.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    cc(&[&flags[..], &["-pthread", "-c", "p.cc", "-o", "p.o"]].concat());
    assert_eq!(contains(&lab.0.path().join("p.o"), b"tussle_site_"), jumps, "{flags:?}");
    cc(&[&flags[..], &["-pthread", "p.o", "-o", "p"]].concat());
    for ran in [lab.run("./p", &[]), lab.tussle(&["record", "--", "./p"])] {
        let error = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), &ran.stdout), (Some(7), &expected.stdout), "{flags:?}: {error}");
    }
    let report = lab.tussle(&["report"]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("of the same bytes"), "{flags:?}: {text}");
}

#[test]
fn programs_stay_what_they_are() {
    check("g++", "-O2 -g", true);
    check("g++", "-O0", true);
    check("g++", "-O2 -pipe -fno-pie -no-pie", true);
    check("g++", "-O1 -fPIC", false);
    check("clang++", "-O2", false);
}

/// Objects link where the runtime is not: with the sanitizer's own.
#[test]
fn objects_link_without_the_runtime() {
    let lab = Lab(tempfile::tempdir().unwrap());
    let source = "long n; int main(void) { n++; return (int)n; }\n";
    std::fs::write(lab.0.path().join("p.c"), source).unwrap();
    let built = lab.tussle(&["cc", "-O1", "-c", "p.c", "-o", "p.o"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    if !need("gcc -fsanitize=thread") || !need("setarch") {
        return;
    }
    let linked = lab.run("gcc", &["-fsanitize=thread", "p.o", "-o", "p"]);
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    assert_eq!(lab.run("setarch", &["-R", "./p"]).status.code(), Some(1));
}

/// Objects that were not made for a shared library, in one: the code is the line of the access.
#[test]
fn shared_libraries_name_their_lines() {
    let lab = Lab(tempfile::tempdir().unwrap());
    let library = r#"static volatile struct { long a, b; } st;
void one(void) {
	for (int i = 0; i < 100000; i++)
		st.a++;
}
void two(void) {
	for (int i = 0; i < 100000; i++)
		st.b++;
}
"#;
    let program = r#"#include <pthread.h>
void one(void), two(void);
static void *f(void *p) { p ? one() : two(); return 0; }
int main(void) {
	pthread_t t;
	pthread_create(&t, 0, f, "");
	f(0);
	return pthread_join(t, 0);
}
"#;
    std::fs::write(lab.0.path().join("lib.c"), library).unwrap();
    std::fs::write(lab.0.path().join("p.c"), program).unwrap();
    std::fs::write(lab.0.path().join("fpic"), "-fPIC").unwrap();
    for (flags, jumps) in [("-fPIE", true), ("@fpic", false)] {
        let tussle = |arguments: &str| {
            let out = lab.tussle(&arguments.split(' ').collect::<Vec<_>>());
            assert!(out.status.success(), "{arguments}: {}", String::from_utf8_lossy(&out.stderr));
        };
        tussle(&format!("cc -O1 -g {flags} -c lib.c -o lib.o"));
        assert_eq!(contains(&lab.0.path().join("lib.o"), b"tussle_site_"), jumps, "{flags}");
        tussle("cc -shared lib.o -o lib.so");
        tussle("cc -O1 -g -pthread p.c ./lib.so -o p");
        tussle("record -- ./p");
        let text = String::from_utf8_lossy(&lab.tussle(&["report"]).stdout).into_owned();
        assert!(text.contains("lib.c:4 ") && text.contains("lib.c:8 "), "{flags}: {text}");
    }
}

/// Two threads shut each other out by fences alone (Dekker).
const FENCES: &str = r#"
#include <atomic>
#include <cstdio>
#include <thread>
static std::atomic<int> wants[2], turn;
static long both;
static void works(int me) {
    using std::memory_order_relaxed;
    for (int i = 0; i < 20000; i++) {
        wants[me].store(1, memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        while (wants[!me].load(memory_order_relaxed)) {
            if (turn.load(memory_order_relaxed) != me) {
                wants[me].store(0, memory_order_relaxed);
                while (turn.load(memory_order_relaxed) != me) std::this_thread::yield();
                wants[me].store(1, memory_order_relaxed);
                std::atomic_thread_fence(std::memory_order_seq_cst);
            }
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        both++;
        turn.store(!me, memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        wants[me].store(0, memory_order_relaxed);
    }
    turn.store(!me);
}
int main() {
    std::thread a(works, 0), b(works, 1);
    a.join(), b.join();
    printf("%ld\n", both);
}
"#;

/// Warnings are those of the program: gcc has one of its own for fences under ThreadSanitizer.
#[test]
fn fences_are_no_error() {
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.0.path().join("p.cc"), FENCES).unwrap();
    for compiler in ["g++", "clang++"] {
        if !need(compiler) {
            continue;
        }
        let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "p.cc", "-o", "p"];
        let built = lab.tussle(&[&["c++", "--as", compiler][..], &flags].concat());
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        for ran in [lab.run("./p", &[]), lab.tussle(&["record", "--", "./p"])] {
            assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(0), &b"40000\n"[..]), "{compiler}");
        }
    }
}

/// Precompiled headers and modules: compiled, not linked, and taken by the compiler that made them.
#[test]
fn precompiled_headers_and_modules_are_taken() {
    let lab = Lab(tempfile::tempdir().unwrap());
    let write = |name: &str, text: &str| std::fs::write(lab.0.path().join(name), text).unwrap();
    write("all.h", "#include <vector>\ninline int answer() { return 7; }\n");
    write("p.cc", "int main() { std::vector<int> v(1, answer()); return v[0]; }\n");
    write("m.cppm", "export module m;\nexport int answer() { return 7; }\n");
    write("u.cc", "import m;\nint main() { return answer(); }\n");
    let gcc = [
        "c++ -O1 all.h -o all.h.gch",
        "c++ -O1 -Winvalid-pch -Werror -include all.h p.cc -o p",
        "c++ -std=c++20 -fmodules-ts -x c++ -c m.cppm -o m.o",
        "c++ -std=c++20 -fmodules-ts -c u.cc -o u.o",
        "c++ u.o m.o -o u",
    ];
    let clang = [
        "c++ -O1 -x c++-header all.h -o all.pch",
        "c++ -O1 -include-pch all.pch p.cc -o p",
        "c++ -std=c++20 --precompile m.cppm -o m.pcm",
        "c++ -std=c++20 -c m.pcm -o m.o",
        "c++ -std=c++20 -fmodule-file=m.pcm -c u.cc -o u.o",
        "c++ u.o m.o -o u",
    ];
    for (compiler, lines) in [("g++", &gcc[..]), ("clang++", &clang[..])] {
        if !need(compiler) {
            continue;
        }
        for line in lines {
            let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
            c.args(line.split(' ')).current_dir(lab.0.path()).env("TUSSLE_CXX", compiler);
            let out = c.env("XDG_CACHE_HOME", lab.0.path().join("cache")).output().unwrap();
            assert!(out.status.success(), "{compiler} {line}: {}", String::from_utf8_lossy(&out.stderr));
        }
        for program in ["./p", "./u"] {
            assert_eq!(lab.run(program, &[]).status.code(), Some(7), "{compiler} {program}");
            assert!(contains(&lab.0.path().join(program), b"__tsan_func_entry"), "{compiler} {program}");
        }
    }
}

/// What stands before a compiler that a build system has chosen.
#[test]
fn a_launcher_takes_the_compiler_that_is_named() {
    if !need("gcc") {
        return;
    }
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.0.path().join("p.c"), "int main(void) { return 7; }\n").unwrap();
    let out = lab.tussle(&["cc", "--as", "gcc", "-O1", "p.c", "-o", "p"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(lab.run("./p", &[]).status.code(), Some(7));
    assert!(!lab.tussle(&["cc", "--as", "no-such-compiler", "p.c"]).status.success());
}

/// Called as `as` it is an assembler, whoever calls it.
#[test]
fn as_an_assembler_it_needs_no_variable() {
    let lab = Lab(tempfile::tempdir().unwrap());
    let own = lab.0.path().join("as");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tussle"), &own).unwrap();
    let out = Command::new(&own).arg("--version").env_remove("TUSSLE_AS").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.contains("assembler"), "{text}");
}

/// What is no program of the C library has nobody to call: it is compiled as it is.
#[test]
fn programs_without_libc_stay_what_they_are() {
    const START: &str = "static long w[8];\nvoid _start(void) {\nfor (int i = 0; i < 100; i++) w[i & 7]++;\n\
        __asm__(\"mov $60, %eax; mov $3, %edi; syscall\");\n}\n";
    if !need("gcc") {
        return;
    }
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.0.path().join("s.c"), START).unwrap();
    for flags in ["-nostdlib", "-nostdlib -static", "-ffreestanding -nostdlib -O2 -g"] {
        let mut all = vec!["cc"];
        all.extend(flags.split(' '));
        all.extend(["s.c", "-o", "s"]);
        let out = lab.tussle(&all);
        assert!(out.status.success(), "{flags}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(lab.run("./s", &[]).status.code(), Some(3), "{flags}");
    }
}
