/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of the guest of `tussle record-kernel`: runs one workload with a fixed number of operations on
 * every CPU, each task bound to its own, between two marker instructions.
 *
 * What to do comes from the emulator's firmware configuration device, entry opt/tussle, words that end in a NUL each, and
 * NULs up to a size that is always the same:
 *
 *   WORKLOAD TASKS OPERATIONS PAGES        mmap1 page_fault1 page_fault2 pft exec_storm fork_storm sem_ops
 *   run TASKS OPERATIONS PAGES COMMAND...  every task starts COMMAND that often and waits for it
 *   threads 1 OPERATIONS PAGES COMMAND...  COMMAND brings its own threads: the one task is not bound to a CPU
 *   disk FILE-SYSTEM and any of these      all files are moved to the disk first, and this program starts there again
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/sem.h>
#include <sys/socket.h>
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
static bool on_disk;

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
        /* Nobody types into the console. */
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing > 0)
            dup2(nothing, 0);
        execvp(argv[0], argv);
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

static const char *workload;

/* "threads" differs in that its task may run on any CPU. */
static bool runs_command(void)
{
    return !strcmp(workload, "run") || !strcmp(workload, "threads");
}

static void one(long task)
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
    else if (runs_command())
        do_exec(command);
    else {
        errno = 0;
        fail("unknown workload");
    }
}

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
    if (strcmp(workload, "threads") && sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
    one(me);
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
        one(me);
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
        file = on_disk ? open("/tmp/tussle", O_RDWR | O_CREAT | O_CLOEXEC, 0600) : memfd_create("tussle", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, pages * PAGE))
            fail("a file");
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
    return !strcmp(workload, "exec_storm") || !strcmp(workload, "fork_storm") || runs_command() ||
           !strcmp(workload, "sem_ops");
}

/* ---- words from the emulator (docs/specs/fw_cfg of QEMU: selector at port 0x510, bytes at 0x511) ---- */

enum { SELECTOR = 0x510, DIRECTORY = 0x19, WORDS = 64 };

static void read_bytes(void *to, long n)
{
    for (long i = 0; i < n; i++)
        ((unsigned char *)to)[i] = inb(SELECTOR + 1);
}

/* Reads the entry into `text` and returns its length; 0 when there is none or it is too long. */
static long read_entry(char *text, long bytes)
{
    uint32_t count;
    struct { uint32_t size; uint16_t key, zero; char name[56]; } file;
    outw(DIRECTORY, SELECTOR);
    read_bytes(&count, sizeof count);
    count = __builtin_bswap32(count);
    for (uint32_t i = 0; i < count && i < 256; i++) {
        read_bytes(&file, sizeof file);
        if (strncmp(file.name, "opt/tussle", sizeof file.name))
            continue;
        long n = __builtin_bswap32(file.size);
        if (n > bytes)
            return 0;
        outw(__builtin_bswap16(file.key), SELECTOR);
        read_bytes(text, n);
        return n;
    }
    return 0;
}

static int read_words(char **words)
{
    static char text[4096];
    int used = 0;
    if (ioperm(SELECTOR, 2, 1))
        fail("ioperm");
    long n = read_entry(text, sizeof text);
    if (!n || text[n - 1])
        return 0;
    for (char *at = text; at < text + n && *at && used < WORDS; at += strlen(at) + 1)
        words[used++] = at;
    return used;
}

/* A snapshot is taken at the first marker. This vCPU alone is busy until the second, so it does not matter where the
   emulator, just restored, interrupts it; then it is quiet, and that all sleep makes the vCPUs' turns begin anew. */
static int words_after_snapshot(char **words)
{
    const struct timespec moment = { 0, 1000000 };
    MARK(4, 0ll);
    int n = read_words(words);
    MARK(5, 0ll);
    for (int i = 0; i < 5; i++)
        nanosleep(&moment, NULL);
    return n;
}

static void mounts(void)
{
    mkdir("/proc", 0555);
    mkdir("/sys", 0555);
    mkdir("/dev", 0755);
    mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
}

/* ---- the disk ---- */

#define DISK "/dev/nvme0n1"
#define AT "/disk"

enum { TICK_NS = 10000000, TICKS_MAX = 1000, COPY_BYTES = 1 << 16 };

