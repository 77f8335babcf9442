/* Two threads take turns at one line, a barrier between: hand-offs, not contention. COND: a barrier made by hand. */
#include "common.h"
static volatile long word;
static long n, phases;
#ifdef COND
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, generation;
static void turn(void) {
    pthread_mutex_lock(&m);
    int g = generation;
    if (++waiting == 2) {
        waiting = 0;
        generation++;
        pthread_cond_broadcast(&c);
    } else {
        while (g == generation) pthread_cond_wait(&c, &m);
    }
    pthread_mutex_unlock(&m);
}
#else
static pthread_barrier_t b;
static void turn(void) { pthread_barrier_wait(&b); }
#endif
static void *run(void *arg) {
    for (long p = 0; p < phases; p++) {
        if ((p & 1) == (long)arg)
            for (long i = 0; i < n; i++) word++;
        turn();
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 20000);
    phases = number(argc, argv, 2, 100);
#ifndef COND
    pthread_barrier_init(&b, NULL, 2);
#endif
    parallel(2, run);
    return 0;
}
