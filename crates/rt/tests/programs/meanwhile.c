/* Threads that are not seen at the same time on one CPU, and that nothing keeps from it.   meanwhile MODE
   ring      a producer and a consumer with an index each, beside each other; who waits does so for room or for elements
   sampled   two counters beside each other; the first thread reads both every 2,000 of its own additions
   permits   a semaphore of two permits, two threads that count beside each other under one
   bits      64 threads take and return bits of one word: what looks like a lock that many have at once */
#include "common.h"
#include <sched.h>
#include <semaphore.h>

enum { SIZE = 1024, STEPS = 100000 };
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
struct line { volatile long n[8]; };
struct line side __attribute__((aligned(64)));
struct { unsigned long head, tail; } ends __attribute__((aligned(64)));
unsigned long bits __attribute__((aligned(64)));
static sem_t permit;
static pthread_barrier_t start;

static void *ring(void *arg)
{
	unsigned long *mine = arg ? &ends.tail : &ends.head, *others = arg ? &ends.head : &ends.tail, seen = 0;
	for (unsigned long at = 0; at < STEPS; at++) {
		while (arg ? at >= seen : at - seen >= SIZE)
			if (seen = LOAD(others), arg ? at >= seen : at - seen >= SIZE)
				sched_yield();
		STORE(mine, at + 1);
	}
	return NULL;
}

static void *sampled(void *arg)
{
	long me = (long)arg, sum = 0;
	pthread_barrier_wait(&start);
	for (int i = 0; i < STEPS; i++) {
		__atomic_store_n(&side.n[me], side.n[me] + 1, __ATOMIC_RELAXED);
		if (me == 0 && i % 2000 == 0)
			sum += __atomic_load_n(&side.n[0], __ATOMIC_RELAXED) + __atomic_load_n(&side.n[1], __ATOMIC_RELAXED);
	}
	return (void *)sum;
}

static void *permits(void *arg)
{
	pthread_barrier_wait(&start);
	for (int i = 0; i < STEPS / 2000; i++) {
		sem_wait(&permit);
		for (int k = 0; k < 2000; k++)
			side.n[(long)arg]++;
		sem_post(&permit);
	}
	return NULL;
}

static void *take_bits(void *arg)
{
	for (int i = 0; i < STEPS / 4; i++) {
		unsigned long bit = 1ul << ((i * 7 + (long)arg * 13) % 64);
		__atomic_fetch_or(&bits, bit, __ATOMIC_ACQUIRE);
		__atomic_fetch_and(&bits, ~bit, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_barrier_init(&start, NULL, 2);
	sem_init(&permit, 0, 2);
	if (!strcmp(mode, "bits"))
		return parallel(64, take_bits), 0;
	return parallel(2, !strcmp(mode, "ring") ? ring : !strcmp(mode, "permits") ? permits : sampled), 0;
}
