/* What all drawn programs share: two threads, and work of kinds that the programs of the loop do not have. Lengths are
   nominal: the prediction is not told, the measurement does not need it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

#ifdef FIXED
#define APART _Alignas(64)
#else
#define APART
#endif

/* What a thread has for itself. */
struct own {
    uint64_t x;
    double y;
    uint32_t table[1024];
};

static long operations[2];

/* Divisions, each of the one before it. */
static inline void divide(struct own *o, unsigned rounds) {
    for (; rounds; rounds--) {
        o->x = 0xfedcba9876543210u / (o->x | 1) + rounds;
        __asm__ volatile("" : "+r"(o->x));
    }
}

/* A sum of products that goes on from its last term. */
static inline void multiply(struct own *o, unsigned rounds) {
    double y = o->y;
    for (; rounds; rounds--) {
        y = y * 0.999 + 1.0;
        __asm__ volatile("" : "+x"(y));
    }
    o->y = y;
}

/* From entry to entry of a table of the thread's own. */
static inline void chase(struct own *o, unsigned rounds) {
    uint32_t at = (uint32_t)o->x & 1023;
    for (; rounds; rounds--)
        at = o->table[at];
    o->x = at;
}

/* The entries one after another: nothing waits. */
static inline void gather(struct own *o, unsigned rounds) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < rounds; i++) {
        sum += o->table[i & 1023];
        __asm__ volatile("" : "+r"(sum));
    }
    o->x += sum & 1;
}

/* A branch that nobody foresees. */
static inline void wander(struct own *o, unsigned rounds) {
    uint64_t x = o->x | 1;
    for (; rounds; rounds--) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if (x & 1)
            __asm__ volatile("" : "+r"(x));
        else
            x += 3;
    }
    o->x = x;
}

/* Nanoseconds as rounds: times ten, of about so many a round. */
#define DIVIDE(ns) divide(&o, (ns) * 10 / 45)
#define MULTIPLY(ns) multiply(&o, (ns) * 10 / 27)
#define CHASE(ns) chase(&o, (ns) * 10 / 17)
#define GATHER(ns) gather(&o, (ns) * 10 / 5)
#define WANDER(ns) wander(&o, (ns) * 10 / 40)

static inline void begin(struct own *o) {
    o->x = 1, o->y = 1;
    for (unsigned i = 0; i < 1024; i++)
        o->table[i] = (i * 613 + 7) & 1023;
}

/* Runs two threads and prints something that depends on what they did. */
static void two(void *(*first)(void *), void *(*second)(void *), void *shared, int argc, char **argv) {
    for (int i = 0; i < 2; i++)
        operations[i] = argc > i + 1 ? atol(argv[i + 1]) : 100000;
    pthread_t threads[2];
    void *got[2];
    pthread_create(&threads[0], 0, first, shared);
    pthread_create(&threads[1], 0, second, shared);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &got[i]);
    printf("%d\n", (int)((uintptr_t)got[0] ^ (uintptr_t)got[1]) & 1);
}
