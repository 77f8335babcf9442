/* Two threads under a mutex, a reader-writer lock, a spin lock, and one lock inside of another. Between sections a
   thread makes 40 accesses of its own. A second argument: one thread only, killed inside of its last section. */
#include "common.h"
#include <signal.h>
static struct {
    pthread_mutex_t lock;
    volatile long a, b;
    volatile int c, d;
} shared __attribute__((aligned(64))) = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t inner __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw __attribute__((aligned(64))) = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin __attribute__((aligned(64)));
static struct {
    char pad[256];
    volatile long n;
    char more[248];
} own[2] __attribute__((aligned(64)));
static long n, dies;

static void think(long me) {
    for (int i = 0; i < 20; i++) own[me].n++;
}

static void *run(void *arg) {
    long me = (long)arg;
    for (long i = 0; i < n; i++) {
        pthread_mutex_lock(&shared.lock);
        shared.a++;
        if (dies && i == n - 1) kill(getpid(), SIGKILL);
        if (i % 4 == 0) {
            think(me);
            shared.b++;
        }
        pthread_mutex_unlock(&shared.lock);
        think(me);
        pthread_rwlock_rdlock(&rw);
        (void)shared.c;
        (void)shared.d;
        pthread_rwlock_unlock(&rw);
        think(me);
        if (i % 8 == 0) {
            pthread_spin_lock(&spin);
            pthread_mutex_lock(&inner);
            shared.c++;
            pthread_mutex_unlock(&inner);
            pthread_spin_unlock(&spin);
        }
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 10000);
    dies = argc > 2;
    pthread_spin_init(&spin, 0);
    parallel(dies ? 1 : 2, run);
    return 0;
}
