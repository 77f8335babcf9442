//! Programs that end when they are told to: started, waited for until they answer, driven by a load, stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait until the program can be driven.
const READY_MAX: Duration = Duration::from_secs(60);
/// A program without another sign counts as ready after this.
const READY_AFTER: Duration = Duration::from_secs(1);
/// How long a program may take to end after SIGTERM; then it is killed.
const END_MAX: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// What shows that a program can be driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It takes connections on this TCP port of the loopback.
    Port(u16),
    /// It writes a line with this text.
    Line(String),
    /// A second has passed.
    Soon,
}

impl Ready {
    /// What is waited for.
    fn words(&self) -> String {
        match self {
            Ready::Port(port) => format!("an answer on port {port}"),
            Ready::Line(text) => format!("a line with `{text}`"),
            Ready::Soon => "the program".into(),
        }
    }
}

impl std::str::FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Ready, String> {
        let wrong = || format!("`{text}`: say port:NUMBER or line:TEXT");
        match text.split_once(':') {
            Some(("port", n)) => n.parse().map(Ready::Port).map_err(|_| wrong()),
            Some(("line", t)) if !t.is_empty() => Ok(Ready::Line(t.into())),
            _ => Err(wrong()),
        }
    }
}

impl Ready {
    /// The port that a command line names (`--port 7000`, `-p 7000`, `--port=7000`), if it does.
    pub fn of_command(words: &[String]) -> Ready {
        let after = |w: &[String]| match w[0].as_str() {
            "--port" | "-p" | "-P" => w[1].parse().ok(),
            _ => None,
        };
        let joined = |w: &String| w.strip_prefix("--port=")?.parse().ok();
        let port: Option<u16> = words.windows(2).find_map(after).or_else(|| words.iter().find_map(joined));
        // 0 stands for any: which one the server says itself.
        port.filter(|p| *p != 0).map_or(Ready::Soon, Ready::Port)
    }
}

/// How a program is driven and when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Shell command that drives it, not recorded; `None`: it has work of its own.
    pub load: Option<String>,
    /// When the load may begin.
    pub ready: Ready,
    /// The load runs for so long first, and is then started again.
    pub warmup: Option<Duration>,
    /// The load is ended after this; without it the load ends by itself.
    pub time: Option<Duration>,
    /// Where the load runs.
    pub folder: Option<PathBuf>,
}

/// How it went.
#[derive(Debug)]
pub struct Served {
    /// The program's end; `None` where waiting failed.
    pub status: ExitStatus,
    /// It ended because it was told to.
    pub stopped: bool,
    /// There is a load, and it never began.
    pub undriven: bool,
    /// For people: a load that failed, a program that had to be killed.
    pub notes: Vec<String>,
}

impl Service {
    /// Readies a command: a process group of its own, so that what it starts can be told to end, too.
    pub fn prepare(&self, command: &mut Command) {
        command.process_group(0);
        if matches!(self.ready, Ready::Line(_)) {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
    }

    /// Drives a program that was started by a [`Service::prepare`]d command, and ends it. `load_output`: where the
    /// load's standard output goes; `others`: processes of the program that have left its group.
    ///
    /// # Errors
    /// The load cannot be started, or the program cannot be waited for.
    pub fn drive(
        &self,
        child: &mut Child,
        load_output: fn() -> Stdio,
        others: &dyn Fn() -> Vec<i32>,
    ) -> std::io::Result<Served> {
        let group = child.id() as i32;
        let seen = self.watch(child);
        let mut notes = Vec::new();
        if let Some(status) = self.wait_ready(child, &seen, &mut notes)? {
            return Ok(Served { status, stopped: false, undriven: self.load.is_some(), notes });
        }
        if let Some(warmup) = self.warmup {
            self.load(child, Some(warmup), Stdio::null, &mut Vec::new())?;
        }
        self.load(child, self.time, load_output, &mut notes)?;
        if let Some(status) = child.try_wait()? {
            return Ok(Served { status, stopped: false, undriven: false, notes });
        }
        let all = |number| {
            signal(group, number);
            others().into_iter().for_each(|pid| signal_one(pid, number));
        };
        all(libc::SIGTERM);
        let status = match wait(child, END_MAX)? {
            Some(status) => status,
            None => {
                notes.push("it did not end after SIGTERM and was killed".into());
                all(libc::SIGKILL);
                child.wait()?
            }
        };
        // What the program started may still be writing.
        let deadline = Instant::now() + END_MAX;
        while (exists(group) || !others().is_empty()) && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
        all(libc::SIGKILL);
        Ok(Served { status, stopped: true, undriven: false, notes })
    }

    /// Passes the program's output on, looking for the line.
    fn watch(&self, child: &mut Child) -> Arc<AtomicBool> {
        let seen = Arc::new(AtomicBool::new(false));
        let Ready::Line(text) = &self.ready else { return seen };
        let out = child.stdout.take().map(|o| Box::new(o) as Box<dyn Read + Send>);
        let err = child.stderr.take().map(|e| Box::new(e) as Box<dyn Read + Send>);
        for stream in out.into_iter().chain(err) {
            let (text, seen) = (text.clone(), seen.clone());
            std::thread::spawn(move || pass_on(stream, &text, &seen));
        }
        seen
    }

    /// Its status if the program ended before it was ready.
    fn wait_ready(
        &self,
        child: &mut Child,
        seen: &AtomicBool,
        notes: &mut Vec<String>,
    ) -> std::io::Result<Option<ExitStatus>> {
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                let what = "it ended before it could be driven; a server that puts itself into the background has an \
                            option against it";
                notes.push(what.into());
                return Ok(Some(status));
            }
            let ready = match &self.ready {
                Ready::Port(port) => answers(*port),
                Ready::Line(_) => seen.load(Ordering::Acquire),
                Ready::Soon => begin.elapsed() >= READY_AFTER,
            };
            if ready {
                return Ok(None);
            }
            if begin.elapsed() >= READY_MAX {
                let what = format!(
                    "{} was not seen within {} s; driven all the same",
                    self.ready.words(),
                    READY_MAX.as_secs()
                );
                notes.push(what);
                return Ok(None);
            }
            std::thread::sleep(STEP);
        }
    }

    /// Runs the load once, for `time` at most; without a load waits for `time`. Ends early when the program ends.
    fn load(
        &self,
        child: &mut Child,
        time: Option<Duration>,
        output: fn() -> Stdio,
        notes: &mut Vec<String>,
    ) -> std::io::Result<()> {
        let begin = Instant::now();
        let over = || time.is_some_and(|t| begin.elapsed() >= t);
        let Some(line) = &self.load else {
            while !over() && time.is_some() && child.try_wait()?.is_none() {
                std::thread::sleep(STEP);
            }
            return Ok(());
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).stdin(Stdio::null()).stdout(output()).process_group(0);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut load = crate::interrupted::spawn(&mut command)?;
        let group = load.id() as i32;
        loop {
            if let Some(status) = load.try_wait()? {
                if !status.success() {
                    notes.push(format!("the load `{line}` ended with {status}"));
                }
                return Ok(());
            }
            if over() || child.try_wait()?.is_some() {
                break;
            }
            std::thread::sleep(STEP);
        }
        signal(group, libc::SIGTERM);
        if wait(&mut load, Duration::from_secs(2))?.is_none() {
            signal(group, libc::SIGKILL);
            load.wait()?;
        }
        Ok(())
    }
}

