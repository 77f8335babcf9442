/* Write barriers by protection under everything that stores, coroutines made by signals, many of everything. */
#include "kinds.h"
#include <poll.h>
#include <setjmp.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <ucontext.h>
static volatile long words[64] __attribute__((aligned(64)));
static volatile sig_atomic_t came;
static char *page;
static volatile long faults;
static void unprotects(int s, siginfo_t *i, void *c) {
    faults++;
    if ((char *)i->si_addr < page || (char *)i->si_addr >= page + 65536) _exit(77);
    mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}
static void again(void) { mprotect(page, 65536, PROT_NONE); }
static void *beside(void *arg) {
    for (int i = 0; i < 300; i++) __atomic_fetch_add((long *)(page + 128), 1, 5), words[5]++, usleep(50);
    return NULL;
}
struct big { char c[300]; };
static int barriers(void) {
    page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction a = {.sa_sigaction = unprotects, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    struct big b = {{3}};
    pthread_t t;
    pthread_create(&t, NULL, beside, NULL);
    pthread_mutex_t *m = (void *)(page + 49152);
    pthread_mutex_init(m, NULL);
    for (int i = 0; i < 200; i++) {
        long old = 5;
        again(); __atomic_fetch_add((long *)page, 1, 5);
        again(); __atomic_store_n((int *)(page + 8), 7, 5);
        again(); __atomic_compare_exchange_n((long *)(page + 16), &old, 9, 0, 5, 5);
        again(); old = __atomic_load_n((long *)(page + 16), 5);
        again(); __atomic_exchange_n((short *)(page + 24), 2, 5);
        again(); __sync_fetch_and_nand((char *)(page + 32), 3);
        again(); memcpy(page + 4090, &b, 300);
        again(); memset(page + 4000, 1, 9000);
        again(); memmove(page + 20000, page + 4000, 5000);
        again(); *(struct big *)(page + 30000) = b;
        again(); *(volatile long *)(page + 40956 + (i & 3)) = 5;
        again(); pthread_mutex_lock(m); again(); pthread_mutex_unlock(m);
        again(); page[65535]++;
    }
    pthread_join(t, NULL);
    printf("%d %ld %ld\n", faults > 200, *(long *)page, *(long *)(page + 128));
    fights();
    return 0;
}
/* Left from inside of atomics and copies; signals and locks work afterwards. */
static sigjmp_buf back;
static void leave(int s) { siglongjmp(back, s); }
static void count(int s) { came++; }
static void *leaves(void *arg) {
    for (int k = 0; k < 200; k++) words[k & 63]++;
    return NULL;
}
static int left_inside(void) {
    signal(SIGSEGV, leave), signal(SIGUSR1, count);
    char *none = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int n = 0;
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    for (volatile int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1)) n++;
        else switch (i % 8) {
        case 0: __atomic_fetch_add((long *)none, 1, 5); break;
        case 1: __atomic_store_n((char *)none, 1, 5); break;
        case 2: memcpy(none, &n, 4 + i); break;
        case 3: memset(none + 100, 0, i * 10); break;
        case 4: { long x = 4; __atomic_compare_exchange_n((long *)none, &x, 1, 0, 5, 5); } break;
        case 5: words[0] += __atomic_load_n((long *)none, 5); break;
        case 6: pthread_mutex_lock((pthread_mutex_t *)none); break;
        case 7: sem_post((sem_t *)none); break;
        }
        pthread_mutex_lock(&m);
        words[i & 63]++;
        free(malloc(i));
        raise(SIGUSR1);
        pthread_mutex_unlock(&m);
        if (i % 100 == 0) { pthread_t t; pthread_create(&t, NULL, leaves, NULL); pthread_join(t, NULL); }
    }
    printf("%d %d\n", n, came);
    fights();
    return 0;
}
/* Coroutines as GNU Pth makes them: a handler on its own stack is left, and entered again later. */
static sigjmp_buf made, caller;
static volatile int ready;
static struct co { sigjmp_buf in; char *stack; volatile long n; } cos[50];
static struct co *volatile now;
static void body(struct co *c) {
    for (;;) {
        c->n++, words[c->n & 63]++, free(malloc(100));
        if (sigsetjmp(c->in, 0) == 0) siglongjmp(caller, 1);
    }
}
static void trampoline(int s) {
    struct co *c = now;
    ready = 1;
    if (sigsetjmp(c->in, 0) == 0) return;
    body(c);
}
static int by_signals(void) {
    for (int i = 0; i < 50; i++) {
        now = &cos[i];
        stack_t st = {.ss_sp = now->stack = malloc(65536), .ss_size = 65536}, off = {.ss_flags = SS_DISABLE};
        sigaltstack(&st, NULL);
        struct sigaction a = {.sa_handler = trampoline, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR2, &a, NULL);
        ready = 0;
        raise(SIGUSR2);
        if (!ready) return 2;
        sigaltstack(&off, NULL);
    }
    for (volatile int round = 0; round < 200; round++)
        for (volatile int i = 0; i < 50; i++)
            if (sigsetjmp(caller, 0) == 0) siglongjmp(cos[(i * 3) % 50].in, 1);
    long sum = 0;
    for (int i = 0; i < 50; i++) sum += cos[i].n;
    printf("%ld\n", sum);
    signal(SIGUSR1, count);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    printf("%d\n", came);
    fights();
    return 0;
}
/* Real-time signals by descriptors: each tells which. */
static volatile long told[64];
static void io(int s, siginfo_t *i, void *c) { told[i->si_fd & 63]++; if (i->si_band & POLLIN) came++;
    words[1]++; free(NULL); }
