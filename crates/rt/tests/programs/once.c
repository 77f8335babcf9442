/* One thread fills a table once, 300,000 stores, and all four read it after that: once HOW
   HOW is pthread, c11, guard (as C++ guards a static variable), or nothing: each thread fills it. With `late` behind it
   each thread begins after the one before has ended. */
#include "common.h"
#include <dlfcn.h>
#include <threads.h>

extern int __cxa_guard_acquire(long long *guard);
extern void __cxa_guard_release(long long *guard);

static struct { volatile long sum, best; } table __attribute__((aligned(64)));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag flag = ONCE_FLAG_INIT;
static long long guard;
static const char *how;

static int is(const char *name) { return strcmp(how, name) == 0; }

static void fill(void) {
    for (long i = 0; i < 150000; i++) {
        table.sum += i;
        table.best = i;
    }
}

static void come_by(int is_first) {
    if (is("pthread")) pthread_once(&once, fill);
    if (is("c11")) call_once(&flag, fill);
    if (is("guard") && !__atomic_load_n((char *)&guard, __ATOMIC_ACQUIRE) && __cxa_guard_acquire(&guard)) {
        fill();
        __cxa_guard_release(&guard);
    }
    if (is("nothing") && is_first) fill();
}

static void *work(void *arg) {
    long sink = 0;
    volatile long own = 0;
    for (long i = 0; i < (long)arg * 20000; i++) own += i;
    for (int i = 0; i < 300000; i++) {
        if (i % 1000 == 0) come_by(i == 0);
        sink += table.sum + table.best;
    }
    return (void *)sink;
}

int main(int argc, char **argv) {
    pthread_t all[4];
    how = argv[1];
    for (long i = 0; i < 4; i++) {
        pthread_create(&all[i], NULL, work, (void *)i);
        // Nobody says that the next one goes on after it.
        if (argc > 2) usleep(30000);
    }
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    // Nothing of the recorder's is left for the program to find.
    if (dlerror()) puts("dlerror");
    printf("%ld\n", table.sum);
    return 0;
}
