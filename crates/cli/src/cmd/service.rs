//! Options of programs that end when they are told to, and the hidden verb that runs one without recording.

use super::project_file::ProjectFile;
use crate::global::Global;
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use tussle_host::service::{Ready, Service};

/// How a server is driven.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServiceArgs {
    /// Shell command that drives the program, not recorded; then the program gets SIGTERM, which is no failure.
    #[arg(long, value_name = "COMMAND")]
    load: Option<String>,
    /// Longest time of the load, or the program's time without one (10s, 500ms, 2m).
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// When the load may begin: port:N or line:TEXT of its output (default: the port that the command names, or 1 s).
    #[arg(long, value_name = "SIGN", requires = "load")]
    ready: Option<Ready>,
    /// The load runs for so long first; recorded, but not measured.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "load")]
    warmup: Option<Duration>,
}

impl ServiceArgs {
    /// What the command line leaves open is taken from the project's file.
    ///
    /// # Errors
    /// A time or sign there cannot be read.
    pub fn or(&self, file: &ProjectFile) -> anyhow::Result<ServiceArgs> {
        let of_file =
            |text: &Option<String>| text.as_deref().map(duration).transpose().map_err(anyhow::Error::msg);
        let ready = file.ready.as_deref().map(str::parse).transpose().map_err(anyhow::Error::msg)?;
        Ok(ServiceArgs {
            load: self.load.clone().or(file.load.clone()),
            time: self.time.or(of_file(&file.time)?),
            ready: self.ready.clone().or(ready),
            warmup: self.warmup.or(of_file(&file.warmup)?),
        })
    }

    /// The command that drives the program.
    pub fn load(&self) -> Option<&str> {
        self.load.as_deref()
    }

    /// The service, if the options make the program one. `command` and the load run in `folder`.
    pub fn service(&self, command: &[OsString], folder: Option<PathBuf>) -> Option<Service> {
        if self.load.is_none() && self.time.is_none() {
            return None;
        }
        let words: Vec<String> = command.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let ready = self.ready.clone().unwrap_or_else(|| Ready::of_command(&words));
        let (load, warmup, time) = (self.load.clone(), self.warmup, self.time);
        Some(Service { load, ready, warmup, time, folder })
    }

    /// The same options as a command line of the hidden verb.
    pub fn words(&self) -> Vec<OsString> {
        let mut out: Vec<OsString> = vec!["drive".into()];
        let mut put = |flag: &str, value: String| out.extend([flag.into(), value.into()]);
        self.load.iter().for_each(|l| put("--load", l.clone()));
        self.time.iter().for_each(|t| put("--for", format!("{}ms", t.as_millis())));
        self.warmup.iter().for_each(|t| put("--warmup", format!("{}ms", t.as_millis())));
        match &self.ready {
            Some(Ready::Port(n)) => put("--ready", format!("port:{n}")),
            Some(Ready::Line(t)) => put("--ready", format!("line:{t}")),
            _ => {}
        }
        out
    }
}

/// `10s`, `500ms`, `2m`, `1h`, `10` (seconds).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ if digits.is_empty() => return Err(format!("`{text}` is no time: say 10s, 500ms or 2m")),
        _ => return Err(format!("`{unit}` is no unit: use ms, s, m or h")),
    };
    let n: f64 = digits.parse().map_err(|_| format!("`{text}` is no time"))?;
    Duration::try_from_secs_f64(n * scale).map_err(|e| e.to_string())
}

/// Start a server, drive it, end it; the load's output goes to stdout. What `hunt` measures.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// Program and arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb; 0 when the program ended as it was told to and the load was a success.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let service =
        args.service.service(&args.command, None).context("nothing to drive: say --load or --for")?;
    let (program, rest) = args.command.split_first().context("no program")?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null());
    service.prepare(&mut command);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.to_string_lossy()))?;
    let served = service.drive(&mut child, Stdio::inherit, &Vec::new)?;
    served.notes.iter().for_each(|n| global.remark(n));
    let well = served.notes.is_empty() && (served.stopped || served.status.success());
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::duration;
    use std::time::Duration;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(duration("10d").is_err() && duration("-1").is_err() && duration("x").is_err());
    }
}
