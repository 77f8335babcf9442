/* Threads, locks and everything that waits. */
#include "kinds.h"
#include <threads.h>

static long sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t all[8];
static void run(int n, void *(*f)(void *)) {
    for (long i = 0; i < n; i++) pthread_create(&all[i], NULL, f, (void *)i);
    for (int i = 0; i < n; i++) pthread_join(all[i], NULL);
}

static sem_t gone;
static void *detached_run(void *arg) {
    fight(arg);
    __atomic_fetch_add(&sum, 1, __ATOMIC_SEQ_CST);
    sem_post(&gone);
    return NULL;
}
static int detached(void) {
    pthread_t t;
    pthread_attr_t a;
    sem_init(&gone, 0, 0);
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 50; i++) pthread_create(&t, &a, detached_run, NULL);
    for (int i = 0; i < 50; i++) sem_wait(&gone);
    printf("%ld\n", sum);
    return 0;
}
static void cleanup(void *arg) { printf("cleanup %s\n", (char *)arg); }
static void *cancelled(void *arg) {
    int old;
    pthread_cleanup_push(cleanup, "outer");
    pthread_cleanup_push(cleanup, "inner");
    if (arg) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    fight(NULL);
    sem_post(&gone);
    if (arg)
        for (;;) pair[0]++;
    for (;;) pause();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}
