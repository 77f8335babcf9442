/* An array of spinlocks with a count and a sum; each thread has its own. FIXED: one line each. */
#include "common.h"
struct stripe { APART pthread_spinlock_t lock; long count; long sum; };
static _Alignas(128) struct stripe stripes[2];
static void *work(void *arg) {
    struct stripe *s = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&s->lock);
        s->count++;
        s->sum += (long)(x & 3);
        WORK(SECTION_NS);
        pthread_spin_unlock(&s->lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 2; i++) pthread_spin_init(&stripes[i].lock, 0);
    two(work, &stripes[0], work, &stripes[1], argc, argv);
}
