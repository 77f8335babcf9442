/* A writer changes a value under a sequence count and its lock; the other thread counts on the same line under a lock of
   its own. FIXED: the count of the other thread has a line of its own. */
#include "common.h"
struct shared {
    _Alignas(64) pthread_spinlock_t write_lock;
    _Alignas(64) pthread_spinlock_t other_lock;
    _Alignas(64) atomic_ulong sequence;
    long value;
    APART long other;
};
static _Alignas(128) struct shared s;
static void *writer(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&p->write_lock);
        atomic_fetch_add(&p->sequence, 1);
        p->value = (long)x;
        atomic_fetch_add(&p->sequence, 1);
        WORK(SECTION_NS);
        pthread_spin_unlock(&p->write_lock);
    }
    return (void *)(uintptr_t)x;
}
static void *other(void *arg) {
    struct shared *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&p->other_lock);
        p->other++;
        WORK(SECTION_NS);
        pthread_spin_unlock(&p->other_lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) {
    pthread_spin_init(&s.write_lock, 0);
    pthread_spin_init(&s.other_lock, 0);
    two(writer, &s, other, &s, argc, argv);
}
