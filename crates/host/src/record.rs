//! Running a program under the recorder.

mod about;
mod alive;
mod counting;
mod forwarding;
mod inherited;
mod limits;
mod made;
mod place;
mod runtime_files;
mod sentinel;
mod session;
mod silent;
mod spawn;

use crate::cache::CacheError;
use crate::elf::{self, Inspection};
use crate::emulate::{EmulateError, Emulation};
use crate::said::Said;
use session::Note;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tussle_evidence::{Evidence, Loss, OTHER_PROGRAMS};
use tussle_rt::RawFile;
use tussle_rt::convert::{Keep, convert_telling};

pub use counting::{Counting, signal};
pub(crate) use forwarding::descends;
pub(crate) use place::room;
pub use runtime_files::{assembler_folder, include_folder, links_folder, object_file, shared_folder};
pub use session::{Leftover, Session, leftovers};

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Cap on each process's recording in bytes.
    pub mem_max_bytes: u64,
    /// Load the runtime into a program that is not instrumented itself (an interpreter that loads such libraries).
    pub preload: bool,
    /// Accept a program that is not instrumented, for the instrumented ones that it starts.
    pub children: bool,
    /// Run it under an emulator that carries the recorder, whatever the program is.
    pub emulate: bool,
    /// Keep lines that only one thread used, too.
    pub keep_all: bool,
    /// Folder in which the program runs; the current one if `None`.
    pub folder: Option<PathBuf>,
    /// Where the program's standard output and error go.
    pub output: Output,
    /// It is driven by a load and then told to end.
    pub service: Option<crate::service::Service>,
    /// Without a load: it is asked to end (SIGTERM) after so long.
    pub duration: Option<std::time::Duration>,
    /// Which part of the run is counted.
    pub counting: Counting,
    /// Programs that the command may start, beside those that it names: for a word about one that recorded nothing.
    pub starts: Vec<PathBuf>,
}

/// Where a program's standard output and error go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Where this process's go.
    #[default]
    Inherited,
    /// Standard error goes where this process's goes; both are kept in [`Recorded::said`].
    Heard,
    /// Both are kept only.
    HeardOnly,
}

impl RecordOptions {
    /// Records `command` with defaults.
    pub fn new(command: Vec<OsString>) -> RecordOptions {
        RecordOptions {
            command,
            mem_max_bytes: tussle_rt::MEM_MAX_DEFAULT,
            preload: false,
            children: false,
            emulate: false,
            keep_all: false,
            folder: None,
            output: Output::Inherited,
            service: None,
            duration: None,
            counting: Counting::default(),
            starts: Vec::new(),
        }
    }
}

/// A finished recording.
pub struct Recorded {
    /// What was recorded, without names.
    pub evidence: Evidence,
    /// Exit status as a shell shows it: 128 + n after signal n.
    pub status: u8,
    /// For people: what could not be read or was lost.
    pub problems: Vec<String>,
    /// The raw files, which go when this is dropped: to be kept where the evidence could not be written.
    pub session: Session,
    /// No process of the recording is known to be alive: the raw files hold all that there will be.
    pub finished: bool,
    /// Ids of processes that still ran when their files were read.
    pub alive: Vec<u32>,
    /// Objects whose allocator was told the name of their type, or of their elements' type.
    pub told: Vec<(u32, String)>,
    /// What the program wrote, where [`Output`] says so.
    pub said: Said,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No such program.
    #[error("{0}: not found")]
    NotFound(String),
    /// A file, but not one that can be run.
    #[error("{0}: cannot be run: {1}")]
    NotExecutable(String, String),
    /// It could be run but not recorded; the text says what to do.
    #[error("{0}: {1}")]
    Refused(String, String),
    /// The program ran, but the runtime inside never reported.
    #[error("{program}: the recorder inside it did not start ({end}): {hint}")]
    NoReport {
        /// Program.
        program: String,
        /// How it ended.
        end: String,
        /// What to do.
        hint: String,
        /// The program's own status.
        status: u8,
    },
    /// The runtime cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Something on this machine failed.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// No runtime for this platform.
    #[error("this tussle carries no recorder: recording works on x86-64 Linux with glibc")]
    Unsupported,
}

impl RecordError {
    /// Exit status of `record`: 127 not found, 126 not executable, else 125, as `env` and `timeout` have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            RecordError::NotFound(_) => 127,
            RecordError::NotExecutable(..) => 126,
            _ => 125,
        }
    }
}

