/* One mutex for both threads, its data beside it. FIXED: the data has a line of its own. */
#include "common.h"
struct shared { _Alignas(64) pthread_mutex_t lock; APART long a; long b; };
static _Alignas(128) struct shared s = {PTHREAD_MUTEX_INITIALIZER, 0, 0};
static void *work(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->lock);
        p->a++;
        p->b += (long)(x & 1);
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(work, &s, work, &s, argc, argv); }
