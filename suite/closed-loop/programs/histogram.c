/* Each thread fills four buckets of its own under its own mutex; all eight lie on one line. FIXED: four a line. */
#include "common.h"
struct shared {
    _Alignas(64) pthread_mutex_t la;
    _Alignas(64) pthread_mutex_t lb;
    _Alignas(64) long low[4];
    APART long high[4];
};
static _Alignas(128) struct shared s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, {0}, {0}};
static void *low(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->la);
        p->low[i & 3]++;
        p->low[(i + 1) & 3]++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->la);
    }
    return (void *)(uintptr_t)x;
}
static void *high(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->lb);
        p->high[i & 3]++;
        p->high[(i + 1) & 3]++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->lb);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(low, &s, high, &s, argc, argv); }
