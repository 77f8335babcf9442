#include "tallyd.h"

#include <stdlib.h>

_Alignas(64) atomic_ulong answer_number;

static void audit(struct server_stats *totals, const struct worker_stats *stats)
{
	int unlocked = 0;

	while (!atomic_compare_exchange_weak_explicit(&totals->audit_lock, &unlocked, 1, memory_order_acquire,
						      memory_order_relaxed))
		unlocked = 0;
	totals->audits++;
	totals->audited_weight += stats->weight & 0xff;
	atomic_store_explicit(&totals->audit_lock, 0, memory_order_release);
}

static void serve(struct server *s, struct worker_stats *stats, uint32_t key)
{
	const struct tenant *t = table_find(s->tenants, key);

	stats->requests++;
	if (t)
		stats->weight += t->weight;
	else
		stats->misses++;
}

void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct server *s = w->server;
	struct worker_stats *stats = &s->stats[w->index];
	struct batch *b;

	while ((b = queue_pop(&s->queue)) != NULL) {
		for (int i = 0; i < b->count; i++) {
			serve(s, stats, b->keys[i]);
			/* An answer goes out for every sixteenth request. */
			if (i % 16 == 15)
				atomic_fetch_add(&answer_number, 1);
			if (i % 32 == 31)
				audit(s->totals, stats);
			if (w->index == 0)
				*(volatile unsigned long *)&s->channel->received += 1;
			/* Statistics are visible to other threads at once. */
			atomic_signal_fence(memory_order_seq_cst);
		}
		free(b);
	}
	return NULL;
}
