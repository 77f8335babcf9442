/* Ways of living, multiplying and dying. */
#include "kinds.h"
#include <spawn.h>
extern char **environ;

static void say(const char *s) { (void)!write(1, s, strlen(s)); }

__attribute__((constructor(101))) static void first(void) { say("constructor 101\n"); }
static pthread_t early;
static void *in_constructor(void *arg) {
    fight(arg);
    return (void *)5;
}
__attribute__((constructor(200))) static void second(void) {
    pthread_create(&early, NULL, in_constructor, NULL);
    say("constructor 200 with a thread\n");
}
__attribute__((destructor(101))) static void last(void) { say("destructor 101\n"); }
__attribute__((destructor(200))) static void before_last(void) { say("destructor 200\n"); }

static void at1(void) { say("atexit 1\n"); }
static void at2(void) { say("atexit 2\n"); }
static void quick(void) { say("at_quick_exit\n"); }
static void on(int status, void *arg) { printf("on_exit %d %s\n", status, (char *)arg); }

static void handlers(void) {
    void *r = NULL;
    pthread_join(early, &r);
    printf("early thread %ld\n", (long)r);
    atexit(at1);
    atexit(at2);
    on_exit(on, "arg");
    at_quick_exit(quick);
    fights();
}

static int returns(void) { handlers(); return 3; }
static int exits(void) { handlers(); exit(260); }
static int quick_exits(void) { handlers(); fflush(stdout); quick_exit(7); }
static int underscore(void) { handlers(); printf("lost in the buffer\n"); _exit(9); }
static int aborts(void) { handlers(); fflush(stdout); abort(); }
static int killed(void) { handlers(); fflush(stdout); kill(getpid(), SIGKILL); return 0; }
static int faults(void) { handlers(); fflush(stdout); *(volatile int *)8 = 1; return 0; }
static int traps(void) { fflush(stdout); __builtin_trap(); }
static volatile int one = 1, zero;
static int divides(void) { return one / zero; }

static void *slow(void *arg) {
    fight(arg);
    usleep(20000);
    say("last thread\n");
    return NULL;
}
static int thread_exit(void) {
    pthread_t t;
    pthread_create(&t, NULL, slow, NULL);
    pthread_detach(t);
    pthread_exit(NULL);
}
static void *exiting(void *arg) { fight(arg); exit(5); }
static int exit_in_thread(void) {
    pthread_t t;
    atexit(at1);
    pthread_create(&t, NULL, exiting, NULL);
    for (;;) pause();
}

static int depth_first(int depth) {
    fights();
    if (depth == 0) return 1;
    int sum = 1;
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t p = fork();
        if (p == 0) _exit(depth_first(depth - 1));
        int st = 0;
        waitpid(p, &st, 0);
        sum += WEXITSTATUS(st);
    }
    return sum;
}
static int tree(void) { printf("%d processes\n", depth_first(3)); return 0; }

