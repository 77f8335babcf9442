//! The steps of a hunt, each printed before it runs.

use super::course::{Course, Phase};
use super::{Args, DEFAULT_PATCH};
use crate::cmd::project_file::ProjectFile;
use crate::cmd::service::ServiceArgs;
use crate::global::Global;
use anyhow::{Context, bail};
use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tussle_advise::Advice;
use tussle_bench::{Metric, Paired};
use tussle_evidence::Evidence;
use tussle_host::bench::{self, Command, Plan, Until};
use tussle_host::evidence_file;
use tussle_host::fix::{self, Patched};
use tussle_host::images::HostImages;
use tussle_host::project::wrapper::CARGO;
use tussle_host::project::{
    self, BuildError, Programs, Project, Scratch, System, Untouched, Workshop, Wrapper,
};
use tussle_host::record::{Output, RecordError, RecordOptions, record};
use tussle_host::said::Said;
use tussle_render::shell;

/// Programs beside the one that is run of which it is told.
const OTHERS_TOLD_MAX: usize = 5;
/// A benchmark takes about this long when nobody says how many pairs.
const BENCH_SECONDS: f64 = 60.0;

/// What does not change from step to step.
pub struct Hunt<'a> {
    /// Where remarks go.
    pub global: &'a Global,
    /// The program's folder, absolute.
    pub dir: PathBuf,
    project: Project,
    wrapper: Wrapper,
    exe: PathBuf,
    untouched: RefCell<Untouched>,
    /// The run that has changed a source of the folder, and what it did.
    spoilt: OnceCell<(String, String)>,
    /// What the command line says to run.
    asked: Vec<OsString>,
    service: ServiceArgs,
    metric: Metric,
    /// Nobody else needs the layouts.
    abi_ok: bool,
    /// What the folder's `tussle.toml` says.
    pub file: ProjectFile,
    for_use: OnceCell<Built>,
    /// How far it came.
    pub course: Course,
}

/// A copy of the folder, built.
pub struct Built {
    /// The copy.
    pub workshop: Workshop,
    programs: Programs,
}

/// The program as it is, built with instrumentation and run once.
pub struct First {
    /// The instrumented copy.
    pub built: Built,
    /// What was run, relative to the copy.
    pub argv: Vec<OsString>,
    /// What was recorded.
    pub evidence: Evidence,
    /// What the program wrote.
    pub said: Said,
}

/// A recorded run.
pub struct RecordedRun {
    /// What was recorded, with names.
    pub evidence: Evidence,
    /// What the program wrote.
    pub said: Said,
    /// How it ended, as a shell shows it.
    pub status: u8,
}

impl RecordedRun {
    /// # Errors
    /// The program did not end with 0; `hint` says what to do.
    fn that_succeeds(self, hint: &str) -> anyhow::Result<RecordedRun> {
        let status = self.status;
        anyhow::ensure!(
            status == 0,
            "the recorded program ended with status {status}; `hunt` needs a run that succeeds{hint}"
        );
        Ok(self)
    }
}

/// A shell's status, and that of `env` and `timeout`, where there is no such program.
const NOT_FOUND: u8 = 127;

/// A program that runs for longer is measured without a prediction, which takes several runs.
const PREDICT_RUN_S_MAX: f64 = 5.0;

impl<'a> Hunt<'a> {
    /// Tells what happens next.
    pub fn remark(&self, what: impl std::fmt::Display) {
        self.global.remark(what);
    }

    /// Tells what begins now, and how long the last one like it took.
    pub fn begin(&self, phase: Phase, what: impl std::fmt::Display) {
        let what = what.to_string();
        let took = self.course.begin(phase, &what).map(|t| t.as_secs_f64()).filter(|t| *t >= 1.0);
        match took {
            Some(s) => self.remark(format_args!("{what} (about {s:.0} s)")),
            None => self.remark(what),
        }
    }