static int told_by_signals(void) {
    struct sigaction a = {.sa_sigaction = io, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 2, &a, NULL);
    int p[8][2];
    for (int i = 0; i < 8; i++) {
        pipe(p[i]);
        fcntl(p[i][0], F_SETOWN, getpid()), fcntl(p[i][0], F_SETSIG, SIGRTMIN + 2), fcntl(p[i][0], F_SETFL,
            O_ASYNC | O_NONBLOCK);
    }
    for (int k = 0; k < 2000; k++) {
        char c;
        write(p[k & 7][1], "a", 1);
        while (read(p[k & 7][0], &c, 1) == 1) words[k & 63]++, free(malloc(k));
    }
    long sum = 0;
    for (int i = 0; i < 64; i++) sum += told[i] != 0;
    printf("%d %ld %d\n", came == 2000, sum, told[p[3][0]] == 250);

    fights();
    return 0;
}
/* Nearly as many mappings as a process may have. */
static int many_maps(void) {
    enum { N = 20000 };
    char **at = malloc(N * sizeof *at);
    int n = 0;
    for (; n < N; n++) {
        at[n] = mmap(NULL, 4096, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at[n] == MAP_FAILED) break;
        if (!(n & 1)) at[n][0] = 1;
    }
    fights();
    for (int i = 0; i < n; i += 2) munmap(at[i], 4096);
    for (int i = 1; i < n; i += 2) munmap(at[i], 4096);
    printf("%d\n", n);
    fights();
    return 0;
}
/* Thousands of threads one after the other and at once, hundreds of children. */
static pthread_barrier_t bar;
static void *short_one(void *a) { words[(long)a & 63]++; return a; }
static void *waits(void *a) { words[(long)a & 63]++; pthread_barrier_wait(&bar); return a; }
static int crowds(void) {
    pthread_attr_t a;
    pthread_attr_init(&a), pthread_attr_setstacksize(&a, 32768);
    for (long i = 0; i < 2000; i++) { pthread_t t; if (pthread_create(&t, &a, short_one, (void *)i)) return 3;
        pthread_join(t, NULL); }
    static pthread_t t[400];
    pthread_barrier_init(&bar, NULL, 400);
    for (long i = 0; i < 400; i++) if (pthread_create(&t[i], &a, waits, (void *)i)) return 4;
    for (int i = 0; i < 400; i++) pthread_join(t[i], NULL);
    int good = 0;
    fflush(stdout);
    for (int i = 0; i < 100; i++) {
        pid_t p = fork();
        if (p == 0) words[1]++, _exit(i & 7);
        int st;
        good += p > 0 && waitpid(p, &st, 0) == p && WEXITSTATUS(st) == (i & 7);
    }
    printf("%d\n", good);
    return 0;
}
/* Names of users of its own. */
static int user_namespace(void) {
    fights();
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) _exit(9);
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) _exit(7);
        fights();
        pid_t q = fork();
        if (q == 0) fights(), _exit(getuid() == 65534 ? 5 : 6);
        ended("inner", q);
        _exit(4);
    }
    int s = 0;
    waitpid(p, &s, 0);
    /* In a chroot and in most containers: nothing to see here. */
    if (WIFEXITED(s) && WEXITSTATUS(s) == 7) { puts("no user namespaces"); return 77; }
    printf("outer: %d\n", WIFEXITED(s) ? WEXITSTATUS(s) : -WTERMSIG(s));
    return 0;
}
/* The end of the data moves by hand, recursion as deep as the stack. */
__attribute__((noinline)) static long down(long n, volatile char *up) { volatile char c[64]; c[0] = up[0] + 1;
    words[n & 63]++; return n ? down(n - 1, c) + c[0] : 0; }
