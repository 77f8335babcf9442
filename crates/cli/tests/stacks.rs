//! A struct on main's stack, shared with threads through a pointer, is named like any other.

use std::process::Command;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
struct shared { long hits; long misses; pthread_mutex_t lock; int closed; };
struct arg { struct shared *s; int who; };
static void *work(void *p) {
	struct arg *a = p;
	struct shared *s = a->s;
	for (int i = 0; i < 200000; i++) {
		if (a->who) s->hits++;
		else s->misses++;
		__asm__ volatile("" ::: "memory");
	}
	/* One call touches several words of the lock. */
	pthread_mutex_lock(&s->lock);
	s->closed++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}
int main(void) {
	struct shared s = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct arg a[2] = {{&s, 0}, {&s, 1}};
	pthread_t t[2];
	for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, &a[i]);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	printf("%ld %ld\n", s.hits, s.misses);
	return 7;
}
"#;

#[test]
fn a_shared_struct_on_a_stack_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let tussle = |arguments: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(arguments).current_dir(dir.path()).env("XDG_CACHE_HOME", dir.path().join("cache"));
        c.output().unwrap()
    };
    std::fs::write(dir.path().join("s.c"), PROGRAM).unwrap();
    let built = tussle(&["cc", "-O2", "-g", "-pthread", "s.c", "-o", "s"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // `record` returns the program's own status and leaves its output alone.
    let recorded = tussle(&["record", "--", "./s"]);
    assert_eq!(recorded.status.code(), Some(7), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert_eq!(recorded.stdout, b"200000 200000\n");
    let report = tussle(&["report", "--format", "json"]);
    assert_eq!(report.status.code(), Some(1));
    let view: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(view["problems"], serde_json::Value::Null, "{}", view["problems"]);
    let fields = view["lines"][0]["fields"].as_str().unwrap();
    assert!(fields.contains("struct shared.hits") && fields.contains("struct shared.misses"), "{fields}");
}