/// How the runtime gets into the program.
enum Way {
    Inside,
    LibraryPath,
    Preload,
    Children,
    Emulated(Box<Emulation>),
}

/// Runs the program and reads what its processes recorded. The program keeps stdin, stdout and stderr.
pub fn record(options: &RecordOptions) -> Result<Recorded, RecordError> {
    record_telling(options, &mut |_| {})
}

/// As [`record`]; `tell` hears how far the reading of the raw files is, from 0 to 1.
pub fn record_telling(options: &RecordOptions, tell: &mut dyn FnMut(f64)) -> Result<Recorded, RecordError> {
    if tussle_rt::SHARED.is_empty() {
        return Err(RecordError::Unsupported);
    }
    let Some(name) = options.command.first() else {
        return Err(RecordError::NotFound("(no program given)".into()));
    };
    let program = find_program(name, options.folder.as_deref())?;
    let way = way_for(&program, options)?;
    limits::raise().map_err(|why| RecordError::Refused(program.display().to_string(), why))?;
    let (place, note) = place::choose(options.mem_max_bytes);
    let session = Session::create(&place)?;
    let emulated = match &way {
        Way::Emulated(e) => {
            e.prepare(session.path()).map_err(|e| refused(&program, &e))?;
            Some((e.version.clone(), e.machine.name.to_string()))
        }
        _ => None,
    };
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let command: Vec<String> = options.command.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let mut starts = silent::named_in(&command, options.folder.as_deref());
    starts.extend(options.starts.iter().cloned());
    let mut known = Note {
        command,
        program: program.clone(),
        starts,
        children: matches!(way, Way::Children),
        keep_all: options.keep_all,
        flags: about::flags(options),
        compiler: about::compiler(&program),
        input_hash: Some(about::input_hash(options)),
        emulated,
        started_unix_s: started.map_or(0.0, |d| d.as_secs_f64()),
        ..Note::default()
    };
    session.write(&known)?;
    let control = counting::Control::new(session.path(), &options.counting)
        .map_err(|e| RecordError::Io(session.path().display().to_string(), e))?;
    let clock = std::time::Instant::now();
    let env = environment(&way, session.path(), options)?;
    let begun = |pid| {
        known.pid = Some(pid);
        control.iter().for_each(|c| c.begin(&options.counting));
        // Without the note the recording is still finished by this process.
        let _ = session.write(&known);
    };
    let (file, command) = match &way {
        Way::Emulated(e) => (&e.emulator, e.command(&program, &options.command, &HIDDEN)),
        _ => (&program, options.command.clone()),
    };
    let end = spawn::run(file, &command, options, &env, begun)
        .map_err(|e| RecordError::NotExecutable(program.display().to_string(), e.to_string()))?;
    drop(control);
    (known.duration_s, known.wait_status) = (Some(clock.elapsed().as_secs_f64()), end.wait_status());
    // There may be no room left for the note: it only matters if this process is ended before it has finished.
    let _ = session.write(&known);
    spawn::tell_where(session.path());
    let mut recorded = finish(session, &known, &end, tell)?;
    if options.service.is_some() {
        alive::end_those_of(recorded.session.path());
    }
    recorded.said = end.said();
    recorded.problems.splice(0..0, note.into_iter().chain(end.notes().iter().cloned()));
    Ok(recorded)
}

/// Finishes a recording whose tussle was ended, from its session folder. The folder stays if processes of the recording
/// are still alive.
pub fn convert_session(folder: &Path, tell: &mut dyn FnMut(f64)) -> Result<Recorded, RecordError> {
    let (session, note) = Session::open(folder)?;
    spawn::tell_where(session.path());
    let end = spawn::End::of_note(note.pid.unwrap_or(0), note.wait_status);
    let mut recorded = finish(session, &note, &end, tell)?;
    if note.wait_status.is_none() && !recorded.alive.is_empty() {
        let text = format!("processes {:?} are still alive: {} stays", recorded.alive, folder.display());
        recorded.problems.push(text);
        recorded.finished = false;
    }
    Ok(recorded)
}

