//! Starting the program so that it does not notice: same terminal, same signals, addresses not randomised.

use super::forwarding::Forwarding;
use super::{Output, RecordOptions};
use crate::said::{Listener, Said};
use crate::service::Ready;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How the program ended.
#[derive(Default)]
pub struct End {
    /// Its process id; 0 if that is not known.
    pub pid: u32,
    status: Option<ExitStatus>,
    /// We told it to end.
    stopped: bool,
    /// It ended before its load began.
    undriven: bool,
    notes: Vec<String>,
    said: Said,
}

impl End {
    /// From what was written down, as `wait` had it.
    pub fn of_note(pid: u32, wait_status: Option<i32>) -> End {
        End { pid, status: wait_status.map(ExitStatus::from_raw), ..End::default() }
    }

    /// As `wait` had it.
    pub fn wait_status(&self) -> Option<i32> {
        self.status.map(ExitStatusExt::into_raw)
    }

    /// As a shell shows it; 0 if it is not known.
    pub fn status(&self) -> u8 {
        let Some(status) = self.status else { return 0 };
        if self.stopped && self.was_told() {
            return 0;
        }
        match (status.code(), status.signal()) {
            // Nothing of what was asked for was recorded.
            (Some(0), _) if self.undriven => 125,
            (Some(c), _) => c as u8,
            (None, Some(s)) => 128u8.wrapping_add(s as u8),
            (None, None) => 125,
        }
    }

    /// It ended as programs do that get SIGTERM.
    fn was_told(&self) -> bool {
        let told = |s: ExitStatus| s.signal() == Some(libc::SIGTERM) || matches!(s.code(), Some(0 | 143));
        self.status.is_some_and(told)
    }

    /// What happened while it was driven.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What it wrote, as far as it was heard.
    pub fn said(&self) -> Said {
        self.said.clone()
    }

    /// For people: `exited 3`, `killed by signal 11`.
    pub fn text(&self) -> String {
        let Some(status) = self.status else { return "unknown".into() };
        match (status.code(), status.signal()) {
            (Some(0), _) => "exited".into(),
            (Some(c), _) => format!("exited {c}"),
            (None, Some(s)) => format!("killed by signal {s}"),
            (None, None) => "ended".into(),
        }
    }
}

/// What is said to who ends tussle while a recording is converted; null where there is nothing to say.
static MESSAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static MESSAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn say_where(signal: i32) {
    let (at, n) = (MESSAGE.load(Ordering::Acquire), MESSAGE_BYTES.load(Ordering::Acquire));
    // SAFETY: the message lives for ever; write, signal and raise are async-signal-safe.
    unsafe {
        if !at.is_null() {
            libc::write(2, at.cast(), n);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// From now on who ends tussle is told that the recording in this folder stays.
pub fn tell_where(folder: &Path) {
    // A hunt has its own last words, and leaves no recording behind.
    if crate::interrupted::is_heeded() {
        return;
    }
    let text = format!(
        "\ntussle: ended before the recording was converted; it stays: tussle record --convert {}\n",
        tussle_render::shell::word(&folder.to_string_lossy())
    );
    let text: &'static [u8] = Box::leak(text.into_bytes().into_boxed_slice());
    MESSAGE_BYTES.store(text.len(), Ordering::Release);
    MESSAGE.store(text.as_ptr().cast_mut(), Ordering::Release);
    for s in ENDING {
        // SAFETY: the handler is async-signal-safe. Who ignores a signal goes on ignoring it.
        unsafe {
            if libc::signal(s, say_where as *const () as usize) == libc::SIG_IGN {
                libc::signal(s, libc::SIG_IGN);
            }
        }
    }
}

/// There is nothing to say any more.
pub fn told() {
    MESSAGE.store(std::ptr::null_mut(), Ordering::Release);
}

/// Waits for the end of a child, at most so long, and then asks it to end. It stays to be waited for, so that its id is
/// nobody else's when it is signalled.
fn end_after(duration: std::time::Duration, child: u32) {
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(move || {
            if end.recv_timeout(duration).is_err() {
                // SAFETY: a system call.
                unsafe { libc::kill(child as i32, libc::SIGTERM) };
            }
        });
        loop {
            // SAFETY: the kernel fills plain data.
            let r = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::waitid(libc::P_PID, child, &mut info, libc::WEXITED | libc::WNOWAIT)
            };
            if r == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                break;
            }
        }
        // Nobody listens if the time is over.
        let _ = ended.send(());
    });
}

/// Runs the program with `command` to its end; `begun` is told its process id.
pub fn run(
    program: &Path,
    command: &[OsString],
    o: &RecordOptions,
    env: &[(OsString, OsString)],
    begun: impl FnOnce(u32),
) -> std::io::Result<End> {
    let mut c = Command::new(program);
    if let Some((name, args)) = command.split_first() {
        c.arg0(name).args(args);
    }
    if let Some(f) = &o.folder {
        c.current_dir(f);
    }
    let heard = is_heard(o);
    if heard {
        c.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    super::inherited::environment(&mut c, env);
    super::limits::hand_on(&mut c);
    // SAFETY: personality is a system call without memory effects.
    unsafe {
        c.pre_exec(|| {
            let now = libc::personality(0xffff_ffff);
            if now >= 0 {
                libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            }
            Ok(())
        });
    }
    if let Some(service) = &o.service {
        service.prepare(&mut c);
    } else {
        super::inherited::hand_on(&mut c, u32::from(heard) * 0b110);
    }
    let forwarding = Forwarding::start(o.service.is_some());
    let mut child = crate::interrupted::spawn(&mut c)?;
    forwarding.to(child.id());
    begun(child.id());
    let heard = heard.then(|| Heard::of(&mut child, o.output == Output::Heard));
    let session =
        env.iter().find(|(name, _)| name == tussle_rt::SESSION_VARIABLE).map(|(_, at)| Path::new(at));
    let others = || session.map(super::alive::of).unwrap_or_default();
    let said: fn() -> Stdio = match o.output {
        Output::Inherited => Stdio::inherit,
        Output::Heard => to_stderr,
        Output::HeardOnly => Stdio::null,
    };
    let served = o.service.as_ref().map(|s| s.drive(&mut child, said, &others)).transpose()?;
    let mut end = match served {
        Some(s) => End {
            status: Some(s.status),
            stopped: s.stopped,
            undriven: s.undriven,
            notes: s.notes,
            ..End::default()
        },
        None => {
            o.duration.into_iter().for_each(|d| end_after(d, child.id()));
            End { status: Some(child.wait()?), ..End::default() }
        }
    };
    drop(forwarding);
    end.pid = child.id();
    end.said = heard.map(Heard::end).unwrap_or_default();
    Ok(end)
}

/// Where standard output belongs to what the caller prints.
fn to_stderr() -> Stdio {
    std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// A service that says when it is ready is listened to for that.
fn is_heard(o: &RecordOptions) -> bool {
    let listens = o.service.as_ref().is_some_and(|s| matches!(s.ready, Ready::Line(_)));
    o.output != Output::Inherited && !listens
}

/// Both streams of a child.
struct Heard {
    out: Option<Listener>,
    err: Option<Listener>,
}

impl Heard {
    fn of(child: &mut Child, pass_errors_on: bool) -> Heard {
        let out = child.stdout.take().map(|out| Listener::start(out, false));
        let err = child.stderr.take().map(|err| Listener::start(err, pass_errors_on));
        Heard { out, err }
    }

    fn end(self) -> Said {
        let end = |l: Option<Listener>| l.and_then(Listener::end);
        Said { out: end(self.out), err: end(self.err) }
    }
}
