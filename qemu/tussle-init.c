/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of the guest of `tussle record-kernel`: runs one workload with a fixed number of operations on
 * every CPU, each task bound to its own, between two marker instructions.
 *
 *   init ... tussle WORKLOAD TASKS OPERATIONS PAGES        mmap1 page_fault1 page_fault2 pft exec_storm fork_storm sem_ops
 *   init ... tussle run TASKS OPERATIONS PAGES COMMAND...  every task starts COMMAND that often and waits for it
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* A no-operation with a number in it that the plugin knows, nopl 0x747355NN(%rax,%rax); %rdi holds the time in ns. */
#define MARK(n, ns) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " #n ", 0x55, 0x73, 0x74" : : "D"(ns) : "memory")

enum { PAGE = 4096, FORK_PAGES = 16, TASKS_MAX = 64 };

static struct shared {
    int ready, go, done;
    int not_started; /* errno of an execv() that failed in a child */
} *shared;

static long tasks, operations, pages;
static char **command;
static int semaphore = -1, file = -1;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void fail(const char *what)
{
    if (errno)
        printf("tussle-init: failed: %s: %s\n", what, strerror(errno));
    else
        printf("tussle-init: failed: %s\n", what);
    fflush(stdout);
    tcdrain(1); /* the marker ends the machine at once */
    MARK(3, 0ll);
    for (;;)
        pause();
}

static char *map(long n)
{
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    char *at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static void do_mmap1(void)
{
    munmap(map(pages), pages * PAGE);
}

/* The share of one task: `pages` pages, written once each. */
static void touch(char *at)
{
    for (long i = 0; i < pages; i++)
        ((volatile char *)at)[i * PAGE] = 1;
}

static void do_page_fault(void)
{
    char *at = map(pages);
    touch(at);
    munmap(at, pages * PAGE);
}

static char *region;

static void do_pft(long task)
{
    char *at = region + task * pages * PAGE;
    touch(at);
    madvise(at, pages * PAGE, MADV_DONTNEED);
}

/* Waits for a child that must exit with 0; `name` is the program it runs, if any. */
static void await(pid_t child, const char *name)
{
    char why[256];
    int status;
    if (child < 0)
        fail("fork");
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    errno = __atomic_load_n(&shared->not_started, __ATOMIC_SEQ_CST);
    if (errno)
        snprintf(why, sizeof why, "cannot start %s", name);
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "%s was killed by signal %d (%s)", name, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(why, sizeof why, "%s exited with status %d", name, WEXITSTATUS(status));
    fail(why);
}

static void do_fork_storm(void)
{
    pid_t child = fork();
    if (child == 0) {
        char *at = mmap(NULL, FORK_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long i = 0; at != MAP_FAILED && i < FORK_PAGES; i++)
            ((volatile char *)at)[i * PAGE] = 1;
        _exit(at == MAP_FAILED);
    }
    await(child, "a forked child");
}

static void do_exec(char **argv)
{
    pid_t child = fork();
    if (child == 0) {
        execv(argv[0], argv);
        __atomic_store_n(&shared->not_started, errno, __ATOMIC_SEQ_CST);
        _exit(127);
    }
    await(child, argv[0]);
}

static void do_sem(void)
{
    for (int change = -1; change <= 1; change += 2) {
        struct sembuf operation = { 0, change, 0 };
        if (semop(semaphore, &operation, 1))
            fail("semop");
    }
}

static void one(const char *workload, long task)
{
    static char *true_argv[] = { "/bin/true", NULL };
    if (!strcmp(workload, "mmap1"))
        do_mmap1();
    else if (!strcmp(workload, "page_fault1") || !strcmp(workload, "page_fault2"))
        do_page_fault();
    else if (!strcmp(workload, "pft"))
        do_pft(task);
    else if (!strcmp(workload, "exec_storm"))
        do_exec(true_argv);
    else if (!strcmp(workload, "fork_storm"))
        do_fork_storm();
    else if (!strcmp(workload, "sem_ops"))
        do_sem();
    else if (!strcmp(workload, "run"))
        do_exec(command);
    else {
        errno = 0;
        fail("unknown workload");
    }
}

static const char *workload;

static void wait_for(int *counter, int value)
{
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < value)
        __builtin_ia32_pause();
}

static void *task(void *number)
{
    long me = (long)number;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(me, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
    one(workload, me);
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
    if (me == 0) {
        wait_for(&shared->ready, tasks);
        MARK(1, now_ns());
        for (int i = 0; i < 100; i++)
            __builtin_ia32_pause();
        __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
    }
    wait_for(&shared->go, 1);
    for (long i = 0; i < operations; i++)
        one(workload, me);
    __atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST);
    if (me == 0) {
        wait_for(&shared->done, tasks);
        MARK(2, now_ns());
    }
    for (;;)
        __builtin_ia32_pause();
    return NULL;
}

static void prepare(void)
{
    if (!strcmp(workload, "page_fault2")) {
        file = memfd_create("tussle", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, pages * PAGE))
            fail("memfd_create");
    }
    if (!strcmp(workload, "sem_ops")) {
        semaphore = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
        if (semaphore < 0 || semctl(semaphore, 0, SETVAL, 1))
            fail("semget");
    }
    if (!strcmp(workload, "pft")) {
        region = mmap(NULL, tasks * pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED)
            fail("mmap");
        madvise(region, tasks * pages * PAGE, MADV_NOHUGEPAGE);
    }
}

static bool uses_processes(void)
{
    return !strcmp(workload, "exec_storm") || !strcmp(workload, "fork_storm") || !strcmp(workload, "run") ||
           !strcmp(workload, "sem_ops");
}

int main(int argc, char **argv)
{
    const char *self = strrchr(argv[0], '/');
    if (self && !strcmp(self, "/true"))
        return 0;
    /* the kernel passes on what it does not know itself, ours comes behind a word of our own */
    while (argc > 1 && strcmp(argv[0], "tussle"))
        argc--, argv++;
    errno = 0;
    if (argc < 5)
        fail("usage");
    workload = argv[1];
    tasks = atol(argv[2]);
    operations = atol(argv[3]);
    pages = atol(argv[4]);
    command = argv + 5;
    if (tasks < 1 || tasks > TASKS_MAX || operations < 1 || pages < 1 || (!strcmp(workload, "run") && argc < 6))
        fail("usage");
    mkdir("/proc", 0555);
    mkdir("/sys", 0555);
    mkdir("/dev", 0755);
    mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    prepare();
    printf("tussle-init: %s with %ld tasks, %ld operations each\n", workload, tasks, operations);
    fflush(stdout);
    for (long t = 1; t < tasks; t++) {
        pthread_t thread;
        if (uses_processes()) {
            pid_t child = fork();
            if (child < 0)
                fail("fork");
            if (child == 0)
                task((void *)t);
        } else if (pthread_create(&thread, NULL, task, (void *)t)) {
            fail("pthread_create");
        }
    }
    task((void *)0);
}
