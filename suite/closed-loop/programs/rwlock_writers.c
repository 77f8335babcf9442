/* Two reader-writer locks in one struct, each written by a thread of its own. FIXED: a line for each. */
#include "common.h"
struct half { APART pthread_rwlock_t lock; long value; };
static _Alignas(128) struct half halves[2] = {{PTHREAD_RWLOCK_INITIALIZER, 0}, {PTHREAD_RWLOCK_INITIALIZER, 0}};
static void *work(void *arg) {
    struct half *h = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_rwlock_wrlock(&h->lock);
        h->value += (long)(x & 1);
        WORK(SECTION_NS);
        pthread_rwlock_unlock(&h->lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(work, &halves[0], work, &halves[1], argc, argv); }
