//! Real programs, watched while they run. They are compiled without instrumentation, at -O2.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tussle_host::images::HostImages;
use tussle_host::live::{LiveError, LiveImages, Options, Sampling, Watching, Who};

/// Two threads store to neighbours on one line, and now and then to memory of their own.
const TWO: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>
struct stats { uint64_t head[8]; volatile uint64_t hits, misses; uint64_t tail[6]; };
struct stats totals __attribute__((aligned(64)));
struct { volatile uint64_t mine; char pad[120]; } own[2] __attribute__((aligned(128)));
static void *first(void *x) { for (;;) { own[0].mine++; totals.hits++; } return x; }
static void *second(void *x) { for (;;) { own[1].mine++; totals.misses++; } return x; }
int main(void) {
    pthread_t t[2];
    pthread_create(t, 0, first, 0);
    pthread_create(t + 1, 0, second, 0);
    sleep(60);
    return 0;
}
"#;

fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (c, out) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&c, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-pthread", "-o"]).arg(&out).arg(&c).args(flags);
    assert!(gcc.status().unwrap().success());
    out
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn new(program: &Path) -> Running {
        Running(Command::new(program).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn options(who: Who) -> Options {
    Options { who, sampling: Sampling::Best, rate_hz: None, overhead: 0.2, confirm: true }
}

/// `None` where perf events are refused; says so.
fn start(who: Who) -> Option<Watching> {
    match Watching::start(options(who)) {
        Ok(w) => Some(w),
        Err(e @ (LiveError::Paranoid { .. } | LiveError::Seccomp | LiveError::NoPerf)) => {
            tussle_testkit::skip(&e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Threads that are busy at the same time are needed.
fn two_cpus() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !enough {
        tussle_testkit::skip("one CPU: threads do not meet");
    }
    enough && tussle_testkit::need("gcc")
}

/// Watches until the line has enough samples; a busy machine takes longer.
fn until(watching: &mut Watching, enough: impl Fn(&Watching) -> bool) {
    for _ in 0..60 {
        watching.step(Duration::from_millis(500));
        if enough(watching) {
            return;
        }
    }
}

#[test]
fn two_counters_on_one_line_are_found_confirmed_and_named() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "two", TWO, &["-g"]);
    let running = Running::new(&program);
    std::thread::sleep(Duration::from_millis(200));
    let Some(mut watching) = start(Who::Pids(vec![running.0.id()])) else { return };
    until(&mut watching, |w| {
        let worst = w.session.lines.ranked().next().map_or(0, |l| l.1.samples);
        worst >= 300 && w.session.confirmed.tallies.values().filter(|t| t.hits > 0).count() >= 4
    });
    let counts = watching.session.counts;
    let ranked: Vec<_> = watching.session.lines.ranked().collect();
    assert!(!ranked.is_empty(), "{counts:?}");
    assert_eq!(ranked[0].1.words(), [0, 1], "{counts:?}");
    let (mut e, operands) = watching.evidence();
    let mut images = LiveImages { procs: watching.procs(), host: HostImages::new() };
    tussle_naming::name_sampled(&mut e, &mut images, &operands.into_iter().collect());
    let totals = e.objects.iter().position(|o| o.name.as_deref() == Some("totals")).unwrap() as u32;
    let on: Vec<_> = e.samples.iter().flatten().filter(|s| s.object == totals).collect();
    assert!(on.iter().all(|s| [64, 72].contains(&s.offset) && s.size == 8));
    let functions: std::collections::BTreeSet<&str> = on
        .iter()
        .filter_map(|s| e.code[s.code? as usize].frames.first().map(|f| f.function.as_str()))
        .collect();
    assert_eq!(functions.into_iter().collect::<Vec<_>>(), ["first", "second"]);
    if let Some(why) = watching.unconfirmed() {
        return tussle_testkit::skip(&format!("not confirmed: {why}"));
    }
    // Each thread was caught at its own word and never at the other one.
    let rates: Vec<_> = e.rates.iter().flatten().filter(|r| r.object == totals && r.events > 0).collect();
    let by_word = |offset: u64| -> std::collections::BTreeSet<Option<u32>> {
        rates.iter().filter(|r| r.offset == offset).map(|r| r.actor).collect()
    };
    let (hits, misses) = (by_word(64), by_word(72));
    assert_eq!((hits.len(), misses.len()), (1, 1), "{rates:?}");
    assert_ne!(hits, misses);
}
