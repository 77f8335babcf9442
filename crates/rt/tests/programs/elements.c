/* An array with one element per thread, the commonest case. FIXED: an element fills a line. */
#include "common.h"
struct worker {
    volatile long done;
    volatile long failed;
#ifdef FIXED
} __attribute__((aligned(64)));
#else
};
#endif
static struct worker *workers;
static long n;
static void *run(void *arg) {
    struct worker *w = &workers[(long)arg];
    for (long i = 0; i < n; i++) {
        w->done++;
        if (i % 16 == 0) w->failed++;
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 500000);
    workers = aligned_alloc(64, 4 * sizeof *workers + 256);
    memset(workers, 0, 4 * sizeof *workers);
    parallel(4, run);
    return 0;
}
