/* Lock-free: two atomic counters side by side. FIXED: a line for each. */
#include "common.h"
struct counter { APART atomic_long count; };
static _Alignas(128) struct counter counters[2];
static void *work(void *arg) {
    struct counter *c = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        atomic_fetch_add(&c->count, 1);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(work, &counters[0], work, &counters[1], argc, argv); }