static int cancel(void) {
    for (long kind = 0; kind < 2; kind++) {
        void *r = NULL;
        sem_init(&gone, 0, 0);
        pthread_create(&all[0], NULL, cancelled, (void *)kind);
        sem_wait(&gone);
        pthread_cancel(all[0]);
        pthread_join(all[0], &r);
        printf("%d\n", r == PTHREAD_CANCELED);
    }
    fights();
    return 0;
}
static pthread_mutex_t *shared_lock(int robust) {
    struct { pthread_mutex_t m; long n; } *s = mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    if (robust) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->m, &a);
    return &s->m;
}
static int robust(void) {
    pthread_mutex_t *m = shared_lock(1);
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        pthread_mutex_lock(m);
        fights();
        _exit(0);
    }
    ended("holder", p);
    int r = pthread_mutex_lock(m);
    printf("%s\n", strerror(r));
    printf("%d", pthread_mutex_consistent(m));
    printf(" %d\n", pthread_mutex_unlock(m));
    fflush(stdout);
    if ((p = fork()) == 0) {
        pthread_mutex_lock(m);
        _exit(0);
    }
    ended("second holder", p);
    /* Given back without being made consistent: it cannot be recovered, for anyone, ever. */
    printf("%d", pthread_mutex_lock(m));
    printf(" %d", pthread_mutex_unlock(m));
    for (int i = 0; i < 3; i++) printf(" %d", pthread_mutex_lock(m));
    printf(" %d\n", pthread_mutex_trylock(m));
    return 0;
}
static int process_shared(void) {
    pthread_mutex_t *m = shared_lock(0);
    volatile long *n = (long *)(m + 1);
    pid_t p[3];
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        if ((p[i] = fork()) == 0) {
            for (int k = 0; k < 3000; k++) {
                pthread_mutex_lock(m);
                ++*n;
                pthread_mutex_unlock(m);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) ended("sharer", p[i]);
    printf("%ld\n", *n);
    return 0;
}
static pthread_mutex_t typed;
static void *adds(void *arg) {
    (void)arg;
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&typed);
        sum++;
        pthread_mutex_unlock(&typed);
    }
    return NULL;
}
static int mutexes(void) {
    const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (int pi = 0; pi < 2; pi++)
        for (int i = 0; i < 4; i++) {
            pthread_mutexattr_t a;
            pthread_mutexattr_init(&a);
            pthread_mutexattr_settype(&a, types[i]);
            pthread_mutexattr_setprotocol(&a, pi ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
            pthread_mutex_init(&typed, &a);
            sum = 0;
            run(4, adds);
            printf("%ld", sum);
            pthread_mutex_lock(&typed);
            printf(" busy %d", pthread_mutex_destroy(&typed));
            if (types[i] == PTHREAD_MUTEX_RECURSIVE) printf(" again %d", pthread_mutex_lock(&typed));
            if (types[i] == PTHREAD_MUTEX_ERRORCHECK) printf(" again %d", pthread_mutex_lock(&typed));
            printf(" try %d", pthread_mutex_trylock(&typed));
            printf(" unlock %d\n", pthread_mutex_unlock(&typed));
        }
    return 0;
}
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static void *reads_writes(void *arg) {
    for (int i = 0; i < 3000; i++) {
        if (i % 8 == (long)arg) {
            pthread_rwlock_wrlock(&rw);
            sum++;
        } else {
            pthread_rwlock_rdlock(&rw);
            if (sum < 0) abort();
        }
        pthread_rwlock_unlock(&rw);
    }
    return NULL;
}
static int rwlocks(void) {
    run(4, reads_writes);
    printf("%ld\n", sum);
    pthread_rwlock_wrlock(&rw);
    printf("%d %d\n", pthread_rwlock_tryrdlock(&rw), pthread_rwlock_trywrlock(&rw));
    struct timespec past = {1, 0};
    printf("%d\n", pthread_rwlock_timedrdlock(&rw, &past));
    return 0;
}
static pthread_spinlock_t spin;
static pthread_barrier_t bar;
static void *spins(void *arg) {
    for (int i = 0; i < 200; i++) {
        pthread_spin_lock(&spin);
        sum += (long)arg;
        pthread_spin_unlock(&spin);
        if (i % 20 == 0 && pthread_barrier_wait(&bar) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&pair[0], 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
static int spin_barrier(void) {
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&bar, NULL, 4);
    run(4, spins);
    printf("%ld %ld\n", sum, pair[0]);
    printf("%d %d\n", pthread_spin_trylock(&spin), pthread_spin_trylock(&spin));
    printf("%d\n", pthread_barrier_destroy(&bar));
    return 0;
}
static mtx_t cm;
static cnd_t cc;
static once_flag once = ONCE_FLAG_INIT;
static _Thread_local long own = 7;
static tss_t key;
static void once_run(void) { puts("once"); }
static int c11_run(void *arg) {
    call_once(&once, once_run);
    tss_set(key, arg);
    own += (long)arg;
    mtx_lock(&cm);
    sum += own;
    cnd_broadcast(&cc);
    mtx_unlock(&cm);
    return (int)(long)arg;
}
static int c11(void) {
    thrd_t t[4];
    int r;
    mtx_init(&cm, mtx_plain);
    cnd_init(&cc);
    tss_create(&key, NULL);
    for (long i = 0; i < 4; i++) thrd_create(&t[i], c11_run, (void *)i);
    mtx_lock(&cm);
    while (sum < 4 * 7 + 6) cnd_wait(&cc, &cm);
    mtx_unlock(&cm);
    for (int i = 0; i < 4; i++) {
        thrd_join(t[i], &r);
        printf("%d ", r);
    }
    struct timespec past = {1, 0};
    mtx_lock(&cm);
    printf("%ld %ld %d\n", sum, own, cnd_timedwait(&cc, &cm, &past) == thrd_timedout);
    return 0;
}
static sem_t full, free_slots;
static int ring[4];
static void *produces(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        sem_wait(&free_slots);
        ring[i & 3] = i;
        sem_post(&full);
    }
    return NULL;
}
static int semaphores(void) {
    sem_init(&full, 0, 0);
    sem_init(&free_slots, 0, 4);
    pthread_create(&all[0], NULL, produces, NULL);
    for (int i = 0; i < 2000; i++) {
        sem_wait(&full);
        sum += ring[i & 3];
        sem_post(&free_slots);
    }
    pthread_join(all[0], NULL);
    struct timespec past = {1, 0};
    int r = sem_timedwait(&full, &past);
    printf("%ld %d %s\n", sum, r, strerror(errno));
    r = sem_trywait(&full);
    printf("%d %s\n", r, strerror(errno));
    char name[40];
    snprintf(name, sizeof name, "/tussle-kinds-%d", (int)getpid());
    sem_t *named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    sem_unlink(name);
    int taken = sem_wait(named), again = sem_trywait(named);
    printf("%d %d %d\n", taken, again, errno);
    sem_close(named);
    return 0;
}
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn;
static void *turns(void *arg) {
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 3 != (long)arg) pthread_cond_wait(&cond, &lock);
        turn++;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}
static int conditions(void) {
    run(3, turns);
    printf("%d\n", turn);
    pthread_condattr_t a;
    pthread_cond_t c;
    struct timespec past = {0, 1};
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&c, &a);
    pthread_mutex_lock(&lock);
    printf("%d\n", pthread_cond_timedwait(&c, &lock, &past));
    printf("%d\n", pthread_cond_clockwait(&c, &lock, CLOCK_REALTIME, &past));
    pthread_mutex_unlock(&lock);
    printf("%d %d %d\n", pthread_mutex_timedlock(&lock, &past), pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &past),
           pthread_cond_destroy(&c));
    return 0;
}
static pthread_key_t keys[3];
static void destroy(void *p) {
    fight(NULL);
    printf("destroyed %ld\n", (long)p);
    if ((long)p < 3) pthread_setspecific(keys[0], (void *)((long)p + 1));
}
static void *has_keys(void *arg) {
    (void)arg;
    pthread_setspecific(keys[0], (void *)1);
    free(malloc(100));
    return NULL;
}
static int key_destructors(void) {
    printf("%d\n", pthread_key_create(&keys[0], destroy));
    pthread_create(&all[0], NULL, has_keys, NULL);
    pthread_join(all[0], NULL);
    /* All keys that there are must be the program's. */
    pthread_key_t k;
    int n = 0;
    while (pthread_key_create(&k, NULL) == 0) n++;
    printf("%s\n", n > 1000 ? "nearly all keys" : "keys are missing");
    return 0;
}
static char stack[256 << 10] __attribute__((aligned(4096)));
static void *on_own_stack(void *arg) {
    char here;
    fight(arg);
    printf("%d\n", &here > stack && &here < stack + sizeof stack);
    return NULL;
}
static int own_stacks(void) {
    pthread_attr_t a;
    size_t n = 0;
    pthread_attr_init(&a);
    pthread_attr_setstack(&a, stack, sizeof stack);
    printf("%d\n", pthread_create(&all[0], &a, on_own_stack, NULL));
    pthread_join(all[0], NULL);
    pthread_attr_init(&a);
    printf("%d\n", pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
    pthread_create(&all[0], &a, fight, NULL);
    pthread_join(all[0], NULL);
    pthread_getattr_np(pthread_self(), &a);
    pthread_attr_getstacksize(&a, &n);
    printf("%zu MiB\n", (n + (1 << 19)) >> 20); /* some pages less, by chance */
    pthread_attr_init(&a); /* that was the main thread's own stack */
    pthread_attr_setstacksize(&a, 1ul << 48);
    printf("%d\n", pthread_create(&all[0], &a, fight, NULL));
    return 0;
}
static void *named(void *arg) {
    char name[16] = "";
    pthread_setname_np(pthread_self(), "a thread");
    fight(arg);
    pthread_getname_np(pthread_self(), name, sizeof name);
    return strdup(name);
}
static int naming(void) {
    void *r;
    pthread_create(&all[0], NULL, named, NULL);
    pthread_join(all[0], &r);
    printf("%s\n", (char *)r);
    printf("%d\n", pthread_setname_np(pthread_self(), "a name that is much too long"));
    return 0;
}
static int scheduling(void) {
    struct sched_param p = {0};
    cpu_set_t set;
    printf("%d\n", sched_setscheduler(0, SCHED_IDLE, &p));
    printf("%d\n", nice(5));
    fights();
    printf("%d %d\n", sched_getscheduler(0), sched_getcpu() >= 0);
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    printf("%d\n", sched_setaffinity(0, sizeof set, &set));
    fights();
    CPU_ZERO(&set);
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    printf("%d\n", CPU_COUNT(&set));
    return 0;
}
static void *quick(void *arg) { return arg; }
static int many(void) {
    for (int i = 0; i < 2000; i++) {
        pthread_t t;
        void *r;
        if (pthread_create(&t, NULL, quick, (void *)(long)i)) return 1;
        pthread_join(t, &r);
        sum += (long)r;
    }
    printf("%ld\n", sum);
    return 0;
}
static pthread_once_t ponce = PTHREAD_ONCE_INIT;
static void *onces(void *arg) {
    pthread_once(&ponce, once_run);
    return arg;
}
static int joins(void) {
    void *r = NULL;
    struct timespec past = {1, 0};
    run(4, onces);
    pthread_create(&all[0], NULL, cancelled, NULL);
    sem_wait(&gone);
    printf("%d %d\n", pthread_tryjoin_np(all[0], &r), pthread_timedjoin_np(all[0], &r, &past));
    pthread_cancel(all[0]);
    printf("%d\n", pthread_join(all[0], &r));
    printf("%d\n", pthread_join(pthread_self(), &r));
    return 0;
}
static pthread_key_t every[2000];
static int keys_made;
static long values_ended;
static void value_ends(void *value) { __atomic_fetch_add(&values_ended, 1, __ATOMIC_SEQ_CST); }
static void *sets_all(void *arg) {
    for (int i = 0; i < keys_made; i++)
        if (pthread_setspecific(every[i], &pair)) puts("not set");
    fight(arg);
    if (arg) pthread_exit(arg);
    return arg;
}
/* All keys that there are, by both names, while a thread runs that began before. */
static int every_key(void) {
    int n = 0, r;
    pthread_t before;
    pthread_create(&before, NULL, fight, NULL);
    while ((r = pthread_key_create(&every[n], value_ends)) == 0)
        if (++n <= 20) printf("key %u\n", every[n - 1]);
    keys_made = n;
    printf("%d keys, %s\n", n, strerror(r));
    run(4, sets_all);
    pthread_join(before, NULL);
    printf("%ld ended\n", values_ended);
    while (n) pthread_key_delete(every[--n]);
    while (tss_create((tss_t *)&every[n], value_ends) == thrd_success) n++;
    printf("%d of C11\n", n);
    return 0;
}
KINDS({"detached", detached}, {"cancel", cancel}, {"robust", robust}, {"process_shared", process_shared},
      {"mutexes", mutexes}, {"rwlocks", rwlocks}, {"spin_barrier", spin_barrier}, {"c11", c11},
      {"semaphores", semaphores}, {"conditions", conditions}, {"key_destructors", key_destructors},
      {"own_stacks", own_stacks}, {"names", naming}, {"scheduling", scheduling}, {"many", many}, {"joins", joins},
      {"every_key", every_key})
