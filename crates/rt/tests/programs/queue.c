/* A work queue: who does how much depends on scheduling. */
#include "common.h"
static struct {
    pthread_mutex_t lock;
    long head, tail;
    long items[1024];
} q = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct {
    volatile long done;
} workers[4] __attribute__((aligned(64)));
static long n;
static void *run(void *arg) {
    long me = (long)arg;
    for (;;) {
        pthread_mutex_lock(&q.lock);
        long item = q.head < n ? q.head++ : -1;
        pthread_mutex_unlock(&q.lock);
        if (item < 0) return NULL;
        for (int i = 0; i < 50; i++) workers[me].done++;
    }
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 40000);
    parallel(4, run);
    return 0;
}
