//! What keeps recording over `exec`: the environment as it was when the program began, given to programs with this
//! runtime inside even where the program clears it. Such a program takes it out of its environment again before `main`.
//! Others get exactly what they were given.

use crate::arch::{alias, list_stub};
use crate::arena::{lost, recording};
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::wire::LOST_CHILDREN;
use crate::{sync, sys};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Positions in [`NAMES`].
pub const SESSION: usize = 0;
pub const MEM_MAX: usize = 1;
pub const OPERATIONS: usize = 2;
const NAMES: [&[u8]; 3] = [b"TUSSLE_SESSION", b"TUSSLE_MEM_MAX", b"TUSSLE_OPERATIONS"];
/// Set where the program did not hand the variables on itself.
const HIDDEN: &[u8] = b"TUSSLE_HIDDEN";
static HIDDEN_SET: &[u8] = b"TUSSLE_HIDDEN=1\0";
const ROOM: usize = 4200;

/// `NAME=VALUE` as found at the start; empty where it was not set.
static mut KEPT: [[u8; ROOM]; 3] = [[0; ROOM]; 3];
static HAVE: AtomicU32 = AtomicU32::new(0);

/// Keeps the variables, and hides those that the program was not meant to see. A program that runs with more rights
/// than who started it (set-user-id) keeps none: it would write files of its own user where somebody else says.
///
/// # Safety
/// Called once, before `main`, with one thread.
pub unsafe fn keep() {
    const AT_SECURE: u64 = 23;
    // SAFETY: libc answers from what the kernel gave the process.
    if unsafe { sys::getauxval(AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: runs once, before main; the environment and its strings are zero-terminated.
    unsafe {
        for (i, name) in NAMES.iter().enumerate() {
            let value = sys::env(name);
            if value.is_null() {
                continue;
            }
            let from = value.sub(name.len() + 1);
            let to = (&raw mut KEPT).cast::<[u8; ROOM]>().add(i).cast::<u8>();
            let mut n = 0;
            while n < ROOM - 1 && *from.add(n) != 0 {
                *to.add(n) = *from.add(n);
                n += 1;
            }
            // A value that is cut off is none.
            if *from.add(n) == 0 {
                HAVE.fetch_or(1 << i, Relaxed);
            }
        }
        if !sys::env(HIDDEN).is_null() {
            hide();
        }
    }
}

/// Takes our variables out of the environment.
///
/// # Safety
/// As [`keep`].
unsafe fn hide() {
    // SAFETY: before main nobody else uses the environment's array, which only becomes shorter.
    unsafe {
        let mut from = sys::environ as *mut *const u8;
        let mut to = from;
        while !(*from).is_null() {
            let ours = NAMES.iter().chain([&HIDDEN]).any(|n| is(*from, n));
            if !ours {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null();
    }
}

/// # Safety
/// `text` is zero-terminated.
unsafe fn is(text: *const u8, name: &[u8]) -> bool {
    // SAFETY: compares up to the first difference, which a string's end is.
    unsafe { name.iter().enumerate().all(|(i, &b)| *text.add(i) == b) && *text.add(name.len()) == b'=' }
}

/// The value of a variable when the program began; null if it was not set.
///
/// # Safety
/// None: what [`keep`] wrote stays as it is.
pub unsafe fn kept(which: usize) -> *const u8 {
    match (HAVE.load(Relaxed) >> which & 1, NAMES.get(which)) {
        // SAFETY: the line was kept whole, and its name is in front.
        (1, Some(name)) => unsafe { line(which).add(name.len() + 1) },
        _ => core::ptr::null(),
    }
}

/// True if the program was started to be recorded.
pub fn is_wanted() -> bool {
    HAVE.load(Relaxed) >> SESSION & 1 == 1
}

/// # Safety
/// `which` is a position in [`NAMES`].
unsafe fn line(which: usize) -> *const u8 {
    // SAFETY: in bounds: callers pass positions of names.
    unsafe { (&raw const KEPT).cast::<[u8; ROOM]>().add(which).cast() }
}

/// A program that is about to be executed.
#[derive(Clone, Copy)]
enum Program {
    /// In the folder of a descriptor.
    At(c_int, *const u8),
    /// To be looked for in `PATH` unless its name has a slash.
    Found(*const u8),
    Descriptor(c_int),
}

const CWD: c_int = -100;

/// Whether the program has this runtime inside: its note stands near the file's start.
///
/// # Safety
/// Names in `p` are zero-terminated.
unsafe fn instrumented(p: Program) -> bool {
    // SAFETY: the caller's program has zero-terminated names and an open descriptor.
    unsafe {
        match p {
            Program::Descriptor(fd) => has_note(fd as usize),
            Program::At(folder, path) => note_at(folder, path).unwrap_or(false),
            Program::Found(name) if has_slash(name) => note_at(CWD, name).unwrap_or(false),
            Program::Found(name) => searched(name),
        }
    }
}

/// # Safety
/// `s` is zero-terminated.
unsafe fn has_slash(s: *const u8) -> bool {
    // SAFETY: the name is zero-terminated.
    unsafe { (0..ROOM).map(|i| *s.add(i)).take_while(|&b| b != 0).any(|b| b == b'/') }
}

/// `None` if there is no such program.
///
/// # Safety
/// `path` is zero-terminated.
unsafe fn note_at(folder: c_int, path: *const u8) -> Option<bool> {
    const O_CLOEXEC: usize = 0o2000000;
    const SYS_OPENAT: usize = 257;
    // SAFETY: the path is zero-terminated; the descriptor is ours.
    unsafe {
        let fd = sys::call(SYS_OPENAT, folder as usize, path as usize, O_CLOEXEC, 0, 0, 0);
        if fd < 0 {
            return None;
        }
        let has = has_note(fd as usize);
        sys::call3(sys::SYS_close, fd as usize, 0, 0);
        Some(has)
    }
}

/// # Safety
/// None: a descriptor that is not open is an error of the system call.
unsafe fn has_note(fd: usize) -> bool {
    const NOTE: &[u8] = b"\x07\0\0\0\x04\0\0\0\x01\0\0\0tussle\0";
    let mut head = [0u8; 2048];
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let n = unsafe { sys::call(sys::SYS_pread64, fd, head.as_mut_ptr() as usize, head.len(), 0, 0, 0) };
    let head = head.get(..n.max(0) as usize).unwrap_or(&[]);
    head.starts_with(b"\x7fELF") && head.windows(NOTE.len()).any(|w| w == NOTE)
}

/// The first program of that name in the folders of `PATH`.
///
/// # Safety
/// `name` is zero-terminated, and the environment is not changed meanwhile.
unsafe fn searched(name: *const u8) -> bool {
    // SAFETY: `PATH` and the name are zero-terminated; the copy is bounds-checked.
    unsafe {
        let mut path = sys::env(b"PATH");
        if path.is_null() {
            path = b"/bin:/usr/bin\0".as_ptr();
        }
        let mut full = [0u8; ROOM];
        loop {
            let mut n = 0;
            while *path != 0 && *path != b':' {
                *full.get_mut(n).unwrap_or(&mut 0) = *path;
                (n, path) = (n + 1, path.add(1));
            }
            for b in core::iter::once(b'/').chain((0..ROOM).map(|i| *name.add(i)).take_while(|&b| b != 0)) {
                *full.get_mut(n).unwrap_or(&mut 0) = b;
                n += 1;
            }
            if n < ROOM {
                full[n] = 0;
                if let Some(has) = note_at(CWD, full.as_ptr()) {
                    return has;
                }
            }
            if *path == 0 {
                return false;
            }
            path = path.add(1);
        }
    }
}

type Variables = *const *const u8;

/// Calls `go` with `given`, or with our variables in front where the program is to be recorded and they are missing.
///
/// # Safety
/// Names in `p` and variables in `given` are zero-terminated, as is the list of these.
unsafe fn with(p: Program, given: Variables, go: impl Fn(Variables) -> c_int) -> c_int {
    // SAFETY: the list ends with a null pointer, as the caller promised exec.
    unsafe {
        let mut count = 0;
        while !given.is_null() && !(*given.add(count)).is_null() {
            if is(*given.add(count), NAMES[SESSION]) {
                return go(given);
            }
            count += 1;
        }
        if !recording() || !instrumented(p) {
            return go(given);
        }
        // On the stack: after vfork the memory is the parent's.
        match count {
            ..500 => extended::<512>(given, count, go),
            ..8000 => extended::<8192>(given, count, go),
            _ => go(given),
        }
    }
}

/// Goes on with our variables behind the `count` given ones.
///
/// # Safety
/// `given` has `count` strings that end with zeros, and a null behind them.
#[inline(never)]
unsafe fn extended<const N: usize>(given: Variables, count: usize, go: impl Fn(Variables) -> c_int) -> c_int {
    let mut all = [core::ptr::null::<u8>(); N];
    let mut n = 0;
    let mut add = |p: *const u8| {
        if let Some(slot) = all.get_mut(n) {
            *slot = p;
            n += 1;
        }
    };
    // SAFETY: the list has `count` strings.
    unsafe {
        add(HIDDEN_SET.as_ptr());
        for i in (0..NAMES.len()).filter(|i| HAVE.load(Relaxed) >> i & 1 == 1) {
            add(line(i));
        }
        (0..count).for_each(|i| add(*given.add(i)));
    }
    go(all.as_ptr())
}

next_all! {
    ALL:
    EXECVE = "execve"; EXECVEAT = "execveat"; FEXECVE = "fexecve"; EXECVPE = "execvpe"; SPAWN = "posix_spawn";
    SPAWNP = "posix_spawnp"; SYSTEM = "system"; POPEN = "popen";
}

/// Resolves the functions behind.
///
/// # Safety
/// Called where looking up is allowed.
pub unsafe fn resolve() {
    for n in ALL {
        n.find();
    }
}

alias! {
    "execve" => "tussle_execve";
    "execv" => "tussle_execv";
    "execvp" => "tussle_execvp";
    "execvpe" => "tussle_execvpe";
    "execveat" => "tussle_execveat";
    "fexecve" => "tussle_fexecve";
    "posix_spawn" => "tussle_posix_spawn";
    "posix_spawnp" => "tussle_posix_spawnp";
    "system" => "tussle_system";
    "popen" => "tussle_popen";
}
// Those that take their arguments one by one.
list_stub! {
    "execl" => "tussle_execv";
    "execlp" => "tussle_execvp";
    "execle" => "tussle_execle";
}

type Arguments = *const *const u8;

/// # Safety
/// As `execve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execve(path: *const u8, a: Arguments, e: Variables) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let go = |e: Variables| call!(EXECVE, (path => *const u8, a => Arguments, e => Variables) -> c_int);
        with(Program::At(CWD, path), e, go)
    }
}

/// # Safety
/// As `execv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execv(path: *const u8, a: Arguments) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe { tussle_execve(path, a, sys::environ.cast()) }
}

/// # Safety
/// As `execvpe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execvpe(name: *const u8, a: Arguments, e: Variables) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let go = |e: Variables| call!(EXECVPE, (name => *const u8, a => Arguments, e => Variables) -> c_int);
        with(Program::Found(name), e, go)
    }
}

