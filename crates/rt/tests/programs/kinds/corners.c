/* Corners of the system interface: processes made by clone, stacks that are nearly full, memory that moves, exits inside of exits. */
#include "kinds.h"
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <ucontext.h>

extern char **environ;
static volatile long words[64] __attribute__((aligned(64)));
static volatile sig_atomic_t came;

/* fork in a handler, in the middle of anything. */
static volatile pid_t born[64];
static void forks(int s) {
    int e = errno;
    if (came < 40) {
        pid_t p = fork();
        if (p == 0) {
            for (int i = 0; i < 1000; i++) words[i & 7]++;
            _exit(came & 7);
        }
        born[came] = p;
    }
    came++;
    errno = e;
}
static int fork_in_handler(void) {
    struct sigaction sa = {.sa_handler = forks, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval t = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &t, NULL);
    while (came < 40)
        for (int i = 0; i < 100; i++) words[i & 63]++, free(malloc(i));
    memset(&t, 0, sizeof t);
    setitimer(ITIMER_REAL, &t, NULL);
    int sum = 0;
    for (int i = 0; i < 40; i++) {
        int st = -1;
        if (waitpid(born[i], &st, 0) != born[i] || !WIFEXITED(st)) printf("child %d: %x\n", i, st);
        sum += WEXITSTATUS(st);
    }
    printf("%d, %d\n", sum, wait(NULL) == -1 && errno == ECHILD);
    fights();
    return 0;
}

/* clone without the library's help. */
static char other_stack[1 << 16] __attribute__((aligned(16)));
static int in_clone(void *arg) {
    for (int i = 0; i < 20000; i++) words[i & 63] += (long)arg;
    return (int)(long)arg;
}
static int clones(void) {
    fights();
    int st, p = clone(in_clone, other_stack + sizeof other_stack, SIGCHLD, (void *)3l);
    ended("copy", p);
    printf("%ld\n", words[0]);
    p = clone(in_clone, other_stack + sizeof other_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)4l);
    ended("shared, waiting", p);
    printf("%ld\n", words[0]);
    p = clone(in_clone, other_stack + sizeof other_stack, CLONE_VM | SIGCHLD, (void *)5l);
    volatile long mine = 0, table[512] = {0};
    for (int i = 0; i < 200000; i++) mine += table[i & 511]++ & 1;
    ended("shared, beside", p);
    printf("%ld %d\n", words[0], mine > 0);
    p = clone(in_clone, other_stack + sizeof other_stack, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND, (void *)6l);
    while (waitpid(p, &st, __WCLONE) < 0 && errno == EINTR) {}
    printf("%d %ld\n", WEXITSTATUS(st), words[0]);
    fights();
    return 0;
}
static int vforks(void) {
    fights();
    for (int i = 0; i < 5; i++) {
        pid_t p = vfork();
        if (p == 0) {
            char *const none[] = {"none", NULL};
            execv("/nonexistent/program", none);
            words[1]++;
            _exit(errno == ENOENT ? 5 : 6);
        }
        ended("vfork", p);
    }
    printf("%ld\n", words[1]);
    fights();
    return 0;
}
static int spawns(void) {
    posix_spawn_file_actions_t f;
    posix_spawnattr_t a;
    sigset_t all;
    fights();
    fflush(stdout);
    posix_spawn_file_actions_init(&f);
    posix_spawn_file_actions_addopen(&f, 7, "spawned", O_CREAT | O_RDWR, 0600);
    posix_spawn_file_actions_adddup2(&f, 7, 1);
    posix_spawn_file_actions_addclosefrom_np(&f, 3);
    posix_spawnattr_init(&a);
    posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&a, &all);
    sigemptyset(&all);
    posix_spawnattr_setsigmask(&a, &all);
    char *const sh[] = {"sh", "-c", "ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 7", NULL};
    pid_t p;
    printf("%d\n", posix_spawnp(&p, "sh", &f, &a, sh, environ));
    ended("sh", p);
    char *const none[] = {"none", NULL};
    printf("%s\n", strerror(posix_spawn(&p, "/nonexistent", NULL, NULL, none, environ)));
    fights();
    return 0;
}

