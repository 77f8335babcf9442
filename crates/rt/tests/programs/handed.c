/* Objects that go from thread to thread, each of which stores to bytes of its own in them, COUNT times.
   handed MODE [COUNT] [ROUNDS]
   By turns:   queue (a mutex and two conditions)   ring (atomics)   pool (three threads take from one pool)
   At once:    both (two threads go through all objects, and begin with each at the same time)
               beside (they hand objects on by a queue, and store to bytes of their own in a line that nobody hands on)
               seldom (one goes on for ever with one object, the other one comes to it for one fiftieth of its time) */
#include "common.h"
#include <sched.h>

enum { OBJECTS = 8 };
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define APART __attribute__((aligned(64)))
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

static long count = 2000, rounds = 160;
static int done;
static volatile long private_ APART;
static pthread_barrier_t start;
struct job {
	volatile long made, used, checked;
} APART;
static struct job jobs[OBJECTS];

/* A queue under a mutex. */
struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	int first, last;
	struct job *slot[OBJECTS];
};
#define QUEUE { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, { 0 } }
static struct queue free_jobs = QUEUE, full_jobs = QUEUE, pool = QUEUE;

static void put(struct queue *q, struct job *j)
{
	pthread_mutex_lock(&q->mutex);
	q->slot[q->last++ % OBJECTS] = j;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->mutex);
}

static struct job *get(struct queue *q)
{
	pthread_mutex_lock(&q->mutex);
	while (q->first == q->last)
		pthread_cond_wait(&q->filled, &q->mutex);
	struct job *j = q->slot[q->first++ % OBJECTS];
	pthread_mutex_unlock(&q->mutex);
	return j;
}

static void work(volatile long *place)
{
	for (long i = 0; i < count; i++)
		*place += i;
}

/* A ring of one producer and one consumer each way. */
struct ring {
	unsigned head APART, tail APART;
	struct job *slot[OBJECTS] APART;
};
static struct ring there, back;

static void push(struct ring *r, struct job *j)
{
	unsigned t = r->tail;
	while (t - LOAD(&r->head) == OBJECTS)
		sched_yield();
	r->slot[t % OBJECTS] = j;
	STORE(&r->tail, t + 1);
}

static struct job *pop(struct ring *r)
{
	unsigned h = r->head;
	while (LOAD(&r->tail) == h)
		sched_yield();
	struct job *j = r->slot[h % OBJECTS];
	STORE(&r->head, h + 1);
	return j;
}

static int by_ring, beside;
static struct job counts;

static void *makes(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++) {
		struct job *j = by_ring ? pop(&back) : get(&free_jobs);
		work(beside ? &counts.made : &j->made);
		by_ring ? push(&there, j) : put(&full_jobs, j);
	}
	return NULL;
}

static void *uses(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++) {
		struct job *j = by_ring ? pop(&there) : get(&full_jobs);
		work(beside ? &counts.used : &j->used);
		by_ring ? push(&back, j) : put(&free_jobs, j);
	}
	return NULL;
}

static void *takes(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < rounds; i++) {
		struct job *j = get(&pool);
		work(&j->made + me);
		put(&pool, j);
	}
	return NULL;
}

static void *both(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&start);
		work(arg ? &jobs[i % OBJECTS].used : &jobs[i % OBJECTS].made);
	}
	return NULL;
}

static void *seldom(void *arg)
{
	while (!arg && !__atomic_load_n(&done, __ATOMIC_RELAXED))
		work(&jobs[0].made);
	for (int i = 0; arg && i < rounds; i++) {
		for (int k = 0; k < 50; k++)
			work(&private_);
		work(&jobs[0].used);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	count = number(argc, argv, 2, count);
	rounds = number(argc, argv, 3, rounds);
	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < OBJECTS; i++) {
		put(&free_jobs, &jobs[i]);
		put(&pool, &jobs[i]);
		push(&back, &jobs[i]);
	}
	if (!strcmp(mode, "pool"))
		return parallel(3, takes), 0;
	beside = !strcmp(mode, "beside");
	if (!strcmp(mode, "both") || !strcmp(mode, "seldom"))
		return parallel(2, mode[0] == 'b' ? both : seldom), 0;
	by_ring = !strcmp(mode, "ring");
	pthread_t t[2];
	pthread_create(&t[0], NULL, makes, NULL);
	pthread_create(&t[1], NULL, uses, NULL);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	return 0;
}
