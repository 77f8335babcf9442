/* Odd uses of processes, signals and limits that are fair nevertheless. */
#include "kinds.h"
#include <dirent.h>
#include <linux/sched.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <sys/mount.h>

static volatile long words[64] __attribute__((aligned(64)));
static volatile sig_atomic_t came, came2;
extern char **environ;

/* vfork and exec from many threads. */
static void *spawns(void *arg) {
    for (int i = 0; i < 15; i++) {
        char *const args[] = {"sh", "-c", "exit 3", NULL};
        pid_t p = vfork();
        if (p == 0) {
            execv("/bin/sh", args);
            _exit(9);
        }
        int st = 0;
        if (waitpid(p, &st, 0) != p || WEXITSTATUS(st) != 3) printf("%x\n", st);
        words[(long)arg]++;
        free(malloc(100));
    }
    return NULL;
}
static int vfork_storm(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, spawns, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("%ld\n", words[0] + words[3]);
    fights();
    return 0;
}
/* clone3: handlers cleared, a descriptor of the process, no signal at its end. */
static void nothing(int s) { came++; }
static int clone3s(void) {
    signal(SIGUSR1, nothing);
    fights();
    int fd = -1;
    struct clone_args a = {.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND, .pidfd = (uintptr_t)&fd, .exit_signal = 0};
    fflush(stdout);
    long p = syscall(SYS_clone3, &a, sizeof a);
    if (p == 0) {
        struct sigaction s;
        sigaction(SIGUSR1, NULL, &s);
        words[1]++;
        free(malloc(33));
        _exit(s.sa_handler == SIG_DFL ? 4 : 5);
    }
    if (p < 0) return printf("%s\n", strerror(errno)), 77;
    struct pollfd ready = {fd, POLLIN, 0};
    printf("%d\n", poll(&ready, 1, 20000));
    int st;
    printf("%d\n", waitpid(p, &st, __WALL) == p);
    printf("%d %d\n", WEXITSTATUS(st), came);
    siginfo_t info;
    printf("%d\n", waitid(P_PIDFD, fd, &info, WEXITED));
    p = fork();
    if (p == 0) pause();
    fd = syscall(SYS_pidfd_open, p, 0);
    printf("%ld\n", syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    ended("by descriptor", p);
    fights();
    return 0;
}
/* A thread with descriptors and a folder of its own. */
static void *apart(void *arg) {
    if (unshare(CLONE_FILES | CLONE_FS)) return (void *)1l;
    close_range(3, ~0u, 0);
    if (chdir("/")) return (void *)2l;
    umask(077);
    for (int i = 0; i < 100; i++) words[i & 63]++, free(malloc(i));
    fights();
    return NULL;
}
static int unshared(void) {
    int fd = open("/dev/null", O_RDWR);
    pthread_t t;
    void *r;
    pthread_create(&t, NULL, apart, NULL);
    pthread_join(t, &r);
    char here[4096];
    printf("%ld %d %d\n", (long)r, fcntl(fd, F_GETFD) >= 0, strcmp(getcwd(here, sizeof here), "/") != 0);
    printf("%d\n", close_range(3, ~0u, CLOSE_RANGE_UNSHARE));
    fights();
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) fights(), _exit(fcntl(fd, F_GETFD) < 0);
    ended("child", p);
    return 0;
}
/* Process ids, mounts and names of its own: the recording's folder is hidden in the child. */
static int namespaces(void) {
    fights();
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS)) return printf("%s\n", strerror(errno)), 77;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("none", "/dev/shm", "tmpfs", 0, NULL)) return printf("%s\n", strerror(errno)), 77;
    printf("%d\n", mount("none", "/tmp", "tmpfs", 0, NULL));
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        pid_t p = fork();
        if (p == 0) {
            fights();
            DIR *d = opendir("/dev/shm");
            int n = 0;
            while (readdir(d)) n++;
            closedir(d);
            printf("first is %d, %d entries\n", getpid(), n);
            exit(3);
        }
        ended("child", p);
        break;
    }
    return 0;
}
/* Stack overflows in many threads at once, each with its own alternate stack. */
static __thread sigjmp_buf out;
static void leave(int s) { siglongjmp(out, s); }
static long deep(volatile char *up) {
    volatile char here[300];
    here[0] = up[0] + 1;
    words[here[0] & 63]++;
    return deep(here) + here[0];
}
static void *overflows(void *arg) {
    stack_t s = {.ss_sp = malloc(32768), .ss_size = 32768};
    sigaltstack(&s, NULL);
    volatile long n = 0;
    for (volatile int i = 0; i < 50; i++) {
        volatile char zero = 0;
        if (sigsetjmp(out, 1) == SIGSEGV) n++;
        else deep(&zero);
    }
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
    free(s.ss_sp);
    return (void *)n;
}
static int overflow_everywhere(void) {
    struct sigaction sa = {.sa_handler = leave, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &sa, NULL);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 128 << 10);
    pthread_t t[6];
    for (int i = 0; i < 6; i++) pthread_create(&t[i], &a, overflows, NULL);
    for (int i = 0; i < 6; i++) {
        void *n;
        pthread_join(t[i], &n);
        printf("%ld\n", (long)n);
    }
    fights();
    return 0;
}
/* A handler that goes on behind the instruction that faulted, and one that leaves by setcontext. */
static ucontext_t back;
static volatile int returned;
static void skips(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    u->uc_mcontext.gregs[REG_RIP] += 2;
    came += i->si_code > 0;
}
static void jumps(int s) {
    returned++;
    setcontext(&back);
}
static int resumed(void) {
    struct sigaction sa = {.sa_sigaction = skips, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &sa, NULL);
    for (int i = 0; i < 500; i++) {
        words[i & 63]++;
        __asm__ volatile("ud2");
        free(malloc(i));
    }
    printf("%d\n", came);
    signal(SIGALRM, jumps);
    struct itimerval tv = {{0, 2000}, {0, 2000}};
    getcontext(&back);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (returned == 0) setitimer(ITIMER_REAL, &tv, NULL);
    while (returned < 50) words[returned & 63]++; /* jumping out of malloc would be undefined */
    memset(&tv, 0, sizeof tv);
    setitimer(ITIMER_REAL, &tv, NULL);
    printf("%d\n", returned >= 50);
    fights();
    return 0;
}
/* It steps through itself: a trap after every instruction. */
static volatile long steps;
static void step(int s, siginfo_t *i, void *c) { steps++; }
static int single_steps(void) {
    struct sigaction sa = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &sa, NULL);
    __asm__ volatile("pushf; orq $0x100, (%%rsp); popf" ::: "memory", "cc");
    for (int i = 0; i < 200; i++) words[i & 63]++;
    char *p = malloc(100);
    p[3] = 1;
    free(p);
    __asm__ volatile("pushf; andq $~0x100, (%%rsp); popf" ::: "memory", "cc");
    printf("%d\n", steps > 200);
    fights();
    return 0;
}
/* Timers whose signals queue, with and without room for them. */
static volatile int wrong;
static void expires(int s, siginfo_t *i, void *c) {
    came++;
    if (i->si_code != SI_TIMER || i->si_value.sival_int != 77) wrong++;
}
static int no_queue(void) {
    struct sigaction sa = {.sa_sigaction = expires, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 2, &sa, NULL);
    sigaction(SIGUSR2, &sa, NULL);
    timer_t t[2];
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 77};
    printf("%d\n", timer_create(CLOCK_MONOTONIC, &e, &t[0]));
    e.sigev_signo = SIGUSR2;
    printf("%d\n", timer_create(CLOCK_MONOTONIC, &e, &t[1]));
    struct rlimit none = {0, 0};
    printf("%d\n", setrlimit(RLIMIT_SIGPENDING, &none));
    struct itimerspec often = {{0, 200000}, {0, 200000}};
    timer_settime(t[0], 0, &often, NULL);
    timer_settime(t[1], 0, &often, NULL);
    for (long i = 0; came < 3000; i++) words[i & 63]++, free(malloc(i & 1023));
    timer_delete(t[0]), timer_delete(t[1]);
    printf("%d without their value\n", wrong);
    fights();
    return 0;
}
/* Real-time signals come in the order of their numbers, and of one number in the order of sending. */
static volatile int order[300], orders;
static void notes(int s, siginfo_t *i, void *c) {
    if (orders < 300) order[orders++] = (s - SIGRTMIN) * 1000 + i->si_value.sival_int;
}
static int real_time_order(void) {
    struct sigaction sa = {.sa_sigaction = notes, .sa_flags = SA_SIGINFO};
    sigset_t all, old;
    sigemptyset(&all);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) sigaddset(&sa.sa_mask, SIGRTMIN + i), sigaddset(&all, SIGRTMIN + i);
        sigaction(SIGRTMIN + k, &sa, NULL);
    }
    sigprocmask(SIG_BLOCK, &all, &old);
    for (int i = 0; i < 90; i++) sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = i});
    sigprocmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < orders; i++) printf("%d ", order[i]);
    printf("\n%d\n", orders);
    orders = 0;
    pid_t me = getpid();
    pid_t p = fork();
    if (p == 0) {
        for (int i = 0; i < 300; i++)
            while (sigqueue(me, SIGRTMIN, (union sigval){.sival_int = i}) < 0) usleep(100);
        _exit(0);
    }
    for (long i = 0; orders < 300; i++) words[i & 63]++, free(malloc(i & 1023));
    ended("sender", p);
    int sorted = 1;
    for (int i = 0; i < 300; i++) sorted &= order[i] == i;
    printf("in order: %d\n", sorted);
    fights();
    return 0;
}
/* Handlers that interrupt each other and themselves. */
static volatile int level, deepest;
static void nests(int s) {
    level++;
    if (level > deepest) deepest = level;
    if (level < 20) raise(s);
    free(malloc(level * 10));
    level--;
}
static int nested(void) {
    struct sigaction sa = {.sa_handler = nests, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < 30; i++) raise(SIGUSR1), words[i]++;
    printf("%d\n", deepest);
    sa.sa_handler = nothing, sa.sa_flags = SA_RESETHAND;
    sigaction(SIGUSR2, &sa, NULL);
    raise(SIGUSR2);
    struct sigaction now;
    sigaction(SIGUSR2, NULL, &now);
    printf("%d %d\n", came, now.sa_handler == SIG_DFL);
    fights();
    raise(SIGUSR2);
    return 0;
}
/* A profile of itself. */
static volatile long ticks;
static void tick(int s, siginfo_t *i, void *c) { ticks++; }
static int profiled(void) {
    struct sigaction sa = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &sa, NULL);
    struct itimerval tv = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &tv, NULL);
    pthread_t t[2];
    while (ticks < 20) {
        for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, fight, (void *)i);
        for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    }
    memset(&tv, 0, sizeof tv);
    setitimer(ITIMER_PROF, &tv, NULL);
    puts("profiled");
    return 0;
}
/* Limits that change while it runs; processor time that ends. */
static void used_up(int s) {
    write(1, "time is over\n", 13);
    _exit(8);
}
static int changing_limits(void) {
    struct rlimit r, was;
    fights();
    getrlimit(RLIMIT_NPROC, &was);
    r = was, r.rlim_cur = 0;
    setrlimit(RLIMIT_NPROC, &r);
    setrlimit(RLIMIT_NPROC, &was);
    for (long most = 8; most < 300; most += 40) {
        getrlimit(RLIMIT_NOFILE, &r), r.rlim_cur = most, setrlimit(RLIMIT_NOFILE, &r);
        r.rlim_cur = 65536 * most, r.rlim_max = RLIM_INFINITY;
        setrlimit(RLIMIT_DATA, &r);
        fights();
        void *p = malloc(65536 * most);
        printf("%d ", p == NULL);
        free(p);
    }
    puts("");
    fflush(stdout);
    signal(SIGXCPU, used_up);
    struct rlimit cpu = {1, 3};
    setrlimit(RLIMIT_CPU, &cpu);
    for (long i = 0;; i++) words[i & 63]++;
}
/* The program itself, from memory, by descriptor. */
static int from_memory(void) {
    fights();
    int in = open("/proc/self/exe", O_RDONLY), fd = memfd_create("copy", MFD_CLOEXEC);
    char b[65536];
    ssize_t n;
    while ((n = read(in, b, sizeof b)) > 0)
        if (write(fd, b, n) != n) return 1;
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        char *const args[] = {"program", "nested", NULL};
        fexecve(fd, args, environ);
        _exit(9);
    }
    ended("copy", p);
    return 0;
}
static void *executes(void *arg) {
    char *const args[] = {"program", "real_time_order", NULL};
    execv("/proc/self/exe", args);
    return NULL;
}
static void *busy(void *arg) {
    for (;;) words[(long)arg]++, free(malloc(50));
}
/* exec by a thread that is not the first, while others work. */
static int exec_by_thread(void) {
    pthread_t t;
    for (long i = 0; i < 3; i++) pthread_create(&t, NULL, busy, (void *)i);
    usleep(5000);
    fflush(stdout);
    pthread_create(&t, NULL, executes, NULL);
    pthread_join(t, NULL);
    return 1;
}
static void executes_in_handler(int s) { executes(NULL); }
static int exec_in_handler(void) {
    signal(SIGALRM, executes_in_handler);
    fights();
    fflush(stdout);
    struct itimerval tv = {{0, 0}, {0, 3000}};
    setitimer(ITIMER_REAL, &tv, NULL);
    for (long i = 0;; i++) words[i & 63]++, free(malloc(i & 255));
}
/* Exits by many threads at once. */
static void *exits(void *arg) {
    for (int i = 0; i < 1000; i++) words[(long)arg]++;
    if ((long)arg == 5) _exit(21);
    for (;;) words[(long)arg]++, free(malloc(77));
}
static int racing_exits(void) {
    for (int k = 0; k < 10; k++) {
        fflush(stdout);
        pid_t p = fork();
        if (p == 0) {
            pthread_t t;
            for (long i = 0; i < 8; i++) pthread_create(&t, NULL, k & 1 ? exits : fight, (void *)i);
            if (k & 1) pause();
            exit(21);
        }
        ended("child", p);
    }
    return 0;
}
/* Handlers of fork that allocate, lock and make threads. */
static pthread_mutex_t atfork_lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept;
static void before(void) { pthread_mutex_lock(&atfork_lock), kept = malloc(1000), words[20]++; }
static void in_parent(void) { free(kept), pthread_mutex_unlock(&atfork_lock); }
static void in_child(void) {
    memset(kept, 1, 1000), free(kept);
    pthread_mutex_unlock(&atfork_lock);
    fights(), words[21]++;
}
static void *forks(void *arg) {
    for (int i = 0; i < 10; i++) {
        pid_t p = fork();
        if (p == 0) {
            pthread_mutex_lock(&atfork_lock);
            free(malloc(10));
            _exit(words[21] == 1 ? 6 : 7);
        }
        int st;
        waitpid(p, &st, 0);
        if (WEXITSTATUS(st) != 6) printf("%x\n", st);
        pthread_mutex_lock(&atfork_lock), words[22]++, pthread_mutex_unlock(&atfork_lock);
    }
    return NULL;
}
static int atfork(void) {
    pthread_atfork(before, in_parent, in_child);
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, forks, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("%ld %ld\n", words[20], words[22]);
    return 0;
}
/* What a thread is told of itself, and what is said of one that has ended. */
static void *looks(void *arg) {
    pthread_attr_t a;
    void *at;
    size_t bytes, guard;
    pthread_getattr_np(pthread_self(), &a);
    pthread_attr_getstack(&a, &at, &bytes);
    pthread_attr_getguardsize(&a, &guard);
    char here;
    printf("%zu %zu %d\n", bytes, guard, &here > (char *)at && &here < (char *)at + bytes);
    pthread_attr_destroy(&a);
    return NULL;
}
static int ended_threads(void) {
    pthread_t t;
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 300 << 10);
    pthread_attr_setguardsize(&a, 12288);
    pthread_create(&t, &a, looks, NULL);
    while (pthread_tryjoin_np(t, NULL) == EBUSY) usleep(100);
    pthread_create(&t, NULL, looks, NULL);
    clockid_t c;
    while (pthread_getcpuclockid(t, &c) == 0) usleep(100);
    printf("%d\n", pthread_kill(t, 0));
    printf("%d\n", pthread_cancel(t));
    void *r;
    int joined = pthread_join(t, &r);
    printf("%d %d\n", joined, r == NULL);
    looks(NULL);
    fights();
    return 0;
}
/* Tracers of other kinds: seized, stepped, looked into. */
static int seized(void) {
    fights();
    fflush(stdout);
    int gate[2];
    if (pipe(gate)) return 1;
    pid_t p = fork();
    if (p == 0) {
        char c;
        if (read(gate[0], &c, 1) != 1) _exit(1);
        for (int i = 0; i < 3000; i++) words[i & 63]++;
        fights();
        _exit(words[5] & 127);
    }
    printf("%ld\n", ptrace(PTRACE_SEIZE, p, 0, PTRACE_O_TRACEEXIT));
    ptrace(PTRACE_INTERRUPT, p, 0, 0);
    int st, n = 0;
    waitpid(p, &st, 0);
    long here = 0;
    struct iovec mine = {&here, 8}, its = {(void *)&words[5], 8};
    printf("%zd\n", process_vm_readv(p, &mine, 1, &its, 1, 0));
    if (write(gate[1], "x", 1) != 1) return 1;
    for (n = 0; n < 3000; n++) {
        ptrace(PTRACE_SINGLESTEP, p, 0, 0);
        if (waitpid(p, &st, __WALL) != p || !WIFSTOPPED(st)) break;
    }
    printf("%d steps\n", n);
    ptrace(PTRACE_CONT, p, 0, 0);
    while (waitpid(-1, &st, __WALL) > 0 && WIFSTOPPED(st)) ptrace(PTRACE_CONT, p, 0, 0);
    printf("%d\n", WEXITSTATUS(st));
    return 0;
}
/* System calls given to a handler by the kernel (as Wine does). */
static volatile char selector;
static void dispatched(int s, siginfo_t *i, void *c) {
    selector = 0;
    ucontext_t *u = c;
    came += i->si_syscall == SYS_getppid;
    came2 += i->si_syscall != SYS_getppid;
    u->uc_mcontext.gregs[REG_RAX] = 4711;
}
static int dispatch(void) {
    fights();
    struct sigaction sa = {.sa_sigaction = dispatched, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &sa, NULL);
    if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector)) return printf("%s\n", strerror(errno)), 77;
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
        long r;
        selector = 1;
        for (int k = 0; k < 600; k++) words[(i + k) & 63]++;
        static volatile long many[1 << 16];
        for (int k = 0; k < 1 << 16; k += 64) many[(k + i) & 0xffff]++;
        __asm__ volatile("syscall" : "=a"(r) : "a"(SYS_getppid) : "rcx", "r11", "memory");
        sum += r;
    }
    printf("%ld %d %d\n", sum, came, came2);
    prctl(59, 0, 0, 0, 0);
    fights();
    return 0;
}
/* A deep copy of pages: what is not to be inherited is not. */
static int inheritance(void) {
    char *p = mmap(NULL, 16384, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 7, 16384);
    printf("%d %d\n", madvise(p, 4096, MADV_DONTFORK), madvise(p + 4096, 4096, MADV_WIPEONFORK));
    char *heap = aligned_alloc(4096, 8192);
    memset(heap, 9, 8192);
    printf("%d\n", madvise(heap, 4096, MADV_WIPEONFORK));
    fights();
    fflush(stdout);
    pid_t c = fork();
    if (c == 0) {
        fights();
        unsigned char v;
        printf("%d %d %d %d %d\n", mincore(p, 4096, &v), p[4096], p[8192], heap[0], heap[4096]);
        fflush(stdout);
        p[0] = 1;
        _exit(0);
    }
    ended("child", c);
    return 0;
}
/* Pages of its own stack that may not be read for a while. */
static int protected_stack(void) {
    volatile char room[65536];
    char *page = (char *)(((uintptr_t)room + 8191) & ~4095ul);
    page[0] = 5;
    printf("%d\n", mprotect(page, 8192, PROT_NONE));
    fights();
    for (int i = 0; i < 10000; i++) words[i & 63]++;
    printf("%d\n", mprotect(page, 8192, PROT_READ | PROT_WRITE));
    printf("%d\n", page[0]);
    fights();
    return 0;
}
/* Lengths that are no lengths: the program lives on behind its fault. */
static sigjmp_buf behind_fault;
static void faulted(int s) { siglongjmp(behind_fault, 1); }
static int bad_lengths(void) {
    signal(SIGSEGV, faulted);
    char *to = mmap(NULL, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(to + 4096, 4096, PROT_NONE);
    volatile size_t n = (size_t)-1 / 2;
    char *volatile nowhere = (char *)-64, *volatile none = NULL;
    if (!sigsetjmp(behind_fault, 1)) memset(to, 7, n);
    else puts("memset");
    if (!sigsetjmp(behind_fault, 1)) memcpy(to, to + 100, n);
    else puts("memcpy");
    if (!sigsetjmp(behind_fault, 1)) memcpy(nowhere, to, n & 1023);
    else puts("at the end");
    if (!sigsetjmp(behind_fault, 1)) memmove(none, to, 100);
    else puts("at the start");
    printf("%zd %s\n", read(open("/dev/zero", O_RDONLY), nowhere, 100), strerror(errno));
    fights();
    return 0;
}
KINDS({"vfork_storm", vfork_storm}, {"clone3", clone3s}, {"unshared", unshared}, {"namespaces", namespaces},
      {"overflow_everywhere", overflow_everywhere}, {"resumed", resumed}, {"single_steps", single_steps},
      {"no_queue", no_queue}, {"real_time_order", real_time_order}, {"nested", nested}, {"profiled", profiled},
      {"changing_limits", changing_limits}, {"from_memory", from_memory}, {"exec_by_thread", exec_by_thread},
      {"exec_in_handler", exec_in_handler}, {"racing_exits", racing_exits}, {"atfork", atfork},
      {"ended_threads", ended_threads}, {"seized", seized}, {"dispatch", dispatch}, {"inheritance", inheritance},
      {"protected_stack", protected_stack}, {"bad_lengths", bad_lengths})
