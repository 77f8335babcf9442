/* A lock-free stack: threads push and pop the same 64 nodes, which go from hand to hand whole. Each node has a line of
 * its own; the head is everybody's. */
#include "common.h"
#include <stdint.h>
#define NODES 64
struct item {
	struct item *next;
	volatile long uses;
} __attribute__((aligned(64)));
static struct item items[NODES];
/* Index of the first node and a count against reuse. */
static uint64_t head __attribute__((aligned(64)));
static struct item *pop(void)
{
	for (;;) {
		uint64_t old = LOAD(&head);
		uint32_t at = (uint32_t)old;
		if (at == 0)
			return NULL;
		struct item *next = LOAD(&items[at - 1].next);
		uint64_t after = ((old >> 32) + 1) << 32 | (next ? (uint64_t)(next - items) + 1 : 0);
		if (__atomic_compare_exchange_n(&head, &old, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &items[at - 1];
	}
}
static void push(struct item *item)
{
	for (;;) {
		uint64_t old = LOAD(&head);
		uint32_t at = (uint32_t)old;
		STORE(&item->next, at ? &items[at - 1] : NULL);
		uint64_t after = ((old >> 32) + 1) << 32 | ((uint64_t)(item - items) + 1);
		if (__atomic_compare_exchange_n(&head, &old, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
	}
}
static void *work(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		struct item *mine = pop();
		if (mine) {
			mine->uses++;
			push(mine);
		}
	}
	return NULL;
}
int main(int argc, char **argv)
{
	arguments(argc, argv);
	for (int i = 0; i < NODES; i++)
		push(&items[i]);
	run_threads(work);
	truth("stores", 20000L * 4 * threads);
	return 0;
}
