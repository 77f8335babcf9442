/* Two threads store to neighbouring words, 300,000 times each: gates MODE
   The second goes on after the first: joined   main joins the first and opens a gate on which the second spins
                                       handed   the first tells main, which tells the second
                                       unseen   the second sleeps on a word that no instrumented code touches
   By turns, two each, on a word that no instrumented code touches and that counts, 0, 1, 2, 3: counted
   Both at once:                       together
   Two threads, each with a spin lock of its own, side by side, for which nobody ever waits: own
   Three threads, of which anybody sets a flag and anybody clears it, which keeps nobody out: dirty */
#include "common.h"
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>

#define UNSEEN __attribute__((noinline, no_sanitize_thread))
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

static struct { volatile long value[8]; } board __attribute__((aligned(64)));
static int gate[2][16] __attribute__((aligned(64)));
static int dirty __attribute__((aligned(64)));
static int parked __attribute__((aligned(64)));
static const char *mode;

static int is(const char *name) { return strcmp(mode, name) == 0; }

static void spin_on(int *word) {
    while (!LOAD(word)) sched_yield();
}

UNSEEN static void park(void) {
    while (!LOAD(&parked)) syscall(SYS_futex, &parked, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

UNSEEN static void unpark(void) {
    STORE(&parked, 1);
    syscall(SYS_futex, &parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

UNSEEN static void until_turn(int turn) {
    for (int now; (now = LOAD(&parked)) != turn;)
        syscall(SYS_futex, &parked, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

UNSEEN static void next_turn(void) {
    __atomic_fetch_add(&parked, 1, __ATOMIC_ACQ_REL);
    syscall(SYS_futex, &parked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void store_to(volatile long *place) {
    for (int i = 0; i < 300000; i++) *place = i;
}

static void *by_turns(void *arg) {
    for (int turn = (long)arg; turn < 4; turn += 2) {
        until_turn(turn);
        /* The other one is asleep when this turn ends. */
        usleep(20000);
        store_to(&board.value[(long)arg]);
        next_turn();
    }
    return arg;
}

static void *first(void *arg) {
    store_to(&board.value[0]);
    if (is("handed")) STORE(gate[0], 1);
    if (is("unseen")) unpark();
    return arg;
}

static void *second(void *arg) {
    if (is("joined") || is("handed")) spin_on(gate[1]);
    if (is("unseen")) park();
    store_to(&board.value[1]);
    return arg;
}

static void *locks_its_own(void *arg) {
    int *lock = (int *)&board + (long)arg;
    static volatile long data[2][8] __attribute__((aligned(64)));
    for (int i = 0; i < 300000; i++) {
        while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
        data[(long)arg][i % 8] += i;
        STORE(lock, 0);
    }
    return arg;
}

static void *sets_and_clears(void *arg) {
    volatile long *mine = &board.value[(long)arg];
    for (int round = 0; round < 5000; round++) {
        int clean = 0;
        __atomic_compare_exchange_n(&dirty, &clean, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        for (int i = 0; i < 40; i++) *mine = i;
        if (round % 16 == 0) __atomic_exchange_n(&dirty, 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t a, b;
    mode = argc > 1 ? argv[1] : "together";
    if (is("dirty")) return parallel(3, sets_and_clears), 0;
    if (is("own")) return parallel(2, locks_its_own), 0;
    if (is("counted")) return parallel(2, by_turns), 0;
    pthread_create(&b, NULL, second, NULL);
    if (is("unseen")) usleep(20000);
    pthread_create(&a, NULL, first, NULL);
    if (is("handed")) spin_on(gate[0]);
    if (!is("handed")) pthread_join(a, NULL);
    STORE(gate[1], 1);
    pthread_join(b, NULL);
    if (is("handed")) pthread_join(a, NULL);
    return 0;
}
