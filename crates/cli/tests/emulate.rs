//! `tussle record --emulate` on programs as their compilers left them: the line that two threads fight over is found,
//! and the program's own result stays.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use tussle_testkit::{need, wish};

/// Two threads, two words; the line is fought over unless `APART` is defined.
const C: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef APART
struct counts { volatile long hits; char gap[256]; volatile long misses; };
#else
struct counts { volatile long hits; volatile long misses; };
#endif
static struct counts *counts;
static void *hit(void *p) { for (long i = 0; i < 200000; i++) counts->hits++; return p; }
static void *miss(void *p) { for (long i = 0; i < 200000; i++) counts->misses++; return p; }
int main(void) {
    pthread_t a, b;
    counts = calloc(1, sizeof *counts);
    pthread_create(&a, 0, hit, 0);
#ifdef LATE
    usleep(100000);
#endif
    pthread_create(&b, 0, miss, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%ld %ld\n", counts->hits, counts->misses);
    return 3;
}
"#;

/// Each goroutine keeps a thread and waits for the other before each round: on a busy machine Go may run both on one
/// thread, or one after the other, and then they fight for nothing.
const GO: &str = r#"package main
import ("fmt"; "runtime"; "sync"; "sync/atomic")
type Counts struct { Hits uint64; Misses uint64 }
var arrived [64]uint64
func add(n *uint64, done *sync.WaitGroup) {
	runtime.LockOSThread()
	for round := uint64(1); round <= 20; round++ {
		for atomic.AddUint64(&arrived[32], 1); atomic.LoadUint64(&arrived[32]) < 2 * round; {}
		for i := 0; i < 10000; i++ { atomic.AddUint64(n, 1) }
	}
	done.Done()
}
func main() {
	counts := new(Counts)
	var done sync.WaitGroup
	done.Add(2)
	go add(&counts.Hits, &done)
	go add(&counts.Misses, &done)
	done.Wait()
	fmt.Println(counts.Hits, counts.Misses)
}
"#;

const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
struct Counts { hits: AtomicU64, misses: AtomicU64 }
fn main() {
    let counts = std::sync::Arc::new(Counts { hits: AtomicU64::new(0), misses: AtomicU64::new(0) });
    let other = counts.clone();
    let thread = std::thread::spawn(move || for _ in 0..200_000 { other.misses.fetch_add(1, Relaxed); });
    for _ in 0..200_000 { counts.hits.fetch_add(1, Relaxed); }
    thread.join().unwrap();
    println!("{} {}", counts.hits.load(Relaxed), counts.misses.load(Relaxed));
}
"#;

struct Lab(tempfile::TempDir);

impl Lab {
    /// `None` without an emulator.
    #[track_caller]
    fn new(emulator: &str) -> Option<Lab> {
        need(emulator).then(|| Lab(tempfile::tempdir().unwrap()))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn make(&self, source: (&str, &str), words: &[&str]) {
        std::fs::write(self.path().join(source.0), source.1).unwrap();
        let out = Command::new(words[0]).args(&words[1..]).current_dir(self.path()).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Makes [`GO`].
    #[track_caller]
    fn make_go(&self, flags: &[&str]) {
        std::fs::write(self.path().join("go.mod"), "module p\n").unwrap();
        let cache = format!("GOCACHE={}", self.path().join("cache").display());
        let words = [&["env", &cache, "CGO_ENABLED=0", "go", "build", "-o", "p"], flags, &["."]].concat();
        self.make(("p.go", GO), &words);
    }

    fn tussle(&self, words: &[&str]) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(words).current_dir(self.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// Records the program, which ends with `status` and prints both counts, and says what `report` does.
    #[track_caller]
    fn recorded(&self, program: &str, status: i32) -> String {
        let out = self.tussle(&["record", "--emulate", "--", program]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(status), "{said}");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "200000 200000\n", "{said}");
        let report = self.tussle(&["report"]);
        String::from_utf8_lossy(&report.stdout).into_owned()
    }
}

/// The most expected invalidations of the report's first row, which has to be there.
#[track_caller]
fn expected(report: &str) -> u64 {
    let row =
        report.lines().find(|l| l.starts_with("1  ")).unwrap_or_else(|| panic!("nothing found:\n{report}"));
    row.split_whitespace().nth(1).unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn c_is_found_by_field_dynamic_and_static_and_its_twin_is_not_accused() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let words = [&["gcc", "-O2", "-g", "-pthread", "p.c", "-o", "p"], flags].concat();
        // As the recorder inside of programs has it: half of 400,000 stores find the line elsewhere; also where the
        // first thread has ended before the second one begins: nobody has waited for it.
        for late in ["-DLATE", "-DAT_ONCE"] {
            lab.make(("p.c", C), &[&words[..], &[late]].concat());
            let report = lab.recorded("./p", 3);
            assert!((190_000..=210_000).contains(&expected(&report)), "{late}: {report}");
            let shared = "`struct counts.hits` and `struct counts.misses` share a 64-byte line";
            assert!(report.contains(shared), "{late}: {report}");
        }
        lab.make(("p.c", C), &[&words[..], &["-DAPART"]].concat());
        let report = lab.recorded("./p", 3);
        assert!(report.starts_with("Nothing that a layout helps"), "{report}");
    }
}

#[test]
fn a_stripped_program_is_found_by_address() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        lab.make(("p.c", C), &[&["gcc", "-O2", "-s", "-pthread", "p.c", "-o", "p"], flags].concat());
        let report = lab.recorded("./p", 3);
        assert!(expected(&report) > 190_000, "{report}");
    }
}

