//! `tussle record-kernel`.

use crate::global::Global;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tussle_evidence::{Evidence, Named};
use tussle_host::emulator::{self, Boot, Event, FileSystem, Guest};
use tussle_kernel::convert::{self, Attribution, Inputs, Machine};
use tussle_kernel::hooks::{Hooks, hooks};
use tussle_kernel::image::{KernelImage, KernelNames};
use tussle_kernel::place::Allocator;
use tussle_kernel::stream::{self, Stream};

/// Instructions of a turn in what reports show.
const TURN: u32 = 1000;
/// And in what is recorded beside it: a tenth and ten times as many.
const OTHER_TURNS: [u32; 2] = [100, 10_000];

/// Record which fields of a Linux kernel fight over cache lines, in an emulator.
///
/// Boots the kernel with so many CPUs, runs the workload on all of them, and sees every access of the kernel in
/// between: no hardware counters are needed, and the same command gives the same evidence. The kernel is not changed
/// and not instrumented. Transfers are those of a model with infinite caches and CPUs that take turns: they say which
/// fields meet on a line, not how long a machine waits.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = "tussle.data")]
    output: PathBuf,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
    /// What to boot, a vmlinux or a vmlinuz; left out, the file with debug information itself.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The same kernel's vmlinux with debug information (scripts/fetch-kernel.sh gets both).
    #[arg(long, value_name = "FILE")]
    vmlinux: PathBuf,
    /// Run this program in the guest instead, on every CPU; it is looked for in the guest (see --initrd-add).
    #[arg(long, value_name = "CMD", conflicts_with = "workload", required_unless_present = "workload")]
    run: Option<String>,
    #[command(flatten)]
    work: WorkArgs,
    /// Put all files of the guest on an emulated NVMe disk with this file system, and start the workload there; left
    /// out, they are in memory. The kernel must have both built in, as Debian's cloud kernels do. No snapshot is kept.
    #[arg(long, value_enum, value_name = "NAME")]
    disk: Option<DiskArg>,
    /// Instructions of its turn that a CPU loses with every transfer, so that contention shapes the run; 0: watching
    /// changes nothing.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1_000_000))]
    feedback: u32,
    /// Accesses per window of virtual time.
    #[arg(long, value_name = "N", default_value_t = 65536, value_parser = clap::value_parser!(u32).range(256..))]
    window: u32,
    /// End a guest after so many seconds of the emulator's CPU time: a busy machine takes none of it [default: 240, and
    /// 30 for every CPU beyond 4]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Limit of the temporary recording (MiB).
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..))]
    stream_max: u64,
    /// Boot in any case, and keep no snapshot of the booted guest for further runs. The evidence is the same.
    #[arg(long)]
    no_snapshot: bool,
    /// Run the same without watching accesses, and print how long it took in the guest's own time.
    #[arg(long)]
    no_record: bool,
    /// Keep the guest's memory as it was at the end (a raw image of its physical memory, for drgn or crash).
    #[arg(long, value_name = "FILE")]
    keep_memory: Option<PathBuf>,
    /// Further words for the kernel's command line.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
}

/// What the guest is, and does; also of `hunt --kernel`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WorkArgs {
    /// CPUs of the guest; each runs one task.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    smp: u32,
    /// What the guest does.
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Option<WorkloadArg>,
    /// The program of --run brings its own threads: start it once at a time, on no CPU in particular.
    #[arg(long, requires = "run", conflicts_with = "workload")]
    threads: bool,
    /// Count only what happens while the program of --run has a region open (`tussle.h`, docs/marks.md): neither its
    /// start nor its end.
    #[arg(long, requires = "run", conflicts_with = "workload")]
    regions: bool,
    /// Put a file of this machine into the guest, under the same path or `FILE=PATH`, with the libraries it loads.
    #[arg(long, value_name = "FILE[=PATH]")]
    initrd_add: Vec<String>,
    /// Put everything in this folder into the guest, as its root: a user land with its shell, libraries and programs.
    #[arg(long, value_name = "DIR", requires = "run", conflicts_with = "workload")]
    root: Option<PathBuf>,
    /// Operations of each task (starts of the program of --run, besides one that is not recorded); left out, as many as
    /// suit the workload and the CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ops: Option<u32>,
    /// Pages that one operation maps or touches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pages: Option<u32>,
    /// Memory of the guest in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(128..=2047))]
    memory: u64,
    /// Record once, with this many instructions between forced changes of the running CPU
    /// [default: three times, with 1000, 100 and 10000, kept apart: what a layout does may turn with that]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(50..))]
    quantum: Option<u32>,
}

