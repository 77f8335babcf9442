/* Lock-free: two plain sums side by side, added to in memory. FIXED: a line for each. */
#include "common.h"
struct sum { APART volatile long sum; };
static _Alignas(128) struct sum sums[2];
static void *work(void *arg) {
    struct sum *s = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        s->sum += (long)(x & 3);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(work, &sums[0], work, &sums[1], argc, argv); }
