/* Flags that several threads wait for by tickets, and that are no lock: a queue of full and empty cells, from which
   workers take, and a queue of each worker's own to which it gives on. Between the two it stores PER_STEP times to its
   own counter; all counters lie on one line, and all workers are at work at once. */
#include "common.h"
#include <sched.h>

enum { THREADS = 4, STEPS = 200, PER_STEP = 400, CELLS = 8 };
#define LINE __attribute__((aligned(128)))

static volatile long own[THREADS] LINE;
static struct {
	int full LINE;
} jobs[CELLS], done[THREADS][CELLS];
static unsigned head LINE;
static pthread_barrier_t start LINE;

static void wait_for(int *flag, int value)
{
	for (int spins = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value; spins++)
		if (spins % 64 == 63)
			sched_yield();
}

static void *work(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&start);
	for (unsigned k = 0; k < STEPS; k++) {
		unsigned at = __atomic_fetch_add(&head, 1, __ATOMIC_RELAXED) % CELLS;
		wait_for(&jobs[at].full, 1);
		__atomic_store_n(&jobs[at].full, 0, __ATOMIC_RELEASE);
		for (int i = 0; i < PER_STEP; i++)
			own[me]++;
		wait_for(&done[me][k % CELLS].full, 0);
		__atomic_store_n(&done[me][k % CELLS].full, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Fills the jobs and empties what is done. */
static void *serve(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&start);
	for (unsigned tail = 0, taken = 0, k[THREADS] = {0}; taken < THREADS * STEPS; sched_yield()) {
		for (; tail < THREADS * STEPS && !__atomic_load_n(&jobs[tail % CELLS].full, __ATOMIC_ACQUIRE); tail++)
			__atomic_store_n(&jobs[tail % CELLS].full, 1, __ATOMIC_RELEASE);
		for (int t = 0; t < THREADS; t++)
			for (; __atomic_load_n(&done[t][k[t] % CELLS].full, __ATOMIC_ACQUIRE); k[t]++, taken++)
				__atomic_store_n(&done[t][k[t] % CELLS].full, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void *any(void *arg) { return (long)arg < THREADS ? work(arg) : serve(arg); }

int main(void)
{
	pthread_barrier_init(&start, NULL, THREADS + 1);
	parallel(THREADS + 1, any);
	printf("%ld\n", own[0]);
	return 0;
}
