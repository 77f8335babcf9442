//! Programs whose threads sleep and wake all the time: the clock of their threads costs more than its samples.

use super::faults::{compile, ends, for_all};
use super::{Lab, Running, finds_the_fight, is_root, said};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tussle_testkit::{need, skip};

/// Two threads that fight, and between two strokes wait for each other: a wake-up every few microseconds.
const TURNS: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    struct pair { volatile long left, right; } pair __attribute__((aligned(64)));
    static int there[2], back[2];
    static void *right(void *at) {
        char c;
        while (read(there[0], &c, 1) == 1) {
            for (int n = 0; n < 3000; n++) pair.right++;
            if (write(back[1], &c, 1) != 1) break;
        }
        return at;
    }
    int main(void) {
        pthread_t a;
        char c = 0;
        alarm(60);
        if (pipe(there) || pipe(back)) return 1;
        pthread_create(&a, 0, right, 0);
        for (;;) {
            if (write(there[1], &c, 1) != 1) return 1;
            for (int n = 0; n < 3000; n++) pair.left++;
            if (read(back[0], &c, 1) != 1) return 1;
        }
    }"#;

#[test]
fn the_clocks_of_cpus_take_over_and_tell_of_the_target_alone() {
    let Some(lab) = Lab::new() else { return };
    if !is_root() {
        return skip("clocks of CPUs need root");
    }
    compile(&lab, "turns", TURNS);
    let run = Running(Command::new("./turns").current_dir(lab.at()).spawn().unwrap());
    // Somebody else, who is busy and starts and ends processes.
    let others = "for i in $(seq 9000); do true | true; done";
    let _other = Running(Command::new("sh").args(["-c", others]).spawn().unwrap());
    let pid = run.0.id().to_string();
    let out = lab.tussle(&["live", "--duration", "4s", "--overhead", "10%", "-p", &pid]);
    finds_the_fight(&out);
    assert!(said(&out).contains("the clock is that of all CPUs"), "{}", said(&out));
    assert!(!said(&out).contains("the clock paused"), "{}", said(&out));
    assert_eq!(ends(&lab, "tussle.data").len(), 1, "processes of others");
}

#[test]
fn who_may_not_watch_cpus_gets_what_the_budget_has_room_for() {
    let Some(lab) = Lab::new() else { return };
    if !is_root() || !need("setpriv") {
        return skip("changing rights needs root and setpriv");
    }
    compile(&lab, "turns", TURNS);
    let (tussle, open) = for_all(&lab);
    std::fs::copy(lab.at().join("turns"), open.join("turns")).unwrap();
    let as_nobody = |program: &Path| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        setpriv.arg(program).current_dir(&open);
        setpriv
    };
    let run = Running(as_nobody(Path::new("./turns")).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let pid = run.0.id().to_string();
    let out = as_nobody(&tussle)
        .args(["live", "--duration", "4s", "--overhead", "10%", "-p", &pid])
        .output()
        .unwrap();
    if !out.status.success() {
        return skip(&said(&out));
    }
    assert!(said(&out).contains("the clock paused"), "{}", said(&out));
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(shown.contains("sampled accesses: a line is judged from 100 on"), "{shown}");
    assert!(!said(&out).contains("that of all CPUs"), "{}", said(&out));
}