/// # Safety
/// As `execvp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execvp(name: *const u8, a: Arguments) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe { tussle_execvpe(name, a, sys::environ.cast()) }
}

/// The environment follows the arguments' end.
///
/// # Safety
/// As `execle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execle(path: *const u8, a: Arguments) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let mut n = 0;
        while !(*a.add(n)).is_null() {
            n += 1;
        }
        tussle_execve(path, a, (*a.add(n + 1)).cast())
    }
}

/// # Safety
/// As `execveat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_execveat(
    fd: c_int,
    p: *const u8,
    a: Arguments,
    e: Variables,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let program = if *p == 0 { Program::Descriptor(fd) } else { Program::At(fd, p) };
        let go = |e: Variables| {
            type Text = *const u8;
            call!(EXECVEAT, (fd => c_int, p => Text, a => Arguments, e => Variables, flags => c_int) -> c_int)
        };
        with(program, e, go)
    }
}

/// # Safety
/// As `fexecve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fexecve(fd: c_int, a: Arguments, e: Variables) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let go = |e: Variables| call!(FEXECVE, (fd => c_int, a => Arguments, e => Variables) -> c_int);
        with(Program::Descriptor(fd), e, go)
    }
}

macro_rules! spawn {
    ($name:ident, $next:ident, $program:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(pid: P, p: *const u8, f: P, s: P, a: Arguments, e: Variables) -> c_int {
            // SAFETY: as the caller of the function that this stands in front of.
            unsafe {
                sync::creation();
                with($program(p), e, |e| {
                    call!($next, (pid => P, p => *const u8, f => P, s => P, a => Arguments, e => Variables)
                        -> c_int)
                })
            }
        }
    };
}
spawn!(tussle_posix_spawn, SPAWN, |p| Program::At(CWD, p));
spawn!(tussle_posix_spawnp, SPAWNP, Program::Found);

/// A shell is about to run a command. libc starts it by itself, with the environment as it is: without our variables
/// nothing of it is recorded.
///
/// # Safety
/// The environment is not changed meanwhile.
unsafe fn shell() {
    // SAFETY: the environment is the program's, which is not changing it while it starts a command.
    if recording() && unsafe { sys::env(NAMES[SESSION]) }.is_null() {
        lost(LOST_CHILDREN, 1);
    }
}

/// # Safety
/// As `system`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_system(command: *const u8) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        // Without a command it only asks whether there is a shell.
        if !command.is_null() {
            shell();
        }
        call!(SYSTEM, (command => *const u8) -> c_int)
    }
}

/// # Safety
/// As `popen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_popen(command: *const u8, mode: *const u8) -> P {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        shell();
        call!(POPEN, (command => *const u8, mode => *const u8) -> P)
    }
}
