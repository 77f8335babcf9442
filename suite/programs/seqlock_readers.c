/* A sequence lock with data on one line: one writer at a time stores PER times in each of SECTIONS odd phases, readers
 * copy the data and try again if the sequence moved; while it is odd they wait for it without reading data. So data move
 * at most SECTIONS x threads times. -DBROKEN: writers store their own words without the sequence. */
#include "common.h"
enum { SECTIONS = 160, PER = 2000 };
static volatile long own[THREADS_MAX] __attribute__((aligned(64)));
static struct { unsigned n __attribute__((aligned(128))); } seq;
static struct { int n __attribute__((aligned(128))); } done;
static void *work(void *arg)
{
	long me = (long)arg, sum = 0;
	if (me < 2) {
		for (int k = 0; k < SECTIONS / 2; k++) {
#ifndef BROKEN
			for (int n = 0;; n++) {
				unsigned s = LOAD(&seq.n);
				if (!(s & 1) && __atomic_compare_exchange_n(&seq.n, &s, s + 1, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
				if (n % 64 == 63) sched_yield();
			}
#endif
			for (int i = 0; i < PER; i++) own[me]++;
#ifndef BROKEN
			STORE(&seq.n, __atomic_load_n(&seq.n, __ATOMIC_RELAXED) + 1);
#endif
		}
		ADD(&done.n, 1);
		return NULL;
	}
	while (LOAD(&done.n) < 2) {
		unsigned s = LOAD(&seq.n);
		if (s & 1) { sched_yield(); continue; }
		sum += own[0] + own[1];
		if (LOAD(&seq.n) != s) sum = 0;
		sched_yield();
	}
	return (void *)sum;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("handoffs", SECTIONS * threads); truth("stores", (long)SECTIONS * PER); return 0; }
