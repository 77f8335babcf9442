//! What gcc's OpenMP orders is known under emulation, too, in a program that links it statically: its critical sections
//! and barriers part what one thread after the other does, and what nobody orders stays a fight.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use tussle_testkit::need;

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
            let tussle = |words: &[&str]| {
                let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
                c.args(words).current_dir(lab.path()).stdin(Stdio::null()).output().unwrap()
            };
            // Threads of a busy machine may run one after the other: then nothing fights.
            let status = (0..3).map(|_| {
                let out = tussle(&["record", "--emulate", "-q", "--", "./turns", way]);
                assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                tussle(&["report"]).status.code()
            });
            let seen: Vec<_> = status.collect();
            let right = seen.iter().filter(|s| **s == Some(fights)).count();
            assert!(right >= 2, "{link} {way}: {seen:?}");
        }
    }
}
