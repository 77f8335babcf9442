/* The shape of a published case of false sharing: every thread adds up five sums in its own element of one array, whose
   elements are smaller than a cache line (linear regression; Liu and Liu, "Cheetah", CGO 2016). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct pair {
    signed char x, y;
};

struct part {
    pthread_t thread;
    const struct pair *from;
    long count;
    long long x, y, xx, yy, xy;
};

static void *add_up(void *arg) {
    struct part *p = arg;
    for (long i = 0; i < p->count; i++) {
        long long x = p->from[i].x, y = p->from[i].y;
        p->x += x;
        p->xx += x * x;
        p->y += y;
        p->yy += y * y;
        p->xy += x * y;
        /* The published program was compiled so that its sums stayed in memory. */
        __asm__ volatile("" ::: "memory");
    }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    long all = 800000;
    struct pair *pairs = malloc(all * sizeof *pairs);
    struct part *parts = calloc(threads, sizeof *parts);
    if (threads < 1 || !pairs || !parts) return 1;
    for (long i = 0; i < all; i++) pairs[i] = (struct pair){i, i * 3};
    for (int t = 0; t < threads; t++) {
        parts[t].from = pairs + all / threads * t;
        parts[t].count = all / threads;
        pthread_create(&parts[t].thread, 0, add_up, &parts[t]);
    }
    for (int t = 0; t < threads; t++) pthread_join(parts[t].thread, 0);
    printf("%lld\n", parts[0].x + parts[threads - 1].xy);
    return 0;
}