/// Reads the raw files and adds what is known of the run.
fn finish(
    session: Session,
    note: &Note,
    end: &spawn::End,
    tell: &mut dyn FnMut(f64),
) -> Result<Recorded, RecordError> {
    let mut recorded = read_session(session, note, end, tell)?;
    let run = &mut recorded.evidence.run;
    run.command.clone_from(&note.command);
    run.started_unix_s = (note.started_unix_s > 0.0).then_some(note.started_unix_s);
    run.duration_s = note.duration_s;
    run.flags = Some(note.flags.clone());
    (run.compiler, run.input_hash) = (note.compiler.clone(), note.input_hash.clone());
    run.cpu_model = cpu_model();
    if let Some((emulator, machine)) = &note.emulated {
        (run.arch, run.cpu_model) = (machine.clone(), format!("{}, emulated by {emulator}", run.cpu_model));
        // The emulator tells of simple reads only, not of vectors and messages.
        run.sees.kernel_writes = false;
    }
    let others = recorded.evidence.processes.iter().filter(|p| p.end == "exec").count() as u64;
    if note.emulated.is_some() && others > 0 {
        recorded.evidence.losses.push(Loss {
            process: None,
            what: OTHER_PROGRAMS.into(),
            count: others,
            note: "what a shell, a launcher or the program itself executes runs without the emulator and is not \
                   recorded: give that program to --emulate itself"
                .into(),
        });
    }
    let run = &mut recorded.evidence.run;
    run.cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Ok(recorded)
}

/// What an emulated program does not see of its environment: it is for the recorder in the emulator.
const HIDDEN: [&str; 3] =
    [tussle_rt::SESSION_VARIABLE, tussle_rt::MEM_MAX_VARIABLE, tussle_rt::OPERATIONS_VARIABLE];

fn refused(program: &Path, why: &EmulateError) -> RecordError {
    RecordError::Refused(program.display().to_string(), why.to_string())
}

/// The file that a shell would run for `name`.
fn find_program(name: &OsString, folder: Option<&Path>) -> Result<PathBuf, RecordError> {
    let text = name.to_string_lossy().into_owned();
    let check = |p: PathBuf| match std::fs::metadata(&p) {
        Ok(m) if m.is_dir() => Err(RecordError::NotExecutable(text.clone(), "it is a folder".into())),
        Ok(_) if !executable(&p) => Err(RecordError::NotExecutable(
            text.clone(),
            format!("not executable (chmod +x {})", p.display()),
        )),
        Ok(_) => Ok(p),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(RecordError::NotExecutable(text.clone(), e.to_string()))
        }
        Err(_) => Err(RecordError::NotFound(text.clone())),
    };
    if name.as_bytes().contains(&b'/') {
        let at = PathBuf::from(name);
        let at = folder.map_or_else(|| at.clone(), |f| f.join(&at));
        return check(std::path::absolute(&at).unwrap_or(at));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found = std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file() && executable(p));
    check(found.ok_or_else(|| RecordError::NotFound(text.clone()))?)
}

fn executable(p: &Path) -> bool {
    let Ok(c) = std::ffi::CString::new(p.as_os_str().as_bytes()) else { return false };
    // SAFETY: a zero-terminated path.
    unsafe { libc::access(c.as_ptr(), libc::X_OK) == 0 }
}

/// True if the kernel would run it as somebody else.
fn gets_rights(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(m) = std::fs::metadata(program) else { return false };
    // SAFETY: system calls that only answer.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    (m.mode() & 0o4000 != 0 && m.uid() != user) || (m.mode() & 0o2010 == 0o2010 && m.gid() != group)
}

