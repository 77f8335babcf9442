/* Ways of living and dying that a recorder must not disturb. The first argument picks one. */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile long pair[2] __attribute__((aligned(64)));
static void *work(void *arg) {
    for (long i = 0; i < 50000; i++) pair[(long)arg]++;
    return NULL;
}
static void *exits(void *arg) {
    work(arg);
    pthread_exit((void *)7);
}
static void *sleeps(void *arg) {
    work(arg);
    for (;;) pause();
}
static void *ends_process(void *arg) {
    work(arg);
    exit(5);
}
static volatile sig_atomic_t ticks;
static void tick(int s) {
    (void)s;
    pair[0]++;
    ticks++;
}
static jmp_buf jump;
static void deep(int n) {
    pair[0]++;
    if (n == 0) longjmp(jump, 1);
    deep(n - 1);
}
static int child(void) {
    parallel(2, work);
    return 3;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    pthread_t t;
    if (strcmp(how, "second") == 0) return child();
    parallel(2, work);
    if (strcmp(how, "fork") == 0) {
        pid_t p = fork();
        if (p == 0) return child();
        int st = 0;
        waitpid(p, &st, 0);
        return WEXITSTATUS(st) == 3 ? 11 : 12;
    }
    if (strcmp(how, "rawfork") == 0) {
        pid_t p = (pid_t)syscall(SYS_fork);
        if (p == 0) {
            work((void *)1);
            _exit(3);
        }
        int st = 0;
        waitpid(p, &st, 0);
        return WEXITSTATUS(st) == 3 ? 11 : 12;
    }
    if (strcmp(how, "vfork") == 0) {
        pid_t p = vfork();
        if (p == 0) {
            execl("/proc/self/exe", "behave", "second", NULL);
            _exit(1);
        }
        int st = 0;
        waitpid(p, &st, 0);
        return WEXITSTATUS(st) == 3 ? 11 : 12;
    }
    if (strcmp(how, "exec") == 0) execl("/proc/self/exe", "behave", "second", NULL);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "segv") == 0) *(volatile int *)8 = 1;
    if (strcmp(how, "kill") == 0) {
        pthread_create(&t, NULL, sleeps, (void *)1);
        usleep(20000);
        kill(getpid(), SIGKILL);
    }
    if (strcmp(how, "_exit") == 0) {
        pthread_create(&t, NULL, sleeps, (void *)1);
        usleep(20000);
        _exit(9);
    }
    if (strcmp(how, "pthread_exit") == 0) {
        void *r = NULL;
        pthread_create(&t, NULL, exits, (void *)1);
        pthread_join(t, &r);
        if (r != (void *)7) return 12;
        pthread_create(&t, NULL, work, (void *)1);
        pthread_detach(t);
        pthread_exit(NULL);
    }
    if (strcmp(how, "cancel") == 0) {
        void *r = NULL;
        pthread_create(&t, NULL, sleeps, (void *)1);
        usleep(20000);
        pthread_cancel(t);
        pthread_join(t, &r);
        return r == PTHREAD_CANCELED ? 11 : 12;
    }
    if (strcmp(how, "exit-in-thread") == 0) {
        pthread_create(&t, NULL, ends_process, (void *)1);
        pthread_join(t, NULL);
    }
    if (strcmp(how, "closefds") == 0) {
        for (int i = 0; i < 1024; i++) close(i);
        parallel(2, work);
        int fd = open("/dev/null", O_RDWR);
        return fd == 0 ? 11 : 12;
    }
    if (strcmp(how, "fsize") == 0) {
        struct rlimit r = {4096, 4096};
        setrlimit(RLIMIT_FSIZE, &r);
        char *big = malloc(32 << 20);
        for (long i = 0; i < 32 << 20; i += 64) big[i]++;
        parallel(2, work);
        return 11;
    }
    if (strcmp(how, "nomem") == 0) {
        char *big = malloc(64 << 20);
        for (long i = 0; i < 64 << 20; i += 64) big[i]++;
        parallel(2, work);
        return 11;
    }
    if (strcmp(how, "signals") == 0) {
        struct sigaction sa = {.sa_handler = tick};
        sigaction(SIGALRM, &sa, NULL);
        ualarm(1000, 1000);
        while (ticks < 50) pair[1]++;
        ualarm(0, 0);
        return 11;
    }
    if (strcmp(how, "longjmp") == 0) {
        for (int i = 0; i < 200; i++)
            if (setjmp(jump) == 0) deep(30);
        return 11;
    }
    if (strcmp(how, "errno") == 0) {
        errno = 77;
        char *p = malloc(100000);
        for (int i = 0; i < 100000; i += 64) p[i]++;
        parallel(1, work);
        free(p);
        return errno == 77 ? 11 : 12;
    }
    return 0;
}
