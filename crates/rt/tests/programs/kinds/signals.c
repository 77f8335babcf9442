/* Signals: storms, timers, stacks of their own, jumps out of handlers, faults that are handled. */
#include "kinds.h"
#include <poll.h>
#include <setjmp.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile sig_atomic_t ticks;
static volatile long counts[8];
static void tick(int s) {
    (void)s;
    int e = errno;
    counts[1]++;
    ticks++;
    errno = e;
}
static void on(int s, void (*f)(int), int flags) {
    struct sigaction sa = {.sa_handler = f, .sa_flags = flags};
    sigaction(s, &sa, NULL);
}
static void every(long us) {
    struct itimerval v = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &v, NULL);
}
/* Faulting in new lines and allocating while signals come. */
static void work(int i) {
    char *p = malloc(3000 + i % 5000);
    for (int k = 0; k < 3000; k += 64) p[k]++;
    counts[0]++;
    free(p);
}
static int storm(void) {
    on(SIGALRM, tick, SA_RESTART);
    every(200);
    for (int i = 0; ticks < 500; i++) work(i);
    every(0);
    printf("%s\n", ticks >= 500 && counts[1] >= 500 ? "storm over" : "lost");
    return 0;
}
static volatile int over;
static void *busy(void *arg) {
    while (!over) work((int)(long)arg);
    return NULL;
}
static int thread_storm(void) {
    pthread_t t[3];
    on(SIGUSR1, tick, SA_RESTART);
    for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, busy, (void *)i);
    for (int i = 0; i < 3000; i++) {
        int before = ticks;
        pthread_kill(t[i % 3], SIGUSR1);
        /* Signals that wait become one. */
        while (i % 20 == 0 && ticks == before) usleep(50);
    }
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    printf("%s\n", ticks > 100 ? "handled" : "too few");
    return 0;
}
static int posix_timers(void) {
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    struct itimerspec v = {{0, 1000000}, {0, 1000000}};
    on(SIGRTMIN + 1, tick, 0);
    printf("%d ", timer_create(CLOCK_MONOTONIC, &e, &t));
    printf("%d\n", timer_settime(t, 0, &v, NULL));
    for (int i = 0; ticks < 50; i++) work(i);
    printf("%d\n", timer_delete(t));
    return 0;
}
static sem_t called;
static void notify(union sigval v) {
    fight(NULL);
    printf("timer thread %d\n", v.sival_int);
    sem_post(&called);
}
static int thread_timers(void) {
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify, .sigev_value.sival_int = 3};
    struct itimerspec v = {{0, 0}, {0, 1000000}};
    sem_init(&called, 0, 0);
    timer_create(CLOCK_REALTIME, &e, &t);
    timer_settime(t, 0, &v, NULL);
    while (sem_wait(&called)) {}
    fights();
    return 0;
}
static void on_other_stack(int s) {
    (void)s;
    stack_t now;
    volatile char big[2000];
    memset((void *)big, 1, sizeof big);
    sigaltstack(NULL, &now);
    printf("on the other stack: %d\n", (now.ss_flags & SS_ONSTACK) != 0);
    counts[2]++;
}
static int altstack(void) {
    stack_t s = {.ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ};
    sigaltstack(&s, NULL);
    on(SIGUSR1, on_other_stack, SA_ONSTACK);
    fights();
    raise(SIGUSR1);
    printf("%ld\n", counts[2]);
    return 0;
}
static sigjmp_buf out;
static void jump(int s) { siglongjmp(out, s); }
static int overflow_deep(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return overflow_deep(n + 1) + frame[0];
}
static int overflow(void) {
    stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&s, NULL);
    on(SIGSEGV, jump, SA_ONSTACK);
    fights();
    if (sigsetjmp(out, 1) == 0) return overflow_deep(0);
    puts("stack overflow survived");
    fights();
    return 0;
}
static void leave(int s) {
    (void)s;
    ticks++;
    siglongjmp(out, 1);
}
static int jumps(void) {
    on(SIGALRM, leave, 0);
    every(500);
    volatile int i = 0;
    sigsetjmp(out, 1);
    while (ticks < 200) {
        counts[(i++ & 1)]++;
        volatile char *p = mmap(NULL, 4096, 3, 0x22, -1, 0);
        p[0]++;
        munmap((void *)p, 4096);
    }
    every(0);
    fights();
    puts("jumped");
    return 0;
}
static char *page;
static void opens(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    ticks++;
    mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}
