//! The table of kinds: what is run, and how it is built.

pub mod twin;

/// A program, or one way of running it.
pub struct Kind {
    /// Source in `programs/kinds/`.
    pub file: &'static str,
    /// First argument: which of the file's functions.
    pub name: &'static str,
    /// For compiling and linking.
    pub flags: &'static [&'static str],
    /// Shared libraries: source and file name, built beside the program, not instrumented.
    pub libraries: &'static [(&'static str, &'static str)],
    /// Processes that must be in the evidence; 0: whatever number, even none.
    pub processes: usize,
}

const fn kind(file: &'static str, name: &'static str, processes: usize) -> Kind {
    Kind { file, name, flags: &[], libraries: &[], processes }
}

const fn flagged(file: &'static str, name: &'static str, flags: &'static [&'static str]) -> Kind {
    Kind { file, name, flags, libraries: &[], processes: 1 }
}

const CXX: &[&str] = &["-std=c++20"];

const fn with(
    file: &'static str,
    name: &'static str,
    libraries: &'static [(&'static str, &'static str)],
) -> Kind {
    Kind { file, name, flags: CXX, libraries, processes: 1 }
}

/// Every kind that is tried.
pub const KINDS: &[Kind] = &[
    flagged("wide.c", "operations", &["-mcx16", "-latomic"]),
    flagged("wide.c", "constant", &["-mcx16", "-latomic"]),
    flagged("wide.c", "threads", &["-mcx16", "-latomic"]),
    kind("life.c", "return", 1),
    kind("life.c", "exit", 1),
    kind("life.c", "quick_exit", 1),
    kind("life.c", "_exit", 1),
    kind("life.c", "abort", 1),
    kind("life.c", "sigkill", 1),
    kind("life.c", "segv", 1),
    kind("life.c", "trap", 1),
    kind("life.c", "divide", 1),
    kind("life.c", "pthread_exit", 1),
    kind("life.c", "exit_in_thread", 1),
    kind("life.c", "fork_tree", 15),
    kind("life.c", "threads_fork", 11),
    kind("life.c", "child", 1),
    kind("life.c", "vfork", 2),
    kind("life.c", "posix_spawn", 3),
    kind("life.c", "exec_chain", 3),
    kind("life.c", "chain2", 2),
    kind("life.c", "exec_family", 17),
    kind("life.c", "system_popen", 1),
    kind("life.c", "daemon", 3),
    kind("life.c", "orphan", 3),
    kind("life.c", "raw_fork", 3),
    kind("surroundings.c", "clearenv", 6),
    kind("surroundings.c", "empty_env_exec", 4),
    kind("surroundings.c", "null_env_exec", 4),
    kind("surroundings.c", "kept_env_exec", 4),
    kind("surroundings.c", "chroot_setuid", 5),
    kind("surroundings.c", "environ_edits", 1),
    kind("surroundings.c", "descriptors", 3),
    kind("surroundings.c", "closefrom", 5),
    kind("surroundings.c", "nofile", 3),
    kind("surroundings.c", "auxv", 1),
    kind("surroundings.c", "umask", 3),
    kind("surroundings.c", "dumpable", 3),
    kind("signals.c", "storm", 1),
    kind("signals.c", "thread_storm", 1),
    kind("signals.c", "posix_timers", 1),
    kind("signals.c", "thread_timers", 1),
    kind("signals.c", "sigaltstack", 1),
    kind("signals.c", "stack_overflow", 1),
    kind("signals.c", "siglongjmp", 1),
    kind("signals.c", "segv_mprotect", 1),
    kind("signals.c", "signalfd", 2),
    kind("signals.c", "sigwait", 1),
    kind("signals.c", "alarm", 1),
    kind("signals.c", "eintr", 1),
    kind("signals.c", "handler_posts", 1),
    kind("signals.c", "raise_again", 1),
    kind("signals.c", "sigqueue", 1),
    kind("signals.c", "sigaction", 1),
    kind("threads.c", "detached", 1),
    kind("threads.c", "cancel", 1),
    kind("threads.c", "robust", 3),
    kind("threads.c", "process_shared", 4),
    kind("threads.c", "mutexes", 1),
    kind("threads.c", "rwlocks", 1),
    kind("threads.c", "spin_barrier", 1),
    kind("threads.c", "c11", 1),
    kind("threads.c", "semaphores", 1),
    kind("threads.c", "conditions", 1),
    kind("threads.c", "key_destructors", 1),
    kind("threads.c", "own_stacks", 1),
    kind("threads.c", "names", 1),
    kind("threads.c", "scheduling", 1),
    kind("threads.c", "many", 1),
    kind("threads.c", "joins", 1),
    kind("memory.c", "mmap", 1),
    kind("memory.c", "alloc", 1),
    kind("memory.c", "huge_stack", 1),
    kind("memory.c", "rlimit_as", 2),
    kind("memory.c", "limited", 1),
    kind("memory.c", "late_rlimit_as", 1),
    kind("memory.c", "rlimit_fsize", 2),
    kind("memory.c", "rlimit_stack", 2),
    kind("memory.c", "memlock", 1),
    kind("memory.c", "prlimit", 1),
    kind("memory.c", "atomics", 1),
    kind("memory.c", "tls", 1),
    kind("memory.c", "strings", 1),
    kind("input_output.c", "pipes", 1),
    kind("input_output.c", "sockets", 1),
    kind("input_output.c", "events", 1),
    kind("input_output.c", "stdio", 1),
    kind("input_output.c", "shared_stdout", 1),
    kind("input_output.c", "large_files", 1),
    kind("input_output.c", "io_uring", 1),
    kind("context.c", "ucontext", 1),
    kind("context.c", "longjmp", 1),
    kind("context.c", "clocks", 1),
    kind("sandbox.c", "strict", 1),
    kind("sandbox.c", "kill", 1),
    kind("sandbox.c", "kill_by_syscall", 1),
    kind("sandbox.c", "errno", 1),
    kind("sandbox.c", "refused", 1),
    kind("sandbox.c", "trap", 1),
    kind("sandbox.c", "one_thread", 1),
    kind("own_malloc.c", "own", 1),
    flagged("modern.cc", "exceptions", CXX),
    flagged("modern.cc", "across_threads", CXX),
    flagged("modern.cc", "terminate", CXX),
    flagged("modern.cc", "noexcept", CXX),
    flagged("modern.cc", "thread_local", CXX),
    flagged("modern.cc", "coroutines", CXX),
    flagged("modern.cc", "threading", CXX),
    flagged("modern.cc", "containers", CXX),
    flagged("modern.cc", "new", CXX),
    flagged("operators.cc", "replaced", CXX),
    flagged("operators.cc", "replaced", &["-std=c++20", "-static-libstdc++", "-static-libgcc"]),
    flagged("modern.cc", "new", &["-std=c++20", "-static-libstdc++", "-static-libgcc"]),
    flagged("modern.cc", "exceptions", &["-std=c++20", "-static-libstdc++", "-static-libgcc"]),
    Kind { processes: 15, ..flagged("life.c", "fork_tree", &["-fno-pie", "-no-pie"]) },
    flagged("memory.c", "tls", &["-fno-pie", "-no-pie"]),
    flagged("parallel.c", "loops", &["-fopenmp"]),
    with("over_library.cc", "library", &[("library_operators.cc", "liboperators.so")]),
    with("replaced.c", "replaced", &[("interposed_malloc.c", "liballocator.so")]),
    with("loads.cc", "loads", &[("loaded.cc", "libloaded.so")]),
];