#[test]
fn rust_is_found_by_field() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("rustc") {
        return;
    }
    lab.make(("p.rs", RUST), &["rustc", "-O", "-g", "p.rs", "-o", "p"]);
    let report = lab.recorded("./p", 0);
    assert!(report.contains("data.hits") && report.contains("data.misses"), "{report}");
    assert!((90_000..=210_000).contains(&expected(&report)), "{report}");
}

/// Stripped, it keeps Go's own table of functions: its scheduler is known by that.
#[test]
fn go_is_found_by_field_and_stripped_by_address() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !wish("go") {
        return;
    }
    lab.make_go(&[]);
    let report = lab.recorded("./p", 0);
    // Both counters do equal work, so either may be named first.
    let line = report.lines().find(|l| l.contains("share a 64-byte line")).unwrap_or_default();
    assert!(line.contains("main.Counts.Hits`") && line.contains("main.Counts.Misses`"), "{report}");
    assert!(report.contains("the allocator was told the type"), "{report}");
    lab.make_go(&["-ldflags", "-s -w"]);
    // On a busy machine one of the two may work only while the other one waits for a CPU.
    let reports: Vec<String> = (0..4).map(|_| lab.recorded("./p", 0)).collect();
    let words = ["`runtime.mallocgc in main.main, bytes 0..7`", "p.go:", "main.add"];
    let found = reports.iter().filter(|r| words.iter().all(|w| r.contains(w))).count();
    assert!(found >= 3, "{reports:#?}");
}

#[test]
fn programs_of_another_machine_are_found() {
    let Some(lab) = Lab::new("qemu-aarch64") else { return };
    if !wish("aarch64-linux-gnu-gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let words = [&["aarch64-linux-gnu-gcc", "-O2", "-g", "-pthread", "p.c", "-o", "p"], flags].concat();
        lab.make(("p.c", C), &words);
        let report = lab.recorded("./p", 3);
        assert!(report.contains("aarch64") && report.contains("struct counts.hits"), "{report}");
        assert!((190_000..=210_000).contains(&expected(&report)), "{report}");
    }
}

#[test]
fn forks_exec_and_crashes_keep_the_program_s_own_result() {
    const LIFE: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int n, char **v) {
    int status;
    if (n < 2) return 9;
    if (!strcmp(v[1], "crash")) raise(SIGSEGV);
    if (!strcmp(v[1], "exec"))
        return execl("/bin/sh", "sh", "-c", "test -z \"$TUSSLE_SESSION\" && exit 5", (char *)0);
    if (fork() == 0) _exit(6);
    wait(&status);
    return WEXITSTATUS(status);
}
"#;
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    lab.make(("life.c", LIFE), &["gcc", "-O1", "-g", "life.c", "-o", "life"]);
    let all = [("fork", 6, "2 processes"), ("crash", 139, "1 process"), ("exec", 5, "1 process")];
    for (word, status, processes) in all {
        let out = lab.tussle(&["record", "--emulate", "--", "./life", word]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(status), "{word}: {said}");
        assert!(said.contains(&format!("tussle: {processes}, ")), "{word}: {said}");
    }
}

