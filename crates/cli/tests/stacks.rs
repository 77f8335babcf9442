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

/// Atomics of a class that is a local variable, changed by the class's methods in a lambda and beside it.
const CLASS: &str = r#"
#include <atomic>
#include <thread>
class Job {
	std::atomic<long> done{0};
	std::atomic<long> polls{0};
public:
	void step() {
		done.fetch_add(1, std::memory_order_relaxed);
	}
	void poll() {
		polls.fetch_add(1, std::memory_order_relaxed);
	}
	long all() const { return done.load() + polls.load(); }
};
static long session() {
	Job job;
	std::thread worker([&job] {
		for (int i = 0; i < 200000; i++) job.step();
	});
	for (int i = 0; i < 200000; i++) job.poll();
	worker.join();
	return job.all();
}
int main() {
	long n = 0;
	std::thread([&n] { n = session(); }).join();
	return n == 400000 ? 7 : 1;
}
"#;

/// Records the program, which ends with 7, and what `report` says of its worst line.
fn fields_of(source: &str, text: &str, build: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let tussle = |arguments: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(arguments).current_dir(dir.path()).env("XDG_CACHE_HOME", dir.path().join("cache"));
        c.output().unwrap()
    };
    std::fs::write(dir.path().join(source), text).unwrap();
    let built = tussle(&[&["cc", "-O2", "-g", "-pthread", source, "-o", "s"], build].concat());
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // `record` returns the program's own status and leaves its output alone.
    let recorded = tussle(&["record", "--", "./s"]);
    assert_eq!(recorded.status.code(), Some(7), "{}", String::from_utf8_lossy(&recorded.stderr));
    if source == "s.c" {
        assert_eq!(recorded.stdout, b"200000 200000\n");
    }
    let report = tussle(&["report", "--format", "json"]);
    assert_eq!(report.status.code(), Some(1));
    let view: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(view["problems"], serde_json::Value::Null, "{}", view["problems"]);
    view["lines"][0]["fields"].as_str().unwrap().to_string()
}

#[test]
fn a_shared_struct_on_a_stack_is_named() {
    let fields = fields_of("s.c", PROGRAM, &[]);
    assert!(fields.contains("struct shared.hits") && fields.contains("struct shared.misses"), "{fields}");
}

#[test]
fn a_class_on_a_stack_is_named_and_not_what_its_members_are_made_of() {
    let fields = fields_of("s.cc", CLASS, &["-lstdc++"]);
    assert!(fields.contains("job.done") && fields.contains("job.polls"), "{fields}");
}
