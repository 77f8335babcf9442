/* Memory that goes from thread to thread: one's free gives it to the next one's malloc. The threads take turns by a word
 * that the recorder does not see, so to its clocks they all run at once.
 *
 * reuse TURNS N handed: each turn is a block of a thread's own, used N times, or, `handed`, one that the other thread
 * used as often meanwhile, and frees.
 */
#include "common.h"
#include <malloc.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#define THREADS 4
#define BYTES 4096
static volatile int turn;
static long turns, n;
static uintptr_t seen[1024];
static volatile long *handed_over;

__attribute__((no_sanitize("thread"))) static void await(int mine) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine) sched_yield();
}
__attribute__((no_sanitize("thread"))) static void next(int other) {
    __atomic_store_n(&turn, other, __ATOMIC_RELEASE);
}
__attribute__((no_sanitize("thread"))) static void note(long k, volatile long *block) {
    seen[k] = (uintptr_t)block;
}
__attribute__((no_sanitize("thread"))) static volatile long *take(void) { return handed_over; }
__attribute__((no_sanitize("thread"))) static void give(volatile long *block) { handed_over = block; }

/* What malloc keeps for a thread must not lie where the first block lay. Turn 0 comes when all have been here. Nor may
 * it be given back before the last turn: where it lies on top, the next block would lie lower. So nobody ends before.
 */
static void warm_up(int me, int threads) {
    await(me - threads);
    void *volatile some = malloc(16); /* a pair that the compiler sees through, it drops */
    free(some);
    next(me + 1 - threads);
}

static void use(volatile long *block, long word) {
    for (long i = 0; i < n; i++) block[word]++;
}

static void *alone(void *arg) {
    long me = (long)arg;
    warm_up(me, THREADS);
    for (long k = 0; k < turns; k++) {
        await(k * THREADS + me);
        volatile long *block = malloc(BYTES);
        note(k * THREADS + me, block);
        use(block, 8 + me);
        free((void *)block);
        next(k * THREADS + me + 1);
    }
    await(turns * THREADS);
    return NULL;
}

/* Both use what the first one made; the second one frees it, and has it for itself the next time. */
static void *pair(void *arg) {
    long me = (long)arg;
    warm_up(me, 2);
    for (long k = 0; k < turns; k++) {
        if (me == 0) {
            await(k * 2);
            volatile long *block = malloc(BYTES);
            note(k * 2, block);
            give(block);
            use(block, 8);
            next(k * 2 + 1);
            continue;
        }
        await(k * 2 + 1);
        volatile long *block = take();
        use(block, 9);
#ifndef FRESH
        free((void *)block);
#endif
        block = malloc(BYTES);
        note(k * 2 + 1, block);
        use(block, 10);
#ifndef FRESH
        free((void *)block);
#endif
        next(k * 2 + 2);
    }
    await(turns * 2);
    return NULL;
}

int main(int argc, char **argv) {
    turns = number(argc, argv, 1, 1);
    n = number(argc, argv, 2, 1000);
    int handed = number(argc, argv, 3, 0) != 0;
    mallopt(M_ARENA_MAX, 1);
    turn = handed ? -2 : -THREADS;
    parallel(handed ? 2 : THREADS, handed ? pair : alone);
    long count = turns * (handed ? 2 : THREADS), most = 0;
    for (long k = 0; k < count; k++) {
        long same = 0;
        for (long j = 0; j < count; j++) same += seen[j] == seen[k];
        if (same > most) most = same;
    }
    printf("%ld of %ld\n", most, count);
    return 0;
}