/// Two threads add to what a lock of the program's own protects, `HOLD` times each turn: `-DLOCK=` 1 test and set, 2 a
/// futex that counts down, 3 compare and exchange, 4 a queue (CLH), 5 a sequence lock, 6 tickets. With long turns
/// nothing is fought over.
const LOCKED: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
struct node { int busy; } __attribute__((aligned(64)));
static struct node nodes[3], *tail __attribute__((aligned(64))) = &nodes[2];
static __thread struct node *own, *before;
static int word __attribute__((aligned(64))), serving __attribute__((aligned(64)));
static struct { volatile long hits; volatile long misses; } held __attribute__((aligned(64)));
static volatile int started __attribute__((aligned(64)));
static void take(void) {
#if LOCK == 1
    while (__atomic_exchange_n(&word, 1, __ATOMIC_ACQUIRE)) usleep(100);
#elif LOCK == 2
    int seen = 0;
    if (__atomic_compare_exchange_n(&word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    if (seen != 2) seen = __atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE);
    while (seen) {
        syscall(SYS_futex, &word, 128, 2, (void *)0, (void *)0, 0);
        seen = __atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE);
    }
#elif LOCK == 4
    __atomic_store_n(&own->busy, 1, __ATOMIC_RELAXED);
    before = __atomic_exchange_n(&tail, own, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&before->busy, __ATOMIC_ACQUIRE)) sched_yield();
#elif LOCK == 5
    for (;;) {
        int seen = __atomic_load_n(&word, __ATOMIC_RELAXED);
        if (!(seen & 1)
            && __atomic_compare_exchange_n(&word, &seen, seen + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            break;
        sched_yield();
    }
#elif LOCK == 6
    int mine = __atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&serving, __ATOMIC_ACQUIRE) != mine) sched_yield();
#else
    for (int free = 0; !__atomic_compare_exchange_n(&word, &free, 7, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); free = 0)
        usleep(100);
