#include "tallyd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* xorshift32: the same keys in every run. */
static uint32_t next_key(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

static void dispatch(struct server *s, unsigned long batches)
{
	uint32_t state = 2463534242u;

	for (unsigned long n = 0; n < batches; n++) {
		struct batch *b = malloc(sizeof(*b));

		if (!b)
			break;
		b->count = BATCH_MAX;
		for (int i = 0; i < BATCH_MAX; i++) {
			b->keys[i] = next_key(&state);
			s->totals->polls++;
			s->channel->sent++;
			atomic_signal_fence(memory_order_seq_cst);
		}
		if (queue_push(&s->queue, b) < 0) {
			free(b);
			break;
		}
	}
	queue_close(&s->queue);
}

static int server_init(struct server *s, int workers)
{
	memset(s, 0, sizeof(*s));
	queue_init(&s->queue);
	s->workers = workers;
	s->tenants = table_create();
	s->stats = calloc(workers, sizeof(*s->stats));
	s->totals = calloc(1, sizeof(struct server_stats));
	s->channel = calloc(1, sizeof(struct channel));
	if (!s->tenants || !s->stats || !s->totals || !s->channel)
		return -1;
	strcpy(s->totals->build, __DATE__);
	strcpy(s->channel->name, "shutdown");
	return 0;
}

static void print_totals(const struct server *s)
{
	struct worker_stats sum = {0};

	for (int i = 0; i < s->workers; i++) {
		sum.requests += s->stats[i].requests;
		sum.weight += s->stats[i].weight;
		sum.misses += s->stats[i].misses;
	}
	printf("requests %lu weight %lu misses %lu answers %lu audits %u polls %lu\n", sum.requests, sum.weight,
	       sum.misses, atomic_load(&answer_number), s->totals->audits, s->totals->polls);
}

/* tallyd [BATCHES] [WORKERS] */
int main(int argc, char **argv)
{
	unsigned long batches = argc > 1 ? strtoul(argv[1], NULL, 10) : 12000;
	int workers = argc > 2 ? atoi(argv[2]) : 4;
	struct server server;
	struct worker *w;

	if (workers < 1 || workers > 256 || server_init(&server, workers) < 0) {
		fprintf(stderr, "usage: tallyd [BATCHES] [WORKERS, 1 to 256]\n");
		return 2;
	}
	w = calloc(workers, sizeof(*w));
	if (!w)
		return 1;
	for (int i = 0; i < workers; i++) {
		w[i] = (struct worker){.server = &server, .index = i};
		if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]))
			return 1;
	}
	dispatch(&server, batches);
	for (int i = 0; i < workers; i++)
		pthread_join(w[i].thread, NULL);
	print_totals(&server);
	free(w);
	free(server.channel);
	free(server.totals);
	free(server.stats);
	free(server.tenants);
	return 0;
}