impl WorkArgs {
    /// An option that was given, of those without a default.
    pub fn given(&self) -> Option<&'static str> {
        [
            ("--workload", self.workload.is_some()),
            ("--threads", self.threads),
            ("--regions", self.regions),
            ("--initrd-add", !self.initrd_add.is_empty()),
            ("--root", self.root.is_some()),
            ("--ops", self.ops.is_some()),
            ("--pages", self.pages.is_some()),
            ("--quantum", self.quantum.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }

    /// Something is to be done without a program of the caller's.
    pub fn has_workload(&self) -> bool {
        self.workload.is_some()
    }

    /// Operations and pages of a task. With many CPUs each has less to do: contention makes an operation longer.
    fn amount(&self) -> (&'static str, u32, u32) {
        let (name, ops, pages) = self.workload.map_or(("run", 3, 16), WorkloadArg::defaults);
        let ops = match self.workload {
            Some(_) => (ops * SMP_FULL / self.smp.max(SMP_FULL)).max(OPS_MIN.min(ops)),
            None => ops,
        };
        (name, self.ops.unwrap_or(ops), self.pages.unwrap_or(pages))
    }
}

/// Up to so many CPUs each task has a workload's full number of operations, and never fewer than so many.
const SMP_FULL: u32 = 4;
const OPS_MIN: u32 = 4;

/// Memory that a guest needs beside its user land.
const MEMORY_LEFT_MIB: u64 = 128;

/// CPU time of the emulator with few CPUs and for each more (s): a guest with 64 takes about a minute to boot.
const TIMEOUT_S: u64 = 240;
const TIMEOUT_CPU_S: u64 = 30;

/// The names that `tussle bench --scenario` and the simulator use, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkloadArg {
    #[value(name = "mmap1")]
    Mmap1,
    #[value(name = "page_fault1")]
    PageFault1,
    #[value(name = "page_fault2")]
    PageFault2,
    #[value(name = "pft")]
    Pft,
    #[value(name = "exec_storm")]
    ExecStorm,
    #[value(name = "fork_storm")]
    ForkStorm,
    #[value(name = "sem_ops")]
    SemOps,
}

/// File systems that a guest's disk can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DiskArg {
    #[value(name = "ext4")]
    Ext4,
}

impl DiskArg {
    fn file_system(self) -> FileSystem {
        match self {
            DiskArg::Ext4 => FileSystem::Ext4,
        }
    }
}

impl WorkloadArg {
    /// Name, operations and pages that give some million instructions per CPU.
    fn defaults(self) -> (&'static str, u32, u32) {
        match self {
            WorkloadArg::Mmap1 => ("mmap1", 400, 16),
            WorkloadArg::PageFault1 => ("page_fault1", 10, 128),
            WorkloadArg::PageFault2 => ("page_fault2", 10, 128),
            WorkloadArg::Pft => ("pft", 10, 128),
            WorkloadArg::ExecStorm => ("exec_storm", 10, 16),
            WorkloadArg::ForkStorm => ("fork_storm", 10, 16),
            WorkloadArg::SemOps => ("sem_ops", 500, 16),
        }
    }
}

/// Runs the verb. Its own failures are 125, as with `record`.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    match record(args, global) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "tussle: {e:#}");
            Ok(ExitCode::from(125))
        }
    }
}

