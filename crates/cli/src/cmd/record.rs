//! `tussle record`.

use crate::global::Global;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tussle_evidence::Evidence;
use tussle_host::record::{
    Counting, RecordError, RecordOptions, Recorded, convert_session, leftovers, record_telling,
};
use tussle_render::plural;

/// What is over sooner shows no progress.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Run a program and record who touches which field.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = "tussle.data")]
    output: PathBuf,
    /// Cap on each process's recording (bytes; K, M, G); what does not fit is counted.
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = bytes)]
    mem_max: u64,
    /// Ask the program to end (SIGTERM) after so long (ms, s, m, h), and write what was recorded.
    #[arg(long, value_name = "TIME", value_parser = super::live::time, conflicts_with = "convert")]
    duration: Option<std::time::Duration>,
    #[command(flatten)]
    counting: CountingArgs,
    /// Load the recorder into a program that is not instrumented but loads instrumented libraries.
    #[arg(long)]
    preload: bool,
    /// Accept a program that is not instrumented, for those that it starts (a shell script, a launcher).
    #[arg(long)]
    children: bool,
    /// Run any program, as it is, under an emulator that carries the recorder (QEMU's user mode): slow, but no rebuild.
    #[arg(long, conflicts_with_all = ["preload", "children", "convert", "sample", "toggle", "count_after",
        "count_for"])]
    emulate: bool,
    /// Keep lines that only one thread used, too.
    #[arg(long)]
    all_lines: bool,
    /// Do not look up functions, lines and types.
    #[arg(long)]
    no_names: bool,
    #[command(flatten)]
    service: super::service::ServiceArgs,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
    /// Build an instrumented copy of DIR and record what its tussle.toml says, as `hunt DIR` does first.
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["convert", "command", "preload", "children", "emulate", "duration", "no_names", "sample",
            "toggle", "count_after", "count_for"])]
    project: Option<PathBuf>,
    /// Finish a recording whose tussle was ended before it had written the evidence: its session folder.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    convert: Option<PathBuf>,
    /// Program and arguments.
    #[arg(
        required_unless_present_any = ["convert", "project"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Which part of the run is counted; the rest runs almost as fast as unrecorded.
#[derive(clap::Args)]
struct CountingArgs {
    /// Count one of N parts of the run, a sample: counts are estimates, and the report says how far E may be off.
    #[arg(long, value_name = "1/N", value_parser = sample, conflicts_with = "convert",
        help_heading = "What is counted")]
    sample: Option<u32>,
    /// Begin without counting; `--toggle` begins.
    #[arg(long, requires = "toggle", help_heading = "What is counted")]
    stopped: bool,
    /// Begin or end counting whenever tussle gets this signal (USR1, USR2, HUP, WINCH, IO), and do not pass it on.
    #[arg(long, value_name = "SIGNAL", value_parser = tussle_host::record::signal,
        conflicts_with_all = ["convert", "sample"],
        help_heading = "What is counted")]
    toggle: Option<i32>,
    /// Begin counting so long after the start (ms, s, m, h).
    #[arg(long, value_name = "TIME", value_parser = super::live::time, conflicts_with_all = ["convert", "toggle"],
        help_heading = "What is counted")]
    count_after: Option<Duration>,
    /// End counting so long after it began; the program goes on to its end.
    #[arg(long, value_name = "TIME", value_parser = super::live::time, conflicts_with_all = ["convert", "toggle"],
        help_heading = "What is counted")]
    count_for: Option<Duration>,
}

impl CountingArgs {
    fn counting(&self) -> Counting {
        let CountingArgs { sample, stopped, toggle, count_after, count_for } = *self;
        Counting { stopped, toggle, after: count_after, lasts: count_for, every: sample }
    }
}

/// `1/10` as 10.
fn sample(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no share: 1/10, say, counts a tenth of the run");
    let n = text.trim().strip_prefix("1/").ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
    if (2..=1000).contains(&n) { Ok(n) } else { Err("from 1/2 to 1/1000".into()) }
}

/// How far E of a sampled run may be off, for the loss that says so.
fn state_the_error(evidence: &mut Evidence) {
    let Some(s) = tussle_contention::sampling::sampled(evidence) else { return };
    let share = |error: Option<f64>, e: f64| match error {
        Some(error) if e > 0.0 => format!("\u{b1}{:.0}%", (100.0 * error / e).ceil()),
        _ => "unknown: too few stretches have it".into(),
    };
    let (all, worst) = (share(s.error, s.e), share(s.worst_error, s.worst_e));
    let note = format!("; 95% interval of E over all lines {all}, of the worst line {worst}");
    evidence.losses.iter_mut().filter(|l| l.what == "sampled").for_each(|l| l.note.push_str(&note));
}

