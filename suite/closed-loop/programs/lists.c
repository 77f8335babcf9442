/* Each thread pushes and pops on a list of its own under its own mutex; the heads lie side by side. FIXED: apart. */
#include "common.h"
struct node { struct node *next; long value; };
struct list { APART struct node *head; long length; };
struct shared { _Alignas(64) pthread_mutex_t la; _Alignas(64) pthread_mutex_t lb; _Alignas(64) struct list lists[2]; };
static _Alignas(128) struct shared s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, {{0, 0}, {0, 0}}};
static struct { _Alignas(128) struct node nodes[4]; } pools[2];
static void *run(struct list *l, struct node *nodes, pthread_mutex_t *lock) {
    uint64_t x = 1;
    for (long i = operations; i; i--) {
        WORK(THINK_NS);
        pthread_mutex_lock(lock);
        if (l->length < 4) {
            struct node *n = &nodes[l->length++];
            n->next = l->head;
            l->head = n;
        } else {
            l->head = l->head->next;
            l->length--;
        }
        WORK(SECTION_NS);
        pthread_mutex_unlock(lock);
    }
    return (void *)(uintptr_t)x;
}
static void *first(void *arg) { (void)arg; return run(&s.lists[0], pools[0].nodes, &s.la); }
static void *second(void *arg) { (void)arg; return run(&s.lists[1], pools[1].nodes, &s.lb); }
int main(int argc, char **argv) { two(first, 0, second, 0, argc, argv); }
