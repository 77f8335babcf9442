/* A queue with a lock at its head and one at its tail: one thread puts, one takes; the ring is large enough that they
   never meet in it. FIXED: head and tail have lines of their own. */
#include "common.h"
#define SIZE 4096
struct queue {
    APART pthread_spinlock_t tail_lock; unsigned tail;
    APART pthread_spinlock_t head_lock; unsigned head;
    _Alignas(64) long items[SIZE];
};
static _Alignas(128) struct queue q;
static void *put(void *arg) {
    struct queue *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&p->tail_lock);
        p->items[p->tail % (SIZE / 2)] = (long)x;
        p->tail++;
        WORK(SECTION_NS);
        pthread_spin_unlock(&p->tail_lock);
    }
    return (void *)(uintptr_t)x;
}
static void *take(void *arg) {
    struct queue *p = arg;
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_spin_lock(&p->head_lock);
        x += (uint64_t)p->items[SIZE / 2 + p->head % (SIZE / 2)];
        p->head++;
        WORK(SECTION_NS);
        pthread_spin_unlock(&p->head_lock);
    }
    return (void *)(uintptr_t)x;
}
int main(int argc, char **argv) {
    pthread_spin_init(&q.tail_lock, 0);
    pthread_spin_init(&q.head_lock, 0);
    two(put, &q, take, &q, argc, argv);
}
