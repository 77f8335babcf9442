/* Per-thread counters, a lock beside the data that others read, and a queue of one producer and one consumer.
 * The same program as ../cxx/jobs.cc and ../rust/jobs.rs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 40000, SLOTS = 256 };

struct counter {
	volatile long done;
	volatile long failed;
};

struct table {
	pthread_spinlock_t lock;
	long entries;
	volatile long limit;
	long changes;
};

struct queue {
	volatile long head;
	volatile long tail;
	long *slots;
};

static struct counter *counters;
static struct table *table;
static struct queue *queue;

static void *work(void *p)
{
	struct counter *own = &counters[(long)p];
	for (long i = 0; i < ROUNDS; i++) {
		if (i % 3)
			own->done++;
		else
			own->failed++;
	}
	return NULL;
}

static void *change(void *p)
{
	for (long i = 0; i < ROUNDS; i++) {
		pthread_spin_lock(&table->lock);
		table->entries++;
		table->changes += i & 1;
		pthread_spin_unlock(&table->lock);
	}
	return p;
}

static void *look(void *p)
{
	long sum = 0;
	for (long i = 0; i < 4 * ROUNDS; i++)
		sum += table->limit;
	return sum == 1 ? p : NULL;
}

static void *produce(void *p)
{
	for (long i = 0; i < ROUNDS; i++) {
		queue->slots[i % SLOTS] = i;
		queue->tail++;
	}
	return p;
}

static void *consume(void *p)
{
	for (long i = 0; i < ROUNDS; i++)
		queue->head++;
	return p;
}

static void run(void *(*one)(void *), void *(*other)(void *), int n)
{
	pthread_t t[THREADS];
	for (long i = 0; i < n; i++)
		pthread_create(&t[i], NULL, i % 2 ? other : one, (void *)i);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

int main(void)
{
	counters = calloc(THREADS, sizeof *counters);
	table = calloc(1, sizeof *table);
	queue = calloc(1, sizeof *queue);
	queue->slots = calloc(SLOTS, sizeof *queue->slots);
	pthread_spin_init(&table->lock, PTHREAD_PROCESS_PRIVATE);
	run(work, work, THREADS);
	run(change, look, 2);
	run(produce, consume, 2);
	long done = 0, failed = 0;
	for (int i = 0; i < THREADS; i++) {
		done += counters[i].done;
		failed += counters[i].failed;
	}
	printf("%ld %ld %ld %ld %ld\n", done, failed, table->entries, queue->tail, queue->head);
	return 0;
}
