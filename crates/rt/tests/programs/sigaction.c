/* Prints what the program learns about its own handlers: recorded and not, the output must be the same. */
#define _GNU_SOURCE
#include "common.h"
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile sig_atomic_t calls, depth, depth_max;
static void plain(int s) { calls += s; }
static void other(int s) { calls += 100 * s; }
static void (*last_action)(int, siginfo_t *, void *);
static volatile int values[64], values_count;
static volatile unsigned long blocked_inside, blocked_before;
static void full(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    values[values_count++ & 63] = i->si_value.sival_int;
    sigset_t inside;
    sigprocmask(SIG_BLOCK, NULL, &inside);
    blocked_inside = *(unsigned long *)&inside;
    blocked_before = *(unsigned long *)&u->uc_sigmask;
    calls += s + (i->si_signo == s) * 1000 + (u->uc_mcontext.gregs[REG_RIP] != 0) * 10000;
}
static void nests(int s) {
    if (++depth > depth_max) depth_max = depth;
    if (depth < 3) raise(s);
    depth--;
}
static const char *name(void *h) {
    if (h == (void *)SIG_DFL) return "default";
    if (h == (void *)SIG_IGN) return "ignored";
    if (h == (void *)SIG_HOLD) return "held";
    if (h == (void *)SIG_ERR) return "error";
    if (h == (void *)plain) return "plain";
    if (h == (void *)other) return "other";
    if (h == (void *)full) return "full";
    if (h == (void *)nests) return "nests";
    return "WRONG";
}
static void show(const char *when, int sig) {
    struct sigaction a;
    int r = sigaction(sig, NULL, &a);
    printf("%s: %d %s flags %x mask %lx calls %d\n", when, r, name((void *)a.sa_handler), a.sa_flags & ~0x04000000,
           *(unsigned long *)&a.sa_mask, (int)calls);
}

int main(void) {
    struct sigaction a = {.sa_handler = plain, .sa_flags = SA_RESTART}, old;
    show("begin", SIGUSR1);
    sigaddset(&a.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &a, &old);
    printf("old %s\n", name((void *)old.sa_handler));
    show("plain", SIGUSR1);
    raise(SIGUSR1);
    show("raised", SIGUSR1);
    a.sa_handler = other;
    a.sa_flags = SA_RESETHAND;
    /* One structure for both. */
    sigaction(SIGUSR1, &a, &a);
    printf("old %s flags %x\n", name((void *)a.sa_handler), a.sa_flags & ~0x04000000);
    show("reset", SIGUSR1);
    raise(SIGUSR1);
    show("after reset", SIGUSR1);
    printf("signal %s\n", name((void *)signal(SIGUSR1, plain)));
    show("bsd", SIGUSR1);
    printf("signal %s\n", name((void *)signal(SIGUSR1, SIG_IGN)));
    raise(SIGUSR1);
    printf("signal %s\n", name((void *)signal(SIGUSR1, SIG_DFL)));
    siginterrupt(SIGUSR1, 1);
    printf("signal %s\n", name((void *)signal(SIGUSR1, plain)));
    show("interrupts", SIGUSR1);
    siginterrupt(SIGUSR1, 0);
    show("restarts", SIGUSR1);
    printf("sysv %s\n", name((void *)sysv_signal(SIGUSR2, other)));
    show("sysv", SIGUSR2);
    raise(SIGUSR2);
    show("sysv raised", SIGUSR2);
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    sigprocmask(SIG_BLOCK, &block, NULL);
    printf("sigset %s\n", name((void *)sigset(SIGUSR2, plain)));
    printf("sigset %s\n", name((void *)sigset(SIGUSR2, other)));
    printf("sigset %s\n", name((void *)sigset(SIGUSR2, SIG_HOLD)));
    printf("sigset %s\n", name((void *)sigset(SIGUSR2, SIG_DFL)));
    printf("bad %s", name((void *)signal(SIGKILL, plain)));
    printf(" %s %d\n", name((void *)signal(65, plain)), sigaction(SIGSTOP, &a, NULL));
    struct sigaction f = {.sa_sigaction = full, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int rt = SIGRTMIN + 1;
    sigaction(rt, &f, NULL);
    show("full", rt);
    sigemptyset(&block);
    sigaddset(&block, rt);
    sigprocmask(SIG_SETMASK, &block, NULL);
    for (int i = 1; i <= 5; i++) sigqueue(getpid(), rt, (union sigval){.sival_int = i});
    sigemptyset(&block);
    sigprocmask(SIG_SETMASK, &block, NULL);
    printf("values %d %d %d %d %d of %d\n", values[0], values[1], values[2], values[3], values[4], values_count);
    printf("blocked %d inside %d\n", blocked_before == 0, blocked_inside == 1ul << (rt - 1));
    struct sigaction n = {.sa_handler = nests, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &n, NULL);
    raise(SIGUSR1);
    printf("depth %d\n", (int)depth_max);
    show("nests", SIGUSR1);
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        show("child", SIGUSR1);
        fflush(stdout);
        signal(SIGUSR1, SIG_DFL);
        raise(SIGUSR1);
        _exit(1);
    }
    int status;
    waitpid(p, &status, 0);
    printf("child ended by %d\n", WTERMSIG(status));
    return 0;
}
