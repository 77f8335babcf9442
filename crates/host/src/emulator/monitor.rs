//! The emulator's machine protocol (QMP, `docs/interop/qmp-spec.rst` of QEMU): stop, save, restore, go on.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::launch::inherit;

/// One answer, or one step of the emulator, takes at most this long.
const LIMIT: Duration = Duration::from_secs(30);
/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A connection; errors are words for people.
#[derive(Debug)]
pub(super) struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Both ends; the second one is for the emulator to inherit.
    pub(super) fn pair() -> std::io::Result<(Monitor, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LIMIT))?;
        inherit(&theirs);
        Ok((Monitor { lines: BufReader::new(ours) }, theirs.into()))
    }

    /// Begins the conversation.
    pub(super) fn greet(&mut self) -> Result<(), String> {
        self.line()?;
        self.ask("qmp_capabilities", json!({})).map(|_| ())
    }

    /// Waits until the guest stands still at its marker.
    pub(super) fn await_stop(&mut self) -> Result<(), String> {
        self.await_status("query-status", "paused")
    }

    /// Goes on from where it stands.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
        self.ask("cont", json!({})).map(|_| ())
    }

    /// Writes the state of all devices, without the guest's memory, which is a file of its own.
    pub(super) fn save(&mut self, to: &str) -> Result<(), String> {
        self.memory_apart()?;
        self.ask("migrate", json!({ "uri": format!("file:{to}") }))?;
        self.await_status("query-migrate", "completed")
    }

    /// Reads such a state. Network announcements are switched off: there is no network, and their timer alone would
    /// make two runs differ.
    pub(super) fn restore(&mut self, from: &str) -> Result<(), String> {
        self.memory_apart()?;
        self.ask("migrate-set-parameters", json!({ "announce-rounds": 0 }))?;
        self.ask("migrate-incoming", json!({ "uri": format!("file:{from}") }))?;
        self.await_status("query-migrate", "completed")
    }

    fn memory_apart(&mut self) -> Result<(), String> {
        let apart = json!([{ "capability": "x-ignore-shared", "state": true }]);
        self.ask("migrate-set-capabilities", json!({ "capabilities": apart })).map(|_| ())
    }

    fn await_status(&mut self, question: &str, wanted: &str) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let answer = self.ask(question, json!({}))?;
            match answer.get("status").and_then(Value::as_str) {
                Some(status) if status == wanted => return Ok(()),
                Some("failed") => return Err(format!("{question}: {answer}")),
                _ if started.elapsed() > LIMIT => return Err(format!("{question}: not {wanted}: {answer}")),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The answer to one request; events in between are left out.
    fn ask(&mut self, request: &str, arguments: Value) -> Result<Value, String> {
        let text = json!({ "execute": request, "arguments": arguments }).to_string();
        writeln!(self.lines.get_mut(), "{text}").map_err(|e| format!("{request}: {e}"))?;
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            let mut answer = self.line().map_err(|e| format!("{request}: {e}"))?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                let said = error.get("desc").and_then(Value::as_str).unwrap_or("refused");
                return Err(format!("{request}: {said}"));
            }
        }
        Err(format!("{request}: no answer"))
    }

    fn line(&mut self) -> Result<Value, String> {
        use std::io::Read;
        let mut line = String::new();
        let read = self.lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        match read.map_err(|e| e.to_string())? {
            0 => Err("the emulator ended".into()),
            _ => serde_json::from_str(&line).map_err(|e| e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A conversation with an emulator that says these lines.
    fn with(lines: &str) -> Monitor {
        let (monitor, theirs) = Monitor::pair().unwrap();
        let mut file = File::from(theirs);
        file.write_all(lines.as_bytes()).unwrap();
        // What we ask must still find a reader.
        std::mem::forget(file);
        monitor
    }

    #[test]
    fn conversations() {
        let mut m = with(
            "{\"QMP\":{}}\n{\"return\":{}}\n{\"event\":\"STOP\"}\n{\"return\":{\"status\":\"running\"}}\n\
             {\"return\":{\"status\":\"paused\"}}\n",
        );
        assert_eq!(m.greet(), Ok(()));
        assert_eq!(m.await_stop(), Ok(()));
        let mut m = with("{\"error\":{\"desc\":\"no such command\"}}\nnonsense\n");
        assert_eq!(m.go_on(), Err("cont: no such command".into()));
        assert!(m.go_on().unwrap_err().starts_with("cont: expected"));
        let mut m = with("{\"return\":{}}\n{\"return\":{}}\n{\"return\":{\"status\":\"failed\"}}\n");
        assert_eq!(m.save("/dev/fd/9"), Err("query-migrate: {\"status\":\"failed\"}".into()));
        let (mut m, theirs) = Monitor::pair().unwrap();
        drop(theirs);
        assert!(m.greet().is_err());
    }
}
