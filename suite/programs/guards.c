/* Data under a lock made by hand. Each thread has a counter of its own, all on one line, and stores to it PER_SECTION
 * times in a section: the line cannot move more often than the lock changes hands, SECTIONS times at most in all, which
 * is too rare for any layout to matter. -DGUARD chooses the lock. -DBROKEN: the same without it: every store may find
 * the line elsewhere. */
#include "common.h"
#include <stdint.h>

#define TICKET 1
#define TICKET16 2
#define MCS 3
#define CLH 4
#define RWSPIN 5
#define FREE_IS_ONE 6
#define BIT 7
#define ANDERSON 8
#define SEQUENCE 9
#define EXCHANGE_MINUS 10

enum { SECTIONS = 160, PER_SECTION = 2000 };

static volatile long own_count[THREADS_MAX] __attribute__((aligned(128)));

#define LINE __attribute__((aligned(128)))
static void relax(int *spins)
{
	if (++*spins % 64 == 0)
		sched_yield();
}

#if GUARD == TICKET
static struct { unsigned next, serving LINE; } lock LINE;
static void take(long me)
{
	int spins = 0;
	unsigned mine = __atomic_fetch_add(&lock.next, 1, __ATOMIC_RELAXED);
	while (LOAD(&lock.serving) != mine)
		relax(&spins);
}
static void give(long me) { STORE(&lock.serving, __atomic_load_n(&lock.serving, __ATOMIC_RELAXED) + 1); }
#elif GUARD == TICKET16
static union { uint32_t both; struct { uint16_t serving, next; } half; } lock LINE;
static void take(long me)
{
	int spins = 0;
	uint32_t seen = __atomic_fetch_add(&lock.both, 1u << 16, __ATOMIC_ACQUIRE);
	while ((uint16_t)seen != seen >> 16) {
		relax(&spins);
		seen = (seen & 0xffff0000u) | LOAD(&lock.half.serving);
	}
}
static void give(long me) { __atomic_fetch_add(&lock.half.serving, 1, __ATOMIC_RELEASE); }
#elif GUARD == MCS
struct node { struct node *next; int locked; } LINE;
static struct node nodes[THREADS_MAX];
static struct node *tail LINE;
static void take(long me)
{
	int spins = 0;
	struct node *n = &nodes[me];
	__atomic_store_n(&n->next, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&n->locked, 1, __ATOMIC_RELAXED);
	struct node *before = __atomic_exchange_n(&tail, n, __ATOMIC_ACQ_REL);
	if (!before)
		return;
	STORE(&before->next, n);
	while (LOAD(&n->locked))
		relax(&spins);
}
static void give(long me)
{
	int spins = 0;
	struct node *n = &nodes[me], *mine = n, *next = LOAD(&n->next);
	if (!next) {
		if (__atomic_compare_exchange_n(&tail, &mine, NULL, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
		while (!(next = LOAD(&n->next)))
			relax(&spins);
	}
	STORE(&next->locked, 0);
}
#elif GUARD == CLH
struct node { int busy; } LINE;
static struct node nodes[THREADS_MAX + 1], *own[THREADS_MAX], *before[THREADS_MAX], *tail LINE = &nodes[THREADS_MAX];
static void take(long me)
{
	int spins = 0;
	if (!own[me])
		own[me] = &nodes[me];
	__atomic_store_n(&own[me]->busy, 1, __ATOMIC_RELAXED);
	before[me] = __atomic_exchange_n(&tail, own[me], __ATOMIC_ACQ_REL);
	while (LOAD(&before[me]->busy))
		relax(&spins);
}
static void give(long me)
{
	STORE(&own[me]->busy, 0);
	own[me] = before[me];
}
#elif GUARD == RWSPIN
/* Writer: from 0 to -1; readers add 1. */
static int lock LINE;
static void take(long me)
{
	int spins = 0, zero = 0;
	while (!__atomic_compare_exchange_n(&lock, &zero, -1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		zero = 0;
		relax(&spins);
	}
}
static void give(long me) { STORE(&lock, 0); }
#define READERS
static void take_shared(long me)
{
	int spins = 0;
	for (;;) {
		int n = LOAD(&lock);
		if (n >= 0 && __atomic_compare_exchange_n(&lock, &n, n + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		relax(&spins);
	}
}
static void give_shared(long me) { __atomic_fetch_sub(&lock, 1, __ATOMIC_RELEASE); }
#elif GUARD == FREE_IS_ONE
static int lock LINE = 1;
static void take(long me)
{
	int spins = 0;
	while (__atomic_exchange_n(&lock, 0, __ATOMIC_ACQUIRE) != 1)
		relax(&spins);
}
static void give(long me) { STORE(&lock, 1); }
#elif GUARD == BIT
/* Bit 0 of a word whose other bits say something else. */
static unsigned lock LINE = 0xabcd0;
static void take(long me)
{
	int spins = 0;
	while (__atomic_fetch_or(&lock, 1, __ATOMIC_ACQUIRE) & 1)
		relax(&spins);
}
static void give(long me) { __atomic_fetch_and(&lock, ~1u, __ATOMIC_RELEASE); }
#elif GUARD == ANDERSON
static struct { int go LINE; } slots[THREADS_MAX] = {{1}};
static unsigned next LINE;
static struct { unsigned n LINE; } place[THREADS_MAX];
static void take(long me)
{
	int spins = 0;
	place[me].n = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % THREADS_MAX;
	while (!LOAD(&slots[place[me].n].go))
		relax(&spins);
	__atomic_store_n(&slots[place[me].n].go, 0, __ATOMIC_RELAXED);
}
static void give(long me) { STORE(&slots[(place[me].n + 1) % THREADS_MAX].go, 1); }
#elif GUARD == SEQUENCE
/* A sequence lock's writers: odd while one of them writes. */
static unsigned sequence LINE;
static void take(long me)
{
	int spins = 0;
	for (;;) {
		unsigned s = LOAD(&sequence);
		if (!(s & 1) && __atomic_compare_exchange_n(&sequence, &s, s + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		relax(&spins);
	}
}
static void give(long me) { __atomic_fetch_add(&sequence, 1, __ATOMIC_RELEASE); }
#elif GUARD == EXCHANGE_MINUS
/* The owner's number, -1 if there is none. */
static int owner LINE = -1;
static void take(long me)
{
	int spins = 0, none = -1;
	while (!__atomic_compare_exchange_n(&owner, &none, (int)me, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		none = -1;
		relax(&spins);
	}
}
static void give(long me) { STORE(&owner, -1); }
#endif

static void section(long me)
{
	for (int i = 0; i < PER_SECTION; i++)
		own_count[me]++;
}

static void *work(void *arg)
{
	long me = (long)arg;
	for (int k = 0; k < SECTIONS / threads; k++) {
#ifdef READERS
		take_shared(me);
		long sum = own_count[0] + own_count[1];
		give_shared(me);
		(void)sum;
#endif
#ifndef BROKEN
		take(me);
#endif
		section(me);
#ifndef BROKEN
		give(me);
#endif
	}
	return NULL;
}

int main(int argc, char **argv)
{
	arguments(argc, argv);
	run_threads(work);
	truth("handoffs", SECTIONS);
	long sum = 0;
	for (int i = 0; i < threads; i++)
		sum += own_count[i];
	truth("stores", sum);
	return 0;
}