#endif
}
static void give(void) {
#if LOCK == 2
    if (__atomic_fetch_sub(&word, 1, __ATOMIC_RELEASE) != 1) {
        __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
        syscall(SYS_futex, &word, 129, 1, (void *)0, (void *)0, 0);
    }
#elif LOCK == 4
    __atomic_store_n(&own->busy, 0, __ATOMIC_RELEASE);
    own = before;
#elif LOCK == 5
    __atomic_fetch_add(&word, 1, __ATOMIC_RELEASE);
#elif LOCK == 6
    __atomic_store_n(&serving, __atomic_load_n(&serving, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
#else
    __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
#endif
}
static void *work(void *p) {
    volatile long *count = p;
    own = &nodes[p == &held.hits];
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    while (started < 2) usleep(10);
    for (int turn = 0; turn < 200; turn++) {
        take();
        for (int i = 0; i < 1000; i++) ++*count;
        give();
    }
    return p;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, (void *)&held.hits);
    pthread_create(&b, 0, work, (void *)&held.misses);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%ld %ld\n", held.hits, held.misses);
    return 0;
}
"#;

#[test]
fn locks_made_of_atomics_protect_what_they_hold() {
    for (emulator, compiler) in [("qemu-x86_64", "gcc"), ("qemu-aarch64", "aarch64-linux-gnu-gcc")] {
        let Some(lab) = Lab::new(emulator) else { return };
        if !wish(compiler) {
            continue;
        }
        for lock in ["-DLOCK=1", "-DLOCK=2", "-DLOCK=3", "-DLOCK=4", "-DLOCK=5", "-DLOCK=6"] {
            for flag in ["-pie", "-static"] {
                // QEMU moves such a program: what queues hold is no address of the recorder's (docs/emulate.md).
                if (compiler, lock, flag) == ("aarch64-linux-gnu-gcc", "-DLOCK=4", "-static") {
                    continue;
                }
                let words = [compiler, "-O2", "-g", "-pthread", lock, flag, "l.c", "-o", "p"];
                lab.make(("l.c", LOCKED), &words);
                // Each turn takes the line once at most; without the lock half of 400,000 stores would. Stores are told
                // after they ran: one recording in twenty may miss a lock (docs/validation/emulated.md).
                let record = || {
                    let report = lab.recorded("./p", 0);
                    let fought = report.lines().find(|l| l.starts_with("1  ") && l.contains("held.hits"));
                    (fought.map_or(0, |_| expected(&report)), report)
                };
                let (mut e, mut report) = record();
                if e >= 20_000 {
                    (e, report) = record();
                }
                assert!(e < 20_000, "{compiler} {lock} {flag}: {report}");
            }
        }
    }
}

/// Three threads read what one of them has made before, `-DBY=` 1 in `pthread_once`, 2 under a mutex for which the
/// others wait, 3 until it exchanged a flag that the others poll. 4: each under a spin lock beside its data.
const BEFORE: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static pthread_once_t once __attribute__((aligned(128))) = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex __attribute__((aligned(128))) = PTHREAD_MUTEX_INITIALIZER;
static atomic_int flag __attribute__((aligned(128)));
static struct { volatile long hits; volatile long misses; } held __attribute__((aligned(128)));
static struct { pthread_spinlock_t lock; volatile long a, b; } spun __attribute__((aligned(128)));
static void make(void) {
    usleep(50000);
    for (int i = 0; i < 200000; i++) held.hits++;
    held.misses = 200000;
}
static void *work(void *p) {
    long me = (long)p, sum = 0;
#if BY == 1
    pthread_once(&once, make);
#elif BY == 2
    if (me) usleep(20000);
    pthread_mutex_lock(&mutex);
    if (!held.misses) make();
    pthread_mutex_unlock(&mutex);
#elif BY == 3
    if (me) while (!atomic_load(&flag)) sched_yield();
    else { make(); atomic_store(&flag, 1); }
#else
    for (int i = 0; i < 10000; i++) {
        pthread_spin_lock(&spun.lock);
        for (int k = 0; k < 10; k++) { spun.a++; spun.b++; }
        pthread_spin_unlock(&spun.lock);
        for (volatile int q = 0; q < 20; q++);
    }
    held.hits = held.misses = 200000;
    return p;
#endif
    for (int i = 0; i < 500000; i++) sum += held.misses;
    return (void *)sum;
}
int main(void) {
    pthread_t all[3];
    pthread_spin_init(&spun.lock, 0);
    for (long i = 0; i < 3; i++) pthread_create(&all[i], 0, work, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(all[i], 0);
    printf("%ld %ld\n", held.hits, held.misses);
    return 0;
}
"#;

#[test]
fn what_is_made_before_others_read_it_is_no_fight() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    for (by, fields) in [("1", None), ("2", None), ("3", None), ("4", Some("spun.lock"))] {
        for flag in ["-pie", "-static"] {
            let by = format!("-DBY={by}");
            lab.make(("m.c", BEFORE), &["gcc", "-O2", "-g", "-pthread", &by, flag, "m.c", "-o", "p"]);
            let report = lab.recorded("./p", 0);
            let found = report.lines().find(|l| l.contains("layout helps") && l.contains("⟷"));
            assert_eq!(found.is_some(), fields.is_some(), "{by} {flag}: {report}");
            assert!(fields.is_none_or(|f| found.is_some_and(|l| l.contains(f))), "{by} {flag}: {report}");
            // Whoever polls begins the function anew each time, and leaves it once: nothing after it may be missed.
            let all = |l: &str| l.contains("spun.a") && l.contains("300,000");
            assert!(fields.is_none() || report.lines().any(all), "{by} {flag}: {report}");
        }
    }
}

/// A shell that goes on as another program, or starts one, is not taken for that program. Nobody may read the remarks.
#[test]
fn a_launcher_is_not_the_program() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    lab.make(("c.c", C), &["gcc", "-O2", "-g", "-pthread", "c.c", "-o", "p"]);
    for words in [&["sh", "-c", "./p; exit 3"][..], &["env", "./p"]] {
        let all = [&["record", "--emulate", "--"], words].concat();
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status =
            c.args(all).current_dir(lab.path()).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(3), "{words:?}");
        let report = lab.tussle(&["report"]);
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        assert_eq!(report.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("other programs"), "{words:?}: {said}");
    }
}

