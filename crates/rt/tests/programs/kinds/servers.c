/* What servers and libraries do: sandboxes, threads of libc's own, executable stacks, code made while running. */
#include "kinds.h"
#include <aio.h>
#include <execinfo.h>
#include <linux/landlock.h>
#include <linux/membarrier.h>
#include <mqueue.h>
#include <search.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <malloc.h>
#include <locale.h>
#include <iconv.h>
#include <pwd.h>
#include <netdb.h>
#include <glob.h>
#include <ftw.h>
#include <regex.h>

static volatile long words[64] __attribute__((aligned(64)));
static sem_t done;
static void said(long r) { int e = errno; printf("%ld %s\n", r, r < 0 || r == 1 ? strerror(e) : ""); }

/* Nothing but its own folder may be opened from here on, also by its children. */
static int landlocked(void) {
    struct landlock_ruleset_attr a = {.handled_access_fs = 0x1fff};
    fights();
    int r = syscall(SYS_landlock_create_ruleset, &a, sizeof a, 0);
    if (r < 0) return printf("%s\n", strerror(errno)), 77;
    struct landlock_path_beneath_attr p = {.allowed_access = 0x1fff, .parent_fd = open(".", O_PATH | O_CLOEXEC)};
    if (syscall(SYS_landlock_add_rule, r, LANDLOCK_RULE_PATH_BENEATH, &p, 0)) return 77;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("%ld\n", syscall(SYS_landlock_restrict_self, r, 0));
    fights();
    for (int i = 0; i < 20000; i++) free(malloc(i & 4095));
    char *much = malloc(64 << 20);
    for (long i = 0; i < 64 << 20; i += 64) much[i]++;
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        pid_t c = fork();
        if (c == 0) {
            fights();
            int fd = open("made", O_CREAT | O_WRONLY, 0600);
            _exit(fd < 0 ? 1 : open("/etc/passwd", O_RDONLY) < 0 ? 4 : 5);
        }
        ended("child", c);
    }
    return 0;
}
/* Threads that libc starts by itself call the program. */
static void timed(union sigval v) { words[v.sival_int]++, free(malloc(50)), sem_post(&done); }
static int libc_threads(void) {
    sem_init(&done, 0, 0);
    struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = timed};
    for (int i = 0; i < 8; i++) {
        timer_t t;
        e.sigev_value.sival_int = i;
        if (timer_create(CLOCK_MONOTONIC, &e, &t)) return perror("timer"), 1;
        struct itimerspec s = {.it_value.tv_nsec = 1000000 * (i + 1)};
        timer_settime(t, 0, &s, NULL);
    }
    for (int i = 0; i < 8; i++) sem_wait(&done);
    static struct aiocb cb[16];
    static char text[16][64];
    int fd = open("written", O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (int i = 0; i < 16; i++) {
        memset(text[i], 'a' + i, 64);
        cb[i] = (struct aiocb){.aio_fildes = fd, .aio_buf = text[i], .aio_nbytes = 64, .aio_offset = 64 * i};
        cb[i].aio_sigevent = e;
        cb[i].aio_sigevent.sigev_value.sival_int = i;
        if (aio_write(&cb[i])) return perror("aio"), 1;
    }
    for (int i = 0; i < 16; i++) sem_wait(&done);
    for (int i = 0; i < 16; i++) printf("%zd ", aio_return(&cb[i]));
    for (int i = 0; i < 16; i++) printf("%ld ", words[i]);
    printf("\n");
    struct gaicb g = {.ar_name = "127.0.0.1"}, *list[] = {&g};
    if (getaddrinfo_a(GAI_NOWAIT, list, 1, &e) == 0) sem_wait(&done);
    printf("%d\n", gai_error(&g));
    mqd_t q = mq_open("/tussle-real", O_CREAT | O_RDWR, 0600, NULL);
    if (q != (mqd_t)-1) {
        mq_unlink("/tussle-real");
        e.sigev_value.sival_int = 20;
        mq_notify(q, &e);
        mq_send(q, "abc", 3, 1);
        sem_wait(&done);
        printf("%ld\n", words[20]);
    }
    fights();
    return 0;
}
/* Nested functions: code on the stack. */
static int apply(int (*f)(int), int n) { return f(n); }
#ifndef __clang__
static void *nest(void *arg) {
    long sum = (long)arg;
    int add(int n) {
        sum += n;
        words[sum & 63]++;
        return (int)sum;
    }
    for (int i = 0; i < 100; i++) apply(add, i);
    return (void *)sum;
}
static int nested_functions(void) {
    __label__ out;
    pthread_t t[4];
    long all = 0;
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, nest, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        all += (long)r;
    }
    printf("%ld\n", all);
    void leave(void) { words[1]++; goto out; }
    int through(int n) { if (n == 0) leave(); return through(n - 1) + 1; }
    through(50);