    /// Finds out how to build and what to run.
    pub fn new(args: &Args, global: &'a Global) -> anyhow::Result<Hunt<'a>> {
        let dir = args.dir.canonicalize().with_context(|| format!("cannot enter {}", args.dir.display()))?;
        let file = ProjectFile::of(&dir)?;
        let build = args.build.as_ref().or(file.build.as_ref());
        let project = Project::find(&dir, build.map(String::as_str))?;
        let exe = std::env::current_exe().context("cannot find this binary")?;
        let wrapper = Wrapper::new(&exe)?;
        let run = args.run.as_ref().or(file.run.as_ref().filter(|_| args.command.is_empty()));
        let asked = run.map_or_else(|| Ok(args.command.clone()), |line| words(line))?;
        not_cargo(&asked)?;
        if !project.others.is_empty() {
            let others: Vec<String> = project.others.iter().map(System::to_string).collect();
            let system = &project.system;
            global.remark(format!("built by {system}; --build chooses another way ({})", others.join(", ")));
        }
        if let System::Member(at, _) = &project.system {
            let root = project.dir.display();
            global.remark(format!(
                "{} is built in its workspace {root}, which a patch is for: `patch -p1` there",
                at.display()
            ));
        }
        let dir = project.dir.clone();
        let usual = [dir.join(evidence_file::DEFAULT_PATH), dir.join(DEFAULT_PATCH)];
        let ours = [args.output.as_path(), &args.patch, &usual[0], &usual[1]];
        let untouched = RefCell::new(Untouched::new(&dir, &ours));
        let either = |given: &Option<String>, file: &Option<String>, default: &str| {
            given.clone().or(file.clone()).unwrap_or_else(|| default.into())
        };
        let metric = either(&args.metric, &file.metric, "wall");
        let metric = crate::cmd::bench::metric(&metric, &either(&args.kind, &file.kind, "rate"))?;
        let service = args.service.or(&file)?;
        let for_use = OnceCell::new();
        let abi_ok = args.abi_ok;
        let course = Course::new(&args.patch);
        Ok(Hunt {
            global,
            dir,
            project,
            wrapper,
            exe,
            untouched,
            spoilt: OnceCell::new(),
            asked,
            service,
            metric,
            abi_ok,
            file,
            for_use,
            course,
        })
    }

    /// Builds a copy of `dir` with the compiler wrapper.
    pub fn build_instrumented(&self, dir: &Path) -> anyhow::Result<Built> {
        self.begin(
            Phase::Build,
            format_args!("building an instrumented copy: {}", self.project.system.command()),
        );
        self.build(dir, self.wrapper.environment_for(&self.project.system))
    }

    /// The environment of a build without instrumentation.
    fn plain(&self) -> Vec<(&'static str, OsString)> {
        self.wrapper.plain_environment_for(&self.project.system)
    }

    fn build(&self, dir: &Path, env: Vec<(&'static str, OsString)>) -> anyhow::Result<Built> {
        let built = Workshop::new(&self.project, dir, env);
        self.left_alone()?;
        let (workshop, programs) = built?;
        Ok(Built { workshop, programs })
    }

    /// # Errors
    /// A build has written into the folder.
    fn left_alone(&self) -> anyhow::Result<()> {
        if let Some((command, what)) = self.spoilt.get().cloned() {
            return Err(BuildError::TouchedByRun { command, what }.into());
        }
        let Some(change) = self.untouched.borrow().changed() else { return Ok(()) };
        let (command, what) = (self.project.system.command(), change.to_string());
        Err(BuildError::Touched { command, what }.into())
    }

    /// What a run writes into the folder by an absolute path is its own affair, and told once.
    ///
    /// # Errors
    /// It has changed a source: what was recorded is not what would be patched.
    fn left_alone_by(&self, argv: &[OsString]) -> anyhow::Result<()> {
        let (command, changes) = (shown(argv), self.untouched.borrow_mut().changed_by_run());
        if let Some(source) = changes.iter().find(|c| c.is_of_source()) {
            let _ = self.spoilt.set((command, source.to_string()));
            return self.left_alone();
        }
        if let Some(first) = changes.first() {
            let more = if changes.len() > 1 { format!(" ({} files)", changes.len()) } else { String::new() };
            self.remark(format_args!(
                "{first}{more} while `{command}` ran: it has an absolute path of the folder itself; with a relative \
                 one it writes in the copy"
            ));
        }
        Ok(())
    }

    /// Builds the instrumented copy with a patch, as far as that was not done when it was verified.
    pub fn build_patched(&self, built: &Built, patched: &Patched) -> anyhow::Result<()> {
        let texts = patched.files.iter().map(|f| (f.path.as_path(), f.new.as_str()));
        let done = built.workshop.with(texts, &mut |command| self.remark(command));
        self.left_alone()?;
        Ok(done?)
    }

    /// What to run, relative to a built folder: what was asked for, else the one program that was built.
    pub fn argv(&self, built: &Built) -> anyhow::Result<Vec<OsString>> {
        let in_copy = |program: &Path| Path::new(".").join(program).into_os_string();
        let Some(first) = self.asked.first() else {
            return Ok(vec![in_copy(&self.project.only(&built.programs)?)]);
        };
        let mut argv = self.asked.clone();
        let asked = Path::new(first);
        match built.programs.named(built.workshop.path(), asked) {
            Some(program) => argv[0] = in_copy(&program),
            None if asked.is_relative() && asked.components().count() > 1 => {
                let (asked, found) = (asked.display().to_string(), built.programs.names());
                return Err(BuildError::NoSuchProgram { asked, found }.into());
            }
            None => {}
        }
        Ok(argv)
    }

    /// Builds an instrumented copy of the folder; with what is to be run.
    fn instrumented(&self) -> anyhow::Result<(Built, Vec<OsString>)> {
        let built = self.build_instrumented(&self.dir)?;
        let argv = self.argv(&built)?;
        self.tell_of_others(&built.programs);
        Ok((built, argv))
    }

    /// The same, recorded, however it ends.
    ///
    /// # Errors
    /// It cannot be built or recorded.
    pub fn once(&self) -> anyhow::Result<RecordedRun> {
        let (built, argv) = self.instrumented()?;
        self.record(&built, &argv)
    }

    /// Builds an instrumented copy of the folder, and runs and records what was asked for.
    ///
    /// # Errors
    /// It cannot be built or recorded, or does not end with 0.
    pub fn first(&self) -> anyhow::Result<First> {
        let (built, argv) = self.instrumented()?;
        // Nobody has said what belongs on its command line.
        let unsaid = self.asked.is_empty().then(|| Path::new(&argv[0]).file_name()).flatten();
        let unsaid = unsaid.map(|name| format!(": --run './{} ARGUMENTS' says how", name.to_string_lossy()));
        let RecordedRun { evidence, said, .. } =
            self.record(&built, &argv)?.that_succeeds(&unsaid.unwrap_or_default())?;
        Ok(First { built, argv, evidence, said })
    }

    /// Tests and the like are not run by themselves, and may be the better load.
    fn tell_of_others(&self, programs: &Programs) {
        // What cargo runs while it builds is no load.
        let script =
            |p: &Path| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("build-script-"));
        let others = programs.others.iter().filter(|p| !script(p)).take(OTHERS_TOLD_MAX);
        let others: Vec<String> = others.map(|p| format!("./{}", p.display())).collect();
        if self.asked.is_empty() && !others.is_empty() {
            self.global.remark(format!("built as well: {} (--run 'COMMAND' runs one)", others.join(", ")));
        }
    }

    /// Runs the instrumented program and names what it did; with what it wrote.
    pub fn record(&self, built: &Built, argv: &[OsString]) -> anyhow::Result<RecordedRun> {
        self.begin(Phase::Record, format_args!("recording {}", shown(argv)));
        if let Some(load) = self.service.load() {
            self.global.remark(format!("driven by {load}"));
        }
        let dir = built.workshop.path();
        let recorded = record(&self.options(built, argv, Output::Heard));
        self.left_alone_by(argv)?;
        let recorded = recorded.map_err(|e| self.explained(e, built, argv))?;
        self.course.begin(Phase::Name, "naming what was seen");
        recorded.problems.iter().for_each(|p| self.global.remark(p));
        let copy = dir.display().to_string();
        let mut evidence = recorded.evidence;
        let mut images = HostImages::new();
        images.source_roots.push(dir.to_path_buf());
        for problem in tussle_naming::name(&mut evidence, &mut images) {
            self.global.remark(problem.to_string().replace(&format!("{copy}/"), ""));
        }
        // The copy is gone when somebody looks at the evidence.
        tussle_evidence::rehome(&mut evidence, &copy, &self.dir.display().to_string());
        let said = recorded.said.without_place(dir);
        built.workshop.clean();
        Ok(RecordedRun { evidence, said, status: recorded.status })
    }

    /// Runs the instrumented program once more for what it writes.
    pub fn said(&self, built: &Built, argv: &[OsString]) -> anyhow::Result<Said> {
        let recorded = record(&self.options(built, argv, Output::HeardOnly));
        self.left_alone_by(argv)?;
        let recorded = recorded?;
        built.workshop.clean();
        Ok(recorded.said.without_place(built.workshop.path()))
    }

    fn options(&self, built: &Built, argv: &[OsString], output: Output) -> RecordOptions {
        let dir = built.workshop.path();
        let argv = in_folder(dir, argv);
        let built_here = Path::new(&argv[0]).starts_with(dir) && is_elf(Path::new(&argv[0]));
        RecordOptions {
            // A script, or a program of the system: what it starts is recorded.
            children: !built_here,
            service: self.service.service(&argv, Some(dir.to_path_buf())),
            folder: Some(dir.to_path_buf()),
            output,
            starts: built.programs.candidates.iter().map(|p| dir.join(p)).collect(),
            ..RecordOptions::new(argv)
        }
    }

    /// A program that is not instrumented, although its compilers were: with the reason, if the build says it.
    fn explained(&self, error: RecordError, built: &Built, argv: &[OsString]) -> anyhow::Error {
        if let RecordError::NoReport { status: NOT_FOUND, .. } = error {
            return not_found(argv, &built.programs);
        }
        let refused = matches!(error, RecordError::Refused(..) | RecordError::NoReport { .. });
        let named = || project::compilers_named(built.workshop.path(), self.wrapper.path());
        let named = if refused { named() } else { Vec::new() };
        let error = anyhow::Error::from(error);
        if named.is_empty() {
            return error;
        }
        let places: Vec<String> = named.iter().map(ToString::to_string).collect();
        let (places, remedy) = (places.join("; "), project::remedy(&named));
        error.context(format!("the build does not take its compiler from PATH: {places}; {remedy}"))
    }

    /// The program as its users build it; built once.
    fn for_use(&self) -> anyhow::Result<&Built> {
        if let Some(built) = self.for_use.get() {
            return Ok(built);
        }
        let command = self.project.system.command();
        self.begin(Phase::Plain, format_args!("building a copy without instrumentation: {command}"));
        let built = self.build(&self.dir, self.plain())?;
        Ok(self.for_use.get_or_init(|| built))
    }

    /// The file of that program, if what runs is one that was built; what fails is told when it is to be measured.
    pub fn program_for_use(&self, argv: &[OsString]) -> Option<PathBuf> {
        let dir = self.for_use().ok()?.workshop.path();
        let exe = PathBuf::from(in_folder(dir, argv).first()?);
        (exe.starts_with(dir) && is_elf(&exe)).then_some(exe)
    }

    /// Makes the patch and verifies it, in the instrumented copy where that is possible.
    pub fn patch(&self, dir: &Path, advice: &Advice, built: &Built) -> anyhow::Result<Patched> {
        let build = fix::Build::of(&self.project.system, dir);
        let request = fix::Request {
            dir,
            type_name: &advice.type_name,
            decl: advice.decl.as_ref(),
            edits: &advice.edits,
            build: &build,
            abi_ok: self.abi_ok,
            sites: &advice.sites,
            workshop: Some(&built.workshop),
        };
        let patched = fix::patch_tree(&request, &mut |command| self.global.remark(command));
        self.left_alone()?;
        Ok(patched?)
    }

    /// A copy of the sources with the patch.
    pub fn patched_copy(&self, dir: &Path, patched: &Patched) -> anyhow::Result<Scratch> {
        let scratch = self.project.copy(dir)?;
        fix::apply(scratch.path(), patched)?;
        Ok(scratch)
    }

    /// Builds both versions as the user would and measures them.
    /// Where time is measured and one run is short enough, `predict` is given the unpatched program first.
    pub fn measure(
        &self,
        pairs: Option<usize>,
        argv: &[OsString],
        patched: &Path,
        predict: &mut dyn FnMut(Command),
    ) -> anyhow::Result<Paired> {
        let is_service = self.service.service(argv, None).is_some();
        if is_service && !self.metric.needs_output() {
            bail!("a server runs for as long as its load: --metric says which figure of the load counts");
        }
        let old = self.for_use()?;
        self.begin(Phase::Plain, "building the patched version without instrumentation");
        let new = self.build(patched, self.plain())?;
        let arm = |name: &str, built: &Built| {
            let dir = built.workshop.path();
            let mut argv = in_folder(dir, argv);
            if is_service {
                let exe = self.exe.clone().into_os_string();
                let words = std::iter::once(exe).chain(self.service.words()).chain(["--".into()]);
                argv.splice(0..0, words);
            }
            Command::argv(name, argv).in_folder(dir)
        };
        let arms = vec![arm("before", old), arm("after", &new)];
        let timed = !is_service && !self.metric.needs_output();
        if timed && time_once(&arms[0])?.as_secs_f64() < PREDICT_RUN_S_MAX {
            predict(arms[0].clone());
        }
        let plan = self.plan(pairs, arms)?;
        let run = bench::run(&plan, None, &mut |p| {
            let left = p.left().as_secs_f64();
            self.global.draw(format_args!(
                "tussle: measuring, {} of at most {} runs, {left:.0} s left",
                p.done, p.planned
            ));
        })?;
        self.global.erase();
        if let Some(stopped) = run.stopped {
            return Err(stopped.into());
        }
        Ok(Paired::from_results(&run.results, 0, 1)?)
    }

    fn plan(&self, pairs: Option<usize>, arms: Vec<Command>) -> anyhow::Result<Plan> {
        let pairs = match pairs {
            Some(n) => Until::Pairs(n.max(2)),
            None => {
                let once = time_once(&arms[0])?;
                let fit = BENCH_SECONDS / (2.0 * once.as_secs_f64().max(0.001));
                Until::Decided {
                    question: tussle_bench::Criterion::default(),
                    pairs_max: (fit as usize).clamp(5, 40),
                }
            }
        };
        self.begin(Phase::Measure, "measuring old against new in randomly ordered pairs");
        let mut plan = Plan::new(arms, 2);
        plan.until = pairs;
        plan.metric = self.metric.clone();
        Ok(plan)
    }
}

/// `outer` is `inner`, or embeds it.
pub fn contains(
    e: &Evidence,
    outer: tussle_model::TypeId,
    inner: tussle_model::TypeId,
    depth: usize,
) -> bool {
    let (outer, inner) = (e.types.strip(outer), e.types.strip(inner));
    if outer == inner {
        return true;
    }
    if depth > 8 {
        return false;
    }
    match e.types.get(outer) {
        tussle_model::Type::Aggregate(a) => a.members.iter().any(|m| contains(e, m.ty, inner, depth + 1)),
        tussle_model::Type::Array { elem, .. } => contains(e, *elem, inner, depth + 1),
        _ => false,
    }
}

/// All edits of an advice in one line.
pub fn edits(advice: &Advice) -> String {
    advice.edits.iter().map(|e| e.sentence()).collect::<Vec<_>>().join(", then ")
}

/// One run, to know how many fit into a minute.
fn time_once(arm: &Command) -> anyhow::Result<Duration> {
    let bench::Program::Argv(argv) = &arm.program else { bail!("a hunt runs programs, not shell lines") };
    let (program, arguments) = argv.split_first().context("nothing to run")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(folder) = &arm.folder {
        command.current_dir(folder);
    }
    let start = Instant::now();
    let status = tussle_host::interrupted::spawn(&mut command)
        .and_then(|mut c| c.wait())
        .with_context(|| format!("cannot run {}", arm.text()))?;
    if !status.success() {
        bail!("{} fails without instrumentation ({status})", arm.text());
    }
    Ok(start.elapsed())
}

/// What went wrong where nothing that the command should start was there.
fn not_found(argv: &[OsString], programs: &Programs) -> anyhow::Error {
    let made = match programs.names() {
        names if names.is_empty() => "the build made no program".into(),
        names => format!("the build made {}", names.join(", ")),
    };
    anyhow::anyhow!(
        "`{}` ended with {NOT_FOUND}, as a shell does that does not find a program or one of its libraries; {made}",
        shown(argv)
    )
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0u8; 4];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut magic)).is_ok() && &magic == b"\x7fELF"
}