/* A stack overflow wherever in the recorder it may happen, left by siglongjmp; handlers must work afterwards. */
static __thread sigjmp_buf out;
static __thread volatile int handled;
static void leave(int s) { siglongjmp(out, 1); }
static void counts(int s) { handled++; }
static long deep(long n, volatile long *shared);
static long shallow(long n, volatile long *shared) {
    char *p = n % 16 == 0 ? malloc(24) : NULL;
    shared[n * 8 & 0x3fff] += n;
    free(p);
    return deep(n + 1, shared) + shared[n & 7];
}
static long (*volatile go)(long, volatile long *) = shallow;
static long deep(long n, volatile long *shared) { return go(n + 1, shared) + 1; }
static long start_at(int shift, volatile long *shared) {
    volatile char *room = __builtin_alloca(16 * shift + 16);
    room[0] = 1;
    return deep(1, shared) + room[0];
}
static void *overflows(void *arg) {
    volatile long *shared = arg;
    stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
    volatile int lost = 0;
    sigaltstack(&s, NULL);
    for (volatile int i = 0; i < 400; i++) {
        if (sigsetjmp(out, 1) == 0) start_at(i, shared);
        int before = handled;
        pthread_kill(pthread_self(), SIGUSR1);
        if (handled != before + 1) lost++;
    }
    s.ss_flags = SS_DISABLE;
    sigaltstack(&s, NULL);
    return (void *)(long)lost;
}
static int overflow_in_hooks(void) {
    struct sigaction sa = {.sa_handler = leave, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &sa, NULL);
    sa.sa_handler = counts;
    sigaction(SIGUSR1, &sa, NULL);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 1 << 16);
    pthread_t t[2];
    static volatile long shared[1 << 14] __attribute__((aligned(64)));
    for (int i = 0; i < 2; i++) pthread_create(&t[i], &a, overflows, (void *)shared);
    for (int i = 0; i < 2; i++) {
        void *lost;
        pthread_join(t[i], &lost);
        printf("%ld handlers lost\n", (long)lost);
    }
    fights();
    return 0;
}

/* The smallest stacks that threads and handlers may have. */
static void *small(void *arg) {
    char *p = malloc(100);
    for (int i = 0; i < 3000; i++) words[i & 63]++, p[i % 100]++;
    free(p);
    return NULL;
}
static void on_small(int s) {
    words[3]++;
    free(malloc(10));
    came++;
}
static int small_stacks(void) {
    pthread_attr_t a;
    pthread_attr_init(&a);
    printf("%d\n", pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(&t[i], &a, small, NULL);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    long n = sysconf(_SC_MINSIGSTKSZ) + 2048;
    char *at = mmap(NULL, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, 4096, PROT_NONE);
    stack_t s = {.ss_sp = at + 4096, .ss_size = n};
    printf("%d\n", sigaltstack(&s, NULL));
    struct sigaction sa = {.sa_handler = on_small, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < 1000; i++) raise(SIGUSR1), words[i & 63]++;
    printf("%d\n", came);
    fights();
    return 0;
}

/* Memory that moves, goes and comes back. */
static int moving(void) {
    int fd = memfd_create("shared", 0);
    ftruncate(fd, 1 << 16);
    volatile long *a = mmap(NULL, 1 << 16, 3, MAP_SHARED, fd, 0), *b = mmap(NULL, 1 << 16, 3, MAP_SHARED, fd, 0);
    for (int i = 0; i < 8192; i++) a[i]++, b[i]++;
    printf("%ld %ld\n", a[100], b[8191]);
    madvise((void *)a, 1 << 16, MADV_DONTNEED);
    printf("%ld\n", a[100]);
    madvise((void *)a, 1 << 16, MADV_REMOVE);
    printf("%ld\n", b[100]);
    volatile long *p = mmap(NULL, 1 << 16, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 8192; i++) p[i] = i;
    volatile long *q = mremap((void *)p, 1 << 16, 1 << 20, MREMAP_MAYMOVE);
    for (int i = 0; i < 8192; i++) q[i + 8192] = q[i]++;
    volatile long *r = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    r = mremap((void *)q, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, r);
    printf("%ld %ld\n", r[8191], r[16383]);
    volatile long *s = mremap((void *)r, 1 << 20, 1 << 20, MREMAP_MAYMOVE | 4 /* DONTUNMAP */, 0);
    if (s != MAP_FAILED) printf("%ld %ld\n", s[5], r[5]);
    volatile char *huge = mmap(NULL, 4 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)huge, 4 << 20, MADV_HUGEPAGE);
    for (int i = 0; i < 4 << 20; i += 512) huge[i]++;
    madvise((void *)huge, 4 << 20, MADV_FREE);
    munmap((void *)huge, 4 << 20);
    void *no = mmap(NULL, 2 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    printf("%s\n", no == MAP_FAILED ? strerror(errno) : "huge");
    char *brk0 = sbrk(0);
    printf("%d\n", sbrk(8192) == brk0);
    for (int i = 0; i < 8192; i++) brk0[i]++;
    fights();
    return 0;
}
static void *fault_server(void *arg) {
    int fd = (int)(long)arg;
    char *fill = aligned_alloc(4096, 4096);
    for (int n = 0; n < 4; n++) {
        struct uffd_msg m;
        if (read(fd, &m, sizeof m) != sizeof m) return NULL;
        memset(fill, 'a' + n, 4096);
        struct uffdio_copy c = {.dst = m.arg.pagefault.address & ~4095ul, .src = (uintptr_t)fill, .len = 4096};
        ioctl(fd, UFFDIO_COPY, &c);
    }
    free(fill);
    return NULL;
}
static int user_faults(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0) {
        puts("no userfaultfd");
        return 77;
    }
    struct uffdio_api api = {.api = UFFD_API};
    ioctl(fd, UFFDIO_API, &api);
    volatile char *p = mmap(NULL, 16384, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uintptr_t)p, 16384}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    printf("%d\n", ioctl(fd, UFFDIO_REGISTER, &r));
    pthread_t t;
    pthread_create(&t, NULL, fault_server, (void *)(long)fd);
    for (int i = 0; i < 4; i++) printf("%c%c\n", p[i * 4096 + 7], p[i * 4096 + 4000]++);
    pthread_join(t, NULL);
    fights();
    return 0;
}