/// A recording, and how its transfers were attributed.
pub struct Recorded {
    /// With the other lengths of turns in it.
    pub evidence: Evidence,
    attribution: Attribution,
}

impl Recorded {
    /// One line about the names.
    pub fn words(&self) -> String {
        attribution_line(&self.evidence, &self.attribution)
    }
}

fn record(args: &Args, global: &Global) -> anyhow::Result<()> {
    tussle_host::evidence_file::check(&args.output)?;
    match recorded(args, global)? {
        Some(recorded) => write(args, global, recorded),
        None => Ok(()),
    }
}

/// Runs the guest; `None` where nothing was to be recorded.
pub fn recorded(args: &Args, global: &Global) -> anyhow::Result<Option<Recorded>> {
    let emulator = emulator::find()?;
    let vmlinux = map(&args.vmlinux)?;
    let shown = || args.vmlinux.display().to_string();
    let names = KernelNames::read(&vmlinux).with_context(shown)?;
    let equipment = emulator::equipment(&mut |command| global.remark(command))?;
    let hooks = hooks(&names, &vmlinux).with_context(shown)?;
    let boot = boot(args, &names, &hooks)?;
    let run = |quantum: u32| -> anyhow::Result<(Guest, Stream)> {
        let boot = Boot { quantum, ..boot.clone() };
        let guest = emulator::run(&emulator, &equipment, &boot, &mut |event| tell(global, event));
        global.erase();
        let guest = guest?;
        let stream = decoded(global, &guest)?;
        Ok((guest, stream))
    };
    let (first, others) = args.turns();
    // Debug information is read while the guest runs.
    let (recorded, image) = std::thread::scope(|scope| {
        let image = (!args.no_record).then(|| scope.spawn(|| KernelImage::with_names(names, &vmlinux)));
        (run(first), image.map(|reader| reader.join()))
    });
    let recorded = recorded?;
    let Some(image) = image else { return Ok(None) };
    let image = image.map_err(|_| anyhow::anyhow!("reading the debug information failed"))?;
    let (image, problems) = image.with_context(shown)?;
    for p in problems.iter().take(5) {
        global.remark(p);
    }
    let machine = machine(args, &emulator.version);
    let kernel =
        Kernel { vmlinux: &vmlinux, image: &image, allocators: &hooks.allocators, machine: &machine };
    keep_memory(args, &recorded.0)?;
    let (mut evidence, attribution) = kernel.evidence(recorded)?;
    for quantum in others {
        match run(*quantum).and_then(|recorded| kernel.evidence(recorded)) {
            Ok((other, _)) => evidence.others.push(other),
            // One is enough for a report, and the others are known to be missing.
            Err(e) => global.remark(format!("left out: turns of {quantum} instructions: {e:#}")),
        }
    }
    Ok(Some(Recorded { evidence, attribution }))
}

impl Args {
    /// A kernel and what its guest does; everything else as usual.
    pub fn of(vmlinux: &Path, run: Option<&String>, work: &WorkArgs) -> Args {
        Args {
            output: PathBuf::new(),
            redact: false,
            kernel: None,
            vmlinux: vmlinux.to_path_buf(),
            run: run.cloned(),
            work: work.clone(),
            disk: None,
            feedback: 0,
            window: 65536,
            timeout: None,
            stream_max: 2048,
            no_snapshot: false,
            no_record: false,
            keep_memory: None,
            append: String::new(),
        }
    }

    /// Lengths of turns in instructions: that of all reports, and those recorded beside it.
    fn turns(&self) -> (u32, &'static [u32]) {
        match self.work.quantum {
            Some(one) => (one, &[]),
            None if self.no_record => (TURN, &[]),
            None => (TURN, &OTHER_TURNS),
        }
    }
}

/// The kernel whose guests were run.
struct Kernel<'a> {
    vmlinux: &'a [u8],
    image: &'a KernelImage,
    allocators: &'a [Allocator],
    machine: &'a Machine,
}