out:
    fights();
    return 0;
}
#else
static int nested_functions(void) { fights(); return 0; }
#endif
/* Code made while running calls instrumented functions, without frames or unwind tables. */
static void called(long n) { words[n & 63]++; free(malloc(n + 1)); }
static sigjmp_buf back;
static void bails(long n) { words[n & 63]++; siglongjmp(back, (int)n); }
static void *jits(void *arg) {
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char text[] = {0x53, 0x48, 0x89, 0xfb, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0xff,
        0xcb, 0x48, 0x89, 0xdf, 0x75, 0xec, 0x5b, 0xc3};
    void (*f)(long) = called;
    memcpy(text + 6, &f, 8);
    memcpy(code, text, sizeof text);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    for (int i = 0; i < 50; i++) ((void (*)(long))code)(200);
    mprotect(code, 4096, PROT_READ | PROT_WRITE);
    f = bails;
    memcpy(code + 6, &f, 8);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    munmap(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 8192);
    return code;
}
static int made_code(void) {
    pthread_t t[3];
    void *code;
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, jits, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], &code);
    volatile int left = 0;
    for (volatile int i = 0; i < 100; i++)
        if (sigsetjmp(back, 1) == 0) ((void (*)(long))code)(i + 5);
        else left++;
    printf("%d %d\n", left, words[1] > 0);
    fights();
    return 0;
}
/* A file that is cut while mapped; system calls with bad memory. */
static void leave(int s) { siglongjmp(back, s); }
static int bus(void) {
    signal(SIGBUS, leave), signal(SIGSEGV, leave);
    int fd = open("cut", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (ftruncate(fd, 65536)) return 1;
    char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(p, 'x', 65536);
    if (ftruncate(fd, 4096)) return 1;
    volatile int n = 0;
    for (volatile int i = 0; i < 65536; i += 4096)
        if (sigsetjmp(back, 1) == SIGBUS) n++;
        else p[i]++, memcpy(p + i, "abcdefgh", 8);
    printf("%d\n", n);
    if (sigsetjmp(back, 1) == 0) memset(p, 1, 65536); else printf("filled\n");
    char *none = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int zero = open("/dev/zero", O_RDONLY);
    said(read(zero, none, 100));
    said(write(fd, none, 100));
    said(pread(fd, p + 8192, 10, 0));
    struct iovec v[2] = {{p, 10}, {none, 10}};
    said(readv(zero, v, 2));
    said(readv(zero, (void *)none, 2));
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    struct msghdr m = {.msg_iov = (void *)none, .msg_iovlen = 1};
    said(sendmsg(pair[0], &m, 0));
    said(sendmsg(pair[0], (void *)none, 0));
    said(recvmsg(pair[1], (void *)none, MSG_DONTWAIT));
    said(recv(pair[1], none, 10, MSG_DONTWAIT));
    said(process_vm_readv(getpid(), v, 1, &(struct iovec){none, 10}, 1, 0));
    fights();
    return 0;
}
/* System V memory, semaphores and queues between processes. */
static int system_v(void) {
    int m = shmget(IPC_PRIVATE, 65536, 0600), s = semget(IPC_PRIVATE, 2, 0600), q = msgget(IPC_PRIVATE, 0600);
    if (m < 0 || s < 0 || q < 0) return printf("%s\n", strerror(errno)), 77;
    long *p = shmat(m, NULL, 0), *twice = shmat(m, NULL, 0);
    shmctl(m, IPC_RMID, NULL);
    semctl(s, 0, SETVAL, 1);
    fflush(stdout);
    pid_t c[3];
    for (int k = 0; k < 3; k++)
        if ((c[k] = fork()) == 0) {
            for (int i = 0; i < 500; i++) {
                struct sembuf down = {0, -1, SEM_UNDO}, up = {0, 1, SEM_UNDO};
                semop(s, &down, 1);
                p[0]++, twice[1]++;
                if (i == 499 && k == 1) _exit(0);
                semop(s, &up, 1);
            }
            struct { long type; char text[16]; } message = {k + 1, "hello"};
            msgsnd(q, &message, 16, 0);
            fights();
            _exit(k);
        }
    for (int k = 0; k < 3; k++) ended("child", c[k]);
    struct { long type; char text[16]; } message;
    printf("%zd %s\n", msgrcv(q, &message, 16, 3, 0), message.text);
    printf("%ld %ld %d\n", p[0], twice[1], semctl(s, 0, GETVAL));
    semctl(s, 0, IPC_RMID), msgctl(q, IPC_RMID, NULL);
    shmdt(p), shmdt(twice);
    fights();
    return 0;
}
/* Data of the process is limited; memory that is never there. */
static int data_limit(void) {
    char *sparse = mmap(NULL, 1ul << 42, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1, 0);
    if (sparse != MAP_FAILED)
        for (unsigned long i = 0; i < 1ul << 42; i += 1ul << 33) sparse[i]++;
    printf("%d\n", sparse != MAP_FAILED);
    if (sparse != MAP_FAILED) {
        madvise(sparse, 1ul << 40, MADV_DONTNEED);
        printf("%d\n", sparse[0]);
        munmap(sparse, 1ul << 42);
    }
    struct rlimit l = {96 << 20, 96 << 20};
    setrlimit(RLIMIT_DATA, &l);
    char *p = malloc(64 << 20);
    printf("%d\n", p != NULL);
    if (p) for (long i = 0; i < 64 << 20; i += 4096) p[i]++;
    said(malloc(64 << 20) == NULL);
    errno = 0;
    printf("%d\n", mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 65536);
    pthread_t t[8];
    int n = 0;
    for (long i = 0; i < 8; i++) n += pthread_create(&t[n], &a, fight, (void *)i) == 0;
    for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
    printf("%d\n", n);
    free(p);
    return 0;
}
/* Many stacks switched by the program's own machine code. */
struct fiber { void *sp; char *stack; long n; };
static __thread struct fiber *self, *home;
void swap_stacks(void **from, void *to);
__asm__(".text\n.globl swap_stacks\n.type swap_stacks,@function\nswap_stacks:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size swap_stacks,.-swap_stacks\n");
static long deeper(long n) {
    return n ? words[n & 63]++, deeper(n - 1) + 1 : (swap_stacks(&self->sp, home->sp), 0); }
static void fiber_main(void) {
    for (;;) self->n += deeper(20), free(malloc(64));
}
static void *fibers(void *arg) {
    enum { N = 300 };
    struct fiber *f = calloc(N, sizeof *f), h = {0};
    home = &h;
    for (int i = 0; i < N; i++) {
        f[i].stack = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void **top = (void **)(f[i].stack + 16384 - 64);
        *--top = NULL, *--top = (void *)fiber_main;
        for (int k = 0; k < 6; k++) *--top = NULL;
        f[i].sp = top;
    }
    long sum = 0;
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < N; i++) self = &f[(i * 7) % N], swap_stacks(&h.sp, self->sp);
    for (int i = 0; i < N; i++) sum += f[i].n, munmap(f[i].stack, 16384);
    free(f);
    return (void *)sum;
}
static int own_switches(void) {
    pthread_t t[3];
    void *r;
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, fibers, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], &r), printf("%ld\n", (long)r);
    fights();
    return 0;
}
/* A crash handler that prints where it was. */
__attribute__((noinline)) void innermost(volatile int *p) { words[1]++; *p = 1; words[2]++; }
__attribute__((noinline)) void between(volatile int *p) { innermost(p); words[3]++; }
static void tells(int s, siginfo_t *i, void *c) {
    void *at[32];
    int n = backtrace(at, 32), seen = 0;
    char **names = backtrace_symbols(at, n);
    for (int k = 0; k < n; k++) {
        char *open = strchr(names[k], '('), *plus = strchr(names[k], '+');
        if (open && plus && strstr(names[k], "program") && plus > open + 1 && strncmp(open + 1, "main",
            4)) printf("%.*s\n", (int)(plus - open - 1), open + 1), seen++;
    }
    printf("%d at %p\n", seen > 2, i->si_addr);
    fflush(stdout);
    free(names);
    signal(s, SIG_DFL);
}
static int crash_report(void) {
    void *at[4];
    backtrace(at, 4);
    struct sigaction a = {.sa_sigaction = tells, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    stack_t st = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&st, NULL);
    sigaction(SIGSEGV, &a, NULL);
    fights();
    struct rlimit no = {0, 0};
    setrlimit(RLIMIT_CORE, &no);
    between((int *)64);
    return 0;
}
/* Libraries that load others: names, character sets, users, patterns, in threads. */
static int compare(const void *a, const void *b) { words[0]++; return *(const int *)a - *(const int *)b; }
static int walked;
static int walk(const char *n, const struct stat *s, int f) { words[5]++; return walked++ > 20; }
static void *libraries(void *arg) {
    locale_t l = newlocale(LC_ALL_MASK, "C.UTF-8", NULL), old = uselocale(l);
    iconv_t c = iconv_open("UTF-16", "ISO-8859-15");
    char in[] = "gr\xfc\xdf", out[64], *i = in, *o = out;
    size_t left = 4, room = 64;
    long r = (long)iconv(c, &i, &left, &o, &room) + (long)room;
    iconv_close(c);
    uselocale(old), freelocale(l);
    struct passwd *p = getpwnam("root");
    r += p ? p->pw_uid : 1000;
    int n[200];
    for (int k = 0; k < 200; k++) n[k] = (k * 7919) % 211;
    qsort(n, 200, sizeof *n, compare);
    int key = n[77];
    r += bsearch(&key, n, 200, sizeof *n, compare) == &n[77];
    regex_t e;
    r += regcomp(&e, "^(a|b)*c$", REG_EXTENDED) + regexec(&e, "ababc", 0, NULL, 0);
    regfree(&e);
    void *tree = NULL;
    for (int k = 0; k < 200; k++) tsearch(&n[k], &tree, compare);
    for (int k = 0; k < 200; k++) tdelete(&n[k], &tree, compare);
    return (void *)r;
}
static ssize_t cookie_write(void *c, const char *b, size_t n) { words[7] += n; return n; }
static int services(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, libraries, NULL);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        printf("%ld\n", (long)r);
    }
    glob_t g;
    int globbed = glob("/etc/pass*d", 0, NULL, &g);
    printf("%d %d\n", globbed, (int)g.gl_pathc > 0);
    globfree(&g);
    ftw("/etc", walk, 10);
    printf("%d\n", walked);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; i < 1000; i++) fprintf(f, "%d,", i);
    fclose(f);
    printf("%zu %.10s\n", size, text);
    free(text);
    f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = cookie_write});
    for (int i = 0; i < 1000; i++) fprintf(f, "%d", i);
    fclose(f);
    printf("%ld\n", words[7]);
    fights();
    return 0;
}
/* Waiting for events, with a mask for the wait alone. */
static volatile sig_atomic_t came, stop;
static void count(int s) { came++; words[s]++; }
static void *kicks(void *to) {
    while (!stop) pthread_kill(*(pthread_t *)to, SIGUSR1), usleep(200);
    return NULL;
}
static int event_loop(void) {
    sigset_t m, old;
    sigemptyset(&m), sigaddset(&m, SIGUSR1), sigaddset(&m, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &m, &old);
    signal(SIGUSR1, count);
    int e = epoll_create1(EPOLL_CLOEXEC), t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK),
        ino = inotify_init1(IN_NONBLOCK), s[2];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s);
    int fds[] = {t, ino, s[0]};
    for (int i = 0; i < 3;
        i++) epoll_ctl(e, EPOLL_CTL_ADD, fds[i], &(struct epoll_event){.events = EPOLLIN | EPOLLET,
            .data.u32 = i});
    inotify_add_watch(ino, ".", IN_CREATE);
    timerfd_settime(t, 0, &(struct itimerspec){.it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1}, NULL);
    pthread_t me = pthread_self(), k;
    pthread_create(&k, NULL, kicks, &me);
    int ticks = 0, made = 0, got = 0, interrupted = 0;
    while (ticks < 50 || made < 10 || got < 1000 || !interrupted) {
        struct epoll_event v[4];
        int n = epoll_pwait(e, v, 4, 1000, &old);
        if (n < 0 && errno == EINTR) interrupted = 1;
        char b[4096];
        for (int i = 0; i < n; i++) {
            if (v[i].data.u32 == 0) { uint64_t x; if (read(t, &x, 8) == 8) ticks += x; }
            if (v[i].data.u32 == 1) while (read(ino, b, sizeof b) > 0) made++;
            if (v[i].data.u32 == 2) for (ssize_t r; (r = read(s[0], b, 100)) > 0;) got += r;
        }
        char name[20];
        snprintf(name, sizeof name, "f%d", made + ticks);
        if (made < 10) close(open(name, O_CREAT | O_WRONLY, 0600)), unlink(name);
        if (got < 1000) send(s[1], b, 100, MSG_NOSIGNAL);
    }
    stop = 1;
    pthread_join(k, NULL);
    fights();
    return 0;
}
/* Memory barriers of the kernel, memory that keeps its contents, protection keys. */
static int kernel_memory(void) {
    long q = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
    if (q > 0 && q & MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0);
        printf("%ld\n", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
    }
    int fd = memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (ftruncate(fd, 1 << 20)) return 1;
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    p[5] = 7;
    said(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    char *moved = mremap(p, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x500000000000);
    printf("%p %d\n", moved, moved[5]);
    munmap(moved, 1 << 20);
    printf("%d\n", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK));
    said(write(fd, "a", 1));
    char *a = mmap((void *)0x510000000000, 1 << 20, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    memset(a, 3, 1 << 20);
    char *b = mremap(a, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    printf("%d %d %d\n", a[9], b != MAP_FAILED ? b[9] : 3, madvise(b, 4096, MADV_FREE));
    printf("%d\n", mprotect(a, 4096, PROT_READ));
    int key = pkey_alloc(0, PKEY_DISABLE_WRITE);
    if (key >= 0) {
        signal(SIGSEGV, leave);
        pkey_mprotect(a + 8192, 4096, PROT_READ | PROT_WRITE, key);
        if (sigsetjmp(back, 1) == 0) { a[8192] = 1; printf("written\n"); }
        pkey_set(key, 0);
        a[8192] = 1;
        pkey_free(key);
    }
    unsigned char in[4];
    printf("%d\n", mincore(a + 65536, 4096, in));
    for (int i = 0; i < 5000; i++) free(malloc(i * 16));
    fights();
    fflush(stdout);
    pid_t c = fork();
    if (c == 0) fights(), _exit(3);
    ended("child", c);
    return 0;
}
/* Exits from handlers of exit in several threads, libraries' ends, thread-local destructors. */
static pthread_key_t key;
static void destroyed(void *v) { words[(long)v & 63]++; free(malloc(100));
    if ((long)v < 3) pthread_setspecific(key, (char *)v + 1); }
static void *exits(void *arg) { pthread_setspecific(key, (void *)1); fight(arg); pthread_exit(NULL); }
static void last(void) { pthread_t t; pthread_create(&t, NULL, exits, NULL); pthread_join(t, NULL);
    printf("last %ld\n", words[1]); }
static int late_threads(void) {
    pthread_key_create(&key, destroyed);
    atexit(last), atexit(last);
    pthread_t t;
    pthread_create(&t, NULL, exits, NULL);
    pthread_join(t, NULL);
    pthread_create(&t, NULL, exits, NULL);
    pthread_join(t, NULL);
    pthread_setspecific(key, (void *)1);
    pthread_exit(NULL);
}
/* What allocators tell about themselves. */
static int told_sizes(void) {
    for (int i = 0; i < 300; i += 7) {
        char *p = malloc(i), *q = aligned_alloc(64, 64 * (i + 1)), *r = realloc(malloc(10), i + 1);
        printf("%zu %zu %zu ", malloc_usable_size(p), malloc_usable_size(q) / 64, malloc_usable_size(r));
        free(p), free(q), free(r);
    }
    printf("%d %d %d\n", mallopt(M_MMAP_THRESHOLD, 4096), mallopt(M_ARENA_MAX, 1), mallopt(M_PERTURB, 0x55));
    unsigned char *p = malloc(200);
    printf("%x\n", p[150]);
    said(reallocarray(NULL, SIZE_MAX / 2, 3) == NULL);
    printf("%d\n", posix_memalign((void **)&p, 3, 10));
    printf("%d\n", posix_memalign((void **)&p, 4096, 10));
    printf("%d\n", ((uintptr_t)p & 4095) == 0);
    printf("%d %d\n", valloc(1) != NULL, pvalloc(1) != NULL);
    fights();
    return 0;
}
KINDS({"landlock", landlocked}, {"libc_threads", libc_threads}, {"nested_functions", nested_functions},
      {"made_code", made_code}, {"bus", bus}, {"system_v", system_v}, {"data_limit", data_limit},
      {"own_switches", own_switches}, {"crash_report", crash_report}, {"services", services}, {"event_loop",
          event_loop},
      {"kernel_memory", kernel_memory}, {"late_threads", late_threads}, {"told_sizes", told_sizes})
