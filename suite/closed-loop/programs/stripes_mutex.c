/* An array of mutexes with their counts; each thread has its own. FIXED: one line each. */
#include "common.h"
struct stripe { APART pthread_mutex_t lock; long count; };
static _Alignas(128) struct stripe stripes[2];
static void *work(void *arg) {
    struct stripe *s = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&s->lock);
        s->count++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&s->lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 2; i++) pthread_mutex_init(&stripes[i].lock, 0);
    two(work, &stripes[0], work, &stripes[1], argc, argv);
}