static int barrier_faults(void) {
    struct sigaction sa = {.sa_sigaction = opens, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &sa, NULL);
    page = mmap(NULL, 16 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 16; i++) page[i * 4096]++;
    printf("%d faults\n", (int)ticks);
    mprotect(page, 4096, PROT_NONE);
    memcpy(page, "copy", 5);
    printf("%d faults %s\n", (int)ticks, page);
    fights();
    return 0;
}
static int signal_fd(void) {
    sigset_t s;
    struct signalfd_siginfo i;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigaddset(&s, SIGCHLD);
    sigprocmask(SIG_BLOCK, &s, NULL);
    int fd = signalfd(-1, &s, SFD_CLOEXEC);
    fights();
    raise(SIGUSR1);
    ssize_t n = read(fd, &i, sizeof i);
    printf("%zd %u\n", n, i.ssi_signo);
    fflush(stdout);
    if (fork() == 0) _exit(4);
    n = read(fd, &i, sizeof i);
    printf("%zd %u %d\n", n, i.ssi_signo, i.ssi_status);
    return 0;
}
static void *waits(void *arg) {
    sigset_t *s = arg;
    int got = 0;
    fight(NULL);
    sigwait(s, &got);
    return (void *)(long)got;
}
static int sig_wait(void) {
    sigset_t s;
    pthread_t t;
    void *r;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &s, NULL);
    pthread_create(&t, NULL, waits, &s);
    pthread_kill(t, SIGUSR2);
    pthread_join(t, &r);
    printf("waited for %ld\n", (long)r);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 65; i++)
        if (sigismember(&now, i) > 0) printf("blocked %d\n", i);
    return 0;
}
static int alarms(void) {
    on(SIGALRM, tick, 0);
    ualarm(2000, 0);
    fights();
    errno = 0;
    while (!ticks) pause();
    printf("%d\n", (int)alarm(0));
    alarm(1);
    struct timespec long_time = {5, 0}, left;
    printf("%d", nanosleep(&long_time, &left));
    printf(" %s\n", strerror(errno));
    return 0;
}
static int restart(void) {
    int fd[2];
    char c;
    if (pipe(fd)) return 1;
    on(SIGALRM, tick, 0);
    ualarm(2000, 0);
    fights();
    ssize_t n = ticks ? -1 : read(fd[0], &c, 1);
    printf("%zd %s\n", n, ticks ? "interrupted" : strerror(errno));
    return 0;
}
static sem_t posted;
static void posts(int s) {
    (void)s;
    sem_post(&posted);
    ticks++;
}
static int handler_posts(void) {
    int got = 0;
    sem_init(&posted, 0, 0);
    on(SIGALRM, posts, SA_RESTART);
    every(300);
    while (got < 300) {
        work(got);
        while (sem_wait(&posted)) {}
        got++;
        while (sem_trywait(&posted) == 0) got++;
    }
    every(0);
    puts("posted");
    return 0;
}
static void dies(int s) {
    counts[3]++;
    signal(s, SIG_DFL);
    raise(s);
}
static int rethrown(void) {
    signal(SIGTERM, dies);
    fights();
    raise(SIGTERM);
    return 0;
}
static int queued(void) {
    sigset_t s;
    siginfo_t i;
    sigemptyset(&s);
    sigaddset(&s, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &s, NULL);
    fights();
    for (int k = 0; k < 5; k++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = k});
    for (int k = 0; k < 5; k++) {
        sigwaitinfo(&s, &i);
        printf("%d ", i.si_value.sival_int);
    }
    puts("");
    return 0;
}
static int actions(void) {
    struct sigaction old;
    fights();
    for (int s = 1; s < 65; s++) {
        if (s == 32 || s == 33) continue;
        if (sigaction(s, NULL, &old) == 0 && old.sa_handler != SIG_DFL) printf("%d is not default\n", s);
    }
    printf("%d", sigaction(SIGKILL, &old, NULL));
    printf(" %s\n", strerror(errno));
    on(SIGUSR1, tick, SA_RESTART | SA_NODEFER);
    sigaction(SIGUSR1, NULL, &old);
    printf("%d %x\n", old.sa_handler == tick, (unsigned)(old.sa_flags & ~0x04000000));
    printf("%d\n", signal(SIGUSR1, SIG_IGN) == tick);
    return 0;
}
/* Installed without libc. */
void restorer(void);
__asm__(".globl restorer\nrestorer: mov $15, %eax\nsyscall\n");
static volatile long lines[1 << 17];
static void touches(int s) {
    (void)s;
    for (int i = 0; i < 64; i++) lines[(ticks * 64 + i) * 8 & 0x1ffff]++;
    ticks++;
}
static int raw_handler(void) {
    struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } a = {
        touches, 0x04000000 | SA_RESTART, restorer, 0};
    printf("%ld\n", syscall(SYS_rt_sigaction, SIGALRM, &a, NULL, 8));
    every(100);
    for (long i = 0; ticks < 2000; i++) lines[i * 8 & 0x1ffff]++;
    every(0);
    fights();
    return 0;
}
KINDS({"raw_handler", raw_handler}, {"storm", storm}, {"thread_storm", thread_storm}, {"posix_timers", posix_timers},
      {"thread_timers", thread_timers}, {"sigaltstack", altstack}, {"stack_overflow", overflow},
      {"siglongjmp", jumps}, {"segv_mprotect", barrier_faults}, {"signalfd", signal_fd}, {"sigwait", sig_wait},
      {"alarm", alarms}, {"eintr", restart}, {"handler_posts", handler_posts}, {"raise_again", rethrown},
      {"sigqueue", queued}, {"sigaction", actions})
