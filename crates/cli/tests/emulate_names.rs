//! Whose memory it is, under emulation: variables of a thread on its stack and beside it, and what the C library keeps
//! for itself, in a program that is linked with it, too.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use tussle_testkit::need;

/// Two threads fight for a struct on the stack of one (`s`) or for its thread-local variable (`t`), or hand blocks on
/// that the other one frees.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
struct frame { volatile long tx, rx; };
static __thread struct frame of_thread __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static struct {
	pthread_mutex_t mutex __attribute__((aligned(64)));
	pthread_cond_t filled, emptied;
	void *slot[16];
	int first, last;
} queue = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };

static void *second(void *p) {
	struct frame *f = p;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 100000; i++) f->rx++;
	return p;
}
static void *owner(void *way) {
	struct frame on_stack __attribute__((aligned(64))) = { 0, 0 };
	struct frame *f = way ? &of_thread : &on_stack;
	pthread_t t;
	pthread_create(&t, 0, second, f);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 100000; i++) f->tx++;
	pthread_join(t, 0);
	return way;
}
static void *frees(void *p) {
	for (int k = 0; k < 6000; k++) {
		pthread_mutex_lock(&queue.mutex);
		while (queue.first == queue.last) pthread_cond_wait(&queue.filled, &queue.mutex);
		void *block = queue.slot[queue.first++ % 16];
		pthread_cond_signal(&queue.emptied);
		pthread_mutex_unlock(&queue.mutex);
		free(block);
	}
	return p;
}
static void makes(void) {
	pthread_t t;
	pthread_create(&t, 0, frees, 0);
	for (int k = 0; k < 6000; k++) {
		void *block = aligned_alloc(64, 128);
		pthread_mutex_lock(&queue.mutex);
		while (queue.last - queue.first == 16) pthread_cond_wait(&queue.emptied, &queue.mutex);
		queue.slot[queue.last++ % 16] = block;
		pthread_cond_signal(&queue.filled);
		pthread_mutex_unlock(&queue.mutex);
	}
	pthread_join(t, 0);
}
int main(int argc, char **argv) {
	pthread_t t;
	pthread_barrier_init(&barrier, 0, 2);
	if (argc < 2) {
		makes();
		return 0;
	}
	pthread_create(&t, 0, owner, argv[1][0] == 't' ? argv : 0);
	pthread_join(t, 0);
	return 0;
}
"#;

#[test]
fn variables_of_threads_have_names_and_the_allocators_are_nobody_s() {
    if !need("qemu-x86_64") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    std::fs::write(lab.path().join("p.c"), PROGRAM).unwrap();
    let report = |words: &[&str]| {
        let tussle = |words: &[&str]| {
            let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
            c.args(words).current_dir(lab.path()).stdin(Stdio::null()).output().unwrap()
        };
        let out = tussle(&[&["record", "--emulate", "-q", "--", "./p"], words].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let out = tussle(&["report"]);
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    for linked in [&[][..], &["-static"]] {
        let args = [&["-O2", "-g", "-pthread", "p.c", "-o", "p"], linked].concat();
        assert!(Command::new("gcc").args(args).current_dir(lab.path()).status().unwrap().success());
        for (way, tx, rx) in
            [("stack", "struct frame.tx", "struct frame.rx"), ("tls", "of_thread.tx", "of_thread.rx")]
        {
            let (status, text) = report(&[way]);
            let worst = text.lines().find(|l| l.starts_with("worst")).unwrap_or_default();
            assert!(
                status == Some(1) && worst.contains(tx) && worst.contains(rx),
                "{way} {linked:?}: {text}"
            );
        }
        let (status, text) = report(&[]);
        assert_eq!(status, Some(0), "{linked:?}: {text}");
    }
}
