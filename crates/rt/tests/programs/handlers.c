/* Signals that come at any instruction of the recorder, and what handlers may do. The first argument picks a case, the
   second is how long it takes, in milliseconds, the third how often threads are stopped at least. */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static volatile long pair[2] __attribute__((aligned(64)));
static void *work(void *arg) {
    for (long i = 0; i < 50000; i++) pair[(long)arg]++;
    return NULL;
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static long until;
static int running(void) { return now_ms() < until; }
/* A busy machine takes longer to do enough. */
static int goes_on(int enough) { return running() || (!enough && now_ms() < until + 60000); }

/* As many lines, allocations and locks as keep the recorder busy. */
enum { LINES = 4096 };
static volatile long lines[LINES * 8];
enum { SEMS = 16384 };
static sem_t sems[SEMS];
static void busy(unsigned *seed) {
    *seed = *seed * 1664525 + 1013904223;
    unsigned r = *seed >> 8;
    for (int i = 0; i < 16; i++) lines[(r + i * 97) % LINES * 8]++;
    free(malloc(r % 700 + 1));
    sem_post(&sems[r % SEMS]);
    sem_trywait(&sems[r % SEMS]);
}

static void every_us(long us) {
    struct itimerval t = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &t, NULL);
}

/* Leaves by siglongjmp. The program's heap may be in use then, so there is none here. */
static sigjmp_buf jump;
static volatile sig_atomic_t armed, jumps;
static void leaps(int s) {
    (void)s;
    pair[1]++;
    if (armed) {
        armed = 0;
        jumps++;
        siglongjmp(jump, 1);
    }
}
static int siglongjmps(void) {
    struct sigaction sa = {.sa_handler = leaps};
    sigaction(SIGALRM, &sa, NULL);
    every_us(200);
    unsigned r = 1;
    while (goes_on(jumps > 100)) {
        sigsetjmp(jump, 1);
        armed = 1;
        for (int k = 0; k < 300; k++) {
            r = r * 1664525 + 1013904223;
            lines[(r >> 8) % LINES * 8]++;
            sem_post(&sems[(r >> 8) % SEMS]);
        }
        armed = 0;
    }
    every_us(0);
    return jumps > 100;
}

/* A collector's way: stops every thread by a signal, works while they stand, lets them go. */
enum { MUTATORS = 4 };
static sem_t stopped;
static pthread_t mutators[MUTATORS];
static atomic_int go_on = 1;
static void stop(int s) {
    (void)s;
    int errno_before = errno;
    sigset_t wait;
    sigfillset(&wait);
    sigdelset(&wait, SIGUSR2);
    lines[8]++;
    sem_post(&stopped);
    sigsuspend(&wait);
    errno = errno_before;
}
static void resume(int s) { (void)s; }
static void *mutator(void *arg) {
    unsigned seed = (unsigned)(long)arg;
    while (go_on) busy(&seed);
    return NULL;
}
static void *short_lived(void *arg) { return arg; }
static int stops_the_world(long stops_min) {
    struct sigaction sa = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigfillset(&sa.sa_mask);
    sigaction(SIGUSR1, &sa, NULL);
    sa.sa_handler = resume;
    sigaction(SIGUSR2, &sa, NULL);
    sem_init(&stopped, 0, 0);
    for (long i = 0; i < MUTATORS; i++) pthread_create(&mutators[i], NULL, mutator, (void *)(i + 1));
    long n = 0;
    for (; running() || n < stops_min; n++) {
        for (int i = 0; i < MUTATORS; i++) pthread_kill(mutators[i], SIGUSR1);
        for (int i = 0; i < MUTATORS; i++)
            while (sem_wait(&stopped)) {}
        /* The others stand: locks of the recorder must be free, those of the heap may not be. */
        unsigned r = (unsigned)n * 2654435761u;
        for (int i = 0; i < 200; i++) {
            r = r * 1664525 + 1013904223;
            lines[(r >> 8) % LINES * 8 + 1]++;
            sem_post(&sems[(r >> 8) % SEMS]);
        }
        for (int i = 0; i < MUTATORS; i++) pthread_kill(mutators[i], SIGUSR2);
        if (n % 64 == 0) {
            pthread_t t;
            pthread_create(&t, NULL, short_lived, NULL);
            pthread_join(t, NULL);
        }
    }
    go_on = 0;
    for (int i = 0; i < MUTATORS; i++) pthread_join(mutators[i], NULL);
    printf("stops %ld\n", n);
    return n >= stops_min;
}

/* Posts from a handler; a thread waits for as many. */
static sem_t posted;
static atomic_long posts, waits;
static void posts_sem(int s) {
    (void)s;
    posts++;
    sem_post(&posted);
}
static void *waiter(void *arg) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    while (go_on || waits < posts) {
        while (sem_wait(&posted)) {}
        waits++;
        pair[0]++;
    }
    return arg;
}
static int posts_from_a_handler(void) {
    pthread_t t;
    sem_init(&posted, 0, 0);
    pthread_create(&t, NULL, waiter, NULL);
    signal(SIGALRM, posts_sem);
    every_us(200);
    unsigned seed = 1;
    while (goes_on(posts > 100)) busy(&seed);
    every_us(0);
    go_on = 0;
    posts++;
    sem_post(&posted);
    pthread_join(t, NULL);
    return posts > 100 && waits == posts;
}

