//! Recorded operations on real threads of this machine: our own C, compiled and run, bounded in time.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tussle_scenarios::recorded::measured::{NativeTime, Pair, Work, parse};

/// Length of one burst, µs: long against a time slice's remainder, short against what disturbs a machine.
const BURST_US: u64 = 8_000;
/// Pairs of each kind and length of work.
const PAIRS: u64 = 8;
/// Longest time of the program: some seconds on a quiet machine; it ends itself after 30 s, too.
const RUN_MAX: Duration = Duration::from_secs(30);
/// Between two looks at it: who looks runs on one of its CPUs.
const LOOK: Duration = Duration::from_millis(100);
/// Factors on lengths of work that were recorded in accesses, how long an access takes, and work between operations
/// that has no accesses and that nobody saw, ns. One access is some three instructions; programs measured so far lie
/// between 0.5 and 4 ns. Of the hidden work nothing is known: from none to a microsecond.
const GUESSED: &[&str] = &["0.6+0", "1+30", "1.7+250", "3+1000"];
/// The same where a native run tells: what is left of its error.
const MEASURED: &[&str] = &["0.93", "1", "1.07"];

/// Why there is no replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Nothing to compile with.
    #[error(
        "no C compiler (cc): a replay on this machine needs one; or name a machine to simulate (--machine NAME)"
    )]
    NoCompiler,
    /// One CPU.
    #[error(
        "operations of {threads} threads were recorded, and there are {cpus} CPUs: a replay needs a CPU for each; or \
         name a machine to simulate"
    )]
    Cpus {
        /// Threads recorded.
        threads: usize,
        /// CPUs of this process.
        cpus: u32,
    },
    /// The compiler refused our own program.
    #[error("the replay does not compile: {0}")]
    Compile(String),
    /// It failed.
    #[error("the replay ended with {0}")]
    Run(String),
    /// Too many others.
    #[error("the replay did not get through its kinds of work in {} s: others use this machine", RUN_MAX.as_secs())]
    Slow,
    /// Files.
    #[error("replay: {0}")]
    Io(#[from] std::io::Error),
}

/// Compiles and runs `program`, with lengths of work that give its operations the time of the native runs: on one CPU
/// where that is known, since nothing but work counts there, else on all of them. `watch` hears how many pairs of how
/// many there are.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    program: &str,
    threads: usize,
    native: Option<&NativeTime>,
    seed: u64,
    watch: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Pair>, ReplayError> {
    let cpus = crate::threads::cpus();
    if threads as u64 > u64::from(cpus) {
        return Err(ReplayError::Cpus { threads, cpus });
    }
    let folder = tempfile::tempdir()?;
    let binary = folder.path().join("replay");
    compile(program, folder.path(), &binary)?;
    let factors = if native.is_some() { MEASURED } else { GUESSED };
    let mut command = Command::new(&binary);
    command.args([BURST_US.to_string(), PAIRS.to_string(), seed.to_string()]);
    command.args(targets(native, threads));
    command.args(factors);
    let output = folder.path().join("pairs");
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&output)?);
    let mut child = crate::interrupted::spawn(&mut command)?;
    let planned = Work::ALL.len() * factors.len() * PAIRS as usize;
    let measured = || -> std::io::Result<Vec<Pair>> {
        let text = std::fs::read_to_string(&output)?;
        // The last line may be on its way.
        Ok(parse(text.rsplit_once('\n').map_or("", |(whole, _)| whole), threads))
    };
    let status = wait(&mut child, &mut || {
        watch(measured().map_or(0, |p| p.len()), planned);
    })?;
    let pairs = measured()?;
    // A program that was cut short has told what it measured until then; which kind of work counts, only all can tell.
    let kinds = Work::ALL.iter().filter(|w| pairs.iter().any(|p| p.work == **w)).count();
    match (status.success(), kinds) {
        (_, n) if n == Work::ALL.len() => Ok(pairs),
        (false, _) if !killed(status) => Err(ReplayError::Run(status.to_string())),
        _ => Err(ReplayError::Slow),
    }
}

/// Waits for its end, at most [`RUN_MAX`].
fn wait(child: &mut Child, look: &mut dyn FnMut()) -> std::io::Result<ExitStatus> {
    let end = Instant::now() + RUN_MAX;
    loop {
        look();
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() > end => {
                child.kill()?;
                return child.wait();
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

/// By its own clock or by ours.
fn killed(status: ExitStatus) -> bool {
    matches!(status.signal(), Some(libc::SIGALRM | libc::SIGKILL))
}

/// What is known of the CPU time of an operation, and that of every thread: see `main` in the template.
fn targets(native: Option<&NativeTime>, threads: usize) -> Vec<String> {
    let (known, each) = match native {
        None => (0, vec![0.0; threads]),
        Some(n @ NativeTime { alone: None, .. }) => (1, vec![n.typical_ns().unwrap_or(0.0); threads]),
        Some(NativeTime { alone: Some(a), .. }) if a.each_ns.len() == threads => (3, a.each_ns.clone()),
        Some(NativeTime { alone: Some(a), .. }) => (2, vec![a.mean_ns; threads]),
    };
    std::iter::once(known.to_string()).chain(each.iter().map(f64::to_string)).collect()
}

fn compile(program: &str, folder: &Path, binary: &Path) -> Result<(), ReplayError> {
    let source = folder.join("replay.c");
    std::fs::write(&source, program)?;
    let run =
        Command::new("cc").args(["-O2", "-pthread", "-w", "-o"]).arg(binary).arg(&source).arg("-lm").output();
    match run {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(ReplayError::NoCompiler),
        Err(e) => Err(e.into()),
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => Err(ReplayError::Compile(String::from_utf8_lossy(&o.stderr).chars().take(2_000).collect())),
    }
}
