/* Beyond the recorder's limits: two threads take one lock, under which every fourth section visits more words
   than are kept, and then 6,000 locks in turn. */
#include "common.h"
enum { LOCKS = 6000 };
static struct {
    pthread_mutex_t lock;
    volatile long n;
} many[LOCKS];
static struct {
    pthread_mutex_t lock;
    volatile long a, b;
} one __attribute__((aligned(64))) = {.lock = PTHREAD_MUTEX_INITIALIZER};
static long n;

static void *run(void *arg) {
    (void)arg;
    for (long i = 0; i < 1000; i++) {
        pthread_mutex_lock(&one.lock);
        for (long k = 0; k < (i % 4 ? 1 : 100); k++) one.a++, one.b++;
        pthread_mutex_unlock(&one.lock);
    }
    for (long i = 0; i < n * LOCKS; i++) {
        pthread_mutex_lock(&many[i % LOCKS].lock);
        many[i % LOCKS].n++;
        pthread_mutex_unlock(&many[i % LOCKS].lock);
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 10);
    for (long i = 0; i < LOCKS; i++) pthread_mutex_init(&many[i].lock, NULL);
    parallel(2, run);
    return 0;
}