/* Queued signals keep their order and their values, wherever they come. */
static volatile long last_value, disorder;
static pthread_t target;
static void takes_value(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    if (i->si_value.sival_int != last_value + 1 || i->si_code != SI_QUEUE || i->si_errno) disorder++;
    last_value = i->si_value.sival_int;
}
static void *queues(void *arg) {
    long sent = 0;
    while (goes_on(sent > 1000)) {
        for (int i = 0; i < 3; i++)
            if (pthread_sigqueue(target, SIGRTMIN + 2, (union sigval){.sival_int = sent + 1}) == 0) sent++;
        usleep(50);
    }
    *(long *)arg = sent;
    go_on = 0;
    return NULL;
}
static int keeps_order(void) {
    pthread_t t;
    long sent = 0;
    struct sigaction a = {.sa_sigaction = takes_value, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 2, &a, NULL);
    target = pthread_self();
    pthread_create(&t, NULL, queues, &sent);
    unsigned seed = 3;
    while (go_on) busy(&seed);
    pthread_join(t, NULL);
    printf("disorder %ld\n", disorder);
    return sent > 1000 && disorder == 0 && last_value == sent;
}

/* A handler makes children: by vfork and exec, by fork, and one that exits from a handler of its own. */
static atomic_long children, good;
static const char *self;
static void leaves(int s) { _exit(s == SIGUSR1 ? 5 : 6); }
static void makes_children(int s) {
    (void)s;
    int errno_before = errno, status = 0;
    long n = children++;
    pid_t p = n % 2 ? vfork() : fork();
    if (p == 0 && n % 2) {
        execl(self, self, "exits", NULL);
        _exit(1);
    }
    if (p == 0) {
        signal(SIGUSR1, leaves);
        raise(SIGUSR1);
        _exit(1);
    }
    good += waitpid(p, &status, 0) == p && WIFEXITED(status) && WEXITSTATUS(status) == 5;
    errno = errno_before;
}
static int has_children(void) {
    signal(SIGALRM, makes_children);
    every_us(25000);
    unsigned r = 1;
    while (goes_on(children > 4)) {
        r = r * 1664525 + 1013904223;
        lines[(r >> 8) % LINES * 8]++;
        sem_post(&sems[(r >> 8) % SEMS]);
    }
    every_us(0);
    return children > 4 && good == children;
}

/* Cancelled at any instruction. */
static void *computes(void *arg) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    unsigned r = (unsigned)(long)arg;
    for (;;) {
        r = r * 1664525 + 1013904223;
        lines[(r >> 8) % LINES * 8]++;
        sem_post(&sems[(r >> 8) % SEMS]);
    }
}
static int is_cancelled_anywhere(void) {
    int n = 0;
    for (; running() || n < 10; n++) {
        pthread_t t[2];
        void *r[2];
        for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, computes, (void *)(n + i));
        usleep(1000 + n % 7 * 100);
        for (int i = 0; i < 2; i++) pthread_cancel(t[i]);
        for (int i = 0; i < 2; i++) pthread_join(t[i], &r[i]);
        if (r[0] != PTHREAD_CANCELED || r[1] != PTHREAD_CANCELED) return 0;
    }
    return 1;
}

/* Two priorities on one CPU: the higher one must not wait for ever for what the lower one holds. */
static void *high(void *arg) {
    unsigned seed = 7;
    while (running()) {
        struct timespec t = {0, 200000};
        nanosleep(&t, NULL);
        for (int i = 0; i < 20; i++) busy(&seed);
    }
    return arg;
}
static void *low(void *arg) {
    unsigned seed = 9;
    while (running()) busy(&seed);
    return arg;
}
static int has_priorities(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one)) return -1;
    pthread_t t[2];
    for (int i = 0; i < 2; i++) {
        pthread_attr_t a;
        struct sched_param p = {.sched_priority = 1 + i};
        pthread_attr_init(&a);
        pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&a, SCHED_FIFO);
        pthread_attr_setschedparam(&a, &p);
        if (pthread_create(&t[i], &a, i ? high : low, NULL)) {
            if (i) until = 0, pthread_join(t[0], NULL);
            return -1;
        }
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    return 1;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    until = now_ms() + (argc > 2 ? atol(argv[2]) : 500);
    self = argv[0];
    long stops = argc > 3 ? atol(argv[3]) : 100;
    int ok = 0;
    if (strcmp(how, "siglongjmp") == 0) ok = siglongjmps();
    if (strcmp(how, "stop") == 0) ok = stops_the_world(stops);
    if (strcmp(how, "sem_post") == 0) ok = posts_from_a_handler();
    if (strcmp(how, "exits") == 0) return 5;
    if (strcmp(how, "children") == 0) ok = has_children();
    if (strcmp(how, "queue") == 0) ok = keeps_order();
    if (strcmp(how, "cancel") == 0) ok = is_cancelled_anywhere();
    if (strcmp(how, "fifo") == 0) ok = has_priorities();
    if (ok < 0) {
        puts("no right to priorities");
        return 77;
    }
    parallel(2, work);
    puts(ok ? "ok" : "not ok");
    return ok ? 11 : 12;
}