/// `64M` as bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(format!("`{unit}` is no unit: use K, M or G")),
    };
    let n: u64 = digits.parse().map_err(|_| format!("`{text}` is not a number of bytes"))?;
    n.checked_shl(shift).filter(|b| *b >= 1 << 20).ok_or_else(|| "at least 1M is needed".into())
}

/// Runs the verb. The exit status is the program's own; 125 to 127 are recording's, as with `env`.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    // Whoever reads the remarks may leave early (`2>&1 | head`): the evidence is written all the same. The program gets
    // what this process was given.
    // SAFETY: sets a signal disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    match record_and_write(args, global) {
        Ok(status) => Ok(ExitCode::from(status)),
        Err(e) => {
            crate::global::say(&format!("{e:#}"));
            let code = e.downcast_ref::<RecordError>().map_or(125, RecordError::exit_code);
            Ok(ExitCode::from(code))
        }
    }
}

fn record_and_write(args: &Args, global: &Global) -> anyhow::Result<u8> {
    tussle_host::evidence_file::check(&args.output)?;
    if let Some(dir) = &args.project {
        let (mut evidence, status) = super::hunt::record_project(dir, &args.service, global)?;
        write(args, global, &mut evidence)?;
        return Ok(status);
    }
    let mut recorded = match &args.convert {
        Some(folder) => convert_session(folder, &mut reading(global))?,
        None => record_program(args, global)?,
    };
    // Raw files stay unless the evidence is written.
    recorded.session.keep();
    name_and_write(args, global, &mut recorded)?;
    let status = recorded.status;
    if recorded.finished {
        recorded.session.finish();
    }
    Ok(status)
}

fn record_program(args: &Args, global: &Global) -> anyhow::Result<Recorded> {
    for l in leftovers() {
        let (command, path) = (l.command.join(" "), l.path.display());
        let word = tussle_render::shell::file(&l.path.to_string_lossy());
        global.remark(format!(
            "an unfinished recording of `{command}` lies in {path}: `tussle record --convert {word}` finishes it"
        ));
    }
    super::no_flag(&args.command)?;
    let mut options = RecordOptions::new(args.command.clone());
    options.mem_max_bytes = args.mem_max;
    options.preload = args.preload;
    options.children = args.children;
    options.emulate = args.emulate;
    options.keep_all = args.all_lines;
    options.service = args.service.service(&args.command, None);
    options.duration = args.duration;
    options.counting = args.counting.counting();
    Ok(record_telling(&options, &mut reading(global))?)
}

/// Draws how far the reading of a recording is, where progress may be drawn.
fn reading(global: &Global) -> impl FnMut(f64) + '_ {
    let mut begun = None;
    move |share| {
        let spent = begun.get_or_insert_with(Instant::now).elapsed();
        // A line for what is over at once would only flicker.
        if spent > SHOWN_AFTER && share > 0.0 {
            let left = spent.mul_f64((1.0 - share) / share).as_secs();
            global.draw(format_args!("tussle: reading the recording: {:.0}%, {left} s left", 100.0 * share));
        }
    }
}

fn name_and_write(args: &Args, global: &Global, recorded: &mut Recorded) -> anyhow::Result<()> {
    global.erase();
    for p in &recorded.problems {
        global.remark(p);
    }
    if !args.no_names {
        let mut images = tussle_host::images::HostImages::new();
        for p in tussle_naming::name_told(&mut recorded.evidence, &mut images, &recorded.told) {
            global.remark(p);
        }
    }
    write(args, global, &mut recorded.evidence)
}

fn write(args: &Args, global: &Global, evidence: &mut Evidence) -> anyhow::Result<()> {
    state_the_error(evidence);
    tussle_evidence::lost(evidence).iter().for_each(|l| global.remark(l));
    if args.redact {
        tussle_evidence::redact(evidence);
    }
    tussle_host::evidence_file::write(&args.output, evidence)?;
    let e = &*evidence;
    global.remark(format!(
        "{}, {}, {}, {} of accesses -> {}",
        plural(e.processes.len(), "process", "processes"),
        plural(e.actors.len(), "thread", "threads"),
        plural(e.objects.len(), "object", "objects"),
        plural(e.accesses.len(), "row", "rows"),
        args.output.display()
    ));
    Ok(())
}