impl Kernel<'_> {
    /// The guest's memory goes with it.
    fn evidence(&self, (guest, stream): (Guest, Stream)) -> anyhow::Result<(Evidence, Attribution)> {
        let inputs = Inputs {
            vmlinux: self.vmlinux,
            image: self.image,
            ram: &guest.memory,
            stream: &stream,
            allocators: self.allocators,
            machine: self.machine,
        };
        Ok(convert::evidence(&inputs)?)
    }
}

fn keep_memory(args: &Args, guest: &Guest) -> anyhow::Result<()> {
    match &args.keep_memory {
        Some(path) => std::fs::write(path, &guest.memory).with_context(|| path.display().to_string()),
        None => Ok(()),
    }
}

/// The plugin's stream, with remarks about the whole run.
fn decoded(global: &Global, guest: &Guest) -> anyhow::Result<Stream> {
    let (stream, problems) = stream::decode(&guest.stream)?;
    for p in &problems {
        global.remark(p);
    }
    let end = stream.end.context("the guest never reached its stop marker")?;
    global.remark(format!(
        "turns of {} instructions: guest: {:.6} s of its own time, {} instructions, {} forced changes of the CPU",
        end.quantum,
        (end.ended_ns - end.started_ns) as f64 * 1e-9,
        end.instructions,
        end.switches
    ));
    if end.lost > 0 {
        global.remark(format!("{} records did not fit: --stream-max allows more, --ops does less", end.lost));
    }
    Ok(stream)
}

fn write(args: &Args, global: &Global, recorded: Recorded) -> anyhow::Result<()> {
    let words = recorded.words();
    let mut evidence = recorded.evidence;
    if args.redact {
        tussle_evidence::redact(&mut evidence);
    }
    tussle_host::evidence_file::write(&args.output, &evidence)?;
    global.remark(words);
    global.remark(format!(
        "{} objects, {} rows of accesses -> {}",
        evidence.objects.len(),
        evidence.accesses.len(),
        args.output.display()
    ));
    Ok(())
}

fn attribution_line(evidence: &Evidence, attribution: &Attribution) -> String {
    let total: u64 = attribution.values().sum();
    let share = |n: u64| 100.0 * n as f64 / total.max(1) as f64;
    let parts: Vec<String> =
        attribution.iter().map(|(how, n)| format!("{} {:.1}%", how.text(), share(*n))).collect();
    format!("{total} transfers between CPUs; {} ({})", Named::of(evidence).words(), parts.join(", "))
}

fn machine(args: &Args, emulator: &str) -> Machine {
    // The words that decide what is recorded; where it is written to is not among them.
    let mut command: Vec<String> = std::env::args().collect();
    if let Some(first) = command.first_mut() {
        *first = "tussle".into();
    }
    for place in ["-o", "--output", "--keep-memory"] {
        if let Some(at) = command.iter().position(|w| w == place) {
            command.drain(at..(at + 2).min(command.len()));
        }
    }
    command.retain(|w| w != "--no-snapshot");
    Machine {
        vcpus: args.work.smp,
        emulator: emulator.into(),
        command,
        vmlinux: args.vmlinux.display().to_string(),
        feedback: args.feedback.into(),
    }
}