/// Makes a relative program with a slash in it absolute below `dir`; a bare name is left to `PATH`.
fn in_folder(dir: &Path, argv: &[OsString]) -> Vec<OsString> {
    let mut argv = argv.to_vec();
    if let Some(first) = argv.first_mut() {
        let path = Path::new(first);
        if path.is_relative() && (path.components().count() > 1 || dir.join(path).is_file()) {
            *first = dir.join(path.strip_prefix(".").unwrap_or(path)).into_os_string();
        }
    }
    argv
}

fn shown(argv: &[OsString]) -> String {
    argv.iter().map(|a| shell::word(&a.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Splits a command line into words as a shell would, without running one.
fn words(line: &str) -> anyhow::Result<Vec<OsString>> {
    let words = shell_words::split(line).with_context(|| format!("cannot split `{line}` into words"))?;
    if words.is_empty() {
        bail!("--run is empty");
    }
    Ok(words.into_iter().map(Into::into).collect())
}

/// What was built with the recorder inside is run, and cargo would build it again without.
fn not_cargo(asked: &[OsString]) -> anyhow::Result<()> {
    if asked.first().is_none_or(|program| program != CARGO) {
        return Ok(());
    }
    let words: Vec<_> = asked.iter().map(|w| w.to_string_lossy()).collect();
    let named = words.windows(2).find(|w| ["--example", "--bin"].contains(&&*w[0]));
    let own = words.iter().skip_while(|w| *w != "--").skip(1);
    let program = named.map_or("PROGRAM".into(), |w| w[1].clone());
    let line: Vec<_> = std::iter::once(&program).chain(own).map(|w| shell::word(w)).collect();
    bail!(
        "{} would build the program again, without the recorder: name the program alone (--run {}); `tussle cargo \
         run` records what cargo runs, without a hunt, and tests and benches, too",
        words.iter().take(2).cloned().collect::<Vec<_>>().join(" "),
        shell::quoted(&line.join(" ")),
    )
}
