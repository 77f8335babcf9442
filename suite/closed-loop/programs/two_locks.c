/* Two counters on one line under two mutexes on lines of their own. FIXED: the counters have lines, too. */
#include "common.h"
struct shared {
    _Alignas(64) pthread_mutex_t la;
    _Alignas(64) pthread_mutex_t lb;
    _Alignas(64) long a;
    APART long b;
};
static _Alignas(128) struct shared s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, 0, 0};
static void *first(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->la);
        p->a++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->la);
    }
    return (void *)(uintptr_t)x;
}
static void *second(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->lb);
        p->b++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->lb);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(first, &s, second, &s, argc, argv); }
