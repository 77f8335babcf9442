/* A table whose stripes have spin locks, 4 bytes each in one array. Every thread works on a stripe of its own, so no
 * lock is ever waited for: 50,000 x 2 stores each to words of one line. Fixed: one line per lock. */
#include "common.h"
struct lock { int word; } APART;
static struct lock locks[THREADS_MAX] __attribute__((aligned(64)));
static struct { long keys[32]; } __attribute__((aligned(64))) stripes[THREADS_MAX];
static void *work(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < 50000; i++) {
		while (__atomic_exchange_n(&locks[me].word, 1, __ATOMIC_ACQUIRE)) sched_yield();
		stripes[me].keys[i % 32] += i;
		__atomic_store_n(&locks[me].word, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}
int main(int argc, char **argv) { arguments(argc, argv); run_threads(work); truth("stores", 100000L * threads); return 0; }
