/* A reference count, taken and dropped under a spinlock, beside a name that the other thread reads under its own lock.
   FIXED: lock and count have a line of their own. */
#include "common.h"
struct object {
    long name[4];
    APART pthread_spinlock_t lock;
    long count;
    _Alignas(64) pthread_mutex_t readers;
};
static _Alignas(128) struct object o = {.readers = PTHREAD_MUTEX_INITIALIZER};
static void *counter(void *arg) {
    struct object *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&p->lock);
        p->count += i & 1 ? 1 : -1;
        WORK(SECTION_NS);
        pthread_spin_unlock(&p->lock);
    }
    return (void *)(uintptr_t)x;
}
static void *reader(void *arg) {
    struct object *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(&p->readers);
        x += (uint64_t)(p->name[i & 3] + p->name[(i + 1) & 3]);
        WORK(SECTION_NS);
        pthread_mutex_unlock(&p->readers);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) {
    pthread_spin_init(&o.lock, 0);
    two(counter, &o, reader, &o, argc, argv);
}