fn pass_on(stream: impl Read, text: &str, seen: &AtomicBool) {
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        if String::from_utf8_lossy(&line).contains(text) {
            seen.store(true, Ordering::Release);
        }
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(&line).and_then(|()| err.write_all(b"\n"));
    }
}

fn answers(port: u16) -> bool {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_ok()
}

/// The child's end, if it comes in time.
fn wait(child: &mut Child, longest: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + longest;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        std::thread::sleep(STEP);
    }
}

/// Sends a signal to all processes of a group that we made.
fn signal(group: i32, number: i32) {
    // SAFETY: a system call on numbers; the group is the child's own.
    unsafe { libc::kill(-group, number) };
}

/// Sends a signal to one process.
pub(crate) fn signal_one(pid: i32, number: i32) {
    // SAFETY: a system call on numbers; the process was started for what we run.
    unsafe { libc::kill(pid, number) };
}

/// A process of the group still runs. One that has ended and that nobody asks for does not count.
fn exists(group: i32) -> bool {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok());
    // `pid (name) state ppid pgrp ..`
    stats.into_iter().any(|stat| {
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, pgrp) = (words.next(), words.nth(1));
        state != Some("Z") && pgrp.and_then(|p| p.parse().ok()) == Some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(load: Option<&str>, ready: Ready, time_ms: Option<u64>) -> Service {
        let time = time_ms.map(Duration::from_millis);
        Service { load: load.map(String::from), ready, warmup: None, time, folder: None }
    }

    fn run(service: &Service, line: &str) -> Served {
        let mut c = Command::new("sh");
        c.arg("-c").arg(line);
        service.prepare(&mut c);
        service.drive(&mut c.spawn().unwrap(), Stdio::null, &Vec::new).unwrap()
    }

    #[test]
    fn a_program_is_driven_when_it_says_so_and_ended_with_all_that_it_started() {
        let s = service(Some("exit 0"), Ready::Line("ready".into()), None);
        let served = run(&s, "sleep 600 & echo now ready; wait");
        assert!(served.stopped && served.notes.is_empty(), "{served:?}");
        let served = run(&service(Some("exit 3"), Ready::Soon, None), "sleep 600");
        assert!(served.notes[0].contains("exit 3") && served.stopped, "{served:?}");
    }

    #[test]
    fn a_load_is_ended_when_its_time_is_over() {
        let begin = Instant::now();
        let served = run(&service(Some("sleep 600"), Ready::Soon, Some(50)), "sleep 600");
        assert!(served.stopped && begin.elapsed() < Duration::from_secs(15), "{served:?}");
    }

    #[test]
    fn a_program_that_ends_by_itself_is_no_service() {
        let served = run(&service(None, Ready::Soon, Some(50)), "exit 4");
        assert_eq!((served.status.code(), served.stopped, served.undriven), (Some(4), false, false));
        let served = run(&service(Some("exit 0"), Ready::Soon, None), "exit 0");
        assert!(served.undriven && served.notes[0].contains("before it could be driven"), "{served:?}");
    }

    #[test]
    fn ports_are_read_off_the_command_line() {
        let ready = |line: &str| Ready::of_command(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(ready("./s --port 7000"), Ready::Port(7000));
        assert_eq!(ready("./s -p 7000 x"), Ready::Port(7000));
        assert_eq!(ready("./s --port=7000"), Ready::Port(7000));
        assert_eq!(ready("./s"), Ready::Soon);
        assert_eq!(ready("./s --port 0"), Ready::Soon);
        assert_eq!("line:up".parse(), Ok(Ready::Line("up".into())));
        assert!("up".parse::<Ready>().is_err() && "port:x".parse::<Ready>().is_err());
    }
}