fn way_for(program: &Path, options: &RecordOptions) -> Result<Way, RecordError> {
    if options.emulate {
        let mut announce = |command: &str| _ = writeln!(std::io::stderr(), "tussle: {command}");
        let emulation = Emulation::new(program, &mut announce).map_err(|e| refused(program, &e))?;
        return Ok(Way::Emulated(Box::new(emulation)));
    }
    let name = program.display().to_string();
    let bytes =
        std::fs::read(program).map_err(|e| RecordError::NotExecutable(name.clone(), e.to_string()))?;
    let mut libraries = |n: &str, paths: &[PathBuf]| elf::find_library(n, paths, program);
    let refuse = |why: String| Err(RecordError::Refused(name.clone(), why));
    let found = elf::inspect(&bytes, &mut libraries);
    if !matches!(found, Inspection::NotInstrumented { .. } | Inspection::Script(_)) && gets_rights(program) {
        return refuse(
            "it is set-user-id or set-group-id, and records nothing while it has more rights than you: record a copy \
             of it, or run tussle as its owner"
                .into(),
        );
    }
    match found {
        Inspection::OwnRuntime => Ok(Way::Inside),
        Inspection::NeedsLibtsan(_) => Ok(Way::LibraryPath),
        Inspection::InstrumentedLibraries(_) => Ok(Way::Preload),
        Inspection::NotInstrumented { dynamic: true } if options.preload => Ok(Way::Preload),
        Inspection::NotInstrumented { .. } | Inspection::Script(_) if options.children => Ok(Way::Children),
        Inspection::NotInstrumented { dynamic } => refuse(not_instrumented(dynamic)),
        Inspection::Script(i) => refuse(format!(
            "it is a script for `{i}`: record the interpreter and give it the script, with --preload if it loads \
             instrumented libraries, or with --children if it starts instrumented programs"
        )),
        Inspection::LibtsanByRpath(at) => refuse(format!(
            "its DT_RPATH finds {} before tussle's runtime: relink without -rpath (or with \
             -Wl,--enable-new-dtags), or build it with `tussle cc`",
            at.display()
        )),
        Inspection::StaticLibtsan => refuse(
            "the sanitizer's runtime is linked in statically (clang's default, or -static-libtsan) and cannot be \
             replaced: build it with `tussle cc` (TUSSLE_CC=clang keeps clang), or with gcc -fsanitize=thread"
                .into(),
        ),
        Inspection::Foreign(what) => {
            refuse(format!("it is a {what} program: only 64-bit x86 programs can be recorded on this machine"))
        }
        Inspection::Broken(why) => Err(RecordError::NotExecutable(name.clone(), why)),
    }
}

fn not_instrumented(dynamic: bool) -> String {
    let build = "it is not instrumented: build it with `tussle cc` in the place of the compiler (make CC='tussle cc'), \
                 with `tussle cargo build`, or with gcc -fsanitize=thread";
    if dynamic {
        format!(
            "{build}; an interpreter that loads instrumented libraries needs --preload, a launcher --children"
        )
    } else {
        format!("{build}; it is also linked statically, which leaves no way to load a runtime")
    }
}

fn environment(
    way: &Way,
    session: &Path,
    o: &RecordOptions,
) -> Result<Vec<(OsString, OsString)>, RecordError> {
    let mut env: Vec<(OsString, OsString)> = vec![
        (tussle_rt::SESSION_VARIABLE.into(), session.into()),
        (tussle_rt::MEM_MAX_VARIABLE.into(), o.mem_max_bytes.to_string().into()),
    ];
    let prepend = |name: &str, value: PathBuf| -> (OsString, OsString) {
        let mut all = value.into_os_string();
        if let Some(old) = std::env::var_os(name).filter(|v| !v.is_empty()) {
            all.push(":");
            all.push(old);
        }
        (name.into(), all)
    };
    if matches!(way, Way::LibraryPath | Way::Children) {
        env.push(prepend("LD_LIBRARY_PATH", shared_folder()?));
    }
    if matches!(way, Way::Preload) {
        env.push(prepend("LD_PRELOAD", shared_folder()?.join("libtsan.so.2")));
    }
    Ok(env)
}

fn read_session(
    session: Session,
    note: &Note,
    end: &spawn::End,
    tell: &mut dyn FnMut(f64),
) -> Result<Recorded, RecordError> {
    let mut problems = Vec::new();
    let maps = map_files(session.path(), &mut problems)?;
    let mut files = Vec::new();
    for (name, map) in &maps {
        match RawFile::new(name.clone(), map) {
            Ok(f) => files.push(f),
            Err(e) => problems.push(e.to_string()),
        }
    }
    if !files.iter().any(|f| note.children || end.pid == 0 || f.header().pid == end.pid) {
        return Err(RecordError::NoReport {
            program: note.program.display().to_string(),
            end: end.text(),
            hint: silent::hint(&problems, note, session.path()),
            status: end.status(),
        });
    }
    let keep = if note.keep_all { Keep::All } else { Keep::Shared };
    let converted = convert_telling(&files, keep, tell);
    problems.extend(converted.problems);
    let mut evidence = converted.evidence;
    let ids: Vec<u32> = evidence.processes.iter().map(|p| p.pid).collect();
    let running: Vec<bool> =
        ids.iter().zip(&converted.pid_namespaces).map(|(&p, &n)| alive::alive(p, n)).collect();
    complete(&mut evidence, end, &running);
    let alive = ids.into_iter().zip(running).filter(|p| p.1).map(|p| p.0).collect();
    let mut told = crate::emulate::go::names(&evidence, &converted.described);
    told.extend(converted.named);
    made::name(&mut evidence, std::fs::metadata(session.path()).and_then(|m| m.created()).ok());
    Ok(Recorded {
        evidence,
        status: end.status(),
        problems,
        session,
        finished: true,
        alive,
        told,
        said: Said::default(),
    })
}