static void copy_bytes(const char *from, const char *to, mode_t mode)
{
    static char buffer[COPY_BYTES];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;
    if (in < 0 || out < 0)
        fail(from);
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, n) != n)
            fail(to);
    if (n < 0 || fchmod(out, mode) || close(out))
        fail(to);
    close(in);
    unlink(from); /* the memory of what is copied is free for the next one */
}

static int copy(const char *from, const struct stat *s, int kind, struct FTW *where)
{
    char to[sizeof AT + 4096], target[4096];
    ssize_t n;
    (void)where;
    snprintf(to, sizeof to, AT "%s", from);
    if (kind == FTW_F && S_ISREG(s->st_mode))
        copy_bytes(from, to, s->st_mode);
    else if (kind == FTW_D && mkdir(to, s->st_mode) && errno != EEXIST)
        fail(to);
    else if (kind == FTW_SL && (n = readlink(from, target, sizeof target - 1)) > 0) {
        target[n] = 0;
        if (symlink(target, to))
            fail(to);
    }
    return 0;
}

/* Mounts the disk, moves all files there, and makes it the root. */
static void move_to_disk(const char *file_system)
{
    static const char *const mounted[] = { "/proc", "/sys", "/dev" };
    const struct timespec tick = { 0, TICK_NS };
    char to[64];
    /* The driver looks for disks while init already runs. */
    for (int i = 0; access(DISK, F_OK) && i < TICKS_MAX; i++)
        nanosleep(&tick, NULL);
    mkdir(AT, 0755);
    if (mount(DISK, AT, file_system, 0, NULL))
        fail("disk: mounting " DISK);
    if (nftw("/", copy, 16, FTW_PHYS | FTW_MOUNT))
        fail("disk: copying files");
    for (int i = 0; i < 3; i++) {
        snprintf(to, sizeof to, AT "%s", mounted[i]);
        if ((mkdir(to, 0755) && errno != EEXIST) || mount(mounted[i], to, NULL, MS_MOVE, NULL))
            fail(to);
    }
    if (chdir(AT) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
        fail("disk: making it the root");
    chdir("/");
    sync();
}

static void more_mounts(void)
{
    mkdir("/dev/pts", 0755);
    mkdir("/dev/shm", 01777);
    mount("devpts", "/dev/pts", "devpts", 0, NULL);
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
}

/* Programs that talk to themselves find 127.0.0.1. */
static void loopback_up(void)
{
    struct ifreq lo = { .ifr_name = "lo" };
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0)
        return;
    if (!ioctl(s, SIOCGIFFLAGS, &lo)) {
        lo.ifr_flags |= IFF_UP | IFF_RUNNING;
        ioctl(s, SIOCSIFFLAGS, &lo);
    }
    close(s);
}

static void parse(char **words, int n)
{
    errno = 0;
    if (n < 4)
        fail("usage");
    workload = words[0];
    tasks = atol(words[1]);
    operations = atol(words[2]);
    pages = atol(words[3]);
    command = words + 4;
    if (tasks < 1 || tasks > TASKS_MAX || operations < 1 || pages < 1 || (runs_command() && n < 5))
        fail("usage");
}

/* What to do, as told from outside; with a disk by this program again, whose own file then lies there, too. */
static void learn(int argc, char **argv)
{
    static char *words[WORDS + 3];
    static char again[] = "on-disk";
    on_disk = argc > 1 && !strcmp(argv[1], again);
    if (on_disk) {
        parse(argv + 2, argc - 2);
        return;
    }
    mounts();
    printf("tussle-init: up\n");
    fflush(stdout);
    tcdrain(1);
    int n = words_after_snapshot(words);
    if (n > 2 && !strcmp(words[0], "disk")) {
        move_to_disk(words[1]);
        words[0] = argv[0];
        words[1] = again;
        execv("/init", words);
        fail("starting again");
    }
    parse(words, n);
}

int main(int argc, char **argv)
{
    const char *self = strrchr(argv[0], '/');
    if (self && !strcmp(self, "/true"))
        return 0;
    learn(argc, argv);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    if (runs_command()) {
        more_mounts();
        loopback_up();
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
    }
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