/* Locks of every kind whose owners go. */
static pthread_mutex_t m;
static void *dies_with(void *arg) {
    pthread_mutex_lock(&m);
    words[0]++;
    return NULL;
}
static int owners(void) {
    const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_PROTECT};
    for (int k = 0; k < 3; k++) {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_setprotocol(&a, protocols[k]);
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        if (protocols[k] == PTHREAD_PRIO_PROTECT) pthread_mutexattr_setprioceiling(&a, 1);
        int made = pthread_mutex_init(&m, &a);
        printf("%d init %s\n", k, strerror(made));
        if (made) continue;
        pthread_t t;
        pthread_create(&t, NULL, dies_with, NULL);
        pthread_join(t, NULL);
        int r = pthread_mutex_lock(&m);
        printf("%s\n", strerror(r));
        if (r == EOWNERDEAD) printf("%s\n", strerror(pthread_mutex_consistent(&m)));
        printf("%s %s\n", strerror(pthread_mutex_unlock(&m)), strerror(pthread_mutex_destroy(&m)));
    }
    fights();
    return 0;
}
/* Destructors that allocate, lock, set other keys; cancellation storms with clean-up. */
static pthread_key_t keys[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long runs;
static void last(void *v) {
    char *p = malloc(300);
    memset(p, 1, 300);
    pthread_mutex_lock(&lock);
    runs++;
    pthread_mutex_unlock(&lock);
    if ((long)v < 5) pthread_setspecific(keys[(long)v & 3], (void *)((long)v + 1));
    words[(long)v]++;
    free(p);
}
static void *with_keys(void *arg) {
    for (int i = 0; i < 4; i++) pthread_setspecific(keys[i], (void *)1l);
    words[9]++;
    return NULL;
}
static void unlock(void *l) { pthread_mutex_unlock(l); }
static void *works_for_ever(void *arg) {
    if (arg) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        if (arg) {
            for (int i = 0; i < 64; i++) words[i]++;
            continue;
        }
        pthread_mutex_lock(&lock);
        pthread_cleanup_push(unlock, &lock);
        runs++;
        pthread_testcancel();
        pthread_cleanup_pop(1);
        free(malloc(50));
    }
}
static int thread_ends(void) {
    for (int i = 0; i < 4; i++) pthread_key_create(&keys[i], last);
    pthread_t t;
    for (int i = 0; i < 50; i++) {
        pthread_create(&t, NULL, with_keys, NULL);
        pthread_join(t, NULL);
    }
    printf("%ld runs\n", runs);
    int cancelled = 0;
    for (int i = 0; i < 200; i++) {
        void *r;
        pthread_create(&t, NULL, works_for_ever, (void *)(long)(i & 1));
        for (volatile int k = 0; k < i * 100; k++) {}
        pthread_cancel(t);
        pthread_join(t, &r);
        cancelled += r == PTHREAD_CANCELED;
    }
    printf("%d cancelled, lock %s\n", cancelled, strerror(pthread_mutex_trylock(&lock)));
    fights();
    return 0;
}