/// Maps every raw file of the session.
fn map_files(
    session: &Path,
    problems: &mut Vec<String>,
) -> Result<Vec<(String, memmap2::Mmap)>, RecordError> {
    let io = |e| RecordError::Io(session.display().to_string(), e);
    let mut out = Vec::new();
    for entry in std::fs::read_dir(session).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".raw") {
            continue;
        }
        match std::fs::File::open(&path).and_then(|f| map_written(&f)) {
            Ok(m) => out.push((name, m)),
            Err(e) => problems.push(format!("{name}: {e}")),
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}

/// Maps what was written of a file: everything before its first hole, because memory is populated in order. Reading a
/// hole of a full tmpfs raises SIGBUS.
fn map_written(f: &std::fs::File) -> std::io::Result<memmap2::Mmap> {
    use std::os::fd::AsRawFd;
    // SAFETY: a system call on a descriptor that is open.
    let hole = unsafe { libc::lseek(f.as_raw_fd(), 0, libc::SEEK_HOLE) };
    let len = match usize::try_from(hole) {
        Ok(hole) => hole,
        // Where holes are unknown they take no memory when they are read.
        Err(_) => usize::try_from(f.metadata()?.len()).unwrap_or(usize::MAX),
    };
    // SAFETY: the folder is private; a recorded process that is still alive may write, which the reader's unaligned
    // copies out of bounds-checked places tolerate. Files are never shortened.
    unsafe { memmap2::MmapOptions::new().len(len).map(f) }
}

/// What only the parent knows: how the first process ended, which are `running`, and what the mapped files say of
/// themselves.
fn complete(evidence: &mut Evidence, end: &spawn::End, running: &[bool]) {
    let mut known = std::collections::HashMap::new();
    for m in &mut evidence.modules {
        let (id, first) = known.entry(m.path.clone()).or_insert_with(|| {
            let file = std::fs::File::open(&m.path).ok();
            // SAFETY: a read-only mapping that lives for this call; files of installed programs do not shrink.
            let map = file.and_then(|f| unsafe { memmap2::Mmap::map(&f).ok() });
            let map = map.as_deref().unwrap_or_default();
            (elf::build_id(map), elf::first_address(map).unwrap_or(0))
        });
        m.build_id.clone_from(id);
        m.bias = m.bias.wrapping_sub(*first);
    }
    for (i, p) in evidence.processes.iter_mut().enumerate() {
        let own = evidence.modules.iter().find(|m| m.process == i as u32 && m.path == p.exe);
        p.build_id = own.and_then(|m| m.build_id.clone());
        if p.pid == end.pid && p.end != "exec" {
            p.end = end.text();
        } else if p.end == "cut off" && !running.get(i).copied().unwrap_or(false) {
            p.end = "killed".into();
        }
    }
    evidence.run.complete = evidence.processes.iter().all(|p| p.end != "cut off");
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("model name"));
    line.and_then(|l| l.split_once(':')).map_or(String::new(), |(_, v)| v.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_is_mapped_up_to_its_first_hole() {
        for place in ["/dev/shm", "/var/tmp"].map(Path::new).into_iter().filter(|p| p.is_dir()) {
            let file = tempfile::tempfile_in(place).unwrap();
            file.set_len(1 << 20).unwrap();
            file.write_at(&[7; 65536], 0).unwrap();
            file.write_at(&[7; 65536], 1 << 19).unwrap();
            let map = map_written(&file).unwrap();
            // Where holes are unknown the whole file is mapped.
            assert!([1 << 16, 1 << 20].contains(&map.len()), "{}", map.len());
            assert_eq!(map[65535], 7);
        }
    }
}