/// Two threads take turns, told by `-DBY=` 1 semaphores, 2 pipes, 3 semaphores that are tried; who has its turn adds to
/// a word of its own, `ADDS` times.
const TURNS: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>
static sem_t turn[2];
static int pipes[2][2];
static struct { volatile long hits; volatile long misses; } held __attribute__((aligned(64)));
static void wait_for(long me) {
    char token;
#if BY == 2
    while (read(pipes[me][0], &token, 1) != 1);
#elif BY == 1
    while (sem_wait(&turn[me]));
#else
    while (sem_trywait(&turn[me])) usleep(200);
#endif
}
static void give(long to) {
#if BY == 2
    while (write(pipes[to][1], "t", 1) != 1);
#else
    sem_post(&turn[to]);
#endif
}
static void *work(void *p) {
    long me = (long)p;
    for (int k = 0; k < 10; k++) {
        wait_for(me);
        for (int i = 0; i < ADDS; i++) ++*(me ? &held.hits : &held.misses);
        give(1 - me);
    }
    return p;
}
int main(void) {
    pthread_t all[2];
    for (long i = 0; i < 2; i++) {
        sem_init(&turn[i], 0, 0);
        if (pipe(pipes[i])) return 1;
    }
    for (long i = 0; i < 2; i++) pthread_create(&all[i], 0, work, (void *)i);
    give(0);
    for (int i = 0; i < 2; i++) pthread_join(all[i], 0);
    printf("%ld %ld\n", held.hits, held.misses);
    return 0;
}
"#;

#[test]
fn turns_by_semaphores_and_pipes_are_no_fight() {
    for (emulator, compiler) in [("qemu-x86_64", "gcc"), ("qemu-aarch64", "aarch64-linux-gnu-gcc")] {
        let Some(lab) = Lab::new(emulator) else { return };
        if !wish(compiler) {
            continue;
        }
        for by in ["-DBY=1", "-DBY=2", "-DBY=3"] {
            for flag in ["-pie", "-static"] {
                let words = [compiler, "-O2", "-g", "-pthread", by, "-DADDS=20000", flag, "t.c", "-o", "p"];
                lab.make(("t.c", TURNS), &words);
                let report = lab.recorded("./p", 0);
                // At the same time half of 400,000 stores would find the line elsewhere.
                let fought = report.lines().find(|l| l.starts_with("1  ") && l.contains("held.hits"));
                let e = fought.map_or(0, |_| expected(&report));
                assert!(e < 20_000, "{compiler} {by} {flag}: {report}");
            }
        }
    }
}

#[test]
fn riscv_programs_are_named_by_variable_function_and_line() {
    let Some(lab) = Lab::new("qemu-riscv64") else { return };
    if !wish("riscv64-linux-gnu-gcc") {
        return;
    }
    for flag in ["-pie", "-static"] {
        lab.make(("p.c", C), &["riscv64-linux-gnu-gcc", "-O2", "-g", "-pthread", flag, "p.c", "-o", "p"]);
        let report = lab.recorded("./p", 3);
        assert!(report.contains("riscv64") && report.contains("hit()"), "{report}");
        assert!(report.contains("p.c:12") && report.contains("struct counts.hits"), "{report}");
        assert!((190_000..=210_000).contains(&expected(&report)), "{report}");
    }
}

/// Code that adds to one of two words, made at run time; its names are left as JIT compilers leave them.
const MADE: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static struct { volatile long hits; volatile long misses; } counts __attribute__((aligned(64)));
/* mov $200000, %ecx; 1: incq (%rdi); dec %ecx; jnz 1b; ret */
static const unsigned char CODE[] = { 0xb9, 0x40, 0x0d, 3, 0, 0x48, 0xff, 7, 0xff, 0xc9, 0x75, 0xf9, 0xc3 };
static char *code;
static void *run(void *p) {
    ((void (*)(void *))(code + (p == &counts.hits ? 0 : 64)))(p);
    return p;
}
static void name(FILE *f, char *at, const char *what) {
#ifdef DUMP
    unsigned head[6] = { 0, 56 + strlen(what) + 1, 0, 0, getpid(), getpid() };
    unsigned long tail[4] = { (unsigned long)at, (unsigned long)at, 64, 1 };
    fwrite(head, sizeof head, 1, f);
    fwrite(tail, sizeof tail, 1, f);
    fwrite(what, strlen(what) + 1, 1, f);
#else
    fprintf(f, "%lx 40 %s\n", (unsigned long)at, what);
#endif
}
int main(void) {
    char path[64];
    pthread_t a, b;
    code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, CODE, sizeof CODE);
    memcpy(code + 64, CODE, sizeof CODE);
#ifdef DUMP
    snprintf(path, sizeof path, "jit-%d.dump", getpid());
    FILE *f = fopen(path, "w+");
    unsigned head[10] = { 0x4a695444, 1, 40, 62, 0, getpid() };
    fwrite(head, sizeof head, 1, f);
    fflush(f);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