static volatile int forks_done;
static void *forking(void *arg) {
    for (int i = 0; i < 5; i++) {
        pid_t p = fork();
        if (p == 0) { fight(arg); _exit(i); }
        int st = 0;
        waitpid(p, &st, 0);
        if (WEXITSTATUS(st) == i) __atomic_fetch_add(&forks_done, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
/* Forks while other threads allocate. */
static void *churns(void *arg) {
    (void)arg;
    while (__atomic_load_n(&forks_done, __ATOMIC_SEQ_CST) < 10) free(malloc(100 + (size_t)rand() % 1000));
    return NULL;
}
static int threads_fork(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, i < 2 ? forking : churns, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("%d\n", forks_done);
    return 0;
}

static int child(void) {
    fights();
    printf("child %s\n", getenv("KIND") ? getenv("KIND") : "-");
    return 4;
}
static int vforks(void) {
    pid_t p = vfork();
    if (p == 0) {
        execl("/proc/self/exe", "program", "child", NULL);
        _exit(1);
    }
    ended("vfork", p);
    p = vfork();
    if (p == 0) {
        execl("/nonexistent", "program", NULL);
        _exit(errno == ENOENT ? 21 : 22);
    }
    ended("vfork, exec fails", p);
    return 0;
}
static int spawns(void) {
    char *args[] = {"program", "child", NULL};
    char *env[] = {"KIND=spawned", NULL};
    pid_t p = 0;
    fights();
    printf("%d\n", posix_spawn(&p, "/proc/self/exe", NULL, NULL, args, environ));
    ended("spawn", p);
    printf("%d\n", posix_spawn(&p, "/nonexistent", NULL, NULL, args, environ));
    posix_spawn_file_actions_t a;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 1, "out.txt", O_CREAT | O_WRONLY, 0600);
    printf("%d\n", posix_spawnp(&p, "/proc/self/exe", &a, NULL, args, env));
    ended("spawnp", p);
    return 0;
}
static int chain(void) {
    fights();
    fflush(stdout);
    execl("/proc/self/exe", "program", "chain2", NULL);
    return 1;
}
static int chain2(void) {
    char *args[] = {"program", "child", NULL};
    char *env[] = {"KIND=chained", NULL};
    printf("second\n");
    fights();
    fflush(stdout);
    execve("/proc/self/exe", args, env);
    return 1;
}
static int family(void) {
    char *args[] = {"program", "child", NULL};
    char *env[] = {"KIND=named", NULL};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 8; i++) {
        fflush(stdout);
        pid_t p = fork();
        if (p == 0) {
            if (i == 0) execv("/proc/self/exe", args);
            if (i == 1) execvp("/proc/self/exe", args);
            if (i == 2) execvpe("/proc/self/exe", args, env);
            if (i == 3) execle("/proc/self/exe", "program", "child", NULL, env);
            if (i == 4) execlp("/proc/self/exe", "program", "child", "a", "b", "c", "d", "e", "f", NULL);
            if (i == 5) fexecve(fd, args, env);
            if (i == 6) execl("/proc/self/exe", "program", "child", NULL);
            if (i == 7) execveat(AT_FDCWD, "/proc/self/exe", args, env, 0);
            printf("%d %s\n", i, strerror(errno));
            _exit(77);
        }
        ended("exec", p);
    }
    errno = 0;
    printf("%d", execvp("nonexistent-program", args));
    printf(" %s\n", strerror(errno));
    return 0;
}
static int shells(void) {
    char line[100] = "";
    fights();
    printf("system %d\n", system("echo from the shell; exit 3"));
    FILE *f = popen("echo through a pipe; cat /nonexistent 2>/dev/null", "r");
    while (fgets(line, sizeof line, f)) printf("popen %s", line);
    printf("pclose %d\n", WEXITSTATUS(pclose(f)));
    return 0;
}
static int daemonises(void) {
    int fd[2];
    char c = 0;
    if (pipe(fd)) return 1;
    fights();
    pid_t p = fork();
    if (p == 0) {
        if (daemon(1, 1)) _exit(1);
        fights();
        (void)!write(fd[1], "d", 1);
        _exit(0);
    }
    close(fd[1]);
    printf("read %zd %c\n", read(fd[0], &c, 1), c);
    ended("first", p);
    return 0;
}
static int orphans(void) {
    int fd[2];
    char c = 0;
    if (pipe(fd)) return 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t p = fork();
    if (p == 0) {
        if (fork() == 0) {
            fights();
            (void)!write(fd[1], "o", 1);
            _exit(6);
        }
        _exit(0);
    }
    ended("parent of the orphan", p);
    printf("read %zd %c\n", read(fd[0], &c, 1), c);
    int st = 0;
    wait(&st);
    printf("orphan %d\n", WEXITSTATUS(st));
    return 0;
}
static int raw(void) {
    fights();
    pid_t p = (pid_t)syscall(SYS_fork);
    if (p == 0) { fight(NULL); _exit(3); }
    ended("raw fork", p);
    p = _Fork();
    if (p == 0) { fight(NULL); _exit(4); }
    ended("_Fork", p);
    return 0;
}
KINDS({"return", returns}, {"exit", exits}, {"quick_exit", quick_exits}, {"_exit", underscore}, {"abort", aborts},
      {"sigkill", killed}, {"segv", faults}, {"trap", traps}, {"divide", divides}, {"pthread_exit", thread_exit},
      {"exit_in_thread", exit_in_thread}, {"fork_tree", tree}, {"threads_fork", threads_fork}, {"child", child},
      {"vfork", vforks}, {"posix_spawn", spawns}, {"exec_chain", chain}, {"chain2", chain2}, {"exec_family", family},
      {"system_popen", shells}, {"daemon", daemonises}, {"orphan", orphans}, {"raw_fork", raw})
