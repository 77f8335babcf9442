/*
 * tallyd: counts requests per tenant.
 *
 * One dispatcher (main) makes batches of requests and puts them into a work
 * queue; workers take a batch, look every key up in a table of tenants and
 * keep statistics. Small, but with the bones of a real server.
 */
#ifndef TALLYD_H
#define TALLYD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_MAX 2048
#define QUEUE_MAX 64
#define TENANTS 512

struct batch {
	uint32_t keys[BATCH_MAX];
	int count;
};

/* Bounded queue of batches between the dispatcher and the workers. */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty;
	pthread_cond_t not_full;
	struct batch *slots[QUEUE_MAX];
	unsigned head;
	unsigned tail;
	int closed;
};

/* A tenant's settings: read on every request, written at start-up only. */
struct tenant {
	uint32_t id;
	uint32_t weight;
};

/* Statistics of one worker. Only that worker writes them. */
struct worker_stats {
	unsigned long requests;	/* requests answered */
	unsigned long weight;	/* sum of the tenants' weights */
	unsigned long misses;	/* keys without a tenant */
};

/*
 * Figures of the whole server. The audit lock is taken by each worker now and
 * then; `polls` is bumped by the dispatcher for every key it makes.
 */
struct server_stats {
	unsigned long polls;	/* dispatcher only */
	atomic_int audit_lock;	/* spin lock of the two fields below */
	unsigned audits;
	unsigned long audited_weight;
	char build[40];		/* never written after start-up */
};

/*
 * The shutdown channel: the dispatcher counts what it sent, the first worker
 * what it got. The two counters are 56 bytes apart, so whether they meet in a
 * line depends on where the allocator happens to put the object.
 */
struct channel {
	unsigned long sent;	/* dispatcher only */
	char name[48];
	unsigned long received;	/* worker 0 only */
};

struct server {
	struct queue queue;
	struct tenant *tenants;
	struct worker_stats *stats;	/* one per worker */
	struct server_stats *totals;
	struct channel *channel;
	int workers;
};

struct worker {
	struct server *server;
	int index;
	pthread_t thread;
};

/* Every answer gets the next number: all workers write this one counter. */
extern _Alignas(64) atomic_ulong answer_number;

void queue_init(struct queue *q);
int queue_push(struct queue *q, struct batch *b);
struct batch *queue_pop(struct queue *q);
void queue_close(struct queue *q);

struct tenant *table_create(void);
const struct tenant *table_find(const struct tenant *table, uint32_t key);

void *worker_main(void *arg);

#endif
