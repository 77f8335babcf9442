/* Two threads work on counters of their own, on one line, and wait for each other between phases. Who waits is
   counted, so that nobody wakes where nobody sleeps: what C++20's atomic waits and barriers do. The count is no lock.
     -DWORK_COUNTED   who works is counted instead, and nobody waits for that
     -DPERMITS        the same by a semaphore that has room for both: what is left is compared and exchanged, given back
                      by an addition
     -DKEPT           with it: in turns, one keeps a permit for as long as the other one takes and gives back the last
                      one many times
     -DTURNS          one works while the other one waits, in turns; who comes to the end of a phase looks at the phase
                      first, and at what a barrier knows beside it */
#include "common.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PHASES = 40, PER_PHASE = 4000, ROUND = 5 };
static pthread_barrier_t start;

#define LINE __attribute__((aligned(128)))
static struct {
	volatile long sum, n;
} own[2] LINE;
static int arrived LINE, phase LINE, waiters LINE;
static int permits LINE = 2;
static volatile long expected[4];

static void wake(void)
{
	if (__atomic_load_n(&waiters, __ATOMIC_SEQ_CST) != 0)
		syscall(SYS_futex, &phase, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void wait_for(int old)
{
	__atomic_fetch_add(&waiters, 1, __ATOMIC_SEQ_CST);
	for (int spins = 0; __atomic_load_n(&phase, __ATOMIC_ACQUIRE) == old; spins++) {
		if (spins < 16)
			sched_yield();
		else
			syscall(SYS_futex, &phase, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
	}
	__atomic_fetch_sub(&waiters, 1, __ATOMIC_RELEASE);
}

static void take(void)
{
#ifdef PERMITS
	int left = __atomic_load_n(&permits, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&permits, &left, left - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
#elif defined WORK_COUNTED
	__atomic_fetch_add(&waiters, 1, __ATOMIC_SEQ_CST);
#endif
}

static void store(long me)
{
	for (int k = 0; k < PER_PHASE; k++) {
		own[me].sum += k;
		own[me].n++;
	}
}

static void give(void)
{
#ifdef PERMITS
	__atomic_fetch_add(&permits, 1, __ATOMIC_RELEASE);
#elif defined WORK_COUNTED
	__atomic_fetch_sub(&waiters, 1, __ATOMIC_RELEASE);
#endif
}

static void work(long me)
{
	take();
	store(me);
	give();
}

/* The threads keep a permit in turns. */
static void keep(long me)
{
	for (int p = 0; p < PHASES; p++) {
		int keeps = p / ROUND % 2 == me;
		if (p % ROUND == 0) {
			pthread_barrier_wait(&start);
			if (keeps)
				take();
			pthread_barrier_wait(&start);
		}
		keeps ? store(me) : work(me);
		if (p % ROUND == ROUND - 1 && keeps)
			give();
	}
}

static void *body(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&start);
#ifdef KEPT
	keep(me);
	return NULL;
#endif
	for (int p = 0; p < PHASES; p++) {
#ifdef TURNS
		if (p % 2 == me)
			work(me);
		__atomic_load_n(&phase, __ATOMIC_ACQUIRE);
		for (int k = 0; k < 4; k++)
			expected[k];
		__atomic_load_n(&phase, __ATOMIC_ACQUIRE);
		for (int k = 0; k < 4; k++)
			expected[k];
#else
		work(me);
#endif
#if !defined WORK_COUNTED && !defined PERMITS
		if (__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST) == 1) {
			__atomic_store_n(&arrived, 0, __ATOMIC_SEQ_CST);
			__atomic_store_n(&phase, p + 1, __ATOMIC_SEQ_CST);
			wake();
		} else {
			wait_for(p);
		}
#endif
	}
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	pthread_barrier_init(&start, NULL, 2);
	for (long k = 0; k < 2; k++)
		pthread_create(&t[k], NULL, body, (void *)k);
	for (int k = 0; k < 2; k++)
		pthread_join(t[k], NULL);
	return 0;
}
