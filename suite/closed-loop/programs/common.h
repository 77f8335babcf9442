/* What all programs of the closed loop share: two threads, work of a known kind and length, and one switch between the
   two layouts. THINK_NS and SECTION_NS are nominal (rounds of a multiplication at some 3 GHz): the prediction is not
   told, the measurement does not need it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef THINK_NS
#define THINK_NS 100
#endif
#ifndef SECTION_NS
#define SECTION_NS 0
#endif
#ifdef FIXED
#define APART _Alignas(64)
#else
#define APART
#endif

/* Every step waits for the one before it. */
static inline uint64_t chain(uint64_t x, unsigned rounds) {
    for (; rounds; rounds--) {
        x = x * 0x9e3779b97f4a7c15u + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Eight that wait for nothing but themselves. */
static inline void apart(unsigned rounds) {
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    for (; rounds; rounds--) {
        a *= 3; b *= 3; c *= 3; d *= 3; e *= 3; f *= 3; g *= 3; h *= 3;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    }
}

#ifdef INDEPENDENT
#define WORK(ns) apart((ns) * 10 / 27)
#else
#define WORK(ns) x = chain(x, (ns) * 10 / 13)
#endif

static long operations;

/* Runs two threads and prints something that depends on what they did. */
static void two(void *(*first)(void *), void *one, void *(*second)(void *), void *other, int argc, char **argv) {
    operations = argc > 1 ? atol(argv[1]) : 100000;
    pthread_t threads[2];
    void *got[2];
    pthread_create(&threads[0], 0, first, one);
    pthread_create(&threads[1], 0, second, other);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &got[i]);
    printf("%d\n", (int)((uintptr_t)got[0] ^ (uintptr_t)got[1]) & 1);
}
