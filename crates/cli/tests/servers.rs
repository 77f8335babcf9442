//! A server with a driver: recorded until the load is over, ended by SIGTERM, which is no failure.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use tussle_testkit::need;

/// Two threads count requests side by side; a line says when it listens; SIGTERM ends it as it ends most servers.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
struct stats { volatile long served, dropped; };
static struct stats *stats;
static void *housekeeping(void *p) {
	for (;;) {
		for (int i = 0; i < 20000; i++)
			stats->dropped++;
		usleep(1000);
	}
	return p;
}
int main(int argc, char **argv) {
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1, s = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t n = sizeof at;
	pthread_t t;
	(void)argc;
	at.sin_port = htons(atoi(argv[2]));
	stats = calloc(1, sizeof *stats);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 16) || getsockname(s, (struct sockaddr *)&at, &n))
		return 1;
	printf("listening on %d\n", ntohs(at.sin_port));
	fflush(stdout);
	FILE *f = fopen("port", "w");
	fprintf(f, "%d", ntohs(at.sin_port));
	fclose(f);
	pthread_create(&t, NULL, housekeeping, NULL);
	for (;;) {
		int c = accept(s, NULL, NULL);
		for (int i = 0; i < 20000; i++)
			stats->served++;
		close(c);
	}
}
"#;

/// Twenty requests, and a figure.
const LOAD: &str = "bash -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                    : </dev/tcp/127.0.0.1/$(cat port); done; echo 20'";

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.args(arguments).current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache")).env("NO_COLOR", "1");
    c.output().unwrap()
}

fn lab() -> tempfile::TempDir {
    let lab = tempfile::tempdir().unwrap();
    std::fs::create_dir(lab.path().join("p")).unwrap();
    std::fs::write(lab.path().join("p/server.c"), SERVER).unwrap();
    lab
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_is_recorded_until_its_load_is_over() {
    if !need("gcc") || !need("bash") {
        return;
    }
    let lab = lab();
    let built = tussle(lab.path(), &["cc", "-O1", "-g", "-pthread", "p/server.c", "-o", "server"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let service = ["record", "--load", LOAD, "--ready", "line:listening", "--for", "20s"];
    // Through a program that is not instrumented, too.
    for command in
        [&["--", "./server", "--port", "0"][..], &["--children", "--", "sh", "-c", "./server --port 0; :"]]
    {
        let out = tussle(lab.path(), &[&service[..], command].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(!said.contains("ended with"), "{said}");
        let report = text(&tussle(lab.path(), &["report"]).stdout);
        assert!(report.contains("stats.served"), "{report}\n{said}");
    }
    let out = tussle(lab.path(), &["record", "--load", "exit 3", "--", "./server", "--port", "0"]);
    assert!(text(&out.stderr).contains("ended with exit status: 3"), "{}", text(&out.stderr));
}

#[test]
fn a_server_is_hunted_with_its_load() {
    if !need("gcc") || !need("bash") {
        return;
    }
    let lab = lab();
    let mut hunt =
        vec!["hunt", "p", "--run", "./server --port 0", "--load", LOAD, "--ready", "line:listening"];
    hunt.extend(["--for", "20s", "--pairs", "2", "--metric", "last-number", "--format", "json"]);
    let out = tussle(lab.path(), &hunt);
    let (shown, said) = (text(&out.stdout), text(&out.stderr));
    assert!(shown.contains("struct stats.served"), "{shown}\n{said}");
    assert!(shown.contains("\"measured\""), "{shown}\n{said}");
}

/// The server forks away and its parent ends: nothing was driven, and nothing found is no result. No server is left.
#[test]
fn a_server_that_goes_into_the_background_is_not_called_clean() {
    if !need("gcc") || !need("bash") {
        return;
    }
    let lab = lab();
    let away = SERVER.replace(
        "\tstats = calloc",
        "\tif (daemon(1, 0))\n\t\treturn 1;\n\tFILE *own = \
        fopen(\"pid\", \"w\");\n\tfprintf(own, \"%d\", getpid());\n\tfclose(own);\n\tstats = calloc",
    );
    std::fs::write(lab.path().join("p/server.c"), format!("#define _GNU_SOURCE{away}")).unwrap();
    let hunt = ["hunt", "p", "--run", "./server --port 0", "--load", LOAD, "--ready", "line:listening"];
    let out = tussle(lab.path(), &[&hunt[..], &["--no-bench"]].concat());
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("before it could be driven"), "{said}");
    let built = tussle(lab.path(), &["cc", "-O1", "-g", "-pthread", "p/server.c", "-o", "server"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let ready = ["record", "--load", LOAD, "--ready", "port:1", "--", "./server", "--port", "0"];
    assert_eq!(tussle(lab.path(), &ready).status.code(), Some(125));
    let pid = std::fs::read_to_string(lab.path().join("pid")).unwrap();
    let ended = || !Path::new(&format!("/proc/{}/exe", pid.trim())).exists();
    assert!((0..500).any(|_| ended() || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        false
    }));
}

/// Twice forked, in a session of its own: it belongs to no group of ours, and its time is over with the others'.
#[test]
fn what_has_left_the_group_ends_when_the_time_is_over() {
    if !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let away = "#include <stdio.h>
#include <unistd.h>
volatile long n;
int main(void) {
	if (!fork()) {
		setsid();
		if (fork()) _exit(0);
		FILE *own = fopen(\"pid\", \"w\");
		fprintf(own, \"%d\", getpid());
		fclose(own);
	}
	for (;;) { n++; usleep(1000); }
}
";
    std::fs::write(lab.path().join("away.c"), away).unwrap();
    let built = tussle(lab.path(), &["cc", "-g", "away.c", "-o", "away"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let out = tussle(lab.path(), &["record", "--for", "3s", "--", "./away"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let pid = std::fs::read_to_string(lab.path().join("pid")).unwrap();
    let gone = std::fs::read(format!("/proc/{}/environ", pid.trim())).unwrap_or_default().is_empty();
    assert!(gone, "{pid} still runs");
}