static void *deep_thread(void *a) { char z = 0; return (void *)down(400000, &z); }
static int deep_and_long(void) {
    char *p = sbrk(100000);
    for (int i = 0; i < 2000; i++) { char *q = malloc(i * 100); if (i % 100 == 0) sbrk(8192); if (q) q[0] = 1;
        free(q); }
    memset(p, 2, 100000);
    printf("%d\n", p[99999]);
    pthread_attr_t a;
    pthread_attr_init(&a), pthread_attr_setstacksize(&a, 256 << 20);
    pthread_t t; void *r;
    pthread_create(&t, &a, deep_thread, NULL), pthread_join(t, &r);
    printf("%ld\n", (long)r);
    fights();
    return 0;
}
/* Bytes that move inside of the kernel. */
static int kernel_copies(void) {
    int in = open("in", O_CREAT | O_RDWR, 0600), out = open("out", O_CREAT | O_RDWR, 0600), p[2];
    pipe(p);
    static char text[20000] __attribute__((aligned(4096)));
    memset(text, 'q', sizeof text);
    write(in, text, sizeof text);
    off_t o = 0;
    printf("%zd\n", sendfile(out, in, &o, 10000));
    loff_t lo = 10000;
    printf("%zd\n", splice(in, &lo, p[1], NULL, 5000, 0));
    printf("%zd\n", splice(p[0], NULL, out, NULL, 5000, 0));
    struct iovec v = {text, 4096};
    printf("%zd\n", vmsplice(p[1], &v, 1, 0));
    static char got[8192];
    printf("%zd %c\n", read(p[0], got, 8192), got[4095]);
    lo = 0;
    printf("%zd\n", copy_file_range(in, &lo, out, NULL, 3000, 0));
    fflush(stdout);
    pid_t c = fork();
    if (c == 0) { struct iovec l = {"from the child", 15}, r = {got, 15};
        _exit(process_vm_writev(getppid(), &l, 1, &r, 1, 0) == 15); }
    ended("child", c);
    printf("%s\n", got);
    fights();
    return 0;
}
/* A crash is looked at by a process that shares the memory, as crash reporters do it. */
static char other_stack[65536] __attribute__((aligned(16)));
static int dumps(void *of) {
    pid_t p = (pid_t)(long)of;
    struct user_regs_struct r;
    if (ptrace(PTRACE_ATTACH, p, 0, 0)) return 1;
    int st;
    waitpid(p, &st, __WALL);
    int good = ptrace(PTRACE_GETREGS, p, 0, &r) == 0 && r.rip != 0;
    words[9]++;
    ptrace(PTRACE_DETACH, p, 0, 0);
    return good ? 5 : 6;
}
static void reports(int s, siginfo_t *i, void *c) {
    prctl(PR_SET_DUMPABLE, 1), prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t p = clone(dumps, other_stack + sizeof other_stack, CLONE_FS | CLONE_FILES | SIGCHLD,
        (void *)(long)getpid());
    ended("dumper", p);
    _exit(3);
}
static int crash_dump(void) {
    struct sigaction a = {.sa_sigaction = reports, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    fights();
    words[1] += *(volatile long *)8;
    return 0;
}
KINDS({"barriers", barriers}, {"left_inside", left_inside}, {"by_signals", by_signals}, {"told_by_signals",
    told_by_signals},
      {"many_maps", many_maps}, {"crowds", crowds}, {"user_namespace", user_namespace}, {"deep_and_long",
          deep_and_long},
      {"kernel_copies", kernel_copies}, {"crash_dump", crash_dump})
