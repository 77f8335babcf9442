//! What parts the turns of threads is known under emulation, too, and what nobody orders stays a fight: gcc's OpenMP,
//! linked statically, and a barrier of the program's own.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};
use tussle_testkit::{need, wish};

/// Every thread counts in the word that is its turn's: one after the other in critical sections, behind barriers or
/// locks, or all at once.
const PROGRAM: &str = r#"
#include <omp.h>
#include <stdio.h>
static struct { volatile long even, odd; } counts;
static omp_lock_t lock;
int main(int argc, char **argv)
{
	int way = argc > 1 ? argv[1][0] : 'c';
	omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
	{
		volatile long *mine = omp_get_thread_num() ? &counts.odd : &counts.even;
		for (int round = 0; round < 40; round++) {
			if (way == 'c') {
#pragma omp critical
				for (int i = 0; i < 500; i++) (*mine)++;
			} else if (way == 'l') {
				omp_set_lock(&lock);
				for (int i = 0; i < 500; i++) (*mine)++;
				omp_unset_lock(&lock);
			} else if (way == 'b') {
				if (round % 2 == omp_get_thread_num())
					for (int i = 0; i < 500; i++) (*mine)++;
#pragma omp barrier
			} else {
				for (int i = 0; i < 5000; i++) (*mine)++;
			}
		}
	}
	printf("%d\n", counts.even == counts.odd);
	return 0;
}
"#;

/// Records a program of the folder under emulation, and reports: the status of the report.
#[track_caller]
fn judged(folder: &Path, program: &[&str]) -> Option<i32> {
    let tussle = |words: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
    };
    let out = tussle(&[&["record", "--emulate", "-q", "--"], program].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    tussle(&["report"]).status.code()
}

#[test]
fn what_openmp_orders_is_no_fight() {
    if !need("qemu-x86_64") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    std::fs::write(lab.path().join("turns.c"), PROGRAM).unwrap();
    for link in ["-static", "-rdynamic"] {
        let args = ["-O2", "-g", "-fopenmp", link, "-o", "turns", "turns.c"];
        let built = Command::new("gcc").args(args).current_dir(lab.path()).status().unwrap();
        assert!(built.success(), "{link}");
        for (way, fights) in [("critical", 0), ("lock", 0), ("barrier", 0), ("none", 1)] {
            // Threads of a busy machine may run one after the other: then nothing fights.
            let seen: Vec<_> = (0..3).map(|_| judged(lab.path(), &["./turns", way])).collect();
            let right = seen.iter().filter(|s| **s == Some(fights)).count();
            assert!(right >= 2, "{link} {way}: {seen:?}");
        }
    }
}

/// Threads take turns of `STEP` additions, parted by a barrier if `APART` is defined. Where its phase lies is
/// kept on the stack of who waits, as it is in loops that compilers do not see through.
const BARRIER: &str = r#"
#include <pthread.h>
#include <sched.h>
enum { THREADS = 4, STEPS = 80, STEP = 2000 };
/* The whole line: libgcc has a flag for atomic instructions that would lie behind it. */
static struct { volatile long count[THREADS], rest[16 - THREADS]; } shared __attribute__((aligned(128)));
static int left __attribute__((aligned(64))) = THREADS;
static volatile char phase __attribute__((aligned(64)));
static void arrive(void) {
#ifdef APART
	volatile char *volatile where = &phase;
	char before = *where;
	if (__atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL) == 0) {
		left = THREADS;
		__atomic_store_n(&phase, before + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int n = 1; *where == before; n++)
		if (n % 16 == 0) sched_yield();
#endif
}
static void *work(void *p) {
	long me = (long)p;
	for (int step = 0; step < STEPS; step++) {
		arrive();
		if (step % THREADS == me)
			for (int i = 0; i < STEP; i++) shared.count[me]++;
	}
	return p;
}
int main(void) {
	pthread_t t[THREADS];
	for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)i);
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
	return 0;
}
"#;

#[test]
fn turns_by_a_barrier_whose_waiters_read_their_stacks_are_no_fight() {
    for (emulator, compiler) in [("qemu-x86_64", "gcc"), ("qemu-aarch64", "aarch64-linux-gnu-gcc")] {
        if !need(emulator) || !wish(compiler) {
            continue;
        }
        let lab = tempfile::tempdir().unwrap();
        std::fs::write(lab.path().join("b.c"), BARRIER).unwrap();
        let status = |defines: &str| {
            let args = ["-O2", "-g", "-pthread", defines, "b.c", "-o", "b"];
            let built = Command::new(compiler).args(args).current_dir(lab.path()).status().unwrap();
            assert!(built.success());
            judged(lab.path(), &["./b"])
        };
        // As above.
        let apart: Vec<_> = (0..3).map(|_| status("-DAPART")).collect();
        assert!(apart.iter().filter(|s| **s == Some(0)).count() >= 2, "{compiler}: {apart:?}");
        let at_once: Vec<_> = (0..3).map(|_| status("-DTOGETHER")).collect();
        assert!(at_once.contains(&Some(1)), "{compiler}: {at_once:?}");
    }
}
