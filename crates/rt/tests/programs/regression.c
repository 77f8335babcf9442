/* Linear regression: per-thread sums in an array of 64-byte elements whose base the allocator chooses. OFFSET moves it. */
#include "common.h"
#ifndef OFFSET
#define OFFSET 0
#endif
struct sums {
    void *points;
    volatile long count, sx, sy, sxx, syy, sxy;
    long pad;
};
static struct sums *args;
static long n;
static void *run(void *arg) {
    struct sums *s = &args[(long)arg];
    for (long i = 0; i < n; i++) {
        s->sx += i;
        s->sxx += i * i;
        s->sy += i;
        s->syy += i;
        s->sxy += i;
    }
    return NULL;
}
int main(int argc, char **argv) {
    n = number(argc, argv, 1, 100000);
    char *room = aligned_alloc(64, 4 * sizeof *args + 64);
    memset(room, 0, 4 * sizeof *args + 64);
    args = (struct sums *)(room + OFFSET);
    parallel(4, run);
    return 0;
}