#else
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *f = fopen(path, "w");
#endif
    name(f, code, "made_hit(int)");
    name(f, code + 64, "made_miss(int)");
    fclose(f);
    pthread_create(&a, 0, run, (void *)&counts.hits);
    pthread_create(&b, 0, run, (void *)&counts.misses);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%ld %ld\n", counts.hits, counts.misses);
    return 0;
}
"#;

#[test]
fn code_made_at_run_time_has_the_names_that_its_maker_left() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    for flag in ["-UDUMP", "-DDUMP"] {
        lab.make(("m.c", MADE), &["gcc", "-O2", "-g", "-pthread", flag, "m.c", "-o", "p"]);
        let report = lab.recorded("./p", 0);
        assert!(report.contains("made_hit(int)") && report.contains("made_miss(int)"), "{flag}: {report}");
        assert!(expected(&report) > 190_000, "{report}");
    }
}

/// What the emulator does not know, does alone, or cannot go on after.
#[test]
fn faults_end_as_under_plain_emulation_and_leave_what_was_recorded() {
    const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static struct { volatile long hits; volatile long misses; } counts __attribute__((aligned(64)));
static void *hit(void *p) { for (long i = 0; i < 200000; i++) counts.hits++; return p; }
static void *miss(void *p) { for (long i = 0; i < 200000; i++) counts.misses++; return p; }
static void caught(int s, siginfo_t *i, void *c) { printf("%d %d\n", s, i->si_code); fflush(stdout); _exit(7); }
int main(int n, char **v) {
    pthread_t a, b;
    struct sigaction act = { .sa_sigaction = caught, .sa_flags = SA_SIGINFO };
    pthread_create(&a, 0, hit, 0);
    pthread_create(&b, 0, miss, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(v[1], "unknown")) { long r = syscall(999); printf("%ld %d\n", r, errno); return 4; }
    if (!strcmp(v[1], "unsupported")) {
        long r = syscall(SYS_io_uring_setup, 1, page);
        printf("%ld %d\n", r, errno);
        return 4;
    }
    if (!strcmp(v[1], "caught")) { sigaction(SIGSEGV, &act, 0); *page = 1; }
    if (!strcmp(v[1], "atomic")) { sigaction(SIGSEGV, &act, 0); __atomic_fetch_add((int *)page, 1, 5); }
    if (!strcmp(v[1], "nowhere")) { sigaction(SIGSEGV, &act, 0); __atomic_exchange_n((int *)8, 1, 5); }
    if (!strcmp(v[1], "illegal")) __builtin_trap();
    if (!strcmp(v[1], "killed")) raise(SIGKILL);
    if (!strcmp(v[1], "forked")) {
        int status;
        if (fork() == 0) { char *no = 0; *(volatile char *)no = 1; }
        wait(&status);
        return WTERMSIG(status);
    }
    if (!strcmp(v[1], "other")) { execl("/bin/sh", "sh", "-c", "echo other; exit 6", (char *)0); }
    return 0;
}
"#;
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    lab.make(("f.c", FAULTS), &["gcc", "-O1", "-g", "-pthread", "f.c", "-o", "f"]);
    let all =
        ["unknown", "unsupported", "caught", "atomic", "nowhere", "illegal", "killed", "forked", "other"];
    for word in all {
        let mut plain = Command::new("qemu-x86_64");
        let plain = plain.args(["./f", word]).current_dir(lab.path()).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&plain.status);
        let out = lab.tussle(&["record", "--emulate", "--", "./f", word]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), plain.status.code().or(signal.map(|s| 128 + s)), "{word}: {said}");
        assert_eq!(out.stdout, plain.stdout, "{word}: {said}");
        let report = lab.tussle(&["report"]);
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.contains("counts.hits") && expected(&report) > 190_000, "{word}: {report}");
    }
}

#[test]
fn what_cannot_be_emulated_is_refused_with_the_reason() {
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.path().join("s"), "#!/bin/sh\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(lab.path().join("s"), executable).unwrap();
    let out = lab.tussle(&["record", "--emulate", "--", "./s"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("script") && said.contains("/bin/sh"), "{said}");
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let c = c.args(["record", "--emulate", "--", "/bin/true"]).env("TUSSLE_QEMU_USER", "/nonexistent/qemu");
    let out = c.current_dir(lab.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("qemu-user"), "{said}");
}