/* Exits inside of exits. */
static void first_exit(void) { puts("first"), fflush(stdout), words[0]++; }
static void leaves_at_once(void) { puts("at once"), fflush(stdout), _exit(words[0] + 7); }
static void exits_again(void) { puts("again"), exit(9); }
static void at_quick(void) { puts("quick"), fflush(stdout), free(malloc(9)), words[2]++; }
static int exit_in_atexit(void) {
    fights();
    atexit(first_exit), atexit(leaves_at_once), atexit(exits_again);
    exit(3);
}
static int quick(void) {
    fights();
    atexit(first_exit), at_quick_exit(at_quick), at_quick_exit(at_quick);
    quick_exit(4);
}
static void aborted(int s) { write(1, "aborted\n", 8), words[1]++; }
static void aborts(void) { puts("aborting"), fflush(stdout), signal(SIGABRT, aborted), abort(); }
static int abort_in_atexit(void) {
    fights();
    atexit(aborts);
    return 5;
}

/* Descriptors that all go to one place; processes that may not be looked into. */
static int every_descriptor(void) {
    int null = open("/dev/null", O_RDWR), out = dup2(1, 900);
    for (int i = 3; i < 900; i++) dup2(null, i);
    fights();
    dprintf(out, "%d %s\n", dup(0) > 0, fcntl(899, F_GETFD) < 0 ? "closed" : "open");
    close_range(3, 899, 0);
    pid_t p = fork();
    if (p == 0) {
        fights();
        dprintf(out, "lowest %d\n", dup(0));
        _exit(0);
    }
    int st;
    waitpid(p, &st, 0);
    dprintf(out, "%x lowest %d\n", st, dup(0));
    close_range(3, ~0u, 0);
    return 0;
}
static int unseen(void) {
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fights();
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        fights();
        printf("traced %ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
        fflush(stdout);
        _exit(prctl(PR_GET_DUMPABLE));
    }
    ended("child", p);
    printf("%d %d\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    return 0;
}
/* A tracer sees its child's stops. */
static int traced(void) {
    fights();
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (int i = 0; i < 1000; i++) words[i & 63]++, free(malloc(i));
        raise(SIGUSR1);
        _exit(6);
    }
    int st, stops = 0;
    while (waitpid(p, &st, 0) == p && WIFSTOPPED(st)) {
        printf("stopped by %d\n", WSTOPSIG(st));
        if (++stops > 20) return 1;
        ptrace(PTRACE_CONT, p, 0, 0);
    }
    printf("exited %d\n", WEXITSTATUS(st));
    return 0;
}
/* The mask, what is pending, and what handlers see of them. */
static void looks(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    came += 1 + 10 * sigismember(&u->uc_sigmask, SIGUSR2) + 100 * sigismember(&now, SIGUSR2) + 1000 * sigismember(&now, s);
    if (i->si_code != SI_TKILL && i->si_code != SI_TIMER) came += 10000;
}
static int masks(void) {
    struct sigaction sa = {.sa_sigaction = looks, .sa_flags = SA_SIGINFO};
    sigset_t two, now;
    sigemptyset(&two), sigaddset(&two, SIGUSR2);
    sigprocmask(SIG_BLOCK, &two, NULL);
    sigaction(SIGUSR1, &sa, NULL), sigaction(SIGUSR2, &sa, NULL), sigaction(SIGALRM, &sa, NULL);
    raise(SIGUSR1);
    printf("%d\n", came);
    raise(SIGUSR2);
    sigpending(&now);
    printf("%d %d\n", came, sigismember(&now, SIGUSR2));
    sigprocmask(SIG_UNBLOCK, &two, NULL);
    printf("%d\n", came);
    came = 0;
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_create(CLOCK_MONOTONIC, &e, &t);
    struct itimerspec at = {{0, 300000}, {0, 300000}};
    timer_settime(t, 0, &at, NULL);
    for (long i = 0; came < 500 * 1001; i++) {
        words[i & 63]++;
        free(malloc(i & 255));
        sigprocmask(SIG_BLOCK, NULL, &now);
        for (int k = 1; k < 32; k++)
            if (sigismember(&now, k)) return printf("%d is blocked\n", k), 1;
    }
    timer_delete(t);
    printf("%d\n", came % 1001);
    fights();
    return 0;
}
/* Locks made of futexes by system calls; barriers of the kernel. */
static volatile int gate;
static void *waits(void *arg) {
    while (gate == 0) syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    words[(long)arg]++;
    return NULL;
}
static int futexes(void) {
    pthread_t t[8];
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, waits, (void *)i);
    usleep(2000);
    gate = 1;
    syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    printf("%ld %d\n", words[0] + words[7], syscall(SYS_membarrier, 0, 0, 0) >= 0);
    errno = 0;
    printf("%ld %s\n", syscall(SYS_futex, &gate, FUTEX_WAIT, 7, NULL, NULL, 0), strerror(errno));
    fights();
    return 0;
}
/* Every child is the program's own, and so is every signal of one. */
static void child_ended(int s) { came++; }
static int children_only(void) {
    signal(SIGCHLD, child_ended);
    printf("%d %s\n", wait(NULL), strerror(errno));
    fights();
    for (int i = 0; i < 20; i++) {
        pid_t p = fork();
        if (p == 0) fights(), _exit(i);
        int st;
        while (waitpid(-1, &st, 0) != p) {}
        if (WEXITSTATUS(st) != i) printf("%d: %x\n", i, st);
    }
    printf("%d\n", came);
    printf("%d %s\n", wait(NULL), strerror(errno));
    signal(SIGCHLD, SIG_IGN);
    pid_t p = fork();
    if (p == 0) fights(), _exit(1);
    printf("%d %s\n", waitpid(p, NULL, 0), strerror(errno));
    return 0;
}
static volatile int keeps;
static void *goes_on(void *arg) {
    while (keeps >= 0) words[(long)arg]++, free(malloc(33));
    return NULL;
}
/* main returns while threads work. */
static int threads_left(void) {
    pthread_t t;
    for (long i = 0; i < 6; i++) pthread_create(&t, NULL, goes_on, (void *)i), pthread_detach(t);
    usleep(20000);
    atexit(first_exit);
    return 12;
}
/* Identities of processes with threads: libc tells every thread by a signal of its own. */
static int identities(void) {
    pthread_t t;
    for (long i = 0; i < 4; i++) pthread_create(&t, NULL, goes_on, (void *)i), pthread_detach(t);
    for (int i = 0; i < 100; i++)
        if (setresgid(i & 1, i & 1, 0) || getgid() != (gid_t)(i & 1)) return puts(strerror(errno)), 77;
    puts("same in all threads");
    fights();
    return 0;
}
static ucontext_t here;
static int contexts_again(void) {
    volatile int n = 0;
    getcontext(&here);
    words[n & 63]++;
    if (++n < 500) setcontext(&here);
    printf("%d\n", n);
    fights();
    return 0;
}
static int stack_limits(void) {
    struct rlimit old, r = {1 << 20, RLIM_INFINITY};
    fights();
    getrlimit(RLIMIT_STACK, &old);
    printf("%d\n", setrlimit(RLIMIT_STACK, &r));
    pid_t p = fork();
    if (p == 0) {
        volatile char big[512 << 10];
        for (unsigned i = 0; i < sizeof big; i += 4096) big[i] = i >> 12;
        fights();
        _exit(big[8192]);
    }
    ended("small stack", p);
    r.rlim_cur = old.rlim_max == RLIM_INFINITY ? RLIM_INFINITY : old.rlim_cur;
    setrlimit(RLIMIT_STACK, &r);
    fflush(stdout);
    char *const again[] = {"program", "futexes", NULL};
    execv("/proc/self/exe", again);
    return 1;
}
/* Limits that the program sets itself, before it forks. */
static int forks_under(int what, unsigned long most) {
    struct rlimit r = {most, most};
    fights();
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(what, &r);
    for (int i = 0; i < 3; i++) {
        pid_t p = fork();
        if (p == 0) fights(), _exit(i);
        ended("child", p);
    }
    return 0;
}
static int no_files(void) { return forks_under(RLIMIT_NOFILE, 3); }
static int short_files(void) { return forks_under(RLIMIT_FSIZE, 4096); }
static int no_file_bytes(void) { return forks_under(RLIMIT_FSIZE, 0); }
static int own_address_limit(void) { return forks_under(RLIMIT_AS, 1ul << 30); }
KINDS({"fork_in_handler", fork_in_handler}, {"clone", clones}, {"vfork", vforks}, {"spawn", spawns},
      {"overflow_in_hooks", overflow_in_hooks}, {"small_stacks", small_stacks}, {"moving", moving},
      {"userfaultfd", user_faults}, {"owners", owners}, {"thread_ends", thread_ends},
      {"exit_in_atexit", exit_in_atexit}, {"quick_exit", quick}, {"abort_in_atexit", abort_in_atexit},
      {"every_descriptor", every_descriptor}, {"unseen", unseen}, {"traced", traced}, {"masks", masks},
      {"futexes", futexes}, {"children_only", children_only}, {"threads_left", threads_left},
      {"identities", identities}, {"setcontext", contexts_again}, {"stack_limits", stack_limits},
      {"no_files", no_files}, {"short_files", short_files}, {"no_file_bytes", no_file_bytes},
      {"own_address_limit", own_address_limit})