fn boot(args: &Args, names: &KernelNames, hooks: &Hooks) -> anyhow::Result<Boot> {
    let work = &args.work;
    let (name, ops, pages) = work.amount();
    let (name, tasks) = if work.threads { ("threads", 1) } else { (name, work.smp) };
    let beyond = u64::from(work.smp.saturating_sub(SMP_FULL));
    let mut init = vec![name.to_string(), tasks.to_string(), ops.to_string(), pages.to_string()];
    if let Some(line) = &args.run {
        let words = shell_words::split(line).context("--run")?;
        if words.is_empty() || words.iter().any(|w| w.is_empty() || w.contains('\0')) || words.len() > 60 {
            bail!("--run: 1 to 60 words, none of them empty");
        }
        init.extend(words);
    }
    let disk = args.disk.map(DiskArg::file_system);
    disk.map_or(Ok(()), |d| check_disk(d, names))?;
    let root = root(work)?;
    let mut files = files(&work.initrd_add)?;
    files.extend(root.files);
    Ok(Boot {
        kernel: args.kernel.clone().unwrap_or_else(|| args.vmlinux.clone()),
        build_id: names.build_id.clone().unwrap_or_default(),
        snapshot: !args.no_snapshot,
        vcpus: work.smp,
        memory_mib: work.memory,
        quantum: TURN,
        feedback: args.feedback,
        window: args.window,
        regions: work.regions,
        record: !args.no_record,
        timeout: Duration::from_secs(args.timeout.unwrap_or(TIMEOUT_S + TIMEOUT_CPU_S * beyond)),
        stream_bytes_max: args.stream_max << 20,
        init,
        files,
        links: root.links,
        disk,
        hooks: hooks.text.clone(),
        append: args.append.clone(),
    })
}

/// Modules are not in the guest: what reads the disk must be in the kernel itself.
fn check_disk(file_system: FileSystem, names: &KernelNames) -> anyhow::Result<()> {
    for (function, what, setting) in file_system.needs() {
        anyhow::ensure!(
            names.functions_named(function).next().is_some(),
            "--disk: this kernel has no {what} built in, and a guest has no modules: take one of Debian's cloud \
             kernels (scripts/fetch-kernel.sh FOLDER), or configure yours with {setting}"
        );
    }
    Ok(())
}

/// The folder of --root, if it fits: it is in the guest's memory twice while the kernel unpacks it.
fn root(work: &WorkArgs) -> anyhow::Result<emulator::Root> {
    let Some(dir) = &work.root else { return Ok(emulator::Root::default()) };
    let root = emulator::Root::of(dir)?;
    let needed_mib = (2 * root.bytes >> 20) + MEMORY_LEFT_MIB;
    anyhow::ensure!(
        needed_mib <= work.memory,
        "{}: {} MiB of files need a guest of {needed_mib} MiB (--memory, at most 2047): leave out what the \
         program does not read",
        dir.display(),
        root.bytes >> 20
    );
    Ok(root)
}

fn files(added: &[String]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut out = Vec::new();
    for word in added {
        let (file, name) = word.split_once('=').unwrap_or((word, word));
        anyhow::ensure!(name.trim_start_matches('/') != "init", "--initrd-add: /init is the guest's own");
        out.extend(emulator::with_libraries(Path::new(file), name)?);
    }
    Ok(out)
}

fn map(path: &Path) -> anyhow::Result<memmap2::Mmap> {
    let file = std::fs::File::open(path).with_context(|| {
        format!("{}: scripts/fetch-kernel.sh fetches a kernel with its debug information", path.display())
    })?;
    anyhow::ensure!(!file.metadata().is_ok_and(|m| m.is_dir()), "{}: it is a folder", path.display());
    // SAFETY: mapped for reading only; a file that shrinks meanwhile would end us, as any debugger.
    Ok(unsafe { memmap2::Mmap::map(&file) }.with_context(|| path.display().to_string())?)
}

fn tell(global: &Global, event: Event) {
    let progress = |what: &str, elapsed: Duration| {
        global.draw(format!("tussle: {what}, {} s ", elapsed.as_secs()));
    };
    match event {
        Event::Booting(elapsed) => return progress("the guest boots", elapsed),
        Event::Working(elapsed) => return progress("recording", elapsed),
        _ => global.erase(),
    }
    match event {
        Event::Kept { folder, bytes } => global.remark(format!(
            "the booted guest is kept for further runs: {} ({} MiB; --no-snapshot does without)",
            folder.display(),
            bytes >> 20
        )),
        Event::Restored { folder } => global.remark(format!("booted guest from {}", folder.display())),
        Event::Damaged { folder, why } => {
            global.remark(format!("{}: {why}; booting instead", folder.display()));
        }
        Event::NotKept { why } => global.remark(format!("the booted guest could not be kept: {why}")),
        _ => {}
    }
}
