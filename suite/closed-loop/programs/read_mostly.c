/* One thread counts under its mutex; the other reads a limit, on the line of that count, under its own. FIXED: the
   limit has a line of its own. */
#include "common.h"
struct shared {
    _Alignas(64) pthread_mutex_t la;
    _Alignas(64) pthread_mutex_t lb;
    _Alignas(64) long hits;
    APART long limit;
};
static _Alignas(128) struct shared s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, 0, 7};
static void *writer(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->la);
        p->hits++;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->la);
    }
    return (void *)(uintptr_t)x;
}
static void *reader(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->lb);
        x += (uint64_t)p->limit;
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->lb);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) { two(writer, &s, reader, &s, argc, argv); }
