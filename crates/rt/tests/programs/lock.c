/* A lock that few take beside data that many read. FIXED: the lock has its own line. */
#include "common.h"
static struct {
    pthread_mutex_t lock;
#ifdef FIXED
    char pad[128 - sizeof(pthread_mutex_t)];
#endif
    volatile long settings[2];
    char tail[64];
} shared __attribute__((aligned(128))) = {.lock = PTHREAD_MUTEX_INITIALIZER};
static long n;
static volatile long sums[4][32];
static void *run(void *arg) {
    long me = (long)arg;
    for (long i = 0; i < n; i++) {
        if (me == 0) {
            pthread_mutex_lock(&shared.lock);
            pthread_mutex_unlock(&shared.lock);
        } else {
            sums[me][0] += shared.settings[i & 1];
        }
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 200000);
    parallel(3, run);
    return 0;
}
