/* Libraries that stand between the program and libc. */
#include "kinds.h"
#include <dlfcn.h>
#include <malloc.h>
#include <mcheck.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>
#include "counted_calls.h"
/* The library's. */
extern long counted_calls[];
static long called[CALLS];
#define CALL(name, ...) (__atomic_fetch_add(&called[AT_##name], 1, __ATOMIC_RELAXED), name(__VA_ARGS__))
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static mtx_t mtx;
static cnd_t cnd;
static long total;
static int ready;
static struct timespec ago, far;
static void locks(void) {
    CALL(pthread_mutex_lock, &mutex), total++;
    CALL(pthread_cond_signal, &condition), CALL(pthread_mutex_unlock, &mutex);
    CALL(pthread_mutex_timedlock, &mutex, &far), total++;
    CALL(pthread_cond_timedwait, &condition, &mutex, &ago), CALL(pthread_mutex_unlock, &mutex);
    if (CALL(pthread_mutex_trylock, &mutex) == 0) CALL(pthread_mutex_unlock, &mutex);
    CALL(pthread_spin_lock, &spin), total++, CALL(pthread_spin_unlock, &spin);
    if (CALL(pthread_spin_trylock, &spin) == 0) CALL(pthread_spin_unlock, &spin);
    CALL(pthread_rwlock_rdlock, &rwlock), CALL(pthread_rwlock_unlock, &rwlock);
    CALL(pthread_rwlock_wrlock, &rwlock), total++, CALL(pthread_rwlock_unlock, &rwlock);
    CALL(pthread_rwlock_timedwrlock, &rwlock, &far), total++, CALL(pthread_rwlock_unlock, &rwlock);
    if (CALL(pthread_rwlock_trywrlock, &rwlock) == 0) CALL(pthread_rwlock_unlock, &rwlock);
    CALL(sem_wait, &semaphore), total++, CALL(sem_post, &semaphore);
    CALL(sem_timedwait, &semaphore, &far), total++, CALL(sem_post, &semaphore);
    if (CALL(sem_trywait, &semaphore) == 0) CALL(sem_post, &semaphore);
    CALL(mtx_lock, &mtx), total++, CALL(cnd_signal, &cnd), CALL(mtx_unlock, &mtx);
    if (CALL(mtx_trylock, &mtx) == thrd_success) CALL(mtx_unlock, &mtx);
}
static void *works(void *arg) {
    CALL(pthread_mutex_lock, &mutex);
    while (!ready) CALL(pthread_cond_wait, &condition, &mutex);
    CALL(pthread_mutex_unlock, &mutex);
    for (int i = 0; i < 500; i++) locks();
    return arg;
}
static int counted(void) {
    long *seen = counted_calls;
    sem_init(&semaphore, 0, 1), pthread_spin_init(&spin, 0), mtx_init(&mtx, mtx_plain), cnd_init(&cnd);
    far.tv_sec = time(NULL) + 1000;
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, works, NULL);
    usleep(20000);
    CALL(pthread_mutex_lock, &mutex), ready = 1;
    CALL(pthread_cond_broadcast, &condition), CALL(pthread_mutex_unlock, &mutex);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
#define PRINT(name) printf("%s %s\n", #name, called[AT_##name] && called[AT_##name] == seen[AT_##name] ? "all" : "differ");
    COUNTED(PRINT)
    printf("%d\n", total == 0 ? 0 : 1);
    return 0;
}
/* Begins again with a library in front of libc. */
static int again(const char *name, const char *library, const char *tunables) {
    if (getenv("LD_PRELOAD")) return 0;
    void *found = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!found && !dlopen(library, RTLD_LAZY)) {
        printf("no %s here\n", library);
        exit(77);
    }
    setenv("LD_PRELOAD", library, 1);
    if (tunables) setenv("GLIBC_TUNABLES", tunables, 1);
    execl("/proc/self/exe", "program", name, NULL);
    return 1;
}
static int traced(void) {
    if (again("traced", "libc_malloc_debug.so.0", NULL)) return 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    char log[] = "/tmp/tussle-traceXXXXXX";
    close(mkstemp(log)), setenv("MALLOC_TRACE", log, 1);
    mtrace();
    for (int i = 0; i < 10; i++) {
        void *volatile p = malloc(1000 + i);
        if (i % 2) p = realloc(p, 3000);
        free(p);
    }
    muntrace();
    FILE *f = fopen(log, "r");
    char line[500];
    int found[3] = {0};
    while (f && fgets(line, sizeof line, f))
        for (int i = 0; i < 3; i++) found[i] += strstr(line, (const char *[]){" + 0x", " - 0x", " > 0x"}[i]) != NULL;
    unlink(log);
    printf("%d %d %d\n", found[0], found[1], found[2]);
    return 0;
}
static int checked(void) {
    if (again("checked", "libc_malloc_debug.so.0", "glibc.malloc.check=3")) return 1;
    char *volatile p = malloc(10);
    volatile int behind = 10;
    for (int i = 0; i < 8; i++) p[behind + i] = 7;
    free(p);
    puts("not noticed");
    return 0;
}
KINDS({"counted", counted}, {"traced", traced}, {"checked", checked})
