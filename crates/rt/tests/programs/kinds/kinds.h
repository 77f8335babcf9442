/* What the programs of kinds have in common: the first argument picks one of a table of functions. */
#ifndef KINDS_H
#define KINDS_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct kind {
    const char *name;
    int (*run)(void);
};

/* Two words that threads fight over, so that there is something to record. */
static volatile long pair[2] __attribute__((aligned(64)));
__attribute__((unused)) static void *fight(void *arg) {
    for (long i = 0; i < 5000; i++) pair[(long)arg & 1]++;
    return NULL;
}
__attribute__((unused)) static void fights(void) {
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, fight, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}
/* Waits and tells how a child ended. */
__attribute__((unused)) static void ended(const char *what, pid_t p) {
    int st = 0;
    if (waitpid(p, &st, 0) != p) printf("%s: waitpid: %s\n", what, strerror(errno));
    if (WIFEXITED(st)) printf("%s: exited %d\n", what, WEXITSTATUS(st));
    if (WIFSIGNALED(st)) printf("%s: signal %d\n", what, WTERMSIG(st));
    fflush(stdout);
}

#define KINDS(...)                                                          \
    int main(int argc, char **argv) {                                       \
        const struct kind all[] = {__VA_ARGS__};                            \
        for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)           \
            if (argc > 1 && strcmp(argv[1], all[i].name) == 0) return all[i].run(); \
        fprintf(stderr, "no such kind\n");                                  \
        return 99;                                                          \
    }
#endif
