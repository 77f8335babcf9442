/* Messages go through three threads by queues under a mutex. Each stores COUNT times to bytes of its own in them, the
   last one frees them, and the first one gets the same memory again.
   freed aligned|plain [COUNT] [ROUNDS] */
#include "common.h"
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8 };
struct message {
	volatile long made, used, checked;
	char text[100];
};
struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t filled, emptied;
	int first, last;
	struct message *slot[SLOTS];
};
#define QUEUE { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, { 0 } }
static struct queue there __attribute__((aligned(64))) = QUEUE, on __attribute__((aligned(64))) = QUEUE;
static long count = 2000, rounds = 160;
static int aligned_;

static void put(struct queue *q, struct message *m)
{
	pthread_mutex_lock(&q->mutex);
	while (q->last - q->first == SLOTS)
		pthread_cond_wait(&q->emptied, &q->mutex);
	q->slot[q->last++ % SLOTS] = m;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->mutex);
}

static struct message *get(struct queue *q)
{
	pthread_mutex_lock(&q->mutex);
	while (q->first == q->last)
		pthread_cond_wait(&q->filled, &q->mutex);
	struct message *m = q->slot[q->first++ % SLOTS];
	pthread_cond_signal(&q->emptied);
	pthread_mutex_unlock(&q->mutex);
	return m;
}

static void work(volatile long *place)
{
	for (long i = 0; i < count; i++)
		*place += i;
}

static void *makes(void *arg)
{
	(void)arg;
	for (long i = 0; i < rounds; i++) {
		struct message *m = aligned_ ? aligned_alloc(64, 128) : malloc(sizeof *m);
		memset(m, 0, sizeof *m);
		work(&m->made);
		put(&there, m);
	}
	return NULL;
}

static void *passes(void *arg)
{
	(void)arg;
	for (long i = 0; i < rounds; i++) {
		struct message *m = get(&there);
		work(&m->used);
		put(&on, m);
	}
	return NULL;
}

static void *ends(void *arg)
{
	(void)arg;
	for (long i = 0; i < rounds; i++) {
		struct message *m = get(&on);
		work(&m->checked);
		free(m);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	aligned_ = argc > 1 && !strcmp(argv[1], "aligned");
	count = number(argc, argv, 2, count);
	rounds = number(argc, argv, 3, rounds);
	void *(*const ROUTINES[3])(void *) = { makes, passes, ends };
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, ROUTINES[i], NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
